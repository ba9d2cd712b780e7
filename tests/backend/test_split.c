/* test_split.c - models cut into stages: every architecture at every layer on the CPU, and the split
 * backend over GPUs (this processor, with the GPU's kernels on it) and the CPU: equal bits with the
 * whole model on the CPU, exact memory, refusals. */
#include "backend/split.h"

#include <glob.h>
#include <stdio.h>

#include "backend/session.h"
#include "gpuemu/host/host.h"
#include "gpuemu/host/several.h"

enum { N_TOKENS = 21 };

static void assert_same(const float *got, const float *want, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("%s: number %zu is %.9g, expected %.9g", what, i, (double)got[i],
                     (double)want[i]);
}

static void make_tokens(int32_t *token, const rf_model *m) {
    uint64_t seed = 61;
    random_tokens(token, N_TOKENS, m->n_vocab, &seed);
}

/* Stages by hand ---------------------------------------------------------------------------------*/

static session open_range(const rf_backend_ops *ops, const rf_model *m, uint32_t first,
                          uint32_t n) {
    const session_opts o = session_defaults();
    session s = {.ops = ops, .limits = o.limits};
    rf_error e = {0};
    const rf_plan_opts po = {.first_layer = first, .n_layers = n};
    const rf_backend_opts bo = {.n_threads = 1};
    must(rf_plan_build(&s.p, m, &po, &e), &e);
    must(ops->open(&s.b, &bo, &e), &e);
    must(ops->compile(&s.x, s.b, s.p, &s.limits, &e), &e);
    s.n_vocab = s.p->n_result;
    return s;
}

/* The first stage's rows of a batch into the second. */
static void compare_cut(const rf_backend_ops *ops, const rf_model *m, uint32_t cut,
                        const int32_t *token, const float *want, const char *name) {
    session a = open_range(ops, m, 0, cut), b = open_range(ops, m, cut, 0);
    float *rows = logits_of(&a, token, N_TOKENS, N_TOKENS);
    assert_int_equal(a.p->n_result, m->n_embd);
    assert_int_equal(b.p->n_result, m->n_vocab);
    sequence q = {.token = token, .n = N_TOKENS};
    for (q.done = 0; q.done < N_TOKENS; q.done += 7) {
        batch part;
        batch_clear(&part);
        batch_add(&part, &q, 7);
        batch_want_all(&part);
        rf_error e = {0};
        assert_int_equal(ops->run(b.x, &part.b, &e), RF_EARG);
        assert_non_null(strstr(e.text, "batch has no rows"));
        part.b.rows = rows + (size_t)q.done * m->n_embd;
        assert_same(batch_run(&b, &part), want + (size_t)q.done * m->n_vocab,
                    (size_t)7 * m->n_vocab, name);
    }
    rf_free(rows);
    close_session(&a);
    close_session(&b);
}

static uint32_t compare_cuts(const rf_backend_ops *ops, const char *path) {
    rf_model *m = open_model(path);
    int32_t token[N_TOKENS];
    uint32_t n = m->arch->encoder ? 0 : m->n_layers - 1;
    make_tokens(token, m);
    if (n) {
        session whole = open_range(ops, m, 0, 0);
        float *want = logits_of(&whole, token, N_TOKENS, N_TOKENS);
        for (uint32_t cut = 1; cut <= n; cut++)
            compare_cut(ops, m, cut, token, want, strrchr(path, '/') + 1);
        rf_free(want);
        close_session(&whole);
    }
    rf_model_close(m);
    return n;
}

/* req: B-11, B-12: a model cut anywhere computes the same */
static void test_cuts(void **state) {
    (void)state;
    glob_t files;
    char pattern[600];
    uint32_t n_cuts = 0;
    snprintf(pattern, sizeof pattern, "%s/models/*.gguf", rf_test_data(""));
    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++)
        n_cuts += compare_cuts(&rf_cpu_ops, files.gl_pathv[i]);
    assert_true(n_cuts > 60);
    globfree(&files);
    assert_true(compare_cuts(&rf_ref_ops, rf_test_data("models/llama-gqa.gguf")) > 0);
    rf_gpu_driver_set(rf_host_gpu());
    assert_true(compare_cuts(&rf_gpu_ops, rf_test_data("models/deepseek2-lite.gguf")) > 0);
}

