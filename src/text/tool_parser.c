/* tool_parser.c - the machine that cuts an answer at the marks of its format.
 *
 * One byte at a time, so that the cuts of the input cannot matter: text is passed on unless it may
 * begin a mark; from a mark on, bytes are held until the section can be read or is given up.  White
 * space next to a mark belongs to the mark. */
#include "text/tool_parser.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tool_format.h"

enum {
    MAX_SPACE = 256,    /* held before a mark */
    MAX_ATTEMPTS = 64,  /* closing marks that belong to a body */
    MAX_PLAUSIBLE = 64, /* bytes of a body after which it is no longer doubted */
};

typedef enum mode { CONTENT, REASONING, SECTION } mode;

struct rf_tool_parser {
    rf_tool_parser_opts o;
    mode mode;
    char tail[RF_TOOL_MAX_MARK]; /* may begin a mark */
    size_t n_tail;
    rf_buf space;              /* white space, told when other text follows */
    rf_buf out;                /* text to tell */
    rf_buf held;               /* of a section, with the white space before it */
    size_t body_at;            /* in held */
    const rf_section *section; /* the open one */
    unsigned n_attempts;
    rf_calls calls;
    uint32_t n_calls;
    bool started;    /* there was content */
    bool after_mark; /* nothing came since: white space is dropped */
    bool failed;
};

/* ---- telling ---- */

static void tell(rf_tool_parser *p, rf_tool_event_kind kind, rf_str text, rf_str id) {
    rf_tool_event ev = {.kind = kind, .index = p->n_calls, .text = text, .id = id};
    if (!p->failed) p->o.sink(p->o.user, &ev);
}

static size_t partial_tail(rf_str s) {
    for (size_t k = 1; k < 4 && k <= s.len; k++)
        if (rf_utf8_is_partial(s.p + s.len - k, k)) return k;
    return 0;
}

/* Tells the text so far; all: also a character of which bytes are missing. */
static void flush(rf_tool_parser *p, bool all) {
    rf_str s = rf_buf_str(&p->out);
    size_t rest = all ? 0 : partial_tail(s);
    if (p->out.failed) p->failed = true;
    if (s.len == rest) return;
    s.len -= rest;
    tell(p, p->mode == REASONING ? RF_TOOL_REASONING : RF_TOOL_CONTENT, s, RF_STR(""));
    memmove(p->out.p, p->out.p + s.len, rest);
    p->out.len = rest;
}

static void move_text(rf_buf *from, rf_buf *to) {
    rf_str s = rf_buf_str(from);
    if (from->failed) to->failed = true;
    rf_buf_put(to, s.p, s.len);
    rf_buf_clear(from);
}

static void set_mode(rf_tool_parser *p, mode m) {
    flush(p, true);
    p->mode = m;
}

static void put_text(rf_tool_parser *p, char c) {
    if (rf_is_space(c)) {
        if (!p->after_mark) rf_buf_putc(&p->space, c);
        if (p->space.len > MAX_SPACE) move_text(&p->space, &p->out);
        return;
    }
    move_text(&p->space, &p->out);
    rf_buf_putc(&p->out, c);
    p->after_mark = false;
    if (p->mode == CONTENT) p->started = true;
}

/* ---- sections ---- */

static void step(rf_tool_parser *p, char c);

static void open_section(rf_tool_parser *p, const rf_section *s) {
    flush(p, true);
    p->section = s;
    p->n_attempts = 0;
    rf_buf_clear(&p->held);
    move_text(&p->space, &p->held);
    p->body_at = p->held.len + (s->flags & RF_KEEPS_OPEN ? 0 : strlen(s->open));
    rf_buf_puts(&p->held, s->open);
    p->mode = SECTION;
}

/* The section is content after all. */
static void give_up(rf_tool_parser *p, const char *why) {
    p->mode = CONTENT;
    p->started = true;
    p->after_mark = false;
    move_text(&p->held, &p->out);
    flush(p, true);
    tell(p, RF_TOOL_WARNING, rf_str_of(why), RF_STR(""));
}

/* It was text from the start, and may hold marks. */
static void replay(rf_tool_parser *p) {
    char text[MAX_SPACE + RF_TOOL_MAX_MARK + MAX_PLAUSIBLE + 1];
    size_t n = p->held.len;
    RF_ASSERT(n <= sizeof text);
    memcpy(text, p->held.p, n);
    p->mode = CONTENT;
    p->started = true; /* so no doubtful section opens again */
    p->after_mark = false;
    for (size_t i = 0; i < n; i++)
        step(p, text[i]);
}

