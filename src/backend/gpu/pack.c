/* pack.c - weights into the layout of pack.h, through rf_dtype_info.unpack, so for any format. */
#include "backend/gpu/pack.h"

#include <string.h>

#include "base/fmath.h"

enum {
    TILE = RF_GPU_TILE_ROWS,
    CHUNK = RF_GPU_CHUNK,
    ALIGN = 256,
};

/* How a format's integers are stored: u = q + off in lo + hi bits.  f32: not every d is an f16.
 * twice: neighbouring sixteens may differ in scale. */
typedef struct traits {
    uint8_t off, lo, hi;
    bool f32, twice;
} traits;

static traits traits_of(rf_dtype t) {
    static const traits table[RF_DT_COUNT] = {
        [RF_DT_Q1_0] = {1, 4, 0, false, false},      [RF_DT_Q2_0] = {1, 4, 0, false, false},
        [RF_DT_Q4_0] = {8, 4, 0, false, false},      [RF_DT_Q4_1] = {0, 4, 0, false, false},
        [RF_DT_Q5_0] = {16, 4, 1, false, false},     [RF_DT_Q5_1] = {0, 4, 1, false, false},
        [RF_DT_Q8_0] = {0, 8, 0, false, false},      [RF_DT_MXFP4] = {12, 4, 1, true, false},
        [RF_DT_MXFP6_E2M3] = {0, 8, 0, true, false}, [RF_DT_IQ4_NL] = {0, 8, 0, false, false},
        [RF_DT_Q2_K] = {0, 2, 0, false, true},       [RF_DT_Q3_K] = {4, 2, 1, false, true},
        [RF_DT_Q4_K] = {0, 4, 0, false, false},      [RF_DT_Q5_K] = {0, 4, 1, false, false},
        [RF_DT_Q6_K] = {32, 4, 2, false, true},      [RF_DT_Q8_K] = {0, 8, 0, true, false},
        [RF_DT_IQ1_S] = {9, 4, 1, true, false},      [RF_DT_IQ1_M] = {9, 4, 1, true, true},
        [RF_DT_IQ2_XXS] = {0, 8, 0, true, false},    [RF_DT_IQ2_XS] = {0, 8, 0, true, true},
        [RF_DT_IQ2_S] = {0, 8, 0, true, true},       [RF_DT_IQ3_XXS] = {0, 8, 0, true, false},
        [RF_DT_IQ3_S] = {15, 4, 1, false, false},    [RF_DT_IQ4_XS] = {0, 8, 0, false, false},
        [RF_DT_TQ1_0] = {1, 2, 0, false, false},     [RF_DT_TQ2_0] = {1, 2, 0, false, false},
    };
    return table[t];
}

