/* mm_tile.hip - products of integer weights with many activation rows, bound by arithmetic.
 *
 * A block has 128 weight rows and 64 activation rows; a warp (32 threads) has 32 x 32 of them as
 * 2 x 4 squares of 16 x 8.  Columns pass in stages of 256: activations wait in shared memory, the
 * next stage on its way while one is worked on; weights go straight to registers.  Each thread adds
 * the groups of its own outputs in order.
 *
 * Of a square, thread number l holds rows l / 4 and l / 4 + 8 and columns 2 (l % 4) and the next:
 * the layout of the matrix units' results on NVIDIA; elsewhere the same outputs are made of dot
 * products of four. */
#include "backend/gpu/kernels/mm.h"

enum {
    TILE_COLS = RF_GPU_BLOCK_COLS,
    TILE_STAGE = 256,              /* columns of a stage */
    TILE_STRIDE = TILE_STAGE + 16, /* bytes between rows in shared memory: no bank twice */
    TILE_M = 2,                    /* squares of a warp: weight rows */
    TILE_N = 4,                    /* and activation rows */
    TILE_CHUNKS = TILE_STAGE / RF_GPU_CHUNK,
};

typedef struct tile_stage {
    int8_t q[TILE_COLS * TILE_STRIDE];
    int32_t sum[TILE_COLS * 16]; /* [TILE_COLS][16], or [TILE_COLS][8] for groups of 32 */
    float d[TILE_COLS * 8];      /* [TILE_COLS][8], or [TILE_COLS] for groups of 256 */
} __attribute__((aligned(16))) tile_stage;

typedef struct tile_shared {
    tile_stage stage[2];
    int8_t high[TILE_COLS *
                16]; /* [TILE_COLS][16]: sum = 64 high + low, for minima of groups of 256 */
    int8_t low[TILE_COLS * 16];
} tile_shared;

/* A thread's place. */
typedef struct tile_place {
    rf_gpu_weight w;
    uint64_t tile;     /* of the warp's 32 rows, over planes and tiles */
    uint32_t lane;     /* of 32 */
    uint32_t col;      /* first activation row of the warp within the block */
    uint32_t n_groups; /* of a weight row */
} tile_place;

/* Weights of a square ---------------------------------------------------------------------------*/

/* Every byte less off, no borrow between bytes: u + 128 - off never carries. */
RF_DEVICE uint32_t less_off(uint32_t u, int32_t off) {
    return (u + (uint32_t)(128 - off) * 0x01010101u) ^ 0x80808080u;
}

#if defined(RF_NVIDIA)
/* Words of columns 4t .. 4t + 3 of rows g and g + 8, then those of 16 + 4t. */
typedef struct square {
    uint32_t v[4];
} square;

RF_DEVICE void load_half_square(const tile_place *at, int lo_bits, int hi_bits, uint64_t chunk,
                                uint32_t row, uint32_t *first, uint32_t *second) {
    const uint32_t t = at->lane % 4;
    const uint64_t i = chunk * 32 + row;
    if (lo_bits == 8) {
        const uint32_t *p = (const uint32_t *)at->w.lo + (chunk * 64 + row) * 4 + t;
        *first = p[0];
        *second = p[128];
        return;
    }
    if (lo_bits == 4) {
        const uint32_t v = ((const uint32_t *)at->w.lo)[i * 4 + t];
        *first = v & 0x0f0f0f0fu;
        *second = v >> 4 & 0x0f0f0f0fu;
    } else {
        const rf_u2 v = ((const rf_u2 *)at->w.lo)[i];
        *first = v.v[0] >> 2 * t & 0x03030303u;
        *second = v.v[1] >> 2 * t & 0x03030303u;
    }
    if (hi_bits == 2) {
        const rf_u2 h = ((const rf_u2 *)at->w.hi)[i];
        *first |= (h.v[0] >> 2 * t & 0x03030303u) << lo_bits;
        *second |= (h.v[1] >> 2 * t & 0x03030303u) << lo_bits;
    } else if (hi_bits == 1) {
        const uint32_t h = ((const uint32_t *)at->w.hi)[i];
        *first |= (h >> t & 0x01010101u) << lo_bits;
        *second |= (h >> (4 + t) & 0x01010101u) << lo_bits;
    }
    *first = less_off(*first, at->w.off);
    *second = less_off(*second, at->w.off);
}

