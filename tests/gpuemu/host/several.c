/* several.c - a driver's table that counts what each device has given; a block begins with who gave it. */
#include "gpuemu/host/several.h"

#include <stdio.h>

enum { NO_MEMORY = 2, NO_DEVICE = 101, HEAD = 256 };

typedef struct head {
    int device;
    size_t n;
} head;

static const rf_gpu_driver *under;
static int n_devices;
static size_t rooms[RF_SEVERAL_MAX], taken[RF_SEVERAL_MAX];
static _Thread_local int current;

static int device_count(int *n) {
    *n = n_devices;
    return 0;
}

static int device_info(int device, rf_gpu_info *out) {
    int code = device < n_devices ? under->device_info(0, out) : NO_DEVICE;
    if (code == 0) out->mem_bytes = rooms[device];
    return code;
}

static int use_device(int device) {
    if (device < 0 || device >= n_devices) return NO_DEVICE;
    current = device;
    return under->use_device(0);
}

static int reset(int device) { return device < n_devices ? under->reset(0) : NO_DEVICE; }

static int mem_info(size_t *n_free, size_t *n_total) {
    *n_total = rooms[current];
    *n_free = rooms[current] - taken[current];
    return 0;
}

static int take(void **out, size_t n) {
    void *block;
    *out = NULL;
    if (n > rooms[current] - taken[current]) return NO_MEMORY;
    int code = under->alloc(&block, n + HEAD);
    if (code) return code;
    *(head *)block = (head){current, n};
    taken[current] += n;
    *out = (uint8_t *)block + HEAD;
    return 0;
}

static int give(void *p) {
    if (!p) return 0;
    head *h = (void *)((uint8_t *)p - HEAD);
    taken[h->device] -= h->n;
    return under->free(h);
}

const rf_gpu_driver *rf_several_gpus(const rf_gpu_driver *d, int n, const size_t *room) {
    static rf_gpu_driver table;
    RF_ASSERT(n > 0 && n <= RF_SEVERAL_MAX);
    under = d;
    n_devices = n;
    for (int i = 0; i < n; i++) {
        rooms[i] = room[i];
        taken[i] = 0;
    }
    table = *d;
    table.device_count = device_count;
    table.device_info = device_info;
    table.use_device = use_device;
    table.reset = reset;
    table.mem_info = mem_info;
    table.alloc = take;
    table.free = give;
    return &table;
}

size_t rf_several_taken(int device) { return taken[device]; }
