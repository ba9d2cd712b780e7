/* test_simulation.c - the scheduler, the queue and the KV pool together through a million random
 * steps, without a model: requests of random lengths, flows and priorities come, are cancelled, run,
 * are preempted, with and without host memory for what they had computed, go on and end.
 *
 * A toy memory stands for the KV cache: computing a token writes it there, and everything that a
 * sequence relies on is read back at each of its steps, so a block with two owners, lost or reused
 * too early shows at once.  In each other round a state goes with every sequence, which sums up its tokens
 * one by one, and prefixes are reused only from snapshots of it.  Not the engine itself: test_engine.c runs that. */
#include <string.h>

#include "base/map.h"
#include "engine/fair.h"
#include "engine/kv.h"
#include "engine/sched.h"
#include "engine/states.h"
#include "engine/swap.h"
#include "lib/testlib.h"

enum {
    N_ROUNDS = 500,
    N_STEPS = 2000, /* of a round, before arrivals end */
    MAX_LIST = 16,
    MAX_RUNNING = 8,
    MAX_BLOCKS = 24,
    MAX_BLOCK_TOKENS = 8,
    MAX_LENGTH = MAX_BLOCKS * MAX_BLOCK_TOKENS,
    N_FLOWS = 5,
    MAX_SNAPSHOTS = 12,
};

/* The backend: its KV cache remembers which token was computed at each place. */
struct rf_exec {
    uint32_t block_tokens;
    int32_t memory[MAX_BLOCKS][MAX_BLOCK_TOKENS];
};

static size_t toy_block_bytes(const rf_exec *x) { return x->block_tokens * sizeof(int32_t); }

static rf_status toy_read(rf_exec *x, uint32_t block, void *out) {
    memcpy(out, x->memory[block], toy_block_bytes(x));
    return RF_OK;
}

static rf_status toy_write(rf_exec *x, uint32_t block, const void *src) {
    memcpy(x->memory[block], src, toy_block_bytes(x));
    return RF_OK;
}

static const rf_backend_ops toy_ops = {
    .kv_block_bytes = toy_block_bytes, .kv_read = toy_read, .kv_write = toy_write};

typedef struct life {
    bool started, running;
    rf_kv_seq kv;
    rf_swapped swapped;
    rf_stateful st;
    uint32_t n_kept; /* tokens that nothing can lose until it goes on */
    uint32_t flow;
    int priority;
    rf_fair_ticket ticket;
    uint64_t floor, served[N_FLOWS];   /* when it came */
    uint32_t kind;                     /* requests of one kind have the same tokens */
    uint32_t n_tokens, n_done, n_most; /* as in rf_sched_seq */
    uint32_t n_end;                    /* ends with so many tokens */
    int32_t tokens[MAX_LENGTH];
} life;

typedef struct world {
    rf_kv *kv;
    uint32_t n_blocks, block_tokens, max_running, budget;
    uint64_t noise;
    rf_fair fair;
    uint32_t weight[N_FLOWS];
    uint64_t served[N_FLOWS]; /* tokens charged */
    life list[MAX_LIST];      /* [n] those that started, in that order; the first n_running run */
    size_t n, n_running;
    rf_sched_seq sched[MAX_RUNNING];
    rf_exec exec;
    rf_swap swap;
    rf_states *states; /* NULL: sequences have none */
    uint64_t state[MAX_RUNNING + MAX_SNAPSHOTS];
    uint64_t n_reused; /* tokens, from snapshots */
    uint64_t n_accepted, n_ended, n_cancelled, n_preempted, n_overtaken, n_computed, n_useful;
    uint64_t n_steps, n_swapped_out, n_swapped_in;
} world;

static uint32_t pick(world *w, uint32_t n) { return (uint32_t)(rf_test_rand(&w->noise) % n); }

/* Kinds share some of their first tokens. */
static int32_t token_at(uint32_t kind, uint32_t pos) {
    return (int32_t)(pos < kind % 4 * 10 ? pos : kind * 1000 + pos);
}

