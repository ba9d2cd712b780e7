/* vec_rows.h - norms and element-wise kernels, written once over sixteen lanes.
 *
 * Private to vec_*.c, each of which includes a lanes_*.h before it and so makes these kernels of
 * its own instruction set.  The order of operations is that of docs/arithmetic.md.  dst may be one of
 * the inputs. */
#pragma once
#include <math.h>

#include "backend/cpu/kernels.h"
#ifndef LANES_INLINE /* plain C where no others were included */
#include "backend/cpu/lanes_scalar.h"
#endif

#ifndef LANES_OWN_TANH /* the scalar lanes bring theirs from base/fmath.h */
/* x P(x^2) / Q(x^2), kept within -1 and 1; P and Q have n coefficients. */
LANES_INLINE lanes lanes_rational(lanes x, const float *p, const float *q, int n, float most) {
    x = lanes_min(lanes_set(most), lanes_max(lanes_set(-most), x));
    lanes z = lanes_mul(x, x), num = lanes_set(p[n - 1]), den = lanes_set(q[n - 1]);
    for (int i = n - 2; i >= 0; i--) {
        num = lanes_fma(num, z, lanes_set(p[i]));
        den = lanes_fma(den, z, lanes_set(q[i]));
    }
    lanes r = lanes_div(lanes_mul(x, num), den);
    return lanes_min(lanes_set(1.0f), lanes_max(lanes_set(-1.0f), r));
}
LANES_INLINE lanes lanes_tanh(lanes x) {
    static const float p[] = RF_TANHF_P, q[] = RF_TANHF_Q;
    return lanes_rational(x, p, q, (int)RF_COUNT(p), RF_TANHF_MAX);
}
LANES_INLINE lanes lanes_erf(lanes x) {
    static const float p[] = RF_ERFF_P, q[] = RF_ERFF_Q;
    return lanes_rational(x, p, q, (int)RF_COUNT(p), RF_ERFF_MAX);
}
#endif

/* x / (1 + exp(-y)) */
LANES_INLINE lanes gated(lanes x, lanes y) {
    lanes e = lanes_exp(lanes_neg(y));
    return lanes_div(x, lanes_add(lanes_set(1.0f), e));
}

LANES_INLINE lanes activate(rf_act act, lanes x) {
    lanes y = x;
    switch (act) {
    case RF_ACT_SILU:
        return gated(x, x);
    case RF_ACT_GELU:
        y = lanes_erf(lanes_mul(x, lanes_set(RF_ROOT_HALF)));
        return lanes_mul(lanes_mul(lanes_set(0.5f), x), lanes_add(lanes_set(1.0f), y));
    case RF_ACT_GELU_TANH:
        y = lanes_fma(lanes_mul(x, x), lanes_set(RF_GELU_TANH_C1), lanes_set(RF_GELU_TANH_C0));
        return gated(x, lanes_mul(x, y));
    case RF_ACT_RELU:
        return lanes_max(lanes_set(0.0f), x);
    case RF_ACT_RELU2:
        y = lanes_max(lanes_set(0.0f), x);
        return lanes_mul(y, y);
    case RF_ACT_SIGMOID:
        return gated(lanes_set(1.0f), x);
    case RF_ACT_SWIGLU_OAI:
        break; /* has two operands */
    }
    return x;
}

LANES_INLINE lanes glu_of(rf_act act, lanes gate, lanes up) {
    if (act != RF_ACT_SWIGLU_OAI) return lanes_mul(activate(act, gate), up);
    lanes g = lanes_min(lanes_set(7.0f), gate), u = lanes_min(lanes_set(7.0f), up);
    u = lanes_max(lanes_set(-7.0f), u);
    g = gated(g, lanes_mul(lanes_set(1.702f), g));
    return lanes_mul(g, lanes_add(u, lanes_set(1.0f)));
}

LANES_INLINE void each_act(rf_act act, float *dst, const float *x, size_t n) {
    for (size_t k = 0; k < n; k += 16)
        lanes_store_n(dst + k, activate(act, lanes_load_n(x + k, n - k)), n - k);
}

LANES_INLINE void each_glu(rf_act act, float *dst, const float *gate, const float *up, size_t n) {
    for (size_t k = 0; k < n; k += 16) {
        lanes g = lanes_load_n(gate + k, n - k), u = lanes_load_n(up + k, n - k);
        lanes_store_n(dst + k, glu_of(act, g, u), n - k);
    }
}

