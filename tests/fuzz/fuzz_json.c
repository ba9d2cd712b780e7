/* fuzz_json.c - any bytes as JSON: refused with a place, or a tree that can be walked and written
 * again to text that reads back as the same tree. */
#include <string.h>

#include "base/buf.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_tree(rf_buf *b, const rf_json *j) {
    const char *comma = "";
    switch (rf_json_kind(j)) {
    case RF_JSON_NULL:
        rf_buf_puts(b, "null");
        break;
    case RF_JSON_BOOL:
        rf_buf_puts(b, rf_json_bool(j) ? "true" : "false");
        break;
    case RF_JSON_INT:
        rf_buf_printf(b, "%lld", (long long)rf_json_int(j));
        break;
    case RF_JSON_REAL:
        rf_buf_printf(b, "%.17e", rf_json_real(j));
        break;
    case RF_JSON_STRING:
        rf_buf_json_str(b, rf_json_str(j));
        break;
    case RF_JSON_ARRAY:
        rf_buf_putc(b, '[');
        for (size_t i = 0; i < rf_json_len(j); i++, comma = ",") {
            rf_buf_puts(b, comma);
            write_tree(b, rf_json_at(j, i));
        }
        rf_buf_putc(b, ']');
        break;
    case RF_JSON_OBJECT:
        rf_buf_putc(b, '{');
        for (void *it = rf_json_iter(j); it; it = rf_json_iter_next(j, it), comma = ",") {
            rf_buf_puts(b, comma);
            rf_buf_json_str(b, rf_str_of(rf_json_iter_key(it)));
            rf_buf_putc(b, ':');
            write_tree(b, rf_json_iter_value(it));
        }
        rf_buf_putc(b, '}');
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rf_json *j;
    rf_error e = {0};
    rf_status s = rf_json_parse(&j, (rf_str){(const char *)data, size}, &e);
    if (s != RF_OK) {
        RF_ASSERT(!j && e.status == s);
        RF_ASSERT(s == RF_ENOMEM || strncmp(e.text, "JSON line ", 10) == 0);
        return 0;
    }
    rf_buf once = {0}, twice = {0};
    write_tree(&once, j);
    rf_json_free(j);
    RF_ASSERT(!once.failed && rf_json_parse(&j, rf_buf_str(&once), &e) == RF_OK);
    write_tree(&twice, j);
    rf_json_free(j);
    RF_ASSERT(rf_str_eq(rf_buf_str(&once), rf_buf_str(&twice)));
    rf_buf_free(&once);
    rf_buf_free(&twice);
    return 0;
}
