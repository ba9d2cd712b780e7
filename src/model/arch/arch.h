/* arch.h - the builders behind the table of architectures; private to the model room.
 *
 * bind reads hyperparameters and takes every weight with its shape checked; build writes the
 * forward pass into a plan.  Both ask the row's traits and never the architecture's name. */
#pragma once
#include "model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pre-norm decoder with RMS norm, rotary positions, grouped-query attention and a gated FFN. */
RF_CHECKED rf_status rf_decoder_bind(rf_model *m, rf_error *e);
RF_CHECKED rf_status rf_decoder_build(const rf_model *m, struct rf_plan *p);

#ifdef __cplusplus
}
#endif
