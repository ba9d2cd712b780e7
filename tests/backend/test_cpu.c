/* test_cpu.c - the CPU backend against golden logits and against the reference backend, and what it
 * says when something cannot be. */
#include <stdio.h>

#include "backend/session.h"
#include "backend/zoo.h"
#include "base/fmath.h"

static const char *const float_fixtures[] = {
    "llama-mha", "llama-gqa",  "llama-rope3", "llama-bias", "llama-linear",  "llama-f16",
    "qwen2",     "qwen2-yarn", "qwen3",       "qwen3-bf16", "mistral-window"};
enum { GOLDEN_TOKENS = 40 };

static const char *fixture(const char *name, const char *suffix) {
    static char relative[100];
    snprintf(relative, sizeof relative, "models/%s%s", name, suffix);
    return rf_test_data(relative);
}

static void read_tokens(const char *name, int32_t out[GOLDEN_TOKENS]) {
    size_t n;
    char *text = (char *)rf_test_read(fixture(name, ".tokens.txt"), &n), *at = text;
    text = rf_realloc(text, n, n + 1, 1); /* a NUL behind the last number */
    assert_non_null(text);
    at = text;
    for (int i = 0; i < GOLDEN_TOKENS; i++) {
        char *end;
        out[i] = (int32_t)strtol(at, &end, 10);
        assert_true(end > at);
        at = end;
    }
    rf_free(text);
}

/* req: B-12, B-32, B-34, B-35: the logits of an independent implementation, at once and in chunks */
static void test_golden(void **state) {
    (void)state;
    for (size_t i = 0; i < RF_COUNT(float_fixtures); i++) {
        const char *name = float_fixtures[i];
        int32_t token[GOLDEN_TOKENS];
        size_t n_bytes;
        read_tokens(name, token);
        float *want = (float *)(void *)rf_test_read(fixture(name, ".logits.f32"), &n_bytes);
        rf_model *m = open_model(fixture(name, ".gguf"));
        assert_int_equal(n_bytes, sizeof(float) * GOLDEN_TOKENS * m->n_vocab);
        session_opts o = session_defaults();
        for (uint32_t chunk = 7; chunk <= 42; chunk += 35) {
            session s = open_session(m, &o);
            float *got = logits_of(&s, token, GOLDEN_TOKENS, chunk);
            double d = relative_difference(got, want, n_bytes / sizeof *want);
            if (!(d <= 1e-4)) fail_msg("%s: relative difference %g, expected up to 1e-4", name, d);
            rf_free(got);
            close_session(&s);
        }
        rf_model_close(m);
        rf_free(want);
    }
}

/* Three sequences of different length and progress in one batch; b is run on both sessions. */
static void ragged_batch(batch *b, sequence q[3], const uint32_t n[3]) {
    batch_clear(b);
    for (uint32_t i = 0; i < 3; i++) {
        if (n[i]) batch_add(b, &q[i], n[i]);
        q[i].done += n[i];
    }
    for (uint32_t t = 0; t < b->b.n_tokens; t += 2)
        batch_want(b, t);
}

typedef struct tolerance {
    double one;  /* of a value's largest magnitude */
    bool as_rms; /* of root mean squares instead */
} tolerance;

static double rms_difference(const float *got, const float *want, size_t n) {
    double d2 = 0, w2 = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - (double)want[i];
        d2 += d * d;
        w2 += (double)want[i] * (double)want[i];
    }
    return d2 == 0 ? 0 : sqrt(d2 / w2);
}

