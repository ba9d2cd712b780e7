/* test_split.c - requests in an engine whose layers are split between GPUs and the CPU: each gets what it
 * gets alone on the CPU, whatever happens to the devices; what runs where is told, and never silent.
 * The devices are this processor, with the GPU's kernels on it. */
#include "base/log.h"
#include "engine/harness.h"
#include "gpuemu/host/faulty.h"
#include "gpuemu/host/host.h"
#include "gpuemu/host/several.h"

enum { N_REQUESTS = 4, SHARED = 33, LAST = N_REQUESTS - 1, N_VOCAB = 128, MOST = 17 };

static int32_t prompts[N_REQUESTS][MAX_PROMPT];
static size_t lengths[N_REQUESTS];
static record alone[N_REQUESTS], crowd[N_REQUESTS];
static char model_path[4096];
static const size_t plenty[] = {1 << 30, 1 << 29, 1 << 30};

static rf_request_opts opts_of(int i, record *r) {
    *r = (record){0};
    rf_request_opts o = request_of(prompts[i], lengths[i], 2 + i / 2, r);
    if (i % 2) o.sampling = rf_sampling_default();
    o.sampling.seed = (uint64_t)i;
    return o;
}

/* Prompts, the last two of which share a start, and what each gets alone on the CPU. */
static void make_requests(const char *fixture) {
    static const size_t length[N_REQUESTS] = {5, 11, SHARED + 1, SHARED + 3};
    uint64_t noise = 17;
    snprintf(model_path, sizeof model_path, "%s", rf_test_data(fixture));
    rf_engine *en = open_engine((rf_engine_opts){.model_path = model_path});
    for (int i = 0; i < N_REQUESTS; i++) {
        lengths[i] = length[i];
        random_tokens(&noise, prompts[i], SHARED + 7, N_VOCAB);
        if (i == LAST) memcpy(prompts[i], prompts[i - 1], SHARED * sizeof prompts[i][0]);
        rf_request_opts o = opts_of(i, &alone[i]);
        o.prefix_salt = (uint64_t)i; /* nothing from another one's cache */
        run_request(en, &o);
    }
    rf_engine_close(en);
}

static void submit_all(rf_engine *en) {
    for (int i = 0; i < N_REQUESTS; i++) {
        rf_request_opts o = opts_of(i, &crowd[i]);
        submit(en, &o);
    }
}

static void check_answers(void) {
    for (int i = 0; i < N_REQUESTS; i++)
        assert_same_answer(&crowd[i], &alone[i]);
}

/* All at once, more often with prompts from the cache. */
static void check_requests(rf_engine *en, int n_rounds) {
    for (int round = 0; round < n_rounds; round++) {
        submit_all(en);
        run_all(en);
        check_answers();
        if (round > 0) assert_true(crowd[LAST].n_cached > 0);
    }
    assert_all_blocks_free(en);
}

/* "cpu 1, gpu 2 1": who has how many layers. */
static void assert_stages(const rf_engine *en, const char *want) {
    rf_stage s[MOST];
    rf_engine_info info;
    char got[200] = "";
    size_t n = rf_engine_stages(en, s, MOST), at = 0;
    uint32_t end = 0;
    uint64_t weights = 0;
    rf_engine_get_info(en, &info);
    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(got + at, sizeof got - at,
                               s[i].on_gpu ? "%sgpu %u %u" : "%scpu%.0u %u", i ? ", " : "",
                               s[i].device, s[i].n_layers);
        assert_int_equal(s[i].first_layer, end);
        assert_int_equal(s[i].total, s[i].weights + s[i].kv + s[i].activations + s[i].other);
        end += s[i].n_layers;
        weights += s[i].weights;
    }
    assert_string_equal(got, want);
    assert_int_equal(end, info.n_layers);
    assert_true(weights > 0);
}

static rf_engine_opts split_opts(const char *devices, uint32_t gpu_layers) {
    return (rf_engine_opts){.model_path = model_path,
                            .backend = "auto",
                            .devices = devices,
                            .gpu_layers = gpu_layers,
                            .max_seqs = 3,
                            .batch_tokens = 24};
}

