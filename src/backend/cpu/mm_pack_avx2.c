/* mm_pack_avx2.c - unpacks a stretch of some weight rows into a panel, rows in lanes (mm.h).
 *
 * Most formats are gathered with rows in lanes and then unpacked (mm_quads.h).  Code books, TQ1_0 and
 * Q8_K go row by row: each lane's group is unpacked in order of k, then 8 rows by 8 dwords are
 * transposed at a time. */
#include "backend/cpu/mm_vec_avx2.h"

#include "backend/cpu/mm_quads.h"

enum { MAX_LANES = 16 };

/* One group of the rows of a vector, in order of k. */
typedef struct lane_group {
    uint8_t q[MAX_LANES][256];
    int16_t scale[MAX_LANES][16];
    float d[MAX_LANES];
} lane_group;

void rf_mm_sums16_avx2(const rf_mm_input *a, int16_t *dst) {
    size_t n = (size_t)a->n_rows * (a->n_cols / 16);
    for (size_t i = 0; i < n; i += 16) {
        __m256i v = _mm256_packs_epi32(rf_load_256(a->sum + i), rf_load_256(a->sum + i + 8));
        _mm256_storeu_si256((__m256i *)(dst + i), _mm256_permute4x64_epi64(v, 0xd8));
    }
}

