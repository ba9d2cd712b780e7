/* mask.c - walks, entries, and their sum. */
#include "grammar/mask.h"

#include <string.h>

enum {
    MAX_EXITS = 1000, /* where a rule is left more often, its caller is looked at too */
    MAX_CALLERS = 6,
};

typedef struct caller {
    uint32_t call; /* its call site + 1; 0: the end of the text is behind the rule */
    uint32_t need,
        left; /* times to go through it at least and at most, as far as a token reaches */
} caller;
typedef struct key { /* what an entry depends on: a state and some of its callers */
    uint32_t state, n_callers;
    caller callers[MAX_CALLERS];
} key;

rf_status rf_masker_open(rf_masker *k, const rf_automaton *a, const rf_token_index *x) {
    *k = (rf_masker){.a = a, .x = x};
    RF_TRY(rf_machine_open(&k->live, a));
    if (!x) return RF_OK;
    RF_TRY(rf_machine_open(&k->alone, a));
    k->sets = rf_alloc(RF_TOKEN_MAX_BYTES + 1, sizeof *k->sets);
    k->bits = rf_alloc(x->n_words, sizeof *k->bits);
    return k->sets && k->bits ? RF_OK : RF_ENOMEM;
}

void rf_masker_drop(rf_masker *k) {
    rf_arena_free(k->arena);
    rf_map_free(k->index);
    k->arena = NULL;
    k->index = NULL;
    k->n_entries = 0;
}

void rf_masker_close(rf_masker *k) {
    rf_masker_drop(k);
    rf_machine_close(&k->live);
    rf_machine_close(&k->alone);
    rf_free(k->sets);
    rf_free(k->bits);
    rf_free(k->exits);
    rf_free(k->entries);
    *k = (rf_masker){0};
}

/* ---- walks ---- */

static rf_status add_exit(rf_masker *k, uint32_t node) {
    if (k->n_exits == k->cap_exits) {
        uint32_t cap = k->cap_exits ? k->cap_exits * 2 : 256;
        uint32_t *grown = rf_realloc(k->exits, k->cap_exits, cap, sizeof *grown);
        if (!grown) return RF_ENOMEM;
        k->exits = grown;
        k->cap_exits = cap;
    }
    k->exits[k->n_exits++] = node;
    return RF_OK;
}

static void set_tokens(uint32_t *bits, const rf_trie *t, uint32_t node) {
    for (uint32_t i = t->node[node].first_token; i < t->node[node + 1].first_token; i++)
        bits[(uint32_t)t->token[i] / 32] |= 1u << (uint32_t)t->token[i] % 32;
}

/* Sets the tokens below node that the last set of m, which starts at first, can follow; notes the
 * nodes where the unknown caller is reached. */
static rf_status walk(rf_masker *k, rf_machine *m, const rf_trie *t, uint32_t node, uint32_t first,
                      uint32_t *bits) {
    uint32_t base = t->node[node].depth, end = t->node[node].end;
    k->sets[0] = (struct rf_mask_set){first, m->n_items, m->n_frames};
    for (uint32_t at = node + 1; at < end;) {
        const rf_trie_node *n = &t->node[at];
        uint32_t depth = n->depth - base;
        const struct rf_mask_set *from = &k->sets[depth - 1];
        m->n_items = from->end;
        m->n_frames = from->n_frames;
        rf_machine_step(m, from->first, from->end, n->byte);
        bool goes_on = m->n_items > from->end;
        if (m->status != RF_OK) return m->status;
        if (goes_on || m->ended || m->exited) set_tokens(bits, t, at);
        if (m->exited) RF_TRY(add_exit(k, at));
        if (goes_on) k->sets[depth] = (struct rf_mask_set){from->end, m->n_items, m->n_frames};
        at = goes_on ? at + 1 : n->end;
    }
    m->n_items = k->sets[0].end;
    m->n_frames = k->sets[0].n_frames;
    return RF_OK;
}

/* ---- entries ---- */

static uint32_t at_most(uint32_t x, uint32_t limit) { return x < limit ? x : limit; }

