/* mm_batch.hip - products of integer weights with 3 to 255 activation rows (2, where blocks are tall) on
 * NVIDIA's matrix units.
 *
 * A block has 16 weight rows for each of wm warps (tile.h), by up to 64 activation rows.  Some more warps
 * bring weights as they are packed, and activations, into a ring of slots of 256 columns, several of
 * which are on their way.  A warp multiplies every wk-th slot; its sums it takes over from the warp that
 * had the slot before, and hands them on, so that groups are added in order. */
#include "backend/gpu/kernels/digits.h"
#include "backend/gpu/kernels/half.h"
#include "backend/gpu/kernels/ring.h"
#include "backend/gpu/tile.h"

#if defined(RF_NVIDIA)
enum {
    BATCH_CHUNKS = 8,
    BATCH_NT = 8,      /* most eights of activation rows */
    BATCH_AT_ONCE = 8, /* outputs of a thread */
};

/* What is constant in a kernel. */
typedef struct batch_kind {
    uint32_t view;
    int lo_bits, hi_bits;
    uint32_t n_scales, with_m;
    uint32_t wide_d; /* factors of weights may be f32 */
    rf_batch_shape s;
    rf_batch_parts at;
} batch_kind;

/* Threads that multiply. */
RF_DEVICE uint32_t batch_workers(batch_kind k) { return 32 * k.s.wm * k.s.wn * k.s.wk; }
/* Eights of activation rows of a warp. */
RF_DEVICE uint32_t batch_eights(batch_kind k) { return k.s.nt / k.s.wn; }

typedef struct batch_shared {
    uint64_t full[RF_BATCH_MAX_SLOTS], empty[RF_BATCH_MAX_SLOTS];
    uint64_t turn[16];          /* of each warp that multiplies */
    uint32_t row[8 * BATCH_NT]; /* where each activation row starts, in 16 columns */
} batch_shared;

/* Rows of activations lie a line apart, so that a copy by eight threads is within one; which pieces of sixteen columns
 * are where changes from row to row, so that eight rows' pieces of one number meet all banks. */

/* Where piece i of a row's sixteen is in a slot; the one 2j further on in the same line is at that place xor 32j. */
RF_DEVICE uint32_t batch_q_at(batch_kind k, uint32_t row, uint32_t i) {
    return k.at.q + (i / 8 * 8 * k.s.nt + row) * RF_LINE + (i % 8 ^ row % 8) * 16;
}
/* Where sums number 16i to 16i + 15 of its 32 are. */
RF_DEVICE uint32_t batch_sum_at(batch_kind k, uint32_t row, uint32_t i) {
    return k.at.sum + row * RF_BATCH_SUMS + (i ^ row / 2 % 2) * 32;
}

/* Fetching --------------------------------------------------------------------------------------*/

/* Where rows of groups of 32 are no multiple of 256 columns (but of 64), the last slot is ragged: it has two, four or
 * six of eight chunks.  In place of the others are zeros times factors of 0, which leave every sum as it is: none is
 * -0, as sums begin with +0 and are whole multiples of the smallest number there is.  is_ragged is a constant: code
 * for whole slots alone is quicker. */

/* Sixteen bytes of each slot: where those of slot 0 lie, and bytes from slot to slot; 0: none. */
typedef struct batch_piece {
    const uint8_t *from;
    uint32_t step;
} batch_piece;

/* Sixteen weight rows: a thread's pieces of slot 0; rest: where a square has more of scales, minima and
 * factors than a warp has threads. */
typedef struct batch_source {
    const uint8_t *lo, *hi;
    batch_piece own, rest;
} batch_source;

/* Pieces of scales, minima and factors of so many bytes that a square has. */
RF_DEVICE uint32_t batch_pieces(batch_kind k, uint32_t d_bytes) {
    return (1 + k.with_m) * (k.view == 32 ? 8 * d_bytes : k.n_scales + d_bytes);
}
RF_DEVICE int batch_has_rest(batch_kind k) { return batch_pieces(k, k.wide_d ? 4 : 2) > 32; }

/* Number i of them; first: the tile's slot 0 or with is_ragged chunk 0, half: of its rows. */
RF_DEVICE batch_piece batch_piece_of(const rf_gpu_weight *w, batch_kind k, uint64_t first,
                                     uint32_t half, uint32_t i, int is_ragged) {
    const uint32_t d_bytes = k.wide_d && w->d_f32 ? 4 : 2, n_scales = k.n_scales;
    const uint8_t *from = (const uint8_t *)w->scale;
    batch_piece p = {(const uint8_t *)w->d, 0};
    if (i >= batch_pieces(k, d_bytes)) return p;
    if (k.view == 32) {
        p.step = 256 * d_bytes;
        if (i >= 8 * d_bytes) p.from = (const uint8_t *)w->m;
        i %= 8 * d_bytes;
        p.from += first * (is_ragged ? 32 * d_bytes : p.step) +
                  (i / d_bytes * 2 * d_bytes + half * d_bytes + i % d_bytes) * 16;
        return p;
    }
    if (i < (1 + k.with_m) * n_scales) {
        if (k.with_m && i >= n_scales) from = (const uint8_t *)w->min;
        p.step = 32 * n_scales;
        p.from = from + first * p.step + (half * n_scales + i % n_scales) * 16;
        return p;
    }
    i -= (1 + k.with_m) * n_scales;
    if (i >= d_bytes) p.from = (const uint8_t *)w->m;
    p.step = 32 * d_bytes;
    p.from += first * p.step + (half * d_bytes + i % d_bytes) * 16;
    return p;
}

