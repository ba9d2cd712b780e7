/* text.c - strings as Python has them: case, white space, splitting, joining, replacing, numbers.
 *
 * Every function keeps the marks of the bytes it copies; what it makes of a byte has that byte's.
 */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/jinja/internal.h"

/* Upper case that is more than one character (Unicode, SpecialCasing.txt, the unconditional rows).
 */
static const struct {
    uint32_t cp, upper[3];
} long_upper[] = {
    {0x00DF, {0x0053, 0x0053}},         {0x0149, {0x02BC, 0x004E}},
    {0x01F0, {0x004A, 0x030C}},         {0x0390, {0x0399, 0x0308, 0x0301}},
    {0x03B0, {0x03A5, 0x0308, 0x0301}}, {0x0587, {0x0535, 0x0552}},
    {0x1E96, {0x0048, 0x0331}},         {0x1E97, {0x0054, 0x0308}},
    {0x1E98, {0x0057, 0x030A}},         {0x1E99, {0x0059, 0x030A}},
    {0x1E9A, {0x0041, 0x02BE}},         {0x1F50, {0x03A5, 0x0313}},
    {0x1F52, {0x03A5, 0x0313, 0x0300}}, {0x1F54, {0x03A5, 0x0313, 0x0301}},
    {0x1F56, {0x03A5, 0x0313, 0x0342}}, {0x1F80, {0x1F08, 0x0399}},
    {0x1F81, {0x1F09, 0x0399}},         {0x1F82, {0x1F0A, 0x0399}},
    {0x1F83, {0x1F0B, 0x0399}},         {0x1F84, {0x1F0C, 0x0399}},
    {0x1F85, {0x1F0D, 0x0399}},         {0x1F86, {0x1F0E, 0x0399}},
    {0x1F87, {0x1F0F, 0x0399}},         {0x1F88, {0x1F08, 0x0399}},
    {0x1F89, {0x1F09, 0x0399}},         {0x1F8A, {0x1F0A, 0x0399}},
    {0x1F8B, {0x1F0B, 0x0399}},         {0x1F8C, {0x1F0C, 0x0399}},
    {0x1F8D, {0x1F0D, 0x0399}},         {0x1F8E, {0x1F0E, 0x0399}},
    {0x1F8F, {0x1F0F, 0x0399}},         {0x1F90, {0x1F28, 0x0399}},
    {0x1F91, {0x1F29, 0x0399}},         {0x1F92, {0x1F2A, 0x0399}},
    {0x1F93, {0x1F2B, 0x0399}},         {0x1F94, {0x1F2C, 0x0399}},
    {0x1F95, {0x1F2D, 0x0399}},         {0x1F96, {0x1F2E, 0x0399}},
    {0x1F97, {0x1F2F, 0x0399}},         {0x1F98, {0x1F28, 0x0399}},
    {0x1F99, {0x1F29, 0x0399}},         {0x1F9A, {0x1F2A, 0x0399}},
    {0x1F9B, {0x1F2B, 0x0399}},         {0x1F9C, {0x1F2C, 0x0399}},
    {0x1F9D, {0x1F2D, 0x0399}},         {0x1F9E, {0x1F2E, 0x0399}},
    {0x1F9F, {0x1F2F, 0x0399}},         {0x1FA0, {0x1F68, 0x0399}},
    {0x1FA1, {0x1F69, 0x0399}},         {0x1FA2, {0x1F6A, 0x0399}},
    {0x1FA3, {0x1F6B, 0x0399}},         {0x1FA4, {0x1F6C, 0x0399}},
    {0x1FA5, {0x1F6D, 0x0399}},         {0x1FA6, {0x1F6E, 0x0399}},
    {0x1FA7, {0x1F6F, 0x0399}},         {0x1FA8, {0x1F68, 0x0399}},
    {0x1FA9, {0x1F69, 0x0399}},         {0x1FAA, {0x1F6A, 0x0399}},
    {0x1FAB, {0x1F6B, 0x0399}},         {0x1FAC, {0x1F6C, 0x0399}},
    {0x1FAD, {0x1F6D, 0x0399}},         {0x1FAE, {0x1F6E, 0x0399}},
    {0x1FAF, {0x1F6F, 0x0399}},         {0x1FB2, {0x1FBA, 0x0399}},
    {0x1FB3, {0x0391, 0x0399}},         {0x1FB4, {0x0386, 0x0399}},
    {0x1FB6, {0x0391, 0x0342}},         {0x1FB7, {0x0391, 0x0342, 0x0399}},
    {0x1FBC, {0x0391, 0x0399}},         {0x1FC2, {0x1FCA, 0x0399}},
    {0x1FC3, {0x0397, 0x0399}},         {0x1FC4, {0x0389, 0x0399}},
    {0x1FC6, {0x0397, 0x0342}},         {0x1FC7, {0x0397, 0x0342, 0x0399}},
    {0x1FCC, {0x0397, 0x0399}},         {0x1FD2, {0x0399, 0x0308, 0x0300}},
    {0x1FD3, {0x0399, 0x0308, 0x0301}}, {0x1FD6, {0x0399, 0x0342}},
    {0x1FD7, {0x0399, 0x0308, 0x0342}}, {0x1FE2, {0x03A5, 0x0308, 0x0300}},
    {0x1FE3, {0x03A5, 0x0308, 0x0301}}, {0x1FE4, {0x03A1, 0x0313}},
    {0x1FE6, {0x03A5, 0x0342}},         {0x1FE7, {0x03A5, 0x0308, 0x0342}},
    {0x1FF2, {0x1FFA, 0x0399}},         {0x1FF3, {0x03A9, 0x0399}},
    {0x1FF4, {0x038F, 0x0399}},         {0x1FF6, {0x03A9, 0x0342}},
    {0x1FF7, {0x03A9, 0x0342, 0x0399}}, {0x1FFC, {0x03A9, 0x0399}},
    {0xFB00, {0x0046, 0x0046}},         {0xFB01, {0x0046, 0x0049}},
    {0xFB02, {0x0046, 0x004C}},         {0xFB03, {0x0046, 0x0046, 0x0049}},
    {0xFB04, {0x0046, 0x0046, 0x004C}}, {0xFB05, {0x0053, 0x0054}},
    {0xFB06, {0x0053, 0x0054}},         {0xFB13, {0x0544, 0x0546}},
    {0xFB14, {0x0544, 0x0535}},         {0xFB15, {0x0544, 0x053B}},
    {0xFB16, {0x054E, 0x0546}},         {0xFB17, {0x0544, 0x053D}},
};

