/* internal.h - values, nodes and the running context of the template engine; private to this
 * folder.
 *
 * A failure leaves by longjmp: everything a parse or a rendering holds lies in one arena, so
 * nothing has to be undone on the way out, and no function needs a status.  rf_jinja_parse and
 * rf_jinja_render are where the jump lands; no other file may hold memory of its own. */
#pragma once
#include <setjmp.h>

#include "base/arena.h"
#include "text/jinja/jinja.h"

__extension__ typedef __int128 rf_i128; /* Python's integers, as far as templates need them */

typedef enum rf_jkind {
    JV_UNDEF, /* .s.p: what is undefined, for the message */
    JV_NONE,
    JV_BOOL,
    JV_INT,
    JV_FLOAT,
    JV_STR,
    JV_BYTES,
    JV_SEQ,  /* list, tuple, view, range or generator */
    JV_DICT, /* keys in order of insertion */
    JV_NS,   /* namespace(): the one thing that changes */
    JV_LOOP,
    JV_FUNC,   /* a global function, by its row in functions.c */
    JV_METHOD, /* bound to its object */
    JV_MACRO,
    JV_OBJECT, /* cycler or joiner */
} rf_jkind;

typedef struct rf_jstr {
    const char *p;
    const uint8_t *input; /* [len] 1 where the byte came out of the context; NULL: nowhere */
    size_t len;
} rf_jstr;

typedef struct rf_jv rf_jv;
typedef enum rf_jflavor {
    JF_LIST,
    JF_TUPLE,
    JF_GEN,
    JF_KEYS,
    JF_VALUES,
    JF_ITEMS,
    JF_RANGE
} rf_jflavor;
typedef struct rf_jseq {
    rf_jv *items;  /* [n] */
    size_t n, pos; /* pos: items that a generator has given already */
    rf_jflavor flavor;
} rf_jseq;
typedef struct rf_jpair rf_jpair;
typedef struct rf_jdict {
    rf_jpair *pairs; /* [n] of cap */
    size_t n, cap;
} rf_jdict;
typedef struct rf_jloop rf_jloop;
typedef struct rf_jmethod rf_jmethod;
typedef struct rf_jmacro rf_jmacro;
typedef struct rf_jobject rf_jobject;
struct rf_jv {
    rf_jkind kind;
    bool is_safe; /* of a string: autoescape leaves it alone */
    union {
        bool b;
        rf_i128 i;
        double f;
        rf_jstr s;
        rf_jseq *seq;
        rf_jdict *dict;
        rf_jloop *loop;
        size_t func;
        rf_jmethod *method;
        rf_jmacro *macro;
        rf_jobject *object;
    };
};
struct rf_jpair {
    rf_jv key, value;
};
struct rf_jloop {
    const rf_jv *items; /* [n] */
    size_t n, i;
    rf_jv seen; /* by loop.changed */
    bool has_seen;
};
struct rf_jmethod {
    rf_jv self;
    rf_str name;
    size_t row; /* in methods.c */
};
struct rf_jobject {
    bool is_joiner;
    rf_jv *items; /* [n] of a cycler; the separator of a joiner */
    size_t n, pos;
};

typedef enum rf_jnode_kind {
    /* expressions */
    JN_CONST,   /* value */
    JN_NAME,    /* name */
    JN_TUPLE,   /* list */
    JN_LIST,    /* list */
    JN_DICT,    /* list of JN_PAIR */
    JN_PAIR,    /* a: b */
    JN_ATTR,    /* a.name */
    JN_ITEM,    /* a[b] */
    JN_SLICE,   /* a:b:c, each may be NULL */
    JN_CALL,    /* a(list) */
    JN_KEYWORD, /* name=a */
    JN_FILTER,  /* a|name(list); a is NULL where a block's text is filtered */
    JN_TEST,    /* a is name(list) */
    JN_NOT,
    JN_NEG,
    JN_POS,
    JN_AND,
    JN_OR,
    JN_BINARY,  /* a name b */
    JN_COMPARE, /* a, then list of JN_OPERAND */
    JN_OPERAND, /* name a */
    JN_CONCAT,  /* list */
    JN_COND,    /* b if a else c */
    JN_NSREF,   /* ns.attr as a target: a is the JN_NAME, name the attribute */
    /* statements */
    JN_TEXT,        /* value */
    JN_PRINT,       /* a */
    JN_IF,          /* list of JN_BRANCH */
    JN_BRANCH,      /* if a (NULL: else) then body */
    JN_FOR,         /* for a in b if c: body, else other */
    JN_SET,         /* a = b */
    JN_SETBLOCK,    /* a = body, filtered by b */
    JN_MACRO,       /* name(list of JN_PARAM) body */
    JN_PARAM,       /* name = a */
    JN_CALLBLOCK,   /* call a with the macro b as caller */
    JN_FILTERBLOCK, /* body filtered by b */
    JN_WITH,        /* list of JN_SET, body */
    JN_GROUP,       /* body: block, generation */
    JN_AUTOESCAPE,  /* a, body */
    JN_BREAK,
    JN_CONTINUE,
} rf_jnode_kind;

