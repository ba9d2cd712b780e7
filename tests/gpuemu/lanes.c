/* lanes.c - vector instructions: fetches the sources of all lanes as rows of words, calls the row's
 * function, stores the result in the active lanes.
 *
 * A source passes through three stages, each of which may be nothing: other lanes or bytes (DPP,
 * SDWA), the type's selection of halves, and the signs. */
#include <string.h>

#include "base/fmath.h"
#include "gpuemu/inst.h"

typedef uint32_t wide_row[2 * RF_EMU_ROW];

/* The lane that lane l reads under a DPP control word, or -1. */
static int dpp_lane(uint32_t control, int l, int n) {
    int row = l & ~15, k = l & 15, by = (int)(control & 15);
    if (control < 0x100) return (l & ~3) | (int)(control >> 2 * (l & 3) & 3);
    switch (control & 0x1f0) {
    case 0x100:
        return k + by < 16 ? l + by : -1; /* row_shl */
    case 0x110:
        return k - by >= 0 ? l - by : -1; /* row_shr */
    case 0x120:
        return row | ((k - by) & 15); /* row_ror */
    case 0x130:
        if (by == 0) return l + 1 < n ? l + 1 : -1; /* wave_shl */
        if (by == 4) return (l + 1) & (n - 1);      /* wave_rol */
        return by == 8 ? l - 1 : (l - 1) & (n - 1); /* wave_shr, wave_ror */
    case 0x140:
        if (by == 0) return row | (15 - k);           /* row_mirror */
        if (by == 1) return (l & ~7) | (7 - (l & 7)); /* row_half_mirror */
        if (by == 2) return l >= 16 ? row - 1 : -1;   /* row_bcast:15 */
        return l >= 32 ? 31 : -1;                     /* row_bcast:31 */
    case 0x150:
        return row | by; /* row_share */
    case 0x160:
        return row | (k ^ by); /* row_xmask */
    default:
        return -1;
    }
}

static int dpp_source(const rf_emu_dpp *d, int l, int n) {
    if (d->dpp8) return (l & ~7) | (int)(d->control >> 3 * (l & 7) & 7);
    return dpp_lane(d->control, l, n);
}

/* row <- the lanes that DPP picks; *write loses the lanes that get nothing. */
static const uint32_t *fetch_dpp(const rf_emu_inst *i, uint32_t n, uint64_t exec,
                                 const uint32_t *from, uint32_t *row, uint64_t *write) {
    uint64_t keep = 0;
    for (uint32_t l = 0; l < n; l++) {
        const rf_emu_dpp *d = &i->dpp;
        row[l] = 0;
        if (!(exec >> l & 1)) continue;
        if (!(d->row_mask >> (l >> 4) & 1) || !(d->bank_mask >> (l >> 2 & 3) & 1)) continue;
        int q = dpp_source(d, (int)l, (int)n);
        bool valid = q >= 0 && (d->inactive || (exec >> q & 1));
        if (valid) row[l] = from[q];
        if (valid || d->bound || d->dpp8) keep |= 1ull << l;
    }
    *write &= keep;
    return row;
}

static uint32_t sdwa_pick(uint32_t x, uint32_t sel, bool sign) {
    if (sel == 6) return x;
    if (sel < 4) {
        uint32_t b = x >> 8 * sel & 0xff;
        return sign ? (uint32_t)(int32_t)(int8_t)b : b;
    }
    uint32_t h = x >> 16 * (sel - 4) & 0xffff;
    return sign ? (uint32_t)(int32_t)(int16_t)h : h;
}

/* The words of an operand before any type is applied; 64-bit ones as two rows. */
static const uint32_t *fetch_words(const rf_emu_wave *w, const rf_emu_operand *o, bool wide,
                                   uint32_t *row) {
    if (o->place == RF_EMU_VGPR) return rf_emu_row(w, o);
    uint64_t x = wide ? rf_emu_wide(w, o) : rf_emu_word(w, o);
    for (uint32_t l = 0; l < w->n; l++)
        row[l] = (uint32_t)x;
    if (wide)
        for (uint32_t l = 0; l < w->n; l++)
            row[RF_EMU_ROW + l] = (uint32_t)(x >> 32);
    return row;
}

static const uint32_t *fetch_signs(const rf_emu_operand *o, uint32_t n, const uint32_t *p,
                                   uint32_t *row) {
    if (!o->neg && !o->abs) return p;
    uint32_t keep = o->abs ? 0x7fffffffu : ~0u, flip = o->neg ? 0x80000000u : 0;
    for (uint32_t l = 0; l < n; l++)
        row[l] = (p[l] & keep) ^ flip;
    return row;
}

static const uint32_t *fetch_half(const rf_emu_inst *i, const rf_emu_operand *o, uint32_t at,
                                  char type, uint32_t n, const uint32_t *p, uint32_t *row) {
    uint32_t shift = o->high || (i->op_sel >> at & 1) ? 16 : 0;
    if (type == 'u') {
        for (uint32_t l = 0; l < n; l++)
            row[l] = p[l] >> shift & 0xffff;
        return row;
    }
    for (uint32_t l = 0; l < n; l++)
        row[l] = rf_emu_u32(rf_f16_to_f32((uint16_t)(p[l] >> shift)));
    return fetch_signs(o, n, row, row);
}

