/* module.c - opening and asking an emulated module. */
#include <string.h>

#include "gpuemu/inst.h"

rf_status rf_emu_module_open(const void *elf, size_t n, rf_emu_module **out, rf_error *e) {
    rf_emu_module *m = rf_alloc(1, sizeof *m);
    *out = NULL;
    if (!m) return rf_fail_nomem(e, sizeof *m);
    rf_status s = rf_emu_elf_load(m, elf, n, e);
    if (s == RF_OK) s = rf_emu_decode(m, elf, n, e);
    if (s != RF_OK) {
        rf_emu_module_close(m);
        return s;
    }
    *out = m;
    return RF_OK;
}

void rf_emu_module_close(rf_emu_module *m) {
    if (!m) return;
    rf_free(m->image);
    rf_free(m->kernels);
    rf_free(m->symbols);
    rf_free(m->code);
    rf_free(m->pairs);
    rf_free(m->at_address);
    rf_free(m->text_of);
    rf_free(m->text);
    rf_free(m);
}

const char *rf_emu_module_arch(const rf_emu_module *m) { return m->arch; }
size_t rf_emu_module_kernels(const rf_emu_module *m) { return m->n_kernels; }
rf_emu_kernel *rf_emu_module_kernel(rf_emu_module *m, size_t at) { return &m->kernels[at]; }

rf_emu_kernel *rf_emu_kernel_find(rf_emu_module *m, const char *name) {
    for (size_t k = 0; k < m->n_kernels; k++)
        if (!strcmp(m->kernels[k].name, name)) return &m->kernels[k];
    return NULL;
}

bool rf_emu_module_symbol(const rf_emu_module *m, const char *name, void **p, size_t *bytes) {
    for (size_t k = 0; k < m->n_symbols; k++) {
        const struct rf_emu_symbol *s = &m->symbols[k];
        if (strcmp(s->name, name) || s->address > m->image_bytes) continue;
        *p = m->image + s->address;
        *bytes = (size_t)s->bytes;
        return true;
    }
    return false;
}
