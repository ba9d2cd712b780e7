/* test_grammar.c - grammars against texts: what is accepted, what is refused and where, and that a
 * failing allocation anywhere ends cleanly. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "grammar/grammar.h"
#include "lib/testlib.h"

static rf_grammar *compile(rf_language language, const char *text) {
    rf_grammar *g;
    rf_error e = {0};
    if (rf_grammar_compile(&g, language, rf_str_of(text), NULL, &e) != RF_OK)
        fail_msg("%s: %s", text, e.text);
    return g;
}

static bool accepts(rf_grammar *g, const char *text) {
    rf_matcher *m;
    rf_error e = {0};
    assert_int_equal(rf_matcher_create(&m, g, &e), RF_OK);
    rf_status s = rf_matcher_feed(m, rf_str_of(text));
    assert_true(s == RF_OK || s == RF_EARG);
    bool yes = s == RF_OK && rf_matcher_can_end(m);
    rf_matcher_free(m);
    return yes;
}

/* yes and no: texts, ended by NULL. */
static void check(rf_language language, const char *grammar, const char *const *yes,
                  const char *const *no) {
    rf_grammar *g = compile(language, grammar);
    for (; *yes; yes++)
        if (!accepts(g, *yes)) fail_msg("%s: not accepted: %s", grammar, *yes);
    for (; *no; no++)
        if (accepts(g, *no)) fail_msg("%s: accepted: %s", grammar, *no);
    rf_grammar_unref(g);
}
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NONE      ((const char *const[]){NULL})

static void refused(rf_language language, const char *grammar, rf_status status, const char *text) {
    rf_grammar *g;
    rf_error e = {0};
    rf_status s = rf_grammar_compile(&g, language, rf_str_of(grammar), NULL, &e);
    assert_null(g);
    if (s != status || !strstr(e.text, text))
        fail_msg("%s: status %d, '%s' (expected %d, '%s')", grammar, s, e.text, status, text);
}

static void test_gbnf(void **state) {
    (void)state;
    check(RF_LANGUAGE_GBNF, "root ::= \"a\" b* \"\\u00e9\" # end\nb ::= [0-9] | \"(\" b \")\"",
          LIST("a\xC3\xA9", "a1(2)((3))\xC3\xA9"), LIST("", "a", "a(\xC3\xA9", "a1"));
    check(RF_LANGUAGE_GBNF, "root ::= (\n  \"x\" |\n  \"y\"\n){2,3} [^a-c\\]] .",
          LIST("xyd\n", "yyyz\xF0\x9F\x98\x80"), LIST("xd.", "xya.", "xyyyd."));
    check(RF_LANGUAGE_GBNF, "root ::= [ab]{0,100} \"!\"", LIST("!", "abba!"), LIST("ab", "c!"));
    check(RF_LANGUAGE_GBNF, "root ::= \"a\"{90} | (x{70,})\nx ::= \"b\"", NONE, LIST("aa", "bb"));
    check(RF_LANGUAGE_GBNF, "root ::= (\"a\"?){200} \"b\"", LIST("b", "aaab"), LIST("aaa"));
    check(RF_LANGUAGE_GBNF, "root ::= e* \"b\"\ne ::= \"a\"? \"c\"?", LIST("b", "accaab"),
          LIST("a"));
}

