/* test_tool_parser.c - model output of every format into content, reasoning and calls; the same for
 * every cut of the bytes; whatever cannot be read is content; limits and failing allocations.
 *
 * req: B-28 streaming equals not streaming, UTF-8 is never split. */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "lib/testlib.h"
#include "text/tool_parser.h"

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":"
    "\"object\","
    "\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"},"
    "\"note\":{\"type\":[\"string\",\"null\"]},\"opts\":{\"type\":\"object\"}}}}},"
    "{\"name\":\"now\",\"input_schema\":{\"type\":\"object\",\"properties\":{}}}]";

/* ---- a readable record of events ---- */

typedef struct record {
    rf_buf text;    /* "C{hello}R{hm}T0 weather id {args}W" */
    rf_buf content; /* all of it */
    int last;       /* kind of the open piece; -1: none */
    uint32_t n_calls;
    bool in_call, is_utf8; /* is_utf8: every piece so far */
} record;

static void close_piece(record *r) {
    if (r->last >= 0) rf_buf_putc(&r->text, '}');
    r->last = -1;
}

static void check_arguments(rf_str s) {
    rf_json *j;
    rf_error e = {0};
    if (rf_json_parse(&j, s, &e) != RF_OK) fail_msg("arguments: %s", e.text);
    assert_int_equal(rf_json_kind(j), RF_JSON_OBJECT);
    rf_json_free(j);
}

static void add_call(record *r, const rf_tool_event *ev) {
    close_piece(r);
    if (ev->kind == RF_TOOL_BEGIN) {
        assert_false(r->in_call);
        assert_int_equal(ev->index, r->n_calls);
        assert_true(ev->text.len > 0);
        rf_buf_printf(&r->text, "T%u %.*s", ev->index, RF_STR_ARG(ev->text));
        if (ev->id.len) rf_buf_printf(&r->text, " id=%.*s", RF_STR_ARG(ev->id));
        rf_buf_putc(&r->text, ' ');
        r->in_call = true;
    } else if (ev->kind == RF_TOOL_ARGUMENTS) {
        assert_true(r->in_call);
        check_arguments(ev->text);
        rf_buf_put(&r->text, ev->text.p, ev->text.len);
    } else {
        assert_true(r->in_call);
        r->in_call = false;
        r->n_calls++;
    }
}

static void on_event(void *user, const rf_tool_event *ev) {
    record *r = user;
    r->is_utf8 = r->is_utf8 && rf_utf8_valid_prefix(ev->text.p, ev->text.len) == ev->text.len;
    if (ev->kind == RF_TOOL_WARNING) {
        close_piece(r);
        assert_true(ev->text.len > 10);
        rf_buf_putc(&r->text, 'W');
        return;
    }
    if (ev->kind != RF_TOOL_CONTENT && ev->kind != RF_TOOL_REASONING) {
        add_call(r, ev);
        return;
    }
    assert_true(ev->text.len > 0);
    if (ev->kind == RF_TOOL_CONTENT) rf_buf_put(&r->content, ev->text.p, ev->text.len);
    if (r->last != (int)ev->kind) {
        close_piece(r);
        rf_buf_puts(&r->text, ev->kind == RF_TOOL_CONTENT ? "C{" : "R{");
        r->last = (int)ev->kind;
    }
    rf_buf_put(&r->text, ev->text.p, ev->text.len);
}

static void record_free(record *r) {
    rf_buf_free(&r->text);
    rf_buf_free(&r->content);
}

/* ---- running ---- */

typedef struct setup {
    const rf_json *tools;
    const char *format, *reasoning; /* NULL: "think"; "": none */
    const char *prompt_end;
    const rf_str *hidden;
    size_t n_hidden;
} setup;

static rf_tool_parser_opts opts_of(const setup *s, record *r) {
    *r = (record){.last = -1, .is_utf8 = true};
    const char *reasoning = s->reasoning ? s->reasoning : "think";
    return (rf_tool_parser_opts){.format = rf_tool_format_by_name(rf_str_of(s->format)),
                                 .reasoning = rf_reasoning_format_by_name(rf_str_of(reasoning)),
                                 .tools = s->tools,
                                 .prompt_end = rf_str_of(s->prompt_end ? s->prompt_end : ""),
                                 .hidden = s->hidden,
                                 .n_hidden = s->n_hidden,
                                 .sink = on_event,
                                 .user = r};
}

/* Feeds text in pieces of the given length, of random lengths for 0; of two at cut for -1. */
static record run(const setup *s, rf_str text, long piece, size_t cut, uint64_t *seed) {
    record r;
    rf_tool_parser_opts o = opts_of(s, &r);
    rf_tool_parser *p;
    rf_error e = {0};
    assert_int_equal(rf_tool_parser_create(&p, &o, &e), RF_OK);
    for (size_t at = 0; at < text.len;) {
        size_t n = piece > 0    ? (size_t)piece
                   : piece == 0 ? 1 + (size_t)(rf_test_rand(seed) % 9)
                   : at == 0    ? cut
                                : text.len;
        if (n > text.len - at) n = text.len - at;
        assert_int_equal(rf_tool_parser_feed(p, (rf_str){text.p + at, n}), RF_OK);
        at += n;
        if (n == 0) at = text.len; /* a cut at 0 */
    }
    if (piece < 0 && cut == 0) assert_int_equal(rf_tool_parser_feed(p, text), RF_OK);
    assert_int_equal(rf_tool_parser_finish(p), RF_OK);
    assert_int_equal(rf_tool_parser_n_calls(p), r.n_calls);
    assert_false(r.in_call);
    close_piece(&r);
    rf_tool_parser_free(p);
    return r;
}

