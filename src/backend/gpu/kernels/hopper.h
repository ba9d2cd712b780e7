/* hopper.h - what only Hopper's matrix units have (sm_90a): products of whole groups of four warps,
 * which run while the threads go on.
 *
 * Both sides lie in shared memory in panels of 128 bytes a row, at multiples of 1024 bytes, whose
 * pieces of 16 bytes lie at their number xor the row's (mod 8): 64 rows on the left, 128 on the right.
 * Results are as those of mma.sync's squares, sixteen rows of the left side per warp. */
#pragma once
#include "backend/gpu/kernels/half.h"
#include "backend/gpu/kernels/ring.h"

#if defined(RF_HOPPER)
/* A side of a product: where it lies, in sixteens of bytes, and how, which is a constant. */
typedef struct hopper_side {
    uint32_t at, form;
} hopper_side;

/* 32 bytes of each row of a panel, from byte 0, 32, 64 or 96 on; chunk: of those, on from there. */
RF_DEVICE hopper_side hopper_chunk(uint32_t shared_at, uint32_t chunk) {
    const hopper_side s = {((shared_at & 0x3ffffu) >> 4 | 1u << 16) + chunk * (32 / 16),
                           1u << 30 | 1024 / 16};
    return s;
}
/* 32 bytes of each row in two halves, eight rows' sixteen bytes behind each other: where the other half lies,
 * and the next eight rows, in bytes. */
RF_DEVICE hopper_side hopper_rows(uint32_t shared_at, uint32_t other, uint32_t next_rows) {
    const hopper_side s = {(shared_at & 0x3ffffu) >> 4 | other / 16 << 16, next_rows / 16};
    return s;
}
#endif

/* n threads of a block go on with so many registers each and the others with so many, of the 168 that all begin with
 * where there are 384 threads: with more they would wait for ever. */
#if defined(RF_NVIDIA) /* the host looks at it */
#define HOPPER_REGISTERS(n, each, n_others, of_others)
#else
#define HOPPER_REGISTERS(n, each, n_others, of_others) \
    _Static_assert((n) * (each) + (n_others) * (of_others) <= ((n) + (n_others)) * 168, "few");
#endif

#if defined(RF_HOPPER) && defined(RF_NVIDIA)
/* A block's shared memory. */
extern __attribute__((shared)) __attribute__((aligned(1024))) uint8_t hopper_shared[];

/* What is in shared memory for this thread may be read by the matrix units. */
RF_DEVICE void hopper_publish(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* Registers of a thread from here on, which the four warps of a group give back or take. */
RF_DEVICE void hopper_88_registers(void) { asm volatile("setmaxnreg.dec.sync.aligned.u32 88;"); }
RF_DEVICE void hopper_208_registers(void) { asm volatile("setmaxnreg.inc.sync.aligned.u32 208;"); }
RF_DEVICE void hopper_56_registers(void) { asm volatile("setmaxnreg.dec.sync.aligned.u32 56;"); }
RF_DEVICE void hopper_224_registers(void) { asm volatile("setmaxnreg.inc.sync.aligned.u32 224;"); }
RF_DEVICE void hopper_24_registers(void) { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }
RF_DEVICE void hopper_240_registers(void) { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }

/* Blocks of the grid, along x. */
RF_DEVICE uint32_t hopper_grid_x(void) {
    uint32_t n;
    asm("mov.u32 %0, %%nctaid.x;" : "=r"(n));
    return n;
}

/* Arrives at the barrier, which then waits for so many bytes besides. */
RF_DEVICE void hopper_arrive_with(uint64_t *b, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(rf_shared_at(b)),
                 "r"(bytes)
                 : "memory");
}
/* Multiples of sixteen bytes into shared memory, by a copy that runs by itself. */
RF_DEVICE void hopper_bring(void *to, const void *from, uint32_t bytes, uint64_t *b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(rf_shared_at(to)),
                 "l"(from), "r"(bytes), "r"(rf_shared_at(b))
                 : "memory");
}
/* From shared memory, which was published, and may be used anew when it returns. */
RF_DEVICE void hopper_take_away(void *to, const void *from, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                 "cp.async.bulk.commit_group;\n"
                 "cp.async.bulk.wait_group.read 0;" ::"l"(to),
                 "r"(rf_shared_at(from)), "r"(bytes)
                 : "memory");
}