/* One loop per activation, so that it is a constant inside. */
#define ACT_CASE(kind, call) \
    case kind:               \
        call;                \
        break;
#define ACT_SWITCH(call)                                     \
    switch (act) {                                           \
        ACT_CASE(RF_ACT_SILU, call(RF_ACT_SILU))             \
        ACT_CASE(RF_ACT_GELU, call(RF_ACT_GELU))             \
        ACT_CASE(RF_ACT_GELU_TANH, call(RF_ACT_GELU_TANH))   \
        ACT_CASE(RF_ACT_RELU, call(RF_ACT_RELU))             \
        ACT_CASE(RF_ACT_RELU2, call(RF_ACT_RELU2))           \
        ACT_CASE(RF_ACT_SIGMOID, call(RF_ACT_SIGMOID))       \
        ACT_CASE(RF_ACT_SWIGLU_OAI, call(RF_ACT_SWIGLU_OAI)) \
    }

static void act_lanes(rf_act act, float *dst, const float *x, size_t n) {
#define CALL(kind) each_act(kind, dst, x, n)
    ACT_SWITCH(CALL)
#undef CALL
}

static void glu_lanes(rf_act act, float *dst, const float *gate, const float *up, size_t n) {
#define CALL(kind) each_glu(kind, dst, gate, up, n)
    ACT_SWITCH(CALL)
#undef CALL
}

static void add_lanes(float *dst, const float *a, const float *b, size_t n) {
    for (size_t k = 0; k < n; k += 16) {
        lanes x = lanes_load_n(a + k, n - k), y = lanes_load_n(b + k, n - k);
        lanes_store_n(dst + k, lanes_add(x, y), n - k);
    }
}

static void mul_lanes(float *dst, const float *a, const float *b, size_t n) {
    for (size_t k = 0; k < n; k += 16) {
        lanes x = lanes_load_n(a + k, n - k), y = lanes_load_n(b + k, n - k);
        lanes_store_n(dst + k, lanes_mul(x, y), n - k);
    }
}

static void scale_lanes(float *dst, const float *x, float scale, size_t n) {
    for (size_t k = 0; k < n; k += 16)
        lanes_store_n(dst + k, lanes_mul(lanes_load_n(x + k, n - k), lanes_set(scale)), n - k);
}

static void add_scaled_lanes(float *dst, const float *x, float scale, size_t n) {
    for (size_t k = 0; k < n; k += 16) {
        lanes s = lanes_load_n(dst + k, n - k);
        s = lanes_fma(lanes_load_n(x + k, n - k), lanes_set(scale), s);
        lanes_store_n(dst + k, s, n - k);
    }
}

static void conv_lanes(float *dst, const float *const *x, const float *w, size_t w_row,
                       uint32_t n_taps, const float *bias, size_t n) {
    for (size_t k = 0; k < n; k += 16) {
        lanes s = lanes_set(0.0f);
        for (uint32_t i = 0; i < n_taps; i++)
            s = lanes_fma(lanes_load_n(w + i * w_row + k, n - k), lanes_load_n(x[i] + k, n - k), s);
        if (bias) s = lanes_add(s, lanes_load_n(bias + k, n - k));
        lanes_store_n(dst + k, s, n - k);
    }
}

static void delta_lanes(float *state, const float *q, const float *k, uint32_t n_k, const float *v,
                        float decay, float beta, float *dst, size_t n) {
    for (size_t c = 0; c < n; c += 16) {
        lanes has = lanes_set(0.0f), out = lanes_set(0.0f);
        for (uint32_t i = 0; i < n_k; i++) {
            lanes s = lanes_mul(lanes_load_n(state + i * n + c, n - c), lanes_set(decay));
            lanes_store_n(state + i * n + c, s, n - c);
            has = lanes_fma(s, lanes_set(k[i]), has);
        }
        lanes d = lanes_mul(lanes_sub(lanes_load_n(v + c, n - c), has), lanes_set(beta));
        for (uint32_t i = 0; i < n_k; i++) {
            lanes s = lanes_fma(d, lanes_set(k[i]), lanes_load_n(state + i * n + c, n - c));
            lanes_store_n(state + i * n + c, s, n - c);
            out = lanes_fma(s, lanes_set(q[i]), out);
        }
        lanes_store_n(dst + c, out, n - c);
    }
}

