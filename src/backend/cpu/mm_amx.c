/* mm_amx.c - AMX: blocks of sixteen weight rows by sixteen activation rows, whose integers the matrix
 * unit adds up over a whole group.
 *
 * A block of weights is unpacked row by row as it lies, which costs least; the activations, which
 * every weight row needs, are laid out once as the unit wants its second factor (kernels.h).  Sums
 * leave the unit through memory, a weight row's sixteen activations in a vector; they become floats
 * while other groups are multiplied.
 *
 * Weights of a group of 256 are multiplied by their scales while they are unpacked.  A product p is
 * cut into two digits, p = 128 upper + lower, so that one sum of either passes over all columns:
 * |p| < 2^14, hence -2^7 <= upper < 2^7 and 0 <= lower < 2^7; 256 of them times |x| <= 127 stay
 * below 2^23, and 128 times the upper sum plus the lower one is the group's integer, below 2^30.
 *
 * Activations that are not laid out, and floats, are AVX-512's. */
#include "backend/cpu/mm_grid_avx512.h"
#include "backend/cpu/mm_vec_avx512.h"

#include "backend/cpu/mm_minima.h"
#include "base/amx.h"

enum {
    SIDE = RF_ACT_BLOCK, /* rows of a block, of weights or of activations */
    /* Columns of weights unpacked at a time: those and the activations' are in the first-level cache.
     * With more than FEW_BLOCKS of activations, groups of 32 are read so often that longer ones pay. */
    STRETCH = 512,
    LONG_STRETCH = 1024,
    FEW_BLOCKS = 4,
    MOST_ACTS = 1 << 20,   /* bytes of activations that are near beside what else there is, */
    PART_ACTS = 640 << 10, /* and of a part where there are more */
    MIN_ROWS = 11,         /* activation rows from which blocks pay for any format */
};

/* Records of a group: of activations ... */
typedef struct act_32 {
    float d[SIDE], total[SIDE]; /* total: for formats with minima */
    int8_t q[8][SIDE][4];       /* [k / 4] */
} __attribute__((aligned(64))) act_32;
typedef struct act_256 {
    float d[SIDE];
    int16_t sums[8][SIDE][2]; /* two neighbours */
    int8_t q[64][SIDE][4];
} __attribute__((aligned(64))) act_256;

/* ... and of weights; the last row again and again where there are fewer. */
typedef struct weights_32 {
    float d[SIDE], m[SIDE];
    int8_t q[SIDE][32];
} __attribute__((aligned(64))) weights_32;
typedef struct weights_256 {
    float d[SIDE], m[SIDE];
    int16_t mins[SIDE][16];
    int8_t upper[4][SIDE][64], lower[4][SIDE][64]; /* [k / 64] */
} __attribute__((aligned(64))) weights_256;
_Static_assert(sizeof(act_32) == RF_ACT_RECORD_32, "kernels.h");
_Static_assert(sizeof(act_256) == RF_ACT_RECORD_256, "kernels.h");
_Static_assert(sizeof(weights_32) * (LONG_STRETCH / 32) <= RF_MM_PANEL_BYTES, "panel");
_Static_assert(sizeof(weights_256) * (STRETCH / 256) <= RF_MM_PANEL_BYTES, "panel");
_Static_assert(STRETCH / 32 % RF_SHARE_GROUPS == 0, "groups that share steps are in one stretch");

/* Sixteen sums or results of each weight row. */
typedef struct block {
    int32_t v[SIDE][SIDE];
} __attribute__((aligned(64))) block;
typedef struct block_floats {
    float v[SIDE][SIDE];
} __attribute__((aligned(64))) block_floats;

/* Dwords of sixteen rows: out[i] has dword i of the sixteen bytes at p[row] + at. */
RF_INLINE void gather_dwords(const void *const p[SIDE], size_t at, vec out[4]) {
    vec r[4];
    RF_UNROLL
    for (int i = 0; i < 4; i++) {
        const uint8_t *const row[4] = {p[i], p[i + 4], p[i + 8], p[i + 12]};
        r[i] = vec_of_four(row[0] + at, row[1] + at, row[2] + at, row[3] + at);
    }
    transpose_dwords(r, out);
}

/* ---- activations ---- */

/* n_dwords of each row at p, dword by dword. */
RF_INLINE void lay_out_dwords(const void *const p[SIDE], size_t n_dwords, void *dst) {
    for (size_t k = 0; k < n_dwords; k += 4) {
        vec v[4];
        gather_dwords(p, 4 * k, v);
        RF_UNROLL
        for (size_t i = 0; i < 4; i++)
            vec_store((uint8_t *)dst + (k + i) * sizeof(vec), v[i]);
    }
}

/* Groups [g, end) of rows to their block, and so on for groups of 256. */
static void lay_out_32(const rf_mm_input *a, const uint32_t row[SIDE], size_t g, size_t end,
                       act_32 *dst) {
    const size_t n_groups = a->n_cols / 32;
    for (dst += g; g < end; g++, dst++) {
        const void *q[SIDE];
        for (size_t i = 0; i < SIDE; i++) {
            q[i] = a->q + (size_t)row[i] * a->n_cols + 32 * g;
            dst->d[i] = a->d[row[i] * n_groups + g];
            if (a->total) dst->total[i] = a->total[row[i] * n_groups + g];
        }
        lay_out_dwords(q, 8, dst->q);
    }
}

