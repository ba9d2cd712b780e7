/* pattern.c - see pattern.h. */
#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct rf_pattern {
    pcre2_code *code;
};

struct rf_searcher {
    pcre2_match_data *match;
    pcre2_match_context *context;
};

static void *take(size_t bytes, void *unused) {
    (void)unused;
    return rf_alloc(bytes, 1);
}

static void give(void *p, void *unused) {
    (void)unused;
    rf_free(p);
}

static rf_status compile(pcre2_code **out, rf_str pattern, uint32_t options, rf_error *e) {
    pcre2_general_context *memory = pcre2_general_context_create(take, give, NULL);
    pcre2_compile_context *context = memory ? pcre2_compile_context_create(memory) : NULL;
    int code = 0;
    PCRE2_SIZE offset = 0;
    if (context) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        *out = pcre2_compile((PCRE2_SPTR)pattern.p, pattern.len, options, &code, &offset, context);
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(memory);
    if (*out) {
        /* Where the system forbids run-time code the same pattern is interpreted, only slower. */
        (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE);
        return RF_OK;
    }
    if (!context || code == PCRE2_ERROR_HEAP_FAILED || code == PCRE2_ERROR_NOMEMORY) {
        return rf_fail_nomem(e, pattern.len);
    }
    char why[128] = "";
    pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    return rf_fail(e, RF_EFORMAT, "pattern \"%.*s\", offset %zu: %s", RF_STR_ARG(pattern),
                   (size_t)offset, why);
}

static rf_status create(rf_pattern **out, rf_str pattern, uint32_t options, rf_error *e) {
    *out = NULL;
    if (pattern.len > RF_PATTERN_MAX_BYTES) {
        return rf_fail(e, RF_EUNSUPPORTED, "a pattern of %zu bytes: at most %d are allowed",
                       pattern.len, RF_PATTERN_MAX_BYTES);
    }
    rf_pattern *p = rf_alloc(1, sizeof *p);
    if (!p) return rf_fail_nomem(e, sizeof *p);
    rf_status s = compile(&p->code, pattern, options, e);
    if (s != RF_OK) {
        rf_free(p);
        return s;
    }
    *out = p;
    return RF_OK;
}

rf_status rf_pattern_compile(rf_pattern **out, rf_str pattern, rf_error *e) {
    return create(out, pattern, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                  e);
}

rf_status rf_pattern_literal(rf_pattern **out, rf_str text, rf_error *e) {
    return create(out, text, PCRE2_UTF | PCRE2_LITERAL, e);
}

void rf_pattern_free(rf_pattern *p) {
    if (!p) return;
    pcre2_code_free(p->code);
    rf_free(p);
}

rf_status rf_searcher_create(rf_searcher **out) {
    *out = NULL;
    rf_searcher *m = rf_alloc(1, sizeof *m);
    pcre2_general_context *memory = pcre2_general_context_create(take, give, NULL);
    if (m && memory) {
        m->match = pcre2_match_data_create(1, memory);
        m->context = pcre2_match_context_create(memory);
    }
    pcre2_general_context_free(memory);
    if (!m || !m->match || !m->context) {
        rf_searcher_free(m);
        return RF_ENOMEM;
    }
    *out = m;
    return RF_OK;
}

void rf_searcher_free(rf_searcher *m) {
    if (!m) return;
    pcre2_match_data_free(m->match);
    pcre2_match_context_free(m->context);
    rf_free(m);
}

rf_status rf_searcher_find(rf_searcher *m, const rf_pattern *p, rf_str text, size_t from,
                           ptrdiff_t *start, ptrdiff_t *end, rf_error *e) {
    *start = *end = -1;
    /* Backtracking over a run is linear, so the limit is linear too. */
    size_t limit = text.len * 16 + 1000000;
    pcre2_set_match_limit(m->context, limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit);
    int found = pcre2_match(p->code, (PCRE2_SPTR)text.p, text.len, from, PCRE2_NO_UTF_CHECK,
                            m->match, m->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) { /* the interpreter's stack is the heap */
        found = pcre2_match(p->code, (PCRE2_SPTR)text.p, text.len, from,
                            PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->match, m->context);
    }
    if (found == PCRE2_ERROR_NOMATCH) return RF_OK;
    if (found < 0) {
        char why[128] = "";
        pcre2_get_error_message(found, (PCRE2_UCHAR *)why, sizeof why);
        return rf_fail(e, found == PCRE2_ERROR_NOMEMORY ? RF_ENOMEM : RF_EUNSUPPORTED,
                       "pre-tokenizer pattern at byte %zu of a piece of %zu bytes: %s", from,
                       text.len, why);
    }
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m->match);
    *start = (ptrdiff_t)span[0];
    *end = span[1] < span[0] ? *start : (ptrdiff_t)span[1]; /* \K may set the start behind */
    return RF_OK;
}
