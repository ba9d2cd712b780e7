/* driver.c - finds a driver's library, fills the table, and keeps the first failure of a queue.
 *
 * HIP and CUDA have driver interfaces of one shape on 64-bit systems; the few calls that differ
 * (contexts, device properties, error texts) have a wrapper each.  Function pointers are looked up
 * by the exact exported names, since headers map some names to versions with other arguments. */
#include "backend/gpu/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_DEVICES = 64,
    PROPERTIES_BYTES = 4096, /* of the driver's struct: 1472 in ROCm 6 and 7, 792 in ROCm 5 */
    ARCH_AT_R0600 = 1160,    /* where gcnArchName lies in it, by struct version */
    ARCH_AT_OLD = 396,
    STREAM_NON_BLOCKING = 1,
    EVENT_NO_TIMING = 2,
    CAPTURE_THREAD_LOCAL = 1,
    ERROR_OUT_OF_MEMORY = 2,
};

static const char *const kernel_names[RF_GPU_KERNEL_COUNT] = {
#define X(name, args, block) "rf_" #name,
#include "backend/gpu/kernels.def"
#undef X
};

const char *rf_gpu_kernel_name(rf_gpu_kernel k) {
    RF_ASSERT((unsigned)k < RF_GPU_KERNEL_COUNT);
    return kernel_names[k];
}

/* Calls that the vendors do not share ------------------------------------------------------------*/

static struct {
    int (*init)(unsigned);
    int (*driver_version)(int *);
    int (*device_count)(int *);
    int (*device_name)(char *, int, int);
    int (*device_memory)(size_t *, int);
    int (*attribute)(int *, int, int);
    int (*set_device)(int);
    int (*properties)(void *, int);
    int (*reset)(void); /* the device of this thread */
    int arch_at;
} hip;

static struct {
    int (*init)(unsigned);
    int (*driver_version)(int *);
    int (*device_get)(int *, int);
    int (*device_name)(char *, int, int);
    int (*device_memory)(size_t *, int);
    int (*attribute)(int *, int, int);
    int (*retain)(void **, int);
    int (*reset)(int);
    int (*set_current)(void *);
    int (*error_string)(int, const char **);
    int (*module_function)(rf_gpu_function *, rf_gpu_module, const char *);
    int (*function_get)(int *, int, rf_gpu_function);
    int (*function_set)(rf_gpu_function, int, int);
    int (*launch_ex)(const void *config, rf_gpu_function, void **, void **);
    void *context[MAX_DEVICES]; /* retained once for the life of the program */
} cuda;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, and cuda.context */
enum { HIP, CUDA };
static rf_gpu_driver drivers[2] = {[HIP] = {.name = "hip"}, [CUDA] = {.name = "cuda"}};
static const rf_gpu_driver *found, *given;

/* Attributes by the numbers of one vendor. */
static int read_attributes(int (*get)(int *, int, int), const int number[4], int device,
                           rf_gpu_info *out) {
    int value[4] = {0};
    for (int i = 0; i < 4; i++) {
        int code = get(&value[i], number[i], device);
        if (code) return code;
    }
    out->warp = (uint32_t)value[0];
    out->n_units = (uint32_t)value[1];
    out->lds_bytes = (uint32_t)value[2];
    out->integrated = value[3] != 0;
    return 0;
}

static int hip_device_info(int device, rf_gpu_info *out) {
    static const int number[4] = {87, 63, 74, 16}; /* warp, units, shared memory, integrated */
    char properties[PROPERTIES_BYTES] = {0};
    *out = (rf_gpu_info){0};
    int code = hip.device_name(out->name, sizeof out->name - 1, device);
    if (!code) code = hip.device_memory(&out->mem_bytes, device);
    if (!code) code = read_attributes(hip.attribute, number, device, out);
    if (!code) code = hip.properties(properties, device);
    if (code) return code;
    snprintf(out->arch, sizeof out->arch, "%.31s", properties + hip.arch_at);
    out->arch[strcspn(out->arch, ":")] = 0; /* "gfx90a:sramecc+:xnack-" */
    return 0;
}

