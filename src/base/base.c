/* base.c - error text, borrowed strings, and the one allocator of the project.
 *
 * Each block is preceded by a 64-byte head that remembers what the C library returned.  Small blocks
 * end exactly where the library's block ends (so that a sanitizer sees the first byte too many); big
 * ones come from calloc, whose fresh pages cost nothing until they are touched. */
#include "base/base.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* Cuts a character that vsnprintf's limit split, and keeps the text on one line: names from files
 * and requests may hold any byte. */
static void tidy_text(char *text, bool cut) {
    size_t n = strlen(text);
    for (size_t back = 1; cut && back <= 3 && back <= n; back++) {
        if (rf_utf8_is_partial(text + n - back, back)) {
            n -= back;
            text[n] = '\0';
            break;
        }
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f) text[i] = '?';
    }
}

rf_status rf_fail(rf_error *e, rf_status s, const char *fmt, ...) {
    if (!e || e->status != RF_OK) return s;
    e->status = s;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(e->text, sizeof e->text, fmt, args);
    va_end(args);
    if (n < 0) e->text[0] = '\0';
    tidy_text(e->text, n >= (int)sizeof e->text);
    return s;
}

rf_status rf_fail_nomem(rf_error *e, size_t bytes) {
    return rf_fail(e, RF_ENOMEM, "out of memory: %zu bytes could not be had", bytes);
}

const char *rf_status_name(rf_status s) {
    switch (s) {
    case RF_OK:
        return "ok";
    case RF_ENOMEM:
        return "out of memory";
    case RF_EIO:
        return "input/output error";
    case RF_EFORMAT:
        return "malformed input";
    case RF_EUNSUPPORTED:
        return "not supported";
    case RF_EDEVICE:
        return "device error";
    case RF_EARG:
        return "wrong argument";
    case RF_EFULL:
        return "no room now";
    case RF_ECANCELLED:
        return "cancelled";
    }
    return "unknown status";
}

rf_str rf_str_of(const char *c_string) {
    return (rf_str){c_string ? c_string : "", c_string ? strlen(c_string) : 0};
}

bool rf_str_eq(rf_str a, rf_str b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

bool rf_str_is(rf_str a, const char *c_string) { return rf_str_eq(a, rf_str_of(c_string)); }

bool rf_str_starts(rf_str s, const char *prefix) {
    size_t n = strlen(prefix);
    return s.len >= n && (n == 0 || memcmp(s.p, prefix, n) == 0);
}

/* Allocation ------------------------------------------------------------------------------- */

#define ALIGN      64u
#define LAZY_BYTES ((size_t)1 << 20) /* from here on calloc's untouched pages beat memset */
#define HEAD_MAGIC 0x52464f5247454844u

typedef struct block_head {
    void *raw; /* what free() takes */
    uint64_t magic;
} block_head;
_Static_assert(sizeof(block_head) <= ALIGN, "the head fits in front of an aligned block");

static _Atomic long fail_in; /* the nth next request fails; 0 or less: none */
static _Atomic long n_requests;

void rf_alloc_fail_nth(long n) { atomic_store(&fail_in, n); }

long rf_alloc_count(void) { return atomic_exchange(&n_requests, 0); }

bool rf_alloc_should_fail(void) {
    atomic_fetch_add_explicit(&n_requests, 1, memory_order_relaxed);
    if (atomic_load_explicit(&fail_in, memory_order_relaxed) <= 0) return false;
    return atomic_fetch_sub(&fail_in, 1) == 1;
}

/* bytes zeroed bytes behind a head, 64-byte aligned. */
static void *block_new(size_t bytes) {
    size_t with_head, with_slack;
    if (!rf_add_ok(bytes, ALIGN, &with_head) || !rf_add_ok(with_head, ALIGN, &with_slack)) {
        return NULL;
    }
    void *raw = NULL;
    unsigned char *p;
    if (bytes < LAZY_BYTES) {
        if (posix_memalign(&raw, ALIGN, with_head) != 0) return NULL;
        memset(raw, 0, with_head);
        p = (unsigned char *)raw + ALIGN;
    } else {
        raw = calloc(1, with_slack);
        if (!raw) return NULL;
        size_t past = (uintptr_t)raw % ALIGN;
        p = (unsigned char *)raw + ALIGN + (past ? ALIGN - past : 0);
    }
    block_head head = {raw, HEAD_MAGIC};
    memcpy(p - ALIGN, &head, sizeof head);
    return p;
}

void *rf_alloc(size_t n, size_t size) {
    size_t bytes;
    if (rf_alloc_should_fail() || !rf_mul_ok(n, size, &bytes)) return NULL;
    return block_new(bytes);
}

void *rf_realloc(void *p, size_t old_n, size_t new_n, size_t size) {
    void *fresh = rf_alloc(new_n, size);
    if (!fresh) return NULL;
    size_t keep = (old_n < new_n ? old_n : new_n) * size;
    if (p && keep) memcpy(fresh, p, keep);
    rf_free(p);
    return fresh;
}

void rf_free(void *p) {
    if (!p) return;
    block_head head;
    memcpy(&head, (unsigned char *)p - ALIGN, sizeof head);
    RF_ASSERT(head.magic == HEAD_MAGIC);
    memset((unsigned char *)p - ALIGN, 0, sizeof head); /* a second rf_free stops at the assert */
    free(head.raw);
}

void rf_assert_fail(const char *expr, const char *file, int line) {
    fprintf(stderr, "%s:%d: internal error: (%s) does not hold\n", file, line, expr);
    abort();
}
