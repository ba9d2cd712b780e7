/* test_pool.c - the thread pool: who runs, barriers, many short jobs, idle workers, failure. */
#include "lib/testlib.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/os.h"
#include "base/pool.h"

enum { MAX_THREADS = 5 };

static rf_pool *fresh(int n_threads) {
    rf_pool *p;
    rf_error e = {0};
    if (rf_pool_create(&p, n_threads, &e) != RF_OK) fail_msg("%s", e.text);
    return p;
}

/* Plain data on purpose: the pool alone must order the accesses, and the thread sanitizer tells. */
typedef struct job {
    rf_pool *pool;
    int n_threads;
    int visits[MAX_THREADS];
    int64_t input;
    int64_t output[MAX_THREADS];
    int rounds;
    int64_t round_sum[2][MAX_THREADS];
    int mistakes[MAX_THREADS];
} job;

static void visit(void *ctx, int ith, int n_threads) {
    job *j = ctx;
    j->visits[ith]++;
    j->output[ith] = j->input * (ith + 1);
    if (n_threads != j->n_threads) j->mistakes[ith]++;
}

static void many_short_jobs(void **state) {
    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++) {
        rf_pool *p = fresh(n);
        assert_int_equal(rf_pool_size(p), n);
        job j = {.pool = p, .n_threads = n};
        const int n_jobs = 3000;
        for (int k = 0; k < n_jobs; k++) {
            j.input = k;
            rf_pool_run(p, visit, &j);
            for (int i = 0; i < n; i++) { /* every thread was in this job and has left it */
                assert_int_equal(j.visits[i], k + 1);
                assert_true(j.output[i] == (int64_t)k * (i + 1));
                assert_int_equal(j.mistakes[i], 0);
            }
        }
        rf_pool_free(p);
    }
    rf_pool_free(NULL);
}

/* Each round every thread writes its own number and, behind the barrier, reads everybody's. */
static void rounds(void *ctx, int ith, int n_threads) {
    job *j = ctx;
    for (int r = 0; r < j->rounds; r++) {
        j->round_sum[r & 1][ith] = (int64_t)r * 100 + ith;
        rf_pool_barrier(j->pool);
        for (int i = 0; i < n_threads; i++) {
            if (j->round_sum[r & 1][i] != (int64_t)r * 100 + i) j->mistakes[ith]++;
        }
    }
}

static void barriers_part_the_rounds(void **state) {
    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++) {
        rf_pool *p = fresh(n);
        for (int again = 0; again < 20; again++) {
            job j = {.pool = p, .n_threads = n, .rounds = again % 3 == 0 ? 301 : 40};
            rf_pool_run(p, rounds, &j);
            for (int i = 0; i < n; i++) {
                assert_int_equal(j.mistakes[i], 0);
            }
        }
        rf_pool_free(p);
    }
}

static void nap(long microseconds) {
    struct timespec t = {0, microseconds * 1000};
    nanosleep(&t, NULL);
}

/* One thread is late, at a job's start, at its barrier or at its end: the others have gone to sleep
 * by then and must be woken. */
static void late(void *ctx, int ith, int n_threads) {
    job *j = ctx;
    if (ith == j->rounds % n_threads) nap(2000);
    j->output[ith] = ith + 1;
    rf_pool_barrier(j->pool);
    int64_t sum = 0;
    for (int i = 0; i < n_threads; i++) {
        sum += j->output[i];
    }
    if (sum != n_threads * (n_threads + 1) / 2) j->mistakes[ith]++;
    if (ith == (j->rounds + 1) % n_threads) nap(2000);
    j->visits[ith]++;
}

static void sleepers_are_woken(void **state) {
    (void)state;
    for (int n = 2; n <= MAX_THREADS; n++) {
        rf_pool *p = fresh(n);
        job j = {.pool = p, .n_threads = n};
        for (j.rounds = 0; j.rounds < 12; j.rounds++) {
            memset(j.output, 0, sizeof j.output);
            rf_pool_run(p, late, &j);
            nap(300); /* long enough for the workers to fall asleep between two jobs */
            for (int i = 0; i < n; i++) {
                assert_int_equal(j.visits[i], j.rounds + 1);
                assert_int_equal(j.mistakes[i], 0);
            }
        }
        rf_pool_free(p);
    }
}

