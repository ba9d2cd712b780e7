/* outbox.c - a buffer, a lock, and two sides that tell each other when something changed. */
#include "server/outbox.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"

enum { MAX_WAITING_BYTES = 32 << 20 }; /* of a client that does not read */

struct rf_outbox {
    atomic_uint n_refs;
    pthread_mutex_t lock;
    rf_outbox_fn sleep, wake;
    void *transport;
    rf_outbox_fn left, release;
    void *maker;
    rf_outbox_head head;
    rf_buf bytes;
    size_t taken;
    uint64_t put_us; /* when bytes were put last */
    bool sleeping, ended, gone;
};

rf_status rf_outbox_create(rf_outbox **out, rf_outbox_fn sleep, rf_outbox_fn wake, void *user) {
    rf_outbox *o = *out = rf_alloc(1, sizeof *o);
    if (!o) return RF_ENOMEM;
    atomic_store(&o->n_refs, 1);
    pthread_mutex_init(&o->lock, NULL);
    o->sleep = sleep;
    o->wake = wake;
    o->transport = user;
    o->head.status = 200;
    o->head.content_type = "application/json";
    return RF_OK;
}

rf_outbox *rf_outbox_keep(rf_outbox *o) {
    atomic_fetch_add(&o->n_refs, 1);
    return o;
}

void rf_outbox_drop(rf_outbox *o) {
    if (!o || atomic_fetch_sub(&o->n_refs, 1) != 1) return;
    if (o->release) o->release(o->maker);
    rf_buf_free(&o->bytes);
    pthread_mutex_destroy(&o->lock);
    rf_free(o);
}

static void wake(rf_outbox *o) {
    if (!o->sleeping) return;
    o->sleeping = false;
    o->wake(o->transport);
}

void rf_outbox_start(rf_outbox *o, int status, const char *content_type) {
    pthread_mutex_lock(&o->lock);
    o->head.status = status;
    o->head.content_type = content_type;
    pthread_mutex_unlock(&o->lock);
}

void rf_outbox_add_header(rf_outbox *o, const char *name, const char *fmt, ...) {
    pthread_mutex_lock(&o->lock);
    RF_ASSERT(o->head.n_headers < RF_OUTBOX_HEADERS);
    rf_outbox_header *h = &o->head.headers[o->head.n_headers++];
    h->name = name;
    va_list args;
    va_start(args, fmt);
    vsnprintf(h->value, sizeof h->value, fmt, args);
    va_end(args);
    pthread_mutex_unlock(&o->lock);
}

void rf_outbox_stream(rf_outbox *o) {
    pthread_mutex_lock(&o->lock);
    o->head.is_stream = true;
    o->put_us = rf_time_us();
    wake(o);
    pthread_mutex_unlock(&o->lock);
}

/* The lock is held. */
static bool put(rf_outbox *o, const void *bytes, size_t n) {
    if (o->gone || o->ended) return false;
    if (o->taken == o->bytes.len) {
        rf_buf_clear(&o->bytes);
        o->taken = 0;
    }
    if (o->head.is_stream && o->bytes.len - o->taken > MAX_WAITING_BYTES) o->bytes.failed = true;
    rf_buf_put(&o->bytes, bytes, n);
    o->put_us = rf_time_us();
    if (o->head.is_stream) wake(o);
    return !o->bytes.failed;
}

bool rf_outbox_put(rf_outbox *o, const void *bytes, size_t n) {
    pthread_mutex_lock(&o->lock);
    bool ok = put(o, bytes, n);
    pthread_mutex_unlock(&o->lock);
    return ok;
}

void rf_outbox_ping(rf_outbox *o, uint64_t silent_us, rf_str bytes) {
    pthread_mutex_lock(&o->lock);
    if (o->head.is_stream && rf_time_us() - o->put_us >= silent_us) put(o, bytes.p, bytes.len);
    pthread_mutex_unlock(&o->lock);
}

void rf_outbox_end(rf_outbox *o) {
    pthread_mutex_lock(&o->lock);
    o->ended = true;
    wake(o);
    pthread_mutex_unlock(&o->lock);
}

void rf_outbox_watch(rf_outbox *o, rf_outbox_fn left, rf_outbox_fn release, void *user) {
    pthread_mutex_lock(&o->lock);
    RF_ASSERT(!o->left);
    o->left = left;
    o->release = release;
    o->maker = user;
    bool gone = o->gone;
    pthread_mutex_unlock(&o->lock);
    if (gone) left(user);
}

bool rf_outbox_ready(rf_outbox *o) {
    pthread_mutex_lock(&o->lock);
    bool ready = o->ended || o->gone || o->head.is_stream;
    if (!ready) {
        o->sleeping = true;
        o->sleep(o->transport);
    }
    pthread_mutex_unlock(&o->lock);
    return ready;
}

long rf_outbox_take(rf_outbox *o, char *out, size_t cap) {
    long n;
    pthread_mutex_lock(&o->lock);
    size_t rest = o->bytes.len - o->taken;
    if (o->gone || o->bytes.failed) {
        n = -2;
    } else if (rest) {
        size_t some = rest < cap ? rest : cap;
        memcpy(out, o->bytes.p + o->taken, some);
        o->taken += some;
        n = (long)some;
    } else if (o->ended) {
        n = -1;
    } else {
        n = 0;
        o->sleeping = true;
        o->sleep(o->transport);
    }
    pthread_mutex_unlock(&o->lock);
    return n;
}

void rf_outbox_leave(rf_outbox *o) {
    pthread_mutex_lock(&o->lock);
    rf_outbox_fn left = o->gone || o->ended ? NULL : o->left;
    o->gone = true;
    wake(o);
    pthread_mutex_unlock(&o->lock);
    if (left) left(o->maker);
}

void rf_outbox_get_head(rf_outbox *o, rf_outbox_head *out) {
    pthread_mutex_lock(&o->lock);
    *out = o->head;
    out->n_bytes = o->bytes.len - o->taken;
    if (o->bytes.failed && !o->head.is_stream) out->status = 500;
    pthread_mutex_unlock(&o->lock);
}
