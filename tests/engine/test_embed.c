/* test_embed.c - texts as vectors through the public API: what they must be (made by an independent
 * implementation, tools/make_encoder_fixtures.py), the same bits in any company, and every refusal.
 *
 * req: B-12, B-38, C-12 */
#include "engine/harness.h"
#include "gguf/gguf.h"
#include "lib/run.h"

enum { N_TOKENS = 66, N_TEXTS = 3, N_EMBD = 32, N_VOCAB = 128, N_MANY = 150 };

static const uint32_t lengths[N_TEXTS] = {45, 1, 20};
static const char *const backends[] = {"ref", "cpu"};

typedef struct fixture {
    const char *name;
    rf_embed_pooling pooling; /* its file's */
    size_t n_scores;          /* of a reranker */
} fixture;

static const fixture fixtures[] = {
    {"bert", RF_POOLING_CLS, 0},
    {"bert-roberta", RF_POOLING_MEAN, 0},
    {"bert-rank", RF_POOLING_RANK, 1},
    {"nomic-bert", RF_POOLING_MEAN, 0},
    {"modern-bert", RF_POOLING_CLS, 0},
    {"modern-bert-rank", RF_POOLING_RANK, 2},
    {"qwen3-embedding", RF_POOLING_LAST, 0},
    {"qwen3-rank", RF_POOLING_RANK, 2},
};

static const char *file_of(const char *name, const char *suffix) {
    char path[64];
    snprintf(path, sizeof path, "models/%s.%s", name, suffix);
    return rf_test_data(path);
}

static rf_engine *open_fixture(const char *name, const char *backend, rf_engine_opts o) {
    o.model_path = file_of(name, "gguf");
    o.backend = backend;
    o.kv_type = "f32";
    return open_engine(o);
}

static void embed(rf_engine *en, const int32_t *tokens, size_t n, const rf_embed_opts *o,
                  float *out) {
    rf_text why;
    if (rf_engine_embed(en, tokens, n, o, out, N_EMBD, &why) != ROCMFORGE_OK)
        fail_msg("%s", why.text);
    assert_string_equal(why.text, "");
}

static void embed_all(rf_engine *en, const rf_embed_input *inputs, size_t n, float *out) {
    rf_text why;
    if (rf_engine_embed_batch(en, inputs, n, NULL, out, n * N_EMBD, &why) != ROCMFORGE_OK)
        fail_msg("%s", why.text);
}

/* ---- what they must be ---- */

static void check_vectors(const fixture *f, rf_engine *en, const int32_t *tokens,
                          const float *want) {
    static const rf_embed_pooling poolings[] = {RF_POOLING_CLS, RF_POOLING_MEAN, RF_POOLING_LAST};
    for (size_t s = 0; s < N_TEXTS; tokens += lengths[s++])
        for (size_t k = 0; k < RF_COUNT(poolings); k++, want += N_EMBD) {
            float got[N_EMBD], same[N_EMBD], raw[N_EMBD];
            embed(en, tokens, lengths[s], &(rf_embed_opts){.pooling = poolings[k]}, got);
            double diff = rf_test_max_diff(got, want, N_EMBD);
            if (!(diff < 1e-5)) fail_msg("%s, text %zu: vectors differ by %g", f->name, s, diff);
            embed(en, tokens, lengths[s], &(rf_embed_opts){poolings[k], true}, raw);
            double length = 0;
            for (size_t i = 0; i < N_EMBD; i++)
                length += (double)raw[i] * (double)raw[i];
            length = sqrt(length);
            assert_true(fabs(length - 1) > 0.1);
            for (size_t i = 0; i < N_EMBD; i++)
                assert_true(fabs((double)raw[i] / length - (double)got[i]) < 1e-6);
            if (poolings[k] != f->pooling) continue;
            embed(en, tokens, lengths[s], NULL, same);
            assert_memory_equal(same, got, sizeof got);
        }
}

