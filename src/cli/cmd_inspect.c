/* cmd_inspect.c - `inspect FILE`: what a GGUF file is, at a glance.
 *
 * Works for any sound GGUF file, also without tensors or of an architecture that this program
 * cannot run: nothing is looked up in a table of models. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/gguf_text.h"
#include "gguf/gguf.h"

enum { SHOWN_ELEMS = 8, MOST_ARCH = 64 };

typedef struct view {
    const rf_gguf *g;
    rf_buf *out;
    bool is_json, has_color, with_tensors;
    char prefix[MOST_ARCH + 2]; /* "llama."; empty without an architecture */
} view;

typedef struct format_sum {
    uint64_t n_tensors, n_elems, n_bytes;
} format_sum;

static void sum_formats(const rf_gguf *g, format_sum sums[RF_DT_COUNT], format_sum *all) {
    for (size_t i = 0; i < rf_gguf_n_tensors(g); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(g, i);
        format_sum *const both[] = {&sums[t->type], all};
        for (int k = 0; k < 2; k++) {
            both[k]->n_tensors++;
            both[k]->n_elems += rf_gguf_tensor_elems(t);
            both[k]->n_bytes += t->n_bytes;
        }
    }
}

/* A string key of any length; empty when absent or of another type: this command reports, and
 * leaves judging to those who need the key. */
static rf_str string_key(const rf_gguf *g, const char *key) {
    const rf_gguf_kv *kv = rf_gguf_find(g, key);
    if (!kv || kv->type != RF_GGUF_STRING) return RF_STR("");
    const uint8_t *cursor = kv->data;
    return rf_gguf_next_str(&cursor);
}

/* A whole number; 0 when absent or of another type. */
static uint32_t number_key(const view *v, const char *name) {
    char key[MOST_ARCH + 64];
    snprintf(key, sizeof key, "%s%s", v->prefix, name);
    uint32_t n = 0;
    rf_error e = {0};
    return rf_gguf_get_u32(v->g, key, &n, NULL, &e) == RF_OK ? n : 0;
}

/* Mixtures of experts: how many there are (0: none), how many a token uses, and how many parameters
 * that makes with everything else. */
typedef struct experts {
    uint32_t n, n_used;
    uint64_t active;
} experts;

static experts count_experts(const view *v, uint64_t n_elems) {
    experts x = {number_key(v, "expert_count"), number_key(v, "expert_used_count"), n_elems};
    if (x.n == 0 || x.n_used == 0 || x.n_used > x.n) return (experts){0};
    for (size_t i = 0; i < rf_gguf_n_tensors(v->g); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(v->g, i);
        uint64_t n = rf_gguf_tensor_elems(t);
        char name[RF_GGUF_MAX_NAME + 1];
        snprintf(name, sizeof name, "%.*s", RF_STR_ARG(t->name));
        if (strstr(name, "_exps.") && n % x.n == 0) x.active -= n / x.n * (x.n - x.n_used);
    }
    return x;
}

static double bits_each(const format_sum *s) {
    return s->n_elems ? 8.0 * (double)s->n_bytes / (double)s->n_elems : 0;
}

/* ---- text ---- */

static void heading(const view *v, const char *text) {
    rf_buf_printf(v->out, "\n%s%s%s\n", v->has_color ? "\033[1m" : "", text,
                  v->has_color ? "\033[0m" : "");
}

static void label(const view *v, const char *text) {
    rf_buf_printf(v->out, "%s%-14s%s", v->has_color ? "\033[1m" : "", text,
                  v->has_color ? "\033[0m" : "");
}

static void text_summary(const view *v, const format_sum *all) {
    rf_buf *out = v->out;
    rf_str arch = string_key(v->g, "general.architecture"), name = string_key(v->g, "general.name");
    label(v, "file");
    rf_buf_printf(out, "%s\n", rf_gguf_path(v->g));
    label(v, "format");
    rf_buf_printf(out, "GGUF version %" PRIu32 ", ", rf_gguf_version(v->g));
    if (rf_gguf_n_splits(v->g) > 1)
        rf_buf_printf(out, "%" PRIu32 " parts, ", rf_gguf_n_splits(v->g));
    rf_put_bytes(out, rf_gguf_file_bytes(v->g));
    rf_buf_printf(out, ", aligned to %" PRIu32 "\n", rf_gguf_alignment(v->g));
    label(v, "architecture");
    if (arch.len) rf_put_quoted(out, arch, MOST_ARCH);
    rf_buf_puts(out, arch.len ? "\n" : "(none)\n");
    if (name.len) {
        label(v, "name");
        rf_put_quoted(out, name, 120);
        rf_buf_putc(out, '\n');
    }
    label(v, "parameters");
    rf_put_count(out, all->n_elems);
    if (all->n_elems >= 1000) rf_buf_printf(out, " (%" PRIu64 ")", all->n_elems);
    rf_buf_printf(out, " in %" PRIu64 " tensors, ", all->n_tensors);
    rf_put_bytes(out, all->n_bytes);
    rf_buf_printf(out, ", %.2f bits each\n", bits_each(all));
    experts x = count_experts(v, all->n_elems);
    if (x.n == 0) return;
    label(v, "active");
    rf_put_count(out, x.active);
    if (x.active >= 1000) rf_buf_printf(out, " (%" PRIu64 ")", x.active);
    rf_buf_printf(out, " for each token, which uses %" PRIu32 " of %" PRIu32 " experts\n", x.n_used,
                  x.n);
}

