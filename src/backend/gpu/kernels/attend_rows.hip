/* attend_rows.hip - attention of many rows of a sequence over keys and values in sixteen bits, where a
 * GPU has less shared memory, or a batch fewer rows, than attend_tile.hip needs; one block per KV head
 * and so many neighbouring items: an item is a query head of a row, the heads of the KV head first, so
 * that any number of them fills a block.
 *
 * Keys pass in steps of one or two KV blocks.  Scores and weighted values are made as products of
 * matrices are: a thread has outputs of several items, and all operands lie in shared memory as
 * floats.  Values come in while scores are made, the next step's keys while values are added.  A
 * segment's weighted values stay in registers; the total lies where the result will be. */
#include "backend/gpu/kernels/rows.h"
#include "backend/gpu/tile.h"

/* Of shared memory; four columns or items at a time. */
typedef struct rows_shared {
    rf_f4 *q;       /* [head_dim / 4][items] */
    rf_f4 *k;       /* [head_dim / 4][keys] */
    rf_f4 *v;       /* [keys][16 * halves] */
    rf_f4 *p;       /* [keys][items / 4], as rows_at says; less than 0: not visible */
    float *m, *l;   /* [2][items], of a KV block; then its factors, of what there is and its own */
    uint32_t *bits; /* [keys / 32][items], where p will be */
} rows_shared;

/* A thread's place: items group + groups * n and keys eighth + 8 * i of a KV block of the step for
 * scores; items group + 8 * n and columns col .. col + 3, and 64 further on, for values. */
typedef struct rows_place {
    rf_rows_tile t;
    uint32_t kv_head, per_kv, first, n_items; /* first: the block's first item */
    uint32_t s_group, eighth, block;
    uint32_t v_group, col, halves; /* halves: of 64 columns of values */
    rf_span span;                  /* of item number tid % items */
    uint32_t seq, is_here;
    uint32_t type;
} rows_place;

/* A walk's blocks, of which b is the next. */
typedef struct rows_walk {
    rf_rows_walk all;
    uint32_t b;
    uint32_t now[2], next[2]; /* where the pool has the blocks of this step and of the next one */
} rows_walk;

/* The blocks from b on; those that are not in the walk are its first or last one. */
RF_DEVICE void rows_look_up(uint32_t out[2], const rows_walk *w, uint32_t b) {
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t block = rf_min_u32(b + i, w->all.end - 1);
        out[i] = w->all.table[block < w->all.first ? w->all.first : block];
    }
}

/* A part of a step's keys or values on its way from the pool to shared memory; eight: which columns. */
typedef struct rows_part {
    rf_u4 w;
    uint32_t key, eight;
    int is_there;
} rows_part;
RF_DEVICE void rows_fetch(rows_part *p, const rf_gpu_attend_args *a, const rows_place *at,
                          const void *pool, const uint32_t blocks[2], uint32_t n_eights) {
    const uint32_t block = p->key < 32 ? blocks[0] : blocks[1];
    const uint64_t slot = ((uint64_t)block * a->n_kv_heads + at->kv_head) * 32 + p->key % 32;
    p->w = rf_rows_load((const rf_u4 *)pool + slot * n_eights + rf_min_u32(p->eight, n_eights - 1));
    rf_rows_loaded();
    p->is_there = p->eight < n_eights;
}

/* Part number i of a step's keys. */
RF_DEVICE uint32_t rows_key_parts(const rf_gpu_attend_args *a, const rows_place *at) {
    return rf_div_up(a->head_dim / 8 * at->t.keys, at->t.threads);
}
RF_DEVICE void rows_fetch_keys(rows_part *p, const rf_gpu_attend_args *a, const rows_place *at,
                               const uint32_t blocks[2], uint32_t i) {
    const uint32_t side = at->t.threads / at->t.keys;
    p->key = rf_tid() / 8 / side * 8 + rf_tid() % 8;
    p->eight = i * side + rf_tid() / 8 % side;
    rows_fetch(p, a, at, a->k, blocks, a->head_dim / 8);
}
RF_DEVICE void rows_store_keys(const rows_shared *sh, const rows_part *p, const rows_place *at) {
    rf_f4 x[2];
    if (!p->is_there) return;
    rf_rows_floats(x, &p->w, at->type);
    sh->k[2 * p->eight * at->t.keys + p->key] = x[0];
    sh->k[(2 * p->eight + 1) * at->t.keys + p->key] = x[1];
}

