/* attend_ints_wave.hip - attention over keys and values in Q8_0, as docs/arithmetic.md has it, on the matrix
 * units of AMD's GPUs: of many rows, for which attend_ints_tile.hip is the same kernel on NVIDIA's, and of few.
 * A block of threads per KV head and neighbouring items, as prompt.h has them; with n_splits > 1 of a single
 * segment of the keys.
 *
 * Items are an instruction's weight rows (matrix.h), keys and then columns of values its activation rows: a
 * lane has one item, number lane % 16, of each of its wave's sets, with the lanes 16 apart.  Of a KV block's
 * keys it has the one of its part, lane / 16, and every second or fourth from there on.  So it adds up the
 * exponentials of its own, the lanes of an item but the last, and brings the weights that it has made.
 *
 * Queries and weights are two digits of eight bits, n = 256 * upper + lower, both signed.  A KV block lies in
 * shared memory, rows of keys and columns of values in the order of the lanes that bring them; the next one is
 * on its way to registers meanwhile.  Weighted values of a segment stay in registers, the total lies where the
 * result will be. */
#include "backend/gpu/kernels/attend_wave.h"
#include "backend/gpu/kernels/ints.h"
#include "backend/gpu/kernels/prompt.h"

#if defined(RF_MATRIX)
enum {
    Q8_THREADS = RF_BLOCK_attend_ints_tile,
    Q8_WAVES = Q8_THREADS / (int)MATRIX_LANES,
    Q8_SETS = RF_INTS_TILE_ITEMS / 16 / Q8_WAVES, /* of sixteen items */
    Q8_GROUPS = RF_INTS_TILE_GROUPS,
    Q8_WORDS = 2 * MATRIX_WORDS,    /* that a lane brings of 32 columns or keys */
    Q8_K_PITCH = 8 * Q8_GROUPS + 4, /* words from row to row, so that lanes meet all banks, */
    Q8_V_PITCH = 8 + 4,             /* and from column to column */
};

/* A KV block.  What there is of each key lies by part, then by key. */
typedef struct q8_shared {
    rf_u4 k[32 * Q8_K_PITCH / 4], v[32 * Q8_GROUPS * Q8_V_PITCH / 4];
    rf_f4 k_scale[Q8_GROUPS][8], v_scale[Q8_GROUPS][8];
    rf_f4 t[Q8_GROUPS][8]; /* what exponentials are multiplied with */
    float unit[Q8_GROUPS]; /* and the unit of their sums, if all keys are visible */
} q8_shared;

/* A thread's part of the next block: a group of a key, eight columns of four keys' values, and the scale of a
 * group of values. */
typedef struct q8_ahead {
    uint32_t k[8], v[4][2];
    uint16_t k_scale, v_scale;
} q8_ahead;

/* Of each set: the lane's item, the keys that it sees, the lane's words of its query by digits, the upper
 * one first, and of each sixteen columns the weighted values of number MATRIX_OUT * part on. */
typedef struct q8_work {
    prompt_item item[Q8_SETS];
    prompt_ml segment[Q8_SETS];
    rf_span span[Q8_SETS];
    uint32_t q[Q8_SETS][Q8_GROUPS][2][Q8_WORDS];
    float acc[Q8_SETS][2 * Q8_GROUPS][MATRIX_OUT];
    int is_begun; /* something has been added to the total */
    int is_idle;  /* the wave has no items */
} q8_work;

/* A block's exponentials, the keys that items see, and by what it is folded into the segment. */
typedef struct q8_part {
    float p[Q8_SETS][2][MATRIX_OUT], c_total[Q8_SETS], c_part[Q8_SETS];
    uint32_t bits[Q8_SETS];
    int is_whole; /* all of them */
} q8_part;

/* Lanes ------------------------------------------------------------------------------------------*/

/* x, made by now: else the compiler would first multiply all that there is, and keep the sums. */
RF_DEVICE float q8_made(float x) {
    asm volatile("" : "+v"(x));
    return x;
}

