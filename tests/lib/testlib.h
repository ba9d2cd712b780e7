/* testlib.h - what every test program needs: cmocka, fixtures, guard pages, deterministic noise. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"

/* Full path of a committed fixture ("quant/q4_0.blk"); valid until the fourth next call. */
const char *rf_test_data(const char *relative);
/* Full path below the shared golden data (environment ROCMFORGE_TEST_DATA), or NULL where that
 * folder is absent: then print what is left out and skip(). */
const char *rf_test_shared(const char *relative);
#define RF_SKIP_WITHOUT(path, what)                                       \
    do {                                                                  \
        if (!(path)) {                                                    \
            print_message("skipped: %s (no shared test data)\n", (what)); \
            skip();                                                       \
        }                                                                 \
    } while (0)

/* A whole file in memory (test fails when it cannot be read); free with rf_free. */
uint8_t *rf_test_read(const char *path, size_t *n);
/* A path in a fresh temporary directory that is removed at exit. */
const char *rf_test_tmp(const char *name);

/* Bytes of this process's memory that are mapped from files whose paths hold `name`. */
size_t rf_test_mapped(const char *name);

/* n bytes copied so that the byte behind the last one lies on an unreadable page. */
typedef struct rf_guarded {
    uint8_t *p;
    size_t n;
    void *map;
    size_t map_bytes;
} rf_guarded;
rf_guarded rf_guard(const void *bytes, size_t n);
void rf_guard_free(rf_guarded *g);

/* splitmix64, for reproducible test inputs. */
uint64_t rf_test_rand(uint64_t *state);
float rf_test_randf(uint64_t *state); /* uniform in [-1, 1) */
