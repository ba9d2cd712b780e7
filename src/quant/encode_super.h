/* encode_super.h - the two-level search: f16 scales over sub-blocks with integer scales.
 *
 * First every sub-block finds its own scale as if it were free.  Then several f16 scales are tried
 * for the whole block; for each, every sub-block takes the best integers near its own scale.  Least
 * squares over the whole block improves the f16 scales for the integers that won. */
#pragma once
#include "quant/encode_lanes.h"

enum { REFINEMENTS = 2 }; /* of the best f16 scales, by least squares */

/* A start this much worse than the best so far is not worth improving. */
#define RF_ENC_HOPELESS 1.25f

static float magnitude(float f) { return f < 0 ? -f : f; }

static int nearest_int(float v, int lo, int hi) {
    return rf_enc_code(v, &(rf_levels){(float)lo, (float)hi, false});
}

/* A nonzero f16 code, so that values below the smallest scale still have a chance. */
static uint16_t half_above_zero(const rf_enc_block *b, float d) {
    uint16_t h = rf_enc_half(b, d);
    return h & 0x7fff ? h : (uint16_t)(h | 1);
}

/* ---- scales only ---- */

typedef struct scale_fit {
    float err, d;
} scale_fit;

RF_INLINE void improve_scale(const float *x, const float *w, int n, float d, float noise,
                             bool is_weighted, const rf_levels *lv, bool is_iq4, scale_fit *best) {
    for (int round = 0; round < 2; round++) {
        scale_sums s = scale_pass(x, w, n, d, lv, is_iq4);
        if (s.err + noise < best->err) *best = (scale_fit){s.err, d};
        if (!(s.qq > 0) || (s.err > RF_ENC_HOPELESS * best->err && !is_weighted)) return;
        d = s.xq / s.qq;
    }
}

RF_INLINE float free_scale(const float *x, const float *w, int n, bool is_weighted,
                           const rf_levels *lv, bool is_iq4) {
    float top = 0;
    scale_fit best = {RF_ENC_HUGE, 0};
    for (int i = 0; i < n; i++)
        if (magnitude(x[i]) > magnitude(top)) top = x[i];
    if (top == 0) return 0;
    float noise = error_noise(x, w, n);
    int below = is_weighted ? RF_ENC_SPANS_BELOW : 0, above = is_weighted ? RF_ENC_SPANS_ABOVE : 0;
    improve_scale(x, w, n, top / lv->lo, noise, is_weighted, lv, is_iq4, &best);
    improve_scale(x, w, n, top / (0.5f * lv->lo), noise, is_weighted, lv, is_iq4, &best);
    for (int k = -below; k < RF_ENC_SPANS + above; k += is_weighted ? 1 : 2) {
        float d = top / (lv->lo * rf_enc_span(k));
        improve_scale(x, w, n, d, noise, is_weighted, lv, is_iq4, &best);
        improve_scale(x, w, n, -d, noise, is_weighted, lv, is_iq4, &best);
    }
    return best.d;
}

typedef struct scale_job {
    const rf_enc_block *b;
    const rf_levels *lv;
    int n_subs, len, smallest, largest;
    float free[RF_ENC_MAX_SUBS]; /* [n_subs] */
} scale_job;

typedef struct scale_try {
    float err, next; /* next: d by least squares for these integers */
    uint16_t d;
    int16_t scale[RF_ENC_MAX_SUBS];
} scale_try;

/* The best integers under the f16 scale h. */
RF_INLINE void assign_scales(const scale_job *job, bool is_iq4, uint16_t h, bool is_thorough,
                             scale_try *out) {
    float d = rf_enc_of_half(job->b, h), inverse = safe_inverse(d), xq = 0, qq = 0;
    *out = (scale_try){.d = h};
    for (int j = 0; j < job->n_subs; j++) {
        const float *x = job->b->x + j * job->len, *w = job->b->w + j * job->len;
        int middle = nearest_int(job->free[j] * inverse, job->smallest, job->largest);
        scale_sums best = {RF_ENC_HUGE, 0, 0};
        for (int k = 0; k < (is_thorough ? 3 : 1); k++) {
            int scale = middle + (k == 0 ? 0 : 2 * k - 3);
            if (scale < job->smallest || scale > job->largest) continue;
            scale_sums s = scale_pass(x, w, job->len, d * (float)scale, job->lv, is_iq4);
            if (!(s.err < best.err)) continue;
            best = s;
            out->scale[j] = (int16_t)scale;
        }
        float scale = (float)out->scale[j];
        out->err += best.err;
        xq += scale * best.xq;
        qq += scale * scale * best.qq;
    }
    out->next = qq > 0 ? xq / qq : d;
}