static size_t align_up(size_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

uint32_t rf_gpu_layout_tiles(const rf_gpu_layout *l) {
    return l->planes * ((l->rows + TILE - 1) / TILE);
}

static uint32_t group_cols(const rf_gpu_layout *l) { return l->form == RF_GPU_INT_256 ? 256 : 32; }

/* Appends n * size bytes; returns where they start. */
static bool append(rf_gpu_layout *l, size_t n, size_t size, size_t *at) {
    size_t bytes, end;
    if (!rf_mul_ok(n, size, &bytes) || !rf_add_ok(l->bytes, bytes, &end) ||
        !rf_add_ok(end, ALIGN - 1, &bytes))
        return false;
    *at = l->bytes;
    l->bytes = align_up(end);
    return true;
}

static bool place_floats(rf_gpu_layout *l) {
    size_t at, n, elem = l->form == RF_GPU_F32 ? 4 : 2;
    return rf_mul_ok((size_t)l->planes * l->rows, l->cols, &n) && append(l, n, elem, &at);
}

static bool place_integers(rf_gpu_layout *l) {
    size_t at, tiles = rf_gpu_layout_tiles(l), chunks, rows;
    if (!rf_mul_ok(tiles, l->cols / CHUNK, &chunks) ||
        !rf_mul_ok(tiles * TILE, l->cols / group_cols(l), &rows))
        return false;
    size_t d_bytes = l->d_f32 ? sizeof(float) : sizeof(uint16_t);
    bool ok = append(l, chunks, (size_t)TILE * 4 * l->lo_bits, &at);
    if (l->hi_bits) ok = ok && append(l, chunks, (size_t)TILE * 4 * l->hi_bits, &l->hi_at);
    ok = ok && append(l, rows, d_bytes, &l->d_at);
    if (l->has_min) ok = ok && append(l, rows, d_bytes, &l->m_at);
    if (l->form != RF_GPU_INT_256) return ok;
    ok = ok && append(l, rows, l->n_scales, &l->scale_at);
    return ok && (!l->has_min || append(l, rows, l->n_scales, &l->min_at));
}

static rf_gpu_form form_of(const rf_tensor *w) {
    switch (rf_dtype_get(w->type)->view) {
    case RF_INT_32:
        return RF_GPU_INT_32;
    case RF_INT_256:
        return RF_GPU_INT_256;
    case RF_INT_NONE:
        break;
    }
    if (w->type == RF_DT_F16) return RF_GPU_F16;
    return w->type == RF_DT_BF16 ? RF_GPU_BF16 : RF_GPU_F32;
}

rf_status rf_gpu_layout_of(rf_gpu_layout *out, const rf_tensor *w, rf_error *e) {
    const rf_dtype_info *info = rf_dtype_get(w->type);
    if (!info->decode || w->cols % info->block_elems != 0)
        return rf_fail(e, RF_EUNSUPPORTED,
                       "tensor %.*s: type %s with %u columns, expected a type of weights and a "
                       "multiple of %u columns",
                       RF_STR_ARG(w->name), info->name, w->cols, info->block_elems);
    const traits t = traits_of(w->type);
    *out =
        (rf_gpu_layout){.form = form_of(w), .rows = w->rows, .cols = w->cols, .planes = w->planes};
    bool ok;
    if (info->view == RF_INT_NONE) {
        ok = place_floats(out);
    } else {
        out->lo_bits = t.lo;
        out->hi_bits = t.hi;
        out->off = t.off;
        out->d_f32 = t.f32;
        out->has_min = info->has_min;
        out->rounds = info->has_min && info->view == RF_INT_32;
        out->n_scales = t.twice ? 16 : 8;
        ok = place_integers(out);
    }
    if (ok) return RF_OK;
    return rf_fail(e, RF_ENOMEM, "tensor %.*s: more bytes than can be addressed",
                   RF_STR_ARG(w->name));
}

rf_gpu_weight rf_gpu_weight_at(const rf_gpu_layout *l, const void *base) {
    const uintptr_t at =
        (uintptr_t)base; /* a device's address, or 0 where only sizes are asked for */
    rf_gpu_weight w = {.lo = base,
                       .rows = l->rows,
                       .cols = l->cols,
                       .planes = l->planes,
                       .form = (uint32_t)l->form,
                       .lo_bits = l->lo_bits,
                       .hi_bits = l->hi_bits,
                       .n_scales = l->n_scales,
                       .d_f32 = l->d_f32,
                       .off = l->off};
    if (l->hi_at) w.hi = (const uint8_t *)(at + l->hi_at);
    if (l->d_at) w.d = (const void *)(at + l->d_at);
    if (l->m_at) w.m = (const void *)(at + l->m_at);
    if (l->scale_at) w.scale = (const int8_t *)(at + l->scale_at);
    if (l->min_at) w.min = (const int8_t *)(at + l->min_at);
    return w;
}

/* Integers of one chunk -------------------------------------------------------------------------*/

/* Where element k of a chunk has its n bits: byte and shift. */
typedef struct bit_place {
    uint32_t byte, shift;
} bit_place;

static bit_place place_of(uint32_t bits, uint32_t k) {
    uint32_t j = k / 4, b = k % 4;
    if (bits == 4) return (bit_place){4 * (j % 4) + b, j < 4 ? 0 : 4};
    if (bits == 2) return (bit_place){4 * (j / 4) + b, 2 * (j % 4)};
    return (bit_place){b, j};
}

/* One row's pieces of a chunk. */
typedef struct row_pieces {
    uint8_t *lo[2]; /* first and second sixteen bytes; [1] only with lo_bits 8 */
    uint8_t *hi;
} row_pieces;

static row_pieces pieces_of(const rf_gpu_layout *l, uint8_t *block, size_t chunk, uint32_t row) {
    row_pieces p = {{block + chunk * TILE * 4 * l->lo_bits + row * 4 * (size_t)l->lo_bits, NULL},
                    block + l->hi_at + (chunk * TILE + row) * 4 * l->hi_bits};
    if (l->lo_bits == 8) {
        p.lo[0] = block + chunk * TILE * 32 + row * (size_t)16;
        p.lo[1] = p.lo[0] + TILE * 16;
    }
    return p;
}

/* n bits of each element, from bit `from` on, into n words: the place of each as place_of has it.
 * w: bytes are elements. */
static void put_bits(uint8_t *to, const uint32_t w[CHUNK / 4], uint32_t from, uint32_t n) {
    const uint32_t mask = 0x01010101u * ((1u << n) - 1), n_together = 8 / n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t out = 0;
        for (uint32_t m = 0; m < n_together; m++)
            out |= (w[n == 4 ? i + 4 * m : n_together * i + m] >> from & mask) << n * m;
        memcpy(to + sizeof out * i, &out, sizeof out);
    }
}

