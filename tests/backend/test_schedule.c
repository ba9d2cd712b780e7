/* test_schedule.c - the promise of docs/arithmetic.md, over random schedules.
 *
 * A sequence's logits are the same bits whatever batch it runs in, however its prompt is cut, wherever
 * its KV blocks lie, whether a prefix came from another sequence, with any number of threads and nodes and
 * any instruction set: each row must equal the one of the sequence run alone, token by token, by one
 * thread of the scalar kernels.  req: C-08, C-10, C-12, B-12, B-24, B-32, B-34 */
#include "backend/odd.h"
#include "backend/session.h"
#include "backend/zoo.h"

/* Under ThreadSanitizer, a hundred times slower, only races between threads are the question, of three on three nodes
 * and of four on two. */
#ifdef __SANITIZE_THREAD__
#define FIRST_LEVEL (int)rf_isa_best()
enum { FIRST_THREADS = 3, LAST_SEED = 104 };
#else
#define FIRST_LEVEL 0
enum { FIRST_THREADS = 1, LAST_SEED = 120 };
#endif
enum { SEQS = 5, SNAPSHOTS = SEQS, MAX_LEN = 75, N_BLOCKS = 20, MASK_STRIDE = 96 };

typedef struct world {
    rf_model *m;
    session_opts o;
    bool custom;
    int32_t token[SEQS][MAX_LEN];
    uint32_t len[SEQS];
    float *want[SEQS]; /* [len][n_vocab] */
    sequence seq[SEQS];
    uint32_t computed[SEQS]; /* tokens whose keys and values are in the cache */
    uint32_t free_block[N_BLOCKS], n_free;
    float mask[SESSION_ROWS][MASK_STRIDE];
    uint64_t seed;
    uint32_t n_checked;
} world;

static uint32_t below(world *w, uint32_t n) { return (uint32_t)(rf_test_rand(&w->seed) % n); }

/* Causal with holes; the first token of the sequence always stays. */
static float mask_value(uint32_t i, uint32_t j) {
    uint64_t s = i * 1000u + j;
    uint64_t r = rf_test_rand(&s);
    if (j > i || (j > 0 && r % 5 == 0)) return -INFINITY;
    return (float)(r % 64) / 32.0f;
}

static void set_mask(world *w, batch *b) {
    if (!w->custom) return;
    for (uint32_t t = 0; t < b->b.n_tokens; t++) {
        for (uint32_t j = 0; j < MASK_STRIDE; j++)
            w->mask[t][j] = mask_value(b->pos[t], j);
    }
    b->b.mask = w->mask[0];
    b->b.mask_stride = MASK_STRIDE;
}

/* The truth: alone, one token at a time, one thread, scalar. */
static void make_truth(world *w) {
    session_opts o = w->o;
    o.isa = RF_ISA_SCALAR;
    o.n_threads = 1;
    session s = open_session(w->m, &o);
    for (uint32_t q = 0; q < SEQS; q++) {
        w->want[q] = rf_alloc((size_t)w->len[q] * s.n_vocab, sizeof(float));
        assert_non_null(w->want[q]);
        sequence one = {.token = w->token[q], .n = w->len[q]};
        for (uint32_t i = 0; i < SESSION_BLOCKS; i++)
            one.table[i] = i;
        for (; one.done < one.n; one.done++) {
            batch b;
            batch_clear(&b);
            batch_add(&b, &one, 1);
            batch_want(&b, 0);
            set_mask(w, &b);
            memcpy(w->want[q] + (size_t)one.done * s.n_vocab, batch_run(&s, &b),
                   s.n_vocab * sizeof(float));
        }
    }
    close_session(&s);
}

static void shuffle(world *w, uint32_t *v, uint32_t n) {
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = below(w, i), t = v[i - 1];
        v[i - 1] = v[j];
        v[j] = t;
    }
}

/* Sequence 1 takes 32 tokens from sequence 0, whose block it shares; sequence 3 takes 40 from
 * sequence 2: one block shared, one copied. */
static bool takes_prefix(uint32_t q, uint32_t *from, uint32_t *n) {
    if (q != 1 && q != 3) return false;
    *from = q - 1;
    *n = q == 1 ? 32 : 40;
    return true;
}

