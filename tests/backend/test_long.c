/* test_long.c - single rows behind much context, whose keys threads share by segments: the bits are those of one
 * thread, which takes them in order.  req: C-08, C-10 */
#include "backend/session.h"

enum { SEQS = 4, STEPS = 3, BLOCKS_OF = 36, N_BLOCKS = SEQS * BLOCKS_OF };

/* One segment and a half to four and a half, a single block, and one that ends where a segment does. */
static const uint32_t lengths[SEQS] = {1131, 419, 29, 768 + STEPS};

typedef struct run {
    session s;
    uint32_t table[SEQS][BLOCKS_OF];
} run;

/* Rows [from, from + n) of sequences [first, end); the logits of the last row of each. */
static const float *step(run *r, int32_t token[SEQS][BLOCKS_OF * 32], uint32_t first, uint32_t end,
                         const uint32_t from[SEQS], uint32_t n) {
    uint32_t pos[SESSION_ROWS], start[SEQS + 1] = {0}, kv_len[SEQS], out[SEQS], state[SEQS];
    int32_t tokens[SESSION_ROWS];
    rf_batch b = {.table_stride = BLOCKS_OF,
                  .token = tokens,
                  .pos = pos,
                  .seq_start = start,
                  .kv_len = kv_len,
                  .table = r->table[first],
                  .out_row = out,
                  .state = state};
    for (uint32_t q = first; q < end; q++) {
        for (uint32_t i = 0; i < n; i++) {
            tokens[b.n_tokens] = token[q][from[q] + i];
            pos[b.n_tokens++] = from[q] + i;
        }
        out[b.n_outputs++] = b.n_tokens - 1;
        state[b.n_seqs] = q;
        kv_len[b.n_seqs++] = from[q] + n;
        start[b.n_seqs] = b.n_tokens;
    }
    rf_error e = {0};
    const float *logits = NULL;
    must(r->s.ops->run(r->s.x, &b, &e), &e);
    assert_int_equal(r->s.ops->wait(r->s.x, &logits), RF_OK);
    return logits;
}

/* All sequences up to their last rows. */
static void start(run *r, const rf_model *m, const session_opts *o,
                  int32_t token[SEQS][BLOCKS_OF * 32]) {
    r->s = open_session(m, o);
    for (uint32_t q = 0; q < SEQS; q++) {
        for (uint32_t i = 0; i < BLOCKS_OF; i++) /* of all sequences in turns */
            r->table[q][i] = i * SEQS + q;
        for (uint32_t from[SEQS] = {0}, n; from[q] < lengths[q] - STEPS; from[q] += n) {
            n = lengths[q] - STEPS - from[q];
            n = n < SESSION_ROWS ? n : SESSION_ROWS;
            (void)step(r, token, q, q + 1, from, n);
        }
    }
}

static void check(const char *name, rf_dtype k_type, rf_dtype v_type,
                  const rf_attn_pattern *patterns, uint32_t n_patterns) {
    static int32_t token[SEQS][BLOCKS_OF * 32];
    rf_model *m = open_model(rf_test_data(name));
    const size_t n_vocab = m->n_vocab;
    float *want = rf_alloc(SEQS * STEPS * n_vocab, sizeof *want);
    assert_non_null(want);
    uint64_t seed = 11;
    for (uint32_t q = 0; q < SEQS; q++)
        random_tokens(token[q], BLOCKS_OF * 32, m->n_vocab, &seed);
    session_opts o = session_defaults();
    o.limits.n_kv_blocks = N_BLOCKS;
    o.limits.k_type = k_type;
    o.limits.v_type = v_type;
    o.patterns = patterns;
    o.n_patterns = n_patterns;
    for (int n_threads = 1; n_threads <= 8; n_threads += n_threads == 1 ? 2 : 5) {
        run r;
        o.n_threads = n_threads;
        start(&r, m, &o, token);
        for (uint32_t i = 0; i < STEPS; i++) {
            uint32_t from[SEQS];
            for (uint32_t q = 0; q < SEQS; q++)
                from[q] = lengths[q] - STEPS + i;
            /* alone; then all together, over what is there already */
            for (uint32_t q = 0; q < SEQS; q++) {
                float *at = want + (i * SEQS + q) * n_vocab;
                const float *got = step(&r, token, q, q + 1, from, 1);
                if (n_threads == 1) memcpy(at, got, n_vocab * sizeof *at);
                assert_memory_equal(got, at, n_vocab * sizeof *at);
            }
            const float *got = step(&r, token, 0, SEQS, from, 1);
            assert_memory_equal(got, want + i * SEQS * n_vocab, SEQS * n_vocab * sizeof *got);
        }
        close_session(&r.s);
    }
    rf_free(want);
    rf_model_close(m);
}

static void test_causal(void **state) {
    (void)state;
    check("models/llama-gqa.gguf", RF_DT_F32, RF_DT_F32, NULL, 0);
    check("models/llama-f16.gguf", RF_DT_F16, RF_DT_F16, NULL, 0);
    check("models/qwen3.gguf", RF_DT_Q8_0, RF_DT_Q4_0, NULL, 0);
}

/* Values that lie in the keys; sinks and windows; windows behind a prefix, which leave out whole segments. */
static void test_other(void **state) {
    (void)state;
    static const rf_attn_pattern mixed[] = {{RF_ATTN_GLOBAL_LOCAL, 300, 40},
                                            {RF_ATTN_LOCAL, 600, 0}};
    check("models/deepseek2-lite.gguf", RF_DT_BF16, RF_DT_BF16, NULL, 0);
    check("models/gpt-oss.gguf", RF_DT_F16, RF_DT_Q8_0, NULL, 0);
    check("models/llama-gqa.gguf", RF_DT_F16, RF_DT_F16, mixed, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causal),
        cmocka_unit_test(test_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
