/* model.c - opening a model: which architecture, then its bind(); closing it again.
 *
 * Owns the rf_model, its arena and, once bound, the GGUF file under it.  What a model consists
 * of is the business of its architecture (arch/); how single values are read and checked is
 * bind.c's. */
#include "model/model.h"

#include <stdio.h>

static const rf_arch *find_arch(rf_str name) {
    for (size_t i = 0; i < rf_arch_count(); i++)
        if (rf_str_is(name, rf_arch_at(i)->name)) return rf_arch_at(i);
    return NULL;
}

/* Insertions, deletions and substitutions that make a into b; both at most ARCH_NAME_MAX long. */
enum { ARCH_NAME_MAX = 63 };
static size_t edit_distance(rf_str a, rf_str b) {
    size_t row[ARCH_NAME_MAX + 1];
    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t best = diagonal + (a.p[i - 1] != b.p[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b.len];
}

static const char *nearest_arch(rf_str name) {
    if (name.len > ARCH_NAME_MAX) name.len = ARCH_NAME_MAX;
    const char *nearest = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < rf_arch_count(); i++) {
        rf_str known = rf_str_of(rf_arch_at(i)->name);
        RF_ASSERT(known.len <= ARCH_NAME_MAX);
        size_t d = edit_distance(name, known);
        if (d < least) {
            least = d;
            nearest = rf_arch_at(i)->name;
        }
    }
    return nearest;
}

static rf_status choose_arch(rf_model *m, rf_error *e) {
    rf_str name = {0};
    bool found = false;
    RF_TRY(rf_gguf_get_str(m->file, "general.architecture", &name, &found, e));
    const char *path = rf_gguf_path(m->file);
    if (!found)
        return rf_fail(e, RF_EFORMAT,
                       "%s: key general.architecture is missing, so the file cannot be run; "
                       "expected a model, got other GGUF data",
                       path);
    if (rf_gguf_n_tensors(m->file) == 0)
        return rf_fail(
            e, RF_EFORMAT,
            "%s: holds a vocabulary but no weights; expected a whole model (tokenize and "
            "detokenize work with this file)",
            path);
    m->arch = find_arch(name);
    if (m->arch) return RF_OK;
    return rf_fail(
        e, RF_EUNSUPPORTED,
        "%s: general.architecture is \"%.*s\", which this build does not know; the "
        "nearest of %zu it runs is \"%s\" (`rocmforge models` lists them, docs/models.md "
        "shows how to add one)",
        path, (int)(name.len > 64 ? 64 : name.len), name.p, rf_arch_count(), nearest_arch(name));
}

rf_status rf_model_bind(rf_model **out, rf_gguf *g, rf_error *e) {
    *out = NULL;
    rf_arena *arena = NULL;
    if (rf_arena_create(&arena) != RF_OK) return rf_fail_nomem(e, sizeof(rf_model));
    rf_model *m = rf_arena_alloc(arena, 1, sizeof *m);
    if (!m) {
        rf_arena_free(arena);
        return rf_fail_nomem(e, sizeof *m);
    }
    m->arena = arena;
    m->file = g;
    rf_status s = choose_arch(m, e);
    if (s == RF_OK) s = m->arch->bind(m, e);
    if (s != RF_OK) {
        rf_arena_free(arena);
        return s;
    }
    *out = m;
    return RF_OK;
}

rf_status rf_model_open(rf_model **out, const char *path, rf_error *e) {
    *out = NULL;
    rf_gguf *g = NULL;
    RF_TRY(rf_gguf_open(&g, path, e));
    rf_status s = rf_model_bind(out, g, e);
    if (s != RF_OK) rf_gguf_close(g);
    return s;
}

void rf_model_close(rf_model *m) {
    if (!m) return;
    rf_gguf_close(m->file);
    rf_arena_free(m->arena);
}
