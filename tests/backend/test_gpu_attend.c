/* test_gpu_attend.c - the GPU's kernels of heads, KV cache and attention against the scalar kernels of the CPU
 * backend: equal bits. */
#include "backend/attend_on_gpu.h"
#include "backend/cpu/exec.h"

typedef struct head_shape {
    uint32_t n_heads, head_dim, n_dims;
    uint32_t norm;
    bool neox, rope, put;
} head_shape;

/* One part of a heads launch on the CPU: x in place, then into the pool. */
static void heads_on_cpu(const head_shape *s, const kv_case *c, float *x, const float *w,
                         const float *cos_sin, rf_dtype type, uint8_t *pool) {
    rf_rope rope = {.kind = s->neox ? RF_ROPE_NEOX : RF_ROPE_NORM, .n_dims = s->n_dims};
    for (uint32_t t = 0; t < c->T; t++) {
        float *row = x + (size_t)t * s->n_heads * s->head_dim;
        for (uint32_t h = 0; h < s->n_heads && s->norm; h++)
            norm_on_cpu(s->norm, row + (size_t)h * s->head_dim, row + (size_t)h * s->head_dim, w,
                        s->norm == RF_GPU_LAYER_NORM ? w : NULL, s->head_dim);
        if (s->rope)
            cpu->rope(row, s->n_heads, s->head_dim, &rope, cos_sin + (size_t)c->pos[t] * s->n_dims);
        for (uint32_t h = 0; h < s->n_heads && s->put; h++) {
            uint32_t block = c->table[c->row_seq[t]][c->pos[t] / 32];
            size_t slot = ((size_t)block * s->n_heads + h) * 32 + c->pos[t] % 32;
            store_row(type, pool + slot * rf_kv_head_bytes(type, s->head_dim),
                      row + (size_t)h * s->head_dim, s->head_dim);
        }
    }
}

/* Part p has the cache format types[p]. */
static void check_heads(const head_shape *shape, uint32_t n_parts, const rf_dtype *types,
                        bool in_place, bool many_rows) {
    kv_case c;
    make_batch(&c, 70, many_rows ? 35 : 5, 33, many_rows ? 29 : 3);
    rf_gpu_heads_args args = {.batch = c.gpu, .n_parts = n_parts, .n_rows = c.T};
    float *x[3];
    uint8_t *pool[3];
    size_t n[3], pool_bytes[3];
    for (uint32_t p = 0; p < n_parts; p++) {
        const head_shape *s = &shape[p];
        n[p] = (size_t)c.T * s->n_heads * s->head_dim;
        pool_bytes[p] =
            (size_t)KV_BLOCKS * s->n_heads * 32 * rf_kv_head_bytes(types[p], s->head_dim);
        x[p] = random_floats(n[p], 2);
        if (s->norm == RF_GPU_NO_NORM && !s->rope) { /* a group of zeros, huge and tiny values */
            memset(x[p], 0, 32 * sizeof(float));
            x[p][s->head_dim] = 1e30f;
            x[p][2 * s->head_dim] = -1e-42f;
        }
        pool[p] = rf_alloc(pool_bytes[p], 1);
        memset(pool[p], 0x3c, pool_bytes[p]);
        float *w = random_floats(s->head_dim, 1),
              *cos_sin = random_floats((size_t)80 * s->n_dims, 1);
        rf_gpu_heads *h = &args.part[p];
        *h = (rf_gpu_heads){.x = up(x[p], n[p] * sizeof(float)),
                            .pool = s->put ? up(pool[p], pool_bytes[p]) : NULL,
                            .w = up(w, s->head_dim * sizeof(float)),
                            .cos_sin = s->rope ? up(cos_sin, (size_t)80 * s->n_dims * 4) : NULL,
                            .n_heads = s->n_heads,
                            .head_dim = s->head_dim,
                            .n_dims = s->n_dims,
                            .neox = s->neox,
                            .norm = s->norm,
                            .pool_type = types[p],
                            .eps = 1e-5f};
        if (s->norm == RF_GPU_LAYER_NORM) h->b = h->w;
        union {
            const float *from;
            float *to;
        } same_place = {h->x};
        h->dst = in_place ? same_place.to : take(n[p] * sizeof(float));
        heads_on_cpu(s, &c, x[p], w, cos_sin, types[p], pool[p]);
        rf_free(w);
        rf_free(cos_sin);
    }
    rf_gpu_op_heads(&queue, &args);
    for (uint32_t p = 0; p < n_parts; p++) {
        check_floats("heads", x[p], args.part[p].dst, n[p]);
        if (shape[p].put) check_bytes("KV pool", pool[p], args.part[p].pool, pool_bytes[p]);
        rf_free(x[p]);
        rf_free(pool[p]);
    }
    give_all();
}

