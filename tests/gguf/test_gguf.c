/* test_gguf.c - what a good file gives: versions, every type, lookups, typed access, tensors, and
 * running out of memory at every point.  Malformed files are the business of test_bad.c. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "bytes.h"
#include "gguf/gguf.h"
#include "lib/testlib.h"

/* Two F32 tensors (the second listed first: other order than the data) and a Q8_0 one. */
static void build_normal(rf_buf *b, uint32_t version) {
    put_header(b, version, 3, 5);
    put_key_str(b, "general.architecture", "llama");
    put_key(b, "llama.block_count", RF_GGUF_U32, 7, 4);
    put_key(b, "llama.rope.freq_base", RF_GGUF_F32, 0x461c4000, 4); /* 10000 */
    put_key_array(b, "tokenizer.ggml.tokens", RF_GGUF_STRING, 3);
    put_str(b, "a");
    put_str(b, "");
    put_str(b, "\xc3\xa9t\xc3\xa9");
    put_key(b, "tokenizer.ggml.add_bos_token", RF_GGUF_BOOL, 1, 1);
    put_tensor(b, "second", 4, 0, 32);
    put_tensor(b, "first", 8, 0, 0);
    put_tensor(b, "third", 64, 8, 96); /* behind a gap of 48 bytes */
    pad_to(b, 32);
    put_data(b, 96 + 68);
}

/* req: C-14 */
static void test_normal(void **state) {
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        rf_buf b = {0};
        rf_guarded guard;
        rf_gguf *g;
        rf_error e = {0};
        build_normal(&b, version);
        assert_int_equal(open_bytes(&g, &b, &guard, &e), RF_OK);
        assert_int_equal(rf_gguf_version(g), version);
        assert_int_equal(rf_gguf_alignment(g), 32);
        assert_int_equal(rf_gguf_n_splits(g), 1);
        assert_int_equal(rf_gguf_file_bytes(g), b.len);
        assert_string_equal(rf_gguf_path(g), "(memory)");
        assert_int_equal(rf_gguf_n_kv(g), 5);
        assert_true(rf_str_is(rf_gguf_kv_at(g, 0)->key, "general.architecture"));
        assert_int_equal(rf_gguf_kv_at(g, 0)->offset, 24);
        assert_int_equal(rf_gguf_n_tensors(g), 3);
        size_t start = b.len - 96 - 68;
        const rf_gguf_tensor *t = rf_gguf_tensor_at(g, 0);
        assert_true(rf_str_is(t->name, "second"));
        assert_int_equal(t->type, RF_DT_F32);
        assert_int_equal(t->n_dims, 1);
        assert_int_equal(t->ne[0], 4);
        assert_int_equal(t->ne[3], 1);
        assert_int_equal(t->n_bytes, 16);
        assert_int_equal(t->offset, start + 32);
        assert_ptr_equal(t->data, guard.p + start + 32);
        t = rf_gguf_find_tensor(g, "third");
        assert_ptr_equal(t, rf_gguf_tensor_at(g, 2));
        assert_int_equal(t->type, RF_DT_Q8_0);
        assert_int_equal(t->n_bytes, 68);
        assert_ptr_equal(t->data + t->n_bytes, guard.p + guard.n);
        assert_null(rf_gguf_find_tensor(g, "fourth"));
        assert_null(rf_gguf_find(g, "general.architectur"));
        rf_gguf_close(g);
        rf_guard_free(&guard);
        rf_buf_free(&b);
    }
    rf_gguf_close(NULL);
}

typedef struct numbers {
    rf_buf b;
    rf_guarded guard;
    rf_gguf *g;
} numbers;

static uint64_t bits_of(double d) {
    uint64_t u;
    memcpy(&u, &d, sizeof u);
    return u;
}

static int open_numbers(void **state) {
    static numbers n;
    n = (numbers){0};
    rf_error e = {0};
    rf_buf *b = &n.b;
    put_header(b, 3, 0, 17);
    put_key(b, "u8", RF_GGUF_U8, 0xff, 1);
    put_key(b, "i8", RF_GGUF_I8, 0x80, 1);
    put_key(b, "u16", RF_GGUF_U16, 0xffff, 2);
    put_key(b, "i16", RF_GGUF_I16, 0x8000, 2);
    put_key(b, "u32", RF_GGUF_U32, 0xffffffff, 4);
    put_key(b, "i32", RF_GGUF_I32, 0x80000000, 4);
    put_key(b, "u64", RF_GGUF_U64, UINT64_MAX, 8);
    put_key(b, "i64", RF_GGUF_I64, (uint64_t)INT64_MIN, 8);
    put_key(b, "i64 5e9", RF_GGUF_I64, 5000000000, 8);
    put_key(b, "f32", RF_GGUF_F32, 0x3fc00000, 4); /* 1.5 */
    put_key(b, "f64", RF_GGUF_F64, bits_of(-0.1), 8);
    put_key(b, "f64 huge", RF_GGUF_F64, bits_of(1e300), 8);
    put_key(b, "bool", RF_GGUF_BOOL, 1, 1);
    put_key_str(b, "str", "text");
    put_key_array(b, "i16s", RF_GGUF_I16, 2);
    put_le(b, 0x7fff8001, 4);
    put_key_array(b, "strs", RF_GGUF_STRING, 2);
    put_str(b, "one");
    put_str(b, "");
    put_key_array(b, "none", RF_GGUF_F64, 0);
    if (open_bytes(&n.g, b, &n.guard, &e) != RF_OK) fail_msg("%s", e.text);
    *state = &n;
    return 0;
}

