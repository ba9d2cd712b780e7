/* attend_lanes.h - attention of a group of rows, written once over the vectors of an instruction set.
 *
 * Private to vec_*.c.  A query is one head of one row.  A block's keys are turned to f32 and laid into
 * vector lanes once for all queries of the group, then its values into panels of 32 columns; scores
 * and weighted values are tiles of a few queries by a few vectors in registers.  A file includes this
 * after its lanes and the size of its tiles, ATTEND_TILE (6 or 8 queries) by ATTEND_VECS vectors, and
 * brings the functions declared first. */
#pragma once
#include <math.h>
#include <string.h>

#include "backend/cpu/attend.h"
#include "backend/cpu/vec_rows.h"
#include "backend/cpu/widen.h"

/* What is left of 32 numbers when those 8 and 16 apart are joined. */
typedef float attend_part[8];
/* p: [32] scores become scaled, capped and masked (mask: [32] or NULL) ones; their maxima. */
static void finish_scores(float *p, uint32_t bits, float scale, float softcap, const float *mask,
                          attend_part maxima);
/* p becomes exponentials, 0 where hidden; their sums. */
static void exponentials(float *p, uint32_t bits, float max, attend_part sums);
/* One number of each of n parts: for several at once that is less work than for each by itself. */
static void join_maxima(float *out, attend_part *part, uint32_t n);
static void join_sums(float *out, attend_part *part, uint32_t n);
/* keys[d][j] of 32 keys of F16 or BF16, n a multiple of 8, in f32 or as they are; and of a panel [32][32] of f32. */
static void transpose_16(void *keys, bool to_f32, const uint8_t *k, rf_look *ahead, size_t row,
                         uint32_t n, rf_dtype type);
static void transpose_panel(float *keys, const float *panel);

typedef struct attend_group {
    const rf_attend *a;
    uint32_t row, n_rows, head, n_heads, n; /* query i: head i % n_heads of row i / n_heads */
    size_t stride;                          /* of acc: value_dim as whole panels */
    float *q;                               /* tiles of [head_dim][queries] */
    float *p;                               /* [n][32] scores, then exponentials */
    float *acc;                             /* [n][stride] weighted values of the segment */
    float *keys;                            /* [head_dim][32], or those of the cache's type */
    float *panel;                           /* [32][32] columns of keys or values */
    /* of integer keys and values, as attend_ints.h has them: queries, keys, weights, values */
    int32_t *q_words, *key_words, *weights, *words;
    float *key_scales;              /* [groups][32] */
    float scale[RF_ATTEND_QUERIES]; /* of a query's scores */
    /* maximum and sum of the total, the segment and a block, and the factors of a fold */
    float total_m[RF_ATTEND_QUERIES], total_l[RF_ATTEND_QUERIES];
    float m[RF_ATTEND_QUERIES], l[RF_ATTEND_QUERIES];
    float block_m[RF_ATTEND_QUERIES], block_l[RF_ATTEND_QUERIES];
    attend_part part[RF_ATTEND_QUERIES]; /* of a block's maxima, then of its sums */
    float keep[RF_ATTEND_QUERIES], add[RF_ATTEND_QUERIES];
    rf_look ahead;                    /* the block behind */
    rf_attend_span span[RF_KV_BLOCK]; /* [n_rows] */
    uint32_t bits[RF_KV_BLOCK];       /* [n_rows] of the block */
    bool seen[RF_KV_BLOCK];           /* [n_rows] is any key of the segment visible? */
} attend_group;

/* Tiles ------------------------------------------------------------------------------------------*/

/* Queries of the next tile: as even as they can be. */
static inline uint32_t tile_of(uint32_t left) {
    uint32_t n_tiles = (left + ATTEND_TILE - 1) / ATTEND_TILE;
    return (left + n_tiles - 1) / n_tiles;
}