static int cuda_device_info(int device, rf_gpu_info *out) {
    static const int number[4] = {10, 16, 97, 18};
    int major = 0, minor = 0;
    *out = (rf_gpu_info){0};
    int code = cuda.device_name(out->name, sizeof out->name - 1, device);
    if (!code) code = cuda.device_memory(&out->mem_bytes, device);
    if (!code) code = read_attributes(cuda.attribute, number, device, out);
    if (!code) code = cuda.attribute(&major, 75, device);
    if (!code) code = cuda.attribute(&minor, 76, device);
    snprintf(out->arch, sizeof out->arch, "sm_%d%d", major, minor);
    return code;
}

static int cuda_use_device(int device) {
    enum { INVALID_DEVICE = 101 };
    if (device < 0 || device >= MAX_DEVICES) return INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    int code = cuda.context[device] ? 0 : cuda.retain(&cuda.context[device], device);
    void *context = cuda.context[device];
    pthread_mutex_unlock(&lock);
    return code ? code : cuda.set_current(context);
}

static int cuda_reset(int device) {
    int number = 0, code = cuda.device_get(&number, device);
    pthread_mutex_lock(&lock);
    if (!code) code = cuda.reset(number);
    cuda.context[device] = NULL; /* to be retained anew */
    pthread_mutex_unlock(&lock);
    return code;
}

static int hip_reset(int device) {
    int code = hip.set_device(device);
    return code ? code : hip.reset();
}

static const char *cuda_error_text(int code) {
    const char *text = NULL;
    if (cuda.error_string(code, &text) != 0 || !text) return "an error that the driver cannot name";
    return text;
}

/* Lets the function have all the shared memory a block may have, not just the usual 48 KB. */
static int cuda_module_function(rf_gpu_function *out, rf_gpu_module m, const char *name) {
    enum { SHARED_OPT_IN = 97, FUNCTION_SHARED = 1, FUNCTION_MAX_DYNAMIC = 8 };
    int most = 0, taken = 0, code = cuda.module_function(out, m, name);
    if (!code) code = cuda.attribute(&most, SHARED_OPT_IN, 0);
    if (!code) code = cuda.function_get(&taken, FUNCTION_SHARED, *out);
    return code ? code : cuda.function_set(*out, FUNCTION_MAX_DYNAMIC, most - taken);
}

/* cuLaunchKernelEx's struct and its attribute, whose value takes 64 bytes. */
typedef struct cuda_attribute {
    int id, pad;
    int value[16];
} cuda_attribute;
typedef struct cuda_config {
    unsigned grid[3], block[3], shared_bytes;
    rf_gpu_stream stream;
    cuda_attribute *attributes;
    unsigned n_attributes;
} cuda_config;

static int cuda_launch_hinted(rf_gpu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                              unsigned block_x, unsigned shared_bytes, rf_gpu_stream s,
                              void **params, rf_gpu_hints hints) {
    enum { CLUSTER = 4, EARLY = 6, SHARE = 14, SHARE_SINCE = 12080 };
    cuda_attribute attributes[3];
    cuda_config config = {.grid = {grid_x, grid_y, grid_z},
                          .block = {block_x, 1, 1},
                          .shared_bytes = shared_bytes,
                          .stream = s,
                          .attributes = attributes};
    if (hints.is_early)
        attributes[config.n_attributes++] = (cuda_attribute){.id = EARLY, .value = {1}};
    if (hints.share && drivers[CUDA].version >= SHARE_SINCE)
        attributes[config.n_attributes++] =
            (cuda_attribute){.id = SHARE, .value = {(int)hints.share}};
    if (hints.cluster)
        attributes[config.n_attributes++] =
            (cuda_attribute){.id = CLUSTER, .value = {1, 1, (int)hints.cluster}};
    return cuda.launch_ex(&config, f, params, NULL);
}

