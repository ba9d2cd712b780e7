/* machine.h - the automaton at work: sets of places, each a state and the calls it is inside of.
 *
 * Private to src/grammar.  Frames form a tree (a frame knows its caller), equal ones are one.  Sets
 * lie behind each other in one array; both arrays are cut back to what they were when a walk turns
 * back.  The first failure of a limit stays in status and empties what follows. */
#pragma once
#include "grammar/automaton.h"

enum {
    RF_FRAME_ROOT = 0, /* the end of the text is behind the rule */
    RF_FRAME_UNKNOWN =
        1, /* who called is left open: what comes behind the rule is told as exited */
    RF_FRAME_FIRST = 2,
    RF_MACHINE_FRAMES = 4096,
    RF_MACHINE_ITEMS = 1 << 15, /* of all sets on the way down a tree of tokens */
    RF_MACHINE_SET = 512,       /* of one set */
    RF_MACHINE_WORK = 1 << 22,  /* steps of one mask or feed */
};

typedef struct rf_frame {
    uint32_t call;   /* the call that was gone into */
    uint32_t parent; /* the frame it was called from */
    uint32_t count;  /* times it was gone through */
} rf_frame;

typedef struct rf_item {
    uint32_t state, frame;
} rf_item;

typedef struct rf_machine {
    const rf_automaton *a;
    rf_frame *frames; /* [RF_MACHINE_FRAMES] */
    rf_item *items;   /* [RF_MACHINE_ITEMS] */
    uint32_t n_frames, n_items;
    bool ended, exited; /* by the latest step: the root, the unknown frame was left */
    rf_status status;
    uint64_t work;
} rf_machine;

RF_CHECKED rf_status rf_machine_open(rf_machine *m, const rf_automaton *a);
void rf_machine_close(rf_machine *m);
void rf_machine_reset(rf_machine *m); /* no frames, no items, no failure */
/* Begins a set behind the existing ones, with one place and all that is reached without a byte. */
void rf_machine_enter(rf_machine *m, uint32_t state, uint32_t frame);
/* The same with what follows where a frame is left. */
void rf_machine_leave(rf_machine *m, uint32_t frame);
/* Appends the set that the set items[first..end) becomes by a byte. */
void rf_machine_step(rf_machine *m, uint32_t first, uint32_t end, uint8_t byte);
