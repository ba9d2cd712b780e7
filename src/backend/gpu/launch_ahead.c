/* launch_ahead.c - products of many activation rows on Hopper for which something is made ahead: digits of weights in groups
 * of 256 (mm_ahead.hip), activations as f16 for groups of 32 (mm_wide_32.hip), and what of this is kept of the weights
 * (keep.c). */
#include "backend/gpu/products.h"
#include "backend/gpu/tile.h"

enum {
    AHEAD_MIN_ROWS = 256, /* activation rows from which it pays, */
    KEPT_MIN_ROWS = 65,   /* with digits that are there, */
    GROUPS_MIN_ROWS = 65, /* of groups of 32 where tiles fill the device */
    AHEAD_MOST_MB = 128,  /* digits of weights that there is room for */
};

/* The kernels of one layout of integers: what makes digits of groups of 256, or what is kept of groups of 32, and what multiplies
 * these as they lie in memory. */
typedef struct ahead_layout {
    uint32_t form, lo_bits, hi_bits;
    rf_gpu_kernel make, wide;
} ahead_layout;
static const ahead_layout layouts[] = {
    {RF_GPU_INT_32, 4, 0, RF_GPU_keep_32_40, RF_GPU_wide_32_40},
    {RF_GPU_INT_32, 4, 1, RF_GPU_keep_32_41, RF_GPU_wide_32_41},
    {RF_GPU_INT_32, 8, 0, RF_GPU_keep_32_80, RF_GPU_wide_32_80},
    {RF_GPU_INT_256, 2, 0, RF_GPU_digits_256_20, NO_KERNEL},
    {RF_GPU_INT_256, 2, 1, RF_GPU_digits_256_21, NO_KERNEL},
    {RF_GPU_INT_256, 4, 0, RF_GPU_digits_256_40, NO_KERNEL},
    {RF_GPU_INT_256, 4, 1, RF_GPU_digits_256_41, NO_KERNEL},
    {RF_GPU_INT_256, 4, 2, RF_GPU_digits_256_42, NO_KERNEL},
    {RF_GPU_INT_256, 8, 0, RF_GPU_digits_256_80, NO_KERNEL},
};

static const ahead_layout *layout_of(const rf_gpu_weight *w) {
    const ahead_layout *l = layouts;
    while (l->form != w->form || l->lo_bits != w->lo_bits || l->hi_bits != w->hi_bits)
        RF_ASSERT(++l < layouts + RF_COUNT(layouts));
    return l;
}

static uint32_t ahead_tiles(const rf_gpu_matmul_args *a) {
    return tiles_of(a, a->is_glu ? RF_WIDE_ROWS / 2 : RF_WIDE_ROWS);
}

/* What is multiplied: one of rf_wide_digits, or groups of 32 as they are kept. */
enum { AHEAD_KEPT_32 = RF_WIDE_DIGITS, AHEAD_KINDS };

/* How kernels that multiply it cut it: whole tiles, or halves of them; the weight rows of a block, and how long it takes for
 * 256 columns. */
typedef struct ahead_shape {
    rf_gpu_kernel kernel[AHEAD_KINDS];
    uint32_t rows, ns;
} ahead_shape;
enum { AHEAD_WHOLE, AHEAD_LOW, AHEAD_SHAPES, AHEAD_LAUNCH_NS = 3000 };
static const ahead_shape ahead_shapes[AHEAD_SHAPES] = {
    [AHEAD_WHOLE] = {{[RF_WIDE_PRODUCTS] = RF_GPU_ahead_products,
                      [RF_WIDE_SCALES] = RF_GPU_ahead_scales,
                      [RF_WIDE_MINIMA] = RF_GPU_ahead_minima,
                      [AHEAD_KEPT_32] = RF_GPU_wide_32_kept},
                     RF_WIDE_ROWS,
                     1880},
    [AHEAD_LOW] = {{[RF_WIDE_PRODUCTS] = RF_GPU_ahead_low_products,
                    [RF_WIDE_SCALES] = RF_GPU_ahead_low_scales,
                    [RF_WIDE_MINIMA] = RF_GPU_ahead_low_minima,
                    [AHEAD_KEPT_32] = RF_GPU_wide_32_kept_low},
                   RF_WIDE_ROWS / 2,
                   1180},
};

static rf_wide_digits digits_of(const rf_gpu_weight *w) {
    return !w->m ? RF_WIDE_PRODUCTS : w->lo_bits > 2 ? RF_WIDE_SCALES : RF_WIDE_MINIMA;
}

/* So many tiles in whole, behind which the others are in halves, a launch each. */
typedef struct ahead_cut {
    uint32_t n_tiles[AHEAD_SHAPES];
} ahead_cut;

