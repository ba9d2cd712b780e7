/* bench_report.c - results of `rocmforge bench` as Markdown, CSV and JSON. */
#include <stdio.h>

#include "cli/bench.h"

void rf_bench_name(const rf_bench *b, const rf_bench_test *t, char *out, size_t cap) {
    char depth[32] = "", streams[32] = "", threads[32] = "";
    bool several = false;
    for (size_t i = 0; i < b->n_tests; i++)
        several |= b->tests[i].threads != t->threads;
    if (t->depth) snprintf(depth, sizeof depth, " @ d%u", t->depth);
    if (t->streams > 1) snprintf(streams, sizeof streams, ", %u streams", t->streams);
    if (several)
        snprintf(threads, sizeof threads, ", %d thread%s", t->threads, t->threads == 1 ? "" : "s");
    snprintf(out, cap, "%s%u%s%s%s", t->is_prompt ? "pp" : "tg", t->n, depth, streams, threads);
}

double rf_bench_peak_ops(const rf_bench *b, size_t i) {
    return b->model.is_float ? b->peak[i].f32_ops : b->peak[i].int8_ops;
}

static double share(double value, double peak) { return peak > 0 ? 100 * value / peak : 0; }

void rf_bench_markdown(const rf_bench *b, rf_buf *out) {
    const rf_probe *peak = &b->peak[0];
    const bool known = peak->read_bytes > 0;
    rf_buf_printf(out, "%s, %.1f M parameters, %.1f MB of weights, %s\n", b->model_name,
                  (double)b->info.n_params / 1e6, (double)b->info.weight_bytes / 1e6, b->backend);
    if (known)
        rf_buf_printf(out,
                      "Measured beside it, %d thread%s: reads %.1f GB/s, int8 %.0f GOPS, f32 %.0f "
                      "GFLOPS.\n",
                      b->tests[0].threads, b->tests[0].threads == 1 ? "" : "s",
                      peak->read_bytes * 1e-9, peak->int8_ops * 1e-9, peak->f32_ops * 1e-9);
    rf_buf_printf(out, "\n| test | tokens/s (median) | min | max |%s%s\n|---|---|---|---|%s%s\n",
                  known ? " of read rate | of peak |" : "", b->peer ? " peer | ratio |" : "",
                  known ? "---|---|" : "", b->peer ? "---|---|" : "");
    for (size_t i = 0; i < b->n_tests; i++) {
        const rf_bench_test *t = &b->tests[i];
        char name[128];
        rf_bench_name(b, t, name, sizeof name);
        rf_buf_printf(out, "| %s | %.2f | %.2f | %.2f |", name, t->ours.median, t->ours.min,
                      t->ours.max);
        if (known)
            rf_buf_printf(out, " %.0f %% | %.0f %% |", share(t->bytes, b->peak[i].read_bytes),
                          share(t->ops, rf_bench_peak_ops(b, i)));
        if (b->peer && t->peer.each)
            rf_buf_printf(out, " %.2f | %.2f |", t->peer.median, t->ratio);
        else if (b->peer)
            rf_buf_puts(out, " | |");
        rf_buf_puts(out, "\n");
    }
    for (size_t i = 0; i < b->n_tests; i++)
        if (b->tests[i].n_drafted)
            rf_buf_printf(out, "\ntg%u: %u of %u guesses were right\n", b->tests[i].n,
                          b->tests[i].n_accepted, b->tests[i].n_drafted);
}

void rf_bench_csv(const rf_bench *b, rf_buf *out) {
    rf_buf_puts(out,
                "test,n,depth,streams,threads,tokens_per_second,min,max,weight_bytes_per_second,"
                "operations_per_second,read_peak,operations_peak,peer,ratio\n");
    for (size_t i = 0; i < b->n_tests; i++) {
        const rf_bench_test *t = &b->tests[i];
        rf_buf_printf(out, "%s,%u,%u,%u,%d,%.3f,%.3f,%.3f,%.0f,%.0f,%.0f,%.0f,",
                      t->is_prompt ? "pp" : "tg", t->n, t->depth, t->streams, t->threads,
                      t->ours.median, t->ours.min, t->ours.max, t->bytes, t->ops,
                      b->peak[i].read_bytes, rf_bench_peak_ops(b, i));
        if (t->peer.each)
            rf_buf_printf(out, "%.3f,%.4f\n", t->peer.median, t->ratio);
        else
            rf_buf_puts(out, ",\n");
    }
}

static void put_runs(const rf_bench_rates *r, size_t n, rf_buf *out) {
    for (size_t k = 0; k < n; k++)
        rf_buf_printf(out, "%s%.3f", k ? "," : "", r->each[k]);
}

static void put_test(const rf_bench *b, size_t i, rf_buf *out) {
    const rf_bench_test *t = &b->tests[i];
    rf_buf_printf(out,
                  "%s{\"test\":\"%s%u\",\"depth\":%u,\"streams\":%u,\"threads\":%d,"
                  "\"tokens_per_second\":%.3f,\"runs\":[",
                  i ? "," : "", t->is_prompt ? "pp" : "tg", t->n, t->depth, t->streams, t->threads,
                  t->ours.median);
    put_runs(&t->ours, b->n_reps, out);
    rf_buf_printf(out,
                  "],\"weight_bytes_per_second\":%.0f,\"operations_per_second\":%.0f,"
                  "\"draft_n\":%u,\"draft_n_accepted\":%u",
                  t->bytes, t->ops, t->n_drafted, t->n_accepted);
    if (b->peak[i].read_bytes > 0)
        rf_buf_printf(out, ",\"share_of_read_rate\":%.4f,\"share_of_peak\":%.4f",
                      t->bytes / b->peak[i].read_bytes, t->ops / rf_bench_peak_ops(b, i));
    if (t->peer.each) {
        rf_buf_printf(out, ",\"peer_tokens_per_second\":%.3f,\"ratio\":%.4f,\"peer_runs\":[",
                      t->peer.median, t->ratio);
        put_runs(&t->peer, b->n_reps, out);
        rf_buf_puts(out, "]");
    }
    rf_buf_puts(out, "}");
}

void rf_bench_json(const rf_bench *b, rf_buf *out) {
    rf_buf_puts(out, "{\"model\":");
    rf_buf_json_str(out, rf_str_of(b->model_name));
    rf_buf_puts(out, ",\"backend\":");
    rf_buf_json_str(out, rf_str_of(b->backend));
    rf_buf_printf(out, ",\"parameters\":%llu,\"weight_bytes\":%llu,\"peak_memory_bytes\":%llu",
                  (unsigned long long)b->info.n_params, (unsigned long long)b->info.weight_bytes,
                  (unsigned long long)rf_mem_peak_rss());
    if (b->peak[0].read_bytes > 0)
        rf_buf_printf(
            out,
            ",\"peaks\":{\"read_bytes_per_second\":%.0f,\"int8_operations_per_second\":%.0f,"
            "\"f32_operations_per_second\":%.0f}",
            b->peak[0].read_bytes, b->peak[0].int8_ops, b->peak[0].f32_ops);
    rf_buf_puts(out, ",\"results\":[");
    for (size_t i = 0; i < b->n_tests; i++)
        put_test(b, i, out);
    rf_buf_puts(out, "]}\n");
}
