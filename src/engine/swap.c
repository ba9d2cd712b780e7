/* swap.c - copies of KV blocks in host memory: made at a preemption, gone when the sequence goes on. */
#include "engine/swap.h"

void rf_swap_open(rf_swap *w, const rf_backend_ops *ops, rf_exec *exec, uint32_t block_tokens,
                  uint64_t budget) {
    *w = (rf_swap){.ops = ops,
                   .exec = exec,
                   .block_tokens = block_tokens,
                   .block_bytes = ops->kv_block_bytes(exec),
                   .budget = budget};
}

static uint8_t *copy_of(const rf_swap *w, const rf_swapped *s, uint32_t i) {
    return s->blocks + i * w->block_bytes;
}

void rf_swap_out(rf_swap *w, rf_swapped *s, const rf_kv_seq *seq, uint32_t n_done) {
    uint32_t n = n_done / w->block_tokens + (n_done % w->block_tokens != 0);
    uint64_t room = w->block_bytes ? (w->budget - w->used) / w->block_bytes : 0;
    RF_ASSERT(s->n_blocks == 0 && n <= seq->n_blocks);
    n = n < room ? n : (uint32_t)room;
    if (n == 0 || !(s->blocks = rf_alloc(n, w->block_bytes))) return;
    for (uint32_t i = 0; i < n; i++)
        if (w->ops->kv_read(w->exec, seq->blocks[i], copy_of(w, s, i)) != RF_OK) {
            rf_free(s->blocks);
            *s = (rf_swapped){0};
            return;
        }
    s->n_blocks = n;
    s->n_tokens = n * w->block_tokens < n_done ? n * w->block_tokens : n_done;
    w->used += n * w->block_bytes;
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

void rf_swap_in(rf_swap *w, rf_swapped *s, rf_kv *kv, rf_kv_seq *seq, uint32_t *n_done) {
    if (s->n_tokens > *n_done && rf_kv_reserve(kv, seq, s->n_tokens) == RF_OK)
        bring_back(w, s, seq, n_done);
    rf_swap_drop(w, s);
}

void rf_swap_drop(rf_swap *w, rf_swapped *s) {
    w->used -= s->n_blocks * w->block_bytes;
    rf_free(s->blocks);
    *s = (rf_swapped){0};
}
