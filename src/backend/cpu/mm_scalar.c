/* mm_scalar.c - the matrix product in plain C: the model of docs/arithmetic.md on any processor.
 *
 * Weights are unpacked once per output row and group and used for all activation rows; the
 * accumulators of a row wait in dst.  No intrinsics and no special cases per format. */
#include <math.h>
#include <string.h>

#include "backend/cpu/mm.h"

size_t rf_mm_scratch_bytes(uint32_t max_act_rows, uint32_t max_cols) {
    size_t row = rf_mm_round16(max_cols) * sizeof(float);
    size_t floats = row * RF_MM_FLOAT_NR; /* a panel of few rows, or of as many as this allows: */
    floats = floats > RF_MM_FLOAT_BYTES ? floats : RF_MM_FLOAT_BYTES;
    floats += (size_t)RF_MM_FLOAT_BLOCK * RF_MM_FLOAT_ROWS * 16 * sizeof(float);
    size_t sums = (size_t)max_act_rows * (max_cols / 16) * sizeof(int16_t);
    size_t results = RF_MM_BLOCKS * rf_mm_round16(max_act_rows) * RF_ACT_BLOCK * sizeof(float);
    size_t ints = RF_MM_PANEL_BYTES + (sums > results ? sums : results);
    size_t most = floats > ints ? floats : ints;
    return (most + 63) & ~(size_t)63;
}

/* Scales lie in 0..15 (Q2_K), in -32..31 (Q3_K), are odd and at most 15 (IQ1, whose q are odd too: half of
 * their product then is a byte) or 1. */
rf_mm_scaled rf_mm_scaled_of(rf_dtype t) {
    static const rf_mm_scaled scaled[RF_DT_COUNT] = {
        [RF_DT_Q2_K] = {1, 0, 1},    [RF_DT_Q3_K] = {1, 127, 12}, [RF_DT_IQ1_S] = {2, 135, 1},
        [RF_DT_IQ1_M] = {2, 135, 1}, [RF_DT_TQ1_0] = {1, 1, 1},   [RF_DT_TQ2_0] = {1, 1, 1},
        [RF_DT_Q8_K] = {1, 128, 1},
    };
    return scaled[t];
}

/* The largest |x|, as bits, by which a NaN is larger than any number and reaches d. */
static uint32_t abs_most(const float *x, size_t n) {
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most;
}

static float abs_max(const float *x, size_t n) {
    const uint32_t most = abs_most(x, n);
    float amax;
    memcpy(&amax, &most, sizeof amax);
    return amax;
}

/* One group of n, multiplied with id; leaves the sum of every step elements in sum. */
static void quant_group(const float *x, size_t n, size_t step, float id, int8_t *q, int32_t *sum) {
    for (size_t j = 0; j < n / step; j++) {
        sum[j] = 0;
        for (size_t i = j * step; i < (j + 1) * step; i++) {
            float v = x[i] * id;
            v = v > -127.0f ? v : -127.0f; /* also catches a NaN */
            v = v < 127.0f ? v : 127.0f;
            q[i] = (int8_t)rintf(v);
            sum[j] += q[i];
        }
    }
}

/* Groups of 32; their sums where they are asked for. */
RF_INLINE void quant_groups(const float *x, size_t n, rf_mm_scale_fn *scale_of, int8_t *q, float *d,
                            int32_t *sum) {
    for (size_t g = 0; g < n / 32; g++) {
        rf_mm_scale s = scale_of(abs_max(x + 32 * g, 32));
        int32_t all;
        quant_group(x + 32 * g, 32, 32, s.id, q + 32 * g, &all);
        d[g] = s.d;
        if (sum) sum[g] = all;
    }
}

void rf_mm_totals(const float *d, const int32_t *sum, size_t n, float *total) {
    for (size_t g = 0; g < n; g += RF_SHARE_GROUPS) {
        const size_t end = g + RF_SHARE_GROUPS < n ? g + RF_SHARE_GROUPS : n;
        for (size_t i = g; i < end; i++)
            total[i] = (float)sum[i] * d[i];
        const uint32_t by = RF_ROUND_TOTALS(abs_most(total + g, end - g));
        for (size_t i = g; i < end; i++)
            total[i] = rf_mm_rounded(total[i], by);
    }
}

static void quant_32(const float *x, size_t n, int8_t *q, float *d, int32_t *sum) {
    quant_groups(x, n, rf_mm_short_scale_of, q, d, sum);
}

static void quant_kv(const float *x, size_t n, int8_t *q, float *d) {
    quant_groups(x, n, rf_mm_scale_of, q, d, NULL);
}

static void quant_256(const float *x, size_t n, int8_t *q, float *d, int32_t *sum) {
    for (size_t g = 0; g < n / 256; g++) {
        rf_mm_scale s = rf_mm_scale_of(abs_max(x + 256 * g, 256));
        quant_group(x + 256 * g, 256, 16, s.id, q + 256 * g, sum + 16 * g);
        d[g] = s.d;
    }
}

