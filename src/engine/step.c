/* step.c - one step of the engine: requests start, wait and end, the running ones become a batch, and
 * what the backend makes of it becomes their next tokens.
 *
 * Where all that a step is to tell are the largest logits, and the device knows them before the host does, the
 * next step is queued behind it at once: its tokens are what the device chooses.  So the device does not
 * wait for the host.  A request that ends meanwhile leaves a row behind that nobody asks for; what that row
 * writes into blocks of KV that others get is written before they write. */
#include <string.h>

#include "base/log.h"
#include "engine/engine.h"

void rf_engine_note_free(rf_engine *en) {
    rf_kv_stats stats;
    rf_kv_get_stats(en->kv, &stats);
    atomic_store(&en->kv_free, stats.n_free);
    pthread_mutex_lock(&en->lock);
    en->kv_stats = stats;
    en->swap_seen = en->swap;
    pthread_mutex_unlock(&en->lock);
}

/* What a step, or the run behind it, makes for the request is for nobody. */
static void leave_step(rf_engine *en, const rf_request *r) {
    rf_engine_arrays *a = &en->a;
    for (uint32_t i = 0; i < en->n_running; i++)
        if (a->running[i] == r) a->running[i] = NULL;
    for (uint32_t i = 0; i < en->n_outputs; i++)
        if (a->output[i] == r) a->output[i] = NULL;
    for (uint32_t i = 0; i < en->n_behind; i++)
        if (a->behind[i] == r) a->behind[i] = NULL;
}

/* Takes the request off the list, gives its blocks back and tells its owner. */
static void finish(rf_engine *en, rf_request *r, rf_finish why, const char *error) {
    leave_step(en, r);
    pthread_mutex_lock(&en->lock);
    rf_request **at = &en->first;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    rf_fair_leave(&en->fair, r->ticket);
    pthread_mutex_unlock(&en->lock);
    rf_kv_release(en->kv, &r->kv);
    if (en->states) rf_states_give(en->states, &r->st);
    rf_swap_drop(&en->swap, &r->swapped);
    rf_spec_forget(en->spec, r);
    rf_engine_note_free(en);
    rf_request_end(r, why, error);
    rf_request_free(r);
}

/* The first request of the list that is cancelled or late, or NULL. */
static rf_request *find_over(rf_engine *en, uint64_t now_us) {
    pthread_mutex_lock(&en->lock);
    rf_request *r = en->first;
    while (r && !atomic_load(&r->cancelled) && now_us < r->deadline_us)
        r = r->next;
    pthread_mutex_unlock(&en->lock);
    return r;
}

static rf_sched_pool pool_of(const rf_engine *en) {
    rf_kv_stats stats;
    rf_kv_get_stats(en->kv, &stats);
    return (rf_sched_pool){.block_tokens = RF_KV_BLOCK, .n_free = stats.n_free};
}

static rf_sched_seq sched_of(const rf_request *r) {
    return (rf_sched_seq){.n_tokens = (uint32_t)r->tokens.len,
                          .n_done = r->n_done,
                          .n_most = r->max_total,
                          .n_blocks = r->kv.n_blocks,
                          .n_whole = r->n_done < r->n_prefix ? r->n_prefix - r->n_done : 0,
                          .n_stop = rf_states_to_mark(&r->st, r->n_done)};
}

/* Moves the request that is to start next from behind *at to *at; none before it waits to start. */
static void bring_next(rf_engine *en, rf_request **at) {
    rf_request **best = at;
    for (rf_request **i = at; *i; i = &(*i)->next)
        if (rf_fair_before(&en->fair, (*i)->ticket, (*best)->ticket)) best = i;
    rf_request *r = *best;
    *best = r->next;
    r->next = *at;
    *at = r;
}

/* A request whose model keeps states goes on from the last snapshot within the blocks found for it.  It
 * leaves one behind them, where prompts part, and one behind its prompt's last full block. */
static void find_state(rf_engine *en, rf_request *r) {
    uint32_t n = r->kv.n_blocks;
    rf_states_take(en->states, &r->st);
    r->st.mark[0] = r->n_done;
    r->st.mark[1] = ((uint32_t)r->tokens.len - 1) / RF_KV_BLOCK * RF_KV_BLOCK;
    while (n > 0 && r->st.from == RF_NO_STATE)
        r->st.from = rf_states_find(en->states, rf_kv_name(en->kv, &r->kv, --n));
    r->n_done = r->st.from == RF_NO_STATE ? 0 : (n + 1) * RF_KV_BLOCK;
    rf_kv_unmatch(en->kv, &r->kv, r->n_done);
}

