/* mm_avx2.c - AVX2: quantisation of activations and register tiles of the integer formats over
 * panels.
 *
 * Integer tiles: eight weight rows in the lanes of a vector, two vectors by four activation rows.
 * Products are u8 x s8 in pairs of i16; how many pairs fit into 16 bits before they are widened
 * depends on the format's largest u.  Integers that need all 8 bits use |w| times sign(x, w).  The sixteen
 * registers are for these sums: those of floats rest in the first-level cache. */
#include "backend/cpu/mm_avx2.h"

/* ---- quantisation ---- */

/* Eight values times id, clamped (a NaN too) and rounded, as i32. */
RF_INLINE __m256i round_8(const float *x, __m256 id) {
    __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x), id);
    v = _mm256_max_ps(v, _mm256_set1_ps(-127.0f)); /* the second operand where v is a NaN */
    v = _mm256_min_ps(v, _mm256_set1_ps(127.0f));
    return _mm256_cvtps_epi32(v);
}

RF_INLINE int32_t sum_lanes(__m256i v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtsi128_si32(s);
}

/* Bits of the largest |x| of n floats, compared as integers so that a NaN wins. */
RF_INLINE float abs_max(const float *x, size_t n) {
    __m256i most = _mm256_setzero_si256();
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    for (size_t i = 0; i < n; i += 8)
        most = _mm256_max_epi32(most, _mm256_and_si256(rf_load_256(x + i), magnitude));
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(m));
}

/* Quantises 32 floats; the sums of the two halves lie in first and second. */
RF_INLINE void quant_stretch(const float *x, float id, int8_t *q, int32_t *first, int32_t *second) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256 by = _mm256_set1_ps(id);
    __m256i a = round_8(x, by), b = round_8(x + 8, by);
    __m256i c = round_8(x + 16, by), d = round_8(x + 24, by);
    *first = sum_lanes(_mm256_add_epi32(a, b));
    *second = sum_lanes(_mm256_add_epi32(c, d));
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    _mm256_storeu_si256((__m256i *)q, _mm256_permutevar8x32_epi32(bytes, order));
}

/* Groups of 32; their sums where they are asked for. */
RF_INLINE void quant_groups(const float *x, size_t n, rf_mm_scale_fn *scale_of, int8_t *q, float *d,
                            int32_t *sum) {
    for (size_t g = 0; g < n / 32; g++) {
        rf_mm_scale s = scale_of(abs_max(x + 32 * g, 32));
        int32_t first, second;
        quant_stretch(x + 32 * g, s.id, q + 32 * g, &first, &second);
        d[g] = s.d;
        if (sum) sum[g] = first + second;
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
        d[g] = s.d;
        for (size_t j = 8 * g; j < 8 * (g + 1); j++)
            quant_stretch(x + 32 * j, s.id, q + 32 * j, &sum[2 * j], &sum[2 * j + 1]);
    }
}

/* ---- integer tiles ---- */

enum {
    LANES = 8,
    VECS = 2,
    WIDTH = 4,
    TALL_FROM = 8,
    TILE_MIN_SIGNED = 7, /* activation rows from which a panel pays for groups of 32 with a sign */
};

/* Products of k in fours that are added as i16 before they are widened. */
typedef enum tile_mode {
    TILE_SIGNED = 0, /* one; w keeps its sign */
    TILE_1 = 1,      /* u <= 128 */
    TILE_2 = 2,      /* u <= 64 */
    TILE_4 = 4,      /* u <= 32 */
    TILE_8 = 8,      /* u <= 16; of groups of 256 where 32 elements share a scale */
} tile_mode;

typedef struct lane_floats {
    float v[VECS][WIDTH][LANES] __attribute__((aligned(32)));
} lane_floats;
typedef struct lane_ints {
    __m256i v[VECS][WIDTH];
} lane_ints;

/* Compilers move additions, which may be made in any order, and compute addresses from few others: both
 * takes registers that are not there.  These are the values at this point. */
