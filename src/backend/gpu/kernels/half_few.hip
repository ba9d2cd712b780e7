/* half_few.hip - products of 16-bit floats with few activation rows on Hopper's matrix units, by half.h's rule,
 * bound by what comes through the second-level cache.
 *
 * A block goes through tiles of 32 to 128 weight rows by up to 64 activation rows (half_ring.h); four warps multiply, the
 * activation rows as the left side, so that tiles may be as low as the device wants them.  The left side has 64
 * rows; those behind the last activation row are whatever lies behind the stage, and nobody reads what is made
 * of them. */
#include "backend/gpu/kernels/half_ring.h"

#if defined(RF_HOPPER)
enum {
    HF_TEAM = 128,  /* threads */
    HF_AT_ONCE = 4, /* outputs of a thread, so that one's operands hide the others' */
};

/* Products of a stage onto c. */
RF_DEVICE void hf_begin(float *c, const uint8_t *stage, const hr_work *k, int is_more) {
    const uint32_t w_panel = k->rows * HR_ROW_BYTES, x_panel = k->n_x * HR_ROW_BYTES;
    const uint32_t w = rf_shared_at(stage), x = w + k->panels * w_panel;
    RF_UNROLL
    for (uint32_t i = 0; i < k->panels * RF_HALF_PANEL / 16; i++)
        hopper_multiply_halves(c, k->rows, hopper_chunk(x + i / 4 * x_panel, i % 4),
                               hopper_chunk(w + i / 4 * w_panel, i % 4), k->form == RF_GPU_F16,
                               is_more || i);
    hopper_end();
}

/* A warp's outputs, of up to sixteen activation rows, in shared memory. */
typedef struct hf_outputs {
    const hr_work *k;
    const mm_share *s;
    const float *out;
    uint32_t stride, first; /* first: activation row */
} hf_outputs;

/* Where number i of these outputs lies, and goes. */
typedef struct hf_output {
    const float *sum;
    uint32_t row, dst_row;
    int is_there;
} hf_output;

RF_DEVICE hf_output hf_output_of(const hf_outputs *o, uint32_t i) {
    const rf_gpu_matmul_args *a = o->k->a;
    const uint32_t per_row = a->is_glu ? o->k->rows / 2 : o->k->rows, r = i % per_row;
    hf_output to;
    const uint32_t own = o->first + i / per_row;
    to.dst_row = o->s->first + own;
    to.row = o->s->tile * per_row + r;
    to.sum = o->out + i / per_row * o->stride + (a->is_glu ? r / 8 * 16 + r % 8 : r);
    to.is_there = i / per_row < 16 && own < o->s->n && to.row < o->s->p.w.rows;
    return to;
}

/* Outputs of a GLU. */
RF_DEVICE void hf_put_glu(const hf_outputs *o) {
    const rf_gpu_matmul_args *a = o->k->a;
    RF_NO_UNROLL
    for (uint32_t i = rf_tid() % 32; i < 8 * o->k->rows; i += 32) {
        const hf_output to = hf_output_of(o, i);
        if (!to.is_there) continue;
        const float up = o->k->form == RF_GPU_F16 ? a->halves.scale[to.dst_row] : 1.0f;
        put_output(a, o->s, to.dst_row, to.row, to.sum[0] * up, to.sum[8] * up);
    }
}

/* Others: some of them at once, all of whose loads are ahead of the first store. */
RF_DEVICE void hf_put_plain(const hf_outputs *o) {
    const rf_gpu_matmul_args *a = o->k->a;
    const rf_gpu_product *p = &o->s->p;
    RF_NO_UNROLL
    for (uint32_t first = rf_tid() % 32; first < 16 * o->k->rows; first += 32 * HF_AT_ONCE) {
        float v[HF_AT_ONCE], add[HF_AT_ONCE];
        RF_UNROLL
        for (uint32_t j = 0; j < HF_AT_ONCE; j++) {
            const hf_output to = hf_output_of(o, first + 32 * j);
            v[j] = add[j] = 0.0f;
            if (!to.is_there) continue;
            v[j] = *to.sum;
            if (o->k->form == RF_GPU_F16) v[j] *= a->halves.scale[to.dst_row];
            v[j] = with_bias(p, 0, to.row, v[j]);
            if (p->add) add[j] = p->add[(uint64_t)to.dst_row * p->dst_stride + to.row];
        }
        RF_UNROLL
        for (uint32_t j = 0; j < HF_AT_ONCE; j++) {
            const hf_output to = hf_output_of(o, first + 32 * j);
            if (to.is_there)
                p->dst[(uint64_t)to.dst_row * p->dst_stride + to.row] =
                    p->add ? add[j] + v[j] : v[j];
        }
    }
}

