/* cmd_gguf.c - `gguf dump`, `gguf verify` and `gguf dequant`: GGUF files down to the last number.
 *
 * dump prints what the file says; verify decodes every block and counts what is not finite; dequant
 * writes one tensor as little-endian f32.  Tensors are decoded in pieces, never as a whole. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/os.h"
#include "cli/cli.h"
#include "cli/gguf_text.h"
#include "gguf/gguf.h"

enum {
    SHOWN_ELEMS = 8,     /* of an array, without --all */
    PIECE_ELEMS = 65536, /* decoded at once: a multiple of every block */
    FLUSH_BYTES = 1 << 16,
};

/* ---- dump ---- */

static void dump_key(rf_buf *out, const rf_gguf_kv *kv, uint64_t most, bool is_json) {
    if (is_json) {
        rf_buf_puts(out, "{\"key\":");
        rf_buf_json_str(out, kv->key);
        rf_buf_printf(out,
                      ",\"type\":\"%s\",\"elem_type\":\"%s\",\"n\":%" PRIu64 ",\"offset\":%" PRIu64
                      ",\"value\":",
                      rf_gguf_type_name(kv->type), rf_gguf_type_name(kv->elem_type), kv->n,
                      kv->offset);
        rf_gguf_put_value(out, kv, most, true);
        rf_buf_putc(out, '}');
        return;
    }
    rf_put_quoted(out, kv->key, RF_GGUF_MAX_KEY);
    rf_buf_puts(out, " ");
    rf_gguf_put_type(out, kv);
    rf_buf_puts(out, " = ");
    rf_gguf_put_value(out, kv, most, false);
    rf_buf_putc(out, '\n');
}

static void dump_tensor(rf_buf *out, const rf_gguf_tensor *t, bool is_json) {
    if (is_json) rf_buf_puts(out, "{\"name\":");
    rf_buf_json_str(out, t->name);
    rf_buf_printf(out, is_json ? ",\"type\":\"%s\",\"shape\":" : " %s ",
                  rf_dtype_get(t->type)->name);
    rf_gguf_put_shape(out, t);
    rf_buf_printf(out,
                  is_json ? ",\"bytes\":%" PRIu64 ",\"offset\":%" PRIu64 ",\"part\":%" PRIu32 "}"
                          : " %" PRIu64 " bytes at offset %" PRIu64 " of part %" PRIu32 "\n",
                  t->n_bytes, t->offset, is_json ? t->split : t->split + 1);
}

static void dump_head(rf_buf *out, const rf_gguf *g, bool is_json) {
    if (is_json) {
        rf_buf_puts(out, "{\"file\":");
        rf_buf_json_str(out, rf_str_of(rf_gguf_path(g)));
        rf_buf_printf(out,
                      ",\"version\":%" PRIu32 ",\"parts\":%" PRIu32 ",\"bytes\":%" PRIu64
                      ",\"alignment\":%" PRIu32 ",\"keys\":[",
                      rf_gguf_version(g), rf_gguf_n_splits(g), rf_gguf_file_bytes(g),
                      rf_gguf_alignment(g));
        return;
    }
    rf_buf_printf(out,
                  "# GGUF version %" PRIu32 ", %" PRIu32 " part%s, %" PRIu64
                  " bytes, alignment %" PRIu32 ", %zu keys, %zu tensors\n",
                  rf_gguf_version(g), rf_gguf_n_splits(g), rf_gguf_n_splits(g) == 1 ? "" : "s",
                  rf_gguf_file_bytes(g), rf_gguf_alignment(g), rf_gguf_n_kv(g),
                  rf_gguf_n_tensors(g));
}

/* Writes what has gathered; false when writing failed and there is no point in going on. */
static bool flush(rf_cli *c, rf_buf *out) {
    return out->len < FLUSH_BYTES ? !out->failed : rf_cli_write(c, out);
}

static void dump(rf_cli *c, const rf_gguf *g, rf_buf *out) {
    bool is_json = rf_cli_bool(c, RF_F_JSON);
    uint64_t most = rf_cli_bool(c, RF_F_ALL) ? RF_GGUF_SHOW_ALL : SHOWN_ELEMS;
    dump_head(out, g, is_json);
    for (size_t i = 0; i < rf_gguf_n_kv(g) && flush(c, out); i++) {
        if (is_json && i) rf_buf_putc(out, ',');
        dump_key(out, rf_gguf_kv_at(g, i), most, is_json);
    }
    rf_buf_puts(out, is_json ? "],\"tensors\":[" : "# tensors (shapes slowest dimension first)\n");
    for (size_t i = 0; i < rf_gguf_n_tensors(g) && flush(c, out); i++) {
        if (is_json && i) rf_buf_putc(out, ',');
        dump_tensor(out, rf_gguf_tensor_at(g, i), is_json);
    }
    if (is_json) rf_buf_puts(out, "]}\n");
    rf_cli_write(c, out);
}

