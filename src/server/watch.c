/* watch.c - a table of connections by file descriptor, and the thread that waits for them.
 *
 * Descriptors are used again by the system, so every event carries the generation of the entry it
 * was asked for.  The lock is never held while an outbox is told something. */
#include "server/watch.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os.h"

enum {
    TICK_MS = 1000,
    MAX_EVENTS = 64,
    LEFT_US = 1000000, /* for what a client sent before it left; the library may miss its leaving */
};

typedef struct entry {
    uint32_t generation; /* 0: not in use */
    rf_watch_phase phase;
    uint64_t since_us; /* when the phase began */
    bool served;       /* a request over it has begun before */
    bool left;         /* the client will send no more */
    rf_outbox *outbox; /* one reference, in phase BUSY */
} entry;

struct rf_watch {
    rf_watch_opts o;
    int epoll, stop; /* stop: an eventfd */
    bool started;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    entry *entries;       /* [cap] by descriptor */
    size_t cap;
    uint32_t last_generation;
};

static entry *find(rf_watch *g, int fd) {
    if (fd < 0 || (size_t)fd >= g->cap || !g->entries[fd].generation) return NULL;
    return &g->entries[fd];
}

/* Bytes came to a connection that is idle: a request begins, whose first line may never end.  If it became
 * idle during the wait that brought the event, they may be those of the request that has ended meanwhile:
 * the next bytes tell, and until then the limit of idle ones holds. */
static void note_bytes(entry *t, uint64_t waited_from_us) {
    if (t->phase != RF_WATCH_IDLE || (t->served && t->since_us >= waited_from_us)) return;
    t->phase = RF_WATCH_READING;
    t->since_us = rf_time_us();
}

/* What an event says.  Returns the outbox, referenced, of a client that has left; else NULL. */
static rf_outbox *note(rf_watch *g, const struct epoll_event *event, uint64_t waited_from_us) {
    pthread_mutex_lock(&g->lock);
    entry *t = find(g, (int)(uint32_t)event->data.u64);
    rf_outbox *o = NULL;
    if (t && t->generation == event->data.u64 >> 32) {
        if (event->events & EPOLLIN) note_bytes(t, waited_from_us);
        t->left = t->left || (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        if (t->left && t->outbox) o = rf_outbox_keep(t->outbox);
    }
    pthread_mutex_unlock(&g->lock);
    return o;
}

static void shut_late_ones(rf_watch *g) {
    pthread_mutex_lock(&g->lock);
    uint64_t now = rf_time_us(); /* no phase began later: it would seem to have lasted for ever */
    for (size_t fd = 0; fd < g->cap; fd++) {
        const entry *t = find(g, (int)fd);
        if (!t || t->phase == RF_WATCH_BUSY) continue;
        uint64_t limit = t->phase == RF_WATCH_IDLE ? g->o.idle_us : g->o.reading_us;
        if (t->left && limit > LEFT_US) limit = LEFT_US;
        if (now - t->since_us > limit) shutdown((int)fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&g->lock);
}

static void *run(void *user) {
    rf_watch *g = user;
    struct epoll_event events[MAX_EVENTS];
    uint64_t ticked = rf_time_us();
    for (;;) {
        uint64_t waited_from = rf_time_us();
        int n = epoll_wait(g->epoll, events, MAX_EVENTS, TICK_MS);
        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 == UINT64_MAX) return NULL;
            rf_outbox *o = note(g, &events[i], waited_from);
            if (o) rf_outbox_leave(o);
            rf_outbox_drop(o);
        }
        uint64_t now = rf_time_us();
        if (now - ticked < TICK_MS * 1000u) continue;
        ticked = now;
        shut_late_ones(g);
        if (g->o.tick) g->o.tick(g->o.user);
    }
}

static rf_status fail(rf_error *e, const char *what) {
    return rf_fail(e, RF_ENOMEM, "cannot %s: %s", what, strerror(errno));
}

