/* run_products.c - matrix products of one input: with one matrix, one per head, or those of the
 * experts that each row chose.
 *
 * The input's rows are prepared first (normed, quantised as the weights want it): a single one by every thread
 * for itself, which costs less than waiting for each other, more of them together.  Then
 * pieces of output columns are handed out.  The rows that chose one expert are gathered, so that its
 * weights are read once for all of them; a row's result is the same in any company. */
#include <string.h>

#include "backend/cpu/exec.h"

typedef rf_cpu_runner runner;

void rf_cpu_apply(const rf_cpu_kernels *k, const rf_step *s, float *dst, const float *a,
                  const float *b, uint32_t repeat, uint32_t first, uint32_t n) {
    if (s->op == RF_OP_ACT) {
        k->act(s->act, dst, a, n);
    } else if (s->op == RF_OP_GLU) {
        k->glu(s->act, dst, a, b, n);
    } else if (s->op == RF_OP_SCALE) {
        k->scale(dst, a, s->scale, n);
    } else if (s->op == RF_OP_SOFTCAP) {
        k->softcap(dst, a, s->softcap, n);
    } else if (s->op == RF_OP_ADD) {
        k->add(dst, a, b, n);
    } else if (repeat == 1) {
        k->mul(dst, a, b, n);
    } else {
        for (uint32_t at = 0; at < n;) { /* as many columns as share one of b's */
            uint32_t column = (first + at) / repeat, end = (column + 1) * repeat - first;
            end = end < n ? end : n;
            k->scale(dst + at, a + at, b[column], end - at);
            at = end;
        }
    }
}

/* The element-wise steps behind product m, in place on n columns of a row from column first on.
 * up: the same columns of the product computed alongside, or NULL. */
static void apply_chain(const runner *r, const rf_cpu_product *m, float *y, const float *up,
                        uint32_t row, uint32_t first, uint32_t n) {
    for (uint32_t i = 0; i < m->n_chain; i++) {
        const rf_cpu_element *el = &m->chain[i];
        const float *other = NULL;
        uint32_t repeat = 1;
        if (i == 0 && up) {
            other = up;
        } else if (el->other) {
            const rf_value *vals = r->x->plan->vals;
            repeat = vals[el->step->dst].cols / vals[el->other].cols;
            other = rf_cpu_row_of(r->x, el->other, row) + (repeat == 1 ? first : 0);
        }
        rf_cpu_apply(r->k, el->step, y, el->other_first ? other : y, el->other_first ? y : other,
                     repeat, first, n);
    }
}

/* Preparing the input --------------------------------------------------------------------------*/

/* Input number i of a row among all prepared ones: those of one head lie together. */
static size_t input_index(const runner *r, uint32_t row, uint32_t i) {
    if (r->t->kind == RF_CPU_HEADS) return (size_t)i * rf_cpu_rows_of(r->x, r->t) + row;
    return (size_t)row * r->t->n_inputs + i;
}

static bool is_moved(const rf_cpu_task *t) {
    return rf_cpu_is_normed(&t->norm) || t->picked || t->kind == RF_CPU_HEADS;
}

/* Quantises n floats at x as the task's weights want them, from element number at of the prepared ones on. */
static void quantise(const runner *r, const rf_cpu_acts *a, const float *x, size_t n, size_t at) {
    if (r->t->views & 1u << RF_INT_32)
        r->k->quant_32(x, n, a->q[0] + at, a->d[0] + at / 32, a->sum[0] + at / 32);
    if (r->t->with_totals)
        rf_mm_totals(a->d[0] + at / 32, a->sum[0] + at / 32, n / 32, a->total + at / 32);
    if (r->t->views & 1u << RF_INT_256)
        r->k->quant_256(x, n, a->q[1] + at, a->d[1] + at / 256, a->sum[1] + at / 16);
}

