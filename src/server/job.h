/* job.h - one request for generation: its answers, from the queue of the engine to the outbox.
 *
 * A job has one answer ("choice") per prompt and n.  It is made by an HTTP thread and advanced by
 * the engine's thread, from whose callbacks a writer (one per API) turns events into text.  Answers
 * to the same prompt start when the first of them has its first token: they find the prompt's KV
 * blocks there.  Jobs are counted; the last finished ones stay known by their id. */
#pragma once
#include "server/blocks.h"
#include "server/keys.h"
#include "server/metrics.h"
#include "server/params.h"
#include "server/reply.h"
#include "server/traces.h"

typedef struct rf_jobs rf_jobs;
typedef struct rf_job rf_job;
typedef enum rf_job_state {
    RF_JOB_WAITING,
    RF_JOB_RUNNING,
    RF_JOB_FINISHED,
    RF_JOB_FAILED,
    RF_JOB_CANCELLED,
} rf_job_state;
const char *rf_job_state_name(rf_job_state s);

typedef struct rf_choice {
    rf_job *job;
    uint32_t index;
    uint64_t request; /* the engine's id; 0: not submitted yet */
    rf_finish finish; /* RF_FINISH_NONE: not over */
    uint32_t n_prompt, n_cached, n_generated;
    uint64_t first_us, last_us; /* of its first and latest token; 0: none */
    uint64_t queue_us, prompt_us, decode_us;
    uint32_t n_drafted, n_accepted; /* guesses of tokens, and those that were right */
    rf_buf text;                    /* kept unless streamed, see rf_writer */
    rf_buf logprobs[4];             /* kept by the writer in its own form */
    size_t n_chars;                 /* of the tokens' texts, for offsets */
    rf_reply *reply;                /* chat: made by the writer; NULL: the text is the answer */
    rf_blocks *blocks;              /* the same, of APIs whose answers are made of blocks */
    int32_t stop;                   /* which stop string ended it; -1: none */
    uint32_t n_sent;                /* events of its stream, where they are numbered */
} rf_choice;

/* How one API writes; finish may be NULL.  All are called with the job locked. */
typedef struct rf_writer {
    const char *id_prefix;                       /* "chatcmpl-" */
    rf_api_style style;                          /* of its errors */
    const char *ping;                            /* NULL: RF_SSE_PING */
    bool keeps_text;                             /* also of streams: for questions by id */
    void (*start)(const rf_job *j, rf_buf *out); /* stream: head */
    void (*delta)(rf_job *j, rf_choice *c, const rf_event *ev, rf_buf *out); /* stream */
    void (*note)(rf_job *j, rf_choice *c,
                 const rf_event *ev); /* not a stream: keep what it needs */
    void (*finish)(const rf_job *j, const rf_choice *c, rf_buf *out);   /* stream: one is over */
    void (*end)(const rf_job *j, rf_buf *out);                          /* stream: all are over */
    void (*whole)(const rf_job *j, rf_buf *out);                        /* not a stream */
    void (*error)(const rf_job *j, const rf_api_error *e, rf_buf *out); /* stream */
} rf_writer;

typedef struct rf_origin { /* of a request */
    const char *request_id;
    const void *caller; /* the rf_key that asked; NULL: no keys */
    rf_trace_context trace;
} rf_origin;

struct rf_job { /* what writers may read */
    rf_jobs *jobs;
    const rf_writer *writer;
    char id[48];
    const void *caller; /* the rf_key that asked, to which alone it is told; NULL: no keys */
    const char *model;  /* borrowed */
    rf_engine *engine;
    int64_t created; /* seconds since 1970 */
    uint64_t start_us;
    const rf_reply_format *format; /* borrowed */
    rf_params params;
    rf_ids *prompts;    /* [params.n_prompts] */
    rf_choice *choices; /* [n_choices]: answers of prompt 0, then of prompt 1, ... */
    uint32_t n_choices;
    struct rf_job_private *own;
};

typedef struct rf_jobs_opts {
    rf_engine *engine;
    rf_metrics *metrics;
    rf_traces *traces; /* NULL: nobody is told what became of jobs */
    const char *model;
    const rf_reply_format *format;
    uint32_t max_waiting; /* answers in the queue */
    uint32_t ping_seconds;
} rf_jobs_opts;
RF_CHECKED rf_status rf_jobs_create(rf_jobs **out, const rf_jobs_opts *opts, rf_error *e);
void rf_jobs_free(rf_jobs *all); /* no job may be running; NULL is fine */
/* Begins a job; takes *params and the ids (both are empty afterwards, also on failure).  ids:
 * [params->n_prompts], allocated with rf_alloc.  False: e says why, and nothing began. */
bool rf_jobs_start(rf_jobs *all, const rf_writer *writer, const rf_origin *from, rf_params *params,
                   rf_ids *ids, rf_outbox *out, rf_api_error *e);
void rf_jobs_refuse_new(rf_jobs *all); /* from now on: the server is stopping */
void rf_jobs_cancel_all(rf_jobs *all);
void rf_jobs_tick(rf_jobs *all);       /* once a second: keeps silent streams alive */
uint32_t rf_jobs_n_open(rf_jobs *all); /* answers not over */

/* A job by its id, for this caller (any: also others'), as text {"id":...}.  False: unknown. */
bool rf_jobs_describe(rf_jobs *all, rf_str id, const void *caller, bool any, rf_buf *out);
bool rf_jobs_cancel(rf_jobs *all, rf_str id, const void *caller, bool any);
void rf_jobs_list(rf_jobs *all, rf_buf *out); /* the open ones: more items of a JSON array */
int rf_jobs_retry_after(
    rf_jobs *all); /* seconds until an answer is over, probably; 0: none is open */
