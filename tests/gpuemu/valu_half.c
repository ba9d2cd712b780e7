/* valu_half.c - vector arithmetic on 16-bit values: f16, packed f16, mixed f16 and f32, integers.
 *
 * A source of letter h arrives as f32, in which sums and products of two f16 are exact enough that
 * rounding once more to f16 gives the IEEE result; a fused multiply-add needs rounding to odd. */
#include "gpuemu/valu.h"

static uint32_t h_of(float f) { return rf_f32_to_f16(f); }
static uint32_t h_fma(float a, float b, float c) {
    return rf_emu_f16_of_odd(rf_emu_fma_odd((double)a, (double)b, (double)c));
}
/* rounds toward zero */
static uint32_t h_cut(float f) {
    uint32_t h = rf_f32_to_f16(f);
    bool further = fabsf(rf_f16_to_f32((uint16_t)h)) > fabsf(f);
    return further && !isinf(f) ? h - 1 : h;
}

F1(cvt_f16_f32, h_of(FA))
FF1(cvt_f32_f16, FA)
F1(cvt_f16_u16, h_of((float)(A & 0xffff)))
F1(cvt_f16_i16, h_of((float)(int16_t)A))
static uint32_t i16_of(float f) {
    if (f != f) return 0;
    return (uint32_t)(int32_t)(f >= 32767 ? 32767 : f <= -32768 ? -32768 : f) & 0xffff;
}
static uint32_t u16_of(float f) { return !(f > 0) ? 0 : f >= 65535 ? 65535 : (uint32_t)f; }
F1(cvt_i16_f16, i16_of(FA))
F1(cvt_u16_f16, u16_of(FA))
F2(cvt_pk_rn, h_of(FA) | h_of(FB) << 16)
F2(cvt_pk_rtz, h_cut(FA) | h_cut(FB) << 16)
F2(add_h, h_of(FA + FB))
F2(sub_h, h_of(FA - FB))
F2(subrev_h, h_of(FB - FA))
F2(mul_h, h_of(FA *FB))
F2(min_h, h_of(rf_emu_min(FA, FB)))
F2(max_h, h_of(rf_emu_max(FA, FB)))
F3(fma_h, h_fma(FA, FB, FC))
F3(min3_h, h_of(rf_emu_min(rf_emu_min(FA, FB), FC)))
F3(max3_h, h_of(rf_emu_max(rf_emu_max(FA, FB), FC)))
F1(floor_h, h_of(floorf(FA)))
F1(ceil_h, h_of(ceilf(FA)))
F1(trunc_h, h_of(truncf(FA)))
F1(rndne_h, h_of(rintf(FA)))
F1(rcp_h, h_of(1.0f / FA))
F1(sqrt_h, h_of(sqrtf(FA)))
F2(ldexp_h, h_of(ldexpf(FA, (int16_t)B)))

F3(fma_mix, rf_emu_u32(fmaf(FA, FB, FC)))
#define MIX_LO(e) ((s3[l] & 0xffff0000u) | (e))
#define MIX_HI(e) ((s3[l] & 0xffff) | (e) << 16)
static void fma_mixlo(rf_emu_lanes *x) {
    const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2], *s3 = x->s[3];
    EACH x->d[l] = MIX_LO(h_of(fmaf(FA, FB, FC)));
}
static void fma_mixhi(rf_emu_lanes *x) {
    const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2], *s3 = x->s[3];
    EACH x->d[l] = MIX_HI(h_of(fmaf(FA, FB, FC)));
}

/* two f16 at a time */
#define LO(v) rf_f16_to_f32((uint16_t)(v))
#define HI(v) rf_f16_to_f32((uint16_t)((v) >> 16))
F2(pk_add_h, h_of(LO(A) + LO(B)) | h_of(HI(A) + HI(B)) << 16)
F2(pk_mul_h, h_of(LO(A) * LO(B)) | h_of(HI(A) * HI(B)) << 16)
F2(pk_min_h, h_of(rf_emu_min(LO(A), LO(B))) | h_of(rf_emu_min(HI(A), HI(B))) << 16)
F2(pk_max_h, h_of(rf_emu_max(LO(A), LO(B))) | h_of(rf_emu_max(HI(A), HI(B))) << 16)
F3(pk_fma_h, h_fma(LO(A), LO(B), LO(C)) | h_fma(HI(A), HI(B), HI(C)) << 16)
FF3(dot2_h, LO(A) * LO(B) + HI(A) * HI(B) + FC)
F2(pack, (A & 0xffff) | B << 16)

