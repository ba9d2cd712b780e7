/* fetch.c - one download by libcurl: resume, retry, digest, rename.  Private to `pull`. */
#include "cli/fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/os.h"

enum {
    MAX_TRIES = 5, /* in a row without a single new byte */
    MAX_REDIRECTS = 10,
    CONNECT_SECONDS = 30,
    STALL_SECONDS = 30,
    FIRST_WAIT_MS = 200, /* doubled at each try */
    MAX_TAG = 255,
    COPY_BYTES = 1 << 16,
};

typedef struct fetch {
    const rf_cli *c;
    const rf_fetch_opts *o;
    rf_error *e;
    rf_status status; /* of what a callback found wrong */
    char part[4096], tag_path[4096];
    int fd;
    uint64_t have;         /* bytes of the part */
    uint64_t total;        /* of the whole file; 0: not known yet */
    char tag[MAX_TAG + 1]; /* validator of the version that the part belongs to */
    CURL *curl;
    char curl_text[CURL_ERROR_SIZE];
    /* headers of the response in progress */
    char etag[MAX_TAG + 1], modified[MAX_TAG + 1], linked[RF_SHA256_HEX];
    uint64_t range_from, range_total;
    bool has_range, body_begun;
    rf_progress progress;
} fetch;

static rf_status fail_file(fetch *f, const char *path, const char *doing) {
    return rf_fail(f->e, RF_EIO, "%s: cannot be %s: %s", path, doing, strerror(errno));
}

/* ---- the part on disk ---- */

