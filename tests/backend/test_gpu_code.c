/* test_gpu_code.c - which code a device gets: unpacked, the next when the driver refuses the best, or
 * compiled by a stand-in compiler and kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/gpu/code.h"
#include "backend/gpu/compile.h"
#include "backend/gpu/unpack.h"
#include "base/os.h"
#include "lib/testlib.h"

/* A driver of one device that does nothing but take code ------------------------------------------*/

static struct {
    const char *arch, *refuses; /* code with that in it */
    const char *lacks;          /* a function; NULL: none */
    char image[500];            /* what was loaded last */
    rf_gpu_driver table;
} fake;

static int one(int *n) {
    *n = 1;
    return 0;
}

static int info(int device, rf_gpu_info *out) {
    (void)device;
    *out = (rf_gpu_info){.name = "a device", .warp = 32};
    snprintf(out->arch, sizeof out->arch, "%s", fake.arch);
    return 0;
}

static int nothing(int device) {
    (void)device;
    return 0;
}

static int stream(rf_gpu_stream *out, unsigned flags) {
    (void)flags;
    *out = &fake;
    return 0;
}

static int no_stream(rf_gpu_stream s) {
    (void)s;
    return 0;
}

static int load(rf_gpu_module *out, const void *image) {
    enum { REFUSED = 222 };
    if (fake.refuses && strstr(image, fake.refuses)) return REFUSED;
    snprintf(fake.image, sizeof fake.image, "%s", (const char *)image);
    *out = &fake;
    return 0;
}

static int unload(rf_gpu_module m) {
    (void)m;
    return 0;
}

static int function(rf_gpu_function *out, rf_gpu_module m, const char *name) {
    enum { NOT_FOUND = 500 };
    (void)m;
    if (fake.lacks && strcmp(name, fake.lacks) == 0) return NOT_FOUND;
    *out = &fake;
    return 0;
}

static const char *text(int code) {
    return code ? "provided PTX was compiled with an unsupported toolchain" : "no error";
}

static const rf_gpu_driver *driver(const char *vendor, const char *arch, const char *refuses) {
    fake.arch = arch;
    fake.refuses = refuses;
    fake.image[0] = 0;
    fake.table = (rf_gpu_driver){.name = vendor,
                                 .library = "libfake.so.1",
                                 .version = 7,
                                 .device_count = one,
                                 .device_info = info,
                                 .use_device = nothing,
                                 .reset = nothing,
                                 .stream_create = stream,
                                 .stream_destroy = no_stream,
                                 .stream_sync = no_stream,
                                 .stream_query = no_stream,
                                 .module_load = load,
                                 .module_unload = unload,
                                 .module_function = function,
                                 .error_text = text};
    return &fake.table;
}

/* Loads the kernels; the queue must be closed. */
static rf_status load_code(rf_gpu_queue *q, const rf_gpu_driver *d, rf_error *e) {
    *e = (rf_error){.status = RF_OK};
    if (rf_gpu_open(q, d, 0, e) != RF_OK) fail_msg("%s", e->text);
    return rf_gpu_code_load(q, e);
}

static void expect(const rf_gpu_driver *d, const char *target, const char *in_image) {
    rf_gpu_queue q;
    rf_error e;
    if (load_code(&q, d, &e) != RF_OK) fail_msg("%s: %s", target, e.text);
    assert_string_equal(q.target, target);
    if (!strstr(fake.image, in_image)) fail_msg("\"%s\" lacks \"%s\"", fake.image, in_image);
    assert_non_null(q.function[RF_GPU_mix]);
    rf_gpu_close(&q);
}

static void expect_failure(const rf_gpu_driver *d, rf_status status, const char *words) {
    rf_gpu_queue q;
    rf_error e;
    assert_int_equal(load_code(&q, d, &e), status);
    if (!strstr(e.text, words)) fail_msg("\"%s\" lacks \"%s\"", e.text, words);
    rf_gpu_close(&q);
}

/* Embedded code ----------------------------------------------------------------------------------*/

#define CODE(target, text) \
    { target, text, text + sizeof text, false }
static const char ptx_80[] = ".target sm_80\n", ptx_90[] = ".target sm_90\n",
                  ptx_90a[] = ".target sm_90a\n";