/* Number i of the block; with is_glu the second half of them is of the second matrix. */
RF_DEVICE batch_source batch_source_of(const rf_gpu_matmul_args *a, const mm_share *share,
                                       batch_kind k, uint32_t i, uint32_t lane, int is_ragged) {
    const uint32_t of_matrix = a->is_glu ? k.s.wm / 2 : k.s.wm;
    const rf_gpu_weight *w = a->is_glu && i >= of_matrix ? &a->part[1].w : &share->p.w;
    const uint32_t n_tiles = rf_div_up(w->rows, RF_GPU_TILE_ROWS);
    const uint32_t n = rf_min_u32(share->tile * of_matrix + i % of_matrix, 2 * n_tiles - 1);
    const uint32_t half = n % 2, row = 16 * half + lane % 16;
    const uint32_t of_two = lane / 8 * 256 + half * 128 + lane % 8 * 16; /* bits of an element */
    const uint32_t unit = is_ragged ? 32 : 256, bits = unit * 4; /* bytes of each bit of integers */
    const uint64_t first = ((uint64_t)share->plane * n_tiles + n / 2) * (w->cols / unit);
    batch_source s;
    s.lo = (const uint8_t *)w->lo + first * bits * (uint32_t)k.lo_bits;
    s.lo += k.lo_bits == 2 ? of_two : (lane / 16 * 32 + row) * 16;
    s.hi = (const uint8_t *)w->hi + first * bits * (uint32_t)k.hi_bits;
    if (k.hi_bits == 1) s.hi += lane / 4 * 128 + half * 64 + lane % 4 * 16;
    if (k.hi_bits == 2) s.hi += of_two;
    s.own = batch_piece_of(w, k, first, half, lane, is_ragged);
    if (batch_has_rest(k)) s.rest = batch_piece_of(w, k, first, half, 32 + lane, is_ragged);
    return s;
}

/* Sixteen bytes, or with is_there 0 zeros; of a whole slot all are there. */
RF_DEVICE void batch_copy(uint8_t *to, const uint8_t *from, int is_whole, int is_there) {
    if (is_whole)
        rf_copy_16(to, from);
    else
        half_copy(half_at_of(to), from, is_there);
}

/* Where the thread's first pieces go, of a square's integers and of what belongs to them. */
typedef struct batch_target {
    uint8_t *integers, *scales;
} batch_target;
RF_DEVICE batch_target batch_target_of(uint8_t *slots, batch_kind k, uint32_t square,
                                       uint32_t lane) {
    const batch_target t = {slots + k.at.weights + square * k.at.square + lane * 16,
                            slots + k.at.scale + square * k.at.of_scale + lane * 16};
    return t;
}
RF_DEVICE batch_target batch_target_in(batch_target t, batch_kind k, uint32_t slot) {
    t.integers += slot * k.at.bytes;
    t.scales += slot * k.at.bytes;
    return t;
}

/* A square of group g, of n chunks.  Integers of chunks that are not there may be any, the activations' are zeros. */
RF_DEVICE void batch_fetch_square(batch_target to, const batch_source *s, batch_kind k, uint32_t g,
                                  uint32_t n) {
    const uint32_t lane = rf_tid() % 32, lo_bits = (uint32_t)k.lo_bits,
                   hi_bits = (uint32_t)k.hi_bits;
    const int is_whole = n == BATCH_CHUNKS;
    RF_UNROLL
    for (uint32_t i = 0; i < lo_bits; i++)
        if (is_whole || (2 * i + lane / 16) * 4 / lo_bits < n)
            rf_copy_16(to.integers + 512 * i, s->lo + (g * 1024ull * lo_bits + 1024 * i));
    RF_UNROLL
    for (uint32_t i = 0; i < hi_bits; i++)
        if (is_whole || lane / 4 < n)
            rf_copy_16(to.integers + k.at.hi + 512 * i, s->hi + (g * 1024ull * hi_bits + 1024 * i));
    if (s->own.step) /* that of minima's pieces as of factors' */
        batch_copy(to.scales, s->own.from + (uint64_t)g * s->own.step, is_whole,
                   lane / (s->own.step / 256) % BATCH_CHUNKS < n);
    if (batch_has_rest(k) && s->rest.step)
        rf_copy_16(to.scales + 512, s->rest.from + (uint64_t)g * s->rest.step);
}

/* Some factors of activation rows in groups of 32 together, or sums, of slot g, n chunks of which are there. */
RF_DEVICE void batch_fetch_32(uint8_t *part, const batch_shared *sh, const void *x, batch_kind k,
                              uint32_t n_rows, uint32_t tid, uint32_t g, uint32_t n,
                              uint32_t together) {
    const uint32_t per_row = BATCH_CHUNKS / together, per_turn = 32 * k.s.fetchers / per_row,
                   chunk = tid % per_row * together;
    RF_UNROLL
    for (uint32_t j = 0; j < rf_div_up(8 * k.s.nt, per_turn); j++) {
        const uint32_t col = per_turn * j + tid / per_row;
        uint8_t *to = part + col * RF_BATCH_D_STRIDE + chunk * 4;
        if (col >= n_rows) continue;
        const float *from = (const float *)x + (sh->row[col] / 2 + 8 * g + chunk);
        if (together == 4)
            rf_copy_16(to, from);
        else
            rf_copy_8_or_zero(to, from, chunk < n);
    }
}

/* The thread's pieces of the first n_rows activation rows of slot g, of n chunks; nobody looks at what is
 * made of the others. */
