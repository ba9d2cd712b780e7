/* attend_on_gpu.h - batches, KV pools and attention over them on the device that tests of the GPU's kernels
 * run on. */
#pragma once
#include "backend/backend.h"
#include "backend/on_gpu.h"
#include "base/fmath.h"

enum { KV_BLOCKS = 24, MOST_KV_BLOCKS = 2080, MASK_STRIDE = 400 };

/* A batch of two sequences: rows continue at the end of each. */
typedef struct kv_case {
    uint32_t T, kv_len[2], rows[2], n_blocks;
    uint32_t pos[64], row_seq[64], table[2][MOST_KV_BLOCKS];
    rf_gpu_batch gpu;
} kv_case;

static inline void make_batch(kv_case *c, uint32_t len0, uint32_t rows0, uint32_t len1,
                              uint32_t rows1) {
    uint32_t longest = len0 > len1 ? len0 : len1, n = 2 * ((longest + 31) / 32);
    *c = (kv_case){.T = rows0 + rows1, .kv_len = {len0, len1}, .rows = {rows0, rows1}};
    c->n_blocks = n > KV_BLOCKS ? n : KV_BLOCKS;
    for (uint32_t t = 0; t < c->T; t++) {
        uint32_t s = t >= rows0;
        c->row_seq[t] = s;
        c->pos[t] = c->kv_len[s] - c->rows[s] + (s ? t - rows0 : t);
    }
    for (uint32_t b = 0; b < c->n_blocks / 2; b++) { /* interleaved, backwards */
        c->table[0][b] = c->n_blocks - 1 - 2 * b;
        c->table[1][b] = c->n_blocks - 2 - 2 * b;
    }
    c->gpu = (rf_gpu_batch){.pos = up(c->pos, c->T * sizeof *c->pos),
                            .row_seq = up(c->row_seq, c->T * sizeof *c->row_seq),
                            .kv_len = up(c->kv_len, sizeof c->kv_len),
                            .table = up(c->table, sizeof c->table),
                            .table_stride = MOST_KV_BLOCKS};
}

static inline void store_q4_0(uint8_t dst[18], const float x[32]) {
    float most = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > fabsf(most)) most = x[i];
    float d = most / -8, id = d != 0 ? 1 / d : 0;
    uint16_t half = rf_f32_to_f16(d);
    memcpy(dst, &half, 2);
    for (int i = 0; i < 16; i++) {
        float lo = fminf(fmaxf(x[i] * id + 8.5f, 0), 15);
        float hi = fminf(fmaxf(x[i + 16] * id + 8.5f, 0), 15);
        dst[2 + i] = (uint8_t)((unsigned)lo | (unsigned)hi << 4);
    }
}

/* n elements into a row of the KV cache, as docs/arithmetic.md has it. */
static inline void store_row(rf_dtype type, uint8_t *dst, const float *src, uint32_t n) {
    float x[RF_MAX_HEAD_DIM] = {0}, d[RF_MAX_HEAD_DIM / 32];
    int8_t q[RF_MAX_HEAD_DIM];
    uint32_t n_groups = (n + 31) / 32;
    memcpy(x, src, n * sizeof *x);
    cpu->quant_kv(x, (size_t)32 * n_groups, q, d);
    for (uint32_t g = 0; g < n_groups && type == RF_DT_Q8_0; g++) {
        uint16_t half = rf_f32_to_f16(d[g]);
        memcpy(dst + (size_t)34 * g, &half, 2);
        memcpy(dst + (size_t)34 * g + 2, q + (size_t)32 * g, 32);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint16_t half = type == RF_DT_F16 ? rf_f32_to_f16(x[i]) : rf_f32_to_bf16(x[i]);
        if (type == RF_DT_F16 || type == RF_DT_BF16) memcpy(dst + (size_t)2 * i, &half, 2);
    }
    if (type == RF_DT_F32) memcpy(dst, x, n * sizeof *x);
    for (uint32_t g = 0; g < n_groups && type == RF_DT_Q4_0; g++)
        store_q4_0(dst + (size_t)18 * g, x + (size_t)32 * g);
}

typedef struct attend_case {
    uint32_t n_heads, n_kv_heads, head_dim, value_dim;
    rf_attn_pattern pattern;
    float softcap;
    rf_dtype k_type, v_type;
    bool sinks, latent, is_wild; /* is_wild: the scale of a value is infinite, */
    bool has_wild_keys;          /* those of two keys at a block's ends are */
    uint32_t units;              /* of the device, where segments are made side by side; else 0 */
    uint32_t len[2], rows[2];
    uint32_t prefix[2]; /* of RF_ATTN_PREFIX */
    uint32_t ints_view; /* of the results in integers, too; 0: not wanted */
} attend_case;

