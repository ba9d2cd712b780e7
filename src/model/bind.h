/* bind.h - taking hyperparameters and weights out of a GGUF file; private to the model room.
 *
 * A binder remembers the first failure and does nothing after it, so an architecture's bind()
 * reads as a list of what it needs.  It also remembers every tensor taken, so that one that
 * nothing uses is named instead of silently ignored: an ignored weight means wrong text. */
#pragma once
#include "base/map.h"
#include "model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_binder {
    rf_model *m;
    rf_map *bound; /* names of the tensors taken */
    rf_error *e;
    rf_status status;                 /* of the first failure */
    rf_router router;                 /* what all layers with experts share */
    uint32_t n_dense_lead, moe_every; /* which layers these are */
    rf_mla latent;                    /* sizes alone, from rf_bind_latent */
    bool keeps_state[RF_MAX_LAYERS];  /* layers that are recurrent, without attention */
    bool is_ffn[RF_MAX_LAYERS];       /* layers that are an FFN and nothing else */
} rf_binder;

typedef enum rf_need { RF_NEED, RF_MAY } rf_need;

RF_CHECKED rf_status rf_binder_open(rf_binder *b, rf_model *m, rf_error *e);
/* Refuses tensors that nothing took; frees the binder's memory; the status of all. */
RF_CHECKED rf_status rf_binder_close(rf_binder *b);
/* Records a failure of the model (prefixed with the file's path). */
void rf_bind_fail(rf_binder *b, rf_status s, const char *fmt, ...) RF_PRINTF(3, 4);

/* The key ARCH.name, 1 <= value <= max.  Absent: fallback, or a failure where that is 0.  An array
 * with one value per layer counts when all of them are equal. */
uint32_t rf_bind_u32(rf_binder *b, const char *name, uint32_t fallback, uint32_t max);
/* The same for keys that switch something off with 0 or by being absent. */
uint32_t rf_bind_optional_u32(rf_binder *b, const char *name, uint32_t max);
/* The key ARCH.name of every layer: one value for all or one each, at most max; out: [n_layers].  False:
 * it is absent. */
bool rf_bind_layers_u32(rf_binder *b, const char *name, uint32_t max, uint32_t *out);
/* The key ARCH.name, finite and > 0.  Absent: fallback, or a failure where that is 0. */
float rf_bind_f32(rf_binder *b, const char *name, float fallback);
/* The same for keys that switch something off with 0 or by being absent. */
float rf_bind_optional_f32(rf_binder *b, const char *name);
float rf_bind_any_f32(rf_binder *b, const char *name, float fallback); /* any number, even NaN */
rf_str rf_bind_str(rf_binder *b, const char *name, const char *fallback);
bool rf_bind_bool(rf_binder *b, const char *name, bool fallback);

/* A tensor of this very shape, [rows][cols] or [cols] for rows 1, of any format with float values.
 * NULL after a failure, and where it may and does not exist. */
const rf_tensor *rf_bind_tensor(rf_binder *b, rf_need need, uint32_t rows, uint32_t cols,
                                const char *name_fmt, ...) RF_PRINTF(5, 6);

/* The same for tensors stacked over experts or heads: [planes][rows][cols]. */
const rf_tensor *rf_bind_planes(rf_binder *b, rf_need need, uint32_t planes, uint32_t rows,
                                uint32_t cols, const char *name_fmt, ...) RF_PRINTF(6, 7);
/* Rows [first, first + n) of a bound matrix, or columns of a bound vector, as a tensor of their own
 * (fused QKV, fused gate and up): same bytes, nothing is copied.  NULL where w is NULL. */
const rf_tensor *rf_bind_part(rf_binder *b, const rf_tensor *w, uint32_t first, uint32_t n);

/* A small matrix of floats as one row of all its values: same bytes, nothing is copied. */
const rf_tensor *rf_bind_flat(rf_binder *b, const rf_tensor *w);

/* Leaves out the layers for multi-token prediction: m->n_layers without them, their tensors taken. */
void rf_bind_mtp(rf_binder *b);

/* m->rope, and rope_local and rope_long where the model has them, from the metadata and the tensors
 * of factors; head_dim must be known. */
void rf_bind_rope(rf_binder *b);

#ifdef __cplusplus
}
#endif
