/* test_state.c - saved states: what one engine computed serves another one, bit for bit, and no file
 * but a whole and fitting one is taken.
 *
 * req: C-10, C-15 (nothing read is believed), C-18 */
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/os.h"
#include "engine/harness.h"

enum { N_PROMPT = 100, N_ANSWER = 40, N_ALL = 130, N_SAVED = 128 };

static int32_t talk[N_PROMPT + N_ANSWER]; /* a prompt and the answer to it */
static record first_answer;

/* A path that stays, unlike rf_test_tmp's. */
static const char *state_path(const char *name) {
    static char kept[4][4096];
    static size_t next;
    char *out = kept[next++ % RF_COUNT(kept)];
    snprintf(out, sizeof kept[0], "%s", rf_test_tmp(name));
    return out;
}

static rf_engine *engine_of(const char *fixture, const char *backend, const char *kv_type) {
    return open_engine((rf_engine_opts){
        .model_path = rf_test_data(fixture), .backend = backend, .kv_type = kv_type, .n_ctx = 256});
}

static record ask(rf_engine *en, size_t n, uint64_t salt) {
    static record r;
    r = (record){0};
    rf_request_opts o = request_of(talk, n, 12, &r);
    o.ignore_eos = true;
    o.prefix_salt = salt;
    run_request(en, &o);
    return r;
}

/* A conversation in the cache of en, under the salt. */
static void converse(rf_engine *en, uint64_t salt) {
    rf_engine_info info;
    uint64_t noise = 11;
    rf_engine_get_info(en, &info);
    random_tokens(&noise, talk, N_PROMPT, info.n_vocab);
    first_answer = (record){0};
    rf_request_opts o = request_of(talk, N_PROMPT, N_ANSWER, &first_answer);
    o.ignore_eos = true;
    o.prefix_salt = salt;
    run_request(en, &o);
    memcpy(talk + N_PROMPT, first_answer.tokens, N_ANSWER * sizeof *talk);
}

static size_t save(rf_engine *en, const char *path, size_t n, uint64_t salt) {
    rf_text why;
    size_t n_saved = 99;
    if (rf_engine_state_save(en, path, talk, n, salt, &n_saved, &why) != ROCMFORGE_OK)
        fail_msg("%s", why.text);
    return n_saved;
}

static size_t restore(rf_engine *en, const char *path, uint64_t salt) {
    rf_text why;
    int32_t tokens[N_ALL] = {0};
    size_t n = 0, n_restored = 99;
    if (rf_engine_state_restore(en, path, salt, tokens, N_ALL, &n, &n_restored, &why) !=
        ROCMFORGE_OK)
        fail_msg("%s", why.text);
    assert_int_equal(n, N_ALL);
    assert_memory_equal(tokens, talk, sizeof tokens);
    assert_all_blocks_free(en);
    return n_restored;
}

/* Conversations of one engine go on in another, as if that had computed them. */
static void round_trip_of(const char *fixture, const char *backend, const char *kv_type) {
    const char *path = state_path("talk.state");
    rf_engine *en = engine_of(fixture, backend, kv_type);
    converse(en, 0);
    assert_int_equal(save(en, path, N_ALL, 0), N_SAVED);
    record want = ask(en, N_ALL, 0);
    assert_int_equal(want.n_cached, N_SAVED);
    rf_engine_close(en);

    en = engine_of(fixture, backend, kv_type);
    record anew = ask(en, N_ALL, 7);
    assert_int_equal(anew.n_cached, 0);
    assert_same_answer(&anew, &want);
    assert_int_equal(restore(en, path, 0), N_SAVED);
    assert_int_equal(restore(en, path, 0), N_SAVED); /* what is there stays */
    record got = ask(en, N_ALL, 0);
    assert_int_equal(got.n_cached, N_SAVED);
    assert_same_answer(&got, &want);
    rf_engine_close(en);
    assert_int_equal(unlink(path), 0);
}