static void lay_out_256(const rf_mm_input *a, const uint32_t row[SIDE], size_t g, size_t end,
                        act_256 *dst) {
    const size_t n_groups = a->n_cols / 256;
    for (dst += g; g < end; g++, dst++) {
        int16_t sums[SIDE][16] __attribute__((aligned(32)));
        const void *q[SIDE], *s[SIDE];
        for (size_t i = 0; i < SIDE; i++) {
            const size_t at = row[i] * n_groups + g;
            q[i] = a->q + 256 * at;
            s[i] = sums[i];
            dst->d[i] = a->d[at];
            _mm256_store_si256((__m256i *)sums[i],
                               _mm512_cvtepi32_epi16(_mm512_loadu_si512(a->sum + 16 * at)));
        }
        lay_out_dwords(s, 8, dst->sums);
        lay_out_dwords(q, 64, dst->q);
    }
}

static void lay_out(const rf_mm_input *a, uint32_t first, uint32_t begin, uint32_t end) {
    if (a->view == RF_INT_NONE) {
        rf_mm_lay_out_avx512(a, first, begin, end);
        return;
    }
    uint32_t row[SIDE];
    uint8_t *dst = a->blocks + first / SIDE * rf_act_block_bytes(a->view, a->n_cols);
    for (uint32_t i = 0; i < SIDE; i++)
        row[i] = first + i < a->n_rows ? first + i : a->n_rows - 1;
    if (a->view == RF_INT_32)
        lay_out_32(a, row, begin / 32, end / 32, (act_32 *)dst);
    else
        lay_out_256(a, row, begin / 256, end / 256, (act_256 *)dst);
}

/* ---- weights ---- */

/* A block of weight rows: row r's next bytes are p + off[r], so that one addition takes all rows on. */
typedef struct weight_rows {
    const uint8_t *p;
    size_t off[SIDE];
} weight_rows;

/* The halves that each row has at `at`. */
RF_INLINE vec_floats halves_at(const weight_rows *rows, size_t at) {
    uint16_t h[SIDE];
    RF_UNROLL
    for (size_t i = 0; i < SIDE; i++)
        h[i] = rf_get_u16(rows->p + rows->off[i] + at);
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)h));
}

/* The same as they are, by the ports for loads and stores: insertions into a vector all take the port that
 * unpacking needs.  Volatile, as compilers would make them insertions again. */
RF_INLINE void copy_halves(const weight_rows *rows, size_t at, float *dst) {
    volatile uint16_t *to = (volatile uint16_t *)(void *)dst;
    RF_UNROLL
    for (size_t i = 0; i < SIDE; i++)
        to[i] = rf_get_u16(rows->p + rows->off[i] + at);
}

RF_INLINE void copy_bytes(const weight_rows *rows, float *dst) {
    volatile uint8_t *to = (volatile uint8_t *)(void *)dst;
    RF_UNROLL
    for (size_t i = 0; i < SIDE; i++)
        to[i] = rows->p[rows->off[i]];
}

RF_INLINE void widen_halves(float *d) {
    _mm512_store_ps(d, _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)d)));
}

/* Exponents of eight bits. */
RF_INLINE void widen_e8m0(int shift, bool has_nan, float *d) {
    const __m512i all = _mm512_cvtepu8_epi32(rf_load_128(d));
    const __m256i half[2] = {_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1)};
    _mm256_store_ps(d, rf_e8m0(half[0], shift, has_nan));
    _mm256_store_ps(d + 8, rf_e8m0(half[1], shift, has_nan));
}

RF_INLINE bool has_e8m0(rf_mm_format f) { return f == RF_MM_MXFP4 || f == RF_MM_MXFP6_E2M3; }

/* What unpack_32 copied into d and m becomes floats: later, since a vector cannot be read while its parts are
 * still being stored. */
RF_INLINE void widen_scales(rf_mm_format f, weights_32 *w, size_t n) {
    for (; n; n--, w++) {
        if (f == RF_MM_MXFP4)
            widen_e8m0(1, false, w->d);
        else if (f == RF_MM_MXFP6_E2M3)
            widen_e8m0(3, true, w->d);
        else
            widen_halves(w->d);
        if (rf_mm_has_m(f)) widen_halves(w->m);
    }
}

RF_INLINE bool has_nibbles(rf_mm_format f) {
    return f == RF_MM_Q4_0 || f == RF_MM_Q4_1 || f == RF_MM_Q5_0 || f == RF_MM_Q5_1 ||
           f == RF_MM_IQ4_NL || f == RF_MM_MXFP4;
}

/* Affine transforms of a byte's bits that give its low or its high nibble; less eight, with LESS_8 turned round. */
#define LOW    0x0102040800000000
#define HIGH   0x1020408000000000
#define LOW_8  0x0102040808080808
#define HIGH_8 0x1020408080808080
#define LESS_8 0xf8

