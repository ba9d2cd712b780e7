/* cmd_plan.c - plan: the bytes that a model takes on each device, and what fits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/session.h"
#include "server/stages.h"

enum { MAX_DEVICES = 16, N_USERS = 6, BLOCK = 32 };

typedef struct place { /* somewhere a model may run */
    char name[200];
    const char *backend;
    uint32_t device;
    uint64_t memory;           /* that it may take */
    rf_memory_need need;       /* for the options given */
    uint32_t longest[N_USERS]; /* context that fits; 0: none does */
    rf_text why;               /* not empty: it cannot be measured */
} place;

typedef struct split { /* layers on several devices, where a single one is not enough */
    bool wanted;
    rf_stage stage[RF_MOST_STAGES]; /* [n] */
    size_t n;
    rf_text why; /* not empty: there is none */
} split;

static const uint32_t users[N_USERS] = {1, 2, 4, 8, 16, 32};

/* "24G", "500M", "1048576": powers of 1000. */
static rf_status parse_memory(const char *text, uint64_t *out, rf_error *e) {
    static const char units[] = "KMGT";
    char *end;
    double v = strtod(text, &end);
    const char *unit = end != text && *end ? strchr(units, *end & ~0x20) : NULL;
    for (const char *u = units; unit && u <= unit; u++)
        v *= 1000;
    if (unit) end++;
    if (end == text || *end || !(v >= 1 && v <= 1e18))
        return rf_fail(e, RF_EARG,
                       "--memory '%.40s': expected a number of bytes, or one with K, M, G "
                       "or T, such as 24G",
                       text);
    *out = (uint64_t)v;
    return RF_OK;
}

static rf_engine_opts options(rf_cli *c, const place *p) {
    return (rf_engine_opts){.backend = p->backend,
                            .device = p->device,
                            .kv_type = rf_cli_str(c, RF_F_KV_TYPE),
                            .n_threads = (int)rf_cli_int(c, RF_F_THREADS),
                            .batch_tokens = (uint32_t)rf_cli_int(c, RF_F_BATCH),
                            .max_seqs = (uint32_t)rf_cli_int(c, RF_F_PARALLEL)};
}

/* The CPU's memory holds the pages of the file as well, where the file is its weights. */
static bool fits(const place *p, const rf_memory_need *n) { return n->total <= p->memory; }

/* The longest context that fits for so many requests, each of which may fill it. */
static uint32_t longest_context(rf_cli *c, const rf_engine *en, const place *p, uint32_t n_users,
                                uint32_t n_ctx_train) {
    uint32_t lo = 0, hi = n_ctx_train / BLOCK; /* in blocks: lo fits, beyond hi nothing is asked */
    while (lo < hi) {
        uint32_t n = lo + (hi - lo + 1) / 2;
        rf_engine_opts o = options(c, p);
        rf_memory_need need;
        if (p->need.batch_tokens > p->need.max_seqs) /* what is usual there, asked for once */
            o.batch_tokens = p->need.batch_tokens;
        o.max_seqs = n_users;
        o.n_ctx = n * BLOCK;
        bool ok = (uint64_t)n * n_users <= UINT32_MAX / BLOCK;
        o.n_kv_blocks = n * n_users;
        ok = ok && rf_engine_measure(en, &o, &need, NULL) == ROCMFORGE_OK && fits(p, &need);
        if (ok)
            lo = n;
        else
            hi = n - 1;
    }
    return lo * BLOCK;
}

static rf_engine_opts given_options(rf_cli *c, const place *p) {
    rf_engine_opts o = options(c, p);
    o.n_ctx = (uint32_t)rf_cli_int(c, RF_F_CTX);
    o.n_kv_blocks = (uint32_t)((rf_cli_int(c, RF_F_KV_TOKENS) + BLOCK - 1) / BLOCK);
    return o;
}

static void measure(rf_cli *c, const rf_engine *en, place *p) {
    rf_engine_info info;
    rf_engine_opts o = given_options(c, p);
    rf_engine_get_info(en, &info);
    if (rf_engine_measure(en, &o, &p->need, &p->why) != ROCMFORGE_OK) return;
    for (int i = 0; i < N_USERS; i++)
        p->longest[i] = longest_context(c, en, p, users[i], info.n_ctx_train);
}

