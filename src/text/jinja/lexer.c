/* lexer.c - a template's source as tokens, with the white space that trim_blocks, lstrip_blocks and
 * the signs - and + take away.  Not a parser: it only knows brackets, to tell }} from two of them.
 */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/internal.h"

typedef struct lexer {
    rf_jx *c;
    const char *s;
    size_t n, at;
    rf_jtoken *tokens;
    size_t n_tokens, cap;
    size_t brackets; /* open ones of the expression */
} lexer;

static rf_jtoken *emit(lexer *l, rf_jtoken_kind kind, size_t from, size_t to) {
    if (l->n_tokens == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        rf_jtoken *grown = rf_jx_alloc(l->c, cap, sizeof *grown);
        if (l->n_tokens) memcpy(grown, l->tokens, l->n_tokens * sizeof *grown);
        l->tokens = grown;
        l->cap = cap;
    }
    rf_jtoken *t = &l->tokens[l->n_tokens++];
    *t = (rf_jtoken){.kind = kind, .at = from, .text = {l->s + from, to - from}};
    return t;
}

static bool is_space(char ch) { return ch == ' ' || (ch >= '\t' && ch <= '\r'); }
static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }
static bool is_name(char ch) {
    return ch == '_' || is_digit(ch) || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
           (unsigned char)ch >= 0x80;
}
static bool is_at(const lexer *l, size_t at, const char *what) {
    size_t n = strlen(what);
    return n <= l->n - at && memcmp(l->s + at, what, n) == 0;
}
static size_t skip_space(const lexer *l, size_t at) {
    while (at < l->n && is_space(l->s[at])) {
        at++;
    }
    return at;
}
static size_t find(const lexer *l, size_t at, const char *what) {
    while (at < l->n && !is_at(l, at, what)) {
        at++;
    }
    return at;
}

/* The text before a tag, less what the tag's sign and lstrip_blocks take. */
static void emit_data(lexer *l, size_t from, size_t to, char sign, bool is_print) {
    if (sign == '-') {
        while (to > from && is_space(l->s[to - 1])) {
            to--;
        }
    } else if (sign != '+' && !is_print) {
        size_t line = to;
        while (line > from && l->s[line - 1] != '\n' && is_space(l->s[line - 1])) {
            line--;
        }
        if (line == 0 || l->s[line - 1] == '\n') to = line;
    }
    if (to > from) emit(l, JT_DATA, from, to);
}

/* Behind a block's or comment's end at l->at: -x} takes white space, x} one newline, +x} nothing.
 */
static void trim_after(lexer *l, char sign) {
    if (sign == '-') {
        l->at = skip_space(l, l->at);
    } else if (sign != '+' && l->at < l->n && l->s[l->at] == '\n') {
        l->at++;
    }
}

static char sign_at(const lexer *l, size_t at) {
    return at < l->n && (l->s[at] == '-' || l->s[at] == '+') ? l->s[at] : '\0';
}

static void skip_comment(lexer *l, size_t body) {
    size_t end = find(l, body, "#}");
    if (end == l->n) rf_jx_fail(l->c, "a comment without its end: expected #}");
    char sign = end > body ? sign_at(l, end - 1) : '\0';
    l->at = end + 2;
    trim_after(l, sign);
}

/* At {% with its sign behind it: true where it reads "WORD %}"; *end is then behind the tag. */
static bool is_tag(const lexer *l, size_t at, const char *word, size_t *end, char *end_sign) {
    at = skip_space(l, at);
    if (!is_at(l, at, word)) return false;
    at = skip_space(l, at + strlen(word));
    *end_sign = sign_at(l, at);
    if (*end_sign) at++;
    if (!is_at(l, at, "%}")) return false;
    *end = at + 2;
    return true;
}

static void lex_raw(lexer *l, size_t body, char begin_sign) {
    size_t from = begin_sign == '-' ? skip_space(l, body) : body;
    for (size_t at = find(l, from, "{%"); at < l->n; at = find(l, at + 2, "{%")) {
        char sign = sign_at(l, at + 2), end_sign;
        size_t end;
        if (is_tag(l, at + 2 + (sign != '\0'), "endraw", &end, &end_sign)) {
            emit_data(l, from, at, sign, false);
            l->at = end;
            trim_after(l, end_sign);
            return;
        }
    }
    rf_jx_fail(l->c, "raw without its end: expected {%% endraw %%}");
}

