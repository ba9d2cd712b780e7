/* attend.hip - attention over the paged KV pool, for every shape and format: one block per row, KV
 * head, one or four of the query heads that share it, and one or all segments of the keys.
 *
 * The keys pass in steps of up to four blocks of 32, which lie in one segment.  Scores, exponentials
 * and the sums of blocks are made side by side: a thread has whole keys.  Then a thread has columns
 * of the values, adds the keys of a block in order and folds the blocks.  Values come through shared memory while the scores are
 * made.  attend_vec.hip is faster where it applies. */
#include "backend/gpu/kernels/ints.h"
#include "backend/gpu/kernels/span.h"

enum {
    STEP_BLOCKS = 4,
    STEP_KEYS = 32 * STEP_BLOCKS,
    VALUE_BYTES = 32 << 10, /* shared memory for values */
    ATTEND_THREADS = RF_BLOCK_attend_4,
    MAX_COLUMNS = RF_MAX_HEAD_DIM / 64, /* of one thread */
};

/* A query head: as it is, or where keys are integers upper and lower digits, zeros behind them. */
typedef union attend_query {
    float x[RF_MAX_HEAD_DIM];
    uint32_t digits[2][RF_MAX_HEAD_DIM / 4];
} attend_query;

typedef struct attend_shared {
    rf_u4 v[VALUE_BYTES / 16];
    attend_query q[4];
    float unit[4];         /* of the scores with them */
    float s[4][STEP_KEYS]; /* scores, then exponentials */
    float most[4][STEP_BLOCKS], sum[4][STEP_BLOCKS];
    uint32_t size[ATTEND_THREADS / 32]; /* the largest in 32 threads' columns of a query */
    uint32_t bits[STEP_BLOCKS];         /* visible keys */
} attend_shared;

/* Sixteen f16 of a key onto a score. */
typedef struct half_16 {
    rf_u4 v[2];
} half_16;
RF_DEVICE float add_f16(float s, const float *q, const half_16 *k) {
    RF_UNROLL
    for (int i = 0; i < 16; i++) {
        const uint16_t h = (uint16_t)(k->v[i / 8].v[i % 8 / 2] >> 16 * (i % 2));
        s = rf_fma(q[i], rf_f16_at(h), s);
    }
    return s;
}

/* q . k over n columns of a key. */
RF_DEVICE float score_of(const float *q, const uint8_t *key, uint32_t n, uint32_t type) {
    float s = 0.0f;
    uint32_t k = 0;
    if (type == RF_DT_F16 && n % 8 == 0) { /* then every key is aligned */
        const half_16 *from = (const half_16 *)(const void *)key;
        for (; k + 64 <= n; k += 64) { /* four loads on their way */
            half_16 part[4];
            RF_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                part[i] = from[k / 16 + i];
            RF_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                s = add_f16(s, q + k + 16 * i, &part[i]);
        }
        for (; k + 16 <= n; k += 16) {
            const half_16 part = from[k / 16];
            s = add_f16(s, q + k, &part);
        }
    }
    for (; k < n; k += 16) {
        float part[16];
        rf_kv_sixteen(part, key, type, k, n);
        RF_UNROLL
        for (uint32_t i = 0; i < 16; i++) {
            if (k + i < n) s = rf_fma(q[k + i], part[i], s);
        }
    }
    return s;
}

/* The same of integers. */
RF_DEVICE float int_score_of(const attend_query *q, const uint8_t *key, uint32_t n, uint32_t type) {
    float s = 0.0f;
    RF_NO_UNROLL
    for (uint32_t g = 0; g < rf_div_up(n, 32); g++) {
        const uint8_t *group = rf_ints_group(key, type, g);
        int32_t upper = 0, lower = 0;
        uint32_t words[8];
        rf_ints_words(words, group, type);
        RF_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            upper = rf_dot4(q->digits[0][8 * g + i], words[i], upper);
            lower = rf_dot4(q->digits[1][8 * g + i], words[i], lower);
        }
        s = rf_fma((float)rf_digits_sum(upper, lower), rf_ints_scale(group), s);
    }
    return s;
}