/* Where layers would go when they are asked for, or when the first GPU has no room for all. */
static rf_status measure_split(rf_cli *c, const rf_engine *en, uint64_t told, const place *first,
                               split *out, rf_error *e) {
    uint64_t room[MAX_DEVICES];
    rf_engine_opts o = given_options(c, first);
    RF_TRY(rf_session_where(c, &o, e));
    bool is_gpu = strcmp(first->backend, "gpu") == 0;
    bool is_short = is_gpu && !first->why.text[0] && !fits(first, &first->need);
    bool asked = o.gpu_layers || strchr(o.devices, ',');
    *out = (split){.wanted = strcmp(o.backend, "cpu") != 0 && (asked || is_short)};
    if (!out->wanted) return RF_OK;
    for (size_t i = 0; i < MAX_DEVICES; i++)
        room[i] = told;
    (void)rf_engine_place(en, &o, told ? room : NULL, out->stage, RF_COUNT(out->stage), &out->n,
                          &out->why);
    return RF_OK;
}

/* GPUs as they are found, or one that is told; then the CPU.  why: where there are none, why. */
static size_t list_places(rf_cli *c, uint64_t told, place *out, rf_text *why) {
    rf_gpu_device g;
    size_t n = 0;
    const char *wanted = rf_session_backend(c);
    bool gpu = strcmp(wanted, "cpu") != 0, cpu = strcmp(wanted, "gpu") != 0;
    for (size_t i = 0; gpu && !told && i < MAX_DEVICES; i++) {
        if (rf_gpu_find(i, &g, why) != ROCMFORGE_OK) break;
        out[n] = (place){.backend = "gpu", .device = (uint32_t)i, .memory = g.mem_free};
        snprintf(out[n++].name, sizeof out->name, "gpu %zu: %.120s (%s)", i, g.name, g.arch);
    }
    if (gpu && told) {
        out[n] = (place){.backend = "gpu", .memory = told};
        snprintf(out[n++].name, sizeof out->name, "a GPU");
    }
    if (cpu) {
        out[n] = (place){.backend = "cpu", .memory = told ? told : rf_mem_available()};
        snprintf(out[n++].name, sizeof out->name, "cpu");
    }
    return n;
}

/* Output -----------------------------------------------------------------------------------------*/

static void print_bytes(rf_buf *out, const char *what, uint64_t n, const char *note) {
    rf_buf_printf(out, "  %-12s %15llu  %8.2f GB%s%s\n", what, (unsigned long long)n,
                  (double)n / 1e9, note[0] ? "  " : "", note);
}

static void print_place(rf_buf *out, const place *p) {
    const rf_memory_need *n = &p->need;
    char note[160];
    rf_buf_printf(out, "%s\n", p->name);
    if (p->why.text[0]) {
        rf_buf_printf(out, "  %s\n", p->why.text);
        return;
    }
    snprintf(note, sizeof note, "%llu a token, %llu a block of %d; room for %llu tokens",
             (unsigned long long)n->kv_block / BLOCK, (unsigned long long)n->kv_block, BLOCK,
             (unsigned long long)n->n_kv_blocks * BLOCK);
    print_bytes(out, "weights", n->weights,
                strcmp(p->backend, "cpu") == 0 ? "mapped from the file" : "");
    print_bytes(out, "KV cache", n->kv, note);
    snprintf(note, sizeof note, "of steps of up to %u tokens", n->batch_tokens);
    print_bytes(out, "activations", n->activations, note);
    print_bytes(out, "other", n->other, "");
    print_bytes(out, "total", n->total, fits(p, n) ? "fits" : "does not fit");
    print_bytes(out, "there is", p->memory, "");
    if (n->host) print_bytes(out, "on the CPU", n->host, "beside the device's memory");
    rf_buf_puts(out, "  longest context by requests at once:");
    for (int i = 0; i < N_USERS; i++)
        rf_buf_printf(out, "%s %u: %u", i ? "," : "", users[i], p->longest[i]);
    rf_buf_puts(out, "\n");
}

