/* swap.c - copies of KV blocks and states in host memory: made at a preemption, gone when the sequence
 * goes on. */
#include "engine/swap.h"

void rf_swap_open(rf_swap *w, const rf_backend_ops *ops, rf_exec *exec, uint32_t block_tokens,
                  size_t state_floats, uint64_t budget) {
    *w = (rf_swap){.ops = ops,
                   .exec = exec,
                   .block_tokens = block_tokens,
                   .block_bytes = ops->kv_block_bytes(exec),
                   .state_floats = state_floats,
                   .budget = budget};
}

static uint8_t *copy_of(const rf_swap *w, const rf_swapped *s, uint32_t i) {
    return s->blocks + i * w->block_bytes;
}

static uint64_t bytes_of(const rf_swap *w, uint32_t n_blocks) {
    return n_blocks * (uint64_t)w->block_bytes + w->state_floats * sizeof(float);
}

/* How many of n blocks there is room for; with a state all or none. */
static uint32_t n_fit(const rf_swap *w, uint32_t n) {
    uint64_t room = w->budget - w->used;
    if (w->state_floats) return bytes_of(w, n) <= room ? n : 0;
    room = w->block_bytes ? room / w->block_bytes : 0;
    return n < room ? n : (uint32_t)room;
}

static rf_status copy_out(const rf_swap *w, const rf_swapped *s, const rf_kv_seq *seq,
                          uint32_t slot) {
    for (uint32_t i = 0; i < s->n_blocks; i++)
        RF_TRY(w->ops->kv_read(w->exec, seq->blocks[i], copy_of(w, s, i)));
    return s->state ? w->ops->state_read(w->exec, slot, s->state) : RF_OK;
}

static void free_copies(rf_swapped *s) {
    rf_free(s->blocks);
    rf_free(s->state);
    *s = (rf_swapped){0};
}

void rf_swap_out(rf_swap *w, rf_swapped *s, const rf_kv_seq *seq, uint32_t slot, uint32_t n_done) {
    uint32_t n = n_done / w->block_tokens + (n_done % w->block_tokens != 0);
    RF_ASSERT(s->n_blocks == 0 && n <= seq->n_blocks);
    n = n_fit(w, n);
    if (n == 0) return;
    s->n_blocks = n;
    s->n_tokens = n * w->block_tokens < n_done ? n * w->block_tokens : n_done;
    s->blocks = rf_alloc(n, w->block_bytes);
    if (w->state_floats) s->state = rf_alloc(w->state_floats, sizeof *s->state);
    bool got = s->blocks && (s->state || !w->state_floats);
    if (!got || copy_out(w, s, seq, slot) != RF_OK) {
        free_copies(s);
        return;
    }
    w->used += bytes_of(w, n);
    w->n_out += n;
}

/* Block by block, so that what was brought back before a failure counts. */
static void bring_back(rf_swap *w, const rf_swapped *s, const rf_kv_seq *seq, uint32_t *n_done) {
    for (uint32_t i = *n_done / w->block_tokens; i < s->n_blocks; i++) {
        if (w->ops->kv_write(w->exec, seq->blocks[i], copy_of(w, s, i)) != RF_OK) return;
        uint32_t end = (i + 1) * w->block_tokens;
        *n_done = end < s->n_tokens ? end : s->n_tokens;
        w->n_in++;
    }
}

/* All of it or, as far as n_done counts, nothing. */
static bool bring_state(rf_swap *w, const rf_swapped *s, rf_kv *kv, rf_kv_seq *seq, uint32_t slot,
                        uint32_t *n_done) {
    uint32_t n = *n_done;
    bring_back(w, s, seq, &n);
    bool done = n == s->n_tokens && w->ops->state_write(w->exec, slot, s->state) == RF_OK;
    if (done)
        *n_done = n;
    else
        rf_kv_trim(kv, seq, *n_done);
    return done;
}

bool rf_swap_in(rf_swap *w, rf_swapped *s, rf_kv *kv, rf_kv_seq *seq, uint32_t slot,
                uint32_t *n_done) {
    bool has_state = false;
    if (s->n_tokens > *n_done && rf_kv_reserve(kv, seq, s->n_tokens) == RF_OK) {
        if (s->state)
            has_state = bring_state(w, s, kv, seq, slot, n_done);
        else
            bring_back(w, s, seq, n_done);
    }
    rf_swap_drop(w, s);
    return has_state;
}

void rf_swap_drop(rf_swap *w, rf_swapped *s) {
    if (s->n_blocks) w->used -= bytes_of(w, s->n_blocks);
    free_copies(s);
}