/* n_rows random rows of dim elements; those in groups of 32 with scales that differ much. */
static inline void fill_pool(uint8_t *p, size_t n_rows, uint32_t dim, rf_dtype type) {
    float x[RF_MAX_HEAD_DIM], factor = 2;
    for (size_t r = 0; r < n_rows; r++) {
        for (uint32_t i = 0; i < dim; i++) {
            if (i % 32 == 0 && rf_dtype_get(type)->is_block)
                factor = ldexpf(rf_test_rand(&seed) % 13 > 0, (int)(rf_test_rand(&seed) % 9) - 6);
            x[i] = rf_test_randf(&seed) * factor;
        }
        store_row(type, p + r * rf_kv_head_bytes(type, dim), x, dim);
    }
}

/* Noise behind the last key of each sequence. */
static inline void spoil_rest(const kv_case *c, uint8_t *p, uint32_t n_heads, size_t row_bytes) {
    for (uint32_t s = 0; s < 2; s++) {
        uint32_t first = c->kv_len[s] % 32, block = c->table[s][c->kv_len[s] / 32];
        for (uint32_t h = 0; h < n_heads && first > 0; h++)
            memset(p + (((size_t)block * n_heads + h) * 32 + first) * row_bytes, 0xff,
                   (32 - first) * row_bytes);
    }
}

/* What a case attends to; sinks, mask: NULL where it has none. */
typedef struct attend_data {
    kv_case c;
    float *q, *sinks, *mask;
    uint8_t *k, *v;
    size_t n_rows, k_row, v_row; /* of the pools, and their bytes */
} attend_data;

/* Infinite ones: the first number of the second value, of the first and of the last key of a block. */
static inline void make_wild(const attend_case *a, const attend_data *d) {
    uint8_t infinite[2] = {a->k_type == RF_DT_BF16 ? 0x80 : 0x00,
                           a->k_type == RF_DT_BF16 ? 0x7f : 0x7c};
    size_t block = (size_t)d->c.table[0][0] * a->n_kv_heads * 32;
    if (a->is_wild) memcpy(d->v + (block + 1) * d->v_row, infinite, 2);
    if (!a->has_wild_keys) return;
    memcpy(d->k + block * d->k_row, infinite, 2);
    memcpy(d->k + (block + 31) * d->k_row, infinite, 2);
}

static inline void make_attend(const attend_case *a, attend_data *d) {
    *d = (attend_data){.k_row = rf_kv_head_bytes(a->k_type, a->head_dim),
                       .v_row = rf_kv_head_bytes(a->v_type, a->value_dim)};
    make_batch(&d->c, a->len[0], a->rows[0], a->len[1], a->rows[1]);
    const kv_case *c = &d->c;
    size_t n_mask = (size_t)c->T * MASK_STRIDE;
    bool custom = a->pattern.kind == RF_ATTN_CUSTOM;
    d->n_rows = (size_t)c->n_blocks * a->n_kv_heads * 32;
    d->q = random_floats((size_t)c->T * a->n_heads * a->head_dim, 3);
    if (a->sinks) {
        d->sinks = random_floats(a->n_heads, 4);
        d->sinks[0] = -INFINITY;
    }
    d->k = rf_alloc(d->n_rows, d->k_row);
    d->v = rf_alloc(d->n_rows, d->v_row);
    assert_true(d->k && d->v);
    fill_pool(d->k, d->n_rows, a->head_dim, a->k_type);
    fill_pool(d->v, d->n_rows, a->value_dim, a->v_type);
    spoil_rest(c, d->k, a->n_kv_heads, d->k_row);
    spoil_rest(c, d->v, a->n_kv_heads, d->v_row);
    make_wild(a, d);
    if (custom) d->mask = random_floats(n_mask, 2);
    for (size_t i = 0; i < n_mask && custom; i++)
        if (i / MASK_STRIDE == 0 || rf_test_rand(&seed) % 3 == 0) d->mask[i] = -INFINITY;
}

static inline void free_attend(attend_data *d) {
    rf_free(d->q);
    rf_free(d->sinks);
    rf_free(d->mask);
    rf_free(d->k);
    rf_free(d->v);
}

static inline rf_gpu_quant take_ints(size_t n, uint32_t view) {
    return (rf_gpu_quant){.q = take(n),
                          .d = take(n / view * sizeof(float)),
                          .sum = take(n / (view == 256 ? 16 : 32) * sizeof(int32_t))};
}

static uint32_t n_with_ints; /* times that attention made integers */

