/* gguf_text.c - see gguf_text.h. */
#include "cli/gguf_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"

enum { MOST_STRING = 120 }; /* bytes of a string in text, unless everything was asked for */

/* The fewest digits that read back as the same number. */
static void put_float(rf_buf *out, double v, bool is_f32, bool is_json) {
    if (!isfinite(v)) {
        rf_buf_puts(out, is_json ? "null" : isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
        return;
    }
    char text[40];
    for (int digits = is_f32 ? 6 : 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        double back = strtod(text, NULL);
        if (is_f32 ? (float)back == (float)v : back == v) break;
    }
    rf_buf_puts(out, text);
}

void rf_put_quoted(rf_buf *out, rf_str s, size_t most) {
    rf_str head = s;
    if (s.len > most) {
        head.len = rf_utf8_valid_prefix(s.p, most);
        if (head.len + 4 <= most) head.len = most; /* not UTF-8 at all */
    }
    rf_buf_json_str(out, head);
    if (head.len < s.len) rf_buf_printf(out, "... (%zu bytes)", s.len);
}

static void put_string(rf_buf *out, rf_str s, uint64_t most, bool is_json) {
    if (is_json || most == RF_GGUF_SHOW_ALL) {
        rf_buf_json_str(out, s);
    } else {
        rf_put_quoted(out, s, MOST_STRING);
    }
}

static void put_number(rf_buf *out, const rf_gguf_kv *kv, uint64_t i, bool is_json) {
    switch (kv->elem_type) {
    case RF_GGUF_F32:
    case RF_GGUF_F64:
        put_float(out, rf_gguf_elem_f64(kv, i), kv->elem_type == RF_GGUF_F32, is_json);
        return;
    case RF_GGUF_BOOL:
        rf_buf_puts(out, rf_gguf_elem_u64(kv, i) ? "true" : "false");
        return;
    case RF_GGUF_I8:
    case RF_GGUF_I16:
    case RF_GGUF_I32:
    case RF_GGUF_I64:
        rf_buf_printf(out, "%" PRId64, (int64_t)rf_gguf_elem_u64(kv, i));
        return;
    case RF_GGUF_U8:
    case RF_GGUF_U16:
    case RF_GGUF_U32:
    case RF_GGUF_U64:
        rf_buf_printf(out, "%" PRIu64, rf_gguf_elem_u64(kv, i));
        return;
    case RF_GGUF_STRING:
    case RF_GGUF_ARRAY:
        break; /* no numbers: the caller has them */
    }
}

void rf_gguf_put_value(rf_buf *out, const rf_gguf_kv *kv, uint64_t most, bool is_json) {
    const uint8_t *cursor = kv->data;
    bool is_array = kv->type == RF_GGUF_ARRAY;
    uint64_t shown = kv->n < most ? kv->n : most;
    if (is_array) rf_buf_putc(out, '[');
    for (uint64_t i = 0; i < shown; i++) {
        if (i) rf_buf_puts(out, ", ");
        if (kv->elem_type == RF_GGUF_STRING) {
            put_string(out, rf_gguf_next_str(&cursor), most, is_json);
        } else {
            put_number(out, kv, i, is_json);
        }
    }
    if (shown < kv->n && !is_json) rf_buf_puts(out, ", ...");
    if (is_array) rf_buf_putc(out, ']');
}

void rf_gguf_put_type(rf_buf *out, const rf_gguf_kv *kv) {
    rf_buf_puts(out, rf_gguf_type_name(kv->elem_type));
    if (kv->type == RF_GGUF_ARRAY) rf_buf_printf(out, "[%" PRIu64 "]", kv->n);
}

void rf_gguf_put_shape(rf_buf *out, const rf_gguf_tensor *t) {
    rf_buf_putc(out, '[');
    for (uint32_t i = t->n_dims; i-- > 0;) {
        rf_buf_printf(out, "%" PRIu64 "%s", t->ne[i], i ? ", " : "");
    }
    rf_buf_putc(out, ']');
}

uint64_t rf_gguf_tensor_elems(const rf_gguf_tensor *t) {
    return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]; /* the reader checked that it fits */
}

static void put_scaled(rf_buf *out, uint64_t n, const char *const *units, size_t n_units) {
    double v = (double)n;
    size_t i = 0;
    for (; v >= 999.5 && i + 1 < n_units; i++)
        v /= 1000;
    int decimals = i == 0 || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;
    rf_buf_printf(out, "%.*f%s", decimals, v, units[i]);
}

void rf_put_bytes(rf_buf *out, uint64_t n) {
    static const char *const units[] = {" bytes", " kB", " MB", " GB", " TB", " PB"};
    put_scaled(out, n, units, RF_COUNT(units));
}

void rf_put_count(rf_buf *out, uint64_t n) {
    static const char *const units[] = {"", " K", " M", " B", " T"};
    put_scaled(out, n, units, RF_COUNT(units));
}
