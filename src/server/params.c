/* params.c - the table of fields, one reader per kind of value. */
#include "server/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "server/tools.h"

typedef struct reader {
    rf_params *p;
    unsigned kind;
    rf_api_error *e;
} reader;

typedef struct field field;
typedef bool (*read_fn)(reader *r, const field *f, const rf_json *v);
struct field {
    const char *name;
    unsigned kinds;
    read_fn read;
    size_t at;       /* in rf_params, for plain values */
    double min, max; /* of numbers */
    const char *schema, *help;
};

static bool wrong(reader *r, const field *f, const char *expected) {
    return rf_api_fail(r->e, 400, "invalid_type", f->name, "%s must be %s", f->name, expected);
}

static bool no_memory(reader *r) {
    return rf_api_fail(r->e, 503, "out_of_memory", NULL, "out of memory");
}

static void *member(reader *r, const field *f) { return (char *)r->p + f->at; }

/* ---- plain values ---- */

static bool in_range(reader *r, const field *f, double x) {
    if (x >= f->min && x <= f->max) return true;
    return rf_api_fail(r->e, 400, "invalid_value", f->name,
                       "%s is %g; it must lie between %g and %g", f->name, x, f->min, f->max);
}

static bool read_float(reader *r, const field *f, const rf_json *v) {
    rf_json_type t = rf_json_kind(v);
    if (t != RF_JSON_INT && t != RF_JSON_REAL) return wrong(r, f, "a number");
    float x = (float)rf_json_real(v);
    memcpy(member(r, f), &x, sizeof x);
    return in_range(r, f, rf_json_real(v));
}

static bool read_int(reader *r, const field *f, const rf_json *v) {
    if (rf_json_kind(v) != RF_JSON_INT) return wrong(r, f, "a whole number");
    if (!in_range(r, f, (double)rf_json_int(v))) return false;
    int32_t x = (int32_t)rf_json_int(v);
    memcpy(member(r, f), &x, sizeof x);
    return true;
}

static bool read_bool(reader *r, const field *f, const rf_json *v) {
    if (rf_json_kind(v) != RF_JSON_BOOL) return wrong(r, f, "true or false");
    bool x = rf_json_bool(v);
    memcpy(member(r, f), &x, sizeof x);
    return true;
}

static bool read_text(reader *r, const field *f, const rf_json *v) {
    if (rf_json_kind(v) != RF_JSON_STRING) return wrong(r, f, "a string");
    rf_str x = rf_json_str(v);
    memcpy(member(r, f), &x, sizeof x);
    return true;
}

/* ---- values with a shape of their own ---- */

static bool read_seed(reader *r, const field *f, const rf_json *v) {
    if (rf_json_kind(v) != RF_JSON_INT) return wrong(r, f, "a whole number");
    r->p->sampling.seed = (uint64_t)rf_json_int(v);
    r->p->has_seed = true;
    return true;
}

static bool read_top_k(reader *r, const field *f, const rf_json *v) {
    if (rf_json_kind(v) == RF_JSON_INT && rf_json_int(v) == -1) {
        r->p->sampling.top_k = 0; /* another way to say: off */
        return true;
    }
    return read_int(r, f, v);
}

static bool read_stop(reader *r, const field *f, const rf_json *v) {
    bool single = rf_json_kind(v) == RF_JSON_STRING;
    if (!single && rf_json_kind(v) != RF_JSON_ARRAY)
        return wrong(r, f, "a string or an array of strings");
    size_t n = single ? 1 : rf_json_len(v);
    r->p->stop = rf_arena_alloc(r->p->arena, n, sizeof *r->p->stop);
    if (!r->p->stop) return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        const rf_json *item = single ? v : rf_json_at(v, i);
        rf_str text = rf_json_str(item);
        if (rf_json_kind(item) != RF_JSON_STRING)
            return wrong(r, f, "a string or an array of strings");
        if (memchr(text.p, 0, text.len)) return wrong(r, f, "text without zero bytes");
        r->p->stop[i] = text.p;
    }
    r->p->n_stop = n;
    return true;
}

