/* args.h - the argument of every GPU kernel: one struct each, plain C, shared by host and kernels.
 *
 * A kernel takes its struct by value as its only parameter.  Pointers are device addresses.
 * Activations are f32 rows without gaps, [T][cols]; results follow docs/arithmetic.md to the bit.
 * Enumerations of the model and the plan travel as uint32_t. */
#pragma once
#include <stdint.h>

#include "backend/best.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RF_GPU_TILE_ROWS = 32,       /* weight rows of a tile */
    RF_GPU_CHUNK = 32,           /* columns of a chunk */
    RF_GPU_BLOCK_ROWS = 128,     /* weight rows of a block with many activation rows */
    RF_GPU_BLOCK_COLS = 64,      /* activation rows of such a block */
    RF_GPU_MAX_PRODUCTS = 3,     /* matrices that one launch multiplies with the same rows */
    RF_GPU_SEGMENT_BLOCKS = 8,   /* KV blocks that attention adds up by themselves: RF_KV_SEGMENT */
    RF_GPU_ATTEND_VEC_DIM = 128, /* widest head of attend_vec and attend_rows */
    RF_GPU_ATTEND_INTS_DIM = 128,  /* of attend_ints; it takes half of that, too */
    RF_GPU_BEST_MAX_GROUPS = 4096, /* groups of columns whose best are compared */
    RF_GPU_MIX_MOST = 32,          /* experts of a row of mm_mix.hip */
    RF_GPU_CONV_ROWS = 16,     /* rows of a stretch of conv, at least what it keeps of a sequence */
    RF_GPU_NORMED_COLS = 8192, /* most columns of a row that mm_normed.hip norms */
    RF_GPU_NORMED_BLOCKS_32 = 3,  /* its blocks of a multiprocessor, of groups of 32 */
    RF_GPU_NORMED_BLOCKS_256 = 2, /* and of 256 */
    RF_GPU_ROUTER_COLS = 4096,    /* most columns of a row that router_normed norms */
    RF_GPU_CHOOSE_MOST = 128,     /* experts among which blocks choose themselves (choose.h) */
    RF_GPU_FEW_SPLIT_32 = 4,      /* blocks that few_32_... has for a tile of weight rows */
    RF_GPU_FEW_SPLIT_256 = 2,     /* and few_256_... */
    RF_GPU_MANY_ROWS = 8,         /* of a sequence in a batch: attention has kernels for as many */
    RF_GPU_RECUR_KEPT = 128, /* rows of the matrix that delta_128 and scan_128 keep in registers */
};

/* How a weight lies on the device (pack.h says where every byte is). */
typedef enum rf_gpu_form {
    RF_GPU_F32,     /* rows as they are in lo, [planes * rows][cols] */
    RF_GPU_F16,     /* likewise */
    RF_GPU_BF16,    /* likewise */
    RF_GPU_INT_32,  /* integers in groups of 32 */
    RF_GPU_INT_256, /* integers in groups of 256 */
} rf_gpu_form;

typedef struct rf_gpu_weight {
    const void *lo;    /* floats, or the low bits of the integers */
    const void *hi;    /* their high bits; NULL where hi_bits is 0 */
    const void *d, *m; /* [planes][tiles][groups][32] f16, or f32 where d_f32; m NULL: none */
    const int8_t *scale, *min; /* INT_256: [planes][tiles][groups][32][n_scales]; min NULL: none */
    uint32_t rows, cols, planes; /* planes > 1: a matrix per head or expert */
    uint32_t form;               /* rf_gpu_form */
    uint32_t lo_bits, hi_bits;   /* 2, 4, 8 and 0, 1, 2 */
    uint32_t n_scales;           /* 8 or 16 */
    uint32_t d_f32;
    int32_t off; /* lo_bits 2, 4: stored is q + off */
} rf_gpu_weight;

/* Activation rows in integers, as rf_mm_input has them: q [T][cols]; d [T][cols / 32 or / 256];
 * sum [T][cols / 32], or [T][cols / 16] for groups of 256.  q NULL: none. */