static void test_ranges(void **state) {
    (void)state;
    rf_model *m = open_model(rf_test_data("models/llama-gqa.gguf"));
    rf_plan *p;
    rf_error e = {0};
    const rf_plan_opts bad[] = {{.first_layer = m->n_layers},
                                {.first_layer = UINT32_MAX, .n_layers = 2},
                                {.first_layer = 1, .n_layers = m->n_layers},
                                {.n_layers = m->n_layers + 1}};
    for (size_t i = 0; i < RF_COUNT(bad); i++) {
        assert_int_equal(rf_plan_build(&p, m, &bad[i], &e), RF_EARG);
        assert_null(p);
    }
    rf_model_close(m);
    m = open_model(rf_test_data("models/modern-bert.gguf"));
    const rf_plan_opts half = {.embeddings = true, .n_layers = 1};
    assert_int_equal(rf_plan_build(&p, m, &half, &e), RF_EUNSUPPORTED);
    rf_model_close(m);
}

/* The split backend ------------------------------------------------------------------------------*/

static session open_split(const rf_model *m, const rf_backend_opts *bo) {
    const session_opts o = session_defaults();
    session s = {.ops = &rf_split_ops, .limits = o.limits, .n_vocab = m->n_vocab};
    rf_error e = {0};
    must(rf_plan_build(&s.p, m, NULL, &e), &e);
    must(rf_split_ops.open(&s.b, bo, &e), &e);
    must(rf_split_ops.compile(&s.x, s.b, s.p, &s.limits, &e), &e);
    return s;
}

static uint64_t total_of(const rf_need *n) { return n->weights + n->kv + n->values + n->other; }

/* Every stage takes what it was counted to take, and the logits are those of the CPU in chunks. */
static void check_split(const rf_model *m, const rf_backend_opts *bo, const char *text) {
    session s = open_split(m, bo), cpu = open_range(&rf_cpu_ops, m, 0, 0);
    int32_t token[N_TOKENS];
    char what[600];
    size_t bytes = 0;
    make_tokens(token, m);
    float *want = logits_of(&cpu, token, N_TOKENS, N_TOKENS);
    for (uint32_t chunk = 1; chunk <= N_TOKENS; chunk *= 7) {
        float *got = logits_of(&s, token, N_TOKENS, chunk);
        assert_same(got, want, (size_t)N_TOKENS * m->n_vocab, text);
        rf_free(got);
    }
    rf_split_ops.describe(s.b, what, sizeof what);
    assert_string_equal(what, text);
    for (size_t cap = 1; cap < strlen(text); cap += 9) {
        rf_split_ops.describe(s.b, what, cap);
        assert_int_equal(strlen(what), cap - 1);
    }
    const rf_split *split = rf_split_of(s.x);
    for (uint32_t i = 0; i < split->n; i++) {
        const rf_split_stage *st = &split->stage[i];
        if (st->device != RF_CPU_STAGE)
            assert_int_equal(rf_several_taken(st->device), total_of(&st->need));
        bytes += total_of(&st->need) - st->need.weights + st->need.host;
    }
    assert_int_equal(bytes, rf_split_ops.exec_bytes(s.x));
    assert_int_equal(rf_split_ops.kv_block_bytes(s.x), rf_cpu_ops.kv_block_bytes(cpu.x));
    rf_free(want);
    close_session(&s);
    close_session(&cpu);
    for (int i = 0; i < RF_SEVERAL_MAX; i++)
        assert_int_equal(rf_several_taken(i), 0);
}

#define GPU(n) "gpu " n ": kernels on this processor (host), 0.1 GB"

