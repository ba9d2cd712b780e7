/* attend_halves_wave_tile.hip - attention of many rows of a sequence over keys and values in sixteen bits on
 * AMD's matrix units (attend_wave.h), by half.h's rule: the same bits as attend_halves_wave.hip.  A block of
 * threads per KV head and neighbouring items, as prompt.h has them.
 *
 * A wave has one or two sets of sixteen items, whose queries and weighted values of a segment stay in
 * registers; the total lies where the result will be.  A KV block comes to shared memory once for all waves,
 * by registers, where the next one is on its way meanwhile: rows of keys in the order of the lanes that bring
 * them, and values turned, so that a lane finds its keys of a column together. */
#include "backend/gpu/kernels/attend_wave.h"
#include "backend/gpu/kernels/prompt.h"

#if defined(RF_MATRIX)
enum {
    BULK_DIM = RF_ATTEND_HALVES_DIM,
    BULK_THREADS = RF_BLOCK_attend_halves_tile,
    BULK_WAVES = BULK_THREADS / (int)MATRIX_LANES,
    BULK_SETS = RF_HALVES_TILE_ITEMS / 16 / BULK_WAVES,
    BULK_K_PAD = WAVE_ALIGN, /* behind a row of keys, so that lanes meet all banks */
    BULK_V_PITCH = 72,       /* bytes between two columns of values, likewise */
/* Operands on their way beside those that are multiplied: gfx11 has no registers for them, but waves. */
#if defined(__GFX11__)
    BULK_AHEAD = 0,
#else
    BULK_AHEAD = 1,
#endif
};

typedef struct bulk_shared {
    rf_u4 k[32 * (2 * BULK_DIM + BULK_K_PAD) / 16];
    rf_u2 v[BULK_DIM * BULK_V_PITCH / 8]; /* of column c piece i, four keys, at i ^ c / 16 */
} bulk_shared;

/* A thread's part of the next KV block: columns 8c .. 8c + 7 of four keys, and of the values of four. */
typedef struct bulk_ahead {
    rf_u4 k[4], v[4];
} bulk_ahead;

/* Of each set of a lane's items: its queries and weighted values of a segment, columns
 * MATRIX_OUT * (lane / 16) .. of each sixteen. */
typedef struct bulk_work {
    prompt_item item[BULK_SETS];
    prompt_ml segment[BULK_SETS];
    uint32_t q[BULK_SETS][WAVE_STEPS][WAVE_OWN];
    matrix_floats acc[BULK_SETS][WAVE_STEPS];
    int is_begun; /* something has been added to the total */
} bulk_work;

/* Keys and values --------------------------------------------------------------------------------*/

/* As many threads bring keys as columns are in a head, and as many bring values: all of them both, or half of
 * them either. */
RF_DEVICE int bulk_brings_values(wave_kind kind) { return rf_tid() < kind.dim; }
RF_DEVICE int bulk_brings_keys(wave_kind kind) { return rf_tid() + kind.dim >= BULK_THREADS; }

RF_DEVICE void bulk_fetch(bulk_ahead *next, const rf_gpu_attend_args *a, const rf_rows_walk *w,
                          uint32_t b, wave_kind kind) {
    const uint32_t per_row = kind.dim / 8, turn = wave_anew(rf_tid()) % kind.dim;
    const uint32_t col = turn % per_row, part = turn / per_row;
    if (b >= w->end) return;
    const uint64_t first =
        ((uint64_t)w->table[b] * a->n_kv_heads + rf_bid_x()) * 32 * per_row + col;
    const rf_u4 *k = (const rf_u4 *)a->k + first, *v = (const rf_u4 *)a->v + first;
    RF_UNROLL
    for (uint32_t i = 0; i < 4 && bulk_brings_keys(kind); i++) {
        const uint32_t key = i / 2 * 16 + wave_key(matrix_x_row(part + i % 2 * 8));
        next->k[i] = rf_rows_load(k + key * per_row);
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 4 && bulk_brings_values(kind); i++) {
        const uint32_t key = part / 4 * 16 + wave_key(part % 4 * 4 + i);
        next->v[i] = rf_rows_load(v + key * per_row);
    }
}

