/* cmd_imatrix.c - `imatrix`: how large the inputs of every weight's columns are, over a text.
 *
 * For each matrix product the squares of its inputs are summed per column, in double, and counted
 * per matrix (a weight of stacked experts is several).  The file is GGUF: NAME.in_sum2
 * [matrices][columns] and NAME.counts [matrices], both F32.  Memory: one chunk's activations of one
 * batch, and the sums. */
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "cli/chunks.h"
#include "gguf/writer.h"

enum { DEFAULT_BATCH = 32 }; /* all activations of a batch are kept */

/* What one weight has met. */
typedef struct meter {
    rf_str weight;
    size_t n_cols;
    uint32_t n_mats;
    double *sums;   /* [n_mats][n_cols] */
    double *counts; /* [n_mats] rows */
} meter;

typedef struct collector {
    rf_arena *arena;
    rf_map *index; /* weight -> meter */
    meter *meters; /* [n], of cap */
    uint32_t n, cap;
    rf_error error;
} collector;

static rf_status add_meter(collector *k, const rf_activation *a) {
    size_t n;
    if (k->n == k->cap) {
        uint32_t cap = k->cap ? 2 * k->cap : 64;
        void *p = rf_realloc(k->meters, k->cap, cap, sizeof k->meters[0]);
        if (!p) return rf_fail_nomem(&k->error, cap * sizeof k->meters[0]);
        k->meters = p;
        k->cap = cap;
    }
    if (!rf_mul_ok(a->cols, a->n_matrices, &n)) return rf_fail_nomem(&k->error, SIZE_MAX);
    meter m = {.weight = rf_arena_str(k->arena, (rf_str){a->weight, a->weight_len}),
               .n_cols = a->cols,
               .n_mats = a->n_matrices,
               .sums = rf_alloc(n, sizeof *m.sums),
               .counts = rf_alloc(a->n_matrices, sizeof *m.counts)};
    k->meters[k->n++] = m; /* freed with the others, whatever is missing */
    if (!m.weight.p || !m.sums || !m.counts ||
        rf_map_put(k->index, m.weight, k->n - 1, NULL) != RF_OK)
        return rf_fail_nomem(&k->error, n * sizeof *m.sums);
    return RF_OK;
}

static bool collect(void *user, const rf_activation *a) {
    collector *k = user;
    rf_str name = {a->weight, a->weight_len};
    if (rf_cli_interrupted()) return false;
    if (rf_map_get(k->index, name) == RF_MAP_NONE && add_meter(k, a) != RF_OK) return false;
    meter *m = &k->meters[rf_map_get(k->index, name)];
    double *sums = m->sums + a->matrix * m->n_cols;
    for (size_t t = 0; t < a->n; t++) {
        for (size_t i = 0; i < a->cols; i++) {
            double v = (double)a->x[t * a->cols + i];
            sums[i] += v * v;
        }
    }
    m->counts[a->matrix] += (double)a->n;
    return true;
}

/* ---- the file ---- */

static rf_status put_floats(rf_gguf_writer *w, const double *v, size_t n, rf_error *e) {
    float *f = rf_alloc(n, sizeof *f);
    if (!f) return rf_fail_nomem(e, n * sizeof *f);
    for (size_t i = 0; i < n; i++)
        f[i] = (float)v[i];
    rf_status s = rf_gguf_writer_data(w, f, n * sizeof *f, e);
    rf_free(f);
    return s;
}

static rf_status declare(rf_gguf_writer *w, const meter *m, const char *part, uint64_t n_cols,
                         rf_error *e) {
    char name[2 * RF_GGUF_MAX_NAME];
    const uint64_t ne[2] = {n_cols, m->n_mats};
    int len = snprintf(name, sizeof name, "%.*s%s", RF_STR_ARG(m->weight), part);
    return rf_gguf_declare(w, (rf_str){name, (size_t)len}, RF_DT_F32, 2, ne, e);
}

