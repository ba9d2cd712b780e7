/* exec.h - a plan made ready for a GPU: a list of tasks, each one call of launch.h, and the memory
 * they work in.
 *
 * Private to the GPU backend.  lower.c turns steps into tasks, memory.c gives every item a place on
 * the device, weights.c keeps the weights there, run.c queues the tasks for a batch.  A task names
 * the values it touches by slots: a field of its arguments and the item whose address belongs there.
 * That is all that placing and running need to know about a task. */
#pragma once
#include <pthread.h>

#include "backend/backend.h"
#include "backend/gpu/args.h"
#include "backend/gpu/driver.h"
#include "backend/gpu/weights.h"
#include "base/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RF_GPU_MAX_SLOTS = 16,
    RF_GPU_MAX_USES = 8,
    RF_GPU_MAX_GRAPHS = 32,
    RF_GPU_MAX_FLIGHTS = 2,   /* runs that are queued and not waited for */
    RF_GPU_GRAPH_ROWS = 64,   /* batches of up to so many rows are recorded as graphs, */
    RF_GPU_GRAPH_ALONE = 256, /* or so many of an answer each: their number seldom changes */
};

struct rf_backend {
    rf_gpu_queue queue;
    rf_gpu_store weights;
    rf_pool *pool;          /* packs weights, decodes embeddings */
    pthread_mutex_t lock;   /* one call at a time uses the queue and the pool */
    rf_exec *execs;         /* list */
    uint32_t spare_percent; /* rf_backend_opts */
};

typedef enum rf_gpu_task_kind {
    RF_GPU_TASK_NORM,
    RF_GPU_TASK_QUANT,
    RF_GPU_TASK_MATMUL,
    RF_GPU_TASK_HEADS,
    RF_GPU_TASK_ATTEND,
    RF_GPU_TASK_CONV,
    RF_GPU_TASK_RECUR,
    RF_GPU_TASK_EACH,
    RF_GPU_TASK_EMBED,
    RF_GPU_TASK_COPY,
    RF_GPU_TASK_ROUTE,
    RF_GPU_TASK_LISTS,
    RF_GPU_TASK_MIX,
} rf_gpu_task_kind;

typedef union rf_gpu_args {
    rf_gpu_norm_args norm;
    rf_gpu_quant_args quant;
    rf_gpu_matmul_args matmul;
    rf_gpu_choose_args choose; /* begins with the product's */
    rf_gpu_heads_args heads;
    rf_gpu_attend_args attend;
    rf_gpu_conv_args conv;
    rf_gpu_recur_args recur;
    rf_gpu_each_args each;
    rf_gpu_embed_args embed;
    rf_gpu_copy_args copy;
    rf_gpu_route_args route;
    rf_gpu_lists_args lists;
    rf_gpu_mix_args mix;
} rf_gpu_args;

/* Whatever has an address.  Plan value v is item v; behind the values come their rows in integers
 * (two views each), keys and values of the layers, tables of angles and scratch. */
typedef uint32_t rf_gpu_item;
static inline rf_gpu_item rf_gpu_quant_item(const rf_plan *p, rf_val v, rf_int_view view) {
    return p->n_vals + 2 * v + (view == RF_INT_256);
}
static inline rf_gpu_item rf_gpu_kv_item(const rf_plan *p, uint32_t layer, bool is_value) {
    return 3 * p->n_vals + 2 * layer + is_value;
}
static inline rf_gpu_item rf_gpu_rope_item(const rf_plan *p, uint32_t i) {
    return 3 * p->n_vals + 2 * p->model->n_layers + i;
}
static inline rf_gpu_item rf_gpu_lists_item(const rf_plan *p) {
    return rf_gpu_rope_item(p, p->n_steps);
}
static inline rf_gpu_item rf_gpu_room_item(const rf_plan *p) { return rf_gpu_lists_item(p) + 1; }
static inline rf_gpu_item rf_gpu_ready_item(const rf_plan *p) { return rf_gpu_lists_item(p) + 2; }
static inline rf_gpu_item rf_gpu_state_item(const rf_plan *p) { return rf_gpu_lists_item(p) + 3; }

typedef struct rf_gpu_slot {
    rf_gpu_item item;
    uint32_t at;   /* bytes into the arguments: a pointer, or an rf_gpu_quant */
    size_t column; /* of the item that the pointer begins at */
} rf_gpu_slot;

/* A weight's place in the arguments: an rf_gpu_weight, or a pointer to a vector. */
typedef struct rf_gpu_use {
    uint32_t number, at;
} rf_gpu_use;

