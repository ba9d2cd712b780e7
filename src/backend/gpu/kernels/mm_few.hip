/* mm_few.hip - products of K formats' weights with 3 to 16 activation rows on NVIDIA's matrix units, bound by reading the weights.
 *
 * A block has one tile of 32 weight rows by 8 or 16 activation rows.  Its eight warps share the
 * columns: in a round each takes a group of 256, whose integers it makes from two digits
 * (digits.h) and leaves with their factors in shared memory; then the threads add the groups of their
 * outputs in order.  The next round's weights are on their way meanwhile.
 *
 * In which order columns meet in a sum of integers does not matter, so a thread reads 16 bytes of a
 * row at once: with g = lane / 4 and t = lane % 4, chunks t and 4 + t of rows g, g + 8, g + 16 and
 * g + 24, and the same chunks of activation row g of each eight. */
#include "backend/gpu/kernels/digits.h"
#include "backend/gpu/tile.h"

#if defined(RF_NVIDIA)
enum {
    FEW_WARPS = 8,
    FEW_STRIDE = 33, /* terms between activation rows in shared memory: no bank twice */
};

/* What is constant in a kernel: nt activation rows in eights. */
typedef struct few_kind {
    int hi_bits;
    uint32_t n_scales, with_m, nt;
} few_kind;

/* Of a group: integer and factor, then minima and theirs. */
typedef struct few_term {
    float v[4];
} __attribute__((aligned(16))) few_term;

typedef struct few_place {
    rf_gpu_weight w;
    rf_gpu_quant x;
    uint64_t tile; /* over planes and tiles */
    uint32_t n_groups, g, t;
} few_place;

/* A thread's weights of a group: four rows, two chunks. */
typedef struct few_loads {
    rf_u4 lo[4][2];
    rf_u2 hi[4][2];
    uint32_t scale[4][2]; /* one byte, or two */
} few_loads;

RF_DEVICE void few_load(few_loads *l, const few_place *at, few_kind k, uint32_t group) {
    const uint64_t own = at->tile * at->n_groups + rf_min_u32(group, at->n_groups - 1);
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t r = i / 2, row = 8 * r + at->g, chunk = i % 2 * 4 + at->t;
        const uint64_t n = (own * 8 + chunk) * 32 + row;
        l->lo[r][i % 2] = ((const rf_u4 *)at->w.lo)[n];
        l->hi[r][i % 2] = digit_high_bits(at->w.hi, k.hi_bits, n);
        const uint64_t s = (own * 32 + row) * 8 + chunk;
        l->scale[r][i % 2] = k.n_scales == 16 ? ((const uint16_t *)(const void *)at->w.scale)[s]
                                              : ((const uint8_t *)at->w.scale)[s];
    }
}

/* c += w x, of 16 rows by 32 columns and 8 activation rows. */
RF_DEVICE void few_multiply(int32_t c[4], const uint32_t w[4], uint32_t x0, uint32_t x1,
                            int is_unsigned) {
    if (is_unsigned)
        asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, "
            "{%0,%1,%2,%3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x0), "r"(x1));
    else
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, "
            "{%0,%1,%2,%3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x0), "r"(x1));
}

/* The sums of both digits: squares of 16 rows by 8 activation rows. */
typedef struct few_sums {
    int32_t upper[2][2][4], lower[2][2][4];
} few_sums;

/* A thread's pieces of the activation rows: chunk t of four, of row g of each eight. */
typedef struct few_rows {
    rf_u4 v[2][2];
} few_rows;

