/* launch_halves.c - products of 16-bit floats on matrix units (half.h): which kernel, over what grid, by the number of
 * activation rows. */
#include "backend/gpu/products.h"
#include "backend/gpu/tile.h"

enum {
    HALF_WIDE_MIN_ROWS = 65, /* of half_wide.hip */
    HALF_TILE_MIN_ROWS = 65, /* of half_tile.hip */
};

/* Floats of 16 bits whose rows are whole pieces of sixteen bytes. */
static bool has_halves(const rf_gpu_weight *w) {
    return (w->form == RF_GPU_F16 || w->form == RF_GPU_BF16) && w->cols % 8 == 0;
}

bool rf_gpu_takes_halves(const rf_gpu_queue *q, const rf_gpu_weight *w) {
    return q->fast_floats && has_halves(w) && can_run(q, RF_GPU_half_rows) &&
           can_run(q, is_amd(q) ? RF_GPU_half_wave_16 : RF_GPU_half_8);
}

bool rf_gpu_all_take_halves(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    for (uint32_t i = 1; i < a->n_parts; i++) {
        if (!rf_gpu_same_layout(&a->part[0].w, &a->part[i].w)) return false;
    }
    return rf_gpu_takes_halves(q, &a->part[0].w);
}

/* Do they by blocks that round their one row themselves?  Whole tiles only; on NVIDIA where there is room for the
 * row and a ring of weights. */
static bool takes_half_one(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    for (uint32_t i = 0; i < a->n_parts; i++) {
        if (a->part[i].w.rows % (a->is_glu ? 8 : 16) != 0) return false;
    }
    uint32_t most = is_amd(q) ? RF_HALF_WAVE_COLS : RF_HALF_OWN_COLS;
    return !a->lists && a->n_rows == 1 && w->cols <= most && can_run(q, RF_GPU_half_one) &&
           (is_amd(q) || rf_half_one_shared(w->cols, RF_HALF_ONE_WORKERS, RF_HALF_ONE_SLOTS / 2) <=
                             q->info.lds_bytes);
}

/* Rows of x, of so many rows of tokens. */
static uint64_t x_rows_of(const rf_gpu_matmul_args *a, uint32_t n_rows) {
    if (a->mode == RF_GPU_MM_HEADS) return (uint64_t)n_rows * a->part[0].w.planes;
    return a->mode == RF_GPU_MM_EXPERTS && a->x_per_used ? (uint64_t)n_rows * a->n_used : n_rows;
}

/* Rows of x and what rounds them up to whole stages of half_ring.h. */
static uint64_t half_room_rows(const rf_gpu_matmul_args *a, uint32_t n_rows) {
    uint64_t n = x_rows_of(a, n_rows), unit = n_rows < HALF_WIDE_MIN_ROWS ? 8 : RF_HALF_WIDE_X;
    return (n + unit - 1) / unit * unit;
}

size_t rf_gpu_halves_bytes(const rf_gpu_matmul_args *a, uint32_t max_rows) {
    const rf_gpu_weight *w = &a->part[0].w;
    if (!has_halves(w)) return 0;
    return (size_t)(half_room_rows(a, max_rows) *
                    (rf_half_wave_stride(w->cols) * sizeof(uint16_t) + sizeof(float)));
}

/* The rows of x rounded, in the room for what is made ahead; n_x: of a stage, or 0. */
static void make_halves(rf_gpu_queue *q, rf_gpu_matmul_args *a, uint32_t n_x) {
    const rf_gpu_weight *w = &a->part[0].w;
    RF_ASSERT(a->ahead && a->ahead_bytes >= rf_gpu_halves_bytes(a, a->n_rows));
    a->halves = (rf_gpu_halves){.x = (uint16_t *)(void *)a->ahead,
                                .stride = is_amd(q) ? rf_half_wave_stride(w->cols)
                                                    : rf_half_stride(w->cols),
                                .n_x = n_x};
    a->halves.scale =
        (float *)(void *)(a->halves.x + half_room_rows(a, a->n_rows) * a->halves.stride);
    rf_gpu_halves_args rows = {.x = a->x,
                               .to = a->halves,
                               .n_rows = (uint32_t)x_rows_of(a, a->n_rows),
                               .cols = w->cols,
                               .form = w->form,
                               .norm = a->norm};
    rf_gpu_put(q, RF_GPU_half_rows, rows.n_rows, 1, 1, &rows, sizeof rows);
}

/* Weight rows of a block, at most so many: as few as let all blocks that run at once have equally many. */
static uint32_t half_rows_of(const rf_gpu_queue *q, const rf_gpu_matmul_args *a, uint32_t most,
                             uint64_t times) {
    uint32_t unit = a->is_glu ? 8 : 16, n = 1; /* outputs of sixteen weight rows */
    uint64_t at_once = RF_HALF_BLOCKS * (uint64_t)q->info.n_units;
    uint64_t turns = (tiles_of(a, unit) * times + most * at_once - 1) / (most * at_once);
    while (n < most && tiles_of(a, n * unit) * times > turns * at_once)
        n++;
    return 16 * n;
}

