/* bench_gpu.c - how fast the GPU's kernels are, one at a time, at the shapes of an 8B Llama or of
 * Qwen2's small models.
 *
 *   bench_gpu [products|norms|attention|decode|layers|experts] [TYPE] [8b|1.5b|0.5b] [fast] [kept]
 *
 * Each line is one kernel launched many times in one graph over buffers that no cache holds: the
 * median time of a launch over several replays, and what that makes of memory (weights and
 * activations read once) and of arithmetic (two operations per weight and row).  decode: what one row
 * needs.  attention: of 1 to 64 answers and of prompts.  layers: a decoding
 * step's layers in one graph for 1 to 64 answers, as the backend queues them, then without one of
 * their kernels each.  experts: what Qwen3 30B-A3B has of it.  fast: 16-bit floats by matrix units.  kept: products of many rows with
 * what may stay of weights.  Contents are noise; that results are right is the business of tests/backend/test_gpu_*.c
 * (ROCMFORGE_TEST_GPU=1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/gpu/code.h"
#include "backend/gpu/launch.h"
#include "backend/gpu/pack.h"
#include "base/os.h"

enum { MAX_T = 2048, MAX_COLS = 14336, MAX_ROWS = 151936, REPLAYS = 9, ROOM_BYTES = 168 << 20 };

static rf_gpu_queue queue;
static uint8_t *pool; /* weights of noise */
static uint8_t *room; /* of ROOM_BYTES, for digits made ahead */
static size_t pool_bytes, pool_at;
static float *x, *dst;
static rf_gpu_quant q32, q256;
static bool keeps;

static void stop_on(rf_status s, const rf_error *e) {
    if (s == RF_OK) return;
    fprintf(stderr, "bench_gpu: %s\n", e->text);
    exit(1);
}

static void stop_on_queue(void) {
    rf_error e = {RF_OK, ""};
    stop_on(rf_gpu_status(&queue, &e), &e);
}

static void *take(size_t n) {
    void *p = rf_gpu_alloc(&queue, n, "the benchmark");
    stop_on_queue();
    rf_gpu_fill(&queue, p, 0x11, n);
    return p;
}

/* The next n bytes of the pool, from its start again when they do not fit. */
static uint8_t *next_bytes(size_t n) {
    n = (n + 255) / 256 * 256;
    if (pool_at + n > pool_bytes) pool_at = 0;
    uint8_t *p = pool + pool_at;
    pool_at += n;
    return p;
}

static int compare(const void *a, const void *b) {
    double x_us = *(const double *)a, y_us = *(const double *)b;
    return (x_us > y_us) - (x_us < y_us);
}

/* Median microseconds of one of n launches in a graph. */
static double time_launches(void (*launch)(const void *what), const void *what, uint32_t n) {
    double us[REPLAYS];
    rf_gpu_record_begin(&queue);
    for (uint32_t i = 0; i < n; i++)
        launch(what);
    rf_gpu_graph_exec graph = rf_gpu_record_end(&queue);
    stop_on_queue();
    rf_gpu_replay(&queue, graph);
    rf_gpu_wait(&queue);
    for (int i = 0; i < REPLAYS; i++) {
        uint64_t start = rf_time_us();
        rf_gpu_replay(&queue, graph);
        rf_gpu_wait(&queue);
        us[i] = (double)(rf_time_us() - start) / n;
    }
    stop_on_queue();
    rf_gpu_graph_free(&queue, graph);
    qsort(us, REPLAYS, sizeof *us, compare);
    return us[REPLAYS / 2];
}

/* Products ----------------------------------------------------------------------------------------*/

typedef struct product {
    const char *name;
    uint32_t rows[3], n_parts, cols;
    bool glu;
} product;

typedef struct model_shape {
    const char *name;
    uint32_t embd, ff, n_heads, n_kv_heads, head_dim, n_vocab;
} model_shape;
static const model_shape shapes[] = {
    {"8b", 4096, 14336, 32, 8, 128, 128256},
    {"1.5b", 1536, 8960, 12, 2, 128, 151936},
    {"0.5b", 896, 4864, 14, 2, 64, 151936},
};
static const model_shape *model = shapes;

