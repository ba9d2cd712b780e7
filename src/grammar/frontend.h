/* frontend.h - the languages grammars are written in; each becomes rules.
 *
 * Private to src/grammar.  Each parser returns the root rule, all of whose calls are defined, and
 * fails with RF_EFORMAT (malformed) or RF_EUNSUPPORTED (outside the documented subset) and the
 * place: line and column, offset, or JSON pointer. */
#pragma once
#include "base/json.h"
#include "grammar/expr.h"

#ifdef __cplusplus
extern "C" {
#endif

RF_CHECKED rf_status rf_gbnf_parse(rf_rules *b, rf_str text, uint32_t *root);
RF_CHECKED rf_status rf_schema_parse(rf_rules *b, rf_str text, uint32_t *root);
/* A JSON array of strings: one of them. */
RF_CHECKED rf_status rf_choice_parse(rf_rules *b, rf_str text, uint32_t *root);

/* A regular expression.  search: it may match anywhere (JSON Schema's pattern), else the whole text
 * must match.  in_json: characters are spelt as inside a JSON string.  The expression calls no rule.
 * NULL on failure; *at is then the offset in text.  where: what the message starts with. */
const rf_expr *rf_regex_parse(rf_rules *b, rf_str text, bool search, bool in_json,
                              const char *where);

#ifdef __cplusplus
}
#endif
