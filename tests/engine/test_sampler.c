/* test_sampler.c - every sampling option against tests/data/engine/sampler.txt, which
 * tools/make_sampler_fixtures.py computed from the options' definitions.
 *
 * The sampler shows no distribution, only draws: so each case is drawn many times and compared with
 * the draw that the expected distribution gives with the same noise, and its frequencies
 * with the expected ones.  All seeds are fixed: a test that passes once always passes. */
#include "engine/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/noise.h"
#include "base/buf.h"
#include "base/rng.h"
#include "lib/testlib.h"

enum { MAX_VOCAB = 64, MAX_ROWS = 32, N_DRAWS = 3000, SEED = 77 };

typedef struct row {
    char name[16];
    uint32_t n;
    float logits[MAX_VOCAB];
} row;

typedef struct dist { /* likeliest first, ties: lowest id first */
    uint32_t n;
    int32_t id[MAX_VOCAB];
    double p[MAX_VOCAB];
} dist;

typedef struct one_case {
    int number;
    const row *row;
    rf_sampling o;
    rf_logit_bias bias[8];
    int32_t history[MAX_VOCAB], breakers[MAX_VOCAB], banned[MAX_VOCAB];
    size_t n_history, n_breakers, n_banned;
    dist struck, spared; /* with and without XTC */
} one_case;

/* ln of a token's wait in a draw, in double, from the generator's words and the definition. */
static double ln_wait(uint64_t seed, uint64_t draw, uint32_t token) {
    uint32_t group[4], word[4];
    rf_philox(seed, (uint64_t)3 << 32 | token / 256, draw, group);
    rf_philox(seed, (uint64_t)2 << 32 | token / 4, draw, word);
    const uint32_t g = group[token / 64 % 4], w = word[token % 4];
    double wait = -log1p(-((g >> 6) + 0.5) / 0x1p26) / 64;
    if (g % 64 != token % 64) wait -= log1p(-((w >> 1) + 0.5) / 0x1p31);
    return log(wait);
}

/* Who is ahead by noise, and by how much. */
typedef struct leader {
    int32_t id; /* -1: nobody was offered */
    double noisy, second;
} leader;

static const leader nobody = {-1, (double)-INFINITY, (double)-INFINITY};

static void offer(leader *l, int32_t id, double noisy) {
    if (noisy > l->noisy) l->id = id;
    l->second = fmax(l->second, fmin(noisy, l->noisy));
    l->noisy = fmax(noisy, l->noisy);
}

/* ---- the fixture ---- */

static uint32_t read_numbers(const char *p, double *out) {
    uint32_t n = 0;
    for (char *end; n < MAX_VOCAB; p = end) {
        out[n] = strtod(p, &end);
        if (end == p) break;
        n++;
    }
    return n;
}

static size_t read_ids(const char *p, int32_t *out) {
    double numbers[MAX_VOCAB];
    uint32_t n = read_numbers(p, numbers);
    for (uint32_t i = 0; i < n; i++)
        out[i] = (int32_t)numbers[i];
    return n;
}

static void read_dist(const char *p, dist *out) {
    int id, used;
    double likely;
    out->n = 0;
    for (; sscanf(p, " %d:%lf%n", &id, &likely, &used) == 2; p += used) {
        assert_true(out->n < MAX_VOCAB);
        out->id[out->n] = id;
        out->p[out->n++] = likely;
    }
}

static bool set_option(rf_sampling *o, const char *key, double x) {
    const struct {
        const char *key;
        float *f;
        int32_t *i;
    } fields[] = {
        {"temperature", &o->temperature, NULL},
        {"top_k", NULL, &o->top_k},
        {"top_p", &o->top_p, NULL},
        {"min_p", &o->min_p, NULL},
        {"typical_p", &o->typical_p, NULL},
        {"top_n_sigma", &o->top_n_sigma, NULL},
        {"xtc_probability", &o->xtc_probability, NULL},
        {"xtc_threshold", &o->xtc_threshold, NULL},
        {"repeat_penalty", &o->repeat_penalty, NULL},
        {"presence_penalty", &o->presence_penalty, NULL},
        {"frequency_penalty", &o->frequency_penalty, NULL},
        {"penalty_last_n", NULL, &o->penalty_last_n},
        {"dry_multiplier", &o->dry_multiplier, NULL},
        {"dry_base", &o->dry_base, NULL},
        {"dry_allowed_length", NULL, &o->dry_allowed_length},
        {"dry_last_n", NULL, &o->dry_last_n},
        {"mirostat_tau", &o->mirostat_tau, NULL},
        {"mirostat_eta", &o->mirostat_eta, NULL},
    };
    if (strcmp(key, "mirostat") == 0) return o->mirostat = x != 0, true;
    for (size_t i = 0; i < RF_COUNT(fields); i++) {
        if (strcmp(fields[i].key, key) != 0) continue;
        if (fields[i].f)
            *fields[i].f = (float)x;
        else
            *fields[i].i = (int32_t)x;
        return true;
    }
    return false;
}

