/* attend_tile.hip - attention of many rows of a sequence over keys and values in sixteen bits, for
 * NVIDIA's GPUs; one block per KV head and 64 neighbouring items: an item is a query head of a row, the
 * heads of the KV head first, so that any number of them fills a block.
 *
 * Keys pass in steps of four KV blocks.  Scores and weighted values are made as products of matrices
 * are: a thread has eight by eight of them, and every operand lies in shared memory as floats, those of
 * neighbouring outputs side by side, so that what a multiplication reads is in registers of both banks.
 * A warp has the scores of a KV block.  Keys come by 32 columns, values by KV blocks, through a ring of
 * two slots, one of which is filled while the other is multiplied.  A segment's weighted values stay in
 * registers; the total lies where the result will be. */
#include "backend/gpu/kernels/rows.h"
#include "backend/gpu/tile.h"

#if !defined(RF_AMD)
enum {
    MANY_ITEMS = RF_TILE_ITEMS,
    MANY_THREADS = RF_BLOCK_attend_tile,
    MANY_STEP = RF_TILE_STEP,
    MANY_KEYS = 32 * MANY_STEP,
    MANY_K_EIGHT = RF_TILE_K_EIGHT,    /* floats of eight columns of keys, no bank twice */
    MANY_P_FOUR = 4 * MANY_ITEMS + 16, /* of four keys' exponentials, likewise */
    MANY_SLOT = 4 * MANY_K_EIGHT,
    MANY_PITCH = 36, /* of an item's sums */
    MANY_DIM = RF_GPU_ATTEND_VEC_DIM,
};

typedef struct many_shared {
    float q[MANY_DIM][MANY_ITEMS];
    float slot[2][MANY_SLOT]; /* keys [columns][MANY_KEYS], or values [32][MANY_DIM] */
    float p[MANY_STEP * MANY_ITEMS * MANY_PITCH]; /* [keys][items]; less than 0: not visible */
    float m[MANY_STEP][MANY_ITEMS], l[MANY_STEP][MANY_ITEMS]; /* of a KV block; then its factors */
    uint32_t bits[MANY_STEP][MANY_ITEMS];                     /* visible keys */
    uint32_t to[MANY_ITEMS];      /* an item's result, in fours of floats; ~0: nowhere */
    uint32_t is_whole[MANY_STEP]; /* of a KV block: no exponential is less than 0 */
} many_shared;

/* A thread's place: items 4 * group .. and 32 + 4 * group ..; of its warp's KV block of a step keys
 * 4 * quad .. and 16 + 4 * quad ..; columns col .. and 64 + col .. of values. */
typedef struct many_place {
    uint32_t kv_head, per_kv, first, n_items; /* first: the block's first item */
    uint32_t group, quad, warp, col;
    rf_span span; /* of item number tid % items */
    uint32_t seq, is_here;
} many_place;

/* A walk's blocks from b on. */
typedef struct many_walk {
    rf_rows_walk all;
    uint32_t b;
    uint32_t slot; /* which holds what is multiplied next */
} many_walk;

/* A thread's numbers: of its items, with its columns, of a segment.  m, l: of item number tid of the
 * segment, and of the total. */
typedef struct many_sum {
    float acc[8][2][4];
    float m, l, total_m, total_l;
    int is_begun; /* something has been added to the total */
} many_sum;

/* What a slot is to be filled with: of each of four parts this thread has eight columns of a key or a
 * value. */
typedef struct many_part {
    const rf_u4 *from;
    uint32_t stride;
    float *to;
    int is_key;
} many_part;

