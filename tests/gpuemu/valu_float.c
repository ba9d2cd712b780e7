/* valu_float.c - vector arithmetic in f32 and f64, and the steps of division.
 *
 * Every operation rounds as IEEE 754 says; denormals are kept, as the kernels' mode words ask. */
#include "gpuemu/valu.h"

static int approximation;

void rf_emu_set_approximation(int ulps) { approximation = ulps; }

/* A neighbour of an exact result, as a card's table look-up might give it. */
float rf_emu_approximate(float exact) {
    if (approximation == 0 || exact == 0 || !isfinite(exact)) return exact;
    return rf_emu_f32(rf_emu_u32(exact) + (uint32_t)approximation);
}

FF1(mov_f, FA)
FF2(add_f, FA + FB)
FF2(sub_f, FA - FB)
FF2(subrev_f, FB - FA)
FF2(mul_f, FA *FB)
FF2(mul_zero_f, FA == 0 || FB == 0 ? 0 : FA * FB) /* "legacy": 0 * anything = 0 */
FF2(min_f, rf_emu_min(FA, FB))
FF2(max_f, rf_emu_max(FA, FB))
FF3(fma_f, fmaf(FA, FB, FC))
FF3(mad_f, FA *FB + FC)
FF3(min3_f, rf_emu_min(rf_emu_min(FA, FB), FC))
FF3(max3_f, rf_emu_max(rf_emu_max(FA, FB), FC))
FF3(maxmin_f, rf_emu_min(rf_emu_max(FA, FB), FC))
FF3(minmax_f, rf_emu_max(rf_emu_min(FA, FB), FC))
FF3(med3_f, FA != FA || FB != FB || FC != FC
                ? rf_emu_min(rf_emu_min(FA, FB), FC)
                : rf_emu_max(rf_emu_min(FA, FB), rf_emu_min(rf_emu_max(FA, FB), FC)))

FF1(rcp_f, rf_emu_approximate(1.0f / FA))
FF1(rsq_f, rf_emu_approximate((float)(1.0 / sqrt((double)FA))))
FF1(sqrt_f, rf_emu_approximate(sqrtf(FA)))
FF1(exp_f, exp2f(FA))
FF1(log_f, log2f(FA))
FF1(sin_f, (float)sin(6.283185307179586 * (double)FA))
FF1(cos_f, (float)cos(6.283185307179586 * (double)FA))
static float fract(float f) {
    float r = f - floorf(f);
    return r >= 1 ? 0x1.fffffep-1f : r;
}
FF1(fract_f, fract(FA))
FF1(floor_f, floorf(FA))
FF1(ceil_f, ceilf(FA))
FF1(trunc_f, truncf(FA))
FF1(rndne_f, rintf(FA))

static float mantissa(float f) {
    int e;
    return isfinite(f) ? frexpf(f, &e) : f;
}
static int32_t exponent(float f) {
    int e = 0;
    if (isfinite(f)) frexpf(f, &e);
    return e;
}
/* f * 2^n with one rounding */
static float scale(float f, int32_t n) {
    if (n > 400) n = 400;
    if (n < -400) n = -400;
    return (float)((double)f * rf_emu_f64((uint64_t)(n + 1023) << 52));
}
FF1(frexp_mant_f, mantissa(FA))
F1(frexp_exp_f, exponent(FA))
FF2(ldexp_f, scale(FA, IB))

FF1(f_of_i, (float)IA)
FF1(f_of_u, (float)A)
FF1(f_of_ubyte0, (float)(A & 255))
FF1(f_of_ubyte1, (float)(A >> 8 & 255))
FF1(f_of_ubyte2, (float)(A >> 16 & 255))
FF1(f_of_ubyte3, (float)(A >> 24))
static uint32_t i_of(float f) {
    if (f != f) return 0;
    if (f >= 0x1p31f) return INT32_MAX;
    return f <= -0x1p31f ? 0x80000000u : (uint32_t)(int32_t)f;
}
static uint32_t u_of(float f) {
    if (!(f > 0)) return 0;
    return f >= 0x1p32f ? UINT32_MAX : (uint32_t)f;
}
F1(i_of_f, i_of(FA))
F1(u_of_f, u_of(FA))
F1(i_of_f_floor, i_of(floorf(FA)))
F1(i_of_f_near, i_of(floorf(FA + 0.5f)))