RF_DEVICE void batch_fetch_rows(uint8_t *slot, const batch_shared *sh, const rf_gpu_quant *x,
                                batch_kind k, uint32_t n_rows, uint32_t tid, uint32_t g, uint32_t n,
                                int is_ragged) {
    const uint32_t per_turn = 2 * k.s.fetchers;
    const uint32_t most = 8 * k.s.nt, piece = tid % 16;
    const uint8_t *q = (const uint8_t *)x->q + g * 256 + piece * 16;
    RF_UNROLL
    for (uint32_t j = 0; j < rf_div_up(most, per_turn); j++) {
        const uint32_t col = per_turn * j + tid / 16;
        if (col < n_rows)
            batch_copy(slot + batch_q_at(k, col, piece), q + sh->row[col] * 16ull,
                       n == BATCH_CHUNKS, piece / 2 < n);
    }
    if (k.with_m && k.view == 256) {
        const uint8_t *sum = (const uint8_t *)x->sum + g * 64 + tid % 4 * 16;
        RF_UNROLL
        for (uint32_t j = 0; j < rf_div_up(most, 4 * per_turn); j++) {
            const uint32_t col = 4 * per_turn * j + tid / 4;
            if (col < n_rows)
                rf_copy_16(slot + batch_sum_at(k, col, tid / 2 % 2) + tid % 2 * 16,
                           sum + sh->row[col] * 4ull);
        }
    }
    if (k.view == 32)
        batch_fetch_32(slot + k.at.xd, sh, x->d, k, n_rows, tid, g, n, is_ragged ? 2 : 4);
    if (k.with_m && k.view == 32)
        batch_fetch_32(slot + k.at.sum, sh, x->sum, k, n_rows, tid, g, n, is_ragged ? 2 : 4);
    if (k.view == 256 && tid < n_rows)
        rf_copy_4(slot + k.at.xd + tid * 4, x->d + (sh->row[tid] / 16 + g));
}

/* A warp's squares of group g, of n chunks; to: where the first of them goes. */
RF_DEVICE void batch_fetch_squares(batch_target to, const batch_source *from, batch_kind k,
                                   uint32_t warp, uint32_t g, uint32_t n) {
    RF_UNROLL
    for (uint32_t i = 0; i < rf_div_up(k.s.wm, k.s.fetchers); i++) {
        const batch_target here = {to.integers + k.s.fetchers * i * k.at.square,
                                   to.scales + k.s.fetchers * i * k.at.of_scale};
        if (warp + k.s.fetchers * i < k.s.wm) batch_fetch_square(here, &from[i], k, g, n);
    }
}

/* All slots, by the fetching threads.  Weights of the first ones, which no kernel writes, are asked
 * for before the kernel in front has ended. */
RF_DEVICE void batch_fetch(uint8_t *slots, uint32_t n_slots, batch_shared *sh,
                           const rf_gpu_matmul_args *a, const mm_share *share, batch_kind k,
                           int is_ragged) {
    enum { MOST = 7 }; /* squares of a warp */
    const uint32_t tid = rf_tid() - batch_workers(k), warp = tid / 32, lane = tid % 32;
    const uint32_t n_groups = share->p.w.cols / 256, n_mine = rf_div_up(k.s.wm, k.s.fetchers);
    const batch_target to = batch_target_of(slots, k, warp, lane);
    batch_source from[MOST];
    RF_UNROLL
    for (uint32_t i = 0; i < n_mine; i++)
        from[i] = batch_source_of(a, share, k, rf_min_u32(warp + k.s.fetchers * i, k.s.wm - 1),
                                  lane, is_ragged);
    RF_NO_UNROLL
    for (uint32_t g = 0; g < rf_min_u32(n_slots, n_groups); g++)
        batch_fetch_squares(batch_target_in(to, k, g), from, k, warp, g, BATCH_CHUNKS);
    rf_await_before();
    uint32_t now = 0, parity = 1;
    RF_NO_UNROLL
    for (uint32_t g = 0; g < n_groups; g++) {
        if (g >= n_slots) {
            ring_await(&sh->empty[now], parity);
            batch_fetch_squares(batch_target_in(to, k, now), from, k, warp, g, BATCH_CHUNKS);
        }
        batch_fetch_rows(slots + now * k.at.bytes, sh, &a->xq, k, share->n, tid, g, BATCH_CHUNKS,
                         is_ragged);
        ring_arrive_after_copies(&sh->full[now]);
        if (++now == n_slots) {
            now = 0;
            parity ^= 1;
        }
    }
    if (!is_ragged) return;
    const uint32_t n_left = share->p.w.cols / 32 % BATCH_CHUNKS;
    if (n_groups >= n_slots) ring_await(&sh->empty[now], parity);
    batch_fetch_squares(batch_target_in(to, k, now), from, k, warp, n_groups, n_left);
    batch_fetch_rows(slots + now * k.at.bytes, sh, &a->xq, k, share->n, tid, n_groups, n_left, 1);
    ring_arrive_after_copies(&sh->full[now]);
}

/* Multiplying -----------------------------------------------------------------------------------*/

/* A thread's place: rows g and g + 8 of the warp's sixteen, word t of four. */
typedef struct batch_place {
    uint32_t square, part, first; /* of wm, of wk; the warp's first eight of activation rows */
    uint32_t lane, g, t;
    int32_t off;    /* of weights without minima of less than 8 bits */
    uint32_t d_f32; /* of factors that may be */
} batch_place;

/* A group's integers: [eights of activation rows][4]. */
typedef struct batch_sums {
    int32_t v[BATCH_NT][4];
} batch_sums;

/* The integers of the warp's square, and what belongs to them. */
RF_DEVICE const uint8_t *batch_square(const uint8_t *slot, const batch_place *at, batch_kind k) {
    return slot + k.at.weights + at->square * k.at.square;
}
RF_DEVICE const uint8_t *batch_scales_of(const uint8_t *slot, const batch_place *at, batch_kind k) {
    return slot + k.at.scale + at->square * k.at.of_scale;
}

