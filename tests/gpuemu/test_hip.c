/* test_hip.c - the stand-in libamdhip64.so, used as the driver layer uses the real one: by dlopen.
 *
 * What it must show: work that nobody waited for, uses of freed memory, calls that a capture forbids,
 * a kernel's fault in the words of its instruction, and every failure that can be ordered. */
#include <dlfcn.h>
#include <stdlib.h>

#include "gpuemu/fixture.h"

typedef void *handle;
static struct {
    int (*init)(unsigned), (*count)(int *), (*version)(int *), (*attribute)(int *, int, int);
    int (*properties)(void *, int), (*total)(size_t *, int), (*info)(size_t *, size_t *);
    int (*alloc)(void **, size_t), (*free)(void *);
    int (*upload)(void *, const void *, size_t, handle),
        (*download)(void *, void *, size_t, handle);
    int (*copy)(void *, void *, size_t, handle), (*fill)(void *, unsigned char, size_t, handle);
    int (*stream)(handle *, unsigned), (*stream_end)(handle), (*sync)(handle);
    int (*wait_event)(handle, handle, unsigned);
    int (*event)(handle *, unsigned), (*event_end)(handle), (*record)(handle, handle);
    int (*event_query)(handle), (*event_sync)(handle);
    int (*load)(handle *, const void *), (*unload)(handle);
    int (*function)(handle *, handle, const char *);
    int (*launch)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  handle, void **, void **);
    int (*begin)(handle, int), (*end)(handle, handle *);
    int (*instantiate)(handle *, handle, unsigned long long), (*replay)(handle, handle);
    int (*exec_end)(handle), (*graph_end)(handle);
    const char *(*text)(int);
} api;

/* A fresh library for every test: a fault stays in it until it is closed. */
static void *library;

static const struct {
    void *to;
    const char *name;
} names[] = {
    {&api.init, "hipInit"},
    {&api.count, "hipGetDeviceCount"},
    {&api.version, "hipDriverGetVersion"},
    {&api.attribute, "hipDeviceGetAttribute"},
    {&api.properties, "hipGetDevicePropertiesR0600"},
    {&api.total, "hipDeviceTotalMem"},
    {&api.info, "hipMemGetInfo"},
    {&api.alloc, "hipMalloc"},
    {&api.free, "hipFree"},
    {&api.upload, "hipMemcpyHtoDAsync"},
    {&api.download, "hipMemcpyDtoHAsync"},
    {&api.copy, "hipMemcpyDtoDAsync"},
    {&api.fill, "hipMemsetD8Async"},
    {&api.stream, "hipStreamCreateWithFlags"},
    {&api.stream_end, "hipStreamDestroy"},
    {&api.sync, "hipStreamSynchronize"},
    {&api.wait_event, "hipStreamWaitEvent"},
    {&api.event, "hipEventCreateWithFlags"},
    {&api.event_end, "hipEventDestroy"},
    {&api.record, "hipEventRecord"},
    {&api.event_query, "hipEventQuery"},
    {&api.event_sync, "hipEventSynchronize"},
    {&api.load, "hipModuleLoadData"},
    {&api.unload, "hipModuleUnload"},
    {&api.function, "hipModuleGetFunction"},
    {&api.launch, "hipModuleLaunchKernel"},
    {&api.begin, "hipStreamBeginCapture"},
    {&api.end, "hipStreamEndCapture"},
    {&api.instantiate, "hipGraphInstantiateWithFlags"},
    {&api.replay, "hipGraphLaunch"},
    {&api.exec_end, "hipGraphExecDestroy"},
    {&api.graph_end, "hipGraphDestroy"},
    {&api.text, "hipGetErrorString"},
};

