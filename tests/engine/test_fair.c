/* test_fair.c - who is chosen: the share of flows that always wait, who comes back, priorities, and
 * how many flows are remembered. */
#include "engine/fair.h"

#include "lib/testlib.h"

enum { MAX_WAITING = 400 };

typedef struct queue {
    rf_fair fair;
    rf_fair_ticket waiting[MAX_WAITING]; /* [n] in order of arrival */
    size_t n;
} queue;

static rf_fair_ticket join(queue *q, uint64_t id, uint32_t weight, int priority) {
    assert_true(q->n < MAX_WAITING);
    rf_fair_ticket *t = &q->waiting[q->n++];
    assert_int_equal(rf_fair_join(&q->fair, id, weight, priority, t), RF_OK);
    assert_true(q->fair.flows[t->flow].id == id);
    return *t;
}

/* Takes the first one out; exactly one comes before all the others. */
static rf_fair_ticket take(queue *q) {
    size_t best = 0, n_first = 0;
    for (size_t i = 1; i < q->n; i++)
        if (rf_fair_before(&q->fair, q->waiting[i], q->waiting[best])) best = i;
    for (size_t i = 0; i < q->n; i++)
        n_first += i != best && !rf_fair_before(&q->fair, q->waiting[best], q->waiting[i]);
    assert_int_equal(n_first, 0);
    rf_fair_ticket t = q->waiting[best];
    q->n--;
    for (size_t i = best; i < q->n; i++)
        q->waiting[i] = q->waiting[i + 1];
    return t;
}

static uint64_t run(queue *q, uint32_t n_tokens) {
    rf_fair_ticket t = take(q);
    rf_fair_start(&q->fair, t, n_tokens);
    uint64_t id = q->fair.flows[t.flow].id;
    rf_fair_leave(&q->fair, t);
    return id;
}

/* Flows that always wait get tokens in proportion to their weights, whatever their requests cost. */
static void shares(void **state) {
    (void)state;
    static const uint32_t weight[] = {1, 2, 7, 1000};
    uint64_t noise = 1, got[4] = {0};
    queue q = {0};
    for (uint64_t i = 0; i < 4; i++)
        join(&q, 70 + i, weight[i], 0);
    for (int round = 0; round < 200000; round++) {
        uint32_t cost = 1 + (uint32_t)(rf_test_rand(&noise) % 100);
        uint64_t id = run(&q, cost) - 70;
        got[id] += cost;
        join(&q, 70 + id, weight[id], 0);
        for (size_t i = 0; i < 4 && round % 100 == 0; i++)
            for (size_t j = 0; j < 4; j++) { /* one request of 100 tokens, and rounding */
                double a = (double)got[i] / weight[i], b = (double)got[j] / weight[j];
                assert_true(a - b <= 100.0 / weight[i] + round / (double)RF_FAIR_TOKEN);
            }
    }
    assert_true(got[0] > 5000);
    rf_fair_free(&q.fair);
}

/* Who was away has saved nothing up, and who has used much has to pay for it. */
static void comes_back(void **state) {
    (void)state;
    queue q = {0};
    for (int i = 0; i < 10; i++) {
        join(&q, 1, 1, 0);
        assert_int_equal(run(&q, 100), 1); /* alone: always */
    }
    int n_first = 0;
    for (int i = 0; i < 20; i++)
        join(&q, 1, 1, 0), join(&q, 2, 1, 0);
    for (int i = 0; i < 20; i++)
        n_first += run(&q, 100) == 2;
    assert_true(n_first == 10 || n_first == 11);
    while (q.n)
        run(&q, 100);
    rf_fair_free(&q.fair);
}

/* Lower numbers first, but by no more than 64 requests a level; equal ones as they came. */
static void priorities(void **state) {
    (void)state;
    queue q = {0};
    rf_fair_ticket normal = join(&q, 1, 1, 0), low = join(&q, 1, 1, 1), next = join(&q, 1, 1, 0);
    rf_fair_ticket high = join(&q, 1, 1, -1), t;
    rf_fair_ticket want[] = {high, normal, next};
    for (size_t i = 0; i < 3; i++) {
        t = take(&q);
        assert_int_equal(t.number, want[i].number);
    }
    for (int i = 0; i < 300; i++)
        join(&q, 1, 1, 0);
    int n_overtook = 0;
    while (t = take(&q), t.number != low.number)
        n_overtook++;
    assert_int_equal(n_overtook, 61); /* 4 to 64; it has number 1 */
    rf_fair_free(&q.fair);

    q = (queue){0}; /* the other flow's turn comes whatever this one's priority */
    join(&q, 1, 1, -100), join(&q, 1, 1, -100), join(&q, 2, 1, 100);
    assert_int_equal(run(&q, 10), 1);
    assert_int_equal(run(&q, 10), 2);
    assert_int_equal(run(&q, 10), 1);
    rf_fair_free(&q.fair);
}

/* A table of those that are there, not of all that ever came. */
static void memory(void **state) {
    (void)state;
    queue q = {0};
    for (uint64_t id = 0; id < 10000; id++) {
        join(&q, id, 1, 0);
        if (id % 5 == 4)
            while (q.n)
                run(&q, 3);
    }
    assert_int_equal(q.fair.cap, RF_FAIR_REMEMBERED);
    rf_fair_free(&q.fair);

    rf_fair_ticket t;
    rf_alloc_fail_nth(1);
    assert_int_equal(rf_fair_join(&q.fair, 5, 1, 0, &t), RF_ENOMEM);
    rf_alloc_fail_nth(0);
    assert_int_equal(rf_fair_join(&q.fair, 5, 1, 0, &t), RF_OK);
    rf_fair_leave(&q.fair, t);
    rf_fair_free(&q.fair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares),
        cmocka_unit_test(comes_back),
        cmocka_unit_test(priorities),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
