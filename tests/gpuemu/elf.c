/* elf.c - a code object's ELF file: segments into an image, kernel descriptors, symbols, the note. */
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "gpuemu/inst.h"

enum { EM_AMD = 224, NOTE_METADATA = 32, MAX_IMAGE = 1 << 28, DESCRIPTOR_BYTES = 64 };

static const struct {
    uint32_t mach, gfx;
    const char *name;
    bool packed_ids;
} machines[] = {
    {0x2f, 9, "gfx906", false},
    {0x30, 9, "gfx908", false},
    {0x3f, 9, "gfx90a", true},
    {0x4c, 9, "gfx942", true},
    {0x4f, 9, "gfx950", true},
    {0x33, 10, "gfx1010", false},
    {0x34, 10, "gfx1011", false},
    {0x35, 10, "gfx1012", false},
    {0x36, 10, "gfx1030", false},
    {0x37, 10, "gfx1031", false},
    {0x38, 10, "gfx1032", false},
    {0x39, 10, "gfx1033", false},
    {0x3e, 10, "gfx1034", false},
    {0x3d, 10, "gfx1035", false},
    {0x45, 10, "gfx1036", false},
    {0x41, 11, "gfx1100", true},
    {0x46, 11, "gfx1101", true},
    {0x47, 11, "gfx1102", true},
    {0x44, 11, "gfx1103", true},
    {0x43, 11, "gfx1150", true},
    {0x4a, 11, "gfx1151", true},
    {0x55, 11, "gfx1152", true},
    {0x58, 11, "gfx1153", true},
    {0x48, 12, "gfx1200", true},
    {0x4e, 12, "gfx1201", true},
    {0x51, 9, "gfx9-generic", false},
    {0x5f, 9, "gfx9-4-generic", true},
    {0x52, 10, "gfx10-1-generic", false},
    {0x53, 10, "gfx10-3-generic", false},
    {0x54, 11, "gfx11-generic", true},
    {0x59, 12, "gfx12-generic", true},
};

typedef struct elf_file {
    const uint8_t *p;
    size_t n;
    Elf64_Ehdr head;
} elf_file;

static bool has(const elf_file *f, uint64_t at, uint64_t bytes) {
    return at <= f->n && bytes <= f->n - at;
}

static bool section(const elf_file *f, uint32_t k, Elf64_Shdr *s) {
    uint64_t at = f->head.e_shoff + (uint64_t)k * sizeof *s;
    if (f->head.e_shoff > f->n || !has(f, at, sizeof *s)) return false;
    memcpy(s, f->p + at, sizeof *s);
    return s->sh_type == SHT_NOBITS || has(f, s->sh_offset, s->sh_size);
}

static bool segment(const elf_file *f, uint32_t k, Elf64_Phdr *s) {
    uint64_t at = f->head.e_phoff + (uint64_t)k * sizeof *s;
    if (f->head.e_phoff > f->n || !has(f, at, sizeof *s)) return false;
    memcpy(s, f->p + at, sizeof *s);
    return has(f, s->p_offset, s->p_filesz);
}

/* A string of a string table, copied and always ended. */
static bool text_at(const elf_file *f, const Elf64_Shdr *table, uint64_t at, char *to,
                    size_t size) {
    if (at >= table->sh_size) return false;
    const uint8_t *p = f->p + table->sh_offset + at;
    size_t left = (size_t)(table->sh_size - at), n = strnlen((const char *)p, left);
    if (n == left || n >= size) return false;
    memcpy(to, p, n + 1);
    return true;
}

static rf_status find_machine(rf_emu_module *m, const elf_file *f, rf_error *e) {
    uint32_t mach = f->head.e_flags & 0xff;
    for (size_t k = 0; k < RF_COUNT(machines); k++) {
        if (machines[k].mach != mach) continue;
        snprintf(m->arch, sizeof m->arch, "%s", machines[k].name);
        m->gfx = machines[k].gfx;
        m->packed_ids = machines[k].packed_ids;
        return RF_OK;
    }
    return rf_fail(e, RF_EUNSUPPORTED, "code object: machine %#x is not known", mach);
}

static rf_status load_image(rf_emu_module *m, const elf_file *f, rf_error *e) {
    Elf64_Phdr s;
    uint64_t top = 0;
    for (uint32_t k = 0; k < f->head.e_phnum; k++) {
        if (!segment(f, k, &s)) return rf_fail(e, RF_EFORMAT, "code object: segment %u", k);
        if (s.p_type != PT_LOAD) continue;
        if (s.p_vaddr > MAX_IMAGE || s.p_memsz > MAX_IMAGE || s.p_filesz > s.p_memsz)
            return rf_fail(e, RF_EFORMAT, "code object: segment %u is too large", k);
        if (s.p_vaddr + s.p_memsz > top) top = s.p_vaddr + s.p_memsz;
    }
    m->image_bytes = (size_t)top;
    m->image = rf_alloc(m->image_bytes, 1);
    if (!m->image) return rf_fail_nomem(e, m->image_bytes);
    for (uint32_t k = 0; k < f->head.e_phnum; k++)
        if (segment(f, k, &s) && s.p_type == PT_LOAD)
            memcpy(m->image + s.p_vaddr, f->p + s.p_offset, s.p_filesz);
    return RF_OK;
}

