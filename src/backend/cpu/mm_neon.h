/* mm_neon.h - integer products with many activation rows on 64-bit ARM, written over one inner step;
 * private to mm_neon.c and mm_i8mm.c.
 *
 * The including file defines before it: CHUNK, how many k of one weight row lie side by side in a
 * panel, and products(), the sums of so many k for eight weight rows and a few activation rows.
 *
 * Eight weight rows are unpacked once per stretch of groups into a panel whose rows lie in vector
 * lanes, and multiplied with up to four activation rows at a time. */
#include <string.h>

#include "backend/cpu/mm.h"
#include "backend/cpu/mm_neon_types.h"

typedef struct
    record_32 { /* one group of 32 of eight rows; rows that do not exist have d = m = 0 */
    float d[LANES], m[LANES]; /* m: rounded */
    int8_t q[32 * LANES];     /* [32 / CHUNK][LANES][CHUNK] */
} record_32;
typedef struct record_256 {
    float d[LANES], m[LANES];
    int16_t scale[16][LANES], min[16][LANES];
    int8_t q[256 * LANES]; /* [256 / CHUNK][LANES][CHUNK] */
} record_256;

/* A panel's stretch of groups times a few activation rows; pointers are at the first of both. */
typedef struct tile {
    const void *panel; /* [n_groups] records */
    size_t n_groups;
    const int8_t *q;    /* [WIDTH][q_stride] */
    const float *d;     /* [WIDTH][group_stride] */
    const float *total; /* RF_INT_32 with minima: [WIDTH][group_stride]; else NULL */
    const int32_t *sum; /* RF_INT_256: [WIDTH][16 * group_stride] */
    size_t q_stride, group_stride;
    bool has_min, first; /* first: the sums start at 0 and not at dst */
    float *dst;          /* [WIDTH][dst_stride] */
    size_t dst_stride;
    uint32_t n_rows;   /* 1 to LANES */
    const float *bias; /* [n_rows], on the last stretch; or NULL */
} tile;

typedef struct lane_floats {
    float32x4_t v[2][WIDTH];
} lane_floats;

RF_INLINE void load_acc(const tile *a, int nt, lane_floats *acc) {
    for (int t = 0; t < nt; t++) {
        float row[LANES] = {0};
        if (!a->first) memcpy(row, a->dst + (size_t)t * a->dst_stride, a->n_rows * sizeof *row);
        acc->v[0][t] = vld1q_f32(row);
        acc->v[1][t] = vld1q_f32(row + 4);
    }
}

RF_INLINE void store_acc(const tile *a, int nt, const lane_floats *acc) {
    for (int t = 0; t < nt; t++) {
        float row[LANES];
        vst1q_f32(row, acc->v[0][t]);
        vst1q_f32(row + 4, acc->v[1][t]);
        for (uint32_t r = 0; a->bias && r < a->n_rows; r++)
            row[r] += a->bias[r];
        memcpy(a->dst + (size_t)t * a->dst_stride, row, a->n_rows * sizeof *row);
    }
}

/* acc = fma((float)i, w * x, acc) in every lane. */
RF_INLINE void add_scaled(const float w[LANES], float x, const int32x4_t i[2], float32x4_t *low,
                          float32x4_t *high) {
    *low = vfmaq_f32(*low, vcvtq_f32_s32(i[0]), vmulq_n_f32(vld1q_f32(w), x));
    *high = vfmaq_f32(*high, vcvtq_f32_s32(i[1]), vmulq_n_f32(vld1q_f32(w + 4), x));
}

/* acc += the minima of n groups from `first` on, which share steps, times their totals. */
RF_INLINE void add_minima(const tile *a, int nt, size_t first, size_t n, lane_floats *acc) {
    const record_32 *w = a->panel;
    lane_floats p;
    RF_UNROLL
    for (int t = 0; t < nt; t++)
        p.v[0][t] = p.v[1][t] = vdupq_n_f32(0);
    for (size_t g = first; g < first + n; g++) {
        const float32x4_t low = vld1q_f32(w[g].m), high = vld1q_f32(w[g].m + 4);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            const float total = a->total[(size_t)t * a->group_stride + g];
            p.v[0][t] = vfmaq_n_f32(p.v[0][t], low, total);
            p.v[1][t] = vfmaq_n_f32(p.v[1][t], high, total);
        }
    }
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        acc->v[0][t] = vaddq_f32(acc->v[0][t], p.v[0][t]);
        acc->v[1][t] = vaddq_f32(acc->v[1][t], p.v[1][t]);
    }
}