static void compare_values(session *cpu, session *ref, const batch *b, tolerance limit) {
    for (uint32_t i = 0; i < cpu->p->n_steps; i++) {
        rf_val v = cpu->p->steps[i].dst;
        if (!v) continue;
        const rf_value *value = &cpu->p->vals[v];
        size_t n = (size_t)(value->per_output ? b->b.n_outputs : b->b.n_tokens) * value->cols;
        float *x = rf_alloc(n, sizeof *x), *y = rf_alloc(n, sizeof *y);
        assert_non_null(x);
        assert_non_null(y);
        assert_int_equal(cpu->ops->peek(cpu->x, v, x, n), RF_OK);
        assert_int_equal(ref->ops->peek(ref->x, v, y, n), RF_OK);
        double d = limit.as_rms ? rms_difference(x, y, n) : relative_difference(x, y, n);
        if (!(d <= limit.one)) {
            fail_msg("step %u, %s, layer %u: difference %g, expected up to %g", i,
                     rf_op_name(cpu->p->steps[i].op), cpu->p->steps[i].layer, d, limit.one);
        }
        rf_free(x);
        rf_free(y);
    }
}

/* Every value of every step of cpu and ref over three ragged batches. */
static void lockstep(const char *path, const session_opts *cpu_opts, tolerance limit) {
    rf_model *m = open_model(path);
    session_opts o = *cpu_opts;
    o.keep_values = true;
    session cpu = open_session(m, &o);
    o.ops = &rf_ref_ops;
    session ref = open_session(m, &o);
    static const uint32_t parts[3][3] = {{33, 1, 20}, {1, 40, 5}, {9, 1, 1}};
    int32_t token[3][64];
    sequence q[3];
    float mask[SESSION_ROWS][64];
    uint64_t seed = 31;
    for (uint32_t i = 0; i < 3; i++) {
        random_tokens(token[i], 64, m->n_vocab, &seed);
        q[i] = (sequence){.token = token[i], .n = 64};
        for (uint32_t k = 0; k < 4; k++)
            q[i].table[k] = (7 * (4 * i + k) + 5) % 32;
    }
    for (int step = 0; step < 3; step++) {
        batch b;
        ragged_batch(&b, q, parts[step]);
        for (uint32_t t = 0; t < SESSION_ROWS; t++) {
            for (uint32_t j = 0; j < 64; j++) {
                uint64_t r = rf_test_rand(&seed);
                mask[t][j] = r % 3 ? (float)(r % 100) / 50.0f : -INFINITY;
            }
        }
        b.b.mask = mask[0];
        b.b.mask_stride = 64;
        (void)batch_run(&cpu, &b);
        (void)batch_run(&ref, &b);
        compare_values(&cpu, &ref, &b, limit);
    }
    close_session(&cpu);
    close_session(&ref);
    rf_model_close(m);
}

/* req: C-08, C-06, B-12, B-22, B-38, B-68, B-69, B-72 (CPU) */
static void test_lockstep(void **state) {
    (void)state;
    for (size_t i = 0; i < RF_COUNT(float_fixtures); i++) {
        for (int level = 0; level <= (int)rf_isa_best(); level++) {
            session_opts o = session_defaults();
            o.isa = (rf_isa)level;
            /* A rounded number may fall to the other side of a tie: one part in 2048 of one key in
             * f16, 256 in bf16, 127 of the group's largest in q8_0, 8 in q4_0. */
            static const rf_dtype types[] = {RF_DT_F32, RF_DT_F16, RF_DT_BF16, RF_DT_Q8_0,
                                             RF_DT_Q4_0};
            static const double most[] = {2e-5, 1e-3, 8e-3, 1.6e-2, 0.25};
            o.limits.k_type = types[i % 5];
            o.limits.v_type = types[i / 5 % 2 ? i % 5 : (i + 1) % 5];
            double k = most[i % 5], v = most[i / 5 % 2 ? i % 5 : (i + 1) % 5];
            tolerance limit = {k > v ? k : v, false};
            lockstep(fixture(float_fixtures[i], ".gguf"), &o, limit);
        }
    }
}