/* Everything off: the library's own defaults are not what most cases start from. */
static rf_sampling plain(void) {
    rf_sampling o = rf_sampling_default();
    o.temperature = o.top_p = 1;
    o.top_k = 0;
    o.min_p = 0;
    o.penalty_last_n = -1;
    o.seed = SEED;
    return o;
}

static void case_line(one_case *c, const char *key, const char *rest) {
    double numbers[MAX_VOCAB];
    if (strcmp(key, "history") == 0)
        c->n_history = read_ids(rest, c->history);
    else if (strcmp(key, "breakers") == 0)
        c->n_breakers = read_ids(rest, c->breakers);
    else if (strcmp(key, "banned") == 0)
        c->n_banned = read_ids(rest, c->banned);
    else if (strcmp(key, "struck") == 0)
        read_dist(rest, &c->struck), c->spared = c->struck;
    else if (strcmp(key, "spared") == 0)
        read_dist(rest, &c->spared);
    else if (strcmp(key, "bias") == 0 && read_numbers(rest, numbers) == 2)
        c->bias[c->o.n_logit_bias++] = (rf_logit_bias){(int32_t)numbers[0], (float)numbers[1]};
    else if (read_numbers(rest, numbers) != 1 || !set_option(&c->o, key, numbers[0]))
        fail_msg("case %d: unknown line '%s'", c->number, key);
}

