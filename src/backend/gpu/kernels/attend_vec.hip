/* attend_vec.hip - attention of few rows over keys and values in sixteen bits; one block per row, KV
 * head, four of the query heads that share it, and one or all segments of the keys.
 *
 * Keys pass in steps of two KV blocks through shared memory.  Four neighbouring threads share a key,
 * four canonical lanes each, for all four heads; 32 threads have the exponentials of a head; then a
 * thread has two columns of two heads and adds all keys in order.  The next keys are
 * fetched while values are added, the next values while scores are made. */
#include "backend/gpu/kernels/span.h"

enum {
    VEC_HEADS = 4,
    VEC_STEP = 2, /* KV blocks */
    VEC_KEYS = 32 * VEC_STEP,
    VEC_DIM = RF_GPU_ATTEND_VEC_DIM,
    VEC_PAD = 32, /* bytes behind a key, so that eight keys meet all banks */
    VEC_THREADS = RF_BLOCK_attend_vec,
};

typedef struct vec_shared {
    rf_u4 k[VEC_KEYS * (2 * VEC_DIM + VEC_PAD) / 16], v[VEC_KEYS * 2 * VEC_DIM / 16];
    rf_f4 q[VEC_HEADS][VEC_DIM / 4];
    rf_f4 s[VEC_HEADS][VEC_KEYS / 4]; /* scores, then exponentials */
    float most[VEC_HEADS][VEC_STEP][4], c[VEC_HEADS][VEC_STEP], sum[VEC_HEADS][VEC_STEP];
    float m[VEC_HEADS];
    uint32_t bits[RF_GPU_SEGMENT_BLOCKS], block[RF_GPU_SEGMENT_BLOCKS]; /* of the segment */
} vec_shared;

/* What a block of threads works on. */
typedef struct vec_walk {
    rf_span span;
    const uint32_t *table;
    uint32_t kv_head, k_row, v_row, type; /* bytes of a row */
    uint32_t b, n_blocks;                 /* of the segment at hand */
} vec_walk;

/* Two columns of two heads. */
typedef struct vec_sum {
    float m[2], l[2], acc[2][2];
} vec_sum;

RF_DEVICE float half_of(uint32_t word, int i, uint32_t type) {
    const uint16_t h = (uint16_t)(word >> 16 * i);
    return type == RF_DT_F16 ? rf_f16_at(h) : rf_float_of((uint32_t)h << 16);
}

/* Rows of the step's visible blocks on their way to shared memory, stride bytes apart there. */
RF_DEVICE void vec_fetch(rf_u4 *to, uint32_t stride, const vec_shared *sh,
                         const rf_gpu_attend_args *a, const vec_walk *w, const void *pool,
                         uint32_t row_bytes, uint32_t first) {
    const uint32_t per_row = row_bytes / 16, rows = VEC_THREADS / per_row;
    const uint32_t row0 = rf_tid() / per_row, col = rf_tid() % per_row;
    for (uint32_t i = 0; i < VEC_STEP; i++) {
        if (first + i >= w->n_blocks || !sh->bits[first + i]) continue;
        const uint64_t at = ((uint64_t)sh->block[first + i] * a->n_kv_heads + w->kv_head) * 32;
        const rf_u4 *from = (const rf_u4 *)pool + at * per_row + col;
        for (uint32_t r = row0; r < 32 && row0 < rows; r += rows)
            rf_copy_16(to + (32 * i + r) * (stride / 16) + col, from + r * per_row);
    }
    rf_copy_end();
}

RF_DEVICE void vec_fetch_keys(vec_shared *sh, const rf_gpu_attend_args *a, const vec_walk *w,
                              uint32_t first) {
    vec_fetch(sh->k, w->k_row + VEC_PAD, sh, a, w, a->k, w->k_row, first);
}

RF_DEVICE void vec_fetch_values(vec_shared *sh, const rf_gpu_attend_args *a, const vec_walk *w,
                                uint32_t first) {
    vec_fetch(sh->v, w->v_row, sh, a, w, a->v, w->v_row, first);
}