static void expect_same(const record *a, record b, rf_str text, const char *how, size_t cut) {
    if (!rf_str_eq(rf_buf_str(&a->text), rf_buf_str(&b.text)))
        fail_msg("cut %s %zu of \"%.*s\":\n whole %.*s\n parts %.*s", how, cut, RF_STR_ARG(text),
                 RF_STR_ARG(rf_buf_str(&a->text)), RF_STR_ARG(rf_buf_str(&b.text)));
    assert_int_equal(a->is_utf8, b.is_utf8);
    record_free(&b);
}

/* The record of the whole text, after all cuts gave the same. */
static record run_all_cuts(const setup *s, rf_str text, uint64_t *seed) {
    record whole = run(s, text, (long)text.len + 1, 0, seed);
    expect_same(&whole, run(s, text, 1, 0, seed), text, "each byte", 0);
    for (size_t cut = 0; cut <= text.len; cut++)
        expect_same(&whole, run(s, text, -1, cut, seed), text, "at", cut);
    for (size_t i = 0; i < 8; i++)
        expect_same(&whole, run(s, text, 0, 0, seed), text, "random", i);
    return whole;
}

static rf_json *read_tools(void) {
    rf_json *j;
    assert_int_equal(rf_json_parse(&j, rf_str_of(tools_json), NULL), RF_OK);
    return j;
}

/* ---- every format ---- */

typedef struct row {
    const char *format, *text, *want;
    const char *reasoning, *prompt_end;
} row;

