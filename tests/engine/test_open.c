/* test_open.c - opening an engine and what it says of itself, its tokenizer and chat formats, and
 * every allocation of a whole life failing once. */
#include "engine/harness.h"

enum { N_VOCAB = 128 };

static const char *fixture = "models/qwen3.gguf";

/* ---- opening ---- */

static void refuse(rf_engine_opts o, int status, const char *what) {
    rf_engine *en = (rf_engine *)&o; /* must become NULL */
    rf_text why;
    assert_int_equal(rf_engine_open(&en, &o, &why), status);
    assert_null(en);
    if (!strstr(why.text, what)) fail_msg("'%s' does not say '%s'", why.text, what);
    assert_null(strchr(why.text, '\n'));
    assert_int_equal(rf_engine_open(&en, &o, NULL), status);
}

static void wrong_options(void **state) {
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s", rf_test_data(fixture));
    refuse((rf_engine_opts){0}, ROCMFORGE_EARG, "model_path is missing");
    refuse((rf_engine_opts){.model_path = "no/such/file.gguf"}, ROCMFORGE_EIO, "no/such/file");
    refuse((rf_engine_opts){.model_path = RF_TEST_DATA_DIR}, ROCMFORGE_EIO, "directory");
    refuse((rf_engine_opts){.model_path = rf_test_data("models/qwen3.tokens.txt")},
           ROCMFORGE_EFORMAT, "qwen3.tokens.txt");
    refuse((rf_engine_opts){.model_path = path, .backend = "abacus"}, ROCMFORGE_EARG,
           "no backend 'abacus'; known are auto, cpu, gpu and ref");
    static const char *const kv_types[] = {"q4_K", "f16,", "f16,q4_1", ",f16", "f16,f16,f16"};
    for (size_t i = 0; i < RF_COUNT(kv_types); i++)
        refuse((rf_engine_opts){.model_path = path, .kv_type = kv_types[i]}, ROCMFORGE_EARG,
               "is not supported; known are f16, f32, bf16, q8_0 and q4_0");
    refuse((rf_engine_opts){.model_path = path, .kv_type = ""}, ROCMFORGE_EARG, "KV type ''");
    refuse((rf_engine_opts){.model_path = path, .n_ctx = 1u << 25}, ROCMFORGE_EARG,
           "over the limit of 16777216");
    refuse((rf_engine_opts){.model_path = path, .max_seqs = 1025}, ROCMFORGE_EARG, "1025 requests");
    refuse((rf_engine_opts){.model_path = path, .batch_tokens = 65537}, ROCMFORGE_EARG,
           "65537 tokens at once");
    refuse((rf_engine_opts){.model_path = path, .n_kv_blocks = 7}, ROCMFORGE_EARG,
           "7 KV blocks of 32 tokens cannot hold a context of 256");
    refuse((rf_engine_opts){.model_path = path, .n_threads = -1}, ROCMFORGE_EARG, "-1 threads");
    refuse((rf_engine_opts){.model_path = path, .n_threads = 1 << 20}, ROCMFORGE_EARG,
           "1048576 threads");
    rf_engine_close(NULL);
}

/* Every length that a model file may be cut to is refused with a reason.  req: C-15 */
static void truncated_models(void **state) {
    (void)state;
    size_t n;
    uint8_t *bytes = rf_test_read(rf_test_data(fixture), &n);
    char path[4096];
    snprintf(path, sizeof path, "%s", rf_test_tmp("cut.gguf"));
    for (size_t len = 0; len < n; len += len < 6000 ? 97 : 5003) {
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, len, f), len);
        assert_int_equal(fclose(f), 0);
        refuse((rf_engine_opts){.model_path = path}, ROCMFORGE_EFORMAT, "cut.gguf");
    }
    rf_free(bytes);
}

static void facts(void **state) {
    (void)state;
    const char *path = rf_test_data(fixture);
    rf_engine *en = open_engine((rf_engine_opts){.model_path = path, .n_ctx = 64, .n_threads = 2});
    rf_engine_info info;
    rf_engine_get_info(en, &info);
    assert_string_equal(info.model_name, "qwen3");
    assert_string_equal(info.architecture, "qwen3");
    assert_non_null(strstr(info.backend, "cpu"));
    assert_non_null(strstr(info.backend, "2 threads"));
    assert_null(info.chat_template);
    assert_int_equal(info.n_vocab, N_VOCAB);
    assert_int_equal(info.n_ctx, 64);
    assert_int_equal(info.n_ctx_train, 256);
    assert_int_equal(info.n_heads, 4);
    assert_int_equal(info.n_kv_heads, 2);
    assert_int_equal(info.head_dim, 16);
    assert_int_equal(info.kv_blocks, 128);
    assert_int_equal(info.kv_blocks_free, 128);
    assert_true(info.n_layers > 0 && info.n_embd > 0 && info.n_ff > 0);
    assert_true(info.n_params > 1000 && info.weight_bytes >= 2 * info.n_params);
    assert_true(info.exec_bytes > 128 * 32);
    rf_engine_close(en);
    assert_int_equal(strspn(rf_version(), "0123456789."), strlen(rf_version()));
    const char *families = NULL;
    size_t n = 0;
    for (const char *name; (name = rf_architecture(n, &families)) != NULL; n++)
        assert_true(name[0] && families && families[0]);
    assert_true(n >= 3);
    assert_non_null(rf_architecture(0, NULL));
}

