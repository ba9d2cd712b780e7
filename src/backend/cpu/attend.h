/* attend.h - attention over paged KV blocks: which keys a row sees, and the walk over the segments
 * and their blocks.
 *
 * Private to the CPU backend.  A block is seen through 32 bits: bit j stands for key position
 * 32 * block + j.  A block without a set bit is never touched.  The vector instruction sets share
 * the walk and bring its five inner parts; the scalar kernel is written out on its own. */
#pragma once
#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cpu/kernels.h"
#include "base/fmath.h"
#include "quant/blocks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Visible are [begin, end) and [0, n_global). */
typedef struct rf_attend_span {
    uint32_t begin, end, n_global;
} rf_attend_span;

static inline rf_attend_span rf_attend_span_of(const rf_attend *a) {
    rf_attend_span s = {0, 0, 0};
    rf_attn_range(&a->pattern, a->pos, a->kv_len, &s.begin, &s.end);
    if (a->pattern.kind == RF_ATTN_GLOBAL_LOCAL) {
        s.n_global = a->pattern.n_global < s.begin ? a->pattern.n_global : s.begin;
    }
    return s;
}

static inline uint32_t rf_attend_first_block(const rf_attend_span *s) {
    return s->n_global ? 0 : s->begin / RF_KV_BLOCK;
}

/* One past the last block that may hold a visible key. */
static inline uint32_t rf_attend_end_block(const rf_attend_span *s) {
    return s->end / RF_KV_BLOCK + (s->end % RF_KV_BLOCK != 0);
}

/* Bits of the positions [begin, end) that lie in the block starting at position first. */
static inline uint32_t rf_attend_range_bits(uint32_t begin, uint32_t end, uint32_t first) {
    uint64_t lo = begin > first ? begin - first : 0;
    uint64_t hi = end > first ? end - first : 0;
    if (hi > RF_KV_BLOCK) hi = RF_KV_BLOCK;
    if (lo >= hi) return 0;
    return (uint32_t)(((UINT64_C(1) << hi) - 1) & ~((UINT64_C(1) << lo) - 1));
}

static inline uint32_t rf_attend_bits(const rf_attend *a, const rf_attend_span *s, uint32_t block) {
    uint32_t first = block * RF_KV_BLOCK;
    uint32_t bits =
        rf_attend_range_bits(s->begin, s->end, first) | rf_attend_range_bits(0, s->n_global, first);
    if (a->mask) {
        for (uint32_t left = bits; left; left &= left - 1) {
            uint32_t j = (uint32_t)__builtin_ctz(left);
            if (a->mask[first + j] == -INFINITY) bits &= ~(UINT32_C(1) << j);
        }
    }
    return bits;
}

/* The mask values of a block's visible keys; 0 for the rest, which may lie behind the mask's end. */
static inline void rf_attend_mask(const rf_attend *a, uint32_t block, uint32_t bits,
                                  float out[RF_KV_BLOCK]) {
    for (uint32_t j = 0; j < RF_KV_BLOCK; j++) {
        out[j] = bits >> j & 1 ? a->mask[block * RF_KV_BLOCK + j] : 0.0f;
    }
}

enum {
    RF_ATTEND_GROUP = 16, /* query heads that share one pass over K and V */
    RF_ATTEND_WIDE = 64,  /* columns of V converted at a time: whole blocks of any type */
};

/* One query head within a group. */
typedef struct rf_attend_head {
    float *p; /* [32] scores in, probabilities out (0 where hidden) */
    float *m; /* their maximum */
    float *l; /* their sum */
} rf_attend_head;

typedef struct rf_attend_parts {
    /* n values of any type but F32, from the start of a block, to f32; src needs no alignment */
    void (*widen)(float *dst, const uint8_t *src, uint32_t n, rf_dtype type);
    /* scale, softcap, mask ([32] or NULL), maximum, exponentials, sum */
    void (*soften)(const rf_attend_head *h, uint32_t bits, float scale, float softcap,
                   const float *mask);
    /* acc[h][d] = fma(p[h][j], v[j][d], acc[h][d]) for the visible j ascending; acc:
     * [n_heads][RF_MAX_HEAD_DIM], p: [n_heads][32], v: [32][stride], n columns used */
    void (*accumulate)(float *acc, const float *p, uint32_t n_heads, uint32_t bits, const float *v,
                       size_t stride, uint32_t n);
    /* total[d] = fma(acc[d], c_acc, total[d] * c_total) */
    void (*fold)(float *total, const float *acc, float c_total, float c_acc, size_t n);
} rf_attend_parts;

