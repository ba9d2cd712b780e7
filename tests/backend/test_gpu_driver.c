/* test_gpu_driver.c - finding a driver's library, and choosing a code object. */
#include <stdlib.h>
#include <string.h>

#include "backend/gpu/code.h"
#include "backend/gpu/driver.h"
#include "lib/testlib.h"

static void refuse(const char *library, rf_status status, const char *text) {
    const rf_gpu_driver *d = NULL;
    rf_error e = {0};
    assert_int_equal(setenv("RF_GPU_LIBRARY", library, 1), 0);
    assert_int_equal(rf_gpu_driver_get(&d, &e), status);
    assert_int_equal(unsetenv("RF_GPU_LIBRARY"), 0);
    assert_null(d);
    if (!strstr(e.text, text)) fail_msg("\"%s\" lacks \"%s\"", e.text, text);
}

static void test_libraries(void **state) {
    (void)state;
    refuse("libno-such-driver.so.1", RF_EUNSUPPORTED, "libno-such-driver.so.1: not installed");
    refuse("libm.so.6", RF_EDEVICE, "libm.so.6: lacks the function cuDeviceGetCount");
    refuse(rf_test_data("models/qwen3.gguf"), RF_EUNSUPPORTED, "invalid ELF header");
}

static const char *choice(const char *arch, const char *const *have) {
    rf_gpu_code codes[8] = {{NULL, NULL, NULL, false}};
    for (size_t i = 0; have[i]; i++)
        codes[i].target = have[i];
    const rf_gpu_code *c = rf_gpu_code_for(arch, codes);
    return c ? c->target : "none";
}

/* Its own code, else its family's, else (NVIDIA) the newest PTX that is not too new. */
static void test_choice(void **state) {
    (void)state;
    static const char *const amd[] = {
        "gfx1100",         "gfx90a", "gfx11-generic", "gfx9-generic", "gfx9-4-generic",
        "gfx10-3-generic", NULL};
    static const char *const others[] = {"gfx9-generic", "gfx10-1-generic", "gfx12-generic", NULL};
    static const char *const nvidia[] = {"gfx1100", "sm_80", "sm_90a", "sm_90", "sm_120", NULL};
    static const char *const none[] = {NULL};
    assert_string_equal(choice("gfx1100", amd), "gfx1100");
    assert_string_equal(choice("gfx1101", amd), "gfx11-generic");
    assert_string_equal(choice("gfx1151", amd), "gfx11-generic");
    assert_string_equal(choice("gfx90a", amd), "gfx90a");
    assert_string_equal(choice("gfx906", amd), "gfx9-generic");
    assert_string_equal(choice("gfx90c", amd), "gfx9-generic");
    assert_string_equal(choice("gfx942", amd), "gfx9-4-generic");
    assert_string_equal(choice("gfx950", amd), "gfx9-4-generic");
    assert_string_equal(choice("gfx1031", amd), "gfx10-3-generic");
    assert_string_equal(choice("gfx1201", amd), "none");
    assert_string_equal(choice("gfx1201", others), "gfx12-generic");
    assert_string_equal(choice("gfx1250", others), "none");
    assert_string_equal(choice("gfx1013", others), "gfx10-1-generic");
    assert_string_equal(choice("gfx908", others), "none"); /* of no family */
    assert_string_equal(choice("gfx90a", others), "none");
    assert_string_equal(choice("gfx803", amd), "none");
    assert_string_equal(choice("sm_90", amd), "none");
    assert_string_equal(choice("sm_75", nvidia), "none");
    assert_string_equal(choice("sm_80", nvidia), "sm_80");
    assert_string_equal(choice("sm_89", nvidia), "sm_80");
    assert_string_equal(choice("sm_90", nvidia), "sm_90a");
    assert_string_equal(choice("sm_103", nvidia), "sm_90");
    assert_string_equal(choice("sm_121", nvidia), "sm_120");
    assert_string_equal(choice("gfx1100", none), "none");
}

static void test_names(void **state) {
    (void)state;
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++)
        assert_int_equal(strncmp(rf_gpu_kernel_name((rf_gpu_kernel)k), "rf_", 3), 0);
    for (size_t i = 0; rf_gpu_code_target(i); i++)
        assert_non_null(rf_gpu_code_for(rf_gpu_code_target(i), NULL)->image);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libraries),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
