/* attend_ints.h - attention over keys and values in Q8_0 or Q4_0, which are multiplied as integers; written
 * once over the vectors of an instruction set.
 *
 * Private to attend_lanes.h.  Dot products take words of 32 bits: ATTEND_WORD columns of a key, or keys
 * of a column, two of 16 bits, or four of 8 bits, where queries and weights are two digits of seven
 * bits.  Before this file come its vectors of integers (ints, ints_zero, ints_load, ints_set, ints_dot,
 * ints_floats); the four functions declared first come behind it. */
#pragma once

enum {
    ATTEND_WORDS = 32 / ATTEND_WORD, /* of a group of columns, or a block of keys */
    ATTEND_DIGITS = ATTEND_WORD / 2, /* of a query or weight */
};

/* Sixteen integers, rounded, ties to even. */
static void lanes_store_i16(int16_t *p, lanes x);
/* A group of 32 keys' columns: words[w][j] are columns ATTEND_WORD * w .. of key j. */
static void key_words(int32_t *words, const uint8_t *k, rf_look *ahead, size_t row, rf_dtype type);
/* Of 32 values: words[w][d] are column d of values ATTEND_WORD * w .. */
static void value_words(int32_t *words, const uint8_t *v, rf_look *ahead, size_t row,
                        rf_dtype type);
/* Words, with their digits, of what 32 keys count: the low sixteen bits of p * t + MAGIC. */
static void weigh_keys(int32_t *words, const float *p, const float *t);

/* A query's words, with their digits: the high ones with the sign, the low ones in seven bits. */
static void store_words(int32_t *to, size_t stride, const int16_t *n, uint32_t n_words) {
    for (uint32_t w = 0; w < n_words; w++, to += stride, n += ATTEND_WORD) {
#if ATTEND_WORD == 2
        memcpy(to, n, 4);
#else
        int8_t digit[2][4];
        for (int i = 0; i < 4; i++) {
            digit[0][i] = (int8_t)(n[i] >> 7);
            digit[1][i] = (int8_t)(n[i] & 127);
        }
        memcpy(to, digit, 8);
#endif
    }
}

/* A query as integers, zeros behind it up to whole groups; their scale. */
static float query_ints(int16_t *to, const float *q, uint32_t n) {
    const lanes top = lanes_set(RF_ATTEND_Q_MOST), low = lanes_neg(top);
    float most = 0;
    for (uint32_t d = 0; d < n; d++)
        most = rf_attend_larger(most, q[d]);
    const lanes id = lanes_set(most > 0 ? RF_ATTEND_Q_MOST / most : 0);
    for (uint32_t d = 0; d < rf_attend_padded(n); d += 16) {
        lanes x = d < n ? lanes_load_n(q + d, n - d) : lanes_zero();
        x = lanes_max(lanes_mul(x, id), low); /* which a NaN becomes */
        if (d + 16 > n) {
            float end[16] = {0};
            lanes_store_n(end, x, d < n ? n - d : 0);
            x = lanes_load(end);
        }
        lanes_store_i16(to + d, lanes_min(x, top));
    }
    return most / RF_ATTEND_Q_MOST;
}

/* Scales of a group of columns of 32 rows. */
static void row_scales(float out[RF_KV_BLOCK], const uint8_t *rows, size_t row) {
    uint16_t half[RF_KV_BLOCK];
    for (uint32_t j = 0; j < RF_KV_BLOCK; j++)
        memcpy(&half[j], rows + j * row, sizeof half[j]);
    for (uint32_t j = 0; j < RF_KV_BLOCK; j += 16)
        lanes_store(out + j, lanes_load_f16((const uint8_t *)(half + j)));
}

/* Few queries make wider tiles, so that enough sums are under way. */
#define INTS_VECS(n) \
    ((n) <= 2 && ATTEND_INT_VECS * VEC < 32 ? 2 * ATTEND_INT_VECS : ATTEND_INT_VECS)