static uint32_t ahead_blocks(const ahead_cut *cut, uint32_t i, uint32_t n_rows) {
    return cut->n_tiles[i] * (RF_WIDE_ROWS / ahead_shapes[i].rows) * div_up(n_rows, RF_WIDE_COLS);
}

/* How long the multiprocessor with most blocks takes; UINT64_MAX: a kernel cannot run. */
static uint64_t ahead_ns(const rf_gpu_queue *q, uint32_t kind, const rf_gpu_matmul_args *a,
                         const ahead_cut *cut) {
    uint64_t ns = 0;
    for (uint32_t i = 0; i < AHEAD_SHAPES; i++) {
        if (cut->n_tiles[i] == 0) continue;
        if (!can_run(q, ahead_shapes[i].kernel[kind])) return UINT64_MAX;
        uint32_t turns = div_up(ahead_blocks(cut, i, a->n_rows), q->info.n_units);
        ns += (uint64_t)turns * div_up(a->part[0].w.cols, 256) * ahead_shapes[i].ns;
        ns += AHEAD_LAUNCH_NS;
    }
    return ns;
}

/* The fastest cut: all of the tiles in whole, all in halves, or in whole as many as fill turns of all of the device. */
static bool ahead_cut_of(const rf_gpu_queue *q, uint32_t kind, const rf_gpu_matmul_args *a,
                         uint32_t n_tiles, ahead_cut *best) {
    uint32_t n_stretches = div_up(a->n_rows, RF_WIDE_COLS), units = q->info.n_units;
    const uint32_t whole[] = {n_tiles, 0, n_tiles * n_stretches / units * units / n_stretches};
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < RF_COUNT(whole); i++) {
        ahead_cut cut = {{[AHEAD_WHOLE] = whole[i], [AHEAD_LOW] = n_tiles - whole[i]}};
        uint64_t ns = ahead_ns(q, kind, a, &cut);
        if (ns >= least) continue;
        least = ns;
        *best = cut;
    }
    return least < UINT64_MAX;
}

/* Enough blocks for a third of the device?  Kernels for fewer rows are as fast as halves of tiles where they have scales for
 * digits, whose whole tiles are what counts there. */
static bool ahead_fills(const rf_gpu_queue *q, const ahead_cut *cut, rf_wide_digits digits,
                        uint32_t n_rows) {
    uint32_t of_halves = ahead_blocks(cut, AHEAD_LOW, n_rows);
    if (digits == RF_WIDE_SCALES) of_halves /= 2;
    return 3 * (ahead_blocks(cut, AHEAD_WHOLE, n_rows) + of_halves) >= q->info.n_units;
}

/* Multiplies the tiles from a->ahead_first on; of_tile: bytes of what is there of each. */
static void put_ahead(rf_gpu_queue *q, const rf_gpu_matmul_args *a, uint32_t kind,
                      const ahead_cut *cut, uint64_t of_tile) {
    rf_gpu_matmul_args args = *a;
    for (uint32_t i = 0; i < AHEAD_SHAPES; i++) {
        const ahead_shape *s = &ahead_shapes[i];
        uint32_t n_blocks = min_u32(ahead_blocks(cut, i, a->n_rows), q->info.n_units);
        uint32_t shared =
            kind == AHEAD_KEPT_32
                ? rf_groups_shared_bytes(rf_kept_parts(s->rows), a->part[0].w.m != NULL, 1)
                : rf_wide_shared_bytes(rf_wide_parts_of((rf_wide_digits)kind, s->rows));
        args.ahead_tiles = cut->n_tiles[i];
        if (args.ahead_tiles == 0) continue;
        rf_gpu_put_shared(q, s->kernel[kind], (rf_gpu_grid){n_blocks, 1, 1}, shared, &args,
                          sizeof args);
        args.ahead_first += args.ahead_tiles;
        args.digits += args.ahead_tiles * of_tile;
    }
}

/* How a product of groups of 256 is done with digits made ahead (mm_ahead.hip): what makes them, the bytes
 * of what is made of all activation rows and of each tile of weight rows, and shared memory. */
typedef struct ahead_way {
    rf_wide_digits digits;
    rf_gpu_kernel make;
    uint64_t of_rows, of_tile;
    uint32_t n_makers, making;
} ahead_way;

static ahead_way ahead_way_of(const rf_gpu_weight *w, uint32_t n_rows) {
    rf_wide_digits digits = digits_of(w);
    uint64_t n = w->cols / 256;
    return (ahead_way){
        .digits = digits,
        .make = layout_of(w)->make,
        .n_makers = (uint32_t)n,
        .of_tile = n * rf_ahead_w_bytes(digits),
        .of_rows = div_up(n_rows, RF_WIDE_COLS) * n * rf_ahead_x_bytes(digits),
        .making = rf_ahead_w_bytes(digits),
    };
}