static double cpu_seconds(void) {
    struct rusage u;
    assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Measured in the process's own processor time, which other programs do not change. */
static void idle_workers_burn_nothing(void **state) {
    (void)state;
    rf_pool *p = fresh(MAX_THREADS);
    job j = {.pool = p, .n_threads = MAX_THREADS};
    rf_pool_run(p, visit, &j);
    double before = cpu_seconds();
    nap(300000);
    double used = cpu_seconds() - before;
    print_message("four idle workers used %.4f s of processor time in 0.3 s\n", used);
    assert_true(used < 0.1); /* four spinning ones would use 0.6 s on two processors */
    rf_pool_free(p);
}

static void pools_come_and_go(void **state) {
    (void)state;
    for (int k = 0; k < 60; k++) { /* with and without a job between creation and end */
        int n = k % MAX_THREADS + 1;
        rf_pool *p = fresh(n);
        job j = {.pool = p, .n_threads = n};
        if (k % 2) rf_pool_run(p, visit, &j);
        assert_int_equal(j.visits[n - 1], k % 2);
        rf_pool_free(p);
    }
}

static void wrong_counts_are_refused(void **state) {
    (void)state;
    static const int wrong[] = {0, -1, 1025, INT32_MAX};
    for (size_t i = 0; i < RF_COUNT(wrong); i++) {
        rf_pool *p;
        rf_error e = {0};
        assert_int_equal(rf_pool_create(&p, wrong[i], &e), RF_EARG);
        assert_null(p);
        assert_non_null(strstr(e.text, "expected 1 to 1024"));
    }
}

static void look(void *ctx, int ith, int n_threads) {
    rf_cpu_mask *seen = ctx;
    (void)n_threads;
    assert_true(rf_thread_cpus(&seen[ith]));
}

/* Even processors are one node, odd ones the other: threads keep to theirs where they may run there at all,
 * and the caller has its own processors back afterwards. */
static void threads_stay_on_their_node(void **state) {
    (void)state;
    rf_nodes nodes = {.n = 2, .cores = {1, 1}};
    rf_cpu_mask before, after, seen[4];
    rf_spread s;
    rf_pool *p;
    for (unsigned cpu = 0; cpu < RF_MAX_CPUS; cpu++)
        nodes.of[cpu] = cpu % 2;
    assert_true(rf_thread_cpus(&before));
    assert_int_equal(rf_pool_create_on(&p, 4, &nodes, NULL), RF_OK);
    s = *rf_pool_spread(p);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.first[1], 2);
    rf_pool_run(p, look, seen);
    assert_true(rf_thread_cpus(&after));
    assert_memory_equal(&before, &after, sizeof before);
    for (int i = 0; i < 4; i++) {
        rf_cpu_mask want = {{0}};
        bool some = false;
        for (unsigned cpu = 0; cpu < RF_MAX_CPUS; cpu++)
            if (rf_cpu_mask_has(&before, cpu) && (int)cpu % 2 == i / 2) {
                rf_cpu_mask_add(&want, cpu);
                some = true;
            }
        assert_memory_equal(&seen[i], some ? &want : &before, sizeof want);
    }
    rf_pool_free(p);
    assert_int_equal(rf_pool_create(&p, 4, NULL), RF_OK);
    rf_pool_run(p, look, seen);
    for (int i = 0; i < 4; i++)
        assert_memory_equal(&seen[i], &before, sizeof before);
    rf_pool_free(p);
}

static void every_allocation_and_thread_may_fail(void **state) {
    (void)state;
    long nth = 1;
    for (;; nth++) {
        rf_pool *p;
        rf_error e = {0};
        rf_alloc_fail_nth(nth);
        rf_status s = rf_pool_create(&p, 4, &e);
        rf_alloc_fail_nth(0);
        if (s == RF_OK) {
            rf_pool_free(p);
            break;
        }
        assert_int_equal(s, RF_ENOMEM);
        assert_null(p);
        if (nth == 4) assert_non_null(strstr(e.text, "thread 3 of 4"));
    }
    assert_int_equal(nth, 6); /* the pool, its workers' records, three threads */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_short_jobs),
        cmocka_unit_test(barriers_part_the_rounds),
        cmocka_unit_test(sleepers_are_woken),
        cmocka_unit_test(idle_workers_burn_nothing),
        cmocka_unit_test(pools_come_and_go),
        cmocka_unit_test(wrong_counts_are_refused),
        cmocka_unit_test(threads_stay_on_their_node),
        cmocka_unit_test(every_allocation_and_thread_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
