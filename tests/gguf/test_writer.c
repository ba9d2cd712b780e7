/* test_writer.c - the reader reads back what the writer wrote; wrong use is refused, and leaves no
 * half of a file. */
#include <stdio.h>
#include <unistd.h>

#include "bytes.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "lib/testlib.h"

#define OK(call)                                                \
    do {                                                        \
        if ((call) != RF_OK) fail_msg("%s: %s", #call, e.text); \
    } while (0)

static const uint64_t ne_2x3[] = {2, 3}, ne_empty[] = {4, 0}, ne_q8[] = {64, 2, 1, 1};
static const int16_t shorts[] = {-1, 2, 32767};
static const uint8_t bools[] = {1, 0, 1};

static void put_keys(rf_gguf_writer *w) {
    rf_error e = {0};
    const rf_str strings[] = {RF_STR("one"), RF_STR(""), {"a\0b", 3}};
    OK(rf_gguf_put_str(w, "general.architecture", RF_STR("llama"), &e));
    OK(rf_gguf_put_u32(w, "u32", UINT32_MAX, &e));
    OK(rf_gguf_put_f32(w, "f32", -0.5f, &e));
    OK(rf_gguf_put_bool(w, "bool", true, &e));
    OK(rf_gguf_put_str_array(w, "strings", strings, 3, &e));
    OK(rf_gguf_put_str_array(w, "no strings", NULL, 0, &e));
    OK(rf_gguf_put_array(w, "shorts", RF_GGUF_I16, shorts, 3, &e));
    OK(rf_gguf_put_array(w, "bools", RF_GGUF_BOOL, bools, 3, &e));
    OK(rf_gguf_put_array(w, "nothing", RF_GGUF_F64, NULL, 0, &e));
}

/* [3][2] f32, an empty one, two rows of Q8_0, a scalar. */
static void declare_all(rf_gguf_writer *w) {
    rf_error e = {0};
    OK(rf_gguf_declare(w, RF_STR("floats"), RF_DT_F32, 2, ne_2x3, &e));
    OK(rf_gguf_declare(w, RF_STR("empty"), RF_DT_F32, 2, ne_empty, &e));
    OK(rf_gguf_declare(w, RF_STR("q8"), RF_DT_Q8_0, 4, ne_q8, &e));
    OK(rf_gguf_declare(w, RF_STR("scalar"), RF_DT_I8, 0, NULL, &e));
}

static void check_keys(const rf_gguf *g) {
    rf_error e = {0};
    uint32_t u = 0;
    float f = 0;
    bool b = false;
    rf_str s = {0};
    const rf_gguf_kv *kv;
    OK(rf_gguf_get_str(g, "general.architecture", &s, NULL, &e));
    assert_true(rf_str_is(s, "llama"));
    OK(rf_gguf_get_u32(g, "u32", &u, NULL, &e));
    assert_int_equal(u, UINT32_MAX);
    OK(rf_gguf_get_f32(g, "f32", &f, NULL, &e));
    assert_true(f == -0.5f);
    OK(rf_gguf_get_bool(g, "bool", &b, NULL, &e));
    assert_true(b);
    OK(rf_gguf_get_array(g, "strings", RF_GGUF_STRING, &kv, &e));
    const uint8_t *cursor = kv->data;
    assert_int_equal(kv->n, 3);
    assert_true(rf_str_is(rf_gguf_next_str(&cursor), "one"));
    assert_true(rf_str_is(rf_gguf_next_str(&cursor), ""));
    assert_true(rf_str_eq(rf_gguf_next_str(&cursor), (rf_str){"a\0b", 3}));
    OK(rf_gguf_get_array(g, "no strings", RF_GGUF_STRING, &kv, &e));
    assert_int_equal(kv->n, 0);
    OK(rf_gguf_get_array(g, "shorts", RF_GGUF_I16, &kv, &e));
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal((int64_t)rf_gguf_elem_u64(kv, i), shorts[i]);
    }
    OK(rf_gguf_get_array(g, "bools", RF_GGUF_BOOL, &kv, &e));
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(rf_gguf_elem_u64(kv, i), bools[i]);
    OK(rf_gguf_get_array(g, "nothing", RF_GGUF_F64, &kv, &e));
    assert_int_equal(kv->n, 0);
}

