/* test_bad.c - malformed files, under a guard page: each gets a clean error with place and cause.
 *
 * The first half builds its own; the last test runs the shared collection against the table of what
 * each message must contain, so a case without a row fails. */
#include <stdio.h>

#include "base/json.h"
#include "base/os.h"
#include "bytes.h"
#include "gguf/gguf.h"
#include "lib/testlib.h"

enum { F32 = 0, Q8_0 = 8, Q4_K = 12, I8 = 24, I64 = 27 };

/* Opens what was built, expects a refusal whose text has every part, and empties the buffer. */
static void expect_bad(rf_buf *b, rf_status want, const char *const *parts, size_t n_parts) {
    rf_guarded guard;
    rf_gguf *g = NULL;
    rf_error e = {0};
    rf_status s = open_bytes(&g, b, &guard, &e);
    if (s == RF_OK) fail_msg("accepted, expected: %s", parts[0]);
    if (s != want || e.status != want) fail_msg("status %d, expected %d: %s", s, want, e.text);
    assert_null(g);
    assert_contains(e.text, "(memory): offset ");
    for (size_t i = 0; i < n_parts; i++)
        assert_contains(e.text, parts[i]);
    rf_guard_free(&guard);
    rf_buf_free(b);
}
#define BAD(b, status, ...)                                       \
    expect_bad((b), (status), (const char *const[]){__VA_ARGS__}, \
               RF_COUNT(((const char *const[]){__VA_ARGS__})))

static void test_header(void **state) {
    (void)state;
    rf_buf b = {0};
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10};
    rf_buf_put(&b, png, sizeof png);
    BAD(&b, RF_EFORMAT, "offset 0", "'GGUF'", "89 50 4e 47", "not a GGUF file");
    rf_buf_puts(&b, "version https://git-lfs.github.com/spec/v1\noid sha256:");
    BAD(&b, RF_EFORMAT, "offset 0", "git-lfs pointer", "git lfs pull");
    put_header(&b, 1, 0, 0);
    BAD(&b, RF_EUNSUPPORTED, "offset 4", "version 2 or 3", "got version 1", "convert");
    put_header(&b, 4, 0, 0);
    BAD(&b, RF_EUNSUPPORTED, "offset 4", "got version 4", "newer");
    put_header(&b, 0, 0, 0);
    BAD(&b, RF_EFORMAT, "offset 4", "got version 0", "damaged");
    put_header(&b, 0x02000000, 0, 0);
    BAD(&b, RF_EUNSUPPORTED, "offset 4", "big-endian", "little-endian");
    put_header(&b, 0x03000000, 0, 0);
    BAD(&b, RF_EUNSUPPORTED, "offset 4", "big-endian", "little-endian");
}

/* A count that lies: refused before anything of its size is allocated.  req: B-41 */
static void test_counts(void **state) {
    (void)state;
    static const uint64_t lies[] = {UINT64_MAX, INT64_MAX, (uint64_t)1 << 40, 1000};
    for (size_t i = 0; i < RF_COUNT(lies); i++) {
        rf_buf b = {0};
        put_header(&b, 3, 0, lies[i]);
        put_key(&b, "a", RF_GGUF_U8, 1, 1);
        rf_alloc_count();
        BAD(&b, RF_EFORMAT, "offset 16", "at most 1 keys", "14 bytes left");
        assert_true(rf_alloc_count() < 10);
        put_header(&b, 3, lies[i], 0);
        put_tensor(&b, "t", 0, F32, 0);
        BAD(&b, RF_EFORMAT, "offset 8", "at most 1 tensors", "33 bytes left");
    }
    rf_buf b = {0}; /* the bytes would do, the named limit does not */
    put_header(&b, 3, 0, RF_GGUF_MAX_KEYS + 1);
    pad_to(&b, (size_t)16 << 20);
    BAD(&b, RF_EFORMAT, "offset 16", "at most 1048576 keys", "1048577");
}

