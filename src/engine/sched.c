/* sched.c - admission by promised blocks; one pass for sequences that decode, one for prompts; the
 * youngest yields. */
#include "engine/sched.h"

enum { LEAST_PROMPT_ROWS = 8 }; /* of a step that decodes: a prompt always goes on */

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
    if (s->n_stop && s->n_stop < pending) pending = s->n_stop;
    s->chunk = pending < budget ? pending : budget;
    return s->chunk;
}

uint32_t rf_sched_chunks(rf_sched_seq *seqs, size_t n, uint32_t budget) {
    uint32_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        seqs[i].chunk = 0;
        if (seqs[i].n_tokens - seqs[i].n_done == 1) rows += give(&seqs[i], budget - rows);
    }
    for (size_t i = 0; i < n; i++) {
        if (seqs[i].n_tokens - seqs[i].n_done == 1) continue;
        if (seqs[i].n_whole > budget - rows) break;
        rows += give(&seqs[i], budget - rows);
    }
    return rows;
}

static bool decodes(const rf_sched_seq *s) { return s->n_tokens - s->n_done == 1; }

uint32_t rf_sched_rows(const rf_sched_pace *p, const rf_sched_seq *seqs, size_t n,
                       uint32_t budget) {
    uint32_t n_decode = 0, rows = LEAST_PROMPT_ROWS, whole = 0;
    for (size_t i = 0; i < n; i++) {
        n_decode += decodes(&seqs[i]);
        if (!whole && !decodes(&seqs[i]))
            whole = seqs[i].n_whole; /* never cut: it would wait for ever */
    }
    if (!p->target_us || n_decode == 0 || n_decode >= budget) return budget;
    double spare = p->target_us - p->decode_us, most = budget - n_decode;
    if (p->row_us > 0 && spare / p->row_us > rows)
        rows = spare / p->row_us < most ? (uint32_t)(spare / p->row_us) : budget - n_decode;
    if (rows < whole) rows = whole;
    return rows < budget - n_decode ? n_decode + rows : budget;
}

/* Follows changes within a few steps, and a single slow step only a little. */
static void follow(double *mean, double x) { *mean = *mean > 0 ? *mean + (x - *mean) / 8 : x; }

void rf_sched_measure(rf_sched_pace *p, const rf_sched_seq *seqs, size_t n, uint64_t us) {
    uint32_t n_decode = 0, n_prompt = 0;
    for (size_t i = 0; i < n; i++) {
        n_decode += decodes(&seqs[i]);
        n_prompt += decodes(&seqs[i]) ? 0 : seqs[i].chunk;
    }
    double more = (double)us - (n_decode ? p->decode_us : 0);
    if (n_prompt == 0)
        follow(&p->decode_us, (double)us);
    else if (n_decode == 0 || p->decode_us > 0)
        follow(&p->row_us, more > n_prompt ? more / n_prompt : 1);
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
            if (s->chunk < s->n_whole) s->chunk = more = 0;
        }
        pool.n_free -= more;
    }
    return true;
}
