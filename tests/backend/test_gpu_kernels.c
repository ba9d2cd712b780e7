/* test_gpu_kernels.c - the GPU's kernels but products, attention and what tells the best of a row, against the scalar kernels
 * of the CPU backend: equal bits. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/ints_on_gpu.h"
#include "backend/weights_on_gpu.h"

/* Rows in integers --------------------------------------------------------------------------------*/

static void test_quant(void **state) {
    (void)state;
    static const uint32_t cols[] = {32, 96, 256, 512, 1024, 4096, 4352};
    for (size_t i = 0; i < RF_COUNT(cols); i++)
        for (int special = 0; special < 2; special++) {
            uint32_t n = cols[i], rows = 3;
            bool both = n % 256 == 0;
            float *x = random_floats((size_t)rows * n, 5);
            memset(x + n, 0, 40 * sizeof *x); /* a group of zeros */
            if (special) add_specials(x, (size_t)rows * n);
            ints a = make_ints(x, rows, n, RF_INT_32);
            ints b = make_ints(x, rows, n, both ? RF_INT_256 : RF_INT_NONE);
            rf_gpu_quant_args args = {.x = up(x, (size_t)rows * n * sizeof *x),
                                      .q32 = a.gpu,
                                      .q256 = b.gpu,
                                      .n_rows = rows,
                                      .cols = n};
            rf_gpu_op_quant(&queue, &args);
            check_ints(&a);
            if (both) check_ints(&b);
            free_ints(&a);
            free_ints(&b);
            rf_free(x);
            give_all();
        }
}

/* Norms -------------------------------------------------------------------------------------------*/

static void check_norm(uint32_t kind, uint32_t n, bool with_w, bool with_b, bool to_ints,
                       bool special) {
    uint32_t rows = 3;
    float *x = random_floats((size_t)rows * n, 3), *want = random_floats((size_t)rows * n, 1);
    float *w = random_floats(n, 2), *b = random_floats(n, 1);
    if (special) add_specials(x, n);
    for (uint32_t r = 0; r < rows; r++)
        norm_on_cpu(kind, want + (size_t)r * n, x + (size_t)r * n, with_w ? w : NULL,
                    with_b ? b : NULL, n);
    ints a = make_ints(want, rows, n, to_ints ? RF_INT_32 : RF_INT_NONE);
    ints c = make_ints(want, rows, n, to_ints && n % 256 == 0 ? RF_INT_256 : RF_INT_NONE);
    rf_gpu_norm_args args = {.dst = take((size_t)rows * n * sizeof *x),
                             .x = up(x, (size_t)rows * n * sizeof *x),
                             .w = with_w ? up(w, n * sizeof *w) : NULL,
                             .b = with_b ? up(b, n * sizeof *b) : NULL,
                             .q32 = a.gpu,
                             .q256 = c.gpu,
                             .n_items = rows,
                             .n = n,
                             .kind = kind,
                             .eps = 1e-5f};
    rf_gpu_op_norm(&queue, &args);
    check_floats("norm", want, args.dst, (size_t)rows * n);
    if (a.in.q) check_ints(&a);
    if (c.in.q) check_ints(&c);
    free_ints(&a);
    free_ints(&c);
    rf_free(x);
    rf_free(want);
    rf_free(w);
    rf_free(b);
    give_all();
}

/* In parts, and on a device of one unit by whole rows. */
static void test_norm(void **state) {
    (void)state;
    static const uint32_t sizes[] = {1, 15, 16, 33, 100, 256, 1028, 4096, 4100, 8448};
    const uint32_t n_units = queue.info.n_units;
    forget_norms();
    for (size_t i = 0; i < 2 * RF_COUNT(sizes); i++)
        for (uint32_t kind = RF_GPU_RMS_NORM; kind <= RF_GPU_LAYER_NORM; kind++) {
            const uint32_t n = sizes[i / 2];
            bool layer = kind == RF_GPU_LAYER_NORM;
            queue.info.n_units = i % 2 ? 1 : 12;
            check_norm(kind, n, true, layer, n % 32 == 0, n % 256 == 0 && n > 256);
            check_norm(kind, n, false, false, false, n == 256);
        }
    queue.info.n_units = n_units;
    assert_true(queue.launched[RF_GPU_norm_rows] && queue.launched[RF_GPU_norm_parts]);
}

