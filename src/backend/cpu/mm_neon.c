/* mm_neon.c - the matrix product for 64-bit ARM with dot products of 8-bit integers.
 *
 * Every format arrives through its unpack(), as signed bytes: a dot product of signed bytes needs no
 * detour, and the plain loops of unpack() are vectorised by the compiler.  Few activation rows take
 * four weight rows at a time; more go through panels (mm_neon.h). */
#include <math.h>

#include "backend/cpu/mm.h"
#include "backend/cpu/mm_neon_types.h"

/* Four k of eight rows per 32 bytes of w, times lane l of each x. */
#define QUAD(l)                                                                  \
    do {                                                                         \
        int8x16_t w0 = vld1q_s8(w + 32 * (l)), w1 = vld1q_s8(w + 32 * (l) + 16); \
        RF_UNROLL                                                                \
        for (int t = 0; t < nt; t++) {                                           \
            i->v[0][t] = vdotq_laneq_s32(i->v[0][t], w0, xk[t], l);              \
            i->v[1][t] = vdotq_laneq_s32(i->v[1][t], w1, xk[t], l);              \
        }                                                                        \
    } while (0)

/* Adds the products of n k (a multiple of 16) to i; w: [n / 4][LANES][4]. */
RF_INLINE void products(const int8_t *w, const int8_t *const x[], int nt, int n, lane_ints *i) {
    RF_UNROLL
    for (int k = 0; k < n; k += 16, w += 16 * LANES) {
        int8x16_t xk[WIDTH];
        RF_UNROLL
        for (int t = 0; t < nt; t++)
            xk[t] = vld1q_s8(x[t] + k);
        QUAD(0);
        QUAD(1);
        QUAD(2);
        QUAD(3);
    }
}

#define CHUNK 4
#include "backend/cpu/mm_neon.h"

/* ---- quantisation of activations ---- */

/* The largest |x|, compared as bits so that a NaN is larger than any number and reaches d. */
static float abs_max(const float *x, size_t n) {
    uint32x4_t most = vdupq_n_u32(0);
    for (size_t i = 0; i < n; i += 4)
        most = vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i))));
    uint32_t bits = vmaxvq_u32(most);
    float amax;
    memcpy(&amax, &bits, sizeof amax);
    return amax;
}

/* Four values times id, clamped (a NaN to -127) and rounded to even. */
RF_INLINE int32x4_t round_4(const float *x, float id) {
    const float32x4_t most = vdupq_n_f32(127), least = vdupq_n_f32(-127);
    float32x4_t v = vmulq_n_f32(vld1q_f32(x), id);
    v = vbslq_f32(vcgtq_f32(v, least), v, least);
    v = vbslq_f32(vcltq_f32(v, most), v, most);
    return vcvtnq_s32_f32(v);
}

/* Sixteen values; returns their sum. */
static int32_t quant_16(const float *x, float id, int8_t *q) {
    int32x4_t v[4];
    for (int i = 0; i < 4; i++)
        v[i] = round_4(x + 4 * i, id);
    int16x8_t low = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
    int16x8_t high = vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]));
    vst1q_s8(q, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
    return vaddlvq_s16(vaddq_s16(low, high));
}

/* Groups of 32; their sums where they are asked for. */
RF_INLINE void quant_groups(const float *x, size_t n, rf_mm_scale_fn *scale_of, int8_t *q, float *d,
                            int32_t *sum) {
    for (size_t g = 0; g < n / 32; g++, x += 32, q += 32) {
        rf_mm_scale s = scale_of(abs_max(x, 32));
        d[g] = s.d;
        int32_t all = quant_16(x, s.id, q) + quant_16(x + 16, s.id, q + 16);
        if (sum) sum[g] = all;
    }
}

static void quant_32(const float *x, size_t n, int8_t *q, float *d, int32_t *sum) {
    quant_groups(x, n, rf_mm_short_scale_of, q, d, sum);
}

static void quant_kv(const float *x, size_t n, int8_t *q, float *d) {
    quant_groups(x, n, rf_mm_scale_of, q, d, NULL);
}

static void quant_256(const float *x, size_t n, int8_t *q, float *d, int32_t *sum) {
    for (size_t g = 0; g < n / 256; g++, x += 256, q += 256, sum += 16) {
        rf_mm_scale s = rf_mm_scale_of(abs_max(x, 256));
        d[g] = s.d;
        for (size_t j = 0; j < 16; j++)
            sum[j] = quant_16(x + 16 * j, s.id, q + 16 * j);
    }
}

/* ---- 1 to 3 activation rows ---- */

enum { ROWS = 4, MAX_T = RF_MM_TILE_MIN - 1 };

/* Lane r of the result is the sum of p[r]. */
RF_INLINE int32x4_t sum_rows(const int32x4_t p[ROWS]) {
    return vpaddq_s32(vpaddq_s32(p[0], p[1]), vpaddq_s32(p[2], p[3]));
}

/* acc = fma((float)i, w * x, acc) in every lane. */
RF_INLINE float32x4_t scaled(float32x4_t acc, int32x4_t i, float32x4_t w, float x) {
    return vfmaq_f32(acc, vcvtq_f32_s32(i), vmulq_n_f32(w, x));
}

typedef struct four_groups {
    rf_int_group group[ROWS];
    float d[ROWS], m[ROWS];
} four_groups;