RF_INLINE void tile_32(const tile *a, int nt) {
    lane_floats acc;
    load_acc(a, nt, &acc);
    const record_32 *w = a->panel;
    for (size_t g = 0; g < a->n_groups; g++, w++) {
        const int8_t *x[WIDTH];
        lane_ints i;
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            x[t] = a->q + (size_t)t * a->q_stride + 32 * g;
            i.v[0][t] = i.v[1][t] = vdupq_n_s32(0);
        }
        products(w->q, x, nt, 32, &i);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            size_t at = (size_t)t * a->group_stride + g;
            int32x4_t it[2] = {i.v[0][t], i.v[1][t]};
            add_scaled(w->d, a->d[at], it, &acc.v[0][t], &acc.v[1][t]);
        }
        if (!a->has_min) continue;
        const size_t ended = rf_mm_shares_ended(g, a->n_groups);
        if (ended) add_minima(a, nt, g + 1 - ended, ended, &acc);
    }
    store_acc(a, nt, &acc);
}

/* Adds the products of 16 k, times the rows' scales. */
RF_INLINE void part_256(const record_256 *w, size_t j, const int8_t *const x[], int nt,
                        lane_ints *i) {
    int16x8_t s = vld1q_s16(w->scale[j]);
    int32x4_t low = vmovl_s16(vget_low_s16(s)), high = vmovl_s16(vget_high_s16(s));
    const int8_t *xj[WIDTH];
    lane_ints part;
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        xj[t] = x[t] + 16 * j;
        part.v[0][t] = part.v[1][t] = vdupq_n_s32(0);
    }
    products(w->q + 16 * LANES * j, xj, nt, 16, &part);
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        i->v[0][t] = vmlaq_s32(i->v[0][t], part.v[0][t], low);
        i->v[1][t] = vmlaq_s32(i->v[1][t], part.v[1][t], high);
    }
}

/* The rows' minimums times an activation row's sums of 16. */
RF_INLINE void mins_256(const record_256 *w, const int32_t *sum, int32x4_t out[2]) {
    out[0] = out[1] = vdupq_n_s32(0);
    for (int j = 0; j < 16; j++) {
        int16x8_t m = vld1q_s16(w->min[j]);
        out[0] = vmlaq_n_s32(out[0], vmovl_s16(vget_low_s16(m)), sum[j]);
        out[1] = vmlaq_n_s32(out[1], vmovl_s16(vget_high_s16(m)), sum[j]);
    }
}

RF_INLINE void tile_256(const tile *a, int nt) {
    lane_floats acc;
    load_acc(a, nt, &acc);
    const record_256 *w = a->panel;
    for (size_t g = 0; g < a->n_groups; g++, w++) {
        const int8_t *x[WIDTH];
        lane_ints i;
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            x[t] = a->q + (size_t)t * a->q_stride + 256 * g;
            i.v[0][t] = i.v[1][t] = vdupq_n_s32(0);
        }
        for (size_t j = 0; j < 16; j++)
            part_256(w, j, x, nt, &i);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            size_t at = (size_t)t * a->group_stride + g;
            int32x4_t it[2] = {i.v[0][t], i.v[1][t]};
            add_scaled(w->d, a->d[at], it, &acc.v[0][t], &acc.v[1][t]);
            if (!a->has_min) continue;
            mins_256(w, a->sum + 16 * at, it);
            add_scaled(w->m, a->d[at], it, &acc.v[0][t], &acc.v[1][t]);
        }
    }
    store_acc(a, nt, &acc);
}

/* ---- packing ---- */

/* n bytes of one row into lane l of a panel's q. */
static void pack_lane(int8_t *q, size_t l, const int8_t *src, size_t n) {
    for (size_t k = 0; k < n / CHUNK; k++)
        memcpy(q + (k * LANES + l) * CHUNK, src + k * CHUNK, CHUNK);
}

/* Rounds four rows' minima of n groups that share a step (RF_ROUND_MINIMA), `apart` floats from each other. */
static void round_minima(float *m, size_t apart, size_t n) {
    uint32x4_t most = vdupq_n_u32(RF_MINIMA_LEAST);
    for (size_t g = 0; g < n; g++)
        most = vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(m + g * apart))));
    most = vandq_u32(vminq_u32(most, vdupq_n_u32(RF_MINIMA_MOST)), vdupq_n_u32(0x7f800000));
    most = vorrq_u32(vaddq_u32(most, vdupq_n_u32(13u << 23)), vdupq_n_u32(0x00400000));
    const float32x4_t c = vreinterpretq_f32_u32(most);
    for (size_t g = 0; g < n; g++)
        vst1q_f32(m + g * apart, vsubq_f32(vaddq_f32(vld1q_f32(m + g * apart), c), c));
}

