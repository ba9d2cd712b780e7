/* harness.h - what the tests of the engine share: recording what a request tells its owner, running
 * one alone, and models with another vocabulary.
 *
 * Every record checks the contract of events as they come: whole UTF-8 characters, counts that grow
 * by one, one last event and none after it. */
#pragma once
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "gguf/writer.h"
#include "lib/testlib.h"
#include "rocmforge.h"

enum { MAX_ANSWER = 512, MAX_PROMPT = 512, MAX_TEXT = 8192 };

typedef struct told { /* no rf_buf: allocations that fail are the engine's business only */
    size_t len;
    char p[MAX_TEXT];
} told;

typedef struct record {
    uint64_t id;
    uint32_t n_tokens, n_prompt, n_cached, n_ends;
    int32_t tokens[MAX_ANSWER];
    float logprobs[MAX_ANSWER];
    rf_token_prob top[MAX_ANSWER][3];
    told text;
    rf_finish finish;
    char error[200];
    void (*then)(void *user, const rf_event *event); /* what a test does inside the callback */
    void *user;
} record;

static inline void record_event(void *user, const rf_event *event) {
    record *r = user;
    assert_int_equal(r->n_ends, 0);
    if (r->id) assert_true(r->id == event->request);
    r->id = event->request;
    assert_int_equal(rf_utf8_valid_prefix(event->text, event->text_len), event->text_len);
    assert_true(event->text_len <= MAX_TEXT - r->text.len);
    memcpy(r->text.p + r->text.len, event->text, event->text_len);
    r->text.len += event->text_len;
    if (event->token >= 0) {
        assert_true(r->n_tokens < MAX_ANSWER);
        assert_int_equal(event->finish, RF_FINISH_NONE);
        r->tokens[r->n_tokens] = event->token;
        r->logprobs[r->n_tokens] = event->chosen.logprob;
        for (size_t i = 0; i < event->n_top && i < 3; i++)
            r->top[r->n_tokens][i] = event->top[i];
        r->n_tokens++;
    } else {
        assert_int_not_equal(event->finish, RF_FINISH_NONE);
        r->n_ends++;
    }
    assert_int_equal(event->n_generated, r->n_tokens);
    r->n_prompt = event->n_prompt;
    r->n_cached = event->n_cached;
    r->finish = event->finish;
    if (event->error) snprintf(r->error, sizeof r->error, "%s", event->error);
    if (r->then) r->then(r->user, event);
}

static inline void assert_same_answer(const record *a, const record *b) {
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_memory_equal(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens);
    assert_memory_equal(a->logprobs, b->logprobs, a->n_tokens * sizeof *a->logprobs);
    assert_memory_equal(a->top, b->top, a->n_tokens * sizeof *a->top);
    assert_int_equal(a->finish, b->finish);
    assert_int_equal(a->text.len, b->text.len);
    assert_memory_equal(a->text.p, b->text.p, a->text.len);
}

static inline rf_engine *open_engine(rf_engine_opts o) {
    rf_engine *en;
    rf_text why;
    if (o.n_threads == 0) o.n_threads = 1;
    if (rf_engine_open(&en, &o, &why) != ROCMFORGE_OK) fail_msg("%s", why.text);
    assert_string_equal(why.text, "");
    return en;
}

static inline void run_all(rf_engine *en) {
    int worked;
    while ((worked = rf_engine_step(en)) == 1) {
    }
    assert_int_equal(worked, 0);
}

static inline void assert_all_blocks_free(const rf_engine *en) {
    rf_engine_info info;
    rf_engine_get_info(en, &info);
    assert_int_equal(info.kv_blocks_free, info.kv_blocks);
}

/* A request over a prompt, greedy, with log-probabilities; change what the test is about. */
static inline rf_request_opts request_of(const int32_t *tokens, size_t n, int32_t max_tokens,
                                         record *r) {
    rf_request_opts o = {.tokens = tokens,
                         .n_tokens = n,
                         .sampling = rf_sampling_default(),
                         .max_tokens = max_tokens,
                         .n_logprobs = 3,
                         .on_event = record_event,
                         .user = r};
    o.sampling.temperature = 0;
    return o;
}

