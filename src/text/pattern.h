/* pattern.h - one compiled regular expression (PCRE2 with its JIT compiler), and cutting text by it.
 *
 * Read-only once compiled, shared by threads; what a match needs belongs to the call.  Text is valid
 * UTF-8.  The limit on backtracking grows with the text: it stops bugs and hostile patterns. */
#pragma once
#include "base/base.h"
#include "base/buf.h"

enum { RF_PATTERN_MAX_BYTES = 1 << 16 };

typedef struct rf_pattern rf_pattern;
/* A pattern in PCRE2's own words. */
RF_CHECKED rf_status rf_pattern_compile(rf_pattern **out, rf_str pattern, rf_error *e);
/* Text that stands for itself. */
RF_CHECKED rf_status rf_pattern_literal(rf_pattern **out, rf_str text, rf_error *e);
/* A pattern as tokenizer.json spells it, in the words of Oniguruma: rewritten, then compiled.
 * What cannot be rewritten is refused. */
RF_CHECKED rf_status rf_pattern_translate(rf_str pattern, rf_buf *out, rf_error *e);
void rf_pattern_free(rf_pattern *p); /* NULL is fine */

typedef struct rf_searcher rf_searcher; /* what one call needs: not shared */
RF_CHECKED rf_status rf_searcher_create(rf_searcher **out);
void rf_searcher_free(rf_searcher *m);
/* The first match of p in text at or after from: *start < 0 when there is none. */
RF_CHECKED rf_status rf_searcher_find(rf_searcher *m, const rf_pattern *p, rf_str text, size_t from,
                                      ptrdiff_t *start, ptrdiff_t *end, rf_error *e);
