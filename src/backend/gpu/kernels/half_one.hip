/* half_one.hip - products of 16-bit floats with one activation row on NVIDIA's matrix units, by half.h's
 * rule: bound by reading the weights.
 *
 * Each block norms the row, if it is yet to be normed, and rounds it for itself.  Some of its warps, the
 * workers, then multiply, each for itself: a worker takes tiles of sixteen weight rows in turns and brings
 * them in pieces of 128 columns through a ring of slots of its own, without a pause between tiles, the
 * first of them before the kernel in front has ended.  No worker waits for another. */
#include "backend/gpu/kernels/half_row.h"

#if !defined(RF_AMD)
enum {
    H1_COLUMNS = RF_HALF_ONE_COLUMNS,
    H1_ROW_BYTES = 2 * H1_COLUMNS, /* of a slot's rows, */
    H1_HALF = H1_ROW_BYTES / 2,    /* and of what is multiplied at a time of them */
    H1_STEPS = H1_COLUMNS / 2 / 16,
};
#if !defined(RF_NVIDIA)
_Static_assert((int)RF_BLOCK_half_one == 256, "as half_row.h has it");
#endif

/* Pieces on their way ----------------------------------------------------------------------------*/

/* What a worker multiplies; form is a constant. */
typedef struct h1_work {
    const rf_gpu_matmul_args *a;
    uint32_t form, cols, n_tiles;
    uint32_t first, apart; /* its first tile, and from one of its tiles to the next */
    half_at ring, end;
} h1_work;

/* Where it is in its pieces: tile n_tiles or more is none. */
typedef struct h1_piece {
    uint32_t tile, column;
    half_at slot;
} h1_piece;

/* What comes next, for a thread that brings eight rows' sixteen bytes of each piece: where its rows of the lower and
 * the upper eight begin, with is_glu of the gate and of the up matrix, and its places in a slot. */
typedef struct h1_source {
    h1_piece at;
    const uint8_t *from[2];
    uint32_t to[4];
} h1_source;

RF_DEVICE uint32_t h1_per_tile(const rf_gpu_matmul_args *a) { return a->is_glu ? 8 : 16; }

RF_DEVICE mm_share h1_share(const h1_work *k, uint32_t tile) {
    return share_at(k->a, h1_per_tile(k->a), 1, tile, rf_bid_z());
}

RF_DEVICE void h1_find(h1_source *s, const h1_work *k) {
    const uint32_t row_bytes = 2 * k->cols, lane = rf_tid() % 32;
    if (s->at.tile >= k->n_tiles) return;
    const mm_share share = h1_share(k, s->at.tile);
    const rf_gpu_weight *lower = &share.p.w, *upper = k->a->is_glu ? &k->a->part[1].w : lower;
    const uint64_t row = (uint64_t)share.plane * lower->rows + share.tile * h1_per_tile(k->a);
    const uint64_t at = (row + lane / 16) * row_bytes + lane % 16 * 16;
    s->from[0] = (const uint8_t *)lower->lo + at;
    s->from[1] = (const uint8_t *)upper->lo + at + (k->a->is_glu ? 0 : 8 * row_bytes);
}

RF_DEVICE h1_source h1_source_of(const h1_work *k) {
    const uint32_t lane = rf_tid() % 32;
    h1_source s = {{k->first, 0, k->ring}, {0, 0}, {0}};
    RF_UNROLL
    for (uint32_t j = 0; j < 4; j++)
        s.to[j] = half_piece(lane / 16 + 2 * j, lane % 16, H1_COLUMNS);
    h1_find(&s, k);
    return s;
}

RF_DEVICE void h1_turn(h1_piece *at, const h1_work *k) {
    at->slot += RF_HALF_ONE_SLOT;
    if (at->slot == k->end) at->slot = k->ring;
    at->column += H1_COLUMNS;
}

/* A piece, zeros behind the last column. */
RF_DEVICE void h1_bring(h1_source *s, const h1_work *k) {
    const uint32_t apart = 4 * k->cols; /* bytes of two rows */
    if (s->at.tile < k->n_tiles) {
        const int is_inside = s->at.column + rf_tid() % 16 * 8 < k->cols;
        RF_UNROLL
        for (uint32_t j = 0; j < 8; j++)
            half_copy(s->at.slot + s->to[j % 4] + j / 4 * 8 * H1_ROW_BYTES,
                      s->from[j / 4] + (uint64_t)(j % 4) * apart, is_inside);
        s->from[0] += H1_ROW_BYTES;
        s->from[1] += H1_ROW_BYTES;
        h1_turn(&s->at, k);
        if (s->at.column >= k->cols) {
            s->at.column = 0;
            s->at.tile += k->apart;
            h1_find(s, k);
        }
    }
    rf_copy_end();
}

