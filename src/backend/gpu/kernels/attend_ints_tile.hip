/* attend_ints_tile.hip - attention of many rows of a sequence over keys and values in Q8_0, as
 * docs/arithmetic.md has it, on the matrix units of NVIDIA's GPUs (prompt.h).
 *
 * An instruction multiplies the bytes of sixteen items with those of eight keys or columns, 32 at a
 * time; thread 4g + t gets results 2t and 2t + 1 of items g and g + 8 and brings bytes number 4t ..
 * and 16 + 4t .. of the 32.  Their order is free, as long as both sides have the same, and so is that
 * of the eight: a thread gets those scores whose weights it then brings, and four neighbouring columns
 * of two results.
 *
 * Blocks come as they lie into one of two slots and are then laid out for the instructions, once
 * for all warps, while the block before is multiplied. */
#include "backend/gpu/kernels/ints.h"
#include "backend/gpu/kernels/prompt.h"

#if !defined(RF_AMD)
enum {
    PROMPT_THREADS = RF_BLOCK_attend_ints_tile,
    PROMPT_WARPS = PROMPT_THREADS / 32,
    PROMPT_ITEMS = 16 * PROMPT_WARPS,
    PROMPT_GROUPS = RF_INTS_TILE_GROUPS,
};

/* A KV block for the instructions: of each thread of a warp the bytes that it brings, for two
 * times eight keys or columns; of thread t of four its keys' scales and what exponentials are
 * multiplied with, and the unit of their sums, if all keys are visible. */
typedef struct prompt_block {
    rf_u4 k[PROMPT_GROUPS][2][32], v[PROMPT_GROUPS][2][32];
    float k_scale[PROMPT_GROUPS][4][8], v_scale[PROMPT_GROUPS][4][8], t[PROMPT_GROUPS][4][8];
    float unit[PROMPT_GROUPS];
} prompt_block;

typedef struct prompt_shared {
    /* rows of keys, then of values */
    uint8_t raw[2][64 * PROMPT_GROUPS * RF_KV_Q8_BYTES + RF_INTS_TILE_BEHIND];
    prompt_block ready[2];
    rf_u4 q[PROMPT_WARPS][PROMPT_GROUPS][2][32]; /* upper bytes of queries, lower ones */
    /* Where a warp's items do not see all of a block: visible keys, and instead of the block's what
     * scales of a group are multiplied with and the unit. */
    uint32_t bits[PROMPT_WARPS][16];
    rf_f2 factors[PROMPT_WARPS][PROMPT_GROUPS][16];
    prompt_item item[PROMPT_WARPS][16];
    prompt_ml segment[PROMPT_WARPS][16]; /* of each item */
} prompt_shared;
#if !defined(RF_NVIDIA)
_Static_assert(sizeof(prompt_shared) == RF_INTS_TILE_SHARED, "as much as the host asks for");
_Static_assert((int)PROMPT_ITEMS == (int)RF_INTS_TILE_ITEMS, "sixteen items of a warp");
#endif

/* Instructions -----------------------------------------------------------------------------------*/

#if defined(RF_NVIDIA)
/* c = x y; the items' bytes are signed, or not. */
#define PROMPT_MULTIPLY(kind)                                                                  \
    asm("mma.sync.aligned.m16n8k32.row.col.s32." kind ".s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, " \
        "{%8,%9}, {%10,%10,%10,%10};"                                                          \
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])                                       \
        : "r"(x->v[0]), "r"(x->v[1]), "r"(x->v[2]), "r"(x->v[3]), "r"(y0), "r"(y1), "r"(0))
