/* regex.c - regular expressions, the part of them that is regular.
 *
 * Characters, ., [...], groups, |, * + ? {m,n} (greedy or lazy, which match the same texts), \d \w
 * \s and their opposites over ASCII, ^ and $ at the ends of a whole alternative.  Refused:
 * back-references, look-around, \b, \p, possessive and atomic groups, flags. */
#include <string.h>

#include "base/utf8.h"
#include "grammar/frontend.h"

typedef struct parser {
    rf_rules *b;
    rf_str text;
    size_t at;
    int depth;
    bool search, in_json;
    const char *where;
    rf_error *e;
} parser;

static const rf_range any_char = {0, 0x10FFFF};
static const rf_range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
static const rf_range digits[] = {{'0', '9'}};
static const rf_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const rf_range spaces[] = {{'\t', '\r'}, {' ', ' '}};

static const rf_expr *refuse(parser *p, rf_status s, const char *what) {
    rf_fail(p->e, s, "%s: offset %zu: %s", p->where, p->at, what);
    return NULL;
}

static const rf_expr *malformed(parser *p, const char *what) { return refuse(p, RF_EFORMAT, what); }

static const rf_expr *unsupported(parser *p, const char *what) {
    return refuse(p, RF_EUNSUPPORTED, what);
}

static char peek(const parser *p, size_t i) {
    return p->at + i < p->text.len ? p->text.p[p->at + i] : '\0';
}

static bool at_end(const parser *p) { return p->at >= p->text.len; }

/* ---- sets of characters ---- */

typedef struct set {
    rf_range *r;
    size_t n, cap;
    bool failed;
} set;

static void add(set *s, const rf_range *r, size_t n) {
    for (size_t i = 0; i < n && !s->failed; i++) {
        if (s->n == s->cap) {
            size_t cap = s->cap ? s->cap * 2 : 8;
            rf_range *grown = rf_realloc(s->r, s->cap, cap, sizeof *grown);
            s->failed = !grown;
            if (!grown) return;
            s->r = grown;
            s->cap = cap;
        }
        s->r[s->n++] = r[i];
    }
}

/* Everything but r[0..n), which is sorted. */
static void add_others(set *s, const rf_range *r, size_t n) {
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (r[i].lo > next) add(s, &(rf_range){next, r[i].lo - 1}, 1);
        next = r[i].hi + 1;
    }
    add(s, &(rf_range){next, 0x10FFFF}, 1);
}

/* Adds the class that the letter behind a backslash names; false when it names none. */
static bool add_class(set *s, char letter) {
    static const struct {
        char letter;
        const rf_range *r;
        size_t n;
    } classes[] = {{'d', digits, RF_COUNT(digits)},
                   {'w', words, RF_COUNT(words)},
                   {'s', spaces, RF_COUNT(spaces)}};
    for (size_t i = 0; i < RF_COUNT(classes); i++) {
        if (letter == classes[i].letter) add(s, classes[i].r, classes[i].n);
        if (letter == classes[i].letter - 'a' + 'A') add_others(s, classes[i].r, classes[i].n);
        if ((letter | 0x20) == classes[i].letter) return true;
    }
    return false;
}

/* ---- single characters ---- */

static bool read_hex(parser *p, size_t n_digits, uint32_t *c) {
    *c = 0;
    for (size_t i = 0; i < n_digits; i++, p->at++) {
        char d = peek(p, 0);
        uint32_t value = d >= '0' && d <= '9'   ? (uint32_t)(d - '0')
                         : d >= 'a' && d <= 'f' ? (uint32_t)(d - 'a' + 10)
                         : d >= 'A' && d <= 'F' ? (uint32_t)(d - 'A' + 10)
                                                : 16;
        if (value == 16) {
            malformed(p, "expected a hexadecimal digit");
            return false;
        }
        *c = *c << 4 | value;
    }
    if (*c <= 0x10FFFF && (*c < 0xD800 || *c > 0xDFFF)) return true;
    malformed(p, "this is not the number of a Unicode character");
    return false;
}

/* The control character that a letter behind a backslash names; -1 when it names none. */
static int control_of(const parser *p, bool in_class) {
    static const char names[] = "tnrfv", values[] = "\t\n\r\f\v";
    char kind = peek(p, 0), next = peek(p, 1);
    if (kind == '0') return next >= '0' && next <= '9' ? -1 : 0;
    if (kind == 'b') return in_class ? '\b' : -1;
    const char *at = kind ? strchr(names, kind) : NULL;
    return at ? values[at - names] : -1;
}

