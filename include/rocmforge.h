/* rocmforge.h - the public C API of ROCmForge.
 *
 * Open an engine on a model file, submit requests, step until they are done; tokens and text arrive
 * through a callback.  Threads: one thread calls rf_engine_step (and receives all callbacks, from
 * inside it); any thread may submit, cancel, tokenize or read facts.  Open and close are not
 * concurrent with anything.  Where memory lies on several nodes, open and step keep their thread to one
 * node's processors until they return.  All strings are UTF-8; returned pointers live as long as the engine
 * unless stated otherwise.
 *
 * A request's tokens depend only on the model, its prompt, its sampling options and its seed: not on
 * what else runs beside it, nor on threads or instruction set. */
#ifndef ROCMFORGE_H
#define ROCMFORGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RF_API __attribute__((visibility("default")))
#else
#define RF_API
#endif

/* What functions return: what the caller can do about it.  The text of the failure is in rf_text. */
enum {
    ROCMFORGE_OK = 0,
    ROCMFORGE_ENOMEM = 1,
    ROCMFORGE_EIO = 2,
    ROCMFORGE_EFORMAT = 3,
    ROCMFORGE_EUNSUPPORTED = 4,
    ROCMFORGE_EDEVICE = 5,
    ROCMFORGE_EARG = 6,
    ROCMFORGE_EFULL = 7,
    ROCMFORGE_ECANCELLED = 8,
};

/* Filled on failure: what, where, expected and got.  Empty on success. */
typedef struct rf_text {
    char text[500];
} rf_text;

RF_API const char *rf_version(void); /* "0.1.0" */
/* The ith supported architecture (general.architecture) and the model families it serves; NULL past
 * the last.  families may be NULL. */
RF_API const char *rf_architecture(size_t i, const char **families);

/* ---- engine ---- */

typedef struct rf_engine rf_engine;
typedef struct rf_engine_opts {
    const char *model_path; /* a GGUF file */
    const char *backend; /* "cpu" (also NULL), "gpu", "ref", or "auto": gpu where one is usable */
    const char
        *kv_type;      /* "f16" (also NULL), "f32", "bf16", "q8_0", "q4_0"; or two, "KEYS,VALUES" */
    int n_threads;     /* 0: one per core */
    uint32_t n_ctx;    /* tokens a request may hold; 0: the model's, at most 8192 */
    uint32_t max_seqs; /* requests worked on at once; 0: 8 */
    uint32_t batch_tokens; /* rows of one step; 0: 256, of a GPU as many as fill it (up to 1024) */
    uint32_t n_kv_blocks;  /* KV blocks of 32 tokens in all; 0: max(n_ctx, 4096) tokens' worth */
    bool vocab_only;       /* tokenizer only: no weights, no requests */
    bool keep_activations; /* for rf_engine_activations: slower, more memory per row */
    uint32_t device;       /* which GPU, counted from 0 */
    uint64_t swap_bytes;   /* host memory for preempted requests; 0: they are computed anew */
    /* Guesses of the next tokens, checked in one step: tokens stay the same and come faster where guesses
     * are good.  Made where they pay, from the request's own text ("ngram"; "off", also NULL) and by a
     * small model with the same vocabulary (a GGUF file, or NULL). */
    const char *speculate, *draft_model_path;
    uint32_t draft_max,
        draft_min; /* per request and step: at most (0: 16; up to 64); made always */
    uint32_t
        itl_target_ms; /* prompts take no more of a step that decodes than leaves it about so short;
                               0: batch_tokens alone limits them */
    bool measure_only; /* for rf_engine_measure: no backend is opened, nothing can be run */
    /* Several GPUs, "0,1": layers are shared between them, in this order and in proportion to the memory
     * that is free.  NULL: device. */
    const char *devices;
    /* So many of the last layers on GPUs, the others on the CPU; what does not fit is an error, and
     * backend is then "gpu".  0: all, or with backend "auto" as many as fit. */
    uint32_t gpu_layers;
    /* Matrices of 16-bit floats, and attention over KV caches of them, go to the matrix units of GPUs that have
     * them: prompts and several answers are read and written several times as fast.  Sums are then the unit's own: a
     * request has the same tokens in any batch on one device, but logits are not those of the CPU to the
     * bit.  The program's commands ask for it unless they are told not to. */
    bool fast_floats;
    /* So many percent of the memory that a GPU has left when the model is loaded may be taken to read prompts
     * faster: for weights in groups of 256, two bytes each, on Hopper.  At most 90.  0, or with a draft model: none;
     * the program's commands ask for 25 unless they are told otherwise. */
    uint32_t spare_percent;
    /* Weights that the CPU multiplies and whose file the system keeps in small pages are copied into huge ones, by a
     * thread beside the first requests, if no more than half of the memory that is free goes there: they are then
     * read faster, but are no longer shared with other programs that have the file open.  The KV cache grows in huge
     * pages, too.  The program's commands ask for it unless they are told not to. */
    bool huge_pages;
} rf_engine_opts;

