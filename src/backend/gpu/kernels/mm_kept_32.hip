/* mm_kept_32.hip - weights in groups of 32 as they are kept for products with very many activation rows on Hopper's matrix
 * units (mm_wide_32.hip, behind which this file is included), in memory that is free: a third less to do for each than to make
 * f16 of what lies in memory.
 *
 * An integer is seven bits and a sign, and as f16 a multiple of its least number, 2^-24, which the units take as it is.
 * Two of them are sixteen bits: the first one's seven low ones and the uppermost are one f16, and with its bytes exchanged
 * the other.  Factors are f32, times 2^24, or where there are minima both in f16.  -128, and a factor beyond 2^100, cannot be kept. */

#if defined(RF_HOPPER)
#define KEPT_MOST_D 0x1p100f

/* Four signed bytes' sizes, with the first's sign above the second, and the other way round, of either pair. */
RF_DEVICE uint32_t kept_word(uint32_t q) {
    const uint32_t signs = q & 0x80808080u, all = (signs >> 7) * 255;
    return ((q ^ all) + (signs >> 7)) | rf_four_bytes(signs, 0, 0x2301);
}

RF_DEVICE int kept_has(uint32_t q) {
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        if ((q >> 8 * i & 255) == 128) return 0;
    return 1;
}

/* Group c of the stage, of row number number of the tile: of each half of a warp's eight rows the first half of the columns and
 * the second, as the warp loads them.  m: its minimum, or NULL.  Returns whether it can be kept. */
RF_DEVICE int kept_put(uint8_t *made, const mm_raw *raw, int lo_bits, int hi_bits, int32_t off,
                       float d, const float *m, uint32_t number, uint32_t c) {
    const uint32_t warp = number / 16, j = number % 16 / 8, g = number % 8;
    uint8_t *to = made + (((warp * RF_GROUPS_MANY + c) * 4 + 2 * j) * 8 + g) * 16;
    int has = d <= KEPT_MOST_D && d >= -KEPT_MOST_D;
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t q = word_of(raw, lo_bits, hi_bits, (int)i);
        if (lo_bits != 8) q = less_off(q, off);
        has &= kept_has(q);
        *(uint32_t *)(void *)(to + i / 4 * 128 + i % 4 * 4) = kept_word(q);
    }
    const uint32_t at = (warp * RF_GROUPS_MANY + c) * 16 + 2 * g + j;
    if (!m) {
        ((float *)(void *)(made + RF_KEPT_D))[at] = d * KEPT_UP;
        return has;
    }
    uint16_t *halves = (uint16_t *)(void *)(made + RF_KEPT_D);
    halves[at] = rf_f16_of(d);
    halves[RF_KEPT_HALVES / 2 + ((warp * 8 + g) * RF_GROUPS_MANY + c) * 2 + j] = rf_f16_of(*m);
    return has;
}

/* Grid x: stages; y: tiles of weight rows, of which a thread has one. */
RF_DEVICE void kept_make(const rf_gpu_matmul_args *a, int lo_bits, int hi_bits) {
    const mm_share share = share_at(a, ahead_tile_rows(a), RF_WIDE_COLS, rf_bid_y(), 0);
    const wide_row r = wide_row_of(a, &share, rf_tid());
    const uint32_t n_groups = r.w->cols / 32;
    uint8_t *made = hopper_shared;
    int has = 1;
    RF_UNROLL
    for (uint32_t c = 0; c < RF_GROUPS_MANY; c++) {
        const uint32_t group = rf_bid_x() * RF_GROUPS_MANY + c;
        const uint64_t at = r.tile * n_groups + rf_min_u32(group, n_groups - 1);
        mm_raw raw = load_chunk(r.w, lo_bits, hi_bits, at, r.row);
        const float d = scale_at(r.w->d, at * 32 + r.row, r.w->d_f32);
        const float m = r.w->m && group < n_groups ? scale_at(r.w->m, at * 32 + r.row, 0) : 0.0f;
        has &= kept_put(made, &raw, lo_bits, hi_bits, r.w->off, group < n_groups ? d : 0.0f,
                        r.w->m ? &m : 0, r.number, c);
    }
    if (!has) *a->unfit = 1;
    hopper_publish();
    rf_sync();
    if (rf_tid() == 0)
        hopper_take_away(a->digits +
                             ((uint64_t)rf_bid_y() * groups_stages(a) + rf_bid_x()) * RF_KEPT_BYTES,
                         made, RF_KEPT_BYTES);
}

RF_KERNEL(keep_32_40, rf_gpu_matmul_args) { kept_make(&a, 4, 0); }
RF_KERNEL(keep_32_41, rf_gpu_matmul_args) { kept_make(&a, 4, 1); }
RF_KERNEL(keep_32_80, rf_gpu_matmul_args) { kept_make(&a, 8, 0); }

RF_DEVICE void kept_run(const rf_gpu_matmul_args *a, uint32_t rows, uint32_t with_m) {
    const groups_kind kind = {8, 0, with_m, 0, 1, rf_kept_parts(rows), rows, wide_team_cols(rows),
                              0};
    groups_run(a, kind);
}

/* kinds.def has their order. */
RF_KERNEL_ALONE(wide_32_kept, rf_gpu_matmul_args) { kept_run(&a, RF_WIDE_ROWS, 0); }
RF_KERNEL_KIND_ALONE(wide_32_kept, 1, rf_gpu_matmul_args) { kept_run(&a, RF_WIDE_ROWS, 1); }
RF_KERNEL_ALONE(wide_32_kept_low, rf_gpu_matmul_args) { kept_run(&a, RF_WIDE_ROWS / 2, 0); }
RF_KERNEL_KIND_ALONE(wide_32_kept_low, 1, rf_gpu_matmul_args) { kept_run(&a, RF_WIDE_ROWS / 2, 1); }
#endif
