/* spec.c - whose guesses to take, how many of them pay, and what their success teaches.
 *
 * The price of a guess: a step takes the time of one read of the weights plus that of its rows, of which
 * free_rows together cost as much as the read.  With n rows that are needed anyway it gives n tokens for
 * 1 + n / free_rows, so one more row, at 1 / free_rows, is worth it when it gives a token with a chance
 * of more than n / (n + free_rows).  A draft model's own read adds its share of the weights to that.
 * Few requests make guesses nearly free, many make them useless, and the rule needs no other switch. */
#include "engine/spec.h"

#include <string.h>

#include "engine/request.h"

enum { USUAL_MAX = 16, MAX_ROWS = 64 };

/* Chances before anything is known.  Looking up is watched even when its guesses are not computed; a
 * draft model is watched only when it is asked, so it begins with more and comes back to it. */
static const float usual_chance[RF_DRAFT_SOURCES] = {0.5f, 0.5f, 0.5f, 0.5f, 0.8f};
static const float of_news = 1.0f / 8, of_forgetting = 1.0f / 64;
_Static_assert(RF_DRAFT_MODEL == RF_NGRAM_MAX - RF_NGRAM_MIN + 1,
               "sources: lengths, then the model");

struct rf_spec {
    rf_spec_opts o;
    bool looks_up;
    double free_rows;
    rf_drafter *drafter; /* NULL: none */
    const rf_ids *end_tokens;
    rf_request **asking; /* [max_seqs] whom the draft model guesses for */
};

rf_status rf_spec_check_opts(rf_spec_opts *o, uint32_t max_seqs, uint32_t *n_rows, rf_error *e) {
    if (!o->kind) o->kind = "off";
    if (strcmp(o->kind, "off") != 0 && strcmp(o->kind, "ngram") != 0)
        return rf_fail(e, RF_EARG, "there is no speculation '%.40s'; known are ngram and off",
                       o->kind);
    if (o->draft_max == 0) o->draft_max = USUAL_MAX;
    if (o->draft_max > RF_DRAFT_MAX || o->draft_min > o->draft_max)
        return rf_fail(
            e, RF_EARG,
            "%u to %u guesses per step: at most %d are possible, and the least cannot be "
            "over the most",
            o->draft_min, o->draft_max, RF_DRAFT_MAX);
    uint64_t most = (uint64_t)max_seqs * o->draft_max;
    *n_rows = 0;
    if (o->draft_path || strcmp(o->kind, "off") != 0)
        *n_rows = most < MAX_ROWS ? (uint32_t)most : MAX_ROWS;
    return RF_OK;
}

/* Rows whose arithmetic takes as long as reading the weights; docs/speculation.md has the figures. */
static double free_rows_of(const rf_backend_ops *ops) {
    return ops == &rf_gpu_ops ? 16 : ops == &rf_cpu_ops ? 4 : 0;
}

rf_status rf_spec_open(rf_spec **out, const rf_spec_opts *o, const rf_drafter_target *target,
                       rf_error *e) {
    *out = NULL;
    if (strcmp(o->kind, "off") == 0 && !o->draft_path) return RF_OK;
    rf_spec *s = rf_alloc(1, sizeof *s);
    if (!s) return rf_fail_nomem(e, sizeof *s);
    s->o = *o;
    s->looks_up = strcmp(o->kind, "ngram") == 0;
    s->free_rows = free_rows_of(target->ops);
    s->end_tokens = target->end_tokens;
    s->asking = rf_alloc(target->limits->max_seqs, sizeof *s->asking);
    rf_status status = RF_OK;
    if (!s->asking) status = rf_fail_nomem(e, target->limits->max_seqs * sizeof *s->asking);
    if (status == RF_OK && o->draft_path)
        status = rf_drafter_open(&s->drafter, o->draft_path, target, e);
    if (status == RF_OK)
        *out = s;
    else
        rf_spec_free(s);
    return status;
}

void rf_spec_free(rf_spec *s) {
    if (!s) return;
    rf_drafter_free(s->drafter);
    rf_free(s->asking);
    rf_free(s);
}

size_t rf_spec_bytes(const rf_spec *s) {
    return s && s->drafter ? rf_drafter_bytes(s->drafter) : 0;
}

void rf_spec_forget(rf_spec *s, rf_request *r) {
    if (s && s->drafter) rf_drafter_forget(s->drafter, r);
}

void rf_spec_reset(rf_spec *s) {
    if (s && s->drafter) rf_drafter_reset(s->drafter);
}

/* ---- guesses ---- */

static double price_of(const rf_spec *s, uint32_t n_rows, uint32_t source) {
    double price = n_rows / (n_rows + s->free_rows);
    return source == RF_DRAFT_MODEL ? price + rf_drafter_cost(s->drafter) : price;
}