static void put_chunk(const rf_gpu_layout *l, row_pieces to, const int8_t *q) {
    if (l->lo_bits == 8) {
        memcpy(to.lo[0], q, 16);
        memcpy(to.lo[1], q + 16, 16);
        return;
    }
    uint8_t u[CHUNK];
    uint32_t w[CHUNK / 4];
    for (uint32_t k = 0; k < CHUNK; k++)
        u[k] = (uint8_t)(q[k] + l->off);
    memcpy(w, u, sizeof w);
    if (l->lo_bits == 4)
        put_bits(to.lo[0], w, 0, 4);
    else
        put_bits(to.lo[0], w, 0, 2);
    if (l->hi_bits == 1) put_bits(to.hi, w, l->lo_bits, 1);
    if (l->hi_bits == 2) put_bits(to.hi, w, l->lo_bits, 2);
}

static void get_chunk(const rf_gpu_layout *l, row_pieces from, int8_t *q) {
    for (uint32_t k = 0; k < CHUNK; k++) {
        if (l->lo_bits == 8) {
            q[k] = (int8_t)from.lo[k / 16][k % 16];
            continue;
        }
        bit_place lo = place_of(l->lo_bits, k), hi = place_of(l->hi_bits, k);
        uint32_t u = (uint32_t)from.lo[0][lo.byte] >> lo.shift & ((1u << l->lo_bits) - 1);
        if (l->hi_bits)
            u |= ((uint32_t)from.hi[hi.byte] >> hi.shift & ((1u << l->hi_bits) - 1)) << l->lo_bits;
        q[k] = (int8_t)((int32_t)u - l->off);
    }
}

/* Floats and scales of one group ----------------------------------------------------------------*/

static void put_float(const rf_gpu_layout *l, uint8_t *part, size_t i, float f) {
    uint16_t h = rf_f32_to_f16(f);
    if (l->d_f32)
        memcpy(part + i * sizeof f, &f, sizeof f);
    else
        memcpy(part + i * sizeof h, &h, sizeof h);
}

static float get_float(const rf_gpu_layout *l, const uint8_t *part, size_t i) {
    float f;
    uint16_t h;
    if (!l->d_f32) {
        memcpy(&h, part + i * sizeof h, sizeof h);
        return rf_f16_to_f32(h);
    }
    memcpy(&f, part + i * sizeof f, sizeof f);
    return f;
}

/* Where things of group g of a row start: counted in rows of groups. */
static size_t group_at(const rf_gpu_layout *l, uint32_t tile, uint32_t row, size_t g) {
    return ((size_t)tile * (l->cols / group_cols(l)) + g) * TILE + row;
}

static void put_group(const rf_gpu_layout *l, uint8_t *block, uint32_t tile, uint32_t row, size_t g,
                      const rf_int_group *w) {
    uint32_t n_chunks = group_cols(l) / CHUNK;
    size_t at = group_at(l, tile, row, g);
    size_t chunk = ((size_t)tile * (l->cols / group_cols(l)) + g) * n_chunks;
    for (uint32_t c = 0; c < n_chunks; c++)
        put_chunk(l, pieces_of(l, block, chunk + c, row), w->q + (size_t)c * CHUNK);
    put_float(l, block + l->d_at, at, w->d);
    if (l->has_min) put_float(l, block + l->m_at, at, w->m);
    if (l->form != RF_GPU_INT_256) return;
    for (uint32_t i = 0; i < l->n_scales; i++) {
        uint32_t j = i * (16 / l->n_scales);
        block[l->scale_at + at * l->n_scales + i] = (uint8_t)w->scale[j];
        if (l->has_min) block[l->min_at + at * l->n_scales + i] = (uint8_t)w->min[j];
    }
}