/* Loading ----------------------------------------------------------------------------------------*/

typedef struct symbol {
    void *to; /* the function pointer */
    const char *cuda, *hip;
} symbol;

/* The first name that the library lacks, or NULL. */
static const char *look_up(void *library, const symbol *s, size_t n, bool is_cuda) {
    for (size_t i = 0; i < n; i++) {
        const char *name = is_cuda ? s[i].cuda : s[i].hip;
        if (!name) continue;
        void *at = dlsym(library, name);
        if (!at) return name;
        memcpy(s[i].to, &at, sizeof at);
    }
    return NULL;
}

static const char *look_up_shared(rf_gpu_driver *d, void *library, bool is_cuda) {
    const symbol all[] = {
        {&d->device_count, "cuDeviceGetCount", "hipGetDeviceCount"},
        {&d->mem_info, "cuMemGetInfo_v2", "hipMemGetInfo"},
        {&d->alloc, "cuMemAlloc_v2", "hipMalloc"},
        {&d->free, "cuMemFree_v2", "hipFree"},
        {&d->host_alloc, "cuMemHostAlloc", "hipHostMalloc"},
        {&d->host_free, "cuMemFreeHost", "hipHostFree"},
        {&d->upload, "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync"},
        {&d->download, "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync"},
        {&d->copy, "cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync"},
        {&d->fill, "cuMemsetD8Async", "hipMemsetD8Async"},
        {&d->stream_create, "cuStreamCreate", "hipStreamCreateWithFlags"},
        {&d->stream_destroy, "cuStreamDestroy_v2", "hipStreamDestroy"},
        {&d->stream_sync, "cuStreamSynchronize", "hipStreamSynchronize"},
        {&d->stream_query, "cuStreamQuery", "hipStreamQuery"},
        {&d->event_create, "cuEventCreate", "hipEventCreateWithFlags"},
        {&d->event_destroy, "cuEventDestroy_v2", "hipEventDestroy"},
        {&d->event_record, "cuEventRecord", "hipEventRecord"},
        {&d->event_sync, "cuEventSynchronize", "hipEventSynchronize"},
        {&d->module_load, "cuModuleLoadData", "hipModuleLoadData"},
        {&d->module_unload, "cuModuleUnload", "hipModuleUnload"},
        {&d->module_function, NULL, "hipModuleGetFunction"},
        {&d->launch, "cuLaunchKernel", "hipModuleLaunchKernel"},
        {&d->capture_begin, "cuStreamBeginCapture_v2", "hipStreamBeginCapture"},
        {&d->capture_end, "cuStreamEndCapture", "hipStreamEndCapture"},
        {&d->graph_instantiate, "cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags"},
        {&d->graph_launch, "cuGraphLaunch", "hipGraphLaunch"},
        {&d->graph_exec_destroy, "cuGraphExecDestroy", "hipGraphExecDestroy"},
        {&d->graph_destroy, "cuGraphDestroy", "hipGraphDestroy"},
        {&d->error_text, NULL, "hipGetErrorString"},
    };
    return look_up(library, all, RF_COUNT(all), is_cuda);
}

