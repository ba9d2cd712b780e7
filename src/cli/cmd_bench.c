/* cmd_bench.c - tokens per second of prompt processing (ppN) and generation (tgN): at depths, for
 * several answers at once, with several numbers of threads, beside another engine's program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

/* ---- one run ---- */

/* The requests of one run, all in flight together. */
typedef struct flight {
    rf_bench *b;
    uint32_t n_streams, n_started, n_finished;
    uint64_t n_tokens; /* generated, of all */
    rf_event last;
    rf_error error;
} flight;

typedef struct stream {
    flight *f;
    uint32_t n_generated;
} stream;

static void on_event(void *user, const rf_event *event) {
    stream *s = user;
    flight *f = s->f;
    if (s->n_generated == 0 && event->n_generated > 0) f->n_started++;
    f->n_tokens += event->n_generated - s->n_generated;
    s->n_generated = event->n_generated;
    f->last = *event;
    if (event->finish == RF_FINISH_NONE) return;
    f->n_finished++;
    if (event->finish == RF_FINISH_ERROR)
        rf_fail(&f->error, RF_EDEVICE, "%s", event->error ? event->error : "failed");
}

/* A prompt of n tokens: different in every round, and alike in its first tokens within one. */
static rf_status submit(stream *s, uint32_t number, uint32_t n, uint32_t max_tokens, rf_error *e) {
    const rf_bench *b = s->f->b;
    int32_t *tokens = rf_alloc(n, sizeof *tokens);
    if (!tokens) return rf_fail_nomem(e, n * sizeof *tokens);
    const uint64_t seed = UINT64_C(104729) * b->round + UINT64_C(15485863) * number;
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (int32_t)((UINT64_C(7919) * i + seed) % b->info.n_vocab);
    rf_request_opts o = {
        .tokens = tokens,
        .n_tokens = n,
        .sampling = rf_sampling_default(),
        .max_tokens = (int32_t)max_tokens,
        .n_logprobs = -1,
        .ignore_eos = true,
        .on_event = on_event,
        .user = s,
    };
    o.sampling.temperature = 0;
    rf_text why;
    rf_status status = rf_session_error(rf_engine_submit(b->en, &o, NULL, &why), &why, e);
    rf_free(tokens);
    return status;
}

/* Prompts of n tokens with answers of max_tokens; *us and *tokens: the time in which all were being
 * answered, and the tokens generated then. */
static rf_status fly(flight *f, stream *streams, uint32_t n, uint32_t max_tokens, uint64_t *us,
                     uint64_t *tokens, rf_error *e) {
    uint64_t start = 0, end = 0, at_start = 0, at_end = 0;
    *f = (flight){.b = f->b, .n_streams = f->n_streams};
    for (uint32_t i = 0; i < f->n_streams; i++) {
        streams[i] = (stream){.f = f};
        RF_TRY(submit(&streams[i], i, n, max_tokens, e));
    }
    for (bool busy = true; busy;) {
        busy = rf_engine_step(f->b->en) > 0;
        if (rf_cli_interrupted()) return rf_fail(e, RF_ECANCELLED, "interrupted");
        if (start == 0 && f->n_started == f->n_streams) {
            start = rf_time_us();
            at_start = f->n_tokens;
        } else if (start > 0 && end == 0 && f->n_finished > 0) {
            end = rf_time_us();
            at_end = f->n_tokens;
        }
    }
    *us = end > start ? end - start : 1;
    *tokens = at_end - at_start;
    if (f->error.status != RF_OK) *e = f->error;
    return f->error.status;
}