#define M3   "]<]minimax[>["
#define BERN "{\"city\": \"Bern\"}"
static const row rows[] = {
    /* Hermes, Qwen */
    {"hermes", "Hi.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": " BERN "}\n</tool_call>",
     "C{Hi.}T0 weather " BERN, 0, 0},
    {"hermes",
     "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"weather\","
     "\"arguments\":{\"city\":\"Z\xc3\xbcrich \xf0\x9f\xa6\x99\"}}</tool_call>\nDone.",
     "T0 now {}T1 weather {\"city\":\"Z\xc3\xbcrich \xf0\x9f\xa6\x99\"}C{Done.}", 0, 0},
    {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}</tool_call>",
     "T0 f {\"a\": 1}", 0, 0},
    {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"t\":\"</tool_call>\"}}</tool_call>x",
     "T0 f {\"t\":\"</tool_call>\"}C{x}", 0, 0},
    {"hermes", "<tool_call>{\"name\":\"now\"}", "T0 now {}", 0, 0}, /* ends without the mark */
    {"hermes", "<think>\nA <b> c\n</think>\n\nHello <tool_cal <tool_",
     "R{A <b> c}C{Hello <tool_cal <tool_}", 0, 0},
    {"hermes", "ab\n</think>\n\nHello", "R{ab}C{Hello}", 0, "<|im_start|>assistant\n<think>\n"},
    {"hermes", "ab\n</think>\n\nHello", "C{ab\n</think>\n\nHello}", 0, "<think>\n\n</think>\n\n"},
    {"hermes", "never closed ", "R{never closed }", 0, "<think>"},
    {"hermes", "The tag <think> begins", "C{The tag <think> begins}", 0, 0},
    {"hermes", " \n a \n", "C{ \n a \n}", 0, 0},
    {"hermes", "", "", 0, 0},
    {"hermes", "x\n<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": }}</tool_call>\ny",
     "C{x\n<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": }}</tool_call>}WC{\ny}", 0, 0},
    {"hermes", "<tool_call>{bad</tool_call><tool_call>{\"name\":\"now\"}</tool_call>",
     "C{<tool_call>{bad</tool_call>}WT0 now {}", 0, 0},
    {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>",
     "C{<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>}W", 0, 0},
    {"hermes", "a <tool_call>{\"name\": \"weather\", \"argu",
     "C{a <tool_call>{\"name\": \"weather\", \"argu}W", 0, 0},
    {"hermes", "<tool_call></tool_call>", "C{<tool_call></tool_call>}W", 0, 0},
    /* Qwen3-Coder */
    {"qwen3-coder",
     "Ok\n\n<tool_call>\n<function=weather>\n<parameter=city>\n12\n</"
     "parameter>\n<parameter=days>\n3\n"
     "</parameter>\n<parameter=opts>\n{\"a\": "
     "[1]}\n</parameter>\n<parameter=note>\nnull\n</parameter>\n"
     "</function>\n</tool_call>",
     "C{Ok}T0 weather {\"city\": \"12\", \"days\": 3, \"opts\": {\"a\": [1]}, \"note\": null}", 0,
     0},
    {"qwen3-coder",
     "<tool_call><function=f><parameter=a>True</parameter><parameter=b>{'x': None}</parameter>"
     "<parameter=c>say "
     "\"hi\"</parameter><parameter=d>two\nlines\n</parameter></function></tool_call>",
     "T0 f {\"a\": true, \"b\": {\"x\": null}, \"c\": \"say \\\"hi\\\"\", \"d\": \"two\\nlines\"}",
     0, 0},
    {"qwen3-coder", "<function=weather>\n<parameter=city>\nBern\n</parameter>\n</function> ok",
     "T0 weather " BERN "C{ok}", 0, 0},
    {"qwen3-coder",
     "<tool_call><function=f><parameter=s>a</parameter> b</tool_call> "
     "c</parameter></function></tool_call>",
     "T0 f {\"s\": \"a</parameter> b</tool_call> c\"}", 0, 0},
    {"qwen3-coder",
     "<tool_call><function=f><parameter=a>1</parameter><parameter=a>2</parameter></function></"
     "tool_call>",
     "C{<tool_call><function=f><parameter=a>1</parameter><parameter=a>2</parameter></function></"
     "tool_call>}W",
     0, 0},
    /* Llama 3 */
    {"llama3", "{\"name\": \"weather\", \"parameters\": " BERN "}", "T0 weather " BERN, 0, 0},
    {"llama3",
     "{\"type\": \"function\", \"name\": \"weather\", \"parameters\": {}}; {\"name\": \"now\"}",
     "T0 weather {}T1 now {}", 0, 0},
    {"llama3", "{\"answer\": 42}", "C{{\"answer\": 42}}", 0, 0},
    {"llama3", "{\"name\": \"Bob\", \"parameters\": {}}",
     "C{{\"name\": \"Bob\", \"parameters\": {}}}W", 0, 0},
    {"llama3", "So: {\"name\": \"now\"}", "C{So: {\"name\": \"now\"}}", 0, 0},
    {"llama3", "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}", "T0 now {}", 0, 0},
    {"llama3", "<|python_tag|>brave_search.call(query=\"a 'b'\")<|eom_id|>",
     "T0 brave_search {\"query\": \"a 'b'\"}", 0, 0},
    {"llama3", "<|python_tag|>print(1 + 1)", "C{<|python_tag|>print(1 + 1)}W", 0, 0},
    {"llama3", "[weather(city='Bern', days=2), now()]",
     "T0 weather {\"city\": \"Bern\", \"days\": 2}T1 now {}", 0, 0},
    {"llama3", "[1] is a source", "C{[1] is a source}", 0, 0},
    /* Mistral */
    {"mistral",
     "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": " BERN ", \"id\": \"abcdef123\"}]",
     "T0 weather id=abcdef123 " BERN, 0, 0},
    {"mistral", "Hm.[TOOL_CALLS]weather[ARGS]" BERN "[TOOL_CALLS]now[CALL_ID]c1[ARGS]{}",
     "C{Hm.}T0 weather " BERN "T1 now id=c1 {}", 0, 0},
    {"mistral", "[THINK]a b[/THINK]c[TOOL_CALLS]x", "R{a b}C{c[TOOL_CALLS]x}W", "mistral", 0},
    /* DeepSeek */
    {"deepseek",
     "<think>hm</think>\xef\xbc<\xef\xbd\x9ctool\xe2\x96\x81"
     "calls\xe2\x96\x81"
     "begin\xef\xbd\x9c><\xef\xbd\x9ctool\xe2\x96\x81"
     "call\xe2\x96\x81"
     "begin\xef\xbd\x9c>"
     "function<\xef\xbd\x9ctool\xe2\x96\x81sep\xef\xbd\x9c>weather\n```json\n" BERN
     "\n```<\xef\xbd\x9c"
     "tool\xe2\x96\x81"
     "call\xe2\x96\x81"
     "end\xef\xbd\x9c><\xef\xbd\x9ctool\xe2\x96\x81"
     "calls\xe2\x96\x81"
     "end\xef\xbd\x9c>",
     "R{hm}C{\xef\xbc}T0 weather " BERN, 0, 0},
    {"deepseek",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>" BERN
     "<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
     "｜tool▁calls▁end｜>",
     "T0 weather " BERN "T1 now {}", 0, 0},
    {"deepseek", "a<｜tool▁calls▁", "C{a<｜tool▁calls▁}", 0, 0},
    {"deepseek-v3.2",
     "ok\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter "
     "name=\"city\" string=\"true\">3</｜DSML｜parameter>\n<｜DSML｜parameter name=\"x\" "
     "string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "C{ok}T0 weather {\"city\": \"3\", \"x\": 3}", 0, 0},
    /* GLM */
    {"glm",
     "\nx<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>7</arg_value>\n<arg_key>days</"
     "arg_key>\n"
     "<arg_value>7</arg_value>\n</tool_call>",
     "C{\nx}T0 weather {\"city\": \"7\", \"days\": 7}", 0, 0},
    {"glm", "<tool_call>now</tool_call><tool_call>now\n</tool_call>", "T0 now {}T1 now {}", 0, 0},
    /* Kimi */
    {"kimi",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|"
     ">" BERN "<|tool_call_end|><|tool_call_begin|>functions.now:12<|tool_call_argument_begin|>{}"
     "<|tool_call_end|><|tool_calls_section_end|>",
     "T0 weather id=functions.weather:0 " BERN "T1 now id=functions.now:12 {}", 0, 0},
    /* gpt-oss */
    {"harmony",
     "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>commentary<|message|>"
     "I look.<|end|><|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json"
     "<|message|>" BERN "<|call|>",
     "R{Think.}C{I look.}T0 weather " BERN, 0, 0},
    {"harmony", " to=functions.now<|channel|>commentary json<|message|>{}<|call|>", "T0 now {}", 0,
     0},
    {"harmony", "<|channel|>final<|message|>Yes \xc3\xa9.\n<|return|>", "C{Yes \xc3\xa9.\n}", 0, 0},
    {"harmony", "<|channel|>commentary to=functions.f<|message|>{\"s\":\"<|end|>\"}<|end|>",
     "T0 f {\"s\":\"<|end|>\"}", 0, 0},
    {"harmony", "<|channel|>analysis to=python<|message|>1+1<|call|>",
     "C{<|channel|>analysis to=python<|message|>1+1<|call|>}W", 0, 0},
    {"harmony", "plain", "C{plain}", 0, 0},
    {"harmony", "<|channel|>ana", "C{<|channel|>ana}W", 0, 0},
    /* Gemma */
    {"gemma", "```tool_code\nprint(weather(city=\"Bern\"))\n```", "T0 weather " BERN, 0, 0},
    {"gemma", "```tool_code\n[now()]\n```", "T0 now {}", 0, 0},
    {"gemma", "```json\n{\"name\": \"now\", \"parameters\": {}}\n```", "T0 now {}", 0, 0},
    {"gemma", "```json\n{\"x\": 1}\n```\n", "C{```json\n{\"x\": 1}\n```\n}", 0, 0},
    {"gemma", "{\"name\": \"now\"}", "T0 now {}", 0, 0},
    {"gemma4",
     "<|channel>thought\nhm<channel|>ok<|tool_call>call:weather{city:<|\"|>B \"x\" "
     "\\n<|\"|>,days:2,opts:{mod:None,tags:[<|\"|>x<|\"|>,true]}}<tool_call|>",
     "R{hm}C{ok}T0 weather {\"city\": \"B \\\"x\\\" \\\\n\", \"days\": 2, \"opts\": {\"mod\": "
     "null, "
     "\"tags\": [\"x\", true]}}",
     "gemma4", 0},
    {"functiongemma",
     "<start_function_call>call:weather{city:<escape>Bern<escape>}<end_function_call>",
     "T0 weather " BERN, 0, 0},
    /* MiniMax */
    {"minimax",
     "<tool_calls>\n{\"name\":\"now\",\"arguments\":{}}\n{\"name\":\"weather\",\"arguments\":" BERN
     "}\n</tool_calls>",
     "T0 now {}T1 weather " BERN, 0, 0},
    {"minimax-m2",
     "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">Bern</parameter>\n"
     "</invoke>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>",
     "T0 weather " BERN "T1 now {}", 0, 0},
    {"minimax-m3",
     "a" M3 "<tool_call>\n" M3 "<invoke name=\"weather\">" M3 "<city>7 <b>" M3 "</city>" M3
     "<days>2" M3 "</days>" M3 "<opts>" M3 "<l>" M3 "<item>x" M3 "</item>" M3 "<item>1" M3
     "</item>" M3 "</l>" M3 "<o>" M3 "<k>true" M3 "</k>" M3 "</o>" M3 "</opts>" M3 "</invoke>\n" M3
     "<invoke name=\"now\">" M3 "</invoke>\n" M3 "</tool_call>b",
     "C{a}T0 weather {\"city\": \"7 <b>\", \"days\": 2, \"opts\": {\"l\": [\"x\", 1], \"o\": "
     "{\"k\": true}}}"
     "T1 now {}C{b}",
     0, 0},
    {"minimax-m3",
     M3 "<tool_call>" M3 "<invoke name=\"weather\">" M3 "<opts>" M3 "</opts>" M3 "</invoke>" M3
        "</tool_call>",
     "T0 weather {\"opts\": {}}", 0, 0},
    {"minimax-m3",
     M3 "<tool_call>" M3 "<invoke name=\"f\">" M3 "<a>1" M3 "</b>" M3 "</invoke>" M3 "</tool_call>",
     "C{" M3 "<tool_call>" M3 "<invoke name=\"f\">" M3 "<a>1" M3 "</b>" M3 "</invoke>" M3
     "</tool_call>}W",
     0, 0},
    /* others */
    {"seed",
     "<seed:think>a</seed:think>b\n<seed:tool_call>\n<function=now>\n</function>\n</"
     "seed:tool_call>",
     "R{a}C{b}T0 now {}", "seed", 0},
    {"minicpm", "<function name=\"weather\"><param name=\"city\">Bern</param></function>",
     "T0 weather " BERN, 0, 0},
    {"functionary", "x<function=weather>" BERN "</function><function=now>{}</function>",
     "C{x}T0 weather " BERN "T1 now {}", 0, 0},
    {"apertus",
     "<|inner_prefix|>a<|inner_suffix|>b<|tools_prefix|>[{\"weather\": " BERN "}]<|tools_suffix|>",
     "R{a}C{b}T0 weather " BERN, "apertus", 0},
    {"cohere",
     "a<|END_THINKING|><|START_ACTION|>[\n {\"tool_call_id\": \"0\", \"tool_name\": \"weather\", "
     "\"parameters\": " BERN "}\n]<|END_ACTION|><|START_TEXT|>t<|END_TEXT|>",
     "R{a}T0 weather id=0 " BERN "C{t}", "cohere", "<|CHATBOT_TOKEN|><|START_THINKING|>"},
    {"solar",
     "<|think|>a<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>c1<|tool_call:name|>"
     "weather"
     "<|tool_call:args|>" BERN "<|tool_call:end|><|calls|>",
     "R{a}T0 weather id=c1 " BERN, "solar", 0},
    {"gigachat",
     "a<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"now\", \"arguments\": "
     "{}}<|message_sep|>",
     "C{a}T0 now {}", 0, 0},
    {"hunyuan",
     "<tool_calls:opensource>\n<tool_call:opensource>weather<tool_sep:opensource>\n<arg_key:"
     "opensource>city"
     "</arg_key:opensource>\n<arg_value:opensource>Bern</arg_value:opensource>\n</"
     "tool_call:opensource>\n"
     "</tool_calls:opensource>",
     "T0 weather " BERN, "hunyuan", 0},
    {"lfm2",
     "<|tool_call_start|>[weather(city='it\\'s \\u00e9', opts={\"mod\": null, 'l': (1, -2.5e3)}), "
     "now()]<|tool_call_end|>x",
     "T0 weather {\"city\": \"it's \xc3\xa9\", \"opts\": {\"mod\": null, \"l\": [1, -2.5e3]}}T1 "
     "now {}C{x}",
     0, 0},
    {"lfm2", "<|tool_call_start|>[weather('Bern')]<|tool_call_end|>",
     "C{<|tool_call_start|>[weather('Bern')]<|tool_call_end|>}W", 0, 0},
    /* what a grammar makes */
    {"json", "{\"name\": \"weather\", \"arguments\": " BERN "}", "T0 weather " BERN, "", 0},
    {"json",
     "[{\"name\":\"now\",\"arguments\":{}}, {\n \"name\": \"weather\", \"arguments\": " BERN "\n}]",
     "T0 now {}T1 weather " BERN, "", 0},
    {"json", "[\n{\"name\":\"now\",\"argum", "C{[\n{\"name\":\"now\",\"argum}W", "", 0},
    {"granite3", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]", "T0 now {}", 0, 0},
};

