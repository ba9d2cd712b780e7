/* on_gpu.h - the device that tests of the GPU's kernels run on, and memory there whose borders are watched.
 *
 * It is the host device, or with ROCMFORGE_TEST_GPU set the GPU of this machine.  Outputs are filled with
 * noise before and have a border behind them that must stay.  RF_TEST_SEED: another seed for what is random. */
#pragma once
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/gpu/code.h"
#include "backend/gpu/launch.h"
#include "gpuemu/host/host.h"
#include "lib/testlib.h"

enum { BORDER = 256 }; /* bytes behind every output */

static rf_gpu_queue queue;
static const rf_cpu_kernels *cpu;
static uint64_t seed = 2026;

static inline void check_queue(void) {
    rf_error e = {RF_OK, ""};
    rf_gpu_wait(&queue);
    if (rf_gpu_status(&queue, &e) != RF_OK) fail_msg("%s", e.text);
}

/* Which norms were launched. */
static inline void forget_norms(void) {
    queue.launched[RF_GPU_norm_rows] = queue.launched[RF_GPU_norm_parts] = false;
}
static inline bool has_normed(void) {
    return queue.launched[RF_GPU_norm_rows] || queue.launched[RF_GPU_norm_parts];
}

/* Device memory that a test takes and gives back all at once. */
static void *taken[64];
static uint32_t n_taken;

static inline void *take(size_t n) {
    assert_true(n_taken < RF_COUNT(taken));
    void *p = rf_gpu_alloc(&queue, n + BORDER, "a test");
    check_queue();
    rf_gpu_fill(&queue, p, 0xA5, n + BORDER);
    return taken[n_taken++] = p;
}

static inline void give_all(void) {
    check_queue();
    while (n_taken > 0)
        rf_gpu_free(&queue, taken[--n_taken]);
}

/* n bytes on the device; NULL stays NULL. */
static inline void *up(const void *p, size_t n) {
    if (!p) return NULL;
    void *d = take(n);
    rf_gpu_upload(&queue, d, p, n);
    check_queue();
    return d;
}

static inline void down(void *out, const void *device, size_t n) {
    uint8_t border[BORDER];
    rf_gpu_download(&queue, out, device, n);
    rf_gpu_download(&queue, border, (const uint8_t *)device + n, BORDER);
    check_queue();
    for (size_t i = 0; i < BORDER; i++)
        assert_int_equal(border[i], 0xA5);
}

static inline bool same(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

static inline void check_floats(const char *what, const float *want, const void *device, size_t n) {
    float *got = rf_alloc(n, sizeof *got);
    assert_non_null(got);
    down(got, device, n * sizeof *got);
    for (size_t i = 0; i < n; i++)
        if (!same(want[i], got[i]))
            fail_msg("%s: element %zu of %zu is %a, expected %a", what, i, n, (double)got[i],
                     (double)want[i]);
    rf_free(got);
}

static inline void check_bytes(const char *what, const void *want, const void *device, size_t n) {
    uint8_t *got = rf_alloc(n, 1);
    assert_non_null(got);
    down(got, device, n);
    for (size_t i = 0; i < n; i++)
        if (got[i] != ((const uint8_t *)want)[i])
            fail_msg("%s: byte %zu of %zu is %u, expected %u", what, i, n, got[i],
                     ((const uint8_t *)want)[i]);
    rf_free(got);
}

static inline float *random_floats(size_t n, float scale) {
    float *x = rf_alloc(n, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = rf_test_randf(&seed) * scale;
    return x;
}

/* Some of what arithmetic is hard on: infinities, NaNs, subnormals, huge values. */
static inline void add_specials(float *x, size_t n) {
    static const float all[] = {INFINITY, -INFINITY, NAN, 1e-42f, -0.0f, 3e38f, 1e-20f, -88.0f};
    for (size_t i = 0; i < RF_COUNT(all); i++)
        x[rf_test_rand(&seed) % n] = all[i];
}

static inline void norm_on_cpu(uint32_t kind, float *dst, const float *x, const float *w,
                               const float *b, size_t n) {
    if (kind == RF_GPU_LAYER_NORM)
        cpu->layer_norm(dst, x, w, b, n, 1e-5f);
    else
        cpu->rms_norm(dst, x, w, n, 1e-5f);
}

static inline int open_device(void **state) {
    (void)state;
    rf_error e = {RF_OK, ""};
    const rf_gpu_driver *driver = rf_host_gpu();
    cpu = rf_cpu_kernels_get(RF_ISA_SCALAR);
    if (getenv("RF_TEST_SEED")) seed = strtoull(getenv("RF_TEST_SEED"), NULL, 10);
    if (getenv("ROCMFORGE_TEST_GPU") && rf_gpu_driver_get(&driver, &e) != RF_OK) return -1;
    rf_status s = rf_gpu_open(&queue, driver, 0, &e);
    if (s == RF_OK) s = rf_gpu_code_load(&queue, &e);
    print_message("on %s%s%s\n", queue.info.name, s == RF_OK ? "" : ": ", e.text);
    return s == RF_OK ? 0 : -1;
}

static inline int close_device(void **state) {
    (void)state;
    rf_gpu_close(&queue);
    return 0;
}