/* Where what is of a key lies, and which key is there. */
RF_DEVICE uint32_t q8_place(uint32_t key) {
    return key % WAVE_APART * WAVE_KEYS + key / WAVE_APART;
}
RF_DEVICE uint32_t q8_key(uint32_t place) {
    return place % WAVE_KEYS * WAVE_APART + place / WAVE_KEYS;
}

/* The lane, of sixteen, that brings a key, so that its score comes to the part that has it; and that brings a
 * column, so that neighbouring ones come to a part. */
RF_DEVICE uint32_t q8_key_lane(uint32_t key) {
#if defined(__GFX11__)
    return key % 16;
#else
    return key % WAVE_APART * MATRIX_OUT + key % 16 / WAVE_APART;
#endif
}
RF_DEVICE uint32_t q8_column_lane(uint32_t col) {
#if defined(__GFX11__)
    return col % 8 * 2 + col % 16 / 8;
#else
    return col % 16;
#endif
}

/* The lane's words of the 32 columns or keys that begin there. */
RF_DEVICE void q8_read(uint32_t to[Q8_WORDS], const uint32_t *from) {
    const uint32_t *own = from + 2 * matrix_first_word(wave_lane());
    __builtin_memcpy(to, __builtin_assume_aligned(own, MATRIX_WORDS > 1 ? 16 : 8), 4 * Q8_WORDS);
}

/* What is of the lane's own keys. */
RF_DEVICE void q8_of_keys(float out[2][MATRIX_OUT], const rf_f4 *from) {
    RF_UNROLL
    for (uint32_t i = 0; i < WAVE_KEYS; i++)
        out[i / MATRIX_OUT][i % MATRIX_OUT] =
            from[wave_lane() / 16 * (WAVE_KEYS / 4) + i / 4].v[i % 4];
}

/* The digits of four numbers, to which 128 has been added: so the lower ones may be negative. */
RF_DEVICE void q8_digits(uint32_t *upper, uint32_t *lower, const uint32_t n[4]) {
    const uint32_t a = rf_four_bytes(n[0], n[1], 0x5140), b = rf_four_bytes(n[2], n[3], 0x5140);
    *upper = rf_four_bytes(a, b, 0x7632);
    *lower = rf_four_bytes(a, b, 0x5410) ^ 0x80808080u;
}

/* Sums of products with 32 of what the lanes bring, by both digits. */
RF_DEVICE matrix_sums q8_multiply(const uint32_t of[2][Q8_WORDS], const uint32_t x[Q8_WORDS]) {
    return matrix_multiply_32(of[0], x, 0) * 256 + matrix_multiply_32(of[1], x, 0);
}

/* Blocks of the cache ----------------------------------------------------------------------------*/

/* As many threads bring keys and values as there are groups. */
RF_DEVICE void q8_fetch(q8_ahead *next, const rf_gpu_attend_args *a, const rf_rows_walk *w,
                        uint32_t b, uint32_t groups) {
    const uint32_t tid = wave_anew(rf_tid()), first = 4 * (tid % 8), eight = tid / 8;
    if (b >= w->end || tid >= 32 * groups) return;
    const uint64_t at = ((uint64_t)w->table[b] * a->n_kv_heads + rf_bid_x()) * 32 * groups;
    const uint8_t *k = (const uint8_t *)a->k + (at + tid) * RF_KV_Q8_BYTES;
    const uint8_t *v = (const uint8_t *)a->v + at * RF_KV_Q8_BYTES;
    const uint8_t *scale = v + (tid % 32 * groups + tid / 32) * RF_KV_Q8_BYTES;
    __builtin_memcpy(&next->k_scale, k, 2);
    __builtin_memcpy(next->k, k + 2, 32);
    __builtin_memcpy(&next->v_scale, scale, 2);
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint8_t *group = v + (q8_key(first + i) * groups + eight / 4) * RF_KV_Q8_BYTES;
        __builtin_memcpy(next->v[i], group + 2 + eight % 4 * 8, 8);
    }
}

RF_DEVICE void q8_store_keys(q8_shared *sh, const q8_ahead *next, uint32_t tid, uint32_t groups) {
    const uint32_t key = tid / groups, group = tid % groups;
    rf_u4 *to = sh->k + (key / 16 * 16 + q8_key_lane(key)) * (Q8_K_PITCH / 4) + 2 * group;
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        to[i / 4].v[i % 4] = next->k[i];
    ((float *)sh->k_scale[group])[q8_place(key)] = rf_f16_at(next->k_scale);
}

