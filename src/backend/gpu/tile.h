/* tile.h - shapes of the products with many activation rows (mm_tile.hip) and what a block of them
 * keeps in shared memory; the host computes its size by the same functions.
 *
 * The warps of 32 threads, or of 64 where AMD's matrix units want it, share a block of weight rows by
 * activation rows: warps_m of them lie along the weight rows, each has m x n squares of 16 weight
 * rows by 8 activation rows. */
#pragma once
#include <stdint.h>

#if defined(__CUDA__) || defined(__HIP__)
#define RF_TILE_FN __attribute__((device)) constexpr inline
#elif defined(__cplusplus)
#define RF_TILE_FN constexpr inline
#else
#define RF_TILE_FN static inline
#endif

/* n, or more up to a multiple of unit. */
RF_TILE_FN uint32_t rf_tile_round_up(uint32_t n, uint32_t unit) {
    return (n + unit - 1) / unit * unit;
}

enum {
    RF_TILE_STAGE = 256,                 /* columns that are in shared memory together */
    RF_TILE_STRIDE = RF_TILE_STAGE + 16, /* bytes between activation rows there: no bank twice */
    RF_TILE_MAX_COLS = 128,
    RF_TILE_SIZES = 3 /* large, middle, small */
};

typedef struct rf_tile_shape {
    uint32_t warps, warps_m, m, n;
    uint32_t n_stages; /* in shared memory, all but one of them on their way */
} rf_tile_shape;

/* Size 0 is the large one.  amd: 0, or 32 or 64 threads of a warp on AMD, where copies pass through
 * registers: one stage, two blocks at a time, of the same rows in either case.  kernels.def has the
 * threads of a block. */
RF_TILE_FN rf_tile_shape rf_tile_shape_of(uint32_t size, int amd) {
    const rf_tile_shape nvidia[RF_TILE_SIZES] = {{8, 4, 2, 8, 3}, {8, 2, 1, 2, 3}, {8, 2, 1, 1, 5}};
    const rf_tile_shape of_32[RF_TILE_SIZES] = {{8, 4, 2, 4, 1}, {8, 2, 1, 2, 1}, {8, 4, 1, 2, 1}};
    const rf_tile_shape of_64[RF_TILE_SIZES] = {{4, 4, 2, 8, 1}, {4, 2, 1, 4, 1}, {4, 4, 1, 4, 1}};
    return amd == 64 ? of_64[size] : amd ? of_32[size] : nvidia[size];
}
RF_TILE_FN uint32_t rf_tile_rows(rf_tile_shape s) { return 16 * s.warps_m * s.m; }
RF_TILE_FN uint32_t rf_tile_cols(rf_tile_shape s) { return s.warps / s.warps_m * 8 * s.n; }

/* Where the parts of a stage are, in bytes; each as it lies in global memory (pack.h) unless said. */
typedef struct rf_tile_parts {
    uint32_t q;          /* [cols][RF_TILE_STRIDE] */
    uint32_t sum;        /* groups of 32: [8][cols]; of 256: [cols][4 quads][16 bytes] */
    uint32_t xd;         /* groups of 32: [8][cols]; of 256: [cols] */
    uint32_t lo, hi;     /* [tiles of 32 rows][8 chunks] ... */
    uint32_t d, m;       /* [tiles][groups][32] f16 or f32 */
    uint32_t scale, min; /* [tiles][32][n_scales] */
    uint32_t bytes;
} rf_tile_parts;

/* Integers of 8 bits have neither offset nor minima, so no sums.  own: warps have lo and hi in registers. */
RF_TILE_FN rf_tile_parts rf_tile_parts_of(rf_tile_shape s, uint32_t view, uint32_t lo_bits,
                                          uint32_t hi_bits, uint32_t own) {
    const uint32_t rows = rf_tile_rows(s), cols = rf_tile_cols(s), n_groups = RF_TILE_STAGE / view;
    const uint32_t with_sum = lo_bits != 8;
    rf_tile_parts p = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    p.sum = p.q + cols * RF_TILE_STRIDE;
    p.xd = p.sum + with_sum * cols * (view == 256 ? 64 : 32);
    p.lo = p.xd + cols * n_groups * 4;
    p.hi = p.lo + (own ? 0 : rows * RF_TILE_STAGE / 8 * lo_bits);
    p.d = p.hi + (own ? 0 : rows * RF_TILE_STAGE / 8 * hi_bits);
    p.m = p.d + rows * n_groups * 4;
    p.scale = p.m + with_sum * rows * n_groups * 4;
    p.min = p.scale + (view == 256 ? rows * 16 : 0);
    p.bytes = p.min + (view == 256 && with_sum ? rows * 16 : 0);
    return p;
}

