/* bench_model.c - how many bytes of weights a step reads and how many products a token needs, from
 * the directory of tensors: what the shares of a machine's peaks are computed from. */
#include <stdio.h>
#include <string.h>

#include "cli/bench.h"
#include "gguf/gguf.h"

static bool contains(rf_str s, const char *part) {
    return memmem(s.p, s.len, part, strlen(part)) != NULL;
}

/* The number under "<architecture>.<name>", 0 if absent. */
static uint32_t number(const rf_gguf *g, const char *name) {
    rf_str arch = RF_STR("");
    uint32_t v = 0;
    char key[128];
    rf_error ignored = {0};
    if (rf_gguf_get_str(g, "general.architecture", &arch, NULL, &ignored) != RF_OK) return 0;
    snprintf(key, sizeof key, "%.*s.%s", (int)(arch.len < 64 ? arch.len : 64), arch.p, name);
    if (rf_gguf_get_u32(g, key, &v, NULL, &ignored) != RF_OK) return 0;
    return v;
}

rf_status rf_bench_read_model(rf_bench_model *out, const char *path, rf_error *e) {
    rf_gguf *g;
    double bytes = 0, layer_ops = 0, float_ops = 0, out_ops = 0;
    RF_TRY(rf_gguf_open(&g, path, e));
    const double experts = number(g, "expert_count"), used = number(g, "expert_used_count");
    const bool tied = !rf_gguf_find_tensor(g, "output.weight");
    for (size_t i = 0; i < rf_gguf_n_tensors(g); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(g, i);
        double share = contains(t->name, "_exps") && experts > 0 ? used / experts : 1;
        double ops =
            t->n_dims > 1 ? 2.0 * (double)t->ne[0] * (double)t->ne[1] * (double)t->ne[2] : 0;
        bool is_embedding = rf_str_eq(t->name, RF_STR("token_embd.weight"));
        if (is_embedding && !tied) continue; /* one row of it */
        bytes += share * (double)t->n_bytes;
        if (is_embedding || rf_str_eq(t->name, RF_STR("output.weight")))
            out_ops += ops;
        else
            layer_ops += share * ops;
        if (rf_dtype_get(t->type)->view == RF_INT_NONE) float_ops += share * ops;
    }
    rf_gguf_close(g);
    *out = (rf_bench_model){.token_bytes = (uint64_t)bytes,
                            .layer_ops = (uint64_t)layer_ops,
                            .out_ops = (uint64_t)out_ops,
                            .is_float = float_ops > (layer_ops + out_ops) / 2};
    return RF_OK;
}
