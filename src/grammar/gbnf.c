/* gbnf.c - grammars in llama.cpp's notation.
 *
 * rule ::= "text" [a-z^] . name ( ... ) x? x* x+ x{2} x{2,} x{2,5} a | b, comments from # to the end
 * of the line.  A rule ends with its line, but inside parentheses and behind ::= and | lines may
 * break.  The answer matches rule root. */
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/utf8.h"
#include "grammar/frontend.h"

typedef struct parser {
    rf_rules *b;
    rf_str text;
    size_t at;
    int depth;
    rf_map *names;     /* -> rule */
    size_t *first_use; /* [n] offset where rule i was first named, for "not defined" */
    size_t cap_uses;
    rf_error *e;
} parser;

static bool fail_at(parser *p, size_t at, rf_status s, const char *what) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < p->text.len; i++) {
        column = p->text.p[i] == '\n' ? 1 : column + 1;
        line += p->text.p[i] == '\n';
    }
    rf_fail(p->e, s, "GBNF line %zu column %zu: %s", line, column, what);
    return false;
}

static bool malformed(parser *p, const char *what) { return fail_at(p, p->at, RF_EFORMAT, what); }

/* The byte at the place plus i; 0 at the end (a zero byte in the text is refused before). */
static char peek(const parser *p, size_t i) {
    return p->at + i < p->text.len ? p->text.p[p->at + i] : '\0';
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

static void skip_space(parser *p, bool lines) {
    for (;;) {
        char c = peek(p, 0);
        if (c == '#') {
            while (peek(p, 0) && peek(p, 0) != '\n' && peek(p, 0) != '\r')
                p->at++;
        } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
            p->at++;
        } else {
            return;
        }
    }
}

/* ---- names ---- */

static bool read_name(parser *p, rf_str *name) {
    size_t start = p->at;
    while (is_word(peek(p, 0)))
        p->at++;
    *name = (rf_str){p->text.p + start, p->at - start};
    return name->len ? true : malformed(p, "expected the name of a rule (letters, digits, '-')");
}

static uint32_t rule_of(parser *p, rf_str name) {
    uint32_t rule = rf_map_get(p->names, name);
    if (rule != RF_MAP_NONE) return rule;
    rule = rf_rule_add(p->b, name);
    if (rule == UINT32_MAX) return rule;
    if (rule >= p->cap_uses) {
        size_t cap = p->cap_uses ? p->cap_uses * 2 : 64;
        size_t *grown = rf_realloc(p->first_use, p->cap_uses, cap, sizeof *grown);
        if (!grown) {
            rf_fail_nomem(p->e, cap * sizeof *grown);
            return UINT32_MAX;
        }
        p->first_use = grown;
        p->cap_uses = cap;
    }
    p->first_use[rule] = (size_t)(name.p - p->text.p);
    if (rf_map_put(p->names, name, rule, NULL) != RF_OK) {
        rf_fail_nomem(p->e, name.len);
        return UINT32_MAX;
    }
    return rule;
}

/* ---- characters ---- */

static bool read_hex(parser *p, int digits, uint32_t *c) {
    *c = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        char d = peek(p, 0);
        uint32_t value = d >= '0' && d <= '9'   ? (uint32_t)(d - '0')
                         : d >= 'a' && d <= 'f' ? (uint32_t)(d - 'a' + 10)
                         : d >= 'A' && d <= 'F' ? (uint32_t)(d - 'A' + 10)
                                                : 16;
        if (value == 16) return malformed(p, "expected a hexadecimal digit");
        *c = *c << 4 | value;
    }
    if (*c <= 0x10FFFF && (*c < 0xD800 || *c > 0xDFFF)) return true;
    return malformed(p, "this is not the number of a Unicode character");
}

static bool read_escape(parser *p, uint32_t *c) {
    static const char names[] = "trn\\\"[]", values[] = "\t\r\n\\\"[]";
    char kind = peek(p, 1);
    p->at += 2;
    if (kind == 'x') return read_hex(p, 2, c);
    if (kind == 'u') return read_hex(p, 4, c);
    if (kind == 'U') return read_hex(p, 8, c);
    const char *at = kind ? strchr(names, kind) : NULL;
    if (at) *c = (uint32_t)(unsigned char)values[at - names];
    if (at) return true;
    p->at -= 2;
    return malformed(p, "unknown escape; known are \\t \\r \\n \\\\ \\\" \\[ \\] \\x \\u \\U");
}

