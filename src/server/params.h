/* params.h - the body of a request as a struct: one table of fields for every route that generates.
 *
 * Unknown fields are ignored, as OpenAI's clients expect; known ones of a wrong type or out of range
 * are refused by name; fields that ask for something this server cannot do are refused, never
 * dropped.  Everything lives until rf_params_free. */
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "rocmforge.h"
#include "server/api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { /* kinds of requests, as bits: which of them take a field */
       RF_FOR_NATIVE = 1,
       RF_FOR_COMPLETION = 2,
       RF_FOR_CHAT = 4,
       RF_FOR_EMBEDDING = 8,
       RF_FOR_RERANK = 16,
};
enum {
    RF_PARAMS_MAX_CHOICES = 128, /* prompts times n */
    RF_PARAMS_MAX_INPUTS = 2048, /* texts to embed or to score */
    RF_PARAMS_MAX_DEPTH = 64,    /* of the JSON */
    RF_PARAMS_MAX_BIAS = 1024,
};

typedef struct rf_prompt {
    rf_str text;
    const int32_t *ids; /* [n_ids] instead of the text; NULL: none */
    size_t n_ids;
} rf_prompt;

typedef struct rf_params {
    rf_arena *arena;
    rf_json *json; /* the body; strings are borrowed from it */
    rf_str model;
    rf_prompt *prompts; /* [n_prompts] also texts to embed */
    size_t n_prompts;
    rf_str messages, tools, vars; /* chat: JSON texts; .p NULL: none */
    bool add_generation_prompt;
    bool must_call;      /* chat: a grammar makes the answer tool calls */
    bool parallel_calls; /* chat: more than one */
    rf_sampling sampling;
    bool has_seed;
    int32_t n, best_of, max_tokens, min_tokens;
    int32_t priority, timeout_ms;
    int32_t n_logprobs;  /* -1: none */
    bool want_logprobs;  /* chat: the boolean beside top_logprobs */
    bool reads_reply;    /* chat: the answer is taken apart, see reply.h */
    char prompt_end[64]; /* chat: the last bytes of the prompt */
    const char **stop;   /* [n_stop] */
    size_t n_stop;
    bool stream, include_usage, echo, ignore_eos, with_special;
    bool speculate; /* guesses of tokens, if the server makes any */
    bool base64;    /* embeddings */
    int32_t dimensions;
    rf_str query;  /* rerank; its documents are prompts */
    int32_t top_n; /* 0: all */
    bool return_documents;
    const char *grammar_field; /* the field that asked for one; NULL: any text */
    rf_grammar_kind grammar_kind;
    rf_str grammar_text;
    rf_grammar *grammar; /* rf_params_compile */
} rf_params;

/* kind: one RF_FOR_ bit.  False: e says why.  Free p in both cases. */
bool rf_params_parse(rf_params *p, unsigned kind, rf_str body, rf_api_error *e);
void rf_params_free(rf_params *p);
/* Compiles the grammar that the request asked for, if any. */
bool rf_params_compile(rf_params *p, rf_engine *engine, rf_api_error *e);
/* A body as a JSON object, with the limits of requests; false: e says why. */
bool rf_params_read_object(rf_json **out, rf_str body, rf_api_error *e);
/* The fields as properties of a JSON schema object. */
void rf_params_put_schema(rf_buf *out, unsigned kind);

/* chat.c: messages as the texts that templates read; false: e says why.  no_content: JSON that stands
 * where a message has none, as those with tool calls. */
bool rf_params_put_messages(rf_buf *out, const rf_json *messages, const char *no_content,
                            rf_api_error *e);
void rf_put_json(rf_buf *out, const rf_json *value); /* a value as JSON text */

#ifdef __cplusplus
}
#endif
