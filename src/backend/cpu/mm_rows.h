/* mm_rows.h - integer products of few activation rows: weights are streamed once for every three, the
 * second and third time from the first-level cache; private to mm_rows_*.c.
 *
 * The including file says how bytes are multiplied: with rows_dot_bytes(sum, u, s), four products of
 * u8 and s8 added to each dword, and rows_dot_pairs(sum, a, b), two of i16; or not at all, which is
 * plain AVX2.  rows_grid, if defined, takes the place of group_256 for code books.
 *
 * Bound by memory: eight (groups of 32) or four (groups of 256) weight rows are in flight at a
 * time. Inside a group the integers are summed along k; the group's sums of all rows then lie in
 * the lanes of one vector, where the canonical fma over groups runs.  Rows beyond the range repeat
 * the last. */
#include "backend/cpu/mm_avx2.h"

#define ROWS_32  8
#define ROWS_256 4
#define MAX_T    3
#define AGAIN    16  /* weight rows that stay near for the next activation rows */
#define SIGN_OFF 128 /* makes a signed byte unsigned: its sign bit turned round */

/* u8 or signed w times s8 x: 16 sums of two products, exact (2 * 128 * 127 < 2^15). */
RF_INLINE __m256i dot_pairs(bool is_signed, __m256i w, __m256i x) {
    if (!is_signed) return _mm256_maddubs_epi16(w, x);
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

/* Formats of groups of 32 whose bytes keep their signs: without VNNI those that have any; with it Q8_0,
 * which waits for memory alone and measured a little slower as unsigned bytes. */
#ifdef rows_dot_bytes
#define ROWS_SIGNED(f) ((f) == RF_MM_Q8_0)
#else
#define ROWS_SIGNED(f)          rf_mm_is_signed(f)
#define rows_dot_pairs(s, a, b) _mm256_add_epi32(s, _mm256_madd_epi16(a, b))
#endif

RF_INLINE __m256i madd_ones(__m256i v) { return _mm256_madd_epi16(v, _mm256_set1_epi16(1)); }

/* 32 products of each half's row, as partial sums: low and high are its elements 0..15 and 16..31. */
RF_INLINE __m256i dot_32(rf_mm_format f, __m256i low, __m256i high, __m256i xl, __m256i xh) {
    if (ROWS_SIGNED(f)) /* the pairs fill their 16 bits */
        return _mm256_add_epi32(madd_ones(dot_pairs(true, low, xl)),
                                madd_ones(dot_pairs(true, high, xh)));
#ifdef rows_dot_bytes
    if (rf_mm_is_signed(f)) {
        low = _mm256_xor_si256(low, _mm256_set1_epi8((char)SIGN_OFF));
        high = _mm256_xor_si256(high, _mm256_set1_epi8((char)SIGN_OFF));
    }
    return rows_dot_bytes(rows_dot_bytes(_mm256_setzero_si256(), low, xl), high, xh);
#else
    return madd_ones(_mm256_add_epi16(dot_pairs(false, low, xl), dot_pairs(false, high, xh)));
#endif
}

/* Lane r of the result is the sum of row r: p[i] holds rows i and i + 4 in its halves. */
RF_INLINE __m256i sum_8_rows(const __m256i p[4]) {
    return _mm256_hadd_epi32(_mm256_hadd_epi32(p[0], p[1]), _mm256_hadd_epi32(p[2], p[3]));
}

/* Lane r of the result is the sum of p[r]. */
RF_INLINE __m128i sum_4_rows(const __m256i p[4]) {
    __m256i v = sum_8_rows(p);
    return _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

RF_INLINE void prefetch(const uint8_t *p, size_t bytes) {
    RF_UNROLL
    for (size_t i = 0; i < bytes; i += 64)
        rf_mm_ask_for(p + i);
}

/* The i16 pairs at p[0..3]: the first ones in the low half, the second ones in the high half. */
RF_INLINE __m128i four_pairs(const uint8_t *const p[4]) {
    __m128i v[4];
    RF_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = _mm_cvtsi32_si128((int)rf_get_u32(p[i]));
    return _mm_unpacklo_epi32(_mm_unpacklo_epi16(v[0], v[1]), _mm_unpacklo_epi16(v[2], v[3]));
}

/* The first bytes of eight blocks. */
RF_INLINE __m256i eight_bytes(const uint8_t *const p[8]) {
    __m128i first = _mm_unpacklo_epi64(four_pairs(p), four_pairs(p + 4));
    return _mm256_cvtepu16_epi32(_mm_and_si128(first, _mm_set1_epi16(255)));
}

/* Writes the n rows of this step: acc lane r belongs to output row `row + r`. */
RF_INLINE void store_rows(const rf_mm *mm, uint32_t row, uint32_t n, size_t t, const float *acc) {
    float *dst = mm->dst + t * mm->dst_stride + row;
    for (uint32_t r = 0; r < n; r++)
        dst[r] = mm->bias ? acc[r] + mm->bias[row + r] : acc[r];
}

/* d of eight blocks, and m, as halves, only where the block stores it. */
RF_INLINE void floats_of_eight(rf_mm_format f, const uint8_t *const p[8], __m256 *d, __m128i *m) {
    *m = _mm_setzero_si128();
    if (f == RF_MM_MXFP4) {
        *d = rf_e8m0(eight_bytes(p), 1, false);
    } else if (f == RF_MM_MXFP6_E2M3) {
        *d = rf_e8m0(eight_bytes(p), 3, true);
    } else {
        __m128i a = four_pairs(p), b = four_pairs(p + 4);
        *d = _mm256_cvtph_ps(_mm_unpacklo_epi64(a, b));
        if (rf_mm_has_m(f)) *m = _mm_unpackhi_epi64(a, b);
    }
}

/* Adds group g of eight rows, which lies in the blocks p, to acc[t], but for its minima, which it returns. */
RF_INLINE __m128i group_32(rf_mm_format f, int nt, const rf_mm_input *a, size_t g,
                           const uint8_t *const p[8], uint32_t off, __m256 acc[]) {
    size_t n_groups = a->n_cols / 32;
    __m256i part[MAX_T][4];
    RF_UNROLL
    for (int i = 0; i < 4; i++) {
        __m256i low, high;
        rf_load_pair(f, g % rf_mm_groups(f), p[i], p[i + 4], &low, &high);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            const int8_t *x = a->q + (size_t)t * a->n_cols + 32 * g;
            __m256i xl = _mm256_broadcastsi128_si256(rf_load_128(x));
            __m256i xh = _mm256_broadcastsi128_si256(rf_load_128(x + 16));
            part[t][i] = dot_32(f, low, high, xl, xh);
        }
    }
    __m256 d;
    __m128i m;
    floats_of_eight(f, p, &d, &m);
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        __m256 xd = _mm256_set1_ps(a->d[(size_t)t * n_groups + g]);
        int32_t sum = a->sum[(size_t)t * n_groups + g];
        __m256i i = sum_8_rows(part[t]);
        if (!ROWS_SIGNED(f) && !rf_mm_has_m(f)) /* with minima there is no offset */
            i = _mm256_sub_epi32(i, _mm256_set1_epi32((int)off * sum));
        acc[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(i), _mm256_mul_ps(d, xd), acc[t]);
    }
    return m;
}