RF_DEVICE void prompt_multiply(int32_t c[4], const rf_u4 *x, uint32_t y0, uint32_t y1,
                               int is_signed) {
    if (is_signed)
        PROMPT_MULTIPLY("s8");
    else
        PROMPT_MULTIPLY("u8");
}
#else
RF_DEVICE int32_t prompt_product(uint32_t x, uint32_t y, int is_signed) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < 32; i += 8) {
        const uint8_t byte = (uint8_t)(x >> i);
        sum += (is_signed ? (int32_t)(int8_t)byte : (int32_t)byte) * (int32_t)(int8_t)(y >> i);
    }
    return sum;
}
RF_DEVICE void prompt_multiply(int32_t c[4], const rf_u4 *x, uint32_t y0, uint32_t y1,
                               int is_signed) {
    static _Thread_local struct {
        rf_u4 x;
        uint32_t y[2];
    } of[PROMPT_THREADS];
    const uint32_t tid = rf_tid(), warp = tid / 32 * 32, g = tid % 32 / 4, t = tid % 4;
    of[tid].x = *x;
    of[tid].y[0] = y0;
    of[tid].y[1] = y1;
    rf_sync();
    for (uint32_t i = 0; i < 4; i++) {
        c[i] = 0;
        for (uint32_t k = 0; k < 8; k++)
            c[i] += prompt_product(of[warp + 4 * g + k % 4].x.v[i / 2 + k / 4 * 2],
                                   of[warp + 4 * (2 * t + i % 2) + k % 4].y[k / 4], is_signed);
    }
    rf_sync();
}
#endif

/* Of four words the second bytes as one word, and the first ones. */
RF_DEVICE void prompt_split(uint32_t *upper, uint32_t *lower, const uint32_t w[4]) {
    const uint32_t a = rf_four_bytes(w[0], w[1], 0x5140), b = rf_four_bytes(w[2], w[3], 0x5140);
    *lower = rf_four_bytes(a, b, 0x5410);
    *upper = rf_four_bytes(a, b, 0x7632);
}
RF_DEVICE float prompt_joined(int32_t upper, int32_t lower) { return (float)(256 * upper + lower); }

/* Blocks of the cache ----------------------------------------------------------------------------*/

/* Block number b on its way into its slot. */
RF_DEVICE void prompt_fetch(prompt_shared *sh, const rf_gpu_attend_args *a, const rf_rows_walk *w,
                            uint32_t b, uint32_t groups) {
    const uint32_t pieces = 32 * groups * RF_KV_Q8_BYTES / 16, tid = prompt_anew(rf_tid());
    if (b < w->end) {
        const uint64_t first = ((uint64_t)w->table[b] * a->n_kv_heads + rf_bid_x()) * pieces;
        const rf_u4 *k = (const rf_u4 *)a->k + first, *v = (const rf_u4 *)a->v + first;
        rf_u4 *to = (rf_u4 *)(void *)sh->raw[b % 2];
        for (uint32_t i = tid; i < pieces; i += PROMPT_THREADS) {
            rf_copy_16(to + i, k + i);
            rf_copy_16(to + pieces + i, v + i);
        }
    }
    rf_copy_end();
}

/* The word that is at an even place. */
RF_DEVICE uint32_t prompt_word(const uint8_t *raw, uint32_t place) {
    const uint32_t *w = (const uint32_t *)(const void *)raw + place / 4;
    return rf_four_bytes(w[0], w[1], place % 4 ? 0x5432 : 0x3210);
}

/* Keys: threads bring eight neighbouring bytes of one. */
RF_DEVICE void prompt_make_keys(prompt_block *out, const uint8_t *raw, uint32_t tid,
                                uint32_t groups) {
    const uint32_t bytes = groups * RF_KV_Q8_BYTES;
    RF_UNROLL
    for (uint32_t i = 0; i < 64 * groups; i += PROMPT_THREADS) {
        const uint32_t n = i + tid, lane = n % 32, half = n / 32 % 2, group = n / 64;
        const uint32_t key = 16 * half + lane / 8 + lane / 4 % 2 * 4;
        const uint32_t place = key * bytes + group * RF_KV_Q8_BYTES + 2 + 8 * (lane % 4);
        rf_u4 x;
        RF_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            x.v[k] = prompt_word(raw, place + k / 2 * 8 * bytes + k % 2 * 4);
        if (n < 64 * groups) out->k[group][half][lane] = x;
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 32 * groups; i += PROMPT_THREADS) {
        const uint32_t n = i + tid, key = n % 32, group = n / 32;
        if (n < 32 * groups)
            out->k_scale[group][key % 4][key / 4] =
                rf_ints_scale(raw + key * bytes + group * RF_KV_Q8_BYTES);
    }
}

