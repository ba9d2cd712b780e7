/* mm_wide.hip - products of K formats' weights with very many activation rows, on Hopper's matrix
 * units; elsewhere mm_tile.hip has the work.
 *
 * A block goes through tiles of 128 weight rows by 128 activation rows.  Four warps make the digits of
 * the weights (digits.h) and bring the activations, into a ring of stages of 256 columns in shared
 * memory.  Two teams of four warps have 64 of the weight rows each: a team's products of all columns
 * with the upper digits and with the lower ones make the group's exact integer.  Teams take turns:
 * while one has the matrix units, the other adds its integers to its sums. */
#include "backend/gpu/kernels/digits.h"
#include "backend/gpu/kernels/hopper.h"
#include "backend/gpu/kernels/outputs.h"
#include "backend/gpu/kernels/ring.h"

#if defined(RF_HOPPER)
enum {
    WIDE_MAKERS = 128, /* threads, behind the teams */
    WIDE_TEAM = 128,
    WIDE_CHUNKS = 4, /* of 32 columns, in half of a stage */
};

/* What is constant in a kernel.  Teams share the tile's weight rows, or where these are 64 its activation rows, of which each
 * has n. */
typedef struct wide_kind {
    rf_wide_digits digits;
    int hi_bits; /* of four more, where a block makes the digits itself */
    uint32_t rows, n, n_stages;
    rf_wide_parts at;
} wide_kind;

/* Activation rows of a team, where tiles have so many weight rows. */
RF_DEVICE uint32_t wide_team_cols(uint32_t rows) { return RF_WIDE_COLS / (RF_WIDE_ROWS / rows); }

RF_DEVICE wide_kind wide_kind_of(rf_wide_digits digits, int hi_bits, uint32_t rows) {
    const rf_wide_parts at = rf_wide_parts_of(digits, rows);
    const wide_kind k = {digits, hi_bits, rows, wide_team_cols(rows), rf_wide_stages(at), at};
    return k;
}

RF_DEVICE uint32_t wide_n_scales(wide_kind k) { return k.digits == RF_WIDE_SCALES ? 8 : 16; }

typedef struct wide_shared {
    uint64_t full[RF_WIDE_MOST_STAGES][2], empty[RF_WIDE_MOST_STAGES][2]; /* halves of stages */
    uint64_t turn[2];                                                     /* of the teams */
} wide_shared;

/* The tiles of a plane, or of a unit of experts' lists, of which a block takes every so many. */
typedef struct wide_list {
    uint32_t n_tiles, n_stretches, rows; /* rows: of the output in a tile */
} wide_list;

RF_DEVICE mm_share wide_share(const rf_gpu_matmul_args *a, const wide_list *l, uint32_t i) {
    const uint32_t stretch = a->mode == RF_GPU_MM_EXPERTS ? rf_bid_z() : i % l->n_stretches;
    return share_at(a, l->rows, RF_WIDE_COLS, i / l->n_stretches, stretch);
}

RF_DEVICE wide_list wide_list_of(const rf_gpu_matmul_args *a) {
    wide_list l = {0, 0, (uint32_t)RF_WIDE_ROWS};
    if (a->is_glu) l.rows /= 2;
    for (uint32_t i = 0; i < (a->is_glu ? 1 : a->n_parts); i++)
        l.n_tiles += rf_div_up(a->part[i].w.rows, l.rows);
    l.n_stretches = a->mode == RF_GPU_MM_EXPERTS ? 1 : rf_div_up(a->n_rows, RF_WIDE_COLS);
    if (wide_share(a, &l, 0).n == 0) l.n_tiles = 0;
    return l;
}

/* Making ----------------------------------------------------------------------------------------*/

/* A thread's weight row: where it lies, and its number in the tile. */
typedef struct wide_source {
    const uint8_t *lo, *hi, *d, *m, *scale, *min;
    uint32_t row;
} wide_source;