static int close_numbers(void **state) {
    numbers *n = *state;
    rf_gguf_close(n->g);
    rf_guard_free(&n->guard);
    rf_buf_free(&n->b);
    return 0;
}

static void test_elements(void **state) {
    const rf_gguf *g = ((numbers *)*state)->g;
    static const struct {
        const char *key;
        uint64_t u;
        double d;
    } integers[] = {
        {"u8", 255, 255},
        {"i8", (uint64_t)-128, -128},
        {"u16", 65535, 65535},
        {"i16", (uint64_t)-32768, -32768},
        {"u32", UINT32_MAX, 4294967295.0},
        {"i32", (uint64_t)INT32_MIN, -2147483648.0},
        {"u64", UINT64_MAX, 18446744073709551616.0},
        {"i64", (uint64_t)INT64_MIN, -9223372036854775808.0},
        {"i64 5e9", 5000000000, 5e9},
        {"bool", 1, 1},
    };
    for (size_t i = 0; i < RF_COUNT(integers); i++) {
        const rf_gguf_kv *kv = rf_gguf_find(g, integers[i].key);
        assert_non_null(kv);
        assert_int_equal(kv->n, 1);
        assert_int_equal(rf_gguf_elem_u64(kv, 0), integers[i].u);
        assert_true(rf_gguf_elem_f64(kv, 0) == integers[i].d);
    }
    assert_true(rf_gguf_elem_f64(rf_gguf_find(g, "f32"), 0) == 1.5);
    assert_true(rf_gguf_elem_f64(rf_gguf_find(g, "f64"), 0) == -0.1);
    const rf_gguf_kv *kv;
    rf_error e = {0};
    assert_int_equal(rf_gguf_get_array(g, "i16s", RF_GGUF_I16, &kv, &e), RF_OK);
    assert_int_equal(kv->n, 2);
    assert_int_equal((int64_t)rf_gguf_elem_u64(kv, 0), -32767);
    assert_int_equal(rf_gguf_elem_u64(kv, 1), 32767);
    assert_int_equal(rf_gguf_get_array(g, "none", RF_GGUF_F64, &kv, &e), RF_OK);
    assert_int_equal(kv->n, 0);
    assert_int_equal(rf_gguf_get_array(g, "strs", RF_GGUF_STRING, &kv, &e), RF_OK);
    const uint8_t *cursor = kv->data;
    assert_true(rf_str_is(rf_gguf_next_str(&cursor), "one"));
    assert_true(rf_str_is(rf_gguf_next_str(&cursor), ""));
    assert_int_equal(rf_gguf_get_array(g, "absent", RF_GGUF_U8, &kv, &e), RF_OK);
    assert_null(kv);
}

