/* tool_harmony.c - gpt-oss: every message has a heading with a channel and perhaps a recipient.
 *
 *     <|channel|>analysis<|message|>reasoning<|end|>
 *     <|start|>assistant to=functions.NAME<|channel|>commentary json<|message|>{...}<|call|>
 *     <|start|>assistant<|channel|>final<|message|>content<|return|> */
#include <string.h>

#include "text/tool_format.h"

#define MESSAGE "<|message|>"

/* The word behind mark, up to white space or the next mark. */
static bool word_behind(rf_str heading, const char *mark, rf_str *word) {
    rf_str before;
    if (!rf_take_until(&heading, mark, &before)) return false;
    *word = (rf_str){heading.p, 0};
    while (word->len < heading.len && heading.p[word->len] != '<' &&
           !rf_is_space(heading.p[word->len]))
        word->len++;
    return true;
}

static rf_verdict read_heading(rf_str heading) {
    rf_str word;
    if (word_behind(heading, "to=", &word)) return RF_BODY_MORE; /* the call ends later */
    if (!word_behind(heading, "<|channel|>", &word)) return RF_BODY_CONTENT;
    return rf_str_is(word, "analysis") ? RF_BODY_REASONING : RF_BODY_CONTENT;
}

rf_verdict rf_parse_harmony(const rf_body *b, rf_calls *out) {
    rf_str s = b->text, heading, name;
    bool whole = rf_take_until(&s, MESSAGE, &heading);
    if (!whole) {
        bool ends = b->close && strcmp(b->close, MESSAGE) == 0;
        return ends ? read_heading(b->text) : RF_BODY_BAD;
    }
    if (!word_behind(heading, "to=", &name)) return RF_BODY_BAD;
    size_t len = 0;
    s = rf_trim(s);
    rf_verdict v = rf_json_extent(s, &len);
    if (v != RF_BODY_CALLS) return v;
    if (len != s.len) return RF_BODY_BAD;
    rf_take(&name, "functions.");
    return rf_calls_add(out, name, RF_STR(""), s);
}