/* shared: nobody else does this row. */
static void prepare_row(const runner *r, const rf_cpu_acts *a, uint32_t row, bool shared) {
    const rf_cpu_task *t = r->t;
    const float *x = rf_cpu_row_of(r->x, t->a, t->picked ? r->b->out_row[row] : row);
    size_t n = t->cols;
    bool store = is_moved(t) && t->views & 1u << RF_INT_NONE;
    for (uint32_t i = 0; i < t->n_inputs; i++, x += n) {
        const size_t at = input_index(r, row, i) * n;
        const float *y = x;
        if (rf_cpu_is_normed(&t->norm)) {
            float *normed = store ? a->x + at : r->own->row;
            rf_cpu_norm_row(r->k, &t->norm, normed, x, n);
            y = normed;
            if (t->norm_dst && (shared || r->ith == 0))
                memcpy(rf_cpu_row_of(r->x, t->norm_dst, row), normed, n * sizeof *normed);
        } else if (store) {
            memcpy(a->x + at, x, n * sizeof *x);
        }
        quantise(r, a, y, n, at);
    }
    if (!t->scores) return;
    float *route = rf_cpu_row_of(r->x, t->route, row);
    float *own = r->own->route;
    rf_cpu_route(t->router, rf_cpu_row_of(r->x, t->scores, row), shared ? route : own);
    if (!shared && r->ith == 0) memcpy(route, own, 2 * t->router->n_used * sizeof *own);
}

/* Columns [begin, end) of rows [first, last) in blocks, for the views that have them. */
static void lay_out(const runner *r, const rf_mm_input act[3], uint32_t first, uint32_t last,
                    uint32_t begin, uint32_t end) {
    for (rf_int_view view = RF_INT_NONE; view <= RF_INT_256; view++)
        if (act[view].blocks) rf_act_lay_out(r->k, &act[view], first, last, begin, end);
}

/* All rows: `each` at a time, which are then laid out in blocks where the products want it; or, where threads would
 * have nothing to do, one at a time, and who ends a block's last row lays it out. */
static void prepare_rows(const runner *r, const rf_cpu_acts *a, const rf_mm_input act[3],
                         uint32_t n_rows, uint32_t each) {
    const uint32_t n_blocks = (n_rows + each - 1) / each;
    const bool by_rows = each > 1 && n_blocks < (uint32_t)r->x->n_threads;
    uint32_t at;
    while (rf_cpu_next_piece(&r->counter[0], by_rows ? n_rows : n_blocks, &at)) {
        const uint32_t block = by_rows ? at / each : at, first = block * each;
        const uint32_t last = n_rows - first < each ? n_rows : first + each;
        for (uint32_t row = by_rows ? at : first; row < (by_rows ? at + 1 : last); row++)
            prepare_row(r, a, row, true);
        if (by_rows && !rf_cpu_is_last(&r->x->finished[block], last - first)) continue;
        lay_out(r, act, first, last, 0, r->t->cols);
    }
}

/* The same where no column needs another one of its row: blocks of rows, of fewer columns where they are few. */
static void prepare_strips(const runner *r, const rf_cpu_acts *a, const rf_mm_input act[3],
                           uint32_t n_rows, uint32_t each) {
    const rf_cpu_task *t = r->t;
    const uint32_t n_blocks = (n_rows + each - 1) / each;
    const uint32_t n_wanted = ((uint32_t)r->x->n_threads + n_blocks - 1) / n_blocks;
    /* Whole groups; totals share their rounding among eight. */
    const uint32_t unit = t->views == 1u << RF_INT_32 && !t->with_totals ? 64 : 256;
    const uint32_t n_cols = ((t->cols - 1) / n_wanted / unit + 1) * unit;
    const uint32_t n_strips = (t->cols + n_cols - 1) / n_cols;
    uint32_t at;
    while (rf_cpu_next_piece(&r->counter[0], n_blocks * n_strips, &at)) {
        const uint32_t first = at / n_strips * each, begin = at % n_strips * n_cols;
        const uint32_t last = n_rows - first < each ? n_rows : first + each;
        const uint32_t end = t->cols - begin < n_cols ? t->cols : begin + n_cols;
        for (uint32_t row = first; row < last; row++)
            quantise(r, a, rf_cpu_row_of(r->x, t->a, row) + begin, end - begin,
                     (size_t)row * t->cols + begin);
        lay_out(r, act, first, last, begin, end);
    }
}

