/* mm_amx.c - AMX: tiles of up to sixteen activation rows by thirty-two weight rows, whose integers the
 * matrix unit adds up over a whole group; panels as for AVX-512 (mm.h).
 *
 * Activations lie in memory as the unit reads them, and a group of a panel's vector is a tile of
 * weights.  Sums leave the unit through memory.  While one group is multiplied, the sums of the one
 * before become floats.
 *
 * Weights of a group of 256 are multiplied by their scales while packing.  A product p is cut into two
 * digits, p = 128 upper + lower, so that one sum of either passes over all columns: |p| < 2^14, hence
 * -2^7 <= upper < 2^7 and 0 <= lower < 2^7; 256 of them times |x| <= 127 stay below 2^23, and
 * 128 times the upper sum plus the lower one is the group's integer, below 2^30.
 *
 * Fewer rows, and floats, are AVX-512's. */
#include "backend/cpu/mm_vec_avx512.h"

enum {
    AMX_ROWS = 16, /* most activation rows of a tile */
    MIN_ROWS = 48, /* activation rows from which tiles pay */
    INTS = AMX_ROWS * VEC_ROWS,
};

/* A record of RF_INT_256:
 *   f32 d[16], m[16]; i16 mins[8][16][2] (two neighbours); s8 upper[64][16][4], lower[64][16][4] */
#define DIGITS_AT_MINS  (RF_MM_AT_M(VEC_ROWS) + 64)
#define DIGITS_AT_UPPER (DIGITS_AT_MINS + (size_t)8 * 64)
#define DIGITS_AT_LOWER (DIGITS_AT_UPPER + (size_t)64 * 64)
#define DIGITS_RECORD   (DIGITS_AT_LOWER + (size_t)64 * 64)

/* ---- the unit's registers ---- */

typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* Sums lie in registers 0 to 3, activations in 4 and 5, weights in 6 and 7. */
static void configure(uint32_t n_act, uint8_t columns) {
    tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.rows[i] = (uint8_t)(i < 6 ? n_act : columns / 4u);
        c.row_bytes[i] = i == 4 || i == 5 ? columns : 64;
    }
    __asm__ volatile("" : : "r"(&c) : "memory"); /* gcc 12 believes that only 8 bytes are read */
    _tile_loadconfig(&c);
}
static void configure_32(uint32_t n_act) { configure(n_act, 32); }
static void configure_256(uint32_t n_act) { configure(n_act, 64); }

/* ---- accumulators ---- */

typedef struct lane_floats {
    float v[2][AMX_ROWS][VEC_ROWS];
} __attribute__((aligned(64))) lane_floats;

RF_INLINE void load_acc(const rf_mm_tile *a, int n_vecs, lane_floats *acc) {
    for (uint32_t v = 0; v < (uint32_t)n_vecs; v++)
        for (uint32_t t = 0; t < a->n_act; t++) {
            const float *dst = a->dst + t * a->dst_stride + (size_t)v * VEC_ROWS;
            _mm512_store_ps(acc->v[v][t], a->first
                                              ? vec_floats_set(0)
                                              : vec_load_floats_n(dst, a->n_rows - v * VEC_ROWS));
        }
}

RF_INLINE void store_acc(const rf_mm_tile *a, int n_vecs, const lane_floats *acc) {
    for (uint32_t v = 0; v < (uint32_t)n_vecs; v++) {
        const uint32_t n = a->n_rows - v * VEC_ROWS;
        for (uint32_t t = 0; t < a->n_act; t++) {
            vec_floats out = _mm512_load_ps(acc->v[v][t]);
            if (a->bias)
                out = vec_floats_add(out, vec_load_floats_n(a->bias + (size_t)v * VEC_ROWS, n));
            vec_store_floats_n(a->dst + t * a->dst_stride + (size_t)v * VEC_ROWS, n, out);
        }
    }
}

/* fma((float)i, wd * xd, acc) */
RF_INLINE vec_floats add_scaled(vec i, vec_floats wd, vec_floats xd, vec_floats acc) {
    return vec_fma(vec_to_floats(i), vec_floats_mul(wd, xd), acc);
}

/* ---- groups of 32 ---- */

/* [group][vector] */
typedef struct lane_ints {
    int32_t v[2][2][INTS];
} __attribute__((aligned(64))) lane_ints;

