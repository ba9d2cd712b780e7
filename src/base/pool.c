/* pool.c - workers that wait for the next epoch, a count of those still inside, and a barrier.
 *
 * A waiter spins for a bounded time (not at all when there are more threads than processors: then
 * the one it waits for may need this very processor), and sleeps after that.  A sleeper counts
 * itself before it looks at the word a last time, a waker changes the word before it looks at the
 * count; both are sequentially consistent, so one of them sees the other. */
#include "base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

#include "base/os.h"

#if !defined(RF_POOL_FUTEX)
#if defined(__linux__)
#define RF_POOL_FUTEX 1
#else
#define RF_POOL_FUTEX 0
#endif
#endif

#if RF_POOL_FUTEX
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define CACHE_LINE  64
#define SPIN_US     30u
#define SPIN_BATCH  32 /* pauses between two looks at the clock */
#define MAX_THREADS 1024

/* A word to wait on and the number of those who sleep on it; each on a line of its own. */
typedef struct gate {
    alignas(CACHE_LINE) _Atomic uint32_t word;
    _Atomic uint32_t n_sleepers;
} gate;

struct rf_pool {
    gate job;                                       /* word: epoch, one more for each job */
    gate done;                                      /* word: workers still inside the job */
    gate barrier;                                   /* word: phase, one more when all arrived */
    alignas(CACHE_LINE) _Atomic uint32_t n_arrived; /* at the barrier */
    /* Written by the caller before the epoch moves, read by workers after: */
    alignas(CACHE_LINE) rf_pool_fn fn; /* NULL: leave */
    void *ctx;
    int n_threads;
    int n_started; /* workers to join */
    bool spin;
    bool running;           /* only the caller looks: a job that runs a job is a bug */
    struct worker *workers; /* [n_threads - 1] */
    rf_spread spread;
    rf_nodes nodes;
    rf_cpu_mask near_caller; /* the processors of thread 0's node */
#if !RF_POOL_FUTEX
    pthread_mutex_t lock;
    pthread_cond_t changed;
#endif
};

typedef struct worker {
    rf_pool *pool;
    pthread_t thread;
    int ith;
} worker;

void rf_cpu_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* about as long as x86's pause; "yield" is a no-op */
#endif
}