/* Memory grows with what was read: a megabyte that claims many keys but has one costs little. */
static void test_lie_is_cheap(void **state) {
    (void)state;
    rf_buf b = {0};
    put_header(&b, 3, 0, 70000);
    put_key(&b, "a", RF_GGUF_U8, 1, 1);
    pad_to(&b, (size_t)1 << 20); /* the next key has an empty name */
    rf_guarded guard = rf_guard(b.p, b.len);
    rf_gguf *g;
    rf_error e = {0};
    rf_alloc_count();
    assert_int_equal(rf_gguf_open_memory(&g, guard.p, guard.n, &e), RF_EFORMAT);
    assert_true(rf_alloc_count() < 12);
    assert_contains(e.text, "key number 1");
    rf_guard_free(&guard);
    rf_buf_free(&b);
}

static void test_keys(void **state) {
    (void)state;
    rf_buf b = {0};
    put_header(&b, 3, 0, 1);
    put_le(&b, UINT64_MAX, 8);
    rf_buf_puts(&b, "general.name");
    BAD(&b, RF_EFORMAT, "offset 24", "key number 0", "18446744073709551615", "only 12");
    put_header(&b, 3, 0, 1);
    put_key(&b, "", RF_GGUF_U32, 1, 4);
    BAD(&b, RF_EFORMAT, "offset 24", "key number 0", "1 to 65535", "got 0");
    put_header(&b, 3, 0, 1);
    put_le(&b, RF_GGUF_MAX_KEY + 1, 8);
    for (int i = 0; i <= RF_GGUF_MAX_KEY; i++)
        rf_buf_putc(&b, 'k');
    put_le(&b, RF_GGUF_U8, 4);
    put_le(&b, 1, 1);
    BAD(&b, RF_EFORMAT, "offset 24", "key number 0", "1 to 65535", "got 65536");
    put_header(&b, 3, 0, 1);
    put_le(&b, 3, 8);
    rf_buf_put(&b, "a\0b", 3);
    put_le(&b, RF_GGUF_U8, 4);
    put_le(&b, 1, 1);
    BAD(&b, RF_EFORMAT, "offset 24", "'a\\x00b'", "without NUL");
    put_header(&b, 3, 0, 1);
    put_key(&b, "k\x1b[31m", RF_GGUF_F64 + 1, 0, 8); /* must not reach a terminal raw */
    BAD(&b, RF_EFORMAT, "offset 38", "'k\\x1b[31m'", "value type of 0 to 12", "got 13");
    put_header(&b, 3, 0, 3);
    put_key(&b, "twice", RF_GGUF_U8, 1, 1);
    put_key(&b, "other", RF_GGUF_U8, 1, 1);
    put_key(&b, "twice", RF_GGUF_U8, 1, 1);
    BAD(&b, RF_EFORMAT, "offset 60", "key 'twice'", "once", "after offset 24");
}

static void test_values(void **state) {
    (void)state;
    rf_buf b = {0};
    put_header(&b, 3, 0, 1);
    put_str(&b, "name");
    put_le(&b, RF_GGUF_STRING, 4);
    put_le(&b, (uint64_t)1 << 63, 8);
    BAD(&b, RF_EFORMAT, "offset 40", "key 'name'", "9223372036854775808", "only 0");
    put_header(&b, 3, 0, 1);
    put_key(&b, "k64", RF_GGUF_U64, 1, 7);
    BAD(&b, RF_EFORMAT, "offset 39", "key 'k64'", "1 value of type u64", "7 bytes left");
    put_header(&b, 3, 0, 1);
    put_key(&b, "flag", RF_GGUF_BOOL, 2, 1);
    BAD(&b, RF_EFORMAT, "offset 40", "key 'flag'", "0 or 1", "got 2");
    put_header(&b, 3, 0, 1);
    put_key_array(&b, "a", 13, 1);
    BAD(&b, RF_EFORMAT, "offset 37", "key 'a'", "element type", "got 13");
    put_header(&b, 3, 0, 1);
    put_key_array(&b, "nested", RF_GGUF_ARRAY, 1);
    BAD(&b, RF_EUNSUPPORTED, "offset 42", "key 'nested'", "arrays of arrays");
    put_header(&b, 3, 0, 1);
    put_key_array(&b, "strs", RF_GGUF_STRING, (uint64_t)1 << 61);
    put_str(&b, "x");
    BAD(&b, RF_EFORMAT, "offset 52", "key 'strs'", "2305843009213693952", "hold 1 at most");
    put_header(&b, 3, 0, 1);
    put_key_array(&b, "u16s", RF_GGUF_U16, (uint64_t)1 << 63); /* times 2 wraps to 0 */
    BAD(&b, RF_EFORMAT, "offset 52", "key 'u16s'", "9223372036854775808", "hold 0 at most");
    put_header(&b, 3, 0, 1);
    put_key_array(&b, "strs", RF_GGUF_STRING, 2); /* the second string is cut */
    put_str(&b, "0123456");
    put_le(&b, 9, 8);
    rf_buf_puts(&b, "01234567");
    BAD(&b, RF_EFORMAT, "offset 67", "key 'strs'", "claims 9 bytes", "only 8");
}