/* The integers of n groups and n_vecs vectors; sums are stored while the next ones are made. */
RF_INLINE void multiply_32(int n, int n_vecs, const rf_mm_tile *a, const uint8_t *record,
                           const int8_t *x, lane_ints *i) {
    const uint8_t *q = record + RF_MM_AT_Q_32(VEC_ROWS), *next = q + RF_MM_RECORD_32(VEC_ROWS);
    _tile_zero(0);
    _tile_loadd(4, x, a->q_stride);
    _tile_loadd(6, q, 64);
    _tile_dpbssd(0, 4, 6);
    if (n_vecs == 2) {
        _tile_zero(1);
        _tile_loadd(7, q + a->vec_bytes, 64);
        _tile_dpbssd(1, 4, 7);
    }
    if (n == 2) {
        _tile_zero(2);
        _tile_loadd(5, x + 32, a->q_stride);
        _tile_loadd(6, next, 64);
        _tile_dpbssd(2, 5, 6);
    }
    _tile_stored(0, i->v[0][0], 64);
    if (n == 2 && n_vecs == 2) {
        _tile_zero(3);
        _tile_loadd(7, next + a->vec_bytes, 64);
        _tile_dpbssd(3, 5, 7);
    }
    if (n_vecs == 2) _tile_stored(1, i->v[0][1], 64);
    if (n == 2) _tile_stored(2, i->v[1][0], 64);
    if (n == 2 && n_vecs == 2) _tile_stored(3, i->v[1][1], 64);
}

RF_INLINE void add_32(size_t n, size_t n_vecs, bool has_min, const rf_mm_tile *a,
                      const uint8_t *record, size_t g, const lane_ints *i, lane_floats *acc) {
    vec_floats wd[2][2], wm[2][2];
    RF_UNROLL
    for (size_t v = 0; v < n_vecs; v++) {
        RF_UNROLL
        for (size_t j = 0; j < n; j++) {
            const uint8_t *p = record + v * a->vec_bytes + j * RF_MM_RECORD_32(VEC_ROWS);
            wd[j][v] = vec_load_floats(p);
            if (has_min) wm[j][v] = vec_load_floats(p + RF_MM_AT_M(VEC_ROWS));
        }
    }
    for (uint32_t t = 0; t < a->n_act; t++) {
        const size_t at = t * a->group_stride + g;
        vec_floats s[2];
        RF_UNROLL
        for (size_t v = 0; v < n_vecs; v++)
            s[v] = _mm512_load_ps(acc->v[v][t]);
        RF_UNROLL
        for (size_t j = 0; j < n; j++) {
            const vec_floats xd = vec_floats_set(a->d[at + j]);
            RF_UNROLL
            for (size_t v = 0; v < n_vecs; v++)
                s[v] = add_scaled(_mm512_load_si512(i->v[j][v] + t * VEC_ROWS), wd[j][v], xd, s[v]);
            if (!has_min) continue;
            const vec sum = vec_set((uint32_t)a->sum[at + j]);
            RF_UNROLL
            for (size_t v = 0; v < n_vecs; v++)
                s[v] = add_scaled(sum, wm[j][v], xd, s[v]);
        }
        RF_UNROLL
        for (size_t v = 0; v < n_vecs; v++)
            _mm512_store_ps(acc->v[v][t], s[v]);
    }
}

/* Two groups from number g on, or the last one alone. */
RF_INLINE void multiply_pair(int n_vecs, const rf_mm_tile *a, size_t g, lane_ints *i) {
    const uint8_t *record = a->panel + g * RF_MM_RECORD_32(VEC_ROWS);
    if (g + 1 < a->n_groups)
        multiply_32(2, n_vecs, a, record, a->q + 32 * g, i);
    else if (g < a->n_groups)
        multiply_32(1, n_vecs, a, record, a->q + 32 * g, i);
}

RF_INLINE void tile_32(int n_vecs, bool has_min, const rf_mm_tile *a) {
    lane_floats acc;
    lane_ints i[2];
    load_acc(a, n_vecs, &acc);
    multiply_pair(n_vecs, a, 0, &i[0]);
    for (size_t g = 0; g < a->n_groups; g += 2) {
        const uint8_t *record = a->panel + g * RF_MM_RECORD_32(VEC_ROWS);
        const lane_ints *now = &i[g / 2 % 2];
        rf_mm_look_ahead(a->ahead); /* once for each group */
        multiply_pair(n_vecs, a, g + 2, &i[(g / 2 + 1) % 2]);
        if (g + 1 < a->n_groups) {
            rf_mm_look_ahead(a->ahead);
            add_32(2, (size_t)n_vecs, has_min, a, record, g, now, &acc);
        } else {
            add_32(1, (size_t)n_vecs, has_min, a, record, g, now, &acc);
        }
    }
    store_acc(a, n_vecs, &acc);
}

/* ---- groups of 256 ---- */