/* ---- GPUs ---- */

/* The ith GPU target that this build has kernels for ("gfx1100", "sm_80"); NULL past the last. */
RF_API const char *rf_gpu_target(size_t i);
typedef struct rf_gpu_device {
    char name[128], arch[32];
    char target[32];  /* whose kernels it runs; empty: this build has none for it */
    char library[64]; /* the driver's */
    int driver_version;
    bool integrated; /* shares the memory of the CPU */
    uint64_t mem_bytes, mem_free;
} rf_gpu_device;
/* The ith GPU of this machine.  ROCMFORGE_EUNSUPPORTED: no driver's library is installed;
 * ROCMFORGE_EDEVICE: one is, but it finds no device or fails; ROCMFORGE_EARG: past the last. */
RF_API int rf_gpu_find(size_t i, rf_gpu_device *out, rf_text *why);

/* What the self-test found about one GPU kernel. */
typedef struct rf_kernel_result {
    const char *name;
    uint32_t n_cases, n_failed;
    char formats[240]; /* of the weights or KV caches it was given: "Q4_0 Q8_0" */
    char text[200];    /* the first failure */
} rf_kernel_result;
typedef struct rf_gpu_test {
    rf_gpu_device gpu;
    rf_kernel_result *kernels;              /* [n_kernels] */
    size_t n_kernels, n_failed, n_untested; /* kernels */
    uint64_t seed;
    double seconds;
    char path[600]; /* the file that keeps the verdict, for engines on this GPU; empty: nowhere */
} rf_gpu_test;
/* Runs every kernel of the ith GPU on random numbers of that seed and compares each result with the
 * CPU's, bit by bit.  Kernels that fail are not used by engines opened later.  ROCMFORGE_OK also when
 * some failed.  No engine of this process may be on that GPU meanwhile. */
RF_API int rf_gpu_test_run(size_t i, uint64_t seed, rf_gpu_test **out, rf_text *why);
RF_API void rf_gpu_test_free(rf_gpu_test *t); /* NULL is fine */

/* How the hidden states of a text's tokens become one vector. */
typedef enum rf_embed_pooling {
    RF_POOLING_DEFAULT, /* as the model's file says; else mean for encoders, last for decoders */
    RF_POOLING_MEAN,
    RF_POOLING_CLS, /* the first token's */
    RF_POOLING_LAST,
    RF_POOLING_RANK, /* the scores of a reranker's classification head, not a vector */
} rf_embed_pooling;

/* On success *out is the engine; on failure NULL, and why is filled (NULL: not wanted). */
RF_API int rf_engine_open(rf_engine **out, const rf_engine_opts *opts, rf_text *why);
RF_API void rf_engine_close(rf_engine *e); /* ends all requests without callbacks; NULL is fine */
/* Waits for what opening left to be done beside requests (huge_pages): whoever measures wants it behind him.  By
 * the thread that steps. */
RF_API void rf_engine_settle(rf_engine *e);

