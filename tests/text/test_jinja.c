/* test_jinja.c - the template engine against jinja2's own results, its marks of input, its limits,
 * and the failure of every allocation.
 *
 * req: "no chat template" among the defects seen in the earlier attempt's source. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "lib/testlib.h"
#include "text/chat_template.h"
#include "text/jinja/jinja.h"

/* 2026-08-15 12:34:56, a Saturday: the time at which the goldens were made. */
static const struct tm now = {.tm_year = 126,
                              .tm_mon = 7,
                              .tm_mday = 15,
                              .tm_hour = 12,
                              .tm_min = 34,
                              .tm_sec = 56,
                              .tm_wday = 6,
                              .tm_yday = 226};

static rf_json *read_json(const char *path) {
    size_t n;
    uint8_t *bytes = rf_test_read(path, &n);
    rf_json *j;
    rf_error e = {0};
    if (rf_json_parse(&j, (rf_str){(const char *)bytes, n}, &e) != RF_OK)
        fail_msg("%s: %s", path, e.text);
    rf_free(bytes);
    return j;
}

static rf_json *parse_json(const char *text) {
    rf_json *j;
    rf_error e = {0};
    if (rf_json_parse(&j, rf_str_of(text), &e) != RF_OK) fail_msg("%s", e.text);
    return j;
}

/* Parses and renders with every member of an object as a variable. */
static rf_status render(rf_str source, const rf_json *context, rf_jinja_text *out, rf_error *e) {
    rf_jinja_var vars[16];
    rf_jinja_input in = {.vars = vars, .now = &now};
    for (void *it = context ? rf_json_iter(context) : NULL; it;
         it = rf_json_iter_next(context, it)) {
        assert_true(in.n_vars < RF_COUNT(vars));
        vars[in.n_vars++] = (rf_jinja_var){
            .name = rf_json_iter_key(it), .value = rf_json_iter_value(it), .is_markup = false};
    }
    rf_jinja *t;
    RF_TRY(rf_jinja_parse(&t, source, e));
    rf_status s = rf_jinja_render(t, &in, out, e);
    rf_jinja_free(t);
    return s;
}

/* True where result and want agree; prints the difference otherwise. */
static bool agrees(const char *what, rf_status s, const rf_error *e, rf_str got,
                   const rf_json *want) {
    if (!want) {
        if (s == RF_EFORMAT && strstr(e->text, "chat template line ")) return true;
        print_message("%s: expected a failure, got %s \"%.*s\"\n", what, rf_status_name(s),
                      RF_STR_ARG(got));
        return false;
    }
    if (s == RF_OK && rf_str_eq(got, rf_json_str(want))) return true;
    print_message("%s: want \"%.*s\"\n  got %s \"%.*s\" %s\n", what, RF_STR_ARG(rf_json_str(want)),
                  rf_status_name(s), RF_STR_ARG(got), e->text);
    return false;
}

static void test_snippets(void **state) {
    (void)state;
    rf_json *all = read_json(rf_test_data("text/jinja_snippets.json"));
    const rf_json *list = rf_json_get(all, "snippets");
    size_t n_bad = 0;
    for (size_t i = 0; i < rf_json_len(list); i++) {
        const rf_json *one = rf_json_at(list, i);
        rf_str source = rf_json_str(rf_json_get(one, "template"));
        rf_jinja_text out = {0};
        rf_error e = {0};
        rf_status s = render(source, rf_json_get(one, "context"), &out, &e);
        if (rf_json_bool(rf_json_get(one, "unstable"))) { /* Python prints an address there */
            assert_true(s == RF_OK &&
                        rf_str_is(rf_buf_str(&out.text), "<built-in method items of dict object>"));
        } else {
            char what[200];
            snprintf(what, sizeof what, "snippet %zu %.*s", i, RF_STR_ARG(source));
            n_bad += !agrees(what, s, &e, rf_buf_str(&out.text), rf_json_get(one, "output"));
        }
        assert_true(out.text.len == out.from_input.len);
        rf_jinja_text_free(&out);
    }
    assert_int_equal(rf_json_len(list), 344);
    assert_int_equal(n_bad, 0);
    rf_json_free(all);
}

static rf_jinja *template_of(const char *name) {
    char path[300];
    int len = snprintf(path, sizeof path, "chat/templates/%s", name);
    assert_true(len > 0 && (size_t)len < sizeof path);
    const char *full = rf_test_shared(path);
    size_t n;
    uint8_t *source = rf_test_read(full, &n);
    rf_jinja *t;
    rf_error e = {0};
    if (rf_jinja_parse(&t, (rf_str){(const char *)source, n}, &e) != RF_OK)
        fail_msg("%s: %s", name, e.text);
    rf_free(source);
    return t;
}

