/* test_plan.c - emitting, sealing, checking and printing plans. */
#include "plan/plan.h"

#include <math.h>
#include <string.h>

#include "lib/tiny.h"
#include "plan/internal.h"

static rf_plan *build(const rf_model *m, bool keep_values) {
    rf_plan_opts opts = {.keep_values = keep_values};
    rf_error e = {0};
    rf_plan *p = NULL;
    if (rf_plan_build(&p, m, &opts, &e) != RF_OK) fail_msg("%s", e.text);
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
    assert_int_equal(p->steps[p->n_steps - 1].dst, p->result);
    assert_int_equal(p->vals[p->result].cols, t.m.n_vocab);
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
            if (memory && (time || p->opts.keep_values)) fail_msg("values %u and %u collide", a, b);
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
        assert_int_equal(p->vals[p->result].offset + 32, p->floats_per_token);
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
    assert_int_equal(rf_plan_create(&d.p, m, NULL, &e), RF_OK);
    d.x = rf_emit_embed(d.p, m->tok_embd, RF_EMBED_TOKEN);
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
    const rf_attn at = {4, 2, 8, 8, 1, 0, {RF_ATTN_CAUSAL, 0, 0}, NULL};
    rf_tensor planes = *l->wq;
    planes.planes = 2;
    REFUSED("EMBED", rf_emit_embed(d.p, l->gate, RF_EMBED_TOKEN));
    REFUSED("RMS_NORM", rf_emit_rms_norm(d.p, d.k, l->attn_norm.w, 0));
    REFUSED("RMS_NORM", rf_emit_rms_norm(d.p, d.x, l->attn_norm.w, 7));
    REFUSED("RMS_NORM", rf_emit_rms_norm(d.p, d.x, l->wq, 0));
    REFUSED("MATMUL", rf_emit_matmul(d.p, d.k, l->wq, NULL));
    REFUSED("MATMUL", rf_emit_matmul(d.p, d.x, l->wk, l->attn_norm.w));
    REFUSED("MATMUL", rf_emit_matmul(d.p, 999, l->wk, NULL));
    REFUSED("MATMUL", rf_emit_matmul(d.p, d.p->steps[0].w, l->wk, NULL));
    REFUSED("MATMUL", rf_emit_matmul(d.p, d.x, &planes, NULL));
    REFUSED("ROPE", rf_emit_rope(d.p, d.x, 3, rope));
    REFUSED("ROPE", rf_emit_rope(d.p, d.x, 0, rope));
    REFUSED("ROPE", rf_emit_rope(d.p, d.x, 4, &odd));
    REFUSED("ROPE", rf_emit_rope(d.p, d.o, 4, rope));
    REFUSED("KV_PUT", rf_emit_attend(d.p, 0, d.x, d.x, d.k, &at));
    REFUSED("ATTEND", rf_emit_attend(d.p, 1, d.x, d.k, d.k, &at));
    REFUSED("ATTEND", rf_emit_attend(d.p, 0, d.k, d.k, d.k, &at));
    REFUSED("ADD", rf_emit_add(d.p, d.x, d.k));
    REFUSED("GLU", rf_emit_glu(d.p, RF_ACT_SILU, d.x, d.o));
    REFUSED("PICK", rf_emit_pick(d.p, d.o));
    rf_test_tiny_free(&t);
}

/* A sealed plan with one number changed must not pass, unless needle is NULL. */
static void expect_found(rf_plan *p, const char *needle) {
    rf_error e = {0};
    assert_int_equal(rf_plan_check(p, &e), needle ? RF_EARG : RF_OK);
    if (needle && !strstr(e.text, needle)) fail_msg("\"%s\" does not say %s", e.text, needle);
    rf_plan_free(p);
}

