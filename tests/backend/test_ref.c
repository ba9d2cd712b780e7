/* test_ref.c - the reference backend on a plain decoder, against computations written out here.
 *
 * A tiny decoder with one attention pattern per layer runs ragged batches; every value of the
 * run is peeked at and compared with what its op's formula gives for the peeked operands. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/run.h"
#include "lib/tiny.h"

enum { LAYERS = 6, SEQS = 3, CTX = 96, MAX_ROWS = 64, MAX_COLS = 32 };

static const rf_attn_pattern patterns[LAYERS] = {
    {RF_ATTN_CAUSAL, 0, 0},       {RF_ATTN_BIDIRECTIONAL, 0, 0}, {RF_ATTN_LOCAL, 5, 0},
    {RF_ATTN_GLOBAL_LOCAL, 4, 3}, {RF_ATTN_CUSTOM, 0, 0},        {RF_ATTN_PREFIX, 0, 0},
};

/* A text per sequence, and all keys and values that its cache must hold. */
typedef struct world {
    rf_test_tiny tiny;
    rf_test_run run;
    int32_t text[SEQS][CTX];
    uint32_t done[SEQS];
    float k[LAYERS][SEQS][CTX][MAX_COLS], v[LAYERS][SEQS][CTX][MAX_COLS];
    float mask[MAX_ROWS][CTX];
    uint32_t n_prefix[SEQS];
    uint32_t n_rows;
    uint32_t seq[MAX_ROWS], pos[MAX_ROWS], kv_len[MAX_ROWS]; /* of the last batch's rows */
    uint64_t seed;
} world;

/* Peeks at a value; [rows][cols]. */
static void peek(const world *w, rf_val v, float *out) {
    size_t n = (size_t)w->n_rows * w->run.plan->vals[v].cols;
    assert_int_equal(w->run.ops->peek(w->run.exec, v, out, n), RF_OK);
}

static void expect_near(const float *got, const double *want, size_t n, const char *op) {
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= 2e-6 * (1 + fabs(want[i]))))
            fail_msg("%s: element %zu is %g, expected %g", op, i, (double)got[i], want[i]);
}

static void random_mask(world *w) {
    for (uint32_t t = 0; t < MAX_ROWS; t++)
        for (uint32_t j = 0; j < CTX; j++) {
            uint64_t dice = rf_test_rand(&w->seed) % 4;
            w->mask[t][j] = dice == 0 ? -INFINITY : dice == 1 ? rf_test_randf(&w->seed) : 0;
        }
    for (uint32_t j = 0; j < CTX; j++)
        w->mask[1][j] = -INFINITY; /* this row sees nothing */
}

/* The next n[s] tokens of each sequence. */
static void step(world *w, const uint32_t n[SEQS]) {
    uint32_t pos[SEQS];
    const int32_t *text[SEQS];
    w->n_rows = 0;
    for (uint32_t s = 0; s < SEQS; s++) {
        pos[s] = w->done[s];
        text[s] = w->text[s] + w->done[s];
        for (uint32_t i = 0; i < n[s]; i++, w->n_rows++) {
            w->seq[w->n_rows] = s;
            w->pos[w->n_rows] = w->done[s] + i;
            w->kv_len[w->n_rows] = w->done[s] + n[s];
        }
        w->done[s] += n[s];
        w->n_prefix[s] = w->done[s] < 12 + 9 * s ? w->done[s] : 12 + 9 * s;
    }
    w->run.n_prefix = w->n_prefix;
    random_mask(w);
    w->run.mask = w->mask[0];
    w->run.mask_stride = CTX;
    (void)rf_test_run_batch(&w->run, SEQS, n, pos, text);
}

static bool sees(const rf_attn_pattern *a, long n_prefix, long p, long j) {
    switch (a->kind) {
    case RF_ATTN_CAUSAL:
        return j <= p;
    case RF_ATTN_BIDIRECTIONAL:
    case RF_ATTN_CUSTOM:
        return true;
    case RF_ATTN_LOCAL:
        return j <= p && p - j < (long)a->window;
    case RF_ATTN_LOCAL_BOTH:
        return labs(p - j) <= (long)(a->window / 2);
    case RF_ATTN_GLOBAL_LOCAL:
        return j <= p && (p - j < (long)a->window || j < (long)a->n_global);
    case RF_ATTN_PREFIX:
        return j <= p || j < n_prefix;
    }
    return false;
}