static void test_lockstep_patterns(void **state) {
    (void)state;
    static const rf_attn_pattern patterns[][3] = {
        {{RF_ATTN_BIDIRECTIONAL, 0, 0}, {RF_ATTN_LOCAL, 7, 0}, {RF_ATTN_CAUSAL, 0, 0}},
        {{RF_ATTN_GLOBAL_LOCAL, 6, 3}, {RF_ATTN_GLOBAL_LOCAL, 1, 33}, {RF_ATTN_LOCAL, 100, 0}},
        {{RF_ATTN_CUSTOM, 0, 0}, {RF_ATTN_BIDIRECTIONAL, 0, 0}, {RF_ATTN_CUSTOM, 0, 0}}};
    for (size_t i = 0; i < RF_COUNT(patterns); i++) {
        for (int level = 0; level <= (int)rf_isa_best(); level++) {
            session_opts o = session_defaults();
            o.isa = (rf_isa)level;
            o.patterns = patterns[i];
            o.n_patterns = 3;
            lockstep(fixture("llama-gqa", ".gguf"), &o, (tolerance){2e-5, false});
        }
    }
}

/* Here the CPU backend quantises activations to 8 bits and the reference does not. */
static void test_lockstep_formats(void **state) {
    (void)state;
    session_opts o = session_defaults();
    lockstep(zoo_write(), &o, (tolerance){0.05, true});
}

/* Rows whose logits nobody wants cost nothing and change nothing. */
static void test_no_outputs(void **state) {
    (void)state;
    rf_model *m = open_model(fixture("llama-gqa", ".gguf"));
    session_opts o = session_defaults();
    session s = open_session(m, &o);
    int32_t token[20];
    uint64_t seed = 51;
    random_tokens(token, 20, m->n_vocab, &seed);
    float *want = logits_of(&s, token, 20, 20);
    sequence q = {.token = token, .n = 20, .table = {9}};
    batch b;
    batch_clear(&b);
    batch_add(&b, &q, 19);
    (void)batch_run(&s, &b);
    q.done = 19;
    batch_clear(&b);
    batch_add(&b, &q, 1);
    batch_want(&b, 0);
    const float *got = batch_run(&s, &b);
    assert_memory_equal(got, want + (size_t)19 * m->n_vocab, sizeof *got * m->n_vocab);
    rf_free(want);
    close_session(&s);
    rf_model_close(m);
}

/* A row may read a block that another sequence's row fills in the same run. */
static void test_shared_block(void **state) {
    (void)state;
    rf_model *m = open_model(fixture("llama-gqa", ".gguf"));
    session_opts o = session_defaults();
    o.n_threads = 1; /* one thread takes the last row first: wrong every time, not by chance */
    session s = open_session(m, &o);
    int32_t token[40];
    uint64_t seed = 61;
    random_tokens(token, 40, m->n_vocab, &seed);
    float *want = logits_of(&s, token, 40, 1);
    size_t n = m->n_vocab;
    sequence a = {.token = token, .n = 40, .table = {9, 8}};
    for (uint32_t part = 0; part < 2; part++) { /* row 31 of a's block, then row 0 of the next */
        batch b;
        batch_clear(&b);
        batch_add(&b, &a, part ? 1 : 31);
        (void)batch_run(&s, &b);
        a.done += part ? 1 : 31;
        sequence other = {.token = token, .n = 40, .done = a.done + 1, .table = {9, 8}};
        batch_clear(&b);
        batch_add(&b, &a, 1);
        batch_add(&b, &other, 1);
        batch_want_all(&b);
        const float *got = batch_run(&s, &b);
        assert_memory_equal(got, want + a.done * n, 2 * n * sizeof *got);
        a.done++;
    }
    rf_free(want);
    close_session(&s);
    rf_model_close(m);
}

/* Errors -----------------------------------------------------------------------------------------*/

typedef struct limit_case {
    rf_limits limits;
    rf_status status;
    const char *text;
} limit_case;

