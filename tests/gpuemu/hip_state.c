/* hip_state.c - the stand-in library's state: the device's properties, settings, memory, errors. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuemu/hip.h"

hip_state hip;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int hip_enter(void) {
    pthread_mutex_lock(&lock);
    return hip.sticky;
}

int hip_leave(int code) {
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- settings ---- */

uint64_t hip_setting(const char *name, uint64_t otherwise) {
    const char *s = getenv(name);
    return s && *s ? strtoull(s, NULL, 0) : otherwise;
}

const char *hip_arch(void) {
    const char *s = getenv("RF_EMU_ARCH");
    return s && *s ? s : "gfx1100";
}

bool hip_fails_now(const char *name) {
    static struct {
        char name[32], value[24];
        uint64_t n;
    } counter[4];
    const char *value = getenv(name);
    if (!value || !*value) value = "";
    for (size_t k = 0; k < RF_COUNT(counter); k++) {
        if (!counter[k].name[0]) snprintf(counter[k].name, sizeof counter[k].name, "%s", name);
        if (strcmp(counter[k].name, name)) continue;
        if (strncmp(counter[k].value, value, sizeof counter[k].value - 1)) {
            snprintf(counter[k].value, sizeof counter[k].value, "%s", value);
            counter[k].n = 0;
        }
        return *value && ++counter[k].n == strtoull(value, NULL, 0);
    }
    return false;
}

__attribute__((destructor)) static void close_state(void) {
    rf_free(hip.ranges);
    if (hip.launches) fclose(hip.launches);
    while (hip.streams) {
        hip_stream *s = hip.streams;
        hip.streams = s->next;
        hip_list_clear(&s->work);
        rf_free(s);
    }
    if (!hip_setting("RF_EMU_STATS", 0)) return;
    fprintf(stderr, "stand-in HIP (%s): %llu launches, %llu instructions, %llu lane operations\n",
            hip_arch(), (unsigned long long)hip.n_launches,
            (unsigned long long)hip.stats.instructions, (unsigned long long)hip.stats.lane_ops);
}

/* ---- device ---- */

HIP_API int hipInit(unsigned flags);
HIP_API int hipInit(unsigned flags) {
    if (hip_setting("RF_EMU_NO_DEVICE", 0)) return HIP_INVALID_DEVICE; /* as the real one does */
    return flags ? HIP_INVALID_VALUE : HIP_OK;
}

HIP_API int hipGetDeviceCount(int *n);
HIP_API int hipGetDeviceCount(int *n) {
    *n = hip_setting("RF_EMU_NO_DEVICE", 0) ? 0 : 1;
    return *n ? HIP_OK : HIP_NO_DEVICE;
}

static int check_device(int device) {
    int n;
    if (hipGetDeviceCount(&n)) return HIP_NO_DEVICE;
    return device == 0 ? HIP_OK : HIP_INVALID_DEVICE;
}

HIP_API int hipSetDevice(int device);
HIP_API int hipSetDevice(int device) { return check_device(device); }

HIP_API int hipGetDevice(int *device);
HIP_API int hipGetDevice(int *device) {
    *device = 0;
    return check_device(0);
}

HIP_API int hipDeviceGet(int *device, int ordinal);
HIP_API int hipDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return check_device(ordinal);
}

HIP_API int hipDriverGetVersion(int *version);
HIP_API int hipDriverGetVersion(int *version) {
    *version = (int)hip_setting("RF_EMU_VERSION", 60342131);
    return HIP_OK;
}

HIP_API int hipRuntimeGetVersion(int *version);
HIP_API int hipRuntimeGetVersion(int *version) { return hipDriverGetVersion(version); }

HIP_API int hipDeviceGetName(char *name, int n, int device);
HIP_API int hipDeviceGetName(char *name, int n, int device) {
    if (n <= 0) return HIP_INVALID_VALUE;
    snprintf(name, (size_t)n, "Emulated AMD GPU");
    return check_device(device);
}

size_t hip_memory_bytes(void) { return (size_t)hip_setting("RF_EMU_MEMORY", 8ull << 30); }

HIP_API int hipDeviceTotalMem(size_t *bytes, int device);
HIP_API int hipDeviceTotalMem(size_t *bytes, int device) {
    *bytes = hip_memory_bytes();
    return check_device(device);
}