/* Element-wise ops, copies, experts ---------------------------------------------------------------*/

static void each_on_cpu(const rf_gpu_each_args *a, float *dst, const float *x, const float *y,
                        size_t n) {
    if (a->op == RF_GPU_ACT) cpu->act((rf_act)a->act, dst, x, n);
    if (a->op == RF_GPU_GLU) cpu->glu((rf_act)a->act, dst, x, y, n);
    if (a->op == RF_GPU_SCALE) cpu->scale(dst, x, a->scale, n);
    if (a->op == RF_GPU_SOFTCAP) cpu->softcap(dst, x, a->scale, n);
    if (a->op == RF_GPU_ADD) cpu->add(dst, x, y, n);
    if (a->op == RF_GPU_MUL)
        for (size_t i = 0; i < n; i++)
            dst[i] = x[i] * y[i / a->repeat];
}

static void check_each(uint32_t op, rf_act act, uint32_t repeat, bool in_place) {
    uint32_t rows = 3, cols = 540;
    size_t n = (size_t)rows * cols;
    float *x = random_floats(n, 12), *y = random_floats(n, 12), *want = random_floats(n, 1);
    add_specials(x, n);
    add_specials(y, n / repeat);
    bool two = op == RF_GPU_GLU || op == RF_GPU_ADD || op == RF_GPU_MUL;
    float *x_up = up(x, n * sizeof *x);
    rf_gpu_each_args args = {.dst = in_place ? x_up : take(n * sizeof *x),
                             .a = x_up,
                             .b = two ? up(y, n / repeat * sizeof *y) : NULL,
                             .n_rows = rows,
                             .cols = cols,
                             .repeat = repeat,
                             .op = op,
                             .act = (uint32_t)act,
                             .scale = 7.25f};
    each_on_cpu(&args, want, x, y, n);
    rf_gpu_op_each(&queue, &args);
    check_floats("element-wise", want, args.dst, n);
    rf_free(x);
    rf_free(y);
    rf_free(want);
    give_all();
}

static void test_each(void **state) {
    (void)state;
    for (int act = RF_ACT_SILU; act <= RF_ACT_SWIGLU_OAI; act++) {
        if (act != RF_ACT_SWIGLU_OAI) check_each(RF_GPU_ACT, (rf_act)act, 1, act % 2);
        check_each(RF_GPU_GLU, (rf_act)act, 1, act % 2);
    }
    for (uint32_t op = RF_GPU_SCALE; op <= RF_GPU_MUL; op++)
        check_each(op, RF_ACT_SILU, 1, op % 2);
    check_each(RF_GPU_MUL, RF_ACT_SILU, 54, true);
}

static void test_copy(void **state) {
    (void)state;
    static const uint32_t picked[] = {6, 0, 3};
    float *src = random_floats(7 * 60, 1), want[3 * 4 * 20];
    for (int one_head = 0; one_head < 2; one_head++) {
        rf_gpu_copy_args args = {.dst = take(sizeof want),
                                 .src = (float *)up(src, 7 * 60 * sizeof *src) + 2,
                                 .rows = up(picked, sizeof picked),
                                 .n_rows = 3,
                                 .n_heads = 4,
                                 .n = 11,
                                 .dst_row = 80,
                                 .dst_head = 20,
                                 .src_row = 60,
                                 .src_head = one_head ? 0 : 15};
        memset(want, 0xA5, sizeof want);
        for (uint32_t r = 0; r < 3; r++)
            for (uint32_t h = 0; h < 4; h++)
                memcpy(want + r * 80 + h * 20, src + 2 + picked[r] * 60 + h * args.src_head,
                       11 * sizeof *want);
        rf_gpu_op_copy(&queue, &args);
        check_bytes("copy", want, args.dst, sizeof want);
        give_all();
    }
    rf_free(src);
}