/* req: B-20, B-41: sizes are checked products, and the message says how much was asked for */
static void test_limits(void **state) {
    (void)state;
    const rf_limits ok = session_defaults().limits;
    limit_case cases[7];
    for (size_t i = 0; i < RF_COUNT(cases); i++)
        cases[i].limits = ok;
    cases[0] = (limit_case){ok, RF_EARG, "max_tokens is 0"};
    cases[0].limits.max_tokens = 0;
    cases[1] = (limit_case){ok, RF_EARG, "max_seqs is 0"};
    cases[1].limits.max_seqs = 0;
    cases[2] = (limit_case){ok, RF_EARG, "n_kv_blocks is 0"};
    cases[2].limits.n_kv_blocks = 0;
    cases[3] = (limit_case){ok, RF_EUNSUPPORTED, "values of type Q4_K, expected F32, F16"};
    cases[3].limits.v_type = RF_DT_Q4_K;
    /* llama-gqa: 3 layers, 2 KV heads of 10 dimensions: 2560 bytes a block and layer */
    cases[4] = (limit_case){ok, RF_ENOMEM, "32985348825600 bytes"};
    cases[4].limits.n_kv_blocks = UINT32_MAX;
    cases[5] = (limit_case){ok, RF_ENOMEM, "activations"};
    cases[5].limits.max_tokens = UINT32_MAX;
    cases[6] = (limit_case){ok, RF_ENOMEM, "activations"};
    cases[6].limits.max_outputs = UINT32_MAX;
    rf_model *m = open_model(fixture("llama-gqa", ".gguf"));
    session_opts o = session_defaults();
    session s = open_session(m, &o);
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_error e = {0};
        rf_exec *x = s.x;
        assert_int_equal(rf_cpu_ops.compile(&x, s.b, s.p, &cases[i].limits, &e), cases[i].status);
        assert_null(x);
        if (!strstr(e.text, cases[i].text)) fail_msg("\"%s\" lacks %s", e.text, cases[i].text);
    }
    close_session(&s);
    rf_model_close(m);
}

/* ---- the bytes of the KV cache, from docs/arithmetic.md once more ---- */

static void put_u16(uint8_t *out, uint16_t h) { memcpy(out, &h, sizeof h); }