/* Multiplying ------------------------------------------------------------------------------------*/

/* Operands of half a piece, which are read before the first is used. */
typedef struct h1_operands {
    uint32_t w[H1_STEPS][4], x[H1_STEPS / 2][4];
} h1_operands;

/* Where a thread reads them: its places in a slot, and the row. */
typedef struct h1_lane {
    uint32_t w[H1_STEPS];
    half_at x;
} h1_lane;

RF_DEVICE h1_lane h1_lane_of(const uint8_t *own) {
    const uint32_t lane = rf_tid() % 32;
    h1_lane l;
    RF_UNROLL
    for (uint32_t i = 0; i < H1_STEPS; i++)
        l.w[i] = rf_now(half_piece(lane % 16, 2 * i + lane / 16, H1_COLUMNS));
    l.x = half_at_of(own) + rf_now(lane / 8 * 16);
    return l;
}

RF_DEVICE void h1_read(h1_operands *o, const h1_lane *l, half_at slot, uint32_t column) {
    RF_UNROLL
    for (uint32_t i = 0; i < H1_STEPS; i++) {
        half_load(o->w[i], slot + l->w[i]);
        if (i % 2 == 0) half_load(o->x[i / 2], l->x + 2 * (column + 16 * i));
    }
}

RF_DEVICE void h1_add(float c[4], const h1_operands *o, uint32_t form) {
    RF_UNROLL
    for (uint32_t i = 0; i < H1_STEPS; i++)
        half_multiply(c, o->w[i], o->x[i / 2] + i % 2 * 2, form);
}

/* What is added to a tile's outputs, where that has no GLU: asked for when it begins, since nothing would hide that
 * wait at its end. */
typedef struct h1_extra {
    const float *from[2]; /* bias and what it is added to, of a thread's first output, or NULL */
    float bias[2], add[2];
} h1_extra;

RF_DEVICE void h1_expect(h1_extra *e, const h1_work *k, uint32_t tile) {
    e->from[0] = e->from[1] = NULL;
    if (tile >= k->n_tiles || k->a->is_glu) return;
    const mm_share s = h1_share(k, tile);
    const uint32_t r = s.tile * 16 + rf_tid() % 32 / 4;
    if (s.p.bias) e->from[0] = s.p.bias + (uint64_t)s.plane * s.p.w.rows + r;
    if (s.p.add) e->from[1] = s.p.add + (uint64_t)dst_row_of(k->a, &s, 0) * s.p.dst_stride + r;
}

RF_DEVICE void h1_ask(h1_extra *e) {
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        if (e->from[0]) e->bias[i] = e->from[0][8 * i];
        if (e->from[1]) e->add[i] = e->from[1][8 * i];
    }
}

/* The tile's outputs, which every fourth thread has two of. */
RF_DEVICE void h1_put(const h1_work *k, uint32_t tile, const float c[4], float scale,
                      const h1_extra *e) {
    const mm_share s = h1_share(k, tile);
    const uint32_t lane = rf_tid() % 32, dst_row = dst_row_of(k->a, &s, 0);
    const uint32_t r = s.tile * h1_per_tile(k->a) + lane / 4;
    const float low = k->form == RF_GPU_F16 ? c[0] * scale : c[0];
    const float high = k->form == RF_GPU_F16 ? c[2] * scale : c[2];
    if (lane % 4 != 0) return;
    if (k->a->is_glu) {
        put_output(k->a, &s, dst_row, r, low, high);
        return;
    }
    float *dst = s.p.dst + (uint64_t)dst_row * s.p.dst_stride + r;
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        float v = i ? high : low;
        if (e->from[0]) v = v + e->bias[i];
        dst[8 * i] = e->from[1] ? e->add[i] + v : v;
    }
}

/* A worker's tiles; n_slots is a constant.  A slot is filled again when both its halves are in registers.  extra: of
 * the first tile.  Host blocks' warps meet in each load, so that all of them go through as many pieces. */