static void tell_calls(rf_tool_parser *p) {
    const char *text = p->calls.text.p ? p->calls.text.p : ""; /* names may be empty, all of them */
    for (size_t i = 0; i < p->calls.n; i++) {
        const rf_call *c = &p->calls.list[i];
        tell(p, RF_TOOL_BEGIN, (rf_str){text + c->name, c->name_len},
             (rf_str){text + c->id, c->id_len});
        tell(p, RF_TOOL_ARGUMENTS, (rf_str){text + c->args, c->args_len}, RF_STR(""));
        tell(p, RF_TOOL_END, RF_STR(""), RF_STR(""));
        p->n_calls++;
    }
}

static bool names_are_known(const rf_tool_parser *p) {
    const char *text = p->calls.text.p;
    for (size_t i = 0; i < p->calls.n; i++) {
        const rf_call *c = &p->calls.list[i];
        if (!rf_tool_find(p->o.tools, (rf_str){text + c->name, c->name_len})) return false;
    }
    return true;
}

/* Reads the n first bytes of the body. */
static rf_verdict read_body(rf_tool_parser *p, const char *close, size_t n) {
    const rf_section *s = p->section;
    rf_body b = {.text = {p->held.p + p->body_at, n},
                 .close = close,
                 .tools = p->o.tools,
                 .dialect = s->dialect};
    p->calls.n = 0;
    rf_buf_clear(&p->calls.text);
    rf_verdict v = s->parse(&b, &p->calls);
    if (p->calls.failed) p->failed = true;
    if (v != RF_BODY_CALLS || p->failed) return v;
    if (s->flags & RF_KNOWN_NAME && !names_are_known(p)) return RF_BODY_BAD;
    return p->n_calls + p->calls.n > RF_TOOL_MAX_CALLS ? RF_BODY_BAD : v;
}

/* close: the mark that was just seen, NULL at the end of the output. */
static void try_close(rf_tool_parser *p, const char *close) {
    size_t n = p->held.len - p->body_at - (close ? strlen(close) : 0);
    switch (read_body(p, close, n)) {
    case RF_BODY_CALLS:
        tell_calls(p);
        p->mode = CONTENT;
        p->after_mark = true;
        return;
    case RF_BODY_CONTENT:
        p->mode = CONTENT;
        p->after_mark = false;
        return;
    case RF_BODY_REASONING:
        p->mode = REASONING;
        p->after_mark = false;
        return;
    case RF_BODY_MORE:
        if (close && ++p->n_attempts < MAX_ATTEMPTS) return;
        break;
    case RF_BODY_BAD:
        break;
    }
    give_up(p, close ? "a tool call could not be read and is kept as content"
                     : "an unfinished tool call is kept as content");
}

static bool ends_with(rf_str s, const char *mark) {
    size_t n = strlen(mark);
    return s.len >= n && memcmp(s.p + s.len - n, mark, n) == 0;
}

static void section_byte(rf_tool_parser *p, char c) {
    const rf_section *s = p->section;
    rf_buf_putc(&p->held, c);
    if (p->held.failed) {
        p->failed = true;
        return;
    }
    rf_str body = {p->held.p + p->body_at, p->held.len - p->body_at};
    for (size_t i = 0; i < RF_COUNT(s->close) && s->close[i]; i++) {
        if (!ends_with(body, s->close[i])) continue;
        try_close(p, s->close[i]);
        return;
    }
    if (s->plausible && body.len <= MAX_PLAUSIBLE && !s->plausible(body)) {
        replay(p);
        return;
    }
    if (body.len > RF_TOOL_MAX_HELD) give_up(p, "a tool call longer than 1 MiB is kept as content");
}

/* ---- marks ---- */

typedef enum mark_kind { NONE, PARTIAL, SECTION_OPEN, THINK_OPEN, THINK_CLOSE, HIDDEN } mark_kind;
typedef struct mark {
    mark_kind kind;
    const rf_section *section;
} mark;

/* Compares the tail with one mark; true: it is the whole mark. */
static bool compare(const rf_tool_parser *p, rf_str text, mark_kind kind, mark *m) {
    if (text.len == 0 || p->n_tail > text.len || memcmp(p->tail, text.p, p->n_tail) != 0)
        return false;
    bool whole = p->n_tail == text.len;
    m->kind = whole ? kind : PARTIAL;
    return whole;
}

static bool may_open(const rf_tool_parser *p, const rf_section *s) {
    if (!s->open || (s->flags & RF_AT_START && p->started)) return false;
    if (p->o.no_calls && !(s->flags & RF_HEADING)) return false;
    return p->mode == CONTENT || s->flags & RF_IN_REASONING;
}