typedef struct rf_gpu_task {
    rf_gpu_task_kind kind;
    bool per_output;        /* rows are the batch's outputs, else its tokens */
    bool picks;             /* COPY: source rows are out_row */
    bool takes_along;       /* MATMUL: may do what a task before it is there for, too, */
    uint32_t behind;        /* which has here one more than its number; 0: none may */
    uint32_t attention;     /* MATMUL: likewise, which may bring its rows in integers */
    uint32_t items_per_row; /* NORM: heads */
    bool keeps;             /* MATMUL: what is made of its weights, from there on in the exec's, */
    size_t kept_at;
    rf_gpu_args args; /* all but rows, batch and addresses of items */
    rf_gpu_slot slot[RF_GPU_MAX_SLOTS];
    uint32_t n_slots;
    rf_gpu_use use[RF_GPU_MAX_USES];
    uint32_t n_uses;
} rf_gpu_task;

typedef struct rf_gpu_place {
    uint32_t first, last;  /* tasks */
    bool used, is_input;   /* is_input: comes with the batch, lies in the input block */
    size_t at;             /* bytes from x->memory; input: bytes per row from its start */
    rf_gpu_item picked_of; /* whose rows these are where every row is an output; 0: none */
} rf_gpu_place;

/* Rows that come with the batch: what earlier layers made, or, where the kernel that reads tables of
 * embeddings is wrong, the host's own reading. */
typedef struct rf_gpu_embed {
    const rf_step *step;
    const rf_tensor *table; /* NULL: the batch brings the rows */
    size_t at;              /* bytes per row from the start of the batch's rows */
} rf_gpu_embed;

/* Where a layer's keys and values lie, in bytes; a block has 0 where there are none. */
typedef struct rf_gpu_kv {
    size_t k_at, v_at, k_block, v_block;
} rf_gpu_kv;

typedef struct rf_gpu_rope {
    const rf_rope *rope;
    size_t at; /* from x->memory: [x->n_positions][n_dims / 2][2] f32, cos and sin */
} rf_gpu_rope;

/* What a batch looks like to the kernels: with the same shape a recorded graph is right again. */
typedef struct rf_gpu_shape {
    uint32_t n_tokens, n_seqs, n_outputs, table_stride, mask_stride, max_kv_len;
    rf_by_best by_best;          /* what else than the rows of the result is told of each */
    uint32_t draws;              /* 1: some rows have noise */
    uint32_t rows_alone;         /* 1: rf_batch_rows_alone */
    uint32_t few_rows, few_seqs; /* of the first sequences, as rf_gpu_attend_args has them */
    uint32_t flight;             /* whose staging block the batch comes from */
} rf_gpu_shape;

typedef struct rf_gpu_kernels {
    bool launched[RF_GPU_KERNEL_COUNT];
} rf_gpu_kernels;

typedef struct rf_gpu_recording {
    rf_gpu_shape shape;
    rf_gpu_graph_exec graph; /* NULL: seen once, not recorded yet */
    uint64_t last_run;       /* 0: empty */
} rf_gpu_recording;

/* A batch's arrays and embeddings, side by side in one block that is uploaded at once. */
typedef struct rf_gpu_input {
    size_t token_at, pos_at, row_seq_at, out_row_at, noise_at, kv_len_at, prefix_at, seq_start_at,
        state_at, table_at, mask_at, embed_at, bytes;
} rf_gpu_input;

/* What host and device tell each other of a run that is queued: the next one is queued behind it while it
 * still computes. */
typedef struct rf_gpu_flight {
    uint8_t *staging; /* [input_cap] pinned */
    uint32_t *first;  /* [max_outputs] pinned, written by the device; NULL where n_groups is 0 */
    rf_by_best *told; /* [max_outputs] RF_BY_ROW: the result's row is here */
    uint32_t n_outputs;
} rf_gpu_flight;

struct rf_exec {
    rf_exec *next; /* of the backend */
    rf_backend *backend;
    const rf_plan *plan;
    rf_limits limits;
    rf_arena *arena;    /* the exec itself, tasks, small tables */
    rf_gpu_task *tasks; /* [n_tasks] */
    uint32_t n_tasks;
    rf_gpu_kernels *by_task; /* [n_tasks] in the latest run; NULL: nobody asked */
    rf_gpu_embed *embeds;    /* [n_embeds] */
    uint32_t n_embeds;
    size_t embed_bytes;   /* of a row of all embeds, each a multiple of 64 */
    rf_gpu_place *places; /* [3 * n_vals] values, and their rows in integers */
    rf_gpu_kv *kv;        /* [n_layers] */
    rf_gpu_rope *ropes;   /* [n_ropes] */
    uint32_t n_ropes, n_positions;
    bool has_mask;
    rf_gpu_weights weights; /* what the store holds for this exec */