/* req: B-11, B-12: the tokens of the CPU, however the layers are spread */
static void test_requests(void **state) {
    (void)state;
    static const struct {
        const char *devices;
        uint32_t gpu_layers;
        const char *stages;
    } cases[] = {{NULL, 1, "cpu 1, gpu 0 1"},
                 {"2", 1, "cpu 1, gpu 2 1"},
                 {"2,0", 0, "gpu 2 1, gpu 0 1"},
                 {"0,1,2", 2, "gpu 0 1, gpu 2 1"}};
    rf_gpu_driver_set(rf_several_gpus(rf_host_gpu(), 3, plenty));
    make_requests("models/deepseek2-lite.gguf");
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_engine *en = open_engine(split_opts(cases[i].devices, cases[i].gpu_layers));
        assert_stages(en, cases[i].stages);
        check_requests(en, i ? 1 : 2);
        rf_engine_close(en);
        for (int d = 0; d < 3; d++)
            assert_int_equal(rf_several_taken(d), 0);
    }
}

/* What several devices would have is what they get, to the byte; a device that has room for one layer gets
 * one, by itself with "auto", and never with "gpu", unless more devices make up for it. */
static void test_memory(void **state) {
    (void)state;
    make_requests("models/qwen3.gguf");
    rf_stage s[MOST], again[MOST];
    rf_text why;
    size_t n;
    uint64_t room = 1 << 30;
    rf_engine_opts o = split_opts(NULL, 1);
    rf_engine *en,
        *meter = open_engine((rf_engine_opts){.model_path = model_path, .measure_only = true});
    assert_int_equal(rf_engine_place(meter, &o, &room, s, MOST, &n, &why), ROCMFORGE_OK);
    assert_int_equal(n, 2);
    room = s[1].total + s[1].total / 20; /* one layer, no more */
    o.gpu_layers = 0;
    assert_int_equal(rf_engine_place(meter, &o, &room, again, MOST, &n, &why), ROCMFORGE_OK);
    assert_int_equal(n, 2);
    assert_int_equal(again[1].first_layer, 1);
    assert_int_equal(again[1].total, s[1].total);
    const size_t rooms[] = {(size_t)room, (size_t)room};
    rf_gpu_driver_set(rf_several_gpus(rf_host_gpu(), 2, rooms));
    assert_int_equal(rf_engine_place(meter, &o, NULL, again, 1, &n, &why), ROCMFORGE_OK);
    assert_int_equal(n, 2);
    en = open_engine(o);
    assert_stages(en, "cpu 1, gpu 0 1");
    assert_int_equal(rf_several_taken(0), s[1].total);
    check_requests(en, 1);
    rf_engine_close(en);
    o.backend = "gpu";
    assert_int_equal(rf_engine_open(&en, &o, &why), ROCMFORGE_ENOMEM);
    assert_non_null(strstr(why.text, "leave layers to the CPU with --gpu-layers"));
    o.devices = "1,0";
    en = open_engine(o);
    assert_stages(en, "gpu 1 1, gpu 0 1");
    check_requests(en, 1);
    rf_engine_close(en);
    const size_t too_small[] = {(size_t)room, 5000};
    rf_gpu_driver_set(rf_several_gpus(rf_host_gpu(), 2, too_small));
    assert_int_equal(rf_engine_open(&en, &o, &why), ROCMFORGE_ENOMEM);
    assert_non_null(strstr(why.text, "1 fit into the"));
    o.backend = "auto";
    en = open_engine(o);
    assert_stages(en, "cpu 1, gpu 0 1");
    rf_engine_close(en);
    o.gpu_layers = 2;
    assert_int_equal(rf_engine_open(&en, &o, &why), ROCMFORGE_ENOMEM);
    assert_non_null(strstr(why.text, "2 are to be there"));
    rf_engine_close(meter);
}

static int wide_info(int device, rf_gpu_info *out) {
    int code = rf_host_gpu()->device_info(device, out);
    out->n_units = 132;
    return code;
}