RF_INLINE void search_super_scale(scale_job *job, bool is_iq4, scale_try *best) {
    float top = 0;
    for (int j = 0; j < job->n_subs; j++) {
        job->free[j] = free_scale(job->b->x + j * job->len, job->b->w + j * job->len, job->len,
                                  job->b->is_weighted, job->lv, is_iq4);
        if (magnitude(job->free[j]) > magnitude(top)) top = job->free[j];
    }
    *best = (scale_try){.err = RF_ENC_HUGE};
    for (int k = 0; k < 8 + REFINEMENTS; k++) {
        float d = k < 8 ? top / (float)(job->smallest + k) : best->next;
        scale_try now;
        assign_scales(job, is_iq4, half_above_zero(job->b, d), k >= 8 || job->b->is_weighted, &now);
        if (now.err < best->err) *best = now;
    }
}

static void search_scales(const rf_enc_block *b, int n_subs, int smallest, int largest,
                          const rf_levels *lv, rf_enc_super *out) {
    scale_job job = {b, lv, n_subs, b->n / n_subs, smallest, largest, {0}};
    scale_try best;
    if (lv->is_iq4) {
        search_super_scale(&job, true, &best);
    } else {
        search_super_scale(&job, false, &best);
    }
    out->d = best.d;
    for (int j = 0; j < n_subs; j++) {
        float inverse = safe_inverse(rf_enc_of_half(b, best.d) * (float)best.scale[j]);
        out->scale[j] = best.scale[j];
        for (int i = j * job.len; i < (j + 1) * job.len; i++)
            out->code[i] = (int16_t)rf_enc_code(b->x[i] * inverse, lv);
    }
}

/* ---- scales and minimums ---- */

typedef struct affine_fit {
    float err, d, m; /* value = d q - m, m >= 0 */
} affine_fit;

typedef struct affine_job {
    const rf_enc_block *b;
    int n_subs, len, largest;
    float hi;
    float sw[RF_ENC_MAX_SUBS], sx[RF_ENC_MAX_SUBS]; /* [n_subs]: sums of w and w x */
    float noise[RF_ENC_MAX_SUBS];                   /* [n_subs] */
    affine_fit free[RF_ENC_MAX_SUBS];               /* [n_subs] */
} affine_job;

typedef struct affine_try {
    float err, next_d, next_m;
    uint16_t d, m;
    int16_t scale[RF_ENC_MAX_SUBS], min[RF_ENC_MAX_SUBS];
} affine_try;

static void improve(const affine_job *job, int j, float d, float m, affine_fit *best) {
    const float *x = job->b->x + j * job->len, *w = job->b->w + j * job->len;
    for (int round = 0; round < 2; round++) {
        m = m < 0 ? 0 : m;
        affine_sums s = affine_pass(x, w, job->len, d, -m, job->hi);
        if (s.err + job->noise[j] < best->err) *best = (affine_fit){s.err, d, m};
        if (s.err > RF_ENC_HOPELESS * best->err && !job->b->is_weighted) return;
        float det = job->sw[j] * s.qq - s.q * s.q;
        if (!(det > 1e-6f * job->sw[j] * s.qq)) return;
        d = (job->sw[j] * s.xq - job->sx[j] * s.q) / det;
        m = (d * s.q - job->sx[j]) / job->sw[j];
        if (m < 0) d = s.xq / s.qq;
        if (!(d > 0)) return;
    }
}

static void free_affine(affine_job *job, int j) {
    const float *x = job->b->x + j * job->len, *w = job->b->w + j * job->len;
    float low = 0, high = x[0];
    affine_fit best = {RF_ENC_HUGE, 0, 0};
    for (int i = 0; i < job->len; i++) {
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
    }
    weigh(x, w, job->len, &job->sw[j], &job->sx[j]);
    job->noise[j] = error_noise(x, w, job->len);
    improve(job, j, 0, -job->sx[j] / job->sw[j], &best);
    float range = high - low;
    improve(job, j, range / job->hi, -low, &best);
    for (int k = 0; k < 8 && range > 0; k++) {
        float step = range / (job->hi - 0.7f + 0.3f * (float)k), slack = range - job->hi * step;
        improve(job, j, step, -low, &best);
        improve(job, j, step, -low - 0.5f * slack, &best);
        improve(job, j, step, -low - slack, &best);
    }
    job->free[j] = best;
}

