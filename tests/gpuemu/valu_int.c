/* valu_int.c - vector arithmetic on 32- and 64-bit integers, bits and bytes. */
#include <stdlib.h>

#include "gpuemu/valu.h"

F1(mov32, A)
W1(mov64, LA)
F1(not32, ~A)
static uint32_t reverse(uint32_t v) {
    uint32_t r = 0;
    for (int b = 0; b < 32; b++)
        r |= (v >> b & 1) << (31 - b);
    return r;
}
F1(reverse32, reverse(A))
F1(clz32, A ? (uint32_t)__builtin_clz(A) : ~0u)
F1(ctz32, A ? (uint32_t)__builtin_ctz(A) : ~0u)
static uint32_t sign_bits(int32_t v) {
    uint32_t u = (uint32_t)(v < 0 ? ~v : v);
    return u ? (uint32_t)__builtin_clz(u) : ~0u;
}
F1(cls32, sign_bits(IA))
F2(bcnt, (uint32_t)__builtin_popcount(A) + B)

F2(add, A + B)
F2(sub, A - B)
F2(subrev, B - A)
F2(add_sat, A + B < A ? ~0u : A + B)
F2(sub_sat, A < B ? 0 : A - B)
static int64_t saturated(int64_t v) {
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
}
F2(add_sat_i, (uint64_t)saturated((int64_t)IA + IB))
F2(sub_sat_i, (uint64_t)saturated((int64_t)IA - IB))
F2(mul_lo, A *B)
F2(mul_hi_u, (uint64_t)A *B >> 32)
F2(mul_hi_i, (uint64_t)((int64_t)IA *IB) >> 32)
#define U24(v) ((v)&0xffffffu)
#define I24(v) ((int32_t)((v) << 8) >> 8)
F2(mul_u24, (uint64_t)U24(A) * U24(B))
F2(mul_hi_u24, (uint64_t)U24(A) * U24(B) >> 32)
F2(mul_i24, (uint64_t)((int64_t)I24(A) * I24(B)))
F2(mul_hi_i24, (uint64_t)((int64_t)I24(A) * I24(B)) >> 32)
F3(mad_u24, (uint64_t)U24(A) * U24(B) + C)
F3(mad_i24, (uint64_t)((int64_t)I24(A) * I24(B)) + C)
F3(mad_u32_u16, (A & 0xffff) * (B & 0xffff) + C)
F3(mad_i32_i16, (uint32_t)((int32_t)(int16_t)A *(int32_t)(int16_t)B) + C)
F2(and32, A &B)
F2(or32, A | B)
F2(xor32, A ^ B)
F2(xnor32, ~(A ^ B))
F2(lshl, B << (A & 31))
F2(lshr, B >> (A & 31))
F2(ashr, (int32_t)B >> (A & 31))
W2(lshl64, LB << (A & 63))
W2(lshr64, LB >> (A & 63))
W2(ashr64, (int64_t)(LB) >> (A & 63))
W2(add64, LA + LB)
W2(sub64, LA - LB)
W2(mul64, LA *LB)
F2(min_i, IA < IB ? A : B)
F2(max_i, IA > IB ? A : B)
F2(min_u, A < B ? A : B)
F2(max_u, A > B ? A : B)
static int32_t lower(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t upper(int32_t a, int32_t b) { return a > b ? a : b; }
static uint32_t lower_u(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t upper_u(uint32_t a, uint32_t b) { return a > b ? a : b; }
F3(min3_i, lower(lower(IA, IB), IC))
F3(max3_i, upper(upper(IA, IB), IC))
F3(min3_u, lower_u(lower_u(A, B), C))
F3(max3_u, upper_u(upper_u(A, B), C))
F3(med3_i, upper(lower(IA, IB), lower(upper(IA, IB), IC)))
F3(med3_u, upper_u(lower_u(A, B), lower_u(upper_u(A, B), C)))
F3(maxmin_i, lower(upper(IA, IB), IC))
F3(minmax_i, upper(lower(IA, IB), IC))
F3(maxmin_u, lower_u(upper_u(A, B), C))
F3(minmax_u, upper_u(lower_u(A, B), C))
F3(lshl_add, (A << (B & 31)) + C)
F3(add_lshl, (A + B) << (C & 31))
F3(lshl_or, A << (B & 31) | C)
F3(and_or, (A & B) | C)
F3(or3, A | B | C)
F3(xor3, A ^ B ^ C)
F3(xad, (A ^ B) + C)
F3(add3, A + B + C)
W3(lshl_add64, (LA << (B & 7)) + LC)
F3(bfe_u, A >> (B & 31) & ((1u << (C & 31)) - 1))
static uint32_t field(int32_t v, uint32_t at, uint32_t n) {
    if (n == 0) return 0;
    v >>= at;
    return n >= 32 - at ? (uint32_t)v : (uint32_t)((int32_t)((uint32_t)v << (32 - n)) >> (32 - n));
}
F3(bfe_i, field(IA, B & 31, C & 31))
F3(bfi, (A & B) | (~A & C))
F2(bfm, ((1u << (A & 31)) - 1) << (B & 31))
F3(alignbit, ((uint64_t)A << 32 | B) >> (C & 31))
F3(alignbyte, ((uint64_t)A << 32 | B) >> 8 * (C & 3))
static uint32_t permute(uint64_t bytes, uint32_t sel) {
    uint32_t r = 0;
    for (int b = 0; b < 4; b++) {
        uint32_t k = sel >> 8 * b & 0xff, v;
        if (k < 8)
            v = (uint32_t)(bytes >> 8 * k) & 0xff;
        else if (k < 12) /* the sign of a 16-bit half, eight times */
            v = bytes >> (16 * (k - 8) + 15) & 1 ? 0xff : 0;
        else
            v = k == 12 ? 0 : 0xff;
        r |= v << 8 * b;
    }
    return r;
}
F3(perm, permute((uint64_t)A << 32 | B, C))
static uint32_t any_logic(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t r = 0;
    for (int k = 0; k < 8; k++)
        if (table >> k & 1) r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return r;
}
static void bitop3(rf_emu_lanes *x) {
    const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2];
    EACH x->d[l] = any_logic(A, B, C, x->s[3][l]);
}
static void bitop3_16(rf_emu_lanes *x) {
    const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2];
    EACH x->d[l] = any_logic(A, B, C, x->s[3][l]) & 0xffff;
}
static void cndmask(rf_emu_lanes *x) {
    const uint32_t *s0 = x->s[0], *s1 = x->s[1];
    uint32_t *restrict d = x->d;
    uint64_t m = x->mask_in;
    EACH d[l] = m >> l & 1 ? B : A;
}

