/* lds.c - loads, stores and atomics on a block's shared memory, with a shadow of every byte.
 *
 * Time in a block is counted in epochs, one between two barriers.  Two waves that touch the same byte
 * in one epoch, at least one of them writing, race; a byte read before any write of this block is
 * uninitialised.  Atomics race with plain accesses, not with each other. */
#include <stdio.h>
#include <string.h>

#include "gpuemu/inst.h"

static bool in_bounds(rf_emu_wave *w, const rf_emu_inst *i, uint32_t at, uint32_t bytes,
                      const char *what) {
    if ((uint64_t)at + bytes <= w->block->lds_bytes) return true;
    return rf_emu_fault(w, i, "LDS %s of %u bytes at %u, but the block has %u", what, bytes, at,
                        w->block->lds_bytes);
}

static bool race(rf_emu_wave *w, const rf_emu_inst *i, uint32_t at, const char *mine, uint32_t tag,
                 const char *theirs) {
    uint32_t who = tag & 0xff;
    char other[24] = "several waves";
    if (who == RF_EMU_ATOMIC)
        snprintf(other, sizeof other, "an atomic");
    else if (who != RF_EMU_MANY)
        snprintf(other, sizeof other, "wave %u", who);
    return rf_emu_fault(w, i, "LDS race at %u: %s what %s %s since the last barrier", at, mine,
                        other, theirs);
}

/* Has another one than me used the byte in this epoch? */
static bool foreign(const rf_emu_block *b, uint32_t tag, uint32_t me) {
    return tag >> 8 == b->epoch && (tag & 0xff) != me;
}

/* The first byte that makes an access wrong, in words. */
static bool blame_read(rf_emu_wave *w, const rf_emu_inst *i, uint32_t at) {
    const rf_emu_block *b = w->block;
    uint32_t oldest = b->launch->rubbish_lds ? 0 : b->first_epoch;
    while (b->written[at] >> 8 >= oldest && !foreign(b, b->written[at], w->id))
        at++;
    if (b->written[at] >> 8 < oldest)
        return rf_emu_fault(w, i, "LDS byte %u is read, but was never written", at);
    return race(w, i, at, "reads", b->written[at], "wrote");
}

static bool blame_write(rf_emu_wave *w, const rf_emu_inst *i, uint32_t at) {
    const rf_emu_block *b = w->block;
    while (!foreign(b, b->written[at], w->id) && !foreign(b, b->read[at], w->id))
        at++;
    if (foreign(b, b->written[at], w->id)) return race(w, i, at, "writes", b->written[at], "wrote");
    return race(w, i, at, "writes", b->read[at], "read");
}

/* Without early exits, so that the compiler makes vector operations of the loops. */
static bool reads(rf_emu_wave *w, const rf_emu_inst *i, uint32_t at, uint32_t bytes) {
    if (!in_bounds(w, i, at, bytes, "load")) return false;
    const rf_emu_block *b = w->block;
    const uint32_t *restrict written = b->written + at;
    uint32_t *restrict read = b->read + at;
    uint32_t oldest = b->launch->rubbish_lds ? 0 : b->first_epoch << 8;
    uint32_t now = b->epoch << 8, mine = now | w->id, bad = 0;
    for (uint32_t k = 0; k < bytes; k++) {
        bad |= (uint32_t)(written[k] < oldest) |
               ((uint32_t)(written[k] >= now) & (uint32_t)(written[k] != mine));
        read[k] = read[k] >= now && read[k] != mine ? now | RF_EMU_MANY : mine;
    }
    return bad ? blame_read(w, i, at) : true;
}

static bool writes(rf_emu_wave *w, const rf_emu_inst *i, uint32_t at, uint32_t bytes) {
    if (!in_bounds(w, i, at, bytes, "store")) return false;
    const rf_emu_block *b = w->block;
    uint32_t *restrict written = b->written + at;
    const uint32_t *restrict read = b->read + at;
    uint32_t now = b->epoch << 8, mine = now | w->id, bad = 0;
    for (uint32_t k = 0; k < bytes; k++)
        bad |= ((uint32_t)(written[k] >= now) & (uint32_t)(written[k] != mine)) |
               ((uint32_t)(read[k] >= now) & (uint32_t)(read[k] != mine));
    if (bad) return blame_write(w, i, at);
    for (uint32_t k = 0; k < bytes; k++)
        written[k] = mine;
    return true;
}

