/* load_run.c - one measurement: requests over libcurl's multi interface, in one thread.
 *
 * Each slot is one connection's worth of work: an easy handle, the reader of its stream, its times.
 * In flight are as many as --concurrency says, or as have arrived by --rate.  A request counts as
 * completed only when its stream came to [DONE] without an error, and is cancelled when its client left
 * as the workload wants; everything else is counted by kind. */
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/os.h"
#include "cli/load.h"
#include "cli/load_http.h"
#include "cli/load_sse.h"

enum {
    POLL_MS = 200,      /* how often an interrupt is looked for */
    MAX_REFUSAL = 4096, /* bytes kept of an answer that is no stream */
    MAX_GAPS = 1 << 22, /* token events of one answer; more is a runaway server */
};

typedef struct run run;
typedef struct slot {
    run *run;
    CURL *curl;
    char curl_text[CURL_ERROR_SIZE];
    bool busy;
    uint64_t i;      /* the request's number */
    uint64_t due_us; /* when it was to be sent: all times count from here */
    rf_buf body;     /* being sent */
    rf_buf refusal;  /* the answer, where it is no stream */
    rf_sse sse;
    rf_load_samples gaps;       /* between token events */
    uint64_t first_us, last_us; /* of token events; 0: none yet */
    uint64_t n_events;
    uint64_t n_prompt, n_cached, n_output; /* as the server's usage says */
    bool has_usage, done;
    bool leaves, left;    /* the client is to leave, and has left */
    uint32_t leave_after; /* token events */
    rf_error error;       /* what was wrong with the stream */
} slot;

struct run {
    const rf_load_opts *o;
    const rf_load_work *w;
    rf_load_result *r;
    CURLM *multi;
    struct curl_slist *headers;
    char url[600];
    slot *slots; /* [n_slots] */
    size_t n_slots, n_busy, n_started, n_total;
    uint64_t first; /* number of the first request: measured ones begin at 0 */
    bool measured;  /* else warming up */
    uint64_t start_us, end_us;
    double *arrivals; /* [n_total] seconds, or NULL */
    rf_progress progress;
};

/* ---- what comes back ---- */

static bool fail_stream(slot *s, const char *text, rf_str detail) {
    rf_fail(&s->error, RF_EFORMAT, "%s: %.*s", text, (int)(detail.len > 160 ? 160 : detail.len),
            detail.p);
    return false;
}

static uint64_t count_of(const rf_json *j) {
    int64_t n = rf_json_int(j);
    return n > 0 ? (uint64_t)n : 0;
}

static void take_usage(slot *s, const rf_json *usage) {
    const rf_json *details = rf_json_get(usage, "prompt_tokens_details");
    if (rf_json_kind(usage) != RF_JSON_OBJECT) return;
    s->has_usage = true;
    s->n_prompt = count_of(rf_json_get(usage, "prompt_tokens"));
    s->n_output = count_of(rf_json_get(usage, "completion_tokens"));
    if (details) s->n_cached = count_of(rf_json_get(details, "cached_tokens"));
}

/* An event is one of tokens if it has text, or comes before the one with the reason of the end. */
static bool take_choice(slot *s, const rf_json *choice) {
    const rf_json *finish = rf_json_get(choice, "finish_reason");
    bool ends = finish && rf_json_kind(finish) == RF_JSON_STRING;
    rf_str text = rf_json_str(rf_json_get(choice, "text"));
    if (text.len == 0 && ends) return true;
    uint64_t now = rf_time_us();
    if (s->n_events++ == 0)
        s->first_us = now;
    else if (s->n_events > MAX_GAPS || !rf_load_sample(&s->gaps, (double)(now - s->last_us) / 1e3))
        return fail_stream(s, "answer too long", RF_STR("too many events"));
    s->last_us = now;
    s->left = s->leaves && s->n_events >= s->leave_after;
    return !s->left;
}

static bool on_event(void *user, rf_str data) {
    slot *s = user;
    rf_json *j;
    rf_error e = {0};
    if (s->done) return fail_stream(s, "malformed stream", RF_STR("an event after [DONE]"));
    if (rf_str_is(data, "[DONE]")) {
        s->done = true;
        return true;
    }
    if (rf_json_parse(&j, data, &e) != RF_OK)
        return fail_stream(s, "malformed stream", rf_str_of(e.text));
    const rf_json *choices = rf_json_get(j, "choices"), *usage = rf_json_get(j, "usage");
    const rf_json *error = rf_json_get(j, "error");
    bool ok = true;
    if (error && rf_json_kind(error) != RF_JSON_NULL)
        ok = fail_stream(s, "error event", data);
    else if (!choices || rf_json_kind(choices) != RF_JSON_ARRAY)
        ok = fail_stream(s, "malformed stream", RF_STR("an event without choices"));
    else if (rf_json_len(choices) > 0)
        ok = take_choice(s, rf_json_at(choices, 0));
    if (ok && usage) take_usage(s, usage);
    rf_json_free(j);
    return ok;
}

