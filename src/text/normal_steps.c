/* normal_steps.c - the steps from text to text, each over the whole of it. */
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/normalize.h"
#include "text/pipeline.h"

static int category(uint32_t cp) { return (int)utf8proc_category((utf8proc_int32_t)cp); }

bool rf_is_white(uint32_t cp) {
    return (cp >= 9 && cp <= 13) || cp == 0x20 || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F ||
           cp == 0x205F || cp == 0x3000;
}

bool rf_is_word(uint32_t cp) {
    int c = category(cp);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) || c == UTF8PROC_CATEGORY_PC ||
           (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
           (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189) || cp == 0x200C ||
           cp == 0x200D; /* circled and squared letters, joiners */
}

static bool is_mark(uint32_t cp) {
    int c = category(cp);
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME;
}

static bool is_control(uint32_t cp) {
    int c = category(cp);
    return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO;
}

static bool is_chinese(uint32_t cp) {
    return (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0x3400 && cp <= 0x4DBF) ||
           (cp >= 0x20000 && cp <= 0x2A6DF) || (cp >= 0x2A700 && cp <= 0x2B73F) ||
           (cp >= 0x2B740 && cp <= 0x2B81F) || (cp >= 0x2B920 && cp <= 0x2CEAF) ||
           (cp >= 0xF900 && cp <= 0xFAFF) || (cp >= 0x2F800 && cp <= 0x2FA1F);
}

static void put(rf_buf *out, uint32_t cp) {
    char bytes[4];
    rf_buf_put(out, bytes, (size_t)rf_utf8_encode(cp, bytes));
}

/* What becomes of one character. */
static void nmt(uint32_t cp, rf_buf *out) {
    bool gone = (cp >= 1 && cp <= 8) || cp == 0xB || (cp >= 0xE && cp <= 0x1F) || cp == 0x7F ||
                cp == 0x8F || cp == 0x9F;
    bool space = cp == 9 || cp == 10 || cp == 12 || cp == 13 || cp == 0x1680 ||
                 (cp >= 0x200B && cp <= 0x200F) || cp == 0x2028 || cp == 0x2029 || cp == 0x2581 ||
                 cp == 0xFEFF || cp == 0xFFFD;
    if (!gone) put(out, space ? ' ' : cp);
}

static void clean(uint32_t cp, rf_buf *out) {
    if (cp == '\t' || cp == '\n' || cp == '\r') {
        rf_buf_putc(out, ' ');
    } else if (cp != 0 && cp != 0xFFFD && !is_control(cp)) {
        put(out, rf_is_white(cp) ? ' ' : cp);
    }
}

