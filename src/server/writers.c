/* writers.c - what the writers of several APIs have in common. */
#include "server/writers.h"

rf_reply_opts rf_reply_opts_of(const rf_job *j) {
    const rf_params *p = &j->params;
    return (rf_reply_opts){.tools = p->tools.len ? rf_json_get(p->json, "tools") : NULL,
                           .prompt_end = rf_str_of(p->prompt_end),
                           .id = j->id,
                           .must_call = p->must_call,
                           .single_call = !p->parallel_calls};
}

void rf_write_blocks(rf_job *j, rf_choice *c, const rf_event *ev, const rf_block_sink *sink) {
    const rf_reply_opts o = rf_reply_opts_of(j);
    rf_status s = c->blocks ? RF_OK : rf_blocks_create(&c->blocks, j->format, &o);
    if (s == RF_OK)
        s = rf_blocks_feed(c->blocks, (rf_str){ev->text, ev->text_len},
                           ev->finish != RF_FINISH_NONE, sink);
    if (s != RF_OK) c->text.failed = true; /* the job fails by this mark */
}