static const char *look_up_cuda(rf_gpu_driver *d, void *library) {
    const symbol all[] = {
        {&cuda.init, "cuInit", NULL},
        {&cuda.driver_version, "cuDriverGetVersion", NULL},
        {&cuda.device_get, "cuDeviceGet", NULL},
        {&cuda.device_name, "cuDeviceGetName", NULL},
        {&cuda.device_memory, "cuDeviceTotalMem_v2", NULL},
        {&cuda.attribute, "cuDeviceGetAttribute", NULL},
        {&cuda.retain, "cuDevicePrimaryCtxRetain", NULL},
        {&cuda.reset, "cuDevicePrimaryCtxReset_v2", NULL},
        {&cuda.set_current, "cuCtxSetCurrent", NULL},
        {&cuda.error_string, "cuGetErrorString", NULL},
        {&cuda.module_function, "cuModuleGetFunction", NULL},
        {&cuda.function_get, "cuFuncGetAttribute", NULL},
        {&cuda.function_set, "cuFuncSetAttribute", NULL},
    };
    d->device_info = cuda_device_info;
    d->use_device = cuda_use_device;
    d->reset = cuda_reset;
    d->module_function = cuda_module_function;
    d->error_text = cuda_error_text;
    const symbol hinted = {&cuda.launch_ex, "cuLaunchKernelEx", NULL}; /* since CUDA 11.8 */
    if (!look_up(library, &hinted, 1, true)) d->launch_hinted = cuda_launch_hinted;
    return look_up(library, all, RF_COUNT(all), true);
}

static const char *look_up_hip(rf_gpu_driver *d, void *library) {
    const symbol all[] = {
        {&hip.init, NULL, "hipInit"},
        {&hip.driver_version, NULL, "hipDriverGetVersion"},
        {&hip.device_name, NULL, "hipDeviceGetName"},
        {&hip.device_memory, NULL, "hipDeviceTotalMem"},
        {&hip.attribute, NULL, "hipDeviceGetAttribute"},
        {&hip.set_device, NULL, "hipSetDevice"},
        {&hip.reset, NULL, "hipDeviceReset"},
        {&d->use_device, NULL, "hipSetDevice"},
    };
    d->device_info = hip_device_info;
    d->reset = hip_reset;
    const symbol now = {&hip.properties, NULL, "hipGetDevicePropertiesR0600"};
    const symbol old = {&hip.properties, NULL, "hipGetDeviceProperties"};
    bool is_old = look_up(library, &now, 1, false) != NULL;
    hip.arch_at = is_old ? ARCH_AT_OLD : ARCH_AT_R0600;
    if (is_old && look_up(library, &old, 1, false)) return old.hip;
    return look_up(library, all, RF_COUNT(all), false);
}

/* What was tried, for the error when nothing is found. */
typedef struct attempts {
    char text[400];
    size_t len;
    bool is_installed; /* some library was there */
} attempts;

static void note(attempts *a, const char *library, const char *what) {
    if (a->len >= sizeof a->text) return;
    int n = snprintf(a->text + a->len, sizeof a->text - a->len, "%s%.80s: %.120s",
                     a->len ? "; " : "", library, what);
    if (n > 0) a->len += (size_t)n;
}

/* Opens one library and fills its vendor's table; the library stays open for good. */
static rf_gpu_driver *load(const char *path, attempts *tried) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        note(tried, path, strstr(why, "No such file") ? "not installed" : why);
        return NULL;
    }
    tried->is_installed = true;
    bool is_cuda = dlsym(library, "hipInit") == NULL;
    rf_gpu_driver *d = &drivers[is_cuda];
    const char *missing = look_up_shared(d, library, is_cuda);
    if (!missing) missing = is_cuda ? look_up_cuda(d, library) : look_up_hip(d, library);
    char text[100];
    int code = 0;
    if (missing) {
        snprintf(text, sizeof text, "lacks the function %s", missing);
    } else if ((code = is_cuda ? cuda.init(0) : hip.init(0)) != 0) {
        snprintf(text, sizeof text, "%.60s (error %d)", d->error_text(code), code);
    } else {
        (void)(is_cuda ? cuda.driver_version : hip.driver_version)(&d->version);
        snprintf(d->library, sizeof d->library, "%.63s",
                 strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
        return d;
    }
    note(tried, path, text);
    dlclose(library);
    return NULL;
}

static bool has_devices(rf_gpu_driver *d, const char *path, attempts *tried) {
    int n = 0;
    if (d->device_count(&n) == 0 && n > 0) return true;
    note(tried, path, "it finds no device");
    return false;
}