/* Row number tid of a tile's 128: whose it is, its tile over planes and its row there, and its number for the
 * matrix units: with is_glu sixteen of these are eight of either matrix. */
typedef struct wide_row {
    const rf_gpu_weight *w;
    uint64_t tile;
    uint32_t row, number;
} wide_row;

RF_DEVICE wide_row wide_row_of(const rf_gpu_matmul_args *a, const mm_share *share, uint32_t tid) {
    const uint32_t i = a->is_glu ? tid % 64 : tid, part = a->is_glu ? tid / 64 : 0;
    wide_row r;
    r.w = part ? &a->part[1].w : &share->p.w;
    const uint32_t n_tiles = rf_div_up(r.w->rows, RF_GPU_TILE_ROWS);
    const uint32_t per_block = (a->is_glu ? 64 : 128) / RF_GPU_TILE_ROWS;
    r.tile = (uint64_t)share->plane * n_tiles +
             rf_min_u32(share->tile * per_block + i / 32, n_tiles - 1);
    r.row = i % 32;
    r.number = a->is_glu ? i / 8 * 16 + part * 8 + i % 8 : tid;
    return r;
}

RF_DEVICE wide_source wide_source_of(const rf_gpu_matmul_args *a, const mm_share *share,
                                     wide_kind k, uint32_t tid) {
    const wide_row r = wide_row_of(a, share, tid);
    const rf_gpu_weight *w = r.w;
    const uint64_t first = r.tile * (w->cols / 256);
    wide_source s;
    s.lo = (const uint8_t *)w->lo + first * 4096 + r.row * 16;
    s.hi = (const uint8_t *)w->hi + (first * 1024 + r.row * 4) * (uint32_t)k.hi_bits;
    s.d = (const uint8_t *)w->d + first * 64 + r.row * 2;
    s.m = (const uint8_t *)w->m + first * 64 + r.row * 2;
    s.scale = (const uint8_t *)w->scale + (first * 32 + r.row) * wide_n_scales(k);
    s.min = (const uint8_t *)w->min + (first * 32 + r.row) * wide_n_scales(k);
    s.row = r.number;
    return s;
}

/* Chunk number n of the row, as load_chunk, but from where it lies. */
RF_DEVICE void wide_load(mm_raw *r, const wide_source *s, wide_kind k, uint64_t n) {
    const rf_u4 lo = rf_stream_16((const rf_u4 *)(const void *)(s->lo + n * 512));
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        r->lo[i] = lo.v[i];
    if (k.hi_bits == 2) {
        const rf_u2 hi = rf_stream_8((const rf_u2 *)(const void *)(s->hi + n * 256));
        r->hi[0] = hi.v[0];
        r->hi[1] = hi.v[1];
    }
    if (k.hi_bits == 1) r->hi[0] = *(const uint32_t *)(const void *)(s->hi + n * 128);
}

RF_DEVICE rf_u4 wide_load_scales(const wide_source *s, wide_kind k, uint64_t g) {
    rf_u4 out = {{0, 0, 0, 0}};
    if (wide_n_scales(k) == 16) return *(const rf_u4 *)(const void *)(s->scale + g * 32 * 16);
    const rf_u2 v = *(const rf_u2 *)(const void *)(s->scale + g * 32 * 8);
    out.v[0] = v.v[0];
    out.v[1] = v.v[1];
    return out;
}

/* Where digits of half of a group of a weight row go, and what they are made with: a scale, and a minimum, for
 * each 32 columns, or twice as many. */
typedef struct wide_digits {
    uint8_t *at; /* half of a stage */
    uint32_t row, off, twice;
    rf_u4 scales, mins;
} wide_digits;

