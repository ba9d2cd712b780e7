/* activations.c - peeking at the inputs of MATMUL, HEAD_MATMUL and EXPERTS steps.
 *
 * Neighbouring steps that share their input get it from one peek. */
#include "engine/activations.h"

#include <string.h>

struct rf_lens {
    const rf_backend_ops *ops;
    rf_exec *exec;
    const rf_plan *plan;
    float *x;                /* [max_rows][widest input of a product]: all that went into a step */
    float *part;             /* the same size: those rows of it that met one matrix */
    float *route;            /* [max_rows][widest route] */
    rf_val seen, seen_route; /* what x and route hold, of this run; 0: nothing */
};

static bool is_product(const rf_step *step) {
    return step->op == RF_OP_MATMUL || step->op == RF_OP_HEAD_MATMUL || step->op == RF_OP_EXPERTS;
}

static size_t wider(size_t a, size_t b) { return a > b ? a : b; }

rf_status rf_lens_open(rf_lens **out, const rf_backend_ops *ops, rf_exec *exec, const rf_plan *plan,
                       size_t max_rows, rf_error *e) {
    size_t n_in = 1, n_route = 1, n_floats = SIZE_MAX, n_route_floats = SIZE_MAX;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const rf_step *step = &plan->steps[i];
        if (!is_product(step)) continue;
        n_in = wider(n_in, plan->vals[step->a].cols);
        if (step->op == RF_OP_EXPERTS) n_route = wider(n_route, plan->vals[step->b].cols);
    }
    *out = NULL;
    rf_lens *s = rf_alloc(1, sizeof *s);
    if (!s || !rf_mul_ok(n_in, max_rows, &n_floats) ||
        !rf_mul_ok(n_route, max_rows, &n_route_floats)) {
        rf_free(s);
        return rf_fail_nomem(e, n_floats);
    }
    *s = (rf_lens){.ops = ops,
                   .exec = exec,
                   .plan = plan,
                   .x = rf_alloc(n_floats, sizeof *s->x),
                   .part = rf_alloc(n_floats, sizeof *s->part),
                   .route = rf_alloc(n_route_floats, sizeof *s->route)};
    if (!s->x || !s->part || !s->route) {
        rf_lens_free(s);
        return rf_fail_nomem(e, n_floats * sizeof *s->x);
    }
    *out = s;
    return RF_OK;
}

void rf_lens_free(rf_lens *s) {
    if (!s) return;
    rf_free(s->x);
    rf_free(s->part);
    rf_free(s->route);
    rf_free(s);
}

/* One step's sight: a row of x is n_inputs vectors of w's columns side by side. */
typedef struct sight {
    rf_lens *s;
    const rf_tensor *w;
    size_t n, n_inputs;
    rf_activation_fn sink;
    void *user;
} sight;

static bool give(const sight *v, uint32_t matrix, size_t n, const float *x) {
    const rf_activation a = {.weight = v->w->name.p,
                             .weight_len = v->w->name.len,
                             .matrix = matrix,
                             .n_matrices = v->w->planes,
                             .n = n,
                             .cols = v->w->cols,
                             .x = x};
    return v->sink(v->user, &a);
}

/* Copies the ith input of row t behind the n rows of part. */
static void pick(const sight *v, size_t t, size_t i, size_t n) {
    size_t cols = v->w->cols;
    memcpy(v->s->part + n * cols, v->s->x + (t * v->n_inputs + i) * cols, cols * sizeof(float));
}

/* Matrix h meets the hth input of every row. */
static bool give_heads(const sight *v) {
    for (uint32_t h = 0; h < v->w->planes; h++) {
        for (size_t t = 0; t < v->n; t++)
            pick(v, t, h, t);
        if (!give(v, h, v->n, v->s->part)) return false;
    }
    return true;
}

/* Matrix m meets the rows whose route names it, each at most once. */
static bool give_experts(const sight *v, uint32_t n_used) {
    for (uint32_t m = 0; m < v->w->planes; m++) {
        size_t n = 0;
        for (size_t t = 0; t < v->n; t++) {
            const float *expert = v->s->route + t * 2 * n_used + n_used; /* [n_used] */
            for (uint32_t i = 0; i < n_used; i++)
                if ((uint32_t)expert[i] == m) pick(v, t, v->n_inputs > 1 ? i : 0, n++);
        }
        if (n > 0 && !give(v, m, n, v->s->part)) return false;
    }
    return true;
}

static rf_status peek(rf_lens *s, rf_val value, rf_val *seen, float *out, size_t n, rf_error *e) {
    if (*seen == value) return RF_OK;
    rf_status status = s->ops->peek(s->exec, value, out, n * s->plan->vals[value].cols);
    if (status != RF_OK) return rf_fail(e, status, "the backend cannot show its activations");
    *seen = value;
    return RF_OK;
}

rf_status rf_lens_show(rf_lens *s, size_t n, rf_activation_fn sink, void *user, rf_error *e) {
    s->seen = s->seen_route = 0;
    for (uint32_t i = 0; i < s->plan->n_steps; i++) {
        const rf_step *step = &s->plan->steps[i];
        if (!is_product(step)) continue;
        const rf_tensor *w = s->plan->vals[step->w].weight;
        const sight v = {s, w, n, s->plan->vals[step->a].cols / w->cols, sink, user};
        RF_TRY(peek(s, step->a, &s->seen, s->x, n, e));
        if (step->op == RF_OP_EXPERTS) RF_TRY(peek(s, step->b, &s->seen_route, s->route, n, e));
        bool go_on = step->op == RF_OP_EXPERTS       ? give_experts(&v, step->router->n_used)
                     : step->op == RF_OP_HEAD_MATMUL ? give_heads(&v)
                                                     : give(&v, 0, n, s->x);
        if (!go_on) return rf_fail(e, RF_ECANCELLED, "stopped");
    }
    return RF_OK;
}