static void check_tensor(const rf_gguf *g, const char *name, rf_dtype type, uint32_t n_dims,
                         const uint64_t *ne, const uint8_t *data, size_t n_bytes) {
    const rf_gguf_tensor *t = rf_gguf_find_tensor(g, name);
    assert_non_null(t);
    assert_int_equal(t->type, type);
    assert_int_equal(t->n_dims, n_dims);
    for (uint32_t i = 0; i < RF_GGUF_MAX_DIMS; i++) {
        assert_int_equal(t->ne[i], i < n_dims ? ne[i] : 1);
    }
    assert_int_equal(t->n_bytes, n_bytes);
    assert_int_equal(t->offset % rf_gguf_alignment(g), 0);
    if (n_bytes) assert_memory_equal(t->data, data, n_bytes);
}

static void test_round_trip(void **state) {
    (void)state;
    static const uint32_t alignments[] = {32, 1, 8, 4096, 16384};
    uint8_t data[136];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 11 + 1);
    for (size_t i = 0; i < RF_COUNT(alignments); i++) {
        rf_gguf_writer *w;
        rf_gguf *g;
        rf_error e = {0};
        const char *path = rf_test_tmp("round.gguf");
        OK(rf_gguf_writer_open(&w, path, alignments[i], &e));
        put_keys(w);
        declare_all(w);
        OK(rf_gguf_writer_data(w, data, 24, &e));
        OK(rf_gguf_writer_data(w, NULL, 0, &e));   /* the empty one */
        OK(rf_gguf_writer_data(w, data, 100, &e)); /* in two pieces */
        OK(rf_gguf_writer_data(w, data + 100, 36, &e));
        OK(rf_gguf_writer_data(w, data + 5, 1, &e));
        OK(rf_gguf_writer_finish(w, &e));
        OK(rf_gguf_open(&g, path, &e));
        assert_int_equal(rf_gguf_version(g), 3);
        assert_int_equal(rf_gguf_alignment(g), alignments[i]);
        assert_int_equal(rf_gguf_n_kv(g), alignments[i] == 32 ? 9 : 10);
        assert_int_equal(rf_gguf_n_tensors(g), 4);
        assert_int_equal(rf_gguf_file_bytes(g) % alignments[i], 0); /* padded to the end */
        check_keys(g);
        check_tensor(g, "floats", RF_DT_F32, 2, ne_2x3, data, 24);
        check_tensor(g, "empty", RF_DT_F32, 2, ne_empty, NULL, 0);
        check_tensor(g, "q8", RF_DT_Q8_0, 4, ne_q8, data, 136);
        check_tensor(g, "scalar", RF_DT_I8, 0, NULL, data + 5, 1);
        rf_gguf_close(g);
    }
}

/* A file without tensors, and one without anything. */
static void test_small_files(void **state) {
    (void)state;
    rf_gguf_writer *w;
    rf_gguf *g;
    rf_error e = {0};
    const char *path = rf_test_tmp("small.gguf");
    OK(rf_gguf_writer_open(&w, path, 32, &e));
    OK(rf_gguf_put_u32(w, "k", 1, &e));
    OK(rf_gguf_writer_finish(w, &e));
    OK(rf_gguf_open(&g, path, &e));
    assert_int_equal(rf_gguf_n_kv(g), 1);
    rf_gguf_close(g);
    OK(rf_gguf_writer_open(&w, path, 32, &e)); /* replaces the file when finished */
    OK(rf_gguf_writer_finish(w, &e));
    OK(rf_gguf_open(&g, path, &e));
    assert_int_equal(rf_gguf_n_kv(g), 0);
    assert_int_equal(rf_gguf_n_tensors(g), 0);
    rf_gguf_close(g);
}