static product products[5];
static void make_products(void) {
    uint32_t embd = model->embd, ff = model->ff, q = model->n_heads * model->head_dim;
    uint32_t kv = model->n_kv_heads * model->head_dim;
    products[0] = (product){"qkv", {q, kv, kv}, 3, embd, false};
    products[1] = (product){"o", {embd}, 1, q, false};
    products[2] = (product){"gate+up", {ff, ff}, 2, embd, true};
    products[3] = (product){"down", {embd}, 1, ff, false};
    products[4] = (product){"output", {model->n_vocab}, 1, embd, false};
}

typedef struct product_run {
    const product *p;
    rf_dtype type;
    uint32_t T;
    size_t bytes;   /* of the weights */
    bool in_floats; /* activations that are not in integers yet */
    bool is_normed; /* nor normed */
} product_run;

static rf_gpu_norm_args norm_of(uint32_t T) {
    return (rf_gpu_norm_args){
        .x = x, .w = x, .n_items = T, .n = model->embd, .kind = RF_GPU_RMS_NORM, .eps = 1e-5f};
}

static rf_gpu_layout layout_of(const product *p, rf_dtype type, uint32_t part) {
    rf_error e = {RF_OK, ""};
    rf_gpu_layout l;
    rf_tensor t = {
        .name = RF_STR("w"), .type = type, .cols = p->cols, .rows = p->rows[part], .planes = 1};
    stop_on(rf_gpu_layout_of(&l, &t, &e), &e);
    return l;
}

static void launch_product(const void *what) {
    const product_run *r = what;
    rf_gpu_matmul_args a = {.n_parts = r->p->n_parts,
                            .n_rows = r->T,
                            .is_glu = r->p->glu,
                            .act = RF_ACT_SILU,
                            .ahead = room,
                            .ahead_bytes = ROOM_BYTES};
    for (uint32_t i = 0; i < r->p->n_parts; i++) {
        rf_gpu_layout l = layout_of(r->p, r->type, i);
        a.part[i] = (rf_gpu_product){
            .w = rf_gpu_weight_at(&l, next_bytes(l.bytes)), .dst = dst, .dst_stride = l.rows};
        if (r->in_floats) a.part[i].add = x;
        a.xq = l.form == RF_GPU_INT_256 ? q256 : q32;
        if (r->in_floats || l.form <= RF_GPU_BF16) a.x = x;
    }
    if (r->is_normed) {
        a.norm = norm_of(r->T);
        if (a.part[0].w.form <= RF_GPU_BF16)
            a.x = a.norm.dst = dst + (size_t)MAX_T * MAX_COLS;
        else if (a.part[0].w.form == RF_GPU_INT_256)
            a.norm.q256 = q256;
        else
            a.norm.q32 = q32;
    }
    if (keeps) a.kept = next_bytes(rf_gpu_kept_bytes(&queue, &a));
    rf_gpu_op_matmul(&queue, &a);
}

static void bench_product(const product *p, rf_dtype type, uint32_t T) {
    product_run r = {p, type, T, 0, false, false};
    double n_weights = 0;
    for (uint32_t i = 0; i < p->n_parts; i++) {
        r.bytes += layout_of(p, type, i).bytes;
        n_weights += (double)p->rows[i] * p->cols;
    }
    uint32_t n = (uint32_t)(((size_t)1 << 30) / r.bytes) + 1;
    if (n > 64) n = 64;
    if (T > 64) n = 4;
    double us = time_launches(launch_product, &r, n);
    printf("%-8s %-5s T %4u  %9.2f us  %7.0f GB/s  %7.1f TOP/s\n", p->name,
           rf_dtype_get(type)->name, T, us, (double)r.bytes / us * 1e-3,
           2 * n_weights * T / us * 1e-6);
    fflush(stdout);
}

/* Of the format named, or of some. */
static bool is_wanted(rf_dtype t, const char *only) {
    static const rf_dtype some[] = {RF_DT_Q4_K, RF_DT_Q6_K, RF_DT_Q8_0, RF_DT_Q4_0, RF_DT_BF16};
    if (*only) return !strcmp(only, rf_dtype_get(t)->name);
    for (size_t i = 0; i < RF_COUNT(some); i++)
        if (t == some[i]) return true;
    return false;
}

