/* draw.h - the draw: which token's noisy logit is the largest (backend/noise.h), without making the noise
 * of those that cannot win.  Private to the engine; takes no memory. */
#pragma once
#include "backend/best.h"
#include "engine/candidates.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The noise of a seed's draw number `draw` at a temperature above 0. */
rf_noise rf_noise_at(uint64_t seed, uint64_t draw, float temperature);
/* Among all columns of a row that are finite; after rf_row_find_most was true.  likely: [groups of the
 * row], overwritten. */
int32_t rf_draw_from_row(const rf_noise *noise, const rf_row *row, float *likely);
/* Which candidate; all are finite.  Their p are made at that temperature: rf_candidates_softmax. */
size_t rf_draw_from_list(const rf_noise *noise, const rf_candidates *l);

#ifdef __cplusplus
}
#endif