#define HOPPER_8(c, i)                                                                          \
    "+r"(c[i]), "+r"(c[i + 1]), "+r"(c[i + 2]), "+r"(c[i + 3]), "+r"(c[i + 4]), "+r"(c[i + 5]), \
        "+r"(c[i + 6]), "+r"(c[i + 7])
#define HOPPER_32(c) HOPPER_8(c, 0), HOPPER_8(c, 8), HOPPER_8(c, 16), HOPPER_8(c, 24)
#define HOPPER_64(c) \
    HOPPER_32(c), HOPPER_8(c, 32), HOPPER_8(c, 40), HOPPER_8(c, 48), HOPPER_8(c, 56)
#define HOPPER_HOLD(...) asm volatile("" : __VA_ARGS__::"memory")
/* Keeps the compiler from moving what it does with c, of n rows of the right side, across this place. */
RF_DEVICE void hopper_hold(int32_t *c, uint32_t n) {
    if (n == 64) HOPPER_HOLD(HOPPER_32(c));
    if (n == 128) HOPPER_HOLD(HOPPER_64(c));
}

/* What the threads did with their registers is seen by products begun afterwards. */
RF_DEVICE void hopper_begin(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/* Numbers of registers in a product's text. */
#define HOPPER_R16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define HOPPER_R24 HOPPER_R16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define HOPPER_R32 HOPPER_R24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define HOPPER_R56                               \
    HOPPER_R32                                   \
    ", %32, %33, %34, %35, %36, %37, %38, %39, " \
    "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55"
#define HOPPER_R64 HOPPER_R56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define HOPPER_R128                                                                          \
    HOPPER_R64                                                                               \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "     \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "       \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, " \
    "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "   \
    "%125, %126, %127"
/* A product of what two descriptors name; last: what else it is told. */
#define HOPPER_PRODUCT(shape, types, results, w, x, more, last)                          \
    "{\n"                                                                                \
    ".reg .pred p;\n"                                                                    \
    ".reg .b64 w, x;\n"                                                                  \
    "mov.b64 w, {" w "};\n"                                                              \
    "mov.b64 x, {" x "};\n"                                                              \
    "setp.ne.b32 p, " more ", 0;\n"                                                      \
    "wgmma.mma_async.sync.aligned." shape "." types " {" results "}, w, x, p" last ";\n" \
    "}"
#define HOPPER_MULTIPLY(shape, kind, results, w, x, more) \
    HOPPER_PRODUCT(shape, "s32." kind ".s8", results, w, x, more, "")
#define HOPPER_MULTIPLY_64(kind) \
    HOPPER_MULTIPLY("m64n64k32", kind, HOPPER_R32, "%32, %33", "%34, %35", "%36")
#define HOPPER_MULTIPLY_128(kind) \
    HOPPER_MULTIPLY("m64n128k32", kind, HOPPER_R64, "%64, %65", "%66, %67", "%68")
#define HOPPER_BEGIN(text, ...)                                                 \
    asm volatile(text:__VA_ARGS__                                               \
                 : "r"(w.at), "r"(w.form), "r"(x.at), "r"(x.form), "r"(is_more) \
                 : "memory")
/* Of one type or the other. */
#define HOPPER_BEGIN_AS(is_first, first, other, text, ...) \
    do {                                                   \
        if (is_first)                                      \
            HOPPER_BEGIN(text(first), __VA_ARGS__);        \
        else                                               \
            HOPPER_BEGIN(text(other), __VA_ARGS__);        \
    } while (0)
#define HOPPER_MULTIPLY_BEGIN(...) HOPPER_BEGIN_AS(is_unsigned, "u8", "s8", __VA_ARGS__)
/* Begins c = w x, or with is_more c += w x, of n rows of the right side, 64 or 128, a constant; w is of unsigned or signed
 * bytes. */
RF_DEVICE void hopper_multiply(int32_t *c, uint32_t n, hopper_side w, hopper_side x,
                               int is_unsigned, int is_more) {
    if (n == 64) HOPPER_MULTIPLY_BEGIN(HOPPER_MULTIPLY_64, HOPPER_32(c));
    if (n == 128) HOPPER_MULTIPLY_BEGIN(HOPPER_MULTIPLY_128, HOPPER_64(c));
}

/* The same of 16-bit floats, 16 columns at a time: c of 32, 48, 64, 112, 128 or 256 rows of the right side. */
#define HOPPER_F8(c, i)                                                                         \
    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
        "+f"(c[i + 6]), "+f"(c[i + 7])
#define HOPPER_F32(c, i) \
    HOPPER_F8(c, i), HOPPER_F8(c, i + 8), HOPPER_F8(c, i + 16), HOPPER_F8(c, i + 24)
#define HOPPER_F16(c)  HOPPER_F8(c, 0), HOPPER_F8(c, 8)
#define HOPPER_F24(c)  HOPPER_F16(c), HOPPER_F8(c, 16)
#define HOPPER_F56(c)  HOPPER_F32(c, 0), HOPPER_F8(c, 32), HOPPER_F8(c, 40), HOPPER_F8(c, 48)
#define HOPPER_F64(c)  HOPPER_F32(c, 0), HOPPER_F32(c, 32)
#define HOPPER_F128(c) HOPPER_F64(c), HOPPER_F32(c, 64), HOPPER_F32(c, 96)
#define HOPPER_HALVES(shape, type, results, w, x, more) \
    HOPPER_PRODUCT(shape, "f32." type "." type, results, w, x, more, ", 1, 1, 0, 0")
#define HOPPER_HALVES_32(type) \
    HOPPER_HALVES("m64n32k16", type, HOPPER_R16, "%16, %17", "%18, %19", "%20")
#define HOPPER_HALVES_48(type) \
    HOPPER_HALVES("m64n48k16", type, HOPPER_R24, "%24, %25", "%26, %27", "%28")
#define HOPPER_HALVES_64(type) \
    HOPPER_HALVES("m64n64k16", type, HOPPER_R32, "%32, %33", "%34, %35", "%36")
#define HOPPER_HALVES_112(type) \
    HOPPER_HALVES("m64n112k16", type, HOPPER_R56, "%56, %57", "%58, %59", "%60")
#define HOPPER_HALVES_128(type) \
    HOPPER_HALVES("m64n128k16", type, HOPPER_R64, "%64, %65", "%66, %67", "%68")
#define HOPPER_HALVES_256(type) \
    HOPPER_HALVES("m64n256k16", type, HOPPER_R128, "%128, %129", "%130, %131", "%132")
#define HOPPER_HALVES_BEGIN(...) HOPPER_BEGIN_AS(is_f16, "f16", "bf16", __VA_ARGS__)
/* n is a constant. */
RF_DEVICE void hopper_multiply_halves(float *c, uint32_t n, hopper_side w, hopper_side x,
                                      int is_f16, int is_more) {
    if (n == 32) HOPPER_HALVES_BEGIN(HOPPER_HALVES_32, HOPPER_F16(c));
    if (n == 48) HOPPER_HALVES_BEGIN(HOPPER_HALVES_48, HOPPER_F24(c));
    if (n == 64) HOPPER_HALVES_BEGIN(HOPPER_HALVES_64, HOPPER_F32(c, 0));
    if (n == 112) HOPPER_HALVES_BEGIN(HOPPER_HALVES_112, HOPPER_F56(c));
    if (n == 128) HOPPER_HALVES_BEGIN(HOPPER_HALVES_128, HOPPER_F64(c));
    if (n == 256) HOPPER_HALVES_BEGIN(HOPPER_HALVES_256, HOPPER_F128(c));
}
#define HOPPER_OWN(shape, type, results, w, x, more, is_turned)                       \
    "{\n"                                                                             \
    ".reg .pred p;\n"                                                                 \
    ".reg .b64 x;\n"                                                                  \
    "mov.b64 x, {" x "};\n"                                                           \
    "setp.ne.b32 p, " more ", 0;\n"                                                   \
    "wgmma.mma_async.sync.aligned." shape ".f32." type "." type " {" results "}, {" w \
    "}, x, p, 1, 1, " is_turned ";\n"                                                 \
    "}"
#define HOPPER_OWN_BEGIN(text, ...)                                                    \
    asm volatile(text:__VA_ARGS__                                                      \
                 : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x.at), "r"(x.form), \
                   "r"(is_more)                                                        \
                 : "memory")
