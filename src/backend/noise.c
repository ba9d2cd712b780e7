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

/* The last of the `count` largest finite columns, or of all if they are fewer. */
static uint32_t last_of(const float *x, uint32_t cols, uint32_t count) {
    uint32_t last = RF_BEST_NONE;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t next = RF_BEST_NONE;
        for (uint32_t i = 0; i < cols; i++) {
            if (!isfinite(x[i]) || (last != RF_BEST_NONE && !comes_before(x, last, i))) continue;
            if (next == RF_BEST_NONE || comes_before(x, i, next)) next = i;
        }
        if (next == RF_BEST_NONE) break;
        last = next;
    }
    return last;
}

/* Of the finite columns up to the last. */
static uint64_t mass_up_to(const float *x, uint32_t cols, float top, uint32_t last) {
    uint64_t all = 0;
    uint32_t units;
    for (uint32_t i = 0; i < cols; i++)
        if (isfinite(x[i]) && !comes_before(x, last, i))
            all += rf_expf_units(&units, &x[i], 1, top);
    return all;
}

static uint64_t mass_of_all(const float *x, uint32_t cols, float top) {
    uint64_t all = 0;
    for (uint32_t at = 0; at < cols; at += RF_BEST_GROUP) {
        const uint32_t n = cols - at < RF_BEST_GROUP ? cols - at : RF_BEST_GROUP;
        float finite[RF_BEST_GROUP];
        uint32_t units[RF_BEST_GROUP];
        for (uint32_t i = 0; i < n; i++)
            finite[i] = isfinite(x[at + i]) ? x[at + i] : -INFINITY;
        const float most = rf_largest(finite, n);
        if (most > -INFINITY)
            all += rf_noise_mass(rf_expf_units(units, finite, n, most), rf_expf(most - top));
    }
    return all;
}

/* last: by RF_NARROWS_COUNT the last column that is left, else RF_BEST_NONE. */
static bool may_be_drawn(const rf_noise *n, const float *x, uint32_t cols, float top, uint32_t last,
                         uint32_t column) {
    uint64_t before = 0;
    if (last != RF_BEST_NONE && comes_before(x, last, column)) return false;
    if (n->narrows & RF_NARROWS_DEPTH && !(x[column] >= top + n->depth)) return false;
    if (!(n->narrows & RF_NARROWS_SHARE)) return true;
    for (uint32_t i = 0; i < cols; i++) {
        uint32_t units;
        if (isfinite(x[i]) && comes_before(x, i, column))
            before += rf_expf_units(&units, &x[i], 1, top);
    }
    const uint64_t all =
        last == RF_BEST_NONE ? mass_of_all(x, cols, top) : mass_up_to(x, cols, top, last);
    return before < rf_noise_share(all, n->share);
}

uint32_t rf_noise_first(const rf_noise *n, const float *x, uint32_t cols) {
    const rf_noise none = {.scale = 0};
    const uint32_t top = largest(&none, x, cols, RF_BEST_NONE);
    const uint32_t last = n->narrows & RF_NARROWS_COUNT ? last_of(x, cols, n->count) : RF_BEST_NONE;
    uint32_t first = largest(n, x, cols, RF_BEST_NONE);
    while (first != RF_BEST_NONE && n->scale > 0 && !may_be_drawn(n, x, cols, x[top], last, first))
        first = largest(n, x, cols, first);
    return first;
}