#define STAYS(vector)  __asm__("" : "+x"(vector))
#define MOVES(pointer) __asm__("" : "+r"(pointer))
#define RESTS(memory)  __asm__("" : "+m"(memory)) /* and is not also kept elsewhere */

/* Where a tile is in its operands: weights and scales of each vector, each activation row. */
typedef struct tile_place {
    const uint8_t *w[VECS], *scale[VECS];
    const int8_t *x[WIDTH];
} tile_place;

/* The first n lanes. */
RF_INLINE __m256i lane_mask(uint32_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

RF_INLINE void load_acc(const rf_mm_tile *a, int nv, int nt, lane_floats *acc) {
    for (int v = 0; v < nv; v++) {
        __m256i mask = lane_mask(a->n_rows - (uint32_t)v * LANES);
        for (int t = 0; t < nt; t++) {
            const float *dst = a->dst + (size_t)t * a->dst_stride + v * LANES;
            _mm256_store_ps(acc->v[v][t],
                            a->first ? _mm256_setzero_ps() : _mm256_maskload_ps(dst, mask));
        }
    }
}

RF_INLINE void store_acc(const rf_mm_tile *a, int nv, int nt, const lane_floats *acc) {
    for (int v = 0; v < nv; v++) {
        __m256i mask = lane_mask(a->n_rows - (uint32_t)v * LANES);
        for (int t = 0; t < nt; t++) {
            __m256 out = _mm256_load_ps(acc->v[v][t]);
            if (a->bias) out = _mm256_add_ps(out, _mm256_maskload_ps(a->bias + v * LANES, mask));
            _mm256_maskstore_ps(a->dst + (size_t)t * a->dst_stride + v * LANES, mask, out);
        }
    }
}

/* acc[v][t] = fma((float)i[v][t], d[v] * xd[t], acc[v][t]); d: [nv] records apart. */
RF_INLINE void add_scaled(const rf_mm_tile *a, int nv, int nt, const uint8_t *d, size_t g,
                          const lane_ints *i, lane_floats *acc) {
    RESTS(*acc);
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        __m256 xd = _mm256_set1_ps(a->d[(size_t)t * a->group_stride + g]);
        RF_UNROLL
        for (int v = 0; v < nv; v++) {
            __m256 wd = _mm256_load_ps((const float *)(const void *)(d + (size_t)v * a->vec_bytes));
            __m256 sum = _mm256_load_ps(acc->v[v][t]);
            sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(i->v[v][t]), _mm256_mul_ps(wd, xd), sum);
            _mm256_store_ps(acc->v[v][t], sum);
        }
    }
}

/* Products of four columns of u8 or signed w and s8 x, in pairs. */
RF_INLINE __m256i pairs_of(tile_mode mode, __m256i w, __m256i x) {
    if (mode != TILE_SIGNED) return _mm256_maddubs_epi16(w, x);
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

/* i = the products of n_quads columns in fours, or scaled: i += these times their scales; at goes on behind
 * them. */
RF_INLINE void add_products(tile_mode mode, bool scaled, int nv, int nt, int n_quads,
                            tile_place *at, lane_ints *i) {
    const int run = mode == TILE_SIGNED ? 1 : (int)mode;
    lane_ints s;
    RF_UNROLL
    for (int t = 0; t < nt; t++)
        MOVES(at->x[t]);
    RF_UNROLL
    for (int v = 0; v < nv; v++)
        MOVES(at->w[v]);
    RF_UNROLL
    for (int k = 0; k < n_quads; k++) {
        __m256i w[VECS];
        RF_UNROLL
        for (int v = 0; v < nv; v++)
            w[v] = rf_load_256(at->w[v] + k * LANES * 4);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            __m256i x = _mm256_set1_epi32((int)rf_get_u32(at->x[t] + 4 * k));
            RF_UNROLL
            for (int v = 0; v < nv; v++) {
                __m256i p = pairs_of(mode, w[v], x);
                s.v[v][t] = k % run == 0 ? p : _mm256_add_epi16(s.v[v][t], p);
                STAYS(s.v[v][t]);
                if (k % run != run - 1) continue;
                p = _mm256_madd_epi16(s.v[v][t],
                                      scaled ? rf_load_256(at->scale[v]) : _mm256_set1_epi16(1));
                i->v[v][t] = !scaled && k < run ? p : _mm256_add_epi32(i->v[v][t], p);
                STAYS(i->v[v][t]);
            }
        }
    }
    RF_UNROLL
    for (int t = 0; t < nt; t++)
        at->x[t] += 4 * n_quads;
    RF_UNROLL
    for (int v = 0; v < nv; v++)
        at->w[v] += n_quads * LANES * 4;
}

