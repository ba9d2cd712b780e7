/* test_gpu_attend_halves.c - attention over caches of F16, BF16 and, on NVIDIA's GPUs, Q8_0 on matrix units
 * (kernels/half.h): near an independent result in f64, and the same bits for a row in any company, by the
 * kernel for few rows and by that for many. */
#include "backend/attend_on_gpu.h"
#include "backend/half_rule.h"

static const rf_dtype types[] = {RF_DT_F16, RF_DT_BF16, RF_DT_Q8_0};

static bool is_nvidia(void) { return queue.function[RF_GPU_attend_halves_small] != NULL; }
/* Type number k, of those that the rule is for. */
static rf_dtype type_of(uint32_t k) { return types[k % (is_nvidia() ? 3 : 2)]; }

static double number_of(rf_dtype type, const uint8_t *row, uint32_t i) {
    uint16_t h;
    if (type == RF_DT_Q8_0) {
        const uint8_t *group = row + i / 32 * 34;
        memcpy(&h, group, sizeof h);
        return (double)rf_f16_to_f32(rf_f32_to_f16(rf_f16_to_f32(h) * (int8_t)group[2 + i % 32]));
    }
    memcpy(&h, row + (size_t)2 * i, sizeof h);
    return (double)(type == RF_DT_F16 ? rf_f16_to_f32(h) : rf_bf16_to_f32(h));
}

static bool sees(const attend_case *a, const kv_case *c, const float *mask, uint32_t t,
                 uint32_t j) {
    uint32_t seq = c->row_seq[t], pos = c->pos[t], window = a->pattern.window;
    bool past = j <= pos && j < c->kv_len[seq];
    switch (a->pattern.kind) {
    case RF_ATTN_BIDIRECTIONAL:
        return j < c->kv_len[seq];
    case RF_ATTN_CUSTOM:
        return j < c->kv_len[seq] && mask[j] > -INFINITY;
    case RF_ATTN_PREFIX:
        return past || (j < a->prefix[seq] && j < c->kv_len[seq]);
    case RF_ATTN_LOCAL:
        return past && j + window > pos;
    case RF_ATTN_LOCAL_BOTH:
        return j < c->kv_len[seq] && j + window / 2 >= pos && j <= pos + window / 2;
    case RF_ATTN_GLOBAL_LOCAL:
        return past && (j + window > pos || j < a->pattern.n_global);
    case RF_ATTN_CAUSAL:
        break;
    }
    return past;
}

/* Key or value j of a sequence. */
static const uint8_t *row_of(const attend_case *a, const kv_case *c, const uint8_t *pool,
                             size_t row_bytes, uint32_t seq, uint32_t head, uint32_t j) {
    size_t block = c->table[seq][j / 32];
    return pool + ((block * a->n_kv_heads + head) * 32 + j % 32) * row_bytes;
}

/* A query head as it is multiplied: on NVIDIA's GPUs it is rounded when a score of it is a logarithm to base two. */
static void round_query(double *to, const float *q, const attend_case *a) {
    float x[RF_MAX_HEAD_DIM], by = is_nvidia() ? 0.125f * RF_EXPF_LOG2E : 1;
    for (uint32_t i = 0; i < a->head_dim; i++)
        x[i] = q[i] * by;
    round_row(to, x, a->head_dim, a->k_type == RF_DT_BF16 ? RF_DT_BF16 : RF_DT_F16);
    for (uint32_t i = 0; i < a->head_dim && is_nvidia(); i++)
        to[i] /= 0.125 / log(2);
}

/* Scores of a query head in f64, -inf of what it does not see; returns by how much one may be off. */
static double scores_of(const attend_case *a, const attend_data *d, uint32_t t, uint32_t head,
                        double *s) {
    const kv_case *c = &d->c;
    const uint32_t seq = c->row_seq[t], kv_head = head / (a->n_heads / a->n_kv_heads);
    const float *mask = d->mask ? d->mask + (size_t)t * MASK_STRIDE : NULL;
    double q[RF_MAX_HEAD_DIM], most = 0;
    round_query(q, d->q + ((size_t)t * a->n_heads + head) * a->head_dim, a);
    for (uint32_t j = 0; j < c->kv_len[seq]; j++) {
        const uint8_t *k = row_of(a, c, d->k, d->k_row, seq, kv_head, j);
        double size = 0;
        s[j] = sees(a, c, mask, t, j) ? 0 : -HUGE_VAL;
        if (s[j] < 0) continue;
        for (uint32_t i = 0; i < a->head_dim; i++) {
            s[j] += q[i] * number_of(a->k_type, k, i);
            size += fabs(q[i] * number_of(a->k_type, k, i));
        }
        s[j] *= 0.125;
        size *= 0.125;
        if (a->softcap > 0) s[j] = (double)a->softcap * tanh(s[j] / (double)a->softcap);
        if (mask) s[j] += (double)mask[j];
        most = size > most ? size : most;
    }
    return (most * (a->head_dim / 16 + 2) + 1) * 0x1p-22;
}