static void check_scores(const fixture *f, rf_engine *en, const int32_t *tokens,
                         const float *want) {
    for (size_t s = 0; s < N_TEXTS; tokens += lengths[s++], want += f->n_scores) {
        float got[N_EMBD], raw[N_EMBD];
        embed(en, tokens, lengths[s], NULL, got);
        double diff = rf_test_max_diff(got, want, f->n_scores);
        if (!(diff < 2e-5)) fail_msg("%s, text %zu: scores differ by %g", f->name, s, diff);
        embed(en, tokens, lengths[s], &(rf_embed_opts){RF_POOLING_RANK, true}, raw);
        assert_memory_equal(raw, got, f->n_scores * sizeof *got);
        embed(en, tokens, lengths[s], &(rf_embed_opts){.pooling = RF_POOLING_MEAN}, got);
    }
}

static void expected_vectors(void **state) {
    (void)state;
    for (size_t b = 0; b < RF_COUNT(backends); b++)
        for (size_t i = 0; i < RF_COUNT(fixtures); i++) {
            const fixture *f = &fixtures[i];
            int32_t tokens[N_TOKENS];
            size_t bytes, size = f->n_scores ? f->n_scores : N_EMBD;
            rf_test_read_tokens(file_of(f->name, "tokens.txt"), tokens, N_TOKENS);
            float *want = (float *)rf_test_read(file_of(f->name, "pooled.f32"), &bytes);
            assert_int_equal(bytes, N_TEXTS * (f->n_scores ? size : 3 * size) * sizeof *want);
            rf_engine *en = open_fixture(f->name, backends[b], (rf_engine_opts){0});
            rf_engine_info info;
            rf_engine_get_info(en, &info);
            assert_int_equal(info.pooling, f->pooling);
            assert_int_equal(info.is_encoder, strncmp(f->name, "qwen3", 5) != 0);
            assert_true(info.exec_bytes > 0);
            assert_int_equal(rf_engine_embed_size(en, RF_POOLING_DEFAULT), size);
            assert_int_equal(rf_engine_embed_size(en, RF_POOLING_RANK), f->n_scores);
            assert_int_equal(rf_engine_embed_size(en, RF_POOLING_MEAN), N_EMBD);
            assert_int_equal(rf_engine_embed_size(en, (rf_embed_pooling)99), 0);
            if (f->n_scores)
                check_scores(f, en, tokens, want);
            else
                check_vectors(f, en, tokens, want);
            rf_engine_close(en);
            rf_free(want);
        }
}

/* ---- the same bits in any company ---- */

static int32_t many_tokens[N_MANY][64];
static rf_embed_input many[N_MANY];
static float many_alone[N_MANY][N_EMBD], many_together[N_MANY][N_EMBD];

static void make_many(void) {
    uint64_t noise = 11;
    for (size_t i = 0; i < N_MANY; i++) {
        many[i] = (rf_embed_input){many_tokens[i], 1 + rf_test_rand(&noise) % (i % 3 ? 12 : 64)};
        random_tokens(&noise, many_tokens[i], many[i].n_tokens, N_VOCAB);
    }
}

/* Groups of texts, batches that cut a decoder's texts anywhere, threads: nothing shows. */
static void any_company(void **state) {
    (void)state;
    static const char *const names[] = {"bert-roberta", "modern-bert", "qwen3-embedding", "qwen3"};
    static const rf_engine_opts ways[] = {{.n_ctx = 64},
                                          {.n_ctx = 80, .batch_tokens = 7, .n_threads = 3},
                                          {.n_ctx = 64, .batch_tokens = 1000, .n_threads = 2}};
    make_many();
    for (size_t i = 0; i < RF_COUNT(names); i++) {
        rf_engine *en = open_fixture(names[i], "cpu", (rf_engine_opts){.n_ctx = 64});
        for (size_t k = 0; k < N_MANY; k++)
            embed(en, many[k].tokens, many[k].n_tokens, NULL, many_alone[k]);
        rf_engine_close(en);
        for (size_t w = 0; w < RF_COUNT(ways); w++) {
            en = open_fixture(names[i], "cpu", ways[w]);
            for (int again = 0; again < 2; again++) {
                memset(many_together, 0xff, sizeof many_together);
                embed_all(en, many, N_MANY, many_together[0]);
                assert_memory_equal(many_together, many_alone, sizeof many_alone);
            }
            rf_engine_close(en);
        }
    }
}