static int n_units(void) { return (int)hip_setting("RF_EMU_UNITS", 2); } /* multiprocessors */
static int warp_size(void) { return strncmp(hip_arch(), "gfx9", 4) ? 32 : 64; }
static bool integrated(void) {
    return !strncmp(hip_arch(), "gfx115", 6) || !strcmp(hip_arch(), "gfx1103");
}

HIP_API int hipDeviceGetAttribute(int *value, int attribute, int device);
HIP_API int hipDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 87:
        *value = warp_size();
        break;
    case 63:
        *value = n_units();
        break;
    case 56:
        *value = 1024;
        break; /* threads of a block */
    case 74:
        *value = strcmp(hip_arch(), "gfx950") ? 65536 : 163840;
        break; /* LDS of a block */
    case 16:
        *value = integrated();
        break;
    default:
        *value = 0;
    }
    return check_device(device);
}

/* Places of fields in hipDeviceProp_t of ROCm 6 and 7, and of ROCm 5. */
typedef struct layout {
    size_t bytes, memory, lds, warp, units, arch;
} layout;

static int properties(char *p, int device, const layout *at) {
    size_t memory = hip_memory_bytes(), lds = 65536;
    int warp = warp_size(), units = n_units();
    memset(p, 0, at->bytes);
    snprintf(p, 256, "Emulated AMD GPU");
    memcpy(p + at->memory, &memory, sizeof memory);
    memcpy(p + at->lds, &lds, sizeof lds);
    memcpy(p + at->warp, &warp, sizeof warp);
    memcpy(p + at->units, &units, sizeof units);
    snprintf(p + at->arch, 256, "%s%s", hip_arch(), warp == 64 ? ":sramecc+:xnack-" : "");
    return check_device(device);
}

HIP_API int hipGetDevicePropertiesR0600(void *p, int device);
HIP_API int hipGetDevicePropertiesR0600(void *p, int device) {
    static const layout now = {1472, 288, 296, 308, 388, 1160};
    return properties(p, device, &now);
}

HIP_API int hipGetDeviceProperties(void *p, int device);
HIP_API int hipGetDeviceProperties(void *p, int device) {
    static const layout old = {792, 256, 264, 276, 336, 396};
    return properties(p, device, &old);
}

/* ---- errors ---- */

HIP_API const char *hipGetErrorString(int code);
HIP_API const char *hipGetErrorString(int code) {
    if (code == HIP_ILLEGAL_ADDRESS && hip.fault[0]) return hip.fault;
    switch (code) {
    case HIP_OK:
        return "no error";
    case HIP_INVALID_VALUE:
        return "invalid argument";
    case HIP_OUT_OF_MEMORY:
        return "out of memory";
    case HIP_NO_DEVICE:
        return "no ROCm-capable device is detected";
    case HIP_INVALID_DEVICE:
        return "invalid device ordinal";
    case HIP_INVALID_IMAGE:
        return "device kernel image is invalid";
    case HIP_NO_BINARY:
        return "no kernel image is available for execution on the device";
    case HIP_INVALID_HANDLE:
        return "invalid resource handle";
    case HIP_NOT_FOUND:
        return "named symbol not found";
    case HIP_NOT_READY:
        return "device not ready";
    case HIP_ILLEGAL_ADDRESS:
        return "an illegal memory access was encountered";
    case HIP_LAUNCH_FAILURE:
        return "unspecified launch failure";
    case HIP_CAPTURE_UNSUPPORTED:
        return "operation not permitted when stream is capturing";
    case HIP_CAPTURE_INVALID:
        return "operation failed due to a previous error during capture";
    default:
        return "unknown error";
    }
}

HIP_API int hipGetLastError(void);
HIP_API int hipGetLastError(void) { return hip_leave(hip_enter()); }

/* ---- memory ---- */

enum { POISON_NEW = 0xcc, POISON_FREED = 0xdd };