/* One case of one golden, with absent tools and documents none or undefined. */
static bool check_case(const rf_jinja *t, const char *what, const rf_json *context,
                       const rf_json *c, bool undefined, const rf_json *want) {
    rf_jinja_var vars[16];
    rf_jinja_input in = {.vars = vars, .now = &now};
    for (void *it = rf_json_iter(context); it; it = rf_json_iter_next(context, it)) {
        vars[in.n_vars++] = (rf_jinja_var){
            .name = rf_json_iter_key(it), .value = rf_json_iter_value(it), .is_markup = true};
    }
    for (void *it = rf_json_iter(c); it; it = rf_json_iter_next(c, it)) {
        if (strcmp(rf_json_iter_key(it), "name") == 0) continue;
        vars[in.n_vars++] = (rf_jinja_var){
            .name = rf_json_iter_key(it), .value = rf_json_iter_value(it), .is_markup = false};
    }
    if (!undefined && !rf_json_get(c, "tools")) vars[in.n_vars++] = (rf_jinja_var){.name = "tools"};
    if (!undefined) vars[in.n_vars++] = (rf_jinja_var){.name = "documents"};
    rf_jinja_text out = {0};
    rf_error e = {0};
    rf_status s = rf_jinja_render(t, &in, &out, &e);
    bool ok = agrees(what, s, &e, rf_buf_str(&out.text), want);
    rf_jinja_text_free(&out);
    return ok;
}

static const rf_json *by_name(const rf_json *list, rf_str name) {
    for (size_t i = 0; i < rf_json_len(list); i++) {
        const rf_json *one = rf_json_at(list, i);
        if (rf_str_eq(rf_json_str(rf_json_get(one, "name")), name)) return one;
    }
    fail_msg("no case %.*s", RF_STR_ARG(name));
    return NULL;
}

static void check_golden(const char *path, const rf_json *cases, size_t *n, size_t *n_bad) {
    rf_json *golden = read_json(path);
    rf_str name = rf_json_str(rf_json_get(golden, "template"));
    char what[700];
    snprintf(what, sizeof what, "%.*s", RF_STR_ARG(name));
    rf_jinja *t = template_of(what);
    const rf_json *list = rf_json_get(golden, "cases"), *context = rf_json_get(golden, "context");
    for (size_t i = 0; i < rf_json_len(list); i++) {
        const rf_json *g = rf_json_at(list, i);
        rf_str case_name = rf_json_str(rf_json_get(g, "name"));
        const rf_json *c = by_name(cases, case_name);
        const rf_json *want = rf_json_get(g, "output"), *undef = rf_json_get(g, "output_undef");
        bool differs = undef || rf_json_get(g, "error_undef");
        snprintf(what, sizeof what, "%.*s %.*s", RF_STR_ARG(name), RF_STR_ARG(case_name));
        *n_bad += !check_case(t, what, context, c, false, want);
        snprintf(what, sizeof what, "%.*s %.*s undefined", RF_STR_ARG(name), RF_STR_ARG(case_name));
        *n_bad += !check_case(t, what, context, c, true, differs ? undef : want);
        *n += 2;
    }
    rf_jinja_free(t);
    rf_json_free(golden);
}