/* Fills act[view] for the views of the task. */
static void prepare(const runner *r, uint32_t n_rows, rf_mm_input act[3]) {
    const rf_cpu_task *t = r->t;
    bool solo = n_rows == 1;
    bool may_lay_out = !solo && t->kind == RF_CPU_PRODUCTS;
    uint32_t each = 1; /* rows that are prepared at a time: whole blocks */
    const rf_cpu_acts *a = solo ? &r->own->acts : &r->x->acts;
    for (rf_int_view view = RF_INT_NONE; view <= RF_INT_256; view++) {
        act[view] = (rf_mm_input){.view = view, .n_rows = n_rows * t->n_inputs, .n_cols = t->cols};
        if (view == RF_INT_NONE) {
            act[view].x = is_moved(t) ? a->x : rf_cpu_row_of(r->x, t->a, 0);
        } else {
            act[view].q = a->q[view - RF_INT_32];
            act[view].d = a->d[view - RF_INT_32];
            act[view].sum = a->sum[view - RF_INT_32];
            act[view].total = a->total;
        }
        if (!(t->views & 1u << view) || !may_lay_out || !rf_act_wants_blocks(r->k, view, n_rows))
            continue;
        act[view].blocks = a->blocks[view];
        const uint32_t rows = rf_act_block_rows(view);
        if (each % rows != 0) each = rows % each == 0 ? rows : RF_ACT_BLOCK * RF_ACT_FLOATS / 2;
    }
    if (!is_moved(t) && !t->scores && t->views == 1u << RF_INT_NONE && !act[RF_INT_NONE].blocks)
        return;
    if (solo) {
        prepare_row(r, a, 0, false);
        return;
    }
    (t->kind == RF_CPU_PRODUCTS && !is_moved(t) ? prepare_strips : prepare_rows)(r, a, act, n_rows,
                                                                                 each);
    rf_pool_barrier(r->x->backend->pool);
}

/* n of the prepared rows, from number first on. */
static rf_mm_input rows_at(const rf_mm_input *a, size_t first, uint32_t n) {
    rf_mm_input part = *a;
    size_t cols = a->n_cols, group = a->view == RF_INT_256 ? 256 : 32;
    size_t sum = a->view == RF_INT_256 ? 16 : 32;
    part.n_rows = n;
    part.blocks = NULL;
    if (a->view == RF_INT_NONE) {
        part.x += first * cols;
    } else {
        part.q += first * cols;
        part.d += first * (cols / group);
        part.sum += first * (cols / sum);
        if (a->view == RF_INT_32) part.total += first * (cols / 32);
    }
    return part;
}

/* One matrix, or one per head ------------------------------------------------------------------*/

/* Columns [begin, end) of product m for plane number plane; next: see rf_mm. */
static void multiply(const runner *r, const rf_cpu_product *m, const rf_mm_input act[3],
                     uint32_t plane, uint32_t begin, uint32_t end, const void *next) {
    uint32_t n_rows = rf_cpu_rows_of(r->x, r->t);
    rf_tensor w = *m->w;
    rf_mm_input in = act[rf_dtype_get(w.type)->view];
    if (r->t->kind == RF_CPU_HEADS) {
        w.data = (const uint8_t *)w.data + (size_t)plane * w.rows * w.row_bytes;
        in = rows_at(&in, (size_t)plane * n_rows, n_rows);
    }
    rf_mm mm = {
        .w = &w,
        .bias = m->bias,
        .act = &in,
        .dst = r->x->val[m->dst] + (size_t)plane * w.rows,
        .dst_stride = r->x->plan->vals[m->dst].cols,
        .next = next,
    };
    r->k->matmul(&mm, begin, end, r->own->mm);
}

/* Where a product's weights of an output column begin. */
static const uint8_t *weights_at(const rf_cpu_product *m, uint32_t plane, uint32_t column) {
    size_t row = (size_t)plane * m->w->rows + column;
    return (const uint8_t *)m->w->data + row * m->w->row_bytes;
}