/* Columns 32 * chunk .. of the keys of the step from block b on. */
RF_DEVICE many_part many_keys(many_shared *sh, const rf_gpu_attend_args *a, const many_place *at,
                              const many_walk *w, uint32_t b, uint32_t chunk) {
    const uint32_t eights = a->head_dim / 8, lane = rf_tid() % 32, eight = 4 * chunk + lane % 4;
    const uint32_t block = rf_min_u32(b + at->warp, w->all.end - 1);
    const uint64_t id = w->all.table[block < w->all.first ? w->all.first : block];
    many_part p;
    p.from = (const rf_u4 *)a->k + ((id * a->n_kv_heads + at->kv_head) * 32 + lane / 4) * eights +
             rf_min_u32(eight, eights - 1);
    p.stride = 8 * eights;
    p.to = sh->slot[w->slot ^ 1] + lane % 4 * MANY_K_EIGHT + 32 * at->warp + lane / 4;
    p.is_key = 1;
    return p;
}
/* The values of block number b. */
RF_DEVICE many_part many_values(many_shared *sh, const rf_gpu_attend_args *a, const many_place *at,
                                const many_walk *w, uint32_t b) {
    const uint32_t eights = a->value_dim / 8, eight = rf_tid() % 16, key = rf_tid() / 16;
    const uint64_t id = w->all.table[b];
    many_part p;
    p.from = (const rf_u4 *)a->v + ((id * a->n_kv_heads + at->kv_head) * 32 + key) * eights +
             rf_min_u32(eight, eights - 1);
    p.stride = 8 * eights;
    p.to = sh->slot[w->slot ^ 1] + key * MANY_DIM + 8 * eight;
    p.is_key = 0;
    return p;
}

RF_DEVICE void many_fetch(rf_u4 words[4], const many_part *p) {
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        words[i] = rf_rows_load(p->from + i * p->stride);
    rf_rows_loaded();
}
RF_DEVICE void many_store(const many_part *p, const rf_u4 words[4], uint32_t type) {
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        rf_f4 x[2];
        rf_rows_floats(x, &words[i], type);
        if (p->is_key) {
            RF_UNROLL
            for (int k = 0; k < 8; k++)
                p->to[8 * i + (uint32_t)k * MANY_KEYS] = x[k / 4].v[k % 4];
        } else {
            rf_f4 *to = (rf_f4 *)(void *)(p->to + 8 * i * MANY_DIM);
            to[0] = x[0];
            to[1] = x[1];
        }
    }
}

RF_DEVICE const rf_f4 *many_at(const float *p) { return (const rf_f4 *)(const void *)p; }

/* What a step of a product reads: a column of queries and keys, or a key's exponentials and values.  It
 * is read a step before it is multiplied; the last time the first one is read again, for nothing. */
typedef struct many_pair {
    rf_f4 y[2], x[2];
} many_pair;
RF_DEVICE many_pair many_pair_of(const float *y, const float *x, uint32_t x_far) {
    const many_pair p = {{*many_at(y), *many_at(y + 32)}, {*many_at(x), *many_at(x + x_far)}};
    return p;
}

/* Eight columns further: q and k at this thread's items and keys, q_next and k_next of the next eight. */
RF_DEVICE void many_products(float s[8][8], many_pair *next, const float *q, const float *k,
                             const float *q_next, const float *k_next) {
    RF_UNROLL
    for (uint32_t d = 0; d < 8; d++) {
        const many_pair p = *next;
        *next = d < 7 ? many_pair_of(q + (d + 1) * MANY_ITEMS, k + (d + 1) * MANY_KEYS, 16)
                      : many_pair_of(q_next, k_next, 16);
        RF_UNROLL
        for (uint32_t n = 0; n < 8; n++) {
            RF_UNROLL
            for (uint32_t i = 0; i < 8; i++)
                s[n][i] = rf_fma(p.y[n / 4].v[n % 4], p.x[i / 4].v[i % 4], s[n][i]);
        }
    }
}

/* Key after key, so that there is little code: the scores pass by. */
RF_DEVICE void many_softcap(float s[32], float softcap) {
    RF_NO_UNROLL
    for (uint32_t n = 0; n < 32; n++) {
        const float x = softcap * rf_tanh32(s[0] / softcap);
        RF_UNROLL
        for (uint32_t k = 1; k < 32; k++)
            s[k - 1] = s[k];
        s[31] = x;
    }
}

/* Number of the thread's item n in the block of threads. */
RF_DEVICE uint32_t many_item(const many_place *at, uint32_t n) {
    return 4 * at->group + n % 4 + n / 4 * 32;
}

