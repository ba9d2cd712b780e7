/* test_gpu.c - the GPU backend against the CPU backend: equal bits, for every value of every step, of
 * every model and of plans that no model has.
 *
 * The device is this processor, with the kernels compiled for it.  With RF_GPU_LIBRARY set it is
 * whatever that library presents, through the real driver layer and the code objects of the build;
 * RF_TEST_SMALL leaves out most models, for emulated devices. */
#include <glob.h>
#include <stdio.h>

#include "backend/gpu/exec.h"
#include "backend/gpu_weights.h"
#include "backend/odd.h"
#include "backend/session.h"
#include "backend/zoo.h"
#include "gpuemu/host/faulty.h"
#include "gpuemu/host/host.h"

enum { N_TOKENS = 40, MAX_ROWS = 48 };

static bool is_small; /* an emulated device is slow */

static session open_on(const rf_backend_ops *ops, const rf_model *m, const session_opts *given,
                       bool embeddings) {
    session s = {.ops = ops, .limits = given->limits, .n_vocab = m->n_vocab};
    rf_error e = {0};
    rf_plan_opts opts = {.keep_values = given->keep_values, .embeddings = embeddings};
    rf_backend_opts bo = {.n_threads = given->n_threads, .spare_percent = given->spare_percent};
    must(rf_plan_build(&s.p, m, &opts, &e), &e);
    for (uint32_t i = 0; i < s.p->n_steps && given->patterns; i++) {
        rf_step *step = &s.p->steps[i];
        if (step->op == RF_OP_ATTEND)
            step->pattern = given->patterns[step->layer % given->n_patterns];
    }
    must(ops->open(&s.b, &bo, &e), &e);
    must(ops->compile(&s.x, s.b, s.p, &s.limits, &e), &e);
    s.n_vocab = s.p->n_result;
    return s;
}

static void assert_same(const float *got, const float *want, size_t n, const char *what) {
    if (memcmp(got, want, n * sizeof *got) == 0) return;
    size_t i = 0;
    while (memcmp(got + i, want + i, sizeof *got) == 0)
        i++;
    fail_msg("%s: number %zu of %zu is %.9g, expected %.9g", what, i, n, (double)got[i],
             (double)want[i]);
}

/* Lockstep ---------------------------------------------------------------------------------------*/

static void compare_values(session *gpu, session *cpu, const batch *b, const char *name) {
    for (uint32_t i = 0; i < gpu->p->n_steps; i++) {
        const rf_step *s = &gpu->p->steps[i];
        if (!s->dst) continue;
        const rf_value *value = &gpu->p->vals[s->dst];
        size_t n = (size_t)(value->per_output ? b->b.n_outputs : b->b.n_tokens) * value->cols;
        float *x = rf_alloc(n, sizeof *x), *y = rf_alloc(n, sizeof *y);
        char what[200];
        assert_true(x && y);
        assert_int_equal(gpu->ops->peek(gpu->x, s->dst, x, n), RF_OK);
        assert_int_equal(cpu->ops->peek(cpu->x, s->dst, y, n), RF_OK);
        snprintf(what, sizeof what, "%s, step %u, %s, layer %u", name, i, rf_op_name(s->op),
                 s->layer);
        assert_same(x, y, n, what);
        rf_free(x);
        rf_free(y);
    }
}

static void fill_mask(float mask[MAX_ROWS][64], uint64_t *seed) {
    for (uint32_t t = 0; t < MAX_ROWS; t++)
        for (uint32_t j = 0; j < 64; j++) {
            uint64_t r = rf_test_rand(seed);
            mask[t][j] = r % 3 ? (float)(r % 100) / 50.0f : -INFINITY;
        }
}

/* Three ragged batches of three sequences; every value where they are kept, else the result. */
static void lockstep(const rf_model *m, session_opts o, bool embeddings, const char *name) {
    session gpu = open_on(&rf_gpu_ops, m, &o, embeddings);
    session cpu = open_on(&rf_cpu_ops, m, &o, embeddings);
    static const uint32_t usual[4][3] = {{16, 1, 0}, {1, 33, 5}, {1, 1, 1}, {1, 1, 1}};
    static const uint32_t few[4][3] = {{4, 1, 0}, {1, 2, 1}, {0, 1, 0}, {0, 1, 0}};
    const uint32_t(*parts)[3] = is_small ? few : usual;
    int32_t token[3][64];
    sequence q[3];
    float mask[MAX_ROWS][64];
    uint32_t prefix[3];
    uint64_t seed = 31;
    fill_mask(mask, &seed);
    for (uint32_t i = 0; i < 3; i++) {
        random_tokens(token[i], 64, m->n_vocab, &seed);
        q[i] = (sequence){.token = token[i], .n = 64, .state = 2 * i + 1};
        for (uint32_t k = 0; k < 4; k++)
            q[i].table[k] = (7 * (4 * i + k) + 5) % 32;
    }
    int n_steps = !o.keep_values ? 4 : is_small ? 1 : 3; /* the last is a recorded graph's */
    for (int step = 0; step < n_steps; step++) {
        batch b;
        batch_clear(&b);
        for (uint32_t i = 0; i < 3; i++) {
            if (parts[step][i]) batch_add(&b, &q[i], parts[step][i]);
            q[i].done += parts[step][i];
            if (parts[step][i]) prefix[b.b.n_seqs - 1] = q[i].done < 7 * i ? q[i].done : 7 * i;
        }
        for (uint32_t t = 0; t < b.b.n_tokens; t += 2)
            batch_want(&b, t);
        b.b.mask = mask[0];
        b.b.mask_stride = 64;
        b.b.n_prefix = prefix;
        const float *got = batch_run(&gpu, &b), *want = batch_run(&cpu, &b);
        if (o.keep_values) compare_values(&gpu, &cpu, &b, name);
        assert_same(got, want, (size_t)b.b.n_outputs * gpu.p->n_result, name);
    }
    close_session(&gpu);
    close_session(&cpu);
}