static void scan_lanes(float *state, const float *b, const float *c, uint32_t n_k, const float *x,
                       float decay, float dt, float *dst, size_t n) {
    for (size_t v = 0; v < n; v += 16) {
        lanes in = lanes_mul(lanes_load_n(x + v, n - v), lanes_set(dt)), out = lanes_set(0.0f);
        for (uint32_t i = 0; i < n_k; i++) {
            lanes s = lanes_mul(lanes_load_n(state + i * n + v, n - v), lanes_set(decay));
            s = lanes_fma(in, lanes_set(b[i]), s);
            lanes_store_n(state + i * n + v, s, n - v);
            out = lanes_fma(s, lanes_set(c[i]), out);
        }
        lanes_store_n(dst + v, out, n - v);
    }
}

static void fold_lanes(float *total, const float *acc, float c_total, float c_acc, size_t n) {
    for (size_t k = 0; k < n; k += 16) {
        lanes s = lanes_mul(lanes_load_n(total + k, n - k), lanes_set(c_total));
        s = lanes_fma(lanes_load_n(acc + k, n - k), lanes_set(c_acc), s);
        lanes_store_n(total + k, s, n - k);
    }
}

LANES_INLINE lanes soft_capped(lanes x, float cap) {
    return lanes_mul(lanes_set(cap), lanes_tanh(lanes_div(x, lanes_set(cap))));
}

static void softcap_lanes(float *dst, const float *x, float cap, size_t n) {
    for (size_t k = 0; k < n; k += 16)
        lanes_store_n(dst + k, soft_capped(lanes_load_n(x + k, n - k), cap), n - k);
}

/* dst = ((x - mean) * r) * w + b, where w and b may be NULL. */
LANES_INLINE void normed(float *dst, const float *x, float mean, float r, const float *w,
                         const float *b, size_t n) {
    for (size_t k = 0; k < n; k += 16) {
        lanes y = lanes_mul(lanes_sub(lanes_load_n(x + k, n - k), lanes_set(mean)), lanes_set(r));
        if (w) y = lanes_mul(y, lanes_load_n(w + k, n - k));
        if (b) y = lanes_add(y, lanes_load_n(b + k, n - k));
        lanes_store_n(dst + k, y, n - k);
    }
}

enum { NORM_STRETCH = 256 }; /* elements whose lanes are added up by themselves */

/* The canonical sum of x (is_square 0) or of (x - mean)^2 over n elements. */
LANES_INLINE float norm_sum(const float *x, size_t n, int is_square, float mean) {
    lanes total = lanes_set(0.0f);
    for (size_t first = 0; first < n; first += NORM_STRETCH) {
        size_t end = n - first < NORM_STRETCH ? n : first + NORM_STRETCH;
        lanes s = lanes_set(0.0f);
        for (size_t k = first; k < end; k += 16) {
            lanes v = lanes_load_n(x + k, n - k);
            if (!is_square) {
                s = lanes_add(s, v);
                continue;
            }
            v = lanes_sub(v, lanes_set(mean));
            if (n - k < 16) { /* no x, no distance from the mean */
                float part[16];
                lanes_store_n(part, v, 16);
                v = lanes_load_n(part, n - k);
            }
            s = lanes_fma(v, v, s);
        }
        total = lanes_add(total, s);
    }
    return lanes_tree16(total);
}

static void rms_norm_lanes(float *dst, const float *x, const float *w, size_t n, float eps) {
    float ss = norm_sum(x, n, 1, 0.0f);
    normed(dst, x, 0.0f, 1.0f / sqrtf(ss / (float)n + eps), w, NULL, n);
}

static void layer_norm_lanes(float *dst, const float *x, const float *w, const float *b, size_t n,
                             float eps) {
    float mean = norm_sum(x, n, 0, 0.0f) / (float)n;
    float ss = norm_sum(x, n, 1, mean);
    normed(dst, x, mean, 1.0f / sqrtf(ss / (float)n + eps), w, b, n);
}

static void set_row_kernels(rf_cpu_kernels *k) {
    k->rms_norm = rms_norm_lanes;
    k->layer_norm = layer_norm_lanes;
    k->act = act_lanes;
    k->glu = glu_lanes;
    k->add = add_lanes;
    k->mul = mul_lanes;
    k->scale = scale_lanes;
    k->add_scaled = add_scaled_lanes;
    k->softcap = softcap_lanes;
    k->conv = conv_lanes;
    k->delta = delta_lanes;
    k->scan = scan_lanes;
}
