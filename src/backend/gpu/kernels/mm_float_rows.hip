/* mm_float_rows.hip - products of float weights with several activation rows: a block has 32 weight rows
 * by 4, 8, 16 or 32 activation rows, a thread two canonical lanes of some of them.
 *
 * Weights, as they are, and activations pass through shared memory in stretches of columns, all but one
 * of them on their way, the first weights before the kernel in front has ended. */
#include "backend/gpu/kernels/mm.h"
#include "backend/gpu/tile.h"

#if defined(RF_AMD)
enum { FR_AMD = 1 };
#define FR_UNROLL RF_NO_UNROLL
#else
enum { FR_AMD = 0 };
#define FR_UNROLL RF_UNROLL_8
#endif

enum {
    FR_SUMS = 4 * RF_FR_MAX_COLS, /* lanes of a thread, two for each of its outputs */
};

/* What a block multiplies; form, size, step and shape are constants. */
typedef struct fr_work {
    const uint8_t *w[2]; /* of the plane; with is_glu gate and up */
    const float *x;
    uint32_t first, rows, cols;
    uint32_t form, size, step; /* bytes of a weight, columns of a stretch */
    rf_fr_shape shape;
    uint32_t n_stages;
} fr_work;

/* A stretch: of which matrix, from which column on. */
typedef struct fr_stretch {
    uint32_t pass, column;
} fr_stretch;

RF_DEVICE void fr_advance(fr_stretch *at, const fr_work *k) {
    at->column += k->step;
    if (at->column < k->cols) return;
    at->column = 0;
    at->pass++;
}

/* Fetching --------------------------------------------------------------------------------------*/

/* 16 bytes of a row; behind its end zeros. */
RF_DEVICE void fr_copy(uint8_t *to, const void *from, int is_inside) {
    const rf_u4 zeros = {{0, 0, 0, 0}};
    if (is_inside)
        rf_copy_16(to, from);
    else
        *(rf_u4 *)(void *)to = zeros;
}

/* A stretch's weights; rows behind the last are it, columns up to a multiple of 16 zeros. */
RF_DEVICE void fr_fetch(uint8_t *stage, const fr_work *k, fr_stretch s) {
    const uint32_t pieces = k->shape.step / 8, at_once = k->shape.threads / pieces,
                   each = 16 / k->size;
    const uint32_t column = s.column + rf_tid() % pieces * each, own = rf_tid() / pieces;
    const uint8_t *w = (s.pass ? k->w[1] : k->w[0]) + (uint64_t)column * k->size;
    uint8_t *to = stage + own * rf_fr_w_stride(k->shape) + rf_tid() % pieces * 16;
    if (column >= (k->cols + 15) / 16 * 16) return;
    RF_UNROLL
    for (uint32_t i = 0; i < RF_FR_ROWS; i += at_once) {
        const uint64_t row = rf_min_u32(k->first + own + i, k->rows - 1);
        fr_copy(to + i * rf_fr_w_stride(k->shape), w + row * (k->cols * k->size), column < k->cols);
    }
}

/* Its activations; row: where each begins, in fours. */
RF_DEVICE void fr_fetch_x(uint8_t *stage, const fr_work *k, const uint32_t *row, fr_stretch s) {
    const uint32_t pieces = k->step / 4, at_once = k->shape.threads / pieces;
    const uint32_t column = s.column + rf_tid() % pieces * 4, own = rf_tid() / pieces;
    uint8_t *to =
        stage + rf_fr_x_at(k->shape) + own * rf_fr_x_stride(k->shape) + rf_tid() % pieces * 16;
    if (column >= (k->cols + 15) / 16 * 16) return;
    RF_UNROLL
    for (uint32_t i = 0; i < k->shape.cols; i += at_once)
        if (at_once <= k->shape.cols || own < k->shape.cols)
            fr_copy(to + i * rf_fr_x_stride(k->shape), k->x + row[own + i] * 4ull + column,
                    column < k->cols);
}

/* Multiplying -----------------------------------------------------------------------------------*/

/* A thread has a pair of lanes of some weight rows and some activation rows.  Threads beside each other
 * have other activation rows or other weight rows, so that they load the same of the others. */
typedef struct fr_place {
    uint32_t pair, row, col; /* the first of its rows */
    uint32_t rows, cols;     /* so many, */
    uint32_t apart, across;  /* so many apart */
} fr_place;

RF_DEVICE fr_place fr_place_of(rf_fr_shape s) {
    const uint32_t tid = rf_tid(), warp = tid / 32;
    fr_place p;
    p.pair = tid / 4 % 8;
    p.across = s.across;
    p.apart = s.threads / 8 / s.across;
    p.rows = RF_FR_ROWS / p.apart;
    p.cols = s.cols / p.across;
    p.col = tid % 2 + warp % (s.across / 2) * 2;
    p.row = tid / 2 % 2 + warp / (s.across / 2) * 2;
    return p;
}