/* req: B-11: on a GPU and the CPU, on several GPUs, on all of them */
static void test_split(void **state) {
    (void)state;
    const size_t room[] = {100000000, 50000000, 100000000};
    rf_gpu_driver_set(rf_several_gpus(rf_host_gpu(), 3, room));
    rf_model *m = open_model(rf_test_data("models/qwen3.gguf"));
    char cpu[60], text[400];
    rf_backend *b = NULL;
    rf_error e = {0};
    const rf_backend_opts one = {.n_threads = 1, .device = 2, .gpu_layers = 1};
    must(rf_cpu_ops.open(&b, &one, &e), &e);
    rf_cpu_ops.describe(b, cpu, sizeof cpu);
    rf_cpu_ops.close(b);
    assert_int_equal(m->n_layers, 2);
    snprintf(text, sizeof text, "layers 0-0 on %s; layers 1-1 on " GPU("2"), cpu);
    check_split(m, &one, text);
    const rf_backend_opts two = {
        .n_threads = 1, .n_devices = 2, .devices = {2, 0}, .gpu_only = true};
    check_split(m, &two, "layers 0-0 on " GPU("2") "; layers 1-1 on " GPU("0"));
    const rf_backend_opts all = {.n_threads = 1, .gpu_layers = 99};
    check_split(m, &all, "layers 0-1 on " GPU("0"));
    rf_model_close(m);
}

/* KV blocks of a split are those of the whole. */
static void test_blocks(void **state) {
    (void)state;
    const size_t room[] = {100000000};
    rf_gpu_driver_set(rf_several_gpus(rf_host_gpu(), 1, room));
    rf_model *m = open_model(rf_test_data("models/deepseek2-lite.gguf"));
    const rf_backend_opts bo = {.n_threads = 1, .gpu_layers = 1};
    session s = open_split(m, &bo), cpu = open_range(&rf_cpu_ops, m, 0, 0);
    int32_t token[N_TOKENS];
    make_tokens(token, m);
    float *want = logits_of(&cpu, token, N_TOKENS, N_TOKENS);
    rf_free(logits_of(&s, token, N_TOKENS, N_TOKENS));
    size_t n = rf_split_ops.kv_block_bytes(s.x);
    uint8_t *a = rf_alloc(n, 1), *b = rf_alloc(n, 1);
    assert_true(a && b);
    assert_int_equal(rf_split_ops.kv_read(s.x, 0, a), RF_OK);
    assert_int_equal(rf_cpu_ops.kv_read(cpu.x, 0, b), RF_OK);
    assert_string_equal(rf_split_ops.kv_layout, rf_cpu_ops.kv_layout);
    assert_int_equal(rf_split_ops.kv_write(s.x, 7, b), RF_OK);
    assert_int_equal(rf_split_ops.kv_copy(s.x, 7, 9), RF_OK);
    assert_int_equal(rf_split_ops.kv_read(s.x, 99, a), RF_EARG);
    assert_int_equal(rf_split_ops.kv_write(s.x, 99, a), RF_EARG);
    assert_int_equal(rf_split_ops.kv_copy(s.x, 0, 99), RF_EARG);
    sequence q = {.token = token, .n = N_TOKENS, .done = N_TOKENS - 1, .table = {9}};
    batch last;
    batch_clear(&last);
    batch_add(&last, &q, 1);
    batch_want(&last, 0);
    assert_same(batch_run(&s, &last), want + (size_t)(N_TOKENS - 1) * m->n_vocab, m->n_vocab,
                "from the CPU's block");
    rf_free(a);
    rf_free(b);
    rf_free(want);
    close_session(&s);
    close_session(&cpu);
    rf_model_close(m);
}

/* Where layers go --------------------------------------------------------------------------------*/

typedef struct where {
    rf_model *m;
    rf_plan *p;
    rf_limits limits;
} where;

static where where_of(const char *fixture, bool keep_values) {
    where w = {.m = open_model(rf_test_data(fixture)), .limits = session_defaults().limits};
    const rf_plan_opts po = {.embeddings = w.m->arch->encoder, .keep_values = keep_values};
    rf_error e = {0};
    must(rf_plan_build(&w.p, w.m, &po, &e), &e);
    return w;
}

static void close_where(where *w) {
    rf_plan_free(w->p);
    rf_model_close(w->m);
}

static void refuse(const where *w, const rf_backend_opts *o, uint64_t room, rf_status status,
                   const char *text) {
    const uint64_t rooms[RF_MAX_DEVICES] = {room, room, room};
    rf_split s;
    rf_error e = {0};
    assert_int_equal(rf_split_place(&s, w->p, &w->limits, o, rooms, &e), status);
    if (!strstr(e.text, text)) fail_msg("\"%s\" lacks \"%s\"", e.text, text);
}