/* Calls fn for every case; returns how many there were. */
static int for_each_case(void (*fn)(const one_case *c)) {
    static row rows[MAX_ROWS];
    size_t n_rows = 0, bytes;
    int n_cases = 0;
    uint8_t *text = rf_test_read(rf_test_data("engine/sampler.txt"), &bytes);
    rf_buf copy = {0};
    rf_buf_put(&copy, text, bytes);
    rf_free(text);
    one_case c = {0};
    char *line, *save = NULL;
    for (line = strtok_r(copy.p, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char key[32] = "", name[16] = "";
        int used = 0;
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%31s%n", key, &used), 1);
        if (strcmp(key, "row") == 0) {
            row *r = &rows[n_rows++];
            double numbers[MAX_VOCAB];
            assert_int_equal(sscanf(line, "row %15s%n", r->name, &used), 1);
            r->n = read_numbers(line + used, numbers);
            for (uint32_t i = 0; i < r->n; i++)
                r->logits[i] = (float)numbers[i];
        } else if (strcmp(key, "case") == 0) {
            c = (one_case){.o = plain()};
            assert_int_equal(sscanf(line, "case %d %15s", &c.number, name), 2);
            for (size_t i = 0; i < n_rows; i++)
                if (strcmp(rows[i].name, name) == 0) c.row = &rows[i];
            assert_non_null(c.row);
        } else if (strcmp(key, "end") == 0) {
            fn(&c);
            n_cases++;
        } else {
            case_line(&c, key, line + used);
        }
    }
    rf_buf_free(&copy);
    return n_cases;
}

static rf_sampler *sampler_for(const one_case *c) {
    rf_sampler *s;
    rf_error e = {0};
    rf_sampling o = c->o;
    o.logit_bias = c->bias;
    if (rf_sampler_create(&s, &o, c->row->n, &e) != RF_OK)
        fail_msg("case %d: %s", c->number, e.text);
    for (size_t i = 0; i < c->n_history; i++)
        assert_int_equal(rf_sampler_accept(s, c->history[i]), RF_OK);
    assert_int_equal(rf_sampler_set_breakers(s, c->breakers, c->n_breakers), RF_OK);
    return s;
}

/* ---- draws against expected distributions ---- */

/* Noisy logits are floats. */
static double rounding_of(const one_case *c) {
    float most = 1;
    for (uint32_t i = 0; i < c->row->n; i++)
        if (isfinite(c->row->logits[i])) most = fmaxf(most, fabsf(c->row->logits[i]));
    return 1e-5 + 4e-7 * (double)most / (double)c->o.temperature;
}

/* The token whose likelihood, by the noise of that draw, comes first. */
static int32_t expected_draw(const one_case *c, uint64_t counter, bool *too_close) {
    bool strikes = rf_rng_unit(c->o.seed, 1, counter) < (double)c->o.xtc_probability;
    const dist *d = strikes ? &c->struck : &c->spared;
    leader l = nobody;
    for (uint32_t i = 0; i < d->n; i++)
        offer(&l, d->id[i], log(d->p[i]) - ln_wait(c->o.seed, counter, (uint32_t)d->id[i]));
    *too_close = d->n > 1 && l.noisy - l.second < rounding_of(c);
    return l.id;
}

static void check_frequencies(const one_case *c, const uint32_t *seen) {
    double likely[MAX_VOCAB] = {0}, share = (double)c->o.xtc_probability;
    for (uint32_t i = 0; i < c->struck.n; i++)
        likely[c->struck.id[i]] += share * c->struck.p[i];
    for (uint32_t i = 0; i < c->spared.n; i++)
        likely[c->spared.id[i]] += (1 - share) * c->spared.p[i];
    double chi = 0, rest_seen = 0, rest_expected = 0;
    int freedom = 0;
    for (uint32_t i = 0; i < c->row->n; i++) {
        double expected = likely[i] * N_DRAWS;
        if (likely[i] <= 0 && seen[i] > 0) fail_msg("case %d: drew %u", c->number, i);
        if (expected < 10) { /* too rare for the approximation: together they count as one */
            rest_expected += expected;
            rest_seen += seen[i];
            continue;
        }
        chi += (seen[i] - expected) * (seen[i] - expected) / expected;
        freedom++;
    }
    if (rest_expected >= 10) {
        chi += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
        freedom++;
    }
    if (chi > freedom + 5 * sqrt(2.0 * freedom) + 5)
        fail_msg("case %d: chi square %g with %d cells", c->number, chi, freedom);
}

static void check_case(const one_case *c) {
    rf_sampler *s = sampler_for(c);
    uint32_t seen[MAX_VOCAB] = {0}, n_skipped = 0;
    for (uint64_t counter = 0; counter < N_DRAWS; counter++) {
        int32_t token = -1;
        bool too_close = false;
        if (c->o.mirostat && counter > 0) { /* it remembers its draws: each one from the start */
            rf_sampler_free(s);
            s = sampler_for(c);
        }
        rf_status status =
            rf_sampler_pick(s, c->row->logits, c->banned, c->n_banned, counter, &token);
        if (c->struck.n == 0) {
            assert_int_equal(status, RF_EARG);
            rf_sampler_free(s);
            return;
        }
        assert_int_equal(status, RF_OK);
        int32_t want = expected_draw(c, counter, &too_close);
        n_skipped += too_close;
        if (token != want && !too_close)
            fail_msg("case %d: draw %u is %d, expected %d", c->number, (unsigned)counter, token,
                     want);
        seen[token]++;
    }
    assert_true(n_skipped < 3 + 2 * N_DRAWS * rounding_of(c)); /* as chance has them */
    check_frequencies(c, seen);
    rf_sampler_free(s);
}

/* Greedy, temperature, top-k, top-p, min-p, typical, top-n-sigma, XTC, DRY, penalties, bias,
 * mirostat's first draw, bans, and their order: 388 cases of 3,000 draws. */
static void cases_of_the_oracle(void **state) {
    (void)state;
    assert_int_equal(for_each_case(check_case), 388);
}

/* ---- mirostat over time ---- */

/* Follows the published algorithm beside the sampler: cut where the surprise passes mu, draw, steer
 * mu by the surprise seen.  The sampler must keep to the cut, and reach the surprise asked for. */
static void mirostat_steers(void **state) {
    (void)state;
    enum { N = 40, STEPS = 4000 };
    rf_sampling o = plain();
    o.mirostat = true;
    o.mirostat_tau = 2.5f;
    o.mirostat_eta = 0.2f;
    rf_sampler *s;
    assert_int_equal(rf_sampler_create(&s, &o, N, NULL), RF_OK);
    uint64_t noise = 5;
    double mu = 2 * (double)o.mirostat_tau, sum = 0;
    uint32_t n_cut = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        float logits[N];
        double p[N], total = 0, kept = 0;
        for (int i = 0; i < N; i++)
            total += p[i] = exp((double)(logits[i] = 3 * rf_test_randf(&noise)));
        for (int i = 0; i < N; i++)
            kept += -log2(p[i] / total) <= mu ? p[i] / total : 0;
        int32_t token;
        assert_int_equal(rf_sampler_pick(s, logits, NULL, 0, step, &token), RF_OK);
        double surprise = -log2(p[token] / total);
        if (kept > 0) {
            if (surprise > mu + 1e-9) fail_msg("step %u: %g > %g", (unsigned)step, surprise, mu);
            n_cut += kept < 0.999;
            surprise = -log2(p[token] / total / kept);
        } else { /* nothing is below mu: only the likeliest may come, and it is certain */
            for (int i = 0; i < N; i++)
                assert_true(p[i] <= p[token]);
            surprise = 0;
        }
        mu -= (double)o.mirostat_eta * (surprise - (double)o.mirostat_tau);
        if (step >= 500) sum += surprise;
    }
    double mean = sum / (STEPS - 500);
    assert_true(fabs(mean - 2.5) < 0.05);
    assert_true(n_cut > STEPS / 2);
    rf_sampler_free(s);
}

/* ---- seeds and counters ---- */

