/* noise.c - the drawn column of a row by its definition, one column after the other: what kernels and
 * searches are compared with. */
#include "backend/noise.h"

#include <math.h>
#include <stdbool.h>

#include "base/fmath.h"

/* By falling logit, then rising column. */
static bool comes_before(const float *x, uint32_t i, uint32_t other) {
    return x[i] > x[other] || (x[i] == x[other] && i < other);
}

/* The finite column with the largest number among those before column `end`; all: RF_BEST_NONE. */
static uint32_t largest(const rf_noise *n, const float *x, uint32_t cols, uint32_t end) {
    uint32_t first = RF_BEST_NONE;
    float most = -INFINITY;
    for (uint32_t i = 0; i < cols; i++) {
        if (!isfinite(x[i]) || (end != RF_BEST_NONE && !comes_before(x, i, end))) continue;
        const float number = n->scale > 0 ? rf_noisy_at(n, i, x[i]) : x[i];
        if (!(number > most)) continue;
        most = number;
        first = i;
    }
    return first;
}

static bool may_be_drawn(const rf_noise *n, const float *x, uint32_t cols, float top,
                         uint32_t column) {
    uint64_t all = 0, before = 0;
    if (n->narrows & RF_NARROWS_DEPTH && !(x[column] >= top + n->depth)) return false;
    if (!(n->narrows & RF_NARROWS_SHARE)) return true;
    for (uint32_t i = 0; i < cols; i++) {
        uint32_t units = 0;
        if (isfinite(x[i])) all += rf_expf_units(&units, &x[i], 1, top);
        before += comes_before(x, i, column) ? units : 0;
    }
    return before < rf_noise_share(all, n->share);
}

uint32_t rf_noise_first(const rf_noise *n, const float *x, uint32_t cols) {
    const rf_noise none = {.scale = 0};
    const uint32_t top = largest(&none, x, cols, RF_BEST_NONE);
    uint32_t first = largest(n, x, cols, RF_BEST_NONE);
    while (first != RF_BEST_NONE && n->scale > 0 && !may_be_drawn(n, x, cols, x[top], first))
        first = largest(n, x, cols, first);
    return first;
}