/* Both with every value kept and with what is fused then. */
static void compare(const rf_model *m, session_opts o, bool embeddings, const char *name) {
    o.limits.max_tokens = MAX_ROWS;
    for (int kept = 1; kept >= 0; kept--) {
        o.keep_values = kept;
        lockstep(m, o, embeddings, name);
    }
}

/* Models -----------------------------------------------------------------------------------------*/

static void compare_file(const char *path, rf_dtype k_type, rf_dtype v_type) {
    session_opts o = session_defaults();
    rf_model *m = open_model(path);
    const char *name = strrchr(path, '/') + 1;
    o.limits.k_type = k_type;
    o.limits.v_type = v_type;
    compare(m, o, m->arch->encoder, name);
    rf_model_close(m);
}

/* req: C-04, C-08: every architecture's fixture, each with one pair of cache formats */
static void test_fixtures(void **state) {
    (void)state;
    glob_t files;
    char pattern[600];
    snprintf(pattern, sizeof pattern, "%s/models/*.gguf", rf_test_data(""));
    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    assert_true(files.gl_pathc > 80);
    static const char *const few[] = {
        "llama-gqa.gguf",   "qwen3moe-quant.gguf", "gpt-oss.gguf",   "deepseek2-lite.gguf",
        "modern-bert.gguf", "qwen3next.gguf",      "nemotron_h.gguf"};
    static const rf_dtype kv_types[][2] = {{RF_DT_F16, RF_DT_F16},  {RF_DT_Q8_0, RF_DT_F32},
                                           {RF_DT_F32, RF_DT_F32},  {RF_DT_BF16, RF_DT_Q8_0},
                                           {RF_DT_F16, RF_DT_BF16}, {RF_DT_Q4_0, RF_DT_Q4_0}};
    size_t n_done = 0;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        bool wanted = !is_small;
        for (size_t k = 0; k < RF_COUNT(few); k++)
            wanted = wanted || strcmp(strrchr(files.gl_pathv[i], '/') + 1, few[k]) == 0;
        if (!wanted) continue;
        const rf_dtype *kv = kv_types[i % RF_COUNT(kv_types)];
        compare_file(files.gl_pathv[i], kv[0], kv[1]);
        n_done++;
    }
    assert_true(n_done >= RF_COUNT(few));
    globfree(&files);
}

/* req: C-04: every number format */
static void test_formats(void **state) {
    (void)state;
    compare_file(zoo_write(), RF_DT_F16, RF_DT_F16);
}

static void test_patterns(void **state) {
    (void)state;
    static const rf_attn_pattern patterns[][3] = {
        {{RF_ATTN_BIDIRECTIONAL, 0, 0}, {RF_ATTN_LOCAL, 7, 0}, {RF_ATTN_LOCAL_BOTH, 12, 0}},
        {{RF_ATTN_GLOBAL_LOCAL, 6, 3}, {RF_ATTN_GLOBAL_LOCAL, 1, 33}, {RF_ATTN_LOCAL, 100, 0}},
        {{RF_ATTN_CUSTOM, 0, 0}, {RF_ATTN_BIDIRECTIONAL, 0, 0}, {RF_ATTN_CUSTOM, 0, 0}},
        {{RF_ATTN_PREFIX, 0, 0}, {RF_ATTN_LOCAL, 9, 0}, {RF_ATTN_PREFIX, 0, 0}}};
    rf_model *m = open_model(rf_test_data("models/llama-gqa.gguf"));
    for (size_t i = 0; i < RF_COUNT(patterns); i++) {
        session_opts o = session_defaults();
        o.patterns = patterns[i];
        o.n_patterns = 3;
        compare(m, o, false, "llama-gqa with other patterns");
    }
    rf_model_close(m);
}

