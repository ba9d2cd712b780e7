/* vocab.c - a tokenizer from the metadata of a GGUF file: everything checked, then the accessors.
 *
 * Token texts stay in the file's map; 150,000 tokens cost a handful of allocations. */
#include "text/vocab.h"

#include <string.h>

#include "base/log.h"

#define KEY "tokenizer.ggml."

static const char supported_models[] =
    "\"gpt2\" (byte-level BPE) and \"llama\" (SentencePiece BPE)";

static rf_status load_tokens(rf_tokenizer *t, const rf_gguf *g, rf_error *e) {
    const rf_gguf_kv *kv;
    RF_TRY(rf_gguf_get_array(g, KEY "tokens", RF_GGUF_STRING, &kv, e));
    if (!kv) return rf_fail(e, RF_EFORMAT, KEY "tokens: missing; the file has no vocabulary");
    if (kv->n == 0 || kv->n >= INT32_MAX) {
        return rf_fail(e, RF_EFORMAT, KEY "tokens: %llu tokens, expected 1 to %d",
                       (unsigned long long)kv->n, INT32_MAX - 1);
    }
    t->n_vocab = (uint32_t)kv->n;
    rf_str *text = rf_arena_alloc(t->arena, t->n_vocab, sizeof *text);
    if (!text) return rf_fail_nomem(e, t->n_vocab * sizeof *text);
    const uint8_t *cursor = kv->data;
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        text[id] = rf_gguf_next_str(&cursor);
        if (text[id].len > t->max_token_bytes) {
            t->max_token_bytes = text[id].len > UINT32_MAX ? UINT32_MAX : (uint32_t)text[id].len;
        }
    }
    if (rf_index_build(&t->by_text, t->arena, text, t->n_vocab) != RF_OK) {
        return rf_fail_nomem(e, t->n_vocab * sizeof(uint64_t));
    }
    t->text = text;
    return RF_OK;
}

static rf_status load_kinds(rf_tokenizer *t, const rf_gguf *g, rf_error *e) {
    t->kind = rf_arena_alloc(t->arena, t->n_vocab, 1);
    t->is_end = rf_arena_alloc(t->arena, t->n_vocab, 1);
    t->keeps_space = rf_arena_alloc(t->arena, t->n_vocab, 1);
    if (!t->kind || !t->is_end || !t->keeps_space) return rf_fail_nomem(e, t->n_vocab);
    memset(t->kind, RF_TOKEN_NORMAL, t->n_vocab);
    const rf_gguf_kv *kv;
    RF_TRY(rf_gguf_get_array(g, KEY "token_type", RF_GGUF_I32, &kv, e));
    if (!kv) return RF_OK;
    if (kv->n != t->n_vocab) {
        return rf_fail(e, RF_EFORMAT, KEY "token_type: expected %u, one a token, got %llu",
                       t->n_vocab, (unsigned long long)kv->n);
    }
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        uint64_t kind = rf_gguf_elem_u64(kv, id);
        if (kind > RF_TOKEN_BYTE) {
            return rf_fail(e, RF_EFORMAT, KEY "token_type[%u]: %lld, expected 0 to %d", id,
                           (long long)kind, (int)RF_TOKEN_BYTE);
        }
        if (kind == RF_TOKEN_BYTE && rf_spm_byte_value(t->text[id]) < 0) {
            return rf_fail(e, RF_EFORMAT,
                           KEY "tokens[%u]: \"%.*s\" is of type byte, expected \"<0x00>\" to "
                               "\"<0xFF>\"",
                           id, RF_STR_ARG(t->text[id]));
        }
        t->kind[id] = kind == 0 ? RF_TOKEN_UNUSED : (uint8_t)kind; /* 0: undefined */
    }
    return RF_OK;
}

/* A special id: from the file, or the model's default, which must then exist if it is needed. */
static rf_status load_id(const rf_tokenizer *t, const rf_gguf *g, const char *key, int32_t fallback,
                         int32_t *out, rf_error *e) {
    uint32_t id;
    bool found;
    RF_TRY(rf_gguf_get_u32(g, key, &id, &found, e));
    *out = found ? (int32_t)id : fallback;
    if (!found && fallback == RF_TOKEN_NONE) return RF_OK;
    if ((found ? id : (uint32_t)fallback) < t->n_vocab) return RF_OK;
    return rf_fail(e, RF_EFORMAT, "%s: %s%u is not a token of the vocabulary of %u", key,
                   found ? "" : "missing, and the default ", found ? id : (uint32_t)fallback,
                   t->n_vocab);
}