static void test_formats(void **state) {
    (void)state;
    rf_json *tools = read_tools();
    uint64_t seed = 1;
    for (size_t i = 0; i < RF_COUNT(rows); i++) {
        setup s = {tools, rows[i].format, rows[i].reasoning, rows[i].prompt_end, NULL, 0};
        assert_non_null(rf_tool_format_by_name(rf_str_of(s.format)));
        record r = run_all_cuts(&s, rf_str_of(rows[i].text), &seed);
        if (!rf_str_is(rf_buf_str(&r.text), rows[i].want))
            fail_msg("%s \"%s\":\n want %s\n got  %.*s", s.format, rows[i].text, rows[i].want,
                     RF_STR_ARG(rf_buf_str(&r.text)));
        record_free(&r);
    }
    rf_json_free(tools);
}

/* Every row of the table of formats has a row here. */
static void test_all_formats_are_tested(void **state) {
    (void)state;
    for (size_t i = 0; i < rf_tool_format_count(); i++) {
        const char *name = rf_tool_format_name(rf_tool_format_at(i));
        bool found = false;
        for (size_t k = 0; k < RF_COUNT(rows); k++)
            found = found || strcmp(rows[k].format, name) == 0;
        if (!found) fail_msg("format %s has no example", name);
        assert_ptr_equal(rf_tool_format_by_name(rf_str_of(name)), rf_tool_format_at(i));
    }
    assert_null(rf_tool_format_by_name(RF_STR("no such")));
    assert_null(rf_reasoning_format_by_name(RF_STR("no such")));
    assert_string_equal(rf_tool_format_name(NULL), "none");
    assert_string_equal(rf_reasoning_format_name(NULL), "none");
}