static void draw_text(uint64_t seed, uint64_t first, int32_t *out, size_t n) {
    float logits[32];
    uint64_t noise = 1;
    for (int i = 0; i < 32; i++)
        logits[i] = rf_test_randf(&noise);
    rf_sampling o = plain();
    o.seed = seed;
    rf_sampler *s;
    assert_int_equal(rf_sampler_create(&s, &o, 32, NULL), RF_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(rf_sampler_pick(s, logits, NULL, 0, first + i, &out[i]), RF_OK);
    rf_sampler_free(s);
}

static void same_seed_same_draws(void **state) {
    (void)state;
    int32_t a[64], b[64];
    draw_text(3, 0, a, 64);
    draw_text(3, 0, b, 64);
    assert_memory_equal(a, b, sizeof a);
    draw_text(4, 0, b, 64);
    assert_memory_not_equal(a, b, sizeof a);
    draw_text(3, 64, b, 64);
    assert_memory_not_equal(a, b, sizeof a);
    draw_text(3, 16, b, 48); /* a draw depends on its counter, not on those before it */
    assert_memory_equal(a + 16, b, 48 * sizeof *a);
}

/* The row of logits stays as it was, and a big vocabulary is no other matter than a small one. */
static void big_vocabulary(void **state) {
    (void)state;
    enum { N = 50000 };
    float *logits = rf_alloc(N, sizeof *logits), *copy = rf_alloc(N, sizeof *copy);
    uint64_t noise = 9;
    for (int i = 0; i < N; i++)
        logits[i] = copy[i] = 10 * rf_test_randf(&noise);
    rf_sampling o = rf_sampling_default();
    o.seed = SEED;
    o.min_p = 0;
    o.top_p = 1;
    rf_sampler *s;
    assert_int_equal(rf_sampler_create(&s, &o, N, NULL), RF_OK);
    rf_token_prob top[20];
    assert_int_equal(rf_top_logprobs(logits, N, 20, top), RF_OK);
    for (uint64_t counter = 0; counter < 60; counter++) {
        int32_t token, above = 0;
        assert_int_equal(rf_sampler_pick(s, logits, NULL, 0, counter, &token), RF_OK);
        for (int i = 0; i < N; i++)
            above += logits[i] > logits[token];
        assert_true(above < 40);
    }
    assert_memory_equal(logits, copy, N * sizeof *logits);
    rf_sampler_free(s);
    rf_free(logits);
    rf_free(copy);
}

/* How often tokens of several groups come, the last of which is not full. */
static void frequencies_of_groups(void **state) {
    (void)state;
    enum { N = 300, DRAWS = 60000 };
    float logits[N];
    double p[N], sum = 0, chi = 0;
    uint32_t seen[N] = {0};
    uint64_t noise = 3;
    for (int i = 0; i < N; i++)
        sum += p[i] = exp((double)(logits[i] = 2 * rf_test_randf(&noise)) / 1.25);
    for (int kind = 0; kind < 2; kind++) { /* from a row, from a list */
        rf_sampling o = plain();
        o.temperature = 1.25f;
        o.top_k = kind ? N : 0;
        rf_sampler *s;
        assert_int_equal(rf_sampler_create(&s, &o, N, NULL), RF_OK);
        for (uint64_t n = (uint64_t)kind; n < DRAWS; n += 2) {
            int32_t token;
            assert_int_equal(rf_sampler_pick(s, logits, NULL, 0, n, &token), RF_OK);
            seen[token]++;
        }
        rf_sampler_free(s);
    }
    for (int i = 0; i < N; i++) {
        double expected = DRAWS * p[i] / sum;
        assert_true(expected > 10);
        chi += (seen[i] - expected) * (seen[i] - expected) / expected;
    }
    assert_true(chi < N + 4 * sqrt(2.0 * N));
}

/* ---- refusals ---- */

static void refuse(rf_sampling o, const char *field, const char *range) {
    rf_sampler *s = NULL;
    rf_error e = {0};
    assert_int_equal(rf_sampler_create(&s, &o, 10, &e), RF_EARG);
    assert_null(s);
    if (!strstr(e.text, field) || !strstr(e.text, range))
        fail_msg("'%s' does not name %s and %s", e.text, field, range);
}

static void wrong_options(void **state) {
    (void)state;
    static const struct {
        const char *field, *range;
        float low, high;
    } numbers[] = {
        {"temperature", "between 0 and 100", -0.01f, 100.5f},
        {"top_p", "between 0 and 1", -0.01f, 1.01f},
        {"min_p", "between 0 and 1", -0.01f, 1.01f},
        {"typical_p", "between 0 and 1", -0.01f, 1.01f},
        {"top_n_sigma", "between 0 and 100", -1, 101},
        {"xtc_probability", "between 0 and 1", -0.01f, 1.01f},
        {"xtc_threshold", "between 0 and 1", -0.01f, 1.01f},
        {"repeat_penalty", "between 0.01 and 100", 0, 101},
        {"presence_penalty", "between -100 and 100", -101, 101},
        {"frequency_penalty", "between -100 and 100", -101, 101},
        {"dry_multiplier", "between 0 and 100", -1, 101},
        {"dry_base", "between 1 and 100", 0.5f, 101},
        {"mirostat_tau", "between 0 and 100", -1, 101},
        {"mirostat_eta", "between 0 and 10", -1, 11},
    };
    for (size_t i = 0; i < RF_COUNT(numbers); i++) {
        const float wrong[] = {numbers[i].low, numbers[i].high, NAN, INFINITY, -INFINITY};
        for (size_t k = 0; k < RF_COUNT(wrong); k++) {
            rf_sampling o = plain();
            assert_true(set_option(&o, numbers[i].field, (double)wrong[k]));
            refuse(o, numbers[i].field, numbers[i].range);
        }
    }
    static const struct {
        const char *field, *range;
        int wrong;
    } whole[] = {{"top_k", "0 (off) or more", -1},
                 {"penalty_last_n", "-1 (the whole context) or more", -2},
                 {"dry_last_n", "-1 (the whole context) or more", -2},
                 {"dry_allowed_length", "0 or more", -1}};
    for (size_t i = 0; i < RF_COUNT(whole); i++) {
        rf_sampling o = plain();
        assert_true(set_option(&o, whole[i].field, whole[i].wrong));
        refuse(o, whole[i].field, whole[i].range);
    }
    static const rf_logit_bias biases[] = {{-1, 0}, {10, 0}, {2, NAN}, {2, INFINITY}, {2, 2e6f}};
    for (size_t i = 0; i < RF_COUNT(biases); i++) {
        rf_sampling o = plain();
        o.logit_bias = &biases[i];
        o.n_logit_bias = 1;
        refuse(o, "logit_bias", i < 2 ? "vocabulary's 10" : "up to 1e6, or -inf");
    }
}

static void wrong_tokens(void **state) {
    (void)state;
    rf_sampling o = plain();
    rf_sampler *s;
    assert_int_equal(rf_sampler_create(&s, &o, 4, NULL), RF_OK);
    static const int32_t bad[] = {-1, 4}, banned[] = {-7, 4, INT32_MAX, 0, 1, 2};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rf_sampler_accept(s, bad[i]), RF_EARG);
        assert_int_equal(rf_sampler_set_breakers(s, &bad[i], 1), RF_EARG);
    }
    static const float logits[] = {9, 8, 7, -6};
    int32_t token;
    assert_int_equal(rf_sampler_pick(s, logits, banned, 6, 0, &token), RF_OK);
    assert_int_equal(token, 3); /* foreign ids ban nothing */
    static const int32_t all[] = {0, 1, 2, 3};
    assert_int_equal(rf_sampler_pick(s, logits, all, 4, 0, &token), RF_EARG);
    rf_sampler_free(s);
    rf_sampler_free(NULL);
}