/* Every key of a file copied through put_kv gives the same values, the alignment included. */
static void test_copy(void **state) {
    (void)state;
    rf_buf b = {0};
    put_header(&b, 2, 0, 7);
    put_key(&b, "general.alignment", RF_GGUF_U32, 64, 4);
    put_key(&b, "i8", RF_GGUF_I8, 0xfe, 1);
    put_key(&b, "u64", RF_GGUF_U64, UINT64_MAX - 1, 8);
    put_key_str(&b, "str", "text");
    put_key_array(&b, "strs", RF_GGUF_STRING, 2);
    put_str(&b, "x");
    put_str(&b, "yz");
    put_key_array(&b, "f64s", RF_GGUF_F64, 1);
    put_le(&b, 0x3ff8000000000000, 8);
    put_key_array(&b, "none", RF_GGUF_U8, 0);
    rf_guarded guard;
    rf_gguf *in, *out;
    rf_gguf_writer *w;
    rf_error e = {0};
    OK(open_bytes(&in, &b, &guard, &e));
    const char *path = rf_test_tmp("copy.gguf");
    OK(rf_gguf_writer_open(&w, path, rf_gguf_alignment(in), &e));
    for (size_t i = 0; i < rf_gguf_n_kv(in); i++)
        OK(rf_gguf_put_kv(w, rf_gguf_kv_at(in, i), &e));
    OK(rf_gguf_writer_finish(w, &e));
    OK(rf_gguf_open(&out, path, &e));
    assert_int_equal(rf_gguf_alignment(out), 64);
    assert_int_equal(rf_gguf_n_kv(out), 7);
    for (size_t i = 0; i < 7; i++) {
        const rf_gguf_kv *x = rf_gguf_kv_at(in, i), *y = rf_gguf_kv_at(out, i);
        assert_true(rf_str_eq(x->key, y->key));
        assert_int_equal(x->type, y->type);
        assert_int_equal(x->elem_type, y->elem_type);
        assert_int_equal(x->n, y->n);
        size_t bytes = i + 1 < 7 ? (size_t)(rf_gguf_kv_at(in, i + 1)->offset - x->offset) : 0;
        if (bytes) assert_memory_equal(x->key.p - 8, y->key.p - 8, bytes); /* the whole entry */
    }
    rf_gguf_close(out);
    rf_gguf_close(in);
    rf_guard_free(&guard);
    rf_buf_free(&b);
}

#define REFUSED(call, ...)                                 \
    do {                                                   \
        static const char *const parts_[] = {__VA_ARGS__}; \
        e = (rf_error){0};                                 \
        assert_int_equal(call, RF_EARG);                   \
        for (size_t k_ = 0; k_ < RF_COUNT(parts_); k_++)   \
            assert_contains(e.text, parts_[k_]);           \
    } while (0)

static void test_refuses_metadata(void **state) {
    (void)state;
    rf_gguf_writer *w;
    rf_error e = {0};
    const char *path = rf_test_tmp("refuses.gguf");
    static const uint64_t ne[] = {33, 2, 1, 1, 1}, huge[] = {(uint64_t)1 << 62, 2};
    static const uint8_t not_bools[] = {1, 2};
    REFUSED(rf_gguf_writer_open(&w, path, 48, &e), "refuses.gguf", "power of two", "48");
    REFUSED(rf_gguf_writer_open(&w, path, 0, &e), "power of two");
    OK(rf_gguf_writer_open(&w, path, 64, &e));
    OK(rf_gguf_put_u32(w, "k", 1, &e));
    REFUSED(rf_gguf_put_bool(w, "k", true, &e), "key 'k'", "once");
    REFUSED(rf_gguf_put_u32(w, "", 1, &e), "1 to 65535");
    REFUSED(rf_gguf_put_u32(w, "general.alignment", 32, &e), "general.alignment", "64");
    REFUSED(rf_gguf_put_str(w, "general.alignment", RF_STR("64"), &e), "general.alignment");
    OK(rf_gguf_put_u32(w, "general.alignment", 64, &e));
    REFUSED(rf_gguf_put_array(w, "a", RF_GGUF_STRING, not_bools, 1, &e), "key 'a'", "string");
    REFUSED(rf_gguf_put_array(w, "a", RF_GGUF_BOOL, not_bools, 2, &e), "key 'a'", "0 and 1");
    REFUSED(rf_gguf_declare(w, RF_STR("t"), RF_DT_Q8_0, 2, ne, &e), "'t'", "multiple of 32", "33");
    REFUSED(rf_gguf_declare(w, RF_STR("u"), RF_DT_F32, 5, ne, &e), "'u'", "at most 4", "got 5");
    REFUSED(rf_gguf_declare(w, RF_STR("v"), RF_DT_I8, 2, huge, &e), "'v'", "2^63");
    REFUSED(rf_gguf_declare(w, (rf_str){"n\0", 2}, RF_DT_I8, 0, NULL, &e), "without NUL");
    OK(rf_gguf_declare(w, RF_STR("x"), RF_DT_I8, 0, NULL, &e));
    REFUSED(rf_gguf_declare(w, RF_STR("x"), RF_DT_I8, 0, NULL, &e), "tensor 'x'", "once");
    rf_gguf_writer_abort(w);
    rf_gguf_writer_abort(NULL);
    assert_int_not_equal(access(path, F_OK), 0); /* nothing appeared */
}