/* req: C-15: with any room, what fits is placed, it fits, and one more layer would not */
static void test_place(void **state) {
    (void)state;
    where w = where_of("models/gemma3.gguf", false);
    rf_error e = {0};
    rf_backend_opts o = {.n_threads = 1, .n_devices = 1};
    uint64_t room = 1 << 30;
    uint32_t n_before = w.m->n_layers + 1;
    while (room > 0) { /* shrinks to just below what was taken */
        rf_split s;
        rf_status status = rf_split_place(&s, w.p, &w.limits, &o, &room, &e);
        if (status == RF_ENOMEM) break;
        assert_int_equal(status, RF_OK);
        const rf_split_stage *gpu = &s.stage[s.n - 1];
        assert_true(gpu->device == 0 && gpu->n_layers == n_before - 1);
        assert_int_equal(gpu->first_layer, w.m->n_layers - gpu->n_layers);
        assert_int_equal(s.n, gpu->first_layer ? 2 : 1);
        if (s.n == 2) assert_true(s.stage[0].device == RF_CPU_STAGE);
        if (s.n == 2) assert_int_equal(s.stage[0].n_layers, gpu->first_layer);
        assert_true(total_of(&gpu->need) <= room - room / 50);
        room = total_of(&gpu->need);
        n_before = gpu->n_layers;
    }
    assert_int_equal(n_before, 1);
    refuse(&w, &o, room, RF_ENOMEM, "0 fit into the");
    o.gpu_layers = 1;
    refuse(&w, &o, room, RF_ENOMEM, "1 are to be there");
    o = (rf_backend_opts){.n_threads = 1, .n_devices = 2, .gpu_only = true, .devices = {0, 1}};
    refuse(&w, &o, 0, RF_ENOMEM, "free on 2 GPUs");
    close_where(&w);
}

/* In proportion to the room where that fits. */
static void test_shares(void **state) {
    (void)state;
    where w = where_of("models/gemma3.gguf", false);
    const rf_backend_opts o = {.n_threads = 1, .n_devices = 3, .devices = {4, 1, 3}};
    const uint64_t room[] = {(uint64_t)1 << 33, (uint64_t)1 << 34, (uint64_t)1 << 33};
    rf_error e = {0};
    rf_split s;
    uint32_t n = w.m->n_layers, end = 0;
    must(rf_split_place(&s, w.p, &w.limits, &o, room, &e), &e);
    for (uint32_t i = 0; i < s.n; i++) {
        assert_int_equal(s.stage[i].first_layer, end);
        end += s.stage[i].n_layers;
        uint32_t part = s.stage[i].device == 1 ? 2 : 1;
        assert_true(4 * s.stage[i].n_layers <= part * n + 4 &&
                    4 * s.stage[i].n_layers + 4 >= part * n);
    }
    assert_int_equal(end, n);
    close_where(&w);
}

static void test_refusals(void **state) {
    (void)state;
    const size_t room[] = {100000000, 100000000};
    const rf_backend_opts o = {.n_threads = 1, .n_devices = 1, .gpu_layers = 1};
    where w = where_of("models/modern-bert.gguf", false);
    refuse(&w, &o, 1 << 30, RF_EUNSUPPORTED, "encoders, which are not split");
    close_where(&w);
    w = where_of("models/llama-gqa.gguf", true);
    refuse(&w, &o, 1 << 30, RF_EUNSUPPORTED, "activations can be looked at on one device only");
    close_where(&w);
    rf_gpu_driver_set(rf_several_gpus(rf_host_gpu(), 2, room));
    rf_backend *b;
    rf_error e = {0};
    const rf_backend_opts twice = {.n_devices = 2, .devices = {1, 1}},
                          none = {.n_devices = 2, .devices = {1, 2}};
    assert_int_equal(rf_split_ops.open(&b, &twice, &e), RF_EARG);
    assert_non_null(strstr(e.text, "GPU 1 is named twice"));
    e = (rf_error){.status = RF_OK};
    assert_int_equal(rf_split_ops.open(&b, &none, &e), RF_EARG);
    assert_non_null(strstr(e.text, "there is no GPU number 2"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),    cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_split),   cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_place),   cmocka_unit_test(test_shares),
        cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