/* However a changed logit is rounded, the best reaches a bound of itself. */
static void min_p_of_one(void **state) {
    (void)state;
    for (int i = 0; i < 60; i++) {
        const float logits[] = {-4, 0.37f * (float)(i + 1), -3};
        rf_sampling o = plain();
        o.min_p = 1;
        o.repeat_penalty = 0.7f;
        o.top_k = i % 2 ? 3 : 0;
        rf_sampler *s;
        int32_t token = -1;
        assert_int_equal(rf_sampler_create(&s, &o, 3, NULL), RF_OK);
        assert_int_equal(rf_sampler_accept(s, 1), RF_OK);
        assert_int_equal(rf_sampler_pick(s, logits, NULL, 0, (uint64_t)i, &token), RF_OK);
        assert_int_equal(token, 1);
        rf_sampler_free(s);
    }
}

/* A penalty as large as numbers get does not become a NaN that is chosen. */
static void extreme_penalties(void **state) {
    (void)state;
    rf_sampling o = plain();
    o.dry_multiplier = 100;
    o.dry_base = 100;
    o.repeat_penalty = 100;
    rf_sampler *s;
    assert_int_equal(rf_sampler_create(&s, &o, 3, NULL), RF_OK);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(rf_sampler_accept(s, 1), RF_OK);
    static const float logits[] = {-80, 3e38f, -INFINITY};
    for (uint64_t counter = 0; counter < 50; counter++) {
        int32_t token;
        assert_int_equal(rf_sampler_pick(s, logits, NULL, 0, counter, &token), RF_OK);
        assert_int_equal(token, 0);
    }
    rf_sampler_free(s);
}

/* ---- log-probabilities ---- */