/* A kernel of half_ring.h: weight rows of its tiles, the most activation rows of a stretch, and the most that it is for. */
typedef struct half_ring_kernel {
    rf_gpu_kernel k;
    uint32_t rows, n_x, most;
} half_ring_kernel;
static const half_ring_kernel half_ring_kernels[] = {
    {RF_GPU_half_few_32, 32, RF_HALF_FEW_X, UINT32_MAX},
    {RF_GPU_half_few_48, 48, RF_HALF_FEW_X, UINT32_MAX},
    {RF_GPU_half_few_112, 112, RF_HALF_FEW_X, RF_HALF_FEW_X},
    {RF_GPU_half_few_128, 128, RF_HALF_FEW_X, RF_HALF_FEW_X},
    {RF_GPU_half_wide_128, RF_HALF_WIDE_ROWS, 128, UINT32_MAX},
    {RF_GPU_half_wide_256, RF_HALF_WIDE_ROWS, 256, UINT32_MAX},
};

static bool is_half_wide(const half_ring_kernel *h) { return h->n_x > RF_HALF_FEW_X; }

static uint32_t half_ring_shared(const half_ring_kernel *h) {
    return is_half_wide(h) ? rf_half_wide_shared(h->n_x) : rf_half_few_shared(h->rows);
}

/* Activation rows of a stretch: wide kernels have all of them whatever there is. */
static uint32_t half_ring_x(const half_ring_kernel *h, uint32_t n_rows) {
    if (is_half_wide(h)) return h->n_x;
    return div_up(div_up(n_rows, div_up(n_rows, h->n_x)), 8) * 8;
}

static uint32_t half_ring_tiles(const half_ring_kernel *h, const rf_gpu_matmul_args *a) {
    return tiles_of(a, a->is_glu ? h->rows / 2 : h->rows) *
           div_up(a->n_rows, half_ring_x(h, a->n_rows));
}

/* By tiles with which a multiprocessor that has most of them brings least; false: there are no such kernels. */
static bool launch_half_ring(rf_gpu_queue *q, rf_gpu_matmul_args *a) {
    const half_ring_kernel *best = NULL;
    uint32_t most = UINT32_MAX, at_once = q->info.n_units;
    if (a->mode != RF_GPU_MM_PLAIN) return false;
    for (size_t i = 0; i < RF_COUNT(half_ring_kernels); i++) {
        const half_ring_kernel *h = &half_ring_kernels[i];
        bool is_for = a->n_rows <= h->most && (!is_half_wide(h) || a->n_rows >= HALF_WIDE_MIN_ROWS);
        bool fits = can_run(q, h->k) && half_ring_shared(h) <= q->info.lds_bytes;
        uint32_t brings =
            div_up(half_ring_tiles(h, a), q->info.n_units) * (h->rows + half_ring_x(h, a->n_rows));
        if (!is_for || !fits || brings >= most) continue;
        most = brings;
        best = h;
    }
    if (!best) return false;
    uint32_t n_x = half_ring_x(best, a->n_rows), n_tiles = half_ring_tiles(best, a);
    a->tile_rows = best->rows;
    if (!is_half_wide(best)) {
        a->n_stages = rf_half_few_stages(best->rows, n_x);
        if (!rf_half_few_is_low(best->rows)) at_once *= RF_HALF_BLOCKS;
    }
    make_halves(q, a, n_x);
    rf_gpu_put_shared(q, best->k, (rf_gpu_grid){min_u32(n_tiles, at_once), 1, 1},
                      half_ring_shared(best), a, sizeof *a);
    return true;
}

/* One row; y as for launch_product.  As many blocks as run at once, with as many workers as have tiles. */
static void launch_half_one(rf_gpu_queue *q, rf_gpu_matmul_args *a, uint32_t y) {
    uint32_t n_tiles = tiles_of(a, a->is_glu ? 8 : 16), cols = a->part[0].w.cols;
    uint32_t most = RF_HALF_BLOCKS * q->info.n_units / y;
    if (most == 0) most = 1;
    uint32_t n_workers = n_tiles <= most ? 1 : n_tiles <= 2 * most ? 2 : RF_HALF_ONE_WORKERS;
    uint32_t bytes = rf_half_one_shared(cols, n_workers, RF_HALF_ONE_SLOTS);
    a->tile_rows = 16 * n_workers;
    a->n_stages = RF_HALF_ONE_SLOTS;
    if (bytes + RF_NORM_SHARED > room_of_block(q, RF_HALF_BLOCKS)) {
        a->n_stages = RF_HALF_ONE_SLOTS / 2;
        bytes = rf_half_one_shared(cols, n_workers, a->n_stages);
    }
    a->n_blocks = min_u32(n_tiles, most);
    rf_gpu_put_shared(q, RF_GPU_half_one, (rf_gpu_grid){a->n_blocks, y, 1}, bytes, a, sizeof *a);
}

