/* test_ops.c - every op of both backends against formulas written out here.
 *
 * Random plans run ragged batches; each value is peeked at and compared with what its op's formula
 * gives, in double and with libm, for the operands of that same backend.  So each op is judged by
 * itself, and nothing of one backend's code is used to judge the other.
 * RF_TEST_SMALL leaves out the reference backend, which is plain C.
 * req: C-08, B-04, B-12, B-32, B-36, B-38, B-69 */
#include <stdlib.h>

#include "backend/odd.h"

enum { SEQS = 3, STEPS = 2, CTX = 64, MAX_COLS = 1024, MAX_KEY = 1024 };

static const uint32_t parts[STEPS][SEQS] = {{9, 1, 20}, {1, 30, 2}};

typedef struct world {
    session s;
    bool is_cpu;
    batch b;
    sequence q[SEQS];
    uint32_t seq[SESSION_ROWS], kv_len[SESSION_ROWS];
    float *keys[ODD_LAYERS],
        *values[ODD_LAYERS]; /* [SEQS][CTX][MAX_KEY] that KV_PUT must have kept */
    float **inputs;          /* [n_steps] [SEQS][CTX][MAX_KEY] rows of a, of convolutions */
    double **states;         /* [n_steps] [SEQS][n_heads][head_dim][value_dim] of heads */
    const rf_step *step;     /* being judged */
    uint32_t a_cols, b_cols, cols;
    uint32_t seen[RF_OP_COUNT];
} world;

static float *peek(const world *w, rf_val v, uint32_t *cols) {
    *cols = 0;
    if (!v) return NULL;
    const rf_value *val = &w->s.p->vals[v];
    *cols = val->cols;
    size_t n = (size_t)(val->per_output ? w->b.b.n_outputs : w->b.b.n_tokens) * val->cols;
    float *out = (float *)rf_alloc(n, sizeof *out);
    assert_non_null(out);
    assert_int_equal(w->s.ops->peek(w->s.x, v, out, n), RF_OK);
    return out;
}

static const uint8_t *decoded_row; /* what weight_at decoded last */

/* Element i of row r of plane p of a weight. */
static double weight_at(const rf_tensor *w, uint32_t p, uint32_t r, uint32_t i) {
    static float row[MAX_COLS];
    const uint8_t *src = (const uint8_t *)w->data + ((size_t)p * w->rows + r) * w->row_bytes;
    assert_true(w->cols <= MAX_COLS);
    if (src != decoded_row) rf_dtype_get(w->type)->decode(src, row, w->cols);
    decoded_row = src;
    return (double)row[i];
}

static const rf_tensor *weight_of(const world *w, rf_val v) {
    return v ? w->s.p->vals[v].weight : NULL;
}

static void near(const world *w, double got, double want, double limit) {
    if (fabs(got - want) <= limit) return;
    rf_buf text = {0};
    rf_plan_print(w->s.p, &text);
    print_message("%s", text.p);
    rf_buf_free(&text);
    fail_msg("%s: step %u, %s is %.9g, expected %.9g within %g", w->s.ops->name,
             (unsigned)(w->step - w->s.p->steps), rf_op_name(w->step->op), got, want, limit);
}

/* w[plane] in + bias[bias_row].  Floats nearly exact; the CPU rounds inputs of integer formats to 8
 * bits, an error of up to 1/254 of the largest each, of random sign. */
static void check_product(const world *w, uint32_t plane, uint32_t bias_row, const float *in,
                          const float *out) {
    const rf_tensor *m = weight_of(w, w->step->w), *bias = weight_of(w, w->step->bias);
    bool rounds = w->is_cpu && rf_dtype_get(m->type)->view != RF_INT_NONE;
    for (uint32_t r = 0; r < m->rows; r++) {
        double sum = 0, squares = 0, top = 0;
        for (uint32_t i = 0; i < m->cols; i++) {
            double c = weight_at(m, plane, r, i);
            sum += c * (double)in[i];
            squares += c * c;
            top = fmax(top, fabs((double)in[i]));
        }
        if (bias) sum += weight_at(bias, 0, bias_row, r);
        double limit = 2e-6 * (1 + sqrt(squares) * top * sqrt(m->cols));
        if (rounds) limit += sqrt(squares) * top / 254 * 4;
        near(w, (double)out[r], sum, limit);
    }
}

