/* buf.c - growing bytes and growing ids: double the room, remember the first failure. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* Room for n more bytes and a NUL. */
static bool reserve(rf_buf *b, size_t n) {
    if (b->failed) return false;
    size_t need;
    if (!rf_add_ok(b->len, n, &need) || !rf_add_ok(need, 1, &need)) {
        b->failed = true;
        return false;
    }
    if (need <= b->cap) return true;
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap < need) {
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    }
    char *p = rf_realloc(b->p, b->cap, cap, 1);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

void rf_buf_put(rf_buf *b, const void *bytes, size_t n) {
    if (!reserve(b, n)) return;
    if (n) memcpy(b->p + b->len, bytes, n);
    b->len += n;
    b->p[b->len] = '\0';
}

void rf_buf_puts(rf_buf *b, const char *c_string) { rf_buf_put(b, c_string, strlen(c_string)); }

void rf_buf_putc(rf_buf *b, char c) { rf_buf_put(b, &c, 1); }

void rf_buf_printf(rf_buf *b, const char *fmt, ...) {
    if (!reserve(b, 0)) return;
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(b->p + b->len, b->cap - b->len, fmt, args);
    if (n < 0) {
        b->failed = true;
    } else if ((size_t)n < b->cap - b->len) {
        b->len += (size_t)n;
    } else if (reserve(b, (size_t)n)) {
        vsnprintf(b->p + b->len, b->cap - b->len, fmt, again);
        b->len += (size_t)n;
    }
    b->p[b->len] = '\0'; /* also after a failure: drop what vsnprintf left behind the end */
    va_end(again);
    va_end(args);
}

/* Length of the longest part of p[0..n) that begins a character, at least 1: it becomes one U+FFFD,
 * as browsers and Python count. */
static size_t invalid_length(const char *p, size_t n) {
    size_t len = 1;
    while (len < n && rf_utf8_is_partial(p, len + 1)) {
        len++;
    }
    return len;
}

static void put_escaped(rf_buf *b, unsigned char c) {
    switch (c) {
    case '"':
        rf_buf_puts(b, "\\\"");
        break;
    case '\\':
        rf_buf_puts(b, "\\\\");
        break;
    case '\b':
        rf_buf_puts(b, "\\b");
        break;
    case '\f':
        rf_buf_puts(b, "\\f");
        break;
    case '\n':
        rf_buf_puts(b, "\\n");
        break;
    case '\r':
        rf_buf_puts(b, "\\r");
        break;
    case '\t':
        rf_buf_puts(b, "\\t");
        break;
    default:
        rf_buf_printf(b, "\\u%04x", (unsigned)c);
        break;
    }
}

void rf_buf_json_str(rf_buf *b, rf_str s) {
    rf_buf_putc(b, '"');
    size_t from = 0, i = 0; /* s.p[from..i) may be copied as it is */
    while (i < s.len) {
        unsigned char c = (unsigned char)s.p[i];
        if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
            i++;
            continue;
        }
        uint32_t cp;
        int len = rf_utf8_decode(s.p + i, s.len - i, &cp);
        if (len > 1) {
            i += (size_t)len;
            continue;
        }
        rf_buf_put(b, s.p + from, i - from);
        if (len == 1) {
            put_escaped(b, c);
            i++;
        } else {
            rf_buf_puts(b, "\xEF\xBF\xBD");
            i += invalid_length(s.p + i, s.len - i);
        }
        from = i;
    }
    if (i > from) rf_buf_put(b, s.p + from, i - from);
    rf_buf_putc(b, '"');
}

void rf_buf_clear(rf_buf *b) {
    b->len = 0;
    if (b->p) b->p[0] = '\0';
}

void rf_buf_free(rf_buf *b) {
    rf_free(b->p);
    *b = (rf_buf){0};
}

void rf_ids_push(rf_ids *ids, int32_t id) {
    if (ids->failed) return;
    if (ids->len == ids->cap) {
        size_t cap = ids->cap ? ids->cap : 16;
        int32_t *p = NULL;
        if (ids->cap == 0 || rf_mul_ok(cap, 2, &cap)) {
            p = rf_realloc(ids->p, ids->cap, cap, sizeof *p);
        }
        if (!p) {
            ids->failed = true;
            return;
        }
        ids->p = p;
        ids->cap = cap;
    }
    ids->p[ids->len++] = id;
}

void rf_ids_free(rf_ids *ids) {
    rf_free(ids->p);
    *ids = (rf_ids){0};
}
