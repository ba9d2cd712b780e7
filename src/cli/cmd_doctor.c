/* cmd_doctor.c - doctor: is this machine fit, and what will be used; version. */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "cli/session.h"

typedef struct report {
    rf_cli *c;
    rf_buf out;
    bool json;
    size_t n, n_bad;
} report;

/* One finding.  ok false: something a user should mend. */
static void find(report *r, const char *what, bool ok, const char *fmt, ...) RF_PRINTF(4, 5);
static void find(report *r, const char *what, bool ok, const char *fmt, ...) {
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
        rf_buf_putc(&r->out, '}');
    } else {
        const char *green = rf_cli_color(r->c) ? "\033[32m" : "",
                   *red = rf_cli_color(r->c) ? "\033[31m" : "";
        rf_buf_printf(&r->out, "%s%-4s%s %-14s %s\n", ok ? green : red, ok ? "ok" : "BAD",
                      rf_cli_color(r->c) ? "\033[0m" : "", what, text);
    }
    r->n++;
}

static void check_cpu(report *r) {
    rf_isa isa;
    rf_error e = {0};
    if (rf_isa_choose(&isa, &e) != RF_OK)
        find(r, "instructions", false, "%s", e.text);
    else
        find(r, "instructions", true, "%s kernels%s", rf_isa_name(isa),
             isa == rf_isa_best() ? "" : " (lowered by RF_CPU)");
    find(r, "processors", true, "%d, %d cores", rf_cpu_count(), rf_core_count());
}

static void check_memory(report *r) {
    uint64_t total = rf_mem_total(), available = rf_mem_available();
    bool low = total && available < (UINT64_C(256) << 20);
    find(r, "memory", !low, "%.1f GB, %.1f GB of it free%s", (double)total / 1e9,
         (double)available / 1e9, low ? "; close other programs" : "");
}

/* GPUs -------------------------------------------------------------------------------------------*/

/* AMD's kernel interface: the node that every GPU program opens. */
static void check_node(report *r, const char *what, const char *path) {
    if (access(path, F_OK) != 0) return;
    if (access(path, R_OK | W_OK) == 0)
        find(r, what, true, "%s can be opened", path);
    else
        find(r, what, false,
             "%s: %s; add this user to the groups render and video (usermod -aG render,video NAME) "
             "and log in again",
             path, strerror(errno));
}

static bool is_amd(const char *node) {
    char path[100], vendor[20] = "";
    snprintf(path, sizeof path, "/sys/class/drm/%.40s/device/vendor", node);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    bool got = fgets(vendor, sizeof vendor, f) != NULL;
    fclose(f);
    return got && strncmp(vendor, "0x1002", 6) == 0;
}

/* A number of bytes that the kernel driver tells about a card; 0: not told. */
static unsigned long long card_bytes(const char *node, const char *name) {
    char path[140];
    unsigned long long n = 0;
    snprintf(path, sizeof path, "/sys/class/drm/%.40s/device/%.60s", node, name);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (fscanf(f, "%llu", &n) != 1) n = 0;
    fclose(f);
    return n;
}

/* Render nodes of AMD cards, with the memory that the kernel driver gives them. */
static void check_amd_cards(report *r) {
    DIR *dir = opendir("/sys/class/drm");
    if (!dir) return;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        const char *node = entry->d_name;
        char path[80];
        if (strncmp(node, "renderD", 7) != 0 || !is_amd(node)) continue;
        snprintf(path, sizeof path, "/dev/dri/%.40s", node);
        check_node(r, "render node", path);
        unsigned long long vram = card_bytes(node, "mem_info_vram_total");
        unsigned long long gtt = card_bytes(node, "mem_info_gtt_total");
        if (vram || gtt)
            find(r, "card memory", true, "%s: %.1f GB of its own, %.1f GB of the CPU's it may use",
                 node, (double)vram / 1e9, (double)gtt / 1e9);
    }
    closedir(dir);
}

static void check_override(report *r) {
    const char *set = getenv("HSA_OVERRIDE_GFX_VERSION");
    if (set)
        find(r, "override", false,
             "HSA_OVERRIDE_GFX_VERSION is %.40s: the driver then names another architecture than "
             "the card has, and gets code made for that; unset it",
             set);
}

static void check_gpus(report *r) {
    rf_gpu_device g;
    rf_text why;
    check_node(r, "kfd", "/dev/kfd");
    check_amd_cards(r);
    check_override(r);
    if (!rf_gpu_target(0)) find(r, "gpu kernels", true, "left out of this build: CPU only");
    size_t i = 0;
    int s;
    for (; (s = rf_gpu_find(i, &g, &why)) == ROCMFORGE_OK; i++)
        find(r, "gpu", g.target[0] != 0,
             "%zu: %s (%s) through %s, driver %d; %.1f of %.1f GB free%s; %s%s", i, g.name, g.arch,
             g.library, g.driver_version, (double)g.mem_free / 1e9, (double)g.mem_bytes / 1e9,
             g.integrated ? ", shared with the CPU" : "",
             g.target[0] ? "runs kernels for " : "this build has no kernels for it", g.target);
    if (i == 0) find(r, "gpu", s == ROCMFORGE_EUNSUPPORTED, "%s", why.text);
}

/* The demo model is there, opens, and computes. */
static void check_demo(report *r) {
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
        find(r, "demo model", true, "answers on %s", info.backend);
    } else {
        find(r, "demo model", false, "%s", e.text);
    }
    rf_ids_free(&ids);
    rf_engine_close(en);
}

int rf_cmd_doctor(rf_cli *c) {
    report r = {.c = c, .json = rf_cli_bool(c, RF_F_JSON)};
    if (r.json) rf_buf_puts(&r.out, "{\"checks\":[");
    check_cpu(&r);
    check_memory(&r);
    check_gpus(&r);
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
        rf_buf_puts(&out, "]}\n");
    } else {
        rf_buf_printf(&out, "rocmforge %s (%s; ", rf_version(), compiler);
        rf_buf_puts(&out, rf_gpu_target(0) ? "CPU, and GPUs:"
                                           : "CPU backend, no GPU support in this build");
        for (size_t i = 0; rf_gpu_target(i); i++)
            rf_buf_printf(&out, " %s", rf_gpu_target(i));
        rf_buf_puts(&out, ")\n");
    }
    rf_cli_write(c, &out);
    rf_buf_free(&out);
    return RF_EXIT_OK;
}