static void start_sequences(world *w) {
    for (uint32_t i = 0; i < N_BLOCKS; i++)
        w->free_block[i] = i;
    w->n_free = N_BLOCKS;
    shuffle(w, w->free_block, N_BLOCKS);
    for (uint32_t q = 0; q < SEQS; q++) {
        w->seq[q] = (sequence){.token = w->token[q], .n = w->len[q], .state = q};
        memset(w->seq[q].table, 0xFF, sizeof w->seq[q].table);
        w->computed[q] = 0;
    }
}

/* Blocks up to position end - 1. */
static void reserve(world *w, sequence *s, uint32_t end) {
    for (uint32_t i = 0; i * RF_KV_BLOCK < end; i++) {
        if (s->table[i] != UINT32_MAX) continue;
        assert_true(w->n_free > 0);
        s->table[i] = w->free_block[--w->n_free];
    }
}

/* On the device, or by way of host memory. */
static void copy_block(world *w, session *s, uint32_t from, uint32_t to) {
    if (below(w, 2)) {
        assert_int_equal(s->ops->kv_copy(s->x, from, to), RF_OK);
        return;
    }
    uint8_t *block = rf_alloc(1, s->ops->kv_block_bytes(s->x));
    assert_non_null(block);
    assert_int_equal(s->ops->kv_read(s->x, from, block), RF_OK);
    assert_int_equal(s->ops->kv_write(s->x, to, block), RF_OK);
    rf_free(block);
}

/* A state is copied behind the prefix that another sequence will take, when it is computed. */
static void copy_state(session *s, uint32_t from, uint32_t to) {
    if (s->p->state_floats == 0) return;
    assert_int_equal(s->ops->state_copy(s->x, from, to), RF_OK);
}

/* The most rows that sequence q may compute now, so that a step ends behind a prefix to be taken. */
static uint32_t cut_at_prefix(const world *w, uint32_t q, uint32_t n) {
    uint32_t from, n_prefix, done = w->seq[q].done;
    if (q + 1 == SEQS || !takes_prefix(q + 1, &from, &n_prefix) || done >= n_prefix) return n;
    return n < n_prefix - done ? n : n_prefix - done;
}

static void keep_state(world *w, session *s, uint32_t q) {
    uint32_t from, n_prefix;
    if (q + 1 < SEQS && takes_prefix(q + 1, &from, &n_prefix) && w->seq[q].done == n_prefix)
        copy_state(s, q, SNAPSHOTS + q);
}

/* False while the sequence has to wait for another one's prefix. */
static bool is_ready(world *w, session *s, uint32_t q) {
    uint32_t from, n;
    sequence *to = &w->seq[q];
    if (to->done == to->n) return false;
    if (to->done > 0 || !takes_prefix(q, &from, &n)) return true;
    if (w->computed[from] < n) return false;
    for (uint32_t i = 0; i < n / RF_KV_BLOCK; i++)
        to->table[i] = w->seq[from].table[i];
    if (n % RF_KV_BLOCK) {
        uint32_t last = n / RF_KV_BLOCK;
        reserve(w, to, n);
        copy_block(w, s, w->seq[from].table[last], to->table[last]);
    }
    copy_state(s, SNAPSHOTS + from, q);
    to->done = n;
    return true;
}

