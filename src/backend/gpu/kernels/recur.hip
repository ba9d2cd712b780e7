/* recur.hip - heads that keep a matrix S of [head_dim][value_dim]: the delta rule and the scan.
 *
 * A thread has one column of S and goes through its sequence's rows in order; a block has some columns
 * of one head of one sequence.  What all columns need of a row is made beforehand by recur_ready.  The
 * column lies in the slot of state all the time. */
#include "backend/gpu/kernels/recur.h"
#include "backend/gpu/kernels/softplus.h"

/* What a row needs beside a and b ----------------------------------------------------------------*/

typedef struct ready_shared {
    float x[2][RF_MAX_HEAD_DIM]; /* q and k */
    float lanes[2][16];
} ready_shared;

/* q and k of a key head, normalised and scaled. */
RF_DEVICE void ready_keys(ready_shared *s, const rf_gpu_recur_args *a, float *out, const float *x) {
    const uint32_t tid = rf_tid(), n = a->head_dim, which = tid / 16;
    const uint64_t n_keys = a->n_kv_heads * n;
    for (uint32_t i = tid; i < n; i += RF_BLOCK_recur_ready) {
        s->x[0][i] = x[i];
        s->x[1][i] = x[n_keys + i];
    }
    rf_sync();
    if (which < 2) {
        float total = 0.0f;
        for (uint32_t first = 0; first < n; first += RF_NORM_STRETCH) {
            const uint32_t end = rf_min_u32(first + RF_NORM_STRETCH, n);
            float acc = 0.0f;
            for (uint32_t i = first + tid % 16; i < end; i += 16)
                acc = rf_fma(s->x[which][i], s->x[which][i], acc);
            total += acc;
        }
        s->lanes[which][tid % 16] = total;
    }
    rf_sync();
    const float r0 = 1.0f / __builtin_sqrtf(rf_tree16(s->lanes[0]) / (float)n + a->eps);
    const float r1 = 1.0f / __builtin_sqrtf(rf_tree16(s->lanes[1]) / (float)n + a->eps);
    const float scale0 = 1.0f / (float)n, scale1 = 1.0f / __builtin_sqrtf((float)n);
    for (uint32_t i = tid; i < n; i += RF_BLOCK_recur_ready) {
        out[i] = (s->x[0][i] * r0) * scale0;
        out[n_keys + i] = (s->x[1][i] * r1) * scale1;
    }
}

/* How much of S stays, and beta of the delta rule or dt of the scan: [2][n_heads]. */
RF_DEVICE void ready_gates(const rf_gpu_recur_args *a, float *out, const float *b) {
    for (uint32_t h = rf_tid(); h < a->n_heads; h += RF_BLOCK_recur_ready) {
        const float y = rf_softplus((a->is_delta ? b[a->n_heads + h] : b[h]) + a->bias[h]);
        out[h] = rf_exp32(a->w[h] * y);
        out[a->n_heads + h] = a->is_delta ? rf_gated(1.0f, b[h]) : y;
    }
}

RF_KERNEL(recur_ready, rf_gpu_recur_args) {
    RF_SHARED ready_shared s;
    const uint64_t row = rf_bid_x();
    const uint32_t head = rf_bid_y();
    float *out = a.ready + row * rf_ready_cols(&a);
    if (a.is_delta && head < a.n_kv_heads) {
        const uint64_t at = head * a.head_dim;
        ready_keys(&s, &a, out + at, a.a + row * rf_recur_cols(&a) + at);
        return;
    }
    if (a.is_delta) out += 2 * a.n_kv_heads * a.head_dim;
    ready_gates(&a, out, a.b + row * (a.is_delta ? 2 : 1) * a.n_heads);
}

/* Columns of S -----------------------------------------------------------------------------------*/

typedef struct pair_shared {
    float x[2][RF_MAX_HEAD_DIM];
} pair_shared;

RF_DEVICE void take_pair(pair_shared *s, const rf_gpu_recur_args *a, const rf_recur_place *p,
                         uint64_t row) {
    rf_sync();
    for (uint32_t i = rf_tid(); i < a->head_dim; i += RF_BLOCK_delta) {
        s->x[0][i] = p->pair[row * p->pair_cols + i];
        s->x[1][i] = p->pair[row * p->pair_cols + p->second_at + i];
    }
    rf_sync();
}

RF_KERNEL(delta, rf_gpu_recur_args) {
    RF_SHARED pair_shared s;
    const rf_recur_place p = rf_recur_place_of(&a);
    const float *q = s.x[0], *k = s.x[1];
    for (uint32_t t = p.first; t < p.end; t++) {
        take_pair(&s, &a, &p, t);
        if (!p.is_mine) continue;
        const int is_zero = p.is_new && t == p.first;
        const float decay = rf_decay_at(&a, &p, t);
        float has = 0.0f, out = 0.0f;
        RF_UNROLL_8
        for (uint32_t i = 0; i < a.head_dim; i++) {
            float *at = p.s + (uint64_t)i * a.value_dim;
            const float v = (is_zero ? 0.0f : *at) * decay;
            has = rf_fma(v, k[i], has);
            *at = v;
        }
        const float d = (rf_value_at(&a, &p, t) - has) * rf_gate_at(&a, &p, t);
        RF_UNROLL_8
        for (uint32_t i = 0; i < a.head_dim; i++) {
            float *at = p.s + (uint64_t)i * a.value_dim;
            const float v = rf_fma(d, k[i], *at);
            out = rf_fma(v, q[i], out);
            *at = v;
        }
        *rf_recur_dst(&a, &p, t) = out;
    }
}

RF_KERNEL(scan, rf_gpu_recur_args) {
    RF_SHARED pair_shared s;
    const rf_recur_place p = rf_recur_place_of(&a);
    for (uint32_t t = p.first; t < p.end; t++) {
        take_pair(&s, &a, &p, t);
        if (!p.is_mine) continue;
        const int is_zero = p.is_new && t == p.first;
        const float decay = rf_decay_at(&a, &p, t),
                    in = rf_value_at(&a, &p, t) * rf_gate_at(&a, &p, t);
        float out = 0.0f;
        RF_UNROLL_8
        for (uint32_t i = 0; i < a.head_dim; i++) {
            float *at = p.s + (uint64_t)i * a.value_dim;
            const float v = rf_fma(in, s.x[0][i], (is_zero ? 0.0f : *at) * decay);
            out = rf_fma(v, s.x[1][i], out);
            *at = v;
        }
        *rf_recur_dst(&a, &p, t) = out;
    }
}