static bool read_bias(reader *r, const field *f, const rf_json *v) {
    if (rf_json_kind(v) != RF_JSON_OBJECT) return wrong(r, f, "an object of token ids and numbers");
    size_t n = rf_json_len(v), i = 0;
    if (n > RF_PARAMS_MAX_BIAS)
        return rf_api_fail(r->e, 400, "invalid_value", f->name,
                           "%s has %zu entries; at most %d are allowed", f->name, n,
                           RF_PARAMS_MAX_BIAS);
    rf_logit_bias *bias = rf_arena_alloc(r->p->arena, n, sizeof *bias);
    if (!bias) return no_memory(r);
    for (void *it = rf_json_iter(v); it; it = rf_json_iter_next(v, it), i++) {
        const char *key = rf_json_iter_key(it);
        const rf_json *value = rf_json_iter_value(it);
        rf_json_type t = rf_json_kind(value);
        char *end;
        long id = strtol(key, &end, 10);
        if (key[0] < '0' || key[0] > '9' || *end || id > INT32_MAX)
            return wrong(r, f, "an object whose keys are token ids");
        if (t != RF_JSON_INT && t != RF_JSON_REAL) return wrong(r, f, "an object of numbers");
        if (!in_range(r, f, rf_json_real(value))) return false;
        bias[i] = (rf_logit_bias){(int32_t)id, (float)rf_json_real(value)};
    }
    r->p->sampling.logit_bias = bias;
    r->p->sampling.n_logit_bias = n;
    return true;
}

static bool read_stream_options(reader *r, const field *f, const rf_json *v) {
    if (rf_json_kind(v) != RF_JSON_OBJECT) return wrong(r, f, "an object");
    const rf_json *usage = rf_json_get(v, "include_usage");
    if (rf_json_kind(usage) != RF_JSON_NULL && rf_json_kind(usage) != RF_JSON_BOOL)
        return rf_api_fail(r->e, 400, "invalid_type", "stream_options.include_usage",
                           "stream_options.include_usage must be true or false");
    r->p->include_usage = rf_json_bool(usage);
    return true;
}

/* ---- prompts ---- */

static bool is_ids(const rf_json *v) {
    return rf_json_kind(v) == RF_JSON_ARRAY && rf_json_len(v) &&
           rf_json_kind(rf_json_at(v, 0)) == RF_JSON_INT;
}

static bool read_ids(reader *r, const field *f, const rf_json *v, rf_prompt *out) {
    size_t n = rf_json_len(v);
    int32_t *ids = rf_arena_alloc(r->p->arena, n, sizeof *ids);
    if (!ids) return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        const rf_json *id = rf_json_at(v, i);
        if (rf_json_kind(id) != RF_JSON_INT || rf_json_int(id) < 0 || rf_json_int(id) > INT32_MAX)
            return wrong(r, f, "text, or token ids from 0");
        ids[i] = (int32_t)rf_json_int(id);
    }
    *out = (rf_prompt){.ids = ids, .n_ids = n};
    return true;
}

static bool read_prompt(reader *r, const field *f, const rf_json *v) {
    bool many = rf_json_kind(v) == RF_JSON_ARRAY && !is_ids(v);
    size_t n = many ? rf_json_len(v) : 1;
    size_t most = r->kind == RF_FOR_EMBEDDING ? RF_PARAMS_MAX_INPUTS : RF_PARAMS_MAX_CHOICES;
    if (n == 0 || n > most || (many && r->kind == RF_FOR_NATIVE))
        return wrong(r, f,
                     r->kind == RF_FOR_NATIVE      ? "a string or an array of token ids"
                     : r->kind == RF_FOR_EMBEDDING ? "a string, or 1 to 2048 of them"
                                                   : "a string, or 1 to 128 of them");
    r->p->prompts = rf_arena_alloc(r->p->arena, n, sizeof *r->p->prompts);
    if (!r->p->prompts) return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        const rf_json *item = many ? rf_json_at(v, i) : v;
        if (is_ids(item)) {
            if (!read_ids(r, f, item, &r->p->prompts[i])) return false;
        } else if (rf_json_kind(item) == RF_JSON_STRING) {
            r->p->prompts[i].text = rf_json_str(item);
        } else {
            return wrong(r, f, "a string, an array of strings, or arrays of token ids");
        }
    }
    r->p->n_prompts = n;
    return true;
}

/* ---- embeddings ---- */

static bool read_encoding(reader *r, const field *f, const rf_json *v) {
    r->p->base64 = rf_str_is(rf_json_str(v), "base64");
    if (r->p->base64 || rf_str_is(rf_json_str(v), "float")) return true;
    return rf_api_fail(r->e, 400, "invalid_value", f->name, "%s must be float or base64", f->name);
}