typedef struct rf_gpu_quant {
    int8_t *q;
    float *d;
    int32_t *sum;
} rf_gpu_quant;

/* Activation rows in 16-bit floats, for products on matrix units (kernels/half.h): x [T][stride], or with
 * n_x in stages of so many rows by 64 columns, [T / n_x][stride / 64][n_x][64]; of F16 what each row's outputs
 * are multiplied with, scale [T]. */
typedef struct rf_gpu_halves {
    uint16_t *x;
    float *scale;
    uint32_t stride, n_x;
} rf_gpu_halves;

/* The batch on the device, as rf_batch has it. */
typedef struct rf_gpu_batch {
    const uint32_t *pos;               /* [T] */
    const uint32_t *row_seq;           /* [T] the sequence of each row */
    const uint32_t *kv_len;            /* [n_seqs] */
    const uint32_t *prefix;            /* [n_seqs] n_prefix */
    const uint32_t *table;             /* [n_seqs][table_stride] */
    const float *mask;                 /* RF_ATTN_CUSTOM: [T][mask_stride], else NULL */
    const uint32_t *seq_start, *state; /* [n_seqs + 1], [n_seqs]; of plans that keep a state */
    uint32_t table_stride, mask_stride;
} rf_gpu_batch;

typedef enum rf_gpu_norm_kind {
    RF_GPU_NO_NORM,
    RF_GPU_RMS_NORM,
    RF_GPU_LAYER_NORM
} rf_gpu_norm_kind;

/* A row may be for several blocks: so many columns, and so many of these a block at once. */
enum { RF_GPU_NORM_PART = 1024, RF_GPU_NORM_PARTS = 4 };

/* dst[i] = norm(x[i]) of rows of n.  Where q32 or q256 is asked for, the result is also written in
 * integers, and then dst may be NULL. */
typedef struct rf_gpu_norm_args {
    float *dst;         /* [n_items][n], not x, of which each block reads all */
    const float *x;     /* [n_items][n] */
    const float *w, *b; /* [n] or NULL */
    rf_gpu_quant q32, q256;
    uint32_t n_items, n; /* heads are items: n_items = T * n_heads, n = head_dim */
    uint32_t kind;       /* RF_GPU_RMS_NORM or RF_GPU_LAYER_NORM */
    float eps;
} rf_gpu_norm_args;

/* Rows into integers: either or both views. */
typedef struct rf_gpu_quant_args {
    const float *x; /* [n_rows][cols] */
    rf_gpu_quant q32, q256;
    uint32_t n_rows, cols;
} rf_gpu_quant_args;

/* Rows into 16-bit floats of the form RF_GPU_F16 or RF_GPU_BF16. */
typedef struct rf_gpu_halves_args {
    const float *x; /* [n_rows][cols] */
    rf_gpu_halves to;
    uint32_t n_rows, cols, form;
    rf_gpu_norm_args norm; /* n not 0: it is this one's rows that are rounded, and not written */
} rf_gpu_halves_args;

/* Which matrix of a weight multiplies which rows. */
typedef enum rf_gpu_mm_mode {
    RF_GPU_MM_PLAIN,   /* one matrix: x [T][cols], dst [T][rows] */
    RF_GPU_MM_HEADS,   /* a matrix per head: x [T][planes][cols], dst [T][planes][rows] */
    RF_GPU_MM_EXPERTS, /* those that the route names: x [T][cols] or [T][n_used][cols],
                          dst [T][n_used][rows] */
} rf_gpu_mm_mode;

typedef struct rf_gpu_product {
    rf_gpu_weight w;
    const float *bias; /* [planes][rows] or NULL */
    const float *add;  /* as dst, added after the bias, or NULL; may be dst */
    float *dst; /* rows dst_stride floats apart; EXPERTS, HEADS: [T][n_used or planes] of them */
    uint32_t dst_stride;
} rf_gpu_product;

