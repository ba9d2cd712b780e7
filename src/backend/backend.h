/* backend.h - the whole seam between engine and hardware.
 *
 * A backend is a device; an exec is one plan made ready for it: kernels chosen, activations and the KV
 * pool allocated.  One thread uses an exec at a time.  run() queues, wait() gives the result. */
#pragma once
#include "backend/best.h"
#include "base/os.h"
#include "base/pool.h"
#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RF_KV_BLOCK = 32,  /* tokens per KV block */
    RF_KV_SEGMENT = 8, /* KV blocks that attention adds up by themselves */
    RF_MAX_DEVICES = 16,
};

/* One engine step: token rows of many sequences, back to back, in order of position. */
typedef struct rf_batch {
    uint32_t n_tokens, n_seqs, n_outputs, table_stride;
    const int32_t *token; /* [n_tokens] ids below n_vocab; or ~o, where the batch follows */
    bool
        follows; /* It is run before the run in front is waited for, whose outputs are all wanted by their
                     first: token ~o is what output o of that run chooses. */
    const uint32_t *pos;       /* [n_tokens] position within its sequence */
    const uint32_t *seq_start; /* [n_seqs + 1] first row of each sequence */
    const uint32_t *kv_len;    /* [n_seqs] tokens of the sequence in the KV cache after this step */
    const uint32_t *table;     /* [n_seqs][table_stride] KV block ids: position p lies in block
                                 table[p / RF_KV_BLOCK] at row p % RF_KV_BLOCK */
    const uint32_t *out_row;   /* [n_outputs] rows whose result is wanted, ascending */
    const float *mask; /* RF_ATTN_CUSTOM: [n_tokens][mask_stride], column j = key position j */
    uint32_t mask_stride;
    const rf_by_best
        *by_best;          /* [n_outputs] what of the result's row is wanted; NULL: all of all */
    const rf_noise *noise; /* [n_outputs] of rows wanted by their first; NULL: none */
    const uint32_t
        *n_prefix;         /* RF_ATTN_PREFIX: [n_seqs] keys that every row of the sequence sees, all
                                 in the KV cache after this step; NULL: none */
    const uint32_t *state; /* [n_seqs] slot of each sequence's state, all different: read, unless
                              the first row is at position 0, and left as of the last row; NULL:
                              the plan keeps none */
    const float *rows;     /* plans for later layers: [n_tokens][n_embd], what those before made */
} rf_batch;

typedef struct rf_limits {
    uint32_t max_tokens; /* rows of a batch */
    uint32_t max_seqs;
    uint32_t max_outputs;
    uint32_t n_kv_blocks;
    rf_dtype k_type, v_type; /* of the KV cache: F32, F16, BF16, Q8_0 or Q4_0 */
    uint32_t n_states;       /* slots of state, for plans that keep one */
} rf_limits;

typedef struct rf_backend_opts {
    int n_threads;         /* 0: one per core */
    int device;            /* GPUs */
    const rf_nodes *nodes; /* whose memory is near to which processors; NULL: this machine's */
    /* A split (split.h): its GPUs in the order of their layers (none: device), how many layers they have
     * together (0: as many as fit), and whether no layer may be on the CPU. */
    int devices[RF_MAX_DEVICES];
    uint32_t n_devices, gpu_layers;
    bool gpu_only;
    /* Matrices and KV caches of 16-bit floats may go to a GPU's matrix units, whose sums are its own: then a sequence's
     * results are the same in any batch, but not those of other devices. */
    bool fast_floats;
    /* GPUs: of the memory that is free when all else is there, so much may make prompts faster. */
    uint32_t spare_percent;
    /* The CPU: weights that their file holds in small pages are copied into huge ones, where memory has room, while
     * the first steps run, and the KV cache grows in huge ones from then on. */
    bool huge_pages;
} rf_backend_opts;

/* What an exec takes, in bytes. */
typedef struct rf_need {
    uint64_t weights; /* as they lie on the device; CPU: mapped from the file */
    uint64_t kv;      /* the KV cache */
    uint64_t values;  /* activations */
    uint64_t other;   /* tables and scratch */
    uint64_t host;    /* GPUs: of the CPU's memory, beside the device's */
} rf_need;