/* A decoder embeds while a request is under way; neither knows of the other. */
static void beside_requests(void **state) {
    (void)state;
    make_many();
    static record alone, beside;
    memset(&alone, 0, sizeof alone);
    memset(&beside, 0, sizeof beside);
    float want[N_EMBD], got[N_EMBD];
    rf_engine *en = open_fixture("qwen3-embedding", "cpu", (rf_engine_opts){.n_ctx = 80});
    rf_request_opts o = request_of(many[3].tokens, many[3].n_tokens, 12, &alone);
    run_request(en, &o);
    embed(en, many[0].tokens, many[0].n_tokens, NULL, want);
    o.user = &beside;
    submit(en, &o);
    for (int worked = 1, n = 0; worked; n++) {
        worked = rf_engine_step(en);
        embed(en, many[0].tokens, many[0].n_tokens, NULL, got);
        assert_memory_equal(got, want, sizeof got);
        assert_true(n < 20);
    }
    assert_int_equal(beside.n_ends, 1);
    assert_int_equal(beside.n_tokens, alone.n_tokens);
    assert_memory_equal(beside.tokens, alone.tokens, alone.n_tokens * sizeof *alone.tokens);
    assert_memory_equal(beside.logprobs, alone.logprobs, alone.n_tokens * sizeof *alone.logprobs);
    rf_engine_close(en);
}

/* ---- refusals ---- */

static void refused(rf_engine *en, rf_embed_input input, rf_embed_opts o, size_t cap, int status,
                    const char *what) {
    float out[2 * N_EMBD];
    const rf_embed_input inputs[] = {{(const int32_t[]){5, 6}, 2}, input};
    rf_text why;
    assert_int_equal(rf_engine_embed_batch(en, inputs, 2, &o, out, cap, &why), status);
    if (!strstr(why.text, what)) fail_msg("'%s' does not say '%s'", why.text, what);
    assert_int_equal(rf_engine_embed_batch(en, inputs, 2, &o, out, cap, NULL), status);
}

static void wrong_arguments(void **state) {
    (void)state;
    const int32_t good[] = {7, 8, 9}, high[] = {7, N_VOCAB}, low[] = {-1};
    const rf_embed_input fine = {good, 3};
    const size_t room = 2 * (size_t)N_EMBD;
    static const char *const names[] = {"bert", "qwen3"};
    for (size_t i = 0; i < RF_COUNT(names); i++) {
        rf_engine *en = open_fixture(names[i], "cpu", (rf_engine_opts){.n_ctx = 40});
        int32_t longer[41] = {0};
        rf_embed_opts o = {0};
        refused(en, (rf_embed_input){good, 0}, o, room, ROCMFORGE_EARG, "text 1 has no tokens");
        refused(en, (rf_embed_input){high, 2}, o, room, ROCMFORGE_EARG,
                "token 1 of text 1 is 128, not below");
        refused(en, (rf_embed_input){low, 1}, o, room, ROCMFORGE_EARG, "token 0 of text 1 is -1");
        refused(en, (rf_embed_input){longer, 41}, o, room, ROCMFORGE_EFULL,
                "41 tokens, but the context holds 40");
        refused(en, fine, o, room - 1, ROCMFORGE_EARG,
                "2 vectors of 32 floats do not fit the room for 63");
        refused(en, fine, (rf_embed_opts){.pooling = (rf_embed_pooling)5}, room, ROCMFORGE_EARG,
                "pooling is 5, expected 0 to 4");
        refused(en, fine, (rf_embed_opts){.pooling = RF_POOLING_RANK}, room, ROCMFORGE_EUNSUPPORTED,
                "no classification head");
        float out[N_EMBD];
        embed(en, longer, 40, NULL, out); /* the context is full, not over */
        rf_text why;
        assert_int_equal(rf_engine_embed_batch(en, NULL, 0, NULL, NULL, 0, &why), ROCMFORGE_OK);
        rf_engine_close(en);
    }
    rf_engine *en =
        open_engine((rf_engine_opts){.model_path = file_of("bert", "gguf"), .vocab_only = true});
    refused(en, fine, (rf_embed_opts){0}, room, ROCMFORGE_EARG, "vocabulary only");
    assert_int_equal(rf_engine_embed_size(en, RF_POOLING_DEFAULT), 0);
    rf_engine_close(en);
}

