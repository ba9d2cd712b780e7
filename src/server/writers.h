/* writers.h - the APIs' ways to write an answer. */
#pragma once
#include "server/job.h"

extern const rf_writer rf_writer_chat;       /* /v1/chat/completions */
extern const rf_writer rf_writer_completion; /* /v1/completions */
extern const rf_writer rf_writer_native;     /* /generate */
extern const rf_writer rf_writer_messages;   /* /v1/messages */
extern const rf_writer rf_writer_responses;  /* /v1/responses */

/* Shared: {"prompt_n":...,"tokens_per_second":...} of the whole job. */
void rf_write_timings(const rf_job *j, rf_buf *out);
typedef struct rf_job_usage {
    uint32_t prompt, cached, generated; /* a prompt counts once, however many answers it has */
} rf_job_usage;
rf_job_usage rf_job_get_usage(const rf_job *j);
/* A token's bytes appended to out. */
void rf_write_token_bytes(const rf_job *j, int32_t token, rf_buf *out);
double rf_write_logprob(float logprob);          /* JSON has no infinity */
rf_reply_opts rf_reply_opts_of(const rf_job *j); /* valid as long as the job */
/* Feeds the blocks of a choice, which are made with the first event; sink may be NULL. */
void rf_write_blocks(rf_job *j, rf_choice *c, const rf_event *ev, const rf_block_sink *sink);
