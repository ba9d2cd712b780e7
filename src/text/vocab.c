/* vocab.c - a tokenizer from the metadata of a GGUF file: everything checked, then the accessors.
 *
 * Token texts stay in the file's map; 150,000 tokens cost a handful of allocations. */
#include "text/pipeline.h"

#include <string.h>

#include "base/log.h"

#define KEY "tokenizer.ggml."

typedef struct rf_vocab_defaults {
    int32_t bos, eos, sep, unk;
    bool add_bos, add_eos, add_sep, space_prefix;
} rf_vocab_defaults;

static rf_status load_tokens(rf_tokenizer *t, const rf_gguf *g, rf_error *e) {
    const rf_gguf_kv *kv;
    RF_TRY(rf_gguf_get_array(g, KEY "tokens", RF_GGUF_STRING, &kv, e));
    if (!kv) return rf_fail(e, RF_EFORMAT, KEY "tokens: missing; the file has no vocabulary");
    if (kv->n == 0 || kv->n >= INT32_MAX) {
        return rf_fail(e, RF_EFORMAT, KEY "tokens: %llu tokens, expected 1 to %d",
                       (unsigned long long)kv->n, INT32_MAX - 1);
    }
    uint32_t n = (uint32_t)kv->n;
    rf_str *text = rf_arena_alloc(t->arena, n, sizeof *text);
    if (!text) return rf_fail_nomem(e, n * sizeof *text);
    const uint8_t *cursor = kv->data;
    for (uint32_t id = 0; id < n; id++) {
        text[id] = rf_gguf_next_str(&cursor);
    }
    return rf_tokenizer_set_texts(t, text, n, e);
}

rf_status rf_tokenizer_set_texts(rf_tokenizer *t, const rf_str *text, uint32_t n, rf_error *e) {
    t->n_vocab = n;
    for (uint32_t id = 0; id < n; id++) {
        if (text[id].len > t->max_token_bytes) {
            t->max_token_bytes = text[id].len > UINT32_MAX ? UINT32_MAX : (uint32_t)text[id].len;
        }
    }
    if (rf_index_build(&t->by_text, t->arena, text, n) != RF_OK) {
        return rf_fail_nomem(e, n * sizeof(uint64_t));
    }
    t->text = text;
    t->kind = rf_arena_alloc(t->arena, n, 1);
    t->is_end = rf_arena_alloc(t->arena, n, 1);
    t->keeps_space = rf_arena_alloc(t->arena, n, 1);
    if (!t->kind || !t->is_end || !t->keeps_space) return rf_fail_nomem(e, n);
    memset(t->kind, RF_TOKEN_NORMAL, n);
    memset(t->byte_token, 0xFF, sizeof t->byte_token);
    return RF_OK;
}

