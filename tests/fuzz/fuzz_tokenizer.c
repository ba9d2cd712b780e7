/* fuzz_tokenizer.c - any bytes as text, through each kind of tokenizer: to ids and back, streamed.
 *
 * The first byte chooses the vocabulary and the options, the rest is the text. */
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const paths[] = {
    RF_TEST_DATA_DIR "/text/bpe-gpt-2.gguf",        RF_TEST_DATA_DIR "/text/bpe-qwen2.gguf",
    RF_TEST_DATA_DIR "/text/bpe-llama-bpe.gguf",    RF_TEST_DATA_DIR "/text/spm.gguf",
    RF_TEST_DATA_DIR "/text/wordpiece.gguf",        RF_TEST_DATA_DIR "/text/unigram.gguf",
    RF_TEST_DATA_DIR "/text/hf/byte-fallback.json", RF_TEST_DATA_DIR "/text/hf/nfkd.json",
};
enum { GPT2 = 0, LLAMA3 = 2, SPM = 3 };

/* Loaded at the first input and kept for all. */
static rf_tokenizer *tokenizers[RF_COUNT(paths)];

static void load_all(void) {
    for (size_t i = 0; i < RF_COUNT(paths) && !tokenizers[i]; i++) {
        rf_error e = {0};
        RF_ASSERT(rf_tokenizer_open(&tokenizers[i], paths[i], &e) == RF_OK);
    }
}

static void check_stream(const rf_tokenizer *t, const rf_ids *ids, const rf_buf *whole) {
    rf_detok d = {0};
    rf_buf out = {0};
    for (size_t i = 0; i < ids->len; i++) {
        RF_ASSERT(rf_detok_push(&d, t, ids->p[i], &out) == RF_OK);
        RF_ASSERT(d.pending.len <= 3);
    }
    rf_detok_finish(&d, &out);
    RF_ASSERT(rf_utf8_valid_prefix(out.p, out.len) == out.len);
    if (rf_utf8_valid_prefix(whole->p, whole->len) == whole->len) {
        RF_ASSERT(rf_str_eq(rf_buf_str(&out), rf_buf_str(whole)));
    }
    rf_buf_free(&d.pending);
    rf_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    load_all();
    size_t k = data[0] % RF_COUNT(paths);
    bool parse = data[0] & 0x10, add = data[0] & 0x20;
    const rf_tokenizer *t = tokenizers[k];
    rf_str text = {(const char *)data + 1, size - 1};
    rf_ids ids = {0};
    rf_buf back = {0};
    rf_error e = {0};
    rf_tokenize_opts o = {.add_special = add, .parse_special = parse};
    RF_ASSERT(rf_tokenize(t, text, o, &ids, &e) == RF_OK);
    for (size_t i = 0; i < ids.len; i++) {
        RF_ASSERT(ids.p[i] >= 0 && (uint32_t)ids.p[i] < rf_tokenizer_n_vocab(t));
        /* Behind these four an unknown character may be a control token. */
        RF_ASSERT(parse || add || k > SPM || rf_token_kind_of(t, ids.p[i]) != RF_TOKEN_CONTROL);
    }
    RF_ASSERT(rf_detokenize(t, ids.p, ids.len, false, &back, &e) == RF_OK);
    check_stream(t, &ids, &back);
    if ((k == GPT2 || k == LLAMA3) && !parse &&
        rf_utf8_valid_prefix(text.p, text.len) == text.len) {
        RF_ASSERT(rf_str_eq(rf_buf_str(&back), text));
    }
    rf_ids_free(&ids);
    rf_buf_free(&back);
    return 0;
}