/* A few query heads on their way through the KV blocks; total weighted values are in dst. */
typedef struct rf_attend_group {
    uint32_t first, n; /* query heads first .. first + n - 1 */
    float total_m[RF_ATTEND_GROUP], total_l[RF_ATTEND_GROUP];
    float m[RF_ATTEND_GROUP], l[RF_ATTEND_GROUP]; /* of the segment */
    float acc[RF_ATTEND_GROUP][RF_MAX_HEAD_DIM];
    float block_m[RF_ATTEND_GROUP], block_l[RF_ATTEND_GROUP]; /* of one block */
    float block_acc[RF_ATTEND_GROUP][RF_MAX_HEAD_DIM];
    float p[RF_ATTEND_GROUP][RF_KV_BLOCK];
    union {
        float k[8][RF_MAX_HEAD_DIM];
        float v[RF_KV_BLOCK][RF_ATTEND_WIDE];
    } wide; /* keys or values of other types as f32 */
} rf_attend_group;

#define RF_ATTEND_INLINE static inline __attribute__((always_inline))

/* Where a query head's total starts: at its sink, which then counts 1. */
static inline float rf_attend_sink(const rf_attend *a, uint32_t h) {
    return a->sinks ? a->sinks[h] : -INFINITY;
}

/* One past the last block of block b's segment, at most end. */
static inline uint32_t rf_attend_segment_end(uint32_t b, uint32_t end) {
    uint32_t stop = b - b % RF_KV_SEGMENT;
    return end - stop > RF_KV_SEGMENT ? stop + RF_KV_SEGMENT : end;
}

/* The maximum, sum and weighted values of a block or segment onto those of a segment or the total. */
RF_ATTEND_INLINE void rf_attend_fold(float *total_m, float *total_l, float *total, float m, float l,
                                     const float *acc, uint32_t n, const rf_attend_parts *parts) {
    if (*total_m == -INFINITY) { /* the first one */
        *total_m = m;
        *total_l = l;
        memcpy(total, acc, n * sizeof *total);
        return;
    }
    float top = m > *total_m ? m : *total_m;
    float c_total = rf_expf(*total_m - top), c_acc = rf_expf(m - top);
    *total_m = top;
    *total_l = fmaf(l, c_acc, *total_l * c_total);
    parts->fold(total, acc, c_total, c_acc, n);
}

/* dst[j] = q . k[j], one product after the other; k: [8][stride], n columns of each row used */
RF_ATTEND_INLINE void rf_attend_dot8(float dst[8], const float *q, const float *k, size_t stride,
                                     uint32_t n) {
    float s[8] = {0};
    for (uint32_t d = 0; d < n; d++)
        for (uint32_t j = 0; j < 8; j++)
            s[j] = fmaf(q[d], k[j * stride + d], s[j]);
    memcpy(dst, s, sizeof s);
}

RF_ATTEND_INLINE void rf_attend_scores(const rf_attend *a, rf_attend_group *g, const uint8_t *k,
                                       uint32_t bits, const rf_attend_parts *parts) {
    for (uint32_t j = 0; j < RF_KV_BLOCK; j += 8) {
        if (!(bits >> j & 0xFF)) {
            for (uint32_t h = 0; h < g->n; h++)
                memset(g->p[h] + j, 0, 8 * sizeof(float));
            continue;
        }
        const uint8_t *src = k + j * a->k_row;
        const float *rows = (const float *)(const void *)src;
        size_t stride = a->k_row / sizeof(float);
        if (a->k_type != RF_DT_F32) {
            for (uint32_t r = 0; r < 8; r++) {
                parts->widen(g->wide.k[r], src + r * a->k_row, a->head_dim, a->k_type);
            }
            rows = g->wide.k[0];
            stride = RF_MAX_HEAD_DIM;
        }
        for (uint32_t h = 0; h < g->n; h++) {
            const float *q = a->q + (size_t)(g->first + h) * a->head_dim;
            rf_attend_dot8(g->p[h] + j, q, rows, stride, a->head_dim);
        }
    }
}

