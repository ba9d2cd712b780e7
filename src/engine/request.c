/* request.c - options checked and copied, tokens chosen, text released as soon as it is certain. */
#include "engine/request.h"

#include <string.h>

#include "base/os.h"
#include "base/utf8.h"

enum { MAX_STOPS = 64, MAX_STOP_BYTES = 4096, MAX_LOGPROBS = RF_EVENT_TOP };

static rf_status check(const rf_request_opts *o, uint32_t n_vocab, uint32_t n_ctx, rf_error *e) {
    if (o->n_tokens == 0) return rf_fail(e, RF_EARG, "the prompt has no tokens; give at least one");
    if (o->n_tokens >= n_ctx)
        return rf_fail(e, RF_EFULL,
                       "the prompt has %zu tokens, but the context holds %u and one must "
                       "be left for the answer; shorten it or raise the context length",
                       o->n_tokens, n_ctx);
    for (size_t i = 0; i < o->n_tokens; i++)
        if (o->tokens[i] < 0 || (uint32_t)o->tokens[i] >= n_vocab)
            return rf_fail(e, RF_EARG,
                           "token %zu of the prompt is %d, not below the vocabulary's %u", i,
                           o->tokens[i], n_vocab);
    if (o->max_tokens < -1 || o->max_tokens == 0)
        return rf_fail(e, RF_EARG, "max_tokens is %d: it must be positive, or -1 for no limit",
                       o->max_tokens);
    if (o->n_logprobs < -1 || o->n_logprobs > MAX_LOGPROBS)
        return rf_fail(e, RF_EARG, "logprobs is %d: it must lie between -1 and %d", o->n_logprobs,
                       MAX_LOGPROBS);
    if (o->priority < -RF_FAIR_MAX_PRIORITY || o->priority > RF_FAIR_MAX_PRIORITY)
        return rf_fail(e, RF_EARG, "priority is %d: it must lie between -%d and %d", o->priority,
                       RF_FAIR_MAX_PRIORITY, RF_FAIR_MAX_PRIORITY);
    if (o->weight > RF_FAIR_MAX_WEIGHT)
        return rf_fail(e, RF_EARG, "weight is %u: it must not be over %d", o->weight,
                       RF_FAIR_MAX_WEIGHT);
    if (o->n_stop > MAX_STOPS)
        return rf_fail(e, RF_EARG, "%zu stop strings; at most %d are allowed", o->n_stop,
                       MAX_STOPS);
    for (size_t i = 0; i < o->n_stop; i++) {
        size_t len = strlen(o->stop[i]);
        if (len == 0 || len > MAX_STOP_BYTES)
            return rf_fail(e, RF_EARG, "stop string %zu has %zu bytes; 1 to %d are allowed", i, len,
                           MAX_STOP_BYTES);
        if (rf_utf8_valid_prefix(o->stop[i], len) != len)
            return rf_fail(e, RF_EARG, "stop string %zu is not valid UTF-8", i);
    }
    return RF_OK;
}

static rf_status copy_options(rf_request *r, const rf_request_opts *o) {
    r->stops = rf_alloc(o->n_stop, sizeof *r->stops);
    if (!r->stops) return RF_ENOMEM;
    r->n_stops = o->n_stop;
    bool failed = false;
    for (size_t i = 0; i < o->n_stop; i++) {
        rf_buf_puts(&r->stops[i], o->stop[i]);
        failed = failed || r->stops[i].failed;
    }
    for (size_t i = 0; i < o->n_tokens; i++)
        rf_ids_push(&r->tokens, o->tokens[i]);
    if (failed || r->tokens.failed) return RF_ENOMEM;
    for (size_t i = 0; i < o->n_tokens; i++)
        RF_TRY(rf_sampler_accept(r->sampler, o->tokens[i]));
    return RF_OK;
}

/* What ends a DRY match: short tokens whose text has a line break, a colon, a quote or a star. */
static rf_status set_breakers(rf_request *r, uint32_t n_vocab) {
    if (r->o.sampling.dry_multiplier <= 0) return RF_OK;
    rf_ids ids = {0};
    rf_buf text = {0};
    rf_status s = RF_OK;
    for (uint32_t i = 0; i < n_vocab && s == RF_OK; i++) {
        rf_buf_clear(&text);
        s = rf_token_bytes(r->tokenizer, (int32_t)i, false, &text);
        if (text.len && text.len <= 4 && strpbrk(text.p, "\n:\"*")) rf_ids_push(&ids, (int32_t)i);
    }
    if (s == RF_OK)
        s = ids.failed || text.failed ? RF_ENOMEM
                                      : rf_sampler_set_breakers(r->sampler, ids.p, ids.len);
    rf_ids_free(&ids);
    rf_buf_free(&text);
    return s;
}

