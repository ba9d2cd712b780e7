/* Several models in one server: their names, loading on demand under a budget, who must go and who never
 * does, loading and unloading by hand, and a crowd that wants all of them at once. */
#include "gpuemu/host/host.h"
#include "gpuemu/host/several.h"
#include "server/harness.h"

enum { N_FILES = 3 };

/* a.gguf, b.gguf and c.gguf: each the demo model, and a model to the server. */
static char paths[N_FILES][300], broken[300];
static const char *const names[N_FILES] = {"a", "b", "c"};

static int make_files(void **state) {
    (void)state;
    for (int i = 0; i < N_FILES; i++) {
        char file[20];
        snprintf(file, sizeof file, "%s.gguf", names[i]);
        snprintf(paths[i], sizeof paths[i], "%s", rf_test_tmp(file));
        unlink(paths[i]);
        if (symlink(RF_SOURCE_DIR "/models/demo.gguf", paths[i]) != 0) return -1;
    }
    snprintf(broken, sizeof broken, "%s", rf_test_tmp("broken.gguf"));
    FILE *f = fopen(broken, "w");
    if (!f) return -1;
    fputs("GGUF it is not", f);
    return fclose(f);
}

/* A server that knows a, b and c; the first at_start of them are loaded at the start. */
static under_test open_three(int at_start, uint64_t budget, uint32_t ttl_seconds) {
    rf_model_name list[N_FILES];
    for (int i = 0; i < N_FILES; i++)
        list[i] = (rf_model_name){names[i], paths[i], i < at_start};
    rf_server_opts o = usual_opts();
    o.models = list;
    o.n_models = N_FILES;
    o.models_budget = budget;
    o.model_ttl_seconds = ttl_seconds;
    return open_server(2, &o);
}

static uint64_t bytes_of_one(void) {
    under_test t = open_three(1, 0, 0);
    uint64_t bytes = rf_slot_bytes(t.slot);
    close_server(&t);
    return bytes;
}

static rf_model_state state_of(const under_test *t, size_t i) {
    rf_model_view v;
    rf_models_view(t->server->models, i, &v);
    rf_models_release(t->server->models, v.slot);
    return v.state;
}

static void wait_for_state(const under_test *t, size_t i, rf_model_state want) {
    for (int k = 0; k < 300000 && state_of(t, i) != want; k++)
        usleep(1000);
    assert_int_equal(state_of(t, i), want);
}

static void wait_until_all_idle(const under_test *t) {
    for (int k = 0; k < 300000 && (rf_models_n_open(t->server->models) || !all_counted(t)); k++)
        usleep(1000);
    assert_int_equal(rf_models_n_open(t->server->models), 0);
}

#define ASK(model, more) "{\"model\":\"" model "\",\"prompt\":\"Once upon\",\"seed\":4" more "}"
#define SHORT            ",\"max_tokens\":5"
#define LONG             ",\"max_tokens\":900,\"ignore_eos\":true"

/* Asks model i; the status, and its answer's text (freed by the caller). */
static int ask(const under_test *t, int i, char **text) {
    char body[200];
    snprintf(body, sizeof body,
             "{\"model\":\"%s\",\"prompt\":\"Once upon\",\"seed\":4,\"max_tokens\":5}", names[i]);
    rf_test_reply r = rf_test_ask(t->url, "POST", "/generate", "", body);
    rf_json *j = parse(rf_buf_str(&r.body));
    if (r.status == 200) assert_text(j, "model", names[i]);
    *text = r.status == 200 ? strdup(rf_json_str(at(j, "text")).p) : NULL;
    int status = r.status;
    rf_json_free(j);
    rf_test_reply_free(&r);
    return status;
}

static void ask_well(const under_test *t, int i) {
    char *text;
    assert_int_equal(ask(t, i, &text), 200);
    free(text);
}

/* ---- names ---- */