    uint8_t *memory; /* one block on the device, of the parts that follow */
    size_t value_bytes, device_bytes, host_bytes, kv_at, kv_bytes, input_at, input_cap, lists_at,
        lists_bytes;
    bool fast_floats;             /* without a backend: one would be opened with them */
    size_t room_at, room_bytes;   /* scratch of attention and of products, in turn */
    size_t ready_at, ready_bytes; /* of heads that keep a matrix */
    size_t state_at, state_bytes; /* [n_states][plan->state_floats] f32 */
    uint8_t *kept;                /* what keep.c makes, by itself on the device, or NULL */
    size_t kept_bytes;
    float *result;           /* [max_outputs][n_result] pinned */
    size_t best_at, most_at; /* [max_outputs] rf_best, [3][max_outputs][n_groups] f32 */
    size_t chosen_at;        /* [max_outputs] u32: first of the latest run */
    uint32_t n_groups;       /* of a row of the result; 0: its best is not told */
    rf_best *best;           /* [max_outputs] pinned; NULL where n_groups is 0 */
    rf_gpu_flight flight[RF_GPU_MAX_FLIGHTS];
    uint32_t n_flying, latest, seen; /* latest, seen: the flights queued and waited for last */

    rf_gpu_recording recording[RF_GPU_MAX_GRAPHS];
    bool graphs_off; /* this driver cannot record, or the plan keeps its values */
    uint64_t n_runs;
    uint64_t *written;  /* [n_kv_blocks] number of the last run of single rows that wrote a block */
    rf_gpu_shape shape; /* of the run queued last */
    rf_gpu_input input;
    bool ran, waited;
};

/* A backend that heeds no verdict of the self-test. */
RF_CHECKED rf_status rf_gpu_open_unjudged(rf_backend **out, const rf_backend_opts *o, rf_error *e);
/* Turns the plan's steps into tasks; weights are named to x->weights, not loaded. */
RF_CHECKED rf_status rf_gpu_lower(rf_exec *x, rf_error *e);
/* Gives items and everything else a run needs their places, and counts: no device takes part. */
RF_CHECKED rf_status rf_gpu_place_all(rf_exec *x, rf_error *e);
/* Compares what the exec and its weights need with what is free. */
RF_CHECKED rf_status rf_gpu_check_fits(rf_exec *x, rf_error *e);
/* Takes the memory, with an empty KV cache. */
RF_CHECKED rf_status rf_gpu_take(rf_exec *x, rf_error *e);
void rf_gpu_release(rf_exec *x); /* gives it back; the places stay */
/* The loaded weights' addresses into the tasks' arguments. */
void rf_gpu_link_weights(rf_exec *x);
/* With the weights linked: makes of them what stays (keep.c), as far as the backend spares memory. */
RF_CHECKED rf_status rf_gpu_keep(rf_exec *x, rf_error *e);
/* After a fault: opens the device anew, loads the weights and takes the memory of every exec again.
 * On failure the queue keeps the error.  *fault: what had failed. */
RF_CHECKED rf_status rf_gpu_revive(rf_backend *b, rf_error *fault);
/* The addresses of the items that a task names into its arguments, for the batch of x->shape. */
void rf_gpu_fill_slots(const rf_exec *x, const rf_gpu_task *t, rf_gpu_args *a);
/* Where a batch of this shape puts its arrays. */
rf_gpu_input rf_gpu_input_of(const rf_exec *x, const rf_gpu_shape *s);
/* Queues one forward pass over a checked batch, and the download of its result, as the latest flight. */
void rf_gpu_forward(rf_exec *x, const rf_batch *b);
/* Waits for what the batch of a flight wants of the result. */
void rf_gpu_await_result(rf_exec *x, const rf_gpu_flight *f);
/* May the outputs of a run be told by their first alone, and these be the next run's tokens? */
bool rf_gpu_may_follow(const rf_exec *x);
/* Queues the download of n rows of a flight's result from output `first` on. */
void rf_gpu_fetch_rows(rf_exec *x, rf_gpu_flight *f, uint32_t first, uint32_t n);
/* Is every row of this batch an output?  Picked rows are then all rows, in order. */
static inline bool rf_gpu_picks_all(const rf_exec *x) {
    return x->shape.n_outputs == x->shape.n_tokens;
}
/* The address of an item's row 0 for the batch of x->shape. */
uint8_t *rf_gpu_address(const rf_exec *x, rf_gpu_item item);
rf_gpu_quant rf_gpu_quant_at(const rf_exec *x, rf_gpu_item item); /* of an item of integers */

static inline size_t rf_gpu_align(size_t n) { return (n + 255) & ~(size_t)255; }

#ifdef __cplusplus
}
#endif
