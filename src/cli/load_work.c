/* load_work.c - the workload: lengths, prompts and arrival times, each a function of the seed and the
 * request's number, so that every server gets exactly the same. */
#include <math.h>

#include "base/rng.h"
#include "cli/load.h"

enum {
    PROMPT_LENGTH,
    ANSWER_LENGTH,
    PREFIX,
    PROMPT,
    ARRIVAL,
    LEAVE,
    LEAVE_AFTER
}; /* streams of random numbers */

static const char *const words[] = {
    "time",  "water", "house", "light", "river", "stone", "paper",  "green", "table", "night",
    "world", "field", "glass", "music", "horse", "story", "window", "road",  "north", "cloud",
    "bread", "chair", "ocean", "plant", "smile", "train", "voice",  "white", "young", "earth",
    "apple", "beach", "clock", "dream", "event", "fruit", "ground", "heart", "image", "judge",
};

static uint32_t around(const rf_load_work *w, uint32_t n, uint64_t stream, uint64_t i) {
    double u = 2 * rf_rng_unit(w->seed, stream, i) - 1;
    double x = floor((double)n * (1 + w->spread * u) + 0.5);
    return x < 1 ? 1 : (uint32_t)x;
}

uint32_t rf_load_answer_tokens(const rf_load_work *w, uint64_t i) {
    return around(w, w->n_gen, ANSWER_LENGTH, i);
}

bool rf_load_leaves(const rf_load_work *w, uint64_t i, uint32_t *after) {
    double n = rf_load_answer_tokens(w, i);
    *after = (uint32_t)(rf_rng_unit(w->seed, LEAVE_AFTER, i) * n);
    return rf_rng_unit(w->seed, LEAVE, i) < w->cancel;
}

/* n tokens of a prompt; k counts those before them. */
static void put_part(const rf_load_work *w, uint64_t stream, uint64_t i, uint32_t n, uint32_t *k,
                     rf_buf *out) {
    for (uint32_t t = 0; t < n; t++, ++*k) {
        uint32_t x[4];
        rf_philox(w->seed, stream, i << 32 | t, x);
        if (!w->as_tokens) {
            rf_buf_printf(out, "%s%s", *k ? " " : "", words[x[0] % RF_COUNT(words)]);
            continue;
        }
        /* Control tokens lie at either end of vocabularies: ids come from the middle. */
        uint32_t edge = w->n_vocab / 8, room = w->n_vocab - 2 * edge;
        rf_buf_printf(out, "%s%u", *k ? "," : "", edge + x[0] % room);
    }
}

void rf_load_body(const rf_load_work *w, const char *model, uint64_t i, rf_buf *out) {
    uint32_t k = 0, n_answer = rf_load_answer_tokens(w, i);
    rf_buf_puts(out, "{\"model\":");
    rf_buf_json_str(out, rf_str_of(model));
    rf_buf_puts(out, w->as_tokens ? ",\"prompt\":[" : ",\"prompt\":\"");
    if (w->shared_prefix) put_part(w, PREFIX, 0, w->n_prefix, &k, out);
    put_part(w, PROMPT, i, around(w, w->n_prompt, PROMPT_LENGTH, i), &k, out);
    rf_buf_putc(out, w->as_tokens ? ']' : '"');
    rf_buf_printf(out,
                  ",\"max_tokens\":%u,\"min_tokens\":%u,\"ignore_eos\":true,\"temperature\":%g,",
                  n_answer, n_answer, w->temperature);
    if (w->temperature > 0)
        rf_buf_printf(out, "\"top_p\":%g,\"top_k\":%u,\"seed\":%llu,", w->top_p, w->top_k,
                      (unsigned long long)(w->seed + i));
    rf_buf_puts(out, "\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
}

void rf_load_arrivals(const rf_load_work *w, double rate, size_t n, double *out) {
    double t = 0;
    for (size_t i = 0; i < n; i++) {
        out[i] = t;
        t -= log(1 - rf_rng_unit(w->seed, ARRIVAL, i)) / rate;
    }
}