static bool updates(rf_emu_wave *w, const rf_emu_inst *i, uint32_t at, uint32_t bytes) {
    if (!in_bounds(w, i, at, bytes, "atomic")) return false;
    const rf_emu_block *b = w->block;
    if (at % bytes) return rf_emu_fault(w, i, "LDS atomic at %u, not a multiple of %u", at, bytes);
    for (uint32_t k = at; k < at + bytes; k++) {
        uint32_t tag = b->written[k];
        if (tag >> 8 < b->first_epoch)
            return rf_emu_fault(w, i, "LDS byte %u is updated, but was never written", k);
        if (foreign(b, tag, RF_EMU_ATOMIC) && (tag & 0xff) != w->id)
            return race(w, i, k, "updates", tag, "wrote");
        if (foreign(b, b->read[k], w->id)) return race(w, i, k, "updates", b->read[k], "read");
        b->written[k] = b->epoch << 8 | RF_EMU_ATOMIC;
    }
    return true;
}

static bool load(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t exec = rf_emu_mask(w, RF_EMU_EXEC);
    uint32_t bytes = i->op->arg & RF_EMU_BYTES, at[RF_EMU_ROW];
    memcpy(at, rf_emu_row(w, &i->o[1]), w->n * sizeof *at); /* may be overwritten */
    for (uint32_t l = 0; l < w->n; l++) {
        if (!(exec >> l & 1)) continue;
        uint32_t a = at[l] + (uint32_t)i->offset;
        if (!reads(w, i, a, bytes)) return false;
        rf_emu_put_loaded(w, i, l, w->block->lds + a);
    }
    w->lane_ops += (uint32_t)__builtin_popcountll(exec);
    return true;
}

static bool store(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t exec = rf_emu_mask(w, RF_EMU_EXEC);
    uint32_t bytes = i->op->arg & RF_EMU_BYTES, x[4];
    const uint32_t *at = rf_emu_row(w, &i->o[0]);
    for (uint32_t l = 0; l < w->n; l++) {
        if (!(exec >> l & 1)) continue;
        uint32_t a = at[l] + (uint32_t)i->offset;
        if (!writes(w, i, a, bytes)) return false;
        rf_emu_get_stored(w, i, &i->o[1], l, x);
        memcpy(w->block->lds + a, x, bytes);
    }
    w->lane_ops += (uint32_t)__builtin_popcountll(exec);
    return true;
}

/* Two elements at offsets that count elements, or 64 elements. */
static uint32_t second_offset(const rf_emu_inst *i, uint32_t which) {
    uint32_t unit = (i->op->arg & RF_EMU_BYTES) * (i->op->arg & RF_EMU_ST64 ? 64 : 1);
    return unit * (which ? i->offset1 : (uint32_t)i->offset);
}

static bool load2(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t exec = rf_emu_mask(w, RF_EMU_EXEC);
    uint32_t bytes = i->op->arg & RF_EMU_BYTES, at[RF_EMU_ROW];
    memcpy(at, rf_emu_row(w, &i->o[1]), w->n * sizeof *at);
    uint32_t *to = rf_emu_row(w, &i->o[0]);
    for (uint32_t l = 0; l < w->n; l++) {
        if (!(exec >> l & 1)) continue;
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t a = at[l] + second_offset(i, k);
            if (!reads(w, i, a, bytes)) return false;
            for (uint32_t j = 0; j < bytes / 4; j++)
                memcpy(to + (k * bytes / 4 + j) * RF_EMU_ROW + l, w->block->lds + a + 4 * j, 4);
        }
    }
    w->lane_ops += (uint32_t)__builtin_popcountll(exec);
    return true;
}

static bool store2(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t exec = rf_emu_mask(w, RF_EMU_EXEC);
    uint32_t bytes = i->op->arg & RF_EMU_BYTES;
    const uint32_t *at = rf_emu_row(w, &i->o[0]);
    for (uint32_t l = 0; l < w->n; l++) {
        if (!(exec >> l & 1)) continue;
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t a = at[l] + second_offset(i, k), x[4];
            if (!writes(w, i, a, bytes)) return false;
            rf_emu_get_stored(w, i, &i->o[1 + k], l, x);
            memcpy(w->block->lds + a, x, bytes);
        }
    }
    w->lane_ops += (uint32_t)__builtin_popcountll(exec);
    return true;
}