/* Is a head's result near?  An exponential is rounded to the cache's format, which of F16 has nothing
 * smaller than 2^-24 of a KV block's largest, on NVIDIA's GPUs of a segment's; scores are off by what a chain of
 * sums in f32 is. */
static void check_head(const attend_case *a, const attend_data *d, uint32_t t, uint32_t head,
                       const float *got) {
    const kv_case *c = &d->c;
    const uint32_t seq = c->row_seq[t], n = c->kv_len[seq];
    const uint32_t kv_head = head / (a->n_heads / a->n_kv_heads);
    double *s = rf_alloc(n + 1, sizeof *s), sink = d->sinks ? (double)d->sinks[head] : -HUGE_VAL;
    assert_non_null(s);
    double off = scores_of(a, d, t, head, s), most = sink, l = 0;
    for (uint32_t j = 0; j < n; j++)
        most = s[j] > most ? s[j] : most;
    l = most > -HUGE_VAL ? exp(sink - most) : 0;
    for (uint32_t j = 0; j < n; j++)
        l += most > -HUGE_VAL ? exp(s[j] - most) : 0;
    for (uint32_t i = 0; i < a->value_dim; i++) {
        double sum = 0, size = 0, largest = 0;
        for (uint32_t j = 0; j < n && l > 0; j++) {
            if (!(s[j] > -HUGE_VAL)) continue;
            double v = number_of(a->v_type, row_of(a, c, d->v, d->v_row, seq, kv_head, j), i);
            sum += exp(s[j] - most) / l * v;
            size += exp(s[j] - most) / l * fabs(v);
            largest = fabs(v) > largest ? fabs(v) : largest;
        }
        double allowed = size * (2 * off + (a->v_type != RF_DT_BF16 ? 0x1p-11 : 0x1p-8) + 0x1p-16) +
                         (a->v_type != RF_DT_BF16 ? largest * 0x1p-20 : 0);
        bool is_near = isfinite(sum) ? fabs((double)got[i] - sum) <= allowed : !isfinite(got[i]);
        if (!is_near)
            fail_msg("row %u, head %u, column %u: %.9g, expected %.9g within %g", t, head, i,
                     (double)got[i], sum, allowed);
    }
    rf_free(s);
}

static float *run(const attend_case *a, const attend_data *d, uint32_t first, uint32_t n) {
    size_t n_dst = (size_t)n * a->n_heads * a->value_dim;
    float *got = rf_alloc(n_dst, sizeof *got);
    assert_non_null(got);
    uint32_t before = n_taken;
    down(got, attend_rows_on_gpu(a, d, first, n), n_dst * sizeof *got);
    while (n_taken > before)
        rf_gpu_free(&queue, taken[--n_taken]);
    return got;
}

static void check_rows(const attend_case *a, const float *all, const float *some, uint32_t first,
                       uint32_t n) {
    size_t row = (size_t)a->n_heads * a->value_dim;
    for (size_t i = 0; i < n * row; i++)
        if (!same(all[first * row + i], some[i]))
            fail_msg(
                "row %zu of %u from %u on, number %zu: %a and %a, %u/%u heads of %u, pattern %d",
                i / row, n, first, i % row, (double)all[first * row + i], (double)some[i],
                a->n_heads, a->n_kv_heads, a->head_dim, (int)a->pattern.kind);
}

/* Was it the kernel, or one that does the same: with integers, or by blocks of half as many warps? */
static bool has_launched(rf_gpu_kernel k, bool with_ints) {
    if (k != RF_GPU_attend_halves) return queue.launched[k];
    return with_ints ? queue.launched[RF_GPU_attend_halves_quant] ||
                           queue.launched[RF_GPU_attend_halves_small_quant]
                     : queue.launched[k] || queue.launched[RF_GPU_attend_halves_small] ||
                           queue.launched[RF_GPU_attend_halves_cluster];
}