/* The text must match the grammar byte for byte, so that its first space is kept too. */
static rf_status follow_grammar(rf_request *r, uint32_t n_vocab, rf_error *e) {
    uint32_t n_words = (n_vocab + 31) / 32;
    r->mask = rf_alloc(n_words, sizeof *r->mask);
    if (!r->mask) return rf_fail_nomem(e, n_words * sizeof *r->mask);
    rf_sampler_set_mask(r->sampler, r->mask);
    r->detok.started = true;
    return rf_matcher_create(&r->matcher, r->o.grammar, e);
}

rf_status rf_request_create(rf_request **out, const rf_request_opts *o, const rf_tokenizer *t,
                            uint32_t n_ctx, rf_error *e) {
    *out = NULL;
    uint32_t n_vocab = rf_tokenizer_n_vocab(t);
    RF_TRY(check(o, n_vocab, n_ctx, e));
    rf_request *r = rf_alloc(1, sizeof *r);
    if (!r) return rf_fail_nomem(e, sizeof *r);
    r->o = *o;
    r->st = (rf_stateful){.slot = RF_NO_STATE, .from = RF_NO_STATE};
    r->tokenizer = t;
    r->n_prompt = (uint32_t)o->n_tokens;
    r->kv.salt = o->prefix_salt;
    /* Text goes on after text; only behind a control token does a sequence's first space fall
     * away. */
    r->detok.started = rf_token_kind_of(t, o->tokens[o->n_tokens - 1]) != RF_TOKEN_CONTROL;
    r->deadline_us = o->timeout_ms ? rf_time_us() + o->timeout_ms * UINT64_C(1000) : UINT64_MAX;
    r->max_total = n_ctx;
    if (o->max_tokens > 0 && (uint32_t)o->max_tokens < n_ctx - r->n_prompt)
        r->max_total = r->n_prompt + (uint32_t)o->max_tokens;
    rf_status s = rf_sampler_create(&r->sampler, &o->sampling, n_vocab, e);
    if (s == RF_OK && o->grammar) s = follow_grammar(r, n_vocab, e);
    if (s == RF_OK && (s = copy_options(r, o)) != RF_OK)
        rf_fail_nomem(e, o->n_tokens * sizeof(int32_t));
    if (s == RF_OK && (s = set_breakers(r, n_vocab)) != RF_OK) rf_fail_nomem(e, n_vocab);
    if (s != RF_OK) {
        rf_request_free(r);
        return s;
    }
    *out = r;
    return RF_OK;
}

void rf_request_free(rf_request *r) {
    if (!r) return;
    RF_ASSERT(r->kv.n_blocks == 0 && r->swapped.n_blocks == 0 && r->draft.kv.n_blocks == 0);
    rf_ngram_close(&r->draft.ngram);
    rf_free(r->draft.kv.blocks);
    for (size_t i = 0; i < r->n_stops; i++)
        rf_buf_free(&r->stops[i]);
    rf_free(r->stops);
    rf_sampler_free(r->sampler);
    rf_matcher_free(r->matcher);
    rf_free(r->mask);
    rf_buf_free(&r->fed);
    rf_ids_free(&r->tokens);
    rf_buf_free(&r->detok.pending);
    rf_buf_free(&r->held);
    rf_free(r->kv.blocks);
    rf_free(r);
}

/* ---- text ---- */

/* Where the earliest stop string starts in held, or len when there is none. */
static size_t find_stop(const rf_request *r) {
    size_t first = r->held.len;
    for (size_t i = 0; i < r->n_stops && r->held.len; i++) {
        const char *at = memmem(r->held.p, r->held.len, r->stops[i].p, r->stops[i].len);
        if (at && (size_t)(at - r->held.p) < first) first = (size_t)(at - r->held.p);
    }
    return first;
}

/* The stop string that stands there: the longest, where several do; -1: none. */
static int32_t stop_at(const rf_request *r, size_t at) {
    int32_t found = -1;
    for (size_t i = 0; i < r->n_stops; i++)
        if (r->held.len - at >= r->stops[i].len &&
            memcmp(r->held.p + at, r->stops[i].p, r->stops[i].len) == 0 &&
            (found < 0 || r->stops[i].len > r->stops[found].len))
            found = (int32_t)i;
    return found;
}

/* Bytes of held that cannot be the start of a stop string any more. */
static size_t certain(const rf_request *r) {
    size_t keep = 0;
    for (size_t i = 0; i < r->n_stops; i++) {
        size_t most = r->stops[i].len - 1 < r->held.len ? r->stops[i].len - 1 : r->held.len;
        for (size_t n = most; n > keep; n--)
            if (memcmp(r->held.p + r->held.len - n, r->stops[i].p, n) == 0) keep = n;
    }
    return r->held.len - keep;
}