typedef struct rf_engine_info {
    const char *model_name, *architecture, *backend; /* "cpu avx2, 2 threads" */
    const char *chat_template;                       /* NULL when the file has none */
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab;
    uint32_t n_ctx, n_ctx_train;
    uint32_t batch_tokens; /* rows of one step */
    uint64_t n_params, weight_bytes;
    uint64_t exec_bytes; /* activations, KV cache, scratch */
    uint32_t kv_blocks, kv_blocks_free;
    bool is_encoder;          /* makes embeddings only: no requests, no logits */
    rf_embed_pooling pooling; /* of its embeddings, unless asked for another */
} rf_engine_info;
RF_API void rf_engine_get_info(const rf_engine *e, rf_engine_info *out);

/* What an engine takes, in bytes: of the device's memory, or of the CPU's where that is the device. */
typedef struct rf_memory_need {
    uint64_t weights; /* as they lie on the device; on the CPU they are the file's pages */
    uint64_t kv, activations, other;
    uint64_t total;    /* of these */
    uint64_t host;     /* GPUs: of the CPU's memory, beside the file's pages */
    uint64_t kv_block; /* of kv, for 32 tokens */
    uint32_t n_ctx, max_seqs, batch_tokens, n_kv_blocks;
} rf_memory_need;
/* What an engine on e's model would take with these options (model_path is not looked at; backend "gpu",
 * or the CPU), counted as opening it would, without taking it.  Not for encoders. */
RF_API int rf_engine_measure(const rf_engine *e, const rf_engine_opts *o, rf_memory_need *out,
                             rf_text *why);

/* Consecutive layers of a model on one device.  The output matrix goes with the last one. */
typedef struct rf_stage {
    bool on_gpu;
    uint32_t device; /* of the GPUs */
    uint32_t first_layer, n_layers;
    uint64_t weights, kv, activations, other, total, host; /* bytes, as in rf_memory_need */
} rf_stage;
/* The stages of an open engine, in the order in which they run; most have one.  Writes at most cap of
 * them and gives their full number.  An encoder's bytes are not counted: 0. */
RF_API size_t rf_engine_stages(const rf_engine *e, rf_stage *out, size_t cap);
/* The stages that an engine on e's model would have with these options, backend "gpu" or "auto", counted
 * as opening it would.  room: bytes free on each of the devices that o names, of which there need then be
 * none; NULL: what is free there now.  Not for encoders. */
RF_API int rf_engine_place(const rf_engine *e, const rf_engine_opts *o, const uint64_t *room,
                           rf_stage *out, size_t cap, size_t *n, rf_text *why);

/* ---- text and tokens ---- */

/* Writes at most cap ids to out and their full number to *n.  add_special: BOS and EOS as the model
 * asks for; parse_special: the text of control tokens becomes those tokens. */
RF_API int rf_engine_tokenize(const rf_engine *e, const char *text, size_t len, bool add_special,
                              bool parse_special, int32_t *out, size_t cap, size_t *n,
                              rf_text *why);
/* Writes at most cap bytes (no NUL) and the full length to *len. */
RF_API int rf_engine_detokenize(const rf_engine *e, const int32_t *tokens, size_t n,
                                bool with_special, char *out, size_t cap, size_t *len,
                                rf_text *why);
typedef struct rf_message {
    const char *role, *content;
} rf_message;
/* A conversation as tokens, ready to be answered.  format: NULL for the model's own template (Jinja,
 * from the file), or a built-in format: chatml, llama2, llama3, mistral, zephyr, phi3, gemma, plain
 * and others.  Message text never becomes a control token. */
RF_API int rf_engine_chat_tokens(const rf_engine *e, const char *format, const rf_message *messages,
                                 size_t n_messages, int32_t *out, size_t cap, size_t *n,
                                 rf_text *why);
typedef struct rf_conversation {
    const char *format; /* as above; only the model's own template knows tools and variables */
    /* JSON texts of len bytes each.  messages: an array of objects with role and content, and
     * whatever else the template reads; tools, documents: arrays; vars: an object of further
     * variables (enable_thinking, ...).  NULL: none. */
    const char *messages, *tools, *documents, *vars;
    size_t messages_len, tools_len, documents_len, vars_len;
    bool is_open; /* the last message stays open: no turn of the assistant is begun */
} rf_conversation;
RF_API int rf_engine_conversation_tokens(const rf_engine *e, const rf_conversation *c, int32_t *out,
                                         size_t cap, size_t *n, rf_text *why);