/* Before the stages: the number of each activation row. */
RF_TILE_FN uint32_t rf_tile_shared_bytes(rf_tile_shape s, uint32_t view, uint32_t lo_bits,
                                         uint32_t hi_bits, uint32_t own) {
    const rf_tile_parts p = rf_tile_parts_of(s, view, lo_bits, hi_bits, own);
    return RF_TILE_MAX_COLS * 4 + s.n_stages * p.bytes;
}

/* The products with very many activation rows on Hopper (mm_wide.hip): a tile's weight rows, or half of them, and
 * activation rows, stages of 256 columns in shared memory, what lies before them, and behind
 * them each warp's room for outputs of 32 activation rows. */
enum {
    RF_WIDE_ROWS = 128,
    RF_WIDE_COLS = 128,
    RF_WIDE_MOST_STAGES = 3,
    RF_WIDE_ALIGN = 1024,
    RF_WIDE_HEAD = 1024,
    RF_WIDE_WARPS = 8, /* that multiply */
    RF_WIDE_OUT_BYTES = 32 * 16 * 4
};

/* What the two digits are that a weight of a group of 256 has there (kernels/digits.h). */
typedef enum rf_wide_digits {
    RF_WIDE_PRODUCTS, /* of weight times scale; no minima */
    RF_WIDE_SCALES,   /* of the scale, each times the weight; minima and sums besides */
    RF_WIDE_MINIMA,   /* the minimum, and weight times scale, which is small */
    RF_WIDE_DIGITS
} rf_wide_digits;

/* Where the parts of a stage are, in bytes: within each half (hopper.h has the order there) and behind
 * the two halves. */
typedef struct rf_wide_parts {
    uint32_t upper, lower; /* digits, [rows][128] */
    uint32_t q;            /* [cols][128] */
    uint32_t half;         /* bytes of one */
    uint32_t sum;          /* [cols / 8][high, low parts][8][8] f16 */
    uint32_t xd;           /* [cols] */
    uint32_t d, m;         /* [rows], f16 with digits of scales, else f32 */
    uint32_t min;          /* [rows][8] f16 */
    uint32_t bytes;
} rf_wide_parts;

/* Bytes of a weight row's d, or m. */
RF_TILE_FN uint32_t rf_wide_d_bytes(rf_wide_digits digits) {
    return digits == RF_WIDE_SCALES ? 2 : 4;
}

/* Of tiles of so many weight rows. */
RF_TILE_FN rf_wide_parts rf_wide_parts_of(rf_wide_digits digits, uint32_t rows) {
    const uint32_t cols = RF_WIDE_COLS, with_sums = digits == RF_WIDE_SCALES,
                   with_m = digits != RF_WIDE_PRODUCTS, d_bytes = rf_wide_d_bytes(digits);
    rf_wide_parts p = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    p.lower = p.upper + rows * 128;
    p.q = p.lower + rows * 128;
    p.half = p.q + cols * 128;
    p.sum = 2 * p.half;
    p.xd = p.sum + with_sums * cols * 32;
    p.d = p.xd + cols * 4;
    p.m = p.d + rows * d_bytes;
    p.min = p.m + with_m * rows * d_bytes;
    p.bytes = p.min + with_sums * rows * 16;
    p.bytes = rf_tile_round_up(p.bytes, RF_WIDE_ALIGN);
    return p;
}
/* Stages that a block has room for beside its head and its outputs. */
RF_TILE_FN uint32_t rf_wide_stages(rf_wide_parts p) {
    const uint32_t room = 227 * 1024 - RF_WIDE_HEAD - RF_WIDE_WARPS * RF_WIDE_OUT_BYTES,
                   n = room / p.bytes;
    return n < RF_WIDE_MOST_STAGES ? n : (uint32_t)RF_WIDE_MOST_STAGES;
}
RF_TILE_FN uint32_t rf_wide_shared_bytes(rf_wide_parts p) {
    return RF_WIDE_HEAD + rf_wide_stages(p) * p.bytes + RF_WIDE_WARPS * RF_WIDE_OUT_BYTES;
}