static void encode_q8_0(uint8_t *out, const float x[32]) {
    float most = 0;
    for (int i = 0; i < 32; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    put_u16(out, rf_f32_to_f16(most / 127));
    for (int i = 0; i < 32; i++)
        out[2 + i] = (uint8_t)(int8_t)rint((double)(most > 0 ? x[i] * (127 / most) : 0));
}

static void encode_q4_0(uint8_t *out, const float x[32]) {
    float most = 0;
    for (int i = 0; i < 32; i++)
        most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    const float d = -most / 8;
    put_u16(out, rf_f32_to_f16(d));
    for (int i = 0; i < 32; i++) {
        float q = (most != 0 ? x[i] * (1 / d) : 0) + 8.5f;
        unsigned n = q < 0 ? 0 : q > 15 ? 15 : (unsigned)q;
        out[2 + i % 16] = (uint8_t)(i < 16 ? n : out[2 + i % 16] | n << 4);
    }
}

/* A head of n numbers in the cache's format; returns its bytes. */
static size_t encode_head(uint8_t *out, rf_dtype type, const float *x, uint32_t n) {
    size_t at = 0;
    for (uint32_t i = 0; i < n && (type == RF_DT_Q8_0 || type == RF_DT_Q4_0); i += 32) {
        float group[32] = {0};
        memcpy(group, x + i, (n - i < 32 ? n - i : 32) * sizeof *x);
        (type == RF_DT_Q8_0 ? encode_q8_0 : encode_q4_0)(out + at, group);
        at += type == RF_DT_Q8_0 ? 34 : 18;
    }
    for (uint32_t i = 0; i < n && (type == RF_DT_F16 || type == RF_DT_BF16); i++, at += 2)
        put_u16(out + at, type == RF_DT_F16 ? rf_f32_to_f16(x[i]) : rf_f32_to_bf16(x[i]));
    return at;
}

/* Block number 5, of 32 tokens, of a cache of that type. */
static uint8_t *block_of(const rf_model *m, rf_isa isa, rf_dtype type, size_t *bytes) {
    session_opts o = session_defaults();
    o.isa = isa;
    o.limits.k_type = o.limits.v_type = type;
    session s = open_session(m, &o);
    int32_t token[32];
    uint64_t seed = 77;
    random_tokens(token, 32, m->n_vocab, &seed);
    sequence q = {.token = token, .n = 32, .table = {5}};
    batch b;
    batch_clear(&b);
    batch_add(&b, &q, 32);
    (void)batch_run(&s, &b);
    *bytes = s.ops->kv_block_bytes(s.x);
    uint8_t *block = rf_alloc(1, *bytes);
    assert_non_null(block);
    assert_int_equal(s.ops->kv_read(s.x, 5, block), RF_OK);
    assert_int_equal(s.ops->kv_read(s.x, s.limits.n_kv_blocks, block), RF_EARG);
    assert_int_equal(s.ops->kv_write(s.x, s.limits.n_kv_blocks, block), RF_EARG);
    close_session(&s);
    return block;
}

/* What a first layer stores, which depends on no cache: the f32 numbers in the format's own bytes. */
static void kv_bytes_of(const char *name, rf_dtype type) {
    rf_model *m = open_model(fixture(name, ".gguf"));
    size_t n_plain, n_bytes;
    uint8_t *plain = block_of(m, rf_isa_best(), RF_DT_F32, &n_plain), want[1024];
    uint32_t n_heads = m->n_kv_heads, dim = m->head_dim;
    assert_int_equal(n_plain, m->n_layers * 2 * n_heads * 32 * dim * sizeof(float));
    for (int level = 0; level <= (int)rf_isa_best(); level++) {
        uint8_t *got = block_of(m, (rf_isa)level, type, &n_bytes), *at = got;
        for (uint32_t i = 0; i < 2 * n_heads * 32; i++) { /* keys, then values */
            float x[256];
            memcpy(x, plain + i * dim * sizeof *x, dim * sizeof *x);
            size_t n = encode_head(want, type, x, dim);
            assert_memory_equal(at, want, n);
            at += n;
        }
        assert_int_equal((size_t)(at - got) * m->n_layers, n_bytes);
        rf_free(got);
    }
    rf_free(plain);
    rf_model_close(m);
}

static void test_kv_bytes(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_F16, RF_DT_BF16, RF_DT_Q8_0, RF_DT_Q4_0};
    for (size_t i = 0; i < RF_COUNT(types); i++) {
        kv_bytes_of("llama-gqa", types[i]);
        kv_bytes_of("qwen3", types[i]);
    }
}

static void test_misuse(void **state) {
    (void)state;
    rf_model *m = open_model(fixture("llama-gqa", ".gguf"));
    session_opts o = session_defaults();
    session s = open_session(m, &o);
    rf_error e = {0};
    const float *logits;
    float out[1];
    char text[100];
    int32_t token[2] = {1, 2};
    sequence q = {.token = token, .n = 2, .table = {3}};
    batch b;
    assert_int_equal(s.ops->wait(s.x, &logits), RF_EARG); /* nothing has run */
    batch_clear(&b);
    batch_add(&b, &q, 2);
    b.token[1] = (int32_t)m->n_vocab;
    assert_int_equal(s.ops->run(s.x, &b.b, &e), RF_EARG);
    assert_non_null(strstr(e.text, "row 1"));
    assert_int_equal(s.ops->wait(s.x, &logits), RF_EARG);
    b.token[1] = 2;
    (void)batch_run(&s, &b);
    b.token[1] = -1;
    assert_int_equal(s.ops->run(s.x, &b.b, NULL), RF_EARG);
    assert_int_equal(s.ops->wait(s.x, &logits), RF_EARG); /* not those of the run before */
    b.token[1] = 2;
    (void)batch_run(&s, &b);
    assert_int_equal(s.ops->peek(s.x, s.p->result, out, 1), RF_EARG); /* values were not kept */
    assert_int_equal(s.ops->kv_copy(s.x, 0, s.limits.n_kv_blocks), RF_EARG);
    assert_int_equal(s.ops->kv_copy(s.x, s.limits.n_kv_blocks, 0), RF_EARG);
    assert_int_equal(s.ops->kv_copy(s.x, 3, 3), RF_OK);
    s.ops->describe(s.b, text, sizeof text);
    char want[100];
    snprintf(want, sizeof want, "cpu %s, 2 threads", rf_isa_name(rf_isa_best()));
    assert_string_equal(text, want);
    s.ops->describe(s.b, text, 4);
    assert_string_equal(text, "cpu");
    close_session(&s);
    rf_cpu_ops.close(NULL);
    rf_cpu_ops.exec_free(NULL);
    o.keep_values = true;
    s = open_session(m, &o);
    (void)batch_run(&s, &b);
    assert_int_equal(s.ops->peek(s.x, 0, out, 1), RF_EARG);
    assert_int_equal(s.ops->peek(s.x, s.p->n_vals, out, 1), RF_EARG);
    assert_int_equal(s.ops->peek(s.x, s.p->steps[0].w, out, 1), RF_EARG);
    assert_int_equal(s.ops->peek(s.x, s.p->steps[0].dst, out, 1), RF_EARG);
    close_session(&s);
    rf_model_close(m);
}