static uint32_t bf_of(float f) { return rf_f32_to_bf16(f); }
F2(cvt_pk_bf16, bf_of(FA) | bf_of(FB) << 16)

/* 16-bit integers: the upper half of the result is dropped when it is stored */
#define SA ((int32_t)(int16_t)A)
#define SB ((int32_t)(int16_t)B)
F1(mov16, A)
F1(not16, ~A & 0xffff)
F2(add16, (A + B) & 0xffff)
F2(sub16, (A - B) & 0xffff)
F2(subrev16, (B - A) & 0xffff)
F2(mul16, A *B & 0xffff)
F3(mad16, (A * B + C) & 0xffff)
F2(and16, A &B)
F2(or16, A | B)
F2(xor16, A ^ B)
F2(lshl16, B << (A & 15) & 0xffff)
F2(lshr16, (B & 0xffff) >> (A & 15))
F2(ashr16, (uint32_t)(SB >> (A & 15)) & 0xffff)
F2(min_i16, SA < SB ? A : B)
F2(max_i16, SA > SB ? A : B)
F2(min_u16, A < B ? A : B)
F2(max_u16, A > B ? A : B)
static void cndmask16(rf_emu_lanes *x) {
    const uint32_t *s0 = x->s[0], *s1 = x->s[1];
    EACH x->d[l] = x->mask_in >> l & 1 ? B : A;
}
F1(sext_16, (uint32_t)SA)

/* two 16-bit integers at a time */
#define PK(e_lo, e_hi) (((e_lo)&0xffff) | (e_hi) << 16)
F2(pk_add16, PK(A + B, (A >> 16) + (B >> 16)))
F2(pk_sub16, PK(A - B, (A >> 16) - (B >> 16)))
F2(pk_mul16, PK((A & 0xffff) * (B & 0xffff), (A >> 16) * (B >> 16)))
F3(pk_mad16, PK((A & 0xffff) * (B & 0xffff) + C, (A >> 16) * (B >> 16) + (C >> 16)))
F2(pk_lshl16, PK(B << (A & 15), (B >> 16) << (A >> 16 & 15)))
F2(pk_lshr16, PK((B & 0xffff) >> (A & 15), (B >> 16) >> (A >> 16 & 15)))
F2(pk_ashr16, PK((uint32_t)(SB >> (A & 15)), (uint32_t)((int32_t)B >> 16 >> (A >> 16 & 15))))
static uint32_t less16(uint32_t a, uint32_t b) { return (int16_t)a < (int16_t)b ? a : b; }
static uint32_t more16(uint32_t a, uint32_t b) { return (int16_t)a > (int16_t)b ? a : b; }
F2(pk_min_i16, PK(less16(A, B), less16(A >> 16, B >> 16)))
F2(pk_max_i16, PK(more16(A, B), more16(A >> 16, B >> 16)))