/* The copy of what find_state found; where it fails, all is computed. */
static void take_state(rf_engine *en, rf_request *r) {
    if (en->ops->state_copy(en->exec, r->st.from, r->st.slot) != RF_OK) {
        rf_kv_trim(en->kv, &r->kv, 0);
        r->n_done = 0;
    }
    r->st.from = RF_NO_STATE;
}

/* A snapshot of the request's state, if its tokens end with a full block. */
static void keep_state(rf_engine *en, rf_request *r) {
    if (r->n_done == 0 || r->n_done % RF_KV_BLOCK != 0) return;
    uint64_t name = rf_kv_name(en->kv, &r->kv, r->n_done / RF_KV_BLOCK - 1);
    uint32_t to = rf_states_keep(en->states, &r->st, name, r->n_done);
    if (to != RF_NO_STATE && en->ops->state_copy(en->exec, r->st.slot, to) != RF_OK)
        rf_states_forget(en->states, name);
}

/* Adds a request, new or preempted before, to the running ones.  RF_EFULL: there is no room yet. */
static rf_status start(rf_engine *en, rf_request *r) {
    rf_sched_seq next = sched_of(r);
    if (!en->states) /* else shared blocks may have to be computed once more */
        next.n_blocks = rf_kv_shared(en->kv, r->kv.salt, r->tokens.p, next.n_tokens);
    if (!rf_sched_may_start(en->a.sched, en->n_running, &next, pool_of(en))) return RF_EFULL;
    RF_TRY(rf_kv_match(en->kv, &r->kv, r->tokens.p, next.n_tokens, &r->n_done));
    if (en->states) find_state(en, r);
    if (r->start_us == 0) {
        r->n_cached = r->n_done;
        r->start_us = rf_time_us();
        rf_fair_start(&en->fair, r->ticket, r->n_prompt - r->n_cached);
    }
    r->running = true;
    return RF_OK;
}

/* Lists the running requests, in order of their start, starting waiting ones while there is room.
 * Strictly in order: a long request whose turn it is is not overtaken for ever by short ones.
 * Returns a request that can never start for lack of memory, or NULL. */
static rf_request *admit(rf_engine *en) {
    rf_status s = RF_OK;
    rf_request **at;
    en->n_running = 0;
    pthread_mutex_lock(&en->lock);
    for (at = &en->first; *at && en->n_running < en->limits.max_seqs; at = &(*at)->next) {
        if ((*at)->start_us == 0) bring_next(en, at);
        if (!(*at)->running) s = start(en, *at);
        if (s != RF_OK) break;
        en->a.sched[en->n_running] = sched_of(*at);
        en->a.running[en->n_running++] = *at;
    }
    pthread_mutex_unlock(&en->lock);
    for (uint32_t i = 0; i < en->n_running; i++) { /* the lock is not held for so long */
        rf_request *r = en->a.running[i];
        if (r->swapped.n_blocks == 0 && r->st.from == RF_NO_STATE) continue;
        if (rf_swap_in(&en->swap, &r->swapped, en->kv, &r->kv, r->st.slot, &r->n_done))
            r->st.from = RF_NO_STATE; /* a later state than the snapshot's */
        if (r->st.from != RF_NO_STATE) take_state(en, r);
        en->a.sched[i] = sched_of(r);
    }
    return s == RF_ENOMEM ? *at : NULL;
}

/* The last running request gives its blocks back, with or without a copy of them in host memory; it is
 * the first to go on. */
static void preempt(rf_engine *en) {
    rf_request *r = en->a.running[--en->n_running];
    rf_swap_out(&en->swap, &r->swapped, &r->kv, r->st.slot, r->n_done);
    rf_kv_release(en->kv, &r->kv);
    if (en->states) rf_states_give(en->states, &r->st);
    rf_spec_forget(en->spec, r);
    r->n_done = 0;
    pthread_mutex_lock(&en->lock);
    r->running = false;
    en->n_preemptions++;
    pthread_mutex_unlock(&en->lock);
}

/* Decides what each running request computes, and gives it the blocks for that.  Returns one that
 * there is no memory for, or NULL. */