/* Where the exponential of a key of the step and an item is. */
RF_DEVICE float *many_p(many_shared *sh, uint32_t key, uint32_t item) {
    return sh->p + key / 32 * (MANY_ITEMS * MANY_PITCH) + key / 4 % 8 * MANY_P_FOUR +
           key % 4 * MANY_ITEMS + item;
}

/* The thread's sums to where its warp's exponentials will be, [items][MANY_PITCH]; of two neighbouring
 * keys the second first, so that a sum is in the other bank of registers than the key it is made of. */
RF_DEVICE void many_put(many_shared *sh, const many_place *at, float s[8][8]) {
    RF_UNROLL
    for (uint32_t i = 0; i < 16; i++) {
        const float *x = s[i % 8] + i / 8 * 4;
        const rf_f4 out = {{x[1], x[0], x[3], x[2]}};
        *(rf_f4 *)(void *)(sh->p + (at->warp * MANY_ITEMS + many_item(at, i % 8)) * MANY_PITCH +
                           4 * at->quad + i / 8 * 16) = out;
    }
}

/* Of the warp's KV block from sums to exponentials, maxima and sums of these: a lane has all keys of two
 * items.  is_whole: all keys are visible to all items. */
RF_DEVICE void many_soften(many_shared *sh, const rf_gpu_attend_args *a, const many_place *at,
                           const many_walk *w, int is_whole) {
    const uint32_t lane = rf_tid() % 32;
    float s[64];
    RF_UNROLL
    for (uint32_t i = 0; i < 16; i++) {
        const rf_f4 x =
            *many_at(sh->p + (at->warp * MANY_ITEMS + lane + i / 8 * 32) * MANY_PITCH + i % 8 * 4);
        RF_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            s[4 * i + k] = x.v[k ^ 1] * a->scale;
    }
    if (lane == 0) sh->is_whole[at->warp] = (uint32_t)is_whole;
    rf_warp_sync();
    RF_NO_UNROLL
    for (uint32_t item = lane; item < MANY_ITEMS; item += 32) {
        const uint32_t bits = is_whole ? ~0u : sh->bits[at->warp][item];
        float *p = many_p(sh, 32 * at->warp, item), most = -__builtin_inff();
        if (a->softcap > 0) many_softcap(s, a->softcap);
        if (!is_whole && at->span.mask && bits) {
            const float *mask = a->batch.mask +
                                (uint64_t)((at->first + item) / at->per_kv) * a->batch.mask_stride +
                                32 * (w->b + at->warp);
            RF_UNROLL
            for (uint32_t i = 0; i < 32; i++)
                if (bits >> i & 1) s[i] += mask[i];
        }
        RF_UNROLL
        for (uint32_t i = 0; i < 32; i++)
            if ((is_whole || bits >> i & 1) && s[i] > most) most = s[i];
        RF_UNROLL
        for (uint32_t i = 0; i < 32; i++) {
            const int is_visible = is_whole || bits >> i & 1;
            const float x = rf_exp32_down(s[i] - most);
            p[i / 4 * MANY_P_FOUR + i % 4 * MANY_ITEMS] = is_visible ? x : -1.0f;
            s[i] = is_visible ? x : 0.0f;
        }
        RF_UNROLL
        for (uint32_t half = 16; half > 0; half /= 2) {
            RF_UNROLL
            for (uint32_t i = 0; i < half; i++)
                s[i] += s[i + half];
        }
        sh->m[at->warp][item] = most;
        sh->l[at->warp][item] = s[0];
        if (bits && most == -__builtin_inff()) { /* l says that nothing is a number */
            sh->is_whole[at->warp] = 0;
            RF_NO_UNROLL
            for (uint32_t i = 0; i < 32; i++)
                p[i / 4 * MANY_P_FOUR + i % 4 * MANY_ITEMS] = -1.0f;
        }
        RF_UNROLL
        for (uint32_t i = 0; i < 32; i++)
            s[i] = s[i + 32];
    }
}

