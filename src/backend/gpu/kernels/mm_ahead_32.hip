/* mm_ahead_32.hip - products of weights in groups of 32 with so many activation rows on Hopper's matrix units that
 * the weights' integers are laid out ahead, once for all of them.
 *
 * As mm_ahead.hip, behind which this file is included, but a group has one product, whose integers are added as soon
 * as they are there, two groups at a time.  Adding takes longer than multiplying, so that the two teams, each with 64
 * weight rows, take no turns.  A stage is four groups: integers of weights and their factors, then activations and
 * theirs (rf_groups_side). */

#if defined(RF_HOPPER)
typedef struct groups_shared {
    uint64_t full[RF_GROUPS_STAGES], empty[RF_GROUPS_STAGES];
} groups_shared;

RF_DEVICE uint32_t groups_stages(const rf_gpu_matmul_args *a) {
    return rf_div_up(a->part[0].w.cols, RF_GROUPS_COLS);
}

/* Where stages lie: of activation rows [stretches][stages], of weights behind it [tiles][stages]. */
RF_DEVICE uint8_t *groups_x_at(const rf_gpu_matmul_args *a, uint32_t with_m, uint32_t stretch) {
    return a->ahead + (uint64_t)stretch * groups_stages(a) * rf_groups_side(with_m);
}
RF_DEVICE uint8_t *groups_w_at(const rf_gpu_matmul_args *a, uint32_t with_m, uint32_t tile) {
    return groups_x_at(a, with_m, ahead_stretches(a) + tile);
}

/* Making ----------------------------------------------------------------------------------------*/

/* 32 integers, chunk number c of a row of a side. */
RF_DEVICE void groups_put(uint8_t *side, uint32_t row, uint32_t c, const uint32_t words[8]) {
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const rf_u4 piece = {{words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]}};
        *(rf_u4 *)(void *)(side + row * 128 + ((2 * c + i) ^ row % 8) * 16) = piece;
    }
}

/* The factors of a side: d, and with minima m or sums. */
RF_DEVICE float *groups_factors(uint8_t *side, uint32_t number) {
    return (float *)(void *)(side + RF_GROUPS_INTS + number * RF_GROUPS_FACTORS);
}

/* All four groups of a weight row in a stage; those beyond the last add -0, which changes nothing. */
RF_DEVICE void groups_make_w(uint8_t *side, const rf_gpu_matmul_args *a, int lo_bits, int hi_bits,
                             uint32_t with_m, uint32_t tile, uint32_t stage) {
    const mm_share share = share_at(a, ahead_tile_rows(a), RF_WIDE_COLS, tile, 0);
    const wide_row r = wide_row_of(a, &share, rf_tid() % RF_WIDE_ROWS);
    const uint32_t n_groups = r.w->cols / 32, first = stage * RF_GROUPS_MANY;
    mm_raw raw[RF_GROUPS_MANY];
    rf_f4 d, m;
    RF_UNROLL
    for (uint32_t c = 0; c < RF_GROUPS_MANY; c++) {
        const uint64_t at = r.tile * n_groups + rf_min_u32(first + c, n_groups - 1);
        raw[c] = load_chunk(r.w, lo_bits, hi_bits, at, r.row);
        d.v[c] = scale_at(r.w->d, at * 32 + r.row, r.w->d_f32);
        m.v[c] = with_m ? scale_at(r.w->m, at * 32 + r.row, r.w->d_f32) : 0.0f;
    }
    RF_UNROLL
    for (uint32_t c = 0; c < RF_GROUPS_MANY; c++) {
        const uint32_t is_there = first + c < n_groups;
        uint32_t words[8];
        RF_UNROLL
        for (int j = 0; j < 8; j++) {
            words[j] = word_of(&raw[c], lo_bits, hi_bits, j);
            if (lo_bits != 8) words[j] = less_off(words[j], r.w->off);
            if (!is_there) words[j] = 0;
        }
        if (!is_there) d.v[c] = m.v[c] = -0.0f;
        groups_put(side, r.number, c, words);
    }
    ((rf_f4 *)(void *)groups_factors(side, 0))[r.number] = d;
    if (with_m) ((rf_f4 *)(void *)groups_factors(side, 1))[r.number] = m;
}

