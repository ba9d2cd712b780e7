/* run_attend.c - keys and values into the cache, and attention over it. */
#include <string.h>

#include "backend/cpu/attend.h"
#include "backend/cpu/exec.h"
#include "base/fmath.h"
#include "quant/blocks.h"

/* Norm and rotation of n_heads heads at x. */
static void prepare_heads(const rf_cpu_runner *r, const rf_cpu_heads *h, float *x, uint32_t n_heads,
                          uint32_t head_dim, uint32_t row) {
    for (uint32_t i = 0; i < n_heads && rf_cpu_is_normed(&h->norm); i++) {
        float *head = x + (size_t)i * head_dim;
        rf_cpu_norm_row(r->k, &h->norm, head, head, head_dim);
    }
    if (h->rope)
        r->k->rope(x, n_heads, head_dim, h->rope, rf_cpu_angles_of(r->x, h->rope_index, row));
}

/* Groups of 32, their scale rounded to f16. */
static void store_q8_0(const rf_cpu_runner *r, uint8_t *dst, const float *src, uint32_t n) {
    float x[RF_MAX_HEAD_DIM + 31], d[RF_MAX_HEAD_DIM / 32 + 1];
    int8_t q[RF_MAX_HEAD_DIM + 31];
    uint32_t n_groups = (n + 31) / 32;
    memcpy(x, src, n * sizeof *x);
    memset(x + n, 0, (32 * n_groups - n) * sizeof *x);
    r->k->quant_kv(x, (size_t)32 * n_groups, q, d);
    for (uint32_t g = 0; g < n_groups; g++) {
        rf_block_q8_0 b;
        uint16_t half = rf_f32_to_f16(d[g]);
        memcpy(b.d, &half, sizeof b.d);
        memcpy(b.qs, q + 32 * g, sizeof b.qs);
        memcpy(dst + g * sizeof b, &b, sizeof b);
    }
}

/* One group of 32: multiples -8 .. 7 of a scale such that the value of largest size is -8 of it. */
static rf_block_q4_0 group_q4_0(const float x[32]) {
    rf_block_q4_0 b = {{0}, {0}};
    float most = 0;
    uint32_t most_bits = 0;
    for (int i = 0; i < 32; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most_bits ? x[i] : most;
        most_bits = bits > most_bits ? bits : most_bits;
    }
    float d = most / -8, id = d != 0 ? 1 / d : 0;
    uint16_t half = rf_f32_to_f16(d);
    memcpy(b.d, &half, sizeof b.d);
    for (int i = 0; i < 32; i++) {
        float q = x[i] * id + 8.5f;
        q = q > 0 ? q : 0; /* a NaN too */
        q = q < 15 ? q : 15;
        b.qs[i % 16] = (uint8_t)(b.qs[i % 16] | (unsigned)q << (i < 16 ? 0 : 4));
    }
    return b;
}

static void store_q4_0(uint8_t *dst, const float *src, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 32) {
        float x[32] = {0};
        memcpy(x, src + i, (n - i < 32 ? n - i : 32) * sizeof *x);
        rf_block_q4_0 b = group_q4_0(x);
        memcpy(dst + i / 32 * sizeof b, &b, sizeof b);
    }
}

static void store_head(const rf_cpu_runner *r, rf_dtype type, uint8_t *dst, const float *src,
                       uint32_t n) {
    if (type == RF_DT_Q8_0)
        store_q8_0(r, dst, src, n);
    else if (type == RF_DT_Q4_0)
        store_q4_0(dst, src, n);
    else if (type == RF_DT_F16)
        r->k->f32_to_f16((uint16_t *)(void *)dst, src, n);
    else if (type == RF_DT_BF16)
        for (uint32_t i = 0; i < n; i++)
            ((uint16_t *)(void *)dst)[i] = rf_f32_to_bf16(src[i]);
    else
        memcpy(dst, src, n * sizeof *src);
}