static rf_request *schedule(rf_engine *en) {
    rf_engine_arrays *a = &en->a;
    for (;;) {
        rf_sched_chunks(a->sched, en->n_running,
                        rf_sched_rows(&en->pace, a->sched, en->n_running, en->limits.max_tokens));
        if (rf_sched_fit(a->sched, en->n_running, pool_of(en))) break;
        preempt(en);
    }
    for (uint32_t i = 0; i < en->n_running; i++) {
        rf_request *r = a->running[i];
        rf_status s = rf_kv_reserve(en->kv, &r->kv, r->n_done + a->sched[i].chunk);
        RF_ASSERT(s != RF_EFULL);
        if (s != RF_OK) return r;
    }
    rf_engine_note_free(en);
    return NULL;
}

/* Guesses for the requests that get a token in this step: with what is left of the batch, and of the
 * pool when everyone has the blocks that he needs. */
static void speculate(rf_engine *en) {
    rf_engine_arrays *a = &en->a;
    uint32_t n_rows = 0, n = 0;
    if (!en->spec) return;
    for (uint32_t i = 0; i < en->n_running; i++) {
        rf_request *r = a->running[i];
        n_rows += a->sched[i].chunk;
        if (r->n_done + a->sched[i].chunk == r->tokens.len) a->output[n++] = r;
    }
    rf_spec_guess(en->spec, a->output, n, n_rows, en->limits.max_tokens, en->limits.max_outputs);
    for (uint32_t i = 0; i < n; i++) {
        rf_request *r = a->output[i];
        uint32_t n_tokens = (uint32_t)r->tokens.len;
        if (rf_kv_reserve(en->kv, &r->kv, n_tokens + r->draft.n_rows) != RF_OK)
            r->draft.n_rows = r->kv.n_blocks * RF_KV_BLOCK - n_tokens;
        r->draft.n_drafted += r->draft.n_rows;
    }
}

/* The sequence of a request whose rows up to position end are in the batch. */
static void add_seq(rf_engine *en, rf_batch *b, const rf_request *r, uint32_t end) {
    rf_engine_arrays *a = &en->a;
    memcpy(a->table + (size_t)b->n_seqs * en->table_stride, r->kv.blocks,
           r->kv.n_blocks * sizeof *a->table);
    a->n_prefix[b->n_seqs] = r->n_prefix;
    a->state[b->n_seqs] = r->st.slot;
    a->kv_len[b->n_seqs++] = end;
    a->seq_start[b->n_seqs] = b->n_tokens;
}

/* A request that computes its last token gets a row of logits for it, and one for each guess behind. */
static void add_rows(rf_engine *en, rf_batch *b, rf_request *r, uint32_t chunk) {
    rf_engine_arrays *a = &en->a;
    uint32_t n_tokens = (uint32_t)r->tokens.len, end = r->n_done + chunk;
    if (end == n_tokens) end += r->draft.n_rows;
    for (uint32_t pos = r->n_done; pos < end; pos++) {
        a->token[b->n_tokens] = pos < n_tokens ? r->tokens.p[pos] : r->draft.tokens[pos - n_tokens];
        a->pos[b->n_tokens] = pos;
        if (pos + 1 >= n_tokens) {
            a->out_row[b->n_outputs] = b->n_tokens;
            a->by_best[b->n_outputs] = rf_request_by_best(r, pos + 1 - n_tokens);
            a->noise[b->n_outputs] = rf_request_noise(r, pos + 1 - n_tokens);
            a->output[b->n_outputs++] = r;
        }
        b->n_tokens++;
    }
    add_seq(en, b, r, end);
}

rf_batch rf_engine_empty_batch(rf_engine *en) {
    const rf_engine_arrays *a = &en->a;
    return (rf_batch){.token = a->token,
                      .pos = a->pos,
                      .seq_start = a->seq_start,
                      .kv_len = a->kv_len,
                      .table = a->table,
                      .out_row = a->out_row,
                      .state = a->state,
                      .table_stride = en->table_stride};
}

static rf_batch make_batch(rf_engine *en) {
    rf_batch b = rf_engine_empty_batch(en);
    rf_engine_arrays *a = &en->a;
    b.n_prefix = a->n_prefix;
    b.by_best = a->by_best;
    b.noise = a->noise;
    for (uint32_t i = 0; i < en->n_running; i++)
        if (a->sched[i].chunk) add_rows(en, &b, a->running[i], a->sched[i].chunk);
    en->n_outputs = b.n_outputs;
    return b;
}

/* ---- a run that follows ---- */