/* Those of a panel of n groups. */
static void round_panel(record_32 *p, size_t n) {
    for (size_t g = 0; g < n; g += RF_SHARE_GROUPS) {
        const size_t shared = n - g < RF_SHARE_GROUPS ? n - g : RF_SHARE_GROUPS;
        for (size_t half = 0; half < LANES; half += 4)
            round_minima(p[g].m + half, sizeof *p / sizeof *p->m, shared);
    }
}

/* Groups [g, g + n) of eight rows from `row`; rows from n_rows on do not exist. */
static void pack_32(const rf_tensor *w, uint32_t row, uint32_t n_rows, size_t g, size_t n,
                    record_32 *out) {
    const rf_dtype_info *info = rf_dtype_get(w->type);
    memset(out, 0, n * sizeof *out);
    for (uint32_t l = 0; l < n_rows; l++) {
        for (size_t i = 0; i < n; i++) {
            rf_int_group group;
            info->unpack(rf_mm_row(w, row + l), g + i, &group);
            out[i].d[l] = group.d;
            out[i].m[l] = info->has_min ? group.m : 0;
            pack_lane(out[i].q, l, group.q, 32);
        }
    }
    if (info->has_min) round_panel(out, n);
}

static void pack_256(const rf_tensor *w, uint32_t row, uint32_t n_rows, size_t g, size_t n,
                     record_256 *out) {
    const rf_dtype_info *info = rf_dtype_get(w->type);
    memset(out, 0, n * sizeof *out);
    for (uint32_t l = 0; l < n_rows; l++) {
        for (size_t i = 0; i < n; i++) {
            rf_int_group group;
            info->unpack(rf_mm_row(w, row + l), g + i, &group);
            out[i].d[l] = group.d;
            out[i].m[l] = group.m;
            for (int j = 0; j < 16; j++) {
                out[i].scale[j][l] = group.scale[j];
                out[i].min[j][l] = group.min[j];
            }
            pack_lane(out[i].q, l, group.q, 256);
        }
    }
}

/* ---- the walk over panels ---- */

static void run_tile(const tile *a, bool is_256, uint32_t nt) {
    switch (nt) {
    case 1:
        is_256 ? tile_256(a, 1) : tile_32(a, 1);
        break;
    case 2:
        is_256 ? tile_256(a, 2) : tile_32(a, 2);
        break;
    case 3:
        is_256 ? tile_256(a, 3) : tile_32(a, 3);
        break;
    default:
        is_256 ? tile_256(a, WIDTH) : tile_32(a, WIDTH);
        break;
    }
}

static void run_tiles(tile a, bool is_256, uint32_t n_act) {
    for (uint32_t t = 0; t < n_act; t += WIDTH) {
        run_tile(&a, is_256, n_act - t < WIDTH ? n_act - t : WIDTH);
        a.q += WIDTH * a.q_stride;
        a.d += WIDTH * a.group_stride;
        if (a.total) a.total += WIDTH * a.group_stride;
        if (is_256) a.sum += WIDTH * a.group_stride * 16;
        a.dst += WIDTH * a.dst_stride;
    }
}

static void matmul_panels(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    const rf_mm_input *act = mm->act;
    const rf_dtype_info *info = rf_dtype_get(mm->w->type);
    const bool is_256 = info->view == RF_INT_256;
    const size_t group = is_256 ? 256 : 32, n_groups = act->n_cols / group;
    const size_t stretch =
        is_256 ? PANEL_BYTES / sizeof(record_256)
               : PANEL_BYTES / (RF_SHARE_GROUPS * sizeof(record_32)) * RF_SHARE_GROUPS;
    for (uint32_t row = begin; row < end; row += LANES) {
        uint32_t n_rows = end - row < LANES ? end - row : LANES;
        for (size_t g = 0; g < n_groups; g += stretch) {
            size_t n = n_groups - g < stretch ? n_groups - g : stretch;
            if (is_256)
                pack_256(mm->w, row, n_rows, g, n, scratch);
            else
                pack_32(mm->w, row, n_rows, g, n, scratch);
            tile a = {.panel = scratch,
                      .n_groups = n,
                      .q = act->q + g * group,
                      .d = act->d + g,
                      .total = info->has_min && !is_256 ? act->total + g : NULL,
                      .sum = act->sum + (is_256 ? 16 * g : 0),
                      .q_stride = act->n_cols,
                      .group_stride = n_groups,
                      .has_min = info->has_min,
                      .first = g == 0,
                      .dst = mm->dst + row,
                      .dst_stride = mm->dst_stride,
                      .n_rows = n_rows,
                      .bias = mm->bias && g + n == n_groups ? mm->bias + row : NULL};
            run_tiles(a, is_256, act->n_rows);
        }
    }
}