/* Near, and the same by rows alone and few together, segments in turns or one after the other. */
static void check_company(const attend_case *of, const rf_gpu_kernel kernel) {
    static const uint32_t units[] = {0, 1, 3, 1000};
    attend_data d;
    attend_case a = *of;
    make_attend(&a, &d);
    bool were_launched[RF_GPU_KERNEL_COUNT];
    memcpy(were_launched, queue.launched, sizeof were_launched);
    memset(queue.launched, 0, sizeof queue.launched);
    uint32_t before = n_with_ints;
    float *all = run(&a, &d, 0, d.c.T);
    assert_true(has_launched(kernel, n_with_ints > before));
    for (size_t k = 0; k < RF_GPU_KERNEL_COUNT; k++)
        queue.launched[k] = queue.launched[k] || were_launched[k];
    for (uint32_t t = 0; t<d.c.T; t += d.c.T> 12 ? 5 : 1)
        for (uint32_t h = 0; h < a.n_heads && !a.has_wild_keys; h++)
            check_head(&a, &d, t, h, all + ((size_t)t * a.n_heads + h) * a.value_dim);
    for (uint32_t t = 0, n; t < d.c.T; t += n) {
        n = d.c.T > 12 && t % 3 ? 7 : 1;
        if (n > d.c.T - t) n = d.c.T - t;
        a.units = units[t % RF_COUNT(units)];
        float *some = run(&a, &d, t, n);
        check_rows(&a, all, some, t, n);
        rf_free(some);
    }
    a.units = of->units == 3 ? 0 : 3;
    float *some = run(&a, &d, d.c.T / 3, d.c.T - d.c.T / 3);
    check_rows(&a, all, some, d.c.T / 3, d.c.T - d.c.T / 3);
    rf_free(some);
    rf_free(all);
    free_attend(&d);
    give_all();
}

static const rf_attn_pattern patterns[] = {
    {RF_ATTN_CAUSAL, 0, 0},      {RF_ATTN_BIDIRECTIONAL, 0, 0}, {RF_ATTN_LOCAL, 40, 0},
    {RF_ATTN_LOCAL_BOTH, 20, 0}, {RF_ATTN_GLOBAL_LOCAL, 33, 5}, {RF_ATTN_CUSTOM, 0, 0},
    {RF_ATTN_LOCAL, 300, 0},     {RF_ATTN_PREFIX, 0, 0}};

/* req: B-12.  Any number of heads that share keys, lengths around the ends of KV blocks and segments; results in
 * integers, too, where blocks have whole groups. */
static void test_few_rows(void **state) {
    (void)state;
    n_with_ints = 0;
    static const uint32_t per_kv[] = {1, 2, 3, 4, 5, 7, 8}, units[] = {0, 1, 3, 1000},
                          lens[] = {1,   2,   31,  32,  33,  65,  97,  255,
                                    256, 257, 300, 511, 400, 520, 390, 700};
    for (uint32_t k = 0; k < 112; k++) {
        const rf_attn_pattern *pattern = &patterns[k % RF_COUNT(patterns)];
        const uint32_t n_kv = k % 3 + 1, most = pattern->kind == RF_ATTN_CUSTOM ? MASK_STRIDE : ~0u;
        const uint32_t len = lens[k * 3 % RF_COUNT(lens)], other = lens[k * 5 / 3 % RF_COUNT(lens)];
        attend_case a = {.n_heads = n_kv * per_kv[k / 3 % RF_COUNT(per_kv)],
                         .n_kv_heads = n_kv,
                         .head_dim = k / 2 % 2 ? 64 : 128,
                         .value_dim = k / 2 % 2 ? 64 : 128,
                         .pattern = *pattern,
                         .softcap = k % 5 == 1 ? 5.0f : 0,
                         .k_type = type_of(k),
                         .v_type = type_of(k),
                         .sinks = k % 4 == 1,
                         .is_wild = k % 10 == 7,
                         .has_wild_keys = k % 20 == 7,
                         .units = units[k / 2 % RF_COUNT(units)],
                         .len = {len < most ? len : most, other < most ? other : most},
                         .prefix = {len / 2, 3},
                         .ints_view = k / 4 % 2 ? 256 : 32};
        for (uint32_t s = 0; s < 2; s++)
            a.rows[s] = (k >> s) % 4 < 2 || a.len[s] < 9 ? 1 : 5;
        check_company(&a, RF_GPU_attend_halves);
    }
    for (rf_gpu_kernel k = RF_GPU_attend_halves; k <= RF_GPU_attend_halves_small_quant; k++)
        assert_int_equal(queue.launched[k], queue.function[k] != NULL);
    if (queue.function[RF_GPU_attend_halves_quant])
        assert_true(n_with_ints > 50);
    else
        assert_int_equal(n_with_ints, 0);
}