/* arg: kind in the low byte, RF_EMU_D16: gives the old value.  Operands: [old,] address, data. */
static bool atomic(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t exec = rf_emu_mask(w, RF_EMU_EXEC);
    uint32_t kind = i->op->arg & RF_EMU_BYTES, at = i->op->arg & RF_EMU_D16 ? 1 : 0;
    for (uint32_t l = 0; l < w->n; l++) {
        if (!(exec >> l & 1)) continue;
        uint32_t a = rf_emu_row(w, &i->o[at])[l] + (uint32_t)i->offset, x;
        if (!updates(w, i, a, 4)) return false;
        memcpy(&x, w->block->lds + a, 4);
        uint32_t y = (uint32_t)rf_emu_atomic(kind, x, rf_emu_row(w, &i->o[at + 1])[l], 0, false);
        memcpy(w->block->lds + a, &y, 4);
        if (at) rf_emu_row(w, &i->o[0])[l] = x;
    }
    w->lane_ops += (uint32_t)__builtin_popcountll(exec);
    return true;
}

#define R(name_, fn_, arg_) \
    { .name = name_, .run = fn_, .arg = arg_ }
#define LD(name_, arg_) R("ds_read_" name_, load, arg_), R("ds_load_" name_, load, arg_)
#define ST(name_, arg_) R("ds_write_" name_, store, arg_), R("ds_store_" name_, store, arg_)
#define TWO(name_, n_)                                                             \
    R("ds_read2_" name_, load2, n_), R("ds_load_2addr_" name_, load2, n_),         \
        R("ds_read2st64_" name_, load2, (n_) | RF_EMU_ST64),                       \
        R("ds_load_2addr_stride64_" name_, load2, (n_) | RF_EMU_ST64),             \
        R("ds_write2_" name_, store2, n_), R("ds_store_2addr_" name_, store2, n_), \
        R("ds_write2st64_" name_, store2, (n_) | RF_EMU_ST64),                     \
        R("ds_store_2addr_stride64_" name_, store2, (n_) | RF_EMU_ST64)
#define AT(op_, type_, kind_) \
    R("ds_" op_ "_" type_, atomic, kind_), R("ds_" op_ "_rtn_" type_, atomic, (kind_) | RF_EMU_D16)

const rf_emu_op rf_emu_ops_lds[] = {
    LD("b32", 4),
    LD("b64", 8),
    LD("b96", 12),
    LD("b128", 16),
    LD("u8", 1),
    LD("u16", 2),
    LD("i8", 1 | RF_EMU_SIGNED),
    LD("i16", 2 | RF_EMU_SIGNED),
    LD("u8_d16", 1 | RF_EMU_D16),
    LD("u8_d16_hi", 1 | RF_EMU_D16_HI),
    LD("i8_d16", 1 | RF_EMU_SIGNED | RF_EMU_D16),
    LD("i8_d16_hi", 1 | RF_EMU_SIGNED | RF_EMU_D16_HI),
    LD("u16_d16", 2 | RF_EMU_D16),
    LD("u16_d16_hi", 2 | RF_EMU_D16_HI),
    ST("b32", 4),
    ST("b64", 8),
    ST("b96", 12),
    ST("b128", 16),
    ST("b8", 1),
    ST("b16", 2),
    ST("b8_d16_hi", 1 | RF_EMU_D16_HI),
    ST("b16_d16_hi", 2 | RF_EMU_D16_HI),
    TWO("b32", 4),
    TWO("b64", 8),
    AT("add", "u32", RF_EMU_ADD),
    AT("sub", "u32", RF_EMU_SUB),
    AT("add", "f32", RF_EMU_ADD_F),
    AT("max", "i32", RF_EMU_MAX_I),
    AT("max", "u32", RF_EMU_MAX_U),
    AT("min", "i32", RF_EMU_MIN_I),
    AT("min", "u32", RF_EMU_MIN_U),
    AT("and", "b32", RF_EMU_AND),
    AT("or", "b32", RF_EMU_OR),
    AT("xor", "b32", RF_EMU_XOR),
    R("ds_wrxchg_rtn_b32", atomic, RF_EMU_SWAP | RF_EMU_D16),
    R("ds_storexchg_rtn_b32", atomic, RF_EMU_SWAP | RF_EMU_D16),
    {0},
};