void rf_gpu_unpack(const rf_gpu_layout *l, const void *block, uint32_t plane, uint32_t row,
                   uint32_t g, rf_int_group *out) {
    uint8_t *p = (uint8_t *)(uintptr_t)block; /* only read */
    uint32_t tile = plane * ((l->rows + TILE - 1) / TILE) + row / TILE,
             n_chunks = group_cols(l) / CHUNK;
    size_t at = group_at(l, tile, row % TILE, g);
    size_t chunk = ((size_t)tile * (l->cols / group_cols(l)) + g) * n_chunks;
    memset(out, 0, sizeof *out);
    for (uint32_t c = 0; c < n_chunks; c++)
        get_chunk(l, pieces_of(l, p, chunk + c, row % TILE), out->q + (size_t)c * CHUNK);
    out->d = get_float(l, p + l->d_at, at);
    if (l->has_min) out->m = get_float(l, p + l->m_at, at);
    if (l->form != RF_GPU_INT_256) return;
    for (uint32_t j = 0; j < 16; j++) {
        size_t i = at * l->n_scales + j / (16 / l->n_scales);
        out->scale[j] = (int8_t)p[l->scale_at + i];
        if (l->has_min) out->min[j] = (int8_t)p[l->min_at + i];
    }
}

/* Whole tiles -----------------------------------------------------------------------------------*/

static void pack_floats(const rf_gpu_layout *l, const rf_tensor *w, size_t row, uint8_t *dst,
                        float *scratch) {
    const uint8_t *src = (const uint8_t *)w->data + row * w->row_bytes;
    size_t bytes = (size_t)l->cols * (l->form == RF_GPU_F32 ? 4 : 2);
    if (l->form != RF_GPU_F32) {
        memcpy(dst + row * bytes, src, bytes);
        return;
    }
    rf_dtype_get(w->type)->decode(src, scratch, l->cols);
    memcpy(dst + row * bytes, scratch, bytes);
}

/* Minima of n groups that share a step. */
static void round_minima(rf_int_group *w, size_t n) {
    uint32_t most = 0, by;
    for (size_t i = 0; i < n; i++) {
        uint32_t size;
        memcpy(&size, &w[i].m, sizeof size);
        size &= 0x7fffffffu;
        most = size > most ? size : most;
    }
    by = RF_ROUND_MINIMA(most);
    for (size_t i = 0; i < n; i++) {
        float c;
        memcpy(&c, &by, sizeof c);
        w[i].m = (w[i].m + c) - c;
    }
}

/* Row number row of a tile, from src. */
static void pack_integers(const rf_gpu_layout *l, const rf_dtype_info *info, const uint8_t *src,
                          uint8_t *dst, uint32_t tile, uint32_t row) {
    rf_int_group group[RF_SHARE_GROUPS];
    size_t n_groups = l->cols / group_cols(l), each = l->rounds ? RF_SHARE_GROUPS : 1;
    for (size_t g = 0; g < n_groups; g += each) {
        size_t n = n_groups - g < each ? n_groups - g : each;
        for (size_t i = 0; i < n; i++)
            info->unpack(src, g + i, &group[i]);
        if (l->rounds) round_minima(group, n);
        for (size_t i = 0; i < n; i++)
            put_group(l, dst, tile, row, g + i, &group[i]);
    }
}

void rf_gpu_pack(const rf_gpu_layout *l, const rf_tensor *w, uint32_t begin, uint32_t end,
                 void *dst, float *scratch) {
    const rf_dtype_info *info = rf_dtype_get(w->type);
    uint32_t per_plane = (l->rows + TILE - 1) / TILE;
    for (uint32_t tile = begin; tile < end; tile++) {
        uint32_t plane = tile / per_plane, first = tile % per_plane * TILE;
        uint32_t n = l->rows - first < TILE ? l->rows - first : TILE;
        for (uint32_t r = 0; r < n; r++) {
            size_t row = (size_t)plane * l->rows + first + r;
            if (info->view == RF_INT_NONE) {
                pack_floats(l, w, row, dst, scratch);
                continue;
            }
            const uint8_t *src = (const uint8_t *)w->data + row * w->row_bytes;
            pack_integers(l, info, src, dst, tile, r);
        }
    }
}