/* Rows of a table of any format, by number, chosen before, or none; what was not chosen becomes some row. */
static void test_embed(void **state) {
    (void)state;
    enum { ROWS = 70, COLS = 512, T = 5 };
    static const int32_t at[T] = {69, 0, ~1, 33, ~0};
    static const uint32_t chosen[2] = {31, 64}, unchosen[2] = {RF_BEST_NONE, 64};
    for (int type = 0; type < RF_DT_COUNT; type++) {
        const rf_dtype_info *info = rf_dtype_get((rf_dtype)type);
        if (!info->decode || type == RF_DT_F64) continue;
        rf_tensor w = random_weight((rf_dtype)type, 1, ROWS, COLS, &seed);
        rf_gpu_weight table = packed_on_gpu(&w, true);
        float want[T * COLS], got[T * COLS];
        for (int way = 0; way < 3; way++) {
            const int32_t *picked = way ? up(at, sizeof at) : NULL;
            const rf_gpu_embed_args args = {.dst = take(sizeof want),
                                            .at = picked,
                                            .chosen =
                                                up(way == 1 ? chosen : unchosen, sizeof chosen),
                                            .table = table,
                                            .n_rows = T,
                                            .cols = COLS};
            for (uint32_t t = 0; t < T; t++) {
                uint32_t row = !way ? 0 : at[t] >= 0 ? (uint32_t)at[t] : chosen[~at[t]];
                if (way == 2 && t == T - 1) row = 0;
                info->decode((const uint8_t *)w.data + row * w.row_bytes, want + t * COLS, COLS);
            }
            rf_gpu_op_embed(&queue, &args);
            rf_gpu_download(&queue, got, args.dst, sizeof got);
            rf_gpu_wait(&queue);
            for (uint32_t i = 0; i < T * COLS;
                 i++) /* the integer 0 has no sign, that of MXFP6 has */
                if (got[i] != want[i])
                    fail_msg("%s, element %u: %a, expected %a", info->name, i, (double)got[i],
                             (double)want[i]);
        }
        rf_free((void *)(uintptr_t)w.data);
        give_all();
    }
}

static void check_route(rf_router r, uint32_t T) {
    size_t n = (size_t)T * 2 * r.n_used;
    float *scores = random_floats((size_t)T * r.n_experts, 6), *want = random_floats(n, 1);
    float *bias = random_floats(r.n_experts, 1);
    for (uint32_t i = 1; i < r.n_experts; i += 2)
        scores[i] = scores[0]; /* ties */
    rf_gpu_route_args args = {.dst = take(n * sizeof *want),
                              .scores = up(scores, (size_t)T * r.n_experts * sizeof *scores),
                              .n_rows = T,
                              .n_experts = r.n_experts,
                              .n_used = r.n_used,
                              .n_groups = r.n_groups,
                              .n_groups_used = r.n_groups_used,
                              .kind = (uint32_t)r.kind,
                              .normalise = r.normalise,
                              .scale = r.scale};
    if (r.n_groups_used % 2) {
        r.select_bias = bias;
        args.select_bias = up(bias, r.n_experts * sizeof *bias);
    }
    for (uint32_t t = 0; t < T; t++)
        rf_cpu_route(&r, scores + (size_t)t * r.n_experts, want + (size_t)t * 2 * r.n_used);
    rf_gpu_op_route(&queue, &args);
    check_floats("route", want, args.dst, n);
    rf_free(scores);
    rf_free(want);
    rf_free(bias);
    give_all();
}

