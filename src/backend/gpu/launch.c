/* launch.c - which kernel runs an op, over what grid. */
#include "backend/gpu/launch.h"

enum {
    FLOAT_ROWS = 16,
    FLOAT_NT = 4,
    PIECE = 4096,
    VEC_MAX_ROWS_32 = 32, /* activation rows from which on tiles are faster */
    VEC_MAX_ROWS_256 = 64,
    VEC_FEW_TILES = 256, /* that leave multiprocessors idle */
    ATTEND_VALUE_BYTES = 32 << 10,
    ATTEND_STEP_BLOCKS = 4,
    ATTEND_FEW = 512, /* heads of rows */
    MAX_GRID_Y = 65535,
};

static const uint32_t blocks[RF_GPU_KERNEL_COUNT] = {
#define X(name, args, block) [RF_GPU_##name] = block,
#include "backend/gpu/kernels.def"
#undef X
};

static uint32_t div_up(uint32_t a, uint32_t b) { return a / b + (a % b != 0); }
static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void put(rf_gpu_queue *q, rf_gpu_kernel k, uint32_t x, uint32_t y, uint32_t z,
                const void *args, size_t bytes) {
    if (x == 0 || y == 0 || z == 0) return;
    rf_gpu_launch(q, k, (rf_gpu_grid){x, y, z}, blocks[k], 0, args, bytes);
}

void rf_gpu_op_norm(rf_gpu_queue *q, const rf_gpu_norm_args *a) {
    put(q, RF_GPU_norm_rows, a->n_items, a->n > 0, 1, a, sizeof *a);
}

void rf_gpu_op_quant(rf_gpu_queue *q, const rf_gpu_quant_args *a) {
    put(q, RF_GPU_quant_rows, a->n_rows, div_up(a->cols, PIECE), 1, a, sizeof *a);
}

void rf_gpu_op_heads(rf_gpu_queue *q, const rf_gpu_heads_args *a) {
    uint32_t n_heads = 0;
    for (uint32_t i = 0; i < a->n_parts; i++)
        n_heads += a->part[i].n_heads;
    put(q, RF_GPU_heads, a->n_rows, n_heads, 1, a, sizeof *a);
}

/* One query head per block while there are few rows, else four; values pass through shared memory
 * in steps of as many KV blocks as it holds. */
void rf_gpu_op_attend(rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    rf_gpu_attend_args args = *a;
    uint32_t per_kv = a->n_heads / a->n_kv_heads;
    uint32_t v_block = 32 * (a->v ? a->value_dim : a->head_dim) * (a->kv_f16 ? 2 : 4);
    args.step_blocks = min_u32(ATTEND_VALUE_BYTES / v_block, ATTEND_STEP_BLOCKS);
    bool alone = per_kv == 1 || (uint64_t)a->n_rows * a->n_heads <= ATTEND_FEW;
    put(q, alone ? RF_GPU_attend_1 : RF_GPU_attend_4, a->n_rows, a->n_kv_heads,
        alone ? per_kv : div_up(per_kv, 4), &args, sizeof args);
}

void rf_gpu_op_each(rf_gpu_queue *q, const rf_gpu_each_args *a) {
    put(q, RF_GPU_each, div_up(a->cols, blocks[RF_GPU_each]), min_u32(a->n_rows, MAX_GRID_Y), 1, a,
        sizeof *a);
}

void rf_gpu_op_copy(rf_gpu_queue *q, const rf_gpu_copy_args *a) {
    put(q, RF_GPU_copy, div_up(a->n_heads * a->n, blocks[RF_GPU_copy]),
        min_u32(a->n_rows, MAX_GRID_Y), 1, a, sizeof *a);
}

void rf_gpu_op_route(rf_gpu_queue *q, const rf_gpu_route_args *a) {
    put(q, RF_GPU_route, a->n_rows, a->n_experts > 0, 1, a, sizeof *a);
}

void rf_gpu_op_mix(rf_gpu_queue *q, const rf_gpu_mix_args *a) {
    put(q, RF_GPU_mix, div_up(a->cols, blocks[RF_GPU_mix]), min_u32(a->n_rows, MAX_GRID_Y), 1, a,
        sizeof *a);
}

/* Matrix products -------------------------------------------------------------------------------*/

bool rf_gpu_same_layout(const rf_gpu_weight *a, const rf_gpu_weight *b) {
    bool both_min = !a->m == !b->m;
    return a->form == b->form && a->lo_bits == b->lo_bits && a->hi_bits == b->hi_bits && both_min &&
           a->cols == b->cols && a->planes == b->planes;
}

size_t rf_gpu_lists_bytes(uint32_t max_rows, uint32_t n_used, uint32_t n_experts) {
    return ((size_t)n_experts + 1 + (size_t)max_rows * n_used) * sizeof(uint32_t);
}