RF_DEVICE rf_f2 fr_weights(const uint8_t *w, uint32_t form) {
    if (form == RF_GPU_F32) return *(const rf_f2 *)(const void *)w;
    const uint32_t both = *(const uint32_t *)(const void *)w;
    const rf_f2 f16 = {{rf_f16_at((uint16_t)both), rf_f16_at((uint16_t)(both >> 16))}};
    const rf_f2 bf16 = {{rf_float_of(both << 16), rf_float_of(both & 0xffff0000u)}};
    return form == RF_GPU_F16 ? f16 : bf16;
}

/* Sixteen columns onto the thread's lanes: s [rows][cols][2]. */
RF_DEVICE void fr_add(float *s, const fr_work *k, const fr_place *p, const uint8_t *w,
                      const uint8_t *x) {
    rf_f2 xv[RF_FR_MAX_COLS];
    RF_UNROLL
    for (uint32_t t = 0; t < p->cols; t++)
        xv[t] = *(const rf_f2 *)(const void *)(x + p->across * t * rf_fr_x_stride(k->shape));
    RF_UNROLL
    for (uint32_t i = 0; i < p->rows; i++) {
        const rf_f2 wv = fr_weights(w + p->apart * i * rf_fr_w_stride(k->shape), k->form);
        RF_UNROLL
        for (uint32_t t = 0; t < p->cols; t++) {
            float *to = s + (i * p->cols + t) * 2;
            to[0] = rf_fma(wv.v[0], xv[t].v[0], to[0]);
            to[1] = rf_fma(wv.v[1], xv[t].v[1], to[1]);
        }
    }
}

/* A stretch of n columns. */
RF_DEVICE void fr_add_stage(float *s, const fr_work *k, const fr_place *p, const uint8_t *stage,
                            uint32_t n) {
    const uint8_t *w = stage + p->row * rf_fr_w_stride(k->shape) + 2 * p->pair * k->size;
    const uint8_t *x =
        stage + rf_fr_x_at(k->shape) + p->col * rf_fr_x_stride(k->shape) + 8 * p->pair;
    if (n >= k->step) {
        FR_UNROLL
        for (uint32_t j = 0; j < k->step / 16; j++)
            fr_add(s, k, p, w + 16 * j * k->size, x + 64 * j);
        return;
    }
    RF_NO_UNROLL
    for (uint32_t j = 0; j < rf_div_up(n, 16); j++)
        fr_add(s, k, p, w + 16 * j * k->size, x + 64 * j);
}

/* The sum of what this thread and the one of number ^ mask have, of two values: the upper of them has
 * the second value's. */
RF_DEVICE float fr_fold(float first, float second, uint32_t mask) {
    const int is_upper = (rf_tid() & mask) != 0;
    const float keep = is_upper ? second : first, give = is_upper ? first : second;
    return keep + rf_float_of(rf_lane_xor(rf_bits_of(give), mask));
}

/* tree16 over the eight threads of the same outputs, each of which gets an eighth of them: v [n], those
 * from n * pair on in the order of s. */
RF_DEVICE void fr_tree(float *v, const float *s, uint32_t n) {
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        float lane[2];
        RF_UNROLL
        for (uint32_t l = 0; l < 2; l++) {
            const float *of = s + 2 * i + l;
            float half[2];
            RF_UNROLL
            for (uint32_t h = 0; h < 2; h++, of += 2 * n)
                half[h] =
                    fr_fold(fr_fold(of[0], of[8 * n], 16), fr_fold(of[4 * n], of[12 * n], 16), 8);
            lane[l] = fr_fold(half[0], half[1], 4);
        }
        v[i] = lane[0] + lane[1];
    }
}

RF_DEVICE void fr_clear(float *s, uint32_t n) {
    RF_UNROLL
    for (uint32_t i = 0; i < 16 * n; i++)
        s[i] = 0.0f;
}

/* The whole ------------------------------------------------------------------------------------*/

/* All stretches of one or both matrices; the first of them are on their way.  v: the last matrix's
 * outputs, gate: those of the one before. */
RF_DEVICE void fr_products(float *v, float *gate, const fr_work *k, uint8_t *stages,
                           const uint32_t *row, fr_stretch next, uint32_t n_passes) {
    const uint32_t stage_bytes = rf_fr_stage_bytes(k->shape), n = rf_fr_outputs(k->shape);
    const fr_place place = fr_place_of(k->shape);
    fr_stretch at = {0, 0};
    float s[FR_SUMS];
    fr_clear(s, n);
    for (uint32_t now = 0; at.pass < n_passes; now = now + 1 == k->n_stages ? 0 : now + 1) {
        rf_copy_wait_but(k->n_stages - 2);
        rf_sync();
        uint8_t *free_stage = stages + (now ? now - 1 : k->n_stages - 1) * stage_bytes;
        if (next.pass < n_passes) {
            fr_fetch(free_stage, k, next);
            fr_fetch_x(free_stage, k, row, next);
        }
        rf_copy_end();
        fr_advance(&next, k);
        fr_add_stage(s, k, &place, stages + now * stage_bytes, k->cols - at.column);
        fr_advance(&at, k);
        if (at.column != 0) continue;
        RF_UNROLL
        for (uint32_t t = 0; t < n; t++)
            gate[t] = v[t];
        fr_tree(v, s, n);
        fr_clear(s, n);
    }
}