static void test_heads(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_F32,  RF_DT_F16, RF_DT_BF16, RF_DT_Q8_0,
                                     RF_DT_Q4_0, RF_DT_F16, RF_DT_F32};
    for (int k = 0; k < 20; k++) {
        const rf_dtype *of = types + k % 5;
        bool in_place = k & 4, neox = k & 8;
        head_shape qkv[3] = {{5, 128, 128, RF_GPU_RMS_NORM, neox, true, false},
                             {2, 128, 128, RF_GPU_RMS_NORM, neox, true, true},
                             {2, 72, 2, RF_GPU_NO_NORM, false, false, true}};
        check_heads(qkv, 3, of, in_place, false);
        head_shape odd[1] = {{3, 37, 18, RF_GPU_LAYER_NORM, neox, true, true}};
        check_heads(odd, 1, of, in_place, false);
        head_shape wide[2] = {{1, 640, 64, RF_GPU_NO_NORM, neox, true, true},
                              {4, 16, 8, RF_GPU_NO_NORM, neox, true, false}};
        check_heads(wide, 2, of, in_place, false);
        head_shape plain[3] = {{5, 128, 128, RF_GPU_NO_NORM, neox, true, false},
                               {2, 128, 96, RF_GPU_NO_NORM, neox, true, true},
                               {2, 72, 2, RF_GPU_NO_NORM, false, false, true}};
        check_heads(plain, 3, of, in_place, true);
    }
}

/* Many rows of Q8_0, whose groups are several threads': rotated whole or in part, of neighbours or of halves. */
static void test_heads_q8(void **state) {
    (void)state;
    static const rf_dtype types[][3] = {{RF_DT_F16, RF_DT_Q8_0, RF_DT_Q8_0},
                                        {RF_DT_F16, RF_DT_Q8_0, RF_DT_BF16},
                                        {RF_DT_F16, RF_DT_F16, RF_DT_Q8_0}};
    for (uint32_t k = 0; k < 12; k++) {
        bool neox = k & 1;
        head_shape shape[3] = {{5, 128, 128, RF_GPU_NO_NORM, neox, true, false},
                               {3, 64, 64, RF_GPU_NO_NORM, neox, true, true},
                               {3, 64, 2, RF_GPU_NO_NORM, false, false, true}};
        if (k & 2) shape[1] = (head_shape){3, 192, 128, RF_GPU_NO_NORM, neox, true, true};
        queue.launched[RF_GPU_heads_rows] = false;
        check_heads(shape, 3, types[k / 4], false, true);
        assert_true(queue.launched[RF_GPU_heads_rows]);
    }
}

/* Every row and KV head on the CPU. */
static void attend_on_cpu(const attend_case *a, const kv_case *c, const float *q, const uint8_t *k,
                          const uint8_t *v, const float *sinks, const float *mask, float *dst) {
    size_t k_row = rf_kv_head_bytes(a->k_type, a->head_dim);
    size_t v_row = a->latent ? k_row : rf_kv_head_bytes(a->v_type, a->value_dim);
    uint32_t per = a->n_heads / a->n_kv_heads;
    for (uint32_t t = 0; t < c->T; t++)
        for (uint32_t h = 0; h < a->n_kv_heads; h++) {
            rf_attend args = {.q = q + ((size_t)t * a->n_heads + (size_t)h * per) * a->head_dim,
                              .dst =
                                  dst + ((size_t)t * a->n_heads + (size_t)h * per) * a->value_dim,
                              .sinks = sinks ? sinks + (size_t)h * per : NULL,
                              .n_rows = 1,
                              .n_q = per,
                              .head_dim = a->head_dim,
                              .value_dim = a->value_dim,
                              .k_type = a->k_type,
                              .v_type = a->latent ? a->k_type : a->v_type,
                              .k = k + (size_t)h * 32 * k_row,
                              .v = (a->latent ? k : v) + (size_t)h * 32 * v_row,
                              .k_block = a->n_kv_heads * 32 * k_row,
                              .k_row = k_row,
                              .v_block = a->n_kv_heads * 32 * v_row,
                              .v_row = v_row,
                              .table = c->table[c->row_seq[t]],
                              .pattern = a->pattern,
                              .pos = c->pos + t,
                              .kv_len = c->kv_len[c->row_seq[t]],
                              .mask = mask ? mask + (size_t)t * MASK_STRIDE : NULL,
                              .scale = 0.125f,
                              .softcap = a->softcap};
            if (a->pattern.kind == RF_ATTN_PREFIX) args.pattern.n_global = a->prefix[c->row_seq[t]];
            cpu->attend(&args);
        }
}

