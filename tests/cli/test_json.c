/* test_json.c - what every command prints with --json is one JSON value, with the members that
 * scripts rely on; so are its errors.
 *
 * Runs the program that the build put beside the tests and reads its output with the project's own
 * strict parser.  req: C-16, C-17 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/os.h"
#include "lib/testlib.h"

#define MODEL "-m " RF_TEST_DATA_DIR "/models/qwen3.gguf "

static char program[4200];

static rf_json *run(const char *args, const char *redirect, int expected_code) {
    char command[9000];
    char chunk[4096];
    rf_buf text = {0};
    rf_json *j = NULL;
    rf_error e = {0};
    snprintf(command, sizeof command,
             "env -u ROCMFORGE_GGUF -u ROCMFORGE_MODELS -u ROCMFORGE_CONFIG -u NO_COLOR "
             "XDG_CONFIG_HOME=/nonexistent '%s' %s %s </dev/null",
             program, args, redirect);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
        rf_buf_put(&text, chunk, n);
    int code = pclose(f);
    if (!WIFEXITED(code) || WEXITSTATUS(code) != expected_code)
        fail_msg("%s: exit code %d, expected %d", args, WEXITSTATUS(code), expected_code);
    assert_true(text.len > 0 && text.p[text.len - 1] == '\n');
    if (rf_json_parse(&j, rf_buf_str(&text), &e) != RF_OK)
        fail_msg("%s: %s: %.300s", args, e.text, text.p);
    rf_buf_free(&text);
    return j;
}

/* Follows "a.b.0.c" through objects and arrays. */
static const rf_json *at(const rf_json *j, const char *path) {
    char copy[200], *save = NULL;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *part = strtok_r(copy, ".", &save); part && j; part = strtok_r(NULL, ".", &save))
        j = rf_json_kind(j) == RF_JSON_ARRAY ? rf_json_at(j, strtoul(part, NULL, 10))
                                             : rf_json_get(j, part);
    return j;
}

/* ---- results ---- */

typedef struct result {
    const char *args;
    int code;
    const char *members; /* paths that must be there, separated by spaces */
} result;

static const result results[] = {
    {"generate " MODEL "--json -n 3 --temp 0 hello", 0,
     "text tokens.0 finish seed usage.prompt_tokens usage.generated_tokens timings.prompt_ms "
     "timings.decode_ms timings.tokens_per_second"},
    {"generate " MODEL "--json -n 4 --logprobs 2 --temp 1 --top-k 0 hello", 0,
     "logprobs.0.token logprobs.0.logprob logprobs.0.top.1.token logprobs.3.top.1.logprob"},
    {"generate " MODEL "--json -n 2 --logprobs 0 hello", 0, "logprobs.0.logprob logprobs.0.top"},
    {"generate " MODEL "--json -n 2 --logprobs 20 --logit-bias 3=-inf hello", 0,
     "logprobs.0.top.19"},
    {"generate " MODEL "--json -n 2 --echo 'a \"quoted\\ttext\"'", 0, "text"},
    {"tokenize " MODEL "--json hello", 0, "0 3"},
    {"tokenize " MODEL "--json ''", 0, ""},
    {"detokenize " MODEL "--json 71 68", 0, ""},
    {"detokenize " MODEL "--json --parse-special 1 95 96 126", 0, ""},
    {"bench " MODEL "--json -p 16 -p 8 -n 4 -r 2", 0,
     "model backend parameters weight_bytes peak_memory_bytes results.0.test "
     "results.0.tokens_per_second results.2.runs.1"},
    {"models --json", 0, "models architectures.0.name architectures.0.families"},
    {"models --json --models-dir " RF_TEST_DATA_DIR "/models", 0,
     "models.5.path models.5.name models.5.architecture models.5.bytes models.5.built_in "
     "models.5.error"},
    {"inspect --json --tensors " RF_TEST_DATA_DIR "/models/qwen3.gguf", 0, "version tensors.0"},
    {"gguf dump --json --all " RF_TEST_DATA_DIR "/models/qwen3.gguf", 0, ""},
    {"gguf verify --json " RF_TEST_DATA_DIR "/models/qwen3.gguf", 0, ""},
    {"version --json", 0, "version compiler backends.0 cpu_levels.2"},
    {"help --json", 0, "commands.0.name commands.0.flags.0.flag commands.0.flags.0.help"},
    {"help generate --json", 0, "commands.0.summary"},
    {"man --json", 0, "man"},
    {"completions bash --json", 0, "completions"},
};

static void results_are_json(void **state) {
    (void)state;
    for (size_t i = 0; i < RF_COUNT(results); i++) {
        rf_json *j = run(results[i].args, "", results[i].code);
        char copy[400], *save = NULL;
        snprintf(copy, sizeof copy, "%s", results[i].members);
        for (char *path = strtok_r(copy, " ", &save); path; path = strtok_r(NULL, " ", &save))
            if (!at(j, path)) fail_msg("%s: there is no %s", results[i].args, path);
        rf_json_free(j);
    }
}

