/* rope.c - the frequencies of rotary position embeddings, every scaling applied at open time.
 *
 * inv_freq[i] = base^(-2i/n) / factor[i], then scaled: by 1/factor (linear), or towards that by
 * the ramp of YaRN (arXiv 2309.00071, section 3.2), which also gives the magnitude of cos and
 * sin.  Llama 3's scaling arrives ready made as rope_freqs.weight.  Everything in double with our
 * own pow, so that two machines never disagree on an angle. */
#include <math.h>

#include "base/fmath.h"
#include "model/bind.h"

/* Beyond this an angle could leave the range that rf_sincos is exact in. */
static const double max_inv_freq = 1e9 / RF_MAX_CONTEXT;

static const double two_pi = 6.283185307179586;

/* The (fractional) pair of dimensions that turns n_rot times within the original context. */
static double yarn_dim(double n_dims, double n_ctx, double n_rot, double base) {
    return n_dims * rf_log(n_ctx / (n_rot * two_pi)) / (2 * rf_log(base));
}

/* Variants of YaRN by keys that only their neutral value is known for. */
static void refuse_other(rf_binder *b, const char *name, float neutral) {
    float v = rf_bind_any_f32(b, name, neutral);
    if (v != neutral)
        rf_bind_fail(b, RF_EUNSUPPORTED, "key %s.%s is %g; only %g is supported", b->m->arch->name,
                     name, (double)v, (double)neutral);
}

static void scale_yarn(rf_binder *b, double *inv_freq, double base, double factor) {
    rf_rope *r = &b->m->rope;
    double n_ctx =
        rf_bind_u32(b, "rope.scaling.original_context_length", b->m->n_ctx_train, RF_MAX_CONTEXT);
    double fast = (double)rf_bind_f32(b, "rope.scaling.yarn_beta_fast", 32);
    double slow = (double)rf_bind_f32(b, "rope.scaling.yarn_beta_slow", 1);
    double attn = (double)rf_bind_f32(b, "rope.scaling.attn_factor", 1);
    refuse_other(b, "rope.scaling.yarn_ext_factor", 1);
    refuse_other(b, "rope.scaling.yarn_attn_factor", 1);
    refuse_other(b, "rope.scaling.yarn_log_multiplier", 0);
    if (b->status != RF_OK) return;
    if (!(base > 1)) {
        rf_bind_fail(b, RF_EFORMAT, "yarn scaling needs rope.freq_base above 1, got %g", base);
        return;
    }
    double low = floor(yarn_dim(r->n_dims, n_ctx, fast, base));
    double high = ceil(yarn_dim(r->n_dims, n_ctx, slow, base));
    if (low < 0) low = 0;
    if (high > r->n_dims - 1.0) high = r->n_dims - 1.0;
    double span = high - low > 0.001 ? high - low : 0.001;
    for (uint32_t i = 0; i < r->n_dims / 2; i++) {
        double y = (i - low) / span;
        double keep = 1 - (y < 0 ? 0 : y > 1 ? 1 : y); /* 1: fast dimensions, untouched */
        inv_freq[i] = inv_freq[i] / factor * (1 - keep) + inv_freq[i] * keep;
    }
    r->magnitude = (float)(attn * (factor > 1 ? 0.1 * rf_log(factor) + 1 : 1));
}

static void scale(rf_binder *b, double *inv_freq, double base) {
    rf_str type = rf_bind_str(b, "rope.scaling.type", "linear");
    double factor = (double)rf_bind_f32(
        b, "rope.scaling.factor", rf_bind_f32(b, "rope.scale_linear", 1)); /* the older name */
    if (b->status != RF_OK || rf_str_is(type, "none")) return;
    if (rf_str_is(type, "linear")) {
        for (uint32_t i = 0; i < b->m->rope.n_dims / 2; i++)
            inv_freq[i] /= factor;
    } else if (rf_str_is(type, "yarn")) {
        scale_yarn(b, inv_freq, base, factor);
    } else {
        rf_bind_fail(b, RF_EUNSUPPORTED,
                     "key %s.rope.scaling.type is \"%.*s\"; this build knows none, linear and yarn",
                     b->m->arch->name, (int)(type.len > 64 ? 64 : type.len), type.p);
    }
}

/* Divides by the factors of rope_freqs.weight, [n_dims / 2], where the file has it. */
static void divide_by_factors(rf_binder *b, double *inv_freq) {
    uint32_t n = b->m->rope.n_dims / 2;
    const rf_tensor *w = rf_bind_tensor(b, RF_MAY, 1, n, "rope_freqs.weight");
    if (!w) return;
    float factor[RF_MAX_HEAD_DIM / 2];
    rf_dtype_get(w->type)->decode(w->data, factor, n);
    for (uint32_t i = 0; i < n; i++) {
        if (!(factor[i] > 0) || !isfinite(factor[i])) {
            rf_bind_fail(b, RF_EFORMAT,
                         "tensor rope_freqs.weight: factor %u is %g, expected a positive number", i,
                         (double)factor[i]);
            return;
        }
        inv_freq[i] /= (double)factor[i];
    }
}

void rf_bind_rope(rf_binder *b) {
    rf_model *m = b->m;
    uint32_t n = rf_bind_u32(b, "rope.dimension_count", m->head_dim, m->head_dim);
    double base = (double)rf_bind_f32(b, "rope.freq_base", 10000);
    if (b->status != RF_OK) return;
    if (n % 2 != 0) {
        rf_bind_fail(b, RF_EFORMAT,
                     "key %s.rope.dimension_count is %u, expected an even number up to %u",
                     m->arch->name, n, m->head_dim);
        return;
    }
    double *inv_freq = rf_arena_alloc(m->arena, n / 2, sizeof *inv_freq);
    if (!inv_freq) {
        b->status = rf_fail_nomem(b->e, n / 2 * sizeof *inv_freq);
        return;
    }
    m->rope = (rf_rope){.kind = m->arch->rope, .n_dims = n, .inv_freq = inv_freq, .magnitude = 1};
    for (uint32_t i = 0; i < n / 2; i++)
        inv_freq[i] = rf_pow(base, -2.0 * i / n);
    divide_by_factors(b, inv_freq);
    scale(b, inv_freq, base);
    for (uint32_t i = 0; i < n / 2 && b->status == RF_OK; i++)
        if (!(inv_freq[i] >= 0 && inv_freq[i] <= max_inv_freq))
            rf_bind_fail(
                b, RF_EFORMAT,
                "rope frequency %u is %g, expected 0 to %g; rope.freq_base, rope.scaling or "
                "rope_freqs.weight is wrong",
                i, inv_freq[i], max_inv_freq);
}