/* Plans of every op, as random as they come. */
static void test_random_plans(void **state) {
    (void)state;
    uint64_t n = is_small ? 3 : 40;
    for (uint64_t seed = 0; seed < n; seed++) {
        char name[40];
        snprintf(name, sizeof name, "odd plan %llu", (unsigned long long)seed);
        odd *o = odd_open(seed, false, false, seed % 2);
        compare(&o->m, session_defaults(), false, name);
        odd_close(o);
    }
}

/* Batches ----------------------------------------------------------------------------------------*/

/* req: C-09: chunks of any size give the same logits, and so do graphs that were recorded */
static void test_chunks(void **state) {
    (void)state;
    rf_model *m = open_model(rf_test_data("models/qwen3moe-quant.gguf"));
    session_opts o = session_defaults();
    o.limits.k_type = o.limits.v_type = RF_DT_F16;
    session gpu = open_on(&rf_gpu_ops, m, &o, false), cpu = open_on(&rf_cpu_ops, m, &o, false);
    int32_t token[N_TOKENS];
    uint64_t seed = 41;
    random_tokens(token, N_TOKENS, m->n_vocab, &seed);
    uint32_t n = is_small ? 5 : N_TOKENS;
    float *want = logits_of(&cpu, token, n, n);
    for (uint32_t chunk = 1; chunk <= n; chunk = chunk * 3 + 1) {
        float *got = logits_of(&gpu, token, n, chunk);
        assert_same(got, want, (size_t)n * m->n_vocab, "chunks");
        rf_free(got);
    }
    rf_free(want);
    close_session(&gpu);
    close_session(&cpu);
    rf_model_close(m);
}

/* A token of a dense model takes five launches a layer; one fetches the batch, one makes its embedding, one its
 * logits.  Very small heads have launches of their own, norms have none.  False: on NVIDIA's GPUs, where those in front of
 * 16-bit floats in the canonical order have. */
static bool check_launches(const char *path, uint32_t per_layer) {
    rf_model *m = open_model(rf_test_data(path));
    session_opts o = session_defaults();
    o.limits.k_type = o.limits.v_type = RF_DT_F16;
    session gpu = open_on(&rf_gpu_ops, m, &o, false);
    const rf_gpu_queue *q = &gpu.b->queue;
    gpu.b->queue.n_launches = 0;
    int32_t token = 1;
    rf_free(logits_of(&gpu, &token, 1, 1));
    assert_in_range(q->n_launches, 1, per_layer * m->n_layers + 3);
    assert_false(q->launched[RF_GPU_norm_rows] || q->launched[RF_GPU_norm_parts]);
    bool goes_on = strncmp(q->info.arch, "sm_", 3) != 0;
    close_session(&gpu);
    rf_model_close(m);
    return goes_on;
}

static void test_launches(void **state) {
    (void)state;
    if (!check_launches("../../models/demo.gguf", 5)) return;
    check_launches("models/llama-f16.gguf", 6);
    check_launches("models/qwen3-bf16.gguf", 7);
}

/* The same token by itself, whose router norms and whose experts' blocks choose, and among others. */
static void test_choice(void **state) {
    (void)state;
    rf_model *m = open_model(rf_test_data("models/gpt-oss.gguf"));
    session_opts o = session_defaults();
    session one = open_on(&rf_gpu_ops, m, &o, false), two = open_on(&rf_gpu_ops, m, &o, false);
    const bool *by_one = one.b->queue.launched, *by_two = two.b->queue.launched;
    one.b->queue.left_out[RF_GPU_lists] = true; /* which NVIDIA's have of so few experts */
    const int32_t token[2] = {1, 2};
    float *first = logits_of(&one, token, 1, 1), *both = logits_of(&two, token, 2, 2);
    assert_memory_equal(first, both, m->n_vocab * sizeof *first);
    assert_true(by_one[RF_GPU_router_normed] && by_one[RF_GPU_choose_32_41]);
    assert_false(by_one[RF_GPU_route]);
    assert_true(by_two[RF_GPU_route]);
    rf_free(first);
    rf_free(both);
    close_session(&one);
    close_session(&two);
    rf_model_close(m);
}

