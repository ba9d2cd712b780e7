/* mm_quads.h - packed blocks of many rows as integers in fours with rows in lanes: each row's bytes are
 * gathered first and unpacked afterwards, a row's scales too; private to mm_pack_*.c and
 * mm_few_avx512.c.  Groups of 256 are written as records of a panel (mm.h).
 *
 * Written over `vec`, which mm_vec_avx2.h and mm_vec_avx512.h bring.  Code books, TQ1_0 and Q8_K are
 * unpacked row by row and gathered afterwards; pack_code_book, if defined, unpacks the first. */
#pragma once
#include "backend/cpu/mm_avx2.h"

/* Rows from p on. */
RF_INLINE rf_mm_lanes lanes_at(const uint8_t *p, size_t stride) {
    rf_mm_lanes r = {.stride = stride, .stride3 = 3 * stride};
    for (size_t i = 0; i < VEC_ROWS / 4; i++)
        r.p[i] = p + 4 * i * stride;
    return r;
}

RF_INLINE vec nibbles(vec v, bool high) { return vec_and(high ? vec_shr(v, 4) : v, vec_bytes(15)); }

/* Bit n of each byte as bit 4 or, for to = 2, as bit 2. */
RF_INLINE vec bit_moved(vec v, int n, int to) {
    v = n < to ? vec_shl(v, to - n) : vec_shr(v, n - to);
    return vec_and(v, vec_bytes((uint8_t)(1u << to)));
}

/* Byte k of each dword: its field k of `bits` bits. */
RF_INLINE vec four_fields(vec v, int bits) {
    const uint32_t ones = (1u << bits) - 1;
    vec out = vec_and(v, vec_set(ones));
    RF_UNROLL
    for (int k = 1; k < 4; k++)
        out = vec_or(out, vec_and(vec_shl(v, k * (8 - bits)), vec_set(ones << 8 * k)));
    return out;
}

/* As rf_e2m3_eighths. */
RF_INLINE vec e2m3_eighths(vec code) {
    vec v = vec_and(code, vec_bytes(31)), ramp = vec_bytes_above(v, 24);
    ramp = vec_add_bytes(vec_add_bytes(ramp, ramp), vec_bytes_above(v, 16));
    vec minus = vec_sub_bytes(vec_set(0), vec_and(vec_shr(code, 5), vec_bytes(1)));
    return vec_sub_bytes(vec_xor(vec_add_bytes(v, ramp), minus), minus);
}

/* ---- groups of 32 ---- */

/* A block's bytes with rows in lanes. */
typedef struct block_32 {
    vec_floats d, m; /* m only where the format has one */
    vec fifth, v[8]; /* the fifth bits of Q5; as many dwords as there are */
} block_32;

/* d, m and the fifth bits. */
RF_INLINE void gather_head_32(rf_mm_format f, const rf_mm_lanes *p, block_32 *b) {
    vec v[4];
    b->fifth = vec_set(0);
    b->m = vec_floats_zero();
    if (f == RF_MM_Q5_0 || f == RF_MM_Q5_1) {
        vec_gather_4(p, 0, v);
        b->fifth = f == RF_MM_Q5_1 ? v[1] : vec_or(vec_shr(v[0], 16), vec_shl(v[1], 16));
        b->d = vec_low_halves(v[0]);
        if (f == RF_MM_Q5_1) b->m = vec_low_halves(vec_shr(v[0], 16));
        return;
    }
    if (f == RF_MM_Q4_1) {
        vec both = vec_dwords(p, 0);
        b->d = vec_low_halves(both);
        b->m = vec_low_halves(vec_shr(both, 16));
        return;
    }
    b->d = f == RF_MM_MXFP4        ? vec_e8m0(p, 0, 1, false)
           : f == RF_MM_MXFP6_E2M3 ? vec_e8m0(p, 0, 3, true)
                                   : vec_halves(p, 0);
}

