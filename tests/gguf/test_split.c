/* test_split.c - models in several files: any part opens all; missing, mixed-up and contradicting
 * parts are refused by name. */
#include <stdio.h>

#include "bytes.h"
#include "gguf/gguf.h"
#include "gguf/internal.h"
#include "lib/testlib.h"

/* What a part says of itself; the tests break one thing at a time. */
typedef struct part_spec {
    uint64_t no, count, n_tensors;
    const char *tensor, *arch;
    uint32_t alignment; /* 0: no key */
} part_spec;

static const part_spec good[3] = {
    {0, 3, 3, "t0", "llama", 0},
    {1, 3, 3, "t1", "llama", 64},
    {2, 3, 3, "t2", NULL, 0},
};

static void write_part(const char *path, const part_spec *s) {
    rf_buf b = {0};
    uint64_t n_kv = 3;
    n_kv += (s->arch ? 1u : 0u) + (s->alignment ? 1u : 0u) + (s->no == 0 || s->no == 2 ? 1u : 0u);
    put_header(&b, 3, 1, n_kv);
    if (s->arch) put_key_str(&b, "general.architecture", s->arch);
    if (s->alignment) put_key(&b, "general.alignment", RF_GGUF_U32, s->alignment, 4);
    if (s->no == 0) put_key(&b, "llama.block_count", RF_GGUF_U32, 5, 4);
    if (s->no == 2) put_key(&b, "extra", RF_GGUF_U8, 9, 1);
    put_key(&b, "split.no", RF_GGUF_U16, s->no, 2);
    put_key(&b, "split.count", RF_GGUF_U16, s->count, 2);
    put_key(&b, "split.tensors.count", RF_GGUF_I32, s->n_tensors, 4);
    put_tensor(&b, s->tensor, 8, 0, 0);
    pad_to(&b, s->alignment ? s->alignment : 32);
    for (int i = 0; i < 32; i++)
        rf_buf_putc(&b, (char)(16 * s->no + 1));
    write_bytes(path, &b);
    rf_buf_free(&b);
}

/* NAME-0000<no + 1>-of-00003.gguf in the temporary directory. */
static const char *part_path(const char *name, unsigned no) {
    char file[64];
    snprintf(file, sizeof file, "%s-%05u-of-00003.gguf", name, no + 1);
    return rf_test_tmp(file);
}

static void write_parts(const char *name, const part_spec *specs) {
    for (unsigned i = 0; i < 3; i++)
        write_part(part_path(name, i), &specs[i]);
}

static void test_any_part_opens_all(void **state) {
    (void)state;
    write_parts("good", good);
    for (unsigned start = 0; start < 3; start++) {
        rf_gguf *g;
        rf_error e = {0};
        const char *path = part_path("good", start);
        if (rf_gguf_open(&g, path, &e) != RF_OK) fail_msg("%s", e.text);
        assert_string_equal(rf_gguf_path(g), path);
        assert_int_equal(rf_gguf_n_splits(g), 3);
        assert_int_equal(rf_gguf_n_tensors(g), 3);
        assert_int_equal(rf_gguf_n_kv(g), 6); /* the first part's five and "extra" */
        assert_true(rf_str_is(rf_gguf_kv_at(g, 0)->key, "general.architecture"));
        assert_true(rf_str_is(rf_gguf_kv_at(g, 5)->key, "extra"));
        uint32_t v = 0;
        assert_int_equal(rf_gguf_get_u32(g, "split.no", &v, NULL, &e), RF_OK);
        assert_int_equal(v, 0);
        for (uint32_t i = 0; i < 3; i++) {
            const rf_gguf_tensor *t = rf_gguf_tensor_at(g, i);
            assert_int_equal(t->split, i);
            assert_int_equal(t->n_bytes, 32);
            for (int k = 0; k < 32; k++)
                assert_int_equal(t->data[k], 16 * i + 1);
        }
        uint64_t sum = 0;
        for (unsigned i = 0; i < 3; i++) {
            size_t n;
            rf_free(rf_test_read(part_path("good", i), &n));
            sum += n;
        }
        assert_int_equal(rf_gguf_file_bytes(g), sum);
        rf_str s = {0}; /* a message about a key of a later part names that part */
        assert_int_equal(rf_gguf_get_str(g, "extra", &s, NULL, &e), RF_EFORMAT);
        assert_contains(e.text, "-00003-of-00003.gguf: offset ");
        rf_gguf_close(g);
    }
}

