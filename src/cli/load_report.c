/* load_report.c - figures of measurements as a table and as JSON. */
#include <math.h>
#include <stdlib.h>

#include "cli/load.h"

/* ---- samples ---- */

bool rf_load_sample(rf_load_samples *s, double ms) {
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        double *p = rf_realloc(s->p, s->cap, cap, sizeof *p);
        if (!p) return false;
        s->p = p;
        s->cap = cap;
    }
    s->p[s->n++] = ms;
    return true;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void rf_load_sort(rf_load_samples *s) {
    if (s->n > 1) qsort(s->p, s->n, sizeof *s->p, by_value);
}

double rf_load_mean(const rf_load_samples *s) {
    double sum = 0;
    for (size_t i = 0; i < s->n; i++)
        sum += s->p[i];
    return s->n ? sum / (double)s->n : 0;
}

double rf_load_percentile(const rf_load_samples *s, double p) {
    if (s->n == 0) return 0;
    double rank = ceil(p * (double)s->n / 100);
    size_t i = rank < 1 ? 0 : (size_t)rank - 1;
    return s->p[i < s->n ? i : s->n - 1];
}

void rf_load_result_free(rf_load_result *r) {
    rf_free(r->ttft.p);
    rf_free(r->itl.p);
    rf_free(r->tpot.p);
    rf_free(r->e2e.p);
}

/* ---- the rows of both forms ---- */

typedef enum unit { COUNT, PER_SECOND, SECONDS } unit;
typedef struct row {
    const char *name, *key;
    unit unit;
    double (*value)(const rf_load_result *r);
} row;

static double per_second(const rf_load_result *r, double n) {
    return r->seconds > 0 ? n / r->seconds : 0;
}
static double completed(const rf_load_result *r) { return (double)r->n_completed; }
static double failed(const rf_load_result *r) { return (double)r->n_failed; }
static double cancelled(const rf_load_result *r) { return (double)r->n_cancelled; }
static double prompt_tokens(const rf_load_result *r) { return (double)r->prompt_tokens; }
static double cached_tokens(const rf_load_result *r) { return (double)r->cached_tokens; }
static double output_tokens(const rf_load_result *r) { return (double)r->output_tokens; }
static double short_answers(const rf_load_result *r) { return (double)r->n_short; }
static double seconds(const rf_load_result *r) { return r->seconds; }
static double requests_rate(const rf_load_result *r) {
    return per_second(r, (double)r->n_completed);
}
static double output_rate(const rf_load_result *r) {
    return per_second(r, (double)r->output_tokens);
}
static double total_rate(const rf_load_result *r) {
    return per_second(r, (double)(r->prompt_tokens + r->output_tokens));
}

static const row rows[] = {
    {"requests completed", "completed", COUNT, completed},
    {"requests failed", "failed", COUNT, failed},
    {"requests that the client cancelled", "cancelled", COUNT, cancelled},
    {"answers of another length than asked", "other_length", COUNT, short_answers},
    {"prompt tokens", "prompt_tokens", COUNT, prompt_tokens},
    {"of these from the cache", "cached_tokens", COUNT, cached_tokens},
    {"output tokens", "output_tokens", COUNT, output_tokens},
    {"duration, s", "seconds", SECONDS, seconds},
    {"requests/s", "requests_per_second", PER_SECOND, requests_rate},
    {"output tokens/s", "output_tokens_per_second", PER_SECOND, output_rate},
    {"total tokens/s", "total_tokens_per_second", PER_SECOND, total_rate},
};

typedef struct times {
    const char *name, *key;
    size_t at; /* of the samples in rf_load_result */
} times;
static const times all_times[] = {
    {"TTFT", "ttft_ms", offsetof(rf_load_result, ttft)},
    {"inter-token", "itl_ms", offsetof(rf_load_result, itl)},
    {"per output token", "tpot_ms", offsetof(rf_load_result, tpot)},
    {"end to end", "e2e_ms", offsetof(rf_load_result, e2e)},
};
static const int percentiles[] = {50, 90, 95, 99};