static void logprobs(void **state) {
    (void)state;
    enum { N = 60 };
    uint64_t noise = 3;
    for (int round = 0; round < 50; round++) {
        float logits[N];
        double sum = 0, norm;
        for (int i = 0; i < N; i++) {
            logits[i] = round % 2 ? roundf(4 * rf_test_randf(&noise)) : 30 * rf_test_randf(&noise);
            if (round % 5 == 4 && i % 7 == 0) logits[i] = i % 2 ? NAN : -INFINITY;
            sum += isnan(logits[i]) ? 0 : exp((double)logits[i]);
        }
        norm = log(sum);
        bool used[N] = {0};
        rf_token_prob top[N];
        size_t n = (size_t)(1 + round % N);
        assert_int_equal(rf_top_logprobs(logits, N, n, top), RF_OK);
        for (size_t k = 0; k < n; k++) {
            int best = -1;
            for (int i = 0; i < N; i++) {
                float x = isnan(logits[i]) ? -INFINITY : logits[i];
                float y = best < 0 || isnan(logits[best]) ? -INFINITY : logits[best];
                if (!used[i] && (best < 0 || x > y)) best = i;
            }
            used[best] = true;
            assert_int_equal(top[k].token, best);
            if (isnan(logits[best]) || isinf(logits[best])) {
                assert_true(top[k].logprob == -INFINITY);
                continue;
            }
            assert_true(fabs((double)top[k].logprob - ((double)logits[best] - norm)) < 1e-5);
            assert_true(top[k].logprob == rf_logprob(logits, N, best));
        }
    }
    rf_token_prob none;
    assert_int_equal(rf_top_logprobs(NULL, 0, 0, &none), RF_OK);
    static const float two[] = {INFINITY, 0}, hopeless[] = {-INFINITY, NAN};
    assert_int_equal(rf_top_logprobs(two, 2, 3, &none), RF_EARG);
    assert_true(rf_logprob(two, 2, 0) == 0.0f && rf_logprob(two, 2, 1) == -INFINITY);
    assert_true(rf_logprob(hopeless, 2, 0) == -INFINITY && rf_logprob(hopeless, 2, 1) == -INFINITY);
}

/* ---- failing allocations ---- */

static rf_status whole_life(void) {
    rf_sampling o = rf_sampling_default();
    static const rf_logit_bias bias[] = {{1, 2}};
    o.logit_bias = bias;
    o.n_logit_bias = 1;
    o.dry_multiplier = 1;
    rf_sampler *s = NULL;
    rf_error e = {0};
    rf_status status = rf_sampler_create(&s, &o, 5, &e);
    assert_true((status == RF_OK) == (s != NULL) && (status == RF_OK) == (e.text[0] == 0));
    if (status != RF_OK) return status;
    static const int32_t breaker = 4;
    static const float logits[] = {1, 2, 3, 4, 5};
    int32_t token = -1;
    for (int32_t i = 0; i < 20 && status == RF_OK; i++)
        status = rf_sampler_accept(s, i % 3);
    if (status == RF_OK) status = rf_sampler_set_breakers(s, &breaker, 1);
    if (status == RF_OK) status = rf_sampler_pick(s, logits, NULL, 0, 0, &token);
    rf_token_prob top[2];
    if (status == RF_OK) status = rf_top_logprobs(logits, 5, 2, top);
    rf_sampler_free(s);
    return status;
}

static void allocation_failures(void **state) {
    (void)state;
    rf_alloc_count();
    assert_int_equal(whole_life(), RF_OK);
    long n = rf_alloc_count();
    assert_true(n >= 7);
    for (long i = 1; i <= n; i++) {
        rf_alloc_fail_nth(i);
        assert_int_equal(whole_life(), RF_ENOMEM);
        rf_alloc_fail_nth(0);
    }
}

/* What a device would tell of the row: some groups, and the highest number elsewhere is below the bound; or
 * the first alone, by noise. */
static void tell_best(const float *logits, uint32_t n, uint64_t seed, rf_by_best by,
                      const rf_noise *noise, rf_best *best) {
    float elsewhere = -INFINITY;
    bool is_first = seed % 5 == 4 || by == RF_BY_FIRST; /* alone */
    *best = (rf_best){.by = by, .bound = -INFINITY};
    for (uint32_t g = 0; g * RF_BEST_GROUP < n; g++) {
        uint32_t i = best->n_groups;
        bool is_told = !is_first && i < RF_BEST_GROUPS && (seed == 0 || rf_test_rand(&seed) % 3);
        for (uint32_t k = 0; k < RF_BEST_GROUP; k++) {
            uint32_t at = g * RF_BEST_GROUP + k;
            float x = at < n ? logits[at] : -INFINITY;
            if (is_told) best->x[i][k] = x;
            if (!is_told && isfinite(x) && x > elsewhere) elsewhere = x;
        }
        if (is_told) best->group[best->n_groups++] = g;
    }
    best->bound = nextafterf(elsewhere, INFINITY);
    best->first = rf_noise_first(noise, logits, n);
}

