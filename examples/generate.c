/* generate.c - the smallest program around the library: one prompt in, its continuation out.
 *
 *     cc generate.c $(pkg-config --cflags --libs rocmforge) -o generate
 *     ./generate model.gguf "Once upon a time" */
#include <rocmforge.h>
#include <stdio.h>
#include <string.h>

static void on_event(void *user, const rf_event *event) {
    rf_finish *finish = user;
    fwrite(event->text, 1, event->text_len, stdout);
    fflush(stdout);
    *finish = event->finish;
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: %s MODEL.gguf PROMPT\n", argv[0]), 2;
    rf_text why = {0};
    rf_engine *engine = NULL;
    const rf_engine_opts opts = {.model_path = argv[1]};
    if (rf_engine_open(&engine, &opts, &why) != ROCMFORGE_OK)
        return fprintf(stderr, "%s\n", why.text), 1;

    int32_t tokens[512];
    size_t n = 0;
    rf_finish finish = RF_FINISH_NONE;
    int status = rf_engine_tokenize(engine, argv[2], strlen(argv[2]), true, false, tokens,
                                    sizeof tokens / sizeof tokens[0], &n, &why);
    if (status == ROCMFORGE_OK && n > sizeof tokens / sizeof tokens[0])
        status = ROCMFORGE_EFULL, snprintf(why.text, sizeof why.text, "the prompt is too long");
    if (status == ROCMFORGE_OK) {
        rf_request_opts request = {.tokens = tokens, .n_tokens = n, .max_tokens = 64};
        request.sampling = rf_sampling_default();
        request.n_logprobs = -1;
        request.on_event = on_event;
        request.user = &finish;
        status = rf_engine_submit(engine, &request, NULL, &why);
    }
    while (status == ROCMFORGE_OK && finish == RF_FINISH_NONE && rf_engine_step(engine) >= 0) {
    }
    if (status != ROCMFORGE_OK) fprintf(stderr, "%s\n", why.text);
    putchar('\n');
    rf_engine_close(engine);
    return status == ROCMFORGE_OK && finish != RF_FINISH_ERROR ? 0 : 1;
}