static rf_status load_ids(rf_tokenizer *t, const rf_gguf *g, const rf_pretok_spec *spec,
                          rf_error *e) {
    enum { BPE_DEFAULT = 11, SPM_BOS = 1, SPM_EOS = 2, SPM_UNK = 0 };
    int32_t bos = t->is_spm ? SPM_BOS : spec->no_bos ? RF_TOKEN_NONE : BPE_DEFAULT;
    RF_TRY(load_id(t, g, KEY "bos_token_id", bos, &t->bos, e));
    RF_TRY(load_id(t, g, KEY "eos_token_id", t->is_spm ? SPM_EOS : BPE_DEFAULT, &t->eos, e));
    RF_TRY(load_id(t, g, KEY "unknown_token_id", t->is_spm ? SPM_UNK : RF_TOKEN_NONE, &t->unk, e));
    t->add_bos = t->is_spm || spec->add_bos;
    RF_TRY(rf_gguf_get_bool(g, KEY "add_bos_token", &t->add_bos, NULL, e));
    RF_TRY(rf_gguf_get_bool(g, KEY "add_eos_token", &t->add_eos, NULL, e));
    t->space_prefix = t->is_spm;
    RF_TRY(rf_gguf_get_bool(g, KEY "add_space_prefix", &t->space_prefix, NULL, e));
    if (t->add_bos && t->bos == RF_TOKEN_NONE) {
        return rf_fail(e, RF_EFORMAT, KEY "add_bos_token: true, but there is no bos_token_id");
    }
    return RF_OK;
}

static bool contains(rf_str s, const char *lower) {
    size_t n = strlen(lower);
    for (size_t i = 0; i + n <= s.len; i++) {
        size_t k = 0;
        while (k < n &&
               (s.p[i + k] | (s.p[i + k] >= 'A' && s.p[i + k] <= 'Z' ? 0x20 : 0)) == lower[k]) {
            k++;
        }
        if (k == n) return true;
    }
    return false;
}

/* Phi-3's markers swallow the white space behind them, which GGUF has no key for; three do not. */
static rf_status load_stripping(rf_tokenizer *t, const rf_gguf *g, rf_error *e) {
    rf_str name = {0};
    RF_TRY(rf_gguf_get_str(g, "general.name", &name, NULL, e));
    if (!t->is_spm || (!contains(name, "phi-3") && !contains(name, "phi3"))) return RF_OK;
    t->strips_after = true;
    static const char *const keep[] = {"<unk>", "<s>", "<|endoftext|>"};
    for (size_t i = 0; i < RF_COUNT(keep); i++) {
        int32_t id = rf_token_find(t, rf_str_of(keep[i]));
        if (id != RF_TOKEN_NONE) t->keeps_space[id] = 1;
    }
    return RF_OK;
}

/* Which pre-tokenizer: the file's word; GPT-NeoX files are older than the key. */
static rf_status choose_pre(rf_tokenizer *t, const rf_gguf *g, const rf_pretok_spec **spec,
                            rf_error *e) {
    rf_str pre = {0}, arch = {0};
    bool found;
    RF_TRY(rf_gguf_get_str(g, KEY "pre", &pre, &found, e));
    RF_TRY(rf_gguf_get_str(g, "general.architecture", &arch, NULL, e));
    if (!found || pre.len == 0) {
        bool is_neox = rf_str_is(arch, "gptneox");
        pre = is_neox ? RF_STR("gpt-neox") : RF_STR("default");
        rf_log_write(is_neox ? RF_LOG_INFO : RF_LOG_WARN,
                     KEY "pre: missing; splitting text as \"%.*s\" does", RF_STR_ARG(pre));
    }
    *spec = rf_pretok_find(pre, &t->pre);
    if (*spec) return RF_OK;
    rf_buf known = {0};
    rf_pretok_list(&known);
    rf_status s = rf_fail(e, RF_EUNSUPPORTED, KEY "pre: unknown pre-tokenizer \"%.*s\"; known: %s",
                          RF_STR_ARG(pre), known.failed ? "?" : known.p);
    rf_buf_free(&known);
    return s;
}