bool rf_cp_is_space(uint32_t cp) {
    return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 31) || cp == 0x85 ||
           cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 ||
           cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

static utf8proc_category_t category(uint32_t cp) { return utf8proc_category((utf8proc_int32_t)cp); }

bool rf_cp_is_alpha(uint32_t cp) {
    utf8proc_category_t k = category(cp);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool rf_cp_is_digit(uint32_t cp) { return category(cp) == UTF8PROC_CATEGORY_ND; }

bool rf_cp_is_printable(uint32_t cp) {
    utf8proc_category_t k = category(cp);
    bool is_separator = k >= UTF8PROC_CATEGORY_ZS && k <= UTF8PROC_CATEGORY_ZP;
    bool is_other = k >= UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CN;
    return cp == ' ' || (!is_separator && !is_other);
}

static bool is_cased(uint32_t cp) {
    utf8proc_category_t k = category(cp);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}

static bool is_case_ignorable(uint32_t cp) {
    utf8proc_category_t k = category(cp);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || cp == '\'' || cp == '.' ||
           cp == ':' || cp == 0xB7 || cp == 0x2019;
}

static void put_upper(rf_jx *c, rf_jbuf *b, uint32_t cp, bool input, bool is_title) {
    if (is_title) {
        uint32_t title = (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp);
        if (title != cp || cp < 0x80) {
            rf_jbuf_cp(c, b, title, input);
            return;
        }
    }
    for (size_t i = 0; cp >= 0x80 && i < RF_COUNT(long_upper); i++) {
        if (long_upper[i].cp != cp) continue;
        for (size_t k = 0; k < 3 && long_upper[i].upper[k]; k++) {
            uint32_t u = long_upper[i].upper[k];
            if (is_title && k) u = (uint32_t)utf8proc_tolower((utf8proc_int32_t)u);
            rf_jbuf_cp(c, b, u, input);
        }
        return;
    }
    rf_jbuf_cp(c, b, (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp), input);
}

/* Sigma ends a word: something cased before it, nothing cased behind. */
static bool is_final(rf_jstr s, size_t at, size_t n) {
    bool before = false, after = false;
    uint32_t cp;
    for (size_t i = 0; i < at; i += (size_t)rf_jstr_next(s, i, &cp)) {
        rf_jstr_next(s, i, &cp);
        if (!is_case_ignorable(cp)) before = is_cased(cp);
    }
    for (size_t i = at + n; i < s.len; i += (size_t)rf_jstr_next(s, i, &cp)) {
        rf_jstr_next(s, i, &cp);
        if (is_case_ignorable(cp)) continue;
        after = is_cased(cp);
        break;
    }
    return before && !after;
}

static void put_lower(rf_jx *c, rf_jbuf *b, rf_jstr s, size_t at, size_t n, uint32_t cp) {
    bool input = s.input && s.input[at];
    if (cp == 0x3A3) {
        rf_jx_step(c, s.len);
        rf_jbuf_cp(c, b, is_final(s, at, n) ? 0x3C2 : 0x3C3, input);
    } else if (cp == 0x130) {
        rf_jbuf_cp(c, b, 'i', input);
        rf_jbuf_cp(c, b, 0x307, input);
    } else {
        rf_jbuf_cp(c, b, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp), input);
    }
}