/* What is made ahead of them (mm_ahead.hip) of a tile's weight rows and 256 columns, and of 128
 * activation rows: the parts of a stage, those of either half first. */
RF_TILE_FN uint32_t rf_ahead_w_factors(rf_wide_digits digits) {
    return digits == RF_WIDE_SCALES ? (uint32_t)RF_WIDE_ROWS * (2 + 2 + 16)
                                    : (uint32_t)RF_WIDE_ROWS * (digits == RF_WIDE_MINIMA ? 8 : 4);
}
RF_TILE_FN uint32_t rf_ahead_x_factors(rf_wide_digits digits) {
    return (uint32_t)RF_WIDE_COLS * (digits == RF_WIDE_SCALES ? 4 + 32 : 4);
}
RF_TILE_FN uint32_t rf_ahead_w_bytes(rf_wide_digits digits) {
    return (uint32_t)RF_WIDE_ROWS * 512 + rf_ahead_w_factors(digits);
}
RF_TILE_FN uint32_t rf_ahead_x_bytes(rf_wide_digits digits) {
    return (uint32_t)RF_WIDE_COLS * 256 + rf_ahead_x_factors(digits);
}

/* Products in groups of 32 with very many activation rows there (mm_wide_32.hip): a stage's columns, groups and bytes of half
 * of its activations, and bytes of factors of 32 weight rows. */
enum {
    RF_GROUPS_COLS = 128,
    RF_GROUPS_MANY = RF_GROUPS_COLS / 32,
    RF_GROUPS_PANEL = RF_WIDE_COLS * 128,
    RF_GROUPS_X_BYTES = RF_GROUPS_MANY / 2 * RF_GROUPS_PANEL,
    RF_GROUPS_D_TILE = RF_GROUPS_MANY * 32 * 4,
    RF_GROUPS_STAGES = 4,
};

/* Minima of the eight groups that share steps, two stages: totals of activation rows, f32 [rows / 8][2 fours][8][4]; of weight
 * rows that are not kept what lies in memory. */
enum {
    RF_MINIMA_STAGES = 2,
    RF_MINIMA_SLOTS = 2,
    RF_MINIMA_X_AT =
        RF_MINIMA_STAGES * (int)RF_GROUPS_X_BYTES, /* behind these as wide_rows_32 makes them */
    RF_MINIMA_X_BYTES = (int)RF_WIDE_COLS * 32,
    RF_MINIMA_W_BYTES = (int)RF_WIDE_ROWS * 16,
};
RF_TILE_FN uint32_t rf_minima_slot_bytes(uint32_t is_kept) {
    return (uint32_t)RF_MINIMA_X_BYTES + (is_kept ? 0 : (uint32_t)RF_MINIMA_W_BYTES);
}

/* Where the parts of a stage are, in bytes: activations as f16 (hopper.h has the order); then of each 32 weight rows the
 * integers' low bits, their high bits and factors as they lie in memory. */
typedef struct rf_groups_parts {
    uint32_t lo, lo_tile, hi, hi_tile, d, bytes;
} rf_groups_parts;

RF_TILE_FN rf_groups_parts rf_groups_parts_of(uint32_t lo_bits, uint32_t hi_bits) {
    rf_groups_parts p = {RF_GROUPS_X_BYTES, 0, 0, 0, 0, 0};
    p.lo_tile = RF_GROUPS_MANY * lo_bits * 128;
    p.hi = p.lo + RF_WIDE_ROWS / 32 * p.lo_tile;
    p.hi_tile = RF_GROUPS_MANY * hi_bits * 128;
    p.d = p.hi + RF_WIDE_ROWS / 32 * p.hi_tile;
    p.bytes = rf_tile_round_up(p.d + RF_WIDE_ROWS / 32 * RF_GROUPS_D_TILE, RF_WIDE_ALIGN);
    return p;
}

