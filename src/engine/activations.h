/* activations.h - what went into the matrix products of an exec's last run, weight by weight.
 *
 * For plans with keep_values.  A weight of several matrices (experts, heads of latent attention) is shown
 * once for each matrix that any row met, with just those rows. */
#pragma once
#include "backend/backend.h"
#include "rocmforge.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_lens rf_lens;

/* Scratch for runs of up to max_rows rows; ops, exec and plan must outlive it. */
RF_CHECKED rf_status rf_lens_open(rf_lens **out, const rf_backend_ops *ops, rf_exec *exec,
                                  const rf_plan *plan, size_t max_rows, rf_error *e);
void rf_lens_free(rf_lens *s); /* NULL is fine */
/* Shows sink the last run, of n rows, all of them outputs; RF_ECANCELLED where sink says stop. */
RF_CHECKED rf_status rf_lens_show(rf_lens *s, size_t n, rf_activation_fn sink, void *user,
                                  rf_error *e);

#ifdef __cplusplus
}
#endif