/* ---- division: scale, estimate (v_rcp), refine (v_fma), v_div_fmas, v_div_fixup ---- */

static int biased(float f) { return (int)(rf_emu_u32(f) >> 23 & 255); }
static bool denormal(double f) { return f != 0 && fabs(f) < 0x1p-126; }

/* s scaled so that the refinement neither overflows nor loses bits; *scaled: v_div_fmas undoes it.
 * s is the denominator b or the numerator a. */
static float div_scale(float s, float b, float a, bool *scaled) {
    *scaled = false;
    if (a == 0 || b == 0) return rf_emu_f32(0x7fc00000);
    double inverse = 1.0 / (double)b, quotient = (double)a / (double)b;
    bool is_b = rf_emu_u32(s) == rf_emu_u32(b), is_a = rf_emu_u32(s) == rf_emu_u32(a);
    if (biased(a) - biased(b) >= 96) {
        *scaled = true;
        return is_b ? scale(s, 64) : s;
    }
    if (denormal((double)b)) return scale(s, 64);
    if (denormal(inverse) && denormal(quotient)) {
        *scaled = true;
        return is_b ? scale(s, -64) : s;
    }
    if (denormal(inverse)) return scale(s, -64);
    if (denormal(quotient)) {
        *scaled = true;
        return is_a ? scale(s, 64) : s;
    }
    return biased(a) <= 23 ? scale(s, 64) : s;
}

static void div_scale_f(rf_emu_lanes *x) {
    const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2];
    uint64_t m = 0;
    EACH {
        bool scaled;
        x->d[l] = rf_emu_u32(div_scale(FA, FB, FC, &scaled));
        m |= (uint64_t)scaled << l;
    }
    x->mask_out = m;
}

/* The last step of the refinement; the undone scaling is part of its one rounding. */
static float div_fmas(float a, float b, float c, bool scaled) {
    if (!scaled) return fmaf(a, b, c);
    return (float)(rf_emu_fma_odd((double)a, (double)b, (double)c) *
                   (biased(c) > 127 ? 0x1p64 : 0x1p-64));
}

static void div_fmas_f(rf_emu_lanes *x) {
    const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2];
    EACH x->d[l] = rf_emu_u32(div_fmas(FA, FB, FC, x->mask_in >> l & 1));
}

/* The quotient q of a / b, or what IEEE wants where a or b is special. */
static float div_fixup(float q, float b, float a) {
    uint32_t sign = (rf_emu_u32(a) ^ rf_emu_u32(b)) & 0x80000000u;
    if (a != a) return rf_emu_f32(rf_emu_u32(a) | 0x400000);
    if (b != b) return rf_emu_f32(rf_emu_u32(b) | 0x400000);
    if ((a == 0 && b == 0) || (isinf(a) && isinf(b))) return rf_emu_f32(0xffc00000);
    if (b == 0 || isinf(a)) return rf_emu_f32(sign | 0x7f800000);
    if (a == 0 || isinf(b)) return rf_emu_f32(sign);
    if (biased(a) - biased(b) < -150) return rf_emu_f32(sign);
    if (q != q) return rf_emu_f32(sign | 0x7f800000); /* refining an infinite estimate */
    return rf_emu_f32((rf_emu_u32(q) & 0x7fffffff) | sign);
}
FF3(div_fixup_f, div_fixup(FA, FB, FC))

/* ---- two f32 at a time ---- */