/* Weights of a stage as they are kept for these products (mm_kept_32.hip): one piece, which has the place of integers of
 * eight bits and their factors, f32, or with minima both of them in f16. */
enum {
    RF_KEPT_D = (int)RF_WIDE_ROWS * RF_GROUPS_COLS, /* bytes of integers, before the factors */
    RF_KEPT_HALVES =
        (int)RF_WIDE_ROWS * RF_GROUPS_MANY * 2, /* bytes of factors in f16, before minima */
    RF_KEPT_BYTES = RF_KEPT_D + 2 * RF_KEPT_HALVES
};
/* Of tiles of so many weight rows. */
RF_TILE_FN rf_groups_parts rf_kept_parts(uint32_t rows) {
    rf_groups_parts p = rf_groups_parts_of(8, 0);
    p.d = p.lo + rows * RF_GROUPS_COLS;
    p.bytes = rf_tile_round_up(p.d + rows * RF_GROUPS_MANY * 4, RF_WIDE_ALIGN);
    return p;
}
RF_TILE_FN uint32_t rf_groups_shared_bytes(rf_groups_parts p, uint32_t with_m, uint32_t is_kept) {
    return RF_WIDE_HEAD + RF_GROUPS_STAGES * p.bytes + RF_WIDE_WARPS * RF_WIDE_OUT_BYTES +
           with_m * RF_MINIMA_SLOTS * rf_minima_slot_bytes(is_kept);
}

/* The products with 2 to 255 activation rows on NVIDIA (mm_batch.hip): nt eights of activation rows;
 * wm warps lie along the weight rows, wn along the activation rows, wk share the columns. */
enum {
    RF_BATCH_WIDTHS = 4, /* 8, 16, 32, 64 activation rows */
    RF_BATCH_MAX_SLOTS = 24,
    RF_BATCH_HEAD = 1024,
    RF_BATCH_SUMS = 64,          /* bytes of an activation row's sums */
    RF_BATCH_D_STRIDE = 32 + 16, /* between rows' factors in groups of 32: no bank twice */
};
typedef enum rf_batch_height {
    RF_BATCH_LOW,
    RF_BATCH_MIDDLE,
    RF_BATCH_TALL,
    RF_BATCH_SMALL /* of experts with few rows: several blocks side by side, as each has little to read */
} rf_batch_height;
typedef struct rf_batch_shape {
    uint32_t nt, wm, wn, wk;
    uint32_t fetchers; /* warps besides, which bring what is multiplied */
    uint32_t blocks;   /* of a multiprocessor, side by side */
} rf_batch_shape;

/* The tall ones of 224 weight rows, whose 16 warps have 128 registers each, are as many as a large device
 * has multiprocessors where matrices have 14336 rows. */
RF_TILE_FN rf_batch_shape rf_batch_shape_of(uint32_t view, uint32_t lo_bits, uint32_t height,
                                            uint32_t nt) {
    rf_batch_shape s = {nt, 2u << height, nt == 8 ? 2u : 1u, 8u >> height, 4, 1};
    s.wk /= s.wn;
    if (height == RF_BATCH_TALL) {
        s.wm = 14;
        s.wn = s.wk = 1;
        s.fetchers = 2;
    }
    if (height == RF_BATCH_SMALL) {
        s.wm = 4;
        s.wn = 1;
        s.wk = 1;
        s.fetchers = 2;
        s.blocks = lo_bits == 8 ? 4 : 6; /* with room for two slots each */
    }
    if (view == 32 && (height == RF_BATCH_LOW || height == RF_BATCH_MIDDLE)) {
        s.wn = nt <= 2 ? 1 : nt / 2; /* so that a warp has registers for two eights */
        s.wk = (nt <= 2 ? 4u : 2u) >> height;
        s.blocks = nt == 1 ? 2 : 1;
    }
    return s;
}

/* Bytes of a line of shared memory: what eight threads copy, where it begins at one. */
enum { RF_LINE = 128 };

/* Where the parts of a slot are, in bytes.  Squares are integers of sixteen weight rows, in whole lines, as in global
 * memory but for the other half of each tile; hi is within one, min and d are within what belongs to one from scale
 * on. */
