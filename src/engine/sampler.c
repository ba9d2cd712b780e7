/* sampler.c - penalties, filters and the draw.
 *
 * Works on a list of candidates (id, logit as double).  Filters shrink the list; those that need an
 * order sort it by falling logit, then rising id, so that every result is defined. */
#include "engine/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fmath.h"
#include "base/rng.h"

enum { STREAM_DRAW, STREAM_XTC }; /* independent random streams of one seed */

typedef struct candidate {
    int32_t id;
    double logit, p;
} candidate;

typedef struct candidates {
    candidate *c;
    size_t n;
    bool sorted; /* by falling logit, then rising id */
} candidates;

struct rf_sampler {
    rf_sampling o;
    rf_logit_bias *bias;
    uint32_t n_vocab;
    rf_ids history;
    bool *breaker;        /* [n_vocab] tokens that end a DRY match; NULL: none */
    candidate *scratch;   /* [n_vocab] */
    const uint32_t *mask; /* borrowed; NULL: every token may be chosen */
    uint32_t *counts;     /* [n_vocab] occurrences among recent tokens; also DRY's match lengths */
    double mu;            /* mirostat's running bound, in bits */
};

/* ---- creation ---- */

rf_sampling rf_sampling_default(void) {
    return (rf_sampling){
        .temperature = 0.8f,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .typical_p = 1.0f,
        .xtc_threshold = 0.1f,
        .repeat_penalty = 1.0f,
        .penalty_last_n = 64,
        .dry_base = 1.75f,
        .dry_allowed_length = 2,
        .dry_last_n = -1,
        .mirostat_tau = 5.0f,
        .mirostat_eta = 0.1f,
    };
}

static rf_status in_range(const char *field, float x, double lo, double hi, rf_error *e) {
    if ((double)x >= lo && (double)x <= hi) return RF_OK; /* false for NaN */
    return rf_fail(e, RF_EARG, "%s is %g: it must lie between %g and %g", field, (double)x, lo, hi);
}

static rf_status at_least(const char *field, int32_t x, int32_t lo, const char *meaning,
                          rf_error *e) {
    if (x >= lo) return RF_OK;
    return rf_fail(e, RF_EARG, "%s is %d: it must be %s or more", field, x, meaning);
}

static rf_status check(const rf_sampling *o, uint32_t n_vocab, rf_error *e) {
    RF_TRY(in_range("temperature", o->temperature, 0, 100, e));
    RF_TRY(in_range("top_p", o->top_p, 0, 1, e));
    RF_TRY(in_range("min_p", o->min_p, 0, 1, e));
    RF_TRY(in_range("typical_p", o->typical_p, 0, 1, e));
    RF_TRY(in_range("top_n_sigma", o->top_n_sigma, 0, 100, e));
    RF_TRY(in_range("xtc_probability", o->xtc_probability, 0, 1, e));
    RF_TRY(in_range("xtc_threshold", o->xtc_threshold, 0, 1, e));
    RF_TRY(in_range("repeat_penalty", o->repeat_penalty, 0.01, 100, e));
    RF_TRY(in_range("presence_penalty", o->presence_penalty, -100, 100, e));
    RF_TRY(in_range("frequency_penalty", o->frequency_penalty, -100, 100, e));
    RF_TRY(in_range("dry_multiplier", o->dry_multiplier, 0, 100, e));
    RF_TRY(in_range("dry_base", o->dry_base, 1, 100, e));
    RF_TRY(in_range("mirostat_tau", o->mirostat_tau, 0, 100, e));
    RF_TRY(in_range("mirostat_eta", o->mirostat_eta, 0, 10, e));
    RF_TRY(at_least("top_k", o->top_k, 0, "0 (off)", e));
    RF_TRY(at_least("penalty_last_n", o->penalty_last_n, -1, "-1 (the whole context)", e));
    RF_TRY(at_least("dry_last_n", o->dry_last_n, -1, "-1 (the whole context)", e));
    RF_TRY(at_least("dry_allowed_length", o->dry_allowed_length, 0, "0", e));
    for (size_t i = 0; i < o->n_logit_bias; i++) {
        int32_t token = o->logit_bias[i].token;
        if (token < 0 || (uint32_t)token >= n_vocab)
            return rf_fail(e, RF_EARG, "logit_bias: token %d is not below the vocabulary's %u",
                           token, n_vocab);
        if (isnan(o->logit_bias[i].bias) || o->logit_bias[i].bias > 1e6f)
            return rf_fail(e, RF_EARG,
                           "logit_bias of token %d is %g: it must be a number up to 1e6, or -inf",
                           token, (double)o->logit_bias[i].bias);
    }
    return RF_OK;
}

