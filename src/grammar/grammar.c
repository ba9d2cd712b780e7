/* grammar.c - compiling, sharing, and the matchers' small state.
 *
 * A matcher keeps its set of places and the frames they need, packed; the machine that moves them is
 * the grammar's, used under its lock. */
#include "grammar/grammar.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "grammar/frontend.h"
#include "grammar/mask.h"

struct rf_grammar {
    atomic_uint refs;
    rf_automaton *a;
    pthread_mutex_t lock; /* guards k */
    rf_masker k;
};

struct rf_matcher {
    rf_grammar *g;
    rf_frame *frames; /* [n_frames], the first RF_FRAME_FIRST unused */
    rf_item *items;   /* [n_items] */
    uint32_t n_frames, n_items;
    bool can_end;
};

/* ---- grammars ---- */

static rf_status parse(rf_rules *b, rf_language language, rf_str text, uint32_t *root) {
    switch (language) {
    case RF_LANGUAGE_GBNF:
        return rf_gbnf_parse(b, text, root);
    case RF_LANGUAGE_SCHEMA:
        return rf_schema_parse(b, text, root);
    case RF_LANGUAGE_CHOICE:
        return rf_choice_parse(b, text, root);
    case RF_LANGUAGE_REGEX:
        break;
    }
    const rf_expr *x = rf_regex_parse(b, text, false, false, "regular expression");
    *root = x ? rf_rule_add(b, RF_STR("regular expression")) : UINT32_MAX;
    if (*root == UINT32_MAX) return b->e->status;
    b->rule[*root].x = x;
    return RF_OK;
}

static rf_status build(rf_grammar *g, rf_language language, rf_str text,
                       const rf_token_index *index, rf_error *e) {
    rf_rules b;
    uint32_t root;
    if (text.len > RF_GRAMMAR_MAX_BYTES)
        return rf_fail(e, RF_EUNSUPPORTED, "a grammar of %zu bytes is over the limit of %d",
                       text.len, RF_GRAMMAR_MAX_BYTES);
    RF_TRY(rf_rules_open(&b, e));
    rf_status s = parse(&b, language, text, &root);
    if (s == RF_OK) s = rf_automaton_build(&g->a, &b, root);
    rf_rules_close(&b);
    if (s == RF_OK && (s = rf_masker_open(&g->k, g->a, index)) != RF_OK)
        rf_fail_nomem(e, RF_MACHINE_ITEMS * sizeof(rf_item));
    return s;
}

rf_status rf_grammar_compile(rf_grammar **out, rf_language language, rf_str text,
                             const rf_token_index *index, rf_error *e) {
    rf_error unheard = {0};
    if (!e) e = &unheard;
    *out = NULL;
    rf_grammar *g = rf_alloc(1, sizeof *g);
    if (!g) return rf_fail_nomem(e, sizeof *g);
    atomic_init(&g->refs, 1);
    pthread_mutex_init(&g->lock, NULL);
    rf_status s = build(g, language, text, index, e);
    if (s == RF_OK)
        *out = g;
    else
        rf_grammar_unref(g);
    return s;
}

rf_grammar *rf_grammar_ref(rf_grammar *g) {
    atomic_fetch_add(&g->refs, 1);
    return g;
}

void rf_grammar_unref(rf_grammar *g) {
    if (!g || atomic_fetch_sub(&g->refs, 1) != 1) return;
    rf_masker_close(&g->k);
    rf_automaton_free(g->a);
    pthread_mutex_destroy(&g->lock);
    rf_free(g);
}

const rf_token_index *rf_grammar_index(const rf_grammar *g) { return g->k.x; }

void rf_grammar_get_stats(rf_grammar *g, rf_grammar_stats *out) {
    pthread_mutex_lock(&g->lock);
    *out = (rf_grammar_stats){.n_states = g->a->n_states,
                              .n_classes = g->a->n_classes,
                              .automaton_bytes = rf_automaton_bytes(g->a),
                              .cache_bytes = g->k.arena ? rf_arena_bytes(g->k.arena) : 0,
                              .n_cached = g->k.n_entries};
    pthread_mutex_unlock(&g->lock);
}

void rf_grammar_drop_cache(rf_grammar *g) {
    pthread_mutex_lock(&g->lock);
    rf_masker_drop(&g->k);
    pthread_mutex_unlock(&g->lock);
}

/* ---- matchers ---- */

/* Puts the matcher's state into the machine, which the caller has locked. */
static rf_machine *load(const rf_matcher *m) {
    rf_machine *machine = &m->g->k.live;
    rf_machine_reset(machine);
    if (m->n_frames) memcpy(machine->frames, m->frames, m->n_frames * sizeof *m->frames);
    if (m->n_items) memcpy(machine->items, m->items, m->n_items * sizeof *m->items);
    if (m->n_frames) machine->n_frames = m->n_frames;
    machine->n_items = m->n_items;
    return machine;
}

/* Renumbers the frames that items[first..) need from RF_FRAME_FIRST on, in order; a parent comes
 * before its child, so one pass from the back marks and one from the front moves. */
