/* embeddings.c - texts on standard input, one a line; on standard output how alike they are.
 *
 *     cc embeddings.c $(pkg-config --cflags --libs rocmforge) -o embeddings
 *     printf 'a cat\na kitten\na steam engine\n' | ./embeddings model.gguf */
#include <rocmforge.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXTS = 64, MAX_TOKENS = 512, MAX_LINE = 4096 };

static int32_t tokens[MAX_TEXTS][MAX_TOKENS];
static char lines[MAX_TEXTS][MAX_LINE];

/* Reads and tokenizes; the number of texts, or -1 with why filled. */
static int read_texts(const rf_engine *engine, rf_embed_input *inputs, rf_text *why) {
    int n = 0;
    for (; n < MAX_TEXTS && fgets(lines[n], MAX_LINE, stdin); n++) {
        size_t len = strcspn(lines[n], "\r\n"), n_tokens = 0;
        lines[n][len] = 0;
        if (rf_engine_tokenize(engine, lines[n], len, true, false, tokens[n], MAX_TOKENS, &n_tokens,
                               why) != ROCMFORGE_OK)
            return -1;
        if (n_tokens > MAX_TOKENS)
            return snprintf(why->text, sizeof why->text, "line %d is too long", n + 1), -1;
        inputs[n] = (rf_embed_input){tokens[n], n_tokens};
    }
    return n;
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: %s MODEL.gguf <TEXTS\n", argv[0]), 2;
    rf_text why = {0};
    rf_engine *engine = NULL;
    const rf_engine_opts opts = {.model_path = argv[1]};
    if (rf_engine_open(&engine, &opts, &why) != ROCMFORGE_OK)
        return fprintf(stderr, "%s\n", why.text), 1;

    rf_embed_input inputs[MAX_TEXTS];
    int n = read_texts(engine, inputs, &why);
    size_t size = rf_engine_embed_size(engine, RF_POOLING_DEFAULT), count = n > 0 ? (size_t)n : 0;
    float *vectors = calloc(count + 1, size * sizeof *vectors);
    if (!vectors) n = -1, snprintf(why.text, sizeof why.text, "out of memory");
    if (n > 0 && rf_engine_embed_batch(engine, inputs, count, NULL, vectors, count * size, &why))
        n = -1;
    if (n < 0) fprintf(stderr, "%s\n", why.text);

    for (int i = 0; i < n; i++) /* vectors have length 1: the dot product is the cosine */
        for (int k = i + 1; k < n; k++) {
            double cosine = 0;
            for (size_t d = 0; d < size; d++)
                cosine += (double)vectors[(size_t)i * size + d] * vectors[(size_t)k * size + d];
            printf("%.4f  %s | %s\n", cosine, lines[i], lines[k]);
        }
    free(vectors);
    rf_engine_close(engine);
    return n < 0;
}
