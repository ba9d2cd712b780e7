/* parser.c - tokens to nodes, by jinja2's grammar and precedence: expressions first, statements
 * below.
 *
 * Filters and tests are looked up when they run, so a template that mentions an unknown one in a
 * branch not taken still works. */
#include <stdio.h>
#include <string.h>

#include "text/jinja/internal.h"

typedef struct parser {
    rf_jx *c;
    const rf_jtoken *t; /* the current token */
    size_t loops;       /* around the statement */
    rf_jnode *macro;    /* around it */
} parser;

typedef struct node_list { /* appends in order */
    rf_jnode *first, **end;
} node_list;

static void append(node_list *l, rf_jnode *n) {
    if (!l->end) l->end = &l->first;
    *l->end = n;
    l->end = &n->next;
}

static rf_jnode *node_at(parser *p, rf_jnode_kind kind, size_t at) {
    rf_jnode *n = rf_jx_alloc(p->c, 1, sizeof *n);
    n->kind = kind;
    n->at = at;
    return n;
}

static rf_jnode *node(parser *p, rf_jnode_kind kind) { return node_at(p, kind, p->t->at); }

_Noreturn static void fail_expected(parser *p, const char *expected) {
    p->c->at = p->t->at;
    if (p->t->kind == JT_EOF)
        rf_jx_fail(p->c, "expected %s, got the end of the template", expected);
    rf_jx_fail(p->c, "expected %s, got \"%.*s\"", expected,
               (int)(p->t->text.len > 40 ? 40 : p->t->text.len), p->t->text.p);
}

static void nest(parser *p) {
    p->c->at = p->t->at;
    if (p->c->depth == RF_JINJA_MAX_NESTING) {
        rf_jx_fail(p->c, "nested deeper than the %d levels allowed", RF_JINJA_MAX_NESTING);
    }
    p->c->depth++;
}

static bool is_op(const parser *p, const char *op) {
    return p->t->kind == JT_OP && rf_str_is(p->t->text, op);
}
static bool is_word(const parser *p, const char *word) {
    return p->t->kind == JT_NAME && rf_str_is(p->t->text, word);
}
static bool take_op(parser *p, const char *op) {
    bool yes = is_op(p, op);
    p->t += yes;
    return yes;
}
static bool take_word(parser *p, const char *word) {
    bool yes = is_word(p, word);
    p->t += yes;
    return yes;
}
static void need_op(parser *p, const char *op) {
    if (!take_op(p, op)) fail_expected(p, op);
}
static void need_word(parser *p, const char *word) {
    if (!take_word(p, word)) fail_expected(p, word);
}
static rf_str need_name(parser *p) {
    if (p->t->kind != JT_NAME) fail_expected(p, "a name");
    return (p->t++)->text;
}

static rf_jnode *parse_expr(parser *p);
static rf_jnode *parse_or(parser *p);
static rf_jnode *parse_unary(parser *p, bool with_filter);

static bool at_tuple_end(const parser *p) {
    return p->t->kind == JT_PRINT_END || p->t->kind == JT_BLOCK_END || p->t->kind == JT_EOF ||
           is_op(p, ")") || is_word(p, "in") || is_word(p, "recursive");
}

/* One expression, or several with commas between them. */
static rf_jnode *parse_tuple(parser *p, bool with_cond, bool in_brackets) {
    rf_jnode *tuple = node(p, JN_TUPLE);
    node_list list = {0};
    bool has_comma = false;
    while (!at_tuple_end(p)) {
        append(&list, with_cond ? parse_expr(p) : parse_or(p));
        if (!take_op(p, ",")) break;
        has_comma = true;
    }
    if (!has_comma && list.first) return list.first;
    if (!list.first && !in_brackets) fail_expected(p, "an expression");
    tuple->list = list.first;
    return tuple;
}

static rf_jnode *parse_list(parser *p) {
    rf_jnode *n = node(p, JN_LIST);
    node_list list = {0};
    need_op(p, "[");
    while (!is_op(p, "]")) {
        append(&list, parse_expr(p));
        if (!take_op(p, ",")) break;
    }
    need_op(p, "]");
    n->list = list.first;
    return n;
}