/* The ops that not every decoder has.  x has 32 columns, k 16, o is picked. */
static void test_more_emitters_refuse(void **state) {
    (void)state;
    draft d;
    rf_test_tiny t;
    rf_test_tiny_make(&t, 1, 4, 2, 8);
    const rf_layer *l = &t.m.layers[0];
    rf_attn at = {4, 2, 8, 8, 1, 0, {RF_ATTN_CAUSAL, 0, 0}, NULL};
    rf_attn wide = at, few = at, sunk = at;
    wide.value_dim = 9;
    few.n_kv_heads = 3;
    sunk.sinks = l->attn_norm.w;
    rf_tensor heads = *l->gate, experts = *l->gate; /* [24][32] */
    heads.planes = 2, heads.cols = 16;
    experts.planes = 4;
    rf_router r = {.n_experts = 32, .n_used = 2, .scale = 1}, none = r, many = r, groups = r;
    none.n_used = 0;
    many.n_experts = RF_MAX_EXPERTS + 1;
    groups.n_groups = 5;
    REFUSED("EMBED", rf_emit_embed(d.p, &experts, RF_EMBED_POSITION));
    REFUSED("LAYER_NORM", rf_emit_layer_norm(d.p, d.x, l->attn_norm.w, l->gate, 0));
    REFUSED("LAYER_NORM", rf_emit_layer_norm(d.p, d.x, NULL, NULL, 5));
    REFUSED("HEAD_MATMUL", rf_emit_head_matmul(d.p, d.k, &heads));
    REFUSED("KV_PUT", rf_emit_attend(d.p, 0, d.x, d.k, 0, &wide));
    REFUSED("KV_PUT", rf_emit_attend(d.p, 0, d.x, d.k, d.x, &at));
    REFUSED("ATTEND", rf_emit_attend(d.p, 0, d.x, d.k, d.k, &few));
    REFUSED("ATTEND", rf_emit_attend(d.p, 0, d.x, d.k, d.k, &sunk));
    REFUSED("ATTEND", rf_emit_attend(d.p, 0, d.o, d.k, d.k, &at));
    REFUSED("ACT", rf_emit_act(d.p, RF_ACT_SWIGLU_OAI, d.x));
    REFUSED("SCALE", rf_emit_scale(d.p, 0, 2));
    REFUSED("SOFTCAP", rf_emit_softcap(d.p, 99, 2));
    REFUSED("MUL", rf_emit_mul(d.p, d.k, d.x));
    REFUSED("MUL", rf_emit_mul(d.p, d.x, d.o));
    REFUSED("SLICE", rf_emit_slice(d.p, d.x, 4, 5, 4));
    REFUSED("SLICE", rf_emit_slice(d.p, d.x, 4, 0, 0));
    REFUSED("SLICE", rf_emit_slice(d.p, d.x, 5, 0, 1));
    REFUSED("CONCAT", rf_emit_concat(d.p, d.x, d.k, 4, 2));
    REFUSED("CONCAT", rf_emit_concat(d.p, d.x, d.o, 1, 1));
    REFUSED("ROUTE", rf_emit_route(d.p, d.k, &r));
    REFUSED("ROUTE", rf_emit_route(d.p, d.x, &none));
    REFUSED("ROUTE", rf_emit_route(d.p, d.x, &many));
    REFUSED("ROUTE", rf_emit_route(d.p, d.x, &groups));
    REFUSED("EXPERTS", rf_emit_experts(d.p, d.x, d.k, &experts, NULL, &r));
    REFUSED("MIX", rf_emit_mix(d.p, d.x, d.k, &r));
    d = start(&t.m);
    assert_int_equal(rf_emit_scale(d.p, d.x, 1), d.x);
    assert_int_equal(rf_emit_softcap(d.p, d.x, 0), d.x);
    assert_int_equal(d.p->n_steps, 3);
    rf_plan_free(d.p);
    rf_test_tiny_free(&t);
}

static const rf_router of_four = {.kind = RF_ROUTER_SIGMOID,
                                  .n_experts = 32,
                                  .n_used = 3,
                                  .n_groups = 4,
                                  .n_groups_used = 2,
                                  .normalise = true,
                                  .scale = 2};
static rf_tensor stacked, per_head;

/* One of each of the rarer ops; width 32, 4 heads of 8. */
static rf_status build_rare(const rf_model *m, rf_plan *p) {
    const rf_layer *l = &m->layers[0];
    rf_attn at = {4, 4, 8, 6, 0.5f, 30, {RF_ATTN_LOCAL_BOTH, 4, 0}, NULL};
    stacked = *l->wq; /* [32][32] of each expert, and of each head [8][8] */
    stacked.planes = 32, stacked.rows = 1;
    per_head = *l->wq;
    per_head.planes = 4, per_head.rows = per_head.cols = 8;
    rf_val x = rf_emit_embed(p, l->wq, RF_EMBED_POSITION);
    x = rf_emit_layer_norm(p, x, NULL, l->attn_norm.w, 0);
    x = rf_emit_head_matmul(p, x, &per_head);
    rf_val y = rf_emit_attend(p, 0, x, x, 0, &at);
    y = rf_emit_concat(p, y, rf_emit_slice(p, x, 1, 3, 2), 4, 1);
    x = rf_emit_pick(p, rf_emit_mul(p, y, rf_emit_act(p, RF_ACT_RELU2, y)));
    x = rf_emit_softcap(p, rf_emit_scale(p, x, 0.25f), 15);
    rf_val route = rf_emit_route(p, x, &of_four);
    x = rf_emit_experts(p, x, route, &stacked, NULL, &of_four);
    x = rf_emit_mix(p, x, route, &of_four);
    p->result = rf_emit_glu(p, RF_ACT_SWIGLU_OAI, x, x);
    p->n_result = 1;
    return p->err.status;
}