/* Softmax over the whole row at once, in double, from this test's own record of keys and values. */
static void attend(const world *w, const rf_step *s, uint32_t t, const float *q, double *out) {
    uint32_t d = s->head_dim, group = s->n_heads / s->n_kv_heads, seq = w->seq[t];
    for (uint32_t h = 0; h < s->n_heads; h++) {
        const uint32_t kv = h / group * d;
        double p[CTX], sum = 0;
        for (uint32_t i = 0; i < d; i++)
            out[h * d + i] = 0;
        for (uint32_t j = 0; j < w->kv_len[t]; j++) {
            p[j] = 0;
            if (!sees(&s->pattern, w->n_prefix[seq], w->pos[t], j)) continue;
            double score = 0;
            for (uint32_t i = 0; i < d; i++)
                score += (double)q[h * d + i] * (double)w->k[s->layer][seq][j][kv + i];
            score /= sqrt(d);
            if (s->pattern.kind == RF_ATTN_CUSTOM) score += (double)w->mask[t][j];
            p[j] = exp(score);
            sum += p[j];
        }
        for (uint32_t j = 0; j < w->kv_len[t] && sum > 0; j++)
            for (uint32_t i = 0; i < d; i++)
                out[h * d + i] += p[j] / sum * (double)w->v[s->layer][seq][j][kv + i];
    }
}

/* Records what KV_PUT must have stored and checks every ATTEND of the last batch. */
static void check_attention(world *w) {
    static float a[MAX_ROWS * MAX_COLS], b[MAX_ROWS * MAX_COLS];
    static double want[MAX_COLS];
    uint32_t n_checked = 0;
    for (uint32_t i = 0; i < w->run.plan->n_steps; i++) {
        const rf_step *s = &w->run.plan->steps[i];
        uint32_t kv_cols = s->n_kv_heads * s->head_dim, q_cols = s->n_heads * s->head_dim;
        if (s->op == RF_OP_KV_PUT) {
            peek(w, s->a, a);
            peek(w, s->b, b);
            for (uint32_t t = 0; t < w->n_rows; t++) {
                memcpy(w->k[s->layer][w->seq[t]][w->pos[t]], a + t * kv_cols, kv_cols * sizeof *a);
                memcpy(w->v[s->layer][w->seq[t]][w->pos[t]], b + t * kv_cols, kv_cols * sizeof *b);
            }
        } else if (s->op == RF_OP_ATTEND) {
            peek(w, s->a, a);
            peek(w, s->dst, b);
            for (uint32_t t = 0; t < w->n_rows; t++) {
                attend(w, s, t, a + t * q_cols, want);
                expect_near(b + t * q_cols, want, q_cols, "ATTEND");
            }
            n_checked++;
        }
    }
    assert_int_equal(n_checked, LAYERS);
}

static world *make_world(uint32_t n_heads, uint32_t n_kv_heads) {
    world *w = rf_alloc(1, sizeof *w);
    assert_non_null(w);
    w->seed = 3;
    rf_test_tiny_make(&w->tiny, LAYERS, n_heads, n_kv_heads, 8);
    for (uint32_t il = 0; il < LAYERS; il++)
        w->tiny.m.layers[il].pattern = patterns[il];
    rf_test_run_model(
        &w->run, &rf_ref_ops, &w->tiny.m,
        (rf_test_run_opts){
            .keep_values = true, .n_ctx = CTX, .max_tokens = MAX_ROWS, .n_seqs = SEQS});
    for (uint32_t s = 0; s < SEQS; s++)
        for (uint32_t i = 0; i < CTX; i++)
            w->text[s][i] = (int32_t)(rf_test_rand(&w->seed) % 32);
    return w;
}

static void free_world(world *w) {
    rf_test_run_close(&w->run);
    rf_test_tiny_free(&w->tiny);
    rf_free(w);
}

/* req: C-01, C-03, C-06, C-08, B-12, B-38, B-68 */
static void test_attention_patterns(void **state) {
    (void)state;
    static const uint32_t schedule[][SEQS] = {{20, 1, 7}, {1, 30, 1}, {40, 1, 2}, {1, 1, 1}};
    static const uint32_t heads[][2] = {{4, 2}, {4, 4}, {4, 1}};
    for (size_t h = 0; h < RF_COUNT(heads); h++) {
        world *w = make_world(heads[h][0], heads[h][1]);
        for (size_t i = 0; i < RF_COUNT(schedule); i++) {
            step(w, schedule[i]);
            check_attention(w);
        }
        assert_int_equal(w->done[0], 62);
        free_world(w);
    }
}