RF_DEVICE void bulk_store(bulk_shared *sh, const bulk_ahead *next, wave_kind kind) {
    const uint32_t per_row = kind.dim / 8, turn = wave_anew(rf_tid()) % kind.dim;
    const uint32_t col = turn % per_row, part = turn / per_row;
    uint8_t *k = (uint8_t *)sh->k + part * (2 * kind.dim + BULK_K_PAD) + 16 * col;
    rf_u2 *v = sh->v + 8 * col * (BULK_V_PITCH / 8) + (part ^ col / 2);
    RF_UNROLL
    for (uint32_t i = 0; i < 4 && bulk_brings_keys(kind); i++) {
        uint8_t *to = k + 8 * i * (2 * kind.dim + BULK_K_PAD);
        __builtin_memcpy(__builtin_assume_aligned(to, WAVE_ALIGN), &next->k[i], 16);
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 8 && bulk_brings_values(kind); i++) {
        const uint32_t of[4] = {next->v[0].v[i / 2], next->v[1].v[i / 2], next->v[2].v[i / 2],
                                next->v[3].v[i / 2]};
        const rf_u2 four = {{wave_two_of(of[0], of[1], i % 2), wave_two_of(of[2], of[3], i % 2)}};
        v[i * (BULK_V_PITCH / 8)] = four;
    }
}

/* Are all of the block's values numbers? */
RF_DEVICE int bulk_are_finite(const bulk_shared *sh, wave_kind kind) {
    const uint32_t next = kind.form == RF_GPU_F16 ? 0x04000400u : 0x00800080u;
    uint32_t odd = 0;
    RF_NO_UNROLL
    for (uint32_t i = wave_lane(); i < 8 * kind.dim; i += MATRIX_LANES) {
        const rf_u2 v = sh->v[i / 8 * (BULK_V_PITCH / 8) + i % 8];
        odd |= (v.v[0] & 0x7fff7fffu) + next; /* the uppermost exponent gets to the sign */
        odd |= (v.v[1] & 0x7fff7fffu) + next;
    }
    return wave_all(!(odd & 0x80008000u));
}

/* Scores -----------------------------------------------------------------------------------------*/

/* Sixteen columns of the block's keys, as an instruction takes them. */
RF_DEVICE void bulk_keys(uint32_t keys[2][MATRIX_HALF_WORDS], const bulk_shared *sh, uint32_t step,
                         wave_kind kind) {
    const uint32_t lane = wave_anew(wave_lane()), pitch = 2 * kind.dim + BULK_K_PAD;
    const uint8_t *k = (const uint8_t *)sh->k + lane % 16 * pitch + 8 * matrix_first_word(lane);
    RF_UNROLL
    for (uint32_t h = 0; h < 2; h++)
        wave_read(keys[h], k + 16 * h * pitch + 32 * step, MATRIX_HALF_WORDS);
}

RF_DEVICE void bulk_scores(matrix_floats s[BULK_SETS][2], const bulk_shared *sh,
                           const bulk_work *work, wave_kind kind) {
    const matrix_floats none = 0.0f;
    uint32_t keys[BULK_AHEAD + 1][2][MATRIX_HALF_WORDS];
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * BULK_SETS; i++)
        s[i / 2][i % 2] = none;
    if (BULK_AHEAD) bulk_keys(keys[0], sh, 0, kind);
    RF_UNROLL
    for (uint32_t step = 0; step < kind.dim / 16; step++) {
        const uint32_t ahead = step + BULK_AHEAD;
        if (ahead < kind.dim / 16) bulk_keys(keys[ahead % (BULK_AHEAD + 1)], sh, ahead, kind);
        RF_UNROLL
        for (uint32_t i = 0; i < BULK_SETS; i++) {
            uint32_t q[MATRIX_HALF_WORDS];
            wave_whole(q, work->q[i][step]);
            RF_UNROLL
            for (uint32_t h = 0; h < 2; h++)
                s[i][h] =
                    matrix_multiply_halves(s[i][h], q, keys[step % (BULK_AHEAD + 1)][h], kind.form);
        }
        rf_in_turn();
    }
}