/* Does a request wait that there may be room for? */
static bool has_to_start(rf_engine *en) {
    uint32_t n_running = 0;
    bool any = false;
    pthread_mutex_lock(&en->lock);
    for (const rf_request *r = en->first; r; r = r->next) {
        n_running += r->running;
        any = any || !r->running;
    }
    pthread_mutex_unlock(&en->lock);
    return any && n_running < en->limits.max_seqs;
}

/* Its next token is not its last one, as far as lengths go. */
static bool goes_on(const rf_request *r) { return r && r->tokens.len + 1 < r->max_total; }

/* Does this step bring one token to each of its requests, by what the device knows first, and have they
 * room for what is behind it? */
static bool may_follow(rf_engine *en) {
    const rf_engine_arrays *a = &en->a;
    uint32_t n = 0;
    bool is_able = en->ops->may_follow && en->ops->may_follow(en->exec);
    if (!is_able || en->spec || en->states || en->n_outputs != en->n_running) return false;
    for (uint32_t o = 0; o < en->n_outputs; o++)
        if (a->by_best[o] != RF_BY_FIRST) return false;
    if (has_to_start(en)) return false;
    for (uint32_t o = 0; o < en->n_outputs; o++) {
        rf_request *r = a->output[o];
        if (!goes_on(r)) continue;
        if (rf_kv_reserve(en->kv, &r->kv, (uint32_t)r->tokens.len + 1) != RF_OK) return false;
        n++;
    }
    return n > 0;
}

/* Queues the step behind the one that is being made. */
static rf_status follow(rf_engine *en, rf_error *e) {
    rf_engine_arrays *a = &en->a;
    rf_batch b = rf_engine_empty_batch(en);
    b.n_prefix = a->n_prefix;
    b.by_best = a->by_best;
    b.noise = a->noise;
    b.follows = true;
    for (uint32_t o = 0; o < en->n_outputs; o++) {
        rf_request *r = a->output[o];
        if (!goes_on(r)) continue;
        uint32_t pos = (uint32_t)r->tokens.len, t = b.n_tokens++;
        a->token[t] = ~(int32_t)o;
        a->pos[t] = pos;
        a->noise[t] = rf_request_noise(r, 1);
        a->out_row[b.n_outputs++] = t;
        a->behind[t] = r;
        add_seq(en, &b, r, pos + 1);
    }
    en->n_behind = b.n_tokens;
    return en->ops->run(en->exec, &b, e);
}

/* What was queued behind a step that has ended is the next one, unless nobody is left who wants it. */
static void take_behind(rf_engine *en) {
    rf_engine_arrays *a = &en->a;
    uint32_t n = en->n_behind;
    en->n_running = en->n_outputs = n;
    en->n_behind = 0;
    en->is_begun = false;
    for (uint32_t i = 0; i < n; i++) {
        rf_request *r = a->behind[i];
        a->running[i] = a->output[i] = r;
        a->by_best[i] = RF_BY_FIRST;
        a->sched[i] = r ? sched_of(r) : (rf_sched_seq){.n_tokens = 1};
        a->sched[i].chunk = 1;
        en->is_begun = en->is_begun || r;
    }
}

static void drop_step(rf_engine *en) {
    en->n_running = en->n_outputs = en->n_behind = 0;
    en->is_begun = false;
}

/* ---- what a step made ---- */

/* So many of the request's tokens are computed. */
static void note_done(rf_engine *en, rf_request *r, uint32_t n_done) {
    r->n_done = n_done;
    rf_status s = rf_kv_commit(en->kv, &r->kv, r->tokens.p, n_done);
    RF_ASSERT(s == RF_OK);
    if (en->states) keep_state(en, r);
}

static void note_token(rf_engine *en, const rf_request *r, bool was_guessed) {
    pthread_mutex_lock(&en->lock);
    rf_fair_charge(&en->fair, r->ticket, 1);
    en->n_accepted += was_guessed;
    pthread_mutex_unlock(&en->lock);
}

static const char *why_failed(const rf_request *r, rf_status s) {
    if (s == RF_EFULL)
        return "the grammar is too ambiguous, or the text is nested too deeply, to follow";
    if (s == RF_EDEVICE) return "the device failed";
    if (s != RF_EARG) return "out of memory";
    return r->matcher
               ? "no token can be chosen: the vocabulary, the model or the options leave none "
                 "of those that the grammar allows"
               : "no token can be chosen: every logit is -inf or not a number";
}

static bool is_by_row(const rf_engine *en, uint32_t output) {
    return !en->ops->best || en->a.by_best[output] == RF_BY_ROW;
}

