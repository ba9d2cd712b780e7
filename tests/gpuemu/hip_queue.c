/* hip_queue.c - the stand-in library's streams, events, copies and graphs: work is kept until somebody
 * waits for it. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gpuemu/hip.h"

/* ---- work ---- */

static void free_work(hip_work *w) {
    rf_free(w->kernarg);
    rf_free(w);
}

void hip_list_clear(hip_list *l) {
    while (l->first) {
        hip_work *w = l->first;
        l->first = w->next;
        free_work(w);
    }
    l->last = NULL;
}

static hip_work *append(hip_list *l, const hip_work *w) {
    hip_work *copy = rf_alloc(1, sizeof *copy);
    if (!copy) return NULL;
    *copy = *w;
    copy->next = NULL;
    if (l->last)
        l->last->next = copy;
    else
        l->first = copy;
    l->last = copy;
    return copy;
}

int hip_push(hip_stream *s, const hip_work *w) {
    hip_list *to = s->capture ? &s->capture->work : &s->work;
    if (append(to, w)) return HIP_OK;
    rf_free(w->kernarg);
    return HIP_OUT_OF_MEMORY;
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void run_kernel(const hip_work *w) {
    rf_error e = {0};
    rf_emu_stats stats = {0};
    rf_emu_launch l = {.lds_bytes = w->lds_bytes,
                       .kernarg = w->kernarg,
                       .ranges = hip.ranges,
                       .n_ranges = hip.n_ranges,
                       .rubbish_lds = !hip_setting("RF_EMU_UNWRITTEN", 0),
                       .n_threads = (uint32_t)hip_setting("RF_EMU_THREADS", 2)};
    memcpy(l.grid, w->grid, sizeof l.grid);
    memcpy(l.block, w->block, sizeof l.block);
    rf_status s = rf_emu_run(w->kernel, &l, &stats, &e);
    hip.n_launches++;
    hip.stats.instructions += stats.instructions;
    hip.stats.lane_ops += stats.lane_ops;
    hip_list_launch(w, &stats);
    if (s == RF_OK) return;
    hip.sticky = HIP_ILLEGAL_ADDRESS;
    snprintf(hip.fault, sizeof hip.fault, "%s", e.text);
}

static void wait_for(hip_event *ev, uint64_t number);

static void run_work(hip_stream *s, const hip_work *w) {
    switch (w->kind) {
    case HIP_COPY:
        memmove(w->dst, w->src, w->n);
        break;
    case HIP_FILL:
        memset(w->dst, w->value, w->n);
        break;
    case HIP_LAUNCH:
        run_kernel(w);
        break;
    case HIP_RECORD:
        s->n_run++;
        w->event->at_ms = now_ms();
        break;
    case HIP_WAIT:
        wait_for(w->event, w->event_number);
        break;
    }
}

/* Runs the oldest work of a stream; after a fault, work is dropped. */
static void step(hip_stream *s) {
    hip_work *w = s->work.first;
    s->work.first = w->next;
    if (!s->work.first) s->work.last = NULL;
    if (!hip.sticky) run_work(s, w);
    free_work(w);
}

static void wait_for(hip_event *ev, uint64_t number) {
    if (!ev->recorded) return;
    while (!hip.sticky && ev->stream->n_run < number && ev->stream->work.first)
        step(ev->stream);
}

int hip_drain(hip_stream *s) {
    while (s->work.first)
        step(s);
    return hip.sticky;
}

int hip_drain_all(void) {
    (void)hip_drain(&hip.null_stream);
    for (hip_stream *s = hip.streams; s; s = s->next)
        (void)hip_drain(s);
    return hip.sticky;
}

int hip_refuse_in_capture(void) {
    if (!hip.n_captures) return HIP_OK;
    for (hip_stream *s = hip.streams; s; s = s->next)
        if (s->capture) s->capture->broken = true;
    return HIP_CAPTURE_UNSUPPORTED;
}

/* NULL is the null stream; anything else must be one that was created. */
static hip_stream *known(hip_stream *s) {
    if (!s) return &hip.null_stream;
    for (hip_stream *k = hip.streams; k; k = k->next)
        if (k == s) return s;
    return NULL;
}

/* ---- copies ---- */

static int queue_copy(void *dst, const void *src, size_t n, hip_stream *s, bool dst_on_device,
                      bool src_on_device) {
    int code = hip_enter();
    s = known(s);
    hip_work w = {.kind = HIP_COPY, .dst = dst, .src = src, .n = n};
    if (!code && !s) code = HIP_INVALID_HANDLE;
    if (!code && ((dst_on_device && !hip_owns(dst, n)) || (src_on_device && !hip_owns(src, n))))
        code = HIP_INVALID_VALUE;
    return hip_leave(code ? code : hip_push(s, &w));
}

HIP_API int hipMemcpyHtoDAsync(void *dst, const void *src, size_t n, hip_stream *s);
HIP_API int hipMemcpyHtoDAsync(void *dst, const void *src, size_t n, hip_stream *s) {
    return queue_copy(dst, src, n, s, true, false);
}

HIP_API int hipMemcpyDtoHAsync(void *dst, void *src, size_t n, hip_stream *s);
HIP_API int hipMemcpyDtoHAsync(void *dst, void *src, size_t n, hip_stream *s) {
    return queue_copy(dst, src, n, s, false, true);
}

HIP_API int hipMemcpyDtoDAsync(void *dst, void *src, size_t n, hip_stream *s);
HIP_API int hipMemcpyDtoDAsync(void *dst, void *src, size_t n, hip_stream *s) {
    return queue_copy(dst, src, n, s, true, true);
}

HIP_API int hipMemsetD8Async(void *dst, unsigned char value, size_t n, hip_stream *s);
HIP_API int hipMemsetD8Async(void *dst, unsigned char value, size_t n, hip_stream *s) {
    int code = hip_enter();
    s = known(s);
    hip_work w = {.kind = HIP_FILL, .dst = dst, .value = value, .n = n};
    if (!code && !s) code = HIP_INVALID_HANDLE;
    if (!code && !hip_owns(dst, n)) code = HIP_INVALID_VALUE;
    return hip_leave(code ? code : hip_push(s, &w));
}

/* ---- streams ---- */

HIP_API int hipStreamCreateWithFlags(hip_stream **out, unsigned flags);
HIP_API int hipStreamCreateWithFlags(hip_stream **out, unsigned flags) {
    int code = hip_enter();
    *out = code || flags > 1 ? NULL : rf_alloc(1, sizeof **out);
    if (!code && flags > 1) code = HIP_INVALID_VALUE;
    if (!code && !*out) code = HIP_OUT_OF_MEMORY;
    if (*out) {
        (*out)->next = hip.streams;
        hip.streams = *out;
    }
    return hip_leave(code);
}

HIP_API int hipStreamDestroy(hip_stream *s);
HIP_API int hipStreamDestroy(hip_stream *s) {
    int code = hip_enter();
    hip_stream **at = &hip.streams;
    while (*at && *at != s)
        at = &(*at)->next;
    if (!*at) return hip_leave(HIP_INVALID_HANDLE);
    (void)hip_drain(s);
    *at = s->next;
    if (s->capture) {
        hip_list_clear(&s->capture->work);
        rf_free(s->capture);
        hip.n_captures--;
    }
    rf_free(s);
    return hip_leave(code);
}

HIP_API int hipStreamSynchronize(hip_stream *s);
HIP_API int hipStreamSynchronize(hip_stream *s) {
    int code = hip_enter();
    s = known(s);
    if (!code && !s) code = HIP_INVALID_HANDLE;
    if (!code) code = hip_refuse_in_capture();
    return hip_leave(code ? code : hip_drain(s));
}

/* Whoever asks gives the device the time to finish. */
HIP_API int hipStreamQuery(hip_stream *s);
HIP_API int hipStreamQuery(hip_stream *s) { return hipStreamSynchronize(s); }

HIP_API int hipDeviceSynchronize(void);
HIP_API int hipDeviceSynchronize(void) {
    int code = hip_enter();
    if (!code) code = hip_refuse_in_capture();
    return hip_leave(code ? code : hip_drain_all());
}

HIP_API int hipStreamWaitEvent(hip_stream *s, hip_event *ev, unsigned flags);
HIP_API int hipStreamWaitEvent(hip_stream *s, hip_event *ev, unsigned flags) {
    int code = hip_enter();
    s = known(s);
    if (!code && (!s || !ev || flags)) code = HIP_INVALID_VALUE;
    if (code) return hip_leave(code);
    hip_work w = {.kind = HIP_WAIT, .event = ev, .event_number = ev->number};
    return hip_leave(hip_push(s, &w));
}

/* ---- events ---- */

HIP_API int hipEventCreateWithFlags(hip_event **out, unsigned flags);
HIP_API int hipEventCreateWithFlags(hip_event **out, unsigned flags) {
    int code = hip_enter();
    (void)flags;
    *out = code ? NULL : rf_alloc(1, sizeof **out);
    if (!code && !*out) code = HIP_OUT_OF_MEMORY;
    return hip_leave(code);
}

HIP_API int hipEventDestroy(hip_event *ev);
HIP_API int hipEventDestroy(hip_event *ev) {
    int code = hip_enter();
    (void)hip_drain_all(); /* queued work may point to it */
    rf_free(ev);
    return hip_leave(code);
}

HIP_API int hipEventRecord(hip_event *ev, hip_stream *s);
HIP_API int hipEventRecord(hip_event *ev, hip_stream *s) {
    int code = hip_enter();
    s = known(s);
    if (!code && (!s || !ev)) code = HIP_INVALID_HANDLE;
    if (!code && s->capture) code = hip_refuse_in_capture();
    if (code) return hip_leave(code);
    hip_work w = {.kind = HIP_RECORD, .event = ev};
    *ev = (hip_event){.stream = s, .number = ++s->n_recorded, .recorded = true};
    return hip_leave(hip_push(s, &w));
}

HIP_API int hipEventSynchronize(hip_event *ev);
HIP_API int hipEventSynchronize(hip_event *ev) {
    int code = hip_enter();
    if (!code && !ev) code = HIP_INVALID_HANDLE;
    if (!code) code = hip_refuse_in_capture();
    if (!code) wait_for(ev, ev->number);
    return hip_leave(code ? code : hip.sticky);
}

HIP_API int hipEventQuery(hip_event *ev);
HIP_API int hipEventQuery(hip_event *ev) {
    int code = hip_enter();
    if (!code && ev->recorded && ev->stream->n_run < ev->number) code = HIP_NOT_READY;
    return hip_leave(code);
}

HIP_API int hipEventElapsedTime(float *ms, const hip_event *from, const hip_event *to);
HIP_API int hipEventElapsedTime(float *ms, const hip_event *from, const hip_event *to) {
    int code = hip_enter();
    *ms = (float)(to->at_ms - from->at_ms);
    return hip_leave(code);
}

/* ---- graphs ---- */

HIP_API int hipStreamBeginCapture(hip_stream *s, int mode);
HIP_API int hipStreamBeginCapture(hip_stream *s, int mode) {
    int code = hip_enter();
    if (!code && (!s || !known(s) || s->capture || mode < 0 || mode > 2)) code = HIP_INVALID_VALUE;
    if (code) return hip_leave(code);
    s->capture = rf_alloc(1, sizeof *s->capture);
    if (!s->capture) return hip_leave(HIP_OUT_OF_MEMORY);
    hip.n_captures++;
    return hip_leave(HIP_OK);
}

static void free_graph(hip_graph *g) {
    if (!g) return;
    hip_list_clear(&g->work);
    rf_free(g);
}

HIP_API int hipStreamEndCapture(hip_stream *s, hip_graph **out);
HIP_API int hipStreamEndCapture(hip_stream *s, hip_graph **out) {
    int code = hip_enter();
    *out = NULL;
    if (!s || !known(s) || !s->capture) return hip_leave(code ? code : HIP_INVALID_VALUE);
    hip_graph *g = s->capture;
    s->capture = NULL;
    hip.n_captures--;
    if (!code && g->broken) code = HIP_CAPTURE_INVALID;
    if (code)
        free_graph(g);
    else
        *out = g;
    return hip_leave(code);
}

/* Copies of all work, its arguments included, at the end of a list. */
static int copy_work(hip_list *to, const hip_list *from) {
    for (const hip_work *w = from->first; w; w = w->next) {
        hip_work copy = *w;
        if (w->kernarg) {
            copy.kernarg = rf_alloc((w->kernel->kernarg_bytes + 63u) & ~63u, 1);
            if (!copy.kernarg) return HIP_OUT_OF_MEMORY;
            memcpy(copy.kernarg, w->kernarg, w->kernel->kernarg_bytes);
        }
        if (append(to, &copy)) continue;
        rf_free(copy.kernarg);
        return HIP_OUT_OF_MEMORY;
    }
    return HIP_OK;
}

HIP_API int hipGraphInstantiateWithFlags(hip_graph **out, hip_graph *g, unsigned long long flags);
HIP_API int hipGraphInstantiateWithFlags(hip_graph **out, hip_graph *g, unsigned long long flags) {
    int code = hip_enter();
    *out = NULL;
    if (!code && (!g || flags)) code = HIP_INVALID_VALUE;
    if (!code && !(*out = rf_alloc(1, sizeof **out))) code = HIP_OUT_OF_MEMORY;
    if (!code) code = copy_work(&(*out)->work, &g->work);
    if (code && *out) {
        free_graph(*out);
        *out = NULL;
    }
    return hip_leave(code);
}

HIP_API int hipGraphLaunch(hip_graph *g, hip_stream *s);
HIP_API int hipGraphLaunch(hip_graph *g, hip_stream *s) {
    int code = hip_enter();
    s = known(s);
    if (!code && (!g || !s)) code = HIP_INVALID_HANDLE;
    if (!code) code = copy_work(s->capture ? &s->capture->work : &s->work, &g->work);
    return hip_leave(code);
}

HIP_API int hipGraphExecDestroy(hip_graph *g);
HIP_API int hipGraphExecDestroy(hip_graph *g) {
    int code = hip_enter();
    free_graph(g);
    return hip_leave(code);
}

HIP_API int hipGraphDestroy(hip_graph *g);
HIP_API int hipGraphDestroy(hip_graph *g) { return hipGraphExecDestroy(g); }
