/* recur_kept.hip - delta and scan with 128 rows of S, a thread's column of which stays in registers:
 * NVIDIA's only, whose compiler finds room for it. */
#include "backend/gpu/kernels/recur.h"

#if defined(RF_NVIDIA)
enum {
    KEPT = RF_GPU_RECUR_KEPT,
    PAIR = 2 * KEPT, /* of a row: queries and keys, or B and C */
    TOGETHER = 4,    /* rows of a pass of the scan */
};

RF_DEVICE void take_column(float *s, const rf_gpu_recur_args *a, const rf_recur_place *p) {
    RF_UNROLL
    for (uint32_t i = 0; i < KEPT; i++)
        s[i] = p->is_new ? 0.0f : p->s[(uint64_t)i * a->value_dim];
}

RF_DEVICE void put_column(const float *s, const rf_gpu_recur_args *a, const rf_recur_place *p) {
    if (!p->is_mine) return;
    RF_UNROLL
    for (uint32_t i = 0; i < KEPT; i++)
        p->s[(uint64_t)i * a->value_dim] = s[i];
}

/* A thread's part of a row's pair on its way into shared memory. */
enum { OWN_OF_PAIR = PAIR / (int)RF_BLOCK_delta_128 };
typedef struct pair_row {
    rf_f4 first[KEPT / 4], second[KEPT / 4];
} pair_row;

RF_DEVICE void load_pair(float *own, const rf_recur_place *p, uint64_t row) {
    const float *x = p->pair + row * p->pair_cols;
    RF_UNROLL
    for (uint32_t j = 0; j < OWN_OF_PAIR; j++) {
        const uint32_t i = rf_tid() + RF_BLOCK_delta_128 * j;
        own[j] = i < KEPT ? x[i] : x[p->second_at + i - KEPT];
    }
}

RF_DEVICE void keep_pair(pair_row *to, const float *own) {
    RF_UNROLL
    for (uint32_t j = 0; j < OWN_OF_PAIR; j++) {
        const uint32_t i = rf_tid() + RF_BLOCK_delta_128 * j;
        rf_f4 *half = i < KEPT ? to->first : to->second;
        half[i % KEPT / 4].v[i % 4] = own[j];
    }
}

/* What of the column a row's key finds, after the decay. */
RF_DEVICE float delta_find(float *s, const pair_row *row, float decay) {
    float has = 0.0f;
    RF_UNROLL
    for (uint32_t i = 0; i < KEPT; i += 4) {
        const rf_f4 k = row->second[i / 4];
        RF_UNROLL
        for (uint32_t e = 0; e < 4; e++) {
            s[i + e] = s[i + e] * decay;
            has = rf_fma(s[i + e], k.v[e], has);
        }
    }
    return has;
}

/* Adds d times the row's key, and asks for its query; at once the next row's decay and its key. */
RF_DEVICE float delta_pass(float *s, const pair_row *row, const pair_row *next, float d,
                           float next_decay, float *has) {
    float out = 0.0f, found = 0.0f;
    RF_UNROLL
    for (uint32_t i = 0; i < KEPT; i += 4) {
        const rf_f4 q = row->first[i / 4], k = row->second[i / 4], next_k = next->second[i / 4];
        RF_UNROLL
        for (uint32_t e = 0; e < 4; e++) {
            const float v = rf_fma(d, k.v[e], s[i + e]);
            out = rf_fma(v, q.v[e], out);
            s[i + e] = v * next_decay;
            found = rf_fma(s[i + e], next_k.v[e], found);
        }
    }
    *has = found;
    return out;
}

RF_KERNEL_ALONE(delta_128, rf_gpu_recur_args) {
    RF_SHARED pair_row ring[3]; /* rows t, t + 1 and, being written, t + 2 */
    const rf_recur_place p = rf_recur_place_of(&a);
    float s[KEPT], own[OWN_OF_PAIR];
    load_pair(own, &p, p.first);
    keep_pair(&ring[0], own);
    if (p.first + 1 < p.end) {
        load_pair(own, &p, p.first + 1);
        keep_pair(&ring[1], own);
    }
    take_column(s, &a, &p);
    float value = rf_value_at(&a, &p, p.first), beta = rf_gate_at(&a, &p, p.first);
    rf_sync();
    float has = delta_find(s, &ring[0], rf_decay_at(&a, &p, p.first));
    uint32_t at = 0;
    RF_NO_UNROLL
    for (uint32_t t = p.first; t < p.end; t++) {
        const int goes_on = t + 1 < p.end;
        const float d = (value - has) * beta, decay = goes_on ? rf_decay_at(&a, &p, t + 1) : 1.0f;
        if (goes_on) {
            value = rf_value_at(&a, &p, t + 1);
            beta = rf_gate_at(&a, &p, t + 1);
        }
        if (t + 2 < p.end) load_pair(own, &p, t + 2);
        const uint32_t next = at == 2 ? 0 : at + 1, behind = next == 2 ? 0 : next + 1;
        const float out = delta_pass(s, &ring[at], &ring[goes_on ? next : at], d, decay, &has);
        if (p.is_mine) *rf_recur_dst(&a, &p, t) = out;
        if (t + 2 < p.end) keep_pair(&ring[behind], own);
        rf_sync();
        at = next;
    }
    put_column(s, &a, &p);
}