/* Values: of four columns and the eight keys of a thread that is number t of four, turned by four
 * times four. */
RF_DEVICE void prompt_make_values(prompt_block *out, const uint8_t *raw, uint32_t tid,
                                  uint32_t groups) {
    const uint32_t bytes = groups * RF_KV_Q8_BYTES;
    RF_UNROLL
    for (uint32_t i = 0; i < 32 * groups; i += PROMPT_THREADS) {
        const uint32_t n = i + tid, t = n % 4, four = n / 4 % 8, group = n / 32;
        const uint32_t place = t * bytes + group * RF_KV_Q8_BYTES + 2 + 4 * four;
        if (n >= 32 * groups) break;
        uint32_t col[4][2];
        RF_UNROLL
        for (uint32_t u = 0; u < 2; u++) {
            uint32_t x[4];
            RF_UNROLL
            for (uint32_t k = 0; k < 4; k++)
                x[k] = prompt_word(raw, place + (16 * u + 4 * k) * bytes);
            const uint32_t y[4] = {
                rf_four_bytes(x[0], x[1], 0x5140), rf_four_bytes(x[2], x[3], 0x5140),
                rf_four_bytes(x[0], x[1], 0x7362), rf_four_bytes(x[2], x[3], 0x7362)};
            RF_UNROLL
            for (uint32_t c = 0; c < 4; c++)
                col[c][u] = rf_four_bytes(y[c / 2 * 2], y[c / 2 * 2 + 1], c % 2 ? 0x7632 : 0x5410);
        }
        RF_UNROLL
        for (uint32_t c = 0; c < 2; c++) {
            const rf_u4 x = {{col[c][0], col[c][1], col[c + 2][0], col[c + 2][1]}};
            out->v[group][four / 4][8 * (four % 4) + 4 * c + t] = x;
        }
    }
}

/* The values' scales, a group by each warp; all threads call. */
RF_DEVICE void prompt_make_scales(prompt_block *out, const uint8_t *raw, uint32_t tid,
                                  uint32_t groups) {
    const uint32_t key = tid % 32;
    RF_UNROLL
    for (uint32_t i = 0; i < groups; i += PROMPT_WARPS) {
        const uint32_t warp = i + tid / 32, group = rf_min_u32(warp, groups - 1);
        const float scale =
            rf_ints_scale(raw + (key * groups + group) * (uint32_t)RF_KV_Q8_BYTES);
        const uint32_t most = rf_warp_most(rf_size_of(scale));
        if (warp >= groups) continue;
        out->v_scale[group][key % 4][key / 4] = scale;
        out->t[group][key % 4][key / 4] = scale * rf_weight_inverse(most);
        if (key == 0) out->unit[group] = rf_weight_unit(most);
    }
}

RF_DEVICE void prompt_make(prompt_shared *sh, uint32_t b, uint32_t groups) {
    const uint8_t *k = sh->raw[b % 2], *v = k + 32 * groups * RF_KV_Q8_BYTES;
    prompt_block *out = &sh->ready[b % 2];
    const uint32_t tid = prompt_anew(rf_tid());
    prompt_make_scales(out, v, tid, groups);
    prompt_make_keys(out, k, tid, groups);
    prompt_make_values(out, v, tid, groups);
}

/* What is of a thread's eight keys. */
RF_DEVICE void prompt_of_keys(float out[8], const float *from) {
    const rf_f4 *x = (const rf_f4 *)(const void *)from;
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const rf_f4 four = x[i];
        RF_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            out[4 * i + k] = four.v[k];
    }
}

/* Scores and weights -----------------------------------------------------------------------------*/

