/* amd.c - see amd.h.  Whatever cannot be read is left at zero. */
#include "base/amd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 600, LINE_BYTES = 200 };

/* Files ------------------------------------------------------------------------------------------*/

static void join(char out[PATH_BYTES], const char *fmt, ...) RF_PRINTF(2, 3);
static void join(char out[PATH_BYTES], const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(out, PATH_BYTES, fmt, args);
    va_end(args);
    if (n < 0 || n >= PATH_BYTES) out[0] = 0; /* a path that is too long is of no file */
}

/* The first line of a file; empty: none. */
static void read_line(const char *path, char *out, size_t cap) {
    FILE *f = fopen(path, "r");
    out[0] = 0;
    if (!f) return;
    if (!fgets(out, (int)cap, f)) out[0] = 0;
    fclose(f);
    out[strcspn(out, "\n")] = 0;
}

static uint64_t read_number(const char *folder, const char *name) {
    char path[PATH_BYTES], line[LINE_BYTES];
    join(path, "%s/%s", folder, name);
    read_line(path, line, sizeof line);
    return strtoull(line, NULL, 0);
}

/* The last part of what a link points to; empty: no link. */
static void read_link_name(const char *folder, const char *name, char out[32]) {
    char path[PATH_BYTES], to[PATH_BYTES];
    join(path, "%s/%s", folder, name);
    ssize_t n = readlink(path, to, sizeof to - 1);
    out[0] = 0;
    if (n <= 0) return;
    to[n] = 0;
    const char *slash = strrchr(to, '/');
    snprintf(out, 32, "%.31s", slash ? slash + 1 : to);
}

/* The names in a folder that begin so, in order; those that f wants. */
typedef void (*name_fn)(void *user, const char *name);
static void for_names(const char *folder, const char *start, name_fn f, void *user) {
    struct dirent **list;
    int n = scandir(folder, &list, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (strncmp(list[i]->d_name, start, strlen(start)) == 0 && list[i]->d_name[0] != '.')
            f(user, list[i]->d_name);
        free(list[i]);
    }
    if (n >= 0) free(list);
}

static void read_node(rf_amd_node *out, const char *root) {
    char path[PATH_BYTES];
    struct stat st;
    join(path, "%s%s", root, out->path);
    out->exists = stat(path, &st) == 0;
    out->opens = out->exists && faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) == 0;
    out->error = out->opens ? 0 : errno;
    if (!out->exists) return;
    const struct group *g = getgrgid(st.st_gid);
    if (g)
        snprintf(out->group, sizeof out->group, "%.32s", g->gr_name);
    else
        snprintf(out->group, sizeof out->group, "%u", (unsigned)st.st_gid);
}

/* Cards ------------------------------------------------------------------------------------------*/

typedef struct reader {
    rf_amd *out;
    const char *root;
    char folder[PATH_BYTES]; /* that for_names looks into */
} reader;

static void found_render_node(void *user, const char *name) {
    rf_amd_card *c = user;
    snprintf(c->render.path, sizeof c->render.path, "/dev/dri/%.40s", name);
}

/* Displays (class 03) and accelerators (12) of AMD. */
static void found_pci_device(void *user, const char *name) {
    enum { AMD = 0x1002, DISPLAY = 0x03, ACCELERATOR = 0x12 };
    reader *r = user;
    char at[PATH_BYTES], drm[PATH_BYTES], type[PATH_BYTES];
    join(at, "%s/%s", r->folder, name);
    uint64_t class = read_number(at, "class") >> 16;
    if (read_number(at, "vendor") != AMD || (class != DISPLAY && class != ACCELERATOR) ||
        r->out->n_cards == RF_AMD_MAX_CARDS)
        return;
    rf_amd_card *c = &r->out->card[r->out->n_cards++];
    snprintf(c->pci, sizeof c->pci, "%.23s", name);
    read_link_name(at, "driver", c->driver);
    c->vram = read_number(at, "mem_info_vram_total");
    c->vram_used = read_number(at, "mem_info_vram_used");
    c->vram_visible = read_number(at, "mem_info_vis_vram_total");
    c->gtt = read_number(at, "mem_info_gtt_total");
    join(type, "%s/iommu_group/type", at);
    read_line(type, c->iommu, sizeof c->iommu);
    join(drm, "%s/drm", at);
    for_names(drm, "renderD", found_render_node, c);
    if (c->render.path[0]) read_node(&c->render, r->root);
}

/* 110003 is gfx1103, 90010 is gfx90a. */
static void name_arch(char *out, size_t cap, unsigned long version) {
    snprintf(out, cap, "gfx%lu%lx%lx", version / 10000 % 100, version / 100 % 100 & 15,
             version % 100 & 15);
}

/* A node of the kfd driver: lines of a name and a number. */
static void found_kfd_node(void *user, const char *name) {
    reader *r = user;
    char path[PATH_BYTES], line[LINE_BYTES], key[64], render[64];
    unsigned long n, version = 0, minor = 0;
    join(path, "%s/%s/properties", r->folder, name);
    FILE *f = fopen(path, "r");
    if (!f) return;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%63s %lu", key, &n) != 2) continue;
        if (strcmp(key, "gfx_target_version") == 0) version = n;
        if (strcmp(key, "drm_render_minor") == 0) minor = n;
    }
    fclose(f);
    snprintf(render, sizeof render, "/dev/dri/renderD%lu", minor);
    for (size_t i = 0; i < r->out->n_cards && version; i++)
        if (strcmp(r->out->card[i].render.path, render) == 0)
            name_arch(r->out->card[i].arch, sizeof r->out->card[i].arch, version);
}

/* The runtime below /opt ------------------------------------------------------------------------*/

static void found_hip(void *user, const char *name) {
    reader *r = user;
    snprintf(r->out->hip, sizeof r->out->hip, "%s/%.60s", r->folder + strlen(r->root), name);
}

static void found_opt(void *user, const char *name) {
    reader *r = user;
    join(r->folder, "%s/opt/%s/lib", r->root, name);
    for_names(r->folder, "libamdhip64.so.", found_hip, r);
}

void rf_amd_read(rf_amd *out, const char *root) {
    reader r = {.out = out, .root = root};
    char path[PATH_BYTES];
    *out = (rf_amd){.kfd = {.path = "/dev/kfd"}};
    join(path, "%s/sys/module/amdgpu", root);
    out->has_module = access(path, F_OK) == 0;
    join(path, "%s/sys/module/amdgpu/version", root);
    read_line(path, out->version, sizeof out->version);
    read_node(&out->kfd, root);
    join(path, "%s/sys/module/ttm/parameters", root);
    out->gtt_limit = read_number(path, "pages_limit") * 4096;
    join(r.folder, "%s/sys/bus/pci/devices", root);
    for_names(r.folder, "", found_pci_device, &r);
    join(r.folder, "%s/sys/class/kfd/kfd/topology/nodes", root);
    for_names(r.folder, "", found_kfd_node, &r);
    join(path, "%s/opt", root);
    for_names(path, "rocm", found_opt, &r);
}