static void check_matmul(const world *w, uint32_t t, const float *a, const float *b,
                         const float *d) {
    (void)t, (void)b;
    check_product(w, 0, 0, a, d);
}

static void check_head_matmul(const world *w, uint32_t t, const float *a, const float *b,
                              const float *d) {
    const rf_tensor *m = weight_of(w, w->step->w);
    (void)t, (void)b;
    for (uint32_t h = 0; h < m->planes; h++)
        check_product(w, h, 0, a + h * m->cols, d + h * m->rows);
}

static void check_experts(const world *w, uint32_t t, const float *a, const float *b,
                          const float *d) {
    const rf_tensor *m = weight_of(w, w->step->w);
    uint32_t n = w->step->router->n_used;
    (void)t;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t e = (uint32_t)b[n + i];
        check_product(w, e, e, w->a_cols == m->cols ? a : a + i * m->cols, d + i * m->rows);
    }
}

static void check_norm(const world *w, uint32_t t, const float *a, const float *b, const float *d) {
    const rf_step *s = w->step;
    const rf_tensor *g = weight_of(w, s->w), *shift = weight_of(w, s->bias);
    uint32_t n = s->head_dim;
    (void)t, (void)b;
    for (uint32_t h = 0; h < s->n_heads; h++, a += n, d += n) {
        double mean = 0, var = 0, top = 0;
        for (uint32_t i = 0; i < n && s->op == RF_OP_LAYER_NORM; i++)
            mean += (double)a[i] / n;
        for (uint32_t i = 0; i < n; i++) {
            var += pow((double)a[i] - mean, 2) / n;
            top = fmax(top, fabs((double)a[i]));
        }
        for (uint32_t i = 0; i < n; i++) {
            double want = ((double)a[i] - mean) / sqrt(var + 1e-5);
            want = want * (g ? weight_at(g, 0, 0, i) : 1);
            want += shift ? weight_at(shift, 0, 0, i) : 0;
            near(w, (double)d[i], want, 4e-6 * (1 + top / sqrt(var + 1e-5)));
        }
    }
}

static void check_embed(const world *w, uint32_t t, const float *a, const float *b,
                        const float *d) {
    uint32_t from[] = {(uint32_t)w->b.token[t], w->b.pos[t], 0};
    (void)a, (void)b;
    for (uint32_t i = 0; i < w->cols; i++)
        near(w, (double)d[i], weight_at(weight_of(w, w->step->w), 0, from[w->step->source], i), 0);
}

/* By the rotation's own definition: x0 + i x1 multiplied by e^(i pos f). */
static void check_rope(const world *w, uint32_t t, const float *a, const float *b, const float *d) {
    const rf_step *s = w->step;
    uint32_t n = s->rope->n_dims;
    bool norm = s->rope->kind == RF_ROPE_NORM;
    (void)b;
    for (uint32_t h = 0; h < s->n_heads; h++, a += s->head_dim, d += s->head_dim) {
        for (uint32_t i = 0; i < n / 2; i++) {
            uint32_t i0 = norm ? 2 * i : i, i1 = norm ? i0 + 1 : i0 + n / 2;
            double x0 = (double)a[i0], x1 = (double)a[i1];
            double angle = w->b.pos[t] * s->rope->inv_freq[i] + atan2(x1, x0);
            double size = hypot(x0, x1) * (double)s->rope->magnitude;
            near(w, (double)d[i0], size * cos(angle), 1e-6 * (1 + size));
            near(w, (double)d[i1], size * sin(angle), 1e-6 * (1 + size));
        }
        for (uint32_t i = n; i < s->head_dim; i++)
            assert_true(d[i] == a[i]);
    }
}