/* The minima m of the last n groups before `end`, which share a step, with those groups' totals onto row r. */
static void add_minima(const rf_mm *mm, uint32_t r, const float *m, size_t n, size_t end) {
    const rf_mm_input *a = mm->act;
    const uint32_t by = RF_ROUND_MINIMA(abs_most(m, n));
    for (size_t t = 0; t < a->n_rows; t++) {
        const float *total = a->total + t * (a->n_cols / 32) + end - n;
        float sum = 0;
        for (size_t i = 0; i < n; i++)
            sum = fmaf(rf_mm_rounded(m[i], by), total[i], sum);
        mm->dst[t * mm->dst_stride + r] += sum;
    }
}

static void row_32(const rf_mm *mm, const rf_dtype_info *info, uint32_t r) {
    const rf_mm_input *a = mm->act;
    size_t n_groups = a->n_cols / 32;
    float m[RF_SHARE_GROUPS];
    for (size_t g = 0; g < n_groups; g++) {
        rf_int_group w;
        info->unpack(rf_mm_row(mm->w, r), g, &w);
        for (size_t t = 0; t < a->n_rows; t++) {
            const int8_t *q = a->q + t * a->n_cols + 32 * g;
            float xd = a->d[t * n_groups + g], *acc = mm->dst + t * mm->dst_stride + r;
            int32_t i = 0;
            for (size_t k = 0; k < 32; k++)
                i += w.q[k] * q[k];
            *acc = fmaf((float)i, w.d * xd, g > 0 ? *acc : 0);
        }
        m[g % RF_SHARE_GROUPS] = w.m;
        const size_t ended = rf_mm_shares_ended(g, n_groups);
        if (info->has_min && ended) add_minima(mm, r, m, ended, g + 1);
    }
}

static void row_256(const rf_mm *mm, const rf_dtype_info *info, uint32_t r) {
    const rf_mm_input *a = mm->act;
    size_t n_groups = a->n_cols / 256;
    for (size_t g = 0; g < n_groups; g++) {
        rf_int_group w;
        info->unpack(rf_mm_row(mm->w, r), g, &w);
        for (size_t t = 0; t < a->n_rows; t++) {
            const int8_t *q = a->q + t * a->n_cols + 256 * g;
            const int32_t *sum = a->sum + (t * n_groups + g) * 16;
            float xd = a->d[t * n_groups + g], *acc = mm->dst + t * mm->dst_stride + r;
            int32_t i = 0, m = 0;
            for (size_t j = 0; j < 16; j++) {
                int32_t part = 0;
                for (size_t k = 16 * j; k < 16 * (j + 1); k++)
                    part += w.q[k] * q[k];
                i += w.scale[j] * part;
                m += w.min[j] * sum[j];
            }
            *acc = fmaf((float)i, w.d * xd, g > 0 ? *acc : 0);
            if (info->has_min) *acc = fmaf((float)m, w.m * xd, *acc);
        }
    }
}

/* w and x: n floats, continued with zeros to a multiple of 16. */
static float dot_lanes(const float *w, const float *x, size_t n) {
    float s[16] = {0};
    size_t k = 0;
    for (; k + 16 <= n; k += 16)
        for (size_t i = 0; i < 16; i++)
            s[i] = fmaf(w[k + i], x[k + i], s[i]);
    if (k < n)
        for (size_t i = 0; i < 16; i++)
            s[i] = k + i < n ? fmaf(w[k + i], x[k + i], s[i]) : fmaf(0, 0, s[i]);
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            s[i] += s[i + half];
    return s[0];
}

static void row_float(const rf_mm *mm, const rf_dtype_info *info, uint32_t r, float *w) {
    const rf_mm_input *a = mm->act;
    info->decode(rf_mm_row(mm->w, r), w, a->n_cols);
    for (size_t t = 0; t < a->n_rows; t++)
        mm->dst[t * mm->dst_stride + r] = dot_lanes(w, a->x + t * a->n_cols, a->n_cols);
}

void rf_mm_scalar(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    const rf_dtype_info *info = rf_dtype_get(mm->w->type);
    for (uint32_t r = begin; r < end; r++) {
        switch (info->view) {
        case RF_INT_32:
            row_32(mm, info, r);
            break;
        case RF_INT_256:
            row_256(mm, info, r);
            break;
        case RF_INT_NONE:
            row_float(mm, info, r, scratch);
            break;
        }
        if (!mm->bias) continue;
        for (size_t t = 0; t < mm->act->n_rows; t++)
            mm->dst[t * mm->dst_stride + r] += mm->bias[r];
    }
}

void rf_cpu_mm_scalar(rf_cpu_kernels *k) {
    k->quant_32 = quant_32;
    k->quant_256 = quant_256;
    k->quant_kv = quant_kv;
    k->matmul = rf_mm_scalar;
}
