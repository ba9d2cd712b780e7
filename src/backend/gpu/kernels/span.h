/* span.h - what the attention kernels share: the keys that a row sees, and segments of keys on their
 * way into the total.
 *
 * With n_splits > 1 a block takes single segments, whose maximum, sum and weighted values it leaves in
 * a->parts; attend_fold.hip adds them up. */
#pragma once
#include "backend/gpu/kernels/kv.h"

/* [begin, end) and [0, n_global) of the keys. */
typedef struct rf_span {
    uint32_t begin, end, n_global;
    const float *mask; /* of the row, or NULL */
} rf_span;

RF_DEVICE rf_span rf_span_of(const rf_gpu_attend_args *a, uint32_t row) {
    const uint32_t pos = a->batch.pos[row], kv_len = a->batch.kv_len[a->batch.row_seq[row]];
    const uint32_t past = pos < kv_len ? pos + 1 : kv_len, half = a->window / 2;
    rf_span s;
    s.begin = 0;
    s.end = past;
    s.n_global = 0;
    s.mask = 0;
    if (a->pattern == RF_ATTN_BIDIRECTIONAL || a->pattern == RF_ATTN_CUSTOM) s.end = kv_len;
    if (a->pattern == RF_ATTN_CUSTOM) s.mask = a->batch.mask + (uint64_t)row * a->batch.mask_stride;
    if (a->pattern == RF_ATTN_PREFIX && a->batch.prefix[a->batch.row_seq[row]] > past)
        s.end = rf_min_u32(a->batch.prefix[a->batch.row_seq[row]], kv_len);
    if (a->pattern == RF_ATTN_LOCAL_BOTH) {
        s.begin = pos > half ? pos - half : 0;
        s.end = kv_len - past > half ? past + half : kv_len;
    }
    if (a->pattern == RF_ATTN_LOCAL || a->pattern == RF_ATTN_GLOBAL_LOCAL)
        s.begin = past > a->window ? past - a->window : 0;
    if (a->pattern == RF_ATTN_GLOBAL_LOCAL) s.n_global = rf_min_u32(a->n_global, s.begin);
    return s;
}

/* The first block that may hold a visible key. */
RF_DEVICE uint32_t rf_span_first(const rf_span *s) { return s->n_global ? 0 : s->begin / 32; }

/* Bits of the positions [begin, end) in the block that starts at position first. */
RF_DEVICE uint32_t rf_range_bits(uint32_t begin, uint32_t end, uint32_t first) {
    const uint32_t lo = begin > first ? begin - first : 0;
    const uint32_t hi = rf_min_u32(end > first ? end - first : 0, 32);
    if (lo >= hi) return 0;
    return (0xffffffffu >> (32 - hi)) & (0xffffffffu << lo);
}

/* The visible keys of a block. */
RF_DEVICE uint32_t rf_span_bits(const rf_span *s, uint32_t block) {
    const uint32_t first = 32 * block;
    uint32_t bits = rf_range_bits(s->begin, s->end, first) | rf_range_bits(0, s->n_global, first);
    if (!s->mask) return bits;
    RF_NO_UNROLL
    for (uint32_t j = 0; j < 32; j++) {
        if (bits >> j & 1 && s->mask[first + j] == -__builtin_inff()) bits &= ~(1u << j);
    }
    return bits;
}

/* Narrows the blocks [first, end) to those of segment number split where blocks take one each; false
 * when none is left. */
RF_DEVICE int rf_take_split(const rf_gpu_attend_args *a, uint32_t split, uint32_t *first,
                            uint32_t *end) {
    if (a->n_splits == 1) return 1;
    const uint32_t lo = split * RF_GPU_SEGMENT_BLOCKS, hi = lo + RF_GPU_SEGMENT_BLOCKS;
    if (*first < lo) *first = lo;
    *end = rf_min_u32(*end, hi);
    return *first < *end;
}

/* Maximum and sum of part number part; the sum of a segment without visible keys is 0. */
RF_DEVICE void rf_put_part(const rf_gpu_attend_args *a, uint64_t part, float m, float l) {
    const uint64_t n = (uint64_t)a->n_rows * a->n_heads * a->n_splits;
    float *ml = a->parts + n * a->value_dim + 2 * part;
    ml[0] = m;
    ml[1] = l;
}

/* How a part of maximum m, a block or a segment, is folded into a total. */
typedef struct rf_fold {
    float m, c_total, c_part;
    int is_first;
} rf_fold;

/* Of a maximum less a greater one.  With the faster function AMD's compiler takes more registers. */
RF_DEVICE float rf_fold_exp(float x) {
#if defined(RF_AMD)
    return rf_exp32(x);
#else
    return rf_exp32_down(x);
#endif
}

RF_DEVICE rf_fold rf_fold_of(float total_m, float m) {
    rf_fold f;
    f.is_first = total_m == -__builtin_inff();
    f.m = f.is_first || m > total_m ? m : total_m;
    f.c_total = rf_fold_exp(total_m - f.m);
    f.c_part = rf_fold_exp(m - f.m);
    return f;
}

/* Leaves a total of maximum m as it is, when the part is zeros. */
RF_DEVICE rf_fold rf_no_fold(float m) {
    const rf_fold f = {m, 1.0f, -0.0f, 0};
    return f;
}

RF_DEVICE float rf_folded(const rf_fold *f, float total, float part) {
    return f->is_first ? part : rf_fma(part, f->c_part, total * f->c_total);
}
