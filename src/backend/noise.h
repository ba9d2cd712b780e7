/* noise.h - the random number that a draw gives each column of a row of logits: the column drawn is the
 * one whose noisy logit is the largest.
 *
 * If waits w are independent and exponentially distributed, the column with the largest
 * scale * logit - ln w is that with a given likelihood of softmax(scale * logits) (Gumbel 1954; Maddison,
 * Tarlow and Minka, "A* Sampling", 2014).  A wait depends on the seed, the draw and the column alone.
 * So nothing is summed up over the row, whoever looks at some of its columns only finds the same one,
 * and a draw is a search for the largest number, which a GPU can do where the row is.
 *
 * Waits of RF_BEST_GROUP neighbours are made from the least of them: that is exponential with a 64th of
 * the mean, it is each one's with the same chance, and by how much the others wait longer is exponential
 * again, since waiting has no memory.  So one number tells of a whole group whether it is worth a look.
 *
 * Included by kernels as well, which define RF_BOTH before: one sequence of IEEE operations. */
#pragma once
#include "backend/best.h"
#include "base/philox.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The fourth word of the generator's counter; other streams (rng.h) have 0 there. */
enum { RF_NOISE_COLUMNS = 2, RF_NOISE_GROUPS = 3 };
#define RF_NOISE_MOST_SCALE 1e6f /* of logits: temperatures below 1e-6 count as that */

/* ln x is f + f^2 (f P(f) - 1/2) + e ln 2 for x = (1 + f) 2^e, 1 + f in [sqrt(1/2), sqrt(2)); P is a
 * minimax polynomial, with which the sum without e is right to 6e-9 of itself. */
#define RF_NOISE_LN2 0.69314718f
#define RF_NOISE_P                                                                        \
    {                                                                                     \
        0.33333331f, -0.25000823f, 0.20001227f, -0.16623357f, 0.14201762f, -0.131601945f, \
            0.12761551f, -0.07634431f                                                     \
    }

/* Words 4 i to 4 i + 3 of the draw's, of columns or of groups. */
RF_BOTH void rf_noise_words(const rf_noise *n, uint32_t kind, uint32_t i, uint32_t out[4]) {
    out[0] = n->draw;
    out[1] = 0;
    out[2] = i;
    out[3] = kind;
    rf_philox_words(n->seed[0], n->seed[1], out);
}

/* A column's word as a number in (0, 1]. */
RF_BOTH float rf_noise_of_column(uint32_t word) {
    return ((float)(int32_t)(word >> 1) + 0.5f) * (1.0f / 2147483648.0f);
}

/* A group's likewise, but for its low bits, which tell whose is the least wait. */
RF_BOTH float rf_noise_of_group(uint32_t word) {
    return ((float)(int32_t)(word / RF_BEST_GROUP) + 0.5f) * ((float)RF_BEST_GROUP / 4294967296.0f);
}

RF_BOTH float rf_noise_ln_near_1(float f, float e) {
    const float p[] = RF_NOISE_P;
    float sum = p[7];
    for (int i = 6; i >= 0; i--)
        sum = __builtin_fmaf(sum, f, p[i]);
    sum = __builtin_fmaf(f * f, __builtin_fmaf(f, sum, -0.5f), f);
    return __builtin_fmaf(e, RF_NOISE_LN2, sum);
}

/* x: normal and above 0.  *f and *e as above. */
RF_BOTH void rf_noise_split(float x, float *f, float *e) {
    const uint32_t root_half = 0x3f3504f3u;
    union {
        float f;
        uint32_t bits;
    } v = {x};
    const uint32_t over = v.bits - root_half;
    *e = (float)((int32_t)over >> 23);
    v.bits = (over & 0x7fffffu) + root_half;
    *f = v.f - 1;
}

RF_BOTH float rf_noise_ln(float x) {
    float f, e;
    rf_noise_split(x, &f, &e);
    return rf_noise_ln_near_1(f, e);
}

/* The wait -ln(1 - v), at least v; v in (0, 1], of which 1 counts as 1 - 2^-25.  Small ones, which win,
 * are as exact as v is. */
RF_BOTH float rf_noise_wait(float v) {
    const float rest = 1 - v, least = 1.0f / 33554432.0f;
    const int is_small = v < 0.25f;
    float f, e;
    rf_noise_split(rest < least ? least : rest, &f, &e);
    return -rf_noise_ln_near_1(is_small ? -v : f, is_small ? 0.0f : e);
}

/* The wait of a column, from its group's word and its own. */
RF_BOTH float rf_noise_wait_of(uint32_t column, uint32_t group_word, uint32_t word) {
    const float least =
        rf_noise_wait(rf_noise_of_group(group_word)) * (1.0f / (float)RF_BEST_GROUP);
    const int is_least = (group_word ^ column) % RF_BEST_GROUP == 0;
    return is_least ? least : least + rf_noise_wait(rf_noise_of_column(word));
}

RF_BOTH float rf_noisy(const rf_noise *n, float logit, float wait) {
    return __builtin_fmaf(logit, n->scale, -rf_noise_ln(wait));
}

/* Mass is rf_expf_units below the largest logit of the row: integers, so that a sum has no order.  The whole
 * row's is that of its groups, each of which was made below its own largest logit, which has the given
 * likelihood (rf_expf) in the row: so that groups need not wait for the row's.  The k largest columns are few:
 * theirs is the sum of each one's below the row's largest. */
RF_BOTH uint64_t rf_noise_mass(uint64_t units, float likelihood) {
    return (uint64_t)((float)units * likelihood);
}

/* Of all columns' mass, what those before a column may hold at most less one. */
RF_BOTH uint64_t rf_noise_share(uint64_t all, uint32_t share) {
    const uint64_t part = (all >> 32) * share + ((all & 0xffffffffu) * share >> 32);
    return part > 0 ? part : 1;
}

/* One column's noisy number; the logit is finite. */
RF_BOTH float rf_noisy_at(const rf_noise *n, uint32_t column, float logit) {
    const uint32_t i = column / RF_BEST_GROUP % 4, k = column % 4;
    uint32_t groups[4], words[4]; /* chosen from without an address, which registers do not have */
    rf_noise_words(n, RF_NOISE_GROUPS, column / (4 * RF_BEST_GROUP), groups);
    rf_noise_words(n, RF_NOISE_COLUMNS, column / 4, words);
    const uint32_t group = i & 2 ? (i & 1 ? groups[3] : groups[2]) : i & 1 ? groups[1] : groups[0];
    const uint32_t word = k & 2 ? (k & 1 ? words[3] : words[2]) : k & 1 ? words[1] : words[0];
    return rf_noisy(n, logit, rf_noise_wait_of(column, group, word));
}

/* The drawn column of a row; without noise that of the largest logit, the lowest of equals.  RF_BEST_NONE: none
 * is finite.  Looks at all, again and again: for tests.  Not for kernels. */
uint32_t rf_noise_first(const rf_noise *n, const float *x, uint32_t cols);

#ifdef __cplusplus
}
#endif