static rf_jnode *parse_dict(parser *p) {
    rf_jnode *n = node(p, JN_DICT);
    node_list list = {0};
    need_op(p, "{");
    while (!is_op(p, "}")) {
        rf_jnode *pair = node(p, JN_PAIR);
        pair->a = parse_expr(p);
        need_op(p, ":");
        pair->b = parse_expr(p);
        append(&list, pair);
        if (!take_op(p, ",")) break;
    }
    need_op(p, "}");
    n->list = list.first;
    return n;
}

static rf_jnode *parse_const(parser *p) {
    rf_jnode *n = node(p, JN_CONST);
    n->value = (p->t++)->value;
    if (n->value.kind != JV_STR || p->t->kind != JT_CONST) return n;
    rf_jbuf b = {0}; /* 'a' 'b' is one string */
    rf_jbuf_put(p->c, &b, n->value.s);
    while (p->t->kind == JT_CONST && p->t->value.kind == JV_STR) {
        rf_jbuf_put(p->c, &b, (p->t++)->value.s);
    }
    n->value = rf_jv_str((rf_jstr){b.len ? b.p : "", NULL, b.len});
    return n;
}

static rf_jnode *parse_name(parser *p) {
    rf_jnode *n = node(p, JN_CONST);
    rf_str name = need_name(p);
    if (rf_str_is(name, "true") || rf_str_is(name, "True")) {
        n->value = rf_jv_bool(true);
    } else if (rf_str_is(name, "false") || rf_str_is(name, "False")) {
        n->value = rf_jv_bool(false);
    } else if (rf_str_is(name, "none") || rf_str_is(name, "None")) {
        n->value = rf_jv_none();
    } else {
        n->kind = JN_NAME;
        n->name = name;
        if (p->macro && rf_str_is(name, "varargs")) p->macro->takes_varargs = true;
        if (p->macro && rf_str_is(name, "kwargs")) p->macro->takes_kwargs = true;
        if (p->macro && rf_str_is(name, "caller")) p->macro->takes_caller = true;
    }
    return n;
}

static rf_jnode *parse_primary(parser *p) {
    if (p->t->kind == JT_NAME) return parse_name(p);
    if (p->t->kind == JT_CONST) return parse_const(p);
    if (is_op(p, "[")) return parse_list(p);
    if (is_op(p, "{")) return parse_dict(p);
    if (take_op(p, "(")) {
        rf_jnode *n = parse_tuple(p, true, true);
        need_op(p, ")");
        return n;
    }
    fail_expected(p, "an expression");
}

static rf_jnode *parse_args(parser *p) {
    node_list list = {0};
    need_op(p, "(");
    bool had_keyword = false;
    while (!is_op(p, ")")) {
        if (is_op(p, "*") || is_op(p, "**")) {
            fail_expected(p, "an argument (spreading with * is not supported)");
        }
        if (p->t->kind == JT_NAME && p->t[1].kind == JT_OP && rf_str_is(p->t[1].text, "=")) {
            rf_jnode *kw = node(p, JN_KEYWORD);
            kw->name = need_name(p);
            p->t++;
            kw->a = parse_expr(p);
            append(&list, kw);
            had_keyword = true;
        } else {
            if (had_keyword) fail_expected(p, "a keyword argument behind a keyword argument");
            append(&list, parse_expr(p));
        }
        if (!take_op(p, ",")) break;
    }
    need_op(p, ")");
    return list.first;
}

static rf_jnode *parse_call(parser *p, rf_jnode *callee) {
    rf_jnode *n = node(p, JN_CALL);
    n->a = callee;
    n->list = parse_args(p);
    return n;
}

/* x or a:b:c between brackets. */
static rf_jnode *parse_subscribed(parser *p) {
    rf_jnode *n = node(p, JN_SLICE);
    if (!is_op(p, ":")) {
        n->a = parse_expr(p);
        if (!is_op(p, ":")) return n->a;
    }
    need_op(p, ":");
    if (!is_op(p, ":") && !is_op(p, "]") && !is_op(p, ",")) n->b = parse_expr(p);
    if (take_op(p, ":") && !is_op(p, "]") && !is_op(p, ",")) n->c = parse_expr(p);
    return n;
}