#define RARE(n) (&p->steps[n])
#define RARE_BROKEN(change, needle)                                   \
    do {                                                              \
        rf_error fresh = {0};                                         \
        assert_int_equal(rf_plan_build(&p, &m, NULL, &fresh), RF_OK); \
        change;                                                       \
        expect_found(p, needle);                                      \
    } while (0)

static void test_rare_ops(void **state) {
    (void)state;
    rf_test_tiny t;
    rf_test_tiny_make(&t, 1, 4, 2, 8);
    rf_model m = t.m;
    rf_arch arch = *m.arch;
    arch.build = build_rare;
    m.arch = &arch;
    rf_error e = {0};
    rf_plan *p = NULL;
    if (rf_plan_build(&p, &m, NULL, &e) != RF_OK) fail_msg("%s", e.text);
    rf_buf out = {0};
    rf_plan_print(p, &out);
    static const char *const lines[] = {
        "EMBED attn_q:F32[32][32] by position\n",
        "HEAD_MATMUL %4 attn_q:F32[4][8][8] 4 heads of 8\n",
        "ATTEND %6 layer 0 4/4 heads of 8 with values of 6 local_both(4) scale 0.5 softcap 30\n",
        "SLICE %6 from 3\n",
        "ACT %9 relu2\n",
        "SCALE %12 by 0.25\n",
        "SOFTCAP %13 at 15\n",
        "ROUTE %14 sigmoid 3 of 32 in 2 of 4 groups normalised scale 2\n",
        "EXPERTS %14 %15 attn_q:F32[32][1][32]\n",
        "GLU %18 %18 swiglu_oai\n",
    };
    for (size_t i = 0; i < RF_COUNT(lines); i++)
        if (!strstr(out.p, lines[i])) fail_msg("\"%s\" is not in:\n%s", lines[i], out.p);
    rf_buf_free(&out);
    rf_plan_free(p);
    static const rf_router other = {.n_experts = 32, .n_used = 3};
    RARE_BROKEN(RARE(0)->source = RF_EMBED_TOKEN, NULL);
    RARE_BROKEN(RARE(1)->op = RF_OP_RMS_NORM, "no bias");
    RARE_BROKEN(RARE(2)->n_heads = 2, "whole heads");
    RARE_BROKEN(RARE(3)->value_dim = 9, "values within the keys");
    RARE_BROKEN(RARE(4)->value_dim = 5, "n_heads * value_dim");
    RARE_BROKEN(RARE(4)->softcap = -1, "softcap >= 0");
    RARE_BROKEN(RARE(5)->first = 31, "a slice within a head");
    RARE_BROKEN(RARE(6)->n_kv_heads = 2, "whole heads");
    RARE_BROKEN(RARE(7)->act = RF_ACT_SWIGLU_OAI, "of one operand");
    RARE_BROKEN(RARE(8)->b = RARE(0)->dst, "MUL: expected b made before");
    RARE_BROKEN(RARE(11)->softcap = 0, "softcap > 0");
    RARE_BROKEN(RARE(12)->router = NULL, "a router");
    RARE_BROKEN(RARE(13)->router = &other, "the same router");
    RARE_BROKEN(RARE(14)->router = &other, "the same router");
    rf_test_tiny_free(&t);
}

static rf_status build_nothing(const rf_model *m, rf_plan *p) {
    (void)m;
    return p->err.status;
}

static rf_status build_wrong(const rf_model *m, rf_plan *p) {
    p->result =
        rf_emit_matmul(p, rf_emit_embed(p, m->tok_embd, RF_EMBED_TOKEN), m->layers[0].down, NULL);
    return p->err.status;
}

static rf_status build_without_logits(const rf_model *m, rf_plan *p) {
    (void)rf_emit_pick(p, rf_emit_embed(p, m->tok_embd, RF_EMBED_TOKEN));
    return p->err.status;
}