static mark find_mark(const rf_tool_parser *p) {
    mark m = {NONE, NULL};
    const rf_tool_format *f = p->o.format;
    const rf_reasoning_format *r = p->o.reasoning;
    for (size_t i = 0; f && i < RF_COUNT(f->sections); i++) {
        const rf_section *s = &f->sections[i];
        m.section = s;
        if (may_open(p, s) && compare(p, rf_str_of(s->open), SECTION_OPEN, &m)) return m;
    }
    bool opens = r && p->mode == CONTENT && (r->anywhere || !p->started);
    if (opens && compare(p, rf_str_of(r->open), THINK_OPEN, &m)) return m;
    if (r && p->mode == REASONING && compare(p, rf_str_of(r->close), THINK_CLOSE, &m)) return m;
    for (size_t i = 0; f && i < RF_COUNT(f->hidden) && f->hidden[i]; i++)
        if (compare(p, rf_str_of(f->hidden[i]), HIDDEN, &m)) return m;
    for (size_t i = 0; i < p->o.n_hidden; i++)
        if (compare(p, p->o.hidden[i], HIDDEN, &m)) return m;
    return m;
}

static void take_mark(rf_tool_parser *p, mark m) {
    p->n_tail = 0;
    if (m.kind == SECTION_OPEN) {
        open_section(p, m.section);
    } else if (m.kind != HIDDEN) {
        rf_buf_clear(&p->space);
        set_mode(p, m.kind == THINK_OPEN ? REASONING : CONTENT);
        p->after_mark = true;
    }
}

static void drop_first(rf_tool_parser *p) {
    char c = p->tail[0];
    memmove(p->tail, p->tail + 1, --p->n_tail);
    put_text(p, c);
}

static void text_byte(rf_tool_parser *p, char c) {
    p->tail[p->n_tail++] = c;
    while (p->n_tail) {
        mark m = find_mark(p);
        if (m.kind == PARTIAL) return;
        if (m.kind == NONE)
            drop_first(p);
        else
            take_mark(p, m);
    }
}

static void step(rf_tool_parser *p, char c) {
    if (p->mode == SECTION)
        section_byte(p, c);
    else
        text_byte(p, c);
}

/* ---- the parser ---- */

static bool prompt_opened(const rf_tool_parser_opts *o) {
    if (!o->reasoning) return false;
    return ends_with(rf_trim(o->prompt_end), o->reasoning->open) ||
           ends_with(o->prompt_end, o->reasoning->open);
}

rf_status rf_tool_parser_create(rf_tool_parser **out, const rf_tool_parser_opts *o, rf_error *e) {
    *out = NULL;
    if (!o->sink) return rf_fail(e, RF_EARG, "tool parser: sink is NULL, expected a function");
    for (size_t i = 0; i < o->n_hidden; i++)
        if (o->hidden[i].len > RF_TOOL_MAX_MARK)
            return rf_fail(e, RF_EARG, "tool parser: hidden text %zu has %zu bytes, at most %d", i,
                           o->hidden[i].len, RF_TOOL_MAX_MARK);
    rf_tool_parser *p = rf_alloc(1, sizeof *p);
    if (!p) return rf_fail_nomem(e, sizeof *p);
    p->o = *o;
    if (prompt_opened(o)) {
        p->mode = REASONING;
        p->after_mark = true;
    }
    *out = p;
    return RF_OK;
}

static rf_status status_of(rf_tool_parser *p) {
    if (p->out.failed || p->space.failed || p->held.failed) p->failed = true;
    return p->failed ? RF_ENOMEM : RF_OK;
}

rf_status rf_tool_parser_feed(rf_tool_parser *p, rf_str text) {
    for (size_t i = 0; i < text.len && !p->failed; i++)
        step(p, text.p[i]);
    if (p->mode != SECTION) flush(p, false);
    return status_of(p);
}

/* End tokens behind the last section are not part of it. */
static void cut_hidden(rf_tool_parser *p) {
    for (size_t i = 0; i < p->o.n_hidden; i++) {
        rf_str h = p->o.hidden[i];
        size_t n = p->held.len;
        if (h.len == 0 || n < p->body_at + h.len) continue;
        if (memcmp(p->held.p + n - h.len, h.p, h.len) == 0) p->held.len -= h.len;
    }
}

rf_status rf_tool_parser_finish(rf_tool_parser *p) {
    if (p->failed) return RF_ENOMEM;
    if (p->mode == SECTION) {
        cut_hidden(p);
        try_close(p, NULL);
    }
    while (p->n_tail)
        drop_first(p);
    move_text(&p->space, &p->out);
    flush(p, true);
    return status_of(p);
}

uint32_t rf_tool_parser_n_calls(const rf_tool_parser *p) { return p->n_calls; }

void rf_tool_parser_free(rf_tool_parser *p) {
    if (!p) return;
    rf_buf_free(&p->space);
    rf_buf_free(&p->out);
    rf_buf_free(&p->held);
    rf_buf_free(&p->calls.text);
    rf_free(p);
}