RF_DEVICE int many_is_whole(const many_walk *w, uint32_t b) {
    return 32 * b >= w->all.lo && 32 * (b + 1) <= w->all.hi;
}

/* The step's exponentials, maxima and sums; its first values come in. */
RF_DEVICE void many_scores(many_shared *sh, const rf_gpu_attend_args *a, const many_place *at,
                           many_walk *w) {
    const uint32_t n_eights = a->head_dim / 8, n_chunks = rf_div_up(n_eights, 4);
    const uint32_t b = w->b + at->warp;
    const int is_there = !rf_warp_may_skip() || (b >= w->all.first && b < w->all.end);
    float s[8][8];
    RF_UNROLL
    for (uint32_t i = 0; i < 64; i++)
        s[i / 8][i % 8] = 0.0f;
    if (!many_is_whole(w, w->b) || !many_is_whole(w, w->b + MANY_STEP - 1)) {
        RF_UNROLL
        for (uint32_t i = rf_tid() / MANY_ITEMS; i < MANY_STEP; i += MANY_THREADS / MANY_ITEMS)
            sh->bits[i][rf_tid() % MANY_ITEMS] =
                at->is_here && at->seq == w->all.seq ? rf_span_bits(&at->span, w->b + i) : 0;
        if (n_chunks == 1) rf_sync();
    }
    RF_NO_UNROLL
    for (uint32_t chunk = 0; chunk < n_chunks; chunk++) {
        const uint32_t n = rf_min_u32(n_eights - 4 * chunk, 4);
        const float *q = sh->q[32 * chunk] + 4 * at->group;
        const float *k = sh->slot[w->slot] + 32 * at->warp + 4 * at->quad;
        const many_part p =
            chunk + 1 < n_chunks
                ? many_keys(sh, a, at, w, w->b, chunk + 1)
                : many_values(sh, a, at, w, w->b < w->all.first ? w->all.first : w->b);
        rf_u4 words[4];
        many_fetch(words, &p);
        many_pair next = many_pair_of(q, k, 16);
        RF_NO_UNROLL
        for (uint32_t i = 0; i < (is_there ? n : 0); i++) {
            const uint32_t after = i + 1 < n ? i + 1 : 0;
            many_products(s, &next, q + 8 * i * MANY_ITEMS, k + i * MANY_K_EIGHT,
                          q + 8 * after * MANY_ITEMS, k + after * MANY_K_EIGHT);
        }
        many_store(&p, words, a->k_type);
        if (chunk + 1 < n_chunks) rf_sync();
        w->slot ^= 1;
    }
    if (is_there) {
        many_put(sh, at, s);
        rf_warp_sync();
        if (many_is_whole(w, b))
            many_soften(sh, a, at, w, 1);
        else
            many_soften(sh, a, at, w, 0);
    }
    rf_sync();
}

/* A part of maximum m and sum l, 0 when no key of it is visible, onto what there is; the factors by
 * which part * c_part + total * c_total is what docs/arithmetic.md says of the weighted values, bit by
 * bit, without a choice for each of them.  A total to which nothing has been added is -0, which is not
 * seen in a sum; nor is a part to which no key was added, times nothing.  Of a part whose maximum is
 * -inf only l, not a number, is added: the result is none either, unless what comes later takes the
 * place of it. */
RF_DEVICE void many_fold(float *total_m, float *total_l, float m, float l, float nothing,
                         float *c_total, float *c_part) {
    const rf_fold f = rf_fold_of(*total_m, m);
    const int is_seen = l != 0.0f, is_added = is_seen && m != -__builtin_inff();
    *c_total = is_added && !f.is_first ? f.c_total : 1.0f;
    *c_part = !is_added ? nothing : f.is_first ? 1.0f : f.c_part;
    *total_l = is_seen ? rf_folded(&f, *total_l, l) : *total_l;
    *total_m = is_seen ? f.m : *total_m;
}