/* Behind the backslash, where no class is named. */
static bool read_escape(parser *p, bool in_class, uint32_t *c) {
    if (at_end(p)) {
        malformed(p, "a backslash with nothing behind it");
        return false;
    }
    char kind = peek(p, 0);
    if (kind == 'x' || kind == 'u' || kind == 'U') {
        p->at++;
        return read_hex(p, kind == 'x' ? 2 : kind == 'u' ? 4 : 8, c);
    }
    int control = control_of(p, in_class);
    if (control >= 0) {
        *c = (uint32_t)control;
        p->at++;
        return true;
    }
    if ((kind >= '0' && kind <= '9') || (kind >= 'a' && kind <= 'z') ||
        (kind >= 'A' && kind <= 'Z')) {
        unsupported(p, "this escape is not supported (known: \\d \\w \\s \\D \\W \\S \\t \\n \\r "
                       "\\f \\v \\0 \\xHH \\uHHHH \\UHHHHHHHH and punctuation)");
        return false;
    }
    p->at += (size_t)rf_utf8_decode(p->text.p + p->at, p->text.len - p->at, c);
    return true;
}

static bool read_char(parser *p, bool in_class, uint32_t *c) {
    if (peek(p, 0) == '\\') {
        p->at++;
        return read_escape(p, in_class, c);
    }
    p->at += (size_t)rf_utf8_decode(p->text.p + p->at, p->text.len - p->at, c);
    return true;
}

/* ---- [...] ---- */

/* One member of a class: a character, a range or a named class. */
static bool read_member(parser *p, set *s) {
    rf_range r = {0};
    if (peek(p, 0) == '[' && (peek(p, 1) == ':' || peek(p, 1) == '.' || peek(p, 1) == '=')) {
        unsupported(p, "POSIX classes are not supported");
        return false;
    }
    if (peek(p, 0) == '\\' && add_class(s, peek(p, 1))) {
        p->at += 2;
        if (peek(p, 0) != '-' || peek(p, 1) == ']') return true;
        malformed(p, "a class cannot start a range");
        return false;
    }
    if (!read_char(p, true, &r.lo)) return false;
    r.hi = r.lo;
    if (peek(p, 0) == '-' && peek(p, 1) != ']' && p->at + 1 < p->text.len) {
        p->at++;
        set none = {0};
        bool is_class = peek(p, 0) == '\\' && add_class(&none, peek(p, 1));
        rf_free(none.r);
        if (is_class) {
            malformed(p, "a class cannot end a range");
            return false;
        }
        if (!read_char(p, true, &r.hi)) return false;
        if (r.hi < r.lo) {
            malformed(p, "this range ends before it starts");
            return false;
        }
    }
    add(s, &r, 1);
    return true;
}

static const rf_expr *read_class(parser *p) {
    set s = {0};
    bool negated = peek(p, 1) == '^', ok = true;
    p->at += negated ? 2 : 1;
    if (peek(p, 0) == ']') return unsupported(p, "an empty class; write \\] for a bracket");
    while (ok && !at_end(p) && peek(p, 0) != ']')
        ok = read_member(p, &s);
    if (ok && at_end(p)) ok = malformed(p, "']' is missing") != NULL;
    p->at += ok;
    if (s.failed) rf_fail_nomem(p->e, s.cap * sizeof *s.r);
    const rf_expr *x = ok && !s.failed ? rf_x_set(p->b, s.r, s.n, negated, p->in_json) : NULL;
    rf_free(s.r);
    return x;
}

/* ---- expressions ---- */

static const rf_expr *read_choice(parser *p);

static const rf_expr *read_group(parser *p) {
    p->at++;
    if (peek(p, 0) == '?') {
        bool python = peek(p, 1) == 'P';
        char kind = peek(p, python ? 2 : 1), after = peek(p, 2);
        if (!python && kind == ':') {
            p->at += 2;
        } else if (kind == '<' && (python || (after != '=' && after != '!'))) {
            const char *end = memchr(p->text.p + p->at, '>', p->text.len - p->at);
            if (!end) return malformed(p, "the name of this group has no end");
            p->at = (size_t)(end - p->text.p) + 1;
        } else {
            return unsupported(p, "only (...), (?:...) and named groups are supported");
        }
    }
    if (++p->depth > RF_GRAMMAR_MAX_DEPTH)
        return unsupported(p, "groups are nested deeper than 200 levels");
    const rf_expr *x = read_choice(p);
    p->depth--;
    if (!x) return NULL;
    if (peek(p, 0) != ')' || at_end(p)) return malformed(p, "')' is missing");
    p->at++;
    return x;
}