/* Weighted values --------------------------------------------------------------------------------*/

/* What a block's weighted values are made of: of each set the exponentials, the keys that the lane's item
 * sees, and by what the block is folded into the segment. */
typedef struct bulk_weights {
    uint32_t p[BULK_SETS][2][MATRIX_HALF_WORDS], bits[BULK_SETS];
    float c_total[BULK_SETS], c_part[BULK_SETS];
} bulk_weights;

/* Sixteen columns of the block's values, as an instruction takes them. */
RF_DEVICE void bulk_values(uint32_t v[2][MATRIX_HALF_WORDS], const bulk_shared *sh, uint32_t i) {
    const uint32_t lane = wave_anew(wave_lane()), first = matrix_first_word(lane);
    const rf_u2 *from = sh->v + (16 * i + matrix_x_row(lane)) * (BULK_V_PITCH / 8);
    RF_UNROLL
    for (uint32_t k = 0; k < 2 * MATRIX_WORDS; k++) {
        const uint32_t step = k / MATRIX_WORDS, word = k % MATRIX_WORDS;
        const rf_u2 two = from[(4 * step + first + word) ^ i];
        v[step][2 * word] = two.v[0];
        v[step][2 * word + 1] = two.v[1];
    }
}

/* Those words of values of sixteen keys that an item sees. */
RF_DEVICE void bulk_keep(uint32_t to[MATRIX_HALF_WORDS], const uint32_t v[MATRIX_HALF_WORDS],
                         uint32_t bits) {
    const uint32_t own = bits >> wave_key(4 * matrix_first_word(wave_anew(wave_lane())));
    RF_UNROLL
    for (uint32_t k = 0; k < MATRIX_HALF_WORDS; k++) {
        const uint32_t low = own >> wave_key(2 * k) & 1, high = own >> wave_key(2 * k + 1) & 1;
        to[k] = v[k] & ((0u - low) >> 16 | (0u - high) << 16);
    }
}

/* Item after item: what is no number there must not meet the weight 0 of those that do not see it. */
RF_DEVICE void bulk_apart(matrix_floats c[BULK_SETS], const bulk_weights *w,
                          const uint32_t v[2][MATRIX_HALF_WORDS], uint32_t form) {
    RF_NO_UNROLL
    for (uint32_t item = 0; item < 16; item++) {
        const int is_own = item == wave_lane() % 16;
        RF_UNROLL
        for (uint32_t n = 0; n < BULK_SETS; n++) {
            const uint32_t bits = (uint32_t)__builtin_amdgcn_readlane((int)w->bits[n], (int)item);
            matrix_floats own = 0.0f;
            RF_UNROLL
            for (uint32_t step = 0; step < 2; step++) {
                uint32_t kept[MATRIX_HALF_WORDS];
                bulk_keep(kept, v[step], bits >> 16 * step);
                own = matrix_multiply_halves(own, w->p[n][step], kept, form);
            }
            RF_UNROLL
            for (uint32_t e = 0; e < MATRIX_OUT; e++)
                c[n][e] = is_own ? own[e] : c[n][e];
        }
    }
}

/* A block's weighted values onto the segment's; is_apart: not all values are numbers, and not all items see
 * them. */
