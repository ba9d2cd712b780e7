/* cmd_pull.c - fetch a model: one GGUF file, or all files of a split one.  How a file is fetched without
 * losing anything is fetch.c's business. */
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/fetch.h"
#include "gguf/gguf.h"

enum { MAX_PARTS = 999, MAX_PATH = 4000, MAX_URL = 8000 };

/* Where the last component of a URL's path begins and ends, without query and fragment. */
static rf_status last_component(const char *url, const char **begin, size_t *len, rf_error *e) {
    const char *host = strstr(url, "://");
    if (!host || (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0))
        return rf_fail(e, RF_EARG, "'%.80s' is no address that starts with http:// or https://",
                       url);
    const char *path = strchr(host + 3, '/');
    size_t n = path ? strcspn(path, "?#") : 0;
    *begin = path;
    for (size_t i = 0; i < n; i++)
        if (path[i] == '/') *begin = path + i + 1;
    *len = path ? (size_t)(path + n - *begin) : 0;
    if (*len == 0 || (*begin)[0] == '.' || memchr(*begin, '%', *len) || *len > 200)
        return rf_fail(e, RF_EARG,
                       "'%.80s' does not end with the name of a file; name one with --output", url);
    return RF_OK;
}

/* model-00001-of-00003.gguf: the place of the number and how many there are; 1 for any other name. */
static unsigned parts_of(const char *name, size_t len, size_t *digits) {
    unsigned number = 0, n = 0;
    int used = 0;
    static const size_t tail = sizeof "-00001-of-00003.gguf" - 1;
    if (len <= tail) return 1;
    char copy[32];
    memcpy(copy, name + len - tail, tail);
    copy[tail] = '\0';
    if (sscanf(copy, "-%5u-of-%5u.gguf%n", &number, &n, &used) != 2 || used != (int)tail) return 1;
    *digits = len - tail + 1;
    return number == 1 && n > 1 && n <= MAX_PARTS ? n : 1;
}

static rf_status make_dirs(const char *dir, rf_error *e) {
    char path[MAX_PATH];
    snprintf(path, sizeof path, "%s", dir);
    for (char *p = path + 1;; p++) {
        if (*p != '/' && *p) continue;
        char end = *p;
        *p = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST)
            return rf_fail(e, RF_EIO, "%s: cannot be made: %s", path, strerror(errno));
        if (!end) return RF_OK;
        *p = end;
    }
}

/* --output FILE, else the URL's file name in the directory of models. */
static rf_status target_path(rf_cli *c, const char *name, size_t len, char out[MAX_PATH],
                             rf_error *e) {
    char dir[MAX_PATH];
    const char *output = rf_cli_str(c, RF_F_OUT);
    int n;
    if (output) {
        n = snprintf(out, MAX_PATH, "%s", output);
    } else {
        if (!rf_cli_models_dir(c, dir, sizeof dir))
            return rf_fail(e, RF_EARG,
                           "there is no home directory to keep models in; give --models-dir or "
                           "--output");
        RF_TRY(make_dirs(dir, e));
        n = snprintf(out, MAX_PATH, "%s/%.*s", dir, (int)len, name);
    }
    if (n < 0 || n >= MAX_PATH) return rf_fail(e, RF_EARG, "the path of the file is too long");
    if (access(out, F_OK) == 0)
        return rf_fail(e, RF_EARG, "%s exists already; remove it to fetch it again", out);
    return RF_OK;
}

/* What came must be what it says it is, before anyone runs it. */
static rf_status check_model(const char *path, rf_error *e) {
    rf_gguf *g = NULL;
    rf_error why = {0};
    rf_status s = rf_gguf_open(&g, path, &why);
    rf_gguf_close(g);
    if (s == RF_OK) return RF_OK;
    (void)unlink(path);
    return rf_fail(e, s, "what came is no GGUF file and was thrown away: %s", why.text);
}

typedef struct pulled {
    uint64_t bytes;
    char sha256[65];
    char path[MAX_PATH];
} pulled;

static void report(rf_cli *c, const pulled *p) {
    rf_buf out = {0};
    if (rf_cli_bool(c, RF_F_JSON)) {
        rf_buf_puts(&out, "{\"path\":");
        rf_buf_json_str(&out, rf_str_of(p->path));
        rf_buf_printf(&out, ",\"bytes\":%llu,\"sha256\":\"%s\"}\n", (unsigned long long)p->bytes,
                      p->sha256);
    } else {
        rf_buf_printf(&out, "%s: %.1f MB, sha256 %s\n", p->path, (double)p->bytes / 1e6, p->sha256);
    }
    rf_cli_write(c, &out);
    rf_buf_free(&out);
}

/* Part number i of n of a split model: the same address with another number. */
static rf_status pull_one(rf_cli *c, const char *url, unsigned i, unsigned n, rf_error *e) {
    char address[MAX_URL], what[48];
    pulled p = {0};
    const char *name;
    size_t len, digits = 0;
    int used = snprintf(address, sizeof address, "%s", url);
    if (used < 0 || (size_t)used >= sizeof address)
        return rf_fail(e, RF_EARG, "the URL is too long");
    RF_TRY(last_component(address, &name, &len, e));
    if (n > 1) {
        char number[8];
        (void)parts_of(name, len, &digits);
        snprintf(number, sizeof number, "%05u", i + 1);
        memcpy(address + (name - address) + digits, number, 5);
    }
    RF_TRY(target_path(c, name, len, p.path, e));
    snprintf(what, sizeof what, n > 1 ? "fetching %u of %u" : "fetching", i + 1, n);
    const rf_fetch_opts o = {.url = address,
                             .path = p.path,
                             .sha256 = n > 1 ? NULL : rf_cli_str(c, RF_F_SHA256),
                             .what = what};
    RF_TRY(rf_fetch(c, &o, &p.bytes, p.sha256, e));
    if (n == 1) RF_TRY(check_model(p.path, e)); /* a part alone cannot be opened */
    report(c, &p);
    return RF_OK;
}

static rf_status check_arguments(rf_cli *c, const char *url, unsigned *n, rf_error *e) {
    const char *name = url, *sha = rf_cli_str(c, RF_F_SHA256);
    size_t len = 0, digits;
    *n = 1;
    if (!rf_cli_given(c, RF_F_OUT)) {
        RF_TRY(last_component(url, &name, &len, e));
        *n = parts_of(name, len, &digits);
    }
    if (!sha) return RF_OK;
    if (strlen(sha) != 64 || strspn(sha, "0123456789abcdefABCDEF") != 64)
        return rf_fail(e, RF_EARG, "--sha256: expected 64 hexadecimal digits, got '%.80s'", sha);
    if (*n > 1)
        return rf_fail(e, RF_EARG, "--sha256: this model has %u files; fetch them one by one", *n);
    return RF_OK;
}

int rf_cmd_pull(rf_cli *c) {
    rf_error e = {0};
    unsigned n = 1;
    const char *url = rf_cli_arg(c, 0);
    rf_status s = check_arguments(c, url, &n, &e);
    if (s == RF_OK && curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
        s = rf_fail(&e, RF_EIO, "the network library cannot be started");
    rf_cli_catch_interrupts();
    for (unsigned i = 0; i < n && s == RF_OK; i++)
        s = pull_one(c, url, i, n, &e);
    curl_global_cleanup();
    if (s == RF_OK) return RF_EXIT_OK;
    int code = rf_cli_fail(c, &e);
    return rf_cli_interrupted() ? RF_EXIT_INTERRUPTED : code;
}