static void arrive(world *w) {
    if (w->n == MAX_LIST) return;
    life *l = &w->list[w->n++];
    uint32_t room = w->n_blocks * w->block_tokens;
    w->n_accepted++;
    *l = (life){.kind = pick(w, 12), .flow = pick(w, N_FLOWS), .priority = (int)pick(w, 5) - 2};
    l->st.slot = RF_NO_STATE;
    if (pick(w, 2)) l->flow = 0; /* one asks more than the others */
    assert_int_equal(rf_fair_join(&w->fair, l->flow, w->weight[l->flow], l->priority, &l->ticket),
                     RF_OK);
    l->floor = w->fair.floor;
    memcpy(l->served, w->served, sizeof l->served);
    l->n_tokens = 1 + pick(w, pick(w, 3) ? 1 + room / 8 : room - 1);
    l->n_most = l->n_tokens + 1 + pick(w, room - l->n_tokens);
    l->n_end = pick(w, 2) ? l->n_most : l->n_tokens + 1 + pick(w, l->n_most - l->n_tokens);
    for (uint32_t i = 0; i < l->n_end; i++)
        l->tokens[i] = token_at(l->kind, i);
}

static void leave(world *w, size_t i) {
    life *l = &w->list[i];
    rf_kv_release(w->kv, &l->kv);
    rf_swap_drop(&w->swap, &l->swapped);
    if (w->states) rf_states_give(w->states, &l->st);
    rf_fair_leave(&w->fair, l->ticket);
    w->n_running -= l->running;
    w->n--;
    memmove(l, l + 1, (w->n - i) * sizeof *l);
}

static rf_sched_pool pool_of(const world *w) {
    rf_kv_stats stats;
    rf_kv_get_stats(w->kv, &stats);
    return (rf_sched_pool){.block_tokens = w->block_tokens, .n_free = stats.n_free};
}

static rf_sched_seq sched_of(const life *l) {
    return (rf_sched_seq){.n_tokens = l->n_tokens,
                          .n_done = l->n_done,
                          .n_most = l->n_most,
                          .n_blocks = l->kv.n_blocks,
                          .n_stop = rf_states_to_mark(&l->st, l->n_done)};
}

/* A request that begins: not before those of its flow that go first, and while it waited no other
 * flow was given more than its share, apart from what ran already or was started last. */
static void check_turn(world *w, size_t at) {
    const life *l = &w->list[at];
    for (size_t i = at + 1; i < w->n; i++) {
        const life *o = &w->list[i];
        if (o->flow != l->flow || o->ticket.number > l->ticket.number) continue;
        int64_t levels = o->priority - l->priority;
        assert_true(levels > 0);
        assert_true(l->ticket.number - o->ticket.number <= (uint64_t)levels * RF_FAIR_HEAD_START);
        w->n_overtaken++;
    }
    double most = 2.0 * w->max_running * w->n_blocks * w->block_tokens;
    double risen = (double)(w->fair.flows[l->ticket.flow].count - l->floor) / RF_FAIR_TOKEN;
    for (uint32_t f = 0; f < N_FLOWS; f++)
        if (f != l->flow)
            assert_true((double)(w->served[f] - l->served[f]) <= risen * w->weight[f] + most + 1);
}

static void charge(world *w, const life *l, uint32_t n_tokens) {
    rf_fair_charge(&w->fair, l->ticket, n_tokens);
    w->served[l->flow] += n_tokens;
}

static void bring_next(world *w, size_t at) {
    size_t best = at;
    for (size_t i = at + 1; i < w->n; i++)
        if (rf_fair_before(&w->fair, w->list[i].ticket, w->list[best].ticket)) best = i;
    life l = w->list[best];
    memmove(&w->list[at + 1], &w->list[at], (best - at) * sizeof l);
    w->list[at] = l;
}