static rf_status open_part(fetch *f) {
    struct stat st;
    int n = snprintf(f->part, sizeof f->part, "%s.part", f->o->path);
    if (n < 0 || (size_t)n + 5 > sizeof f->part)
        return rf_fail(f->e, RF_EARG, "%.200s...: the path is too long", f->o->path);
    snprintf(f->tag_path, sizeof f->tag_path, "%.4000s.tag", f->part);
    f->fd = open(f->part, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (f->fd < 0) return fail_file(f, f->part, "opened");
    if (flock(f->fd, LOCK_EX | LOCK_NB) != 0)
        return rf_fail(f->e, RF_EIO, "%s: another download of this file is running", f->part);
    if (fstat(f->fd, &st) != 0) return fail_file(f, f->part, "examined");
    f->have = (uint64_t)st.st_size;
    uint8_t *tag = NULL;
    size_t len = 0;
    rf_error ignored = {0};
    if (f->have > 0 && access(f->tag_path, F_OK) == 0 &&
        rf_file_read(f->tag_path, MAX_TAG, &tag, &len, &ignored) == RF_OK)
        memcpy(f->tag, tag, len);
    rf_free(tag);
    return RF_OK;
}

/* The part starts anew: with the version whose headers have just come. */
static rf_status restart(fetch *f) {
    f->have = 0;
    if (ftruncate(f->fd, 0) != 0) return fail_file(f, f->part, "emptied");
    /* Only a strong validator says that two responses have the same bytes. */
    const char *tag = f->etag[0] && strncmp(f->etag, "W/", 2) != 0 ? f->etag : f->modified;
    snprintf(f->tag, sizeof f->tag, "%s", tag);
    if (!f->tag[0]) {
        (void)unlink(f->tag_path);
        return RF_OK;
    }
    return rf_file_write(f->tag_path, f->tag, strlen(f->tag), f->e);
}

static rf_status check_room(fetch *f) {
    struct statvfs v;
    if (f->total <= f->have || fstatvfs(f->fd, &v) != 0) return RF_OK;
    uint64_t room = (uint64_t)v.f_bavail * v.f_frsize, need = f->total - f->have;
    if (need <= room) return RF_OK;
    return rf_fail(f->e, RF_EIO, "%s: needs %.1f MB more, the disk has %.1f MB left", f->o->path,
                   (double)need / 1e6, (double)room / 1e6);
}

static rf_status write_all(fetch *f, const char *p, size_t n) {
    while (n > 0) {
        ssize_t done = pwrite(f->fd, p, n, (off_t)f->have);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return fail_file(f, f->part, "written");
        p += done;
        n -= (size_t)done;
        f->have += (uint64_t)done;
    }
    return RF_OK;
}

/* ---- what libcurl calls ---- */

/* The value of header `name` in line, without blanks around it. */
static bool header_is(rf_str line, const char *name, char *out, size_t cap) {
    size_t n = strlen(name);
    if (line.len <= n || line.p[n] != ':' || strncasecmp(line.p, name, n) != 0) return false;
    const char *p = line.p + n + 1, *end = line.p + line.len;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (end > p && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
        end--;
    if ((size_t)(end - p) >= cap) return false; /* no validator that we could keep */
    memcpy(out, p, (size_t)(end - p));
    out[end - p] = '\0';
    return true;
}

static void take_digest(fetch *f, const char *value) {
    const char *hex = value[0] == '"' ? value + 1 : value;
    if (strspn(hex, "0123456789abcdefABCDEF") == RF_SHA256_HEX - 1) {
        for (size_t i = 0; i + 1 < RF_SHA256_HEX; i++)
            f->linked[i] = (char)(hex[i] >= 'A' && hex[i] <= 'F' ? hex[i] + ('a' - 'A') : hex[i]);
        f->linked[RF_SHA256_HEX - 1] = '\0';
    }
}

/* "bytes 100-199/500", or "bytes * /500" where nothing is left to send. */
static void take_range(fetch *f, const char *value) {
    unsigned long long from = 0, to = 0, total = 0;
    if (sscanf(value, "bytes %llu-%llu/%llu", &from, &to, &total) == 3) {
        f->has_range = true;
        f->range_from = from;
        f->range_total = total;
    } else if (sscanf(value, "bytes */%llu", &total) == 1) {
        f->range_total = total;
    }
}

static size_t on_header(char *p, size_t size, size_t n, void *user) {
    fetch *f = user;
    rf_str line = {p, size * n};
    char value[MAX_TAG + 1];
    if (line.len >= 5 && memcmp(p, "HTTP/", 5) == 0) { /* a new response: of a redirect, say */
        f->etag[0] = f->modified[0] = '\0';
        f->has_range = f->body_begun = false;
        f->range_total = 0;
    } else if (header_is(line, "ETag", value, sizeof value)) {
        memcpy(f->etag, value, sizeof value);
    } else if (header_is(line, "Last-Modified", value, sizeof value)) {
        memcpy(f->modified, value, sizeof value);
    } else if (header_is(line, "Content-Range", value, sizeof value)) {
        take_range(f, value);
    } else if (header_is(line, "X-Linked-ETag", value, sizeof value)) {
        take_digest(f, value);
    }
    return line.len;
}

/* Before the first byte of a body: does it continue the part, or is it the whole file? */
static rf_status begin_body(fetch *f) {
    long code = 0;
    curl_off_t length = -1;
    curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_getinfo(f->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (code == 206 && f->has_range && f->range_from == f->have) {
        f->total = f->range_total;
    } else if (code == 200) {
        RF_TRY(restart(f));
        f->total = length > 0 ? (uint64_t)length : 0;
    } else {
        return rf_fail(f->e, RF_EIO, "%s: the server answered %ld to a request for bytes from %llu",
                       f->o->url, code, (unsigned long long)f->have);
    }
    f->body_begun = true;
    rf_progress_start(&f->progress, f->c, f->o->what, f->total);
    return check_room(f);
}

static size_t on_body(char *p, size_t size, size_t n, void *user) {
    fetch *f = user;
    if (!f->body_begun) f->status = begin_body(f);
    if (f->status == RF_OK) f->status = write_all(f, p, size * n);
    return f->status == RF_OK ? size * n : 0;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t d, curl_off_t u) {
    fetch *f = user;
    (void)a, (void)b, (void)d, (void)u;
    if (f->body_begun) rf_progress_step(&f->progress, f->have);
    return rf_cli_interrupted();
}

/* ---- one try, and many ---- */

static bool may_pass(const fetch *f, CURLcode code) {
    long http = 0;
    curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &http);
    switch ((int)code) {
    case CURLE_HTTP_RETURNED_ERROR:
        return http == 408 || http == 429 || http >= 500;
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        return true;
    default:
        return false;
    }
}

static CURLcode try_once(fetch *f) {
    struct curl_slist *headers = NULL;
    char line[MAX_TAG + 16];
    if (!f->tag[0]) f->have = 0; /* a part of unknown origin is worth nothing */
    if (f->have > 0) {
        snprintf(line, sizeof line, "If-Range: %s", f->tag);
        headers = curl_slist_append(NULL, line);
        if (!headers) return CURLE_OUT_OF_MEMORY;
    }
    snprintf(line, sizeof line, "%llu-", (unsigned long long)f->have);
    curl_easy_setopt(f->curl, CURLOPT_RANGE, f->have > 0 ? line : NULL);
    curl_easy_setopt(f->curl, CURLOPT_HTTPHEADER, headers);
    f->curl_text[0] = '\0';
    CURLcode code = curl_easy_perform(f->curl);
    rf_progress_end(&f->progress);
    curl_slist_free_all(headers);
    return code;
}

static rf_status fail_transfer(fetch *f, CURLcode code) {
    long http = 0;
    curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &http);
    if (f->status != RF_OK) return f->status;
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return rf_fail(f->e, RF_ECANCELLED, "interrupted; the same command goes on from %.1f MB",
                       (double)f->have / 1e6);
    if (code == CURLE_HTTP_RETURNED_ERROR)
        return rf_fail(f->e, RF_EIO, "%s: the server answered %ld%s", f->o->url, http,
                       http == 401 || http == 403 ? "; this file needs a login"
                       : http == 404              ? "; there is no such file"
                                                  : "");
    return rf_fail(f->e, RF_EIO, "%s: %s%s", f->o->url,
                   f->curl_text[0] ? f->curl_text : curl_easy_strerror(code),
                   f->have > 0 && f->tag[0] ? "; the same command goes on where this one stopped"
                                            : "");
}

/* Everything is there although the server refused to send more: a part that was complete. */
static bool was_complete(fetch *f, CURLcode code) {
    long http = 0;
    curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &http);
    return code == CURLE_HTTP_RETURNED_ERROR && http == 416 && f->have > 0 &&
           f->range_total == f->have;
}