static void test_route(void **state) {
    (void)state;
    for (int kind = RF_ROUTER_SOFTMAX; kind <= RF_ROUTER_SIGMOID; kind++)
        for (int k = 0; k < 4; k++) {
            rf_router r = {.kind = (rf_router_kind)kind,
                           .n_experts = 128,
                           .n_used = 8,
                           .n_groups = k < 2 ? 0 : 8,
                           .n_groups_used = (uint32_t)k + 1,
                           .normalise = k % 2,
                           .scale = 1.5f};
            check_route(r, 5);
            r.n_experts = 1024;
            r.n_used = 64;
            check_route(r, 2);
            r.n_experts = 7;
            r.n_groups = 0;
            r.n_used = 2;
            check_route(r, 3);
        }
}

static void test_mix(void **state) {
    (void)state;
    for (int with_add = 0; with_add < 2; with_add++) {
        uint32_t T = 4, n_used = 3, cols = 300;
        size_t n = (size_t)T * cols;
        float *a = random_floats(n * n_used, 1), *route = random_route(T, 9, n_used);
        float *add = random_floats(n, 1), *want = rf_alloc(n, sizeof *want);
        for (uint32_t t = 0; t < T; t++)
            for (uint32_t i = 0; i < n_used; i++)
                cpu->add_scaled(want + (size_t)t * cols, a + ((size_t)t * n_used + i) * cols,
                                route[(size_t)t * 2 * n_used + i], cols);
        if (with_add) cpu->add(want, add, want, n);
        rf_gpu_mix_args args = {.dst = take(n * sizeof *want),
                                .a = up(a, n * n_used * sizeof *a),
                                .route = up(route, (size_t)T * 2 * n_used * sizeof *route),
                                .add = with_add ? up(add, n * sizeof *add) : NULL,
                                .n_rows = T,
                                .n_used = n_used,
                                .cols = cols};
        rf_gpu_op_mix(&queue, &args);
        check_floats("mix", want, args.dst, n);
        rf_free(a);
        rf_free(route);
        rf_free(add);
        rf_free(want);
        give_all();
    }
}

/* Steps that keep a state -------------------------------------------------------------------------*/

enum { STATE_SLOTS = 4, STATE_SEQS = 3, STATE_FIRST = 7, STATE_BORDER = 5 };

/* Three sequences: the first goes on from its slot, the others begin. */
typedef struct state_batch {
    uint32_t start[STATE_SEQS + 1], slot[STATE_SEQS], *pos, n_rows;
    rf_gpu_batch gpu;
} state_batch;

static state_batch make_state_batch(uint32_t first, uint32_t second, uint32_t third) {
    state_batch b = {.start = {0, first, first + second, first + second + third},
                     .slot = {2, 0, 3},
                     .n_rows = first + second + third};
    b.pos = rf_alloc(b.n_rows, sizeof *b.pos);
    for (uint32_t s = 0, row = 0; s < STATE_SEQS; s++)
        for (uint32_t i = 0; row < b.start[s + 1]; i++)
            b.pos[row++] = i + (s == 0 ? STATE_FIRST : 0);
    b.gpu = (rf_gpu_batch){.pos = up(b.pos, b.n_rows * sizeof *b.pos),
                           .seq_start = up(b.start, sizeof b.start),
                           .state = up(b.slot, sizeof b.slot)};
    return b;
}

/* Column c of row j of what is convolved: n_kept rows of the state, then those of x. */
static const float *conv_row(const float *before, const float *x, uint32_t cols, uint32_t n_kept,
                             uint32_t j) {
    return j < n_kept ? before + (size_t)j * cols : x + (size_t)(j - n_kept) * cols;
}