/* The scales of a thread's rows. */
RF_DEVICE rf_u4 batch_scales(const uint8_t *p, uint32_t n_scales) {
    if (n_scales == 16) return *(const rf_u4 *)(const void *)p;
    const rf_u2 v = *(const rf_u2 *)(const void *)p;
    const rf_u4 out = {{v.v[0], v.v[1], 0, 0}};
    return out;
}

/* Weights of rows g and g + 8 in a chunk's first half, then in its second; with minima as they are stored. */
RF_DEVICE void batch_words(uint32_t w[4], const uint8_t *slot, uint32_t chunk,
                           const batch_place *at, batch_kind k) {
    const uint8_t *square = batch_square(slot, at, k);
    const uint32_t *words = (const uint32_t *)(const void *)square;
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t n = chunk * 16 + at->g + 8 * i;
        if (k.lo_bits == 8) {
            w[i] = words[(n + chunk * 16) * 4 + at->t];
            w[2 + i] = words[(n + chunk * 16 + 16) * 4 + at->t];
            continue;
        }
        const rf_u2 hi = digit_high_bits(square + k.at.hi, k.hi_bits, n);
        if (k.lo_bits == 2)
            digit_words_of_2(((const rf_u2 *)(const void *)square)[n], hi, k.hi_bits, at->t, &w[i],
                             &w[2 + i]);
        else
            digit_words(words[n * 4 + at->t], hi, k.hi_bits, at->t, &w[i], &w[2 + i]);
        if (k.with_m) continue;
        w[i] = less_off(w[i], k.hi_bits == 2 ? 32 : at->off);
        w[2 + i] = less_off(w[2 + i], k.hi_bits == 2 ? 32 : at->off);
    }
}

/* A factor of number i of those at p. */
RF_DEVICE float batch_d(const uint8_t *p, uint32_t i, const batch_place *at, batch_kind k) {
    return scale_at(p, i, k.wide_d ? at->d_f32 : 0);
}

/* Where in shared memory the piece is that a thread names for the first chunk of a slot's first two eights of rows. */
RF_DEVICE uint32_t batch_rows_at(const uint8_t *slot, batch_kind k, uint32_t lane) {
    const uint32_t row = lane % 8 + (batch_eights(k) == 1 ? 0 : lane / 16 * 8);
    return rf_shared_at(slot + batch_q_at(k, row, lane / 8 % 2));
}
/* A chunk of eights n and n + 1 of the activation rows. */
RF_DEVICE void batch_rows(uint32_t x[4], uint32_t at, batch_kind k, uint32_t n, uint32_t chunk) {
    const uint32_t p = (at ^ chunk % 4 * 32) + (chunk / 4 * 8 * k.s.nt + 8 * n) * RF_LINE;
    if (batch_eights(k) == 1)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                     : "=r"(x[0]), "=r"(x[1])
                     : "r"(p)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                     : "r"(p)
                     : "memory");
}

/* c = w x, of 16 rows by 16 columns and 8 activation rows. */
RF_DEVICE void batch_multiply_16(int32_t c[4], uint32_t w0, uint32_t w1, uint32_t x) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%7,%7,%7,%7};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(w0), "r"(w1), "r"(x), "r"(0));
}

/* Sums of a chunk's columns, or of either half of them, times their scales. */
RF_DEVICE void batch_chunk(int32_t sum[4], const uint32_t w[4], const uint32_t x[2],
                           const int32_t scale[2][2], batch_kind k) {
    if (k.n_scales == 8) {
        int32_t c[4] = {0, 0, 0, 0};
        digit_multiply(c, w, x[0], x[1], k.with_m);
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            sum[i] += c[i] * scale[0][i / 2];
        return;
    }
    RF_UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        int32_t c[4];
        batch_multiply_16(c, w[2 * j], w[2 * j + 1], x[j]);
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            sum[i] += c[i] * scale[j][i / 2];
    }
}

RF_DEVICE void batch_group(batch_sums *p, const uint8_t *slot, const batch_place *at,
                           batch_kind k) {
    const uint32_t x_at = batch_rows_at(slot, k, at->lane);
    rf_u4 scales[2];
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        scales[i] =
            batch_scales(batch_scales_of(slot, at, k) + (at->g + 8 * i) * k.n_scales, k.n_scales);
    RF_UNROLL
    for (uint32_t i = 0; i < 4 * batch_eights(k); i++)
        p->v[i / 4][i % 4] = 0;
    RF_UNROLL
    for (uint32_t chunk = 0; chunk < BATCH_CHUNKS; chunk++) {
        uint32_t w[4];
        int32_t scale[2][2];
        batch_words(w, slot, chunk, at, k);
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t number = k.n_scales == 16 ? 2 * chunk + i / 2 : chunk;
            scale[i / 2][i % 2] = (int8_t)digit_byte(&scales[i % 2], number);
        }
        RF_UNROLL
        for (uint32_t n = 0; n < batch_eights(k); n += 2) {
            uint32_t x[4];
            batch_rows(x, x_at, k, at->first + n, chunk);
            RF_UNROLL
            for (uint32_t j = 0; j < 2 && n + j < batch_eights(k); j++)
                batch_chunk(p->v[n + j], w, x + 2 * j, scale, k);
        }
    }
}

/* Minima number 2i and 2i + 1 of a row's sixteen, for digit_multiply_mins_16; of eight each is there twice. */
RF_DEVICE uint32_t batch_mins(const uint8_t *min, uint32_t i, batch_kind k) {
    const uint32_t apart = k.n_scales / 8;
    const int8_t *p = (const int8_t *)min + apart * i;
    return digit_two_f16((float)p[0], (float)p[apart - 1]);
}

