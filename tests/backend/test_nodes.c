/* test_nodes.c - who multiplies what: a thread that is held up delays nobody, and the rows of a matrix that
 * a node's threads take first are always the same.
 *
 * A kernel table that watches the real one's products knows a thread by its scratch. */
#include <stdatomic.h>
#include <time.h>

#include "backend/cpu/exec.h"
#include "backend/session.h"

enum { N_TOKENS = 24, MAX_TASKS = 200, PATIENCE_MS = 20000 };

static rf_exec *watched;
static const rf_cpu_kernels *real;
static _Atomic uint32_t n_done[MAX_TASKS];    /* columns of the task's matrices */
static _Atomic uint32_t n_arrived[MAX_TASKS]; /* threads in their first piece */
static bool has_come[MAX_TASKS][4];           /* each thread its own */
static int late;                              /* the thread that is held up, or none: -1 */
static _Atomic bool was_late, gave_up, went_astray;

/* The task and the product that a multiplication is part of, and its first row within a plane. */
static uint32_t find_task(const rf_mm *mm, uint32_t begin, const rf_cpu_product **product,
                          uint32_t *row) {
    for (uint32_t i = 0; i < watched->n_tasks; i++)
        for (uint32_t k = 0; k < watched->tasks[i].n_products; k++) {
            const rf_cpu_product *m = &watched->tasks[i].product[k];
            const uint8_t *data = m->w->data, *at = mm->w->data;
            if (at < data || at >= data + m->w->row_bytes * m->w->rows * m->w->planes) continue;
            *product = m;
            *row = (uint32_t)(((size_t)(at - data) / m->w->row_bytes + begin) % m->w->rows);
            return i;
        }
    abort(); /* a product of no task */
}

static int thread_of(const void *scratch) {
    int i = 0;
    while (watched->thread[i].mm != scratch)
        i++;
    return i;
}

static void wait_for(_Atomic uint32_t *count, uint32_t n) {
    for (int ms = 0; atomic_load(count) < n; ms++) {
        const struct timespec t = {0, 1000000};
        nanosleep(&t, NULL);
        if (ms == PATIENCE_MS || atomic_load(&gave_up)) {
            atomic_store(&gave_up, true);
            return;
        }
    }
}

/* One thread stays in its first piece until all others of the task are done. */
static void hold_up(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    const rf_cpu_product *m;
    uint32_t row, task = find_task(mm, begin, &m, &row), total = 0;
    real->matmul(mm, begin, end, scratch);
    atomic_fetch_add(&n_done[task], end - begin);
    if (thread_of(scratch) != late || atomic_exchange(&was_late, true)) return;
    for (uint32_t k = 0; k < watched->tasks[task].n_products; k++)
        total += watched->tasks[task].product[k].w->rows;
    wait_for(&n_done[task], total - (m->up ? end - begin : 0)); /* its own other half */
}

/* Every thread's first piece of a task is of its node's rows. */
static void come_together(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    const rf_spread *s = rf_pool_spread(watched->backend->pool);
    const rf_cpu_product *m;
    uint32_t row, task = find_task(mm, begin, &m, &row);
    int ith = thread_of(scratch);
    if (!has_come[task][ith] && rf_cpu_node_row(s, 1, m->w->rows)) { /* a few rows are one node's */
        has_come[task][ith] = true;
        atomic_fetch_add(&n_arrived[task], 1);
        wait_for(&n_arrived[task], 2); /* nobody takes another's pieces before */
        if (row < rf_cpu_node_row(s, ith, m->w->rows) ||
            row + (end - begin) > rf_cpu_node_row(s, ith + 1, m->w->rows))
            atomic_store(&went_astray, true);
    }
    real->matmul(mm, begin, end, scratch);
}

static void watch(session *s, rf_cpu_kernels *table,
                  void (*matmul)(const rf_mm *, uint32_t, uint32_t, void *)) {
    watched = s->x;
    real = s->x->kernels;
    *table = *real;
    table->matmul = matmul;
    s->x->kernels = table;
    assert_true(watched->n_tasks <= MAX_TASKS);
    atomic_store(&gave_up, false);
    atomic_store(&went_astray, false);
}

static void forget(void) {
    memset(has_come, 0, sizeof has_come);
    atomic_store(&was_late, false);
    for (int i = 0; i < MAX_TASKS; i++) {
        atomic_store(&n_done[i], 0);
        atomic_store(&n_arrived[i], 0);
    }
}

