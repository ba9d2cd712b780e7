/* cmd_gguf_diff.c - `gguf diff`: keys and tensors that two GGUF files do not share.
 *
 * Values are compared as what they decode to, in pieces, so two formats of one model can be
 * compared too: root mean square of the difference, alone and relative to that of A's values, and
 * the largest difference.  Exit codes are those of diff(1). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/gguf_text.h"
#include "gguf/gguf.h"

enum { SHOWN_ELEMS = 8, PIECE_ELEMS = 65536 }; /* a multiple of every block */

typedef struct comparison {
    rf_cli *c;
    const rf_gguf *a, *b;
    rf_buf out, key;
    float *x, *y; /* [PIECE_ELEMS] each */
    bool is_json;
    size_t n_keys, n_tensors; /* that differ */
} comparison;

/* ---- keys ---- */

static void put_side(comparison *d, const char *side, const rf_gguf_kv *kv) {
    if (d->is_json) {
        rf_buf_printf(&d->out, ",\"%s\":", side);
        if (kv)
            rf_gguf_put_value(&d->out, kv, SHOWN_ELEMS, true);
        else
            rf_buf_puts(&d->out, "null");
        return;
    }
    rf_buf_puts(&d->out, kv ? " " : " (none)");
    if (!kv) return;
    rf_gguf_put_type(&d->out, kv);
    rf_buf_putc(&d->out, ' ');
    rf_gguf_put_value(&d->out, kv, SHOWN_ELEMS, false);
}

/* Either may be NULL, not both. */
static void put_key(comparison *d, const rf_gguf_kv *a, const rf_gguf_kv *b) {
    if (d->is_json) {
        rf_buf_puts(&d->out, d->n_keys ? ",{\"key\":" : "{\"key\":");
        rf_buf_json_str(&d->out, a ? a->key : b->key);
    } else {
        rf_buf_puts(&d->out, "key ");
        rf_put_quoted(&d->out, a ? a->key : b->key, RF_GGUF_MAX_KEY);
        rf_buf_putc(&d->out, ':');
    }
    put_side(d, "a", a);
    if (!d->is_json) rf_buf_puts(&d->out, " ->");
    put_side(d, "b", b);
    rf_buf_puts(&d->out, d->is_json ? "}" : "\n");
    d->n_keys++;
}

/* How a model is cut into files is no difference between models. */
static bool is_of_split(const rf_gguf_kv *kv) { return rf_str_starts(kv->key, "split."); }

/* Keys are borrowed from a map and lack the NUL that looking up wants. */
static const rf_gguf_kv *same_key(comparison *d, const rf_gguf *g, const rf_gguf_kv *kv) {
    rf_buf_clear(&d->key);
    rf_buf_put(&d->key, kv->key.p, kv->key.len);
    return d->key.failed ? NULL : rf_gguf_find(g, d->key.p);
}

static void compare_keys(comparison *d) {
    for (size_t i = 0; i < rf_gguf_n_kv(d->a); i++) {
        const rf_gguf_kv *a = rf_gguf_kv_at(d->a, i), *b = same_key(d, d->b, a);
        if (!is_of_split(a) && (!b || !rf_gguf_kv_equal(a, b))) put_key(d, a, b);
    }
    for (size_t i = 0; i < rf_gguf_n_kv(d->b); i++) {
        const rf_gguf_kv *b = rf_gguf_kv_at(d->b, i);
        if (!is_of_split(b) && !same_key(d, d->a, b)) put_key(d, NULL, b);
    }
}

/* ---- tensors ---- */

typedef struct difference {
    double squares, total, largest; /* sums of (a - b)^2 and a^2; largest |a - b| */
    uint64_t n;                     /* values compared */
} difference;

static void decode_piece(const rf_gguf_tensor *t, uint64_t at, size_t n, float *out) {
    const rf_dtype_info *info = rf_dtype_get(t->type);
    info->decode(t->data + at / info->block_elems * info->block_bytes, out, n);
}

/* False when interrupted. */
static bool compare_values(comparison *d, const rf_gguf_tensor *a, const rf_gguf_tensor *b,
                           difference *out) {
    uint64_t n = rf_gguf_tensor_elems(a);
    for (uint64_t at = 0; at < n; at += PIECE_ELEMS) {
        size_t piece = n - at < PIECE_ELEMS ? (size_t)(n - at) : PIECE_ELEMS;
        decode_piece(a, at, piece, d->x);
        decode_piece(b, at, piece, d->y);
        for (size_t i = 0; i < piece; i++) {
            double x = (double)d->x[i], r = fabs(x - (double)d->y[i]);
            out->squares += r * r;
            out->total += x * x;
            if (!(r <= out->largest)) out->largest = r; /* a NaN stays */
        }
        if (rf_cli_interrupted()) return false;
    }
    out->n = n;
    return true;
}

static bool same_shape(const rf_gguf_tensor *a, const rf_gguf_tensor *b) {
    return memcmp(a->ne, b->ne, sizeof a->ne) == 0;
}

static bool same_bytes(const rf_gguf_tensor *a, const rf_gguf_tensor *b) {
    return a->type == b->type && same_shape(a, b) &&
           (a->n_bytes == 0 || memcmp(a->data, b->data, a->n_bytes) == 0);
}

static void put_tensor_side(comparison *d, const char *side, const rf_gguf_tensor *t) {
    if (d->is_json) rf_buf_printf(&d->out, ",\"%s\":", side);
    if (!t) {
        rf_buf_puts(&d->out, d->is_json ? "null" : " (none)");
        return;
    }
    rf_buf_printf(&d->out, d->is_json ? "{\"type\":\"%s\",\"shape\":" : " %s ",
                  rf_dtype_get(t->type)->name);
    rf_gguf_put_shape(&d->out, t);
    if (d->is_json) rf_buf_putc(&d->out, '}');
}