/* The warp's sums to and from shared memory. */
RF_DEVICE void batch_leave(rf_f4 *relay, float v[BATCH_NT][4], const batch_place *at,
                           batch_kind k) {
    RF_UNROLL
    for (uint32_t n = 0; n < batch_eights(k); n++) {
        const rf_f4 four = {{v[n][0], v[n][1], v[n][2], v[n][3]}};
        relay[(at->square * k.s.nt + at->first + n) * 32 + at->lane] = four;
    }
}
RF_DEVICE void batch_take(float v[BATCH_NT][4], const rf_f4 *relay, const batch_place *at,
                          batch_kind k) {
    RF_UNROLL
    for (uint32_t n = 0; n < batch_eights(k); n++) {
        const rf_f4 four = relay[(at->square * k.s.nt + at->first + n) * 32 + at->lane];
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            v[n][i] = four.v[i];
    }
}

/* The sums so far, once the warp that has the group before has handed them on; mine NULL: it is the
 * first group. */
RF_DEVICE void batch_await_turn(float v[BATCH_NT][4], const rf_f4 *relay, uint64_t *mine,
                                uint32_t turn, const batch_place *at, batch_kind k) {
    if (k.s.wk == 1 || !mine) return;
    ring_await(mine, turn);
    batch_take(v, relay, at, k);
}

/* What belongs to a group's integers: of a thread's weight rows, and of its eights of activation rows
 * with them. */
typedef struct batch_rows_d {
    float d[2], m[2];
    uint32_t mins[4];
} batch_rows_d;
typedef struct batch_eight_d {
    float of_mins[4];
    rf_f2 xd;
} batch_eight_d;

RF_DEVICE batch_rows_d batch_rows_d_of(const uint8_t *slot, const batch_place *at, batch_kind k) {
    const uint8_t *scales = batch_scales_of(slot, at, k), *d = scales + k.at.d;
    batch_rows_d r = {{0.0f, 0.0f}, {0.0f, 0.0f}, {0, 0, 0, 0}};
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t row = at->g + 8 * i;
        r.d[i] = batch_d(d, row, at, k);
        if (!k.with_m) continue;
        r.m[i] = batch_d(d, 16 + row, at, k);
        r.mins[i] = batch_mins(scales + k.at.min + row * k.n_scales, at->t, k);
        r.mins[2 + i] = batch_mins(scales + k.at.min + row * k.n_scales, 4 + at->t, k);
    }
    return r;
}

RF_DEVICE batch_eight_d batch_eight_d_of(const batch_rows_d *r, const uint8_t *slot, uint32_t n,
                                         const batch_place *at, batch_kind k) {
    batch_eight_d e = {{0.0f, 0.0f, 0.0f, 0.0f}, {{0.0f, 0.0f}}};
    e.xd = ((const rf_f2 *)(const void *)(slot + k.at.xd))[4 * (at->first + n) + at->t];
    if (!k.with_m) return e;
    const uint32_t row = 8 * (at->first + n) + at->g;
    rf_u2 sum[2];
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        sum[i] = ((const rf_u2 *)(const void *)(slot + batch_sum_at(k, row, i)))[at->t];
    digit_multiply_mins_16(e.of_mins, r->mins, sum[0], sum[1]);
    return e;
}

/* A group's integers onto the sums, which are then in v; the warp before this one has left them in
 * relay when the turn comes.  Everything else is ready by then. */
RF_DEVICE void batch_add(float v[BATCH_NT][4], const batch_sums *p, const rf_f4 *relay,
                         uint64_t *mine, uint32_t turn, const uint8_t *slot, const batch_place *at,
                         batch_kind k) {
    const batch_rows_d r = batch_rows_d_of(slot, at, k);
    batch_eight_d e[BATCH_NT];
    if (k.s.wk > 1) {
        RF_UNROLL
        for (uint32_t n = 0; n < batch_eights(k); n++)
            e[n] = batch_eight_d_of(&r, slot, n, at, k);
        batch_await_turn(v, relay, mine, turn, at, k);
    }
    RF_UNROLL
    for (uint32_t n = 0; n < batch_eights(k); n++) {
        if (k.s.wk == 1) e[n] = batch_eight_d_of(&r, slot, n, at, k);
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const float xd = e[n].xd.v[i % 2];
            v[n][i] = rf_fma((float)p->v[n][i], r.d[i / 2] * xd, v[n][i]);
            if (k.with_m) v[n][i] = rf_fma(e[n].of_mins[i], r.m[i / 2] * xd, v[n][i]);
        }
    }
}

/* Groups of 32 --------------------------------------------------------------------------------*/

/* Factors of rows g and g + 8, and of the thread's two rows of eight n. */
RF_DEVICE rf_f2 batch_d_32(const uint8_t *slot, uint32_t chunk, const batch_place *at,
                           batch_kind k) {
    const uint32_t row = 16 * chunk + at->g;
    const uint8_t *d = batch_scales_of(slot, at, k);
    const rf_f2 out = {{batch_d(d, row, at, k), batch_d(d, row + 8, at, k)}};
    return out;
}
RF_DEVICE rf_f2 batch_xd_32(const uint8_t *slot, uint32_t chunk, uint32_t n, const batch_place *at,
                            batch_kind k) {
    const uint8_t *of_rows = slot + k.at.xd + (8 * (at->first + n) + 2 * at->t) * RF_BATCH_D_STRIDE;
    const float *xd = (const float *)(const void *)of_rows + chunk;
    const rf_f2 out = {{xd[0], xd[RF_BATCH_D_STRIDE / 4]}};
    return out;
}

