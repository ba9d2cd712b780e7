/* mm_few_avx512.c - AVX-512 with VNNI: integer products of groups of 32 with a few activation rows, for
 * which a panel would be written to be read too seldom.  The group of 32 weight rows is multiplied with all
 * activation rows while it is in registers; sums wait in the first-level cache. */
#include "backend/cpu/mm_vec_avx512.h"

#include "backend/cpu/mm_minima.h"
#include "backend/cpu/mm_quads.h"

typedef struct few {
    const rf_mm *mm;
    uint32_t n; /* activation rows */
    size_t n_groups;
    const int32_t *start; /* [n][n_groups] as in rf_mm_tile */
    const uint8_t *next;  /* weights that are wanted behind these */
    uint8_t add;
} few;

/* The sums of nv vectors of weight rows: acc[n][nv]. */
RF_INLINE void store_sums(const few *c, size_t n, uint32_t row, int nv, const vec_floats acc[]) {
    const rf_mm *mm = c->mm;
    for (size_t t = 0; t < n; t++) {
        RF_UNROLL
        for (int v = 0; v < nv; v++) {
            const uint32_t at = row + (uint32_t)v * VEC_ROWS;
            vec_floats out = acc[t * (size_t)nv + (size_t)v];
            if (mm->bias) out = vec_floats_add(out, vec_load_floats_n(mm->bias + at, VEC_ROWS));
            vec_store_floats_n(mm->dst + t * mm->dst_stride + at, VEC_ROWS, out);
        }
    }
}

/* A group of activation row 0. */
typedef struct x_group {
    const int8_t *q;
    const float *d;
    const int32_t *start;
} x_group;

/* A group of the weight rows with an activation row.  Formats with minima have no offset. */
RF_INLINE void multiply_row(rf_mm_format f, int nv, x_group x, const block_32 *b, vec w[][8],
                            vec_floats acc[]) {
    vec i[2];
    RF_UNROLL
    for (int v = 0; v < nv; v++)
        i[v] = vec_set(rf_mm_has_m(f) ? 0 : (uint32_t)*x.start);
    RF_UNROLL
    for (int k = 0; k < 8; k++) {
        RF_UNROLL
        for (int v = 0; v < nv; v++)
            i[v] = vec_dot_bytes(i[v], w[v][k], vec_set(rf_get_u32(x.q + 4 * k)));
    }
    vec_floats xd = vec_floats_set(*x.d);
    RF_UNROLL
    for (int v = 0; v < nv; v++)
        acc[v] = vec_fma(vec_to_floats(i[v]), vec_floats_mul(b[v].d, xd), acc[v]);
}

/* And with all n of them, nt if that is not 0. */
RF_INLINE void multiply_group(rf_mm_format f, int nv, size_t nt, size_t n, size_t n_cols, x_group x,
                              const block_32 *b, vec w[][8], vec_floats acc[]) {
    const size_t n_groups = n_cols / 32;
    if (nt) {
        RF_UNROLL
        for (size_t t = 0; t < nt; t++) {
            x_group row = {x.q + t * n_cols, x.d + t * n_groups, x.start + t * n_groups};
            multiply_row(f, nv, row, b, w, acc + t * (size_t)nv);
        }
        return;
    }
    for (vec_floats *end = acc + n * (size_t)nv; acc < end; acc += nv) {
        multiply_row(f, nv, x, b, w, acc);
        x.q += n_cols;
        x.d += n_groups;
        x.start += n_groups;
    }
}

/* Minima of the groups that share a step. */
typedef struct minima {
    vec_floats v[RF_SHARE_GROUPS][2];
} minima;

/* Adds those of n groups, which are rounded, times an activation row's totals. */
RF_INLINE void add_row_minima(int nv, size_t n, const minima *m, const float *total,
                              vec_floats acc[]) {
    vec_floats p[2] = {vec_floats_zero(), vec_floats_zero()};
    for (size_t g = 0; g < n; g++) {
        RF_UNROLL
        for (int v = 0; v < nv; v++)
            p[v] = vec_fma(m->v[g][v], vec_floats_set(total[g]), p[v]);
    }
    RF_UNROLL
    for (int v = 0; v < nv; v++)
        acc[v] = vec_floats_add(acc[v], p[v]);
}

/* And with those of all activation rows, nt if that is not 0; the first of these groups is number `first`. */
RF_INLINE void add_minima(int nv, size_t nt, const rf_mm_input *a, size_t first, size_t n,
                          minima *m, vec_floats acc[]) {
    const size_t n_groups = a->n_cols / 32;
    const float *total = a->total + first;
    RF_UNROLL
    for (int v = 0; v < nv; v++)
        round_minima((uint8_t *)&m->v[0][v], sizeof m->v[0], n);
    if (nt) {
        RF_UNROLL
        for (size_t t = 0; t < nt; t++)
            add_row_minima(nv, n, m, total + t * n_groups, acc + t * (size_t)nv);
        return;
    }
    for (size_t t = 0; t < a->n_rows; t++)
        add_row_minima(nv, n, m, total + t * n_groups, acc + t * (size_t)nv);
}

/* Asks for some bytes well before they are wanted, and once more when they are due, since a request is
 * lost where too many wait.  How many is a constant: a loop whose end is not foreseen costs more. */
RF_INLINE void ask_for(const uint8_t *p, size_t bytes) {
    RF_UNROLL
    for (size_t i = 0; i < bytes; i += 64) {
        __builtin_prefetch(p + i, 0, 2);
        __builtin_prefetch(p + i + RF_MM_BEFORE, 0, 2);
    }
}