static double act_of(rf_act act, double x) {
    const double pi = acos(-1);
    double all[] = {x / (1 + exp(-x)),
                    x * erfc(-x / sqrt(2)) / 2,
                    x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x))) / 2,
                    fmax(x, 0),
                    fmax(x, 0) * fmax(x, 0),
                    1 / (1 + exp(-x))};
    return all[act];
}

static void check_element(const world *w, uint32_t t, const float *a, const float *b,
                          const float *d) {
    const rf_step *s = w->step;
    (void)t;
    for (uint32_t i = 0; i < w->cols; i++) {
        double x = (double)a[i], y = b ? (double)b[i * w->b_cols / w->cols] : 0, want = x * y;
        if (s->op == RF_OP_ADD) want = x + y;
        if (s->op == RF_OP_SCALE) want = x * (double)s->scale;
        if (s->op == RF_OP_SOFTCAP) want = (double)s->softcap * tanh(x / (double)s->softcap);
        if (s->op == RF_OP_ACT) want = act_of(s->act, x);
        if (s->op == RF_OP_GLU && s->act != RF_ACT_SWIGLU_OAI) want = act_of(s->act, x) * y;
        if (s->op == RF_OP_GLU && s->act == RF_ACT_SWIGLU_OAI)
            want = fmin(x, 7) / (1 + exp(-1.702 * fmin(x, 7))) * (fmin(fmax(y, -7), 7) + 1);
        near(w, (double)d[i], want, 1e-6 * (1 + fabs(want) + fabs(x) * (1 + fabs(y))));
    }
}

static void check_slice(const world *w, uint32_t t, const float *a, const float *b,
                        const float *d) {
    uint32_t n = w->cols / w->step->n_heads;
    (void)t, (void)b;
    for (uint32_t c = 0; c < w->cols; c++)
        assert_true(d[c] == a[c / n * w->step->head_dim + w->step->first + c % n]);
}

static void check_concat(const world *w, uint32_t t, const float *a, const float *b,
                         const float *d) {
    uint32_t n_a = w->step->head_dim, n = w->cols / w->step->n_heads, n_b = n - n_a;
    bool one = w->step->n_kv_heads == 1;
    (void)t;
    for (uint32_t c = 0; c < w->cols; c++) {
        uint32_t h = c / n, i = c % n;
        assert_true(d[c] == (i < n_a ? a[h * n_a + i] : b[(one ? 0 : h * n_b) + i - n_a]));
    }
}

static void check_mix(const world *w, uint32_t t, const float *a, const float *b, const float *d) {
    (void)t;
    for (uint32_t c = 0; c < w->cols; c++) {
        double want = 0, size = 0;
        for (uint32_t i = 0; i < w->step->router->n_used; i++) {
            double part = (double)b[i] * (double)a[i * w->cols + c];
            want += part;
            size += fabs(part);
        }
        near(w, (double)d[c], want, 1e-6 * (1 + size));
    }
}

