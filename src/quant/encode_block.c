/* encode_block.c - loading a block for the searches, f16 scales, and blocks with one pair of them.
 *
 * A search starts from many scales, improves each by least squares, and keeps the one whose error,
 * after rounding to f16, is least; the first of equals wins. */
#include "base/fmath.h"
#include "quant/encode_lanes.h"

enum {
    EXP_TINY = -60, /* far below what half of the smallest f16 times any code could reach */
    POLISH_STEPS = 6,
};

static const float largest = 0x1.fffffep127f;

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float finite(float f) {
    if (f != f) return 0;
    return f > largest ? largest : f < -largest ? -largest : f;
}

/* Weights relative to the largest, with a floor so that no column is free to become anything. */
static void load_weights(rf_enc_block *b, const float *importance, int n) {
    float top = 0;
    for (int i = 0; i < n; i++) {
        float v = importance ? importance[i] : 1;
        b->w[i] = v > 0 && v <= largest ? v : 0;
        if (b->w[i] > top) top = b->w[i];
    }
    for (int i = 0; i < n; i++)
        b->w[i] = top > 0 ? b->w[i] / top + 1e-6f : 1;
    for (int i = 1; i < n; i++)
        b->is_weighted |= b->w[i] != b->w[0];
}

bool rf_enc_load(rf_enc_block *b, const float *src, const float *importance, int n) {
    float top = 0;
    b->n = n;
    b->is_weighted = false;
    for (int i = 0; i < n; i++) {
        float v = finite(src[i]), magnitude = v < 0 ? -v : v;
        b->x[i] = v;
        if (magnitude > top) top = magnitude;
    }
    b->exp = (int)(bits_of(top) >> 23) - 127;
    if (b->exp < EXP_TINY) return false;
    float scale = rf_pow2(-b->exp);
    for (int i = 0; i < n; i++)
        b->x[i] *= scale;
    load_weights(b, importance, n);
    return true;
}

uint16_t rf_enc_half(const rf_enc_block *b, float d) {
    float v = finite(d * rf_pow2(b->exp));
    uint16_t h = rf_f32_to_f16(v);
    return (h & 0x7fff) >= 0x7c00 ? (uint16_t)((h & 0x8000) | 0x7bff) : h;
}

float rf_enc_of_half(const rf_enc_block *b, uint16_t h) { return rf_half(h) * rf_pow2(-b->exp); }

int rf_enc_code(float v, const rf_levels *lv) {
    if (lv->is_iq4) {
        int code = 0;
#define X(threshold, step) code += v > (threshold);
        RF_IQ4_STEPS(X)
#undef X
        return code;
    }
    v = v < lv->lo ? lv->lo : v;
    v = v > lv->hi ? lv->hi : v;
    return (int)((v + 12582912.0f) - 12582912.0f);
}

/* ---- one scale ---- */

typedef struct scale_best {
    float err;
    uint16_t d;
} scale_best;

RF_INLINE void try_scale(const rf_enc_block *b, const rf_levels *lv, bool is_iq4, float d,
                         scale_best *best) {
    for (int round = 0; round < 2; round++) {
        uint16_t h = rf_enc_half(b, d);
        scale_sums s = scale_pass(b->x, b->w, b->n, rf_enc_of_half(b, h), lv, is_iq4);
        if (s.err < best->err) *best = (scale_best){s.err, h};
        if (!(s.qq > 0)) return;
        d = s.xq / s.qq;
    }
}

/* Codes of f16 next to h: one step towards or away from zero, never to infinity. */
static uint16_t half_beside(uint16_t h, int step) {
    int magnitude = (h & 0x7fff) + step;
    if (magnitude < 0 || magnitude > 0x7bff) return h;
    return (uint16_t)((h & 0x8000) | magnitude);
}

