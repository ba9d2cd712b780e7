/* tokenize.c - text to token ids: special tokens first, then what lies between, piece by piece.
 *
 * Pieces repeat, so each call keeps a small table of pieces it has seen and where among the output
 * their ids lie.  All state belongs to the call; the tokenizer is only read. */
#include <string.h>

#include "base/map.h"
#include "text/chat.h"
#include "text/merge.h"
#include "text/normalize.h"

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
    rf_splitter *splitter; /* NULL for SentencePiece */
    rf_buf room;           /* the fragment's text where it had to change */
    uint32_t generation;   /* of the text under way; 0 = the caller's */
    uint32_t n_changed;    /* generations so far */
    cached *cache;         /* [cache_mask + 1] */
    size_t cache_mask;
} job;

static rf_status encode(job *j, rf_str piece) {
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

static rf_status fragment(job *j, rf_str text, bool after_special) {
    if (text.len == 0) return RF_OK;
    return j->t->is_spm ? spm_fragment(j, text, after_special) : bpe_fragment(j, text);
}

static bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Special tokens are sought inside each piece alone; the text between two of them is one fragment,
 * however many pieces it spans. */
static rf_status fragments(job *j, rf_str text, const rf_chat_piece *pieces, size_t n_pieces) {
    const rf_tokenizer *t = j->t;
    size_t from = 0, at;
    int32_t token;
    bool after_special = true;
    for (size_t i = 0; i < n_pieces; i++) {
        rf_str until = {text.p, pieces[i].start + pieces[i].len};
        size_t seek = pieces[i].start > from ? pieces[i].start : from;
        while (rf_special_find(t, until, seek, pieces[i].is_markup, &at, &token)) {
            if (at > from) RF_TRY(fragment(j, (rf_str){text.p + from, at - from}, after_special));
            rf_ids_push(j->ids, token);
            after_special = true;
            from = at + t->text[token].len;
            if (t->strips_after && !t->keeps_space[token]) {
                while (from < text.len && is_ascii_space(text.p[from])) {
                    from++;
                }
            }
            seek = from;
        }
    }
    return fragment(j, (rf_str){text.p + from, text.len - from}, after_special);
}

static rf_status prepare(job *j, rf_str text) {
    size_t n = 64;
    while (n < CACHE_MAX && n < text.len / 8) {
        n *= 2;
    }
    j->cache = rf_alloc(n, sizeof *j->cache);
    if (!j->cache) return RF_ENOMEM;
    j->cache_mask = n - 1;
    return j->t->is_spm ? RF_OK : rf_splitter_create(&j->splitter, j->t->pretok);
}

static rf_status tokenize(const rf_tokenizer *t, rf_str text, const rf_chat_piece *pieces,
                          size_t n_pieces, bool add_special, rf_ids *ids, rf_error *e) {
    if (text.len > RF_TOKENIZE_MAX_BYTES) {
        return rf_fail(e, RF_EARG, "text of %zu bytes: at most %d are tokenized at once", text.len,
                       RF_TOKENIZE_MAX_BYTES);
    }
    if (add_special && t->add_bos) rf_ids_push(ids, t->bos);
    rf_status s = RF_OK;
    if (text.len) {
        job j = {.t = t, .ids = ids, .e = e};
        s = prepare(&j, text);
        if (s != RF_OK) rf_fail_nomem(e, CACHE_MAX * sizeof *j.cache);
        if (s == RF_OK) s = fragments(&j, text, pieces, n_pieces);
        rf_splitter_free(j.splitter);
        rf_merger_free(&j.merger);
        rf_buf_free(&j.room);
        rf_free(j.cache);
    }
    if (s == RF_OK && add_special && t->add_eos) rf_ids_push(ids, t->eos);
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