static void conv_on_cpu(const rf_gpu_conv_args *a, const state_batch *b, const float *x,
                        const float *w, const float *bias, float *state, float *dst) {
    uint32_t n_kept = a->n_taps - 1, cols = a->cols;
    float *flat = rf_alloc((size_t)a->n_taps * cols, sizeof *flat);
    for (uint32_t c = 0; c < cols; c++)
        for (uint32_t k = 0; k < a->n_taps; k++)
            flat[(size_t)k * cols + c] = w[c * a->n_taps + k];
    for (uint32_t s = 0; s < STATE_SEQS; s++) {
        float *own = state + b->slot[s] * a->state_stride;
        float *before = rf_alloc((size_t)n_kept * cols + 1, sizeof *before);
        const float *rows = x + (size_t)b->start[s] * cols, *tap[RF_MAX_TAPS];
        uint32_t n = b->start[s + 1] - b->start[s];
        if (s == 0) memcpy(before, own, n_kept * cols * sizeof *own);
        for (uint32_t t = 0; t < n; t++) {
            for (uint32_t k = 0; k < a->n_taps; k++)
                tap[k] = conv_row(before, rows, cols, n_kept, t + k);
            cpu->conv(dst + (size_t)(b->start[s] + t) * cols, tap, flat, cols, a->n_taps, bias,
                      cols);
        }
        for (uint32_t i = 0; i < n_kept; i++)
            memcpy(own + i * cols, conv_row(before, rows, cols, n_kept, n + i), cols * sizeof *own);
        rf_free(before);
    }
    rf_free(flat);
}

static void check_conv(uint32_t cols, uint32_t n_taps, bool with_bias, uint32_t first,
                       uint32_t second) {
    state_batch b = make_state_batch(first, second, 1);
    size_t stride = (size_t)(n_taps - 1) * cols + STATE_BORDER, n = (size_t)b.n_rows * cols;
    float *x = random_floats(n, 2), *w = random_floats((size_t)cols * n_taps, 1);
    float *bias = random_floats(cols, 1), *want = random_floats(n, 1);
    float *state = random_floats(STATE_SLOTS * stride, 1);
    rf_gpu_conv_args args = {.dst = take(n * sizeof *x),
                             .x = up(x, n * sizeof *x),
                             .w = up(w, (size_t)cols * n_taps * sizeof *w),
                             .bias = with_bias ? up(bias, cols * sizeof *bias) : NULL,
                             .state = up(state, STATE_SLOTS * stride * sizeof *state),
                             .batch = b.gpu,
                             .state_stride = stride,
                             .n_rows = b.n_rows,
                             .n_seqs = STATE_SEQS,
                             .cols = cols,
                             .n_taps = n_taps};
    conv_on_cpu(&args, &b, x, w, with_bias ? bias : NULL, state, want);
    rf_gpu_op_conv(&queue, &args);
    check_floats("convolution", want, args.dst, n);
    check_floats("state of a convolution", state, args.state, STATE_SLOTS * stride);
    rf_free(x);
    rf_free(w);
    rf_free(bias);
    rf_free(want);
    rf_free(state);
    rf_free(b.pos);
    give_all();
}

static void test_conv(void **state) {
    (void)state;
    check_conv(300, 4, true, 40, 2);
    check_conv(17, 4, false, 1, 1);
    check_conv(256, RF_MAX_TAPS, true, 5, 33);
    check_conv(30, 1, true, 3, 4);
    check_conv(40, 3, false, 16, 17);
}

static float softplus_on_cpu(float x) { return x > 20 ? x : (float)rf_log(1 + rf_exp((double)x)); }

/* A row of a head, as the CPU backend has it. */
static void head_on_cpu(const rf_gpu_recur_args *r, uint32_t h, const float *a, const float *b,
                        const float *w, const float *bias, float *s, float *dst) {
    uint32_t n = r->head_dim, n_v = r->value_dim, n_keys = r->n_kv_heads * n;
    uint32_t kh = r->in_turn ? h % r->n_kv_heads : h / (r->n_heads / r->n_kv_heads);
    float q[RF_MAX_HEAD_DIM], k[RF_MAX_HEAD_DIM];
    if (!r->is_delta) {
        const float *keys = a + r->n_heads * n_v + kh * n;
        float dt = softplus_on_cpu(b[h] + bias[h]);
        cpu->scan(s, keys, keys + n_keys, n, a + h * n_v, rf_expf(w[h] * dt), dt, dst, n_v);
        return;
    }
    cpu->rms_norm(q, a + kh * n, NULL, n, r->eps);
    cpu->scale(q, q, 1.0f / (float)n, n);
    cpu->rms_norm(k, a + n_keys + kh * n, NULL, n, r->eps);
    cpu->scale(k, k, 1.0f / sqrtf((float)n), n);
    float decay = rf_expf(w[h] * softplus_on_cpu(b[r->n_heads + h] + bias[h]));
    cpu->delta(s, q, k, n, a + 2 * n_keys + h * n_v, decay, 1.0f / (1.0f + rf_expf(-b[h])), dst,
               n_v);
}

