/* bench_tokenizer.c - how fast a vocabulary loads and tokenizes: FILE.gguf TEXT [rounds].
 *
 * Prints the best of the rounds, since anything slower is somebody else's work; then the time for
 * one MB of a single character, which is what breaks careless tokenizers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "text/tokenizer.h"

static uint64_t time_once(const rf_tokenizer *t, rf_str text, size_t *n_ids) {
    rf_ids ids = {0};
    rf_error e = {0};
    uint64_t start = rf_time_us();
    rf_status s = rf_tokenize(t, text, (rf_tokenize_opts){.parse_special = true}, &ids, &e);
    uint64_t us = rf_time_us() - start;
    if (s != RF_OK) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
    *n_ids = ids.len;
    rf_ids_free(&ids);
    return us ? us : 1;
}

static void time_runs(const rf_tokenizer *t) {
    static const struct {
        const char *name, *unit;
    } runs[] = {{"letter", "a"},
                {"capital", "A"},
                {"space", " "},
                {"digit", "7"},
                {"newline", "\n"},
                {"tab", "\t"},
                {"mark", "="},
                {"U+4E2D", "\xE4\xB8\xAD"},
                {"U+0301", "\xCC\x81"},
                {"two letters", "ab"},
                {"broken byte", "\xFF"},
                {"space, letter", " a"},
                {"marks 230, 220", "\xCC\x81\xCC\xA3"}};
    enum { MB = 1 << 20 };
    char *p = rf_alloc(MB, 1);
    if (!p) exit(1);
    for (size_t i = 0; i < RF_COUNT(runs); i++) {
        size_t n = strlen(runs[i].unit), n_ids;
        for (size_t at = 0; at < MB; at++) {
            p[at] = runs[i].unit[at % n];
        }
        uint64_t us = time_once(t, (rf_str){p, MB - MB % n}, &n_ids);
        printf("1 MB of %-15s %8.1f ms %9zu tokens\n", runs[i].name, (double)us / 1e3, n_ids);
    }
    rf_free(p);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: bench_tokenizer FILE.gguf TEXT [rounds]\n");
        return 2;
    }
    rf_error e = {0};
    rf_gguf *g;
    rf_tokenizer *t;
    uint8_t *text;
    size_t n;
    int rounds = argc > 3 ? atoi(argv[3]) : 5;
    if (rf_gguf_open(&g, argv[1], &e) != RF_OK ||
        rf_file_read(argv[2], (size_t)1 << 30, &text, &n, &e) != RF_OK) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    uint64_t load_us = UINT64_MAX, us = UINT64_MAX;
    for (int i = 0; i < rounds; i++) {
        uint64_t start = rf_time_us();
        if (rf_tokenizer_from_gguf(&t, g, &e) != RF_OK) {
            fprintf(stderr, "%s\n", e.text);
            return 1;
        }
        uint64_t took = rf_time_us() - start;
        if (took < load_us) load_us = took;
        if (i + 1 < rounds) rf_tokenizer_free(t);
    }
    size_t n_ids = 0;
    for (int i = 0; i < rounds; i++) {
        uint64_t took = time_once(t, (rf_str){(const char *)text, n}, &n_ids);
        if (took < us) us = took;
    }
    printf("%u tokens loaded in %.1f ms; %zu bytes to %zu tokens at %.1f MB/s\n",
           rf_tokenizer_n_vocab(t), (double)load_us / 1e3, n, n_ids, (double)n / (double)us);
    time_runs(t);
    rf_tokenizer_free(t);
    rf_free(text);
    rf_gguf_close(g);
    return 0;
}