/* sums and differences with carries */
#define CARRY(name, value, carry)                    \
    static void name(rf_emu_lanes *x) {              \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1]; \
        uint64_t m = 0, in = x->mask_in;             \
        EACH {                                       \
            uint32_t c = (uint32_t)(in >> l & 1);    \
            (void)c;                                 \
            x->d[l] = (value);                       \
            m |= (uint64_t)(carry) << l;             \
        }                                            \
        x->mask_out = m;                             \
    }
CARRY(add_co, A + B, ((uint64_t)A + B) >> 32)
CARRY(sub_co, A - B, B > A)
CARRY(subrev_co, B - A, A > B)
CARRY(add_ci, A + B + c, ((uint64_t)A + B + c) >> 32)
CARRY(sub_ci, A - B - c, (uint64_t)B + c > A)
CARRY(subrev_ci, B - A - c, (uint64_t)A + c > B)

static void mad_u64(rf_emu_lanes *x) {
    const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2];
    uint64_t m = 0;
    EACH {
        uint64_t p = (uint64_t)A * B, r = p + (LC);
        m |= (uint64_t)(r < p) << l;
        x->d[l] = (uint32_t)r;
        x->d[RF_EMU_ROW + l] = (uint32_t)(r >> 32);
    }
    x->mask_out = m;
}
static void mad_i64(rf_emu_lanes *x) {
    const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2];
    EACH {
        uint64_t r = (uint64_t)((int64_t)IA * IB) + (LC);
        x->d[l] = (uint32_t)r;
        x->d[RF_EMU_ROW + l] = (uint32_t)(r >> 32);
    }
}
W3(mad_nc_u64, (uint64_t)A *B + (LC))
W3(mad_nc_i64, (uint64_t)((int64_t)IA *IB) + (LC))

/* The number of set bits of s0 below this lane: counts lanes 0..31, then 32..63. */
F2(mbcnt_lo, (uint32_t)__builtin_popcount(A &(l >= 32 ? ~0u : (1u << l) - 1)) + B)
F2(mbcnt_hi, (l < 32 ? 0 : (uint32_t)__builtin_popcount(A & ((1u << (l - 32)) - 1))) + B)

/* dot products of four bytes; the low bits of x->mask_in say which side is signed for _iu8 */
#define S8(v, b) ((int32_t)(int8_t)((v) >> 8 * (b)))
#define U8(v, b) ((int32_t)((v) >> 8 * (b)&0xff))
#define DOT4(a, b, fa, fb) \
    (fa(a, 0) * fb(b, 0) + fa(a, 1) * fb(b, 1) + fa(a, 2) * fb(b, 2) + fa(a, 3) * fb(b, 3))
