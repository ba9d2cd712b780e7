/* walker.c - a program for tools/check_grammar.py: grammars in, verdicts and random texts out.
 *
 * walker VOCAB.gguf reads one JSON object per line: {"language": "gbnf" | "schema" | "regex" |
 * "choice", "text": ..., "check": [texts], "walks": n, "seed": n}; and writes one per line:
 * {"error": ...} or {"accepts": [...], "walks": [...]}.  A walk follows the masks alone: any
 * allowed token may come, with a liking for what closes a text; null is a walk that found no end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/rng.h"
#include "grammar/grammar.h"

enum { MAX_TOKENS = 600, CALM_AFTER = 40 };

typedef struct walker {
    rf_tokenizer *t;
    rf_token_index *index;
    uint32_t *mask;
    int32_t *allowed; /* [n_vocab] */
    uint64_t seed, counter;
} walker;

static void die(const char *what, const rf_error *e) {
    fprintf(stderr, "walker: %s: %s\n", what, e ? e->text : "");
    exit(1);
}

static double chance(walker *w) { return rf_rng_unit(w->seed, 0, w->counter++); }

static rf_language language_of(rf_str name) {
    static const char *const names[] = {"gbnf", "schema", "regex", "choice"};
    for (int i = 0; i < 4; i++)
        if (rf_str_is(name, names[i])) return (rf_language)i;
    die("unknown language", NULL);
    return RF_LANGUAGE_GBNF;
}

/* Another failure than "the text does not go on so": a limit of the matcher. */
static rf_status failure;

static bool accepts(rf_grammar *g, rf_str text) {
    rf_matcher *m;
    rf_error e = {0};
    if (rf_matcher_create(&m, g, &e) != RF_OK) die("matcher", &e);
    rf_status s = rf_matcher_feed(m, text);
    if (s != RF_OK && s != RF_EARG) failure = s;
    bool yes = s == RF_OK && rf_matcher_can_end(m);
    rf_matcher_free(m);
    return yes;
}

/* A short way out, when one of these is allowed. */
static int32_t closing(const walker *w) {
    static const char *const texts[] = {"\"", "}", "]", "l", "u", "e", "n", ",", "0", "1"};
    for (size_t i = 0; i < RF_COUNT(texts); i++) {
        int32_t token = rf_token_find(w->t, rf_str_of(texts[i]));
        if (token >= 0 && (w->mask[token / 32] >> token % 32 & 1)) return token;
    }
    return RF_TOKEN_NONE;
}

/* The next token; RF_TOKEN_NONE to end, -2 when nothing is allowed. */
static int32_t choose(walker *w, const rf_matcher *m, size_t n_before) {
    size_t n = 0;
    for (uint32_t i = 0; i < w->index->n_words; i++)
        for (uint32_t left = w->mask[i]; left; left &= left - 1)
            w->allowed[n++] = (int32_t)(i * 32 + (uint32_t)__builtin_ctz(left));
    bool can_end = rf_matcher_can_end(m), calm = n_before > CALM_AFTER;
    if (n == 0) return can_end ? RF_TOKEN_NONE : -2;
    if (can_end && chance(w) < (calm ? 0.9 : 0.2)) return RF_TOKEN_NONE;
    int32_t close = chance(w) < (calm ? 0.8 : 0.25) ? closing(w) : RF_TOKEN_NONE;
    return close >= 0 ? close : w->allowed[(size_t)(chance(w) * (double)n)];
}

/* True when the text ended. */
static bool walk(walker *w, rf_grammar *g, rf_buf *text) {
    rf_matcher *m;
    rf_error e = {0};
    if (rf_matcher_create(&m, g, &e) != RF_OK) die("matcher", &e);
    bool ended = false;
    for (size_t i = 0; i < MAX_TOKENS && !ended; i++) {
        rf_status s = rf_matcher_mask(m, w->mask);
        if (s != RF_OK) failure = s;
        if (s != RF_OK) break;
        int32_t token = choose(w, m, i);
        if (token == -2) die("a dead end", NULL);
        ended = token == RF_TOKEN_NONE;
        size_t before = text->len;
        if (ended) break;
        if (rf_token_bytes(w->t, token, false, text) != RF_OK) die("token", NULL);
        rf_str bytes = {text->p + before, text->len - before};
        s = rf_matcher_feed(m, bytes);
        if (s == RF_EARG) die("an allowed token is refused", NULL);
        if (s != RF_OK) failure = s;
        if (s != RF_OK) break;
    }
    rf_matcher_free(m);
    return ended;
}

static void answer(walker *w, const rf_json *job, rf_buf *out) {
    rf_grammar *g;
    rf_error e = {0};
    const rf_json *check = rf_json_get(job, "check");
    rf_status s = rf_grammar_compile(&g, language_of(rf_json_str(rf_json_get(job, "language"))),
                                     rf_json_str(rf_json_get(job, "text")), w->index, &e);
    if (s != RF_OK) {
        rf_buf_printf(out, "{\"status\":%d,\"error\":", (int)s);
        rf_buf_json_str(out, rf_str_of(e.text));
        rf_buf_puts(out, "}\n");
        return;
    }
    rf_buf_puts(out, "{\"accepts\":[");
    for (size_t i = 0; i < rf_json_len(check); i++)
        rf_buf_printf(out, "%s%s", i ? "," : "",
                      accepts(g, rf_json_str(rf_json_at(check, i))) ? "true" : "false");
    rf_buf_puts(out, "],\"walks\":[");
    w->seed = (uint64_t)rf_json_int(rf_json_get(job, "seed"));
    w->counter = 0;
    for (int64_t i = 0; i < rf_json_int(rf_json_get(job, "walks")); i++) {
        rf_buf text = {0};
        rf_buf_puts(out, i ? "," : "");
        if (walk(w, g, &text))
            rf_buf_json_str(out, rf_buf_str(&text));
        else
            rf_buf_puts(out, "null");
        rf_buf_free(&text);
    }
    rf_buf_puts(out, "]}\n");
    rf_grammar_unref(g);
    if (failure == RF_OK) return;
    rf_buf_clear(out);
    rf_buf_printf(out, "{\"status\":%d,\"error\":\"too ambiguous\"}\n", (int)failure);
    failure = RF_OK;
}

int main(int argc, char **argv) {
    rf_gguf *file;
    rf_error e = {0};
    walker w = {0};
    if (argc != 2) die("usage: walker VOCAB.gguf", NULL);
    if (rf_gguf_open(&file, argv[1], &e) != RF_OK ||
        rf_tokenizer_from_gguf(&w.t, file, &e) != RF_OK ||
        rf_token_index_create(&w.index, w.t, &e) != RF_OK)
        die(argv[1], &e);
    w.mask = rf_alloc(w.index->n_words, sizeof *w.mask);
    w.allowed = rf_alloc(w.index->n_vocab, sizeof *w.allowed);
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, stdin)) > 0) {
        rf_json *job;
        rf_buf out = {0};
        if (rf_json_parse(&job, (rf_str){line, (size_t)n}, &e) != RF_OK) die("input", &e);
        answer(&w, job, &out);
        rf_json_free(job);
        fwrite(out.p, 1, out.len, stdout);
        fflush(stdout);
        rf_buf_free(&out);
    }
    free(line);
    rf_free(w.mask);
    rf_free(w.allowed);
    rf_token_index_free(w.index);
    rf_tokenizer_free(w.t);
    rf_gguf_close(file);
    return 0;
}