static int falling(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The claims of groups and which of them may, and which must, be open: those within a hair of the
 * last place may fall either way. */
static void open_groups(const rf_router *r, const double *choice, bool *may, bool *must) {
    double claim[RF_MAX_EXPERTS], sorted[RF_MAX_EXPERTS], group[RF_MAX_EXPERTS];
    uint32_t n_groups = r->n_groups > 1 ? r->n_groups : 1, n = r->n_experts / n_groups;
    uint32_t n_open = r->n_groups > 1 ? r->n_groups_used : 1;
    for (uint32_t g = 0; g < n_groups; g++) {
        memcpy(group, choice + g * n, n * sizeof *group);
        qsort(group, n, sizeof *group, falling);
        claim[g] = group[0] + (r->select_bias && n > 1 ? group[1] : 0);
    }
    memcpy(sorted, claim, n_groups * sizeof *sorted);
    qsort(sorted, n_groups, sizeof *sorted, falling);
    for (uint32_t e = 0; e < r->n_experts; e++) {
        may[e] = claim[e / n] >= sorted[n_open - 1] - 1e-5;
        must[e] = n_open == n_groups || claim[e / n] > sorted[n_open] + 1e-5;
    }
}

/* The experts are right when none of the others would have been better, the weights when they follow
 * from the experts. */
static void check_route(const world *w, uint32_t t, const float *a, const float *b,
                        const float *d) {
    const rf_router *r = w->step->router;
    double p[RF_MAX_EXPERTS], choice[RF_MAX_EXPERTS], weight[RF_MAX_EXPERTS_USED], sum = 0, all = 0;
    bool may[RF_MAX_EXPERTS], must[RF_MAX_EXPERTS], taken[RF_MAX_EXPERTS] = {false};
    (void)t, (void)b;
    for (uint32_t e = 0; e < r->n_experts; e++)
        all += exp((double)a[e]);
    for (uint32_t e = 0; e < r->n_experts; e++) {
        double x = (double)a[e];
        p[e] = r->kind == RF_ROUTER_SOFTMAX   ? exp(x) / all
               : r->kind == RF_ROUTER_SIGMOID ? 1 / (1 + exp(-x))
                                              : x;
        choice[e] = p[e] + (r->select_bias ? (double)r->select_bias[e] : 0);
    }
    open_groups(r, choice, may, must);
    for (uint32_t i = 0; i < r->n_used; i++) {
        uint32_t e = (uint32_t)d[r->n_used + i];
        assert_true(e < r->n_experts && may[e] && !taken[e]);
        taken[e] = true;
        for (uint32_t o = 0; o < r->n_experts; o++)
            assert_true(taken[o] || !must[o] || choice[o] <= choice[e] + 1e-5);
        weight[i] = r->kind == RF_ROUTER_SOFTMAX_TOPK ? exp(p[e]) : p[e];
        sum += weight[i];
    }
    bool divided = r->normalise || r->kind == RF_ROUTER_SOFTMAX_TOPK;
    for (uint32_t i = 0; i < r->n_used; i++)
        near(w, (double)d[i], weight[i] / (divided ? sum : 1) * (double)r->scale, 1e-5);
}

static float *kept_at(float *all, uint32_t seq, uint32_t pos) {
    return all + ((size_t)seq * CTX + pos) * MAX_KEY;
}

static void keep_kv(world *w, uint32_t t, const float *a, const float *b) {
    const rf_step *s = w->step;
    uint32_t n_v = s->n_kv_heads * s->value_dim;
    float *k = kept_at(w->keys[s->layer], w->seq[t], w->b.pos[t]);
    float *v = kept_at(w->values[s->layer], w->seq[t], w->b.pos[t]);
    assert_true(w->a_cols <= MAX_KEY && n_v <= MAX_KEY);
    memcpy(k, a, w->a_cols * sizeof *k);
    for (uint32_t c = 0; c < n_v; c++)
        v[c] = b ? b[c] : a[c / s->value_dim * s->head_dim + c % s->value_dim];
}

static bool sees(const rf_attn_pattern *a, long p, long j) {
    long d = p - j, window = (long)a->window;
    if (a->kind == RF_ATTN_BIDIRECTIONAL) return true;
    if (a->kind == RF_ATTN_LOCAL_BOTH) return labs(d) <= window / 2;
    if (a->kind == RF_ATTN_LOCAL) return d >= 0 && d < window;
    if (a->kind == RF_ATTN_GLOBAL_LOCAL) return d >= 0 && (d < window || j < (long)a->n_global);
    return d >= 0;
}

static void check_attend(const world *w, uint32_t t, const float *a, const float *b,
                         const float *d) {
    const rf_step *s = w->step;
    (void)b;
    for (uint32_t h = 0; h < s->n_heads; h++) {
        uint32_t kv = h / (s->n_heads / s->n_kv_heads);
        double p[CTX] = {0}, sum = s->w ? exp(weight_at(weight_of(w, s->w), 0, 0, h)) : 0;
        for (uint32_t j = 0; j < w->kv_len[t]; j++) {
            if (!sees(&s->pattern, w->b.pos[t], j)) continue;
            const float *k = kept_at(w->keys[s->layer], w->seq[t], j) + kv * s->head_dim;
            for (uint32_t i = 0; i < s->head_dim; i++)
                p[j] += (double)a[h * s->head_dim + i] * (double)k[i];
            p[j] *= (double)s->scale;
            if (s->softcap > 0) p[j] = (double)s->softcap * tanh(p[j] / (double)s->softcap);
            sum += p[j] = exp(p[j]);
        }
        for (uint32_t i = 0; i < s->value_dim; i++) {
            double want = 0, size = 0;
            for (uint32_t j = 0; j < w->kv_len[t]; j++) {
                const float *v = kept_at(w->values[s->layer], w->seq[t], j) + kv * s->value_dim;
                want += p[j] / sum * (double)v[i];
                size += p[j] / sum * fabs((double)v[i]);
            }
            near(w, (double)d[h * s->value_dim + i], want, 1e-5 * (1 + size));
        }
    }
}

/* Keeps row t of a for those behind it. */
static float *keep_input(const world *w, uint32_t t, const float *a) {
    float **all = &w->inputs[w->step - w->s.p->steps];
    if (!*all) *all = (float *)rf_alloc((size_t)SEQS * CTX * MAX_KEY, sizeof **all);
    assert_true(*all && w->a_cols <= MAX_KEY);
    memcpy(kept_at(*all, w->seq[t], w->b.pos[t]), a, w->a_cols * sizeof *a);
    return *all;
}

static void check_conv(const world *w, uint32_t t, const float *a, const float *b, const float *d) {
    const rf_tensor *m = weight_of(w, w->step->w), *bias = weight_of(w, w->step->bias);
    float *all = keep_input(w, t, a);
    (void)b;
    for (uint32_t c = 0; c < w->cols; c++) {
        double want = 0, size = 0;
        for (uint32_t back = 0; back < m->cols && back <= w->b.pos[t]; back++) {
            double x = (double)kept_at(all, w->seq[t], w->b.pos[t] - back)[c];
            want += weight_at(m, 0, c, m->cols - 1 - back) * x;
            size += fabs(x);
        }
        if (bias) want += weight_at(bias, 0, 0, c);
        near(w, (double)d[c], want, 2e-6 * (1 + size));
    }
}

static double length_of(const float *x, uint32_t n) {
    double sum = 1e-6;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* S[i][c] with one token of one head added; what it gives is compared. */
static void check_delta_head(const world *w, double *S, const float *q, const float *k,
                             const float *v, double decay, double beta, const float *d) {
    uint32_t n_k = w->step->head_dim, n_v = w->step->value_dim;
    double len_q = length_of(q, n_k) * sqrt(n_k), len_k = length_of(k, n_k);
    for (uint32_t c = 0; c < n_v; c++) {
        double has = 0, want = 0, size = 0;
        for (uint32_t i = 0; i < n_k; i++)
            has += S[i * n_v + c] * decay * (double)k[i] / len_k;
        for (uint32_t i = 0; i < n_k; i++) {
            double *s = &S[i * n_v + c];
            *s = *s * decay + (double)k[i] / len_k * beta * ((double)v[c] - has);
            want += *s * (double)q[i] / len_q;
            size += fabs(*s);
        }
        near(w, (double)d[c], want, 1e-5 * (1 + size));
    }
}

/* The state of head h in the sequence of row t, zeros at first. */
static double *head_state(const world *w, uint32_t t, uint32_t h) {
    const rf_step *s = w->step;
    double **states = &w->states[s - w->s.p->steps];
    size_t size = (size_t)s->head_dim * s->value_dim;
    if (!*states) *states = (double *)rf_alloc(SEQS * s->n_heads * size, sizeof **states);
    assert_non_null(*states);
    return *states + (w->seq[t] * s->n_heads + h) * size;
}

static void check_scan(const world *w, uint32_t t, const float *a, const float *b, const float *d) {
    const rf_step *s = w->step;
    uint32_t n = s->n_heads, n_v = s->value_dim, n_k = s->head_dim;
    for (uint32_t h = 0; h < n; h++) {
        const float *in = a + n * n_v + h * s->n_kv_heads / n * n_k, *x = a + h * n_v;
        double dt = log1p(exp((double)b[h] + weight_at(weight_of(w, s->bias), 0, 0, h)));
        double decay = exp(dt * weight_at(weight_of(w, s->w), 0, 0, h)), *S = head_state(w, t, h);
        for (uint32_t c = 0; c < n_v; c++) {
            double want = 0, size = 0;
            for (uint32_t i = 0; i < n_k; i++) {
                double *state = &S[i * n_v + c], out = (double)in[s->n_kv_heads * n_k + i];
                *state = *state * decay + dt * (double)in[i] * (double)x[c];
                want += *state * out;
                size += fabs(*state * out);
            }
            near(w, (double)d[h * n_v + c], want, 1e-5 * (1 + size));
        }
    }
}

static void check_delta(const world *w, uint32_t t, const float *a, const float *b,
                        const float *d) {
    const rf_step *s = w->step;
    uint32_t n = s->n_heads, n_keys = s->n_kv_heads * s->head_dim;
    for (uint32_t h = 0; h < n; h++) {
        uint32_t key = s->heads_in_turn ? h % s->n_kv_heads : h * s->n_kv_heads / n;
        double x = (double)b[n + h] + weight_at(weight_of(w, s->bias), 0, 0, h);
        double decay = exp(weight_at(weight_of(w, s->w), 0, 0, h) * log1p(exp(x)));
        check_delta_head(w, head_state(w, t, h), a + key * s->head_dim,
                         a + n_keys + key * s->head_dim, a + 2 * n_keys + h * s->value_dim, decay,
                         1 / (1 + exp(-(double)b[h])), d + h * s->value_dim);
    }
}

typedef void check_fn(const world *w, uint32_t t, const float *a, const float *b, const float *d);
static check_fn *const checks[RF_OP_COUNT] = {
    [RF_OP_EMBED] = check_embed,     [RF_OP_RMS_NORM] = check_norm,
    [RF_OP_LAYER_NORM] = check_norm, [RF_OP_MATMUL] = check_matmul,
    [RF_OP_ROPE] = check_rope,       [RF_OP_HEAD_MATMUL] = check_head_matmul,
    [RF_OP_ATTEND] = check_attend,   [RF_OP_ACT] = check_element,
    [RF_OP_GLU] = check_element,     [RF_OP_SCALE] = check_element,
    [RF_OP_SOFTCAP] = check_element, [RF_OP_ADD] = check_element,
    [RF_OP_MUL] = check_element,     [RF_OP_SLICE] = check_slice,
    [RF_OP_CONCAT] = check_concat,   [RF_OP_ROUTE] = check_route,
    [RF_OP_EXPERTS] = check_experts, [RF_OP_MIX] = check_mix,
    [RF_OP_CONV] = check_conv,       [RF_OP_DELTA] = check_delta,
    [RF_OP_SCAN] = check_scan,
};

static void check_step(world *w, const rf_step *s) {
    w->step = s;
    w->seen[s->op]++;
    float *a = peek(w, s->a, &w->a_cols), *b = peek(w, s->b, &w->b_cols);
    float *d = peek(w, s->dst, &w->cols);
    bool per_output = s->dst && w->s.p->vals[s->dst].per_output;
    uint32_t n_rows = per_output ? w->b.b.n_outputs : w->b.b.n_tokens;
    for (uint32_t t = 0; t < n_rows; t++) {
        const float *at = a ? a + (size_t)t * w->a_cols : NULL;
        const float *bt = b ? b + (size_t)t * w->b_cols : NULL;
        const float *dt = d ? d + (size_t)t * w->cols : NULL;
        if (s->op == RF_OP_KV_PUT) {
            keep_kv(w, t, at, bt);
        } else if (s->op == RF_OP_PICK) {
            const float *from = a + (size_t)w->b.out_row[t] * w->a_cols;
            assert_memory_equal(dt, from, w->cols * sizeof *dt);
        } else {
            assert_non_null(checks[s->op]);
            checks[s->op](w, t, at, bt, dt);
        }
    }
    rf_free(a);
    rf_free(b);
    rf_free(d);
}

/* The next rows of all sequences; every third one's result is wanted. */
static void run_batch(world *w, const uint32_t n[SEQS]) {
    batch_clear(&w->b);
    for (uint32_t q = 0, t = 0; q < SEQS; q++) {
        batch_add(&w->b, &w->q[q], n[q]);
        w->q[q].done += n[q];
        for (uint32_t i = 0; i < n[q]; i++, t++) {
            w->seq[t] = q;
            w->kv_len[t] = w->q[q].done;
        }
    }
    for (uint32_t t = 0; t < w->b.b.n_tokens; t += 3)
        batch_want(&w->b, t);
    (void)batch_run(&w->s, &w->b);
}

/* Adds to seen how often each op was judged. */
static void judge(const odd *o, const session_opts *opts, uint32_t seen[RF_OP_COUNT]) {
    world *w = (world *)rf_alloc(1, sizeof *w);
    int32_t token[SEQS][CTX];
    uint64_t seed = o->start;
    assert_non_null(w);
    decoded_row = NULL;
    w->s = open_session(&o->m, opts);
    w->is_cpu = opts->ops == &rf_cpu_ops;
    w->inputs = (float **)rf_alloc(w->s.p->n_steps, sizeof *w->inputs);
    w->states = (double **)rf_alloc(w->s.p->n_steps, sizeof *w->states);
    assert_true(w->inputs && w->states);
    for (uint32_t il = 0; il < ODD_LAYERS; il++) {
        w->keys[il] = (float *)rf_alloc((size_t)SEQS * CTX * MAX_KEY, sizeof(float));
        w->values[il] = (float *)rf_alloc((size_t)SEQS * CTX * MAX_KEY, sizeof(float));
        assert_true(w->keys[il] && w->values[il]);
    }
    for (uint32_t q = 0; q < SEQS; q++) {
        random_tokens(token[q], CTX, o->m.n_vocab, &seed);
        w->q[q] = (sequence){.token = token[q], .n = CTX, .table = {q + 5, 3 - q}, .state = 7 - q};
    }
    for (int i = 0; i < STEPS; i++) {
        run_batch(w, parts[i]);
        for (uint32_t k = 0; k < w->s.p->n_steps; k++)
            check_step(w, &w->s.p->steps[k]);
    }
    for (uint32_t op = 0; op < RF_OP_COUNT; op++)
        seen[op] += w->seen[op];
    for (uint32_t il = 0; il < ODD_LAYERS; il++) {
        rf_free(w->keys[il]);
        rf_free(w->values[il]);
    }
    for (uint32_t i = 0; i < w->s.p->n_steps; i++) {
        rf_free(w->inputs[i]);
        rf_free(w->states[i]);
    }
    rf_free(w->inputs);
    rf_free(w->states);
    close_session(&w->s);
    rf_free(w);
}

static void judge_all(const rf_backend_ops *ops, uint64_t n_seeds) {
    uint32_t seen[RF_OP_COUNT] = {0};
    for (uint64_t seed = 0; seed < n_seeds; seed++) {
        odd *o = odd_open(200 + seed, false, false, true);
        session_opts opts = session_defaults();
        opts.ops = ops;
        opts.isa = (rf_isa)(seed % ((uint64_t)rf_isa_best() + 1));
        opts.keep_values = true;
        judge(o, &opts, seen);
        odd_close(o);
    }
    for (uint32_t op = 0; op < RF_OP_COUNT; op++)
        if (!seen[op]) fail_msg("%s was never judged", rf_op_name((rf_op)op));
}

static void test_ref(void **state) {
    (void)state;
    judge_all(&rf_ref_ops, 25);
}

static void test_cpu(void **state) {
    (void)state;
    judge_all(&rf_cpu_ops, 25);
}

int main(void) {
    const struct CMUnitTest ref[] = {cmocka_unit_test(test_ref)},
                            cpu[] = {cmocka_unit_test(test_cpu)};
    int n_failed = getenv("RF_TEST_SMALL") ? 0 : cmocka_run_group_tests(ref, NULL, NULL);
    return n_failed + cmocka_run_group_tests(cpu, NULL, NULL);
}
