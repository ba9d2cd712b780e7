/* decode.c - a module's code as compact instructions: runs the disassembler, parses its lines,
 * resolves branches, and gives the accumulation registers their rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/map.h"
#include "gpuemu/inst.h"

/* ---- names of opcodes ---- */

static const rf_emu_op *const tables[] = {
    rf_emu_ops_scalar, rf_emu_ops_float,  rf_emu_ops_int, rf_emu_ops_half,   rf_emu_ops_compare,
    rf_emu_ops_cross,  rf_emu_ops_memory, rf_emu_ops_lds, rf_emu_ops_matrix, rf_emu_ops_flow,
};
enum { N_SLOTS = 4096 };
static const rf_emu_op *slots[N_SLOTS];

static uint32_t hash(const char *s) {
    uint32_t h = 2166136261u;
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 16777619u;
    return h % N_SLOTS;
}

__attribute__((constructor)) static void fill_slots(void) {
    for (size_t t = 0; t < RF_COUNT(tables); t++)
        for (const rf_emu_op *op = tables[t]; op->name; op++) {
            uint32_t at = hash(op->name);
            while (slots[at] && strcmp(slots[at]->name, op->name))
                at = (at + 1) % N_SLOTS;
            if (!slots[at]) slots[at] = op;
        }
}

const rf_emu_op *rf_emu_op_find(const char *name) {
    for (uint32_t at = hash(name); slots[at]; at = (at + 1) % N_SLOTS)
        if (!strcmp(slots[at]->name, name)) return slots[at];
    return NULL;
}

/* ---- growing arrays ---- */

static bool grow(void *array, size_t *cap, size_t n, size_t size) {
    void *p;
    memcpy(&p, array, sizeof p);
    if (n < *cap) return true;
    size_t more = *cap ? 2 * *cap : 1024;
    while (more <= n)
        more *= 2;
    p = rf_realloc(p, *cap, more, size);
    if (!p) return false;
    memcpy(array, &p, sizeof p);
    *cap = more;
    return true;
}

static bool keep_text(rf_emu_module *m, const char *text) {
    size_t n = strlen(text) + 1;
    if (!grow(&m->text, &m->cap_text, m->n_text + n, 1)) return false;
    memcpy(m->text + m->n_text, text, n);
    m->n_text += n;
    return true;
}

/* ---- lines ---- */

static bool parse_pair(rf_emu_module *m, char *first, char *second, rf_emu_inst *i,
                       const char **what) {
    if (!grow(&m->pairs, &m->cap_pairs, 2 * m->n_pairs + 1, sizeof *m->pairs)) return false;
    rf_emu_inst *pair = &m->pairs[2 * m->n_pairs];
    *i = (rf_emu_inst){.run = rf_emu_run_unknown, .gfx = m->gfx, .target = UINT32_MAX};
    if (!rf_emu_parse(first, m->gfx, &pair[0], what) ||
        !rf_emu_parse(second, m->gfx, &pair[1], what) || !pair[0].op->lanes || !pair[1].op->lanes)
        return false;
    i->run = rf_emu_run_pair;
    i->offset1 = (uint32_t)m->n_pairs++; /* the array still moves */
    return true;
}

static bool first_word_waits(const char *line) {
    char name[64];
    size_t n = strcspn(line, " \t");
    if (n >= sizeof name) return false;
    memcpy(name, line, n);
    name[n] = 0;
    return rf_emu_is_wait(name);
}

/* One line "instruction", of the given address. */
static bool add_line(rf_emu_module *m, char *line, uint64_t address) {
    m->at_address[(address - m->text_lo) / 4] = (uint32_t)m->n_code;
    if (first_word_waits(line)) return true; /* its address stands for the next instruction */
    size_t cap = m->cap_code;
    if (!grow(&m->code, &m->cap_code, m->n_code + 1, sizeof *m->code)) return false;
    if (cap != m->cap_code) {
        size_t *t = rf_realloc(m->text_of, cap, m->cap_code, sizeof *t);
        if (!t) return false;
        m->text_of = t;
    }
    rf_emu_inst *i = &m->code[m->n_code];
    m->text_of[m->n_code++] = m->n_text;
    if (!keep_text(m, line)) return false;
    const char *what = "";
    char *second = strstr(line, " :: ");
    bool known;
    if (second) {
        *second = 0;
        known = parse_pair(m, line, second + 4, i, &what);
    } else {
        known = rf_emu_parse(line, m->gfx, i, &what);
    }
    if (!known) i->run = rf_emu_run_unknown;
    i->address = (uint32_t)address;
    return true;
}