RF_DEVICE void prompt_scores(float s[2][8], const prompt_shared *sh, const prompt_block *in,
                             const prompt_place *at, uint32_t groups) {
    RF_UNROLL
    for (uint32_t i = 0; i < 16; i++)
        s[i / 8][i % 8] = 0.0f;
    RF_UNROLL
    for (uint32_t group = 0; group < groups; group++) {
        const rf_u4 *q = &sh->q[at->warp][group][0][at->lane];
        const rf_u4 high = q[0], low = q[32];
        float scale[8];
        prompt_of_keys(scale, in->k_scale[group][at->t]);
        RF_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            const rf_u4 k = in->k[group][half][at->lane];
            RF_UNROLL
            for (uint32_t n = 0; n < 2; n++) {
                int32_t upper[4], lower[4];
                prompt_multiply(upper, &high, k.v[2 * n], k.v[2 * n + 1], 1);
                prompt_multiply(lower, &low, k.v[2 * n], k.v[2 * n + 1], 0);
                RF_UNROLL
                for (uint32_t i = 0; i < 4; i++) {
                    const uint32_t key = 4 * half + 2 * n + i % 2;
                    s[i / 2][key] = rf_fma(prompt_joined(upper[i], lower[i]), scale[key],
                                           s[i / 2][key]);
                }
            }
        }
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 16; i++)
        s[i / 8][i % 8] *= sh->item[at->warp][at->lane / 4 + i / 8 * 8].unit;
}

/* What stands for the block's own factors where items do not see all of it. */
RF_DEVICE void prompt_factors(prompt_shared *sh, const prompt_block *in, const prompt_part *part,
                              const prompt_place *at, uint32_t groups) {
    uint32_t *bits_of = sh->bits[at->warp];
    rf_warp_sync();
    if (at->t == 0) {
        bits_of[at->lane / 4] = part->bits[0];
        bits_of[at->lane / 4 + 8] = part->bits[1];
    }
    rf_warp_sync();
    RF_NO_UNROLL
    for (uint32_t i = at->lane; i < 16 * groups; i += 32) {
        const uint32_t bits = bits_of[i % 16];
        uint32_t most = 0;
        RF_NO_UNROLL
        for (uint32_t key = 0; key < 32; key++)
            if (bits >> key & 1)
                most = rf_max_u32(most, rf_size_of(in->v_scale[i / 16][key % 4][key / 4]));
        const rf_f2 out = {{rf_weight_inverse(most), rf_weight_unit(most)}};
        sh->factors[at->warp][i / 16][i % 16] = out;
    }
    rf_warp_sync();
}

/* A factor of what is not seen may be anything; 0 times this is 0. */
RF_DEVICE float prompt_tame(float t) { return prompt_max(prompt_min(t, 32768.0f), -32768.0f); }

/* The bytes of an item's weights of a group, and what their sums are multiples of. */
RF_DEVICE float prompt_weights(rf_u4 *high, rf_u4 *low, const prompt_shared *sh,
                               const prompt_block *in, const prompt_part *part,
                               const prompt_place *at, uint32_t group, uint32_t r, int is_whole) {
    const rf_f2 factors = sh->factors[at->warp][group][at->lane / 4 + 8 * r];
    float t[8];
    prompt_of_keys(t, is_whole ? in->t[group][at->t] : in->v_scale[group][at->t]);
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t w[4];
        RF_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            const float x = t[4 * i + k];
            w[k] = rf_weight_word(part->p[r][4 * i + k],
                                  is_whole ? x : prompt_tame(x * factors.v[0]));
        }
        prompt_split(&high->v[r + 2 * i], &low->v[r + 2 * i], w);
    }
    return is_whole ? in->unit[group] : factors.v[1];
}

