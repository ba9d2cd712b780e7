/* buf.h - a growing byte string with a sticky error: append freely, check once at the end.
 *
 * After the first failed append .failed is set and later appends do nothing.  .p is always
 * NUL-terminated once something was appended (the NUL is not counted in .len). */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_buf { /* start from {0} */
    char *p;
    size_t len, cap;
    bool failed;
} rf_buf;
void rf_buf_put(rf_buf *b, const void *bytes, size_t n);
void rf_buf_puts(rf_buf *b, const char *c_string);
void rf_buf_putc(rf_buf *b, char c);
void rf_buf_printf(rf_buf *b, const char *fmt, ...) RF_PRINTF(2, 3);
/* s as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void rf_buf_json_str(rf_buf *b, rf_str s);
void rf_buf_clear(rf_buf *b); /* len = 0; memory and .failed are kept */
void rf_buf_free(rf_buf *b);  /* back to {0} */
static inline rf_str rf_buf_str(const rf_buf *b) { return (rf_str){b->len ? b->p : "", b->len}; }

/* A growing array of token ids, with the same habits. */
typedef struct rf_ids { /* start from {0} */
    int32_t *p;
    size_t len, cap;
    bool failed;
} rf_ids;
void rf_ids_push(rf_ids *ids, int32_t id);
void rf_ids_free(rf_ids *ids);

#ifdef __cplusplus
}
#endif
