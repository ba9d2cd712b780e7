/* test_amd.c - AMD cards, their drivers and files, read from trees like those that Linux shows. */
#include "lib/testlib.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/amd.h"

static char root[4096];

static void make_folders(const char *path) {
    char part[5000];
    snprintf(part, sizeof part, "%.4900s", path);
    for (char *slash = part + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(part, 0755);
        *slash = '/';
    }
}

static void put(const char *name, const char *text) {
    char path[5000];
    snprintf(path, sizeof path, "%.4096s/%.800s", root, name);
    make_folders(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void put_link(const char *name, const char *to) {
    char path[5000];
    snprintf(path, sizeof path, "%.4096s/%.800s", root, name);
    make_folders(path);
    assert_int_equal(symlink(to, path), 0);
}

static void plant(const char *name) {
    snprintf(root, sizeof root, "%s", rf_test_tmp(name));
    assert_int_equal(mkdir(root, 0755), 0);
}

static void put_card(const char *pci, const char *vendor, const char *class) {
    char path[200];
    snprintf(path, sizeof path, "sys/bus/pci/devices/%s/vendor", pci);
    put(path, vendor);
    snprintf(path, sizeof path, "sys/bus/pci/devices/%s/class", pci);
    put(path, class);
}

static void test_nothing(void **state) {
    (void)state;
    rf_amd a;
    plant("bare");
    rf_amd_read(&a, root);
    assert_true(a.n_cards == 0 && !a.has_module && !a.kfd.exists && !a.kfd.opens && !a.hip[0]);
    assert_int_equal(a.kfd.error, ENOENT);
    char endless[5000];
    memset(endless, 'x', sizeof endless);
    endless[0] = '/';
    endless[sizeof endless - 1] = 0;
    rf_amd_read(&a, endless);
    assert_int_equal(a.n_cards, 0);
}

#define CARD "sys/bus/pci/devices/0000:03:00.0/"

static void test_card(void **state) {
    (void)state;
    rf_amd a;
    plant("card");
    put("sys/module/amdgpu/version", "6.10.5\n");
    put("sys/module/ttm/parameters/pages_limit", "8000000\n");
    put_card("0000:00:01.0", "0x1002\n", "0x060400\n"); /* a bridge of AMD's */
    put_card("0000:01:00.0", "0x10de\n", "0x030000\n"); /* somebody else's */
    put_card("0000:03:00.0", "0x1002\n", "0x030000\n");
    put_card("0000:c1:00.0", "0x1002\n", "0x120000\n");
    put_link(CARD "driver", "../../../../bus/pci/drivers/amdgpu");
    put(CARD "mem_info_vram_total", "25753026560\n");
    put(CARD "mem_info_vram_used", "1000\n");
    put(CARD "mem_info_vis_vram_total", "268435456\n");
    put(CARD "mem_info_gtt_total", "16000000000\n");
    put(CARD "iommu_group/type", "DMA-FQ\n");
    put(CARD "drm/card0/dev", "");
    put(CARD "drm/renderD129/dev", "226:129\n");
    put("sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 16\nsimd_count 0\n");
    put("sys/class/kfd/kfd/topology/nodes/1/properties",
        "simd_count 192\ngfx_target_version 110000\ndrm_render_minor 129\nname\nodd line here\n");
    put("sys/class/kfd/kfd/topology/nodes/2/properties",
        "gfx_target_version 90010\ndrm_render_minor 130\n");
    put("dev/kfd", "");
    put("dev/dri/renderD129", "");
    put("opt/rocm-6.2.0/lib/libamdhip64.so.6", "");
    rf_amd_read(&a, root);
    assert_true(a.has_module && a.kfd.exists && a.kfd.opens && a.kfd.group[0]);
    assert_string_equal(a.version, "6.10.5");
    assert_int_equal(a.gtt_limit, UINT64_C(8000000) * 4096);
    assert_string_equal(a.hip, "/opt/rocm-6.2.0/lib/libamdhip64.so.6");
    assert_int_equal(a.n_cards, 2);
    const rf_amd_card *c = &a.card[0];
    assert_string_equal(c->pci, "0000:03:00.0");
    assert_string_equal(c->driver, "amdgpu");
    assert_string_equal(c->arch, "gfx1100");
    assert_string_equal(c->iommu, "DMA-FQ");
    assert_string_equal(c->render.path, "/dev/dri/renderD129");
    assert_true(c->render.opens && c->vram == 25753026560 && c->vram_used == 1000);
    assert_true(c->vram_visible == 268435456 && c->gtt == 16000000000);
    c = &a.card[1];
    assert_string_equal(c->pci, "0000:c1:00.0");
    assert_true(!c->driver[0] && !c->arch[0] && !c->render.path[0] && c->vram == 0);
    put_link("sys/bus/pci/devices/0000:c1:00.0/driver", "amdgpu");
    put("sys/bus/pci/devices/0000:c1:00.0/drm/renderD130/dev", "");
    rf_amd_read(&a, root);
    assert_string_equal(a.card[1].arch, "gfx90a");
    assert_string_equal(a.card[1].driver, "amdgpu");
    assert_true(!a.card[1].render.exists && a.card[1].render.error == ENOENT);
}

/* As somebody who is not root: a file that others may not open. */
static void test_permissions(void **state) {
    (void)state;
    char path[5000];
    rf_amd a;
    plant("locked");
    put("dev/kfd", "");
    snprintf(path, sizeof path, "%.4096s/dev/kfd", root);
    assert_int_equal(chmod(path, 0), 0);
    snprintf(path, sizeof path, "%.4096s/..", root);
    assert_int_equal(chmod(path, 0755), 0);
    bool is_root = geteuid() == 0;
    if (is_root) assert_int_equal(seteuid(65534), 0);
    rf_amd_read(&a, root);
    if (is_root) assert_int_equal(seteuid(0), 0);
    assert_true(a.kfd.exists && !a.kfd.opens);
    assert_int_equal(a.kfd.error, EACCES);
    assert_true(a.kfd.group[0] != 0);
}

/* More cards than there is room for. */
static void test_many(void **state) {
    (void)state;
    rf_amd a;
    plant("many");
    for (int i = 0; i < RF_AMD_MAX_CARDS + 3; i++) {
        char pci[20];
        snprintf(pci, sizeof pci, "0000:%02x:00.0", i);
        put_card(pci, "0x1002\n", "0x038000\n");
    }
    rf_amd_read(&a, root);
    assert_int_equal(a.n_cards, RF_AMD_MAX_CARDS);
    assert_string_equal(a.card[RF_AMD_MAX_CARDS - 1].pci, "0000:0f:00.0");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing), cmocka_unit_test(test_card),
                                       cmocka_unit_test(test_permissions),
                                       cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
