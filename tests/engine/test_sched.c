/* test_sched.c - how rows are dealt out: against the rules in words, and over whole simulated
 * lives. */
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(deals), cmocka_unit_test(lives),
                                       cmocka_unit_test(nothing_to_deal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