static void put_number(rf_buf *out, const char *name, double v) {
    if (isfinite(v)) {
        rf_buf_printf(out, ",\"%s\":%.9g", name, v);
    } else {
        rf_buf_printf(out, ",\"%s\":null", name);
    }
}

static void put_tensor(comparison *d, const rf_gguf_tensor *a, const rf_gguf_tensor *b,
                       const difference *diff) {
    if (d->is_json) {
        rf_buf_puts(&d->out, d->n_tensors ? ",{\"name\":" : "{\"name\":");
        rf_buf_json_str(&d->out, a ? a->name : b->name);
    } else {
        rf_buf_puts(&d->out, "tensor ");
        rf_buf_json_str(&d->out, a ? a->name : b->name);
        rf_buf_putc(&d->out, ':');
    }
    put_tensor_side(d, "a", a);
    if (!d->is_json) rf_buf_puts(&d->out, " ->");
    put_tensor_side(d, "b", b);
    if (diff->n) {
        double n = (double)diff->n, rmse = sqrt(diff->squares / n);
        double relative = diff->total > 0 ? sqrt(diff->squares / diff->total) : 0;
        if (d->is_json) {
            put_number(&d->out, "rmse", rmse);
            put_number(&d->out, "relative_rmse", relative);
            put_number(&d->out, "max", diff->largest);
        } else {
            rf_buf_printf(&d->out, ", rmse %.6g (%.4g %%), largest %.6g", rmse, 100 * relative,
                          diff->largest);
        }
    }
    rf_buf_puts(&d->out, d->is_json ? "}" : "\n");
    d->n_tensors++;
}

/* b may be NULL.  False when there is no point in going on. */
static bool compare_tensor(comparison *d, const rf_gguf_tensor *a, const rf_gguf_tensor *b) {
    difference diff = {0};
    if (b && same_bytes(a, b)) return true;
    bool has_values =
        b && same_shape(a, b) && rf_dtype_get(a->type)->decode && rf_dtype_get(b->type)->decode;
    if (has_values && !compare_values(d, a, b, &diff)) return false;
    put_tensor(d, a, b, &diff);
    return rf_cli_write(d->c, &d->out);
}

static const rf_gguf_tensor *same_tensor(const rf_gguf *g, const rf_gguf_tensor *t) {
    char name[RF_GGUF_MAX_NAME + 1];
    snprintf(name, sizeof name, "%.*s", RF_STR_ARG(t->name));
    return rf_gguf_find_tensor(g, name);
}

static void compare_tensors(comparison *d) {
    bool goes_on = true;
    for (size_t i = 0; i < rf_gguf_n_tensors(d->a) && goes_on; i++) {
        const rf_gguf_tensor *a = rf_gguf_tensor_at(d->a, i);
        goes_on = compare_tensor(d, a, same_tensor(d->b, a)) && !rf_cli_interrupted();
    }
    for (size_t i = 0; i < rf_gguf_n_tensors(d->b) && goes_on; i++) {
        const rf_gguf_tensor *b = rf_gguf_tensor_at(d->b, i);
        if (!same_tensor(d->a, b)) put_tensor(d, NULL, b, &(difference){0});
    }
}

/* ---- the command ---- */

static int diff(comparison *d) {
    if (d->is_json) {
        rf_buf_puts(&d->out, "{\"a\":");
        rf_buf_json_str(&d->out, rf_str_of(rf_gguf_path(d->a)));
        rf_buf_puts(&d->out, ",\"b\":");
        rf_buf_json_str(&d->out, rf_str_of(rf_gguf_path(d->b)));
        rf_buf_puts(&d->out, ",\"keys\":[");
    }
    compare_keys(d);
    if (d->key.failed) return rf_cli_fail(d->c, &(rf_error){RF_ENOMEM, "out of memory"});
    if (d->is_json) rf_buf_puts(&d->out, "],\"tensors\":[");
    compare_tensors(d);
    if (rf_cli_interrupted())
        return rf_cli_fail(d->c, &(rf_error){RF_ECANCELLED, "stopped before the end"});
    bool is_same = d->n_keys + d->n_tensors == 0;
    if (d->is_json) {
        rf_buf_printf(&d->out, "],\"same\":%s}\n", is_same ? "true" : "false");
    } else if (!is_same) {
        rf_buf_printf(&d->out, "%zu keys and %zu tensors differ\n", d->n_keys, d->n_tensors);
    }
    rf_cli_write(d->c, &d->out);
    return is_same ? RF_EXIT_OK : RF_EXIT_FAILED;
}

int rf_cmd_gguf_diff(rf_cli *c) {
    rf_error e = {0};
    rf_gguf *a = NULL, *b = NULL;
    float *values = rf_alloc(2 * PIECE_ELEMS, sizeof *values);
    rf_status s = values ? RF_OK : rf_fail_nomem(&e, 2 * PIECE_ELEMS * sizeof *values);
    if (s == RF_OK) s = rf_gguf_open(&a, rf_cli_arg(c, 0), &e);
    if (s == RF_OK) s = rf_gguf_open(&b, rf_cli_arg(c, 1), &e);
    comparison d = {.c = c, .a = a, .b = b, .x = values, .is_json = rf_cli_bool(c, RF_F_JSON)};
    rf_cli_catch_interrupts();
    int code = RF_EXIT_OK;
    if (s == RF_OK) {
        d.y = values + PIECE_ELEMS;
        code = diff(&d);
    }
    rf_buf_free(&d.out);
    rf_buf_free(&d.key);
    rf_gguf_close(a);
    rf_gguf_close(b);
    rf_free(values);
    return s == RF_OK ? code : rf_cli_fail(c, &e);
}