/* Digits of chunk c of the half: two pieces of sixteen bytes of either. */
RF_DEVICE void wide_put_digits(const wide_digits *to, const mm_raw *raw, wide_kind k, int lo_bits,
                               uint32_t c) {
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t number = to->twice ? 2 * c + i : c, scale = digit_byte(&to->scales, number),
                       min = digit_byte(&to->mins, number);
        const uint32_t piece = to->row * 128 + ((2 * c + i) ^ to->row % 8) * 16;
        rf_u4 upper, lower;
        RF_UNROLL
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t w = word_of(raw, lo_bits, k.hi_bits, (int)(4 * i + j));
            if (lo_bits == 8) w ^= 0x80808080u; /* signed: 128 more */
            const rf_u2 both = digits_of(w, k.digits, to->off, scale, min);
            upper.v[j] = both.v[0];
            lower.v[j] = both.v[1];
        }
        *(rf_u4 *)(void *)(to->at + k.at.upper + piece) = upper;
        *(rf_u4 *)(void *)(to->at + k.at.lower + piece) = lower;
    }
}

/* Where eight activation rows start that a thread brings, and one whose factor it does, in 16 columns. */
typedef struct wide_rows {
    uint32_t q[8], own;
} wide_rows;

RF_DEVICE uint32_t wide_row_at(const rf_gpu_matmul_args *a, const mm_share *share, uint32_t i) {
    return (uint32_t)((uint64_t)x_row_of(a, dst_row_of(a, share, i)) * (share->p.w.cols / 16));
}

RF_DEVICE wide_rows wide_rows_of(const rf_gpu_matmul_args *a, const mm_share *share, uint32_t tid) {
    wide_rows r;
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        r.q[i] = wide_row_at(a, share, tid / 8 + 16 * i);
    r.own = wide_row_at(a, share, tid);
    return r;
}

/* Half number h of all of the activation rows. */
RF_DEVICE void wide_bring_rows(uint8_t *at, const rf_gpu_quant *x, const wide_rows *rows,
                               wide_kind k, uint32_t tid, uint32_t h) {
    const uint32_t piece = tid % 8, first = tid / 8;
    const uint8_t *q = (const uint8_t *)x->q + h * 128ull + piece * 16;
    uint8_t *to = at + k.at.q + first * 128 + ((piece ^ first) & 7) * 16;
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        rf_copy_16(to + i * 16 * 128, q + rows->q[i] * 16ull);
}

/* The sums of 32 of activation row number col (digits.h). */
RF_DEVICE void wide_put_sums(uint8_t *sums, uint32_t col, const rf_u4 sum[4]) {
    rf_u4 high, low;
    RF_UNROLL
    for (int i = 0; i < 4; i++) {
        const rf_u2 two = digit_two_sums(sum[i]);
        high.v[i] = two.v[0];
        low.v[i] = two.v[1];
    }
    rf_u4 *to = (rf_u4 *)(void *)sums + col / 8 * 16 + col % 8;
    to[0] = high;
    to[8] = low;
}

RF_DEVICE void wide_put_mins(uint8_t *mins, uint32_t row, rf_u2 bytes) {
    const rf_u2 first = digit_four_halves(bytes.v[0], 0x6400),
                second = digit_four_halves(bytes.v[1], 0x6400);
    const rf_u4 all = {{first.v[0], first.v[1], second.v[0], second.v[1]}};
    ((rf_u4 *)(void *)mins)[row] = all;
}

/* What is one per group, of a weight row and of an activation row. */
typedef struct wide_factors {
    rf_u4 sum[4];
    rf_u2 min;
    uint16_t d, m;
} wide_factors;

RF_DEVICE wide_factors wide_row_factors(const wide_source *s, wide_kind k, uint32_t g) {
    wide_factors f = {{{{0}}}, {{0}}, 0, 0};
    f.d = *(const uint16_t *)(const void *)(s->d + g * 64ull);
    if (k.digits != RF_WIDE_SCALES) return f;
    f.m = *(const uint16_t *)(const void *)(s->m + g * 64ull);
    f.min = *(const rf_u2 *)(const void *)(s->min + g * 256ull);
    return f;
}