/* "\tinstruction   // address: <target>" */
static bool split_line(char *line, char **text, uint64_t *address) {
    char *comment = strstr(line, "// ");
    if (line[0] != '\t' || !comment) return false;
    *address = strtoull(comment + 3, NULL, 16);
    *comment = 0;
    size_t n = strlen(line);
    while (n && strchr(" \t\n", line[n - 1]))
        line[--n] = 0;
    *text = line + 1;
    return n > 1;
}

static rf_status read_lines(rf_emu_module *m, FILE *f, rf_error *e) {
    char line[512], *text;
    uint64_t address;
    while (fgets(line, sizeof line, f)) {
        if (!split_line(line, &text, &address)) continue;
        if (address < m->text_lo || address >= m->text_hi || address % 4)
            return rf_fail(e, RF_EFORMAT, "disassembler: address %#llx lies outside the code",
                           (unsigned long long)address);
        if (!add_line(m, text, address)) return rf_fail_nomem(e, m->n_code * sizeof *m->code);
    }
    if (m->n_code == 0) return rf_fail(e, RF_EUNSUPPORTED, "disassembler: no instructions");
    return RF_OK;
}

/* Listings are megabytes that take seconds to make: where RF_EMU_LISTINGS names a folder, the last large one
 * of each architecture stays there for the next process, its first line the hash of its code object. */
enum { LARGE = 1 << 20 };

/* The kept listing, if it is that of this code object. */
static FILE *find_listing(const char *path, uint64_t hash) {
    unsigned long long found;
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%llx", &found) == 1 && found == hash) return f;
    if (f) fclose(f);
    return NULL;
}

/* The disassembler's output behind the hash, into the file at path. */
static rf_status write_listing(const char *path, uint64_t hash, const void *elf, size_t n,
                               rf_error *e) {
    const char *tool = getenv("RF_EMU_OBJDUMP");
    char command[1200];
    int in = memfd_create("code object", 0);
    if (in < 0) return rf_fail(e, RF_EIO, "code object: no memory file");
    snprintf(command, sizeof command,
             "{ echo %llx; exec %s -d --no-show-raw-insn /proc/self/fd/%d; } >'%s' 2>&1",
             (unsigned long long)hash, tool ? tool : RF_EMU_OBJDUMP, in, path);
    bool done = write(in, elf, n) == (ssize_t)n && system(command) == 0;
    close(in);
    if (done) return RF_OK;
    return rf_fail(e, RF_EIO, "code object: the disassembler failed (RF_EMU_OBJDUMP names it)");
}

static rf_status make_listing(const char *kept, uint64_t hash, const void *elf, size_t n, FILE **f,
                              rf_error *e) {
    char path[520];
    snprintf(path, sizeof path, "%s.XXXXXX", kept ? kept : "/tmp/rf-listing");
    int fd = mkstemp(path);
    if (fd < 0) return rf_fail(e, RF_EIO, "code object: cannot make %s", path);
    close(fd);
    rf_status s = write_listing(path, hash, elf, n, e);
    if (s == RF_OK && !(*f = find_listing(path, hash)))
        s = rf_fail(e, RF_EIO, "code object: cannot read %s", path);
    if (s != RF_OK || !kept || rename(path, kept) != 0) unlink(path);
    return s;
}

static rf_status disassemble(rf_emu_module *m, const void *elf, size_t n, rf_error *e) {
    const char *folder = getenv("RF_EMU_LISTINGS");
    bool keep = folder && n >= LARGE;
    char kept[500];
    uint64_t hash = rf_hash(elf, n, 0);
    if (keep) snprintf(kept, sizeof kept, "%s/%s.listing", folder, m->arch);
    FILE *f = keep ? find_listing(kept, hash) : NULL;
    if (!f) RF_TRY(make_listing(keep ? kept : NULL, hash, elf, n, &f, e));
    rf_status s = read_lines(m, f, e);
    fclose(f);
    return s;
}