static void round_trips(void **state) {
    (void)state;
    round_trip_of("models/llama-gqa.gguf", "cpu", NULL);
    round_trip_of("models/qwen3.gguf", "cpu", "q8_0,bf16");
    round_trip_of("models/mistral-window.gguf", "cpu", "f32");
    round_trip_of("models/qwen2.gguf", "cpu", "q4_0");
    round_trip_of("models/deepseek2-lite.gguf", "cpu", "f16"); /* no values: parts of the keys */
    round_trip_of("models/qwen2.gguf", "ref", "q8_0");
}

/* Whoever saves, restores and asks, under whichever salt. */
static void salts(void **state) {
    (void)state;
    const char *path = state_path("salt.state");
    rf_engine *en = engine_of("models/qwen3.gguf", "cpu", NULL);
    converse(en, 5);
    size_t n_saved = 9;
    assert_int_equal(rf_engine_state_save(en, path, talk, N_ALL, 0, &n_saved, NULL),
                     ROCMFORGE_EARG);
    assert_int_equal(n_saved, 0);
    assert_int_equal(save(en, path, N_ALL, 5), N_SAVED);
    record want = ask(en, N_ALL, 5);
    rf_engine_close(en);
    en = engine_of("models/qwen3.gguf", "cpu", NULL);
    assert_int_equal(restore(en, path, 6), N_SAVED);
    record other = ask(en, N_ALL, 5), own = ask(en, N_ALL, 6);
    assert_int_equal(other.n_cached, 0);
    assert_int_equal(own.n_cached, N_SAVED);
    assert_same_answer(&other, &want);
    assert_same_answer(&own, &want);
    rf_engine_close(en);
}

/* Parts: shorter saves, whole blocks exactly, a state of which the cache has the beginning already. */
static void parts(void **state) {
    (void)state;
    const char *path = state_path("parts.state");
    rf_engine *en = engine_of("models/llama-gqa.gguf", "cpu", NULL), *to;
    converse(en, 0);
    assert_int_equal(save(en, path, 96, 0), 96);
    assert_int_equal(save(en, path, 127, 0), 96);
    assert_int_equal(save(en, path, 32, 0), 32);
    assert_int_equal(save(en, path, N_ALL, 0), N_SAVED);
    to = engine_of("models/llama-gqa.gguf", "cpu", NULL);
    (void)ask(to, 70, 0); /* 64 of these tokens, computed here */
    assert_int_equal(restore(to, path, 0), N_SAVED);
    record want = ask(en, N_ALL, 0), got = ask(to, N_ALL, 0);
    assert_int_equal(got.n_cached, N_SAVED);
    assert_same_answer(&got, &want);
    rf_text why;
    size_t n_saved;
    assert_int_equal(rf_engine_state_save(en, path, talk, 31, 0, &n_saved, &why), ROCMFORGE_EARG);
    assert_non_null(strstr(why.text, "none of the 31 tokens"));
    assert_int_equal(rf_engine_state_save(en, path, talk + 1, 99, 0, &n_saved, &why),
                     ROCMFORGE_EARG);
    assert_int_equal(restore(to, path, 0), N_SAVED); /* the file is as it was */
    rf_engine_close(en);
    rf_engine_close(to);
}

/* While requests run: saving takes nothing from them, restoring what they do not need. */
static void beside_requests(void **state) {
    (void)state;
    const char *path = state_path("beside.state");
    rf_engine_opts o = {.model_path = rf_test_data("models/llama-gqa.gguf"), .n_kv_blocks = 8};
    rf_engine *en = open_engine(o);
    converse(en, 0);
    record want = ask(en, N_ALL, 0), r = {0};
    rf_text why;
    size_t n = 0, n_restored = 9;
    rf_request_opts ro = request_of(talk, N_ALL, 12, &r);
    ro.ignore_eos = true;
    ro.prefix_salt = 3; /* computes it anew, in 5 blocks */
    submit(en, &ro);
    assert_int_equal(rf_engine_step(en), 1);
    assert_int_equal(save(en, path, N_ALL, 3), N_SAVED); /* of a running request */
    assert_int_equal(rf_engine_state_restore(en, path, 4, NULL, 0, &n, &n_restored, &why),
                     ROCMFORGE_EFULL);
    assert_non_null(strstr(why.text, "4 KV blocks"));
    assert_int_equal(n_restored, 0);
    run_all(en);
    assert_same_answer(&r, &want);
    assert_int_equal(restore(en, path, 4), N_SAVED);
    record got = ask(en, N_ALL, 4);
    assert_int_equal(got.n_cached, N_SAVED);
    assert_same_answer(&got, &want);
    rf_engine_close(en);
}