/* A chunk's integers of one eight onto its sums. */
RF_DEVICE void batch_add_eight_32(float v[4], const int32_t c[4], rf_f2 d, rf_f2 xd) {
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        v[i] = rf_fma((float)c[i], d.v[i / 2] * xd.v[i % 2], v[i]);
}

/* c = w x, of 16 rows by eight columns in f32, eleven bits of each, and 8 activation rows. */
RF_DEVICE void batch_multiply_f32(float c[4], const uint32_t w[4], const uint32_t x[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%10,%10,%10};"
        : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
        : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x[0]), "r"(x[1]), "f"(0.0f));
}

/* Totals t and t + 4 of the eight that share steps, of row g of eight n. */
RF_DEVICE void batch_totals(uint32_t x[2], const uint8_t *slot, uint32_t n, const batch_place *at,
                            batch_kind k) {
    const uint32_t own = (8 * (at->first + n) + at->g) * RF_BATCH_D_STRIDE;
    const int32_t *sum = (const int32_t *)(const void *)(slot + k.at.sum + own);
    const float *xd = (const float *)(const void *)(slot + k.at.xd + own);
    float total[2];
    uint32_t most = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        total[i] = (float)sum[at->t + 4 * i] * xd[at->t + 4 * i];
        most = rf_max_u32(most, rf_size_of(total[i]));
    }
    rf_lanes_most(&most, 1, 4);
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        x[i] = rf_bits_of(rf_rounded(total[i], RF_ROUND_TOTALS(most)));
}

/* The minima of a slot, whose groups share steps. */
RF_DEVICE void batch_add_minima_32(float v[BATCH_NT][4], const uint8_t *slot, const batch_place *at,
                                   batch_kind k) {
    if (!k.with_m) return;
    const uint16_t *m =
        (const uint16_t *)(const void *)(batch_scales_of(slot, at, k) + k.at.of_scale / 2);
    uint32_t w[4];
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        w[i] = rf_bits_of(rf_f16_at(m[16 * (at->t + i / 2 * 4) + at->g + i % 2 * 8]));
    RF_UNROLL
    for (uint32_t n = 0; n < batch_eights(k); n++) {
        uint32_t x[2];
        float p[4];
        batch_totals(x, slot, n, at, k);
        batch_multiply_f32(p, w, x);
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            v[n][i] += p[i];
    }
}

/* The integers of each chunk of a slot, [chunks][eights of activation rows][4], where warps take turns
 * at the sums. */
typedef struct batch_chunks {
    int32_t v[BATCH_CHUNKS][2][4];
} batch_chunks;

RF_DEVICE void batch_group_32(batch_chunks *p, const uint8_t *slot, const batch_place *at,
                              batch_kind k) {
    const uint32_t x_at = batch_rows_at(slot, k, at->lane);
    RF_UNROLL
    for (uint32_t chunk = 0; chunk < BATCH_CHUNKS; chunk++) {
        uint32_t w[4], x[4];
        batch_words(w, slot, chunk, at, k);
        batch_rows(x, x_at, k, at->first, chunk);
        RF_UNROLL
        for (uint32_t n = 0; n < batch_eights(k); n++) {
            RF_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                p->v[chunk][n][i] = 0;
            digit_multiply(p->v[chunk][n], w, x[2 * n], x[2 * n + 1], 0);
        }
    }
}

RF_DEVICE void batch_add_32(float v[BATCH_NT][4], const batch_chunks *p, const uint8_t *slot,
                            const batch_place *at, batch_kind k) {
    RF_UNROLL
    for (uint32_t chunk = 0; chunk < BATCH_CHUNKS; chunk++) {
        const rf_f2 d = batch_d_32(slot, chunk, at, k);
        RF_UNROLL
        for (uint32_t n = 0; n < batch_eights(k); n++)
            batch_add_eight_32(v[n], p->v[chunk][n], d, batch_xd_32(slot, chunk, n, at, k));
    }
    batch_add_minima_32(v, slot, at, k);
}

/* Both at once, where a warp has all groups. */
RF_DEVICE void batch_group_alone_32(float v[BATCH_NT][4], const uint8_t *slot,
                                    const batch_place *at, batch_kind k) {
    const uint32_t x_at = batch_rows_at(slot, k, at->lane);
    RF_UNROLL
    for (uint32_t chunk = 0; chunk < BATCH_CHUNKS; chunk++) {
        uint32_t w[4];
        const rf_f2 d = batch_d_32(slot, chunk, at, k);
        batch_words(w, slot, chunk, at, k);
        RF_UNROLL
        for (uint32_t n = 0; n < batch_eights(k); n += 2) {
            uint32_t x[4];
            batch_rows(x, x_at, k, at->first + n, chunk);
            RF_UNROLL
            for (uint32_t j = 0; j < 2 && n + j < batch_eights(k); j++) {
                int32_t c[4] = {0, 0, 0, 0};
                digit_multiply(c, w, x[2 * j], x[2 * j + 1], 0);
                batch_add_eight_32(v[n + j], c, d, batch_xd_32(slot, chunk, n + j, at, k));
            }
        }
    }
    batch_add_minima_32(v, slot, at, k);
}