RF_DEVICE square load_square(const tile_place *at, int lo_bits, int hi_bits, uint64_t chunk,
                             uint32_t m) {
    square s;
    const uint32_t row = 16 * m + at->lane / 4;
    load_half_square(at, lo_bits, hi_bits, chunk, row, &s.v[0], &s.v[2]);
    load_half_square(at, lo_bits, hi_bits, chunk, row + 8, &s.v[1], &s.v[3]);
    return s;
}

/* Sixteen columns, of which w has half number h; q: the first activation row at these columns. */
RF_DEVICE void multiply_16(int32_t c[4], const square *w, const int8_t *q, uint32_t stride,
                           uint32_t lane, int h) {
    const uint32_t b = *(const uint32_t *)(const void *)(q + lane / 4 * stride + lane % 4 * 4);
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(w->v[2 * h]), "r"(w->v[2 * h + 1]), "r"(b));
}

RF_DEVICE void multiply_32(int32_t c[4], const square *w, const int8_t *q, uint32_t lane) {
    const uint32_t *b = (const uint32_t *)(const void *)(q + lane / 4 * TILE_STRIDE) + lane % 4;
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(w->v[0]), "r"(w->v[1]), "r"(w->v[2]), "r"(w->v[3]), "r"(b[0]), "r"(b[4]));
}

/* Sixteen bytes of rows g and g + 8 as the first half of a square. */
RF_DEVICE square square_of(rf_u4 first, rf_u4 second, uint32_t lane) {
    const uint32_t t = lane % 4;
    square s;
    s.v[0] = t == 0 ? first.v[0] : t == 1 ? first.v[1] : t == 2 ? first.v[2] : first.v[3];
    s.v[1] = t == 0 ? second.v[0] : t == 1 ? second.v[1] : t == 2 ? second.v[2] : second.v[3];
    s.v[2] = s.v[3] = 0;
    return s;
}

#else
/* Two whole rows of a chunk. */
typedef struct square {
    uint32_t v[2][8];
} square;

RF_DEVICE square load_square(const tile_place *at, int lo_bits, int hi_bits, uint64_t chunk,
                             uint32_t m) {
    square s;
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const mm_raw raw =
            load_chunk(&at->w, lo_bits, hi_bits, chunk, 16 * m + 8 * i + at->lane / 4);
        RF_UNROLL
        for (int j = 0; j < 8; j++) {
            s.v[i][j] = word_of(&raw, lo_bits, hi_bits, j);
            if (lo_bits != 8) s.v[i][j] = less_off(s.v[i][j], at->w.off);
        }
    }
    return s;
}

RF_DEVICE void multiply_16(int32_t c[4], const square *w, const int8_t *q, uint32_t stride,
                           uint32_t lane, int h) {
    RF_UNROLL
    for (uint32_t n = 0; n < 2; n++) {
        const rf_u4 b = *(const rf_u4 *)(const void *)(q + (lane % 4 * 2 + n) * stride);
        RF_UNROLL
        for (int k = 0; k < 4; k++) {
            c[n] = rf_dot4(w->v[0][4 * h + k], b.v[k], c[n]);
            c[2 + n] = rf_dot4(w->v[1][4 * h + k], b.v[k], c[2 + n]);
        }
    }
}

RF_DEVICE void multiply_32(int32_t c[4], const square *w, const int8_t *q, uint32_t lane) {
    multiply_16(c, w, q, TILE_STRIDE, lane, 0);
    multiply_16(c, w, q + 16, TILE_STRIDE, lane, 1);
}

