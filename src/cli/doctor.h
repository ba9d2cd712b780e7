/* doctor.h - the findings of `doctor`: what was looked at, whether it is well, and what would mend it. */
#pragma once
#include "cli/session.h"

typedef struct rf_doctor {
    rf_cli *c;
    rf_buf out;
    bool json;
    size_t n, n_bad;
} rf_doctor;

/* One finding.  ok false: something a user should mend.  cure: how, or advice; NULL: none. */
void rf_doctor_find(rf_doctor *r, const char *what, bool ok, const char *cure, const char *fmt, ...)
    RF_PRINTF(5, 6);
/* Everything about GPUs. */
void rf_doctor_gpus(rf_doctor *r);