typedef enum casing { UPPER, LOWER, SWAP, TITLE, TITLE_WORDS, CAPITAL } casing;

static bool starts_word(uint32_t before) {
    return before == '-' || before == '(' || before == '{' || before == '[' || before == '<' ||
           rf_cp_is_space(before);
}

static rf_jstr change_case(rf_jx *c, rf_jstr s, casing how) {
    rf_jbuf b = {0};
    uint32_t cp, before = ' ';
    for (size_t at = 0, n; at < s.len; at += n) {
        n = (size_t)rf_jstr_next(s, at, &cp);
        rf_jx_step(c, 1);
        bool input = s.input && s.input[at];
        bool is_start = how == CAPITAL ? at == 0
                        : how == TITLE ? !is_cased(before)
                                       : starts_word(before);
        if (how == UPPER || (how == SWAP && category(cp) == UTF8PROC_CATEGORY_LL)) {
            put_upper(c, &b, cp, input, false);
        } else if (how >= TITLE && is_start) {
            put_upper(c, &b, cp, input, how != TITLE_WORDS);
        } else if (how != SWAP || category(cp) == UTF8PROC_CATEGORY_LU) {
            put_lower(c, &b, s, at, n, cp);
        } else {
            rf_jbuf_put(c, &b, rf_jstr_cut(s, at, at + n));
        }
        before = cp;
    }
    return rf_jbuf_value(&b).s;
}

rf_jstr rf_jstr_upper(rf_jx *c, rf_jstr s) { return change_case(c, s, UPPER); }
rf_jstr rf_jstr_lower(rf_jx *c, rf_jstr s) { return change_case(c, s, LOWER); }
rf_jstr rf_jstr_swapcase(rf_jx *c, rf_jstr s) { return change_case(c, s, SWAP); }
rf_jstr rf_jstr_title(rf_jx *c, rf_jstr s, bool by_word) {
    return change_case(c, s, by_word ? TITLE_WORDS : TITLE);
}
rf_jstr rf_jstr_capitalize(rf_jx *c, rf_jstr s) { return change_case(c, s, CAPITAL); }

static bool strips(rf_jx *c, uint32_t cp, const rf_jstr *chars) {
    if (!chars) return rf_cp_is_space(cp);
    rf_jx_step(c, 1 + chars->len / 16);
    uint32_t one;
    for (size_t at = 0; at < chars->len;) {
        at += (size_t)rf_jstr_next(*chars, at, &one);
        if (one == cp) return true;
    }
    return false;
}

/* Where the last character of s begins. */
static size_t last_char(rf_jstr s) {
    size_t at = s.len - 1;
    while (at && s.len - at < 4 && ((unsigned char)s.p[at] & 0xC0) == 0x80) {
        at--;
    }
    uint32_t cp;
    return at + (size_t)rf_jstr_next(s, at, &cp) == s.len ? at : s.len - 1;
}

rf_jstr rf_jstr_strip(rf_jx *c, rf_jstr s, const rf_jstr *chars, bool left, bool right) {
    uint32_t cp;
    size_t before = s.len;
    while (left && s.len) {
        size_t n = (size_t)rf_jstr_next(s, 0, &cp);
        if (!strips(c, cp, chars)) break;
        s = rf_jstr_cut(s, n, s.len);
    }
    while (right && s.len) {
        size_t at = last_char(s);
        rf_jstr_next(s, at, &cp);
        if (!strips(c, cp, chars)) break;
        s.len = at;
    }
    rf_jx_step(c, (before - s.len) / 16);
    return s;
}

