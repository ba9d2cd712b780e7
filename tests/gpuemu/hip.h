/* hip.h - inside the stand-in libamdhip64.so: one emulated AMD device behind HIP's entry points.
 *
 * The arch comes from RF_EMU_ARCH (gfx1100).  Every stream keeps its work until somebody waits for it,
 * so that reading a result too early shows; memory starts as rubbish and is poisoned when freed;
 * copies read and write host memory when they run, not when they are queued.  A kernel's fault makes
 * every later call fail with 700, whose text names the instruction.
 *
 * Environment, read at every call: RF_EMU_NO_DEVICE=1; RF_EMU_MEMORY=bytes of the device; RF_EMU_UNITS=its multiprocessors (2);
 * RF_EMU_VERSION=what the driver tells; RF_EMU_FAIL_ALLOC=n and RF_EMU_FAIL_LAUNCH=n make the nth
 * allocation or launch since the variable was set fail; RF_EMU_THREADS=host threads of a launch (2);
 * RF_EMU_UNWRITTEN=1: a kernel that reads LDS which nobody wrote fails (else it gets rubbish);
 * RF_EMU_STATS=1 prints what was executed when the library is closed; RF_EMU_LAUNCHES=file lists each launch. */
#pragma once
#include <stdio.h>

#include "gpuemu/emu.h"

enum hip_error {
    HIP_OK = 0,
    HIP_INVALID_VALUE = 1,
    HIP_OUT_OF_MEMORY = 2,
    HIP_NO_DEVICE = 100,
    HIP_INVALID_DEVICE = 101,
    HIP_INVALID_IMAGE = 200,
    HIP_NO_BINARY = 209,
    HIP_INVALID_HANDLE = 400,
    HIP_NOT_FOUND = 500,
    HIP_NOT_READY = 600,
    HIP_ILLEGAL_ADDRESS = 700,
    HIP_LAUNCH_FAILURE = 719,
    HIP_CAPTURE_UNSUPPORTED = 900,
    HIP_CAPTURE_INVALID = 901,
};

typedef struct hip_event {
    struct hip_stream *stream; /* where it was last recorded */
    uint64_t number;           /* of that record; done when the stream has run it */
    double at_ms;
    bool recorded;
} hip_event;

typedef struct hip_work {
    enum { HIP_COPY, HIP_FILL, HIP_LAUNCH, HIP_RECORD, HIP_WAIT } kind;
    void *dst;
    const void *src;
    size_t n;
    int value;
    hip_event *event;
    uint64_t event_number;
    const rf_emu_kernel *kernel;
    uint32_t grid[3], block[3], lds_bytes;
    void *kernarg; /* owned; kernel->kernarg_bytes */
    struct hip_work *next;
} hip_work;

typedef struct hip_list {
    hip_work *first, *last;
} hip_list;

typedef struct hip_graph {
    hip_list work;
    bool broken; /* something was called that a capture does not allow */
} hip_graph;

typedef struct hip_stream {
    hip_list work;
    hip_graph *capture;         /* NULL: not capturing */
    uint64_t n_recorded, n_run; /* event records queued and done */
    struct hip_stream *next;
} hip_stream;

typedef struct hip_state {
    int sticky; /* every call fails with it */
    char fault[600];
    hip_stream null_stream;
    hip_stream *streams;
    rf_emu_range *ranges; /* allocations, sorted */
    size_t n_ranges, cap_ranges;
    size_t device_bytes; /* allocated, without host memory */
    size_t n_captures;
    uint64_t n_launches;
    rf_emu_stats stats;
    FILE *launches; /* hip_list.c's, or NULL */
} hip_state;
extern hip_state hip;

#define HIP_API __attribute__((visibility("default")))

/* Every entry point runs between these two; enter gives the sticky error. */
int hip_enter(void);
int hip_leave(int code);

const char *hip_arch(void);
uint64_t hip_setting(const char *name, uint64_t otherwise);
/* Counts calls since the variable got its value: true for the nth. */
bool hip_fails_now(const char *name);
size_t hip_memory_bytes(void);
bool hip_owns(const void *p, size_t n); /* [p, p + n) lies in one allocation */
int hip_refuse_in_capture(void);        /* the error of a call that no capture allows, or 0 */

void hip_list_launch(const hip_work *w, const rf_emu_stats *s); /* hip_list.c */
int hip_push(hip_stream *s, const hip_work *w); /* takes w->kernarg, also on failure */
int hip_drain(hip_stream *s);                   /* runs all work of a stream */
int hip_drain_all(void);
void hip_list_clear(hip_list *l);
