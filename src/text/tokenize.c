/* tokenize.c - text to token ids: special tokens first, then what lies between, piece by piece.
 *
 * Pieces repeat, so each call keeps a small table of pieces it has seen and where among the output
 * their ids lie.  All state belongs to the call; the tokenizer is only read. */
#include <string.h>

#include "base/map.h"
#include "base/utf8.h"
#include "text/chat.h"
#include "text/merge.h"
#include "text/normalize.h"
#include "text/pipeline.h"

enum { CACHED_PIECE_MAX = 48, CACHE_MAX = 1 << 15 };

/* One remembered piece.  Text of generation 0 is the caller's and stays; other text lives in a room
 * that the next fragment overwrites. */
typedef struct cached {
    const char *p;
    uint32_t len, generation;
    uint32_t ids_at, n_ids;
} cached;

typedef struct job {
    const rf_tokenizer *t;
    rf_ids *ids;
    rf_error *e;
    rf_merger merger;
    rf_splitter *splitter; /* byte-level BPE of GGUF files, else NULL */
    rf_run run;            /* pipelines */
    rf_buf room;           /* the fragment's text where it had to change */
    uint32_t generation;   /* of the text under way; 0 = the caller's */
    uint32_t n_changed;    /* generations so far */
    cached *cache;         /* [cache_mask + 1] */
    size_t cache_mask;
} job;

static rf_status encode(job *j, rf_str piece) {
    if (j->t->pipe) return j->t->pipe->encode(j->t, &j->merger, piece, j->ids, j->e);
    if (j->t->is_spm) return rf_spm_encode(j->t, &j->merger, piece, j->ids, j->e);
    return rf_bpe_encode(j->t, &j->merger, piece, j->ids, j->e);
}

static rf_status take_piece(void *ctx, rf_str piece) {
    job *j = ctx;
    if (piece.len > CACHED_PIECE_MAX) return encode(j, piece);
    cached *c = &j->cache[rf_hash(piece.p, piece.len, 0) & j->cache_mask];
    if (c->len == piece.len && (c->generation == 0 || c->generation == j->generation) &&
        memcmp(c->p, piece.p, piece.len) == 0) {
        for (uint32_t i = 0; i < c->n_ids; i++) {
            rf_ids_push(j->ids, j->ids->p[c->ids_at + i]);
        }
        return RF_OK;
    }
    size_t before = j->ids->len;
    RF_TRY(encode(j, piece));
    if (j->ids->len > UINT32_MAX || j->ids->failed) return RF_OK; /* not remembered */
    *c = (cached){.p = piece.p,
                  .len = (uint32_t)piece.len,
                  .generation = j->generation,
                  .ids_at = (uint32_t)before,
                  .n_ids = (uint32_t)(j->ids->len - before)};
    return RF_OK;
}

static rf_status bpe_fragment(job *j, rf_str text) {
    rf_str clean;
    if (rf_normalize(text, j->t->normalize, &j->room, &clean) != RF_OK) {
        return rf_fail_nomem(j->e, text.len);
    }
    j->generation = clean.p == text.p ? 0 : ++j->n_changed;
    return rf_splitter_run(j->splitter, clean, take_piece, j, j->e);
}

static bool starts_word(const char *p, size_t n) {
    return n >= RF_SPM_SPACE_BYTES && memcmp(p, RF_SPM_SPACE, RF_SPM_SPACE_BYTES) == 0;
}

/* Words begin with their spaces; where no token spans two words each is encoded alone. */
static rf_status spm_words(job *j, rf_str text) {
    size_t from = 0;
    for (size_t i = 0; i < text.len;) {
        if (!starts_word(text.p + i, text.len - i)) {
            i++;
            continue;
        }
        if (i > from) RF_TRY(take_piece(j, (rf_str){text.p + from, i - from}));
        from = i;
        while (starts_word(text.p + i, text.len - i)) {
            i += RF_SPM_SPACE_BYTES;
        }
    }
    return from < text.len ? take_piece(j, (rf_str){text.p + from, text.len - from}) : RF_OK;
}

static rf_status spm_fragment(job *j, rf_str text, bool after_special) {
    rf_buf_clear(&j->room);
    if (j->t->space_prefix && after_special) {
        rf_buf_put(&j->room, RF_SPM_SPACE, RF_SPM_SPACE_BYTES);
    }
    for (size_t i = 0; i < text.len;) {
        const char *space = memchr(text.p + i, ' ', text.len - i);
        size_t n = space ? (size_t)(space - text.p) - i : text.len - i;
        rf_buf_put(&j->room, text.p + i, n);
        i += n;
        if (space) {
            rf_buf_put(&j->room, RF_SPM_SPACE, RF_SPM_SPACE_BYTES);
            i++;
        }
    }
    if (j->room.failed) return rf_fail_nomem(j->e, text.len);
    j->generation = ++j->n_changed;
    rf_str escaped = rf_buf_str(&j->room);
    return j->t->splits_words ? spm_words(j, escaped) : take_piece(j, escaped);
}

