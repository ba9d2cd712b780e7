/* test_prefix.c - prefix attention: the prompt sees itself both ways, what follows is causal.
 *
 * The logits are those of an independent implementation (tools/make_decoder_fixtures.py gives it the mask);
 * then however the engine is loaded, a request's answer is the one that these logits spell.
 *
 * req: C-06 */
#include "engine/harness.h"
#include "lib/run.h"

enum { N_TOKENS = 40, N_PREFIX = 24, N_VOCAB = 128, N_REQUESTS = 6 };

static const char *model_path(void) { return rf_test_data("models/chatglm-prefix.gguf"); }

static void read_tokens(int32_t *tokens) {
    uint32_t n =
        rf_test_read_tokens(rf_test_data("models/chatglm-prefix.tokens.txt"), tokens, N_TOKENS);
    assert_int_equal(n, N_TOKENS);
}

static void open_run(rf_test_run *r, const rf_backend_ops *ops, const uint32_t *n_prefix) {
    rf_test_run_open(r, ops, model_path(), (rf_test_run_opts){.n_seqs = 2, .n_threads = 1});
    assert_true(r->model->prefix);
    r->n_prefix = n_prefix;
}

static void logits_are_those_of_the_mask(void **state) {
    (void)state;
    const rf_backend_ops *const backends[] = {&rf_ref_ops, &rf_cpu_ops};
    const uint32_t n_prefix[2] = {N_PREFIX, 0};
    int32_t tokens[N_TOKENS];
    size_t n_bytes;
    float *want =
        (float *)(void *)rf_test_read(rf_test_data("models/chatglm-prefix.logits.f32"), &n_bytes);
    static float got[N_TOKENS * N_VOCAB], causal[N_TOKENS * N_VOCAB];
    assert_int_equal(n_bytes, sizeof got);
    read_tokens(tokens);
    for (size_t i = 0; i < RF_COUNT(backends); i++) {
        rf_test_run r;
        open_run(&r, backends[i], n_prefix);
        rf_test_run_text(&r, tokens, N_TOKENS, N_TOKENS, got);
        assert_true(rf_test_max_diff(got, want, RF_COUNT(got)) < 1e-4);
        r.n_prefix = NULL;
        rf_test_run_text(&r, tokens, N_TOKENS, N_TOKENS, causal);
        assert_true(rf_test_max_diff(causal, want, RF_COUNT(got)) > 0.1);
        rf_test_run_close(&r);
    }
    rf_free(want);
}

/* The prefix in one piece, the rest in any, beside a sequence of another prefix. */
static void cuts_and_company_change_nothing(void **state) {
    (void)state;
    uint32_t n_prefix[2] = {N_PREFIX, 0};
    int32_t tokens[N_TOKENS];
    static float whole[N_TOKENS * N_VOCAB];
    rf_test_run r;
    read_tokens(tokens);
    open_run(&r, &rf_cpu_ops, n_prefix);
    rf_test_run_text(&r, tokens, N_TOKENS, N_TOKENS, whole);
    const int32_t *texts[2] = {tokens, tokens + 7};
    uint32_t n[2] = {N_PREFIX + 1, 9}, pos[2] = {0, 0};
    n_prefix[1] = 5;
    for (uint32_t done = 0; done < N_TOKENS; done += n[0]) {
        pos[0] = done;
        if (done) n[0] = done == N_PREFIX + 1 ? 4 : 1, n[1] = 1;
        texts[0] = tokens + done;
        const float *got = rf_test_run_batch(&r, 2, n, pos, texts);
        assert_memory_equal(got, whole + done * N_VOCAB, n[0] * N_VOCAB * sizeof *got);
        pos[1] += n[1];
        texts[1] += n[1];
    }
    rf_test_run_close(&r);
}

/* ---- the engine ---- */

static rf_engine *open_prefix_engine(rf_engine_opts o) {
    o.model_path = model_path();
    o.kv_type = "f32";
    return open_engine(o);
}