static void test_names(void **state) {
    (void)state;
    const rf_model_name list[] = {{"first", paths[0], true},
                                  {"second", paths[1], false},
                                  {"other", paths[0], false}, /* the same file: an alias */
                                  {"second/too", paths[1], false}};
    rf_server_opts o = usual_opts();
    o.models = list;
    o.n_models = RF_COUNT(list);
    under_test t = open_server(1, &o);
    rf_json *j = post(&t, "/generate", "{\"prompt\":\"a\",\"max_tokens\":1}", 200);
    assert_text(j, "model", "first"); /* the one that was loaded at the start */
    rf_json_free(j);
    j = post(&t, "/generate", ASK("other", SHORT), 200);
    assert_text(j, "model", "first");
    rf_json_free(j);
    j = post(&t, "/generate", ASK("third", SHORT), 404);
    assert_text(j, "error.code", "model_not_found");
    assert_non_null(strstr(rf_json_str(at(j, "error.message")).p, "'first', 'second'"));
    rf_json_free(j);
    assert_int_equal(state_of(&t, 1), RF_MODEL_UNLOADED);
    rf_test_reply r = rf_test_ask(t.url, "GET", "/v1/models", "", NULL);
    j = parse(rf_buf_str(&r.body));
    assert_int_equal(rf_json_len(rf_json_get(j, "data")), 2);
    assert_text(j, "data.0.id", "first");
    assert_text(j, "data.0.status.value", "loaded");
    assert_text(j, "data.0.aliases.0", "other");
    assert_text(j, "data.1.status.value", "unloaded");
    assert_text(j, "data.1.aliases.0", "second/too");
    rf_json_free(j);
    rf_test_reply_free(&r);
    r = rf_test_ask(t.url, "GET", "/v1/models/second/too", "", NULL);
    j = parse(rf_buf_str(&r.body));
    assert_text(j, "id", "second");
    rf_json_free(j);
    rf_test_reply_free(&r);
    r = rf_test_ask(t.url, "GET", "/props?a=b&model=second%2Ftoo", "", NULL);
    j = parse(rf_buf_str(&r.body));
    assert_text(j, "model.id", "second");
    assert_text(j, "model.status.value", "unloaded");
    rf_json_free(j);
    rf_test_reply_free(&r);
    close_server(&t);

    rf_server *s;
    rf_error e = {0};
    const rf_model_name twice[] = {{"x", paths[0], true}, {"x", paths[1], false}};
    o.models = twice;
    o.n_models = 2;
    assert_int_equal(rf_server_open(&s, &o, &e), RF_EARG);
    assert_non_null(strstr(e.text, "two models are called 'x'"));
}

/* None was loaded at the start: which one is meant must be said. */
static void test_no_default(void **state) {
    (void)state;
    under_test t = open_three(0, 0, 0);
    rf_json *j = post(&t, "/generate", "{\"prompt\":\"a\"}", 400);
    assert_text(j, "error.param", "model");
    rf_json_free(j);
    rf_test_reply r = rf_test_ask(t.url, "GET", "/ready", "", NULL);
    assert_int_equal(r.status, 200);
    rf_test_reply_free(&r);
    close_server(&t);
}

/* ---- on demand ---- */

