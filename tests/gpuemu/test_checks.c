/* test_checks.c - planted mistakes in kernels are found, and the error names kernel and instruction;
 * correct kernels that come close to them are left alone. */
#include "gpuemu/fixture.h"

static uint32_t y[1024], x[1024];

/* The kernel must fail with a text that holds all of the words. */
static void must_find(rf_emu_module *m, const char *kernel, uint32_t lds, const args *a,
                      const char *const words[]) {
    rf_error e = {0};
    if (run_kernel(m, kernel, 1, 256, lds, a, &e) == RF_OK)
        fail_msg("%s on %s: nothing was found", kernel, rf_emu_module_arch(m));
    if (!strstr(e.text, kernel)) fail_msg("no kernel's name in: %s", e.text);
    for (; *words; words++)
        if (!strstr(e.text, *words)) fail_msg("no \"%s\" in: %s", *words, e.text);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_races(void **state) {
    (void)state;
    for (size_t k = 0; k < RF_COUNT(archs); k++) {
        rf_emu_module *m = open_arch(archs[k]);
        args a = {0};
        add_pointer(&a, y, sizeof y);
        /* waves run one after another: the first reads what nobody wrote yet */
        must_find(m, "t_race", 0, &a, WORDS("LDS byte", "never written", "ds_"));
        must_find(m, "t_write_race", 0, &a, WORDS("LDS race", "writes what wave", "read", "ds_"));
        run_kernel(m, "t_bytes_shared", 1, 256, 0, &a, NULL);
        for (uint32_t t = 0; t < 256; t++)
            assert_int_equal(y[t], 64 * (t & 3) + (t >> 2));
        rf_emu_module_close(m);
    }
}

static void test_bounds(void **state) {
    (void)state;
    for (size_t k = 0; k < RF_COUNT(archs); k++) {
        rf_emu_module *m = open_arch(archs[k]);
        args inside = {0}, outside = {0}, read = {0};
        add_pointer(&inside, y, 300 * 4);
        add_number(&inside, 44);
        run_kernel(m, "t_beyond", 1, 256, 0, &inside, NULL);
        add_pointer(&outside, y, 300 * 4);
        add_number(&outside, 45);
        must_find(m, "t_beyond", 0, &outside, WORDS("store of 4 bytes", "allocation", "_store_"));
        add_pointer(&read, y, 4);
        add_pointer(&read, x, 300 * 4);
        add_number(&read, 45);
        must_find(m, "t_read_beyond", 0, &read, WORDS("load of 4 bytes", "allocation", "_load_"));
        args lds = {0}, unwritten = {0};
        add_pointer(&lds, y, sizeof y);
        add_number(&lds, 1);
        must_find(m, "t_lds_beyond", 1024, &lds, WORDS("LDS store of 4 bytes at 1024", "ds_"));
        run_kernel(m, "t_lds_beyond", 1, 256, 1028, &lds, NULL);
        add_pointer(&unwritten, y, sizeof y);
        add_number(&unwritten, 255);
        must_find(m, "t_lds_unwritten", 0, &unwritten, WORDS("LDS byte", "never written", "ds_"));
        rf_emu_module_close(m);
    }
}

static void test_refused(void **state) {
    (void)state;
    for (size_t k = 0; k < RF_COUNT(archs); k++) {
        rf_emu_module *m = open_arch(archs[k]);
        rf_error e = {0};
        args a = {0};
        add_pointer(&a, y, sizeof y);
        add_pointer(&a, x, sizeof x);
        add_number(&a, 1);
        must_find(m, "t_scratch", 0, &a, WORDS("scratch"));
        assert_int_equal(run_kernel(m, "t_int", 1, 129, 0, &a, &e), RF_EARG);
        assert_non_null(strstr(e.text, "compiled for 128"));
        e = (rf_error){0};
        assert_int_equal(run_kernel(m, "t_lds", 1, 256, 200000, &a, &e), RF_EARG);
        assert_non_null(strstr(e.text, "LDS"));
        e = (rf_error){0};
        assert_int_equal(run_kernel(m, "t_lds", 0, 256, 0, &a, &e), RF_EARG);
        rf_emu_module_close(m);
    }
}

/* Matrix instructions want every lane, and on gfx11 every row in two lanes. */
static void test_matrices(void **state) {
    (void)state;
    static const char *const with_units[] = {"gfx90a",  "gfx942",  "gfx950",
                                             "gfx1100", "gfx1151", "gfx1201"};
    for (size_t k = 0; k < RF_COUNT(with_units); k++) {
        bool is_11 = !strncmp(with_units[k], "gfx11", 5);
        uint32_t n = strncmp(with_units[k], "gfx9", 4) ? 32 : 64;
        rf_emu_module *m = open_arch(with_units[k]);
        for (uint32_t off = 5; off <= 99; off += 94) { /* lane 99: none is off */
            args a = {0};
            rf_error e = {0};
            add_pointer(&a, y, sizeof y);
            add_pointer(&a, x, sizeof x);
            add_number(&a, off);
            for (uint32_t i = 0; i < RF_COUNT(x); i++)
                x[i] = i;
            bool is_found = run_kernel(m, "t_matrix_lane_off", 1, n, 0, &a, &e) != RF_OK;
            assert_int_equal(is_found, off == 5 || is_11);
            if (is_found)
                assert_non_null(strstr(e.text, off == 5 ? "inactive lanes" : "do not repeat"));
        }
        rf_emu_module_close(m);
    }
}

/* One fault among many blocks on two threads: the launch ends, the error is whole. */
static void test_one_block_of_many(void **state) {
    (void)state;
    rf_emu_module *m = open_arch("gfx1100");
    static uint8_t from[64 * 4096], to[64 * 4096];
    args a = {0};
    rf_error e = {0};
    add_pointer(&a, to, sizeof to - 1);
    add_pointer(&a, from, sizeof from);
    add_number(&a, 4096);
    run_kernel(m, "t_widths", 16, 256, 0, &a, NULL); /* its last bytes are not touched */
    a.range[a.range[0].lo == (uint64_t)(uintptr_t)to ? 0 : 1].hi -= 64;
    assert_int_equal(run_kernel(m, "t_widths", 16, 256, 0, &a, &e), RF_EDEVICE);
    assert_non_null(strstr(e.text, "block (15,0,0), wave 7"));
    rf_emu_module_close(m);
}

/* ---- broken files ---- */

static void test_broken_objects(void **state) {
    (void)state;
    size_t n;
    char path[500];
    rf_emu_module *m;
    rf_error e = {0};
    snprintf(path, sizeof path, "%s/kernels.gfx1100.hsaco", RF_EMU_KERNELS);
    uint8_t *bytes = rf_test_read(path, &n);
    assert_int_equal(rf_emu_module_open("no ELF", 6, &m, &e), RF_EFORMAT);
    assert_null(m);
    uint64_t seed = 1;
    for (uint32_t round = 0; round < 40; round++) { /* cut off, or with a damaged head */
        e = (rf_error){0};
        rf_guarded g = rf_guard(bytes, round < 20 ? n * round / 20 : n);
        if (round >= 20) g.p[rf_test_rand(&seed) % 64] ^= (uint8_t)(1 + round);
        rf_status s = rf_emu_module_open(g.p, g.n, &m, &e);
        if (round < 20) assert_true(s != RF_OK);
        if (s != RF_OK) assert_true(e.text[0] != 0);
        rf_emu_module_close(m);
        rf_guard_free(&g);
    }
    rf_free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_races),    cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_one_block_of_many),
        cmocka_unit_test(test_matrices), cmocka_unit_test(test_broken_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