#define HOPPER_OWN_64(type) \
    HOPPER_OWN("m64n64k16", type, HOPPER_R32, "%32, %33, %34, %35", "%36, %37", "%38", "0")
#define HOPPER_OWN_128(type) \
    HOPPER_OWN("m64n128k16", type, HOPPER_R64, "%64, %65, %66, %67", "%68, %69", "%70", "0")
#define HOPPER_TURNED_64(type) \
    HOPPER_OWN("m64n64k16", type, HOPPER_R32, "%32, %33, %34, %35", "%36, %37", "%38", "1")
/* The same of f16 by n rows of the right side, 64 or 128, with the left one in registers as mma.sync has it; these stay as
 * they are until the product is done. */
RF_DEVICE void hopper_multiply_own(float *c, uint32_t n, const uint32_t w[4], hopper_side x,
                                   int is_more) {
    if (n == 64) HOPPER_OWN_BEGIN(HOPPER_OWN_64("f16"), HOPPER_F32(c, 0));
    if (n == 128) HOPPER_OWN_BEGIN(HOPPER_OWN_128("f16"), HOPPER_F64(c));
}
/* And of eight columns in f32, of whose numbers the units take eleven bits. */
#define HOPPER_OWN_F32(shape, results, w, x)                                                     \
    "{\n"                                                                                        \
    ".reg .b64 x;\n"                                                                             \
    "mov.b64 x, {" x "};\n"                                                                      \
    "wgmma.mma_async.sync.aligned." shape ".f32.tf32.tf32 {" results "}, {" w "}, x, 0, 1, 1;\n" \
    "}"