static const rf_load_samples *samples_of(const rf_load_result *r, const times *t) {
    return (const rf_load_samples *)(const void *)((const char *)r + t->at);
}

/* ---- table ---- */

static void put_cells(const double *values, size_t n, int digits, bool ratio, rf_buf *out) {
    for (size_t k = 0; k < n; k++)
        rf_buf_printf(out, " %.*f |", digits, values[k]);
    if (n == 2 && ratio && values[1] > 0)
        rf_buf_printf(out, " %.3f |", values[0] / values[1]);
    else if (n == 2)
        rf_buf_puts(out, " |");
    rf_buf_putc(out, '\n');
}

static void put_times(const rf_load_result *r, size_t n, const times *t, rf_buf *out) {
    double values[2];
    for (size_t k = 0; k < n; k++)
        values[k] = rf_load_mean(samples_of(&r[k], t));
    rf_buf_printf(out, "| %s, ms: mean |", t->name);
    put_cells(values, n, 2, true, out);
    for (size_t p = 0; p < RF_COUNT(percentiles); p++) {
        for (size_t k = 0; k < n; k++)
            values[k] = rf_load_percentile(samples_of(&r[k], t), percentiles[p]);
        rf_buf_printf(out, "| %s, ms: p%d |", t->name, percentiles[p]);
        put_cells(values, n, 2, true, out);
    }
}

static void put_notes(const rf_load_result *r, char letter, rf_buf *out) {
    rf_buf_printf(out, "%c: %s, model %s, prompts of %s, %zu requests after %zu to warm up", letter,
                  r->url, r->model, r->as_tokens ? "token ids" : "words", r->n_sent, r->n_warmup);
    if (r->n_warmup_failed) rf_buf_printf(out, " (%zu of these failed)", r->n_warmup_failed);
    if (r->interrupted)
        rf_buf_printf(out, "; interrupted: %zu of %zu requests never sent or not finished",
                      r->n_asked - r->n_completed - r->n_failed - r->n_cancelled, r->n_asked);
    rf_buf_putc(out, '\n');
    if (r->n_idle)
        rf_buf_printf(out, "   %zu idle connections, %zu of them opened, %zu open at the end\n",
                      r->n_idle, r->n_idle_opened, r->n_idle_kept);
    for (size_t k = 0; k < r->n_kinds; k++)
        rf_buf_printf(out, "   %zu failed: %s (%s)\n", r->errors[k].n, r->errors[k].kind,
                      r->errors[k].example);
}

void rf_load_report_text(const rf_load_result *r, size_t n, rf_buf *out) {
    for (size_t k = 0; k < n; k++)
        put_notes(&r[k], (char)('A' + (int)k), out);
    rf_buf_puts(out,
                n == 2 ? "\n| | A | B | A / B |\n|---|---|---|---|\n" : "\n| | A |\n|---|---|\n");
    for (size_t i = 0; i < RF_COUNT(rows); i++) {
        double values[2];
        for (size_t k = 0; k < n; k++)
            values[k] = rows[i].value(&r[k]);
        rf_buf_printf(out, "| %s |", rows[i].name);
        put_cells(values, n, rows[i].unit == COUNT ? 0 : 2, rows[i].unit != COUNT, out);
    }
    for (size_t i = 0; i < RF_COUNT(all_times); i++)
        put_times(r, n, &all_times[i], out);
}

/* ---- JSON ---- */

static void json_times(const rf_load_samples *s, rf_buf *out) {
    rf_buf_printf(out, "{\"n\":%zu,\"mean\":%.4f", s->n, rf_load_mean(s));
    for (size_t p = 0; p < RF_COUNT(percentiles); p++)
        rf_buf_printf(out, ",\"p%d\":%.4f", percentiles[p], rf_load_percentile(s, percentiles[p]));
    rf_buf_printf(out, ",\"min\":%.4f,\"max\":%.4f}", rf_load_percentile(s, 0),
                  rf_load_percentile(s, 100));
}