static const rf_expr *read_atom(parser *p) {
    char c = peek(p, 0);
    if (c == '(') return read_group(p);
    if (c == '[') return read_class(p);
    if (c == '.') {
        p->at++;
        return rf_x_set(p->b, line_ends, RF_COUNT(line_ends), true, p->in_json);
    }
    if (c == '^' || c == '$')
        return unsupported(p, "^ and $ are supported at the ends of the whole expression or of its "
                              "outermost alternatives only");
    if (c == '*' || c == '+' || c == '?' || c == '{')
        return malformed(p, "nothing stands before this repetition (write \\ before a literal "
                            "character)");
    set s = {0};
    if (c == '\\' && add_class(&s, peek(p, 1))) {
        p->at += 2;
    } else {
        rf_range r = {0};
        if (!read_char(p, false, &r.lo)) return NULL;
        r.hi = r.lo;
        add(&s, &r, 1);
    }
    if (s.failed) rf_fail_nomem(p->e, sizeof *s.r);
    const rf_expr *x = s.failed ? NULL : rf_x_set(p->b, s.r, s.n, false, p->in_json);
    rf_free(s.r);
    return x;
}

static bool read_number(parser *p, uint32_t *n) {
    if (peek(p, 0) < '0' || peek(p, 0) > '9') {
        unsupported(p, "'{' starts no {m}, {m,} or {m,n}; write \\{ for a brace");
        return false;
    }
    for (*n = 0; peek(p, 0) >= '0' && peek(p, 0) <= '9'; p->at++) {
        *n = *n * 10 + (uint32_t)(peek(p, 0) - '0');
        if (*n <= RF_GRAMMAR_MAX_REPEAT) continue;
        unsupported(p, "repeated more than 1000000 times");
        return false;
    }
    return true;
}

static bool read_braces(parser *p, uint32_t *min, uint32_t *max) {
    if (!read_number(p, min)) return false;
    *max = *min;
    if (peek(p, 0) == ',') {
        p->at++;
        *max = RF_X_MANY;
        if (peek(p, 0) != '}' && !read_number(p, max)) return false;
    }
    if (peek(p, 0) != '}' || *max < *min) {
        malformed(p, "this is not {m}, {m,} or {m,n} with m <= n");
        return false;
    }
    p->at++;
    return true;
}

static const rf_expr *read_repeat(parser *p) {
    const rf_expr *x = read_atom(p);
    char c = peek(p, 0);
    if (!x || !c || !strchr("*+?{", c)) return x;
    uint32_t min = c == '+', max = c == '?' ? 1 : RF_X_MANY;
    p->at++;
    if (c == '{' && !read_braces(p, &min, &max)) return NULL;
    if (peek(p, 0) == '?') p->at++; /* lazy: the same texts */
    char next = peek(p, 0);
    if (next && strchr("*+?{", next))
        return unsupported(p, "a repetition of a repetition (possessive or doubled); use a group");
    return rf_x_repeat(p->b, x, min, max);
}

static bool alternative_ends(const parser *p) {
    return at_end(p) || peek(p, 0) == '|' || peek(p, 0) == ')';
}

/* An alternative; outermost ones may be anchored, and in a search stand anywhere otherwise. */
static const rf_expr *read_sequence(parser *p) {
    rf_parts parts = {0};
    bool outermost = p->depth == 0;
    bool from_start = outermost && peek(p, 0) == '^', to_end = false;
    p->at += from_start;
    const rf_expr *anything = NULL;
    if (outermost && p->search) {
        anything = rf_x_repeat(p->b, rf_x_set(p->b, &any_char, 1, false, p->in_json), 0, RF_X_MANY);
        if (!from_start) rf_parts_add(&parts, anything);
    }
    while (!parts.failed && !to_end && !alternative_ends(p)) {
        size_t at = p->at;
        to_end =
            outermost && peek(p, 0) == '$' && (at + 1 == p->text.len || p->text.p[at + 1] == '|');
        if (to_end)
            p->at++;
        else
            rf_parts_add(&parts, read_repeat(p));
    }
    if (anything && !to_end) rf_parts_add(&parts, anything);
    return rf_parts_seq(p->b, &parts);
}

static const rf_expr *read_choice(parser *p) {
    rf_parts parts = {0};
    rf_parts_add(&parts, read_sequence(p));
    while (!parts.failed && peek(p, 0) == '|') {
        p->at++;
        rf_parts_add(&parts, read_sequence(p));
    }
    return rf_parts_alt(p->b, &parts);
}

const rf_expr *rf_regex_parse(rf_rules *b, rf_str text, bool search, bool in_json,
                              const char *where) {
    parser p = {.b = b, .text = text, .search = search, .in_json = in_json, .where = where};
    p.e = b->e;
    p.at = rf_utf8_valid_prefix(text.p, text.len);
    if (p.at != text.len) return malformed(&p, "this is not UTF-8");
    p.at = 0;
    const rf_expr *x = read_choice(&p);
    if (x && !at_end(&p)) return malformed(&p, "')' without '('");
    return x;
}