/* Sixteen bytes of rows g and g + 8 as the first half of a square. */
RF_DEVICE square square_of(rf_u4 first, rf_u4 second, uint32_t lane) {
    square s;
    (void)lane;
    RF_UNROLL
    for (int j = 0; j < 4; j++) {
        s.v[0][j] = first.v[j];
        s.v[1][j] = second.v[j];
    }
    return s;
}
#endif

/* Stages ----------------------------------------------------------------------------------------*/

/* Starts the way of activations [row][first ..] into a stage; the rows are those of the share. */
RF_DEVICE void stage_load(tile_stage *to, const rf_gpu_matmul_args *a, const mm_share *s, int view,
                          uint32_t cols, uint32_t first) {
    const uint32_t tid = rf_tid(), col = tid / 4; /* four threads an activation row */
    const uint64_t row = x_row_of(a, dst_row_of(a, s, col));
    const uint32_t n = rf_min_u32(cols - first, TILE_STAGE);
    const int8_t *q = a->xq.q + row * cols + first;
    for (uint32_t k = 16 * (tid % 4); k < n; k += 64)
        rf_copy_16(to->q + col * TILE_STRIDE + k, q + k);
    if (view == 32) {
        const uint64_t at = (row * cols + first) / 32;
        for (uint32_t g = tid % 4; g < n / 32; g += 4) {
            rf_copy_4(to->d + col * 8 + g, a->xq.d + at + g);
            rf_copy_4(to->sum + col * 8 + g, a->xq.sum + at + g);
        }
    } else {
        const uint64_t at = (row * cols + first) / 256;
        rf_copy_16(to->sum + col * 16 + tid % 4 * 4, a->xq.sum + at * 16 + tid % 4 * 4);
        if (tid % 4 == 0) rf_copy_4(to->d + col, a->xq.d + at);
    }
}

/* Groups onto sums ------------------------------------------------------------------------------*/

typedef struct tile_sums {
    float v[TILE_M][TILE_N][4];
} tile_sums;

/* Row of output number i of square m. */
RF_DEVICE uint32_t row_of(const tile_place *at, uint32_t m, int i) {
    return 16 * m + at->lane / 4 + (i >= 2 ? 8 : 0);
}
/* Activation row, within the block, of output number i of square n. */
RF_DEVICE uint32_t col_of(const tile_place *at, uint32_t n, int i) {
    return at->col + 8 * n + at->lane % 4 * 2 + (uint32_t)(i % 2);
}

/* The squares of a chunk of the warp's rows; beyond the last chunk those of the last again. */
typedef struct tile_squares {
    square m[TILE_M];
} tile_squares;
RF_DEVICE tile_squares load_squares(const tile_place *at, int lo_bits, int hi_bits,
                                    uint32_t chunk) {
    const uint32_t n_chunks = at->w.cols / RF_GPU_CHUNK;
    tile_squares s;
    RF_UNROLL
    for (uint32_t m = 0; m < TILE_M; m++)
        s.m[m] = load_square(at, lo_bits, hi_bits,
                             at->tile * n_chunks + rf_min_u32(chunk, n_chunks - 1), m);
    return s;
}

/* d and m of a group's rows: [square][row l / 4 and the eighth behind]. */
typedef struct tile_scales {
    float d[TILE_M][2], min[TILE_M][2];
} tile_scales;
RF_DEVICE tile_scales load_group(const tile_place *at, uint32_t g) {
    tile_scales s;
    const uint64_t group = at->tile * at->n_groups + rf_min_u32(g, at->n_groups - 1);
    RF_UNROLL
    for (uint32_t m = 0; m < TILE_M; m++) {
        RF_UNROLL
        for (int i = 0; i < 2; i++) {
            const uint64_t from = group * 32 + row_of(at, m, 2 * i);
            s.d[m][i] = scale_at(at->w.d, from, at->w.d_f32);
            s.min[m][i] = at->w.m ? scale_at(at->w.m, from, at->w.d_f32) : 0.0f;
        }
    }
    return s;
}