static void test_unknown_isa(void **state) {
    (void)state;
    rf_error e = {0};
    rf_backend *b = NULL;
    assert_int_equal(setenv("RF_CPU", "abacus", 1), 0);
    assert_int_equal(rf_cpu_ops.open(&b, NULL, &e), RF_EARG);
    assert_int_equal(unsetenv("RF_CPU"), 0);
    assert_null(b);
    assert_non_null(strstr(e.text, "abacus"));
}

/* Each allocation and thread creation of open and compile fails once: an error, no leak, no crash. */
static void test_failure_walk(void **state) {
    (void)state;
    rf_model *m = open_model(fixture("qwen3", ".gguf"));
    rf_error e = {0};
    rf_plan *p = NULL;
    must(rf_plan_build(&p, m, NULL, &e), &e);
    session_opts o = session_defaults();
    o.n_threads = 3;
    long n = 1;
    for (bool failed = true; failed; n++) {
        rf_backend *b = NULL;
        rf_exec *x = NULL;
        e = (rf_error){0};
        rf_alloc_fail_nth(n);
        rf_status s = open_backend(&o, &b, &e);
        if (s == RF_OK) s = rf_cpu_ops.compile(&x, b, p, &o.limits, &e);
        rf_alloc_fail_nth(0);
        failed = s != RF_OK;
        if (failed) {
            assert_int_equal(s, RF_ENOMEM);
            assert_true(e.text[0] != '\0');
            assert_null(x);
        }
        rf_cpu_ops.exec_free(x);
        rf_cpu_ops.close(b);
    }
    assert_true(n > 15);
    rf_plan_free(p);
    rf_model_close(m);
}

/* A run takes no memory from the system. */
static void test_run_allocates_nothing(void **state) {
    (void)state;
    rf_model *m = open_model(fixture("qwen3", ".gguf"));
    session_opts o = session_defaults();
    session s = open_session(m, &o);
    int32_t token[30] = {0};
    sequence q = {.token = token, .n = 30, .table = {1}};
    batch b;
    batch_clear(&b);
    batch_add(&b, &q, 30);
    batch_want_all(&b);
    (void)rf_alloc_count();
    (void)batch_run(&s, &b);
    assert_int_equal(rf_alloc_count(), 0);
    close_session(&s);
    rf_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_lockstep),
        cmocka_unit_test(test_lockstep_patterns),
        cmocka_unit_test(test_lockstep_formats),
        cmocka_unit_test(test_no_outputs),
        cmocka_unit_test(test_shared_block),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_kv_bytes),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_unknown_isa),
        cmocka_unit_test(test_failure_walk),
        cmocka_unit_test(test_run_allocates_nothing),
    };
    print_message("levels up to %s\n", rf_isa_name(rf_isa_best()));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
