/* exec.h - a plan made ready for the CPU: a list of tasks, and the memory they work in.
 *
 * Private to the CPU backend.  fuse.c turns steps into tasks, memory.c gives every value a place and
 * allocates, run.c carries tasks out.  A task is what all threads do together between two barriers
 * (a few have one inside). */
#pragma once
#include <pthread.h>

#include "backend/backend.h"
#include "backend/cpu/kernels.h"
#include "backend/slots.h"
#include "base/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RF_CPU_MAX_PRODUCTS = 8,  /* matrix products that share one input */
    RF_CPU_MAX_CHAIN = 4,     /* element-wise steps behind a product */
    RF_CPU_EXPERT_PIECE = 64, /* most output columns of an expert in one piece */
};

struct rf_backend {
    rf_pool *pool;
    const rf_cpu_kernels *kernels;
    pthread_mutex_t lock; /* the pool does one job at a time */
    bool huge_pages;      /* rf_backend_opts */
};

typedef enum rf_cpu_task_kind {
    RF_CPU_ROWS,     /* steps of which each row needs nothing but itself: all of them, row by row */
    RF_CPU_PRODUCTS, /* [pick,] [norm,] quantise, matrix products, [element-wise steps] */
    RF_CPU_HEADS,    /* the same with a matrix per head */
    RF_CPU_EXPERTS,  /* [route,] quantise, products of the chosen experts, [element-wise steps] */
    RF_CPU_ATTEND,   /* [norms,] [ropes,] KV put and/or attention */
    RF_CPU_STATE,    /* each sequence by itself, row after row */
} rf_cpu_task_kind;

/* A norm, of the whole row or of each head. */
typedef struct rf_cpu_norm {
    rf_op op;           /* RMS_NORM, LAYER_NORM, or anything else: none */
    const float *w, *b; /* [head_dim] or NULL */
    uint32_t head_dim;
    float eps;
} rf_cpu_norm;

static inline bool rf_cpu_is_normed(const rf_cpu_norm *n) {
    return n->op == RF_OP_RMS_NORM || n->op == RF_OP_LAYER_NORM;
}

/* One step of a ROWS task, with its weights decoded. */
typedef struct rf_cpu_part {
    const rf_step *step;
    rf_cpu_norm norm;
    uint32_t rope_index;
} rf_cpu_part;

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
    rf_val v;            /* 0: values are the first value_dim columns of each key */
    const float *sinks;  /* [n_heads] or NULL */
    const rf_step *step; /* heads, scale, pattern */
} rf_cpu_attend;

/* An element-wise step done in place on a product's columns. */
typedef struct rf_cpu_element {
    const rf_step *step;
    rf_val other;     /* the second operand, or 0 */
    bool other_first; /* it is the step's a */
} rf_cpu_element;

typedef struct rf_cpu_product {
    const rf_tensor *w; /* [planes][rows][cols] */
    const float *bias;  /* [planes][rows] or NULL */
    rf_val dst;
    rf_cpu_element chain[RF_CPU_MAX_CHAIN];
    uint32_t n_chain;
    const struct rf_cpu_product *up; /* chain[0] is a GLU with this product, computed alongside */
    bool is_up;                      /* of another product */
} rf_cpu_product;

/* A step that keeps a state, with its weights decoded. */
typedef struct rf_cpu_state {
    const rf_step *step;
    const float *w;    /* CONV: [taps][columns]; DELTA, SCAN: [n_heads] */
    const float *bias; /* CONV: [columns] or NULL; DELTA, SCAN: [n_heads] */
} rf_cpu_state;

typedef struct rf_cpu_task {
    rf_cpu_task_kind kind;
    bool per_output; /* rows are the batch's outputs, else its tokens */
    rf_val a;        /* input of products, [T][n_inputs * cols] */
    /* ROWS: x->parts[first_part .. first_part + n_parts) */
    uint32_t first_part, n_parts;
    /* PRODUCTS, HEADS, EXPERTS */
    rf_cpu_product product[RF_CPU_MAX_PRODUCTS];
    uint32_t n_products, cols, n_inputs;
    unsigned views;   /* bit v: some weight has rf_int_view v */
    bool with_totals; /* some in groups of 32 has minima */
    bool picked;      /* input row o is row out_row[o] of a */
    rf_cpu_norm norm;
    rf_val norm_dst; /* where the norm is also kept for other readers, or 0 */
    /* EXPERTS */
    const rf_router *router;
    rf_val route;  /* [T][2 * n_used] */
    rf_val scores; /* route is made here of these [T][n_experts], or 0: it is there */
    rf_cpu_attend at;
    rf_cpu_state state;
} rf_cpu_task;