/* Which added tokens count: control ones on request only ... */
static bool may_be_special(const rf_tokenizer *t, int32_t token, bool parse_special) {
    return parse_special || t->kind[token] == RF_TOKEN_USER_DEFINED;
}

/* ... and in raw text those that are not sought after normalising. */
static bool is_raw_special(const rf_tokenizer *t, int32_t token, bool parse_special) {
    if (t->pipe && t->pipe->added_flags && t->pipe->added_flags[token] & RF_ADDED_NORMALIZED) {
        return false;
    }
    return may_be_special(t, token, parse_special);
}

static unsigned flags_of(const rf_tokenizer *t, int32_t token) {
    return t->pipe && t->pipe->added_flags ? t->pipe->added_flags[token] : 0;
}

static uint32_t char_at(rf_str s, size_t i) {
    uint32_t cp;
    (void)rf_utf8_decode(s.p + i, s.len - i, &cp);
    return cp;
}

static size_t char_before(rf_str s, size_t i) {
    size_t at = i - 1;
    while (at > 0 && i - at < 4 && ((uint8_t)s.p[at] & 0xC0) == 0x80) {
        at--;
    }
    return at;
}

/* Widens the match [*from, *to) over white space, not before low, as the token's flags say.  False:
 * the token must stand alone as a word and does not. */
static bool widen(const rf_tokenizer *t, int32_t token, rf_str text, size_t low, size_t *from,
                  size_t *to) {
    unsigned flags = flags_of(t, token);
    if (flags & RF_ADDED_SINGLE_WORD) {
        if (*from > 0 && rf_is_word(char_at(text, char_before(text, *from)))) return false;
        if (*to < text.len && rf_is_word(char_at(text, *to))) return false;
    }
    while ((flags & RF_ADDED_LSTRIP) && *from > low) {
        size_t at = char_before(text, *from);
        if (!rf_is_white(char_at(text, at))) break;
        *from = at < low ? low : at;
    }
    while ((flags & RF_ADDED_RSTRIP) && *to < text.len && rf_is_white(char_at(text, *to))) {
        uint32_t cp;
        int n = rf_utf8_decode(text.p + *to, text.len - *to, &cp);
        *to += n > 0 ? (size_t)n : 1;
    }
    return true;
}

static rf_status pipeline_pieces(job *j, rf_str text, bool at_start) {
    if (text.len == 0) return RF_OK;
    RF_TRY(rf_run_split(&j->run, text, at_start));
    j->generation = ++j->n_changed;
    rf_str all = rf_buf_str(&j->run.pieces.text);
    for (size_t i = 0; i < j->run.pieces.n; i++) {
        rf_span span = j->run.pieces.spans[i];
        if (span.len) RF_TRY(take_piece(j, (rf_str){all.p + span.at, span.len}));
    }
    return RF_OK;
}

/* What is left between raw special tokens: normalised, cut at those that are sought only then. */
static rf_status pipeline_fragment(job *j, rf_str text, bool at_start, bool parse_special) {
    const rf_pipeline *p = j->t->pipe;
    rf_str clean;
    if (rf_normalize(text, false, &j->room, &clean) != RF_OK) {
        return rf_fail_nomem(j->e, text.len);
    }
    RF_TRY(rf_run_normal(&j->run, clean, &clean));
    size_t from = 0, seek = 0, at;
    int32_t token;
    while (
        rf_special_find(j->t, &p->added, clean, seek, may_be_special, parse_special, &at, &token)) {
        size_t start = at, stop = at + p->added_text[token].len;
        seek = stop;
        if (!widen(j->t, token, clean, from, &start, &stop)) continue;
        RF_TRY(pipeline_pieces(j, (rf_str){clean.p + from, start - from}, at_start && from == 0));
        rf_ids_push(j->ids, token);
        from = seek = stop;
    }
    return pipeline_pieces(j, (rf_str){clean.p + from, clean.len - from}, at_start && from == 0);
}

static bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* A text under way: special tokens are sought inside each piece alone; what lies between two of them
 * is one fragment, however many pieces it spans. */
typedef struct walk {
    rf_str text;
    size_t from;
    bool after_special, parse_normalized;
} walk;

static rf_status fragment(job *j, const walk *w, size_t to) {
    rf_str text = {w->text.p + w->from, to - w->from};
    if (text.len == 0) return RF_OK;
    if (j->t->pipe) return pipeline_fragment(j, text, w->from == 0, w->parse_normalized);
    return j->t->is_spm ? spm_fragment(j, text, w->after_special) : bpe_fragment(j, text);
}