/* By the kernel whose warps multiply together, where there is one, and by that whose do not. */
static void check_many(const attend_case *a) {
    bool *is_out = &queue.left_out[RF_GPU_attend_halves_group], was_out = *is_out;
    if (queue.function[RF_GPU_attend_halves_group]) check_company(a, RF_GPU_attend_halves_group);
    *is_out = true;
    check_company(a, RF_GPU_attend_halves_tile);
    *is_out = was_out;
}

/* Many rows of each sequence at a time, and what is no number among the values that some of them see. */
static void test_many_rows(void **state) {
    (void)state;
    static const uint32_t heads[][2] = {{8, 1}, {6, 3}, {14, 2}, {3, 3}, {8, 2}};
    static const uint32_t lens[][2] = {{330, 19}, {44, 290}, {96, 64}, {37, 555}, {301, 11}};
    uint32_t n_units = queue.info.n_units;
    queue.info.n_units = 1; /* few blocks are enough */
    for (uint32_t k = 0; k < 36; k++) {
        const rf_attn_pattern *pattern = &patterns[k % RF_COUNT(patterns)];
        attend_case a = {.n_heads = heads[k % 5][0],
                         .n_kv_heads = heads[k % 5][1],
                         .head_dim = k / 2 % 2 ? 64 : 128,
                         .value_dim = k / 2 % 2 ? 64 : 128,
                         .pattern = *pattern,
                         .softcap = k % 4 == 1 ? 5.0f : 0,
                         .sinks = k % 3 == 1,
                         .is_wild = k % 6 > 3,
                         .has_wild_keys = k % 12 == 4,
                         .k_type = type_of(k),
                         .v_type = type_of(k),
                         .len = {lens[k / 2 % 5][0], lens[k / 2 % 5][1]},
                         .rows = {k % 3 ? 37 : 9, 11},
                         .prefix = {lens[k / 2 % 5][0] - 5, 3}};
        if (pattern->kind == RF_ATTN_CUSTOM) continue; /* goes to the kernel for few */
        check_many(&a);
    }
    attend_case wild = {.n_heads = 8, /* windows begin with each of the keys */
                        .n_kv_heads = 2,
                        .head_dim = 128,
                        .value_dim = 128,
                        .pattern = {RF_ATTN_LOCAL, 20, 0},
                        .k_type = RF_DT_F16,
                        .v_type = RF_DT_F16,
                        .is_wild = true,
                        .len = {61, 20},
                        .rows = {61, 3}};
    check_many(&wild);
    wild.has_wild_keys = true;
    check_many(&wild);
    queue.info.n_units = n_units;
}

/* A sequence with few rows before one with many: each by its own kernel, in one batch. */
static void test_few_before_many(void **state) {
    (void)state;
    uint32_t n_units = queue.info.n_units;
    queue.info.n_units = 1;
    for (uint32_t k = 0; k < 24; k++) {
        const uint32_t n_few = k % (RF_GPU_MANY_ROWS - 1) + 1;
        attend_case a = {.n_heads = 8,
                         .n_kv_heads = k % 3 ? 2 : 1,
                         .head_dim = k / 2 % 2 ? 64 : 128,
                         .value_dim = k / 2 % 2 ? 64 : 128,
                         .pattern = patterns[k % RF_COUNT(patterns)],
                         .sinks = k % 3 == 1,
                         .k_type = type_of(k),
                         .v_type = type_of(k),
                         .len = {k % 2 ? 290 : 33, k % 5 ? 75 : 333},
                         .rows = {n_few, k % 4 ? 40 : 56},
                         .prefix = {20, 50},
                         .ints_view = 256};
        if (a.pattern.kind == RF_ATTN_CUSTOM) continue;
        check_many(&a);
        attend_data d;
        make_attend(&a, &d);
        memset(queue.launched, 0, sizeof queue.launched);
        rf_free(run(&a, &d, 0, d.c.T));
        assert_true(has_launched(RF_GPU_attend_halves, false));
        assert_true(queue.launched[RF_GPU_attend_halves_group] ||
                    queue.launched[RF_GPU_attend_halves_tile]);
        free_attend(&d);
        give_all();
    }
    queue.info.n_units = n_units;
}

