/* mm_normed.hip - products of integer weights with one activation row that is yet to be RMS-normed.
 *
 * As mm_one.hip, but each block norms the row for itself, while its first weights are on their way, and
 * keeps it in integers in shared memory.  So that this is not done too often blocks stay, where there
 * are many tiles, and take them in turns; a tile's first weights are on their way before the one in
 * front has ended. */
#include "backend/gpu/kernels/norm.h"
#include "backend/gpu/kernels/one.h"

/* Columns of the row in integers, and what a round may have too many. */
#define NORMED_ROOM(view) (RF_GPU_NORMED_COLS + 8 * ((view) == 256 ? 256 : 128))

/* Most columns whose norm's weights are fetched before the kernel in front has ended; AMD would wait for
 * them. */
#if defined(RF_NVIDIA)
enum { NORMED_W = 4096 };
#else
enum { NORMED_W = 0 };
#endif

/* Is a row's first round asked for beside its lanes, and what is added to a tile's outputs ahead of the tile?  On AMD
 * that would only be waited for, and take registers. */
#if defined(RF_AMD)
enum { NORMED_ASKS = 0 };
#else
enum { NORMED_ASKS = 1 };
#endif

/* Room for rounds' terms, where in groups of 32 the norm's weights lie before. */
#define NORMED_TURNS_TERMS(view, with_m, n_parts) \
    (ONE_TURNS(view, with_m) * ONE_TERMS(view, with_m, n_parts))
#define NORMED_TERMS(view, with_m, n_parts)                                   \
    ((view) == 32 && NORMED_TURNS_TERMS(view, with_m, n_parts) < NORMED_W / 2 \
         ? NORMED_W / 2                                                       \
         : NORMED_TURNS_TERMS(view, with_m, n_parts))

/* The row in integers. */
#define NORMED_ROW(view)                                                                         \
    typedef struct normed_row_##view {                                                           \
        rf_u4 q[NORMED_ROOM(view) / 16];                                                         \
        int32_t sum[NORMED_ROOM(view) / ((view) == 256 ? 16 : 32)] __attribute__((aligned(16))); \
        float d[NORMED_ROOM(view) / (view)] __attribute__((aligned(16)));                        \
    } normed_row_##view
NORMED_ROW(32);
NORMED_ROW(256);

/* What norming the row needs, and what is added to outputs. */
typedef struct normed_shared {
    norm_shared norm;
    one_extra extra;
} normed_shared;

/* Times the norm's factor, then times its weights, where there are any. */
RF_DEVICE void normed_scale(one_floats *f, float factor, const one_floats *w, int has_w) {
    RF_UNROLL
    for (int i = 0; i < 8; i++) {
        float *v = &f->v[i / 4].v[i % 4];
        *v = *v * factor;
        if (has_w) *v = *v * w->v[i / 4].v[i % 4];
    }
}

/* Each part makes the groups that it multiplies, the first of which is number own.  of_lane: the
 * thread's elements of its lane in the norm's first piece; weights: the norm's, where they were fetched. */
RF_DEVICE void normed_row(normed_shared *s, one_x to, const rf_gpu_norm_args *a, int view,
                          uint32_t n_round, uint32_t own, float of_lane[NORM_OWN],
                          const rf_f4 *weights) {
    const int is_early =
        NORMED_ASKS && view == 256; /* in groups of 32 weights have the registers */
    one_floats f = {{{{0}}}};
    if (is_early) one_read(&f, a->x, a->n, view, own);
    if (NORMED_W > 0) rf_copy_wait(); /* the others' come with the sum */
    const float factor = norm_factor(&s->norm, of_lane, a, a->x);
    RF_NO_UNROLL
    for (uint32_t first = 0; first < a->n / (uint32_t)view; first += n_round) { /* in step */
        one_floats w = {{{{0}}}};
        if (!is_early || first > 0) one_read(&f, a->x, a->n, view, first + own);
        if (a->w && a->n <= NORMED_W)
            one_read(&w, (const float *)(const void *)weights, a->n, view, first + own);
        else if (a->w)
            one_read(&w, a->w, a->n, view, first + own);
        normed_scale(&f, factor, &w, a->w != 0);
        one_quantise(to, &f, view, first + own);
    }
}

