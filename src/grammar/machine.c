/* machine.c - one byte at a time: successors, then calls and returns until only readers are left. */
#include "grammar/machine.h"

rf_status rf_machine_open(rf_machine *m, const rf_automaton *a) {
    *m = (rf_machine){.a = a};
    m->frames = rf_alloc(RF_MACHINE_FRAMES, sizeof *m->frames);
    m->items = rf_alloc(RF_MACHINE_ITEMS, sizeof *m->items);
    rf_machine_reset(m);
    return m->frames && m->items ? RF_OK : RF_ENOMEM;
}

void rf_machine_close(rf_machine *m) {
    rf_free(m->frames);
    rf_free(m->items);
    *m = (rf_machine){0};
}

void rf_machine_reset(rf_machine *m) {
    m->n_frames = RF_FRAME_FIRST;
    m->n_items = 0;
    m->ended = m->exited = false;
    m->status = RF_OK;
    m->work = 0;
}

static void count_work(rf_machine *m, uint32_t n) {
    m->work += n;
    if (m->work > RF_MACHINE_WORK) m->status = RF_EFULL;
}

/* The frame with these values, made when there is none. */
static uint32_t frame_of(rf_machine *m, uint32_t call, uint32_t parent, uint32_t count) {
    count_work(m, 1 + (m->n_frames >> 4));
    for (uint32_t i = m->n_frames; i-- > RF_FRAME_FIRST;) {
        const rf_frame *f = &m->frames[i];
        if (f->call == call && f->parent == parent && f->count == count) return i;
    }
    if (m->n_frames == RF_MACHINE_FRAMES) {
        m->status = RF_EFULL;
        return RF_FRAME_ROOT;
    }
    m->frames[m->n_frames] = (rf_frame){call, parent, count};
    return m->n_frames++;
}

/* Adds a place to the set that starts at first, once. */
static void add(rf_machine *m, uint32_t first, uint32_t state, uint32_t frame) {
    for (uint32_t i = first; i < m->n_items; i++)
        if (m->items[i].state == state && m->items[i].frame == frame) return;
    if (m->n_items == RF_MACHINE_ITEMS || m->n_items - first == RF_MACHINE_SET) {
        m->status = RF_EFULL;
        return;
    }
    m->items[m->n_items++] = (rf_item){state, frame};
}

static void go_into(rf_machine *m, uint32_t first, uint32_t call, uint32_t frame) {
    const rf_call_site *c = &m->a->call[call];
    /* a call with nothing behind it returns to where its caller returns */
    if (c->max > 1 || m->a->state[c->to].flags != RF_STATE_ACCEPTS)
        frame = frame_of(m, call, frame, 0);
    add(m, first, c->start, frame);
}

static void go_out(rf_machine *m, uint32_t first, uint32_t frame) {
    m->ended = m->ended || frame == RF_FRAME_ROOT;
    m->exited = m->exited || frame == RF_FRAME_UNKNOWN;
    if (frame < RF_FRAME_FIRST) return;
    const rf_frame f = m->frames[frame];
    const rf_call_site *c = &m->a->call[f.call];
    uint32_t count = f.count + 1;
    if (count < c->max) {
        /* without a bound only reaching the minimum matters */
        uint32_t kept = c->max == RF_X_MANY && count > c->min ? c->min : count;
        add(m, first, c->start, frame_of(m, f.call, f.parent, kept));
    }
    if (count >= c->min) add(m, first, c->to, f.parent);
}

/* Completes the set that starts at first, then keeps the places that read. */
static void complete(rf_machine *m, uint32_t first) {
    for (uint32_t i = first; i < m->n_items && m->status == RF_OK; i++) {
        const rf_item item = m->items[i];
        const rf_state *s = &m->a->state[item.state];
        count_work(m, 1);
        for (uint32_t c = 0; c < s->n_calls; c++)
            go_into(m, first, s->first_call + c, item.frame);
        if (s->flags & RF_STATE_ACCEPTS) go_out(m, first, item.frame);
    }
    uint32_t kept = first;
    for (uint32_t i = first; i < m->n_items; i++)
        if (m->a->state[m->items[i].state].flags & RF_STATE_READS) m->items[kept++] = m->items[i];
    m->n_items = m->status == RF_OK ? kept : first;
}

void rf_machine_enter(rf_machine *m, uint32_t state, uint32_t frame) {
    uint32_t first = m->n_items;
    m->ended = m->exited = false;
    add(m, first, state, frame);
    complete(m, first);
}

void rf_machine_leave(rf_machine *m, uint32_t frame) {
    uint32_t first = m->n_items;
    m->ended = m->exited = false;
    go_out(m, first, frame);
    complete(m, first);
}

void rf_machine_step(rf_machine *m, uint32_t first, uint32_t end, uint8_t byte) {
    const rf_automaton *a = m->a;
    const uint32_t *column = a->next + a->class_of[byte];
    uint32_t start = m->n_items, flags = 0;
    m->ended = m->exited = false;
    for (uint32_t i = first; i < end; i++) {
        const rf_item item = m->items[i];
        uint32_t to = column[(size_t)item.state * a->n_classes];
        if (!to) continue;
        add(m, start, to, item.frame);
        flags |= a->state[to].flags;
    }
    count_work(m, 1);
    if (m->status != RF_OK)
        m->n_items = start;
    else if (flags & (RF_STATE_CALLS | RF_STATE_ACCEPTS))
        complete(m, start);
}
