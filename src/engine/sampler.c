/* sampler.c - penalties and filters, before the draw.
 *
 * Options change the logits of few tokens, which are kept apart: the row is only read.  What decides is
 * a list of candidates (id, logit as double): the best k of the row, found by passing over groups of
 * columns that are all too small, or all of it where no option says how many.  Filters shrink the
 * list.  Where a share of the row's mass decides, only its head becomes a list, and where nothing
 * comes before the draw, nothing does.  Orders are by falling logit, then rising id, so that every
 * result is defined. */
#include "engine/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/noise.h"
#include "base/buf.h"
#include "base/fmath.h"
#include "base/rng.h"
#include "engine/candidates.h"
#include "engine/draw.h"

enum { STREAM_XTC = 1 }; /* of a seed's numbers; the draw's are apart from all streams */

typedef rf_candidate candidate;
typedef rf_candidates candidates;

/* A token whose logit the options change. */
typedef struct change {
    int32_t id;
    uint32_t count; /* its occurrences among recent tokens; in DRY the length of its match */
    double logit;
} change;

struct rf_sampler {
    rf_sampling o;
    rf_logit_bias *bias;
    uint32_t n_vocab;
    rf_ids history;
    bool *breaker;        /* [n_vocab] tokens that end a DRY match; NULL: none */
    candidate *scratch;   /* [n_vocab] */
    const uint32_t *mask; /* borrowed; NULL: every token may be chosen */
    change *changes;      /* [n_changes] of the row that is looked at */
    size_t n_changes, cap_changes;
    uint32_t *place; /* [n_vocab] of a token among the changes, from 1 on; 0: it is none */
    rf_row row;
    float *likely; /* [groups of the row]; it and the copy only for options that take a whole row */
    float *copy;   /* [n_vocab] */
    double mu;     /* mirostat's running bound, in bits */
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

/* Does a draw have nothing before top_p but top_k? */
static bool begins_with_top_k(const rf_sampling *o) {
    return o->temperature > 0 && !o->mirostat && o->top_n_sigma <= 0 && o->typical_p >= 1;
}
static bool begins_with_top_p(const rf_sampling *o) { return begins_with_top_k(o) && !o->top_k; }

/* Does nothing come before a share of the row's mass, or before the draw? */
static bool takes_row(const rf_sampling *o) {
    return begins_with_top_p(o) && (o->top_p < 1 || (o->min_p <= 0 && o->xtc_probability <= 0));
}

/* Is what may be drawn the whole row, or the first of it by falling logit, wherever they end? */
static bool draws_first(const rf_sampling *o) {
    return begins_with_top_p(o) && o->xtc_probability <= 0;
}

/* Likewise, or among k best that a device which tells the first of a row's noisy numbers can tell. */
static bool is_drawn_first(const rf_sampling *o) {
    bool is_told = !o->top_k || (o->top_k > 1 && o->top_k <= RF_BEST_SURE);
    return begins_with_top_k(o) && is_told && o->xtc_probability <= 0;
}

static bool take_memory(rf_sampler *s) {
    size_t n_groups = (s->n_vocab + RF_BEST_GROUP - 1) / RF_BEST_GROUP;
    s->scratch = rf_alloc(s->n_vocab, sizeof *s->scratch);
    s->place = rf_alloc(s->n_vocab, sizeof *s->place);
    s->bias = rf_alloc(s->o.n_logit_bias, sizeof *s->bias);
    s->row = (rf_row){.n = s->n_vocab, .most = rf_alloc(n_groups, sizeof *s->row.most)};
    if (!s->scratch || !s->place || !s->bias || !s->row.most) return false;
    if (!takes_row(&s->o)) return true;
    s->likely = rf_alloc(n_groups, sizeof *s->likely);
    s->copy = rf_alloc(s->n_vocab, sizeof *s->copy);
    return s->likely && s->copy;
}

rf_status rf_sampler_create(rf_sampler **out, const rf_sampling *o, uint32_t n_vocab, rf_error *e) {
    *out = NULL;
    RF_TRY(check(o, n_vocab, e));
    rf_sampler *s = rf_alloc(1, sizeof *s);
    if (!s) return rf_fail_nomem(e, sizeof *s);
    s->o = *o;
    s->n_vocab = n_vocab;
    s->mu = 2 * (double)o->mirostat_tau;
    if (!take_memory(s)) {
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
    rf_free(s->changes);
    rf_free(s->place);
    rf_free(s->row.most);
    rf_free(s->likely);
    rf_free(s->copy);
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

/* ---- changes ---- */

/* A row of logits, whole or what is best in it, and who may not be chosen. */
typedef struct view {
    rf_sampler *s;
    const float *logits; /* NULL: best tells */
    const rf_best *best;
    const int32_t *banned;
    size_t n_banned;
} view;

/* NULL: it is not among the best. */
static const float *logit_of(const view *v, int32_t id) {
    if (v->logits) return v->logits + id;
    const uint32_t group = (uint32_t)id / RF_BEST_GROUP;
    uint32_t low = 0, high = v->best->n_groups;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (v->best->group[middle] < group)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_here = low < v->best->n_groups && v->best->group[low] == group;
    return is_here ? v->best->x[low] + (uint32_t)id % RF_BEST_GROUP : NULL;
}

/* The token's change, at first none of its logit; NULL: its logit is not here.  RF_ENOMEM. */
static rf_status change_of(const view *v, int32_t id, change **out) {
    rf_sampler *s = v->s;
    const float *logit;
    *out = NULL;
    if (!s->place[id]) {
        if (!(logit = logit_of(v, id))) return RF_OK;
        if (s->n_changes == s->cap_changes) {
            size_t cap = s->cap_changes ? 2 * s->cap_changes : 64;
            change *more = rf_realloc(s->changes, s->cap_changes, cap, sizeof *more);
            if (!more) return RF_ENOMEM;
            s->changes = more;
            s->cap_changes = cap;
        }
        s->changes[s->n_changes++] = (change){.id = id, .logit = (double)*logit};
        s->place[id] = (uint32_t)s->n_changes;
    }
    *out = &s->changes[s->place[id] - 1];
    return RF_OK;
}

static void forget_changes(rf_sampler *s) {
    while (s->n_changes)
        s->place[s->changes[--s->n_changes].id] = 0;
}

static rf_status apply_bias(const view *v) {
    const rf_sampler *s = v->s;
    for (size_t i = 0; i < s->o.n_logit_bias; i++) {
        change *c;
        RF_TRY(change_of(v, s->bias[i].token, &c));
        if (c) c->logit += (double)s->bias[i].bias;
    }
    return RF_OK;
}

static size_t window(const rf_sampler *s, int32_t last_n) {
    return last_n < 0 || (size_t)last_n > s->history.len ? s->history.len : (size_t)last_n;
}

static rf_status apply_penalties(const view *v) {
    rf_sampler *s = v->s;
    const rf_sampling *o = &s->o;
    double repeat = (double)o->repeat_penalty, presence = (double)o->presence_penalty;
    double frequency = (double)o->frequency_penalty;
    size_t n = window(s, o->penalty_last_n);
    if (n == 0 || (repeat == 1 && presence == 0 && frequency == 0)) return RF_OK;
    const int32_t *recent = s->history.p + s->history.len - n;
    for (size_t i = 0; i < n; i++) {
        change *c;
        RF_TRY(change_of(v, recent[i], &c));
        if (c) c->count++;
    }
    for (size_t i = 0; i < s->n_changes; i++) {
        change *c = &s->changes[i];
        if (c->count == 0) continue; /* a bias */
        c->logit = c->logit <= 0 ? c->logit * repeat : c->logit / repeat;
        c->logit -= c->count * frequency + presence;
        c->count = 0;
    }
    return RF_OK;
}

static bool is_breaker(const rf_sampler *s, int32_t id) { return s->breaker && s->breaker[id]; }

/* DRY ("Don't Repeat Yourself"): where the last tokens repeat an earlier stretch, the token that
 * followed it then is made less likely by multiplier * base ^ (length - allowed).  z[i] is the
 * length of the common prefix of the reversed history and its tail from i (Z-algorithm, linear
 * time). */
static rf_status apply_dry(const view *v) {
    rf_sampler *s = v->s;
    size_t n = window(s, s->o.dry_last_n);
    if (s->o.dry_multiplier <= 0 || n < 2) return RF_OK;
    const int32_t *last = s->history.p + s->history.len - 1; /* last[-i] is the ith from the end */
    size_t limit = 0;
    while (limit < n && !is_breaker(s, last[-(ptrdiff_t)limit]))
        limit++;
    uint32_t *z = rf_alloc(n, sizeof *z);
    rf_status status = z ? RF_OK : RF_ENOMEM;
    for (size_t i = 1, left = 0, right = 0; status == RF_OK && i < n; i++) {
        size_t k = i < right ? (z[i - left] < right - i ? z[i - left] : right - i) : 0;
        while (i + k < n && last[-(ptrdiff_t)k] == last[-(ptrdiff_t)(i + k)])
            k++;
        z[i] = (uint32_t)k;
        if (i + k > right) left = i, right = i + k;
        size_t length = k < limit ? k : limit;
        int32_t next = last[-(ptrdiff_t)(i - 1)];
        if (length == 0 || length < (size_t)s->o.dry_allowed_length || is_breaker(s, next))
            continue;
        change *c;
        status = change_of(v, next, &c);
        if (c && length > c->count) c->count = (uint32_t)length;
    }
    rf_free(z);
    for (size_t i = 0; i < s->n_changes; i++) {
        change *c = &s->changes[i];
        if (c->count == 0) continue;
        double power = (double)c->count - s->o.dry_allowed_length;
        c->logit -=
            (double)s->o.dry_multiplier * rf_pow((double)s->o.dry_base, power < 500 ? power : 500);
        c->count = 0;
    }
    return status;
}

static bool is_changing(const rf_sampling *o) {
    return o->n_logit_bias || o->repeat_penalty != 1 || o->presence_penalty != 0 ||
           o->frequency_penalty != 0 || o->dry_multiplier > 0;
}

/* Can no logit grow by that?  Then what is not among the best does not get there. */
static bool is_lowering(const rf_sampler *s) {
    const rf_sampling *o = &s->o;
    for (size_t i = 0; i < o->n_logit_bias; i++)
        if (s->bias[i].bias > 0) return false;
    return o->repeat_penalty >= 1 && o->presence_penalty >= 0 && o->frequency_penalty >= 0;
}

/* Fills changes with what the options make of this row. */
static rf_status apply_changes(const view *v) {
    RF_TRY(apply_bias(v));
    RF_TRY(apply_penalties(v));
    return apply_dry(v);
}

/* ---- filters ---- */

static void filter_top_n_sigma(candidates *l, double n_sigma) {
    if (n_sigma <= 0) return;
    double mean = 0, variance = 0, max = rf_candidates_max(l);
    for (size_t i = 0; i < l->n; i++)
        mean += l->c[i].logit;
    mean /= (double)l->n;
    for (size_t i = 0; i < l->n; i++)
        variance += (l->c[i].logit - mean) * (l->c[i].logit - mean);
    double bound = max - n_sigma * sqrt(variance / (double)l->n);
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++)
        if (l->c[i].logit >= bound) l->c[kept++] = l->c[i];
    rf_candidates_keep(l, kept);
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
    rf_candidates_softmax(l, 1);
    double entropy = 0, max = rf_candidates_max(l), sum = 0, mass = 0;
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
    rf_candidates_keep(l, n);
}

/* How far below the largest logit those lie that min_p keeps, and the share that top_p keeps, of 2^32. */
static float depth_of(const rf_sampling *o) {
    return o->min_p > 0 ? (float)rf_log((double)o->min_p) : 0;
}
static uint32_t share_of(const rf_sampling *o) {
    return o->top_p < 1 ? (uint32_t)((double)o->top_p * 0x1p32) : 0;
}

static void filter_top_p(candidates *l, const rf_sampling *o) {
    if (o->top_p >= 1) return;
    const uint64_t all = rf_candidates_weigh(l);
    rf_candidates_keep(l, rf_candidates_head(l, (double)rf_noise_share(all, share_of(o))));
}

/* As floats, as a device finds it. */
static float min_p_bound(double max, const rf_sampling *o) { return (float)max + depth_of(o); }

static void filter_min_p(candidates *l, const rf_sampling *o) {
    if (o->min_p <= 0) return;
    const float bound = min_p_bound(rf_candidates_max(l), o);
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if ((float)l->c[i].logit >= bound) l->c[n++] = l->c[i];
    rf_candidates_keep(l, n);
}

/* Exclude top choices: with the given chance, of all tokens at least as likely as the threshold
 * only the least likely stays. */
static void filter_xtc(candidates *l, const rf_sampling *o, uint64_t counter) {
    if (o->xtc_probability <= 0 || o->xtc_threshold > 0.5f) return;
    if (rf_rng_unit(o->seed, STREAM_XTC, counter) >= (double)o->xtc_probability) return;
    rf_candidates_softmax(l, 1);
    const candidate *stays = NULL;
    for (size_t i = 0; i < l->n; i++)
        if (l->c[i].p >= (double)o->xtc_threshold && (!stays || rf_by_logit(&l->c[i], stays) > 0))
            stays = &l->c[i];
    if (!stays) return;
    const candidate worst = *stays;
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (rf_by_logit(&l->c[i], &worst) >= 0) l->c[n++] = l->c[i];
    rf_candidates_keep(l, n);
}

/* One of the list, by its likelihoods at the temperature. */
static const candidate *draw(candidates *l, const rf_sampling *o, uint64_t counter) {
    const rf_noise noise = rf_noise_at(o->seed, counter, o->temperature);
    rf_candidates_softmax(l, (double)noise.scale);
    return &l->c[rf_draw_from_list(&noise, l)];
}

/* Mirostat 2 (Basu et al. 2021): cuts off tokens more surprising than mu, and steers mu so that the
 * mean surprise becomes tau. */
static int32_t draw_mirostat(rf_sampler *s, candidates *l, uint64_t counter) {
    const double ln2 = 0.69314718055994530942;
    rf_candidates_softmax(l, 1 / (double)s->o.temperature);
    size_t n = rf_candidates_head(l, 0); /* the likeliest stays in any case */
    for (size_t i = n; i < l->n; i++)
        if (l->c[i].p > 0 && -rf_log(l->c[i].p) / ln2 <= s->mu) l->c[n++] = l->c[i];
    rf_candidates_keep(l, n);
    const candidate *drawn = draw(l, &s->o, counter);
    s->mu -= (double)s->o.mirostat_eta * (-rf_log(drawn->p) / ln2 - (double)s->o.mirostat_tau);
    return drawn->id;
}

/* ---- the choice ---- */

void rf_sampler_set_mask(rf_sampler *s, const uint32_t *mask) { s->mask = mask; }

/* How many of the best logits decide; 0: all may. */
static size_t n_deciding(const rf_sampling *o) {
    if (o->temperature <= 0) return 1;
    return o->mirostat || o->top_n_sigma > 0 ? 0 : (size_t)o->top_k;
}

/* Is min_p the only filter?  Then it decides who is looked at. */
static bool is_min_p_alone(const rf_sampling *o) {
    bool only = !o->mirostat && o->top_n_sigma <= 0 && o->typical_p >= 1 && o->top_p >= 1;
    return only && o->min_p > 0;
}

static bool may_choose(const view *v, uint32_t id, double logit) {
    for (size_t i = 0; i < v->n_banned; i++)
        if (v->banned[i] == (int32_t)id) return false;
    const uint32_t *mask = v->s->mask;
    return logit > (double)-INFINITY && logit < (double)INFINITY &&
           (!mask || mask[id / 32] >> id % 32 & 1);
}

/* The columns of a group whose first is column `first`, at x, but those below `least`; none is above
 * `most`. */
static void offer_group(rf_best_heap *h, const view *v, uint32_t first, const float *x, float least,
                        float most) {
    uint32_t n = v->s->n_vocab - first < RF_BEST_GROUP ? v->s->n_vocab - first : RF_BEST_GROUP;
    if (!rf_best_needs(h, most)) return;
    for (uint32_t i = 0; i < n; i++) {
        if (x[i] < least || !rf_best_needs(h, x[i])) continue;
        if (v->s->place[first + i] || !may_choose(v, first + i, (double)x[i])) continue;
        rf_best_offer(h, (candidate){.id = (int32_t)(first + i), .logit = (double)x[i]});
    }
}

/* What was changed comes last, then all are put in order. */
static candidates best_of(rf_best_heap *h, const view *v) {
    const rf_sampler *s = v->s;
    for (size_t i = 0; i < s->n_changes; i++) {
        const change *c = &s->changes[i];
        if (may_choose(v, (uint32_t)c->id, c->logit))
            rf_best_offer(h, (candidate){.id = c->id, .logit = c->logit});
    }
    candidates l = {.c = h->c, .n = h->n};
    rf_candidates_sort(&l);
    return l;
}

/* The k groups with the largest logits first: they hold the k best unless some of those may not be chosen,
 * and nearly all others are passed over. */
static candidates collect_best(const view *v, size_t k) {
    rf_row *row = &v->s->row;
    row->x = v->logits;
    (void)rf_row_find_most(row);
    const float bound = rf_row_kth_most(row, k, v->s->scratch);
    rf_best_heap h = {.c = v->s->scratch, .k = k};
    for (int pass = 0; pass < 2 && (h.n < k || h.c[0].logit < (double)bound); pass++)
        for (uint32_t g = 0; g * RF_BEST_GROUP < v->s->n_vocab; g++)
            if ((row->most[g] >= bound) == (pass == 0))
                offer_group(&h, v, g * RF_BEST_GROUP, v->logits + g * RF_BEST_GROUP, -INFINITY,
                            row->most[g]);
    return best_of(&h, v);
}

/* Numbers below the bound would not do: others that are not here may be above them. */
static candidates collect_best_of(const view *v, size_t k) {
    const rf_best *best = v->best;
    rf_best_heap h = {.c = v->s->scratch, .k = k};
    for (uint32_t g = 0; g < best->n_groups; g++)
        offer_group(&h, v, best->group[g] * RF_BEST_GROUP, best->x[g], best->bound, INFINITY);
    return best_of(&h, v);
}

/* All candidates whose logits are at least the bound. */
static candidates collect_all(const view *v, double bound) {
    const rf_sampler *s = v->s;
    candidates l = {.c = s->scratch};
    const float low = nextafterf((float)bound, -INFINITY); /* below it, however it was rounded */
    for (uint32_t first = 0, n; first < s->n_vocab; first += n) {
        uint32_t at[RF_BEST_GROUP];
        n = s->n_vocab - first < RF_BEST_GROUP ? s->n_vocab - first : RF_BEST_GROUP;
        size_t n_found = rf_find_between(at, v->logits + first, n, low, INFINITY);
        for (size_t k = 0; k < n_found; k++) {
            const uint32_t i = first + at[k];
            const double x = (double)v->logits[i];
            if (x >= bound && !s->place[i] && may_choose(v, i, x))
                l.c[l.n++] = (candidate){.id = (int32_t)i, .logit = x};
        }
    }
    for (size_t i = 0; i < s->n_changes; i++) {
        const change *c = &s->changes[i];
        if (c->logit >= bound && may_choose(v, (uint32_t)c->id, c->logit))
            l.c[l.n++] = (candidate){.id = c->id, .logit = c->logit};
    }
    return l;
}

static candidates collect(const view *v) {
    const rf_sampling *o = &v->s->o;
    size_t k = n_deciding(o);
    if (k) return collect_best(v, k);
    double bound = (double)-INFINITY;
    if (is_min_p_alone(o)) {
        candidates best = collect_best(v, 1);
        if (best.n == 0) return best;
        bound = (double)nextafterf(min_p_bound(best.c[0].logit, o), -INFINITY); /* or more */
    }
    return collect_all(v, bound);
}

/* The row as the options and whoever forbids make it: what may not be chosen is -inf. */
static const float *effective_row(const view *v, float *copy) {
    const rf_sampler *s = v->s;
    if (!s->mask && v->n_banned == 0 && s->n_changes == 0) return v->logits;
    memcpy(copy, v->logits, s->n_vocab * sizeof *copy);
    for (size_t i = 0; i < s->n_changes; i++)
        copy[s->changes[i].id] = (float)s->changes[i].logit;
    for (size_t i = 0; i < v->n_banned; i++)
        if ((uint32_t)v->banned[i] < s->n_vocab) copy[v->banned[i]] = -INFINITY;
    for (uint32_t at = 0; s->mask && at < s->n_vocab; at += 32) {
        if (s->mask[at / 32] == UINT32_MAX) continue;
        for (uint32_t i = at; i < at + 32 && i < s->n_vocab; i++)
            if (!(s->mask[i / 32] >> i % 32 & 1)) copy[i] = -INFINITY;
    }
    return copy;
}

/* Among the candidates, by the options that still count. */
static int32_t decide(rf_sampler *s, const rf_sampling *o, candidates *l, uint64_t counter) {
    if (o->temperature <= 0) {
        size_t best = 0;
        for (size_t i = 1; i < l->n; i++)
            if (l->c[i].logit > l->c[best].logit) best = i;
        return l->c[best].id;
    }
    if (o->mirostat) return draw_mirostat(s, l, counter);
    filter_top_n_sigma(l, (double)o->top_n_sigma);
    if (o->top_k) rf_candidates_keep_best(l, (size_t)o->top_k);
    filter_typical(l, (double)o->typical_p);
    filter_top_p(l, o);
    filter_min_p(l, o);
    filter_xtc(l, o, counter);
    return draw(l, o, counter)->id;
}

/* The noise of a draw, and which columns options that draw of the first of a row leave. */
static rf_noise noise_of(const rf_sampling *o, uint64_t counter) {
    rf_noise n = rf_noise_at(o->seed, counter, o->temperature);
    if (o->top_k > 0) n.narrows |= RF_NARROWS_COUNT;
    n.count = (uint32_t)o->top_k;
    if (o->top_p < 1) n.narrows |= RF_NARROWS_SHARE;
    if (o->min_p > 0) n.narrows |= RF_NARROWS_DEPTH;
    n.share = share_of(o);
    n.depth = depth_of(o);
    return n;
}

/* A draw from the whole row; false: it is not among those that may be drawn. */
static bool draw_from_all(rf_sampler *s, uint64_t counter, int32_t *token) {
    const rf_noise noise = noise_of(&s->o, counter);
    const int32_t drawn = rf_draw_from_row(&noise, &s->row, s->likely);
    if (drawn < 0) return false;
    if (noise.narrows & RF_NARROWS_DEPTH && !(s->row.x[drawn] >= s->row.max + noise.depth))
        return false;
    if (noise.narrows & RF_NARROWS_SHARE && !rf_row_in_share(&s->row, (uint32_t)drawn, noise.share))
        return false;
    *token = drawn;
    return true;
}

/* The choice that needs no list of all candidates; false: the row is not of finite numbers. */
static bool pick_from_row(const view *v, uint64_t counter, int32_t *token) {
    rf_sampler *s = v->s;
    rf_row *row = &s->row;
    row->x = effective_row(v, s->copy);
    if (!rf_row_find_most(row)) return false;
    if (draws_first(&s->o) && draw_from_all(s, counter, token)) return true;
    if (s->o.top_p >= 1) return false;
    candidates l = rf_row_head(row, rf_noise_share(rf_row_mass(row), share_of(&s->o)), s->scratch);
    rf_sampling rest = s->o;
    rest.top_p = 1;
    *token = decide(s, &rest, &l, counter);
    return true;
}

rf_status rf_sampler_pick(rf_sampler *s, const float *logits, const int32_t *banned,
                          size_t n_banned, uint64_t counter, int32_t *token) {
    const view v = {.s = s, .logits = logits, .banned = banned, .n_banned = n_banned};
    rf_status status = apply_changes(&v);
    if (status == RF_OK && !(takes_row(&s->o) && pick_from_row(&v, counter, token))) {
        candidates l = collect(&v);
        if (l.n) *token = decide(s, &s->o, &l, counter);
        status = l.n ? RF_OK : RF_EARG;
    }
    forget_changes(s);
    return status;
}

bool rf_sampler_is_greedy(const rf_sampler *s) { return n_deciding(&s->o) == 1; }

rf_by_best rf_sampler_by_best(const rf_sampler *s, bool may_forbid) {
    size_t k = n_deciding(&s->o);
    if (!may_forbid && !is_changing(&s->o) && (k == 1 || is_drawn_first(&s->o))) return RF_BY_FIRST;
    return k > 0 && k <= RF_BEST_SURE && is_lowering(s) ? RF_BY_BEST : RF_BY_ROW;
}

rf_noise rf_sampler_noise(const rf_sampler *s, uint64_t counter) {
    if (!is_drawn_first(&s->o) || is_changing(&s->o)) return (rf_noise){.scale = 0};
    return noise_of(&s->o, counter);
}

/* By the first alone: where another one is drawn without what is forbidden, that would not do. */
static bool pick_first(const view *v, int32_t *token) {
    const uint32_t first = v->best->first;
    const bool is_forbidding = v->s->mask || v->n_banned > 0;
    if (first == RF_BEST_NONE || is_changing(&v->s->o) || !may_choose(v, first, 0)) return false;
    if (is_forbidding && !rf_sampler_is_greedy(v->s)) return false;
    *token = (int32_t)first;
    return true;
}

bool rf_sampler_pick_best(rf_sampler *s, const rf_best *best, const int32_t *banned,
                          size_t n_banned, uint64_t counter, int32_t *token) {
    const view v = {.s = s, .best = best, .banned = banned, .n_banned = n_banned};
    size_t k = n_deciding(&s->o);
    if (best->by == RF_BY_FIRST) return pick_first(&v, token);
    if (k == 0 || k > s->n_vocab || !is_lowering(s)) return false;
    if (k == 1 && pick_first(&v, token)) return true;
    bool is_decided = apply_changes(&v) == RF_OK;
    if (is_decided) {
        candidates l = collect_best_of(&v, k);
        is_decided = l.n == k && l.c[k - 1].logit >= (double)best->bound;
        if (is_decided) *token = decide(s, &s->o, &l, counter);
    }
    forget_changes(s);
    return is_decided;
}

/* ---- log-probabilities ---- */

/* What is not a number counts as impossible. */
static double or_impossible(float logit) {
    return isnan(logit) ? (double)-INFINITY : (double)logit;
}

static double log_sum_exp(const float *logits, uint32_t n) {
    float max = rf_largest(logits, n);
    return isinf(max) ? (double)max : (double)max + rf_log(rf_expf_sum(logits, n, max, 1));
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
    rf_best_heap h = {.c = rf_alloc(n, sizeof *h.c), .k = n};
    if (!h.c) return RF_ENOMEM;
    for (uint32_t at = 0, m; at < n_vocab; at += m) {
        m = n_vocab - at < RF_BEST_GROUP ? n_vocab - at : RF_BEST_GROUP;
        if (!rf_best_needs(&h, rf_largest(logits + at, m))) continue;
        for (uint32_t i = at; i < at + m; i++)
            rf_best_offer(&h, (candidate){(int32_t)i, or_impossible(logits[i]), 0});
    }
    candidates l = {.c = h.c, .n = n};
    rf_candidates_sort(&l);
    double total = log_sum_exp(logits, n_vocab);
    for (size_t i = 0; i < n; i++)
        out[i] = (rf_token_prob){l.c[i].id, logprob_of(l.c[i].logit, total)};
    rf_free(l.c);
    return RF_OK;
}
