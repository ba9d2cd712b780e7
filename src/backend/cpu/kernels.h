/* kernels.h - the CPU backend's table of kernels, one per instruction set.
 *
 * Every entry follows docs/arithmetic.md to the bit, so tables of different instruction sets are
 * interchangeable.  Kernels are pure functions over plain memory: no threads, no allocation.  The
 * scalar table is complete; the others start from a copy of it and override what they do faster. */
#pragma once
#include "base/os.h"
#include "model/model.h"

/* In front of loops over tiles of registers. */
#if defined(__has_feature)
#define RF_HAS_FEATURE(f) __has_feature(f)
#else
#define RF_HAS_FEATURE(f) 0
#endif
#if RF_HAS_FEATURE(address_sanitizer) || RF_HAS_FEATURE(thread_sanitizer) || \
    defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RF_UNROLL /* instrumented code takes minutes to compile when unrolled */
#elif defined(__clang__)
#define RF_UNROLL _Pragma("clang loop unroll(full)")
#else
#define RF_UNROLL _Pragma("GCC unroll 16")
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Activations in blocks: of integers RF_ACT_BLOCK rows, [block][group] records of so many bytes, of floats
 * RF_ACT_FLOATS rows. */
enum { RF_ACT_BLOCK = 16, RF_ACT_FLOATS = 6, RF_ACT_RECORD_32 = 640, RF_ACT_RECORD_256 = 4672 };
static inline uint32_t rf_act_block_rows(rf_int_view view) {
    return view == RF_INT_NONE ? RF_ACT_FLOATS : RF_ACT_BLOCK;
}
static inline size_t rf_act_block_bytes(rf_int_view view, size_t n_cols) {
    if (view == RF_INT_NONE) return RF_ACT_FLOATS * ((n_cols + 15) & ~(size_t)15) * sizeof(float);
    return view == RF_INT_32 ? n_cols / 32 * RF_ACT_RECORD_32 : n_cols / 256 * RF_ACT_RECORD_256;
}

/* T activation rows prepared once per matrix product input, in the form the weight's view needs. */
typedef struct rf_mm_input {
    rf_int_view view;
    uint32_t n_rows, n_cols;
    const float *x;  /* RF_INT_NONE: [n_rows][n_cols] */
    int8_t *q;       /* [n_rows][n_cols] */
    float *d;        /* [n_rows][n_cols / 32] or [n_rows][n_cols / 256] */
    int32_t *sum;    /* [n_rows][n_cols / 32], or [n_rows][n_cols / 16] for RF_INT_256 */
    float *total;    /* RF_INT_32, for formats with minima: [n_rows][n_cols / 32]; or NULL */
    uint8_t *blocks; /* x, or q, d and totals or sums, as lay_out wrote them; or NULL */
} rf_mm_input;

/* One matrix product: dst[t * dst_stride + r] = sum_k w[r][k] x[t][k] + bias[r]. */
typedef struct rf_mm {
    const rf_tensor *w;
    const float *bias; /* [w->rows] f32, or NULL */
    const rf_mm_input *act;
    float *dst;
    size_t dst_stride; /* floats */
    const void *next;  /* weights probably wanted behind these, fetched meanwhile; or NULL */
} rf_mm;

/* Attention of some rows of one sequence: the n_q query heads of each that share one KV head. */
typedef struct rf_attend {
    const float *q;              /* [n_rows] at q_stride: [n_q][head_dim] */
    float *dst;                  /* [n_rows] at dst_stride: [n_q][value_dim] */
    size_t q_stride, dst_stride; /* floats */
    const float *sinks;          /* [n_q] or NULL */
    uint32_t n_rows, n_q, head_dim, value_dim;
    rf_dtype k_type, v_type;
    const uint8_t *k, /* this layer's pools, at this KV head: the key of position p lies at */
        *v;           /*   k + table[p / 32] * k_block + (p % 32) * k_row, its value likewise */
    size_t k_block, k_row, v_block, v_row; /* bytes */
    const uint32_t *table;
    rf_attn_pattern pattern;
    const uint32_t *pos; /* [n_rows] */
    uint32_t kv_len;
    const float *mask;    /* CUSTOM: [n_rows] at mask_stride: [kv_len], else NULL */
    size_t mask_stride;   /* floats */
    float scale, softcap; /* softcap 0: none */
    void *scratch;        /* rf_attend_scratch_bytes, 64-byte aligned; scalar: none */
    /* Of one row, n_segments segments from number first_segment on: attend leaves what each of them gives here, and
     * attend_fold folds them all into dst.  NULL: attend does both. */
    float *sums;        /* [n_segments] at sums_stride: [n_q][RF_ATTEND_SUMS + value_dim] */
    size_t sums_stride; /* floats */
    uint32_t first_segment, n_segments;
} rf_attend;
/* Before the weighted values of a segment's query head: its maximum, and its sum, which is below 0 where no key is seen. */
enum { RF_ATTEND_SUMS = 2 };

