/* driver.h - a GPU through its driver's library: devices, memory, copies, launches, graphs.
 *
 * rf_gpu_driver is one table of functions of the same shape for every vendor: HIP and CUDA fill it
 * by dlopen (no vendor header, nothing linked), a test may bring its own.  Above it stand a device
 * and its queue (one stream, in order), which keep the first failure in the driver's own words:
 * later calls on a failed queue do nothing, so that a caller checks once.
 *
 * Threads: a device and its queue are used by one thread at a time, any thread.  Opening makes the
 * device current; another thread calls rf_gpu_enter first. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rf_gpu_kernel { /* every kernel there is */
#define X(name, args, block) RF_GPU_##name,
#include "backend/gpu/kernels.def"
#undef X
                             RF_GPU_KERNEL_COUNT
} rf_gpu_kernel;
const char *rf_gpu_kernel_name(rf_gpu_kernel k); /* as in a code object: "rf_NAME" */
enum { RF_GPU_MORE_KINDS = 11 }; /* most functions of a kernel besides its first (kinds.def) */

typedef struct rf_gpu_info {
    char name[128];
    char arch[32];      /* "gfx1100", "sm_90", "host" */
    size_t mem_bytes;   /* of the device */
    uint32_t warp;      /* lanes that run in step: 32 or 64 */
    uint32_t n_units;   /* multiprocessors, compute units or work-group processors */
    uint32_t lds_bytes; /* shared memory that one block may take */
    bool integrated;    /* shares the memory of the CPU */
} rf_gpu_info;

typedef void *rf_gpu_stream, *rf_gpu_event, *rf_gpu_module, *rf_gpu_function, *rf_gpu_graph,
    *rf_gpu_graph_exec;

/* Every function gives 0 or the driver's error code.  Pointers of the device are plain void *. */
enum { RF_GPU_NOT_READY = 600 }; /* in both interfaces */

/* is_early: the kernel may start before the one in front has ended, since it knows how to wait itself.  share: percent
 * of a multiprocessor's memory that shall be shared, the rest being cache; 0: as the driver likes.  cluster: so many blocks,
 * neighbours along z, run at once and reach each other's shared memory; 0: each by itself. */
typedef struct rf_gpu_hints {
    bool is_early;
    uint32_t share, cluster;
} rf_gpu_hints;

typedef struct rf_gpu_driver {
    const char *name; /* "hip", "cuda" */
    char library[64]; /* "libamdhip64.so.6" */
    int version;      /* as the driver counts: CUDA 13000, HIP 60342131 */
    int (*device_count)(int *n);
    int (*device_info)(int device, rf_gpu_info *out);
    int (*use_device)(int device); /* for this thread */
    int (*reset)(int device);      /* everything this process has on it is gone */
    int (*mem_info)(size_t *n_free, size_t *n_total);
    int (*alloc)(void **out, size_t n);
    int (*free)(void *p);
    int (*host_alloc)(void **out, size_t n, unsigned flags); /* pinned */
    int (*host_free)(void *p);
    int (*upload)(void *dst, const void *src, size_t n, rf_gpu_stream s);
    int (*download)(void *dst, void *src, size_t n, rf_gpu_stream s);
    int (*copy)(void *dst, void *src, size_t n, rf_gpu_stream s);
    int (*fill)(void *dst, unsigned char value, size_t n, rf_gpu_stream s);
    int (*stream_create)(rf_gpu_stream *out, unsigned flags);
    int (*stream_destroy)(rf_gpu_stream s);
    int (*stream_sync)(rf_gpu_stream s);
    int (*stream_query)(rf_gpu_stream s); /* RF_GPU_NOT_READY: not all of it is done */
    int (*event_create)(rf_gpu_event *out, unsigned flags);
    int (*event_destroy)(rf_gpu_event ev);
    int (*event_record)(rf_gpu_event ev, rf_gpu_stream s);
    int (*event_sync)(rf_gpu_event ev);
    int (*module_load)(rf_gpu_module *out, const void *image);
    int (*module_unload)(rf_gpu_module m);
    int (*module_function)(rf_gpu_function *out, rf_gpu_module m, const char *name);
    int (*launch)(rf_gpu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                  rf_gpu_stream s, void **params, void **extra);
    /* As launch, with hints.  NULL where a driver takes none. */
    int (*launch_hinted)(rf_gpu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned shared_bytes, rf_gpu_stream s, void **params,
                         rf_gpu_hints hints);
    int (*capture_begin)(rf_gpu_stream s, int mode);
    int (*capture_end)(rf_gpu_stream s, rf_gpu_graph *out);
    int (*graph_instantiate)(rf_gpu_graph_exec *out, rf_gpu_graph g, unsigned long long flags);
    int (*graph_launch)(rf_gpu_graph_exec x, rf_gpu_stream s);
    int (*graph_exec_destroy)(rf_gpu_graph_exec x);
    int (*graph_destroy)(rf_gpu_graph g);
    const char *(*error_text)(int code);
} rf_gpu_driver;

/* The driver of the first vendor whose library is there: RF_GPU_LIBRARY when that is set (its name
 * or its symbols tell the vendor), else HIP, else CUDA; one with devices is preferred.  The error
 * names every library tried: RF_EUNSUPPORTED when none is installed, RF_EDEVICE when one is but finds
 * no device or fails.  The table lives as long as the program. */