static void recur_on_cpu(const rf_gpu_recur_args *r, const state_batch *b, const float *a,
                         const float *gates, const float *w, const float *bias, float *state,
                         float *dst) {
    uint32_t n_v = r->n_heads * r->value_dim, cols = 2 * r->n_kv_heads * r->head_dim + n_v;
    uint32_t n_gates = (r->is_delta ? 2 : 1) * r->n_heads;
    size_t matrix = (size_t)r->head_dim * r->value_dim;
    for (uint32_t s = 0; s < STATE_SEQS; s++) {
        float *own = state + b->slot[s] * r->state_stride;
        if (s > 0) memset(own, 0, r->n_heads * matrix * sizeof *own);
        for (uint32_t t = b->start[s]; t < b->start[s + 1]; t++)
            for (uint32_t h = 0; h < r->n_heads; h++)
                head_on_cpu(r, h, a + (size_t)t * cols, gates + (size_t)t * n_gates, w, bias,
                            own + h * matrix, dst + (size_t)t * n_v + h * r->value_dim);
    }
}

/* r: the sizes; gates from far below 0 to far above. */
static void check_recur(rf_gpu_recur_args r, const uint32_t rows[2]) {
    state_batch b = make_state_batch(rows[0], rows[1], 1);
    size_t n_v = r.n_heads * r.value_dim, n = b.n_rows * n_v;
    size_t n_a = b.n_rows * (n_v + 2 * (size_t)r.n_kv_heads * r.head_dim);
    size_t n_b = (size_t)b.n_rows * r.n_heads * (r.is_delta ? 2 : 1);
    r.state_stride = n_v * r.head_dim + STATE_BORDER;
    float *a = random_floats(n_a, 1), *gates = random_floats(n_b, 30), *want = random_floats(n, 1);
    float *w = random_floats(r.n_heads, 1), *bias = random_floats(r.n_heads, 1);
    float *state = random_floats(STATE_SLOTS * r.state_stride, 1);
    for (uint32_t h = 0; h < r.n_heads; h++)
        w[h] = -fabsf(w[h]);
    r.n_rows = b.n_rows;
    r.n_seqs = STATE_SEQS;
    r.eps = 1e-6f / (float)r.head_dim;
    r.dst = take(n * sizeof *want);
    r.a = up(a, n_a * sizeof *a);
    r.b = up(gates, n_b * sizeof *gates);
    r.w = up(w, r.n_heads * sizeof *w);
    r.bias = up(bias, r.n_heads * sizeof *bias);
    r.state = up(state, STATE_SLOTS * r.state_stride * sizeof *state);
    r.ready = take(rf_gpu_ready_bytes(&r, b.n_rows));
    r.batch = b.gpu;
    recur_on_cpu(&r, &b, a, gates, w, bias, state, want);
    rf_gpu_op_recur(&queue, &r);
    check_floats(r.is_delta ? "delta rule" : "scan", want, r.dst, n);
    check_floats("matrices of heads", state, r.state, STATE_SLOTS * r.state_stride);
    rf_free(a);
    rf_free(gates);
    rf_free(want);
    rf_free(w);
    rf_free(bias);
    rf_free(state);
    rf_free(b.pos);
    give_all();
}