static void text_formats(const view *v, const format_sum sums[RF_DT_COUNT]) {
    heading(v, "number formats");
    for (int i = 0; i < RF_DT_COUNT; i++) {
        if (!sums[i].n_tensors) continue;
        rf_buf_printf(v->out, "  %-12s %5" PRIu64 " tensors  %16" PRIu64 " values  ",
                      rf_dtype_get((rf_dtype)i)->name, sums[i].n_tensors, sums[i].n_elems);
        rf_put_bytes(v->out, sums[i].n_bytes);
        rf_buf_putc(v->out, '\n');
    }
}

/* Keys below a prefix, without it; arrays shortened. */
static void text_section(const view *v, const char *title, const char *prefix) {
    bool is_first = true;
    for (size_t i = 0; prefix[0] && i < rf_gguf_n_kv(v->g); i++) {
        const rf_gguf_kv *kv = rf_gguf_kv_at(v->g, i);
        size_t skip = strlen(prefix);
        if (!rf_str_starts(kv->key, prefix)) continue;
        if (is_first) heading(v, title);
        is_first = false;
        char key[80];
        snprintf(key, sizeof key, "%.*s", (int)(kv->key.len - skip > 79 ? 79 : kv->key.len - skip),
                 kv->key.p + skip);
        for (char *p = key; *p; p++) {
            if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f) *p = '?';
        }
        rf_buf_printf(v->out, "  %-36s ", key);
        rf_gguf_put_value(v->out, kv, SHOWN_ELEMS, false);
        if (kv->type == RF_GGUF_ARRAY && kv->n > SHOWN_ELEMS) {
            rf_buf_puts(v->out, "  ");
            rf_gguf_put_type(v->out, kv);
        }
        rf_buf_putc(v->out, '\n');
    }
}

static void text_tensors(const view *v) {
    heading(v, "tensors (shapes slowest dimension first)");
    for (size_t i = 0; i < rf_gguf_n_tensors(v->g); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(v->g, i);
        rf_buf name = {0}, shape = {0};
        rf_put_quoted(&name, t->name, RF_GGUF_MAX_NAME);
        rf_gguf_put_shape(&shape, t);
        v->out->failed = v->out->failed || name.failed || shape.failed;
        if (!v->out->failed) {
            rf_buf_printf(v->out, "  %-40s %-8s %-24s %14" PRIu64 " bytes at %" PRIu64, name.p,
                          rf_dtype_get(t->type)->name, shape.p, t->n_bytes, t->offset);
        }
        if (rf_gguf_n_splits(v->g) > 1) rf_buf_printf(v->out, " of part %" PRIu32, t->split + 1);
        rf_buf_putc(v->out, '\n');
        rf_buf_free(&name);
        rf_buf_free(&shape);
    }
}

/* ---- JSON ---- */

static void json_summary(const view *v, const format_sum *all) {
    rf_buf *out = v->out;
    rf_buf_puts(out, "{\"file\":");
    rf_buf_json_str(out, rf_str_of(rf_gguf_path(v->g)));
    rf_buf_printf(out,
                  ",\"version\":%" PRIu32 ",\"parts\":%" PRIu32 ",\"bytes\":%" PRIu64
                  ",\"alignment\":%" PRIu32 ",\"architecture\":",
                  rf_gguf_version(v->g), rf_gguf_n_splits(v->g), rf_gguf_file_bytes(v->g),
                  rf_gguf_alignment(v->g));
    rf_buf_json_str(out, string_key(v->g, "general.architecture"));
    rf_buf_puts(out, ",\"name\":");
    rf_buf_json_str(out, string_key(v->g, "general.name"));
    rf_buf_printf(out,
                  ",\"parameters\":%" PRIu64 ",\"n_tensors\":%" PRIu64 ",\"tensor_bytes\":%" PRIu64
                  ",\"bits_per_parameter\":%.4f",
                  all->n_elems, all->n_tensors, all->n_bytes, bits_each(all));
    experts x = count_experts(v, all->n_elems);
    if (x.n)
        rf_buf_printf(out,
                      ",\"experts\":%" PRIu32 ",\"experts_used\":%" PRIu32
                      ",\"active_parameters\":%" PRIu64,
                      x.n, x.n_used, x.active);
}

