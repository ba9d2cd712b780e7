/* schema.h - a JSON Schema on its way to rules; shared by the files that know one type each.
 *
 * Private to src/grammar.  Schemas that all apply to one value are kept side by side as a list of
 * parts (an allOf, a $ref beside other keywords, properties declared twice), never merged into new
 * JSON; every keyword is read from all parts. */
#pragma once
#include "base/buf.h"
#include "base/map.h"
#include "grammar/frontend.h"

enum {
    RF_SCHEMA_MAX_PARTS = 24,
    RF_SCHEMA_MAX_PREFIX = 100,  /* prefixItems */
    RF_SCHEMA_MAX_PATTERNS = 3,  /* patternProperties of one object */
    RF_SCHEMA_MAX_VALUES = 4096, /* of one enum */
};

enum { /* JSON types; a number is RF_T_INTEGER | RF_T_FRACTION */
       RF_T_NULL = 1,
       RF_T_BOOL = 2,
       RF_T_INTEGER = 4,
       RF_T_FRACTION = 8,
       RF_T_STRING = 16,
       RF_T_ARRAY = 32,
       RF_T_OBJECT = 64,
       RF_T_ALL = 127,
};

typedef struct rf_part {
    const rf_json *s;     /* an object */
    rf_str path;          /* JSON pointer */
    uint32_t taken;       /* 1: its anyOf was chosen from, 2: its oneOf */
    uint32_t included_by; /* the part + 1 whose $ref or allOf brought it; 0: none */
} rf_part;

typedef struct rf_conj { /* all parts apply */
    rf_part part[RF_SCHEMA_MAX_PARTS];
    size_t n;
    bool never; /* one of them was false */
} rf_conj;

typedef struct rf_schema_job {
    rf_rules *b;
    const rf_json *root;
    rf_error *e;
    rf_map *known; /* parts of a value, as bytes -> its rule */
    uint32_t string_rule, char_rule, integer_rule, number_rule,
        space_rule; /* UINT32_MAX: not yet */
    int depth;
} rf_schema_job;

/* Records "JSON Schema: POINTER/KEYWORD: ..." and returns NULL. */
const rf_expr *rf_schema_fail(rf_schema_job *j, const rf_part *p, const char *keyword, rf_status s,
                              const char *what);
/* path, "/" and key, escaped as JSON pointers are. */
rf_str rf_schema_path(rf_schema_job *j, rf_str path, const char *key);
/* Adds a schema that also applies; false on failure. */
bool rf_conj_add(rf_schema_job *j, rf_conj *c, const rf_json *s, rf_str path);
/* The value that all parts allow. */
const rf_expr *rf_schema_value(rf_schema_job *j, const rf_conj *c);

const rf_expr *rf_schema_space(rf_schema_job *j);
const rf_expr *rf_schema_string(rf_schema_job *j, const rf_conj *c);
const rf_expr *rf_schema_integer(rf_schema_job *j, const rf_conj *c);
const rf_expr *rf_schema_number(rf_schema_job *j, const rf_conj *c);
const rf_expr *rf_schema_array(rf_schema_job *j, const rf_conj *c);
const rf_expr *rf_schema_object(rf_schema_job *j, const rf_conj *c);
/* Is a non-negative whole number keyword, tightened into *value (the largest, or the smallest). */
bool rf_schema_count(rf_schema_job *j, const rf_conj *c, const char *keyword, bool largest,
                     uint32_t *value);

/* A value as the answer spells it: compact, characters escaped only where they must be. */
void rf_schema_write(rf_buf *out, const rf_json *v);
void rf_schema_write_str(rf_buf *out, rf_str s); /* without quotes */