static int open_library(void **state) {
    (void)state;
    setenv("RF_EMU_ARCH", "gfx1100", 1);
    library = dlopen(RF_EMU_HIP, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    for (size_t k = 0; k < RF_COUNT(names); k++) {
        void *at = dlsym(library, names[k].name);
        if (!at) fail_msg("no %s", names[k].name);
        memcpy(names[k].to, &at, sizeof at);
    }
    return 0;
}

static int close_library(void **state) {
    (void)state;
    static const char *const settings[] = {
        "RF_EMU_ARCH",       "RF_EMU_NO_DEVICE",   "RF_EMU_VERSION", "RF_EMU_MEMORY",
        "RF_EMU_FAIL_ALLOC", "RF_EMU_FAIL_LAUNCH", "RF_EMU_UNITS",   "RF_EMU_LAUNCHES"};
    for (size_t k = 0; k < RF_COUNT(settings); k++)
        unsetenv(settings[k]);
    return dlclose(library);
}

static handle load_kernels(const char *arch) {
    char path[500];
    size_t n;
    handle m;
    snprintf(path, sizeof path, "%s/kernels.%s.hsaco", RF_EMU_KERNELS, arch);
    uint8_t *code = rf_test_read(path, &n);
    int error = api.load(&m, code);
    rf_free(code);
    return error ? NULL : m;
}

static handle function(handle m, const char *name) {
    handle f;
    assert_int_equal(api.function(&f, m, name), 0);
    return f;
}

/* y[i + n] = 1 for 256 threads */
static int launch_beyond(handle f, handle stream, void *y, uint32_t n) {
    void *params[] = {&y, &n};
    return api.launch(f, 1, 1, 1, 256, 1, 1, 0, stream, params, NULL);
}

static void test_device(void **state) {
    (void)state;
    int n = 0, warp = 0;
    char p[4096];
    assert_int_equal(api.init(0), 0);
    assert_int_equal(api.count(&n), 0);
    assert_int_equal(n, 1);
    for (size_t k = 0; k < RF_COUNT(archs); k++) {
        setenv("RF_EMU_ARCH", archs[k], 1);
        assert_int_equal(api.properties(p, 0), 0);
        assert_int_equal(strncmp(p + 1160, archs[k], strlen(archs[k])), 0);
        assert_int_equal(api.attribute(&warp, 87, 0), 0);
        assert_int_equal(warp, strncmp(archs[k], "gfx9", 4) ? 32 : 64);
        handle m = load_kernels(archs[k]);
        assert_non_null(m);
        assert_int_equal(api.unload(m), 0);
        assert_null(load_kernels(archs[(k + 1) % RF_COUNT(archs)])); /* another card's code */
    }
    assert_int_equal(api.properties(p, 1), 101);
    setenv("RF_EMU_NO_DEVICE", "1", 1);
    assert_int_not_equal(api.init(0), 0);
    assert_int_equal(api.count(&n), 100);
    assert_int_equal(n, 0);
}

/* Nothing happens before somebody waits, then everything in order. */
static void test_order(void **state) {
    (void)state;
    handle s, ev, m = load_kernels("gfx1100"), f = function(m, "t_beyond");
    uint32_t *y, back[300], one = 1;
    assert_int_equal(api.stream(&s, 1), 0);
    assert_int_equal(api.event(&ev, 2), 0);
    assert_int_equal(api.alloc((void **)&y, sizeof back), 0);
    memset(back, 0x11, sizeof back);
    assert_int_equal(api.fill(y, 0, sizeof back, s), 0);
    assert_int_equal(launch_beyond(f, s, y, 10), 0);
    assert_int_equal(api.record(ev, s), 0);
    assert_int_equal(api.download(back, y, sizeof back, s), 0);
    assert_int_equal(back[10], 0x11111111);
    assert_int_equal(api.event_query(ev), 600);
    assert_int_equal(api.event_sync(ev), 0); /* up to the event, not further */
    assert_int_equal(api.event_query(ev), 0);
    assert_int_equal(back[10], 0x11111111);
    assert_int_equal(api.sync(s), 0);
    assert_int_equal(back[9], 0);
    assert_int_equal(back[10], 1);
    assert_int_equal(back[265], 1);
    assert_int_equal(back[266], 0);
    one = 5; /* a copy reads its source when it runs */
    assert_int_equal(api.upload(y, &one, 4, s), 0);
    one = 6;
    assert_int_equal(api.download(back, y, 4, s), 0);
    assert_int_equal(api.sync(s), 0);
    assert_int_equal(back[0], 6);
    assert_int_equal(api.event_end(ev), 0);
    assert_int_equal(api.free(y), 0);
    assert_int_equal(api.stream_end(s), 0);
}

/* Streams do not wait for each other, unless told to. */
static void test_streams(void **state) {
    (void)state;
    handle a, b, ev;
    uint32_t *y, back = 7;
    assert_int_equal(api.stream(&a, 1), 0);
    assert_int_equal(api.stream(&b, 1), 0);
    assert_int_equal(api.event(&ev, 2), 0);
    assert_int_equal(api.alloc((void **)&y, 4), 0);
    assert_int_equal(api.fill(y, 1, 4, a), 0);
    assert_int_equal(api.download(&back, y, 4, b), 0);
    assert_int_equal(api.sync(b), 0);
    assert_int_equal(back, 0xcccccccc); /* fresh memory is rubbish */
    assert_int_equal(api.record(ev, a), 0);
    assert_int_equal(api.wait_event(b, ev, 0), 0);
    assert_int_equal(api.download(&back, y, 4, b), 0);
    assert_int_equal(api.sync(b), 0);
    assert_int_equal(back, 0x01010101);
    assert_int_equal(api.event_end(ev), 0);
    assert_int_equal(api.free(y), 0);
    assert_int_equal(api.stream_end(a), 0);
    assert_int_equal(api.stream_end(b), 0);
    assert_int_equal(api.sync(a), 400);
}

static void test_graphs(void **state) {
    (void)state;
    handle s, g, x, m = load_kernels("gfx1100"), f = function(m, "t_global_atomics");
    uint32_t *y, back[8] = {0};
    assert_int_equal(api.stream(&s, 1), 0);
    assert_int_equal(api.alloc((void **)&y, sizeof back), 0);
    assert_int_equal(api.fill(y, 0, sizeof back, s), 0);
    assert_int_equal(api.begin(s, 1), 0);
    float *sum = (float *)(y + 6);
    void *params[] = {&y, &sum};
    assert_int_equal(api.launch(f, 2, 1, 1, 256, 1, 1, 0, s, params, NULL), 0);
    assert_int_equal(api.end(s, &g), 0);
    assert_int_equal(api.instantiate(&x, g, 0), 0);
    assert_int_equal(api.graph_end(g), 0);
    for (int k = 0; k < 3; k++)
        assert_int_equal(api.replay(x, s), 0);
    assert_int_equal(api.download(back, y, sizeof back, s), 0);
    assert_int_equal(api.sync(s), 0);
    assert_int_equal(back[0], 3 * 512);
    assert_int_equal(api.exec_end(x), 0);
    /* a synchronising call breaks a capture */
    assert_int_equal(api.begin(s, 1), 0);
    assert_int_equal(api.sync(s), 900);
    assert_int_equal(api.end(s, &g), 901);
    void *p;
    assert_int_equal(api.begin(s, 1), 0);
    assert_int_equal(api.alloc(&p, 4), 900);
    assert_int_equal(api.end(s, &g), 901);
    assert_int_equal(api.free(y), 0);
    assert_int_equal(api.stream_end(s), 0);
}

static void test_misuse(void **state) {
    (void)state;
    handle s, f, m = load_kernels("gfx1100");
    uint8_t *p, host[16] = {0};
    assert_int_equal(api.stream(&s, 1), 0);
    assert_int_equal(api.alloc((void **)&p, 10), 0);
    assert_int_equal(api.upload(p, host, 11, s), 1);
    assert_int_equal(api.upload(p + 1, host, 10, s), 1);
    assert_int_equal(api.download(host, p - 1, 4, s), 1);
    assert_int_equal(api.copy(host, p, 4, s), 1);
    assert_int_equal(api.free(p + 1), 1);
    assert_int_equal(api.free(p), 0);
    assert_int_equal(api.free(p), 1);
    assert_int_equal(api.upload(p, host, 4, s), 1);
    assert_int_equal(api.function(&f, m, "no_such_kernel"), 500);
    f = function(m, "t_int");
    void *y = NULL, *params[] = {&y, &y};
    assert_int_equal(api.launch(f, 1, 1, 1, 129, 1, 1, 0, s, params, NULL), 1);
    assert_int_equal(api.launch(f, 0, 1, 1, 128, 1, 1, 0, s, params, NULL), 1);
    assert_int_equal(api.launch(f, 1u << 26, 1, 1, 128, 1, 1, 0, s, params, NULL), 1);
    assert_int_equal(api.load(&m, "\177ELF is not enough, however long the text may be, as it is "
                                  "64 bytes of head"),
                     200);
    assert_int_equal(api.stream_end(s), 0);
}

/* A fault shows when somebody waits, names the instruction, and stays. */
static void test_fault(void **state) {
    (void)state;
    handle s, m = load_kernels("gfx1100"), f = function(m, "t_beyond");
    uint32_t *y;
    assert_int_equal(api.stream(&s, 1), 0);
    assert_int_equal(api.alloc((void **)&y, 1024), 0);
    assert_int_equal(launch_beyond(f, s, y, 1), 0);
    assert_int_equal(api.sync(s), 700);
    assert_non_null(strstr(api.text(700), "t_beyond, block (0,0,0), wave 7: store of 4 bytes"));
    assert_non_null(strstr(api.text(700), "global_store_b32"));
    assert_int_equal(launch_beyond(f, s, y, 0), 700);
    assert_int_equal(api.sync(s), 700);
    assert_int_equal(api.free(y), 700);
}

static void test_ordered_failures(void **state) {
    (void)state;
    handle s, m = load_kernels("gfx1100"), f = function(m, "t_beyond");
    void *p[4];
    size_t n_free, n_total;
    setenv("RF_EMU_FAIL_ALLOC", "2", 1);
    assert_int_equal(api.alloc(&p[0], 8), 0);
    assert_int_equal(api.alloc(&p[1], 8), 2);
    assert_null(p[1]);
    assert_int_equal(api.alloc(&p[1], 8), 0);
    setenv("RF_EMU_FAIL_ALLOC", "1", 1);
    assert_int_equal(api.alloc(&p[2], 8), 2);
    unsetenv("RF_EMU_FAIL_ALLOC");
    setenv("RF_EMU_MEMORY", "4096", 1);
    assert_int_equal(api.alloc(&p[2], 4081), 2);
    assert_int_equal(api.alloc(&p[2], 4080), 0);
    assert_int_equal(api.info(&n_free, &n_total), 0);
    assert_int_equal(n_free, 0);
    assert_int_equal(n_total, 4096);
    unsetenv("RF_EMU_MEMORY");
    setenv("RF_EMU_VERSION", "50600000", 1);
    int version;
    assert_int_equal(api.version(&version), 0);
    assert_int_equal(version, 50600000);
    assert_null(load_kernels("gfx1100")); /* too old for this version of code objects */
    unsetenv("RF_EMU_VERSION");
    assert_int_equal(api.stream(&s, 1), 0);
    setenv("RF_EMU_FAIL_LAUNCH", "2", 1);
    assert_int_equal(launch_beyond(f, s, p[2], 0), 0);
    assert_int_equal(launch_beyond(f, s, p[2], 0), 719);
    assert_int_equal(api.sync(s), 719);
    for (int k = 0; k < 3; k++)
        assert_int_equal(api.free(p[k]), 719);
}

/* Two blocks of eight waves, each lane of which loads four bytes. */
static void test_list(void **state) {
    (void)state;
    handle s, m = load_kernels("gfx1100"), f = function(m, "t_read_beyond");
    uint32_t *y, n = 1, blocks, threads, vgpr, lds, units = 0;
    unsigned long long all, vector, matrix, shared, loads, bytes;
    const char *path = rf_test_tmp("launches.csv");
    setenv("RF_EMU_LAUNCHES", path, 1);
    setenv("RF_EMU_UNITS", "48", 1);
    assert_int_equal(api.attribute((int *)&units, 63, 0), 0);
    assert_int_equal(units, 48);
    assert_int_equal(api.stream(&s, 1), 0);
    assert_int_equal(api.alloc((void **)&y, 4 * 257), 0);
    void *params[] = {&y, &y, &n};
    assert_int_equal(api.launch(f, 2, 1, 1, 256, 1, 1, 0, s, params, NULL), 0);
    assert_int_equal(api.sync(s), 0);
    FILE *list = fopen(path, "r");
    char line[200];
    assert_non_null(list);
    assert_non_null(fgets(line, sizeof line, list));
    assert_string_equal(line, "kernel,blocks,threads,vgpr,lds,instructions,vector,matrix,shared,"
                              "loads,bytes_loaded\n");
    assert_non_null(fgets(line, sizeof line, list));
    assert_int_equal(sscanf(line, "t_read_beyond,%u,%u,%u,%u,%llu,%llu,%llu,%llu,%llu,%llu",
                            &blocks, &threads, &vgpr, &lds, &all, &vector, &matrix, &shared, &loads,
                            &bytes),
                     10);
    assert_null(fgets(line, sizeof line, list));
    fclose(list);
    assert_true(blocks == 2 && threads == 256 && vgpr > 0 && lds == 0);
    assert_true(loads == 16 && bytes == 2 * 256 * 4 && matrix == 0 && shared == 0);
    assert_true(vector > 0 && all > vector + loads);
    assert_int_equal(api.free(y), 0);
    assert_int_equal(api.stream_end(s), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_library, close_library)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_device), TEST(test_order), TEST(test_streams),          TEST(test_graphs),
        TEST(test_misuse), TEST(test_fault), TEST(test_ordered_failures), TEST(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
