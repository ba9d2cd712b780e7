/* test_request.c - one request's life: options refused and obeyed, text that comes out whole, stop
 * strings, lengths, ends, and what a callback may do. */
#include "engine/harness.h"

enum { N_VOCAB = 128 };

static const char *fixture = "models/llama-gqa.gguf";

static rf_engine *open_fixture(void) {
    return open_engine((rf_engine_opts){.model_path = rf_test_data(fixture)});
}

static const int32_t *some_prompt(void) {
    static int32_t prompt[200];
    uint64_t noise = 21;
    random_tokens(&noise, prompt, 200, N_VOCAB - 3);
    return prompt;
}

/* ---- options ---- */

static void refuse(rf_engine *en, const rf_request_opts *o, int status, const char *what) {
    rf_text why;
    uint64_t id = 0;
    assert_int_equal(rf_engine_submit(en, o, &id, &why), status);
    if (!strstr(why.text, what)) fail_msg("'%s' does not say '%s'", why.text, what);
    assert_int_equal(id, 0);
    assert_int_equal(rf_engine_submit(en, o, NULL, NULL), status);
}

static void wrong_options(void **state) {
    (void)state;
    rf_engine *en = open_fixture();
    const rf_request_opts good = request_of(some_prompt(), 5, 4, NULL);
    static int32_t far[300], bad_high[] = {1, 128}, bad_low[] = {-1};
    static char longest[4098];
    memset(longest, 'x', sizeof longest - 1);
    const char *empty = "", *too_long = longest, *no_utf8 = "\xa9", *many[65];
    for (int i = 0; i < 65; i++)
        many[i] = "x";
    struct {
        rf_request_opts o;
        int status;
        const char *what;
    } cases[19];
    size_t n = 0;
#define CASE(assignment, status_, what_) \
    do {                                 \
        rf_request_opts o = good;        \
        assignment;                      \
        cases[n].o = o;                  \
        cases[n].status = (status_);     \
        cases[n++].what = (what_);       \
    } while (0)
    CASE(o.n_tokens = 0, ROCMFORGE_EARG, "the prompt has no tokens");
    CASE((o.tokens = far, o.n_tokens = 256), ROCMFORGE_EFULL, "the context holds 256");
    CASE((o.tokens = far, o.n_tokens = 300), ROCMFORGE_EFULL, "prompt has 300 tokens");
    CASE((o.tokens = bad_high, o.n_tokens = 2), ROCMFORGE_EARG, "token 1 of the prompt is 128");
    CASE((o.tokens = bad_low, o.n_tokens = 1), ROCMFORGE_EARG, "token 0 of the prompt is -1");
    CASE(o.max_tokens = 0, ROCMFORGE_EARG, "max_tokens is 0");
    CASE(o.max_tokens = -2, ROCMFORGE_EARG, "max_tokens is -2");
    CASE(o.n_logprobs = -2, ROCMFORGE_EARG, "logprobs is -2: it must lie between -1 and 20");
    CASE(o.n_logprobs = 21, ROCMFORGE_EARG, "logprobs is 21");
    CASE(o.priority = -101, ROCMFORGE_EARG, "priority is -101: it must lie between -100 and 100");
    CASE(o.priority = 101, ROCMFORGE_EARG, "priority is 101");
    CASE(o.weight = 1001, ROCMFORGE_EARG, "weight is 1001: it must not be over 1000");
    CASE((o.stop = many, o.n_stop = 65), ROCMFORGE_EARG, "65 stop strings; at most 64");
    CASE((o.stop = &empty, o.n_stop = 1), ROCMFORGE_EARG, "stop string 0 has 0 bytes");
    CASE((o.stop = &too_long, o.n_stop = 1), ROCMFORGE_EARG, "1 to 4096 are allowed");
    CASE((o.stop = &no_utf8, o.n_stop = 1), ROCMFORGE_EARG, "not valid UTF-8");
    CASE(o.sampling.top_p = 2, ROCMFORGE_EARG, "top_p is 2");
    CASE(o.sampling.temperature = NAN, ROCMFORGE_EARG, "temperature is");
    const rf_logit_bias bias = {N_VOCAB, 1};
    CASE((o.sampling.logit_bias = &bias, o.sampling.n_logit_bias = 1), ROCMFORGE_EARG,
         "logit_bias: token 128");
#undef CASE
    for (size_t i = 0; i < n; i++)
        refuse(en, &cases[i].o, cases[i].status, cases[i].what);
    assert_int_equal(rf_engine_step(en), 0); /* none of them was queued */
    rf_engine_close(en);
}