/* Strings, or objects with a text. */
static bool read_documents(reader *r, const field *f, const rf_json *v) {
    size_t n = rf_json_len(v);
    if (rf_json_kind(v) != RF_JSON_ARRAY || n == 0 || n > RF_PARAMS_MAX_INPUTS)
        return wrong(r, f, "an array of 1 to 2048 texts");
    r->p->prompts = rf_arena_alloc(r->p->arena, n, sizeof *r->p->prompts);
    if (!r->p->prompts) return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        const rf_json *item = rf_json_at(v, i);
        if (rf_json_kind(item) == RF_JSON_OBJECT) item = rf_json_get(item, "text");
        if (rf_json_kind(item) != RF_JSON_STRING)
            return wrong(r, f, "an array of strings or of objects with a text");
        r->p->prompts[i].text = rf_json_str(item);
    }
    r->p->n_prompts = n;
    return true;
}

/* ---- chat ---- */

static bool keep_text(reader *r, rf_buf *text, rf_str *out) {
    if (!text->failed) *out = rf_arena_str(r->p->arena, rf_buf_str(text));
    rf_buf_free(text);
    return out->p ? true : no_memory(r);
}

static bool read_messages(reader *r, const field *f, const rf_json *v) {
    if (rf_json_kind(v) != RF_JSON_ARRAY || rf_json_len(v) == 0)
        return wrong(r, f, "an array of at least one message");
    rf_buf text = {0};
    if (rf_params_put_messages(&text, v, "null", r->e)) return keep_text(r, &text, &r->p->messages);
    rf_buf_free(&text);
    return false;
}

static bool read_tools(reader *r, const field *f, const rf_json *v) {
    if (rf_json_kind(v) != RF_JSON_ARRAY) return wrong(r, f, "an array");
    if (!rf_tools_check(v, r->e)) return false;
    const rf_json *choice = rf_json_get(r->p->json, "tool_choice");
    if (rf_json_len(v) == 0 || rf_str_is(rf_json_str(choice), "none")) return true;
    rf_buf text = {0};
    rf_put_json(&text, v);
    return keep_text(r, &text, &r->p->tools);
}

/* Further variables of the template, from chat_template_kwargs and reasoning_effort together. */
static bool read_vars(reader *r, const field *f, const rf_json *v) {
    bool is_effort = strcmp(f->name, "reasoning_effort") == 0;
    if (is_effort && rf_json_kind(v) != RF_JSON_STRING) return wrong(r, f, "a string");
    if (!is_effort && rf_json_kind(v) != RF_JSON_OBJECT) return wrong(r, f, "an object");
    rf_buf text = {0};
    if (r->p->vars.p) /* reopened */
        rf_buf_put(&text, r->p->vars.p, r->p->vars.len - 1);
    else
        rf_buf_putc(&text, '{');
    if (is_effort) {
        rf_buf_puts(&text, text.len > 1 ? ",\"reasoning_effort\":" : "\"reasoning_effort\":");
        rf_put_json(&text, v);
    }
    for (void *it = is_effort ? NULL : rf_json_iter(v); it; it = rf_json_iter_next(v, it)) {
        if (strcmp(rf_json_iter_key(it), "reasoning_effort") == 0 &&
            rf_json_kind(rf_json_get(r->p->json, "reasoning_effort")) == RF_JSON_STRING)
            continue;
        if (text.len > 1) rf_buf_putc(&text, ',');
        rf_buf_json_str(&text, rf_str_of(rf_json_iter_key(it)));
        rf_buf_putc(&text, ':');
        rf_put_json(&text, rf_json_iter_value(it));
    }
    rf_buf_putc(&text, '}');
    return keep_text(r, &text, &r->p->vars);
}

/* ---- what this server cannot do: said, not dropped ---- */

static bool refuse(reader *r, const field *f, const rf_json *v) {
    (void)v;
    return rf_api_fail(r->e, 400, "unsupported_parameter", f->name,
                       "%s is not supported by this server", f->name);
}

static bool refuse_unless_empty(reader *r, const field *f, const rf_json *v) {
    bool empty = rf_json_kind(v) == RF_JSON_STRING ? rf_json_str(v).len == 0
                 : rf_json_kind(v) == RF_JSON_BOOL ? !rf_json_bool(v)
                                                   : rf_json_len(v) == 0;
    return empty ? true : refuse(r, f, v);
}

/* ---- grammars ---- */

