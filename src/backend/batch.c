/* batch.c - what every backend asks of a batch before it touches memory with it, and which keys
 * a row may see.
 *
 * A batch comes from the scheduler, but its numbers become addresses in the KV pool, so all of
 * them are checked, in every build: ids, rows, positions, blocks, and that no slot is written
 * twice. */
#include "backend/backend.h"

#include <math.h>

static rf_status check_sizes(const rf_batch *b, const rf_limits *l, rf_error *e) {
    if (b->n_tokens == 0 || b->n_tokens > l->max_tokens)
        return rf_fail(e, RF_EARG, "batch has %u rows, expected 1 to %u", b->n_tokens,
                       l->max_tokens);
    if (b->n_seqs == 0 || b->n_seqs > l->max_seqs)
        return rf_fail(e, RF_EARG, "batch has %u sequences, expected 1 to %u", b->n_seqs,
                       l->max_seqs);
    if (b->n_outputs > l->max_outputs)
        return rf_fail(e, RF_EARG, "batch wants logits of %u rows, expected at most %u",
                       b->n_outputs, l->max_outputs);
    if (!b->token || !b->pos || !b->seq_start || !b->kv_len || !b->table ||
        (b->n_outputs && !b->out_row))
        return rf_fail(e, RF_EARG, "batch lacks one of its arrays");
    return RF_OK;
}

static rf_status check_tokens(const rf_batch *b, uint32_t n_vocab, uint32_t n_before, rf_error *e) {
    if (b->follows && n_before == 0)
        return rf_fail(e, RF_EARG,
                       "batch follows a run that is not there or whose outputs are not all "
                       "wanted by their first");
    for (uint32_t t = 0; t < b->n_tokens; t++) {
        int32_t id = b->token[t];
        if (id < 0 && b->follows && (uint32_t)~id >= n_before)
            return rf_fail(e, RF_EARG,
                           "batch row %u: output %u of the run before, expected below %u", t,
                           (uint32_t)~id, n_before);
        if (id < 0 ? !b->follows : (uint32_t)id >= n_vocab)
            return rf_fail(e, RF_EARG, "batch row %u: token %d, expected 0 to %u", t, id,
                           n_vocab - 1);
    }
    return RF_OK;
}

static rf_status check_rows(const rf_batch *b, rf_error *e) {
    if (b->seq_start[0] != 0)
        return rf_fail(e, RF_EARG, "batch: seq_start[0] is %u, expected 0", b->seq_start[0]);
    for (uint32_t s = 0; s < b->n_seqs; s++)
        if (b->seq_start[s + 1] <= b->seq_start[s])
            return rf_fail(e, RF_EARG, "batch sequence %u: starts at row %u and ends at row %u", s,
                           b->seq_start[s], b->seq_start[s + 1]);
    if (b->seq_start[b->n_seqs] != b->n_tokens)
        return rf_fail(e, RF_EARG, "batch: sequences cover %u rows of %u", b->seq_start[b->n_seqs],
                       b->n_tokens);
    for (uint32_t o = 0; o < b->n_outputs; o++) {
        if (b->out_row[o] >= b->n_tokens)
            return rf_fail(e, RF_EARG, "batch output %u: row %u, expected below %u", o,
                           b->out_row[o], b->n_tokens);
        if (o > 0 && b->out_row[o] <= b->out_row[o - 1])
            return rf_fail(e, RF_EARG, "batch output %u: row %u after row %u, expected ascending",
                           o, b->out_row[o], b->out_row[o - 1]);
    }
    return RF_OK;
}

/* A learned table of positions ends somewhere. */
static rf_status check_positions(const rf_batch *b, const rf_plan *p, rf_error *e) {
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const rf_step *s = &p->steps[i];
        if (s->op != RF_OP_EMBED || s->source != RF_EMBED_POSITION) continue;
        const rf_tensor *w = p->vals[s->w].weight;
        for (uint32_t t = 0; t < b->n_tokens; t++)
            if (b->pos[t] >= w->rows)
                return rf_fail(e, RF_EARG,
                               "batch row %u: position %u, but the model learned %u positions "
                               "(tensor %.*s); ask for a shorter context",
                               t, b->pos[t], w->rows, RF_STR_ARG(w->name));
    }
    return RF_OK;
}

/* A plan for later layers takes rows. */
static rf_status check_input(const rf_batch *b, const rf_plan *p, rf_error *e) {
    if (p->first_layer == 0 || b->rows) return RF_OK;
    return rf_fail(e, RF_EARG, "batch has no rows, with which a plan from layer %u on begins",
                   p->first_layer);
}