/* Part number i of a step's values, if there are so many. */
RF_DEVICE uint32_t rows_value_parts(const rows_place *at) {
    return at->t.keys * 8 * at->halves / at->t.threads;
}
RF_DEVICE void rows_fetch_values(rows_part *p, const rf_gpu_attend_args *a, const rows_place *at,
                                 const uint32_t blocks[2], uint32_t i) {
    const uint32_t side = 8 * at->halves, n_parts = rows_value_parts(at);
    p->key = rf_min_u32(i, n_parts - 1) * (at->t.threads / side) + rf_tid() / side;
    p->eight = rf_tid() % side;
    rows_fetch(p, a, at, a->v, blocks, a->value_dim / 8);
    p->is_there = p->is_there && i < n_parts;
}
RF_DEVICE void rows_store_values(const rows_shared *sh, const rows_part *p, const rows_place *at) {
    rf_f4 x[2];
    if (!p->is_there) return;
    rf_rows_floats(x, &p->w, at->type);
    sh->v[p->key * 16 * at->halves + 2 * p->eight] = x[0];
    sh->v[p->key * 16 * at->halves + 2 * p->eight + 1] = x[1];
}

/* A thread's numbers: of items s_group + groups * n with its keys; of items v_group + 8 * n with its
 * columns, of a segment.  m, l: of item number tid of the segment, and of the total. */
typedef struct rows_sum {
    float acc[RF_ROWS_MOST][2][4];
    float m, l, total_m, total_l;
    int is_begun; /* something has been added to the total */
} rows_sum;

RF_DEVICE uint32_t rows_s_groups(const rows_place *at) { return at->t.items / at->t.n_scores; }
RF_DEVICE uint32_t rows_v_groups(const rows_place *at) { return at->t.items / at->t.n_values; }

/* Sixteen columns further. */
RF_DEVICE void rows_products(float s[RF_ROWS_MOST][4], const rf_f4 *q, const rf_f4 *k,
                             const rows_place *at) {
    RF_UNROLL
    for (uint32_t j = 0; j < 4; j++) {
        rf_f4 x[4];
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            x[i] = k[j * at->t.keys + 8 * i];
        RF_UNROLL
        for (uint32_t n = 0; n < at->t.n_scores; n++) {
            const rf_f4 y = q[j * at->t.items + rows_s_groups(at) * n];
            RF_UNROLL
            for (uint32_t d = 0; d < 4; d++) {
                RF_UNROLL
                for (uint32_t i = 0; i < 4; i++)
                    s[n][i] = rf_fma(y.v[d], x[i].v[d], s[n][i]);
            }
        }
    }
}

/* The step's scores, and its values on their way. */
RF_DEVICE void rows_scores(float s[RF_ROWS_MOST][4], const rows_shared *sh,
                           const rf_gpu_attend_args *a, const rows_place *at, const rows_walk *w) {
    const rf_f4 *q = sh->q + at->s_group, *k = sh->k + 32 * at->block + at->eighth;
    const uint32_t n_parts = rows_value_parts(at);
    RF_UNROLL
    for (uint32_t i = 0; i < 4 * at->t.n_scores; i++)
        s[i / 4][i % 4] = 0.0f;
    uint32_t i = 0;
    RF_NO_UNROLL
    for (; i < a->head_dim / 16; i++) {
        rows_part p;
        p.is_there = 0;
        if (i < n_parts) rows_fetch_values(&p, a, at, w->now, i);
        rows_products(s, q + 4 * i * at->t.items, k + 4 * i * at->t.keys, at);
        rows_store_values(sh, &p, at);
    }
    RF_NO_UNROLL
    for (; i < n_parts; i++) {
        rows_part p;
        rows_fetch_values(&p, a, at, w->now, i);
        rows_store_values(sh, &p, at);
    }
}