/* acc[v][t] += the minima of n groups from `first` on, which share steps, times their totals. */
RF_INLINE void add_minima(const rf_mm_tile *a, int nv, int nt, size_t first, size_t n,
                          lane_floats *acc) {
    __m256 p[VECS][WIDTH];
    for (int t = 0; t < nt; t++)
        for (int v = 0; v < nv; v++)
            p[v][t] = _mm256_setzero_ps();
    for (size_t g = first; g < first + n; g++) {
        const uint8_t *m = a->panel + g * RF_MM_RECORD_32(LANES) + RF_MM_AT_M(LANES);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            const __m256 total = _mm256_set1_ps(a->total[(size_t)t * a->group_stride + g]);
            RF_UNROLL
            for (int v = 0; v < nv; v++) {
                const void *of_vec = m + (size_t)v * a->vec_bytes;
                p[v][t] = _mm256_fmadd_ps(_mm256_load_ps(of_vec), total, p[v][t]);
            }
        }
    }
    for (int t = 0; t < nt; t++)
        for (int v = 0; v < nv; v++)
            _mm256_store_ps(acc->v[v][t], _mm256_add_ps(_mm256_load_ps(acc->v[v][t]), p[v][t]));
}

RF_INLINE void tile_32(tile_mode mode, int nv, int nt, const rf_mm_tile *a) {
    lane_floats acc;
    tile_place at;
    rf_mm_ask_for_next(a, nv, nt, LANES);
    load_acc(a, nv, nt, &acc);
    for (int t = 0; t < nt; t++)
        at.x[t] = a->q + (size_t)t * a->q_stride;
    for (int v = 0; v < nv; v++)
        at.w[v] = a->panel + (size_t)v * a->vec_bytes + RF_MM_AT_Q_32(LANES);
    for (size_t g = 0; g < a->n_groups; g++) {
        rf_mm_look_ahead(a->ahead);
        const uint8_t *record = a->panel + g * RF_MM_RECORD_32(LANES);
        lane_ints i;
        add_products(mode, false, nv, nt, 8, &at, &i);
        RF_UNROLL
        for (int t = 0; t < nt && mode != TILE_SIGNED; t++) {
            __m256i start = _mm256_set1_epi32(a->start[(size_t)t * a->group_stride + g]);
            RF_UNROLL
            for (int v = 0; v < nv; v++)
                i.v[v][t] = _mm256_add_epi32(i.v[v][t], start);
        }
        RF_UNROLL
        for (int v = 0; v < nv; v++)
            at.w[v] += RF_MM_RECORD_32(LANES) - 8 * LANES * 4;
        add_scaled(a, nv, nt, record, g, &i, &acc);
        if (!a->has_min) continue;
        const size_t ended = rf_mm_shares_ended(g, a->n_groups);
        if (ended) add_minima(a, nv, nt, g + 1 - ended, ended, &acc);
    }
    store_acc(a, nv, nt, &acc);
}