/* Rows of groups of 32 as f16, with what multiplies minima (mm_wide_32.hip). */
static uint64_t wide_32_bytes(const rf_gpu_weight *w, uint32_t n_rows) {
    uint32_t n_stages = div_up(w->cols, RF_GROUPS_COLS),
             n_minima = w->m ? div_up(n_stages, RF_MINIMA_STAGES) : 0;
    return (uint64_t)div_up(n_rows, RF_WIDE_COLS) *
           ((uint64_t)n_stages * RF_GROUPS_X_BYTES + (uint64_t)n_minima * RF_MINIMA_X_BYTES +
            div_up(n_stages, RF_GROUPS_STAGES) * RF_GROUPS_STAGES);
}

size_t rf_gpu_ahead_bytes(const rf_gpu_matmul_args *a, uint32_t max_rows) {
    uint64_t most = (uint64_t)AHEAD_MOST_MB << 20, bytes = 0;
    if (a->mode != RF_GPU_MM_PLAIN || max_rows < AHEAD_MIN_ROWS) return 0;
    for (uint32_t i = 0; i < a->n_parts; i++) {
        const rf_gpu_weight *w = &a->part[i].w;
        uint64_t all = 0;
        if (w->form == RF_GPU_INT_32) all = wide_32_bytes(w, max_rows);
        if (w->form == RF_GPU_INT_256) {
            ahead_way way = ahead_way_of(w, max_rows);
            uint64_t of_tiles = ahead_tiles(a) * way.of_tile;
            all = way.of_rows + (of_tiles < most ? of_tiles : most);
        }
        if (all > bytes) bytes = all;
    }
    return (size_t)bytes;
}

/* Blocks with groups of 32 for a third of the device, and of fewer rows than usual, where formats have kernels for as few, for
 * two thirds of it in all of their turns? */
static bool groups_fill(const rf_gpu_queue *q, uint64_t n_blocks, const rf_gpu_matmul_args *a) {
    uint64_t units = q->info.n_units, turns = (n_blocks + units - 1) / units;
    bool are_few = a->n_rows < AHEAD_MIN_ROWS && rf_gpu_has_batch(&a->part[0].w);
    return 3 * n_blocks >= (are_few ? 2 * turns : 1) * units;
}

/* Makes digits of n_w tiles from ahead_first on, and of n_x stretches of activation rows. */
static void put_digits(rf_gpu_queue *q, const rf_gpu_matmul_args *a, const ahead_way *way,
                       uint32_t n_w, uint32_t n_x) {
    rf_gpu_matmul_args args = *a;
    args.ahead_tiles = n_w;
    rf_gpu_put_shared(q, way->make, (rf_gpu_grid){way->n_makers, n_w + n_x, 1}, way->making, &args,
                      sizeof args);
}

/* With digits that are kept, or of as many weight rows at a time as there is room for. */
static bool launch_256(rf_gpu_queue *q, rf_gpu_matmul_args *a) {
    ahead_way way = ahead_way_of(&a->part[0].w, a->n_rows);
    uint32_t n_tiles = ahead_tiles(a), n_stretches = div_up(a->n_rows, RF_WIDE_COLS);
    uint64_t made = a->kept ? 0 : way.of_tile;
    if (!can_run(q, way.make)) return false;
    if (a->ahead_bytes < way.of_rows + made) return false;
    uint64_t room = made ? (a->ahead_bytes - way.of_rows) / made : n_tiles;
    uint32_t most = room < n_tiles ? (uint32_t)room : n_tiles,
             step = div_up(n_tiles, div_up(n_tiles, most));
    ahead_cut cut;
    if (!ahead_cut_of(q, way.digits, a, step, &cut) || !ahead_fills(q, &cut, way.digits, a->n_rows))
        return false;
    if (a->x) rf_gpu_quantise_rows(q, a);
    a->digits = a->kept ? a->kept : a->ahead + way.of_rows;
    for (a->ahead_first = 0; a->ahead_first < n_tiles; a->ahead_first += step) {
        uint32_t n = min_u32(step, n_tiles - a->ahead_first);
        if (n < step) (void)ahead_cut_of(q, way.digits, a, n, &cut); /* it could */
        put_digits(q, a, &way, a->kept ? 0 : n, a->ahead_first == 0 ? n_stretches : 0);
        put_ahead(q, a, way.digits, &cut, way.of_tile);
    }
    return true;
}