/* Where items 4 * i .. of key have their exponentials; keys that are stored together, or items of
 * one key, are in different banks.  Item v_group + 8 * n is number v_group * n_values + n. */
RF_DEVICE uint32_t rows_at(const rows_place *at, uint32_t key, uint32_t i) {
    return key * (at->t.items / 4) +
           (i ^ ((key & 1) << 2 | (at->t.n_values == 4 ? key & 2 : key >> 1 & 1)));
}

RF_DEVICE void rows_put_p(const rows_shared *sh, const rows_place *at, float p[RF_ROWS_MOST][4]) {
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t key = 32 * at->block + at->eighth + 8 * i;
        if (at->t.n_scores == at->t.n_values) {
            RF_UNROLL
            for (uint32_t n = 0; n < at->t.n_scores; n += 4) {
                const rf_f4 out = {{p[n][i], p[n + 1][i], p[n + 2][i], p[n + 3][i]}};
                sh->p[rows_at(at, key, at->s_group * (at->t.n_scores / 4) + n / 4)] = out;
            }
            continue;
        }
        RF_UNROLL
        for (uint32_t n = 0; n < at->t.n_scores; n++) {
            const uint32_t item = at->s_group + rows_s_groups(at) * n;
            const uint32_t place =
                item % rows_v_groups(at) * at->t.n_values + item / rows_v_groups(at);
            ((float *)&sh->p[rows_at(at, key, place / 4)])[place % 4] = p[n][i];
        }
    }
}

RF_DEVICE float rows_lane(float f, uint32_t mask) {
    return rf_float_of(rf_lane_xor(rf_bits_of(f), mask));
}

/* Item after item, so that there is little code: the scores pass by. */
RF_DEVICE void rows_softcap(const rows_place *at, float s[RF_ROWS_MOST][4], float softcap) {
    RF_NO_UNROLL
    for (uint32_t n = 0; n < at->t.n_scores; n++) {
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const float x = softcap * rf_tanh32(s[0][i] / softcap);
            RF_UNROLL
            for (uint32_t k = 1; k < at->t.n_scores; k++)
                s[k - 1][i] = s[k][i];
            s[at->t.n_scores - 1][i] = x;
        }
    }
}

/* From scores to exponentials, and each KV block's maximum and sum.  is_whole: all keys are visible
 * to all items. */
RF_DEVICE void rows_soften(const rows_shared *sh, const rf_gpu_attend_args *a, const rows_place *at,
                           const rows_walk *w, float s[RF_ROWS_MOST][4], int is_whole) {
    const uint32_t n_scores = at->t.n_scores;
    uint32_t bits[RF_ROWS_MOST];
    RF_UNROLL
    for (uint32_t i = 0; i < 4 * n_scores; i++)
        s[i / 4][i % 4] *= a->scale;
    if (a->softcap > 0) rows_softcap(at, s, a->softcap);
    if (!is_whole) {
        const uint32_t tid = rf_tid(), b = w->b + tid / at->t.items;
        if (tid / at->t.items < at->t.keys / 32)
            sh->bits[tid] = at->is_here && at->seq == w->all.seq ? rf_span_bits(&at->span, b) : 0;
        rf_sync();
        RF_UNROLL
        for (uint32_t n = 0; n < n_scores; n++)
            bits[n] = sh->bits[at->block * at->t.items + at->s_group + rows_s_groups(at) * n] >>
                      at->eighth;
        rf_sync();
    }
    RF_UNROLL
    for (uint32_t n = 0; n < n_scores; n++) {
        const uint32_t item = at->s_group + rows_s_groups(at) * n;
        float most = -__builtin_inff(), sum[4];
        if (!is_whole && at->span.mask && bits[n]) {
            const float *mask = a->batch.mask +
                                (uint64_t)((at->first + item) / at->per_kv) * a->batch.mask_stride +
                                32 * (w->b + at->block) + at->eighth;
            RF_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                if (bits[n] >> 8 * i & 1) s[n][i] += mask[8 * i];
        }
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            if ((is_whole || bits[n] >> 8 * i & 1) && s[n][i] > most) most = s[n][i];
        RF_UNROLL
        for (uint32_t mask = 2; mask <= 8; mask *= 2) {
            const float other = rows_lane(most, mask);
            most = other > most ? other : most;
        }
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const int is_visible = is_whole || bits[n] >> 8 * i & 1;
            const float p = rf_exp32_down(s[n][i] - most);
            sum[i] = is_visible ? p : 0.0f;
            s[n][i] = is_visible ? p : -1.0f;
        }
        float l = (sum[0] + sum[2]) + (sum[1] + sum[3]);
        RF_UNROLL
        for (uint32_t mask = 8; mask >= 2; mask /= 2)
            l += rows_lane(l, mask);
        if (at->eighth == 0) {
            sh->m[at->block * at->t.items + item] = most;
            sh->l[at->block * at->t.items + item] = l;
        }
    }
    rows_put_p(sh, at, s);
}