/* This thread's four lanes of keys number key and key + 32 with all heads. */
RF_DEVICE void vec_lanes(float acc[VEC_STEP][VEC_HEADS][4], const vec_shared *sh,
                         const rf_gpu_attend_args *a, const vec_walk *w, uint32_t key,
                         uint32_t quad, uint32_t type) {
    const uint8_t *row = (const uint8_t *)sh->k + key * (w->k_row + VEC_PAD) + 8 * quad;
    const uint32_t next = 32 * (w->k_row + VEC_PAD);
    RF_UNROLL
    for (int i = 0; i < VEC_STEP * VEC_HEADS * 4; i++)
        acc[i / 16][i / 4 % 4][i % 4] = 0.0f;
    for (uint32_t j = 0; j < a->head_dim / 16; j++) {
        float k[VEC_STEP][4];
        RF_UNROLL
        for (uint32_t i = 0; i < VEC_STEP; i++) {
            const rf_u2 word = *(const rf_u2 *)(const void *)(row + i * next + 32 * j);
            RF_UNROLL
            for (int e = 0; e < 4; e++)
                k[i][e] = half_of(word.v[e / 2], e % 2, type);
        }
        RF_UNROLL
        for (int h = 0; h < VEC_HEADS; h++) {
            const rf_f4 q = sh->q[h][4 * j + quad];
            RF_UNROLL
            for (int i = 0; i < VEC_STEP * 4; i++)
                acc[i / 4][h][i % 4] = rf_fma(q.v[i % 4], k[i / 4][i % 4], acc[i / 4][h][i % 4]);
        }
    }
}

/* tree16 over the four threads of a key: this one gets block quad / 2 and heads 2 (quad % 2) + g. */
RF_DEVICE void vec_tree(float acc[VEC_STEP][VEC_HEADS][4], uint32_t quad, float score[2]) {
    const int upper = quad & 2, odd = quad & 1;
    float half[VEC_HEADS][4], part[2][4];
    RF_UNROLL
    for (int i = 0; i < VEC_HEADS * 4; i++) {
        const float x = acc[0][i / 4][i % 4], y = acc[1][i / 4][i % 4];
        half[i / 4][i % 4] = (upper ? y : x) + rf_quad_xor(upper ? x : y, 2);
    }
    RF_UNROLL
    for (int i = 0; i < 8; i++) {
        const float x = half[i / 4][i % 4], y = half[2 + i / 4][i % 4];
        part[i / 4][i % 4] = (odd ? y : x) + rf_quad_xor(odd ? x : y, 1);
    }
    RF_UNROLL
    for (int g = 0; g < 2; g++)
        score[g] = (part[g][0] + part[g][2]) + (part[g][1] + part[g][3]);
}

/* Scores of the step that starts at block number first of the segment. */
RF_DEVICE void vec_scores(vec_shared *sh, const rf_gpu_attend_args *a, const vec_walk *w,
                          uint32_t first) {
    const uint32_t key = rf_tid() / 4, quad = rf_tid() % 4, block = quad / 2;
    float acc[VEC_STEP][VEC_HEADS][4], score[2];
    if (w->type == RF_DT_F16)
        vec_lanes(acc, sh, a, w, key, quad, RF_DT_F16);
    else
        vec_lanes(acc, sh, a, w, key, quad, RF_DT_BF16);
    vec_tree(acc, quad, score);
    const uint32_t number = first + block;
    const int is_visible = number < w->n_blocks && sh->bits[number] >> key & 1;
    RF_UNROLL
    for (uint32_t g = 0; g < 2; g++) {
        float s = score[g] * a->scale;
        if (a->softcap > 0) s = a->softcap * rf_tanh32(s / a->softcap);
        if (w->span.mask && is_visible) s += w->span.mask[32 * (w->b + number) + key];
        ((float *)sh->s[2 * (quad & 1) + g])[32 * block + key] = s;
    }
}

