/* test_plan.c - emitting, sealing, checking and printing plans. */
#include "plan/plan.h"

#include <math.h>
#include <string.h>

#include "lib/tiny.h"
#include "plan/internal.h"

static rf_plan *build(const rf_model *m, bool keep_values) {
    rf_error e = {0};
    rf_plan *p = NULL;
    if (rf_plan_build(&p, m, keep_values, &e) != RF_OK) fail_msg("%s", e.text);
    return p;
}

static void test_ops_are_named(void **state) {
    (void)state;
    assert_string_equal(rf_op_name(RF_OP_EMBED), "EMBED");
    assert_string_equal(rf_op_name(RF_OP_PICK), "PICK");
    for (uint32_t op = 0; op < RF_OP_COUNT; op++) {
        assert_true(strlen(rf_op_name((rf_op)op)) >= 3);
        assert_true(strlen(rf_op_meaning((rf_op)op)) >= 10);
    }
}

/* 17 steps of a whole layer, less with fewer traits; the last one works on picked rows only. */
static void test_decoder(void **state) {
    (void)state;
    rf_test_tiny t;
    rf_test_tiny_make(&t, 3, 4, 2, 8);
    rf_plan *p = build(&t.m, false);
    assert_int_equal(p->n_steps, 1 + 3 * 16 + 2 + 2);
    uint32_t n_picks = 0, last_attend = 0;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const rf_step *s = &p->steps[i];
        if (s->op == RF_OP_ATTEND) {
            last_attend = i;
            assert_true(s->scale == (float)(1 / sqrt(8)));
        }
        n_picks += s->op == RF_OP_PICK;
        if (s->dst) assert_int_equal(p->vals[s->dst].per_output, n_picks > 0);
    }
    assert_int_equal(n_picks, 2);
    assert_int_equal(p->steps[last_attend].layer, 2);
    assert_int_equal(p->steps[last_attend + 1].op, RF_OP_PICK);
    assert_int_equal(p->steps[last_attend + 2].op, RF_OP_PICK);
    assert_int_equal(p->steps[p->n_steps - 1].dst, p->logits);
    assert_int_equal(p->vals[p->logits].cols, t.m.n_vocab);
    rf_plan_free(p);
    rf_test_tiny_free(&t);
}

/* A tied output matrix is one value, so a backend that uploads by value uploads it once. */
static void test_tied_weight_is_one_value(void **state) {
    (void)state;
    rf_test_tiny t;
    rf_test_tiny_make(&t, 1, 2, 1, 4);
    t.m.out = t.m.tok_embd;
    rf_plan *p = build(&t.m, false);
    assert_int_equal(p->steps[0].w, p->steps[p->n_steps - 1].w);
    rf_plan_free(p);
    rf_test_tiny_free(&t);
}

/* Do two activations ever hold different things in the same float? */
static void expect_no_overlap(const rf_plan *p) {
    for (rf_val a = 1; a < p->n_vals; a++)
        for (rf_val b = 1; b < a; b++) {
            const rf_value *x = &p->vals[a], *y = &p->vals[b];
            if (x->weight || y->weight) continue;
            bool memory = x->offset < y->offset + y->cols && y->offset < x->offset + x->cols;
            bool time = x->first_step <= y->last_step && y->first_step <= x->last_step;
            if (memory && (time || p->keep_values)) fail_msg("values %u and %u collide", a, b);
        }
}

static void test_memory_is_reused(void **state) {
    (void)state;
    rf_test_tiny t;
    size_t floats[9];
    for (uint32_t n = 1; n <= 8; n *= 2) {
        rf_test_tiny_make(&t, n, 4, 2, 8);
        rf_plan *p = build(&t.m, false), *kept = build(&t.m, true);
        expect_no_overlap(p);
        expect_no_overlap(kept);
        floats[n] = p->floats_per_token;
        assert_true(kept->floats_per_token > floats[n] * 2);
        /* the logits lie alone at the end */
        assert_int_equal(p->vals[p->logits].offset + 32, p->floats_per_token);
        for (rf_val v = 1; v < p->n_vals; v++)
            assert_true(p->vals[v].weight || p->vals[v].offset % 16 == 0);
        rf_plan_free(p);
        rf_plan_free(kept);
        rf_test_tiny_free(&t);
    }
    assert_int_equal(floats[2], floats[8]); /* depth costs no activation memory */
}