static void bench_products(const char *only) {
    static const uint32_t Ts[] = {1, 2, 4, 8, 16, 32, 64, 72, 96, 128, 192, 256, 512, 2048};
    for (rf_dtype t = 0; t < RF_DT_COUNT; t++)
        for (size_t i = 0; is_wanted(t, only) && i < RF_COUNT(Ts); i++)
            for (size_t p = 0; p < RF_COUNT(products); p++) {
                bool slow = !rf_dtype_get(t)->is_block && Ts[i] > 512 && !queue.fast_floats;
                bool large = Ts[i] > 64 && (products[p].rows[0] == model->n_vocab || slow);
                if (!large) bench_product(&products[p], t, Ts[i]);
            }
}

/* The rest ----------------------------------------------------------------------------------------*/

static void launch_norm(const void *what) {
    rf_gpu_norm_args a = norm_of(*(const uint32_t *)what);
    a.dst = dst;
    a.q256 = q256;
    rf_gpu_op_norm(&queue, &a);
}

static void launch_quant(const void *what) {
    rf_gpu_quant_args a = {
        .x = x, .q256 = q256, .n_rows = *(const uint32_t *)what, .cols = model->ff};
    rf_gpu_op_quant(&queue, &a);
}

typedef struct attend_run {
    uint32_t T, kv_len, n_seqs;
    uint32_t *pos, *row_seq, *lens, *table;
    void *cache;
    bool makes_heads;
} attend_run;

/* Queries, keys or values. */
static rf_gpu_heads heads_of(const attend_run *r, uint32_t i) {
    return (rf_gpu_heads){.x = x,
                          .dst = dst,
                          .pool = i ? r->cache : NULL,
                          .cos_sin = i < 2 ? x : NULL,
                          .n_heads = i ? model->n_kv_heads : model->n_heads,
                          .head_dim = model->head_dim,
                          .n_dims = model->head_dim,
                          .pool_type = RF_DT_F16};
}

static rf_gpu_batch batch_of(const attend_run *r) {
    return (rf_gpu_batch){.pos = r->pos,
                          .row_seq = r->row_seq,
                          .kv_len = r->lens,
                          .table = r->table,
                          .table_stride = r->kv_len / RF_KV_BLOCK};
}

static rf_gpu_heads_args all_heads(const attend_run *r) {
    rf_gpu_heads_args a = {.batch = batch_of(r), .n_parts = 3, .n_rows = r->T};
    for (uint32_t i = 0; i < 3; i++)
        a.part[i] = heads_of(r, i);
    return a;
}

static void launch_attend(const void *what) {
    const attend_run *r = what;
    size_t row = (size_t)model->n_kv_heads * model->head_dim * 2; /* a layer's keys, or values */
    size_t bytes = r->n_seqs * r->kv_len * row;
    rf_gpu_attend_args a = {.q = x,
                            .dst = x + MAX_T * 4096,
                            .k = next_bytes(bytes),
                            .v = next_bytes(bytes),
                            .batch = batch_of(r),
                            .n_rows = r->T,
                            .n_heads = model->n_heads,
                            .n_kv_heads = model->n_kv_heads,
                            .head_dim = model->head_dim,
                            .value_dim = model->head_dim,
                            .k_type = RF_DT_F16,
                            .v_type = RF_DT_F16,
                            .pattern = RF_ATTN_CAUSAL,
                            .scale = 0.088f,
                            .max_kv_len = r->kv_len,
                            .n_seqs = r->n_seqs,
                            .rows_alone = r->n_seqs == r->T,
                            .parts = dst,
                            .parts_bytes = (size_t)64 << 20};
    if (r->makes_heads) a.heads = all_heads(r);
    rf_gpu_op_attend(&queue, &a);
}

static void launch_heads(const void *what) {
    rf_gpu_heads_args a = all_heads(what);
    rf_gpu_op_heads(&queue, &a);
}

static uint32_t *upload_numbers(const uint32_t *from, size_t n) {
    uint32_t *p = take(n * sizeof *p);
    rf_gpu_upload(&queue, p, from, n * sizeof *p);
    rf_gpu_wait(&queue);
    return p;
}