/* i += sum_j f[j] * sums[j] for four pairs from j on, where f lies in vector 0's record. */
RF_INLINE void add_sums(int nv, int nt, const rf_mm_tile *a, const uint8_t *f, size_t g, size_t j,
                        lane_ints *i) {
    for (int t = 0; t < nt; t++) {
        const size_t at = ((size_t)t * a->group_stride + g) * a->n_pairs + j;
        for (int v = 0; v < nv; v++) {
            RF_UNROLL
            for (size_t k = 0; k < 4; k++) {
                __m256i pair = _mm256_set1_epi32((int)rf_get_u32(a->sums + 2 * (at + k)));
                const uint8_t *from = f + (size_t)v * a->vec_bytes + (j + k) * LANES * 4;
                pair = _mm256_madd_epi16(rf_load_256(from), pair);
                i->v[v][t] = _mm256_add_epi32(i->v[v][t], pair);
            }
        }
    }
}

/* Scales or minimums times the activations' sums; or 0. */
RF_INLINE void dot_sums(int nv, int nt, const rf_mm_tile *a, bool any, const uint8_t *f, size_t g,
                        lane_ints *i) {
    for (int t = 0; t < nt; t++)
        for (int v = 0; v < nv; v++)
            i->v[v][t] = _mm256_setzero_si256();
    if (any) add_sums(nv, nt, a, f, g, 0, i);
    if (any && a->n_pairs == 8) add_sums(nv, nt, a, f, g, 4, i);
}

RF_INLINE void tile_256(tile_mode mode, int nv, int nt, const rf_mm_tile *a) {
    const int step = mode == TILE_8 ? 8 : 4; /* quads that share a scale, or half of them */
    lane_floats acc;
    tile_place at;
    rf_mm_ask_for_next(a, nv, nt, LANES);
    load_acc(a, nv, nt, &acc);
    for (int t = 0; t < nt; t++)
        at.x[t] = a->q + (size_t)t * a->q_stride;
    for (size_t g = 0; g < a->n_groups; g++) {
        const uint8_t *record = a->panel + g * RF_MM_RECORD_256(LANES);
        lane_ints i;
        dot_sums(nv, nt, a, mode != TILE_SIGNED && a->has_off, record + RF_MM_AT_SCALES(LANES), g,
                 &i);
        for (int v = 0; v < nv; v++) {
            at.w[v] = record + (size_t)v * a->vec_bytes + RF_MM_AT_Q_256(LANES);
            at.scale[v] = record + (size_t)v * a->vec_bytes + RF_MM_AT_SCALE(LANES);
        }
        for (int j = 0; j < 64; j += step) { /* looks often for any number of rows: often_to */
            if (j % (64 / RF_MM_LOOKS_256) == 0) rf_mm_look_ahead(a->ahead);
            add_products(mode, true, nv, nt, step, &at, &i);
            RF_UNROLL
            for (int v = 0; v < nv; v++)
                at.scale[v] += step / 4 * LANES * 4;
        }
        add_scaled(a, nv, nt, record, g, &i, &acc);
        if (!a->has_min) continue;
        dot_sums(nv, nt, a, true, record + RF_MM_AT_MINS(LANES), g, &i);
        add_scaled(a, nv, nt, record + RF_MM_AT_M(LANES), g, &i, &acc);
    }
    store_acc(a, nv, nt, &acc);
}

/* One function per shape, so that mode, nv and nt are constants inside. */
#define TILE(size, mode, nv, nt)                                          \
    static void tile_##size##_##mode##_##nv##_##nt(const rf_mm_tile *a) { \
        tile_##size(mode, nv, nt, a);                                     \
    }
#define TILE_SET(size, mode) \
    TILE(size, mode, 1, 1)   \
    TILE(size, mode, 1, 2)   \
    TILE(size, mode, 1, 3)   \
    TILE(size, mode, 1, 4)   \
    TILE(size, mode, 2, 1)   \
    TILE(size, mode, 2, 2)   \
    TILE(size, mode, 2, 3)   \
    TILE(size, mode, 2, 4)