static void naive_norm(const world *w, const rf_step *s, const float *a, double *want) {
    const float *g = w->run.plan->vals[s->w].weight->data;
    for (uint32_t h = 0; h < s->n_heads; h++) {
        double ss = 0;
        for (uint32_t i = 0; i < s->head_dim; i++)
            ss += pow((double)a[h * s->head_dim + i], 2);
        for (uint32_t i = 0; i < s->head_dim; i++)
            want[h * s->head_dim + i] =
                (double)a[h * s->head_dim + i] * (double)g[i] / sqrt(ss / s->head_dim + 1e-5);
    }
}

static void naive_matmul(const world *w, const rf_step *s, const float *a, double *want) {
    const rf_tensor *m = w->run.plan->vals[s->w].weight;
    const float *v = m->data;
    for (uint32_t r = 0; r < m->rows; r++) {
        want[r] = 0;
        for (uint32_t i = 0; i < m->cols; i++)
            want[r] += (double)v[r * m->cols + i] * (double)a[i];
    }
}

/* By the rotation's own definition: x0 + i x1 multiplied by e^(i pos f).  Position 0 would be the
 * identity, so nearly all rows lie beyond it.  req: B-69 */
static void naive_rope(const world *w, const rf_step *s, uint32_t t, const float *a, double *want) {
    uint32_t d = s->head_dim, n = s->rope->n_dims;
    for (uint32_t i = 0; i < s->n_heads * d; i++)
        want[i] = (double)a[i];
    for (uint32_t h = 0; h < s->n_heads; h++)
        for (uint32_t i = 0; i < n / 2; i++) {
            bool norm = s->rope->kind == RF_ROPE_NORM;
            uint32_t i0 = h * d + (norm ? 2 * i : i), i1 = norm ? i0 + 1 : i0 + n / 2;
            double angle = w->pos[t] * s->rope->inv_freq[i], mag = (double)s->rope->magnitude;
            double x0 = (double)a[i0], x1 = (double)a[i1], size = hypot(x0, x1) * mag;
            want[i0] = size * cos(atan2(x1, x0) + angle);
            want[i1] = size * sin(atan2(x1, x0) + angle);
        }
}

static void naive_embed(const world *w, const rf_step *s, uint32_t t, double *want) {
    const rf_tensor *m = w->run.plan->vals[s->w].weight;
    const float *v = m->data;
    for (uint32_t i = 0; i < m->cols; i++)
        want[i] = (double)v[(size_t)w->text[w->seq[t]][w->pos[t]] * m->cols + i];
}

static void check_op(const world *w, const rf_step *s) {
    static float a[MAX_ROWS * MAX_COLS], b[MAX_ROWS * MAX_COLS], d[MAX_ROWS * MAX_COLS];
    double want[MAX_COLS];
    const rf_value *vals = w->run.plan->vals;
    if (s->op == RF_OP_KV_PUT || s->op == RF_OP_ATTEND) return;
    if (s->a) peek(w, s->a, a);
    if (s->b) peek(w, s->b, b);
    peek(w, s->dst, d);
    for (uint32_t t = 0; t < w->n_rows; t++) {
        uint32_t cols = vals[s->dst].cols, a_cols = s->a ? vals[s->a].cols : 0;
        const float *at = a + t * a_cols, *bt = b + t * a_cols;
        for (uint32_t i = 0; i < cols; i++)
            want[i] = (double)at[i < a_cols ? i : 0]; /* PICK: all rows */
        if (s->op == RF_OP_EMBED) naive_embed(w, s, t, want);
        if (s->op == RF_OP_RMS_NORM) naive_norm(w, s, at, want);
        if (s->op == RF_OP_MATMUL) naive_matmul(w, s, at, want);
        if (s->op == RF_OP_ROPE) naive_rope(w, s, t, at, want);
        for (uint32_t i = 0; i < cols && s->op == RF_OP_ADD; i++)
            want[i] += (double)bt[i];
        for (uint32_t i = 0; i < cols && s->op == RF_OP_GLU; i++)
            want[i] *= (double)bt[i] / (1 + exp(-want[i]));
        expect_near(d + t * cols, want, cols, rf_op_name(s->op));
    }
}