/* The counted repetition that a frame is in, or NULL. */
static const rf_call_site *counted(const rf_masker *k, uint32_t frame) {
    if (frame < RF_FRAME_FIRST) return NULL;
    const rf_call_site *c = &k->a->call[k->live.frames[frame].call];
    return c->max > 1 ? c : NULL;
}

static key key_of(const rf_masker *k, rf_item item, uint32_t n_callers) {
    uint32_t far = k->x->max_bytes + 1; /* a token cannot go through more */
    key out = {.state = item.state, .n_callers = n_callers};
    uint32_t at = item.frame;
    for (uint32_t i = 0; i < n_callers && at != RF_FRAME_ROOT; i++) {
        const rf_frame *f = &k->live.frames[at];
        const rf_call_site *c = &k->a->call[f->call];
        out.callers[i] = (caller){
            .call = f->call + 1,
            .need = at_most(c->min > f->count ? c->min - f->count : 0, far),
            .left = c->max == RF_X_MANY ? far : at_most(c->max - f->count, far),
        };
        at = f->parent;
    }
    return out;
}

/* The frame behind that many callers. */
static uint32_t frame_behind(const rf_masker *k, uint32_t frame, uint32_t n_callers) {
    while (n_callers-- > 0 && frame != RF_FRAME_ROOT)
        frame = k->live.frames[frame].parent;
    return frame;
}

/* Plain tokens that may all follow: of how many characters. */
static uint32_t plain_of(const rf_masker *k, rf_item item) {
    const rf_call_site *c = counted(k, item.frame);
    if (k->a->state[item.state].flags & RF_STATE_PLAIN) return k->x->max_plain;
    if (!c || !c->plain || item.state != c->start) return 0;
    return c->max == RF_X_MANY
               ? k->x->max_plain
               : at_most(c->max - k->live.frames[item.frame].count, k->x->max_plain);
}

/* The bits, or a list where that is shorter. */
static rf_status store_tokens(rf_masker *k, rf_mask_entry *out) {
    uint32_t n_words = k->x->n_words, n = 0;
    for (uint32_t i = 0; i < n_words; i++)
        out->n_tokens += (uint32_t)__builtin_popcount(k->bits[i]);
    if (out->n_tokens >= n_words) {
        out->bits = rf_arena_alloc(k->arena, n_words, sizeof *out->bits);
        if (!out->bits) return RF_ENOMEM;
        memcpy(out->bits, k->bits, n_words * sizeof *out->bits);
        return RF_OK;
    }
    out->tokens = rf_arena_alloc(k->arena, out->n_tokens, sizeof *out->tokens);
    if (!out->tokens) return RF_ENOMEM;
    for (uint32_t i = 0; i < n_words; i++)
        for (uint32_t left = k->bits[i]; left; left &= left - 1)
            out->tokens[n++] = (int32_t)(i * 32 + (uint32_t)__builtin_ctz(left));
    return RF_OK;
}

/* Copies the nearest callers to the other machine; behind them nothing is known. */
static uint32_t copy_callers(rf_masker *k, uint32_t frame, uint32_t n_callers) {
    rf_machine *m = &k->alone;
    if (frame == RF_FRAME_ROOT && n_callers > 0) return RF_FRAME_ROOT;
    if (n_callers == 0) return RF_FRAME_UNKNOWN;
    rf_frame f = k->live.frames[frame];
    f.parent = copy_callers(k, f.parent, n_callers - 1);
    m->frames[m->n_frames] = f;
    return m->n_frames++;
}

static rf_status make_entry(rf_masker *k, rf_item item, uint32_t n_callers, rf_mask_entry *out) {
    rf_machine *m = &k->alone;
    rf_machine_reset(m);
    uint32_t frame = copy_callers(k, item.frame, n_callers);
    m->items[m->n_items++] = (rf_item){item.state, frame};
    *out = (rf_mask_entry){.plain = plain_of(k, item)};
    out->uneven = out->plain > 0;
    k->n_exits = 0;
    memset(k->bits, 0, k->x->n_words * sizeof *k->bits);
    RF_TRY(walk(k, m, out->uneven ? &k->x->uneven : &k->x->all, 0, 0, k->bits));
    out->look_further = k->n_exits > MAX_EXITS && n_callers < MAX_CALLERS &&
                        frame_behind(k, item.frame, n_callers) != RF_FRAME_ROOT;
    if (out->look_further) return RF_OK;
    RF_TRY(store_tokens(k, out));
    out->n_exits = k->n_exits;
    out->exits = rf_arena_alloc(k->arena, k->n_exits, sizeof *out->exits);
    if (!out->exits) return RF_ENOMEM;
    if (k->n_exits) memcpy(out->exits, k->exits, k->n_exits * sizeof *out->exits);
    return RF_OK;
}