/* The integers.  Twenty-four bytes are eight times three; four bytes more than a gathered sixteen would lie behind the
 * block, so the second gather begins in the middle of the first. */
RF_INLINE void gather_integers_32(rf_mm_format f, const rf_mm_lanes *p, block_32 *b) {
    const size_t at = f == RF_MM_Q8_0                      ? offsetof(rf_block_q8_0, qs)
                      : f == RF_MM_Q4_1                    ? offsetof(rf_block_q4_1, qs)
                      : f == RF_MM_Q5_0                    ? offsetof(rf_block_q5_0, qs)
                      : f == RF_MM_Q5_1                    ? offsetof(rf_block_q5_1, qs)
                      : f == RF_MM_MXFP4                   ? offsetof(rf_block_mxfp4, qs)
                      : f == RF_MM_MXFP6_E2M3              ? offsetof(rf_block_mxfp6, qs)
                      : f == RF_MM_Q1_0 || f == RF_MM_Q2_0 ? offsetof(rf_block_q1_0, qs)
                                                           : offsetof(rf_block_q4_0, qs);
    vec_gather_4(p, at, b->v);
    if (f == RF_MM_Q8_0) vec_gather_4(p, at + 16, b->v + 4);
    if (f != RF_MM_MXFP6_E2M3) return;
    vec second[4];
    vec_gather_4(p, at + 8, second);
    b->v[4] = second[2];
    b->v[5] = second[3];
}

/* Four integers of each row, the first of them number 4i of the block's group `part`. */
RF_INLINE vec quad_32(rf_mm_format f, uint8_t add, const block_32 *b, size_t part, int i) {
    if (f == RF_MM_Q8_0) return vec_xor(b->v[i], vec_bytes(add)); /* add: 0 or 128 */
    if (f == RF_MM_MXFP6_E2M3) {
        const int at = 3 * i / 4, bit = 3 * i % 4 * 8;
        vec codes = vec_shr(b->v[at], bit);
        if (bit > 8) codes = vec_or(codes, vec_shl(b->v[at + 1], 32 - bit));
        return vec_add_bytes(e2m3_eighths(four_fields(codes, 6)), vec_bytes(add));
    }
    if (f == RF_MM_Q1_0 || f == RF_MM_Q2_0) { /* codes are q + 1, add is 0 or 1 */
        vec w = f == RF_MM_Q1_0
                    ? vec_shr(vec_four_bits(b->v[part], i), 3)
                    : four_fields(vec_shr(b->v[2 * part + (size_t)i / 4], 8 * (i % 4)), 2);
        return vec_sub_bytes(w, vec_bytes((uint8_t)(1 - add)));
    }
    const uint8_t off = f == RF_MM_Q4_0 ? 8 : f == RF_MM_Q5_0 ? 16 : 0;
    vec w = nibbles(b->v[i % 4], i >= 4);
    if (f == RF_MM_Q5_0 || f == RF_MM_Q5_1) w = vec_or(w, vec_four_bits(b->fifth, i));
    if (f == RF_MM_IQ4_NL || f == RF_MM_MXFP4) w = vec_look_up(rf_book_of(f, add), w);
    if (off > 0 && !add) w = vec_sub_bytes(w, vec_bytes(off));
    return w;
}

/* ---- groups of 256: scales ---- */

/* Bytes: four scales (signed) and minimums (unsigned) in a dword. */
typedef struct scale_bytes {
    vec scale[4], min[4];
} scale_bytes;

/* Q4_K and Q5_K: 6 bits each; v: the three dwords of the block's scales. */
RF_INLINE void scales_six_bits(const vec v[3], scale_bytes *s) {
    const vec low6 = vec_bytes(0x3f), low4 = vec_bytes(0x0f), high2 = vec_bytes(0x30);
    s->scale[0] = vec_and(v[0], low6);
    s->min[0] = vec_and(v[1], low6);
    s->scale[1] = vec_or(vec_and(v[2], low4), vec_and(vec_shr(v[0], 2), high2));
    s->min[1] = vec_or(vec_and(vec_shr(v[2], 4), low4), vec_and(vec_shr(v[1], 2), high2));
}