RF_DEVICE wide_factors wide_load_factors(const wide_source *s, const rf_gpu_quant *x,
                                         const wide_rows *rows, wide_kind k, uint32_t g) {
    wide_factors f = wide_row_factors(s, k, g);
    if (k.digits != RF_WIDE_SCALES) return f;
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        f.sum[i] = ((const rf_u4 *)(const void *)(x->sum + rows->own))[4 * g + i];
    return f;
}

RF_DEVICE void wide_put_factors(uint8_t *stage, const wide_factors *f, wide_kind k, uint32_t row,
                                uint32_t tid) {
    if (k.digits != RF_WIDE_SCALES) {
        ((float *)(void *)(stage + k.at.d))[row] = rf_f16_at(f->d);
        return;
    }
    ((uint16_t *)(void *)(stage + k.at.d))[row] = f->d;
    ((uint16_t *)(void *)(stage + k.at.m))[row] = f->m;
    wide_put_mins(stage + k.at.min, row, f->min);
    wide_put_sums(stage + k.at.sum, tid, f->sum);
}

/* A thread that makes: what it has of a tile, and what of the next half is on its way. */
typedef struct wide_maker {
    wide_source from;
    wide_rows rows;
    mm_raw raw[WIDE_CHUNKS];
    rf_u4 scales;
    uint32_t tid, n_groups;
} wide_maker;

/* One half of group g, once it is free. */
RF_DEVICE void wide_make_half(wide_maker *t, uint8_t *stage, wide_shared *sh,
                              const rf_gpu_matmul_args *a, wide_kind k, uint32_t g, uint32_t half,
                              uint32_t now, uint32_t parity) {
    const uint32_t h = 2 * g + half;
    uint8_t *at = stage + half * k.at.half;
    wide_factors factors;
    if (half) factors = wide_load_factors(&t->from, &a->xq, &t->rows, k, g);
    ring_await(&sh->empty[now][half], parity);
    wide_bring_rows(at, &a->xq, &t->rows, k, t->tid, h);
    if (half) rf_copy_4(stage + k.at.xd + t->tid * 4, a->xq.d + (t->rows.own / 16 + g));
    ring_arrive_after_copies(&sh->full[now][half]);
    const wide_digits to = {at, t->from.row, 32, wide_n_scales(k) == 16,
                            digit_half(t->scales, wide_n_scales(k), half), {{0, 0, 0, 0}}};
    RF_UNROLL
    for (uint32_t c = 0; c < WIDE_CHUNKS; c++) {
        wide_put_digits(&to, &t->raw[c], k, 4, c);
        if (h + 1 < 2 * t->n_groups)
            wide_load(&t->raw[c], &t->from, k, (h + 1) * WIDE_CHUNKS + c);
    }
    if (half) wide_put_factors(stage, &factors, k, t->from.row, t->tid);
    ring_arrive(&sh->full[now][half]);
}

RF_DEVICE void wide_make(uint8_t *stages, wide_shared *sh, const rf_gpu_matmul_args *a,
                         const wide_list *list, wide_kind k) {
    uint32_t now = 0, parity = 1;
    wide_maker t;
    t.tid = rf_tid() - 2 * WIDE_TEAM;
    RF_NO_UNROLL
    for (uint32_t i = rf_bid_x(); i < list->n_tiles * list->n_stretches; i += hopper_grid_x()) {
        const mm_share share = wide_share(a, list, i);
        t.from = wide_source_of(a, &share, k, t.tid);
        t.rows = wide_rows_of(a, &share, t.tid);
        t.n_groups = share.p.w.cols / 256;
        RF_UNROLL
        for (uint32_t c = 0; c < WIDE_CHUNKS; c++)
            wide_load(&t.raw[c], &t.from, k, c);
        t.scales = wide_load_scales(&t.from, k, 0);
        RF_NO_UNROLL
        for (uint32_t g = 0; g < t.n_groups; g++) {
            uint8_t *stage = stages + now * k.at.bytes;
            wide_make_half(&t, stage, sh, a, k, g, 0, now, parity);
            const rf_u4 next = wide_load_scales(&t.from, k, rf_min_u32(g + 1, t.n_groups - 1));
            wide_make_half(&t, stage, sh, a, k, g, 1, now, parity);
            t.scales = next;
            if (++now == k.n_stages) {
                now = 0;
                parity ^= 1;
            }
        }
    }
    rf_copy_wait();
}

