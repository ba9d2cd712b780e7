/* scalar.c - instructions on scalar registers: arithmetic, logic, comparisons, EXEC arithmetic. */
#include <math.h>

#include "gpuemu/inst.h"

bool rf_emu_run_scalar(rf_emu_wave *w, const rf_emu_inst *i) {
    rf_emu_scalar x = {.scc = w->s[RF_EMU_SCC] != 0};
    for (uint32_t k = 0; k < i->n_src; k++) {
        const rf_emu_operand *o = &i->src[k];
        x.s[k] = i->src_type[k] == 'q' ? rf_emu_wide(w, o) : rf_emu_word(w, o);
    }
    x.d = i->n_dst ? rf_emu_wide(w, &i->o[0]) : 0;
    i->op->scalar(&x);
    if (i->n_dst && i->o[0].reg != RF_EMU_NULL) {
        w->s[i->o[0].reg] = (uint32_t)x.d;
        if (i->dst_type[0] == 'q') w->s[i->o[0].reg + 1] = (uint32_t)(x.d >> 32);
    }
    w->s[RF_EMU_SCC] = x.scc;
    return true;
}

#define A   ((uint32_t)x->s[0])
#define B   ((uint32_t)x->s[1])
#define C   ((uint32_t)x->s[2])
#define IA  ((int32_t)A)
#define IB  ((int32_t)B)
#define LA  (x->s[0])
#define LB  (x->s[1])
#define FA  rf_emu_f32(A)
#define FB  rf_emu_f32(B)
#define FC  rf_emu_f32(C)
#define K16 ((int32_t)(int16_t)B) /* an immediate of 16 bits */
/* a function that only gives a result; one that also sets SCC; one that only sets SCC */
#define DEF(name, e) \
    static void name(rf_emu_scalar *x) { x->d = (e); }
#define NZ32(name, e)                    \
    static void name(rf_emu_scalar *x) { \
        x->d = (uint32_t)(e);            \
        x->scc = x->d != 0;              \
    }
#define NZ64(name, e)                    \
    static void name(rf_emu_scalar *x) { \
        x->d = (uint64_t)(e);            \
        x->scc = x->d != 0;              \
    }
#define SCC(name, e, c)                  \
    static void name(rf_emu_scalar *x) { \
        bool c_ = (c);                   \
        x->d = (uint32_t)(e);            \
        x->scc = c_;                     \
    }
#define TEST(name, e) \
    static void name(rf_emu_scalar *x) { x->scc = (e); }

static uint32_t reverse32(uint32_t v) {
    uint32_t r = 0;
    for (int b = 0; b < 32; b++)
        r |= (v >> b & 1) << (31 - b);
    return r;
}
static uint64_t bfe_u(uint64_t v, uint32_t spec, uint32_t bits) {
    uint32_t at = spec & (bits - 1), n = spec >> 16 & 127;
    v >>= at;
    return n >= 64 ? v : v & ((1ull << n) - 1);
}
static uint64_t bfe_s(uint64_t v, uint32_t spec, uint32_t bits) { /* v is sign-extended to 64 */
    uint32_t at = spec & (bits - 1), n = spec >> 16 & 127;
    if (n == 0) return 0;
    int64_t shifted = (int64_t)v >> at;
    if (n >= bits - at) return (uint64_t)shifted;
    return (uint64_t)((int64_t)((uint64_t)shifted << (64 - n)) >> (64 - n));
}

