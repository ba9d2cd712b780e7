/* test_map.c - the hash map: many keys, replaced values, keys of any bytes, failure, the hash. */
#include "lib/testlib.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"

enum { N_KEYS = 100000, KEY_BYTES = 16 };

static char keys[N_KEYS][KEY_BYTES];

static rf_str key_of(uint32_t i) { return (rf_str){keys[i], strlen(keys[i])}; }

static void hundred_thousand_keys(void **state) {
    (void)state;
    for (uint32_t i = 0; i < N_KEYS; i++) {
        snprintf(keys[i], KEY_BYTES, "tok%u", i * 7);
    }
    static const size_t expected[] = {0, N_KEYS}; /* grown step by step, and sized at once */
    for (size_t k = 0; k < RF_COUNT(expected); k++) {
        rf_map *m;
        uint32_t old;
        rf_alloc_count();
        assert_int_equal(rf_map_create(&m, expected[k]), RF_OK);
        for (uint32_t i = 0; i < N_KEYS; i++) {
            assert_int_equal(rf_map_put(m, key_of(i), i, &old), RF_OK);
            assert_int_equal(old, RF_MAP_NONE);
        }
        if (expected[k])
            assert_int_equal(rf_alloc_count(), 2); /* the map, its slots: never grown */
        assert_int_equal(rf_map_len(m), N_KEYS);
        for (uint32_t i = 0; i < N_KEYS; i++) {
            assert_int_equal(rf_map_get(m, key_of(i)), i);
            char absent[KEY_BYTES];
            snprintf(absent, sizeof absent, "tok%u", i * 7 + 1);
            assert_int_equal(rf_map_get(m, rf_str_of(absent)), RF_MAP_NONE);
        }
        for (uint32_t i = 0; i < N_KEYS; i += 3) {
            assert_int_equal(rf_map_put(m, key_of(i), N_KEYS + i, &old), RF_OK);
            assert_int_equal(old, i);
        }
        assert_int_equal(rf_map_len(m), N_KEYS);
        for (uint32_t i = 0; i < N_KEYS; i++) {
            assert_int_equal(rf_map_get(m, key_of(i)), i % 3 == 0 ? N_KEYS + i : i);
        }
        rf_map_free(m);
    }
    rf_map_free(NULL);
}

static void keys_are_any_bytes(void **state) {
    (void)state;
    rf_map *m;
    assert_int_equal(rf_map_create(&m, 4), RF_OK);
    static const rf_str odd[] = {
        {NULL, 0}, {"\0", 1}, {"\0\0", 2}, {"a", 1}, {"a\0", 2}, {"a\0b", 3}, {"\xff\xfe", 2},
    };
    for (uint32_t i = 0; i < RF_COUNT(odd); i++) {
        assert_int_equal(rf_map_put(m, odd[i], i, NULL), RF_OK);
    }
    for (uint32_t i = 0; i < RF_COUNT(odd); i++) {
        assert_int_equal(rf_map_get(m, odd[i]), i);
    }
    assert_int_equal(rf_map_get(m, RF_STR("")), 0); /* the empty key, whatever its pointer */
    uint32_t old;
    assert_int_equal(rf_map_put(m, RF_STR("a"), UINT32_MAX - 1, &old), RF_OK);
    assert_int_equal(old, 3);
    assert_true(rf_map_get(m, RF_STR("a")) == UINT32_MAX - 1);
    assert_int_equal(rf_map_put(m, RF_STR("none"), RF_MAP_NONE, NULL), RF_EARG);
    assert_int_equal(rf_map_get(m, RF_STR("none")), RF_MAP_NONE);
    rf_map_free(m);
}

/* Keys of every length, read up to the last byte before an unreadable page. */
static void hash_reads_nothing_but_the_key(void **state) {
    (void)state;
    uint8_t bytes[100];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 37);
    }
    for (size_t n = 0; n <= sizeof bytes; n++) {
        rf_guarded g = rf_guard(bytes, n);
        assert_true(rf_hash(g.p, n, 5) == rf_hash(bytes, n, 5));
        rf_guard_free(&g);
    }
}

/* Each bit of key, length and seed moves about half the bits of the hash. */
static void hash_mixes(void **state) {
    (void)state;
    uint64_t seed = 11;
    for (size_t n = 1; n <= 70; n++) {
        uint8_t bytes[70];
        for (size_t i = 0; i < n; i++) {
            bytes[i] = (uint8_t)rf_test_rand(&seed);
        }
        uint64_t base = rf_hash(bytes, n, 1);
        int flipped = 0;
        for (size_t bit = 0; bit < n * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            uint64_t h = rf_hash(bytes, n, 1);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_true(h != base);
            flipped += __builtin_popcountll(h ^ base);
        }
        assert_in_range(flipped, n * 8 * 28, n * 8 * 36);
        assert_true(rf_hash(bytes, n, 2) != base);
        assert_true(rf_hash(bytes, n - 1, 1) != base);
    }
}

/* Who finds colliding keys for one seed has found nothing: maps draw their seeds at random. */
static void keys_that_collide_under_one_seed_do_not_under_another(void **state) {
    (void)state;
    uint16_t bucket[4096] = {0};
    int worst = 0;
    /* keys whose hash under seed 0 ends in 6 zero bits: under seed 1 they must spread */
    for (uint32_t i = 0, found = 0; found < 4096; i++) {
        char key[16];
        int n = snprintf(key, sizeof key, "%08x", i);
        if (rf_hash(key, (size_t)n, 0) & 63u) continue;
        found++;
        int load = ++bucket[rf_hash(key, (size_t)n, 1) % 4096];
        if (load > worst) worst = load;
    }
    assert_in_range(worst, 2, 12); /* balls into bins: about 6 is expected */
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    long n = 1;
    for (;; n++) {
        rf_map *m;
        rf_alloc_fail_nth(n);
        rf_status s = rf_map_create(&m, 0);
        uint32_t put = 0;
        for (; s == RF_OK && put < 200; put++) {
            s = rf_map_put(m, key_of(put), put, NULL);
        }
        rf_alloc_fail_nth(0);
        if (s == RF_OK) {
            rf_map_free(m);
            break;
        }
        assert_int_equal(s, RF_ENOMEM);
        if (!m) continue;
        assert_int_equal(rf_map_len(m), put - 1); /* the one that failed is not there */
        for (uint32_t i = 0; i < put; i++) {
            assert_int_equal(rf_map_get(m, key_of(i)), i + 1 == put ? RF_MAP_NONE : i);
        }
        rf_map_free(m);
    }
    assert_true(n > 5);
    rf_map *m;
    assert_int_equal(rf_map_create(&m, SIZE_MAX), RF_ENOMEM);
    assert_int_equal(rf_map_create(&m, SIZE_MAX / 2), RF_ENOMEM);
    assert_null(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hundred_thousand_keys),
        cmocka_unit_test(keys_are_any_bytes),
        cmocka_unit_test(hash_reads_nothing_but_the_key),
        cmocka_unit_test(hash_mixes),
        cmocka_unit_test(keys_that_collide_under_one_seed_do_not_under_another),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
