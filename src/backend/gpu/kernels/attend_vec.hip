/* attend_vec.hip - attention of few rows over keys and values in sixteen bits; one block of threads per
 * row, KV head, one or four of the query heads that share it, and all segments of the keys or some, which
 * blocks of threads take in turns.
 *
 * A warp (32 threads, whatever the device calls one) has a KV block of each segment for itself: all of
 * its keys and values are on their way at once, old ones before the kernel in front has ended.  For
 * scores a thread has a key, which comes through shared memory, for values four columns.  The next
 * segment's keys are on their way as soon as the scores are made, its values as soon as these are
 * added.  Then the blocks of the segment are folded, a thread per column.
 *
 * Of rows that do not see each other's keys the block may norm and rotate its queries itself, a warp each,
 * and likewise the row's own key and value, which take their places in shared memory and registers: one block
 * puts them into the pools, for the next step. */
#include "backend/gpu/kernels/keys.h"
#include "backend/gpu/kernels/own.h"
#include "backend/gpu/tile.h"

enum {
    VEC_DIM = RF_GPU_ATTEND_VEC_DIM,
    VEC_THREADS = RF_BLOCK_attend_vec_4,
    VEC_WARPS = VEC_THREADS / 32,
    VEC_STRETCH = (int)RF_KEYS_STRETCH,
#if defined(RF_NVIDIA)
    VEC_SLOTS = VEC_DIM / VEC_STRETCH,
#else
    VEC_SLOTS = 1,
#endif
    VEC_MAX_HEADS = 4,
};

typedef struct vec_shared {
    rf_u4 k[VEC_WARPS][VEC_SLOTS][RF_KEYS_SLOT];       /* each warp's own */
    rf_f4 sum[VEC_WARPS][VEC_MAX_HEADS * VEC_DIM / 4]; /* weighted values [heads][VEC_DIM] */
    rf_f4 q[VEC_DIM * VEC_MAX_HEADS / 4];              /* [VEC_DIM][heads] */
    rf_f4 p[VEC_WARPS][32 * VEC_MAX_HEADS / 4];        /* exponentials [32][heads] */
    rf_u4 fresh[2][VEC_DIM / 8];                       /* the row's own key and value */
    rf_walk_blocks blocks;
    uint32_t
        own_pos; /* of the row's own key, where the walk comes by it and it is not in the pool */
} vec_shared;

/* What a thread works on: its warp's KV block of a segment, then its columns of a head. */
typedef struct vec_work {
    rf_walk at;
    rf_walk_block now;
    uint32_t own; /* the row's own key of the block, or 32 */
    rf_u2 v[32];  /* its values, four columns each */
} vec_work;

RF_DEVICE float half_of(uint32_t word, uint32_t i, uint32_t type) {
    const uint16_t h = (uint16_t)(word >> 16 * i);
    return type == RF_DT_F16 ? rf_f16_at(h) : rf_float_of((uint32_t)h << 16);
}

/* A stretch of columns of the warp's keys on its way. */
RF_DEVICE void vec_fetch_keys(vec_shared *sh, const rf_gpu_attend_args *a, const vec_work *w,
                              const rf_walk_block *p, uint32_t stretch) {
    rf_keys_fetch(sh->k[w->at.warp][stretch % VEC_SLOTS], a, &w->at, p, stretch, a->head_dim);
}

/* The row's own key in its place. */
RF_DEVICE void vec_renew_key(vec_shared *sh, const rf_gpu_attend_args *a, const vec_work *w,
                             uint32_t stretch) {
    if (w->own == 32) return;
    rf_keys_renew(sh->k[w->at.warp][stretch % VEC_SLOTS], sh->fresh[0], &w->at, w->own, stretch,
                  a->head_dim);
}

RF_DEVICE void vec_load_values(const rf_gpu_attend_args *a, vec_work *w) {
    const rf_u2 *from =
        (const rf_u2 *)a->v + rf_walk_row(&w->at, a, &w->now) * (a->value_dim / 4) + w->at.lane;
    if (!w->now.bits || 4 * w->at.lane >= a->value_dim) return;
    RF_UNROLL
    for (uint32_t j = 0; j < 32; j++)
        w->v[j] = rf_load_8(from + j * (a->value_dim / 4));
}