/* dst + k * stride = dword k of the eight rows at src, src + src_stride, ... */
RF_INLINE void transpose_8x8(const void *src, size_t src_stride, uint8_t add, uint8_t *dst,
                             size_t stride) {
    const __m256i bias = _mm256_set1_epi8((char)add);
    __m256i r[8], u[8], v[8];
    RF_UNROLL
    for (size_t i = 0; i < 8; i++)
        r[i] = _mm256_add_epi8(rf_load_256((const uint8_t *)src + i * src_stride), bias);
    RF_UNROLL
    for (size_t i = 0; i < 8; i += 2) {
        u[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        u[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    RF_UNROLL
    for (size_t i = 0; i < 8; i += 4) {
        v[i] = _mm256_unpacklo_epi64(u[i], u[i + 2]);
        v[i + 1] = _mm256_unpackhi_epi64(u[i], u[i + 2]);
        v[i + 2] = _mm256_unpacklo_epi64(u[i + 1], u[i + 3]);
        v[i + 3] = _mm256_unpackhi_epi64(u[i + 1], u[i + 3]);
    }
    RF_UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m256i low = _mm256_permute2x128_si256(v[i], v[i + 4], 0x20);
        __m256i high = _mm256_permute2x128_si256(v[i], v[i + 4], 0x31);
        _mm256_store_si256((__m256i *)(dst + i * stride), low);
        _mm256_store_si256((__m256i *)(dst + (i + 4) * stride), high);
    }
}

RF_INLINE void read_rows(rf_mm_format f, const rf_mm_pack *p, const uint8_t *const *rows, size_t g,
                         lane_group *out) {
    for (uint32_t l = 0; l < p->lanes; l++) {
        const uint8_t *src = rows[l] + g * rf_mm_block_bytes(f);
        __m256i w[8];
        out->d[l] = rf_grid_d(f, src);
        rf_load_group(f, src, w);
        rf_scales_256 s = rf_load_scales(f, src);
        for (int j = 0; j < 8; j++)
            _mm256_storeu_si256((__m256i *)(out->q[l] + 32 * j), w[j]);
        _mm256_storeu_si256((__m256i *)out->scale[l], s.scale);
    }
}

/* From pairs of scales of sixteen to single ones, each twice or followed by 0, and to -off times
 * neighbours, in place: of_32: both of a pair are alike. */
static void split_scales(const rf_mm_pack *p, bool of_32, uint8_t *pairs, uint8_t *single) {
    const __m256i low16 = _mm256_set1_epi32(0xffff), off = _mm256_set1_epi16((short)-p->add);
    const size_t row = 4 * (size_t)p->lanes;
    for (size_t k = 0; k < 8; k++)
        for (size_t at = 0; at < row; at += 32) {
            __m256i v = rf_load_256(pairs + k * row + at);
            __m256i even = _mm256_and_si256(v, low16), odd = _mm256_srli_epi32(v, 16);
            if (p->scale_twice) {
                even = _mm256_or_si256(even, _mm256_slli_epi32(v, 16));
                odd = _mm256_or_si256(odd, _mm256_andnot_si256(low16, v));
            }
            _mm256_store_si256((__m256i *)(single + 2 * k * row + at), even);
            _mm256_store_si256((__m256i *)(single + (2 * k + 1) * row + at), odd);
        }
    for (size_t k = 0; k < 8; k += of_32 ? 2 : 1)
        for (size_t at = 0; at < row; at += 32) {
            __m256i v = rf_load_256(pairs + k * row + at);
            if (of_32) v = _mm256_blend_epi16(v, rf_load_256(pairs + (k + 1) * row + at), 0xaa);
            _mm256_store_si256((__m256i *)(pairs + (of_32 ? k / 2 : k) * row + at),
                               _mm256_mullo_epi16(v, off));
        }
}

/* Writes the record of one vector and group, which has no minimums. */
static void write_rows(const rf_mm_pack *p, uint8_t add, bool of_32, const lane_group *in,
                       uint8_t *record) {
    size_t lanes = p->lanes, row = 4 * lanes;
    memcpy(record, in->d, row);
    for (size_t l = 0; l < lanes; l += 8) {
        uint8_t *scales = record + RF_MM_AT_SCALES(lanes) + 4 * l;
        uint8_t *q = record + RF_MM_AT_Q_256(lanes) + 4 * l;
        transpose_8x8(in->scale[l], sizeof in->scale[l], 0, scales, row);
        for (size_t j = 0; j < 8; j++)
            transpose_8x8(in->q[l] + 32 * j, sizeof in->q[l], add, q + 8 * j * row, row);
    }
    split_scales(p, of_32, record + RF_MM_AT_SCALES(lanes), record + RF_MM_AT_SCALE(lanes));
}

RF_INLINE void pack_rows(rf_mm_format f, const rf_mm_pack *p) {
    uint8_t add = rf_mm_is_signed(f) ? p->add : 0; /* the other loaders have added it */
    uint8_t *record = p->panel;
    for (uint32_t v = 0; v < p->n_vecs; v++) {
        const uint8_t *rows[MAX_LANES];
        for (uint32_t l = 0; l < p->lanes; l++) {
            uint32_t row = v * p->lanes + l;
            rows[l] = rf_mm_row(p->w, p->row + (row < p->n_rows ? row : p->n_rows - 1));
        }
        for (size_t g = p->group; g < p->group + p->n_groups; g++) {
            lane_group in;
            rf_mm_look_ahead(p->ahead);
            read_rows(f, p, rows, g, &in);
            write_rows(p, add, rf_mm_scale_elems(f) == 32, &in, record);
            record += RF_MM_RECORD_256(p->lanes);
        }
    }
}

void rf_mm_pack_rows(const rf_mm_pack *p) {
    rf_mm_format f = rf_mm_format_of(p->w->type);
    if (f == RF_MM_IQ2_XXS)
        pack_rows(RF_MM_IQ2_XXS, p);
    else if (f == RF_MM_IQ2_XS)
        pack_rows(RF_MM_IQ2_XS, p);
    else if (f == RF_MM_IQ2_S)
        pack_rows(RF_MM_IQ2_S, p);
    else if (f == RF_MM_IQ3_XXS)
        pack_rows(RF_MM_IQ3_XXS, p);
    else if (f == RF_MM_IQ3_S)
        pack_rows(RF_MM_IQ3_S, p);
    else if (f == RF_MM_IQ1_S)
        pack_rows(RF_MM_IQ1_S, p);
    else if (f == RF_MM_IQ1_M)
        pack_rows(RF_MM_IQ1_M, p);
    else if (f == RF_MM_TQ1_0)
        pack_rows(RF_MM_TQ1_0, p);
    else
        pack_rows(RF_MM_Q8_K, p);
}

void rf_mm_pack_avx2(const rf_mm_pack *p) { pack_panel(p); }
