/* pack.h - weights in the layout of the device, made on the host from any format of a file.
 *
 * Integer forms: tiles of 32 rows by chunks of 32 columns.  With n_tiles = rows / 32 rounded up,
 * n_chunks = cols / 32 and n_groups = cols / 32 or cols / 256:
 *   lo     [planes][n_tiles][n_chunks][32 rows][4 * lo_bits bytes]      lo_bits 2, 4
 *          [planes][n_tiles][n_chunks][2 halves][32 rows][16 bytes]     lo_bits 8: q itself
 *   hi     [planes][n_tiles][n_chunks][32 rows][4 * hi_bits bytes]      hi_bits 0, 1, 2
 *   d, m   [planes][n_tiles][n_groups][32 rows] f16, or f32
 *   scale, min  [planes][n_tiles][n_groups][32 rows][n_scales] i8       groups of 256
 * Stored is u = q + off < 2^(lo_bits + hi_bits), its low bits in lo, the rest in hi, in 32-bit words
 * of four bytes each so that a shift and a mask give four neighbouring elements in one word:
 *   4 bits: word j of 4, byte b: low nibble element 4j + b, high nibble element 16 + 4j + b
 *   2 bits: word h of 2, byte b, bits 2i: element 16h + 4i + b
 *   1 bit:  byte b, bit j: element 4j + b
 * Rows beyond the matrix are zeros.  Float forms are the rows of the file, or decoded to f32. */
#pragma once
#include "backend/gpu/args.h"
#include "model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_gpu_layout {
    rf_gpu_form form;
    uint32_t rows, cols, planes;
    uint32_t lo_bits, hi_bits, n_scales;
    bool d_f32, has_min;
    bool
        rounds; /* minima of groups of 32 are as products want them (docs/arithmetic.md), not as in the file */
    int32_t off;
    /* Where each part lies within one block of memory, at multiples of 256 bytes; 0: absent (lo is
     * always at 0). */
    size_t hi_at, d_at, m_at, scale_at, min_at;
    size_t bytes;
} rf_gpu_layout;

/* RF_EUNSUPPORTED: a type that no product takes, or columns that no format has. */
RF_CHECKED rf_status rf_gpu_layout_of(rf_gpu_layout *out, const rf_tensor *w, rf_error *e);
/* Pieces of work for threads: planes * tiles of 32 rows. */
uint32_t rf_gpu_layout_tiles(const rf_gpu_layout *l);
/* Writes the tiles [begin, end) into their places in the block of l->bytes at dst, 4-byte aligned
 * and zeroed by the caller.  scratch: w->cols floats. */
void rf_gpu_pack(const rf_gpu_layout *l, const rf_tensor *w, uint32_t begin, uint32_t end,
                 void *dst, float *scratch);
/* The weight whose block lies at base on the device. */
rf_gpu_weight rf_gpu_weight_at(const rf_gpu_layout *l, const void *base);
/* The way back, for tests: what a kernel reads of group g of a row, from a block on the host. */
void rf_gpu_unpack(const rf_gpu_layout *l, const void *block, uint32_t plane, uint32_t row,
                   uint32_t g, rf_int_group *out);

#ifdef __cplusplus
}
#endif
