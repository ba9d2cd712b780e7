/* test_batch.c - the shared check of a batch, and the ranges of keys a row sees. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "lib/tiny.h"

enum { STRIDE = 4, N_BLOCKS = 10, VOCAB = 32 };

/* Two sequences: 3 rows at positions 31..33 over blocks 7, 2; 2 rows at 0, 1 in block 5. */
typedef struct world {
    rf_test_tiny tiny;
    rf_plan *plan;
    rf_limits limits;
    int32_t token[5];
    uint32_t pos[5], seq_start[3], kv_len[2], table[2 * STRIDE], out_row[2];
    float mask[5 * 40];
    rf_batch b;
    uint32_t n_before; /* outputs of a run in front */
} world;

static void make(world *w, rf_attn_kind kind) {
    rf_error e = {0};
    w->n_before = 0;
    rf_test_tiny_make(&w->tiny, 2, 2, 1, 4);
    w->tiny.m.layers[1].pattern.kind = kind;
    assert_int_equal(rf_plan_build(&w->plan, &w->tiny.m, NULL, &e), RF_OK);
    w->limits = (rf_limits){8, 3, 4, N_BLOCKS, RF_DT_F32, RF_DT_F32, 2};
    memcpy(w->token, (int32_t[]){0, 31, 5, 6, 7}, sizeof w->token);
    memcpy(w->pos, (uint32_t[]){31, 32, 33, 0, 1}, sizeof w->pos);
    memcpy(w->seq_start, (uint32_t[]){0, 3, 5}, sizeof w->seq_start);
    memcpy(w->kv_len, (uint32_t[]){34, 2}, sizeof w->kv_len);
    memcpy(w->table, (uint32_t[]){7, 2, 99, 99, 5, 99, 99, 99}, sizeof w->table);
    memcpy(w->out_row, (uint32_t[]){2, 4}, sizeof w->out_row);
    memset(w->mask, 0, sizeof w->mask);
    w->b = (rf_batch){.n_tokens = 5,
                      .n_seqs = 2,
                      .n_outputs = 2,
                      .table_stride = STRIDE,
                      .token = w->token,
                      .pos = w->pos,
                      .seq_start = w->seq_start,
                      .kv_len = w->kv_len,
                      .table = w->table,
                      .out_row = w->out_row};
}

static void unmake(world *w) {
    rf_plan_free(w->plan);
    rf_test_tiny_free(&w->tiny);
}

static void expect(world *w, const char *needle) {
    rf_error e = {0};
    rf_status s = rf_batch_check(&w->b, w->plan, &w->limits, w->n_before, &e);
    if (!needle) {
        if (s != RF_OK) fail_msg("%s", e.text);
        return;
    }
    assert_int_equal(s, RF_EARG);
    if (!strstr(e.text, needle)) fail_msg("\"%s\" does not say \"%s\"", e.text, needle);
}

/* Tokens that the run in front chooses. */
static void test_following(void **state) {
    (void)state;
    world w;
    make(&w, RF_ATTN_CAUSAL);
    w.token[3] = ~1;
    w.n_before = 2;
    expect(&w, "row 3: token -2, expected 0 to 31");
    w.b.follows = true;
    expect(&w, NULL);
    w.token[2] = ~2;
    expect(&w, "row 2: output 2 of the run before, expected below 2");
    w.token[2] = 32;
    expect(&w, "row 2: token 32");
    w.n_before = 0;
    expect(&w, "follows a run that is not there");
    unmake(&w);
}

/* One number of the valid batch changed; the message must say which. */
#define BAD(place, value, needle) \
    do {                          \
        make(&w, RF_ATTN_CAUSAL); \
        place = value;            \
        expect(&w, needle);       \
        unmake(&w);               \
    } while (0)