/* All four groups of an activation row; rows beyond the last are the last. */
RF_DEVICE void groups_make_x(uint8_t *side, const rf_gpu_matmul_args *a, uint32_t with_m,
                             uint32_t stretch, uint32_t stage) {
    const uint32_t own = rf_tid() % RF_WIDE_COLS, n_groups = a->part[0].w.cols / 32,
                   row = rf_min_u32(stretch * RF_WIDE_COLS + own, a->n_rows - 1);
    const rf_u4 *q = (const rf_u4 *)(const void *)a->xq.q;
    RF_UNROLL
    for (uint32_t c = 0; c < RF_GROUPS_MANY; c++) {
        const uint32_t g = stage * RF_GROUPS_MANY + c, is_there = g < n_groups,
                       at = c * RF_WIDE_COLS + own;
        const uint64_t group = (uint64_t)row * n_groups + rf_min_u32(g, n_groups - 1);
        const rf_u4 first = q[2 * group], second = q[2 * group + 1];
        const uint32_t words[8] = {first.v[0],  first.v[1],  first.v[2],  first.v[3],
                                   second.v[0], second.v[1], second.v[2], second.v[3]};
        groups_put(side, own, c, words);
        groups_factors(side, 0)[at] = is_there ? a->xq.d[group] : 0.0f;
        if (with_m) groups_factors(side, 1)[at] = is_there ? (float)a->xq.sum[group] : 0.0f;
    }
}

/* Grid x: pairs of stages, a thread has a row of one of them; y: tiles, and with the first of these the stretches of
 * activation rows.  Weights are there before the kernel in front has ended. */
RF_DEVICE void groups_make(const rf_gpu_matmul_args *a, int lo_bits, int hi_bits, uint32_t with_m) {
    const uint32_t y = rf_bid_y(), is_x = y >= a->ahead_tiles, bytes = rf_groups_side(with_m),
                   first = 2 * rf_bid_x(), half = rf_tid() / RF_WIDE_ROWS,
                   n = rf_min_u32(groups_stages(a) - first, 2);
    uint8_t *side = hopper_shared + half * bytes, *to;
    if (is_x) {
        rf_await_before();
        groups_make_x(side, a, with_m, y - a->ahead_tiles, first + half);
        to = groups_x_at(a, with_m, y - a->ahead_tiles);
    } else {
        groups_make_w(side, a, lo_bits, hi_bits, with_m, a->ahead_first + y, first + half);
        rf_await_before();
        to = groups_w_at(a, with_m, y);
    }
    hopper_publish();
    rf_sync();
    if (rf_tid() == 0) hopper_take_away(to + (uint64_t)first * bytes, hopper_shared, n * bytes);
}

/* Multiplying -----------------------------------------------------------------------------------*/

/* Where one is in the ring. */
typedef struct groups_place {
    uint32_t now, parity;
} groups_place;

RF_DEVICE void groups_turn(groups_place *p) {
    if (++p->now < RF_GROUPS_STAGES) return;
    p->now = 0;
    p->parity ^= 1;
}

/* One thread brings all stages. */
RF_DEVICE void groups_bring(uint8_t *stages, groups_shared *sh, const rf_gpu_matmul_args *a,
                            uint32_t with_m) {
    const uint32_t n_stretches = ahead_stretches(a), side = rf_groups_side(with_m);
    groups_place p = {0, 1};
    RF_NO_UNROLL
    for (uint32_t i = rf_bid_x(); i < a->ahead_tiles * n_stretches; i += hopper_grid_x()) {
        const uint8_t *w = groups_w_at(a, with_m, i / n_stretches),
                      *x = groups_x_at(a, with_m, i % n_stretches);
        RF_NO_UNROLL
        for (uint32_t g = 0; g < groups_stages(a); g++) {
            uint8_t *stage = stages + p.now * 2 * side;
            ring_await(&sh->empty[p.now], p.parity);
            hopper_arrive_with(&sh->full[p.now], 2 * side);
            hopper_bring(stage, w + (uint64_t)g * side, side, &sh->full[p.now]);
            hopper_bring(stage + side, x + (uint64_t)g * side, side, &sh->full[p.now]);
            groups_turn(&p);
        }
    }
}

RF_DEVICE void groups_begin(int32_t sums[64], const uint8_t *stage, uint32_t c, uint32_t with_m,
                            const wide_place *at) {
    const uint32_t w = rf_shared_at(stage);
    hopper_multiply(sums, hopper_chunk(w + at->team * 64 * RF_GROUPS_COLS, c),
                    hopper_chunk(w + rf_groups_side(with_m), c), 0, 0);
    hopper_end();
}

