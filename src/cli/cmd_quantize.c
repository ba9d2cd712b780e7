/* cmd_quantize.c - `quantize IN OUT TYPE`: a GGUF file again, its weights in smaller formats.
 *
 * Tensors are worked on in slabs of rows, by all threads, and streamed to the new file, so memory
 * is bounded by a slab whatever the model's size.  The new file appears under its name only when it
 * is complete.  Which tensor gets which format is decided in quant/mix.c. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/os.h"
#include "base/pool.h"
#include "cli/cli.h"
#include "cli/gguf_copy.h"
#include "cli/gguf_text.h"
#include "gguf/imatrix.h"
#include "quant/mix.h"

enum { SLAB_ELEMS = 4 << 20 }; /* rows of about this many values are done between two writes */

/* What becomes of one tensor. */
typedef struct item {
    const rf_gguf_tensor *t;
    rf_dtype type;
    uint64_t n_rows, n_bytes;
    rf_importance importance;
    bool is_weight; /* up for quantisation at all */
} item;

typedef struct job {
    rf_cli *c;
    rf_gguf *in;
    rf_imatrix *imatrix; /* may be NULL */
    const rf_mix *mix;
    rf_mix_model model;
    item *items; /* [n_items] */
    size_t n_items;
    uint64_t old_bytes, new_bytes, n_elems;
    size_t n_requantised, n_without_importance;
    rf_pool *pool;
    rf_progress progress;
    uint64_t done_bytes; /* of the input */
} job;

/* ---- what to do ---- */

static bool glob_matches(const char *p, rf_str s) {
    size_t i = 0, star_s = 0;
    const char *star = NULL;
    while (i < s.len) {
        if (*p == '*') {
            star = ++p;
            star_s = i;
        } else if (*p && (*p == '?' || *p == s.p[i])) {
            p++;
            i++;
        } else if (star) {
            p = star;
            i = ++star_s;
        } else {
            return false;
        }
    }
    while (*p == '*')
        p++;
    return *p == 0;
}

/* The model's facts that the rules ask for; absent or odd keys just make no rule fit. */
static uint32_t arch_key(const rf_gguf *g, const char *suffix) {
    char key[128];
    rf_str arch = {0};
    rf_error ignored = {0};
    if (rf_gguf_get_str(g, "general.architecture", &arch, NULL, &ignored) != RF_OK) return 0;
    snprintf(key, sizeof key, "%.*s.%s", arch.len > 64 ? 64 : (int)arch.len, arch.p ? arch.p : "",
             suffix);
    const rf_gguf_kv *kv = rf_gguf_find(g, key);
    if (!kv || kv->n == 0) return 0;
    bool is_number = kv->elem_type == RF_GGUF_U32 || kv->elem_type == RF_GGUF_I32;
    return is_number ? (uint32_t)rf_gguf_elem_u64(kv, 0) : 0;
}

static void look_at_model(job *j) {
    uint32_t heads = arch_key(j->in, "attention.head_count");
    uint32_t kv_heads = arch_key(j->in, "attention.head_count_kv");
    j->model.n_gqa = kv_heads ? heads / kv_heads : 1;
    j->model.n_experts = arch_key(j->in, "expert_count");
    j->model.is_tied = !rf_gguf_find_tensor(j->in, "output.weight");
    j->model.has_imatrix = j->imatrix != NULL;
    for (size_t i = 0; i < rf_gguf_n_tensors(j->in); i++) {
        int64_t layer = rf_mix_layer(rf_gguf_tensor_at(j->in, i)->name);
        if (layer >= (int64_t)j->model.n_layers) j->model.n_layers = (uint32_t)layer + 1;
    }
}