static void test_goldens(void **state) {
    (void)state;
    const char *folder = rf_test_shared("chat/goldens");
    RF_SKIP_WITHOUT(folder, "chat templates of 49 models");
    char root[400];
    snprintf(root, sizeof root, "%s", folder);
    rf_json *cases = read_json(rf_test_data("text/jinja_cases.json"));
    DIR *dir = opendir(root);
    assert_non_null(dir);
    size_t n = 0, n_bad = 0;
    for (const struct dirent *f; (f = readdir(dir));) {
        char path[800];
        if (f->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", root, f->d_name);
        check_golden(path, rf_json_get(cases, "cases"), &n, &n_bad);
    }
    closedir(dir);
    print_message("%zu of %zu golden renderings agree\n", n - n_bad, n);
    assert_true(n >= 1764);
    assert_int_equal(n_bad, 0);
    rf_json_free(cases);
}

/* The text with each run of input in «...» marks, here < and >. */
static void check_marks(const char *source, const char *context, const char *want) {
    rf_json *j = parse_json(context);
    rf_jinja_text out = {0};
    rf_error e = {0};
    if (render(rf_str_of(source), j, &out, &e) != RF_OK) fail_msg("%s: %s", source, e.text);
    rf_buf got = {0};
    bool inside = false;
    for (size_t i = 0; i <= out.text.len; i++) {
        bool input = i < out.text.len && out.from_input.p[i];
        if (input != inside) rf_buf_putc(&got, input ? '<' : '>');
        inside = input;
        if (i < out.text.len) rf_buf_putc(&got, out.text.p[i]);
    }
    if (!rf_str_is(rf_buf_str(&got), want)) {
        fail_msg("%s: got %.*s, want %s", source, RF_STR_ARG(rf_buf_str(&got)), want);
    }
    rf_buf_free(&got);
    rf_jinja_text_free(&out);
    rf_json_free(j);
}

static void test_marks(void **state) {
    (void)state;
    const char *context =
        "{\"u\": \" a,B \", \"d\": {\"k\": \"v\\n\"}, \"l\": [\"x\", \"y\"], \"n\": 7}";
    check_marks("A{{ u }}B", context, "A< a,B >B");
    check_marks("{{ 'x' + u | trim ~ 'y' }}", context, "x<a,B>y");
    check_marks("{{ u | replace(',', ';') | upper }}", context, "< A>;<B >");
    check_marks("{{ 'p-q' | replace('-', u) }}", context, "p< a,B >q");
    check_marks("{{ d | tojson }}", context, "{\"<k>\": \"<v\\n>\"}");
    check_marks("{{ d }}", context, "{'<k>': '<v\\n>'}");
    check_marks("{{ l | join('+') }}{{ n }}", context, "<x>+<y>7");
    check_marks("{{ '[%s]' % u }}{{ '[{}]'.format(u) }}", context, "[< a,B >][< a,B >]");
    check_marks("{{ u.split(',')[1][0] }}{{ u[1:2] }}{{ u | list | length }}", context, "<Ba>5");
    check_marks(
        "{% set x %}<{{ l[0] }}>{% endset %}{% macro m(y) %}({{ y }}){% endmacro %}{{ m(x) }}",
        context, "(<<x>>)");
    check_marks("{% if u == ' a,B ' %}same{% endif %}", context, "same");
}

static void check_fails(const char *source, const char *part) {
    rf_jinja_text out = {0};
    rf_error e = {0};
    rf_status s = render(rf_str_of(source), NULL, &out, &e);
    if (s != RF_EFORMAT || !strstr(e.text, part))
        fail_msg("%.80s: %s %s", source, rf_status_name(s), e.text);
    rf_jinja_text_free(&out);
}

static void test_errors(void **state) {
    (void)state;
    check_fails("a\nb {{ 1 + 'x' }}",
                "line 2 column 8: operator +: expected operands that go together, got int and str");
    check_fails("{% if x %}\n{% for %}", "line 2 column 8: expected ");
    check_fails("{{ raise_exception('no tools') }}", "no tools");
    check_fails("{% break %}", "inside a for loop");
    check_fails("{{ f(*a) }}", "not supported");
    check_fails("{{ [1].append(2) }}", "list.append is refused");
    check_fails("{{ 10 ** 100 }}", "127 bits");
    check_fails("{{ range(1000000) }}", "at most 100000");
}

static void test_limits(void **state) {
    (void)state;
    check_fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "macros inside each other");
    check_fails("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
                "steps allowed");
    check_fails("{{ 'abc' * 99999999 }}", "MiB");
    check_fails("{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% "
                "endfor %}",
                "allowed");
    check_fails("{% set n = namespace(l=[]) %}{% for i in range(5000) %}{% set n.l = [n.l] %}{% "
                "endfor %}{{ n.l }}",
                "levels allowed");
    check_fails("{% set n = namespace() %}{% set n.n = n %}{{ n }}", "levels allowed");
    rf_buf deep = {0};
    rf_buf_puts(&deep, "{{ ");
    for (int i = 0; i < 300; i++) {
        rf_buf_putc(&deep, '(');
    }
    for (int i = 0; i < 300; i++) {
        rf_buf_putc(&deep, ')');
    }
    rf_buf_puts(&deep, " }}");
    check_fails(deep.p, "nested deeper than the 200 levels");
    rf_buf_clear(&deep);
    rf_buf_puts(&deep, "{{ 0");
    for (int i = 0; i < 5000; i++) {
        rf_buf_puts(&deep, "+1");
    }
    rf_buf_puts(&deep, " }}");
    check_fails(deep.p, "nested deeper than the 1000 levels");
    rf_buf_free(&deep);
    char *big = rf_alloc(RF_JINJA_MAX_SOURCE + 1, 1);
    memset(big, 'x', RF_JINJA_MAX_SOURCE + 1);
    rf_jinja *t;
    rf_error e = {0};
    assert_int_equal(rf_jinja_parse(&t, (rf_str){big, RF_JINJA_MAX_SOURCE + 1}, &e), RF_EFORMAT);
    assert_non_null(strstr(e.text, "1048577 bytes, more than the 1048576 allowed"));
    rf_free(big);
    e = (rf_error){0};
    assert_int_equal(rf_jinja_parse(&t, RF_STR("a\xFF"), &e), RF_EFORMAT);
    assert_non_null(strstr(e.text, "not UTF-8 at byte 1"));
}

