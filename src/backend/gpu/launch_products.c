/* launch_products.c - which kernels matrix products run by, over what grid: by the weights' layout and the number of
 * activation rows.  launch_ahead.c has those for which something is made ahead, launch_halves.c 16-bit floats. */
#include "backend/gpu/products.h"
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
 * experts that blocks choose, tiles by size. */
typedef struct int_kernels {
    uint32_t view, lo_bits, hi_bits;
    rf_gpu_kernel vec[4], one, few, normed, mix, choose, tile[RF_TILE_SIZES];
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

#define INT_KERNELS(view, lo, hi, few)                                                      \
    {                                                                                       \
        view, lo, hi,                                                                       \
            {RF_GPU_vec_##view##_##lo##hi##_1, RF_GPU_vec_##view##_##lo##hi##_2,            \
             RF_GPU_vec_##view##_##lo##hi##_4, RF_GPU_vec_##view##_##lo##hi##_8},           \
            RF_GPU_one_##view##_##lo##hi, few, RF_GPU_normed_##view##_##lo##hi,             \
            RF_GPU_mix_##view##_##lo##hi, RF_GPU_choose_##view##_##lo##hi,                  \
            {RF_GPU_tile_##view##_##lo##hi##_large, RF_GPU_tile_##view##_##lo##hi##_middle, \
             RF_GPU_tile_##view##_##lo##hi##_small},                                        \
    }
static const int_kernels layouts[] = {
    INT_KERNELS(32, 4, 0, RF_GPU_few_32_40),   INT_KERNELS(32, 4, 1, RF_GPU_few_32_41),
    INT_KERNELS(32, 8, 0, NO_KERNEL),          INT_KERNELS(256, 2, 0, RF_GPU_few_256_20),
    INT_KERNELS(256, 2, 1, RF_GPU_few_256_21), INT_KERNELS(256, 4, 0, RF_GPU_few_256_40),
    INT_KERNELS(256, 4, 1, RF_GPU_few_256_41), INT_KERNELS(256, 4, 2, RF_GPU_few_256_42),
    INT_KERNELS(256, 8, 0, NO_KERNEL),
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
                   rf_tile_shared_bytes(s, k->view, k->lo_bits, k->hi_bits, 0), false};
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

bool rf_gpu_has_batch(const rf_gpu_weight *w) { return matrix_kernels_of(w) != NULL; }

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

/* Few outputs of one row that is yet to be normed: each block norms it, so short that it does that at once. */
static bool norms_scores(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    const rf_gpu_norm_args *n = &a->norm;
    return n->n && a->n_rows == 1 && !rf_gpu_takes_halves(q, w) && a->mode == RF_GPU_MM_PLAIN &&
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

/* Do all products go by the kernel for one row of 16-bit floats? */
static bool are_float_one(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const rf_gpu_weight *w = &a->part[0].w;
    for (uint32_t i = 1; i < a->n_parts; i++)
        if (!rf_gpu_same_layout(w, &a->part[i].w)) return false;
    return w->form != RF_GPU_F32 && w->form <= RF_GPU_BF16 && w->cols % 8 == 0 &&
           can_run(q, RF_GPU_float_one);
}

static shape float_one_shape(const rf_gpu_queue *q, const rf_gpu_matmul_args *a, uint32_t y) {
    return (shape){RF_GPU_float_one, float_one_rows(q, a, y), 1,
                   is_nvidia(q) ? rf_f1_shared_bytes() : 0, false};
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
    if (n_rows == 1 && are_float_one(q, a)) return float_one_shape(q, a, y);
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
void rf_gpu_quantise_rows(rf_gpu_queue *q, rf_gpu_matmul_args *a) {
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
        /* With minima of groups of 32 it is another function. */
        are_alike =
            are_alike && k == first && (k->view == 256 || !a->part[i].w.m == !a->part[0].w.m);
        have_four = have_four && k->view == 256 && k->lo_bits == 4;
        hi_bits |= 1u << k->hi_bits;
    }
    if (are_alike) return first->normed;
    if (!have_four) return NO_KERNEL;
    return hi_bits == 5   ? RF_GPU_normed_256_40_42
           : hi_bits == 6 ? RF_GPU_normed_256_41_42
                          : NO_KERNEL;
}

/* Is there one launch, of one row, whose kernel norms it itself, or is it normed where it is rounded? */
static bool norms_itself(const rf_gpu_queue *q, const rf_gpu_matmul_args *a) {
    const rf_gpu_norm_args *n = &a->norm;
    const rf_gpu_weight *w = &a->part[0].w;
    if (rf_gpu_all_take_halves(q, a))
        return a->mode == RF_GPU_MM_PLAIN && n->kind == RF_GPU_RMS_NORM && !n->b && n->n == w->cols;
    if (a->n_rows != 1 || a->mode != RF_GPU_MM_PLAIN || n->kind != RF_GPU_RMS_NORM || n->b)
        return false;
    if (w->form < RF_GPU_INT_32) return !is_nvidia(q) && n->n == w->cols && are_float_one(q, a);
    return !n->dst && n->n <= RF_GPU_NORMED_COLS && can_run(q, normed_of(a)) &&
           is_norming_cheap(q, a);
}

static bool takes_floats(const rf_gpu_matmul_args *a, rf_gpu_kernel kernel) {
    const int_kernels *k = int_kernels_of(&a->part[0].w);
    return kernel == k->one || kernel == k->few;
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
    bool is_int = a->part[0].w.form >= RF_GPU_INT_32, is_normed = is_int && a->norm.n;
    shape s = is_normed   ? (shape){normed_of(a), one_rows(a), 1, 0, false}
              : a->norm.n ? float_one_shape(q, a, y)
                          : sound_shape(q, a, shape_of(q, a, usual, y));
    if (is_int && a->x && !takes_floats(a, s.kernel)) rf_gpu_quantise_rows(q, a);
    rf_gpu_grid grid = {tiles_of(a, s.rows), y, div_up(usual, s.cols)};
    if (a->lists) {
        over_lists(&grid, a, s.cols);
    } else if (s.goes_on) {
        grid = (rf_gpu_grid){min_u32(grid.x * grid.z, q->info.n_units), y, 1};
    }
    uint32_t stay = FLOAT_ONE_BLOCKS * q->info.n_units; /* blocks that take tiles in turns */
    a->n_blocks =
        s.kernel == RF_GPU_float_one && is_nvidia(q) && y == 1 && grid.x > stay ? stay : 0;
    if (is_normed && (a->n_parts == 1 || a->is_glu)) {
        bool is_32 = a->part[0].w.form == RF_GPU_INT_32;
        stay = q->info.n_units * (is_32 ? RF_GPU_NORMED_BLOCKS_32 : RF_GPU_NORMED_BLOCKS_256);
        a->n_blocks = grid.x > stay ? stay : 0;
    }
    if (a->n_blocks) grid.x = a->n_blocks;
    a->tile_rows = s.rows;
    if (is_normed) s.shared_bytes = normed_shared(q, a, grid.x);
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
    if (a->x) rf_gpu_quantise_rows(q, a);
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
    if (rf_gpu_takes_halves(q, &a->part[0].w))
        rf_gpu_launch_halves(q, a, usual, y);
    else if (!rf_gpu_launch_ahead(q, a))
        launch_rows(q, a, usual, y);
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
    if (k >= RF_GPU_digits_256_20 && k <= RF_GPU_wide_32_80) return true;
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
    if (m->x) rf_gpu_quantise_rows(q, &args.matmul);
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
void rf_gpu_take_group(rf_gpu_matmul_args *to, const rf_gpu_matmul_args *a, uint32_t i) {
    for (to->n_parts = 0; i + to->n_parts < a->n_parts; to->n_parts++) {
        const rf_gpu_product *next = &a->part[i + to->n_parts];
        bool goes_along = a->is_glu || to->norm.n;
        if (!goes_along && !rf_gpu_same_layout(&a->part[i].w, &next->w)) break;
        to->part[to->n_parts] = *next;
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
        rf_gpu_take_group(&args, a, i);
        launch_group(q, &args);
        if (args.kept) args.kept += rf_gpu_group_kept_bytes(q, &args);
    }
    if (!a->mixed) return;
    rf_gpu_mix_args mix = {a->mixed,  a->part[0].dst, a->route,         a->mixed_add,
                           a->n_rows, a->n_used,      a->part[0].w.rows};
    rf_gpu_op_mix(q, &mix);
}