RF_DEVICE void normed_run(const rf_gpu_matmul_args *a, int view, int lo_bits, int hi_bits,
                          uint32_t with_m, uint32_t n_parts, one_x x, normed_shared *shared,
                          mm_term *terms, rf_f4 *weights) {
    const uint32_t n_own = ONE_GROUPS(view), n_round = n_parts * n_own;
    const uint32_t n_rows = a->is_glu ? RF_GPU_TILE_ROWS / 2 : RF_GPU_TILE_ROWS;
    const uint32_t n_tiles = rf_div_up(a->part[0].w.rows, n_rows);
    mm_share s = share_of(a, n_rows, 1);
    if (s.n == 0) return;
    one_place at = one_place_of(a, &s, view, n_rows, n_parts, 1);
    const uint32_t own = at.part * n_own, lane = rf_tid() % 32;
    uint32_t buffer = 0;
    one_loads loads;
    float of_lane[NORM_OWN];
    one_know(&at, view, lo_bits, hi_bits, with_m);
    if (!ONE_X_FIRST) one_load(&loads, &at, view, lo_bits, hi_bits, own, 0);
    if (a->norm.w && a->norm.n <= NORMED_W)
        for (uint32_t i = rf_tid(); i < a->norm.n / 4; i += 32 * n_parts)
            rf_copy_16(weights + i, a->norm.w + 4 * i);
    if (NORMED_ASKS) one_fetch_bias(&shared->extra, a, &s, &at, n_rows);
    rf_await_before();
    norm_load_lane(of_lane, a->norm.x, 0, a->norm.n);
    if (NORMED_ASKS) one_fetch_add(&shared->extra, a, &s, &at, n_rows, 0);
    if (ONE_X_FIRST) one_load(&loads, &at, view, lo_bits, hi_bits, own, 0);
    normed_row(shared, x, &a->norm, view, n_round, own, of_lane, weights);
    rf_sync();
    for (int goes_on = 1; goes_on;) {
        const mm_share now = s;
        float acc = 0.0f;
        if (!NORMED_ASKS) one_fetch_extra(&shared->extra, a, &now, &at, n_rows, 0);
        for (uint32_t first = 0; first < at.n_groups; first += n_round) {
            mm_term *const turn = one_turn_terms(terms, view, with_m, n_parts, buffer);
            buffer ^= 1;
            one_terms(turn + (at.part * one_slots(&at, view) * 32 + lane), &at, &loads,
                      one_x_at(x, view, first + own), view, lo_bits, hi_bits, first + own);
            uint32_t next = first + n_round;
            if (next >= at.n_groups) { /* the next tile, where blocks take them in turns */
                next = 0;
                s.tile += a->n_blocks;
                goes_on = a->n_blocks > 0 && s.tile < n_tiles;
                if (goes_on) one_turn(&at, &s, n_rows);
            }
            if (next > 0 || goes_on) one_load(&loads, &at, view, lo_bits, hi_bits, next + own, 0);
            rf_sync();
            if (at.part == 0)
                acc = one_fold(&at, turn + lane, view, lo_bits,
                               rf_min_u32(at.n_groups - first, n_round), acc);
            if (ONE_TURNS(view, with_m) == 1) rf_sync();
        }
        rf_copy_wait();
        one_end(a, &now, &at, &shared->extra, n_rows, 0, acc);
        if (NORMED_ASKS && goes_on) one_fetch_extra(&shared->extra, a, &s, &at, n_rows, 0);
    }
}

/* Room for the norm's weights where it is not the terms'. */
#define NORMED_ROOM_W(view) ((view) == 256 && NORMED_W > 0 ? NORMED_W / 4 : 1)

/* In groups of 32 the grid reckons with their memory. */
#if !defined(RF_NVIDIA) /* the host looks at it */
_Static_assert(sizeof(normed_row_32) + sizeof(normed_shared) +
                       NORMED_TERMS(32, 1, RF_BLOCK_normed_32_40 / 32) * sizeof(mm_term) +
                       sizeof(rf_f4) <=
                   RF_NORMED_32_SHARED,
               "as the grid has it");
