/* prompt.h - what the attention kernels of many rows on NVIDIA's matrix units share (attend_ints_tile.hip, and by
 * segment.h those over sixteen bits); a block of threads per KV head and neighbouring items: an item is a query head of a
 * row, the heads of the KV head first.
 *
 * A warp has sixteen items and walks over KV blocks.  Thread 4g + t of it has scores of items g and g + 8
 * with keys t, t + 4, .. t + 28, since the order of keys in an instruction is free.  Weighted values of a
 * segment stay in registers; the total lies where the result will be, or (segment.h) in shared memory.
 *
 * Items and how they are folded, which hang on no order of threads, are AMD's, too
 * (attend_halves_wave_tile.hip, attend_ints_wave.hip). */
#pragma once
#include "backend/gpu/kernels/rows.h"
#include "backend/gpu/tile.h"

/* An item's maximum and sum, of a segment or of the total. */
typedef struct prompt_ml {
    float m, l;
} prompt_ml;

/* An item: its row, where its result is, in fours of floats, ~0: nowhere, what its scores are
 * multiplied with, and its total. */
typedef struct prompt_item {
    uint32_t row, to;
    float unit;
    prompt_ml total;
} prompt_item;

/* The items of one KV head, and the block's first one of them. */
typedef struct prompt_items {
    uint32_t kv_head, per_kv, n, first;
} prompt_items;

/* The items of a block, of which it has so many. */
RF_DEVICE prompt_items prompt_items_of(const rf_gpu_attend_args *a, uint32_t n_items) {
    const uint32_t per_kv = a->n_heads / a->n_kv_heads, n = a->n_rows * per_kv;
    const uint32_t first = rf_rows_stretch(a, rf_div_up(n, n_items)) * n_items;
    const prompt_items of = {rf_bid_x(), per_kv, n, first};
    return of;
}

/* A part of maximum m and sum l, 0 when no key of it is visible, onto what there is; the factors
 * by which part * c_part + total * c_total is what docs/arithmetic.md says of the weighted values,
 * bit by bit, without a choice for each of them.  A total to which nothing has been added is -0,
 * which is not seen in a sum; nor is a part to which no key was added, times nothing.  Of a part
 * whose maximum is -inf only l, not a number, is added: the result is none either, unless what
 * comes later takes the place of it.  One of the exponentials is that of a number less itself: 1,
 * or not a number. */
RF_DEVICE void prompt_fold(prompt_ml *onto, prompt_ml part, float nothing, float *c_total,
                           float *c_part) {
    const prompt_ml total = *onto;
    const int is_first = total.m == -__builtin_inff(), is_above = part.m > total.m;
    const int is_seen = part.l != 0.0f, is_added = is_seen && part.m != -__builtin_inff();
    const float most = is_first || is_above ? part.m : total.m;
    const float less = rf_exp32_down(is_above ? total.m - part.m : part.m - total.m),
                same = 1.0f + (most - most);
    const float of_total = is_above ? less : same, of_part = is_above ? same : less;
    *c_total = is_added && !is_first ? of_total : 1.0f;
    *c_part = !is_added ? nothing : is_first ? 1.0f : of_part;
    rf_warp_sync(); /* all threads of the item have read it */
    if (is_seen) {
        const prompt_ml sum = {most,
                               is_first ? part.l : rf_fma(part.l, of_part, total.l * of_total)};
        *onto = sum;
    }
}

#if !defined(RF_AMD)
enum {
    PROMPT_SIXTEENS = 8,       /* of columns, at most */
    PROMPT_MOST_THREADS = 512, /* of a block */
};

/* A thread's place. */
typedef struct prompt_place {
    uint32_t warp, lane, t;
} prompt_place;

/* A segment's weighted values, by sixteen columns and halves of these. */
typedef struct prompt_sum {
    float acc[PROMPT_SIXTEENS][2][4];
    int is_begun; /* something has been added to the total */
} prompt_sum;

/* Instructions -----------------------------------------------------------------------------------*/

#if defined(RF_NVIDIA)
/* v, which the compiler does not know to be the same in each turn of a loop: else it would keep
 * every address that is made of it in a register of its own. */