/* The block's weighted values onto the segment's. */
RF_DEVICE void prompt_weigh(prompt_sum *sum, const prompt_shared *sh, const prompt_block *in,
                            const prompt_part *part, const prompt_place *at, uint32_t groups,
                            int is_whole) {
    RF_UNROLL
    for (uint32_t group = 0; group < groups; group++) {
        rf_u4 high, low;
        float unit[2];
        if (!is_whole) rf_warp_sync(); /* loads do not pass it: fewer registers */
        RF_UNROLL
        for (uint32_t r = 0; r < 2; r++)
            unit[r] = prompt_weights(&high, &low, sh, in, part, at, group, r, is_whole);
        RF_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            const rf_u4 v = in->v[group][half][at->lane];
            if (!is_whole && half == 1) rf_warp_sync();
            RF_UNROLL
            for (uint32_t n = 0; n < 2; n++) {
                float *acc = sum->acc[2 * group + half][n];
                int32_t upper[4], lower[4];
                prompt_multiply(upper, &high, v.v[2 * n], v.v[2 * n + 1], 1);
                prompt_multiply(lower, &low, v.v[2 * n], v.v[2 * n + 1], 0);
                RF_UNROLL
                for (uint32_t i = 0; i < 4; i++)
                    acc[i] = rf_fma(prompt_joined(upper[i], lower[i]) * unit[i / 2],
                                    part->c_part[i / 2], acc[i] * part->c_total[i / 2]);
            }
        }
    }
}

/* The walk ---------------------------------------------------------------------------------------*/

/* Block number b onto the segment. */
RF_DEVICE void prompt_add(prompt_shared *sh, const rf_gpu_attend_args *a, const rf_rows_walk *w,
                          prompt_sum *sum, uint32_t b, uint32_t groups) {
    const prompt_block *in = &sh->ready[b % 2];
    const prompt_place place = prompt_place_now(), *at = &place;
    prompt_part part;
    part.bits[0] = part.bits[1] = ~0u;
    part.is_whole = 1;
    const int is_inside = 32 * b >= w->lo && 32 * (b + 1) <= w->hi;
    if (!is_inside && !prompt_bits(&part, sh->item[0], a, at, w, b)) return;
    prompt_scores(part.p, sh, in, at, groups);
    prompt_soften(&part, sh->segment[0], a, at);
    if (part.is_whole) {
        prompt_weigh(sum, sh, in, &part, at, groups, 1);
    } else {
        prompt_factors(sh, in, &part, at, groups);
        prompt_weigh(sum, sh, in, &part, at, groups, 0);
    }
}

/* The total divided by its sum. */
RF_DEVICE void prompt_end(const prompt_shared *sh, const rf_gpu_attend_args *a,
                          const prompt_sum *t, uint32_t groups) {
    const prompt_place at = prompt_place_now();
    rf_warp_sync(); /* each thread of an item has left its total */
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        const prompt_item item = sh->item[at.warp][at.lane / 4 + 8 * r];
        rf_f4 *to = (rf_f4 *)(void *)a->dst + item.to + at.t;
        if (item.to == ~0u) continue;
        RF_NO_UNROLL
        for (uint32_t i = 0; i < 2 * groups; i++) {
            rf_f4 x = {{0, 0, 0, 0}};
            if (t->is_begun) x = to[4 * i];
            RF_UNROLL
            for (uint32_t d = 0; d < 4; d++)
                x.v[d] = item.total.l == 0.0f ? 0.0f : x.v[d] / item.total.l;
            to[4 * i] = x;
        }
    }
}

/* The segment of the thread's items onto the total. */
RF_DEVICE void prompt_end_segment(prompt_shared *sh, const rf_gpu_attend_args *a, prompt_sum *t,
                                  uint32_t groups) {
    const prompt_place at = prompt_place_now();
    rf_warp_sync();
    const prompt_ml segment[2] = {sh->segment[at.warp][at.lane / 4],
                                  sh->segment[at.warp][at.lane / 4 + 8]};
    prompt_total(sh->item[0], segment, a, t, 2 * groups);
}