/* fma_mix: an f32, or one half of the word as f16. */
static const uint32_t *fetch_mix(const rf_emu_inst *i, const rf_emu_operand *o, uint32_t at,
                                 uint32_t n, const uint32_t *p, uint32_t *row) {
    if (!(i->op_sel_hi >> at & 1)) return fetch_signs(o, n, p, row);
    uint32_t shift = i->op_sel >> at & 1 ? 16 : 0;
    for (uint32_t l = 0; l < n; l++)
        row[l] = rf_emu_u32(rf_f16_to_f32((uint16_t)(p[l] >> shift)));
    return fetch_signs(o, n, row, row);
}

/* Two halves as the low and the high one, each chosen and signed on its own. */
static const uint32_t *fetch_packed(const rf_emu_inst *i, uint32_t at, uint32_t n,
                                    const uint32_t *p, uint32_t *row) {
    uint32_t lo = i->op_sel >> at & 1 ? 16 : 0, hi = i->op_sel_hi >> at & 1 ? 16 : 0;
    uint32_t flip = (i->neg_lo >> at & 1 ? 0x8000u : 0) | (i->neg_hi >> at & 1 ? 0x80000000u : 0);
    for (uint32_t l = 0; l < n; l++) {
        uint32_t x = p[l];
        row[l] = ((x >> lo & 0xffff) | (x >> hi & 0xffff) << 16) ^ flip;
    }
    return row;
}

/* Two f32, each from either register of the pair. */
static const uint32_t *fetch_pair(const rf_emu_inst *i, uint32_t at, uint32_t n, const uint32_t *p,
                                  uint32_t *row) {
    const uint32_t *lo = p + (i->op_sel >> at & 1 ? RF_EMU_ROW : 0);
    const uint32_t *hi = p + (i->op_sel_hi >> at & 1 ? RF_EMU_ROW : 0);
    uint32_t flip_lo = i->neg_lo >> at & 1 ? 0x80000000u : 0;
    uint32_t flip_hi = i->neg_hi >> at & 1 ? 0x80000000u : 0;
    for (uint32_t l = 0; l < n; l++) {
        uint32_t a = lo[l] ^ flip_lo, b = hi[l] ^ flip_hi; /* p may be row */
        row[l] = a;
        row[RF_EMU_ROW + l] = b;
    }
    return row;
}

static const uint32_t *fetch_f64(const rf_emu_operand *o, uint32_t n, const uint32_t *p,
                                 uint32_t *row) {
    if (!o->neg && !o->abs) return p;
    if (p != row) memcpy(row, p, n * sizeof *row);
    fetch_signs(o, n, p + RF_EMU_ROW, row + RF_EMU_ROW);
    return row;
}

static const uint32_t *fetch(const rf_emu_wave *w, const rf_emu_inst *i, uint32_t k, uint32_t *row,
                             uint64_t exec, uint64_t *write) {
    const rf_emu_operand *o = &i->src[k];
    char type = i->src_type[k];
    bool wide = type == 'q' || type == 'd' || type == 'w';
    const uint32_t *p = fetch_words(w, o, wide, row);
    uint32_t at = k - i->acc_first; /* "+" in front is not counted by op_sel, dpp and sdwa */
    if (i->dpp.on && at == 0) {
        uint32_t whole[RF_EMU_ROW];
        memcpy(whole, p, w->n * sizeof *whole);
        p = fetch_dpp(i, w->n, exec, whole, row, write);
    }
    if (i->sdwa.on && at < 2) {
        uint32_t sel = at == 0 ? i->sdwa.src0 : i->sdwa.src1;
        for (uint32_t l = 0; l < w->n; l++)
            row[l] = sdwa_pick(p[l], sel, o->sext);
        p = row;
    }
    switch (type) {
    case 'f':
        return fetch_signs(o, w->n, p, row);
    case 'h':
    case 'u':
        return fetch_half(i, o, at, type, w->n, p, row);
    case 'x':
        return fetch_mix(i, o, at, w->n, p, row);
    case 'p':
        return fetch_packed(i, at, w->n, p, row);
    case 'w':
        return fetch_pair(i, at, w->n, p, row);
    case 'd':
        return fetch_f64(o, w->n, p, row);
    default:
        return p;
    }
}

static void apply_output(const rf_emu_inst *i, uint32_t n, uint32_t *d) {
    static const float by[] = {1, 2, 4, 0.5f};
    for (uint32_t l = 0; l < n; l++) {
        float f = rf_emu_f32(d[l]) * by[i->omod];
        if (i->clamp) f = f > 1 ? 1 : f > 0 ? f : 0;
        d[l] = rf_emu_u32(f);
    }
}