/* Room for prepared activations, one form per view; unused forms are NULL. */
typedef struct rf_cpu_acts {
    float *x;           /* [rows][cols] */
    int8_t *q[2];       /* [rows][cols]: groups of 32, groups of 256 */
    float *d[2];        /* [rows][cols / 32], [rows][cols / 256] */
    int32_t *sum[2];    /* [rows][cols / 32], [rows][cols / 16] */
    float *total;       /* [rows][cols / 32] of the groups of 32 */
    uint8_t *blocks[3]; /* what the kernels' lay_out makes of them, by view */
} rf_cpu_acts;

typedef struct rf_cpu_thread {
    void *mm;           /* the matmul kernel's scratch */
    void *attend;       /* attention's */
    float *query;       /* [query_cols] heads that this thread alone prepares */
    float *row;         /* [max_cols] */
    rf_cpu_acts acts;   /* a single row */
    rf_cpu_acts gather; /* [rows]: the rows that chose one expert */
    float *out;         /* [2][rows][RF_CPU_EXPERT_PIECE]: what it makes of them */
    float *route;       /* [2 * n_used] */
    uint32_t *slot;     /* [rows * n_used] row * n_used + i, ordered by expert */
    uint32_t *first;    /* [n_experts + 1] where an expert's slots start */
    uint32_t *active;   /* [n_experts] those that were chosen by some row */
} rf_cpu_thread;

enum { RF_CPU_CUT = 4 }; /* pieces of a thread that attention is cut into */

typedef struct rf_cpu_counter { /* a cache line; rf_alloc aligns the array */
    uint32_t next;              /* touched with __atomic builtins only */
    uint8_t unused[60];
} rf_cpu_counter;

/* Where a layer's keys and values lie in the pools, in bytes; a block has 0 where there are none. */
typedef struct rf_cpu_kv {
    size_t k_at, v_at, k_block, v_block;
} rf_cpu_kv;

typedef struct rf_cpu_mover rf_cpu_mover;

struct rf_exec {
    rf_backend *backend;
    const rf_cpu_kernels *kernels;
    const rf_plan *plan;
    rf_limits limits;
    rf_arena *arena; /* tasks, decoded vectors, small tables */
    size_t heap_bytes;

    rf_cpu_task *tasks; /* [n_tasks] */
    rf_cpu_part *parts; /* [n_parts] of all ROWS tasks */
    uint32_t n_tasks, n_parts;
    const rf_rope **ropes; /* [n_ropes] distinct ones */
    uint32_t n_ropes;
    uint32_t max_cols;       /* widest input of a product or norm */
    uint32_t view_cols[3];   /* widest row of inputs per rf_int_view, 0 where there is none */
    uint32_t gather_cols[3]; /* widest input of experts likewise */
    uint32_t max_experts, max_used;
    size_t attend_bytes; /* of scratch, 0: no attention */
    uint32_t query_cols; /* most that query heads of one KV head have */
    uint32_t sums_cols;  /* most that all heads' sums of a segment have */
    bool stored_input;   /* some float product reads a norm, a picked row or heads */

    rf_val *root;  /* [n_vals] the value whose memory a value shares; itself mostly, 0: no memory */
    float **val;   /* [n_vals] row 0, NULL where a value has no memory */
    float *memory; /* all values */
    uint8_t *act_memory, *thread_memory; /* what acts and thread point into */