static uint32_t hex(lexer *l, size_t at, size_t digits) {
    uint32_t v = 0;
    for (size_t i = 0; i < digits; i++) {
        char ch = at + i < l->n ? l->s[at + i] : '\0';
        uint32_t d = ch >= '0' && ch <= '9'   ? (uint32_t)(ch - '0')
                     : ch >= 'a' && ch <= 'f' ? (uint32_t)(ch - 'a' + 10)
                     : ch >= 'A' && ch <= 'F' ? (uint32_t)(ch - 'A' + 10)
                                              : 16;
        if (d == 16) rf_jx_fail(l->c, "an escape without its %zu hexadecimal digits", digits);
        v = v * 16 + d;
    }
    return v;
}

/* The escape at s[at], which is the letter behind the backslash; returns its bytes. */
static size_t lex_escape(lexer *l, size_t at, rf_jbuf *b) {
    static const char letters[] = "abfnrtv\\'\"", bytes[] = "\a\b\f\n\r\t\v\\'\"";
    char ch = l->s[at];
    const char *known = ch ? strchr(letters, ch) : NULL;
    if (known) {
        rf_jbuf_text(l->c, b, bytes + (known - letters), 1, false);
        return 1;
    }
    if (ch == '\n') return 1;
    if (ch == 'x' || ch == 'u' || ch == 'U') {
        size_t digits = ch == 'x' ? 2 : ch == 'u' ? 4 : 8;
        rf_jbuf_cp(l->c, b, hex(l, at + 1, digits), false);
        return 1 + digits;
    }
    if (ch >= '0' && ch <= '7') {
        uint32_t v = 0;
        size_t i = 0;
        for (; i < 3 && at + i < l->n && l->s[at + i] >= '0' && l->s[at + i] <= '7'; i++) {
            v = v * 8 + (uint32_t)(l->s[at + i] - '0');
        }
        rf_jbuf_cp(l->c, b, v, false);
        return i;
    }
    rf_jbuf_puts(l->c, b, "\\"); /* an unknown escape stays as it is */
    rf_jbuf_text(l->c, b, &ch, 1, false);
    return 1;
}

static void lex_string(lexer *l) {
    size_t from = l->at, at = from + 1;
    char quote = l->s[from];
    rf_jbuf b = {0};
    for (;;) {
        size_t plain = at;
        while (at < l->n && l->s[at] != quote && l->s[at] != '\\') {
            at++;
        }
        rf_jbuf_text(l->c, &b, l->s + plain, at - plain, false);
        if (at >= l->n || (l->s[at] == '\\' && at + 1 >= l->n)) {
            rf_jx_fail(l->c, "a string without its end: expected %c", quote);
        }
        if (l->s[at] == quote) break;
        at += 1 + lex_escape(l, at + 1, &b);
    }
    l->at = at + 1;
    rf_jtoken *t = emit(l, JT_CONST, from, l->at);
    t->value = rf_jbuf_value(&b);
    t->value.s.input = NULL;
}

static size_t skip_digits(const lexer *l, size_t at) {
    while (at < l->n &&
           (is_digit(l->s[at]) || (l->s[at] == '_' && at + 1 < l->n && is_digit(l->s[at + 1])))) {
        at++;
    }
    return at;
}

static void lex_number(lexer *l) {
    size_t from = l->at, end = skip_digits(l, from);
    bool is_float = false;
    if (from == 0 || l->s[from - 1] != '.') { /* in a.0.1 the 0 is a position */
        if (end + 1 < l->n && l->s[end] == '.' && is_digit(l->s[end + 1])) {
            end = skip_digits(l, end + 1);
            is_float = true;
        }
        size_t exp = end + 1;
        if (end < l->n && (l->s[end] == 'e' || l->s[end] == 'E')) {
            if (exp < l->n && (l->s[exp] == '+' || l->s[exp] == '-')) exp++;
            if (exp < l->n && is_digit(l->s[exp])) {
                end = skip_digits(l, exp);
                is_float = true;
            }
        }
    }
    char digits[128];
    size_t n = 0;
    for (size_t i = from; i < end; i++) {
        if (l->s[i] == '_') continue;
        if (n == sizeof digits) rf_jx_fail(l->c, "a number of more than %zu digits", n);
        digits[n++] = l->s[i];
    }
    rf_jtoken *t = emit(l, JT_CONST, from, end);
    rf_jstr text = {digits, NULL, n};
    l->at = end;
    if (is_float) {
        double f = 0;
        rf_jstr_to_float(text, &f);
        t->value = rf_jv_float(f);
    } else {
        rf_i128 i;
        if (!rf_jstr_to_int(text, 10, &i)) rf_jx_fail(l->c, "an integer beyond 127 bits");
        t->value = rf_jv_int(i);
    }
}

