/* test_arena.c - alignment, zeroing, stability, overflow and failure of arenas. */
#include "lib/testlib.h"

#include <string.h>

#include "base/arena.h"

static rf_arena *fresh(void) {
    rf_arena *a;
    assert_int_equal(rf_arena_create(&a), RF_OK);
    return a;
}

static void blocks_are_aligned_zeroed_and_disjoint(void **state) {
    (void)state;
    enum { N = 2000 };
    static unsigned char *block[N];
    static size_t size[N];
    rf_arena *a = fresh();
    uint64_t seed = 1;
    size_t sum = 0;
    for (size_t i = 0; i < N; i++) {
        size[i] = rf_test_rand(&seed) % (i % 50 == 0 ? 300000 : 400);
        block[i] = rf_arena_alloc(a, size[i], 1);
        assert_non_null(block[i]);
        assert_int_equal((uintptr_t)block[i] % 64, 0);
        for (size_t k = 0; k < size[i]; k++) {
            assert_int_equal(block[i][k], 0);
        }
        memset(block[i], (int)(i % 255 + 1), size[i]);
        sum += size[i];
    }
    for (size_t i = 0; i < N; i++) { /* nobody wrote into a neighbour */
        for (size_t k = 0; k < size[i]; k++) {
            assert_int_equal(block[i][k], i % 255 + 1);
        }
    }
    assert_true(rf_arena_bytes(a) >= sum);
    assert_true(rf_arena_bytes(a) < 2 * sum);
    rf_arena_free(a);
    rf_arena_free(NULL);
}

static void strings_are_copied_and_packed(void **state) {
    (void)state;
    rf_arena *a = fresh();
    char text[] = "token\0with zero";
    rf_str s = rf_arena_str(a, (rf_str){text, sizeof text - 1});
    text[0] = 'X';
    assert_int_equal(s.len, sizeof text - 1);
    assert_memory_equal(s.p, "token\0with zero", sizeof text);
    rf_str empty = rf_arena_str(a, (rf_str){NULL, 0});
    assert_non_null(empty.p);
    assert_string_equal(empty.p, "");
    for (int i = 0; i < 100000; i++) {
        assert_non_null(rf_arena_str(a, RF_STR("six by")).p);
    }
    /* 7 bytes each, and 8 more where the sanitizer's gap lies between them */
    assert_true(rf_arena_bytes(a) < 100000 * 16 + (2 << 20));
    rf_arena_free(a);
}

static void small_blocks_after_a_big_one_share_a_chunk(void **state) {
    (void)state;
    rf_arena *a = fresh();
    assert_non_null(rf_arena_alloc(a, 10, 1));
    assert_non_null(rf_arena_alloc(a, 1 << 20, 1));
    size_t before = rf_arena_bytes(a);
    for (int i = 0; i < 20; i++) {
        assert_non_null(rf_arena_alloc(a, 10, 1));
    }
    assert_int_equal(rf_arena_bytes(a), before);
    rf_arena_free(a);
}

/* req: B-41 B-42 */
static void overflow_and_absurd_sizes_give_null(void **state) {
    (void)state;
    rf_arena *a = fresh();
    assert_null(rf_arena_alloc(a, SIZE_MAX, 2));
    assert_null(rf_arena_alloc(a, SIZE_MAX, 1));
    assert_null(rf_arena_alloc(a, SIZE_MAX - 64, 1));
    assert_null(rf_arena_str(a, (rf_str){"x", SIZE_MAX}).p);
    assert_non_null(rf_arena_alloc(a, 0, 8));
    assert_non_null(rf_arena_alloc(a, 8, 0));
    rf_arena_free(a);
}

/* The whole use of an arena with its nth allocation failing; true when nothing failed. */
static bool use_arena(void) {
    rf_arena *a;
    if (rf_arena_create(&a) != RF_OK) {
        assert_null(a);
        return false;
    }
    bool ok = true;
    for (size_t i = 0; i < 60; i++) {
        unsigned char *p = rf_arena_alloc(a, 1000 * (i % 7), 1);
        if (p) memset(p, 1, 1000 * (i % 7));
        ok = ok && p && rf_arena_str(a, RF_STR("name")).p;
    }
    unsigned char *last = rf_arena_alloc(a, 16, 1); /* an arena survives a failed request */
    ok = ok && last;
    rf_arena_free(a);
    return ok;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    long n = 1;
    for (;; n++) {
        rf_alloc_fail_nth(n);
        bool ok = use_arena();
        rf_alloc_fail_nth(0);
        if (ok) break;
    }
    assert_true(n > 3); /* it did fail: in create, in the first chunk, in later ones */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_zeroed_and_disjoint),
        cmocka_unit_test(strings_are_copied_and_packed),
        cmocka_unit_test(small_blocks_after_a_big_one_share_a_chunk),
        cmocka_unit_test(overflow_and_absurd_sizes_give_null),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