/* Multiplying -----------------------------------------------------------------------------------*/

/* A thread's place: the team's first weight row and activation row; rows row and row + 8 of the tile, word t of four. */
typedef struct wide_place {
    uint32_t team, first_w, first_x, row, t;
} wide_place;

/* Begins the products of half of a stage; is_more: onto what is there. */
RF_DEVICE void wide_begin(int32_t upper[64], int32_t lower[64], const uint8_t *half,
                          const wide_place *at, wide_kind k, int is_more) {
    const uint32_t first = rf_shared_at(half), w = first + at->first_w * 128,
                   q = first + k.at.q + at->first_x * 128;
    RF_UNROLL
    for (uint32_t c = 0; c < WIDE_CHUNKS; c++) {
        const hopper_side x = hopper_chunk(q, c);
        hopper_multiply(upper, k.n, hopper_chunk(w + k.at.upper, c), x,
                        k.digits != RF_WIDE_PRODUCTS, is_more || c);
        hopper_multiply(lower, k.n, hopper_chunk(w + k.at.lower, c), x, 1, is_more || c);
    }
    hopper_end();
}

/* Begins the group's minima times its sums. */
RF_DEVICE void wide_begin_mins(float c[64], const uint8_t *stage, const wide_place *at,
                               wide_kind k) {
    const uint32_t first = rf_shared_at(stage);
    const hopper_side w = hopper_rows(first + k.at.min + at->first_w * 16, 0, 8 * 16),
                      x = hopper_rows(first + k.at.sum + at->first_x * 32, 8 * 16, 2 * 8 * 16);
    hopper_hold_halves(c, k.n);
    hopper_begin();
    hopper_multiply_halves(c, k.n, w, x, 1, 0);
    hopper_end();
}

/* The factor at, d or m, of weight row number row of a stage. */
RF_DEVICE float wide_factor(const uint8_t *stage, uint32_t at, wide_kind k, uint32_t row) {
    const void *p = stage + at;
    return k.digits == RF_WIDE_SCALES ? rf_f16_at(((const uint16_t *)p)[row])
                                      : ((const float *)p)[row];
}

/* A group's terms onto the sums: i times the factors of its rows, which are at factors, and of the activation rows. */
RF_DEVICE void wide_add(float v[64], const float i[64], const uint8_t *stage, uint32_t factors,
                        const wide_place *at, wide_kind k) {
    const float of_rows[2] = {wide_factor(stage, factors, k, at->row),
                              wide_factor(stage, factors, k, at->row + 8)};
    const rf_f2 *of_x = (const rf_f2 *)(const void *)(stage + k.at.xd) + at->first_x / 2 + at->t;
    RF_UNROLL
    for (uint32_t n = 0; n < k.n / 8; n++) {
        const rf_f2 xd = of_x[4 * n];
        RF_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            v[4 * n + j] = rf_fma(i[4 * n + j], of_rows[j / 2] * xd.v[j % 2], v[4 * n + j]);
    }
}

/* What a group makes of the sums of its digits, onto the sums of all; minima are multiplied where the upper digits
 * have been, unless they are these. */
