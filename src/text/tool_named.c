/* tool_named.c - calls as a name, a mark and a JSON object: Mistral, DeepSeek V3, Kimi, Solar,
 * functionary. */
#include <string.h>

#include "text/tool_format.h"

/* "functions.NAME:INDEX" -> NAME */
static rf_str bare_name(rf_str id) {
    rf_str name = rf_trim(id);
    size_t n = name.len;
    rf_take(&name, "functions.");
    n = name.len;
    while (n && name.p[n - 1] >= '0' && name.p[n - 1] <= '9')
        n--;
    if (n && n < name.len && name.p[n - 1] == ':') name.len = n - 1;
    return name;
}

/* What stands before the arguments: a name, with an id where the dialect has one. */
static void split_head(const rf_named_dialect *d, rf_str head, rf_str *name, rf_str *id) {
    *name = head;
    *id = RF_STR("");
    rf_str rest = head, before;
    if (d->id_before && rf_take_until(&rest, d->id_before, &before)) {
        *id = before;
        *name = rest;
    } else if (d->id_after && rf_take_until(&rest, d->id_after, &before)) {
        *id = rest;
        *name = before;
    } else if (d->name_is_id) {
        *id = head;
        *name = bare_name(head);
    }
}

/* The arguments, perhaps with the name in front and in a fence: NAME\n```json\n{...}\n``` */
static rf_verdict take_arguments(rf_str *s, rf_str *name, rf_str *args) {
    *s = rf_cut_space(*s);
    if (s->len && s->p[0] != '{' && s->p[0] != '`' && !rf_take_until(s, "\n", name))
        return RF_BODY_BAD;
    *s = rf_cut_space(*s);
    bool fenced = rf_take(s, "```json") || rf_take(s, "```");
    *s = rf_cut_space(*s);
    size_t len = 0;
    if (s->len == 0 || s->p[0] != '{') return RF_BODY_BAD;
    rf_verdict v = rf_json_extent(*s, &len);
    if (v != RF_BODY_CALLS) return v;
    *args = (rf_str){s->p, len};
    *s = rf_cut_space(rf_cut(*s, len));
    if (fenced && !rf_take(s, "```")) return RF_BODY_BAD;
    *s = rf_cut_space(*s);
    return RF_BODY_CALLS;
}

rf_verdict rf_parse_named(const rf_body *b, rf_calls *out) {
    const rf_named_dialect *d = b->dialect;
    rf_str s = rf_trim(b->text);
    if (s.len && s.p[0] == '[') return rf_parse_json(&(rf_body){.text = s}, out);
    while (s.len) {
        rf_str head, name, id, args = {NULL, 0};
        bool opened = d->open && rf_take(&s, d->open);
        if (d->open && !opened && out->n) return RF_BODY_BAD;
        if (!rf_take_until(&s, d->args, &head)) return RF_BODY_BAD;
        split_head(d, head, &name, &id);
        rf_verdict v = take_arguments(&s, &name, &args);
        if (v == RF_BODY_CALLS) v = rf_calls_add(out, name, id, args);
        if (v != RF_BODY_CALLS) return v;
        if (d->close && !rf_take(&s, d->close) && (s.len || b->close)) return RF_BODY_BAD;
        s = rf_cut_space(s);
    }
    return out->n ? RF_BODY_CALLS : RF_BODY_BAD;
}