/* Outputs of a block on AMD, each of whose waves has sixteen weight rows. */
static uint32_t half_wave_outputs(const rf_gpu_queue *q, const rf_gpu_matmul_args *a,
                                  rf_gpu_kernel k) {
    uint32_t n = rf_gpu_block[k] / q->info.warp * 16;
    return a->is_glu ? n / 2 : n;
}

static void launch_half_one_amd(rf_gpu_queue *q, rf_gpu_matmul_args *a, uint32_t y) {
    uint32_t n_blocks = tiles_of(a, half_wave_outputs(q, a, RF_GPU_half_one));
    rf_gpu_put(q, RF_GPU_half_one, n_blocks, y, 1, a, sizeof *a);
}

/* usual, y: as for launch_product.  On AMD many rows go by tiles where these keep a quarter of the device busy:
 * waves, of sixteen weight rows each, read activations more often. */
static void launch_half_amd(rf_gpu_queue *q, rf_gpu_matmul_args *a, uint32_t usual, uint32_t y) {
    static const rf_gpu_kernel waves[] = {RF_GPU_half_wave_16, RF_GPU_half_wave_32,
                                          RF_GPU_half_wave_64};
    uint32_t i = usual > 32 ? 2 : usual > 16;
    while (i > 0 && !can_run(q, waves[i]))
        i--;
    rf_gpu_kernel k = waves[i];
    uint32_t rows = half_wave_outputs(q, a, k), cols = 16u << i,
             tile_rows = a->is_glu ? RF_HALF_TILE_SIDE / 2 : RF_HALF_TILE_SIDE;
    uint64_t n_tiles = (uint64_t)tiles_of(a, tile_rows) * div_up(usual, RF_HALF_TILE_SIDE) * y;
    if (usual >= HALF_TILE_MIN_ROWS && 4 * n_tiles >= q->info.n_units &&
        can_run(q, RF_GPU_half_tile)) {
        k = RF_GPU_half_tile;
        rows = tile_rows;
        cols = RF_HALF_TILE_SIDE;
    }
    rf_gpu_grid grid = {tiles_of(a, rows), y, div_up(usual, cols)};
    if (a->lists) over_lists(&grid, a, cols);
    make_halves(q, a, 0);
    rf_gpu_put_shared(q, k, grid, 0, a, sizeof *a);
}

/* usual, y: as for launch_product. */
static void launch_half(rf_gpu_queue *q, rf_gpu_matmul_args *a, uint32_t usual, uint32_t y) {
    static const rf_gpu_kernel kernels[] = {RF_GPU_half_8, RF_GPU_half_16, RF_GPU_half_32,
                                            RF_GPU_half_64};
    uint32_t i = usual > 32 ? 3 : usual > 16 ? 2 : usual > 8;
    while (i > 0 && !can_run(q, kernels[i]))
        i--;
    uint32_t n_x = 8u << i, across = n_x > RF_HALF_MOST_X ? 2 : 1;
    uint32_t most = RF_HALF_WARPS / across; /* warps with sixteen weight rows each */
    uint32_t most_blocks = RF_HALF_BLOCKS * q->info.n_units;
    rf_gpu_grid grid = {0, y, div_up(usual, n_x)};
    if (a->lists) over_lists(&grid, a, n_x);
    a->tile_rows = half_rows_of(q, a, most, (uint64_t)y * grid.z);
    grid.x = tiles_of(a, a->is_glu ? a->tile_rows / 2 : a->tile_rows);
    a->n_blocks = y == 1 && grid.z == 1 && grid.x > most_blocks ? most_blocks : 0;
    if (a->n_blocks) grid.x = a->n_blocks;
    uint32_t stage = rf_half_stage_bytes(a->tile_rows, n_x);
    uint32_t ring = n_x > 8 ? RF_HALF_RING : RF_HALF_SMALL_RING;
    a->n_stages =
        min_u32(min_u32(q->info.lds_bytes - RF_HALF_HEAD, ring) / stage, RF_HALF_MOST_STAGES);
    make_halves(q, a, 0);
    rf_gpu_put_shared(q, kernels[i], grid, RF_HALF_HEAD + a->n_stages * stage, a, sizeof *a);
}

void rf_gpu_launch_halves(rf_gpu_queue *q, rf_gpu_matmul_args *a, uint32_t usual, uint32_t y) {
    bool is_one = takes_half_one(q, a);
    if (is_amd(q) && is_one)
        launch_half_one_amd(q, a, y);
    else if (is_amd(q))
        launch_half_amd(q, a, usual, y);
    else if (is_one)
        launch_half_one(q, a, y);
    else if (!launch_half_ring(q, a))
        launch_half(q, a, usual, y);
}