rf_status rf_sampler_create(rf_sampler **out, const rf_sampling *o, uint32_t n_vocab, rf_error *e) {
    *out = NULL;
    RF_TRY(check(o, n_vocab, e));
    rf_sampler *s = rf_alloc(1, sizeof *s);
    if (!s) return rf_fail_nomem(e, sizeof *s);
    s->o = *o;
    s->n_vocab = n_vocab;
    s->mu = 2 * (double)o->mirostat_tau;
    s->scratch = rf_alloc(n_vocab, sizeof *s->scratch);
    s->counts = rf_alloc(n_vocab, sizeof *s->counts);
    s->bias = rf_alloc(o->n_logit_bias, sizeof *s->bias);
    if (!s->scratch || !s->counts || !s->bias) {
        rf_sampler_free(s);
        return rf_fail_nomem(e, n_vocab * sizeof *s->scratch);
    }
    if (o->n_logit_bias) memcpy(s->bias, o->logit_bias, o->n_logit_bias * sizeof *s->bias);
    s->o.logit_bias = s->bias;
    *out = s;
    return RF_OK;
}

void rf_sampler_free(rf_sampler *s) {
    if (!s) return;
    rf_free(s->scratch);
    rf_free(s->counts);
    rf_free(s->bias);
    rf_ids_free(&s->history);
    rf_free(s->breaker);
    rf_free(s);
}

rf_status rf_sampler_accept(rf_sampler *s, int32_t token) {
    if (token < 0 || (uint32_t)token >= s->n_vocab) return RF_EARG;
    rf_ids_push(&s->history, token);
    return s->history.failed ? RF_ENOMEM : RF_OK;
}

rf_status rf_sampler_set_breakers(rf_sampler *s, const int32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= s->n_vocab) return RF_EARG;
    if (!s->breaker) s->breaker = rf_alloc(s->n_vocab, sizeof *s->breaker);
    if (!s->breaker) return RF_ENOMEM;
    for (size_t i = 0; i < n; i++)
        s->breaker[ids[i]] = true;
    return RF_OK;
}

rf_sampler_mark rf_sampler_get_mark(const rf_sampler *s) {
    return (rf_sampler_mark){s->history.len, s->mu};
}

void rf_sampler_go_back(rf_sampler *s, rf_sampler_mark mark) {
    s->history.len = mark.n_history;
    s->history.failed = false; /* what could not be remembered need not be any more */
    s->mu = mark.mu;
}

/* ---- penalties, on the full list where index == id ---- */

static size_t window(const rf_sampler *s, int32_t last_n) {
    return last_n < 0 || (size_t)last_n > s->history.len ? s->history.len : (size_t)last_n;
}

static void apply_penalties(rf_sampler *s, candidate *c) {
    const rf_sampling *o = &s->o;
    double repeat = (double)o->repeat_penalty, presence = (double)o->presence_penalty;
    double frequency = (double)o->frequency_penalty;
    size_t n = window(s, o->penalty_last_n);
    if (n == 0 || (repeat == 1 && presence == 0 && frequency == 0)) return;
    const int32_t *recent = s->history.p + s->history.len - n;
    for (size_t i = 0; i < n; i++)
        s->counts[recent[i]]++;
    for (size_t i = 0; i < n; i++) {
        uint32_t count = s->counts[recent[i]];
        if (count == 0) continue; /* done already */
        s->counts[recent[i]] = 0;
        double *x = &c[recent[i]].logit;
        *x = *x <= 0 ? *x * repeat : *x / repeat;
        *x -= count * frequency + presence;
    }
}

static bool is_breaker(const rf_sampler *s, int32_t id) { return s->breaker && s->breaker[id]; }