static void place_sdwa(const rf_emu_sdwa *s, uint32_t n, const uint32_t *old, uint32_t *d) {
    uint32_t shift = s->dst < 4 ? 8 * s->dst : 16 * (s->dst - 4);
    uint32_t field = (s->dst < 4 ? 0xffu : 0xffffu) << shift;
    for (uint32_t l = 0; l < n; l++)
        d[l] = (d[l] << shift & field) | (s->preserve ? old[l] & ~field : 0);
}

/* A 16-bit result keeps the register's other half on gfx10 and later; gfx9 clears it. */
static void place_half(const rf_emu_inst *i, uint32_t n, const uint32_t *old, uint32_t *d) {
    const rf_emu_operand *o = &i->o[0];
    bool high = o->high || (i->op_sel >> i->dst_sel_bit & 1);
    if (!high && !o->low && i->gfx < 10) {
        for (uint32_t l = 0; l < n; l++)
            d[l] &= 0xffff;
        return;
    }
    for (uint32_t l = 0; l < n; l++)
        d[l] = high ? (old[l] & 0xffff) | d[l] << 16 : (old[l] & 0xffff0000u) | (d[l] & 0xffff);
}

static const uint32_t *exec_row(rf_emu_wave *w, uint64_t mask) {
    if (w->row_mask_of != mask) {
        for (uint32_t l = 0; l < RF_EMU_ROW; l++)
            w->row_mask[l] = mask >> l & 1 ? ~0u : 0;
        w->row_mask_of = mask;
    }
    return w->row_mask;
}

static void store_row(const uint32_t *mask, uint32_t n, const uint32_t *from, uint32_t *to) {
    for (uint32_t l = 0; l < n; l++)
        to[l] = (from[l] & mask[l]) | (to[l] & ~mask[l]);
}

static void commit(rf_emu_wave *w, const rf_emu_inst *i, rf_emu_lanes *x, uint64_t write) {
    char type = i->dst_type[0];
    uint32_t mask_at = 1;
    if (type == 'm' || type == 'x') {
        mask_at = 0;
    } else {
        uint32_t *to = rf_emu_row(w, &i->o[0]);
        if ((i->omod || i->clamp) && type == 'f') apply_output(i, w->n, x->d);
        if (i->sdwa.on && i->sdwa.dst != 6) /* says itself where a result of 16 bits goes */
            place_sdwa(&i->sdwa, w->n, to, x->d);
        else if (type == 'h' || type == 'u')
            place_half(i, w->n, to, x->d);
        const uint32_t *mask = exec_row(w, write);
        store_row(mask, w->n, x->d, to);
        if (type == 'q' || type == 'd' || type == 'w')
            store_row(mask, w->n, x->d + RF_EMU_ROW, to + RF_EMU_ROW);
    }
    if (mask_at >= i->n_dst) return;
    uint64_t result = x->mask_out & write;
    if (i->dst_type[mask_at] == 'x') rf_emu_set_mask(w, RF_EMU_EXEC, result);
    if (i->dst_type[mask_at] == 'm' || i->n_operands > i->n_src)
        rf_emu_set_mask(w, i->o[mask_at].reg, result);
}

static void compute(rf_emu_wave *w, const rf_emu_inst *i, rf_emu_lanes *x,
                    wide_row row[RF_EMU_MAX_SRC], uint64_t *write) {
    uint64_t exec = *write;
    x->n = w->n;
    x->mask_out = 0;
    for (uint32_t k = 0; k < i->n_src; k++) {
        const rf_emu_operand *o = &i->src[k];
        if (i->src_type[k] == 'n')
            x->mask_in = i->neg_lo;
        else if (i->src_type[k] != 'm')
            x->s[k] = fetch(w, i, k, row[k], exec, write);
        else if (o->place == RF_EMU_CONST)
            x->mask_in = o->value ? ~0ull : 0;
        else
            x->mask_in = rf_emu_mask(w, o->reg);
    }
    i->op->lanes(x);
    w->lane_ops += (uint32_t)__builtin_popcountll(exec);
}

bool rf_emu_run_lanes(rf_emu_wave *w, const rf_emu_inst *i) {
    wide_row row[RF_EMU_MAX_SRC], d;
    rf_emu_lanes x = {.d = d};
    uint64_t write = rf_emu_mask(w, RF_EMU_EXEC);
    compute(w, i, &x, row, &write);
    commit(w, i, &x, write);
    return true;
}

/* Both halves of a dual instruction read before either writes. */
bool rf_emu_run_pair(rf_emu_wave *w, const rf_emu_inst *i) {
    wide_row row[RF_EMU_MAX_SRC], d[2];
    rf_emu_lanes x = {.d = d[0]}, y = {.d = d[1]};
    uint64_t write = rf_emu_mask(w, RF_EMU_EXEC);
    compute(w, &i->pair[0], &x, row, &write);
    compute(w, &i->pair[1], &y, row, &write);
    commit(w, &i->pair[0], &x, write);
    commit(w, &i->pair[1], &y, write);
    return true;
}