/* The likeliest token of a row of logits. */
static int32_t likeliest(const float *logits) {
    int32_t best = 0;
    for (int32_t i = 1; i < N_VOCAB; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static void answers_are_spelled_by_the_logits(void **state) {
    (void)state;
    enum { N_ANSWER = 10 };
    const uint32_t n_prefix[2] = {N_PREFIX, 0};
    int32_t tokens[N_TOKENS];
    record r = {0};
    rf_test_run run;
    read_tokens(tokens);
    rf_engine *en = open_prefix_engine((rf_engine_opts){.batch_tokens = N_PREFIX, .max_seqs = 2});
    rf_request_opts o = request_of(tokens, N_PREFIX + 1, N_ANSWER, &r);
    o.ignore_eos = true;
    run_request(en, &o);
    assert_int_equal(r.n_tokens, N_ANSWER);
    open_run(&run, &rf_cpu_ops, n_prefix);
    const int32_t *text = tokens;
    uint32_t n = N_PREFIX + 1, pos = 0;
    for (uint32_t i = 0; i < N_ANSWER; i++) {
        const float *logits = rf_test_run_batch(&run, 1, &n, &pos, &text);
        int32_t next = likeliest(logits + (n - 1) * N_VOCAB);
        assert_int_equal(r.tokens[i], next);
        text = &r.tokens[i];
        pos += n;
        n = 1;
    }
    rf_test_run_close(&run);
    rf_engine_close(en);
}

static void make_prompt(int32_t *prompt, size_t *n, uint64_t *noise) {
    *n = 1 + rf_test_rand(noise) % 60;
    random_tokens(noise, prompt, *n, N_VOCAB);
}

/* Little memory, little room in a batch, prompts that come again: the same answers. */
static void load_changes_nothing(void **state) {
    (void)state;
    static record alone[N_REQUESTS], crowd[N_REQUESTS];
    static int32_t prompts[N_REQUESTS][64];
    size_t n[N_REQUESTS];
    uint64_t noise = 9;
    for (int i = 0; i < N_REQUESTS; i++) {
        make_prompt(prompts[i], &n[i], &noise);
        if (i == 3) memcpy(prompts[i], prompts[0], sizeof prompts[0]), n[i] = n[0];
        rf_engine *en = open_prefix_engine((rf_engine_opts){.max_seqs = 1});
        rf_request_opts o = request_of(prompts[i], n[i], 70, &alone[i]);
        o.ignore_eos = true;
        run_request(en, &o);
        rf_engine_close(en);
    }
    rf_engine *en = open_prefix_engine(
        (rf_engine_opts){.batch_tokens = 60, .max_seqs = 4, .n_ctx = 160, .n_kv_blocks = 5});
    for (int round = 0; round < 2; round++) {
        memset(crowd, 0, sizeof crowd);
        for (int i = 0; i < N_REQUESTS; i++) {
            rf_request_opts o = request_of(prompts[i], n[i], 70, &crowd[i]);
            o.ignore_eos = true;
            submit(en, &o);
            if (i % 2) rf_engine_step(en);
        }
        run_all(en);
        for (int i = 0; i < N_REQUESTS; i++) {
            assert_same_answer(&crowd[i], &alone[i]);
            assert_int_equal(crowd[i].n_cached, 0); /* nobody's keys are anybody else's */
        }
    }
    rf_engine_stats stats;
    rf_engine_get_stats(en, &stats);
    assert_true(stats.n_preemptions > 0);
    assert_all_blocks_free(en);
    rf_engine_close(en);
}

static void long_prompts_are_refused(void **state) {
    (void)state;
    int32_t tokens[N_TOKENS];
    record r = {0};
    rf_text why;
    uint64_t id;
    read_tokens(tokens);
    rf_engine *en = open_prefix_engine((rf_engine_opts){.batch_tokens = 16, .max_seqs = 1});
    rf_request_opts o = request_of(tokens, 18, 4, &r);
    assert_int_equal(rf_engine_submit(en, &o, &id, &why), ROCMFORGE_EFULL);
    assert_non_null(strstr(why.text, "a prompt of 18 tokens"));
    o.n_tokens = 17;
    run_request(en, &o);
    assert_int_equal(r.n_tokens, 4);
    rf_engine_close(en);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_the_mask),
        cmocka_unit_test(cuts_and_company_change_nothing),
        cmocka_unit_test(answers_are_spelled_by_the_logits),
        cmocka_unit_test(load_changes_nothing),
        cmocka_unit_test(long_prompts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