/* n devices of many multiprocessors. */
static void set_wide_gpus(int n, const size_t *rooms) {
    static rf_gpu_driver wide;
    wide = *rf_host_gpu();
    wide.device_info = wide_info;
    rf_gpu_driver_set(rf_several_gpus(&wide, n, rooms));
}

static void check_batch(const rf_engine_opts *o, uint32_t want, const char *stages) {
    rf_engine_info info;
    rf_engine *en = open_engine(*o);
    rf_engine_get_info(en, &info);
    assert_int_equal(info.batch_tokens, want);
    assert_stages(en, stages);
    check_requests(en, 1);
    rf_engine_close(en);
}

/* Steps of as many tokens as fill the device, unless another number is asked for, or there is no room for what they
 * take: then of as many as the CPU's, before layers are left to that. */
static void test_batch(void **state) {
    (void)state;
    make_requests("models/qwen3.gguf");
    rf_memory_need few, many;
    rf_stage s[MOST];
    rf_text why;
    size_t n;
    rf_engine *meter =
        open_engine((rf_engine_opts){.model_path = model_path, .measure_only = true});
    rf_engine_opts o = split_opts(NULL, 0);
    o.batch_tokens = 0;
    o.backend = "gpu";
    set_wide_gpus(2, plenty);
    assert_int_equal(rf_engine_measure(meter, &o, &many, &why), ROCMFORGE_OK);
    assert_int_equal(many.batch_tokens, 1024);
    check_batch(&o, 1024, "gpu 0 2");
    o.devices = "0,1";
    check_batch(&o, 1024, "gpu 0 1, gpu 1 1");
    o.devices = NULL;
    o.batch_tokens = 256;
    assert_int_equal(rf_engine_measure(meter, &o, &few, &why), ROCMFORGE_OK);
    assert_true(few.total < many.total);
    check_batch(&o, 256, "gpu 0 2");
    const size_t tight[] = {(size_t)(few.total + many.total) / 2};
    set_wide_gpus(1, tight);
    for (int is_auto = 0; is_auto < 2; is_auto++) {
        o.backend = is_auto ? "auto" : "gpu";
        o.batch_tokens = 0;
        check_batch(&o, 256, "gpu 0 2");
        assert_int_equal(rf_engine_place(meter, &o, NULL, s, MOST, &n, &why), ROCMFORGE_OK);
        assert_int_equal(n, 1);
        assert_int_equal(s[0].total, few.total);
    }
    o.batch_tokens = 1024; /* as it was asked for: layers go to the CPU */
    check_batch(&o, 1024, "cpu 1, gpu 0 1");
    o.batch_tokens = 0;
    o.gpu_layers = 1;
    check_batch(&o, 256, "cpu 1, gpu 0 1");
    o.gpu_layers = 0;
    o.backend = "cpu";
    check_batch(&o, 256, "cpu 2");
    rf_engine_close(meter);
}