/* A part of maximum m and sum l, 0 when no key of it is visible, onto what there is; its factors:
 * less than 0 where the part is the first one (first), or nothing (second). */
RF_DEVICE void rows_fold(float *total_m, float *total_l, float m, float l, float *c_total,
                         float *c_part) {
    *c_total = 1.0f;
    *c_part = -1.0f;
    if (l == 0.0f) return;
    const rf_fold f = rf_fold_of(*total_m, m);
    *total_m = f.m;
    *total_l = rf_folded(&f, *total_l, l);
    *c_total = f.is_first ? -1.0f : f.c_total;
    *c_part = f.c_part;
}

RF_DEVICE float rows_folded(float total, float part, float c_total, float c_part) {
    if (c_part < 0.0f) return total;
    return c_total < 0.0f ? part : rf_fma(part, c_part, total * c_total);
}

/* Weighted values of keys j .. j + 7. */
RF_DEVICE void rows_add(float acc[RF_ROWS_MOST][2][4], const rows_shared *sh, const rows_place *at,
                        uint32_t first, int is_whole) {
    RF_UNROLL
    for (uint32_t j = 0; j < 8; j++) {
        const rf_f4 *v = sh->v + (first + j) * 16 * at->halves + at->col / 4;
        rf_f4 x[2], p[RF_ROWS_MOST / 4];
        RF_UNROLL
        for (uint32_t h = 0; h < at->halves; h++)
            x[h] = v[16 * h];
        RF_UNROLL
        for (uint32_t n = 0; n < at->t.n_values / 4; n++)
            p[n] = sh->p[first * (at->t.items / 4) +
                         rows_at(at, j, at->v_group * (at->t.n_values / 4) + n)];
        RF_UNROLL
        for (uint32_t n = 0; n < at->t.n_values; n++) {
            const float y = p[n / 4].v[n % 4];
            if (!is_whole && y < 0.0f) continue;
            RF_UNROLL
            for (uint32_t d = 0; d < 4 * at->halves; d++)
                acc[n][d / 4][d % 4] = rf_fma(y, x[d / 4].v[d % 4], acc[n][d / 4][d % 4]);
        }
    }
}

/* KV block number block of the step onto the segment, and a half of the next step's keys on their
 * way. */