RF_DEVICE void bulk_weigh(bulk_work *work, const bulk_shared *sh, const bulk_weights *w,
                          int is_apart, wave_kind kind) {
    const matrix_floats none = 0.0f;
    uint32_t v[BULK_AHEAD + 1][2][MATRIX_HALF_WORDS];
    if (BULK_AHEAD) bulk_values(v[0], sh, 0);
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 16; i++) {
        matrix_floats c[BULK_SETS];
        const uint32_t ahead = i + BULK_AHEAD, now = i % (BULK_AHEAD + 1);
        if (ahead < kind.dim / 16) bulk_values(v[ahead % (BULK_AHEAD + 1)], sh, ahead);
        RF_UNROLL
        for (uint32_t n = 0; n < BULK_SETS; n++)
            c[n] = matrix_multiply_halves(
                matrix_multiply_halves(none, w->p[n][0], v[now][0], kind.form), w->p[n][1],
                v[now][1], kind.form);
        if (is_apart) bulk_apart(c, w, v[now], kind.form);
        RF_UNROLL
        for (uint32_t n = 0; n < BULK_SETS; n++) {
            matrix_floats *acc = &work->acc[n][i];
            RF_UNROLL
            for (uint32_t e = 0; e < MATRIX_OUT; e++)
                (*acc)[e] = rf_fma(c[n][e], w->c_part[n], (*acc)[e] * w->c_total[n]);
            wave_make(acc);
        }
        rf_in_turn();
    }
}

/* The walk ---------------------------------------------------------------------------------------*/

/* Which keys of block b the lane's items see; false: no item of the wave sees any. */
RF_DEVICE int bulk_bits(bulk_weights *w, int *is_whole, const bulk_work *work,
                        const rf_gpu_attend_args *a, const rf_rows_walk *walk, uint32_t b) {
    int sees_all = 1, sees_none = 1;
    RF_UNROLL
    for (uint32_t n = 0; n < BULK_SETS; n++) {
        const uint32_t row = work->item[n].row;
        w->bits[n] = 0;
        if (a->batch.row_seq[row] == walk->seq) {
            rf_span span = rf_span_of(a, row);
            span.mask = 0;
            w->bits[n] = rf_span_bits(&span, b);
        }
        sees_all &= w->bits[n] == ~0u;
        sees_none &= w->bits[n] == 0;
    }
    *is_whole = wave_all(sees_all);
    return !wave_all(sees_none);
}

/* Block number b onto the segment. */
RF_DEVICE void bulk_add(const bulk_shared *sh, const rf_gpu_attend_args *a,
                        const rf_rows_walk *walk, bulk_work *work, uint32_t b, wave_kind kind) {
    const int is_inside = 32 * b >= walk->lo && 32 * (b + 1) <= walk->hi;
    matrix_floats s[BULK_SETS][2];
    bulk_weights w;
    int is_whole = 1, is_odd = 0;
    RF_UNROLL
    for (uint32_t n = 0; n < BULK_SETS; n++)
        w.bits[n] = ~0u;
    if (!is_inside && !bulk_bits(&w, &is_whole, work, a, walk, b)) return;
    bulk_scores(s, sh, work, kind);
    RF_UNROLL
    for (uint32_t n = 0; n < BULK_SETS; n++) {
        float x[2][MATRIX_OUT];
        RF_UNROLL
        for (uint32_t i = 0; i < 2 * MATRIX_OUT; i++)
            x[i / MATRIX_OUT][i % MATRIX_OUT] = s[n][i / MATRIX_OUT][i % MATRIX_OUT];
        const wave_part part = wave_soften(x, a, work->item[n].unit, w.bits[n], is_whole, 0, kind);
        const prompt_ml ml = {part.m, part.l};
        prompt_fold(&work->segment[n], ml, -0.0f, &w.c_total[n], &w.c_part[n]);
        RF_UNROLL
        for (uint32_t i = 0; i < 2 * MATRIX_HALF_WORDS; i++)
            w.p[n][i / MATRIX_HALF_WORDS][i % MATRIX_HALF_WORDS] =
                part.p[i / MATRIX_HALF_WORDS][i % MATRIX_HALF_WORDS];
        if (part.m != -__builtin_inff()) continue;
        is_odd = 1; /* no score is a number: values are not added */
        w.bits[n] = 0;
    }
    is_whole = is_whole && wave_all(!is_odd);
    bulk_weigh(work, sh, &w, !is_whole && !bulk_are_finite(sh, kind), kind);
}

