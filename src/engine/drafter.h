/* drafter.h - a small model that runs ahead of the large one: the same vocabulary, another GGUF.
 *
 * It has an exec and a pool of KV blocks of its own, on the same backend.  Each request chooses from the
 * draft model's logits with its own sampler, seed and grammar, as it will choose from the large model's:
 * where the two models agree so do the choices, at any temperature.  It computes the tokens that it has
 * not seen yet, and no request waits for it: one whose prompt is not through has no guesses yet. */
#pragma once
#include "backend/backend.h"
#include "text/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_request rf_request; /* request.h */
typedef struct rf_drafter rf_drafter;
typedef struct rf_drafter_target { /* what it drafts for */
    const rf_backend_ops *ops;
    rf_backend *backend;
    const rf_model *model;
    const rf_tokenizer *tokenizer;
    const rf_limits *limits;
    const rf_ids *end_tokens;
    uint32_t n_ctx;
} rf_drafter_target;

/* RF_EARG: the file's vocabulary is another one.  target: borrowed. */
RF_CHECKED rf_status rf_drafter_open(rf_drafter **out, const char *path,
                                     const rf_drafter_target *target, rf_error *e);
void rf_drafter_free(rf_drafter *d);
size_t rf_drafter_bytes(const rf_drafter *d);
double rf_drafter_cost(const rf_drafter *d); /* bytes of weights per byte of the target's */
/* False: its device failed, or the request is longer than the draft model's context. */
bool rf_drafter_can_follow(const rf_drafter *d, const rf_request *r);
/* Guesses draft.n_rows tokens for each request [n], and sets draft.n to how many it did. */
void rf_drafter_run(rf_drafter *d, rf_request *const *r, uint32_t n);
/* What the request chose is known: of what was computed ahead only that stays. */
void rf_drafter_settle(rf_drafter *d, rf_request *r);
void rf_drafter_forget(rf_drafter *d, rf_request *r); /* frees its KV blocks */
/* The device was lost and comes back empty; all requests are forgotten. */
void rf_drafter_reset(rf_drafter *d);

#ifdef __cplusplus
}
#endif