/* A group of 32: chunk number c of the stage. */
RF_DEVICE void add_group_32(tile_sums *s, const tile_place *at, const tile_stage *stage, uint32_t c,
                            const tile_squares *w, const tile_scales *scales) {
    RF_UNROLL
    for (uint32_t k = 0; k < TILE_M * TILE_N; k++) {
        const uint32_t m = k % TILE_M, n = k / TILE_M;
        int32_t p[4] = {0, 0, 0, 0};
        multiply_32(p, &w->m[m], stage->q + (at->col + 8 * n) * TILE_STRIDE + 32 * c, at->lane);
        RF_UNROLL
        for (int i = 0; i < 4; i++) {
            const uint32_t col = col_of(at, n, i) * 8 + c;
            const float xd = stage->d[col];
            float *v = &s->v[m][n][i];
            *v = rf_fma((float)p[i], scales->d[m][i / 2] * xd, *v);
            if (at->w.m) *v = rf_fma((float)stage->sum[col], scales->min[m][i / 2] * xd, *v);
        }
    }
}

/* Sum of min * the activations' sum of sixteen, for the outputs of square (m, n). */
RF_DEVICE void multiply_mins(int32_t p[4], const square *mins, const tile_place *at,
                             const tile_shared *sh, uint32_t n) {
    int32_t high[4] = {0, 0, 0, 0}, low[4] = {0, 0, 0, 0};
    multiply_16(high, mins, sh->high + (at->col + 8 * n) * 16, 16, at->lane, 0);
    multiply_16(low, mins, sh->low + (at->col + 8 * n) * 16, 16, at->lane, 0);
    RF_UNROLL
    for (int i = 0; i < 4; i++)
        p[i] = 64 * high[i] + low[i];
}

/* The scales of the rows of square m. */
RF_DEVICE void load_rows(rf_u4 s[2], const int8_t *p, const tile_place *at, uint64_t group,
                         uint32_t m) {
    RF_UNROLL
    for (int i = 0; i < 2; i++)
        s[i] = load_scales(p, at->w.n_scales, group * 32 + row_of(at, m, 2 * i));
}

/* Chunk number c of a stage onto the integers of its group. */
RF_DEVICE void add_chunk_256(int32_t p[TILE_M][TILE_N][4], const tile_place *at,
                             const tile_stage *stage, uint32_t c, const tile_squares *w,
                             rf_u4 scale[TILE_M][2]) {
    const int twice = at->w.n_scales == 16;
    RF_UNROLL
    for (uint32_t k = 0; k < TILE_M * TILE_N; k++) {
        const uint32_t m = k % TILE_M, n = k / TILE_M;
        const int8_t *q = stage->q + (at->col + 8 * n) * TILE_STRIDE + 32 * c;
        int32_t first[4] = {0, 0, 0, 0}, second[4] = {0, 0, 0, 0};
        if (twice) {
            multiply_16(first, &w->m[m], q, TILE_STRIDE, at->lane, 0);
            multiply_16(second, &w->m[m], q + 16, TILE_STRIDE, at->lane, 1);
        } else {
            multiply_32(first, &w->m[m], q, at->lane);
        }
        RF_UNROLL
        for (int i = 0; i < 4; i++) {
            p[m][n][i] += byte_of(&scale[m][i / 2], 0) * first[i];
            if (twice) p[m][n][i] += byte_of(&scale[m][i / 2], 1) * second[i];
        }
    }
    RF_UNROLL
    for (uint32_t m = 0; m < TILE_M; m++) {
        scale[m][0] = next_scales(scale[m][0]);
        scale[m][1] = next_scales(scale[m][1]);
    }
}