/* What rounds minima of n groups that share steps: RF_ROUND_MINIMA of halves, whose exponents are 112 less. */
RF_INLINE __m256 rounding_of(const __m128i m[], size_t n) {
    __m128i most = _mm_set1_epi16(0x0400);
    for (size_t g = 0; g < n; g++)
        most = _mm_max_epi16(most, _mm_and_si128(m[g], _mm_set1_epi16(0x7fff)));
    __m256i c = _mm256_cvtepu16_epi32(_mm_and_si128(most, _mm_set1_epi16(0x7c00)));
    c = _mm256_add_epi32(_mm256_slli_epi32(c, 13), _mm256_set1_epi32((112 + 13) << 23 | 0x400000));
    return _mm256_castsi256_ps(c);
}

/* Adds the minima m of the n groups from `first` on, which share steps, to acc[t]. */
RF_INLINE void add_minima(int nt, const rf_mm_input *a, size_t first, size_t n, const __m128i m[],
                          __m256 acc[]) {
    const __m256 c = rounding_of(m, n);
    __m256 p[MAX_T];
    RF_UNROLL
    for (int t = 0; t < nt; t++)
        p[t] = _mm256_setzero_ps();
    for (size_t g = 0; g < n; g++) {
        const __m256 rounded = _mm256_sub_ps(_mm256_add_ps(_mm256_cvtph_ps(m[g]), c), c);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            const float total = a->total[(size_t)t * (a->n_cols / 32) + first + g];
            p[t] = _mm256_fmadd_ps(rounded, _mm256_set1_ps(total), p[t]);
        }
    }
    RF_UNROLL
    for (int t = 0; t < nt; t++)
        acc[t] = _mm256_add_ps(acc[t], p[t]);
}

