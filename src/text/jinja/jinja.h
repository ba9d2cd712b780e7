/* jinja.h - the part of Jinja2 that chat templates are written in: parse once, render many times.
 *
 * Statements if, for, set, macro, call, filter, with, raw, block and generation, every operator,
 * and the filters, tests, functions and methods listed in filters.c, tests.c, functions.c and
 * methods.c, with trim_blocks and lstrip_blocks as Hugging Face sets them and Python's rules where
 * they show. No other files (include, import, extends), no HTML beyond autoescape, lists and dicts
 * never change.  Reading a parsed template is thread-safe. */
#pragma once
#include <time.h>

#include "base/buf.h"
#include "base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RF_JINJA_MAX_SOURCE  ((size_t)1 << 20) /* bytes of a template */
#define RF_JINJA_MAX_NESTING 200               /* levels of its expressions and statements */
#define RF_JINJA_MAX_DEPTH   1000              /* levels of evaluation, macros in macros included */
#define RF_JINJA_MAX_MACROS  200               /* macros running inside each other */
#define RF_JINJA_MAX_STEPS   ((size_t)20000000)  /* evaluated nodes, list items, 64 bytes of text */
#define RF_JINJA_MAX_OUTPUT  ((size_t)64 << 20)  /* bytes of a rendered conversation */
#define RF_JINJA_MAX_MEMORY  ((size_t)256 << 20) /* bytes that one rendering may hold */
#define RF_JINJA_MAX_RANGE   100000              /* numbers of one range() */

typedef struct rf_jinja rf_jinja; /* a parsed template */
RF_CHECKED rf_status rf_jinja_parse(rf_jinja **out, rf_str source, rf_error *e);
void rf_jinja_free(rf_jinja *t); /* NULL is fine */

/* One variable of the context. */
typedef struct rf_jinja_var {
    const char *name;
    const rf_json *value; /* NULL: none, as opposed to undefined */
    bool is_markup;       /* its strings count as the template's own text */
    const rf_str *text;   /* a string, or ... */
    const bool *truth;    /* ... a boolean, in place of the value */
} rf_jinja_var;
typedef struct rf_jinja_input {
    const rf_jinja_var *vars;
    size_t n_vars;
    const struct tm *now; /* of strftime_now; NULL: the local time */
} rf_jinja_input;
/* The rendered text and, byte for byte, whether it came out of a string of the context (1) or is
 * the template's own (0).  Every string carries these marks: slices, trim, split and case changes
 * keep them; concatenation, join, format, replace and tojson mark each byte as the string it is
 * from; numbers, brackets and escapes of tojson are the template's own unless they stand for a byte
 * of a marked string.  Equality never looks at them.  The usual names of roles ("user", ...), as
 * values of a key "role", are the template's own: templates build control tokens of them. */
typedef struct rf_jinja_text { /* start from {0} */
    rf_buf text, from_input;
} rf_jinja_text;
RF_CHECKED rf_status rf_jinja_render(const rf_jinja *t, const rf_jinja_input *in,
                                     rf_jinja_text *out, rf_error *e);
void rf_jinja_text_free(rf_jinja_text *t);

#ifdef __cplusplus
}
#endif