/* Every route that needs a model loads it, and the request that waited is answered as any other. */
static void test_on_demand(void **state) {
    (void)state;
    static const struct {
        const char *path, *body, *member;
    } cases[] = {
        {"/generate", ASK("b", SHORT), "text"},
        {"/v1/completions", ASK("b", SHORT), "choices"},
        {"/v1/chat/completions",
         "{\"model\":\"b\",\"max_tokens\":2,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}",
         "choices"},
        {"/v1/messages",
         "{\"model\":\"b\",\"max_tokens\":2,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}",
         "content"},
        {"/v1/responses", "{\"model\":\"b\",\"max_output_tokens\":2,\"input\":\"Hi\"}", "output"},
        {"/v1/messages/count_tokens",
         "{\"model\":\"b\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", "input_tokens"},
        {"/v1/embeddings", "{\"model\":\"b\",\"input\":\"Hi\"}", "data"},
        {"/tokenize", "{\"model\":\"b\",\"content\":\"Hi\"}", "tokens"},
        {"/detokenize", "{\"model\":\"b\",\"tokens\":[5]}", "content"},
        {"/apply-template",
         "{\"model\":\"b\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", "prompt"},
        {"/models/load", "{\"model\":\"b\"}", "success"},
    };
    under_test t = open_three(1, 0, 0);
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_json *j = post(&t, cases[i].path, cases[i].body, 200);
        assert_int_not_equal(rf_json_kind(rf_json_get(j, cases[i].member)), RF_JSON_NULL);
        rf_json_free(j);
        assert_int_equal(state_of(&t, 1), RF_MODEL_LOADED);
        wait_until_all_idle(&t);
        j = post(&t, "/models/unload", "{\"model\":\"b\"}", 200);
        assert_text(j, "status.value", "unloaded");
        rf_json_free(j);
        assert_int_equal(state_of(&t, 1), RF_MODEL_UNLOADED);
    }
    assert_int_equal(rf_metrics_get(&t.server->metrics, RF_M_MODEL_LOADS), 1 + RF_COUNT(cases));
    close_server(&t);
}

/* Many that wait for one model: it is loaded once, and each gets what the model says alone. */
static void test_many_wait(void **state) {
    (void)state;
    under_test t = open_three(1, 0, 0);
    char *alone;
    assert_int_equal(ask(&t, 0, &alone), 200);
    int fds[20];
    for (size_t i = 0; i < RF_COUNT(fds); i++) {
        fds[i] = rf_test_connect(t.url);
        rf_test_request(fds[i], "POST", "/generate", "", ASK("b", SHORT));
    }
    rf_test_reset(fds[0]); /* one leaves */
    for (size_t i = 1; i < RF_COUNT(fds); i++) {
        rf_test_reply r;
        assert_true(rf_test_read_reply(fds[i], &r));
        rf_json *j = parse(rf_buf_str(&r.body));
        assert_text(j, "text", alone);
        rf_json_free(j);
        rf_test_reply_free(&r);
        close(fds[i]);
    }
    assert_int_equal(rf_metrics_get(&t.server->metrics, RF_M_MODEL_LOADS), 2);
    wait_until_all_idle(&t);
    free(alone);
    close_server(&t);
}

/* A file that is no model: those who wait are told so, and so is who comes soon after. */
static void test_broken(void **state) {
    (void)state;
    const rf_model_name list[] = {{"a", paths[0], true}, {"broken", broken, false}};
    rf_server_opts o = usual_opts();
    o.models = list;
    o.n_models = 2;
    under_test t = open_server(1, &o);
    rf_json *j = post(&t, "/generate", ASK("broken", SHORT), 503);
    assert_text(j, "error.code", "model_load_failed");
    rf_json_free(j);
    rf_test_reply r = rf_test_ask(t.url, "POST", "/v1/messages", "",
                                  "{\"model\":\"broken\",\"max_tokens\":2,\"messages\":[{\"role\":"
                                  "\"user\",\"content\":\"Hi\"}]}");
    char retry[20];
    assert_int_equal(r.status, 503);
    assert_non_null(rf_test_header(&r, "Retry-After", retry, sizeof retry));
    j = parse(rf_buf_str(&r.body));
    assert_text(j, "type", "error"); /* in the words of that route's clients */
    rf_json_free(j);
    rf_test_reply_free(&r);
    rf_json_free(post(&t, "/generate", ASK("a", SHORT), 200));
    close_server(&t);
    rf_server *s;
    rf_error e = {0};
    const rf_model_name at_start = {"broken", broken, true};
    o.models = &at_start;
    o.n_models = 1;
    assert_int_not_equal(rf_server_open(&s, &o, &e), RF_OK);
    assert_non_null(strstr(e.text, "broken.gguf"));
}

/* ---- the budget ---- */

