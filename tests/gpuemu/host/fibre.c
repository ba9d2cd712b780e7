/* fibre.c - the threads of a block as fibres: each has a stack, and a barrier is a switch back to the
 * one that hands out turns. */
#include <string.h>
#include <sys/mman.h>

#include "backend/gpu/kernels/port.h"
#include "gpuemu/host/host.h"

/* Stacks are no power of two apart, and their tops differ within a page: else all of them would meet in a
 * few sets of the caches. */
enum { GUARD = 4096, STACK = (256 << 10) + GUARD, LINE = 64, SHIFTS = 61, SHIFT = 5 * LINE };

/* Saves the callee-saved registers on this stack, its top in *from, and goes on at to. */
void rf_fibre_switch(void **from, void *to);
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl rf_fibre_switch\n"
        ".type rf_fibre_switch, @function\n"
        "rf_fibre_switch:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n"
        "    pop %rcx\n    jmp *%rcx\n" /* predicted; a return would go where the call was */
        ".size rf_fibre_switch, . - rf_fibre_switch\n");
enum { RETURN_AT = 6, FRAME = 8 }; /* words */
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl rf_fibre_switch\n"
        ".type rf_fibre_switch, %function\n"
        "rf_fibre_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp]\n    stp x21, x22, [sp, #16]\n    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n    stp x27, x28, [sp, #64]\n    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n    str x9, [x0]\n    mov sp, x1\n"
        "    ldp x19, x20, [sp]\n    ldp x21, x22, [sp, #16]\n    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n    ldp x27, x28, [sp, #64]\n    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n    ret\n"
        ".size rf_fibre_switch, . - rf_fibre_switch\n");
enum { RETURN_AT = 11, FRAME = 20 };
#else
#error "fibres know x86-64 and aarch64"
#endif

_Thread_local rf_host_thread rf_host_now;
_Thread_local uint32_t rf_host_word[RF_FIBRE_MAX];
_Thread_local uint8_t rf_dynamic_shared[RF_HOST_SHARED] __attribute__((aligned(1024)));

static _Thread_local struct {
    uint8_t *stacks;         /* [RF_FIBRE_MAX][STACK], kept while the thread lives */
    void *top[RF_FIBRE_MAX]; /* where a fibre's stack stands */
    void *main;              /* the same of the one that starts blocks */
    uint32_t n, n_done;      /* threads of the block, and those that are through */
    uint32_t n_idle;         /* of a round of turns, those in which a thread only waited */
    uint32_t block;          /* number of the block */
    uint32_t here[RF_FIBRE_MAX / 32], turn[RF_FIBRE_MAX / 32]; /* of a warp's barrier */
    void (*f)(const void *arg);
    const void *arg;
} now;

/* The turn goes to the next thread, behind the last to the one that started the block. */
void rf_host_sync(void) {
    uint32_t i = rf_host_now.tid, next = i + 1 < now.n ? i + 1 : 0;
    rf_host_now.tid = next;
    rf_fibre_switch(&now.top[i], next ? now.top[next] : now.main);
}

void rf_host_idle(void) {
    now.n_idle++;
    rf_host_sync();
}

void rf_host_warp_sync(void) {
    uint32_t w = rf_host_now.tid / 32, first = 32 * w, turn = now.turn[w];
    uint32_t n = now.n - first < 32 ? now.n - first : 32;
    if (++now.here[w] < n) {
        while (now.turn[w] == turn)
            rf_host_idle();
        return;
    }
    now.here[w] = 0;
    now.turn[w]++;
    rf_host_sync(); /* as the others */
}

static void fibre_main(void) {
    for (;;) { /* once for each block */
        uint32_t block = now.block;
        now.f(now.arg);
        now.n_done++;
        do
            rf_host_sync();
        while (now.block == block);
    }
}

/* Stacks whose first switches return into fibre_main. */
static void fibres_start(void) {
    void (*entry)(void) = fibre_main;
    for (size_t i = 0; i < RF_FIBRE_MAX; i++) {
        uint8_t *top = now.stacks + (i + 1) * STACK - i % SHIFTS * SHIFT - FRAME * sizeof(void *);
        memset(top, 0, FRAME * sizeof(void *));
        memcpy(top + RETURN_AT * sizeof(void *), &entry, sizeof entry);
        now.top[i] = top;
    }
}

static void stacks_make(void) {
    if (now.stacks) return;
    void *p = mmap(NULL, (size_t)RF_FIBRE_MAX * STACK, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    RF_ASSERT(p != MAP_FAILED);
    now.stacks = p;
    for (size_t i = 0; i < RF_FIBRE_MAX; i++)
        RF_ASSERT(mprotect(now.stacks + i * STACK, GUARD, PROT_NONE) == 0);
    fibres_start();
}

bool rf_fibres_run(uint32_t n, uint32_t grid_x, const uint32_t bid[3], void (*f)(const void *arg),
                   const void *arg) {
    RF_ASSERT(n > 0 && n <= RF_FIBRE_MAX);
    stacks_make();
    now.f = f;
    now.arg = arg;
    now.n = n;
    now.n_done = 0;
    now.block++;
    memset(now.here, 0, sizeof now.here);
    memcpy(rf_host_now.bid, bid, sizeof rf_host_now.bid);
    rf_host_now.grid_x = grid_x;
    rf_host_now.tid = 0;
    rf_host_now.ring_changes = 0;
    while (now.n_done < n) {
        uint32_t done = now.n_done, changes = rf_host_now.ring_changes;
        now.n_idle = 0;
        rf_fibre_switch(&now.main, now.top[0]);
        bool wait = done + now.n_idle >= n && changes == rf_host_now.ring_changes;
        if (!wait && (now.n_done == 0 || now.n_done == n || changes > 0)) continue;
        fibres_start(); /* all wait for each other, or some at a barrier that others do not come to */
        return false;
    }
    return true;
}