/* Q3_K: sixteen of 6 bits, less 32. */
RF_INLINE void scales_q3_k(const vec v[3], scale_bytes *s) {
    RF_UNROLL
    for (int i = 0; i < 4; i++) {
        vec top = vec_and(i == 0   ? vec_shl(v[2], 4)
                          : i == 1 ? vec_shl(v[2], 2)
                          : i == 2 ? v[2]
                                   : vec_shr(v[2], 2),
                          vec_bytes(0x30));
        s->scale[i] = vec_sub_bytes(vec_or(nibbles(v[i % 2], i >= 2), top), vec_bytes(32));
    }
}

/* IQ4_XS: eight of 6 bits, less 32: the low four of them in v[1], the high two in the upper half
 * of v[0]. */
RF_INLINE void scales_iq4_xs(const vec v[2], scale_bytes *s) {
    RF_UNROLL
    for (int i = 0; i < 2; i++) {
        vec scale = vec_set(0);
        RF_UNROLL
        for (int b = 0; b < 4; b++) { /* byte b: field j */
            const int j = 4 * i + b, low = 4 * j - 8 * b, high = 16 + 2 * j - 4 - 8 * b;
            vec l = low < 0 ? vec_shl(v[1], -low) : vec_shr(v[1], low);
            vec h = high < 0 ? vec_shl(v[0], -high) : vec_shr(v[0], high);
            scale = vec_or(scale, vec_and(l, vec_set(0x0fu << 8 * b)));
            scale = vec_or(scale, vec_and(h, vec_set(0x30u << 8 * b)));
        }
        s->scale[i] = vec_sub_bytes(scale, vec_bytes(32));
    }
}

/* d and dmin, which lie in a dword. */
RF_INLINE void put_d_dmin(vec both, uint8_t *record) {
    vec_store_floats(record, vec_low_halves(both));
    vec_store_floats(record + RF_MM_AT_M(VEC_ROWS),
                     vec_negative(vec_low_halves(vec_shr(both, 16))));
}

/* d, m where the format has one, and the scales.  d is taken from what is gathered anyway where it lies
 * within sixteen bytes of the scales. */
RF_INLINE void head_256(rf_mm_format f, const rf_mm_lanes *p, uint8_t *record, scale_bytes *s) {
    vec v[4];
    if (f == RF_MM_Q4_K || f == RF_MM_Q5_K) {
        vec_gather_4(p, 0, v);
        put_d_dmin(v[0], record);
        scales_six_bits(v + 1, s);
    } else if (f == RF_MM_IQ4_XS) {
        vec_gather_4(p, 0, v);
        vec_store_floats(record, vec_low_halves(v[0]));
        scales_iq4_xs(v, s);
    } else if (f == RF_MM_Q6_K) {
        vec_store_floats(record, vec_halves(p, offsetof(rf_block_q6_k, d)));
        vec_gather_4(p, offsetof(rf_block_q6_k, scales), s->scale);
    } else if (f == RF_MM_Q3_K) { /* scales and d are the block's last 14 bytes */
        vec_gather_4(p, offsetof(rf_block_q3_k, scales) - 2, v);
        vec_store_floats(record, vec_low_halves(vec_shr(v[3], 16)));
        RF_UNROLL
        for (int i = 0; i < 3; i++)
            v[i] = vec_or(vec_shr(v[i], 16), vec_shl(v[i + 1], 16));
        scales_q3_k(v, s);
    } else if (f == RF_MM_Q2_K) {
        put_d_dmin(vec_dwords(p, offsetof(rf_block_q2_k, d)), record);
        vec_gather_4(p, offsetof(rf_block_q2_k, scales), v);
        RF_UNROLL
        for (int i = 0; i < 4; i++) {
            s->scale[i] = nibbles(v[i], false);
            s->min[i] = nibbles(v[i], true);
        }
    } else { /* TQ2_0 */
        vec_store_floats(record, vec_halves(p, offsetof(rf_block_tq2_0, d)));
        s->scale[0] = s->scale[1] = vec_bytes(1);
    }
}