/* The request's next token, from what the device made of its row: the best where that is enough. */
static void choose(rf_engine *en, const float *result, uint32_t output) {
    rf_request *r = en->a.output[output];
    rf_choice *c = &en->a.choice[output];
    uint32_t n_vocab = en->model->n_vocab;
    const rf_ids *ends = &en->end_tokens;
    rf_logits logits = {.row = result + (size_t)output * n_vocab};
    if (!is_by_row(en, output)) {
        logits = (rf_logits){.best = en->ops->best(en->exec, output)};
        rf_request_choose(r, logits, n_vocab, ends->p, ends->len, c);
        if (c->status != RF_EUNSUPPORTED) return;
        c->status = en->ops->row(en->exec, output, &logits.row);
        if (c->status != RF_OK) return;
    }
    rf_request_choose(r, logits, n_vocab, ends->p, ends->len, c);
}

/* Is it the first row of its request, not one behind a guess?  Rows of a request are neighbours. */
static bool is_first_row(const rf_engine *en, uint32_t output) {
    const rf_request *r = en->a.output[output];
    return r && (output == 0 || en->a.output[output - 1] != r);
}

/* Logits that are looked through for the token. */
static size_t n_looked_through(const rf_engine *en, uint32_t output) {
    if (is_by_row(en, output)) return en->model->n_vocab;
    return en->a.by_best[output] == RF_BY_FIRST ? 0 : RF_BEST_GROUPS * RF_BEST_GROUP;
}

typedef struct choosing {
    rf_engine *en;
    const float *result;
    atomic_uint next;
} choosing;

static void choose_some(void *ctx, int ith, int n_threads) {
    choosing *w = ctx;
    (void)ith, (void)n_threads;
    for (uint32_t o; (o = atomic_fetch_add(&w->next, 1)) < w->en->n_outputs;)
        if (is_first_row(w->en, o)) choose(w->en, w->result, o);
}

/* All requests' next tokens, by all threads where there is enough to look through for waking them.  What
 * is behind guesses is chosen once these are known to be right. */
static void choose_together(rf_engine *en, const float *result) {
    enum { MUCH = 1 << 17 };
    size_t n_logits = 0;
    uint32_t n = 0;
    rf_pool *pool = en->ops->idle_pool ? en->ops->idle_pool(en->backend) : NULL;
    for (uint32_t o = 0; o < en->n_outputs; o++) {
        if (!is_first_row(en, o)) continue;
        n_logits += n_looked_through(en, o);
        n++;
    }
    choosing w = {en, result, 0};
    if (pool && n > 1 && n_logits >= MUCH)
        rf_pool_run(pool, choose_some, &w);
    else
        choose_some(&w, 0, 1);
}

/* The request's next tokens, from the row of logits behind its last one and, as long as it chooses what
 * was guessed, from those behind the guesses: outputs from `first` on. */
static void take_tokens(rf_engine *en, rf_request *r, const float *result, uint32_t first) {
    for (uint32_t j = 0;; j++) {
        rf_finish why = RF_FINISH_NONE;
        const rf_ids *ends = &en->end_tokens;
        if (j > 0) choose(en, result, first + j);
        rf_status s = rf_request_advance(r, &en->a.choice[first + j], ends->p, ends->len, &why);
        bool was_guessed = s == RF_OK && rf_spec_was_right(r, j);
        note_token(en, r, was_guessed);
        if (s != RF_OK) why = RF_FINISH_ERROR;
        if (why != RF_FINISH_NONE) {
            finish(en, r, why, s == RF_OK ? NULL : why_failed(r, s));
            return;
        }
        if (!was_guessed || atomic_load(&r->cancelled)) break;
        note_done(en, r, r->n_done + 1);
    }
    if (en->spec) rf_kv_trim(en->kv, &r->kv, r->n_done); /* what wrong guesses had */
}

/* After the batch ran: its tokens count as computed, its logits become tokens. */
static void advance(rf_engine *en, const float *result) {
    uint32_t n_rows, n_drafted = en->n_outputs;
    for (uint32_t i = 0; i < en->n_running; i++) {
        rf_request *r = en->a.running[i];
        if (r) note_done(en, r, r->n_done + en->a.sched[i].chunk);
    }
    choose_together(en, result);
    for (uint32_t o = 0; o < en->n_outputs; o += n_rows) {
        rf_request *r = en->a.output[o];
        n_rows = r ? 1 + r->draft.n_rows : 1;
        n_drafted--;
        if (r) take_tokens(en, r, result, o);
    }
    pthread_mutex_lock(&en->lock);
    en->n_drafted += n_drafted;
    pthread_mutex_unlock(&en->lock);
}

