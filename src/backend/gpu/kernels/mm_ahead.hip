/* mm_ahead.hip - products of K formats' weights with so many activation rows on Hopper's matrix units
 * that the digits of the weights are made ahead, once for all of them.
 *
 * First `digits` makes stages as mm_wide.hip has them: the weights' parts of each tile and 256 columns
 * and those of each 128 activation rows, in global memory.  Then `ahead` multiplies: one thread brings
 * stages whole, and teams are those of mm_wide.hip, behind which this file is included. */

#if defined(RF_HOPPER)
enum {
    AHEAD_HALF_W = RF_WIDE_ROWS * 256, /* bytes of half of a stage: both digits, */
    AHEAD_HALF_X = RF_WIDE_COLS * 128, /* and activations */
};

RF_DEVICE uint32_t ahead_tile_rows(const rf_gpu_matmul_args *a) {
    return a->is_glu ? (uint32_t)RF_WIDE_ROWS / 2 : (uint32_t)RF_WIDE_ROWS;
}

/* Where what is made ahead lies: of activation rows [stretches][groups], of weights behind it
 * [tiles][groups]. */
RF_DEVICE uint8_t *ahead_x_at(const rf_gpu_matmul_args *a, wide_kind k, uint32_t stretch) {
    return a->ahead + (uint64_t)stretch * (a->part[0].w.cols / 256) * rf_ahead_x_bytes(k.with_m);
}
RF_DEVICE uint8_t *ahead_w_at(const rf_gpu_matmul_args *a, wide_kind k, uint32_t tile) {
    return ahead_x_at(a, k, rf_div_up(a->n_rows, RF_WIDE_COLS)) +
           (uint64_t)tile * (a->part[0].w.cols / 256) * rf_ahead_w_bytes(k.with_m);
}

/* Making ----------------------------------------------------------------------------------------*/

/* All of it is on its way before the first is used. */
RF_DEVICE void ahead_arrived(wide_raw *r) {
    rf_u4 *lo = r->lo;
    (void)lo;
#if defined(RF_NVIDIA)
    asm volatile(""
                 : "+r"(lo[0].v[0]), "+r"(lo[0].v[1]), "+r"(lo[0].v[2]), "+r"(lo[0].v[3]),
                   "+r"(lo[1].v[0]), "+r"(lo[1].v[1]), "+r"(lo[1].v[2]), "+r"(lo[1].v[3]),
                   "+r"(lo[2].v[0]), "+r"(lo[2].v[1]), "+r"(lo[2].v[2]), "+r"(lo[2].v[3]),
                   "+r"(lo[3].v[0]), "+r"(lo[3].v[1]), "+r"(lo[3].v[2]), "+r"(lo[3].v[3]));
#endif
}