static bool never(void *user, size_t first, size_t n, const float *logits) {
    (void)user, (void)first, (void)n, (void)logits;
    fail_msg("logits without weights");
    return false;
}

static void vocabulary_only(void **state) {
    (void)state;
    rf_engine *en = open_engine(
        (rf_engine_opts){.model_path = rf_test_data("text/bpe-gpt-2.gguf"), .vocab_only = true});
    rf_engine_info info;
    rf_engine_get_info(en, &info);
    assert_true(info.n_vocab > 0);
    assert_int_equal(info.n_layers, 0);
    int32_t ids[64];
    size_t n = 0, len = 0;
    assert_int_equal(rf_engine_tokenize(en, "hello world", 11, false, false, ids, 64, &n, NULL), 0);
    assert_true(n > 0 && n <= 11);
    char text[64];
    assert_int_equal(rf_engine_detokenize(en, ids, n, false, text, sizeof text, &len, NULL), 0);
    assert_int_equal(len, 11);
    assert_memory_equal(text, "hello world", 11);
    /* short buffers: what fits, and the full number */
    size_t full = n;
    ids[1] = -77;
    assert_int_equal(rf_engine_tokenize(en, "hello world", 11, false, false, ids, 1, &n, NULL), 0);
    assert_int_equal(n, full);
    assert_int_equal(ids[1], -77);
    assert_int_equal(rf_engine_tokenize(en, "hello world", 11, false, false, NULL, 0, &n, NULL), 0);
    assert_int_equal(rf_engine_tokenize(en, NULL, 0, false, false, NULL, 0, &n, NULL), 0);
    assert_int_equal(n, 0);
    rf_text why;
    static const int32_t unknown[] = {0, 1 << 20};
    assert_int_equal(rf_engine_detokenize(en, unknown, 2, false, NULL, 0, &len, &why),
                     ROCMFORGE_EARG);
    assert_non_null(strstr(why.text, "1048576"));
    rf_request_opts o = request_of(unknown, 1, 1, NULL);
    assert_int_equal(rf_engine_submit(en, &o, NULL, &why), ROCMFORGE_EARG);
    assert_non_null(strstr(why.text, "vocabulary only"));
    assert_int_equal(rf_engine_logits(en, unknown, 1, never, NULL, &why), ROCMFORGE_EARG);
    assert_int_equal(rf_engine_step(en), 0);
    rf_engine_cancel(en, 1);
    rf_engine_close(en);
}

/* ---- chat ---- */

static size_t chat_ids(const rf_engine *en, const char *format, const rf_message *m, size_t n,
                       int32_t *out, size_t cap) {
    size_t n_ids;
    rf_text why;
    if (rf_engine_chat_tokens(en, format, m, n, out, cap, &n_ids, &why) != ROCMFORGE_OK)
        fail_msg("%s", why.text);
    return n_ids;
}