static rf_status write_all(const collector *k, const rf_cli *c, const rf_chunks *chunks,
                           rf_gguf_writer *w, rf_error *e) {
    const rf_str text = rf_str_of(rf_cli_str(c, RF_F_FILE));
    RF_TRY(rf_gguf_put_str(w, "general.type", RF_STR("imatrix"), e));
    RF_TRY(rf_gguf_put_str_array(w, "imatrix.datasets", &text, 1, e));
    RF_TRY(rf_gguf_put_u32(w, "imatrix.chunk_count", (uint32_t)chunks->n, e));
    RF_TRY(rf_gguf_put_u32(w, "imatrix.chunk_size", chunks->n_ctx, e));
    for (uint32_t i = 0; i < k->n; i++) {
        RF_TRY(declare(w, &k->meters[i], ".in_sum2", k->meters[i].n_cols, e));
        RF_TRY(declare(w, &k->meters[i], ".counts", 1, e));
    }
    for (uint32_t i = 0; i < k->n; i++) {
        const meter *m = &k->meters[i];
        RF_TRY(put_floats(w, m->sums, m->n_cols * m->n_mats, e));
        RF_TRY(put_floats(w, m->counts, m->n_mats, e));
    }
    return RF_OK;
}

static rf_status write_file(const collector *k, const rf_cli *c, const rf_chunks *chunks,
                            rf_error *e) {
    rf_gguf_writer *w;
    RF_TRY(rf_gguf_writer_open(&w, rf_cli_str(c, RF_F_OUT), 32, e));
    rf_status s = write_all(k, c, chunks, w, e);
    if (s == RF_OK) return rf_gguf_writer_finish(w, e);
    rf_gguf_writer_abort(w);
    return s;
}

/* ---- the command ---- */

static rf_status run_chunks(collector *k, rf_cli *c, rf_engine *en, const rf_chunks *chunks,
                            rf_error *e) {
    rf_progress progress;
    rf_text why;
    rf_status s = RF_OK;
    rf_progress_start(&progress, c, "measuring", chunks->n);
    for (size_t i = 0; i < chunks->n && s == RF_OK; i++) {
        s = rf_session_error(
            rf_engine_activations(en, rf_chunks_at(chunks, i), chunks->n_ctx, collect, k, &why),
            &why, e);
        rf_progress_step(&progress, i + 1);
    }
    rf_progress_end(&progress);
    if (k->error.status != RF_OK) *e = k->error;
    return k->error.status != RF_OK ? k->error.status : s;
}

static rf_status measure(collector *k, rf_cli *c, rf_error *e) {
    const char *path;
    rf_engine *en = NULL;
    rf_chunks chunks = {0};
    RF_TRY(rf_cli_model_path(c, &path, e));
    if (rf_arena_create(&k->arena) != RF_OK || rf_map_create(&k->index, 256) != RF_OK)
        return rf_fail_nomem(e, sizeof *k);
    uint32_t batch = (uint32_t)rf_cli_int(c, RF_F_BATCH);
    if (!batch) batch = DEFAULT_BATCH;
    rf_status s = rf_session_open_path(c, path, rf_chunks_ctx(c), batch, &en, e);
    if (s == RF_OK) s = rf_chunks_read(&chunks, c, en, e);
    if (s == RF_OK) s = run_chunks(k, c, en, &chunks, e);
    if (s == RF_OK) s = write_file(k, c, &chunks, e);
    if (s == RF_OK) {
        rf_buf out = {0};
        const char *file = rf_cli_str(c, RF_F_OUT);
        if (rf_cli_bool(c, RF_F_JSON)) {
            rf_buf_puts(&out, "{\"output\":");
            rf_buf_json_str(&out, rf_str_of(file));
            rf_buf_printf(&out, ",\"chunks\":%zu,\"tokens\":%zu,\"weights\":%u}\n", chunks.n,
                          chunks.n * chunks.n_ctx, k->n);
        } else if (strcmp(file, "-") != 0) {
            rf_buf_printf(&out, "%s: %u weights over %zu chunks of %u tokens\n", file, k->n,
                          chunks.n, chunks.n_ctx);
        }
        rf_cli_write(c, &out);
        rf_buf_free(&out);
    }
    rf_chunks_free(&chunks);
    rf_engine_close(en);
    return s;
}

int rf_cmd_imatrix(rf_cli *c) {
    rf_error e = {0};
    collector k = {0};
    if (!rf_cli_given(c, RF_F_FILE))
        return rf_cli_usage(c, "--file is missing: the text to run the model over");
    if (!rf_cli_given(c, RF_F_OUT))
        return rf_cli_usage(c, "--output is missing: name the file to write");
    rf_cli_catch_interrupts();
    rf_status s = measure(&k, c, &e);
    for (uint32_t i = 0; i < k.n; i++) {
        rf_free(k.meters[i].sums);
        rf_free(k.meters[i].counts);
    }
    rf_free(k.meters);
    rf_map_free(k.index);
    rf_arena_free(k.arena);
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}