/* DRY ("Don't Repeat Yourself"): where the last tokens repeat an earlier stretch, the token that
 * followed it then is made less likely by multiplier * base ^ (length - allowed).  z[i] is the
 * length of the common prefix of the reversed history and its tail from i (Z-algorithm, linear
 * time). */
static rf_status apply_dry(rf_sampler *s, candidate *c) {
    size_t n = window(s, s->o.dry_last_n);
    if (s->o.dry_multiplier <= 0 || n < 2) return RF_OK;
    const int32_t *last = s->history.p + s->history.len - 1; /* last[-i] is the ith from the end */
    size_t limit = 0;
    while (limit < n && !is_breaker(s, last[-(ptrdiff_t)limit]))
        limit++;
    uint32_t *z = rf_alloc(n, sizeof *z);
    if (!z) return RF_ENOMEM;
    for (size_t i = 1, left = 0, right = 0; i < n; i++) {
        size_t k = i < right ? (z[i - left] < right - i ? z[i - left] : right - i) : 0;
        while (i + k < n && last[-(ptrdiff_t)k] == last[-(ptrdiff_t)(i + k)])
            k++;
        z[i] = (uint32_t)k;
        if (i + k > right) left = i, right = i + k;
        size_t length = k < limit ? k : limit;
        int32_t next = last[-(ptrdiff_t)(i - 1)];
        if (length > s->counts[next] && !is_breaker(s, next)) s->counts[next] = (uint32_t)length;
    }
    for (size_t i = 1; i < n; i++) {
        int32_t next = last[-(ptrdiff_t)(i - 1)];
        uint32_t length = s->counts[next];
        s->counts[next] = 0;
        if (length == 0 || length < (uint32_t)s->o.dry_allowed_length) continue;
        double power = (double)length - s->o.dry_allowed_length;
        c[next].logit -=
            (double)s->o.dry_multiplier * rf_pow((double)s->o.dry_base, power < 500 ? power : 500);
    }
    rf_free(z);
    return RF_OK;
}

/* ---- filters ---- */

static int by_logit(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void sort(candidates *l) {
    if (!l->sorted) qsort(l->c, l->n, sizeof *l->c, by_logit);
    l->sorted = true;
}

static void keep(candidates *l, size_t n) { l->n = n < 1 ? 1 : n < l->n ? n : l->n; }

static double max_logit(const candidates *l) {
    double max = l->c[0].logit;
    for (size_t i = 1; i < l->n; i++)
        max = l->c[i].logit > max ? l->c[i].logit : max;
    return max;
}

static void softmax(candidates *l) {
    double max = max_logit(l), sum = 0;
    for (size_t i = 0; i < l->n; i++)
        sum += l->c[i].p = rf_exp(l->c[i].logit - max);
    for (size_t i = 0; i < l->n; i++)
        l->c[i].p /= sum;
}

/* Keeps the k best, by a heap whose root is the worst kept: O(n log k), no order needed before. */
static void sift_down(candidate *heap, size_t n, size_t i) {
    for (;;) {
        size_t worst = i, left = 2 * i + 1;
        for (size_t kid = left; kid < left + 2 && kid < n; kid++)
            if (by_logit(&heap[kid], &heap[worst]) > 0) worst = kid;
        if (worst == i) return;
        candidate t = heap[i];
        heap[i] = heap[worst];
        heap[worst] = t;
        i = worst;
    }
}

static void heap_make(candidate *heap, size_t n) {
    for (size_t i = n / 2 + 1; i-- > 0;)
        sift_down(heap, n, i);
}

static void heap_offer(candidate *heap, size_t n, candidate c) {
    if (by_logit(&c, &heap[0]) >= 0) return;
    heap[0] = c;
    sift_down(heap, n, 0);
}

static void filter_top_k(candidates *l, int32_t top_k) {
    size_t k = (size_t)top_k;
    if (top_k == 0 || k >= l->n) return;
    heap_make(l->c, k);
    for (size_t i = k; i < l->n; i++)
        heap_offer(l->c, k, l->c[i]);
    l->n = k;
    l->sorted = false;
    sort(l);
}

static void filter_top_n_sigma(candidates *l, double n_sigma) {
    if (n_sigma <= 0) return;
    double mean = 0, variance = 0, max = max_logit(l);
    for (size_t i = 0; i < l->n; i++)
        mean += l->c[i].logit;
    mean /= (double)l->n;
    for (size_t i = 0; i < l->n; i++)
        variance += (l->c[i].logit - mean) * (l->c[i].logit - mean);
    double bound = max - n_sigma * sqrt(variance / (double)l->n);
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++)
        if (l->c[i].logit >= bound) l->c[kept++] = l->c[i];
    keep(l, kept);
}

