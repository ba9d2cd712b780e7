/* bench_grammar.c - what token masks cost: VOCAB.gguf [steps].
 *
 * Walks texts through the masks of several grammars and times every mask: the first walk finds empty
 * caches (cold), the following ones mostly full ones.  Prints microseconds a token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "grammar/grammar.h"

static const struct {
    const char *name;
    rf_language language;
    const char *text;
} cases[] = {
    {"any JSON", RF_LANGUAGE_SCHEMA, "{}"},
    {"person", RF_LANGUAGE_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
     "\"integer\",\"minimum\":0,\"maximum\":150},\"email\":{\"type\":\"string\",\"maxLength\":80},"
     "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"maxItems\":20},\"address\":{"
     "\"type\":\"object\",\"properties\":{\"street\":{\"type\":\"string\"},\"zip\":{\"type\":"
     "\"string\",\"pattern\":\"^[0-9]{5}$\"}},\"required\":[\"street\",\"zip\"],"
     "\"additionalProperties\":false},\"score\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1}},"
     "\"required\":[\"name\",\"age\",\"email\",\"tags\",\"address\",\"score\"],"
     "\"additionalProperties\":false}"},
    {"text of 2000", RF_LANGUAGE_SCHEMA,
     "{\"type\":\"string\",\"minLength\":500,\"maxLength\":2000}"},
    {"regex date", RF_LANGUAGE_REGEX, "[0-9]{4}-[0-9]{2}-[0-9]{2}( [a-zA-Z ]+)?"},
    {"C-like GBNF", RF_LANGUAGE_GBNF,
     "root ::= stmt+\nstmt ::= name \" = \" expr \";\\n\"\nexpr ::= term ([-+*/] term)*\n"
     "term ::= name | [0-9]+ | \"(\" expr \")\"\nname ::= [a-z] [a-z0-9]*\n"},
    {"free text", RF_LANGUAGE_GBNF, "root ::= .*"},
};

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct bench {
    rf_tokenizer *t;
    rf_token_index *index;
    uint32_t *mask;
    double *us; /* [steps] */
    size_t steps;
} bench;

static void must(rf_status s, const rf_error *e) {
    if (s == RF_OK) return;
    fprintf(stderr, "%s: %s\n", rf_status_name(s), e ? e->text : "");
    exit(1);
}

/* A random allowed token, with a liking for the quotation mark; RF_TOKEN_NONE when there is none. */
static int32_t choose(const bench *b, uint64_t counter) {
    size_t n = 0;
    int32_t quote = rf_token_find(b->t, RF_STR("\""));
    bool can_close = quote >= 0 && (b->mask[quote / 32] >> quote % 32 & 1);
    if (can_close && rf_rng_unit(1, 1, counter) < 0.1) return quote;
    for (uint32_t i = 0; i < b->index->n_words; i++)
        n += (size_t)__builtin_popcount(b->mask[i]);
    size_t wanted = (size_t)(rf_rng_unit(1, 0, counter) * (double)n);
    for (uint32_t i = 0; i < b->index->n_vocab; i++)
        if ((b->mask[i / 32] >> i % 32 & 1) && wanted-- == 0) return (int32_t)i;
    return RF_TOKEN_NONE;
}

static void run(bench *b, rf_grammar *g, const char *name, uint64_t seed) {
    rf_error e = {0};
    rf_matcher *m;
    double sum = 0, feed = 0;
    rf_buf text = {0};
    must(rf_matcher_create(&m, g, &e), &e);
    for (size_t i = 0; i < b->steps; i++) {
        double start = now_us();
        must(rf_matcher_mask(m, b->mask), NULL);
        b->us[i] = now_us() - start;
        sum += b->us[i];
        int32_t token = choose(b, seed * b->steps + i);
        if (token == RF_TOKEN_NONE || rf_matcher_is_over(m)) {
            rf_matcher_free(m);
            must(rf_matcher_create(&m, g, &e), &e);
            continue;
        }
        rf_buf_clear(&text);
        must(rf_token_bytes(b->t, token, false, &text), NULL);
        start = now_us();
        must(rf_matcher_feed(m, rf_buf_str(&text)), NULL);
        feed += now_us() - start;
    }
    qsort(b->us, b->steps, sizeof *b->us, by_size);
    printf("%-14s %-5s mean %8.1f  p50 %8.1f  p99 %8.1f  max %8.1f  feed %6.2f us a token\n", name,
           seed ? "warm" : "cold", sum / (double)b->steps, b->us[b->steps / 2],
           b->us[b->steps * 99 / 100], b->us[b->steps - 1], feed / (double)b->steps);
    rf_matcher_free(m);
    rf_buf_free(&text);
}

int main(int argc, char **argv) {
    rf_error e = {0};
    rf_gguf *file;
    bench b = {.steps = argc > 2 ? strtoul(argv[2], NULL, 10) : 400};
    if (argc < 2 || b.steps == 0) {
        fprintf(stderr, "usage: bench_grammar VOCAB.gguf [steps]\n");
        return 2;
    }
    must(rf_gguf_open(&file, argv[1], &e), &e);
    must(rf_tokenizer_from_gguf(&b.t, file, &e), &e);
    double start = now_us();
    must(rf_token_index_create(&b.index, b.t, &e), &e);
    printf("%u tokens, %u nodes, %u without plain ones; index made in %.1f ms\n", b.index->n_vocab,
           b.index->all.n_nodes, b.index->uneven.n_nodes, (now_us() - start) / 1e3);
    b.mask = rf_alloc(b.index->n_words, sizeof *b.mask);
    b.us = rf_alloc(b.steps, sizeof *b.us);
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_grammar *g;
        rf_grammar_stats stats;
        start = now_us();
        must(rf_grammar_compile(&g, cases[i].language, rf_str_of(cases[i].text), b.index, &e), &e);
        double us = now_us() - start;
        for (uint64_t seed = 0; seed < 4; seed++)
            run(&b, g, cases[i].name, seed);
        rf_grammar_get_stats(g, &stats);
        printf("%-14s compiled in %.2f ms, %u states, %zu KB, cache %u entries, %zu KB\n",
               cases[i].name, us / 1e3, stats.n_states, stats.automaton_bytes >> 10, stats.n_cached,
               stats.cache_bytes >> 10);
        rf_grammar_unref(g);
    }
    rf_free(b.mask);
    rf_free(b.us);
    rf_token_index_free(b.index);
    rf_tokenizer_free(b.t);
    rf_gguf_close(file);
    return 0;
}