typedef struct rf_jnode rf_jnode;
struct rf_jnode {
    rf_jnode_kind kind;
    size_t at; /* byte of the source */
    rf_jnode *next;
    rf_jnode *a, *b, *c, *list, *body, *other;
    rf_str name;
    rf_jv value;
    bool takes_varargs, takes_kwargs, takes_caller; /* of a macro */
};

typedef struct rf_jvar {
    struct rf_jvar *next;
    rf_str name;
    rf_jv value;
} rf_jvar;
typedef struct rf_jscope {
    struct rf_jscope *up;
    rf_jvar *vars;
} rf_jscope;
struct rf_jmacro {
    const rf_jnode *node;
    rf_jscope *scope; /* where it was defined */
};

/* A growing string with its marks. */
typedef struct rf_jbuf {
    char *p;
    uint8_t *input; /* [cap] */
    size_t len, cap;
} rf_jbuf;

typedef enum rf_jflow { JX_GO, JX_BREAK, JX_CONTINUE } rf_jflow;
typedef struct rf_jx { /* one parse or one rendering */
    rf_arena *arena;
    jmp_buf *landing;
    rf_error *e;
    rf_status status;
    rf_str source;
    size_t at; /* where in the source we are */
    size_t steps;
    unsigned depth, macros;
    size_t n_made; /* macros defined so far */
    rf_jscope *scope;
    rf_jbuf *out;
    bool autoescape;
    const struct tm *now;
} rf_jx;

struct rf_jinja {
    rf_arena *arena;
    rf_str source; /* newlines are \n, the last one is gone */
    rf_jnode *body;
};

typedef struct rf_jkw {
    rf_str name;
    rf_jv value;
} rf_jkw;
typedef struct rf_jargs {
    rf_jv *pos; /* [n] */
    size_t n;
    rf_jkw *kw; /* [n_kw] */
    size_t n_kw;
} rf_jargs;

/* context.c: failing, memory, limits */
_Noreturn void rf_jx_fail(rf_jx *c, const char *fmt, ...) RF_PRINTF(2, 3);
_Noreturn void rf_jx_nomem(rf_jx *c, size_t bytes);
void *rf_jx_alloc(rf_jx *c, size_t n, size_t size);
void rf_jx_step(rf_jx *c, size_t n);
void rf_jx_enter(rf_jx *c); /* one level deeper, of evaluation or of a value's own nesting */
void rf_jx_leave(rf_jx *c);
void rf_jbuf_put(rf_jx *c, rf_jbuf *b, rf_jstr s);
void rf_jbuf_text(rf_jx *c, rf_jbuf *b, const char *p, size_t n, bool input);
void rf_jbuf_puts(rf_jx *c, rf_jbuf *b, const char *c_string);
void rf_jbuf_cp(rf_jx *c, rf_jbuf *b, uint32_t cp, bool input);
rf_jv rf_jbuf_value(const rf_jbuf *b);

