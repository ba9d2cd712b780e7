/* draw.c - a search for the largest noisy logit.
 *
 * A token of likelihood p has to wait for no more than reach * p to be ahead of the best so far, and a
 * wait is at least what its group's or its own random word says: most are passed over by that. */
#include "engine/draw.h"

#include <math.h>

#include "backend/noise.h"
#include "base/fmath.h"

typedef struct search {
    const rf_noise *noise;
    double base;  /* a token's likelihood is exp(scale * logit - base) */
    double reach; /* at least exp(base - best), as floats round it */
    float best;   /* noisy logit */
    int32_t token;
    uint32_t block, word[4]; /* the words of groups that were made last, from 4 * block on */
} search;

rf_noise rf_noise_at(uint64_t seed, uint64_t draw, float temperature) {
    return (rf_noise){.seed = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                      .draw = (uint32_t)draw,
                      .scale = fminf(1 / temperature, RF_NOISE_MOST_SCALE)};
}

static search search_for(const rf_noise *noise, double base) {
    return (search){.noise = noise,
                    .base = base,
                    .reach = (double)INFINITY,
                    .best = -INFINITY,
                    .token = -1,
                    .block = UINT32_MAX};
}

/* Neighbours are asked for one after the other. */
static uint32_t word_of_group(search *s, uint32_t group) {
    if (s->block != group / 4) rf_noise_words(s->noise, RF_NOISE_GROUPS, group / 4, s->word);
    s->block = group / 4;
    return s->word[group % 4];
}

/* True where the token is ahead of the best so far. */
static bool offer(search *s, int32_t token, float logit, float wait) {
    const float noisy = rf_noisy(s->noise, logit, wait);
    const bool wins = s->token < 0 || noisy > s->best || (noisy == s->best && token < s->token);
    if (!wins) return false;
    const double slack = 1e-3 + 0x1p-21 * fabs((double)noisy);
    s->best = noisy;
    s->token = token;
    s->reach = rf_exp(s->base - (double)noisy + slack);
    return true;
}

static bool cannot_win(const search *s, float wait, double likelihood) {
    return (double)wait > s->reach * likelihood; /* false where that is not a number */
}

/* The least wait of a group is at least that. */
static float least_wait(uint32_t group_word) {
    return rf_noise_of_group(group_word) / (float)RF_BEST_GROUP;
}

/* ---- rows ---- */

static void look_at_group(search *s, const rf_row *row, uint32_t g, uint32_t group_word,
                          double likeliest) {
    const uint32_t first = g * RF_BEST_GROUP;
    const uint32_t n = (uint32_t)rf_row_group_size(row, g);
    uint32_t word[4];
    for (uint32_t i = 0; i < n; i++) {
        if (i % 4 == 0) rf_noise_words(s->noise, RF_NOISE_COLUMNS, (first + i) / 4, word);
        const bool is_least = (group_word ^ i) % RF_BEST_GROUP == 0;
        const float x = row->x[first + i];
        if (!is_least && cannot_win(s, rf_noise_of_column(word[i % 4]), likeliest)) continue;
        if (isfinite(x))
            offer(s, (int32_t)(first + i), x, rf_noise_wait_of(i, group_word, word[i % 4]));
    }
}

int32_t rf_draw_from_row(const rf_noise *noise, const rf_row *row, float *likely) {
    const uint32_t n_groups = (uint32_t)rf_row_groups(row);
    search s = search_for(noise, (double)noise->scale * (double)row->max);
    uint32_t top = 0;
    while (row->most[top] != row->max)
        top++;
    rf_expf_n(likely, row->most, n_groups, row->max, noise->scale);
    look_at_group(&s, row, top, word_of_group(&s, top), 1);
    for (uint32_t g = 0; g < n_groups; g++) {
        const uint32_t word = word_of_group(&s, g);
        if (g != top && !cannot_win(&s, least_wait(word), (double)likely[g]))
            look_at_group(&s, row, g, word, (double)likely[g]);
    }
    return s.token;
}

/* ---- lists ---- */

static bool look_at(search *s, const rf_candidate *c) {
    const uint32_t column = (uint32_t)c->id;
    const uint32_t group_word = word_of_group(s, column / RF_BEST_GROUP);
    uint32_t words[4];
    if (cannot_win(s, least_wait(group_word), c->p)) return false;
    rf_noise_words(s->noise, RF_NOISE_COLUMNS, column / 4, words);
    const float wait = rf_noise_wait_of(column, group_word, words[column % 4]);
    return offer(s, c->id, (float)c->logit, wait);
}

size_t rf_draw_from_list(const rf_noise *noise, const rf_candidates *l) {
    size_t best = 0;
    for (size_t i = 1; i < l->n; i++)
        if (l->c[i].logit > l->c[best].logit) best = i;
    const double top = (double)noise->scale * l->c[best].logit;
    search s = search_for(noise, top - rf_log(l->c[best].p));
    const size_t likeliest = best;
    look_at(&s, &l->c[likeliest]);
    for (size_t i = 0; i < l->n; i++)
        if (i != likeliest && look_at(&s, &l->c[i])) best = i;
    return best;
}
