/* note.c - the metadata note of a code object: a msgpack map that lists each kernel's arguments and
 * registers.  A reader of its own, as only maps, arrays, strings and integers occur. */
#include <string.h>

#include "gpuemu/inst.h"

typedef struct note {
    const uint8_t *p, *end;
    bool bad;
} note;

typedef struct value {
    char type;  /* 'i' integer, 's' string, 'a' array, 'm' map */
    uint64_t n; /* the integer, or the number of bytes, elements, pairs */
    const char *s;
} value;

static uint64_t big_endian(note *t, size_t n) {
    uint64_t v = 0;
    if ((size_t)(t->end - t->p) < n) {
        t->bad = true;
        return 0;
    }
    while (n--)
        v = v << 8 | *t->p++;
    return v;
}

static value string_of(note *t, uint64_t n) {
    if ((uint64_t)(t->end - t->p) < n) {
        t->bad = true;
        n = 0;
    }
    value v = {'s', n, (const char *)t->p};
    t->p += n;
    return v;
}

static value wide_value(note *t, uint8_t c) {
    switch (c) {
    case 0xc0:
    case 0xc2:
        return (value){.type = 'i', .n = 0};
    case 0xc3:
        return (value){.type = 'i', .n = 1};
    case 0xcc:
    case 0xd0:
        return (value){.type = 'i', .n = big_endian(t, 1)};
    case 0xcd:
    case 0xd1:
        return (value){.type = 'i', .n = big_endian(t, 2)};
    case 0xce:
    case 0xd2:
        return (value){.type = 'i', .n = big_endian(t, 4)};
    case 0xcf:
    case 0xd3:
        return (value){.type = 'i', .n = big_endian(t, 8)};
    case 0xd9:
        return string_of(t, big_endian(t, 1));
    case 0xda:
        return string_of(t, big_endian(t, 2));
    case 0xdb:
        return string_of(t, big_endian(t, 4));
    case 0xdc:
        return (value){.type = 'a', .n = big_endian(t, 2)};
    case 0xdd:
        return (value){.type = 'a', .n = big_endian(t, 4)};
    case 0xde:
        return (value){.type = 'm', .n = big_endian(t, 2)};
    case 0xdf:
        return (value){.type = 'm', .n = big_endian(t, 4)};
    default:
        t->bad = true;
        return (value){.type = 'i'};
    }
}

static value next_value(note *t) {
    uint8_t c = (uint8_t)big_endian(t, 1);
    if (t->bad) return (value){.type = 'i'};
    if (c < 0x80 || c >= 0xe0) return (value){.type = 'i', .n = c};
    if (c < 0x90) return (value){.type = 'm', .n = c & 15};
    if (c < 0xa0) return (value){.type = 'a', .n = c & 15};
    return c < 0xc0 ? string_of(t, c & 31) : wide_value(t, c);
}

static void skip(note *t) {
    uint64_t left = 1; /* values still to be passed over */
    while (left-- && !t->bad) {
        value v = next_value(t);
        if (v.type == 'a') left += v.n;
        if (v.type == 'm') left += 2 * v.n;
        if (left > (uint64_t)(t->end - t->p)) t->bad = true;
    }
}

static bool is(value v, const char *s) {
    return v.type == 's' && v.n == strlen(s) && !memcmp(v.s, s, v.n);
}

static void copy(value v, char *to, size_t size) {
    size_t n = v.type == 's' ? (size_t)v.n : 0;
    if (n >= size) n = size - 1;
    memcpy(to, v.s ? v.s : "", n);
    to[n] = 0;
}

static void read_arg(note *t, rf_emu_arg *a) {
    value map = next_value(t);
    for (uint64_t k = 0; k < map.n && !t->bad; k++) {
        value key = next_value(t);
        if (is(key, ".offset"))
            a->offset = (uint32_t)next_value(t).n;
        else if (is(key, ".size"))
            a->bytes = (uint32_t)next_value(t).n;
        else if (is(key, ".value_kind"))
            copy(next_value(t), a->kind, sizeof a->kind);
        else
            skip(t);
    }
}

static void read_args(note *t, rf_emu_kernel *k) {
    value list = next_value(t);
    for (uint64_t n = 0; n < list.n && !t->bad; n++) {
        if (k->n_args == RF_EMU_MAX_ARGS) {
            t->bad = true;
            return;
        }
        read_arg(t, &k->args[k->n_args++]);
    }
}

static uint32_t *number_of(rf_emu_kernel *k, value key) {
    if (is(key, ".kernarg_segment_size")) return &k->kernarg_bytes;
    if (is(key, ".max_flat_workgroup_size")) return &k->max_threads;
    if (is(key, ".vgpr_count")) return &k->n_vgpr;
    if (is(key, ".sgpr_count")) return &k->n_sgpr;
    if (is(key, ".vgpr_spill_count")) return &k->n_vgpr_spill;
    if (is(key, ".sgpr_spill_count")) return &k->n_sgpr_spill;
    return NULL;
}

static void read_kernel(note *t, rf_emu_module *m) {
    rf_emu_kernel k = {0};
    value map = next_value(t);
    for (uint64_t n = 0; n < map.n && !t->bad; n++) {
        value key = next_value(t);
        uint32_t *number = number_of(&k, key);
        if (number)
            *number = (uint32_t)next_value(t).n;
        else if (is(key, ".args"))
            read_args(t, &k);
        else if (is(key, ".name"))
            copy(next_value(t), k.name, sizeof k.name);
        else
            skip(t);
    }
    rf_emu_kernel *to = rf_emu_kernel_find(m, k.name);
    if (!to) return;
    memcpy(to->args, k.args, sizeof to->args);
    to->n_args = k.n_args;
    to->kernarg_bytes = k.kernarg_bytes;
    to->max_threads = k.max_threads;
    to->n_vgpr = k.n_vgpr;
    to->n_sgpr = k.n_sgpr;
    to->n_vgpr_spill = k.n_vgpr_spill;
    to->n_sgpr_spill = k.n_sgpr_spill;
}

rf_status rf_emu_note_read(rf_emu_module *m, const uint8_t *p, size_t n, rf_error *e) {
    note t = {.p = p, .end = p + n};
    value map = next_value(&t);
    for (uint64_t k = 0; k < map.n && !t.bad; k++) {
        value key = next_value(&t);
        if (!is(key, "amdhsa.kernels")) {
            skip(&t);
            continue;
        }
        value list = next_value(&t);
        for (uint64_t j = 0; j < list.n && !t.bad; j++)
            read_kernel(&t, m);
    }
    return t.bad ? rf_fail(e, RF_EFORMAT, "code object: broken metadata note") : RF_OK;
}