#define INTS_TILE ints s[ATTEND_TILE][ATTEND_DIGITS][2 * ATTEND_INT_VECS]

LANES_INLINE void ints_start(INTS_TILE, uint32_t n, uint32_t n_vecs) {
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++)
        RF_UNROLL
    for (uint32_t e = 0; e < ATTEND_DIGITS; e++)
        RF_UNROLL
    for (uint32_t c = 0; c < n_vecs; c++)
        s[i][e][c] = ints_zero();
}

/* A word of n queries, stride words apart, with those of some keys; or of weights with values. */
LANES_INLINE void ints_add(INTS_TILE, const int32_t *x, size_t stride, const int32_t *words,
                           uint32_t n, uint32_t n_vecs) {
    ints y[2 * ATTEND_INT_VECS];
    RF_UNROLL
    for (uint32_t c = 0; c < n_vecs; c++)
        y[c] = ints_load(words + c * VEC);
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        RF_UNROLL
        for (uint32_t e = 0; e < ATTEND_DIGITS; e++) {
            ints word = ints_set(x[i * stride + e]);
            RF_UNROLL
            for (uint32_t c = 0; c < n_vecs; c++)
                s[i][e][c] = ints_dot(s[i][e][c], word, y[c]);
        }
    }
}

LANES_INLINE vec ints_sum(INTS_TILE, uint32_t i, uint32_t c) {
#if ATTEND_WORD == 2
    return ints_floats(s[i][0][c]);
#else
    return ints_floats(ints_joined(s[i][0][c], s[i][1][c]));
#endif
}

/* p[i][j] = q[i] . keys[j] in multiples of the query's scale, the groups one after the other;
 * q: [words][n][digits], keys: [words][32], scales: [groups][32] */
LANES_INLINE void ints_score_tile(float *p, const int32_t *q, const int32_t *keys,
                                  const float *scales, uint32_t n_groups, uint32_t n,
                                  uint32_t n_vecs) {
    for (uint32_t j = 0; j < RF_KV_BLOCK; j += n_vecs * VEC) {
        for (uint32_t g = 0; g < n_groups; g++) {
            INTS_TILE;
            ints_start(s, n, n_vecs);
            INTS_UNROLL
            for (size_t w = 0; w < ATTEND_WORDS; w++)
                ints_add(s, q + (g * ATTEND_WORDS + w) * n * ATTEND_DIGITS, ATTEND_DIGITS,
                         keys + (g * ATTEND_WORDS + w) * RF_KV_BLOCK + j, n, n_vecs);
            RF_UNROLL
            for (uint32_t i = 0; i < n; i++) {
                RF_UNROLL
                for (uint32_t c = 0; c < n_vecs; c++) {
                    float *to = p + i * RF_KV_BLOCK + j + c * VEC;
                    vec scale = vec_load(scales + g * RF_KV_BLOCK + j + c * VEC);
                    vec sum = g ? vec_load(to) : vec_set(0.0f);
                    vec_store(to, vec_fma(ints_sum(s, i, c), scale, sum));
                }
            }
        }
    }
}

static void ints_score_tile_of(float *p, const int32_t *q, const int32_t *keys, const float *scales,
                               uint32_t n_groups, uint32_t n) {
#define CALL(N)                                                         \
    case N:                                                             \
        ints_score_tile(p, q, keys, scales, n_groups, N, INTS_VECS(N)); \
        break;
    switch (n) { TILES(CALL) }
#undef CALL
}

/* A group of columns of n queries' weighted values of one block, folded into those of the segment:
 * acc: [n][stride], weights: [n][words][digits], values: [words][32] */