/* From scores to exponentials; m: of the head that this thread's 32 have. */
RF_DEVICE void vec_soften(vec_shared *sh, const vec_walk *w, uint32_t first, float *m) {
    const uint32_t h = rf_tid() / 32, lane = rf_tid() % 32;
    float *s = (float *)sh->s[h];
    if (lane < 4 * VEC_STEP) { /* the largest of eight keys */
        const uint32_t number = first + lane / 4;
        const uint32_t bits = number < w->n_blocks ? sh->bits[number] >> 8 * (lane % 4) : 0;
        float most = -__builtin_inff();
        RF_UNROLL
        for (uint32_t j = 0; j < 8; j++) {
            const float x = s[8 * lane + j];
            if (bits >> j & 1 && x > most) most = x;
        }
        sh->most[h][lane / 4][lane % 4] = most;
    }
    rf_sync();
    RF_UNROLL
    for (uint32_t i = 0; i < VEC_STEP; i++) {
        const uint32_t number = first + i;
        const int is_visible = number < w->n_blocks && sh->bits[number] >> lane & 1;
        float top = *m;
        RF_UNROLL
        for (int k = 0; k < 4; k++)
            top = sh->most[h][i][k] > top ? sh->most[h][i][k] : top;
        if (lane == i) {
            const float c = *m == -__builtin_inff() ? 0.0f : rf_exp32(*m - top);
            sh->c[h][i] = top > *m ? c : 1.0f;
        }
        s[32 * i + lane] = is_visible ? rf_exp32(s[32 * i + lane] - top) : 0.0f;
        *m = top;
    }
    if (lane == 0) sh->m[h] = *m;
    rf_sync();
    if (lane < VEC_STEP) {
        float v[16];
        RF_UNROLL
        for (uint32_t i = 0; i < 16; i++)
            v[i] = s[32 * lane + i] + s[32 * lane + i + 16];
        RF_UNROLL
        for (int half = 8; half > 0; half /= 2) {
            RF_UNROLL
            for (int i = 0; i < half; i++)
                v[i] += v[i + half];
        }
        sh->sum[h][lane] = v[0];
    }
}

/* The visible keys of block number i of the step onto the columns. */
RF_DEVICE void vec_values(vec_sum *t, const vec_shared *sh, uint32_t v_row, uint32_t bits,
                          uint32_t i, uint32_t h, uint32_t col, uint32_t type) {
    const uint8_t *v = (const uint8_t *)sh->v + 32 * i * v_row + 4 * col;
    for (uint32_t j = 0; j < 32; j += 4) {
        const rf_f4 p[2] = {sh->s[h][8 * i + j / 4], sh->s[h + 1][8 * i + j / 4]};
        RF_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            if (!(bits >> (j + k) & 1)) continue;
            const uint32_t word = *(const uint32_t *)(const void *)(v + (j + k) * v_row);
            RF_UNROLL
            for (int e = 0; e < 4; e++)
                t->acc[e / 2][e % 2] =
                    rf_fma(p[e / 2].v[k], half_of(word, e % 2, type), t->acc[e / 2][e % 2]);
        }
    }
}

/* The step's values; h: the first of this thread's heads. */
RF_DEVICE void vec_add(vec_sum *t, const vec_shared *sh, const rf_gpu_attend_args *a,
                       const vec_walk *w, uint32_t first, uint32_t h, uint32_t col) {
    for (uint32_t i = 0; i < VEC_STEP && first + i < w->n_blocks; i++) {
        const uint32_t bits = sh->bits[first + i];
        if (!bits) continue;
        RF_UNROLL
        for (uint32_t g = 0; g < 2; g++) {
            const float c = sh->c[h + g][i];
            t->l[g] = t->l[g] * c + sh->sum[h + g][i];
            t->acc[g][0] *= c;
            t->acc[g][1] *= c;
        }
        if (2 * col >= a->value_dim) continue;
        if (w->type == RF_DT_F16 && bits == 0xffffffffu)
            vec_values(t, sh, w->v_row, 0xffffffffu, i, h, col, RF_DT_F16);
        else if (w->type == RF_DT_F16)
            vec_values(t, sh, w->v_row, bits, i, h, col, RF_DT_F16);
        else
            vec_values(t, sh, w->v_row, bits, i, h, col, RF_DT_BF16);
    }
}

/* Blocks w->b .. w->b + w->n_blocks - 1 of one segment; true when a key was seen. */
RF_DEVICE int vec_segment(vec_shared *sh, const rf_gpu_attend_args *a, const vec_walk *w,
                          vec_sum *t, uint32_t h, uint32_t col) {
    float m = -__builtin_inff();
    uint32_t seen = 0;
    RF_UNROLL
    for (int g = 0; g < 2; g++)
        t->l[g] = t->acc[g][0] = t->acc[g][1] = 0.0f;
    rf_sync();
    if (rf_tid() < w->n_blocks) {
        sh->bits[rf_tid()] = rf_span_bits(&w->span, w->b + rf_tid());
        sh->block[rf_tid()] = w->table[w->b + rf_tid()];
    }
    rf_sync();
    for (uint32_t i = 0; i < w->n_blocks; i++)
        seen |= sh->bits[i];
    if (!seen) return 0;
    vec_fetch_keys(sh, a, w, 0);
    vec_fetch_values(sh, a, w, 0);
    for (uint32_t first = 0; first < w->n_blocks; first += VEC_STEP) {
        rf_copy_wait_but(1);
        rf_sync();
        vec_scores(sh, a, w, first);
        rf_sync();
        vec_fetch_keys(sh, a, w, first + VEC_STEP);
        vec_soften(sh, w, first, &m);
        rf_copy_wait_but(1);
        rf_sync();
        vec_add(t, sh, a, w, first, h, col);
        rf_sync();
        vec_fetch_values(sh, a, w, first + VEC_STEP);
    }
    RF_UNROLL
    for (uint32_t g = 0; g < 2; g++)
        t->m[g] = sh->m[h + g];
    return 1;
}

