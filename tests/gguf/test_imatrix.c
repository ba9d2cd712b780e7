/* test_imatrix.c - importance matrices in both formats: what is found, and what is refused. */
#include <string.h>

#include "gguf/imatrix.h"
#include "gguf/writer.h"
#include "lib/testlib.h"

typedef struct bytes {
    uint8_t p[512];
    size_t n;
} bytes;

static void put(bytes *b, const void *p, size_t n) {
    assert_true(b->n + n <= sizeof b->p);
    memcpy(b->p + b->n, p, n);
    b->n += n;
}
static void put_i32(bytes *b, int32_t v) { put(b, &v, sizeof v); }
static void put_record(bytes *b, const char *name, int32_t n) {
    put_i32(b, (int32_t)strlen(name));
    put(b, name, strlen(name));
    put_i32(b, 3);
    put_i32(b, n);
    for (int32_t i = 0; i < n; i++)
        put(b, &(float){(float)(i + 1)}, sizeof(float));
}

static bytes two_records(void) {
    bytes b = {{0}, 0};
    put_i32(&b, 2);
    put_record(&b, "blk.0.attn_q.weight", 8);
    put_record(&b, "blk.0.ffn_up_exps.weight", 12);
    return b;
}

static float value(const uint8_t *p, size_t i) {
    float v;
    memcpy(&v, p + i * sizeof v, sizeof v);
    return v;
}

static void records(void **state) {
    (void)state;
    rf_error e = {0};
    rf_imatrix *im;
    rf_importance found;
    bytes b = two_records();
    rf_guarded g = rf_guard(b.p, b.n);
    assert_int_equal(rf_imatrix_open_memory(&im, g.p, b.n, &e), RF_OK);
    assert_int_equal(rf_imatrix_find(im, RF_STR("blk.0.attn_q.weight"), 8, 1, &found, &e), RF_OK);
    assert_true(value(found.sums, 7) == 8.0f);
    assert_null(found.counts);
    assert_int_equal(rf_imatrix_find(im, RF_STR("blk.0.ffn_up_exps.weight"), 4, 3, &found, &e),
                     RF_OK);
    assert_true(value(found.sums, 11) == 12.0f);
    assert_int_equal(rf_imatrix_find(im, RF_STR("output.weight"), 4, 3, &found, &e), RF_OK);
    assert_null(found.sums);
    assert_int_equal(rf_imatrix_find(im, RF_STR("blk.0.attn_q.weight"), 16, 1, &found, &e),
                     RF_EFORMAT);
    assert_non_null(strstr(e.text, "was it made for another model?"));
    assert_int_equal(
        rf_imatrix_find(im, RF_STR("blk.0.attn_q.weight"), UINT64_MAX / 2, 8, &found, &e),
        RF_EFORMAT);
    rf_imatrix_close(im);
    rf_guard_free(&g);
}

/* Every cut, and every byte of the head changed, is refused or read, never more than is there. */
static void cut_and_changed_records(void **state) {
    (void)state;
    bytes whole = two_records();
    for (size_t n = 0; n < whole.n; n++) {
        rf_error e = {0};
        rf_imatrix *im;
        rf_guarded g = rf_guard(whole.p, n);
        assert_int_equal(rf_imatrix_open_memory(&im, g.p, n, &e), RF_EFORMAT);
        assert_null(im);
        assert_true(strlen(e.text) > 20);
        rf_guard_free(&g);
    }
    size_t n_refused = 0;
    for (size_t i = 0; i < whole.n * 2; i++) {
        rf_error e = {0};
        rf_imatrix *im;
        bytes b = whole;
        b.p[i / 2] = i % 2 ? 0xff : 0;
        rf_guarded g = rf_guard(b.p, b.n);
        n_refused += rf_imatrix_open_memory(&im, g.p, b.n, &e) != RF_OK;
        rf_imatrix_close(im);
        rf_guard_free(&g);
    }
    assert_true(n_refused > 20);
}

static void a_weight_twice(void **state) {
    (void)state;
    rf_error e = {0};
    rf_imatrix *im;
    bytes b = {{0}, 0};
    put_i32(&b, 2);
    put_record(&b, "output.weight", 2);
    put_record(&b, "output.weight", 2);
    assert_int_equal(rf_imatrix_open_memory(&im, b.p, b.n, &e), RF_EFORMAT);
    assert_non_null(strstr(e.text, "expected every weight once, got 'output.weight' again"));
}

