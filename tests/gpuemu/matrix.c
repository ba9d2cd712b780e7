/* matrix.c - the matrix instructions: WMMA of gfx11 and gfx12, MFMA of gfx9.
 *
 * Both operands are unpacked to rows of numbers (b by columns), then every result is a dot product of
 * two rows on top of the accumulator.  Integer products are exact.  Floating-point ones are added in
 * order of k, in f32; a card may order and round differently, so nothing may depend on those bits. */
#include <string.h>

#include "base/fmath.h"
#include "gpuemu/inst.h"

enum { F16 = 1, BF16, I8, I4, MAX_DIM = 32, MAX_DEPTH = 64 };

/* Shape of a product, from op->arg: kind | dim << 8 | elements of k in one lane << 16. */
#define SHAPE(kind, dim, per_lane) ((kind) | (dim) << 8 | (per_lane) << 16)
typedef struct shape {
    uint32_t kind, dim, depth, per_lane, n_results; /* n_results: of one lane */
} shape;

typedef struct product {
    int32_t a[MAX_DIM][MAX_DEPTH], b[MAX_DIM][MAX_DEPTH]; /* integers */
    float fa[MAX_DIM][MAX_DEPTH], fb[MAX_DIM][MAX_DEPTH];
    uint32_t d[16][RF_EMU_ROW];
} product;

static uint32_t bits_of(uint32_t kind) { return kind == I4 ? 4 : kind == I8 ? 8 : 16; }

static int32_t integer(uint32_t v, uint32_t bits, bool is_signed) {
    v &= (1u << bits) - 1;
    return is_signed && v >> (bits - 1) ? (int32_t)v - (1 << bits) : (int32_t)v;
}

/* Lane q * dim + r holds elements q * per_lane .. of row r; on gfx11 lane r holds the whole row. */
static void unpack(const rf_emu_wave *w, const rf_emu_operand *o, const shape *s, bool is_signed,
                   int32_t out[MAX_DIM][MAX_DEPTH], float fout[MAX_DIM][MAX_DEPTH]) {
    uint32_t bits = bits_of(s->kind), in_word = 32 / bits;
    const uint32_t *v = rf_emu_row(w, o);
    for (uint32_t k = 0; k < s->depth; k++) {
        uint32_t at = k % s->per_lane, first = k / s->per_lane * s->dim;
        const uint32_t *word = v + at / in_word * RF_EMU_ROW + first;
        for (uint32_t r = 0; r < s->dim; r++) {
            uint32_t x = word[r] >> at % in_word * bits;
            if (s->kind == F16)
                fout[r][k] = rf_f16_to_f32((uint16_t)x);
            else if (s->kind == BF16)
                fout[r][k] = rf_emu_f32(x << 16);
            else
                out[r][k] = integer(x, bits, is_signed);
        }
    }
}

static uint32_t dot(const product *p, const shape *s, uint32_t row, uint32_t col, uint32_t acc) {
    if (s->kind == F16 || s->kind == BF16) {
        float sum = rf_emu_f32(acc);
        for (uint32_t k = 0; k < s->depth; k++)
            sum += p->fa[row][k] * p->fb[col][k];
        return rf_emu_u32(sum);
    }
    for (uint32_t k = 0; k < s->depth; k++)
        acc += (uint32_t)(p->a[row][k] * p->b[col][k]);
    return acc;
}

/* row_of: the row of the result that lane l holds in its register e; its column is l % dim. */
static bool multiply(rf_emu_wave *w, const rf_emu_inst *i, const shape *s, bool sign_a, bool sign_b,
                     uint32_t (*row_of)(const rf_emu_inst *i, const shape *s, uint32_t e,
                                        uint32_t l)) {
    product p;
    unpack(w, &i->o[1], s, sign_a, p.a, p.fa);
    unpack(w, &i->o[2], s, sign_b, p.b, p.fb);
    bool in_rows = i->o[3].place == RF_EMU_VGPR;
    const uint32_t *acc = in_rows ? rf_emu_row(w, &i->o[3]) : NULL;
    uint32_t all = in_rows ? 0 : rf_emu_word(w, &i->o[3]);
    for (uint32_t e = 0; e < s->n_results; e++)
        for (uint32_t l = 0; l < w->n; l++)
            p.d[e][l] =
                dot(&p, s, row_of(i, s, e, l), l % s->dim, in_rows ? acc[e * RF_EMU_ROW + l] : all);
    for (uint32_t e = 0; e < s->n_results; e++)
        memcpy(rf_emu_row(w, &i->o[0]) + e * RF_EMU_ROW, p.d[e], w->n * sizeof p.d[e][0]);
    w->lane_ops += (uint64_t)s->dim * s->dim * s->depth;
    return true;
}

