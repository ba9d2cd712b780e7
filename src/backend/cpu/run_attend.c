/* run_attend.c - keys and values into the cache, and attention over it. */
#include <string.h>

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
static void attend_heads(const rf_cpu_runner *r, uint32_t row, uint32_t n_rows, uint32_t head,
                         uint32_t first, uint32_t n) {
    const rf_exec *x = r->x;
    const rf_cpu_attend *a = &r->t->at;
    const rf_step *s = a->step;
    const rf_cpu_kv *kv = &x->kv[s->layer];
    uint32_t seq = x->row_seq[row];
    size_t k_row = rf_kv_head_bytes(x->limits.k_type, s->head_dim);
    size_t v_row = rf_kv_head_bytes(x->limits.v_type, s->value_dim);
    size_t at = (size_t)first * s->head_dim;
    for (uint32_t i = row; i < row + n_rows; i++)
        prepare_heads(r, &a->q, rf_cpu_row_of(x, a->q.val, i) + at, n, s->head_dim, i);
    rf_attend args = {
        .q = rf_cpu_row_of(x, a->q.val, row) + at,
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
    r->k->attend(&args);
}

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

void rf_cpu_run_attend(const rf_cpu_runner *r) {
    const rf_exec *x = r->x;
    const rf_cpu_attend *a = &r->t->at;
    uint32_t n_rows = x->n_tokens, n_kv = a->step->n_kv_heads, i;
    uint32_t per_kv = a->step->n_heads / n_kv, part = heads_of_piece(x, n_kv, per_kv);
    uint32_t n_parts = (per_kv + part - 1) / part;
    /* Rows that need no other row's keys of this run need no barrier between put and attend. */
    bool at_once = a->put && a->attend && x->rows_alone && n_parts == 1;
    if (a->put && !at_once) {
        while (rf_cpu_next_piece(&r->counter[0], n_rows, &i)) {
            for (uint32_t head = 0; head < n_kv; head++)
                put_head(r, i, head);
        }
        if (a->attend) rf_pool_barrier(x->backend->pool);
    }
    if (!a->attend) return;
    while (rf_cpu_next_piece(&r->counter[1], x->n_groups * n_kv * n_parts, &i)) {
        uint32_t item = i / n_parts, p = i % n_parts;
        uint32_t group = x->n_groups - 1 - item / n_kv, head = item % n_kv; /* longest first */
        uint32_t row = x->group[group], end = x->group[group + 1];
        uint32_t n = per_kv - p * part < part ? per_kv - p * part : part;
        if (at_once) put_head(r, row, head); /* the only one */
        attend_heads(r, row, end - row, head, head * per_kv + p * part, n);
    }
}