static rf_status check_sequence(const rf_batch *b, const rf_limits *l, uint32_t s, rf_error *e) {
    uint32_t begin = b->seq_start[s], end = b->seq_start[s + 1];
    for (uint32_t t = begin + 1; t < end; t++)
        if (b->pos[t] != b->pos[t - 1] + 1 || b->pos[t] == 0)
            return rf_fail(e, RF_EARG, "batch row %u: position %u after %u, expected the next one",
                           t, b->pos[t], b->pos[t - 1]);
    uint32_t last = b->pos[end - 1];
    if (last == UINT32_MAX || b->kv_len[s] != last + 1)
        return rf_fail(
            e, RF_EARG,
            "batch sequence %u: kv_len is %u and the last position %u, expected one more", s,
            b->kv_len[s], last);
    uint32_t n_blocks = last / RF_KV_BLOCK + 1;
    if (n_blocks > b->table_stride || n_blocks > l->n_kv_blocks)
        return rf_fail(
            e, RF_EARG,
            "batch sequence %u: %u tokens need %u KV blocks; its table has room for %u and "
            "the pool has %u",
            s, b->kv_len[s], n_blocks, b->table_stride, l->n_kv_blocks);
    const uint32_t *table = b->table + (size_t)s * b->table_stride;
    for (uint32_t i = 0; i < n_blocks; i++)
        if (table[i] >= l->n_kv_blocks)
            return rf_fail(e, RF_EARG, "batch sequence %u: KV block %u is %u, expected below %u", s,
                           i, table[i], l->n_kv_blocks);
    return RF_OK;
}

/* Rows [begin, end) of KV block id that sequence s writes through entry i of its table. */
typedef struct written {
    uint32_t id, begin, end;
} written;

static written written_at(const rf_batch *b, uint32_t s, uint32_t i) {
    uint32_t first = b->pos[b->seq_start[s]], end = b->kv_len[s], base = i * RF_KV_BLOCK;
    written w = {b->table[(size_t)s * b->table_stride + i], 0, RF_KV_BLOCK};
    if (first > base) w.begin = first - base;
    if (end - base < RF_KV_BLOCK) w.end = end - base;
    return w;
}

/* Does an entry after (s, i) write a row that (s, i) writes?  Batches write few blocks (one for
 * each decoding sequence), so comparing all pairs costs less than any table would. */
static rf_status check_written_once(const rf_batch *b, uint32_t s, uint32_t i, rf_error *e) {
    written w = written_at(b, s, i);
    for (uint32_t s2 = s; s2 < b->n_seqs; s2++) {
        uint32_t j = s2 == s ? i + 1 : b->pos[b->seq_start[s2]] / RF_KV_BLOCK;
        for (; j <= (b->kv_len[s2] - 1) / RF_KV_BLOCK; j++) {
            written o = written_at(b, s2, j);
            if (o.id == w.id && o.begin < w.end && w.begin < o.end)
                return rf_fail(e, RF_EARG,
                               "batch sequences %u and %u both write row %u of KV block %u", s, s2,
                               o.begin > w.begin ? o.begin : w.begin, w.id);
        }
    }
    return RF_OK;
}

static rf_status check_prefix(const rf_batch *b, rf_error *e) {
    for (uint32_t s = 0; b->n_prefix && s < b->n_seqs; s++)
        if (b->n_prefix[s] > b->kv_len[s])
            return rf_fail(
                e, RF_EARG,
                "batch sequence %u: a prefix of %u keys, expected at most its kv_len of %u", s,
                b->n_prefix[s], b->kv_len[s]);
    return RF_OK;
}

static rf_status check_states(const rf_batch *b, const rf_plan *p, const rf_limits *l,
                              rf_error *e) {
    if (p->state_floats == 0) return RF_OK;
    if (!b->state)
        return rf_fail(e, RF_EARG, "batch has no slots of state, which the plan's layers keep");
    for (uint32_t s = 0; s < b->n_seqs; s++) {
        if (b->state[s] >= l->n_states)
            return rf_fail(e, RF_EARG, "batch sequence %u: slot of state %u, expected below %u", s,
                           b->state[s], l->n_states);
        for (uint32_t s2 = 0; s2 < s; s2++)
            if (b->state[s2] == b->state[s])
                return rf_fail(e, RF_EARG, "batch sequences %u and %u both have slot of state %u",
                               s2, s, b->state[s]);
    }
    return RF_OK;
}

static rf_status check_mask(const rf_batch *b, const rf_plan *p, rf_error *e) {
    bool wanted = false;
    for (uint32_t i = 0; i < p->n_steps; i++)
        wanted = wanted ||
                 (p->steps[i].op == RF_OP_ATTEND && p->steps[i].pattern.kind == RF_ATTN_CUSTOM);
    if (!wanted) return RF_OK;
    if (!b->mask)
        return rf_fail(e, RF_EARG, "batch has no mask, which a layer's attention asks for");
    for (uint32_t s = 0; s < b->n_seqs; s++) {
        if (b->kv_len[s] > b->mask_stride)
            return rf_fail(e, RF_EARG, "batch sequence %u: mask rows of %u keys, expected %u", s,
                           b->mask_stride, b->kv_len[s]);
        for (uint32_t t = b->seq_start[s]; t < b->seq_start[s + 1]; t++)
            for (uint32_t j = 0; j < b->kv_len[s]; j++) {
                float m = b->mask[(size_t)t * b->mask_stride + j];
                if (isnan(m) || m == INFINITY)
                    return rf_fail(e, RF_EARG,
                                   "batch row %u: mask of key %u is %g, expected a number or -inf",
                                   t, j, (double)m);
            }
    }
    return RF_OK;
}