static bool read_char(parser *p, uint32_t *c) {
    if (peek(p, 0) == '\\') return read_escape(p, c);
    if (p->at >= p->text.len) return malformed(p, "the grammar ends inside quotes or brackets");
    p->at += (size_t)rf_utf8_decode(p->text.p + p->at, p->text.len - p->at, c);
    return true; /* the text is valid UTF-8 */
}

static const rf_expr *read_literal(parser *p) {
    rf_buf bytes = {0};
    bool ok = true;
    p->at++;
    while (ok && peek(p, 0) != '"') {
        uint32_t c = 0;
        char utf8[4];
        ok = read_char(p, &c);
        rf_buf_put(&bytes, utf8, ok ? (size_t)rf_utf8_encode(c, utf8) : 0);
    }
    p->at += ok;
    const rf_expr *x = NULL;
    if (bytes.failed)
        rf_fail_nomem(p->e, bytes.len);
    else if (ok)
        x = rf_x_bytes(p->b, rf_buf_str(&bytes));
    rf_buf_free(&bytes);
    return x;
}

typedef struct ranges {
    rf_range *p;
    size_t n, cap;
} ranges;

static bool add_range(parser *p, ranges *r, rf_range range) {
    if (r->n == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 8;
        rf_range *grown = rf_realloc(r->p, r->cap, cap, sizeof *grown);
        if (!grown) {
            rf_fail_nomem(p->e, cap * sizeof *grown);
            return false;
        }
        r->p = grown;
        r->cap = cap;
    }
    r->p[r->n++] = range;
    return true;
}

static bool read_range(parser *p, ranges *r) {
    rf_range range = {0};
    if (!read_char(p, &range.lo)) return false;
    range.hi = range.lo;
    if (peek(p, 0) == '-' && peek(p, 1) != ']') {
        p->at++;
        if (!read_char(p, &range.hi)) return false;
        if (range.hi < range.lo) return malformed(p, "this range ends before it starts");
    }
    return add_range(p, r, range);
}

static const rf_expr *read_class(parser *p) {
    ranges r = {0};
    bool ok = true, negated = peek(p, 1) == '^';
    p->at += negated ? 2 : 1;
    while (ok && peek(p, 0) != ']')
        ok = read_range(p, &r);
    p->at += ok;
    const rf_expr *x = ok ? rf_x_set(p->b, r.p, r.n, negated, false) : NULL;
    rf_free(r.p);
    return x;
}

/* ---- expressions ---- */

static const rf_expr *read_choice(parser *p, bool nested);

static const rf_expr *read_group(parser *p) {
    p->at++;
    skip_space(p, true);
    if (++p->depth > RF_GRAMMAR_MAX_DEPTH) {
        fail_at(p, p->at, RF_EUNSUPPORTED, "parentheses are nested deeper than 200 levels");
        return NULL;
    }
    const rf_expr *x = read_choice(p, true);
    p->depth--;
    if (!x) return NULL;
    if (peek(p, 0) != ')') {
        malformed(p, "expected ')'");
        return NULL;
    }
    p->at++;
    return x;
}

static const rf_expr *read_call(parser *p) {
    rf_str name;
    if (!read_name(p, &name)) return NULL;
    return rf_x_call(p->b, rule_of(p, name));
}

/* One element; *found is false, and nothing read, where none starts. */
static const rf_expr *read_element(parser *p, bool *found) {
    static const rf_range any = {0, 0x10FFFF};
    char c = peek(p, 0);
    *found = true;
    if (c == '"') return read_literal(p);
    if (c == '[') return read_class(p);
    if (c == '(') return read_group(p);
    if (is_word(c)) return read_call(p);
    if (c == '.') {
        p->at++;
        return rf_x_set(p->b, &any, 1, false, false);
    }
    if (c == '<' || (c == '!' && peek(p, 1) == '<')) {
        fail_at(p, p->at, RF_EUNSUPPORTED, "token references are not supported; give their text");
        return NULL;
    }
    *found = false;
    return NULL;
}

static bool read_number(parser *p, uint32_t *n) {
    if (peek(p, 0) < '0' || peek(p, 0) > '9') return malformed(p, "expected a number");
    for (*n = 0; peek(p, 0) >= '0' && peek(p, 0) <= '9'; p->at++) {
        *n = *n * 10 + (uint32_t)(peek(p, 0) - '0');
        if (*n > RF_GRAMMAR_MAX_REPEAT)
            return fail_at(p, p->at, RF_EUNSUPPORTED, "repeated more than 1000000 times");
    }
    return true;
}