int rf_cmd_gguf_dump(rf_cli *c) {
    rf_gguf *g;
    rf_error e = {0};
    rf_buf out = {0};
    if (rf_gguf_open(&g, rf_cli_arg(c, 0), &e) != RF_OK) return rf_cli_fail(c, &e);
    dump(c, g, &out);
    rf_buf_free(&out);
    rf_gguf_close(g);
    return RF_EXIT_OK;
}

/* ---- decoding in pieces ---- */

typedef struct decoder {
    const rf_gguf_tensor *t;
    const rf_dtype_info *info;
    uint64_t done, n; /* elements */
    float *x;         /* [PIECE_ELEMS] */
} decoder;

static decoder decoder_start(const rf_gguf_tensor *t, float *x) {
    return (decoder){t, rf_dtype_get(t->type), 0, rf_gguf_tensor_elems(t), x};
}

/* The next piece in d->x; 0 at the end. */
static size_t decoder_next(decoder *d) {
    uint64_t left = d->n - d->done;
    size_t n = left < PIECE_ELEMS ? (size_t)left : PIECE_ELEMS;
    if (n) {
        uint64_t at = d->done / d->info->block_elems * d->info->block_bytes;
        d->info->decode(d->t->data + at, d->x, n);
        d->done += n;
    }
    return n;
}

static float *piece_alloc(rf_error *e) {
    float *x = rf_alloc(PIECE_ELEMS, sizeof *x);
    if (!x) (void)rf_fail_nomem(e, PIECE_ELEMS * sizeof *x);
    return x;
}

/* ---- verify ---- */

typedef struct finding {
    uint64_t n_nan, n_inf;
    uint64_t first;  /* element, when there is one */
    double min, max; /* of the finite values */
} finding;

typedef struct verifier {
    rf_cli *c;
    const rf_gguf *g;
    rf_buf out;
    float *x; /* [PIECE_ELEMS] */
    rf_progress progress;
    uint64_t done_bytes, n_values, n_bad;
    bool is_json;
} verifier;

static void look_at(finding *f, const float *x, size_t n, uint64_t base) {
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i];
        if (isfinite(v)) {
            if (v < f->min) f->min = v;
            if (v > f->max) f->max = v;
            continue;
        }
        if (f->n_nan + f->n_inf == 0) f->first = base + i;
        f->n_nan += isnan(v) != 0;
        f->n_inf += isinf(v) != 0;
    }
}

static void report(verifier *v, const rf_gguf_tensor *t, const finding *f, bool is_first) {
    const rf_dtype_info *info = rf_dtype_get(t->type);
    bool is_bad = f->n_nan + f->n_inf > 0;
    uint64_t block = f->first / info->block_elems, offset = t->offset + block * info->block_bytes;
    if (v->is_json) {
        rf_buf_puts(&v->out, is_first ? "{\"name\":" : ",{\"name\":");
        rf_buf_json_str(&v->out, t->name);
        rf_buf_printf(
            &v->out, ",\"type\":\"%s\",\"values\":%" PRIu64 ",\"nan\":%" PRIu64 ",\"inf\":%" PRIu64,
            info->name, rf_gguf_tensor_elems(t), f->n_nan, f->n_inf);
        if (f->min <= f->max) {
            rf_buf_printf(&v->out, ",\"min\":%.9g,\"max\":%.9g", f->min, f->max);
        }
        if (is_bad) {
            rf_buf_printf(&v->out, ",\"first_bad\":%" PRIu64 ",\"offset\":%" PRIu64, f->first,
                          offset);
        }
        rf_buf_putc(&v->out, '}');
    } else if (is_bad) {
        rf_buf_json_str(&v->out, t->name);
        rf_buf_printf(&v->out,
                      " (%s): %" PRIu64 " NaN and %" PRIu64 " infinite values of %" PRIu64
                      "; the first is element %" PRIu64 ", block %" PRIu64 " at offset %" PRIu64
                      " of part %" PRIu32 "\n",
                      info->name, f->n_nan, f->n_inf, rf_gguf_tensor_elems(t), f->first, block,
                      offset, t->split + 1);
    }
}

/* False when stopped by Ctrl-C or because nobody reads the output. */
static bool verify_tensor(verifier *v, const rf_gguf_tensor *t, bool is_first) {
    finding f = {.min = HUGE_VAL, .max = -HUGE_VAL};
    decoder d = decoder_start(t, v->x);
    while (d.info->decode && d.done < d.n) { /* integers have nothing that could be wrong */
        uint64_t base = d.done;
        look_at(&f, v->x, decoder_next(&d), base);
        rf_progress_step(&v->progress,
                         v->done_bytes + d.done / d.info->block_elems * d.info->block_bytes);
        if (rf_cli_interrupted()) return false;
    }
    v->done_bytes += t->n_bytes;
    v->n_values += d.n;
    v->n_bad += f.n_nan + f.n_inf > 0;
    report(v, t, &f, is_first);
    return flush(v->c, &v->out);
}

static void verify_head(verifier *v) {
    if (!v->is_json) return;
    rf_buf_puts(&v->out, "{\"file\":");
    rf_buf_json_str(&v->out, rf_str_of(rf_gguf_path(v->g)));
    rf_buf_puts(&v->out, ",\"tensors\":[");
}