/* lexer.c */
typedef enum rf_jtoken_kind {
    JT_EOF,
    JT_DATA,
    JT_PRINT_BEGIN,
    JT_PRINT_END,
    JT_BLOCK_BEGIN,
    JT_BLOCK_END,
    JT_NAME,
    JT_CONST, /* a string or a number */
    JT_OP,
} rf_jtoken_kind;
typedef struct rf_jtoken {
    rf_jtoken_kind kind;
    size_t at;
    rf_str text;
    rf_jv value;
} rf_jtoken;
rf_jtoken *rf_jinja_lex(rf_jx *c); /* of c->source; the last one is JT_EOF */
rf_jnode *rf_jinja_parse_tokens(rf_jx *c, const rf_jtoken *tokens);

/* value.c */
rf_jv rf_jv_none(void);
rf_jv rf_jv_bool(bool b);
rf_jv rf_jv_int(rf_i128 i);
rf_jv rf_jv_float(double f);
rf_jv rf_jv_str(rf_jstr s);
rf_jv rf_jv_text(const char *c_string); /* of static life */
rf_jv rf_jv_undef(rf_jx *c, const char *fmt, ...) RF_PRINTF(2, 3);
rf_jv rf_jv_seq(rf_jx *c, rf_jflavor flavor, size_t n); /* of n times none */
rf_jv rf_jv_dict(rf_jx *c, rf_jkind kind, size_t cap);
rf_jstr rf_jstr_cut(rf_jstr s, size_t from, size_t to);
rf_str rf_jstr_raw(rf_jstr s);
size_t rf_jstr_chars(rf_jstr s);
int rf_jstr_next(rf_jstr s, size_t at, uint32_t *cp); /* bytes of the character at, 1..4 */
const char *rf_jv_type(const rf_jv *v);               /* Python's name of its type */
bool rf_jv_is_number(const rf_jv *v);                 /* bool, int or float */
double rf_jv_double(rf_jx *c, const rf_jv *v);
rf_i128 rf_jv_integer(rf_jx *c, const rf_jv *v, const char *what);
size_t rf_jv_count(rf_jx *c, const rf_jv *v, const char *what, size_t max); /* 0 where negative */
bool rf_jv_true(const rf_jv *v);
bool rf_jv_eq(rf_jx *c, const rf_jv *a, const rf_jv *b);
int rf_jv_cmp(rf_jx *c, const rf_jv *a, const rf_jv *b, const char *op);
bool rf_jv_contains(rf_jx *c, const rf_jv *box, const rf_jv *v);
rf_jv *rf_jdict_find(rf_jx *c, const rf_jdict *d, const rf_jv *key);
rf_jv *rf_jdict_get(const rf_jdict *d, const char *key);
void rf_jdict_put(rf_jx *c, rf_jdict *d, rf_jv key, rf_jv value);
/* The items that iterating gives: characters, keys, items.  Empties a generator. */
rf_jseq rf_jv_iter(rf_jx *c, const rf_jv *v);
size_t rf_jv_len(rf_jx *c, const rf_jv *v);
rf_jv rf_jv_import(rf_jx *c, rf_str s, bool input); /* a copy, marked */
rf_jv rf_jv_from_json(rf_jx *c, const rf_json *j, bool input);

/* print.c */
void rf_jv_print(rf_jx *c, rf_jbuf *b, const rf_jv *v); /* str() */
void rf_jv_repr(rf_jx *c, rf_jbuf *b, const rf_jv *v);
rf_jstr rf_jv_string(rf_jx *c, const rf_jv *v);
void rf_jx_print_int(rf_jx *c, rf_jbuf *b, rf_i128 i);
void rf_jx_print_float(rf_jx *c, rf_jbuf *b, double f);
typedef struct rf_jjson {
    bool ascii, sort, is_pretty;
    rf_jstr indent, item_sep, key_sep;
} rf_jjson;
void rf_jv_json(rf_jx *c, rf_jbuf *b, const rf_jv *v, const rf_jjson *how);
rf_jv rf_jx_escape(rf_jx *c, const rf_jv *v); /* for HTML; leaves a safe string alone */