RF_API bool rf_engine_is_end(const rf_engine *e, int32_t token); /* ends a text or a turn */
/* The bytes of one token, which may be a part of a character; control tokens give their name.
 * Writes at most cap bytes and the full length to *len. */
RF_API int rf_engine_token_bytes(const rf_engine *e, int32_t token, char *out, size_t cap,
                                 size_t *len, rf_text *why);

/* ---- structured output ---- */

/* What an answer must match, compiled once and used by any number of requests at a time. */
typedef struct rf_grammar rf_grammar;
typedef enum rf_grammar_kind {
    RF_GRAMMAR_GBNF,        /* llama.cpp's notation; the answer matches rule root */
    RF_GRAMMAR_JSON_SCHEMA, /* the answer is JSON that is valid for it */
    RF_GRAMMAR_REGEX,       /* the whole answer matches */
    RF_GRAMMAR_CHOICE,      /* a JSON array of strings: the answer is one of them */
} rf_grammar_kind;
/* Any thread.  EFORMAT: malformed; EUNSUPPORTED: outside what docs/structured-output.md lists, or
 * over a limit; why says where.  Close before the engine; requests that run keep it alive. */
RF_API int rf_grammar_open(rf_engine *e, rf_grammar_kind kind, const char *text, size_t len,
                           rf_grammar **out, rf_text *why);
RF_API void rf_grammar_close(rf_grammar *g); /* NULL is fine */

/* ---- requests ---- */

typedef struct rf_logit_bias {
    int32_t token;
    float bias; /* -INFINITY forbids the token */
} rf_logit_bias;

/* Order of application: bias, penalties, DRY; then at temperature 0 the most likely token (ties to the
 * lowest id); else top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature, draw.  Mirostat 2
 * takes the place of all filters.  Start from rf_sampling_default. */
typedef struct rf_sampling {
    float temperature;
    int32_t top_k;                 /* 0: off */
    float top_p, min_p, typical_p; /* 1, 0, 1: off */
    float top_n_sigma;             /* 0: off */
    float xtc_probability, xtc_threshold;
    float repeat_penalty, presence_penalty, frequency_penalty;
    int32_t penalty_last_n; /* -1: the whole context */
    float dry_multiplier, dry_base;
    int32_t dry_allowed_length, dry_last_n;
    bool mirostat;
    float mirostat_tau, mirostat_eta;
    uint64_t seed;
    const rf_logit_bias *logit_bias;
    size_t n_logit_bias;
} rf_sampling;
RF_API rf_sampling
rf_sampling_default(void); /* temperature 0.8, top-k 40, top-p 0.95, min-p 0.05 */

typedef enum rf_finish {
    RF_FINISH_NONE,   /* still running */
    RF_FINISH_STOP,   /* end of text, or a stop string */
    RF_FINISH_LENGTH, /* max_tokens, timeout_ms, or the context is full */
    RF_FINISH_CANCELLED,
    RF_FINISH_ERROR,
} rf_finish;

typedef struct rf_token_prob {
    int32_t token;
    float logprob; /* natural log, of the model's own distribution before any sampling option */
} rf_token_prob;

typedef struct rf_event {
    uint64_t request;
    rf_finish finish; /* the last event of a request has it set */
    int32_t token;    /* -1: no token (text held back comes out, or the request ends) */
    const char *text; /* whole UTF-8 characters that became certain; not NUL-terminated */
    size_t text_len;
    rf_token_prob chosen;     /* when n_logprobs >= 0 */
    const rf_token_prob *top; /* [n_top] likeliest first */
    size_t n_top;
    uint32_t n_prompt, n_cached, n_generated; /* tokens so far; cached ones needed no work */
    uint64_t prompt_us, decode_us;            /* from its start to the first token, and since */
    const char *error;                        /* finish == RF_FINISH_ERROR */
    int32_t stop; /* with finish: which stop string ended the text; -1: none of them */
    uint32_t n_drafted, n_accepted; /* guesses of tokens so far, and those that were right */
} rf_event;
/* Everything in the event is valid during the call only.  May call cancel and submit, not step. */
typedef void (*rf_event_fn)(void *user, const rf_event *event);