typedef struct rf_batch_parts {
    uint32_t q; /* [half of the columns][activation rows][RF_LINE], pieces turned (mm_batch.hip) */
    uint32_t sum; /* [activation rows][RF_BATCH_SUMS], halves turned; groups of 32: as xd */
    uint32_t xd;  /* [activation rows]; groups of 32: [activation rows][RF_BATCH_D_STRIDE] */
    uint32_t weights, hi, square;
    uint32_t scale, min, d, of_scale;
    uint32_t bytes;
} rf_batch_parts;

RF_TILE_FN rf_batch_parts rf_batch_parts_of(rf_batch_shape s, uint32_t view, uint32_t lo_bits,
                                            uint32_t hi_bits, uint32_t n_scales, uint32_t with_m,
                                            uint32_t wide_d) {
    const uint32_t cols = 8 * s.nt, d_bytes = wide_d ? 64 : 32,
                   of_sums = view == 32 ? RF_BATCH_D_STRIDE : RF_BATCH_SUMS;
    rf_batch_parts p = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    p.sum = p.q + cols * 2 * RF_LINE;
    p.xd = p.sum + with_m * cols * of_sums;
    p.weights = rf_tile_round_up(p.xd + cols * (view == 32 ? RF_BATCH_D_STRIDE : 4), RF_LINE);
    p.hi = 512 * lo_bits;
    p.square = p.hi + 512 * hi_bits;
    p.scale = p.weights + s.wm * p.square;
    p.min = 16 * n_scales;
    p.d = p.min + with_m * 16 * n_scales;
    p.of_scale = p.d + (view == 32 ? 8 : 1) * (1 + with_m) * d_bytes;
    p.bytes = rf_tile_round_up(p.scale + s.wm * p.of_scale, RF_LINE);
    return p;
}
RF_TILE_FN uint32_t rf_batch_relay_bytes(rf_batch_shape s) { return s.wm * s.nt * 512; }
/* Slots that a block has in so many bytes of shared memory. */
RF_TILE_FN uint32_t rf_batch_slots(rf_batch_shape s, uint32_t slot_bytes, uint32_t bytes) {
    const uint32_t before = RF_BATCH_HEAD + rf_batch_relay_bytes(s);
    const uint32_t n = bytes > before ? (bytes - before) / slot_bytes : 0;
    return n < RF_BATCH_MAX_SLOTS ? n : RF_BATCH_MAX_SLOTS;
}

/* The products of 16-bit floats with one activation row (mm_float_one.hip) on NVIDIA: stretches of so
 * many columns of a block's rows in shared memory, all but one of them on their way: weights, then
 * activations in f32, then the sixteen lanes of each row. */
enum {
    RF_F1_ROWS = 16,
    RF_F1_PAD = 32, /* bytes behind a row of weights: four of them meet all banks */
    RF_F1_NVIDIA_COLUMNS = 512,
    RF_F1_NVIDIA_STAGES = 5,
};
RF_TILE_FN uint32_t rf_f1_shared_bytes(void) {
    const uint32_t columns = RF_F1_NVIDIA_COLUMNS;
    return RF_F1_NVIDIA_STAGES * (RF_F1_ROWS * (2 * columns + RF_F1_PAD) + 4 * columns) +
           RF_F1_ROWS * 17 * 4;
}

/* Attention of few rows (attend_vec.hip) on NVIDIA: keys of eight KV blocks, and what is made of them. */
enum { RF_ATTEND_VEC_SHARED = 96 << 10 };
/* The same over Q8_0 (attend_ints.hip): with values. */
enum { RF_ATTEND_INTS_SHARED = 97 << 10 };
/* The same over sixteen bits on matrix units (attend_halves.hip): the widest head that it takes, on AMD, too
 * (attend_halves_wave.hip), which may be half as wide; like that of attend_vec.hip. */
enum { RF_ATTEND_HALVES_DIM = 128, RF_ATTEND_HALVES_SHARED = 96 << 10 };
/* Blocks of a cluster at most, one for each segment of keys, and where in their memory a share of what all of them have
 * left is: of each block sixteen bytes of 256 threads, all together. */
enum {
    RF_CLUSTER_MOST = 8,
    RF_ATTEND_HALVES_ROOM = RF_ATTEND_HALVES_SHARED - 16 * (256 + RF_CLUSTER_MOST)
};
enum { RF_ATTEND_HALVES_SMALL_SHARED = 56 << 10 }; /* four side by side */

