/* attend.hip - attention over the paged KV pool; one block per row, KV head and one or four of the
 * query heads that share it.
 *
 * The keys pass in steps of up to four blocks of 32.  Scores, exponentials and the sums of blocks
 * are made side by side: a thread has whole keys.  Then a thread has columns of the values and adds
 * all keys in order.  Values come through shared memory while the scores are made. */
#include "backend/gpu/kernels/canon.h"

enum {
    STEP_BLOCKS = 4,
    STEP_KEYS = 32 * STEP_BLOCKS,
    VALUE_BYTES = 32 << 10, /* shared memory for values */
    ATTEND_THREADS = RF_BLOCK_attend_4,
};

typedef struct attend_shared {
    rf_u4 v[VALUE_BYTES / 16];
    float q[4][RF_MAX_HEAD_DIM];
    float s[4][STEP_KEYS]; /* scores, then exponentials */
    float most[4][STEP_BLOCKS], sum[4][STEP_BLOCKS];
    uint32_t bits[STEP_BLOCKS]; /* visible keys */
} attend_shared;

/* What one row sees. */
typedef struct attend_span {
    uint32_t begin, end, n_global; /* [begin, end) and [0, n_global) */
    const float *mask;             /* of the row, or NULL */
} attend_span;

RF_DEVICE attend_span span_of(const rf_gpu_attend_args *a, uint32_t row) {
    const uint32_t pos = a->batch.pos[row], kv_len = a->batch.kv_len[a->batch.row_seq[row]];
    const uint32_t past = pos < kv_len ? pos + 1 : kv_len, half = a->window / 2;
    attend_span s;
    s.begin = 0;
    s.end = past;
    s.n_global = 0;
    s.mask = 0;
    if (a->pattern == RF_ATTN_BIDIRECTIONAL || a->pattern == RF_ATTN_CUSTOM) s.end = kv_len;
    if (a->pattern == RF_ATTN_CUSTOM) s.mask = a->batch.mask + (uint64_t)row * a->batch.mask_stride;
    if (a->pattern == RF_ATTN_LOCAL_BOTH) {
        s.begin = pos > half ? pos - half : 0;
        s.end = kv_len - past > half ? past + half : kv_len;
    }
    if (a->pattern == RF_ATTN_LOCAL || a->pattern == RF_ATTN_GLOBAL_LOCAL)
        s.begin = past > a->window ? past - a->window : 0;
    if (a->pattern == RF_ATTN_GLOBAL_LOCAL) s.n_global = rf_min_u32(a->n_global, s.begin);
    return s;
}

/* Bits of the positions [begin, end) in the block that starts at position first. */
RF_DEVICE uint32_t range_bits(uint32_t begin, uint32_t end, uint32_t first) {
    const uint32_t lo = begin > first ? begin - first : 0;
    const uint32_t hi = rf_min_u32(end > first ? end - first : 0, 32);
    if (lo >= hi) return 0;
    return (0xffffffffu >> (32 - hi)) & (0xffffffffu << lo);
}

RF_DEVICE uint32_t visible_bits(const attend_span *s, uint32_t block) {
    const uint32_t first = 32 * block;
    uint32_t bits = range_bits(s->begin, s->end, first) | range_bits(0, s->n_global, first);
    if (!s->mask) return bits;
    for (uint32_t j = 0; j < 32; j++) {
        if (bits >> j & 1 && s->mask[first + j] == -__builtin_inff()) bits &= ~(1u << j);
    }
    return bits;
}

RF_DEVICE float kv_at(const void *pool, uint64_t i, uint32_t is_f16) {
    return is_f16 ? rf_f16_at(((const uint16_t *)pool)[i]) : ((const float *)pool)[i];
}

/* Sixteen f16 at k onto the lanes. */
typedef struct half_16 {
    rf_u4 v[2];
} half_16;
RF_DEVICE void lanes_f16(float lanes[16], const float *q, const half_16 *k) {
    RF_UNROLL
    for (int i = 0; i < 16; i++) {
        const uint16_t h = (uint16_t)(k->v[i / 8].v[i % 8 / 2] >> 16 * (i % 2));
        lanes[i] = rf_fma(q[i], rf_f16_at(h), lanes[i]);
    }
}