RF_DEVICE void rows_values(const rows_shared *sh, const rf_gpu_attend_args *a, const rows_place *at,
                           const rows_walk *w, rows_sum *t, uint32_t block, int is_whole) {
    const uint32_t n_values = at->t.n_values, n_parts = rows_key_parts(a, at);
    float acc[RF_ROWS_MOST][2][4];
    RF_UNROLL
    for (uint32_t i = 0; i < 8 * n_values; i++)
        acc[i / 8][i / 4 % 2][i % 4] = 0.0f;
    RF_NO_UNROLL
    for (uint32_t i = 4 * block; i < 4 * block + 4; i++) {
        rows_part p;
        p.is_there = 0;
        if (i < n_parts) rows_fetch_keys(&p, a, at, w->next, i);
        if (is_whole)
            rows_add(acc, sh, at, 8 * i, 1);
        else
            rows_add(acc, sh, at, 8 * i, 0);
        rows_store_keys(sh, &p, at);
    }
    if (block == 0) rf_sync(); /* the factors are there */
    RF_UNROLL
    for (uint32_t n = 0; n < n_values; n++) {
        const uint32_t item = block * at->t.items + at->v_group + rows_v_groups(at) * n;
        const float c_total = sh->m[item], c_part = sh->l[item];
        if (c_total >= 0.0f && c_part >= 0.0f) {
            RF_UNROLL
            for (uint32_t d = 0; d < 4 * at->halves; d++)
                t->acc[n][d / 4][d % 4] =
                    rf_fma(acc[n][d / 4][d % 4], c_part, t->acc[n][d / 4][d % 4] * c_total);
            continue;
        }
        RF_UNROLL
        for (uint32_t d = 0; d < 4 * at->halves; d++)
            t->acc[n][d / 4][d % 4] =
                rows_folded(t->acc[n][d / 4][d % 4], acc[n][d / 4][d % 4], c_total, c_part);
    }
}

RF_DEVICE void rows_start(rows_sum *t) {
    t->m = -__builtin_inff();
    t->l = 0.0f;
    RF_UNROLL
    for (int i = 0; i < 8 * RF_ROWS_MOST; i++)
        t->acc[i / 8][i / 4 % 2][i % 4] = 0.0f;
}

/* The total of n items from number first of a thread's on; places that are not there are read from
 * those next to them, and not written. */
typedef struct rows_result {
    rf_f4 x[RF_ROWS_MOST][2];
} rows_result;
RF_DEVICE float *rows_dst(const rf_gpu_attend_args *a, const rows_place *at, uint32_t n,
                          uint32_t h) {
    const uint32_t i = rf_min_u32(at->first + at->v_group + rows_v_groups(at) * n, at->n_items - 1);
    const uint64_t head = at->kv_head * at->per_kv + i % at->per_kv;
    return a->dst + ((uint64_t)(i / at->per_kv) * a->n_heads + head) * a->value_dim +
           rf_min_u32(at->col + 64 * h, a->value_dim - 4);
}
RF_DEVICE void rows_read(rows_result *r, const rf_gpu_attend_args *a, const rows_place *at,
                         const rows_sum *t, uint32_t first, uint32_t n) {
    RF_UNROLL
    for (uint32_t i = 0; i < n * at->halves; i++) {
        const rf_f4 *from =
            (const rf_f4 *)(const void *)rows_dst(a, at, first + i / at->halves, i % at->halves);
        rf_f4 *to = &r->x[i / at->halves][i % at->halves];
        RF_UNROLL
        for (int d = 0; d < 4; d++)
            to->v[d] = 0.0f;
        if (t->is_begun) *to = *from;
    }
}
RF_DEVICE void rows_write(const rows_result *r, const rf_gpu_attend_args *a, const rows_place *at,
                          uint32_t first, uint32_t n) {
    RF_UNROLL
    for (uint32_t i = 0; i < n * at->halves; i++) {
        const uint32_t item = at->v_group + rows_v_groups(at) * (first + i / at->halves),
                       h = i % at->halves;
        float *to = rows_dst(a, at, first + i / at->halves, h);
        if (at->first + item < at->n_items && at->col + 64 * h < a->value_dim)
            *(rf_f4 *)(void *)to = r->x[i / at->halves][h];
    }
}