F3(dot4_ii, (uint32_t)DOT4(A, B, S8, S8) + C)
F3(dot4_uu, (uint32_t)DOT4(A, B, U8, U8) + C)
F3(dot4_ui, (uint32_t)DOT4(A, B, U8, S8) + C)
F3(dot4_iu, (uint32_t)DOT4(A, B, S8, U8) + C)
static void dot4_mixed(rf_emu_lanes *x) { /* neg_lo bit 0, 1: source 0, 1 is signed */
    static void (*const f[])(rf_emu_lanes *) = {dot4_uu, dot4_iu, dot4_ui, dot4_ii};
    f[x->mask_in & 3](x);
}
static uint32_t nibbles(uint32_t a, uint32_t b, bool sign) {
    uint32_t r = 0;
    for (int k = 0; k < 8; k++) {
        int32_t p = (int32_t)(a >> 4 * k & 15), q = (int32_t)(b >> 4 * k & 15);
        if (sign) p = (p ^ 8) - 8, q = (q ^ 8) - 8;
        r += (uint32_t)(p * q);
    }
    return r;
}
F3(dot8_ii, nibbles(A, B, true) + C)
F3(dot8_uu, nibbles(A, B, false) + C)
F3(sad_u8, (uint32_t)(abs(U8(A, 0) - U8(B, 0)) + abs(U8(A, 1) - U8(B, 1)) +
                      abs(U8(A, 2) - U8(B, 2)) + abs(U8(A, 3) - U8(B, 3))) +
               C)
F3(sad_u32, (A > B ? A - B : B - A) + C)