    uint8_t *k,
        *v; /* KV: [layer][block][kv_head][32][head_dim or value_dim] of limits.k_type, v_type */
    size_t k_bytes, v_bytes;
    rf_slots states;
    rf_need *need;       /* to be filled instead of taking memory; NULL: memory is taken */
    rf_cpu_kv *kv;       /* [n_layers] */
    float *angles;       /* [n_ropes][max_tokens][angle_cols]: cos, sin, cos, sin ... */
    uint32_t angle_cols; /* largest n_dims */
    uint32_t *row_seq;   /* [max_tokens] sequence of a row */
    uint32_t *group; /* [n_groups + 1] first rows of groups: a sequence's rows in one KV block */
    uint32_t n_groups;
    uint64_t *written; /* [n_kv_blocks] number of the last run of single rows that wrote a block */
    uint64_t n_runs;
    rf_cpu_acts acts;        /* shared, of several rows */
    rf_cpu_thread *thread;   /* [n_threads] */
    rf_cpu_counter *counter; /* [n_tasks + 1][2] */
    rf_cpu_counter *taken; /* [2][n_threads] pieces taken of each thread's share, tasks in turns */
    float *sums;           /* [max_segments][sums_cols] of attention cut by segments */
    uint32_t max_segments;
    rf_cpu_counter *
        finished; /* [RF_CPU_CUT * n_threads] pieces done of what a last one completes; 0 between them */
    int n_threads;
    rf_cpu_mover *mover; /* or NULL */

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

static inline bool rf_cpu_multiplies(const rf_step *s) {
    return s->op == RF_OP_MATMUL || s->op == RF_OP_HEAD_MATMUL || s->op == RF_OP_EXPERTS;
}

/* The first of a matrix's rows that threads of node number i multiply before others do; of the node
 * behind the last: all. */
static inline uint32_t rf_cpu_node_row(const rf_spread *s, int i, uint32_t rows) {
    if (i == s->n) return rows;
    return (uint32_t)((uint64_t)rows * (uint32_t)s->first[i] / (uint32_t)s->first[s->n]) / 16 * 16;
}

/* Has the plan's matrices read from their file, each node's rows into its own memory. */
void rf_cpu_place(rf_backend *b, const rf_plan *p);
/* Begins to move them into huge pages beside the runs, where the backend's options ask for it and it pays; and waits
 * until that is done, or ends it. */
void rf_cpu_start_moving(rf_exec *x);
void rf_cpu_end_moving(rf_exec *x, bool at_once);

/* What one thread knows while it runs. */
typedef struct rf_cpu_runner {
    rf_exec *x;
    const rf_batch *b;
    const rf_cpu_kernels *k;
    rf_cpu_thread *own;
    int ith;
    const rf_spread *spread; /* of threads over nodes */
    int node;                /* this thread's */
    const rf_cpu_task *t;
    rf_cpu_counter *counter; /* [2] of this task */
    rf_cpu_counter *taken;   /* [n_threads] of this task */
} rf_cpu_runner;

/* A task's share; one function per kind. */
void rf_cpu_run_products(const rf_cpu_runner *r);
void rf_cpu_run_attend(const rf_cpu_runner *r);
void rf_cpu_run_state(const rf_cpu_runner *r);

/* The experts that a router picks for one row of scores; dst: [2 * n_used]. */
void rf_cpu_route(const rf_router *r, const float *scores, float *dst);

static inline size_t rf_cpu_n_counters(const rf_exec *x) {
    return 2 * ((size_t)x->n_tasks + 1 + (size_t)x->n_threads) + RF_CPU_CUT * (size_t)x->n_threads;
}

/* The next of n pieces of work, or false when all are taken. */
static inline bool rf_cpu_next_piece(rf_cpu_counter *c, uint32_t n, uint32_t *i) {
    if (__atomic_load_n(&c->next, __ATOMIC_RELAXED) >= n) return false;
    *i = __atomic_fetch_add(&c->next, 1, __ATOMIC_RELAXED);
    return *i < n;
}

/* Counts one more of n pieces that different threads do: whether it was the last one, who sees what all have written. */
static inline bool rf_cpu_is_last(rf_cpu_counter *c, uint32_t n) {
    if (__atomic_add_fetch(&c->next, 1, __ATOMIC_ACQ_REL) < n) return false;
    __atomic_store_n(&c->next, 0, __ATOMIC_RELAXED);
    return true;
}

static inline uint32_t rf_cpu_rows_of(const rf_exec *x, const rf_cpu_task *t) {
    return t->per_output ? x->n_outputs : x->n_tokens;
}

static inline float *rf_cpu_row_of(const rf_exec *x, rf_val v, uint32_t row) {
    return x->val[v] + (size_t)row * x->plan->vals[v].cols;
}

/* Cosines and sines of rope number rope at a row's position. */
static inline const float *rf_cpu_angles_of(const rf_exec *x, uint32_t rope, uint32_t row) {
    return x->angles + ((size_t)rope * x->limits.max_tokens + row) * x->angle_cols;
}

/* One norm of n elements. */
static inline void rf_cpu_norm_row(const rf_cpu_kernels *k, const rf_cpu_norm *norm, float *dst,
                                   const float *x, size_t n) {
    if (norm->op == RF_OP_LAYER_NORM)
        k->layer_norm(dst, x, norm->w, norm->b, n, norm->eps);
    else
        k->rms_norm(dst, x, norm->w, n, norm->eps);
}

/* An element-wise step on n columns from column first on: dst and a point at that column, b as well
 * unless each of its columns serves repeat > 1 columns of a: then at its column 0. */
void rf_cpu_apply(const rf_cpu_kernels *k, const rf_step *s, float *dst, const float *a,
                  const float *b, uint32_t repeat, uint32_t first, uint32_t n);

#ifdef __cplusplus
}
#endif