/* With room for two the one that was idle for longest goes; one that answers stays. */
static void test_budget(void **state) {
    (void)state;
    uint64_t one = bytes_of_one();
    under_test t = open_three(2, 2 * one + one / 2, 0);
    ask_well(&t, 1);
    ask_well(&t, 0); /* now b is the one that was used least recently */
    wait_until_all_idle(&t);
    ask_well(&t, 2);
    assert_int_equal(state_of(&t, 0), RF_MODEL_LOADED);
    assert_int_equal(state_of(&t, 1), RF_MODEL_UNLOADED);
    assert_int_equal(state_of(&t, 2), RF_MODEL_LOADED);
    wait_until_all_idle(&t);
    int fds[2];
    rf_buf seen = {0};
    for (int i = 0; i < 2; i++) { /* a and c are busy: no room for b */
        fds[i] = rf_test_connect(t.url);
        rf_test_request(fds[i], "POST", "/generate", "",
                        i ? ASK("c", LONG ",\"stream\":true") : ASK("a", LONG ",\"stream\":true"));
        rf_buf_clear(&seen);
        assert_true(rf_test_read_until(fds[i], &seen, "\"token\""));
    }
    rf_test_reply r = rf_test_ask(t.url, "POST", "/generate", "", ASK("b", SHORT));
    rf_json *j = parse(rf_buf_str(&r.body));
    char retry[20];
    assert_int_equal(r.status, 503);
    assert_text(j, "error.code", "no_room");
    assert_non_null(rf_test_header(&r, "Retry-After", retry, sizeof retry));
    assert_true(atoi(retry) >= 1);
    rf_json_free(j);
    rf_test_reply_free(&r);
    j = post(&t, "/models/unload", "{\"model\":\"a\"}", 409);
    assert_text(j, "error.code", "model_busy");
    rf_json_free(j);
    assert_true(rf_test_read_until(fds[0], &seen, "\"token\"")); /* nothing happened to it */
    close(fds[1]);
    for (int k = 0; k < 300000 && state_of(&t, 2) == RF_MODEL_LOADED; k++) {
        char *text;
        int status = ask(&t, 1, &text);
        free(text);
        if (status == 200) break;
        usleep(1000);
    }
    wait_for_state(&t, 1, RF_MODEL_LOADED);
    assert_int_equal(state_of(&t, 2), RF_MODEL_UNLOADED);
    assert_int_equal(state_of(&t, 0), RF_MODEL_LOADED);
    close(fds[0]);
    rf_buf_free(&seen);
    wait_until_all_idle(&t);
    close_server(&t);
}

/* A model that the budget can never hold, by its file alone and with its KV cache. */
static void test_over_budget(void **state) {
    (void)state;
    const uint64_t budgets[] = {1 << 20, bytes_of_one() - 1};
    for (size_t i = 0; i < RF_COUNT(budgets); i++) {
        under_test t = open_three(0, budgets[i], 0);
        rf_json *j = post(&t, "/generate", ASK("a", SHORT), 503);
        assert_text(j, "error.code", "out_of_memory");
        assert_non_null(strstr(rf_json_str(at(j, "error.message")).p, "--models-budget-mb"));
        rf_json_free(j);
        assert_int_equal(state_of(&t, 0), RF_MODEL_UNLOADED);
        close_server(&t);
    }
    rf_server *s;
    rf_error e = {0};
    const rf_model_name both[] = {{"a", paths[0], true}, {"b", paths[1], true}};
    rf_server_opts o = usual_opts();
    o.models = both;
    o.n_models = 2;
    o.models_budget = bytes_of_one() * 3 / 2;
    assert_int_equal(rf_server_open(&s, &o, &e), RF_EFULL);
    assert_non_null(strstr(e.text, "'b'"));
}

/* Who is not used for the time given goes, and comes back when asked. */
static void test_ttl(void **state) {
    (void)state;
    under_test t = open_three(1, 0, 1);
    char *before, *after;
    assert_int_equal(ask(&t, 0, &before), 200);
    wait_for_state(&t, 0, RF_MODEL_UNLOADED);
    assert_int_equal(ask(&t, 0, &after), 200);
    assert_string_equal(before, after);
    free(before);
    free(after);
    close_server(&t);
}