/* Digits of the products of sixteen weights of each row, u = q + off, with their scale. */
RF_INLINE void write_digits(bool has_off, vec off, vec scale, const uint8_t *q, uint8_t *upper,
                            uint8_t *lower) {
    const vec low = _mm512_set1_epi16(0xff);
    const vec twice = _mm512_add_epi16(scale, scale), minus = _mm512_mullo_epi16(twice, off);
    RF_UNROLL
    for (size_t k = 0; k < 4; k++) {
        const vec u = vec_load(q + 64 * k);
        vec even = _mm512_mullo_epi16(vec_and(u, low), twice);
        vec odd = _mm512_mullo_epi16(_mm512_srli_epi16(u, 8), twice);
        if (has_off) {
            even = _mm512_sub_epi16(even, minus);
            odd = _mm512_sub_epi16(odd, minus);
        }
        const vec down = _mm512_or_si512(vec_and(even, low), _mm512_slli_epi16(odd, 8));
        vec_store(upper + 64 * k,
                  _mm512_or_si512(_mm512_srli_epi16(even, 8), _mm512_andnot_si512(low, odd)));
        vec_store(lower + 64 * k, _mm512_srli_epi16(down, 1)); /* bytes' lowest bits are 0 */
    }
}

/* From a record of AVX-512's panels. */
RF_INLINE void digits_of(bool has_off, uint8_t off, const uint8_t *from, uint8_t *record) {
    const vec offs = _mm512_set1_epi16(off);
    memcpy(record, from, RF_MM_AT_SCALE(VEC_ROWS)); /* d, m */
    memcpy(record + DIGITS_AT_MINS, from + RF_MM_AT_MINS(VEC_ROWS), (size_t)8 * 64);
    for (size_t j = 0; j < 16; j++)
        write_digits(has_off, offs, vec_load(from + RF_MM_AT_SCALE(VEC_ROWS) + j * 64),
                     from + RF_MM_AT_Q_256(VEC_ROWS) + j * 256, record + DIGITS_AT_UPPER + j * 256,
                     record + DIGITS_AT_LOWER + j * 256);
}

static void pack_digits(const rf_mm_pack *p) {
    uint8_t from[RF_MM_RECORD_256(VEC_ROWS)] __attribute__((aligned(64)));
    uint8_t *record = p->panel;
    rf_mm_pack one = *p;
    one.n_vecs = 1;
    one.n_groups = 1;
    one.panel = from;
    for (uint32_t v = 0; v < p->n_vecs; v++) {
        const uint32_t left = p->n_rows - v * VEC_ROWS;
        one.row = p->row + v * VEC_ROWS;
        one.n_rows = left < VEC_ROWS ? left : VEC_ROWS;
        for (size_t g = 0; g < p->n_groups; g++, record += DIGITS_RECORD) {
            one.group = p->group + g;
            rf_mm_pack_avx512(&one);
            if (p->add)
                digits_of(true, p->add, from, record);
            else
                digits_of(false, 0, from, record);
        }
    }
}

/* [vector][upper, lower] */
typedef struct digit_sums {
    int32_t v[2][2][INTS];
} __attribute__((aligned(64))) digit_sums;

RF_INLINE void multiply_256(int n_vecs, const rf_mm_tile *a, const uint8_t *record, const int8_t *x,
                            digit_sums *i) {
    const uint8_t *upper = record + DIGITS_AT_UPPER, *lower = record + DIGITS_AT_LOWER;
    _tile_zero(0);
    _tile_zero(1);
    if (n_vecs == 2) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t k = 0; k < 4; k++, x += 64, upper += 1024, lower += 1024) {
        _tile_loadd(4, x, a->q_stride);
        _tile_loadd(6, upper, 64);
        _tile_dpbssd(0, 4, 6);
        _tile_loadd(7, lower, 64);
        _tile_dpbssd(1, 4, 7);
        if (n_vecs == 2) {
            _tile_loadd(6, upper + a->vec_bytes, 64);
            _tile_dpbssd(2, 4, 6);
            _tile_loadd(7, lower + a->vec_bytes, 64);
            _tile_dpbssd(3, 4, 7);
        }
    }
    _tile_stored(0, i->v[0][0], 64);
    _tile_stored(1, i->v[0][1], 64);
    if (n_vecs == 2) {
        _tile_stored(2, i->v[1][0], 64);
        _tile_stored(3, i->v[1][1], 64);
    }
}