/* The best pair of integers of one sub-block near its free fit; sums are those of the best. */
static affine_sums assign_pair(const affine_job *job, int j, float d, float m, bool is_thorough,
                               int16_t *scale, int16_t *min) {
    const float *x = job->b->x + j * job->len, *w = job->b->w + j * job->len;
    int s0 = nearest_int(job->free[j].d * safe_inverse(d), 0, job->largest);
    int m0 = nearest_int(job->free[j].m * safe_inverse(m), 0, job->largest);
    affine_sums best = {RF_ENC_HUGE, 0, 0, 0};
    static const int8_t beside[9][2] = {{0, 0},   {-1, 0}, {1, 0},  {0, -1}, {0, 1},
                                        {-1, -1}, {1, 1},  {-1, 1}, {1, -1}};
    int n_tries = is_thorough ? 9 : job->b->is_weighted ? 5 : 1;
    for (int k = 0; k < n_tries; k++) {
        int sk = s0 + beside[k][0], mk = m0 + beside[k][1];
        if (sk < 0 || sk > job->largest || mk < 0 || mk > job->largest) continue;
        affine_sums s = affine_pass(x, w, job->len, d * (float)sk, -m * (float)mk, job->hi);
        if (!(s.err < best.err)) continue;
        best = s;
        *scale = (int16_t)sk;
        *min = (int16_t)mk;
    }
    return best;
}

/* x = D a - M b over the whole block, a = scale * q, b = min: the normal equations. */
static void assign_affine(const affine_job *job, uint16_t hd, uint16_t hm, bool is_thorough,
                          affine_try *out) {
    float d = rf_enc_of_half(job->b, hd), m = rf_enc_of_half(job->b, hm);
    float aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
    *out = (affine_try){.d = hd, .m = hm, .next_d = d, .next_m = m};
    for (int j = 0; j < job->n_subs; j++) {
        affine_sums s = assign_pair(job, j, d, m, is_thorough, &out->scale[j], &out->min[j]);
        float a = (float)out->scale[j], b = (float)out->min[j];
        out->err += s.err;
        aa += a * a * s.qq;
        ab += a * b * s.q;
        bb += b * b * job->sw[j];
        xa += a * s.xq;
        xb += b * job->sx[j];
    }
    float det = aa * bb - ab * ab;
    if (det > 1e-6f * aa * bb) {
        out->next_d = (xa * bb - xb * ab) / det;
        out->next_m = (xa * ab - xb * aa) / det;
    } else if (aa > 0 && bb <= 0) {
        out->next_d = xa / aa;
    }
}

/* The divisor largest - k, of the first eight, for which f16 represents top / divisor best. */
static int least_rounding(const rf_enc_block *b, float top, int largest) {
    int best = 0;
    float best_miss = RF_ENC_HUGE;
    for (int k = 0; k < 8; k++) {
        float divisor = (float)(largest - k);
        float miss = magnitude(rf_enc_of_half(b, rf_enc_half(b, top / divisor)) * divisor - top);
        if (!(miss < best_miss)) continue;
        best_miss = miss;
        best = k;
    }
    return best;
}

static void search_super_affine(affine_job *job, affine_try *best) {
    float top_d = 0, top_m = 0;
    for (int j = 0; j < job->n_subs; j++) {
        free_affine(job, j);
        if (job->free[j].d > top_d) top_d = job->free[j].d;
        if (job->free[j].m > top_m) top_m = job->free[j].m;
    }
    *best = (affine_try){.err = RF_ENC_HUGE};
    int exact_d = least_rounding(job->b, top_d, job->largest);
    int exact_m = least_rounding(job->b, top_m, job->largest);
    int less[6][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 2}, {exact_d, exact_m}};
    for (int k = 0; k < 6 + REFINEMENTS; k++) {
        float d = k < 6 ? top_d / (float)(job->largest - less[k][0]) : best->next_d;
        float m = k < 6 ? top_m / (float)(job->largest - less[k][1]) : best->next_m;
        affine_try now;
        if (d < 0 || m < 0) return;
        assign_affine(job, half_above_zero(job->b, d), half_above_zero(job->b, m), k >= 6, &now);
        if (now.err < best->err) *best = now;
    }
}

static void search_affines(const rf_enc_block *b, int n_subs, int largest, float hi,
                           rf_enc_super *out) {
    affine_job job = {.b = b, .n_subs = n_subs, .len = b->n / n_subs, .largest = largest, .hi = hi};
    affine_try best;
    search_super_affine(&job, &best);
    float d = rf_enc_of_half(b, best.d), m = rf_enc_of_half(b, best.m);
    out->d = best.d;
    out->dmin = best.m;
    for (int j = 0; j < n_subs; j++) {
        float inverse = safe_inverse(d * (float)best.scale[j]), low = m * (float)best.min[j];
        out->scale[j] = best.scale[j];
        out->min[j] = best.min[j];
        for (int i = j * job.len; i < (j + 1) * job.len; i++)
            out->code[i] = (int16_t)nearest_int((b->x[i] + low) * inverse, 0, (int)hi);
    }
}