/* Columns of values, turned by four times four. */
RF_DEVICE void q8_store_values(q8_shared *sh, const q8_ahead *next, uint32_t tid) {
    const uint32_t piece = tid % 8, col = tid / 8 * 8;
    uint32_t *to = (uint32_t *)sh->v + piece;
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t pair = i % 4 / 2 ? 0x7362 : 0x5140, of_pair = i % 2 ? 0x7632 : 0x5410;
        const uint32_t low = rf_four_bytes(next->v[0][i / 4], next->v[1][i / 4], pair),
                       high = rf_four_bytes(next->v[2][i / 4], next->v[3][i / 4], pair);
        const uint32_t row = (col + i) / 16 * 16 + q8_column_lane(col + i);
        to[row * Q8_V_PITCH] = rf_four_bytes(low, high, of_pair);
    }
}

/* The values' scales, a group by each 32 threads. */
RF_DEVICE void q8_store_scales(q8_shared *sh, const q8_ahead *next, uint32_t tid) {
    const uint32_t key = tid % 32, group = tid / 32, place = q8_place(key);
    const float scale = rf_f16_at(next->v_scale);
    const uint32_t most = rf_warp_most(rf_size_of(scale));
    ((float *)sh->v_scale[group])[place] = scale;
    ((float *)sh->t[group])[place] = scale * rf_weight_inverse(most);
    if (key == 0) sh->unit[group] = rf_weight_unit(most);
}

RF_DEVICE void q8_store(q8_shared *sh, const q8_ahead *next, uint32_t groups) {
    const uint32_t tid = wave_anew(rf_tid());
    if (tid >= 32 * groups) return;
    q8_store_keys(sh, next, tid, groups);
    q8_store_values(sh, next, tid);
    q8_store_scales(sh, next, tid);
}

/* Scores -----------------------------------------------------------------------------------------*/

RF_DEVICE void q8_scores(q8_part *part, const q8_shared *sh, const q8_work *work, uint32_t groups) {
    const uint32_t *row = (const uint32_t *)sh->k + wave_lane() % 16 * Q8_K_PITCH;
    RF_UNROLL
    for (uint32_t i = 0; i < (uint32_t)Q8_SETS * WAVE_KEYS; i++)
        part->p[i / WAVE_KEYS][i % WAVE_KEYS / MATRIX_OUT][i % MATRIX_OUT] = 0.0f;
    RF_UNROLL
    for (uint32_t group = 0; group < groups; group++) {
        float scale[2][MATRIX_OUT];
        q8_of_keys(scale, sh->k_scale[group]);
        RF_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            uint32_t k[Q8_WORDS];
            q8_read(k, row + half * (16 * Q8_K_PITCH) + 8 * group);
            RF_UNROLL
            for (uint32_t set = 0; set < Q8_SETS; set++) {
                const matrix_sums sum = q8_multiply(work->q[set][group], k);
                float *s = part->p[set][half];
                RF_UNROLL
                for (uint32_t e = 0; e < MATRIX_OUT; e++)
                    s[e] = q8_made(rf_fma((float)sum[e], scale[half][e], s[e]));
            }
        }
    }
}

/* Of the lane's own keys those that are not among the visible ones. */
RF_DEVICE void q8_hide(float s[2][MATRIX_OUT], uint32_t bits, float with) {
    wave_hide(s, wave_anew(bits) >> wave_lane() / 16, with);
}

/* A set's scores become exponentials; their maximum and sum go onto the segment's.  Where no score of an item
 * is a number its sum says so, and values are not added: the part is not whole. */