/* Opens part `start` of what specs describe and expects a refusal with both texts. */
static void expect_refused(const char *name, const part_spec *specs, unsigned start,
                           const char *part, const char *what) {
    rf_gguf *g;
    rf_error e = {0};
    write_parts(name, specs);
    if (rf_gguf_open(&g, part_path(name, start), &e) == RF_OK) fail_msg("accepted: %s", what);
    assert_int_equal(e.status, RF_EFORMAT);
    assert_contains(e.text, part);
    assert_contains(e.text, what);
}

static void test_contradictions(void **state) {
    (void)state;
    static const struct {
        unsigned which; /* part that is replaced */
        part_spec spec;
        const char *part, *what;
    } cases[] = {
        {1, {1, 4, 3, "t1", "llama", 0}, "a-00002-of", "expected part 2 of 3, got part 2 of 4"},
        {1, {2, 3, 3, "t1", "llama", 0}, "a-00002-of", "expected part 2 of 3, got part 3 of 3"},
        {1, {3, 3, 3, "t1", "llama", 0}, "a-00002-of", "less than split.count = 3, got 3"},
        {2, {2, 3, 4, "t2", NULL, 0}, "'split.tensors.count'", "3 as in the first part, got 4"},
        {2, {2, 3, 3, "t0", NULL, 0}, "a-00003-of", "tensor 't0': expected every tensor once"},
        {1, {1, 3, 3, "t1", "qwen2", 0}, "a-00002-of", "'general.architecture': expected the same"},
        {1, {1, 3, 3, "t1", "llama", 48}, "a-00002-of", "'general.alignment': expected a power"},
        {1, {1, 0xffff, 3, "t1", "llama", 0}, "a-00002-of", "at most 1024 parts, got 65535"},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        part_spec specs[3] = {good[0], good[1], good[2]};
        specs[cases[i].which] = cases[i].spec;
        expect_refused("a", specs, 0, cases[i].part, cases[i].what);
    }
    part_spec specs[3] = {good[0], good[1], good[2]};
    for (int i = 0; i < 3; i++)
        specs[i].n_tensors = 5;
    expect_refused("a", specs, 1, "'split.tensors.count'",
                   "expected 5 tensors in all parts, got 3");
}

static void test_missing_part(void **state) {
    (void)state;
    for (unsigned start = 0; start < 3; start++) {
        rf_gguf *g;
        rf_error e = {0};
        unsigned gone = (start + 1) % 3;
        write_parts("m", good);
        const char *path = part_path("m", gone);
        assert_int_equal(remove(path), 0);
        assert_int_equal(rf_gguf_open(&g, part_path("m", start), &e), RF_EIO);
        assert_contains(e.text, path);
        char which[32];
        snprintf(which, sizeof which, "part %u of 3", gone + 1);
        assert_contains(e.text, which);
    }
}

/* A part under a name of its own cannot find its brothers, nor can one in memory. */
static void test_renamed(void **state) {
    (void)state;
    static const char *const names[] = {"renamed.gguf",          "r-00003-of-00003.gguf",
                                        "r-00002-of-00004.gguf", "-00002-of-00003.gguf.bak",
                                        "r-00002-of-00003.GGUF", "r-0002-of-00003.gguf"};
    for (size_t i = 0; i < RF_COUNT(names); i++) {
        rf_gguf *g;
        rf_error e = {0};
        const char *path = rf_test_tmp(names[i]);
        write_part(path, &good[1]);
        assert_int_equal(rf_gguf_open(&g, path, &e), RF_EFORMAT);
        assert_contains(e.text, path);
        assert_contains(e.text, "part 2 of 3");
        assert_contains(e.text, "-00002-of-00003.gguf");
    }
    const char *path = rf_test_tmp("in-memory.gguf");
    write_part(path, &good[1]);
    size_t n;
    uint8_t *bytes = rf_test_read(path, &n);
    rf_gguf *g;
    rf_error e = {0};
    assert_int_equal(rf_gguf_open_memory(&g, bytes, n, &e), RF_EUNSUPPORTED);
    assert_contains(e.text, "part 2 of 3");
    rf_free(bytes);
}