/* Locally typical sampling (Meister et al. 2022): keeps the tokens whose surprise lies closest to
 * the entropy, until they hold the mass typical_p. */
static int by_p(const void *a, const void *b) { /* p holds the distance here */
    const candidate *x = a, *y = b;
    if (x->p != y->p) return x->p < y->p ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void filter_typical(candidates *l, double typical_p) {
    if (typical_p >= 1) return;
    softmax(l);
    double entropy = 0, max = max_logit(l), sum = 0, mass = 0;
    for (size_t i = 0; i < l->n; i++)
        if (l->c[i].p > 0) entropy -= l->c[i].p * rf_log(l->c[i].p);
    for (size_t i = 0; i < l->n; i++)
        sum += rf_exp(l->c[i].logit - max);
    for (size_t i = 0; i < l->n; i++)
        l->c[i].p = l->c[i].p > 0 ? fabs(-rf_log(l->c[i].p) - entropy) : (double)INFINITY;
    qsort(l->c, l->n, sizeof *l->c, by_p);
    size_t n = 0;
    while (n < l->n && (n == 0 || mass < typical_p))
        mass += rf_exp(l->c[n++].logit - max) / sum;
    l->sorted = false;
    keep(l, n);
}

static void filter_top_p(candidates *l, double top_p) {
    if (top_p >= 1) return;
    sort(l);
    softmax(l);
    double mass = 0;
    size_t n = 0;
    while (n < l->n && (n == 0 || mass < top_p))
        mass += l->c[n++].p;
    keep(l, n);
}

static void filter_min_p(candidates *l, double min_p) {
    if (min_p <= 0) return;
    sort(l);
    double bound = l->c[0].logit + rf_log(min_p);
    size_t n = 0;
    while (n < l->n && l->c[n].logit >= bound)
        n++;
    keep(l, n);
}

/* Exclude top choices: with the given chance, of all tokens at least as likely as the threshold
 * only the least likely stays. */
static void filter_xtc(candidates *l, const rf_sampling *o, uint64_t counter) {
    if (o->xtc_probability <= 0 || o->xtc_threshold > 0.5f) return;
    if (rf_rng_unit(o->seed, STREAM_XTC, counter) >= (double)o->xtc_probability) return;
    sort(l);
    softmax(l);
    size_t n = 0;
    while (n < l->n && l->c[n].p >= (double)o->xtc_threshold)
        n++;
    if (n < 2) return;
    l->c += n - 1;
    l->n -= n - 1;
}

static int32_t draw(candidates *l, const rf_sampling *o, uint64_t counter, double *p) {
    sort(l);
    softmax(l);
    double u = rf_rng_unit(o->seed, STREAM_DRAW, counter), mass = 0;
    size_t i = 0;
    for (; i + 1 < l->n; i++)
        if ((mass += l->c[i].p) > u) break;
    *p = l->c[i].p;
    return l->c[i].id;
}

/* Mirostat 2 (Basu et al. 2021): cuts off tokens more surprising than mu, and steers mu so that the
 * mean surprise becomes tau. */
static int32_t draw_mirostat(rf_sampler *s, candidates *l, uint64_t counter) {
    const double ln2 = 0.69314718055994530942;
    sort(l);
    softmax(l);
    size_t n = 1;
    while (n < l->n && l->c[n].p > 0 && -rf_log(l->c[n].p) / ln2 <= s->mu)
        n++;
    keep(l, n);
    double p;
    int32_t id = draw(l, &s->o, counter, &p);
    s->mu -= (double)s->o.mirostat_eta * (-rf_log(p) / ln2 - (double)s->o.mirostat_tau);
    return id;
}

static void divide_by_temperature(candidates *l, double temperature) {
    for (size_t i = 0; i < l->n; i++)
        l->c[i].logit /= temperature;
}

/* ---- the choice ---- */

void rf_sampler_set_mask(rf_sampler *s, const uint32_t *mask) { s->mask = mask; }

/* All tokens that may be chosen; fewer than n_vocab when some are forbidden or not numbers. */
static size_t compact(candidate *c, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (c[i].logit > (double)-INFINITY && c[i].logit < (double)INFINITY) c[kept++] = c[i];
    return kept;
}

/* How many of the best logits decide, where no option changes any of them; else all do: 0. */
static size_t n_deciding(const rf_sampling *o) {
    bool is_changed = o->n_logit_bias || o->repeat_penalty != 1 || o->presence_penalty != 0 ||
                      o->frequency_penalty != 0 || o->dry_multiplier > 0;
    if (is_changed) return 0;
    if (o->temperature <= 0) return 1;
    return o->mirostat || o->top_n_sigma > 0 ? 0 : (size_t)o->top_k;
}

static bool may_choose(const rf_sampler *s, uint32_t id, float logit, const int32_t *banned,
                       size_t n_banned) {
    for (size_t i = 0; i < n_banned; i++)
        if (banned[i] == (int32_t)id) return false;
    return logit > -INFINITY && logit < INFINITY && (!s->mask || s->mask[id / 32] >> id % 32 & 1);
}

/* The k best so far of the columns offered; s->scratch, a heap once it is full. */
typedef struct best_heap {
    rf_sampler *s;
    const int32_t *banned;
    size_t n_banned, n, k;
    bool is_heap;
} best_heap;

/* Up to 32 columns from `first` on.  Of a large vocabulary nearly all tokens are passed over by a
 * comparison of 32 at a time. */
static void offer_columns(best_heap *h, uint32_t first, uint32_t n, const float *x) {
    candidate *c = h->s->scratch;
    if (h->is_heap && n == 32) {
        float worst = (float)c[0].logit; /* was a float */
        int any = 0;
        for (uint32_t i = 0; i < 32; i++)
            any |= x[i] > worst;
        if (!any) return;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!may_choose(h->s, first + i, x[i], h->banned, h->n_banned)) continue;
        candidate next = {.id = (int32_t)(first + i), .logit = (double)x[i]};
        if (h->n < h->k) {
            c[h->n++] = next;
            continue;
        }
        if (!h->is_heap) heap_make(c, h->k);
        h->is_heap = true;
        heap_offer(c, h->k, next);
    }
}