/* The nth guess is right only if all before it are. */
static uint32_t how_many_pay(double chance, double price, uint32_t most) {
    uint32_t n = 0;
    for (double right = chance; n < most && right > price; right *= chance)
        n++;
    return n;
}

/* One more than could be asked for: whether it was right is told even if no row is computed for it. */
static void look_up(rf_spec *s, rf_request *r) {
    rf_draft *d = &r->draft;
    uint32_t length;
    if (d->ngram.n_slots == 0 && rf_ngram_open(&d->ngram, r->max_total) != RF_OK) return;
    d->n = rf_ngram_guess(&d->ngram, r->tokens.p, (uint32_t)r->tokens.len, d->tokens,
                          s->o.draft_max + 1, &length);
    d->source = length - RF_NGRAM_MIN;
}

static void ask_model_instead(rf_draft *d) {
    d->has_rival = d->n > 0;
    d->rival = d->tokens[0];
    d->rival_source = d->source;
    d->source = RF_DRAFT_MODEL;
    d->n = 0;
}

/* Ends the guesses before the first one that the grammar forbids or that ends the text. */
static void cut_at_limits(rf_spec *s, rf_request *r) {
    rf_draft *d = &r->draft;
    uint32_t n = 0;
    if (rf_request_look_ahead(r) == RF_OK) {
        while (n < d->n_rows && rf_request_ahead_take(r, d->tokens[n], s->end_tokens->p,
                                                      s->end_tokens->len) == RF_OK)
            n++;
        rf_request_look_back(r);
    }
    if (n < d->n_rows) d->n = d->n_rows = n;
}

/* True: the draft model is to make the n_rows guesses. */
static bool guess(rf_spec *s, rf_request *r, uint32_t n_rows, uint32_t most) {
    rf_draft *d = &r->draft;
    uint32_t room = r->max_total - (uint32_t)r->tokens.len - 1; /* the last token needs no guess */
    if (s->drafter) rf_drafter_settle(s->drafter, r);
    if (!d->started) memcpy(d->chance, usual_chance, sizeof d->chance);
    d->started = true;
    d->has_rival = false;
    d->n = d->n_rows = 0;
    d->from = (uint32_t)r->tokens.len;
    if (r->o.no_speculation) return false;
    if (s->looks_up) look_up(s, r);
    bool can_ask = s->drafter && rf_drafter_can_follow(s->drafter, r);
    if (can_ask && (d->n == 0 || d->chance[RF_DRAFT_MODEL] > d->chance[d->source]))
        ask_model_instead(d);
    else if (d->n == 0)
        return false;
    most = most < s->o.draft_max ? most : s->o.draft_max;
    most = most < room ? most : room;
    float *chance = &d->chance[d->source];
    d->n_rows = how_many_pay((double)*chance, price_of(s, n_rows, d->source), most);
    if (d->n_rows < s->o.draft_min) d->n_rows = s->o.draft_min < most ? s->o.draft_min : most;
    if (d->source != RF_DRAFT_MODEL) {
        cut_at_limits(s, r);
        return false;
    }
    if (d->n_rows == 0) *chance += of_forgetting * (usual_chance[RF_DRAFT_MODEL] - *chance);
    return d->n_rows > 0;
}

void rf_spec_guess(rf_spec *s, rf_request *const *r, uint32_t n, uint32_t n_rows, uint32_t max_rows,
                   uint32_t max_outputs) {
    uint32_t left = max_rows - n_rows, n_asking = 0;
    if (left > max_outputs - n) left = max_outputs - n;
    for (uint32_t i = 0; i < n; i++) {
        if (guess(s, r[i], n_rows, left)) s->asking[n_asking++] = r[i];
        left -= r[i]->draft.n_rows;
    }
    if (n_asking) rf_drafter_run(s->drafter, s->asking, n_asking);
    for (uint32_t i = 0; i < n; i++) {
        rf_draft *d = &r[i]->draft;
        if (d->n_rows > d->n) d->n_rows = d->n;
    }
}

/* ---- what came of them ---- */

static void learn(rf_draft *d, uint32_t source, bool was_right) {
    d->chance[source] += of_news * ((was_right ? 1.0f : 0.0f) - d->chance[source]);
}

bool rf_spec_was_right(rf_request *r, uint32_t j) {
    rf_draft *d = &r->draft;
    int32_t token = r->tokens.p[d->from + j];
    if (j == 0 && d->has_rival) learn(d, d->rival_source, d->rival == token);
    if (j >= d->n) return false;
    bool is_right = d->tokens[j] == token;
    learn(d, d->source, is_right);
    if (!is_right || j >= d->n_rows) return false;
    d->n_accepted++;
    return true;
}