static void product_piece(const runner *r, const rf_cpu_product *m, const rf_mm_input act[3],
                          uint32_t plane, uint32_t begin, uint32_t end, const void *next) {
    multiply(r, m, act, plane, begin, end, m->up ? weights_at(m->up, plane, begin) : next);
    if (m->up) multiply(r, m->up, act, plane, begin, end, next);
    if (!m->n_chain) return;
    uint32_t first = plane * m->w->rows + begin;
    for (uint32_t row = 0; row < rf_cpu_rows_of(r->x, r->t); row++) {
        const float *up = m->up ? rf_cpu_row_of(r->x, m->up->dst, row) + first : NULL;
        apply_chain(r, m, rf_cpu_row_of(r->x, m->dst, row) + first, up, row, first, end - begin);
    }
}

/* The experts that rows chose ------------------------------------------------------------------*/

/* Orders all choices by expert; returns the number of experts chosen by any row. */
static uint32_t order_slots(const runner *r, uint32_t n_rows) {
    const rf_router *router = r->t->router;
    const rf_cpu_thread *own = r->own;
    bool is_own = r->t->scores && n_rows == 1;
    const float *route = is_own ? own->route : rf_cpu_row_of(r->x, r->t->route, 0);
    uint32_t n_used = router->n_used, n_active = 0, at = 0;
    memset(own->first, 0, ((size_t)router->n_experts + 1) * sizeof *own->first);
    for (uint32_t row = 0; row < n_rows; row++)
        for (uint32_t i = 0; i < n_used; i++)
            own->first[(uint32_t)route[((size_t)row * 2 + 1) * n_used + i]]++;
    for (uint32_t e = 0; e <= router->n_experts; e++) {
        uint32_t n = own->first[e];
        if (n) own->active[n_active++] = e;
        own->first[e] = at; /* start, moved to its end by the loop below */
        at += n;
    }
    for (uint32_t row = 0; row < n_rows; row++)
        for (uint32_t i = 0; i < n_used; i++)
            own->slot[own->first[(uint32_t)route[((size_t)row * 2 + 1) * n_used + i]]++] =
                row * n_used + i;
    for (uint32_t e = router->n_experts; e > 0; e--)
        own->first[e] = own->first[e - 1];
    own->first[0] = 0;
    return n_active;
}

/* The inputs of n slots side by side. */
static rf_mm_input gather(const runner *r, const rf_mm_input *all, const uint32_t *slot,
                          uint32_t n) {
    const rf_cpu_acts *g = &r->own->gather;
    uint32_t n_used = r->t->router->n_used;
    size_t each = r->t->n_inputs == 1 ? n_used : 1; /* slots that share an input */
    if (n == 1) return rows_at(all, slot[0] / each, 1);
    rf_mm_input in = *all;
    in.n_rows = n;
    in.x = g->x;
    if (all->view != RF_INT_NONE) {
        in.q = g->q[all->view - RF_INT_32];
        in.d = g->d[all->view - RF_INT_32];
        in.sum = g->sum[all->view - RF_INT_32];
        in.total = g->total;
    }
    size_t cols = all->n_cols;
    for (uint32_t s = 0; s < n; s++) {
        rf_mm_input from = rows_at(all, slot[s] / each, 1), to = rows_at(&in, s, 1);
        if (all->view == RF_INT_NONE) {
            memcpy(g->x + s * cols, from.x, cols * sizeof *g->x);
            continue;
        }
        size_t groups = cols / (all->view == RF_INT_256 ? 256 : 32);
        size_t sums = cols / (all->view == RF_INT_256 ? 16 : 32);
        memcpy(to.q, from.q, cols);
        memcpy(to.d, from.d, groups * sizeof *to.d);
        memcpy(to.sum, from.sum, sums * sizeof *to.sum);
        if (r->t->with_totals && all->view == RF_INT_32)
            memcpy(to.total, from.total, groups * sizeof *to.total);
    }
    in.blocks = NULL;
    if (!rf_act_wants_blocks(r->k, all->view, n)) return in;
    in.blocks = g->blocks[all->view];
    rf_act_lay_out(r->k, &in, 0, n, 0, in.n_cols);
    return in;
}