/* A driver that is too old for Hopper's own code gets the plain one, else that of older GPUs. */
static void test_refused(void **state) {
    (void)state;
    const rf_gpu_code all[] = {CODE("sm_80", ptx_80),
                               CODE("sm_90a", ptx_90a),
                               CODE("sm_90", ptx_90),
                               {NULL, NULL, NULL, false}};
    const rf_gpu_code few[] = {
        CODE("sm_80", ptx_80), CODE("sm_90a", ptx_90a), {NULL, NULL, NULL, false}};
    rf_gpu_codes_set(all);
    expect(driver("cuda", "sm_90", NULL), "sm_90a", ptx_90a);
    expect(driver("cuda", "sm_90", "sm_90a"), "sm_90", ptx_90);
    expect(driver("cuda", "sm_90", "sm_90"), "sm_80", ptx_80);
    expect_failure(driver("cuda", "sm_90", ".target"), RF_EDEVICE,
                   "a device: the driver refuses the kernels for sm_90a: provided PTX was compiled "
                   "with an unsupported toolchain (cuda error 222)");
    rf_gpu_codes_set(few);
    expect(driver("cuda", "sm_90", "sm_90a"), "sm_80", ptx_80);
    expect(driver("cuda", "sm_120", NULL), "sm_80", ptx_80);
    rf_gpu_codes_set(NULL);
}

/* Machine code comes before PTX of the same target, runs on its own generation only, and may be refused. */
static void test_machine_code(void **state) {
    (void)state;
    static const char sass_80[] = ".machine sm_80\n", sass_90[] = ".machine sm_90\n",
                      sass_90a[] = ".machine sm_90a\n";
#define MACHINE_CODE(target, text) \
    { target, text, text + sizeof text, true }
    const rf_gpu_code all[] = {MACHINE_CODE("sm_80", sass_80),   CODE("sm_80", ptx_80),
                               MACHINE_CODE("sm_90", sass_90),   CODE("sm_90", ptx_90),
                               MACHINE_CODE("sm_90a", sass_90a), CODE("sm_90a", ptx_90a),
                               {NULL, NULL, NULL, false}};
    rf_gpu_codes_set(all);
    expect(driver("cuda", "sm_90", NULL), "sm_90a", sass_90a);
    expect(driver("cuda", "sm_90", ".machine"), "sm_90a", ptx_90a);
    expect(driver("cuda", "sm_90", "sm_90a"), "sm_90", sass_90);
    expect(driver("cuda", "sm_86", NULL), "sm_80", sass_80);
    expect(driver("cuda", "sm_89", ".machine"), "sm_80", ptx_80);
    expect(driver("cuda", "sm_100", NULL), "sm_90", ptx_90);
    expect(driver("cuda", "sm_120", NULL), "sm_90", ptx_90);
    assert_string_equal(rf_gpu_code_target(1), "sm_90");
    assert_string_equal(rf_gpu_code_target(2), "sm_90a");
    assert_null(rf_gpu_code_target(3));
    rf_gpu_codes_set(NULL);
}

/* Of kernels that the code has all kinds are there that are in it. */
static void check_kinds(const rf_gpu_queue *q) {
    static const struct {
        uint32_t kernel, kind;
        bool on_amd;
    } kinds[] = {
#define X(name, kind, args)         {RF_GPU_##name, kind, true},
#define X_NOT_AMD(name, kind, args) {RF_GPU_##name, kind, false},
#include "backend/gpu/kinds.def"
#undef X
    };
    bool is_amd = strncmp(q->target, "gfx", 3) == 0;
    for (size_t i = 0; i < RF_COUNT(kinds); i++)
        assert_int_equal(q->more[kinds[i].kernel][kinds[i].kind - 1] != NULL,
                         q->function[kinds[i].kernel] && (kinds[i].on_amd || !is_amd));
}

static void test_kinds(void **state) {
    (void)state;
    static const char elf[] = "code for all";
    static const char *const targets[][2] = {
        {"cuda", "sm_80"}, {"cuda", "sm_90a"}, {"hip", "gfx1030"}, {"hip", "gfx942"}};
    for (size_t i = 0; i < RF_COUNT(targets); i++) {
        const rf_gpu_code code[] = {CODE(targets[i][1], elf), {NULL, NULL, NULL, false}};
        const char *arch = i == 1 ? "sm_90" : targets[i][1];
        rf_gpu_queue q;
        rf_error e;
        rf_gpu_codes_set(code);
        assert_int_equal(load_code(&q, driver(targets[i][0], arch, NULL), &e), RF_OK);
        assert_string_equal(q.target, targets[i][1]);
        check_kinds(&q);
        rf_gpu_close(&q);
        fake.lacks = "rf_router_normed_kind_1";
        expect_failure(&fake.table, RF_EDEVICE, "lack rf_router_normed_kind_1");
        fake.lacks = NULL;
    }
    rf_gpu_codes_set(NULL);
}