static void check_attend(const attend_case *a) {
    char what[100];
    attend_data d;
    make_attend(a, &d);
    size_t n = (size_t)d.c.T * a->n_heads * a->value_dim;
    float *want = random_floats(n, 1);
    attend_on_cpu(a, &d.c, d.q, d.k, d.v, d.sinks, d.mask, want);
    snprintf(what, sizeof what, "attention %u/%u heads of %u %s and %u %s, pattern %d", a->n_heads,
             a->n_kv_heads, a->head_dim, rf_dtype_get(a->k_type)->name, a->value_dim,
             rf_dtype_get(a->v_type)->name, (int)a->pattern.kind);
    check_floats(what, want, attend_rows_on_gpu(a, &d, 0, d.c.T), n);
    rf_free(want);
    free_attend(&d);
    give_all();
}

static void test_attend(void **state) {
    (void)state;
    static const rf_attn_pattern patterns[] = {
        {RF_ATTN_CAUSAL, 0, 0},      {RF_ATTN_BIDIRECTIONAL, 0, 0}, {RF_ATTN_LOCAL, 40, 0},
        {RF_ATTN_LOCAL_BOTH, 20, 0}, {RF_ATTN_GLOBAL_LOCAL, 33, 5}, {RF_ATTN_CUSTOM, 0, 0}};
    static const uint32_t dims[][2] = {{64, 64}, {128, 128}, {80, 80}, {37, 21}, {256, 96}};
    uint32_t k = 0;
    for (size_t p = 0; p < RF_COUNT(patterns); p++)
        for (size_t d = 0; d < RF_COUNT(dims); d++, k++) {
            attend_case a = {.n_heads = 6,
                             .n_kv_heads = k % 3 == 0   ? 6
                                           : k % 3 == 1 ? 2
                                                        : 1,
                             .head_dim = dims[d][0],
                             .value_dim = dims[d][1],
                             .pattern = patterns[p],
                             .softcap = k % 4 == 1 ? 5.0f : 0,
                             .sinks = k % 2,
                             .k_type = k % 5 ? RF_DT_F16 : RF_DT_F32,
                             .v_type = k % 5 ? RF_DT_F16 : RF_DT_F32,
                             .units = k % 3 == 2 ? 0
                                      : k % 2    ? 1000
                                                 : 40,
                             .len = {k % 2 ? 340 : 97, 40},
                             .rows = {3, k % 3 + 1}};
            check_attend(&a);
            a.latent = true;
            a.k_type = a.k_type == RF_DT_F32 ? RF_DT_F16 : RF_DT_F32;
            check_attend(&a);
        }
    attend_case mla = {.n_heads = 17,
                       .n_kv_heads = 1,
                       .head_dim = 576,
                       .value_dim = 512,
                       .latent = true,
                       .k_type = RF_DT_F16,
                       .v_type = RF_DT_F16,
                       .len = {75, 1},
                       .rows = {2, 1}};
    check_attend(&mla);
    attend_case prompt = {.n_heads = 4,
                          .n_kv_heads = 2,
                          .head_dim = 64,
                          .value_dim = 64,
                          .k_type = RF_DT_F16,
                          .v_type = RF_DT_F16,
                          .len = {41, 20},
                          .rows = {41, 20}};
    check_attend(&prompt);
    attend_case many = {.n_heads = 18,
                        .n_kv_heads = 2,
                        .head_dim = 96,
                        .value_dim = 160,
                        .sinks = true,
                        .k_type = RF_DT_F16,
                        .v_type = RF_DT_F16,
                        .len = {300, 64},
                        .rows = {40, 23}};
    check_attend(&many);
    many.k_type = many.v_type = RF_DT_F32;
    check_attend(&many);
    many.head_dim = 640; /* keys too long for shared memory, as values too */
    many.latent = true;
    many.rows[0] = 2;
    check_attend(&many);
    many.k_type = RF_DT_F16;
    many.value_dim = 640;
    check_attend(&many);
}