/* dst[t][r] = sum_k w[r][k] x[t][k] + bias[r] (+ add[t][r]) for up to three weights of one form.
 * With is_glu there are two, of one layout (rf_gpu_same_layout): part[0].dst = act(gate) * up, where
 * part[0] is the gate and part[1] the up matrix, whose dst is not used. */
typedef struct rf_gpu_matmul_args {
    rf_gpu_product part[RF_GPU_MAX_PRODUCTS];
    uint32_t n_parts;
    uint32_t n_rows; /* T */
    const float *x;  /* forms F32, F16, BF16; others: NULL, or rows that are not in xq yet */
    rf_gpu_quant xq; /* forms INT_32, INT_256: x in that view, or room for it */
    uint32_t mode;   /* rf_gpu_mm_mode */
    uint32_t is_glu, act;
    const float *route;     /* EXPERTS: [T][2 * n_used] weights, then numbers of the experts */
    uint32_t n_used;        /* EXPERTS */
    uint32_t x_per_used;    /* EXPERTS: x has a row per (t, i), not per t */
    const uint32_t *lists;  /* EXPERTS: the route's (rf_gpu_op_lists), or NULL */
    float *mixed;           /* EXPERTS, one part: [T][rows], what MIX makes of dst, which is room */
    const float *mixed_add; /* then, or NULL; mixed_add: what is added to the mix, or NULL */
    uint32_t
        n_blocks; /* chosen by rf_gpu_op_matmul: blocks that take tiles in turns; 0: one each */
    uint32_t tile_rows;   /* likewise: weight rows of a tile of float_one and half_... */
    uint32_t n_stages;    /* likewise: of the ring of half_... */
    rf_gpu_halves halves; /* likewise: the rows of x in 16 bits, in `ahead` */
    uint8_t *ahead;       /* room for what is made ahead (rf_gpu_ahead_bytes), or NULL */
    uint64_t ahead_bytes;
    uint8_t *kept;   /* what rf_gpu_op_keep made of the weights, or NULL */
    uint32_t *unfit; /* of rf_gpu_op_keep: not 0 where weights cannot be kept */
    /* Chosen by rf_gpu_op_matmul: digits, or what is kept, of tiles of weight rows, and which tiles these are. */
    uint8_t *digits;
    uint32_t ahead_first, ahead_tiles;
    /* What makes x or xq of a row each; n 0: nothing.  x, of floats, and what it is in integers may have
     * other readers. */
    rf_gpu_norm_args norm;
} rf_gpu_matmul_args;

/* The rows of each expert in order: units (lists.h), then item [T * n_used] with item = t * n_used + i. */
typedef struct rf_gpu_lists_args {
    const float *route; /* [T][2 * n_used] */
    uint32_t *lists;    /* scratch of rf_gpu_lists_bytes */
    uint32_t n_rows, n_used, n_experts;
} rf_gpu_lists_args;

/* Heads of queries, keys or values: norm, rotation and the way into the KV pool, each optional. */
typedef struct rf_gpu_heads {
    const float *x;       /* [T][n_heads][head_dim] */
    float *dst;           /* likewise, may be x; NULL: only the pool is written */
    void *pool;           /* [n_kv_blocks][n_heads][32][head_dim] of pool_type, or NULL */
    const float *w, *b;   /* of the norm, [head_dim] or NULL */
    const float *cos_sin; /* [positions][n_dims / 2][2]; NULL: no rotation */
    uint32_t n_heads, head_dim, n_dims, neox;
    uint32_t norm;      /* rf_gpu_norm_kind */
    uint32_t pool_type; /* rf_dtype */
    float eps;
} rf_gpu_heads;

/* Up to three of them (q, k, v) in one launch; serves ROPE and KV_PUT too. */
typedef struct rf_gpu_heads_args {
    rf_gpu_heads part[3];
    rf_gpu_batch batch; /* pos; with a pool also row_seq and table */
    uint32_t n_parts, n_rows;
} rf_gpu_heads_args;