static size_t on_body(char *p, size_t size, size_t n, void *user) {
    slot *s = user;
    long code = 0;
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &code);
    n *= size;
    if (code == 200) {
        rf_error e = {0};
        if (rf_sse_feed(&s->sse, p, n, &e) == RF_OK) return n;
        if (s->error.status == RF_OK && !s->left)
            fail_stream(s, "malformed stream", rf_str_of(e.text));
        return 0;
    }
    size_t room = MAX_REFUSAL - s->refusal.len;
    rf_buf_put(&s->refusal, p, n < room ? n : room);
    return n;
}

/* The empty line after the headers: the server has taken the request.  (Not returning n ends the
 * transfer and closes the connection, here and above.) */
static size_t on_header(char *p, size_t size, size_t n, void *user) {
    slot *s = user;
    long code = 0;
    n *= size;
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &code);
    s->left = s->leaves && s->leave_after == 0 && code == 200 && n <= 2 && p[0] == '\r';
    return s->left ? 0 : n;
}

/* ---- one request ---- */

static rf_status prepare(run *u, slot *s, rf_error *e) {
    if (s->curl) return RF_OK;
    s->run = u;
    s->sse = (rf_sse){.on_event = on_event, .user = s};
    s->curl = rf_load_easy(u->headers, u->o->timeout_s);
    if (!s->curl) return rf_fail_nomem(e, sizeof(CURL *));
    curl_easy_setopt(s->curl, CURLOPT_URL, u->url);
    curl_easy_setopt(s->curl, CURLOPT_ERRORBUFFER, s->curl_text);
    curl_easy_setopt(s->curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(s->curl, CURLOPT_WRITEDATA, s);
    curl_easy_setopt(s->curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(s->curl, CURLOPT_HEADERDATA, s);
    curl_easy_setopt(s->curl, CURLOPT_PRIVATE, s);
    return RF_OK;
}

static rf_status start(run *u, slot *s, uint64_t due_us, rf_error *e) {
    RF_TRY(prepare(u, s, e));
    rf_buf_clear(&s->body);
    rf_buf_clear(&s->refusal);
    rf_sse_reset(&s->sse);
    s->gaps.n = 0;
    s->first_us = s->last_us = s->n_events = s->n_prompt = s->n_cached = s->n_output = 0;
    s->has_usage = s->done = s->left = false;
    s->error = (rf_error){0};
    s->curl_text[0] = '\0';
    s->i = u->first + u->n_started++;
    s->leaves = rf_load_leaves(u->w, s->i, &s->leave_after) && u->measured;
    rf_load_body(u->w, u->o->model, s->i, &s->body);
    if (s->body.failed) return rf_fail_nomem(e, s->body.len);
    curl_easy_setopt(s->curl, CURLOPT_POSTFIELDS, s->body.p);
    curl_easy_setopt(s->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->body.len);
    s->due_us = due_us ? due_us : rf_time_us();
    if (curl_multi_add_handle(u->multi, s->curl) != CURLM_OK) return rf_fail_nomem(e, sizeof *s);
    s->busy = true;
    u->n_busy++;
    return RF_OK;
}

static void count_error(rf_load_result *r, const char *kind, const char *example) {
    size_t k = 0;
    while (k < r->n_kinds && strcmp(r->errors[k].kind, kind) != 0)
        k++;
    if (k >= RF_LOAD_MAX_KINDS - 1) k = RF_LOAD_MAX_KINDS - 1, kind = "other";
    if (k == r->n_kinds) {
        r->n_kinds++;
        snprintf(r->errors[k].kind, sizeof r->errors[k].kind, "%s", kind);
        snprintf(r->errors[k].example, sizeof r->errors[k].example, "%.199s", example);
    }
    r->errors[k].n++;
}

/* What went wrong with a request whose transfer is over; NULL: nothing. */
static const char *verdict(slot *s, CURLcode code, char *kind, size_t cap, const char **example) {
    long http = 0;
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &http);
    *example = s->curl_text[0] ? s->curl_text : curl_easy_strerror(code);
    if (s->error.status != RF_OK) {
        *example = s->error.text;
        snprintf(kind, cap, "%.*s", (int)strcspn(s->error.text, ":"), s->error.text);
    } else if (code == CURLE_OPERATION_TIMEDOUT) {
        snprintf(kind, cap, "timeout");
    } else if (code == CURLE_COULDNT_CONNECT) {
        snprintf(kind, cap, "not connected");
    } else if (http != 0 && http != 200) {
        *example = s->refusal.len ? s->refusal.p : "(no body)";
        snprintf(kind, cap, "HTTP %ld", http);
    } else if (code != CURLE_OK) {
        snprintf(kind, cap, s->n_events ? "cut off" : "no answer");
    } else if (!s->done || !rf_sse_at_rest(&s->sse)) {
        *example = "the stream ended without [DONE]";
        snprintf(kind, cap, "cut off");
    } else if (s->n_events == 0) {
        *example = "the stream has no token";
        snprintf(kind, cap, "empty answer");
    } else {
        return NULL;
    }
    return kind;
}

static bool record(run *u, const slot *s, uint64_t now) {
    rf_load_result *r = u->r;
    uint64_t n = s->has_usage ? s->n_output : s->n_events;
    bool ok = rf_load_sample(&r->ttft, (double)(s->first_us - s->due_us) / 1e3) &&
              rf_load_sample(&r->e2e, (double)(now - s->due_us) / 1e3);
    for (size_t k = 0; ok && k < s->gaps.n; k++)
        ok = rf_load_sample(&r->itl, s->gaps.p[k]);
    if (ok && n > 1)
        ok = rf_load_sample(&r->tpot, (double)(s->last_us - s->first_us) / 1e3 / (double)(n - 1));
    r->n_completed++;
    r->n_short += n != rf_load_answer_tokens(u->w, s->i);
    r->prompt_tokens += s->n_prompt;
    r->cached_tokens += s->n_cached;
    r->output_tokens += n;
    return ok;
}

static rf_status finish(run *u, slot *s, CURLcode code, rf_error *e) {
    char kind[sizeof u->r->errors[0].kind];
    const char *example = NULL;
    const char *wrong = s->left ? NULL : verdict(s, code, kind, sizeof kind, &example);
    uint64_t now = rf_time_us();
    curl_multi_remove_handle(u->multi, s->curl);
    s->busy = false;
    u->n_busy--;
    u->end_us = now;
    if (!u->measured) {
        u->r->n_warmup_failed += wrong != NULL;
    } else if (s->left) {
        u->r->n_cancelled++;
    } else if (wrong) {
        u->r->n_failed++;
        count_error(u->r, wrong, example);
    } else if (!record(u, s, now)) {
        return rf_fail_nomem(e, sizeof(double));
    }
    return RF_OK;
}

/* ---- all of them ---- */

static slot *free_slot(run *u) {
    size_t k = 0;
    RF_ASSERT(u->n_busy < u->n_slots);
    while (u->slots[k].busy)
        k++;
    return &u->slots[k];
}

/* When the next one is due: 0 now (or never), else the monotonic clock's microseconds. */
static uint64_t next_due(const run *u) {
    if (!u->arrivals || u->n_started == u->n_total) return 0;
    return u->start_us + (uint64_t)(u->arrivals[u->n_started] * 1e6);
}

static rf_status start_due(run *u, rf_error *e) {
    while (u->n_started < u->n_total && u->n_busy < u->n_slots) {
        uint64_t due = next_due(u);
        if (due > rf_time_us()) break;
        RF_TRY(start(u, free_slot(u), due, e));
    }
    return RF_OK;
}

static rf_status reap(run *u, rf_error *e) {
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(u->multi, &left));) {
        slot *s = NULL;
        if (m->msg != CURLMSG_DONE) continue;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&s);
        RF_TRY(finish(u, s, code, e));
        rf_progress_step(&u->progress, u->n_started - u->n_busy);
    }
    return RF_OK;
}