RF_DEVICE void q8_soften(q8_part *part, q8_work *work, const rf_gpu_attend_args *a, uint32_t set,
                         int is_whole) {
    float(*s)[MATRIX_OUT] = part->p[set];
    RF_UNROLL
    for (uint32_t i = 0; i < WAVE_KEYS; i++)
        s[i / MATRIX_OUT][i % MATRIX_OUT] *= work->item[set].unit;
    if (a->softcap > 0) wave_softcap(s, a->softcap);
    if (!is_whole) q8_hide(s, part->bits[set], -__builtin_inff());
    const float most = wave_most(s);
    RF_UNROLL
    for (uint32_t i = 0; i < WAVE_KEYS; i++) {
        float *x = &s[i / MATRIX_OUT][i % MATRIX_OUT];
        *x = rf_exp32_down(*x - most);
    }
    if (!is_whole) q8_hide(s, part->bits[set], 0.0f);
    const prompt_ml ml = {most, wave_tree(s)};
    prompt_fold(&work->segment[set], ml, -0.0f, &part->c_total[set], &part->c_part[set]);
    if (wave_all(most != -__builtin_inff())) return;
    part->is_whole = 0;
    if (most == -__builtin_inff()) part->bits[set] = 0;
    q8_hide(s, part->bits[set], 0.0f);
}

/* Weighted values --------------------------------------------------------------------------------*/

/* What a set's exponentials are multiplied with in a group, and the unit of their sums. */
RF_DEVICE float q8_factors(float t[2][MATRIX_OUT], const q8_shared *sh, const q8_part *part,
                           uint32_t set, uint32_t group) {
    if (part->is_whole) {
        q8_of_keys(t, sh->t[group]);
        return sh->unit[group];
    }
    uint32_t most = 0;
    q8_of_keys(t, sh->v_scale[group]);
    q8_hide(t, part->bits[set], 0.0f);
    RF_UNROLL
    for (uint32_t i = 0; i < WAVE_KEYS; i++)
        most = rf_max_u32(most, rf_size_of(t[i / MATRIX_OUT][i % MATRIX_OUT]));
    most = wave_most_word(most);
    const float inverse = rf_weight_inverse(most);
    RF_UNROLL
    for (uint32_t i = 0; i < WAVE_KEYS; i++)
        t[i / MATRIX_OUT][i % MATRIX_OUT] *= inverse;
    return rf_weight_unit(most);
}

/* The digits of a set's weights as the lane brings them: on gfx11 the other lane's too. */
RF_DEVICE void q8_weights(uint32_t out[2][Q8_WORDS], const float p[2][MATRIX_OUT],
                          const float t[2][MATRIX_OUT]) {
    RF_UNROLL
    for (uint32_t i = 0; i < WAVE_KEYS / 4; i++) {
        uint32_t n[4], of[2];
        RF_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t half = i / (MATRIX_OUT / 4), e = 4 * i % MATRIX_OUT + k;
            n[k] = rf_bits_of(rf_fma(p[half][e], t[half][e], RF_INTS_MAGIC + 128.0f));
        }
        q8_digits(&of[0], &of[1], n);
        RF_UNROLL
        for (uint32_t digit = 0; digit < 2; digit++) {
#if defined(__GFX11__)
            const uint32_t other = wave_lane_xor(of[digit], 16);
            out[digit][i] = wave_lane() < 16 ? of[digit] : other;
            out[digit][WAVE_KEYS / 4 + i] = wave_lane() < 16 ? other : of[digit];
#else
            out[digit][i] = of[digit];
#endif
        }
    }
}

/* The block's weighted values onto the segment's. */
RF_DEVICE void q8_weigh(q8_work *work, const q8_shared *sh, const q8_part *part, uint32_t groups) {
    const uint32_t *col = (const uint32_t *)sh->v + wave_lane() % 16 * Q8_V_PITCH;
    RF_UNROLL
    for (uint32_t group = 0; group < groups; group++) {
        uint32_t w[Q8_SETS][2][Q8_WORDS];
        float unit[Q8_SETS];
        RF_UNROLL
        for (uint32_t set = 0; set < Q8_SETS; set++) {
            float t[2][MATRIX_OUT];
            unit[set] = q8_factors(t, sh, part, set, group);
            q8_weights(w[set], part->p[set], t);
        }
        RF_UNROLL
        for (uint32_t i = 2 * group; i < 2 * group + 2; i++) {
            uint32_t v[Q8_WORDS];
            q8_read(v, col + i * (16 * Q8_V_PITCH));
            RF_UNROLL
            for (uint32_t set = 0; set < Q8_SETS; set++) {
                const matrix_sums sum = q8_multiply(w[set], v);
                float *acc = work->acc[set][i];
                RF_UNROLL
                for (uint32_t e = 0; e < MATRIX_OUT; e++)
                    acc[e] = q8_made(rf_fma((float)sum[e] * unit[set], part->c_part[set],
                                            acc[e] * part->c_total[set]));
            }
        }
    }
}