/* The products of 16-bit floats on matrix units (mm_half.hip): a block's warps, and how many activation rows one
 * of them has at most; columns and bytes of a stage of its ring. */
enum {
    RF_HALF_WARPS = 8,
    RF_HALF_MOST_X = 32,
    RF_HALF_HEAD = 256,            /* bytes before the ring: the number of each activation row */
    RF_HALF_BLOCKS = 2,            /* of a multiprocessor, side by side, */
    RF_HALF_RING = 96 << 10,       /* bytes of whose rings at most, */
    RF_HALF_SMALL_RING = 48 << 10, /* with few rows: beside two the next kernel's have room */
    RF_HALF_MOST_STAGES = 8,
    RF_HALF_PANEL = 64,       /* columns that rows for half_ring.h lie apart by */
    RF_HALF_STRIDE = 256,     /* rows in 16 bits are continued with zeros to a multiple of it */
    RF_HALF_OWN_COLS = 16384, /* most columns of a row that each block rounds for itself */
};
RF_TILE_FN uint32_t rf_half_step(uint32_t rows, uint32_t n_x) {
    return rows <= 32 && n_x <= 32 ? 256 : rows <= 64 ? 128 : 64;
}
RF_TILE_FN uint32_t rf_half_stage_bytes(uint32_t rows, uint32_t n_x) {
    return 2 * rf_half_step(rows, n_x) * (rows + n_x);
}
RF_TILE_FN uint32_t rf_half_stride(uint32_t cols) { return rf_tile_round_up(cols, RF_HALF_STRIDE); }
/* One row (half_one.hip): the columns of a worker's slot, of sixteen weight rows, and how many slots it has; half
 * of them where two blocks, of at most four workers, had no room otherwise. */
enum {
    RF_HALF_ONE_COLUMNS = 128,
    RF_HALF_ONE_SLOT = 16 * 2 * RF_HALF_ONE_COLUMNS,
    RF_HALF_ONE_SLOTS = 6,
    RF_HALF_ONE_WORKERS = 4,
};
/* Bytes of a block's: its row, then the slots. */
RF_TILE_FN uint32_t rf_half_one_shared(uint32_t cols, uint32_t n_workers, uint32_t n_slots) {
    const uint32_t slot = RF_HALF_ONE_SLOT;
    return 2 * rf_half_stride(cols) + n_workers * n_slots * slot;
}

/* Very many rows (half_wide.hip): weight rows and at most so many activation rows of a block, in stages of 64
 * columns of a ring (half_ring.h). */
enum { RF_HALF_RING_MOST = 16, RF_HALF_WIDE_ROWS = 128, RF_HALF_WIDE_X = 256 };
RF_TILE_FN uint32_t rf_half_ring_stage(uint32_t rows, uint32_t n_x) { return 128 * (rows + n_x); }
RF_TILE_FN uint32_t rf_half_wide_stages(uint32_t n_x) { return n_x > 128 ? 4 : 6; }
RF_TILE_FN uint32_t rf_half_wide_shared(uint32_t n_x) {
    const uint32_t rows = RF_HALF_WIDE_ROWS;
    return RF_WIDE_HEAD + rf_half_wide_stages(n_x) * rf_half_ring_stage(rows, n_x) +
           8 * RF_WIDE_OUT_BYTES;
}

/* Up to 64 (half_few.hip), a multiple of 8, and so many weight rows at most; floats between two rows' outputs, so
 * that no bank is met twice. */
enum {
    RF_HALF_FEW_X = 64,
    RF_HALF_FEW_MOST = 128,
    RF_HALF_FEW_PAD = 8,
};
RF_TILE_FN uint32_t rf_half_few_out(uint32_t rows, uint32_t n_x) {
    return rf_tile_round_up(n_x, 16) * (rows + RF_HALF_FEW_PAD) * 4;
}
/* Low tiles have a multiprocessor for themselves, high ones one of two blocks side by side; panels of 64 columns of a
 * stage, each of which takes a few hundred cycles besides what is multiplied. */