/* One engine step of random make-up. */
static void random_step(world *w, session *s) {
    uint32_t order[SEQS] = {0, 1, 2, 3, 4}, in_batch[SEQS], first[SEQS], n_in = 0;
    batch b;
    batch_clear(&b);
    shuffle(w, order, SEQS);
    bool decode = below(w, 3) == 0; /* a step of single rows only */
    for (uint32_t i = 0; i < SEQS; i++) {
        uint32_t q = order[i];
        sequence *seq = &w->seq[q];
        if (!is_ready(w, s, q) || below(w, 3) == 0) continue;
        uint32_t room = SESSION_ROWS - b.b.n_tokens, n = seq->n - seq->done;
        uint32_t chunk = decode || below(w, 3) == 0 ? 1 : 1 + below(w, 40);
        if (n > chunk) n = chunk;
        if (n > room) n = room;
        n = cut_at_prefix(w, q, n);
        if (n == 0) continue;
        reserve(w, seq, seq->done + n);
        first[n_in] = seq->done;
        in_batch[n_in++] = q;
        batch_add(&b, seq, n);
        seq->done += n;
    }
    if (n_in == 0) return;
    for (uint32_t t = 0; t < b.b.n_tokens; t++) {
        if (below(w, 2)) batch_want(&b, t);
    }
    set_mask(w, &b);
    const float *logits = batch_run(s, &b);
    for (uint32_t i = 0; i < n_in; i++) {
        w->computed[in_batch[i]] = w->seq[in_batch[i]].done;
        keep_state(w, s, in_batch[i]);
    }
    for (uint32_t o = 0, i = 0; o < b.b.n_outputs; o++) {
        uint32_t row = b.out_row[o];
        while (row >= b.start[i + 1])
            i++;
        uint32_t pos = first[i] + row - b.start[i];
        const float *want = w->want[in_batch[i]] + (size_t)pos * s->n_vocab;
        w->n_checked++;
        if (memcmp(logits + (size_t)o * s->n_vocab, want, s->n_vocab * sizeof *want) == 0) continue;
        fail_msg("sequence %u, position %u differs in a batch of %u rows", in_batch[i], pos,
                 b.b.n_tokens);
    }
}

static bool all_done(const world *w) {
    for (uint32_t q = 0; q < SEQS; q++) {
        if (w->seq[q].done < w->seq[q].n) return false;
    }
    return true;
}

static void make_sequences(world *w) {
    for (uint32_t q = 0; q < SEQS; q++) {
        uint32_t from, n;
        w->len[q] = 45 + below(w, MAX_LEN - 44);
        random_tokens(w->token[q], w->len[q], w->m->n_vocab, &w->seed);
        if (takes_prefix(q, &from, &n)) memcpy(w->token[q], w->token[from], n * sizeof(int32_t));
    }
}

static void check_model(rf_model *m, rf_dtype k_type, rf_dtype v_type,
                        const rf_attn_pattern *patterns, uint32_t n_patterns) {
    world *w = rf_alloc(1, sizeof *w);
    assert_non_null(w);
    w->m = m;
    w->seed = 21;
    w->o = session_defaults();
    w->o.limits.n_kv_blocks = N_BLOCKS;
    w->o.limits.k_type = k_type;
    w->o.limits.v_type = v_type;
    w->o.patterns = patterns;
    w->o.n_patterns = n_patterns;
    for (uint32_t i = 0; i < n_patterns; i++) {
        w->custom = w->custom || patterns[i].kind == RF_ATTN_CUSTOM;
    }
    make_sequences(w);
    make_truth(w);
    const rf_nodes nodes[] = {nodes_in_turn(2), nodes_in_turn(3)};
    for (int level = FIRST_LEVEL; level <= (int)rf_isa_best(); level++) {
        int step = level == (int)rf_isa_best() ? 1 : 3;
        for (int n_threads = FIRST_THREADS; n_threads <= 4; n_threads += step) {
            session_opts o = w->o;
            o.isa = (rf_isa)level;
            o.n_threads = n_threads;
            o.nodes = n_threads == 1 ? NULL : &nodes[n_threads % 2];
            session s = open_session(w->m, &o);
            int n_runs = n_threads == 4 ? 2 : 1; /* the second over what the first left behind */
            for (int run = 0; run < n_runs; run++) {
                start_sequences(w);
                while (!all_done(w))
                    random_step(w, &s);
            }
            close_session(&s);
        }
    }
    assert_true(w->n_checked > 200);
    for (uint32_t q = 0; q < SEQS; q++)
        rf_free(w->want[q]);
    rf_free(w);
}

static void check_schedules(const char *path, rf_dtype k_type, rf_dtype v_type,
                            const rf_attn_pattern *patterns, uint32_t n_patterns) {
    rf_model *m = open_model(path);
    check_model(m, k_type, v_type, patterns, n_patterns);
    rf_model_close(m);
}

