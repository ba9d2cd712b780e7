/* launch_products.c - which kernels matrix products run by, over what grid: by the weights' layout and the number of
 * activation rows. */
#include "backend/gpu/lists.h"
#include "backend/gpu/put.h"
#include "backend/gpu/tile.h"
#include "model/model.h"

enum {
    FLOAT_ROWS = 16,
    FLOAT_NT = 4,
    FLOAT_ONE_BLOCKS = 2, /* of a multiprocessor, side by side */
    FLOAT_ONE_MIN_TURNS = 3,
    VEC_MAX_ROWS_NVIDIA = 2,
    VEC_MAX_ROWS = 8,        /* activation rows; from more on tiles are faster */
    ROUTER_BLOCKS = 32,      /* of mm_router.hip, an output each, for each unit of the device */
    ONE_MAX_TILES = 256,     /* from more on smaller blocks are faster */
    NORMED_FREE_COLS = 2048, /* so short rows are normed by each block, however many there are */
    BATCH_MIN_ROWS = 3,      /* of mm_batch.hip, */
    BATCH_MIN_TALL = 2,      /* where blocks are tall, */
    BATCH_MAX_ROWS = 255,    /* and most; */
    BATCH_MAX_EXPERT = 64,   /* of an expert */
    WIDE_MIN_ROWS = 65,      /* of mm_wide.hip */
    AHEAD_MIN_ROWS = 256,    /* of mm_ahead.hip and mm_wide_32.hip, */
    KEPT_MIN_ROWS = 65,      /* with digits that are there, */
    GROUPS_MIN_ROWS = 65,    /* of groups of 32 where tiles fill the device */
    AHEAD_MOST_MB = 128,     /* digits of weights that there is room for */
    HALF_WIDE_MIN_ROWS = 65, /* of half_wide.hip */
    HALF_TILE_MIN_ROWS = 65, /* of half_tile.hip */
    EXPERT_ROWS = 16,        /* activation rows of a block of one expert's, */
    EXPERT_WIDE_ROWS = 48,   /* and from how many on mm_wide.hip is better */
    SHARE_OF_BYTES =
        65, /* rf_gpu_share, percent, of one row by bytes: the next blocks have room beside it */
};

bool rf_gpu_same_layout(const rf_gpu_weight *a, const rf_gpu_weight *b) {
    bool both_min = !a->m == !b->m;
    return a->form == b->form && a->lo_bits == b->lo_bits && a->hi_bits == b->hi_bits && both_min &&
           a->cols == b->cols && a->planes == b->planes && a->off == b->off &&
           a->n_scales == b->n_scales && a->d_f32 == b->d_f32;
}

size_t rf_gpu_lists_bytes(uint32_t max_rows, uint32_t n_used, uint32_t n_experts) {
    uint32_t n_items = max_rows * n_used;
    return rf_lists_at(n_items, n_experts, 1 << RF_LISTS_WIDTHS) * sizeof(rf_gpu_unit) +
           n_items * sizeof(uint32_t);
}

/* The kernels of one layout of integers: for 1, 2, 4 and 8 activation rows, for one row and not many
 * tiles, for one and few long weight rows, for one that is yet to be normed, for its experts' mix, for
 * experts that blocks choose, tiles by size, and on Hopper what makes digits of groups of 256 ahead, or
 * multiplies groups of 32 with rows made f16 ahead, and what makes what is kept of the weights. */
typedef struct int_kernels {
    uint32_t view, lo_bits, hi_bits;
    rf_gpu_kernel vec[4], one, few, normed, mix, choose, tile[RF_TILE_SIZES], ahead, keep;
} int_kernels;

/* NVIDIA's kernels for formats of one layout and so many scales, with minima or without, and factors that may
 * be f32: for some activation rows, by how many weight rows a block has. */
typedef struct matrix_kernels {
    uint32_t view, lo_bits, hi_bits, n_scales, with_m, wide_d;
    rf_gpu_kernel low[RF_BATCH_WIDTHS], middle[RF_BATCH_WIDTHS], tall[RF_BATCH_WIDTHS];
    rf_gpu_kernel small; /* of experts, up to 8 rows */
} matrix_kernels;

#define BATCH_KERNELS(layout, height)                                                    \
    {                                                                                    \
        RF_GPU_batch_##layout##_##height##_8, RF_GPU_batch_##layout##_##height##_16,     \
            RF_GPU_batch_##layout##_##height##_32, RF_GPU_batch_##layout##_##height##_64 \
    }