static rf_engine *stepping;

static void embed_inside(void *user, const rf_event *event) {
    (void)event;
    const int32_t token = 3;
    float out[N_EMBD];
    rf_text why;
    assert_int_equal(rf_engine_embed(stepping, &token, 1, NULL, out, N_EMBD, &why), ROCMFORGE_EARG);
    assert_non_null(strstr(why.text, "callback"));
    ++*(int *)user;
}

static void inside_a_callback(void **state) {
    (void)state;
    stepping = open_fixture("qwen3", "cpu", (rf_engine_opts){0});
    const int32_t tokens[] = {5, 6};
    int n_calls = 0;
    rf_request_opts o = request_of(tokens, 2, 3, NULL);
    o.on_event = embed_inside;
    o.user = &n_calls;
    rf_text why;
    assert_int_equal(rf_engine_submit(stepping, &o, NULL, &why), ROCMFORGE_OK);
    run_all(stepping);
    assert_int_equal(n_calls, 4);
    rf_engine_close(stepping);
}

static bool no_logits(void *user, size_t first, size_t n, const float *logits) {
    (void)user, (void)first, (void)n, (void)logits;
    fail_msg("logits of an encoder");
    return false;
}

/* An encoder takes no requests, and says what it is for. */
static void encoders_do_not_generate(void **state) {
    (void)state;
    rf_engine *en = open_fixture("nomic-bert", "cpu", (rf_engine_opts){0});
    const int32_t tokens[] = {5, 6};
    rf_request_opts o = request_of(tokens, 2, 3, NULL);
    rf_text why;
    uint64_t id = 77;
    assert_int_equal(rf_engine_submit(en, &o, &id, &why), ROCMFORGE_EUNSUPPORTED);
    assert_non_null(strstr(why.text, "nomic-bert"));
    assert_non_null(strstr(why.text, "embeddings"));
    assert_int_equal(id, 77);
    assert_int_equal(rf_engine_logits(en, tokens, 2, no_logits, NULL, &why),
                     ROCMFORGE_EUNSUPPORTED);
    const rf_message message = {"user", "hello"};
    size_t n;
    assert_int_equal(rf_engine_chat_tokens(en, "chatml", &message, 1, NULL, 0, &n, &why),
                     ROCMFORGE_EUNSUPPORTED);
    assert_int_equal(rf_engine_step(en), 0);
    rf_engine_cancel(en, 1);
    rf_engine_info info;
    rf_engine_get_info(en, &info);
    assert_int_equal(info.kv_blocks, 0);
    assert_int_equal(info.n_ctx, 80);
    rf_engine_close(en);
}