RF_DEVICE uint32_t prompt_anew(uint32_t v) {
    asm volatile("" : "+r"(v));
    return v;
}
/* The larger one, the smaller one, or the one that is a number. */
RF_DEVICE float prompt_max(float a, float b) {
    float r;
    asm("max.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
RF_DEVICE float prompt_min(float a, float b) {
    float r;
    asm("min.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
/* Whether all threads of the warp say so. */
RF_DEVICE int prompt_all(int is_so) {
    uint32_t r;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %1, 0;\n"
                 "vote.sync.all.pred p, p, 0xffffffff;\n"
                 "selp.b32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(r)
                 : "r"(is_so));
    return r != 0;
}
#else
RF_DEVICE uint32_t prompt_anew(uint32_t v) { return v; }
RF_DEVICE float prompt_max(float a, float b) { return a > b || b != b ? a : b; }
RF_DEVICE float prompt_min(float a, float b) { return a < b || b != b ? a : b; }
RF_DEVICE int prompt_all(int is_so) { /* of the block: all threads go the same way */
    static _Thread_local int is_not[PROMPT_MOST_THREADS];
    int all = 1;
    is_not[rf_tid()] = !is_so;
    rf_sync();
    for (uint32_t i = 0; i < PROMPT_MOST_THREADS; i++)
        all = all && !is_not[i];
    rf_sync();
    is_not[rf_tid()] = 0; /* for blocks of fewer threads */
    return all;
}
#endif

RF_DEVICE prompt_place prompt_place_now(void) {
    prompt_place at;
    at.warp = prompt_anew(rf_tid() / 32);
    at.lane = prompt_anew(rf_tid() % 32);
    at.t = at.lane % 4;
    return at;
}

/* Scores and weights -----------------------------------------------------------------------------*/

/* Score after score, so that there is little code: they pass by. */
RF_DEVICE void prompt_softcap(float s[2][8], float softcap) {
    RF_NO_UNROLL
    for (uint32_t n = 0; n < 16; n++) {
        const float x = softcap * rf_tanh32(s[0][0] / softcap);
        RF_UNROLL
        for (uint32_t k = 1; k < 16; k++)
            s[(k - 1) / 8][(k - 1) % 8] = s[k / 8][k % 8];
        s[1][7] = x;
    }
}

/* What the thread's items do not see. */
RF_DEVICE void prompt_hide(float s[2][8], const uint32_t bits[2], uint32_t t, float with) {
    RF_UNROLL
    for (uint32_t i = 0; i < 16; i++)
        if (!(bits[i / 8] >> (t + i % 8 * 4) & 1)) s[i / 8][i % 8] = with;
}

/* The largest of an item's scores. */
RF_DEVICE float prompt_most(const float s[8]) {
    float most = -__builtin_inff();
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        most = prompt_max(most, s[i]);
    RF_UNROLL
    for (uint32_t other = 1; other < 4; other *= 2)
        most = prompt_max(most, rf_float_of(rf_lane_xor(rf_bits_of(most), other)));
    return most;
}

/* The sum of an item's exponentials, keys 16 apart first. */
RF_DEVICE float prompt_tree(const float p[8]) {
    float sum[4];
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        sum[i] = p[i] + p[i + 4];
    const float of_four = (sum[0] + sum[2]) + (sum[1] + sum[3]);
    const float of_two = of_four + rf_float_of(rf_lane_xor(rf_bits_of(of_four), 2));
    return of_two + rf_float_of(rf_lane_xor(rf_bits_of(of_two), 1));
}

/* A block's exponentials, and by what it is folded into the segment. */
typedef struct prompt_part {
    float p[2][8], c_total[2], c_part[2];
    uint32_t bits[2]; /* keys that the items see, of one that is whole not valid */
    int is_whole;
} prompt_part;

/* Which of its two items a thread folds maxima and sums of; its neighbour has the other. */
RF_DEVICE uint32_t prompt_own(const prompt_place *at) { return at->t % 2; }
RF_DEVICE prompt_ml *prompt_own_segment(prompt_ml *segments, const prompt_place *at) {
    return &segments[16 * at->warp + at->lane / 4 + 8 * prompt_own(at)];
}

/* A block's maxima and sums of the thread's two items onto the segment's, of which it has its own item's. */
RF_DEVICE void prompt_fold_two(prompt_part *part, prompt_ml *segment, const float most[2],
                               const float sum[2], const prompt_place *at) {
    const uint32_t own = prompt_own(at);
    const prompt_ml ml = {own ? most[1] : most[0], own ? sum[1] : sum[0]};
    float c_total, c_part;
    prompt_fold(segment, ml, -0.0f, &c_total, &c_part);
    const float other_total = rf_float_of(rf_lane_xor(rf_bits_of(c_total), 1)),
                other_part = rf_float_of(rf_lane_xor(rf_bits_of(c_part), 1));
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        part->c_total[r] = own == r ? c_total : other_total;
        part->c_part[r] = own == r ? c_part : other_part;
    }
}

/* The walk ---------------------------------------------------------------------------------------*/

/* Which keys of block b the thread's items see; false: no item of the warp sees any. */
RF_DEVICE int prompt_bits(prompt_part *part, const prompt_item *items, const rf_gpu_attend_args *a,
                          const prompt_place *at, const rf_rows_walk *w, uint32_t b) {
    int is_whole = 1, is_empty = 1;
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        const uint32_t row = items[16 * at->warp + at->lane / 4 + 8 * r].row;
        uint32_t bits = 0;
        if (a->batch.row_seq[row] == w->seq) {
            rf_span span = rf_span_of(a, row);
            span.mask = 0;
            bits = rf_span_bits(&span, b);
        }
        is_whole &= bits == ~0u;
        is_empty &= bits == 0;
        part->bits[r] = bits;
    }
    part->is_whole = prompt_all(is_whole);
    return !(prompt_all(is_empty) && rf_warp_may_skip());
}

/* A block's scores become exponentials, their maxima and sums go onto the segment's; where not all items see
 * all of it or have scores that are numbers, the part is not whole. */
RF_DEVICE void prompt_soften(prompt_part *part, prompt_ml *segments, const rf_gpu_attend_args *a,
                             const prompt_place *at) {
    if (a->softcap > 0) prompt_softcap(part->p, a->softcap);
    if (!part->is_whole) prompt_hide(part->p, part->bits, at->t, -__builtin_inff());
    const float most[2] = {prompt_most(part->p[0]), prompt_most(part->p[1])};
    RF_UNROLL
    for (uint32_t i = 0; i < 16; i++) {
        float *p = &part->p[i / 8][i % 8];
        *p = rf_exp32_down(*p - most[i / 8]);
    }
    if (!part->is_whole) prompt_hide(part->p, part->bits, at->t, 0.0f);
    int is_odd = 0; /* no score is a number: l says so, and values are not added */
    const float sum[2] = {prompt_tree(part->p[0]), prompt_tree(part->p[1])};
    prompt_fold_two(part, prompt_own_segment(segments, at), most, sum, at);
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        if (most[r] != -__builtin_inff()) continue;
        is_odd = 1;
        part->bits[r] = 0;
    }
    if (!prompt_all(!is_odd)) part->is_whole = 0;
}

