/* vec_scalar.c - every kernel but the matrix product, in plain C.
 *
 * This is docs/arithmetic.md written out: the other instruction sets must give the same bits. */
#include "backend/cpu/attend.h"
#include "backend/cpu/lanes_scalar.h"
#include "backend/cpu/vec_rows.h"
#include "quant/bits.h"
#include "quant/blocks.h"

static void rope_scalar(float *x, uint32_t n_heads, uint32_t head_dim, const rf_rope *rope,
                        const float *cos_sin) {
    if (rope->kind == RF_ROPE_NONE) return;
    uint32_t half = rope->n_dims / 2;
    bool neox = rope->kind == RF_ROPE_NEOX;
    for (uint32_t h = 0; h < n_heads; h++, x += head_dim) {
        for (uint32_t i = 0; i < half; i++) {
            float *p0 = neox ? x + i : x + 2 * i;
            float *p1 = neox ? x + i + half : x + 2 * i + 1;
            float x0 = *p0, x1 = *p1, c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
            *p0 = fmaf(x0, c, -(x1 * s));
            *p1 = fmaf(x0, s, x1 * c);
        }
    }
}

static void f32_to_f16_scalar(uint16_t *dst, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        dst[i] = rf_f32_to_f16(x[i]);
}

static float kv_at(const uint8_t *row, uint32_t i, rf_dtype type) {
    if (type == RF_DT_F16) return rf_load_half(row + 2 * (size_t)i);
    if (type == RF_DT_BF16) return rf_bf16_to_f32(rf_load_u16(row + 2 * (size_t)i));
    float f;
    memcpy(&f, row + 4 * (size_t)i, sizeof f);
    return f;
}

/* q . k, one product after the other. */
static float score(const float *q, const uint8_t *k, uint32_t n, rf_dtype type) {
    float s = 0.0f;
    for (uint32_t i = 0; i < n; i++)
        s = fmaf(q[i], kv_at(k, i, type), s);
    return s;
}

/* The integers of a group of 32 of a row of the cache. */
static void kv_ints(int32_t out[32], const uint8_t *row, uint32_t g, rf_dtype type) {
    const rf_block_q8_0 *b8 = (const rf_block_q8_0 *)(const void *)row + g;
    const rf_block_q4_0 *b4 = (const rf_block_q4_0 *)(const void *)row + g;
    for (int i = 0; i < 32; i++)
        out[i] = type == RF_DT_Q8_0 ? b8->qs[i] : (b4->qs[i % 16] >> (i < 16 ? 0 : 4) & 15) - 8;
}

/* A query head as integers of one scale, zeros behind it. */
typedef struct int_query {
    float d;
    int32_t n[RF_MAX_HEAD_DIM + 31];
} int_query;

static void make_int_query(int_query *t, const float *q, uint32_t n) {
    const float top = RF_ATTEND_Q_MOST;
    float most = 0;
    for (uint32_t i = 0; i < n; i++)
        most = rf_attend_larger(most, q[i]);
    float id = most > 0 ? top / most : 0;
    t->d = most / top;
    memset(t->n, 0, sizeof t->n);
    for (uint32_t i = 0; i < n; i++) {
        float x = q[i] * id;
        x = x > -top ? x : -top; /* a NaN too */
        t->n[i] = (int32_t)rintf(x < top ? x : top);
    }
}

/* q . k in multiples of the query's scale, the groups one after the other. */
static float int_score(const int_query *q, const uint8_t *k, uint32_t n, rf_dtype type) {
    float s = 0.0f;
    for (uint32_t g = 0; g < (n + 31) / 32; g++) {
        int32_t ints[32], sum = 0;
        kv_ints(ints, k, g, type);
        for (uint32_t i = 0; i < 32; i++)
            sum += q->n[32 * g + i] * ints[i];
        s = fmaf((float)sum, rf_attend_scale(k, g, type), s);
    }
    return s;
}

