/* events.h - events of requests that wait to be told: a step's answers are on their way to whoever asked
 * while the device computes the next one.
 *
 * An event and all that it points to is copied; events are told in the order in which they came.  One
 * thread, that of the engine's steps, does all of it. */
#pragma once
#include "base/buf.h"
#include "rocmforge.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_EVENT_TOP = 20 }; /* likeliest tokens of an event at most */

typedef struct rf_waiting_event rf_waiting_event;
typedef struct rf_events {
    rf_waiting_event *all; /* [cap], of which n wait */
    size_t n, cap;
    rf_buf text; /* theirs, one after the other */
} rf_events;

/* Where memory is short those that wait are told, then this one. */
void rf_events_add(rf_events *e, rf_event_fn fn, void *user, const rf_event *event);
/* Tells all of them.  What is called may not add any. */
void rf_events_tell(rf_events *e);
/* Forgets those that wait. */
void rf_events_free(rf_events *e);

#ifdef __cplusplus
}
#endif