/* An empty cache where there is none, or a full one. */
static rf_status prepare_cache(rf_masker *k) {
    if (k->arena && rf_arena_bytes(k->arena) > RF_MASK_CACHE_BYTES) rf_masker_drop(k);
    if (!k->arena) RF_TRY(rf_arena_create(&k->arena));
    if (!k->index) RF_TRY(rf_map_create(&k->index, 64));
    if (k->n_entries < k->cap_entries) return RF_OK;
    uint32_t cap = k->cap_entries ? k->cap_entries * 2 : 64;
    rf_mask_entry *grown = rf_realloc(k->entries, k->cap_entries, cap, sizeof *grown);
    if (!grown) return RF_ENOMEM;
    k->entries = grown;
    k->cap_entries = cap;
    return RF_OK;
}

static rf_status find_entry(rf_masker *k, rf_item item, uint32_t n_callers, rf_mask_entry *out) {
    RF_TRY(prepare_cache(k));
    const key wanted = key_of(k, item, n_callers);
    uint32_t known = rf_map_get(k->index, (rf_str){(const char *)&wanted, sizeof wanted});
    if (known != RF_MAP_NONE) {
        *out = k->entries[known];
        return RF_OK;
    }
    key *kept = rf_arena_alloc(k->arena, 1, sizeof *kept);
    if (!kept) return RF_ENOMEM;
    *kept = wanted;
    RF_TRY(make_entry(k, item, n_callers, out));
    RF_TRY(rf_map_put(k->index, (rf_str){(const char *)kept, sizeof *kept}, k->n_entries, NULL));
    k->entries[k->n_entries++] = *out;
    return RF_OK;
}

/* ---- masks ---- */

static void add_entry(const rf_masker *k, const rf_mask_entry *entry, uint32_t *mask) {
    const uint32_t *plain = k->x->plain + (size_t)entry->plain * k->x->n_words;
    for (uint32_t i = 0; entry->plain && i < k->x->n_words; i++)
        mask[i] |= plain[i];
    for (uint32_t i = 0; entry->bits && i < k->x->n_words; i++)
        mask[i] |= entry->bits[i];
    for (uint32_t i = 0; entry->tokens && i < entry->n_tokens; i++)
        mask[(uint32_t)entry->tokens[i] / 32] |= 1u << (uint32_t)entry->tokens[i] % 32;
}

rf_status rf_masker_add(rf_masker *k, uint32_t *mask) {
    rf_machine *m = &k->live;
    uint32_t n = m->n_items, n_frames = m->n_frames;
    for (uint32_t i = 0; i < n; i++) {
        const rf_item item = m->items[i];
        rf_mask_entry entry;
        uint32_t n_callers = counted(k, item.frame) ? 1 : 0;
        RF_TRY(find_entry(k, item, n_callers, &entry));
        while (entry.look_further)
            RF_TRY(find_entry(k, item, ++n_callers, &entry));
        add_entry(k, &entry, mask);
        if (entry.n_exits == 0) continue;
        const rf_trie *t = entry.uneven ? &k->x->uneven : &k->x->all;
        rf_machine_leave(m, frame_behind(k, item.frame, n_callers));
        if (m->status != RF_OK) return m->status;
        for (uint32_t e = 0; e < entry.n_exits && m->n_items > n; e++)
            RF_TRY(walk(k, m, t, entry.exits[e], n, mask));
        m->n_items = n;
        m->n_frames = n_frames;
    }
    return RF_OK;
}