enum { RF_USUAL_BATCH = 256 };
typedef struct rf_backend rf_backend; /* opaque, one per backend kind */
typedef struct rf_exec rf_exec;
typedef struct rf_backend_ops {
    const char *name; /* "ref", "cpu", "gpu", "split" */
    rf_status (*open)(rf_backend **out, const rf_backend_opts *o, rf_error *e);
    void (*close)(rf_backend *b);
    void (*describe)(const rf_backend *b, char *out, size_t cap); /* "cpu avx2, 2 threads" */
    /* Threads that are idle between wait and run, for whoever uses the backend then.  NULL: none. */
    rf_pool *(*idle_pool)(const rf_backend *b);
    /* Rows of a step from which on a row costs no less.  NULL: RF_USUAL_BATCH. */
    uint32_t (*usual_batch)(const rf_backend *b);
    rf_status (*compile)(rf_exec **out, rf_backend *b, const rf_plan *p, const rf_limits *l,
                         rf_error *e);
    /* What compile would take for weights that no other exec has, without taking it; needs no device.
     * NULL: not known. */
    rf_status (*measure)(rf_need *out, const rf_plan *p, const rf_limits *l,
                         const rf_backend_opts *o, rf_error *e);
    void (*settle)(rf_exec *x); /* waits for what compile left to a thread; NULL: nothing */
    void (*exec_free)(rf_exec *x);
    size_t (*exec_bytes)(const rf_exec *x);  /* memory taken: activations, KV, scratch */
    size_t (*spare_bytes)(const rf_exec *x); /* of these, taken of memory to spare; NULL: none */
    bool runs_ahead;                         /* run returns while the device still computes */
    bool (*may_follow)(const rf_exec *x);    /* batches that follow a run; NULL: never */
    /* Checks the batch against plan and limits (ids, positions, blocks: RF_EARG names the row).  One that
     * does not follow ends the runs that nobody waited for. */
    rf_status (*run)(rf_exec *x, const rf_batch *batch, rf_error *e);
    /* The plan's result, [n_outputs][n_result], of the earliest run that was not waited for, valid until
     * the next run; rows that the batch does not want whole may be missing in it. */
    rf_status (*wait)(rf_exec *x, const float **result);
    /* After wait, of an output that is not wanted whole: its best, or NULL where only the row can tell.
     * And the row, fetched if it is missing (RF_EARG: a run that follows has taken its place).  Both NULL:
     * no row ever is, and none has a best. */
    const rf_best *(*best)(const rf_exec *x, uint32_t output);
    rf_status (*row)(rf_exec *x, uint32_t output, const float **row);
    /* After RF_EDEVICE: the device and all execs on it are made anew, with empty KV caches.  *fault
     * gets the words of what had failed; a failure to revive is logged.  NULL: nothing can fail so. */
    rf_status (*revive)(rf_backend *b, rf_error *fault);
    rf_status (*kv_copy)(rf_exec *x, uint32_t from_block, uint32_t to_block); /* all layers */
    /* One block of all layers to host memory and back, kv_block_bytes each, after all that was queued;
     * the memory is the caller's again on return.  Backends of one kv_layout read each other's. */
    const char *kv_layout;
    size_t (*kv_block_bytes)(const rf_exec *x);
    rf_status (*kv_read)(rf_exec *x, uint32_t block, void *out);
    rf_status (*kv_write)(rf_exec *x, uint32_t block, const void *src);
    /* A slot of state to another, and to host memory and back as a block of KV is: plan->state_floats
     * f32, which all backends read of each other.  For plans that keep one. */
    rf_status (*state_copy)(rf_exec *x, uint32_t from_slot, uint32_t to_slot);
    rf_status (*state_read)(rf_exec *x, uint32_t slot, float *out);
    rf_status (*state_write)(rf_exec *x, uint32_t slot, const float *src);
    /* Tests: value v of the last run as f32, n floats ([T or n_outputs][cols]), in an exec whose plan
     * was sealed with keep_values: nothing is then fused and no activation memory reused.  NULL: no such
     * plan is compiled. */
    rf_status (*peek)(rf_exec *x, rf_val v, float *out, size_t n);
} rf_backend_ops;

extern const rf_backend_ops rf_ref_ops; /* plain loops in double: the truth */
extern const rf_backend_ops rf_cpu_ops; /* kernels per instruction set, canonical arithmetic */
extern const rf_backend_ops rf_gpu_ops; /* AMD and NVIDIA through their drivers, the same bits */

/* What there is on this machine and in this build, for `doctor` and `version`. */
typedef struct rf_gpu_found {
    char name[128], arch[32], target[32], library[64]; /* target empty: no kernels for it */
    int driver_version;
    bool integrated;
    uint32_t usual_batch; /* see rf_backend_ops */
    size_t mem_bytes, mem_free;
} rf_gpu_found;
/* RF_EUNSUPPORTED: no driver's library; RF_EDEVICE: no device, or it fails; RF_EARG: past the last */
RF_CHECKED rf_status rf_gpu_probe(size_t i, rf_gpu_found *out, rf_error *e);
const char *rf_gpu_built_target(size_t i); /* NULL past the last */

/* Shared check of a batch, used by every backend's run(); n_before: outputs of the run in front that it
 * may follow, 0: none. */
RF_CHECKED rf_status rf_batch_check(const rf_batch *b, const rf_plan *p, const rf_limits *l,
                                    uint32_t n_before, rf_error *e);
/* Has each sequence one row, and no row a block in its table, up to its position, that another row of the batch
 * writes?  Then no row needs another's keys.  mark: [n_kv_blocks], at first 0; run: another number in each
 * call, never 0. */
bool rf_batch_rows_alone(const rf_batch *b, uint64_t *mark, uint64_t run);
/* First and one-past-last visible key of a row at position pos with kv_len keys; GLOBAL_LOCAL also
 * sees [0, min(n_global, *begin)).  CUSTOM: all of [0, kv_len), the mask decides.  PREFIX: n_global is
 * the sequence's n_prefix. */
void rf_attn_range(const rf_attn_pattern *pattern, uint32_t pos, uint32_t kv_len, uint32_t *begin,
                   uint32_t *end);
/* May the KV cache have that format?  Heads of any size may: the last block of each is filled up. */
bool rf_kv_type_ok(rf_dtype t);
/* Shared checks, used by the backends' compile(): the formats of keys and values; these and the limits
 * that must not be 0, and n_states where the plan needs them, with the backend's name in the error. */
RF_CHECKED rf_status rf_kv_types_check(const rf_limits *l, rf_error *e);
RF_CHECKED rf_status rf_limits_check(const char *backend, const rf_limits *l, rf_error *e);
RF_CHECKED rf_status rf_states_check(const char *backend, const rf_plan *p, const rf_limits *l,
                                     rf_error *e);
/* Bytes of one head's key or value of n elements in the cache; the last block is filled up. */
size_t rf_kv_head_bytes(rf_dtype type, uint32_t n);

#ifdef __cplusplus
}
#endif