/* ---- after the last line ---- */

static void count_register(rf_emu_module *m, const rf_emu_operand *o) {
    if (o->place != RF_EMU_VGPR) return;
    uint32_t end = (uint32_t)o->reg + o->n;
    if (o->reg >= RF_EMU_AGPR && end - RF_EMU_AGPR > m->n_agpr) m->n_agpr = end - RF_EMU_AGPR;
    if (o->reg < RF_EMU_AGPR && end > m->n_vgpr) m->n_vgpr = end;
}

static void move_register(const rf_emu_module *m, rf_emu_operand *o) {
    if (o->place == RF_EMU_VGPR && o->reg >= RF_EMU_AGPR)
        o->reg = (uint16_t)(o->reg - RF_EMU_AGPR + m->n_vgpr);
}

static void each_operand(rf_emu_module *m, rf_emu_inst *i, bool move) {
    for (uint32_t k = 0; k < RF_EMU_MAX_OPERANDS; k++)
        move ? move_register(m, &i->o[k]) : count_register(m, &i->o[k]);
    for (uint32_t k = 0; k < RF_EMU_MAX_SRC; k++)
        move ? move_register(m, &i->src[k]) : count_register(m, &i->src[k]);
}

static void resolve(rf_emu_module *m, rf_emu_inst *i) {
    if (i->run == rf_emu_run_pair) i->pair = &m->pairs[2 * i->offset1];
    bool jumps =
        i->op && (!strncmp(i->op->name, "s_branch", 8) || !strncmp(i->op->name, "s_cbranch", 9));
    if (!jumps || i->n_operands == 0) return;
    uint64_t to = i->address + 4 + (uint64_t)((int64_t)(int16_t)i->o[0].value * 4);
    if (to >= m->text_lo && to < m->text_hi) i->target = m->at_address[(to - m->text_lo) / 4];
    if (i->target >= m->n_code) i->target = UINT32_MAX;
}

rf_status rf_emu_decode(rf_emu_module *m, const void *elf, size_t n, rf_error *e) {
    size_t words = (size_t)(m->text_hi - m->text_lo) / 4 + 1;
    m->at_address = rf_alloc(words, sizeof *m->at_address);
    if (!m->at_address) return rf_fail_nomem(e, words * sizeof *m->at_address);
    memset(m->at_address, 0xff, words * sizeof *m->at_address);
    RF_TRY(disassemble(m, elf, n, e));
    for (int move = 0; move < 2; move++) {
        for (size_t k = 0; k < m->n_code; k++)
            each_operand(m, &m->code[k], move);
        for (size_t k = 0; k < 2 * m->n_pairs; k++)
            each_operand(m, &m->pairs[k], move);
        if (!move && m->n_vgpr < 4) m->n_vgpr = 4; /* the work-item numbers arrive there */
    }
    for (size_t k = 0; k < m->n_code; k++) {
        resolve(m, &m->code[k]);
        m->code[k].class = rf_emu_class_of(&m->code[k]);
    }
    return RF_OK;
}

const char *rf_emu_inst_text(const rf_emu_module *m, const rf_emu_inst *i) {
    if (i >= m->code && i < m->code + m->n_code) return m->text + m->text_of[i - m->code];
    for (size_t k = 0; k < m->n_code; k++) /* a half of a dual instruction */
        if (m->code[k].pair && (i == m->code[k].pair || i == m->code[k].pair + 1))
            return m->text + m->text_of[k];
    return "?";
}

const char *rf_emu_module_unknown(const rf_emu_module *m, size_t at) {
    for (size_t k = 0; k < m->n_code; k++)
        if (m->code[k].run == rf_emu_run_unknown && at-- == 0) return m->text + m->text_of[k];
    return NULL;
}

void rf_emu_module_mnemonics(const rf_emu_module *m, void (*f)(void *arg, const char *name),
                             void *arg) {
    for (size_t k = 0; k < m->n_code; k++) {
        const rf_emu_inst *i = &m->code[k];
        if (i->pair) {
            f(arg, i->pair[0].op->name);
            f(arg, i->pair[1].op->name);
        } else {
            f(arg, i->op ? i->op->name : m->text + m->text_of[k]);
        }
    }
}
