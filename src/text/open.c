/* open.c - a tokenizer from a file, whatever kind of file it is: GGUF, or Hugging Face's
 * tokenizer.json, known by its first bytes. */
#include <string.h>

#include "base/os.h"
#include "text/vocab.h"

static rf_status open_gguf(rf_tokenizer **out, const char *path, rf_error *e) {
    rf_gguf *g = NULL;
    RF_TRY(rf_gguf_open(&g, path, e));
    rf_status s = rf_tokenizer_from_gguf(out, g, e);
    if (s == RF_OK) {
        (*out)->file = g;
    } else {
        rf_gguf_close(g);
    }
    return s;
}

static bool is_json(const rf_filemap *m) {
    size_t i = 0;
    while (i < m->size && memchr(" \t\r\n", m->data[i], 4)) {
        i++;
    }
    return i < m->size && m->data[i] == '{';
}

rf_status rf_tokenizer_open(rf_tokenizer **out, const char *path, rf_error *e) {
    rf_filemap m;
    *out = NULL;
    RF_TRY(rf_filemap_open(&m, path, e));
    bool json = is_json(&m);
    rf_status s = RF_OK;
    if (json) {
        rf_error why = {0};
        s = rf_tokenizer_from_json(out, (rf_str){(const char *)m.data, m.size}, &why);
        if (s != RF_OK) rf_fail(e, s, "%s: %s", path, why.text);
    }
    rf_filemap_close(&m);
    return json ? s : open_gguf(out, path, e);
}