static const matrix_kernels matrix_layouts[] = {
#define BATCH_LAYOUT(layout, view, lo_bits, hi_bits, n_scales, with_m, wide_d) \
    {view,                                                                     \
     lo_bits,                                                                  \
     hi_bits,                                                                  \
     n_scales,                                                                 \
     with_m,                                                                   \
     wide_d,                                                                   \
     BATCH_KERNELS(layout, low),                                               \
     BATCH_KERNELS(layout, middle),                                            \
     BATCH_KERNELS(layout, tall),                                              \
     RF_GPU_batch_##layout##_small_8},
#include "backend/gpu/batch.def"
};

/* Hopper's kernel for many rows. */
static rf_gpu_kernel wide_kernel_of(const matrix_kernels *k) {
    if (k->small == RF_GPU_batch_256_40_small_8) return RF_GPU_wide_256_40;
    if (k->small == RF_GPU_batch_256_41_small_8) return RF_GPU_wide_256_41;
    return k->small == RF_GPU_batch_256_42_small_8 ? RF_GPU_wide_256_42 : NO_KERNEL;
}

#define INT_KERNELS(view, lo, hi, few, ahead, keep)                                         \
    {                                                                                       \
        view, lo, hi,                                                                       \
            {RF_GPU_vec_##view##_##lo##hi##_1, RF_GPU_vec_##view##_##lo##hi##_2,            \
             RF_GPU_vec_##view##_##lo##hi##_4, RF_GPU_vec_##view##_##lo##hi##_8},           \
            RF_GPU_one_##view##_##lo##hi, few, RF_GPU_normed_##view##_##lo##hi,             \
            RF_GPU_mix_##view##_##lo##hi, RF_GPU_choose_##view##_##lo##hi,                  \
            {RF_GPU_tile_##view##_##lo##hi##_large, RF_GPU_tile_##view##_##lo##hi##_middle, \
             RF_GPU_tile_##view##_##lo##hi##_small},                                        \
            RF_GPU_##ahead##_##view##_##lo##hi, RF_GPU_##keep##_##view##_##lo##hi,          \
    }
static const int_kernels layouts[] = {
    INT_KERNELS(32, 4, 0, RF_GPU_few_32_40, wide, keep),
    INT_KERNELS(32, 4, 1, RF_GPU_few_32_41, wide, keep),
    INT_KERNELS(32, 8, 0, NO_KERNEL, wide, keep),
    INT_KERNELS(256, 2, 0, RF_GPU_few_256_20, digits, digits),
    INT_KERNELS(256, 2, 1, RF_GPU_few_256_21, digits, digits),
    INT_KERNELS(256, 4, 0, RF_GPU_few_256_40, digits, digits),
    INT_KERNELS(256, 4, 1, RF_GPU_few_256_41, digits, digits),
    INT_KERNELS(256, 4, 2, RF_GPU_few_256_42, digits, digits),
    INT_KERNELS(256, 8, 0, NO_KERNEL, digits, digits),
};

static const int_kernels *int_kernels_of(const rf_gpu_weight *w) {
    const uint32_t view = w->form == RF_GPU_INT_256 ? 256 : 32;
    const int_kernels *l = layouts;
    while (l->view != view || l->lo_bits != w->lo_bits || l->hi_bits != w->hi_bits)
        RF_ASSERT(++l < layouts + RF_COUNT(layouts));
    return l;
}

/* Few rows: each with its experts alone; else the rows of an expert together, which NVIDIA's kernels for
 * some rows are good for before most experts have one. */
static bool wants_lists(const rf_gpu_queue *q, uint32_t n_rows, uint32_t n_used,
                        uint32_t n_experts) {
    uint32_t n_items = n_rows * n_used;
    bool are_few = is_nvidia(q) ? 2 * n_items < n_experts : n_items <= n_experts;
    return !are_few && !q->left_out[RF_GPU_lists];
}

void rf_gpu_op_lists(rf_gpu_queue *q, const rf_gpu_lists_args *a) {
    if (wants_lists(q, a->n_rows, a->n_used, a->n_experts))
        rf_gpu_put(q, RF_GPU_lists, a->n_experts, 1, 1, a, sizeof *a);
}

static uint32_t tiles_of(const rf_gpu_matmul_args *a, uint32_t rows) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < (a->is_glu ? 1 : a->n_parts); i++)
        n += div_up(a->part[i].w.rows, rows);
    return n;
}

/* How a product is cut: the kernel, its weight rows and its activation rows per block. */
typedef struct shape {
    rf_gpu_kernel kernel;
    uint32_t rows, cols, shared_bytes;
    bool goes_on; /* a block goes through many tiles, so that a block per unit is enough */
} shape;

/* With is_glu the two halves of a large block are rows of either matrix. */
static shape tile_of(const rf_gpu_queue *q, const rf_gpu_matmul_args *a, uint32_t size) {
    const int_kernels *k = int_kernels_of(&a->part[0].w);
    rf_tile_shape s = rf_tile_shape_of(size, is_amd(q) ? 32 : 0);
    uint32_t rows = a->is_glu && s.m == 2 ? rf_tile_rows(s) / 2 : rf_tile_rows(s);
    return (shape){k->tile[size], rows, rf_tile_cols(s),
                   rf_tile_shared_bytes(s, k->view, k->lo_bits, k->hi_bits), false};
}

/* NULL: the layout has none. */
static const matrix_kernels *matrix_kernels_of(const rf_gpu_weight *w) {
    const uint32_t view = w->form == RF_GPU_INT_256 ? 256 : 32;
    for (size_t i = 0; i < RF_COUNT(matrix_layouts); i++) {
        const matrix_kernels *k = &matrix_layouts[i];
        if (view == k->view && w->lo_bits == k->lo_bits && w->hi_bits == k->hi_bits &&
            (view == 32 || w->n_scales == k->n_scales) && k->with_m == (w->m != NULL) &&
            (k->wide_d || !w->d_f32) && w->cols % 64 == 0)
            return k;
    }
    return NULL;
}

/* Slots of a block that leaves half of its multiprocessor's memory to blocks of the next kernels, which begin while it
 * runs; more than warps take turns at. */
static uint32_t batch_few_slots(const rf_gpu_queue *q, rf_batch_shape s, uint32_t slot) {
    uint32_t n = rf_batch_slots(s, slot, room_of_block(q, 2));
    return n > s.wk + 2 ? n : s.wk + 2;
}

/* Some rows on matrix units by blocks of one height and width: the bytes that a multiprocessor with the
 * most of them brings for each 256 columns; UINT64_MAX: they do not fit, or are too few to run side by side, where twice
 * as many low ones are faster. */
static uint64_t batch_of(const rf_gpu_queue *q, const rf_gpu_matmul_args *a,
                         const matrix_kernels *k, uint32_t height, uint32_t width, uint32_t n_rows,
                         uint32_t y, shape *out) {
    const rf_gpu_kernel kernels[] = {k->low[width], k->middle[width], k->tall[width], k->small};
    rf_batch_shape s = rf_batch_shape_of(k->view, k->lo_bits, height, 1u << width);
    uint32_t slot =
        rf_batch_parts_of(s, k->view, k->lo_bits, k->hi_bits, k->n_scales, k->with_m, k->wide_d)
            .bytes;
    uint32_t room = room_of_block(q, s.blocks);
    uint32_t n_slots = rf_batch_slots(s, slot, room), rows = 16 * s.wm / (1 + a->is_glu);
    if (!can_run(q, kernels[height]) || n_slots <= s.wk) return UINT64_MAX;
    if (s.blocks == 1 && height <= RF_BATCH_MIDDLE)
        n_slots = min_u32(n_slots, batch_few_slots(q, s, slot));
    *out = (shape){kernels[height], rows, 8 * s.nt,
                   RF_BATCH_HEAD + rf_batch_relay_bytes(s) + n_slots * slot, false};
    uint64_t n_blocks = (uint64_t)tiles_of(a, rows) * div_up(n_rows, out->cols) * y;
    if (s.blocks > 1 && height == RF_BATCH_MIDDLE && n_blocks <= s.blocks * q->info.n_units)
        return UINT64_MAX;
    return (n_blocks + q->info.n_units - 1) / q->info.n_units * slot;
}

/* The blocks that cost least, and what they do; UINT64_MAX: none.  Lists are of blocks for all of the usual rows,
 * small ones where they fit. */
static uint64_t batch_shape(const rf_gpu_queue *q, const rf_gpu_matmul_args *a, uint32_t n_rows,
                            uint32_t y, shape *out) {
    const matrix_kernels *k = matrix_kernels_of(&a->part[0].w);
    uint32_t most = a->lists ? BATCH_MAX_EXPERT : BATCH_MAX_ROWS;
    if (!k || n_rows < BATCH_MIN_TALL || n_rows > most) return UINT64_MAX;
    uint32_t all = n_rows > 32 ? 3 : n_rows > 16 ? 2 : n_rows > 8;
    uint32_t best = RF_BATCH_LOW;
    uint64_t least = UINT64_MAX;
    if (a->lists && all == 0 && n_rows >= BATCH_MIN_ROWS) {
        least = batch_of(q, a, k, RF_BATCH_SMALL, 0, n_rows, y, out);
        if (least < UINT64_MAX) return least;
    }
    for (uint32_t width = a->lists ? all : 0; width <= all; width++)
        for (uint32_t height = RF_BATCH_LOW; height <= RF_BATCH_TALL; height++) {
            shape s;
            uint64_t cost = batch_of(q, a, k, height, width, n_rows, y, &s);
            if (cost >= least) continue;
            least = cost;
            best = height;
            *out = s;
        }
    return n_rows >= BATCH_MIN_ROWS || best == RF_BATCH_TALL ? least : UINT64_MAX;
}

/* Hopper's own kernel, where it has blocks for a quarter of the device.  Before mm_batch.hip it comes where weights have
 * no minima, whose products those kernels take longest for, and there are blocks for all of the device. */
static bool wide_shape(const rf_gpu_queue *q, const rf_gpu_matmul_args *a, uint32_t n_rows,
                       uint32_t y, bool before_batch, shape *out) {
    const matrix_kernels *k = matrix_kernels_of(&a->part[0].w);
    if (!k || n_rows < WIDE_MIN_ROWS || (before_batch && k->with_m)) return false;
    rf_wide_digits digits = k->with_m ? RF_WIDE_SCALES : RF_WIDE_PRODUCTS;
    *out = (shape){wide_kernel_of(k), a->is_glu ? RF_WIDE_ROWS / 2 : RF_WIDE_ROWS, RF_WIDE_COLS,
                   rf_wide_shared_bytes(rf_wide_parts_of(digits, RF_WIDE_ROWS)), true};
    uint32_t n_tiles = tiles_of(a, out->rows);
    uint64_t n_blocks = (uint64_t)n_tiles * div_up(n_rows, out->cols) * y;
    return can_run(q, out->kernel) && (before_batch ? 1 : 4) * n_blocks >= q->info.n_units &&
           out->shared_bytes <= q->info.lds_bytes;
}

/* The largest tiles that fit the device and keep most of it busy. */
static shape tile_shape(const rf_gpu_queue *q, const rf_gpu_matmul_args *a, uint32_t n_rows,
                        uint32_t y) {
    for (uint32_t size = 0;; size++) {
        shape s = tile_of(q, a, size);
        uint64_t n_blocks = (uint64_t)tiles_of(a, s.rows) * div_up(n_rows, s.cols) * y;
        bool small = n_rows <= s.cols / 2 || s.shared_bytes > q->info.lds_bytes;
        if (size == 0) small = small || 4 * n_blocks < 3 * (uint64_t)q->info.n_units;
        if (!small || size + 1 == RF_TILE_SIZES) return s;
    }
}

/* Weight rows of a block with one activation row: with is_glu it has half a tile of either matrix. */
static uint32_t one_rows(const rf_gpu_matmul_args *a) {
    return a->is_glu ? RF_GPU_TILE_ROWS / 2 : RF_GPU_TILE_ROWS;
}

/* A kernel of the layout that is not left out, s itself if it can be. */
static shape sound_shape(const rf_gpu_queue *q, const rf_gpu_matmul_args *a, shape s) {
    if (!q->left_out[s.kernel]) return s;
    const int_kernels *k = int_kernels_of(&a->part[0].w);
    for (uint32_t i = 4; i-- > 0;) {
        if (!q->left_out[k->vec[i]])
            return (shape){k->vec[i], i ? RF_GPU_TILE_ROWS : one_rows(a), 1u << i, 0, false};
    }
    for (uint32_t size = RF_TILE_SIZES; size-- > 0;) {
        shape tile = tile_of(q, a, size);
        if (!q->left_out[tile.kernel] && tile.shared_bytes <= q->info.lds_bytes) return tile;
    }
    return s; /* has_substitute said that this cannot be */
}

/* Few outputs in all. */
static bool fits_router(const rf_gpu_queue *q, const rf_gpu_matmul_args *a, uint32_t n_rows) {
    const rf_gpu_weight *w = &a->part[0].w;
    return a->mode == RF_GPU_MM_PLAIN && a->n_parts == 1 && w->rows <= RF_MAX_EXPERTS &&
           (uint64_t)w->rows * n_rows <= ROUTER_BLOCKS * (uint64_t)q->info.n_units &&
           w->cols % 8 == 0 && can_run(q, RF_GPU_mm_router);
}

/* Floats of 16 bits whose rows are whole pieces of sixteen bytes. */
static bool has_halves(const rf_gpu_weight *w) {
    return (w->form == RF_GPU_F16 || w->form == RF_GPU_BF16) && w->cols % 8 == 0;
}

/* By half.h's rule, which holds for a matrix whatever it is multiplied with: a row's outputs are the same in
 * any batch, by whichever of its kernels, of which one does the work of all others. */
static bool takes_halves(const rf_gpu_queue *q, const rf_gpu_weight *w) {
    return q->fast_floats && has_halves(w) && can_run(q, RF_GPU_half_rows) &&
           can_run(q, is_amd(q) ? RF_GPU_half_wave_16 : RF_GPU_half_8);
}

/* Few outputs of one row that is yet to be normed: each block norms it, so short that it does that at once. */
static bool norms_scores(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    const rf_gpu_norm_args *n = &a->norm;
    return n->n && a->n_rows == 1 && !takes_halves(q, w) && a->mode == RF_GPU_MM_PLAIN &&
           a->n_parts == 1 && w->form <= RF_GPU_BF16 && w->rows <= RF_MAX_EXPERTS &&
           w->rows <= ROUTER_BLOCKS * q->info.n_units && n->kind == RF_GPU_RMS_NORM && !n->b &&
           n->n == w->cols && n->n <= RF_GPU_ROUTER_COLS && can_run(q, RF_GPU_router_normed);
}

/* Several rows of floats; NVIDIA's blocks have what they bring ahead in all of a multiprocessor's shared
 * memory. */
static shape float_rows_shape(const rf_gpu_queue *q, const rf_gpu_matmul_args *a, rf_gpu_kernel k,
                              uint32_t n_rows, uint32_t cols, uint32_t y) {
    rf_fr_shape s = rf_fr_shape_of(cols, rf_gpu_block[k], 0);
    uint64_t n_blocks = (uint64_t)tiles_of(a, RF_FR_ROWS) * div_up(n_rows, cols) * y;
    uint32_t most = cols <= 16 ? 3 : 2, side_by_side = 1;
    while (side_by_side < most && n_blocks > (uint64_t)side_by_side * q->info.n_units)
        side_by_side++;
    uint32_t n_stages = rf_fr_stages(s, room_of_block(q, side_by_side));
    return (shape){k, RF_FR_ROWS, cols, rf_fr_shared_bytes(s, n_stages < 3 ? 3 : n_stages), false};
}

/* Weight rows of a tile of one row's product: where blocks stay for many tiles, as few as let all of them
 * have equally many. */
static uint32_t float_one_rows(const rf_gpu_queue *q, const rf_gpu_matmul_args *a, uint32_t y) {
    uint32_t stay = FLOAT_ONE_BLOCKS * q->info.n_units, rows = RF_F1_ROWS;
    uint32_t turns = div_up(tiles_of(a, rows), stay);
    if (!is_nvidia(q) || y > 1 || turns < FLOAT_ONE_MIN_TURNS) return rows;
    while (tiles_of(a, rows - 1) <= turns * stay)
        rows--;
    return rows;
}

/* One row of sixteen bits and several rows have kernels of their own. */
static shape float_shape(const rf_gpu_queue *q, const rf_gpu_matmul_args *a, uint32_t n_rows,
                         uint32_t y) {
    static const rf_gpu_kernel kernels[] = {RF_GPU_mm_float_4, RF_GPU_mm_float_8,
                                            RF_GPU_mm_float_16, RF_GPU_mm_float_32};
    const rf_gpu_weight *w = &a->part[0].w;
    uint32_t i = n_rows > 16 ? 3 : n_rows > 8 ? 2 : n_rows > 4;
    while (i > 0 && !can_run(q, kernels[i]))
        i--;
    bool is_one = n_rows == 1 && w->form != RF_GPU_F32;
    if (w->cols % 8 == 0 && is_one && !q->left_out[RF_GPU_float_one])
        return (shape){RF_GPU_float_one, float_one_rows(q, a, y), 1,
                       is_nvidia(q) ? rf_f1_shared_bytes() : 0, false};
    if (w->cols % 8 == 0 && n_rows > 1 && can_run(q, kernels[i]))
        return float_rows_shape(q, a, kernels[i], n_rows, 4u << i, y);
    return (shape){RF_GPU_mm_float, FLOAT_ROWS, FLOAT_NT, 0, false};
}

/* Weight rows of a smaller tile, where there are so few that all of these find room at once, and so long
 * that a whole tile takes some rounds; else 0. */
static uint32_t few_rows(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const int_kernels *k = int_kernels_of(&a->part[0].w);
    bool is_256 = k->view == 256, is_plain = a->x && a->mode == RF_GPU_MM_PLAIN && !a->is_glu;
    uint32_t split = is_256 ? RF_GPU_FEW_SPLIT_256 : RF_GPU_FEW_SPLIT_32;
    uint32_t rows = RF_GPU_TILE_ROWS / split;
    bool is_long =
        a->part[0].w.cols > rf_gpu_block[k->one] * (is_256 ? 8 : 4); /* columns of a thread */
    bool fits = is_plain && is_long && tiles_of(a, rows) <= q->info.n_units;
    return fits && can_run(q, k->few) ? rows : 0;
}

/* n_rows: activation rows that a matrix meets; y: matrices. */
static shape shape_of(const rf_gpu_queue *q, const rf_gpu_matmul_args *a, uint32_t n_rows,
                      uint32_t y) {
    const rf_gpu_weight *w = &a->part[0].w;
    if (w->form <= RF_GPU_BF16 && fits_router(q, a, n_rows))
        return (shape){RF_GPU_mm_router, 1, 1, 0, false};
    if (w->form <= RF_GPU_BF16) return float_shape(q, a, n_rows, y);
    shape s;
    if (wide_shape(q, a, n_rows, y, true, &s) || batch_shape(q, a, n_rows, y, &s) < UINT64_MAX ||
        wide_shape(q, a, n_rows, y, false, &s))
        return s;
    if (n_rows > (is_nvidia(q) ? VEC_MAX_ROWS_NVIDIA : VEC_MAX_ROWS))
        return tile_shape(q, a, n_rows, y);
    uint32_t n_tiles = tiles_of(a, one_rows(a)) * y;
    const int_kernels *k = int_kernels_of(w);
    uint32_t few = n_rows == 1 ? few_rows(q, a) : 0;
    if (few) return (shape){k->few, few, 1, 0, false};
    if (n_rows == 1 && n_tiles <= ONE_MAX_TILES && !q->left_out[k->one])
        return (shape){k->one, one_rows(a), 1, 0, false};
    uint32_t log2_rows = 0;
    while (log2_rows < 3 && 1u << log2_rows < n_rows)
        log2_rows++;
    return (shape){k->vec[log2_rows], log2_rows ? RF_GPU_TILE_ROWS : one_rows(a), 1u << log2_rows,
                   0, false};
}

/* Rows into integers, for kernels that do not make them themselves. */
static void quantise_rows(rf_gpu_queue *q, rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    rf_gpu_quant_args rows = {.x = a->x, .n_rows = a->n_rows, .cols = w->cols};
    if (a->mode == RF_GPU_MM_HEADS) rows.cols *= w->planes;
    if (a->mode == RF_GPU_MM_EXPERTS && a->x_per_used) rows.cols *= a->n_used;
    if (w->form == RF_GPU_INT_32)
        rows.q32 = a->xq;
    else
        rows.q256 = a->xq;
    rf_gpu_op_quant(q, &rows);
    a->x = NULL;
}

/* Is norming the row again in each block faster than a launch for it?  On NVIDIA, which has the next kernel
 * ready when one ends, not where the row is long and tiles are many. */
static bool is_norming_cheap(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    return !is_nvidia(q) || a->norm.n <= NORMED_FREE_COLS ||
           tiles_of(a, one_rows(a)) <= ONE_MAX_TILES;
}

/* The kernel for all of the products and a row that is yet to be normed, or NO_KERNEL. */
static rf_gpu_kernel normed_of(const rf_gpu_matmul_args *a) {
    const int_kernels *first = int_kernels_of(&a->part[0].w);
    uint32_t hi_bits = 0; /* bit n: n of them */
    bool are_alike = true, have_four = true;
    for (uint32_t i = 0; i < a->n_parts; i++) {
        const int_kernels *k = int_kernels_of(&a->part[i].w);
        are_alike = are_alike && k == first;
        have_four = have_four && k->view == 256 && k->lo_bits == 4;
        hi_bits |= 1u << k->hi_bits;
    }
    if (are_alike) return first->normed;
    if (!have_four) return NO_KERNEL;
    return hi_bits == 5   ? RF_GPU_normed_256_40_42
           : hi_bits == 6 ? RF_GPU_normed_256_41_42
                          : NO_KERNEL;
}

/* Do all products take 16-bit floats of one format on matrix units? */
static bool all_take_halves(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    for (uint32_t i = 1; i < a->n_parts; i++) {
        if (!rf_gpu_same_layout(&a->part[0].w, &a->part[i].w)) return false;
    }
    return takes_halves(q, &a->part[0].w);
}

/* Do they by blocks that round their one row themselves?  Whole tiles only; on NVIDIA where there is room for the
 * row and a ring of weights. */
static bool takes_half_one(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    for (uint32_t i = 0; i < a->n_parts; i++) {
        if (a->part[i].w.rows % (a->is_glu ? 8 : 16) != 0) return false;
    }
    return !a->lists && a->n_rows == 1 && w->cols <= RF_HALF_OWN_COLS &&
           can_run(q, RF_GPU_half_one) &&
           (is_amd(q) || rf_half_one_shared(w->cols, RF_HALF_ONE_WORKERS, RF_HALF_ONE_SLOTS / 2) <=
                             q->info.lds_bytes);
}

/* Is there one launch, of one row, whose kernel norms it itself, or is it normed where it is rounded? */
static bool norms_itself(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const rf_gpu_norm_args *n = &a->norm;
    const rf_gpu_weight *w = &a->part[0].w;
    if (all_take_halves(q, a))
        return a->mode == RF_GPU_MM_PLAIN && n->kind == RF_GPU_RMS_NORM && !n->b && n->n == w->cols;
    if (a->n_rows != 1 || a->mode != RF_GPU_MM_PLAIN || n->kind != RF_GPU_RMS_NORM || n->b ||
        n->dst || n->n > RF_GPU_NORMED_COLS || w->form < RF_GPU_INT_32)
        return false;
    return can_run(q, normed_of(a)) && is_norming_cheap(q, a);
}

static bool takes_floats(const rf_gpu_matmul_args *a, rf_gpu_kernel kernel) {
    const int_kernels *k = int_kernels_of(&a->part[0].w);
    return kernel == k->one || kernel == k->few;
}

/* A grid over the units of the lists, of so many activation rows each. */
static void over_lists(rf_gpu_grid *grid, const rf_gpu_matmul_args *a, uint32_t cols) {
    uint32_t n = rf_lists_units(a->n_rows * a->n_used, a->part[0].w.planes, cols);
    grid->y = min_u32(n, MAX_GRID_Y);
    grid->z = div_up(n, MAX_GRID_Y);
}

/* How many rows at the end are better multiplied by a launch of their own, whose blocks are less wide: where that spares
 * the multiprocessor with most blocks more than it brings while another launch begins. */
static uint32_t rows_apart(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    enum { WIDEST = 64, LAUNCH_BYTES = 200 << 10 };
    uint32_t n = a->n_rows, rest = n % WIDEST;
    shape s;
    if (a->mode != RF_GPU_MM_PLAIN || a->part[0].w.form < RF_GPU_INT_32 || n < WIDEST || !rest ||
        wide_shape(q, a, n, 1, true, &s))
        return 0;
    uint64_t of_all = batch_shape(q, a, n, 1, &s), of_most = batch_shape(q, a, n - rest, 1, &s),
             of_rest = batch_shape(q, a, rest < BATCH_MIN_ROWS ? BATCH_MIN_ROWS : rest, 1, &s);
    if (of_all == UINT64_MAX || of_most >= of_all || of_rest >= of_all - of_most) return 0;
    uint64_t spared = (of_all - of_most - of_rest) * div_up(a->part[0].w.cols, 256);
    return spared > LAUNCH_BYTES ? rest : 0;
}

/* The product's last n rows, which are in integers. */
static rf_gpu_matmul_args last_rows(const rf_gpu_matmul_args *a, uint32_t n) {
    rf_gpu_matmul_args last = *a;
    bool is_256 = a->part[0].w.form == RF_GPU_INT_256;
    size_t first = a->n_rows - n, cols = a->part[0].w.cols;
    last.n_rows = n;
    last.xq.q += first * cols;
    last.xq.d += first * (cols / (is_256 ? 256 : 32));
    last.xq.sum += first * (cols / (is_256 ? 16 : 32));
    for (uint32_t i = 0; i < a->n_parts; i++) {
        rf_gpu_product *p = &last.part[i];
        if (p->dst) p->dst += first * p->dst_stride;
        if (p->add) p->add += first * p->dst_stride;
    }
    return last;
}

/* Shared memory for blocks in groups of 32 that norm their row for attention, which comes next, clearly more than one
 * a multiprocessor but not more than two: a third has no room beside two, and attention's has where there is one. */
static uint32_t normed_shared(const rf_gpu_queue *q, const rf_gpu_matmul_args *a,
                              uint32_t n_blocks) {
    enum { TOO_MUCH = 2 << 10 }; /* for three */
    bool is_32 = a->part[0].w.form == RF_GPU_INT_32 && a->n_parts > 1 && !a->is_glu;
    bool is_for_two = 4 * n_blocks > 5 * q->info.n_units && n_blocks <= 2 * q->info.n_units;
    uint32_t room = is_32 && is_for_two ? spread_shared(q, 3, RF_NORMED_32_SHARED) : 0;
    return room ? room + TOO_MUCH : 0;
}

/* One launch; usual: how many activation rows a matrix as a rule meets; y: matrices or items. */
static void launch_product(rf_gpu_queue *q, rf_gpu_matmul_args *a, uint32_t usual, uint32_t y) {
    shape s = a->norm.n ? (shape){normed_of(a), one_rows(a), 1, 0, false}
                        : sound_shape(q, a, shape_of(q, a, usual, y));
    bool is_int = a->part[0].w.form >= RF_GPU_INT_32;
    if (is_int && a->x && !takes_floats(a, s.kernel)) quantise_rows(q, a);
    rf_gpu_grid grid = {tiles_of(a, s.rows), y, div_up(usual, s.cols)};
    if (a->lists) {
        over_lists(&grid, a, s.cols);
    } else if (s.goes_on) {
        grid = (rf_gpu_grid){min_u32(grid.x * grid.z, q->info.n_units), y, 1};
    }
    uint32_t stay = FLOAT_ONE_BLOCKS * q->info.n_units; /* blocks that take tiles in turns */
    a->n_blocks =
        s.kernel == RF_GPU_float_one && is_nvidia(q) && y == 1 && grid.x > stay ? stay : 0;
    if (a->norm.n && (a->n_parts == 1 || a->is_glu)) {
        bool is_32 = a->part[0].w.form == RF_GPU_INT_32;
        stay = q->info.n_units * (is_32 ? RF_GPU_NORMED_BLOCKS_32 : RF_GPU_NORMED_BLOCKS_256);
        a->n_blocks = grid.x > stay ? stay : 0;
    }
    if (a->n_blocks) grid.x = a->n_blocks;
    a->tile_rows = s.rows;
    if (a->norm.n) s.shared_bytes = normed_shared(q, a, grid.x);
    if (s.kernel == RF_GPU_one_32_80 && !are_few(q, grid.x)) rf_gpu_share(q, SHARE_OF_BYTES);
    rf_gpu_put_shared(q, s.kernel, grid, is_amd(q) ? 0 : s.shared_bytes, a, sizeof *a);
}

/* One launch, or two. */
static void launch_rows(rf_gpu_queue *q, rf_gpu_matmul_args *a, uint32_t usual, uint32_t y) {
    uint32_t apart = rows_apart(q, a);
    if (!apart) {
        launch_product(q, a, usual, y);
        return;
    }
    if (a->x) quantise_rows(q, a);
    rf_gpu_matmul_args first = *a, last = last_rows(a, apart);
    first.n_rows -= apart;
    launch_product(q, &first, first.n_rows, 1);
    launch_product(q, &last, apart, 1);
}

/* The activation rows for whose number a kernel is chosen.  On average an expert has n; as some have
 * fewer, blocks of sixteen leave less idle than larger ones do, and the kernels for some rows are good
 * for one, too.  With many rows large blocks are better filled half than small ones often. */
static uint32_t rows_of_expert(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    uint32_t n = div_up(a->n_rows * a->n_used, w->planes);
    const matrix_kernels *k = w->form >= RF_GPU_INT_32 ? matrix_kernels_of(w) : NULL;
    if (!k || !is_nvidia(q) || n > BATCH_MAX_EXPERT) return n;
    if (n >= EXPERT_WIDE_ROWS) return can_run(q, wide_kernel_of(k)) ? WIDE_MIN_ROWS : n;
    return n < BATCH_MIN_ROWS ? BATCH_MIN_ROWS : min_u32(n, EXPERT_ROWS);
}

/* What is made ahead on Hopper --------------------------------------------------------------------*/

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
                ? rf_groups_shared_bytes(rf_kept_parts(s->rows))
                : rf_wide_shared_bytes(rf_wide_parts_of((rf_wide_digits)kind, s->rows));
        args.ahead_tiles = cut->n_tiles[i];
        if (args.ahead_tiles == 0) continue;
        rf_gpu_put_shared(q, s->kernel[kind], (rf_gpu_grid){n_blocks, 1, 1}, shared, &args,
                          sizeof args);
        args.ahead_first += args.ahead_tiles;
        args.digits += args.ahead_tiles * of_tile;
    }
}