/* A plan of three steps to emit a wrong fourth into: x, k of the width of keys, o = picked x. */
typedef struct draft {
    rf_plan *p;
    rf_val x, k, o;
} draft;

static draft start(const rf_model *m) {
    rf_error e = {0};
    draft d = {0};
    assert_int_equal(rf_plan_create(&d.p, m, false, &e), RF_OK);
    d.x = rf_emit_embed(d.p, m->tok_embd);
    d.k = rf_emit_matmul(d.p, d.x, m->layers[0].wk, NULL);
    d.o = rf_emit_pick(d.p, d.x);
    assert_true(d.x && d.k && d.o && d.p->err.status == RF_OK);
    return d;
}

static void expect_refused(draft d, rf_val got, const char *op) {
    assert_int_equal(got, 0);
    assert_int_equal(d.p->err.status, RF_EARG);
    if (!strstr(d.p->err.text, op)) fail_msg("\"%s\" does not name %s", d.p->err.text, op);
    assert_non_null(strstr(d.p->err.text, "plan step 3"));
    assert_int_equal(rf_emit_add(d.p, d.x, d.x), 0); /* sticky */
    assert_int_equal(d.p->n_steps, 3);
    rf_plan_free(d.p);
}

#define REFUSED(op, call)              \
    do {                               \
        d = start(&t.m);               \
        expect_refused(d, (call), op); \
    } while (0)

/* Each emitter against wrong operands: the first failure sticks and names step, op and numbers. */
static void test_emitters_refuse(void **state) {
    (void)state;
    draft d;
    rf_test_tiny t;
    rf_test_tiny_make(&t, 1, 4, 2, 8);
    const rf_layer *l = &t.m.layers[0];
    const rf_rope *rope = &t.m.rope, odd = {RF_ROPE_NORM, 7, rope->inv_freq, 1};
    rf_tensor planes = *l->wq;
    planes.planes = 2;
    REFUSED("EMBED", rf_emit_embed(d.p, l->gate));
    REFUSED("RMS_NORM", rf_emit_rms_norm(d.p, d.k, l->attn_norm, 0));
    REFUSED("RMS_NORM", rf_emit_rms_norm(d.p, d.x, l->attn_norm, 7));
    REFUSED("RMS_NORM", rf_emit_rms_norm(d.p, d.x, l->wq, 0));
    REFUSED("MATMUL", rf_emit_matmul(d.p, d.k, l->wq, NULL));
    REFUSED("MATMUL", rf_emit_matmul(d.p, d.x, l->wk, l->attn_norm));
    REFUSED("MATMUL", rf_emit_matmul(d.p, 999, l->wk, NULL));
    REFUSED("MATMUL", rf_emit_matmul(d.p, d.p->steps[0].w, l->wk, NULL));
    REFUSED("MATMUL", rf_emit_matmul(d.p, d.x, &planes, NULL));
    REFUSED("ROPE", rf_emit_rope(d.p, d.x, 3, rope));
    REFUSED("ROPE", rf_emit_rope(d.p, d.x, 0, rope));
    REFUSED("ROPE", rf_emit_rope(d.p, d.x, 4, &odd));
    REFUSED("ROPE", rf_emit_rope(d.p, d.o, 4, rope));
    REFUSED("KV_PUT", rf_emit_attend(d.p, 0, d.x, d.x, d.k));
    REFUSED("ATTEND", rf_emit_attend(d.p, 1, d.x, d.k, d.k));
    REFUSED("ATTEND", rf_emit_attend(d.p, 0, d.k, d.k, d.k));
    REFUSED("ADD", rf_emit_add(d.p, d.x, d.k));
    REFUSED("SILU_MUL", rf_emit_silu_mul(d.p, d.x, d.o));
    REFUSED("PICK", rf_emit_pick(d.p, d.o));
    rf_test_tiny_free(&t);
}