bool rf_engine_revive(rf_engine *en, rf_error *fault) {
    rf_kv_seq all = {0};
    if (!en->ops->revive) return false;
    drop_step(en);
    pthread_mutex_lock(&en->lock);
    for (rf_request *r = en->first; r; r = r->next) {
        if (!r->running) continue;
        if (en->kv) rf_kv_release(en->kv, &r->kv);
        if (en->states) rf_states_give(en->states, &r->st);
        rf_spec_forget(en->spec, r);
        r->n_done = 0;
        r->running = false;
    }
    pthread_mutex_unlock(&en->lock);
    /* Whoever takes the whole pool leaves nothing of it findable. */
    uint32_t n_tokens = en->limits.n_kv_blocks * RF_KV_BLOCK;
    if (en->kv && rf_kv_reserve(en->kv, &all, n_tokens) != RF_OK) return false;
    rf_spec_reset(en->spec);
    if (en->states) rf_states_forget_all(en->states);
    rf_status s = en->ops->revive(en->backend, fault);
    if (en->kv) rf_kv_release(en->kv, &all);
    if (en->kv) rf_engine_note_free(en);
    if (s == RF_OK)
        rf_log_write(RF_LOG_WARN, "the device was opened anew after a fault: %s", fault->text);
    return s == RF_OK;
}

/* The requests of a failed step go on where the device comes back; where it does not, or the same happens
 * again at once, they end. */
static int after_failure(rf_engine *en, rf_status s, rf_error *e) {
    uint32_t n = en->n_running;
    bool goes_on = s == RF_EDEVICE && rf_engine_revive(en, e) && en->n_faults++ == 0;
    for (uint32_t i = 0; !goes_on && i < n; i++) {
        rf_request *r = en->a.running[i];
        if (r) finish(en, r, RF_FINISH_ERROR, e->text[0] ? e->text : rf_status_name(s));
    }
    drop_step(en);
    return goes_on ? 1 : -(int)s;
}

static void end_requests(rf_engine *en) {
    uint64_t now_us = rf_time_us();
    for (rf_request *r; (r = find_over(en, now_us)) != NULL;)
        finish(en, r, atomic_load(&r->cancelled) ? RF_FINISH_CANCELLED : RF_FINISH_LENGTH, NULL);
}

/* A batch of those that run, queued; nobody runs: n_running is 0. */
static rf_status begin(rf_engine *en, rf_error *e) {
    for (rf_request *r; (r = admit(en)) != NULL || (r = schedule(en)) != NULL;)
        finish(en, r, RF_FINISH_ERROR, "out of memory");
    if (en->n_running == 0) return RF_OK;
    speculate(en);
    rf_batch b = make_batch(en);
    en->began_us = rf_time_us();
    return en->ops->run(en->exec, &b, e);
}

static int step(rf_engine *en) {
    rf_error e = {0};
    rf_status s = RF_OK;
    const float *result = NULL;
    end_requests(en);
    if (!en->is_begun) s = begin(en, &e);
    if (en->n_running == 0) return 0;
    if (s == RF_OK && may_follow(en)) s = follow(en, &e);
    if (s == RF_OK && en->ops->runs_ahead) rf_events_tell(&en->events); /* of the step before */
    if (s == RF_OK) s = en->ops->wait(en->exec, &result);
    if (s != RF_OK) return after_failure(en, s, &e);
    uint64_t now_us = rf_time_us(), from_us = en->began_us;
    if (en->is_begun) from_us = en->ended_us; /* queued while the device was busy with another */
    en->ended_us = now_us;
    en->n_faults = 0;
    rf_sched_measure(&en->pace, en->a.sched, en->n_running, now_us - from_us);
    advance(en, result);
    take_behind(en);
    return 1;
}

static bool has_requests(rf_engine *en) {
    pthread_mutex_lock(&en->lock);
    bool any = en->first != NULL;
    pthread_mutex_unlock(&en->lock);
    return any;
}

int rf_engine_step(rf_engine *en) {
    if (!en->exec) return 0;
    if (en->stepping) return -(int)RF_EARG; /* from a callback: its batch is still being read */
    en->stepping = true;
    int worked = step(en);
    /* A device that computes by itself is given the next step first. */
    bool may_wait = en->ops->runs_ahead && worked > 0 && has_requests(en);
    if (!may_wait) rf_events_tell(&en->events);
    en->stepping = false;
    return worked;
}