static int wait_ms(const run *u) {
    uint64_t due = next_due(u), now = rf_time_us();
    if (!due || u->n_busy == u->n_slots || due > now + POLL_MS * 1000) return POLL_MS;
    return due > now ? (int)((due - now) / 1000) : 0;
}

static rf_status loop(run *u, rf_error *e) {
    while (u->n_started < u->n_total || u->n_busy > 0) {
        int running;
        if (rf_cli_interrupted()) return RF_OK;
        RF_TRY(start_due(u, e));
        if (curl_multi_perform(u->multi, &running) != CURLM_OK) return rf_fail_nomem(e, sizeof *u);
        RF_TRY(reap(u, e));
        if (u->n_busy < u->n_slots && u->n_started < u->n_total && !u->arrivals) continue;
        if (u->n_busy > 0 || u->n_started < u->n_total)
            curl_multi_poll(u->multi, NULL, 0, wait_ms(u), NULL);
    }
    return RF_OK;
}

/* Sends requests first..first + n. */
static rf_status phase(run *u, uint64_t first, size_t n, bool measured, rf_error *e) {
    const rf_load_opts *o = u->o;
    u->first = first;
    u->n_started = 0;
    u->n_total = n;
    u->measured = measured;
    if (measured && o->rate > 0) {
        u->arrivals = rf_alloc(n, sizeof *u->arrivals);
        if (!u->arrivals) return rf_fail_nomem(e, n * sizeof *u->arrivals);
        rf_load_arrivals(u->w, o->rate, n, u->arrivals);
    }
    u->start_us = u->end_us = rf_time_us();
    rf_progress_start(&u->progress, o->cli, measured ? "measuring" : "warming up", n);
    rf_status s = loop(u, e);
    rf_progress_end(&u->progress);
    return s;
}

