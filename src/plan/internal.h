/* internal.h - the passes over a plan between its building and its use; private to the plan room
 * and its tests. */
#pragma once
#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An empty plan over m, to emit into. */
RF_CHECKED rf_status rf_plan_create(rf_plan **out, const rf_model *m, const rf_plan_opts *opts,
                                    rf_error *e);
/* Lifetimes of all values, then a place for each activation. */
RF_CHECKED rf_status rf_plan_seal(rf_plan *p, rf_error *e);
/* Does a sealed plan hold together?  Trusts neither the emitters nor rf_plan_seal. */
RF_CHECKED rf_status rf_plan_check(const rf_plan *p, rf_error *e);

#ifdef __cplusplus
}
#endif
