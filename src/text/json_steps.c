/* json_steps.c - normalisers, pre-tokenizers and decoders of a tokenizer.json as pipeline steps. */
#include <string.h>

#include "text/tokenizer_json.h"

static rf_status add(rf_steps *steps, rf_step_kind kind, const rf_node *n, rf_step **out,
                     rf_error *e) {
    *out = rf_steps_add(steps, kind);
    if (*out) return RF_OK;
    return rf_node_fail(n, RF_EUNSUPPORTED, e, "more than %d steps", RF_STEPS_MAX);
}

/* {"String": text} or {"Regex": pattern}. */
static rf_status load_pattern(const rf_node *n, rf_pattern **out, rf_error *e) {
    rf_node text = rf_node_key(n, "String"), regex = rf_node_key(n, "Regex");
    RF_TRY(rf_node_need(n, RF_JSON_OBJECT, e));
    rf_error why = {0};
    rf_str s;
    rf_status status;
    if (text.json) {
        RF_TRY(rf_node_str(&text, &s, e));
        if (s.len == 0) return rf_node_fail(&text, RF_EFORMAT, e, "empty");
        status = rf_pattern_literal(out, s, &why);
        return status == RF_OK ? RF_OK : rf_node_pass(&text, &why, e);
    }
    RF_TRY(rf_node_str(&regex, &s, e));
    rf_buf ours = {0};
    status = rf_pattern_translate(s, &ours, &why);
    if (status == RF_OK) status = rf_pattern_compile(out, rf_buf_str(&ours), &why);
    rf_buf_free(&ours);
    return status == RF_OK ? RF_OK : rf_node_pass(&regex, &why, e);
}

/* --- normalisers ----------------------------------------------------------------------------- */

#define SIMPLE(name, kind)                                                  \
    static rf_status name(rf_tokenizer *t, const rf_node *n, rf_error *e) { \
        rf_step *step;                                                      \
        return add(&t->pipe->normal, kind, n, &step, e);                    \
    }
SIMPLE(nfc, RF_STEP_NFC)
SIMPLE(nfd, RF_STEP_NFD)
SIMPLE(nfkc, RF_STEP_NFKC)
SIMPLE(nfkd, RF_STEP_NFKD)
SIMPLE(lowercase, RF_STEP_LOWERCASE)
SIMPLE(strip_accents, RF_STEP_ACCENTS)
SIMPLE(nmt, RF_STEP_NMT)
SIMPLE(normal_letters, RF_STEP_LETTERS)

static rf_status normal_sequence(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    return rf_json_load_list(t, n, "normalizers", RF_JSON_NORMALIZERS, e);
}

static rf_status strip(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    bool left = true, right = true;
    rf_step *step;
    RF_TRY(rf_node_get_bool(n, "strip_left", &left, e));
    RF_TRY(rf_node_get_bool(n, "strip_right", &right, e));
    RF_TRY(add(&t->pipe->normal, RF_STEP_STRIP, n, &step, e));
    step->n_start = left;
    step->n_end = right;
    return RF_OK;
}

static rf_status normal_replace(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_node pattern = rf_node_key(n, "pattern"), content = rf_node_key(n, "content");
    rf_str with;
    rf_step *step;
    RF_TRY(rf_node_str(&content, &with, e));
    RF_TRY(add(&t->pipe->normal, RF_STEP_REPLACE, n, &step, e));
    RF_TRY(rf_json_keep(t, with, &step->with, e));
    return load_pattern(&pattern, &step->pattern, e);
}

static rf_status prepend(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_node text = rf_node_key(n, "prepend");
    rf_str with;
    rf_step *step;
    RF_TRY(rf_node_str(&text, &with, e));
    RF_TRY(add(&t->pipe->normal, RF_STEP_PREPEND, n, &step, e));
    return rf_json_keep(t, with, &step->with, e);
}

static rf_status bert_normalizer(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    bool clean = true, chinese = true, lower = true, accents;
    RF_TRY(rf_node_get_bool(n, "clean_text", &clean, e));
    RF_TRY(rf_node_get_bool(n, "handle_chinese_chars", &chinese, e));
    RF_TRY(rf_node_get_bool(n, "lowercase", &lower, e));
    accents = lower;
    RF_TRY(rf_node_get_bool(n, "strip_accents", &accents, e));
    const struct {
        bool wanted;
        rf_step_kind kind;
    } steps[] = {{clean, RF_STEP_CLEAN},
                 {chinese, RF_STEP_CHINESE},
                 {accents, RF_STEP_NFD},
                 {accents, RF_STEP_NONSPACING},
                 {lower, RF_STEP_LOWERCASE}};
    for (size_t i = 0; i < RF_COUNT(steps); i++) {
        rf_step *step;
        if (steps[i].wanted) RF_TRY(add(&t->pipe->normal, steps[i].kind, n, &step, e));
    }
    return RF_OK;
}