RF_INLINE uint16_t search_scale(const rf_enc_block *b, const rf_levels *lv, bool is_iq4) {
    float top = 0;
    for (int i = 0; i < b->n; i++) {
        float v = b->x[i];
        if ((v < 0 ? -v : v) > (top < 0 ? -top : top)) top = v;
    }
    scale_best best = {largest, 0};
    try_scale(b, lv, is_iq4, top / lv->lo, &best);
    try_scale(b, lv, is_iq4, top / lv->hi, &best);
    int below = b->is_weighted ? RF_ENC_SPANS_BELOW : 0;
    int above = b->is_weighted ? RF_ENC_SPANS_ABOVE : 0;
    for (int k = -below; k < RF_ENC_SPANS + above; k++) {
        float span = lv->lo * rf_enc_span(k);
        try_scale(b, lv, is_iq4, top / span, &best);
        try_scale(b, lv, is_iq4, -top / span, &best);
    }
    float near = rf_enc_of_half(b, best.d);
    for (int k = 1; k <= 4 && b->is_weighted; k++) {
        try_scale(b, lv, is_iq4, near * (1 + 0.006f * (float)k), &best);
        try_scale(b, lv, is_iq4, near * (1 - 0.006f * (float)k), &best);
    }
    uint16_t middle = best.d;
    for (int k = -POLISH_STEPS; k <= POLISH_STEPS; k++) {
        uint16_t h = half_beside(middle, k * (k < 0 ? -k : k)); /* near and less near */
        scale_sums s = scale_pass(b->x, b->w, b->n, rf_enc_of_half(b, h), lv, is_iq4);
        if (s.err < best.err) best = (scale_best){s.err, h};
    }
    return best.d;
}

uint16_t rf_enc_scale(const rf_enc_block *b, const rf_levels *lv) {
    return lv->is_iq4 ? search_scale(b, lv, true) : search_scale(b, lv, false);
}

/* ---- scale and minimum ---- */

typedef struct affine_best {
    float err;
    uint16_t d, m;
} affine_best;

typedef struct affine_totals {
    float w, x; /* sums of w and w x over the block */
} affine_totals;

static void try_affine(const rf_enc_block *b, const affine_totals *t, float hi, float d, float m,
                       affine_best *best) {
    for (int round = 0; round < 2; round++) {
        uint16_t hd = rf_enc_half(b, d), hm = rf_enc_half(b, m);
        affine_sums s =
            affine_pass(b->x, b->w, b->n, rf_enc_of_half(b, hd), rf_enc_of_half(b, hm), hi);
        if (s.err < best->err) *best = (affine_best){s.err, hd, hm};
        float det = t->w * s.qq - s.q * s.q;
        if (!(det > 1e-6f * t->w * s.qq)) return;
        d = (t->w * s.xq - t->x * s.q) / det;
        m = (t->x - d * s.q) / t->w;
    }
}

static void polish_affine(const rf_enc_block *b, float hi, affine_best *best) {
    affine_best start = *best;
    for (int k = 0; k < 9; k++) {
        uint16_t hd = half_beside(start.d, k / 3 - 1), hm = half_beside(start.m, k % 3 - 1);
        affine_sums s =
            affine_pass(b->x, b->w, b->n, rf_enc_of_half(b, hd), rf_enc_of_half(b, hm), hi);
        if (s.err < best->err) *best = (affine_best){s.err, hd, hm};
    }
}

void rf_enc_affine(const rf_enc_block *b, float hi, uint16_t *d, uint16_t *m) {
    float low = b->x[0], high = low;
    affine_totals t;
    for (int i = 0; i < b->n; i++) {
        if (b->x[i] < low) low = b->x[i];
        if (b->x[i] > high) high = b->x[i];
    }
    weigh(b->x, b->w, b->n, &t.w, &t.x);
    affine_best best = {largest, 0, 0};
    float range = high - low;
    try_affine(b, &t, hi, range / hi, low, &best);
    try_affine(b, &t, hi, 0, t.x / t.w, &best);
    for (int k = 0; k < 9; k++) {
        float step = range / (hi - 0.8f + 0.25f * (float)k), slack = range - hi * step;
        try_affine(b, &t, hi, step, low, &best);
        try_affine(b, &t, hi, step, low + 0.5f * slack, &best);
        try_affine(b, &t, hi, step, low + slack, &best);
    }
    polish_affine(b, hi, &best);
    *d = best.d;
    *m = best.m;
}