/* req: B-22, B-31, B-33, C-06 (positions validated) */
static void test_defects(void **state) {
    (void)state;
    world w;
    BAD(w.b.n_outputs, 2, NULL);
    BAD(w.b.n_outputs, 0, NULL);
    BAD(w.b.n_tokens, 0, "0 rows");
    BAD(w.b.n_tokens, 9, "9 rows, expected 1 to 8");
    BAD(w.b.n_tokens, 4, "cover 5 rows of 4");
    BAD(w.b.n_seqs, 0, "0 sequences");
    BAD(w.b.n_seqs, 4, "4 sequences, expected 1 to 3");
    BAD(w.b.n_outputs, 5, "5 rows, expected at most 4");
    BAD(w.b.token, NULL, "arrays");
    BAD(w.b.out_row, NULL, "arrays");
    BAD(w.token[1], 32, "row 1: token 32, expected 0 to 31");
    BAD(w.token[4], -1, "row 4: token -1");
    BAD(w.seq_start[0], 1, "seq_start[0]");
    BAD(w.seq_start[1], 0, "sequence 0: starts at row 0 and ends at row 0");
    BAD(w.seq_start[1], 5, "sequence 1: starts at row 5");
    BAD(w.pos[1], 33, "row 1: position 33 after 31");
    BAD(w.pos[4], 0, "row 4: position 0 after 0");
    BAD(w.kv_len[0], 33, "sequence 0: kv_len is 33 and the last position 33");
    BAD(w.kv_len[1], 3, "sequence 1: kv_len is 3");
    BAD(w.table[1], N_BLOCKS, "sequence 0: KV block 1 is 10, expected below 10");
    BAD(w.table[4], UINT32_MAX, "sequence 1: KV block 0");
    BAD(w.b.table_stride, 1, "34 tokens need 2 KV blocks");
    BAD(w.limits.n_kv_blocks, 1, "the pool has 1");
    BAD(w.out_row[1], 5, "output 1: row 5, expected below 5");
    BAD(w.out_row[1], 2, "output 1: row 2 after row 2");
}

/* Slots of state, for a plan that keeps one.  req: C-13 */
static void test_states(void **state) {
    (void)state;
    world w;
    uint32_t slots[] = {1, 0};
    make(&w, RF_ATTN_CAUSAL);
    w.plan->state_floats = 4;
    expect(&w, "batch has no slots of state");
    w.b.state = slots;
    expect(&w, NULL);
    slots[1] = 2;
    expect(&w, "sequence 1: slot of state 2, expected below 2");
    slots[1] = 1;
    expect(&w, "sequences 0 and 1 both have slot of state 1");
    w.limits.n_states = 0;
    rf_error e = {0};
    assert_int_equal(rf_states_check("toy", w.plan, &w.limits, &e), RF_EARG);
    assert_non_null(strstr(e.text, "toy backend: limit n_states is 0"));
    unmake(&w);
}

/* Position arithmetic at the end of its range is refused, not wrapped. */
static void test_last_position(void **state) {
    (void)state;
    world w;
    make(&w, RF_ATTN_CAUSAL);
    w.pos[3] = UINT32_MAX;
    w.pos[4] = 0;
    expect(&w, "row 4: position 0 after 4294967295");
    w.pos[3] = UINT32_MAX - 1;
    w.pos[4] = UINT32_MAX;
    w.kv_len[1] = 0;
    expect(&w, "sequence 1: kv_len is 0");
    unmake(&w);
}

/* Learned positions end with their table: here the embedding's 32 rows are taken for one. */
static void test_learned_positions(void **state) {
    (void)state;
    world w;
    make(&w, RF_ATTN_CAUSAL);
    assert_int_equal(w.plan->steps[0].op, RF_OP_EMBED);
    w.plan->steps[0].source = RF_EMBED_POSITION;
    expect(&w, "row 1: position 32, but the model learned 32 positions (tensor token_embd)");
    w.pos[0] = 29, w.pos[1] = 30, w.pos[2] = 31, w.kv_len[0] = 32;
    expect(&w, NULL);
    unmake(&w);
}

/* A block may be shared for reading; a row of it may be written by one sequence only. */
static void test_slots_written_once(void **state) {
    (void)state;
    world w;
    make(&w, RF_ATTN_CAUSAL);
    w.table[4] = 2; /* rows 0 and 1 of block 2, both written by sequence 0 */
    expect(&w, "sequences 0 and 1 both write row 0 of KV block 2");
    w.table[4] = 5;
    w.pos[0] = 64, w.pos[1] = 65, w.pos[2] = 66, w.kv_len[0] = 67;
    w.table[0] = 1, w.table[1] = 5, w.table[2] = 3; /* block 5 is only read by sequence 0 */
    expect(&w, NULL);
    w.table[2] = 5;
    expect(&w, "sequences 0 and 1 both write row 0 of KV block 5");
    unmake(&w);
}

/* A prefix is in the cache when it is attended. */
static void test_prefix(void **state) {
    (void)state;
    world w;
    uint32_t n_prefix[] = {34, 0};
    make(&w, RF_ATTN_PREFIX);
    expect(&w, NULL);
    w.b.n_prefix = n_prefix;
    expect(&w, NULL);
    n_prefix[0] = 35;
    expect(&w, "sequence 0: a prefix of 35 keys, expected at most its kv_len of 34");
    unmake(&w);
}