/* ---- nothing is lost ---- */

/* True where the text holds marks that are rightly left out without a call. */
static bool drops_marks(const char *format) {
    return strcmp(format, "harmony") == 0 || strcmp(format, "solar") == 0 ||
           strcmp(format, "cohere") == 0;
}

static void check_kept(const setup *s, rf_str text, uint64_t *seed) {
    record whole = run(s, text, (long)text.len + 1, 0, seed);
    expect_same(&whole, run(s, text, 1, 0, seed), text, "each byte", 0);
    expect_same(&whole, run(s, text, 0, 0, seed), text, "random", 0);
    if (whole.n_calls == 0 && !drops_marks(s->format) &&
        !rf_str_eq(rf_buf_str(&whole.content), text))
        fail_msg("%s: \"%.*s\" became \"%.*s\"", s->format, RF_STR_ARG(text),
                 RF_STR_ARG(rf_buf_str(&whole.content)));
    record_free(&whole);
}

/* Every beginning of every example, and examples with bytes changed, doubled and taken out. */
static void test_nothing_is_lost(void **state) {
    (void)state;
    rf_json *tools = read_tools();
    uint64_t seed = 7;
    for (size_t i = 0; i < RF_COUNT(rows); i++) {
        setup s = {tools, rows[i].format, "", NULL, NULL, 0};
        size_t n = strlen(rows[i].text);
        for (size_t k = 0; k <= n; k++)
            check_kept(&s, (rf_str){rows[i].text, k}, &seed);
        char bad[2048];
        for (size_t k = 0; n && k < 100; k++) {
            memcpy(bad, rows[i].text, n);
            size_t at = (size_t)(rf_test_rand(&seed) % n), from = (size_t)(rf_test_rand(&seed) % n);
            if (k % 2) bad[at] = rows[i].text[from];
            size_t len = k % 4 < 2 ? n : n - at; /* or a part moved to the front */
            if (k % 4 >= 2) memmove(bad, bad + at, n - at);
            check_kept(&s, (rf_str){bad, len}, &seed);
        }
    }
    rf_json_free(tools);
}