/* Integers, keys and values each of their own format, by the kernels for every shape. */
static void test_attend_ints(void **state) {
    (void)state;
    static const rf_attn_pattern patterns[] = {
        {RF_ATTN_CAUSAL, 0, 0},      {RF_ATTN_BIDIRECTIONAL, 0, 0}, {RF_ATTN_LOCAL, 40, 0},
        {RF_ATTN_LOCAL_BOTH, 20, 0}, {RF_ATTN_GLOBAL_LOCAL, 33, 5}, {RF_ATTN_CUSTOM, 0, 0}};
    static const uint32_t dims[][2] = {{64, 64},  {128, 128}, {80, 72},  {37, 21},
                                       {72, 128}, {256, 96},  {576, 512}};
    static const rf_dtype types[][2] = {{RF_DT_Q8_0, RF_DT_Q8_0}, {RF_DT_Q4_0, RF_DT_Q4_0},
                                        {RF_DT_Q8_0, RF_DT_F16},  {RF_DT_F32, RF_DT_Q4_0},
                                        {RF_DT_Q4_0, RF_DT_Q8_0}, {RF_DT_BF16, RF_DT_Q8_0}};
    static const uint32_t heads[][2] = {{6, 6}, {6, 2}, {5, 1}, {80, 8}};
    queue.left_out[RF_GPU_attend_ints] = true;
    for (uint32_t k = 0; k < 2 * RF_COUNT(types) * RF_COUNT(dims); k++) {
        const uint32_t *d = dims[k % RF_COUNT(dims)], *h = heads[k / 3 % 4];
        attend_case a = {.n_heads = h[0],
                         .n_kv_heads = h[1],
                         .head_dim = d[0],
                         .value_dim = d[1],
                         .pattern = patterns[k % 11 % RF_COUNT(patterns)],
                         .softcap = k % 5 == 1 ? 5.0f : 0,
                         .k_type = types[k % RF_COUNT(types)][0],
                         .v_type = types[k % RF_COUNT(types)][1],
                         .sinks = k % 3 == 1,
                         .latent = d[0] > d[1] && k % 2,
                         .is_wild = k % 10 == 7,
                         .units = k % 5 < 3 ? 0 : 1000,
                         .len = {k % 3 ? 340 : 97, 40},
                         .rows = {h[0] == 80 ? 6 : 2, k % 2 + 1}};
        check_attend(&a);
    }
    queue.left_out[RF_GPU_attend_ints] = false;
}

/* Q8_0 in the widths that have a kernel of their own: any number of heads that share keys, lengths around the
 * ends of KV blocks and segments, walks of one segment, of several and of all. */
static void test_attend_q8(void **state) {
    (void)state;
    static const rf_attn_pattern patterns[] = {
        {RF_ATTN_CAUSAL, 0, 0},      {RF_ATTN_BIDIRECTIONAL, 0, 0}, {RF_ATTN_LOCAL, 40, 0},
        {RF_ATTN_LOCAL_BOTH, 20, 0}, {RF_ATTN_GLOBAL_LOCAL, 33, 5}, {RF_ATTN_CUSTOM, 0, 0},
        {RF_ATTN_LOCAL, 300, 0}};
    static const uint32_t per_kv[] = {1, 2, 3, 4, 5, 7, 8}, units[] = {0, 1, 3, 1000},
                          lens[] = {1,   2,   31,  32,  33,   65,   97,  255,
                                    256, 257, 300, 511, 1025, 1200, 390, 700};
    const bool has_own = queue.function[RF_GPU_attend_ints]; /* on AMD the kernel for many rows */
    const rf_gpu_kernel kernel = has_own ? RF_GPU_attend_ints : RF_GPU_attend_ints_tile;
    if (!queue.function[kernel]) skip();
    queue.left_out[RF_GPU_attend_ints_tile] = has_own; /* which would take some of these */
    for (uint32_t k = 0; k < 112; k++) {
        const rf_attn_pattern *pattern = &patterns[k % RF_COUNT(patterns)];
        const uint32_t n_kv = k % 3 + 1, most = pattern->kind == RF_ATTN_CUSTOM ? MASK_STRIDE : ~0u;
        const uint32_t len = lens[k % RF_COUNT(lens)], other = lens[k * 5 / 3 % RF_COUNT(lens)];
        attend_case a = {.n_heads = n_kv * per_kv[k / 3 % RF_COUNT(per_kv)],
                         .n_kv_heads = n_kv,
                         .head_dim = k % 2 ? 64 : 128,
                         .value_dim = k % 2 ? 64 : 128,
                         .pattern = *pattern,
                         .softcap = k % 5 == 1 ? 5.0f : 0,
                         .k_type = RF_DT_Q8_0,
                         .v_type = RF_DT_Q8_0,
                         .sinks = k % 4 == 1,
                         .is_wild = k % 10 == 7,
                         .units = units[k / 2 % RF_COUNT(units)],
                         .len = {len < most ? len : most, other < most ? other : most}};
        for (uint32_t s = 0; s < 2; s++)
            a.rows[s] = (k >> s) % 4 < 2 || a.len[s] < 9 ? 1 : 9;
        queue.launched[kernel] = false;
        check_attend(&a);
        assert_true(queue.launched[kernel] == (has_own || pattern->kind != RF_ATTN_CUSTOM));
    }
    queue.left_out[RF_GPU_attend_ints_tile] = false;
}