/* req: B-22, B-68 */
static void test_mask(void **state) {
    (void)state;
    world w;
    make(&w, RF_ATTN_CUSTOM);
    expect(&w, "no mask");
    w.b.mask = w.mask;
    w.b.mask_stride = 33;
    expect(&w, "sequence 0: mask rows of 33 keys, expected 34");
    w.b.mask_stride = 40;
    expect(&w, NULL);
    w.mask[3 * 40 + 1] = -INFINITY;
    expect(&w, NULL);
    w.mask[2 * 40 + 33] = NAN;
    expect(&w, "row 2: mask of key 33 is nan");
    w.mask[2 * 40 + 33] = INFINITY;
    expect(&w, "row 2: mask of key 33 is inf");
    unmake(&w);
}

/* The definition in model.h, key by key. */
static bool sees(const rf_attn_pattern *a, long p, long j) {
    bool past = j <= p, near = p - (long)a->window < j;
    switch (a->kind) {
    case RF_ATTN_CAUSAL:
        return past;
    case RF_ATTN_BIDIRECTIONAL:
    case RF_ATTN_CUSTOM:
        return true;
    case RF_ATTN_LOCAL:
        return past && near;
    case RF_ATTN_LOCAL_BOTH:
        return labs(p - j) <= (long)(a->window / 2);
    case RF_ATTN_GLOBAL_LOCAL:
        return past && (near || j < (long)a->n_global);
    case RF_ATTN_PREFIX:
        return past || j < (long)a->n_global;
    }
    return false;
}

/* req: C-06, B-38 */
static void test_ranges(void **state) {
    (void)state;
    const uint32_t windows[] = {0, 1, 2, 31, 32, 33, 1000};
    for (rf_attn_kind kind = RF_ATTN_CAUSAL; kind <= RF_ATTN_CUSTOM; kind++)
        for (size_t w = 0; w < RF_COUNT(windows); w++)
            for (uint32_t n_global = 0; n_global < 40; n_global += 13)
                for (uint32_t kv_len = 1; kv_len < 80; kv_len += 11)
                    for (uint32_t p = 0; p < kv_len; p++) {
                        rf_attn_pattern a = {kind, windows[w], n_global};
                        uint32_t begin = 0, end = 0;
                        rf_attn_range(&a, p, kv_len, &begin, &end);
                        assert_true(begin <= end && end <= kv_len);
                        for (uint32_t j = 0; j < kv_len; j++) {
                            bool in = j >= begin && j < end;
                            if (kind == RF_ATTN_GLOBAL_LOCAL && j < n_global && j < begin)
                                in = true;
                            assert_int_equal(in, sees(&a, p, j));
                        }
                    }
    rf_attn_pattern all = {RF_ATTN_CAUSAL, 0, 0};
    uint32_t begin = 1, end = 1;
    rf_attn_range(&all, UINT32_MAX - 1, UINT32_MAX, &begin, &end);
    assert_true(begin == 0 && end == UINT32_MAX);
}

/* Blocks of two sequences of one row each, at the positions given; the first table has 7, 2. */
static bool rows_alone(const uint32_t pos[2], const uint32_t second[2]) {
    static uint64_t written[N_BLOCKS], run;
    const uint32_t table[] = {7, 2, second[0], second[1]}, seq_start[] = {0, 1, 2};
    const rf_batch b = {.n_tokens = 2,
                        .n_seqs = 2,
                        .table_stride = 2,
                        .pos = pos,
                        .seq_start = seq_start,
                        .table = table};
    return rf_batch_rows_alone(&b, written, ++run);
}

static void test_rows_alone(void **state) {
    (void)state;
    world w;
    uint64_t written[N_BLOCKS] = {0};
    make(&w, RF_ATTN_CAUSAL);
    assert_false(rf_batch_rows_alone(&w.b, written, 1)); /* three rows of one sequence */
    unmake(&w);
    assert_true(rows_alone((uint32_t[]){40, 33}, (uint32_t[]){5, 3}));
    assert_true(rows_alone((uint32_t[]){40, 33}, (uint32_t[]){7, 3}));  /* both read block 7 */
    assert_false(rows_alone((uint32_t[]){31, 33}, (uint32_t[]){7, 3})); /* one writes it */
    assert_false(rows_alone((uint32_t[]){40, 33}, (uint32_t[]){2, 3}));
    assert_false(rows_alone((uint32_t[]){40, 33}, (uint32_t[]){5, 2})); /* both write block 2 */
    assert_true(rows_alone((uint32_t[]){40, 31}, (uint32_t[]){5, 2}));  /* behind the row */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defects),
        cmocka_unit_test(test_following),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_last_position),
        cmocka_unit_test(test_learned_positions),
        cmocka_unit_test(test_slots_written_once),
        cmocka_unit_test(test_mask),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_rows_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