/* Step number s of four: 16 rows of square m by the 32 columns of words s and 4 + s of four chunks. */
RF_DEVICE void few_step(few_sums *p, const few_loads *l, few_kind k, uint32_t m, uint32_t half,
                        uint32_t s, const few_rows *x) {
    uint32_t upper[4], lower[4];
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t r = 2 * m + i, scales = l->scale[r][half];
        uint32_t w[2];
        digit_words(l->lo[r][half].v[s], l->hi[r][half], k.hi_bits, s, &w[0], &w[1]);
        RF_UNROLL
        for (uint32_t j = 0; j < 2; j++) {
            const uint32_t scale = k.n_scales == 16 && j ? scales >> 8 : scales & 0xffu;
            upper[i + 2 * j] = digit_of(w[j], scale, k.hi_bits, 1);
            lower[i + 2 * j] = digit_of(w[j], scale, k.hi_bits, 0);
        }
    }
    RF_UNROLL
    for (uint32_t n = 0; n < k.nt; n++) {
        few_multiply(p->upper[m][n], upper, x->v[n][0].v[s], x->v[n][1].v[s],
                     !DIGIT_OF_PRODUCT(k.hi_bits));
        few_multiply(p->lower[m][n], lower, x->v[n][0].v[s], x->v[n][1].v[s], 1);
    }
}

/* Both halves of a group. */
RF_DEVICE void few_group(few_sums *p, const few_loads *l, const few_place *at, few_kind k,
                         const uint32_t *row, uint32_t group) {
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * k.nt * 4; i++)
        p->upper[i / (4 * k.nt)][i / 4 % k.nt][i % 4] =
            p->lower[i / (4 * k.nt)][i / 4 % k.nt][i % 4] = 0;
    RF_UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        few_rows x;
        RF_UNROLL
        for (uint32_t n = 0; n < k.nt; n++) {
            const rf_u4 *q = (const rf_u4 *)(const void *)at->x.q + row[8 * n + at->g] +
                             16 * group + 8 * half + 2 * at->t;
            x.v[n][0] = q[0];
            x.v[n][1] = q[1];
        }
        RF_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            few_step(p, l, k, i % 2, half, i / 2, &x);
    }
}