static void begin(world *w, size_t at) {
    life *l = &w->list[at];
    check_turn(w, at);
    l->started = true;
    w->served[l->flow] += l->n_tokens - l->n_done;
    rf_fair_start(&w->fair, l->ticket, l->n_tokens - l->n_done);
}

static uint64_t add_token(uint64_t state, int32_t token) {
    return rf_hash(&token, sizeof token, state);
}

/* Goes on from the last snapshot within what was found. */
static void find_state(world *w, life *l) {
    uint32_t n = l->kv.n_blocks, from = RF_NO_STATE;
    rf_states_take(w->states, &l->st);
    l->st.mark[0] = l->n_done;
    l->st.mark[1] = (l->n_tokens - 1) / w->block_tokens * w->block_tokens;
    while (n > 0 && from == RF_NO_STATE)
        from = rf_states_find(w->states, rf_kv_name(w->kv, &l->kv, --n));
    l->n_done = from == RF_NO_STATE ? 0 : (n + 1) * w->block_tokens;
    if (l->n_done) w->state[l->st.slot] = w->state[from];
    rf_kv_unmatch(w->kv, &l->kv, l->n_done);
    w->n_reused += l->n_done;
}

/* The state says what its sequence's computed tokens are. */
static void check_state(const world *w, const life *l) {
    uint64_t want = 0;
    for (uint32_t p = 0; p < l->n_done; p++)
        want = add_token(want, l->tokens[p]);
    if (l->n_done) assert_true(w->state[l->st.slot] == want);
}

static void compute_state(world *w, life *l, uint32_t n) {
    uint64_t *state = &w->state[l->st.slot];
    if (l->n_done == 0 && n > 0) *state = 0;
    for (int i = 0; i < 2; i++) /* no step goes past a mark */
        assert_true(l->st.mark[i] <= l->n_done || l->st.mark[i] >= l->n_done + n);
    for (uint32_t p = l->n_done; p < l->n_done + n; p++)
        *state = add_token(*state, l->tokens[p]);
}

static void keep_state(world *w, life *l) {
    if (pick(w, 8) == 0) check_state(w, l);
    if (l->n_done == 0 || l->n_done % w->block_tokens != 0) return;
    uint64_t name = rf_kv_name(w->kv, &l->kv, l->n_done / w->block_tokens - 1);
    uint32_t to = rf_states_keep(w->states, &l->st, name, l->n_done);
    if (to == RF_NO_STATE) {
        uint32_t other = rf_states_find(w->states, name);
        assert_true(w->state[other] == w->state[l->st.slot]);
    } else {
        w->state[to] = w->state[l->st.slot];
    }
}

static void admit(world *w) {
    size_t n = 0;
    for (; n < w->n && n < w->max_running; n++) {
        if (!w->list[n].started) bring_next(w, n);
        life *l = &w->list[n];
        if (!l->running) {
            rf_sched_seq next = sched_of(l);
            assert_int_equal(next.n_blocks, 0);
            if (!w->states) next.n_blocks = rf_kv_shared(w->kv, l->kv.salt, l->tokens, l->n_tokens);
            if (!rf_sched_may_start(w->sched, n, &next, pool_of(w))) break;
            assert_int_equal(rf_kv_match(w->kv, &l->kv, l->tokens, l->n_tokens, &l->n_done), RF_OK);
            if (w->states) find_state(w, l);
            rf_swap_in(&w->swap, &l->swapped, w->kv, &l->kv, 0, &l->n_done);
            assert_true(l->n_done >= l->n_kept && l->n_done < l->n_tokens);
            l->running = true;
            if (!l->started) begin(w, n);
        }
        w->sched[n] = sched_of(l);
    }
    w->n_running = n;
    for (bool started = true; n < w->n; n++) { /* no one runs behind one who waits */
        assert_false(w->list[n].running);
        assert_true(started || !w->list[n].started); /* nor begins before one who had begun */
        started = w->list[n].started;
    }
}