/* Few queries make wider tiles, so that enough sums are under way. */
#define TILE_VECS(n)  ((n) <= 2 && ATTEND_VECS * VEC < 32 ? 2 * ATTEND_VECS : ATTEND_VECS)
#define TILES_6(CALL) CALL(1) CALL(2) CALL(3) CALL(4) CALL(5) CALL(6)
#if ATTEND_TILE == 6
#define TILES(CALL) TILES_6(CALL)
#else
#define TILES(CALL) TILES_6(CALL) CALL(7) CALL(8)
#endif

/* p[i][j] = q[i] . keys[j], one product after the other; q: [dim][n], keys: [dim][32] of type */
LANES_INLINE void score_tile(float *p, const float *q, const uint8_t *keys, rf_dtype type,
                             uint32_t dim, uint32_t n, uint32_t n_vecs) {
    for (uint32_t j = 0; j < RF_KV_BLOCK; j += n_vecs * VEC) {
        vec s[ATTEND_TILE][2 * ATTEND_VECS];
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t c = 0; c < n_vecs; c++)
                s[i][c] = vec_set(0.0f);
        for (uint32_t d = 0; d < dim; d++) {
            vec key[2 * ATTEND_VECS];
            for (uint32_t c = 0; c < n_vecs; c++)
                key[c] = vec_widened(keys, (size_t)d * RF_KV_BLOCK + j + c * VEC, type);
            for (uint32_t i = 0; i < n; i++) {
                vec x = vec_set(q[(size_t)d * n + i]);
                for (uint32_t c = 0; c < n_vecs; c++)
                    s[i][c] = vec_fma(x, key[c], s[i][c]);
            }
        }
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t c = 0; c < n_vecs; c++)
                vec_store(p + i * RF_KV_BLOCK + j + c * VEC, s[i][c]);
    }
}

/* type is constant */
LANES_INLINE void score_tiles(float *p, const float *q, const uint8_t *keys, rf_dtype type,
                              uint32_t dim, uint32_t n) {
#define CALL(N)                                             \
    case N:                                                 \
        score_tile(p, q, keys, type, dim, N, TILE_VECS(N)); \
        break;
    switch (n) { TILES(CALL) }
#undef CALL
}

static void score_tile_of(float *p, const float *q, const uint8_t *keys, rf_dtype type,
                          uint32_t dim, uint32_t n) {
    if (type == RF_DT_F16)
        score_tiles(p, q, keys, RF_DT_F16, dim, n);
    else if (type == RF_DT_BF16)
        score_tiles(p, q, keys, RF_DT_BF16, dim, n);
    else
        score_tiles(p, q, keys, RF_DT_F32, dim, n);
}

/* 32 columns of a block's values: a panel of F32, or rows of the cache, in which case some of what is wanted next is
 * fetched with each. */
typedef struct attend_values {
    rf_dtype type;
    const uint8_t *at;
    size_t row; /* bytes from one to the next */
    rf_look *ahead;
} attend_values;

/* Key j's values from column d on, weighted, onto n queries' sums. */
LANES_INLINE void add_key(vec s[ATTEND_TILE][2 * ATTEND_VECS], const float *p,
                          const attend_values *v, rf_dtype type, size_t j, uint32_t d, uint32_t n,
                          uint32_t n_vecs) {
    const size_t row = type == RF_DT_F32 ? RF_ATTEND_PANEL * sizeof(float) : v->row;
    vec value[2 * ATTEND_VECS];
    if (type != RF_DT_F32) look_ahead(v->ahead, 1);
    for (uint32_t c = 0; c < n_vecs; c++)
        value[c] = vec_widened(v->at + j * row, d + c * VEC, type);
    for (uint32_t i = 0; i < n; i++) {
        vec x = vec_set(p[i * RF_KV_BLOCK + j]);
        for (uint32_t c = 0; c < n_vecs; c++)
            s[i][c] = vec_fma(x, value[c], s[i][c]);
    }
}