static void pk_fma_f(rf_emu_lanes *x) {
    const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2];
    for (uint32_t l = 0; l < x->n; l++)
        x->d[l] = rf_emu_u32(fmaf(FA, FB, FC));
    for (uint32_t l = RF_EMU_ROW; l < RF_EMU_ROW + x->n; l++)
        x->d[l] = rf_emu_u32(fmaf(FA, FB, FC));
}
static void pk_mul_f(rf_emu_lanes *x) {
    const uint32_t *s0 = x->s[0], *s1 = x->s[1];
    for (uint32_t l = 0; l < x->n; l++)
        x->d[l] = rf_emu_u32(FA * FB);
    for (uint32_t l = RF_EMU_ROW; l < RF_EMU_ROW + x->n; l++)
        x->d[l] = rf_emu_u32(FA * FB);
}
static void pk_add_f(rf_emu_lanes *x) {
    const uint32_t *s0 = x->s[0], *s1 = x->s[1];
    for (uint32_t l = 0; l < x->n; l++)
        x->d[l] = rf_emu_u32(FA + FB);
    for (uint32_t l = RF_EMU_ROW; l < RF_EMU_ROW + x->n; l++)
        x->d[l] = rf_emu_u32(FA + FB);
}
/* The word of each source that op_sel chooses; op_sel_hi has no say. */
static void pk_mov(rf_emu_lanes *x) {
    for (uint32_t l = 0; l < x->n; l++) {
        x->d[l] = x->s[0][l];
        x->d[RF_EMU_ROW + l] = x->s[1][l];
    }
}

/* ---- f64 ---- */

#define D64(e) rf_emu_u64(e)
W2(add_d, D64(DA + DB))
W2(mul_d, D64(DA *DB))
W2(min_d, D64(fmin(DA, DB)))
W2(max_d, D64(fmax(DA, DB)))
W3(fma_d, D64(fma(DA, DB, DC)))
W1(rcp_d, D64(1.0 / DA))
W1(rsq_d, D64(1.0 / sqrt(DA)))
W1(sqrt_d, D64(sqrt(DA)))
W1(floor_d, D64(floor(DA)))
W1(ceil_d, D64(ceil(DA)))
W1(trunc_d, D64(trunc(DA)))
W1(rndne_d, D64(rint(DA)))
W2(ldexp_d, D64(ldexp(DA, IB)))
W1(d_of_f, D64((double)FA))
W1(d_of_i, D64((double)IA))
W1(d_of_u, D64((double)A))
FF1(f_of_d, (float)DA)
static uint32_t i_of_double(double d) {
    if (d != d) return 0;
    if (d >= 0x1p31) return INT32_MAX;
    return d <= -0x1p31 ? 0x80000000u : (uint32_t)(int32_t)d;
}
F1(i_of_d, i_of_double(DA))

/* f32 and its forms on gfx12, whose minima are named _num */
#define BOTH(a_, b_, sig_, fn_) V(a_, sig_, fn_), V(b_, sig_, fn_)