/* req: C-08, B-04, B-32, B-36, B-69 */
static void test_every_op(void **state) {
    (void)state;
    static const uint32_t first[] = {9, 3, 1}, later[] = {5, 20, 2};
    double inv_freq[3] = {1, 0.3, 0.01};
    for (int neox = 0; neox < 2; neox++) {
        world *w = make_world(4, 2);
        rf_test_run_close(&w->run);
        double *whole = (double *)(uintptr_t)w->tiny.m.rope.inv_freq;
        w->tiny.m.rope = (rf_rope){neox ? RF_ROPE_NEOX : RF_ROPE_NORM, 6, inv_freq, 1.25F};
        rf_test_run_model(
            &w->run, &rf_ref_ops, &w->tiny.m,
            (rf_test_run_opts){
                .keep_values = true, .n_ctx = CTX, .max_tokens = MAX_ROWS, .n_seqs = SEQS});
        step(w, first);
        step(w, later);
        uint32_t seen[RF_OP_COUNT] = {0};
        for (uint32_t i = 0; i < w->run.plan->n_steps; i++) {
            check_op(w, &w->run.plan->steps[i]);
            seen[w->run.plan->steps[i].op]++;
        }
        static const rf_op judged[] = {RF_OP_EMBED, RF_OP_RMS_NORM, RF_OP_MATMUL, RF_OP_ROPE,
                                       RF_OP_GLU,   RF_OP_ADD,      RF_OP_PICK};
        for (size_t i = 0; i < RF_COUNT(judged); i++)
            assert_true(seen[judged[i]] > 0);
        w->tiny.m.rope.inv_freq = whole;
        free_world(w);
    }
}

/* Logits of some rows are those rows' logits: PICK takes the right ones. */
static void test_outputs(void **state) {
    (void)state;
    world *w = make_world(4, 2);
    static const uint32_t n[] = {6, 2, 4};
    step(w, n);
    float all[12 * 32];
    const float *logits = NULL;
    assert_int_equal(w->run.ops->wait(w->run.exec, &logits), RF_OK);
    memcpy(all, logits, sizeof all);
    int32_t token[12];
    const uint32_t seq_start[] = {0, 6, 8, 12}, kv_len[] = {6, 2, 4}, out_row[] = {0, 5, 7, 8};
    for (uint32_t t = 0; t < 12; t++)
        token[t] = w->text[w->seq[t]][w->pos[t]];
    rf_batch b = {.n_tokens = 12,
                  .n_seqs = 3,
                  .n_outputs = 4,
                  .table_stride = w->run.table_stride,
                  .token = token,
                  .pos = w->pos,
                  .seq_start = seq_start,
                  .kv_len = kv_len,
                  .table = w->run.table,
                  .out_row = out_row,
                  .mask = w->mask[0],
                  .mask_stride = CTX,
                  .n_prefix = w->n_prefix};
    rf_error e = {0};
    assert_int_equal(w->run.ops->run(w->run.exec, &b, &e), RF_OK);
    assert_int_equal(w->run.ops->wait(w->run.exec, &logits), RF_OK);
    for (uint32_t o = 0; o < 4; o++)
        assert_memory_equal(logits + o * 32, all + out_row[o] * 32, 32 * sizeof *all);
    b.n_outputs = 0; /* a chunk in the middle of a prompt */
    assert_int_equal(w->run.ops->run(w->run.exec, &b, &e), RF_OK);
    b.kv_len = out_row;
    assert_int_equal(w->run.ops->run(w->run.exec, &b, &e), RF_EARG);
    free_world(w);
}

