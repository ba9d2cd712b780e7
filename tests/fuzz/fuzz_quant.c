/* fuzz_quant.c - any bytes as blocks of any format: decoded, unpacked, and both compared.
 *
 * The first byte chooses the format; whole blocks of the rest are decoded from where they lie, so
 * the sanitizer's red zone begins right behind the input, or from a copy that ends with them. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "quant/dtype.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(const rf_dtype_info *info, const rf_int_group *grp, const float *w, size_t n) {
    if (!isfinite(grp->d) || !isfinite(grp->m)) return;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(w[i])) continue;
        double scale = info->view == RF_INT_256 ? grp->scale[i / 16] : 1;
        double min = info->view == RF_INT_256 ? grp->min[i / 16] : 1;
        double product = (double)grp->d * scale * grp->q[i], shift = (double)grp->m * min;
        double slack = (fabs(product) + fabs(shift)) * 2 * (double)FLT_EPSILON + 0x1p-149;
        RF_ASSERT(fabs((double)w[i] - (product + shift)) <= slack);
        RF_ASSERT(!info->is_nonneg || grp->q[i] >= 0);
    }
}

static void try_blocks(rf_dtype t, const uint8_t *blocks, size_t n_elems) {
    const rf_dtype_info *info = rf_dtype_get(t);
    if (!info->decode) return;
    float *w = (float *)rf_alloc(n_elems, sizeof *w);
    if (!w) return;
    info->decode(blocks, w, n_elems);
    size_t group = info->view == RF_INT_256 ? 256 : 32;
    for (size_t g = 0; info->unpack && g < n_elems / group; g++) {
        rf_int_group grp;
        info->unpack(blocks, g, &grp);
        compare(info, &grp, w + g * group, group);
    }
    rf_free(w);
}

static void look_up(const uint8_t *data, size_t size) {
    rf_dtype t;
    uint64_t n = 0;
    size_t bytes;
    memcpy(&n, data, size < sizeof n ? size : sizeof n);
    if (rf_dtype_from_id((uint32_t)n, &t)) RF_ASSERT(rf_dtype_get(t)->id == (uint32_t)n);
    if (rf_dtype_from_name((rf_str){(const char *)data, size}, &t))
        RF_ASSERT(strlen(rf_dtype_get(t)->name) == size);
    t = (rf_dtype)(data[0] % RF_DT_COUNT);
    if (rf_dtype_bytes(t, n, &bytes)) {
        const rf_dtype_info *info = rf_dtype_get(t);
        RF_ASSERT(bytes / info->block_bytes == n / info->block_elems);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    look_up(data, size);
    rf_dtype t = (rf_dtype)(data[0] % RF_DT_COUNT);
    const rf_dtype_info *info = rf_dtype_get(t);
    size_t n_blocks = (size - 1) / info->block_bytes, n_bytes = n_blocks * info->block_bytes;
    try_blocks(t, data + size - n_bytes, n_blocks * info->block_elems);
    uint8_t *copy = (uint8_t *)rf_alloc(n_bytes, 1); /* the same blocks, aligned */
    if (!copy) return 0;
    if (n_bytes > 0) memcpy(copy, data + 1, n_bytes);
    try_blocks(t, copy, n_blocks * info->block_elems);
    rf_free(copy);
    return 0;
}