/* Values that are no strings are kept as JSON. */
static bool set_grammar(reader *r, const char *name, rf_grammar_kind kind, const rf_json *v) {
    if (r->p->grammar_field)
        return rf_api_fail(r->e, 400, "invalid_value", name,
                           "%s and %s both restrict the answer; give one of them", name,
                           r->p->grammar_field);
    r->p->grammar_field = name;
    r->p->grammar_kind = kind;
    r->p->grammar_text = rf_json_str(v);
    if (rf_json_kind(v) == RF_JSON_STRING) return true;
    rf_buf text = {0};
    rf_put_json(&text, v);
    return keep_text(r, &text, &r->p->grammar_text);
}

static bool read_response_format(reader *r, const field *f, const rf_json *v) {
    static const char any_object[] = "{\"type\":\"object\"}";
    rf_str type = rf_json_str(rf_json_get(v, "type"));
    if (rf_str_is(type, "text")) return true;
    if (rf_str_is(type, "json_object")) {
        if (!set_grammar(r, f->name, RF_GRAMMAR_JSON_SCHEMA, NULL)) return false;
        r->p->grammar_text = RF_STR(any_object);
        return true;
    }
    const rf_json *schema = rf_json_get(rf_json_get(v, "json_schema"), "schema");
    if (rf_str_is(type, "json_schema") && rf_json_kind(schema) == RF_JSON_OBJECT)
        return set_grammar(r, f->name, RF_GRAMMAR_JSON_SCHEMA, schema);
    return rf_api_fail(
        r->e, 400, "invalid_value", f->name,
        "response_format must have the type text, json_object, or json_schema with a "
        "json_schema.schema");
}

static bool read_schema(reader *r, const field *f, const rf_json *v) {
    if (rf_json_kind(v) != RF_JSON_OBJECT && rf_json_kind(v) != RF_JSON_STRING)
        return wrong(r, f, "a JSON schema, as an object or a string");
    return set_grammar(r, f->name, RF_GRAMMAR_JSON_SCHEMA, v);
}

static bool read_regex(reader *r, const field *f, const rf_json *v) {
    if (rf_json_kind(v) != RF_JSON_STRING) return wrong(r, f, "a string");
    return set_grammar(r, f->name, RF_GRAMMAR_REGEX, v);
}

static bool read_choice(reader *r, const field *f, const rf_json *v) {
    if (rf_json_kind(v) != RF_JSON_ARRAY) return wrong(r, f, "an array of strings");
    return set_grammar(r, f->name, RF_GRAMMAR_CHOICE, v);
}

static bool read_gbnf(reader *r, const field *f, const rf_json *v) {
    if (rf_json_kind(v) != RF_JSON_STRING) return wrong(r, f, "a string");
    if (rf_json_str(v).len == 0) return true;
    return set_grammar(r, f->name, RF_GRAMMAR_GBNF, v);
}

static bool read_structured(reader *r, const field *f, const rf_json *v) {
    static const struct {
        const char *name;
        read_fn read;
    } kinds[] = {{"json", read_schema},
                 {"regex", read_regex},
                 {"choice", read_choice},
                 {"grammar", read_gbnf}};
    if (rf_json_kind(v) != RF_JSON_OBJECT) return wrong(r, f, "an object");
    for (size_t i = 0; i < RF_COUNT(kinds); i++) {
        const rf_json *value = rf_json_get(v, kinds[i].name);
        if (rf_json_kind(value) != RF_JSON_NULL) return kinds[i].read(r, f, value);
    }
    return wrong(r, f, "an object with json, regex, choice or grammar");
}

/* A grammar makes the answer the call that must be, see tools.h. */
static bool read_tool_choice(reader *r, const field *f, const rf_json *v) {
    rf_buf schema = {0};
    bool ok = rf_tools_put_choice(&schema, v, rf_json_get(r->p->json, "tools"),
                                  r->p->parallel_calls, r->e);
    r->p->must_call = ok && schema.len > 0;
    if (r->p->must_call && set_grammar(r, f->name, RF_GRAMMAR_JSON_SCHEMA, NULL))
        return keep_text(r, &schema, &r->p->grammar_text);
    rf_buf_free(&schema);
    return ok;
}

bool rf_params_compile(rf_params *p, rf_engine *engine, rf_api_error *e) {
    rf_text why;
    if (!p->grammar_field) return true;
    int s = rf_grammar_open(engine, p->grammar_kind, p->grammar_text.p, p->grammar_text.len,
                            &p->grammar, &why);
    if (s == ROCMFORGE_OK) return true;
    if (s == ROCMFORGE_ENOMEM) return rf_api_fail_status(e, RF_ENOMEM, why.text);
    return rf_api_fail(e, 400, "invalid_grammar", p->grammar_field, "%s: %s", p->grammar_field,
                       why.text);
}