static void print_json(rf_buf *out, const place *p) {
    const rf_memory_need *n = &p->need;
    rf_buf_puts(out, "{\"name\":");
    rf_buf_json_str(out, rf_str_of(p->name));
    rf_buf_printf(out, ",\"backend\":\"%s\",\"device\":%u,\"memory\":%llu,", p->backend, p->device,
                  (unsigned long long)p->memory);
    if (p->why.text[0]) {
        rf_buf_puts(out, "\"error\":");
        rf_buf_json_str(out, rf_str_of(p->why.text));
        rf_buf_putc(out, '}');
        return;
    }
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {{"weights", n->weights},   {"kv", n->kv},
               {"kv_block", n->kv_block}, {"activations", n->activations},
               {"other", n->other},       {"total", n->total},
               {"host", n->host},         {"kv_tokens", (uint64_t)n->n_kv_blocks * BLOCK},
               {"context", n->n_ctx},     {"requests", n->max_seqs},
               {"batch", n->batch_tokens}};
    for (size_t i = 0; i < RF_COUNT(all); i++)
        rf_buf_printf(out, "\"%s\":%llu,", all[i].name, (unsigned long long)all[i].value);
    rf_buf_printf(out, "\"fits\":%s,\"longest_context\":{", fits(p, n) ? "true" : "false");
    for (int i = 0; i < N_USERS; i++)
        rf_buf_printf(out, "%s\"%u\":%u", i ? "," : "", users[i], p->longest[i]);
    rf_buf_puts(out, "}}");
}

static void print_split(rf_buf *out, const split *s) {
    rf_buf_puts(out, "layers on several devices\n");
    if (s->why.text[0]) rf_buf_printf(out, "  %s\n", s->why.text);
    for (size_t i = 0; i < s->n; i++) {
        const rf_stage *g = &s->stage[i];
        char where[RF_STAGE_NAME];
        rf_stage_name(g, where);
        rf_buf_printf(out,
                      "  %-8s layers %3u-%-3u %15llu  %8.2f GB  (weights %llu, KV cache %llu, "
                      "activations %llu, other %llu)\n",
                      where, g->first_layer, g->first_layer + g->n_layers - 1,
                      (unsigned long long)g->total, (double)g->total / 1e9,
                      (unsigned long long)g->weights, (unsigned long long)g->kv,
                      (unsigned long long)g->activations, (unsigned long long)g->other);
    }
}

static void print_split_json(rf_buf *out, const split *s) {
    rf_buf_puts(out, ",\"split\":");
    if (!s->wanted) {
        rf_buf_puts(out, "null");
    } else if (s->why.text[0]) {
        rf_buf_puts(out, "{\"error\":");
        rf_buf_json_str(out, rf_str_of(s->why.text));
        rf_buf_putc(out, '}');
    } else {
        rf_buf_puts(out, "{\"stages\":");
        rf_stages_json(s->stage, s->n, out);
        rf_buf_putc(out, '}');
    }
}

static void print_all(rf_cli *c, const char *path, const place *p, size_t n, const split *s) {
    rf_buf out = {0};
    bool json = rf_cli_bool(c, RF_F_JSON);
    rf_buf_puts(&out, json ? "{\"model\":" : "");
    if (json)
        rf_buf_json_str(&out, rf_str_of(path));
    else
        rf_buf_puts(&out, path);
    rf_buf_puts(&out, json ? ",\"devices\":[" : "\n");
    for (size_t i = 0; i < n; i++) {
        if (json && i) rf_buf_putc(&out, ',');
        (json ? print_json : print_place)(&out, &p[i]);
    }
    if (json) {
        rf_buf_putc(&out, ']');
        print_split_json(&out, s);
        rf_buf_puts(&out, "}\n");
    } else if (s->wanted) {
        print_split(&out, s);
    }
    rf_cli_write(c, &out);
    rf_buf_free(&out);
}

int rf_cmd_plan(rf_cli *c) {
    rf_error e = {0};
    rf_text why;
    rf_engine *en = NULL;
    const char *path = rf_cli_arg(c, 0), *memory = rf_cli_str(c, RF_F_MEMORY);
    place places[MAX_DEVICES + 1] = {{.backend = "gpu"}};
    split several = {.n = 0};
    uint64_t told = 0;
    rf_status s = memory ? parse_memory(memory, &told, &e) : RF_OK;
    if (s == RF_OK && !path) s = rf_cli_model_path(c, &path, &e);
    if (s == RF_OK) {
        const rf_engine_opts o = {.model_path = path, .measure_only = true};
        s = rf_session_error(rf_engine_open(&en, &o, &why), &why, &e);
    }
    if (s == RF_OK) {
        size_t n = list_places(c, told, places, &why);
        for (size_t i = 0; i < n; i++)
            measure(c, en, &places[i]);
        s = measure_split(c, en, told, &places[0], &several, &e);
        if (s == RF_OK && n == 0)
            s = rf_fail(&e, RF_EUNSUPPORTED,
                        "%.300s; --memory SIZE plans for a GPU that is not here", why.text);
        if (s == RF_OK) print_all(c, path, places, n, &several);
    }
    rf_engine_close(en);
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}