/* Scales 2j and 2j + 1 as i16. */
RF_INLINE vec scale_pair(const vec s[4], unsigned j, bool is_signed) {
    return vec_pair(s[j / 2], 2 * j % 4, 2 * j % 4 + 1, is_signed);
}

/* Those of rf_mm_scaled_of, some of which have no scales but 1. */
RF_INLINE bool can_scale(rf_mm_format f) {
    return f == RF_MM_Q2_K || f == RF_MM_Q3_K || f >= RF_MM_IQ1_S;
}
RF_INLINE bool has_scales(rf_mm_format f) { return f < RF_MM_TQ1_0; }

/* Whether the scales of each sixteen are written, and those that are times the offset. */
RF_INLINE bool keeps_scales(rf_mm_format f, rf_mm_scales how) {
    return how != RF_MM_SCALES_IN || has_scales(f);
}
RF_INLINE bool keeps_offs(rf_mm_scales how) {
    return how == RF_MM_SCALES_ONCE || how == RF_MM_SCALES_TWICE;
}

/* As i16: in the record's order, each for itself and two side by side. */
RF_INLINE void write_scales(rf_mm_format f, rf_mm_scales how, uint8_t add, const scale_bytes *s,
                            uint8_t *record) {
    const bool is_signed = f != RF_MM_Q4_K && f != RF_MM_Q5_K && f != RF_MM_Q2_K;
    const bool twice = how == RF_MM_SCALES_TWICE || how == RF_MM_SCALES_IN;
    const unsigned n = 256 / (unsigned)rf_mm_scale_elems(f);
    const size_t row = VEC_ROWS * 4;
    RF_UNROLL
    for (unsigned j = 0; j < 16; j++) { /* 16 elements */
        if (!keeps_scales(f, how)) break;
        const unsigned a = j * n / 16, b = twice ? a % 4 : RF_MM_NO_BYTE;
        vec_store(record + RF_MM_AT_SCALE(VEC_ROWS) + j * row,
                  vec_pair(s->scale[a / 4], a % 4, b, is_signed));
    }
    RF_UNROLL
    for (unsigned j = 0; j < n / 2; j++) {
        if ((f == RF_MM_IQ4_XS || rf_mm_off(f) > 0) && keeps_offs(how))
            vec_store(record + RF_MM_AT_SCALES(VEC_ROWS) + j * row,
                      vec_mul_pairs(scale_pair(s->scale, j, is_signed), -(int)add));
        if (rf_mm_has_dmin(f))
            vec_store(record + RF_MM_AT_MINS(VEC_ROWS) + j * row, scale_pair(s->min, j, false));
    }
}

/* ---- groups of 256: integers ---- */

/* Where a record's integers go, after its scales. */
typedef struct quads {
    rf_mm_format f;
    rf_mm_scales how;
    uint8_t *record;
    vec sums; /* scales times the sums of the integers, of flipped activations */
    rf_mm_ahead *ahead;
} quads;

/* Bytes times the scale that is twice in a dword, all modulo 256. */
RF_INLINE vec times_scale(vec w, vec scale) {
    const vec low = vec_set(0x00ff00ff);
    vec odd = vec_mul_words(vec_andnot(low, w), scale);
    return vec_or(vec_and(vec_mul_words(w, scale), low), odd);
}

/* Integers times their scale, as rf_mm_scaled_of wants them.  Q2_K's and IQ1's products are bytes
 * without a sign, so that two of them are one product of 16 bits. */