/* ---- choosing ---- */

static void test_without_formats(void **state) {
    (void)state;
    setup s = {NULL, "", "", NULL, NULL, 0};
    uint64_t seed = 3;
    rf_str text = RF_STR("<think>a</think><tool_call>{\"name\":\"f\"}</tool_call>");
    record r = run_all_cuts(&s, text, &seed);
    assert_true(rf_str_eq(rf_buf_str(&r.content), text));
    record_free(&r);
    rf_tool_parser *p;
    rf_error e = {0};
    assert_int_equal(rf_tool_parser_create(&p, &(rf_tool_parser_opts){0}, &e), RF_EARG);
    assert_non_null(strstr(e.text, "sink"));
    char longer[65];
    memset(longer, 'x', sizeof longer);
    rf_str hidden = {longer, sizeof longer};
    record none;
    rf_tool_parser_opts o = opts_of(&s, &none);
    o.hidden = &hidden;
    o.n_hidden = 1;
    e = (rf_error){0};
    assert_int_equal(rf_tool_parser_create(&p, &o, &e), RF_EARG);
    assert_null(p);
}

/* End tokens that the caller names are left out, also behind a section without a closing mark. */
static void test_hidden(void **state) {
    (void)state;
    const rf_str hidden[] = {RF_STR("</s>"), RF_STR("")};
    setup s = {NULL, "mistral", NULL, NULL, hidden, 2};
    uint64_t seed = 3;
    record r = run_all_cuts(&s, RF_STR("a</s"), &seed);
    assert_string_equal(r.text.p, "C{a</s}");
    record_free(&r);
    r = run_all_cuts(&s, RF_STR("[TOOL_CALLS]f[ARGS]{}</s>"), &seed);
    assert_string_equal(r.text.p, "T0 f {}");
    record_free(&r);
    r = run_all_cuts(&s, RF_STR("text \n</s>"), &seed);
    assert_string_equal(r.text.p, "C{text \n}");
    record_free(&r);
}

typedef struct choice {
    const char *file, *format, *reasoning;
    uint32_t n_calls; /* of the rendering with two calls; 0: it has none, or fails */
} choice;
static const choice choices[] = {
    {"Apertus-8B-Instruct", "apertus", "apertus", 2},
    {"Apriel-1.6-15b-Thinker-fixed", "minimax", "apriel", 2},
    {"ByteDance-Seed-OSS", "seed", "seed", 2},
    {"Cohere2MoE", "cohere", "cohere", 2},
    {"GLM-4.6", "glm", "think", 2},
    {"GLM-4.7-Flash", "glm", "think", 2},
    {"GigaChat3-10B-A1.8B", "gigachat", "think", 1},
    {"Kimi-K2-Instruct", "kimi", "think", 0},
    {"Kimi-K2-Thinking", "kimi", "think", 0},
    {"LFM2.5-Instruct", "lfm2", "think", 0},
    {"LFM2.5-8B-A1B", "lfm2", "think", 2},
    {"MiniMax-M3", "minimax-m3", "minimax-m3", 2},
    {"MiMo-VL", "hermes", "think", 2},
    {"Mistral-Small-3.2-24B-Instruct-2506", "mistral", "think", 2},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen3-coder", "think", 2},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes", "think", 2},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes", "think", 2},
    {"Qwen-QwQ-32B", "hermes", "think", 2},
    {"Qwen-Qwen3-0.6B", "hermes", "think", 2},
    {"Qwen3-Coder", "qwen3-coder", "think", 2},
    {"Qwen3.5-4B", "qwen3-coder", "think", 2},
    {"StepFun3.5-Flash", "qwen3-coder", "think", 2},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek", "think", 2},
    {"deepseek-ai-DeepSeek-V3.2", "deepseek-v3.2", "think", 2},
    {"deepseek-ai-DeepSeek-V4-Flash-0731", "deepseek-v3.2", "think", 2},
    {"deepseek-ai-DeepSeek-V4", "deepseek-v3.2", "think", 2},
    {"google-gemma-2-2b-it", "gemma", "think", 0},
    {"google-gemma-4-31B-it-interleaved", "gemma4", "gemma4", 2},
    {"google-gemma-4-31B-it", "gemma4", "gemma4", 2},
    {"ibm-granite-granite-4.0", "hermes", "think", 2},
    {"ibm-granite-granite-4.1", "hermes", "think", 2},
    {"meetkai-functionary-medium-v3.1", "functionary", "think", 2},
    {"meta-llama-Llama-3.1-8B-Instruct", "llama3", "think", 0},
    {"meta-llama-Llama-3.3-70B-Instruct", "llama3", "think", 0},
    {"microsoft-Phi-3.5-mini-instruct", "none", "think", 0},
    {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral", "mistral", 2},
    {"moonshotai-Kimi-K2", "kimi", "think", 2},
    {"openai-gpt-oss-120b", "harmony", "think", 1},
    {"openbmb-MiniCPM5-1B", "minicpm", "think", 2},
    {"poolside-Laguna-XS-2.1", "glm", "think", 2},
    {"poolside-Laguna-XS.2", "glm", "think", 2},
    {"tencent-Hy3", "hunyuan", "hunyuan", 2},
    {"unsloth-mistral-Devstral-Small-2507", "mistral", "think", 2},
    {"upstage-Solar-Open-100B", "solar", "solar", 2},
};