typedef struct rf_gpu_attend_args {
    const float *q;       /* [T][n_heads][head_dim] */
    float *dst;           /* [T][n_heads][value_dim] */
    const float *sinks;   /* [n_heads] or NULL */
    uint32_t n_kv_blocks; /* of the pools */
    const void *k;        /* this layer's pool, [n_kv_blocks][n_kv_heads][32][head_dim] of k_type */
    const void *v; /* [n_kv_blocks][n_kv_heads][32][value_dim]; NULL: the keys' first columns */
    rf_gpu_batch batch;
    uint32_t n_rows, n_heads, n_kv_heads, head_dim, value_dim;
    uint32_t k_type, v_type;            /* rf_dtype */
    uint32_t pattern, window, n_global; /* rf_attn_pattern */
    float scale, softcap;               /* softcap 0: none */
    uint32_t max_kv_len;                /* no kv_len of the batch is longer */
    uint32_t first_seq, n_seqs;         /* whose rows these are, of the batch */
    uint32_t few_rows, few_seqs; /* rows of the first of them, which have few each, and how many */
    /* What makes q, where it has three parts, and puts keys and values first; n_parts 0: nothing. */
    rf_gpu_heads_args heads;
    uint32_t rows_alone; /* rf_batch_rows_alone of the batch */
    /* Room, or NULL: for segments that are made side by side, weighted values [n_rows][n_heads][n_splits][value_dim],
     * then maximum and sum [n_rows][n_heads][n_splits][2]; or for keys and values as F16 (kv_halves.hip). */
    float *parts;
    uint64_t parts_bytes;
    uint32_t step_blocks, n_splits; /* chosen by rf_gpu_op_attend; n_splits 1: not split */
    uint32_t n_walks;   /* attend_vec, _ints, _halves: blocks that take the segments in turns */
    uint32_t is_paired; /* attend_rows: all blocks run at once, long walks beside short */
    /* attend_halves_quant: dst in integers, too, of view 32 or 256.  q NULL: nobody wants them. */
    rf_gpu_quant ints;
    uint32_t ints_view;
} rf_gpu_attend_args;

/* dst[t] = sum over k of w[k] x[t - n_taps + 1 + k], + bias, along each sequence */
typedef struct rf_gpu_conv_args {
    float *dst;            /* [T][cols] */
    const float *x;        /* [T][cols] */
    const float *w, *bias; /* [cols][n_taps]; [cols] or NULL */
    float *state;          /* of each slot [n_taps - 1][cols], slots state_stride floats apart */
    rf_gpu_batch batch;    /* pos, seq_start, state */
    uint64_t state_stride;
    uint32_t n_rows, n_seqs, cols, n_taps;
    uint32_t n_stretches; /* chosen by rf_gpu_op_conv */
} rf_gpu_conv_args;

/* DELTA and SCAN. */
typedef struct rf_gpu_recur_args {
    float *dst;     /* [T][n_heads][value_dim] */
    const float *a; /* [T]: DELTA q, k [n_kv_heads][head_dim] each, then v [n_heads][value_dim];
                       SCAN x [n_heads][value_dim], then B, C [n_kv_heads][head_dim] each */
    const float *b; /* DELTA [T][2][n_heads]: beta, alpha; SCAN [T][n_heads] */
    const float *w, *bias; /* [n_heads] */
    float *state;          /* of each slot [n_heads][head_dim][value_dim], as for conv */
    float *ready;          /* scratch of rf_gpu_ready_bytes: DELTA q, k as they are multiplied, then
                              decay and beta [n_heads] each; SCAN decay and dt */
    rf_gpu_batch batch;    /* pos, seq_start, state */
    uint64_t state_stride;
    uint32_t n_rows, n_seqs, n_heads, n_kv_heads, head_dim, value_dim;
    uint32_t is_delta,
        in_turn; /* in_turn: heads take key heads in turn, else neighbours share one */
    float eps;   /* DELTA: over head_dim */
} rf_gpu_recur_args;