RF_INLINE vec scaled_in(rf_mm_format f, vec w, vec scale) {
    if (f == RF_MM_Q2_K) return vec_mul_words(w, scale);
    if (f == RF_MM_Q3_K)
        return vec_add_bytes(times_scale(vec_sub_bytes(w, vec_bytes(4)), scale), vec_bytes(127));
    if (f != RF_MM_IQ1_S && f != RF_MM_IQ1_M) return w;
    /* w = q + 9: (scale * q + 135) / 2 = w / 2 * scale + (135 - 9 * scale) / 2, of which that is a byte */
    vec more = vec_sub_words(vec_set(135 * 0x10001), vec_mul_pairs(scale, 9));
    more = vec_mul_pairs(vec_shr(more, 1), 0x101);
    return vec_add_bytes(vec_mul_words(vec_shr(w, 1), scale), more);
}

/* Stores sixteen elements of each row, the first of them number `element`; every other time, in whatever order they come,
 * some of what is wanted next is asked for. */
RF_INLINE void put_16(quads *out, size_t element, const vec w[4]) {
    if ((element / 16 + element / 32) % 2 == 0) rf_mm_look_ahead(out->ahead);
    uint8_t *q = out->record + RF_MM_AT_Q_256(VEC_ROWS) + element * VEC_ROWS;
    const bool flipped = out->how == RF_MM_SCALES_FLIPPED;
    vec scale = vec_set(0), sums = vec_set(0);
    if (flipped || (out->how == RF_MM_SCALES_IN && has_scales(out->f)))
        scale = vec_load(out->record + RF_MM_AT_SCALE(VEC_ROWS) + element / 16 * VEC_ROWS * 4);
    RF_UNROLL
    for (size_t i = 0; i < 4; i++) {
        vec v = w[i];
        if (out->how == RF_MM_SCALES_IN) v = scaled_in(out->f, v, scale);
        if (flipped && rf_mm_off(out->f) > 0)
            v = vec_sub_bytes(v, vec_bytes((uint8_t)rf_mm_off(out->f)));
        if (flipped) sums = vec_add(sums, vec_sum_bytes(v));
        vec_store(q + i * VEC_ROWS * 4, v);
    }
    if (flipped) out->sums = vec_add(out->sums, vec_mul(sums, vec_sar(vec_shl(scale, 16), 16)));
}

/* What 128 more in every activation adds to the group is where its sums start, with a minus. */
RF_INLINE void finish_quads(const quads *out) {
    if (out->how != RF_MM_SCALES_FLIPPED) return;
    vec_store(out->record + RF_MM_AT_SCALES(VEC_ROWS), vec_shl(vec_negative_ints(out->sums), 7));
}

/* Q4_K; Q5_K with its fifth bits. */
RF_INLINE void quads_nibbles(size_t at, size_t at_fifth, const rf_mm_lanes *p, quads *q) {
    RF_UNROLL
    for (size_t c = 0; c < 2; c++) {
        vec h[4], v[4], w[4];
        if (at_fifth) vec_gather_4(p, at_fifth + 16 * c, h);
        RF_UNROLL
        for (size_t g = 0; g < 8; g++) {
            if (g % 2 == 0) vec_gather_4(p, at + 16 * g + 16 * c, v);
            RF_UNROLL
            for (int i = 0; i < 4; i++) {
                w[i] = nibbles(v[i], g % 2);
                if (at_fifth) w[i] = vec_or(w[i], bit_moved(h[i], (int)g, 4));
            }
            put_16(q, 32 * g + 16 * c, w);
        }
    }
}

