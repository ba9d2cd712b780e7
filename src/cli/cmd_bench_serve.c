/* cmd_bench_serve.c - `bench serve`: load on a server that speaks OpenAI's API, and what came of it.
 *
 * Checks the flags, asks each server what it is, runs the same workload on one after the other,
 * prints the figures.  The load itself: load_run.c; the workload: load_work.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/os.h"
#include "cli/load.h"
#include "cli/load_http.h"

enum { MAX_SERVERS = 2, MAX_KEY = 4096, SPARE_FILES = 256 };

typedef struct bench_serve {
    rf_cli *c;
    rf_load_opts opts; /* url and model change with the server */
    rf_load_work work;
    char urls[MAX_SERVERS][480];
    rf_load_target targets[MAX_SERVERS];
    rf_load_result results[MAX_SERVERS];
    size_t n_servers, n_run;
    char key[MAX_KEY + 1];
} bench_serve;

static rf_status read_urls(bench_serve *b, rf_error *e) {
    const char *const *urls, *usual = "http://127.0.0.1:8080";
    size_t n = rf_cli_list(b->c, RF_F_URL, &urls);
    if (n == 0) n = 1, urls = &usual;
    if (n > MAX_SERVERS)
        return rf_fail(e, RF_EARG, "--url is given %zu times; two servers can be compared", n);
    for (size_t k = 0; k < n; k++) {
        size_t len = strlen(urls[k]);
        while (len > 0 && urls[k][len - 1] == '/')
            len--;
        bool http = strncmp(urls[k], "http://", 7) == 0 || strncmp(urls[k], "https://", 8) == 0;
        if (!http || len < 9 || len >= sizeof b->urls[k] || strcspn(urls[k], "?# ") < len)
            return rf_fail(e, RF_EARG, "--url: '%.80s' is not http://HOST:PORT or https://HOST",
                           urls[k]);
        memcpy(b->urls[k], urls[k], len);
    }
    b->n_servers = n;
    return RF_OK;
}

/* The key never stands on the command line, where other users of the machine could see it. */
static rf_status read_key(bench_serve *b, rf_error *e) {
    const char *name = rf_cli_str(b->c, RF_F_KEY_ENV), *file = rf_cli_str(b->c, RF_F_KEY_FILE);
    if (name && file) return rf_fail(e, RF_EARG, "--api-key-env and --key-file are both given");
    if (!name && !file) return RF_OK;
    const char *from = name ? name : file, *text = name ? getenv(name) : NULL;
    uint8_t *bytes = NULL;
    size_t len = text ? strlen(text) : 0;
    if (name && !text)
        return rf_fail(e, RF_EARG, "--api-key-env: the variable %.80s is not set", name);
    if (file) RF_TRY(rf_file_read(file, MAX_KEY, &bytes, &len, e));
    if (len <= MAX_KEY && len > 0) memcpy(b->key, text ? text : (const char *)bytes, len);
    rf_free(bytes);
    b->key[strcspn(b->key, "\r\n")] = '\0';
    for (const char *p = b->key; *p; p++)
        if (*p <= ' ' || *p > '~') len = 0;
    if (len == 0 || len > MAX_KEY || !b->key[0])
        return rf_fail(e, RF_EARG, "%.200s: expected a key of 1 to %d visible ASCII characters",
                       from, MAX_KEY);
    b->opts.key = b->key;
    return RF_OK;
}

static rf_status read_work(bench_serve *b, rf_error *e) {
    const char *kind = rf_cli_str(b->c, RF_F_WORKLOAD);
    bool shared = strcmp(kind, "shared-prefix") == 0;
    if (!shared && strcmp(kind, "random") != 0)
        return rf_fail(e, RF_EARG, "--workload: '%.40s' is neither random nor shared-prefix", kind);
    if (!shared && rf_cli_given(b->c, RF_F_LOAD_PREFIX))
        return rf_fail(e, RF_EARG, "--n-prefix says nothing without --workload shared-prefix");
    bool narrows = rf_cli_given(b->c, RF_F_LOAD_TOP_K) || rf_cli_given(b->c, RF_F_LOAD_TOP_P);
    if (narrows && rf_cli_num(b->c, RF_F_LOAD_TEMP) <= 0)
        return rf_fail(e, RF_EARG, "--top-k and --top-p say nothing without --temp");
    b->work = (rf_load_work){
        .shared_prefix = shared,
        .n_prefix = (uint32_t)rf_cli_int(b->c, RF_F_LOAD_PREFIX),
        .n_prompt = (uint32_t)rf_cli_int(b->c, RF_F_LOAD_P),
        .n_gen = (uint32_t)rf_cli_int(b->c, RF_F_LOAD_N),
        .spread = rf_cli_num(b->c, RF_F_SPREAD),
        .temperature = rf_cli_num(b->c, RF_F_LOAD_TEMP),
        .top_k = (uint32_t)rf_cli_int(b->c, RF_F_LOAD_TOP_K),
        .top_p = rf_cli_num(b->c, RF_F_LOAD_TOP_P),
        .cancel = rf_cli_num(b->c, RF_F_CANCEL),
        .seed = (uint64_t)rf_cli_int(b->c, RF_F_LOAD_SEED),
    };
    return RF_OK;
}