/* --tensor-type PATTERN=TYPE, the first that matches; *used counts the matches of each. */
static rf_status apply_patterns(const job *j, item *it, bool *used, rf_error *e) {
    const char *const *list = NULL;
    size_t n = rf_cli_list(j->c, RF_F_TENSOR_TYPE, &list);
    for (size_t i = 0; i < n; i++) {
        const char *equals = strrchr(list[i], '=');
        char pattern[RF_GGUF_MAX_NAME + 1];
        size_t len = equals ? (size_t)(equals - list[i]) : 0;
        if (len == 0 || len >= sizeof pattern) {
            return rf_fail(e, RF_EARG,
                           "--tensor-type '%.80s': expected PATTERN=TYPE, a pattern of at most %d "
                           "bytes, such as 'blk.*.attn_v.weight=Q8_0'",
                           list[i], RF_GGUF_MAX_NAME);
        }
        rf_dtype type;
        if (!rf_dtype_from_name(rf_str_of(equals + 1), &type) || !rf_dtype_get(type)->encode) {
            return rf_fail(e, RF_EARG,
                           "--tensor-type '%.80s': expected a format that can be written, such as "
                           "Q6_K; 'rocmforge help quantize' lists them",
                           list[i]);
        }
        memcpy(pattern, list[i], len);
        pattern[len] = 0;
        if (!glob_matches(pattern, it->t->name)) continue;
        used[i] = true;
        if (it->t->ne[0] % rf_dtype_get(type)->block_elems) {
            return rf_fail(e, RF_EARG,
                           "--tensor-type '%.80s': tensor '%.*s' has rows of %" PRIu64
                           " values, expected a multiple of %" PRIu32,
                           list[i], RF_STR_ARG(it->t->name), it->t->ne[0],
                           rf_dtype_get(type)->block_elems);
        }
        it->type = type;
        return RF_OK;
    }
    return RF_OK;
}

static rf_status check_patterns_used(const job *j, const bool *used, rf_error *e) {
    const char *const *list = NULL;
    size_t n = rf_cli_list(j->c, RF_F_TENSOR_TYPE, &list);
    for (size_t i = 0; i < n; i++) {
        if (used[i]) continue;
        return rf_fail(e, RF_EARG,
                       "--tensor-type '%.80s': no weight of %s matches (* and ? are wildcards; "
                       "--dry-run lists the names)",
                       list[i], rf_gguf_path(j->in));
    }
    return RF_OK;
}

static rf_status plan_item(job *j, item *it, bool *used, rf_error *e) {
    const rf_gguf_tensor *t = it->t;
    uint64_t n = rf_gguf_tensor_elems(t);
    it->type = t->type;
    it->n_rows = n ? n / t->ne[0] : 0;
    it->is_weight = n && rf_dtype_get(t->type)->decode && rf_mix_is_weight(t->name, t->ne);
    if (it->is_weight) {
        it->type = rf_mix_type(j->mix, &j->model, t->name, t->ne[0]);
        RF_TRY(apply_patterns(j, it, used, e));
        if (j->imatrix) {
            RF_TRY(rf_imatrix_find(j->imatrix, t->name, t->ne[0], t->ne[2] * t->ne[3],
                                   &it->importance, e));
        }
        if (it->type != t->type) {
            j->n_requantised += rf_dtype_get(t->type)->is_block;
            j->n_without_importance +=
                j->imatrix && !it->importance.sums && rf_mix_layer(t->name) >= 0;
        }
    }
    size_t bytes = 0;
    if (!rf_dtype_bytes(it->type, n, &bytes)) {
        return rf_fail(e, RF_EFORMAT, "tensor '%.*s': too large", RF_STR_ARG(t->name));
    }
    it->n_bytes = bytes;
    j->n_elems += n;
    j->old_bytes += t->n_bytes;
    j->new_bytes += bytes;
    return RF_OK;
}

static rf_status plan(job *j, rf_error *e) {
    const char *const *list = NULL;
    size_t n_patterns = rf_cli_list(j->c, RF_F_TENSOR_TYPE, &list);
    bool *used = rf_alloc(n_patterns, sizeof *used);
    j->n_items = rf_gguf_n_tensors(j->in);
    j->items = rf_alloc(j->n_items, sizeof *j->items);
    rf_status s = used && j->items ? RF_OK : rf_fail_nomem(e, j->n_items * sizeof *j->items);
    look_at_model(j);
    for (size_t i = 0; i < j->n_items && s == RF_OK; i++) {
        j->items[i].t = rf_gguf_tensor_at(j->in, i);
        s = plan_item(j, &j->items[i], used, e);
    }
    if (s == RF_OK) s = check_patterns_used(j, used, e);
    rf_free(used);
    return s;
}