RF_INLINE void quads_q6_k(const rf_mm_lanes *p, quads *q) {
    RF_UNROLL
    for (size_t k = 0; k < 4; k++) { /* half k / 2, sixteen columns of 32: k % 2 */
        const size_t h = k / 2, c = 16 * (k % 2);
        vec top[4], v[2][4], w[4];
        vec_gather_4(p, offsetof(rf_block_q6_k, qh) + 32 * h + c, top);
        vec_gather_4(p, 64 * h + c, v[0]);
        vec_gather_4(p, 64 * h + 32 + c, v[1]);
        RF_UNROLL
        for (size_t s = 0; s < 4; s++) {
            RF_UNROLL
            for (int i = 0; i < 4; i++) {
                vec t = s == 0   ? vec_shl(top[i], 4)
                        : s == 1 ? vec_shl(top[i], 2)
                        : s == 2 ? top[i]
                                 : vec_shr(top[i], 2);
                w[i] = vec_or(nibbles(v[s % 2][i], s >= 2), vec_and(t, vec_bytes(0x30)));
            }
            put_16(q, 128 * h + 32 * s + c, w);
        }
    }
}

RF_INLINE void quads_iq4_xs(uint8_t add, const rf_mm_lanes *p, quads *q) {
    const __m128i book = rf_book_of(RF_MM_IQ4_XS, add);
    RF_UNROLL
    for (size_t j = 0; j < 8; j++) {
        vec v[4], w[4];
        vec_gather_4(p, offsetof(rf_block_iq4_xs, qs) + 16 * j, v);
        RF_UNROLL
        for (size_t half = 0; half < 2; half++) {
            RF_UNROLL
            for (int i = 0; i < 4; i++)
                w[i] = vec_look_up(book, nibbles(v[i], half));
            put_16(q, 32 * j + 16 * half, w);
        }
    }
}

/* Q2_K, TQ2_0; Q3_K with its third bits. */
RF_INLINE void quads_two_bits(size_t at, bool third, size_t at_third, const rf_mm_lanes *p,
                              quads *q) {
    RF_UNROLL
    for (size_t c = 0; c < 2; c++) {
        vec h[4], v[4], w[4];
        if (third) vec_gather_4(p, at_third + 16 * c, h);
        RF_UNROLL
        for (int g = 0; g < 8; g++) {
            if (g % 4 == 0) vec_gather_4(p, at + 32 * (size_t)(g / 4) + 16 * c, v);
            RF_UNROLL
            for (int i = 0; i < 4; i++) {
                w[i] = vec_and(vec_shr(v[i], 2 * (g % 4)), vec_bytes(3));
                if (third) w[i] = vec_or(w[i], bit_moved(h[i], g, 2));
            }
            put_16(q, 32 * (size_t)g + 16 * c, w);
        }
    }
}

RF_INLINE void write_record_256(rf_mm_format f, rf_mm_scales how, const rf_mm_pack *pack,
                                const rf_mm_lanes *p, uint8_t *record) {
    quads out = {f, how, record, vec_set(0), pack->ahead}, *q = &out;
    scale_bytes s;
    head_256(f, p, record, &s);
    write_scales(f, how, pack->add, &s, record);
    if (f == RF_MM_Q4_K)
        quads_nibbles(offsetof(rf_block_q4_k, qs), 0, p, q);
    else if (f == RF_MM_Q5_K)
        quads_nibbles(offsetof(rf_block_q5_k, qs), offsetof(rf_block_q5_k, qh), p, q);
    else if (f == RF_MM_Q6_K)
        quads_q6_k(p, q);
    else if (f == RF_MM_IQ4_XS)
        quads_iq4_xs(pack->add, p, q);
    else if (f == RF_MM_Q2_K)
        quads_two_bits(offsetof(rf_block_q2_k, qs), false, 0, p, q);
    else if (f == RF_MM_Q3_K)
        quads_two_bits(offsetof(rf_block_q3_k, qs), true, offsetof(rf_block_q3_k, hmask), p, q);
    else
        quads_two_bits(offsetof(rf_block_tq2_0, qs), false, 0, p, q);
    finish_quads(q);
}

/* ---- groups of 256, row by row ---- */