/* Huge and tiny queries, and keys that leave F16's range for scores. */
static void test_sizes(void **state) {
    (void)state;
    static const float factors[] = {1e30f, 1e-30f, 1e7f, 0.0f};
    for (uint32_t k = 0; k < 3 * RF_COUNT(factors); k++) {
        attend_case a = {.n_heads = 4,
                         .n_kv_heads = 1,
                         .head_dim = 64,
                         .value_dim = 64,
                         .k_type = type_of(k),
                         .v_type = type_of(k),
                         .len = {40, 3},
                         .rows = {1, 1}};
        attend_data d;
        make_attend(&a, &d);
        for (uint32_t i = 0; i < 64; i++)
            d.q[i] *= factors[k / 3];
        float *got = run(&a, &d, 0, 2);
        for (uint32_t h = factors[k / 3] > 1; h < 8; h++) /* the first one's scores are far apart */
            check_head(&a, &d, h / 4, h % 4, got + (size_t)h * 64);
        for (uint32_t i = 0; i < 64; i++)
            assert_true(isfinite(got[i]));
        rf_free(got);
        free_attend(&d);
        give_all();
    }
}

/* Heads that attention makes itself, against the kernel of heads before it. */
static void test_own(void **state) {
    (void)state;
    static const uint32_t lens[][2] = {{1, 32}, {33, 340}, {257, 96}, {2300, 1290}};
    bool by_small = false;
    for (uint32_t k = 0; k < 40; k++) {
        uint32_t dim = k % 2 ? 64 : 128;
        const uint32_t *len = lens[k < 36 ? k % 3 : 3];
        own_case o = {.per_kv = k % 5 + 1,
                      .head_dim = dim,
                      .value_dim = dim,
                      .n_dims = k % 3 ? dim : dim / 4,
                      .norm = k % 7 % 3,
                      .len = {len[0], len[1]},
                      .neox = k / 2 % 2,
                      .moves_q = k % 6 != 5,
                      .units = k < 36 ? (k % 4 > 1 ? 1000 : 0) : 3,
                      .type = type_of(k / 2)};
        queue.launched[RF_GPU_attend_halves] = queue.launched[RF_GPU_attend_halves_small] = false;
        queue.launched[RF_GPU_attend_halves_cluster] = false;
        check_own_heads(&o);
        assert_true(has_launched(RF_GPU_attend_halves, false));
        by_small = by_small || queue.launched[RF_GPU_attend_halves_small];
    }
    assert_int_equal(by_small, queue.function[RF_GPU_attend_halves_small] != NULL);
}

/* Other heads, values that are keys and a device without the kernel stay with the CPU's arithmetic. */
static void test_others(void **state) {
    (void)state;
    attend_case a = {.n_heads = 4,
                     .n_kv_heads = 2,
                     .head_dim = 96,
                     .value_dim = 96,
                     .k_type = RF_DT_F16,
                     .v_type = RF_DT_F16,
                     .len = {70, 40},
                     .rows = {20, 9}};
    for (int k = 0; k < 3; k++) {
        attend_data d;
        a.head_dim = a.value_dim = k ? 64 : 96;
        queue.left_out[RF_GPU_attend_halves] = k == 2;
        a.latent = k == 1;
        make_attend(&a, &d);
        float *fast = run(&a, &d, 0, d.c.T);
        queue.fast_floats = false;
        float *slow = run(&a, &d, 0, d.c.T);
        queue.fast_floats = true;
        check_rows(&a, slow, fast, 0, d.c.T);
        rf_free(fast);
        rf_free(slow);
        free_attend(&d);
        give_all();
    }
    queue.left_out[RF_GPU_attend_halves] = false;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_rows),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_few_before_many),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests(tests, open_fast, close_device);
}