/* How a product of groups of 256 is done with digits made ahead (mm_ahead.hip): the bytes
 * of what is made of all activation rows and of each tile of weight rows, and shared memory. */
typedef struct ahead_way {
    rf_wide_digits digits;
    uint64_t of_rows, of_tile;
    uint32_t n_makers, making;
} ahead_way;

static ahead_way ahead_way_of(const rf_gpu_weight *w, uint32_t n_rows) {
    rf_wide_digits digits = digits_of(w);
    uint64_t n = w->cols / 256;
    return (ahead_way){
        .digits = digits,
        .n_makers = (uint32_t)n,
        .of_tile = n * rf_ahead_w_bytes(digits),
        .of_rows = div_up(n_rows, RF_WIDE_COLS) * n * rf_ahead_x_bytes(digits),
        .making = rf_ahead_w_bytes(digits),
    };
}

/* Can groups of 32 be kept (mm_kept_32.hip)?  Where there are minima these are most of what there is to do. */
static bool can_keep_32(const rf_gpu_weight *w) { return w->form == RF_GPU_INT_32 && !w->m; }

/* Rows of groups of 32 as f16 (mm_wide_32.hip). */
static uint64_t wide_32_bytes(const rf_gpu_weight *w, uint32_t n_rows) {
    uint32_t n_stages = div_up(w->cols, RF_GROUPS_COLS);
    return (uint64_t)div_up(n_rows, RF_WIDE_COLS) *
           (n_stages * (uint64_t)rf_groups_parts_of(w->lo_bits, w->hi_bits, w->m != NULL).x_bytes +
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
    bool are_few = a->n_rows < AHEAD_MIN_ROWS && matrix_kernels_of(&a->part[0].w);
    return 3 * n_blocks >= (are_few ? 2 * turns : 1) * units;
}

/* Makes digits of n_w tiles from ahead_first on, and of n_x stretches of activation rows. */
static void put_digits(rf_gpu_queue *q, const rf_gpu_matmul_args *a, const ahead_way *way,
                       uint32_t n_w, uint32_t n_x) {
    rf_gpu_matmul_args args = *a;
    args.ahead_tiles = n_w;
    rf_gpu_put_shared(q, int_kernels_of(&a->part[0].w)->ahead,
                      (rf_gpu_grid){way->n_makers, n_w + n_x, 1}, way->making, &args, sizeof args);
}

/* With digits that are kept, or of as many weight rows at a time as there is room for. */
static bool launch_ahead_256(rf_gpu_queue *q, rf_gpu_matmul_args *a, rf_gpu_kernel make) {
    ahead_way way = ahead_way_of(&a->part[0].w, a->n_rows);
    uint32_t n_tiles = ahead_tiles(a), n_stretches = div_up(a->n_rows, RF_WIDE_COLS);
    uint64_t made = a->kept ? 0 : way.of_tile;
    if (!can_run(q, make)) return false;
    if (a->ahead_bytes < way.of_rows + made) return false;
    uint64_t room = made ? (a->ahead_bytes - way.of_rows) / made : n_tiles;
    uint32_t most = room < n_tiles ? (uint32_t)room : n_tiles,
             step = div_up(n_tiles, div_up(n_tiles, most));
    ahead_cut cut;
    if (!ahead_cut_of(q, way.digits, a, step, &cut) || !ahead_fills(q, &cut, way.digits, a->n_rows))
        return false;
    if (a->x) quantise_rows(q, a);
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
static bool launch_wide_32(rf_gpu_queue *q, rf_gpu_matmul_args *a, const int_kernels *k) {
    const rf_gpu_weight *w = &a->part[0].w;
    uint32_t n_tiles = ahead_tiles(a), n_stretches = div_up(a->n_rows, RF_WIDE_COLS);
    rf_groups_parts parts = rf_groups_parts_of(w->lo_bits, w->hi_bits, w->m != NULL);
    ahead_cut cut;
    bool is_kept = a->kept && can_keep_32(w) && can_run(q, k->keep) &&
                   ahead_cut_of(q, AHEAD_KEPT_32, a, n_tiles, &cut);
    if (!is_kept) cut = (ahead_cut){{[AHEAD_WHOLE] = n_tiles}};
    uint32_t n_blocks = ahead_blocks(&cut, AHEAD_WHOLE, a->n_rows),
             n_low = ahead_blocks(&cut, AHEAD_LOW, a->n_rows);
    if (!can_run(q, RF_GPU_wide_rows_32) || (!is_kept && !can_run(q, k->ahead))) return false;
    if (a->ahead_bytes < wide_32_bytes(w, a->n_rows) || !groups_fill(q, n_blocks + n_low, a))
        return false;
    a->digits = a->kept;
    a->ahead_first = 0;
    a->ahead_tiles = n_tiles;
    rf_gpu_put_shared(q, RF_GPU_wide_rows_32,
                      (rf_gpu_grid){div_up(w->cols, RF_GROUPS_COLS), n_stretches, 1}, parts.x_bytes,
                      a, sizeof *a);
    if (is_kept)
        put_ahead(q, a, AHEAD_KEPT_32, &cut,
                  div_up(w->cols, RF_GROUPS_COLS) * (uint64_t)RF_KEPT_BYTES);
    else
        rf_gpu_put_shared(q, k->ahead, (rf_gpu_grid){min_u32(n_blocks, q->info.n_units), 1, 1},
                          rf_groups_shared_bytes(parts), a, sizeof *a);
    return true;
}

/* False: blocks that unpack weights and activations themselves are better. */
static bool launch_ahead(rf_gpu_queue *q, rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    bool is_32 = w->form == RF_GPU_INT_32;
    uint32_t least = is_32 ? GROUPS_MIN_ROWS : a->kept ? KEPT_MIN_ROWS : AHEAD_MIN_ROWS;
    if (w->form < RF_GPU_INT_32 || a->mode != RF_GPU_MM_PLAIN || !a->ahead || a->n_rows < least)
        return false;
    const int_kernels *k = int_kernels_of(w);
    return is_32 ? launch_wide_32(q, a, k) : launch_ahead_256(q, a, k->ahead);
}

/* 16-bit floats on matrix units ----------------------------------------------------------------*/

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
    shape s = {waves[i], half_wave_outputs(q, a, waves[i]), 16u << i, 0, false};
    shape tile = {RF_GPU_half_tile, a->is_glu ? RF_HALF_TILE_SIDE / 2 : RF_HALF_TILE_SIDE,
                  RF_HALF_TILE_SIDE, 0, false};
    uint64_t n_tiles = (uint64_t)tiles_of(a, tile.rows) * div_up(usual, tile.cols) * y;
    if (usual >= HALF_TILE_MIN_ROWS && 4 * n_tiles >= q->info.n_units && can_run(q, tile.kernel))
        s = tile;
    rf_gpu_grid grid = {tiles_of(a, s.rows), y, div_up(usual, s.cols)};
    if (a->lists) over_lists(&grid, a, s.cols);
    make_halves(q, a, 0);
    rf_gpu_put_shared(q, s.kernel, grid, 0, a, sizeof *a);
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

/* One launch or two, or several of digits made ahead, for the activation rows that a matrix meets as a rule, and so
 * many matrices or items. */
static void launch_group(rf_gpu_queue *q, rf_gpu_matmul_args *a) {
    uint32_t planes = a->part[0].w.planes, n_items = a->n_rows * a->n_used;
    uint32_t usual = a->n_rows, y = 1;
    if (a->mode == RF_GPU_MM_HEADS) {
        y = planes;
    } else if (a->mode == RF_GPU_MM_EXPERTS) {
        usual = a->lists ? rows_of_expert(q, a) : 1;
        y = a->lists ? min_u32(n_items, planes) : n_items;
    }
    if (takes_halves(q, &a->part[0].w)) {
        bool is_one = takes_half_one(q, a);
        if (is_amd(q) && is_one)
            launch_half_one_amd(q, a, y);
        else if (is_amd(q))
            launch_half_amd(q, a, usual, y);
        else if (is_one)
            launch_half_one(q, a, y);
        else if (!launch_half_ring(q, a))
            launch_half(q, a, usual, y);
    } else if (!launch_ahead(q, a)) {
        launch_rows(q, a, usual, y);
    }
}

/* Is another kernel of k's layout there?  Tiles may be too large for the device. */
static bool layout_goes_on(const rf_gpu_queue *q, rf_gpu_kernel k) {
    for (size_t i = 0; i < RF_COUNT(layouts); i++) {
        const int_kernels *l = &layouts[i];
        bool is_here = l->one == k || l->few == k || l->normed == k || l->choose == k,
             goes_on = !q->left_out[l->tile[RF_TILE_SIZES - 1]];
        for (size_t j = 0; j < RF_COUNT(l->vec); j++) {
            is_here = is_here || l->vec[j] == k;
            goes_on = goes_on || !q->left_out[l->vec[j]];
        }
        for (size_t j = 0; j < RF_COUNT(l->tile); j++)
            is_here = is_here || l->tile[j] == k;
        if (is_here) return goes_on;
    }
    return false;
}

/* Kernels of all GPUs do the work of one that NVIDIA's have besides. */
static bool is_besides(rf_gpu_kernel k) {
    for (size_t i = 0; i < RF_COUNT(layouts); i++)
        if (k == layouts[i].ahead || k == layouts[i].keep) return true;
    if (k >= RF_GPU_ahead_products && k <= RF_GPU_wide_rows_32) return true;
    for (size_t i = 0; i < RF_COUNT(matrix_layouts); i++) {
        const matrix_kernels *l = &matrix_layouts[i];
        for (size_t j = 0; j < RF_BATCH_WIDTHS; j++)
            if (k == l->low[j] || k == l->middle[j] || k == l->tall[j]) return true;
        if (k == l->small || k == wide_kernel_of(l)) return true;
    }
    return false;
}

static bool is_mix(rf_gpu_kernel k) {
    for (size_t i = 0; i < RF_COUNT(layouts); i++)
        if (layouts[i].mix == k) return true;
    return false;
}

bool rf_gpu_has_substitute(const rf_gpu_queue *q, rf_gpu_kernel k) {
    bool attends = !q->left_out[RF_GPU_attend_1] || !q->left_out[RF_GPU_attend_4];
    if (k >= RF_GPU_attend_1 && k <= RF_GPU_attend_halves_group) return attends;
    if (k == RF_GPU_float_one || k == RF_GPU_mm_router || k == RF_GPU_router_normed ||
        (k >= RF_GPU_mm_float_4 && k <= RF_GPU_mm_float_32))
        return !q->left_out[RF_GPU_mm_float];
    if (k >= RF_GPU_half_rows && k <= RF_GPU_half_wide_256) return !q->left_out[RF_GPU_mm_float];
    if (k == RF_GPU_norm_rows) return !q->left_out[RF_GPU_norm_parts];
    if (k == RF_GPU_norm_parts) return !q->left_out[RF_GPU_norm_rows];
    if (k == RF_GPU_quant_rows) return !q->left_out[RF_GPU_quant_parts];
    if (k == RF_GPU_quant_parts) return !q->left_out[RF_GPU_quant_rows];
    if (k == RF_GPU_heads_rows) return !q->left_out[RF_GPU_heads];
    if (k == RF_GPU_delta_128) return !q->left_out[RF_GPU_delta];
    if (k == RF_GPU_scan_128) return !q->left_out[RF_GPU_scan];
    if (k >= RF_GPU_best_groups && k <= RF_GPU_drawn_rows) return true; /* the rows themselves */
    if (k == RF_GPU_embed) return true;                                 /* the host */
    if (is_mix(k)) return !q->left_out[RF_GPU_mix];
    if (k == RF_GPU_normed_256_40_42 || k == RF_GPU_normed_256_41_42) return true; /* one by one */
    return is_besides(k) || k == RF_GPU_lists || k == RF_GPU_attend_fold || k == RF_GPU_kv_halves ||
           layout_goes_on(q, k);
}

/* One row, experts whose choice a block can make, and nothing else that reads the route before. */
static bool chooses(const rf_gpu_queue *q, const rf_gpu_choose_args *a) {
    const rf_gpu_matmul_args *m = &a->matmul;
    const rf_gpu_route_args *r = &a->route;
    const rf_gpu_weight *w = &m->part[0].w;
    bool is_one = m->n_rows == 1 && m->mode == RF_GPU_MM_EXPERTS && (m->n_parts == 1 || m->is_glu);
    bool is_easy = r->n_experts && r->n_experts <= RF_GPU_CHOOSE_MOST && r->n_groups <= 1;
    return is_one && is_easy && !m->mixed && !m->x_per_used && w->form >= RF_GPU_INT_32 &&
           !wants_lists(q, 1, m->n_used, w->planes) && can_run(q, int_kernels_of(w)->choose);
}

bool rf_gpu_takes_along(const rf_gpu_queue *q, const rf_gpu_choose_args *a) {
    return norms_scores(q, &a->matmul) || chooses(q, a);
}

/* A block more of each expert, one of which makes the route. */
void rf_gpu_op_choose(rf_gpu_queue *q, const rf_gpu_choose_args *a) {
    rf_gpu_choose_args args = *a;
    const rf_gpu_matmul_args *m = &a->matmul;
    if (!chooses(q, a)) {
        rf_gpu_op_matmul(q, m);
        return;
    }
    args.matmul.lists = NULL;
    if (m->x) quantise_rows(q, &args.matmul);
    rf_gpu_put(q, int_kernels_of(&m->part[0].w)->choose, tiles_of(m, one_rows(m)) + 1, m->n_used, 1,
               &args, sizeof args);
}

/* The products of a row's experts and their mix in one launch. */
static bool launch_mix(rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    if (!a->mixed || a->lists || !a->x || !a->x_per_used || w->form < RF_GPU_INT_32) return false;
    const int_kernels *k = int_kernels_of(w);
    if (!can_run(q, k->mix) || a->n_used > RF_GPU_MIX_MOST) return false;
    rf_gpu_put(q, k->mix, div_up(w->rows, RF_GPU_TILE_ROWS / 2), a->n_rows, 1, a, sizeof *a);
    return true;
}

/* Parts from number i on that are launched together: neighbours of one layout, or all where they norm their row. */
static void take_group(rf_gpu_matmul_args *to, const rf_gpu_matmul_args *a, uint32_t i) {
    for (to->n_parts = 0; i + to->n_parts < a->n_parts; to->n_parts++) {
        const rf_gpu_product *next = &a->part[i + to->n_parts];
        bool goes_along = a->is_glu || to->norm.n;
        if (!goes_along && !rf_gpu_same_layout(&a->part[i].w, &next->w)) break;
        to->part[to->n_parts] = *next;
    }
}

/* What is kept of a group that is launched together: as many bytes whichever kernel is left out. */
static uint64_t kept_bytes(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    if (w->form < RF_GPU_INT_32 || a->mode != RF_GPU_MM_PLAIN || !a->ahead) return 0;
    if (w->form == RF_GPU_INT_32) {
        bool is_there = q->function[RF_GPU_wide_32_kept] && q->function[int_kernels_of(w)->keep];
        return is_there && can_keep_32(w)
                   ? (uint64_t)ahead_tiles(a) * div_up(w->cols, RF_GROUPS_COLS) * RF_KEPT_BYTES
                   : 0;
    }
    ahead_way way = ahead_way_of(w, 0);
    bool are_there = q->function[ahead_shapes[AHEAD_WHOLE].kernel[way.digits]] &&
                     q->function[int_kernels_of(w)->ahead];
    return are_there ? ahead_tiles(a) * way.of_tile : 0;
}

uint64_t rf_gpu_kept_bytes(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    rf_gpu_matmul_args args = *a;
    uint64_t bytes = 0;
    args.norm.n = 0;
    for (uint32_t i = 0; i < a->n_parts; i += args.n_parts) {
        take_group(&args, a, i);
        bytes += kept_bytes(q, &args);
    }
    return bytes;
}

/* Makes what is kept of a group that is launched together. */
static void put_kept(rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    rf_gpu_kernel keep = int_kernels_of(w)->keep;
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
        take_group(&args, a, i);
        uint64_t bytes = kept_bytes(q, &args);
        args.digits = args.kept;
        args.ahead_first = 0;
        if (bytes) put_kept(q, &args);
        args.kept += bytes;
    }
}

void rf_gpu_op_matmul(rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    rf_gpu_matmul_args args = *a;
    if (a->n_rows == 0 || a->n_parts == 0) return;
    if (a->mode != RF_GPU_MM_EXPERTS || !wants_lists(q, a->n_rows, a->n_used, a->part[0].w.planes))
        args.lists = NULL;
    if (args.lists)
        q->launched[RF_GPU_lists] = true; /* for this product: its failure may be theirs */
    if (launch_mix(q, &args)) return;
    if (norms_scores(q, &args)) { /* a block more, which writes the normed row */
        rf_gpu_put(q, RF_GPU_router_normed, a->part[0].w.rows + 1, 1, 1, a, sizeof *a);
        return;
    }
    if (args.norm.n && !norms_itself(q, &args)) {
        rf_gpu_op_norm(q, &args.norm);
        args.norm.n = 0;
    }
    for (uint32_t i = 0; i < a->n_parts; i += args.n_parts) {
        take_group(&args, a, i);
        launch_group(q, &args);
        if (args.kept) args.kept += kept_bytes(q, &args);
    }
    if (!a->mixed) return;
    rf_gpu_mix_args mix = {a->mixed,  a->part[0].dst, a->route,         a->mixed_add,
                           a->n_rows, a->n_used,      a->part[0].w.rows};
    rf_gpu_op_mix(q, &mix);
}