/* A block copied is as good as the one it came from; a run without outputs computes the cache. */
static void test_kv_copy(void **state) {
    (void)state;
    rf_model *m = open_model(rf_test_data("models/deepseek2-lite.gguf"));
    session_opts o = session_defaults();
    session s = open_on(&rf_gpu_ops, m, &o, false);
    int32_t token[20];
    uint64_t seed = 51;
    random_tokens(token, 20, m->n_vocab, &seed);
    float *want = logits_of(&s, token, 20, 20);
    sequence q = {.token = token, .n = 20, .table = {9}};
    batch b;
    batch_clear(&b);
    batch_add(&b, &q, 19);
    (void)batch_run(&s, &b);
    assert_int_equal(s.ops->kv_copy(s.x, 9, 31), RF_OK);
    uint8_t *block = rf_alloc(1, s.ops->kv_block_bytes(s.x)); /* and on by way of the host */
    assert_non_null(block);
    assert_int_equal(s.ops->kv_read(s.x, 31, block), RF_OK);
    assert_int_equal(s.ops->kv_write(s.x, 30, block), RF_OK);
    assert_int_equal(s.ops->kv_read(s.x, s.limits.n_kv_blocks, block), RF_EARG);
    assert_int_equal(s.ops->kv_write(s.x, s.limits.n_kv_blocks, block), RF_EARG);
    rf_free(block);
    q.done = 19;
    q.table[0] = 30;
    batch_clear(&b);
    batch_add(&b, &q, 1);
    batch_want(&b, 0);
    assert_same(batch_run(&s, &b), want + (size_t)19 * m->n_vocab, m->n_vocab, "copied block");
    rf_free(want);
    close_session(&s);
    rf_model_close(m);
}

/* A slot copied, read and written is as good as the one it came from, on the GPU and from there on the
 * CPU. */
static void test_state_slots(void **state) {
    (void)state;
    rf_model *m = open_model(rf_test_data("models/nemotron_h.gguf"));
    session_opts o = session_defaults();
    int32_t token[20];
    uint64_t seed = 52;
    random_tokens(token, 20, m->n_vocab, &seed);
    session s = open_on(&rf_gpu_ops, m, &o, false), cpu = open_on(&rf_cpu_ops, m, &o, false);
    float *want = logits_of(&cpu, token, 20, 20), *slot = rf_alloc(s.p->state_floats, sizeof *slot);
    uint8_t *block = rf_alloc(1, s.ops->kv_block_bytes(s.x));
    sequence q = {.token = token, .n = 20, .table = {9}, .state = 3};
    batch b;
    batch_clear(&b);
    batch_add(&b, &q, 19);
    (void)batch_run(&s, &b);
    assert_int_equal(s.ops->state_copy(s.x, 3, 5), RF_OK);
    assert_int_equal(s.ops->state_read(s.x, 5, slot), RF_OK);
    assert_int_equal(s.ops->kv_read(s.x, 9, block), RF_OK);
    q.done = 19;
    session *const goes_on[] = {&s, &cpu};
    for (size_t i = 0; i < RF_COUNT(goes_on); i++) {
        session *to = goes_on[i];
        uint32_t n = to->limits.n_states;
        assert_int_equal(to->ops->state_write(to->x, 7, slot), RF_OK);
        assert_int_equal(to->ops->kv_write(to->x, 9, block), RF_OK);
        assert_int_equal(to->ops->state_write(to->x, n, slot), RF_EARG);
        assert_int_equal(to->ops->state_read(to->x, n, slot), RF_EARG);
        assert_int_equal(to->ops->state_copy(to->x, n, 0), RF_EARG);
        assert_int_equal(to->ops->state_copy(to->x, 0, n), RF_EARG);
        q.state = 7;
        batch_clear(&b);
        batch_add(&b, &q, 1);
        batch_want(&b, 0);
        assert_same(batch_run(to, &b), want + (size_t)19 * m->n_vocab, m->n_vocab, "moved state");
    }
    rf_free(want);
    rf_free(slot);
    rf_free(block);
    close_session(&s);
    close_session(&cpu);
    rf_model_close(m);
}

