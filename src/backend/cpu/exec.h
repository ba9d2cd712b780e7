/* exec.h - a plan made ready for the CPU: a list of tasks, and the memory they work in.
 *
 * Private to the CPU backend.  fuse.c turns steps into tasks, memory.c gives every value a place and
 * allocates, run.c carries tasks out.  A task is what all threads do together between two barriers
 * (a few have one inside). */
#pragma once
#include <pthread.h>

#include "backend/backend.h"
#include "backend/cpu/kernels.h"
#include "base/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RF_CPU_MAX_PRODUCTS = 4, /* matrix products that share one input */
    RF_CPU_SOLO_ROWS = 4,    /* up to so many rows each thread prepares its input by itself */
};

struct rf_backend {
    rf_pool *pool;
    const rf_cpu_kernels *kernels;
    pthread_mutex_t lock; /* the pool does one job at a time */
};

typedef enum rf_cpu_task_kind {
    RF_CPU_EMBED,
    RF_CPU_PRODUCTS, /* [pick,] [norm,] quantise, matrix products, [silu-mul or add] */
    RF_CPU_ATTEND,   /* [norms,] [ropes,] KV put and/or attention */
    RF_CPU_NORM,
    RF_CPU_ROPE,
    RF_CPU_SILU_MUL,
    RF_CPU_ADD,
    RF_CPU_PICK,
} rf_cpu_task_kind;

/* An RMS norm, of the whole row or of each head. */
typedef struct rf_cpu_norm {
    const float *w; /* [head_dim]; NULL: no norm */
    uint32_t head_dim;
    float eps;
} rf_cpu_norm;

/* What happens to a query or key head before attention, in place. */
typedef struct rf_cpu_heads {
    rf_val val; /* [T][heads * head_dim] */
    rf_cpu_norm norm;
    const rf_rope *rope; /* NULL: none */
    uint32_t rope_index; /* of its table of angles */
} rf_cpu_heads;

typedef struct rf_cpu_attend {
    bool put, attend;
    rf_cpu_heads q, k;
    rf_val v;
    uint32_t layer, n_heads, n_kv_heads, head_dim;
    float scale;
    rf_attn_pattern pattern;
} rf_cpu_attend;

typedef struct rf_cpu_product {
    const rf_tensor *w; /* [rows][cols] */
    const float *bias;  /* [rows] or NULL */
    rf_val dst;
} rf_cpu_product;

typedef struct rf_cpu_task {
    rf_cpu_task_kind kind;
    bool per_output; /* rows are the batch's outputs, else its tokens */
    bool picked;     /* PRODUCTS: input row o is row out_row[o] of a */
    rf_val dst, a, b;
    const rf_tensor *table; /* EMBED */
    rf_cpu_norm norm;       /* NORM, PRODUCTS */
    rf_cpu_heads rope;      /* ROPE: only rope and rope_index */
    uint32_t head_dim;      /* ROPE */
    /* PRODUCTS */
    rf_cpu_product product[RF_CPU_MAX_PRODUCTS];
    uint32_t n_products, cols;
    unsigned views; /* bit v: some weight has rf_int_view v */
    bool silu;      /* product[0].dst = silu(product[0]) * product[1] */
    rf_val add;     /* product[0].dst = add + product[0], or 0 */
    rf_cpu_attend at;
} rf_cpu_task;

/* Room for prepared activations, one form per view; unused forms are NULL. */
typedef struct rf_cpu_acts {
    float *x;        /* [rows][cols] */
    int8_t *q[2];    /* [rows][cols]: groups of 32, groups of 256 */
    float *d[2];     /* [rows][cols / 32], [rows][cols / 256] */
    int32_t *sum[2]; /* [rows][cols / 32], [rows][cols / 16] */
} rf_cpu_acts;

typedef struct rf_cpu_thread {
    void *mm;         /* the matmul kernel's scratch */
    float *row;       /* [max_cols] */
    rf_cpu_acts acts; /* [RF_CPU_SOLO_ROWS] rows */
} rf_cpu_thread;

typedef struct rf_cpu_counter { /* a cache line; rf_alloc aligns the array */
    uint32_t next;              /* touched with __atomic builtins only */
    uint8_t unused[60];
} rf_cpu_counter;

struct rf_exec {
    rf_backend *backend;
    const rf_cpu_kernels *kernels;
    const rf_plan *plan;
    rf_limits limits;
    rf_arena *arena; /* tasks, decoded vectors, small tables */
    size_t heap_bytes;

    rf_cpu_task *tasks; /* [n_tasks] */
    uint32_t n_tasks;
    const rf_rope **ropes; /* [n_ropes] distinct ones */
    uint32_t n_ropes;
    uint32_t max_cols;     /* widest input of a product or norm */
    uint32_t view_cols[3]; /* widest input per rf_int_view, 0 where there is none */
    bool stored_norm;      /* some float product reads a norm or a picked row */

    rf_val *root;  /* [n_vals] the value whose memory a value shares; itself mostly, 0: no memory */
    float **val;   /* [n_vals] row 0, NULL where a value has no memory */
    float *memory; /* all values */
    uint8_t *act_memory, *thread_memory; /* what acts and thread point into */

    uint8_t *k, *v;      /* KV: [layer][block][kv_head][32][head_dim] of limits.kv_type */
    size_t *kv_layer;    /* [n_layers] offset of a layer in k and v, bytes */
    size_t *kv_block;    /* [n_layers] bytes of one block, 0 where the layer has no KV */
    float *angles;       /* [n_ropes][max_tokens][angle_cols]: cos, sin, cos, sin ... */
    uint32_t angle_cols; /* largest n_dims */
    uint32_t *row_seq;   /* [max_tokens] sequence of a row */
    uint64_t *written; /* [n_kv_blocks] number of the last run of single rows that wrote a block */
    uint64_t n_runs;
    rf_cpu_acts acts;        /* shared, for more rows than RF_CPU_SOLO_ROWS */
    rf_cpu_thread *thread;   /* [n_threads] */
    rf_cpu_counter *counter; /* [n_tasks + 1][2] */
    int n_threads;

    const rf_batch *batch;        /* of the run in progress */
    bool rows_alone;              /* no row reads keys that another row of this run writes */
    uint32_t n_tokens, n_outputs; /* of the last run */
    bool ran;
};

/* Turns the plan's steps into tasks; on failure the arena is the caller's to free. */
RF_CHECKED rf_status rf_cpu_fuse(rf_exec *x, rf_error *e);
/* Places values and allocates everything a run needs. */
RF_CHECKED rf_status rf_cpu_allocate(rf_exec *x, rf_error *e);
void rf_cpu_release(rf_exec *x); /* what rf_cpu_allocate took */
/* One thread's share of a run: an rf_pool_fn over the exec. */
void rf_cpu_run_thread(void *exec, int ith, int n_threads);

#ifdef __cplusplus
}
#endif
