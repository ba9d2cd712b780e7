/* run.c - statements, macros, and the two entries: parse and render.
 *
 * Here the failures of the whole folder land, and here the arenas are made and freed. */
#include "text/jinja/internal.h"

#include <string.h>

#include "base/utf8.h"

static void assign(rf_jx *c, const rf_jnode *target, const rf_jv *v) {
    c->at = target->at;
    if (target->kind == JN_NAME) {
        rf_jx_set(c, target->name, *v);
        return;
    }
    if (target->kind == JN_NSREF) {
        rf_jv ns = rf_jx_lookup(c, target->a->name);
        if (ns.kind != JV_NS) {
            rf_jx_fail(c, "set %.*s.%.*s: expected a namespace, got %s",
                       RF_STR_ARG(target->a->name), RF_STR_ARG(target->name), rf_jv_type(&ns));
        }
        rf_jdict_put(c, ns.dict, rf_jv_str((rf_jstr){target->name.p, NULL, target->name.len}), *v);
        return;
    }
    rf_jseq items = rf_jv_iter(c, v);
    size_t i = 0, n = 0;
    for (const rf_jnode *t = target->list; t; t = t->next) {
        n++;
    }
    if (n != items.n) rf_jx_fail(c, "expected %zu values to unpack, got %zu", n, items.n);
    for (const rf_jnode *t = target->list; t; t = t->next) {
        rf_jx_set(c, t->name, items.items[i++]);
    }
}

/* What running body writes, as a string. */
static rf_jv capture(rf_jx *c, const rf_jnode *body, rf_jflow *flow) {
    rf_jbuf text = {0}, *outer = c->out;
    c->out = &text;
    *flow = rf_jx_run(c, body);
    c->out = outer;
    return rf_jbuf_value(&text);
}

/* The filters of a block, innermost first; n may be NULL. */
static rf_jv filtered(rf_jx *c, const rf_jnode *n, rf_jv v) {
    if (!n) return v;
    rf_jx_enter(c);
    if (n->kind != JN_FILTER) rf_jx_fail(c, "expected a filter");
    v = filtered(c, n->a, v);
    rf_jargs args = rf_jx_args(c, n->list);
    c->at = n->at;
    v = rf_jx_filter(c, n->name, &v, &args);
    rf_jx_leave(c);
    return v;
}

static rf_jflow run_if(rf_jx *c, const rf_jnode *n) {
    for (const rf_jnode *branch = n->list; branch; branch = branch->next) {
        bool taken = !branch->a;
        if (!taken) {
            rf_jv v = rf_jx_eval(c, branch->a);
            taken = rf_jv_true(&v);
        }
        if (taken) return rf_jx_run(c, branch->body);
    }
    return JX_GO;
}

/* Keeps the items for which the loop's own condition holds. */
static rf_jseq chosen(rf_jx *c, const rf_jnode *n, rf_jseq items) {
    rf_jseq kept = {.items = rf_jx_alloc(c, items.n, sizeof(rf_jv))};
    for (size_t i = 0; i < items.n; i++) {
        c->scope = rf_jx_push(c, c->scope);
        assign(c, n->a, &items.items[i]);
        rf_jv v = rf_jx_eval(c, n->c);
        c->scope = c->scope->up;
        if (rf_jv_true(&v)) kept.items[kept.n++] = items.items[i];
    }
    return kept;
}

static rf_jflow run_for(rf_jx *c, const rf_jnode *n) {
    rf_jv over = rf_jx_eval(c, n->b);
    c->at = n->at;
    rf_jseq items = rf_jv_iter(c, &over);
    if (n->c) items = chosen(c, n, items);
    rf_jloop *loop = rf_jx_alloc(c, 1, sizeof *loop);
    *loop = (rf_jloop){.items = items.items, .n = items.n};
    rf_jscope *outer = c->scope, *inner = NULL;
    rf_jvar *own = NULL; /* the variables that every turn sets anew */
    size_t n_made = c->n_made;
    for (; loop->i < loop->n; loop->i++) {
        rf_jx_step(c, 1);
        if (!inner || n_made != c->n_made) { /* a macro may still look into the last one */
            inner = rf_jx_push(c, outer);
            own = NULL;
        }
        n_made = c->n_made;
        inner->vars = own;
        c->scope = inner;
        rf_jx_set(c, RF_STR("loop"), (rf_jv){.kind = JV_LOOP, .loop = loop});
        assign(c, n->a, &items.items[loop->i]);
        own = inner->vars;
        rf_jflow flow = rf_jx_run(c, n->body);
        if (flow == JX_BREAK) break;
    }
    if (items.n) {
        c->scope = outer;
        return JX_GO;
    }
    c->scope = rf_jx_push(c, outer);
    rf_jflow flow = rf_jx_run(c, n->other);
    c->scope = outer;
    return flow;
}