RF_CHECKED rf_status rf_gpu_driver_get(const rf_gpu_driver **out, rf_error *e);
/* Tests: the driver that rf_gpu_driver_get gives from now on; NULL: found as above. */
void rf_gpu_driver_set(const rf_gpu_driver *d);

typedef struct rf_gpu_grid {
    uint32_t x, y, z; /* blocks */
} rf_gpu_grid;

typedef struct rf_gpu_queue { /* a device, its one stream and its kernels */
    const rf_gpu_driver *driver;
    int device;
    rf_gpu_info info;
    rf_gpu_stream stream;
    rf_gpu_module module;
    char target[32]; /* whose kernels they are: "gfx1100", "gfx11-generic", "sm_90a" */
    void *image;     /* of the module, NULL: it lies in the program; stays as long as the module */
    rf_gpu_function function[RF_GPU_KERNEL_COUNT]; /* NULL: the code for this device lacks it */
    rf_gpu_function more[RF_GPU_KERNEL_COUNT][RF_GPU_MORE_KINDS]; /* kinds 1 to 11 */
    bool overlaps;                      /* kernels start before those in front have ended */
    bool is_apart;                      /* but not the next one */
    uint32_t share, cluster;            /* of the next one, as in rf_gpu_hints */
    bool fast_floats;                   /* 16-bit floats on matrix units (kernels/half.h) */
    bool left_out[RF_GPU_KERNEL_COUNT]; /* failed the self-test: not to be launched */
    bool launched[RF_GPU_KERNEL_COUNT]; /* so far */
    char code_digest[65];               /* of the kernels and this program's version, in hex */
    rf_error error;                     /* the first failure; status RF_OK: none */
    uint64_t n_launches;                /* so far */
} rf_gpu_queue;

/* Opens device number `device` and its stream; the kernels come with rf_gpu_code_load.  A device that a
 * fault has left useless to this process is reset first. */
RF_CHECKED rf_status rf_gpu_open(rf_gpu_queue *q, const rf_gpu_driver *d, int device, rf_error *e);
void rf_gpu_close(rf_gpu_queue *q); /* waits; a queue of zeros is fine */
void rf_gpu_enter(rf_gpu_queue *q); /* makes the device current in this thread */
/* The queue's failure, if any, handed on to e. */
RF_CHECKED rf_status rf_gpu_status(const rf_gpu_queue *q, rf_error *e);

/* All of these are queued in order and return at once but where it says that they wait. */
/* kind: which of the kernel's functions (kinds.def).  block: threads of a block.  args: the kernel's only parameter, args_bytes long, copied. */
void rf_gpu_launch(rf_gpu_queue *q, rf_gpu_kernel kernel, uint32_t kind, rf_gpu_grid grid,
                   uint32_t block, uint32_t shared_bytes, const void *args, size_t args_bytes);
/* No later kernel starts before those so far have ended: what they write may be read at once, which kernels
 * otherwise do only with what the batch brought. */
void rf_gpu_part(rf_gpu_queue *q);
/* Hints for the next kernel alone (rf_gpu_hints). */
void rf_gpu_share(rf_gpu_queue *q, uint32_t percent);
void rf_gpu_cluster(rf_gpu_queue *q, uint32_t n_blocks);
void rf_gpu_upload(rf_gpu_queue *q, void *dst, const void *src,
                   size_t n); /* src stays until done */
void rf_gpu_download(rf_gpu_queue *q, void *dst, const void *src, size_t n);
void rf_gpu_copy(rf_gpu_queue *q, void *dst, const void *src, size_t n);
void rf_gpu_fill(rf_gpu_queue *q, void *dst, uint8_t value, size_t n);
void rf_gpu_wait(rf_gpu_queue *q); /* until everything queued is done */
/* Is everything queued done, or has something failed?  Returns at once. */
bool rf_gpu_is_done(rf_gpu_queue *q);

/* Memory.  NULL and a failed queue on lack of it; what: for the text. */
void *rf_gpu_alloc(rf_gpu_queue *q, size_t n, const char *what);
void rf_gpu_free(rf_gpu_queue *q, void *p);
/* Pinned: copied from and to at once, and kernels reach it at the same address, by way of the bus. */
void *rf_gpu_host_alloc(rf_gpu_queue *q, size_t n, const char *what);
void rf_gpu_host_free(rf_gpu_queue *q, void *p);
/* Free and total bytes as the driver tells. */
RF_CHECKED rf_status rf_gpu_memory(rf_gpu_queue *q, size_t *n_free, size_t *n_total, rf_error *e);

/* Everything queued between begin and end becomes a graph instead of running.  end gives NULL, and
 * the queue fails, when something could not be recorded. */
void rf_gpu_record_begin(rf_gpu_queue *q);
rf_gpu_graph_exec rf_gpu_record_end(rf_gpu_queue *q);
void rf_gpu_replay(rf_gpu_queue *q, rf_gpu_graph_exec x);
void rf_gpu_graph_free(rf_gpu_queue *q, rf_gpu_graph_exec x);

/* Marks a point of the queue; await waits for it. */
rf_gpu_event rf_gpu_event_new(rf_gpu_queue *q);
void rf_gpu_mark(rf_gpu_queue *q, rf_gpu_event ev);
void rf_gpu_await(rf_gpu_queue *q, rf_gpu_event ev);
void rf_gpu_event_free(rf_gpu_queue *q, rf_gpu_event ev);

#ifdef __cplusplus
}
#endif
