/* memory.c - scalar loads, and loads, stores and atomics on global memory, each checked against the
 * ranges that the launch may touch. */
#include <string.h>

#include "gpuemu/inst.h"

static bool inside(const rf_emu_range *r, uint64_t address, uint32_t bytes) {
    return address >= r->lo && address < r->hi && bytes <= r->hi - address;
}

static bool in_ranges(rf_emu_block *b, uint64_t address, uint32_t bytes) {
    if (inside(&b->hit, address, bytes)) return true;
    size_t lo = 0, hi = b->launch->n_ranges;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (b->launch->ranges[mid].hi <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == b->launch->n_ranges || !inside(&b->launch->ranges[lo], address, bytes)) return false;
    b->hit = b->launch->ranges[lo];
    return true;
}

bool rf_emu_check_global(rf_emu_wave *w, const rf_emu_inst *i, uint64_t address, uint32_t bytes,
                         bool write) {
    rf_emu_block *b = w->block;
    if (in_ranges(b, address, bytes)) return true;
    uint64_t image = (uint64_t)(uintptr_t)b->kernel->module->image;
    uint64_t args = (uint64_t)(uintptr_t)b->launch->kernarg;
    rf_emu_range read_only[] = {{image, image + b->kernel->module->image_bytes},
                                {args, args + ((b->kernel->kernarg_bytes + 63u) & ~63u)}};
    bool known = inside(&read_only[0], address, bytes) || inside(&read_only[1], address, bytes);
    if (known && !write) return true;
    return rf_emu_fault(w, i, "%s of %u bytes at %#llx, which is %s", write ? "store" : "load",
                        bytes, (unsigned long long)address,
                        known ? "read-only" : "in no allocation");
}

static bool scalar_load(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t address = rf_emu_wide(w, &i->o[1]) + (uint64_t)i->offset;
    if (i->n_operands > 2 && i->o[2].place == RF_EMU_CONST)
        address += (uint64_t)(int64_t)(int32_t)i->o[2].value;
    else if (i->n_operands > 2)
        address += rf_emu_word(w, &i->o[2]);
    if (!(i->op->arg & RF_EMU_SIGNED)) address &= ~3ull;
    uint32_t bytes = i->op->arg & RF_EMU_BYTES;
    if (!rf_emu_check_global(w, i, address, bytes, false)) return false;
    memcpy(&w->s[i->o[0].reg], (const void *)(uintptr_t)address, bytes);
    return true;
}

/* s_load_u8 and its like: arg also says RF_EMU_SIGNED, as these need no alignment to words. */
static bool scalar_load_narrow(rf_emu_wave *w, const rf_emu_inst *i) {
    if (!scalar_load(w, i)) return false;
    uint32_t bits = 8 * (i->op->arg & RF_EMU_BYTES), x = w->s[i->o[0].reg] << (32 - bits);
    w->s[i->o[0].reg] =
        i->op->arg & RF_EMU_D16 ? (uint32_t)((int32_t)x >> (32 - bits)) : x >> (32 - bits);
    return true;
}

/* Operands: address, scalar base or "off". */
static uint64_t address_of(const rf_emu_wave *w, const rf_emu_inst *i, uint32_t at, uint32_t l) {
    const uint32_t *v = rf_emu_row(w, &i->o[at]);
    const rf_emu_operand *base = &i->o[i->n_operands - 1];
    uint64_t a = v[l];
    if (base->place == RF_EMU_SGPR && i->n_operands > 2)
        a += rf_emu_wide(w, base);
    else
        a |= (uint64_t)v[RF_EMU_ROW + l] << 32;
    return a + (uint64_t)i->offset;
}

void rf_emu_put_loaded(const rf_emu_wave *w, const rf_emu_inst *i, uint32_t l, const void *from) {
    uint32_t bytes = i->op->arg & RF_EMU_BYTES, *to = rf_emu_row(w, &i->o[0]) + l;
    if (bytes >= 4) {
        for (uint32_t k = 0; k < bytes / 4; k++)
            memcpy(to + k * RF_EMU_ROW, (const uint8_t *)from + 4 * k, 4);
        return;
    }
    uint32_t x = 0;
    memcpy(&x, from, bytes);
    if (i->op->arg & RF_EMU_SIGNED)
        x = bytes == 1 ? (uint32_t)(int32_t)(int8_t)x : (uint32_t)(int32_t)(int16_t)x;
    if ((i->op->arg & RF_EMU_D16_HI) || i->o[0].high)
        *to = (*to & 0xffff) | x << 16;
    else if ((i->op->arg & RF_EMU_D16) || i->o[0].low)
        *to = (*to & 0xffff0000u) | (x & 0xffff);
    else
        *to = x;
}

void rf_emu_get_stored(const rf_emu_wave *w, const rf_emu_inst *i, const rf_emu_operand *o,
                       uint32_t l, uint32_t out[4]) {
    const uint32_t *from = rf_emu_row(w, o) + l;
    uint32_t bytes = i->op->arg & RF_EMU_BYTES;
    for (uint32_t k = 0; k < (bytes + 3) / 4; k++)
        out[k] = from[k * RF_EMU_ROW];
    if (bytes < 4 && ((i->op->arg & RF_EMU_D16_HI) || o->high)) out[0] >>= 16;
}

