/* attend_rows.hip - attention of many rows of a sequence over keys and values in sixteen bits; one
 * block per eight neighbouring rows, KV head and four of the query heads that share it.
 *
 * Every 32 threads have a row; keys pass in blocks of 32 through shared memory, as floats, for all
 * eight.  Of a row's four heads and 32 keys a thread makes four by four scores in four canonical
 * lanes, of which it keeps one head's; then it has four columns of the values for all four heads and
 * adds the keys in order.  Rows of several sequences pass one sequence after the other. */
#include "backend/gpu/kernels/span.h"

enum {
    ROWS_ROWS = RF_GPU_ATTEND_ROWS,
    ROWS_HEADS = 4,
    ROWS_DIM = RF_GPU_ATTEND_VEC_DIM,
    ROWS_KEY = ROWS_DIM + 16, /* floats from key to key: two keys meet all banks */
};

/* Queries and keys: of every sixteen columns first 0, 4, 8 and 12, then 1, 5, 9 and 13 ... */
typedef struct rows_shared {
    rf_f4 q[ROWS_ROWS][ROWS_HEADS][ROWS_DIM / 4];
    rf_f4 k[32][ROWS_KEY / 4];
    rf_u4 v[32 * ROWS_DIM / 8];
    rf_f4 p[ROWS_ROWS][32];                /* of a key for all heads */
    float part[ROWS_ROWS][ROWS_HEADS][8];  /* of a head, maxima and then sums of four keys */
    float factor[ROWS_ROWS][ROWS_HEADS];   /* of what there is when the maximum rises */
    float total[2][ROWS_ROWS][ROWS_HEADS]; /* factors of the total and of a segment */
} rows_shared;

/* A thread's place: row of the block and head of four that its scores are of, eighth of the keys, and
 * the formats. */
typedef struct rows_place {
    rf_span span; /* of its row */
    uint32_t seq, row, head, eighth, kv_head;
    uint32_t is_here; /* the row is there */
    uint32_t type;
} rows_place;

/* Of one head, for its own thread; and four columns of all heads. */
typedef struct rows_sum {
    float m, l;
    float acc[ROWS_HEADS][4];
} rows_sum;

RF_DEVICE float rows_half(uint32_t word, int i, uint32_t type) {
    const uint16_t h = (uint16_t)(word >> 16 * i);
    return type == RF_DT_F16 ? rf_f16_at(h) : rf_float_of((uint32_t)h << 16);
}

/* What a thread fetches of a block: sixteen columns of a key and of a value, the last ones again
 * where there are no more. */
typedef struct rows_fetch {
    rf_u4 k0, k1, v0, v1;
} rows_fetch;

/* Word by word: a copy of the whole would not stay in registers. */
RF_DEVICE rf_u4 rows_words(const rf_u4 *p) {
    const rf_u4 out = {{p->v[0], p->v[1], p->v[2], p->v[3]}};
    return out;
}

RF_DEVICE void rows_load(rows_fetch *f, const rf_gpu_attend_args *a, const rows_place *at,
                         uint32_t block) {
    const uint32_t key = rf_tid() / 8, part = rf_tid() % 8;
    const uint64_t slot = ((uint64_t)block * a->n_kv_heads + at->kv_head) * 32 + key;
    const uint32_t per_key = a->head_dim / 8, per_value = a->value_dim / 8;
    const rf_u4 *k = (const rf_u4 *)a->k + slot * per_key;
    const rf_u4 *v = (const rf_u4 *)a->v + slot * per_value;
    f->k0 = rows_words(k + rf_min_u32(2 * part, per_key - 1));
    f->k1 = rows_words(k + rf_min_u32(2 * part + 1, per_key - 1));
    f->v0 = rows_words(v + rf_min_u32(2 * part, per_value - 1));
    f->v1 = rows_words(v + rf_min_u32(2 * part + 1, per_value - 1));
}