rf_status rf_watch_create(rf_watch **out, const rf_watch_opts *opts, rf_error *e) {
    rf_watch *g = *out = rf_alloc(1, sizeof *g);
    if (!g) return rf_fail_nomem(e, sizeof *g);
    g->o = *opts;
    pthread_mutex_init(&g->lock, NULL);
    g->epoll = epoll_create1(EPOLL_CLOEXEC);
    g->stop = eventfd(0, EFD_CLOEXEC);
    struct epoll_event stop = {.events = EPOLLIN, .data.u64 = UINT64_MAX};
    rf_status s = RF_OK;
    if (g->epoll < 0 || g->stop < 0 || epoll_ctl(g->epoll, EPOLL_CTL_ADD, g->stop, &stop) != 0)
        s = fail(e, "watch connections");
    else if (rf_alloc_should_fail() || pthread_create(&g->thread, NULL, run, g) != 0)
        s = fail(e, "start a thread");
    else
        g->started = true;
    if (s == RF_OK) return RF_OK;
    rf_watch_free(g);
    *out = NULL;
    return s;
}

void rf_watch_free(rf_watch *g) {
    if (!g) return;
    if (g->started) {
        ssize_t done = write(g->stop, &(uint64_t){1}, sizeof(uint64_t));
        RF_ASSERT(done == sizeof(uint64_t));
        pthread_join(g->thread, NULL);
    }
    if (g->epoll >= 0) close(g->epoll);
    if (g->stop >= 0) close(g->stop);
    for (size_t fd = 0; fd < g->cap; fd++)
        rf_outbox_drop(g->entries[fd].outbox);
    rf_free(g->entries);
    pthread_mutex_destroy(&g->lock);
    rf_free(g);
}

static bool reserve(rf_watch *g, size_t n) {
    if (n <= g->cap) return true;
    size_t cap = g->cap ? g->cap * 2 : 64;
    if (cap < n) cap = n;
    entry *grown = rf_realloc(g->entries, g->cap, cap, sizeof *grown);
    if (!grown) return false;
    g->entries = grown;
    g->cap = cap;
    return true;
}

bool rf_watch_add(rf_watch *g, int fd) {
    pthread_mutex_lock(&g->lock);
    bool ok = fd >= 0 && reserve(g, (size_t)fd + 1);
    if (ok) {
        if (++g->last_generation == 0) g->last_generation = 1;
        g->entries[fd] = (entry){.generation = g->last_generation, .since_us = rf_time_us()};
        struct epoll_event event = {
            .events = EPOLLIN | EPOLLRDHUP | EPOLLET,
            .data.u64 = (uint64_t)g->last_generation << 32 | (uint32_t)fd,
        };
        ok = epoll_ctl(g->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
    }
    pthread_mutex_unlock(&g->lock);
    return ok;
}

void rf_watch_remove(rf_watch *g, int fd) {
    pthread_mutex_lock(&g->lock);
    entry *t = find(g, fd);
    rf_outbox *o = t ? t->outbox : NULL;
    if (t) {
        *t = (entry){0};
        epoll_ctl(g->epoll, EPOLL_CTL_DEL, fd, NULL);
    }
    pthread_mutex_unlock(&g->lock);
    rf_outbox_drop(o);
}

void rf_watch_set(rf_watch *g, int fd, rf_watch_phase phase, rf_outbox *o) {
    pthread_mutex_lock(&g->lock);
    entry *t = find(g, fd);
    rf_outbox *old = t ? t->outbox : NULL;
    bool left = t && t->left;
    if (t) {
        bool goes_on = phase == RF_WATCH_READING && t->phase == phase;
        if (!goes_on) t->since_us = rf_time_us();
        t->phase = phase;
        t->served = true;
        t->outbox = o ? rf_outbox_keep(o) : NULL;
    }
    pthread_mutex_unlock(&g->lock);
    rf_outbox_drop(old);
    if (left && o) rf_outbox_leave(o);
}