static void verify_tail(verifier *v) {
    if (v->is_json) {
        rf_buf_printf(&v->out,
                      "],\"bytes\":%" PRIu64 ",\"values\":%" PRIu64 ",\"bad_tensors\":%" PRIu64
                      ",\"ok\":%s}\n",
                      v->done_bytes, v->n_values, v->n_bad, v->n_bad ? "false" : "true");
        return;
    }
    rf_buf_printf(&v->out, "%s: %s, %zu tensors, %" PRIu64 " values in ", rf_gguf_path(v->g),
                  v->n_bad ? "bad" : "ok", rf_gguf_n_tensors(v->g), v->n_values);
    rf_put_bytes(&v->out, v->done_bytes);
    if (v->n_bad) rf_buf_printf(&v->out, ", %" PRIu64 " tensors with bad values", v->n_bad);
    rf_buf_putc(&v->out, '\n');
}

/* The exit code: 0 good, 1 bad values, 130 stopped. */
static int verify(verifier *v) {
    uint64_t total = 0;
    bool goes_on = true;
    for (size_t i = 0; i < rf_gguf_n_tensors(v->g); i++) {
        total += rf_gguf_tensor_at(v->g, i)->n_bytes;
    }
    verify_head(v);
    rf_progress_start(&v->progress, v->c, "verifying", total);
    for (size_t i = 0; i < rf_gguf_n_tensors(v->g) && goes_on; i++) {
        goes_on = verify_tensor(v, rf_gguf_tensor_at(v->g, i), i == 0);
    }
    rf_progress_end(&v->progress);
    if (rf_cli_interrupted()) {
        return rf_cli_fail(v->c, &(rf_error){RF_ECANCELLED, "stopped before the end"});
    }
    verify_tail(v);
    rf_cli_write(v->c, &v->out);
    return v->n_bad ? RF_EXIT_FAILED : RF_EXIT_OK;
}

int rf_cmd_gguf_verify(rf_cli *c) {
    rf_gguf *g;
    rf_error e = {0};
    if (rf_gguf_open(&g, rf_cli_arg(c, 0), &e) != RF_OK) return rf_cli_fail(c, &e);
    verifier v = {.c = c, .g = g, .is_json = rf_cli_bool(c, RF_F_JSON), .x = piece_alloc(&e)};
    rf_cli_catch_interrupts();
    int code = v.x ? verify(&v) : rf_cli_fail(c, &e);
    rf_free(v.x);
    rf_buf_free(&v.out);
    rf_gguf_close(g);
    return code;
}

/* ---- dequant ---- */

static rf_status write_pieces(rf_cli *c, const rf_gguf_tensor *t, rf_outfile *file, float *x,
                              rf_error *e) {
    decoder d = decoder_start(t, x);
    rf_progress progress;
    rf_status s = RF_OK;
    rf_progress_start(&progress, c, "decoding", d.n);
    for (size_t n; s == RF_OK && (n = decoder_next(&d)) > 0;) {
        s = rf_outfile_write(file, x, n * sizeof *x, e);
        rf_progress_step(&progress, d.done);
        if (s == RF_OK && rf_cli_interrupted()) {
            s = rf_fail(e, RF_ECANCELLED, "stopped before the end; nothing was written");
        }
    }
    rf_progress_end(&progress);
    return s;
}

static rf_status dequant(rf_cli *c, const rf_gguf *g, const char *name, const char *path,
                         rf_error *e) {
    const rf_gguf_tensor *t = rf_gguf_find_tensor(g, name);
    if (!t) {
        return rf_fail(e, RF_EARG,
                       "%s: no tensor '%.80s' among %zu; 'rocmforge gguf dump' lists them",
                       rf_gguf_path(g), name, rf_gguf_n_tensors(g));
    }
    if (!rf_dtype_get(t->type)->decode) {
        return rf_fail(e, RF_EUNSUPPORTED,
                       "%s: tensor '%.80s': expected a float or quantised format, got %s",
                       rf_gguf_path(g), name, rf_dtype_get(t->type)->name);
    }
    rf_outfile *file;
    float *x = piece_alloc(e);
    if (!x) return e->status;
    rf_status s = rf_outfile_open(&file, path, e);
    if (s == RF_OK) {
        s = write_pieces(c, t, file, x, e);
        if (s == RF_OK) {
            s = rf_outfile_commit(file, e);
        } else {
            rf_outfile_abort(file);
        }
    }
    rf_free(x);
    return s;
}

int rf_cmd_gguf_dequant(rf_cli *c) {
    rf_gguf *g;
    rf_error e = {0};
    const char *path = rf_cli_str(c, RF_F_OUT);
    if (!path) return rf_cli_usage(c, "name the file to write with -o (-: standard output)");
    if (rf_gguf_open(&g, rf_cli_arg(c, 0), &e) != RF_OK) return rf_cli_fail(c, &e);
    rf_cli_catch_interrupts();
    rf_status s = dequant(c, g, rf_cli_arg(c, 1), path, &e);
    rf_gguf_close(g);
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}
