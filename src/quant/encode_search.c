/* encode_search.c - the searches for any machine, and the choice of the best for this one. */
#include <stdatomic.h>

#include "base/os.h"
#include "quant/encode_grid.h"
#include "quant/encode_super.h"

const rf_enc_searches rf_enc_searches_base = {search_scales, search_affines, search_points};

/* Asking the CPU is slow, so the answer is kept; threads that ask at once get the same one. */
static const rf_enc_searches *best(void) {
    static _Atomic(const rf_enc_searches *) chosen;
    const rf_enc_searches *s = atomic_load_explicit(&chosen, memory_order_acquire);
    if (s) return s;
    s = &rf_enc_searches_base;
#if defined(__x86_64__)
    rf_isa isa;
    if (rf_isa_choose(&isa, NULL) == RF_OK && isa >= RF_ISA_AVX2) s = &rf_enc_searches_avx2;
#endif
    atomic_store_explicit(&chosen, s, memory_order_release);
    return s;
}

void rf_enc_super_scale(const rf_enc_block *b, int n_subs, int smallest, int largest,
                        const rf_levels *lv, rf_enc_super *out) {
    best()->super_scale(b, n_subs, smallest, largest, lv, out);
}

void rf_enc_super_affine(const rf_enc_block *b, int n_subs, int largest, float hi,
                         rf_enc_super *out) {
    best()->super_affine(b, n_subs, largest, hi, out);
}

void rf_enc_grid(const rf_enc_grid_format *f, const float *src, size_t n, const float *importance,
                 rf_enc_grid_sink sink, void *dst) {
    best()->grid(f, src, n, importance, sink, dst);
}