static void test_gbnf_refused(void **state) {
    (void)state;
    refused(RF_LANGUAGE_GBNF, "root ::= root \"a\" | \"b\"", RF_EUNSUPPORTED,
            "'root' calls itself");
    refused(RF_LANGUAGE_GBNF, "root ::= e x\ne ::= \"q\"?\nx ::= e x \"a\" | \"b\"",
            RF_EUNSUPPORTED, "'x' calls itself");
    refused(RF_LANGUAGE_GBNF, "root ::= \"a\" root", RF_EUNSUPPORTED, "'root' matches no text");
    refused(RF_LANGUAGE_GBNF, "root ::= \"a\"\nother ::= b", RF_EFORMAT,
            "line 2 column 11: undefined");
    refused(RF_LANGUAGE_GBNF, "a ::= \"a\"", RF_EFORMAT, "no rule 'root'");
    refused(RF_LANGUAGE_GBNF, "root ::= (\"a\"", RF_EFORMAT, "expected ')'");
    refused(RF_LANGUAGE_GBNF, "root ::= \"a\\q\"", RF_EFORMAT, "unknown escape");
    refused(RF_LANGUAGE_GBNF, "root ::= [a", RF_EFORMAT, "ends inside quotes or brackets");
    refused(RF_LANGUAGE_GBNF, "root ::= * \"a\"", RF_EFORMAT, "nothing stands before");
    refused(RF_LANGUAGE_GBNF, "root ::= \"a\"\nroot ::= \"b\"", RF_EFORMAT, "defined twice");
    refused(RF_LANGUAGE_GBNF, "root ::= \"\xFF\"", RF_EFORMAT, "not UTF-8");
    refused(RF_LANGUAGE_GBNF, "root ::= <think>", RF_EUNSUPPORTED, "token references");
    refused(RF_LANGUAGE_GBNF, "root ::= \"a\"{5,2}", RF_EFORMAT, "maximum lies below");
    refused(RF_LANGUAGE_GBNF, "root ::= \"a\"{99999999}", RF_EUNSUPPORTED, "1000000");
    refused(RF_LANGUAGE_GBNF, "root ::= x{0,500}\nx ::= \"a\"?", RF_EUNSUPPORTED, "may be empty");
}

static void test_regex(void **state) {
    (void)state;
    check(RF_LANGUAGE_REGEX, "^[0-9]{4}-(0[1-9]|1[0-2])$", LIST("2024-09", "0000-12"),
          LIST("2024-13", "2024-9", "x2024-09"));
    check(RF_LANGUAGE_REGEX, "a(?:b|c)+?(?P<n>\\d)*\\.", LIST("ab.", "acb12."), LIST("a.", "abx"));
    check(RF_LANGUAGE_REGEX, "[^\\s\\x41-C\\]]\\w.", LIST("d_\xC3\xA9", "-0-"),
          LIST("A_a", " aa", "]aa", "da\n"));
    check(RF_LANGUAGE_REGEX, "", LIST(""), LIST("a"));
    refused(RF_LANGUAGE_REGEX, "(a|b", RF_EFORMAT, "offset 4: ')' is missing");
    refused(RF_LANGUAGE_REGEX, "a)", RF_EFORMAT, "offset 1: ')' without '('");
    refused(RF_LANGUAGE_REGEX, "*a", RF_EFORMAT, "nothing stands before");
    refused(RF_LANGUAGE_REGEX, "(a)\\1", RF_EUNSUPPORTED, "offset 4: this escape");
    refused(RF_LANGUAGE_REGEX, "(?=a)", RF_EUNSUPPORTED, "named groups");
    refused(RF_LANGUAGE_REGEX, "a^b", RF_EUNSUPPORTED, "^ and $");
    refused(RF_LANGUAGE_REGEX, "a++", RF_EUNSUPPORTED, "a repetition of a repetition");
    refused(RF_LANGUAGE_REGEX, "[b-a]", RF_EFORMAT, "ends before it starts");
    refused(RF_LANGUAGE_REGEX, "[a", RF_EFORMAT, "']' is missing");
}

static void test_choice(void **state) {
    (void)state;
    check(RF_LANGUAGE_CHOICE, "[\"yes\",\"no\",\"no way\"]", LIST("yes", "no", "no way"),
          LIST("", "y", "no ", "yesno"));
    refused(RF_LANGUAGE_CHOICE, "[]", RF_EFORMAT, "array of strings");
    refused(RF_LANGUAGE_CHOICE, "[1]", RF_EFORMAT, "array of strings");
}

