/* The small parts of the server: keys, metrics, the outbox, the watch. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os.h"
#include "lib/testlib.h"
#include "server/keys.h"
#include "server/metrics.h"
#include "server/outbox.h"
#include "server/watch.h"

#define SUM_OF_ABC \
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" /* FIPS 180-4 */

static void test_keys(void **state) {
    (void)state;
    rf_keys *k;
    rf_error e = {0};
    assert_int_equal(
        rf_keys_parse(&k, RF_STR("# a\n\n" SUM_OF_ABC " user,metrics me\r\n"), "f", &e), RF_OK);
    const rf_key *key = rf_keys_find(k, RF_STR("abc"));
    assert_non_null(key);
    assert_string_equal(key->name, "me");
    assert_true(rf_key_may(key, RF_SCOPE_USER) && rf_key_may(key, RF_SCOPE_METRICS));
    assert_false(rf_key_may(key, RF_SCOPE_ADMIN));
    assert_int_equal(key->weight, 1);
    assert_null(rf_keys_find(k, RF_STR("abd")));
    assert_null(rf_keys_find(k, RF_STR("")));
    rf_keys_free(k);
    assert_int_equal(rf_keys_parse(&k, RF_STR(SUM_OF_ABC " user me 1000"), "f", &e), RF_OK);
    assert_int_equal(rf_keys_find(k, RF_STR("abc"))->weight, 1000);
    assert_true(rf_keys_find(k, RF_STR("abc"))->prefix_salt == 0);
    rf_keys_part_prefixes(k);
    uint64_t salt = rf_keys_find(k, RF_STR("abc"))->prefix_salt;
    assert_true(salt != 0);
    rf_keys_part_prefixes(k); /* as when a file is read again: never one that was given before */
    assert_true(rf_keys_find(k, RF_STR("abc"))->prefix_salt > salt);
    rf_keys_free(k);
    static const char *const wrong[] = {
        "",
        "# nothing\n",
        "abc user me",
        SUM_OF_ABC " root me",
        SUM_OF_ABC " user, me",
        SUM_OF_ABC " user",
        SUM_OF_ABC " user me too",
        SUM_OF_ABC " user me 0",
        SUM_OF_ABC " user me 1001",
        SUM_OF_ABC " user me 42949672961",
        SUM_OF_ABC " user me 2 3",
        "g" SUM_OF_ABC " user me",
    };
    for (size_t i = 0; i < RF_COUNT(wrong); i++) {
        e = (rf_error){0};
        assert_int_equal(rf_keys_parse(&k, rf_str_of(wrong[i]), "f", &e), RF_EFORMAT);
        assert_null(k);
        assert_memory_equal(e.text, "f", 1);
    }
}

static void test_metrics(void **state) {
    (void)state;
    static rf_metrics m;
    double read[RF_M_COUNT] = {[RF_M_KV_BLOCKS] = 12};
    rf_metrics_add(&m, RF_M_STARTED, 3);
    rf_metrics_observe(&m, RF_M_TTFT_S, 500);
    rf_metrics_observe(&m, RF_M_TTFT_S, 501);
    rf_metrics_observe(&m, RF_M_TTFT_S, 400000000);
    rf_buf out = {0};
    rf_metrics_print(&m, read, &out);
    static const char *const lines[] = {
        "\nrocmforge_requests_started_total 3\n",
        "\nrocmforge_kv_blocks 12\n",
        "\n# TYPE rocmforge_ttft_seconds histogram\n",
        "\nrocmforge_ttft_seconds_bucket{le=\"0.0005\"} 1\n",
        "\nrocmforge_ttft_seconds_bucket{le=\"0.001\"} 2\n",
        "\nrocmforge_ttft_seconds_bucket{le=\"300\"} 2\n",
        "\nrocmforge_ttft_seconds_bucket{le=\"+Inf\"} 3\n",
        "\nrocmforge_ttft_seconds_sum 400.001001\n",
        "\nrocmforge_ttft_seconds_count 3\n",
    };
    for (size_t i = 0; i < RF_COUNT(lines); i++)
        if (!strstr(out.p, lines[i])) fail_msg("missing: %s", lines[i]);
    rf_buf_free(&out);
    /* 30 tokens a second for ten seconds, then silence. */
    for (uint64_t s = 100; s < 110; s++)
        rf_metrics_tokens(&m, 30, s * 1000000 + 5);
    assert_true(rf_metrics_tokens_per_second(&m, 110 * 1000000) == 30);
    assert_true(rf_metrics_tokens_per_second(&m, 115 * 1000000) == 15);
    assert_true(rf_metrics_tokens_per_second(&m, 130 * 1000000) == 0);
    assert_int_equal(rf_metrics_get(&m, RF_M_TOKENS), 300);
}

/* ---- outbox ---- */