/* One run of a test: the tokens before its depth are computed first and found again. */
static rf_status run_ours(rf_bench *b, rf_bench_test *t, double *rate, rf_error *e) {
    flight f = {.b = b, .n_streams = t->streams};
    uint64_t us, tokens;
    stream *streams = rf_alloc(t->streams, sizeof *streams);
    if (!streams) return rf_fail_nomem(e, t->streams * sizeof *streams);
    b->round++;
    rf_status s = t->depth ? fly(&f, streams, t->depth, 1, &us, &tokens, e) : RF_OK;
    if (s == RF_OK && t->is_prompt) {
        s = fly(&f, streams, t->depth + t->n, 1, &us, &tokens, e);
        us = f.last.prompt_us;
        tokens = f.last.n_prompt - f.last.n_cached;
    } else if (s == RF_OK) {
        s = fly(&f, streams, t->depth ? t->depth : 1, t->n + 1, &us, &tokens, e);
    }
    rf_free(streams);
    *rate = (double)tokens * 1e6 / (double)(us ? us : 1);
    t->n_drafted = f.last.n_drafted;
    t->n_accepted = f.last.n_accepted;
    return s;
}

/* ---- tests ---- */

static rf_status open_engine(rf_bench *b, int threads, rf_error *e) {
    uint32_t n_ctx = 0, streams = 1;
    rf_text why;
    if (b->en && b->open_threads == threads) return RF_OK;
    rf_engine_close(b->en);
    b->en = NULL;
    for (size_t i = 0; i < b->n_tests; i++) {
        const rf_bench_test *t = &b->tests[i];
        n_ctx = t->n + t->depth + 2 > n_ctx ? t->n + t->depth + 2 : n_ctx;
        streams = t->streams > streams ? t->streams : streams;
    }
    rf_engine_opts o = {
        .model_path = b->path,
        .kv_type = rf_cli_str(b->c, RF_F_KV_TYPE),
        .n_threads = threads,
        .n_ctx = n_ctx,
        .batch_tokens = (uint32_t)rf_cli_int(b->c, RF_F_BATCH),
        .max_seqs = streams,
        .n_kv_blocks = (n_ctx / 32 + 2) * (streams + 1),
    };
    RF_TRY(rf_session_where(b->c, &o, e));
    rf_session_speculation(b->c, &o);
    RF_TRY(rf_session_error(rf_engine_open(&b->en, &o, &why), &why, e));
    rf_engine_settle(b->en);
    if (!b->backend[0]) rf_session_announce(b->c, b->en);
    b->open_threads = threads;
    rf_engine_get_info(b->en, &b->info);
    snprintf(b->model_name, sizeof b->model_name, "%s", b->info.model_name);
    snprintf(b->backend, sizeof b->backend, "%s", b->info.backend);
    return RF_OK;
}