RF_DEVICE void rows_store(rows_shared *sh, const rows_fetch *f, const rf_gpu_attend_args *a,
                          const rows_place *at) {
    const uint32_t key = rf_tid() / 8, part = rf_tid() % 8;
    float x[16];
    RF_UNROLL
    for (int i = 0; i < 16; i++)
        x[i] = rows_half((i < 8 ? f->k0 : f->k1).v[i % 8 / 2], i % 2, at->type);
    RF_UNROLL
    for (uint32_t c = 0; c < 4; c++) {
        const rf_f4 out = {{x[c], x[4 + c], x[8 + c], x[12 + c]}};
        if (16 * part < a->head_dim) sh->k[key][4 * part + c] = out;
    }
    rf_u4 *v = sh->v + key * (a->value_dim / 8) + 2 * part;
    if (16 * part < a->value_dim) v[0] = f->v0;
    if (16 * part + 8 < a->value_dim) v[1] = f->v1;
}

/* Scores of this thread's head with keys eighth, eighth + 8, ... */
RF_DEVICE void rows_scores(float score[4], const rows_shared *sh, const rf_gpu_attend_args *a,
                           const rows_place *at) {
    const uint32_t c = rf_tid() % 4, upper = c & 2, odd = c & 1;
    float acc[ROWS_HEADS][4][4], sum[ROWS_HEADS][4], half[2][4];
    RF_UNROLL
    for (int i = 0; i < ROWS_HEADS * 16; i++)
        acc[i / 16][i / 4 % 4][i % 4] = 0.0f;
    RF_NO_UNROLL
    for (uint32_t j = 0; j < a->head_dim / 16; j++) {
        rf_f4 k[4];
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            k[i] = sh->k[at->eighth + 8 * i][4 * j + c];
        RF_UNROLL
        for (int h = 0; h < ROWS_HEADS; h++) {
            const rf_f4 q = sh->q[at->row][h][4 * j + c];
            RF_UNROLL
            for (int i = 0; i < 16; i++)
                acc[h][i / 4][i % 4] = rf_fma(q.v[i % 4], k[i / 4].v[i % 4], acc[h][i / 4][i % 4]);
        }
    }
    RF_UNROLL
    for (int i = 0; i < 4 * ROWS_HEADS; i++) {
        const float *s = acc[i / 4][i % 4];
        sum[i / 4][i % 4] = (s[0] + s[2]) + (s[1] + s[3]);
    }
    RF_UNROLL
    for (int i = 0; i < 8; i++) {
        const float x = sum[i / 4][i % 4], y = sum[2 + i / 4][i % 4];
        half[i / 4][i % 4] = (upper ? y : x) + rf_quad_xor(upper ? x : y, 2);
    }
    RF_UNROLL
    for (int i = 0; i < 4; i++) {
        const float x = half[0][i], y = half[1][i];
        score[i] = (odd ? y : x) + rf_quad_xor(odd ? x : y, 1);
    }
}

/* The block's exponentials, sums of four keys and factors; m and l of this thread's head. */
RF_DEVICE void rows_soften(rows_shared *sh, const rf_gpu_attend_args *a, const rows_place *at,
                           uint32_t bits, uint32_t first, float score[4], rows_sum *t) {
    const float *mask = at->span.mask;
    float most = -__builtin_inff(), p[4];
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t key = at->eighth + 8 * i;
        score[i] *= a->scale;
        if (a->softcap > 0) score[i] = a->softcap * rf_tanh32(score[i] / a->softcap);
        if (mask && bits >> key & 1) score[i] += mask[first + key];
        if (bits >> key & 1 && score[i] > most) most = score[i];
    }
    sh->part[at->row][at->head][at->eighth] = most;
    rf_sync();
    const float *of_head = sh->part[at->row][at->head];
    float top = t->m;
    RF_UNROLL
    for (int i = 0; i < 8; i++)
        top = of_head[i] > top ? of_head[i] : top;
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t key = at->eighth + 8 * i;
        p[i] = bits >> key & 1 ? rf_exp32(score[i] - top) : 0.0f;
        ((float *)&sh->p[at->row][key])[at->head] = p[i];
    }
    float factor = 1.0f;
    if (top > t->m) factor = t->m == -__builtin_inff() ? 0.0f : rf_exp32(t->m - top);
    if (at->eighth == 0) sh->factor[at->row][at->head] = factor;
    t->m = top;
    t->l *= factor;
    rf_sync(); /* the maxima have been read */
    sh->part[at->row][at->head][at->eighth] = (p[0] + p[2]) + (p[1] + p[3]);
    rf_sync();
    float s[4];
    RF_UNROLL
    for (int i = 0; i < 4; i++)
        s[i] = of_head[i] + of_head[i + 4];
    if (bits) t->l += (s[0] + s[2]) + (s[1] + s[3]);
}