/* Weighted values of one block, folded into those of the segment; keep below 0 stands for a segment
 * without any yet. */
LANES_INLINE void put_values(float *acc, vec *s, float keep, float add, uint32_t n_vecs) {
    vec k = vec_set(keep), x = vec_set(add);
    if (!(keep < 0)) /* a NaN goes on */
        for (uint32_t c = 0; c < n_vecs; c++)
            s[c] = vec_fma(s[c], x, vec_mul(vec_load(acc + c * VEC), k));
    for (uint32_t c = 0; c < n_vecs; c++)
        vec_store(acc + c * VEC, s[c]);
}

/* 32 columns of n queries' weighted values of one block, folded into those of the segment:
 * acc: [n][stride], p: [n][32] */
LANES_INLINE void value_tile(float *acc, size_t stride, const float *p, const attend_values *v,
                             rf_dtype type, uint32_t bits, const float *keep, const float *add,
                             uint32_t n, uint32_t n_vecs) {
    for (uint32_t d = 0; d < RF_ATTEND_PANEL; d += n_vecs * VEC) {
        vec s[ATTEND_TILE][2 * ATTEND_VECS];
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t c = 0; c < n_vecs; c++)
                s[i][c] = vec_set(0.0f);
        if (bits == UINT32_MAX)
            for (size_t j = 0; j < RF_KV_BLOCK; j++)
                add_key(s, p, v, type, j, d, n, n_vecs);
        else
            for (uint32_t left = bits; left; left &= left - 1)
                add_key(s, p, v, type, (size_t)__builtin_ctz(left), d, n, n_vecs);
        for (uint32_t i = 0; i < n; i++)
            put_values(acc + i * stride + d, s[i], keep[i], add[i], n_vecs);
    }
}

/* type is constant */
LANES_INLINE void value_tiles(const attend_group *g, uint32_t first, uint32_t column, uint32_t bits,
                              const attend_values *v, rf_dtype type, uint32_t n) {
    float *acc = g->acc + first * g->stride + column;
    const float *p = g->p + (size_t)first * RF_KV_BLOCK;
    const float *keep = g->keep + first, *add = g->add + first;
#define CALL(N)                                                                   \
    case N:                                                                       \
        value_tile(acc, g->stride, p, v, type, bits, keep, add, N, TILE_VECS(N)); \
        break;
    switch (n) { TILES(CALL) }
#undef CALL
}

static void value_tile_of(const attend_group *g, uint32_t first, uint32_t column, uint32_t bits,
                          const attend_values *v, uint32_t n) {
    if (v->type == RF_DT_F16)
        value_tiles(g, first, column, bits, v, RF_DT_F16, n);
    else if (v->type == RF_DT_BF16)
        value_tiles(g, first, column, bits, v, RF_DT_BF16, n);
    else
        value_tiles(g, first, column, bits, v, RF_DT_F32, n);
}

/* Parts ------------------------------------------------------------------------------------------*/

/* Folds m, l onto total_m, total_l of n queries; keep is -1 for the first part. */
static void fold_factors(float *total_m, float *total_l, const float *m, const float *l,
                         float *keep, float *add, size_t n) {
    for (size_t i = 0; i < n; i += 16) {
        lanes a = lanes_load_n(total_m + i, n - i), b = lanes_load_n(m + i, n - i);
        lanes sum = lanes_load_n(total_l + i, n - i), part = lanes_load_n(l + i, n - i);
        lanes top = lanes_max(b, a); /* b is never a NaN */
        lanes x = lanes_exp(lanes_sub(a, top)), y = lanes_exp(lanes_sub(b, top));
        sum = lanes_fma(part, y, lanes_mul(sum, x));
        lanes_store_n(keep + i, lanes_if_none(a, lanes_set(-1.0f), x), n - i);
        lanes_store_n(add + i, y, n - i);
        lanes_store_n(total_m + i, top, n - i);
        lanes_store_n(total_l + i, lanes_if_none(a, part, sum), n - i);
    }
}

