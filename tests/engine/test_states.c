/* test_states.c - slots of sequences and snapshots: who gets which, what stays and what goes. */
#include "engine/states.h"

#include "lib/testlib.h"

enum { N_RUNNING = 2, N_SNAPSHOTS = 3 };

static rf_states *create(void) {
    rf_states *st;
    assert_int_equal(rf_states_create(&st, N_RUNNING, N_SNAPSHOTS), RF_OK);
    return st;
}

static void slots_are_given_once(void **state) {
    (void)state;
    rf_states *st = create();
    rf_stateful a = {.slot = RF_NO_STATE, .moving = 7}, b = {.slot = RF_NO_STATE};
    const rf_stateful *const both[] = {&a, &b};
    rf_states_give(st, &a); /* has none */
    assert_true(rf_states_consistent(st, both, 2));
    rf_states_take(st, &a);
    rf_states_take(st, &b);
    assert_int_equal(a.slot, 0);
    assert_int_equal(b.slot, 1);
    assert_true(a.moving == 0);
    assert_true(rf_states_consistent(st, both, 2));
    assert_false(rf_states_consistent(st, both, 1)); /* b's is lost */
    rf_states_give(st, &a);
    assert_int_equal(a.slot, RF_NO_STATE);
    rf_states_take(st, &a);
    assert_int_equal(a.slot, 0);
    b.slot = 0;
    assert_false(rf_states_consistent(st, both, 2)); /* has two owners */
    rf_states_free(st);
}

/* Snapshots at marks stay until their slots are needed; of the others each replaces the one before. */
static void snapshots_come_and_go(void **state) {
    (void)state;
    rf_states *st = create();
    rf_stateful a;
    rf_states_take(st, &a);
    a.mark[0] = 64;
    a.mark[1] = 32;
    assert_int_equal(rf_states_to_mark(&a, 0), 32);
    assert_int_equal(rf_states_to_mark(&a, 32), 32);
    assert_int_equal(rf_states_to_mark(&a, 40), 24);
    assert_int_equal(rf_states_to_mark(&a, 64), 0);
    assert_int_equal(rf_states_find(st, 100), RF_NO_STATE);
    assert_int_equal(rf_states_keep(st, &a, 100, 32), N_RUNNING);
    assert_int_equal(rf_states_keep(st, &a, 101, 64), N_RUNNING + 1);
    assert_int_equal(rf_states_keep(st, &a, 102, 96), N_RUNNING + 2);
    assert_int_equal(rf_states_keep(st, &a, 103, 128), N_RUNNING + 2); /* instead of 102 */
    assert_int_equal(rf_states_find(st, 102), RF_NO_STATE);
    assert_int_equal(rf_states_find(st, 100), N_RUNNING);
    assert_int_equal(rf_states_find(st, 101), N_RUNNING + 1);
    assert_int_equal(rf_states_find(st, 103), N_RUNNING + 2);
    rf_stateful b;
    rf_states_take(st, &b);
    assert_int_equal(rf_states_keep(st, &b, 101, 64), RF_NO_STATE); /* there already */
    assert_int_equal(rf_states_keep(st, &b, 200, 96), N_RUNNING);   /* for 100, the oldest */
    assert_int_equal(rf_states_find(st, 100), RF_NO_STATE);
    assert_int_equal(rf_states_keep(st, &b, 103, 128), RF_NO_STATE); /* and 200 goes */
    assert_int_equal(rf_states_find(st, 200), RF_NO_STATE);
    assert_int_equal(rf_states_keep(st, &b, 103, 128), RF_NO_STATE); /* the same again */
    assert_int_equal(rf_states_find(st, 103), N_RUNNING + 2);
    assert_int_equal(rf_states_keep(st, &b, 201, 160), N_RUNNING); /* 103 is not b's to replace */
    rf_states_forget(st, 201);
    rf_states_forget(st, 201);
    assert_int_equal(rf_states_find(st, 201), RF_NO_STATE);
    rf_states_forget_all(st);
    assert_int_equal(rf_states_find(st, 101), RF_NO_STATE);
    rf_states_free(st);
}

static void creation_checks_and_cleans_up(void **state) {
    (void)state;
    rf_states *st;
    assert_int_equal(rf_states_create(&st, 0, 1), RF_EARG);
    assert_int_equal(rf_states_create(&st, 1, 0), RF_EARG);
    assert_int_equal(rf_states_create(&st, 2, UINT32_MAX - 1), RF_EARG);
    for (long n = 1; n <= 3; n++) {
        rf_alloc_fail_nth(n);
        assert_int_equal(rf_states_create(&st, 4, 4), RF_ENOMEM);
        assert_null(st);
    }
    rf_alloc_fail_nth(0);
    rf_states_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_given_once),
        cmocka_unit_test(snapshots_come_and_go),
        cmocka_unit_test(creation_checks_and_cleans_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