static int base64_value(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static bool base64(rf_str text, char *out, size_t *n) {
    uint32_t bits = 0;
    int n_bits = 0;
    *n = 0;
    while (text.len && text.p[text.len - 1] == '=') {
        text.len--;
    }
    for (size_t i = 0; i < text.len; i++) {
        int v = base64_value(text.p[i]);
        if (v < 0) return false;
        bits = (bits << 6 | (uint32_t)v) & 0xFFFF;
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        out[(*n)++] = (char)(bits >> n_bits);
    }
    return true;
}

static rf_status precompiled(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_node map = rf_node_key(n, "precompiled_charsmap");
    rf_str text = {"", 0};
    rf_step *step;
    RF_TRY(rf_node_get_str(n, "precompiled_charsmap", &text, e));
    if (t->pipe->charsmap.n_units) {
        return rf_node_fail(n, RF_EUNSUPPORTED, e, "more than one map of characters");
    }
    char *bytes = rf_arena_alloc(t->arena, text.len + 1, 1);
    size_t len;
    if (!bytes) return rf_fail_nomem(e, text.len);
    if (!base64(text, bytes, &len)) return rf_node_fail(&map, RF_EFORMAT, e, "not base64");
    rf_error why = {0};
    if (rf_charsmap_open(&t->pipe->charsmap, (rf_str){bytes, len}, &why) != RF_OK) {
        return rf_node_pass(&map, &why, e);
    }
    return add(&t->pipe->normal, RF_STEP_CHARSMAP, n, &step, e);
}

const rf_json_type_row rf_json_normalizers[] = {{"NFC", nfc},
                                                {"NFD", nfd},
                                                {"NFKC", nfkc},
                                                {"NFKD", nfkd},
                                                {"Lowercase", lowercase},
                                                {"Strip", strip},
                                                {"StripAccents", strip_accents},
                                                {"Replace", normal_replace},
                                                {"Prepend", prepend},
                                                {"BertNormalizer", bert_normalizer},
                                                {"Precompiled", precompiled},
                                                {"Nmt", nmt},
                                                {"ByteLevel", normal_letters},
                                                {"Sequence", normal_sequence},
                                                {NULL, NULL}};

/* --- pre-tokenizers -------------------------------------------------------------------------- */

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* Letters, marks, digits, connectors, circled and squared letters, joiners. */
#define WORD                                                                    \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}" \
    "\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}\\x{200C}\\x{200D}"

static rf_status behavior(const rf_node *n, rf_behavior *out, rf_error *e) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    rf_node at = rf_node_key(n, "behavior");
    rf_str name;
    RF_TRY(rf_node_str(&at, &name, e));
    for (size_t i = 0; i < RF_COUNT(names); i++) {
        if (!rf_str_is(name, names[i])) continue;
        *out = (rf_behavior)i;
        return RF_OK;
    }
    return rf_node_fail(&at, RF_EFORMAT, e,
                        "\"%.*s\", expected Removed, Isolated, MergedWithPrevious, MergedWithNext "
                        "or Contiguous",
                        RF_STR_ARG(name));
}

static rf_status add_split(rf_tokenizer *t, const rf_node *n, const char *regex, rf_behavior how,
                           bool invert, rf_error *e) {
    rf_step *step;
    RF_TRY(add(&t->pipe->split, RF_STEP_SPLIT, n, &step, e));
    step->behavior = how;
    step->invert = invert;
    rf_buf ours = {0};
    rf_status s = rf_pattern_translate(rf_str_of(regex), &ours, e);
    if (s == RF_OK) s = rf_pattern_compile(&step->pattern, rf_buf_str(&ours), e);
    rf_buf_free(&ours);
    return s;
}

static rf_status pre_sequence(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    return rf_json_load_list(t, n, "pretokenizers", RF_JSON_PRE_TOKENIZERS, e);
}