/* More segments than blocks of threads that take them in turns, and than are folded at once. */
static void test_attend_long(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        attend_case a = {.n_heads = i % 2 ? 5 : 2,
                         .n_kv_heads = i % 2 ? 1 : 2,
                         .head_dim = 16,
                         .value_dim = i % 2 ? 40 : 8,
                         .pattern = {i < 2 ? RF_ATTN_CAUSAL : RF_ATTN_GLOBAL_LOCAL, 2500, 70},
                         .sinks = i % 2,
                         .k_type = RF_DT_F16,
                         .v_type = RF_DT_F16,
                         .units = 3 + 4 * i,
                         .len = {i == 1 ? 33100 : 3301, 700},
                         .rows = {1, 1 + i % 2}};
        check_attend(&a);
    }
}

/* Many rows of each sequence at a time, by either kernel. */
static void check_attend_rows(const attend_case *a) {
    const rf_gpu_kernel kernels[] = {RF_GPU_attend_rows, RF_GPU_attend_tile};
    for (size_t i = 0; i < RF_COUNT(kernels); i++) {
        queue.left_out[kernels[!i]] = true;
        if (queue.function[kernels[i]]) check_attend(a);
        queue.left_out[kernels[!i]] = false;
    }
}

static void test_attend_rows(void **state) {
    (void)state;
    static const rf_attn_pattern patterns[] = {
        {RF_ATTN_CAUSAL, 0, 0},      {RF_ATTN_BIDIRECTIONAL, 0, 0}, {RF_ATTN_LOCAL, 40, 0},
        {RF_ATTN_LOCAL_BOTH, 20, 0}, {RF_ATTN_GLOBAL_LOCAL, 33, 5}, {RF_ATTN_CUSTOM, 0, 0}};
    static const uint32_t dims[][2] = {{128, 128}, {64, 40}, {80, 80}};
    static const uint32_t heads[][2] = {{8, 1}, {6, 2}, {14, 2}, {3, 3}, {16, 1}};
    uint32_t n_units = queue.info.n_units;
    queue.info.n_units = 1; /* few blocks are enough */
    for (size_t p = 0; p < RF_COUNT(patterns); p++) {
        attend_case a = {.n_heads = heads[p % 5][0],
                         .n_kv_heads = heads[p % 5][1],
                         .head_dim = dims[p % 3][0],
                         .value_dim = dims[p % 3][1],
                         .pattern = patterns[p],
                         .softcap = p % 4 == 1 ? 5.0f : 0,
                         .sinks = p % 2,
                         .k_type = p % 4 == 2 ? RF_DT_BF16 : RF_DT_F16,
                         .v_type = p % 4 == 2 ? RF_DT_BF16 : RF_DT_F16,
                         .len = {p % 2 ? 44 : 330, p % 2 ? 290 : 19},
                         .rows = {p % 3 ? 37 : 9, 11}};
        check_attend_rows(&a);
        a.rows[p % 2] += 14;
        a.len[p % 2] += 14;
        check_attend_rows(&a);
        a.rows[0] = 3; /* for another kernel */
        a.rows[1] += 30;
        a.len[1] += 30;
        check_attend_rows(&a);
    }
    attend_case whole = {.n_heads = 8,
                         .n_kv_heads = 2,
                         .head_dim = 128,
                         .value_dim = 128,
                         .k_type = RF_DT_F16,
                         .v_type = RF_DT_F16,
                         .len = {380, 1},
                         .rows = {50, 1}};
    check_attend_rows(&whole);
    queue.info.n_units = n_units;
}

/* Many rows over keys and values in Q8_0. */
static void check_int_rows(const attend_case *a) {
    queue.launched[RF_GPU_attend_ints_tile] = false;
    check_attend(a);
    assert_true(queue.launched[RF_GPU_attend_ints_tile]);
}

