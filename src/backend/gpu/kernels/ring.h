/* ring.h - barriers in shared memory, by which some warps of a block bring what others work on (NVIDIA
 * from sm_80 on). */
#pragma once
#include "backend/gpu/kernels/port.h"

#if defined(RF_NVIDIA)
/* Complete when n arrivals have come; parity: of the number of times before. */
RF_DEVICE void ring_init(uint64_t *b, uint32_t n) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(rf_shared_at(b)), "r"(n) : "memory");
}
RF_DEVICE void ring_arrive(uint64_t *b) {
    asm volatile("{\n"
                 ".reg .b64 state;\n"
                 "mbarrier.arrive.shared.b64 state, [%0];\n"
                 "}" ::"r"(rf_shared_at(b))
                 : "memory");
}
/* Arrives when this thread's copies so far are there. */
RF_DEVICE void ring_arrive_after_copies(uint64_t *b) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(rf_shared_at(b))
                 : "memory");
}
#if __CUDA_ARCH__ >= 900
#define RING_WAIT "mbarrier.try_wait.parity.shared.b64"
#else
#define RING_WAIT "mbarrier.test_wait.parity.shared.b64"
#endif
RF_DEVICE void ring_await(uint64_t *b, uint32_t parity) {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "AGAIN:\n" RING_WAIT " p, [%0], %1;\n"
                 "@!p bra AGAIN;\n"
                 "}" ::"r"(rf_shared_at(b)),
                 "r"(parity)
                 : "memory");
}
/* Waits for the first n threads of the block. */
RF_DEVICE void ring_sync_some(uint32_t n) { asm volatile("bar.sync 1, %0;" ::"r"(n) : "memory"); }
#endif
