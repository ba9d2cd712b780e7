/* test_activations.c - the inputs of matrix products: every weight with every row, the same from
 * both backends and however the sequence is cut, and what is refused. */
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
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