const rf_emu_op rf_emu_ops_float[] = {
    V("v_add_f32", "f:ff", add_f),
    V("v_sub_f32", "f:ff", sub_f),
    V("v_subrev_f32", "f:ff", subrev_f),
    V("v_mul_f32", "f:ff", mul_f),
    BOTH("v_mul_legacy_f32", "v_mul_dx9_zero_f32", "f:ff", mul_zero_f),
    BOTH("v_min_f32", "v_min_num_f32", "f:ff", min_f),
    BOTH("v_max_f32", "v_max_num_f32", "f:ff", max_f),
    V("v_fma_f32", "f:fff", fma_f),
    V("v_fmac_f32", "f:ff+f", fma_f),
    V("v_fmaak_f32", "f:fff", fma_f),
    V("v_fmamk_f32", "f:fff", fma_f),
    V("v_mad_f32", "f:fff", mad_f),
    V("v_mac_f32", "f:ff+f", mad_f),
    V("v_madak_f32", "f:fff", mad_f),
    V("v_madmk_f32", "f:fff", mad_f),
    BOTH("v_min3_f32", "v_min3_num_f32", "f:fff", min3_f),
    BOTH("v_max3_f32", "v_max3_num_f32", "f:fff", max3_f),
    BOTH("v_maxmin_f32", "v_maxmin_num_f32", "f:fff", maxmin_f),
    BOTH("v_minmax_f32", "v_minmax_num_f32", "f:fff", minmax_f),
    BOTH("v_med3_f32", "v_med3_num_f32", "f:fff", med3_f),
    BOTH("v_rcp_f32", "v_rcp_iflag_f32", "f:f", rcp_f),
    V("v_rsq_f32", "f:f", rsq_f),
    V("v_sqrt_f32", "f:f", sqrt_f),
    V("v_exp_f32", "f:f", exp_f),
    V("v_log_f32", "f:f", log_f),
    V("v_sin_f32", "f:f", sin_f),
    V("v_cos_f32", "f:f", cos_f),
    V("v_fract_f32", "f:f", fract_f),
    V("v_floor_f32", "f:f", floor_f),
    V("v_ceil_f32", "f:f", ceil_f),
    V("v_trunc_f32", "f:f", trunc_f),
    V("v_rndne_f32", "f:f", rndne_f),
    V("v_frexp_mant_f32", "f:f", frexp_mant_f),
    V("v_frexp_exp_i32_f32", "i:f", frexp_exp_f),
    V("v_ldexp_f32", "f:fi", ldexp_f),
    V("v_cvt_f32_i32", "f:i", f_of_i),
    V("v_cvt_f32_u32", "f:i", f_of_u),
    V("v_cvt_f32_ubyte0", "f:i", f_of_ubyte0),
    V("v_cvt_f32_ubyte1", "f:i", f_of_ubyte1),
    V("v_cvt_f32_ubyte2", "f:i", f_of_ubyte2),
    V("v_cvt_f32_ubyte3", "f:i", f_of_ubyte3),
    V("v_cvt_i32_f32", "i:f", i_of_f),
    V("v_cvt_u32_f32", "i:f", u_of_f),
    BOTH("v_cvt_flr_i32_f32", "v_cvt_floor_i32_f32", "i:f", i_of_f_floor),
    BOTH("v_cvt_rpi_i32_f32", "v_cvt_nearest_i32_f32", "i:f", i_of_f_near),
    V("v_div_scale_f32", "fm:fff", div_scale_f),
    V("v_div_fmas_f32", "f:fffm", div_fmas_f),
    V("v_div_fixup_f32", "f:fff", div_fixup_f),
    V("v_pk_fma_f32", "w:www", pk_fma_f),
    V("v_pk_mul_f32", "w:ww", pk_mul_f),
    V("v_pk_add_f32", "w:ww", pk_add_f),
    V("v_pk_mov_b32", "w:ww", pk_mov),
    V("v_canonicalize_f32", "f:f", mov_f),
    V("v_add_f64", "d:dd", add_d),
    V("v_mul_f64", "d:dd", mul_d),
    BOTH("v_min_f64", "v_min_num_f64", "d:dd", min_d),
    BOTH("v_max_f64", "v_max_num_f64", "d:dd", max_d),
    V("v_fma_f64", "d:ddd", fma_d),
    V("v_fmac_f64", "d:dd+d", fma_d),
    V("v_rcp_f64", "d:d", rcp_d),
    V("v_rsq_f64", "d:d", rsq_d),
    V("v_sqrt_f64", "d:d", sqrt_d),
    V("v_floor_f64", "d:d", floor_d),
    V("v_ceil_f64", "d:d", ceil_d),
    V("v_trunc_f64", "d:d", trunc_d),
    V("v_rndne_f64", "d:d", rndne_d),
    V("v_ldexp_f64", "d:di", ldexp_d),
    V("v_cvt_f64_f32", "d:f", d_of_f),
    V("v_cvt_f64_i32", "d:i", d_of_i),
    V("v_cvt_f64_u32", "d:i", d_of_u),
    V("v_cvt_f32_f64", "f:d", f_of_d),
    V("v_cvt_i32_f64", "i:d", i_of_d),
    {0},
};