/* The sequence's blocks, for the items that are its. */
RF_DEVICE void prompt_all_of(prompt_shared *sh, const rf_gpu_attend_args *a,
                             const rf_rows_walk *w, prompt_sum *t, uint32_t groups) {
    rf_sync(); /* the slots have been read */
    prompt_fetch(sh, a, w, w->first, groups);
    prompt_fetch(sh, a, w, w->first + 1, groups);
    rf_copy_wait_but(1);
    rf_sync();
    prompt_make(sh, w->first, groups);
    RF_NO_UNROLL
    for (uint32_t b = w->first; b < w->end;) { /* a segment at a time */
        const uint32_t next = b - b % RF_GPU_SEGMENT_BLOCKS + RF_GPU_SEGMENT_BLOCKS;
        prompt_start(sh->segment[0], t);
        RF_NO_UNROLL
        for (; b < rf_min_u32(next, w->end); b++) {
            rf_copy_wait();
            rf_sync();
            prompt_fetch(sh, a, w, b + 2, groups);
            if (b + 1 < w->end) prompt_make(sh, b + 1, groups);
            prompt_add(sh, a, w, t, b, groups);
        }
        prompt_end_segment(sh, a, t, groups);
    }
}

/* The thread's part of its item r's query, as integers; what they are multiples of. */
RF_DEVICE float prompt_query(rf_u4 (*to)[2][32], const rf_f4 *q, uint32_t lane, uint32_t r,
                             uint32_t groups) {
    rf_f4 x[2 * PROMPT_GROUPS];
    uint32_t most = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * groups; i++) {
        x[i] = q[i / 2 * 8 + i % 2];
        RF_UNROLL
        for (uint32_t d = 0; d < 4; d++)
            most = rf_max_u32(most, rf_size_of(x[i].v[d]));
    }
    rf_lanes_most(&most, 1, 4);
    const float inverse = rf_query_inverse(most);
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * groups; i++) {
        rf_u4 *of = &to[i / 2][0][lane];
        uint32_t w[4];
        RF_UNROLL
        for (uint32_t d = 0; d < 4; d++)
            w[d] = (uint32_t)rf_query_int(x[i].v[d], inverse);
        prompt_split(&of[0].v[r + i % 2 * 2], &of[32].v[r + i % 2 * 2], w);
    }
    return rf_query_scale(most);
}

/* The thread's two items with their queries. */
RF_DEVICE void prompt_begin(prompt_shared *sh, const rf_gpu_attend_args *a, const prompt_items *of,
                            uint32_t groups) {
    const prompt_place at = prompt_place_now();
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        const uint32_t query = prompt_take(sh->item[0], a, of, &at, r);
        const rf_f4 *q = (const rf_f4 *)(const void *)a->q + query * (uint64_t)(8 * groups);
        sh->item[at.warp][at.lane / 4 + 8 * r].unit =
            prompt_query(sh->q[at.warp], q + 2 * at.t, at.lane, r, groups) * a->scale;
    }
}

RF_DEVICE void prompt_run(prompt_shared *sh, const rf_gpu_attend_args *a, uint32_t groups) {
    const prompt_items of = prompt_items_of(a, PROMPT_ITEMS);
    const uint32_t first = of.first / of.per_kv;
    const uint32_t last = (rf_min_u32(of.first + PROMPT_ITEMS, of.n) - 1) / of.per_kv;
    prompt_begin(sh, a, &of, groups);
    prompt_sum t;
    t.is_begun = 0;
    for (uint32_t r = first; r <= last;) { /* a sequence's rows at a time */
        const rf_rows_walk w = prompt_walk_of(a, first, last, &r);
        if (w.first < w.end) prompt_all_of(sh, a, &w, &t, groups);
    }
    prompt_end(sh, a, &t, groups);
}

/* Blocks side by side, as far as shared memory has room for them. */
#if defined(RF_NVIDIA) && __CUDA_ARCH__ == 900
enum { PROMPT_AT_ONCE = 3 };
#else
enum { PROMPT_AT_ONCE = 2 };
#endif
RF_KERNEL_EARLY(attend_ints_tile, rf_gpu_attend_args, PROMPT_AT_ONCE) {
    prompt_shared *sh = (prompt_shared *)(void *)rf_dynamic_shared;
    rf_await_before();
    if (a.head_dim > 64)
        prompt_run(sh, &a, 4);
    else
        prompt_run(sh, &a, 2);
}
#endif