static rf_jv make_macro(rf_jx *c, const rf_jnode *n) {
    rf_jmacro *m = rf_jx_alloc(c, 1, sizeof *m);
    *m = (rf_jmacro){n, c->scope};
    c->n_made++;
    return (rf_jv){.kind = JV_MACRO, .macro = m};
}

static void run_call_block(rf_jx *c, const rf_jnode *n) {
    rf_jv f = rf_jx_eval(c, n->a->a);
    rf_jargs args = rf_jx_args(c, n->a->list);
    rf_jkw *kw = rf_jx_alloc(c, args.n_kw + 1, sizeof *kw);
    if (args.n_kw) memcpy(kw, args.kw, args.n_kw * sizeof *kw);
    kw[args.n_kw++] = (rf_jkw){RF_STR("caller"), make_macro(c, n->b)};
    args.kw = kw;
    c->at = n->at;
    rf_jv v = rf_jx_call(c, &f, &args);
    rf_jv_print(c, c->out, &v);
}

static rf_jflow run_with(rf_jx *c, const rf_jnode *n) {
    rf_jscope *inner = rf_jx_push(c, c->scope), *outer = c->scope;
    for (const rf_jnode *set = n->list; set; set = set->next) {
        rf_jv v = rf_jx_eval(c, set->b); /* none of them sees the others */
        c->scope = inner;
        assign(c, set->a, &v);
        c->scope = outer;
    }
    c->scope = inner;
    rf_jflow flow = rf_jx_run(c, n->body);
    c->scope = outer;
    return flow;
}

static rf_jflow run_autoescape(rf_jx *c, const rf_jnode *n) {
    rf_jv v = rf_jx_eval(c, n->a);
    bool outer = c->autoescape;
    c->autoescape = rf_jv_true(&v);
    rf_jflow flow = rf_jx_run(c, n->body);
    c->autoescape = outer;
    return flow;
}

static void run_print(rf_jx *c, const rf_jnode *n) {
    rf_jv v = rf_jx_eval(c, n->a);
    c->at = n->at;
    if (c->autoescape) v = rf_jx_escape(c, &v);
    rf_jv_print(c, c->out, &v);
}

static rf_jflow run_set(rf_jx *c, const rf_jnode *n) {
    rf_jflow flow = JX_GO;
    rf_jv v;
    if (n->kind == JN_SET) {
        v = rf_jx_eval(c, n->b);
    } else {
        rf_jscope *outer = c->scope;
        c->scope = rf_jx_push(c, outer);
        v = capture(c, n->body, &flow);
        c->scope = outer;
        v = filtered(c, n->b, v);
    }
    if (flow == JX_GO && n->kind != JN_FILTERBLOCK) assign(c, n->a, &v);
    if (n->kind == JN_FILTERBLOCK) rf_jv_print(c, c->out, &v);
    return flow;
}

static rf_jflow run(rf_jx *c, const rf_jnode *n) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch-enum" /* the expressions are evaluated elsewhere */
    switch (n->kind) {
    case JN_TEXT:
        rf_jbuf_put(c, c->out, n->value.s);
        return JX_GO;
    case JN_PRINT:
        run_print(c, n);
        return JX_GO;
    case JN_IF:
        return run_if(c, n);
    case JN_FOR:
        return run_for(c, n);
    case JN_SET:
    case JN_SETBLOCK:
    case JN_FILTERBLOCK:
        return run_set(c, n);
    case JN_MACRO:
        rf_jx_set(c, n->name, make_macro(c, n));
        return JX_GO;
    case JN_CALLBLOCK:
        run_call_block(c, n);
        return JX_GO;
    case JN_WITH:
        return run_with(c, n);
    case JN_GROUP:
        return rf_jx_run(c, n->body);
    case JN_AUTOESCAPE:
        return run_autoescape(c, n);
    case JN_BREAK:
        return JX_BREAK;
    case JN_CONTINUE:
        return JX_CONTINUE;
    default:
        rf_jx_fail(c, "expected a statement here");
    }