/* The special tokens of one piece that ends at until. */
static rf_status special_tokens(job *j, walk *w, size_t seek, size_t until, bool parse_special,
                                rf_special_filter wanted) {
    const rf_tokenizer *t = j->t;
    rf_str text = {w->text.p, until};
    size_t at;
    int32_t token;
    while (rf_special_find(t, &t->special, text, seek, wanted, parse_special, &at, &token)) {
        size_t start = at, stop = at + t->text[token].len;
        seek = stop;
        if (!widen(t, token, w->text, w->from, &start, &stop)) continue;
        RF_TRY(fragment(j, w, start > w->from ? start : w->from));
        rf_ids_push(j->ids, token);
        w->after_special = true;
        w->from = stop;
        if (t->strips_after && !t->keeps_space[token]) {
            while (w->from < w->text.len && is_ascii_space(w->text.p[w->from])) {
                w->from++;
            }
        }
        seek = w->from;
    }
    return RF_OK;
}

static rf_status fragments(job *j, rf_str text, const rf_chat_piece *pieces, size_t n_pieces) {
    walk w = {.text = text, .after_special = true};
    w.parse_normalized = n_pieces == 1 && pieces[0].is_markup;
    for (size_t i = 0; i < n_pieces; i++) {
        size_t seek = pieces[i].start > w.from ? pieces[i].start : w.from;
        /* Of several pieces only some may spell control tokens, and normalised text no longer says
         * which is which: there they are sought in the raw text too. */
        rf_special_filter wanted =
            n_pieces > 1 && pieces[i].is_markup ? may_be_special : is_raw_special;
        RF_TRY(special_tokens(j, &w, seek, pieces[i].start + pieces[i].len, pieces[i].is_markup,
                              wanted));
    }
    return fragment(j, &w, text.len);
}

static rf_status prepare(job *j, rf_str text) {
    size_t n = 64;
    while (n < CACHE_MAX && n < text.len / 8) {
        n *= 2;
    }
    j->cache = rf_alloc(n, sizeof *j->cache);
    if (!j->cache) return RF_ENOMEM;
    j->cache_mask = n - 1;
    if (j->t->pipe) return rf_searcher_create(&j->run.searcher);
    return j->t->is_spm ? RF_OK : rf_splitter_create(&j->splitter, j->t->pretok);
}

static void frame_before(const rf_tokenizer *t, rf_ids *ids) {
    for (uint32_t i = 0; t->pipe && i < t->pipe->n_before; i++) {
        rf_ids_push(ids, t->pipe->before[i]);
    }
    if (t->add_bos) rf_ids_push(ids, t->bos);
}

static void frame_after(const rf_tokenizer *t, rf_ids *ids) {
    for (uint32_t i = 0; t->pipe && i < t->pipe->n_after; i++) {
        rf_ids_push(ids, t->pipe->after[i]);
    }
    if (t->add_eos) rf_ids_push(ids, t->eos);
    if (t->add_sep) rf_ids_push(ids, t->sep);
}

static rf_status tokenize(const rf_tokenizer *t, rf_str text, const rf_chat_piece *pieces,
                          size_t n_pieces, bool add_special, rf_ids *ids, rf_error *e) {
    if (text.len > RF_TOKENIZE_MAX_BYTES) {
        return rf_fail(e, RF_EARG, "text of %zu bytes: at most %d are tokenized at once", text.len,
                       RF_TOKENIZE_MAX_BYTES);
    }
    if (add_special) frame_before(t, ids);
    rf_status s = RF_OK;
    if (text.len) {
        job j = {.t = t, .ids = ids, .e = e, .run = {.t = t, .e = e}};
        s = prepare(&j, text);
        if (s != RF_OK) rf_fail_nomem(e, CACHE_MAX * sizeof *j.cache);
        if (s == RF_OK) s = fragments(&j, text, pieces, n_pieces);
        rf_splitter_free(j.splitter);
        rf_run_free(&j.run);
        rf_merger_free(&j.merger);
        rf_buf_free(&j.room);
        rf_free(j.cache);
    }
    if (s == RF_OK && add_special) frame_after(t, ids);
    if (s == RF_OK && ids->failed) return rf_fail_nomem(e, ids->len * sizeof *ids->p);
    return s;
}

rf_status rf_tokenize(const rf_tokenizer *t, rf_str text, rf_tokenize_opts o, rf_ids *ids,
                      rf_error *e) {
    rf_chat_piece all = {.start = 0, .len = text.len, .is_markup = o.parse_special};
    return tokenize(t, text, &all, 1, o.add_special, ids, e);
}

rf_status rf_chat_tokenize(const rf_tokenizer *t, const rf_chat_text *text, bool add_special,
                           rf_ids *ids, rf_error *e) {
    return tokenize(t, rf_buf_str(&text->text), text->pieces, text->n_pieces, add_special, ids, e);
}