RF_INLINE void rows_32(rf_mm_format f, int nt, const rf_mm *mm, uint32_t begin, uint32_t end) {
    const rf_mm_input *a = mm->act;
    const size_t bytes = rf_mm_block_bytes(f), n_blocks = a->n_cols / 32 / rf_mm_groups(f);
    const uint32_t off = rf_mm_is_signed(f) ? SIGN_OFF : rf_mm_range_of(mm->w->type).off;
    for (uint32_t row = begin; row < end; row += ROWS_32) {
        uint32_t n = end - row < ROWS_32 ? end - row : ROWS_32;
        const uint8_t *p[ROWS_32];
        for (uint32_t r = 0; r < ROWS_32; r++)
            p[r] = rf_mm_row(mm->w, row + (r < n ? r : n - 1));
        __m256 acc[MAX_T];
        __m128i m[RF_SHARE_GROUPS];
        for (int t = 0; t < nt; t++)
            acc[t] = _mm256_setzero_ps();
        const uint8_t *next = rf_mm_next_row(mm, row + ROWS_32, end);
        for (size_t b = 0; b < n_blocks; b++) {
            RF_UNROLL
            for (size_t i = 0; i < rf_mm_groups(f); i++) {
                const size_t g = b * rf_mm_groups(f) + i;
                const __m128i own = group_32(f, nt, a, g, p, off, acc);
                if (!rf_mm_has_m(f)) continue;
                m[g % RF_SHARE_GROUPS] = own;
                const size_t ended = rf_mm_shares_ended(g, a->n_cols / 32);
                if (ended == RF_SHARE_GROUPS)
                    add_minima(nt, a, g + 1 - RF_SHARE_GROUPS, RF_SHARE_GROUPS, m, acc);
                else if (ended)
                    add_minima(nt, a, g + 1 - ended, ended, m, acc);
            }
            prefetch(next + b * ROWS_32 * bytes, ROWS_32 * bytes);
            for (int r = 0; r < ROWS_32; r++)
                p[r] += bytes;
        }
        for (int t = 0; t < nt; t++) {
            float out[ROWS_32];
            _mm256_storeu_ps(out, acc[t]);
            store_rows(mm, row, n, (size_t)t, out);
        }
    }
}

/* Both halves' scales of vector j (elements 32j .. 32j + 31) in every i16 of their half. */
RF_INLINE __m256i scale_of(__m256i spread, int j) {
    return _mm256_shuffle_epi8(spread, _mm256_set1_epi16((short)(0x0100 + 0x0202 * j)));
}

/* The activations that vector j of a group is multiplied with; see rf_load_iq4_xs. */
RF_INLINE __m256i load_x(rf_mm_format f, const int8_t *x, int j) {
    if (f != RF_MM_IQ4_XS) return rf_load_256(x + 32 * j);
    x += j / 2 * 64 + j % 2 * 16;
    return rf_two_128(x, x + 32);
}

/* Both halves' scales of vector j. */
RF_INLINE __m256i scale_at(rf_mm_format f, const rf_scales_256 *s, int j) {
    if (f != RF_MM_IQ4_XS) return scale_of(s->spread, j);
    return _mm256_shuffle_epi8(
        s->spread, _mm256_setr_m128i(_mm_set1_epi16((short)(0x0100 + 0x0404 * (j / 2))),
                                     _mm_set1_epi16((short)(0x0302 + 0x0404 * (j / 2)))));
}

/* The integer sums (8 partial ones) of one row's group with nt activation rows; for formats with a
 * minimum or an offset also of the minimums or scales with the activations' sums. */
RF_INLINE void group_256(rf_mm_format f, int nt, const rf_mm_input *a, const int16_t *sums,
                         size_t g, const void *p, __m256i ints[], __m256i mins[]) {
#ifdef rows_grid
    if (rf_is_code_book(f)) {
        rows_grid(f, nt, a, sums, g, p, ints);
        return;
    }
#endif
    rf_scales_256 s = rf_load_scales(f, p);
    __m256i w[8];
    rf_load_group(f, p, w);
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        const int8_t *x = a->q + (size_t)t * a->n_cols + 256 * g;
        const int16_t *sum = sums + (size_t)t * (a->n_cols / 16) + 16 * g;
        __m256i i = _mm256_setzero_si256();
        RF_UNROLL
        for (int j = 0; j < 8; j++) {
            __m256i pairs = dot_pairs(rf_mm_is_signed(f), w[j], load_x(f, x, j));
            i = rows_dot_pairs(i, pairs, scale_at(f, &s, j));
        }
        if (rf_mm_off(f) > 0) {
            __m256i off = _mm256_madd_epi16(s.scale, rf_load_256(sum));
            i = _mm256_sub_epi32(i, _mm256_mullo_epi32(off, _mm256_set1_epi32(rf_mm_off(f))));
        }
        ints[t] = i;
        if (rf_mm_has_dmin(f)) mins[t] = _mm256_madd_epi16(s.min, rf_load_256(sum));
    }
}