#define HOPPER_OWN_F32_BEGIN(text, ...)                                               \
    asm volatile(text:__VA_ARGS__                                                     \
                 : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x.at), "r"(x.form) \
                 : "memory")
RF_DEVICE void hopper_multiply_own_f32(float *c, uint32_t n, const uint32_t w[4], hopper_side x) {
    if (n == 64)
        HOPPER_OWN_F32_BEGIN(
            HOPPER_OWN_F32("m64n64k8", HOPPER_R32, "%32, %33, %34, %35", "%36, %37"),
            HOPPER_F32(c, 0));
    if (n == 128)
        HOPPER_OWN_F32_BEGIN(
            HOPPER_OWN_F32("m64n128k8", HOPPER_R64, "%64, %65, %66, %67", "%68, %69"),
            HOPPER_F64(c));
}
/* Likewise, of either format by 64 columns of sixteen rows of a panel, the first of which x names: the right side turned. */
RF_DEVICE void hopper_multiply_turned(float *c, const uint32_t w[4], hopper_side x, int is_f16,
                                      int is_more) {
    if (is_f16)
        HOPPER_OWN_BEGIN(HOPPER_TURNED_64("f16"), HOPPER_F32(c, 0));
    else
        HOPPER_OWN_BEGIN(HOPPER_TURNED_64("bf16"), HOPPER_F32(c, 0));
}
RF_DEVICE void hopper_hold_halves(float *c, uint32_t n) {
    if (n == 32) HOPPER_HOLD(HOPPER_F16(c));
    if (n == 48) HOPPER_HOLD(HOPPER_F24(c));
    if (n == 64) HOPPER_HOLD(HOPPER_F32(c, 0));
    if (n == 112) HOPPER_HOLD(HOPPER_F56(c));
    if (n == 128) HOPPER_HOLD(HOPPER_F64(c));
    if (n == 256) HOPPER_HOLD(HOPPER_F128(c));
}
/* c of 64 rows holds nothing that matters from here on: the compiler need not keep it until a product begins it anew. */
#define HOPPER_NEW_8(c, i)                                                                      \
    "=f"(c[i]), "=f"(c[i + 1]), "=f"(c[i + 2]), "=f"(c[i + 3]), "=f"(c[i + 4]), "=f"(c[i + 5]), \
        "=f"(c[i + 6]), "=f"(c[i + 7])