/* Group c of a stage onto the sums. */
RF_DEVICE void groups_add(float v[64], const int32_t exact[64], uint8_t *stage, uint32_t c,
                          uint32_t with_m, const wide_place *at) {
    const uint32_t row = at->row * RF_GROUPS_MANY + c, other = row + 8 * RF_GROUPS_MANY,
                   cols = c * RF_WIDE_COLS / 2 + at->t;
    uint8_t *x_side = stage + rf_groups_side(with_m);
    const float *d = groups_factors(stage, 0), *m = groups_factors(stage, 1);
    const rf_f2 *xd = (const rf_f2 *)(void *)groups_factors(x_side, 0) + cols,
                *sum = (const rf_f2 *)(void *)groups_factors(x_side, 1) + cols;
    const float of_rows[2] = {d[row], d[other]};
    float mins[2] = {0.0f, 0.0f};
    if (with_m) {
        mins[0] = m[row];
        mins[1] = m[other];
    }
    RF_UNROLL
    for (uint32_t n = 0; n < RF_WIDE_COLS / 8; n++) {
        const rf_f2 two = xd[4 * n];
        rf_f2 sums = two;
        if (with_m) sums = sum[4 * n];
        RF_UNROLL
        for (uint32_t j = 0; j < 4; j++) {
            float *to = &v[4 * n + j];
            *to = rf_fma((float)exact[4 * n + j], of_rows[j / 2] * two.v[j % 2], *to);
            if (with_m) *to = rf_fma(sums.v[j % 2], mins[j / 2] * two.v[j % 2], *to);
        }
    }
}

/* One tile's sums. */
RF_DEVICE void groups_work(float v[64], groups_place *p, uint8_t *stages, groups_shared *sh,
                           const wide_place *at, uint32_t n_stages, uint32_t with_m) {
    int32_t even[64], odd[64];
    RF_UNROLL
    for (uint32_t i = 0; i < 64; i++) {
        v[i] = 0.0f;
        even[i] = odd[i] = 0;
    }
    RF_NO_UNROLL
    for (uint32_t g = 0; g < n_stages; g++) {
        uint8_t *stage = stages + p->now * 2 * rf_groups_side(with_m);
        ring_await(&sh->full[p->now], p->parity);
        RF_UNROLL
        for (uint32_t c = 0; c < RF_GROUPS_MANY; c += 2) {
            hopper_hold(even);
            hopper_hold(odd);
            hopper_begin();
            groups_begin(even, stage, c, with_m, at);
            groups_begin(odd, stage, c + 1, with_m, at);
            hopper_wait_but(1);
            hopper_hold(even);
            groups_add(v, even, stage, c, with_m, at);
            hopper_wait_but(0);
            hopper_hold(odd);
            groups_add(v, odd, stage, c + 1, with_m, at);
        }
        rf_warp_sync();
        if (rf_tid() % 32 == 0) ring_arrive(&sh->empty[p->now]);
        groups_turn(p);
    }
}

RF_DEVICE void groups_multiply(uint8_t *stages, groups_shared *sh, const rf_gpu_matmul_args *a,
                               uint32_t with_m) {
    const wide_place at = wide_place_of();
    groups_place p = {0, 0};
    float *out = (float *)(void *)(stages + RF_GROUPS_STAGES * 2 * rf_groups_side(with_m) +
                                   rf_tid() / 32 * RF_WIDE_OUT_BYTES);
    RF_NO_UNROLL
    for (uint32_t i = rf_bid_x(); i < a->ahead_tiles * ahead_stretches(a); i += hopper_grid_x()) {
        float v[64];
        groups_work(v, &p, stages, sh, &at, groups_stages(a), with_m);
        const mm_share share = ahead_share(a, i);
        wide_put(out, v, a, &share, ahead_tile_rows(a));
    }
}

HOPPER_REGISTERS(128, 24, 2 * WIDE_TEAM, 240)
RF_DEVICE void groups_run(const rf_gpu_matmul_args *a, uint32_t with_m) {
    groups_shared *sh = (groups_shared *)(void *)hopper_shared;
    uint8_t *stages = hopper_shared + RF_WIDE_HEAD;
    const uint32_t tid = rf_tid();
    if (tid < RF_GROUPS_STAGES) {
        ring_init(&sh->full[tid], 1);
        ring_init(&sh->empty[tid], 2 * WIDE_TEAM / 32);
    }
    hopper_publish(); /* to copies that run by themselves */
    rf_sync();
    if (tid >= 2 * WIDE_TEAM) {
        hopper_24_registers();
        if (tid == 2 * WIDE_TEAM) groups_bring(stages, sh, a, with_m);
        return;
    }
    hopper_240_registers();
    groups_multiply(stages, sh, a, with_m);
}

RF_KERNEL_ALONE(ahead_32, rf_gpu_matmul_args) { groups_run(&a, 0); }
RF_KERNEL_ALONE(ahead_32_minima, rf_gpu_matmul_args) { groups_run(&a, 1); }

#define GROUPS_KERNEL(lo_bits, hi_bits)                                    \
    RF_KERNEL_EARLY(digits_32_##lo_bits##hi_bits, rf_gpu_matmul_args, 4) { \
        if (a.part[0].w.m)                                                 \
            groups_make(&a, lo_bits, hi_bits, 1);                          \
        else                                                               \
            groups_make(&a, lo_bits, hi_bits, 0);                          \
    }
GROUPS_KERNEL(4, 0)
GROUPS_KERNEL(4, 1)
GROUPS_KERNEL(8, 0)
#endif
