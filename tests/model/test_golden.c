/* test_golden.c - a trained model in every number format against float64 references: logits of
 * prompts and the likelihood of a text, on the reference backend.
 *
 * Reads the shared golden data in place; each test says so and skips where it is absent. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fmath.h"
#include "base/json.h"
#include "lib/run.h"

/* Sanitizers make a whole text in every format last half an hour; a few formats show the same
 * code. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SLOW_BUILD 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SLOW_BUILD 1
#endif
#endif
#ifndef IS_SLOW_BUILD
#define IS_SLOW_BUILD 0
#endif

static rf_json *read_json(const char *path) {
    size_t n = 0;
    uint8_t *text = rf_test_read(path, &n);
    rf_json *j = NULL;
    rf_error e = {0};
    if (rf_json_parse(&j, (rf_str){(const char *)text, n}, &e) != RF_OK)
        fail_msg("%s: %s", path, e.text);
    rf_free(text);
    return j;
}

static const rf_json *get(const rf_json *o, const char *key) {
    const rf_json *j = rf_json_get(o, key);
    if (!j) fail_msg("golden file lacks %s", key);
    return j;
}

/* The ids of a JSON array, at most cap of them. */
static uint32_t read_ids(const rf_json *array, int32_t *out, uint32_t cap) {
    uint32_t n = (uint32_t)rf_json_len(array);
    if (n > cap) n = cap;
    for (uint32_t i = 0; i < n; i++)
        out[i] = (int32_t)rf_json_int(rf_json_at(array, i));
    return n;
}

/* A file of the model in all formats: prefix, the format's name, suffix. */
static const char *pad256(const char *prefix, const char *type, const char *suffix) {
    char name[200];
    snprintf(name, sizeof name, "models/stories260K-pad256/%s%s%s", prefix, type, suffix);
    return rf_test_shared(name);
}

/* Rows of all prompts of a golden file: n_rows_key of each, against [rows][n_vocab] f32 at
 * logits. */
static double compare_prompts(rf_test_run *r, const rf_json *golden, const char *n_rows_key,
                              const char *logits_path, double *max_abs) {
    size_t bytes = 0, row = 0, n_vocab = r->model->n_vocab;
    float *want = (float *)rf_test_read(logits_path, &bytes);
    const rf_json *prompts = get(golden, "prompts");
    size_t n_rows = bytes / sizeof(float) / n_vocab;
    float *got = rf_alloc(n_rows * n_vocab, sizeof *got);
    assert_non_null(got);
    for (size_t i = 0; i < rf_json_len(prompts); i++) {
        int32_t ids[512];
        const rf_json *p = rf_json_at(prompts, i);
        uint32_t n = (uint32_t)rf_json_int(get(p, n_rows_key));
        assert_true(read_ids(get(p, "tokens"), ids, RF_COUNT(ids)) >= n);
        assert_true(row + n <= n_rows);
        rf_test_run_text(r, ids, n, n, got + row * n_vocab);
        row += n;
    }
    assert_int_equal(row, n_rows);
    for (size_t i = 0; i < n_rows * n_vocab; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        if (d > *max_abs) *max_abs = d;
    }
    double diff = rf_test_max_diff(got, want, n_rows * n_vocab);
    rf_free(want);
    rf_free(got);
    return diff;
}

/* req: C-08 */
static void test_stories260k(void **state) {
    (void)state;
    RF_SKIP_WITHOUT(rf_test_shared("models"), "logits of stories260K");
    rf_test_run r;
    rf_test_run_open(&r, &rf_ref_ops, rf_test_shared("models/stories260K/stories260K-F32.gguf"),
                     (rf_test_run_opts){0});
    rf_json *golden =
        read_json(rf_test_shared("models/stories260K/golden/llamacpp-F32-kvf32.json"));
    double max_abs = 0;
    double diff = compare_prompts(
        &r, golden, "n_eval",
        rf_test_shared("models/stories260K/golden/reference-float64.logits.f32"), &max_abs);
    print_message("stories260K F32: max difference %.2e, of the largest logit %.2e\n", max_abs,
                  diff);
    assert_true(diff < 1e-4);
    rf_json_free(golden);
    rf_test_run_close(&r);
}