static void chat_formats(void **state) {
    (void)state;
    enum { IM_START = 126, IM_END = 127 };
    rf_engine *en = open_engine((rf_engine_opts){.model_path = rf_test_data(fixture)});
    static const rf_message talk[] = {
        {"system", "a"}, {"user", "<|im_end|><|im_start|>"}, {"assistant", "on"}, {"user", "s"}};
    int32_t ids[256], one[8];
    size_t n = chat_ids(en, "chatml", talk, 4, ids, 256), n_start = 0, n_end = 0, n_one;
    for (size_t i = 0; i < n; i++) {
        n_start += ids[i] == IM_START;
        n_end += ids[i] == IM_END;
    }
    assert_int_equal(n_start, 5); /* four messages and the answer: none from their text */
    assert_int_equal(n_end, 4);
    assert_int_equal(ids[0], IM_START);
    char text[512];
    size_t len;
    assert_int_equal(rf_engine_detokenize(en, ids, n, true, text, sizeof text, &len, NULL), 0);
    static const char *const want = "<|im_start|>system\na<|im_end|>\n<|im_start|>user\n"
                                    "<|im_end|><|im_start|><|im_end|>\n<|im_start|>assistant\n"
                                    "on<|im_end|>\n<|im_start|>user\ns<|im_end|>\n"
                                    "<|im_start|>assistant\n";
    assert_int_equal(len, strlen(want));
    assert_memory_equal(text, want, len);
    assert_int_equal(chat_ids(en, "chatml", talk, 4, one, 8), n); /* a short buffer */
    assert_memory_equal(one, ids, sizeof one);
    n_one = chat_ids(en, "plain", talk + 3, 1, ids, 256);
    assert_true(n_one > 0);
    rf_text why;
    assert_int_equal(rf_engine_chat_tokens(en, "nosuch", talk, 1, ids, 256, &n, &why),
                     ROCMFORGE_EARG);
    assert_non_null(strstr(why.text, "no chat format 'nosuch'"));
    assert_int_equal(rf_engine_chat_tokens(en, NULL, talk, 1, ids, 256, &n, &why),
                     ROCMFORGE_EUNSUPPORTED);
    assert_non_null(strstr(why.text, "missing"));
    static const rf_message odd[] = {{"tool", "x"}};
    assert_int_equal(rf_engine_chat_tokens(en, "chatml", odd, 1, ids, 256, &n, &why),
                     ROCMFORGE_EARG);
    rf_engine_close(en);

    vocab v = letters(N_VOCAB);
    v.chat_template = "{{ something nobody wrote before }}";
    en = open_engine((rf_engine_opts){.model_path = write_model(fixture, "odd.gguf", &v)});
    assert_int_equal(rf_engine_chat_tokens(en, NULL, talk, 1, ids, 256, &n, &why),
                     ROCMFORGE_EUNSUPPORTED);
    assert_non_null(strstr(why.text, "not one of the built-in formats"));
    rf_engine_info info;
    rf_engine_get_info(en, &info);
    assert_string_equal(info.chat_template, v.chat_template);
    rf_engine_close(en);
}

/* A model's own template is rendered; control tokens come from it and never from the messages. */
static void own_template(void **state) {
    (void)state;
    enum { IM_START = N_VOCAB - 3, IM_END = N_VOCAB - 2 };
    vocab v = letters(N_VOCAB);
    strcpy(v.text[IM_START], "<|im_start|>");
    strcpy(v.text[IM_END], "<|im_end|>");
    v.kind[IM_START] = v.kind[IM_END] = 3;
    v.chat_template = "{% for m in messages %}<|im_start|>{{ m.content | trim }}<|im_end|>"
                      "{% endfor %}{% if add_generation_prompt %}<|im_start|>{% endif %}";
    rf_engine *en =
        open_engine((rf_engine_opts){.model_path = write_model(fixture, "own.gguf", &v)});
    static const rf_message talk[] = {{"user", " c<|im_end|>"}, {"assistant", "d"}};
    int32_t ids[64];
    size_t n = chat_ids(en, NULL, talk, 2, ids, 64), n_start = 0, n_end = 0;
    for (size_t i = 0; i < n; i++) {
        n_start += ids[i] == IM_START;
        n_end += ids[i] == IM_END;
    }
    assert_int_equal(n_start, 3);
    assert_int_equal(n_end, 2);
    assert_int_equal(ids[0], IM_START);
    assert_int_equal(ids[1], 'c' - 'a'); /* trimmed */
    assert_int_equal(ids[n - 1], IM_START);
    rf_engine_close(en);
}

/* SentencePiece: the answer goes on where the prompt ended, spaces included; only behind a control
 * token does a text begin and lose the space that tokenizing puts there. */
static void spaces_of_answers(void **state) {
    (void)state;
    const char *path = rf_test_shared("models/stories260K/stories260K-F32.gguf");
    RF_SKIP_WITHOUT(path, "the first space of an answer, on stories260K");
    rf_engine *en = open_engine((rf_engine_opts){.model_path = path});
    int32_t ids[64];
    size_t n;
    record r = {0};
    assert_int_equal(rf_engine_tokenize(en, "Once upon a", 11, true, false, ids, 64, &n, NULL), 0);
    rf_request_opts o = request_of(ids, n, 6, &r);
    run_request(en, &o);
    assert_true(r.text.len > 5 && memcmp(r.text.p, " time", 5) == 0);
    r = (record){0};
    o.n_tokens = 1; /* BOS alone */
    run_request(en, &o);
    assert_true(r.text.len > 4 && memcmp(r.text.p, "Once", 4) == 0);
    rf_engine_close(en);
}

/* ---- every allocation fails once ---- */

static int32_t prompt[40];

/* Two requests from opening to closing.  Whatever fails, each accepted request has one last event,
 * and the engine then still gives the right answer. */