/* A copied block serves another sequence as the original does. */
static void test_kv_copy(void **state) {
    (void)state;
    rf_test_tiny tiny;
    rf_test_tiny_make(&tiny, 2, 4, 2, 8);
    rf_test_run r;
    rf_test_run_model(&r, &rf_ref_ops, &tiny.m, (rf_test_run_opts){.n_ctx = 64, .n_seqs = 2});
    int32_t text[40];
    for (int i = 0; i < 40; i++)
        text[i] = i * 7 % 32;
    float want[40 * 32], got[32];
    rf_test_run_text(&r, text, 40, 40, want); /* blocks 0 and 2 */
    assert_int_equal(r.ops->kv_copy(r.exec, 0, 1), RF_OK);
    uint8_t *block =
        rf_alloc(1, r.ops->kv_block_bytes(r.exec)); /* the other one by way of the host */
    assert_non_null(block);
    assert_int_equal(r.ops->kv_read(r.exec, 2, block), RF_OK);
    assert_int_equal(r.ops->kv_write(r.exec, 3, block), RF_OK);
    const int32_t other[8] = {0};
    for (uint32_t at = 0; at < 40; at += 8) { /* overwrite the original */
        const int32_t *part = other;
        const uint32_t n = 8;
        (void)rf_test_run_batch(&r, 1, &n, &at, &part);
    }
    r.table[0] = 1; /* sequence 0 now reads the copies */
    r.table[1] = 3;
    const uint32_t one = 1, last = 39;
    const int32_t *token = text + 39;
    memcpy(got, rf_test_run_batch(&r, 1, &one, &last, &token), sizeof got);
    assert_memory_equal(got, want + 39 * 32, sizeof got);
    assert_int_equal(r.ops->kv_read(r.exec, 4, block), RF_EARG);
    assert_int_equal(r.ops->kv_write(r.exec, 4, block), RF_EARG);
    rf_free(block);
    assert_int_equal(r.ops->kv_copy(r.exec, 4, 0), RF_EARG);
    assert_int_equal(r.ops->kv_copy(r.exec, 0, 4), RF_EARG);
    assert_int_equal(r.ops->kv_copy(r.exec, 3, 3), RF_OK);
    rf_test_run_close(&r);
    rf_test_tiny_free(&tiny);
}

static void test_refusals(void **state) {
    (void)state;
    rf_test_tiny tiny;
    rf_test_tiny_make(&tiny, 1, 2, 1, 4);
    rf_plan *p = NULL;
    rf_backend *b = NULL;
    rf_exec *x = NULL;
    rf_error e = {0};
    const rf_backend_ops *ops = &rf_ref_ops;
    assert_int_equal(rf_plan_build(&p, &tiny.m, NULL, &e), RF_OK);
    (void)rf_alloc_count();
    assert_int_equal(ops->open(&b, &(rf_backend_opts){0}, &e), RF_OK);
    rf_limits l = {4, 1, 4, 2, RF_DT_Q4_1, RF_DT_F16, 0};
    assert_int_equal(ops->compile(&x, b, p, &l, &e), RF_EUNSUPPORTED);
    assert_non_null(strstr(e.text, "Q4_1"));
    l = (rf_limits){0, 1, 4, 2, RF_DT_F32, RF_DT_F32, 0};
    e = (rf_error){0};
    assert_int_equal(ops->compile(&x, b, p, &l, &e), RF_EARG);
    l = (rf_limits){4, 1, 4, UINT32_MAX, RF_DT_F32, RF_DT_F32, 0};
    tiny.m.n_layers = UINT32_MAX; /* a cache beyond what a size_t counts: refused, not wrapped */
    e = (rf_error){0};
    assert_int_equal(ops->compile(&x, b, p, &l, &e), RF_ENOMEM);
    tiny.m.n_layers = 1;
    l.n_kv_blocks = 2;
    (void)rf_alloc_count();
    assert_int_equal(ops->compile(&x, b, p, &l, &e), RF_OK);
    long n = rf_alloc_count();
    assert_true(ops->exec_bytes(x) >= 2 * 64 * 4 * sizeof(float)); /* K and V at least */
    float out[64];
    assert_int_equal(ops->peek(x, p->result, out, 0), RF_EARG); /* not sealed with keep_values */
    ops->exec_free(x);
    for (long i = 1; i <= n; i++) {
        rf_alloc_fail_nth(i);
        rf_status s = ops->compile(&x, b, p, &l, &e);
        rf_alloc_fail_nth(0);
        assert_int_equal(s, RF_ENOMEM);
        assert_null(x);
    }
    char text[8], whole[80];
    ops->describe(b, text, sizeof text);
    assert_string_equal(text, "ref, pl");
    ops->describe(b, whole, sizeof whole);
    assert_string_equal(whole, "ref, plain loops in double, 1 thread");
    ops->close(b);
    rf_plan_free(p);
    rf_test_tiny_free(&tiny);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_patterns),
        cmocka_unit_test(test_every_op),
        cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_kv_copy),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