/* ---- the table ---- */

#define ALL        (RF_FOR_NATIVE | RF_FOR_COMPLETION | RF_FOR_CHAT)
#define EVERY      (ALL | RF_FOR_EMBEDDING | RF_FOR_RERANK)
#define OPENAI     (RF_FOR_COMPLETION | RF_FOR_CHAT)
#define TEXTS      (RF_FOR_NATIVE | RF_FOR_COMPLETION)
#define IN(m)      offsetof(rf_params, m)
#define NUMBER     "{\"type\":\"number\"}"
#define INTEGER    "{\"type\":\"integer\"}"
#define BOOLEAN    "{\"type\":\"boolean\"}"
#define STRING     "{\"type\":\"string\"}"
#define OBJECT     "{\"type\":\"object\"}"
#define MAX_LENGTH 16777216.0
#define STRINGS \
    "{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"string\"}}]}"
#define PROMPTS                                                                                  \
    "{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"oneOf\":[{\"type\":"     \
    "\"string\"},{\"type\":\"integer\"},{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}]}" \
    "}]}"
#define TOOL_CHOICE "{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"object\"}]}"
#define OBJECTS     "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}"
#define DOCUMENTS                                                                           \
    "{\"type\":\"array\",\"items\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"object\"," \
    "\"properties\":{\"text\":{\"type\":\"string\"}},\"required\":[\"text\"]}]}}"

