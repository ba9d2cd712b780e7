/* rope.c - the frequencies of rotary position embeddings, every scaling applied at open time.
 *
 * inv_freq[i] = base^(-2i/n) / factor[i], then scaled: by 1/factor (linear), or towards that by
 * the ramp of YaRN (arXiv 2309.00071, section 3.2), which also gives the magnitude of cos and
 * sin.  Llama 3's scaling arrives ready made as rope_freqs.weight, LongRoPE (arXiv 2402.13753) as
 * two tensors of factors, one for contexts beyond the original.  NTK scaling raises the base by
 * alpha^(n/(n-2)), in the file or here.  Everything in double with our own pow, so that two machines
 * never disagree on an angle. */
#include <math.h>

#include "base/fmath.h"
#include "model/bind.h"

/* Beyond this an angle could leave the range that rf_sincos is exact in. */
static const double max_inv_freq = 1e9 / RF_MAX_CONTEXT;

static const double two_pi = 6.283185307179586;

/* base^(-2i/n), [n_dims / 2]; NULL after a failure. */
static double *plain_frequencies(rf_binder *b, uint32_t n_dims, double base) {
    double *inv_freq = rf_arena_alloc(b->m->arena, n_dims / 2, sizeof *inv_freq);
    if (!inv_freq) {
        b->status = rf_fail_nomem(b->e, n_dims / 2 * sizeof *inv_freq);
        return NULL;
    }
    for (uint32_t i = 0; i < n_dims / 2; i++)
        inv_freq[i] = rf_pow(base, -2.0 * i / n_dims);
    return inv_freq;
}

/* The (fractional) pair of dimensions that turns n_rot times within the original context. */
static double yarn_dim(double n_dims, double n_ctx, double n_rot, double base) {
    return n_dims * rf_log(n_ctx / (n_rot * two_pi)) / (2 * rf_log(base));
}

static uint32_t original_context(rf_binder *b) {
    return rf_bind_u32(b, "rope.scaling.original_context_length", b->m->n_ctx_train,
                       RF_MAX_CONTEXT);
}

/* YaRN makes scores larger: 0.1 ln(factor) + 1 on cos and sin.  Models with a log multiplier have
 * it on the scores of attention instead, so here it is 1. */
static double yarn_magnitude(rf_binder *b, double factor, double ext) {
    float log_mul = rf_bind_optional_f32(b, "rope.scaling.yarn_log_multiplier");
    float attn = rf_bind_any_f32(b, "rope.scaling.yarn_attn_factor", 1);
    if (b->status == RF_OK && attn != 1)
        rf_bind_fail(b, RF_EUNSUPPORTED,
                     "key %s.rope.scaling.yarn_attn_factor is %g; only 1 is supported, magnitudes "
                     "are in rope.scaling.attn_factor",
                     b->m->arch->name, (double)attn);
    return ext != 0 && factor > 1 && log_mul == 0 ? 0.1 * rf_log(factor) + 1 : 1;
}

/* The magnitude is returned. */
static double scale_yarn(rf_binder *b, double *inv_freq, double base, double factor) {
    uint32_t n_dims = b->m->rope.n_dims;
    double n_ctx = original_context(b);
    double fast = (double)rf_bind_f32(b, "rope.scaling.yarn_beta_fast", 32);
    double slow = (double)rf_bind_f32(b, "rope.scaling.yarn_beta_slow", 1);
    double ext = (double)rf_bind_any_f32(b, "rope.scaling.yarn_ext_factor", 1);
    double magnitude = yarn_magnitude(b, factor, ext);
    if (b->status != RF_OK) return 1;
    if (!(base > 1)) {
        rf_bind_fail(b, RF_EFORMAT, "yarn scaling needs rope.freq_base above 1, got %g", base);
        return 1;
    }
    if (!(ext >= 0 && ext <= 1)) {
        rf_bind_fail(b, RF_EFORMAT, "key %s.rope.scaling.yarn_ext_factor is %g, expected 0 to 1",
                     b->m->arch->name, ext);
        return 1;
    }
    double low = yarn_dim(n_dims, n_ctx, fast, base), high = yarn_dim(n_dims, n_ctx, slow, base);
    if (!b->m->arch->yarn_exact) {
        low = floor(low);
        high = ceil(high);
    }
    if (low < 0) low = 0;
    if (high > n_dims - 1.0) high = n_dims - 1.0;
    double span = high - low > 0.001 ? high - low : 0.001;
    for (uint32_t i = 0; i < n_dims / 2; i++) {
        double y = (i - low) / span;
        double keep = ext * (1 - (y < 0 ? 0 : y > 1 ? 1 : y)); /* 1: fast dimensions, untouched */
        inv_freq[i] = inv_freq[i] / factor * (1 - keep) + inv_freq[i] * keep;
    }
    return magnitude;
}