RF_DEVICE void vec_fold(vec_sum *total, const vec_sum *t) {
    RF_UNROLL
    for (int g = 0; g < 2; g++) {
        const rf_fold f = rf_fold_of(total->m[g], t->m[g]);
        total->m[g] = f.m;
        total->l[g] = rf_folded(&f, total->l[g], t->l[g]);
        total->acc[g][0] = rf_folded(&f, total->acc[g][0], t->acc[g][0]);
        total->acc[g][1] = rf_folded(&f, total->acc[g][1], t->acc[g][1]);
    }
}

/* The queries of the block's heads, of which at least one is there. */
RF_DEVICE void vec_queries(vec_shared *sh, const rf_gpu_attend_args *a, uint64_t item,
                           uint32_t n_here) {
    for (uint32_t i = rf_tid(); i < VEC_HEADS * a->head_dim / 4; i += VEC_THREADS) {
        const uint32_t h = i / (a->head_dim / 4), k = i % (a->head_dim / 4);
        const float *q = a->q + (item + rf_min_u32(h, n_here - 1)) * a->head_dim;
        sh->q[h][k] = ((const rf_f4 *)(const void *)q)[k];
    }
}

RF_KERNEL(attend_vec, rf_gpu_attend_args) {
    RF_SHARED vec_shared sh;
    const uint32_t row = rf_bid_x(), split = rf_bid_z() % a.n_splits;
    const uint32_t per_kv = a.n_heads / a.n_kv_heads, col = rf_tid() % 64, h = rf_tid() / 64 * 2;
    const uint32_t in_group = rf_bid_z() / a.n_splits * VEC_HEADS;
    vec_walk w;
    w.kv_head = rf_bid_y();
    w.span = rf_span_of(&a, row);
    uint32_t first = rf_span_first(&w.span), end = rf_div_up(w.span.end, 32);
    if (!rf_take_split(&a, split, &first, &end)) return;
    w.table = a.batch.table + (uint64_t)a.batch.row_seq[row] * a.batch.table_stride;
    w.k_row = 2 * a.head_dim;
    w.v_row = 2 * a.value_dim;
    w.type = a.k_type;
    const uint64_t item = (uint64_t)row * a.n_heads + w.kv_head * per_kv + in_group;
    vec_queries(&sh, &a, item, per_kv - in_group);
    const int is_part = a.n_splits > 1;
    vec_sum total, t;
    RF_UNROLL
    for (uint32_t g = 0; g < 2; g++) {
        const int has_sink = a.sinks && !is_part && in_group + h + g < per_kv;
        total.m[g] = has_sink ? a.sinks[w.kv_head * per_kv + in_group + h + g] : -__builtin_inff();
        total.l[g] = total.m[g] == -__builtin_inff() ? 0.0f : 1.0f;
        total.acc[g][0] = total.acc[g][1] = 0.0f;
    }
    for (w.b = first; w.b < end; w.b += w.n_blocks) {
        w.n_blocks = rf_min_u32(end - w.b, RF_GPU_SEGMENT_BLOCKS - w.b % RF_GPU_SEGMENT_BLOCKS);
        if (vec_segment(&sh, &a, &w, &t, h, col)) vec_fold(&total, &t);
    }
    RF_UNROLL
    for (uint32_t g = 0; g < 2; g++) {
        if (in_group + h + g >= per_kv) continue;
        const uint64_t part = (item + h + g) * a.n_splits + split;
        const float l = is_part || total.l[g] == 0.0f ? 1.0f : total.l[g];
        float *dst = (is_part ? a.parts : a.dst) + part * a.value_dim;
        if (is_part && col == 0) rf_put_part(&a, part, total.m[g], total.l[g]);
        if (2 * col >= a.value_dim) continue;
        dst[2 * col] = total.acc[g][0] / l;
        dst[2 * col + 1] = total.acc[g][1] / l;
    }
}
