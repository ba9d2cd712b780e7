/* half_wide.hip - products of 16-bit floats with very many activation rows on Hopper's matrix units, by
 * half.h's rule: a step of wgmma has the same sixteen columns as one of mma.sync, and the same bits.
 *
 * A block goes through tiles of 128 weight rows by 128 or 256 activation rows (half_ring.h); two teams of four
 * warps multiply 64 of the weight rows each. */
#include "backend/gpu/kernels/half_ring.h"
#include "backend/gpu/kernels/outputs.h"

#if defined(RF_HOPPER)
enum {
    HW_TEAM = 128, /* threads */
    HW_ROWS = RF_HALF_WIDE_ROWS,
};

/* Products of a stage's 64 columns onto c. */
RF_DEVICE void hw_begin(float *c, const uint8_t *stage, uint32_t team, const hr_work *k,
                        int is_more) {
    const uint32_t at = rf_shared_at(stage);
    RF_UNROLL
    for (uint32_t i = 0; i < RF_HALF_PANEL / 16; i++)
        hopper_multiply_halves(c, k->n_x, hopper_chunk(at + team * 64 * 128, i),
                               hopper_chunk(at + HW_ROWS * 128, i), k->form == RF_GPU_F16,
                               is_more || i);
    hopper_end();
}

/* A stage is given back when the products behind it have begun and its own are done. */
RF_DEVICE void hw_multiply(const hr_work *k) {
    const uint32_t team = rf_tid() / HW_TEAM;
    const int speaks = ring_speaks();
    float *out = (float *)(void *)(hr_stage(k, k->n_stages) + rf_tid() / 32 * RF_WIDE_OUT_BYTES);
    hr_place at = {rf_bid_x(), 0, 0, 0};
    RF_NO_UNROLL
    while (at.i < k->end) {
        const mm_share share = hr_share(k, at.i);
        float c[RF_HALF_WIDE_X / 2];
        uint32_t before = 0;
        RF_UNROLL
        for (uint32_t j = 0; j < k->n_x / 2; j++)
            c[j] = 0.0f;
        hopper_hold_halves(c, k->n_x);
        RF_NO_UNROLL
        for (uint32_t g = 0; g < k->n_steps; g++) {
            ring_await(&k->sh->full[at.now], at.parity);
            hopper_publish();
            hopper_begin();
            hw_begin(c, hr_stage(k, at.now), team, k, g > 0);
            hopper_wait_but(1);
            if (speaks && g > 0) ring_arrive(&k->sh->empty[before]);
            before = at.now;
            hr_turn(&at, k);
        }
        hopper_wait_but(0);
        hopper_hold_halves(c, k->n_x);
        if (speaks) ring_arrive(&k->sh->empty[before]);
        const uint32_t row = (share.tile * HW_ROWS + rf_tid() / 32 * 16) / (k->a->is_glu ? 2 : 1);
        const outputs_of o = {k->a, &share, k->form == RF_GPU_F16 ? k->a->halves.scale : 0, row,
                              0};
        outputs_put(out, c, k->n_x, &o);
    }
}

HOPPER_REGISTERS(HR_BRING, 56, 2 * HW_TEAM, 224)
RF_DEVICE void hw_run(const rf_gpu_matmul_args *a, uint32_t n_x, uint32_t form) {
    const hr_work k = hr_work_of(a, HW_ROWS, n_x, 1, rf_half_wide_stages(n_x), form, 2 * HW_TEAM);
    if (rf_tid() >= 2 * HW_TEAM) {
        hopper_56_registers();
        hr_bring(&k);
        return;
    }
    hopper_224_registers();
    hw_multiply(&k);
}

#define HALF_WIDE(n_x)                                             \
    RF_KERNEL_ALONE(half_wide_##n_x, rf_gpu_matmul_args) {         \
        hw_run(&a, n_x, RF_GPU_F16);                               \
    }                                                              \
    RF_KERNEL_KIND_ALONE(half_wide_##n_x, 1, rf_gpu_matmul_args) { \
        hw_run(&a, n_x, RF_GPU_BF16);                              \
    }
HALF_WIDE(128)
HALF_WIDE(256)
#endif