/* The walk of rows *r .. last that are of one sequence, as rf_rows_walk_of, by a warp's threads together. */
RF_DEVICE rf_rows_walk prompt_walk_of(const rf_gpu_attend_args *a, uint32_t begin, uint32_t last,
                                      uint32_t *r) {
    const uint32_t lane = rf_tid() % 32, from = *r;
    rf_rows_walk w = {0, a->batch.row_seq[from], ~0u, 0, 0, ~0u};
    uint32_t n = 32;
    RF_NO_UNROLL
    while (n == 32 && *r <= last) {
        const uint32_t row = rf_min_u32(*r + lane, last);
        const uint32_t others =
            ~rf_warp_ballot(*r + lane <= last && a->batch.row_seq[row] == w.seq);
        const uint32_t before = (others & (0u - others)) - 1; /* the first other one */
        const int is_in = before >> lane & 1;
        const rf_span span = rf_span_of(a, row);
        w.first = rf_min_u32(w.first, ~rf_warp_most(is_in ? ~rf_span_first(&span) : 0));
        w.hi = rf_min_u32(w.hi, ~rf_warp_most(is_in ? ~(span.mask ? 0 : span.end) : 0));
        const uint32_t end = rf_warp_most(is_in ? rf_div_up(span.end, 32) : 0),
                       lo = rf_warp_most(is_in ? span.begin : 0);
        w.end = end > w.end ? end : w.end;
        w.lo = lo > w.lo ? lo : w.lo;
        n = rf_warp_most(is_in ? lane + 1 : 0);
        *r += n;
    }
    if (from != begin || *r <= last) w.hi = 0; /* items of other sequences */
    w.table = a->batch.table + (uint64_t)w.seq * a->batch.table_stride;
    return w;
}

