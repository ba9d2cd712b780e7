/* vec_scalar.c - every kernel but the matrix product, in plain C.
 *
 * This is docs/arithmetic.md written out: the other instruction sets must give the same bits.  All
 * element-wise kernels allow dst to be one of their inputs. */
#include <math.h>
#include <string.h>

#include "backend/cpu/attend.h"
#include "backend/cpu/kernels.h"
#include "base/fmath.h"

static float tree16(const float lane[16]) {
    float s[8];
    for (int i = 0; i < 8; i++)
        s[i] = lane[i] + lane[i + 8];
    for (int i = 0; i < 4; i++)
        s[i] += s[i + 4];
    for (int i = 0; i < 2; i++)
        s[i] += s[i + 2];
    return s[0] + s[1];
}

static void rms_norm_scalar(float *dst, const float *x, const float *w, size_t n, float eps) {
    float lane[16] = {0};
    for (size_t k = 0; k < n; k++)
        lane[k % 16] = fmaf(x[k], x[k], lane[k % 16]);
    float r = 1.0f / sqrtf(tree16(lane) / (float)n + eps);
    for (size_t k = 0; k < n; k++)
        dst[k] = (x[k] * r) * w[k];
}

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

static void silu_mul_scalar(float *dst, const float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++)
        dst[i] = gate[i] / (1.0f + rf_expf(-gate[i])) * up[i];
}

static void add_scalar(float *dst, const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        dst[i] = a[i] + b[i];
}

static void f32_to_f16_scalar(uint16_t *dst, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        dst[i] = rf_f32_to_f16(x[i]);
}

static float kv_at(const uint8_t *row, uint32_t i, rf_dtype type) {
    if (type == RF_DT_F16) {
        uint16_t h;
        memcpy(&h, row + 2 * (size_t)i, sizeof h);
        return rf_f16_to_f32(h);
    }
    float f;
    memcpy(&f, row + 4 * (size_t)i, sizeof f);
    return f;
}

/* q . k over lanes; a head_dim that is no multiple of 16 is continued with zeros. */
static float score(const float *q, const uint8_t *k, uint32_t n, rf_dtype type) {
    float lane[16] = {0};
    for (uint32_t i = 0; i < n; i += 16) {
        for (uint32_t j = 0; j < 16; j++) {
            bool in = i + j < n;
            lane[j] = fmaf(in ? q[i + j] : 0.0f, in ? kv_at(k, i + j, type) : 0.0f, lane[j]);
        }
    }
    return tree16(lane);
}

static float tree32(const float p[32]) {
    float s[16];
    for (int i = 0; i < 16; i++)
        s[i] = p[i] + p[i + 16];
    return tree16(s);
}

/* The running softmax of one query head. */
typedef struct head_state {
    float m, l;
} head_state;

static void attend_block(const rf_attend *a, const float *q, float *acc, head_state *st,
                         uint32_t block, uint32_t bits) {
    size_t at = a->table[block] * a->block_stride;
    float s[RF_KV_BLOCK] = {0}, p[RF_KV_BLOCK] = {0};
    float m_new = st->m;
    for (uint32_t left = bits; left; left &= left - 1) {
        uint32_t j = (uint32_t)__builtin_ctz(left);
        s[j] = score(q, a->k + at + j * a->row_stride, a->head_dim, a->kv_type) * a->scale;
        if (a->mask) s[j] += a->mask[block * RF_KV_BLOCK + j];
        if (s[j] > m_new) m_new = s[j];
    }
    if (m_new > st->m) {
        float c = st->m == -INFINITY ? 0.0f : rf_expf(st->m - m_new);
        st->l *= c;
        for (uint32_t d = 0; d < a->head_dim; d++)
            acc[d] *= c;
        st->m = m_new;
    }
    for (uint32_t left = bits; left; left &= left - 1) {
        uint32_t j = (uint32_t)__builtin_ctz(left);
        const uint8_t *v = a->v + at + j * a->row_stride;
        p[j] = rf_expf(s[j] - m_new);
        for (uint32_t d = 0; d < a->head_dim; d++) {
            acc[d] = fmaf(p[j], kv_at(v, d, a->kv_type), acc[d]);
        }
    }
    st->l += tree32(p);
}

static void attend_scalar(const rf_attend *a) {
    rf_attend_span span = rf_attend_span_of(a);
    uint32_t end = rf_attend_end_block(&span);
    for (uint32_t h = 0; h < a->n_q; h++) {
        float *acc = a->dst + (size_t)h * a->head_dim;
        head_state st = {-INFINITY, 0.0f};
        bool any = false;
        memset(acc, 0, a->head_dim * sizeof *acc);
        for (uint32_t b = rf_attend_first_block(&span); b < end; b++) {
            uint32_t bits = rf_attend_bits(a, &span, b);
            if (!bits) continue;
            any = true;
            attend_block(a, a->q + (size_t)h * a->head_dim, acc, &st, b, bits);
        }
        if (!any) continue;
        for (uint32_t d = 0; d < a->head_dim; d++)
            acc[d] /= st.l;
    }
}

void rf_cpu_vec_scalar(rf_cpu_kernels *k) {
    k->rms_norm = rms_norm_scalar;
    k->rope = rope_scalar;
    k->silu_mul = silu_mul_scalar;
    k->add = add_scalar;
    k->f32_to_f16 = f32_to_f16_scalar;
    k->attend = attend_scalar;
}