static void test_getters(void **state) {
    const rf_gguf *g = ((numbers *)*state)->g;
    rf_error e = {0};
    uint32_t u32 = 42;
    uint64_t u64 = 43;
    float f = 2;
    bool b = true, found = true;
    rf_str s = RF_STR("unchanged");
    assert_int_equal(rf_gguf_get_u32(g, "absent", &u32, &found, &e), RF_OK);
    assert_false(found);
    assert_int_equal(rf_gguf_get_u64(g, "absent", &u64, NULL, &e), RF_OK);
    assert_int_equal(rf_gguf_get_f32(g, "absent", &f, NULL, &e), RF_OK);
    assert_int_equal(rf_gguf_get_bool(g, "absent", &b, NULL, &e), RF_OK);
    assert_int_equal(rf_gguf_get_str(g, "absent", &s, NULL, &e), RF_OK);
    assert_true(u32 == 42 && u64 == 43 && f == 2 && b && rf_str_is(s, "unchanged"));
    assert_int_equal(rf_gguf_get_u32(g, "u8", &u32, &found, &e), RF_OK);
    assert_true(found);
    assert_int_equal(u32, 255);
    assert_int_equal(rf_gguf_get_u32(g, "u32", &u32, &found, &e), RF_OK);
    assert_int_equal(u32, UINT32_MAX);
    assert_int_equal(rf_gguf_get_u64(g, "i64 5e9", &u64, &found, &e), RF_OK);
    assert_int_equal(u64, 5000000000);
    assert_int_equal(rf_gguf_get_u64(g, "u64", &u64, &found, &e), RF_OK);
    assert_int_equal(u64, UINT64_MAX);
    assert_int_equal(rf_gguf_get_f32(g, "f64", &f, &found, &e), RF_OK);
    assert_true(f == -0.1f);
    assert_int_equal(rf_gguf_get_bool(g, "bool", &b, &found, &e), RF_OK);
    assert_true(b && found);
    assert_int_equal(rf_gguf_get_str(g, "str", &s, &found, &e), RF_OK);
    assert_true(rf_str_is(s, "text"));
    assert_int_equal(e.status, RF_OK);
}

/* The failure of one getter names the key, what was expected, what was found, and where. */
static void expect_refusal(rf_status s, const rf_error *e, const char *key, const char *want,
                           const char *got) {
    char quoted[40];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    assert_int_equal(s, RF_EFORMAT);
    assert_contains(e->text, "(memory): offset ");
    assert_contains(e->text, quoted);
    assert_contains(e->text, want);
    assert_contains(e->text, got);
}

static void test_getters_refuse(void **state) {
    const rf_gguf *g = ((numbers *)*state)->g;
    uint32_t u32 = 1;
    uint64_t u64 = 2;
    float f = 3;
    bool b = false;
    rf_str str = {0};
    const rf_gguf_kv *kv;
    rf_error e = {0};
#define REFUSES(call, key, want, got)             \
    do {                                          \
        e = (rf_error){0};                        \
        expect_refusal(call, &e, key, want, got); \
    } while (0)
    REFUSES(rf_gguf_get_u32(g, "i64 5e9", &u32, NULL, &e), "i64 5e9", "4294967295", "5000000000");
    REFUSES(rf_gguf_get_u32(g, "i8", &u32, NULL, &e), "i8", "0 or more", "-128");
    REFUSES(rf_gguf_get_u64(g, "i64", &u64, NULL, &e), "i64", "0 or more", "-9223372036854775808");
    REFUSES(rf_gguf_get_u32(g, "f32", &u32, NULL, &e), "f32", "an integer", "got f32");
    REFUSES(rf_gguf_get_u32(g, "bool", &u32, NULL, &e), "bool", "an integer", "got bool");
    REFUSES(rf_gguf_get_u64(g, "i16s", &u64, NULL, &e), "i16s", "an integer", "array of i16");
    REFUSES(rf_gguf_get_f32(g, "u32", &f, NULL, &e), "u32", "f32 or f64", "got u32");
    REFUSES(rf_gguf_get_f32(g, "f64 huge", &f, NULL, &e), "f64 huge", "fits f32", "1e+300");
    REFUSES(rf_gguf_get_bool(g, "u8", &b, NULL, &e), "u8", "bool", "got u8");
    REFUSES(rf_gguf_get_str(g, "strs", &str, NULL, &e), "strs", "string", "array of string");
    REFUSES(rf_gguf_get_array(g, "strs", RF_GGUF_I32, &kv, &e), "strs", "array of i32",
            "array of string");
    assert_null(kv);
    REFUSES(rf_gguf_get_array(g, "str", RF_GGUF_STRING, &kv, &e), "str", "array of string",
            "got string");
#undef REFUSES
    assert_true(u32 == 1 && u64 == 2 && f == 3 && !b && !str.p); /* nothing was changed */
}

static void test_type_names(void **state) {
    (void)state;
    assert_string_equal(rf_gguf_type_name(RF_GGUF_U8), "u8");
    assert_string_equal(rf_gguf_type_name(RF_GGUF_STRING), "string");
    assert_string_equal(rf_gguf_type_name(RF_GGUF_F64), "f64");
    assert_string_equal(rf_gguf_type_name((rf_gguf_type)13), "unknown");
}