/* The sampler looks at the best logits only, or at the head of the row's mass.  A bound of many deviations
 * makes it look at all, a bias of nothing makes a token a changed one: neither may change a choice. */
static void test_large_vocabulary(void **state) {
    (void)state;
    enum { N_VOCAB = 3001 };
    static const int32_t top_k[] = {0, 1, 2, 40, 2999, N_VOCAB, 1 << 30};
    float logits[N_VOCAB];
    uint32_t mask[(N_VOCAB + 31) / 32];
    uint64_t seed = SEED;
    uint32_t n_chosen = 0, n_by_best = 0, n_lowered = 0, n_drawn = 0;
    static rf_best best;
    int32_t last_best = 0;
    for (uint32_t round = 0; round < 280; round++) {
        for (uint32_t i = 0; i < N_VOCAB; i++) {
            uint64_t r = rf_test_rand(&seed); /* few values: many ties */
            logits[i] = round % 4 == 1 ? (float)i : (float)(int)(r % 2000) / 100.0f - 10.0f;
            if (r % 97 == 0) logits[i] = r % 2 ? NAN : r % 3 && round & 8 ? INFINITY : -INFINITY;
        }
        for (uint32_t w = 0; w < RF_COUNT(mask); w++)
            mask[w] = round % 20 == 19 ? 0 : (uint32_t)rf_test_rand(&seed) & (w % 3 ? ~0u : 0xf0u);
        const rf_logit_bias none = {.token = 5, .bias = 0};
        rf_sampling o = rf_sampling_default();
        o.temperature = round % 5 ? 1.5f : 0;
        o.top_k = top_k[round % RF_COUNT(top_k)];
        o.typical_p = round % 3 ? 1 : 0.7f;
        o.seed = round;
        if (round % 3 == 1) o.top_p = 1, o.min_p = 0; /* the draw alone */
        if (round % 7 == 3) o.repeat_penalty = 1.3f;
        if (round % 14 == 3) o.frequency_penalty = -0.5f; /* so that logits grow */
        const rf_logit_bias lower[] = {{5, -3}, {last_best, -INFINITY}};
        if (round % 9 == 5) {
            o.presence_penalty = 0.7f;
            o.frequency_penalty = 0.2f;
            o.dry_multiplier = 0.8f;
            o.logit_bias = lower;
            o.n_logit_bias = RF_COUNT(lower);
        }
        bool is_lowered = o.frequency_penalty >= 0 && (round % 9 == 5 || round % 7 == 3);
        rf_sampler *few = NULL, *all = NULL;
        assert_int_equal(rf_sampler_create(&few, &o, N_VOCAB, NULL), RF_OK);
        if (!o.n_logit_bias) {
            o.logit_bias = &none;
            o.n_logit_bias = 1;
        }
        o.top_n_sigma = 100;
        assert_int_equal(rf_sampler_create(&all, &o, N_VOCAB, NULL), RF_OK);
        rf_sampler_set_mask(few, round % 2 ? mask : NULL);
        rf_sampler_set_mask(all, round % 2 ? mask : NULL);
        int32_t last = -1;
        for (uint64_t n = 0; n < 20; n++) {
            int32_t got = -1, want = -1;
            const int32_t banned[] = {-1, last, (int32_t)(n * 7),
                                      N_VOCAB}; /* the best among them */
            size_t n_banned = round % 3 == 2 ? RF_COUNT(banned) : 0;
            rf_status s = rf_sampler_pick(all, logits, banned, n_banned, n, &want);
            assert_int_equal(rf_sampler_pick(few, logits, banned, n_banned, n, &got), s);
            assert_true(s != RF_OK || n_banned == 0 || got != last);
            const rf_by_best by = rf_sampler_by_best(few, round % 2 || n_banned > 0);
            rf_noise noise = {.scale = 0};
            if (by == RF_BY_FIRST) noise = rf_sampler_noise(few, n);
            tell_best(logits, N_VOCAB, n, by, &noise, &best);
            int32_t guess = -1;
            if (by != RF_BY_ROW && rf_sampler_pick_best(few, &best, banned, n_banned, n, &guess)) {
                assert_int_equal(guess, want);
                n_by_best++;
                n_lowered += is_lowered;
                n_drawn += noise.scale > 0;
            }
            last = got;
            assert_int_equal(got, want);
            for (uint32_t i = 0; s == RF_OK && i < 3; i++) { /* for penalties */
                const int32_t seen = i ? (int32_t)(rf_test_rand(&seed) % N_VOCAB) : got;
                assert_int_equal(rf_sampler_accept(few, seen), RF_OK);
                assert_int_equal(rf_sampler_accept(all, seen), RF_OK);
            }
            n_chosen += s == RF_OK;
        }
        last_best = last >= 0 ? last : 0;
        rf_sampler_free(few);
        rf_sampler_free(all);
    }
    assert_in_range(n_chosen, 200 * 20, 279 * 20);
    assert_in_range(n_lowered, 50, n_by_best - 1);
    assert_in_range(n_drawn, 50, n_by_best - 1);
    assert_in_range(n_by_best, 20 * 20, n_chosen - 1);
}

