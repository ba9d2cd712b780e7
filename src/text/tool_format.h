/* tool_format.h - what a row of the table of tool formats is made of; inside the parser only.
 *
 * A format has sections: a mark that opens one, marks that may close it, and a function that reads
 * the text between.  Families of notations (json, named, tags, python, harmony) are one file each;
 * a dialect is a family's constants for one model. */
#pragma once
#include "text/tool_parser.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_TOOL_MAX_MARK = 64 }; /* bytes of a mark */

typedef enum rf_verdict {
    RF_BODY_CALLS,     /* read; the calls are in the list */
    RF_BODY_BAD,       /* not a call */
    RF_BODY_MORE,      /* the closing mark belongs to the body: look for the next one */
    RF_BODY_CONTENT,   /* not a call but a heading: content follows */
    RF_BODY_REASONING, /* reasoning follows */
} rf_verdict;

/* Calls of one section. */
typedef struct rf_call {
    size_t name, name_len, id, id_len, args, args_len; /* places in text */
} rf_call;
typedef struct rf_calls {
    rf_buf text;
    rf_call list[RF_TOOL_MAX_CALLS];
    size_t n;
    bool failed; /* out of memory */
} rf_calls;
/* Takes a call if its name can be one and its arguments are a JSON object. */
rf_verdict rf_calls_add(rf_calls *c, rf_str name, rf_str id, rf_str args);

typedef struct rf_body {
    rf_str text;       /* between the marks; with the opening one where the section keeps it */
    const char *close; /* NULL: the output is over */
    const rf_json *tools;
    const void *dialect;
} rf_body;

enum {
    RF_AT_START = 1,     /* opens only where nothing but white space came before */
    RF_KEEPS_OPEN = 2,   /* the opening mark is part of the body */
    RF_IN_REASONING = 4, /* opens in reasoning too */
    RF_HEADING = 16,     /* may be a heading of content or reasoning instead of a call */
    RF_KNOWN_NAME = 8,   /* no mark tells it from text: calls must name one of the tools */
};
typedef struct rf_section {
    const char *open;
    const char *close[4]; /* none: the end of the output */
    rf_verdict (*parse)(const rf_body *b, rf_calls *out);
    const void *dialect;
    unsigned flags;
    bool (*plausible)(rf_str body); /* NULL: always; asked while the body is short */
} rf_section;

struct rf_tool_format {
    const char *name;
    const char *marks[2]; /* a template that holds these ... */
    const char *or_mark;  /* ... or this */
    rf_section sections[3];
    const char *hidden[4]; /* left out of content: control tokens around it */
};
struct rf_reasoning_format {
    const char *name;
    const char *mark; /* in the template */
    const char *open, *close;
    bool anywhere; /* a control token: opens also after content; otherwise only at the start */
};

/* Families. */
rf_verdict rf_parse_json(const rf_body *b, rf_calls *out);
bool rf_plausible_json(rf_str body);
rf_verdict rf_parse_named(const rf_body *b, rf_calls *out);
typedef struct rf_named_dialect {
    const char *open;      /* before each call but the first; NULL: none */
    const char *id_before; /* what stands between an id and the name; NULL: no id */
    const char *id_after;  /* what stands between the name and an id; NULL: no id */
    const char *args;      /* before the arguments */
    const char *close;     /* behind each call; NULL: none */
    bool name_is_id;       /* "functions.NAME:INDEX" */
} rf_named_dialect;
rf_verdict rf_parse_tags(const rf_body *b, rf_calls *out);
typedef struct rf_tags_dialect {
    const char *open; /* before a name; "": the call begins with it */
    const char *name_end;
    const char *close; /* behind each call; NULL: the end of the body */
    const char *key, *key_end;
    const char *value; /* behind the key and its attributes; NULL: the value follows the key */
    const char *value_end;
} rf_tags_dialect;
rf_verdict rf_parse_nested(const rf_body *b, rf_calls *out);
rf_verdict rf_parse_python(const rf_body *b, rf_calls *out);
bool rf_plausible_python(rf_str body);
rf_verdict rf_parse_braces(const rf_body *b, rf_calls *out); /* dialect: the quote, a string */
rf_verdict rf_parse_harmony(const rf_body *b, rf_calls *out);

/* Appends a literal of Python (or JSON) as JSON and cuts it off s; false: not one.  quote: a further
 * mark around strings, and keys need no quotes; or NULL. */
bool rf_put_literal(rf_str *s, const char *quote, rf_buf *out);
/* How long the JSON value at the start of s is: RF_BODY_CALLS and *len; RF_BODY_MORE: s ends inside
 * a string; RF_BODY_BAD: s ends elsewhere or is no value.  Brackets and strings only: not a check. */
rf_verdict rf_json_extent(rf_str s, size_t *len);
bool rf_is_json(rf_str s, rf_json_type *type, bool *failed); /* failed: out of memory */
/* The schema of the parameters of a tool; NULL when unknown. */
const rf_json *rf_tool_find(const rf_json *tools, rf_str name);
const rf_json *rf_tool_parameters(const rf_json *tool);

/* Cutting text. */
bool rf_is_space(char c); /* of JSON */
rf_str rf_cut_space(rf_str s);
rf_str rf_trim(rf_str s);
bool rf_take(rf_str *s, const char *lit); /* cuts lit off the front, if it is there */
/* Cuts all up to and with lit off; false: it is not there. */
bool rf_take_until(rf_str *s, const char *lit, rf_str *before);
static inline rf_str rf_cut(rf_str s, size_t n) { return (rf_str){s.p + n, s.len - n}; }

#ifdef __cplusplus
}
#endif