/* What only Hopper's or AMD's code has is not asked of other code. */
static void test_functions(void **state) {
    (void)state;
    const rf_gpu_code plain[] = {CODE("sm_90", ptx_90), {NULL, NULL, NULL, false}};
    static const bool others[RF_GPU_KERNEL_COUNT] = {
#define X(name, args, block)
#define X_HOPPER(name, args, block)     [RF_GPU_##name] = true,
#define X_AMD_MATRIX(name, args, block) [RF_GPU_##name] = true,
#include "backend/gpu/kernels.def"
#undef X
    };
    rf_gpu_queue q;
    rf_error e;
    rf_gpu_codes_set(plain);
    assert_int_equal(load_code(&q, driver("cuda", "sm_90", NULL), &e), RF_OK);
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++)
        assert_int_equal(q.function[k] == NULL, others[k]);
    rf_gpu_close(&q);
    rf_gpu_codes_set(NULL);
}

/* The code objects of this build come out whole; a damaged one is refused. */
static void test_unpack(void **state) {
    (void)state;
    for (size_t i = 0; rf_gpu_code_target(i); i++) {
        const char *target = rf_gpu_code_target(i);
        const rf_gpu_code *c = rf_gpu_code_for(target, NULL);
        const void *out;
        void *owned;
        rf_error e = {.status = RF_OK};
        size_t n = (size_t)((const char *)c->end - (const char *)c->image);
        assert_int_equal(rf_gpu_code_unpack(target, c->image, c->end, &out, &owned, &e), RF_OK);
        assert_int_equal(
            memcmp(out, strncmp(target, "gfx", 3) && !c->is_binary ? "//" : "\177E", 2), 0);
        rf_free(owned);
        if (!owned) continue; /* not compressed */
        uint8_t *copy = rf_alloc(n, 1);
        memcpy(copy, c->image, n);
        copy[n / 2] ^= 16;
        assert_int_equal(rf_gpu_code_unpack(target, copy, copy + n, &out, &owned, &e), RF_EFORMAT);
        assert_null(owned);
        assert_non_null(strstr(e.text, "in this program are damaged"));
        for (size_t cut = 4; cut < n; cut += n / 3 + 1)
            assert_int_equal(rf_gpu_code_unpack(target, c->image, (const char *)c->image + cut,
                                                &out, &owned, &e),
                             RF_EFORMAT);
        rf_free(copy);
    }
    const char plain[] = "plain";
    const void *out;
    void *owned;
    assert_int_equal(rf_gpu_code_unpack("x", plain, plain + sizeof plain, &out, &owned, NULL),
                     RF_OK);
    assert_ptr_equal(out, plain);
    assert_null(owned);
}

/* Compiled code ----------------------------------------------------------------------------------*/

static char folder[] = "/tmp/rf_code_XXXXXX";
static const rf_gpu_code none[] = {{NULL, NULL, NULL, false}};

/* The one file of the cache; false: there is none. */
static bool cached(char *path, size_t cap) {
    char line[200];
    snprintf(line, sizeof line, "ls %s/rocmforge/kernels-* 2>/dev/null", folder);
    FILE *f = popen(line, "r");
    bool found = f && fgets(path, (int)cap, f);
    if (f) pclose(f);
    path[strcspn(path, "\n")] = 0;
    return found;
}

/* req: C-07: compiled once, then kept; a damaged file is made again */
static void test_compile(void **state) {
    (void)state;
    char path[300], first[500];
    expect(driver("hip", "gfx1013", NULL), "gfx1013", "--offload-arch=gfx1013 -std=c++20");
    strcpy(first, fake.image);
    assert_true(cached(path, sizeof path));
    assert_non_null(strstr(path, "kernels-gfx1013-"));
    expect(driver("hip", "gfx1013", NULL), "gfx1013", first);
    uint8_t *file;
    size_t n;
    rf_error e = {.status = RF_OK};
    assert_int_equal(rf_file_read(path, 1 << 20, &file, &n, &e), RF_OK);
    for (int round = 0; round < 3; round++) { /* another byte, a key of something else, torn */
        char spoilt[1000];
        assert_true(n < sizeof spoilt);
        memcpy(spoilt, file, n);
        spoilt[round == 0 ? n - 1 : 0] ^= 1;
        assert_int_equal(rf_file_write(path, spoilt, round == 2 ? n / 2 : n, &e), RF_OK);
        expect(driver("hip", "gfx1013", NULL), "gfx1013", "--offload-arch=gfx1013");
        assert_string_not_equal(fake.image, first);
        strcpy(first, fake.image);
        expect(driver("hip", "gfx1013", NULL), "gfx1013", first);
    }
    rf_free(file);
    unlink(path);
    assert_false(cached(path, sizeof path));
}

