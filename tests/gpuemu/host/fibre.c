/* fibre.c - the threads of a block as fibres: each has a stack, and a barrier is a switch back to the
 * one that hands out turns. */
#include <string.h>
#include <sys/mman.h>

#include "backend/gpu/kernels/port.h"
#include "gpuemu/host/host.h"

enum { STACK = 256 << 10, GUARD = 4096 };

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
        "    ret\n"
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
_Thread_local uint8_t rf_dynamic_shared[RF_HOST_SHARED] __attribute__((aligned(16)));

typedef struct fibre {
    void *top; /* where its stack stands */
    bool done;
} fibre;

static _Thread_local struct {
    uint8_t *stacks; /* [RF_FIBRE_MAX][STACK], kept while the thread lives */
    fibre fibre[RF_FIBRE_MAX];
    void *main; /* the stack of the one that hands out turns */
    void (*f)(const void *arg);
    const void *arg;
} now;

void rf_host_sync(void) { rf_fibre_switch(&now.fibre[rf_host_now.tid].top, now.main); }

static void fibre_main(void) {
    now.f(now.arg);
    now.fibre[rf_host_now.tid].done = true;
    for (;;)
        rf_host_sync(); /* never taken up again */
}

static void stacks_make(void) {
    if (now.stacks) return;
    void *p = mmap(NULL, (size_t)RF_FIBRE_MAX * STACK, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    RF_ASSERT(p != MAP_FAILED);
    now.stacks = p;
    for (size_t i = 0; i < RF_FIBRE_MAX; i++)
        RF_ASSERT(mprotect(now.stacks + i * STACK, GUARD, PROT_NONE) == 0);
}

/* A stack whose first switch returns into fibre_main. */
static void fibre_start(fibre *f, uint8_t *stack) {
    void (*entry)(void) = fibre_main;
    uint8_t *top = stack + STACK - FRAME * sizeof(void *);
    memset(top, 0, FRAME * sizeof(void *));
    memcpy(top + RETURN_AT * sizeof(void *), &entry, sizeof entry);
    *f = (fibre){.top = top};
}

bool rf_fibres_run(uint32_t n, const uint32_t bid[3], void (*f)(const void *arg), const void *arg) {
    RF_ASSERT(n <= RF_FIBRE_MAX);
    stacks_make();
    now.f = f;
    now.arg = arg;
    for (uint32_t i = 0; i < n; i++)
        fibre_start(&now.fibre[i], now.stacks + (size_t)i * STACK);
    memcpy(rf_host_now.bid, bid, sizeof rf_host_now.bid);
    for (uint32_t n_done = 0; n_done == 0;) {
        for (uint32_t i = 0; i < n; i++) {
            rf_host_now.tid = i;
            rf_fibre_switch(&now.main, now.fibre[i].top);
            n_done += now.fibre[i].done;
        }
        if (n_done != 0 && n_done != n) return false;
    }
    return true;
}
