/* state.h - computed KV blocks in a file, so that a later process goes on without computing them.
 *
 * A file holds a sequence of tokens and the content of the full blocks that spell its beginning, and
 * where layers keep a state its snapshots behind these blocks, without which they are of no use.  It is
 * written beside its name and renamed when it is complete, and everything in it is checked before
 * anything is taken from it: its form, a digest of all its bytes, the model and the form of the cache it
 * came from.  Layout: docs/library.md. */
#pragma once
#include "backend/backend.h"
#include "base/buf.h"
#include "base/digest.h"
#include "engine/kv.h"
#include "engine/states.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_state_home { /* where blocks come from and go back to */
    const rf_backend_ops *ops;
    rf_exec *exec;
    rf_kv *kv;
    rf_states *states; /* NULL: no layer keeps a state */
    size_t state_floats;
    uint32_t n_vocab;
    rf_dtype k_type, v_type;
    char model[RF_SHA256_HEX]; /* from rf_state_model */
} rf_state_home;

/* What decides, beside the tokens, the content of a block: weights, metadata, the plan. */
RF_CHECKED rf_status rf_state_model(const rf_gguf *g, const rf_plan *p, char out[RF_SHA256_HEX]);
/* Saves tokens [n] and those of their leading full blocks that the pool has (as far as the last snapshot
 * of a state where there are such); *n_saved tokens are in these, at least one block's. */
RF_CHECKED rf_status rf_state_save(const rf_state_home *h, const char *path, uint64_t salt,
                                   const int32_t *tokens, uint32_t n, uint32_t *n_saved,
                                   rf_error *e);
/* Makes the saved blocks findable, as if they had just been computed: *n_restored tokens.  RF_EFULL: the
 * pool has not so many free blocks.  tokens gets all that were saved. */
RF_CHECKED rf_status rf_state_restore(const rf_state_home *h, const char *path, uint64_t salt,
                                      rf_ids *tokens, uint32_t *n_restored, rf_error *e);
/* The same of a file's bytes; name: for messages. */
RF_CHECKED rf_status rf_state_read(const rf_state_home *h, const char *name, const uint8_t *bytes,
                                   size_t n_bytes, uint64_t salt, rf_ids *tokens,
                                   uint32_t *n_restored, rf_error *e);

#ifdef __cplusplus
}
#endif