static inline void submit(rf_engine *en, const rf_request_opts *o) {
    rf_text why;
    uint64_t id = 0;
    if (rf_engine_submit(en, o, &id, &why) != ROCMFORGE_OK) fail_msg("%s", why.text);
    record *r = o->user;
    assert_true(id > 0 && (r->id == 0 || r->id == id));
    r->id = id;
}

/* The request, from submission to its end, in an engine with nothing else to do. */
static inline void run_request(rf_engine *en, const rf_request_opts *o) {
    submit(en, o);
    run_all(en);
    assert_int_equal(((record *)o->user)->n_ends, 1);
}

static inline void random_tokens(uint64_t *noise, int32_t *out, size_t n, uint32_t n_vocab) {
    for (size_t i = 0; i < n; i++)
        out[i] = (int32_t)(rf_test_rand(noise) % n_vocab);
}

/* ---- models with another vocabulary ---- */

typedef struct vocab {
    size_t n;
    char text[256][16];
    int32_t kind[256]; /* 1 normal, 3 control, ... */
    int32_t eos;
    const char *chat_template; /* NULL: none */
} vocab;

/* Copies a fixture, putting v in the place of its vocabulary. */
static inline const char *write_model(const char *fixture, const char *name, const vocab *v) {
    static const char *const replaced[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
                                           "tokenizer.ggml.merges", "tokenizer.ggml.bos_token_id",
                                           "tokenizer.ggml.eos_token_id"};
    const char *path = rf_test_tmp(name);
    rf_gguf *g;
    rf_gguf_writer *w;
    rf_error e = {0};
    rf_str texts[256];
    for (size_t i = 0; i < v->n; i++)
        texts[i] = rf_str_of(v->text[i]);
    assert_int_equal(rf_gguf_open(&g, rf_test_data(fixture), &e), RF_OK);
    assert_int_equal(rf_gguf_writer_open(&w, path, 32, &e), RF_OK);
    for (size_t i = 0; i < rf_gguf_n_kv(g); i++) {
        const rf_gguf_kv *kv = rf_gguf_kv_at(g, i);
        bool skip_it = false;
        for (size_t k = 0; k < RF_COUNT(replaced); k++)
            skip_it = skip_it || rf_str_is(kv->key, replaced[k]);
        if (!skip_it) assert_int_equal(rf_gguf_put_kv(w, kv, &e), RF_OK);
    }
    assert_int_equal(rf_gguf_put_str_array(w, replaced[0], texts, v->n, &e), RF_OK);
    assert_int_equal(rf_gguf_put_array(w, replaced[1], RF_GGUF_I32, v->kind, v->n, &e), RF_OK);
    assert_int_equal(rf_gguf_put_str_array(w, replaced[2], texts, 0, &e), RF_OK);
    assert_int_equal(rf_gguf_put_u32(w, replaced[4], (uint32_t)v->eos, &e), RF_OK);
    if (v->chat_template)
        assert_int_equal(
            rf_gguf_put_str(w, "tokenizer.chat_template", rf_str_of(v->chat_template), &e), RF_OK);
    for (size_t i = 0; i < rf_gguf_n_tensors(g); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(g, i);
        assert_int_equal(rf_gguf_declare(w, t->name, t->type, t->n_dims, t->ne, &e), RF_OK);
    }
    for (size_t i = 0; i < rf_gguf_n_tensors(g); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(g, i);
        assert_int_equal(rf_gguf_writer_data(w, t->data, t->n_bytes, &e), RF_OK);
    }
    assert_int_equal(rf_gguf_writer_finish(w, &e), RF_OK);
    rf_gguf_close(g);
    return path;
}

/* n tokens "a", "b", ... "aa", ...; the last is </s>, which ends texts. */
static inline vocab letters(size_t n) {
    vocab v = {.n = n, .eos = (int32_t)n - 1};
    for (size_t i = 0; i < n; i++) {
        v.kind[i] = 1;
        if (i >= 26) v.text[i][0] = (char)('a' + (i / 26 - 1) % 26);
        v.text[i][strlen(v.text[i])] = (char)('a' + i % 26);
    }
    strcpy(v.text[n - 1], "</s>");
    v.kind[n - 1] = 3;
    return v;
}