/* Key and value head of one row into the cache. */
static void put_head(const rf_cpu_runner *r, uint32_t row, uint32_t head) {
    const rf_exec *x = r->x;
    const rf_cpu_attend *a = &r->t->at;
    const rf_step *s = a->step;
    const rf_cpu_kv *kv = &x->kv[s->layer];
    const uint32_t *table = r->b->table + (size_t)x->row_seq[row] * r->b->table_stride;
    uint32_t pos = r->b->pos[row], block = table[pos / RF_KV_BLOCK];
    size_t slot = (size_t)head * RF_KV_BLOCK + pos % RF_KV_BLOCK;
    rf_dtype k_type = x->limits.k_type, v_type = x->limits.v_type;
    float *k = rf_cpu_row_of(x, a->k.val, row) + (size_t)head * s->head_dim;
    prepare_heads(r, &a->k, k, 1, s->head_dim, row);
    store_head(r, k_type,
               x->k + kv->k_at + block * kv->k_block + slot * rf_kv_head_bytes(k_type, s->head_dim),
               k, s->head_dim);
    if (!a->v) return;
    store_head(r, v_type,
               x->v + kv->v_at + block * kv->v_block +
                   slot * rf_kv_head_bytes(v_type, s->value_dim),
               rf_cpu_row_of(x, a->v, row) + (size_t)head * s->value_dim, s->value_dim);
}

/* Query heads [first, first + n) of rows of one sequence, which all read KV head number head. */
static rf_attend heads_of(const rf_cpu_runner *r, uint32_t row, uint32_t n_rows, uint32_t head,
                          uint32_t first, uint32_t n) {
    const rf_exec *x = r->x;
    const rf_cpu_attend *a = &r->t->at;
    const rf_step *s = a->step;
    const rf_cpu_kv *kv = &x->kv[s->layer];
    uint32_t seq = x->row_seq[row];
    size_t k_row = rf_kv_head_bytes(x->limits.k_type, s->head_dim);
    size_t v_row = rf_kv_head_bytes(x->limits.v_type, s->value_dim);
    rf_attend args = {
        .q = rf_cpu_row_of(x, a->q.val, row) + (size_t)first * s->head_dim,
        .dst = rf_cpu_row_of(x, s->dst, row) + (size_t)first * s->value_dim,
        .sinks = a->sinks ? a->sinks + first : NULL,
        .q_stride = x->plan->vals[a->q.val].cols,
        .dst_stride = x->plan->vals[s->dst].cols,
        .n_rows = n_rows,
        .n_q = n,
        .head_dim = s->head_dim,
        .value_dim = s->value_dim,
        .k_type = x->limits.k_type,
        .v_type = x->limits.v_type,
        .k = x->k + kv->k_at + (size_t)head * RF_KV_BLOCK * k_row,
        .v = x->v + kv->v_at + (size_t)head * RF_KV_BLOCK * v_row,
        .k_block = kv->k_block,
        .k_row = k_row,
        .v_block = kv->v_block,
        .v_row = v_row,
        .table = r->b->table + (size_t)seq * r->b->table_stride,
        .pattern = s->pattern,
        .pos = r->b->pos + row,
        .kv_len = r->b->kv_len[seq],
        .scale = s->scale,
        .softcap = s->softcap,
        .scratch = r->own->attend,
    };
    if (!kv->v_block) { /* values are the first columns of keys */
        args.v = args.k;
        args.v_type = args.k_type;
        args.v_block = args.k_block;
        args.v_row = args.k_row;
    }
    if (s->pattern.kind == RF_ATTN_PREFIX)
        args.pattern.n_global = r->b->n_prefix ? r->b->n_prefix[seq] : 0;
    if (s->pattern.kind == RF_ATTN_CUSTOM) {
        args.mask = r->b->mask + (size_t)row * r->b->mask_stride;
        args.mask_stride = r->b->mask_stride;
    }
    return args;
}

