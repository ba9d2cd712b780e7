/* parse.c - one instruction from the disassembler's text, and its operands by the row's signature. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fmath.h"
#include "gpuemu/inst.h"

/* ---- modifiers: "offset:16", "row_shr:1", "op_sel:[0,1]", "clamp" ---- */

static uint32_t bit_list(const char *p) { /* [0,1,1] -> bits */
    uint32_t m = 0, at = 0;
    for (; *p && *p != ']'; p++) {
        if (*p == '1') m |= 1u << at;
        if (*p == ',') at++;
    }
    return m;
}

/* swizzle(MODE, ...) as the 16 bits of the instruction */
static bool swizzle(const char *v, int64_t *out) {
    uint32_t a, b, c, d;
    char mask[8];
    if (sscanf(v, "swizzle(SWAP,%u)", &a) == 1) {
        *out = 0x1f | a << 10;
    } else if (sscanf(v, "swizzle(REVERSE,%u)", &a) == 1) {
        *out = 0x1f | (a - 1) << 10;
    } else if (sscanf(v, "swizzle(BROADCAST,%u,%u)", &a, &b) == 2) {
        *out = (0x1f & ~(a - 1)) | b << 5;
    } else if (sscanf(v, "swizzle(QUAD_PERM,%u,%u,%u,%u)", &a, &b, &c, &d) == 4) {
        *out = 0x8000 | a | b << 2 | c << 4 | d << 6;
    } else if (sscanf(v, "swizzle(BITMASK_PERM,\"%5[01pi]\")", mask) == 1 && strlen(mask) == 5) {
        uint32_t keep = 0, set = 0, flip = 0;
        for (uint32_t k = 0; k < 5; k++) {
            uint32_t bit = 16u >> k;
            if (mask[k] == '1') set |= bit;
            if (mask[k] == 'p' || mask[k] == 'i') keep |= bit;
            if (mask[k] == 'i') flip |= bit;
        }
        *out = keep | set << 5 | flip << 10;
    } else {
        return false;
    }
    return true;
}

static uint32_t sdwa_sel(const char *v) {
    if (!strncmp(v, "BYTE_", 5)) return (uint32_t)(v[5] - '0') & 3;
    if (!strncmp(v, "WORD_", 5)) return 4 + ((uint32_t)(v[5] - '0') & 1);
    return 6;
}

static const struct {
    const char *name;
    uint32_t base, mask; /* control word = base | (value & mask) */
} dpp_controls[] = {
    {"row_shl", 0x100, 15},   {"row_shr", 0x110, 15},      {"row_ror", 0x120, 15},
    {"row_share", 0x150, 15}, {"row_newbcast", 0x150, 15}, {"row_xmask", 0x160, 15},
    {"wave_shl", 0x130, 0},   {"wave_rol", 0x134, 0},      {"wave_shr", 0x138, 0},
    {"wave_ror", 0x13c, 0},
};

static bool dpp_modifier(rf_emu_dpp *d, const char *name, const char *v) {
    uint32_t a[8];
    uint32_t x = (uint32_t)strtoul(v, NULL, 0);
    for (size_t k = 0; k < RF_COUNT(dpp_controls); k++)
        if (!strcmp(name, dpp_controls[k].name)) {
            d->control = dpp_controls[k].base | (x & dpp_controls[k].mask);
            return true;
        }
    if (!strcmp(name, "quad_perm")) {
        if (sscanf(v, "[%u,%u,%u,%u]", a, a + 1, a + 2, a + 3) != 4) return false;
        d->control = a[0] | a[1] << 2 | a[2] << 4 | a[3] << 6;
    } else if (!strcmp(name, "dpp8")) {
        if (sscanf(v, "[%u,%u,%u,%u,%u,%u,%u,%u]", a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6,
                   a + 7) != 8)
            return false;
        d->dpp8 = true;
        d->control = 0;
        for (uint32_t k = 0; k < 8; k++)
            d->control |= (a[k] & 7) << 3 * k;
    } else if (!strcmp(name, "row_bcast")) {
        d->control = x == 15 ? 0x142 : 0x143;
    } else if (!strcmp(name, "row_mask")) {
        d->row_mask = x;
    } else if (!strcmp(name, "bank_mask")) {
        d->bank_mask = x;
    } else if (!strcmp(name, "bound_ctrl")) {
        d->bound = true;
    } else if (!strcmp(name, "fi")) {
        d->inactive = x != 0;
    } else {
        return false;
    }
    return true;
}