RF_TILE_FN uint32_t rf_half_few_is_low(uint32_t rows) { return rows <= 48; }
RF_TILE_FN uint32_t rf_half_few_panels(uint32_t rows, uint32_t n_x) {
    return !rf_half_few_is_low(rows) ? 1 : n_x > 32 ? 2 : 4;
}
RF_TILE_FN uint32_t rf_half_few_shared(uint32_t rows) {
    return rf_half_few_is_low(rows) ? 222 << 10 : 110 << 10;
}
RF_TILE_FN uint32_t rf_half_few_stages(uint32_t rows, uint32_t n_x) {
    const uint32_t bytes = rf_half_few_shared(rows), head = RF_WIDE_HEAD, most = RF_HALF_RING_MOST;
    const uint32_t behind = rf_half_ring_stage(0, RF_HALF_FEW_X - n_x); /* read, but not used */
    const uint32_t out = rf_half_few_out(rows, n_x);
    const uint32_t n = (bytes - head - (out > behind ? out : behind)) /
                       (rf_half_few_panels(rows, n_x) * rf_half_ring_stage(rows, n_x));
    return n < most ? n : most;
}

/* On AMD's matrix units, where rows in 16 bits are continued with zeros to a multiple of more: what half_wave.hip
 * multiplies in a turn; of many rows (half_tile.hip) weight rows and activation rows of a block. */
enum { RF_HALF_WAVE_STRIDE = 512, RF_HALF_TILE_SIDE = 128 };
/* Most columns of a row that each block rounds for itself there, of which two have room in a compute unit. */
enum { RF_HALF_WAVE_COLS = 29 * RF_HALF_WAVE_STRIDE };
RF_TILE_FN uint32_t rf_half_wave_stride(uint32_t cols) {
    return rf_tile_round_up(cols, RF_HALF_WAVE_STRIDE);
}

/* Segments of attention on their way into the total (attend_fold.hip): columns of a block, and shared memory
 * that it has at most; parts of a row that is normed (norm.hip): likewise. */
enum { RF_FOLD_COLUMNS = 32, RF_FOLD_SHARED = 20 << 10, RF_NORM_SHARED = 4 << 10 };
enum { RF_NORMED_32_SHARED = 61 << 9 }; /* of a block of mm_normed.hip, of groups of 32 */

/* Attention of many rows (attend_rows.hip): items and keys of a block's step, and of how many items a
 * thread has scores and weighted values.  In shared memory: queries, keys, values, exponentials, all
 * as f32, and four numbers for each item. */
typedef struct rf_rows_tile {
    uint32_t threads, items, keys, n_scores, n_values;
} rf_rows_tile;
enum { RF_ROWS_MOST = 8, RF_ROWS_DIM = 128 };
RF_TILE_FN rf_rows_tile rf_rows_tile_of(void) {
    const rf_rows_tile t = {128, 32, 32, 2, 4};
    return t;
}
RF_TILE_FN uint32_t rf_rows_shared_bytes(rf_rows_tile t) {
    return 4 * (RF_ROWS_DIM * (t.items + 2 * t.keys) + t.keys * t.items + 4 * t.items);
}

/* The same on NVIDIA's GPUs with more shared memory (attend_tile.hip): a block's items, the KV blocks of its
 * step, and what lies in shared memory between queries and the last numbers of an item, in floats. */
enum {
    RF_TILE_ITEMS = 64,
    RF_TILE_STEP = 4,
    RF_TILE_K_EIGHT = 8 * 32 * RF_TILE_STEP + 8, /* eight columns of keys, no bank twice */
    RF_TILE_P = 36 * RF_TILE_ITEMS,              /* sums or exponentials of a KV block */
    RF_TILE_SHARED = 4 * (128 * RF_TILE_ITEMS + 8 * RF_TILE_K_EIGHT + RF_TILE_STEP * RF_TILE_P +
                          (3 * RF_TILE_STEP + 1) * RF_TILE_ITEMS + RF_TILE_STEP),
};

/* The same over keys and values in Q8_0 (attend_ints_tile.hip, on AMD attend_ints_wave.hip): a block's items,
 * groups of 32 columns of its heads at most, and the bytes of shared memory that it takes, of which AMD's
 * has its own: two slots of keys and values as they lie, behind which a word may be read, and as they are
 * multiplied with their factors; queries; items' visible keys, factors and totals. */