static rf_event event_of(const rf_request *r) {
    return (rf_event){
        .request = r->id,
        .token = -1,
        .stop = -1,
        .text = r->held.len ? r->held.p : "",
        .n_prompt = r->n_prompt,
        .n_cached = r->n_cached,
        .n_generated = (uint32_t)r->tokens.len - r->n_prompt,
        .n_drafted = r->draft.n_drafted,
        .n_accepted = r->draft.n_accepted,
        .prompt_us = r->first_us > r->start_us ? r->first_us - r->start_us : 0,
        .decode_us = r->last_us > r->first_us ? r->last_us - r->first_us : 0,
    };
}

static void tell(const rf_request *r, const rf_event *event) {
    if (!r->o.on_event) return;
    if (r->events)
        rf_events_add(r->events, r->o.on_event, r->o.user, event);
    else
        r->o.on_event(r->o.user, event);
}

static void emit(rf_request *r, rf_event *event) {
    tell(r, event);
    r->held.len -= event->text_len;
    if (r->held.len) memmove(r->held.p, r->held.p + event->text_len, r->held.len);
}

void rf_request_end(rf_request *r, rf_finish finish, const char *error) {
    if (finish != RF_FINISH_STOP || find_stop(r) == r->held.len)
        rf_detok_finish(&r->detok, &r->held);
    rf_event event = event_of(r);
    event.text_len = find_stop(r);
    event.finish = finish;
    if (finish == RF_FINISH_STOP) event.stop = stop_at(r, event.text_len);
    event.error = error;
    tell(r, &event);
    rf_buf_clear(&r->held);
}

/* ---- tokens ---- */

static bool is_end(const int32_t *end_tokens, size_t n_end, int32_t token) {
    for (size_t i = 0; i < n_end; i++)
        if (end_tokens[i] == token) return true;
    return false;
}

static rf_status append_text(rf_request *r, int32_t token, bool ends) {
    if (ends && !r->o.with_special) return RF_OK;
    if (r->o.with_special && rf_token_kind_of(r->tokenizer, token) == RF_TOKEN_CONTROL) {
        rf_detok_finish(&r->detok, &r->held);
        size_t before = r->held.len;
        RF_TRY(rf_token_bytes(r->tokenizer, token, true, &r->held));
        r->held.len = before + rf_utf8_valid_prefix(r->held.p + before, r->held.len - before);
        return RF_OK;
    }
    return rf_detok_push(&r->detok, r->tokenizer, token, &r->held);
}

/* What may come next: what the grammar allows, and the end where the text is whole. */
static rf_status prepare_mask(rf_request *r, rf_matcher *m, const int32_t *end_tokens,
                              size_t n_end) {
    RF_TRY(rf_matcher_mask(m, r->mask));
    bool may_end = rf_matcher_can_end(m) && !r->o.ignore_eos;
    for (size_t i = 0; may_end && i < n_end; i++)
        r->mask[(uint32_t)end_tokens[i] / 32] |= 1u << (uint32_t)end_tokens[i] % 32;
    return RF_OK;
}

static rf_status feed_matcher(rf_request *r, rf_matcher *m, int32_t token) {
    if (!m) return RF_OK;
    rf_buf_clear(&r->fed);
    RF_TRY(rf_token_bytes(r->tokenizer, token, false, &r->fed));
    return rf_matcher_feed(m, rf_buf_str(&r->fed));
}

static uint32_t n_generated(const rf_request *r) { return (uint32_t)r->tokens.len - r->n_prompt; }

/* May it not end behind n tokens?  Where nothing ends it, nothing need be banned. */
static bool is_too_early(const rf_request *r, uint32_t n) {
    return !r->o.ignore_eos && r->o.min_tokens > 0 && n < (uint32_t)r->o.min_tokens;
}

/* The token that follows n others, where the grammar's matcher (NULL: none) stands. */
static rf_status choose(rf_request *r, rf_matcher *m, uint32_t n, rf_logits logits,
                        const int32_t *end_tokens, size_t n_end, int32_t *token) {
    size_t n_banned = is_too_early(r, n) ? n_end : 0;
    if (m) RF_TRY(prepare_mask(r, m, end_tokens, n_end));
    if (logits.row) return rf_sampler_pick(r->sampler, logits.row, end_tokens, n_banned, n, token);
    bool is_decided = logits.best &&
                      rf_sampler_pick_best(r->sampler, logits.best, end_tokens, n_banned, n, token);
    return is_decided ? RF_OK : RF_EUNSUPPORTED;
}