static rf_jnode *parse_subscript(parser *p, rf_jnode *of) {
    rf_jnode *n = node(p, JN_ITEM);
    n->a = of;
    if (take_op(p, ".")) {
        if (p->t->kind == JT_NAME) {
            n->kind = JN_ATTR;
            n->name = need_name(p);
        } else if (p->t->kind == JT_CONST && p->t->value.kind == JV_INT) {
            n->b = parse_const(p);
        } else {
            fail_expected(p, "a name or a number behind the dot");
        }
        return n;
    }
    need_op(p, "[");
    n->b = parse_subscribed(p);
    if (is_op(p, ",")) fail_expected(p, "] (one subscript)");
    need_op(p, "]");
    return n;
}

static rf_jnode *parse_postfix(parser *p, rf_jnode *n) {
    for (;;) {
        if (is_op(p, ".") || is_op(p, "[")) {
            n = parse_subscript(p, n);
        } else if (is_op(p, "(")) {
            n = parse_call(p, n);
        } else {
            return n;
        }
    }
}

static rf_str parse_dotted(parser *p) {
    rf_str name = need_name(p);
    while (take_op(p, ".")) {
        rf_str more = need_name(p);
        name.len = (size_t)(more.p + more.len - name.p);
    }
    return name;
}

/* NAME or NAME(...) of a filter on what stands before it (NULL: a block's text). */
static rf_jnode *parse_filter(parser *p, rf_jnode *of) {
    rf_jnode *n = node(p, JN_FILTER);
    n->a = of;
    n->name = parse_dotted(p);
    if (is_op(p, "(")) n->list = parse_args(p);
    return n;
}

/* A test's single argument may stand without brackets: "x is divisibleby 3". */
static bool starts_argument(const parser *p) {
    if (p->t->kind == JT_CONST) return true;
    if (p->t->kind == JT_NAME) {
        return !is_word(p, "else") && !is_word(p, "or") && !is_word(p, "and") &&
               !is_word(p, "is") && !is_word(p, "if") && !is_word(p, "in") && !is_word(p, "not");
    }
    return is_op(p, "[") || is_op(p, "{");
}

static rf_jnode *parse_test(parser *p, rf_jnode *of) {
    size_t at = (p->t++)->at; /* "is" */
    bool is_not = take_word(p, "not");
    rf_jnode *n = node_at(p, JN_TEST, at);
    n->a = of;
    n->name = parse_dotted(p);
    if (is_op(p, "(")) {
        n->list = parse_args(p);
    } else if (starts_argument(p)) {
        n->list = parse_postfix(p, parse_primary(p));
    }
    if (!is_not) return n;
    rf_jnode *inverse = node_at(p, JN_NOT, at);
    inverse->a = n;
    return inverse;
}

static rf_jnode *parse_filters(parser *p, rf_jnode *n) {
    for (;;) {
        if (take_op(p, "|")) {
            n = parse_filter(p, n);
        } else if (is_word(p, "is")) {
            n = parse_test(p, n);
        } else if (n && is_op(p, "(")) {
            n = parse_call(p, n);
        } else {
            return n;
        }
    }
}

static rf_jnode *parse_unary(parser *p, bool with_filter) {
    nest(p);
    rf_jnode *n;
    if (is_op(p, "-") || is_op(p, "+")) {
        n = node(p, is_op(p, "-") ? JN_NEG : JN_POS);
        p->t++;
        n->a = parse_unary(p, false);
    } else {
        n = parse_primary(p);
    }
    n = parse_postfix(p, n);
    if (with_filter) n = parse_filters(p, n);
    p->c->depth--;
    return n;
}

static rf_jnode *binary(parser *p, rf_jnode *left) {
    rf_jnode *n = node(p, JN_BINARY);
    n->name = (p->t++)->text;
    n->a = left;
    return n;
}

static rf_jnode *parse_pow(parser *p) {
    rf_jnode *n = parse_unary(p, true);
    while (is_op(p, "**")) {
        n = binary(p, n);
        n->b = parse_unary(p, true);
    }
    return n;
}