/* The thread's weighted values, of a KV block or a segment, onto others, by the factors in row i. */
RF_DEVICE void many_add(float total[8][2][4], float part[8][2][4], const many_shared *sh,
                        const many_place *at, uint32_t i, uint32_t halves) {
    RF_UNROLL
    for (uint32_t n = 0; n < 8; n++) {
        const float c_total = sh->m[i][many_item(at, n)], c_part = sh->l[i][many_item(at, n)];
        RF_UNROLL
        for (uint32_t d = 0; d < 4 * halves; d++)
            total[n][d / 4][d % 4] =
                rf_fma(part[n][d / 4][d % 4], c_part, total[n][d / 4][d % 4] * c_total);
    }
}

/* Weighted values of eight keys, number i of four: v and p at this thread's columns and items. */
RF_DEVICE void many_weigh(float acc[8][2][4], many_pair *next, const float *v, const float *p,
                          uint32_t i, uint32_t halves, int is_whole) {
    const float *v_of = v + 8 * i * MANY_DIM, *p_of = p + 2 * i * MANY_P_FOUR;
    const uint32_t after = (i + 1) % 4;
    RF_UNROLL
    for (uint32_t j = 0; j < 8; j++) {
        const rf_f4 y[2] = {next->y[0], next->y[1]}, x[2] = {next->x[0], next->x[1]};
        *next = j < 7 ? many_pair_of(p_of + (j + 1) / 4 * MANY_P_FOUR + (j + 1) % 4 * MANY_ITEMS,
                                     v_of + (j + 1) * MANY_DIM, 64 * (halves - 1))
                      : many_pair_of(p + 2 * after * MANY_P_FOUR, v + 8 * after * MANY_DIM,
                                     64 * (halves - 1));
        RF_UNROLL
        for (uint32_t n = 0; n < 8; n++) {
            if (!is_whole && y[n / 4].v[n % 4] < 0.0f) continue;
            RF_UNROLL
            for (uint32_t d = 0; d < 4 * halves; d++)
                acc[n][d / 4][d % 4] =
                    rf_fma(y[n / 4].v[n % 4], x[d / 4].v[d % 4], acc[n][d / 4][d % 4]);
        }
    }
}

/* Blocks from to end of the step onto the segment; the next step's first keys come in. */
RF_DEVICE void many_weighted(many_shared *sh, const rf_gpu_attend_args *a, const many_place *at,
                             many_walk *w, many_sum *t, uint32_t halves) {
    const uint32_t tid = rf_tid(), from = w->b < w->all.first ? w->all.first : w->b;
    const uint32_t end = rf_min_u32(w->b + MANY_STEP, w->all.end);
    if (tid < MANY_ITEMS) {
        for (uint32_t b = from; b < end; b++)
            many_fold(&t->m, &t->l, sh->m[b - w->b][tid], sh->l[b - w->b][tid], -0.0f,
                      &sh->m[b - w->b][tid], &sh->l[b - w->b][tid]);
    }
    RF_NO_UNROLL
    for (uint32_t b = from; b < end; b++) {
        const float *v = sh->slot[w->slot] + at->col;
        const float *p = sh->p + (b - w->b) * MANY_ITEMS * MANY_PITCH + 4 * at->group;
        const many_part part = b + 1 < end ? many_values(sh, a, at, w, b + 1)
                                           : many_keys(sh, a, at, w, w->b + MANY_STEP, 0);
        const int is_whole = sh->is_whole[b - w->b] != 0;
        float acc[8][2][4];
        RF_UNROLL
        for (uint32_t i = 0; i < 64; i++)
            acc[i / 8][i / 4 % 2][i % 4] = 0.0f;
        rf_u4 words[4];
        many_fetch(words, &part);
        many_pair next = many_pair_of(p, v, 64 * (halves - 1));
        if (is_whole) {
            RF_NO_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                many_weigh(acc, &next, v, p, i, halves, 1);
        } else {
            RF_NO_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                many_weigh(acc, &next, v, p, i, halves, 0);
        }
        many_store(&part, words, a->k_type);
        if (b == from) rf_sync(); /* the factors are there */
        many_add(t->acc, acc, sh, at, b - w->b, halves);
        rf_sync();
        w->slot ^= 1;
    }
}