RF_DEVICE void wide_end(float v[64], int32_t upper[64], int32_t lower[64], const uint8_t *stage,
                        const wide_place *at, wide_kind k) {
    float exact[64], of_mins[64];
    RF_UNROLL
    for (uint32_t i = 0; i < k.n / 2; i++) {
        lower[i] = digit_total(upper[i], lower[i], k.digits);
        of_mins[i] = k.digits == RF_WIDE_MINIMA ? (float)upper[i] : rf_float_of((uint32_t)upper[i]);
    }
    if (k.digits == RF_WIDE_SCALES) wide_begin_mins(of_mins, stage, at, k);
    RF_UNROLL
    for (uint32_t i = 0; i < k.n / 2; i++)
        exact[i] = (float)lower[i];
    wide_add(v, exact, stage, k.at.d, at, k);
    if (k.digits == RF_WIDE_PRODUCTS) return;
    if (k.digits == RF_WIDE_SCALES) {
        hopper_wait_but(0);
        hopper_hold_halves(of_mins, k.n);
    }
    wide_add(v, of_mins, stage, k.at.m, at, k);
    RF_UNROLL
    for (uint32_t i = 0; i < k.n / 2; i++)
        upper[i] = (int32_t)rf_bits_of(of_mins[i]); /* the same registers */
}

/* Whole tiles, or parts of so many weight rows, by stretches of activation rows.  Number i: which tile, the part's first
 * weight row of it, and the stretch. */
typedef struct wide_part {
    uint32_t tile, first, stretch;
} wide_part;

RF_DEVICE uint32_t wide_n_places(uint32_t n_tiles, uint32_t n_stretches, uint32_t rows) {
    return n_tiles * (RF_WIDE_ROWS / rows) * n_stretches;
}
RF_DEVICE wide_part wide_part_of(uint32_t i, uint32_t n_stretches, uint32_t rows) {
    const uint32_t part = i / n_stretches, per_tile = RF_WIDE_ROWS / rows;
    const wide_part p = {part / per_tile, part % per_tile * rows, i % n_stretches};
    return p;
}

/* The team's sums of n activation rows; tile_rows: outputs of a whole tile. */
RF_DEVICE void wide_put_part(float *out, float v[64], const rf_gpu_matmul_args *a,
                             const mm_share *share, uint32_t tile_rows, const wide_part *p,
                             const wide_place *at, uint32_t n) {
    const uint32_t own = p->first + at->first_w + rf_tid() % WIDE_TEAM / 32 * 16,
                   row = share->tile * tile_rows + (a->is_glu ? own / 2 : own);
    const outputs_of o = {a, share, 0, row, at->first_x};
    outputs_put(out, v, n, &o);
}

/* A team's place in the ring and among the turns, from tile to tile. */
typedef struct wide_count {
    uint32_t now, parity, turn;
} wide_count;

/* One tile's sums.  by_threads: stages are filled by threads, else by copies that run by themselves. */
RF_DEVICE void wide_work(float v[64], wide_count *c, const uint8_t *stages, wide_shared *sh,
                         wide_kind k, const wide_place *at, uint32_t n_groups, int by_threads) {
    int32_t upper[64], lower[64];
    RF_UNROLL
    for (uint32_t i = 0; i < k.n / 2; i++) {
        v[i] = 0.0f;
        upper[i] = lower[i] = 0;
    }
    const int speaks = ring_speaks();
    RF_NO_UNROLL
    for (uint32_t g = 0; g < n_groups; g++) {
        const uint8_t *stage = stages + c->now * k.at.bytes;
        ring_await(&sh->turn[at->team], c->turn);
        c->turn ^= 1;
        hopper_hold(upper, k.n);
        hopper_hold(lower, k.n);
        ring_await(&sh->full[c->now][0], c->parity);
        if (by_threads) hopper_publish();
        hopper_begin();
        wide_begin(upper, lower, stage, at, k, 0);
        ring_await(&sh->full[c->now][1], c->parity);
        if (by_threads) hopper_publish();
        hopper_begin();
        wide_begin(upper, lower, stage + k.at.half, at, k, 1);
        if (speaks) ring_arrive(&sh->turn[1 - at->team]);
        hopper_wait_but(1);
        if (speaks) ring_arrive(&sh->empty[c->now][0]);
        hopper_wait_but(0);
        hopper_hold(upper, k.n);
        hopper_hold(lower, k.n);
        wide_end(v, upper, lower, stage, at, k);
        rf_warp_sync();
        if (speaks) ring_arrive(&sh->empty[c->now][1]);
        if (++c->now == k.n_stages) {
            c->now = 0;
            c->parity ^= 1;
        }
    }
}