static void test_schema_values(void **state) {
    (void)state;
    rf_language s = RF_LANGUAGE_SCHEMA;
    check(s, "{\"type\":\"integer\",\"minimum\":-12,\"exclusiveMaximum\":105}",
          LIST("-12", "-1", "0", "9", "104"), LIST("-13", "105", "01", "-0", "1.0", "1e1", ""));
    check(s, "{\"type\":\"number\",\"minimum\":-1.5,\"exclusiveMaximum\":20.25}",
          LIST("-1.5", "0", "-0.3", "20.249", "19"), LIST("-1.51", "20.25", "1e1", "-", "1."));
    check(s, "{\"type\":\"number\"}", LIST("1e300", "-0.5E-7", "12"), LIST("01", ".5", "1e1234"));
    check(s, "{\"type\":\"string\",\"minLength\":1,\"maxLength\":2}",
          LIST("\"a\"", "\"\xC3\xA9\xF0\x9F\x98\x80\"", "\"\\ud83d\\ude00\\n\""),
          LIST("\"\"", "\"abc\"", "\"\\ud83d\"", "\"\n\"", "a"));
    check(s, "{\"type\":\"string\",\"pattern\":\"^a.*b$\",\"minLength\":4}",
          LIST("\"axxb\"", "\"a\\\"\\\"b\""), LIST("\"ab\"", "\"axxc\"", "\"a\\u0041xb\""));
    check(s, "{\"type\":\"string\",\"format\":\"date\"}", LIST("\"2024-02-29\""),
          LIST("\"2023-02-29\"", "\"1900-02-29\"", "\"0000-01-01\"", "\"2023-13-01\""));
    check(s, "{\"type\":\"string\",\"format\":\"ipv4\"}", LIST("\"255.0.10.199\""),
          LIST("\"256.0.0.1\"", "\"01.1.1.1\"", "\"1.1.1\""));
    check(s, "{\"enum\":[1,\"a\\\"\",null,[1,{\"k\":2}]],\"type\":[\"string\",\"null\",\"array\"]}",
          LIST("\"a\\\"\"", "null", "[1,{\"k\":2}]", "[1, {\"k\": 2}]"), LIST("1", "\"a\""));
    check(s, "{}", LIST("{\"a\": [1, true, null, \"x\"]}", "[]", "3"),
          LIST("{a:1}", "[1,]", "tru"));
}

