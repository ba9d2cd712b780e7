/* tool_formats.c - the tables: which marks in a chat template mean which notation of tool calls, and
 * which of reasoning.
 *
 * The first row that fits wins, so the rows with the rarer marks come first. */
#include <string.h>

#include "text/tool_format.h"

/* ---- dialects ---- */

static const rf_named_dialect kimi = {.open = "<|tool_call_begin|>",
                                      .args = "<|tool_call_argument_begin|>",
                                      .close = "<|tool_call_end|>",
                                      .name_is_id = true};
static const rf_named_dialect deepseek = {
    .open = "<｜tool▁call▁begin｜>", .args = "<｜tool▁sep｜>", .close = "<｜tool▁call▁end｜>"};
static const rf_named_dialect mistral = {
    .open = "[TOOL_CALLS]", .id_after = "[CALL_ID]", .args = "[ARGS]"};
static const rf_named_dialect solar = {.open = "<|tool_call:begin|>",
                                       .id_before = "<|tool_call:name|>",
                                       .args = "<|tool_call:args|>",
                                       .close = "<|tool_call:end|>"};
static const rf_named_dialect functionary = {.args = ">"};

static const rf_tags_dialect qwen_coder = {.open = "<function=",
                                           .name_end = ">",
                                           .close = "</function>",
                                           .key = "<parameter=",
                                           .key_end = ">",
                                           .value_end = "</parameter>"};
static const rf_tags_dialect qwen_bare = {.open = "<function=",
                                          .name_end = ">",
                                          .key = "<parameter=",
                                          .key_end = ">",
                                          .value_end = "</parameter>"};
static const rf_tags_dialect glm = {.open = "",
                                    .key = "<arg_key>",
                                    .key_end = "</arg_key>",
                                    .value = "<arg_value>",
                                    .value_end = "</arg_value>"};
static const rf_tags_dialect hunyuan = {.open = "<tool_call:opensource>",
                                        .name_end = "<tool_sep:opensource>",
                                        .close = "</tool_call:opensource>",
                                        .key = "<arg_key:opensource>",
                                        .key_end = "</arg_key:opensource>",
                                        .value = "<arg_value:opensource>",
                                        .value_end = "</arg_value:opensource>"};
static const rf_tags_dialect dsml = {.open = "<｜DSML｜invoke name=\"",
                                     .name_end = "\">",
                                     .close = "</｜DSML｜invoke>",
                                     .key = "<｜DSML｜parameter name=\"",
                                     .key_end = "\"",
                                     .value = ">",
                                     .value_end = "</｜DSML｜parameter>"};
static const rf_tags_dialect minimax = {.open = "<invoke name=\"",
                                        .name_end = "\">",
                                        .close = "</invoke>",
                                        .key = "<parameter name=\"",
                                        .key_end = "\"",
                                        .value = ">",
                                        .value_end = "</parameter>"};
static const rf_tags_dialect minicpm = {.open = "<function name=\"",
                                        .name_end = "\">",
                                        .key = "<param name=\"",
                                        .key_end = "\"",
                                        .value = ">",
                                        .value_end = "</param>"};
static const char mapped[] = "NAME: ARGUMENTS";

/* ---- tool calls ---- */

#define HARMONY(mark, more)                                                            \
    {                                                                                  \
        .open = (mark), .close = {"<|message|>", "<|call|>", "<|end|>", "<|return|>"}, \
        .parse = rf_parse_harmony, .flags = RF_KEEPS_OPEN | RF_HEADING | (more)        \
    }
#define BARE (RF_AT_START | RF_KEEPS_OPEN | RF_KNOWN_NAME)