typedef struct calls {
    int sleeps, wakes, lefts, releases;
} calls;
static void on_sleep(void *c) { ((calls *)c)->sleeps++; }
static void on_wake(void *c) { ((calls *)c)->wakes++; }
static void on_left(void *c) { ((calls *)c)->lefts++; }
static void on_release(void *c) { ((calls *)c)->releases++; }

static void test_outbox_whole(void **state) {
    (void)state;
    calls c = {0};
    rf_outbox *o;
    rf_outbox_head head;
    char bytes[8];
    assert_int_equal(rf_outbox_create(&o, on_sleep, on_wake, &c), RF_OK);
    rf_outbox_watch(o, on_left, on_release, &c);
    assert_false(rf_outbox_ready(o));
    assert_true(rf_outbox_put(o, "hello", 5));
    assert_int_equal(c.wakes, 0); /* not a stream: only the end wakes */
    rf_outbox_start(o, 201, "text/plain");
    rf_outbox_end(o);
    assert_int_equal(c.wakes, 1);
    assert_true(rf_outbox_ready(o));
    rf_outbox_get_head(o, &head);
    assert_true(head.status == 201 && head.n_bytes == 5 && !head.is_stream);
    assert_int_equal(rf_outbox_take(o, bytes, 3), 3);
    assert_int_equal(rf_outbox_take(o, bytes, 8), 2);
    assert_int_equal(rf_outbox_take(o, bytes, 8), -1);
    rf_outbox_leave(o); /* after the end: nobody needs to know */
    rf_outbox_drop(o);
    assert_true(c.sleeps == 1 && c.lefts == 0 && c.releases == 1);
}

static void test_outbox_stream(void **state) {
    (void)state;
    calls c = {0};
    rf_outbox *o;
    char bytes[8];
    assert_int_equal(rf_outbox_create(&o, on_sleep, on_wake, &c), RF_OK);
    rf_outbox_stream(o);
    assert_true(rf_outbox_ready(o));
    assert_int_equal(rf_outbox_take(o, bytes, 8), 0);
    assert_true(rf_outbox_put(o, "ab", 2));
    assert_true(c.sleeps == 1 && c.wakes == 1);
    rf_outbox_ping(o, 1000000000, RF_STR("ping")); /* not silent for long */
    assert_int_equal(rf_outbox_take(o, bytes, 8), 2);
    rf_outbox_ping(o, 0, RF_STR("ping"));
    assert_int_equal(rf_outbox_take(o, bytes, 8), 4);
    assert_int_equal(rf_outbox_take(o, bytes, 8), 0);
    rf_outbox_leave(o);
    assert_int_equal(c.wakes, 2);
    assert_false(rf_outbox_put(o, "x", 1));
    assert_int_equal(rf_outbox_take(o, bytes, 8), -2);
    rf_outbox_watch(o, on_left, on_release, &c); /* too late: told at once */
    assert_int_equal(c.lefts, 1);
    rf_outbox_drop(o);
    assert_int_equal(c.releases, 1);
}

/* Connections whose phases change all the time, as the watch looks for those that stay too long in one. */
typedef struct watched {
    rf_watch *watch;
    int here[2], there[2]; /* ends of connections, one for each thread below */
    atomic_uint n_ticks;
} watched;
typedef struct changing {
    watched *of;
    int fd;
} changing;

static void on_tick(void *user) {
    watched *w = user;
    atomic_fetch_add(&w->n_ticks, 1);
}

static void *change_phases(void *user) {
    const changing *c = user;
    for (unsigned i = 0; atomic_load(&c->of->n_ticks) < 3; i++)
        rf_watch_set(c->of->watch, c->fd, i % 2 ? RF_WATCH_IDLE : RF_WATCH_READING, NULL);
    return NULL;
}

static void test_watch_of_changing_phases(void **state) {
    (void)state;
    watched w = {0};
    rf_error e = {0};
    const rf_watch_opts o = {
        .idle_us = 3600000000u, .reading_us = 3600000000u, .tick = on_tick, .user = &w};
    pthread_t threads[RF_COUNT(w.here)];
    changing c[RF_COUNT(w.here)];
    assert_int_equal(rf_watch_create(&w.watch, &o, &e), RF_OK);
    for (size_t i = 0; i < RF_COUNT(w.here); i++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        w.here[i] = ends[0];
        w.there[i] = ends[1];
        assert_true(rf_watch_add(w.watch, ends[0]));
        c[i] = (changing){.of = &w, .fd = ends[0]};
        assert_int_equal(pthread_create(&threads[i], NULL, change_phases, &c[i]), 0);
    }
    for (size_t i = 0; i < RF_COUNT(w.here); i++) {
        char byte = 'x';
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(send(w.there[i], &byte, 1, MSG_NOSIGNAL), 1); /* nothing was shut down */
        rf_watch_remove(w.watch, w.here[i]);
        close(w.here[i]);
        close(w.there[i]);
    }
    rf_watch_free(w.watch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_outbox_whole),
        cmocka_unit_test(test_outbox_stream),
        cmocka_unit_test(test_watch_of_changing_phases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