static void schedule(world *w) {
    uint32_t rows = 0;
    for (;;) {
        rf_sched_chunks(w->sched, w->n_running, w->budget);
        if (rf_sched_fit(w->sched, w->n_running, pool_of(w))) break;
        assert_true(w->n_running > 1); /* never the oldest */
        life *l = &w->list[--w->n_running];
        rf_swap_out(&w->swap, &l->swapped, &l->kv, 0, l->n_done);
        l->n_kept = w->swap.budget == UINT32_MAX ? l->n_done : 0;
        assert_true(w->swap.used <= w->swap.budget);
        rf_kv_release(w->kv, &l->kv);
        if (w->states) rf_states_give(w->states, &l->st);
        l->running = false;
        l->n_done = 0;
        w->n_preempted++;
    }
    for (size_t i = 0; i < w->n_running; i++) {
        life *l = &w->list[i];
        assert_true(l->n_done + w->sched[i].chunk <= l->n_tokens);
        assert_int_equal(rf_kv_reserve(w->kv, &l->kv, l->n_done + w->sched[i].chunk), RF_OK);
        rows += w->sched[i].chunk;
    }
    assert_true(rows <= w->budget);
    assert_true(w->n == 0 || (w->n_running > 0 && w->sched[0].chunk > 0)); /* the oldest goes on */
}

static int32_t *computed_at(world *w, const life *l, uint32_t pos) {
    return &w->exec.memory[l->kv.blocks[pos / w->block_tokens]][pos % w->block_tokens];
}

static void compute(world *w) {
    for (size_t i = 0; i < w->n_running; i++) {
        life *l = &w->list[i];
        for (uint32_t p = l->n_done; p < l->n_done + w->sched[i].chunk; p++)
            *computed_at(w, l, p) = l->tokens[p];
        if (w->states) compute_state(w, l, w->sched[i].chunk);
        l->n_done += w->sched[i].chunk;
        w->n_computed += w->sched[i].chunk;
    }
    for (size_t i = 0; i < w->n_running; i++) {
        life *l = &w->list[i];
        for (uint32_t p = 0; p < l->n_done; p++)
            if (*computed_at(w, l, p) != l->tokens[p])
                fail_msg("token %u of request %zu is lost", p, i);
        assert_int_equal(rf_kv_commit(w->kv, &l->kv, l->tokens, l->n_done), RF_OK);
        if (w->states) keep_state(w, l);
    }
    for (size_t i = w->n_running; i-- > 0;) {
        life *l = &w->list[i];
        if (l->n_done < l->n_tokens) continue;
        l->n_tokens++;
        charge(w, l, 1);
        if (l->n_tokens < l->n_end) continue;
        w->n_ended++;
        w->n_useful += l->n_done;
        leave(w, i);
    }
}

static void check_blocks(const world *w) {
    const rf_kv_seq *seqs[MAX_LIST];
    const rf_stateful *states[MAX_LIST];
    size_t n_swapped = 0;
    for (size_t i = 0; i < w->n; i++) {
        seqs[i] = &w->list[i].kv;
        states[i] = &w->list[i].st;
        assert_true((states[i]->slot != RF_NO_STATE) == (w->states && w->list[i].running));
        assert_true(w->list[i].running || seqs[i]->n_blocks == 0);
        assert_true(!w->list[i].running || w->list[i].swapped.n_blocks == 0);
        n_swapped += w->list[i].swapped.n_blocks;
    }
    assert_true(rf_kv_consistent(w->kv, seqs, w->n));
    if (w->states) assert_true(rf_states_consistent(w->states, states, w->n));
    assert_true(w->swap.used == n_swapped * w->swap.block_bytes);
}

/* Flows that wait: never below the floor, nor above by more than all that can run at once. */
static void check_flows(const world *w) {
    uint64_t most = (uint64_t)w->max_running * w->n_blocks * w->block_tokens * RF_FAIR_TOKEN;
    for (size_t i = 0; i < w->n; i++) {
        const rf_fair_flow *f = &w->fair.flows[w->list[i].ticket.flow];
        assert_true(f->id == w->list[i].flow);
        if (w->list[i].started) continue;
        assert_true(f->count >= w->fair.floor);
        assert_true(f->count - w->fair.floor <= most / f->weight);
    }
}