/* Sixteen bytes' low nibbles and then the high ones, of two rows; of Q4_0 less eight. */
RF_INLINE vec nibbles_of_two(rf_mm_format f, const uint8_t *a, const uint8_t *b) {
    vec v = _mm512_broadcast_i32x4(rf_load_128(a));
    v = _mm512_mask_broadcast_i32x4(v, 0xff00, rf_load_128(b));
    if (f == RF_MM_Q4_0)
        return _mm512_gf2p8affine_epi64_epi8(
            v, _mm512_set_epi64(HIGH_8, HIGH_8, LOW_8, LOW_8, HIGH_8, HIGH_8, LOW_8, LOW_8),
            LESS_8);
    return _mm512_gf2p8affine_epi64_epi8(
        v, _mm512_set_epi64(HIGH, HIGH, LOW, LOW, HIGH, HIGH, LOW, LOW), 0);
}

/* A group of two rows of such a format. */
RF_INLINE vec two_of_nibbles(rf_mm_format f, const uint8_t *a, const uint8_t *b) {
    const size_t at = rf_mm_block_bytes(f) - 16;
    const vec v = nibbles_of_two(f, a + at, b + at);
    if (f == RF_MM_IQ4_NL || f == RF_MM_MXFP4)
        return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(rf_book_of(f, 0)), v);
    if (f != RF_MM_Q5_0 && f != RF_MM_Q5_1) return v;
    const __mmask64 fifth = rf_get_u32(a + at - 4) | (__mmask64)rf_get_u32(b + at - 4) << 32;
    return f == RF_MM_Q5_0 ? _mm512_mask_sub_epi8(v, ~fifth, v, vec_bytes(16))
                           : _mm512_mask_add_epi8(v, fifth, v, vec_bytes(16));
}

/* Group number `part` of two rows' blocks. */
RF_INLINE vec two_of_32(rf_mm_format f, size_t part, uint8_t off, const uint8_t *a,
                        const uint8_t *b) {
    __m256i low, high;
    if (has_nibbles(f)) return two_of_nibbles(f, a, b);
    rf_load_pair(f, part, a, b, &low, &high);
    const vec all = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    const vec v = _mm512_permutexvar_epi64(_mm512_set_epi64(7, 6, 3, 2, 5, 4, 1, 0), all);
    return rf_mm_is_signed(f) ? v : vec_sub_bytes(v, vec_bytes(off));
}

/* Group number `part` of the rows' blocks. */
RF_INLINE void unpack_32(rf_mm_format f, size_t part, uint8_t off, const weight_rows *rows,
                         weights_32 *w) {
    RF_UNROLL
    for (size_t r = 0; r < SIDE; r += 2)
        vec_store((uint8_t *)w->q[r],
                  two_of_32(f, part, off, rows->p + rows->off[r], rows->p + rows->off[r + 1]));
    if (has_e8m0(f))
        copy_bytes(rows, w->d);
    else
        copy_halves(rows, 0, w->d);
    if (rf_mm_has_m(f)) copy_halves(rows, 2, w->m);
}

/* Digits of the products of 64 weights with the scales, twice as large, of every sixteen. */
RF_INLINE void write_digits(vec q, vec scale, int8_t *upper, int8_t *lower) {
    const __mmask64 odd_bytes = 0xaaaaaaaaaaaaaaaau;
    const vec even = _mm512_mullo_epi16(_mm512_srai_epi16(_mm512_slli_epi16(q, 8), 8), scale);
    const vec odd = _mm512_mullo_epi16(_mm512_srai_epi16(q, 8), scale);
    const vec high = _mm512_mask_blend_epi8(odd_bytes, _mm512_srli_epi16(even, 8), odd);
    const vec low = _mm512_mask_blend_epi8(odd_bytes, even, _mm512_slli_epi16(odd, 8));
    vec_store((uint8_t *)upper, high);
    vec_store((uint8_t *)lower, _mm512_srli_epi16(low, 1)); /* bytes' lowest bits are 0 */
}

