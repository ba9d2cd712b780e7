/* mm_ahead.hip - products of weights in groups of 256 with so many activation rows on Hopper's matrix units that
 * the digits of the weights are made ahead, once for all of them.
 *
 * First `digits`, one for each layout of integers, makes stages as mm_wide.hip has them: the weights' parts of each
 * tile and 256 columns and those of each 128 activation rows, in global memory.  Then `ahead`, one for each kind of
 * digits, multiplies: one thread brings stages whole, and teams are those of mm_wide.hip, behind which this file is
 * included.  `ahead_low` has blocks for half of a tile's weight rows, where whole ones would leave multiprocessors without. */

#if defined(RF_HOPPER)
enum {
    AHEAD_HALF_W = RF_WIDE_ROWS * 256, /* bytes of half of a stage: both digits, */
    AHEAD_HALF_X = RF_WIDE_COLS * 128, /* and activations */
};

RF_DEVICE uint32_t ahead_tile_rows(const rf_gpu_matmul_args *a) {
    return a->is_glu ? (uint32_t)RF_WIDE_ROWS / 2 : (uint32_t)RF_WIDE_ROWS;
}

/* Where what is made ahead lies: of activation rows [stretches][groups], of weights [tiles][groups]. */
RF_DEVICE uint8_t *ahead_x_at(const rf_gpu_matmul_args *a, wide_kind k, uint32_t stretch) {
    return a->ahead + (uint64_t)stretch * (a->part[0].w.cols / 256) * rf_ahead_x_bytes(k.digits);
}
RF_DEVICE uint8_t *ahead_w_at(const rf_gpu_matmul_args *a, wide_kind k, uint32_t tile) {
    return a->digits + (uint64_t)tile * (a->part[0].w.cols / 256) * rf_ahead_w_bytes(k.digits);
}

/* Making ----------------------------------------------------------------------------------------*/

/* What digits of a row of weights are made of. */
typedef struct ahead_row {
    mm_raw raw[WIDE_CHUNKS];
    rf_u4 scales, mins;
    float d, m;
} ahead_row;

/* One half of a group. */
RF_DEVICE void ahead_load(ahead_row *to, const wide_row *r, wide_kind k, int lo_bits, uint32_t g,
                          uint32_t half) {
    const uint64_t group = r->tile * (r->w->cols / 256) + g, row = group * 32 + r->row;
    const mm_facts f = facts_of(256, lo_bits, k.hi_bits);
    const uint32_t n_scales = f.n_scales == MM_ANY ? r->w->n_scales : f.n_scales,
                   d_f32 = f.d_f32 == MM_ANY ? r->w->d_f32 : f.d_f32;
    RF_UNROLL
    for (uint32_t c = 0; c < WIDE_CHUNKS; c++)
        to->raw[c] =
            load_chunk(r->w, lo_bits, k.hi_bits, group * 8 + half * WIDE_CHUNKS + c, r->row);
    to->scales = k.digits == RF_WIDE_SCALES ? load_scale_bytes(r->w->scale, 8, row)
                                            : load_scales(r->w->scale, n_scales, row);
    to->d = scale_at(r->w->d, row, d_f32);
    if (k.digits == RF_WIDE_PRODUCTS) return;
    to->mins = load_scale_bytes(r->w->min, n_scales, row);
    to->m = scale_at(r->w->m, row, d_f32);
}

/* d, and from there as in a stage. */
RF_DEVICE void ahead_put_factors(uint8_t *behind, const ahead_row *from, wide_kind k,
                                 uint32_t row) {
    const uint32_t m_at = k.at.m - k.at.d;
    if (k.digits == RF_WIDE_SCALES) {
        const rf_u2 mins = {{from->mins.v[0], from->mins.v[1]}};
        ((uint16_t *)(void *)behind)[row] = (uint16_t)rf_f16_of(from->d);
        ((uint16_t *)(void *)(behind + m_at))[row] = (uint16_t)rf_f16_of(from->m);
        wide_put_mins(behind + (k.at.min - k.at.d), row, mins);
        return;
    }
    ((float *)(void *)behind)[row] = from->d;
    if (k.digits == RF_WIDE_MINIMA) ((float *)(void *)(behind + m_at))[row] = from->m;
}