static bool value_modifier(rf_emu_inst *i, const char *name, const char *v) {
    static const char *const ignored[] = {"scope",        "cbsz",          "abid",
                                          "blgp",         "wait_exp",      "wait_va_vdst",
                                          "wait_vm_vsrc", "matrix_a_reuse"};
    if (!strcmp(name, "offset") && !strncmp(v, "swizzle(", 8)) return swizzle(v, &i->offset);
    if (!strcmp(name, "offset") || !strcmp(name, "offset0"))
        i->offset = strtoll(v, NULL, 0);
    else if (!strcmp(name, "offset1"))
        i->offset1 = (uint32_t)strtoul(v, NULL, 0);
    else if (!strcmp(name, "op_sel"))
        i->op_sel = bit_list(v);
    else if (!strcmp(name, "op_sel_hi"))
        i->op_sel_hi = bit_list(v), i->has_op_sel_hi = true;
    else if (!strcmp(name, "neg_lo"))
        i->neg_lo = bit_list(v);
    else if (!strcmp(name, "neg_hi"))
        i->neg_hi = bit_list(v);
    else if (!strcmp(name, "mul"))
        i->omod = atoi(v) == 2 ? 1 : 2;
    else if (!strcmp(name, "div"))
        i->omod = 3;
    else if (!strcmp(name, "dst_sel"))
        i->sdwa.dst = sdwa_sel(v);
    else if (!strcmp(name, "src0_sel"))
        i->sdwa.src0 = sdwa_sel(v);
    else if (!strcmp(name, "src1_sel"))
        i->sdwa.src1 = sdwa_sel(v);
    else if (!strcmp(name, "dst_unused"))
        i->sdwa.preserve = !strcmp(v, "UNUSED_PRESERVE"), i->sdwa.sign = !strcmp(v, "UNUSED_SEXT");
    else if (!strcmp(name, "th"))
        i->returns |= strstr(v, "RETURN") != NULL;
    else if (!strcmp(name, "bitop3") && i->n_operands < RF_EMU_MAX_OPERANDS)
        i->o[i->n_operands++] =
            (rf_emu_operand){.place = RF_EMU_CONST, .n = 1, .value = strtoul(v, NULL, 0)};
    else {
        for (size_t k = 0; k < RF_COUNT(ignored); k++)
            if (!strcmp(name, ignored[k])) return true;
        return dpp_modifier(&i->dpp, name, v);
    }
    return true;
}

/* A modifier without a value; *known tells whether it is one at all. */
static void flag_modifier(rf_emu_inst *i, const char *t, bool *known) {
    static const char *const ignored[] = {"slc", "dlc", "sc1", "nt"};
    *known = true;
    if (!strcmp(t, "clamp"))
        i->clamp = true;
    else if (!strcmp(t, "glc") || !strcmp(t, "sc0"))
        i->returns = true;
    else if (!strcmp(t, "row_mirror"))
        i->dpp.control = 0x140;
    else if (!strcmp(t, "row_half_mirror"))
        i->dpp.control = 0x141;
    else {
        for (size_t k = 0; k < RF_COUNT(ignored); k++)
            if (!strcmp(t, ignored[k])) return;
        *known = false;
    }
}

/* ---- the whole line ---- */

/* The mnemonic without its encoding suffix. */
static void take_name(char **text, char *name, size_t size, rf_emu_inst *i) {
    static const char *const suffix[] = {"_e64_dpp", "_e64_dpp8", "_dpp8", "_dpp",
                                         "_sdwa",    "_e32",      "_e64"};
    size_t n = strcspn(*text, " \t"), copied = n < size ? n : size - 1;
    memcpy(name, *text, copied);
    name[copied] = 0;
    *text += n;
    for (size_t k = 0; k < RF_COUNT(suffix); k++) {
        size_t len = strlen(suffix[k]);
        if (copied <= len || strcmp(name + copied - len, suffix[k])) continue;
        name[copied - len] = 0;
        i->dpp.on = k < 4;
        i->sdwa.on = k == 4;
        break;
    }
    if (!strncmp(name, "v_dual_", 7)) memmove(name + 2, name + 7, strlen(name + 7) + 1);
}

/* The next operand or modifier, ended by a comma or space outside of brackets. */
static char *take_word(char **text) {
    char *p = *text;
    p += strspn(p, " \t,");
    if (!*p) return NULL;
    char *start = p;
    for (int depth = 0; *p && (depth || !strchr(", \t", *p)); p++) {
        if (*p == '[' || *p == '(') depth++;
        if (*p == ']' || *p == ')') depth--;
    }
    if (*p) *p++ = 0;
    *text = p;
    return start;
}

static bool is_value_modifier(const char *word) {
    const char *colon = strchr(word, ':'), *bracket = strchr(word, '[');
    return colon && *word >= 'a' && *word <= 'z' && !(bracket && bracket < colon);
}

static bool words(char *text, rf_emu_inst *i, const char **what) {
    for (char *t; (t = take_word(&text));) {
        bool known;
        if (is_value_modifier(t)) {
            char *colon = strchr(t, ':');
            *colon = 0;
            if (value_modifier(i, t, colon + 1)) continue;
            *what = "modifier";
            return false;
        }
        flag_modifier(i, t, &known);
        if (known) continue;
        if (*t == '<') return true; /* the target of a branch, in words */
        if (i->n_operands == RF_EMU_MAX_OPERANDS ||
            !rf_emu_parse_operand(t, &i->o[i->n_operands])) {
            *what = "operand";
            return false;
        }
        i->n_operands++;
    }
    return true;
}