/* The walk ---------------------------------------------------------------------------------------*/

/* Which keys of block b items see; false: none of the wave's sees any. */
RF_DEVICE int q8_look(q8_part *part, const q8_work *work, const rf_rows_walk *w, uint32_t b) {
    int is_whole = 1, is_empty = 1;
    if (work->is_idle) return 0;
    part->is_whole = 1;
    RF_UNROLL
    for (uint32_t set = 0; set < Q8_SETS; set++)
        part->bits[set] = ~0u;
    if (32 * b >= w->lo && 32 * (b + 1) <= w->hi) return 1;
    RF_UNROLL
    for (uint32_t set = 0; set < Q8_SETS; set++) {
        part->bits[set] = rf_span_bits(&work->span[set], b);
        is_whole &= part->bits[set] == ~0u;
        is_empty &= part->bits[set] == 0;
    }
    part->is_whole = wave_all(is_whole);
    return !wave_all(is_empty);
}

/* Block number b onto the segment. */
RF_DEVICE void q8_add(q8_work *work, const q8_shared *sh, const rf_gpu_attend_args *a,
                      const rf_rows_walk *w, uint32_t b, uint32_t groups) {
    q8_part part;
    if (!q8_look(&part, work, w, b)) return;
    const int is_whole = part.is_whole;
    q8_scores(&part, sh, work, groups);
    RF_UNROLL
    for (uint32_t set = 0; set < Q8_SETS; set++)
        q8_soften(&part, work, a, set, is_whole);
    q8_weigh(work, sh, &part, groups);
}

RF_DEVICE void q8_start(q8_work *work) {
    RF_UNROLL
    for (uint32_t set = 0; set < Q8_SETS; set++) {
        const prompt_ml none = {-__builtin_inff(), 0.0f};
        work->segment[set] = none;
        RF_UNROLL
        for (uint32_t i = 0; i < 2 * Q8_GROUPS * MATRIX_OUT; i++)
            work->acc[set][i / MATRIX_OUT][i % MATRIX_OUT] = -0.0f;
    }
}

/* Four of the lane's columns of an item that begins there: number four of sixteen number i. */
RF_DEVICE rf_u4 *q8_to(float *item, uint32_t i, uint32_t four) {
    return (rf_u4 *)(void *)item + 4 * i + wave_lane() / 16 * (MATRIX_OUT / 4) + four;
}

/* Four columns of a segment onto the total, which is there or yet to be begun. */
RF_DEVICE void q8_fold_four(rf_u4 *to, const float acc[4], float c_total, float c_part,
                            int is_begun) {
    rf_u4 total;
    RF_UNROLL
    for (uint32_t d = 0; d < 4; d++)
        total.v[d] = rf_bits_of(-0.0f);
    if (is_begun) total = rf_rows_load(to);
    RF_UNROLL
    for (uint32_t d = 0; d < 4; d++)
        total.v[d] = rf_bits_of(rf_fma(acc[d], c_part, rf_float_of(total.v[d]) * c_total));
    *to = total;
}