typedef enum rf_gpu_each_op {
    RF_GPU_ACT,     /* dst = act(a) */
    RF_GPU_GLU,     /* dst = act(a) * b */
    RF_GPU_SCALE,   /* dst = a * scale */
    RF_GPU_SOFTCAP, /* dst = scale * tanh(a / scale) */
    RF_GPU_ADD,     /* dst = a + b */
    RF_GPU_MUL,     /* dst = a * b, each of b's columns over repeat neighbouring columns of a */
} rf_gpu_each_op;

typedef struct rf_gpu_each_args {
    float *dst;         /* [n_rows][cols], may be a or b */
    const float *a, *b; /* [n_rows][cols]; b of MUL: [n_rows][cols / repeat] */
    uint32_t n_rows, cols, repeat;
    uint32_t op, act;
    float scale;
} rf_gpu_each_args;

/* dst[t] = row at[t] of the table as its format decodes it; at[t] = ~o: row chosen[o] */
typedef struct rf_gpu_embed_args {
    float *dst;             /* [n_rows][cols] */
    const int32_t *at;      /* [n_rows], or NULL: row 0 */
    const uint32_t *chosen; /* of the run before: rf_gpu_best_args.chosen, or NULL */
    rf_gpu_weight table;
    uint32_t n_rows, cols;
    uint32_t source; /* rf_embed_source: whose numbers at has */
} rf_gpu_embed_args;

/* dst[r][h][0..n) = src[rows ? rows[r] : r][h][0..n): SLICE (src is its first column), PICK, and each
 * half of CONCAT.  Strides in floats; src_head 0 repeats one head for all. */
typedef struct rf_gpu_copy_args {
    float *dst;
    const float *src;
    const uint32_t *rows; /* [n_rows] or NULL */
    uint32_t n_rows, n_heads, n;
    uint32_t dst_row, dst_head, src_row, src_head;
} rf_gpu_copy_args;

typedef struct rf_gpu_route_args {
    float *dst;               /* [T][2 * n_used]: weights, then numbers, best first */
    const float *scores;      /* [T][n_experts] */
    const float *select_bias; /* [n_experts] or NULL */
    uint32_t n_rows, n_experts, n_used, n_groups, n_groups_used;
    uint32_t kind, normalise; /* rf_router */
    float scale;
} rf_gpu_route_args;

/* A product with experts, and what makes its route; n_experts 0: the route is there. */
typedef struct rf_gpu_choose_args {
    rf_gpu_matmul_args matmul;
    rf_gpu_route_args route;
} rf_gpu_choose_args;

/* The best of rows of results (rf_best), by two kernels: the best number of every group of 64 columns,
 * then the groups that reach the 48th best of these.  Of a row with noise only first is told, by its noisy
 * numbers. */
typedef struct rf_gpu_best_args {
    rf_best *dst;     /* [n_rows] */
    uint32_t *first;  /* [n_rows] the same as in dst, in the host's memory */
    uint32_t *chosen; /* [n_rows] likewise, in the device's */
    float *most;    /* [3][n_rows][n_groups] scratch: of what is compared, of logits, their mass */
    const float *x; /* [n_rows][cols] */
    const rf_noise *noise; /* [n_rows], or NULL: no row has any */
    uint32_t n_rows, cols, n_groups;
    uint32_t first_only; /* 1: dst is left as it is */
} rf_gpu_best_args;

/* dst[t] = sum over i of route[t][i] * a[t][i] (+ add[t]) */
typedef struct rf_gpu_mix_args {
    float *dst;         /* [T][cols] */
    const float *a;     /* [T][n_used][cols] */
    const float *route; /* [T][2 * n_used] */
    const float *add;   /* [T][cols] or NULL; may be dst */
    uint32_t n_rows, n_used, cols;
} rf_gpu_mix_args;

#ifdef __cplusplus
}
#endif