/* ---- lengths and ends ---- */

static void lengths(void **state) {
    (void)state;
    rf_engine *en = open_fixture();
    record whole = {0}, last = {0}, few = {0};
    rf_request_opts o = request_of(some_prompt(), 100, -1, &whole);
    o.ignore_eos = true;
    run_request(en, &o);
    assert_int_equal(whole.finish, RF_FINISH_LENGTH); /* the context of 256 is full */
    assert_int_equal(whole.n_tokens, 156);
    int32_t prompt[255];
    memcpy(prompt, some_prompt(), 100 * sizeof *prompt);
    memcpy(prompt + 100, whole.tokens, 155 * sizeof *prompt);
    o = request_of(prompt, 255, INT32_MAX, &last);
    o.ignore_eos = true;
    run_request(en, &o);
    assert_int_equal(last.n_tokens, 1);
    assert_int_equal(last.tokens[0], whole.tokens[155]);
    o = request_of(some_prompt(), 100, 7, &few);
    o.ignore_eos = true;
    run_request(en, &o);
    assert_int_equal(few.n_tokens, 7);
    assert_int_equal(few.finish, RF_FINISH_LENGTH);
    assert_memory_equal(few.tokens, whole.tokens, 7 * sizeof *few.tokens);
    assert_all_blocks_free(en);
    rf_engine_close(en);
}

/* The end token, made as likely as can be: it ends the text and is not part of it, it waits for
 * min_tokens, and ignore_eos makes it a token like any other.  Also logit bias end to end. */
static void ends_of_text(void **state) {
    (void)state;
    enum { EOS = 125, IM_END = 127 };
    rf_engine *en = open_fixture();
    assert_true(rf_engine_is_end(en, EOS) && rf_engine_is_end(en, IM_END));
    assert_false(rf_engine_is_end(en, 5));
    const rf_logit_bias bias = {EOS, 1000};
    record r = {0};
    rf_request_opts o = request_of(some_prompt(), 9, 20, &r);
    o.sampling.logit_bias = &bias;
    o.sampling.n_logit_bias = 1;
    run_request(en, &o);
    assert_int_equal(r.finish, RF_FINISH_STOP);
    assert_int_equal(r.n_tokens, 1);
    assert_int_equal(r.tokens[0], EOS);
    assert_int_equal(r.text.len, 0);
    r = (record){0};

    o.min_tokens = 5;
    run_request(en, &o);
    assert_int_equal(r.finish, RF_FINISH_STOP);
    assert_int_equal(r.n_tokens, 6);
    for (int i = 0; i < 5; i++)
        assert_false(rf_engine_is_end(en, r.tokens[i]));
    assert_true(r.text.len > 0);
    r = (record){0};

    o.min_tokens = 0;
    o.ignore_eos = true;
    run_request(en, &o);
    assert_int_equal(r.finish, RF_FINISH_LENGTH);
    assert_int_equal(r.n_tokens, 20);
    assert_int_equal(r.text.len, 0);
    r = (record){0};

    o.ignore_eos = false;
    o.with_special = true;
    run_request(en, &o);
    assert_true(rf_str_is((rf_str){r.text.p, r.text.len}, "<|endoftext|>"));
    r = (record){0};

    const rf_logit_bias never = {EOS, -INFINITY};
    o.sampling.logit_bias = &never;
    run_request(en, &o);
    for (uint32_t i = 0; i < r.n_tokens; i++)
        assert_int_not_equal(r.tokens[i], EOS);
    rf_engine_close(en);
}

/* ---- stop strings ---- */

/* Where the answer must end: at the first stop string in the text. */
static size_t stop_at(const told *text, const char *const *stop, size_t n) {
    size_t first = text->len;
    for (size_t i = 0; i < n; i++) {
        const char *at = memmem(text->p, text->len, stop[i], strlen(stop[i]));
        if (at && (size_t)(at - text->p) < first) first = (size_t)(at - text->p);
    }
    return first;
}