RF_ATTEND_INLINE void rf_attend_values(const rf_attend *a, rf_attend_group *g, const uint8_t *v,
                                       uint32_t bits, const rf_attend_parts *parts) {
    bool wide = a->v_type != RF_DT_F32;
    uint32_t step = wide ? RF_ATTEND_WIDE : a->value_dim;
    const rf_dtype_info *type = rf_dtype_get(a->v_type);
    size_t step_bytes = RF_ATTEND_WIDE / type->block_elems * type->block_bytes;
    for (uint32_t d = 0; d < a->value_dim; d += step, v += wide ? step_bytes : 0) {
        uint32_t n = a->value_dim - d < step ? a->value_dim - d : step;
        const float *rows = (const float *)(const void *)v;
        size_t stride = a->v_row / sizeof(float);
        if (wide) {
            for (uint32_t left = bits; left; left &= left - 1) {
                uint32_t j = (uint32_t)__builtin_ctz(left);
                parts->widen(g->wide.v[j], v + j * a->v_row, n, a->v_type);
            }
            rows = g->wide.v[0];
            stride = RF_ATTEND_WIDE;
        }
        parts->accumulate(g->block_acc[0] + d, g->p[0], g->n, bits, rows, stride, n);
    }
}

/* The blocks [b, end) of one segment onto the totals. */
RF_ATTEND_INLINE void rf_attend_segment(const rf_attend *a, rf_attend_group *g,
                                        const rf_attend_span *span, uint32_t b, uint32_t end,
                                        const rf_attend_parts *parts) {
    bool is_seen = false;
    for (uint32_t h = 0; h < g->n; h++)
        g->m[h] = -INFINITY;
    for (; b < end; b++) {
        uint32_t bits = rf_attend_bits(a, span, b);
        if (!bits) continue;
        is_seen = true;
        float mask[RF_KV_BLOCK];
        if (a->mask) rf_attend_mask(a, b, bits, mask);
        rf_attend_scores(a, g, a->k + a->table[b] * a->k_block, bits, parts);
        for (uint32_t h = 0; h < g->n; h++) {
            rf_attend_head head = {g->p[h], &g->block_m[h], &g->block_l[h]};
            parts->soften(&head, bits, a->scale, a->softcap, a->mask ? mask : NULL);
            memset(g->block_acc[h], 0, a->value_dim * sizeof g->block_acc[h][0]);
        }
        rf_attend_values(a, g, a->v + a->table[b] * a->v_block, bits, parts);
        for (uint32_t h = 0; h < g->n; h++) {
            rf_attend_fold(&g->m[h], &g->l[h], g->acc[h], g->block_m[h], g->block_l[h],
                           g->block_acc[h], a->value_dim, parts);
        }
    }
    for (uint32_t h = 0; h < g->n && is_seen; h++) {
        rf_attend_fold(&g->total_m[h], &g->total_l[h],
                       a->dst + (size_t)(g->first + h) * a->value_dim, g->m[h], g->l[h], g->acc[h],
                       a->value_dim, parts);
    }
}

RF_ATTEND_INLINE void rf_attend_heads(const rf_attend *a, rf_attend_group *g,
                                      const rf_attend_span *span, const rf_attend_parts *parts) {
    float *dst = a->dst + (size_t)g->first * a->value_dim;
    uint32_t end = rf_attend_end_block(span), next;
    memset(dst, 0, sizeof *dst * g->n * a->value_dim);
    for (uint32_t h = 0; h < g->n; h++) {
        g->total_m[h] = rf_attend_sink(a, g->first + h);
        g->total_l[h] = g->total_m[h] == -INFINITY ? 0.0f : 1.0f;
    }
    for (uint32_t b = rf_attend_first_block(span); b < end; b = next) {
        next = rf_attend_segment_end(b, end);
        rf_attend_segment(a, g, span, b, next, parts);
    }
    for (uint32_t h = 0; h < g->n; h++, dst += a->value_dim) {
        if (g->total_l[h] == 0.0f) continue; /* no key is visible */
        for (uint32_t d = 0; d < a->value_dim; d++)
            dst[d] /= g->total_l[h];
    }
}

/* K and V are read and converted once for up to RF_ATTEND_GROUP query heads. */
RF_ATTEND_INLINE void rf_attend_walk(const rf_attend *a, const rf_attend_parts *parts) {
    rf_attend_span span = rf_attend_span_of(a);
    rf_attend_group g;
    for (g.first = 0; g.first < a->n_q; g.first += RF_ATTEND_GROUP) {
        g.n = a->n_q - g.first < RF_ATTEND_GROUP ? a->n_q - g.first : RF_ATTEND_GROUP;
        rf_attend_heads(a, &g, &span, parts);
    }
}

#ifdef __cplusplus
}
#endif