/* A group's columns of the visible keys' values, weighted by p: acc: [n], n <= 32 */
static void int_values(float *acc, const float *p, const uint8_t *v, size_t row, uint32_t bits,
                       uint32_t g, uint32_t n, rf_dtype type) {
    float most = 0;
    int32_t sum[32] = {0};
    for (uint32_t left = bits; left; left &= left - 1)
        most =
            rf_attend_larger(most, rf_attend_scale(v + (size_t)__builtin_ctz(left) * row, g, type));
    float id = most > 0 ? RF_ATTEND_P_MOST / most : 0;
    for (uint32_t left = bits; left; left &= left - 1) {
        size_t j = (size_t)__builtin_ctz(left);
        int32_t ints[32];
        float x = fmaf(p[j], rf_attend_scale(v + j * row, g, type) * id, RF_ATTEND_MAGIC);
        int16_t weight = (int16_t)rf_attend_bits_of(x); /* anything for a NaN */
        kv_ints(ints, v + j * row, g, type);
        for (uint32_t d = 0; d < n; d++)
            sum[d] += weight * ints[d];
    }
    for (uint32_t d = 0; d < n; d++)
        acc[d] = (float)sum[d] * rf_attend_unit(most);
}

static float tree32(const float p[32]) {
    return lanes_tree16(lanes_add(lanes_load_n(p, 16), lanes_load_n(p + 16, 16)));
}

/* Maximum, sum and weighted values of some keys of one query head. */
typedef struct head_part {
    float m, l;
    float acc[RF_MAX_HEAD_DIM];
} head_part;

/* A query head: as it is, and as integers where the keys are such. */
typedef struct head_query {
    const float *x;
    int_query ints;
} head_query;

static void weigh_values(const rf_attend *a, float *acc, const float p[RF_KV_BLOCK],
                         const uint8_t *v, uint32_t bits) {
    bool is_int = rf_attend_is_int(a->v_type);
    memset(acc, 0, a->value_dim * sizeof *acc);
    for (uint32_t d = 0; is_int && d < a->value_dim; d += 32)
        int_values(acc + d, p, v, a->v_row, bits, d / 32,
                   a->value_dim - d < 32 ? a->value_dim - d : 32, a->v_type);
    for (uint32_t left = is_int ? 0 : bits; left; left &= left - 1) {
        uint32_t j = (uint32_t)__builtin_ctz(left);
        for (uint32_t d = 0; d < a->value_dim; d++)
            acc[d] = fmaf(p[j], kv_at(v + j * a->v_row, d, a->v_type), acc[d]);
    }
}

/* One block by itself. */
static void attend_block(const rf_attend *a, uint32_t row, const head_query *q, head_part *part,
                         uint32_t block, uint32_t bits) {
    const uint8_t *k = a->k + a->table[block] * a->k_block;
    const uint8_t *v = a->v + a->table[block] * a->v_block;
    float s[RF_KV_BLOCK] = {0}, p[RF_KV_BLOCK] = {0};
    bool is_int = rf_attend_is_int(a->k_type);
    float scale = is_int ? q->ints.d * a->scale : a->scale;
    part->m = -INFINITY;
    for (uint32_t left = bits; left; left &= left - 1) {
        uint32_t j = (uint32_t)__builtin_ctz(left);
        const uint8_t *key = k + j * a->k_row;
        s[j] = scale * (is_int ? int_score(&q->ints, key, a->head_dim, a->k_type)
                               : score(q->x, key, a->head_dim, a->k_type));
        if (a->softcap > 0) s[j] = a->softcap * rf_tanhf(s[j] / a->softcap);
        if (a->mask) s[j] += a->mask[row * a->mask_stride + block * RF_KV_BLOCK + j];
        if (s[j] > part->m) part->m = s[j];
    }
    for (uint32_t left = bits; left; left &= left - 1) {
        uint32_t j = (uint32_t)__builtin_ctz(left);
        p[j] = rf_expf(s[j] - part->m);
    }
    part->l = tree32(p);
    weigh_values(a, part->acc, p, v, bits);
}