RF_DEVICE void bulk_start(bulk_work *work, wave_kind kind) {
    const prompt_ml none = {-__builtin_inff(), 0.0f};
    const matrix_floats nothing = -0.0f;
    RF_UNROLL
    for (uint32_t n = 0; n < BULK_SETS; n++) {
        work->segment[n] = none;
        RF_UNROLL
        for (uint32_t i = 0; i < kind.dim / 16; i++)
            work->acc[n][i] = nothing;
    }
}

/* The lane's columns of an item's result; of sixteen further ones 16 floats further. */
RF_DEVICE float *bulk_to(const rf_gpu_attend_args *a, const prompt_item *item) {
    return a->dst + 4 * (uint64_t)item->to + MATRIX_OUT * (wave_anew(wave_lane()) / 16);
}

/* The segment onto the total. */
RF_DEVICE void bulk_total(bulk_work *work, const rf_gpu_attend_args *a, wave_kind kind) {
    RF_UNROLL
    for (uint32_t n = 0; n < BULK_SETS; n++) {
        prompt_item *item = &work->item[n];
        const int is_sink = !work->is_begun && item->total.l != 0.0f; /* weighted values are +0 */
        const int is_idle = work->is_begun && work->segment[n].l == 0.0f;
        float *to = bulk_to(a, item), c_total, c_part;
        prompt_fold(&item->total, work->segment[n], 0.0f, &c_total, &c_part);
        if (item->to == ~0u || is_idle) continue;
        if (is_sink) c_total = -c_total;
        RF_UNROLL
        for (uint32_t i = 0; i < kind.dim / 16; i++) {
            matrix_floats x = -0.0f;
            if (work->is_begun) __builtin_memcpy(&x, __builtin_assume_aligned(to, 16), sizeof x);
            RF_UNROLL
            for (uint32_t e = 0; e < MATRIX_OUT; e++)
                x[e] = rf_fma(work->acc[n][i][e], c_part, x[e] * c_total);
            __builtin_memcpy(__builtin_assume_aligned(to, 16), &x, sizeof x);
            to += 16;
            rf_in_turn();
        }
    }
    work->is_begun = 1;
}

/* The sequence's blocks, for the items that are its. */
RF_DEVICE void bulk_all_of(bulk_shared *sh, const rf_gpu_attend_args *a, const rf_rows_walk *w,
                           bulk_work *work, wave_kind kind) {
    bulk_ahead next;
    bulk_fetch(&next, a, w, w->first, kind);
    RF_NO_UNROLL
    for (uint32_t b = w->first; b < w->end;) { /* a segment at a time */
        const uint32_t behind = b - b % RF_GPU_SEGMENT_BLOCKS + RF_GPU_SEGMENT_BLOCKS;
        bulk_start(work, kind);
        RF_NO_UNROLL
        for (; b < rf_min_u32(behind, w->end); b++) {
            rf_sync(); /* the block before has been read */
            bulk_store(sh, &next, kind);
            rf_sync();
            bulk_fetch(&next, a, w, b + 1, kind);
            bulk_add(sh, a, w, work, b, kind);
        }
        bulk_total(work, a, kind);
    }
}

/* A query in sixteen bits, and what its scores are multiplied with. */
RF_DEVICE void bulk_query(uint32_t q[WAVE_STEPS][WAVE_OWN], float *unit, const float *from,
                          const rf_gpu_attend_args *a, wave_kind kind) {
    const uint32_t lane = wave_lane();
    uint32_t at = MATRIX_OUT * (lane / 16);
    float down = 1.0f;
    uint32_t most = 0;
    RF_NO_UNROLL
    for (uint32_t i = lane / 16; i < kind.dim; i += WAVE_APART) {
        most = rf_max_u32(most, rf_size_of(from[i]));
    }
    most = wave_most_word(most);
    if (kind.form == RF_GPU_F16) down = half_down(most);
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 16; i++) {
        RF_UNROLL
        for (uint32_t k = 0; k < WAVE_OWN; k++)
            q[i][k] = half_two(from[at + 2 * k] * down, from[at + 2 * k + 1] * down, kind.form);
        at = wave_after(at + 16, q[i][WAVE_OWN - 1]);
    }
    *unit = half_up(down) * a->scale;
}

