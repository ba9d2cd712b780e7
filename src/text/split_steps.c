/* split_steps.c - the steps from pieces to pieces.
 *
 * Each step reads all pieces of one list and writes another, text and borders. */
#include <string.h>

#include "base/utf8.h"
#include "text/pipeline.h"

/* The bytes from at on that were put into the list become its next piece. */
static void close_piece(rf_pieces *p, size_t at) {
    if (p->text.len == at) return;
    if (p->n == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 64;
        rf_span *grown = rf_realloc(p->spans, p->cap, cap, sizeof *grown);
        if (!grown) {
            p->failed = true;
            return;
        }
        p->spans = grown;
        p->cap = cap;
    }
    p->spans[p->n++] = (rf_span){at, p->text.len - at};
}

static void put_piece(rf_pieces *p, rf_str piece) {
    size_t at = p->text.len;
    rf_buf_put(&p->text, piece.p, piece.len);
    close_piece(p, at);
}

static void clear(rf_pieces *p) {
    rf_buf_clear(&p->text);
    p->n = 0;
}

/* Matches and the stretches between them arrive in order; pending is a piece that may still grow. */
typedef struct cutter {
    const rf_step *step;
    rf_pieces *out;
    rf_str pending;
    bool pending_is_match;
} cutter;

static void flush(cutter *c) {
    if (c->pending.len) put_piece(c->out, c->pending);
    c->pending.len = 0;
}

static void take(cutter *c, rf_str part, bool is_match) {
    if (c->step->invert) is_match = !is_match;
    bool joins = false;
    switch (c->step->behavior) {
    case RF_SPLIT_REMOVED:
        if (is_match) return;
        break;
    case RF_SPLIT_ISOLATED:
        break;
    case RF_SPLIT_MERGED_WITH_PREVIOUS:
        joins = is_match && !c->pending_is_match;
        break;
    case RF_SPLIT_MERGED_WITH_NEXT:
        joins = !is_match && c->pending_is_match;
        break;
    case RF_SPLIT_CONTIGUOUS:
        joins = is_match == c->pending_is_match;
        break;
    }
    if (joins && c->pending.len) {
        c->pending.len += part.len;
    } else {
        flush(c);
        c->pending = part;
    }
    c->pending_is_match = is_match;
}

static rf_status cut(rf_run *r, const rf_step *step, rf_str text, rf_pieces *out) {
    cutter c = {.step = step, .out = out};
    size_t done = 0, from = 0;
    while (from < text.len) {
        ptrdiff_t start, end;
        RF_TRY(rf_searcher_find(r->searcher, step->pattern, text, from, &start, &end, r->e));
        if (start < 0) break;
        if ((size_t)start > done) take(&c, (rf_str){text.p + done, (size_t)start - done}, false);
        done = (size_t)start;
        from = (size_t)end;
        if (end > start) {
            take(&c, (rf_str){text.p + start, (size_t)(end - start)}, true);
            done = (size_t)end;
        } else if (from < text.len) { /* a border only: go on behind the next character */
            uint32_t cp;
            int n = rf_utf8_decode(text.p + from, text.len - from, &cp);
            from += n > 0 ? (size_t)n : 1;
        }
    }
    if (done < text.len) take(&c, (rf_str){text.p + done, text.len - done}, false);
    flush(&c);
    return RF_OK;
}

static void prefix(const rf_step *step, rf_str piece, bool at_start, rf_pieces *out) {
    size_t at = out->text.len;
    bool has = piece.len >= step->with.len && memcmp(piece.p, step->with.p, step->with.len) == 0;
    bool wanted = step->when == RF_ALWAYS || (step->when == RF_FIRST && at_start);
    if (wanted && !has) rf_buf_put(&out->text, step->with.p, step->with.len);
    rf_buf_put(&out->text, piece.p, piece.len);
    close_piece(out, at);
}

static void letters(rf_str piece, rf_pieces *out) {
    size_t at = out->text.len;
    for (size_t i = 0; i < piece.len; i++) {
        char letter[4];
        rf_buf_put(&out->text, letter, (size_t)rf_bpe_byte_char((uint8_t)piece.p[i], letter));
    }
    close_piece(out, at);
}

/* All occurrences of a space as another character. */
static void respace(const rf_step *step, rf_str piece, rf_pieces *out) {
    size_t at = out->text.len;
    for (size_t i = 0; i < piece.len; i++) {
        if (piece.p[i] == ' ') {
            rf_buf_put(&out->text, step->with.p, step->with.len);
        } else {
            rf_buf_putc(&out->text, piece.p[i]);
        }
    }
    close_piece(out, at);
}

static rf_status apply(rf_run *r, const rf_step *step, rf_str piece, bool at_start,
                       rf_pieces *out) {
    if (step->kind == RF_STEP_SPLIT) return cut(r, step, piece, out);
    if (step->kind == RF_STEP_WORD_PREFIX) {
        prefix(step, piece, at_start, out);
    } else if (step->kind == RF_STEP_METASPACE) {
        respace(step, piece, out);
    } else {
        RF_ASSERT(step->kind == RF_STEP_LETTERS);
        letters(piece, out);
    }
    return RF_OK;
}

rf_status rf_run_split(rf_run *r, rf_str text, bool at_start) {
    const rf_steps *steps = &r->t->pipe->split;
    clear(&r->pieces);
    put_piece(&r->pieces, text);
    for (uint32_t i = 0; i < steps->n; i++) {
        clear(&r->spare);
        rf_str all = rf_buf_str(&r->pieces.text);
        for (size_t k = 0; k < r->pieces.n; k++) {
            rf_span span = r->pieces.spans[k];
            RF_TRY(apply(r, &steps->p[i], (rf_str){all.p + span.at, span.len},
                         at_start && span.at == 0, &r->spare));
        }
        rf_pieces swap = r->spare;
        r->spare = r->pieces;
        r->pieces = swap;
    }
    bool failed =
        r->pieces.failed || r->pieces.text.failed || r->spare.failed || r->spare.text.failed;
    return failed ? rf_fail_nomem(r->e, text.len) : RF_OK;
}