/* Columns [begin, begin + n) of one expert for its slots, into out [n_slots][n]; next: see rf_mm. */
static void multiply_expert(const runner *r, const rf_cpu_product *m, const rf_mm_input act[3],
                            uint32_t expert, uint32_t begin, uint32_t n, float *out,
                            const void *next) {
    const rf_cpu_thread *own = r->own;
    uint32_t first = own->first[expert], n_slots = own->first[expert + 1] - first;
    size_t row = (size_t)expert * m->w->rows + begin;
    rf_tensor w = *m->w;
    w.data = (const uint8_t *)w.data + row * w.row_bytes;
    w.rows = n;
    rf_mm_input in = gather(r, &act[rf_dtype_get(w.type)->view], own->slot + first, n_slots);
    rf_mm mm = {
        .w = &w,
        .bias = m->bias ? m->bias + row : NULL,
        .act = &in,
        .dst = out,
        .dst_stride = n,
        .next = next,
    };
    r->k->matmul(&mm, 0, n, own->mm);
}

static void expert_piece(const runner *r, const rf_cpu_product *m, const rf_mm_input act[3],
                         uint32_t expert, uint32_t begin, uint32_t end, const void *next) {
    const rf_cpu_thread *own = r->own;
    uint32_t n = end - begin, n_used = r->t->router->n_used;
    uint32_t n_slots = own->first[expert + 1] - own->first[expert];
    float *out = own->out, *up = own->out + (size_t)n_slots * n;
    multiply_expert(r, m, act, expert, begin, n, out,
                    m->up ? weights_at(m->up, expert, begin) : next);
    if (m->up) multiply_expert(r, m->up, act, expert, begin, n, up, next);
    for (uint32_t s = 0; s < n_slots; s++, out += n, up += n) {
        uint32_t slot = own->slot[own->first[expert] + s], row = slot / n_used;
        uint32_t first = slot % n_used * m->w->rows + begin;
        apply_chain(r, m, out, m->up ? up : NULL, row, first, n);
        memcpy(rf_cpu_row_of(r->x, m->dst, row) + first, out, n * sizeof *out);
    }
}

/* Pieces ---------------------------------------------------------------------------------------*/

/* How a node's part of a task is cut: product by product, plane by plane, piece by piece.  Its part of
 * every matrix is always the same rows, whose memory is near. */
typedef struct cut {
    uint32_t columns; /* in a piece */
    uint32_t n_planes, n_pieces, pieces_of[RF_CPU_MAX_PRODUCTS];
    int node;
} cut;

typedef struct piece {
    const rf_cpu_product *product;
    uint32_t plane, begin, end;
} piece;

/* Output columns in a piece: a multiple of 16, small enough that the last piece does not keep the
 * other threads waiting. */
static uint32_t piece_columns(const rf_cpu_task *t, uint32_t n_planes, int n_threads) {
    uint64_t rows = 0;
    for (uint32_t i = 0; i < t->n_products; i++)
        if (!t->product[i].is_up) rows += (uint64_t)t->product[i].w->rows * n_planes;
    uint32_t most = t->kind == RF_CPU_EXPERTS ? RF_CPU_EXPERT_PIECE : 256;
    uint64_t columns = n_threads == 1 ? most : rows / ((uint64_t)n_threads * 8);
    columns = (columns + 15) / 16 * 16;
    return columns < 16 ? 16 : columns > most ? most : (uint32_t)columns;
}

static cut cut_task(const runner *r, const rf_cpu_task *t, uint32_t n_planes, int node) {
    cut c = {
        .columns = piece_columns(t, n_planes, r->x->n_threads), .n_planes = n_planes, .node = node};
    for (uint32_t i = 0; i < t->n_products; i++) {
        uint32_t rows = t->product[i].is_up ? 0 : t->product[i].w->rows;
        rows = rf_cpu_node_row(r->spread, node + 1, rows) - rf_cpu_node_row(r->spread, node, rows);
        c.pieces_of[i] = (rows + c.columns - 1) / c.columns;
        c.n_pieces += c.pieces_of[i] * n_planes;
    }
    return c;
}