static rf_status load_kinds(rf_tokenizer *t, const rf_gguf *g, rf_error *e) {
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

/* What a model has where the file does not say. */
static rf_vocab_defaults defaults_of(const rf_tokenizer *t, const rf_pretok_spec *spec) {
    enum { BPE = 11, NONE = RF_TOKEN_NONE };
    if (t->is_spm) return (rf_vocab_defaults){1, 2, NONE, 0, true, false, false, true};
    if (strcmp(t->model, "bert") == 0) {
        return (rf_vocab_defaults){101, NONE, 102, 100, true, false, true, true};
    }
    if (strcmp(t->model, "t5") == 0) {
        return (rf_vocab_defaults){NONE, 1, NONE, 2, false, true, false, true};
    }
    int32_t eos = spec->characters ? NONE : BPE, bos = spec->no_bos ? NONE : eos;
    return (rf_vocab_defaults){bos, eos, NONE, NONE, spec->add_bos, false, false, false};
}

static rf_status load_ids(rf_tokenizer *t, const rf_gguf *g, const rf_pretok_spec *spec,
                          rf_error *e) {
    rf_vocab_defaults d = defaults_of(t, spec);
    t->add_bos = d.add_bos;
    t->add_eos = d.add_eos;
    t->add_sep = d.add_sep;
    t->space_prefix = d.space_prefix;
    RF_TRY(rf_gguf_get_bool(g, KEY "add_bos_token", &t->add_bos, NULL, e));
    RF_TRY(rf_gguf_get_bool(g, KEY "add_eos_token", &t->add_eos, NULL, e));
    if (d.add_sep) RF_TRY(rf_gguf_get_bool(g, KEY "add_sep_token", &t->add_sep, NULL, e));
    RF_TRY(rf_gguf_get_bool(g, KEY "add_space_prefix", &t->space_prefix, NULL, e));
    RF_TRY(load_id(t, g, KEY "bos_token_id", d.bos, &t->bos, e));
    RF_TRY(load_id(t, g, KEY "eos_token_id", d.eos, &t->eos, e));
    RF_TRY(load_id(t, g, KEY "unknown_token_id", d.unk, &t->unk, e));
    /* The key's own spelling. */
    RF_TRY(load_id(t, g, KEY "seperator_token_id", d.sep, &t->sep, e));
    if (t->add_bos && t->bos == RF_TOKEN_NONE) {
        return rf_fail(e, RF_EFORMAT, KEY "add_bos_token: true, but there is no bos_token_id");
    }
    if (t->add_eos && t->eos == RF_TOKEN_NONE) {
        return rf_fail(e, RF_EFORMAT, KEY "add_eos_token: true, but there is no eos_token_id");
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
    rf_log_write(RF_LOG_ERROR, "known pre-tokenizers: %s", known.failed ? "?" : known.p);
    rf_buf_free(&known);
    return rf_fail(e, RF_EUNSUPPORTED,
                   KEY
                   "pre: unknown pre-tokenizer \"%.*s\"; the log and docs/tokenizers.md list the "
                   "known ones",
                   pre.len > 64 ? 64 : (int)pre.len, pre.p);
}

static bool is_special(const rf_tokenizer *t, uint32_t id) {
    return t->kind[id] == RF_TOKEN_CONTROL || t->kind[id] == RF_TOKEN_UNKNOWN ||
           t->kind[id] == RF_TOKEN_USER_DEFINED;
}

static rf_status load_special(rf_tokenizer *t, rf_error *e) {
    uint32_t *ids = rf_arena_alloc(t->arena, t->n_vocab, sizeof *ids), n = 0;
    if (!ids) return rf_fail_nomem(e, t->n_vocab * sizeof *ids);
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        if (is_special(t, id)) ids[n++] = id;
    }
    return rf_special_build(&t->special, t->arena, t->text, ids, n, e);
}

/* The models of GGUF files. */
typedef struct vocab_model {
    const char *name, *what;
    const char *pre; /* the only pre-tokenizer there is, or NULL */
    bool has_pre;
    rf_status (*load)(rf_tokenizer *t, const rf_gguf *g, const rf_pretok_spec *spec, rf_error *e);
} vocab_model;

static rf_status load_bpe(rf_tokenizer *t, const rf_gguf *g, const rf_pretok_spec *spec,
                          rf_error *e) {
    t->normalize = spec->normalize;
    t->ignore_merges = spec->ignore_merges;
    RF_TRY(rf_bpe_load(t, g, e));
    if (spec->characters) return rf_pipeline_from_characters(t, spec, e);
    return rf_pretok_create(&t->pretok, spec, e);
}

static rf_status load_spm(rf_tokenizer *t, const rf_gguf *g, const rf_pretok_spec *spec,
                          rf_error *e) {
    (void)spec;
    t->is_spm = t->writes_spaces = true;
    return rf_spm_load(t, g, e);
}

static rf_status load_wordpiece(rf_tokenizer *t, const rf_gguf *g, const rf_pretok_spec *spec,
                                rf_error *e) {
    (void)spec;
    return rf_pipeline_from_bert(t, g, e);
}

static rf_status load_unigram(rf_tokenizer *t, const rf_gguf *g, const rf_pretok_spec *spec,
                              rf_error *e) {
    (void)spec;
    return rf_pipeline_from_t5(t, g, e);
}

static const vocab_model models[] = {
    {"gpt2", "byte-level BPE", NULL, true, load_bpe},
    {"gemma4", "BPE over characters", "gemma4", true, load_bpe},
    {"whitespace", "BPE over characters", "whitespace", true, load_bpe},
    {"llama", "SentencePiece BPE", NULL, false, load_spm},
    {"bert", "WordPiece", NULL, false, load_wordpiece},
    {"t5", "Unigram", NULL, false, load_unigram},
};

static rf_status choose_model(rf_tokenizer *t, const rf_gguf *g, const vocab_model **out,
                              rf_error *e) {
    rf_str name = {0};
    bool found;
    RF_TRY(rf_gguf_get_str(g, KEY "model", &name, &found, e));
    if (!found) return rf_fail(e, RF_EFORMAT, KEY "model: missing; the file has no tokenizer");
    for (size_t i = 0; i < RF_COUNT(models); i++) {
        if (!rf_str_is(name, models[i].name)) continue;
        *out = &models[i];
        t->model = models[i].name;
        return RF_OK;
    }
    rf_buf known = {0};
    for (size_t i = 0; i < RF_COUNT(models); i++) {
        rf_buf_printf(&known, "%s\"%s\" (%s)", i ? ", " : "", models[i].name, models[i].what);
    }
    rf_status s = rf_fail(e, RF_EUNSUPPORTED,
                          KEY "model: unsupported tokenizer model \"%.*s\"; supported are %s",
                          RF_STR_ARG(name), known.failed ? "?" : known.p);
    rf_buf_free(&known);
    return s;
}

static rf_status load(rf_tokenizer *t, const rf_gguf *g, rf_error *e) {
    const vocab_model *model = NULL;
    RF_TRY(choose_model(t, g, &model, e));
    t->is_spm = model->load == load_spm;
    const rf_pretok_spec *spec = NULL;
    t->pre = "";
    if (model->pre) {
        spec = rf_pretok_find(rf_str_of(model->pre), &t->pre);
    } else if (model->has_pre) {
        RF_TRY(choose_pre(t, g, &spec, e));
    }
    RF_TRY(load_tokens(t, g, e));
    RF_TRY(load_kinds(t, g, e));
    RF_TRY(load_ids(t, g, spec, e));
    RF_TRY(rf_control_mark(t, g, e));
    RF_TRY(load_stripping(t, g, e));
    RF_TRY(load_special(t, e));
    return model->load(t, g, spec, e);
}

rf_status rf_tokenizer_create(rf_tokenizer **out, rf_error *e) {
    *out = NULL;
    rf_arena *arena;
    if (rf_arena_create(&arena) != RF_OK) return rf_fail_nomem(e, sizeof(rf_tokenizer));
    rf_tokenizer *t = rf_arena_alloc(arena, 1, sizeof *t);
    if (!t) {
        rf_arena_free(arena);
        return rf_fail_nomem(e, sizeof *t);
    }
    t->arena = arena;
    t->model = t->pre = "";
    t->bos = t->eos = t->sep = t->unk = RF_TOKEN_NONE;
    *out = t;
    return RF_OK;
}

rf_status rf_tokenizer_from_gguf(rf_tokenizer **out, const rf_gguf *g, rf_error *e) {
    rf_tokenizer *t;
    *out = NULL;
    RF_TRY(rf_tokenizer_create(&t, e));
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
    rf_pipeline_close(t->pipe);
    rf_gguf_close(t->file);
    rf_arena_free(t->arena);
}

const char *rf_tokenizer_model(const rf_tokenizer *t) { return t->model; }

const char *rf_tokenizer_pre(const rf_tokenizer *t) { return t->pre; }

uint32_t rf_tokenizer_n_vocab(const rf_tokenizer *t) { return t->n_vocab; }

int32_t rf_tokenizer_bos(const rf_tokenizer *t) { return t->bos; }

int32_t rf_tokenizer_eos(const rf_tokenizer *t) { return t->eos; }

bool rf_tokenizer_adds_bos(const rf_tokenizer *t) {
    return t->add_bos || (t->pipe && t->pipe->n_before);
}

bool rf_tokenizer_adds_eos(const rf_tokenizer *t) {
    return t->add_eos || (t->pipe && t->pipe->n_after);
}

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
