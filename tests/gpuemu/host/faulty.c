/* faulty.c - a driver's table whose entries look at what is to fail before they ask the real one. */
#include "gpuemu/host/faulty.h"

#include <stdlib.h>
#include <string.h>

enum { LAUNCH_FAILED = 719, TIMED_OUT = 702 };

typedef struct countdown {
    uint64_t nth, n; /* fails at the nth; n so far */
    uint32_t times;  /* that are left */
} countdown;

static const rf_gpu_driver *under;
static countdown launches, waits;
static int sticky; /* what every call says; 0: sound */
static bool lost;
static const char *spoilt;
static rf_gpu_function functions[RF_GPU_KERNEL_COUNT][1 + RF_GPU_MORE_KINDS];

static int count(countdown *c, int code) {
    if (sticky || c->times == 0 || ++c->n < c->nth) return sticky;
    c->times--;
    c->n = 0;
    return sticky = code;
}

void rf_faulty_launch(uint64_t nth, uint32_t times) { launches = (countdown){nth, 0, times}; }
void rf_faulty_wait(uint64_t nth, uint32_t times) { waits = (countdown){nth, 0, times}; }
void rf_faulty_lose(bool is_lost) { lost = is_lost; }
void rf_faulty_spoil(const char *symbol) { spoilt = symbol; }

static int reset(int device) {
    if (lost) return sticky ? sticky : LAUNCH_FAILED;
    sticky = 0;
    return under->reset(device);
}

static int alloc(void **out, size_t n) { return sticky ? sticky : under->alloc(out, n); }

static int host_alloc(void **out, size_t n, unsigned flags) {
    return sticky ? sticky : under->host_alloc(out, n, flags);
}

static int upload(void *dst, const void *src, size_t n, rf_gpu_stream s) {
    return sticky ? sticky : under->upload(dst, src, n, s);
}

static int download(void *dst, void *src, size_t n, rf_gpu_stream s) {
    return sticky ? sticky : under->download(dst, src, n, s);
}

static int copy(void *dst, void *src, size_t n, rf_gpu_stream s) {
    return sticky ? sticky : under->copy(dst, src, n, s);
}

static int fill(void *dst, unsigned char value, size_t n, rf_gpu_stream s) {
    return sticky ? sticky : under->fill(dst, value, n, s);
}

static int stream_create(rf_gpu_stream *out, unsigned flags) {
    return sticky ? sticky : under->stream_create(out, flags);
}

static int stream_sync(rf_gpu_stream s) {
    int code = count(&waits, TIMED_OUT);
    return code ? code : under->stream_sync(s);
}

static int stream_query(rf_gpu_stream s) {
    int code = count(&waits, TIMED_OUT);
    return code ? code : under->stream_query(s);
}

static int module_load(rf_gpu_module *out, const void *image) {
    return sticky ? sticky : under->module_load(out, image);
}

static int module_function(rf_gpu_function *out, rf_gpu_module m, const char *name) {
    int code = under->module_function(out, m, name);
    const char *kind = strstr(name, "_kind_");
    size_t n = kind ? (size_t)(kind - name) : strlen(name);
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++) {
        const char *kernel = rf_gpu_kernel_name((rf_gpu_kernel)k);
        if (strlen(kernel) == n && strncmp(name, kernel, n) == 0)
            functions[k][kind ? strtol(kind + strlen("_kind_"), NULL, 10) : 0] = *out;
    }
    return code;
}

static bool is_spoilt(rf_gpu_function f) {
    for (int k = 0; k < RF_GPU_KERNEL_COUNT && spoilt; k++) {
        if (strcmp(spoilt, rf_gpu_kernel_name((rf_gpu_kernel)k)) != 0) continue;
        for (size_t i = 0; i < RF_COUNT(functions[k]); i++)
            if (functions[k][i] == f) return true;
    }
    return false;
}

static int launch(rf_gpu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                  rf_gpu_stream s, void **params, void **extra) {
    int code = count(&launches, LAUNCH_FAILED);
    if (code || is_spoilt(f)) return code;
    return under->launch(f, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, s,
                         params, extra);
}

static int graph_launch(rf_gpu_graph_exec x, rf_gpu_stream s) {
    int code = count(&launches, LAUNCH_FAILED);
    return code ? code : under->graph_launch(x, s);
}

const rf_gpu_driver *rf_faulty_gpu(const rf_gpu_driver *d) {
    static rf_gpu_driver table;
    under = d;
    sticky = 0;
    lost = false;
    spoilt = NULL;
    launches = waits = (countdown){0, 0, 0};
    table = *d;
    table.reset = reset;
    table.alloc = alloc;
    table.host_alloc = host_alloc;
    table.upload = upload;
    table.download = download;
    table.copy = copy;
    table.fill = fill;
    table.stream_create = stream_create;
    table.stream_sync = stream_sync;
    table.stream_query = stream_query;
    table.module_load = module_load;
    table.module_function = module_function;
    table.launch = launch;
    table.launch_hinted = NULL; /* every launch is to be counted */
    table.graph_launch = graph_launch;
    return &table;
}
