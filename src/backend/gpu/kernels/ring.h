/* ring.h - barriers in shared memory, by which some warps of a block bring what others work on (NVIDIA
 * from sm_80 on, and the host). */
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
#elif !defined(RF_AMD)
/* A barrier's word: arrivals of a phase, those still to come, bytes still to come, the phase's parity. */
typedef struct ring_word {
    uint16_t n, left;
    uint32_t bytes_and_parity;
} ring_word;
RF_DEVICE ring_word ring_get(const uint64_t *b) {
    ring_word w;
    memcpy(&w, b, sizeof w);
    return w;
}
/* Complete: the next phase. */
RF_DEVICE void ring_put(uint64_t *b, ring_word w) {
    if (w.left == 0 && w.bytes_and_parity >> 1 == 0) {
        w.left = w.n;
        w.bytes_and_parity ^= 1;
    }
    memcpy(b, &w, sizeof w);
}
RF_DEVICE void ring_init(uint64_t *b, uint32_t n) {
    const ring_word w = {(uint16_t)n, (uint16_t)n, 0};
    rf_host_now.ring_changes++;
    memcpy(b, &w, sizeof w);
}
/* Less bytes to come, or with more of them, and n arrivals less. */
RF_DEVICE void ring_change(uint64_t *b, uint32_t n, uint32_t more, uint32_t less) {
    ring_word w = ring_get(b);
    rf_host_now.ring_changes++;
    w.left = (uint16_t)(w.left - n);
    w.bytes_and_parity += 2 * more - 2 * less;
    ring_put(b, w);
}
RF_DEVICE void ring_arrive(uint64_t *b) { ring_change(b, 1, 0, 0); }
RF_DEVICE void ring_arrive_after_copies(uint64_t *b) { ring_arrive(b); }
RF_DEVICE void ring_await(const uint64_t *b, uint32_t parity) {
    while ((ring_get(b).bytes_and_parity & 1) == parity)
        rf_host_idle();
}
#endif

#if !defined(RF_AMD)
/* Lanes of a warp that arrive in its name, for all that the warp's threads did before they met (rf_warp_sync): the first.
 * NVIDIA's racecheck sees only what an arriving thread did itself; for it all of them do. */
#if defined(RF_RACECHECK)
enum { RING_LANES = 32 };
#else
enum { RING_LANES = 1 };
#endif

/* A barrier that n warps arrive at, and whether this thread does in its warp's name. */
RF_DEVICE void ring_init_warps(uint64_t *b, uint32_t n) { ring_init(b, RING_LANES * n); }
RF_DEVICE int ring_speaks(void) { return rf_tid() % 32 < RING_LANES; }
/* Between the making of barriers and what else is written before the block meets: racecheck takes the threads that a
 * predicate keeps from making one for its writers. */
RF_DEVICE void ring_apart(void) {
    if (RING_LANES > 1) rf_sync();
}
#endif