static rf_engine *called_back;
static int save_status, restore_status;

static void save_inside(void *user, const rf_event *ev) {
    (void)ev;
    size_t n;
    save_status = rf_engine_state_save(called_back, user, talk, N_ALL, 0, &n, NULL);
    restore_status = rf_engine_state_restore(called_back, user, 0, NULL, 0, &n, NULL, NULL);
}

/* req: every error says what, where, expected and got */
static void refusals(void **state) {
    (void)state;
    static const struct {
        const char *fixture, *backend, *kv_type, *text;
    } engines[] = {
        {"models/qwen3.gguf", "cpu", NULL, "another model"},
        {"models/llama-gqa.gguf", "cpu", "f32,f16", "keys of type F16, but this engine has F32"},
        {"models/llama-gqa.gguf", "cpu", "f16,bf16",
         "values of type F16, but this engine has BF16"},
        {"models/llama-gqa.gguf", "ref", "f16", "laid out as blocks"},
    };
    static char own_path[4096];
    const char *path = state_path("refused.state"), *absent = state_path("not.state");
    rf_engine *en = engine_of("models/llama-gqa.gguf", "cpu", NULL);
    rf_text why;
    size_t n;
    converse(en, 0);
    (void)save(en, path, N_ALL, 0);
    for (size_t i = 0; i < RF_COUNT(engines); i++) {
        rf_engine *to = engine_of(engines[i].fixture, engines[i].backend, engines[i].kv_type);
        assert_int_equal(rf_engine_state_restore(to, path, 0, NULL, 0, &n, NULL, &why),
                         ROCMFORGE_EARG);
        if (!strstr(why.text, engines[i].text)) fail_msg("%s", why.text);
        rf_engine_close(to);
    }
    assert_int_equal(rf_engine_state_restore(en, absent, 0, NULL, 0, &n, NULL, &why),
                     ROCMFORGE_EIO);
    assert_int_equal(rf_engine_state_save(en, "/nowhere/at.all", talk, N_ALL, 0, &n, &why),
                     ROCMFORGE_EIO);
    assert_int_equal(rf_engine_state_save(en, path, talk, SIZE_MAX, 0, &n, &why), ROCMFORGE_EARG);
    record r = {.then = save_inside};
    r.user = own_path;
    snprintf(own_path, sizeof own_path, "%s", path);
    called_back = en;
    rf_request_opts o = request_of(talk, 40, 2, &r);
    run_request(en, &o);
    assert_int_equal(save_status, ROCMFORGE_EARG);
    assert_int_equal(restore_status, ROCMFORGE_EARG);
    rf_engine_close(en);
    en = open_engine(
        (rf_engine_opts){.model_path = rf_test_data("models/llama-gqa.gguf"), .vocab_only = true});
    assert_int_equal(rf_engine_state_save(en, path, talk, N_ALL, 0, &n, &why), ROCMFORGE_EARG);
    rf_engine_close(en);
    en = open_engine((rf_engine_opts){.model_path = rf_test_data("models/chatglm-prefix.gguf")});
    assert_int_equal(rf_engine_state_save(en, path, talk, N_ALL, 0, &n, &why),
                     ROCMFORGE_EUNSUPPORTED);
    rf_engine_close(en);
    en = open_engine((rf_engine_opts){.model_path = rf_test_data("models/bert.gguf")});
    assert_int_equal(rf_engine_state_restore(en, path, 0, NULL, 0, &n, NULL, &why),
                     ROCMFORGE_EUNSUPPORTED);
    rf_engine_close(en);
}