static const field fields[] = {
    /* clang-format off */
    {"model", EVERY, read_text, IN(model), 0, 0, STRING, "the model's name; may be left out"},
    {"prompt", TEXTS, read_prompt, 0, 0, 0, PROMPTS, "text or token ids to continue"},
    {"input", RF_FOR_EMBEDDING, read_prompt, 0, 0, 0, PROMPTS, "text or token ids to embed"},
    {"encoding_format", RF_FOR_EMBEDDING, read_encoding, 0, 0, 0, STRING, "float (default), or base64: the bytes of the floats"},
    {"dimensions", RF_FOR_EMBEDDING, read_int, IN(dimensions), 1, MAX_LENGTH, INTEGER, "must be the model's own number"},
    {"query", RF_FOR_RERANK, read_text, IN(query), 0, 0, STRING, "what the documents are scored against"},
    {"documents", RF_FOR_RERANK, read_documents, 0, 0, 0, DOCUMENTS, "the texts to score"},
    {"top_n", RF_FOR_RERANK, read_int, IN(top_n), 1, MAX_LENGTH, INTEGER, "give the best ones only"},
    {"return_documents", RF_FOR_RERANK, read_bool, IN(return_documents), 0, 0, BOOLEAN, "repeat the texts in the answer"},
    {"messages", RF_FOR_CHAT, read_messages, 0, 0, 0, OBJECTS, "the conversation"},
    {"tools", RF_FOR_CHAT, read_tools, 0, 0, 0, OBJECTS, "functions shown to the model by its template"},
    {"parallel_tool_calls", RF_FOR_CHAT, read_bool, IN(parallel_calls), 0, 0, BOOLEAN, "more than one call in an answer (default true)"},
    {"tool_choice", RF_FOR_CHAT, read_tool_choice, 0, 0, 0, TOOL_CHOICE, "auto, none, required, or the function to call"},
    {"chat_template_kwargs", RF_FOR_CHAT, read_vars, 0, 0, 0, OBJECT, "further variables of the template"},
    {"reasoning_effort", RF_FOR_CHAT, read_vars, 0, 0, 0, STRING, "a variable of some templates"},
    {"add_generation_prompt", RF_FOR_CHAT, read_bool, IN(add_generation_prompt), 0, 0, BOOLEAN, "begin the assistant's turn (default true)"},
    {"max_tokens", ALL, read_int, IN(max_tokens), 1, MAX_LENGTH, INTEGER, "tokens to generate at most"},
    {"max_completion_tokens", RF_FOR_CHAT, read_int, IN(max_tokens), 1, MAX_LENGTH, INTEGER, "the same, newer name"},
    {"min_tokens", ALL, read_int, IN(min_tokens), 0, MAX_LENGTH, INTEGER, "no end of text before that many"},
    {"priority", ALL, read_int, IN(priority), -100, 100, INTEGER, "among requests of the same key: lower ones go first"},
    {"timeout_ms", ALL, read_int, IN(timeout_ms), 0, 86400000, INTEGER, "the answer ends after that long, as it is (0: no limit)"},
    {"n", OPENAI, read_int, IN(n), 1, RF_PARAMS_MAX_CHOICES, INTEGER, "answers per prompt"},
    {"best_of", RF_FOR_COMPLETION, read_int, IN(best_of), 1, RF_PARAMS_MAX_CHOICES, INTEGER, "must equal n"},
    {"stream", ALL, read_bool, IN(stream), 0, 0, BOOLEAN, "send tokens as they come, as server-sent events"},
    {"stream_options", OPENAI, read_stream_options, 0, 0, 0, OBJECT, "include_usage: a last chunk with the usage"},
    {"temperature", ALL, read_float, IN(sampling.temperature), 0, 100, NUMBER, "0 takes the most likely token"},
    {"top_p", ALL, read_float, IN(sampling.top_p), 0, 1, NUMBER, "keep the likeliest tokens that together reach this"},
    {"top_k", ALL, read_top_k, IN(sampling.top_k), 0, 2097152, INTEGER, "keep that many likeliest tokens (0: all)"},
    {"min_p", ALL, read_float, IN(sampling.min_p), 0, 1, NUMBER, "keep tokens at least so likely, relative to the likeliest"},
    {"typical_p", ALL, read_float, IN(sampling.typical_p), 0, 1, NUMBER, "locally typical sampling (1: off)"},
    {"top_n_sigma", ALL, read_float, IN(sampling.top_n_sigma), 0, 100, NUMBER, "keep logits within so many deviations (0: off)"},
    {"xtc_probability", ALL, read_float, IN(sampling.xtc_probability), 0, 1, NUMBER, "chance to drop the likeliest tokens"},
    {"xtc_threshold", ALL, read_float, IN(sampling.xtc_threshold), 0, 1, NUMBER, "likelihood above which XTC may drop"},
    {"repetition_penalty", ALL, read_float, IN(sampling.repeat_penalty), 0.01, 100, NUMBER, "divides the logits of recent tokens (1: off)"},
    {"repeat_penalty", ALL, read_float, IN(sampling.repeat_penalty), 0.01, 100, NUMBER, "the same, another name"},
    {"presence_penalty", ALL, read_float, IN(sampling.presence_penalty), -2, 2, NUMBER, "against tokens that occurred"},
    {"frequency_penalty", ALL, read_float, IN(sampling.frequency_penalty), -2, 2, NUMBER, "the same, per occurrence"},
    {"repeat_last_n", ALL, read_int, IN(sampling.penalty_last_n), -1, MAX_LENGTH, INTEGER, "tokens that count as recent (-1: all)"},
    {"dry_multiplier", ALL, read_float, IN(sampling.dry_multiplier), 0, 100, NUMBER, "against repeated sequences (0: off)"},
    {"dry_base", ALL, read_float, IN(sampling.dry_base), 1, 100, NUMBER, "growth of that penalty per token"},
    {"dry_allowed_length", ALL, read_int, IN(sampling.dry_allowed_length), 0, 1024, INTEGER, "repetitions up to this length are free"},
    {"dry_penalty_last_n", ALL, read_int, IN(sampling.dry_last_n), -1, MAX_LENGTH, INTEGER, "how far back it looks (-1: all)"},
    {"mirostat", ALL, read_bool, IN(sampling.mirostat), 0, 0, BOOLEAN, "mirostat 2 in place of the filters"},
    {"mirostat_tau", ALL, read_float, IN(sampling.mirostat_tau), 0, 100, NUMBER, "its target surprise in bits"},
    {"mirostat_eta", ALL, read_float, IN(sampling.mirostat_eta), 0, 10, NUMBER, "its learning rate"},
    {"seed", ALL, read_seed, 0, 0, 0, INTEGER, "the same seed gives the same answer"},
    {"logit_bias", ALL, read_bias, 0, -100, 100, OBJECT, "token ids and what is added to their logits"},
    {"stop", ALL, read_stop, 0, 0, 0, STRINGS, "end before any of these texts"},
    {"logprobs", RF_FOR_CHAT, read_bool, IN(want_logprobs), 0, 0, BOOLEAN, "log-probabilities of the tokens"},
    {"top_logprobs", RF_FOR_CHAT, read_int, IN(n_logprobs), 0, 20, INTEGER, "and of that many likeliest ones"},
    {"logprobs", TEXTS, read_int, IN(n_logprobs), 0, 20, INTEGER, "log-probabilities of the token and that many likeliest ones"},
    {"echo", TEXTS, read_bool, IN(echo), 0, 0, BOOLEAN, "the prompt before its continuation"},
    {"ignore_eos", ALL, read_bool, IN(ignore_eos), 0, 0, BOOLEAN, "go on after the end of the text"},
    {"speculate", ALL, read_bool, IN(speculate), 0, 0, BOOLEAN, "guess tokens to check several at once, where the server does (default true)"},
    {"return_special", ALL, read_bool, IN(with_special), 0, 0, BOOLEAN, "control tokens appear in the text"},
    {"response_format", OPENAI, read_response_format, 0, 0, 0, OBJECT, "text, json_object, or json_schema with a schema"},
    {"suffix", RF_FOR_COMPLETION, refuse_unless_empty, 0, 0, 0, STRING, "not supported"},
    {"functions", RF_FOR_CHAT, refuse_unless_empty, 0, 0, 0, OBJECTS, "not supported; use tools"},
    {"function_call", RF_FOR_CHAT, refuse, 0, 0, 0, STRING, "not supported; use tools"},
    {"audio", RF_FOR_CHAT, refuse, 0, 0, 0, OBJECT, "not supported"},
    {"web_search_options", RF_FOR_CHAT, refuse, 0, 0, 0, OBJECT, "not supported"},
    {"chat_template", RF_FOR_CHAT, refuse, 0, 0, 0, STRING, "not supported: the model's template is used"},
    {"grammar", ALL, read_gbnf, 0, 0, 0, STRING, "the answer matches this GBNF grammar"},
    {"json_schema", ALL, read_schema, 0, 0, 0, OBJECT, "the answer is JSON that is valid for this schema"},
    {"guided_json", ALL, read_schema, 0, 0, 0, OBJECT, "the same, another name"},
    {"guided_regex", ALL, read_regex, 0, 0, 0, STRING, "the answer matches this pattern"},
    {"guided_choice", ALL, read_choice, 0, 0, 0, STRINGS, "the answer is one of these"},
    {"guided_grammar", ALL, read_gbnf, 0, 0, 0, STRING, "the same as grammar"},
    {"structured_outputs", ALL, read_structured, 0, 0, 0, OBJECT, "json, regex, choice or grammar"},
    {"use_beam_search", ALL, refuse_unless_empty, 0, 0, 0, BOOLEAN, "not supported"},
    /* clang-format on */
};