/* One half of a group of a weight row per thread. */
RF_DEVICE void ahead_make_w(uint8_t *made, const rf_gpu_matmul_args *a, wide_kind k, int lo_bits,
                            uint32_t tile, uint32_t g) {
    const uint32_t half = rf_tid() / RF_WIDE_ROWS;
    const mm_share share = share_at(a, ahead_tile_rows(a), RF_WIDE_COLS, tile, 0);
    const wide_row r = wide_row_of(a, &share, rf_tid() % RF_WIDE_ROWS);
    ahead_row from;
    ahead_load(&from, &r, k, lo_bits, g, half);
    const uint32_t n_scales = wide_n_scales(k);
    const wide_digits to = {made + half * AHEAD_HALF_W,
                            r.number,
                            lo_bits == 8 ? 128u : (uint32_t)r.w->off,
                            n_scales == 16,
                            digit_half(from.scales, n_scales, half),
                            digit_half(from.mins, n_scales, half)};
    RF_UNROLL
    for (uint32_t c = 0; c < WIDE_CHUNKS; c++)
        wide_put_digits(&to, &from.raw[c], k, lo_bits, c);
    if (half == 0) ahead_put_factors(made + 2 * AHEAD_HALF_W, &from, k, r.number);
}

/* Rows beyond the last are the last. */
RF_DEVICE void ahead_make_x(uint8_t *made, const rf_gpu_matmul_args *a, wide_kind k,
                            uint32_t stretch, uint32_t g) {
    const uint32_t cols = a->part[0].w.cols, tid = rf_tid(), piece = tid % 16, half = piece / 8;
    uint8_t *behind = made + 2 * AHEAD_HALF_X; /* sums, and from there as in a stage */
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t row = tid / 16 + 16 * i,
                       x_row = rf_min_u32(stretch * RF_WIDE_COLS + row, a->n_rows - 1);
        rf_copy_16(made + half * AHEAD_HALF_X + row * 128 + ((piece ^ row) & 7) * 16,
                   (const uint8_t *)a->xq.q + (uint64_t)x_row * cols + g * 256 + piece * 16);
    }
    if (tid < RF_WIDE_COLS) {
        const uint64_t at =
            (uint64_t)rf_min_u32(stretch * RF_WIDE_COLS + tid, a->n_rows - 1) * (cols / 256) + g;
        ((float *)(void *)(behind + (k.at.xd - k.at.sum)))[tid] = a->xq.d[at];
        if (k.digits == RF_WIDE_SCALES) {
            rf_u4 sum[4];
            RF_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                sum[i] = ((const rf_u4 *)(const void *)a->xq.sum)[4 * at + i];
            wide_put_sums(behind, tid, sum);
        }
    }
    rf_copy_wait();
}

/* Grid x: groups; y: tiles, and with the first of these the stretches of activation rows.  Weights are there before
 * the kernel in front has ended. */
RF_DEVICE void ahead_make(const rf_gpu_matmul_args *a, int lo_bits, int hi_bits,
                          rf_wide_digits digits) {
    const wide_kind k = wide_kind_of(digits, hi_bits, RF_WIDE_ROWS);
    uint8_t *made = hopper_shared, *to;
    const uint32_t g = rf_bid_x(), y = rf_bid_y();
    const uint32_t is_x = y >= a->ahead_tiles,
                   bytes = is_x ? rf_ahead_x_bytes(k.digits) : rf_ahead_w_bytes(k.digits);
    if (is_x) {
        rf_await_before();
        ahead_make_x(made, a, k, y - a->ahead_tiles, g);
        to = ahead_x_at(a, k, y - a->ahead_tiles);
    } else {
        ahead_make_w(made, a, k, lo_bits, a->ahead_first + y, g);
        rf_await_before();
        to = ahead_w_at(a, k, y);
    }
    hopper_publish();
    rf_sync();
    if (rf_tid() == 0) hopper_take_away(to + (uint64_t)g * bytes, made, bytes);
}