#if RF_POOL_FUTEX
static void sleep_on(rf_pool *p, gate *g, uint32_t value) {
    (void)p;
    /* woken, interrupted or value already different: the caller looks again in each case */
    syscall(SYS_futex, &g->word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake_all(rf_pool *p, gate *g) {
    (void)p;
    if (atomic_load(&g->n_sleepers) == 0) return;
    syscall(SYS_futex, &g->word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}
#else
static void sleep_on(rf_pool *p, gate *g, uint32_t value) {
    pthread_mutex_lock(&p->lock);
    if (atomic_load(&g->word) == value) pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void wake_all(rf_pool *p, gate *g) {
    if (atomic_load(&g->n_sleepers) == 0) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}
#endif

/* Returns once the gate's word differs from value; acquires what its writer released. */
static void wait_change(rf_pool *p, gate *g, uint32_t value) {
    if (p->spin) {
        uint64_t start = rf_time_us();
        do {
            for (int i = 0; i < SPIN_BATCH; i++) {
                if (atomic_load_explicit(&g->word, memory_order_acquire) != value) return;
                rf_cpu_pause();
            }
        } while (rf_time_us() - start < SPIN_US);
    }
    if (atomic_load_explicit(&g->word, memory_order_acquire) != value) return;
    atomic_fetch_add(&g->n_sleepers, 1);
    while (atomic_load(&g->word) == value) {
        sleep_on(p, g, value);
    }
    atomic_fetch_sub(&g->n_sleepers, 1);
}

/* The processors of a thread's node. */
static rf_cpu_mask near_thread(const rf_pool *p, int ith) {
    rf_cpu_mask m = {{0}};
    const int node = p->spread.node[rf_spread_find(&p->spread, ith)];
    for (unsigned cpu = 0; cpu < RF_MAX_CPUS; cpu++)
        if (p->nodes.of[cpu] == node) rf_cpu_mask_add(&m, cpu);
    return m;
}

/* Keeps the calling thread on those of its processors that are wanted, if there are any; what it had
 * before goes to *before.  A system that refuses leaves a thread that works elsewhere. */
static bool stay_near(const rf_cpu_mask *wanted, rf_cpu_mask *before) {
    rf_cpu_mask both = {{0}};
    bool some = false;
    if (!rf_thread_cpus(before)) return false;
    for (size_t i = 0; i < sizeof both.bits; i++) {
        both.bits[i] = before->bits[i] & wanted->bits[i];
        some = some || both.bits[i];
    }
    return some && rf_thread_bind(&both);
}

static void *work(void *arg) {
    const worker *self = arg;
    rf_pool *p = self->pool;
    if (p->spread.n > 1) {
        rf_cpu_mask near = near_thread(p, self->ith), before;
        (void)stay_near(&near, &before);
    }
    for (uint32_t epoch = 0;; epoch++) {
        wait_change(p, &p->job, epoch);
        if (!p->fn) return NULL;
        p->fn(p->ctx, self->ith, p->n_threads);
        if (atomic_fetch_sub(&p->done.word, 1) == 1) wake_all(p, &p->done);
    }
}

static void publish(rf_pool *p, rf_pool_fn fn, void *ctx) {
    p->fn = fn;
    p->ctx = ctx;
    atomic_fetch_add(&p->job.word, 1);
    wake_all(p, &p->job);
}

/* Starts the workers with all signals blocked: they belong to the program's own threads.  All but
 * SIGBUS, which is about the memory that a thread itself reads: blocked, it would kill the program
 * without a word. */
static rf_status start_workers(rf_pool *p, rf_error *e) {
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    for (int i = 0; i < p->n_threads - 1 && error == 0; i++) {
        worker *w = &p->workers[i];
        *w = (worker){.pool = p, .ith = i + 1};
        error = rf_alloc_should_fail() ? EAGAIN : pthread_create(&w->thread, NULL, work, w);
        if (error == 0) p->n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) return RF_OK;
    return rf_fail(e, RF_ENOMEM, "cannot start thread %d of %d: %s; use fewer threads",
                   p->n_started + 2, p->n_threads, strerror(error));
}

rf_status rf_pool_create(rf_pool **out, int n_threads, rf_error *e) {
    const rf_nodes one = {.n = 1, .cores = {1}};
    return rf_pool_create_on(out, n_threads, &one, e);
}

rf_status rf_pool_create_on(rf_pool **out, int n_threads, const rf_nodes *nodes, rf_error *e) {
    *out = NULL;
    if (n_threads < 1 || n_threads > MAX_THREADS) {
        return rf_fail(e, RF_EARG, "%d threads: expected 1 to %d", n_threads, MAX_THREADS);
    }
    rf_pool *p = rf_alloc(1, sizeof *p);
    if (!p) return rf_fail_nomem(e, sizeof *p);
    p->n_threads = n_threads;
    p->spin = n_threads <= rf_cpu_count();
    p->nodes = *nodes;
    rf_topology_spread(&p->spread, nodes, n_threads);
    p->near_caller = near_thread(p, 0);
#if !RF_POOL_FUTEX
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
#endif
    p->workers = rf_alloc((size_t)n_threads, sizeof *p->workers);
    rf_status s =
        p->workers ? start_workers(p, e) : rf_fail_nomem(e, (size_t)n_threads * sizeof *p->workers);
    if (s != RF_OK) {
        rf_pool_free(p);
        return s;
    }
    *out = p;
    return RF_OK;
}

void rf_pool_free(rf_pool *p) {
    if (!p) return;
    publish(p, NULL, NULL);
    for (int i = 0; i < p->n_started; i++) {
        pthread_join(p->workers[i].thread, NULL);
    }
#if !RF_POOL_FUTEX
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
#endif
    rf_free(p->workers);
    rf_free(p);
}

int rf_pool_size(const rf_pool *p) { return p->n_threads; }
const rf_spread *rf_pool_spread(const rf_pool *p) { return &p->spread; }

void rf_pool_run(rf_pool *p, rf_pool_fn fn, void *ctx) {
    rf_cpu_mask before;
    bool moved = p->spread.n > 1 && stay_near(&p->near_caller, &before);
    RF_ASSERT(fn && !p->running);
    p->running = true;
    if (p->n_threads > 1) {
        atomic_store_explicit(&p->done.word, (uint32_t)(p->n_threads - 1), memory_order_relaxed);
        publish(p, fn, ctx);
    }
    fn(ctx, 0, p->n_threads);
    uint32_t inside;
    while ((inside = atomic_load_explicit(&p->done.word, memory_order_acquire)) != 0) {
        wait_change(p, &p->done, inside);
    }
    p->running = false;
    if (moved) (void)rf_thread_bind(&before);
}

void rf_pool_barrier(rf_pool *p) {
    if (p->n_threads == 1) return;
    uint32_t phase = atomic_load_explicit(&p->barrier.word, memory_order_relaxed);
    if (atomic_fetch_add(&p->n_arrived, 1) == (uint32_t)p->n_threads - 1) {
        atomic_store_explicit(&p->n_arrived, 0, memory_order_relaxed);
        atomic_fetch_add(&p->barrier.word, 1);
        wake_all(p, &p->barrier);
        return;
    }
    wait_change(p, &p->barrier, phase);
}