/* ---- the whole body ---- */

/* What holds when a field is absent: OpenAI's values for its routes, the engine's for ours. */
static void set_defaults(rf_params *p, unsigned kind) {
    p->sampling = rf_sampling_default();
    if (kind != RF_FOR_NATIVE) {
        p->sampling.temperature = 1;
        p->sampling.top_k = 0;
        p->sampling.top_p = 1;
        p->sampling.min_p = 0;
    }
    p->n = 1;
    p->max_tokens = kind == RF_FOR_COMPLETION ? 16 : kind == RF_FOR_NATIVE ? 256 : -1;
    p->n_logprobs = -1;
    p->add_generation_prompt = true;
    p->parallel_calls = true;
    p->speculate = true;
}

/* The fields without which a request is nothing: [2], the second may be NULL. */
static const char *const *required(unsigned kind) {
    static const char *const chat[2] = {"messages"}, *const embedding[2] = {"input"},
                             *const rerank[2] = {"query", "documents"}, *const text[2] = {"prompt"};
    return kind == RF_FOR_CHAT        ? chat
           : kind == RF_FOR_EMBEDDING ? embedding
           : kind == RF_FOR_RERANK    ? rerank
                                      : text;
}

static bool check_required(const rf_params *p, unsigned kind, rf_api_error *e) {
    const char *const *names = required(kind);
    for (size_t i = 0; i < 2 && names[i]; i++)
        if (rf_json_kind(rf_json_get(p->json, names[i])) == RF_JSON_NULL)
            return rf_api_fail(e, 400, "missing_required_parameter", names[i], "%s is missing",
                               names[i]);
    return true;
}