rf_by_best rf_request_by_best(const rf_request *r, uint32_t n_ahead) {
    const uint32_t n = n_generated(r) + n_ahead;
    if (r->o.n_logprobs >= 0) return RF_BY_ROW;
    if (r->matcher && !rf_sampler_is_greedy(r->sampler)) return RF_BY_ROW; /* it may forbid most */
    return rf_sampler_by_best(r->sampler, r->matcher || is_too_early(r, n));
}

rf_noise rf_request_noise(const rf_request *r, uint32_t n_ahead) {
    if (rf_request_by_best(r, n_ahead) != RF_BY_FIRST) return (rf_noise){.scale = 0};
    return rf_sampler_noise(r->sampler, n_generated(r) + n_ahead);
}

void rf_request_choose(rf_request *r, rf_logits logits, uint32_t n_vocab, const int32_t *end_tokens,
                       size_t n_end, rf_choice *out) {
    out->n_top = 0;
    out->status = choose(r, r->matcher, n_generated(r), logits, end_tokens, n_end, &out->token);
    if (out->status != RF_OK || r->o.n_logprobs < 0) return;
    out->n_top = (size_t)r->o.n_logprobs < n_vocab ? (size_t)r->o.n_logprobs : n_vocab;
    out->chosen = (rf_token_prob){out->token, rf_logprob(logits.row, n_vocab, out->token)};
    out->status = rf_top_logprobs(logits.row, n_vocab, out->n_top, out->top);
}

/* The token's place in the text, and what is told of it; the event's text stays to be decided. */
static rf_status describe(rf_request *r, const rf_choice *c, bool ends, rf_event *event) {
    if (!ends) RF_TRY(feed_matcher(r, r->matcher, c->token));
    RF_TRY(rf_sampler_accept(r->sampler, c->token));
    RF_TRY(append_text(r, c->token, ends));
    if (r->tokens.failed || r->held.failed) return RF_ENOMEM;
    *event = event_of(r);
    event->token = c->token;
    if (r->o.n_logprobs < 0) return RF_OK;
    event->n_top = c->n_top;
    event->chosen = c->chosen;
    event->top = c->top;
    return RF_OK;
}

rf_status rf_request_advance(rf_request *r, const rf_choice *c, const int32_t *end_tokens,
                             size_t n_end, rf_finish *finish) {
    size_t n_before = r->tokens.len;
    bool is_first = n_generated(r) == 0;
    *finish = RF_FINISH_NONE;
    if (c->status != RF_OK) return c->status;
    rf_ids_push(&r->tokens, c->token);
    r->last_us = rf_time_us();
    if (is_first) r->first_us = r->last_us;

    rf_event event;
    bool ends = !r->o.ignore_eos && is_end(end_tokens, n_end, c->token);
    rf_status s = describe(r, c, ends, &event);
    if (s != RF_OK) { /* a token that nobody hears of does not count */
        r->tokens.len = n_before;
        return s;
    }
    bool stopped = find_stop(r) < r->held.len;
    event.text_len = stopped ? 0 : certain(r);
    emit(r, &event);
    if (ends || stopped || (r->matcher && rf_matcher_is_over(r->matcher)))
        *finish = RF_FINISH_STOP;
    else if (r->tokens.len >= r->max_total)
        *finish = RF_FINISH_LENGTH;
    return RF_OK;
}

/* ---- looking ahead ---- */

rf_status rf_request_look_ahead(rf_request *r) {
    RF_ASSERT(!r->ahead.is_on);
    r->ahead.matcher = NULL;
    if (r->matcher) RF_TRY(rf_matcher_copy(&r->ahead.matcher, r->matcher));
    r->ahead.mark = rf_sampler_get_mark(r->sampler);
    r->ahead.n = 0;
    r->ahead.is_on = true;
    return RF_OK;
}

rf_status rf_request_ahead_pick(rf_request *r, const float *logits, const int32_t *end_tokens,
                                size_t n_end, int32_t *token) {
    return choose(r, r->ahead.matcher, n_generated(r) + r->ahead.n, (rf_logits){.row = logits},
                  end_tokens, n_end, token);
}

rf_status rf_request_ahead_take(rf_request *r, int32_t token, const int32_t *end_tokens,
                                size_t n_end) {
    if (!r->o.ignore_eos && is_end(end_tokens, n_end, token)) return RF_EARG;
    RF_TRY(feed_matcher(r, r->ahead.matcher, token));
    RF_TRY(rf_sampler_accept(r->sampler, token));
    r->ahead.n++;
    return RF_OK;
}

void rf_request_look_back(rf_request *r) {
    if (!r->ahead.is_on) return;
    rf_sampler_go_back(r->sampler, r->ahead.mark);
    rf_matcher_free(r->ahead.matcher);
    r->ahead.matcher = NULL;
    r->ahead.is_on = false;
}