static rf_status transfer(fetch *f) {
    unsigned tries = 0, wait_ms = FIRST_WAIT_MS;
    for (;;) {
        uint64_t before = f->have;
        CURLcode code = try_once(f);
        if (code == CURLE_OK && !f->body_begun)
            return rf_fail(f->e, RF_EFORMAT, "%s: the file is empty", f->o->url);
        if (code == CURLE_OK || was_complete(f, code)) return RF_OK;
        if (f->have > before) tries = 0, wait_ms = FIRST_WAIT_MS;
        if (f->status != RF_OK || !may_pass(f, code) || ++tries == MAX_TRIES)
            return fail_transfer(f, code);
        const struct timespec pause = {wait_ms / 1000, (long)(wait_ms % 1000) * 1000000};
        nanosleep(&pause, NULL);
        wait_ms *= 2;
        if (rf_cli_interrupted()) return fail_transfer(f, CURLE_ABORTED_BY_CALLBACK);
    }
}

static rf_status prepare(fetch *f) {
    f->curl = curl_easy_init();
    if (!f->curl) return rf_fail_nomem(f->e, sizeof *f);
    const struct {
        CURLoption option;
        long value;
    } numbers[] = {{CURLOPT_FOLLOWLOCATION, 1},  {CURLOPT_MAXREDIRS, MAX_REDIRECTS},
                   {CURLOPT_FAILONERROR, 1},     {CURLOPT_NOSIGNAL, 1},
                   {CURLOPT_NOPROGRESS, 0},      {CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS},
                   {CURLOPT_LOW_SPEED_LIMIT, 1}, {CURLOPT_LOW_SPEED_TIME, STALL_SECONDS}};
    for (size_t i = 0; i < RF_COUNT(numbers); i++)
        curl_easy_setopt(f->curl, numbers[i].option, numbers[i].value);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(f->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(f->curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(f->curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    curl_easy_setopt(f->curl, CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(f->curl, CURLOPT_URL, f->o->url);
    curl_easy_setopt(f->curl, CURLOPT_USERAGENT, "rocmforge/" RF_VERSION);
    curl_easy_setopt(f->curl, CURLOPT_ERRORBUFFER, f->curl_text);
    curl_easy_setopt(f->curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(f->curl, CURLOPT_HEADERDATA, f);
    curl_easy_setopt(f->curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(f->curl, CURLOPT_WRITEDATA, f);
    curl_easy_setopt(f->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(f->curl, CURLOPT_XFERINFODATA, f);
    return RF_OK;
}

static rf_status digest_of(fetch *f, char hex[RF_SHA256_HEX]) {
    static char chunk[COPY_BYTES]; /* one download at a time */
    rf_sha256 *h = NULL;
    if (rf_sha256_create(&h) != RF_OK) return rf_fail_nomem(f->e, COPY_BYTES);
    rf_progress_start(&f->progress, f->c, "checking", f->have);
    ssize_t n = 0;
    for (uint64_t at = 0; (n = pread(f->fd, chunk, sizeof chunk, (off_t)at)) > 0;
         at += (uint64_t)n) {
        rf_sha256_add(h, chunk, (size_t)n);
        rf_progress_step(&f->progress, at);
    }
    rf_progress_end(&f->progress);
    rf_sha256_hex(h, hex);
    rf_sha256_free(h);
    return n < 0 ? fail_file(f, f->part, "read") : RF_OK;
}

/* The part is complete: is it what was wanted?  Then it gets its name. */
static rf_status finish(fetch *f, char sha256[RF_SHA256_HEX]) {
    RF_TRY(digest_of(f, sha256));
    const char *want = f->o->sha256 ? f->o->sha256 : f->linked[0] ? f->linked : NULL;
    if (want && strcasecmp(want, sha256) != 0) {
        (void)unlink(f->part);
        (void)unlink(f->tag_path);
        return rf_fail(f->e, RF_EFORMAT,
                       "%s: the file has SHA-256 %s, expected %s; it was thrown away", f->o->url,
                       sha256, want);
    }
    if (fsync(f->fd) != 0) return fail_file(f, f->part, "written");
    if (rename(f->part, f->o->path) != 0) return fail_file(f, f->o->path, "renamed");
    (void)unlink(f->tag_path);
    return RF_OK;
}

rf_status rf_fetch(const rf_cli *c, const rf_fetch_opts *o, uint64_t *n_bytes,
                   char sha256[RF_SHA256_HEX], rf_error *e) {
    fetch f = {.c = c, .o = o, .e = e, .fd = -1};
    rf_status s = open_part(&f);
    if (s == RF_OK) s = prepare(&f);
    if (s == RF_OK) s = transfer(&f);
    if (s == RF_OK) s = finish(&f, sha256);
    *n_bytes = f.have;
    curl_easy_cleanup(f.curl);
    /* An empty part is no progress worth keeping. */
    if (s != RF_OK && f.fd >= 0 && (f.have == 0 || !f.tag[0])) {
        (void)unlink(f.part);
        (void)unlink(f.tag_path);
    }
    if (f.fd >= 0) close(f.fd);
    return s;
}