RF_DEVICE void many_start(many_sum *t) {
    t->m = -__builtin_inff();
    t->l = 0.0f;
    RF_UNROLL
    for (int i = 0; i < 64; i++)
        t->acc[i / 8][i / 4 % 2][i % 4] = -0.0f;
}

/* Where the total of item n and the columns of half h is, NULL if nowhere. */
RF_DEVICE rf_f4 *many_dst(const many_shared *sh, const rf_gpu_attend_args *a, const many_place *at,
                          uint32_t n, uint32_t h) {
    const uint32_t to = sh->to[many_item(at, n)], col = at->col + 64 * h;
    if (to == ~0u || col >= a->value_dim) return 0;
    return (rf_f4 *)(void *)a->dst + to + col / 4;
}

/* The segment onto the total. */
RF_DEVICE void many_total(many_shared *sh, const rf_gpu_attend_args *a, const many_place *at,
                          many_sum *t, uint32_t halves) {
    float total[8][2][4];
    RF_UNROLL
    for (uint32_t i = 0; i < 8 * halves; i++) {
        const rf_f4 *from = many_dst(sh, a, at, i % 8, i / 8);
        rf_f4 x = {{-0.0f, -0.0f, -0.0f, -0.0f}};
        if (t->is_begun && from) x = *from;
        RF_UNROLL
        for (int d = 0; d < 4; d++)
            total[i % 8][i / 8][d] = x.v[d];
    }
    if (rf_tid() < MANY_ITEMS) {
        const int is_sink = !t->is_begun && t->total_l != 0.0f; /* whose weighted values are +0 */
        float c_total;
        many_fold(&t->total_m, &t->total_l, t->m, t->l, 0.0f, &c_total, &sh->l[0][rf_tid()]);
        sh->m[0][rf_tid()] = is_sink ? -c_total : c_total;
    }
    rf_sync();
    many_add(total, t->acc, sh, at, 0, halves);
    RF_UNROLL
    for (uint32_t i = 0; i < 8 * halves; i++) {
        rf_f4 *to = many_dst(sh, a, at, i % 8, i / 8);
        const float *x = total[i % 8][i / 8];
        const rf_f4 out = {{x[0], x[1], x[2], x[3]}};
        if (to) *to = out;
    }
    t->is_begun = 1;
    many_start(t);
    rf_sync(); /* the factors have been read */
}

/* The total divided by its sum. */
RF_DEVICE void many_end(many_shared *sh, const rf_gpu_attend_args *a, const many_place *at,
                        const many_sum *t, uint32_t halves) {
    if (rf_tid() < MANY_ITEMS) sh->m[0][rf_tid()] = t->total_l;
    rf_sync();
    RF_NO_UNROLL
    for (uint32_t n = 0; n < 8; n++) {
        const float l = sh->m[0][many_item(at, n)];
        RF_UNROLL
        for (uint32_t h = 0; h < halves; h++) {
            rf_f4 *to = many_dst(sh, a, at, n, h);
            rf_f4 x = {{0, 0, 0, 0}};
            if (!to) continue;
            if (t->is_begun) x = *to;
            RF_UNROLL
            for (int d = 0; d < 4; d++)
                x.v[d] = l == 0.0f ? 0.0f : x.v[d] / l;
            *to = x;
        }
    }
}

/* The sequence's blocks, for the items that are its. */
RF_DEVICE void many_all(many_shared *sh, const rf_gpu_attend_args *a, const many_place *at,
                        many_walk *w, many_sum *t, uint32_t halves) {
    w->b = w->all.first - w->all.first % MANY_STEP;
    const many_part p = many_keys(sh, a, at, w, w->b, 0);
    rf_u4 words[4];
    many_fetch(words, &p);
    many_store(&p, words, a->k_type);
    rf_sync();
    w->slot ^= 1;
    RF_NO_UNROLL
    for (; w->b < w->all.end; w->b += MANY_STEP) {
        many_scores(sh, a, at, w);
        many_weighted(sh, a, at, w, t, halves);
        if (w->b + MANY_STEP >= w->all.end || (w->b + MANY_STEP) % RF_GPU_SEGMENT_BLOCKS == 0)
            many_total(sh, a, at, t, halves);
    }
}