static void lowercase(uint32_t cp, rf_buf *out) {
    if (cp == 0x130) { /* the one character whose small form is two */
        put(out, 'i');
        put(out, 0x307);
    } else {
        put(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
    }
}

static void one_char(rf_step_kind kind, uint32_t cp, rf_buf *out) {
    bool chinese = kind == RF_STEP_CHINESE && is_chinese(cp);
    if (kind == RF_STEP_NMT) {
        nmt(cp, out);
    } else if (kind == RF_STEP_CLEAN) {
        clean(cp, out);
    } else if (kind == RF_STEP_LOWERCASE) {
        lowercase(cp, out);
    } else if (kind == RF_STEP_ACCENTS) {
        if (!is_mark(cp)) put(out, cp);
    } else if (kind == RF_STEP_NONSPACING) {
        if (category(cp) != UTF8PROC_CATEGORY_MN) put(out, cp);
    } else {
        if (chinese) rf_buf_putc(out, ' ');
        put(out, cp);
        if (chinese) rf_buf_putc(out, ' ');
    }
}

static void each_char(rf_step_kind kind, rf_str text, rf_buf *out) {
    while (text.len) {
        uint32_t cp;
        int n = rf_utf8_decode(text.p, text.len, &cp);
        size_t len = n > 0 ? (size_t)n : 1;
        one_char(kind, cp, out);
        text.p += len;
        text.len -= len;
    }
}

static void strip(const rf_step *step, rf_str text, rf_buf *out) {
    uint32_t cp;
    while (step->n_start && text.len) {
        size_t n = (size_t)rf_utf8_decode(text.p, text.len, &cp);
        if (!rf_is_white(cp)) break;
        text.p += n;
        text.len -= n;
    }
    while (step->n_end && text.len) {
        size_t at = text.len - 1;
        while (at > 0 && ((uint8_t)text.p[at] & 0xC0) == 0x80) {
            at--;
        }
        (void)rf_utf8_decode(text.p + at, text.len - at, &cp);
        if (!rf_is_white(cp)) break;
        text.len = at;
    }
    rf_buf_put(out, text.p, text.len);
}

static rf_status replace(rf_run *r, const rf_step *step, rf_str text, rf_buf *out) {
    size_t done = 0, from = 0;
    ptrdiff_t last = -1; /* where the match before ended; nothing can be matched there again */
    while (from <= text.len) {
        ptrdiff_t start, end;
        RF_TRY(rf_searcher_find(r->searcher, step->pattern, text, from, &start, &end, r->e));
        if (start < 0) break;
        rf_buf_put(out, text.p + done, (size_t)start - done);
        if (end > start || start != last) rf_buf_put(out, step->with.p, step->with.len);
        done = from = (size_t)end;
        last = end;
        if (end > start) continue;
        uint32_t cp; /* go on behind the next character */
        from += done < text.len ? (size_t)rf_utf8_decode(text.p + done, text.len - done, &cp) : 1;
    }
    rf_buf_put(out, text.p + done, text.len - done);
    return RF_OK;
}

/* Characters by their map: a short grapheme as a whole, else each of its code points. */
static void map_grapheme(const rf_charsmap *m, rf_str text, rf_buf *out) {
    enum { SHORT = 6 };
    size_t len;
    rf_str found = {"", 0};
    if (text.len < SHORT) {
        found = rf_charsmap_find(m, text, false, &len);
        if (len) {
            rf_buf_put(out, found.p, found.len);
            return;
        }
    }
    while (text.len) {
        uint32_t cp;
        size_t n = (size_t)rf_utf8_decode(text.p, text.len, &cp);
        found = rf_charsmap_find(m, (rf_str){text.p, n}, false, &len);
        if (len) {
            rf_buf_put(out, found.p, found.len);
        } else {
            rf_buf_put(out, text.p, n);
        }
        text.p += n;
        text.len -= n;
    }
}

static void map_graphemes(const rf_charsmap *m, rf_str text, rf_buf *out) {
    utf8proc_int32_t state = 0;
    uint32_t last = 0;
    size_t from = 0;
    for (size_t i = 0; i < text.len;) {
        uint32_t cp;
        int n = rf_utf8_decode(text.p + i, text.len - i, &cp);
        if (i && utf8proc_grapheme_break_stateful((utf8proc_int32_t)last, (utf8proc_int32_t)cp,
                                                  &state)) {
            map_grapheme(m, (rf_str){text.p + from, i - from}, out);
            from = i;
        }
        last = cp;
        i += n > 0 ? (size_t)n : 1;
    }
    map_grapheme(m, (rf_str){text.p + from, text.len - from}, out);
}

/* SentencePiece's own way: the longest mapped beginning again and again, spaces written as U+2581, one
 * before the text.  Where runs of spaces become one, those at the ends are none. */
static void sentencepiece(rf_run *r, rf_str text, rf_buf *out) {
    const rf_pipeline *p = r->t->pipe;
    bool in_word = false, wants_space = r->t->space_prefix;
    if (wants_space && !p->merges_spaces && text.len) {
        rf_buf_put(out, RF_SPM_SPACE, RF_SPM_SPACE_BYTES);
        wants_space = false;
    }
    while (text.len) {
        size_t len;
        rf_str mapped = rf_charsmap_find(&p->charsmap, text, true, &len);
        if (len == 0) {
            uint32_t cp;
            int n = rf_utf8_decode(text.p, text.len, &cp);
            len = n > 0 ? (size_t)n : 1;
            mapped = (rf_str){text.p, len};
        }
        for (size_t i = 0; i < mapped.len; i++) {
            bool space = mapped.p[i] == ' ';
            if (wants_space && !space) {
                rf_buf_put(out, RF_SPM_SPACE, RF_SPM_SPACE_BYTES);
                wants_space = false;
            }
            if (space && !p->merges_spaces) rf_buf_put(out, RF_SPM_SPACE, RF_SPM_SPACE_BYTES);
            if (space && p->merges_spaces && in_word) wants_space = true;
            if (!space) rf_buf_putc(out, mapped.p[i]);
            in_word = !space;
        }
        text.p += len;
        text.len -= len;
    }
}

static void letters(rf_str text, rf_buf *out) {
    for (size_t i = 0; i < text.len; i++) {
        char letter[4];
        rf_buf_put(out, letter, (size_t)rf_bpe_byte_char((uint8_t)text.p[i], letter));
    }
}

static rf_status apply(rf_run *r, const rf_step *step, rf_str text, rf_buf *out) {
    switch (step->kind) {
    case RF_STEP_NFC:
        return rf_normal_form(text, false, true, out);
    case RF_STEP_NFD:
        return rf_normal_form(text, false, false, out);
    case RF_STEP_NFKC:
        return rf_normal_form(text, true, true, out);
    case RF_STEP_NFKD:
        return rf_normal_form(text, true, false, out);
    case RF_STEP_STRIP:
        strip(step, text, out);
        return RF_OK;
    case RF_STEP_REPLACE:
        return replace(r, step, text, out);
    case RF_STEP_PREPEND:
        if (text.len) rf_buf_put(out, step->with.p, step->with.len);
        rf_buf_put(out, text.p, text.len);
        return RF_OK;
    case RF_STEP_CHARSMAP:
        map_graphemes(&r->t->pipe->charsmap, text, out);
        return RF_OK;
    case RF_STEP_SENTENCEPIECE:
        sentencepiece(r, text, out);
        return RF_OK;
    case RF_STEP_LETTERS:
        letters(text, out);
        return RF_OK;
    case RF_STEP_LOWERCASE:
    case RF_STEP_ACCENTS:
    case RF_STEP_NONSPACING:
    case RF_STEP_CLEAN:
    case RF_STEP_CHINESE:
    case RF_STEP_NMT:
        each_char(step->kind, text, out);
        return RF_OK;
    case RF_STEP_SPLIT:
    case RF_STEP_WORD_PREFIX:
    case RF_STEP_UNLETTERS:
    case RF_STEP_BYTES:
    case RF_STEP_FUSE:
    case RF_STEP_CUT:
    case RF_STEP_WORDPIECE:
    case RF_STEP_METASPACE:
        break;
    }
    return rf_fail(r->e, RF_EARG, "step %d is none from text to text", (int)step->kind);
}

rf_status rf_run_normal(rf_run *r, rf_str text, rf_str *out) {
    const rf_steps *steps = &r->t->pipe->normal;
    for (uint32_t i = 0; i < steps->n; i++) {
        rf_buf_clear(&r->other);
        rf_status s = apply(r, &steps->p[i], text, &r->other);
        if (s == RF_ENOMEM) rf_fail_nomem(r->e, text.len);
        RF_TRY(s);
        rf_buf swap = r->other;
        r->other = r->text;
        r->text = swap;
        if (r->text.failed) return rf_fail_nomem(r->e, text.len);
        text = rf_buf_str(&r->text);
    }
    *out = text;
    return RF_OK;
}