/* A context length that changes the frequencies of the rotation changes what is computed; another one
 * does not. */
static void context_of_long_rope(void **state) {
    (void)state;
    const char *path = state_path("rope.state");
    static const uint32_t n_ctx[] = {200, 250, 400}; /* the model turns at 256 */
    rf_engine *en[3];
    record r[3];
    for (int i = 0; i < 3; i++)
        en[i] = open_engine((rf_engine_opts){
            .model_path = rf_test_data("models/phi3-shortrope.gguf"), .n_ctx = n_ctx[i]});
    converse(en[0], 0);
    (void)save(en[0], path, N_ALL, 0);
    assert_int_equal(restore(en[1], path, 0), N_SAVED);
    rf_text why;
    size_t n;
    assert_int_equal(rf_engine_state_restore(en[2], path, 0, NULL, 0, &n, NULL, &why),
                     ROCMFORGE_EARG);
    assert_non_null(strstr(why.text, "context length"));
    for (int i = 0; i < 3; i++) {
        r[i] = ask(en[i], N_ALL, 0);
        rf_engine_close(en[i]);
    }
    assert_int_equal(r[1].n_cached, N_SAVED);
    assert_same_answer(&r[0], &r[1]);
    assert_true(r[0].logprobs[0] != r[2].logprobs[0]);
}

/* ---- damaged files ---- */