/* d and m of the four blocks. */
RF_INLINE void floats_of_four(rf_mm_format f, const uint8_t *const p[4], __m128 *d, __m128 *m) {
    if (rf_is_grid(f)) {
        *d = _mm_setr_ps(rf_grid_d(f, p[0]), rf_grid_d(f, p[1]), rf_grid_d(f, p[2]),
                         rf_grid_d(f, p[3]));
        *m = _mm_setzero_ps();
        return;
    }
    const bool at_end =
        f == RF_MM_Q3_K || f == RF_MM_Q6_K; /* d is the block's last pair of bytes */
    const size_t at = rf_d_offset(f) - (at_end ? 2 : 0);
    const uint8_t *q[4] = {p[0] + at, p[1] + at, p[2] + at, p[3] + at};
    __m128i pairs = four_pairs(q);
    if (at_end) pairs = _mm_unpackhi_epi64(pairs, pairs);
    *d = _mm_cvtph_ps(pairs);
    *m = _mm_xor_ps(_mm_cvtph_ps(_mm_unpackhi_epi64(pairs, pairs)), _mm_set1_ps(-0.0f));
}

RF_INLINE void four_rows_256(rf_mm_format f, int nt, const rf_mm *mm, const uint8_t *p[4],
                             const uint8_t *next, const int16_t *sums, __m128 acc[]) {
    const rf_mm_input *a = mm->act;
    size_t n_groups = a->n_cols / 256;
    for (size_t g = 0; g < n_groups; g++) {
        __m256i ints[ROWS_256][MAX_T], mins[ROWS_256][MAX_T];
        for (int r = 0; r < ROWS_256; r++)
            group_256(f, nt, a, sums, g, p[r], ints[r], mins[r]);
        __m128 d, m;
        floats_of_four(f, p, &d, &m);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            __m128 xd = _mm_set1_ps(a->d[(size_t)t * n_groups + g]);
            __m256i i[4] = {ints[0][t], ints[1][t], ints[2][t], ints[3][t]};
            __m128 value = _mm_cvtepi32_ps(sum_4_rows(i));
            acc[t] = _mm_fmadd_ps(value, _mm_mul_ps(d, xd), acc[t]);
            if (!rf_mm_has_dmin(f)) continue;
            __m256i k[4] = {mins[0][t], mins[1][t], mins[2][t], mins[3][t]};
            value = _mm_cvtepi32_ps(sum_4_rows(k));
            acc[t] = _mm_fmadd_ps(value, _mm_mul_ps(m, xd), acc[t]);
        }
        prefetch(next + g * ROWS_256 * rf_mm_block_bytes(f), ROWS_256 * rf_mm_block_bytes(f));
        for (size_t r = 0; r < ROWS_256; r++)
            p[r] += rf_mm_block_bytes(f);
    }
}

RF_INLINE void rows_256(rf_mm_format f, int nt, const rf_mm *mm, uint32_t begin, uint32_t end,
                        const int16_t *sums) {
    for (uint32_t row = begin; row < end; row += ROWS_256) {
        uint32_t n = end - row < ROWS_256 ? end - row : ROWS_256;
        const uint8_t *p[ROWS_256];
        for (uint32_t r = 0; r < ROWS_256; r++)
            p[r] = rf_mm_row(mm->w, row + (r < n ? r : n - 1));
        __m128 acc[MAX_T];
        for (int t = 0; t < nt; t++)
            acc[t] = _mm_setzero_ps();
        const uint8_t *next = rf_mm_next_row(mm, row + ROWS_256, end);
        four_rows_256(f, nt, mm, p, next, sums, acc);
        for (int t = 0; t < nt; t++) {
            float out[ROWS_256];
            _mm_storeu_ps(out, acc[t]);
            store_rows(mm, row, n, (size_t)t, out);
        }
    }
}

/* One function per format and number of activation rows, so that both are constants inside. */
#define VARIANT_32(f, nt)                                                                       \
    static void rows_##f##_##nt(const rf_mm *mm, uint32_t b, uint32_t e, const int16_t *sums) { \
        (void)sums;                                                                             \
        rows_32(RF_MM_##f, nt, mm, b, e);                                                       \
    }
