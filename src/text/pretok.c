/* pretok.c - the table of pre-tokenizers, and their patterns run by PCRE2 with its JIT compiler.
 *
 * The patterns are those of the models' own tokenizer.json files (the regular expressions of
 * Oniguruma), rewritten where PCRE2 reads the same text differently: \s and \S are spelt out, since
 * PCRE2's \s has U+180E too; letters outside ASCII are written as code points. */
#include "text/pretok.h"

#include "text/pattern.h"

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
#define SPARK                                               \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" \
    "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|[\\r\\n]" SPACES
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

/* A run of digits in threes from its right end, once it is a piece of its own.  The look-ahead runs
 * once for a run, so that long ones cost linear time. */
#define THREES(d) "\\A" d "{1,2}(?=(?:" d "{3})+\\z)|" d "{1,3}"
/* The same, but digits that a letter follows stay as they are: only a piece of nothing else counts. */
#define DIGIT_RUN      "(?<!\\p{Nd})\\p{Nd}++(?![\\p{L}\\p{M}\\p{N}\\p{Pc}])"
#define ONLY_THREES    "\\A\\p{Nd}{1,3}(?=(?:\\p{Nd}{3})*+\\z)|(?!\\A)\\G\\p{Nd}{3}"
#define LLAMA3_NUMBERS SUFFIXES "|" WORD "|\\p{N}+" TAIL
#define CASCADE(n)     "|" S "{" n "}(?!" NS ")"
#define JAIS2                                                                                      \
    SUFFIXES "|" WORD "|\\p{N}{1,3}| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*|" S                          \
             "*[\\r\\n]+" CASCADE("512") CASCADE("256") CASCADE("128") CASCADE("64") CASCADE("32") \
                 CASCADE("16") CASCADE("8") CASCADE("4") CASCADE("1,2") "|" S
#define SENTENCES " ?[^(" WS "|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"
#define BAILING                                                                             \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^" WS "\\p{L}\\p{N}]++" \
    "[\\r\\n]*|" S "*[\\r\\n]" SPACES
#define SEED SUFFIXES "|" WORD "|\\p{N}| ?[^" WS "\\p{L}\\p{N}\\r\\n]+|" S "*[\\r\\n]+" SPACES
#define EXAONE_MOE                                                                 \
    SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}" \
             "| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n/]?|" S "*[\\r\\n]" SPACES
/* The same words without Chinese letters. */
#define NO_HAN(class) "(?:(?!\\p{sc:Han})" class ")"
#define KIMI                                                                            \
    "\\p{sc:Han}+|" MARK NO_HAN(UPPER) "*" NO_HAN(LOWER) "+" SUFFIXES "?|" MARK NO_HAN( \
        UPPER) "+" NO_HAN(LOWER) "*" SUFFIXES "?|\\p{N}{1,3}" TAIL
#define YOUTU_MARKS                                                                            \
    "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}" \
    "\\x{2019}\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+"    \
    "|[\\x{3105}-\\x{312F}]+|" CJK_KANA
#define YOUTU \
    MARK UPPER "*" LOWER "+" SUFFIXES "?|" MARK UPPER "+" LOWER "*" SUFFIXES "?|\\p{N}" TAIL_SLASH
#define ASIAN                                                                       \
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{30FF}" \
    "\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{EFF}\\x{1780}-\\x{17FF}"    \
    "\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}"  \
    "\\x{1100}-\\x{11FF}]+"