/* The block's queries; those of items that are not there are the last one. */
RF_DEVICE void many_queries(many_shared *sh, const rf_gpu_attend_args *a, const many_place *at) {
    for (uint32_t i = rf_tid(); i < MANY_ITEMS * (a->head_dim / 4); i += MANY_THREADS) {
        const uint32_t item = rf_min_u32(at->first + i % MANY_ITEMS, at->n_items - 1);
        const uint64_t row = item / at->per_kv;
        const float *q =
            a->q + (row * a->n_heads + at->kv_head * at->per_kv + item % at->per_kv) * a->head_dim;
        const rf_f4 x = *many_at(q + i / MANY_ITEMS * 4);
        RF_UNROLL
        for (uint32_t d = 0; d < 4; d++)
            sh->q[i / MANY_ITEMS * 4 + d][i % MANY_ITEMS] = x.v[d];
    }
}

RF_DEVICE many_place many_place_of(const rf_gpu_attend_args *a) {
    const uint32_t tid = rf_tid(), lane = tid % 32;
    many_place at;
    at.per_kv = a->n_heads / a->n_kv_heads;
    at.n_items = a->n_rows * at.per_kv;
    at.kv_head = rf_bid_x();
    at.first = rf_rows_stretch(a, rf_div_up(at.n_items, MANY_ITEMS)) * MANY_ITEMS;
    at.warp = tid / 32;
    /* Two neighbouring lanes, or two that are two apart, read the same. */
    at.quad = (lane & 1) | (lane >> 1 & 2);
    at.group = (lane >> 1 & 1) | (lane >> 2 & 6);
    at.col = 16 * at.warp + 4 * at.quad;
    const uint32_t item = at.first + tid % MANY_ITEMS,
                   row = rf_min_u32(item, at.n_items - 1) / at.per_kv;
    at.is_here = item < at.n_items;
    at.span = rf_span_of(a, row);
    at.seq = a->batch.row_seq[row];
    return at;
}

RF_DEVICE void many_run(many_shared *sh, const rf_gpu_attend_args *a, uint32_t halves) {
    const many_place at = many_place_of(a);
    many_queries(sh, a, &at);
    if (rf_tid() < MANY_ITEMS) {
        const uint32_t item = at.first + rf_tid();
        const uint32_t head = at.kv_head * at.per_kv + item % at.per_kv;
        sh->to[rf_tid()] =
            at.is_here ? (item / at.per_kv * a->n_heads + head) * (a->value_dim / 4) : ~0u;
    }
    many_sum t;
    many_start(&t);
    t.total_m = -__builtin_inff();
    if (a->sinks && at.is_here && rf_tid() < MANY_ITEMS)
        t.total_m = a->sinks[at.kv_head * at.per_kv + (at.first + rf_tid()) % at.per_kv];
    t.total_l = t.total_m == -__builtin_inff() ? 0.0f : 1.0f;
    t.is_begun = 0;
    const uint32_t first_row = at.first / at.per_kv;
    const uint32_t last_row = (rf_min_u32(at.first + MANY_ITEMS, at.n_items) - 1) / at.per_kv;
    for (uint32_t r = first_row; r <= last_row;) { /* a sequence's rows at a time */
        many_walk w = {rf_rows_walk_of(a, first_row, last_row, &r), 0, 0};
        if (w.all.first < w.all.end) many_all(sh, a, &at, &w, &t, halves);
    }
    many_end(sh, a, &at, &t, halves);
}

RF_KERNEL_EARLY(attend_tile, rf_gpu_attend_args, 2) {
    many_shared *sh = (many_shared *)(void *)rf_dynamic_shared;
    rf_await_before();
    if (a.value_dim > 64)
        many_run(sh, &a, 2);
    else
        many_run(sh, &a, 1);
}
#endif
