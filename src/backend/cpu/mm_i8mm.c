/* mm_i8mm.c - the matrix product for 64-bit ARM with matrix instructions of 8-bit integers: two weight
 * rows times two activation rows over eight k at once.  All else is NEON's (mm_neon.c). */
#include "backend/cpu/mm.h"
#include "backend/cpu/mm_neon_types.h"

/* Adds the products of n k (a multiple of 16) to i; w: [n / 8][LANES][8].  An accumulator holds rows
 * (r, r + 1) times activations (t, t + 1); unzipping two of them puts four rows into lanes. */
RF_INLINE void products(const int8_t *w, const int8_t *const x[], int nt, int n, lane_ints *i) {
    int32x4_t p[LANES / 2][WIDTH / 2];
    RF_UNROLL
    for (int t = 0; t < nt; t += 2) {
        const int8_t *x0 = x[t], *x1 = x[t + 1 < nt ? t + 1 : t];
        RF_UNROLL
        for (int r = 0; r < LANES / 2; r++)
            p[r][t / 2] = vdupq_n_s32(0);
        RF_UNROLL
        for (int k = 0; k < n; k += 8) {
            int8x16_t xk = vcombine_s8(vld1_s8(x0 + k), vld1_s8(x1 + k));
            RF_UNROLL
            for (int r = 0; r < LANES / 2; r++)
                p[r][t / 2] = vmmlaq_s32(p[r][t / 2], vld1q_s8(w + k * LANES + 16 * r), xk);
        }
        RF_UNROLL
        for (int half = 0; half < 2; half++) {
            int32x4_t a = p[2 * half][t / 2], b = p[2 * half + 1][t / 2];
            i->v[half][t] = vaddq_s32(i->v[half][t], vuzp1q_s32(a, b));
            if (t + 1 < nt) i->v[half][t + 1] = vaddq_s32(i->v[half][t + 1], vuzp2q_s32(a, b));
        }
    }
}

#define CHUNK 8
#include "backend/cpu/mm_neon.h"

static void (*matmul_below)(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch);

static void matmul(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    if (mm->act->view == RF_INT_NONE || mm->act->n_rows < RF_MM_TILE_MIN)
        matmul_below(mm, begin, end, scratch);
    else
        matmul_panels(mm, begin, end, scratch);
}

void rf_cpu_mm_i8mm(rf_cpu_kernels *k) {
    matmul_below = k->matmul;
    k->matmul = matmul;
}