/* ---- doing it ---- */

/* Rows first .. first + n of one tensor, shared by all threads. */
typedef struct slab {
    const item *it;
    uint64_t first, n;
    uint8_t *out;                       /* [n][row_bytes] */
    float *values;                      /* [n_threads][ne0]: one decoded row each */
    float *importance;                  /* [n_threads][ne0] */
    atomic_uint_fast64_t next, bad_row; /* bad_row: the lowest with a value that is not finite */
} slab;

/* Sums of squares over the tokens that reached the matrix; only their proportions matter, so the
 * division by the count only guards against matrices that no token reached. */
static const float *importance_of(const item *it, uint64_t row, float *buffer) {
    if (!it->importance.sums) return NULL;
    uint64_t n = it->t->ne[0], mat = row / it->t->ne[1];
    if (!(rf_importance_count(&it->importance, mat) > 0)) return NULL;
    memcpy(buffer, it->importance.sums + mat * n * sizeof *buffer, n * sizeof *buffer);
    return buffer;
}

static bool all_finite(const float *x, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (x[i] - x[i] != 0) return false;
    return true;
}

static void encode_rows(void *ctx, int ith, int n_threads) {
    slab *s = ctx;
    (void)n_threads;
    const rf_gguf_tensor *t = s->it->t;
    const rf_dtype_info *from = rf_dtype_get(t->type), *to = rf_dtype_get(s->it->type);
    uint64_t n = t->ne[0];
    size_t from_bytes = n / from->block_elems * from->block_bytes;
    size_t to_bytes = n / to->block_elems * to->block_bytes;
    float *x = s->values + (size_t)ith * n, *w = s->importance + (size_t)ith * n;
    for (uint64_t i; (i = atomic_fetch_add(&s->next, 1)) < s->n;) {
        uint64_t row = s->first + i;
        from->decode(t->data + row * from_bytes, x, n);
        if (all_finite(x, n)) {
            to->encode(x, s->out + i * to_bytes, n, importance_of(s->it, row, w));
            continue;
        }
        uint_fast64_t seen = atomic_load(&s->bad_row);
        while (row < seen && !atomic_compare_exchange_weak(&s->bad_row, &seen, row)) {
        }
    }
}

static rf_status stop_if_asked(rf_error *e) {
    return rf_cli_interrupted()
               ? rf_fail(e, RF_ECANCELLED, "stopped before the end; nothing was written")
               : RF_OK;
}

static rf_status write_slabs(job *j, slab *s, uint64_t slab_rows, rf_gguf_writer *w, rf_error *e) {
    const item *it = s->it;
    size_t row_bytes = (size_t)(it->n_bytes / it->n_rows);
    uint64_t old_row_bytes = it->t->n_bytes / it->n_rows;
    for (s->first = 0; s->first < it->n_rows; s->first += s->n) {
        s->n = it->n_rows - s->first < slab_rows ? it->n_rows - s->first : slab_rows;
        atomic_store(&s->next, 0);
        atomic_store(&s->bad_row, UINT64_MAX);
        rf_pool_run(j->pool, encode_rows, s);
        if (atomic_load(&s->bad_row) != UINT64_MAX) {
            return rf_fail(e, RF_EFORMAT,
                           "%s: tensor '%.*s': expected finite values, got NaN or infinity in row "
                           "%" PRIu64 "; 'rocmforge gguf verify' finds all of them",
                           rf_gguf_path(j->in), RF_STR_ARG(it->t->name),
                           (uint64_t)atomic_load(&s->bad_row));
        }
        RF_TRY(rf_gguf_writer_data(w, s->out, (size_t)s->n * row_bytes, e));
        rf_progress_step(&j->progress, j->done_bytes + (s->first + s->n) * old_row_bytes);
        RF_TRY(stop_if_asked(e));
    }
    return RF_OK;
}