DEF(mov32, A)
DEF(mov64, LA)
DEF(movk, (uint64_t)(uint32_t)(int16_t)A)
static void cmov32(rf_emu_scalar *x) {
    if (x->scc) x->d = A;
}
static void cmov64(rf_emu_scalar *x) {
    if (x->scc) x->d = LA;
}
NZ32(not32, ~A)
NZ64(not64, ~LA)
DEF(brev32, reverse32(A))
DEF(brev64, (uint64_t)reverse32(A) << 32 | reverse32((uint32_t)(LA >> 32)))
DEF(ctz32, A ? (uint32_t)__builtin_ctz(A) : ~0u)
DEF(ctz64, LA ? (uint32_t)__builtin_ctzll(LA) : ~0u)
DEF(clz32, A ? (uint32_t)__builtin_clz(A) : ~0u)
DEF(clz64, LA ? (uint32_t)__builtin_clzll(LA) : ~0u)
DEF(cls32, (A ^ (uint32_t)(IA >> 31)) ? (uint32_t)__builtin_clz(A ^ (uint32_t)(IA >> 31)) : ~0u)
NZ32(bcnt32, __builtin_popcount(A))
NZ32(bcnt64, __builtin_popcountll(LA))
NZ32(bcnt0, __builtin_popcount(~A))
DEF(sext8, (uint64_t)(uint32_t)(int8_t)A)
DEF(sext16, (uint64_t)(uint32_t)(int16_t)A)
NZ32(abs32, IA < 0 ? 0u - A : A)
NZ32(absdiff, IA > IB ? A - B : B - A)
DEF(bitset0, (uint32_t)x->d & ~(1u << (A & 31)))
DEF(bitset1, (uint32_t)x->d | 1u << (A & 31))

SCC(add_u32, A + B, (uint64_t)A + B > UINT32_MAX)
SCC(addc_u32, A + B + x->scc, (uint64_t)A + B + x->scc > UINT32_MAX)
SCC(sub_u32, A - B, B > A)
SCC(subb_u32, A - B - x->scc, (uint64_t)B + x->scc > A)
SCC(add_i32, A + B, (int64_t)IA + IB != (int32_t)(A + B))
SCC(sub_i32, A - B, (int64_t)IA - IB != (int32_t)(A - B))
SCC(addk, A + (uint32_t)K16, (int64_t)IA + K16 != (int32_t)(A + (uint32_t)K16))
DEF(mulk, (uint32_t)(A *(uint32_t)K16))
DEF(add64, LA + LB)
DEF(sub64, LA - LB)
DEF(mul64, LA *LB)
DEF(mul32, (uint32_t)(A *B))
DEF(mul_hi_u, (uint32_t)((uint64_t)A *B >> 32))
DEF(mul_hi_i, (uint32_t)((uint64_t)((int64_t)IA *IB) >> 32))
NZ32(and32, A &B)
NZ64(and64, LA &LB)
NZ32(or32, A | B)
NZ64(or64, LA | LB)
NZ32(xor32, A ^ B)
NZ64(xor64, LA ^ LB)
NZ32(andn32, A & ~B)
NZ64(andn64, LA & ~LB)
NZ32(orn32, A | ~B)
NZ64(orn64, LA | ~LB)
NZ32(nand32, ~(A &B))
NZ64(nand64, ~(LA &LB))
NZ32(nor32, ~(A | B))
NZ64(nor64, ~(LA | LB))
NZ32(xnor32, ~(A ^ B))
NZ64(xnor64, ~(LA ^ LB))
NZ32(lshl32, A << (B & 31))
NZ64(lshl64, LA << (B & 63))
NZ32(lshr32, A >> (B & 31))
NZ64(lshr64, LA >> (B & 63))
NZ32(ashr32, IA >> (B & 31))
NZ64(ashr64, (int64_t)LA >> (B & 63))
NZ32(bfe_u32, bfe_u(A, B, 32))
NZ32(bfe_i32, bfe_s((uint64_t)(int64_t)IA, B, 32))
NZ64(bfe_u64, bfe_u(LA, B, 64))
NZ64(bfe_i64, bfe_s(LA, B, 64))
DEF(bfm32, ((1u << (A & 31)) - 1) << (B & 31))
DEF(bfm64, ((1ull << (A & 63)) - 1) << (B & 63))
SCC(min_i32, IA < IB ? A : B, IA < IB)
SCC(max_i32, IA > IB ? A : B, IA > IB)
SCC(min_u32, A < B ? A : B, A < B)
SCC(max_u32, A > B ? A : B, A > B)
DEF(csel32, x->scc ? A : B)
DEF(csel64, x->scc ? LA : LB)
SCC(lshl1_add, (A << 1) + B, ((uint64_t)A << 1) + B > UINT32_MAX)
SCC(lshl2_add, (A << 2) + B, ((uint64_t)A << 2) + B > UINT32_MAX)
SCC(lshl3_add, (A << 3) + B, ((uint64_t)A << 3) + B > UINT32_MAX)
SCC(lshl4_add, (A << 4) + B, ((uint64_t)A << 4) + B > UINT32_MAX)
DEF(pack_ll, (A & 0xffff) | B << 16)
DEF(pack_lh, (A & 0xffff) | (B & 0xffff0000u))
DEF(pack_hh, A >> 16 | (B & 0xffff0000u))
DEF(pack_hl, A >> 16 | B << 16)

