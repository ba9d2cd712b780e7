/* Vectors and scores over sockets: the same as the engine's own, whatever form they are asked for in and
 * whatever runs beside them; a server of an encoder; refusals. */
#include <math.h>

#include "server/harness.h"

enum { MAX_FLOATS = 4096 };

static const char texts[] = "{\"input\":[\"the fox\",\"hello\",\"a\"]}";

static under_test open_fixture(const char *name) {
    char path[300];
    const rf_server_opts o = usual_opts();
    snprintf(path, sizeof path, RF_SOURCE_DIR "/tests/data/models/%s.gguf", name);
    return open_model(path, 2, &o);
}

static size_t floats_of(const rf_json *list, size_t i, float *out) {
    const rf_json *v = rf_json_get(rf_json_at(rf_json_get(list, "data"), i), "embedding");
    size_t n = rf_json_len(v);
    assert_in_range(n, 1, MAX_FLOATS);
    for (size_t k = 0; k < n; k++)
        out[k] = (float)rf_json_real(rf_json_at(v, k));
    return n;
}

/* What the engine itself says of a text. */
static size_t expect(const char *model, const char *text, float *out) {
    rf_engine *en;
    rf_text why;
    int32_t ids[200];
    size_t n = 0;
    char path[300];
    snprintf(path, sizeof path, RF_SOURCE_DIR "/tests/data/models/%s.gguf", model);
    const rf_engine_opts o = {.model_path = path, .n_threads = 1};
    if (rf_engine_open(&en, &o, &why) != ROCMFORGE_OK) fail_msg("%s", why.text);
    assert_int_equal(rf_engine_tokenize(en, text, strlen(text), true, false, ids, 200, &n, &why),
                     0);
    size_t size = rf_engine_embed_size(en, RF_POOLING_DEFAULT);
    if (rf_engine_embed(en, ids, n, NULL, out, MAX_FLOATS, &why) != ROCMFORGE_OK)
        fail_msg("%s", why.text);
    rf_engine_close(en);
    return size;
}

static void assert_same(const float *a, const float *b, size_t n) {
    assert_memory_equal(a, b, n * sizeof *a);
}

/* Encoders and decoders; strings, token ids, one and several; the floats of the engine, exactly. */
static void test_vectors(void **state) {
    (void)state;
    static const char *const models[] = {"bert", "nomic-bert", "qwen3-embedding"};
    float got[MAX_FLOATS], want[MAX_FLOATS];
    for (size_t m = 0; m < RF_COUNT(models); m++) {
        under_test t = open_fixture(models[m]);
        rf_json *j = post(&t, "/v1/embeddings", texts, 200);
        assert_text(j, "object", "list");
        assert_text(j, "model", "demo");
        assert_int_equal(rf_json_len(at(j, "data")), 3);
        assert_text(j, "data.1.object", "embedding");
        assert_int_equal(rf_json_int(at(j, "data.2.index")), 2);
        size_t n = expect(models[m], "hello", want);
        assert_int_equal(floats_of(j, 1, got), n);
        assert_same(got, want, n);
        double sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += (double)got[k] * (double)got[k];
        assert_true(fabs(sum - 1) < 1e-5);
        rf_json_free(j);
        j = post(&t, "/v1/embeddings", "{\"input\":\"hello\",\"encoding_format\":\"float\"}", 200);
        assert_int_equal(floats_of(j, 0, got), n);
        assert_same(got, want, n);
        rf_json_free(j);
        j = post(&t, "/v1/embeddings", "{\"input\":[[5,6,7],[8]]}", 200);
        assert_int_equal(rf_json_len(at(j, "data")), 2);
        assert_int_equal(rf_json_int(at(j, "usage.prompt_tokens")), 4);
        assert_int_equal(rf_json_int(at(j, "usage.total_tokens")), 4);
        floats_of(j, 0, want);
        rf_json_free(j);
        j = post(&t, "/v1/embeddings", "{\"input\":[5,6,7]}", 200);
        floats_of(j, 0, got);
        assert_same(got, want, n);
        rf_json_free(j);
        close_server(&t);
    }
}

static int digit(char c) {
    static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *p = strchr(all, c);
    assert_true(c && p);
    return (int)(p - all);
}