/* Any stretch of the text as stop string, so that most span tokens, together with ones that nearly
 * occur; held-back text comes out whole in the end. */
static void stop_strings(void **state) {
    (void)state;
    rf_engine *en = open_fixture();
    record whole = {0};
    rf_request_opts o = request_of(some_prompt(), 30, 40, &whole);
    o.ignore_eos = true;
    run_request(en, &o);
    assert_true(whole.text.len >= 40);
    uint64_t noise = 6;
    uint32_t n_stopped = 0;
    for (int round = 0; round < 150; round++) {
        char near[3][64];
        const char *stop[3] = {near[0], near[1], near[2]};
        for (int i = 0; i < 3; i++) {
            size_t from = rf_test_rand(&noise) % whole.text.len;
            size_t most = whole.text.len - from, len = 1 + rf_test_rand(&noise) % 12;
            len = len < most ? len : most;
            memcpy(near[i], whole.text.p + from, len);
            near[i][len] = 0;
            if (i > 0 || round % 3 == 0) near[i][len - 1] ^= 1; /* only the last byte is wrong */
        }
        record r = {0};
        o = request_of(some_prompt(), 30, 40, &r);
        o.ignore_eos = true;
        o.stop = stop;
        o.n_stop = 3;
        run_request(en, &o);
        size_t want = stop_at(&whole.text, stop, 3);
        assert_int_equal(r.text.len, want);
        if (want) assert_memory_equal(r.text.p, whole.text.p, want);
        assert_int_equal(r.finish, want < whole.text.len ? RF_FINISH_STOP : RF_FINISH_LENGTH);
        assert_memory_equal(r.tokens, whole.tokens, r.n_tokens * sizeof *r.tokens);
        n_stopped += r.finish == RF_FINISH_STOP;
    }
    assert_true(n_stopped > 60 && n_stopped < 150);
    rf_engine_close(en);
}

static size_t longest_hold; /* bytes of text not yet told while the request ran */
static void watch_hold(void *user, const rf_event *event) {
    const record *r = user;
    if (event->finish != RF_FINISH_NONE) return;
    size_t hold = event->n_generated - r->text.len; /* every token is one letter */
    longest_hold = hold > longest_hold ? hold : longest_hold;
}

/* Text is held back only while it may still turn into a stop string. */
static void held_back_text(void **state) {
    (void)state;
    vocab v = letters(N_VOCAB);
    rf_engine *en =
        open_engine((rf_engine_opts){.model_path = write_model(fixture, "letters.gguf", &v)});
    static const rf_logit_bias only_a[] = {{0, 1000}};
    static const struct {
        const char *stop;
        size_t hold;
    } cases[] = {{"b", 0}, {"ab", 1}, {"aaab", 3}, {"aaaaaaaaab", 9}, {"xaaa", 0}};
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        record r = {0};
        r.then = watch_hold;
        r.user = &r;
        longest_hold = 0;
        rf_request_opts o = request_of(some_prompt(), 3, 20, &r);
        o.sampling.logit_bias = only_a;
        o.sampling.n_logit_bias = 1;
        o.stop = &cases[i].stop;
        o.n_stop = 1;
        run_request(en, &o);
        assert_true(rf_str_is((rf_str){r.text.p, r.text.len}, "aaaaaaaaaaaaaaaaaaaa"));
        assert_int_equal(longest_hold, cases[i].hold);
    }
    rf_engine_close(en);
}

/* ---- characters ---- */

/* A vocabulary of pieces of characters: lead and continuation bytes, alone and in pairs and
 * triples, spelt in the byte alphabet of "gpt2" vocabularies (where these bytes stand for
 * themselves). */
