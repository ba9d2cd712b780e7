/* iq.c - the IQ formats: values from code books, with signs and small scales beside the index.
 *
 * The fractions of the formulas (1/4, 1/2, 1/8) are powers of two, so they are folded into d
 * without rounding; scales and values stay integers.  Every index is masked to its table's size. */
#include "quant/iq_tables.h"

#include "quant/codec.h"

RF_INLINE void store8(int8_t *q, uint64_t v) { memcpy(q, &v, sizeof v); }

RF_INLINE void clear_min(rf_int_group *restrict out) {
    out->m = 0;
    for (int k = 0; k < 16; k++)
        out->min[k] = 0;
}

/* Two scales of 32 elements' two halves. */
RF_INLINE void set_scales(rf_int_group *restrict out, int ib, int first, int second) {
    out->scale[2 * ib] = (int16_t)first;
    out->scale[2 * ib + 1] = (int16_t)second;
}

/* d * (1/2 + s) / 4 = d/8 * (2s + 1) */
RF_INLINE void unpack_iq2_xxs(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_iq2_xxs *restrict b = (const rf_block_iq2_xxs *)row + g;
    out->d = rf_load_half(b->d) * 0.125f;
    clear_min(out);
    for (int ib = 0; ib < 8; ib++) {
        const uint8_t *idx = b->qs + 8 * ib;
        uint32_t signs = rf_load_u32(idx + 4);
        int scale = (int)(signs >> 28) * 2 + 1;
        set_scales(out, ib, scale, scale);
        for (int k = 0; k < 4; k++) {
            uint8_t s = rf_even_signs(signs >> 7 * k & 127);
            store8(out->q + 32 * ib + 8 * k, rf_negate_bytes(rf_iq2xxs_grid[idx[k]], s));
        }
    }
}
RF_CODEC(iq2_xxs, 256, false)

RF_INLINE void unpack_iq2_xs(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_iq2_xs *restrict b = (const rf_block_iq2_xs *)row + g;
    out->d = rf_load_half(b->d) * 0.125f;
    clear_min(out);
    for (int ib = 0; ib < 8; ib++)
        set_scales(out, ib, (b->scales[ib] & 15) * 2 + 1, (b->scales[ib] >> 4) * 2 + 1);
    for (int k = 0; k < 32; k++) {
        uint16_t v = rf_load_u16(b->qs + 2 * k);
        uint8_t s = rf_even_signs((uint32_t)v >> 9);
        store8(out->q + 8 * k, rf_negate_bytes(rf_iq2xs_grid[v & 511], s));
    }
}
RF_CODEC(iq2_xs, 256, false)

RF_INLINE void unpack_iq2_s(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_iq2_s *restrict b = (const rf_block_iq2_s *)row + g;
    out->d = rf_load_half(b->d) * 0.125f;
    clear_min(out);
    for (int ib = 0; ib < 8; ib++) {
        set_scales(out, ib, (b->scales[ib] & 15) * 2 + 1, (b->scales[ib] >> 4) * 2 + 1);
        for (int k = 0; k < 4; k++) {
            int at = 4 * ib + k, idx = b->qs[at] | (b->qh[ib] >> 2 * k & 3) << 8;
            store8(out->q + 8 * at, rf_negate_bytes(rf_iq2s_grid[idx], b->signs[at]));
        }
    }
}
RF_CODEC(iq2_s, 256, false)

/* d * (1/2 + s) / 2 = d/4 * (2s + 1) */
RF_INLINE void unpack_iq3_xxs(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_iq3_xxs *restrict b = (const rf_block_iq3_xxs *)row + g;
    out->d = rf_load_half(b->d) * 0.25f;
    clear_min(out);
    for (int ib = 0; ib < 8; ib++) {
        uint32_t signs = rf_load_u32(b->signs + 4 * ib);
        int scale = (int)(signs >> 28) * 2 + 1;
        set_scales(out, ib, scale, scale);
        for (int k = 0; k < 4; k++) {
            const uint8_t *idx = b->qs + 8 * ib + 2 * k;
            uint64_t v = rf_iq3xxs_grid[idx[0]] | (uint64_t)rf_iq3xxs_grid[idx[1]] << 32;
            uint8_t s = rf_even_signs(signs >> 7 * k & 127);
            store8(out->q + 32 * ib + 8 * k, rf_negate_bytes(v, s));
        }
    }
}
RF_CODEC(iq3_xxs, 256, false)

RF_INLINE void unpack_iq3_s(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_iq3_s *restrict b = (const rf_block_iq3_s *)row + g;
    out->d = rf_load_half(b->d);
    clear_min(out);
    for (int ib = 0; ib < 8; ib++) {
        int scale = (b->scales[ib / 2] >> 4 * (ib % 2) & 15) * 2 + 1;
        set_scales(out, ib, scale, scale);
        for (int k = 0; k < 4; k++) {
            int at = 4 * ib + k, high = b->qh[ib] >> 2 * k;
            int first = b->qs[2 * at] | (high & 1) << 8;
            int second = b->qs[2 * at + 1] | (high & 2) << 7;
            uint64_t v = rf_iq3s_grid[first] | (uint64_t)rf_iq3s_grid[second] << 32;
            store8(out->q + 8 * at, rf_negate_bytes(v, b->signs[at]));
        }
    }
}
RF_CODEC(iq3_s, 256, false)