static void test_base64(void **state) {
    (void)state;
    under_test t = open_fixture("bert");
    float want[MAX_FLOATS];
    unsigned char got[MAX_FLOATS * 4];
    size_t n = expect("bert", "hello", want), len = 0;
    rf_json *j =
        post(&t, "/v1/embeddings", "{\"input\":\"hello\",\"encoding_format\":\"base64\"}", 200);
    rf_str text = rf_json_str(at(j, "data.0.embedding"));
    assert_int_equal(text.len, (n * 4 + 2) / 3 * 4);
    for (size_t i = 0; i < text.len; i += 4) {
        uint32_t bits = 0;
        int n_bytes = text.p[i + 2] == '=' ? 1 : text.p[i + 3] == '=' ? 2 : 3;
        for (size_t k = 0; k < 4; k++)
            bits = bits << 6 | (uint32_t)(text.p[i + k] == '=' ? 0 : digit(text.p[i + k]));
        for (int k = 0; k < n_bytes; k++)
            got[len++] = (unsigned char)(bits >> (16 - 8 * k));
    }
    assert_int_equal(len, n * sizeof *want);
    assert_memory_equal(got, want, len);
    rf_json_free(j);
    close_server(&t);
}

/* More texts than one turn takes: all come back, in order, each as alone; and counts. */
static void test_many(void **state) {
    (void)state;
    under_test t = open_fixture("bert");
    float got[MAX_FLOATS], want[2][MAX_FLOATS];
    size_t n = expect("bert", "hello", want[0]);
    expect("bert", "the fox", want[1]);
    rf_buf body = {0};
    rf_buf_puts(&body, "{\"input\":[");
    for (int i = 0; i < 150; i++)
        rf_buf_printf(&body, "%s\"%s\"", i ? "," : "", i % 2 ? "the fox" : "hello");
    rf_buf_puts(&body, "]}");
    rf_json *j = post(&t, "/v1/embeddings", body.p, 200);
    assert_int_equal(rf_json_len(at(j, "data")), 150);
    for (size_t i = 0; i < 150; i++) {
        floats_of(j, i, got);
        assert_same(got, want[i % 2], n);
    }
    const rf_metrics *m = &t.server->metrics;
    assert_int_equal(rf_metrics_get(m, RF_M_EMBEDDED_TEXTS), 150);
    assert_int_equal(rf_metrics_get(m, RF_M_EMBEDDED_TOKENS),
                     rf_json_int(at(j, "usage.prompt_tokens")));
    rf_json_free(j);
    rf_buf_free(&body);
    close_server(&t);
}

/* Vectors beside a stream of the same decoder: neither changes the other, and the stream ends. */
static void test_beside_generation(void **state) {
    (void)state;
    under_test t = open_usual(2);
    static const char ask[] =
        "{\"prompt\":\"Once upon\",\"max_tokens\":200,\"ignore_eos\":true,\"temperature\":0}";
    rf_json *alone = post(&t, "/generate", ask, 200);
    rf_json *first = post(&t, "/v1/embeddings", texts, 200);
    float got[MAX_FLOATS], want[MAX_FLOATS];
    size_t n = floats_of(first, 0, want);
    int fd = rf_test_connect(t.url);
    rf_test_request(fd, "POST", "/generate", "", ask);
    wait_for_running(&t, 1, 0);
    for (int i = 0; i < 5; i++) {
        rf_json *j = post(&t, "/v1/embeddings", texts, 200);
        floats_of(j, 0, got);
        assert_same(got, want, n);
        rf_json_free(j);
    }
    rf_test_reply r;
    assert_true(rf_test_read_reply(fd, &r));
    rf_json *beside = parse(rf_buf_str(&r.body));
    assert_true(rf_str_eq(rf_json_str(at(beside, "text")), rf_json_str(at(alone, "text"))));
    rf_json_free(beside);
    rf_json_free(first);
    rf_json_free(alone);
    rf_test_reply_free(&r);
    close(fd);
    wait_until_idle(&t);
    close_server(&t);
}

static void assert_refused(const under_test *t, const char *path, const char *body, int status,
                           const char *param, const char *text) {
    rf_json *j = post(t, path, body, status);
    assert_text(j, "error.param", param);
    rf_str message = rf_json_str(at(j, "error.message"));
    if (!strstr(message.p, text)) fail_msg("'%s' is not in: %s", text, message.p);
    rf_json_free(j);
}