/* ---- long lists ---- */

typedef struct likely {
    int32_t id;
    double logit, p;
} likely;

static int by_likelihood(const void *a, const void *b) {
    const likely *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id - y->id;
}

static void share_out(likely *c, size_t n, double temperature) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += c[i].p = exp((c[i].logit - c[0].logit) / temperature);
    for (size_t i = 0; i < n; i++)
        c[i].p /= sum;
}

/* How many of the likeliest hold the share; 0: rounding decides. */
static size_t count_mass(const likely *c, size_t n, double share) {
    double mass = 0;
    for (size_t i = 0; i < n; i++) {
        mass += c[i].p;
        if (fabs(mass - share) < 1e-12) return 0;
        if (mass > share) return i + 1;
    }
    return n;
}

/* The definitions of top_p, min_p, XTC, temperature and the draw, on a list in order; -1: rounding
 * decides. */
static int32_t draw_in_order(likely *c, size_t n, const rf_sampling *o, uint64_t counter) {
    qsort(c, n, sizeof *c, by_likelihood);
    if (o->top_p < 1) {
        share_out(c, n, 1);
        n = count_mass(c, n, (double)o->top_p);
        if (n == 0) return -1;
    }
    size_t kept = 1, struck = 0;
    while (kept < n && (o->min_p <= 0 || exp(c[kept].logit - c[0].logit) >= (double)o->min_p))
        kept++;
    n = kept;
    if (rf_rng_unit(o->seed, 1, counter) < (double)o->xtc_probability) {
        share_out(c, n, 1);
        while (struck + 1 < n && c[struck + 1].p >= (double)o->xtc_threshold)
            struck++;
    }
    c += struck;
    n -= struck;
    leader l = nobody;
    for (size_t i = 0; i < n; i++)
        offer(&l, c[i].id,
              c[i].logit / (double)o->temperature - ln_wait(o->seed, counter, (uint32_t)c[i].id));
    return n > 1 && l.noisy - l.second < 1e-5 ? -1 : l.id;
}

/* Without top_k, of a large vocabulary: flat and steep rows, with and without ties. */
static void long_lists(void **state) {
    (void)state;
    enum { N_VOCAB = 5000 };
    static const float top_p[] = {1, 0.2f, 0.7f, 0.95f, 0}, min_p[] = {0, 0.001f, 0, 0.3f};
    static float logits[N_VOCAB];
    static likely list[N_VOCAB];
    uint64_t seed = SEED;
    uint32_t n_skipped = 0;
    for (uint32_t round = 0; round < 120; round++) {
        const float scale = round % 6 == 0 ? 0 : round % 2 ? 8.0f : 0.5f;
        for (uint32_t i = 0; i < N_VOCAB; i++) {
            logits[i] = scale * rf_test_randf(&seed);
            if (round % 3 == 0) logits[i] = roundf(8 * logits[i]) / 8;
        }
        rf_sampling o = plain();
        o.temperature = round % 4 ? 0.7f : 1.6f;
        o.top_p = top_p[round % RF_COUNT(top_p)];
        o.min_p = min_p[round / 2 % RF_COUNT(min_p)];
        o.xtc_probability = round % 7 == 0 ? 0.5f : 0;
        o.xtc_threshold = 0.01f;
        o.seed = round;
        rf_sampler *s;
        assert_int_equal(rf_sampler_create(&s, &o, N_VOCAB, NULL), RF_OK);
        for (uint64_t n = 0; n < 6; n++) {
            int32_t got = -1;
            for (uint32_t i = 0; i < N_VOCAB; i++)
                list[i] = (likely){.id = (int32_t)i, .logit = (double)logits[i]};
            int32_t want = draw_in_order(list, N_VOCAB, &o, n);
            assert_int_equal(rf_sampler_pick(s, logits, NULL, 0, n, &got), RF_OK);
            n_skipped += want < 0;
            if (want >= 0) assert_int_equal(got, want);
        }
        rf_sampler_free(s);
    }
    assert_true(n_skipped < 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_vocabulary), cmocka_unit_test(long_lists),
        cmocka_unit_test(cases_of_the_oracle),   cmocka_unit_test(mirostat_steers),
        cmocka_unit_test(same_seed_same_draws),  cmocka_unit_test(big_vocabulary),
        cmocka_unit_test(frequencies_of_groups), cmocka_unit_test(min_p_of_one),
        cmocka_unit_test(wrong_options),         cmocka_unit_test(wrong_tokens),
        cmocka_unit_test(extreme_penalties),     cmocka_unit_test(logprobs),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
