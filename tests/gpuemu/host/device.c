/* device.c - the driver's functions over the heap and fibres. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuemu/host/host.h"

enum {
    OK = 0,
    NO_MEMORY = 2,
    NO_DEVICE = 101,
    NOT_FOUND = 500,
    BAD_LAUNCH = 719,
    BAD_STREAM = 400
};

typedef enum job_kind { JOB_LAUNCH, JOB_COPY, JOB_FILL } job_kind;
typedef struct job {
    job_kind kind;
    const rf_host_kernel *kernel;
    uint32_t grid[3], block;
    unsigned char args[1024];
    void *dst;
    const void *src;
    size_t n;
    unsigned char value;
} job;

typedef struct graph {
    job *jobs; /* [n] */
    size_t n, cap;
} graph;

typedef struct stream {
    graph *recording; /* NULL: calls run at once */
    int error;        /* sticky */
} stream;

static int run_job(const job *j) {
    if (j->kind == JOB_COPY) {
        memmove(j->dst, j->src, j->n);
        return OK;
    }
    if (j->kind == JOB_FILL) {
        memset(j->dst, j->value, j->n);
        return OK;
    }
    /* neighbours along z one behind the other, as clusters want it (kernels/cluster.h) */
    uint32_t b[3];
    for (b[0] = 0; b[0] < j->grid[0]; b[0]++)
        for (b[1] = 0; b[1] < j->grid[1]; b[1]++)
            for (b[2] = 0; b[2] < j->grid[2]; b[2]++)
                if (!rf_fibres_run(j->block, j->grid[0], b, j->kernel->run, j->args))
                    return BAD_LAUNCH;
    return OK;
}

static int queue_job(stream *s, const job *j) {
    if (s->error) return s->error;
    graph *g = s->recording;
    if (!g) return s->error = run_job(j);
    if (g->n == g->cap) {
        size_t cap = g->cap ? 2 * g->cap : 64;
        job *jobs = rf_realloc(g->jobs, g->n, cap, sizeof *jobs);
        if (!jobs) return NO_MEMORY;
        g->jobs = jobs;
        g->cap = cap;
    }
    g->jobs[g->n++] = *j;
    return OK;
}

static int device_count(int *n) {
    *n = 1;
    return OK;
}

static int device_info(int device, rf_gpu_info *out) {
    if (device != 0) return NO_DEVICE;
    *out = (rf_gpu_info){.mem_bytes = (size_t)4 << 30,
                         .warp = 32,
                         .n_units = 1,
                         .lds_bytes = RF_HOST_SHARED,
                         .integrated = true};
    snprintf(out->name, sizeof out->name, "kernels on this processor");
    const char *arch = getenv("RF_HOST_ARCH");
    snprintf(out->arch, sizeof out->arch, "%s", arch ? arch : "host");
    return OK;
}

static int use_device(int device) { return device == 0 ? OK : NO_DEVICE; }

static int reset(int device) { return use_device(device); }

static int mem_info(size_t *n_free, size_t *n_total) {
    *n_free = *n_total = (size_t)4 << 30;
    return OK;
}

static int take(void **out, size_t n) {
    *out = rf_alloc(n, 1);
    if (!*out) return NO_MEMORY;
    memset(*out, 0xA5, n); /* nothing may rest on zeros */
    return OK;
}

static int take_pinned(void **out, size_t n, unsigned flags) {
    (void)flags;
    return take(out, n);
}

static int give(void *p) {
    rf_free(p);
    return OK;
}

static int upload(void *dst, const void *src, size_t n, rf_gpu_stream s) {
    job j = {.kind = JOB_COPY, .dst = dst, .src = src, .n = n};
    return queue_job(s, &j);
}

static int copy(void *dst, void *src, size_t n, rf_gpu_stream s) { return upload(dst, src, n, s); }

static int fill(void *dst, unsigned char value, size_t n, rf_gpu_stream s) {
    job j = {.kind = JOB_FILL, .dst = dst, .n = n, .value = value};
    return queue_job(s, &j);
}

static int stream_create(rf_gpu_stream *out, unsigned flags) {
    (void)flags;
    *out = rf_alloc(1, sizeof(stream));
    return *out ? OK : NO_MEMORY;
}

static int stream_sync(rf_gpu_stream s) { return ((stream *)s)->error; }

