/* fingerprint.c - tells one model from another in milliseconds, whatever its size.
 *
 * Of each tensor a few pages stand for the rest, spread evenly from its first byte to its last: training
 * and quantising change nearly every block.  It proves no download: that is the digest's business. */
#include <string.h>

#include "base/digest.h"
#include "gguf/internal.h"

enum { N_PAGES = 8, PAGE = 4096 };

static void add_str(rf_sha256 *h, rf_str s) {
    const uint64_t len = s.len;
    rf_sha256_add(h, &len, sizeof len);
    if (s.len) rf_sha256_add(h, s.p, s.len);
}

/* How the bytes are laid out and cut into files says nothing of the model. */
static bool is_of_the_model(rf_str key) {
    return !rf_str_starts(key, "split.") && !rf_str_is(key, "general.alignment");
}

static void add_key(rf_sha256 *h, const rf_gguf_kv *kv) {
    const uint64_t about[] = {(uint64_t)kv->type, (uint64_t)kv->elem_type, kv->n};
    add_str(h, kv->key);
    rf_sha256_add(h, about, sizeof about);
    size_t bytes = rf_gguf_value_bytes(kv);
    if (bytes) rf_sha256_add(h, kv->data, bytes);
}

static void add_tensor(rf_sha256 *h, const rf_gguf_tensor *t) {
    const uint64_t about[] = {(uint64_t)t->type, t->n_dims, t->n_bytes};
    add_str(h, t->name);
    rf_sha256_add(h, about, sizeof about);
    rf_sha256_add(h, t->ne, sizeof t->ne);
    if (t->n_bytes <= N_PAGES * PAGE) {
        if (t->n_bytes) rf_sha256_add(h, t->data, (size_t)t->n_bytes);
        return;
    }
    uint64_t step = (t->n_bytes - PAGE) / (N_PAGES - 1);
    for (uint64_t i = 0; i < N_PAGES; i++)
        rf_sha256_add(h, t->data + (i + 1 < N_PAGES ? i * step : t->n_bytes - PAGE), PAGE);
}

rf_status rf_gguf_fingerprint(const rf_gguf *g, char out[RF_SHA256_HEX]) {
    rf_sha256 *h;
    RF_TRY(rf_sha256_create(&h));
    for (size_t i = 0; i < g->keys.n; i++)
        if (is_of_the_model(g->keys.p[i].key)) add_key(h, &g->keys.p[i]);
    for (size_t i = 0; i < g->n_tensors; i++)
        add_tensor(h, &g->tensors[i]);
    rf_sha256_hex(h, out);
    rf_sha256_free(h);
    return RF_OK;
}