/* The visible keys onto this thread's columns. */
RF_DEVICE void rows_add(rows_sum *t, const rows_shared *sh, uint32_t row, uint32_t v_row,
                        uint32_t bits, uint32_t type) {
    const uint8_t *v = (const uint8_t *)sh->v + rf_tid() % 32 * 8;
    RF_UNROLL_8
    for (uint32_t j = 0; j < 32; j++) {
        if (!(bits >> j & 1)) continue;
        const rf_f4 p = sh->p[row][j];
        const rf_u2 word = *(const rf_u2 *)(const void *)(v + j * v_row);
        RF_UNROLL
        for (int d = 0; d < 4; d++) {
            const float x = rows_half(word.v[d / 2], d % 2, type);
            RF_UNROLL
            for (int h = 0; h < ROWS_HEADS; h++)
                t->acc[h][d] = rf_fma(p.v[h], x, t->acc[h][d]);
        }
    }
}

RF_DEVICE void rows_values(rows_sum *t, const rows_shared *sh, const rf_gpu_attend_args *a,
                           const rows_place *at, uint32_t bits) {
    if (!bits) return;
    RF_UNROLL
    for (int i = 0; i < ROWS_HEADS * 4; i++)
        t->acc[i / 4][i % 4] *= sh->factor[at->row][i / 4];
    if (rf_tid() % 32 * 4 >= a->value_dim) return;
    if (at->type == RF_DT_F16 && bits == 0xffffffffu)
        rows_add(t, sh, at->row, 2 * a->value_dim, 0xffffffffu, RF_DT_F16);
    else if (at->type == RF_DT_F16)
        rows_add(t, sh, at->row, 2 * a->value_dim, bits, RF_DT_F16);
    else
        rows_add(t, sh, at->row, 2 * a->value_dim, bits, RF_DT_BF16);
}

RF_DEVICE void rows_start(rows_sum *t, float m, float l) {
    t->m = m;
    t->l = l;
    RF_UNROLL
    for (int i = 0; i < ROWS_HEADS * 4; i++)
        t->acc[i / 4][i % 4] = 0.0f;
}

/* A segment onto the total, where the row has seen one of its keys. */
RF_DEVICE void rows_fold(rows_sum *total, rows_shared *sh, const rows_place *at, const rows_sum *t,
                         int is_seen) {
    rf_fold f = rf_fold_of(total->m, t->m);
    if (is_seen) {
        total->m = f.m;
        total->l = rf_folded(&f, total->l, t->l);
    }
    rf_sync();
    if (at->eighth == 0) { /* less than nothing: the segment is the first */
        sh->total[0][at->row][at->head] = f.is_first ? -1.0f : f.c_total;
        sh->total[1][at->row][at->head] = f.c_part;
    }
    rf_sync();
    if (!is_seen) return;
    RF_UNROLL
    for (int i = 0; i < ROWS_HEADS * 4; i++) {
        f.c_total = sh->total[0][at->row][i / 4];
        f.c_part = sh->total[1][at->row][i / 4];
        f.is_first = f.c_total < 0.0f;
        total->acc[i / 4][i % 4] = rf_folded(&f, total->acc[i / 4][i % 4], t->acc[i / 4][i % 4]);
    }
}

/* Blocks first to end of sequence number seq, for the rows that are its. */
RF_DEVICE void rows_walk(rows_shared *sh, const rf_gpu_attend_args *a, const rows_place *at,
                         uint32_t seq, uint32_t first, uint32_t end, rows_sum *total) {
    const uint32_t *table = a->batch.table + (uint64_t)seq * a->batch.table_stride;
    const int is_own = at->is_here && at->seq == seq;
    rows_fetch f;
    rows_sum t;
    int is_seen = 0;
    rows_start(&t, -__builtin_inff(), 0.0f);
    rows_load(&f, a, at, table[first]);
    RF_NO_UNROLL
    for (uint32_t b = first; b < end; b++) {
        const uint32_t bits = is_own ? rf_span_bits(&at->span, b) : 0;
        float score[4];
        rf_sync();
        rows_store(sh, &f, a, at);
        rf_sync();
        rows_scores(score, sh, a, at);
        rows_load(&f, a, at, table[rf_min_u32(b + 1, end - 1)]);
        rows_soften(sh, a, at, bits, 32 * b, score, &t);
        rows_values(&t, sh, a, at, bits);
        is_seen = is_seen || bits;
        if (b + 1 != end && (b + 1) % RF_GPU_SEGMENT_BLOCKS != 0) continue;
        rows_fold(total, sh, at, &t, is_seen);
        rows_start(&t, -__builtin_inff(), 0.0f);
        is_seen = 0;
    }
}