static rf_json *read_json(const char *path) {
    size_t n;
    uint8_t *bytes = rf_test_read(path, &n);
    rf_json *j;
    rf_error e = {0};
    if (rf_json_parse(&j, (rf_str){(const char *)bytes, n}, &e) != RF_OK) fail_msg("%s", e.text);
    rf_free(bytes);
    return j;
}

static const rf_json *case_named(const rf_json *list, const char *name) {
    for (size_t i = 0; i < rf_json_len(list); i++)
        if (rf_str_is(rf_json_str(rf_json_get(rf_json_at(list, i), "name")), name))
            return rf_json_at(list, i);
    return NULL;
}

/* What the model's own template wrote of its two calls: from the question to the first result. */
static rf_str answer_in(rf_str text, rf_str eos) {
    const char *from = memmem(text.p, text.len, "3+4?", 4);
    assert_non_null(from);
    rf_str s = {from + 4, (size_t)(text.p + text.len - from - 4)};
    const char *to = memmem(s.p, s.len, "rain", 4);
    if (to) s.len = (size_t)(to - s.p);
    to = eos.len ? memmem(s.p, s.len, eos.p, eos.len) : NULL;
    if (to && memmem(s.p, (size_t)(to - s.p), "get_weather", 11)) s.len = (size_t)(to - s.p);
    return s;
}

static void check_rendering(const choice *c, const rf_json *golden, const rf_json *tools) {
    const rf_json *one = case_named(rf_json_get(golden, "cases"), "parallel_calls_final_nogen");
    rf_str eos = rf_json_str(rf_json_get(rf_json_get(golden, "context"), "eos_token"));
    rf_str text = answer_in(rf_json_str(rf_json_get(one, "output")), eos);
    setup s = {tools, c->format, c->reasoning, NULL, NULL, 0};
    uint64_t seed = 11;
    record r = run_all_cuts(&s, text, &seed);
    const char *weather = strstr(r.text.p, "T0 get_weather "), *add = strstr(r.text.p, "T1 add ");
    bool ok = r.n_calls == c->n_calls && weather && strstr(weather, "\"Bern\"}");
    const char *args = strcmp(c->format, "minimax-m3") == 0 /* which has no null */
                           ? "\"opts\": {\"tags\": [\"x\", \"y\"]}}"
                           : "\"opts\": {\"mod\": null, \"tags\": [\"x\", \"y\"]}}";
    if (c->n_calls == 2) ok = ok && add && strstr(add, "\"a\": 3, \"b\": 4, ") && strstr(add, args);
    if (!ok) fail_msg("%s: \"%.*s\" became %s", c->file, RF_STR_ARG(text), r.text.p);
    record_free(&r);
}

/* The formats are found in the model makers' templates, and read what these write. */
static void test_templates(void **state) {
    (void)state;
    const char *cases_path = rf_test_shared("chat/cases.json");
    RF_SKIP_WITHOUT(cases_path, "model makers' templates");
    rf_json *cases = read_json(cases_path);
    const rf_json *one = case_named(rf_json_get(cases, "cases"), "parallel_calls_final_nogen");
    if (!one) one = case_named(cases, "parallel_calls_final_nogen");
    const rf_json *tools = rf_json_get(one, "tools");
    for (size_t i = 0; i < RF_COUNT(choices); i++) {
        const choice *c = &choices[i];
        char path[200];
        size_t n;
        snprintf(path, sizeof path, "chat/templates/%s.jinja", c->file);
        uint8_t *bytes = rf_test_read(rf_test_shared(path), &n);
        rf_str text = {(const char *)bytes, n};
        assert_string_equal(rf_tool_format_name(rf_tool_format_detect(text)), c->format);
        assert_string_equal(rf_reasoning_format_name(rf_reasoning_format_detect(text)),
                            c->reasoning);
        rf_free(bytes);
        if (c->n_calls == 0) continue;
        snprintf(path, sizeof path, "chat/goldens/%s.json", c->file);
        rf_json *golden = read_json(rf_test_shared(path));
        check_rendering(c, golden, tools);
        rf_json_free(golden);
    }
    rf_json_free(cases);
}