static int by_rate(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Median, least and most of n numbers, which are put in order. */
static void summarise(double *v, size_t n, double *median, double *min, double *max) {
    qsort(v, n, sizeof *v, by_rate);
    *median = (v[(n - 1) / 2] + v[n / 2]) / 2;
    *min = v[0];
    *max = v[n - 1];
}

static rf_status summarise_test(const rf_bench *b, rf_bench_test *t, rf_error *e) {
    const size_t n = b->n_reps;
    double low, high, *v = rf_alloc(n, sizeof *v);
    if (!v) return rf_fail_nomem(e, n * sizeof *v);
    memcpy(v, t->ours.each, n * sizeof *v);
    summarise(v, n, &t->ours.median, &t->ours.min, &t->ours.max);
    if (t->peer.each) {
        memcpy(v, t->peer.each, n * sizeof *v);
        summarise(v, n, &t->peer.median, &t->peer.min, &t->peer.max);
        for (size_t i = 0; i < n; i++)
            v[i] = t->ours.each[i] / t->peer.each[i];
        summarise(v, n, &t->ratio, &low, &high);
    }
    rf_free(v);
    const rf_bench_model *m = &b->model;
    const uint32_t batch = b->info.batch_tokens;
    double rows = t->is_prompt ? (t->n < batch ? t->n : batch) : t->streams;
    double token_ops =
        (double)m->layer_ops + (t->is_prompt ? (double)m->out_ops / t->n : (double)m->out_ops);
    t->ops = t->ours.median * token_ops;
    t->bytes = t->ours.median / rows * (double)m->token_bytes;
    t->intensity = token_ops * rows / (double)(m->token_bytes ? m->token_bytes : 1);
    return RF_OK;
}

/* One run by us and one by the peer, in turns; the first of ours warms up and does not count. */
static rf_status run_test(rf_bench *b, rf_bench_test *t, rf_progress *progress, uint64_t *done,
                          rf_error *e) {
    double warm_up;
    RF_TRY(open_engine(b, t->threads, e));
    t->ours.each = rf_alloc(b->n_reps, sizeof *t->ours.each);
    if (!t->ours.each) return rf_fail_nomem(e, b->n_reps * sizeof *t->ours.each);
    if (b->peer && t->streams == 1) {
        t->peer.each = rf_alloc(b->n_reps, sizeof *t->peer.each);
        if (!t->peer.each) return rf_fail_nomem(e, b->n_reps * sizeof *t->peer.each);
    }
    RF_TRY(run_ours(b, t, &warm_up, e));
    rf_progress_step(progress, ++*done);
    for (size_t i = 0; i < b->n_reps; i++) {
        RF_TRY(run_ours(b, t, &t->ours.each[i], e));
        if (t->peer.each) RF_TRY(rf_bench_run_peer(b, t, &t->peer.each[i], e));
        rf_progress_step(progress, ++*done);
    }
    return summarise_test(b, t, e);
}

/* ---- flags ---- */

enum { MAX_LIST = 64 };

/* The numbers of a flag that may be given several times, as lists separated by commas too. */
static rf_status read_list(rf_bench *b, rf_flag_id flag, const char *usual, long min, long max,
                           uint32_t *out, size_t *n, rf_error *e) {
    const char *const *list;
    size_t n_texts = rf_cli_list(b->c, flag, &list);
    if (n_texts == 0) n_texts = 1, list = &usual;
    *n = 0;
    for (size_t i = 0; i < n_texts; i++)
        for (const char *p = list[i];; p++) {
            char *end;
            long v = strtol(p, &end, 10);
            if (end == p || (*end && *end != ',') || v < min || v > max)
                return rf_fail(e, RF_EARG, "--%s: '%.40s' is not a number between %ld and %ld",
                               rf_flag_get(flag)->name, list[i], min, max);
            if (*n == MAX_LIST)
                return rf_fail(e, RF_EARG, "--%s: more than %d numbers", rf_flag_get(flag)->name,
                               MAX_LIST);
            out[(*n)++] = (uint32_t)v;
            p = end;
            if (!*p) break;
        }
    return RF_OK;
}

static rf_status add_test(rf_bench *b, bool is_prompt, uint32_t n, uint32_t depth, uint32_t streams,
                          uint32_t threads, rf_error *e) {
    if (n == 0) return RF_OK; /* leaves this kind out */
    if (b->n_tests == RF_BENCH_MAX_TESTS)
        return rf_fail(e, RF_EARG, "more than %d tests", RF_BENCH_MAX_TESTS);
    b->tests[b->n_tests++] = (rf_bench_test){.is_prompt = is_prompt,
                                             .n = n,
                                             .depth = depth,
                                             .streams = streams,
                                             .threads = threads ? (int)threads : rf_core_count()};
    return RF_OK;
}

static rf_status add_tests(rf_bench *b, rf_error *e) {
    uint32_t p[MAX_LIST], n[MAX_LIST], d[MAX_LIST], s[MAX_LIST], t[MAX_LIST];
    size_t n_p, n_n, n_d, n_s, n_t;
    RF_TRY(read_list(b, RF_F_BENCH_P, "512", 0, RF_BENCH_MAX_LENGTH, p, &n_p, e));
    RF_TRY(read_list(b, RF_F_BENCH_N, "128", 0, RF_BENCH_MAX_LENGTH, n, &n_n, e));
    RF_TRY(read_list(b, RF_F_BENCH_DEPTH, "0", 0, RF_BENCH_MAX_LENGTH, d, &n_d, e));
    RF_TRY(read_list(b, RF_F_BENCH_STREAMS, "1", 1, 1024, s, &n_s, e));
    RF_TRY(read_list(b, RF_F_BENCH_THREADS, "0", 0, 1024, t, &n_t, e));
    for (size_t k = 0; k < n_t; k++)
        for (size_t j = 0; j < n_d; j++) {
            for (size_t i = 0; i < n_p; i++)
                RF_TRY(add_test(b, true, p[i], d[j], 1, t[k], e));
            for (size_t i = 0; i < n_n; i++)
                for (size_t m = 0; m < n_s; m++)
                    RF_TRY(add_test(b, false, n[i], d[j], s[m], t[k], e));
        }
    if (b->n_tests == 0) return rf_fail(e, RF_EARG, "nothing to measure: both -p 0 and -n 0");
    return RF_OK;
}

/* The machine's peaks for every number of threads, when the CPU computes. */
static rf_status measure_peaks(rf_bench *b, rf_error *e) {
    rf_isa isa;
    if (strncmp(b->backend, "cpu", 3) != 0) return RF_OK;
    RF_TRY(rf_isa_choose(&isa, e));
    for (size_t i = 0; i < b->n_tests; i++) {
        if (i > 0 && b->tests[i].threads == b->tests[i - 1].threads)
            b->peak[i] = b->peak[i - 1];
        else
            RF_TRY(rf_probe_machine(isa, b->tests[i].threads, &b->peak[i], e));
    }
    return RF_OK;
}

static rf_status write_plot(const rf_bench *b, const char *path, rf_error *e) {
    rf_buf svg = {0};
    if (b->peak[0].read_bytes <= 0)
        return rf_fail(e, RF_EARG, "--plot: the roofline is that of the CPU; add --backend cpu");
    rf_bench_plot(b, &svg);
    rf_status s = svg.failed ? rf_fail_nomem(e, svg.len) : rf_file_write(path, svg.p, svg.len, e);
    rf_buf_free(&svg);
    return s;
}

static rf_status run(rf_bench *b, rf_error *e) {
    uint64_t done = 0;
    b->peer = rf_cli_str(b->c, RF_F_COMPARE);
    RF_TRY(add_tests(b, e));
    RF_TRY(rf_cli_model_path(b->c, &b->path, e));
    RF_TRY(rf_bench_read_model(&b->model, b->path, e));
    RF_TRY(open_engine(b, b->tests[0].threads, e));
    RF_TRY(measure_peaks(b, e));
    rf_cli_catch_interrupts();
    rf_progress progress;
    rf_progress_start(&progress, b->c, "measuring", b->n_tests * (b->n_reps + 1));
    rf_status s = RF_OK;
    for (size_t i = 0; s == RF_OK && i < b->n_tests; i++)
        s = run_test(b, &b->tests[i], &progress, &done, e);
    rf_progress_end(&progress);
    if (s == RF_OK && rf_cli_str(b->c, RF_F_ROOFLINE))
        s = write_plot(b, rf_cli_str(b->c, RF_F_ROOFLINE), e);
    return s;
}

int rf_cmd_bench(rf_cli *c) {
    const char *format = rf_cli_str(c, RF_F_BENCH_FORMAT);
    rf_error e = {0};
    rf_buf out = {0};
    bool csv = strcmp(format, "csv") == 0, json = strcmp(format, "json") == 0;
    if (!csv && !json && strcmp(format, "md") != 0)
        return rf_cli_usage(c, "--format: '%.40s' is none of md, csv and json", format);
    rf_bench *b = rf_alloc(1, sizeof *b);
    if (!b) {
        rf_fail_nomem(&e, sizeof *b);
        return rf_cli_fail(c, &e);
    }
    b->c = c;
    b->n_reps = (size_t)rf_cli_int(c, RF_F_REPS);
    rf_status s = run(b, &e);
    if (s == RF_OK)
        (json || rf_cli_bool(c, RF_F_JSON) ? rf_bench_json
         : csv                             ? rf_bench_csv
                                           : rf_bench_markdown)(b, &out);
    rf_cli_write(c, &out);
    rf_buf_free(&out);
    rf_engine_close(b->en);
    for (size_t i = 0; i < b->n_tests; i++) {
        rf_free(b->tests[i].ours.each);
        rf_free(b->tests[i].peer.each);
    }
    rf_free(b);
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}