/* The segment onto the total. */
RF_DEVICE void rows_total(const rows_shared *sh, const rf_gpu_attend_args *a, const rows_place *at,
                          rows_sum *t) {
    const uint32_t tid = rf_tid();
    rows_result r;
    rows_read(&r, a, at, t, 0, at->t.n_values);
    if (tid < at->t.items)
        rows_fold(&t->total_m, &t->total_l, t->m, t->l, &sh->m[tid], &sh->l[tid]);
    rf_sync();
    RF_UNROLL
    for (uint32_t n = 0; n < at->t.n_values; n++) {
        const float c_total = sh->m[at->v_group + rows_v_groups(at) * n],
                    c_part = sh->l[at->v_group + rows_v_groups(at) * n];
        RF_UNROLL
        for (uint32_t d = 0; d < 4 * at->halves; d++) {
            float *x = &r.x[n][d / 4].v[d % 4];
            *x = rows_folded(*x, t->acc[n][d / 4][d % 4], c_total, c_part);
        }
    }
    rows_write(&r, a, at, 0, at->t.n_values);
    t->is_begun = 1;
    rows_start(t);
    rf_sync(); /* the factors have been read */
}

/* The total divided by its sum. */
RF_DEVICE void rows_end(const rows_shared *sh, const rf_gpu_attend_args *a, const rows_place *at,
                        const rows_sum *t) {
    const uint32_t tid = rf_tid();
    if (tid < at->t.items) sh->m[tid] = t->total_l == 0.0f ? 1.0f : t->total_l;
    rf_sync();
    RF_NO_UNROLL
    for (uint32_t n = 0; n < at->t.n_values; n += 2) {
        rows_result r;
        rows_read(&r, a, at, t, n, 2);
        RF_UNROLL
        for (uint32_t i = 0; i < 8 * at->halves; i++) {
            float *x = &r.x[i / (4 * at->halves)][i / 4 % at->halves].v[i % 4];
            *x /= sh->m[at->v_group + rows_v_groups(at) * (n + i / (4 * at->halves))];
        }
        rows_write(&r, a, at, n, 2);
    }
}

/* One step, the keys of which are in shared memory. */
RF_DEVICE void rows_step(const rows_shared *sh, const rf_gpu_attend_args *a, const rows_place *at,
                         const rows_walk *w, rows_sum *t, int is_whole) {
    const uint32_t tid = rf_tid();
    float s[RF_ROWS_MOST][4];
    rows_scores(s, sh, a, at, w);
    if (is_whole)
        rows_soften(sh, a, at, w, s, 1);
    else
        rows_soften(sh, a, at, w, s, 0);
    rf_sync();
    RF_UNROLL
    for (uint32_t i = 0; i < at->t.keys / 32; i++) {
        const uint32_t item = i * at->t.items + tid;
        if (tid < at->t.items)
            rows_fold(&t->m, &t->l, sh->m[item], sh->l[item], &sh->m[item], &sh->l[item]);
    }
    RF_NO_UNROLL
    for (uint32_t i = 0; i < at->t.keys / 32; i++)
        rows_values(sh, a, at, w, t, i, is_whole);
    rf_sync();
}

/* The sequence's blocks, for the items that are its. */
RF_DEVICE void rows_all(const rows_shared *sh, const rf_gpu_attend_args *a, const rows_place *at,
                        rows_walk *w, rows_sum *t) {
    const uint32_t step = at->t.keys / 32;
    w->b = w->all.first - w->all.first % step;
    rows_look_up(w->now, w, w->b);
    rows_look_up(w->next, w, w->b + step);
    for (uint32_t i = 0; i < rows_key_parts(a, at); i++) {
        rows_part p;
        rows_fetch_keys(&p, a, at, w->now, i);
        rows_store_keys(sh, &p, at);
    }
    rf_sync();
    RF_NO_UNROLL
    for (; w->b < w->all.end; w->b += step) {
        rows_step(sh, a, at, w, t, 32 * w->b >= w->all.lo && 32 * (w->b + step) <= w->all.hi);
        if (w->b + step >= w->all.end || (w->b + step) % RF_GPU_SEGMENT_BLOCKS == 0)
            rows_total(sh, a, at, t);
        RF_UNROLL
        for (int i = 0; i < 2; i++)
            w->now[i] = w->next[i];
        rows_look_up(w->next, w, w->b + 2 * step);
    }
}