/* Every wk-th slot, by a multiplying warp. */
RF_DEVICE void batch_work(const uint8_t *slots, uint32_t n_slots, batch_shared *sh, rf_f4 *relay,
                          batch_kind k, const batch_place *at, uint32_t n_groups) {
    uint64_t *turns = &sh->turn[rf_tid() / 32 % (k.s.wm * k.s.wn) * k.s.wk];
    uint64_t *mine = &turns[at->part], *next = &turns[(at->part + 1) % k.s.wk];
    uint32_t now = at->part, parity = 0, turn = at->part == 0;
    float v[BATCH_NT][4];
    RF_UNROLL
    for (uint32_t i = 0; i < 4 * batch_eights(k); i++)
        v[i / 4][i % 4] = 0.0f;
    RF_NO_UNROLL
    for (uint32_t g = at->part; g < n_groups; g += k.s.wk) {
        const uint8_t *slot = slots + now * k.at.bytes;
        uint64_t *before = g > 0 ? mine : 0;
        ring_await(&sh->full[now], parity);
        if (k.view == 32 && k.s.wk == 1) {
            batch_group_alone_32(v, slot, at, k);
        } else if (k.view == 32) {
            batch_chunks p;
            batch_group_32(&p, slot, at, k);
            batch_await_turn(v, relay, before, turn, at, k);
            batch_add_32(v, &p, slot, at, k);
        } else {
            batch_sums p;
            batch_group(&p, slot, at, k);
            batch_add(v, &p, relay, before, turn, slot, at, k);
        }
        if (k.s.wk > 1 || g == n_groups - 1) batch_leave(relay, v, at, k);
        rf_warp_sync();
        if (ring_speaks()) {
            if (k.s.wk > 1) ring_arrive(next);
            ring_arrive(&sh->empty[now]);
        }
        turn ^= 1;
        now += k.s.wk;
        if (now >= n_slots) {
            now -= n_slots;
            parity ^= 1;
        }
    }
}

/* Number t of the block's activation rows and i of its output rows: where the sum is. */
RF_DEVICE uint32_t batch_sum_of(batch_kind k, uint32_t t, uint32_t i) {
    const uint32_t word = t % 2 + i / 8 % 2 * 2;
    return ((i / 16 * k.s.nt + t / 8) * 32 + i % 8 * 4 + t % 8 / 2) * 4 + word;
}

/* Of n_at_once of a warp's activation rows all outputs of a thread at once, up to eight: all that
 * is loaded is on its way before the first is written, and one's GLU, a SwiGLU without biases,
 * hides another's waits.  rows: of outputs, a constant like n_at_once. */
RF_DEVICE void batch_put_rows(const float *sums, const rf_gpu_matmul_args *a, const mm_share *share,
                              batch_kind k, uint32_t rows, uint32_t n_at_once) {
    const uint32_t per_row = rf_div_up(rows, 32), n_warps = batch_workers(k) / 32,
                   lane = rf_tid() % 32, r = share->tile * rows + lane;
    const rf_gpu_product *p = &share->p;
    const float *bias = p->bias + (uint64_t)share->plane * p->w.rows + r;
    RF_NO_UNROLL
    for (uint32_t t = rf_tid() / 32; t < share->n; t += n_at_once * n_warps) {
        float v[BATCH_AT_ONCE], more[BATCH_AT_ONCE], add[BATCH_AT_ONCE];
        uint64_t at[BATCH_AT_ONCE]; /* each output's place in dst, and in add */
        RF_UNROLL
        for (uint32_t j = 0; j < n_at_once * per_row; j++) {
            const uint32_t own = rf_min_u32(t + j / per_row * n_warps, share->n - 1),
                           i = j % per_row * 32;
            const float *sum = sums + batch_sum_of(k, own, lane % rows + i);
            if (i == 0)
                at[j] = (uint64_t)dst_row_of(a, share, own) * p->dst_stride + r;
            else
                at[j] = at[j - 1] + 32;
            v[j] = sum[0];
            if (a->is_glu) v[j] = rf_gated(v[j], v[j]) * sum[rows * 8 * k.s.nt];
            const int is_there = lane + i < rows && r + i < p->w.rows;
            if (!a->is_glu && p->bias && is_there) more[j] = bias[i];
            if (!a->is_glu && p->add && is_there) add[j] = p->add[at[j]];
        }
        RF_UNROLL
        for (uint32_t j = 0; j < n_at_once * per_row; j++) {
            const uint32_t i = j % per_row * 32;
            if (!a->is_glu && p->bias) v[j] = v[j] + more[j];
            if (!a->is_glu && p->add) v[j] = add[j] + v[j];
            if (t + j / per_row * n_warps < share->n && lane + i < rows && r + i < p->w.rows)
                p->dst[at[j]] = v[j];
        }
    }
}

/* How many rows make up to eight outputs of a thread, of those that a warp has. */
RF_DEVICE uint32_t batch_at_once(batch_kind k, uint32_t rows) {
    const uint32_t own = rf_div_up(8 * k.s.nt, batch_workers(k) / 32),
                   most = BATCH_AT_ONCE / rf_div_up(rows, 32);
    return own < most ? own : most;
}

/* Outputs of a GLU, one by one. */
RF_DEVICE void batch_put_each(const float *sums, const rf_gpu_matmul_args *a, const mm_share *share,
                              batch_kind k, uint32_t rows) {
    RF_NO_UNROLL
    for (uint32_t t = rf_tid() / 32; t < share->n; t += batch_workers(k) / 32) {
        const uint32_t dst_row = dst_row_of(a, share, t);
        RF_NO_UNROLL
        for (uint32_t i = rf_tid() % 32; i < rows; i += 32) {
            const uint32_t r = share->tile * rows + i, at = batch_sum_of(k, t, i);
            if (r >= share->p.w.rows) break;
            put_output(a, share, dst_row, r, sums[at], sums[at + rows * 8 * k.s.nt]);
        }
    }
}