/* n rows, which is a constant: each adds to the column what the one before left. */
RF_DEVICE void scan_pass(float *s, const pair_row *rows, const float *in, const float *decay,
                         float *out, uint32_t n) {
    RF_UNROLL
    for (uint32_t j = 0; j < n; j++)
        out[j] = 0.0f;
    RF_UNROLL
    for (uint32_t i = 0; i < KEPT; i += 4) {
        rf_f4 b[TOGETHER], c[TOGETHER];
        RF_UNROLL
        for (uint32_t j = 0; j < n; j++) {
            b[j] = rows[j].first[i / 4];
            c[j] = rows[j].second[i / 4];
        }
        RF_UNROLL
        for (uint32_t e = 0; e < 4; e++) {
            RF_UNROLL
            for (uint32_t j = 0; j < n; j++) {
                s[i + e] = rf_fma(in[j], b[j].v[e], s[i + e] * decay[j]);
                out[j] = rf_fma(s[i + e], c[j].v[e], out[j]);
            }
        }
    }
}

/* What a thread brings of the rows of a pass. */
typedef struct scan_rows {
    float own[TOGETHER][OWN_OF_PAIR];
    float x[TOGETHER], dt[TOGETHER], decay[TOGETHER];
} scan_rows;

/* Past the end the last row again. */
RF_DEVICE void scan_load(scan_rows *r, const rf_gpu_recur_args *a, const rf_recur_place *p,
                         uint32_t t) {
    RF_UNROLL
    for (uint32_t j = 0; j < TOGETHER; j++) {
        const uint32_t row = rf_min_u32(t + j, p->end - 1);
        load_pair(r->own[j], p, row);
        r->x[j] = rf_value_at(a, p, row);
        r->dt[j] = rf_gate_at(a, p, row);
        r->decay[j] = rf_decay_at(a, p, row);
    }
}

RF_KERNEL_ALONE(scan_128, rf_gpu_recur_args) {
    RF_SHARED pair_row rows[TOGETHER];
    const rf_recur_place p = rf_recur_place_of(&a);
    float s[KEPT];
    scan_rows r;
    scan_load(&r, &a, &p, p.first);
    take_column(s, &a, &p);
    RF_NO_UNROLL
    for (uint32_t t = p.first; t < p.end; t += TOGETHER) {
        const uint32_t n = rf_min_u32(p.end - t, TOGETHER);
        float in[TOGETHER], decay[TOGETHER], out[TOGETHER];
        rf_sync();
        RF_UNROLL
        for (uint32_t j = 0; j < TOGETHER; j++) {
            keep_pair(&rows[j], r.own[j]);
            in[j] = r.x[j] * r.dt[j];
            decay[j] = r.decay[j];
        }
        rf_sync();
        if (n == TOGETHER) {
            if (t + TOGETHER < p.end) scan_load(&r, &a, &p, t + TOGETHER);
            scan_pass(s, rows, in, decay, out, TOGETHER);
        } else {
            RF_NO_UNROLL
            for (uint32_t j = 0; j < n; j++) {
                const float in_j = j == 0 ? in[0] : j == 1 ? in[1] : in[2];
                const float decay_j = j == 0 ? decay[0] : j == 1 ? decay[1] : decay[2];
                scan_pass(s, &rows[j], &in_j, &decay_j, out, 1);
                if (p.is_mine) *rf_recur_dst(&a, &p, t + j) = out[0];
            }
            break;
        }
        RF_UNROLL
        for (uint32_t j = 0; j < TOGETHER; j++) {
            if (p.is_mine) *rf_recur_dst(&a, &p, t + j) = out[j];
        }
    }
    put_column(s, &a, &p);
}
#endif
