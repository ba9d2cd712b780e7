/* pretok.c - the table of pre-tokenizers, and their patterns run by PCRE2 with its JIT compiler.
 *
 * The patterns are those of the models' own tokenizer.json files (the regular expressions of
 * Oniguruma), rewritten where PCRE2 reads the same text differently: \s and \S are spelt out, since
 * PCRE2's \s has U+180E too; letters outside ASCII are written as code points. */
#include "text/pretok.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define WS "\\t-\\r\\x{85}\\p{Z}" /* inside a class: what \s means */
#define S  "[" WS "]"
#define NS "[^" WS "]"

#define SPACES "|" S "+(?!" NS ")|" S "+"
#define GPT2   "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+" SPACES
/* The family of cl100k: words with one leading mark, short numbers, marks with line ends. */
#define TAIL     "| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*|" S "*[\\r\\n]+" SPACES
#define SUFFIXES "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORD     "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define LLAMA3   SUFFIXES "|" WORD "|\\p{N}{1,3}" TAIL
#define QWEN2    SUFFIXES "|" WORD "|\\p{N}" TAIL
#define QWEN35                                               \
    SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}" \
             "| ?[^" WS "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" S "*[\\r\\n]+" SPACES
/* The family of o200k: a word is capitals, then small letters. */
#define UPPER      "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER      "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define MARK       "[^\\r\\n\\p{L}\\p{N}]?"
#define TAIL_SLASH "| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n/]*|" S "*[\\r\\n]+" SPACES
#define GPT4O                                                                \
    MARK UPPER "*" LOWER "+" SUFFIXES "?|" MARK UPPER "+" LOWER "*" SUFFIXES \
               "?|\\p{N}{1,3}" TAIL_SLASH
#define TEKKEN MARK UPPER "*" LOWER "+|" MARK UPPER "+" LOWER "*|\\p{N}" TAIL_SLASH

#define CJK_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define CJK_WIDE "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define DEEPSEEK3                                                                \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"                      \
    "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" S \
    "*[\\r\\n]+" SPACES
/* Most cased letters of Unicode 11: the list that DeepSeek LLM was trained with. */
#define CASED                                                                               \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"          \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"  \
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"           \
    "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"                \
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"          \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"          \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}" \
    "\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}"  \
    "\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}"          \
    "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"           \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}"            \
    "\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}" \
    "\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"  \
    "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"           \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"          \
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"        \
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"  \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"
#define MARKS_WIDE \
    "!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}"
/* White space at the very end.  The look-behind lets a match start only where a run starts, so that
 * a long run elsewhere is scanned once and not once per character. */
#define END_SPACES "(?<!" S ")" S "+\\z"