static rf_status open_run(run *u, rf_error *e) {
    const rf_load_opts *o = u->o;
    u->n_slots = o->rate > 0 ? RF_LOAD_MAX_IN_FLIGHT : o->concurrency;
    if (u->n_slots > o->n_requests + o->n_warmup) u->n_slots = o->n_requests + o->n_warmup;
    u->slots = rf_alloc(u->n_slots, sizeof *u->slots);
    u->multi = curl_multi_init();
    if (!u->slots || !u->multi) return rf_fail_nomem(e, u->n_slots * sizeof *u->slots);
    curl_multi_setopt(u->multi, CURLMOPT_MAXCONNECTS, (long)u->n_slots);
    curl_multi_setopt(u->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    snprintf(u->url, sizeof u->url, "%s/v1/completions", o->url);
    return rf_load_headers(o->key, &u->headers, e);
}

static void close_run(run *u) {
    for (size_t k = 0; u->slots && k < u->n_slots; k++) {
        slot *s = &u->slots[k];
        if (s->busy) curl_multi_remove_handle(u->multi, s->curl);
        curl_easy_cleanup(s->curl);
        rf_buf_free(&s->body);
        rf_buf_free(&s->refusal);
        rf_sse_free(&s->sse);
        rf_free(s->gaps.p);
    }
    if (u->multi) curl_multi_cleanup(u->multi);
    curl_slist_free_all(u->headers);
    rf_free(u->slots);
    rf_free(u->arrivals);
}

static rf_status warm_up_and_measure(run *u, rf_error *e) {
    const rf_load_opts *o = u->o;
    if (o->n_warmup > 0) RF_TRY(phase(u, o->n_requests, o->n_warmup, false, e));
    if (rf_cli_interrupted()) return RF_OK;
    rf_status s = phase(u, 0, o->n_requests, true, e);
    u->r->n_sent = u->n_started;
    u->r->seconds = (double)(u->end_us - u->start_us) / 1e6;
    return s;
}

rf_status rf_load_run(const rf_load_opts *o, const rf_load_work *w, rf_load_result *r,
                      rf_error *e) {
    run u = {.o = o, .w = w, .r = r};
    rf_load_idle *idle = NULL;
    snprintf(r->url, sizeof r->url, "%s", o->url);
    snprintf(r->model, sizeof r->model, "%s", o->model);
    r->as_tokens = w->as_tokens;
    r->n_asked = o->n_requests;
    r->n_warmup = o->n_warmup;
    r->n_idle = o->n_idle;
    rf_status s = open_run(&u, e);
    if (s == RF_OK && o->n_idle > 0) s = rf_load_idle_open(&idle, o, &r->n_idle_opened, e);
    if (s == RF_OK) s = warm_up_and_measure(&u, e);
    if (s == RF_OK && idle) s = rf_load_idle_try(idle, &r->n_idle_kept, e);
    r->interrupted = rf_cli_interrupted();
    rf_load_idle_close(idle);
    close_run(&u);
    rf_load_sort(&r->ttft);
    rf_load_sort(&r->itl);
    rf_load_sort(&r->tpot);
    rf_load_sort(&r->e2e);
    return s;
}