/* Of a tile of so many weight rows. */
RF_DEVICE wide_place wide_place_of(uint32_t rows) {
    const uint32_t tid = rf_tid(), team = tid / WIDE_TEAM, is_low = rows < RF_WIDE_ROWS;
    wide_place at;
    at.team = team;
    at.first_w = is_low ? 0 : team * 64;
    at.first_x = is_low ? team * RF_WIDE_COLS / 2 : 0;
    at.row = at.first_w + tid % WIDE_TEAM / 32 * 16 + tid % 32 / 4;
    at.t = tid % 4;
    return at;
}

/* The warp's room for outputs. */
RF_DEVICE float *wide_out_of(uint8_t *stages, wide_kind k) {
    return (float *)(void *)(stages + k.n_stages * k.at.bytes +
                             rf_tid() / 32 * RF_WIDE_OUT_BYTES);
}

RF_DEVICE void wide_multiply(uint8_t *stages, wide_shared *sh, const rf_gpu_matmul_args *a,
                             const wide_list *list, wide_kind k) {
    const wide_place at = wide_place_of(k.rows);
    const wide_part whole = {0, 0, 0};
    wide_count c = {0, 0, !at.team};
    float *out = wide_out_of(stages, k);
    RF_NO_UNROLL
    for (uint32_t i = rf_bid_x(); i < list->n_tiles * list->n_stretches; i += hopper_grid_x()) {
        float v[64];
        wide_work(v, &c, stages, sh, k, &at, a->part[0].w.cols / 256, 1);
        const mm_share share = wide_share(a, list, i);
        wide_put_part(out, v, a, &share, list->rows, &whole, &at, k.n);
    }
}

/* The block's barriers, with so many arrivals at a stage; returns where its stages begin. */
RF_DEVICE uint8_t *wide_begin_block(wide_shared *sh, uint32_t n_arrive) {
    const uint32_t tid = rf_tid();
    if (tid < 2 * RF_WIDE_MOST_STAGES) {
        ring_init(&sh->full[tid / 2][tid % 2], n_arrive);
        ring_init_warps(&sh->empty[tid / 2][tid % 2], 2 * WIDE_TEAM / 32);
    }
    if (tid < 2) ring_init_warps(&sh->turn[tid], WIDE_TEAM / 32);
    hopper_publish(); /* to copies that run by themselves */
    rf_sync();
    return hopper_shared + RF_WIDE_HEAD;
}

HOPPER_REGISTERS(WIDE_MAKERS, 88, 2 * WIDE_TEAM, 208)
RF_DEVICE void wide_run(const rf_gpu_matmul_args *a, wide_kind k) {
    wide_shared *sh = (wide_shared *)(void *)hopper_shared;
    uint8_t *stages = wide_begin_block(sh, 2 * WIDE_MAKERS); /* copies and digits */
    const wide_list list = wide_list_of(a);
    if (rf_tid() >= 2 * WIDE_TEAM) {
        hopper_88_registers();
        wide_make(stages, sh, a, &list, k);
        return;
    }
    hopper_208_registers();
    wide_multiply(stages, sh, a, &list, k);
}

#define WIDE_KERNEL(hi_bits, digits)                                  \
    RF_KERNEL_ALONE(wide_256_4##hi_bits, rf_gpu_matmul_args) {        \
        wide_run(&a, wide_kind_of(digits, hi_bits, RF_WIDE_ROWS)); \
    }
WIDE_KERNEL(0, RF_WIDE_SCALES)
WIDE_KERNEL(1, RF_WIDE_SCALES)
WIDE_KERNEL(2, RF_WIDE_PRODUCTS)
#endif