static void test_refused(void **state) {
    (void)state;
    under_test t = open_fixture("bert");
    static const struct {
        const char *body, *param, *text;
    } cases[] = {
        {"{}", "input", "missing"},
        {"{\"input\":5}", "input", "must be"},
        {"{\"input\":[]}", "input", "1 to 2048"},
        {"{\"input\":[\"a\",5]}", "input", "must be"},
        {"{\"input\":[[]]}", "input", "must be"},
        {"{\"input\":[99999]}", "input", "not below the vocabulary"},
        {"{\"input\":\"a\",\"encoding_format\":\"hex\"}", "encoding_format", "float or base64"},
        {"{\"input\":\"a\",\"dimensions\":3}", "dimensions", "dimensions is 3"},
        {"{\"input\":\"a\",\"dimensions\":\"3\"}", "dimensions", "whole number"},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++)
        assert_refused(&t, "/v1/embeddings", cases[i].body, 400, cases[i].param, cases[i].text);
    assert_refused(&t, "/v1/embeddings", "{\"input\":\"a\",\"model\":\"other\"}", 404, "model",
                   "no model");
    rf_buf big = {0};
    rf_buf_puts(&big, "{\"input\":[");
    for (int i = 0; i < 2049; i++)
        rf_buf_puts(&big, i ? ",\"a\"" : "\"a\"");
    rf_buf_puts(&big, "]}");
    assert_refused(&t, "/v1/embeddings", big.p, 400, "input", "1 to 2048");
    rf_buf_clear(&big);
    rf_buf_puts(&big, "{\"input\":[\"ok\",\"");
    for (int i = 0; i < 20000; i++)
        rf_buf_puts(&big, "a ");
    rf_buf_puts(&big, "\"]}");
    assert_refused(&t, "/v1/embeddings", big.p, 400, "input", "text 1 has");
    rf_buf_free(&big);
    /* what an encoder cannot do, it says */
    assert_refused(&t, "/generate", "{\"prompt\":\"a\"}", 400, "model", "is an encoder");
    assert_refused(&t, "/v1/completions", "{\"prompt\":\"a\"}", 400, "model", "/v1/embeddings");
    assert_refused(&t, "/v1/chat/completions",
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", 400, "model",
                   "is an encoder");
    assert_refused(&t, "/v1/rerank", "{\"query\":\"a\",\"documents\":[\"b\"]}", 400, "model",
                   "not a reranker");
    rf_json_free(post(&t, "/v1/embeddings", "{\"input\":\"a\",\"user\":\"me\"}", 200));
    close_server(&t);
}

/* Documents by score, best first, and the score of the pair as the engine gives it. */
static void test_rerank(void **state) {
    (void)state;
    under_test t = open_fixture("bert-rank");
    rf_json *j = post(&t, "/v1/rerank",
                      "{\"query\":\"the fox\",\"documents\":[\"hello\",{\"text\":\"a fox\"},"
                      "\"zebra\"],\"return_documents\":true}",
                      200);
    assert_int_equal(rf_json_len(at(j, "results")), 3);
    int64_t seen = 0, last = 0;
    double scores[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        const rf_json *r = rf_json_at(rf_json_get(j, "results"), i);
        int64_t index = rf_json_int(rf_json_get(r, "index"));
        assert_in_range(index, 0, 2);
        seen |= 1 << index;
        scores[i] = rf_json_real(rf_json_get(r, "relevance_score"));
        assert_true(i == 0 || scores[i] <= scores[i - 1]);
        static const char *const documents[] = {"hello", "a fox", "zebra"};
        assert_text(r, "document.text", documents[index]);
        last = index;
    }
    assert_int_equal(seen, 7);
    assert_true(scores[0] > scores[2]);
    rf_json_free(j);
    j = post(&t, "/v1/rerank",
             "{\"query\":\"the fox\",\"documents\":[\"hello\",\"a fox\",\"zebra\"],\"top_n\":1}",
             200);
    assert_int_equal(rf_json_len(at(j, "results")), 1);
    assert_true(rf_json_int(at(j, "results.0.index")) != last);
    assert_true(rf_json_real(at(j, "results.0.relevance_score")) == scores[0]);
    rf_json_free(j);
    assert_refused(&t, "/v1/rerank", "{\"query\":\"a\"}", 400, "documents", "missing");
    assert_refused(&t, "/v1/rerank", "{\"documents\":[\"a\"]}", 400, "query", "missing");
    assert_refused(&t, "/v1/rerank", "{\"query\":\"a\",\"documents\":[5]}", 400, "documents",
                   "strings");
    rf_buf big = {0};
    rf_buf_puts(&big, "{\"query\":\"a\",\"documents\":[\"ok\",\"");
    for (int i = 0; i < 20000; i++)
        rf_buf_puts(&big, "a ");
    rf_buf_puts(&big, "\"]}");
    assert_refused(&t, "/v1/rerank", big.p, 400, "documents", "text 1 has");
    rf_buf_free(&big);
    assert_refused(&t, "/v1/embeddings", "{\"input\":\"a\"}", 400, "model", "/v1/rerank");
    close_server(&t);
}

static size_t ids_of(const rf_engine *en, const char *text, int32_t *out, size_t cap) {
    size_t n = 0;
    rf_text why;
    assert_int_equal(rf_engine_tokenize(en, text, strlen(text), true, false, out, cap, &n, &why),
                     0);
    assert_true(n <= cap);
    return n;
}

/* A pair is [CLS] a [SEP] b [SEP], and for RoBERTa's kin <s> a </s></s> b </s>: its score is the
 * engine's for these tokens. */