/* Where column d, a multiple of 32, of a row of the cache lies. */
static inline size_t column_bytes(rf_dtype type, uint32_t d) {
    const rf_dtype_info *info = rf_dtype_get(type);
    return d / info->block_elems * info->block_bytes;
}

#include "backend/cpu/attend_ints.h"

static inline uint32_t panel_columns(uint32_t dim, uint32_t d) {
    return dim - d < RF_ATTEND_PANEL ? dim - d : RF_ATTEND_PANEL;
}

/* Whether all queries are one tile, so that what the cache holds is read once: to turn it to f32 before would not pay. */
static bool is_one_tile(const attend_group *g) { return g->n_rows == 1 && g->n <= ATTEND_TILE; }

/* Keys in lanes; their type. */
static rf_dtype gather_keys(attend_group *g, const uint8_t *k, uint32_t bits) {
    const rf_attend *a = g->a;
    bool is_16 = a->k_type == RF_DT_F16 || a->k_type == RF_DT_BF16;
    if (is_16 && a->head_dim % 8 == 0) {
        bool to_f32 = !is_one_tile(g);
        transpose_16(g->keys, to_f32, k, &g->ahead, a->k_row, a->head_dim, a->k_type);
        return to_f32 ? RF_DT_F32 : a->k_type;
    }
    for (uint32_t d = 0; d < a->head_dim; d += RF_ATTEND_PANEL) {
        size_t at = column_bytes(a->k_type, d);
        widen_panel(g->panel, k + at, &g->ahead, a->k_row, bits, panel_columns(a->head_dim, d),
                    a->k_type);
        transpose_panel(g->keys + (size_t)d * RF_KV_BLOCK, g->panel);
    }
    return RF_DT_F32;
}

/* Scores of the tiles that hold queries of rows which see the block. */
static void make_scores(attend_group *g, rf_dtype type) {
    uint32_t first = 0, end = g->n_rows, size;
    uint32_t words = (uint32_t)rf_attend_padded(g->a->head_dim) / 2; /* of a query */
    while (!g->bits[first])
        first++;
    while (!g->bits[end - 1])
        end--;
    for (uint32_t i = 0; i < end * g->n_heads; i += size) {
        size = tile_of(g->n - i);
        if (i + size <= first * g->n_heads) continue;
        if (rf_attend_is_int(g->a->k_type))
            ints_score_tile_of(g->p + (size_t)i * RF_KV_BLOCK, g->q_words + (size_t)i * words,
                               g->key_words, g->key_scales, words / 16, size);
        else
            score_tile_of(g->p + (size_t)i * RF_KV_BLOCK, g->q + (size_t)i * g->a->head_dim,
                          (const uint8_t *)g->keys, type, g->a->head_dim, size);
    }
}

static void finish_row(attend_group *g, uint32_t r, uint32_t block) {
    const rf_attend *a = g->a;
    float mask[RF_KV_BLOCK];
    if (a->mask) rf_attend_mask(a, g->row + r, block, g->bits[r], mask);
    for (uint32_t i = r * g->n_heads; i < (r + 1) * g->n_heads; i++) {
        look_ahead(&g->ahead, 2);
        finish_scores(g->p + (size_t)i * RF_KV_BLOCK, g->bits[r], g->scale[i], a->softcap,
                      a->mask ? mask : NULL, g->part[i]);
    }
}

static void soften_row(attend_group *g, uint32_t r) {
    for (uint32_t i = r * g->n_heads; i < (r + 1) * g->n_heads; i++) {
        look_ahead(&g->ahead, 2);
        exponentials(g->p + (size_t)i * RF_KV_BLOCK, g->bits[r], g->block_m[i], g->part[i]);
    }
}

/* Scores of neighbouring rows [r, end), which all see the block, become weights; all maxima before the first
 * exponential, so that nothing waits for one. */