static void test_schema_objects(void **state) {
    (void)state;
    rf_language s = RF_LANGUAGE_SCHEMA;
    const char *closed =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":true,"
        "\"c\":{\"type\":\"null\"}},\"required\":[\"b\"],"
        "\"additionalProperties\":false}";
    check(s, closed,
          LIST("{\"b\":1}", "{\"a\": null, \"b\": []}", "{\n  \"b\":1,\n  \"c\":null\n}"),
          LIST("{}", "{\"a\":null}", "{\"b\":1,\"a\":null}", "{\"b\":1,\"d\":1}", "{\"b\":1,}"));
    check(s,
          "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},"
          "\"additionalProperties\":{\"type\":\"boolean\"}}",
          LIST("{}", "{\"a\":null,\"x\":true,\"aa\":false}"), LIST("{\"x\":null}", "{\"a\":true}"));
    check(s,
          "{\"type\":\"object\",\"patternProperties\":{\"^p\":{\"type\":\"null\"}},"
          "\"additionalProperties\":false}",
          LIST("{\"p1\":null,\"px\":null}", "{}"), LIST("{\"q\":null}", "{\"p\":1}"));
    check(s,
          "{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":{\"const\":"
          "3},\"minItems\":1,\"maxItems\":4}",
          LIST("[1]", "[1,2]", "[1, 2, 3]", "[1,2,3,3]"),
          LIST("[]", "[2]", "[1,2,3,3,3]", "[1,3]"));
    check(s,
          "{\"$ref\":\"#/$defs/a~1b\",\"$defs\":{\"a/b\":{\"type\":\"object\",\"properties\":{"
          "\"n\":{\"anyOf\":[{\"$ref\":\"#/$defs/a~1b\"},{\"type\":\"null\"}]}},\"required\":["
          "\"n\"],\"additionalProperties\":false}}}",
          LIST("{\"n\":{\"n\":{\"n\":null}}}"), LIST("{\"n\":1}", "{}"));
    check(s, "{\"allOf\":[{\"type\":\"integer\",\"minimum\":5},{\"maximum\":7}]}", LIST("5", "7"),
          LIST("4", "8", "null"));
    check(s,
          "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"a\"}},\"required\":"
          "[\"k\"]},{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"b\"},\"v\":{\"type\":"
          "\"null\"}},\"required\":[\"k\"]}]}",
          LIST("{\"k\":\"a\"}", "{\"k\":\"b\",\"v\":null}"), LIST("{\"k\":\"c\"}"));
}

static void test_schema_refused(void **state) {
    (void)state;
    rf_language s = RF_LANGUAGE_SCHEMA;
    refused(s, "{\"properties\":{\"a/b\":{\"items\":{\"not\":{}}}}}", RF_EUNSUPPORTED,
            "#/properties/a~1b/items/not: this keyword");
    refused(s, "{\"type\":\"strin\"}", RF_EFORMAT, "#/type: expected");
    refused(s, "{\"type\":\"string\",\"format\":\"email\"}", RF_EUNSUPPORTED,
            "#/format: this format");
    refused(s, "{\"type\":\"string\",\"pattern\":\"(\"}", RF_EFORMAT, "#/pattern: offset");
    refused(s, "{\"$ref\":\"#/$defs/x\"}", RF_EFORMAT, "#/$ref: this names no schema");
    refused(s, "{\"$ref\":\"http://x/y\"}", RF_EUNSUPPORTED, "#/$ref: only references");
    refused(s, "{\"$ref\":\"#\"}", RF_EFORMAT, "includes itself");
    refused(s, "{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", RF_EUNSUPPORTED,
            "#/oneOf: a value could match two");
    refused(s, "{\"enum\":[1],\"minimum\":0}", RF_EUNSUPPORTED, "#/minimum: beside enum");
    refused(s, "{\"type\":\"object\",\"properties\":{\"a\":false},\"required\":[\"a\"]}",
            RF_EUNSUPPORTED, "matches no text");
    refused(s, "{\"minLength\":-1,\"type\":\"string\"}", RF_EFORMAT,
            "#/minLength: expected a whole");
    refused(s, "[]", RF_EFORMAT, "expected a schema");
    refused(s, "{", RF_EFORMAT, "JSON line 1");
}

/* Copies go their own ways; a refused byte changes nothing. */
static void test_matcher_values(void **state) {
    (void)state;
    rf_grammar *g =
        compile(RF_LANGUAGE_SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}");
    rf_matcher *m, *copy;
    rf_error e = {0};
    assert_int_equal(rf_matcher_create(&m, g, &e), RF_OK);
    rf_grammar_unref(g); /* the matcher keeps it */
    assert_int_equal(rf_matcher_feed(m, RF_STR("[1,")), RF_OK);
    assert_int_equal(rf_matcher_copy(&copy, m), RF_OK);
    assert_int_equal(rf_matcher_feed(m, RF_STR("2]x")), RF_EARG);
    assert_false(rf_matcher_can_end(m));
    assert_int_equal(rf_matcher_feed(m, RF_STR("2]")), RF_OK);
    assert_true(rf_matcher_can_end(m) && rf_matcher_is_over(m));
    assert_int_equal(rf_matcher_feed(m, RF_STR(" ")), RF_EARG);
    assert_int_equal(rf_matcher_feed(copy, RF_STR("77,")), RF_OK);
    assert_false(rf_matcher_can_end(copy));
    rf_matcher_free(m);
    rf_matcher_free(copy);
}

/* Nesting beyond the frames a machine has is an error that says so, not a crash. */
static void test_depth_limit(void **state) {
    (void)state;
    rf_grammar *g = compile(RF_LANGUAGE_SCHEMA, "{}");
    rf_matcher *m;
    rf_error e = {0};
    assert_int_equal(rf_matcher_create(&m, g, &e), RF_OK);
    rf_status s = RF_OK;
    size_t depth = 0;
    for (; s == RF_OK && depth < 10000; depth++)
        s = rf_matcher_feed(m, RF_STR("["));
    assert_int_equal(s, RF_EFULL);
    assert_true(depth > 500);
    rf_matcher_free(m);
    rf_grammar_unref(g);
}

static rf_status compile_and_match(rf_language language, const char *text) {
    rf_grammar *g;
    rf_matcher *m = NULL;
    rf_error e = {0};
    rf_status s = rf_grammar_compile(&g, language, rf_str_of(text), NULL, &e);
    if (s == RF_OK) s = rf_matcher_create(&m, g, &e);
    if (s == RF_OK) s = rf_matcher_feed(m, RF_STR("{\"a"));
    rf_matcher_free(m);
    rf_grammar_unref(g);
    return s;
}

static void test_no_memory(void **state) {
    (void)state;
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^x[a-f]\"},"
        "\"ab\":{\"anyOf\":[{\"enum\":[1,[2]]},{\"$ref\":\"#\"}]}},\"patternProperties\":{\"^z\":{"
        "\"type\":\"array\",\"items\":{\"type\":\"number\",\"minimum\":0.5},\"maxItems\":90}}}";
    static const char gbnf[] =
        "root ::= \"{\" ([^a-z] | x){1,90} \"a\"*\nx ::= (\"(\" x \")\")? \"b\"";
    assert_int_equal(compile_and_match(RF_LANGUAGE_SCHEMA, schema), RF_OK);
    assert_int_equal(compile_and_match(RF_LANGUAGE_GBNF, gbnf), RF_OK);
    for (int which = 0; which < 2; which++) {
        rf_status s = RF_ENOMEM;
        for (long nth = 1; s != RF_OK && nth < 20000; nth++) {
            rf_alloc_fail_nth(nth);
            s = compile_and_match(which ? RF_LANGUAGE_GBNF : RF_LANGUAGE_SCHEMA,
                                  which ? gbnf : schema);
            rf_alloc_fail_nth(0);
            assert_true(s == RF_OK || s == RF_ENOMEM);
        }
        assert_int_equal(s, RF_OK);
    }
}

/* One line of tests/data/grammar/cases.jsonl, made by tools/check_grammar.py, whose verdicts are those
 * of other implementations. */
static void check_case(const rf_json *job) {
    static const char *const keys[] = {"gbnf", "schema", "regex"};
    static const char *const lists[] = {"check", "valid", "check"};
    size_t k = 0;
    while (!rf_json_get(job, keys[k]))
        k++;
    rf_str text = rf_json_str(rf_json_get(job, keys[k]));
    const rf_json *strings = rf_json_get(job, lists[k]), *verdicts = rf_json_get(job, "accepts");
    rf_grammar *g = compile((rf_language)k, text.p);
    for (size_t i = 0; i < rf_json_len(strings); i++) {
        bool wanted = verdicts ? rf_json_bool(rf_json_at(verdicts, i)) : true;
        rf_str string = rf_json_str(rf_json_at(strings, i));
        if (accepts(g, string.p) != wanted) fail_msg("%s on %s", text.p, string.p);
    }
    rf_grammar_unref(g);
}

static void test_cases(void **state) {
    (void)state;
    size_t n, n_cases = 0;
    char *p = (char *)rf_test_read(rf_test_data("grammar/cases.jsonl"), &n);
    for (size_t at = 0, end; at < n; at = end + 1, n_cases++) {
        rf_json *job;
        rf_error e = {0};
        for (end = at; end < n && p[end] != '\n';)
            end++;
        if (rf_json_parse(&job, (rf_str){p + at, end - at}, &e) != RF_OK) fail_msg("%s", e.text);
        check_case(job);
        rf_json_free(job);
    }
    rf_free(p);
    assert_true(n_cases > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gbnf),           cmocka_unit_test(test_gbnf_refused),
        cmocka_unit_test(test_regex),          cmocka_unit_test(test_choice),
        cmocka_unit_test(test_schema_values),  cmocka_unit_test(test_schema_objects),
        cmocka_unit_test(test_schema_refused), cmocka_unit_test(test_matcher_values),
        cmocka_unit_test(test_depth_limit),    cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
