/* mtp.c - layers behind the last one that predict further tokens (multi-token prediction).
 *
 * block_count counts them, the forward pass of the model does not contain them: they are left out,
 * and their tensors are named as known so that nobody takes them for an error. */
#include "model/bind.h"

/* The number of the block that a tensor's name begins with; UINT32_MAX for none. */
static uint32_t block_of(rf_str name) {
    if (!rf_str_starts(name, "blk.")) return UINT32_MAX;
    uint32_t v = 0;
    size_t i = 4;
    for (; i < name.len && name.p[i] >= '0' && name.p[i] <= '9' && v <= RF_MAX_LAYERS; i++)
        v = v * 10 + (uint32_t)(name.p[i] - '0');
    return i > 4 && i < name.len && name.p[i] == '.' ? v : UINT32_MAX;
}

void rf_bind_mtp(rf_binder *b) {
    rf_model *m = b->m;
    uint32_t n = rf_bind_optional_u32(b, "nextn_predict_layers", RF_MAX_LAYERS);
    if (b->status != RF_OK || n == 0) return;
    if (n >= m->n_layers) {
        rf_bind_fail(b, RF_EFORMAT,
                     "key %s.nextn_predict_layers is %u, expected less than %u, the block_count",
                     m->arch->name, n, m->n_layers);
        return;
    }
    uint32_t end = m->n_layers;
    m->n_layers -= n;
    for (size_t i = 0; i < rf_gguf_n_tensors(m->file); i++) {
        rf_str name = rf_gguf_tensor_at(m->file, i)->name;
        uint32_t il = block_of(name);
        if (il < m->n_layers || il >= end) continue;
        if (rf_map_put(b->bound, name, 0, NULL) != RF_OK) {
            b->status = rf_fail_nomem(b->e, name.len);
            return;
        }
    }
}