static void test_attend_q8_rows(void **state) {
    (void)state;
    static const rf_attn_pattern patterns[] = {
        {RF_ATTN_CAUSAL, 0, 0},       {RF_ATTN_PREFIX, 0, 0},  {RF_ATTN_BIDIRECTIONAL, 0, 0},
        {RF_ATTN_LOCAL, 40, 0},       {RF_ATTN_LOCAL, 300, 0}, {RF_ATTN_LOCAL_BOTH, 20, 0},
        {RF_ATTN_GLOBAL_LOCAL, 33, 5}};
    static const uint32_t heads[][2] = {{8, 1}, {6, 3}, {14, 2}, {3, 3}, {8, 2}};
    static const uint32_t lens[][2] = {{330, 19}, {44, 290}, {96, 64}, {37, 555}, {301, 11}};
    uint32_t n_units = queue.info.n_units;
    if (!queue.function[RF_GPU_attend_ints_tile]) {
        assert_false(rf_gpu_code_has_matrix(queue.info.arch));
        skip();
    }
    queue.info.n_units = 1; /* few blocks are enough */
    for (uint32_t k = 0; k < 28; k++) {
        attend_case a = {.n_heads = heads[k % 5][0],
                         .n_kv_heads = heads[k % 5][1],
                         .head_dim = k % 2 ? 64 : 128,
                         .value_dim = k % 2 ? 64 : 128,
                         .pattern = patterns[k % RF_COUNT(patterns)],
                         .softcap = k % 4 == 1 ? 5.0f : 0,
                         .sinks = k % 3 == 1,
                         .is_wild = k % 6 == 5,
                         .k_type = RF_DT_Q8_0,
                         .v_type = RF_DT_Q8_0,
                         .len = {lens[k / 2 % 5][0], lens[k / 2 % 5][1]},
                         .rows = {k % 3 ? 37 : 9, 11},
                         .prefix = {lens[k / 2 % 5][0] - 5, 3}};
        check_int_rows(&a);
        a.len[k % 2] += 14;
        a.rows[k % 2] += 14;
        check_int_rows(&a);
        a.rows[0] = 3; /* for another kernel */
        a.rows[1] += 30;
        a.len[1] += 30;
        check_int_rows(&a);
    }
    attend_case wild = {.n_heads = 8, /* windows begin with each of the keys */
                        .n_kv_heads = 2,
                        .head_dim = 128,
                        .value_dim = 128,
                        .pattern = {RF_ATTN_LOCAL, 20, 0},
                        .k_type = RF_DT_Q8_0,
                        .v_type = RF_DT_Q8_0,
                        .is_wild = true,
                        .has_wild_keys = true,
                        .len = {61, 20},
                        .rows = {61, 3}};
    check_int_rows(&wild);
    queue.info.n_units = n_units;
}

static void test_own_heads(void **state) {
    (void)state;
    static const uint32_t dims[][3] = {{128, 128, 128}, {64, 64, 64}, {96, 72, 32}, {16, 8, 8}};
    static const uint32_t lens[][2] = {{1, 32}, {33, 340}, {257, 96}, {2300, 1290}};
    for (uint32_t k = 0; k < 40; k++) { /* the last four in turns of several segments */
        const uint32_t *d = dims[k % 4], *len = lens[k < 36 ? k % 3 : 3];
        own_case o = {.per_kv = k % 5 + 1,
                      .head_dim = d[0],
                      .value_dim = d[1],
                      .n_dims = d[2],
                      .norm = k % 7 % 3,
                      .len = {len[0], len[1]},
                      .neox = k % 2,
                      .moves_q = k % 6 != 5,
                      .units = k < 36 ? (k % 4 > 1 ? 1000 : 0) : 3,
                      .type = k % 8 > 4 ? RF_DT_BF16 : RF_DT_F16};
        check_own_heads(&o);
        if (d[0] == 96 || d[0] == 16) continue;
        o.type = RF_DT_Q8_0;
        check_own_heads(&o);
    }
}

/* An argument is the name of the test to run, for emulated devices. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),          cmocka_unit_test(test_heads_q8),
        cmocka_unit_test(test_attend),         cmocka_unit_test(test_attend_long),
        cmocka_unit_test(test_own_heads),      cmocka_unit_test(test_attend_rows),
        cmocka_unit_test(test_attend_ints),    cmocka_unit_test(test_attend_q8),
        cmocka_unit_test(test_attend_q8_rows),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, open_device, close_device);
}