/* More context than learned positions is refused at once; with rope there is no such end. */
static void context_beyond_positions(void **state) {
    (void)state;
    rf_engine *en;
    rf_text why;
    rf_engine_opts o = {.model_path = file_of("bert-roberta", "gguf"), .n_ctx = 81};
    assert_int_equal(rf_engine_open(&en, &o, &why), ROCMFORGE_EARG);
    assert_null(en);
    assert_non_null(strstr(why.text, "81 tokens is more than the 80 positions"));
    en = open_fixture("modern-bert", "cpu", (rf_engine_opts){.n_ctx = 200});
    int32_t tokens[200] = {1, 2, 3};
    float out[N_EMBD];
    embed(en, tokens, 200, NULL, out);
    rf_engine_close(en);
}

/* A weight that is not a number must not become a vector.  req: B-46 */
static void damaged_weights(void **state) {
    (void)state;
    char path[4096];
    size_t n;
    uint8_t *bytes = rf_test_read(file_of("bert", "gguf"), &n);
    rf_gguf *g;
    rf_error e = {0};
    if (rf_gguf_open(&g, file_of("bert", "gguf"), &e) != RF_OK) fail_msg("%s", e.text);
    const rf_gguf_tensor *t = rf_gguf_find_tensor(g, "blk.1.layer_output_norm.bias");
    const float nan_value = NAN;
    memcpy(bytes + t->offset + 5 * sizeof nan_value, &nan_value, sizeof nan_value);
    rf_gguf_close(g);
    snprintf(path, sizeof path, "%s", rf_test_tmp("damaged.gguf"));
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    rf_free(bytes);
    rf_engine *en = open_engine((rf_engine_opts){.model_path = path});
    const int32_t tokens[] = {5, 6};
    float out[N_EMBD];
    rf_text why;
    assert_int_equal(rf_engine_embed(en, tokens, 2, NULL, out, N_EMBD, &why), ROCMFORGE_EFORMAT);
    assert_non_null(strstr(why.text, "text 0 is not finite"));
    rf_engine_close(en);
}

/* ---- every allocation fails once ---- */

/* Open, embed, close; true when the vector came. */
static bool whole_life(const char *name, float *out) {
    rf_engine_opts o = {.model_path = file_of(name, "gguf"), .n_threads = 1, .kv_type = "f32"};
    const int32_t tokens[] = {5, 6, 7};
    rf_engine *en;
    rf_text why;
    int status = rf_engine_open(&en, &o, &why);
    if (status == ROCMFORGE_OK) {
        status = rf_engine_embed(en, tokens, 3, NULL, out, N_EMBD, &why);
        if (status == ROCMFORGE_ENOMEM) { /* it works again once there is memory */
            rf_alloc_fail_nth(0);
            embed(en, tokens, 3, NULL, out);
        }
        rf_engine_close(en);
    }
    assert_true(status == ROCMFORGE_OK || status == ROCMFORGE_ENOMEM);
    if (status != ROCMFORGE_OK) assert_true(why.text[0] != 0);
    return status == ROCMFORGE_OK;
}

static void allocation_failures(void **state) {
    (void)state;
    static const char *const names[] = {"modern-bert-rank", "qwen3-embedding"};
    for (size_t i = 0; i < RF_COUNT(names); i++) {
        float want[N_EMBD], got[N_EMBD];
        rf_alloc_count();
        assert_true(whole_life(names[i], want));
        long n = rf_alloc_count(), n_failed = 0;
        for (long k = 1; k <= n; k++) {
            rf_alloc_fail_nth(k);
            bool came = whole_life(names[i], got);
            rf_alloc_fail_nth(0);
            n_failed += !came;
            if (came) assert_memory_equal(got, want, 2 * sizeof *want);
        }
        print_message("%s: %ld allocations, %ld failures told\n", names[i], n, n_failed);
        assert_true(n_failed > 30);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expected_vectors),         cmocka_unit_test(any_company),
        cmocka_unit_test(beside_requests),          cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(inside_a_callback),        cmocka_unit_test(encoders_do_not_generate),
        cmocka_unit_test(context_beyond_positions), cmocka_unit_test(damaged_weights),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