static rf_status build_nothing(const rf_model *m, rf_plan *p) {
    (void)m;
    return p->err.status;
}

static rf_status build_wrong(const rf_model *m, rf_plan *p) {
    p->logits = rf_emit_matmul(p, rf_emit_embed(p, m->tok_embd), m->layers[0].down, NULL);
    return p->err.status;
}

static rf_status build_without_logits(const rf_model *m, rf_plan *p) {
    (void)rf_emit_pick(p, rf_emit_embed(p, m->tok_embd));
    return p->err.status;
}

/* Errors of a builder reach the caller of rf_plan_build. */
static void test_bad_builders(void **state) {
    (void)state;
    rf_test_tiny t;
    rf_test_tiny_make(&t, 1, 4, 2, 8);
    rf_status (*const builders[])(const rf_model *, rf_plan *) = {build_nothing, build_wrong,
                                                                  build_without_logits};
    const char *needles[] = {"no steps", "MATMUL: columns of w, expected 32, got 24", "logits"};
    rf_model m = t.m;
    for (size_t i = 0; i < RF_COUNT(builders); i++) {
        rf_arch arch = *t.m.arch;
        arch.build = builders[i];
        m.arch = &arch;
        rf_error e = {0};
        rf_plan *p = NULL;
        assert_int_equal(rf_plan_build(&p, &m, false, &e), RF_EARG);
        assert_null(p);
        if (!strstr(e.text, needles[i])) fail_msg("\"%s\" does not say %s", e.text, needles[i]);
    }
    rf_test_tiny_free(&t);
}

/* A sealed plan with one number changed must not pass. */
static void expect_found(rf_plan *p, const char *needle) {
    rf_error e = {0};
    assert_int_equal(rf_plan_check(p, &e), RF_EARG);
    if (!strstr(e.text, needle)) fail_msg("\"%s\" does not say %s", e.text, needle);
    rf_plan_free(p);
}

/* A fresh plan with the change made; steps of its first layer by name. */
#define BROKEN(change, needle)                                                       \
    do {                                                                             \
        p = build(&t.m, false);                                                      \
        embed = &p->steps[0], norm = &p->steps[1], q = &p->steps[2];                 \
        rope = &p->steps[5], put = &p->steps[7], attend = &p->steps[8];              \
        add = &p->steps[10], silu = &p->steps[14], last = &p->steps[p->n_steps - 1]; \
        change;                                                                      \
        expect_found(p, needle);                                                     \
    } while (0)

