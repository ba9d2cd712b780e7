/* outputs.h - how a warp writes what matrix units leave in its registers: sixteen weight rows, with a GLU eight of
 * either matrix, by a multiple of 32 activation rows, of which a thread has those of weight rows g and g + 8 and of
 * activation rows 2t and 2t + 1 of each eight.
 *
 * They pass through shared memory, 32 activation rows at a time, so that a thread gets four neighbours. */
#pragma once
#include "backend/gpu/kernels/mm.h"
#include "backend/gpu/tile.h"

#if defined(RF_HOPPER)
/* What a warp writes of a tile. */
typedef struct outputs_of {
    const rf_gpu_matmul_args *a;
    const mm_share *s;
    const float *scale; /* what an activation row's outputs are multiplied with, or NULL */
    uint32_t row;       /* the warp's first output row, */
    uint32_t x;         /* and its first activation row of the share */
} outputs_of;

enum { OUTPUTS_FOURS = 4 }; /* of a thread, of 32 activation rows by sixteen weight rows */

/* Are four outputs, the first of which is number 4n of a row, and what is added to them, read and written at
 * once? */
RF_DEVICE int outputs_by_fours(const outputs_of *o) {
    const rf_gpu_product *p = &o->s->p;
    const uint64_t at = (uint64_t)p->dst | (uint64_t)p->add | (uint64_t)p->bias;
    return (at | 4 * p->dst_stride | 4 * p->w.rows) % 16 == 0;
}

RF_DEVICE float outputs_scale(const outputs_of *o, uint32_t dst_row) {
    return o->scale ? o->scale[dst_row] : 1.0f;
}

/* Where output own of activation row i lies in the room: fours of two rows turned, so that neither side meets a bank
 * twice; eight rows further on as far away. */
RF_DEVICE uint32_t outputs_at(uint32_t i, uint32_t own) { return (i * 16 + own) ^ i / 2 % 4 * 8; }
enum { OUTPUTS_EIGHT = 8 * 16 };

RF_DEVICE rf_f4 outputs_room(const float *room, uint32_t i, uint32_t own) {
    return *(const rf_f4 *)(const void *)(room + outputs_at(i, own));
}

/* Of the 32 activation rows from number first on; what they are added to is on its way at once. */
RF_DEVICE void outputs_put_fours(const float *room, const outputs_of *o, uint32_t first) {
    const rf_gpu_product *p = &o->s->p;
    const uint32_t lane = rf_tid() % 32, own = lane % 4 * 4, r = o->row + own;
    const rf_f4 zero = {{0.0f, 0.0f, 0.0f, 0.0f}};
    const float *from[OUTPUTS_FOURS];
    rf_f4 add[OUTPUTS_FOURS], bias = zero;
    if (r >= p->w.rows) return;
    if (p->bias)
        bias = *(const rf_f4 *)(const void *)(p->bias + (uint64_t)o->s->plane * p->w.rows + r);
    if (p->add) { /* in one piece, so that none waits for another */
        RF_UNROLL
        for (uint32_t k = 0; k < OUTPUTS_FOURS; k++)
            from[k] = p->add + r +
                      (uint64_t)dst_row_of(o->a, o->s, first + lane / 4 + 8 * k) * p->dst_stride;
        RF_UNROLL
        for (uint32_t k = 0; k < OUTPUTS_FOURS; k++)
            add[k] = *(const rf_f4 *)(const void *)from[k];
    }
    RF_UNROLL
    for (uint32_t k = 0; k < OUTPUTS_FOURS; k++) {
        const uint32_t i = lane / 4 + 8 * k, dst_row = dst_row_of(o->a, o->s, first + i);
        const float up = outputs_scale(o, dst_row);
        rf_f4 v = outputs_room(room + k * OUTPUTS_EIGHT, lane / 4, own);
        if (first + i >= o->s->n) break;
        RF_UNROLL
        for (int j = 0; j < 4; j++) {
            v.v[j] = v.v[j] * up;
            if (p->bias) v.v[j] = v.v[j] + bias.v[j];
            if (p->add) v.v[j] = add[k].v[j] + v.v[j];
        }
        *(rf_f4 *)(void *)(p->dst + (uint64_t)dst_row * p->dst_stride + r) = v;
    }
}

/* Of a SwiGLU, gates of a thread that are made side by side, so that they hide what one waits for: no branches, which
 * would put one behind the other. */
enum { OUTPUTS_GATES = 8 };

/* Nearly 1 / x. */
RF_DEVICE float outputs_inverse(float x) {
#if defined(RF_NVIDIA)
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#else
    return 1.0f / x;
#endif
}

/* 1 + e^-g as rf_exp32 has it.  Rounding to an integer is an addition here, whose low bits the integer is. */
RF_DEVICE float outputs_below(float g) {
    const float magic = 12582912.0f, x = -g;
    float y = x < RF_EXPF_MIN ? RF_EXPF_MIN : x;
    y = y > RF_EXPF_MAX ? RF_EXPF_MAX : y;
    const float shifted = y * RF_EXPF_LOG2E + magic, n = shifted - magic;
    const float e = rf_float_of(rf_bits_of(rf_exp_rest(y, n)) + (rf_bits_of(shifted) << 23));
    return 1.0f + (x != x ? x : e);
}