/* The descriptor "<kernel>.kd": 64 bytes that the packet processor reads. */
static rf_status add_kernel(rf_emu_module *m, const char *name, uint64_t at, rf_error *e) {
    if (at > m->image_bytes || DESCRIPTOR_BYTES > m->image_bytes - at)
        return rf_fail(e, RF_EFORMAT, "code object: descriptor of %s lies outside", name);
    const uint8_t *d = m->image + at;
    rf_emu_kernel *k = &m->kernels[m->n_kernels++];
    int64_t entry;
    uint16_t properties, preload;
    snprintf(k->name, sizeof k->name, "%.*s", (int)(strlen(name) - 3), name);
    k->module = m;
    memcpy(&k->lds_bytes, d, 4);
    memcpy(&k->scratch_bytes, d + 4, 4);
    memcpy(&entry, d + 16, 8);
    memcpy(&k->rsrc3, d + 44, 4);
    memcpy(&k->rsrc1, d + 48, 4);
    memcpy(&k->rsrc2, d + 52, 4);
    memcpy(&properties, d + 56, 2);
    memcpy(&preload, d + 58, 2);
    k->entry = at + (uint64_t)entry;
    k->properties = properties;
    k->preload = preload;
    return RF_OK;
}

static rf_status read_symbols(rf_emu_module *m, const elf_file *f, const Elf64_Shdr *table,
                              rf_error *e) {
    Elf64_Shdr strings;
    size_t n = (size_t)(table->sh_size / sizeof(Elf64_Sym));
    if (!section(f, table->sh_link, &strings))
        return rf_fail(e, RF_EFORMAT, "code object: symbol names");
    m->kernels = rf_alloc(n, sizeof *m->kernels);
    m->symbols = rf_alloc(n, sizeof *m->symbols);
    if (!m->kernels || !m->symbols) return rf_fail_nomem(e, n * sizeof *m->kernels);
    for (size_t k = 0; k < n; k++) {
        Elf64_Sym s;
        struct rf_emu_symbol *to = &m->symbols[m->n_symbols];
        memcpy(&s, f->p + table->sh_offset + k * sizeof s, sizeof s);
        if (!text_at(f, &strings, s.st_name, to->name, sizeof to->name))
            return rf_fail(e, RF_EFORMAT, "code object: name of symbol %zu", k);
        size_t len = strlen(to->name);
        to->address = s.st_value;
        to->bytes = s.st_size;
        m->n_symbols++;
        if (len > 3 && !strcmp(to->name + len - 3, ".kd"))
            RF_TRY(add_kernel(m, to->name, s.st_value, e));
    }
    return RF_OK;
}

static rf_status read_sections(rf_emu_module *m, const elf_file *f, rf_error *e) {
    Elf64_Shdr s, names;
    if (!section(f, f->head.e_shstrndx, &names))
        return rf_fail(e, RF_EFORMAT, "code object: section names");
    for (uint32_t k = 0; k < f->head.e_shnum; k++) {
        char name[64] = "";
        if (!section(f, k, &s)) return rf_fail(e, RF_EFORMAT, "code object: section %u", k);
        if (s.sh_type == SHT_DYNSYM) RF_TRY(read_symbols(m, f, &s, e));
        if (s.sh_type == SHT_RELA && s.sh_size)
            return rf_fail(e, RF_EUNSUPPORTED, "code object: relocations are not supported");
        if (!text_at(f, &names, s.sh_name, name, sizeof name) || strcmp(name, ".text")) continue;
        m->text_lo = s.sh_addr;
        m->text_hi = s.sh_addr + s.sh_size;
    }
    if (m->text_hi <= m->text_lo || m->text_hi > m->image_bytes)
        return rf_fail(e, RF_EFORMAT, "code object: no code");
    return RF_OK;
}

static rf_status read_notes(rf_emu_module *m, const elf_file *f, rf_error *e) {
    Elf64_Phdr s;
    for (uint32_t k = 0; k < f->head.e_phnum; k++) {
        if (!segment(f, k, &s) || s.p_type != PT_NOTE) continue;
        uint64_t at = 0;
        while (s.p_filesz - at >= 12) {
            uint32_t head[3]; /* bytes of the name, bytes of the content, type */
            memcpy(head, f->p + s.p_offset + at, sizeof head);
            uint64_t name = (head[0] + 3ull) & ~3ull, content = (head[1] + 3ull) & ~3ull;
            uint64_t start = at + 12 + name;
            if (start + content > s.p_filesz)
                return rf_fail(e, RF_EFORMAT, "code object: a note is cut off");
            if (head[2] == NOTE_METADATA)
                RF_TRY(rf_emu_note_read(m, f->p + s.p_offset + start, head[1], e));
            at = start + content;
        }
    }
    return RF_OK;
}

rf_status rf_emu_elf_load(rf_emu_module *m, const void *elf, size_t n, rf_error *e) {
    elf_file f = {.p = elf, .n = n};
    if (n < sizeof f.head || memcmp(elf, ELFMAG, SELFMAG))
        return rf_fail(e, RF_EFORMAT, "code object: no ELF file");
    memcpy(&f.head, elf, sizeof f.head);
    if (f.head.e_machine != EM_AMD || f.head.e_ident[EI_CLASS] != ELFCLASS64)
        return rf_fail(e, RF_EFORMAT, "code object: machine %u is no AMD GPU", f.head.e_machine);
    RF_TRY(find_machine(m, &f, e));
    RF_TRY(load_image(m, &f, e));
    RF_TRY(read_sections(m, &f, e));
    return read_notes(m, &f, e);
}
