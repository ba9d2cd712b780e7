/* put.h - what the files that choose kernels share (launch*.c): how a kernel is
 * queued, and what the device has room for. */
#pragma once
#include <string.h>

#include "backend/gpu/launch.h"

enum {
    BLOCK_RESERVE = 1024, /* bytes of shared memory that NVIDIA's driver takes for each block */
    MAX_GRID_Y = 65535,
    /* rf_gpu_share, in percent, of few blocks, which would come to lie side by side with more */
    SHARE_OF_FEW = 50,
};

#define NO_KERNEL RF_GPU_KERNEL_COUNT

/* Threads of a kernel's block. */
extern const uint32_t rf_gpu_block[RF_GPU_KERNEL_COUNT];

/* Queues the kernel, by the function that is for such arguments, with so much dynamic shared memory a block; an empty
 * grid queues nothing. */
void rf_gpu_put_shared(rf_gpu_queue *q, rf_gpu_kernel k, rf_gpu_grid grid, uint32_t shared_bytes,
                       const void *args, size_t bytes);
void rf_gpu_put(rf_gpu_queue *q, rf_gpu_kernel k, uint32_t x, uint32_t y, uint32_t z,
                const void *args, size_t bytes);

static inline uint32_t div_up(uint32_t a, uint32_t b) { return a / b + (a % b != 0); }
static inline uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

static inline bool is_amd(const rf_gpu_queue *q) { return strncmp(q->info.arch, "gfx", 3) == 0; }
static inline bool is_nvidia(const rf_gpu_queue *q) { return strncmp(q->info.arch, "sm_", 3) == 0; }

static inline bool can_run(const rf_gpu_queue *q, rf_gpu_kernel k) {
    return k != NO_KERNEL && q->function[k] && !q->left_out[k];
}

/* Shared memory of a block of NVIDIA's of which so many are side by side on a multiprocessor. */
static inline uint32_t room_of_block(const rf_gpu_queue *q, uint32_t side_by_side) {
    uint32_t all = (q->info.lds_bytes + BLOCK_RESERVE) / side_by_side;
    return all > BLOCK_RESERVE ? all - BLOCK_RESERVE : 0;
}

/* Shared memory that blocks of a small kernel, which have `own`, are given so that no more than these are side by
 * side on a multiprocessor: else NVIDIA's come to lie where the kernel in front ends first, all of them. */
static inline uint32_t spread_shared(const rf_gpu_queue *q, uint32_t side_by_side, uint32_t own) {
    uint32_t room = room_of_block(q, side_by_side);
    return is_nvidia(q) && room > own ? room - own : 0;
}

/* Does half of the device have a multiprocessor for each? */
static inline bool are_few(const rf_gpu_queue *q, uint64_t n_blocks) {
    return 2 * n_blocks <= q->info.n_units;
}
