/* fuzz_utf8.c - any bytes as UTF-8: decoding, the valid prefix, partial ends and JSON strings agree
 * with one another. */
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *p = (const char *)data;
    size_t valid = rf_utf8_valid_prefix(p, size), at = 0;
    RF_ASSERT(valid <= size);
    uint32_t cp;
    while (at < valid) { /* the prefix decodes, and encodes to the same bytes */
        char again[4];
        int n = rf_utf8_decode(p + at, size - at, &cp);
        RF_ASSERT(n >= 1 && rf_utf8_encode(cp, again) == n);
        RF_ASSERT(memcmp(again, p + at, (size_t)n) == 0);
        RF_ASSERT(!rf_utf8_is_partial(p + at, (size_t)n));
        at += (size_t)n;
    }
    RF_ASSERT(at == valid);
    if (valid < size) RF_ASSERT(rf_utf8_decode(p + valid, size - valid, &cp) == 0);
    /* text that breaks off inside a character is partial from there on, however it is cut */
    if (size - valid < 4 && rf_utf8_is_partial(p + valid, size - valid)) {
        for (size_t n = 1; n <= size - valid; n++) {
            RF_ASSERT(rf_utf8_is_partial(p + valid, n));
        }
    }
    rf_buf b = {0};
    rf_buf_json_str(&b, (rf_str){p, size});
    RF_ASSERT(!b.failed && rf_utf8_valid_prefix(b.p, b.len) == b.len);
    rf_json *j;
    RF_ASSERT(rf_json_parse(&j, rf_buf_str(&b), NULL) == RF_OK);
    rf_str back = rf_json_str(j);
    RF_ASSERT(back.len >= valid && (valid == 0 || memcmp(back.p, p, valid) == 0));
    if (valid == size) RF_ASSERT(back.len == size);
    rf_json_free(j);
    rf_buf_free(&b);
    return 0;
}