/* ---- limits ---- */

/* The text in front, n times, behind; all of it must come back as content. */
static void expect_content(const char *format, const char *front, const char *unit, size_t n,
                           const char *behind) {
    rf_buf text = {0};
    rf_buf_puts(&text, front);
    for (size_t i = 0; i < n; i++)
        rf_buf_puts(&text, unit);
    rf_buf_puts(&text, behind);
    setup s = {NULL, format, NULL, NULL, NULL, 0};
    uint64_t seed = 5;
    record r = run(&s, rf_buf_str(&text), 0, 0, &seed);
    assert_int_equal(r.n_calls, 0);
    assert_true(rf_str_eq(rf_buf_str(&r.content), rf_buf_str(&text)));
    assert_non_null(strchr(r.text.p, 'W'));
    record_free(&r);
    rf_buf_free(&text);
}

static void test_limits(void **state) {
    (void)state;
    expect_content("hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"", "longer  ",
                   RF_TOOL_MAX_HELD / 8, "\"}}</tool_call>.");
    expect_content("hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":", "[", 600,
                   "</tool_call>");
    expect_content("lfm2", "<|tool_call_start|>[f(a=", "[", 100, "<|tool_call_end|>");
    expect_content("lfm2", "<|tool_call_start|>[f(a=", "[{'b':", 100000, "<|tool_call_end|>");
    expect_content("minimax", "<tool_calls>", "{\"name\":\"f\"}", RF_TOOL_MAX_CALLS + 1,
                   "</tool_calls>");
    expect_content("hermes", "<tool_call>{\"a\":\"", "</tool_call>", 5000, "");
    expect_content("hermes", "<tool_call>{\"name\":\"", "n", RF_TOOL_MAX_NAME + 1,
                   "\"}</tool_call>");
    expect_content("qwen3-coder", "<tool_call><function=f><parameter=", "k", RF_TOOL_MAX_NAME + 1,
                   ">1</parameter></function></tool_call>");
    expect_content("hermes", "a", " ", 5000, "<tool_call>x</tool_call>");
}

/* Calls in sections of their own count together. */
static void test_too_many_calls(void **state) {
    (void)state;
    rf_buf text = {0};
    for (size_t i = 0; i < RF_TOOL_MAX_CALLS + 2; i++)
        rf_buf_puts(&text, "<tool_call>{\"name\":\"f\"}</tool_call>");
    setup s = {NULL, "hermes", NULL, NULL, NULL, 0};
    uint64_t seed = 5;
    record r = run(&s, rf_buf_str(&text), 0, 0, &seed);
    assert_int_equal(r.n_calls, RF_TOOL_MAX_CALLS);
    assert_string_equal(r.content.p, "<tool_call>{\"name\":\"f\"}</tool_call>"
                                     "<tool_call>{\"name\":\"f\"}</tool_call>");
    record_free(&r);
    rf_buf_free(&text);
}

/* ---- failing allocations ---- */

static void count_event(void *user, const rf_tool_event *ev) {
    *(size_t *)user += 1 + ev->text.len;
}

static rf_status run_failing(const char *format, rf_str text, const rf_json *tools, size_t *n) {
    rf_tool_parser *p;
    rf_error e = {0};
    *n = 0;
    rf_tool_parser_opts o = {.format = rf_tool_format_by_name(rf_str_of(format)),
                             .reasoning = rf_reasoning_format_by_name(RF_STR("think")),
                             .tools = tools,
                             .sink = count_event,
                             .user = n};
    RF_TRY(rf_tool_parser_create(&p, &o, &e));
    rf_status s = rf_tool_parser_feed(p, text);
    if (s == RF_OK) s = rf_tool_parser_finish(p);
    if (s != RF_OK) assert_int_equal(rf_tool_parser_finish(p), RF_ENOMEM);
    rf_tool_parser_free(p);
    return s;
}

static void test_failing_allocations(void **state) {
    (void)state;
    rf_json *tools = read_tools();
    for (size_t i = 0; i < RF_COUNT(rows); i++) {
        rf_str text = rf_str_of(rows[i].text);
        size_t want, got;
        assert_int_equal(run_failing(rows[i].format, text, tools, &want), RF_OK);
        rf_status s = RF_ENOMEM;
        for (long nth = 1; s != RF_OK; nth++) {
            assert_true(nth < 1000);
            rf_alloc_fail_nth(nth);
            s = run_failing(rows[i].format, text, tools, &got);
            rf_alloc_fail_nth(0);
            assert_true(s == RF_OK || s == RF_ENOMEM);
            assert_true(got <= want);
        }
        assert_int_equal(got, want);
    }
    rf_json_free(tools);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_all_formats_are_tested),
        cmocka_unit_test(test_nothing_is_lost),
        cmocka_unit_test(test_without_formats),
        cmocka_unit_test(test_hidden),
        cmocka_unit_test(test_templates),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_too_many_calls),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
