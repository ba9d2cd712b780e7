/* test_stories.c - a real trained model in every number format against golden figures: logits and
 * negative log-likelihood of a float64 forward pass, and another engine's greedy tokens.
 *
 * Reads the shared golden data in place and is skipped where that is absent. */
#include <stdio.h>

#include "backend/session.h"
#include "base/json.h"

enum { MAX_STORY = 256, MAX_PROMPTS = 8 };

static rf_json *read_json(const char *relative) {
    const char *path = rf_test_shared(relative);
    assert_non_null(path);
    size_t n;
    uint8_t *text = rf_test_read(path, &n);
    rf_json *j = NULL;
    rf_error e = {0};
    must(rf_json_parse(&j, (rf_str){(const char *)text, n}, &e), &e);
    rf_free(text);
    return j;
}

static uint32_t tokens_of(const rf_json *array, int32_t out[MAX_STORY]) {
    uint32_t n = (uint32_t)rf_json_len(array);
    assert_in_range(n, 1, MAX_STORY);
    for (uint32_t i = 0; i < n; i++)
        out[i] = (int32_t)rf_json_int(rf_json_at(array, i));
    return n;
}

static double log_probability(const float *logits, uint32_t n, int32_t id) {
    double top = -HUGE_VAL, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        top = fmax(top, (double)logits[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - top);
    return (double)logits[id] - top - log(sum);
}

static rf_model *open_shared(const char *family, const char *type) {
    char relative[200];
    snprintf(relative, sizeof relative, "models/%s/%s-%s.gguf", family, family, type);
    const char *path = rf_test_shared(relative);
    assert_non_null(path);
    return open_model(path);
}

/* Nats per token over all stories, each in a window of its own. */
static double story_nll(const rf_model *m, const rf_json *stories, uint32_t *n_tokens) {
    session_opts o = session_defaults();
    session s = open_session(m, &o);
    double nll = 0;
    *n_tokens = 0;
    for (size_t i = 0; i < rf_json_len(stories); i++) {
        int32_t token[MAX_STORY];
        uint32_t n = tokens_of(rf_json_at(stories, i), token);
        float *logits = logits_of(&s, token, n - 1, SESSION_ROWS);
        for (uint32_t t = 1; t < n; t++) {
            nll -= log_probability(logits + (size_t)(t - 1) * m->n_vocab, m->n_vocab, token[t]);
        }
        *n_tokens += n - 1;
        rf_free(logits);
    }
    close_session(&s);
    return nll / *n_tokens;
}

/* The prompts' rows of T.ref-logits.f32: float64 over the dequantised weights. */
static void check_logits(const rf_model *m, const char *type, double limit) {
    char relative[200];
    snprintf(relative, sizeof relative, "models/stories260K-pad256/golden/%s.json", type);
    rf_json *golden = read_json(relative);
    snprintf(relative, sizeof relative, "models/stories260K-pad256/golden/%s.ref-logits.f32", type);
    size_t n_bytes, row = 0;
    float *want = (float *)(void *)rf_test_read(rf_test_shared(relative), &n_bytes);
    const rf_json *prompts = rf_json_get(golden, "prompts");
    session_opts o = session_defaults();
    session s = open_session(m, &o);
    double worst = 0;
    for (size_t i = 0; i < rf_json_len(prompts); i++) {
        const rf_json *p = rf_json_at(prompts, i);
        int32_t token[MAX_STORY];
        (void)tokens_of(rf_json_get(p, "tokens"), token);
        uint32_t n = (uint32_t)rf_json_int(rf_json_get(p, "n_prompt"));
        float *got = logits_of(&s, token, n, 16);
        for (size_t k = 0; k < (size_t)n * m->n_vocab; k++) {
            worst = fmax(worst, fabs((double)got[k] - (double)want[row * m->n_vocab + k]));
        }
        row += n;
        rf_free(got);
    }
    assert_int_equal(n_bytes, row * m->n_vocab * sizeof *want);
    if (!(worst <= limit))
        fail_msg("%s: logits differ by %g, expected up to %g", type, worst, limit);
    print_message("%-8s largest difference of a logit %.2e (allowed %.2e)", type, worst, limit);
    close_session(&s);
    rf_free(want);
    rf_json_free(golden);
}

/* Float weights must agree to rounding; elsewhere activations are quantised, as they are in the other
 * engine, whose distance from the truth the summary gives: ours may be twice that. */
static void test_formats(void **state) {
    (void)state;
    RF_SKIP_WITHOUT(rf_test_shared("models"), "logits and likelihood per number format");
    rf_json *summary = read_json("models/stories260K-pad256/golden/summary.json");
    rf_json *stories = read_json("models/stories260K-pad256/golden/story-tokens.json");
    assert_true(rf_json_len(summary) >= 28);
    for (size_t i = 0; i < rf_json_len(summary); i++) {
        const rf_json *row = rf_json_at(summary, i);
        char type[20];
        rf_str name = rf_json_str(rf_json_get(row, "type"));
        snprintf(type, sizeof type, "%.*s", RF_STR_ARG(name));
        rf_dtype dtype;
        assert_true(rf_dtype_from_name(name, &dtype));
        rf_model *m = open_shared("stories260K-pad256", type);
        double theirs = rf_json_real(rf_json_get(row, "max_abs_logit_diff_llamacpp_vs_ref"));
        bool is_float = rf_dtype_get(dtype)->view == RF_INT_NONE;
        check_logits(m, type, is_float ? 2e-4 : 2 * theirs);
        uint32_t n;
        double nll = story_nll(m, rf_json_get(stories, "tokens"), &n);
        double want = rf_json_real(rf_json_get(row, "nll_float64_dequantised"));
        print_message("   nll %.5f (%.5f)\n", nll, want);
        assert_int_equal(n, rf_json_int(rf_json_get(row, "n_tokens")));
        /* Formats of one or two bits without much training behind them leave a model that knows
         * next to nothing; there the same noise moves the likelihood more. */
        double limit = want < 3 ? 0.005 : 0.0025 * want;
        if (!(fabs(nll - want) <= limit)) fail_msg("%s: nll %g, expected %g", type, nll, want);
        rf_model_close(m);
    }
    rf_json_free(summary);
    rf_json_free(stories);
}

static int32_t best_of(const float *logits, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (logits[i] > logits[best]) best = i;
    }
    return (int32_t)best;
}