static const char chat[] =
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}{{ mood }}";

/* The pieces of a rendered chat: contents apart, role names and tokens of the model as markup. */
static void test_chat(void **state) {
    (void)state;
    rf_json *messages = parse_json("[{\"role\": \"user\", \"content\": \"Hi <|user|>\"},"
                                   " {\"role\": \"end\", \"content\": \"\"}]");
    rf_json *kwargs = parse_json("{\"mood\": \"calm\", \"bos_token\": \"[]\"}");
    rf_chat_request r = {.messages = messages,
                         .kwargs = kwargs,
                         .add_generation_prompt = true,
                         .bos_token = RF_STR("<s>"),
                         .eos_token = RF_STR("</s>"),
                         .now = &now};
    rf_jinja *t;
    rf_error e = {0};
    assert_int_equal(rf_jinja_parse(&t, rf_str_of(chat), &e), RF_OK);
    long n = 0;
    for (rf_status s = RF_ENOMEM; s != RF_OK; n++) { /* with every allocation failing in turn */
        rf_chat_text out = {0};
        e = (rf_error){0};
        rf_alloc_fail_nth(n + 1);
        s = rf_chat_render_template(t, &r, &out, &e);
        rf_alloc_fail_nth(0);
        assert_true(s == RF_OK || (s == RF_ENOMEM && e.status == RF_ENOMEM));
        if (s == RF_OK) {
            static const struct {
                const char *text;
                bool is_markup;
            } want[] = {{"<s><|user|>", true}, {"Hi <|user|>", false},        {"</s><|", true},
                        {"end", false},        {"|></s><|assistant|>", true}, {"calm", false}};
            assert_int_equal(out.n_pieces, RF_COUNT(want));
            for (size_t i = 0; i < out.n_pieces; i++) {
                rf_str got = {out.text.p + out.pieces[i].start, out.pieces[i].len};
                assert_true(rf_str_is(got, want[i].text) &&
                            out.pieces[i].is_markup == want[i].is_markup);
            }
        }
        rf_chat_text_free(&out);
    }
    assert_true(n > 5);
    rf_jinja_free(t);
    rf_json_free(messages);
    rf_json_free(kwargs);
}

static void test_plain_messages(void **state) {
    (void)state;
    const rf_chat_message m[] = {{RF_STR("system"), RF_STR("S \"q\"\n")},
                                 {RF_STR("user"), RF_STR("<s>")}};
    rf_jinja *t;
    rf_error e = {0};
    rf_chat_text out = {0};
    assert_int_equal(rf_jinja_parse(&t, rf_str_of(chat), &e), RF_OK);
    rf_chat_request r = {.bos_token = RF_STR("<s>"), .eos_token = RF_STR("\n")};
    assert_int_equal(rf_chat_render_messages(t, m, 2, &r, &out, &e), RF_OK);
    assert_true(rf_str_is(rf_buf_str(&out.text), "<s><|system|>S \"q\"\n\n<|user|><s>\n"));
    assert_int_equal(out.n_pieces, 5);
    assert_false(out.pieces[3].is_markup);
    rf_chat_text_free(&out);
    rf_jinja_free(t);
}

static void test_parse_allocations(void **state) {
    (void)state;
    rf_status s = RF_ENOMEM;
    long n = 0;
    for (; s != RF_OK; n++) {
        rf_jinja *t;
        rf_error e = {0};
        rf_alloc_fail_nth(n + 1);
        s = rf_jinja_parse(&t, rf_str_of(chat), &e);
        rf_alloc_fail_nth(0);
        assert_true(s == RF_OK ? t != NULL : s == RF_ENOMEM && !t && e.status == RF_ENOMEM);
        rf_jinja_free(t);
    }
    assert_true(n > 2);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_snippets),       cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_marks),          cmocka_unit_test(test_errors),
        cmocka_unit_test(test_limits),         cmocka_unit_test(test_chat),
        cmocka_unit_test(test_plain_messages), cmocka_unit_test(test_parse_allocations),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