/* Execs of one backend share the weights: the second takes no more memory for them. */
static void test_shared_weights(void **state) {
    (void)state;
    rf_model *m = open_model(rf_test_data("models/llama-gqa.gguf"));
    session_opts o = session_defaults();
    session a = open_on(&rf_gpu_ops, m, &o, false), b = a;
    rf_error e = {0};
    const rf_plan_opts embeddings = {.embeddings = true};
    must(rf_plan_build(&b.p, m, &embeddings, &e), &e);
    must(rf_gpu_ops.compile(&b.x, a.b, b.p, &o.limits, &e), &e);
    int32_t token[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    float *before = logits_of(&a, token, 8, 8);
    rf_gpu_ops.exec_free(a.x); /* b keeps them */
    b.n_vocab = m->n_embd;
    float *hidden = logits_of(&b, token, 8, 8);
    assert_true(isfinite(hidden[0]));
    must(rf_gpu_ops.compile(&a.x, a.b, a.p, &o.limits, &e), &e);
    float *after = logits_of(&a, token, 8, 3);
    assert_same(after, before, 8 * (size_t)m->n_vocab, "after sharing");
    rf_free(before);
    rf_free(hidden);
    rf_free(after);
    rf_gpu_ops.exec_free(b.x);
    rf_plan_free(b.p);
    close_session(&a);
    rf_model_close(m);
}

/* Floats that take more than one upload, whose last tile has fewer rows than the others. */
static void test_long_upload(void **state) {
    (void)state;
    enum { ROWS = 8230, COLS = 517 };
    rf_error e = {0};
    rf_backend *b = NULL;
    rf_gpu_weights w = {.n = 0};
    uint32_t number;
    uint64_t seed = 3;
    size_t n = (size_t)ROWS * COLS;
    float *x = rf_alloc(n, sizeof *x), *got = rf_alloc(n, sizeof *got);
    assert_true(x && got);
    for (size_t i = 0; i < n; i++)
        x[i] = rf_test_randf(&seed);
    const rf_tensor t = {.type = RF_DT_F32,
                         .cols = COLS,
                         .rows = ROWS,
                         .planes = 1,
                         .row_bytes = COLS * sizeof *x,
                         .data = x};
    must(rf_gpu_ops.open(&b, NULL, &e), &e);
    must(rf_gpu_weights_matrix(&w, &t, &number, &e), &e);
    must(rf_gpu_weights_load(&w, &b->weights, &b->queue, b->pool, &e), &e);
    rf_gpu_download(&b->queue, got, rf_gpu_weights_at(&w, number).lo, n * sizeof *x);
    rf_gpu_wait(&b->queue);
    assert_same(got, x, n, "uploaded floats");
    rf_gpu_weights_release(&w, &b->weights, &b->queue);
    rf_gpu_ops.close(b);
    rf_free(x);
    rf_free(got);
}

/* Errors -----------------------------------------------------------------------------------------*/

typedef struct limit_case {
    rf_limits limits;
    rf_status status;
    const char *text;
} limit_case;

static void test_limits(void **state) {
    (void)state;
    const rf_limits ok = session_defaults().limits;
    limit_case cases[6];
    for (size_t i = 0; i < RF_COUNT(cases); i++)
        cases[i].limits = ok;
    cases[0] = (limit_case){ok, RF_EARG, "max_tokens is 0"};
    cases[0].limits.max_tokens = 0;
    cases[1] = (limit_case){ok, RF_EARG, "max_seqs is 0"};
    cases[1].limits.max_seqs = 0;
    cases[2] = (limit_case){ok, RF_EARG, "n_kv_blocks is 0"};
    cases[2].limits.n_kv_blocks = 0;
    cases[3] = (limit_case){ok, RF_EUNSUPPORTED, "keys of type Q2_K, expected"};
    cases[3].limits.k_type = RF_DT_Q2_K;
    /* llama-gqa: 3 layers, 2 KV heads of 10 dimensions: 2560 bytes a block, layer, keys or values */
    cases[4] = (limit_case){ok, RF_ENOMEM, "KV cache 515396060160,"};
    cases[4].limits.n_kv_blocks = UINT32_MAX / RF_KV_BLOCK / 4;
    cases[5] = (limit_case){ok, RF_EARG, "KV blocks, expected at most"};
    cases[5].limits.n_kv_blocks = UINT32_MAX;
    rf_model *m = open_model(rf_test_data("models/llama-gqa.gguf"));
    session_opts o = session_defaults();
    session s = open_on(&rf_gpu_ops, m, &o, false);
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_error e = {0};
        rf_exec *x = s.x;
        assert_int_equal(rf_gpu_ops.compile(&x, s.b, s.p, &cases[i].limits, &e), cases[i].status);
        assert_null(x);
        if (!strstr(e.text, cases[i].text)) fail_msg("\"%s\" lacks %s", e.text, cases[i].text);
    }
    int32_t token[4] = {1, 2, 3, 4}; /* and the backend still works */
    float *logits = logits_of(&s, token, 4, 4);
    assert_true(isfinite(logits[0]));
    rf_free(logits);
    close_session(&s);
    rf_model_close(m);
}

static void test_misuse(void **state) {
    (void)state;
    rf_model *m = open_model(rf_test_data("models/llama-gqa.gguf"));
    session_opts o = session_defaults();
    session s = open_on(&rf_gpu_ops, m, &o, false);
    rf_error e = {0};
    rf_backend *other = NULL;
    const float *logits;
    float out[1];
    int32_t token[2] = {1, 2};
    sequence q = {.token = token, .n = 2, .table = {3}};
    batch b;
    assert_int_equal(s.ops->wait(s.x, &logits), RF_EARG); /* nothing has run */
    batch_clear(&b);
    batch_add(&b, &q, 2);
    b.token[1] = (int32_t)m->n_vocab;
    assert_int_equal(s.ops->run(s.x, &b.b, &e), RF_EARG);
    assert_non_null(strstr(e.text, "row 1"));
    b.token[1] = 2;
    (void)batch_run(&s, &b);
    assert_int_equal(s.ops->peek(s.x, s.p->result, out, 1), RF_EARG); /* values were not kept */
    assert_int_equal(s.ops->kv_copy(s.x, 0, s.limits.n_kv_blocks), RF_EARG);
    assert_int_equal(s.ops->kv_copy(s.x, s.limits.n_kv_blocks, 0), RF_EARG);
    assert_int_equal(s.ops->kv_copy(s.x, 3, 3), RF_OK);
    assert_true(s.ops->exec_bytes(s.x) > 0);
    char text[100];
    s.ops->describe(s.b, text, sizeof text);
    assert_non_null(strstr(text, "gpu 0: "));
    const rf_backend_opts far = {.n_threads = 1, .device = 99};
    e = (rf_error){0};
    assert_int_equal(rf_gpu_ops.open(&other, &far, &e), RF_EARG);
    assert_non_null(strstr(e.text, "no GPU number 99"));
    assert_null(other);
    close_session(&s);
    rf_gpu_ops.close(NULL);
    rf_gpu_ops.exec_free(NULL);
    rf_model_close(m);
}