static void test_refuses_data(void **state) {
    (void)state;
    rf_gguf_writer *w;
    rf_error e = {0};
    uint8_t data[200] = {0};
    const char *path = rf_test_tmp("data.gguf");
    OK(rf_gguf_writer_open(&w, path, 32, &e));
    declare_all(w);
    REFUSED(rf_gguf_writer_data(w, data, 25, &e), "'floats'", "at most 24", "got 25");
    OK(rf_gguf_writer_data(w, data, 20, &e));
    REFUSED(rf_gguf_writer_data(w, data, 5, &e), "'floats'", "at most 4", "got 5");
    REFUSED(rf_gguf_put_u32(w, "late", 1, &e), "key 'late'", "already written");
    REFUSED(rf_gguf_declare(w, RF_STR("late"), RF_DT_I8, 0, NULL, &e), "tensor 'late'");
    OK(rf_gguf_writer_data(w, data, 4, &e));
    OK(rf_gguf_writer_data(w, data, 100, &e));
    REFUSED(rf_gguf_writer_finish(w, &e), "'q8'", "136 bytes", "got 100");
    assert_int_not_equal(access(path, F_OK), 0);
    OK(rf_gguf_writer_open(&w, path, 32, &(rf_error){0}));
    REFUSED(rf_gguf_writer_data(w, data, 1, &e), "no data", "0 declared");
    rf_gguf_writer_abort(w);
}

static rf_status write_one(const char *path, rf_error *e) {
    rf_gguf_writer *w;
    uint8_t data[8] = {1};
    const uint64_t ne[] = {8};
    RF_TRY(rf_gguf_writer_open(&w, path, 64, e));
    rf_status s = rf_gguf_put_str(w, "key", RF_STR("value"), e);
    if (s == RF_OK) s = rf_gguf_declare(w, RF_STR("t"), RF_DT_I8, 1, ne, e);
    if (s == RF_OK) s = rf_gguf_writer_data(w, data, sizeof data, e);
    if (s == RF_OK) return rf_gguf_writer_finish(w, e);
    rf_gguf_writer_abort(w);
    return s;
}

/* req: C-18 */
static void test_out_of_memory(void **state) {
    (void)state;
    const char *path = rf_test_tmp("oom.gguf");
    rf_status s = RF_ENOMEM;
    long n = 0;
    while (s == RF_ENOMEM) {
        rf_error e = {0};
        rf_alloc_fail_nth(++n);
        s = write_one(path, &e);
        rf_alloc_fail_nth(0);
        assert_int_equal(e.status, s);
        assert_true((access(path, F_OK) == 0) == (s == RF_OK));
        assert_true(n < 100);
    }
    assert_int_equal(s, RF_OK);
    assert_true(n > 5);
}