TEST(eq_u32, A == B)
TEST(ne_u32, A != B)
TEST(gt_i32, IA > IB)
TEST(ge_i32, IA >= IB)
TEST(lt_i32, IA < IB)
TEST(le_i32, IA <= IB)
TEST(gt_u32, A > B)
TEST(ge_u32, A >= B)
TEST(lt_u32, A < B)
TEST(le_u32, A <= B)
TEST(eq_u64, LA == LB)
TEST(ne_u64, LA != LB)
TEST(bit0, !(A >> (B & 31) & 1))
TEST(bit1, A >> (B & 31) & 1)
TEST(bit0_64, !(LA >> (B & 63) & 1))
TEST(bit1_64, LA >> (B & 63) & 1)
TEST(k_eq_i, IA == K16)
TEST(k_ne_i, IA != K16)
TEST(k_gt_i, IA > K16)
TEST(k_ge_i, IA >= K16)
TEST(k_lt_i, IA < K16)
TEST(k_le_i, IA <= K16)
TEST(k_eq_u, A == (B & 0xffff))
TEST(k_ne_u, A != (B & 0xffff))
TEST(k_gt_u, A > (B & 0xffff))
TEST(k_ge_u, A >= (B & 0xffff))
TEST(k_lt_u, A < (B & 0xffff))
TEST(k_le_u, A <= (B & 0xffff))

DEF(add_f, rf_emu_u32(FA + FB))
DEF(sub_f, rf_emu_u32(FA - FB))
DEF(mul_f, rf_emu_u32(FA *FB))
DEF(fma_f, rf_emu_u32(fmaf(FA, FB, FC)))
DEF(min_f, rf_emu_u32(fminf(FA, FB)))
DEF(max_f, rf_emu_u32(fmaxf(FA, FB)))
DEF(ceil_f, rf_emu_u32(ceilf(FA)))
DEF(floor_f, rf_emu_u32(floorf(FA)))
DEF(trunc_f, rf_emu_u32(truncf(FA)))
DEF(rndne_f, rf_emu_u32(rintf(FA)))
DEF(rcp_f, rf_emu_u32(rf_emu_approximate(1.0f / FA)))
DEF(rsq_f, rf_emu_u32(rf_emu_approximate((float)(1.0 / sqrt((double)FA)))))
DEF(sqrt_f, rf_emu_u32(rf_emu_approximate(sqrtf(FA))))
DEF(f_of_i, rf_emu_u32((float)IA))
DEF(f_of_u, rf_emu_u32((float)A))
DEF(i_of_f, FA != FA         ? 0
            : FA >= 0x1p31f  ? INT32_MAX
            : FA <= -0x1p31f ? 0x80000000u
                             : (uint32_t)(int32_t)FA)
DEF(u_of_f, !(FA > 0) ? 0 : FA >= 0x1p32f ? UINT32_MAX : (uint32_t)FA)
TEST(lt_f, FA < FB)
TEST(le_f, FA <= FB)
TEST(gt_f, FA > FB)
TEST(ge_f, FA >= FB)
TEST(eq_f, FA == FB)
TEST(lg_f, FA<FB || FA> FB)
TEST(o_f, FA == FA && FB == FB)
TEST(u_f, FA != FA || FB != FB)
TEST(nlt_f, !(FA < FB))
TEST(nle_f, !(FA <= FB))
TEST(ngt_f, !(FA > FB))
TEST(nge_f, !(FA >= FB))
TEST(neq_f, !(FA == FB))
TEST(nlg_f, !(FA < FB || FA > FB))