/* Multiplying -----------------------------------------------------------------------------------*/

/* The tiles of those made ahead, by stretches of activation rows: a block takes every so many. */
RF_DEVICE uint32_t ahead_stretches(const rf_gpu_matmul_args *a) {
    return rf_div_up(a->n_rows, RF_WIDE_COLS);
}

/* Whole tiles of those made ahead, or parts of them, by stretches of activation rows: a block takes every so many. */
RF_DEVICE uint32_t ahead_n_places(const rf_gpu_matmul_args *a, wide_kind k) {
    return wide_n_places(a->ahead_tiles, ahead_stretches(a), k.rows);
}

/* Half of a stage, from where either side's begin. */
RF_DEVICE void ahead_bring_half(uint8_t *to, const uint8_t *w, const uint8_t *x, wide_kind k,
                                uint64_t *full) {
    if (k.rows == RF_WIDE_ROWS) {
        hopper_bring(to, w, AHEAD_HALF_W, full);
    } else {
        hopper_bring(to + k.at.upper, w, k.rows * 128, full);
        hopper_bring(to + k.at.lower, w + AHEAD_HALF_W / 2, k.rows * 128, full);
    }
    hopper_bring(to + k.at.q, x, AHEAD_HALF_X, full);
}

/* What lies behind the halves; first: of the tile's weight rows. */
RF_DEVICE void ahead_bring_factors(uint8_t *stage, const uint8_t *w, const uint8_t *x, wide_kind k,
                                   uint32_t first, uint64_t *full) {
    const uint32_t d_bytes = rf_wide_d_bytes(k.digits), all = RF_WIDE_ROWS * d_bytes;
    hopper_bring(stage + k.at.sum, x, rf_ahead_x_factors(k.digits), full);
    if (k.rows == RF_WIDE_ROWS) {
        hopper_bring(stage + k.at.d, w, rf_ahead_w_factors(k.digits), full);
        return;
    }
    hopper_bring(stage + k.at.d, w + first * d_bytes, k.rows * d_bytes, full);
    if (k.digits != RF_WIDE_PRODUCTS)
        hopper_bring(stage + k.at.m, w + all + first * d_bytes, k.rows * d_bytes, full);
    if (k.digits == RF_WIDE_SCALES)
        hopper_bring(stage + k.at.min, w + 2 * all + first * 16, k.rows * 16, full);
}

/* One thread brings all stages. */
RF_DEVICE void ahead_bring(uint8_t *stages, wide_shared *sh, const rf_gpu_matmul_args *a,
                           wide_kind k) {
    const uint32_t n_groups = a->part[0].w.cols / 256,
                   half_bytes = AHEAD_HALF_W * k.rows / RF_WIDE_ROWS + AHEAD_HALF_X,
                   factors = rf_ahead_w_factors(k.digits) * k.rows / RF_WIDE_ROWS +
                             rf_ahead_x_factors(k.digits);
    uint32_t now = 0, parity = 1;
    RF_NO_UNROLL
    for (uint32_t i = rf_bid_x(); i < ahead_n_places(a, k); i += hopper_grid_x()) {
        const wide_part p = wide_part_of(i, ahead_stretches(a), k.rows);
        const uint8_t *w = ahead_w_at(a, k, p.tile), *x = ahead_x_at(a, k, p.stretch);
        RF_NO_UNROLL
        for (uint32_t g = 0; g < n_groups; g++) {
            uint8_t *stage = stages + now * k.at.bytes;
            RF_UNROLL
            for (uint32_t half = 0; half < 2; half++) {
                uint64_t *full = &sh->full[now][half];
                ring_await(&sh->empty[now][half], parity);
                hopper_arrive_with(full, half_bytes + (half ? factors : 0));
                ahead_bring_half(stage + half * k.at.half, w + half * AHEAD_HALF_W + p.first * 128,
                                 x + half * AHEAD_HALF_X, k, full);
                if (half)
                    ahead_bring_factors(stage, w + 2 * AHEAD_HALF_W, x + 2 * AHEAD_HALF_X, k,
                                        p.first, full);
            }
            w += rf_ahead_w_bytes(k.digits);
            x += rf_ahead_x_bytes(k.digits);
            if (++now == k.n_stages) {
                now = 0;
                parity ^= 1;
            }
        }
    }
}