static vocab broken_characters(void) {
    static const unsigned char bytes[] = {0xC3, 0xE2, 0xF0, 0xA9, 0xBF, 0xAC};
    vocab v = {.n = N_VOCAB, .eos = N_VOCAB - 1};
    size_t n = 0;
    for (size_t len = 1; n < N_VOCAB - 1; len++) {
        size_t all = 1;
        for (size_t i = 0; i < len; i++)
            all *= RF_COUNT(bytes);
        for (size_t code = 0; code < all && n < N_VOCAB - 1; code++, n++) {
            size_t left = code, used = 0;
            for (size_t i = 0; i < len; i++, left /= RF_COUNT(bytes))
                used += (size_t)rf_utf8_encode(bytes[left % RF_COUNT(bytes)], v.text[n] + used);
            v.kind[n] = 1;
        }
    }
    strcpy(v.text[n], "</s>");
    v.kind[n] = 3;
    return v;
}

/* The text of the whole answer, decoded at once: each maximal broken part is one U+FFFD. */
static void decode_at_once(const rf_engine *en, const record *r, told *out) {
    char bytes[MAX_ANSWER * 4];
    size_t len = 0;
    assert_int_equal(
        rf_engine_detokenize(en, r->tokens, r->n_tokens, false, bytes, sizeof bytes, &len, NULL),
        0);
    assert_true(len <= sizeof bytes);
    out->len = 0;
    for (size_t at = 0; at < len;) {
        uint32_t cp;
        size_t n = (size_t)rf_utf8_decode(bytes + at, len - at, &cp);
        if (n) {
            memcpy(out->p + out->len, bytes + at, n);
            out->len += n;
        } else {
            memcpy(out->p + out->len, "\xEF\xBF\xBD", 3);
            out->len += 3;
            for (n = 1; at + n < len && n < 3 && rf_utf8_is_partial(bytes + at, n + 1);)
                n++;
        }
        at += n;
    }
}

/* req: B-53 (tokens that are no whole characters); the harness checks every event's text */
static void whole_characters(void **state) {
    (void)state;
    vocab v = broken_characters();
    rf_engine *en =
        open_engine((rf_engine_opts){.model_path = write_model(fixture, "broken.gguf", &v)});
    uint32_t n_replaced = 0, n_whole = 0;
    static const char *const stops[] = {"\xC3\xA9\xC3\xA9", "\xEF\xBF\xBD\xC3\xBF"};
    for (uint64_t seed = 0; seed < 60; seed++) {
        record r = {0};
        told want;
        rf_request_opts o = request_of(some_prompt(), 5, 40, &r);
        o.sampling.temperature = 1.5f;
        o.sampling.top_k = 0;
        o.sampling.seed = seed;
        o.ignore_eos = true;
        if (seed % 2) o.stop = stops, o.n_stop = 2;
        run_request(en, &o);
        decode_at_once(en, &r, &want);
        size_t end = o.n_stop ? stop_at(&want, stops, 2) : want.len;
        assert_int_equal(r.text.len, end);
        if (end) assert_memory_equal(r.text.p, want.p, end);
        for (size_t i = 0; i < r.text.len; i++) {
            n_replaced += (unsigned char)r.text.p[i] == 0xEF;
            n_whole += (unsigned char)r.text.p[i] == 0xC3;
        }
    }
    assert_true(n_replaced > 100 && n_whole > 20);
    rf_engine_close(en);
}

/* req: B-45 (the size of the vocabulary comes from the file, and both places must agree) */
static void vocabulary_of_another_size(void **state) {
    (void)state;
    for (size_t n = N_VOCAB - 2; n <= N_VOCAB + 2; n += 4) {
        vocab v = letters(n);
        rf_engine *en;
        rf_text why;
        const rf_engine_opts o = {.model_path = write_model(fixture, "other.gguf", &v)};
        assert_int_equal(rf_engine_open(&en, &o, &why), ROCMFORGE_EFORMAT);
        assert_null(en);
        assert_non_null(strstr(why.text, "128 rows"));
        assert_non_null(strstr(why.text, n < N_VOCAB ? "126 tokens" : "130 tokens"));
    }
}

/* ---- callbacks ---- */

typedef struct chain {
    rf_engine *en;
    record r[4];
    rf_request_opts o[4];
    int next, refused;
} chain;

static bool never_called(void *user, size_t first, size_t n, const float *logits) {
    (void)user, (void)first, (void)n, (void)logits;
    fail_msg("logits from inside a callback");
    return false;
}