static void test_recur(void **state) {
    (void)state;
    static const uint32_t sizes[][4] = {/* n_heads, n_kv_heads, head_dim, value_dim */
                                        {4, 2, 128, 70},
                                        {2, 2, 128, 64},
                                        {6, 3, 40, 9},
                                        {3, 1, 5, 130},
                                        {1, 1, 640, 3}};
    static const uint32_t rows[][2] = {{1, 1}, {9, 2}, {2, 3}, {4, 7}, {3, 8}};
    for (size_t i = 0; i < RF_COUNT(sizes); i++)
        for (uint32_t kind = 0; kind < 3; kind++)
            for (size_t k = i % 2; k < RF_COUNT(rows); k += 2)
                check_recur((rf_gpu_recur_args){.n_heads = sizes[i][0],
                                                .n_kv_heads = sizes[i][1],
                                                .head_dim = sizes[i][2],
                                                .value_dim = sizes[i][3],
                                                .is_delta = kind > 0,
                                                .in_turn = kind > 1},
                            rows[k]);
}

/* Gates alone, many of them: softplus in double has the CPU's bits. */
static void test_gates(void **state) {
    (void)state;
    enum { HEADS = 1024, ROWS = 16 };
    static const float odd[] = {20.0f, 20.1f, 0.0f, -0.0f, -800.0f, -745.1f, -104.0f, 1e-30f};
    float *b = random_floats(HEADS * ROWS, 24), *w = random_floats(HEADS, 1), want[2 * HEADS];
    float bias[HEADS] = {0}, *got = random_floats(2 * HEADS * ROWS, 1);
    memcpy(b, odd, sizeof odd);
    b[RF_COUNT(odd)] = INFINITY;
    b[RF_COUNT(odd) + 1] = -INFINITY;
    b[RF_COUNT(odd) + 2] = NAN;
    state_batch batch = make_state_batch(ROWS - 2, 1, 1);
    const size_t n_a = ROWS * (HEADS + 2), n_state = STATE_SLOTS * HEADS;
    float *zeros = random_floats(n_a, 0);
    rf_gpu_recur_args r = {.dst = take(HEADS * ROWS * sizeof *b),
                           .a = up(zeros, n_a * sizeof *zeros),
                           .b = up(b, HEADS * ROWS * sizeof *b),
                           .w = up(w, HEADS * sizeof *w),
                           .bias = up(bias, sizeof bias),
                           .state = take(n_state * sizeof *b),
                           .ready = take(2 * HEADS * ROWS * sizeof *b),
                           .batch = batch.gpu,
                           .state_stride = HEADS,
                           .n_rows = ROWS,
                           .n_seqs = STATE_SEQS,
                           .n_heads = HEADS,
                           .n_kv_heads = 1,
                           .head_dim = 1,
                           .value_dim = 1};
    rf_gpu_op_recur(&queue, &r);
    down(got, r.ready, 2 * HEADS * ROWS * sizeof *got);
    for (uint32_t t = 0; t < ROWS; t++) {
        for (uint32_t h = 0; h < HEADS; h++) {
            want[HEADS + h] = softplus_on_cpu(b[t * HEADS + h]);
            want[h] = rf_expf(w[h] * want[HEADS + h]);
        }
        for (uint32_t i = 0; i < 2 * HEADS; i++)
            if (!same(got[t * 2 * HEADS + i], want[i]))
                fail_msg("gate %u of row %u is %a, expected %a", i, t,
                         (double)got[t * 2 * HEADS + i], (double)want[i]);
    }
    rf_free(b);
    rf_free(w);
    rf_free(got);
    rf_free(zeros);
    rf_free(batch.pos);
    give_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quant), cmocka_unit_test(test_norm),  cmocka_unit_test(test_each),
        cmocka_unit_test(test_copy),  cmocka_unit_test(test_embed), cmocka_unit_test(test_route),
        cmocka_unit_test(test_mix),   cmocka_unit_test(test_conv),  cmocka_unit_test(test_recur),
        cmocka_unit_test(test_gates),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