/* The block's outputs. */
RF_DEVICE void batch_put(const rf_f4 *relay, const rf_gpu_matmul_args *a, const mm_share *share,
                         batch_kind k) {
    const float *sums = (const float *)(const void *)relay;
    const uint32_t rows = 16 * k.s.wm;
    if (!a->is_glu)
        batch_put_rows(sums, a, share, k, rows, batch_at_once(k, rows));
    else if (a->act == RF_ACT_SILU && !share->p.bias && !a->part[1].bias)
        batch_put_rows(sums, a, share, k, rows / 2, batch_at_once(k, rows / 2));
    else
        batch_put_each(sums, a, share, k, rows / 2);
}

/* All slots and the block's outputs, by the multiplying threads. */
RF_DEVICE void batch_take(const uint8_t *slots, uint32_t n_slots, batch_shared *sh, rf_f4 *relay,
                          const rf_gpu_matmul_args *a, const mm_share *share, batch_kind k) {
    const uint32_t tid = rf_tid(), warp = tid / 32, side = k.s.wm * k.s.wn;
    const batch_place at = {
        warp % k.s.wm,  warp / side,     warp / k.s.wm % k.s.wn * batch_eights(k),
        tid % 32,       tid % 32 / 4,    tid % 4,
        share->p.w.off, share->p.w.d_f32};
    batch_work(slots, n_slots, sh, relay, k, &at, rf_div_up(share->p.w.cols, 256));
    rf_await_before();
    ring_sync_some(batch_workers(k));
    batch_put(relay, a, share, k);
}

RF_DEVICE void batch_run(const rf_gpu_matmul_args *a, batch_kind k) {
    if (a->mode == RF_GPU_MM_EXPERTS) rf_await_before();
    batch_shared *sh = (batch_shared *)(void *)rf_dynamic_shared;
    rf_f4 *relay = (rf_f4 *)(void *)(rf_dynamic_shared + RF_BATCH_HEAD);
    uint8_t *slots = rf_dynamic_shared + RF_BATCH_HEAD + rf_batch_relay_bytes(k.s);
    const mm_share share = share_of(a, 16 * k.s.wm / (1 + a->is_glu), 8 * k.s.nt);
    const uint32_t tid = rf_tid();
    const uint32_t n_slots = rf_batch_slots(k.s, k.at.bytes, rf_dynamic_bytes());
    if (share.n == 0) return;
    if (tid < 8 * k.s.nt)
        sh->row[tid] =
            (uint32_t)((uint64_t)x_row_of(a, dst_row_of(a, &share, tid)) * share.p.w.cols / 16);
    ring_apart();
    if (tid < n_slots) {
        ring_init(&sh->full[tid], 32 * k.s.fetchers);
        ring_init_warps(&sh->empty[tid], k.s.wm * k.s.wn);
    }
    if (tid < batch_workers(k) / 32) ring_init_warps(&sh->turn[tid], 1);
    rf_sync();
    const int is_worker = tid < batch_workers(k),
              is_ragged = k.view == 32 && share.p.w.cols % 256 != 0;
    if (!is_worker && !is_ragged) /* code lies in this order: what is seldom run comes last */
        batch_fetch(slots, n_slots, sh, a, &share, k, 0);
    else if (is_worker)
        batch_take(slots, n_slots, sh, relay, a, &share, k);
    else
        batch_fetch(slots, n_slots, sh, a, &share, k, 1);
}

#define BATCH_KERNEL(layout, view, lo_bits, hi_bits, n_scales, with_m, wide_d, name, height, rows) \
    RF_KERNEL_EARLY(batch_##layout##_##name##_##rows, rf_gpu_matmul_args,                          \
                    rf_batch_shape_of(view, lo_bits, height, rows / 8).blocks) {                   \
        const rf_batch_shape shape = rf_batch_shape_of(view, lo_bits, height, rows / 8);           \
        const batch_kind kind = {                                                                  \
            view,    lo_bits,                                                                      \
            hi_bits, n_scales,                                                                     \
            with_m,  wide_d,                                                                       \
            shape,   rf_batch_parts_of(shape, view, lo_bits, hi_bits, n_scales, with_m, wide_d)};  \
        batch_run(&a, kind);                                                                       \
    }
#define BATCH_WIDTHS(layout, view, lo_bits, hi_bits, n_scales, with_m, wide_d, name, height) \
    BATCH_KERNEL(layout, view, lo_bits, hi_bits, n_scales, with_m, wide_d, name, height, 8)  \
    BATCH_KERNEL(layout, view, lo_bits, hi_bits, n_scales, with_m, wide_d, name, height, 16) \
    BATCH_KERNEL(layout, view, lo_bits, hi_bits, n_scales, with_m, wide_d, name, height, 32) \
    BATCH_KERNEL(layout, view, lo_bits, hi_bits, n_scales, with_m, wide_d, name, height, 64)
#define BATCH_LAYOUT(layout, view, lo_bits, hi_bits, n_scales, with_m, wide_d)                  \
    BATCH_WIDTHS(layout, view, lo_bits, hi_bits, n_scales, with_m, wide_d, low, RF_BATCH_LOW)   \
    BATCH_WIDTHS(layout, view, lo_bits, hi_bits, n_scales, with_m, wide_d, middle,              \
                 RF_BATCH_MIDDLE)                                                               \
    BATCH_WIDTHS(layout, view, lo_bits, hi_bits, n_scales, with_m, wide_d, tall, RF_BATCH_TALL) \
    BATCH_KERNEL(layout, view, lo_bits, hi_bits, n_scales, with_m, wide_d, small, RF_BATCH_SMALL, 8)
#include "backend/gpu/batch.def"
#endif