/* With weights that are kept, or as they lie in memory. */
static bool launch_32(rf_gpu_queue *q, rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    const ahead_layout *k = layout_of(w);
    uint32_t n_tiles = ahead_tiles(a), n_stretches = div_up(a->n_rows, RF_WIDE_COLS),
             with_m = w->m != NULL, of_maker = RF_GROUPS_COLS * (with_m ? RF_MINIMA_STAGES : 1);
    rf_groups_parts parts = rf_groups_parts_of(w->lo_bits, w->hi_bits);
    ahead_cut cut;
    bool is_kept =
        a->kept && can_run(q, k->make) && ahead_cut_of(q, AHEAD_KEPT_32, a, n_tiles, &cut);
    if (!is_kept) cut = (ahead_cut){{[AHEAD_WHOLE] = n_tiles}};
    uint32_t n_blocks = ahead_blocks(&cut, AHEAD_WHOLE, a->n_rows),
             n_low = ahead_blocks(&cut, AHEAD_LOW, a->n_rows);
    if (!can_run(q, RF_GPU_wide_rows_32) || (!is_kept && !can_run(q, k->wide))) return false;
    if (a->ahead_bytes < wide_32_bytes(w, a->n_rows) || !groups_fill(q, n_blocks + n_low, a))
        return false;
    if (with_m && w->cols <= RF_GROUPS_COLS) return false; /* see groups_bring_minima */
    a->digits = a->kept;
    a->ahead_first = 0;
    a->ahead_tiles = n_tiles;
    rf_gpu_put_shared(
        q, RF_GPU_wide_rows_32, (rf_gpu_grid){div_up(w->cols, of_maker), n_stretches, 1},
        with_m ? RF_MINIMA_X_AT + RF_MINIMA_X_BYTES : RF_GROUPS_X_BYTES, a, sizeof *a);
    if (is_kept)
        put_ahead(q, a, AHEAD_KEPT_32, &cut,
                  div_up(w->cols, RF_GROUPS_COLS) * (uint64_t)RF_KEPT_BYTES);
    else
        rf_gpu_put_shared(q, k->wide, (rf_gpu_grid){min_u32(n_blocks, q->info.n_units), 1, 1},
                          rf_groups_shared_bytes(parts, with_m, 0), a, sizeof *a);
    return true;
}

bool rf_gpu_launch_ahead(rf_gpu_queue *q, rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    bool is_32 = w->form == RF_GPU_INT_32;
    uint32_t least = is_32 ? GROUPS_MIN_ROWS : a->kept ? KEPT_MIN_ROWS : AHEAD_MIN_ROWS;
    if (w->form < RF_GPU_INT_32 || a->mode != RF_GPU_MM_PLAIN || !a->ahead || a->n_rows < least)
        return false;
    return is_32 ? launch_32(q, a) : launch_256(q, a);
}

/* What is kept ------------------------------------------------------------------------------------*/

uint64_t rf_gpu_group_kept_bytes(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    if (w->form < RF_GPU_INT_32 || a->mode != RF_GPU_MM_PLAIN || !a->ahead) return 0;
    if (w->form == RF_GPU_INT_32) {
        bool is_there = q->function[RF_GPU_wide_32_kept] && q->function[layout_of(w)->make];
        return is_there ? (uint64_t)ahead_tiles(a) * div_up(w->cols, RF_GROUPS_COLS) * RF_KEPT_BYTES
                        : 0;
    }
    ahead_way way = ahead_way_of(w, 0);
    bool are_there =
        q->function[ahead_shapes[AHEAD_WHOLE].kernel[way.digits]] && q->function[way.make];
    return are_there ? ahead_tiles(a) * way.of_tile : 0;
}

uint64_t rf_gpu_kept_bytes(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    rf_gpu_matmul_args args = *a;
    uint64_t bytes = 0;
    args.norm.n = 0;
    for (uint32_t i = 0; i < a->n_parts; i += args.n_parts) {
        rf_gpu_take_group(&args, a, i);
        bytes += rf_gpu_group_kept_bytes(q, &args);
    }
    return bytes;
}

/* Makes what is kept of a group that is launched together. */
static void put_kept(rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    rf_gpu_kernel keep = layout_of(w)->make;
    if (!can_run(q, keep)) return;
    if (w->form == RF_GPU_INT_32) {
        rf_gpu_grid grid = {div_up(w->cols, RF_GROUPS_COLS), ahead_tiles(a), 1};
        rf_gpu_put_shared(q, keep, grid, RF_KEPT_BYTES, a, sizeof *a);
    } else {
        ahead_way way = ahead_way_of(w, 0);
        put_digits(q, a, &way, ahead_tiles(a), 0);
    }
}

void rf_gpu_op_keep(rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    rf_gpu_matmul_args args = *a;
    args.norm.n = 0;
    for (uint32_t i = 0; i < a->n_parts; i += args.n_parts) {
        rf_gpu_take_group(&args, a, i);
        uint64_t bytes = rf_gpu_group_kept_bytes(q, &args);
        args.digits = args.kept;
        args.ahead_first = 0;
        if (bytes) put_kept(q, &args);
        args.kept += bytes;
    }
}