/* Tokens [0, n) of a sequence, at once; the logits of all rows, until the next run. */
static const float *run(session *s, const int32_t *token, uint32_t n) {
    sequence q = {.token = token, .n = n};
    batch b;
    batch_clear(&b);
    batch_add(&b, &q, n);
    batch_want_all(&b);
    forget();
    return batch_run(s, &b);
}

static void check_late(const char *model, int n_threads, const rf_nodes *nodes) {
    rf_model *m = open_model(rf_test_data(model));
    session_opts o = session_defaults();
    o.n_threads = n_threads;
    o.nodes = nodes;
    session s = open_session(m, &o);
    int32_t token[N_TOKENS];
    uint64_t seed = 5;
    random_tokens(token, N_TOKENS, m->n_vocab, &seed);
    float *want = logits_of(&s, token, N_TOKENS, N_TOKENS);
    rf_cpu_kernels table;
    int n_late = 0;
    watch(&s, &table, hold_up);
    for (uint32_t n = 1; n <= N_TOKENS; n += N_TOKENS - 1)
        for (late = 0; late < n_threads; late++) {
            const float *got = run(&s, token, n);
            assert_false(gave_up);
            n_late += was_late;
            assert_memory_equal(got, want, sizeof *got * n * m->n_vocab);
        }
    assert_true(n_late > 0); /* others may be done before a thread has begun */
    rf_free(want);
    close_session(&s);
    rf_model_close(m);
}

static void a_late_thread_delays_nobody(void **state) {
    (void)state;
    const rf_nodes two = nodes_in_turn(2);
    check_late("models/qwen3.gguf", 2, NULL);
    check_late("models/qwen3.gguf", 3, NULL);
    check_late("models/qwen3.gguf", 4, &two); /* thieves of another node too */
    check_late("models/qwen3.gguf", 2, &two);
}

static void nodes_keep_their_rows(void **state) {
    (void)state;
    static const char *const models[] = {"models/qwen3.gguf", "models/qwen3moe.gguf"};
    const rf_nodes two = nodes_in_turn(2);
    for (size_t i = 0; i < RF_COUNT(models); i++) {
        rf_model *m = open_model(rf_test_data(models[i]));
        session_opts o = session_defaults();
        o.nodes = &two;
        session s = open_session(m, &o);
        int32_t token[N_TOKENS];
        uint64_t seed = 6;
        char text[80];
        random_tokens(token, N_TOKENS, m->n_vocab, &seed);
        rf_cpu_ops.describe(s.b, text, sizeof text);
        assert_non_null(strstr(text, "2 threads on 2 nodes"));
        rf_cpu_kernels table;
        watch(&s, &table, come_together);
        for (uint32_t n = 1; n <= N_TOKENS; n++) {
            (void)run(&s, token, n);
            assert_false(gave_up);
            assert_false(went_astray);
        }
        close_session(&s);
        rf_model_close(m);
    }
}

/* Nodes share all rows of any matrix, in multiples of 16, in proportion to their threads. */
static void rows_are_shared_out(void **state) {
    (void)state;
    static const rf_spread spreads[] = {{1, {0, 7}, {0}},
                                        {2, {0, 8, 16}, {0, 1}},
                                        {2, {0, 12, 16}, {0, 1}},
                                        {3, {0, 1, 2, 3}, {0, 2, 3}}};
    for (size_t k = 0; k < RF_COUNT(spreads); k++) {
        const rf_spread *s = &spreads[k];
        for (uint32_t rows = 1; rows < 3000; rows = rows < 70 ? rows + 1 : rows * 3 / 2) {
            assert_int_equal(rf_cpu_node_row(s, 0, rows), 0);
            assert_int_equal(rf_cpu_node_row(s, s->n, rows), rows);
            for (int i = 1; i < s->n; i++) {
                uint32_t row = rf_cpu_node_row(s, i, rows);
                uint32_t exact = rows * (uint32_t)s->first[i] / (uint32_t)s->first[s->n];
                assert_int_equal(row % 16, 0);
                assert_true(row <= exact && exact < row + 16);
            }
        }
    }
    assert_int_equal(rf_cpu_node_row(&spreads[1], 1, 4096), 2048);
    assert_int_equal(rf_cpu_node_row(&spreads[2], 1, 4096), 3072);
    assert_int_equal(rf_cpu_node_row(&spreads[1], 1, UINT32_MAX), (1u << 31) - 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_thread_delays_nobody),
        cmocka_unit_test(nodes_keep_their_rows),
        cmocka_unit_test(rows_are_shared_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
