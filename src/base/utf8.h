/* utf8.h - strict UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates, at most U+10FFFF. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Decodes one character.  Returns its length 1..4, or 0 when p[0..n) does not start with a valid
 * one; *cp is then U+FFFD. */
int rf_utf8_decode(const char *p, size_t n, uint32_t *cp);
int rf_utf8_encode(uint32_t cp, char out[4]); /* 1..4; invalid code points give U+FFFD */
/* Length of the longest prefix that is whole, valid UTF-8. */
size_t rf_utf8_valid_prefix(const char *p, size_t n);
/* True when p[0..n) may become one valid character by appending bytes. */
bool rf_utf8_is_partial(const char *p, size_t n);

#ifdef __cplusplus
}
#endif