/* The kernels of one layout of integers: for 1, 2, 4 and 8 activation rows, and for many. */
typedef struct int_kernels {
    rf_gpu_form form;
    uint32_t lo_bits, hi_bits;
    rf_gpu_kernel vec[4], tile;
} int_kernels;

#define INT_KERNELS(view, lo, hi)                                                 \
    {                                                                             \
        RF_GPU_INT_##view, lo, hi,                                                \
            {RF_GPU_vec_##view##_##lo##hi##_1, RF_GPU_vec_##view##_##lo##hi##_2,  \
             RF_GPU_vec_##view##_##lo##hi##_4, RF_GPU_vec_##view##_##lo##hi##_8}, \
            RF_GPU_tile_##view##_##lo##hi                                         \
    }
static const int_kernels layouts[] = {
    INT_KERNELS(32, 4, 0),  INT_KERNELS(32, 4, 1),  INT_KERNELS(32, 8, 0),
    INT_KERNELS(256, 2, 0), INT_KERNELS(256, 2, 1), INT_KERNELS(256, 4, 0),
    INT_KERNELS(256, 4, 1), INT_KERNELS(256, 4, 2), INT_KERNELS(256, 8, 0),
};

static const int_kernels *int_kernels_of(const rf_gpu_weight *w) {
    const int_kernels *l = layouts;
    while (l->form != (rf_gpu_form)w->form || l->lo_bits != w->lo_bits || l->hi_bits != w->hi_bits)
        RF_ASSERT(++l < layouts + RF_COUNT(layouts));
    return l;
}

/* Few rows per expert: each alone; else the rows of an expert together. */
static bool wants_lists(const rf_gpu_matmul_args *a) {
    return a->mode == RF_GPU_MM_EXPERTS && a->lists && a->n_rows * a->n_used > a->part[0].w.planes;
}

/* How a product is cut: the kernel, its weight rows and its activation rows per block. */
typedef struct shape {
    rf_gpu_kernel kernel;
    uint32_t rows, cols;
} shape;

static shape shape_of(const rf_gpu_weight *w, uint32_t n_rows, uint32_t n_tiles) {
    if (w->form <= RF_GPU_BF16) return (shape){RF_GPU_mm_float, FLOAT_ROWS, FLOAT_NT};
    const int_kernels *k = int_kernels_of(w);
    if (n_rows > (w->form == RF_GPU_INT_256 ? VEC_MAX_ROWS_256 : VEC_MAX_ROWS_32))
        return (shape){k->tile, RF_GPU_BLOCK_ROWS, RF_GPU_BLOCK_COLS};
    uint32_t log2_rows = n_tiles <= VEC_FEW_TILES; /* the kernel of two has more threads a tile */
    while (log2_rows < 3 && 1u << log2_rows < n_rows)
        log2_rows++;
    return (shape){k->vec[log2_rows], RF_GPU_TILE_ROWS, 1u << log2_rows};
}

static uint32_t tiles_of(const rf_gpu_matmul_args *a, uint32_t rows) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < (a->is_glu ? 1 : a->n_parts); i++)
        n += div_up(a->part[i].w.rows, rows);
    return n;
}

/* One launch; n_rows: how many activation rows a matrix may meet; y: matrices or items. */
static void launch_product(rf_gpu_queue *q, const rf_gpu_matmul_args *a, uint32_t n_rows,
                           uint32_t y) {
    shape s = shape_of(&a->part[0].w, n_rows, tiles_of(a, RF_GPU_TILE_ROWS) * y);
    put(q, s.kernel, tiles_of(a, s.rows), y, div_up(n_rows, s.cols), a, sizeof *a);
}

static void launch_group(rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    if (a->mode == RF_GPU_MM_PLAIN)
        launch_product(q, a, a->n_rows, 1);
    else if (a->mode == RF_GPU_MM_HEADS || a->lists)
        launch_product(q, a, a->n_rows, w->planes);
    else
        launch_product(q, a, 1, a->n_rows * a->n_used);
}

void rf_gpu_op_matmul(rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    rf_gpu_matmul_args args = *a;
    if (a->n_rows == 0 || a->n_parts == 0) return;
    if (wants_lists(a)) {
        rf_gpu_lists_args lists = {a->route, a->lists, a->n_rows, a->n_used, a->part[0].w.planes};
        put(q, RF_GPU_lists, 1, 1, 1, &lists, sizeof lists);
    } else {
        args.lists = NULL;
    }
    bool together = true;
    for (uint32_t i = 1; i < a->n_parts; i++)
        together = together && rf_gpu_same_layout(&a->part[0].w, &a->part[i].w);
    if (together || a->is_glu) {
        launch_group(q, &args);
        return;
    }
    args.n_parts = 1;
    for (uint32_t i = 0; i < a->n_parts; i++) {
        args.part[0] = a->part[i];
        launch_group(q, &args);
    }
}
