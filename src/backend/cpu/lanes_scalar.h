/* lanes_scalar.h - the sixteen canonical lanes of docs/arithmetic.md as sixteen floats in plain C.
 *
 * Private to the CPU backend.  lanes_avx2.h and lanes_avx512.h say the same in vectors; a file
 * includes one of the three and then code written over `lanes`. */
#pragma once
#include <math.h>
#include <string.h>

#include "base/fmath.h"

#define LANES_OWN_TANH
#define LANES_INLINE static inline __attribute__((always_inline))

typedef struct lanes {
    float v[16];
} lanes;

#define LANES_MAP(name, args, value) \
    LANES_INLINE lanes name args {   \
        lanes r;                     \
        for (int i = 0; i < 16; i++) \
            r.v[i] = value;          \
        return r;                    \
    }
LANES_MAP(lanes_set, (float x), x)
LANES_MAP(lanes_neg, (lanes x), -x.v[i])
LANES_MAP(lanes_add, (lanes a, lanes b), a.v[i] + b.v[i])
LANES_MAP(lanes_sub, (lanes a, lanes b), a.v[i] - b.v[i])
LANES_MAP(lanes_mul, (lanes a, lanes b), a.v[i] * b.v[i])
LANES_MAP(lanes_div, (lanes a, lanes b), a.v[i] / b.v[i])
LANES_MAP(lanes_fma, (lanes a, lanes b, lanes c), fmaf(a.v[i], b.v[i], c.v[i]))
/* b where one of them is a NaN */
LANES_MAP(lanes_max, (lanes a, lanes b), a.v[i] > b.v[i] ? a.v[i] : b.v[i])
LANES_MAP(lanes_min, (lanes a, lanes b), a.v[i] < b.v[i] ? a.v[i] : b.v[i])
LANES_MAP(lanes_exp, (lanes x), rf_expf(x.v[i]))
LANES_MAP(lanes_tanh, (lanes x), rf_tanhf(x.v[i]))
LANES_MAP(lanes_erf, (lanes x), rf_erff(x.v[i]))
#undef LANES_MAP

/* The first n of them, all for n >= 16; loaded are zeros beyond. */
LANES_INLINE lanes lanes_load_n(const float *p, size_t n) {
    lanes r = {{0}};
    memcpy(r.v, p, (n < 16 ? n : 16) * sizeof *p);
    return r;
}
LANES_INLINE void lanes_store_n(float *p, lanes s, size_t n) {
    memcpy(p, s.v, (n < 16 ? n : 16) * sizeof *p);
}
LANES_INLINE float lanes_tree16(lanes s) {
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            s.v[i] += s.v[i + half];
    return s.v[0];
}