const rf_emu_op rf_emu_ops_half[] = {
    V("v_cvt_f16_f32", "h:f", cvt_f16_f32),
    V("v_cvt_f32_f16", "f:h", cvt_f32_f16),
    V("v_cvt_f16_u16", "h:u", cvt_f16_u16),
    V("v_cvt_f16_i16", "h:u", cvt_f16_i16),
    V("v_cvt_i16_f16", "u:h", cvt_i16_f16),
    V("v_cvt_u16_f16", "u:h", cvt_u16_f16),
    V("v_cvt_pk_f16_f32", "i:ff", cvt_pk_rn),
    V("v_cvt_pkrtz_f16_f32", "i:ff", cvt_pk_rtz),
    V("v_cvt_pk_rtz_f16_f32", "i:ff", cvt_pk_rtz),
    V("v_cvt_pk_bf16_f32", "i:ff", cvt_pk_bf16),
    V("v_add_f16", "h:hh", add_h),
    V("v_sub_f16", "h:hh", sub_h),
    V("v_subrev_f16", "h:hh", subrev_h),
    V("v_mul_f16", "h:hh", mul_h),
    V("v_min_f16", "h:hh", min_h),
    V("v_min_num_f16", "h:hh", min_h),
    V("v_max_f16", "h:hh", max_h),
    V("v_max_num_f16", "h:hh", max_h),
    V("v_fma_f16", "h:hhh", fma_h),
    V("v_fmac_f16", "h:hh+h", fma_h),
    V("v_fmaak_f16", "h:hhh", fma_h),
    V("v_fmamk_f16", "h:hhh", fma_h),
    V("v_min3_f16", "h:hhh", min3_h),
    V("v_min3_num_f16", "h:hhh", min3_h),
    V("v_max3_f16", "h:hhh", max3_h),
    V("v_max3_num_f16", "h:hhh", max3_h),
    V("v_floor_f16", "h:h", floor_h),
    V("v_ceil_f16", "h:h", ceil_h),
    V("v_trunc_f16", "h:h", trunc_h),
    V("v_rndne_f16", "h:h", rndne_h),
    V("v_rcp_f16", "h:h", rcp_h),
    V("v_sqrt_f16", "h:h", sqrt_h),
    V("v_ldexp_f16", "h:hu", ldexp_h),
    V("v_fma_mix_f32", "f:xxx", fma_mix),
    V("v_fma_mixlo_f16", "i:xxx+i", fma_mixlo),
    V("v_fma_mixhi_f16", "i:xxx+i", fma_mixhi),
    V("v_pk_add_f16", "i:pp", pk_add_h),
    V("v_pk_mul_f16", "i:pp", pk_mul_h),
    V("v_pk_min_f16", "i:pp", pk_min_h),
    V("v_pk_min_num_f16", "i:pp", pk_min_h),
    V("v_pk_max_f16", "i:pp", pk_max_h),
    V("v_pk_max_num_f16", "i:pp", pk_max_h),
    V("v_pk_fma_f16", "i:ppp", pk_fma_h),
    V("v_pk_fmac_f16", "i:pp+p", pk_fma_h),
    V("v_dot2_f32_f16", "f:ppf", dot2_h),
    V("v_dot2c_f32_f16", "f:pp+f", dot2_h),
    V("v_dot2acc_f32_f16", "f:pp+f", dot2_h),
    V("v_pack_b32_f16", "i:uu", pack),
    V("v_mov_b16", "u:u", mov16),
    V("v_not_b16", "u:u", not16),
    V("v_add_nc_u16", "u:uu", add16),
    V("v_add_u16", "u:uu", add16),
    V("v_add_nc_i16", "u:uu", add16),
    V("v_sub_nc_u16", "u:uu", sub16),
    V("v_sub_u16", "u:uu", sub16),
    V("v_sub_nc_i16", "u:uu", sub16),
    V("v_subrev_u16", "u:uu", subrev16),
    V("v_mul_lo_u16", "u:uu", mul16),
    V("v_mad_u16", "u:uuu", mad16),
    V("v_mad_legacy_u16", "u:uuu", mad16),
    V("v_mad_i16", "u:uuu", mad16),
    V("v_and_b16", "u:uu", and16),
    V("v_or_b16", "u:uu", or16),
    V("v_xor_b16", "u:uu", xor16),
    V("v_lshlrev_b16", "u:uu", lshl16),
    V("v_lshrrev_b16", "u:uu", lshr16),
    V("v_ashrrev_i16", "u:uu", ashr16),
    V("v_min_i16", "u:uu", min_i16),
    V("v_max_i16", "u:uu", max_i16),
    V("v_min_u16", "u:uu", min_u16),
    V("v_max_u16", "u:uu", max_u16),
    V("v_cndmask_b16", "u:uum", cndmask16),
    V("v_cvt_i32_i16", "i:u", sext_16),
    V("v_cvt_u32_u16", "i:u", mov16),
    V("v_pk_add_u16", "i:pp", pk_add16),
    V("v_pk_add_i16", "i:pp", pk_add16),
    V("v_pk_sub_u16", "i:pp", pk_sub16),
    V("v_pk_sub_i16", "i:pp", pk_sub16),
    V("v_pk_mul_lo_u16", "i:pp", pk_mul16),
    V("v_pk_mad_u16", "i:ppp", pk_mad16),
    V("v_pk_mad_i16", "i:ppp", pk_mad16),
    V("v_pk_lshlrev_b16", "i:pp", pk_lshl16),
    V("v_pk_lshrrev_b16", "i:pp", pk_lshr16),
    V("v_pk_ashrrev_i16", "i:pp", pk_ashr16),
    V("v_pk_min_i16", "i:pp", pk_min_i16),
    V("v_pk_max_i16", "i:pp", pk_max_i16),
    {0},
};
