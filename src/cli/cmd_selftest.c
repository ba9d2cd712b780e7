/* cmd_selftest.c - selftest: every GPU kernel against the CPU, on the user's own GPU. */
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "cli/session.h"

static const char *verdict_of(const rf_kernel_result *k) {
    return k->n_failed ? "FAILED" : k->n_cases ? "ok" : "not run";
}

static void print_facts(rf_buf *out, const rf_gpu_test *t) {
    const rf_gpu_device *g = &t->gpu;
    rf_buf_printf(out, "rocmforge %s\ngpu      %s (%s), %.1f GB%s\n", rf_version(), g->name,
                  g->arch, (double)g->mem_bytes / 1e9,
                  g->integrated ? ", shared with the CPU" : "");
    rf_buf_printf(out, "driver   %s, version %d\nkernels  for %s\nseed     %llu\n", g->library,
                  g->driver_version, g->target[0] ? g->target : g->arch,
                  (unsigned long long)t->seed);
}

static void print_table(rf_buf *out, const rf_gpu_test *t) {
    print_facts(out, t);
    rf_buf_printf(out, "\n%-22s %6s  %-7s  formats\n", "kernel", "cases", "result");
    for (size_t i = 0; i < t->n_kernels; i++) {
        const rf_kernel_result *k = &t->kernels[i];
        rf_buf_printf(out, "%-22s %6u  %-7s  %s\n", k->name, k->n_cases, verdict_of(k), k->formats);
        if (k->n_failed) rf_buf_printf(out, "    %u wrong; first %s\n", k->n_failed, k->text);
    }
    rf_buf_printf(out, "\n%zu kernels in %.1f s: %zu failed, %zu not run\n", t->n_kernels,
                  t->seconds, t->n_failed, t->n_untested);
}

static void print_json(rf_buf *out, const rf_gpu_test *t) {
    const rf_gpu_device *g = &t->gpu;
    const char *const facts[][2] = {
        {"name", g->name}, {"arch", g->arch}, {"target", g->target}, {"library", g->library}};
    rf_buf_printf(out, "{\"version\":\"%s\",\"gpu\":{", rf_version());
    for (size_t i = 0; i < RF_COUNT(facts); i++) {
        rf_buf_printf(out, "\"%s\":", facts[i][0]);
        rf_buf_json_str(out, rf_str_of(facts[i][1]));
        rf_buf_putc(out, ',');
    }
    rf_buf_printf(out, "\"driver_version\":%d,\"memory\":%llu},\"seed\":%llu,\"seconds\":%.3f,",
                  g->driver_version, (unsigned long long)g->mem_bytes, (unsigned long long)t->seed,
                  t->seconds);
    rf_buf_printf(out, "\"failed\":%zu,\"not_run\":%zu,\"kernels\":[", t->n_failed, t->n_untested);
    for (size_t i = 0; i < t->n_kernels; i++) {
        const rf_kernel_result *k = &t->kernels[i];
        rf_buf_printf(out, "%s{\"name\":\"%s\",\"cases\":%u,\"failed\":%u,\"formats\":\"%s\"",
                      i ? "," : "", k->name, k->n_cases, k->n_failed, k->formats);
        if (k->n_failed) {
            rf_buf_puts(out, ",\"text\":");
            rf_buf_json_str(out, rf_str_of(k->text));
        }
        rf_buf_putc(out, '}');
    }
    rf_buf_printf(out, "],\"ok\":%s}\n", t->n_failed ? "false" : "true");
}

static rf_status write_report(const char *path, const rf_gpu_test *t, rf_error *e) {
    rf_buf text = {0};
    print_table(&text, t);
    rf_status s =
        text.failed ? rf_fail_nomem(e, text.len) : rf_file_write(path, text.p, text.len, e);
    rf_buf_free(&text);
    return s;
}

static void print(rf_cli *c, const rf_gpu_test *t) {
    rf_buf out = {0};
    if (rf_cli_bool(c, RF_F_JSON)) {
        print_json(&out, t);
    } else {
        print_table(&out, t);
        if (t->n_failed)
            rf_buf_puts(&out, "The kernels that failed will not be used on this GPU; please send "
                              "what --report FILE writes to the project.\n");
        if (t->path[0]) rf_buf_printf(&out, "The verdict is kept in %s\n", t->path);
    }
    rf_cli_write(c, &out);
    rf_buf_free(&out);
}

int rf_cmd_selftest(rf_cli *c) {
    rf_gpu_test *t = NULL;
    rf_text why;
    rf_error e = {0};
    const char *report = rf_cli_str(c, RF_F_REPORT);
    uint64_t seed = rf_cli_given(c, RF_F_SEED) ? (uint64_t)rf_cli_int(c, RF_F_SEED)
                                               : rf_random_u64() >> 11; /* fits JSON's numbers */
    rf_status s = rf_session_error(
        rf_gpu_test_run((size_t)rf_cli_int(c, RF_F_ONE_DEVICE), seed, &t, &why), &why, &e);
    if (s == RF_OK) print(c, t);
    if (s == RF_OK && report) s = write_report(report, t, &e);
    bool failed = s == RF_OK && t->n_failed > 0;
    rf_gpu_test_free(t);
    if (s != RF_OK) return rf_cli_fail(c, &e);
    return failed ? RF_EXIT_FAILED : RF_EXIT_OK;
}