TILE_SET(32, TILE_SIGNED)
TILE_SET(32, TILE_1)
TILE_SET(32, TILE_2)
TILE_SET(32, TILE_4)
TILE_SET(32, TILE_8)
TILE_SET(256, TILE_SIGNED)
TILE_SET(256, TILE_1)
TILE_SET(256, TILE_2)
TILE_SET(256, TILE_4)
TILE_SET(256, TILE_8)

#define TILES(size, mode)                                                                    \
    {                                                                                        \
        .lanes = LANES, .vecs = VECS, .width = WIDTH, .tall_from = TALL_FROM,                \
        .often_to = UINT32_MAX, .pack = rf_mm_pack_avx2, .keep_sign = (mode) == TILE_SIGNED, \
        .scales = RF_MM_SCALES_TWICE,                                                        \
        .one = {tile_##size##_##mode##_1_1, tile_##size##_##mode##_1_2,                      \
                tile_##size##_##mode##_1_3, tile_##size##_##mode##_1_4},                     \
        .two = {tile_##size##_##mode##_2_1, tile_##size##_##mode##_2_2,                      \
                tile_##size##_##mode##_2_3, tile_##size##_##mode##_2_4},                     \
    }
static const rf_mm_tiles tiles_32[] = {TILES(32, TILE_SIGNED), TILES(32, TILE_1), TILES(32, TILE_2),
                                       TILES(32, TILE_4), TILES(32, TILE_8)};
static const rf_mm_tiles tiles_256[] = {TILES(256, TILE_SIGNED), TILES(256, TILE_1),
                                        TILES(256, TILE_2), TILES(256, TILE_4), TILES(256, TILE_8)};

/* The place of a format's tiles among these; 0: those that keep signs. */
static int tiles_of(rf_dtype type, bool is_32) {
    const uint8_t u_max = rf_mm_range_of(type).u_max;
    if (u_max <= 16 && (is_32 || rf_mm_scale_elems(rf_mm_format_of(type)) == 32)) return 4;
    return u_max <= 32 ? 3 : u_max <= 64 ? 2 : u_max <= 128 ? 1 : 0;
}

/* ---- panels ---- */

/* All activation rows times one packed stretch, in parts of about the same size. */
static void run_tiles(const rf_mm_tiles *tiles, uint32_t n_act, rf_mm_tile tile, uint32_t n_vecs) {
    const rf_mm_tile start = tile;
    const uint32_t step = n_vecs == tiles->vecs ? n_vecs : 1;
    for (uint32_t v = 0; v < n_vecs; v += step) {
        const rf_mm_tile_fn *run = step == 1 ? tiles->one : start.times ? tiles->times : tiles->two;
        uint32_t row = v * tiles->lanes, left = start.n_rows - row;
        tile = start;
        tile.panel += v * start.vec_bytes;
        tile.dst += row;
        if (tile.bias) tile.bias += row;
        tile.n_rows = left < step * tiles->lanes ? left : step * tiles->lanes;
        uint32_t n_parts = (n_act + tiles->width - 1) / tiles->width;
        for (uint32_t t = 0, width; t < n_act; t += width, n_parts--) {
            width = (n_act - t + n_parts - 1) / n_parts;
            run[width - 1](&tile);
            tile.q += width * tile.q_stride;
            tile.d += width * tile.group_stride;
            if (tile.total) tile.total += width * tile.group_stride;
            tile.start += width * tile.group_stride;
            tile.sums += width * tile.group_stride * 2 * tile.n_pairs;
            tile.dst += width * tile.dst_stride;
        }
    }
}

/* Packs a stretch and multiplies it with all activation rows; meanwhile `fetch` bytes of the next
 * weights are fetched. */
static void run_stretch(const rf_mm_tiles *tiles, rf_mm_pack *pack, rf_mm_tile *tile,
                        uint32_t n_act, size_t fetch, bool are_short) {
    const uint32_t n_parts = (n_act + tiles->width - 1) / tiles->width;
    const uint32_t n_rounds = pack->n_vecs == tiles->vecs ? 1 : pack->n_vecs;
    const bool is_256 = rf_dtype_get(pack->w->type)->view == RF_INT_256;
    const size_t n_pack = pack->n_vecs * pack->n_groups * (is_256 ? RF_MM_LOOKS_256 : 1);
    tile->n_looks = is_256 && n_act <= tiles->often_to ? RF_MM_LOOKS_256 : 1;
    const size_t n_tiles = n_parts * n_rounds * pack->n_groups * tile->n_looks;
    pack->ahead->step = fetch / 2 / n_pack;
    tiles->pack(pack);
    if (are_short && pack->n_vecs == tiles->vecs) tile->times = tiles->make_times(pack);
    pack->ahead->step = fetch / 2 / n_tiles;
    run_tiles(tiles, n_act, *tile, pack->n_vecs);
}

/* The activations' sums of 32, from those of 16: |sum| <= 4064. */
static void sums_of_32(const rf_mm_input *a, int16_t *dst) {
    size_t n = (size_t)a->n_rows * (a->n_cols / 16);
    for (size_t i = 0; i < n; i += 16, dst += 8) {
        __m256i v = _mm256_hadd_epi32(rf_load_256(a->sum + i), rf_load_256(a->sum + i + 8));
        v = _mm256_permute4x64_epi64(v, 0xd8);
        _mm_storeu_si128((__m128i *)dst, _mm_packs_epi32(_mm256_castsi256_si128(v),
                                                         _mm256_extracti128_si256(v, 1)));
    }
}

/* each: a constant, so that the loops are made of vectors. */
RF_INLINE void starts_of(const int32_t *sum, size_t n, size_t each, uint8_t off, int32_t *dst) {
    for (size_t i = 0; i < n; i++) {
        int32_t all = 0;
        for (size_t k = 0; k < each; k++)
            all += sum[each * i + k];
        dst[i] = -(int32_t)off * all;
    }
}

void rf_mm_starts_avx2(const int32_t *sum, size_t n, size_t each, uint8_t off, int32_t *dst) {
    RF_ASSERT(each == 1 || each == 16);
    if (each == 1)
        starts_of(sum, n, 1, off, dst);
    else
        starts_of(sum, n, 16, off, dst);
}

/* From 2^-100 to 2^100. */
bool rf_mm_are_short(const float *d, size_t n) {
    uint32_t odd = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &d[i], sizeof bits);
        odd |= (bits >> 23) - 27 >= 200;
    }
    return odd == 0;
}

