/* test_sched.c - how rows and KV blocks are dealt out: against the rules in words, and over whole
 * simulated lives. */
#include "engine/sched.h"

#include <string.h>

#include "lib/testlib.h"

enum { MAX_SEQS = 40 };

static uint32_t pending(const rf_sched_seq *s) { return s->n_tokens - s->n_done; }

/* The rules of sched.h, one by one, on what was dealt. */
static void check_deal(const rf_sched_seq *s, size_t n, uint32_t budget, uint32_t rows) {
    uint32_t sum = 0, decoding = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(s[i].chunk <= pending(&s[i]));
        sum += s[i].chunk;
        decoding += pending(&s[i]) == 1;
    }
    assert_int_equal(sum, rows);
    assert_true(rows <= budget);
    if (n > 0 && budget > 0) assert_true(rows >= 1);
    bool starved = false; /* somebody older of the same kind got less than it wanted */
    for (size_t i = 0; i < n; i++) {
        if (pending(&s[i]) != 1) continue;
        if (starved) assert_int_equal(s[i].chunk, 0);
        starved = starved || s[i].chunk == 0;
        if (decoding <= budget) assert_int_equal(s[i].chunk, 1);
    }
    bool left = rows < budget;
    for (size_t i = 0; i < n; i++) {
        if (pending(&s[i]) == 1) continue;
        if (starved) assert_int_equal(s[i].chunk, 0);
        starved = starved || s[i].chunk < pending(&s[i]);
        if (left) assert_int_equal(s[i].chunk, pending(&s[i])); /* nothing is left for no reason */
    }
}

static void deals(void **state) {
    (void)state;
    uint64_t noise = 1;
    for (int round = 0; round < 50000; round++) {
        rf_sched_seq s[MAX_SEQS];
        size_t n = rf_test_rand(&noise) % (MAX_SEQS + 1);
        uint32_t budget = (uint32_t)(rf_test_rand(&noise) % 64);
        if (round % 50 == 0) budget = UINT32_MAX;
        for (size_t i = 0; i < n; i++) {
            uint32_t done = (uint32_t)(rf_test_rand(&noise) % 1000);
            uint32_t more = rf_test_rand(&noise) % 2
                                ? 1
                                : (uint32_t)(1 + rf_test_rand(&noise) % (round % 7 ? 30 : 100000));
            s[i] = (rf_sched_seq){.n_tokens = done + more, .n_done = done, .chunk = 12345};
        }
        check_deal(s, n, budget, rf_sched_chunks(s, n, budget));
    }
}

/* Sequences that prefill and then decode: all finish, in no more steps than the work needs, and one
 * that decodes never waits while the budget has a row for each sequence.  req: B-34, C-11, C-12 */
static void lives(void **state) {
    (void)state;
    uint64_t noise = 2;
    for (int round = 0; round < 300; round++) {
        rf_sched_seq s[MAX_SEQS];
        uint32_t answer[MAX_SEQS], n_left, most = 0;
        size_t n = 1 + rf_test_rand(&noise) % MAX_SEQS;
        uint32_t budget = (uint32_t)(n + rf_test_rand(&noise) % 64), work = 0, steps = 0;
        for (size_t i = 0; i < n; i++) {
            s[i] = (rf_sched_seq){.n_tokens = (uint32_t)(1 + rf_test_rand(&noise) % 300)};
            answer[i] = (uint32_t)(rf_test_rand(&noise) % 50);
            work += s[i].n_tokens + answer[i];
            most = answer[i] > most ? answer[i] : most;
        }
        do {
            rf_sched_seq live[MAX_SEQS];
            size_t of[MAX_SEQS], n_live = 0;
            for (size_t i = 0; i < n; i++)
                if (pending(&s[i])) of[n_live] = i, live[n_live++] = s[i];
            n_left = (uint32_t)n_live;
            if (n_left == 0) break;
            check_deal(live, n_live, budget, rf_sched_chunks(live, n_live, budget));
            for (size_t k = 0; k < n_live; k++) {
                rf_sched_seq *it = &s[of[k]];
                if (pending(it) == 1) assert_int_equal(live[k].chunk, 1);
                it->n_done += live[k].chunk;
                if (pending(it) == 0 && answer[of[k]]) it->n_tokens++, answer[of[k]]--;
            }
            steps++;
        } while (n_left);
        /* while prompts remain every step is full; what is left then is one answer's length */
        assert_true(steps <= work / budget + 1 + most + 1);
    }
}

static void nothing_to_deal(void **state) {
    (void)state;
    rf_sched_seq s = {.n_tokens = 5, .chunk = 3};
    assert_int_equal(rf_sched_chunks(NULL, 0, 10), 0);
    assert_int_equal(rf_sched_chunks(&s, 1, 0), 0);
    assert_int_equal(s.chunk, 0);
}