/* The group's terms: [activation row][32 weight rows]. */
RF_DEVICE void few_put_terms(few_term *out, const few_sums *p, const few_place *at, few_kind k,
                             const uint32_t *row, uint32_t group) {
    const uint64_t own = (at->tile * at->n_groups + group) * 32 + at->g;
    float d[4], m[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    uint32_t mins[4] = {0, 0, 0, 0};
    RF_UNROLL
    for (uint32_t r = 0; r < 4; r++) {
        d[r] = rf_f16_at(((const uint16_t *)at->w.d)[own + 8 * r]);
        if (!k.with_m) continue;
        m[r] = rf_f16_at(((const uint16_t *)at->w.m)[own + 8 * r]);
        mins[r] = digit_two_mins(at->w.min + (own + 8 * r) * 8 + 2 * at->t);
    }
    RF_UNROLL
    for (uint32_t n = 0; n < k.nt; n++) {
        const uint32_t *col = row + 8 * n;
        const float xd[2] = {at->x.d[col[2 * at->t] / 16 + group],
                             at->x.d[col[2 * at->t + 1] / 16 + group]};
        rf_u2 sums = {{0, 0}};
        if (k.with_m)
            sums = digit_two_sums(
                ((const rf_u4 *)(const void *)(at->x.sum + col[at->g]))[4 * group + at->t]);
        RF_UNROLL
        for (uint32_t square = 0; square < 2; square++) {
            float of_mins[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            if (k.with_m) digit_multiply_mins(of_mins, mins + 2 * square, sums);
            RF_UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                const uint32_t r = 2 * square + i / 2;
                const uint32_t upper = (uint32_t)p->upper[square][n][i] << DIGIT_SHIFT(k.hi_bits);
                const int32_t sum = (int32_t)(upper + (uint32_t)p->lower[square][n][i]);
                const few_term term = {{(float)digit_total(sum, k.hi_bits), d[r] * xd[i % 2],
                                        of_mins[i], m[r] * xd[i % 2]}};
                out[(8 * n + 2 * at->t + i % 2) * FEW_STRIDE + 8 * r + at->g] = term;
            }
        }
    }
}

/* Sums of outputs (row tid % 32, activation rows tid / 32, and eight more each) over all groups. */
RF_DEVICE void few_product(float acc[2], const few_place *at, few_kind k, const uint32_t *row,
                           few_term *terms) {
    const uint32_t tid = rf_tid(), warp = tid / 32, per_group = 8 * k.nt * FEW_STRIDE;
    few_loads now;
    RF_UNROLL
    for (uint32_t j = 0; j < k.nt; j++)
        acc[j] = 0.0f;
    few_load(&now, at, k, warp);
    RF_NO_UNROLL
    for (uint32_t first = 0; first < at->n_groups; first += FEW_WARPS) {
        const uint32_t group = rf_min_u32(first + warp, at->n_groups - 1);
        few_sums p;
        few_group(&p, &now, at, k, row, group);
        few_load(&now, at, k, group + FEW_WARPS);
        few_put_terms(terms + warp * per_group, &p, at, k, row, group);
        rf_sync();
        const uint32_t n = rf_min_u32(at->n_groups - first, FEW_WARPS);
        RF_NO_UNROLL
        for (uint32_t i = 0; i < n; i++) {
            RF_UNROLL
            for (uint32_t j = 0; j < k.nt; j++) {
                const few_term t = terms[i * per_group + (warp + 8 * j) * FEW_STRIDE + tid % 32];
                acc[j] = rf_fma(t.v[0], t.v[1], acc[j]);
                if (k.with_m) acc[j] = rf_fma(t.v[2], t.v[3], acc[j]);
            }
        }
        rf_sync();
    }
}

RF_DEVICE void few_run(const rf_gpu_matmul_args *a, few_kind k) {
    const mm_share s = share_of(a, RF_GPU_TILE_ROWS, 8 * k.nt);
    if (s.n == 0) return;
    uint32_t *row = (uint32_t *)(void *)rf_dynamic_shared; /* where each starts, in 16 columns */
    few_term *terms = (few_term *)(void *)(rf_dynamic_shared + RF_FEW_HEAD);
    const uint32_t tid = rf_tid(), n_tiles = rf_div_up(s.p.w.rows, RF_GPU_TILE_ROWS);
    if (tid < 8 * k.nt)
        row[tid] = (uint32_t)((uint64_t)x_row_of(a, dst_row_of(a, &s, tid)) * s.p.w.cols / 16);
    rf_sync();
    few_place at;
    at.w = s.p.w;
    at.x = a->xq;
    at.tile = (uint64_t)s.plane * n_tiles + s.tile;
    at.n_groups = s.p.w.cols / 256;
    at.g = tid % 32 / 4;
    at.t = tid % 4;
    float gate[2] = {0.0f, 0.0f}, v[2];
    RF_NO_UNROLL
    for (uint32_t pass = 0; pass <= a->is_glu; pass++) {
        if (pass) {
            at.w = a->part[1].w;
            RF_UNROLL
            for (uint32_t j = 0; j < k.nt; j++)
                gate[j] = v[j];
        }
        few_product(v, &at, k, row, terms);
    }
    const uint32_t r = s.tile * RF_GPU_TILE_ROWS + tid % 32;
    RF_UNROLL
    for (uint32_t j = 0; j < k.nt; j++) {
        const uint32_t t = tid / 32 + 8 * j;
        if (t < s.n && r < s.p.w.rows) put_output(a, &s, dst_row_of(a, &s, t), r, gate[j], v[j]);
    }
}

#define FEW_KERNEL(hi_bits, n_scales, with_m, rows)                       \
    RF_KERNEL_EARLY(few_256_4##hi_bits##_##rows, rf_gpu_matmul_args, 2) { \
        rf_await_before();                                                \
        const few_kind kind = {hi_bits, n_scales, with_m, rows / 8};      \
        few_run(&a, kind);                                                \
    }
#define FEW_KERNELS(hi_bits, n_scales, with_m) \
    FEW_KERNEL(hi_bits, n_scales, with_m, 8)   \
    FEW_KERNEL(hi_bits, n_scales, with_m, 16)
FEW_KERNELS(0, 8, 1)
FEW_KERNELS(1, 8, 1)
FEW_KERNELS(2, 16, 0)
#endif