/* What attention left in integers is what the kernel that makes them of its floats does. */
static inline void check_ints(const rf_gpu_attend_args *a) {
    uint32_t cols = a->n_heads * a->value_dim, view = a->ints_view;
    size_t n = (size_t)a->n_rows * cols, n_d = n / view, n_sum = n / (view == 256 ? 16 : 32);
    rf_gpu_quant want = take_ints(n, view);
    rf_gpu_quant_args make = {.x = a->dst, .n_rows = a->n_rows, .cols = cols};
    uint8_t *bytes = rf_alloc(n, sizeof(float));
    assert_non_null(bytes);
    *(view == 256 ? &make.q256 : &make.q32) = want;
    rf_gpu_op_quant(&queue, &make);
    down(bytes, want.q, n);
    check_bytes("results in integers", bytes, a->ints.q, n);
    down(bytes, want.d, n_d * sizeof(float));
    check_bytes("their scales", bytes, a->ints.d, n_d * sizeof(float));
    down(bytes, want.sum, n_sum * sizeof(int32_t));
    check_bytes("their sums", bytes, a->ints.sum, n_sum * sizeof(int32_t));
    rf_free(bytes);
    n_with_ints++;
}

/* Which of rows first .. first + n - 1 come before those of sequences that have many, as in run.c. */
static inline void tell_few(const attend_case *a, rf_gpu_attend_args *args, uint32_t first,
                            uint32_t n) {
    uint32_t before = first < a->rows[0] ? a->rows[0] - first : 0;
    if (before > n) before = n;
    if (before >= RF_GPU_MANY_ROWS) return;
    bool are_all = n - before < RF_GPU_MANY_ROWS;
    args->few_rows = are_all ? n : before;
    args->few_seqs = are_all ? 2 : 1;
}

/* Rows first .. first + n - 1 of the case by themselves; their results on the device. */
static inline const float *attend_rows_on_gpu(const attend_case *a, const attend_data *d,
                                              uint32_t first, uint32_t n) {
    const kv_case *c = &d->c;
    uint32_t longest = a->len[0] > a->len[1] ? a->len[0] : a->len[1], n_units = queue.info.n_units;
    size_t q_row = (size_t)a->n_heads * a->head_dim, n_dst = (size_t)n * a->n_heads * a->value_dim;
    rf_gpu_attend_args args = {.q = up(d->q + first * q_row, n * q_row * sizeof(float)),
                               .dst = take(n_dst * sizeof(float)),
                               .sinks = up(d->sinks, a->n_heads * sizeof(float)),
                               .k = up(d->k, d->n_rows * d->k_row),
                               .v = a->latent ? NULL : up(d->v, d->n_rows * d->v_row),
                               .batch = c->gpu,
                               .n_rows = n,
                               .n_heads = a->n_heads,
                               .n_kv_heads = a->n_kv_heads,
                               .head_dim = a->head_dim,
                               .value_dim = a->value_dim,
                               .k_type = a->k_type,
                               .v_type = a->v_type,
                               .pattern = (uint32_t)a->pattern.kind,
                               .window = a->pattern.window,
                               .n_global = a->pattern.n_global,
                               .scale = 0.125f,
                               .softcap = a->softcap,
                               .max_kv_len = longest,
                               .n_seqs = 2,
                               .n_kv_blocks = c->n_blocks,
                               .rows_alone = c->T == 2};
    args.batch.pos += first;
    args.batch.row_seq += first;
    tell_few(a, &args, first, n);
    if (d->mask) {
        args.batch.mask =
            up(d->mask + (size_t)first * MASK_STRIDE, (size_t)n * MASK_STRIDE * sizeof(float));
        args.batch.mask_stride = MASK_STRIDE;
    }
    if (a->pattern.kind == RF_ATTN_PREFIX) args.batch.prefix = up(a->prefix, sizeof a->prefix);
    if (a->units) {
        queue.info.n_units = a->units;
        args.parts_bytes = rf_gpu_parts_bytes(n, a->n_heads, (longest + 255) / 256, a->value_dim);
    }
    uint64_t as_halves = rf_gpu_kv_halves_bytes(&queue, &args);
    if (as_halves > args.parts_bytes) args.parts_bytes = as_halves;
    if (args.parts_bytes) args.parts = take(args.parts_bytes);
    if (a->ints_view && n_dst % a->ints_view == 0) {
        args.ints = take_ints(n_dst, a->ints_view);
        args.ints_view = a->ints_view;
    }
    bool makes_ints = rf_gpu_attend_makes_ints(&queue, &args);
    rf_gpu_op_attend(&queue, &args);
    queue.info.n_units = n_units;
    if (makes_ints) check_ints(&args);
    return args.dst;
}