/* The lane's items with their queries. */
RF_DEVICE void bulk_begin(bulk_work *work, const rf_gpu_attend_args *a, const prompt_items *of,
                          wave_kind kind) {
    RF_UNROLL
    for (uint32_t n = 0; n < BULK_SETS; n++) {
        const uint32_t here = of->first + 16 * (BULK_SETS * matrix_wave() + n) + wave_lane() % 16;
        const uint32_t number = rf_min_u32(here, of->n - 1), row = number / of->per_kv;
        const uint32_t head = of->kv_head * of->per_kv + number % of->per_kv;
        const uint32_t query = row * a->n_heads + head;
        prompt_item *item = &work->item[n];
        item->row = row;
        item->to = here < of->n ? query * (kind.dim / 4) : ~0u;
        item->total.m = a->sinks ? a->sinks[head] : -__builtin_inff();
        item->total.l = item->total.m == -__builtin_inff() ? 0.0f : 1.0f;
        bulk_query(work->q[n], &item->unit, a->q + query * (uint64_t)kind.dim, a, kind);
    }
    work->is_begun = 0;
}

/* The totals divided by their sums. */
RF_DEVICE void bulk_end(const bulk_work *work, const rf_gpu_attend_args *a, wave_kind kind) {
    RF_UNROLL
    for (uint32_t n = 0; n < BULK_SETS; n++) {
        const prompt_item *item = &work->item[n];
        const float l = item->total.l;
        float *to = bulk_to(a, item);
        if (item->to == ~0u) continue;
        RF_NO_UNROLL
        for (uint32_t i = 0; i < kind.dim / 16 * MATRIX_OUT; i += 4) {
            rf_f4 *four = (rf_f4 *)(void *)(to + i / MATRIX_OUT * 16 + i % MATRIX_OUT), x = *four;
            RF_UNROLL
            for (uint32_t e = 0; e < 4; e++)
                x.v[e] = work->is_begun && l != 0.0f ? x.v[e] / l : 0.0f;
            *four = x;
        }
    }
}

RF_DEVICE void bulk_run(bulk_shared *sh, const rf_gpu_attend_args *a, uint32_t dim, uint32_t form) {
    const wave_kind kind = {dim, form};
    const prompt_items of = prompt_items_of(a, RF_HALVES_TILE_ITEMS);
    const uint32_t first = of.first / of.per_kv;
    const uint32_t last = (rf_min_u32(of.first + RF_HALVES_TILE_ITEMS, of.n) - 1) / of.per_kv;
    bulk_work work;
    bulk_begin(&work, a, &of, kind);
    for (uint32_t r = first; r <= last;) { /* a sequence's rows at a time */
        const rf_rows_walk w = rf_rows_walk_of(a, first, last, &r);
        if (w.first < w.end) bulk_all_of(sh, a, &w, &work, kind);
    }
    bulk_end(&work, a, kind);
}

#define BULK_BODY(dim, form)                      \
    {                                             \
        RF_SHARED bulk_shared sh;                 \
        bulk_run(&sh, &a, (uint32_t)(dim), form); \
    }
/* kinds.def has their order. */
RF_KERNEL(attend_halves_tile, rf_gpu_attend_args)
BULK_BODY(BULK_DIM, RF_GPU_F16)
RF_KERNEL_KIND(attend_halves_tile, 1, rf_gpu_attend_args)
BULK_BODY(BULK_DIM, RF_GPU_BF16)
RF_KERNEL_KIND(attend_halves_tile, 2, rf_gpu_attend_args)
BULK_BODY(BULK_DIM / 2, RF_GPU_F16)
RF_KERNEL_KIND(attend_halves_tile, 3, rf_gpu_attend_args)
BULK_BODY(BULK_DIM / 2, RF_GPU_BF16)
#endif
