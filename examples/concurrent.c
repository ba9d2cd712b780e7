/* concurrent.c - many prompts at once: all requests run in the same batches (continuous batching),
 * share the KV cache of a common beginning, and each gets the tokens it would get alone.
 *
 *     cc concurrent.c $(pkg-config --cflags --libs rocmforge) -o concurrent
 *     ./concurrent model.gguf "First prompt" "Second prompt" ... */
#include <rocmforge.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct answer {
    char text[4096];
    size_t len;
    uint32_t n_generated, n_cached;
    rf_finish finish;
} answer;

static void on_event(void *user, const rf_event *event) {
    answer *a = user;
    size_t room = sizeof a->text - a->len, n = event->text_len < room ? event->text_len : room;
    memcpy(a->text + a->len, event->text, n);
    a->len += n;
    a->n_generated = event->n_generated;
    a->n_cached = event->n_cached;
    a->finish = event->finish;
}

static int submit(rf_engine *engine, const char *prompt, answer *a, rf_text *why) {
    int32_t tokens[512];
    const size_t cap = sizeof tokens / sizeof tokens[0];
    size_t n = 0;
    int status =
        rf_engine_tokenize(engine, prompt, strlen(prompt), true, false, tokens, cap, &n, why);
    if (status != ROCMFORGE_OK) return status;
    if (n > cap)
        return snprintf(why->text, sizeof why->text, "too long: %s", prompt), ROCMFORGE_EFULL;
    rf_request_opts request = {.tokens = tokens, .n_tokens = n, .max_tokens = 48};
    request.sampling = rf_sampling_default();
    request.sampling.seed = 1;
    request.n_logprobs = -1;
    request.on_event = on_event;
    request.user = a;
    return rf_engine_submit(engine, &request, NULL, why);
}

int main(int argc, char **argv) {
    if (argc < 3) return fprintf(stderr, "usage: %s MODEL.gguf PROMPT...\n", argv[0]), 2;
    rf_text why = {0};
    rf_engine *engine = NULL;
    const rf_engine_opts opts = {.model_path = argv[1], .max_seqs = 8};
    if (rf_engine_open(&engine, &opts, &why) != ROCMFORGE_OK)
        return fprintf(stderr, "%s\n", why.text), 1;

    int n = argc - 2, steps = 0, status = ROCMFORGE_OK, stepped = 1;
    answer *answers = calloc((size_t)n, sizeof *answers);
    if (!answers) status = ROCMFORGE_ENOMEM;
    for (int i = 0; i < n && status == ROCMFORGE_OK; i++)
        status = submit(engine, argv[i + 2], &answers[i], &why);
    while (status == ROCMFORGE_OK && (stepped = rf_engine_step(engine)) > 0)
        steps++;
    if (status != ROCMFORGE_OK) fprintf(stderr, "%s\n", why.text);
    for (int i = 0; i < n && status == ROCMFORGE_OK; i++)
        printf("--- %s\n%.*s\n(%u tokens, %u of the prompt from the cache)\n", argv[i + 2],
               (int)answers[i].len, answers[i].text, answers[i].n_generated, answers[i].n_cached);
    if (status == ROCMFORGE_OK) printf("%d requests in %d steps\n", n, steps);
    free(answers);
    rf_engine_close(engine);
    return status == ROCMFORGE_OK && stepped == 0 ? 0 : 1;
}
