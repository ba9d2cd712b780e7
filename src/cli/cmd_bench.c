/* cmd_bench.c - tokens per second of prompt processing (ppN) and generation (tgN). */
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/session.h"

enum { MAX_TESTS = 64, MAX_LENGTH = 1 << 20 };

typedef struct test {
    bool is_prompt; /* ppN, else tgN */
    uint32_t n;
    double *rates; /* [n_reps] tokens per second */
    double median;
} test;

typedef struct bench {
    rf_cli *c;
    rf_engine *en;
    rf_engine_info info;
    test tests[MAX_TESTS];
    size_t n_tests, n_reps;
    uint32_t round; /* a different prompt each time, so that no prefix is reused */
    rf_event last;
    rf_error error;
} bench;

static void on_event(void *user, const rf_event *event) {
    bench *b = user;
    b->last = *event;
    if (event->finish == RF_FINISH_ERROR)
        rf_fail(&b->error, RF_EDEVICE, "%s", event->error ? event->error : "failed");
}

/* A prompt of n tokens, its answer of n_answer; the time of the part asked for. */
static rf_status measure(bench *b, uint32_t n_prompt, uint32_t n_answer, rf_error *e) {
    int32_t *tokens = rf_alloc(n_prompt, sizeof *tokens);
    if (!tokens) return rf_fail_nomem(e, n_prompt * sizeof *tokens);
    b->round++;
    for (uint32_t i = 0; i < n_prompt; i++)
        tokens[i] = (int32_t)((UINT64_C(7919) * i + UINT64_C(104729) * b->round) % b->info.n_vocab);
    rf_request_opts o = {
        .tokens = tokens,
        .n_tokens = n_prompt,
        .sampling = rf_sampling_default(),
        .max_tokens = (int32_t)n_answer,
        .n_logprobs = -1,
        .ignore_eos = true,
        .on_event = on_event,
        .user = b,
    };
    o.sampling.temperature = 0;
    rf_text why;
    rf_status s = rf_session_error(rf_engine_submit(b->en, &o, NULL, &why), &why, e);
    rf_free(tokens);
    if (s != RF_OK) return s;
    while (rf_engine_step(b->en) > 0)
        if (rf_cli_interrupted()) return rf_fail(e, RF_ECANCELLED, "interrupted");
    if (b->error.status != RF_OK) *e = b->error;
    return b->error.status;
}