static void test_alignment(void **state) {
    (void)state;
    static const uint32_t values[] = {0, 3, 33, 1u << 25, UINT32_MAX};
    rf_buf b = {0};
    for (size_t i = 0; i < RF_COUNT(values); i++) {
        char got[32];
        snprintf(got, sizeof got, "got %u", values[i]);
        put_header(&b, 3, 0, 1);
        put_key(&b, "general.alignment", RF_GGUF_U32, values[i], 4);
        BAD(&b, RF_EFORMAT, "offset 24", "'general.alignment'", "power of two", got);
    }
    put_header(&b, 3, 0, 1);
    put_key(&b, "general.alignment", RF_GGUF_U64, 32, 8);
    BAD(&b, RF_EFORMAT, "offset 24", "'general.alignment'", "type u32", "got u64");
}

/* Shapes: four dimensions at most, products checked, whole blocks in a row.
 * req: B-42, B-44, B-46 */
static void test_shapes(void **state) {
    (void)state;
    static const struct {
        uint64_t ne[2];
        uint32_t type;
        const char *want, *got;
    } cases[] = {
        {{UINT64_MAX, 1}, F32, "fewer than 2^63", "18446744073709551615"},
        {{(uint64_t)1 << 32, (uint64_t)1 << 32}, F32, "fewer than 2^63", "4294967296"},
        {{INT64_MAX, 2}, I8, "fewer than 2^63", "dimension 1 is 2"},
        {{(uint64_t)1 << 61, 0}, I64, "", NULL}, /* empty, and no overflow anywhere */
        {{(uint64_t)1 << 61, 2}, I64, "fits 64 bits", "4611686018427387904 elements of I64"},
        {{33, 2}, Q8_0, "multiple of 32", "got 33"},
        {{16, 2}, Q8_0, "multiple of 32", "got 16"}, /* whole blocks only over both rows */
        {{257, 1}, Q4_K, "multiple of 256", "got 257"},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_buf b = {0};
        put_header(&b, 3, 1, 0);
        put_str(&b, "t.weight");
        put_le(&b, 2, 4);
        put_le(&b, cases[i].ne[0], 8);
        put_le(&b, cases[i].ne[1], 8);
        put_le(&b, cases[i].type, 4);
        put_le(&b, 0, 8);
        pad_to(&b, 4096);
        if (cases[i].got) {
            BAD(&b, RF_EFORMAT, "tensor 't.weight'", cases[i].want, cases[i].got);
            continue;
        }
        rf_gguf *g;
        rf_error e = {0};
        assert_int_equal(rf_gguf_open_memory(&g, b.p, b.len, &e), RF_OK);
        assert_null(rf_gguf_tensor_at(g, 0)->data);
        rf_gguf_close(g);
        rf_buf_free(&b);
    }
    rf_buf b = {0};
    put_header(&b, 3, 1, 0);
    put_str(&b, "t");
    put_le(&b, 5, 4);
    pad_to(&b, 256);
    BAD(&b, RF_EFORMAT, "offset 33", "tensor 't'", "at most 4 dimensions", "got 5");
    static const uint32_t types[] = {4, 5, 31, 32, 33, 36, 37, 38, 43, 200, UINT32_MAX};
    for (size_t i = 0; i < RF_COUNT(types); i++) {
        char got[32];
        snprintf(got, sizeof got, "got type id %u:", types[i]);
        put_header(&b, 3, 1, 0);
        put_tensor(&b, "t", 32, types[i], 0);
        pad_to(&b, 1024);
        BAD(&b, RF_EUNSUPPORTED, "offset 45", "tensor 't'", "number format", got);
    }
}