size_t rf_jstr_find(rf_jx *c, rf_jstr s, rf_jstr what, size_t from) {
    if (from > s.len) return RF_JSTR_NONE;
    if (what.len == 0) return from;
    const char *p = memmem(s.p + from, s.len - from, what.p, what.len);
    size_t at = p ? (size_t)(p - s.p) : s.len;
    rf_jx_step(c, (at - from) / 64 + 1);
    return p ? at : RF_JSTR_NONE;
}

rf_jstr rf_jstr_replace(rf_jx *c, rf_jstr s, rf_jstr old, rf_jstr by, size_t max) {
    rf_jbuf b = {0};
    size_t at = 0;
    for (size_t done = 0; done < max; done++) {
        size_t found = rf_jstr_find(c, s, old, at);
        if (found == RF_JSTR_NONE) break;
        rf_jbuf_put(c, &b, rf_jstr_cut(s, at, found));
        rf_jbuf_put(c, &b, by);
        at = found + old.len;
        if (old.len) continue;
        if (at == s.len) break; /* nothing is found once before every character and at the end */
        uint32_t cp;
        size_t n = (size_t)rf_jstr_next(s, at, &cp);
        rf_jbuf_put(c, &b, rf_jstr_cut(s, at, at + n));
        at += n;
    }
    rf_jbuf_put(c, &b, rf_jstr_cut(s, at, s.len));
    return rf_jbuf_value(&b).s;
}

static void push(rf_jx *c, rf_jseq *seq, size_t *cap, rf_jstr s) {
    if (seq->n == *cap) {
        *cap = *cap ? *cap * 2 : 8;
        rf_jv *grown = rf_jx_alloc(c, *cap, sizeof *grown);
        if (seq->n) memcpy(grown, seq->items, seq->n * sizeof *grown);
        seq->items = grown;
    }
    rf_jx_step(c, 1);
    seq->items[seq->n++] = rf_jv_str(s);
}

static void split_space(rf_jx *c, rf_jstr s, size_t max, bool from_right, rf_jseq *seq,
                        size_t *cap) {
    uint32_t cp;
    s = rf_jstr_strip(c, s, NULL, true, true);
    while (s.len && seq->n < max) {
        size_t at = from_right ? s.len : 0;
        while (from_right ? at > 0 : at < s.len) {
            size_t n = from_right ? last_char(rf_jstr_cut(s, 0, at)) : at;
            size_t bytes = (size_t)rf_jstr_next(s, n, &cp);
            if (rf_cp_is_space(cp)) break;
            at = from_right ? n : at + bytes;
        }
        push(c, seq, cap, from_right ? rf_jstr_cut(s, at, s.len) : rf_jstr_cut(s, 0, at));
        s = from_right ? rf_jstr_cut(s, 0, at) : rf_jstr_cut(s, at, s.len);
        s = rf_jstr_strip(c, s, NULL, true, true);
    }
    if (s.len) push(c, seq, cap, s);
}

static size_t find_last(rf_jx *c, rf_jstr s, rf_jstr what) {
    for (size_t at = s.len - what.len + 1; s.len >= what.len && at-- > 0;) {
        rf_jx_step(c, at % 64 == 0);
        if (memcmp(s.p + at, what.p, what.len) == 0) return at;
    }
    return RF_JSTR_NONE;
}

rf_jv rf_jstr_split(rf_jx *c, rf_jstr s, const rf_jstr *sep, size_t max, bool from_right) {
    rf_jv out = rf_jv_seq(c, JF_LIST, 0);
    size_t cap = 0;
    if (sep && sep->len == 0) rf_jx_fail(c, "split: expected a separator, got an empty string");
    if (!sep) {
        split_space(c, s, max, from_right, out.seq, &cap);
    } else {
        for (size_t found; out.seq->n < max;) {
            found = from_right ? find_last(c, s, *sep) : rf_jstr_find(c, s, *sep, 0);
            if (found == RF_JSTR_NONE) break;
            size_t behind = found + sep->len;
            push(c, out.seq, &cap,
                 from_right ? rf_jstr_cut(s, behind, s.len) : rf_jstr_cut(s, 0, found));
            s = from_right ? rf_jstr_cut(s, 0, found) : rf_jstr_cut(s, behind, s.len);
        }
        push(c, out.seq, &cap, s);
    }
    for (size_t i = 0; from_right && i < out.seq->n / 2; i++) {
        rf_jv v = out.seq->items[i];
        out.seq->items[i] = out.seq->items[out.seq->n - 1 - i];
        out.seq->items[out.seq->n - 1 - i] = v;
    }
    return out;
}