RF_INLINE float32x4_t group_32(const four_groups *w, const int8_t *x, float xd, float32x4_t acc) {
    int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
    int32x4_t part[ROWS];
    RF_UNROLL
    for (int r = 0; r < ROWS; r++) {
        part[r] = vdotq_s32(vdupq_n_s32(0), vld1q_s8(w->group[r].q), x0);
        part[r] = vdotq_s32(part[r], vld1q_s8(w->group[r].q + 16), x1);
    }
    return scaled(acc, sum_rows(part), vld1q_f32(w->d), xd);
}

/* The minima of n groups from `first` on, which share steps, times their totals. */
static void add_minima_of_four(const rf_mm_input *a, size_t first, size_t n,
                               float m[RF_SHARE_GROUPS][ROWS], float32x4_t acc[MAX_T]) {
    round_minima(m[0], ROWS, n);
    for (size_t t = 0; t < a->n_rows; t++) {
        const float *total = a->total + t * (a->n_cols / 32) + first;
        float32x4_t p = vdupq_n_f32(0);
        for (size_t g = 0; g < n; g++)
            p = vfmaq_n_f32(p, vld1q_f32(m[g]), total[g]);
        acc[t] = vaddq_f32(acc[t], p);
    }
}

/* The products of one row's group of 256, in four partial sums. */
RF_INLINE int32x4_t row_256(const rf_int_group *w, const int8_t *x) {
    int32x4_t i = vdupq_n_s32(0);
    for (int j = 0; j < 16; j++) {
        int32x4_t p = vdotq_s32(vdupq_n_s32(0), vld1q_s8(w->q + 16 * j), vld1q_s8(x + 16 * j));
        i = vmlaq_n_s32(i, p, w->scale[j]);
    }
    return i;
}

RF_INLINE int32x4_t row_mins(const rf_int_group *w, const int32_t *sum) {
    int32x4_t i = vdupq_n_s32(0);
    for (int j = 0; j < 16; j += 4)
        i = vmlaq_s32(i, vmovl_s16(vld1_s16(w->min + j)), vld1q_s32(sum + j));
    return i;
}

RF_INLINE float32x4_t group_256(const four_groups *w, bool has_min, const int8_t *x, float xd,
                                const int32_t *sum, float32x4_t acc) {
    int32x4_t part[ROWS];
    RF_UNROLL
    for (int r = 0; r < ROWS; r++)
        part[r] = row_256(&w->group[r], x);
    acc = scaled(acc, sum_rows(part), vld1q_f32(w->d), xd);
    if (!has_min) return acc;
    RF_UNROLL
    for (int r = 0; r < ROWS; r++)
        part[r] = row_mins(&w->group[r], sum);
    return scaled(acc, sum_rows(part), vld1q_f32(w->m), xd);
}

/* Four rows from `row`, of which the last may be missing: they repeat the one before. */
static void four_rows(const rf_mm *mm, const rf_dtype_info *info, uint32_t row, uint32_t n,
                      float32x4_t acc[MAX_T]) {
    const rf_mm_input *a = mm->act;
    const bool is_256 = info->view == RF_INT_256;
    const size_t group = is_256 ? 256 : 32, n_groups = a->n_cols / group;
    float minima[RF_SHARE_GROUPS][ROWS];
    for (size_t g = 0; g < n_groups; g++) {
        four_groups w;
        for (uint32_t r = 0; r < ROWS; r++) {
            info->unpack(rf_mm_row(mm->w, row + (r < n ? r : n - 1)), g, &w.group[r]);
            w.d[r] = w.group[r].d;
            w.m[r] = w.group[r].m;
        }
        for (size_t t = 0; t < a->n_rows; t++) {
            size_t at = t * n_groups + g;
            const int8_t *x = a->q + t * a->n_cols + g * group;
            acc[t] = is_256 ? group_256(&w, info->has_min, x, a->d[at], a->sum + 16 * at, acc[t])
                            : group_32(&w, x, a->d[at], acc[t]);
        }
        if (is_256 || !info->has_min) continue;
        memcpy(minima[g % RF_SHARE_GROUPS], w.m, sizeof w.m);
        const size_t ended = rf_mm_shares_ended(g, n_groups);
        if (ended) add_minima_of_four(a, g + 1 - ended, ended, minima, acc);
    }
}

static void matmul_rows(const rf_mm *mm, uint32_t begin, uint32_t end) {
    const rf_dtype_info *info = rf_dtype_get(mm->w->type);
    for (uint32_t row = begin; row < end; row += ROWS) {
        uint32_t n = end - row < ROWS ? end - row : ROWS;
        float32x4_t acc[MAX_T] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
        four_rows(mm, info, row, n, acc);
        for (size_t t = 0; t < mm->act->n_rows; t++) {
            float out[ROWS];
            vst1q_f32(out, acc[t]);
            for (uint32_t r = 0; r < n; r++)
                mm->dst[t * mm->dst_stride + row + r] =
                    mm->bias ? out[r] + mm->bias[row + r] : out[r];
        }
    }
}

/* ---- the table's entries ---- */

static void matmul(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    if (mm->act->n_rows == 0) return;
    if (mm->act->view == RF_INT_NONE)
        rf_mm_float_neon(mm, begin, end, scratch);
    else if (mm->act->n_rows < RF_MM_TILE_MIN)
        matmul_rows(mm, begin, end);
    else
        matmul_panels(mm, begin, end, scratch);
}

void rf_cpu_mm_neon(rf_cpu_kernels *k) {
    k->quant_32 = quant_32;
    k->quant_256 = quant_256;
    k->quant_kv = quant_kv;
    k->matmul = matmul;
    k->lay_out = rf_mm_lay_out_neon;
    k->lay_out_from[RF_INT_NONE] = RF_MM_LAY_OUT_FROM;
}