/* Engines of one device tell their one stage; options that cannot be are refused. */
static void test_choice(void **state) {
    (void)state;
    rf_text why;
    rf_engine *en;
    size_t n;
    rf_stage s;
    make_requests("models/llama-gqa.gguf");
    rf_gpu_driver_set(rf_several_gpus(rf_host_gpu(), 2, plenty));
    en = open_engine(split_opts("1", 0));
    assert_stages(en, "gpu 1 3");
    assert_int_equal(rf_several_taken(1), (rf_engine_stages(en, &s, 1), s.total));
    rf_engine_close(en);
    en = open_engine((rf_engine_opts){.model_path = model_path});
    assert_stages(en, "cpu 3");
    const uint64_t room[MOST] = {0};
    const struct {
        rf_engine_opts o;
        int status;
        const char *text;
    } bad[] = {
        {{.devices = "0,", .backend = "gpu"}, ROCMFORGE_EARG, "GPUs '0,': expected a number"},
        {{.devices = "", .backend = "gpu"}, ROCMFORGE_EARG, "GPUs '': expected a number"},
        {{.devices = "0;1", .backend = "gpu"}, ROCMFORGE_EARG, "or up to 16 of them such as 0,1"},
        {{.devices = "-1", .backend = "gpu"}, ROCMFORGE_EARG, "GPUs '-1'"},
        {{.devices = "99999999999", .backend = "gpu"}, ROCMFORGE_EARG, "GPUs '999"},
        {{.devices = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", .backend = "gpu"},
         ROCMFORGE_EARG,
         "or up to 16 of them"},
        {{.devices = "0,0", .backend = "gpu"}, ROCMFORGE_EARG, "GPU 0 is named twice"},
        {{.devices = "0,7", .backend = "auto"}, ROCMFORGE_EARG, "there is no GPU number 7"},
        {{.gpu_layers = 1, .backend = "cpu"}, ROCMFORGE_EARG, "1 layers on GPUs are asked for"},
        {{.gpu_layers = 1, .backend = "auto", .keep_activations = true},
         ROCMFORGE_EUNSUPPORTED,
         "activations can be looked at on one device only"}};
    for (size_t i = 0; i < RF_COUNT(bad); i++) {
        rf_engine_opts o = bad[i].o;
        rf_engine *none;
        o.model_path = model_path;
        assert_int_equal(rf_engine_open(&none, &o, &why), bad[i].status);
        assert_null(none);
        if (!strstr(why.text, bad[i].text)) fail_msg("\"%s\" lacks \"%s\"", why.text, bad[i].text);
    }
    const rf_engine_opts cpu = {.backend = "cpu"};
    assert_int_equal(rf_engine_place(en, &cpu, room, &s, 1, &n, &why), ROCMFORGE_EUNSUPPORTED);
    const rf_engine_opts far = {.backend = "gpu", .devices = "9"};
    assert_int_equal(rf_engine_place(en, &far, NULL, &s, 1, &n, &why), ROCMFORGE_EARG);
    assert_int_equal(n, 0);
    rf_engine_close(en);
    rf_gpu_driver_set(rf_several_gpus(rf_host_gpu(), 1, &(size_t){10000})); /* no layer fits */
    en = open_engine(split_opts(NULL, 0));
    assert_stages(en, "cpu 3");
    rf_engine_close(en);
    en = open_engine(
        (rf_engine_opts){.model_path = rf_test_data("models/bert.gguf"), .backend = "auto"});
    assert_int_equal(rf_engine_stages(en, &s, 1), 1); /* encoders do not split */
    assert_true(!s.on_gpu && s.total == 0);
    rf_engine_close(en);
}

/* Vectors, logits, a model that guesses, swapped blocks and saved states. */
static bool keep_logits(void *user, size_t first, size_t n, const float *logits) {
    float *out = user;
    memcpy(out + first * N_VOCAB, logits, n * N_VOCAB * sizeof *out);
    return true;
}

static void test_uses(void **state) {
    (void)state;
    static float logits[2][20 * N_VOCAB], vector[2][512];
    record want = {0}, got = {0};
    rf_text why;
    make_requests("models/qwen3.gguf");
    rf_gpu_driver_set(rf_several_gpus(rf_host_gpu(), 2, plenty));
    for (int k = 0; k < 2; k++) {
        rf_engine_opts o = k ? split_opts("1", 1) : (rf_engine_opts){.model_path = model_path};
        rf_engine *en = open_engine(o);
        assert_int_equal(rf_engine_logits(en, prompts[LAST], 20, keep_logits, logits[k], &why), 0);
        assert_int_equal(rf_engine_embed(en, prompts[LAST], 20, NULL, vector[k], 512, &why), 0);
        rf_request_opts r = request_of(prompts[0], 5, 10, &want);
        if (!k) run_request(en, &r);
        rf_engine_close(en);
    }
    assert_memory_equal(logits[1], logits[0], sizeof logits[0]);
    assert_memory_equal(vector[1], vector[0], sizeof vector[0]);
    rf_engine_opts o = split_opts("1,0", 1);
    o.draft_model_path = model_path;
    o.draft_min = 3;
    rf_engine *en = open_engine(o);
    rf_request_opts r = request_of(prompts[0], 5, 10, &got);
    run_request(en, &r);
    assert_same_answer(&got, &want);
    rf_engine_stats stats;
    rf_engine_get_stats(en, &stats);
    assert_true(stats.n_accepted > 0);
    rf_engine_close(en);
}

static void test_swap(void **state) {
    (void)state;
    record want[2] = {{0}}, got[2] = {{0}};
    make_requests("models/qwen3.gguf");
    rf_gpu_driver_set(rf_several_gpus(rf_host_gpu(), 2, plenty));
    for (int k = 0; k < 2; k++) {
        rf_engine_opts o = split_opts("1", 1);
        if (!k) o = (rf_engine_opts){.model_path = model_path};
        o.n_ctx = 128;
        o.n_kv_blocks = 4;
        o.swap_bytes = k ? UINT64_MAX : 0;
        rf_engine *en = open_engine(o);
        for (int i = 0; i < 2; i++) {
            rf_request_opts r = request_of(prompts[i], 30, 40, k ? &got[i] : &want[i]);
            r.ignore_eos = true;
            r.prefix_salt = (uint64_t)i;
            submit(en, &r);
            if (!k) run_all(en);
        }
        run_all(en);
        rf_engine_stats stats;
        rf_engine_get_stats(en, &stats);
        assert_int_equal(stats.n_swapped_in > 0, k);
        rf_engine_close(en);
    }
    for (int i = 0; i < 2; i++)
        assert_same_answer(&got[i], &want[i]);
}

static void test_states(void **state) {
    (void)state;
    char path[4096];
    make_requests("models/qwen3.gguf");
    rf_gpu_driver_set(rf_several_gpus(rf_host_gpu(), 2, plenty));
    snprintf(path, sizeof path, "%s", rf_test_tmp("split.state"));
    for (int k = 0; k < 2; k++) { /* from the split to the CPU, and back */
        rf_engine_opts o[2] = {split_opts("1", 1), {.model_path = model_path}};
        record want = {0}, got = {0};
        rf_request_opts r = request_of(prompts[LAST], 40, 3, &want);
        size_t n_saved, n_restored, n;
        rf_engine *en = open_engine(o[k]);
        run_request(en, &r);
        assert_int_equal(rf_engine_state_save(en, path, prompts[LAST], 40, 0, &n_saved, NULL), 0);
        rf_engine_close(en);
        en = open_engine(o[!k]);
        assert_int_equal(rf_engine_state_restore(en, path, 0, NULL, 0, &n, &n_restored, NULL), 0);
        assert_int_equal(n_restored, 32);
        r.user = &got;
        run_request(en, &r);
        assert_int_equal(got.n_cached, 32);
        assert_same_answer(&got, &want);
        rf_engine_close(en);
    }
}

/* req: C-12: a fault of any stage, at any time: the requests go on, each gets all it gets alone */
static void test_faults(void **state) {
    (void)state;
    static const char *const devices[] = {"1", "1,0"};
    make_requests("models/qwen3.gguf");
    for (int k = 0; k < 2; k++)
        for (int n_steps = 0; n_steps < 4; n_steps += 2) {
            rf_gpu_driver_set(rf_faulty_gpu(rf_several_gpus(rf_host_gpu(), 2, plenty)));
            rf_engine *en = open_engine(split_opts(devices[k], k ? 2 : 1));
            submit_all(en);
            for (int i = 0; i < n_steps; i++)
                assert_int_equal(rf_engine_step(en), 1);
            if (n_steps)
                rf_faulty_wait(k ? 2 : 1, 1);
            else
                rf_faulty_launch(k ? 20 : 7, 1);
            run_all(en);
            check_answers();
            assert_all_blocks_free(en);
            rf_engine_close(en);
        }
}

int main(void) {
    rf_error e = {0};
    assert_int_equal(rf_log_configure("error", &e), RF_OK); /* the fall-backs warn */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_batch),    cmocka_unit_test(test_choice),
        cmocka_unit_test(test_uses),     cmocka_unit_test(test_swap),
        cmocka_unit_test(test_states),   cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