static int by_rate(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static rf_status run_test(bench *b, test *t, rf_progress *progress, uint64_t *done, rf_error *e) {
    t->rates = rf_alloc(b->n_reps, sizeof *t->rates);
    if (!t->rates) return rf_fail_nomem(e, b->n_reps * sizeof *t->rates);
    for (size_t i = 0; i <= b->n_reps; i++) { /* the first run warms up and does not count */
        RF_TRY(t->is_prompt ? measure(b, t->n, 1, e) : measure(b, 1, t->n + 1, e));
        uint64_t us = t->is_prompt ? b->last.prompt_us : b->last.decode_us;
        if (i > 0) t->rates[i - 1] = (double)t->n * 1e6 / (double)(us ? us : 1);
        rf_progress_step(progress, ++*done);
    }
    double *sorted = rf_alloc(b->n_reps, sizeof *sorted);
    if (!sorted) return rf_fail_nomem(e, b->n_reps * sizeof *sorted);
    memcpy(sorted, t->rates, b->n_reps * sizeof *sorted);
    qsort(sorted, b->n_reps, sizeof *sorted, by_rate);
    t->median = (sorted[(b->n_reps - 1) / 2] + sorted[b->n_reps / 2]) / 2;
    rf_free(sorted);
    return RF_OK;
}

static rf_status add_tests(bench *b, rf_flag_id flag, bool is_prompt, const char *usual,
                           rf_error *e) {
    const char *const *list;
    size_t n = rf_cli_list(b->c, flag, &list);
    if (n == 0) n = 1, list = &usual;
    for (size_t i = 0; i < n; i++) {
        char *end;
        long len = strtol(list[i], &end, 10);
        if (end == list[i] || *end || len < 0 || len > MAX_LENGTH)
            return rf_fail(e, RF_EARG, "--%s: '%.40s' is not a number of tokens between 0 and %d",
                           rf_flag_get(flag)->name, list[i], MAX_LENGTH);
        if (len == 0) continue; /* leaves this kind out */
        if (b->n_tests == MAX_TESTS) return rf_fail(e, RF_EARG, "more than %d tests", MAX_TESTS);
        b->tests[b->n_tests++] = (test){.is_prompt = is_prompt, .n = (uint32_t)len};
    }
    return RF_OK;
}

static void report_json(bench *b, rf_buf *out) {
    rf_buf_puts(out, "{\"model\":");
    rf_buf_json_str(out, rf_str_of(b->info.model_name));
    rf_buf_puts(out, ",\"backend\":");
    rf_buf_json_str(out, rf_str_of(b->info.backend));
    rf_buf_printf(
        out, ",\"parameters\":%llu,\"weight_bytes\":%llu,\"peak_memory_bytes\":%llu,\"results\":[",
        (unsigned long long)b->info.n_params, (unsigned long long)b->info.weight_bytes,
        (unsigned long long)rf_mem_peak_rss());
    for (size_t i = 0; i < b->n_tests; i++) {
        const test *t = &b->tests[i];
        rf_buf_printf(out, "%s{\"test\":\"%s%u\",\"tokens_per_second\":%.3f,\"runs\":[",
                      i ? "," : "", t->is_prompt ? "pp" : "tg", t->n, t->median);
        for (size_t k = 0; k < b->n_reps; k++)
            rf_buf_printf(out, "%s%.3f", k ? "," : "", t->rates[k]);
        rf_buf_puts(out, "]}");
    }
    rf_buf_puts(out, "]}\n");
}

static void report_table(bench *b, rf_buf *out) {
    rf_buf_printf(out, "%s, %.1f M parameters, %.1f MB of weights, %s\n\n", b->info.model_name,
                  (double)b->info.n_params / 1e6, (double)b->info.weight_bytes / 1e6,
                  b->info.backend);
    rf_buf_puts(out, "| test | tokens/s (median) | min | max |\n|---|---|---|---|\n");
    for (size_t i = 0; i < b->n_tests; i++) {
        const test *t = &b->tests[i];
        double lo = t->rates[0], hi = lo;
        for (size_t k = 1; k < b->n_reps; k++) {
            lo = t->rates[k] < lo ? t->rates[k] : lo;
            hi = t->rates[k] > hi ? t->rates[k] : hi;
        }
        rf_buf_printf(out, "| %s%u | %.2f | %.2f | %.2f |\n", t->is_prompt ? "pp" : "tg", t->n,
                      t->median, lo, hi);
    }
}

static rf_status run(bench *b, rf_error *e) {
    uint32_t longest = 0;
    uint64_t done = 0;
    RF_TRY(add_tests(b, RF_F_BENCH_P, true, "512", e));
    RF_TRY(add_tests(b, RF_F_BENCH_N, false, "128", e));
    if (b->n_tests == 0) return rf_fail(e, RF_EARG, "nothing to measure: both -p 0 and -n 0");
    for (size_t i = 0; i < b->n_tests; i++)
        longest = b->tests[i].n > longest ? b->tests[i].n : longest;
    RF_TRY(rf_session_open(b->c, longest + 2, &b->en, e));
    rf_engine_get_info(b->en, &b->info);
    rf_cli_catch_interrupts();
    rf_progress progress;
    rf_progress_start(&progress, b->c, "measuring", b->n_tests * (b->n_reps + 1));
    rf_status s = RF_OK;
    for (size_t i = 0; s == RF_OK && i < b->n_tests; i++)
        s = run_test(b, &b->tests[i], &progress, &done, e);
    rf_progress_end(&progress);
    return s;
}

int rf_cmd_bench(rf_cli *c) {
    bench *b = rf_alloc(1, sizeof *b);
    rf_error e = {0};
    rf_buf out = {0};
    if (!b) {
        rf_fail_nomem(&e, sizeof *b);
        return rf_cli_fail(c, &e);
    }
    b->c = c;
    b->n_reps = (size_t)rf_cli_int(c, RF_F_REPS);
    rf_status s = run(b, &e);
    if (s == RF_OK && rf_cli_bool(c, RF_F_JSON))
        report_json(b, &out);
    else if (s == RF_OK)
        report_table(b, &out);
    rf_cli_write(c, &out);
    rf_buf_free(&out);
    rf_engine_close(b->en);
    for (size_t i = 0; i < b->n_tests; i++)
        rf_free(b->tests[i].rates);
    rf_free(b);
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}