/* The first range that ends behind p. */
static size_t find_range(uint64_t p) {
    size_t lo = 0, hi = hip.n_ranges;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (hip.ranges[mid].hi <= p)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool hip_owns(const void *p, size_t n) {
    uint64_t a = (uint64_t)(uintptr_t)p;
    size_t k = find_range(a);
    return k < hip.n_ranges && hip.ranges[k].lo <= a && n <= hip.ranges[k].hi - a;
}

static bool add_range(void *p, size_t n) {
    if (hip.n_ranges == hip.cap_ranges) {
        size_t cap = hip.cap_ranges ? 2 * hip.cap_ranges : 64;
        rf_emu_range *r = rf_realloc(hip.ranges, hip.cap_ranges, cap, sizeof *r);
        if (!r) return false;
        hip.ranges = r;
        hip.cap_ranges = cap;
    }
    uint64_t a = (uint64_t)(uintptr_t)p;
    size_t k = find_range(a);
    memmove(hip.ranges + k + 1, hip.ranges + k, (hip.n_ranges - k) * sizeof *hip.ranges);
    hip.ranges[k] = (rf_emu_range){a, a + n};
    hip.n_ranges++;
    return true;
}

/* In front of each allocation, out of every range: its size, and whose memory it is. */
typedef struct header {
    size_t n;
    bool on_device;
} header;
enum { HEADER_BYTES = 256 };

static int allocate(void **out, size_t n, bool on_device) {
    *out = NULL;
    if (n == 0) return HIP_OK;
    if (hip_fails_now("RF_EMU_FAIL_ALLOC")) return HIP_OUT_OF_MEMORY;
    size_t total;
    if (on_device && (n > hip_memory_bytes() || hip.device_bytes > hip_memory_bytes() - n))
        return HIP_OUT_OF_MEMORY;
    if (!rf_add_ok(n, HEADER_BYTES, &total)) return HIP_OUT_OF_MEMORY;
    uint8_t *block = rf_alloc(total, 1);
    if (!block) return HIP_OUT_OF_MEMORY;
    if (!add_range(block + HEADER_BYTES, n)) {
        rf_free(block);
        return HIP_OUT_OF_MEMORY;
    }
    header h = {n, on_device};
    memcpy(block, &h, sizeof h);
    memset(block + HEADER_BYTES, POISON_NEW, n);
    if (on_device) hip.device_bytes += n;
    *out = block + HEADER_BYTES;
    return HIP_OK;
}

static int release(void *p) {
    if (!p) return HIP_OK;
    (void)hip_drain_all(); /* freeing waits for the device */
    size_t k = find_range((uint64_t)(uintptr_t)p);
    if (k == hip.n_ranges || hip.ranges[k].lo != (uint64_t)(uintptr_t)p) return HIP_INVALID_VALUE;
    uint8_t *block = (uint8_t *)p - HEADER_BYTES;
    header h;
    memcpy(&h, block, sizeof h);
    if (h.on_device) hip.device_bytes -= h.n;
    hip.n_ranges--;
    memmove(hip.ranges + k, hip.ranges + k + 1, (hip.n_ranges - k) * sizeof *hip.ranges);
    memset(p, POISON_FREED, h.n);
    rf_free(block);
    return HIP_OK;
}

static int guarded_allocate(void **out, size_t n, bool on_device) {
    int code = hip_enter();
    if (!code) code = hip_refuse_in_capture();
    if (!code) code = allocate(out, n, on_device);
    return hip_leave(code);
}

static int guarded_release(void *p) {
    int code = hip_enter(), refused = hip_refuse_in_capture();
    int freed = refused ? refused : release(p); /* also on a device that failed */
    return hip_leave(code ? code : freed);
}

HIP_API int hipMalloc(void **out, size_t n);
HIP_API int hipMalloc(void **out, size_t n) { return guarded_allocate(out, n, true); }

HIP_API int hipHostMalloc(void **out, size_t n, unsigned flags);
HIP_API int hipHostMalloc(void **out, size_t n, unsigned flags) {
    (void)flags;
    return guarded_allocate(out, n, false);
}

HIP_API int hipFree(void *p);
HIP_API int hipFree(void *p) { return guarded_release(p); }

HIP_API int hipHostFree(void *p);
HIP_API int hipHostFree(void *p) { return guarded_release(p); }

/* Everything queued and allocated is gone, and so is the error that every call gave. */
HIP_API int hipDeviceReset(void);
HIP_API int hipDeviceReset(void) {
    (void)hip_enter();
    hip.sticky = 0;
    hip_list_clear(&hip.null_stream.work);
    for (hip_stream *s = hip.streams; s; s = s->next)
        hip_list_clear(&s->work);
    while (hip.n_ranges)
        (void)release((void *)(uintptr_t)hip.ranges[0].lo);
    return hip_leave(HIP_OK);
}

HIP_API int hipMemGetInfo(size_t *n_free, size_t *n_total);
HIP_API int hipMemGetInfo(size_t *n_free, size_t *n_total) {
    int code = hip_enter();
    *n_total = hip_memory_bytes();
    *n_free = hip.device_bytes < *n_total ? *n_total - hip.device_bytes : 0;
    return hip_leave(code);
}
