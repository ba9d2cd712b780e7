/* stages.c - see stages.h. */
#include "server/stages.h"

#include <stdio.h>

void rf_stage_name(const rf_stage *s, char out[RF_STAGE_NAME]) {
    if (s->on_gpu)
        snprintf(out, RF_STAGE_NAME, "gpu %u", s->device);
    else
        snprintf(out, RF_STAGE_NAME, "cpu");
}

static void put_stage(const rf_stage *s, rf_buf *out) {
    char name[RF_STAGE_NAME];
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {{"first_layer", s->first_layer},
               {"n_layers", s->n_layers},
               {"weights", s->weights},
               {"kv", s->kv},
               {"activations", s->activations},
               {"other", s->other},
               {"total", s->total},
               {"host", s->host}};
    rf_stage_name(s, name);
    rf_buf_printf(out, "{\"device\":\"%s\"", name);
    for (size_t i = 0; i < RF_COUNT(all); i++)
        rf_buf_printf(out, ",\"%s\":%llu", all[i].name, (unsigned long long)all[i].value);
    rf_buf_putc(out, '}');
}

void rf_stages_json(const rf_stage *s, size_t n, rf_buf *out) {
    rf_buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i) rf_buf_putc(out, ',');
        put_stage(&s[i], out);
    }
    rf_buf_putc(out, ']');
}