static void test_names(void **state) {
    (void)state;
    rf_buf b = {0};
    put_header(&b, 3, 1, 0);
    put_tensor(&b, "", 0, F32, 0);
    pad_to(&b, 64);
    BAD(&b, RF_EFORMAT, "offset 24", "tensor number 0", "1 to 63", "got 0");
    put_header(&b, 3, 1, 0);
    put_tensor(&b, "0123456789012345678901234567890123456789012345678901234567890123", 0, F32, 0);
    BAD(&b, RF_EFORMAT, "offset 24", "tensor number 0", "1 to 63", "got 64");
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "same", 8, F32, 0);
    put_tensor(&b, "same", 8, F32, 32);
    pad_to(&b, 32);
    put_data(&b, 64);
    BAD(&b, RF_EFORMAT, "offset 60", "tensor 'same'", "once");
}

/* Where data may lie: aligned, inside the file, shared with nobody.  req: B-43 */
static void test_places(void **state) {
    (void)state;
    static const struct {
        uint64_t offset[3];
        size_t data;
        const char *parts[3];
    } cases[] = {
        {{0, 32, 64}, 95, {"tensor 'c'", "32 bytes of data at data offset 64", "section of 95"}},
        {{0, 32, 96}, 96, {"tensor 'c'", "at data offset 96", "section of 96"}},
        {{0, 32, (uint64_t)-32}, 96, {"tensor 'c'", "18446744073709551584", "section of 96"}},
        {{0, 36, 64}, 96, {"tensor 'b'", "multiple of 32", "got 36"}},
        {{0, 32, 0}, 96, {"overlap", "expected data of its own", "ends at offset"}},
        {{64, 64, 0}, 96, {"overlap", "expected data of its own", "ends at offset"}},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_buf b = {0};
        put_header(&b, 3, 3, 0);
        put_tensor(&b, "a", 8, F32, cases[i].offset[0]);
        put_tensor(&b, "b", 8, F32, cases[i].offset[1]);
        put_tensor(&b, "c", 8, F32, cases[i].offset[2]);
        pad_to(&b, 32);
        put_data(&b, cases[i].data);
        const char *const *p = cases[i].parts;
        BAD(&b, RF_EFORMAT, p[0], p[1], p[2]);
    }
    rf_buf b = {0}; /* a long tensor, an empty one inside it, and a third that bites its end */
    put_header(&b, 3, 3, 0);
    put_tensor(&b, "long", 32, F32, 0);
    put_tensor(&b, "empty", 0, F32, 64);
    put_tensor(&b, "bites", 8, F32, 96);
    pad_to(&b, 32);
    put_data(&b, 128);
    BAD(&b, RF_EFORMAT, "tensor 'bites'", "overlap with tensor 'long'");
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "a\x1b", 8, F32, 0);
    put_tensor(&b, "b", 8, F32, 0);
    pad_to(&b, 32);
    put_data(&b, 32);
    BAD(&b, RF_EFORMAT, "overlap with tensor 'a?'"); /* no escape reaches the terminal */
    put_header(&b, 3, 1, 0); /* the file ends before the data section begins */
    put_tensor(&b, "t", 1, F32, 0);
    BAD(&b, RF_EFORMAT, "tensor 't'", "4 bytes of data", "section of 0");
}

/* A file with everything in it, for cutting and flipping. */
static void build_rich(rf_buf *b) {
    put_header(b, 3, 3, 6);
    put_key_str(b, "general.architecture", "llama");
    put_key(b, "general.alignment", RF_GGUF_U32, 16, 4);
    put_key(b, "x", RF_GGUF_F64, 0, 8);
    put_key_array(b, "s", RF_GGUF_STRING, 2);
    put_str(b, "ab");
    put_str(b, "");
    put_key_array(b, "b", RF_GGUF_BOOL, 3);
    put_le(b, 0x010001, 3);
    put_key_array(b, "w", RF_GGUF_I16, 2);
    put_le(b, 0, 4);
    put_tensor(b, "t0", 4, F32, 0);
    put_tensor(b, "t1", 64, Q8_0, 16);
    put_tensor(b, "t2", 5, I8, 96);
    pad_to(b, 16);
    put_data(b, 101);
}

