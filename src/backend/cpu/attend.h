/* attend.h - attention over paged KV blocks: which keys a row sees, and how blocks make segments.
 *
 * Private to the CPU backend.  A block is seen through 32 bits: bit j stands for key position
 * 32 * block + j.  A block without a set bit is never touched.  The scalar kernel walks over them on
 * its own, the vector instruction sets share attend_lanes.h. */
#pragma once
#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cpu/kernels.h"
#include "quant/bits.h"
#include "quant/blocks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Visible are [begin, end) and [0, n_global). */
typedef struct rf_attend_span {
    uint32_t begin, end, n_global;
} rf_attend_span;

static inline rf_attend_span rf_attend_span_of(const rf_attend *a, uint32_t row) {
    rf_attend_span s = {0, 0, 0};
    rf_attn_range(&a->pattern, a->pos[row], a->kv_len, &s.begin, &s.end);
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

static inline uint32_t rf_attend_bits(const rf_attend *a, uint32_t row, const rf_attend_span *s,
                                      uint32_t block) {
    uint32_t first = block * RF_KV_BLOCK;
    uint32_t bits =
        rf_attend_range_bits(s->begin, s->end, first) | rf_attend_range_bits(0, s->n_global, first);
    if (a->mask) {
        const float *mask = a->mask + row * a->mask_stride + first;
        for (uint32_t left = bits; left; left &= left - 1) {
            uint32_t j = (uint32_t)__builtin_ctz(left);
            if (mask[j] == -INFINITY) bits &= ~(UINT32_C(1) << j);
        }
    }
    return bits;
}

/* The mask values of a block's visible keys; 0 for the rest, which may lie behind the mask's end. */
static inline void rf_attend_mask(const rf_attend *a, uint32_t row, uint32_t block, uint32_t bits,
                                  float out[RF_KV_BLOCK]) {
    const float *mask = a->mask + row * a->mask_stride + (size_t)block * RF_KV_BLOCK;
    for (uint32_t j = 0; j < RF_KV_BLOCK; j++)
        out[j] = bits >> j & 1 ? mask[j] : 0.0f;
}

enum {
    RF_ATTEND_QUERIES = 128, /* most query heads of some rows that share one pass over K and V */
    RF_ATTEND_FLOATS = 64 * 1024, /* of their columns and those of their sums: what a cache holds */
    RF_ATTEND_PANEL = 32, /* columns of K or V converted at a time: whole blocks of any type */
};

/* Columns of n, as whole panels. */
static inline size_t rf_attend_padded(uint32_t n) {
    return (n + RF_ATTEND_PANEL - 1) / RF_ATTEND_PANEL * (size_t)RF_ATTEND_PANEL;
}

static inline uint32_t rf_attend_queries(uint32_t head_dim, uint32_t value_dim) {
    size_t n = RF_ATTEND_FLOATS / (head_dim + rf_attend_padded(value_dim)); /* 50 at least */
    return n < RF_ATTEND_QUERIES ? (uint32_t)n : RF_ATTEND_QUERIES;
}

/* Of the queries, their probabilities, weighted values and weights as integers of 16 bits, one block's
 * keys, and a panel. */
static inline size_t rf_attend_scratch_bytes(uint32_t head_dim, uint32_t value_dim) {
    size_t per_query = rf_attend_padded(head_dim) + RF_KV_BLOCK + rf_attend_padded(value_dim);
    size_t per_key = rf_attend_padded(head_dim) + RF_ATTEND_PANEL;
    size_t n = rf_attend_queries(head_dim, value_dim);
    return (n * per_query + RF_KV_BLOCK * per_key) * sizeof(float) + n * RF_KV_BLOCK * 2;
}

/* Keys and values that are integers with a scale per group of 32 are multiplied as such: queries are
 * integers of up to RF_ATTEND_Q_MOST, with one scale for a head, and what values count of up to
 * RF_ATTEND_P_MOST. */
enum { RF_ATTEND_Q_MOST = 16256, RF_ATTEND_P_MOST = 16383 };
#define RF_ATTEND_MAGIC 12582912.0f /* 1.5 * 2^23: a sum with it has its integer in the low bits */

static inline bool rf_attend_is_int(rf_dtype type) {
    return type == RF_DT_Q8_0 || type == RF_DT_Q4_0;
}

static inline uint32_t rf_attend_bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* The larger of |a|, which is one, and |b|; a NaN wins. */
static inline float rf_attend_larger(float a, float b) {
    float x = fabsf(b);
    return rf_attend_bits_of(x) > rf_attend_bits_of(a) ? x : a;
}

/* The scale of group g of a row of the cache. */
static inline float rf_attend_scale(const uint8_t *row, uint32_t g, rf_dtype type) {
    size_t bytes = type == RF_DT_Q8_0 ? sizeof(rf_block_q8_0) : sizeof(rf_block_q4_0);
    return rf_load_half(row + g * bytes);
}

/* What the integers of a block's weighted values are multiples of; a NaN where most is not finite. */
static inline float rf_attend_unit(float most) { return fmaf(most, 0.0f, most / RF_ATTEND_P_MOST); }

/* Where a query head's total starts: at its sink, which then counts 1. */
static inline float rf_attend_sink(const rf_attend *a, uint32_t h) {
    return a->sinks ? a->sinks[h] : -INFINITY;
}

/* The segments that a span lies in: *first, and how many. */
static inline uint32_t rf_attend_segments(const rf_attend_span *s, uint32_t *first) {
    const uint32_t end = (rf_attend_end_block(s) + RF_KV_SEGMENT - 1) / RF_KV_SEGMENT;
    *first = rf_attend_first_block(s) / RF_KV_SEGMENT;
    return end > *first ? end - *first : 0;
}

/* Blocks [*b, *end) become those of the segments that are asked for. */
static inline void rf_attend_limit(const rf_attend *a, uint32_t *b, uint32_t *end) {
    const uint32_t first = a->first_segment * RF_KV_SEGMENT;
    const uint32_t stop = first + a->n_segments * RF_KV_SEGMENT;
    if (!a->sums) return;
    *b = *b > first ? *b : first;
    *end = *end < stop ? *end : stop;
}

/* Where query head h of segment number i of those that are asked for has its sums. */
static inline float *rf_attend_sums_of(const rf_attend *a, uint32_t i, uint32_t h) {
    return a->sums + i * a->sums_stride + (size_t)h * (RF_ATTEND_SUMS + a->value_dim);
}

/* One past the last block of block b's segment, at most end. */
static inline uint32_t rf_attend_segment_end(uint32_t b, uint32_t end) {
    uint32_t stop = b - b % RF_KV_SEGMENT;
    return end - stop > RF_KV_SEGMENT ? stop + RF_KV_SEGMENT : end;
}

#ifdef __cplusplus
}
#endif