static rf_status load(rf_tokenizer *t, const rf_gguf *g, rf_error *e) {
    rf_str model = {0};
    bool found;
    RF_TRY(rf_gguf_get_str(g, KEY "model", &model, &found, e));
    if (!found) return rf_fail(e, RF_EFORMAT, KEY "model: missing; the file has no tokenizer");
    t->is_spm = rf_str_is(model, "llama");
    if (!t->is_spm && !rf_str_is(model, "gpt2")) {
        return rf_fail(e, RF_EUNSUPPORTED,
                       KEY "model: unsupported tokenizer model \"%.*s\"; supported are %s",
                       RF_STR_ARG(model), supported_models);
    }
    const rf_pretok_spec *spec = NULL;
    t->pre = "";
    if (!t->is_spm) RF_TRY(choose_pre(t, g, &spec, e));
    RF_TRY(load_tokens(t, g, e));
    RF_TRY(load_kinds(t, g, e));
    RF_TRY(load_ids(t, g, spec, e));
    RF_TRY(rf_control_mark(t, g, e));
    RF_TRY(load_stripping(t, g, e));
    RF_TRY(rf_special_build(t, e));
    if (t->is_spm) return rf_spm_load(t, g, e);
    t->normalize = spec->normalize;
    t->ignore_merges = spec->ignore_merges;
    RF_TRY(rf_bpe_load(t, g, e));
    return rf_pretok_create(&t->pretok, spec, e);
}

rf_status rf_tokenizer_from_gguf(rf_tokenizer **out, const rf_gguf *g, rf_error *e) {
    *out = NULL;
    rf_arena *arena;
    if (rf_arena_create(&arena) != RF_OK) return rf_fail_nomem(e, sizeof(rf_tokenizer));
    rf_tokenizer *t = rf_arena_alloc(arena, 1, sizeof *t);
    if (!t) {
        rf_arena_free(arena);
        return rf_fail_nomem(e, sizeof *t);
    }
    t->arena = arena;
    rf_status s = load(t, g, e);
    if (s != RF_OK) {
        rf_tokenizer_free(t);
        return s;
    }
    *out = t;
    return RF_OK;
}

void rf_tokenizer_free(rf_tokenizer *t) {
    if (!t) return;
    rf_pretok_free(t->pretok);
    rf_arena_free(t->arena);
}

const char *rf_tokenizer_model(const rf_tokenizer *t) { return t->is_spm ? "llama" : "gpt2"; }

const char *rf_tokenizer_pre(const rf_tokenizer *t) { return t->pre; }

uint32_t rf_tokenizer_n_vocab(const rf_tokenizer *t) { return t->n_vocab; }

int32_t rf_tokenizer_bos(const rf_tokenizer *t) { return t->bos; }

int32_t rf_tokenizer_eos(const rf_tokenizer *t) { return t->eos; }

bool rf_tokenizer_adds_bos(const rf_tokenizer *t) { return t->add_bos; }

bool rf_tokenizer_adds_eos(const rf_tokenizer *t) { return t->add_eos; }

static bool in_vocab(const rf_tokenizer *t, int32_t token) {
    return token >= 0 && (uint32_t)token < t->n_vocab;
}

rf_token_kind rf_token_kind_of(const rf_tokenizer *t, int32_t token) {
    return in_vocab(t, token) ? (rf_token_kind)t->kind[token] : RF_TOKEN_UNKNOWN;
}

bool rf_token_is_end(const rf_tokenizer *t, int32_t token) {
    return in_vocab(t, token) && t->is_end[token];
}

int32_t rf_token_find(const rf_tokenizer *t, rf_str text) {
    uint32_t id = text.len ? rf_index_get(&t->by_text, text) : RF_INDEX_NONE;
    return id == RF_INDEX_NONE ? RF_TOKEN_NONE : (int32_t)id;
}