static rf_jnode *parse_product(parser *p) {
    rf_jnode *n = parse_pow(p);
    while (is_op(p, "*") || is_op(p, "/") || is_op(p, "//") || is_op(p, "%")) {
        n = binary(p, n);
        n->b = parse_pow(p);
    }
    return n;
}

static rf_jnode *parse_concat(parser *p) {
    rf_jnode *concat = node(p, JN_CONCAT), *n = parse_product(p);
    if (!is_op(p, "~")) return n;
    node_list list = {0};
    append(&list, n);
    while (take_op(p, "~")) {
        append(&list, parse_product(p));
    }
    concat->list = list.first;
    return concat;
}

static rf_jnode *parse_sum(parser *p) {
    rf_jnode *n = parse_concat(p);
    while (is_op(p, "+") || is_op(p, "-")) {
        n = binary(p, n);
        n->b = parse_concat(p);
    }
    return n;
}

static rf_jnode *parse_compare(parser *p) {
    rf_jnode *compare = node(p, JN_COMPARE), *n = parse_sum(p);
    node_list list = {0};
    for (;;) {
        bool is_not_in =
            is_word(p, "not") && p->t[1].kind == JT_NAME && rf_str_is(p->t[1].text, "in");
        if (!is_not_in && !is_word(p, "in") && !is_op(p, "==") && !is_op(p, "!=") &&
            !is_op(p, "<") && !is_op(p, "<=") && !is_op(p, ">") && !is_op(p, ">=")) {
            break;
        }
        rf_jnode *operand = node(p, JN_OPERAND);
        operand->name = is_not_in ? RF_STR("not in") : p->t->text;
        p->t += is_not_in ? 2 : 1;
        operand->a = parse_sum(p);
        append(&list, operand);
    }
    if (!list.first) return n;
    compare->a = n;
    compare->list = list.first;
    return compare;
}

static rf_jnode *parse_not(parser *p) {
    if (!is_word(p, "not")) return parse_compare(p);
    nest(p);
    rf_jnode *n = node(p, JN_NOT);
    p->t++;
    n->a = parse_not(p);
    p->c->depth--;
    return n;
}

static rf_jnode *parse_and(parser *p) {
    rf_jnode *n = parse_not(p);
    while (is_word(p, "and")) {
        rf_jnode *both = node(p, JN_AND);
        p->t++;
        both->a = n;
        both->b = parse_not(p);
        n = both;
    }
    return n;
}

static rf_jnode *parse_or(parser *p) {
    rf_jnode *n = parse_and(p);
    while (is_word(p, "or")) {
        rf_jnode *either = node(p, JN_OR);
        p->t++;
        either->a = n;
        either->b = parse_and(p);
        n = either;
    }
    return n;
}

static rf_jnode *parse_expr(parser *p) {
    nest(p);
    rf_jnode *n = parse_or(p);
    while (is_word(p, "if")) {
        rf_jnode *cond = node(p, JN_COND);
        p->t++;
        cond->b = n;
        cond->a = parse_or(p);
        if (take_word(p, "else")) cond->c = parse_expr(p);
        n = cond;
    }
    p->c->depth--;
    return n;
}

/* Statements */

static rf_jnode *parse_body(parser *p, const char *const *ends);

static void need_block_end(parser *p) {
    if (p->t->kind != JT_BLOCK_END) fail_expected(p, "%}");
    p->t++;
}

/* The body up to {% WORD, one of ends; the word is consumed with its own tag only when it is the
 * last of ends, which closes the statement. */
static rf_jnode *parse_closed_body(parser *p, const char *end) {
    const char *const ends[] = {end, NULL};
    need_block_end(p);
    rf_jnode *body = parse_body(p, ends);
    need_word(p, end);
    return body;
}