/* Each thread of an item does. */
RF_DEVICE void prompt_start(prompt_ml *segments, prompt_sum *t) {
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        const prompt_ml none = {-__builtin_inff(), 0.0f};
        segments[16 * (rf_tid() / 32) + rf_tid() % 32 / 4 + 8 * r] = none;
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 8 * PROMPT_SIXTEENS; i++)
        t->acc[i / 8][i / 4 % 2][i % 4] = -0.0f;
    rf_warp_sync();
}

/* Sixty-four columns of an item's segment onto the total, which is there or yet to be begun. */
RF_DEVICE void prompt_fold_columns(rf_u4 *to, float (*acc)[2][4], uint32_t r, float c_total,
                                   float c_part, int is_begun) {
    rf_u4 total[4];
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        RF_UNROLL
        for (uint32_t d = 0; d < 4; d++)
            total[i].v[d] = rf_bits_of(-0.0f);
        if (is_begun) total[i] = rf_rows_load(to + 4 * i);
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        RF_UNROLL
        for (uint32_t d = 0; d < 4; d++)
            total[i].v[d] = rf_bits_of(
                rf_fma(acc[i][d / 2][2 * r + d % 2], c_part, rf_float_of(total[i].v[d]) * c_total));
        to[4 * i] = total[i];
    }
}

/* The segment of the thread's items onto the total, which lies where the result will be: four neighbouring columns of
 * sixteen by each thread. */
RF_DEVICE void prompt_total(prompt_item *items, const prompt_ml segment[2],
                            const rf_gpu_attend_args *a, prompt_sum *t, uint32_t sixteens) {
    const prompt_place at = prompt_place_now();
    rf_warp_sync();
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        prompt_item *item = items + 16 * at.warp + at.lane / 4 + 8 * r;
        const int is_sink = !t->is_begun && item->total.l != 0.0f; /* weighted values are +0 */
        const int is_idle = t->is_begun && segment[r].l == 0.0f;
        rf_u4 *to = (rf_u4 *)a->dst + item->to + at.t;
        float c_total, c_part;
        prompt_fold(&item->total, segment[r], 0.0f, &c_total, &c_part);
        if (item->to == ~0u || is_idle) continue;
        if (is_sink) c_total = -c_total;
        RF_UNROLL
        for (uint32_t i = 0; i < sixteens; i += 4)
            prompt_fold_columns(to + 4 * i, t->acc + i, r, c_total, c_part, t->is_begun);
    }
    t->is_begun = 1;
}

/* An item of the thread, number r of two, but for its unit; the number of its query, of all rows'. */
RF_DEVICE uint32_t prompt_take(prompt_item *items, const rf_gpu_attend_args *a,
                               const prompt_items *of, const prompt_place *at, uint32_t r) {
    const uint32_t here = of->first + 16 * at->warp + at->lane / 4 + 8 * r;
    const uint32_t number = rf_min_u32(here, of->n - 1), row = number / of->per_kv;
    const uint32_t head = of->kv_head * of->per_kv + number % of->per_kv;
    const uint32_t query = row * a->n_heads + head;
    const float m = a->sinks ? a->sinks[head] : -__builtin_inff();
    prompt_item *item = items + 16 * at->warp + at->lane / 4 + 8 * r;
    item->row = row;
    item->to = here < of->n ? query * (a->value_dim / 4) : ~0u;
    item->total.m = m;
    item->total.l = m == -__builtin_inff() ? 0.0f : 1.0f;
    return query;
}
#endif
