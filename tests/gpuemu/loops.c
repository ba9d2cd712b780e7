/* loops.c - what a kernel does again and again, read from its instructions: the loop that loads most,
 * with all that it may execute. */
#include <string.h>

#include "gpuemu/inst.h"

/* Instructions first .. end - 1 of a module are one kernel's. */
typedef struct body {
    const rf_emu_inst *code;
    uint32_t first, end;
    uint8_t *mark; /* [end] */
} body;
enum { COMES_HERE = 1, GOES_HERE = 2, IN_LOOP = COMES_HERE | GOES_HERE, DONE = 4 };

static body body_of(const rf_emu_kernel *k) {
    const rf_emu_module *m = k->module;
    body b = {.code = m->code, .end = (uint32_t)m->n_code};
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

/* Marks what may be executed between an instruction and its next turn: nothing if it has only one. */
static void mark_loop(body *b, uint32_t of) {
    uint8_t *mark = b->mark;
    bool more = true, again = false;
    for (uint32_t i = b->first; i < b->end; i++)
        mark[i] &= DONE;
    for (mark[of] |= IN_LOOP; more;) {
        more = false;
        for (uint32_t i = b->first; i < b->end; i++) {
            const uint32_t next[] = {goes_on(&b->code[i]) ? i + 1 : UINT32_MAX, b->code[i].target};
            for (size_t k = 0; k < RF_COUNT(next); k++) {
                uint32_t to = next[k];
                if (to >= b->end) continue;
                again = again || (to == of && mark[i] & COMES_HERE);
                uint8_t from = mark[i] & COMES_HERE, back = mark[to] & GOES_HERE;
                more = more || from & ~mark[to] || back & ~mark[i];
                mark[to] |= from;
                mark[i] |= back;
            }
        }
    }
    for (uint32_t i = b->first; i < b->end; i++)
        if (!again || (mark[i] & IN_LOOP) != IN_LOOP) mark[i] &= DONE;
}

/* Of a lane, by a load from global memory. */
static uint32_t load_bytes(const rf_emu_inst *i) {
    bool is_load = is_named(i, "global_load") || is_named(i, "flat_load");
    return is_load ? i->op->arg & RF_EMU_BYTES : 0;
}

static void count(rf_emu_loop *l, const rf_emu_inst *i) {
    uint32_t bytes = load_bytes(i);
    l->bytes += bytes;
    l->wide += bytes >= 8;
    l->narrow += bytes > 0 && bytes < 8;
    if (i->pair || (i->op && i->op->name[0] == 'v')) l->vector++;
    if (is_named(i, "ds_")) l->shared++;
    if (is_named(i, "v_dot4") || is_named(i, "v_wmma") || is_named(i, "v_mfma")) l->products++;
}

rf_status rf_emu_widest_loop(const rf_emu_kernel *k, rf_emu_loop *out, rf_error *e) {
    body b = body_of(k);
    *out = (rf_emu_loop){0};
    b.mark = rf_alloc(k->module->n_code, 1);
    if (!b.mark) return rf_fail_nomem(e, k->module->n_code);
    for (uint32_t i = b.first; i < b.end; i++) {
        rf_emu_loop l = {0};
        if (!load_bytes(&b.code[i]) || b.mark[i] & DONE) continue;
        mark_loop(&b, i);
        for (uint32_t j = b.first; j < b.end; j++) {
            if (b.mark[j] & IN_LOOP) count(&l, &b.code[j]);
            if (b.mark[j] & IN_LOOP) b.mark[j] = DONE;
        }
        if (l.wide > out->wide || (l.wide == out->wide && l.bytes > out->bytes)) *out = l;
    }
    rf_free(b.mark);
    return RF_OK;
}