/* A thread has activation rows g and g + 8 of its warp's sixteen, weight rows 2t and 2t + 1 of each eight; they
 * pass through shared memory of the warp, so that one loop writes them. */
RF_DEVICE void hf_put(float *out, const float *c, const hr_work *k, const mm_share *s) {
    const uint32_t lane = rf_tid() % 32, g = lane / 4, t = lane % 4;
    const hf_outputs o = {k, s, out, k->rows + RF_HALF_FEW_PAD, rf_tid() / 32 * 16};
    if (o.first >= s->n) return;
    rf_warp_sync();
    RF_UNROLL
    for (uint32_t i = 0; i < k->rows / 2; i += 2) {
        const rf_f2 both = {{c[i], c[i + 1]}};
        *(rf_f2 *)(void *)(out + (g + i % 4 / 2 * 8) * o.stride + i / 4 * 8 + 2 * t) = both;
    }
    rf_warp_sync();
    if (k->a->is_glu)
        hf_put_glu(&o);
    else
        hf_put_plain(&o);
}

/* A stage is given back when the products behind it have begun and its own are done. */
RF_DEVICE void hf_multiply(const hr_work *k) {
    const int speaks = ring_speaks();
    float *out = (float *)(void *)hr_stage(k, k->n_stages) +
                 rf_tid() / 32 * 16 * (k->rows + RF_HALF_FEW_PAD);
    hr_place at = {rf_bid_x(), 0, 0, 0};
    rf_await_before();
    RF_NO_UNROLL
    while (at.i < k->end) {
        const mm_share share = hr_share(k, at.i);
        float c[RF_HALF_FEW_MOST / 2];
        uint32_t before = 0;
        RF_UNROLL
        for (uint32_t j = 0; j < k->rows / 2; j++)
            c[j] = 0.0f;
        hopper_hold_halves(c, k->rows);
        RF_NO_UNROLL
        for (uint32_t g = 0; g < k->n_steps; g++) {
            ring_await(&k->sh->full[at.now], at.parity);
            hopper_publish();
            hopper_begin();
            hf_begin(c, hr_stage(k, at.now), k, g > 0);
            hopper_wait_but(1);
            if (speaks && g > 0) ring_arrive(&k->sh->empty[before]);
            before = at.now;
            hr_turn(&at, k);
        }
        hopper_wait_but(0);
        hopper_hold_halves(c, k->rows);
        if (speaks) ring_arrive(&k->sh->empty[before]);
        hf_put(out, c, k, &share);
    }
}

/* panels: a constant. */
RF_DEVICE void hf_run(const rf_gpu_matmul_args *a, uint32_t rows, uint32_t panels, uint32_t form) {
    const hr_work k = hr_work_of(a, rows, a->halves.n_x, panels, a->n_stages, form, HF_TEAM);
    if (rf_tid() >= HF_TEAM)
        hr_bring(&k);
    else
        hf_multiply(&k);
}

RF_DEVICE void hf_run_any(const rf_gpu_matmul_args *a, uint32_t rows, uint32_t form) {
    const uint32_t few = rf_half_few_panels(rows, 8), many = rf_half_few_panels(rows, 64);
    if (few == many || rf_half_few_panels(rows, a->halves.n_x) == many)
        hf_run(a, rows, many, form);
    else
        hf_run(a, rows, few, form);
}

#define HALF_FEW(rows)                                                \
    RF_KERNEL_EARLY(half_few_##rows, rf_gpu_matmul_args, 2) {         \
        hf_run_any(&a, rows, RF_GPU_F16);                             \
    }                                                                 \
    RF_KERNEL_KIND_EARLY(half_few_##rows, 1, rf_gpu_matmul_args, 2) { \
        hf_run_any(&a, rows, RF_GPU_BF16);                            \
    }
HALF_FEW(32)
HALF_FEW(48)
HALF_FEW(112)
HALF_FEW(128)
#endif
