/* idle.c - the host device's table with launches that do nothing, under the name of another device. */
#include "gpuemu/host/idle.h"

#include <stdio.h>

#include "gpuemu/host/host.h"

static const rf_gpu_driver *under;
static const char *arch;
static uint32_t n_units;

static int device_info(int device, rf_gpu_info *out) {
    int code = under->device_info(device, out);
    snprintf(out->arch, sizeof out->arch, "%s", arch);
    out->n_units = n_units;
    if (arch[0] == 'g') out->lds_bytes = 64 << 10; /* of AMD's */
    return code;
}

static int module_function(rf_gpu_function *out, rf_gpu_module m, const char *name) {
    (void)name;
    *out = m;
    return 0;
}

static int fill(void *dst, unsigned char value, size_t n, rf_gpu_stream s) {
    (void)dst, (void)value, (void)n, (void)s;
    return 0;
}

static int launch(rf_gpu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                  rf_gpu_stream s, void **params, void **extra) {
    (void)f, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
    (void)shared_bytes, (void)s, (void)params, (void)extra;
    return 0;
}

static int launch_hinted(rf_gpu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned shared_bytes, rf_gpu_stream s, void **params,
                         rf_gpu_hints hints) {
    (void)hints;
    return launch(f, grid_x, grid_y, grid_z, block_x, 1, 1, shared_bytes, s, params, NULL);
}

const rf_gpu_driver *rf_idle_gpu(const char *of, uint32_t units) {
    static rf_gpu_driver table;
    under = rf_host_gpu();
    arch = of;
    n_units = units;
    table = *under;
    table.device_info = device_info;
    table.module_function = module_function;
    table.fill = fill;
    table.launch = launch;
    if (arch[0] != 'g') table.launch_hinted = launch_hinted; /* NVIDIA's take hints */
    return &table;
}
