/* slots.h - slots of recurrent state of backends that compute in the host's memory. */
#pragma once
#include <string.h>

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_slots {
    float *at; /* [n][n_floats] */
    uint32_t n;
    size_t n_floats;
} rf_slots;

/* NULL: there is none of that number. */
static inline float *rf_slot(const rf_slots *s, uint32_t i) {
    return i < s->n ? s->at + i * s->n_floats : NULL;
}

static inline rf_status rf_slot_read(const rf_slots *s, uint32_t i, float *out) {
    const float *from = rf_slot(s, i);
    if (from) memmove(out, from, s->n_floats * sizeof *out);
    return from ? RF_OK : RF_EARG;
}

static inline rf_status rf_slot_write(const rf_slots *s, uint32_t i, const float *src) {
    float *to = rf_slot(s, i);
    if (to) memmove(to, src, s->n_floats * sizeof *to);
    return to ? RF_OK : RF_EARG;
}

static inline rf_status rf_slot_copy(const rf_slots *s, uint32_t from, uint32_t to) {
    return from < s->n ? rf_slot_write(s, to, rf_slot(s, from)) : RF_EARG;
}

#ifdef __cplusplus
}
#endif
