/* events.c - events of requests that wait to be told. */
#include "engine/events.h"

#include <string.h>

struct rf_waiting_event {
    rf_event_fn fn;
    void *user;
    rf_event event; /* text, error and top are set when it is told */
    size_t text_at, error_at;
    bool has_error;
    rf_token_prob top[RF_EVENT_TOP];
};

static bool has_room(rf_events *e) {
    if (e->n < e->cap) return true;
    size_t cap = e->cap ? 2 * e->cap : 16;
    rf_waiting_event *all = rf_realloc(e->all, e->cap, cap, sizeof *all);
    if (!all) return false;
    e->all = all;
    e->cap = cap;
    return true;
}

/* Bytes of the text from the returned place on, with a NUL behind them. */
static size_t keep(rf_buf *text, const char *bytes, size_t n) {
    size_t at = text->len;
    rf_buf_put(text, bytes, n);
    rf_buf_putc(text, 0);
    return at;
}

void rf_events_add(rf_events *e, rf_event_fn fn, void *user, const rf_event *event) {
    size_t text_at = keep(&e->text, event->text, event->text_len), error_at = 0;
    if (event->error) error_at = keep(&e->text, event->error, strlen(event->error));
    if (e->text.failed || !has_room(e)) {
        rf_events_tell(e);
        fn(user, event);
        return;
    }
    rf_waiting_event *w = &e->all[e->n++];
    *w = (rf_waiting_event){.fn = fn,
                            .user = user,
                            .event = *event,
                            .text_at = text_at,
                            .error_at = error_at,
                            .has_error = event->error != NULL};
    if (event->n_top) memcpy(w->top, event->top, event->n_top * sizeof *w->top);
}

void rf_events_tell(rf_events *e) {
    for (size_t i = 0; i < e->n; i++) {
        rf_waiting_event *w = &e->all[i];
        w->event.text = e->text.p + w->text_at;
        w->event.error = w->has_error ? e->text.p + w->error_at : NULL;
        w->event.top = w->top;
        w->fn(w->user, &w->event);
    }
    e->n = 0;
    rf_buf_clear(&e->text);
    e->text.failed = false;
}

void rf_events_free(rf_events *e) {
    rf_free(e->all);
    rf_buf_free(&e->text);
    *e = (rf_events){0};
}