LANES_INLINE void ints_value_tile(float *acc, size_t stride, const int32_t *weights,
                                  const int32_t *values, float unit, const float *keep,
                                  const float *add, uint32_t n, uint32_t n_vecs) {
    for (uint32_t d = 0; d < RF_ATTEND_PANEL; d += n_vecs * VEC) {
        INTS_TILE;
        ints_start(s, n, n_vecs);
        INTS_UNROLL
        for (uint32_t w = 0; w < ATTEND_WORDS; w++)
            ints_add(s, weights + w * ATTEND_DIGITS, 16, values + (size_t)w * RF_KV_BLOCK + d, n,
                     n_vecs);
        RF_UNROLL
        for (uint32_t i = 0; i < n; i++) {
            vec x[2 * ATTEND_INT_VECS];
            RF_UNROLL
            for (uint32_t c = 0; c < n_vecs; c++)
                x[c] = vec_mul(ints_sum(s, i, c), vec_set(unit));
            put_values(acc + i * stride + d, x, keep[i], add[i], n_vecs);
        }
    }
}

static void ints_value_tile_of(const attend_group *g, uint32_t first, uint32_t column, float unit,
                               uint32_t n) {
    float *acc = g->acc + first * g->stride + column;
    const int32_t *weights = g->weights + (size_t)first * 16;
    const float *keep = g->keep + first, *add = g->add + first;
#define CALL(N)                                                                               \
    case N:                                                                                   \
        ints_value_tile(acc, g->stride, weights, g->words, unit, keep, add, N, INTS_VECS(N)); \
        break;
    switch (n) { TILES(CALL) }
#undef CALL
}

static void gather_int_keys(attend_group *g, const uint8_t *k) {
    const rf_attend *a = g->a;
    for (uint32_t d = 0; d < a->head_dim; d += 32) {
        size_t at = column_bytes(a->k_type, d);
        key_words(g->key_words + (size_t)d / ATTEND_WORD * RF_KV_BLOCK, k + at, &g->ahead, a->k_row,
                  a->k_type);
        row_scales(g->key_scales + d, k + at, a->k_row);
    }
}

/* What the keys of a row that sees those of bits count, of scales d; their unit. */
static float key_weights(float t[RF_KV_BLOCK], const float d[RF_KV_BLOCK], uint32_t bits) {
    uint32_t most_bits = 0;
    float most;
    for (uint32_t j = 0; j < RF_KV_BLOCK; j++)
        t[j] = bits >> j & 1 ? d[j] : 0;
    for (uint32_t j = 0; j < RF_KV_BLOCK; j++) {
        uint32_t size = rf_attend_bits_of(t[j]) & 0x7fffffff;
        most_bits = size > most_bits ? size : most_bits;
    }
    memcpy(&most, &most_bits, sizeof most);
    float id = most > 0 ? RF_ATTEND_P_MOST / most : 0;
    for (uint32_t j = 0; j < RF_KV_BLOCK; j++)
        t[j] *= id;
    return rf_attend_unit(most);
}

/* Neighbouring rows that see the same keys share tiles. */
static void add_int_values(attend_group *g, const uint8_t *v) {
    const rf_attend *a = g->a;
    for (uint32_t d = 0; d < a->value_dim; d += 32) {
        float scales[RF_KV_BLOCK], t[RF_KV_BLOCK];
        size_t at = column_bytes(a->v_type, d);
        value_words(g->words, v + at, &g->ahead, a->v_row, a->v_type);
        row_scales(scales, v + at, a->v_row);
        for (uint32_t r = 0, end; r < g->n_rows; r = end) {
            for (end = r + 1; end < g->n_rows && g->bits[end] == g->bits[r];)
                end++;
            if (!g->bits[r]) continue;
            float unit = key_weights(t, scales, g->bits[r]);
            uint32_t last = end * g->n_heads, size;
            for (uint32_t i = r * g->n_heads; i < last; i++)
                weigh_keys(g->weights + (size_t)i * 16, g->p + (size_t)i * RF_KV_BLOCK, t);
            for (uint32_t i = r * g->n_heads; i < last; i += size) {
                size = tile_of(last - i);
                ints_value_tile_of(g, i, d, unit, size);
            }
        }
    }
}
