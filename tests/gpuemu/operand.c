/* operand.c - one operand of the disassembler's text: "v[4:7]", "-|s3|", "vcc_lo", "0x3f800000". */
#include <stdlib.h>
#include <string.h>

#include "gpuemu/inst.h"

static const struct {
    const char *name;
    uint16_t reg;
    uint8_t n;
} special[] = {
    {"vcc", RF_EMU_VCC, 2},     {"vcc_lo", RF_EMU_VCC, 1},   {"vcc_hi", RF_EMU_VCC + 1, 1},
    {"exec", RF_EMU_EXEC, 2},   {"exec_lo", RF_EMU_EXEC, 1}, {"exec_hi", RF_EMU_EXEC + 1, 1},
    {"m0", RF_EMU_M0, 1},       {"null", RF_EMU_NULL, 1},    {"scc", RF_EMU_SCC, 1},
    {"src_scc", RF_EMU_SCC, 1},
};

/* "5" or "[5:8]" -> first register and count */
static bool range(const char *p, uint16_t *reg, uint8_t *n) {
    char *end;
    bool bracket = *p == '[';
    unsigned long a = strtoul(p + bracket, &end, 10), b = a;
    if (end == p + bracket || a > 511) return false;
    if (bracket) {
        if (*end == ':') b = strtoul(end + 1, &end, 10);
        if (*end != ']' || b < a || b - a > 31 || b > 511) return false;
        end++;
    }
    *reg = (uint16_t)a;
    *n = (uint8_t)(b - a + 1);
    return *end == 0;
}

static bool registers(const char *p, rf_emu_operand *o) {
    for (size_t k = 0; k < RF_COUNT(special); k++)
        if (!strcmp(p, special[k].name)) {
            o->place = RF_EMU_SGPR;
            o->reg = special[k].reg;
            o->n = special[k].n;
            return true;
        }
    if (!strncmp(p, "ttmp", 4)) {
        o->place = RF_EMU_SGPR;
        if (!range(p + 4, &o->reg, &o->n) || o->reg + o->n > 16) return false;
        o->reg = (uint16_t)(o->reg + RF_EMU_TTMP);
        return true;
    }
    if ((*p != 'v' && *p != 's' && *p != 'a') || !range(p + 1, &o->reg, &o->n)) return false;
    o->place = *p == 's' ? RF_EMU_SGPR : RF_EMU_VGPR;
    if (o->reg + o->n > (*p == 's' ? 106 : 256)) return false;
    if (*p == 'a') o->reg = (uint16_t)(o->reg + RF_EMU_AGPR);
    return true;
}

static bool constant(const char *p, rf_emu_operand *o) {
    char *end;
    o->place = RF_EMU_CONST;
    if (strchr(p, '.') && strncmp(p, "0x", 2)) {
        o->value = rf_emu_u32(strtof(p, &end));
        o->is_float = true;
        return end != p && *end == 0;
    }
    o->value = *p == '-' ? (uint64_t)strtoll(p, &end, 0) : strtoull(p, &end, 0);
    return end != p && *end == 0;
}

/* Takes "name(" off the front and ")" off the end. */
static bool unwrap(char **p, const char *name) {
    size_t n = strlen(name), len = strlen(*p);
    if (strncmp(*p, name, n) || (*p)[n] != '(' || (*p)[len - 1] != ')') return false;
    (*p)[len - 1] = 0;
    *p += n + 1;
    return true;
}

bool rf_emu_parse_operand(char *p, rf_emu_operand *o) {
    *o = (rf_emu_operand){.n = 1};
    if (!strcmp(p, "off")) return true;
    if (unwrap(&p, "lit") || unwrap(&p, "lit64")) return constant(p, o);
    if (*p == '-' && strchr("vsa|te", p[1]) && p[1]) {
        o->neg = true;
        p++;
    }
    if (unwrap(&p, "neg")) o->neg = true;
    if (unwrap(&p, "sext")) o->sext = true;
    size_t len = strlen(p);
    if ((len > 2 && *p == '|' && p[len - 1] == '|')) {
        p[len - 1] = 0;
        p++;
        o->abs = true;
        len -= 2;
    }
    if (len > 2 && *p == 'v' && p[len - 2] == '.' && (p[len - 1] == 'h' || p[len - 1] == 'l')) {
        o->high = p[len - 1] == 'h';
        o->low = p[len - 1] == 'l';
        p[len - 2] = 0;
    }
    if (registers(p, o)) return true;
    return constant(p, o);
}