static void attend_heads(const rf_cpu_runner *r, uint32_t row, uint32_t n_rows, uint32_t head,
                         uint32_t first, uint32_t n) {
    const rf_cpu_attend *a = &r->t->at;
    const uint32_t head_dim = a->step->head_dim;
    for (uint32_t i = row; i < row + n_rows; i++)
        prepare_heads(r, &a->q, rf_cpu_row_of(r->x, a->q.val, i) + (size_t)first * head_dim, n,
                      head_dim, i);
    rf_attend args = heads_of(r, row, n_rows, head, first, n);
    r->k->attend(&args);
}

/* By segments ----------------------------------------------------------------------------------*/

/* How few rows, each of a sequence of its own, are cut: by KV heads, and the keys of each by so many segments. */
typedef struct cut {
    uint32_t n_kv, per_kv;
    uint32_t n_segments, n_pieces;
} cut;

/* One KV head's keys of a row: all their segments, and those of a piece. */
typedef struct stretch {
    uint32_t row, head;
    uint32_t first, n;   /* segments that the row sees */
    uint32_t at;         /* sums of these begin there */
    uint32_t piece, end; /* of [first, first + n) */
    uint32_t n_pieces;   /* of this head */
} stretch;

/* Segments that row number `row`, a group of its own, sees. */
static uint32_t segments_of(const rf_cpu_runner *r, uint32_t row, uint32_t *first) {
    const rf_attend args = heads_of(r, row, 1, 0, 0, 0);
    const rf_attend_span span = rf_attend_span_of(&args, 0);
    return rf_attend_segments(&span, first);
}

static uint32_t pieces_of(uint32_t n, uint32_t n_segments) {
    return n > n_segments ? (n + n_segments - 1) / n_segments : 1;
}

/* Whether there are so few heads of so many keys that threads had better share these. */
static bool cut_by_segments(const rf_cpu_runner *r, cut *c) {
    const rf_exec *x = r->x;
    const uint32_t most = RF_CPU_CUT * (uint32_t)x->n_threads;
    uint32_t total = 0, first;
    if (x->n_threads == 1 || x->n_groups != x->n_tokens || x->n_groups > most / c->n_kv)
        return false;
    for (uint32_t row = 0; row < x->n_tokens; row++)
        total += segments_of(r, row, &first);
    if (total > x->max_segments || total * c->n_kv < (uint32_t)x->n_threads) return false;
    c->n_segments = (total * c->n_kv + most - 1) / most;
    c->n_pieces = 0;
    for (uint32_t row = 0; row < x->n_tokens; row++)
        c->n_pieces += c->n_kv * pieces_of(segments_of(r, row, &first), c->n_segments);
    return c->n_pieces > c->n_kv * x->n_groups;
}

static stretch stretch_of(const rf_cpu_runner *r, const cut *c, uint32_t i) {
    stretch s = {0};
    for (;; s.row++, s.at += s.n) {
        s.n = segments_of(r, s.row, &s.first);
        s.n_pieces = pieces_of(s.n, c->n_segments);
        if (i < s.n_pieces * c->n_kv) break;
        i -= s.n_pieces * c->n_kv;
    }
    s.head = i / s.n_pieces;
    s.piece = i % s.n_pieces * c->n_segments;
    s.end = s.n - s.piece > c->n_segments ? s.piece + c->n_segments : s.n;
    return s;
}

/* Whether the piece is the one that sees the row's own key; if none does it is the first or the last one. */
static bool has_own_key(const rf_cpu_runner *r, const stretch *s) {
    const uint32_t own = r->b->pos[s->row] / RF_KV_BLOCK / RF_KV_SEGMENT;
    const uint32_t last = s->n ? s->n - 1 : 0, at = own > s->first ? own - s->first : 0;
    const uint32_t i = at < last ? at : last;
    return i >= s->piece && (i < s->end || s->n == 0);
}