/* One half of a group of a weight row per thread. */
RF_DEVICE void ahead_make_w(uint8_t *made, const rf_gpu_matmul_args *a, wide_kind k, uint32_t tile,
                            uint32_t g) {
    const uint32_t half = rf_tid() / RF_WIDE_ROWS;
    const mm_share share = share_at(a, ahead_tile_rows(a), RF_WIDE_COLS, tile, 0);
    const wide_source from = wide_source_of(a, &share, k, rf_tid() % RF_WIDE_ROWS);
    wide_raw raw;
    RF_UNROLL
    for (uint32_t c = 0; c < WIDE_CHUNKS; c++)
        wide_load(&raw, &from, k, c, 2 * g + half);
    rf_u4 scales = wide_load_scales(&from, k, g);
    const wide_factors factors = wide_row_factors(&from, k, g);
    ahead_arrived(&raw);
    RF_UNROLL
    for (uint32_t i = 0; i < k.n_scales / 8; i++)
        if (half) scales.v[i] = scales.v[k.n_scales / 8 + i];
    RF_UNROLL
    for (uint32_t c = 0; c < WIDE_CHUNKS; c++)
        wide_put_digits(made + half * AHEAD_HALF_W, &raw, &scales, k, from.row, 0, c);
    if (half) return;
    uint8_t *behind = made + 2 * AHEAD_HALF_W; /* d, and from there as in a stage */
    ((uint16_t *)(void *)behind)[from.row] = factors.d;
    if (!k.with_m) return;
    ((uint16_t *)(void *)(behind + (k.at.m - k.at.d)))[from.row] = factors.m;
    wide_put_mins(behind + (k.at.min - k.at.d), from.row, factors.min);
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
        if (k.with_m) {
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
RF_DEVICE void ahead_make(const rf_gpu_matmul_args *a, wide_kind k) {
    uint8_t *made = hopper_shared, *to;
    const uint32_t g = rf_bid_x(), y = rf_bid_y();
    const uint32_t is_x = y >= a->ahead_tiles,
                   bytes = is_x ? rf_ahead_x_bytes(k.with_m) : rf_ahead_w_bytes(k.with_m);
    if (is_x) {
        rf_await_before();
        ahead_make_x(made, a, k, y - a->ahead_tiles, g);
        to = ahead_x_at(a, k, y - a->ahead_tiles);
    } else {
        ahead_make_w(made, a, k, a->ahead_first + y, g);
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

/* One thread brings all stages. */
RF_DEVICE void ahead_bring(uint8_t *stages, wide_shared *sh, const rf_gpu_matmul_args *a,
                           wide_kind k) {
    const uint32_t n_groups = a->part[0].w.cols / 256, n_stretches = ahead_stretches(a),
                   w_factors = rf_ahead_w_factors(k.with_m),
                   x_factors = rf_ahead_x_factors(k.with_m);
    uint32_t now = 0, parity = 1;
    RF_NO_UNROLL
    for (uint32_t i = rf_bid_x(); i < a->ahead_tiles * n_stretches; i += hopper_grid_x()) {
        const uint8_t *w = ahead_w_at(a, k, i / n_stretches),
                      *x = ahead_x_at(a, k, i % n_stretches);
        RF_NO_UNROLL
        for (uint32_t g = 0; g < n_groups; g++) {
            uint8_t *stage = stages + now * k.at.bytes;
            RF_UNROLL
            for (uint32_t half = 0; half < 2; half++) {
                uint8_t *at = stage + half * k.at.half;
                uint64_t *full = &sh->full[now][half];
                ring_await(&sh->empty[now][half], parity);
                hopper_arrive_with(full, AHEAD_HALF_W + AHEAD_HALF_X +
                                             (half ? w_factors + x_factors : 0));
                hopper_bring(at, w + half * AHEAD_HALF_W, AHEAD_HALF_W, full);
                hopper_bring(at + k.at.q, x + half * AHEAD_HALF_X, AHEAD_HALF_X, full);
                if (!half) continue;
                hopper_bring(stage + k.at.d, w + 2 * AHEAD_HALF_W, w_factors, full);
                hopper_bring(stage + k.at.sum, x + 2 * AHEAD_HALF_X, x_factors, full);
            }
            w += rf_ahead_w_bytes(k.with_m);
            x += rf_ahead_x_bytes(k.with_m);
            if (++now == RF_WIDE_STAGES) {
                now = 0;
                parity ^= 1;
            }
        }
    }
}

RF_DEVICE mm_share ahead_share(const rf_gpu_matmul_args *a, uint32_t i) {
    const uint32_t n_stretches = ahead_stretches(a);
    return share_at(a, ahead_tile_rows(a), RF_WIDE_COLS, a->ahead_first + i / n_stretches,
                    i % n_stretches);
}

RF_DEVICE void ahead_multiply(uint8_t *stages, wide_shared *sh, const rf_gpu_matmul_args *a,
                              wide_kind k) {
    const wide_place at = wide_place_of();
    wide_count c = {0, 0, !at.team};
    float *out = wide_out_of(stages, k);
    RF_NO_UNROLL
    for (uint32_t i = rf_bid_x(); i < a->ahead_tiles * ahead_stretches(a); i += hopper_grid_x()) {
        float v[64];
        wide_work(v, &c, stages, sh, k, &at, a->part[0].w.cols / 256, 0);
        const mm_share share = ahead_share(a, i);
        wide_put(out, v, a, &share, ahead_tile_rows(a));
    }
}

HOPPER_REGISTERS(128, 24, 2 * WIDE_TEAM, 240)
RF_DEVICE void ahead_run(const rf_gpu_matmul_args *a, wide_kind k) {
    wide_shared *sh = (wide_shared *)(void *)hopper_shared;
    uint8_t *stages = wide_begin_block(sh, 1);
    const uint32_t tid = rf_tid();
    if (tid >= 2 * WIDE_TEAM) {
        hopper_24_registers();
        if (tid == 2 * WIDE_TEAM) ahead_bring(stages, sh, a, k);
        return;
    }
    hopper_240_registers();
    ahead_multiply(stages, sh, a, k);
}

#define AHEAD_KERNELS(hi_bits, n_scales, with_m)                                      \
    RF_KERNEL_EARLY(digits_256_4##hi_bits, rf_gpu_matmul_args, 3) {                   \
        const wide_kind kind = {hi_bits, n_scales, with_m, rf_wide_parts_of(with_m)}; \
        ahead_make(&a, kind);                                                         \
    }                                                                                 \
    RF_KERNEL_ALONE(ahead_256_4##hi_bits, rf_gpu_matmul_args) {                       \
        const wide_kind kind = {hi_bits, n_scales, with_m, rf_wide_parts_of(with_m)}; \
        ahead_run(&a, kind);                                                          \
    }
AHEAD_KERNELS(0, 8, 1)
AHEAD_KERNELS(1, 8, 1)
AHEAD_KERNELS(2, 16, 0)
#endif
