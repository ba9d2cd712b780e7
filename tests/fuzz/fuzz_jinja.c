/* fuzz_jinja.c - any bytes as a chat template, rendered with a fixed conversation: refused with a
 * place, or text with one mark per byte. */
#include <string.h>

#include "text/jinja/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char context[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \" H\\u00e9 \\ud83e\\udd99\\n\"},"
    "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"name\": \"f\", "
    "\"arguments\": "
    "{\"a\": 1, \"b\": [1.5, true, null, {}]}}]}], \"n\": -7, \"x\": 2.5, \"s\": \"a,b c\"}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct tm now = {.tm_year = 126, .tm_mon = 7, .tm_mday = 15};
    rf_jinja *t;
    rf_error e = {0};
    rf_status s = rf_jinja_parse(&t, (rf_str){(const char *)data, size}, &e);
    if (s != RF_OK) {
        RF_ASSERT(!t && e.status == s);
        RF_ASSERT(s == RF_ENOMEM || strncmp(e.text, "chat template", 13) == 0);
        return 0;
    }
    rf_json *j;
    RF_ASSERT(rf_json_parse(&j, rf_str_of(context), &e) == RF_OK);
    const rf_jinja_var vars[] = {{.name = "messages", .value = rf_json_get(j, "messages")},
                                 {.name = "n", .value = rf_json_get(j, "n")},
                                 {.name = "x", .value = rf_json_get(j, "x")},
                                 {.name = "s", .value = rf_json_get(j, "s")},
                                 {.name = "tools"}};
    rf_jinja_input in = {.vars = vars, .n_vars = RF_COUNT(vars), .now = &now};
    rf_jinja_text out = {0};
    s = rf_jinja_render(t, &in, &out, &e);
    RF_ASSERT(s == e.status);
    RF_ASSERT(s == RF_OK || strncmp(e.text, "chat template line ", 19) == 0 || s == RF_ENOMEM);
    RF_ASSERT(out.text.len == out.from_input.len && (s == RF_OK || out.text.len == 0));
    rf_jinja_text_free(&out);
    rf_json_free(j);
    rf_jinja_free(t);
    return 0;
}