RF_DEVICE void fr_run(uint8_t *shared, const rf_gpu_matmul_args *a, rf_fr_shape shape,
                      uint32_t n_stages, uint32_t form) {
    if (a->mode == RF_GPU_MM_EXPERTS) rf_await_before(); /* the route */
    const mm_share share = share_of(a, RF_FR_ROWS, shape.cols);
    if (share.n == 0) return;
    const uint32_t size = form == RF_GPU_F32 ? 4 : 2, n_passes = 1 + a->is_glu;
    const uint64_t plane = (uint64_t)share.plane * share.p.w.rows * share.p.w.cols * size;
    const fr_work k = {
        {(const uint8_t *)share.p.w.lo + plane, (const uint8_t *)a->part[1].w.lo + plane},
        a->x,
        share.tile * RF_FR_ROWS,
        share.p.w.rows,
        share.p.w.cols,
        form,
        size,
        shape.step * 2 / size,
        shape,
        n_stages};
    uint32_t *row = (uint32_t *)(void *)shared;
    uint8_t *stages = shared + RF_FR_HEAD;
    fr_stretch next = {0, 0}, next_x = {0, 0};
    for (uint32_t i = 0; i + 1 < n_stages; i++, fr_advance(&next, &k)) {
        if (next.pass < n_passes) fr_fetch(stages + i * rf_fr_stage_bytes(shape), &k, next);
        rf_copy_end();
    }
    rf_await_before();
    if (rf_tid() < shape.cols)
        row[rf_tid()] = x_row_of(a, dst_row_of(a, &share, rf_tid())) * (k.cols / 4);
    rf_sync();
    for (uint32_t i = 0; i + 1 < n_stages; i++, fr_advance(&next_x, &k))
        if (next_x.pass < n_passes)
            fr_fetch_x(stages + i * rf_fr_stage_bytes(shape), &k, row, next_x);
    rf_copy_end();
    rf_copy_wait();
    float v[RF_FR_MAX_COLS / 4] = {0}, gate[RF_FR_MAX_COLS / 4] = {0};
    fr_products(v, gate, &k, stages, row, next, n_passes);
    const fr_place p = fr_place_of(shape);
    RF_UNROLL
    for (uint32_t i = 0; i < rf_fr_outputs(shape); i++) {
        const uint32_t own = p.pair * rf_fr_outputs(shape) + i;
        const uint32_t r = k.first + p.row + own / p.cols * p.apart;
        const uint32_t col = p.col + own % p.cols * p.across;
        if (r < k.rows && col < share.n)
            put_output(a, &share, dst_row_of(a, &share, col), r, gate[i], v[i]);
    }
}

#if defined(RF_NVIDIA)
#define FR_SHARED(shape)                 \
    uint8_t *shared = rf_dynamic_shared; \
    const uint32_t n_stages = rf_fr_stages(shape, rf_dynamic_bytes())
#elif defined(RF_AMD)
#define FR_SHARED(shape)                                                                 \
    RF_SHARED __attribute__((aligned(16))) uint8_t shared[rf_fr_shared_bytes(shape, 2)]; \
    const uint32_t n_stages = 2
#else
#define FR_SHARED(shape)                 \
    uint8_t *shared = rf_dynamic_shared; \
    const uint32_t n_stages = 3
#endif
#define FR_KERNEL(cols, n_blocks)                                                         \
    RF_KERNEL_EARLY(mm_float_##cols, rf_gpu_matmul_args, n_blocks) {                      \
        const rf_fr_shape shape = rf_fr_shape_of(cols, RF_BLOCK_mm_float_##cols, FR_AMD); \
        FR_SHARED(rf_fr_shape_of(cols, RF_BLOCK_mm_float_##cols, FR_AMD));                \
        if (a.part[0].w.form == RF_GPU_F32)                                               \
            fr_run(shared, &a, shape, n_stages, RF_GPU_F32);                              \
        else if (a.part[0].w.form == RF_GPU_F16)                                          \
            fr_run(shared, &a, shape, n_stages, RF_GPU_F16);                              \
        else                                                                              \
            fr_run(shared, &a, shape, n_stages, RF_GPU_BF16);                             \
    }
FR_KERNEL(4, 3)
FR_KERNEL(8, 3)
FR_KERNEL(16, 3)
#if defined(RF_NVIDIA) /* elsewhere it has too few registers */
FR_KERNEL(32, 2)
#endif