static const rf_gpu_driver *find(attempts *tried) {
    static const char *const usual[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                        "libamdhip64.so", "libcuda.so.1"};
    const char *own = getenv("RF_GPU_LIBRARY");
    const char *const *all = own && *own ? &own : usual;
    size_t n = own && *own ? 1 : RF_COUNT(usual);
    bool hip_loaded = false;
    for (size_t i = 0; i < n; i++) {
        if (hip_loaded && strstr(all[i], "amdhip")) continue; /* one version is enough */
        rf_gpu_driver *d = load(all[i], tried);
        if (!d) continue;
        if (has_devices(d, all[i], tried)) return d;
        hip_loaded = hip_loaded || d == &drivers[0];
    }
    return NULL;
}

rf_status rf_gpu_driver_get(const rf_gpu_driver **out, rf_error *e) {
    attempts tried = {.len = 0};
    pthread_mutex_lock(&lock);
    if (!given && !found) found = find(&tried);
    *out = given ? given : found;
    pthread_mutex_unlock(&lock);
    if (*out) return RF_OK;
    return rf_fail(e, tried.is_installed ? RF_EDEVICE : RF_EUNSUPPORTED, "no usable GPU: %s",
                   tried.text);
}

void rf_gpu_driver_set(const rf_gpu_driver *d) {
    pthread_mutex_lock(&lock);
    given = d;
    pthread_mutex_unlock(&lock);
}

/* Queues -----------------------------------------------------------------------------------------*/

/* Keeps the first failure; true when the queue is still sound. */
static bool ok(rf_gpu_queue *q, int code, const char *what) {
    if (code == 0) return true;
    (void)rf_fail(&q->error, code == ERROR_OUT_OF_MEMORY ? RF_ENOMEM : RF_EDEVICE,
                  "%s: %s failed: %s (%s error %d)", q->info.name, what,
                  q->driver->error_text(code), q->driver->name, code);
    return false;
}

static bool is_sound(const rf_gpu_queue *q) { return q->error.status == RF_OK; }

rf_status rf_gpu_status(const rf_gpu_queue *q, rf_error *e) {
    if (is_sound(q)) return RF_OK;
    return rf_fail(e, q->error.status, "%s", q->error.text);
}

static void open_stream(rf_gpu_queue *q) {
    q->stream = NULL;
    if (ok(q, q->driver->use_device(q->device), "opening the device"))
        ok(q, q->driver->stream_create(&q->stream, STREAM_NON_BLOCKING), "creating a stream");
}

rf_status rf_gpu_open(rf_gpu_queue *q, const rf_gpu_driver *d, int device, rf_error *e) {
    int n = 0;
    *q = (rf_gpu_queue){.driver = d, .device = device};
    snprintf(q->info.name, sizeof q->info.name, "GPU %d", device);
    if (ok(q, d->device_count(&n), "counting devices") && (device < 0 || device >= n)) {
        *q = (rf_gpu_queue){.driver = NULL};
        return rf_fail(e, RF_EARG, "there is no GPU number %d: %s finds %d, counted from 0", device,
                       d->library, n);
    }
    rf_gpu_info info;
    if (is_sound(q) && ok(q, d->device_info(device, &info), "reading its properties"))
        q->info = info;
    if (is_sound(q)) open_stream(q);
    if (q->error.status == RF_EDEVICE && d->reset(device) == 0) {
        q->error = (rf_error){.status = RF_OK};
        open_stream(q);
    }
    rf_status s = rf_gpu_status(q, e);
    if (s != RF_OK) rf_gpu_close(q);
    return s;
}

void rf_gpu_close(rf_gpu_queue *q) {
    if (!q->driver) return;
    (void)q->driver->use_device(q->device);
    if (q->stream) (void)q->driver->stream_sync(q->stream);
    if (q->module) (void)q->driver->module_unload(q->module);
    if (q->stream) (void)q->driver->stream_destroy(q->stream);
    rf_free(q->image);
    *q = (rf_gpu_queue){.driver = NULL};
}