static bool check_whole(rf_params *p, unsigned kind, rf_api_error *e) {
    if (!check_required(p, kind, e)) return false;
    if (kind == RF_FOR_EMBEDDING || kind == RF_FOR_RERANK) return true;
    if (kind == RF_FOR_CHAT) {
        if (p->n_logprobs >= 0 && !p->want_logprobs)
            return rf_api_fail(e, 400, "invalid_value", "top_logprobs",
                               "top_logprobs needs logprobs to be true");
        if (p->want_logprobs && p->n_logprobs < 0) p->n_logprobs = 0;
        p->n_prompts = 1;
    }
    if (p->echo && p->n_logprobs >= 0)
        return rf_api_fail(e, 400, "unsupported_value", "echo",
                           "echo together with logprobs is not supported by this server");
    if (p->best_of && p->best_of != p->n)
        return rf_api_fail(e, 400, "unsupported_value", "best_of",
                           "best_of is %d; only the value of n, %d, is supported", p->best_of,
                           p->n);
    if (p->n_prompts * (size_t)p->n > RF_PARAMS_MAX_CHOICES)
        return rf_api_fail(e, 400, "invalid_value", "n",
                           "%zu prompts with %d answers each are more than %d answers",
                           p->n_prompts, p->n, RF_PARAMS_MAX_CHOICES);
    return true;
}

/* Brackets inside strings do not count; whether the text is JSON at all is the parser's business. */
static bool is_too_deep(rf_str body) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < body.len; i++) {
        char c = body.p[i];
        if (in_string) {
            if (c == '\\') i++;
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > RF_PARAMS_MAX_DEPTH) return true;
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return false;
}

bool rf_params_read_object(rf_json **out, rf_str body, rf_api_error *e) {
    rf_error why = {0};
    *out = NULL;
    if (body.len == 0)
        return rf_api_fail(e, 400, "invalid_json", NULL, "the request has no body; send JSON");
    if (is_too_deep(body))
        return rf_api_fail(e, 400, "invalid_json", NULL, "the JSON is nested deeper than %d levels",
                           RF_PARAMS_MAX_DEPTH);
    rf_status s = rf_json_parse(out, body, &why);
    if (s == RF_ENOMEM) return rf_api_fail_status(e, s, why.text);
    if (s != RF_OK) return rf_api_fail(e, 400, "invalid_json", NULL, "%s", why.text);
    if (rf_json_kind(*out) == RF_JSON_OBJECT) return true;
    rf_json_free(*out);
    *out = NULL;
    return rf_api_fail(e, 400, "invalid_json", NULL, "the body must be a JSON object");
}

bool rf_params_parse(rf_params *p, unsigned kind, rf_str body, rf_api_error *e) {
    *p = (rf_params){0};
    set_defaults(p, kind);
    reader r = {p, kind, e};
    if (!rf_params_read_object(&p->json, body, e)) return false;
    if (rf_arena_create(&p->arena) != RF_OK) return no_memory(&r);
    for (size_t i = 0; i < RF_COUNT(fields); i++) {
        const field *f = &fields[i];
        const rf_json *v = f->kinds & kind ? rf_json_get(p->json, f->name) : NULL;
        if (rf_json_kind(v) != RF_JSON_NULL && !f->read(&r, f, v)) return false;
    }
    if (!p->has_seed) p->sampling.seed = rf_random_u64() >> 11; /* exact in any JSON reader */
    return check_whole(p, kind, e);
}

void rf_params_free(rf_params *p) {
    rf_grammar_close(p->grammar);
    rf_arena_free(p->arena);
    rf_json_free(p->json);
    *p = (rf_params){0};
}

void rf_params_put_schema(rf_buf *out, unsigned kind) {
    rf_buf_puts(out, "{\"type\":\"object\",\"properties\":{");
    bool first = true;
    for (size_t i = 0; i < RF_COUNT(fields); i++) {
        const field *f = &fields[i];
        if (!(f->kinds & kind)) continue;
        size_t n = strlen(f->schema) - 1; /* without the closing brace */
        rf_buf_printf(out, "%s\"%s\":%.*s,\"description\":\"%s\"", first ? "" : ",", f->name,
                      (int)n, f->schema, f->help);
        if (f->max > f->min)
            rf_buf_printf(out, ",\"minimum\":%.10g,\"maximum\":%.10g", f->min, f->max);
        rf_buf_putc(out, '}');
        first = false;
    }
    const char *const *names = required(kind);
    rf_buf_printf(out, "},\"required\":[\"%s\"", names[0]);
    if (names[1]) rf_buf_printf(out, ",\"%s\"", names[1]);
    rf_buf_puts(out, "]}");
}