#pragma GCC diagnostic pop
}

rf_jflow rf_jx_run(rf_jx *c, const rf_jnode *body) {
    rf_jflow flow = JX_GO;
    rf_jx_enter(c);
    for (const rf_jnode *n = body; n && flow == JX_GO; n = n->next) {
        c->at = n->at;
        rf_jx_step(c, 1);
        flow = run(c, n);
    }
    rf_jx_leave(c);
    return flow;
}

rf_jargs rf_jx_args(rf_jx *c, const rf_jnode *list) {
    size_t n = 0, n_kw = 0;
    for (const rf_jnode *a = list; a; a = a->next) {
        n += a->kind != JN_KEYWORD;
        n_kw += a->kind == JN_KEYWORD;
    }
    rf_jargs args = {0};
    if (n) args.pos = rf_jx_alloc(c, n, sizeof *args.pos);
    if (n_kw) args.kw = rf_jx_alloc(c, n_kw, sizeof *args.kw);
    for (const rf_jnode *a = list; a; a = a->next) {
        if (a->kind == JN_KEYWORD) {
            args.kw[args.n_kw++] = (rf_jkw){a->name, rf_jx_eval(c, a->a)};
        } else {
            args.pos[args.n++] = rf_jx_eval(c, a);
        }
    }
    return args;
}

static bool is_param(const rf_jnode *list, rf_str name) {
    for (; list; list = list->next) {
        if (rf_str_eq(list->name, name)) return true;
    }
    return false;
}

/* The arguments that no parameter takes: varargs and kwargs, or a mistake. */
static void bind_rest(rf_jx *c, const rf_jnode *n, const rf_jargs *args, size_t n_params) {
    size_t extra = args->n > n_params ? args->n - n_params : 0;
    if (n->takes_varargs) {
        rf_jv rest = rf_jv_seq(c, JF_TUPLE, extra);
        if (extra) memcpy(rest.seq->items, args->pos + n_params, extra * sizeof(rf_jv));
        rf_jx_set(c, RF_STR("varargs"), rest);
    } else if (extra) {
        rf_jx_fail(c, "macro %.*s: expected at most %zu arguments, got %zu", RF_STR_ARG(n->name),
                   n_params, args->n);
    }
    rf_jv kwargs = rf_jv_dict(c, JV_DICT, args->n_kw);
    for (size_t i = 0; i < args->n_kw; i++) {
        rf_str name = args->kw[i].name;
        if (is_param(n->list, name)) continue;
        if (n->takes_caller && rf_str_is(name, "caller")) {
            rf_jx_set(c, name, args->kw[i].value);
        } else if (n->takes_kwargs) {
            rf_jdict_put(c, kwargs.dict, rf_jv_str((rf_jstr){name.p, NULL, name.len}),
                         args->kw[i].value);
        } else {
            rf_jx_fail(c, "macro %.*s: has no parameter \"%.*s\"", RF_STR_ARG(n->name),
                       RF_STR_ARG(name));
        }
    }
    if (n->takes_kwargs) rf_jx_set(c, RF_STR("kwargs"), kwargs);
}

rf_jv rf_jx_call_macro(rf_jx *c, const rf_jmacro *m, const rf_jargs *args) {
    const rf_jnode *n = m->node;
    if (c->macros == RF_JINJA_MAX_MACROS) {
        rf_jx_fail(c, "more than %d macros inside each other", RF_JINJA_MAX_MACROS);
    }
    c->macros++;
    rf_jscope *outer = c->scope;
    c->scope = rf_jx_push(c, m->scope);
    size_t i = 0;
    for (const rf_jnode *p = n->list; p; p = p->next, i++) {
        const rf_jv *given = i < args->n ? &args->pos[i] : NULL;
        for (size_t k = 0; k < args->n_kw; k++) {
            if (!rf_str_eq(args->kw[k].name, p->name)) continue;
            if (given)
                rf_jx_fail(c, "macro %.*s: parameter \"%.*s\" given twice", RF_STR_ARG(n->name),
                           RF_STR_ARG(p->name));
            given = &args->kw[k].value;
        }
        rf_jv v = given  ? *given
                  : p->a ? rf_jx_eval(c, p->a)
                         : rf_jv_undef(c, "parameter '%.*s' was not provided", RF_STR_ARG(p->name));
        rf_jx_set(c, p->name, v);
    }
    bind_rest(c, n, args, i);
    rf_jflow flow;
    rf_jv text = capture(c, n->body, &flow);
    text.is_safe = c->autoescape;
    c->scope = outer;
    c->macros--;
    return text;
}