/* This thread's key with all heads, columns of one stretch. */
RF_DEVICE void vec_products(float *s, const vec_shared *sh, const rf_gpu_attend_args *a,
                            const vec_work *w, uint32_t stretch, uint32_t n_heads, uint32_t type) {
    const uint32_t n = rf_keys_pieces(a->head_dim, stretch);
    const rf_u4 *k = sh->k[w->at.warp][stretch % VEC_SLOTS] + w->at.lane * RF_KEYS_PITCH;
    const rf_f4 *q = sh->q + stretch * VEC_STRETCH * n_heads / 4;
    RF_NO_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        const rf_u4 words = k[i];
        rf_f4 part[2 * VEC_MAX_HEADS]; /* on its way together */
        RF_UNROLL
        for (uint32_t e = 0; e < 2 * n_heads; e++)
            part[e] = q[2 * n_heads * i + e];
        RF_UNROLL
        for (uint32_t e = 0; e < 8; e++) {
            const float x = half_of(words.v[e / 2], e % 2, type);
            RF_UNROLL
            for (uint32_t h = 0; h < n_heads; h++) {
                const uint32_t at = e * n_heads + h;
                s[h] = rf_fma(part[at / 4].v[at % 4], x, s[h]);
            }
        }
    }
}

RF_DEVICE void vec_scores(float *s, vec_shared *sh, const rf_gpu_attend_args *a, const vec_work *w,
                          uint32_t n_heads) {
    const uint32_t n_stretches = rf_div_up(a->head_dim, VEC_STRETCH);
    RF_UNROLL
    for (uint32_t h = 0; h < n_heads; h++)
        s[h] = 0.0f;
    RF_NO_UNROLL
    for (uint32_t i = 0; i < n_stretches; i++) {
        if (VEC_SLOTS * VEC_STRETCH < VEC_DIM && i >= VEC_SLOTS) {
            rf_warp_sync();
            vec_fetch_keys(sh, a, w, &w->now, i);
            rf_copy_wait();
            rf_warp_sync();
            vec_renew_key(sh, a, w, i);
            rf_warp_sync();
        }
        if (a->k_type == RF_DT_F16)
            vec_products(s, sh, a, w, i, n_heads, RF_DT_F16);
        else
            vec_products(s, sh, a, w, i, n_heads, RF_DT_BF16);
    }
}

/* From scores to the block's exponentials, maximum and sum. */
RF_DEVICE void vec_soften(float *s, vec_shared *sh, const rf_gpu_attend_args *a, const vec_work *w,
                          uint32_t block, uint32_t n_heads) {
    const int is_visible = w->now.bits >> w->at.lane & 1;
    float m[VEC_MAX_HEADS], l[VEC_MAX_HEADS];
    RF_UNROLL
    for (uint32_t h = 0; h < n_heads; h++) {
        s[h] *= a->scale;
        if (a->softcap > 0) s[h] = a->softcap * rf_tanh32(s[h] / a->softcap);
        if (w->at.span.mask && is_visible) s[h] += w->at.span.mask[32 * block + w->at.lane];
        m[h] = is_visible && s[h] > -__builtin_inff() ? s[h] : -__builtin_inff();
    }
    RF_UNROLL
    for (uint32_t half = 16; half > 0; half /= 2) {
        RF_UNROLL
        for (uint32_t h = 0; h < n_heads; h++) {
            const float other = rf_float_of(rf_lane_xor(rf_bits_of(m[h]), half));
            m[h] = other > m[h] ? other : m[h];
        }
    }
    RF_UNROLL
    for (uint32_t h = 0; h < n_heads; h++) {
        l[h] = is_visible ? rf_exp32(s[h] - m[h]) : -0.0f;
        ((float *)sh->p[w->at.warp])[w->at.lane * n_heads + h] = l[h];
    }
    RF_UNROLL
    for (uint32_t half = 16; half > 0; half /= 2) {
        RF_UNROLL
        for (uint32_t h = 0; h < n_heads; h++)
            l[h] += rf_float_of(rf_lane_xor(rf_bits_of(l[h]), half));
    }
    if (w->at.lane != 0) return;
    RF_UNROLL
    for (uint32_t h = 0; h < n_heads; h++)
        rf_walk_put_block(&sh->blocks, w->at.warp, h, m[h], l[h]);
}

/* The keys onto this thread's columns of all heads. */
RF_DEVICE void vec_add(float acc[VEC_MAX_HEADS][4], const vec_shared *sh, const vec_work *w,
                       uint32_t n_heads, uint32_t type) {
    RF_UNROLL
    for (uint32_t j = 0; j < 32; j += 4) {
        rf_f4 p[VEC_MAX_HEADS];
        RF_UNROLL
        for (uint32_t e = 0; e < n_heads; e++)
            p[e] = sh->p[w->at.warp][j / 4 * n_heads + e];
        RF_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            RF_UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                const float v = half_of(w->v[j + k].v[i / 2], i % 2, type);
                RF_UNROLL
                for (uint32_t h = 0; h < n_heads; h++) {
                    const uint32_t at = k * n_heads + h;
                    acc[h][i] = rf_fma(p[at / 4].v[at % 4], v, acc[h][i]);
                }
            }
        }
    }
}