/* A group of 256, which is the whole stage; next: squares of the chunk to come. */
RF_DEVICE void add_group_256(tile_sums *s, const tile_place *at, int lo_bits, int hi_bits,
                             const tile_shared *sh, const tile_stage *stage, uint32_t g,
                             tile_squares *next) {
    const uint64_t group = at->tile * at->n_groups + g;
    int32_t p[TILE_M][TILE_N][4];
    rf_u4 scale[TILE_M][2];
    const tile_scales scales = load_group(at, g);
    RF_UNROLL
    for (uint32_t m = 0; m < TILE_M; m++)
        load_rows(scale[m], at->w.scale, at, group, m);
    RF_UNROLL
    for (uint32_t i = 0; i < TILE_M * TILE_N * 4; i++)
        p[i / (TILE_N * 4)][i / 4 % TILE_N][i % 4] = 0;
    RF_NO_UNROLL
    for (uint32_t c = 0; c < TILE_CHUNKS; c++) {
#if defined(RF_NVIDIA)
        const tile_squares now = *next;
        *next = load_squares(at, lo_bits, hi_bits, g * TILE_CHUNKS + c + 1);
#else /* whole rows in registers leave no room for the next */
        const tile_squares now = load_squares(at, lo_bits, hi_bits, g * TILE_CHUNKS + c);
        *next = now;
#endif
        add_chunk_256(p, at, stage, c, &now, scale);
    }
    RF_UNROLL
    for (uint32_t m = 0; m < TILE_M; m++) {
        square mins = next->m[0];
        if (at->w.m) {
            rf_u4 rows[2];
            load_rows(rows, at->w.min, at, group, m);
            mins = square_of(rows[0], rows[1], at->lane);
        }
        RF_UNROLL
        for (uint32_t n = 0; n < TILE_N; n++) {
            int32_t of_mins[4] = {0, 0, 0, 0};
            if (at->w.m) multiply_mins(of_mins, &mins, at, sh, n);
            RF_UNROLL
            for (int i = 0; i < 4; i++) {
                const float xd = stage->d[col_of(at, n, i)];
                float *v = &s->v[m][n][i];
                *v = rf_fma((float)p[m][n][i], scales.d[m][i / 2] * xd, *v);
                if (at->w.m) *v = rf_fma((float)of_mins[i], scales.min[m][i / 2] * xd, *v);
            }
        }
    }
}

/* Four sums of a stage per thread, in two bytes each. */
RF_DEVICE void split_sums(tile_shared *sh, const tile_stage *s) {
    const uint32_t at = 4 * rf_tid();
    uint32_t high = 0, low = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const int32_t h = (s->sum[at + i] + 32) >> 6, l = s->sum[at + i] - 64 * h;
        high |= ((uint32_t)h & 255u) << 8 * i;
        low |= ((uint32_t)l & 255u) << 8 * i;
    }
    *(uint32_t *)(void *)(sh->high + at) = high;
    *(uint32_t *)(void *)(sh->low + at) = low;
}

/* One product of the block, all columns. */
RF_DEVICE void tile_product(tile_sums *s, tile_shared *sh, const rf_gpu_matmul_args *a,
                            const mm_share *share, const tile_place *at, int view, int lo_bits,
                            int hi_bits) {
    const uint32_t cols = at->w.cols;
    RF_UNROLL
    for (uint32_t i = 0; i < TILE_M * TILE_N * 4; i++)
        s->v[i / (TILE_N * 4)][i / 4 % TILE_N][i % 4] = 0.0f;
    tile_squares next; /* of the chunk to come, for groups of 256 */
    if (view == 256) next = load_squares(at, lo_bits, hi_bits, 0);
    rf_sync();
    stage_load(&sh->stage[0], a, share, view, cols, 0);
    uint32_t which = 0;
    for (uint32_t first = 0; first < cols; first += TILE_STAGE) {
        tile_stage *stage = &sh->stage[which];
        rf_copy_wait();
        rf_sync();
        if (view == 256 && at->w.m) {
            split_sums(sh, stage);
            rf_sync();
        }
        if (first + TILE_STAGE < cols)
            stage_load(&sh->stage[which ^ 1], a, share, view, cols, first + TILE_STAGE);
        which ^= 1;
        if (view == 256) {
            add_group_256(s, at, lo_bits, hi_bits, sh, stage, first / 256, &next);
            continue;
        }
        const uint32_t n = rf_min_u32(cols - first, TILE_STAGE) / 32;
        RF_NO_UNROLL
        for (uint32_t c = 0; c < n; c++) {
            const tile_squares now = load_squares(at, lo_bits, hi_bits, first / 32 + c);
            const tile_scales scales = load_group(at, first / 32 + c);
            add_group_32(s, at, stage, c, &now, &scales);
        }
    }
}