static const rf_tool_format formats[] = {
    {"harmony",
     {"<|channel|>", "<|message|>"},
     NULL,
     {HARMONY("<|channel|>", RF_IN_REASONING), HARMONY("<|start|>", RF_IN_REASONING),
      HARMONY(" to=", RF_AT_START)},
     {"<|end|>", "<|return|>", "<|call|>"}},
    {"kimi",
     {"<|tool_calls_section_begin|>"},
     NULL,
     {{"<|tool_calls_section_begin|>",
       {"<|tool_calls_section_end|>"},
       rf_parse_named,
       &kimi,
       0,
       NULL}},
     {0}},
    {"deepseek-v3.2",
     {"｜DSML｜"},
     NULL,
     {{"<｜DSML｜function_calls>", {"</｜DSML｜function_calls>"}, rf_parse_tags, &dsml, 0, NULL},
      {"<｜DSML｜tool_calls>", {"</｜DSML｜tool_calls>"}, rf_parse_tags, &dsml, 0, NULL}},
     {0}},
    {"deepseek",
     {"<｜tool▁"},
     NULL,
     {{"<｜tool▁calls▁begin｜>", {"<｜tool▁calls▁end｜>"}, rf_parse_named, &deepseek, 0, NULL}},
     {0}},
    {"minimax-m2",
     {"<minimax:tool_call>"},
     NULL,
     {{"<minimax:tool_call>", {"</minimax:tool_call>"}, rf_parse_tags, &minimax, 0, NULL}},
     {0}},
    {"hunyuan",
     {":opensource", "tool_sep"},
     NULL,
     {{"<tool_calls:opensource>", {"</tool_calls:opensource>"}, rf_parse_tags, &hunyuan, 0, NULL}},
     {0}},
    {"glm",
     {"<arg_key>"},
     NULL,
     {{"<tool_call>", {"</tool_call>"}, rf_parse_tags, &glm, 0, NULL}},
     {0}},
    {"seed",
     {"<seed:tool_call>"},
     NULL,
     {{"<seed:tool_call>", {"</seed:tool_call>"}, rf_parse_tags, &qwen_coder, 0, NULL}},
     {0}},
    {"qwen3-coder",
     {"<function=", "<parameter="},
     NULL,
     {{"<tool_call>", {"</tool_call>"}, rf_parse_tags, &qwen_coder, 0, NULL},
      {"<function=", {"</function>"}, rf_parse_tags, &qwen_bare, RF_KEEPS_OPEN, NULL}},
     {0}},
    {"minicpm",
     {"<function name=\"", "<param name=\""},
     NULL,
     {{"<function name=\"", {"</function>"}, rf_parse_tags, &minicpm, RF_KEEPS_OPEN, NULL}},
     {0}},
    {"functionary",
     {"<function="},
     NULL,
     {{"<function=", {"</function>"}, rf_parse_named, &functionary, 0, NULL}},
     {0}},
    {"apertus",
     {"<|tools_prefix|>"},
     NULL,
     {{"<|tools_prefix|>", {"<|tools_suffix|>"}, rf_parse_json, mapped, 0, NULL}},
     {0}},
    {"cohere",
     {"<|START_ACTION|>"},
     NULL,
     {{"<|START_ACTION|>", {"<|END_ACTION|>"}, rf_parse_json, NULL, 0, NULL}},
     {"<|START_TEXT|>", "<|END_TEXT|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"}},
    {"solar",
     {"<|tool_call:begin|>"},
     NULL,
     {{"<|tool_calls|>", {"<|calls|>"}, rf_parse_named, &solar, 0, NULL}},
     {"<|begin|>assistant", "<|content|>", "<|end|>"}},
    {"gigachat",
     {"function call", "<|role_sep|>"},
     NULL,
     {{"<|message_sep|>\n\nfunction call<|role_sep|>\n",
       {"<|message_sep|>"},
       rf_parse_json,
       NULL,
       0,
       NULL}},
     {0}},
    {"lfm2",
     {"List of tools: "},
     "<|tool_call_start|>",
     {{"<|tool_call_start|>", {"<|tool_call_end|>"}, rf_parse_python, NULL, 0, NULL}},
     {0}},
    {"gemma4",
     {"<|tool_call>call:"},
     NULL,
     {{"<|tool_call>", {"<tool_call|>"}, rf_parse_braces, "<|\"|>", 0, NULL}},
     {0}},
    {"functiongemma",
     {"<start_function_call>"},
     NULL,
     {{"<start_function_call>", {"<end_function_call>"}, rf_parse_braces, "<escape>", 0, NULL}},
     {0}},
    {"mistral",
     {"[TOOL_CALLS]"},
     NULL,
     {{"[TOOL_CALLS]", {0}, rf_parse_named, &mistral, 0, NULL}},
     {0}},
    {"granite3",
     {"<|tool_call|>"},
     NULL,
     {{"<|tool_call|>", {"<|/tool_call|>"}, rf_parse_json, NULL, 0, NULL}},
     {0}},
    {"minimax-m3",
     {"]<]minimax[>["},
     NULL,
     {{"]<]minimax[>[<tool_call>", {"]<]minimax[>[</tool_call>"}, rf_parse_nested, NULL, 0, NULL}},
     {0}},
    {"hermes",
     {"<tool_call>"},
     NULL,
     {{"<tool_call>", {"</tool_call>"}, rf_parse_json, NULL, 0, NULL}},
     {0}},
    {"minimax",
     {"<tool_calls>"},
     NULL,
     {{"<tool_calls>", {"</tool_calls>"}, rf_parse_json, NULL, 0, NULL}},
     {0}},
    {"llama3",
     {"<|start_header_id|>", "\"parameters\""},
     "<|python_tag|>",
     {{"<|python_tag|>", {"<|eom_id|>", "<|eot_id|>"}, rf_parse_python, NULL, 0, NULL},
      {"{", {0}, rf_parse_json, NULL, BARE, rf_plausible_json},
      {"[", {0}, rf_parse_python, NULL, BARE, rf_plausible_python}},
     {0}},
    {"gemma",
     {"<start_of_turn>"},
     NULL,
     {{"```tool_code\n", {"```"}, rf_parse_python, NULL, 0, NULL},
      {"```json\n", {"```"}, rf_parse_json, NULL, RF_AT_START | RF_KNOWN_NAME, rf_plausible_json},
      {"{", {0}, rf_parse_json, NULL, BARE, rf_plausible_json}},
     {0}},
    {"json", /* what a grammar makes of an answer that must be calls: no template has it */
     {0},
     NULL,
     {{"{", {0}, rf_parse_json, NULL, BARE, rf_plausible_json},
      {"[", {0}, rf_parse_json, NULL, BARE, rf_plausible_json}},
     {0}},
};