/* The last T positions of one sequence, or T sequences of kv_len each. */
static attend_run attend_open(uint32_t T, uint32_t kv_len, bool one_sequence) {
    uint32_t n_blocks = kv_len / RF_KV_BLOCK;
    size_t n_table = (size_t)T * n_blocks;
    uint32_t *pos = rf_alloc(T, 4), *seq = rf_alloc(T, 4), *lens = rf_alloc(T, 4);
    uint32_t *table = rf_alloc(n_table, 4);
    for (uint32_t t = 0; t < T; t++) {
        pos[t] = one_sequence ? kv_len - T + t : kv_len - 1;
        seq[t] = one_sequence ? 0 : t;
        lens[t] = kv_len;
    }
    for (size_t i = 0; i < n_table; i++)
        table[i] = (uint32_t)i % (one_sequence ? n_blocks : T * n_blocks);
    attend_run r = {.T = T,
                    .kv_len = kv_len,
                    .n_seqs = one_sequence ? 1 : T,
                    .pos = upload_numbers(pos, T),
                    .row_seq = upload_numbers(seq, T),
                    .lens = upload_numbers(lens, T),
                    .table = upload_numbers(table, n_table),
                    .cache = pool};
    rf_free(pos);
    rf_free(seq);
    rf_free(lens);
    rf_free(table);
    return r;
}

static void attend_close(attend_run *r) {
    rf_gpu_free(&queue, r->pos);
    rf_gpu_free(&queue, r->row_seq);
    rf_gpu_free(&queue, r->lens);
    rf_gpu_free(&queue, r->table);
}

static void bench_attend(uint32_t T, uint32_t kv_len, bool one_sequence) {
    attend_run r = attend_open(T, kv_len, one_sequence);
    double us = time_launches(launch_attend, &r, 8);
    double bytes = (one_sequence ? 1.0 : T) * kv_len * model->n_kv_heads * model->head_dim * 2 * 2;
    printf("attend  T %4u, %6u keys %-8s %9.2f us  %7.0f GB/s\n", T, kv_len,
           one_sequence ? "shared" : "each", us, bytes / us * 1e-3);
    if (kv_len <= 4096) printf("heads   T %4u  %9.2f us\n", T, time_launches(launch_heads, &r, 16));
    fflush(stdout);
    attend_close(&r);
}

static void bench_norms(void) {
    static const uint32_t Ts[] = {1, 16, 64, 512, 2048};
    for (size_t i = 0; i < RF_COUNT(Ts); i++) {
        printf("norm+quant  T %4u  %9.2f us\n", Ts[i], time_launches(launch_norm, &Ts[i], 64));
        printf("quant       T %4u  %9.2f us\n", Ts[i], time_launches(launch_quant, &Ts[i], 64));
    }
}

static void bench_decode(void) {
    static const rf_dtype types[] = {RF_DT_Q4_K, RF_DT_Q6_K, RF_DT_Q8_0, RF_DT_BF16};
    static const uint32_t lengths[] = {32, 128, 256, 1024, 4096, 32768};
    static const uint32_t one = 1;
    for (size_t t = 0; t < RF_COUNT(types); t++)
        for (size_t p = 0; p < RF_COUNT(products); p++)
            bench_product(&products[p], types[t], 1);
    printf("norm+quant  %9.2f us\n", time_launches(launch_norm, &one, 64));
    printf("quant       %9.2f us\n", time_launches(launch_quant, &one, 64));
    for (size_t i = 0; i < RF_COUNT(lengths); i++)
        bench_attend(1, lengths[i], true);
}

static void bench_attention(void) {
    static const uint32_t Ts[] = {1, 16, 64}, lengths[] = {32, 128, 256, 1024, 4096, 32768};
    for (size_t t = 0; t < RF_COUNT(Ts); t++)
        for (size_t i = 0; i < RF_COUNT(lengths); i++)
            if (Ts[t] * lengths[i] <= 1 << 18) bench_attend(Ts[t], lengths[i], Ts[t] == 1);
    bench_attend(512, 512, true);
    bench_attend(512, 2048, true);
    bench_attend(2048, 2048, true);
    bench_attend(2048, 32768, true);
}

/* Layers ------------------------------------------------------------------------------------------*/

enum { N_LAYERS = 32 };

typedef struct step {
    rf_dtype type;
    uint32_t T;
    attend_run kv;
    const char *left_out; /* of a layer's kernels, or "" */
} step;

static void launch_part(const step *s, const char *name, void (*launch)(const void *),
                        const void *what) {
    if (strcmp(s->left_out, name) != 0) launch(what);
}

