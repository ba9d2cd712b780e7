/* cluster.h - neighbouring blocks along z that run at once and reach each other's shared memory (Hopper's; rf_gpu_hints):
 * how each sends the others their shares of what it has made. */
#pragma once
#include "backend/gpu/kernels/hopper.h"

#if defined(RF_HOPPER)
/* What a block of a cluster has of results that all of them have parts of. */
typedef struct cluster_share {
    uint32_t each, first, n_own;
} cluster_share;

#if defined(RF_NVIDIA)
/* The block's barrier b will have come when so many bytes have; tells the other blocks of the cluster.  All threads. */
RF_DEVICE void cluster_begin(uint64_t *b, uint32_t bytes) {
    if (rf_tid() == 0) {
        ring_init(b, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        hopper_arrive_with(b, bytes);
    }
    rf_warp_sync();
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
/* All blocks have. */
RF_DEVICE void cluster_await_begun(void) {
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
/* Sixteen bytes on their way to block number rank, to the place that is this block's `to`, for its barrier b. */
RF_DEVICE void cluster_put(rf_f4 *to, uint64_t *b, uint32_t rank, rf_f4 v) {
    asm volatile("{\n"
                 ".reg .b32 there, barrier;\n"
                 "mapa.shared::cluster.u32 there, %0, %2;\n"
                 "mapa.shared::cluster.u32 barrier, %1, %2;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], "
                 "{%3, %4, %5, %6}, [barrier];\n"
                 "}" ::"r"(rf_shared_at(to)),
                 "r"(rf_shared_at(b)), "r"(rank), "f"(v.v[0]), "f"(v.v[1]), "f"(v.v[2]), "f"(v.v[3])
                 : "memory");
}
RF_DEVICE void cluster_await(uint64_t *b) { ring_await(b, 0); }
/* Of n_all results the share of block number rank of n: from first on, n_own; each: of a block. */
RF_DEVICE cluster_share cluster_share_of(uint32_t n_all, uint32_t rank, uint32_t n) {
    const uint32_t each = rf_div_up(n_all, n), first = rf_min_u32(rank * each, n_all);
    const cluster_share s = {each, first, rf_min_u32(each, n_all - first)};
    return s;
}
RF_DEVICE uint32_t cluster_owner(uint32_t i, const cluster_share *s, uint32_t n) {
    (void)n;
    return i / s->each;
}
#else
/* Blocks run one after another along z, in the same memory: the last one has everything. */
RF_DEVICE void cluster_begin(uint64_t *b, uint32_t bytes) { (void)b, (void)bytes; }
RF_DEVICE void cluster_await_begun(void) {}
RF_DEVICE void cluster_put(rf_f4 *to, uint64_t *b, uint32_t rank, rf_f4 v) {
    (void)b, (void)rank;
    *to = v;
}
RF_DEVICE void cluster_await(uint64_t *b) { (void)b; }
RF_DEVICE cluster_share cluster_share_of(uint32_t n_all, uint32_t rank, uint32_t n) {
    const cluster_share s = {n_all, 0, rank + 1 == n ? n_all : 0};
    return s;
}
RF_DEVICE uint32_t cluster_owner(uint32_t i, const cluster_share *s, uint32_t n) {
    (void)i, (void)s;
    return n - 1;
}
#endif
#endif