static rf_status byte_level(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    bool prefix = true, regex = true;
    rf_step *step;
    RF_TRY(rf_node_get_bool(n, "add_prefix_space", &prefix, e));
    RF_TRY(rf_node_get_bool(n, "use_regex", &regex, e));
    if (prefix) {
        RF_TRY(add(&t->pipe->split, RF_STEP_WORD_PREFIX, n, &step, e));
        step->when = RF_ALWAYS;
        step->with = RF_STR(" ");
    }
    if (regex) RF_TRY(add_split(t, n, GPT2, RF_SPLIT_ISOLATED, false, e));
    return add(&t->pipe->split, RF_STEP_LETTERS, n, &step, e);
}

/* What Metaspace says, as pre-tokenizer and as decoder. */
static rf_status metaspace_options(rf_tokenizer *t, const rf_node *n, rf_str *space, rf_when *when,
                                   rf_error *e) {
    rf_str text = RF_STR(RF_SPM_SPACE), scheme = {0};
    bool prefix = true;
    RF_TRY(rf_node_get_str(n, "replacement", &text, e));
    RF_TRY(rf_node_get_bool(n, "add_prefix_space", &prefix, e));
    RF_TRY(rf_node_get_str(n, "prepend_scheme", &scheme, e));
    rf_node at = rf_node_key(n, "prepend_scheme"), at_text = rf_node_key(n, "replacement");
    if (text.len == 0) return rf_node_fail(&at_text, RF_EFORMAT, e, "empty");
    *when = prefix ? RF_ALWAYS : RF_NEVER;
    if (rf_str_is(scheme, "first")) {
        *when = RF_FIRST;
    } else if (rf_str_is(scheme, "never")) {
        *when = RF_NEVER;
    } else if (rf_str_is(scheme, "always")) {
        *when = RF_ALWAYS;
    } else if (scheme.p) {
        return rf_node_fail(&at, RF_EFORMAT, e, "\"%.*s\", expected always, first or never",
                            RF_STR_ARG(scheme));
    }
    return rf_json_keep(t, text, space, e);
}

static rf_status metaspace(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_str space;
    rf_when when = RF_ALWAYS;
    bool split = true;
    rf_step *step;
    RF_TRY(metaspace_options(t, n, &space, &when, e));
    RF_TRY(rf_node_get_bool(n, "split", &split, e));
    RF_TRY(add(&t->pipe->split, RF_STEP_METASPACE, n, &step, e));
    step->with = space;
    RF_TRY(add(&t->pipe->split, RF_STEP_WORD_PREFIX, n, &step, e));
    step->with = space;
    step->when = when;
    if (!split) return RF_OK;
    RF_TRY(add(&t->pipe->split, RF_STEP_SPLIT, n, &step, e));
    step->behavior = RF_SPLIT_MERGED_WITH_NEXT;
    return rf_pattern_literal(&step->pattern, space, e);
}

static rf_status whitespace(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    return add_split(t, n, "[" WORD "]+|[^" WORD "\\s]+", RF_SPLIT_REMOVED, true, e);
}

static rf_status whitespace_split(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    return add_split(t, n, "\\s", RF_SPLIT_REMOVED, false, e);
}

static rf_status split(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_node pattern = rf_node_key(n, "pattern");
    rf_step *step;
    RF_TRY(add(&t->pipe->split, RF_STEP_SPLIT, n, &step, e));
    RF_TRY(behavior(n, &step->behavior, e));
    RF_TRY(rf_node_get_bool(n, "invert", &step->invert, e));
    return load_pattern(&pattern, &step->pattern, e);
}

static rf_status delimiter(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_node at = rf_node_key(n, "delimiter");
    rf_str text;
    rf_step *step;
    RF_TRY(rf_node_str(&at, &text, e));
    if (text.len == 0) return rf_node_fail(&at, RF_EFORMAT, e, "empty");
    RF_TRY(add(&t->pipe->split, RF_STEP_SPLIT, n, &step, e));
    step->behavior = RF_SPLIT_REMOVED;
    return rf_pattern_literal(&step->pattern, text, e);
}

static rf_status digits(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    bool individual = false;
    RF_TRY(rf_node_get_bool(n, "individual_digits", &individual, e));
    return add_split(t, n, "\\p{N}", individual ? RF_SPLIT_ISOLATED : RF_SPLIT_CONTIGUOUS, false,
                     e);
}

static rf_status punctuation(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_behavior how = RF_SPLIT_ISOLATED;
    rf_node at = rf_node_key(n, "behavior");
    if (!rf_node_absent(&at)) RF_TRY(behavior(n, &how, e));
    return add_split(t, n, RF_PATTERN_PUNCTUATION, how, false, e);
}