static void launch_layer(const step *s) {
    product_run r[4];
    for (uint32_t i = 0; i < 4; i++)
        r[i] = (product_run){&products[i], s->type,
                             s->T,         0,
                             i % 2 == 1,   i % 2 == 0 && strcmp(s->left_out, "norm") != 0};
    launch_part(s, "qkv", launch_product, &r[0]);
    attend_run kv = s->kv;
    kv.makes_heads = strcmp(s->left_out, "heads") != 0;
    launch_part(s, "attend", launch_attend, &kv);
    launch_part(s, "o", launch_product, &r[1]);
    launch_part(s, "gate+up", launch_product, &r[2]);
    launch_part(s, "down", launch_product, &r[3]);
}

static void launch_step(const void *what) {
    for (uint32_t layer = 0; layer < N_LAYERS; layer++)
        launch_layer(what);
}

static void bench_layers_of(rf_dtype type, uint32_t T) {
    static const char *const names[] = {"norm", "qkv", "heads", "attend", "o", "gate+up", "down"};
    step s = {type, T, attend_open(T, 256, T == 1), ""};
    (void)time_launches(launch_step, &s, 1); /* until clocks have risen */
    double all = time_launches(launch_step, &s, 1) / N_LAYERS;
    printf("%-5s T %2u a layer %9.2f us; less without", rf_dtype_get(type)->name, T, all);
    for (size_t k = 0; k < RF_COUNT(names); k++) {
        s.left_out = names[k];
        printf(" %s %.2f", names[k], all - time_launches(launch_step, &s, 1) / N_LAYERS);
    }
    printf("\n");
    fflush(stdout);
    attend_close(&s.kv);
}

static void bench_layers(const char *only) {
    static const rf_dtype types[] = {RF_DT_Q4_K, RF_DT_Q6_K, RF_DT_Q8_0, RF_DT_BF16};
    static const uint32_t Ts[] = {1, 16, 32, 64};
    for (size_t i = 0; i < RF_COUNT(types); i++)
        for (size_t t = 0; t < RF_COUNT(Ts); t++)
            if (!*only || !strcmp(only, rf_dtype_get(types[i])->name))
                bench_layers_of(types[i], Ts[t]);
}

/* Experts -----------------------------------------------------------------------------------------*/

enum { N_EXPERTS = 128, N_USED = 8, EXPERT_COLS = 768, EMBD = 2048 };

typedef struct mixture {
    rf_dtype type;
    uint32_t T;
    float *route, *chance; /* what is read: a route and scores by chance */
    float *made, *scores;  /* what is made */
    uint32_t *lists;
} mixture;

static rf_gpu_weight expert_weight(rf_dtype type, uint32_t planes, uint32_t rows, uint32_t cols) {
    rf_error e = {RF_OK, ""};
    rf_gpu_layout l;
    rf_tensor t = {.name = RF_STR("w"), .type = type, .cols = cols, .rows = rows, .planes = planes};
    stop_on(rf_gpu_layout_of(&l, &t, &e), &e);
    return rf_gpu_weight_at(&l, next_bytes(l.bytes));
}

/* With the norm before it. */
static void launch_scores(const void *what) {
    const mixture *m = what;
    float *normed = dst + (size_t)MAX_T * MAX_COLS;
    rf_gpu_matmul_args a = {.n_parts = 1, .n_rows = m->T, .x = normed};
    a.norm = (rf_gpu_norm_args){.dst = normed,
                                .x = x,
                                .w = (const float *)(const void *)pool,
                                .n_items = m->T,
                                .n = EMBD,
                                .kind = RF_GPU_RMS_NORM,
                                .eps = 1e-6f};
    if (rf_dtype_get(m->type)->view == RF_INT_32)
        a.norm.q32 = q32;
    else
        a.norm.q256 = q256;
    a.part[0] = (rf_gpu_product){.w = expert_weight(RF_DT_F32, 1, N_EXPERTS, EMBD),
                                 .dst = m->scores,
                                 .dst_stride = N_EXPERTS};
    rf_gpu_op_matmul(&queue, &a);
}

static rf_gpu_route_args route_of(const mixture *m) {
    return (rf_gpu_route_args){.dst = m->made,
                               .scores = m->chance,
                               .n_rows = m->T,
                               .n_experts = N_EXPERTS,
                               .n_used = N_USED,
                               .normalise = 1,
                               .scale = 1};
}

