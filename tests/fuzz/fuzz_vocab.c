/* fuzz_vocab.c - any bytes as a GGUF file with a vocabulary: refused with a reason, or a tokenizer
 * that works on any text. */
#include <string.h>

#include "text/chat.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEN_A "aaaaaaaaaa"

static void use(const rf_tokenizer *t) {
    static const char *const texts[] = {
        "Hello <s> world\n\n  12345 don't",
        "\xFF\xC3(\xE2\x82 \xF0\x9F\x99\x82<|im_end|>",
        (TEN_A TEN_A TEN_A TEN_A TEN_A TEN_A TEN_A),
        "e\xCC\x81 \xE2\x96\x81 \xE4\xBD\xA0\xE5\xA5\xBD",
    };
    rf_ids ids = {0};
    rf_buf out = {0};
    rf_error e = {0};
    for (size_t i = 0; i < RF_COUNT(texts); i++) {
        rf_tokenize_opts o = {.add_special = i % 2, .parse_special = true};
        rf_status s = rf_tokenize(t, rf_str_of(texts[i]), o, &ids, &e);
        RF_ASSERT(s == RF_OK || (s == RF_EFORMAT && e.text[0])); /* no token for a byte */
    }
    RF_ASSERT(rf_detokenize(t, ids.p, ids.len, true, &out, &e) == RF_OK);
    uint32_t n = rf_tokenizer_n_vocab(t);
    for (uint32_t id = 0; id < n && id < 1000; id++) {
        RF_ASSERT(rf_token_bytes(t, (int32_t)id, false, &out) == RF_OK);
        (void)rf_token_is_end(t, (int32_t)id);
    }
    RF_ASSERT(rf_token_bytes(t, (int32_t)n, false, &out) == RF_EARG);
    rf_ids_free(&ids);
    rf_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rf_gguf *g = NULL;
    rf_tokenizer *t = NULL;
    rf_error e = {0};
    if (rf_gguf_open_memory(&g, data, size, &e) != RF_OK) return 0;
    rf_status s = rf_tokenizer_from_gguf(&t, g, &e);
    if (s == RF_OK) {
        use(t);
    } else {
        RF_ASSERT(e.status == s && e.text[0]);
    }
    const rf_chat_format *f;
    e = (rf_error){0};
    s = rf_chat_format_detect(&f, g, &e);
    RF_ASSERT(s == RF_OK || e.text[0]);
    rf_tokenizer_free(t);
    rf_gguf_close(g);
    return 0;
}