/* g[i] / below[i], rounded: an estimate of the inverse is corrected, then the quotient by what it leaves, all of which f32
 * holds unless numbers are very large or very small; then, and for zeros, they are divided one by one. */
RF_DEVICE void outputs_divide(float v[OUTPUTS_GATES], const float g[OUTPUTS_GATES],
                              const float below[OUTPUTS_GATES]) {
    uint32_t is_far = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < OUTPUTS_GATES; i++) {
        const float guess = outputs_inverse(below[i]);
        const float inverse = rf_fma(guess, rf_fma(-below[i], guess, 1.0f), guess);
        const float q = g[i] * inverse;
        v[i] = rf_fma(inverse, rf_fma(-below[i], q, g[i]), q);
        /* exponents from -60 to 59; of what is below 60 at most, since it is one or more */
        is_far |= (uint32_t)(rf_size_of(g[i]) - 0x21800000u >= 0x3c000000u) |
                  (uint32_t) !(below[i] < 0x1p60f);
    }
    if (!is_far) return;
    RF_UNROLL
    for (uint32_t i = 0; i < OUTPUTS_GATES; i++)
        v[i] = g[i] / below[i];
}

/* Without biases. */
RF_DEVICE void outputs_put_swiglu(const float *room, const outputs_of *o, uint32_t first) {
    const rf_gpu_product *p = &o->s->p;
    const uint32_t lane = rf_tid() % 32, own = lane % 2 * 4, r = o->row + own;
    float g[OUTPUTS_GATES], below[OUTPUTS_GATES], v[OUTPUTS_GATES], scale[2];
    uint32_t dst_row[2];
    if (r >= p->w.rows) return;
    RF_UNROLL
    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t i = lane / 2 + 16 * k;
        const rf_f4 gate = outputs_room(room + 2 * k * OUTPUTS_EIGHT, lane / 2, own);
        dst_row[k] = dst_row_of(o->a, o->s, first + i);
        scale[k] = outputs_scale(o, dst_row[k]);
        RF_UNROLL
        for (uint32_t j = 0; j < 4; j++) {
            g[4 * k + j] = gate.v[j] * scale[k];
            below[4 * k + j] = outputs_below(g[4 * k + j]);
        }
    }
    outputs_divide(v, g, below);
    RF_UNROLL
    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t i = lane / 2 + 16 * k;
        const rf_f4 up = outputs_room(room + 2 * k * OUTPUTS_EIGHT, lane / 2, 8 + own);
        rf_f4 to;
        if (first + i >= o->s->n) break;
        RF_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            to.v[j] = v[4 * k + j] * (up.v[j] * scale[k]);
        *(rf_f4 *)(void *)(p->dst + (uint64_t)dst_row[k] * p->dst_stride + r) = to;
    }
}

/* Whatever it is, one by one. */
RF_DEVICE void outputs_put_each(const float *room, const outputs_of *o, uint32_t first) {
    const uint32_t per_row = o->a->is_glu ? 8 : 16, lane = rf_tid() % 32, own = lane % per_row;
    RF_NO_UNROLL
    for (uint32_t i = lane / per_row; i < 32; i += 32 / per_row) {
        const float gate = room[outputs_at(i, own)], other = room[outputs_at(i, 8 + own % 8)];
        if (first + i >= o->s->n || o->row + own >= o->s->p.w.rows) break;
        const uint32_t dst_row = dst_row_of(o->a, o->s, first + i);
        const float up = outputs_scale(o, dst_row), v = gate * up;
        put_output(o->a, o->s, dst_row, o->row + own, v, o->a->is_glu ? other * up : v);
    }
}

/* Of n_x activation rows; v: as above, and used up; room: the warp's RF_WIDE_OUT_BYTES.  One loop, in which the
 * registers move on: an instruction cache does not hold a copy for each 32. */
RF_DEVICE void outputs_put(float *room, float *v, uint32_t n_x, const outputs_of *o) {
    const uint32_t g = rf_tid() % 32 / 4, t = rf_tid() % 4;
    const int by_fours = outputs_by_fours(o), is_swiglu = o->a->is_glu &&
                                                          o->a->act == RF_ACT_SILU &&
                                                          !o->s->p.bias && !o->a->part[1].bias;
    uint32_t at[4];
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        at[i] = outputs_at(t * 2 + i % 2, g + i / 2 * 8);
    RF_NO_UNROLL
    for (uint32_t first = 0; first < n_x; first += 32) {
        rf_warp_sync();
        RF_UNROLL
        for (uint32_t i = 0; i < 16; i++)
            room[at[i % 4] + i / 4 * OUTPUTS_EIGHT] = v[i];
        RF_UNROLL
        for (uint32_t i = 16; i < n_x / 2; i++)
            v[i - 16] = v[i];
        rf_warp_sync();
        if (by_fours && is_swiglu)
            outputs_put_swiglu(room, o, o->x + first);
        else if (by_fours && !o->a->is_glu)
            outputs_put_fours(room, o, o->x + first);
        else
            outputs_put_each(room, o, o->x + first);
    }
}
#endif