/* One waits until its tokens and a block more are free beside what the running ones were promised. */
static void starts(void **state) {
    (void)state;
    rf_sched_seq next = {.n_tokens = 9, .n_most = 100};
    rf_sched_seq running[2] = {{.n_tokens = 8, .n_done = 2, .n_most = 100, .n_blocks = 1},
                               {.n_tokens = 8, .n_done = 7, .n_most = 10, .n_blocks = 3}};
    rf_sched_pool pool = {.block_tokens = 4};
    assert_true(rf_sched_may_start(running, 0, &next, pool)); /* alone: always */
    pool.n_free = 5; /* the first waits for 2 blocks, the second's whole life has its 3 already */
    assert_false(rf_sched_may_start(running, 2, &next, pool));
    assert_false(rf_sched_may_start(running, 1, &next, pool));
    assert_true(rf_sched_may_start(running + 1, 1, &next, pool));
    pool.n_free = 6; /* 3 + 1 of its own and those 2 */
    assert_true(rf_sched_may_start(running, 2, &next, pool));
    pool.n_free = 4;
    next.n_blocks = 2; /* shared with those that run: they cost nothing */
    assert_true(rf_sched_may_start(running, 2, &next, pool));
    next = (rf_sched_seq){.n_tokens = 9, .n_most = 10, .n_blocks = 1}; /* ends in its last block */
    assert_true(rf_sched_may_start(running, 2, &next, pool));
    pool.n_free = 3;
    assert_false(rf_sched_may_start(running, 2, &next, pool));
}

/* Whoever is not the last gets all of its chunk; the last gets what is left, or makes room. */
static void fits(void **state) {
    (void)state;
    uint64_t noise = 3;
    int n_cut = 0, n_refused = 0;
    for (int round = 0; round < 50000; round++) {
        rf_sched_seq s[MAX_SEQS], before[MAX_SEQS];
        size_t n = 1 + rf_test_rand(&noise) % 6;
        rf_sched_pool pool = {.block_tokens = 1 + (uint32_t)(rf_test_rand(&noise) % 5),
                              .n_free = (uint32_t)(rf_test_rand(&noise) % 12)};
        uint32_t want[MAX_SEQS], before_last = 0; /* blocks, counted one by one */
        for (size_t i = 0; i < n; i++) {
            uint32_t held = (uint32_t)(rf_test_rand(&noise) % 4);
            uint32_t done = (uint32_t)(rf_test_rand(&noise) % (held * pool.block_tokens + 1));
            uint32_t chunk = (uint32_t)(rf_test_rand(&noise) % 14);
            s[i] = (rf_sched_seq){
                .n_tokens = done + chunk + 1, .n_done = done, .n_blocks = held, .chunk = chunk};
            for (want[i] = 0; (held + want[i]) * pool.block_tokens < done + chunk; want[i]++) {
            }
            if (i + 1 < n) before_last += want[i];
        }
        memcpy(before, s, sizeof s);
        bool fit = rf_sched_fit(s, n, pool);
        assert_int_equal(fit, n == 1 || before_last <= pool.n_free);
        n_refused += !fit;
        if (!fit) continue;
        assert_memory_equal(s, before, (n - 1) * sizeof *s);
        uint32_t left = pool.n_free - before_last;
        rf_sched_seq *last = &s[n - 1];
        if (want[n - 1] <= left) {
            assert_int_equal(last->chunk, before[n - 1].chunk);
        } else {
            uint32_t all = (last->n_blocks + left) * pool.block_tokens;
            assert_int_equal(last->n_done + last->chunk, all);
            n_cut++;
        }
    }
    assert_true(n_cut > 1000 && n_refused > 1000);
}

