/* test_digest.c - SHA-256 against the examples of FIPS 180-4 (appendix B), whole and in pieces. */
#include <string.h>

#include "base/digest.h"
#include "lib/testlib.h"

static void test_examples(void **state) {
    (void)state;
    enum { MILLION = 1000000 };
    static const struct {
        const char *text, *hex;
    } examples[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    rf_sha256 *h;
    char hex[RF_SHA256_HEX];
    assert_int_equal(rf_sha256_create(&h), RF_OK);
    for (size_t i = 0; i < RF_COUNT(examples); i++) {
        size_t n = strlen(examples[i].text);
        rf_sha256_add(h, examples[i].text, n);
        rf_sha256_hex(h, hex);
        assert_string_equal(hex, examples[i].hex);
        for (size_t at = 0; at < n; at++)
            rf_sha256_add(h, examples[i].text + at, 1);
        rf_sha256_hex(h, hex);
        assert_string_equal(hex, examples[i].hex);
    }
    char *as = rf_alloc(MILLION, 1); /* a million times "a" */
    assert_non_null(as);
    memset(as, 'a', MILLION);
    rf_sha256_add(h, as, MILLION);
    rf_sha256_hex(h, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    rf_free(as);
    rf_sha256_free(h);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