RF_DEVICE float any_score_of(const attend_query *q, const uint8_t *key, uint32_t n, uint32_t type) {
    if (type == RF_DT_Q8_0) return int_score_of(q, key, n, RF_DT_Q8_0);
    if (type == RF_DT_Q4_0) return int_score_of(q, key, n, RF_DT_Q4_0);
    return score_of(q->x, key, n, type);
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

/* A block's step: blocks b .. b + n_blocks - 1 of the walk from first to end. */
typedef struct attend_step {
    const uint32_t *table;
    rf_span span;
    uint32_t kv_head, first, end, b, n_blocks;
    uint32_t k_row, v_row, v_type; /* bytes of a row, format of the values */
    const uint8_t *v;
} attend_step;

RF_DEVICE uint64_t block_at(const rf_gpu_attend_args *a, const attend_step *st, uint32_t i) {
    return ((uint64_t)st->table[st->b + i] * a->n_kv_heads + st->kv_head) * 32;
}

/* The step's values on their way to shared memory. */
RF_DEVICE void fetch_values(attend_shared *sh, const rf_gpu_attend_args *a, const attend_step *st) {
    const uint32_t pieces = 2 * st->v_row;
    for (uint32_t i = 0; i < st->n_blocks; i++) {
        if (!sh->bits[i]) continue;
        const rf_u4 *from = (const rf_u4 *)(const void *)(st->v + block_at(a, st, i) * st->v_row);
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
        const uint8_t *row =
            (const uint8_t *)a->k + (block_at(a, st, block) + key % 32) * st->k_row;
        float s = any_score_of(&sh->q[h], row, a->head_dim, a->k_type) * sh->unit[h];
        if (a->softcap > 0) s = a->softcap * rf_tanh32(s / a->softcap);
        if (st->span.mask) s += st->span.mask[32 * st->b + key];
        sh->s[h][key] = s;
    }
}

/* A block's values for a thread that has columns lane + per_head * i of one head. */
typedef struct attend_values {
    const uint8_t *v;
    const float *p;
    uint32_t bits, row, dim, lane, per_head; /* bits: visible keys; row: bytes */
} attend_values;

/* acc[i] = sum of p[j] * v[j][column i] over the visible keys j, by integers. */
RF_DEVICE void weigh_ints(float *acc, int n_acc, const attend_values *b, uint32_t type) {
    uint32_t most[MAX_COLUMNS];
    float inverse[MAX_COLUMNS];
    int32_t sum[MAX_COLUMNS];
    RF_UNROLL
    for (int i = 0; i < n_acc; i++) {
        most[i] = 0;
        sum[i] = 0;
    }
    RF_NO_UNROLL
    for (uint32_t j = 0; j < 32; j++) {
        if (!(b->bits >> j & 1)) continue;
        RF_UNROLL
        for (int i = 0; i < n_acc; i++) {
            const uint32_t d = b->lane + b->per_head * (uint32_t)i;
            if (d >= b->dim) continue;
            const float scale = rf_ints_scale(rf_ints_group(b->v + j * b->row, type, d / 32));
            most[i] = rf_max_u32(most[i], rf_size_of(scale));
        }
    }
    RF_UNROLL
    for (int i = 0; i < n_acc; i++)
        inverse[i] = rf_weight_inverse(most[i]);
    RF_NO_UNROLL
    for (uint32_t j = 0; j < 32; j++) {
        if (!(b->bits >> j & 1)) continue;
        RF_UNROLL
        for (int i = 0; i < n_acc; i++) {
            const uint32_t d = b->lane + b->per_head * (uint32_t)i;
            if (d >= b->dim) continue;
            const uint8_t *group = rf_ints_group(b->v + j * b->row, type, d / 32);
            const uint32_t word = rf_weight_word(b->p[j], rf_ints_scale(group) * inverse[i]);
            sum[i] += rf_weight_int(word) * rf_ints_at(group, type, d % 32);
        }
    }
    RF_UNROLL
    for (int i = 0; i < n_acc; i++)
        acc[i] = (float)sum[i] * rf_weight_unit(most[i]);
}

/* acc[i] += p[j] * v[j][lane + per_head * i] for the visible keys j of block number block. */
RF_DEVICE void add_values(float *acc, int n_acc, const attend_shared *sh,
                          const rf_gpu_attend_args *a, const attend_step *st, uint32_t h,
                          uint32_t block, uint32_t lane, uint32_t per_head, uint32_t type,
                          int is_staged) {
    const uint32_t bits = sh->bits[block];
    const float *p = sh->s[h] + 32 * block;
    const uint8_t *v = is_staged ? (const uint8_t *)sh->v + 32 * block * st->v_row
                                 : st->v + block_at(a, st, block) * st->v_row;
    if (rf_is_ints(type)) {
        const attend_values b = {v, p, bits, st->v_row, a->value_dim, lane, per_head};
        if (type == RF_DT_Q8_0)
            weigh_ints(acc, n_acc, &b, RF_DT_Q8_0);
        else
            weigh_ints(acc, n_acc, &b, RF_DT_Q4_0);
        return;
    }
    const int is_whole = bits == 0xffffffffu && (uint32_t)n_acc * per_head == a->value_dim;
    if (is_whole && is_staged && type == RF_DT_F16) {
        RF_UNROLL_8
        for (uint32_t j = 0; j < 32; j++) {
            RF_UNROLL
            for (int i = 0; i < n_acc; i++) {
                const uint32_t d = lane + per_head * (uint32_t)i;
                acc[i] = rf_fma(p[j], rf_kv_at(v + j * st->v_row, RF_DT_F16, d), acc[i]);
            }
        }
        return;
    }
    RF_NO_UNROLL
    for (uint32_t j = 0; j < 32; j++) {
        if (!(bits >> j & 1)) continue;
        RF_UNROLL
        for (int i = 0; i < n_acc; i++) {
            const uint32_t d = lane + per_head * (uint32_t)i;
            if (d < a->value_dim)
                acc[i] = rf_fma(p[j], rf_kv_at(v + j * st->v_row, type, d), acc[i]);
        }
    }
}

/* This thread's columns of a head: maximum, sum and n_acc weighted values. */
typedef struct attend_sum {
    float m, l, acc[MAX_COLUMNS];
} attend_sum;

RF_DEVICE void start_sum(attend_sum *s, float sink, int n_acc) {
    s->m = sink;
    s->l = sink == -__builtin_inff() ? 0.0f : 1.0f;
    RF_UNROLL
    for (int i = 0; i < n_acc; i++)
        s->acc[i] = 0.0f;
}

/* A block onto its segment, or a segment onto the total. */
RF_DEVICE void fold_sum(attend_sum *total, const attend_sum *s, int n_acc) {
    const rf_fold f = rf_fold_of(total->m, s->m);
    total->m = f.m;
    total->l = rf_folded(&f, total->l, s->l);
    RF_UNROLL
    for (int i = 0; i < n_acc; i++)
        total->acc[i] = rf_folded(&f, total->acc[i], s->acc[i]);
}

/* The walk over the keys of one query head: this thread's columns of the result, not yet divided. */
RF_DEVICE void walk(attend_shared *sh, const rf_gpu_attend_args *a, attend_step *st,
                    attend_sum *total, uint32_t n_heads, int n_acc, uint32_t type, int is_staged) {
    const uint32_t per_head = ATTEND_THREADS / n_heads, step = is_staged ? a->step_blocks : 1;
    const uint32_t lane = rf_tid() % per_head, h = rf_tid() / per_head;
    attend_sum s, block;
    int is_seen = 0;
    start_sum(&s, -__builtin_inff(), n_acc);
    for (st->b = st->first; st->b < st->end; st->b += st->n_blocks) {
        st->n_blocks =
            rf_min_u32(st->end - st->b, RF_GPU_SEGMENT_BLOCKS - st->b % RF_GPU_SEGMENT_BLOCKS);
        st->n_blocks = rf_min_u32(st->n_blocks, step);
        rf_sync();
        if (rf_tid() < st->n_blocks) sh->bits[rf_tid()] = rf_span_bits(&st->span, st->b + rf_tid());
        rf_sync();
        if (is_staged) fetch_values(sh, a, st);
        make_scores(sh, a, st, n_heads);
        rf_sync();
        if (lane < st->n_blocks) {
            float most = -__builtin_inff();
            RF_UNROLL_8
            for (uint32_t j = 0; j < 32; j++) {
                const float score = sh->s[h][32 * lane + j];
                if (sh->bits[lane] >> j & 1 && score > most) most = score;
            }
            sh->most[h][lane] = most;
        }
        rf_sync();
        for (uint32_t key = lane; key < 32 * st->n_blocks; key += per_head) {
            const int is_visible = sh->bits[key / 32] >> key % 32 & 1;
            sh->s[h][key] = is_visible ? rf_exp32(sh->s[h][key] - sh->most[h][key / 32]) : 0.0f;
        }
        rf_copy_wait();
        rf_sync();
        if (lane < st->n_blocks) sh->sum[h][lane] = sum_32(sh->s[h] + 32 * lane);
        rf_sync();
        for (uint32_t i = 0; i < st->n_blocks; i++) {
            if (!sh->bits[i]) continue;
            is_seen = 1;
            start_sum(&block, -__builtin_inff(), n_acc);
            block.m = sh->most[h][i];
            block.l = sh->sum[h][i];
            add_values(block.acc, n_acc, sh, a, st, h, i, lane, per_head, type, is_staged);
            fold_sum(&s, &block, n_acc);
        }
        const uint32_t next = st->b + st->n_blocks;
        if (next != st->end && next % RF_GPU_SEGMENT_BLOCKS != 0) continue;
        if (is_seen) fold_sum(total, &s, n_acc);
        start_sum(&s, -__builtin_inff(), n_acc);
        is_seen = 0;
    }
}

/* Head number h's query of n elements as integers; lane is one of its per_head threads. */
RF_DEVICE void put_int_query(attend_shared *sh, const rf_gpu_attend_args *a, const float *q,
                             uint32_t h, uint32_t lane, uint32_t per_head) {
    const uint32_t n = a->head_dim, n_warps = per_head / 32;
    uint32_t most = 0;
    for (uint32_t d = lane; d < n; d += per_head)
        most = rf_max_u32(most, rf_size_of(q[d]));
    most = rf_warp_most(most);
    if (rf_tid() % 32 == 0) sh->size[rf_tid() / 32] = most;
    rf_sync();
    for (uint32_t i = 0; i < n_warps; i++)
        most = rf_max_u32(most, sh->size[h * n_warps + i]);
    const float inverse = rf_query_inverse(most);
    for (uint32_t d = lane; d < rf_div_up(n, 32) * 32; d += per_head) {
        const int32_t x = d < n ? rf_query_int(q[d], inverse) : 0;
        ((int8_t *)sh->q[h].digits[0])[d] = (int8_t)rf_upper_digit(x);
        ((int8_t *)sh->q[h].digits[1])[d] = (int8_t)rf_lower_digit(x);
    }
    if (lane == 0) sh->unit[h] = rf_query_scale(most) * a->scale;
}

/* All of one block; n_acc: columns of a thread. */
RF_DEVICE void attend_columns(attend_shared *sh, const rf_gpu_attend_args *a, attend_step *st,
                              uint32_t n_heads, int n_acc, uint32_t type, int is_staged) {
    const uint32_t per_head = ATTEND_THREADS / n_heads, per_kv = a->n_heads / a->n_kv_heads;
    const uint32_t lane = rf_tid() % per_head, h = rf_tid() / per_head;
    const uint32_t in_group = rf_bid_z() / a->n_splits * n_heads + h;
    const int here = in_group < per_kv; /* else a head is walked that nobody asked for */
    const uint32_t head = st->kv_head * per_kv + (here ? in_group : 0);
    const uint64_t item = (uint64_t)rf_bid_x() * a->n_heads + head;
    const int is_part = a->n_splits > 1;
    if (rf_is_ints(a->k_type)) {
        put_int_query(sh, a, a->q + item * a->head_dim, h, lane, per_head);
    } else {
        for (uint32_t d = lane; d < a->head_dim; d += per_head)
            sh->q[h].x[d] = a->q[item * a->head_dim + d];
        if (lane == 0) sh->unit[h] = a->scale;
    }
    attend_sum s;
    start_sum(&s, a->sinks && !is_part ? a->sinks[head] : -__builtin_inff(), n_acc);
    walk(sh, a, st, &s, n_heads, n_acc, type, is_staged);
    if (!here) return;
    const uint64_t part = item * a->n_splits + rf_bid_z() % a->n_splits;
    if (is_part && lane == 0) rf_put_part(a, part, s.m, s.l);
    float *dst = is_part ? a->parts + part * a->value_dim : a->dst + item * a->value_dim;
    RF_UNROLL
    for (int i = 0; i < n_acc; i++) {
        const uint32_t d = lane + per_head * (uint32_t)i;
        if (d < a->value_dim) dst[d] = is_part || s.l == 0.0f ? s.acc[i] : s.acc[i] / s.l;
    }
}

RF_DEVICE void attend_run(attend_shared *sh, const rf_gpu_attend_args *a, uint32_t n_heads) {
    const uint32_t per_head = ATTEND_THREADS / n_heads, row = rf_bid_x();
    const int most = (int)rf_div_up(RF_MAX_HEAD_DIM, per_head);
    attend_step st;
    st.kv_head = rf_bid_y();
    st.span = rf_span_of(a, row);
    st.first = rf_span_first(&st.span);
    st.end = rf_div_up(st.span.end, 32);
    if (!rf_take_split(a, rf_bid_z() % a->n_splits, &st.first, &st.end)) return;
    st.table = a->batch.table + (uint64_t)a->batch.row_seq[row] * a->batch.table_stride;
    st.v = (const uint8_t *)(a->v ? a->v : a->k);
    st.v_type = a->v ? a->v_type : a->k_type;
    st.k_row = rf_kv_row_bytes(a->k_type, a->head_dim);
    st.v_row = a->v ? rf_kv_row_bytes(a->v_type, a->value_dim) : st.k_row;
    if (a->step_blocks == 0)
        attend_columns(sh, a, &st, n_heads, most, st.v_type, 0);
    else if (st.v_type != RF_DT_F16 || a->value_dim > 2 * per_head)
        attend_columns(sh, a, &st, n_heads, most, st.v_type, 1);
    else if (a->value_dim > per_head)
        attend_columns(sh, a, &st, n_heads, 2, RF_DT_F16, 1);
    else
        attend_columns(sh, a, &st, n_heads, 1, RF_DT_F16, 1);
}

RF_KERNEL_ALONE(attend_1, rf_gpu_attend_args) {
    RF_SHARED attend_shared sh;
    attend_run(&sh, &a, 1);
}

RF_KERNEL_ALONE(attend_4, rf_gpu_attend_args) {
    RF_SHARED attend_shared sh;
    attend_run(&sh, &a, 4);
}
