/* valu_compare.c - v_cmp_* and v_cmpx_*: one bit per lane, for every relation and type. */
#include "gpuemu/valu.h"

#define F_TYPE(t, lhs, rhs)                        \
    M2(lt_##t, (lhs) < (rhs))                      \
    M2(eq_##t, (lhs) == (rhs))                     \
    M2(le_##t, (lhs) <= (rhs))                     \
    M2(gt_##t, (lhs) > (rhs))                      \
    M2(ge_##t, (lhs) >= (rhs))                     \
    M2(lg_##t, (lhs) < (rhs) || (lhs) > (rhs))     \
    M2(o_##t, (lhs) == (lhs) && (rhs) == (rhs))    \
    M2(u_##t, (lhs) != (lhs) || (rhs) != (rhs))    \
    M2(nge_##t, !((lhs) >= (rhs)))                 \
    M2(nlg_##t, !((lhs) < (rhs) || (lhs) > (rhs))) \
    M2(ngt_##t, !((lhs) > (rhs)))                  \
    M2(nle_##t, !((lhs) <= (rhs)))                 \
    M2(neq_##t, !((lhs) == (rhs)))                 \
    M2(nlt_##t, !((lhs) < (rhs)))
#define I_TYPE(t, lhs, rhs)    \
    M2(lt_##t, (lhs) < (rhs))  \
    M2(eq_##t, (lhs) == (rhs)) \
    M2(le_##t, (lhs) <= (rhs)) \
    M2(gt_##t, (lhs) > (rhs))  \
    M2(ne_##t, (lhs) != (rhs)) \
    M2(ge_##t, (lhs) >= (rhs))

F_TYPE(f32, FA, FB)
F_TYPE(f64, DA, DB)
I_TYPE(i32, IA, IB)
I_TYPE(u32, A, B)
I_TYPE(i16, (int16_t)A, (int16_t)B)
I_TYPE(u64, LA, LB)
I_TYPE(i64, (int64_t)LA, (int64_t)LB)

/* bit numbers: signalling NaN, quiet NaN, -inf, -normal, -denormal, -0, +0, +denormal, ... */
static bool class_f32_of(uint32_t v, uint32_t wanted) {
    uint32_t e = v >> 23 & 255, f = v & 0x7fffff, bit;
    bool minus = v >> 31;
    if (e == 255 && f)
        bit = f >> 22;
    else if (e == 255)
        bit = minus ? 2 : 9;
    else if (e == 0 && f)
        bit = minus ? 4 : 7;
    else if (e == 0)
        bit = minus ? 5 : 6;
    else
        bit = minus ? 3 : 8;
    return wanted >> bit & 1;
}
M2(class_f32, class_f32_of(A, B))

#define ROW(rel, t, in, fn) \
    V("v_cmp_" #rel "_" #t, "m:" in, fn), V("v_cmpx_" #rel "_" #t, "x:" in, fn)
/* one function serves f16 (whose sources arrive as f32) and f32, one u16 and u32 */
#define F_ROWS(t, in, f)                                                              \
    ROW(lt, t, in, lt_##f), ROW(eq, t, in, eq_##f), ROW(le, t, in, le_##f),           \
        ROW(gt, t, in, gt_##f), ROW(ge, t, in, ge_##f), ROW(lg, t, in, lg_##f),       \
        ROW(o, t, in, o_##f), ROW(u, t, in, u_##f), ROW(nge, t, in, nge_##f),         \
        ROW(nlg, t, in, nlg_##f), ROW(ngt, t, in, ngt_##f), ROW(nle, t, in, nle_##f), \
        ROW(neq, t, in, neq_##f), ROW(nlt, t, in, nlt_##f)
#define I_ROWS(t, in, f)                                                    \
    ROW(lt, t, in, lt_##f), ROW(eq, t, in, eq_##f), ROW(le, t, in, le_##f), \
        ROW(gt, t, in, gt_##f), ROW(ne, t, in, ne_##f), ROW(ge, t, in, ge_##f)

const rf_emu_op rf_emu_ops_compare[] = {
    F_ROWS(f32, "ff", f32),
    F_ROWS(f16, "hh", f32),
    F_ROWS(f64, "dd", f64),
    I_ROWS(i32, "ii", i32),
    I_ROWS(u32, "ii", u32),
    I_ROWS(i16, "uu", i16),
    I_ROWS(u16, "uu", u32),
    I_ROWS(u64, "qq", u64),
    I_ROWS(i64, "qq", i64),
    ROW(class, f32, "fi", class_f32),
    {0},
};