static rf_status convert(job *j, const item *it, rf_gguf_writer *w, rf_error *e) {
    uint64_t row = it->t->ne[0], slab_rows = row < SLAB_ELEMS ? SLAB_ELEMS / row : 1;
    size_t n_threads = (size_t)rf_pool_size(j->pool), n_values;
    if (slab_rows > it->n_rows) slab_rows = it->n_rows;
    size_t out_bytes = (size_t)(it->n_bytes / it->n_rows * slab_rows);
    if (!rf_mul_ok(n_threads, (size_t)row, &n_values)) return rf_fail_nomem(e, SIZE_MAX);
    slab s = {.it = it};
    s.out = rf_alloc(out_bytes, 1);
    s.values = rf_alloc(n_values, sizeof *s.values);
    s.importance = rf_alloc(n_values, sizeof *s.importance);
    rf_status status = s.out && s.values && s.importance
                           ? write_slabs(j, &s, slab_rows, w, e)
                           : rf_fail_nomem(e, out_bytes + 2 * n_values * sizeof *s.values);
    rf_free(s.out);
    rf_free(s.values);
    rf_free(s.importance);
    return status;
}

static rf_status put_keys(const job *j, rf_gguf_writer *w, rf_error *e) {
    static const char *const dropped[] = {"general.file_type", "general.quantization_version",
                                          NULL};
    RF_TRY(rf_gguf_copy_keys(j->in, w, dropped, e));
    if (j->mix->file_type != RF_MIX_NO_FILE_TYPE) {
        RF_TRY(rf_gguf_put_u32(w, "general.file_type", (uint32_t)j->mix->file_type, e));
    }
    return rf_gguf_put_u32(w, "general.quantization_version", 2, e);
}

static rf_status write_all(job *j, rf_gguf_writer *w, rf_error *e) {
    RF_TRY(put_keys(j, w, e));
    for (size_t i = 0; i < j->n_items; i++) {
        const rf_gguf_tensor *t = j->items[i].t;
        RF_TRY(rf_gguf_declare(w, t->name, j->items[i].type, t->n_dims, t->ne, e));
    }
    for (size_t i = 0; i < j->n_items; i++) {
        const item *it = &j->items[i];
        RF_TRY(it->type == it->t->type ? rf_gguf_copy_data(it->t, w, &j->progress, j->done_bytes, e)
                                       : convert(j, it, w, e));
        j->done_bytes += it->t->n_bytes;
    }
    return RF_OK;
}

static rf_status write_file(job *j, const char *path, rf_error *e) {
    rf_gguf_writer *w;
    int n_threads = (int)rf_cli_int(j->c, RF_F_THREADS);
    RF_TRY(rf_pool_create(&j->pool, n_threads ? n_threads : rf_core_count(), e));
    RF_TRY(rf_gguf_writer_open(&w, path, rf_gguf_alignment(j->in), e));
    rf_progress_start(&j->progress, j->c, "quantising", j->old_bytes);
    rf_status s = rf_gguf_copy_split(j->c, w, e);
    if (s == RF_OK) s = write_all(j, w, e);
    rf_progress_end(&j->progress);
    if (s == RF_OK) return rf_gguf_writer_finish(w, e);
    rf_gguf_writer_abort(w);
    return s;
}

/* ---- what it says ---- */

static void list_items(const job *j, rf_buf *out, bool is_json) {
    for (size_t i = 0; i < j->n_items; i++) {
        const item *it = &j->items[i];
        const char *from = rf_dtype_get(it->t->type)->name, *to = rf_dtype_get(it->type)->name;
        if (is_json) rf_buf_puts(out, i ? ",{\"name\":" : "{\"name\":");
        rf_buf_json_str(out, it->t->name);
        rf_buf_puts(out, is_json ? ",\"shape\":" : " ");
        rf_gguf_put_shape(out, it->t);
        rf_buf_printf(out,
                      is_json ? ",\"from\":\"%s\",\"to\":\"%s\",\"old_bytes\":%" PRIu64
                                ",\"bytes\":%" PRIu64 "}"
                              : " %s -> %s, %" PRIu64 " -> %" PRIu64 " bytes\n",
                      from, to, it->t->n_bytes, it->n_bytes);
    }
}