bool rf_emu_parse(char *text, uint32_t gfx, rf_emu_inst *i, const char **what) {
    char name[64];
    *i = (rf_emu_inst){.run = rf_emu_run_unknown, .gfx = gfx, .target = UINT32_MAX};
    i->dpp.row_mask = i->dpp.bank_mask = 15;
    i->sdwa.dst = i->sdwa.src0 = i->sdwa.src1 = 6;
    text += strspn(text, " \t");
    take_name(&text, name, sizeof name, i);
    i->op = rf_emu_op_find(name);
    if (!i->op) {
        *what = "mnemonic";
        return false;
    }
    if (!words(text, i, what)) return false;
    bool integer = i->op->sig && i->op->sig[0] != 'f';
    if (i->clamp && integer) { /* saturation is a row of its own */
        snprintf(name + strlen(name), sizeof name - strlen(name), " clamp");
        i->op = rf_emu_op_find(name);
        i->clamp = false;
    }
    if (!i->op) {
        *what = "clamp";
        return false;
    }
    return rf_emu_bind(i, what);
}

/* ---- operands by the signature ---- */

/* A constant in the form that its letter wants. */
static void bind_constant(rf_emu_operand *o, char type) {
    float f = rf_emu_f32((uint32_t)o->value);
    double d = (double)f;
    if (!o->is_float) {
        if (type == 'd' && o->value >> 32 == 0 && o->value > 64) o->value <<= 32;
        if (type == 'w') o->value = (uint32_t)o->value | o->value << 32;
        return;
    }
    switch (type) {
    case 'h':
    case 'p':
    case 'u':
        o->value = rf_f32_to_f16(f);
        break;
    case 'd':
    case 'q':
        memcpy(&o->value, &d, sizeof d);
        break;
    case 'w':
        o->value |= o->value << 32;
        break;
    default:
        break;
    }
}

static bool bind_source(rf_emu_inst *i, char type, bool is_dst, uint32_t *next) {
    rf_emu_operand *o = &i->src[i->n_src];
    i->src_type[i->n_src++] = type;
    if (type == 'n') return true; /* not an operand: the bits of neg_lo */
    if (is_dst) {
        *o = i->o[0];
        o->neg = o->abs = false;
        return true;
    }
    if (*next >= i->n_operands) {
        if (type != 'm') return false;
        *o = (rf_emu_operand){.place = RF_EMU_SGPR, .reg = RF_EMU_VCC, .n = 2};
        return true;
    }
    *o = i->o[(*next)++];
    if (o->place == RF_EMU_NONE) return false;
    if ((o->neg || o->abs) && !strchr("fhdx", type)) return false;
    if (o->place == RF_EMU_CONST) bind_constant(o, type);
    return true;
}

static uint32_t destinations_of_compare(const rf_emu_inst *i, const char *sources) {
    return i->n_operands > strlen(sources) ? 1 : 0; /* v_cmpx writes an SGPR as well on gfx9 */
}

static bool good_registers(const rf_emu_inst *i) {
    for (uint32_t k = 0; k < i->n_src; k++) {
        bool scalar_only = i->op->scalar || i->src_type[k] == 'm';
        if (scalar_only && i->src[k].place == RF_EMU_VGPR) return false;
    }
    for (uint32_t k = 0; k < i->n_dst && k < i->n_operands; k++) {
        bool scalar = i->op->scalar || i->dst_type[k] == 'm' || i->dst_type[k] == 'x';
        if (i->dst_type[k] == 'x' && i->n_operands == i->n_src) continue;
        if (i->o[k].place != (scalar ? RF_EMU_SGPR : RF_EMU_VGPR)) return false;
    }
    return true;
}

bool rf_emu_bind(rf_emu_inst *i, const char **what) {
    *what = "operands";
    i->run = i->op->run;
    if (i->run) return true;
    const char *sig = i->op->sig, *colon = strchr(sig, ':');
    uint32_t next = 0;
    for (; sig < colon; sig++)
        i->dst_type[i->n_dst++] = *sig;
    next = i->dst_type[0] == 'x' ? destinations_of_compare(i, colon + 1) : i->n_dst;
    if (next > i->n_operands) return false;
    for (sig = colon + 1; *sig; sig++) {
        bool is_dst = *sig == '+';
        if (is_dst && i->n_src == 0) i->acc_first = true;
        if (is_dst) sig++;
        if (!bind_source(i, *sig, is_dst, &next)) return false;
    }
    if (next != i->n_operands || !good_registers(i)) return false;
    if (!i->has_op_sel_hi) i->op_sel_hi = i->src_type[0] == 'x' ? 0 : 7;
    for (uint32_t k = 0; k < i->n_src; k++)
        i->dst_sel_bit += i->src_type[k] != 'm' && !(k + 1 == i->n_src && strchr(i->op->sig, '+'));
    if ((i->omod || i->clamp) && i->dst_type[0] != 'f') {
        *what = "output modifier";
        return false;
    }
    if (i->sdwa.on && i->sdwa.sign) {
        *what = "SDWA sign";
        return false;
    }
    i->run = i->op->scalar ? rf_emu_run_scalar : rf_emu_run_lanes;
    return true;
}