static void soften_rows(attend_group *g, uint32_t r, uint32_t end, uint32_t block) {
    const uint32_t first = r * g->n_heads, n = (end - r) * g->n_heads;
    for (uint32_t i = r; i < end; i++)
        finish_row(g, i, block);
    join_maxima(g->block_m + first, g->part + first, n);
    for (uint32_t i = r; i < end; i++)
        soften_row(g, i);
    join_sums(g->block_l + first, g->part + first, n);
    fold_factors(g->m + first, g->l + first, g->block_m + first, g->block_l + first,
                 g->keep + first, g->add + first, n);
    for (; r < end; r++)
        g->seen[r] = true;
}

/* Neighbouring rows that see the same keys share tiles. */
static void add_values(attend_group *g, const uint8_t *v, uint32_t bits) {
    const rf_attend *a = g->a;
    const bool in_place =
        is_one_tile(g) && a->v_type != RF_DT_F32 && a->value_dim % RF_ATTEND_PANEL == 0;
    for (uint32_t d = 0; d < a->value_dim; d += RF_ATTEND_PANEL) {
        attend_values of = {a->v_type, v + column_bytes(a->v_type, d), a->v_row, &g->ahead};
        if (!in_place) {
            widen_panel(g->panel, of.at, &g->ahead, a->v_row, bits, panel_columns(a->value_dim, d),
                        a->v_type);
            of = (attend_values){.type = RF_DT_F32, .at = (const uint8_t *)g->panel};
        }
        for (uint32_t r = 0, end; r < g->n_rows; r = end) {
            for (end = r + 1; end < g->n_rows && g->bits[end] == g->bits[r];)
                end++;
            uint32_t last = end * g->n_heads, size;
            for (uint32_t i = r * g->n_heads; i < last && g->bits[r]; i += size) {
                size = tile_of(last - i);
                value_tile_of(g, i, d, g->bits[r], &of, size);
            }
        }
    }
}

/* The block behind, if the last row sees it, is what to fetch meanwhile. */
static void look_behind(attend_group *g, uint32_t block) {
    const rf_attend *a = g->a;
    uint32_t last = g->n_rows - 1;
    g->ahead = (rf_look){0};
    if (block + 1 >= rf_attend_end_block(&g->span[last]) ||
        !rf_attend_bits(a, g->row + last, &g->span[last], block + 1))
        return;
    size_t id = a->table[block + 1];
    g->ahead.at = a->k + id * a->k_block;
    g->ahead.end = g->ahead.at + RF_KV_BLOCK * a->k_row;
    if (a->v == a->k) return; /* values lie in the keys */
    g->ahead.then = a->v + id * a->v_block;
    g->ahead.then_end = g->ahead.then + RF_KV_BLOCK * a->v_row;
}

static void add_block(attend_group *g, uint32_t block) {
    const rf_attend *a = g->a;
    uint32_t all = 0;
    for (uint32_t r = 0; r < g->n_rows; r++) {
        g->bits[r] = rf_attend_bits(a, g->row + r, &g->span[r], block);
        all |= g->bits[r];
    }
    if (!all) return;
    size_t id = a->table[block];
    look_behind(g, block);
    rf_dtype type = a->k_type;
    if (rf_attend_is_int(a->k_type))
        gather_int_keys(g, a->k + id * a->k_block);
    else
        type = gather_keys(g, a->k + id * a->k_block, all);
    make_scores(g, type);
    for (uint32_t r = 0, end; r < g->n_rows; r = end) {
        for (end = r; end < g->n_rows && g->bits[end];)
            end++;
        if (end > r)
            soften_rows(g, r, end, block);
        else
            end++;
    }
    if (rf_attend_is_int(a->v_type))
        add_int_values(g, a->v + id * a->v_block);
    else
        add_values(g, a->v + id * a->v_block, all);
    while (g->ahead.at < g->ahead.end || g->ahead.then < g->ahead.then_end)
        look_ahead(&g->ahead, 4);
}