#define VARIANT_256(f, nt)                                                                      \
    static void rows_##f##_##nt(const rf_mm *mm, uint32_t b, uint32_t e, const int16_t *sums) { \
        rows_256(RF_MM_##f, nt, mm, b, e, sums);                                                \
    }
#define VARIANTS(size, f) VARIANT_##size(f, 1) VARIANT_##size(f, 2) VARIANT_##size(f, 3)
VARIANTS(32, Q4_0)
VARIANTS(32, Q4_1)
VARIANTS(32, Q5_0)
VARIANTS(32, Q5_1)
VARIANTS(32, Q8_0)
VARIANTS(32, IQ4_NL)
VARIANTS(32, MXFP4)
VARIANTS(32, MXFP6_E2M3)
VARIANTS(32, Q1_0)
VARIANTS(32, Q2_0)
VARIANTS(256, Q4_K)
VARIANTS(256, Q5_K)
VARIANTS(256, Q6_K)
VARIANTS(256, IQ4_XS)
VARIANTS(256, Q2_K)
VARIANTS(256, Q3_K)
VARIANTS(256, IQ2_XXS)
VARIANTS(256, IQ2_XS)
VARIANTS(256, IQ2_S)
VARIANTS(256, IQ3_XXS)
VARIANTS(256, IQ3_S)
VARIANTS(256, IQ1_S)
VARIANTS(256, IQ1_M)
VARIANTS(256, TQ1_0)
VARIANTS(256, TQ2_0)
VARIANTS(256, Q8_K)

typedef void (*rows_fn)(const rf_mm *mm, uint32_t begin, uint32_t end, const int16_t *sums);
#define ENTRY(f) [RF_MM_##f] = {rows_##f##_1, rows_##f##_2, rows_##f##_3}
static const rows_fn variants[][MAX_T] = {
    ENTRY(Q4_0),  ENTRY(Q4_1),       ENTRY(Q5_0),  ENTRY(Q5_1),  ENTRY(Q8_0),    ENTRY(IQ4_NL),
    ENTRY(MXFP4), ENTRY(MXFP6_E2M3), ENTRY(Q1_0),  ENTRY(Q2_0),  ENTRY(Q4_K),    ENTRY(Q5_K),
    ENTRY(Q6_K),  ENTRY(IQ4_XS),     ENTRY(Q2_K),  ENTRY(Q3_K),  ENTRY(IQ2_XXS), ENTRY(IQ2_XS),
    ENTRY(IQ2_S), ENTRY(IQ3_XXS),    ENTRY(IQ3_S), ENTRY(IQ1_S), ENTRY(IQ1_M),   ENTRY(TQ1_0),
    ENTRY(TQ2_0), ENTRY(Q8_K),
};

/* Rows [begin, end) for activation rows [t, t + n); next: see rf_mm. */
static void some_rows(const rf_mm *mm, uint32_t begin, uint32_t end, const void *next,
                      const int16_t *sums, uint32_t t, uint32_t n) {
    const size_t cols = mm->act->n_cols, group = mm->act->view == RF_INT_256 ? 256 : 32;
    rf_mm_input a = *mm->act;
    rf_mm part = *mm;
    a.n_rows = n;
    a.q += t * cols;
    a.d += t * (cols / group);
    if (group == 32) a.sum += t * (cols / group);
    if (group == 32 && a.total) a.total += t * (cols / group);
    part.act = &a;
    part.next = next;
    part.dst += t * mm->dst_stride;
    variants[rf_mm_format_of(mm->w->type)][n - 1](&part, begin, end, sums + t * (cols / 16));
}

static void matmul_rows(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    const uint32_t n_act = mm->act->n_rows, n_parts = (n_act + MAX_T - 1) / MAX_T;
    const uint32_t step = n_parts == 1 ? end - begin : AGAIN;
    int16_t *sums = scratch;
    if (mm->act->view == RF_INT_256) rf_mm_sums16_avx2(mm->act, sums);
    for (uint32_t row = begin; row < end; row += step) {
        uint32_t last = end - row < step ? end : row + step, left = n_parts;
        const void *next = rf_mm_next_row(mm, last, end);
        for (uint32_t t = 0, n; t < n_act; t += n, left--) {
            n = (n_act - t + left - 1) / left; /* parts of about the same size */
            some_rows(mm, row, last, next, sums, t, n);
        }
    }
}