/* What must come in one step comes so or waits, and while it waits nobody younger is preferred. */
static void whole_pieces(void **state) {
    (void)state;
    uint64_t noise = 5;
    int n_waited = 0, n_given = 0;
    for (int round = 0; round < 20000; round++) {
        rf_sched_seq s[MAX_SEQS];
        size_t n = 1 + rf_test_rand(&noise) % 8;
        uint32_t budget = (uint32_t)(n + rf_test_rand(&noise) % 40);
        for (size_t i = 0; i < n; i++) {
            uint32_t more =
                rf_test_rand(&noise) % 2 ? 1 : (uint32_t)(2 + rf_test_rand(&noise) % 40);
            uint32_t most = more < budget ? more : budget;
            bool is_whole = more > 1 && rf_test_rand(&noise) % 2;
            s[i] = (rf_sched_seq){.n_tokens = more,
                                  .n_whole =
                                      is_whole ? 1 + (uint32_t)(rf_test_rand(&noise) % most) : 0};
        }
        uint32_t rows = rf_sched_chunks(s, n, budget);
        assert_true(rows >= 1 && rows <= budget);
        bool waits = false;
        for (size_t i = 0; i < n; i++) {
            if (pending(&s[i]) == 1) {
                assert_int_equal(s[i].chunk, 1);
                continue;
            }
            if (waits) assert_int_equal(s[i].chunk, 0);
            assert_true(s[i].chunk == 0 || s[i].chunk >= s[i].n_whole);
            waits = waits || (s[i].n_whole > 0 && s[i].chunk == 0);
            n_given += s[i].n_whole > 0 && s[i].chunk > 0;
        }
        n_waited += waits;
    }
    assert_true(n_waited > 1000 && n_given > 1000);
    rf_sched_seq s[2] = {{.n_tokens = 1, .chunk = 1}, {.n_tokens = 20, .n_whole = 12, .chunk = 20}};
    assert_true(rf_sched_fit(s, 2, (rf_sched_pool){.block_tokens = 4, .n_free = 4}));
    assert_int_equal(s[1].chunk, 12); /* three blocks are left */
    s[1].n_whole = 13;
    assert_true(rf_sched_fit(s, 2, (rf_sched_pool){.block_tokens = 4, .n_free = 3}));
    assert_int_equal(s[1].chunk, 0);
}

/* Rows by the time they take: exactly what the target leaves, within the bounds that hold always. */
static void rows_by_pace(void **state) {
    (void)state;
    rf_sched_pace p = {.target_us = 50000, .decode_us = 20000, .row_us = 1000};
    rf_sched_seq s[3] = {{.n_tokens = 10, .n_done = 9},
                         {.n_tokens = 20, .n_done = 19},
                         {.n_tokens = 900, .n_done = 100}};
    assert_int_equal(rf_sched_rows(&p, s, 3, 256), 2 + 30);
    assert_int_equal(rf_sched_rows(&p, s, 3, 20), 20);
    assert_int_equal(rf_sched_rows(&p, s + 2, 1, 256), 256); /* nobody decodes */
    p.decode_us = 60000;                                     /* late anyway: prompts go on slowly */
    assert_int_equal(rf_sched_rows(&p, s, 3, 256), 2 + 8);
    s[2].n_whole = 100;
    assert_int_equal(rf_sched_rows(&p, s, 3, 256), 2 + 100);
    s[2].n_whole = 0;
    p = (rf_sched_pace){.target_us = 50000}; /* nothing is known yet */
    assert_int_equal(rf_sched_rows(&p, s, 3, 256), 2 + 8);
    p.target_us = 0;
    assert_int_equal(rf_sched_rows(&p, s, 3, 256), 256);
    assert_int_equal(rf_sched_rows(&p, NULL, 0, 256), 256);
}

/* A machine whose steps take so long and so long per row: after a few of them the steps with prompts last
 * as was wished, also when the machine becomes slower. */
static void measures(void **state) {
    (void)state;
    rf_sched_pace p = {.target_us = 40000};
    const double cost[] = {200, 600};
    for (size_t k = 0; k < RF_COUNT(cost); k++) {
        for (int step = 0; step < 200; step++) {
            rf_sched_seq s[2] = {{.n_tokens = 10, .n_done = 9}, {.n_tokens = 900, .n_done = 100}};
            bool prompt = step % 4 != 0;
            uint32_t rows = rf_sched_rows(&p, s, 1 + prompt, 256);
            rf_sched_chunks(s, 1 + prompt, rows);
            double us = 10000 * (double)(k + 1) + cost[k] * (prompt ? s[1].chunk : 0);
            if (prompt && step > 100) assert_true(us > 36000 && us < 42000);
            rf_sched_measure(&p, s, 1 + prompt, (uint64_t)us);
        }
    }
}

/* A step ends where a sequence must stop, and the rest of its budget goes to others. */
static void stops(void **state) {
    (void)state;
    rf_sched_seq s[2] = {{.n_tokens = 100, .n_most = 200, .n_stop = 32},
                         {.n_tokens = 100, .n_done = 90, .n_most = 200, .n_stop = 60}};
    assert_int_equal(rf_sched_chunks(s, 2, 64), 42);
    assert_int_equal(s[0].chunk, 32);
    assert_int_equal(s[1].chunk, 10); /* comes to its end before it */
    assert_int_equal(rf_sched_chunks(s, 2, 20), 20);
    assert_int_equal(s[0].chunk, 20);
    assert_int_equal(s[1].chunk, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deals),  cmocka_unit_test(lives),        cmocka_unit_test(nothing_to_deal),
        cmocka_unit_test(starts), cmocka_unit_test(fits),         cmocka_unit_test(whole_pieces),
        cmocka_unit_test(stops),  cmocka_unit_test(rows_by_pace), cmocka_unit_test(measures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