/* Tensors without bytes: no dimension product, no data, any place. */
static void test_empty_tensors(void **state) {
    (void)state;
    rf_buf b = {0};
    rf_guarded guard;
    rf_gguf *g;
    rf_error e = {0};
    put_header(&b, 3, 3, 0);
    put_tensor(&b, "none", 0, 0, 0);
    put_tensor(&b, "one", 1, 0, 0);
    put_str(&b, "scalar"); /* no dimensions: one element */
    put_le(&b, 0, 4);
    put_le(&b, 0, 4);
    put_le(&b, 32, 8);
    pad_to(&b, 32);
    put_data(&b, 36);
    assert_int_equal(open_bytes(&g, &b, &guard, &e), RF_OK);
    assert_null(rf_gguf_find_tensor(g, "none")->data);
    assert_int_equal(rf_gguf_find_tensor(g, "none")->n_bytes, 0);
    const rf_gguf_tensor *t = rf_gguf_find_tensor(g, "scalar");
    assert_int_equal(t->n_dims, 0);
    assert_int_equal(t->ne[0], 1);
    assert_int_equal(t->n_bytes, 4);
    assert_ptr_equal(t->data, guard.p + guard.n - 4);
    rf_gguf_close(g);
    rf_guard_free(&guard);
    rf_buf_free(&b);
}

/* Growing the directory: more keys and tensors than any first allocation, all found again. */
static void test_many(void **state) {
    (void)state;
    enum { N = 5000 };
    rf_buf b = {0};
    rf_guarded guard;
    rf_gguf *g;
    rf_error e = {0};
    char name[32];
    put_header(&b, 3, N, N);
    for (unsigned i = 0; i < N; i++) {
        snprintf(name, sizeof name, "key.%u", i);
        put_key(&b, name, RF_GGUF_U32, i * i, 4);
    }
    for (unsigned i = 0; i < N; i++) { /* listed backwards */
        snprintf(name, sizeof name, "blk.%u.weight", i);
        put_tensor(&b, name, 8, 0, (N - 1 - i) * 32);
    }
    pad_to(&b, 32);
    put_data(&b, N * 32);
    assert_int_equal(open_bytes(&g, &b, &guard, &e), RF_OK);
    for (unsigned i = 0; i < N; i++) {
        uint32_t v = 0;
        snprintf(name, sizeof name, "key.%u", i);
        assert_int_equal(rf_gguf_get_u32(g, name, &v, NULL, &e), RF_OK);
        assert_int_equal(v, i * i);
        snprintf(name, sizeof name, "blk.%u.weight", i);
        assert_ptr_equal(rf_gguf_find_tensor(g, name), rf_gguf_tensor_at(g, i));
        assert_ptr_equal(rf_gguf_tensor_at(g, i)->data, guard.p + guard.n - 32 * (i + 1));
    }
    rf_gguf_close(g);
    rf_guard_free(&guard);
    rf_buf_free(&b);
}

static void test_from_disk(void **state) {
    (void)state;
    rf_buf b = {0};
    rf_gguf *g;
    rf_error e = {0};
    build_normal(&b, 3);
    const char *path = rf_test_tmp("normal.gguf");
    write_bytes(path, &b);
    assert_int_equal(rf_gguf_open(&g, path, &e), RF_OK);
    assert_string_equal(rf_gguf_path(g), path);
    assert_int_equal(rf_gguf_file_bytes(g), b.len);
    const rf_gguf_tensor *t = rf_gguf_find_tensor(g, "first");
    assert_memory_equal(t->data, b.p + t->offset, t->n_bytes);
    rf_gguf_close(g);
    path = rf_test_tmp("absent.gguf");
    assert_int_equal(rf_gguf_open(&g, path, &e), RF_EIO);
    assert_contains(e.text, path);
    rf_buf_free(&b);
}

/* Every allocation on the way fails once: a clean error each time, and no leak (the address
 * sanitizer counts).  req: C-18 */
static void test_out_of_memory(void **state) {
    (void)state;
    rf_buf b = {0};
    rf_gguf *g = NULL;
    build_normal(&b, 3);
    const char *path = rf_test_tmp("memory.gguf");
    write_bytes(path, &b);
    rf_status s = RF_ENOMEM;
    long n = 0;
    while (s == RF_ENOMEM) {
        rf_error e = {0};
        rf_alloc_fail_nth(++n);
        s = rf_gguf_open(&g, path, &e);
        rf_alloc_fail_nth(0);
        assert_int_equal(e.status, s);
        if (s != RF_OK) assert_true(e.text[0] != 0);
        assert_true(n < 100);
    }
    assert_int_equal(s, RF_OK);
    assert_true(n > 5);
    rf_gguf_close(g);
    rf_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normal),
        cmocka_unit_test_setup_teardown(test_elements, open_numbers, close_numbers),
        cmocka_unit_test_setup_teardown(test_getters, open_numbers, close_numbers),
        cmocka_unit_test_setup_teardown(test_getters_refuse, open_numbers, close_numbers),
        cmocka_unit_test(test_type_names),
        cmocka_unit_test(test_empty_tensors),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_from_disk),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
