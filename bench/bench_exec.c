/* bench_exec.c - how fast the CPU backend runs a model file: prompt and generation, tokens a second.
 *
 * bench_exec FILE [threads] [prompt tokens] [generated tokens] [rows of a batch]
 * Medians of five runs each; the ids are arbitrary, since no op's time depends on them. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/backend.h"

enum { RUNS = 5 };

typedef struct bench {
    rf_model *m;
    rf_plan *p;
    rf_backend *b;
    rf_exec *x;
    uint32_t n_prompt, n_generate, n_rows;
    int32_t *token;
    uint32_t *pos, *table;
} bench;

static void die(const rf_error *e) {
    fprintf(stderr, "bench_exec: %s\n", e->text);
    exit(1);
}

/* n rows from position first on; the last row's logits are made. */
static void step(bench *s, uint32_t first, uint32_t n) {
    uint32_t start[2] = {0, n}, len = first + n, out = n - 1;
    for (uint32_t i = 0; i < n; i++)
        s->pos[i] = first + i;
    rf_batch b = {.n_tokens = n,
                  .n_seqs = 1,
                  .n_outputs = 1,
                  .table_stride = (s->n_prompt + s->n_generate) / RF_KV_BLOCK + 1,
                  .token = s->token,
                  .pos = s->pos,
                  .seq_start = start,
                  .kv_len = &len,
                  .table = s->table,
                  .out_row = &out};
    rf_error e = {0};
    const float *logits;
    if (rf_cpu_ops.run(s->x, &b, &e) != RF_OK) die(&e);
    if (rf_cpu_ops.wait(s->x, &logits) != RF_OK) exit(1);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double seconds(uint64_t since) { return (double)(rf_time_us() - since) * 1e-6; }

static void measure(bench *s) {
    double prompt[RUNS], generate[RUNS];
    for (int run = 0; run < RUNS; run++) {
        uint64_t t = rf_time_us();
        for (uint32_t at = 0; at < s->n_prompt; at += s->n_rows) {
            step(s, at, s->n_prompt - at < s->n_rows ? s->n_prompt - at : s->n_rows);
        }
        prompt[run] = s->n_prompt / seconds(t);
        t = rf_time_us();
        for (uint32_t i = 0; i < s->n_generate; i++)
            step(s, s->n_prompt + i, 1);
        generate[run] = s->n_generate / seconds(t);
    }
    qsort(prompt, RUNS, sizeof *prompt, by_value);
    qsort(generate, RUNS, sizeof *generate, by_value);
    printf("pp%u %.2f tok/s   tg%u %.2f tok/s\n", s->n_prompt, prompt[RUNS / 2], s->n_generate,
           generate[RUNS / 2]);
}

static void open_all(bench *s, const char *path, int threads) {
    rf_error e = {0};
    rf_backend_opts o = {.n_threads = threads};
    uint32_t n_blocks = (s->n_prompt + s->n_generate) / RF_KV_BLOCK + 1;
    rf_limits l = {.max_tokens = s->n_rows,
                   .max_seqs = 1,
                   .max_outputs = 1,
                   .n_kv_blocks = n_blocks,
                   .k_type = RF_DT_F16,
                   .v_type = RF_DT_F16};
    if (rf_model_open(&s->m, path, &e) != RF_OK) die(&e);
    if (rf_plan_build(&s->p, s->m, NULL, &e) != RF_OK) die(&e);
    if (rf_cpu_ops.open(&s->b, &o, &e) != RF_OK) die(&e);
    if (rf_cpu_ops.compile(&s->x, s->b, s->p, &l, &e) != RF_OK) die(&e);
    s->token = rf_alloc(s->n_rows, sizeof *s->token);
    s->pos = rf_alloc(s->n_rows, sizeof *s->pos);
    s->table = rf_alloc(n_blocks, sizeof *s->table);
    if (!s->token || !s->pos || !s->table) exit(1);
    for (uint32_t i = 0; i < s->n_rows; i++)
        s->token[i] = (int32_t)(i % s->m->n_vocab);
    for (uint32_t i = 0; i < n_blocks; i++)
        s->table[i] = i;
}

static uint32_t number(int argc, char **argv, int i, uint32_t otherwise) {
    long n = argc > i ? strtol(argv[i], NULL, 10) : 0;
    return n > 0 && n < 1 << 20 ? (uint32_t)n : otherwise;
}

int main(int argc, char **argv) {
    char text[100];
    if (argc < 2) {
        fprintf(stderr, "usage: bench_exec FILE [threads] [prompt] [generate] [batch rows]\n");
        return 2;
    }
    bench s = {.n_prompt = number(argc, argv, 3, 256), .n_generate = number(argc, argv, 4, 32)};
    s.n_rows = number(argc, argv, 5, s.n_prompt < 512 ? s.n_prompt : 512);
    open_all(&s, argv[1], (int)number(argc, argv, 2, 0));
    rf_cpu_ops.describe(s.b, text, sizeof text);
    printf("%s: %s, %zu MiB beside the weights\n", argv[1], text, rf_cpu_ops.exec_bytes(s.x) >> 20);
    measure(&s);
    rf_cpu_ops.exec_free(s.x);
    rf_cpu_ops.close(s.b);
    rf_plan_free(s.p);
    rf_model_close(s.m);
    rf_free(s.token);
    rf_free(s.pos);
    rf_free(s.table);
    return 0;
}