void rf_gpu_enter(rf_gpu_queue *q) {
    if (is_sound(q)) ok(q, q->driver->use_device(q->device), "making it current");
}

void rf_gpu_launch(rf_gpu_queue *q, rf_gpu_kernel kernel, uint32_t kind, rf_gpu_grid grid,
                   uint32_t block, uint32_t shared_bytes, const void *args, size_t args_bytes) {
    enum { MAX_ARGS = 1024 };
    unsigned char copy[MAX_ARGS] __attribute__((aligned(16))); /* the driver takes no const */
    RF_ASSERT(args_bytes <= sizeof copy && (unsigned)kernel < RF_GPU_KERNEL_COUNT);
    RF_ASSERT(kind <= RF_GPU_MORE_KINDS);
    if (!is_sound(q) || grid.x == 0 || grid.y == 0 || grid.z == 0) return;
    memcpy(copy, args, args_bytes);
    void *params[] = {copy};
    const rf_gpu_hints hints = {
        .is_early = q->overlaps && !q->is_apart, .share = q->share, .cluster = q->cluster};
    rf_gpu_function f = kind ? q->more[kernel][kind - 1] : q->function[kernel];
    bool has_hints = q->driver->launch_hinted && (hints.is_early || hints.share || hints.cluster);
    int code = has_hints ? q->driver->launch_hinted(f, grid.x, grid.y, grid.z, block, shared_bytes,
                                                    q->stream, params, hints)
                         : q->driver->launch(f, grid.x, grid.y, grid.z, block, 1, 1, shared_bytes,
                                             q->stream, params, NULL);
    q->is_apart = false;
    q->share = q->cluster = 0;
    q->n_launches++;
    q->launched[kernel] = true;
    if (code) {
        char what[120];
        snprintf(what, sizeof what, "launching %s (%u x %u x %u blocks of %u, %u bytes shared)",
                 rf_gpu_kernel_name(kernel), grid.x, grid.y, grid.z, block, shared_bytes);
        ok(q, code, what);
    }
}

void rf_gpu_part(rf_gpu_queue *q) { q->is_apart = true; }
void rf_gpu_share(rf_gpu_queue *q, uint32_t percent) { q->share = percent; }
void rf_gpu_cluster(rf_gpu_queue *q, uint32_t n_blocks) { q->cluster = n_blocks; }

void rf_gpu_upload(rf_gpu_queue *q, void *dst, const void *src, size_t n) {
    if (is_sound(q) && n) ok(q, q->driver->upload(dst, src, n, q->stream), "a copy to the device");
}

void rf_gpu_download(rf_gpu_queue *q, void *dst, const void *src, size_t n) {
    if (is_sound(q) && n)
        ok(q, q->driver->download(dst, (void *)(uintptr_t)src, n, q->stream),
           "a copy from the device");
}

void rf_gpu_copy(rf_gpu_queue *q, void *dst, const void *src, size_t n) {
    if (is_sound(q) && n)
        ok(q, q->driver->copy(dst, (void *)(uintptr_t)src, n, q->stream),
           "a copy within the device");
}

void rf_gpu_fill(rf_gpu_queue *q, void *dst, uint8_t value, size_t n) {
    if (is_sound(q) && n) ok(q, q->driver->fill(dst, value, n, q->stream), "filling memory");
}

void rf_gpu_wait(rf_gpu_queue *q) {
    if (is_sound(q)) ok(q, q->driver->stream_sync(q->stream), "a kernel or copy that was queued");
}

bool rf_gpu_is_done(rf_gpu_queue *q) {
    if (!is_sound(q)) return true;
    int code = q->driver->stream_query(q->stream);
    return code != RF_GPU_NOT_READY && (ok(q, code, "a kernel or copy that was queued") || true);
}