RF_DEVICE void h1_multiply(const h1_work *k, h1_source *next, uint32_t n_slots, const h1_lane *lane,
                           h1_extra *extra, float scale) {
    uint32_t n_turns = rf_div_up(k->n_tiles - rf_bid_x(), k->apart);
    h1_operands o[2];
    h1_piece at = {k->first, 0, k->ring};
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    rf_copy_wait_but(n_slots - 1);
    rf_warp_sync();
    h1_read(&o[0], lane, at.slot, 0);
    RF_NO_UNROLL
    while (rf_warp_may_skip() ? at.tile < k->n_tiles : n_turns > 0) {
        h1_read(&o[1], lane, at.slot + H1_HALF, at.column + H1_COLUMNS / 2);
        h1_add(c, &o[0], k->form);
        h1_turn(&at, k);
        const int is_last = at.column >= k->cols;
        if (is_last) at.column = 0;
        rf_copy_wait_but(n_slots - 2);
        rf_warp_sync();
        h1_read(&o[0], lane, at.slot, at.column);
        h1_bring(next, k);
        h1_add(c, &o[1], k->form);
        if (!is_last) continue;
        if (at.tile < k->n_tiles) h1_put(k, at.tile, c, scale, extra);
        at.tile += k->apart;
        h1_expect(extra, k, at.tile);
        h1_ask(extra);
        n_turns--;
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            c[i] = 0.0f;
    }
}

/* n_slots and form are constants. */
RF_DEVICE void h1_run(half_shared *made, const rf_gpu_matmul_args *a, uint32_t n_slots,
                      uint32_t form) {
    const uint32_t warp = rf_tid() / 32, cols = a->part[0].w.cols, n_workers = a->tile_rows / 16;
    uint8_t *const shared = rf_dynamic_shared;
    h1_work k = {a, form, cols, tiles_in(a, h1_per_tile(a)), 0, 0, 0, 0};
    k.apart = a->n_blocks * n_workers;
    k.first = warp < n_workers ? rf_bid_x() + a->n_blocks * warp : k.n_tiles;
    k.ring = half_at_of(shared) + 2 * rf_half_stride(cols) +
             warp % n_workers * n_slots * RF_HALF_ONE_SLOT;
    k.end = k.ring + n_slots * RF_HALF_ONE_SLOT;
    if (a->mode == RF_GPU_MM_EXPERTS) rf_await_before(); /* the route */
    const mm_share share = h1_share(&k, rf_bid_x());
    if (share.n == 0) return;
    h1_source next = h1_source_of(&k);
    RF_NO_UNROLL
    for (uint32_t i = 0; i < n_slots; i++)
        h1_bring(&next, &k);
    const half_weights w = half_expect(&a->norm, cols);
    const uint64_t x_row = x_row_of(a, dst_row_of(a, &share, 0));
    const float *x = rf_place_now((a->norm.n ? a->norm.x : a->x) + x_row * cols);
    const h1_lane lane = h1_lane_of(shared);
    h1_extra extra = {{NULL, NULL}, {0.0f, 0.0f}, {0.0f, 0.0f}};
    h1_expect(&extra, &k, k.first);
    extra.from[0] = rf_place_now(extra.from[0]);
    extra.from[1] = rf_place_now(extra.from[1]);
    rf_await_before();
    h1_ask(&extra);
    const rf_gpu_halves own = {(uint16_t *)(void *)shared, 0, rf_half_stride(cols), 0};
    const float scale = half_make(&own, 0, made, HALF_MOST_PIECES, &a->norm, &w, x, cols, form);
    rf_sync();
    if (k.first >= k.n_tiles && rf_warp_may_skip()) return;
    h1_multiply(&k, &next, n_slots, &lane, &extra, scale);
}

#define H1_BODY(n_slots, form)            \
    {                                     \
        RF_SHARED half_shared made;       \
        h1_run(&made, &a, n_slots, form); \
    }
/* kinds.def has their order. */
RF_KERNEL_EARLY(half_one, rf_gpu_matmul_args, 2)
H1_BODY(RF_HALF_ONE_SLOTS, RF_GPU_F16)
RF_KERNEL_KIND_EARLY(half_one, 1, rf_gpu_matmul_args, 2)
H1_BODY(RF_HALF_ONE_SLOTS, RF_GPU_BF16)
RF_KERNEL_KIND_EARLY(half_one, 2, rf_gpu_matmul_args, 2)
H1_BODY(RF_HALF_ONE_SLOTS / 2, RF_GPU_F16)
RF_KERNEL_KIND_EARLY(half_one, 3, rf_gpu_matmul_args, 2)
H1_BODY(RF_HALF_ONE_SLOTS / 2, RF_GPU_BF16)
#endif