/* ---- metrics ---- */

static double metric(const char *text, const char *name) {
    char line[100];
    snprintf(line, sizeof line, "\nrocmforge_%s ", name);
    const char *p = strstr(text, line);
    if (!p) fail_msg("no metric %s", name);
    return strtod(p + strlen(line), NULL);
}

/* Sums over all models, and each one's; counters do not fall when a model goes. */
static void test_metrics(void **state) {
    (void)state;
    under_test t = open_three(1, 0, 0);
    ask_well(&t, 0);
    ask_well(&t, 1);
    ask_well(&t, 1);
    wait_until_all_idle(&t);
    rf_json_free(post(&t, "/models/unload", "{\"model\":\"b\"}", 200));
    rf_test_reply r = rf_test_ask(t.url, "GET", "/metrics", "", NULL);
    const char *m = r.body.p;
    assert_true(metric(m, "models") == 3 && metric(m, "models_loaded") == 1);
    assert_true(metric(m, "model_loads_total") == 2);
    assert_true(metric(m, "requests_completed_total") == 3);
    assert_true(metric(m, "tokens_generated_total") == 15);
    assert_true(metric(m, "model_tokens_generated_total{model=\"a\"}") == 5);
    assert_true(metric(m, "model_tokens_generated_total{model=\"b\"}") == 10);
    assert_true(metric(m, "model_tokens_generated_total{model=\"c\"}") == 0);
    assert_true(metric(m, "model_bytes{model=\"a\"}") > 1e6);
    assert_true(metric(m, "model_bytes{model=\"b\"}") == 0);
    assert_true(metric(m, "kv_blocks") == 512); /* of the one that is loaded */
    rf_test_reply_free(&r);
    close_server(&t);
}

/* ---- crowds and ends ---- */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ROUNDS = 2 }; /* each loads models over and over */
#else
enum { ROUNDS = 10 };
#endif

/* Three models, room for two, clients that come, leave and unload: who was accepted is answered, with
 * the tokens of the model alone. */
static void test_churn(void **state) {
    (void)state;
    uint64_t one = bytes_of_one(), noise = 5;
    under_test t = open_three(0, 2 * one + one / 2, 0);
    char *alone;
    assert_int_equal(ask(&t, 0, &alone), 200);
    int fds[12];
    size_t n_answered = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < RF_COUNT(fds); i++) {
            char body[200];
            uint64_t dice = rf_test_rand(&noise);
            snprintf(body, sizeof body,
                     "{\"model\":\"%s\",\"prompt\":\"Once upon\",\"seed\":4,\"max_tokens\":5}",
                     names[dice % 3]);
            fds[i] = rf_test_connect(t.url);
            if (dice / 3 % 8 == 0)
                rf_test_request(fds[i], "POST", "/models/unload", "", body);
            else
                rf_test_request(fds[i], "POST", "/generate", "", body);
            if (dice / 24 % 8 != 0) continue;
            rf_test_reset(fds[i]);
            fds[i] = -1;
        }
        for (size_t i = 0; i < RF_COUNT(fds); i++) {
            rf_test_reply r;
            if (fds[i] < 0) continue;
            assert_true(rf_test_read_reply(fds[i], &r));
            rf_json *j = parse(rf_buf_str(&r.body));
            if (r.status == 200 && rf_json_kind(at(j, "text")) == RF_JSON_STRING) {
                assert_text(j, "text", alone);
                n_answered++;
            } else if (r.status != 200 && r.status != 503 && r.status != 409) {
                fail_msg("%d %s", r.status, r.body.p);
            }
            rf_json_free(j);
            rf_test_reply_free(&r);
            close(fds[i]);
        }
    }
    assert_true(n_answered > 0);
    wait_until_all_idle(&t);
    const rf_metrics *m = &t.server->metrics;
    assert_int_equal(rf_metrics_get(m, RF_M_STARTED),
                     rf_metrics_get(m, RF_M_COMPLETED) + rf_metrics_get(m, RF_M_CANCELLED));
    free(alone);
    close_server(&t);
}

