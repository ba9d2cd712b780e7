/* loops.c - what a kernel does again and again, read from its instructions: the loop that loads most,
 * with all that it may execute. */
#include <string.h>

#include "gpuemu/inst.h"

/* Instructions first .. end - 1 of a module are one kernel's. */
typedef struct body {
    const rf_emu_inst *code;
    uint32_t first, end;
} body;

static body body_of(const rf_emu_kernel *k) {
    const rf_emu_module *m = k->module;
    body b = {m->code, 0, (uint32_t)m->n_code};
    while (m->code[b.first].address < k->entry)
        b.first++;
    for (size_t i = 0; i < m->n_kernels; i++) {
        uint64_t next = m->kernels[i].entry;
        while (next > k->entry && b.end > b.first && m->code[b.end - 1].address >= next)
            b.end--;
    }
    return b;
}

static bool is_named(const rf_emu_inst *i, const char *beginning) {
    return i->op && !strncmp(i->op->name, beginning, strlen(beginning));
}

static bool goes_on(const rf_emu_inst *i) {
    return !is_named(i, "s_branch") && !is_named(i, "s_endpgm");
}

rf_emu_class rf_emu_class_of(const rf_emu_inst *i) {
    if (is_named(i, "v_dot4")) return RF_EMU_DOT;
    if (is_named(i, "v_wmma") || is_named(i, "v_mfma")) return RF_EMU_MATRIX;
    if (i->pair || is_named(i, "v_")) return RF_EMU_VECTOR;
    if (is_named(i, "global_load") || is_named(i, "flat_load")) return RF_EMU_LOAD;
    return is_named(i, "ds_") ? RF_EMU_SHARED : RF_EMU_OTHER;
}

static void count(rf_emu_loop *l, const rf_emu_inst *i) {
    uint32_t bytes = i->class == RF_EMU_LOAD ? i->op->arg & RF_EMU_BYTES : 0;
    l->bytes += bytes; /* of a lane */
    l->wide += bytes >= 8;
    l->narrow += bytes > 0 && bytes < 8;
    bool is_product = i->class == RF_EMU_DOT || i->class == RF_EMU_MATRIX;
    l->products += is_product;
    l->vector += is_product || i->class == RF_EMU_VECTOR;
    l->shared += i->class == RF_EMU_SHARED;
}

/* A loop is a strongly connected component of what may follow what, found in one walk (Tarjan 1972).  Of
 * an instruction: when the walk met it, the earliest that it leads back to, how many of its two
 * successors are behind it, and whether its component is still open. */
typedef struct visit {
    uint32_t met, back, successors;
    bool is_open;
} visit;
typedef struct walk {
    body b;
    visit *seen;    /* [end], as are both stacks */
    uint32_t *path; /* from where the walk is back to its beginning */
    uint32_t *open; /* the instructions of open components */
    uint32_t n_path, n_open, time;
    uint32_t begins; /* where the widest loop so far does */
} walk;

static void lower(uint32_t *least, uint32_t x) {
    if (x < *least) *least = x;
}

static void enter(walk *w, uint32_t i) {
    w->time++;
    w->seen[i] = (visit){.met = w->time, .back = w->time, .is_open = true};
    w->path[w->n_path++] = w->open[w->n_open++] = i;
}

static uint32_t successor(const body *b, uint32_t i, uint32_t k) {
    if (k == 1) return b->code[i].target;
    return goes_on(&b->code[i]) ? i + 1 : UINT32_MAX;
}

/* Takes the component of its first met instruction off the stack; one instruction is a loop only if it
 * follows itself.  Of loops that load the same the first in the code is kept. */
static void close_component(walk *w, uint32_t of, rf_emu_loop *widest) {
    rf_emu_loop l = {0};
    uint32_t begins = of, i, n = 0;
    do {
        i = w->open[--w->n_open];
        w->seen[i].is_open = false;
        count(&l, &w->b.code[i]);
        lower(&begins, i);
        n++;
    } while (i != of);
    if (l.bytes == 0 || (n == 1 && successor(&w->b, of, 1) != of)) return;
    int64_t more =
        l.wide != widest->wide ? (int64_t)l.wide - widest->wide : (int64_t)l.bytes - widest->bytes;
    if (more < 0 || (more == 0 && begins > w->begins)) return;
    *widest = l;
    w->begins = begins;
}

static void walk_from(walk *w, uint32_t start, rf_emu_loop *widest) {
    enter(w, start);
    while (w->n_path) {
        uint32_t i = w->path[w->n_path - 1];
        visit *v = &w->seen[i];
        if (v->successors < 2) {
            uint32_t to = successor(&w->b, i, v->successors++);
            if (to < w->b.first || to >= w->b.end) continue;
            if (!w->seen[to].met)
                enter(w, to);
            else if (w->seen[to].is_open)
                lower(&v->back, w->seen[to].met);
            continue;
        }
        if (v->back == v->met) close_component(w, i, widest);
        if (--w->n_path) lower(&w->seen[w->path[w->n_path - 1]].back, v->back);
    }
}

rf_status rf_emu_widest_loop(const rf_emu_kernel *k, rf_emu_loop *out, rf_error *e) {
    walk w = {.b = body_of(k), .begins = UINT32_MAX};
    *out = (rf_emu_loop){0};
    w.seen = rf_alloc(w.b.end, sizeof *w.seen);
    w.path = rf_alloc(w.b.end, sizeof *w.path);
    w.open = rf_alloc(w.b.end, sizeof *w.open);
    bool ok = w.seen && w.path && w.open;
    for (uint32_t i = w.b.first; ok && i < w.b.end; i++)
        if (!w.seen[i].met) walk_from(&w, i, out);
    rf_free(w.seen);
    rf_free(w.path);
    rf_free(w.open);
    return ok ? RF_OK : rf_fail_nomem(e, w.b.end * sizeof *w.seen);
}
