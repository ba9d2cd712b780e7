/* fuzz_tokenizer_json.c - any bytes as a tokenizer.json: refused with a reason, or a tokenizer that
 * works on any text. */
#include <string.h>

#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const rf_tokenizer *t) {
    static const char *const texts[] = {
        "Hello <tok> world\n\n  12345 don't [w] <n>",
        "\xFF\xC3(\xE2\x82 \xF0\x9F\x99\x82[X]  <r> ",
        "e\xCC\x81 \xE2\x96\x81 \xE4\xBD\xA0\xE5\xA5\xBD \xEF\xAC\x81",
    };
    rf_ids ids = {0};
    rf_buf out = {0};
    for (size_t i = 0; i < RF_COUNT(texts); i++) {
        rf_error e = {0};
        rf_tokenize_opts o = {.add_special = i % 2, .parse_special = i != 1};
        rf_status s = rf_tokenize(t, rf_str_of(texts[i]), o, &ids, &e);
        RF_ASSERT(s == RF_OK || e.text[0]); /* no unknown token; a pattern beyond its limit */
    }
    rf_detok d = {0};
    for (size_t i = 0; i < ids.len; i++) {
        RF_ASSERT(ids.p[i] >= 0 && (uint32_t)ids.p[i] < rf_tokenizer_n_vocab(t));
        RF_ASSERT(rf_detok_push(&d, t, ids.p[i], &out) == RF_OK);
    }
    rf_detok_finish(&d, &out);
    rf_error e = {0};
    RF_ASSERT(rf_detokenize(t, ids.p, ids.len, true, &out, &e) == RF_OK);
    RF_ASSERT(rf_token_bytes(t, (int32_t)rf_tokenizer_n_vocab(t), false, &out) == RF_EARG);
    rf_buf_free(&d.pending);
    rf_buf_free(&out);
    rf_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rf_tokenizer *t = NULL;
    rf_error e = {0};
    rf_status s = rf_tokenizer_from_json(&t, (rf_str){(const char *)data, size}, &e);
    if (s == RF_OK) {
        use(t);
    } else {
        RF_ASSERT(!t && e.status == s && e.text[0]);
    }
    rf_tokenizer_free(t);
    return 0;
}
