/* fuzz_params.c - any bytes as the body of a request of any kind: refused with a status and a
 * message, or a struct whose values lie in their ranges and whose texts are JSON again; and as the
 * body of a request of an API that is translated: refused, or JSON that is a request for chat. */
#include <math.h>

#include "server/params.h"
#include "server/translate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_json(rf_str text) {
    rf_json *j;
    if (!text.p) return;
    RF_ASSERT(rf_json_parse(&j, text, NULL) == RF_OK);
    rf_json_free(j);
}

static void check(const rf_params *p, unsigned kind) {
    RF_ASSERT(p->n_prompts > 0 && p->n >= 1);
    bool embeds = kind == RF_FOR_EMBEDDING || kind == RF_FOR_RERANK;
    RF_ASSERT(p->n_prompts * (size_t)p->n <=
              (size_t)(embeds ? RF_PARAMS_MAX_INPUTS : RF_PARAMS_MAX_CHOICES));
    RF_ASSERT(p->sampling.temperature >= 0 && isfinite(p->sampling.temperature));
    RF_ASSERT(p->max_tokens == -1 || p->max_tokens > 0);
    RF_ASSERT(p->n_logprobs >= -1 && p->n_logprobs <= 20);
    RF_ASSERT((kind == RF_FOR_CHAT) == (p->messages.p != NULL));
    check_json(p->messages);
    check_json(p->tools);
    check_json(p->vars);
    if (p->must_call) check_json(p->grammar_text);
}

static void translate(rf_str text) {
    static const rf_translate_fn fns[] = {rf_messages_to_chat, rf_count_to_chat,
                                          rf_responses_to_chat};
    rf_json *body;
    rf_api_error e = {0};
    if (!rf_params_read_object(&body, text, &e)) return;
    for (size_t i = 0; i < RF_COUNT(fns); i++) {
        rf_buf chat = {0};
        rf_params p = {0};
        e = (rf_api_error){0};
        if (fns[i](body, &chat, &e)) {
            check_json(rf_buf_str(&chat));
            if (rf_params_parse(&p, RF_FOR_CHAT, rf_buf_str(&chat), &e)) check(&p, RF_FOR_CHAT);
        }
        RF_ASSERT(p.messages.p || (e.status >= 400 && e.message[0]));
        rf_params_free(&p);
        rf_buf_free(&chat);
    }
    rf_json_free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const unsigned kinds[] = {RF_FOR_NATIVE, RF_FOR_COMPLETION, RF_FOR_CHAT,
                                     RF_FOR_EMBEDDING, RF_FOR_RERANK};
    for (size_t i = 0; i < RF_COUNT(kinds); i++) {
        rf_params p;
        rf_api_error e = {0};
        if (rf_params_parse(&p, kinds[i], (rf_str){(const char *)data, size}, &e))
            check(&p, kinds[i]);
        else
            RF_ASSERT(e.status >= 400 && e.status < 600 && e.message[0] && e.type);
        rf_params_free(&p);
    }
    translate((rf_str){(const char *)data, size});
    return 0;
}