/* The source with \n for every newline and without the last one. */
static rf_str normalized(rf_jx *c, rf_str source) {
    char *p = rf_jx_alloc(c, source.len, 1);
    size_t n = 0;
    for (size_t i = 0; i < source.len; i++) {
        bool is_cr = source.p[i] == '\r';
        p[n++] = is_cr ? '\n' : source.p[i];
        if (is_cr && i + 1 < source.len && source.p[i + 1] == '\n') i++;
    }
    if (n && p[n - 1] == '\n') n--;
    return (rf_str){p, n};
}

static rf_status parse(rf_jinja *t, rf_str source, rf_error *e) {
    jmp_buf landing;
    rf_jx c = {.arena = t->arena, .landing = &landing, .e = e};
    if (setjmp(landing)) return e ? e->status : RF_EFORMAT;
    c.source = normalized(&c, source);
    t->source = c.source;
    t->body = rf_jinja_parse_tokens(&c, rf_jinja_lex(&c));
    return RF_OK;
}

rf_status rf_jinja_parse(rf_jinja **out, rf_str source, rf_error *e) {
    rf_error own = {0};
    if (!e) e = &own;
    *out = NULL;
    if (source.len > RF_JINJA_MAX_SOURCE) {
        return rf_fail(e, RF_EFORMAT, "chat template: %zu bytes, more than the %zu allowed",
                       source.len, RF_JINJA_MAX_SOURCE);
    }
    size_t valid = rf_utf8_valid_prefix(source.p, source.len);
    if (valid < source.len) {
        return rf_fail(e, RF_EFORMAT, "chat template: not UTF-8 at byte %zu", valid);
    }
    rf_arena *arena;
    if (rf_arena_create(&arena) != RF_OK) return rf_fail_nomem(e, sizeof(rf_jinja));
    rf_jinja *t = rf_arena_alloc(arena, 1, sizeof *t);
    rf_status s = t ? RF_OK : rf_fail_nomem(e, sizeof *t);
    if (t) {
        t->arena = arena;
        s = parse(t, source, e);
    }
    if (s != RF_OK) {
        rf_arena_free(arena);
        return s;
    }
    *out = t;
    return RF_OK;
}

void rf_jinja_free(rf_jinja *t) {
    if (t) rf_arena_free(t->arena);
}

static rf_status render(rf_jx *c, const rf_jinja *t, const rf_jinja_input *in, rf_jinja_text *out) {
    jmp_buf landing;
    c->landing = &landing;
    if (setjmp(landing)) return c->status;
    c->scope = rf_jx_push(c, NULL);
    for (size_t i = 0; i < in->n_vars; i++) {
        const rf_jinja_var *v = &in->vars[i];
        rf_jv value = v->text    ? rf_jv_import(c, *v->text, !v->is_markup)
                      : v->truth ? rf_jv_bool(*v->truth)
                                 : rf_jv_from_json(c, v->value, !v->is_markup);
        rf_jx_set(c, rf_str_of(v->name), value);
    }
    c->scope = rf_jx_push(c, c->scope);
    rf_jx_run(c, t->body);
    rf_buf_put(&out->text, c->out->p, c->out->len);
    rf_buf_put(&out->from_input, c->out->input, c->out->len);
    if (out->text.failed || out->from_input.failed) rf_jx_nomem(c, c->out->len);
    return RF_OK;
}

rf_status rf_jinja_render(const rf_jinja *t, const rf_jinja_input *in, rf_jinja_text *out,
                          rf_error *e) {
    rf_jbuf text = {0};
    rf_jx c = {.e = e, .source = t->source, .out = &text, .now = in->now};
    if (rf_arena_create(&c.arena) != RF_OK) return rf_fail_nomem(e, sizeof c);
    rf_status s = render(&c, t, in, out);
    rf_arena_free(c.arena);
    return s;
}

void rf_jinja_text_free(rf_jinja_text *t) {
    rf_buf_free(&t->text);
    rf_buf_free(&t->from_input);
}
