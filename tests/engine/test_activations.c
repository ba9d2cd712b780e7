/* test_activations.c - the inputs of matrix products: every weight with every row, the same from
 * both backends and however the sequence is cut, stacked weights matrix by matrix, and what is refused. */
#include "gguf/imatrix.h"
#include "harness.h"

enum { N_TOKENS = 40, MAX_WEIGHTS = 64 };

typedef struct totals {
    char name[MAX_WEIGHTS][64];
    size_t n_weights, rows[MAX_WEIGHTS];
    double squares[MAX_WEIGHTS];
    size_t left; /* calls until the sink says stop; 0: never */
} totals;

static bool add_up(void *user, const rf_activation *a) {
    totals *t = user;
    char name[64];
    size_t i = 0;
    snprintf(name, sizeof name, "%.*s", (int)a->weight_len, a->weight);
    while (i < t->n_weights && strcmp(t->name[i], name) != 0)
        i++;
    if (i == t->n_weights) snprintf(t->name[t->n_weights++], sizeof t->name[0], "%s", name);
    assert_true(t->n_weights <= MAX_WEIGHTS);
    assert_true(a->matrix < a->n_matrices);
    t->rows[i] += a->n;
    for (size_t k = 0; k < a->n * a->cols; k++)
        t->squares[i] += (double)a->x[k] * (double)a->x[k];
    return t->left == 0 || --t->left > 0;
}

static totals collect(const char *backend, uint32_t batch) {
    totals t = {0};
    rf_text why;
    int32_t tokens[N_TOKENS];
    rf_engine *en =
        open_engine((rf_engine_opts){.model_path = rf_test_data("models/llama-f16.gguf"),
                                     .backend = backend,
                                     .batch_tokens = batch,
                                     .max_seqs = 1,
                                     .keep_activations = true});
    for (int i = 0; i < N_TOKENS; i++)
        tokens[i] = 3 * i % 128;
    if (rf_engine_activations(en, tokens, N_TOKENS, add_up, &t, &why) != ROCMFORGE_OK)
        fail_msg("%s", why.text);
    rf_engine_close(en);
    return t;
}

static void every_weight_sees_every_row(void **state) {
    (void)state;
    totals whole = collect("cpu", 64), pieces = collect("cpu", 7), ref = collect("ref", 16);
    assert_int_equal(whole.n_weights, 15); /* 7 in each of two layers, and the output */
    for (size_t i = 0; i < whole.n_weights; i++) {
        assert_int_equal(whole.rows[i], N_TOKENS);
        assert_int_equal(pieces.rows[i], N_TOKENS);
        assert_string_equal(whole.name[i], ref.name[i]);
        assert_true(whole.squares[i] > 0);
        assert_true(fabs(pieces.squares[i] - whole.squares[i]) <= 1e-9 * whole.squares[i]);
        assert_true(fabs(ref.squares[i] - whole.squares[i]) <= 1e-3 * whole.squares[i]);
    }
    assert_string_equal(whole.name[0], "blk.0.attn_q.weight");
    assert_true(whole.squares[0] == whole.squares[1]); /* q and k share their input */
}

/* Sums of squares per matrix and column, as an importance matrix has them. */
typedef struct meters {
    rf_imatrix *want;
    char name[64]; /* the one weight that is added up */
    uint32_t n_matrices;
    size_t cols;
    double sums[16 * 64]; /* [n_matrices][cols] */
    double counts[16];
} meters;

static bool meter(void *user, const rf_activation *a) {
    meters *m = user;
    if (a->weight_len != strlen(m->name) || memcmp(a->weight, m->name, a->weight_len) != 0)
        return true;
    assert_true(a->n > 0 && a->n_matrices <= 16 && a->cols <= 64 && a->matrix < a->n_matrices);
    m->n_matrices = a->n_matrices;
    m->cols = a->cols;
    m->counts[a->matrix] += (double)a->n;
    for (size_t t = 0; t < a->n; t++)
        for (size_t i = 0; i < a->cols; i++) {
            double v = (double)a->x[t * a->cols + i];
            m->sums[a->matrix * a->cols + i] += v * v;
        }
    return true;
}

static float float_at(const uint8_t *p, size_t i) {
    float v;
    memcpy(&v, p + i * sizeof v, sizeof v);
    return v;
}

static void compare(const meters *m) {
    rf_error e = {0};
    rf_importance want;
    if (rf_imatrix_find(m->want, rf_str_of(m->name), m->cols, m->n_matrices, &want, &e) != RF_OK)
        fail_msg("%s", e.text);
    assert_non_null(want.sums);
    for (uint32_t i = 0; i < m->n_matrices; i++) {
        double largest = 0;
        assert_true(m->counts[i] > 0);
        assert_true(m->counts[i] == (double)rf_importance_count(&want, i));
        for (size_t k = 0; k < m->cols; k++)
            largest = fmax(largest, (double)float_at(want.sums, i * m->cols + k));
        for (size_t k = 0; k < m->cols; k++) {
            double expected = (double)float_at(want.sums, i * m->cols + k);
            if (!(fabs(m->sums[i * m->cols + k] - expected) <= 1e-3 * largest))
                fail_msg("%s: matrix %u, column %zu: %g, expected %g", m->name, i, k,
                         m->sums[i * m->cols + k], expected);
        }
    }
}