/* Elements 64k .. 64k + 63 of a group. */
RF_INLINE vec quarter(rf_mm_format f, const __m256i q[8], int k) {
    __m256i low = q[2 * k], high = q[2 * k + 1];
    if (f == RF_MM_IQ4_XS) { /* see rf_load_iq4_xs */
        low = _mm256_permute2x128_si256(q[2 * k], q[2 * k + 1], 0x20);
        high = _mm256_permute2x128_si256(q[2 * k], q[2 * k + 1], 0x31);
    }
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

RF_INLINE void load_quarters(rf_mm_format f, const uint8_t *p, vec w[4]) {
    __m256i q[8];
    if (rf_is_code_book(f))
        rf_load_quarters(f, p, w);
    else
        rf_load_group(f, p, q);
    RF_UNROLL
    for (int k = 0; k < 4; k++) {
        if (!rf_is_code_book(f)) w[k] = quarter(f, q, k);
        if (rf_mm_off(f) > 0) w[k] = vec_sub_bytes(w[k], vec_bytes((uint8_t)rf_mm_off(f)));
    }
}

/* Weights of sixteen values have their digits looked up by the scale: [upper, lower][value]. */
typedef struct digits {
    int8_t of[2][16];
} digits;
#define UPPER(v, s) (int8_t)((v) * (s) >> 7)
#define LOWER(v, s) (int8_t)((v) * (s)&127)
#define OF_Q4_K(D, s)                                                                         \
    D(0, s), D(1, s), D(2, s), D(3, s), D(4, s), D(5, s), D(6, s), D(7, s), D(8, s), D(9, s), \
        D(10, s), D(11, s), D(12, s), D(13, s), D(14, s), D(15, s)
#define DIGITS(of, s)                        \
    {                                        \
        {                                    \
            {of(UPPER, s)}, { of(LOWER, s) } \
        }                                    \
    }
#define EIGHT(of, s)                                                              \
    DIGITS(of, s), DIGITS(of, (s) + 1), DIGITS(of, (s) + 2), DIGITS(of, (s) + 3), \
        DIGITS(of, (s) + 4), DIGITS(of, (s) + 5), DIGITS(of, (s) + 6), DIGITS(of, (s) + 7)
#define TABLE(of, first)                                                               \
    {                                                                                  \
        EIGHT(of, first), EIGHT(of, (first) + 8), EIGHT(of, (first) + 16),             \
            EIGHT(of, (first) + 24), EIGHT(of, (first) + 32), EIGHT(of, (first) + 40), \
            EIGHT(of, (first) + 48), EIGHT(of, (first) + 56)                           \
    }
enum { LEAST_IQ4_XS = -32 }; /* scale */
static const digits digits_q4_k[64] = TABLE(OF_Q4_K, 0);
static const digits digits_iq4_xs[64] = TABLE(RF_OF_IQ4, LEAST_IQ4_XS);

/* Codes of elements 64k .. 64k + 63. */
RF_INLINE vec codes(rf_mm_format f, const uint8_t *p, int k) {
    if (f == RF_MM_IQ4_XS) {
        const uint8_t *qs = ((const rf_block_iq4_xs *)p)->qs + 32 * k;
        return nibbles_of_two(f, qs, qs + 16);
    }
    const vec v = _mm512_broadcast_i64x4(rf_load_256(((const rf_block_q4_k *)p)->qs + 32 * k));
    return _mm512_gf2p8affine_epi64_epi8(
        v, _mm512_set_epi64(HIGH, HIGH, HIGH, HIGH, LOW, LOW, LOW, LOW), 0);
}

RF_INLINE bool has_table(rf_mm_format f) { return f == RF_MM_Q4_K || f == RF_MM_IQ4_XS; }

RF_INLINE void look_up_digits(rf_mm_format f, const uint8_t *p, __m256i scales, size_t r,
                              weights_256 *w) {
    const digits *table = f == RF_MM_Q4_K ? digits_q4_k : digits_iq4_xs - LEAST_IQ4_XS;
    int16_t scale[16] __attribute__((aligned(32)));
    _mm256_store_si256((__m256i *)scale, scales);
    RF_UNROLL
    for (int k = 0; k < 4; k++) {
        const digits *first = table + scale[4 * k], *second = table + scale[4 * k + 2];
        const vec c = codes(f, p, k);
        vec d[2];
        RF_UNROLL
        for (int i = 0; i < 2; i++) {
            d[i] = _mm512_broadcast_i32x4(rf_load_128(first->of[i]));
            d[i] = _mm512_mask_broadcast_i32x4(d[i], 0xff00, rf_load_128(second->of[i]));
            d[i] = _mm512_shuffle_epi8(d[i], c);
        }
        vec_store((uint8_t *)w->upper[k][r], d[0]);
        vec_store((uint8_t *)w->lower[k][r], d[1]);
    }
}

RF_INLINE void multiply_digits(rf_mm_format f, const uint8_t *p, __m256i scales, size_t r,
                               weights_256 *w) {
    const vec each = _mm512_set_epi16(3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1,
                                      1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    const vec scale = _mm512_castsi256_si512(_mm256_add_epi16(scales, scales));
    vec q[4];
    load_quarters(f, p, q);
    RF_UNROLL
    for (int k = 0; k < 4; k++) {
        const vec at = _mm512_add_epi16(each, _mm512_set1_epi16((short)(4 * k)));
        write_digits(q[k], _mm512_permutexvar_epi16(at, scale), w->upper[k][r], w->lower[k][r]);
    }
}

/* Looks ahead with every look_after-th row. */
RF_INLINE void unpack_256(rf_mm_format f, const weight_rows *rows, weights_256 *w,
                          rf_mm_ahead *ahead, size_t look_after) {
    for (size_t r = 0, due = 0; r < SIDE; r++) {
        const uint8_t *p = rows->p + rows->off[r];
        if (r == due) {
            rf_mm_look_ahead(ahead);
            due += look_after;
        }
        const rf_scales_256 s = rf_load_scales(f, p);
        if (has_table(f))
            look_up_digits(f, p, s.scale, r, w);
        else
            multiply_digits(f, p, s.scale, r, w);
        if (rf_mm_has_dmin(f)) _mm256_store_si256((__m256i *)w->mins[r], s.min);
        if (rf_is_grid(f)) w->d[r] = rf_grid_d(f, p);
    }
    if (rf_is_grid(f)) return;
    _mm512_store_ps(w->d, halves_at(rows, rf_d_offset(f)));
    if (rf_mm_has_dmin(f)) _mm512_store_ps(w->m, vec_negative(halves_at(rows, rf_d_offset(f) + 2)));
}

/* Weight rows to be unpacked, n groups from number `first` on, which begins a block. */
typedef struct source {
    weight_rows rows;
    size_t first, n;
    uint8_t off;
    rf_mm_ahead *ahead;
    size_t look_after; /* rows of a group of 256 */
} source;

RF_INLINE void unpack_groups(rf_mm_format f, const source *s, void *panel) {
    const size_t bytes = rf_mm_block_bytes(f), n_parts = rf_mm_groups(f);
    weight_rows rows = s->rows;
    rows.p += s->first / n_parts * bytes;
    for (size_t g = 0; g < s->n; g++) {
        if (f >= RF_MM_Q4_K) {
            unpack_256(f, &rows, (weights_256 *)panel + g, s->ahead, s->look_after);
        } else {
            rf_mm_look_ahead(s->ahead);
            unpack_32(f, g % n_parts, s->off, &rows, (weights_32 *)panel + g);
        }
        if ((g + 1) % n_parts == 0) rows.p += bytes;
    }
    if (f < RF_MM_Q4_K) widen_scales(f, panel, s->n);
    if (rf_mm_has_m(f))
        round_all_minima((uint8_t *)((weights_32 *)panel)->m, sizeof(weights_32), s->n);
}

#define UNPACK(f)                           \
    case RF_MM_##f:                         \
        unpack_groups(RF_MM_##f, s, panel); \
        break;

static void unpack(rf_dtype type, const source *s, void *panel) {
    switch (rf_mm_format_of(type)) {
        UNPACK(Q4_0)
        UNPACK(Q4_1)
        UNPACK(Q5_0)
        UNPACK(Q5_1)
        UNPACK(Q8_0)
        UNPACK(IQ4_NL)
        UNPACK(MXFP4)
        UNPACK(MXFP6_E2M3)
        UNPACK(Q1_0)
        UNPACK(Q2_0)
        UNPACK(Q4_K)
        UNPACK(Q5_K)
        UNPACK(Q6_K)
        UNPACK(IQ4_XS)
        UNPACK(Q2_K)
        UNPACK(Q3_K)
        UNPACK(IQ2_XXS)
        UNPACK(IQ2_XS)
        UNPACK(IQ2_S)
        UNPACK(IQ3_XXS)
        UNPACK(IQ3_S)
        UNPACK(IQ1_S)
        UNPACK(IQ1_M)
        UNPACK(TQ1_0)
        UNPACK(TQ2_0)
        UNPACK(Q8_K)
    }
}
#undef UNPACK

/* ---- the unit's registers: sums in 0 to 3, weights in 4 and 5, activations in 6 and 7 ---- */

static void configure(uint8_t columns) {
    const uint8_t k = columns / 4;
    const uint8_t rows[8] = {SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, k, k};
    const uint8_t bytes[8] = {64, 64, 64, 64, columns, columns, 64, 64};
    rf_amx_configure(rows, bytes);
}

/* fma((float)i, wd * xd, acc) */
RF_INLINE vec_floats add_scaled(vec_floats i, float wd, vec_floats xd, vec_floats acc) {
    return vec_fma(i, vec_floats_mul(xd, vec_floats_set(wd)), acc);
}

/* ---- groups of 32 ---- */

RF_INLINE void add_32(const weights_32 *w, const act_32 *a, const block *sums,
                      vec_floats acc[SIDE]) {
    const vec_floats xd = _mm512_load_ps(a->d);
    RF_UNROLL
    for (int r = 0; r < SIDE; r++) {
        const vec_floats i = vec_to_floats(_mm512_load_si512(sums->v[r]));
        acc[r] = add_scaled(i, w->d[r], xd, acc[r]);
    }
}

/* Minima of n groups that share steps. */
RF_INLINE void add_minima(const weights_32 *w, const act_32 *a, size_t n, vec_floats acc[SIDE]) {
    vec_floats p[SIDE];
    RF_UNROLL
    for (int r = 0; r < SIDE; r++)
        p[r] = vec_floats_zero();
    for (size_t g = 0; g < n; g++) {
        const vec_floats total = _mm512_load_ps(a[g].total);
        RF_UNROLL
        for (int r = 0; r < SIDE; r++)
            p[r] = vec_fma(vec_floats_set(w[g].m[r]), total, p[r]);
    }
    RF_UNROLL
    for (int r = 0; r < SIDE; r++)
        acc[r] = vec_floats_add(acc[r], p[r]);
}

/* The intrinsics want registers' numbers as digits. */
#define MULTIPLY_32(g, sum, weights, act) \
    do {                                  \
        _tile_zero(sum);                  \
        _tile_loadd(weights, w[g].q, 32); \
        _tile_loadd(act, a[g].q, 64);     \
        _tile_dpbssd(sum, weights, act);  \
    } while (0)
#define STORE_32(sum) _tile_stored(sum, sums.v, 64)

/* Group g becomes floats, while those behind it are made; then the next one's sums take their place in memory, which is the
 * same for all: four places in turn measured 5 to 9 % slower.  sure: the next two are there. */
#define STEP_32(sure, g, sum, weights, act, stored)                     \
    if (!(sure) && (g) >= n) break;                                     \
    if ((sure) || (g) + 2 < n) MULTIPLY_32((g) + 2, sum, weights, act); \
    rf_mm_look_ahead(ahead);                                            \
    add_32(&w[g], &a[g], &sums, acc);                                   \
    if ((sure) || (g) + 1 < n) STORE_32(stored);
/* Every other four end groups that share steps. */
#define FOUR_STEPS_32(sure)                                    \
    STEP_32(sure, g, 2, 4, 6, 1)                               \
    STEP_32(sure, g + 1, 3, 5, 7, 2)                           \
    STEP_32(sure, g + 2, 0, 4, 6, 3)                           \
    STEP_32(sure, g + 3, 1, 5, 7, 0)                           \
    if (has_min && g % RF_SHARE_GROUPS == RF_SHARE_GROUPS - 4) \
        add_minima(&w[g - 4], &a[g - 4], RF_SHARE_GROUPS, acc);

RF_INLINE void block_32(bool has_min, const weights_32 *w, const act_32 *a, size_t n,
                        block_floats *result, rf_mm_ahead *ahead) {
    block sums;
    vec_floats acc[SIDE];
    size_t g = 0;
    RF_UNROLL
    for (int r = 0; r < SIDE; r++)
        acc[r] = _mm512_load_ps(result->v[r]);
    MULTIPLY_32(0, 0, 4, 6);
    if (n > 1) MULTIPLY_32(1, 1, 5, 7);
    STORE_32(0);
    for (; g + 6 <= n; g += 4) {
        FOUR_STEPS_32(true)
    }
    for (;; g += 4) {
        FOUR_STEPS_32(false)
    }
    const size_t left = n % RF_SHARE_GROUPS;
    if (has_min && left) add_minima(&w[n - left], &a[n - left], left, acc);
    RF_UNROLL
    for (int r = 0; r < SIDE; r++)
        _mm512_store_ps(result->v[r], acc[r]);
}

/* ---- groups of 256 ---- */

/* [activation block][upper, lower] */
typedef struct digit_sums {
    block v[2][2];
} digit_sums;

/* n activation blocks, `apart` records from each other */
RF_INLINE void multiply_256(int n, const weights_256 *w, const act_256 *a, size_t apart,
                            digit_sums *i) {
    _tile_zero(0);
    _tile_zero(1);
    if (n == 2) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t k = 0; k < 4; k++) {
        _tile_loadd(4, w->upper[k], 64);
        _tile_loadd(6, a->q[16 * k], 64);
        _tile_dpbssd(0, 4, 6);
        _tile_loadd(5, w->lower[k], 64);
        _tile_dpbssd(1, 5, 6);
        if (n == 2) {
            _tile_loadd(7, a[apart].q[16 * k], 64);
            _tile_dpbssd(2, 4, 7);
            _tile_dpbssd(3, 5, 7);
        }
    }
    _tile_stored(0, i->v[0][0].v, 64);
    _tile_stored(1, i->v[0][1].v, 64);
    if (n == 2) {
        _tile_stored(2, i->v[1][0].v, 64);
        _tile_stored(3, i->v[1][1].v, 64);
    }
}

RF_INLINE void add_256(bool has_min, const weights_256 *w, const act_256 *a, const block i[2],
                       block_floats *result) {
    const vec_floats xd = _mm512_load_ps(a->d);
    vec sums[8];
    RF_UNROLL
    for (int j = 0; has_min && j < 8; j++)
        sums[j] = _mm512_load_si512(a->sums[j]);
    for (int r = 0; r < SIDE; r++) {
        const vec upper = _mm512_load_si512(i[0].v[r]), lower = _mm512_load_si512(i[1].v[r]);
        const vec_floats all = vec_to_floats(vec_add(vec_shl(upper, 7), lower));
        vec_floats acc = add_scaled(all, w->d[r], xd, _mm512_load_ps(result->v[r]));
        if (has_min) {
            vec m[2] = {vec_set(0), vec_set(0)};
            RF_UNROLL
            for (int j = 0; j < 8; j++)
                m[j % 2] =
                    vec_dot_pairs(m[j % 2], sums[j], vec_set(rf_get_u32(&w->mins[r][2 * j])));
            acc = add_scaled(vec_to_floats(vec_add(m[0], m[1])), w->m[r], xd, acc);
        }
        _mm512_store_ps(result->v[r], acc);
    }
}

/* n_acts blocks, `apart` records from each other; sums are stored while the next ones are made. */
RF_INLINE void blocks_256(int n_acts, bool has_min, const weights_256 *w, const act_256 *a,
                          size_t apart, size_t n, block_floats *result, rf_mm_ahead *ahead) {
    digit_sums i[2];
    multiply_256(n_acts, w, a, apart, &i[0]);
    for (size_t g = 0; g < n; g++) {
        rf_mm_look_ahead(ahead);
        if (g + 1 < n) multiply_256(n_acts, w + g + 1, a + g + 1, apart, &i[(g + 1) % 2]);
        RF_UNROLL
        for (int b = 0; b < n_acts; b++)
            add_256(has_min, w + g, a + g + (size_t)b * apart, i[g % 2].v[b], result + b);
    }
}

/* ---- a stretch of a block of weight rows with all activations ---- */

typedef struct stretch {
    void *panel;
    const uint8_t *blocks; /* of activations, at the stretch's first group */
    size_t block_bytes, n_blocks, n;
    block_floats *result; /* [n_blocks] */
    rf_mm_ahead *ahead;
} stretch;

RF_INLINE void stretch_32(bool has_min, const stretch *s) {
    for (size_t b = 0; b < s->n_blocks; b++)
        block_32(has_min, s->panel, (const act_32 *)(s->blocks + b * s->block_bytes), s->n,
                 &s->result[b], s->ahead);
}

RF_INLINE void stretch_256(bool has_min, const stretch *s) {
    const size_t apart = s->block_bytes / sizeof(act_256);
    size_t b = 0;
    for (; b + 1 < s->n_blocks; b += 2)
        blocks_256(2, has_min, s->panel, (const act_256 *)s->blocks + b * apart, apart, s->n,
                   &s->result[b], s->ahead);
    if (b < s->n_blocks)
        blocks_256(1, has_min, s->panel, (const act_256 *)s->blocks + b * apart, apart, s->n,
                   &s->result[b], s->ahead);
}

static void plain_32(const stretch *s) { stretch_32(false, s); }
static void min_32(const stretch *s) { stretch_32(true, s); }
static void plain_256(const stretch *s) { stretch_256(false, s); }
static void min_256(const stretch *s) { stretch_256(true, s); }

/* ---- the table's entries ---- */

/* dst of n weight rows from `row` on: results turn from a row's activations to an activation's rows. */
static void write_results(const rf_mm *mm, uint32_t row, uint32_t n, const block_floats *result) {
    const vec_floats bias = mm->bias ? vec_load_floats_n(mm->bias + row, n) : vec_floats_set(0);
    for (uint32_t t = 0; t < mm->act->n_rows; t += 4) {
        const float *from = &result[t / SIDE].v[0][t % SIDE];
        const void *p[SIDE];
        vec out[4];
        for (size_t i = 0; i < SIDE; i++)
            p[i] = from + i * SIDE;
        gather_dwords(p, 0, out);
        for (uint32_t i = 0; i < 4 && t + i < mm->act->n_rows; i++) {
            vec_floats v = _mm512_castsi512_ps(out[i]);
            if (mm->bias) v = vec_floats_add(v, bias);
            vec_store_floats_n(mm->dst + (t + i) * mm->dst_stride + row, n, v);
        }
    }
}

/* What a product is done with: groups of a stretch and of a part, weight rows that a part is multiplied with before the
 * next one.  Activations that the second-level cache does not hold go in parts that it does, each with more weight
 * rows, so that these do not all bring all of them from the third-level cache. */
typedef struct blocking {
    size_t group, record; /* columns of a group, bytes of its activations */
    size_t n_groups, stretch, part;
    size_t n_looks; /* ahead, while a group is unpacked: often where few products follow */
    uint32_t n_rows;
} blocking;

static blocking blocking_of(const rf_mm_input *a, size_t n_blocks) {
    const bool is_256 = a->view == RF_INT_256, is_long = !is_256 && n_blocks > FEW_BLOCKS;
    blocking b = {.group = is_256 ? 256 : 32,
                  .record = is_256 ? sizeof(act_256) : sizeof(act_32),
                  .n_looks = is_256 && n_blocks <= FEW_BLOCKS ? RF_MM_LOOKS_256 : 1,
                  .n_rows = SIDE};
    b.n_groups = b.part = a->n_cols / b.group;
    b.stretch = (is_long ? LONG_STRETCH : STRETCH) / b.group;
    if (n_blocks * b.n_groups * b.record <= MOST_ACTS) return b;
    const size_t n = PART_ACTS / (n_blocks * b.record) / b.stretch;
    b.part = (n ? n : 1) * b.stretch;
    b.n_rows = SIDE * RF_MM_BLOCKS;
    return b;
}

/* A block's n weight rows from `row` on with the groups [first, end) of all activations. */
static void multiply_part(const rf_mm *mm, const blocking *b, stretch *s, uint32_t row, uint32_t n,
                          size_t first, size_t end) {
    const rf_dtype_info *info = rf_dtype_get(mm->w->type);
    void (*const multiply)(const stretch *) = b->group == 256 ? info->has_min ? min_256 : plain_256
                                              : info->has_min ? min_32
                                                              : plain_32;
    source from = {.rows.p = rf_mm_row(mm->w, row),
                   .off = rf_mm_range_of(mm->w->type).off,
                   .ahead = s->ahead,
                   .look_after = SIDE / b->n_looks};
    for (uint32_t i = 0; i < SIDE; i++)
        from.rows.off[i] = (i < n ? i : n - 1) * mm->w->row_bytes;
    for (from.first = first; from.first < end; from.first += s->n) {
        s->n = from.n = end - from.first < b->stretch ? end - from.first : b->stretch;
        s->blocks = mm->act->blocks + from.first * b->record;
        unpack(mm->w->type, &from, s->panel);
        multiply(s);
    }
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void matmul_blocks(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    const size_t n_blocks = (mm->act->n_rows + SIDE - 1) / SIDE;
    const blocking b = blocking_of(mm->act, n_blocks);
    block_floats *const results = (void *)((uint8_t *)scratch + RF_MM_PANEL_BYTES);
    rf_mm_ahead ahead;
    stretch s = {.panel = scratch,
                 .block_bytes = b.n_groups * b.record,
                 .n_blocks = n_blocks,
                 .ahead = &ahead};
    /* A block of activations, or two of them, is one more look. */
    const size_t n_looks = b.n_looks + (b.group == 256 ? (n_blocks + 1) / 2 : n_blocks);
    configure(b.group == 256 ? 64 : 32);
    for (uint32_t row = begin; row < end; row += b.n_rows) {
        const uint32_t n = least(end - row, b.n_rows), n_here = (n + SIDE - 1) / SIDE;
        ahead.step = rf_mm_look_at_rows(mm, row + n, end, b.n_rows, &ahead) /
                     (n_looks * b.n_groups * n_here);
        memset(results, 0, n_here * n_blocks * sizeof *results);
        for (size_t g = 0; g < b.n_groups; g += b.part)
            for (uint32_t i = 0; i < n; i += SIDE) {
                s.result = results + i / SIDE * n_blocks;
                multiply_part(mm, &b, &s, row + i, least(n - i, SIDE), g,
                              b.n_groups - g < b.part ? b.n_groups : g + b.part);
            }
        for (uint32_t i = 0; i < n; i += SIDE)
            write_results(mm, row + i, least(n - i, SIDE), results + i / SIDE * n_blocks);
    }
    _tile_release();
}

/* Do blocks pay?  One takes as long for a few activation rows as for sixteen, two for seventeen as for 32, where AVX-512 takes
 * less the fewer there are: so from so many rows on where there is one block, and where there are two; more always pay. */
static bool pays(rf_mm_format f, uint32_t n_rows) {
    static const uint8_t from[][2] = {
        [RF_MM_Q4_0] = {14, 22},  [RF_MM_Q4_1] = {16, 27},       [RF_MM_Q5_0] = {12, 21},
        [RF_MM_Q5_1] = {16, 27},  [RF_MM_Q8_0] = {11, 20},       [RF_MM_IQ4_NL] = {12, 20},
        [RF_MM_MXFP4] = {13, 22}, [RF_MM_MXFP6_E2M3] = {17, 33}, [RF_MM_Q1_0] = {17, 28},
        [RF_MM_Q2_0] = {17, 26},  [RF_MM_Q4_K] = {16, 27},       [RF_MM_Q5_K] = {17, 30},
        [RF_MM_Q6_K] = {12, 19},  [RF_MM_IQ4_XS] = {14, 18},     [RF_MM_Q2_K] = {17, 27},
        [RF_MM_Q3_K] = {16, 27},  [RF_MM_IQ2_XXS] = {17, 27},    [RF_MM_IQ2_XS] = {13, 22},
        [RF_MM_IQ2_S] = {11, 21}, [RF_MM_IQ3_XXS] = {16, 24},    [RF_MM_IQ3_S] = {11, 21},
        [RF_MM_IQ1_S] = {17, 28}, [RF_MM_IQ1_M] = {17, 29},      [RF_MM_TQ1_0] = {17, 29},
        [RF_MM_TQ2_0] = {16, 25}, [RF_MM_Q8_K] = {11, 17},
    };
    return n_rows > 2 * SIDE || n_rows >= from[f][n_rows > SIDE];
}

static void matmul(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    const rf_mm_input *a = mm->act;
    if (a->view == RF_INT_NONE || !a->blocks || !pays(rf_mm_format_of(mm->w->type), a->n_rows))
        rf_mm_avx512(mm, begin, end, scratch);
    else if (begin < end)
        matmul_blocks(mm, begin, end, scratch);
}

void rf_cpu_mm_amx(rf_cpu_kernels *k) {
    k->matmul = matmul;
    k->lay_out = lay_out;
    k->lay_out_from[RF_INT_32] = MIN_ROWS;
    k->lay_out_from[RF_INT_256] = MIN_ROWS;
}