/* A piece; whoever ends the last one of a KV head folds what all of them gave. */
static void attend_stretch(const rf_cpu_runner *r, const cut *c, const stretch *s) {
    rf_exec *x = r->x;
    const rf_cpu_attend *a = &r->t->at;
    rf_attend args = heads_of(r, s->row, 1, s->head, s->head * c->per_kv, c->per_kv);
    rf_cpu_counter *finished = &x->finished[s->row * c->n_kv + s->head];
    float *sums = x->sums + (size_t)s->at * x->sums_cols +
                  (size_t)s->head * c->per_kv * (RF_ATTEND_SUMS + args.value_dim);
    memcpy(r->own->query, args.q, (size_t)c->per_kv * args.head_dim * sizeof *args.q);
    prepare_heads(r, &a->q, r->own->query, c->per_kv, args.head_dim, s->row);
    args.q = r->own->query;
    args.sums_stride = x->sums_cols;
    args.sums = sums + (size_t)s->piece * x->sums_cols;
    args.first_segment = s->first + s->piece;
    args.n_segments = s->end - s->piece;
    r->k->attend(&args);
    if (!rf_cpu_is_last(finished, s->n_pieces)) return;
    args.sums = sums;
    args.n_segments = s->n;
    r->k->attend_fold(&args);
}

/* Pieces ---------------------------------------------------------------------------------------*/

/* How many of the query heads that share a KV head are one piece of work: all, unless there are too
 * few pieces to share evenly.  Rows of a prompt see more keys the later they come. */
static uint32_t heads_of_piece(const rf_exec *x, uint32_t n_kv, uint32_t per_kv) {
    uint64_t n_items = (uint64_t)x->n_groups * n_kv, want = (uint64_t)x->n_threads;
    if (x->n_groups < x->n_tokens) want *= 4;
    uint32_t part = per_kv;
    while (part > 1 && n_items * ((per_kv + part - 1) / part) < want)
        part = (part + 1) / 2;
    return part;
}

static void run_by_heads(const rf_cpu_runner *r, const cut *c, uint32_t part, bool puts) {
    const rf_exec *x = r->x;
    const uint32_t n_parts = (c->per_kv + part - 1) / part;
    uint32_t i;
    while (rf_cpu_next_piece(&r->counter[1], x->n_groups * c->n_kv * n_parts, &i)) {
        uint32_t item = i / n_parts, p = i % n_parts;
        uint32_t group = x->n_groups - 1 - item / c->n_kv,
                 head = item % c->n_kv; /* longest first */
        uint32_t row = x->group[group], end = x->group[group + 1];
        uint32_t n = c->per_kv - p * part < part ? c->per_kv - p * part : part;
        if (puts) put_head(r, row, head); /* the only one */
        attend_heads(r, row, end - row, head, head * c->per_kv + p * part, n);
    }
}

static void run_by_segments(const rf_cpu_runner *r, const cut *c, bool puts) {
    uint32_t i;
    while (rf_cpu_next_piece(&r->counter[1], c->n_pieces, &i)) {
        const stretch s = stretch_of(r, c, i);
        if (puts && has_own_key(r, &s)) put_head(r, s.row, s.head);
        attend_stretch(r, c, &s);
    }
}

void rf_cpu_run_attend(const rf_cpu_runner *r) {
    const rf_exec *x = r->x;
    const rf_cpu_attend *a = &r->t->at;
    uint32_t n_rows = x->n_tokens, n_kv = a->step->n_kv_heads, i;
    cut c = {.n_kv = n_kv, .per_kv = a->step->n_heads / n_kv};
    const uint32_t part = heads_of_piece(x, n_kv, c.per_kv);
    const bool by_segments = a->attend && cut_by_segments(r, &c);
    /* Rows that need no other row's keys of this run need no barrier between put and attend. */
    bool at_once = a->put && a->attend && x->rows_alone && (by_segments || part == c.per_kv);
    if (a->put && !at_once) {
        while (rf_cpu_next_piece(&r->counter[0], n_rows, &i)) {
            for (uint32_t head = 0; head < n_kv; head++)
                put_head(r, i, head);
        }
        if (a->attend) rf_pool_barrier(x->backend->pool);
    }
    if (by_segments)
        run_by_segments(r, &c, at_once);
    else if (a->attend)
        run_by_heads(r, &c, part, at_once);
}