static rf_jnode *parse_target(parser *p, bool may_be_ns) {
    rf_jnode *tuple = node(p, JN_TUPLE);
    node_list list = {0};
    bool is_tuple = false, in_brackets = take_op(p, "(");
    while (p->t->kind == JT_NAME || !list.first) {
        rf_jnode *n = parse_name(p);
        if (n->kind != JN_NAME) {
            p->t--;
            fail_expected(p, "a name to assign to");
        }
        if (may_be_ns && !is_tuple && take_op(p, ".")) {
            rf_jnode *ref = node_at(p, JN_NSREF, n->at);
            ref->a = n;
            ref->name = need_name(p);
            return ref;
        }
        append(&list, n);
        if (!take_op(p, ",")) break;
        is_tuple = true;
    }
    if (in_brackets) need_op(p, ")");
    if (!is_tuple) return list.first;
    tuple->list = list.first;
    return tuple;
}

static rf_jnode *parse_if(parser *p, rf_jnode *n) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    node_list list = {0};
    n->kind = JN_IF;
    for (bool is_else = false;;) {
        rf_jnode *branch = node(p, JN_BRANCH);
        if (!is_else) branch->a = parse_tuple(p, false, false);
        need_block_end(p);
        branch->body = parse_body(p, is_else ? ends + 2 : ends);
        append(&list, branch);
        if (take_word(p, "endif")) break;
        is_else = is_word(p, "else");
        p->t++;
    }
    n->list = list.first;
    return n;
}

static rf_jnode *parse_for(parser *p, rf_jnode *n) {
    static const char *const ends[] = {"else", "endfor", NULL};
    n->kind = JN_FOR;
    n->a = parse_target(p, false);
    need_word(p, "in");
    n->b = parse_tuple(p, false, false);
    if (take_word(p, "if")) n->c = parse_expr(p);
    take_word(p, "recursive");
    need_block_end(p);
    p->loops++;
    n->body = parse_body(p, ends);
    p->loops--;
    if (take_word(p, "else")) {
        need_block_end(p);
        n->other = parse_body(p, ends + 1);
    }
    need_word(p, "endfor");
    return n;
}

static rf_jnode *parse_set(parser *p, rf_jnode *n) {
    n->a = parse_target(p, true);
    if (take_op(p, "=")) {
        n->kind = JN_SET;
        n->b = parse_tuple(p, true, false);
        return n;
    }
    n->kind = JN_SETBLOCK;
    n->b = parse_filters(p, NULL);
    n->body = parse_closed_body(p, "endset");
    return n;
}

static rf_jnode *parse_params(parser *p) {
    node_list list = {0};
    bool had_default = false;
    need_op(p, "(");
    while (!is_op(p, ")")) {
        rf_jnode *param = node(p, JN_PARAM);
        param->name = need_name(p);
        if (take_op(p, "=")) {
            param->a = parse_expr(p);
            had_default = true;
        } else if (had_default) {
            fail_expected(p, "a default behind a parameter with a default");
        }
        append(&list, param);
        if (!take_op(p, ",")) break;
    }
    need_op(p, ")");
    return list.first;
}

static void parse_macro_body(parser *p, rf_jnode *n, const char *end) {
    rf_jnode *outer = p->macro;
    size_t loops = p->loops;
    p->macro = n;
    p->loops = 0;
    n->body = parse_closed_body(p, end);
    p->macro = outer;
    p->loops = loops;
}

static rf_jnode *parse_macro(parser *p, rf_jnode *n) {
    n->kind = JN_MACRO;
    n->name = need_name(p);
    n->list = parse_params(p);
    parse_macro_body(p, n, "endmacro");
    return n;
}

static rf_jnode *parse_call_block(parser *p, rf_jnode *n) {
    n->kind = JN_CALLBLOCK;
    rf_jnode *caller = node(p, JN_MACRO);
    caller->name = RF_STR("caller");
    if (is_op(p, "(")) caller->list = parse_params(p);
    n->a = parse_expr(p);
    if (n->a->kind != JN_CALL) fail_expected(p, "a call of a macro before this");
    parse_macro_body(p, caller, "endcall");
    n->b = caller;
    return n;
}

static rf_jnode *parse_with(parser *p, rf_jnode *n) {
    node_list list = {0};
    n->kind = JN_WITH;
    while (p->t->kind != JT_BLOCK_END) {
        if (list.first) need_op(p, ",");
        rf_jnode *set = node(p, JN_SET);
        set->a = parse_target(p, false);
        need_op(p, "=");
        set->b = parse_expr(p);
        append(&list, set);
    }
    n->list = list.first;
    n->body = parse_closed_body(p, "endwith");
    return n;
}

