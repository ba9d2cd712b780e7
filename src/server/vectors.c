/* vectors.c - the routes for vectors and scores: texts as tasks of their model. */
#include "server/routes.h"
#include "server/texts.h"

enum { MAX_FLOATS = 1 << 22 }; /* of one answer */

static bool check_embedding(const rf_slot *s, const rf_params *p, rf_api_error *e) {
    size_t size = rf_engine_embed_size(s->engine, RF_POOLING_DEFAULT);
    if (s->info.pooling == RF_POOLING_RANK)
        return rf_api_fail(e, 400, "unsupported_model", "model",
                           "%s is a reranker and gives scores, not vectors; POST /v1/rerank",
                           s->o.name);
    if (p->dimensions && (size_t)p->dimensions != size)
        return rf_api_fail(e, 400, "unsupported_value", "dimensions",
                           "dimensions is %d; this model's vectors have %zu, and are not cut",
                           p->dimensions, size);
    if (p->n_prompts <= MAX_FLOATS / size) return true;
    return rf_api_fail(e, 400, "invalid_value", "input",
                       "%zu texts with vectors of %zu floats are over the limit of %d floats",
                       p->n_prompts, size, MAX_FLOATS);
}

/* The engine would refuse these too, but later.  field: whose text i is. */
static bool check_length(const rf_slot *s, const char *field, size_t i, const rf_ids *ids,
                         rf_api_error *e) {
    if (ids->len == 0)
        return rf_api_fail(e, 400, "invalid_value", field, "text %zu has no tokens", i);
    if (ids->len > s->info.n_ctx)
        return rf_api_fail(e, 400, "context_length_exceeded", field,
                           "text %zu has %zu tokens; the model takes %u", i, ids->len,
                           s->info.n_ctx);
    for (size_t k = 0; k < ids->len; k++)
        if (ids->p[k] < 0 || (uint32_t)ids->p[k] >= s->info.n_vocab)
            return rf_api_fail(e, 400, "invalid_value", field,
                               "token %zu of text %zu is %d, not below the vocabulary's %u", k, i,
                               ids->p[k], s->info.n_vocab);
    return true;
}

static bool embedding_ids(const rf_slot *s, const rf_params *p, rf_ids *ids, rf_api_error *e) {
    if (!check_embedding(s, p, e)) return false;
    for (size_t i = 0; i < p->n_prompts; i++)
        if (!rf_prompt_ids(s, &p->prompts[i], false, &ids[i], e) ||
            !check_length(s, "input", i, &ids[i], e))
            return false;
    return true;
}

/* Whether a pair has its separator twice: what RoBERTa's kin, whose texts begin with <s>, learned. */
static bool doubles_separator(const rf_slot *s, int32_t first) {
    char name[8];
    size_t n = 0;
    rf_engine_token_bytes(s->engine, first, name, sizeof name, &n, NULL);
    return n <= sizeof name && rf_str_is((rf_str){name, n}, "<s>");
}

/* Query and document as one text: [CLS] query [SEP] document [SEP]. */
static bool pair_ids(const rf_slot *s, const rf_ids *query, const rf_ids *frame,
                     const rf_prompt *doc, rf_ids *out, rf_api_error *e) {
    rf_ids second = {0};
    if (!rf_prompt_ids(s, doc, false, &second, e)) return false;
    size_t skip = frame->len == 2 && !doubles_separator(s, frame->p[0]);
    for (size_t i = 0; i < query->len; i++)
        rf_ids_push(out, query->p[i]);
    if (frame->len == 2 && !skip) second.p[0] = frame->p[1]; /* the begin becomes a separator */
    for (size_t i = skip; i < second.len; i++)
        rf_ids_push(out, second.p[i]);
    bool ok = !out->failed;
    rf_ids_free(&second);
    return ok ? true : rf_api_fail_status(e, RF_ENOMEM, "out of memory");
}

static bool rerank_ids(const rf_slot *s, const rf_params *p, rf_ids *ids, rf_api_error *e) {
    if (s->info.pooling != RF_POOLING_RANK || !s->info.is_encoder)
        return rf_api_fail(e, 400, "unsupported_model", "model",
                           "%s is not a reranker: it has no head that scores a pair of texts",
                           s->o.name);
    const rf_prompt text = {.text = p->query}, none = {.text = RF_STR("")};
    rf_ids query = {0}, frame = {0}; /* frame: what stands around every text */
    bool ok =
        rf_prompt_ids(s, &text, false, &query, e) && rf_prompt_ids(s, &none, false, &frame, e);
    for (size_t i = 0; ok && i < p->n_prompts; i++)
        ok = pair_ids(s, &query, &frame, &p->prompts[i], &ids[i], e) &&
             check_length(s, "documents", i, &ids[i], e);
    rf_ids_free(&query);
    rf_ids_free(&frame);
    return ok;
}

static void embed_with(rf_server *s, const rf_http_request *r, unsigned kind,
                       const rf_embed_writer *writer, rf_outbox *o) {
    rf_api_error e = {0};
    rf_params p;
    rf_ids *ids = NULL;
    rf_slot *slot = NULL;
    bool ok = rf_params_parse(&p, kind, r->body, &e) &&
              rf_models_hold(s->models, p.model, r, o, &slot, &e);
    if (ok && slot) ids = rf_alloc(p.n_prompts, sizeof *ids);
    if (ok && slot && !ids) ok = rf_api_fail_status(&e, RF_ENOMEM, "out of memory");
    if (ok && slot && (kind == RF_FOR_RERANK ? rerank_ids : embedding_ids)(slot, &p, ids, &e))
        rf_embeds_start(slot->embeds, writer, r->id, &p, ids, o, &e);
    else
        rf_free_request(&p, ids);
    rf_models_release(s->models, slot);
    if (e.status) rf_api_answer_error(o, &e);
}

void rf_route_embeddings(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    embed_with(s, r, RF_FOR_EMBEDDING, &rf_embed_vectors, o);
}

void rf_route_rerank(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    embed_with(s, r, RF_FOR_RERANK, &rf_embed_scores, o);
}