/* The queries of the block's rows and heads; those that are not there are the last ones. */
RF_DEVICE void rows_queries(rows_shared *sh, const rf_gpu_attend_args *a, uint32_t first_row,
                            uint32_t first_head, uint32_t n_heads) {
    const uint32_t per_head = a->head_dim / 4;
    for (uint32_t i = rf_tid(); i < ROWS_ROWS * ROWS_HEADS * per_head; i += RF_BLOCK_attend_rows) {
        const uint32_t h = i / per_head % ROWS_HEADS, r = i / per_head / ROWS_HEADS;
        const uint32_t k = i % per_head / 4 * 16 + i % 4,
                       row = rf_min_u32(first_row + r, a->n_rows - 1);
        const float *q =
            a->q +
            ((uint64_t)row * a->n_heads + first_head + rf_min_u32(h, n_heads - 1)) * a->head_dim +
            k;
        const rf_f4 out = {{q[0], q[4], q[8], q[12]}};
        sh->q[r][h][i % per_head] = out;
    }
}

RF_DEVICE void rows_run(rows_shared *sh, const rf_gpu_attend_args *a) {
    const uint32_t per_kv = a->n_heads / a->n_kv_heads, in_group = rf_bid_z() * ROWS_HEADS;
    const uint32_t n_stretches = rf_div_up(a->n_rows, ROWS_ROWS); /* the longest walks first */
    const uint32_t first_row = (n_stretches - 1 - rf_bid_x()) * ROWS_ROWS;
    const uint32_t last_row = rf_min_u32(first_row + ROWS_ROWS, a->n_rows) - 1;
    rows_place at;
    at.row = rf_tid() / 32;
    at.head = rf_tid() % 4;
    at.eighth = rf_tid() % 32 / 4;
    at.kv_head = rf_bid_y();
    at.type = a->k_type;
    at.is_here = first_row + at.row <= last_row;
    const uint32_t row = rf_min_u32(first_row + at.row, last_row);
    const uint32_t head = at.kv_head * per_kv + in_group;
    at.seq = a->batch.row_seq[row];
    at.span = rf_span_of(a, row);
    rows_queries(sh, a, first_row, head, per_kv - in_group);
    const int has_sink = a->sinks && in_group + at.head < per_kv;
    const float sink = has_sink ? a->sinks[head + at.head] : -__builtin_inff();
    rows_sum total;
    rows_start(&total, sink, sink == -__builtin_inff() ? 0.0f : 1.0f);
    for (uint32_t r = first_row; r <= last_row;) { /* a sequence's rows at a time */
        const uint32_t seq = a->batch.row_seq[r];
        uint32_t first = ~0u, end = 0;
        for (; r <= last_row && a->batch.row_seq[r] == seq; r++) {
            const rf_span span = rf_span_of(a, r);
            first = rf_min_u32(first, rf_span_first(&span));
            end = rf_div_up(span.end, 32) > end ? rf_div_up(span.end, 32) : end;
        }
        if (first < end) rows_walk(sh, a, &at, seq, first, end, &total);
    }
    rf_sync();
    if (at.eighth == 0) sh->factor[at.row][at.head] = total.l == 0.0f ? 1.0f : total.l;
    rf_sync();
    const uint32_t col = rf_tid() % 32 * 4;
    if (!at.is_here || col >= a->value_dim) return;
    RF_UNROLL
    for (uint32_t h = 0; h < ROWS_HEADS; h++) {
        if (in_group + h >= per_kv) break;
        rf_f4 out;
        RF_UNROLL
        for (int i = 0; i < 4; i++)
            out.v[i] = total.acc[h][i] / sh->factor[at.row][h];
        *(rf_f4 *)(void *)(a->dst + ((uint64_t)row * a->n_heads + head + h) * a->value_dim + col) =
            out;
    }
}

RF_KERNEL_EARLY(attend_rows, rf_gpu_attend_args, 2) {
    RF_SHARED rows_shared sh;
    rf_await_before();
    rows_run(&sh, &a);
}
