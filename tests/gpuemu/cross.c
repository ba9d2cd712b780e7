/* cross.c - instructions that carry values between lanes, or between lanes and scalar registers. */
#include <string.h>

#include "gpuemu/inst.h"

static bool readlane(rf_emu_wave *w, const rf_emu_inst *i) {
    uint32_t lane = rf_emu_word(w, &i->o[2]) & (w->n - 1);
    if (i->o[0].reg != RF_EMU_NULL) w->s[i->o[0].reg] = rf_emu_row(w, &i->o[1])[lane];
    return true;
}

static bool readfirstlane(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t exec = rf_emu_mask(w, RF_EMU_EXEC);
    int lane = exec ? __builtin_ctzll(exec) : 0;
    uint32_t x =
        i->o[1].place == RF_EMU_VGPR ? rf_emu_row(w, &i->o[1])[lane] : rf_emu_word(w, &i->o[1]);
    if (i->o[0].reg != RF_EMU_NULL) w->s[i->o[0].reg] = x;
    return true;
}

static bool writelane(rf_emu_wave *w, const rf_emu_inst *i) {
    uint32_t lane = rf_emu_word(w, &i->o[2]) & (w->n - 1);
    rf_emu_row(w, &i->o[0])[lane] = rf_emu_word(w, &i->o[1]);
    return true;
}

/* Stores row t in the lanes of mask. */
static bool store(rf_emu_wave *w, const rf_emu_inst *i, const uint32_t *t, uint64_t mask) {
    uint32_t *to = rf_emu_row(w, &i->o[0]);
    for (uint32_t l = 0; l < w->n; l++)
        if (mask >> l & 1) to[l] = t[l];
    w->lane_ops += (uint32_t)__builtin_popcountll(mask);
    return true;
}

/* Each lane of a row of 16 picks a lane of its row (arg 0) or of the neighbouring row (16); op_sel
 * says what a fetch from an inactive lane gives. */
static bool permlane16(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t exec = rf_emu_mask(w, RF_EMU_EXEC), write = 0;
    uint64_t pick = rf_emu_word(w, &i->o[2]) | (uint64_t)rf_emu_word(w, &i->o[3]) << 32;
    bool inactive = i->op_sel & 1, bound = i->op_sel >> 1 & 1;
    const uint32_t *from = rf_emu_row(w, &i->o[1]);
    uint32_t t[RF_EMU_ROW] = {0};
    for (uint32_t l = 0; l < w->n; l++) {
        uint32_t q = ((l & ~15u) ^ i->op->arg) | (uint32_t)(pick >> 4 * (l & 15) & 15);
        bool valid = inactive || (exec >> q & 1);
        if (valid) t[l] = from[q];
        if ((valid || bound) && (exec >> l & 1)) write |= 1ull << l;
    }
    return store(w, i, t, write);
}

static bool permlane64(rf_emu_wave *w, const rf_emu_inst *i) {
    const uint32_t *from = rf_emu_row(w, &i->o[1]);
    uint32_t t[RF_EMU_ROW] = {0};
    for (uint32_t l = 0; l < w->n; l++)
        t[l] = from[w->n == 64 ? l ^ 32 : l];
    return store(w, i, t, rf_emu_mask(w, RF_EMU_EXEC));
}

/* Swaps the odd rows of arg lanes of the first register with the even rows of the second. */
static bool permlane_swap(rf_emu_wave *w, const rf_emu_inst *i) {
    uint32_t *a = rf_emu_row(w, &i->o[0]), *b = rf_emu_row(w, &i->o[1]);
    for (uint32_t l = 0; l < w->n; l++) {
        if (!(l & i->op->arg)) continue;
        uint32_t x = a[l];
        a[l] = b[l ^ i->op->arg];
        b[l ^ i->op->arg] = x;
    }
    return true;
}

/* ds_bpermute: each lane reads the lane that its address names; ds_permute: each lane writes it. */
static bool bpermute(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t exec = rf_emu_mask(w, RF_EMU_EXEC);
    const uint32_t *at = rf_emu_row(w, &i->o[1]), *from = rf_emu_row(w, &i->o[2]);
    uint32_t t[RF_EMU_ROW];
    for (uint32_t l = 0; l < w->n; l++) {
        uint32_t q = (at[l] + (uint32_t)i->offset) >> 2 & (w->n - 1);
        t[l] = exec >> q & 1 ? from[q] : 0;
    }
    return store(w, i, t, exec);
}

static bool permute(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t exec = rf_emu_mask(w, RF_EMU_EXEC);
    const uint32_t *at = rf_emu_row(w, &i->o[1]), *from = rf_emu_row(w, &i->o[2]);
    uint32_t t[RF_EMU_ROW] = {0};
    for (uint32_t l = 0; l < w->n; l++)
        if (exec >> l & 1) t[(at[l] + (uint32_t)i->offset) >> 2 & (w->n - 1)] = from[l];
    return store(w, i, t, exec);
}

static bool swizzle(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t exec = rf_emu_mask(w, RF_EMU_EXEC);
    uint32_t f = (uint32_t)i->offset, t[RF_EMU_ROW];
    const uint32_t *from = rf_emu_row(w, &i->o[1]);
    for (uint32_t l = 0; l < w->n; l++) {
        uint32_t k = l & 31;
        uint32_t q = f & 0x8000 ? (l & ~3u) | (f >> 2 * (l & 3) & 3)
                                : (l & ~31u) | (((k & (f & 31)) | (f >> 5 & 31)) ^ (f >> 10 & 31));
        t[l] = exec >> q & 1 ? from[q] : 0;
    }
    return store(w, i, t, exec);
}

#define R(name_, fn_, arg_) \
    { .name = name_, .run = fn_, .arg = arg_ }

const rf_emu_op rf_emu_ops_cross[] = {
    R("v_readlane_b32", readlane, 0),
    R("v_readfirstlane_b32", readfirstlane, 0),
    R("v_writelane_b32", writelane, 0),
    R("v_permlane16_b32", permlane16, 0),
    R("v_permlanex16_b32", permlane16, 16),
    R("v_permlane64_b32", permlane64, 0),
    R("v_permlane16_swap_b32", permlane_swap, 16),
    R("v_permlane32_swap_b32", permlane_swap, 32),
    R("ds_bpermute_b32", bpermute, 0),
    R("ds_permute_b32", permute, 0),
    R("ds_swizzle_b32", swizzle, 0),
    {0},
};