RF_DEVICE void tile_run(const rf_gpu_matmul_args *a, int view, int lo_bits, int hi_bits,
                        tile_shared *sh) {
    const mm_share share = share_of(a, RF_GPU_BLOCK_ROWS, TILE_COLS);
    if (share.n == 0) return;
    const uint32_t warp = rf_tid() / 32, n_tiles = rf_div_up(share.p.w.rows, RF_GPU_TILE_ROWS);
    const uint32_t tile = share.tile * (RF_GPU_BLOCK_ROWS / RF_GPU_TILE_ROWS) + warp % 4;
    tile_place at;
    at.w = share.p.w;
    at.tile = (uint64_t)share.plane * n_tiles + rf_min_u32(tile, n_tiles - 1);
    at.lane = rf_tid() % 32;
    at.col = warp / 4 * 32;
    at.n_groups = at.w.cols / (uint32_t)view;
    tile_sums s;
    for (uint32_t pass = 0; pass <= a->is_glu; pass++) {
        if (pass) at.w = a->part[1].w;
        tile_product(&s, sh, a, &share, &at, view, lo_bits, hi_bits);
        RF_UNROLL
        for (uint32_t k = 0; k < TILE_M * TILE_N * 4; k++) {
            const uint32_t m = k / (TILE_N * 4), n = k / 4 % TILE_N;
            const int i = (int)(k % 4);
            const uint32_t r = tile * RF_GPU_TILE_ROWS + row_of(&at, m, i), t = col_of(&at, n, i);
            if (r >= at.w.rows || t >= share.n) continue;
            const uint32_t dst_row = dst_row_of(a, &share, t);
            float *dst = share.p.dst + (uint64_t)dst_row * share.p.dst_stride + r;
            if (a->is_glu && pass == 0)
                *dst = s.v[m][n][i]; /* the gate waits where this thread finds it again */
            else
                put_output(a, &share, dst_row, r, a->is_glu ? *dst : 0.0f, s.v[m][n][i]);
        }
    }
}

#define TILE_KERNEL(kind, view, lo_bits, hi_bits)                \
    kind(tile_##view##_##lo_bits##hi_bits, rf_gpu_matmul_args) { \
        RF_SHARED tile_shared sh;                                \
        tile_run(&a, view, lo_bits, hi_bits, &sh);               \
    }
TILE_KERNEL(RF_KERNEL, 32, 4, 0)
TILE_KERNEL(RF_KERNEL, 32, 4, 1)
TILE_KERNEL(RF_KERNEL, 32, 8, 0)
TILE_KERNEL(RF_KERNEL_ALONE, 256, 2, 0)
TILE_KERNEL(RF_KERNEL_ALONE, 256, 2, 1)
TILE_KERNEL(RF_KERNEL_ALONE, 256, 4, 0)
TILE_KERNEL(RF_KERNEL_ALONE, 256, 4, 1)
TILE_KERNEL(RF_KERNEL_ALONE, 256, 4, 2)
TILE_KERNEL(RF_KERNEL_ALONE, 256, 8, 0)