/* The grid of IQ1 holds c = 0, 1, 2 for -1, 0, 1; a value is c - 1 + 1/8 or c - 1 - 1/8, which is
 * 8c - 7 or 8c - 9 in eighths. */
RF_INLINE uint64_t iq1_eighths(unsigned idx, bool minus) {
    return rf_bytes_minus(rf_iq1s_grid[idx] * 8, minus ? 9 : 7);
}

RF_INLINE void unpack_iq1_s(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_iq1_s *restrict b = (const rf_block_iq1_s *)row + g;
    out->d = rf_load_half(b->d) * 0.125f;
    clear_min(out);
    for (int ib = 0; ib < 8; ib++) {
        unsigned qh = rf_load_u16(b->qh + 2 * ib);
        int scale = (int)(qh >> 12 & 7) * 2 + 1;
        set_scales(out, ib, scale, scale);
        for (int k = 0; k < 4; k++) {
            unsigned idx = b->qs[4 * ib + k] | (qh >> 3 * k & 7) << 8;
            store8(out->q + 32 * ib + 8 * k, iq1_eighths(idx, qh >> 15));
        }
    }
}
RF_CODEC(iq1_s, 256, false)

RF_INLINE void unpack_iq1_m(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_iq1_m *restrict b = (const rf_block_iq1_m *)row + g;
    unsigned d = 0;
    for (int k = 0; k < 4; k++)
        d |= (unsigned)(b->scales[2 * k + 1] >> 4) << 4 * k;
    out->d = rf_half((uint16_t)d) * 0.125f;
    clear_min(out);
    for (int ib = 0; ib < 8; ib++) {
        int scales = rf_load_u16(b->scales + ib / 2 * 2) >> 6 * (ib % 2);
        set_scales(out, ib, (scales & 7) * 2 + 1, (scales >> 3 & 7) * 2 + 1);
        for (int k = 0; k < 4; k++) {
            unsigned nibble = (unsigned)b->qh[2 * ib + k / 2] >> 4 * (k % 2) & 15;
            unsigned idx = b->qs[4 * ib + k] | (nibble & 7) << 8;
            store8(out->q + 32 * ib + 8 * k, iq1_eighths(idx, nibble >> 3));
        }
    }
}
RF_CODEC(iq1_m, 256, false)

/* The 16 values of IQ4, chosen by a tree of bitwise selections on the code's bits: byte arithmetic
 * that compilers turn into vector code, which a table look-up is not. */
RF_INLINE int pick(int mask, int zero, int one) { return zero ^ (mask & (zero ^ one)); }
RF_INLINE int8_t iq4_value(uint8_t code) {
    int b0 = -(code & 1), b1 = -(code >> 1 & 1), b2 = -(code >> 2 & 1), b3 = -(code >> 3 & 1);
    int v0 = pick(b1, pick(b0, -127, -104), pick(b0, -83, -65));
    int v4 = pick(b1, pick(b0, -49, -35), pick(b0, -22, -10));
    int v8 = pick(b1, pick(b0, 1, 13), pick(b0, 25, 38));
    int v12 = pick(b1, pick(b0, 53, 69), pick(b0, 89, 113));
    return (int8_t)pick(b3, pick(b2, v0, v4), pick(b2, v8, v12));
}

RF_INLINE void unpack_iq4_nl(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_iq4_nl *restrict b = (const rf_block_iq4_nl *)row + g;
    out->d = rf_load_half(b->d);
    out->m = 0;
    for (int j = 0; j < 16; j++) {
        out->q[j] = iq4_value(b->qs[j] & 15);
        out->q[j + 16] = iq4_value(b->qs[j] >> 4);
    }
}
RF_CODEC(iq4_nl, 32, false)

RF_INLINE void unpack_iq4_xs(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_iq4_xs *restrict b = (const rf_block_iq4_xs *)row + g;
    out->d = rf_load_half(b->d);
    clear_min(out);
    int high = rf_load_u16(b->scales_h);
    for (int ib = 0; ib < 8; ib++) {
        int low = b->scales_l[ib / 2] >> 4 * (ib % 2) & 15;
        int scale = (low | (high >> 2 * ib & 3) << 4) - 32;
        set_scales(out, ib, scale, scale);
        for (int j = 0; j < 16; j++) {
            uint8_t v = b->qs[16 * ib + j];
            out->q[32 * ib + j] = iq4_value(v & 15);
            out->q[32 * ib + 16 + j] = iq4_value(v >> 4);
        }
    }
}
RF_CODEC(iq4_xs, 256, false)