/* A server that stops loads nothing more, and tells those who wait for a model. */
static void test_drain(void **state) {
    (void)state;
    under_test t = open_three(1, 0, 0);
    rf_server_drain(t.server);
    rf_json *j = post(&t, "/generate", ASK("b", SHORT), 503);
    assert_text(j, "error.code", "shutting_down");
    rf_json_free(j);
    rf_json_free(post(&t, "/generate", ASK("a", SHORT), 503));
    rf_json_free(post(&t, "/models/unload", "{\"model\":\"a\"}", 503));
    close_server(&t);
    t = open_three(0, 0, 0); /* and ends also with requests that wait or were loaded just now */
    int fds[6];
    for (size_t i = 0; i < RF_COUNT(fds); i++) {
        fds[i] = rf_test_connect(t.url);
        rf_test_request(fds[i], "POST", "/generate", "", i % 2 ? ASK("b", LONG) : ASK("a", LONG));
    }
    usleep(20000);
    close_server(&t);
    for (size_t i = 0; i < RF_COUNT(fds); i++)
        close(fds[i]);
}

/* req: B-11: what runs where is told, of a model on a GPU (this processor) and the CPU as of one on the CPU */
static void test_stages(void **state) {
    (void)state;
    const size_t room[] = {1 << 30, 1 << 30};
    char path[300];
    snprintf(path, sizeof path, "%s", rf_test_data("models/qwen3.gguf"));
    const rf_model_name list[] = {{"m", path, true}};
    rf_server_opts o = usual_opts();
    o.models = list;
    o.n_models = 1;
    o.engine.backend = "auto";
    o.engine.devices = "1";
    o.engine.gpu_layers = 1;
    rf_gpu_driver_set(rf_several_gpus(rf_host_gpu(), 2, room));
    under_test t = open_server(1, &o);
    rf_test_reply r = rf_test_ask(t.url, "GET", "/props", "", NULL);
    rf_json *j = parse(rf_buf_str(&r.body));
    assert_text(j, "model.stages.0.device", "cpu");
    assert_text(j, "model.stages.1.device", "gpu 1");
    assert_int_equal(rf_json_int(at(j, "model.stages.1.first_layer")), 1);
    assert_int_equal(rf_json_int(at(j, "model.stages.1.n_layers")), 1);
    assert_int_equal(rf_json_int(at(j, "model.stages.1.total")), rf_several_taken(1));
    assert_true(rf_str_starts(rf_json_str(at(j, "model.backend")), "layers 0-0 on cpu "));
    rf_json_free(j);
    rf_test_reply_free(&r);
    r = rf_test_ask(t.url, "GET", "/metrics", "", NULL);
    assert_true(metric(r.body.p, "model_layers{model=\"m\",device=\"cpu\"}") == 1);
    assert_true(metric(r.body.p, "model_layers{model=\"m\",device=\"gpu 1\"}") == 1);
    assert_true(metric(r.body.p, "model_device_bytes{model=\"m\",device=\"gpu 1\"}") ==
                (double)rf_several_taken(1));
    rf_test_reply_free(&r);
    close_server(&t);
    rf_gpu_driver_set(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),       cmocka_unit_test(test_no_default),
        cmocka_unit_test(test_on_demand),   cmocka_unit_test(test_many_wait),
        cmocka_unit_test(test_broken),      cmocka_unit_test(test_budget),
        cmocka_unit_test(test_over_budget), cmocka_unit_test(test_ttl),
        cmocka_unit_test(test_metrics),     cmocka_unit_test(test_churn),
        cmocka_unit_test(test_drain),       cmocka_unit_test(test_stages),
    };
    return cmocka_run_group_tests(tests, make_files, NULL);
}