static void test_float_weights(void **state) {
    (void)state;
    check_schedules(rf_test_data("models/llama-gqa.gguf"), RF_DT_F32, RF_DT_F32, NULL, 0);
    check_schedules(rf_test_data("models/llama-f16.gguf"), RF_DT_F16, RF_DT_F16, NULL, 0);
}

static void test_qwen(void **state) {
    (void)state;
    check_schedules(rf_test_data("models/qwen2-yarn.gguf"), RF_DT_F16, RF_DT_F16, NULL, 0);
    check_schedules(rf_test_data("models/qwen3-bf16.gguf"), RF_DT_F32, RF_DT_F32, NULL, 0);
}

/* Layers that keep a state beside those that attend.  req: C-13 */
static void test_states(void **state) {
    (void)state;
    check_schedules(rf_test_data("models/lfm2.gguf"), RF_DT_F16, RF_DT_F16, NULL, 0);
    check_schedules(rf_test_data("models/qwen3next.gguf"), RF_DT_F16, RF_DT_F16, NULL, 0);
    check_schedules(rf_test_data("models/qwen35.gguf"), RF_DT_F32, RF_DT_Q8_0, NULL, 0);
    check_schedules(rf_test_data("models/nemotron_h.gguf"), RF_DT_F16, RF_DT_F16, NULL, 0);
}

static void test_every_format(void **state) {
    (void)state;
    check_schedules(zoo_write(), RF_DT_F16, RF_DT_F16, NULL, 0);
}

static void test_cache_types(void **state) {
    (void)state;
    check_schedules(rf_test_data("models/llama-gqa.gguf"), RF_DT_Q8_0, RF_DT_Q8_0, NULL, 0);
    check_schedules(rf_test_data("models/qwen3-bf16.gguf"), RF_DT_BF16, RF_DT_BF16, NULL, 0);
    check_schedules(rf_test_data("models/qwen2-yarn.gguf"), RF_DT_Q8_0, RF_DT_F16, NULL, 0);
    check_schedules(rf_test_data("models/llama-f16.gguf"), RF_DT_F32, RF_DT_Q8_0, NULL, 0);
    check_schedules(rf_test_data("models/qwen3.gguf"), RF_DT_Q8_0, RF_DT_Q4_0, NULL, 0);
    check_schedules(rf_test_data("models/deepseek2-lite.gguf"), RF_DT_Q4_0, RF_DT_F16, NULL, 0);
}

/* req: C-06, B-38 */
static void test_patterns(void **state) {
    (void)state;
    static const rf_attn_pattern mixed[] = {
        {RF_ATTN_GLOBAL_LOCAL, 9, 4}, {RF_ATTN_LOCAL, 20, 0}, {RF_ATTN_CAUSAL, 0, 0}};
    static const rf_attn_pattern custom[] = {
        {RF_ATTN_CUSTOM, 0, 0}, {RF_ATTN_CAUSAL, 0, 0}, {RF_ATTN_GLOBAL_LOCAL, 40, 33}};
    check_schedules(rf_test_data("models/mistral-window.gguf"), RF_DT_F16, RF_DT_F16, NULL, 0);
    check_schedules(rf_test_data("models/llama-gqa.gguf"), RF_DT_F32, RF_DT_F32, mixed, 3);
    check_schedules(rf_test_data("models/llama-gqa.gguf"), RF_DT_F16, RF_DT_F16, custom, 3);
}

/* Plans of every op, as random as they come. */
static void test_random_plans(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_F32, RF_DT_F16, RF_DT_BF16, RF_DT_Q8_0, RF_DT_Q4_0};
    for (uint64_t seed = 100; seed < LAST_SEED; seed++) {
        odd *o = odd_open(seed, true, false, true);
        check_model(&o->m, types[seed % 5], types[seed / 5 % 5], NULL, 0);
        odd_close(o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float_weights), cmocka_unit_test(test_qwen),
        cmocka_unit_test(test_every_format),  cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_random_plans),  cmocka_unit_test(test_cache_types),
        cmocka_unit_test(test_states),
    };
    print_message("levels up to %s\n", rf_isa_name(rf_isa_best()));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
