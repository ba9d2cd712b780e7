/* context.c - what parsing and rendering share: failing with a place, memory, limits, growing text.
 *
 * All memory comes from the context's arena; who made the arena frees it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/internal.h"

void rf_jx_fail(rf_jx *c, const char *fmt, ...) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < c->at && i < c->source.len; i++) {
        column = c->source.p[i] == '\n' ? 1 : column + 1;
        line += c->source.p[i] == '\n';
    }
    char what[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    c->status =
        rf_fail(c->e, RF_EFORMAT, "chat template line %zu column %zu: %s", line, column, what);
    longjmp(*c->landing, 1);
}

void rf_jx_nomem(rf_jx *c, size_t bytes) {
    c->status = rf_fail_nomem(c->e, bytes);
    longjmp(*c->landing, 1);
}

void *rf_jx_alloc(rf_jx *c, size_t n, size_t size) {
    size_t bytes, total;
    if (!rf_mul_ok(n, size, &bytes) || !rf_add_ok(bytes, rf_arena_bytes(c->arena), &total) ||
        total > RF_JINJA_MAX_MEMORY) {
        rf_jx_fail(c, "the template wants more than the %zu MiB of memory allowed",
                   RF_JINJA_MAX_MEMORY >> 20);
    }
    rf_jx_step(c, bytes / 64);
    void *p = rf_arena_alloc(c->arena, n ? n : 1, size);
    if (!p) rf_jx_nomem(c, bytes);
    return p;
}

void rf_jx_step(rf_jx *c, size_t n) {
    if (n > RF_JINJA_MAX_STEPS - c->steps) {
        rf_jx_fail(c, "the template takes more than the %zu steps allowed: expected an end",
                   RF_JINJA_MAX_STEPS);
    }
    c->steps += n;
}

void rf_jx_enter(rf_jx *c) {
    if (c->depth == RF_JINJA_MAX_DEPTH) {
        rf_jx_fail(c, "nested deeper than the %d levels allowed", RF_JINJA_MAX_DEPTH);
    }
    c->depth++;
}

void rf_jx_leave(rf_jx *c) { c->depth--; }

static void make_room(rf_jx *c, rf_jbuf *b, size_t n) {
    if (n > RF_JINJA_MAX_OUTPUT - b->len) {
        rf_jx_fail(c, "a text of more than the %zu MiB allowed", RF_JINJA_MAX_OUTPUT >> 20);
    }
    if (n <= b->cap - b->len) return;
    size_t cap = b->len + n < 64 ? 64 : (b->len + n) * 2;
    char *p = rf_jx_alloc(c, cap, 1);
    uint8_t *input = rf_jx_alloc(c, cap, 1);
    if (b->len) {
        memcpy(p, b->p, b->len);
        memcpy(input, b->input, b->len);
    }
    b->p = p;
    b->input = input;
    b->cap = cap;
}

void rf_jbuf_put(rf_jx *c, rf_jbuf *b, rf_jstr s) {
    if (s.len == 0) return;
    make_room(c, b, s.len);
    rf_jx_step(c, s.len / 64);
    memcpy(b->p + b->len, s.p, s.len);
    if (s.input) {
        memcpy(b->input + b->len, s.input, s.len);
    } else {
        memset(b->input + b->len, 0, s.len);
    }
    b->len += s.len;
}

void rf_jbuf_text(rf_jx *c, rf_jbuf *b, const char *p, size_t n, bool input) {
    size_t from = b->len;
    rf_jbuf_put(c, b, (rf_jstr){p, NULL, n});
    if (input && n) memset(b->input + from, 1, n);
}

void rf_jbuf_puts(rf_jx *c, rf_jbuf *b, const char *c_string) {
    rf_jbuf_text(c, b, c_string, strlen(c_string), false);
}

void rf_jbuf_cp(rf_jx *c, rf_jbuf *b, uint32_t cp, bool input) {
    char bytes[4];
    int n = rf_utf8_encode(cp, bytes);
    rf_jbuf_text(c, b, bytes, (size_t)n, input);
}

rf_jv rf_jbuf_value(const rf_jbuf *b) {
    return rf_jv_str((rf_jstr){b->len ? b->p : "", b->input, b->len});
}

const rf_jv *rf_jarg(const rf_jargs *a, size_t i, const char *name) {
    if (i < a->n) return &a->pos[i];
    for (size_t k = 0; k < a->n_kw; k++) {
        if (rf_str_is(a->kw[k].name, name)) return &a->kw[k].value;
    }
    return NULL;
}

const rf_jv *rf_jarg_need(rf_jx *c, const rf_jargs *a, size_t i, const char *name) {
    const rf_jv *v = rf_jarg(a, i, name);
    if (!v) rf_jx_fail(c, "argument %zu (%s) is missing", i + 1, name);
    return v;
}

rf_jstr rf_jarg_str(rf_jx *c, const rf_jargs *a, size_t i, const char *name) {
    const rf_jv *v = rf_jarg_need(c, a, i, name);
    if (v->kind != JV_STR) {
        rf_jx_fail(c, "argument %zu (%s): expected a string, got %s", i + 1, name, rf_jv_type(v));
    }
    return v->s;
}

bool rf_jarg_bool(const rf_jargs *a, size_t i, const char *name, bool otherwise) {
    const rf_jv *v = rf_jarg(a, i, name);
    return v ? rf_jv_true(v) : otherwise;
}