/* tree16 of q . k over n columns, the key's first element at index at. */
RF_DEVICE float score_of(const float *q, const void *pool, uint64_t at, uint32_t n,
                         uint32_t is_f16) {
    float lanes[16];
    RF_UNROLL
    for (int i = 0; i < 16; i++)
        lanes[i] = 0.0f;
    uint32_t k = 0;
    if (is_f16 && n % 8 == 0) { /* then every key is aligned */
        const half_16 *from = (const half_16 *)((const uint16_t *)pool + at);
        for (; k + 64 <= n; k += 64) { /* four loads on their way */
            half_16 part[4];
            RF_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                part[i] = from[k / 16 + i];
            RF_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                lanes_f16(lanes, q + k + 16 * i, &part[i]);
        }
        for (; k + 16 <= n; k += 16) {
            const half_16 part = from[k / 16];
            lanes_f16(lanes, q + k, &part);
        }
    }
    for (; k < n; k += 16) {
        RF_UNROLL
        for (uint32_t i = 0; i < 16; i++) {
            if (k + i < n) lanes[i] = rf_fma(q[k + i], kv_at(pool, at + k + i, is_f16), lanes[i]);
        }
    }
    RF_UNROLL
    for (int half = 8; half > 0; half /= 2) {
        RF_UNROLL
        for (int i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    }
    return lanes[0];
}

RF_DEVICE float sum_32(const float *p) {
    float v[16];
    RF_UNROLL
    for (int i = 0; i < 16; i++)
        v[i] = p[i] + p[i + 16];
    RF_UNROLL
    for (int half = 8; half > 0; half /= 2) {
        RF_UNROLL
        for (int i = 0; i < half; i++)
            v[i] += v[i + half];
    }
    return v[0];
}

/* A block's step: heads first .. first + n - 1 of the KV head's own, blocks b .. b + n_blocks - 1. */
typedef struct attend_step {
    const uint32_t *table;
    attend_span span;
    uint32_t kv_head, b, n_blocks;
    uint32_t v_dim; /* columns of a row of the values' pool */
    const void *v;
} attend_step;

RF_DEVICE uint64_t block_at(const rf_gpu_attend_args *a, const attend_step *st, uint32_t i) {
    return ((uint64_t)st->table[st->b + i] * a->n_kv_heads + st->kv_head) * 32;
}

/* The step's values on their way to shared memory, rows of v_dim. */
RF_DEVICE void fetch_values(attend_shared *sh, const rf_gpu_attend_args *a, const attend_step *st) {
    const uint32_t row_bytes = st->v_dim * (a->kv_f16 ? 2 : 4), pieces = 2 * row_bytes;
    for (uint32_t i = 0; i < st->n_blocks; i++) {
        if (!sh->bits[i]) continue;
        const rf_u4 *from =
            (const rf_u4 *)(const void *)((const uint8_t *)st->v + block_at(a, st, i) * row_bytes);
        for (uint32_t k = rf_tid(); k < pieces; k += ATTEND_THREADS)
            rf_copy_16(sh->v + i * pieces + k, from + k);
    }
}

/* Scores of the step's visible keys with all heads. */
RF_DEVICE void make_scores(attend_shared *sh, const rf_gpu_attend_args *a, const attend_step *st,
                           uint32_t n_heads) {
    for (uint32_t i = rf_tid(); i < n_heads * STEP_KEYS; i += ATTEND_THREADS) {
        const uint32_t key = i % STEP_KEYS, h = i / STEP_KEYS, block = key / 32;
        if (block >= st->n_blocks) continue;
        if (!(sh->bits[block] >> key % 32 & 1)) {
            sh->s[h][key] = 0.0f; /* read below, though not used */
            continue;
        }
        float s = score_of(sh->q[h], a->k, (block_at(a, st, block) + key % 32) * a->head_dim,
                           a->head_dim, a->kv_f16);
        s *= a->scale;
        if (a->softcap > 0) s = a->softcap * rf_tanh32(s / a->softcap);
        if (st->span.mask) s += st->span.mask[32 * st->b + key];
        sh->s[h][key] = s;
    }
}

/* Column d of key j, from shared memory or the pool. */
RF_DEVICE float value_at(const attend_shared *sh, const void *v, uint64_t i, int is_f16,
                         int is_staged) {
    if (!is_staged) return kv_at(v, i, (uint32_t)is_f16);
    return is_f16 ? rf_f16_at(((const uint16_t *)(const void *)sh->v)[i])
                  : ((const float *)(const void *)sh->v)[i];
}

/* acc[i] += p[j] * v[j][lane + per_head * i] for the visible keys j of block number block. */
RF_DEVICE void add_values(float *acc, int n_acc, const attend_shared *sh,
                          const rf_gpu_attend_args *a, const attend_step *st, uint32_t h,
                          uint32_t block, uint32_t lane, uint32_t per_head, int is_f16,
                          int is_staged) {
    const uint32_t bits = sh->bits[block];
    const float *p = sh->s[h] + 32 * block;
    const uint64_t at = is_staged ? 32 * block : block_at(a, st, block);
    if (bits == 0xffffffffu && is_staged && (uint32_t)n_acc * per_head == a->value_dim) {
        RF_UNROLL_8
        for (uint32_t j = 0; j < 32; j++) {
            RF_UNROLL
            for (int i = 0; i < n_acc; i++) {
                const uint32_t d = lane + per_head * (uint32_t)i;
                acc[i] =
                    rf_fma(p[j], value_at(sh, st->v, (at + j) * st->v_dim + d, is_f16, 1), acc[i]);
            }
        }
        return;
    }
    for (uint32_t j = 0; j < 32; j++) {
        if (!(bits >> j & 1)) continue;
        RF_UNROLL
        for (int i = 0; i < n_acc; i++) {
            const uint32_t d = lane + per_head * (uint32_t)i;
            if (d < a->value_dim)
                acc[i] = rf_fma(
                    p[j], value_at(sh, st->v, (at + j) * st->v_dim + d, is_f16, is_staged), acc[i]);
        }
    }
}

/* The walk over the keys of one query head: this thread's columns of the result, not yet divided. */
RF_DEVICE float walk(attend_shared *sh, const rf_gpu_attend_args *a, attend_step *st, float sink,
                     uint32_t n_heads, float *acc, int n_acc, int is_f16, int is_staged) {
    const uint32_t per_head = ATTEND_THREADS / n_heads, step = is_staged ? a->step_blocks : 1;
    const uint32_t lane = rf_tid() % per_head, h = rf_tid() / per_head;
    const uint32_t end = rf_div_up(st->span.end, 32);
    float m = sink, l = sink == -__builtin_inff() ? 0.0f : 1.0f;
    RF_UNROLL
    for (int i = 0; i < n_acc; i++)
        acc[i] = 0.0f;
    for (st->b = st->span.n_global ? 0 : st->span.begin / 32; st->b < end; st->b += step) {
        st->n_blocks = rf_min_u32(end - st->b, step);
        rf_sync();
        if (rf_tid() < st->n_blocks) sh->bits[rf_tid()] = visible_bits(&st->span, st->b + rf_tid());
        rf_sync();
        if (is_staged) fetch_values(sh, a, st);
        make_scores(sh, a, st, n_heads);
        rf_sync();
        if (lane < st->n_blocks) {
            float most = -__builtin_inff();
            RF_UNROLL_8
            for (uint32_t j = 0; j < 32; j++) {
                const float s = sh->s[h][32 * lane + j];
                if (sh->bits[lane] >> j & 1 && s > most) most = s;
            }
            sh->most[h][lane] = most;
        }
        rf_sync();
        for (uint32_t key = lane; key < 32 * st->n_blocks; key += per_head) {
            float m_new = m;
            for (uint32_t i = 0; i <= key / 32; i++)
                m_new = sh->most[h][i] > m_new ? sh->most[h][i] : m_new;
            const int is_visible = sh->bits[key / 32] >> key % 32 & 1;
            sh->s[h][key] = is_visible ? rf_exp32(sh->s[h][key] - m_new) : 0.0f;
        }
        rf_copy_wait();
        rf_sync();
        if (lane < st->n_blocks) sh->sum[h][lane] = sum_32(sh->s[h] + 32 * lane);
        rf_sync();
        for (uint32_t i = 0; i < st->n_blocks; i++) {
            if (!sh->bits[i]) continue;
            if (sh->most[h][i] > m) {
                const float c = m == -__builtin_inff() ? 0.0f : rf_exp32(m - sh->most[h][i]);
                l *= c;
                RF_UNROLL
                for (int k = 0; k < n_acc; k++)
                    acc[k] *= c;
                m = sh->most[h][i];
            }
            l += sh->sum[h][i];
            add_values(acc, n_acc, sh, a, st, h, i, lane, per_head, is_f16, is_staged);
        }
    }
    return l;
}

/* All of one block; n_acc: columns of a thread. */
RF_DEVICE void attend_columns(attend_shared *sh, const rf_gpu_attend_args *a, attend_step *st,
                              uint32_t n_heads, int n_acc, int is_f16, int is_staged) {
    const uint32_t per_head = ATTEND_THREADS / n_heads, per_kv = a->n_heads / a->n_kv_heads;
    const uint32_t lane = rf_tid() % per_head, h = rf_tid() / per_head;
    const uint32_t in_group = rf_bid_z() * n_heads + h;
    const int here = in_group < per_kv; /* else a head is walked that nobody asked for */
    const uint32_t head = st->kv_head * per_kv + (here ? in_group : 0);
    const float *q = a->q + ((uint64_t)rf_bid_x() * a->n_heads + head) * a->head_dim;
    for (uint32_t d = lane; d < a->head_dim; d += per_head)
        sh->q[h][d] = q[d];
    float acc[RF_MAX_HEAD_DIM / 64];
    const float sink = a->sinks ? a->sinks[head] : -__builtin_inff();
    const float l = walk(sh, a, st, sink, n_heads, acc, n_acc, is_f16, is_staged);
    float *dst = a->dst + ((uint64_t)rf_bid_x() * a->n_heads + head) * a->value_dim;
    RF_UNROLL
    for (int i = 0; i < n_acc; i++) {
        const uint32_t d = lane + per_head * (uint32_t)i;
        if (here && d < a->value_dim) dst[d] = l == 0.0f ? acc[i] : acc[i] / l;
    }
}

RF_DEVICE void attend_run(attend_shared *sh, const rf_gpu_attend_args *a, uint32_t n_heads) {
    const uint32_t per_head = ATTEND_THREADS / n_heads, row = rf_bid_x();
    const int most = (int)(RF_MAX_HEAD_DIM / per_head + (RF_MAX_HEAD_DIM % per_head != 0));
    attend_step st;
    st.kv_head = rf_bid_y();
    st.span = span_of(a, row);
    st.table = a->batch.table + (uint64_t)a->batch.row_seq[row] * a->batch.table_stride;
    st.v = a->v ? a->v : a->k;
    st.v_dim = a->v ? a->value_dim : a->head_dim;
    if (a->step_blocks == 0) {
        if (a->kv_f16)
            attend_columns(sh, a, &st, n_heads, most, 1, 0);
        else
            attend_columns(sh, a, &st, n_heads, most, 0, 0);
    } else if (!a->kv_f16) {
        attend_columns(sh, a, &st, n_heads, most, 0, 1);
    } else if (a->value_dim <= per_head) {
        attend_columns(sh, a, &st, n_heads, 1, 1, 1);
    } else if (a->value_dim <= 2 * per_head) {
        attend_columns(sh, a, &st, n_heads, 2, 1, 1);
    } else {
        attend_columns(sh, a, &st, n_heads, most, 1, 1);
    }
}

RF_KERNEL_ALONE(attend_1, rf_gpu_attend_args) {
    RF_SHARED attend_shared sh;
    attend_run(&sh, &a, 1);
}

RF_KERNEL(attend_4, rf_gpu_attend_args) {
    RF_SHARED attend_shared sh;
    attend_run(&sh, &a, 4);
}
