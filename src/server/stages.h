/* stages.h - what of a model runs where, as JSON: in answers of the server, and of `plan`. */
#pragma once
#include "base/buf.h"
#include "rocmforge.h"

enum { RF_MOST_STAGES = 17, RF_STAGE_NAME = 20 };

/* "cpu", "gpu 0". */
void rf_stage_name(const rf_stage *s, char out[RF_STAGE_NAME]);
/* [{"device":"cpu","first_layer":0,"n_layers":10,"weights":...}, ...] */
void rf_stages_json(const rf_stage *s, size_t n, rf_buf *out);
