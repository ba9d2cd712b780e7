/* sched.c - one pass for sequences that decode, one for prompts. */
#include "engine/sched.h"

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
