/* bench_sampler.c - microseconds that a choice among 151,936 logits takes, for the usual options.
 *
 * Logits are drawn like those of a model that is fairly sure: most of them far below a few.  Each row
 * is another one, so that none is warm in the first-level cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/rng.h"
#include "engine/sampler.h"

enum { N_VOCAB = 151936, N_ROWS = 16, N_PROMPT = 512, N_ROUNDS = 9 };

typedef struct chain {
    const char *name;
    rf_sampling o;
} chain;

/* A sum of twelve uniform numbers is nearly normal: mean 0, deviation 3. */
static void fill(float *row, uint64_t seed) {
    for (uint32_t i = 0; i < N_VOCAB; i++) {
        double sum = -6;
        for (uint32_t k = 0; k < 12; k++)
            sum += rf_rng_unit(seed, k, i);
        row[i] = (float)(3 * sum);
    }
    for (uint32_t i = 0; i < 8; i++)
        row[(uint32_t)(rf_rng_unit(seed, 12, i) * N_VOCAB)] = 16.0f + (float)i;
}

static void die(const char *what) {
    fprintf(stderr, "bench_sampler: %s\n", what);
    exit(1);
}

static int by_time(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double measure(const chain *c, const float *logits) {
    rf_sampler *s;
    rf_error e = {0};
    double each[N_ROUNDS];
    if (rf_sampler_create(&s, &c->o, N_VOCAB, &e) != RF_OK) die(e.text);
    for (uint32_t i = 0; i < N_PROMPT; i++)
        if (rf_sampler_accept(s, (int32_t)(i * 7919 % N_VOCAB)) != RF_OK) die("out of memory");
    for (uint32_t round = 0; round < N_ROUNDS; round++) {
        uint64_t start = rf_time_us();
        for (uint32_t r = 0; r < N_ROWS; r++) {
            int32_t token;
            if (rf_sampler_pick(s, logits + (size_t)r * N_VOCAB, NULL, 0, r, &token) != RF_OK ||
                rf_sampler_accept(s, token) != RF_OK)
                die("no token chosen");
        }
        each[round] = (double)(rf_time_us() - start) / N_ROWS;
    }
    rf_sampler_free(s);
    qsort(each, N_ROUNDS, sizeof *each, by_time);
    return each[N_ROUNDS / 2];
}

int main(void) {
    rf_sampling plain = rf_sampling_default();
    plain.temperature = 1;
    plain.top_k = 0;
    plain.top_p = 1;
    plain.min_p = 0;
    chain chains[] = {{"greedy", plain},
                      {"the default: top_k 40, top_p 0.95, min_p 0.05", rf_sampling_default()},
                      {"the default with penalties", rf_sampling_default()},
                      {"greedy with penalties", plain},
                      {"min_p 0.05", plain},
                      {"top_p 0.95", plain},
                      {"temperature alone", plain}};
    chains[0].o.temperature = chains[3].o.temperature = 0;
    chains[2].o.repeat_penalty = chains[3].o.repeat_penalty = 1.1f;
    chains[4].o.min_p = 0.05f;
    chains[5].o.top_p = 0.95f;
    float *logits = rf_alloc((size_t)N_ROWS * N_VOCAB, sizeof *logits);
    if (!logits) die("out of memory");
    for (uint32_t r = 0; r < N_ROWS; r++)
        fill(logits + (size_t)r * N_VOCAB, r);
    for (size_t i = 0; i < RF_COUNT(chains); i++)
        printf("%-48s %8.1f us\n", chains[i].name, measure(&chains[i], logits));
    rf_free(logits);
    return 0;
}