static rf_status read_flags(bench_serve *b, rf_error *e) {
    const rf_cli *c = b->c;
    if (rf_cli_given(c, RF_F_RATE) && rf_cli_given(c, RF_F_CONCURRENCY))
        return rf_fail(e, RF_EARG, "--rate and --concurrency exclude each other");
    b->opts = (rf_load_opts){
        .cli = c,
        .n_requests = (size_t)rf_cli_int(c, RF_F_REQUESTS),
        .n_warmup = (size_t)rf_cli_int(c, RF_F_WARMUP),
        .concurrency = (uint32_t)rf_cli_int(c, RF_F_CONCURRENCY),
        .rate = rf_cli_num(c, RF_F_RATE),
        .n_idle = (uint32_t)rf_cli_int(c, RF_F_IDLE),
        .timeout_s = (uint32_t)rf_cli_int(c, RF_F_LOAD_TIMEOUT),
    };
    RF_TRY(read_urls(b, e));
    RF_TRY(read_work(b, e));
    return read_key(b, e);
}

/* Prompts are token ids only where every server takes them, so that all get the same. */
static rf_status probe(bench_serve *b, rf_error *e) {
    b->work.as_tokens = true;
    for (size_t k = 0; k < b->n_servers; k++) {
        rf_load_target *t = &b->targets[k];
        b->opts.url = b->urls[k];
        RF_TRY(rf_load_probe(&b->opts, rf_cli_str(b->c, RF_F_SERVED), t, e));
        b->work.as_tokens = b->work.as_tokens && t->takes_tokens;
        if (k == 0 || t->n_vocab < b->work.n_vocab) b->work.n_vocab = t->n_vocab;
    }
    return RF_OK;
}

/* Every connection is a file; systems allow 1,024 unless asked.  Where they allow too few all the same,
 * the connections that fail say so. */
static void allow_files(const rf_load_opts *o) {
    struct rlimit limit;
    rlim_t want =
        SPARE_FILES + (rlim_t)o->n_idle + (o->rate > 0 ? RF_LOAD_MAX_IN_FLIGHT : o->concurrency);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= want) return;
    limit.rlim_cur = limit.rlim_max < want ? limit.rlim_max : want;
    (void)!setrlimit(RLIMIT_NOFILE, &limit);
}

static rf_status write_plot(bench_serve *b, rf_error *e) {
    const char *path = rf_cli_str(b->c, RF_F_PLOT);
    rf_buf svg = {0};
    if (!path) return RF_OK;
    rf_load_plot(b->results, b->n_run, &svg);
    rf_status s = svg.failed ? rf_fail_nomem(e, svg.len) : rf_file_write(path, svg.p, svg.len, e);
    rf_buf_free(&svg);
    return s;
}

static rf_status run(bench_serve *b, rf_error *e) {
    RF_TRY(read_flags(b, e));
    rf_cli_catch_interrupts();
    allow_files(&b->opts);
    RF_TRY(probe(b, e));
    for (size_t k = 0; k < b->n_servers && !rf_cli_interrupted(); k++) {
        b->opts.url = b->urls[k];
        b->opts.model = b->targets[k].model;
        b->n_run = k + 1;
        RF_TRY(rf_load_run(&b->opts, &b->work, &b->results[k], e));
    }
    if (b->n_run == 0) return rf_fail(e, RF_ECANCELLED, "interrupted");
    rf_buf out = {0};
    if (rf_cli_bool(b->c, RF_F_JSON))
        rf_load_report_json(&b->opts, &b->work, b->results, b->n_run, &out);
    else
        rf_load_report_text(b->results, b->n_run, &out);
    rf_cli_write(b->c, &out);
    rf_buf_free(&out);
    return write_plot(b, e);
}

static int exit_code(const bench_serve *b) {
    size_t n_failed = 0;
    for (size_t k = 0; k < b->n_run; k++)
        n_failed += b->results[k].n_failed + b->results[k].n_warmup_failed + b->results[k].n_idle -
                    b->results[k].n_idle_kept;
    if (rf_cli_interrupted()) return RF_EXIT_INTERRUPTED;
    return n_failed ? RF_EXIT_FAILED : RF_EXIT_OK;
}

int rf_cmd_bench_serve(rf_cli *c) {
    rf_error e = {0};
    bench_serve *b = rf_alloc(1, sizeof *b);
    if (!b) {
        rf_fail_nomem(&e, sizeof *b);
        return rf_cli_fail(c, &e);
    }
    b->c = c;
    rf_status s = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? run(b, &e)
                                                                    : rf_fail_nomem(&e, sizeof *b);
    int code = s == RF_OK     ? exit_code(b)
               : s == RF_EARG ? rf_cli_usage(c, "%s", e.text)
                              : rf_cli_fail(c, &e);
    curl_global_cleanup();
    for (size_t k = 0; k < MAX_SERVERS; k++)
        rf_load_result_free(&b->results[k]);
    rf_free(b);
    return code;
}
