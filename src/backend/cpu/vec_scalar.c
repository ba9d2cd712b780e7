/* vec_scalar.c - every kernel but the matrix product, in plain C.
 *
 * This is docs/arithmetic.md written out: the other instruction sets must give the same bits. */
#include "backend/cpu/attend.h"
#include "backend/cpu/lanes_scalar.h"
#include "backend/cpu/vec_rows.h"
#include "quant/bits.h"

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
    if (type == RF_DT_Q8_0) {
        const rf_block_q8_0 *b = (const rf_block_q8_0 *)(const void *)row + i / 32;
        return (float)b->qs[i % 32] * rf_load_half(b->d);
    }
    if (type == RF_DT_Q4_0) {
        const rf_block_q4_0 *b = (const rf_block_q4_0 *)(const void *)row + i / 32;
        int q = b->qs[i % 16] >> (i % 32 < 16 ? 0 : 4) & 15;
        return (float)(q - 8) * rf_load_half(b->d);
    }
    float f;
    memcpy(&f, row + 4 * (size_t)i, sizeof f);
    return f;
}

/* q . k over lanes; a head_dim that is no multiple of 16 is continued with zeros. */
static float score(const float *q, const uint8_t *k, uint32_t n, rf_dtype type) {
    lanes s = lanes_set(0.0f);
    for (uint32_t i = 0; i < n; i += 16) {
        lanes x = {{0}};
        for (uint32_t j = 0; j < 16 && i + j < n; j++)
            x.v[j] = kv_at(k, i + j, type);
        s = lanes_fma(lanes_load_n(q + i, n - i), x, s);
    }
    return lanes_tree16(s);
}

static float tree32(const float p[32]) {
    return lanes_tree16(lanes_add(lanes_load_n(p, 16), lanes_load_n(p + 16, 16)));
}

/* The running softmax of one query head. */
typedef struct head_state {
    float m, l;
} head_state;

static void attend_block(const rf_attend *a, const float *q, float *acc, head_state *st,
                         uint32_t block, uint32_t bits) {
    const uint8_t *k = a->k + a->table[block] * a->k_block;
    const uint8_t *v = a->v + a->table[block] * a->v_block;
    float s[RF_KV_BLOCK] = {0}, p[RF_KV_BLOCK] = {0};
    float m_new = st->m;
    for (uint32_t left = bits; left; left &= left - 1) {
        uint32_t j = (uint32_t)__builtin_ctz(left);
        s[j] = score(q, k + j * a->k_row, a->head_dim, a->k_type) * a->scale;
        if (a->softcap > 0) s[j] = a->softcap * rf_tanhf(s[j] / a->softcap);
        if (a->mask) s[j] += a->mask[block * RF_KV_BLOCK + j];
        if (s[j] > m_new) m_new = s[j];
    }
    if (m_new > st->m) {
        float c = st->m == -INFINITY ? 0.0f : rf_expf(st->m - m_new);
        st->l *= c;
        for (uint32_t d = 0; d < a->value_dim; d++)
            acc[d] *= c;
        st->m = m_new;
    }
    for (uint32_t left = bits; left; left &= left - 1) {
        uint32_t j = (uint32_t)__builtin_ctz(left);
        p[j] = rf_expf(s[j] - m_new);
        for (uint32_t d = 0; d < a->value_dim; d++)
            acc[d] = fmaf(p[j], kv_at(v + j * a->v_row, d, a->v_type), acc[d]);
    }
    st->l += tree32(p);
}

/* One segment's blocks [b, end); false when none of its keys is visible. */
static bool attend_segment(const rf_attend *a, const rf_attend_span *span, const float *q,
                           float *acc, head_state *st, uint32_t b, uint32_t end) {
    bool is_seen = false;
    *st = (head_state){-INFINITY, 0.0f};
    memset(acc, 0, a->value_dim * sizeof *acc);
    for (; b < end; b++) {
        uint32_t bits = rf_attend_bits(a, span, b);
        if (bits) attend_block(a, q, acc, st, b, bits);
        is_seen = is_seen || bits;
    }
    return is_seen;
}

static void fold_segment(float *total, head_state *t, const float *acc, const head_state *st,
                         uint32_t n) {
    float m = st->m > t->m ? st->m : t->m;
    if (t->m == -INFINITY) { /* the first one */
        *t = *st;
        memcpy(total, acc, n * sizeof *total);
        return;
    }
    float c_total = rf_expf(t->m - m), c_acc = rf_expf(st->m - m);
    t->m = m;
    t->l = fmaf(st->l, c_acc, t->l * c_total);
    fold_lanes(total, acc, c_total, c_acc, n);
}

static void attend_scalar(const rf_attend *a) {
    rf_attend_span span = rf_attend_span_of(a);
    uint32_t end = rf_attend_end_block(&span), next;
    float acc[RF_MAX_HEAD_DIM];
    for (uint32_t h = 0; h < a->n_q; h++) {
        const float *q = a->q + (size_t)h * a->head_dim;
        float *total = a->dst + (size_t)h * a->value_dim, sink = rf_attend_sink(a, h);
        head_state t = {sink, sink == -INFINITY ? 0.0f : 1.0f}, st;
        memset(total, 0, a->value_dim * sizeof *total);
        for (uint32_t b = rf_attend_first_block(&span); b < end; b = next) {
            next = rf_attend_segment_end(b, end);
            if (attend_segment(a, &span, q, acc, &st, b, next))
                fold_segment(total, &t, acc, &st, a->value_dim);
        }
        if (t.l == 0.0f) continue; /* no key is visible */
        for (uint32_t d = 0; d < a->value_dim; d++)
            total[d] /= t.l;
    }
}

void rf_cpu_vec_scalar(rf_cpu_kernels *k) {
    set_row_kernels(k);
    k->rope = rope_scalar;
    k->f32_to_f16 = f32_to_f16_scalar;
    k->attend = attend_scalar;
}