/* What the numbers say fits together. */
static void values(void **state) {
    (void)state;
    rf_json *j = run(
        "generate " MODEL "--json -n 5 --temp 0 --seed 42 --logprobs 1 --ignore-eos hello", "", 0);
    assert_int_equal(rf_json_len(at(j, "tokens")), 5);
    assert_int_equal(rf_json_int(at(j, "usage.prompt_tokens")), 4);
    assert_int_equal(rf_json_int(at(j, "usage.generated_tokens")), 5);
    assert_int_equal(rf_json_int(at(j, "seed")), 42);
    assert_true(rf_str_is(rf_json_str(at(j, "finish")), "length"));
    for (size_t i = 0; i < 5; i++) {
        char path[64];
        snprintf(path, sizeof path, "logprobs.%zu", i);
        const rf_json *one = at(j, path);
        assert_int_equal(rf_json_int(at(one, "token")),
                         rf_json_int(rf_json_at(at(j, "tokens"), i)));
        assert_int_equal(rf_json_int(at(one, "top.0.token")), rf_json_int(at(one, "token")));
        double p = rf_json_real(at(one, "logprob"));
        assert_true(p <= 0 && p > -20 && rf_json_real(at(one, "top.0.logprob")) == p);
    }
    rf_json_free(j);
    j = run("bench " MODEL "--json -p 16 -n 0 -r 3", "", 0);
    assert_int_equal(rf_json_len(at(j, "results")), 1);
    assert_true(rf_str_is(rf_json_str(at(j, "results.0.test")), "pp16"));
    assert_int_equal(rf_json_len(at(j, "results.0.runs")), 3);
    double runs[3], median = rf_json_real(at(j, "results.0.tokens_per_second"));
    int below = 0, above = 0;
    for (size_t i = 0; i < 3; i++) {
        runs[i] = rf_json_real(rf_json_at(at(j, "results.0.runs"), i));
        assert_true(runs[i] > 0);
        below += runs[i] <= median;
        above += runs[i] >= median;
    }
    assert_true(below >= 2 && above >= 2);
    rf_json_free(j);
}

/* doctor's verdict is that of its checks, whatever this machine is like. */
static void doctor(void **state) {
    (void)state;
    char demo[4200];
    struct stat st;
    bool all = true;
    rf_exe_dir(demo, sizeof demo - 32);
    strcat(demo, "/../demo.gguf");
    rf_json *j = run("doctor --json || [ $? -eq 1 ]", "", 0);
    const rf_json *checks = at(j, "checks");
    assert_true(rf_json_len(checks) >= 4);
    for (size_t i = 0; i < rf_json_len(checks); i++) {
        const rf_json *one = rf_json_at(checks, i);
        all = all && rf_json_bool(at(one, "ok"));
        assert_true(rf_json_str(at(one, "text")).len > 0);
        if (rf_str_is(rf_json_str(at(one, "check")), "demo model"))
            assert_int_equal(rf_json_bool(at(one, "ok")), stat(demo, &st) == 0);
    }
    assert_int_equal(rf_json_bool(at(j, "ok")), all);
    rf_json_free(j);
}

static void logits(void **state) {
    (void)state;
    char args[8300];
    const char *out = rf_test_tmp("logits");
    snprintf(args, sizeof args, "logits " MODEL "--json --tokens 1,2,3 -o '%s'", out);
    rf_json *j = run(args, "", 0);
    struct stat st;
    assert_int_equal(stat(out, &st), 0);
    assert_int_equal(st.st_size, 3 * 128 * 4);
    assert_int_equal(rf_json_int(at(j, "n_tokens")), 3);
    assert_int_equal(rf_json_int(at(j, "n_vocab")), 128);
    assert_int_equal(rf_json_int(at(j, "bytes")), 3 * 128 * 4);
    assert_true(rf_str_is(rf_json_str(at(j, "output")), out));
    rf_json_free(j);
}

/* ---- errors ---- */

static void errors_are_json(void **state) {
    (void)state;
    static const struct {
        const char *args;
        int code;
        const char *says;
    } errors[] = {
        {"generate --json -m no-such.gguf x", 3, "no-such.gguf"},
        {"generate --json " MODEL "--temp 500 x", 2, "between 0 and 100"},
        {"tokenize --json " MODEL "-f /nonexistent/\\\"file", 3, "/nonexistent/\"file"},
        {"logits --json " MODEL "--tokens 999 -o x", 2, "token 0 is 999"},
        {"inspect --json " RF_TEST_DATA_DIR "/models/qwen3.tokens.txt", 4, "qwen3.tokens.txt"},
        {"models --json --models-dir /nonexistent", 3, "/nonexistent"},
        {"chat --json " MODEL, 5, "chat format"},
        {"bench --json " MODEL "-p x", 2, "n-prompt"},
        {"completions --json tcsh", 2, "tcsh"},
        {"help --json frob", 2, "frob"},
        {"frobnicate --json", 2, "unknown command"},
        {"generate --temp 500 --json x", 2, "between 0 and 100"},
    };
    for (size_t i = 0; i < RF_COUNT(errors); i++) {
        rf_json *j = run(errors[i].args, "2>&1 >/dev/null", errors[i].code);
        rf_str message = rf_json_str(at(j, "error.message"));
        assert_true(rf_json_str(at(j, "error.status")).len > 0);
        if (!memmem(message.p, message.len, errors[i].says, strlen(errors[i].says)))
            fail_msg("%s: '%.*s' does not say %s", errors[i].args, RF_STR_ARG(message),
                     errors[i].says);
        rf_json_free(j);
    }
}

static int find_program(void **state) {
    (void)state;
    char dir[4096];
    rf_exe_dir(dir, sizeof dir);
    snprintf(program, sizeof program, "%s/../rocmforge", dir);
    struct stat st;
    if (stat(program, &st) == 0) return 0;
    print_error("%s: the program is not built\n", program);
    return -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_json), cmocka_unit_test(values),
        cmocka_unit_test(doctor),           cmocka_unit_test(logits),
        cmocka_unit_test(errors_are_json),
    };
    return cmocka_run_group_tests(tests, find_program, NULL);
}
