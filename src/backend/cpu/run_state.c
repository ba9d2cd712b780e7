/* run_state.c - steps that keep a state: each sequence by itself, its rows one after the other.
 *
 * Sequences, heads and columns are split among threads, never the order of rows, so a state is the same bits
 * however a sequence was cut into batches. */
#include <math.h>
#include <string.h>

#include "backend/cpu/exec.h"
#include "base/fmath.h"

enum { CONV_PIECE = 256 }; /* columns */

/* The step's part of the slot of sequence seq. */
static float *state_of(const rf_cpu_runner *r, uint32_t seq) {
    const rf_exec *x = r->x;
    return rf_slot(&x->states, r->b->state[seq]) + r->t->state.step->state_at;
}

/* Columns [first, first + n) of all rows of one sequence.  Row i of what is convolved is state row
 * i for i < n_kept, else row i - n_kept of the batch; the last n_kept rows are kept. */
static void convolve(const rf_cpu_runner *r, uint32_t seq, uint32_t first, uint32_t n) {
    const rf_cpu_state *st = &r->t->state;
    const rf_step *s = st->step;
    const rf_tensor *w = r->x->plan->vals[s->w].weight;
    uint32_t begin = r->b->seq_start[seq], n_rows = r->b->seq_start[seq + 1] - begin;
    uint32_t n_kept = w->cols - 1;
    float *state = state_of(r, seq) + first;
    const float *x[RF_MAX_TAPS];
    for (uint32_t i = 0; i < n_kept && r->b->pos[begin] == 0; i++)
        memset(state + (size_t)i * w->rows, 0, n * sizeof *state);
    for (uint32_t t = 0; t < n_rows; t++) {
        for (uint32_t i = 0; i <= n_kept; i++)
            x[i] = t + i < n_kept ? state + (size_t)(t + i) * w->rows
                                  : rf_cpu_row_of(r->x, s->a, begin + t + i - n_kept) + first;
        r->k->conv(rf_cpu_row_of(r->x, s->dst, begin + t) + first, x, st->w + first, w->rows,
                   w->cols, st->bias ? st->bias + first : NULL, n);
    }
    for (uint32_t i = 0; i < n_kept; i++) {
        const float *from = n_rows + i < n_kept
                                ? state + (size_t)(n_rows + i) * w->rows
                                : rf_cpu_row_of(r->x, s->a, begin + n_rows + i - n_kept) + first;
        memcpy(state + (size_t)i * w->rows, from, n * sizeof *state);
    }
}

static float softplus(float x) { return x > 20 ? x : (float)rf_log(1 + rf_exp((double)x)); }

/* All rows of one sequence for value head h. */
static void apply_delta(const rf_cpu_runner *r, uint32_t seq, uint32_t h) {
    const rf_cpu_state *st = &r->t->state;
    const rf_step *s = st->step;
    uint32_t n_k = s->head_dim, n_v = s->value_dim, n_keys = s->n_kv_heads * n_k;
    uint32_t kh = s->heads_in_turn ? h % s->n_kv_heads : h / (s->n_heads / s->n_kv_heads);
    uint32_t begin = r->b->seq_start[seq], end = r->b->seq_start[seq + 1];
    float *state = state_of(r, seq) + (size_t)h * n_k * n_v;
    float q[RF_MAX_HEAD_DIM], k[RF_MAX_HEAD_DIM], eps = s->eps / (float)n_k;
    if (r->b->pos[begin] == 0) memset(state, 0, (size_t)n_k * n_v * sizeof *state);
    for (uint32_t t = begin; t < end; t++) {
        const float *a = rf_cpu_row_of(r->x, s->a, t), *gates = rf_cpu_row_of(r->x, s->b, t);
        r->k->rms_norm(q, a + kh * n_k, NULL, n_k, eps);
        r->k->scale(q, q, 1.0f / (float)n_k, n_k);
        r->k->rms_norm(k, a + n_keys + kh * n_k, NULL, n_k, eps);
        r->k->scale(k, k, 1.0f / sqrtf((float)n_k), n_k);
        float decay = rf_expf(st->w[h] * softplus(gates[s->n_heads + h] + st->bias[h]));
        float beta = 1.0f / (1.0f + rf_expf(-gates[h]));
        r->k->delta(state, q, k, n_k, a + 2 * n_keys + (size_t)h * n_v, decay, beta,
                    rf_cpu_row_of(r->x, s->dst, t) + (size_t)h * n_v, n_v);
    }
}

static void scan(const rf_cpu_runner *r, uint32_t seq, uint32_t h) {
    const rf_cpu_state *st = &r->t->state;
    const rf_step *s = st->step;
    uint32_t n_k = s->head_dim, n_v = s->value_dim, group = h / (s->n_heads / s->n_kv_heads);
    uint32_t begin = r->b->seq_start[seq], end = r->b->seq_start[seq + 1];
    float *state = state_of(r, seq) + (size_t)h * n_k * n_v;
    if (r->b->pos[begin] == 0) memset(state, 0, (size_t)n_k * n_v * sizeof *state);
    for (uint32_t t = begin; t < end; t++) {
        const float *x = rf_cpu_row_of(r->x, s->a, t);
        const float *b = x + (size_t)s->n_heads * n_v + group * n_k, *c = b + s->n_kv_heads * n_k;
        float dt = softplus(rf_cpu_row_of(r->x, s->b, t)[h] + st->bias[h]);
        r->k->scan(state, b, c, n_k, x + (size_t)h * n_v, rf_expf(st->w[h] * dt), dt,
                   rf_cpu_row_of(r->x, s->dst, t) + (size_t)h * n_v, n_v);
    }
}

/* Each head of each sequence by itself. */
static void run_heads(const rf_cpu_runner *r) {
    const rf_step *s = r->t->state.step;
    uint32_t i;
    while (rf_cpu_next_piece(&r->counter[0], r->b->n_seqs * s->n_heads, &i)) {
        if (s->op == RF_OP_DELTA)
            apply_delta(r, i / s->n_heads, i % s->n_heads);
        else
            scan(r, i / s->n_heads, i % s->n_heads);
    }
}

static void run_conv(const rf_cpu_runner *r) {
    uint32_t cols = r->x->plan->vals[r->t->state.step->dst].cols, i;
    uint32_t n_pieces = (cols + CONV_PIECE - 1) / CONV_PIECE;
    while (rf_cpu_next_piece(&r->counter[0], r->b->n_seqs * n_pieces, &i)) {
        uint32_t first = i % n_pieces * CONV_PIECE;
        convolve(r, i / n_pieces, first, cols - first < CONV_PIECE ? cols - first : CONV_PIECE);
    }
}

void rf_cpu_run_state(const rf_cpu_runner *r) {
    if (r->t->state.step->op == RF_OP_CONV)
        run_conv(r);
    else
        run_heads(r);
}