/* Each allocation, on host and device, of open and compile fails once: an error, no leak, no crash. */
static void test_failure_walk(void **state) {
    (void)state;
    rf_model *m = open_model(rf_test_data("models/qwen3moe-quant.gguf"));
    rf_error e = {0};
    rf_plan *p = NULL;
    must(rf_plan_build(&p, m, NULL, &e), &e);
    const rf_limits limits = session_defaults().limits;
    const rf_backend_opts bo = {.n_threads = 2};
    long n = 1;
    /* An emulated device takes seconds to open. */
    for (bool failed = true; failed; n += is_small ? 1 + n / 2 : 1) {
        rf_backend *b = NULL;
        rf_exec *x = NULL;
        e = (rf_error){0};
        rf_alloc_fail_nth(n);
        rf_status s = rf_gpu_ops.open(&b, &bo, &e);
        if (s == RF_OK) s = rf_gpu_ops.compile(&x, b, p, &limits, &e);
        rf_alloc_fail_nth(0);
        failed = s != RF_OK;
        if (failed) {
            assert_true(e.text[0] != '\0');
            assert_null(x);
        }
        rf_gpu_ops.exec_free(x);
        rf_gpu_ops.close(b);
    }
    assert_true(n > 10);
    rf_plan_free(p);
    rf_model_close(m);
}

/* The next n tokens of q on the device, logits of the last; a failure is given back. */
static rf_status run_some(session *s, sequence *q, uint32_t n, const float **logits, rf_error *e) {
    batch b;
    batch_clear(&b);
    batch_add(&b, q, n);
    batch_want(&b, n - 1);
    rf_status status = s->ops->run(s->x, &b.b, e);
    if (status == RF_OK) status = s->ops->wait(s->x, logits);
    return status;
}

static void fail_next(bool by_waiting) {
    if (by_waiting)
        rf_faulty_wait(1, 1);
    else
        rf_faulty_launch(7, 1);
}

/* req: C-12: a launch or a wait that fails is an error with the driver's words, in this run and later
 * ones; revived, the device computes as before, and so does every exec on it */