static void lex_operator(lexer *l) {
    static const char *const ops[] = {"**", "//", "==", "!=", ">=", "<=", "+", "-", "/",
                                      "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                      ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (size_t i = 0; i < RF_COUNT(ops); i++) {
        if (!is_at(l, l->at, ops[i])) continue;
        size_t from = l->at;
        char ch = l->s[from];
        if (strchr("([{", ch)) l->brackets++;
        if (strchr(")]}", ch)) {
            if (l->brackets == 0) rf_jx_fail(l->c, "%c without its beginning", ch);
            l->brackets--;
        }
        l->at += strlen(ops[i]);
        emit(l, JT_OP, from, l->at);
        return;
    }
    rf_jx_fail(l->c, "unexpected character %c: expected an expression",
               l->s[l->at] < ' ' ? '?' : l->s[l->at]);
}

/* True, with the end token written, where the tag ends here. */
static bool lex_end(lexer *l, bool is_print) {
    char sign = sign_at(l, l->at);
    if (is_print && sign == '+') sign = '\0'; /* only blocks know it */
    size_t at = l->at + (sign != '\0');
    if (l->brackets || !is_at(l, at, is_print ? "}}" : "%}")) return false;
    emit(l, is_print ? JT_PRINT_END : JT_BLOCK_END, l->at, at + 2);
    l->at = at + 2;
    if (!is_print) {
        trim_after(l, sign);
    } else if (sign == '-') {
        l->at = skip_space(l, l->at);
    }
    return true;
}

static void lex_tag(lexer *l, bool is_print) {
    size_t open = l->at;
    l->brackets = 0;
    for (;;) {
        l->at = skip_space(l, l->at);
        l->c->at = l->at;
        if (l->at >= l->n) {
            l->c->at = open;
            rf_jx_fail(l->c, "a tag without its end: expected %s", is_print ? "}}" : "%}");
        }
        if (lex_end(l, is_print)) return;
        char ch = l->s[l->at];
        if (ch == '\'' || ch == '"') {
            lex_string(l);
        } else if (is_digit(ch)) {
            lex_number(l);
        } else if (is_name(ch)) {
            size_t from = l->at;
            while (l->at < l->n && is_name(l->s[l->at])) {
                l->at++;
            }
            emit(l, JT_NAME, from, l->at);
        } else {
            lex_operator(l);
        }
    }
}

rf_jtoken *rf_jinja_lex(rf_jx *c) {
    lexer l = {.c = c, .s = c->source.p, .n = c->source.len};
    while (l.at < l.n) {
        size_t from = l.at, tag = from;
        while (tag < l.n &&
               !(l.s[tag] == '{' && tag + 1 < l.n && strchr("{%#", l.s[tag + 1]) && l.s[tag + 1])) {
            tag++;
        }
        if (tag == l.n) {
            emit(&l, JT_DATA, from, tag);
            break;
        }
        c->at = tag;
        char kind = l.s[tag + 1], sign = sign_at(&l, tag + 2), end_sign;
        size_t body = tag + 2 + (sign != '\0'), end;
        emit_data(&l, from, tag, sign, kind == '{');
        l.at = body;
        if (kind == '#') {
            skip_comment(&l, body);
        } else if (kind == '%' && is_tag(&l, body, "raw", &end, &end_sign)) {
            lex_raw(&l, end, end_sign);
        } else {
            emit(&l, kind == '{' ? JT_PRINT_BEGIN : JT_BLOCK_BEGIN, tag, body);
            lex_tag(&l, kind == '{');
        }
    }
    emit(&l, JT_EOF, l.n, l.n);
    return l.tokens;
}
