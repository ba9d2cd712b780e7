/* mm_minima.h - minima of groups of 32 as multiples of the steps that they share; private to mm_*.c.
 * Written over `vec` like mm_quads.h. */
#pragma once
#include "backend/cpu/mm.h"

/* Rounds, in each lane, the minima of n groups that share a step (RF_ROUND_MINIMA), the first of which are at m,
 * `apart` bytes from each other. */
RF_INLINE void round_minima(uint8_t *m, size_t apart, size_t n) {
    vec most = vec_set(RF_MINIMA_LEAST);
    for (size_t g = 0; g < n; g++) {
        const vec bits = vec_of_floats(vec_load_floats(m + g * apart));
        most = vec_max(most, vec_and(bits, vec_set(0x7fffffff)));
    }
    most = vec_and(vec_min(most, vec_set(RF_MINIMA_MOST)), vec_set(0x7f800000));
    const vec by = vec_or(vec_add(most, vec_set(13u << 23)), vec_set(0x00400000));
    const vec_floats c = vec_as_floats(by);
    for (size_t g = 0; g < n; g++) {
        const vec_floats v = vec_load_floats(m + g * apart);
        vec_store_floats(m + g * apart, vec_floats_sub(vec_floats_add(v, c), c));
    }
}

/* Those of n groups, the first of which begins such a stretch. */
RF_INLINE void round_all_minima(uint8_t *m, size_t apart, size_t n) {
    for (size_t g = 0; g < n; g += RF_SHARE_GROUPS)
        round_minima(m + g * apart, apart, n - g < RF_SHARE_GROUPS ? n - g : RF_SHARE_GROUPS);
}