/* The name of a part without the keys of one: a file like any other. */
static void test_whole_file_named_like_a_part(void **state) {
    (void)state;
    rf_buf b = {0};
    put_header(&b, 3, 0, 1);
    put_key(&b, "split.count", RF_GGUF_U16, 1, 2);
    const char *path = rf_test_tmp("whole-00001-of-00009.gguf");
    write_bytes(path, &b);
    rf_gguf *g;
    rf_error e = {0};
    assert_int_equal(rf_gguf_open(&g, path, &e), RF_OK);
    assert_int_equal(rf_gguf_n_splits(g), 1);
    rf_gguf_close(g);
    rf_buf_free(&b);
}

static void test_keys_of_a_part(void **state) {
    (void)state;
    rf_gguf *g;
    rf_buf b = {0};
    const char *path = rf_test_tmp("k-00001-of-00002.gguf");
    put_header(&b, 3, 0, 1);
    put_key(&b, "split.count", RF_GGUF_U16, 2, 2);
    write_bytes(path, &b);
    rf_error e = {0};
    assert_int_equal(rf_gguf_open(&g, path, &e), RF_EFORMAT);
    assert_contains(e.text, "'split.no'");
    rf_buf_clear(&b);
    put_header(&b, 3, 0, 1);
    put_key_str(&b, "split.count", "2");
    write_bytes(path, &b);
    e = (rf_error){0};
    assert_int_equal(rf_gguf_open(&g, path, &e), RF_EFORMAT);
    assert_contains(e.text, "'split.count': expected an integer, got string");
    rf_buf_free(&b);
}

static void test_names(void **state) {
    (void)state;
    size_t prefix;
    uint32_t no, count;
    assert_true(rf_gguf_split_name("dir/m-00002-of-00010.gguf", &prefix, &no, &count));
    assert_int_equal(prefix, 5);
    assert_int_equal(no, 1);
    assert_int_equal(count, 10);
    char *path = rf_gguf_split_path("dir/m-00002-of-00010.gguf", prefix, 9, count);
    assert_string_equal(path, "dir/m-00010-of-00010.gguf");
    rf_free(path);
    static const char *const others[] = {
        "m.gguf",
        "-00001-of-00002.gguf",
        "m-00000-of-00002.gguf",
        "m-00003-of-00002.gguf",
        "m-0000a-of-00002.gguf",
        "m_00001-of-00002.gguf",
        "m-00001-OF-00002.gguf",
        "",
    };
    for (size_t i = 0; i < RF_COUNT(others); i++) {
        assert_false(rf_gguf_split_name(others[i], &prefix, &no, &count));
    }
}

/* req: C-18 */
static void test_out_of_memory(void **state) {
    (void)state;
    rf_gguf *g = NULL;
    rf_status s = RF_ENOMEM;
    long n = 0;
    write_parts("oom", good);
    while (s == RF_ENOMEM) {
        rf_error e = {0};
        rf_alloc_fail_nth(++n);
        s = rf_gguf_open(&g, part_path("oom", 1), &e);
        rf_alloc_fail_nth(0);
        assert_int_equal(e.status, s);
        assert_true(n < 200);
    }
    assert_int_equal(s, RF_OK);
    assert_true(n > 15);
    rf_gguf_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_part_opens_all),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_missing_part),
        cmocka_unit_test(test_renamed),
        cmocka_unit_test(test_whole_file_named_like_a_part),
        cmocka_unit_test(test_keys_of_a_part),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("gguf split", tests, NULL, NULL);
}