/* The block's queries; those of items that are not there are the last one. */
RF_DEVICE void rows_queries(const rows_shared *sh, const rf_gpu_attend_args *a,
                            const rows_place *at) {
    for (uint32_t i = rf_tid(); i < at->t.items * (a->head_dim / 4); i += at->t.threads) {
        const uint32_t item = rf_min_u32(at->first + i % at->t.items, at->n_items - 1);
        const uint64_t row = item / at->per_kv;
        const float *q =
            a->q + (row * a->n_heads + at->kv_head * at->per_kv + item % at->per_kv) * a->head_dim;
        sh->q[i] = *(const rf_f4 *)(const void *)(q + i / at->t.items * 4);
    }
}

RF_DEVICE rows_place rows_place_of(const rf_gpu_attend_args *a, rf_rows_tile t, uint32_t halves) {
    const uint32_t tid = rf_tid(), low = (tid & 1) | (tid >> 3 & 6);
    rows_place at;
    at.t = t;
    at.per_kv = a->n_heads / a->n_kv_heads;
    at.n_items = a->n_rows * at.per_kv;
    at.kv_head = rf_bid_x();
    at.first = rf_rows_stretch(a, rf_div_up(at.n_items, t.items)) * t.items;
    at.eighth = tid >> 1 & 7;
    at.block = t.keys == 64 ? tid / 64 % 2 : 0;
    at.s_group = low + (t.keys == 64 ? tid / 128 * 8 : tid / 64 * 8);
    at.v_group = low + tid / 128 * 8;
    at.col = 4 * (at.eighth + tid / 64 % 2 * 8);
    at.halves = halves;
    const uint32_t item = at.first + tid % t.items,
                   row = rf_min_u32(item, at.n_items - 1) / at.per_kv;
    at.is_here = item < at.n_items;
    at.span = rf_span_of(a, row);
    at.seq = a->batch.row_seq[row];
    at.type = a->k_type;
    return at;
}

RF_DEVICE void rows_run(uint8_t *shared, const rf_gpu_attend_args *a, rf_rows_tile tile,
                        uint32_t halves) {
    const rows_place at = rows_place_of(a, tile, halves);
    rows_shared sh;
    sh.q = (rf_f4 *)(void *)shared;
    sh.k = sh.q + tile.items * RF_ROWS_DIM / 4;
    sh.v = sh.k + tile.keys * RF_ROWS_DIM / 4;
    sh.p = sh.v + tile.keys * RF_ROWS_DIM / 4;
    sh.m = (float *)(sh.p + tile.keys * tile.items / 4);
    sh.l = sh.m + 2 * tile.items;
    sh.bits = (uint32_t *)(void *)sh.p;
    rows_queries(&sh, a, &at);
    rows_sum t;
    rows_start(&t);
    t.total_m = -__builtin_inff();
    if (a->sinks && at.is_here && rf_tid() < tile.items)
        t.total_m = a->sinks[at.kv_head * at.per_kv + (at.first + rf_tid()) % at.per_kv];
    t.total_l = t.total_m == -__builtin_inff() ? 0.0f : 1.0f;
    t.is_begun = 0;
    const uint32_t first_row = at.first / at.per_kv;
    const uint32_t last_row = (rf_min_u32(at.first + tile.items, at.n_items) - 1) / at.per_kv;
    for (uint32_t r = first_row; r <= last_row;) { /* a sequence's rows at a time */
        rows_walk w = {rf_rows_walk_of(a, first_row, last_row, &r), 0, {0, 0}, {0, 0}};
        if (w.all.first < w.all.end) rows_all(&sh, a, &at, &w, &t);
    }
    rows_end(&sh, a, &at, &t);
}

RF_KERNEL_EARLY(attend_rows, rf_gpu_attend_args, 3) {
    const rf_rows_tile tile = rf_rows_tile_of();
#if defined(RF_AMD)
    RF_SHARED __attribute__((aligned(16))) uint8_t shared[rf_rows_shared_bytes(rf_rows_tile_of())];
#else
    uint8_t *shared = rf_dynamic_shared;
#endif
    rf_await_before();
    if (a.value_dim > 64)
        rows_run(shared, &a, tile, 2);
    else
        rows_run(shared, &a, tile, 1);
}