static void test_pair(void **state) {
    (void)state;
    static const char *const models[] = {"reranker-bert", "reranker-roberta"};
    const rf_server_opts o = usual_opts();
    for (size_t m = 0; m < RF_COUNT(models); m++) {
        char path[300];
        snprintf(path, sizeof path, RF_SOURCE_DIR "/tests/data/server/%s.gguf", models[m]);
        under_test t = open_model(path, 2, &o);
        int32_t pair[60], second[20];
        size_t n = ids_of(t.engine, "the fox", pair, 40),
               n_b = ids_of(t.engine, "hello", second, 20);
        int32_t begin = pair[0], separator = pair[n - 1];
        assert_true(n > 3 && second[0] == begin && begin != separator);
        if (m == 1) pair[n++] = separator;
        memcpy(pair + n, second + 1, (n_b - 1) * sizeof *pair);
        n += n_b - 1;
        rf_json *j =
            post(&t, "/v1/rerank", "{\"query\":\"the fox\",\"documents\":[\"hello\"]}", 200);
        assert_int_equal(rf_json_int(at(j, "usage.prompt_tokens")), n);
        float want, got = (float)rf_json_real(at(j, "results.0.relevance_score"));
        rf_text why;
        close_server(&t);
        rf_engine *en; /* one that this thread may use */
        const rf_engine_opts eo = {.model_path = path, .n_threads = 1};
        assert_int_equal(rf_engine_open(&en, &eo, &why), ROCMFORGE_OK);
        assert_int_equal(rf_engine_embed(en, pair, n, NULL, &want, 1, &why), 0);
        assert_memory_equal(&got, &want, sizeof got);
        rf_json_free(j);
        rf_engine_close(en);
    }
}

/* Many texts: work for a while, where sanitizers make everything slow too. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { LONG_TEXTS = 40 };
#else
enum { LONG_TEXTS = 400 };
#endif
static rf_buf long_body(void) {
    rf_buf body = {0};
    rf_buf_puts(&body, "{\"input\":[");
    for (int i = 0; i < LONG_TEXTS; i++)
        rf_buf_printf(&body,
                      "%s\"once upon a time there were %d foxes and a cat who sang all day\"",
                      i ? "," : "", i);
    rf_buf_puts(&body, "]}");
    return body;
}

static void wait_for_tasks(const under_test *t, uint32_t n) {
    for (int i = 0; i < 300000 && rf_embeds_n_open(t->slot->embeds) != n; i++)
        usleep(1000);
    assert_int_equal(rf_embeds_n_open(t->slot->embeds), n);
}

/* A full queue is a 429 that says when to come again; whoever was let in gets the answer. */
static void test_full(void **state) {
    (void)state;
    rf_server_opts o = usual_opts();
    o.max_waiting = 0;
    under_test t = open_server(2, &o);
    rf_buf body = long_body();
    int fd = rf_test_connect(t.url);
    rf_test_request(fd, "POST", "/v1/embeddings", "", body.p);
    wait_for_tasks(&t, 1);
    rf_test_reply r = rf_test_ask(t.url, "POST", "/v1/embeddings", "", texts);
    assert_int_equal(r.status, 429);
    assert_non_null(strstr(r.head.p, "Retry-After: "));
    rf_test_reply_free(&r);
    assert_true(rf_test_read_reply(fd, &r));
    assert_int_equal(r.status, 200);
    rf_json *j = parse(rf_buf_str(&r.body));
    assert_int_equal(rf_json_len(at(j, "data")), LONG_TEXTS);
    rf_json_free(j);
    rf_test_reply_free(&r);
    close(fd);
    rf_json_free(post(&t, "/v1/embeddings", texts, 200));
    rf_buf_free(&body);
    close_server(&t);
}

/* A client that leaves ends its task; the next one is answered. */
static void test_left(void **state) {
    (void)state;
    under_test t = open_usual(2);
    rf_buf body = long_body();
    int fd = rf_test_connect(t.url);
    rf_test_request(fd, "POST", "/v1/embeddings", "", body.p);
    wait_for_tasks(&t, 1);
    close(fd);
    wait_for_tasks(&t, 0);
    assert_int_equal(rf_metrics_get(&t.server->metrics, RF_M_EMBED_FAILED), 1);
    rf_json_free(post(&t, "/v1/embeddings", texts, 200));
    rf_buf_free(&body);
    close_server(&t);
}

/* A server that stops refuses. */
static void test_stopping(void **state) {
    (void)state;
    under_test t = open_fixture("bert");
    rf_server_drain(t.server);
    rf_json *j = post(&t, "/v1/embeddings", texts, 503);
    assert_text(j, "error.code", "shutting_down");
    rf_json_free(j);
    close_server(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors), cmocka_unit_test(test_base64),
        cmocka_unit_test(test_many),    cmocka_unit_test(test_beside_generation),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_rerank),
        cmocka_unit_test(test_pair),    cmocka_unit_test(test_full),
        cmocka_unit_test(test_left),    cmocka_unit_test(test_stopping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