/* Errors of a builder reach the caller of rf_plan_build. */
static void test_bad_builders(void **state) {
    (void)state;
    rf_test_tiny t;
    rf_test_tiny_make(&t, 1, 4, 2, 8);
    rf_status (*const builders[])(const rf_model *, rf_plan *) = {build_nothing, build_wrong,
                                                                  build_without_logits};
    const char *needles[] = {"no steps", "MATMUL: columns of a weight, expected 32, got 24",
                             "result"};
    rf_model m = t.m;
    for (size_t i = 0; i < RF_COUNT(builders); i++) {
        rf_arch arch = *t.m.arch;
        arch.build = builders[i];
        m.arch = &arch;
        rf_error e = {0};
        rf_plan *p = NULL;
        assert_int_equal(rf_plan_build(&p, &m, NULL, &e), RF_EARG);
        assert_null(p);
        if (!strstr(e.text, needles[i])) fail_msg("\"%s\" does not say %s", e.text, needles[i]);
    }
    rf_test_tiny_free(&t);
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
    assert_int_equal(p->steps[14].op, RF_OP_GLU);
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
    BROKEN(silu->b = add->dst, "GLU: expected b shaped like a");
    BROKEN(add->dst = norm->dst, "life starts here");
    BROKEN(p->vals[embed->dst].last_step = 3, "ADD: expected a made before");
    BROKEN(p->vals[q->dst].offset = p->vals[norm->dst].offset, "share memory");
    BROKEN(p->vals[last->dst].offset++, "expected within");
    BROKEN(p->vals[q->dst].cols = 31, "MATMUL: expected w of shape");
    BROKEN(p->result = embed->dst, "result");
    BROKEN(last->op = RF_OP_PICK, "a with every row");
    BROKEN(p->n_vals++, "made by no step");
    BROKEN(p->vals[q->dst].per_output = true, "rows of a");
    rf_test_tiny_free(&t);
}

static rf_step *first_of(rf_plan *p, rf_op op) {
    for (uint32_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].op == op) return &p->steps[i];
    fail_msg("no %s", rf_op_name(op));
    return NULL;
}

/* A plan of the model with one thing changed at its first step of the op. */
#define BROKEN_STATE(op_, change, needle) \
    do {                                  \
        p = build(m, false);              \
        rf_step *s = first_of(p, op_);    \
        (void)s, change;                  \
        expect_found(p, needle);          \
    } while (0)

/* Steps with a state: operands, and parts of a slot that follow each other.  req: C-13 */
static void test_check_finds_states(void **state) {
    (void)state;
    static const char *const files[] = {"models/qwen35.gguf", "models/nemotron_h.gguf"};
    for (size_t i = 0; i < RF_COUNT(files); i++) {
        rf_model *m;
        rf_error e = {0};
        rf_plan *p;
        rf_op op = i ? RF_OP_SCAN : RF_OP_DELTA;
        assert_int_equal(rf_model_open(&m, rf_test_data(files[i]), &e), RF_OK);
        p = build(m, false);
        assert_true(p->state_floats > 0);
        assert_true(first_of(p, RF_OP_CONV)->state_at == 0 && first_of(p, op)->state_at > 0);
        rf_plan_free(p);
        BROKEN_STATE(RF_OP_CONV, s->state_at = 1, "CONV: expected its state behind");
        BROKEN_STATE(RF_OP_CONV, s->w = s->a, "CONV: expected w of taps");
        BROKEN_STATE(RF_OP_CONV, s->a = 0, "CONV: expected a made before");
        BROKEN_STATE(op, s->state_at--, "its state behind that of the steps before");
        BROKEN_STATE(op, s->n_kv_heads = 3, "value heads a multiple of key heads");
        BROKEN_STATE(op, s->value_dim = 0, "heads of 1 to 640 columns");
        BROKEN_STATE(op, s->head_dim = 641, "heads of 1 to 640 columns");
        BROKEN_STATE(op, s->head_dim++, "a of queries, keys and values");
        BROKEN_STATE(op, s->bias = s->a, "bias of shape [n_heads]");
        BROKEN_STATE(op, s->b = s->a, "b of one or two gates per head");
        BROKEN_STATE(op, p->state_floats--, "its state within a slot");
        rf_model_close(m);
    }
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
        "   8  %13[T][32] = ATTEND %11 layer 0 4/2 heads of 8 causal scale 0.353553\n",
        " layer 1 4/2 heads of 8 local(9) scale",
        " layer 2 4/2 heads of 8 global_local(4, 9) scale",
        " layer 3 4/2 heads of 8 bidirectional scale",
        " layer 4 4/2 heads of 8 custom scale",
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
        cmocka_unit_test(test_more_emitters_refuse),
        cmocka_unit_test(test_rare_ops),
        cmocka_unit_test(test_bad_builders),
        cmocka_unit_test(test_check_finds),
        cmocka_unit_test(test_check_finds_states),
        cmocka_unit_test(test_print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