static bool load(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t exec = rf_emu_mask(w, RF_EMU_EXEC);
    uint32_t bytes = i->op->arg & RF_EMU_BYTES;
    uint64_t address[RF_EMU_ROW]; /* the address registers may be overwritten */
    for (uint32_t l = 0; l < w->n; l++)
        if (exec >> l & 1) address[l] = address_of(w, i, 1, l);
    for (uint32_t l = 0; l < w->n; l++) {
        if (!(exec >> l & 1)) continue;
        if (!rf_emu_check_global(w, i, address[l], bytes, false)) return false;
        const void *from = (const void *)(uintptr_t)address[l];
        uint32_t word; /* other blocks may be at an atomic on it */
        if (bytes == 4 && address[l] % 4 == 0) {
            word = __atomic_load_n((const uint32_t *)from, __ATOMIC_RELAXED);
            from = &word;
        }
        rf_emu_put_loaded(w, i, l, from);
    }
    w->lane_ops += (uint32_t)__builtin_popcountll(exec);
    w->stats.bytes_loaded += (uint64_t)__builtin_popcountll(exec) * bytes;
    return true;
}

static bool store(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t exec = rf_emu_mask(w, RF_EMU_EXEC);
    uint32_t bytes = i->op->arg & RF_EMU_BYTES, x[4];
    for (uint32_t l = 0; l < w->n; l++) {
        if (!(exec >> l & 1)) continue;
        uint64_t a = address_of(w, i, 0, l);
        if (!rf_emu_check_global(w, i, a, bytes, true)) return false;
        rf_emu_get_stored(w, i, &i->o[1], l, x);
        memcpy((void *)(uintptr_t)a, x, bytes);
    }
    w->lane_ops += (uint32_t)__builtin_popcountll(exec);
    return true;
}

/* ---- atomics: what becomes of x when d arrives ---- */

uint64_t rf_emu_atomic(uint32_t kind, uint64_t x, uint64_t d, uint64_t expected, bool wide) {
    int64_t sx = wide ? (int64_t)x : (int32_t)x, sd = wide ? (int64_t)d : (int32_t)d;
    switch (kind) {
    case RF_EMU_ADD:
        return x + d;
    case RF_EMU_SUB:
        return x - d;
    case RF_EMU_ADD_F:
        return rf_emu_u32(rf_emu_f32((uint32_t)x) + rf_emu_f32((uint32_t)d));
    case RF_EMU_SWAP:
        return d;
    case RF_EMU_CMPSWAP:
        return x == expected ? d : x;
    case RF_EMU_MAX_I:
        return sx > sd ? x : d;
    case RF_EMU_MAX_U:
        return x > d ? x : d;
    case RF_EMU_MIN_I:
        return sx < sd ? x : d;
    case RF_EMU_MIN_U:
        return x < d ? x : d;
    case RF_EMU_AND:
        return x & d;
    case RF_EMU_OR:
        return x | d;
    default:
        return x ^ d;
    }
}