static void json_server(const rf_load_result *r, rf_buf *out) {
    rf_buf_puts(out, "{\"url\":");
    rf_buf_json_str(out, rf_str_of(r->url));
    rf_buf_puts(out, ",\"model\":");
    rf_buf_json_str(out, rf_str_of(r->model));
    rf_buf_printf(out,
                  ",\"prompts\":\"%s\",\"interrupted\":%s,\"requests\":%zu,\"sent\":%zu,"
                  "\"warmup\":%zu,\"warmup_failed\":%zu,\"idle_opened\":%zu,\"idle_kept\":%zu",
                  r->as_tokens ? "tokens" : "words", r->interrupted ? "true" : "false", r->n_asked,
                  r->n_sent, r->n_warmup, r->n_warmup_failed, r->n_idle_opened, r->n_idle_kept);
    for (size_t i = 0; i < RF_COUNT(rows); i++)
        rf_buf_printf(out, ",\"%s\":%.*f", rows[i].key, rows[i].unit == COUNT ? 0 : 6,
                      rows[i].value(r));
    rf_buf_puts(out, ",\"errors\":[");
    for (size_t k = 0; k < r->n_kinds; k++) {
        rf_buf_puts(out, k ? ",{\"kind\":" : "{\"kind\":");
        rf_buf_json_str(out, rf_str_of(r->errors[k].kind));
        rf_buf_printf(out, ",\"count\":%zu,\"example\":", r->errors[k].n);
        rf_buf_json_str(out, rf_str_of(r->errors[k].example));
        rf_buf_putc(out, '}');
    }
    rf_buf_putc(out, ']');
    for (size_t i = 0; i < RF_COUNT(all_times); i++) {
        rf_buf_printf(out, ",\"%s\":", all_times[i].key);
        json_times(samples_of(r, &all_times[i]), out);
    }
    rf_buf_putc(out, '}');
}

static void json_workload(const rf_load_opts *o, const rf_load_work *w, rf_buf *out) {
    rf_buf_printf(out,
                  "{\"workload\":\"%s\",\"seed\":%llu,\"n_prefix\":%u,\"n_prompt\":%u,"
                  "\"n_gen\":%u,\"spread\":%g,\"temperature\":%g,\"top_k\":%u,\"top_p\":%g,"
                  "\"cancel\":%g,\"idle_connections\":%u,",
                  w->shared_prefix ? "shared-prefix" : "random", (unsigned long long)w->seed,
                  w->shared_prefix ? w->n_prefix : 0, w->n_prompt, w->n_gen, w->spread,
                  w->temperature, w->top_k, w->top_p, w->cancel, o->n_idle);
    if (o->rate > 0)
        rf_buf_printf(out, "\"rate\":%g,\"concurrency\":null", o->rate);
    else
        rf_buf_printf(out, "\"rate\":null,\"concurrency\":%u", o->concurrency);
}

/* Of the rates: the first server's over the second's; null where the second has none. */
static void json_ratios(const rf_load_result *r, rf_buf *out) {
    const char *comma = ",\"ratios\":{";
    for (size_t i = 0; i < RF_COUNT(rows); i++) {
        double b = rows[i].value(&r[1]);
        if (rows[i].unit != PER_SECOND) continue;
        rf_buf_printf(out, "%s\"%s\":", comma, rows[i].key);
        if (b > 0)
            rf_buf_printf(out, "%.4f", rows[i].value(&r[0]) / b);
        else
            rf_buf_puts(out, "null");
        comma = ",";
    }
    rf_buf_putc(out, '}');
}

void rf_load_report_json(const rf_load_opts *o, const rf_load_work *w, const rf_load_result *r,
                         size_t n, rf_buf *out) {
    json_workload(o, w, out);
    rf_buf_puts(out, ",\"servers\":[");
    for (size_t k = 0; k < n; k++) {
        if (k) rf_buf_putc(out, ',');
        json_server(&r[k], out);
    }
    rf_buf_putc(out, ']');
    if (n == 2) json_ratios(r, out);
    rf_buf_puts(out, "}\n");
}