static rf_status bert_pre_tokenizer(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    RF_TRY(whitespace_split(t, n, e));
    return add_split(t, n, RF_PATTERN_PUNCTUATION, RF_SPLIT_ISOLATED, false, e);
}

const rf_json_type_row rf_json_pre_tokenizers[] = {{"ByteLevel", byte_level},
                                                   {"Metaspace", metaspace},
                                                   {"Whitespace", whitespace},
                                                   {"WhitespaceSplit", whitespace_split},
                                                   {"Split", split},
                                                   {"CharDelimiterSplit", delimiter},
                                                   {"Digits", digits},
                                                   {"Punctuation", punctuation},
                                                   {"BertPreTokenizer", bert_pre_tokenizer},
                                                   {"Sequence", pre_sequence},
                                                   {NULL, NULL}};

/* --- decoders -------------------------------------------------------------------------------- */

static rf_status decode_sequence(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    return rf_json_load_list(t, n, "decoders", RF_JSON_DECODERS, e);
}

#define SIMPLE_DECODER(name, kind)                                          \
    static rf_status name(rf_tokenizer *t, const rf_node *n, rf_error *e) { \
        rf_step *step;                                                      \
        return add(&t->pipe->decode, kind, n, &step, e);                    \
    }
SIMPLE_DECODER(unletters, RF_STEP_UNLETTERS)
SIMPLE_DECODER(byte_fallback, RF_STEP_BYTES)
SIMPLE_DECODER(fuse, RF_STEP_FUSE)

static rf_status decode_wordpiece(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_str prefix = RF_STR("##");
    rf_step *step;
    RF_TRY(add(&t->pipe->decode, RF_STEP_WORDPIECE, n, &step, e));
    step->flag = true;
    RF_TRY(rf_node_get_str(n, "prefix", &prefix, e));
    RF_TRY(rf_node_get_bool(n, "cleanup", &step->flag, e));
    return rf_json_keep(t, prefix, &step->with, e);
}

static rf_status decode_metaspace(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_when when = RF_ALWAYS;
    rf_step *step;
    RF_TRY(add(&t->pipe->decode, RF_STEP_METASPACE, n, &step, e));
    RF_TRY(metaspace_options(t, n, &step->with, &when, e));
    step->flag = when != RF_NEVER;
    return RF_OK;
}

static bool is_fused(const rf_steps *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->p[i].kind == RF_STEP_FUSE) return true;
    }
    return false;
}

static rf_status decode_strip(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_node content = rf_node_key(n, "content"), stop = rf_node_key(n, "stop");
    rf_str text;
    rf_step *step;
    RF_TRY(rf_node_str(&content, &text, e));
    bool fused = is_fused(&t->pipe->decode);
    RF_TRY(add(&t->pipe->decode, RF_STEP_CUT, n, &step, e));
    RF_TRY(rf_node_get_u32(n, "start", &step->n_start, e));
    RF_TRY(rf_node_get_u32(n, "stop", &step->n_end, e));
    if (fused && step->n_end) {
        return rf_node_fail(&stop, RF_EUNSUPPORTED, e,
                            "%u: the end of a text cannot be cut while it is still being decoded; "
                            "expected 0 behind Fuse",
                            step->n_end);
    }
    return rf_json_keep(t, text, &step->with, e);
}

static rf_status decode_replace(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_node pattern = rf_node_key(n, "pattern"), text = rf_node_key(&pattern, "String");
    rf_node content = rf_node_key(n, "content");
    rf_str what, with;
    rf_step *step;
    RF_TRY(rf_node_str(&text, &what, e));
    RF_TRY(rf_node_str(&content, &with, e));
    if (what.len == 0) return rf_node_fail(&text, RF_EFORMAT, e, "empty");
    RF_TRY(add(&t->pipe->decode, RF_STEP_REPLACE, n, &step, e));
    RF_TRY(rf_json_keep(t, what, &step->what, e));
    return rf_json_keep(t, with, &step->with, e);
}

const rf_json_type_row rf_json_decoders[] = {{"ByteLevel", unletters},
                                             {"WordPiece", decode_wordpiece},
                                             {"Metaspace", decode_metaspace},
                                             {"ByteFallback", byte_fallback},
                                             {"Fuse", fuse},
                                             {"Strip", decode_strip},
                                             {"Replace", decode_replace},
                                             {"Sequence", decode_sequence},
                                             {NULL, NULL}};