static void report(const job *j, const char *path, bool is_dry) {
    rf_buf out = {0};
    bool is_json = rf_cli_bool(j->c, RF_F_JSON);
    double bits = j->n_elems ? 8.0 * (double)j->new_bytes / (double)j->n_elems : 0;
    if (is_json) {
        rf_buf_puts(&out, "{\"file\":");
        rf_buf_json_str(&out, rf_str_of(path));
        rf_buf_printf(&out, ",\"type\":\"%s\",\"written\":%s,\"tensors\":[", j->mix->name,
                      is_dry ? "false" : "true");
        list_items(j, &out, true);
        rf_buf_printf(
            &out, "],\"old_bytes\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"bits_per_weight\":%.3f}\n",
            j->old_bytes, j->new_bytes, bits);
    } else {
        if (is_dry) list_items(j, &out, false);
        rf_buf_printf(&out, "%s: %s, %zu tensors, ", path, j->mix->name, j->n_items);
        rf_put_bytes(&out, j->old_bytes);
        rf_buf_puts(&out, " -> ");
        rf_put_bytes(&out, j->new_bytes);
        rf_buf_printf(&out, ", %.2f bits per weight%s\n", bits,
                      is_dry ? " (dry run: nothing was written)" : "");
    }
    rf_cli_write(j->c, &out);
    rf_buf_free(&out);
    if (j->n_requantised) {
        fprintf(stderr,
                "rocmforge quantize: %zu tensors were quantised already and their errors add up; "
                "start from F16, BF16 or F32 for the best result\n",
                j->n_requantised);
    }
    if (j->n_without_importance) {
        fprintf(stderr,
                "rocmforge quantize: the importance matrix has nothing for %zu tensors, which were "
                "quantised without\n",
                j->n_without_importance);
    }
}

/* ---- the command ---- */

static rf_status quantize(job *j, const char *in, const char *out, rf_error *e) {
    const char *imatrix = rf_cli_str(j->c, RF_F_IMATRIX);
    bool is_dry = rf_cli_bool(j->c, RF_F_DRY_RUN);
    RF_TRY(rf_gguf_open(&j->in, in, e));
    if (rf_is_same_file(in, out)) {
        return rf_fail(e, RF_EARG, "%s: expected another file to write than the one that is read",
                       out);
    }
    if (imatrix) RF_TRY(rf_imatrix_open(&j->imatrix, imatrix, e));
    RF_TRY(plan(j, e));
    if (!is_dry) RF_TRY(write_file(j, out, e));
    report(j, out, is_dry);
    return RF_OK;
}

/* "F32, F16, ...": every name that TYPE may be. */
static void list_mixes(char *text, size_t cap) {
    size_t at = 0;
    for (size_t i = 0; i < rf_mix_count() && at < cap; i++) {
        int n = snprintf(text + at, cap - at, "%s%s", i ? ", " : "", rf_mix_at(i)->name);
        at += n > 0 ? (size_t)n : 0;
    }
}

int rf_cmd_quantize(rf_cli *c) {
    char names[400];
    rf_error e = {0};
    job j = {.c = c, .mix = rf_mix_find(rf_str_of(rf_cli_arg(c, 2)))};
    if (!j.mix) {
        list_mixes(names, sizeof names);
        return rf_cli_usage(c, "unknown type '%.40s', expected one of %s", rf_cli_arg(c, 2), names);
    }
    rf_cli_catch_interrupts();
    rf_status s = quantize(&j, rf_cli_arg(c, 0), rf_cli_arg(c, 1), &e);
    rf_pool_free(j.pool);
    rf_free(j.items);
    rf_imatrix_close(j.imatrix);
    rf_gguf_close(j.in);
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}