typedef struct rf_request_opts {
    const int32_t *tokens; /* the prompt, copied */
    size_t n_tokens;
    rf_sampling sampling;
    int32_t max_tokens;      /* -1: until the context is full */
    int32_t min_tokens;      /* before so many nothing that ends the text is chosen */
    const char *const *stop; /* stop strings, copied */
    size_t n_stop;
    int32_t n_logprobs; /* -1: none; else that many likeliest tokens beside the chosen one, <= 20 */
    bool ignore_eos;
    bool with_special;   /* control tokens appear in the text */
    rf_grammar *grammar; /* the answer matches it and ends when it must; NULL: any text */
    uint32_t timeout_ms; /* from submit on; then it ends with RF_FINISH_LENGTH; 0: no limit */
    /* Requests of one flow (a user, an API key) share what flows get: tokens computed, in proportion
     * to their weights (0: 1; at most 1000), counted while both have requests that wait.  priority
     * (-100 to 100) orders the requests of one flow: a lower one goes before up to 64 per level that
     * came earlier.  Whoever has started is not held up by those that come later. */
    uint64_t flow;
    uint32_t weight;
    int32_t priority;
    rf_event_fn on_event;
    void *user;
    /* Requests find each other's computed prefixes only when this is the same for both: one number per
     * user keeps how long an answer takes from telling whether others have asked the same. */
    uint64_t prefix_salt;
    bool no_speculation; /* no guesses for this one */
} rf_request_opts;

/* Queues a request.  ROCMFORGE_EARG names a wrong option; ROCMFORGE_EFULL: too long for the context. */
RF_API int rf_engine_submit(rf_engine *e, const rf_request_opts *opts, uint64_t *id, rf_text *why);
/* What rf_engine_submit would say, without queuing anything. */
RF_API int rf_engine_check(rf_engine *e, const rf_request_opts *opts, rf_text *why);
/* The request ends at the next step with RF_FINISH_CANCELLED; unknown ids are ignored. */
RF_API void rf_engine_cancel(rf_engine *e, uint64_t id);
/* One batch.  1: worked; 0: nothing to do; below 0: the negated status of a failure that ended all
 * running requests (each got its event).  On a GPU the events of a step come during the next one, while that is
 * computed; all have come when no request is left. */
RF_API int rf_engine_step(rf_engine *e);
/* For the stepping thread when a step returned 0: sleeps until there is a request, or until
 * rf_engine_wake is or was called (each wake ends one wait). */
RF_API void rf_engine_wait(rf_engine *e);
RF_API void rf_engine_wake(rf_engine *e); /* any thread */

/* What goes on; any thread. */
typedef struct rf_engine_stats {
    uint32_t n_waiting, n_running; /* requests */
    uint32_t max_running;          /* requests worked on at once */
    uint32_t kv_blocks, kv_free;   /* free ones included that hold a reusable prefix: kv_cached */
    uint32_t kv_cached;
    uint64_t kv_hits, kv_misses, kv_evictions; /* blocks, since the start */
    uint64_t n_preemptions; /* running requests that gave their KV blocks back to older ones and
                               waited to go on: nothing is lost but time */
    uint64_t n_swapped_out, n_swapped_in; /* KV blocks copied to host memory at that, and back */
    uint64_t swap_used;                   /* bytes there now */
    uint64_t n_drafted, n_accepted;       /* guesses of tokens, and those that were right */
} rf_engine_stats;
RF_API void rf_engine_get_stats(rf_engine *e, rf_engine_stats *out);
/* True when the request is being worked on; false while it waits or when it is over. */
RF_API bool rf_engine_is_running(rf_engine *e, uint64_t id);

/* ---- saved states ---- */