static void step(world *w) {
    admit(w);
    check_flows(w);
    schedule(w);
    check_blocks(w);
    compute(w);
    check_blocks(w);
    w->n_steps++;
}

static void run_round(world *w, uint64_t seed) {
    w->noise = seed;
    w->block_tokens = 1 + pick(w, MAX_BLOCK_TOKENS);
    w->n_blocks = 2 + pick(w, MAX_BLOCKS - 1);
    w->max_running = 1 + pick(w, MAX_RUNNING);
    w->budget = w->max_running + pick(w, 24);
    uint32_t pause = 1 + pick(w, 40);
    for (int i = 0; i < N_FLOWS; i++)
        w->weight[i] = pick(w, 3) ? 1 : 1 + pick(w, 6);
    memset(w->served, 0, sizeof w->served);
    assert_int_equal(rf_kv_create(&w->kv, w->n_blocks, w->block_tokens), RF_OK);
    w->exec.block_tokens = w->block_tokens;
    uint32_t most_swapped[] = {0, pick(w, 200), UINT32_MAX}; /* bytes */
    uint32_t n_snapshots = 1 + pick(w, MAX_SNAPSHOTS);
    w->states = NULL;
    if (seed % 2) {
        assert_int_equal(rf_states_create(&w->states, w->max_running, n_snapshots), RF_OK);
        most_swapped[seed % 3] = 0;
    }
    rf_swap_open(&w->swap, &toy_ops, &w->exec, w->block_tokens, 0, most_swapped[seed % 3]);
    for (int i = 0; i < N_STEPS; i++) {
        if (pick(w, pause) == 0) arrive(w);
        if (w->n && pick(w, 100) == 0) leave(w, pick(w, (uint32_t)w->n)), w->n_cancelled++;
        step(w);
    }
    /* what was accepted ends, in no more steps than there are tokens: one a step at the least */
    for (uint64_t left = MAX_LIST * MAX_LENGTH; w->n; left--) {
        assert_true(left > 0);
        step(w);
    }
    assert_int_equal(w->n_running, 0);
    assert_int_equal(pool_of(w).n_free, w->n_blocks);
    assert_true(w->swap.used == 0 && w->swap.n_in <= w->swap.n_out);
    w->n_swapped_out += w->swap.n_out;
    w->n_swapped_in += w->swap.n_in;
    rf_kv_free(w->kv);
    rf_states_free(w->states);
    rf_fair_free(&w->fair);
}

/* req: B-26 (removal frees), B-49, B-50 (no lost tokens), C-10, C-11, C-12 */
static void a_million_steps(void **state) {
    (void)state;
    static world w;
    for (uint64_t i = 0; i < N_ROUNDS; i++)
        run_round(&w, i);
    print_message(
        "%llu steps, %llu requests, %llu cancelled, %llu preemptions, %llu blocks swapped out, "
        "%llu in, %llu tokens reused by snapshots, %.2f rows computed per token of an answered "
        "request\n",
        (unsigned long long)w.n_steps, (unsigned long long)w.n_accepted,
        (unsigned long long)w.n_cancelled, (unsigned long long)w.n_preempted,
        (unsigned long long)w.n_swapped_out, (unsigned long long)w.n_swapped_in,
        (unsigned long long)w.n_reused, (double)w.n_computed / (double)w.n_useful);
    assert_true(w.n_steps >= 1000000);
    assert_true(w.n_accepted == w.n_ended + w.n_cancelled);
    assert_true(w.n_preempted > 1000 && w.n_cancelled > 1000 && w.n_overtaken > 1000);
    assert_true(w.n_swapped_in > 1000 && w.n_reused > 50000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_million_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