static candidates best_of(const best_heap *h) {
    candidates l = {.c = h->s->scratch, .n = h->n};
    sort(&l);
    return l;
}

static uint32_t at_most_32(uint32_t n) { return n < 32 ? n : 32; }

static candidates collect_best(best_heap h, const float *logits) {
    uint32_t n_vocab = h.s->n_vocab;
    for (uint32_t at = 0; at < n_vocab; at += 32)
        offer_columns(&h, at, at_most_32(n_vocab - at), logits + at);
    return best_of(&h);
}

static candidates collect_best_of(best_heap h, const rf_best *best) {
    uint32_t n_vocab = h.s->n_vocab;
    for (uint32_t g = 0; g < best->n_groups; g++)
        for (uint32_t k = 0; k < RF_BEST_GROUP; k += 32) {
            uint32_t at = best->group[g] * RF_BEST_GROUP + k;
            if (at < n_vocab) offer_columns(&h, at, at_most_32(n_vocab - at), best->x[g] + k);
        }
    return best_of(&h);
}

static rf_status collect_all(rf_sampler *s, const float *logits, const int32_t *banned,
                             size_t n_banned, size_t *n) {
    candidate *c = s->scratch;
    for (uint32_t i = 0; i < s->n_vocab; i++)
        c[i] = (candidate){.id = (int32_t)i, .logit = (double)logits[i]};
    for (size_t i = 0; i < s->o.n_logit_bias; i++)
        c[s->bias[i].token].logit += (double)s->bias[i].bias;
    apply_penalties(s, c);
    RF_TRY(apply_dry(s, c));
    for (size_t i = 0; i < n_banned; i++)
        if (banned[i] >= 0 && (uint32_t)banned[i] < s->n_vocab)
            c[banned[i]].logit = (double)-INFINITY;
    for (uint32_t i = 0; s->mask && i < s->n_vocab; i++)
        if (!(s->mask[i / 32] >> i % 32 & 1)) c[i].logit = (double)-INFINITY;
    *n = compact(c, s->n_vocab);
    return RF_OK;
}