/* Reads everything that an open file offers, so that a sanitizer sees each access. */
static uint64_t walk(const rf_gguf *g) {
    uint64_t sum = 0;
    for (size_t i = 0; i < rf_gguf_n_kv(g); i++) {
        const rf_gguf_kv *kv = rf_gguf_kv_at(g, i);
        const uint8_t *cursor = kv->data;
        for (uint64_t k = 0; k < kv->n; k++) {
            if (kv->elem_type == RF_GGUF_STRING) {
                rf_str s = rf_gguf_next_str(&cursor);
                for (size_t c = 0; c < s.len; c++)
                    sum += (unsigned char)s.p[c];
            } else {
                sum += rf_gguf_elem_f64(kv, k) > 0;
            }
        }
    }
    for (size_t i = 0; i < rf_gguf_n_tensors(g); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(g, i);
        for (uint64_t k = 0; k < t->n_bytes; k++)
            sum += t->data[k];
    }
    return sum;
}

/* Cut anywhere, the file is refused: its last byte is the last tensor's. */
static void test_every_truncation(void **state) {
    (void)state;
    rf_buf b = {0};
    build_rich(&b);
    for (size_t n = 0; n < b.len; n++) {
        rf_guarded guard = rf_guard(b.p, n);
        rf_gguf *g = NULL;
        rf_error e = {0};
        assert_int_equal(rf_gguf_open_memory(&g, guard.p, guard.n, &e), RF_EFORMAT);
        assert_contains(e.text, "offset ");
        rf_guard_free(&guard);
    }
    rf_buf_free(&b);
}

/* Every byte before the data with every value: refused with a message, or readable to the end. */
static void test_every_byte(void **state) {
    (void)state;
    rf_buf b = {0};
    build_rich(&b);
    rf_guarded guard = rf_guard(b.p, b.len);
    size_t n_ok = 0, n_bad = 0;
    uint64_t sum = 0;
    for (size_t at = 0; at < b.len - 101; at++) {
        for (unsigned v = 0; v < 256; v++) {
            rf_gguf *g = NULL;
            rf_error e = {0};
            guard.p[at] = (uint8_t)v;
            if (rf_gguf_open_memory(&g, guard.p, guard.n, &e) == RF_OK) {
                sum += walk(g);
                rf_gguf_close(g);
                n_ok++;
            } else {
                assert_contains(e.text, "offset ");
                n_bad++;
            }
        }
        guard.p[at] = (uint8_t)b.p[at];
    }
    assert_true(n_ok > 1000 && n_bad > 10000 && sum > 0);
    rf_guard_free(&guard);
    rf_buf_free(&b);
}