static void test_faults(void **state) {
    (void)state;
    rf_model *m = open_model(rf_test_data("models/llama-gqa.gguf"));
    session_opts o = session_defaults();
    session s = open_on(&rf_gpu_ops, m, &o, false), second = s;
    rf_error e = {0};
    must(rf_gpu_ops.compile(&second.x, s.b, s.p, &o.limits, &e), &e);
    int32_t token[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    float *want = logits_of(&s, token, 8, 8);
    for (int by_waiting = 0; by_waiting < 2; by_waiting++) {
        const float *logits = NULL;
        sequence q = {.token = token, .n = 8, .table = {3}};
        e = (rf_error){0};
        fail_next(by_waiting);
        assert_int_equal(run_some(&s, &q, 4, &logits, &e), RF_EDEVICE);
        e = (rf_error){0};
        assert_int_equal(run_some(&s, &q, 4, &logits, &e), RF_EDEVICE);
        assert_non_null(strstr(e.text, by_waiting ? "was queued failed" : "launching rf_"));
        rf_error fault = {0};
        must(s.ops->revive(s.b, &fault), &fault);
        assert_string_equal(fault.text, e.text);
        float *got = logits_of(&s, token, 8, 3), *other = logits_of(&second, token, 8, 8);
        assert_same(got, want, (size_t)8 * m->n_vocab, "revived");
        assert_same(other, want, (size_t)8 * m->n_vocab, "the other exec, revived");
        rf_free(got);
        rf_free(other);
    }
    rf_free(want);
    rf_gpu_ops.exec_free(second.x);
    close_session(&s);
    rf_model_close(m);
}

/* A device that does not come back fails every run, and may come back later. */
static void test_lost(void **state) {
    (void)state;
    rf_model *m = open_model(rf_test_data("models/llama-gqa.gguf"));
    session_opts o = session_defaults();
    session s = open_on(&rf_gpu_ops, m, &o, false);
    int32_t token[4] = {1, 2, 3, 4};
    float *want = logits_of(&s, token, 4, 4);
    const float *logits = NULL;
    sequence q = {.token = token, .n = 4, .table = {3}};
    rf_error e = {0}, fault = {0};
    uint8_t block[1 << 14];
    rf_faulty_launch(2, 1);
    rf_faulty_lose(true);
    assert_int_equal(run_some(&s, &q, 4, &logits, &e), RF_EDEVICE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(s.ops->revive(s.b, &fault), RF_EDEVICE);
        assert_int_equal(run_some(&s, &q, 4, &logits, &e), RF_EDEVICE);
        assert_int_equal(s.ops->kv_copy(s.x, 0, 1), RF_EDEVICE);
        assert_true(s.ops->kv_block_bytes(s.x) <= sizeof block);
        assert_int_equal(s.ops->kv_read(s.x, 0, block), RF_EDEVICE);
    }
    rf_faulty_lose(false);
    assert_int_equal(s.ops->revive(s.b, &fault), RF_OK);
    float *got = logits_of(&s, token, 4, 4);
    assert_same(got, want, (size_t)4 * m->n_vocab, "back again");
    rf_free(got);
    rf_free(want);
    close_session(&s);
    rf_model_close(m);
}

/* Each allocation while a device comes back fails once: an error, and the next attempt may do. */
static void test_revive_walk(void **state) {
    (void)state;
    rf_model *m = open_model(rf_test_data("models/llama-gqa.gguf"));
    session_opts o = session_defaults();
    session s = open_on(&rf_gpu_ops, m, &o, false);
    int32_t token[4] = {1, 2, 3, 4};
    float *want = logits_of(&s, token, 4, 4);
    long n = 1;
    for (bool failed = true; failed; n += is_small ? 1 + n : 1) {
        sequence q = {.token = token, .n = 4, .table = {3}};
        const float *logits;
        rf_error e = {0}, fault = {0};
        rf_faulty_launch(2, 1);
        assert_int_equal(run_some(&s, &q, 4, &logits, &e), RF_EDEVICE);
        rf_faulty_launch(0, 0);
        rf_alloc_fail_nth(n);
        failed = s.ops->revive(s.b, &fault) != RF_OK;
        rf_alloc_fail_nth(0);
        if (failed) assert_int_equal(run_some(&s, &q, 4, &logits, &e), RF_EDEVICE);
    }
    assert_true(n > 5);
    float *got = logits_of(&s, token, 4, 4);
    assert_same(got, want, (size_t)4 * m->n_vocab, "after many attempts");
    rf_free(got);
    rf_free(want);
    close_session(&s);
    rf_model_close(m);
}

/* Steps of many rows, with so much of the memory that is left for what is kept of weights. */
static session_opts keeping_opts(uint32_t spare_percent) {
    session_opts o = session_defaults();
    o.limits.max_tokens = 256;
    o.spare_percent = spare_percent;
    return o;
}

/* Digits of weights that stay on a device with Hopper's kernels: in a part of its memory, the same results, also after a
 * fault. */
static void test_kept(void **state) {
    (void)state;
    if (getenv("RF_GPU_LIBRARY")) skip(); /* another device */
    enum { N = 90 };
    assert_int_equal(setenv("RF_HOST_ARCH", "host-hopper", 1), 0);
    rf_model *m = open_model(zoo_write());
    session_opts o = keeping_opts(0);
    session fresh = open_on(&rf_gpu_ops, m, &o, false);
    o = keeping_opts(50);
    session kept = open_on(&rf_gpu_ops, m, &o, false);
    assert_int_equal(fresh.x->kept_bytes, 0);
    size_t n_bytes = kept.x->kept_bytes, n = (size_t)N * m->n_vocab;
    assert_true(n_bytes > 0);
    assert_int_equal(rf_gpu_ops.exec_bytes(kept.x), rf_gpu_ops.exec_bytes(fresh.x) + n_bytes);
    int32_t token[N];
    uint64_t seed = 5;
    random_tokens(token, N, m->n_vocab, &seed);
    float *want = logits_of(&fresh, token, N, N);
    assert_false(fresh.b->queue.launched[RF_GPU_ahead_scales]);
    assert_false(fresh.b->queue.launched[RF_GPU_wide_32_kept]);
    for (int round = 0; round < 2; round++) {
        memset(kept.b->queue.launched, 0, sizeof kept.b->queue.launched);
        float *got = logits_of(&kept, token, N, N);
        assert_true(kept.b->queue.launched[RF_GPU_ahead_scales]);
        assert_true(kept.b->queue.launched[RF_GPU_wide_32_kept]);
        assert_same(got, want, n, round ? "digits that were made again" : "digits that were kept");
        rf_free(got);
        const float *logits = NULL;
        sequence q = {.token = token, .n = 8, .table = {3}};
        rf_error e = {0}, fault = {0};
        fail_next(round);
        assert_int_equal(run_some(&kept, &q, 4, &logits, &e), RF_EDEVICE);
        must(kept.ops->revive(kept.b, &fault), &fault);
        assert_int_equal(kept.x->kept_bytes, n_bytes);
    }
    kept.b->spare_percent = 0; /* what others took since */
    rf_error fault = {0};
    kept.b->queue.error = (rf_error){.status = RF_EDEVICE};
    must(kept.ops->revive(kept.b, &fault), &fault);
    assert_int_equal(kept.x->kept_bytes, 0);
    float *got = logits_of(&kept, token, N, N);
    assert_same(got, want, n, "digits that were given up");
    rf_free(got);
    rf_free(want);
    close_session(&fresh);
    close_session(&kept);
    rf_model_close(m);
    assert_int_equal(unsetenv("RF_HOST_ARCH"), 0);
}

static uint32_t n_keeping(const session *s) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->x->n_tasks; i++)
        n += s->x->tasks[i].keeps;
    return n;
}