static void test_unwritable(void **state) {
    (void)state;
    rf_error e = {0};
    const char *path = rf_test_tmp("no/such/folder.gguf");
    assert_int_equal(write_one(path, &e), RF_EIO);
    assert_contains(e.text, path);
}

/* Four tensors dealt out by number and by size; no file has its name before all are complete. */
static void write_split(uint64_t max_bytes, uint64_t max_tensors, uint32_t want_parts,
                        const char *first) {
    rf_error e = {0};
    rf_gguf_writer *w;
    rf_gguf *g;
    uint32_t n_parts = 0;
    const uint8_t data[136] = {9, 8, 7};
    OK(rf_gguf_writer_open(&w, rf_test_tmp("split.gguf"), 64, &e));
    rf_gguf_writer_split(w, max_bytes, max_tensors);
    put_keys(w);
    declare_all(w);
    OK(rf_gguf_writer_data(w, data, 24, &e));
    OK(rf_gguf_writer_data(w, data, 100, &e));
    OK(rf_gguf_writer_data(w, data + 100, 36, &e));
    assert_true(access(first, F_OK) != 0);
    OK(rf_gguf_writer_data(w, data, 1, &e));
    OK(rf_gguf_writer_finish_parts(w, &n_parts, &e));
    assert_int_equal(n_parts, want_parts);
    OK(rf_gguf_open(&g, first, &e));
    assert_int_equal(rf_gguf_n_splits(g), want_parts);
    assert_int_equal(rf_gguf_n_tensors(g), 4);
    assert_int_equal(rf_gguf_alignment(g), 64);
    check_keys(g);
    assert_memory_equal(rf_gguf_find_tensor(g, "q8")->data, data, 136);
    assert_memory_equal(rf_gguf_find_tensor(g, "floats")->data, data, 24);
    rf_gguf_close(g);
    assert_int_equal(unlink(first), 0);
}

static void test_split(void **state) {
    (void)state;
    char part[512];
    snprintf(part, sizeof part, "%s", rf_test_tmp("split-00001-of-00004.gguf"));
    write_split(0, 1, 4, part);
    write_split(1, 0, 4, part);
    snprintf(part, sizeof part, "%s", rf_test_tmp("split-00001-of-00002.gguf"));
    write_split(0, 2, 2, part);
    write_split(0, 3, 2, part);
    snprintf(part, sizeof part, "%s", rf_test_tmp("split.gguf"));
    write_split(1 << 20, 9, 1, part);
}

/* Whatever allocation fails: no part is left behind. */
static void test_split_out_of_memory(void **state) {
    (void)state;
    char part[512];
    rf_status s = RF_ENOMEM;
    snprintf(part, sizeof part, "%s", rf_test_tmp("short-00001-of-00002.gguf"));
    for (long n = 1; s != RF_OK; n++) {
        rf_error e = {0};
        rf_gguf_writer *w;
        const float x = 1;
        rf_alloc_fail_nth(n);
        s = rf_gguf_writer_open(&w, rf_test_tmp("short.gguf"), 32, &e);
        if (s == RF_OK) {
            rf_gguf_writer_split(w, 0, 1);
            s = rf_gguf_declare(w, RF_STR("a"), RF_DT_F32, 0, NULL, &e);
            if (s == RF_OK) s = rf_gguf_declare(w, RF_STR("b"), RF_DT_F32, 0, NULL, &e);
            if (s == RF_OK) s = rf_gguf_writer_data(w, &x, sizeof x, &e);
            if (s == RF_OK) s = rf_gguf_writer_data(w, &x, sizeof x, &e);
            if (s == RF_OK)
                s = rf_gguf_writer_finish(w, &e);
            else
                rf_gguf_writer_abort(w);
        }
        rf_alloc_fail_nth(0);
        assert_true(s == RF_OK || s == RF_ENOMEM);
        assert_true((access(part, F_OK) == 0) == (s == RF_OK));
        assert_true(n < 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_small_files),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_refuses_metadata),
        cmocka_unit_test(test_refuses_data),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_unwritable),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_split_out_of_memory),
    };
    return cmocka_run_group_tests_name("gguf writer", tests, NULL, NULL);
}