/* What the message of each shared case must say besides the offset.  The longest prefix counts. */
static const struct {
    const char *prefix;
    rf_status status; /* RF_OK: accepted */
    const char *words[2];
} shared_cases[] = {
    {"ok-", RF_OK, {"", ""}},
    {"odd-no-final-padding", RF_OK, {"", ""}},
    {"odd-nested-array", RF_EUNSUPPORTED, {"key 'n'", "arrays of arrays"}},
    {"odd-bool-2", RF_EFORMAT, {"key 'b'", "got 2"}},
    {"odd-n-dims-0", RF_OK, {"", ""}}, /* one element, no dimensions */
    {"bad-truncated-header-", RF_EFORMAT, {"header", "truncated"}},
    {"bad-magic", RF_EFORMAT, {"header", "'GGUF'"}},
    {"bad-version-0", RF_EFORMAT, {"header", "version 0"}},
    {"bad-version-future", RF_EUNSUPPORTED, {"header", "version 4"}},
    {"bad-version-big-endian", RF_EUNSUPPORTED, {"header", "big-endian"}},
    {"bad-version-max", RF_EUNSUPPORTED, {"header", "4294967295"}},
    {"bad-n-tensors-", RF_EFORMAT, {"header", "at most 14 tensors"}},
    {"bad-n-kv-", RF_EFORMAT, {"header", "at most 25 keys"}},
    {"bad-key-len-", RF_EFORMAT, {"key number 0", "only 43 are left"}},
    {"bad-dup-key", RF_EFORMAT, {"key 'x'", "after offset 69"}},
    {"bad-kv-type-", RF_EFORMAT, {"key 'k'", "value type of 0 to 12"}},
    {"bad-arr-type-", RF_EFORMAT, {"key 'k'", "element type of 0 to 12"}},
    {"bad-arr-len-", RF_EFORMAT, {"key 'k'", "at most"}},
    {"bad-str-len-", RF_EFORMAT, {"key 'k'", "only 64 are left"}},
    {"bad-align-", RF_EFORMAT, {"key 'general.alignment'", "power of two"}},
    {"bad-align-type-", RF_EFORMAT, {"key 'general.alignment'", "expected type u32"}},
    {"bad-name-64", RF_EFORMAT, {"tensor number 0", "1 to 63"}},
    {"bad-name-len-", RF_EFORMAT, {"tensor number 0", "only 62 are left"}},
    {"bad-n-dims-", RF_EFORMAT, {"tensor 't0'", "at most 4 dimensions"}},
    {"bad-dim-negative", RF_EFORMAT, {"tensor 't0'", "fewer than 2^63"}},
    {"bad-dim-zero-", RF_OK, {"", ""}},
    {"bad-ne-", RF_EFORMAT, {"tensor 't0'", "fewer than 2^63"}},
    {"bad-nbytes-overflow", RF_EFORMAT, {"tensor 't0'", "fits 64 bits"}},
    {"bad-two-huge-sum", RF_EFORMAT, {"tensor 't0'", "9223372036854775744 bytes"}},
    {"bad-tensor-type-", RF_EUNSUPPORTED, {"tensor 't0'", "number format"}},
    {"bad-row-not-multiple-", RF_EFORMAT, {"tensor 't0'", "rows of a multiple of"}},
    {"bad-offset-ffffffffffffffff", RF_EFORMAT, {"tensor 't0'", "multiple of 32"}},
    {"bad-offset-8", RF_EFORMAT, {"tensor 't0'", "data offset 9223372036854775808"}},
    {"bad-offset-1", RF_EFORMAT, {"tensor 't0'", "multiple of 32"}},
    {"bad-offset-20", RF_EFORMAT, {"tensor 't0'", "data offset 32"}},
    {"bad-offset-unaligned", RF_EFORMAT, {"tensor 't1'", "multiple of 32, got 260"}},
    {"bad-offset-gap", RF_OK, {"", ""}},
    {"bad-offset-order", RF_OK, {"", ""}},
    {"bad-dup-tensor", RF_EFORMAT, {"tensor 't0'", "once"}},
    {"bad-data-short-", RF_EFORMAT, {"tensor 't0'", "expected 256 bytes"}},
    {"bad-no-data", RF_EFORMAT, {"tensor 't0'", "section of 0 bytes"}},
    {"bad-truncated-in-tensor-info", RF_EFORMAT, {"tensor 't0'", "truncated"}},
    {"bad-truncated-in-kv", RF_EFORMAT, {"key 'general.architecture'", "only 2 are left"}},
    {"vocab-", RF_OK, {"", ""}}, /* the container is sound; the tokenizer judges the rest */
    {"model-", RF_OK, {"", ""}},
    {"model-tensor-shape-swapped", RF_OK, {"", ""}},
};

static size_t find_case(const char *file) {
    size_t best = RF_COUNT(shared_cases), best_len = 0;
    for (size_t i = 0; i < RF_COUNT(shared_cases); i++) {
        size_t len = strlen(shared_cases[i].prefix);
        if (strncmp(file, shared_cases[i].prefix, len) == 0 && len > best_len) {
            best = i;
            best_len = len;
        }
    }
    if (best == RF_COUNT(shared_cases)) fail_msg("no expectation for %s", file);
    return best;
}

