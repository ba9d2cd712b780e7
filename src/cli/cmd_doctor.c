/* cmd_doctor.c - doctor: is this machine fit, and what will be used; version. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/doctor.h"

void rf_doctor_find(rf_doctor *r, const char *what, bool ok, const char *cure, const char *fmt,
                    ...) {
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->n_bad += !ok;
    if (r->json) {
        rf_buf_printf(&r->out, "%s{\"check\":\"%s\",\"ok\":%s,\"text\":", r->n ? "," : "", what,
                      ok ? "true" : "false");
        rf_buf_json_str(&r->out, rf_str_of(text));
        rf_buf_puts(&r->out, ",\"cure\":");
        if (cure)
            rf_buf_json_str(&r->out, rf_str_of(cure));
        else
            rf_buf_puts(&r->out, "null");
        rf_buf_putc(&r->out, '}');
    } else {
        const char *green = rf_cli_color(r->c) ? "\033[32m" : "",
                   *red = rf_cli_color(r->c) ? "\033[31m" : "";
        rf_buf_printf(&r->out, "%s%-4s%s %-14s %s%s%s\n", ok ? green : red, ok ? "ok" : "BAD",
                      rf_cli_color(r->c) ? "\033[0m" : "", what, text, cure ? "; " : "",
                      cure ? cure : "");
    }
    r->n++;
}

static void check_cpu(rf_doctor *r) {
    rf_isa isa;
    rf_error e = {0};
    if (rf_isa_choose(&isa, &e) != RF_OK)
        rf_doctor_find(r, "instructions", false, NULL, "%s", e.text);
    else
        rf_doctor_find(r, "instructions", true, NULL, "%s kernels%s", rf_isa_name(isa),
                       isa == rf_isa_best() ? "" : " (lowered by RF_CPU)");
    rf_nodes nodes;
    char where[32] = "";
    rf_find_nodes(&nodes);
    if (nodes.n > 1) snprintf(where, sizeof where, " on %d nodes", nodes.n);
    rf_doctor_find(r, "processors", true, NULL, "%d, %d cores%s", rf_cpu_count(), rf_core_count(),
                   where);
}

static void check_memory(rf_doctor *r) {
    uint64_t total = rf_mem_total(), available = rf_mem_available();
    bool low = total && available < (UINT64_C(256) << 20);
    rf_doctor_find(r, "memory", !low, low ? "close other programs" : NULL,
                   "%.1f GB, %.1f GB of it free", (double)total / 1e9, (double)available / 1e9);
    bool huge = rf_has_huge_pages();
    rf_doctor_find(r, "huge pages", true,
                   huge ? NULL
                        : "'echo madvise > /sys/kernel/mm/transparent_hugepage/enabled' as root "
                          "makes answers of the CPU up to a quarter faster",
                   huge ? "for programs that ask" : "none for programs that ask");
}

/* The demo model is there, opens, and computes. */
static void check_demo(rf_doctor *r) {
    rf_engine *en = NULL;
    rf_error e = {0};
    const char *path;
    rf_text why;
    rf_status s = rf_cli_model_path(r->c, &path, &e);
    if (s == RF_OK) {
        const rf_engine_opts o = {.model_path = path,
                                  .backend = "auto",
                                  .n_threads = (int)rf_cli_int(r->c, RF_F_THREADS)};
        s = rf_session_error(rf_engine_open(&en, &o, &why), &why, &e);
    }
    rf_request_opts o = {
        .sampling = rf_sampling_default(), .max_tokens = 4, .n_logprobs = -1, .ignore_eos = true};
    rf_ids ids = {0};
    if (s == RF_OK) s = rf_session_tokenize(en, RF_STR("Hello"), true, false, &ids, &e);
    o.tokens = ids.p;
    o.n_tokens = ids.len;
    if (s == RF_OK) s = rf_session_error(rf_engine_submit(en, &o, NULL, &why), &why, &e);
    int step = 1;
    while (s == RF_OK && step > 0)
        step = rf_engine_step(en);
    if (s == RF_OK && step < 0)
        s = rf_fail(&e, (rf_status)-step, "the backend failed: %s",
                    rf_status_name((rf_status)-step));
    rf_engine_info info;
    if (s == RF_OK) {
        rf_engine_get_info(en, &info);
        rf_doctor_find(r, "demo model", true, NULL, "answers on %s", info.backend);
    } else {
        rf_doctor_find(r, "demo model", false, NULL, "%s", e.text);
    }
    rf_ids_free(&ids);
    rf_engine_close(en);
}

int rf_cmd_doctor(rf_cli *c) {
    rf_doctor r = {.c = c, .json = rf_cli_bool(c, RF_F_JSON)};
    if (r.json) rf_buf_puts(&r.out, "{\"checks\":[");
    check_cpu(&r);
    check_memory(&r);
    rf_doctor_gpus(&r);
    check_demo(&r);
    if (r.json) rf_buf_printf(&r.out, "],\"ok\":%s}\n", r.n_bad ? "false" : "true");
    rf_cli_write(c, &r.out);
    rf_buf_free(&r.out);
    return r.n_bad ? RF_EXIT_FAILED : RF_EXIT_OK;
}

int rf_cmd_version(rf_cli *c) {
    rf_buf out = {0};
    const char *compiler =
#if defined(__clang__)
        "clang " __clang_version__;
#else
        "gcc " __VERSION__;
#endif
    if (rf_cli_bool(c, RF_F_JSON)) {
        rf_buf_printf(&out, "{\"version\":\"%s\",\"compiler\":", rf_version());
        rf_buf_json_str(&out, rf_str_of(compiler));
        rf_buf_puts(&out, ",\"backends\":[\"cpu\",\"gpu\",\"ref\"],\"cpu_levels\":[");
        for (int isa = 0; isa < RF_ISA_COUNT; isa++)
            rf_buf_printf(&out, "%s\"%s\"", isa ? "," : "", rf_isa_name((rf_isa)isa));
        rf_buf_puts(&out, "],\"gpu_targets\":[");
        for (size_t i = 0; rf_gpu_target(i); i++)
            rf_buf_printf(&out, "%s\"%s\"", i ? "," : "", rf_gpu_target(i));
        rf_buf_printf(&out, "],\"gpu_kernels_compressed\":%s}\n", RF_GPU_PACKED ? "true" : "false");
    } else {
        rf_buf_printf(&out, "rocmforge %s (%s; ", rf_version(), compiler);
        rf_buf_puts(&out, rf_gpu_target(0) ? "CPU, and GPUs:"
                                           : "CPU backend, no GPU support in this build");
        for (size_t i = 0; rf_gpu_target(i); i++)
            rf_buf_printf(&out, " %s", rf_gpu_target(i));
        if (rf_gpu_target(0) && !RF_GPU_PACKED) rf_buf_puts(&out, ", not compressed");
        rf_buf_puts(&out, ")\n");
    }
    rf_cli_write(c, &out);
    rf_buf_free(&out);
    return RF_EXIT_OK;
}