static void launch_lists(const void *what) {
    const mixture *m = what;
    rf_gpu_lists_args a = {m->route, m->lists, m->T, N_USED, N_EXPERTS};
    rf_gpu_op_lists(&queue, &a);
}

static rf_gpu_matmul_args experts_of(const mixture *m) {
    return (rf_gpu_matmul_args){.n_rows = m->T,
                                .mode = RF_GPU_MM_EXPERTS,
                                .route = m->route,
                                .n_used = N_USED,
                                .lists = m->lists,
                                .xq = rf_dtype_get(m->type)->view == RF_INT_32 ? q32 : q256};
}

static rf_gpu_choose_args gate_up_of(const mixture *m) {
    rf_gpu_choose_args a = {.matmul = experts_of(m), .route = route_of(m)};
    a.matmul.n_parts = 2;
    a.matmul.is_glu = 1;
    for (uint32_t i = 0; i < 2; i++)
        a.matmul.part[i] =
            (rf_gpu_product){.w = expert_weight(m->type, N_EXPERTS, EXPERT_COLS, EMBD),
                             .dst = dst,
                             .dst_stride = EXPERT_COLS};
    return a;
}

/* Nothing where blocks of gate+up choose. */
static void launch_route(const void *what) {
    const rf_gpu_choose_args a = gate_up_of(what);
    if (!rf_gpu_takes_along(&queue, &a)) rf_gpu_op_route(&queue, &a.route);
}

static void launch_gate_up(const void *what) {
    const rf_gpu_choose_args a = gate_up_of(what);
    rf_gpu_op_choose(&queue, &a);
}

static void launch_mixed(const void *what) {
    const mixture *m = what;
    rf_gpu_matmul_args a = experts_of(m);
    a.n_parts = 1;
    a.x = x;
    a.x_per_used = 1;
    a.mixed = dst + (size_t)MAX_T * N_USED * EMBD;
    a.mixed_add = x;
    a.part[0] = (rf_gpu_product){
        .w = expert_weight(m->type, N_EXPERTS, EMBD, EXPERT_COLS), .dst = dst, .dst_stride = EMBD};
    rf_gpu_op_matmul(&queue, &a);
}

static void launch_mixture(const void *what) {
    launch_scores(what);
    launch_route(what);
    launch_lists(what);
    launch_gate_up(what);
    launch_mixed(what);
}

/* Different experts for each row, by chance. */
static void random_route(mixture *m) {
    size_t n = (size_t)m->T * 2 * N_USED;
    float *route = rf_alloc(n, sizeof *route);
    uint64_t seed = 1;
    for (uint32_t t = 0; t < m->T; t++) {
        float *row = route + (size_t)t * 2 * N_USED;
        bool taken[N_EXPERTS] = {false};
        for (uint32_t i = 0; i < N_USED; i++) {
            uint32_t e;
            do {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                e = (uint32_t)(seed >> 57);
            } while (taken[e]);
            taken[e] = true;
            row[i] = 0.125f;
            row[N_USED + i] = (float)e;
        }
    }
    m->route = take(n * sizeof *route);
    rf_gpu_upload(&queue, m->route, route, n * sizeof *route);
    rf_gpu_wait(&queue);
    rf_free(route);
}

static void random_scores(mixture *m) {
    size_t n = (size_t)m->T * N_EXPERTS;
    float *scores = rf_alloc(n, sizeof *scores);
    uint64_t seed = 2;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        scores[i] = (float)(seed >> 40) * 0x1p-21f; /* up to 8 */
    }
    m->chance = take(n * sizeof *scores);
    rf_gpu_upload(&queue, m->chance, scores, n * sizeof *scores);
    rf_gpu_wait(&queue);
    rf_free(scores);
}