/* The segment onto the total. */
RF_DEVICE void q8_total(q8_work *work, const rf_gpu_attend_args *a, uint32_t groups) {
    RF_UNROLL
    for (uint32_t set = 0; set < Q8_SETS; set++) {
        prompt_item *item = &work->item[set];
        const int is_sink = !work->is_begun && item->total.l != 0.0f; /* weighted values are +0 */
        const int is_idle = work->is_begun && work->segment[set].l == 0.0f;
        float c_total, c_part;
        prompt_fold(&item->total, work->segment[set], 0.0f, &c_total, &c_part);
        if (item->to == ~0u || is_idle) continue;
        if (is_sink) c_total = -c_total;
        float *to = a->dst + 4 * (uint64_t)item->to;
        RF_UNROLL
        for (uint32_t i = 0; i < 2 * groups; i++) {
            RF_UNROLL
            for (uint32_t four = 0; four < MATRIX_OUT / 4; four++)
                q8_fold_four(q8_to(to, i, four), work->acc[set][i] + 4 * four, c_total, c_part,
                             work->is_begun);
            rf_in_turn();
        }
    }
    work->is_begun = 1;
}

/* Segment number s of the sequence's items, as it is; zeros where no key of it is visible. */
RF_DEVICE void q8_put_part(const q8_work *work, const rf_gpu_attend_args *a, uint32_t s,
                           uint32_t groups) {
    RF_UNROLL
    for (uint32_t set = 0; set < Q8_SETS; set++) {
        const prompt_item *item = &work->item[set];
        const uint64_t part = (uint64_t)(item->to / (8 * groups)) * a->n_splits + s;
        float *to = a->parts + part * (32 * groups);
        if (item->to == ~0u || work->span[set].end == 0) continue;
        rf_put_part(a, part, work->segment[set].m, work->segment[set].l);
        RF_UNROLL
        for (uint32_t n = 0; n < 2 * groups * (MATRIX_OUT / 4); n++) {
            const uint32_t i = n / (MATRIX_OUT / 4), four = n % (MATRIX_OUT / 4);
            rf_f4 x;
            RF_UNROLL
            for (uint32_t d = 0; d < 4; d++)
                x.v[d] = work->segment[set].l == 0.0f ? 0.0f : work->acc[set][i][4 * four + d];
            *(rf_f4 *)(void *)q8_to(to, i, four) = x;
        }
    }
}

/* The total divided by its sum. */
RF_DEVICE void q8_end(const q8_work *work, const rf_gpu_attend_args *a, uint32_t groups) {
    RF_UNROLL
    for (uint32_t set = 0; set < Q8_SETS; set++) {
        const prompt_item *item = &work->item[set];
        float *dst = a->dst + 4 * (uint64_t)item->to;
        if (item->to == ~0u) continue;
        RF_NO_UNROLL
        for (uint32_t n = 0; n < 2 * groups * (MATRIX_OUT / 4); n++) {
            rf_f4 *to = (rf_f4 *)(void *)q8_to(dst, n / (MATRIX_OUT / 4), n % (MATRIX_OUT / 4));
            rf_f4 x = {{0, 0, 0, 0}};
            if (work->is_begun) x = *to;
            RF_UNROLL
            for (uint32_t d = 0; d < 4; d++)
                x.v[d] = item->total.l == 0.0f ? 0.0f : x.v[d] / item->total.l;
            *to = x;
        }
    }
}

/* The sequence's blocks, for the items that are its. */
RF_DEVICE void q8_all_of(q8_work *work, q8_shared *sh, const rf_gpu_attend_args *a,
                         const rf_rows_walk *w, uint32_t groups) {
    q8_ahead next;
    q8_fetch(&next, a, w, w->first, groups);
    RF_UNROLL
    for (uint32_t set = 0; set < Q8_SETS; set++) {
        const rf_span none = {0, 0, 0, 0};
        const uint32_t row = work->item[set].row;
        work->span[set] = a->batch.row_seq[row] == w->seq ? rf_span_of(a, row) : none;
        work->span[set].mask = 0;
    }
    RF_NO_UNROLL
    for (uint32_t b = w->first; b < w->end;) { /* a segment at a time */
        const uint32_t end = b - b % RF_GPU_SEGMENT_BLOCKS + RF_GPU_SEGMENT_BLOCKS;
        q8_start(work);
        RF_NO_UNROLL
        for (; b < rf_min_u32(end, w->end); b++) {
            rf_sync(); /* the block before has been read */
            q8_store(sh, &next, groups);
            q8_fetch(&next, a, w, b + 1, groups);
            rf_sync();
            q8_add(work, sh, a, w, b, groups);
        }
        if (a->n_splits == 1)
            q8_total(work, a, groups);
        else
            q8_put_part(work, a, rf_bid_z(), groups);
    }
}

