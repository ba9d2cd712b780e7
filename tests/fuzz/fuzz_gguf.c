/* fuzz_gguf.c - any bytes as a GGUF file: opened or refused, and if opened, read to the last byte.
 *
 * The input is given as it is, without a copy, so the sanitizer's red zones guard both its ends. */
#include "base/map.h"
#include "gguf/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk_value(const rf_gguf_kv *kv) {
    const uint8_t *cursor = kv->data;
    for (uint64_t i = 0; i < kv->n; i++) {
        if (kv->elem_type == RF_GGUF_STRING) {
            rf_str s = rf_gguf_next_str(&cursor);
            (void)rf_hash(s.p, s.len, 1);
        } else {
            (void)rf_gguf_elem_f64(kv, i);
        }
    }
}

/* Every getter, whatever the type of the key. */
static void ask(const rf_gguf *g, const char *key) {
    uint32_t u32;
    uint64_t u64;
    float f;
    bool b;
    rf_str s;
    const rf_gguf_kv *kv;
    rf_error e = {0};
    rf_status all[] = {
        rf_gguf_get_u32(g, key, &u32, NULL, &e), rf_gguf_get_u64(g, key, &u64, NULL, &e),
        rf_gguf_get_f32(g, key, &f, NULL, &e),   rf_gguf_get_bool(g, key, &b, NULL, &e),
        rf_gguf_get_str(g, key, &s, NULL, &e),   rf_gguf_get_array(g, key, RF_GGUF_STRING, &kv, &e),
    };
    for (size_t i = 0; i < RF_COUNT(all); i++) {
        RF_ASSERT(all[i] == RF_OK || (all[i] == RF_EFORMAT && e.text[0]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rf_gguf *g;
    rf_error e = {0};
    rf_status s = rf_gguf_open_memory(&g, data, size, &e);
    if (s != RF_OK) {
        RF_ASSERT(e.status == s && e.text[0]);
        return 0;
    }
    ask(g, "general.architecture");
    ask(g, "general.alignment");
    ask(g, "k");
    for (size_t i = 0; i < rf_gguf_n_kv(g); i++)
        walk_value(rf_gguf_kv_at(g, i));
    for (size_t i = 0; i < rf_gguf_n_tensors(g); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(g, i);
        RF_ASSERT(t->offset <= size || t->n_bytes == 0);
        (void)rf_hash(t->data, (size_t)t->n_bytes, 1);
    }
    rf_gguf_close(g);
    return 0;
}