static const rf_pretok_spec specs[] = {
    {.names = {"default"}, .steps = {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names = {"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de",
               "a.x-4.0", "mellum", "modern-bert", "exaone4", "jais", "trillion",
               "granite-docling"},
     .steps = {GPT2}},
    {.names = {"jina-v1-en", "jina-v2-code", "roberta-bpe"}, .steps = {GPT2}},
    {.names = {"gpt-neox", "mpt", "olmo"}, .normalize = true, .steps = {GPT2}},
    {.names = {"starcoder", "refact", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
     .steps = {"\\p{N}", GPT2}},
    {.names = {"command-r"}, .normalize = true, .steps = {"\\p{N}", GPT2}},
    {.names = {"falcon"}, .steps = {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0",
               "lfm2", "jina-v5-nano"},
     .ignore_merges = true,
     .add_bos = true,
     .steps = {LLAMA3}},
    {.names = {"dbrx", "smaug-bpe"}, .steps = {LLAMA3}},
    {.names = {"glm4", "chatglm-bpe", "glm5"},
     .ignore_merges = true,
     .no_bos = true,
     .steps = {LLAMA3}},
    {.names = {"jais-2"}, .steps = {JAIS2}},
    {.names = {"minicpm5"}, .ignore_merges = true, .steps = {"\\p{N}{1,3}", LLAMA3_NUMBERS}},
    {.names = {"qwen2", "megrez"}, .normalize = true, .steps = {QWEN2}},
    {.names = {"deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "hunyuan", "solar-open",
               "grok-2"},
     .steps = {QWEN2}},
    {.names = {"laguna"}, .steps = {"[^\\n]+|\\n+", QWEN2}},
    {.names = {"qwen35"}, .normalize = true, .steps = {QWEN35}},
    {.names = {"ufakzeka"}, .steps = {WORD "|\\p{N}" TAIL}},
    {.names = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, .steps = {GPT4O}},
    {.names = {"granite-embed-multi-97m"}, .ignore_merges = true, .steps = {GPT4O}},
    {.names = {"tiny_aya", "cohere2moe"}, .steps = {DIGIT_RUN, ONLY_THREES, GPT4O}},
    {.names = {"tekken"}, .ignore_merges = true, .add_bos = true, .steps = {TEKKEN}},
    {.names = {"kimi-k2"}, .steps = {KIMI}},
    {.names = {"youtu"}, .ignore_merges = true, .steps = {YOUTU_MARKS, YOUTU}},
    {.names = {"deepseek-llm"},
     .steps = {"[\\r\\n]", S "?[" CASED "]+", S "?[" MARKS_WIDE "]+", END_SPACES, CJK_WIDE,
               "\\p{N}+"}},
    {.names = {"deepseek-coder"},
     .steps = {"[\\r\\n]", S "?\\p{L}+", S "?\\p{P}+", CJK_WIDE, "\\p{N}"}},
    {.names = {"deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"},
     .steps = {"\\p{N}{1,3}", CJK_KANA, DEEPSEEK3}},
    {.names = {"spark2_5"}, .steps = {"\\p{N}{1,3}", CJK_KANA, SPARK, "\\p{N}"}},
    {.names = {"afmoe"}, .steps = {"\\p{Nd}+", THREES("\\p{Nd}"), ASIAN, DEEPSEEK3}},
    {.names = {"bailingmoe", "bailingmoe2", "llada-moe"}, .steps = {BAILING}},
    {.names = {"seed-coder"}, .steps = {SEED}},
    {.names = {"exaone-moe"}, .steps = {EXAONE_MOE}},
    {.names = {"poro-chat", "bloom", "gpt3-finnish"}, .steps = {SENTENCES}},
    {.names = {"viking"}, .steps = {SENTENCES, "\\p{N}"}},
    {.names = {"chameleon"},
     .add_bos = true,
     .steps = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}",
               "[\\p{P}!-/:-@\\[-`{-~]", GPT2}},
    {.names = {"superbpe"}, .steps = {"\\p{N}+", THREES("\\p{N}")}},
    {.names = {"gemma4", "granite-embed-multi-311m"},
     .add_bos = true,
     .no_bos = true,
     .characters = true,
     .writes_spaces = true,
     .steps = {"[^\\n]+|\\n+"}},
    {.names = {"sarvam-moe"}, .characters = true, .writes_spaces = true, .steps = {"[^\\n]+|\\n+"}},
    {.names = {"whitespace"}, .characters = true, .drops_white = true, .steps = {NS "+"}},
};

const rf_pretok_spec *rf_pretok_at(size_t i) { return i < RF_COUNT(specs) ? &specs[i] : NULL; }

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
    rf_pattern *steps[RF_PRETOK_MAX_STEPS];
};

rf_status rf_pretok_create(rf_pretok **out, const rf_pretok_spec *spec, rf_error *e) {
    *out = NULL;
    rf_pretok *p = rf_alloc(1, sizeof *p);
    if (!p) return rf_fail_nomem(e, sizeof *p);
    rf_status s = RF_OK;
    while (s == RF_OK && spec->steps[p->n_steps]) {
        s = rf_pattern_compile(&p->steps[p->n_steps], rf_str_of(spec->steps[p->n_steps]), e);
        if (s == RF_OK) p->n_steps++;
    }
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
        rf_pattern_free(p->steps[i]);
    }
    rf_free(p);
}

struct rf_splitter {
    const rf_pretok *pretok;
    rf_searcher *searcher;
    rf_piece_fn fn;
    void *ctx;
    rf_error *e;
};

rf_status rf_splitter_create(rf_splitter **out, const rf_pretok *p) {
    *out = NULL;
    rf_splitter *s = rf_alloc(1, sizeof *s);
    if (!s) return RF_ENOMEM;
    s->pretok = p;
    if (rf_searcher_create(&s->searcher) != RF_OK) {
        rf_free(s);
        return RF_ENOMEM;
    }
    *out = s;
    return RF_OK;
}

void rf_splitter_free(rf_splitter *s) {
    if (!s) return;
    rf_searcher_free(s->searcher);
    rf_free(s);
}

static rf_status split(rf_splitter *s, size_t step, rf_str text) {
    if (text.len == 0) return RF_OK;
    if (step == s->pretok->n_steps) return s->fn(s->ctx, text);
    size_t done = 0;
    while (done < text.len) {
        ptrdiff_t from, to;
        RF_TRY(rf_searcher_find(s->searcher, s->pretok->steps[step], text, done, &from, &to, s->e));
        if (from < 0) break;
        RF_ASSERT((size_t)to > done); /* no pattern of the table matches nothing */
        RF_TRY(split(s, step + 1, (rf_str){text.p + done, (size_t)from - done}));
        RF_TRY(split(s, step + 1, (rf_str){text.p + from, (size_t)(to - from)}));
        done = (size_t)to;
    }
    return split(s, step + 1, (rf_str){text.p + done, text.len - done});
}

rf_status rf_splitter_run(rf_splitter *s, rf_str text, rf_piece_fn fn, void *ctx, rf_error *e) {
    s->fn = fn;
    s->ctx = ctx;
    s->e = e;
    return split(s, 0, text);
}