/* nv vectors of weight rows from `row` on. */
RF_INLINE void some_rows(rf_mm_format f, int nv, size_t nt, few *c, uint32_t row) {
    const size_t bytes = rf_mm_block_bytes(f), in_block = rf_mm_groups(f);
    const rf_tensor *weights = c->mm->w;
    const rf_mm_input *a = c->mm->act;
    const size_t n = nt ? nt : c->n, n_cols = a->n_cols;
    const size_t bytes_of_all = (size_t)nv * VEC_ROWS * bytes;
    const uint8_t *next = c->next;
    x_group x = {a->q, a->d, c->start};
    vec_floats acc[2 * RF_MM_FEW_MAX];
    minima m;
    rf_mm_lanes rows[2];
    for (uint32_t v = 0; v < (uint32_t)nv; v++)
        rows[v] = lanes_at(rf_mm_row(weights, row + v * VEC_ROWS), weights->row_bytes);
    for (size_t i = 0; i < (size_t)nv * n; i++)
        acc[i] = vec_floats_zero();
    for (size_t g = 0; g < n_cols / 32; g += in_block) {
        block_32 b[2];
        ask_for(next, bytes_of_all);
        next += bytes_of_all;
        RF_UNROLL
        for (int v = 0; v < nv; v++) {
            gather_block_32(f, &rows[v], &b[v]);
            if (rf_mm_has_m(f)) m.v[g % RF_SHARE_GROUPS][v] = b[v].m; /* a block is a group */
            RF_UNROLL
            for (int i = 0; i < VEC_ROWS / 4; i++)
                rows[v].p[i] += bytes;
        }
        RF_UNROLL
        for (size_t part = 0; part < in_block; part++) {
            vec w[2][8];
            RF_UNROLL
            for (int v = 0; v < nv; v++) {
                RF_UNROLL
                for (int i = 0; i < 8; i++)
                    w[v][i] = quad_32(f, c->add, &b[v], part, i);
            }
            multiply_group(f, nv, nt, n, n_cols, x, b, w, acc);
            x.q += 32;
            x.d++;
            x.start++;
        }
        const size_t ended = rf_mm_has_m(f) ? rf_mm_shares_ended(g, n_cols / 32) : 0;
        if (ended == RF_SHARE_GROUPS)
            add_minima(nv, nt, a, g + 1 - RF_SHARE_GROUPS, RF_SHARE_GROUPS, &m, acc);
        else if (ended)
            add_minima(nv, nt, a, g + 1 - ended, ended, &m, acc);
    }
    store_sums(c, n, row, nv, acc);
}

/* Where fewer rows are left than vectors have, the last ones are multiplied once more. */
RF_INLINE void all_rows(rf_mm_format f, size_t nt, few *c, uint32_t begin, uint32_t end) {
    for (uint32_t row = begin, n; row < end; row += n) {
        const uint32_t left = end - row;
        const bool two = left > VEC_ROWS && end - begin >= 2 * VEC_ROWS;
        const uint32_t rows = two ? 2 * VEC_ROWS : VEC_ROWS;
        n = left < rows ? left : rows;
        c->next = rf_mm_next_row(c->mm, row + n, end);
        if (two)
            some_rows(f, 2, nt, c, row + n - rows);
        else
            some_rows(f, 1, nt, c, row + n - rows);
    }
}

#define VARIANT(f, nt)                                                  \
    static void rows_##f##_##nt(few *c, uint32_t begin, uint32_t end) { \
        all_rows(RF_MM_##f, nt, c, begin, end);                         \
    }
#define VARIANTS(f) VARIANT(f, 4) VARIANT(f, 0)
VARIANTS(Q4_0)
VARIANTS(Q4_1)
VARIANTS(Q5_0)
VARIANT(Q5_1, 0) /* with four: the sums' registers are wanted for unpacking */
VARIANTS(Q8_0)
VARIANTS(IQ4_NL)
VARIANTS(MXFP4)
VARIANTS(MXFP6_E2M3)
VARIANTS(Q1_0)
VARIANTS(Q2_0)

typedef void (*rows_fn)(few *c, uint32_t begin, uint32_t end);
#define ENTRY(f) [RF_MM_##f] = {rows_##f##_4, rows_##f##_0}
static const rows_fn variants[][2] = {
    ENTRY(Q4_0),       ENTRY(Q4_1),
    ENTRY(Q5_0),       ENTRY(Q8_0),
    ENTRY(IQ4_NL),     ENTRY(MXFP4),
    ENTRY(MXFP6_E2M3), ENTRY(Q1_0),
    ENTRY(Q2_0),       [RF_MM_Q5_1] = {rows_Q5_1_0, rows_Q5_1_0},
};

void rf_mm_few_avx512(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    const rf_mm_input *a = mm->act;
    few c = {.mm = mm, .n = a->n_rows, .n_groups = a->n_cols / 32, .start = scratch};
    c.add = rf_mm_range_of(mm->w->type).off;
    rf_mm_starts_avx2(a->sum, c.n * c.n_groups, 1, c.add, scratch);
    rf_mm_ahead first; /* rows are asked for at once */
    first.step = rf_mm_look_at_rows(mm, begin, end, 2 * VEC_ROWS, &first);
    rf_mm_look_ahead(&first);
    variants[rf_mm_format_of(mm->w->type)][c.n == 4 ? 0 : 1](&c, begin, end);
}