static void write_bytes(const char *path, const uint8_t *p, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Restoring the bytes fails with that status, and nothing is found of them. */
static void expect_refused(rf_engine *en, const uint8_t *p, size_t n_bytes, int status,
                           const char *text) {
    const char *path = rf_test_tmp("damaged.state");
    rf_text why;
    size_t n, n_restored = 9;
    write_bytes(path, p, n_bytes);
    assert_int_equal(rf_engine_state_restore(en, path, 0, NULL, 0, &n, &n_restored, &why), status);
    if (!strstr(why.text, text)) fail_msg("'%s' is not in '%s'", text, why.text);
    assert_int_equal(n_restored, 0);
    assert_all_blocks_free(en);
    rf_engine_stats stats;
    rf_engine_get_stats(en, &stats);
    assert_int_equal(stats.kv_cached, 0);
}

/* The last 64 bytes become the digest of what is before them. */
static void seal(uint8_t *p, size_t n) {
    rf_sha256 *h;
    char hex[RF_SHA256_HEX];
    assert_int_equal(rf_sha256_create(&h), RF_OK);
    rf_sha256_add(h, p, n - 64);
    rf_sha256_hex(h, hex);
    memcpy(p + n - 64, hex, 64);
    rf_sha256_free(h);
}

static void damaged_files(void **state) {
    (void)state;
    const char *path = state_path("whole.state");
    rf_engine *en = engine_of("models/llama-gqa.gguf", "cpu", NULL);
    converse(en, 0);
    (void)save(en, path, N_ALL, 0);
    rf_engine_close(en);
    en = engine_of("models/llama-gqa.gguf", "cpu", NULL);
    size_t n;
    uint8_t *p = rf_test_read(path, &n);
    for (size_t i = 0; i < n; i += 1 + n / 40) /* cut off there, or one bit changed */
        expect_refused(en, p, i, ROCMFORGE_EFORMAT, "state");
    for (size_t i = 0; i < n; i += i < 176 ? 7 : 1 + n / 40) {
        p[i] ^= 16;
        expect_refused(en, p, n, i >= 8 && i < 12 ? ROCMFORGE_EUNSUPPORTED : ROCMFORGE_EFORMAT, "");
        p[i] ^= 16;
    }
    assert_int_equal(restore(en, path, 0), N_SAVED);
    rf_engine_close(en);
    rf_free(p);
}

/* Files whose digest is right and whose content is not. */
static void forged_files(void **state) {
    (void)state;
    static const struct {
        size_t at;
        uint32_t value;
        int status;
        const char *text;
    } forged[] = {
        {8, 1, ROCMFORGE_EUNSUPPORTED, "version 1, expected 2"},
        {12, 0, ROCMFORGE_EFORMAT, "blocks of 0 tokens"},
        {12, 64, ROCMFORGE_EFORMAT, "4 blocks of 64 tokens"},
        {12, 16, ROCMFORGE_EARG, "blocks of 16 tokens"},
        {16, 131, ROCMFORGE_EFORMAT, "of 131 tokens, 4 blocks"},
        {16, UINT32_MAX, ROCMFORGE_EFORMAT, "of 4294967295 tokens"},
        {20, 5, ROCMFORGE_EFORMAT, ", 5 blocks"},
        {20, UINT32_MAX, ROCMFORGE_EFORMAT, "4294967295 blocks"},
        {28, UINT32_MAX, ROCMFORGE_EFORMAT, "cut off"}, /* the upper half of a block's size */
        {32, 0x1b5b1b, ROCMFORGE_EARG, "keys of type ?[?, but this engine has F16"},
        {96, 0x30303030, ROCMFORGE_EARG, "another model"},
        {160, 1, ROCMFORGE_EARG, "with states of 1 numbers"},
        {168, 1, ROCMFORGE_EFORMAT, "and 1 states"},
        {176, 128, ROCMFORGE_EFORMAT, "token 0 is 128"},
        {176 + 4 * 129, UINT32_MAX, ROCMFORGE_EFORMAT, "token 129 is -1"},
    };
    const char *path = state_path("forged.state");
    rf_engine *en = engine_of("models/llama-gqa.gguf", "cpu", NULL);
    converse(en, 0);
    (void)save(en, path, N_ALL, 0);
    rf_engine_close(en);
    en = engine_of("models/llama-gqa.gguf", "cpu", NULL);
    size_t n;
    uint8_t *p = rf_test_read(path, &n);
    for (size_t i = 0; i < RF_COUNT(forged); i++) {
        uint8_t old[4];
        memcpy(old, p + forged[i].at, sizeof old);
        memcpy(p + forged[i].at, &forged[i].value, sizeof forged[i].value);
        seal(p, n);
        expect_refused(en, p, n, forged[i].status, forged[i].text);
        memcpy(p + forged[i].at, old, sizeof old);
    }
    rf_engine_close(en);
    rf_free(p);
}

static void allocation_failures(void **state) {
    (void)state;
    const char *path = state_path("memory.state"), *copy = state_path("copy.state");
    rf_engine *en = engine_of("models/qwen2.gguf", "cpu", NULL);
    converse(en, 0);
    (void)save(en, path, N_ALL, 0);
    size_t n;
    long n_failed = 0;
    for (long i = 1;; i++) {
        rf_engine *to = engine_of("models/qwen2.gguf", "cpu", NULL);
        rf_alloc_fail_nth(i);
        int saved = rf_engine_state_save(en, copy, talk, N_ALL, 0, &n, NULL);
        int restored = rf_engine_state_restore(to, path, 0, NULL, 0, &n, NULL, NULL);
        rf_alloc_fail_nth(0);
        assert_true(saved == ROCMFORGE_OK || saved == ROCMFORGE_ENOMEM);
        assert_true(restored == ROCMFORGE_OK || restored == ROCMFORGE_ENOMEM ||
                    restored == ROCMFORGE_EIO); /* a mapping that the system refuses */
        assert_int_equal(access(copy, F_OK) == 0, saved == ROCMFORGE_OK);
        (void)unlink(copy);
        assert_all_blocks_free(en);
        assert_all_blocks_free(to);
        bool done = saved == ROCMFORGE_OK && restored == ROCMFORGE_OK;
        n_failed += !done;
        rf_engine_close(to);
        if (done) break;
    }
    assert_true(n_failed >= 6);
    rf_engine_close(en);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(salts),
        cmocka_unit_test(parts),
        cmocka_unit_test(beside_requests),
        cmocka_unit_test(refusals),
        cmocka_unit_test(context_of_long_rope),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(forged_files),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