static rf_jnode *parse_leave(parser *p, rf_jnode *n, rf_jnode_kind kind) {
    if (p->loops == 0) {
        p->t--;
        fail_expected(p, "break and continue inside a for loop only");
    }
    n->kind = kind;
    return n;
}

static rf_jnode *parse_block(parser *p, rf_jnode *n) {
    n->kind = JN_GROUP;
    need_name(p);
    n->body = parse_closed_body(p, "endblock");
    if (p->t->kind == JT_NAME) p->t++;
    return n;
}

/* Behind {%; the closing %} is the caller's. */
static rf_jnode *parse_statement(parser *p) {
    rf_jnode *n = node(p, JN_GROUP);
    if (take_word(p, "if")) return parse_if(p, n);
    if (take_word(p, "for")) return parse_for(p, n);
    if (take_word(p, "set")) return parse_set(p, n);
    if (take_word(p, "macro")) return parse_macro(p, n);
    if (take_word(p, "call")) return parse_call_block(p, n);
    if (take_word(p, "with")) return parse_with(p, n);
    if (take_word(p, "block")) return parse_block(p, n);
    if (take_word(p, "break")) return parse_leave(p, n, JN_BREAK);
    if (take_word(p, "continue")) return parse_leave(p, n, JN_CONTINUE);
    if (take_word(p, "generation")) {
        n->body = parse_closed_body(p, "endgeneration");
        return n;
    }
    if (take_word(p, "filter")) {
        n->kind = JN_FILTERBLOCK;
        n->b = parse_filters(p, parse_filter(p, NULL));
        n->body = parse_closed_body(p, "endfilter");
        return n;
    }
    if (take_word(p, "autoescape")) {
        n->kind = JN_AUTOESCAPE;
        n->a = parse_expr(p);
        n->body = parse_closed_body(p, "endautoescape");
        return n;
    }
    if (is_word(p, "include") || is_word(p, "import") || is_word(p, "from") ||
        is_word(p, "extends")) {
        fail_expected(p, "a template in one piece (there are no others to load)");
    }
    fail_expected(p, "a statement (if, for, set, macro, ...)");
}

static bool at_end(const parser *p, const char *const *ends) {
    for (; ends && *ends; ends++) {
        if (p->t->kind == JT_BLOCK_BEGIN && p->t[1].kind == JT_NAME &&
            rf_str_is(p->t[1].text, *ends)) {
            return true;
        }
    }
    return false;
}

static rf_jnode *parse_piece(parser *p) {
    rf_jnode *n;
    if (p->t->kind == JT_DATA) {
        n = node(p, JN_TEXT);
        rf_str text = (p->t++)->text;
        n->value = rf_jv_str((rf_jstr){text.p, NULL, text.len});
        return n;
    }
    if (p->t->kind == JT_PRINT_BEGIN) {
        n = node(p, JN_PRINT);
        p->t++;
        n->a = parse_tuple(p, true, false);
        if (p->t->kind != JT_PRINT_END) fail_expected(p, "}}");
        p->t++;
        return n;
    }
    p->t++;
    n = parse_statement(p);
    need_block_end(p);
    return n;
}

/* Statements up to {% and one of ends, whose word is then the current token; NULL: to the end. */
static rf_jnode *parse_body(parser *p, const char *const *ends) {
    nest(p);
    node_list list = {0};
    while (!at_end(p, ends)) {
        if (p->t->kind == JT_EOF) {
            if (!ends) break;
            char expected[40];
            while (ends[1]) {
                ends++;
            }
            snprintf(expected, sizeof expected, "{%% %s %%}", *ends);
            fail_expected(p, expected);
        }
        append(&list, parse_piece(p));
    }
    if (ends) p->t++;
    p->c->depth--;
    return list.first;
}

rf_jnode *rf_jinja_parse_tokens(rf_jx *c, const rf_jtoken *tokens) {
    parser p = {.c = c, .t = tokens};
    return parse_body(&p, NULL);
}