const rf_emu_op rf_emu_ops_int[] = {
    V("v_mov_b32", "i:i", mov32),
    V("v_mov_b64", "q:q", mov64),
    V("v_accvgpr_read_b32", "i:i", mov32),
    V("v_accvgpr_write_b32", "i:i", mov32),
    V("v_accvgpr_mov_b32", "i:i", mov32),
    V("v_accvgpr_read", "i:i", mov32),
    V("v_accvgpr_write", "i:i", mov32),
    V("v_not_b32", "i:i", not32),
    V("v_bfrev_b32", "i:i", reverse32),
    V("v_clz_i32_u32", "i:i", clz32),
    V("v_ffbh_u32", "i:i", clz32),
    V("v_ctz_i32_b32", "i:i", ctz32),
    V("v_ffbl_b32", "i:i", ctz32),
    V("v_cls_i32", "i:i", cls32),
    V("v_ffbh_i32", "i:i", cls32),
    V("v_bcnt_u32_b32", "i:ii", bcnt),
    V("v_add_nc_u32", "i:ii", add),
    V("v_add_u32", "i:ii", add),
    V("v_add_nc_i32", "i:ii", add),
    V("v_add_i32", "i:ii", add),
    V("v_sub_nc_u32", "i:ii", sub),
    V("v_sub_u32", "i:ii", sub),
    V("v_sub_nc_i32", "i:ii", sub),
    V("v_sub_i32", "i:ii", sub),
    V("v_subrev_nc_u32", "i:ii", subrev),
    V("v_subrev_u32", "i:ii", subrev),
    V("v_add_nc_u32 clamp", "i:ii", add_sat),
    V("v_add_u32 clamp", "i:ii", add_sat),
    V("v_sub_nc_u32 clamp", "i:ii", sub_sat),
    V("v_sub_u32 clamp", "i:ii", sub_sat),
    V("v_add_nc_i32 clamp", "i:ii", add_sat_i),
    V("v_add_i32 clamp", "i:ii", add_sat_i),
    V("v_sub_nc_i32 clamp", "i:ii", sub_sat_i),
    V("v_sub_i32 clamp", "i:ii", sub_sat_i),
    V("v_mul_lo_u32", "i:ii", mul_lo),
    V("v_mul_hi_u32", "i:ii", mul_hi_u),
    V("v_mul_hi_i32", "i:ii", mul_hi_i),
    V("v_mul_u32_u24", "i:ii", mul_u24),
    V("v_mul_hi_u32_u24", "i:ii", mul_hi_u24),
    V("v_mul_i32_i24", "i:ii", mul_i24),
    V("v_mul_hi_i32_i24", "i:ii", mul_hi_i24),
    V("v_mad_u32_u24", "i:iii", mad_u24),
    V("v_mad_i32_i24", "i:iii", mad_i24),
    V("v_mad_u32_u16", "i:uui", mad_u32_u16),
    V("v_mad_i32_i16", "i:uui", mad_i32_i16),
    V("v_and_b32", "i:ii", and32),
    V("v_or_b32", "i:ii", or32),
    V("v_xor_b32", "i:ii", xor32),
    V("v_xnor_b32", "i:ii", xnor32),
    V("v_lshlrev_b32", "i:ii", lshl),
    V("v_lshrrev_b32", "i:ii", lshr),
    V("v_ashrrev_i32", "i:ii", ashr),
    V("v_lshlrev_b64", "q:iq", lshl64),
    V("v_lshrrev_b64", "q:iq", lshr64),
    V("v_ashrrev_i64", "q:iq", ashr64),
    V("v_add_nc_u64", "q:qq", add64),
    V("v_sub_nc_u64", "q:qq", sub64),
    V("v_mul_u64", "q:qq", mul64),
    V("v_min_i32", "i:ii", min_i),
    V("v_max_i32", "i:ii", max_i),
    V("v_min_u32", "i:ii", min_u),
    V("v_max_u32", "i:ii", max_u),
    V("v_min3_i32", "i:iii", min3_i),
    V("v_max3_i32", "i:iii", max3_i),
    V("v_min3_u32", "i:iii", min3_u),
    V("v_max3_u32", "i:iii", max3_u),
    V("v_med3_i32", "i:iii", med3_i),
    V("v_med3_u32", "i:iii", med3_u),
    V("v_maxmin_i32", "i:iii", maxmin_i),
    V("v_minmax_i32", "i:iii", minmax_i),
    V("v_maxmin_u32", "i:iii", maxmin_u),
    V("v_minmax_u32", "i:iii", minmax_u),
    V("v_lshl_add_u32", "i:iii", lshl_add),
    V("v_lshl_add_u64", "q:qiq", lshl_add64),
    V("v_add_lshl_u32", "i:iii", add_lshl),
    V("v_lshl_or_b32", "i:iii", lshl_or),
    V("v_and_or_b32", "i:iii", and_or),
    V("v_or3_b32", "i:iii", or3),
    V("v_xor3_b32", "i:iii", xor3),
    V("v_xad_u32", "i:iii", xad),
    V("v_add3_u32", "i:iii", add3),
    V("v_bfe_u32", "i:iii", bfe_u),
    V("v_bfe_i32", "i:iii", bfe_i),
    V("v_bfi_b32", "i:iii", bfi),
    V("v_bfm_b32", "i:ii", bfm),
    V("v_alignbit_b32", "i:iii", alignbit),
    V("v_alignbyte_b32", "i:iii", alignbyte),
    V("v_perm_b32", "i:iii", perm),
    V("v_bitop3_b32", "i:iiii", bitop3),
    V("v_bitop3_b16", "u:uuui", bitop3_16),
    V("v_cndmask_b32", "i:ffm", cndmask),
    V("v_add_co_u32", "im:ii", add_co),
    V("v_sub_co_u32", "im:ii", sub_co),
    V("v_subrev_co_u32", "im:ii", subrev_co),
    V("v_add_co_ci_u32", "im:iim", add_ci),
    V("v_addc_co_u32", "im:iim", add_ci),
    V("v_sub_co_ci_u32", "im:iim", sub_ci),
    V("v_subb_co_u32", "im:iim", sub_ci),
    V("v_subrev_co_ci_u32", "im:iim", subrev_ci),
    V("v_subbrev_co_u32", "im:iim", subrev_ci),
    V("v_mad_u64_u32", "qm:iiq", mad_u64),
    V("v_mad_co_u64_u32", "qm:iiq", mad_u64),
    V("v_mad_i64_i32", "qm:iiq", mad_i64),
    V("v_mad_co_i64_i32", "qm:iiq", mad_i64),
    V("v_mad_nc_u64_u32", "q:iiq", mad_nc_u64),
    V("v_mad_nc_i64_i32", "q:iiq", mad_nc_i64),
    V("v_mbcnt_lo_u32_b32", "i:ii", mbcnt_lo),
    V("v_mbcnt_hi_u32_b32", "i:ii", mbcnt_hi),
    V("v_dot4_i32_i8", "i:iii", dot4_ii),
    V("v_dot4c_i32_i8", "i:ii+i", dot4_ii),
    V("v_dot4_u32_u8", "i:iii", dot4_uu),
    V("v_dot4_i32_iu8", "i:iiin", dot4_mixed),
    V("v_dot8_i32_i4", "i:iii", dot8_ii),
    V("v_dot8c_i32_i4", "i:ii+i", dot8_ii),
    V("v_dot8_u32_u4", "i:iii", dot8_uu),
    V("v_sad_u8", "i:iii", sad_u8),
    V("v_sad_u32", "i:iii", sad_u32),
    {0},
};