static void write_gguf(const char *path, const char *type, uint64_t n_rows, uint64_t n_counts) {
    rf_error e = {0};
    rf_gguf_writer *w;
    const float sums[6] = {1, 2, 3, 4, 5, 6}, counts[3] = {7, 0, 9};
    assert_int_equal(rf_gguf_writer_open(&w, path, 32, &e), RF_OK);
    if (type) assert_int_equal(rf_gguf_put_str(w, "general.type", rf_str_of(type), &e), RF_OK);
    assert_int_equal(rf_gguf_declare(w, RF_STR("a.weight.in_sum2"), RF_DT_F32, 2,
                                     (const uint64_t[]){6 / n_rows, n_rows}, &e),
                     RF_OK);
    assert_int_equal(rf_gguf_declare(w, RF_STR("a.weight.counts"), RF_DT_F32, 2,
                                     (const uint64_t[]){1, n_counts}, &e),
                     RF_OK);
    assert_int_equal(rf_gguf_writer_data(w, sums, sizeof sums, &e), RF_OK);
    assert_int_equal(rf_gguf_writer_data(w, counts, n_counts * sizeof *counts, &e), RF_OK);
    assert_int_equal(rf_gguf_writer_finish(w, &e), RF_OK);
}

static void gguf(void **state) {
    (void)state;
    rf_error e = {0};
    rf_imatrix *im;
    rf_importance found;
    const char *path = rf_test_tmp("im.gguf");
    write_gguf(path, "imatrix", 3, 3);
    assert_int_equal(rf_imatrix_open(&im, path, &e), RF_OK);
    assert_int_equal(rf_imatrix_find(im, RF_STR("a.weight"), 2, 3, &found, &e), RF_OK);
    assert_true(value(found.sums, 5) == 6.0f && value(found.counts, 2) == 9.0f);
    assert_true(rf_importance_count(&found, 1) == 0 && rf_importance_count(&found, 2) == 9.0f);
    assert_int_equal(rf_imatrix_find(im, RF_STR("b.weight"), 2, 3, &found, &e), RF_OK);
    assert_null(found.sums);
    assert_int_equal(rf_imatrix_find(im, RF_STR("a.weight"), 3, 2, &found, &e), RF_EFORMAT);
    rf_imatrix_close(im);
    write_gguf(path, "imatrix", 3, 2);
    assert_int_equal(rf_imatrix_open(&im, path, &e), RF_OK);
    assert_int_equal(rf_imatrix_find(im, RF_STR("a.weight"), 2, 3, &found, &(rf_error){0}),
                     RF_EFORMAT);
    rf_imatrix_close(im);
    const char *const types[] = {"model", NULL};
    for (size_t i = 0; i < RF_COUNT(types); i++) {
        rf_error why = {0};
        write_gguf(path, types[i], 3, 3);
        assert_int_equal(rf_imatrix_open(&im, path, &why), RF_EFORMAT);
        assert_non_null(strstr(why.text, "expected 'imatrix', got"));
    }
}

/* llama.cpp's layout where every row meets every matrix: the sums in one row, one count for all. */
static void one_count_for_all(void **state) {
    (void)state;
    rf_error e = {0};
    rf_imatrix *im;
    rf_importance found;
    const char *path = rf_test_tmp("one.gguf");
    write_gguf(path, "imatrix", 1, 1);
    assert_int_equal(rf_imatrix_open(&im, path, &e), RF_OK);
    assert_int_equal(rf_imatrix_find(im, RF_STR("a.weight"), 2, 3, &found, &e), RF_OK);
    assert_true(value(found.sums, 5) == 6.0f);
    assert_true(rf_importance_count(&found, 0) == 7 && rf_importance_count(&found, 2) == 7);
    assert_int_equal(rf_imatrix_find(im, RF_STR("a.weight"), 2, 2, &found, &e), RF_EFORMAT);
    rf_imatrix_close(im);
    write_gguf(path, "imatrix", 3, 1); /* one count, but the rows of three */
    assert_int_equal(rf_imatrix_open(&im, path, &e), RF_OK);
    assert_int_equal(rf_imatrix_find(im, RF_STR("a.weight"), 2, 3, &found, &(rf_error){0}),
                     RF_EFORMAT);
    rf_imatrix_close(im);
}

static void no_memory(void **state) {
    (void)state;
    bytes b = two_records();
    for (long n = 1;; n++) {
        rf_error e = {0};
        rf_imatrix *im;
        rf_alloc_fail_nth(n);
        rf_status s = rf_imatrix_open_memory(&im, b.p, b.n, &e);
        rf_alloc_fail_nth(0);
        rf_imatrix_close(im);
        if (s == RF_OK) break;
        assert_int_equal(s, RF_ENOMEM);
        assert_true(n < 50);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records),           cmocka_unit_test(cut_and_changed_records),
        cmocka_unit_test(a_weight_twice),    cmocka_unit_test(gguf),
        cmocka_unit_test(one_count_for_all), cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