/* Among the candidates. */
static int32_t decide(rf_sampler *s, candidates *l, uint64_t counter) {
    const rf_sampling *o = &s->o;
    if (o->temperature <= 0) {
        size_t best = 0;
        for (size_t i = 1; i < l->n; i++)
            if (l->c[i].logit > l->c[best].logit) best = i;
        return l->c[best].id;
    }
    if (o->mirostat) {
        divide_by_temperature(l, (double)o->temperature);
        return draw_mirostat(s, l, counter);
    }
    filter_top_n_sigma(l, (double)o->top_n_sigma);
    filter_top_k(l, o->top_k);
    filter_typical(l, (double)o->typical_p);
    filter_top_p(l, (double)o->top_p);
    filter_min_p(l, (double)o->min_p);
    filter_xtc(l, o, counter);
    divide_by_temperature(l, (double)o->temperature);
    double p;
    return draw(l, o, counter, &p);
}

rf_status rf_sampler_pick(rf_sampler *s, const float *logits, const int32_t *banned,
                          size_t n_banned, uint64_t counter, int32_t *token) {
    best_heap h = {.s = s, .banned = banned, .n_banned = n_banned, .k = n_deciding(&s->o)};
    candidates l = {.c = s->scratch};
    if (h.k)
        l = collect_best(h, logits);
    else
        RF_TRY(collect_all(s, logits, banned, n_banned, &l.n));
    if (l.n == 0) return RF_EARG;
    *token = decide(s, &l, counter);
    return RF_OK;
}

bool rf_sampler_takes_best(const rf_sampler *s) {
    size_t k = n_deciding(&s->o);
    return k > 0 && k <= RF_BEST_SURE;
}

bool rf_sampler_pick_best(rf_sampler *s, const rf_best *best, const int32_t *banned,
                          size_t n_banned, uint64_t counter, int32_t *token) {
    best_heap h = {.s = s, .banned = banned, .n_banned = n_banned, .k = n_deciding(&s->o)};
    if (h.k == 0 || h.k > s->n_vocab) return false;
    candidates l = collect_best_of(h, best);
    if (l.n < h.k || l.c[l.n - 1].logit < (double)best->bound) return false;
    *token = decide(s, &l, counter);
    return true;
}

/* ---- log-probabilities ---- */

/* What is not a number counts as impossible. */
static double or_impossible(float logit) {
    return isnan(logit) ? (double)-INFINITY : (double)logit;
}

static double log_sum_exp(const float *logits, uint32_t n) {
    double max = (double)-INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        max = (double)logits[i] > max ? (double)logits[i] : max;
    if (isinf(max)) return max;
    for (uint32_t i = 0; i < n; i++)
        sum += rf_exp(or_impossible(logits[i]) - max);
    return max + rf_log(sum);
}

/* ln of the likelihood of a logit among others; total: their log_sum_exp. */
static float logprob_of(double logit, double total) {
    if (isinf(total)) return total > 0 && logit == total ? 0 : -INFINITY;
    return (float)(logit - total);
}

float rf_logprob(const float *logits, uint32_t n_vocab, int32_t token) {
    return logprob_of(or_impossible(logits[token]), log_sum_exp(logits, n_vocab));
}

rf_status rf_top_logprobs(const float *logits, uint32_t n_vocab, size_t n, rf_token_prob *out) {
    if (n == 0) return RF_OK;
    if (n > n_vocab) return RF_EARG;
    candidates l = {.c = rf_alloc(n_vocab, sizeof *l.c), .n = n_vocab};
    if (!l.c) return RF_ENOMEM;
    for (uint32_t i = 0; i < n_vocab; i++)
        l.c[i] = (candidate){.id = (int32_t)i, .logit = or_impossible(logits[i])};
    filter_top_k(&l, (int32_t)n);
    sort(&l);
    double total = log_sum_exp(logits, n_vocab);
    for (size_t i = 0; i < n; i++)
        out[i] = (rf_token_prob){l.c[i].id, logprob_of(l.c[i].logit, total)};
    rf_free(l.c);
    return RF_OK;
}