/* What was computed of a conversation, in a file, to go on later or elsewhere without computing it again.
 * By the stepping thread between steps, also while requests run.  Saves tokens [n] and, of what the KV
 * cache holds of them, the leading whole blocks of 32: *n_saved tokens (NULL: not wanted).
 * ROCMFORGE_EARG: not one block of them is there; requests that ran with them put them there. */
RF_API int rf_engine_state_save(rf_engine *e, const char *path, const int32_t *tokens, size_t n,
                                uint64_t prefix_salt, size_t *n_saved, rf_text *why);
/* Puts the blocks back: the next requests that begin with these tokens, and have this prefix_salt, find
 * the first *n_restored of them computed, until the cache needs the room.  Writes at most cap of the saved
 * tokens to out and their full number to *n.  ROCMFORGE_EFORMAT: no whole, undamaged state; ROCMFORGE_EARG:
 * of another model, context length or kv_type; ROCMFORGE_EFULL: running requests need the room. */
RF_API int rf_engine_state_restore(rf_engine *e, const char *path, uint64_t prefix_salt,
                                   int32_t *out, size_t cap, size_t *n, size_t *n_restored,
                                   rf_text *why);

/* The logits of every position of one sequence, without sampling: sink gets [n][n_vocab] floats in
 * pieces, in order; returning false stops.  Not while requests run. */
typedef bool (*rf_logits_fn)(void *user, size_t first, size_t n, const float *logits);
RF_API int rf_engine_logits(rf_engine *e, const int32_t *tokens, size_t n, rf_logits_fn sink,
                            void *user, rf_text *why);

/* What went into the matrix products of one sequence, to measure which columns matter. */
typedef struct rf_activation {
    const char *weight; /* the tensor's name, weight_len bytes */
    size_t weight_len;
    uint32_t matrix, n_matrices; /* which of the tensor's matrices (experts) these rows met */
    size_t n, cols;
    const float *x; /* [n][cols], valid during the call */
} rf_activation;
typedef bool (*rf_activation_fn)(void *user, const rf_activation *a); /* false stops */
/* Calls sink for every matrix product, for batch_tokens rows at a time; for a tensor of several matrices
 * once for each that met any of these rows.  Only on an engine opened with keep_activations, and not while
 * requests run. */
RF_API int rf_engine_activations(rf_engine *e, const int32_t *tokens, size_t n,
                                 rf_activation_fn sink, void *user, rf_text *why);

/* ---- embeddings ---- */

typedef struct rf_embed_input {
    const int32_t *tokens; /* [n_tokens], with the special tokens that the model expects */
    size_t n_tokens;       /* 1 to n_ctx */
} rf_embed_input;
typedef struct rf_embed_opts { /* NULL or {0}: as the model wants it, vectors of length 1 */
    rf_embed_pooling pooling;
    bool raw; /* as pooled, not scaled to length 1; scores are never scaled */
} rf_embed_opts;

/* Floats of one vector: n_embd, or the number of scores; 0 where the model cannot do it.  Any thread. */
RF_API size_t rf_engine_embed_size(const rf_engine *e, rf_embed_pooling pooling);
/* One text as a vector.  out: room for cap floats, at least rf_engine_embed_size of them, filled on
 * success only.  Encoders and decoders; called by the stepping thread between steps, also while requests
 * run, which it neither disturbs nor waits for; it returns when the vector is there.  The first call on
 * a decoder allocates memory for embeddings.  ROCMFORGE_EARG names a wrong argument; ROCMFORGE_EFULL: the
 * text is too long for the context; ROCMFORGE_EUNSUPPORTED: scores of a model without a head. */
RF_API int rf_engine_embed(rf_engine *e, const int32_t *tokens, size_t n_tokens,
                           const rf_embed_opts *opts, float *out, size_t cap, rf_text *why);
/* Many texts at once, which is faster and gives each the same vector as alone.
 * out: [n_inputs][rf_engine_embed_size] floats, cap counts all; on failure its content is undefined. */
RF_API int rf_engine_embed_batch(rf_engine *e, const rf_embed_input *inputs, size_t n_inputs,
                                 const rf_embed_opts *opts, float *out, size_t cap, rf_text *why);

#ifdef __cplusplus
}
#endif
#endif