/* A key that is not visible adds -0 times 0, which leaves every sum as it is. */
RF_DEVICE void vec_values(vec_shared *sh, const rf_gpu_attend_args *a, vec_work *w,
                          uint32_t n_heads) {
    float acc[VEC_MAX_HEADS][4];
    RF_UNROLL
    for (uint32_t i = 0; i < 4 * n_heads; i++)
        acc[i / 4][i % 4] = 0.0f;
    if (4 * w->at.lane >= a->value_dim) return;
    if (w->now.bits != 0xffffffffu) {
        RF_UNROLL
        for (uint32_t j = 0; j < 32; j++) {
            w->v[j].v[0] = w->now.bits >> j & 1 ? w->v[j].v[0] : 0;
            w->v[j].v[1] = w->now.bits >> j & 1 ? w->v[j].v[1] : 0;
        }
    }
    if (a->k_type == RF_DT_F16)
        vec_add(acc, sh, w, n_heads, RF_DT_F16);
    else
        vec_add(acc, sh, w, n_heads, RF_DT_BF16);
    RF_UNROLL
    for (uint32_t h = 0; h < n_heads; h++) {
        const rf_f4 all = {{acc[h][0], acc[h][1], acc[h][2], acc[h][3]}};
        sh->sum[w->at.warp][h * VEC_DIM / 4 + w->at.lane] = all;
    }
}

/* The queries of the block's heads, of which n_here are there. */
RF_DEVICE void vec_queries(vec_shared *sh, const rf_gpu_attend_args *a, uint32_t item,
                           uint32_t n_here, uint32_t n_heads) {
    const uint32_t d = rf_tid() % VEC_DIM;
    if (d >= a->head_dim) return;
    RF_UNROLL
    for (uint32_t i = 0; i < n_heads; i += VEC_THREADS / VEC_DIM) {
        const uint32_t h = i + rf_tid() / VEC_DIM;
        if (h < n_heads)
            ((float *)sh->q)[d * n_heads + h] =
                a->q[(uint64_t)(item + rf_min_u32(h, n_here - 1)) * a->head_dim + d];
    }
}

/* Queries, and where the walk comes by them the row's own key and value, as the argument's heads say; waits
 * for the kernel in front.  The block of the first query heads puts them into the pools, too. */
RF_DEVICE void vec_make_heads(vec_shared *sh, const rf_gpu_attend_args *a, const rf_walk *w,
                              uint32_t n_heads, int has_own) {
    rf_own_head t = rf_own_head_of(a, w, n_heads, has_own, w->warp);
    rf_await_before();
    if (rf_warp_may_skip() && !t.is_here) return;
    float *x = (float *)(void *)sh->p[w->warp];
    rf_own_make(x, &t);
    if (!t.is_here) return;
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t k = w->lane + 32 * i;
        if (k >= t.h.head_dim) continue;
        if (t.is_query) {
            ((float *)sh->q)[k * n_heads + w->warp] = x[k];
            continue;
        }
        rf_kv_put(sh->fresh[t.is_value], t.h.pool_type, k, x[k]);
        if (w->in_group == 0) rf_kv_put(t.pool, t.h.pool_type, k, x[k]);
    }
}

/* In place of what a warp without visible keys has not made. */
RF_DEVICE void vec_leave_out(vec_shared *sh, const vec_work *w) {
    const rf_f4 zero = {{0.0f, 0.0f, 0.0f, 0.0f}};
    RF_UNROLL
    for (uint32_t h = 0; h < VEC_MAX_HEADS; h++)
        sh->sum[w->at.warp][h * VEC_DIM / 4 + w->at.lane] = zero;
    rf_walk_leave_out(&sh->blocks, w->at.lane, w->at.warp);
}

/* The row's own key and value in their places. */
RF_DEVICE void vec_renew(vec_shared *sh, const rf_gpu_attend_args *a, vec_work *w) {
    RF_UNROLL
    for (uint32_t i = 0; i < VEC_SLOTS; i++)
        if (i * VEC_STRETCH < a->head_dim) vec_renew_key(sh, a, w, i);
    if (w->own == 32) return;
    const rf_u2 v = ((const rf_u2 *)(const void *)sh->fresh[1])[w->at.lane];
    RF_UNROLL
    for (uint32_t j = 0; j < 32; j++) {
        w->v[j].v[0] = j == w->own ? v.v[0] : w->v[j].v[0];
        w->v[j].v[1] = j == w->own ? v.v[1] : w->v[j].v[1];
    }
}