RF_DEVICE void ahead_multiply(uint8_t *stages, wide_shared *sh, const rf_gpu_matmul_args *a,
                              wide_kind k) {
    const wide_place at = wide_place_of(k.rows);
    wide_count c = {0, 0, !at.team};
    float *out = wide_out_of(stages, k);
    RF_NO_UNROLL
    for (uint32_t i = rf_bid_x(); i < ahead_n_places(a, k); i += hopper_grid_x()) {
        float v[64];
        wide_work(v, &c, stages, sh, k, &at, a->part[0].w.cols / 256, 0);
        const wide_part p = wide_part_of(i, ahead_stretches(a), k.rows);
        const mm_share share =
            share_at(a, ahead_tile_rows(a), RF_WIDE_COLS, a->ahead_first + p.tile, p.stretch);
        wide_put_part(out, v, a, &share, ahead_tile_rows(a), &p, &at, k.n);
    }
}

/* Whole tiles have most sums, parts of them most copies. */
HOPPER_REGISTERS(128, 24, 2 * WIDE_TEAM, 240)
HOPPER_REGISTERS(128, 56, 2 * WIDE_TEAM, 224)
RF_DEVICE void ahead_run(const rf_gpu_matmul_args *a, wide_kind k) {
    wide_shared *sh = (wide_shared *)(void *)hopper_shared;
    uint8_t *stages = wide_begin_block(sh, 1);
    const uint32_t tid = rf_tid(), is_whole = k.rows == RF_WIDE_ROWS;
    if (tid >= 2 * WIDE_TEAM) {
        if (is_whole)
            hopper_24_registers();
        else
            hopper_56_registers();
        if (tid == 2 * WIDE_TEAM) ahead_bring(stages, sh, a, k);
        return;
    }
    if (is_whole)
        hopper_240_registers();
    else
        hopper_224_registers();
    ahead_multiply(stages, sh, a, k);
}

#define AHEAD_KERNELS(name, digits)                               \
    RF_KERNEL_ALONE(ahead_##name, rf_gpu_matmul_args) {           \
        ahead_run(&a, wide_kind_of(digits, 0, RF_WIDE_ROWS));     \
    }                                                             \
    RF_KERNEL_ALONE(ahead_low_##name, rf_gpu_matmul_args) {       \
        ahead_run(&a, wide_kind_of(digits, 0, RF_WIDE_ROWS / 2)); \
    }
AHEAD_KERNELS(products, RF_WIDE_PRODUCTS)
AHEAD_KERNELS(scales, RF_WIDE_SCALES)
AHEAD_KERNELS(minima, RF_WIDE_MINIMA)

/* with_m: what the digits are of formats of the layout that have minima. */
#define DIGITS_KERNEL(lo_bits, hi_bits, with_m)                             \
    RF_KERNEL_EARLY(digits_256_##lo_bits##hi_bits, rf_gpu_matmul_args, 3) { \
        if (a.part[0].w.m)                                                  \
            ahead_make(&a, lo_bits, hi_bits, with_m);                       \
        else                                                                \
            ahead_make(&a, lo_bits, hi_bits, RF_WIDE_PRODUCTS);             \
    }
DIGITS_KERNEL(2, 0, RF_WIDE_MINIMA)
DIGITS_KERNEL(2, 1, RF_WIDE_PRODUCTS)
DIGITS_KERNEL(4, 0, RF_WIDE_SCALES)
DIGITS_KERNEL(4, 1, RF_WIDE_SCALES)
DIGITS_KERNEL(4, 2, RF_WIDE_PRODUCTS)
DIGITS_KERNEL(8, 0, RF_WIDE_PRODUCTS)
#endif