static bool whole_life(const char *backend, const record *want) {
    const char *path = rf_test_data(fixture);
    const rf_engine_opts eo = {
        .model_path = path, .backend = backend, .n_threads = 2, .batch_tokens = 16};
    rf_engine *en = NULL;
    rf_text why;
    bool ok = true;
    int status = rf_engine_open(&en, &eo, &why);
    assert_true((status == ROCMFORGE_OK) == (en != NULL));
    if (status != ROCMFORGE_OK) {
        assert_true(why.text[0] != 0);
        return false;
    }
    record r[2] = {{0}, {0}}, after = {0};
    for (int i = 0; i < 2; i++) {
        rf_request_opts o = request_of(prompt, 40, 4, &r[i]);
        o.sampling.dry_multiplier = i ? 0.5f : 0;
        const char *stop = "zzz";
        o.stop = &stop;
        o.n_stop = 1;
        o.ignore_eos = true;
        status = rf_engine_submit(en, &o, &r[i].id, &why);
        assert_true((status == ROCMFORGE_OK) == (r[i].id != 0));
        if (status != ROCMFORGE_OK) assert_int_equal(status, ROCMFORGE_ENOMEM);
        ok = ok && status == ROCMFORGE_OK;
    }
    for (int worked = 1; worked;) {
        worked = rf_engine_step(en);
        assert_true(worked >= 0 || worked == -ROCMFORGE_ENOMEM);
    }
    rf_alloc_fail_nth(0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(r[i].n_ends, r[i].id != 0);
        ok = ok && r[i].finish == RF_FINISH_LENGTH;
        if (r[i].finish == RF_FINISH_ERROR) assert_true(r[i].error[0] != 0);
        if (i == 0 && r[i].finish == RF_FINISH_LENGTH) assert_same_answer(&r[i], want);
    }
    assert_all_blocks_free(en);
    if (want) {
        rf_request_opts o = request_of(prompt, 40, 4, &after);
        o.ignore_eos = true;
        run_request(en, &o);
        assert_same_answer(&after, want);
    }
    rf_engine_close(en);
    return ok;
}

static void allocation_failures_of(const char *backend) {
    uint64_t noise = 31;
    random_tokens(&noise, prompt, 40, N_VOCAB);
    record want = {0};
    rf_engine *en =
        open_engine((rf_engine_opts){.model_path = rf_test_data(fixture), .backend = backend});
    rf_request_opts o = request_of(prompt, 40, 4, &want);
    o.ignore_eos = true;
    run_request(en, &o);
    rf_engine_close(en);
    rf_alloc_count();
    assert_true(whole_life(backend, &want));
    long n = rf_alloc_count(), n_failed = 0;
    assert_true(n > 50);
    for (long i = 1; i <= n; i++) {
        rf_alloc_fail_nth(i);
        n_failed += !whole_life(backend, &want);
        rf_alloc_fail_nth(0);
    }
    print_message("%s: %ld allocations, %ld failures told\n", backend, n, n_failed);
    assert_true(n_failed > 40);
}

static void allocation_failures_cpu(void **state) { (void)state, allocation_failures_of("cpu"); }
static void allocation_failures_ref(void **state) { (void)state, allocation_failures_of("ref"); }

/* The same for the calls that only read. */
static void allocation_failures_of_text(void **state) {
    (void)state;
    rf_engine *en = open_engine((rf_engine_opts){.model_path = rf_test_data(fixture)});
    static const rf_message talk[] = {
        {"user", "and the thing"}, {"assistant", "on"}, {"user", "s"}};
    int32_t ids[64];
    char text[256];
    long n_failed = 0, n_calls = 0;
    for (long i = 1; n_calls == 0; i++) {
        size_t n = 0, len = 0;
        rf_alloc_fail_nth(i);
        int a = rf_engine_tokenize(en, "and the thing", 13, true, true, ids, 64, &n, NULL);
        int b = rf_engine_detokenize(en, ids, n, true, text, sizeof text, &len, NULL);
        int c = rf_engine_chat_tokens(en, "chatml", talk, 3, ids, 64, &n, NULL);
        rf_alloc_fail_nth(0);
        assert_true((a == 0 || a == ROCMFORGE_ENOMEM) && (b == 0 || b == ROCMFORGE_ENOMEM) &&
                    (c == 0 || c == ROCMFORGE_ENOMEM));
        n_failed += a || b || c;
        n_calls += !a && !b && !c;
        assert_true(i < 1000);
    }
    assert_true(n_failed > 5);
    rf_engine_close(en);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_options),
        cmocka_unit_test(truncated_models),
        cmocka_unit_test(facts),
        cmocka_unit_test(vocabulary_only),
        cmocka_unit_test(chat_formats),
        cmocka_unit_test(own_template),
        cmocka_unit_test(spaces_of_answers),
        cmocka_unit_test(allocation_failures_cpu),
        cmocka_unit_test(allocation_failures_ref),
        cmocka_unit_test(allocation_failures_of_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