/* On host memory, atomically: other blocks run at the same time.  Returns the old value. */
static uint32_t exchange32(uint32_t *p, uint32_t kind, uint32_t d, uint32_t expected) {
    uint32_t x = __atomic_load_n(p, __ATOMIC_RELAXED), y;
    do
        y = (uint32_t)rf_emu_atomic(kind, x, d, expected, false);
    while (!__atomic_compare_exchange_n(p, &x, y, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return x;
}
static uint64_t exchange64(uint64_t *p, uint32_t kind, uint64_t d, uint64_t expected) {
    uint64_t x = __atomic_load_n(p, __ATOMIC_RELAXED), y;
    do
        y = rf_emu_atomic(kind, x, d, expected, true);
    while (!__atomic_compare_exchange_n(p, &x, y, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return x;
}

/* arg: kind in the low byte, RF_EMU_D16 for 64 bits.  Operands: [old,] address, data, base. */
static bool atomic(rf_emu_wave *w, const rf_emu_inst *i) {
    uint64_t exec = rf_emu_mask(w, RF_EMU_EXEC);
    uint32_t kind = i->op->arg & RF_EMU_BYTES, at = i->returns ? 1 : 0;
    bool wide = i->op->arg & RF_EMU_D16;
    uint32_t bytes = wide ? 8 : 4, step = wide ? 2 * RF_EMU_ROW : RF_EMU_ROW;
    for (uint32_t l = 0; l < w->n; l++) {
        if (!(exec >> l & 1)) continue;
        uint64_t a = address_of(w, i, at, l);
        if (!rf_emu_check_global(w, i, a, bytes, true)) return false;
        if (a % bytes)
            return rf_emu_fault(w, i, "atomic at %#llx, not a multiple of %u",
                                (unsigned long long)a, bytes);
        const uint32_t *v = rf_emu_row(w, &i->o[at + 1]) + l;
        uint32_t *old = rf_emu_row(w, &i->o[0]) + l;
        if (wide) {
            uint64_t d = v[0] | (uint64_t)v[RF_EMU_ROW] << 32;
            uint64_t e =
                kind == RF_EMU_CMPSWAP ? v[step] | (uint64_t)v[step + RF_EMU_ROW] << 32 : 0;
            uint64_t x = exchange64((uint64_t *)(uintptr_t)a, kind, d, e);
            if (i->returns) old[0] = (uint32_t)x, old[RF_EMU_ROW] = (uint32_t)(x >> 32);
        } else {
            uint32_t e = kind == RF_EMU_CMPSWAP ? v[step] : 0;
            uint32_t x = exchange32((uint32_t *)(uintptr_t)a, kind, v[0], e);
            if (i->returns) old[0] = x;
        }
    }
    w->lane_ops += (uint32_t)__builtin_popcountll(exec);
    return true;
}

#define R(name_, fn_, arg_) \
    { .name = name_, .run = fn_, .arg = arg_ }
#define SL(old_, new_, n_)   R("s_load_" old_, scalar_load, n_), R("s_load_" new_, scalar_load, n_)
#define GF(name_, fn_, arg_) R("global_" name_, fn_, arg_), R("flat_" name_, fn_, arg_)
#define LD(old_, new_, arg_) GF("load_" old_, load, arg_), GF("load_" new_, load, arg_)
#define ST(old_, new_, arg_) GF("store_" old_, store, arg_), GF("store_" new_, store, arg_)
#define AT(old_, b32_, b64_, kind_)                                       \
    GF("atomic_" old_, atomic, kind_), GF("atomic_" b32_, atomic, kind_), \
        GF("atomic_" old_ "_x2", atomic, (kind_) | RF_EMU_D16),           \
        GF("atomic_" b64_, atomic, (kind_) | RF_EMU_D16)

const rf_emu_op rf_emu_ops_memory[] = {
    SL("dword", "b32", 4),
    SL("dwordx2", "b64", 8),
    SL("dwordx3", "b96", 12),
    SL("dwordx4", "b128", 16),
    SL("dwordx8", "b256", 32),
    SL("dwordx16", "b512", 64),
    R("s_load_u8", scalar_load_narrow, 1 | RF_EMU_SIGNED),
    R("s_load_u16", scalar_load_narrow, 2 | RF_EMU_SIGNED),
    R("s_load_i8", scalar_load_narrow, 1 | RF_EMU_SIGNED | RF_EMU_D16),
    R("s_load_i16", scalar_load_narrow, 2 | RF_EMU_SIGNED | RF_EMU_D16),
    LD("dword", "b32", 4),
    LD("dwordx2", "b64", 8),
    LD("dwordx3", "b96", 12),
    LD("dwordx4", "b128", 16),
    LD("ubyte", "u8", 1),
    LD("ushort", "u16", 2),
    LD("sbyte", "i8", 1 | RF_EMU_SIGNED),
    LD("sshort", "i16", 2 | RF_EMU_SIGNED),
    LD("ubyte_d16", "d16_u8", 1 | RF_EMU_D16),
    LD("short_d16", "d16_b16", 2 | RF_EMU_D16),
    LD("sbyte_d16", "d16_i8", 1 | RF_EMU_SIGNED | RF_EMU_D16),
    LD("ubyte_d16_hi", "d16_hi_u8", 1 | RF_EMU_D16_HI),
    LD("sbyte_d16_hi", "d16_hi_i8", 1 | RF_EMU_SIGNED | RF_EMU_D16_HI),
    LD("short_d16_hi", "d16_hi_b16", 2 | RF_EMU_D16_HI),
    ST("dword", "b32", 4),
    ST("dwordx2", "b64", 8),
    ST("dwordx3", "b96", 12),
    ST("dwordx4", "b128", 16),
    ST("byte", "b8", 1),
    ST("short", "b16", 2),
    ST("byte_d16_hi", "d16_hi_b8", 1 | RF_EMU_D16_HI),
    ST("short_d16_hi", "d16_hi_b16", 2 | RF_EMU_D16_HI),
    AT("add", "add_u32", "add_u64", RF_EMU_ADD),
    AT("sub", "sub_u32", "sub_u64", RF_EMU_SUB),
    AT("swap", "swap_b32", "swap_b64", RF_EMU_SWAP),
    AT("cmpswap", "cmpswap_b32", "cmpswap_b64", RF_EMU_CMPSWAP),
    AT("smax", "max_i32", "max_i64", RF_EMU_MAX_I),
    AT("umax", "max_u32", "max_u64", RF_EMU_MAX_U),
    AT("smin", "min_i32", "min_i64", RF_EMU_MIN_I),
    AT("umin", "min_u32", "min_u64", RF_EMU_MIN_U),
    AT("and", "and_b32", "and_b64", RF_EMU_AND),
    AT("or", "or_b32", "or_b64", RF_EMU_OR),
    AT("xor", "xor_b32", "xor_b64", RF_EMU_XOR),
    GF("atomic_add_f32", atomic, RF_EMU_ADD_F),
    {0},
};