rf_status rf_batch_check(const rf_batch *b, const rf_plan *p, const rf_limits *l, uint32_t n_before,
                         rf_error *e) {
    RF_TRY(check_sizes(b, l, e));
    RF_TRY(check_rows(b, e));
    RF_TRY(check_tokens(b, p->model->n_vocab, n_before, e));
    for (uint32_t s = 0; s < b->n_seqs; s++)
        RF_TRY(check_sequence(b, l, s, e));
    for (uint32_t s = 0; s < b->n_seqs; s++)
        for (uint32_t i = b->pos[b->seq_start[s]] / RF_KV_BLOCK;
             i <= (b->kv_len[s] - 1) / RF_KV_BLOCK; i++)
            RF_TRY(check_written_once(b, s, i, e));
    RF_TRY(check_positions(b, p, e));
    RF_TRY(check_input(b, p, e));
    RF_TRY(check_prefix(b, e));
    RF_TRY(check_states(b, p, l, e));
    return check_mask(b, p, e);
}

bool rf_kv_type_ok(rf_dtype t) {
    return t == RF_DT_F32 || t == RF_DT_F16 || t == RF_DT_BF16 || t == RF_DT_Q8_0 ||
           t == RF_DT_Q4_0;
}

rf_status rf_kv_types_check(const rf_limits *l, rf_error *e) {
    const rf_dtype type[] = {l->k_type, l->v_type};
    for (size_t i = 0; i < RF_COUNT(type); i++) {
        if (rf_kv_type_ok(type[i])) continue;
        const char *got = (unsigned)type[i] < RF_DT_COUNT ? rf_dtype_get(type[i])->name : "?";
        return rf_fail(e, RF_EUNSUPPORTED,
                       "KV cache: %s of type %s, expected F32, F16, BF16, Q8_0 or Q4_0",
                       i ? "values" : "keys", got);
    }
    return RF_OK;
}

rf_status rf_limits_check(const char *backend, const rf_limits *l, rf_error *e) {
    const struct {
        const char *name;
        uint32_t value;
    } fields[] = {
        {"max_tokens", l->max_tokens}, {"max_seqs", l->max_seqs}, {"n_kv_blocks", l->n_kv_blocks}};
    for (size_t i = 0; i < RF_COUNT(fields); i++) {
        if (fields[i].value) continue;
        return rf_fail(e, RF_EARG, "%s backend: limit %s is 0, expected at least 1", backend,
                       fields[i].name);
    }
    return rf_kv_types_check(l, e);
}

rf_status rf_states_check(const char *backend, const rf_plan *p, const rf_limits *l, rf_error *e) {
    if (p->state_floats == 0 || l->n_states > 0) return RF_OK;
    return rf_fail(e, RF_EARG,
                   "%s backend: limit n_states is 0, expected at least 1: the plan's layers keep a "
                   "state",
                   backend);
}

size_t rf_kv_head_bytes(rf_dtype type, uint32_t n) {
    const rf_dtype_info *t = rf_dtype_get(type);
    return (size_t)(n / t->block_elems + (n % t->block_elems != 0)) * t->block_bytes;
}

bool rf_batch_rows_alone(const rf_batch *b, uint64_t *mark, uint64_t run) {
    if (b->n_tokens != b->n_seqs) return false;
    for (uint32_t s = 0; s < b->n_seqs; s++) {
        uint32_t id = b->table[(size_t)s * b->table_stride + b->pos[s] / RF_KV_BLOCK];
        if (mark[id] == run) return false;
        mark[id] = run;
    }
    for (uint32_t s = 0; s < b->n_seqs; s++) {
        const uint32_t *table = b->table + (size_t)s * b->table_stride;
        for (uint32_t i = 0; i < b->pos[s] / RF_KV_BLOCK; i++)
            if (mark[table[i]] == run) return false;
    }
    return true;
}

void rf_attn_range(const rf_attn_pattern *pattern, uint32_t pos, uint32_t kv_len, uint32_t *begin,
                   uint32_t *end) {
    uint32_t past = pos < kv_len ? pos + 1 : kv_len; /* keys up to and with the row's own */
    *begin = 0;
    *end = kv_len;
    switch (pattern->kind) {
    case RF_ATTN_BIDIRECTIONAL:
    case RF_ATTN_CUSTOM:
        return;
    case RF_ATTN_CAUSAL:
        *end = past;
        return;
    case RF_ATTN_PREFIX:
        *end = past > pattern->n_global     ? past
               : pattern->n_global < kv_len ? pattern->n_global
                                            : kv_len;
        return;
    case RF_ATTN_LOCAL_BOTH:
        *begin = pos > pattern->window / 2 ? pos - pattern->window / 2 : 0;
        if (kv_len - past > pattern->window / 2) *end = past + pattern->window / 2;
        return;
    case RF_ATTN_LOCAL:
    case RF_ATTN_GLOBAL_LOCAL:
        *end = past;
        *begin = past > pattern->window ? past - pattern->window : 0;
        return;
    }
}