typedef struct greedy {
    uint32_t n; /* prompts */
    uint32_t n_prompt[MAX_PROMPTS], n_want[MAX_PROMPTS];
    int32_t want[MAX_PROMPTS][MAX_STORY], got[MAX_PROMPTS][MAX_STORY];
    sequence q[MAX_PROMPTS];
} greedy;

static void read_greedy(greedy *g) {
    rf_json *golden = read_json("models/stories260K/golden/llamacpp-F32-kvf32.json");
    const rf_json *prompts = rf_json_get(golden, "prompts");
    g->n = (uint32_t)rf_json_len(prompts);
    assert_in_range(g->n, 1, MAX_PROMPTS);
    for (uint32_t i = 0; i < g->n; i++) {
        const rf_json *p = rf_json_at(prompts, i);
        g->n_prompt[i] = (uint32_t)rf_json_int(rf_json_get(p, "n_prompt"));
        g->n_want[i] = tokens_of(rf_json_get(p, "tokens"), g->want[i]);
        g->q[i] = (sequence){.token = g->got[i], .n = g->n_want[i]};
        memcpy(g->got[i], g->want[i], g->n_prompt[i] * sizeof(int32_t));
        for (uint32_t k = 0; k < SESSION_BLOCKS; k++)
            g->q[i].table[k] = k * g->n + i;
    }
    rf_json_free(golden);
}

/* One step: prompts that were not read yet, then a token of each other sequence.  The number of
 * tokens found; 0 at the end. */
static uint32_t greedy_step(session *s, greedy *g) {
    batch b;
    uint32_t in_batch[MAX_PROMPTS], n = 0;
    batch_clear(&b);
    for (uint32_t i = 0; i < g->n; i++) {
        sequence *q = &g->q[i];
        uint32_t rows = q->done ? 1 : g->n_prompt[i];
        if (q->done + 1 >= q->n || b.b.n_tokens + rows > SESSION_ROWS) continue;
        batch_add(&b, q, rows);
        q->done += rows;
        batch_want(&b, b.b.n_tokens - 1);
        in_batch[n++] = i;
    }
    if (n == 0) return 0;
    const float *logits = batch_run(s, &b);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = in_batch[k];
        g->got[i][g->q[i].done] = best_of(logits + (size_t)k * s->n_vocab, s->n_vocab);
    }
    return n;
}

/* All prompts at once, continued greedily. */
static void test_greedy(void **state) {
    (void)state;
    RF_SKIP_WITHOUT(rf_test_shared("models"), "greedy tokens of stories260K");
    static greedy g;
    uint32_t n_found = 0;
    read_greedy(&g);
    rf_model *m = open_shared("stories260K", "F32");
    session_opts o = session_defaults();
    o.limits.n_kv_blocks = MAX_PROMPTS * SESSION_BLOCKS;
    session s = open_session(m, &o);
    for (uint32_t n = 1; n > 0; n_found += n)
        n = greedy_step(&s, &g);
    for (uint32_t i = 0; i < g.n; i++) {
        assert_memory_equal(g.got[i], g.want[i], g.n_want[i] * sizeof(int32_t));
    }
    assert_int_equal(n_found, 120 * g.n);
    close_session(&s);
    rf_model_close(m);
}

/* Every position of those texts against a float64 forward pass. */
static void test_float64(void **state) {
    (void)state;
    RF_SKIP_WITHOUT(rf_test_shared("models"), "float64 logits of stories260K");
    static greedy g;
    read_greedy(&g);
    size_t n_bytes, row = 0;
    const char *path = rf_test_shared("models/stories260K/golden/reference-float64.logits.f32");
    assert_non_null(path);
    float *want = (float *)(void *)rf_test_read(path, &n_bytes);
    rf_model *m = open_shared("stories260K", "F32");
    session_opts o = session_defaults();
    session s = open_session(m, &o);
    for (uint32_t i = 0; i < g.n; i++) {
        uint32_t n = g.n_want[i];
        float *got = logits_of(&s, g.want[i], n, 50);
        double d = relative_difference(got, want + row * m->n_vocab, (size_t)n * m->n_vocab);
        if (!(d <= 1e-5)) fail_msg("prompt %u: relative difference %g", i, d);
        row += n;
        rf_free(got);
    }
    assert_int_equal(n_bytes, row * m->n_vocab * sizeof *want);
    rf_free(want);
    close_session(&s);
    rf_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_float64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