/* What the tiles need to know of the activations' sums.  A scaled format needs either starts or, for its
 * minimums, sums. */
static void make_sums(const rf_mm_tiles *tiles, const rf_mm_input *a, size_t n_pairs, uint8_t off,
                      bool has_min, void *dst) {
    const size_t n_groups = (size_t)a->n_rows * (a->n_cols / (a->view == RF_INT_256 ? 256 : 32));
    if (a->view == RF_INT_32) {
        if (!tiles->keep_sign) rf_mm_starts_avx2(a->sum, n_groups, 1, off, dst);
    } else if (tiles->scales == RF_MM_SCALES_IN && !has_min) {
        rf_mm_starts_avx2(a->sum, n_groups, 16, off, dst);
    } else if (tiles->scales != RF_MM_SCALES_FLIPPED) {
        if (n_pairs == 8) rf_mm_sums16_avx2(a, dst);
        if (n_pairs == 4) sums_of_32(a, dst);
    }
}

void rf_mm_panels_avx2(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch,
                       const rf_mm_tiles *tiles) {
    const rf_mm_input *a = mm->act;
    const rf_dtype_info *info = rf_dtype_get(mm->w->type);
    const bool is_256 = info->view == RF_INT_256;
    const uint32_t lanes = tiles->lanes;
    const uint32_t per_panel = a->n_rows >= tiles->tall_from ? lanes * tiles->vecs : lanes;
    const size_t group = is_256 ? 256 : 32, n_groups = a->n_cols / group;
    const size_t record = is_256 ? RF_MM_RECORD_256(lanes) : RF_MM_RECORD_32(lanes);
    /* Groups: what fits the first-level cache; those that share steps (RF_SHARE_GROUPS) are not torn apart. */
    const size_t stretch = 8192 / lanes / group;
    const rf_mm_scaled scaled = rf_mm_scaled_of(mm->w->type);
    const uint8_t off =
        tiles->scales == RF_MM_SCALES_IN ? scaled.off : rf_mm_range_of(mm->w->type).off;
    const size_t n_pairs = is_256 && rf_mm_scale_elems(rf_mm_format_of(mm->w->type)) == 16 ? 8 : 4;
    void *sums = (uint8_t *)scratch + RF_MM_PANEL_BYTES;
    rf_mm_ahead ahead;
    ahead.step = rf_mm_look_at_rows(mm, begin, end, per_panel, &ahead);
    rf_mm_look_ahead(&ahead);
    make_sums(tiles, a, n_pairs, off, info->has_min, sums);
    const bool are_short = tiles->make_times && rf_mm_are_short(a->d, (size_t)a->n_rows * n_groups);
    for (uint32_t row = begin; row < end; row += per_panel) {
        uint32_t n_rows = end - row < per_panel ? end - row : per_panel;
        size_t fetch = rf_mm_look_at_rows(mm, row + n_rows, end, per_panel, &ahead);
        for (size_t g = 0; g < n_groups; g += stretch) {
            size_t n = n_groups - g < stretch ? n_groups - g : stretch;
            rf_mm_pack pack = {.w = mm->w,
                               .row = row,
                               .n_rows = n_rows,
                               .group = g,
                               .n_groups = n,
                               .lanes = lanes,
                               .n_vecs = (n_rows + lanes - 1) / lanes,
                               .add = tiles->keep_sign ? 0 : off,
                               .scales = tiles->scales,
                               .panel = scratch,
                               .ahead = &ahead};
            rf_mm_tile tile = {.panel = scratch,
                               .vec_bytes = record * n,
                               .n_groups = n,
                               .q = a->q + g * group,
                               .d = a->d + g,
                               .total = info->has_min && !is_256 ? a->total + g : NULL,
                               .start = (const int32_t *)sums + g,
                               .sums = (const int16_t *)sums + 2 * n_pairs * g,
                               .q_stride = a->n_cols,
                               .group_stride = n_groups,
                               .n_pairs = n_pairs,
                               .has_off = off > 0,
                               .has_min = info->has_min,
                               .doubled = scaled.times == 2,
                               .first = g == 0,
                               .dst = mm->dst + row,
                               .dst_stride = mm->dst_stride,
                               .n_rows = n_rows,
                               .bias = mm->bias && g + n == n_groups ? mm->bias + row : NULL,
                               .ahead = &ahead};
            run_stretch(tiles, &pack, &tile, a->n_rows, fetch / n_groups * n, are_short);
        }
    }
}

/* ---- the table's entry ---- */

static void matmul(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    if (begin >= end || mm->act->n_rows == 0) return;
    if (mm->act->view == RF_INT_NONE) {
        rf_mm_float_avx2(mm, begin, end, scratch);
        return;
    }
    const bool is_32 = mm->act->view == RF_INT_32;
    const int at = tiles_of(mm->w->type, is_32);
    if (mm->act->n_rows < (is_32 && at == 0 ? TILE_MIN_SIGNED : RF_MM_TILE_MIN))
        rf_mm_rows_avx2(mm, begin, end, scratch);
    else
        rf_mm_panels_avx2(mm, begin, end, scratch, is_32 ? &tiles_32[at] : &tiles_256[at]);
}

void rf_cpu_mm_avx2(rf_cpu_kernels *k) {
    k->quant_32 = quant_32;
    k->quant_256 = quant_256;
    k->quant_kv = quant_kv;
    k->matmul = matmul;
    k->lay_out = rf_mm_lay_out_avx2;
    k->lay_out_from[RF_INT_NONE] = RF_MM_LAY_OUT_FROM;
}
