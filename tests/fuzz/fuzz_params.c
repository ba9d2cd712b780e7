/* fuzz_params.c - any bytes as the body of a request of any kind: refused with a status and a
 * message, or a struct whose values lie in their ranges and whose texts are JSON again. */
#include <math.h>

#include "server/params.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_json(rf_str text) {
    rf_json *j;
    if (!text.p) return;
    RF_ASSERT(rf_json_parse(&j, text, NULL) == RF_OK);
    rf_json_free(j);
}

static void check(const rf_params *p, unsigned kind) {
    RF_ASSERT(p->n_prompts > 0 && p->n >= 1);
    RF_ASSERT(p->n_prompts * (size_t)p->n <= RF_PARAMS_MAX_CHOICES);
    RF_ASSERT(p->sampling.temperature >= 0 && isfinite(p->sampling.temperature));
    RF_ASSERT(p->max_tokens == -1 || p->max_tokens > 0);
    RF_ASSERT(p->n_logprobs >= -1 && p->n_logprobs <= 20);
    RF_ASSERT((kind == RF_FOR_CHAT) == (p->messages.p != NULL));
    check_json(p->messages);
    check_json(p->tools);
    check_json(p->vars);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const unsigned kinds[] = {RF_FOR_NATIVE, RF_FOR_COMPLETION, RF_FOR_CHAT};
    for (size_t i = 0; i < RF_COUNT(kinds); i++) {
        rf_params p;
        rf_api_error e = {0};
        if (rf_params_parse(&p, kinds[i], (rf_str){(const char *)data, size}, &e))
            check(&p, kinds[i]);
        else
            RF_ASSERT(e.status >= 400 && e.status < 600 && e.message[0] && e.type);
        rf_params_free(&p);
    }
    return 0;
}