/* Runs a fixture over its tokens, a few rows at a time, and compares one weight. */
static void check_matrices(const char *model, rf_imatrix *want, const char *weight) {
    char path[80];
    rf_text why;
    size_t n_tokens = 0, n_bytes;
    int32_t tokens[N_TOKENS];
    meters m = {.want = want};
    snprintf(m.name, sizeof m.name, "%s", weight);
    snprintf(path, sizeof path, "models/%s.tokens.txt", model);
    char *text = (char *)rf_test_read(rf_test_data(path), &n_bytes);
    for (char *p = text; n_tokens < N_TOKENS; n_tokens++)
        tokens[n_tokens] = (int32_t)strtol(p, &p, 10);
    rf_free(text);
    snprintf(path, sizeof path, "models/%s.gguf", model);
    rf_engine *en = open_engine((rf_engine_opts){.model_path = rf_test_data(path),
                                                 .backend = "cpu",
                                                 .kv_type = "f32",
                                                 .batch_tokens = 7,
                                                 .max_seqs = 1,
                                                 .keep_activations = true});
    if (rf_engine_activations(en, tokens, n_tokens, meter, &m, &why) != ROCMFORGE_OK)
        fail_msg("%s", why.text);
    rf_engine_close(en);
    compare(&m);
}

/* Experts see the rows that were routed to them, heads of latent attention their part of each row:
 * sums made by tools/make_imatrix_fixtures.py with an independent implementation. */
static void every_matrix_sees_its_rows(void **state) {
    (void)state;
    static const struct {
        const char *model;
        const char *weights[6];
    } cases[] = {
        {"mixtral",
         {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight", "blk.0.ffn_down_exps.weight",
          "blk.1.ffn_gate_exps.weight", "blk.1.ffn_down_exps.weight"}},
        {"deepseek2-v3",
         {"blk.0.attn_k_b.weight", "blk.0.attn_v_b.weight", "blk.1.ffn_gate_exps.weight",
          "blk.2.attn_v_b.weight", "blk.2.ffn_up_exps.weight", "blk.2.ffn_down_exps.weight"}},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        char path[80];
        rf_error e = {0};
        rf_imatrix *want;
        snprintf(path, sizeof path, "engine/%s.imatrix.gguf", cases[i].model);
        if (rf_imatrix_open(&want, rf_test_data(path), &e) != RF_OK) fail_msg("%s", e.text);
        for (size_t k = 0; k < 6 && cases[i].weights[k]; k++)
            check_matrices(cases[i].model, want, cases[i].weights[k]);
        rf_imatrix_close(want);
    }
}

static void no_memory(void **state) {
    (void)state;
    const int32_t tokens[2] = {1, 2};
    rf_engine *en = open_engine((rf_engine_opts){.model_path = rf_test_data("models/mixtral.gguf"),
                                                 .backend = "cpu",
                                                 .keep_activations = true});
    for (long n = 1;; n++) {
        totals t = {0};
        rf_text why;
        rf_alloc_fail_nth(n);
        int status = rf_engine_activations(en, tokens, 2, add_up, &t, &why);
        rf_alloc_fail_nth(0);
        if (status == ROCMFORGE_OK) break;
        assert_int_equal(status, ROCMFORGE_ENOMEM);
        assert_true(n < 50);
    }
    rf_engine_close(en);
}

static void refusals(void **state) {
    (void)state;
    totals t = {.left = 3};
    rf_text why;
    const int32_t tokens[2] = {1, 2};
    const char *path = rf_test_data("models/llama-f16.gguf");
    rf_engine *en = open_engine((rf_engine_opts){.model_path = path});
    assert_int_equal(rf_engine_activations(en, tokens, 2, add_up, &t, &why), ROCMFORGE_EARG);
    assert_non_null(strstr(why.text, "keep_activations"));
    rf_engine_close(en);
    en = open_engine((rf_engine_opts){.model_path = path, .keep_activations = true});
    assert_int_equal(rf_engine_activations(en, tokens, 2, add_up, &t, &why), ROCMFORGE_ECANCELLED);
    assert_int_equal(t.left, 0);
    assert_int_equal(rf_engine_activations(en, tokens, 0, add_up, &t, &why), ROCMFORGE_EARG);
    rf_engine_close(en);
    en = open_engine((rf_engine_opts){.model_path = path, .vocab_only = true});
    assert_int_equal(rf_engine_activations(en, tokens, 2, add_up, &t, &why), ROCMFORGE_EARG);
    rf_engine_close(en);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_weight_sees_every_row),
        cmocka_unit_test(every_matrix_sees_its_rows),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