/* EXEC takes the result, the destination the old EXEC: a second source is the old EXEC. */
#define SAVE(name, expr32, expr64)                                                \
    static bool name##_b32(rf_emu_wave *w, const rf_emu_inst *i) {                \
        uint32_t s = rf_emu_word(w, &i->o[1]), ex = w->s[RF_EMU_EXEC];            \
        if (i->o[0].reg != RF_EMU_NULL) w->s[i->o[0].reg] = ex;                   \
        w->s[RF_EMU_EXEC] = (expr32);                                             \
        w->s[RF_EMU_SCC] = w->s[RF_EMU_EXEC] != 0;                                \
        return true;                                                              \
    }                                                                             \
    static bool name##_b64(rf_emu_wave *w, const rf_emu_inst *i) {                \
        rf_emu_operand exec = {.place = RF_EMU_SGPR, .reg = RF_EMU_EXEC, .n = 2}; \
        uint64_t s = rf_emu_wide(w, &i->o[1]), ex = rf_emu_wide(w, &exec);        \
        uint64_t r = (expr64);                                                    \
        w->s[i->o[0].reg] = (uint32_t)ex;                                         \
        w->s[i->o[0].reg + 1] = (uint32_t)(ex >> 32);                             \
        w->s[RF_EMU_EXEC] = (uint32_t)r;                                          \
        w->s[RF_EMU_EXEC + 1] = (uint32_t)(r >> 32);                              \
        w->s[RF_EMU_SCC] = r != 0;                                                \
        return true;                                                              \
    }
#define SAVE_BOTH(name, e) SAVE(name, e, e)
SAVE_BOTH(save_and, s &ex)
SAVE_BOTH(save_or, s | ex)
SAVE_BOTH(save_xor, s ^ ex)
SAVE_BOTH(save_andn1, s & ~ex)
SAVE_BOTH(save_andn0, ~s &ex)
SAVE_BOTH(save_orn1, s | ~ex)

static bool getpc(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t pc = (uint64_t)(uintptr_t)w->block->kernel->module->image + i->address + 4;
    w->s[i->o[0].reg] = (uint32_t)pc;
    w->s[i->o[0].reg + 1] = (uint32_t)(pc >> 32);
    return true;
}

#define S(name_, sig_, fn_) \
    { .name = name_, .sig = sig_, .scalar = fn_ }
#define R(name_, fn_) \
    { .name = name_, .run = fn_ }
#define CMP32(name_, i_, u_) \
    S("s_cmp_" name_ "_i32", ":ii", i_), S("s_cmp_" name_ "_u32", ":ii", u_)
#define CMPK(name_, i_, u_) \
    S("s_cmpk_" name_ "_i32", ":ii", i_), S("s_cmpk_" name_ "_u32", ":ii", u_)
#define CMPF(name_, f_) S("s_cmp_" name_ "_f32", ":ii", f_)
#define LOGIC(name_, f32_, f64_) \
    S("s_" name_ "_b32", "i:ii", f32_), S("s_" name_ "_b64", "q:qq", f64_)
