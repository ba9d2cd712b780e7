/* normalize.c - see normalize.h.
 *
 * Character data come from utf8proc; the order of combining marks is made here, by a stable sort of
 * each run: utf8proc's own exchanges neighbours, which takes forever on a long run of marks in the
 * wrong order. */
#include "text/normalize.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

typedef struct points { /* code points under way */
    utf8proc_int32_t *p;
    size_t n, cap;
} points;

static bool reserve(points *v, size_t more) {
    size_t need;
    if (!rf_add_ok(v->n, more, &need)) return false;
    if (need <= v->cap) return true;
    size_t cap = v->cap ? v->cap : 256;
    while (cap < need) {
        if (!rf_mul_ok(cap, 2, &cap)) return false;
    }
    utf8proc_int32_t *grown = rf_realloc(v->p, v->cap, cap, sizeof *grown);
    if (!grown) return false;
    v->p = grown;
    v->cap = cap;
    return true;
}

/* All characters below U+0300 are NFC in any order, and their lead bytes are below 0xCC. */
static bool is_plainly_nfc(rf_str text) {
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.p[i] >= 0xCC) return false;
    }
    return true;
}

static rf_status repair(rf_str text, size_t valid, rf_buf *room) {
    rf_buf_clear(room);
    while (text.len) {
        rf_buf_put(room, text.p, valid);
        text.p += valid;
        text.len -= valid;
        if (text.len) {
            rf_buf_puts(room, "\xEF\xBF\xBD");
            text.p++;
            text.len--;
        }
        valid = rf_utf8_valid_prefix(text.p, text.len);
    }
    return room->failed ? RF_ENOMEM : RF_OK;
}

static rf_status decompose(rf_str text, bool compat, points *v) {
    utf8proc_option_t options =
        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0);
    while (text.len) {
        uint32_t cp;
        int len = rf_utf8_decode(text.p, text.len, &cp);
        text.p += len;
        text.len -= (size_t)len;
        enum { LONGEST = 18 }; /* no character has a longer decomposition */
        if (!reserve(v, LONGEST)) return RF_ENOMEM;
        int unused_boundclass = 0;
        utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, v->p + v->n, LONGEST,
                                                     options, &unused_boundclass);
        RF_ASSERT(n > 0 && n <= LONGEST); /* cp is a valid code point */
        v->n += (size_t)n;
    }
    return RF_OK;
}

static unsigned combining_class(utf8proc_int32_t cp) {
    return (unsigned)utf8proc_get_property(cp)->combining_class;
}

/* A stable counting sort of the marks p[0..n) by class, through room[0..n). */
static void sort_run(utf8proc_int32_t *p, size_t n, utf8proc_int32_t *room) {
    size_t start[257] = {0};
    for (size_t i = 0; i < n; i++) {
        start[combining_class(p[i]) + 1]++;
    }
    for (size_t class = 1; class <= 256; class ++) {
        start[class] += start[class - 1];
    }
    memcpy(room, p, n * sizeof *p);
    for (size_t i = 0; i < n; i++) {
        p[start[combining_class(room[i])]++] = room[i];
    }
}

static rf_status sort_marks(points *v) {
    utf8proc_int32_t *room = NULL;
    size_t n_room = 0;
    for (size_t i = 0; i < v->n; i++) {
        size_t from = i;
        bool sorted = true;
        for (unsigned last = 0, class; i < v->n && (class = combining_class(v->p[i])) != 0; i++) {
            sorted = sorted && last <= class;
            last = class;
        }
        if (sorted) continue;
        if (i - from > n_room) {
            rf_free(room);
            n_room = i - from;
            room = rf_alloc(n_room, sizeof *room);
            if (!room) return RF_ENOMEM;
        }
        sort_run(v->p + from, i - from, room);
    }
    rf_free(room);
    return RF_OK;
}

rf_status rf_normal_form(rf_str text, bool compat, bool compose, rf_buf *out) {
    points v = {0};
    rf_status s = decompose(text, compat, &v);
    if (s == RF_OK) s = sort_marks(&v);
    if (s == RF_OK) {
        utf8proc_ssize_t n = (utf8proc_ssize_t)v.n;
        if (compose) n = utf8proc_normalize_utf32(v.p, n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        rf_buf_clear(out);
        for (utf8proc_ssize_t i = 0; i < n; i++) {
            char bytes[4];
            rf_buf_put(out, bytes, (size_t)rf_utf8_encode((uint32_t)v.p[i], bytes));
        }
        if (out->failed) s = RF_ENOMEM;
    }
    rf_free(v.p);
    return s;
}

rf_status rf_normalize(rf_str text, bool nfc, rf_buf *room, rf_str *out) {
    *out = text;
    size_t valid = rf_utf8_valid_prefix(text.p, text.len);
    if (valid < text.len) {
        RF_TRY(repair(text, valid, room));
        *out = rf_buf_str(room);
    }
    if (!nfc || is_plainly_nfc(*out)) return RF_OK;
    rf_buf composed = {0};
    rf_status s = rf_normal_form(*out, false, true, &composed);
    if (s == RF_OK) {
        rf_buf_free(room);
        *room = composed;
        *out = rf_buf_str(room);
        return RF_OK;
    }
    rf_buf_free(&composed);
    return s;
}