/* Groups -----------------------------------------------------------------------------------------*/

static inline float *total_of(const attend_group *g, uint32_t i) {
    return g->a->dst + (g->row + i / g->n_heads) * g->a->dst_stride +
           (size_t)(g->head + i % g->n_heads) * g->a->value_dim;
}

/* A row's queries of a segment, whose weighted values lie at acc, stride apart, onto their totals. */
static void add_segment(attend_group *g, uint32_t r, const float *acc, size_t stride) {
    uint32_t first = r * g->n_heads;
    fold_factors(g->total_m + first, g->total_l + first, g->m + first, g->l + first,
                 g->keep + first, g->add + first, g->n_heads);
    for (uint32_t i = first; i < first + g->n_heads; i++, acc += stride) {
        if (g->keep[i] < 0)
            memcpy(total_of(g, i), acc, g->a->value_dim * sizeof *acc);
        else
            fold_lanes(total_of(g, i), acc, g->keep[i], g->add[i], g->a->value_dim);
    }
}

/* The only row's queries of the segment that is number s of those asked for. */
static void put_sums(const attend_group *g, uint32_t s) {
    for (uint32_t i = 0; i < g->n; i++) {
        float *to = rf_attend_sums_of(g->a, s, g->head + i);
        to[0] = g->m[i];
        to[1] = g->seen[0] ? g->l[i] : -1.0f;
        memcpy(to + RF_ATTEND_SUMS, g->acc + i * g->stride, g->a->value_dim * sizeof *to);
    }
}

static const float *query_of(const attend_group *g, uint32_t i) {
    return g->a->q + (g->row + i / g->n_heads) * g->a->q_stride +
           (size_t)(g->head + i % g->n_heads) * g->a->head_dim;
}

/* Queries of the tile of size queries that begins with number i. */
static void pack_tile(attend_group *g, uint32_t i, uint32_t size) {
    uint32_t n = g->a->head_dim, padded = (uint32_t)rf_attend_padded(n);
    for (uint32_t k = 0; k < size; k++) {
        const float *q = query_of(g, i + k);
        g->scale[i + k] = g->a->scale;
        if (rf_attend_is_int(g->a->k_type)) {
            int16_t whole[RF_MAX_HEAD_DIM + 31];
            g->scale[i + k] *= query_ints(whole, q, n);
            store_words(g->q_words + (size_t)i * (padded / 2) + (size_t)k * ATTEND_DIGITS,
                        (size_t)size * ATTEND_DIGITS, whole, padded / ATTEND_WORD);
            continue;
        }
        for (uint32_t d = 0; d < n; d++)
            g->q[(size_t)i * n + (size_t)d * size + k] = q[d];
    }
}

static void pack_queries(attend_group *g) {
    for (uint32_t i = 0, size; i < g->n; i += size) {
        size = tile_of(g->n - i);
        pack_tile(g, i, size);
    }
}

/* The blocks that some row may see: [first, return value). */
static uint32_t start_group(attend_group *g, uint32_t *first) {
    const rf_attend *a = g->a;
    uint32_t end = 0;
    *first = UINT32_MAX;
    for (uint32_t r = 0; r < g->n_rows; r++) {
        g->span[r] = rf_attend_span_of(a, g->row + r);
        uint32_t from = rf_attend_first_block(&g->span[r]), to = rf_attend_end_block(&g->span[r]);
        *first = from < *first ? from : *first;
        end = to > end ? to : end;
    }
    rf_attend_limit(a, first, &end);
    return end;
}

static void start_totals(attend_group *g) {
    for (uint32_t i = 0; i < g->n; i++) {
        g->total_m[i] = rf_attend_sink(g->a, g->head + i % g->n_heads);
        g->total_l[i] = g->total_m[i] == -INFINITY ? 0.0f : 1.0f;
        memset(total_of(g, i), 0, g->a->value_dim * sizeof(float));
    }
}

