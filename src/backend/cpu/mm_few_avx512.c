/* mm_few_avx512.c - AVX-512 with VNNI: integer products of groups of 32 with a few activation rows, for
 * which a panel would be written to be read too seldom.  The group of 32 weight rows is multiplied with all
 * activation rows while it is in registers; sums wait in the first-level cache. */
#include "backend/cpu/mm_vec_avx512.h"

#include "backend/cpu/mm_minima.h"
#include "backend/cpu/mm_quads.h"

/* Else compilers read scales in between, and fewer of the integers that are not near yet are waited for at once. */
#define KEEP_ORDER() __asm__ volatile("" ::: "memory")

typedef struct few {
    const rf_mm *mm;
    const int32_t *start; /* [n][n_groups] as in rf_mm_tile */
    const uint8_t *next;  /* weights that are wanted behind these */
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

/* Of a group of nv vectors of weight rows. */
RF_INLINE size_t group_bytes(rf_mm_format f, int nv) {
    return (size_t)nv * VEC_ROWS * rf_mm_block_bytes(f) / rf_mm_groups(f);
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

/* And with all n of them; with each a line from `next` on is asked for. */
RF_INLINE void multiply_group(rf_mm_format f, int nv, size_t n, size_t n_cols, x_group x,
                              const block_32 *b, vec w[][8], vec_floats acc[],
                              const uint8_t *next) {
    for (vec_floats *end = acc + n * (size_t)nv; acc < end; acc += nv, next += 64) {
        multiply_row(f, nv, x, b, w, acc);
        __builtin_prefetch(next, 0, 2);
        x.q += n_cols;
        x.d += n_cols / 32;
        x.start += n_cols / 32;
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

/* And with those of all activation rows; the first of these groups is number `first`. */
RF_INLINE void add_minima(int nv, const rf_mm_input *a, size_t first, size_t n, minima *m,
                          vec_floats acc[]) {
    const float *total = a->total + first;
    RF_UNROLL
    for (int v = 0; v < nv; v++)
        round_minima((uint8_t *)&m->v[0][v], sizeof m->v[0], n);
    for (size_t t = 0; t < a->n_rows; t++)
        add_row_minima(nv, n, m, total + t * (a->n_cols / 32), acc + t * (size_t)nv);
}

/* Asks for some bytes well before they are wanted.  How many is a constant: a loop whose end is not foreseen costs more. */
RF_INLINE void ask_early(const uint8_t *p, size_t bytes) {
    RF_UNROLL
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(p + RF_MM_BEFORE + i, 0, 2);
}

/* nv vectors of weight rows from `row` on.  Those that are wanted behind these are asked for early, and once more when they
 * are due, since of a burst too many wait, and some are lost: then with each activation row. */
RF_INLINE void some_rows(rf_mm_format f, uint8_t add, int nv, few *c, uint32_t row) {
    const size_t bytes = rf_mm_block_bytes(f), in_block = rf_mm_groups(f);
    const rf_tensor *weights = c->mm->w;
    const rf_mm_input *a = c->mm->act;
    const size_t n = a->n_rows, n_cols = a->n_cols;
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
        ask_early(next, in_block * group_bytes(f, nv));
        RF_UNROLL
        for (int v = 0; v < nv; v++) {
            gather_integers_32(f, &rows[v], &b[v]);
            KEEP_ORDER();
            gather_head_32(f, &rows[v], &b[v]);
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
                    w[v][i] = quad_32(f, add, &b[v], part, i);
            }
            multiply_group(f, nv, n, n_cols, x, b, w, acc, next);
            next += group_bytes(f, nv);
            x.q += 32;
            x.d++;
            x.start++;
        }
        const size_t ended = rf_mm_has_m(f) ? rf_mm_shares_ended(g, n_cols / 32) : 0;
        if (ended == RF_SHARE_GROUPS)
            add_minima(nv, a, g + 1 - RF_SHARE_GROUPS, RF_SHARE_GROUPS, &m, acc);
        else if (ended)
            add_minima(nv, a, g + 1 - ended, ended, &m, acc);
    }
    store_sums(c, n, row, nv, acc);
}

/* Weight rows that are multiplied at a time.  Where bytes take longer to arrive than to be multiplied one vector, since memory
 * answers sooner the fewer rows are read side by side. */
RF_INLINE uint32_t rows_at_once(rf_mm_format f, uint32_t n_act, uint32_t n_rows) {
    if (n_rows < 2 * VEC_ROWS || (f == RF_MM_Q8_0 && n_act <= 6)) return VEC_ROWS;
    return 2 * VEC_ROWS;
}

/* Where fewer rows are left than vectors have, the last ones are multiplied once more. */
RF_INLINE void all_rows(rf_mm_format f, uint8_t add, few *c, uint32_t begin, uint32_t end) {
    const uint32_t most = rows_at_once(f, c->mm->act->n_rows, end - begin);
    for (uint32_t row = begin, n; row < end; row += n) {
        const uint32_t left = end - row, rows = left > VEC_ROWS ? most : VEC_ROWS;
        n = left < rows ? left : rows;
        c->next = rf_mm_next_row(c->mm, row + n, end);
        if (rows > VEC_ROWS)
            some_rows(f, add, 2, c, row + n - rows);
        else
            some_rows(f, add, 1, c, row + n - rows);
    }
}

/* The format's offset is a constant, too: else each four weights asked for it. */
#define FORMAT(f)                                                          \
    static void rows_##f(few *c, uint32_t begin, uint32_t end) {           \
        all_rows(RF_MM_##f, rf_mm_range_of(RF_DT_##f).off, c, begin, end); \
    }
FORMAT(Q4_0)
FORMAT(Q4_1)
FORMAT(Q5_0)
FORMAT(Q5_1)
FORMAT(Q8_0)
FORMAT(IQ4_NL)
FORMAT(MXFP4)
FORMAT(MXFP6_E2M3)
FORMAT(Q1_0)
FORMAT(Q2_0)

typedef void (*rows_fn)(few *c, uint32_t begin, uint32_t end);
#define ENTRY(f) [RF_MM_##f] = rows_##f
static const rows_fn formats[] = {
    ENTRY(Q4_0),   ENTRY(Q4_1),  ENTRY(Q5_0),       ENTRY(Q5_1), ENTRY(Q8_0),
    ENTRY(IQ4_NL), ENTRY(MXFP4), ENTRY(MXFP6_E2M3), ENTRY(Q1_0), ENTRY(Q2_0),
};

void rf_mm_few_avx512(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    const rf_mm_input *a = mm->act;
    few c = {.mm = mm, .start = scratch};
    rf_mm_starts_avx2(a->sum, a->n_rows * (a->n_cols / 32), 1, rf_mm_range_of(mm->w->type).off,
                      scratch);
    rf_mm_ahead first; /* rows are asked for at once */
    first.step = rf_mm_look_at_rows(mm, begin, end, 2 * VEC_ROWS, &first);
    rf_mm_look_ahead(&first);
    formats[rf_mm_format_of(mm->w->type)](&c, begin, end);
}