RF_DEVICE void hopper_forget_64(float *c) {
    asm volatile(""
                 : HOPPER_NEW_8(c, 0), HOPPER_NEW_8(c, 8), HOPPER_NEW_8(c, 16),
                   HOPPER_NEW_8(c, 24));
}

RF_DEVICE void hopper_end(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/* Until all products but those of the last n ends are done, n 0 or 1. */
RF_DEVICE void hopper_wait_but(int n) {
    if (n == 0) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (n == 1) asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}
#elif defined(RF_HOPPER)
/* The host: what runs by itself on the device is done at once. */
#define hopper_shared rf_dynamic_shared
RF_DEVICE void hopper_publish(void) {}
RF_DEVICE void hopper_88_registers(void) {}
RF_DEVICE void hopper_208_registers(void) {}
RF_DEVICE void hopper_56_registers(void) {}
RF_DEVICE void hopper_224_registers(void) {}
RF_DEVICE void hopper_24_registers(void) {}
RF_DEVICE void hopper_240_registers(void) {}
RF_DEVICE uint32_t hopper_grid_x(void) { return rf_host_now.grid_x; }
RF_DEVICE void hopper_arrive_with(uint64_t *b, uint32_t bytes) { ring_change(b, 1, bytes, 0); }
RF_DEVICE void hopper_bring(void *to, const void *from, uint32_t bytes, uint64_t *b) {
    memcpy(to, from, bytes);
    ring_change(b, 0, 0, bytes);
}
RF_DEVICE void hopper_take_away(void *to, const void *from, uint32_t bytes) {
    memcpy(to, from, bytes);
}
RF_DEVICE void hopper_hold(const int32_t *c, uint32_t n) { (void)c, (void)n; }
RF_DEVICE void hopper_hold_halves(const float *c, uint32_t n) { (void)c, (void)n; }
RF_DEVICE void hopper_forget_64(float *c) { memset(c, 0, 32 * sizeof *c); }
RF_DEVICE void hopper_begin(void) {}
RF_DEVICE void hopper_end(void) {}
RF_DEVICE void hopper_wait_but(int n) { (void)n; }

/* Sixteen bytes of a row, the first, the second or, of a panel, a further one, where they lie. */
RF_DEVICE const uint8_t *hopper_piece(hopper_side s, uint32_t row, uint32_t half) {
    uint32_t at = (s.at & 0x3fffu) * 16 + row / 8 * (s.form & 0x3fffu) * 16;
    if (s.form >> 30)
        at += row % 8 * 128 + half * 16;
    else
        at += row % 8 * 16 + half * (s.at >> 16) * 16;
    if (s.form >> 30) at ^= (at >> 7 & 7) * 16;
    return rf_dynamic_shared + at;
}
/* Which rows of either side the thread's number i of its results is of. */
RF_DEVICE uint32_t hopper_left(uint32_t i) {
    return rf_tid() % 128 / 32 * 16 + rf_tid() % 32 / 4 + i % 4 / 2 * 8;
}
RF_DEVICE uint32_t hopper_right(uint32_t i) { return i / 4 * 8 + rf_tid() % 4 * 2 + i % 2; }

RF_DEVICE void hopper_multiply(int32_t *c, uint32_t n, hopper_side w, hopper_side x,
                               int is_unsigned, int is_more) {
    for (uint32_t i = 0; i < n / 2; i++) {
        int32_t sum = is_more ? c[i] : 0;
        for (uint32_t half = 0; half < 2; half++) {
            const uint8_t *left = hopper_piece(w, hopper_left(i), half),
                          *right = hopper_piece(x, hopper_right(i), half);
            for (uint32_t k = 0; k < 16; k++)
                sum += (is_unsigned ? (int32_t)left[k] : (int32_t)(int8_t)left[k]) *
                       (int32_t)(int8_t)right[k];
        }
        c[i] = sum;
    }
}
/* Number k of sixteen of row n of the right side, or with is_turned of its column n. */
RF_DEVICE double hopper_right_at(hopper_side x, uint32_t n, uint32_t k, uint32_t form,
                                 int is_turned) {
    const uint32_t row = is_turned ? k : n, col = is_turned ? n : k;
    uint16_t h;
    memcpy(&h, hopper_piece(x, row, col / 8) + col % 8 * 2, sizeof h);
    return (double)half_number(h, 0, form);
}
/* c of n rows of the right side. */
RF_DEVICE void hopper_own(float *c, uint32_t n_x, const uint32_t w[4], hopper_side x, uint32_t form,
                          int is_more, int is_turned) {
    double left[2][16]; /* of the rows that four threads have together */
    for (uint32_t i = 0; i < 4; i++) {
        rf_host_word[rf_tid()] = w[i];
        rf_host_warp_sync();
        for (uint32_t k = 0; k < 8; k++)
            left[i % 2][i / 2 * 8 + k] =
                (double)half_number(rf_host_word[rf_tid() / 4 * 4 + k / 2], k % 2, form);
        rf_host_warp_sync();
    }
    for (uint32_t i = 0; i < n_x / 2; i++) {
        double sum = is_more ? (double)c[i] : 0;
        for (uint32_t k = 0; k < 16; k++)
            sum += left[i % 4 / 2][k] * hopper_right_at(x, hopper_right(i), k, form, is_turned);
        c[i] = (float)sum;
    }
}
RF_DEVICE void hopper_multiply_own(float *c, uint32_t n, const uint32_t w[4], hopper_side x,
                                   int is_more) {
    hopper_own(c, n, w, x, RF_GPU_F16, is_more, 0);
}
/* Of threads t of four the left side's columns t and t + 4. */
RF_DEVICE void hopper_multiply_own_f32(float *c, uint32_t n, const uint32_t w[4], hopper_side x) {
    double left[2][8];
    for (uint32_t i = 0; i < 4; i++) {
        rf_host_word[rf_tid()] = w[i];
        rf_host_warp_sync();
        for (uint32_t k = 0; k < 4; k++)
            left[i % 2][i / 2 * 4 + k] =
                (double)rf_float_of(rf_host_word[rf_tid() / 4 * 4 + k] & 0xffffe000u);
        rf_host_warp_sync();
    }
    for (uint32_t i = 0; i < n / 2; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < 8; k++) {
            uint32_t right;
            memcpy(&right, hopper_piece(x, hopper_right(i), k / 4) + k % 4 * 4, sizeof right);
            sum += left[i % 4 / 2][k] * (double)rf_float_of(right & 0xffffe000u);
        }
        c[i] = (float)sum;
    }
}
RF_DEVICE void hopper_multiply_turned(float *c, const uint32_t w[4], hopper_side x, int is_f16,
                                      int is_more) {
    hopper_own(c, 64, w, x, is_f16 ? RF_GPU_F16 : RF_GPU_BF16, is_more, 1);
}
/* As half_multiply. */
RF_DEVICE void hopper_multiply_halves(float *c, uint32_t n, hopper_side w, hopper_side x,
                                      int is_f16, int is_more) {
    const uint32_t form = is_f16 ? RF_GPU_F16 : RF_GPU_BF16;
    for (uint32_t i = 0; i < n / 2; i++) {
        double sum = is_more ? (double)c[i] : 0;
        for (uint32_t half = 0; half < 2; half++) {
            uint32_t left[4], right[4];
            memcpy(left, hopper_piece(w, hopper_left(i), half), sizeof left);
            memcpy(right, hopper_piece(x, hopper_right(i), half), sizeof right);
            for (uint32_t k = 0; k < 8; k++)
                sum += (double)half_number(left[k / 2], k % 2, form) *
                       (double)half_number(right[k / 2], k % 2, form);
        }
        c[i] = (float)sum;
    }
}
#endif