#endif

/* n_blocks: as many as have registers for all loads. */
#define NORMED_BODY(view, lo_bits, hi_bits, with_m)                                        \
    {                                                                                      \
        enum { PARTS = RF_BLOCK_normed_##view##_##lo_bits##hi_bits / 32 };                 \
        RF_SHARED normed_row_##view row;                                                   \
        const one_x x = {row.q, row.sum, row.d};                                           \
        RF_SHARED normed_shared shared;                                                    \
        RF_SHARED mm_term terms[NORMED_TERMS(view, with_m, PARTS)];                        \
        RF_SHARED rf_f4 room[NORMED_ROOM_W(view)];                                         \
        rf_f4 *weights = view == 256 ? room : (rf_f4 *)(void *)terms;                      \
        normed_run(&a, view, lo_bits, hi_bits, with_m, PARTS, x, &shared, terms, weights); \
    }
#define NORMED_KERNEL(view, lo_bits, hi_bits, with_m, n_blocks)                       \
    RF_KERNEL_EARLY(normed_##view##_##lo_bits##hi_bits, rf_gpu_matmul_args, n_blocks) \
    NORMED_BODY(view, lo_bits, hi_bits, with_m)
#define NORMED_KIND(lo_bits, hi_bits)                                         \
    RF_KERNEL_KIND_EARLY(normed_32_##lo_bits##hi_bits, 1, rf_gpu_matmul_args, \
                         RF_GPU_NORMED_BLOCKS_32)                             \
    NORMED_BODY(32, lo_bits, hi_bits, 1)
NORMED_KERNEL(32, 4, 0, 0, RF_GPU_NORMED_BLOCKS_32)
NORMED_KERNEL(32, 4, 1, 0, RF_GPU_NORMED_BLOCKS_32)
NORMED_KERNEL(32, 8, 0, 0, RF_GPU_NORMED_BLOCKS_32)
NORMED_KERNEL(256, 2, 0, MM_ANY, RF_GPU_NORMED_BLOCKS_256)
NORMED_KERNEL(256, 2, 1, MM_ANY, RF_GPU_NORMED_BLOCKS_256)
NORMED_KERNEL(256, 4, 0, MM_ANY, RF_GPU_NORMED_BLOCKS_256)
NORMED_KERNEL(256, 4, 1, MM_ANY, RF_GPU_NORMED_BLOCKS_256)
NORMED_KERNEL(256, 4, 2, MM_ANY, RF_GPU_NORMED_BLOCKS_256)
NORMED_KERNEL(256, 8, 0, MM_ANY, RF_GPU_NORMED_BLOCKS_256)
NORMED_KIND(4, 0)
NORMED_KIND(4, 1)

/* Matrices of two layouts of four bits and some, as mixes of formats have them: those of values in more. */
#define NORMED_PAIR(hi)                                                                    \
    RF_KERNEL_EARLY(normed_256_4##hi##_42, rf_gpu_matmul_args, RF_GPU_NORMED_BLOCKS_256) { \
        enum { PARTS = RF_BLOCK_normed_256_4##hi##_42 / 32 };                              \
        RF_SHARED normed_row_256 row;                                                      \
        const one_x x = {row.q, row.sum, row.d};                                           \
        RF_SHARED normed_shared shared;                                                    \
        RF_SHARED mm_term terms[NORMED_TERMS(256, MM_ANY, PARTS)];                         \
        RF_SHARED rf_f4 weights[NORMED_ROOM_W(256)];                                       \
        if (share_of(&a, RF_GPU_TILE_ROWS, 1).p.w.hi_bits == 2)                            \
            normed_run(&a, 256, 4, 2, MM_ANY, PARTS, x, &shared, terms, weights);          \
        else                                                                               \
            normed_run(&a, 256, 4, hi, MM_ANY, PARTS, x, &shared, terms, weights);         \
    }
NORMED_PAIR(0)
NORMED_PAIR(1)