static bool holds(rf_str text, const char *mark) {
    return mark && text.len && memmem(text.p, text.len, mark, strlen(mark));
}

const rf_tool_format *rf_tool_format_detect(rf_str t) {
    for (size_t i = 0; i < RF_COUNT(formats); i++) {
        const rf_tool_format *f = &formats[i];
        if (holds(t, f->or_mark)) return f;
        if (holds(t, f->marks[0]) && (!f->marks[1] || holds(t, f->marks[1]))) return f;
    }
    return NULL;
}

const rf_tool_format *rf_tool_format_by_name(rf_str name) {
    for (size_t i = 0; i < RF_COUNT(formats); i++)
        if (rf_str_is(name, formats[i].name)) return &formats[i];
    return NULL;
}

const char *rf_tool_format_name(const rf_tool_format *f) { return f ? f->name : "none"; }
bool rf_tool_format_has_headings(const rf_tool_format *f) {
    return f && f->sections[0].flags & RF_HEADING;
}

size_t rf_tool_format_count(void) { return RF_COUNT(formats); }
const rf_tool_format *rf_tool_format_at(size_t i) { return &formats[i]; }

/* ---- reasoning ---- */

static const rf_reasoning_format reasonings[] = {
    {"seed", "<seed:think>", "<seed:think>", "</seed:think>", false},
    {"minimax-m3", "mm:think", "<mm:think>", "</mm:think>", false},
    {"hunyuan", ":opensource", "<think:opensource>", "</think:opensource>", false},
    {"mistral", "[THINK]", "[THINK]", "[/THINK]", true},
    {"cohere", "<|START_THINKING|>", "<|START_THINKING|>", "<|END_THINKING|>", true},
    {"apertus", "<|inner_prefix|>", "<|inner_prefix|>", "<|inner_suffix|>", true},
    {"gemma4", "<|channel>", "<|channel>thought\n", "<channel|>", true},
    {"solar", "<|begin|>assistant<|think|>", "<|think|>", "<|end|>", true},
    {"apriel", "[BEGIN FINAL RESPONSE]", "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]",
     false},
    {"think", "", "<think>", "</think>", false}, /* all others, also where the template is silent */
};

const rf_reasoning_format *rf_reasoning_format_detect(rf_str t) {
    size_t i = 0;
    while (i + 1 < RF_COUNT(reasonings) && !holds(t, reasonings[i].mark))
        i++;
    return &reasonings[i];
}

const rf_reasoning_format *rf_reasoning_format_by_name(rf_str name) {
    for (size_t i = 0; i < RF_COUNT(reasonings); i++)
        if (rf_str_is(name, reasonings[i].name)) return &reasonings[i];
    return NULL;
}

const char *rf_reasoning_format_name(const rf_reasoning_format *f) { return f ? f->name : "none"; }

void rf_tool_put_marks(const rf_tool_format *f, const rf_reasoning_format *r, rf_buf *out) {
    for (size_t i = 0; f && i < RF_COUNT(f->sections) && f->sections[i].open; i++)
        rf_buf_puts(out, f->sections[i].open);
    if (r) rf_buf_printf(out, "%s%s", r->open, r->close);
}