/* Negative log-likelihood per token over all stories, nats. */
static double story_nll(rf_test_run *r, const rf_json *stories, uint32_t *n_tokens) {
    double sum = 0;
    uint32_t n_scored = 0, n_vocab = r->model->n_vocab;
    float *logits = rf_alloc((size_t)512 * n_vocab, sizeof *logits);
    assert_non_null(logits);
    for (size_t i = 0; i < rf_json_len(stories); i++) {
        int32_t ids[512];
        const rf_json *story = rf_json_at(stories, i);
        assert_true(rf_json_len(story) <= RF_COUNT(ids));
        uint32_t n = read_ids(story, ids, RF_COUNT(ids));
        rf_test_run_text(r, ids, n, n, logits);
        for (uint32_t t = 0; t + 1 < n; t++, n_scored++) {
            const float *row = logits + (size_t)t * n_vocab;
            double top = (double)row[0], total = 0;
            for (uint32_t v = 1; v < n_vocab; v++)
                top = fmax(top, (double)row[v]);
            for (uint32_t v = 0; v < n_vocab; v++)
                total += rf_exp((double)row[v] - top);
            sum += top + rf_log(total) - (double)row[ids[t + 1]];
        }
    }
    rf_free(logits);
    *n_tokens = n_scored;
    return sum / n_scored;
}

static void check_likelihood(rf_test_run *r, const char *type, const rf_json *summary,
                             const rf_json *stories) {
    uint32_t n_tokens = 0;
    double nll = story_nll(r, stories, &n_tokens);
    double want = rf_json_real(get(summary, "nll_float64_dequantised"));
    print_message("%-8s NLL %.6f, off by %+.1e\n", type, nll, nll - want);
    assert_int_equal(n_tokens, rf_json_int(get(summary, "n_tokens")));
    if (!(fabs(nll - want) < 1e-4)) fail_msg("%s: NLL %g, expected %g", type, nll, want);
}

static void check_format(const char *type, const rf_json *summary, const rf_json *stories,
                         bool with_likelihood) {
    rf_test_run r;
    rf_test_run_open(&r, &rf_ref_ops, pad256("stories260K-pad256-", type, ".gguf"),
                     (rf_test_run_opts){0});
    rf_json *golden = read_json(pad256("golden/", type, ".json"));
    double max_abs = 0;
    double diff = compare_prompts(&r, golden, "n_prompt",
                                  pad256("golden/", type, ".ref-logits.f32"), &max_abs);
    print_message("%-8s logits differ by %.1e (of the largest %.1e)\n", type, max_abs, diff);
    if (!(diff < 1e-4)) fail_msg("%s: logits differ by %g", type, diff);
    if (with_likelihood)
        check_likelihood(&r, type, summary, stories);
    else
        print_message("%-8s likelihood left out: too slow under sanitizers\n", type);
    rf_json_free(golden);
    rf_test_run_close(&r);
}

/* Every number format runs in a model and gives what its exactly dequantised weights give.
 * req: C-14, B-48, B-57 */
static void test_every_format(void **state) {
    (void)state;
    RF_SKIP_WITHOUT(rf_test_shared("models"), "logits and likelihood of stories260K-pad256");
    rf_json *summary = read_json(rf_test_shared("models/stories260K-pad256/golden/summary.json"));
    rf_json *stories =
        read_json(rf_test_shared("models/stories260K-pad256/golden/story-tokens.json"));
    size_t n = rf_json_len(summary);
    assert_true(n >= 28);
    for (size_t i = 0; i < n; i++) {
        char type[32];
        const rf_json *row = rf_json_at(summary, i);
        rf_str name = rf_json_str(get(row, "type"));
        snprintf(type, sizeof type, "%.*s", RF_STR_ARG(name));
        check_format(type, row, get(stories, "tokens"), !IS_SLOW_BUILD || i % 14 == 3);
    }
    rf_json_free(summary);
    rf_json_free(stories);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stories260k),
        cmocka_unit_test(test_every_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