/* Memory -----------------------------------------------------------------------------------------*/

static void *allocate(rf_gpu_queue *q, int (*take)(rf_gpu_queue *, void **, size_t), size_t n,
                      const char *what) {
    void *p = NULL;
    if (!is_sound(q)) return NULL;
    int code = rf_alloc_should_fail() ? ERROR_OUT_OF_MEMORY : take(q, &p, n ? n : 1);
    if (code == 0) return p;
    char text[200];
    snprintf(text, sizeof text, "taking %zu bytes for %s", n, what);
    ok(q, code, text);
    return NULL;
}

static int take_device(rf_gpu_queue *q, void **p, size_t n) { return q->driver->alloc(p, n); }

static int take_pinned(rf_gpu_queue *q, void **p, size_t n) {
    enum { PORTABLE = 1 };
    return q->driver->host_alloc(p, n, PORTABLE);
}

void *rf_gpu_alloc(rf_gpu_queue *q, size_t n, const char *what) {
    return allocate(q, take_device, n, what);
}

void *rf_gpu_host_alloc(rf_gpu_queue *q, size_t n, const char *what) {
    return allocate(q, take_pinned, n, what);
}

void rf_gpu_free(rf_gpu_queue *q, void *p) {
    if (p) (void)q->driver->free(p);
}

void rf_gpu_host_free(rf_gpu_queue *q, void *p) {
    if (p) (void)q->driver->host_free(p);
}

rf_status rf_gpu_memory(rf_gpu_queue *q, size_t *n_free, size_t *n_total, rf_error *e) {
    *n_free = *n_total = 0;
    if (is_sound(q)) ok(q, q->driver->mem_info(n_free, n_total), "asking for free memory");
    return rf_gpu_status(q, e);
}

/* Graphs and events ------------------------------------------------------------------------------*/

void rf_gpu_record_begin(rf_gpu_queue *q) {
    if (is_sound(q))
        ok(q, q->driver->capture_begin(q->stream, CAPTURE_THREAD_LOCAL), "recording a graph");
}

rf_gpu_graph_exec rf_gpu_record_end(rf_gpu_queue *q) {
    rf_gpu_graph graph = NULL;
    rf_gpu_graph_exec x = NULL;
    if (!q->stream) return NULL;
    /* The recording ends in any case, or the stream would stay in it. */
    ok(q, q->driver->capture_end(q->stream, &graph), "ending a graph");
    if (graph && is_sound(q))
        ok(q, q->driver->graph_instantiate(&x, graph, 0), "making a graph ready");
    if (graph) (void)q->driver->graph_destroy(graph);
    return is_sound(q) ? x : NULL;
}

void rf_gpu_replay(rf_gpu_queue *q, rf_gpu_graph_exec x) {
    if (is_sound(q)) ok(q, q->driver->graph_launch(x, q->stream), "launching a graph");
}

void rf_gpu_graph_free(rf_gpu_queue *q, rf_gpu_graph_exec x) {
    if (x) (void)q->driver->graph_exec_destroy(x);
}

rf_gpu_event rf_gpu_event_new(rf_gpu_queue *q) {
    rf_gpu_event ev = NULL;
    if (is_sound(q)) ok(q, q->driver->event_create(&ev, EVENT_NO_TIMING), "creating an event");
    return ev;
}

void rf_gpu_mark(rf_gpu_queue *q, rf_gpu_event ev) {
    if (is_sound(q)) ok(q, q->driver->event_record(ev, q->stream), "recording an event");
}

void rf_gpu_await(rf_gpu_queue *q, rf_gpu_event ev) {
    if (is_sound(q)) ok(q, q->driver->event_sync(ev), "a kernel or copy that was queued");
}

void rf_gpu_event_free(rf_gpu_queue *q, rf_gpu_event ev) {
    if (ev) (void)q->driver->event_destroy(ev);
}