/* Another driver, another architecture, another vendor: code of their own. */
static void test_keys(void **state) {
    (void)state;
    char path[300], first[500];
    expect(driver("hip", "gfx1013", NULL), "gfx1013", "gfx1013");
    strcpy(first, fake.image);
    rf_gpu_driver newer = *driver("hip", "gfx1013", NULL);
    newer.version = 8;
    expect(&newer, "gfx1013", "gfx1013");
    assert_string_not_equal(fake.image, first);
    expect(driver("cuda", "sm_90", NULL), "sm_90a", "--gpu-architecture=compute_90a -std=c++20");
    expect(driver("cuda", "sm_75", NULL), "sm_75", "--gpu-architecture=compute_75");
    for (int i = 0; i < 4; i++) {
        assert_true(cached(path, sizeof path));
        unlink(path);
    }
    assert_false(cached(path, sizeof path));
}

static void test_compile_failures(void **state) {
    (void)state;
    char path[300], compiler[300];
    const rf_gpu_driver *d = driver("hip", "gfx1013", NULL);
    assert_int_equal(setenv("RF_RTC_ERROR", "a.h:3: warning: x\na.h:4: error: no such y\nz", 1), 0);
    expect_failure(d, RF_EUNSUPPORTED, "gfx1013: HIPRTC_ERROR_COMPILATION: error: no such y");
    assert_int_equal(unsetenv("RF_RTC_ERROR"), 0);
    assert_false(cached(path, sizeof path));
    snprintf(compiler, sizeof compiler, "%s", getenv("RF_GPU_COMPILER"));
    assert_int_equal(setenv("RF_GPU_COMPILER", "libno-such-compiler.so", 1), 0);
    expect_failure(d, RF_EUNSUPPORTED, "libno-such-compiler.so: not installed");
    assert_int_not_equal(rf_gpu_compiler_find(d, NULL), RF_OK);
    assert_int_equal(setenv("RF_GPU_COMPILER", "libm.so.6", 1), 0);
    expect_failure(d, RF_EUNSUPPORTED, "libm.so.6: lacks the function hiprtcVersion");
    assert_int_equal(setenv("RF_GPU_COMPILER", compiler, 1), 0);
    assert_int_equal(rf_gpu_compiler_find(d, NULL), RF_OK);
    expect_failure(driver("hip", "gfx1013", "gfx1013"), RF_EDEVICE, "refuses the kernels");
    assert_true(cached(path, sizeof path));
    unlink(path);
}

/* RF_GPU_COMPILE=1: although there is code.  Without a cache folder it works too. */
static void test_asked_for(void **state) {
    (void)state;
    const rf_gpu_code all[] = {CODE("sm_80", ptx_80), {NULL, NULL, NULL, false}};
    char path[300];
    rf_gpu_codes_set(all);
    expect(driver("cuda", "sm_80", NULL), "sm_80", ptx_80);
    assert_int_equal(setenv("RF_GPU_COMPILE", "1", 1), 0);
    assert_int_equal(setenv("XDG_CACHE_HOME", "/proc/nowhere", 1), 0);
    expect(driver("cuda", "sm_80", NULL), "sm_80", "compute_80");
    assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
    assert_int_equal(unsetenv("RF_GPU_COMPILE"), 0);
    assert_false(cached(path, sizeof path));
    rf_gpu_codes_set(none);
}

static int begin(void **state) {
    (void)state;
    if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1) != 0) return -1;
    rf_gpu_codes_set(none);
    return setenv("RF_GPU_COMPILER", RF_TEST_RTC, 1);
}

static int end(void **state) {
    (void)state;
    char path[100];
    rf_gpu_codes_set(NULL);
    snprintf(path, sizeof path, "%s/rocmforge", folder);
    rmdir(path);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest embedded[] = {
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_machine_code),
        cmocka_unit_test(test_functions), cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_unpack),
    };
    const struct CMUnitTest compiled[] = {
        cmocka_unit_test(test_compile),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_compile_failures),
        cmocka_unit_test(test_asked_for),
    };
    int failed = cmocka_run_group_tests(embedded, NULL, NULL);
    return failed + cmocka_run_group_tests(compiled, begin, end);
}