/* What the manifest says and what our table says must agree. */
static void check_promise(const char *file, rf_str promise, rf_status want) {
    bool may_reject = !rf_str_starts(promise, "accept");
    bool must_reject = rf_str_is(promise, "reject");
    bool is_container = strncmp(file, "vocab-", 6) != 0 && strncmp(file, "model-", 6) != 0;
    if (is_container && ((want == RF_OK && must_reject) || (want != RF_OK && !may_reject))) {
        fail_msg("%s: the manifest says %.*s", file, RF_STR_ARG(promise));
    }
}

static void run_shared_case(const char *file, const uint8_t *bytes, size_t n, rf_str promise) {
    size_t at = find_case(file);
    rf_guarded guard = rf_guard(bytes, n);
    rf_gguf *g = NULL;
    rf_error e = {0};
    rf_status want = shared_cases[at].status;
    check_promise(file, promise, want);
    rf_status s = rf_gguf_open_memory(&g, guard.p, guard.n, &e);
    if (s != want) fail_msg("%s: status %d, expected %d: %s", file, s, want, e.text);
    if (s == RF_OK) {
        walk(g);
        rf_gguf_close(g);
    } else {
        assert_contains(e.text, "offset ");
        for (int i = 0; i < 2; i++)
            assert_contains(e.text, shared_cases[at].words[i]);
    }
    rf_guard_free(&guard);
}

static int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

/* req: C-14, C-15, B-41, B-42, B-43, B-46 */
static void test_shared_collection(void **state) {
    (void)state;
    const char *path = rf_test_shared("gguf-bad/manifest.json");
    RF_SKIP_WITHOUT(path, "the shared collection of malformed GGUF files");
    size_t n, n_base;
    uint8_t *text = rf_test_read(path, &n);
    uint8_t *base =
        rf_test_read(rf_test_shared("models/stories260K/stories260K-F32.gguf"), &n_base);
    rf_json *root;
    rf_error e = {0};
    if (rf_json_parse(&root, (rf_str){(const char *)text, n}, &e) != RF_OK) fail_msg("%s", e.text);
    const rf_json *cases = rf_json_get(root, "cases");
    assert_true(rf_json_len(cases) > 100);
    for (size_t i = 0; i < rf_json_len(cases); i++) {
        const rf_json *c = rf_json_at(cases, i), *patch = rf_json_get(c, "patch_hex");
        rf_str file = rf_json_str(rf_json_get(c, "file"));
        rf_str promise = rf_json_str(rf_json_get(c, "expect"));
        char name[256], relative[300];
        snprintf(name, sizeof name, "%.*s", RF_STR_ARG(file));
        if (patch) {
            size_t at = (size_t)rf_json_int(rf_json_get(c, "patch_offset"));
            rf_str hex = rf_json_str(patch);
            uint8_t *bytes = rf_alloc(n_base, 1);
            assert_non_null(bytes);
            memcpy(bytes, base, n_base);
            for (size_t k = 0; k + 1 < hex.len && at + k / 2 < n_base; k += 2) {
                bytes[at + k / 2] = (uint8_t)(hex_digit(hex.p[k]) << 4 | hex_digit(hex.p[k + 1]));
            }
            run_shared_case(name, bytes, n_base, promise);
            rf_free(bytes);
            continue;
        }
        size_t n_bytes;
        snprintf(relative, sizeof relative, "gguf-bad/files/%s", name);
        uint8_t *bytes = rf_test_read(rf_test_shared(relative), &n_bytes);
        run_shared_case(name, bytes, n_bytes, promise);
        rf_free(bytes);
    }
    rf_json_free(root);
    rf_free(base);
    rf_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),       cmocka_unit_test(test_counts),
        cmocka_unit_test(test_lie_is_cheap), cmocka_unit_test(test_keys),
        cmocka_unit_test(test_values),       cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_shapes),       cmocka_unit_test(test_names),
        cmocka_unit_test(test_places),       cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_every_byte),   cmocka_unit_test(test_shared_collection),
    };
    return cmocka_run_group_tests_name("gguf bad", tests, NULL, NULL);
}