/* The magnitude is returned. */
static double scale(rf_binder *b, double *inv_freq, double base) {
    rf_str type = rf_bind_str(b, "rope.scaling.type", "linear");
    double factor = (double)rf_bind_f32(
        b, "rope.scaling.factor", rf_bind_f32(b, "rope.scale_linear", 1)); /* the older name */
    double attn = (double)rf_bind_f32(b, "rope.scaling.attn_factor", 1);
    if (b->status != RF_OK || rf_str_is(type, "none")) return 1;
    if (rf_str_is(type, "linear")) {
        for (uint32_t i = 0; i < b->m->rope.n_dims / 2; i++)
            inv_freq[i] /= factor;
    } else if (rf_str_is(type, "yarn")) {
        return attn * scale_yarn(b, inv_freq, base, factor);
    } else if (!rf_str_is(type, "longrope")) { /* its factors are tensors */
        rf_bind_fail(
            b, RF_EUNSUPPORTED,
            "key %s.rope.scaling.type is \"%.*s\"; this build knows none, linear, yarn and "
            "longrope",
            b->m->arch->name, (int)(type.len > 64 ? 64 : type.len), type.p);
    }
    return attn;
}

/* Divides by the factors of a tensor, [n_dims / 2], where the file has it. */
static void divide_by_factors(rf_binder *b, double *inv_freq, rf_need need, const char *name) {
    uint32_t n = b->m->rope.n_dims / 2;
    const rf_tensor *w = rf_bind_tensor(b, need, 1, n, "%s", name);
    if (!w) return;
    float factor[RF_MAX_HEAD_DIM / 2];
    rf_dtype_get(w->type)->decode(w->data, factor, n);
    for (uint32_t i = 0; i < n; i++) {
        if (!(factor[i] > 0) || !isfinite(factor[i])) {
            rf_bind_fail(b, RF_EFORMAT, "tensor %s: factor %u is %g, expected a positive number",
                         name, i, (double)factor[i]);
            return;
        }
        inv_freq[i] /= (double)factor[i];
    }
}

static void check_range(rf_binder *b, const rf_rope *r) {
    for (uint32_t i = 0; i < r->n_dims / 2 && b->status == RF_OK; i++)
        if (!(r->inv_freq[i] >= 0 && r->inv_freq[i] <= max_inv_freq))
            rf_bind_fail(
                b, RF_EFORMAT,
                "rope frequency %u is %g, expected 0 to %g; rope.freq_base, rope.scaling or "
                "the tensor of factors is wrong",
                i, r->inv_freq[i], max_inv_freq);
}

/* Plain frequencies, divided by the tensor called factors, then scaled by the metadata. */
static void bind_scaled(rf_binder *b, rf_rope *out, double base, rf_need need,
                        const char *factors) {
    double *inv_freq = plain_frequencies(b, b->m->rope.n_dims, base);
    if (!inv_freq) return;
    divide_by_factors(b, inv_freq, need, factors);
    *out = b->m->rope;
    out->inv_freq = inv_freq;
    out->magnitude = (float)scale(b, inv_freq, base);
    check_range(b, out);
}

/* Layers with a window rotate by frequencies of their own, which no scaling touches. */
static void bind_local(rf_binder *b, double base) {
    rf_model *m = b->m;
    float fallback = m->arch->rope_local_base > 0 ? m->arch->rope_local_base : (float)base;
    double local = (double)rf_bind_f32(b, "rope.freq_base_swa", fallback);
    if (b->status != RF_OK) return;
    double *inv_freq = plain_frequencies(b, m->rope.n_dims, local);
    if (!inv_freq) return;
    m->rope_local = m->rope;
    m->rope_local.inv_freq = inv_freq;
    m->rope_local.magnitude = 1;
    check_range(b, &m->rope_local);
}

/* rope.freq_base, raised by NTK scaling where the file has its alpha. */
static double bind_base(rf_binder *b) {
    double base = (double)rf_bind_f32(b, "rope.freq_base", 10000);
    double alpha = (double)rf_bind_optional_f32(b, "rope.scaling.alpha");
    double n = b->m->head_dim;
    return alpha > 0 && n > 2 ? base * rf_pow(alpha, n / (n - 2)) : base;
}

void rf_bind_rope(rf_binder *b) {
    rf_model *m = b->m;
    uint32_t n = rf_bind_u32(b, "rope.dimension_count", m->head_dim, m->head_dim);
    double base = bind_base(b);
    if (b->status != RF_OK) return;
    if (n % 2 != 0) {
        rf_bind_fail(b, RF_EFORMAT,
                     "key %s.rope.dimension_count is %u, expected an even number up to %u",
                     m->arch->name, n, m->head_dim);
        return;
    }
    m->rope = (rf_rope){.kind = m->arch->rope, .n_dims = n, .magnitude = 1};
    if (rf_gguf_find_tensor(m->file, "rope_factors_long.weight")) {
        m->n_ctx_short = original_context(b);
        bind_scaled(b, &m->rope_long, base, RF_NEED, "rope_factors_long.weight");
        bind_scaled(b, &m->rope, base, RF_NEED, "rope_factors_short.weight");
    } else {
        bind_scaled(b, &m->rope, base, RF_MAY, "rope_freqs.weight");
    }
    if (m->arch->rope_local) bind_local(b, base);
}