static shape shape_of(const rf_emu_wave *w, const rf_emu_inst *i) {
    shape s = {
        .kind = i->op->arg & 0xff, .dim = i->op->arg >> 8 & 0xff, .per_lane = i->op->arg >> 16};
    s.depth = s.per_lane * (w->n / s.dim);
    s.n_results = s.dim * s.dim / w->n;
    return s;
}

static uint32_t wmma_row(const rf_emu_inst *i, const shape *s, uint32_t e, uint32_t l) {
    return i->gfx >= 12 ? e + s->n_results * (l >> 4) : 2 * e + (l >> 4);
}

/* gfx11 wants every row twice, in lanes r and r + 16. */
static bool is_doubled(const rf_emu_wave *w, const rf_emu_operand *o) {
    for (uint32_t k = 0; k < o->n; k++) {
        const uint32_t *v = rf_emu_row(w, o) + k * RF_EMU_ROW;
        if (memcmp(v, v + 16, 16 * sizeof *v)) return false;
    }
    return true;
}

static bool wmma(rf_emu_wave *w, const rf_emu_inst *i) {
    if (w->n != 32 || rf_emu_mask(w, RF_EMU_EXEC) != 0xffffffffu)
        return rf_emu_fault(w, i, "WMMA with inactive lanes or in wave64");
    shape s = shape_of(w, i);
    if (i->gfx < 12) {
        s.per_lane = s.depth;
        if (!is_doubled(w, &i->o[1]) || !is_doubled(w, &i->o[2]))
            return rf_emu_fault(w, i, "WMMA whose lanes 16..31 do not repeat lanes 0..15");
    }
    return multiply(w, i, &s, i->neg_lo & 1, i->neg_lo & 2, wmma_row);
}

static uint32_t mfma_row(const rf_emu_inst *i, const shape *s, uint32_t e, uint32_t l) {
    (void)i;
    uint32_t group = l / s->dim;
    return s->dim == 16 ? 4 * group + e : 8 * (e / 4) + 4 * group + e % 4;
}

static bool mfma(rf_emu_wave *w, const rf_emu_inst *i) {
    if (w->n != 64 || rf_emu_mask(w, RF_EMU_EXEC) != ~0ull)
        return rf_emu_fault(w, i, "MFMA with inactive lanes");
    shape s = shape_of(w, i);
    return multiply(w, i, &s, true, true, mfma_row);
}

#define W(name_, arg_) \
    { .name = name_, .run = wmma, .arg = arg_ }
#define M(old_, new_, arg_) \
    {.name = old_, .run = mfma, .arg = arg_}, { .name = new_, .run = mfma, .arg = arg_ }

const rf_emu_op rf_emu_ops_matrix[] = {
    W("v_wmma_f32_16x16x16_f16", SHAPE(F16, 16, 8)),
    W("v_wmma_f32_16x16x16_bf16", SHAPE(BF16, 16, 8)),
    W("v_wmma_i32_16x16x16_iu8", SHAPE(I8, 16, 8)),
    W("v_wmma_i32_16x16x16_iu4", SHAPE(I4, 16, 8)),
    M("v_mfma_f32_16x16x16f16", "v_mfma_f32_16x16x16_f16", SHAPE(F16, 16, 4)),
    M("v_mfma_f32_32x32x8f16", "v_mfma_f32_32x32x8_f16", SHAPE(F16, 32, 4)),
    M("v_mfma_f32_16x16x32f16", "v_mfma_f32_16x16x32_f16", SHAPE(F16, 16, 8)),
    M("v_mfma_f32_16x16x8bf16", "v_mfma_f32_16x16x8_bf16", SHAPE(BF16, 16, 2)),
    M("v_mfma_f32_16x16x16bf16_1k", "v_mfma_f32_16x16x16_bf16", SHAPE(BF16, 16, 4)),
    M("v_mfma_f32_32x32x8bf16_1k", "v_mfma_f32_32x32x8_bf16", SHAPE(BF16, 32, 4)),
    M("v_mfma_i32_16x16x16i8", "v_mfma_i32_16x16x16_i8", SHAPE(I8, 16, 4)),
    M("v_mfma_i32_32x32x8i8", "v_mfma_i32_32x32x8_i8", SHAPE(I8, 32, 4)),
    M("v_mfma_i32_16x16x32i8", "v_mfma_i32_16x16x32_i8", SHAPE(I8, 16, 8)),
    M("v_mfma_i32_32x32x16i8", "v_mfma_i32_32x32x16_i8", SHAPE(I8, 32, 8)),
    M("v_mfma_i32_16x16x64i8", "v_mfma_i32_16x16x64_i8", SHAPE(I8, 16, 16)),
    M("v_mfma_i32_32x32x32i8", "v_mfma_i32_32x32x32_i8", SHAPE(I8, 32, 16)),
    {0},
};