#define SAVES(name_, f_) \
    R("s_" name_ "_saveexec_b32", f_##_b32), R("s_" name_ "_saveexec_b64", f_##_b64)

const rf_emu_op rf_emu_ops_scalar[] = {
    S("s_mov_b32", "i:i", mov32),
    S("s_mov_b64", "q:q", mov64),
    S("s_movk_i32", "i:i", movk),
    S("s_cmov_b32", "i:i", cmov32),
    S("s_cmov_b64", "q:q", cmov64),
    S("s_not_b32", "i:i", not32),
    S("s_not_b64", "q:q", not64),
    S("s_brev_b32", "i:i", brev32),
    S("s_brev_b64", "q:q", brev64),
    S("s_ctz_i32_b32", "i:i", ctz32),
    S("s_ff1_i32_b32", "i:i", ctz32),
    S("s_ctz_i32_b64", "i:q", ctz64),
    S("s_ff1_i32_b64", "i:q", ctz64),
    S("s_clz_i32_u32", "i:i", clz32),
    S("s_flbit_i32_b32", "i:i", clz32),
    S("s_clz_i32_u64", "i:q", clz64),
    S("s_flbit_i32_b64", "i:q", clz64),
    S("s_cls_i32", "i:i", cls32),
    S("s_flbit_i32", "i:i", cls32),
    S("s_bcnt1_i32_b32", "i:i", bcnt32),
    S("s_bcnt1_i32_b64", "i:q", bcnt64),
    S("s_bcnt0_i32_b32", "i:i", bcnt0),
    S("s_sext_i32_i8", "i:i", sext8),
    S("s_sext_i32_i16", "i:i", sext16),
    S("s_abs_i32", "i:i", abs32),
    S("s_absdiff_i32", "i:ii", absdiff),
    S("s_bitset0_b32", "i:i", bitset0),
    S("s_bitset1_b32", "i:i", bitset1),
    S("s_add_u32", "i:ii", add_u32),
    S("s_add_co_u32", "i:ii", add_u32),
    S("s_addc_u32", "i:ii", addc_u32),
    S("s_add_co_ci_u32", "i:ii", addc_u32),
    S("s_sub_u32", "i:ii", sub_u32),
    S("s_sub_co_u32", "i:ii", sub_u32),
    S("s_subb_u32", "i:ii", subb_u32),
    S("s_sub_co_ci_u32", "i:ii", subb_u32),
    S("s_add_i32", "i:ii", add_i32),
    S("s_add_co_i32", "i:ii", add_i32),
    S("s_sub_i32", "i:ii", sub_i32),
    S("s_sub_co_i32", "i:ii", sub_i32),
    S("s_addk_i32", "i:+ii", addk),
    S("s_addk_co_i32", "i:+ii", addk),
    S("s_mulk_i32", "i:+ii", mulk),
    S("s_add_nc_u64", "q:qq", add64),
    S("s_add_u64", "q:qq", add64),
    S("s_sub_nc_u64", "q:qq", sub64),
    S("s_sub_u64", "q:qq", sub64),
    S("s_mul_u64", "q:qq", mul64),
    S("s_mul_i32", "i:ii", mul32),
    S("s_mul_hi_u32", "i:ii", mul_hi_u),
    S("s_mul_hi_i32", "i:ii", mul_hi_i),
    LOGIC("and", and32, and64),
    LOGIC("or", or32, or64),
    LOGIC("xor", xor32, xor64),
    LOGIC("and_not1", andn32, andn64),
    LOGIC("andn2", andn32, andn64),
    LOGIC("or_not1", orn32, orn64),
    LOGIC("orn2", orn32, orn64),
    LOGIC("nand", nand32, nand64),
    LOGIC("nor", nor32, nor64),
    LOGIC("xnor", xnor32, xnor64),
    S("s_lshl_b32", "i:ii", lshl32),
    S("s_lshl_b64", "q:qi", lshl64),
    S("s_lshr_b32", "i:ii", lshr32),
    S("s_lshr_b64", "q:qi", lshr64),
    S("s_ashr_i32", "i:ii", ashr32),
    S("s_ashr_i64", "q:qi", ashr64),
    S("s_bfe_u32", "i:ii", bfe_u32),
    S("s_bfe_i32", "i:ii", bfe_i32),
    S("s_bfe_u64", "q:qi", bfe_u64),
    S("s_bfe_i64", "q:qi", bfe_i64),
    S("s_bfm_b32", "i:ii", bfm32),
    S("s_bfm_b64", "q:ii", bfm64),
    S("s_min_i32", "i:ii", min_i32),
    S("s_max_i32", "i:ii", max_i32),
    S("s_min_u32", "i:ii", min_u32),
    S("s_max_u32", "i:ii", max_u32),
    S("s_cselect_b32", "i:ii", csel32),
    S("s_cselect_b64", "q:qq", csel64),
    S("s_lshl1_add_u32", "i:ii", lshl1_add),
    S("s_lshl2_add_u32", "i:ii", lshl2_add),
    S("s_lshl3_add_u32", "i:ii", lshl3_add),
    S("s_lshl4_add_u32", "i:ii", lshl4_add),
    S("s_pack_ll_b32_b16", "i:ii", pack_ll),
    S("s_pack_lh_b32_b16", "i:ii", pack_lh),
    S("s_pack_hh_b32_b16", "i:ii", pack_hh),
    S("s_pack_hl_b32_b16", "i:ii", pack_hl),
    CMP32("eq", eq_u32, eq_u32),
    CMP32("lg", ne_u32, ne_u32),
    CMP32("gt", gt_i32, gt_u32),
    CMP32("ge", ge_i32, ge_u32),
    CMP32("lt", lt_i32, lt_u32),
    CMP32("le", le_i32, le_u32),
    S("s_cmp_eq_u64", ":qq", eq_u64),
    S("s_cmp_lg_u64", ":qq", ne_u64),
    S("s_bitcmp0_b32", ":ii", bit0),
    S("s_bitcmp1_b32", ":ii", bit1),
    S("s_bitcmp0_b64", ":qi", bit0_64),
    S("s_bitcmp1_b64", ":qi", bit1_64),
    CMPK("eq", k_eq_i, k_eq_u),
    CMPK("lg", k_ne_i, k_ne_u),
    CMPK("gt", k_gt_i, k_gt_u),
    CMPK("ge", k_ge_i, k_ge_u),
    CMPK("lt", k_lt_i, k_lt_u),
    CMPK("le", k_le_i, k_le_u),
    S("s_add_f32", "i:ii", add_f),
    S("s_sub_f32", "i:ii", sub_f),
    S("s_mul_f32", "i:ii", mul_f),
    S("s_fmac_f32", "i:ii+i", fma_f),
    S("s_fmaak_f32", "i:iii", fma_f),
    S("s_fmamk_f32", "i:iii", fma_f),
    S("s_min_f32", "i:ii", min_f),
    S("s_min_num_f32", "i:ii", min_f),
    S("s_max_f32", "i:ii", max_f),
    S("s_max_num_f32", "i:ii", max_f),
    S("s_ceil_f32", "i:i", ceil_f),
    S("s_floor_f32", "i:i", floor_f),
    S("s_trunc_f32", "i:i", trunc_f),
    S("s_rndne_f32", "i:i", rndne_f),
    S("v_s_rcp_f32", "i:i", rcp_f),
    S("v_s_rsq_f32", "i:i", rsq_f),
    S("v_s_sqrt_f32", "i:i", sqrt_f),
    S("s_cvt_f32_i32", "i:i", f_of_i),
    S("s_cvt_f32_u32", "i:i", f_of_u),
    S("s_cvt_i32_f32", "i:i", i_of_f),
    S("s_cvt_u32_f32", "i:i", u_of_f),
    CMPF("lt", lt_f),
    CMPF("le", le_f),
    CMPF("gt", gt_f),
    CMPF("ge", ge_f),
    CMPF("eq", eq_f),
    CMPF("lg", lg_f),
    CMPF("o", o_f),
    CMPF("u", u_f),
    CMPF("nlt", nlt_f),
    CMPF("nle", nle_f),
    CMPF("ngt", ngt_f),
    CMPF("nge", nge_f),
    CMPF("neq", neq_f),
    CMPF("nlg", nlg_f),
    SAVES("and", save_and),
    SAVES("or", save_or),
    SAVES("xor", save_xor),
    SAVES("and_not1", save_andn1),
    SAVES("andn2", save_andn1),
    SAVES("and_not0", save_andn0),
    SAVES("andn1", save_andn0),
    SAVES("or_not1", save_orn1),
    SAVES("orn2", save_orn1),
    R("s_getpc_b64", getpc),
    {0},
};