/* Items and queries ------------------------------------------------------------------------------*/

/* The lane's words of a query of 32 columns a group, as integers; what they are multiples of. */
RF_DEVICE float q8_query(uint32_t out[Q8_GROUPS][2][Q8_WORDS], const rf_f4 *q, uint32_t groups) {
    const uint32_t first = 2 * matrix_first_word(wave_lane());
    uint32_t most = 0;
    RF_NO_UNROLL
    for (uint32_t i = 0; i < groups * Q8_WORDS; i++) {
        const rf_f4 x = q[i / Q8_WORDS * 8 + i % Q8_WORDS + first];
        RF_UNROLL
        for (uint32_t d = 0; d < 4; d++)
            most = rf_max_u32(most, rf_size_of(x.v[d]));
    }
    most = wave_most_word(most);
    const float inverse = rf_query_inverse(most);
    RF_UNROLL
    for (uint32_t i = 0; i < groups * Q8_WORDS; i++) {
        const rf_f4 x = q[i / Q8_WORDS * 8 + i % Q8_WORDS + first];
        uint32_t(*of)[Q8_WORDS] = out[i / Q8_WORDS], n[4];
        RF_UNROLL
        for (uint32_t d = 0; d < 4; d++)
            n[d] = (uint32_t)(rf_query_int(x.v[d], inverse) + 128);
        q8_digits(&of[0][i % Q8_WORDS], &of[1][i % Q8_WORDS], n);
        rf_in_turn();
    }
    return rf_query_scale(most);
}

/* The wave's items with their queries. */
RF_DEVICE void q8_begin(q8_work *work, const rf_gpu_attend_args *a, const prompt_items *of,
                        uint32_t groups) {
    work->is_begun = 0;
    work->is_idle = of->first + 16 * matrix_wave() * Q8_SETS >= of->n;
    RF_UNROLL
    for (uint32_t set = 0; set < Q8_SETS; set++) {
        const uint32_t here = of->first + 16 * (matrix_wave() * Q8_SETS + set) + wave_lane() % 16;
        const uint32_t number = rf_min_u32(here, of->n - 1), row = number / of->per_kv;
        const uint32_t head = of->kv_head * of->per_kv + number % of->per_kv;
        const uint32_t query = row * a->n_heads + head;
        const rf_f4 *q = (const rf_f4 *)(const void *)a->q + query * (uint64_t)(8 * groups);
        const float m = a->sinks ? a->sinks[head] : -__builtin_inff();
        prompt_item *item = &work->item[set];
        item->row = row;
        item->to = here < of->n ? query * (8 * groups) : ~0u;
        item->total.m = m;
        item->total.l = m == -__builtin_inff() ? 0.0f : 1.0f;
        item->unit = 0.0f;
        if (!work->is_idle) item->unit = q8_query(work->q[set], q, groups) * a->scale;
    }
}

RF_DEVICE void q8_run(q8_shared *sh, const rf_gpu_attend_args *a, uint32_t groups) {
    const prompt_items of = prompt_items_of(a, RF_INTS_TILE_ITEMS);
    const uint32_t first = of.first / of.per_kv;
    const uint32_t last = (rf_min_u32(of.first + RF_INTS_TILE_ITEMS, of.n) - 1) / of.per_kv;
    q8_work work;
    q8_begin(&work, a, &of, groups);
    for (uint32_t r = first; r <= last;) { /* a sequence's rows at a time */
        rf_rows_walk w = rf_rows_walk_of(a, first, last, &r);
        if (w.first < w.end && rf_take_split(a, rf_bid_z(), &w.first, &w.end))
            q8_all_of(&work, sh, a, &w, groups);
    }
    if (a->n_splits == 1) q8_end(&work, a, groups);
}

RF_KERNEL(attend_ints_tile, rf_gpu_attend_args) {
    RF_SHARED q8_shared sh;
    if (a.head_dim > 64)
        q8_run(&sh, &a, 4);
    else
        q8_run(&sh, &a, 2);
}
#endif
