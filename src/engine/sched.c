/* sched.c - admission by promised blocks; one pass for sequences that decode, one for prompts; the
 * youngest yields. */
#include "engine/sched.h"

static uint32_t blocks_for(uint32_t n_tokens, rf_sched_pool pool) {
    return n_tokens / pool.block_tokens + (n_tokens % pool.block_tokens != 0);
}

/* Blocks that a sequence will ask for soon: for all tokens that it knows and one block more, if its
 * end does not come before. */
static uint32_t promised(const rf_sched_seq *s, rf_sched_pool pool) {
    uint32_t most = blocks_for(s->n_most, pool), want = blocks_for(s->n_tokens, pool) + 1;
    want = want < most ? want : most;
    return want > s->n_blocks ? want - s->n_blocks : 0;
}

bool rf_sched_may_start(const rf_sched_seq *seqs, size_t n, const rf_sched_seq *next,
                        rf_sched_pool pool) {
    uint64_t want = promised(next, pool);
    for (size_t i = 0; i < n; i++)
        want += promised(&seqs[i], pool);
    return n == 0 || want <= pool.n_free;
}

static uint32_t give(rf_sched_seq *s, uint32_t budget) {
    uint32_t pending = s->n_tokens - s->n_done;
    s->chunk = pending < budget ? pending : budget;
    return s->chunk;
}

uint32_t rf_sched_chunks(rf_sched_seq *seqs, size_t n, uint32_t budget) {
    uint32_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        seqs[i].chunk = 0;
        if (seqs[i].n_tokens - seqs[i].n_done == 1) rows += give(&seqs[i], budget - rows);
    }
    for (size_t i = 0; i < n; i++)
        if (seqs[i].n_tokens - seqs[i].n_done > 1) rows += give(&seqs[i], budget - rows);
    return rows;
}

bool rf_sched_fit(rf_sched_seq *seqs, size_t n, rf_sched_pool pool) {
    for (size_t i = 0; i < n; i++) {
        rf_sched_seq *s = &seqs[i];
        uint32_t want = blocks_for(s->n_done + s->chunk, pool);
        uint32_t more = want > s->n_blocks ? want - s->n_blocks : 0;
        if (more > pool.n_free) {
            if (i + 1 < n) return false;
            s->chunk = (s->n_blocks + pool.n_free) * pool.block_tokens - s->n_done;
            more = pool.n_free;
        }
        pool.n_free -= more;
    }
    return true;
}