static void fold(head_part *t, const head_part *part, uint32_t n) {
    float m = part->m > t->m ? part->m : t->m;
    if (t->m == -INFINITY) { /* the first one */
        t->m = part->m;
        t->l = part->l;
        memcpy(t->acc, part->acc, n * sizeof t->acc[0]);
        return;
    }
    float c_total = rf_expf(t->m - m), c_part = rf_expf(part->m - m);
    t->m = m;
    t->l = fmaf(part->l, c_part, t->l * c_total);
    fold_lanes(t->acc, part->acc, c_total, c_part, n);
}

static void start(head_part *t, float m, uint32_t n) {
    t->m = m;
    t->l = m == -INFINITY ? 0.0f : 1.0f;
    memset(t->acc, 0, n * sizeof t->acc[0]);
}

/* One segment's blocks [b, end); whether it has a key that is seen. */
static bool attend_segment(const rf_attend *a, uint32_t row, const rf_attend_span *span,
                           const head_query *q, head_part *segment, uint32_t b, uint32_t end) {
    head_part part;
    bool is_seen = false;
    start(segment, -INFINITY, a->value_dim);
    for (; b < end; b++) {
        uint32_t bits = rf_attend_bits(a, row, span, b);
        if (!bits) continue;
        attend_block(a, row, q, &part, b, bits);
        fold(segment, &part, a->value_dim);
        is_seen = true;
    }
    return is_seen;
}

static void finish(const rf_attend *a, const head_part *t, float *dst) {
    for (uint32_t d = 0; d < a->value_dim; d++) /* with no key visible all is 0 */
        dst[d] = t->l == 0.0f ? t->acc[d] : t->acc[d] / t->l;
}

static void put_sums(const rf_attend *a, const head_part *segment, bool is_seen, float *to) {
    to[0] = segment->m;
    to[1] = is_seen ? segment->l : -1.0f;
    memcpy(to + RF_ATTEND_SUMS, segment->acc, a->value_dim * sizeof *to);
}

static void attend_row(const rf_attend *a, uint32_t row) {
    rf_attend_span span = rf_attend_span_of(a, row);
    uint32_t first = rf_attend_first_block(&span), end = rf_attend_end_block(&span), next;
    head_part t, segment;
    head_query q;
    rf_attend_limit(a, &first, &end);
    for (uint32_t h = 0; h < a->n_q; h++) {
        q.x = a->q + row * a->q_stride + (size_t)h * a->head_dim;
        if (rf_attend_is_int(a->k_type)) make_int_query(&q.ints, q.x, a->head_dim);
        float *dst = a->dst + row * a->dst_stride + (size_t)h * a->value_dim;
        start(&t, rf_attend_sink(a, h), a->value_dim);
        for (uint32_t b = first, i = 0; b < end; b = next, i++) {
            next = rf_attend_segment_end(b, end);
            bool is_seen = attend_segment(a, row, &span, &q, &segment, b, next);
            if (a->sums)
                put_sums(a, &segment, is_seen, rf_attend_sums_of(a, i, h));
            else if (is_seen)
                fold(&t, &segment, a->value_dim);
        }
        if (!a->sums) finish(a, &t, dst);
    }
}

static void attend_fold_scalar(const rf_attend *a) {
    head_part t, segment;
    for (uint32_t h = 0; h < a->n_q; h++) {
        start(&t, rf_attend_sink(a, h), a->value_dim);
        for (uint32_t i = 0; i < a->n_segments; i++) {
            const float *sums = rf_attend_sums_of(a, i, h);
            if (sums[1] < 0) continue; /* a NaN counts */
            segment.m = sums[0];
            segment.l = sums[1];
            memcpy(segment.acc, sums + RF_ATTEND_SUMS, a->value_dim * sizeof *sums);
            fold(&t, &segment, a->value_dim);
        }
        finish(a, &t, a->dst + (size_t)h * a->value_dim);
    }
}

static void attend_scalar(const rf_attend *a) {
    for (uint32_t row = 0; row < a->n_rows; row++)
        attend_row(a, row);
}

void rf_cpu_vec_scalar(rf_cpu_kernels *k) {
    set_row_kernels(k);
    k->rope = rope_scalar;
    k->f32_to_f16 = f32_to_f16_scalar;
    k->attend = attend_scalar;
    k->attend_fold = attend_fold_scalar;
}