static void bench_mixture(rf_dtype type, uint32_t T) {
    mixture m = {.type = type, .T = T};
    random_route(&m);
    random_scores(&m);
    m.scores = take((size_t)T * N_EXPERTS * sizeof(float));
    m.made = take((size_t)T * 2 * N_USED * sizeof(float));
    m.lists = take(rf_gpu_lists_bytes(T, N_USED, N_EXPERTS));
    launch_lists(&m);
    const uint32_t n = T > 64 ? 4 : 24;
    (void)time_launches(launch_mixture, &m, n);
    printf("%-5s T %4u  all %9.2f us; norm+scores %.2f, route %.2f, lists %.2f, gate+up %.2f, "
           "down+mix "
           "%.2f\n",
           rf_dtype_get(type)->name, T, time_launches(launch_mixture, &m, n),
           time_launches(launch_scores, &m, n), time_launches(launch_route, &m, n),
           time_launches(launch_lists, &m, n), time_launches(launch_gate_up, &m, n),
           time_launches(launch_mixed, &m, n));
    fflush(stdout);
    rf_gpu_free(&queue, m.route);
    rf_gpu_free(&queue, m.chance);
    rf_gpu_free(&queue, m.made);
    rf_gpu_free(&queue, m.scores);
    rf_gpu_free(&queue, m.lists);
}

static void bench_experts(const char *only) {
    static const rf_dtype types[] = {RF_DT_Q4_K, RF_DT_Q6_K, RF_DT_Q8_0};
    static const uint32_t Ts[] = {1, 2, 4, 8, 16, 32, 64, 256, 512, 1024, 2048};
    for (size_t i = 0; i < RF_COUNT(types); i++)
        for (size_t t = 0; t < RF_COUNT(Ts); t++)
            if (!*only || !strcmp(only, rf_dtype_get(types[i])->name))
                bench_mixture(types[i], Ts[t]);
}

/* Rows of noise between -1 and 1, and the integers they become. */
static void make_activations(void) {
    size_t n = (size_t)MAX_T * MAX_COLS;
    float *noise = malloc(n * sizeof *noise);
    if (!noise) {
        fprintf(stderr, "no memory for %zu activations\n", n);
        exit(1);
    }
    uint32_t v = 1;
    for (size_t i = 0; i < n; i++) {
        v = v * 1664525 + 1013904223;
        noise[i] = (float)(int32_t)v * 0x1p-31f;
    }
    rf_gpu_quant_args a = {.x = x, .q32 = q32, .q256 = q256, .n_rows = MAX_T, .cols = MAX_COLS};
    rf_gpu_upload(&queue, x, noise, n * sizeof *noise);
    rf_gpu_op_quant(&queue, &a);
    rf_gpu_wait(&queue);
    stop_on_queue();
    free(noise);
}

int main(int argc, char **argv) {
    const char *only = argc > 1 ? argv[1] : "", *type = argc > 2 ? argv[2] : "";
    for (size_t i = 0; i < RF_COUNT(shapes) && argc > 3; i++)
        if (!strcmp(argv[3], shapes[i].name)) model = &shapes[i];
    make_products();
    const rf_gpu_driver *driver;
    rf_error e = {RF_OK, ""};
    stop_on(rf_gpu_driver_get(&driver, &e), &e);
    stop_on(rf_gpu_open(&queue, driver, 0, &e), &e);
    stop_on(rf_gpu_code_load(&queue, &e), &e);
    for (int i = 4; i < argc; i++) {
        queue.fast_floats = queue.fast_floats || strcmp(argv[i], "fast") == 0;
        keeps = keeps || strcmp(argv[i], "kept") == 0;
    }
    printf("%s, %s, kernels for %s, driver %d\n", queue.info.name, queue.info.arch, queue.target,
           driver->version);
    pool_bytes = (size_t)5 << 30;
    pool = take(pool_bytes);
    x = take((size_t)MAX_T * MAX_COLS * sizeof *x);
    dst = take((size_t)MAX_T * MAX_ROWS * sizeof *dst);
    room = take(ROOM_BYTES);
    q32 = (rf_gpu_quant){take(MAX_T * MAX_COLS), take(MAX_T * MAX_COLS / 8),
                         take(MAX_T * MAX_COLS / 8)};
    q256 = (rf_gpu_quant){take(MAX_T * MAX_COLS), take(MAX_T * MAX_COLS / 64),
                          take(MAX_T * MAX_COLS / 4)};
    make_activations();
    if (!*only || !strcmp(only, "products")) bench_products(type);
    if (!*only || !strcmp(only, "norms")) bench_norms();
    if (!*only || !strcmp(only, "attention")) bench_attention();
    if (!strcmp(only, "decode")) bench_decode();
    if (!*only || !strcmp(only, "layers")) bench_layers(type);
    if (!*only || !strcmp(only, "experts")) bench_experts(type);
    rf_gpu_close(&queue);
    return 0;
}