static int event_create(rf_gpu_event *out, unsigned flags) { return stream_create(out, flags); }
static int event_record(rf_gpu_event ev, rf_gpu_stream s) {
    (void)ev;
    return stream_sync(s);
}
static int event_sync(rf_gpu_event ev) {
    (void)ev;
    return OK;
}

static int module_load(rf_gpu_module *out, const void *image) {
    (void)image; /* it brings its own kernels */
    return stream_create(out, 0);
}

static int module_function(rf_gpu_function *out, rf_gpu_module m, const char *name) {
    (void)m;
    union { /* the driver's handles are not const */
        const rf_host_kernel *kernel;
        void *handle;
    } u = {.kernel = rf_host_kernel_get(name)};
    *out = u.handle;
    return *out ? OK : NOT_FOUND;
}

static int launch(rf_gpu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                  rf_gpu_stream s, void **params, void **extra) {
    const rf_host_kernel *k = f;
    job j = {.kind = JOB_LAUNCH, .kernel = k, .grid = {grid_x, grid_y, grid_z}, .block = block_x};
    bool bad = extra || shared_bytes > RF_HOST_SHARED || block_y != 1 || block_z != 1 ||
               grid_y > 65535 || grid_z > 65535 || block_x == 0 || block_x > RF_FIBRE_MAX ||
               k->args_bytes > sizeof j.args;
    if (bad) return BAD_LAUNCH;
    memcpy(j.args, params[0], k->args_bytes);
    return queue_job(s, &j);
}

static int capture_begin(rf_gpu_stream s, int mode) {
    (void)mode;
    stream *st = s;
    if (st->recording) return BAD_STREAM;
    st->recording = rf_alloc(1, sizeof(graph));
    return st->recording ? OK : NO_MEMORY;
}

static int capture_end(rf_gpu_stream s, rf_gpu_graph *out) {
    stream *st = s;
    *out = st->recording;
    st->recording = NULL;
    return *out ? OK : BAD_STREAM;
}

static int graph_instantiate(rf_gpu_graph_exec *out, rf_gpu_graph g, unsigned long long flags) {
    (void)flags;
    const graph *from = g;
    graph *to = rf_alloc(1, sizeof *to);
    *out = to;
    if (!to) return NO_MEMORY;
    to->jobs = rf_alloc(from->n, sizeof *to->jobs);
    if (!to->jobs) return NO_MEMORY;
    if (from->n > 0) memcpy(to->jobs, from->jobs, from->n * sizeof *to->jobs);
    to->n = from->n;
    return OK;
}

static int graph_launch(rf_gpu_graph_exec x, rf_gpu_stream s) {
    const graph *g = x;
    for (size_t i = 0; i < g->n; i++) {
        int code = queue_job(s, &g->jobs[i]);
        if (code) return code;
    }
    return OK;
}

static int graph_destroy(rf_gpu_graph x) {
    graph *g = x;
    if (g) rf_free(g->jobs);
    rf_free(g);
    return OK;
}

static const char *error_text(int code) {
    switch (code) {
    case NO_MEMORY:
        return "out of memory";
    case NO_DEVICE:
        return "no such device";
    case NOT_FOUND:
        return "no such kernel";
    case BAD_STREAM:
        return "nothing is recorded, or something is already";
    case BAD_LAUNCH:
        return "a launch that cannot be, or whose threads parted at a barrier";
    default:
        return "no text";
    }
}

const rf_gpu_driver *rf_host_gpu(void) {
    static const rf_gpu_driver driver = {
        .name = "host",
        .library = "the test program",
        .version = 1,
        .device_count = device_count,
        .device_info = device_info,
        .use_device = use_device,
        .reset = reset,
        .mem_info = mem_info,
        .alloc = take,
        .free = give,
        .host_alloc = take_pinned,
        .host_free = give,
        .upload = upload,
        .download = copy,
        .copy = copy,
        .fill = fill,
        .stream_create = stream_create,
        .stream_destroy = give,
        .stream_sync = stream_sync,
        .stream_query = stream_sync,
        .event_create = event_create,
        .event_destroy = give,
        .event_record = event_record,
        .event_sync = event_sync,
        .module_load = module_load,
        .module_unload = give,
        .module_function = module_function,
        .launch = launch,
        .capture_begin = capture_begin,
        .capture_end = capture_end,
        .graph_instantiate = graph_instantiate,
        .graph_launch = graph_launch,
        .graph_exec_destroy = graph_destroy,
        .graph_destroy = graph_destroy,
        .error_text = error_text,
    };
    return &driver;
}