static void chain_on(void *user, const rf_event *event) {
    chain *c = user;
    if (event->finish == RF_FINISH_NONE && event->n_generated == 2) {
        c->refused += rf_engine_step(c->en) == -ROCMFORGE_EARG;
        c->refused +=
            rf_engine_logits(c->en, c->o[0].tokens, 1, never_called, NULL, NULL) == ROCMFORGE_EARG;
    }
    if (event->finish != RF_FINISH_NONE && c->next < 4) submit(c->en, &c->o[c->next++]);
}

static void submit_in_callback(void **state) {
    (void)state;
    chain c = {.en = open_fixture(), .next = 1};
    for (int i = 0; i < 4; i++) {
        c.o[i] = request_of(some_prompt(), 20, 5, &c.r[i]);
        c.o[i].ignore_eos = true;
        c.r[i].then = chain_on;
        c.r[i].user = &c;
    }
    submit(c.en, &c.o[0]);
    run_all(c.en);
    assert_int_equal(c.next, 4);
    assert_int_equal(c.refused, 8);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(c.r[i].n_ends, 1);
        assert_same_answer(&c.r[0], &c.r[i]);
    }
    assert_all_blocks_free(c.en);
    rf_engine_close(c.en);
}

typedef struct canceller {
    rf_engine *en;
    uint64_t also;
} canceller;

static void cancel_both(void *user, const rf_event *event) {
    const canceller *c = user;
    if (event->n_generated == 3) {
        rf_engine_cancel(c->en, event->request);
        rf_engine_cancel(c->en, c->also);
    }
}

/* Cancelled by itself while running, by another while waiting, before the first step, and too late.
 * req: C-11 */
static void cancels(void **state) {
    (void)state;
    rf_engine *en =
        open_engine((rf_engine_opts){.model_path = rf_test_data(fixture), .max_seqs = 1});
    record runs = {0}, waits = {0}, early = {0}, after = {0};
    canceller c = {.en = en};
    rf_request_opts o = request_of(some_prompt(), 20, 50, &runs);
    o.ignore_eos = true;
    runs.then = cancel_both;
    runs.user = &c;
    submit(en, &o);
    o.user = &waits;
    submit(en, &o);
    c.also = waits.id;
    o.user = &early;
    submit(en, &o);
    rf_engine_cancel(en, early.id);
    rf_engine_cancel(en, early.id);
    o.user = &after;
    o.max_tokens = 4;
    submit(en, &o);
    run_all(en);
    assert_int_equal(runs.finish, RF_FINISH_CANCELLED);
    assert_int_equal(runs.n_tokens, 3);
    assert_int_equal(waits.finish, RF_FINISH_CANCELLED);
    assert_int_equal(waits.n_tokens, 0);
    assert_int_equal(early.finish, RF_FINISH_CANCELLED);
    assert_int_equal(early.n_tokens, 0);
    assert_int_equal(after.finish, RF_FINISH_LENGTH);
    assert_memory_equal(after.tokens, runs.tokens, 3 * sizeof *runs.tokens);
    rf_engine_cancel(en, after.id); /* over already: nothing happens */
    assert_int_equal(rf_engine_step(en), 0);
    assert_all_blocks_free(en);
    record left = {0};
    o.user = &left;
    submit(en, &o);
    assert_int_equal(rf_engine_step(en), 1);
    rf_engine_close(en); /* with one still running: no callback, no leak */
    assert_int_equal(left.n_ends, 0);
}

/* Nobody listens: it runs all the same. */
static void without_callback(void **state) {
    (void)state;
    rf_engine *en = open_fixture();
    rf_request_opts o = request_of(some_prompt(), 20, 3, NULL);
    o.on_event = NULL;
    assert_int_equal(rf_engine_submit(en, &o, NULL, NULL), ROCMFORGE_OK);
    run_all(en);
    assert_all_blocks_free(en);
    rf_engine_close(en);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_options),
        cmocka_unit_test(lengths),
        cmocka_unit_test(ends_of_text),
        cmocka_unit_test(stop_strings),
        cmocka_unit_test(held_back_text),
        cmocka_unit_test(whole_characters),
        cmocka_unit_test(vocabulary_of_another_size),
        cmocka_unit_test(submit_in_callback),
        cmocka_unit_test(cancels),
        cmocka_unit_test(without_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