RF_INLINE void add_256(size_t n_vecs, bool has_min, const rf_mm_tile *a, const uint8_t *record,
                       size_t g, const digit_sums *i, lane_floats *acc) {
    const size_t n_mins = has_min ? 8 : 0; /* of pairs */
    vec_floats wd[2], wm[2];
    vec mins[2][8];
    RF_UNROLL
    for (size_t v = 0; v < n_vecs; v++) {
        const uint8_t *p = record + v * a->vec_bytes;
        wd[v] = vec_load_floats(p);
        if (has_min) wm[v] = vec_load_floats(p + RF_MM_AT_M(VEC_ROWS));
        RF_UNROLL
        for (size_t j = 0; j < n_mins; j++)
            mins[v][j] = vec_load(p + DIGITS_AT_MINS + 64 * j);
    }
    for (uint32_t t = 0; t < a->n_act; t++) {
        const size_t at = t * a->group_stride + g;
        const vec_floats xd = vec_floats_set(a->d[at]);
        vec_floats s[2];
        vec m[2] = {vec_set(0), vec_set(0)};
        RF_UNROLL
        for (size_t v = 0; v < n_vecs; v++) {
            const vec upper = _mm512_load_si512(i->v[v][0] + t * VEC_ROWS);
            const vec lower = _mm512_load_si512(i->v[v][1] + t * VEC_ROWS);
            s[v] = add_scaled(vec_add(vec_shl(upper, 7), lower), wd[v], xd,
                              _mm512_load_ps(acc->v[v][t]));
        }
        RF_UNROLL
        for (size_t j = 0; j < n_mins; j++) {
            const vec sums = vec_set(rf_get_u32(a->sums + 16 * at + 2 * j));
            RF_UNROLL
            for (size_t v = 0; v < n_vecs; v++)
                m[v] = vec_dot_pairs(m[v], mins[v][j], sums);
        }
        RF_UNROLL
        for (size_t v = 0; v < n_vecs; v++) {
            if (has_min) s[v] = add_scaled(m[v], wm[v], xd, s[v]);
            _mm512_store_ps(acc->v[v][t], s[v]);
        }
    }
}

RF_INLINE void tile_256(int n_vecs, bool has_min, const rf_mm_tile *a) {
    lane_floats acc;
    digit_sums i[2];
    load_acc(a, n_vecs, &acc);
    multiply_256(n_vecs, a, a->panel, a->q, &i[0]);
    for (size_t g = 0; g < a->n_groups; g++) {
        const uint8_t *record = a->panel + g * DIGITS_RECORD;
        rf_mm_look_ahead(a->ahead);
        if (g + 1 < a->n_groups)
            multiply_256(n_vecs, a, record + DIGITS_RECORD, a->q + 256 * (g + 1), &i[(g + 1) % 2]);
        add_256((size_t)n_vecs, has_min, a, record, g, &i[g % 2], &acc);
    }
    store_acc(a, n_vecs, &acc);
}

/* ---- the table's entry ---- */

/* One function per kind, so that numbers of vectors are constants inside. */
#define TILE(name, tile, has_min)           \
    static void name(const rf_mm_tile *a) { \
        if (a->n_rows > VEC_ROWS)           \
            tile(2, has_min, a);            \
        else                                \
            tile(1, has_min, a);            \
    }
TILE(plain_32, tile_32, false)
TILE(min_32, tile_32, true)
TILE(plain_256, tile_256, false)
TILE(min_256, tile_256, true)

#define TILES_32(name)                                                                       \
    {                                                                                        \
        .lanes = VEC_ROWS, .vecs = 2, .width = AMX_ROWS, .pack = rf_mm_pack_avx512,          \
        .keep_sign = true, .stretch = RF_MM_STRETCH, .configure = configure_32, .any = name, \
    }
#define TILES_256(name)                                                                            \
    {                                                                                              \
        .lanes = VEC_ROWS, .vecs = 2, .width = AMX_ROWS, .pack = pack_digits, .scale_twice = true, \
        .record = DIGITS_RECORD, .configure = configure_256, .any = name,                          \
    }
static const rf_mm_tiles tiles_32[2] = {TILES_32(plain_32), TILES_32(min_32)};
static const rf_mm_tiles tiles_256[2] = {TILES_256(plain_256), TILES_256(min_256)};

static void matmul(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    const bool is_256 = mm->act->view == RF_INT_256;
    const bool has_min = rf_dtype_get(mm->w->type)->has_min;
    if (mm->act->view == RF_INT_NONE || mm->act->n_rows < MIN_ROWS) {
        rf_mm_avx512(mm, begin, end, scratch);
        return;
    }
    if (begin >= end) return;
    rf_mm_panels_avx2(mm, begin, end, scratch, is_256 ? &tiles_256[has_min] : &tiles_32[has_min]);
    _tile_release();
}

void rf_cpu_mm_amx(rf_cpu_kernels *k) { k->matmul = matmul; }