/* As much of a block's keys on its way as there are slots. */
RF_DEVICE void vec_fetch_first_keys(vec_shared *sh, const rf_gpu_attend_args *a, const vec_work *w,
                                    const rf_walk_block *p) {
    RF_UNROLL
    for (uint32_t i = 0; i < VEC_SLOTS; i++)
        if (i * VEC_STRETCH < a->head_dim) vec_fetch_keys(sh, a, w, p, i);
}

/* One warp's part of a segment; turns to the next segment. */
RF_DEVICE void vec_block(vec_shared *sh, const rf_gpu_attend_args *a, vec_work *w, uint32_t segment,
                         uint32_t next, uint32_t n_heads) {
    const uint32_t block = segment * RF_GPU_SEGMENT_BLOCKS + w->at.warp;
    const int is_made = !rf_warp_may_skip() || w->now.bits;
    const rf_walk_block then = rf_walk_block_of(&w->at, next);
    float s[VEC_MAX_HEADS];
    if (w->at.lane == 0) sh->blocks.bits[w->at.warp] = w->now.bits;
    w->own = block == sh->own_pos / 32 ? sh->own_pos % 32 : 32;
    if (is_made) {
        rf_copy_wait();
        rf_warp_sync();
        vec_renew(sh, a, w);
        rf_warp_sync();
        vec_scores(s, sh, a, w, n_heads);
        rf_warp_sync();
    }
    vec_fetch_first_keys(sh, a, w, &then);
    if (is_made) {
        vec_soften(s, sh, a, w, block, n_heads);
        rf_warp_sync();
        vec_values(sh, a, w, n_heads);
    }
    if (!w->now.bits) vec_leave_out(sh, w);
    w->now = then;
    vec_load_values(a, w);
}

RF_DEVICE void vec_attend(vec_shared *sh, const rf_gpu_attend_args *a, uint32_t n_heads) {
    vec_work w;
    w.at = rf_walk_of(a, n_heads);
    const rf_walk *at = &w.at;
    const rf_walk_columns c = rf_walk_columns_of(a, at, n_heads, VEC_DIM, RF_WALK_THREADS);
    uint32_t segment = at->segment;
    const uint32_t own_pos = rf_own_pos(a, at);
    if (rf_tid() == 0) sh->own_pos = own_pos;
    w.now = rf_walk_block_of(at, segment);
    if (!rf_walk_is_old(a, at, at->warp)) rf_await_before();
    vec_fetch_first_keys(sh, a, &w, &w.now);
    vec_load_values(a, &w);
    if (a->heads.n_parts > 0) vec_make_heads(sh, a, at, n_heads, own_pos != RF_NO_OWN);
    rf_await_before();
    if (a->heads.n_parts != 3)
        vec_queries(sh, a, at->item, a->n_heads / a->n_kv_heads - at->in_group, n_heads);
    const float *part = (const float *)sh->sum[0] + c.h * VEC_DIM + c.col;
    rf_walk_sum total;
    rf_walk_start(&total, a, at->item % a->n_heads + (c.is_here ? c.h : 0));
    rf_sync();
    for (; segment < at->n_segments; segment += a->n_walks) {
        vec_block(sh, a, &w, segment, segment + a->n_walks, n_heads);
        rf_sync();
        rf_walk_end_segment(&total, &sh->blocks, a, at, &c, part, VEC_MAX_HEADS * VEC_DIM, segment,
                            c.col);
        rf_sync();
    }
    if (a->n_splits == 1 && c.is_here) rf_walk_put(a, &total, at->item + c.h, c.col, c.n);
}

#if defined(RF_NVIDIA)
#define VEC_SHARED vec_shared *sh = (vec_shared *)(void *)rf_dynamic_shared
#else
#define VEC_SHARED                  \
    RF_SHARED vec_shared in_shared; \
    vec_shared *sh = &in_shared
#endif

RF_KERNEL_EARLY(attend_vec_1, rf_gpu_attend_args, 2) {
    VEC_SHARED;
    vec_attend(sh, &a, 1);
}

RF_KERNEL_EARLY(attend_vec_4, rf_gpu_attend_args, 2) {
    VEC_SHARED;
    vec_attend(sh, &a, 4);
}