enum {
    RF_INTS_TILE_ITEMS = 64,
    RF_INTS_TILE_GROUPS = 4,
    RF_INTS_TILE_BEHIND = 16,
    RF_INTS_TILE_SHARED =
        2 * ((64 * 34 + 64 * 32 + 3 * 128 + 4) * RF_INTS_TILE_GROUPS + RF_INTS_TILE_BEHIND) +
        (64 * RF_INTS_TILE_GROUPS + 4 + 8 * RF_INTS_TILE_GROUPS + 28) * RF_INTS_TILE_ITEMS,
};

/* Over sixteen bits on matrix units (attend_halves_tile.hip): a block's items, on AMD, too; slots for a KV block's keys or
 * values, and bytes: those, items' weighted values and their totals. */
enum {
    RF_HALVES_TILE_ITEMS = 64,
    RF_HALVES_TILE_SLOTS = 4,
    RF_HALVES_TILE_SHARED = RF_HALVES_TILE_SLOTS * 32 * 2 * RF_ATTEND_HALVES_DIM +
                            (4 * RF_ATTEND_HALVES_DIM + 20) * RF_HALVES_TILE_ITEMS,
};

/* Likewise by Hopper's groups of warps (attend_halves_group.hip), of which a block has two: slots for four KV blocks' keys
 * and for two's values, and bytes: all that a block can have. */
enum {
    RF_HALVES_GROUP_ITEMS = 128,
    RF_HALVES_GROUP_KEYS = 2,
    RF_HALVES_GROUP_VALUES = 4,
    RF_HALVES_GROUP_SHARED = 227 << 10,
};

/* The products of floats with several activation rows (mm_float_rows.hip): a block's weight rows and
 * activation rows, stretches of columns in shared memory. */
enum {
    RF_FR_ROWS = 32,
    RF_FR_MAX_COLS = 32,
    RF_FR_MAX_STAGES = 8,
    RF_FR_HEAD = 128, /* bytes before the stretches: where each activation row begins */
    RF_FR_W_PAD = 32, /* bytes behind a weight row, */
    RF_FR_X_PAD = 64, /* and behind an activation row: no bank twice */
};
typedef struct rf_fr_shape {
    uint32_t cols;    /* activation rows, */
    uint32_t across;  /* which so many threads share: 2 or 4 */
    uint32_t threads; /* of a block */
    uint32_t step;    /* columns of a stretch, of 16-bit weights; half of them of f32 */
} rf_fr_shape;
RF_TILE_FN rf_fr_shape rf_fr_shape_of(uint32_t cols, uint32_t threads, int amd) {
    const rf_fr_shape s = {cols, cols > 16 ? 4u : 2u, threads, amd ? 64u : cols <= 8 ? 256u : 128u};
    return s;
}
RF_TILE_FN uint32_t rf_fr_w_stride(rf_fr_shape s) { return 2 * s.step + RF_FR_W_PAD; }
RF_TILE_FN uint32_t rf_fr_x_stride(rf_fr_shape s) { return 4 * s.step + RF_FR_X_PAD; }
RF_TILE_FN uint32_t rf_fr_x_at(rf_fr_shape s) { return RF_FR_ROWS * rf_fr_w_stride(s); }
RF_TILE_FN uint32_t rf_fr_stage_bytes(rf_fr_shape s) {
    return rf_fr_x_at(s) + s.cols * rf_fr_x_stride(s);
}
RF_TILE_FN uint32_t rf_fr_shared_bytes(rf_fr_shape s, uint32_t n_stages) {
    return RF_FR_HEAD + n_stages * rf_fr_stage_bytes(s);
}
/* Outputs that each thread of a block gets. */
RF_TILE_FN uint32_t rf_fr_outputs(rf_fr_shape s) { return RF_FR_ROWS * s.cols / s.threads; }
/* Stretches that a block has in so many bytes of shared memory. */
RF_TILE_FN uint32_t rf_fr_stages(rf_fr_shape s, uint32_t bytes) {
    const uint32_t n = bytes > RF_FR_HEAD ? (bytes - RF_FR_HEAD) / rf_fr_stage_bytes(s) : 0;
    return n < RF_FR_MAX_STAGES ? n : RF_FR_MAX_STAGES;
}