typedef struct rf_cpu_kernels {
    rf_isa isa;
    /* Activations.  x: [n]; q: [n]; d: [n/32]; sum: [n/32] */
    void (*quant_32)(const float *x, size_t n, int8_t *q, float *d, int32_t *sum);
    /* d: [n/256]; sum: [n/16] */
    void (*quant_256)(const float *x, size_t n, int8_t *q, float *d, int32_t *sum);
    /* Keys and values.  d: [n/32] */
    void (*quant_kv)(const float *x, size_t n, int8_t *q, float *d);
    /* Output rows [begin, end) for all activation rows.  scratch: rf_mm_scratch_bytes of this thread,
     * 64-byte aligned. */
    void (*matmul)(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch);
    /* For a matmul that wants rows in blocks, from lay_out_from[view] rows on (0: never); else NULL.  Writes
     * columns [begin, end) of the block of rows from `first`, a multiple of rf_act_block_rows, into a->blocks,
     * 64-byte aligned.  begin and end are where groups of the view (16 floats) begin, or the row's end. */
    void (*lay_out)(const rf_mm_input *a, uint32_t first, uint32_t begin, uint32_t end);
    uint32_t lay_out_from[3];
    /* Rows of n; w and b may be NULL, dst may be an input. */
    void (*rms_norm)(float *dst, const float *x, const float *w, size_t n, float eps);
    void (*layer_norm)(float *dst, const float *x, const float *w, const float *b, size_t n,
                       float eps);
    void (*act)(rf_act act, float *dst, const float *x, size_t n);
    void (*glu)(rf_act act, float *dst, const float *gate, const float *up, size_t n);
    void (*add)(float *dst, const float *a, const float *b, size_t n);
    void (*mul)(float *dst, const float *a, const float *b, size_t n);
    void (*scale)(float *dst, const float *x, float scale, size_t n);
    void (*add_scaled)(float *dst, const float *x, float scale, size_t n); /* dst += x * scale */
    void (*softcap)(float *dst, const float *x, float cap, size_t n);
    /* cos_sin: [n_dims / 2][2]; rotates the first n_dims of each of n_heads heads in place */
    void (*rope)(float *x, uint32_t n_heads, uint32_t head_dim, const rf_rope *rope,
                 const float *cos_sin);
    /* dst = sum over i of w[i] * x[i], + bias where that is not NULL; w: [n_taps][w_row], the first n
     * columns of each, x: n_taps rows of n; dst is none of them. */
    void (*conv)(float *dst, const float *const *x, const float *w, size_t w_row, uint32_t n_taps,
                 const float *bias, size_t n);
    /* A token of the delta rule on n columns of state [n_k][n]: s = s * decay, d = (v - s k) * beta,
     * s = s + k d, dst = s q. */
    void (*delta)(float *state, const float *q, const float *k, uint32_t n_k, const float *v,
                  float decay, float beta, float *dst, size_t n);
    /* A token of Mamba-2's scan likewise: s = s * decay + b (x * dt), dst = s c. */
    void (*scan)(float *state, const float *b, const float *c, uint32_t n_k, const float *x,
                 float decay, float dt, float *dst, size_t n);
    void (*f32_to_f16)(uint16_t *dst, const float *x, size_t n);
    void (*attend)(const rf_attend *a);
    void (*attend_fold)(const rf_attend *a);
} rf_cpu_kernels;

/* Whether n rows of a view are to be laid out in blocks; how many blocks they are; lays out columns [begin, end)
 * of rows [first, last). */
static inline bool rf_act_wants_blocks(const rf_cpu_kernels *k, rf_int_view view, size_t n) {
    return k->lay_out_from[view] && n >= k->lay_out_from[view];
}
static inline size_t rf_act_n_blocks(rf_int_view view, size_t n) {
    return (n + rf_act_block_rows(view) - 1) / rf_act_block_rows(view);
}
static inline void rf_act_lay_out(const rf_cpu_kernels *k, const rf_mm_input *a, uint32_t first,
                                  uint32_t last, uint32_t begin, uint32_t end) {
    for (; first < last; first += rf_act_block_rows(a->view))
        k->lay_out(a, first, begin, end);
}

/* What minima of groups of 32 are multiplied with: total[g] from sum[g] * d[g], of all n groups of a row. */
void rf_mm_totals(const float *d, const int32_t *sum, size_t n, float *total);

/* The table of a level; the CPU must have it. */
const rf_cpu_kernels *rf_cpu_kernels_get(rf_isa isa);
size_t rf_mm_scratch_bytes(uint32_t max_act_rows, uint32_t max_cols);

/* Overrides, one function per file and instruction set (absent on other processors). */
void rf_cpu_mm_scalar(rf_cpu_kernels *k); /* quant_32, quant_256, quant_kv, matmul */
void rf_cpu_mm_avx2(rf_cpu_kernels *k);
void rf_cpu_mm_avxvnni(rf_cpu_kernels *k);
void rf_cpu_mm_avx512(rf_cpu_kernels *k);
void rf_cpu_mm_amx(rf_cpu_kernels *k);
void rf_cpu_mm_neon(rf_cpu_kernels *k);
void rf_cpu_mm_i8mm(rf_cpu_kernels *k);
void rf_cpu_vec_scalar(rf_cpu_kernels *k); /* everything else */
void rf_cpu_vec_avx2(rf_cpu_kernels *k);
void rf_cpu_vec_avx512(rf_cpu_kernels *k);
void rf_cpu_vec_neon(rf_cpu_kernels *k);

#ifdef __cplusplus
}
#endif