static void finish_totals(attend_group *g) {
    for (uint32_t i = 0; i < g->n; i++) {
        float *dst = total_of(g, i);
        const float l = g->total_l[i];
        for (uint32_t d = 0; l != 0.0f && d < g->a->value_dim; d++)
            dst[d] /= l;
    }
}

static void attend_group_of(attend_group *g) {
    uint32_t b, next, end = start_group(g, &b);
    pack_queries(g);
    if (!g->a->sums) start_totals(g);
    for (uint32_t s = 0; b < end; b = next, s++) {
        next = rf_attend_segment_end(b, end);
        for (uint32_t i = 0; i < g->n; i++)
            g->m[i] = -INFINITY;
        memset(g->seen, 0, sizeof g->seen);
        for (; b < next; b++)
            add_block(g, b);
        if (g->a->sums) put_sums(g, s);
        for (uint32_t r = 0; r < g->n_rows && !g->a->sums; r++)
            if (g->seen[r]) add_segment(g, r, g->acc + r * g->n_heads * g->stride, g->stride);
    }
    if (!g->a->sums) finish_totals(g);
}

/* What all segments of a row's queries gave. */
static void fold_group(attend_group *g) {
    start_totals(g);
    for (uint32_t s = 0; s < g->a->n_segments; s++) {
        const float *sums = rf_attend_sums_of(g->a, s, g->head);
        const size_t stride = RF_ATTEND_SUMS + g->a->value_dim;
        if (sums[1] < 0) continue; /* no head sees a key of it; a NaN counts */
        for (uint32_t i = 0; i < g->n; i++) {
            g->m[i] = sums[i * stride];
            g->l[i] = sums[i * stride + 1];
        }
        add_segment(g, 0, sums + RF_ATTEND_SUMS, stride);
    }
    finish_totals(g);
}

static void attend_fold_lanes(const rf_attend *a) {
    attend_group g = {.a = a, .n_rows = 1};
    for (g.head = 0; g.head < a->n_q; g.head += g.n) {
        uint32_t heads = a->n_q - g.head;
        g.n = g.n_heads = heads < RF_ATTEND_QUERIES ? heads : RF_ATTEND_QUERIES;
        fold_group(&g);
    }
}

/* As many heads as a group holds, then as many rows. */
static void attend_lanes(const rf_attend *a) {
    attend_group g = {.a = a, .stride = rf_attend_padded(a->value_dim), .q = a->scratch};
    uint32_t n = rf_attend_queries(a->head_dim, a->value_dim);
    g.p = g.q + (size_t)n * rf_attend_padded(a->head_dim);
    g.acc = g.p + (size_t)n * RF_KV_BLOCK;
    g.keys = g.acc + n * g.stride;
    g.panel = g.keys + RF_KV_BLOCK * rf_attend_padded(a->head_dim);
    g.weights = (int32_t *)(void *)(g.panel + RF_KV_BLOCK * RF_ATTEND_PANEL);
    g.q_words = (int32_t *)(void *)g.q;
    g.key_words = (int32_t *)(void *)g.keys; /* take half of their place */
    g.key_scales = g.keys + RF_KV_BLOCK / 2 * rf_attend_padded(a->head_dim);
    g.words = (int32_t *)(void *)g.panel;
    for (g.head = 0; g.head < a->n_q; g.head += g.n_heads) {
        uint32_t heads = a->n_q - g.head;
        g.n_heads = heads < n ? heads : n;
        uint32_t most = n / g.n_heads < RF_KV_BLOCK ? n / g.n_heads : RF_KV_BLOCK;
        for (g.row = 0; g.row < a->n_rows; g.row += g.n_rows) {
            uint32_t left = a->n_rows - g.row, n_groups = (left + most - 1) / most;
            g.n_rows = (left + n_groups - 1) / n_groups;
            g.n = g.n_rows * g.n_heads;
            attend_group_of(&g);
        }
    }
}