rf_jv rf_jstr_splitlines(rf_jx *c, rf_jstr s, bool keep) {
    rf_jv out = rf_jv_seq(c, JF_LIST, 0);
    size_t cap = 0, from = 0;
    uint32_t cp;
    for (size_t at = 0, n; at < s.len; at += n) {
        n = (size_t)rf_jstr_next(s, at, &cp);
        bool is_end = (cp >= 10 && cp <= 13) || (cp >= 28 && cp <= 30) || cp == 0x85 ||
                      cp == 0x2028 || cp == 0x2029;
        if (!is_end) continue;
        if (cp == '\r' && at + 1 < s.len && s.p[at + 1] == '\n') n = 2;
        push(c, out.seq, &cap, rf_jstr_cut(s, from, keep ? at + n : at));
        from = at + n;
    }
    if (from < s.len) push(c, out.seq, &cap, rf_jstr_cut(s, from, s.len));
    return out;
}

rf_jstr rf_jstr_join(rf_jx *c, rf_jstr sep, const rf_jseq *items) {
    rf_jbuf b = {0};
    for (size_t i = 0; i < items->n; i++) {
        if (i) rf_jbuf_put(c, &b, sep);
        rf_jv_print(c, &b, &items->items[i]);
    }
    return rf_jbuf_value(&b).s;
}

rf_jstr rf_jstr_center(rf_jx *c, rf_jstr s, size_t width, int side) {
    size_t n = rf_jstr_chars(s), pad = width > n ? width - n : 0;
    size_t left = side < 0 ? 0 : side > 0 ? pad : pad / 2 + (pad & width & 1);
    rf_jbuf b = {0};
    for (size_t i = 0; i < left; i++) {
        rf_jbuf_puts(c, &b, " ");
    }
    rf_jbuf_put(c, &b, s);
    for (size_t i = left; i < pad; i++) {
        rf_jbuf_puts(c, &b, " ");
    }
    return rf_jbuf_value(&b).s;
}

static rf_jstr trim_ascii(rf_jstr s) {
    while (s.len && rf_cp_is_space((unsigned char)s.p[0])) {
        s = rf_jstr_cut(s, 1, s.len);
    }
    while (s.len && rf_cp_is_space((unsigned char)s.p[s.len - 1])) {
        s.len--;
    }
    return s;
}

bool rf_jstr_to_int(rf_jstr s, int base, rf_i128 *out) {
    s = trim_ascii(s);
    bool is_negative = s.len && s.p[0] == '-';
    size_t at = s.len && (s.p[0] == '-' || s.p[0] == '+');
    if (s.len - at > 2 && s.p[at] == '0') { /* as Python: 0x10 only where the base says so */
        char mark = (char)(s.p[at + 1] | 0x20);
        if ((base == 16 && mark == 'x') || (base == 8 && mark == 'o') || (base == 2 && mark == 'b'))
            at += 2;
    }
    rf_i128 v = 0;
    if (at == s.len) return false;
    for (; at < s.len; at++) {
        char ch = s.p[at];
        int d = ch >= '0' && ch <= '9'                     ? ch - '0'
                : (ch | 0x20) >= 'a' && (ch | 0x20) <= 'z' ? (ch | 0x20) - 'a' + 10
                                                           : 99;
        if (d >= base || __builtin_mul_overflow(v, (rf_i128)base, &v) ||
            __builtin_add_overflow(v, (rf_i128)d, &v)) {
            return false;
        }
    }
    *out = is_negative ? -v : v;
    return true;
}

bool rf_jstr_to_float(rf_jstr s, double *out) {
    char text[128];
    s = trim_ascii(s);
    if (s.len == 0 || s.len >= sizeof text) return false;
    for (size_t i = 0; i < s.len; i++) { /* decimal only, neither hexadecimal nor "nan(...)" */
        if (!strchr("+-.0123456789eE", s.p[i]) || !s.p[i]) return false;
    }
    memcpy(text, s.p, s.len);
    text[s.len] = '\0';
    char *end;
    *out = strtod(text, &end);
    return *end == '\0';
}