static piece piece_at(const runner *r, const rf_cpu_task *t, const cut *c, uint32_t at) {
    uint32_t i = 0;
    for (; at >= c->pieces_of[i] * c->n_planes; i++)
        at -= c->pieces_of[i] * c->n_planes;
    uint32_t rows = t->product[i].w->rows, end = rf_cpu_node_row(r->spread, c->node + 1, rows);
    piece p = {.product = &t->product[i],
               .plane = at / c->pieces_of[i],
               .begin =
                   rf_cpu_node_row(r->spread, c->node, rows) + at % c->pieces_of[i] * c->columns};
    p.end = end - p.begin < c->columns ? end : p.begin + c->columns;
    return p;
}

/* Where the share of a node's thread number i begins in its n pieces.  It lies in a row, and so does the
 * memory: what fetches ahead in a processor starts anew, slowly, behind every jump. */
static uint32_t share_begin(const runner *r, const cut *c, uint32_t i) {
    const int *first = r->spread->first + c->node;
    return (uint32_t)((uint64_t)c->n_pieces * i / (uint32_t)(first[1] - first[0]));
}

/* The next piece of a thread's own share, then of those that others of a node have not got to yet; *end: of
 * that share. */
static bool take_piece(const runner *r, const cut *c, uint32_t *at, uint32_t *end) {
    const uint32_t first = (uint32_t)r->spread->first[c->node];
    const uint32_t n_threads = (uint32_t)r->spread->first[c->node + 1] - first;
    const uint32_t own = c->node == r->node ? (uint32_t)r->ith - first : (uint32_t)r->ith;
    for (uint32_t i = 0; i < n_threads; i++) {
        uint32_t other = (own + i) % n_threads, begin = share_begin(r, c, other);
        *end = share_begin(r, c, other + 1);
        if (!rf_cpu_next_piece(&r->taken[first + other], *end - begin, at)) continue;
        *at += begin;
        return true;
    }
    return false;
}

/* The matrix of a product that a piece is of. */
static uint32_t matrix_of(const runner *r, const rf_cpu_task *t, uint32_t plane) {
    return t->kind == RF_CPU_EXPERTS ? r->own->active[plane] : plane;
}

/* Is it known already what task t will multiply?  Experts only while those of the same choice run. */
static bool is_foreseen(const runner *r, const rf_cpu_task *t) {
    bool same = t->kind == RF_CPU_EXPERTS && r->t->kind == t->kind && r->t->route == t->route;
    return same || t->kind == RF_CPU_PRODUCTS;
}

/* The weights this thread will probably read behind piece number at of a share that ends at end: the
 * next piece, or the first one of its share of the next task that multiplies. */
static const void *next_weights(const runner *r, const cut *c, uint32_t at, uint32_t end) {
    const rf_cpu_task *t = r->t, *last = r->x->tasks + r->x->n_tasks - 1;
    uint32_t next = at + 1;
    cut other;
    if (next == end) {
        do {
            if (t == last) return NULL;
            t++;
        } while (!is_foreseen(r, t));
        other = cut_task(r, t, t->kind == RF_CPU_EXPERTS ? c->n_planes : 1, r->node);
        c = &other;
        next = share_begin(r, c, (uint32_t)(r->ith - r->spread->first[r->node]));
        if (next >= c->n_pieces) return NULL;
    }
    piece p = piece_at(r, t, c, next);
    return weights_at(p.product, matrix_of(r, t, p.plane), p.begin);
}

void rf_cpu_run_products(const rf_cpu_runner *r) {
    const rf_cpu_task *t = r->t;
    uint32_t n_rows = rf_cpu_rows_of(r->x, t), n_planes = 1, at, end;
    rf_mm_input act[3];
    prepare(r, n_rows, act);
    if (t->kind == RF_CPU_HEADS) n_planes = t->n_inputs;
    if (t->kind == RF_CPU_EXPERTS) n_planes = order_slots(r, n_rows);
    for (int i = 0; i < r->spread->n; i++) { /* the own node's rows first */
        cut c = cut_task(r, t, n_planes, (r->node + i) % r->spread->n);
        while (take_piece(r, &c, &at, &end)) {
            piece p = piece_at(r, t, &c, at);
            const void *next = next_weights(r, &c, at, end);
            (t->kind == RF_CPU_EXPERTS ? expert_piece : product_piece)(
                r, p.product, act, matrix_of(r, t, p.plane), p.begin, p.end, next);
        }
    }
}