/* Code books, TQ1_0 and Q8_K, which have no minimums. */
RF_INLINE bool goes_by_rows(rf_mm_format f) { return rf_is_grid(f) && f != RF_MM_TQ2_0; }

/* A group of each row, in order of k. */
typedef struct row_group {
    uint8_t q[VEC_ROWS][256];
    int16_t scale[VEC_ROWS][16];
    float d[VEC_ROWS];
} row_group;

RF_INLINE void unpack_row(rf_mm_format f, const void *src, uint8_t *q, int16_t *scale) {
    rf_scales_256 s = rf_load_scales(f, src);
    _mm256_storeu_si256((__m256i *)scale, s.scale);
#ifdef pack_code_book
    if (rf_is_code_book(f)) {
        pack_code_book(f, src, q);
        return;
    }
#endif
    __m256i w[8];
    rf_load_group(f, src, w);
    RF_UNROLL
    for (int j = 0; j < 8; j++)
        _mm256_storeu_si256((__m256i *)(q + 32 * j), w[j]);
}

/* The scales of each sixteen, of which neighbours are alike where 32 elements share one. */
RF_INLINE void write_row_scales(rf_mm_format f, rf_mm_scales how, uint8_t add, const row_group *in,
                                uint8_t *record) {
    const bool twice = how == RF_MM_SCALES_TWICE || how == RF_MM_SCALES_IN;
    const rf_mm_lanes rows = lanes_at((const uint8_t *)in->scale, sizeof in->scale[0]);
    const vec low = vec_set(0xffff);
    const size_t row = VEC_ROWS * 4;
    vec pair[8];
    vec_gather_4(&rows, 0, pair);
    vec_gather_4(&rows, 16, pair + 4);
    RF_UNROLL
    for (size_t j = 0; j < 8; j++) {
        vec even = vec_and(pair[j], low), odd = vec_shr(pair[j], 16);
        uint8_t *at = record + RF_MM_AT_SCALE(VEC_ROWS) + 2 * j * row;
        vec_store(at, twice ? vec_or(even, vec_shl(even, 16)) : even);
        vec_store(at + row, twice ? vec_or(odd, vec_shl(odd, 16)) : odd);
    }
    if (!keeps_offs(how)) return;
    const size_t step = (size_t)rf_mm_scale_elems(f) / 16;
    RF_UNROLL
    for (size_t j = 0; j < 8; j += step) {
        vec v = pair[j];
        if (step == 2) v = vec_or(vec_and(v, low), vec_shl(pair[j + 1], 16));
        vec_store(record + RF_MM_AT_SCALES(VEC_ROWS) + j / step * row, vec_mul_pairs(v, -(int)add));
    }
}

RF_INLINE void write_record_rows(rf_mm_format f, rf_mm_scales how, const rf_mm_pack *pack,
                                 const rf_mm_lanes *p, uint8_t *record) {
    quads out = {f, how, record, vec_set(0), pack->ahead};
    row_group in;
    for (size_t l = 0; l < VEC_ROWS; l++) {
        const uint8_t *src = p->p[l / 4] + l % 4 * p->stride;
        in.d[l] = rf_grid_d(f, src);
        unpack_row(f, src, in.q[l], in.scale[l]);
    }
    memcpy(record, in.d, sizeof in.d);
    if (keeps_scales(f, how)) write_row_scales(f, how, pack->add, &in, record);
    const rf_mm_lanes rows = lanes_at(in.q[0], sizeof in.q[0]);
    const vec more =
        vec_bytes(rf_mm_is_signed(f) ? pack->add : 0); /* the other loaders have added it */
    for (size_t j = 0; j < 16; j++) {
        vec w[4];
        vec_gather_4(&rows, 16 * j, w);
        RF_UNROLL
        for (int i = 0; i < 4; i++)
            w[i] = vec_add_bytes(w[i], more);
        put_16(&out, 16 * j, w);
    }
    finish_quads(&out);
}