static void test_check_finds(void **state) {
    (void)state;
    rf_test_tiny t;
    rf_test_tiny_make(&t, 2, 4, 2, 8);
    rf_plan *p = build(&t.m, false);
    rf_error e = {0};
    assert_int_equal(rf_plan_check(p, &e), RF_OK);
    assert_int_equal(p->steps[5].op, RF_OP_ROPE);
    assert_int_equal(p->steps[7].op, RF_OP_KV_PUT);
    assert_int_equal(p->steps[10].op, RF_OP_ADD);
    assert_int_equal(p->steps[14].op, RF_OP_SILU_MUL);
    rf_plan_free(p);
    rf_step *embed, *norm, *q, *rope, *put, *attend, *add, *silu, *last;
    BROKEN(embed->op = RF_OP_COUNT, "unknown op");
    BROKEN(embed->w = norm->w, "EMBED: expected w");
    BROKEN(norm->a = 0, "RMS_NORM: expected a made before");
    BROKEN(norm->a = norm->dst, "a made before");
    BROKEN(norm->head_dim = 8, "whole heads");
    BROKEN(norm->eps = 0, "eps");
    BROKEN(q->w = embed->dst, "MATMUL: expected w");
    BROKEN(q->bias = q->w, "bias");
    BROKEN(q->a = last->dst, "a made before");
    BROKEN(q->a = p->n_vals, "a made before");
    BROKEN(rope->rope = NULL, "a rope");
    BROKEN(rope->n_heads = 5, "whole heads");
    BROKEN(put->b = embed->dst, "KV_PUT: expected b of");
    BROKEN(put->dst = q->dst, "no dst");
    BROKEN(put->layer = 2, "a layer of the model");
    BROKEN(put->layer = 1, "KV_PUT before");
    BROKEN(attend->n_kv_heads = 3, "multiple of KV heads");
    BROKEN(attend->scale = 0, "scale");
    BROKEN(silu->b = add->dst, "SILU_MUL: expected b shaped like a");
    BROKEN(add->dst = norm->dst, "life starts here");
    BROKEN(p->vals[embed->dst].last_step = 3, "ADD: expected a made before");
    BROKEN(p->vals[q->dst].offset = p->vals[norm->dst].offset, "share memory");
    BROKEN(p->vals[last->dst].offset++, "expected within");
    BROKEN(p->vals[q->dst].cols = 31, "MATMUL: expected w of shape");
    BROKEN(p->logits = embed->dst, "logits");
    BROKEN(last->op = RF_OP_PICK, "a with every row");
    BROKEN(p->n_vals++, "made by no step");
    BROKEN(p->vals[q->dst].per_output = true, "rows of a");
    rf_test_tiny_free(&t);
}

static void test_print(void **state) {
    (void)state;
    rf_test_tiny t;
    rf_test_tiny_make(&t, 5, 4, 2, 8);
    t.m.layers[1].pattern = (rf_attn_pattern){RF_ATTN_LOCAL, 9, 0};
    t.m.layers[2].pattern = (rf_attn_pattern){RF_ATTN_GLOBAL_LOCAL, 9, 4};
    t.m.layers[3].pattern = (rf_attn_pattern){RF_ATTN_BIDIRECTIONAL, 0, 0};
    t.m.layers[4].pattern = (rf_attn_pattern){RF_ATTN_CUSTOM, 0, 0};
    rf_plan *p = build(&t.m, false);
    rf_buf out = {0};
    rf_plan_print(p, &out);
    static const char *const lines[] = {
        "   0  %2[T][32] = EMBED token_embd:F32[32][32]\n",
        "   1  %4[T][32] = RMS_NORM %2 attn_norm:F32[1][32]\n",
        "   7  KV_PUT %12 %10 layer 0 2 heads of 8\n",
        "   8  %13[T][32] = ATTEND %11 layer 0 4/2 heads of 8 causal\n",
        " layer 1 4/2 heads of 8 local(9)\n",
        " layer 2 4/2 heads of 8 global_local(4, 9)\n",
        " layer 3 4/2 heads of 8 bidirectional\n",
        " layer 4 4/2 heads of 8 custom\n",
        "[O][32] = PICK %",
        " floats of activations per row\n",
    };
    for (size_t i = 0; i < RF_COUNT(lines); i++)
        if (!strstr(out.p, lines[i])) fail_msg("\"%s\" is not in:\n%s", lines[i], out.p);
    rf_buf_free(&out);
    rf_plan_free(p);
    rf_test_tiny_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_are_named),
        cmocka_unit_test(test_decoder),
        cmocka_unit_test(test_tied_weight_is_one_value),
        cmocka_unit_test(test_memory_is_reused),
        cmocka_unit_test(test_emitters_refuse),
        cmocka_unit_test(test_bad_builders),
        cmocka_unit_test(test_check_finds),
        cmocka_unit_test(test_print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