static void json_formats(const view *v, const format_sum sums[RF_DT_COUNT]) {
    const char *comma = "";
    rf_buf_puts(v->out, ",\"formats\":[");
    for (int i = 0; i < RF_DT_COUNT; i++) {
        if (!sums[i].n_tensors) continue;
        rf_buf_printf(v->out,
                      "%s{\"type\":\"%s\",\"tensors\":%" PRIu64 ",\"values\":%" PRIu64
                      ",\"bytes\":%" PRIu64 "}",
                      comma, rf_dtype_get((rf_dtype)i)->name, sums[i].n_tensors, sums[i].n_elems,
                      sums[i].n_bytes);
        comma = ",";
    }
    rf_buf_putc(v->out, ']');
}

static void json_section(const view *v, const char *title, const char *prefix) {
    const char *comma = "";
    rf_buf_printf(v->out, ",\"%s\":{", title);
    for (size_t i = 0; prefix[0] && i < rf_gguf_n_kv(v->g); i++) {
        const rf_gguf_kv *kv = rf_gguf_kv_at(v->g, i);
        if (!rf_str_starts(kv->key, prefix)) continue;
        size_t skip = strlen(prefix);
        rf_buf_puts(v->out, comma);
        rf_buf_json_str(v->out, (rf_str){kv->key.p + skip, kv->key.len - skip});
        rf_buf_putc(v->out, ':');
        if (kv->type == RF_GGUF_ARRAY && kv->n > SHOWN_ELEMS) {
            rf_buf_printf(v->out, "{\"elements\":%" PRIu64 ",\"first\":", kv->n);
            rf_gguf_put_value(v->out, kv, SHOWN_ELEMS, true);
            rf_buf_putc(v->out, '}');
        } else {
            rf_gguf_put_value(v->out, kv, SHOWN_ELEMS, true);
        }
        comma = ",";
    }
    rf_buf_putc(v->out, '}');
}

static void json_tensors(const view *v) {
    rf_buf_puts(v->out, ",\"tensors\":[");
    for (size_t i = 0; i < rf_gguf_n_tensors(v->g); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(v->g, i);
        rf_buf_puts(v->out, i ? ",{\"name\":" : "{\"name\":");
        rf_buf_json_str(v->out, t->name);
        rf_buf_printf(v->out, ",\"type\":\"%s\",\"shape\":", rf_dtype_get(t->type)->name);
        rf_gguf_put_shape(v->out, t);
        rf_buf_printf(v->out, ",\"bytes\":%" PRIu64 ",\"offset\":%" PRIu64 ",\"part\":%" PRIu32 "}",
                      t->n_bytes, t->offset, t->split);
    }
    rf_buf_putc(v->out, ']');
}

/* ---- the command ---- */

static void write_text(const view *v, const format_sum sums[RF_DT_COUNT], const format_sum *all) {
    rf_str template = string_key(v->g, "tokenizer.chat_template");
    text_summary(v, all);
    label(v, "chat template");
    if (template.len) {
        rf_buf_printf(v->out, "yes, %zu bytes\n", template.len);
    } else {
        rf_buf_puts(v->out, "none\n");
    }
    if (all->n_tensors) text_formats(v, sums);
    text_section(v, "hyperparameters", v->prefix);
    text_section(v, "tokenizer", "tokenizer.ggml.");
    if (v->with_tensors) text_tensors(v);
}

static void write_json(const view *v, const format_sum sums[RF_DT_COUNT], const format_sum *all) {
    json_summary(v, all);
    rf_buf_printf(v->out, ",\"chat_template\":%s",
                  string_key(v->g, "tokenizer.chat_template").len ? "true" : "false");
    json_formats(v, sums);
    json_section(v, "hyperparameters", v->prefix);
    json_section(v, "tokenizer", "tokenizer.ggml.");
    if (v->with_tensors) json_tensors(v);
    rf_buf_puts(v->out, "}\n");
}

int rf_cmd_inspect(rf_cli *c) {
    rf_gguf *g;
    rf_error e = {0};
    if (rf_gguf_open(&g, rf_cli_arg(c, 0), &e) != RF_OK) return rf_cli_fail(c, &e);
    rf_buf out = {0};
    view v = {g, &out, rf_cli_bool(c, RF_F_JSON), rf_cli_color(c), rf_cli_bool(c, RF_F_TENSORS),
              ""};
    rf_str arch = string_key(g, "general.architecture");
    if (arch.len && arch.len <= MOST_ARCH) {
        snprintf(v.prefix, sizeof v.prefix, "%.*s.", RF_STR_ARG(arch));
    }
    format_sum sums[RF_DT_COUNT] = {0}, all = {0};
    sum_formats(g, sums, &all);
    if (v.is_json) {
        write_json(&v, sums, &all);
    } else {
        write_text(&v, sums, &all);
    }
    rf_cli_write(c, &out);
    rf_buf_free(&out);
    rf_gguf_close(g);
    return RF_EXIT_OK;
}