static const rf_pretok_spec specs[] = {
    {.names = {"default"}, .steps = {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names = {"gpt-2", "phi-2"}, .steps = {GPT2}},
    {.names = {"gpt-neox", "mpt", "olmo"}, .normalize = true, .steps = {GPT2}},
    {.names = {"starcoder", "refact", "smollm"}, .steps = {"\\p{N}", GPT2}},
    {.names = {"command-r"}, .normalize = true, .steps = {"\\p{N}", GPT2}},
    {.names = {"falcon"}, .steps = {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3"},
     .ignore_merges = true,
     .add_bos = true,
     .steps = {LLAMA3}},
    {.names = {"dbrx", "smaug-bpe"}, .steps = {LLAMA3}},
    {.names = {"glm4", "chatglm-bpe"}, .ignore_merges = true, .no_bos = true, .steps = {LLAMA3}},
    {.names = {"qwen2"}, .normalize = true, .steps = {QWEN2}},
    {.names = {"deepseek-r1-qwen"}, .steps = {QWEN2}},
    {.names = {"qwen35"}, .normalize = true, .steps = {QWEN35}},
    {.names = {"gpt-4o", "llama4"}, .steps = {GPT4O}},
    {.names = {"tekken"}, .ignore_merges = true, .add_bos = true, .steps = {TEKKEN}},
    {.names = {"deepseek-llm"},
     .steps = {"[\\r\\n]", S "?[" CASED "]+", S "?[" MARKS_WIDE "]+", END_SPACES, CJK_WIDE,
               "\\p{N}+"}},
    {.names = {"deepseek-coder"},
     .steps = {"[\\r\\n]", S "?\\p{L}+", S "?\\p{P}+", CJK_WIDE, "\\p{N}"}},
    {.names = {"deepseek-v3"}, .steps = {"\\p{N}{1,3}", CJK_KANA, DEEPSEEK3}},
};

const rf_pretok_spec *rf_pretok_find(rf_str wanted, const char **name) {
    for (size_t i = 0; i < RF_COUNT(specs); i++) {
        for (const char *const *known = specs[i].names; *known; known++) {
            if (!rf_str_is(wanted, *known)) continue;
            if (name) *name = *known;
            return &specs[i];
        }
    }
    return NULL;
}

void rf_pretok_list(rf_buf *out) {
    for (size_t i = 0; i < RF_COUNT(specs); i++) {
        for (const char *const *known = specs[i].names; *known; known++) {
            if (out->len) rf_buf_puts(out, ", ");
            rf_buf_puts(out, *known);
        }
    }
}

struct rf_pretok {
    size_t n_steps;
    pcre2_code *steps[RF_PRETOK_MAX_STEPS];
};

static void *take(size_t bytes, void *unused) {
    (void)unused;
    return rf_alloc(bytes, 1);
}

static void give(void *p, void *unused) {
    (void)unused;
    rf_free(p);
}

static rf_status compile(pcre2_code **out, const char *pattern, pcre2_compile_context *context,
                         rf_error *e) {
    int code;
    PCRE2_SIZE offset;
    pcre2_code *re =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, context);
    if (!re) {
        char why[128] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return rf_fail(e, RF_ENOMEM, "pre-tokenizer pattern: offset %zu: %s", (size_t)offset, why);
    }
    /* Where the system forbids run-time code the same pattern is interpreted, only slower. */
    (void)pcre2_jit_compile(re, PCRE2_JIT_COMPLETE);
    *out = re;
    return RF_OK;
}

rf_status rf_pretok_create(rf_pretok **out, const rf_pretok_spec *spec, rf_error *e) {
    *out = NULL;
    rf_pretok *p = rf_alloc(1, sizeof *p);
    pcre2_general_context *memory = pcre2_general_context_create(take, give, NULL);
    pcre2_compile_context *context = memory ? pcre2_compile_context_create(memory) : NULL;
    rf_status s = p && context ? RF_OK : rf_fail_nomem(e, sizeof *p);
    while (s == RF_OK && spec->steps[p->n_steps]) {
        s = compile(&p->steps[p->n_steps], spec->steps[p->n_steps], context, e);
        if (s == RF_OK) p->n_steps++;
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(memory);
    if (s != RF_OK) {
        rf_pretok_free(p);
        return s;
    }
    *out = p;
    return RF_OK;
}

void rf_pretok_free(rf_pretok *p) {
    if (!p) return;
    for (size_t i = 0; i < p->n_steps; i++) {
        pcre2_code_free(p->steps[i]);
    }
    rf_free(p);
}

struct rf_splitter {
    const rf_pretok *pretok;
    pcre2_match_data *match;
    pcre2_match_context *context;
    rf_piece_fn fn;
    void *ctx;
    rf_error *e;
};

rf_status rf_splitter_create(rf_splitter **out, const rf_pretok *p) {
    *out = NULL;
    rf_splitter *s = rf_alloc(1, sizeof *s);
    pcre2_general_context *memory = pcre2_general_context_create(take, give, NULL);
    if (s && memory) {
        s->pretok = p;
        s->match = pcre2_match_data_create(1, memory);
        s->context = pcre2_match_context_create(memory);
    }
    pcre2_general_context_free(memory);
    if (!s || !s->match || !s->context) {
        rf_splitter_free(s);
        return RF_ENOMEM;
    }
    *out = s;
    return RF_OK;
}

void rf_splitter_free(rf_splitter *s) {
    if (!s) return;
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    rf_free(s);
}

static rf_status split(rf_splitter *s, size_t step, rf_str text) {
    if (text.len == 0) return RF_OK;
    if (step == s->pretok->n_steps) return s->fn(s->ctx, text);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(s->match);
    size_t done = 0;
    for (size_t at = 0; at < text.len;) {
        int found = pcre2_match(s->pretok->steps[step], (PCRE2_SPTR)text.p, text.len, at,
                                PCRE2_NO_UTF_CHECK, s->match, s->context);
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found < 0) {
            char why[128] = "";
            pcre2_get_error_message(found, (PCRE2_UCHAR *)why, sizeof why);
            return rf_fail(s->e, found == PCRE2_ERROR_NOMEMORY ? RF_ENOMEM : RF_EUNSUPPORTED,
                           "pre-tokenizer: pattern %zu at byte %zu of a piece of %zu bytes: %s",
                           step, at, text.len, why);
        }
        size_t from = span[0], to = span[1]; /* the deeper call overwrites them */
        RF_ASSERT(to > at);                  /* no pattern matches nothing */
        RF_TRY(split(s, step + 1, (rf_str){text.p + done, from - done}));
        RF_TRY(split(s, step + 1, (rf_str){text.p + from, to - from}));
        done = at = to;
    }
    return split(s, step + 1, (rf_str){text.p + done, text.len - done});
}

rf_status rf_splitter_run(rf_splitter *s, rf_str text, rf_piece_fn fn, void *ctx, rf_error *e) {
    /* Backtracking over a run is linear, so the limit is linear too: it stops bugs, not users. */
    size_t limit = text.len * 16 + 1000000;
    pcre2_set_match_limit(s->context, limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit);
    s->fn = fn;
    s->ctx = ctx;
    s->e = e;
    return split(s, 0, text);
}