static bool read_braces(parser *p, uint32_t *min, uint32_t *max) {
    p->at++;
    skip_space(p, true);
    if (!read_number(p, min)) return false;
    *max = *min;
    skip_space(p, true);
    if (peek(p, 0) == ',') {
        p->at++;
        skip_space(p, true);
        *max = RF_X_MANY;
        if (peek(p, 0) != '}' && !read_number(p, max)) return false;
        skip_space(p, true);
    }
    if (peek(p, 0) != '}') return malformed(p, "expected '}'");
    if (*max < *min) return malformed(p, "this repetition's maximum lies below its minimum");
    p->at++;
    return true;
}

/* x with the operators that follow it. */
static const rf_expr *read_repeats(parser *p, const rf_expr *x, bool nested) {
    for (int n = 0; x; n++) {
        uint32_t min = 0, max = RF_X_MANY;
        skip_space(p, nested);
        char c = peek(p, 0);
        if (!c || !strchr("*+?{", c)) return x;
        if (n == 16) {
            fail_at(p, p->at, RF_EUNSUPPORTED, "more than 16 repetitions of one element");
            return NULL;
        }
        if (c == '+') min = 1;
        if (c == '?') max = 1;
        if (c != '{') p->at++;
        if (c == '{' && !read_braces(p, &min, &max)) return NULL;
        x = rf_x_repeat(p->b, x, min, max);
    }
    return x;
}

static const rf_expr *read_sequence(parser *p, bool nested) {
    rf_parts parts = {0};
    bool found = true;
    while (found && !parts.failed) {
        const rf_expr *x = read_element(p, &found);
        if (!found) break;
        rf_parts_add(&parts, x ? read_repeats(p, x, nested) : NULL);
    }
    char c = peek(p, 0);
    if (!parts.failed && c && strchr("*+?{", c)) {
        malformed(p, "nothing stands before this repetition");
        parts.failed = true;
    }
    return rf_parts_seq(p->b, &parts);
}

static const rf_expr *read_choice(parser *p, bool nested) {
    rf_parts parts = {0};
    rf_parts_add(&parts, read_sequence(p, nested));
    while (!parts.failed && peek(p, 0) == '|') {
        p->at++;
        skip_space(p, true);
        rf_parts_add(&parts, read_sequence(p, nested));
    }
    return rf_parts_alt(p->b, &parts);
}

static bool read_rule(parser *p) {
    rf_str name;
    size_t start = p->at;
    if (!read_name(p, &name)) return false;
    skip_space(p, false);
    uint32_t rule = rule_of(p, name);
    if (rule == UINT32_MAX) return false;
    if (p->b->rule[rule].x) return fail_at(p, start, RF_EFORMAT, "this rule is defined twice");
    if (peek(p, 0) != ':' || peek(p, 1) != ':' || peek(p, 2) != '=')
        return malformed(p, "expected '::='");
    p->at += 3;
    skip_space(p, true);
    const rf_expr *x = read_choice(p, false);
    if (!x) return false;
    p->b->rule[rule].x = x;
    if (p->at < p->text.len && peek(p, 0) != '\n' && peek(p, 0) != '\r')
        return malformed(p, "expected an element, '|' or the end of the line");
    skip_space(p, true);
    return true;
}

static bool read_all(parser *p, uint32_t *root) {
    skip_space(p, true);
    while (p->at < p->text.len)
        if (!read_rule(p)) return false;
    *root = rf_map_get(p->names, RF_STR("root"));
    if (*root == RF_MAP_NONE) return malformed(p, "there is no rule 'root'");
    for (size_t i = 0; i < p->b->n; i++)
        if (!p->b->rule[i].x) return fail_at(p, p->first_use[i], RF_EFORMAT, "undefined rule");
    return true;
}

rf_status rf_gbnf_parse(rf_rules *b, rf_str text, uint32_t *root) {
    rf_error e = {0};
    parser p = {.b = b, .text = text, .e = b->e ? b->e : &e};
    size_t valid = rf_utf8_valid_prefix(text.p, text.len);
    const char *zero = text.len ? memchr(text.p, 0, text.len) : NULL;
    bool ok = false;
    if (valid != text.len)
        fail_at(&p, valid, RF_EFORMAT, "this is not UTF-8");
    else if (zero)
        fail_at(&p, (size_t)(zero - text.p), RF_EFORMAT, "a zero byte");
    else if (rf_map_create(&p.names, 64) != RF_OK)
        rf_fail_nomem(p.e, 64);
    else
        ok = read_all(&p, root);
    rf_map_free(p.names);
    rf_free(p.first_use);
    return ok ? RF_OK : p.e->status;
}