/* A matrix in Q8_0 of some layer, with data of its own (free with rf_free) and without -128. */
static rf_tensor *own_q8_0(const rf_model *m) {
    for (uint32_t i = 0; i < m->n_layers; i++) {
        const rf_layer *l = &m->layers[i];
        const rf_tensor *w[] = {l->wq, l->wk, l->wv, l->wo, l->gate, l->up, l->down};
        for (size_t k = 0; k < RF_COUNT(w); k++)
            if (w[k] && w[k]->type == RF_DT_Q8_0) {
                rf_tensor *found = (rf_tensor *)(uintptr_t)w[k];
                size_t n = found->rows * found->row_bytes;
                uint8_t *data = rf_alloc(n, 1);
                assert_non_null(data);
                memcpy(data, found->data, n);
                without_128(data, n);
                found->data = data;
                return found;
            }
    }
    fail_msg("no matrix in Q8_0");
    return NULL;
}

/* A weight of -128 has no room there: its product, and no other, goes without what is kept. */
static void test_unfit(void **state) {
    (void)state;
    if (getenv("RF_GPU_LIBRARY")) skip(); /* another device */
    enum { N = 90 };
    assert_int_equal(setenv("RF_HOST_ARCH", "host-hopper", 1), 0);
    rf_model *m = open_model(zoo_write());
    const session_opts o = keeping_opts(50);
    uint8_t *data = (uint8_t *)(uintptr_t)own_q8_0(m)->data;
    session s = open_on(&rf_gpu_ops, m, &o, false);
    uint32_t n_kept = n_keeping(&s);
    close_session(&s);
    data[2] = 128; /* behind the block's scale */
    s = open_on(&rf_gpu_ops, m, &o, false);
    assert_int_equal(n_keeping(&s), n_kept - 1);
    session cpu = open_session(m, &o);
    int32_t token[N];
    uint64_t seed = 5;
    random_tokens(token, N, m->n_vocab, &seed);
    float *want = logits_of(&cpu, token, N, N), *got = logits_of(&s, token, N, N);
    assert_same(got, want, (size_t)N * m->n_vocab, "one that does not fit");
    rf_free(want);
    rf_free(got);
    close_session(&cpu);
    close_session(&s);
    rf_model_close(m);
    rf_free(data);
    assert_int_equal(unsetenv("RF_HOST_ARCH"), 0);
}

int main(void) {
    const rf_gpu_driver *driver = rf_host_gpu();
    rf_error e = {0};
    is_small = getenv("RF_TEST_SMALL") != NULL;
    /* What self-tests of this user found is not asked for. */
    if (setenv("XDG_CACHE_HOME", "/dev/null", 1) != 0) return 1;
    if (getenv("RF_GPU_LIBRARY") && rf_gpu_driver_get(&driver, &e) != RF_OK) {
        print_error("%s\n", e.text);
        return 1;
    }
    rf_gpu_driver_set(rf_faulty_gpu(driver));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures),    cmocka_unit_test(test_formats),
        cmocka_unit_test(test_patterns),    cmocka_unit_test(test_random_plans),
        cmocka_unit_test(test_chunks),      cmocka_unit_test(test_kv_copy),
        cmocka_unit_test(test_launches),    cmocka_unit_test(test_choice),
        cmocka_unit_test(test_state_slots), cmocka_unit_test(test_shared_weights),
        cmocka_unit_test(test_long_upload), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_misuse),      cmocka_unit_test(test_failure_walk),
        cmocka_unit_test(test_faults),      cmocka_unit_test(test_lost),
        cmocka_unit_test(test_revive_walk), cmocka_unit_test(test_kept),
        cmocka_unit_test(test_unfit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