/* Rows of two sequences whose heads attention makes itself, against the kernel of heads before it. */
typedef struct own_case {
    uint32_t per_kv, head_dim, value_dim, n_dims, norm, len[2];
    uint32_t units; /* of the device, where segments are made side by side; else 0 */
    bool neox, moves_q;
    rf_dtype type;
} own_case;

static inline uint32_t longest_of(const uint32_t len[2]) {
    return len[0] > len[1] ? len[0] : len[1];
}

static inline rf_gpu_heads own_part(const own_case *o, uint32_t dim, uint32_t n_heads,
                                    bool is_value) {
    float *x = random_floats((size_t)2 * n_heads * dim, 2), *w = random_floats(dim, 1);
    size_t n_angles = (size_t)longest_of(o->len) * o->n_dims;
    float *cos_sin = random_floats(n_angles, 1);
    rf_gpu_heads h = {.x = up(x, (size_t)2 * n_heads * dim * sizeof *x),
                      .n_heads = n_heads,
                      .head_dim = dim,
                      .pool_type = o->type,
                      .eps = 1e-5f};
    if (!is_value) {
        h.cos_sin = up(cos_sin, n_angles * sizeof *cos_sin);
        h.n_dims = o->n_dims;
        h.neox = o->neox;
        h.norm = o->norm;
        h.w = o->norm ? up(w, dim * sizeof *w) : NULL;
        h.b = o->norm == RF_GPU_LAYER_NORM ? h.w : NULL;
    }
    rf_free(x);
    rf_free(w);
    rf_free(cos_sin);
    return h;
}

static inline void check_own_heads(const own_case *o) {
    enum { N_KV = 2 };
    kv_case c;
    make_batch(&c, o->len[0], 1, o->len[1], 1);
    uint32_t n_heads = N_KV * o->per_kv, longest = longest_of(o->len);
    size_t n_rows = (size_t)c.n_blocks * N_KV * 32, n = (size_t)2 * n_heads * o->value_dim;
    size_t n_k = n_rows * rf_kv_head_bytes(o->type, o->head_dim),
           n_v = n_rows * rf_kv_head_bytes(o->type, o->value_dim);
    uint8_t *k = rf_alloc(n_k, 1), *v = rf_alloc(n_v, 1);
    float *want = rf_alloc(n, sizeof *want);
    assert_true(k && v && want);
    fill_pool(k, n_rows, o->head_dim, o->type);
    fill_pool(v, n_rows, o->value_dim, o->type);
    rf_gpu_heads part[3] = {own_part(o, o->head_dim, n_heads, false),
                            own_part(o, o->head_dim, N_KV, false),
                            own_part(o, o->value_dim, N_KV, true)};
    rf_gpu_attend_args a = {.q = part[0].x,
                            .batch = c.gpu,
                            .n_rows = 2,
                            .n_heads = n_heads,
                            .n_kv_heads = N_KV,
                            .head_dim = o->head_dim,
                            .value_dim = o->value_dim,
                            .k_type = o->type,
                            .v_type = o->type,
                            .scale = 0.125f,
                            .max_kv_len = longest,
                            .n_seqs = 2,
                            .rows_alone = 1};
    uint32_t n_units = queue.info.n_units;
    if (o->units) {
        queue.info.n_units = o->units;
        a.parts_bytes = rf_gpu_parts_bytes(2, n_heads, (longest + 255) / 256, o->value_dim);
        a.parts = take(a.parts_bytes);
    }
    rf_gpu_attend_args of[2] = {a, a};
    for (int own = 0; own < 2; own++) {
        rf_gpu_heads_args heads = {.batch = c.gpu, .n_rows = 2};
        if (o->moves_q) {
            part[0].dst = take((size_t)2 * n_heads * o->head_dim * sizeof(float));
            heads.part[heads.n_parts++] = part[0];
            of[own].q = part[0].dst;
        }
        part[1].pool = up(k, n_k);
        part[2].pool = up(v, n_v);
        heads.part[heads.n_parts++] = part[1];
        heads.part[heads.n_parts++] = part[2];
        of[own].k = part[1].pool;
        of[own].v = part[2].pool;
        of[own].dst = take(n * sizeof(float));
        if (own)
            of[own].heads = heads;
        else
            rf_gpu_op_heads(&queue, &heads);
        rf_gpu_op_attend(&queue, &of[own]);
    }
    queue.info.n_units = n_units;
    down(want, of[0].dst, n * sizeof *want);
    down(k, of[0].k, n_k);
    down(v, of[0].v, n_v);
    check_floats("attention to its own heads", want, of[1].dst, n);
    check_bytes("keys that attention puts", k, of[1].k, n_k);
    check_bytes("values that attention puts", v, of[1].v, n_v);
    rf_free(k);
    rf_free(v);
    rf_free(want);
    give_all();
}