static uint32_t pack(rf_machine *m, uint32_t first, uint32_t *number) {
    memset(number, 0, m->n_frames * sizeof *number);
    for (uint32_t i = first; i < m->n_items; i++)
        number[m->items[i].frame] = 1;
    for (uint32_t i = m->n_frames; i-- > RF_FRAME_FIRST;)
        if (number[i]) number[m->frames[i].parent] = 1;
    number[RF_FRAME_ROOT] = RF_FRAME_ROOT;
    uint32_t kept = RF_FRAME_FIRST;
    for (uint32_t i = RF_FRAME_FIRST; i < m->n_frames; i++) {
        if (!number[i]) continue;
        rf_frame f = m->frames[i];
        f.parent = number[f.parent];
        m->frames[kept] = f;
        number[i] = kept++;
    }
    for (uint32_t i = first; i < m->n_items; i++)
        m->items[i].frame = number[m->items[i].frame];
    return kept;
}

/* The set items[first..) of the machine becomes the matcher's. */
static rf_status store(rf_matcher *m, rf_machine *machine, uint32_t first) {
    uint32_t number[RF_MACHINE_FRAMES];
    uint32_t n_frames = pack(machine, first, number), n_items = machine->n_items - first;
    rf_frame *frames = rf_alloc(n_frames, sizeof *frames);
    rf_item *items = rf_alloc(n_items, sizeof *items);
    if (!frames || !items) {
        rf_free(frames);
        rf_free(items);
        return RF_ENOMEM;
    }
    memcpy(frames, machine->frames, n_frames * sizeof *frames);
    if (n_items) memcpy(items, machine->items + first, n_items * sizeof *items);
    rf_free(m->frames);
    rf_free(m->items);
    m->frames = frames;
    m->items = items;
    m->n_frames = n_frames;
    m->n_items = n_items;
    m->can_end = machine->ended;
    return RF_OK;
}

rf_status rf_matcher_create(rf_matcher **out, rf_grammar *g, rf_error *e) {
    *out = NULL;
    rf_matcher *m = rf_alloc(1, sizeof *m);
    if (!m) return rf_fail_nomem(e, sizeof *m);
    m->g = rf_grammar_ref(g);
    pthread_mutex_lock(&g->lock);
    rf_machine *machine = load(m);
    rf_machine_enter(machine, g->a->start, RF_FRAME_ROOT);
    rf_status s = machine->status == RF_OK ? store(m, machine, 0) : machine->status;
    pthread_mutex_unlock(&g->lock);
    if (s == RF_OK)
        *out = m;
    else
        rf_matcher_free(m);
    if (s == RF_ENOMEM) return rf_fail_nomem(e, sizeof *m);
    if (s != RF_OK) return rf_fail(e, s, "grammar: too many ways to begin; it is too ambiguous");
    return RF_OK;
}

rf_status rf_matcher_copy(rf_matcher **out, const rf_matcher *m) {
    *out = NULL;
    rf_matcher *copy = rf_alloc(1, sizeof *copy);
    rf_frame *frames = rf_alloc(m->n_frames, sizeof *frames);
    rf_item *items = rf_alloc(m->n_items, sizeof *items);
    if (!copy || !frames || !items) {
        rf_free(copy);
        rf_free(frames);
        rf_free(items);
        return RF_ENOMEM;
    }
    *copy = *m;
    copy->g = rf_grammar_ref(m->g);
    copy->frames = memcpy(frames, m->frames, m->n_frames * sizeof *frames);
    copy->items = m->n_items ? memcpy(items, m->items, m->n_items * sizeof *items) : items;
    *out = copy;
    return RF_OK;
}

void rf_matcher_free(rf_matcher *m) {
    if (!m) return;
    rf_grammar_unref(m->g);
    rf_free(m->frames);
    rf_free(m->items);
    rf_free(m);
}

rf_status rf_matcher_feed(rf_matcher *m, rf_str bytes) {
    if (bytes.len == 0) return RF_OK;
    pthread_mutex_lock(&m->g->lock);
    rf_machine *machine = load(m);
    uint32_t first = 0;
    bool goes_on = true;
    for (size_t i = 0; i < bytes.len && goes_on; i++) {
        uint32_t end = machine->n_items;
        rf_machine_step(machine, first, end, (uint8_t)bytes.p[i]);
        /* the set moves to the front, so that any number of bytes needs the room of two */
        machine->n_items -= end;
        memmove(machine->items, machine->items + end, machine->n_items * sizeof *machine->items);
        goes_on = machine->n_items > 0 || (machine->ended && i + 1 == bytes.len);
    }
    rf_status s = machine->status != RF_OK ? machine->status : goes_on ? RF_OK : RF_EARG;
    if (s == RF_OK) s = store(m, machine, first);
    pthread_mutex_unlock(&m->g->lock);
    return s;
}

bool rf_matcher_can_end(const rf_matcher *m) { return m->can_end; }

bool rf_matcher_is_over(const rf_matcher *m) { return m->can_end && m->n_items == 0; }

rf_status rf_matcher_mask(rf_matcher *m, uint32_t *mask) {
    rf_masker *k = &m->g->k;
    if (!k->x) return RF_EARG;
    memset(mask, 0, k->x->n_words * sizeof *mask);
    pthread_mutex_lock(&m->g->lock);
    load(m);
    rf_status s = rf_masker_add(k, mask);
    pthread_mutex_unlock(&m->g->lock);
    return s;
}