/* text.c: strings as Python has them */
bool rf_cp_is_space(uint32_t cp);
bool rf_cp_is_alpha(uint32_t cp);
bool rf_cp_is_digit(uint32_t cp);
bool rf_cp_is_printable(uint32_t cp);
rf_jstr rf_jstr_upper(rf_jx *c, rf_jstr s);
rf_jstr rf_jstr_lower(rf_jx *c, rf_jstr s);
rf_jstr rf_jstr_swapcase(rf_jx *c, rf_jstr s);
rf_jstr rf_jstr_title(rf_jx *c, rf_jstr s, bool by_word); /* by_word: the filter's rule */
rf_jstr rf_jstr_capitalize(rf_jx *c, rf_jstr s);
rf_jstr rf_jstr_strip(rf_jx *c, rf_jstr s, const rf_jstr *chars, bool left, bool right);
#define RF_JSTR_NONE SIZE_MAX
size_t rf_jstr_find(rf_jx *c, rf_jstr s, rf_jstr what, size_t from);
rf_jstr rf_jstr_replace(rf_jx *c, rf_jstr s, rf_jstr old, rf_jstr by, size_t max);
rf_jv rf_jstr_split(rf_jx *c, rf_jstr s, const rf_jstr *sep, size_t max, bool from_right);
rf_jv rf_jstr_splitlines(rf_jx *c, rf_jstr s, bool keep);
rf_jstr rf_jstr_join(rf_jx *c, rf_jstr sep, const rf_jseq *items);
rf_jstr rf_jstr_center(rf_jx *c, rf_jstr s, size_t width, int side); /* -1 text left, 1 right */
bool rf_jstr_to_int(rf_jstr s, int base, rf_i128 *out);
bool rf_jstr_to_float(rf_jstr s, double *out);

/* format.c */
rf_jv rf_jx_percent(rf_jx *c, rf_jstr fmt, const rf_jv *args);
rf_jv rf_jx_format(rf_jx *c, rf_jstr fmt, const rf_jargs *args);

/* arguments, in args.c: by position or by name, else NULL */
const rf_jv *rf_jarg(const rf_jargs *a, size_t i, const char *name);
const rf_jv *rf_jarg_need(rf_jx *c, const rf_jargs *a, size_t i, const char *name);
rf_jstr rf_jarg_str(rf_jx *c, const rf_jargs *a, size_t i, const char *name);
bool rf_jarg_bool(const rf_jargs *a, size_t i, const char *name, bool otherwise);

/* eval.c, call.c */
rf_jv rf_jx_eval(rf_jx *c, const rf_jnode *n);
rf_jargs rf_jx_args(rf_jx *c, const rf_jnode *list);
rf_jv rf_jx_attr(rf_jx *c, const rf_jv *v, rf_str name);
rf_jv rf_jx_item(rf_jx *c, const rf_jv *v, const rf_jv *key);
rf_jv rf_jx_slice(rf_jx *c, const rf_jv *v, const rf_jv bound[3]);
rf_jv rf_jx_binary(rf_jx *c, rf_str op, const rf_jv *a, const rf_jv *b);
rf_jv rf_jx_call(rf_jx *c, const rf_jv *f, const rf_jargs *args);
rf_jv rf_jx_call_macro(rf_jx *c, const rf_jmacro *m, const rf_jargs *args);
rf_jv rf_jx_lookup(rf_jx *c, rf_str name);
void rf_jx_set(rf_jx *c, rf_str name, rf_jv value);
rf_jflow rf_jx_run(rf_jx *c, const rf_jnode *body);
rf_jscope *rf_jx_push(rf_jx *c, rf_jscope *up);

/* filters.c, tests.c, functions.c, methods.c: the tables */
rf_jv rf_jx_filter(rf_jx *c, rf_str name, const rf_jv *v, const rf_jargs *args);
bool rf_jx_test(rf_jx *c, rf_str name, const rf_jv *v, const rf_jargs *args);
bool rf_jx_function(rf_str name, rf_jv *out); /* a global's value */
rf_jv rf_jx_call_function(rf_jx *c, size_t row, const rf_jargs *args);
bool rf_jx_method(rf_jx *c, const rf_jv *self, rf_str name, rf_jv *out);
rf_jv rf_jx_call_method(rf_jx *c, const rf_jmethod *m, const rf_jargs *args);
rf_jv rf_jx_filter_list(rf_jx *c, rf_str name, const rf_jv *v, const rf_jargs *args, bool *found);
/* A path such as "a.b" or a position, as map(attribute=...) takes it. */
rf_jv rf_jx_path(rf_jx *c, const rf_jv *v, const rf_jv *path);
