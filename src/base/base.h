/* base.h - status codes, error text, checked arithmetic and allocation: what every other file needs.
 *
 * Includes nothing of ours and knows nothing of models.  Every heap allocation of the project goes
 * through rf_alloc / rf_realloc, so that a test can make the nth one fail. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the caller can do about a failure, not where it came from. */
typedef enum rf_status {
    RF_OK,
    RF_ENOMEM,       /* memory or another resource of this machine ran out */
    RF_EIO,          /* a file could not be opened, read, mapped or written */
    RF_EFORMAT,      /* a file or request is malformed */
    RF_EUNSUPPORTED, /* well-formed, but not something this build can do */
    RF_EDEVICE,      /* a device or its driver failed */
    RF_EARG,         /* the caller passed a wrong argument */
    RF_EFULL,        /* no room now; the same call may succeed later */
    RF_ECANCELLED,   /* somebody asked to stop */
} rf_status;

#define RF_CHECKED                 __attribute__((warn_unused_result))
#define RF_PRINTF(fmt_at, args_at) __attribute__((format(printf, fmt_at, args_at)))

/* Pass a failure on to the caller. */
#define RF_TRY(call)                                        \
    do {                                                    \
        rf_status rf_try_status_ = (call);                  \
        if (rf_try_status_ != RF_OK) return rf_try_status_; \
    } while (0)

/* What went wrong, where (offset, tensor, field), and what was expected.  Filled once: the first
 * failure wins, later ones leave it alone.  Start from {0}. */
typedef struct rf_error {
    rf_status status;
    char text[500];
} rf_error;

/* Records the failure (e may be NULL) and returns s, so that it can stand in a return statement. */
rf_status rf_fail(rf_error *e, rf_status s, const char *fmt, ...) RF_PRINTF(3, 4);
rf_status rf_fail_nomem(rf_error *e, size_t bytes);
const char *rf_status_name(rf_status s); /* "out of memory", ... static text */

/* Borrowed bytes without a terminating NUL. */
typedef struct rf_str {
    const char *p;
    size_t len;
} rf_str;
#define RF_STR(literal) ((rf_str){(literal), sizeof(literal) - 1})
#define RF_STR_ARG(s)   (int)((s).len > 4096 ? 4096 : (s).len), (s).p /* for "%.*s" */
rf_str rf_str_of(const char *c_string);
bool rf_str_eq(rf_str a, rf_str b);
bool rf_str_is(rf_str a, const char *c_string);
bool rf_str_starts(rf_str s, const char *prefix);

/* Checked arithmetic: false on overflow, *out is then unspecified. */
static inline bool rf_add_ok(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}
static inline bool rf_mul_ok(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

/* n * size zeroed bytes, 64-byte aligned; NULL on overflow or lack of memory.  n or size 0 gives a
 * valid pointer.  rf_realloc keeps the first old_n elements; new ones are zeroed; on failure the old
 * memory stays as it was.  rf_free takes NULL. */
void *rf_alloc(size_t n, size_t size) __attribute__((malloc));
void *rf_realloc(void *p, size_t old_n, size_t new_n, size_t size) RF_CHECKED;
void rf_free(void *p);

/* Tests only: the nth allocation or thread creation from now (1 = the next) fails, once.
 * 0 switches it off.  rf_alloc_count: allocations and thread creations since the last call. */
void rf_alloc_fail_nth(long n);
long rf_alloc_count(void);
bool rf_alloc_should_fail(void); /* asked by everything that takes a resource from the system */

/* Our own bugs.  Kept in release builds; never used on data from a file, a socket or a driver. */
void rf_assert_fail(const char *expr, const char *file, int line) __attribute__((noreturn));
#define RF_ASSERT(expr) ((expr) ? (void)0 : rf_assert_fail(#expr, __FILE__, __LINE__))

#define RF_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#ifdef __cplusplus
}
#endif
