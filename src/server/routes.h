/* routes.h - the handlers of routes.def, and what they share. */
#pragma once
#include "server/server.h"

#define X(method, path, scope, handler, body, answer, summary) \
    void rf_route_##handler(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o);
#include "server/routes.def"
#undef X

void rf_answer_json(rf_outbox *o, int status, rf_buf *body); /* frees it */
/* Parameters and ids that did not become a job.  ids: [p->n_prompts], or NULL. */
void rf_free_request(rf_params *p, rf_ids *ids);
/* The member "model" of a body; empty without one. */
bool rf_get_model(const rf_json *body, rf_str *out, rf_api_error *e);
