/* test_cgroup.c - limits read from trees of files like those that the kernel shows. */
#include "lib/testlib.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cgroup.h"

static char root[4096], self[4096];

static void put(const char *name, const char *text) {
    char path[4096 + 64];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* An empty tree with a file that says which groups the process is in. */
static void plant(const char *name, const char *groups) {
    snprintf(root, sizeof root, "%s", rf_test_tmp(name));
    assert_int_equal(mkdir(root, 0755), 0);
    put("self", groups);
    snprintf(self, sizeof self, "%.4000s/self", root);
}

static void assert_limits(long cpus, uint64_t total, uint64_t available) {
    rf_cgroup_limits got = rf_cgroup_read(self, root);
    assert_true(got.cpus == cpus);
    assert_true(got.mem_total == total);
    assert_true(got.mem_available == available);
}

static void nothing_limits_nothing(void **state) {
    (void)state;
    plant("bare", "0::/\n");
    assert_limits(LONG_MAX, UINT64_MAX, UINT64_MAX);
    put("cpu.max", "max 100000\n");
    put("memory.max", "max\n");
    assert_limits(LONG_MAX, UINT64_MAX, UINT64_MAX);
    snprintf(self, sizeof self, "%.4000s/absent", root);
    assert_limits(LONG_MAX, UINT64_MAX, UINT64_MAX);
    static const char *const odd[] = {"", "garbage", "0::", "1:name=x:/a\n", "0::no-slash\n"};
    for (size_t i = 0; i < RF_COUNT(odd); i++) {
        put("odd", odd[i]);
        snprintf(self, sizeof self, "%.4000s/odd", root);
        assert_limits(LONG_MAX, UINT64_MAX, UINT64_MAX);
    }
}

static void the_strictest_group_counts(void **state) {
    (void)state;
    plant("nested", "12:cpuset:/x\n0::/pod/box\n");
    put("cpu.max", "800000 100000\n");
    put("pod/cpu.max", "250000 100000\n"); /* two and a half: three threads have work */
    put("pod/box/cpu.max", "max 100000\n");
    put("pod/memory.max", "1000000\n");
    put("pod/memory.current", "700000\n");
    put("pod/memory.stat", "anon 300000\nfile 400000\nfile_mapped 7\n");
    put("pod/box/memory.max", "2000000\n");
    put("other/cpu.max", "1 100000\n"); /* a sister group is none of ours */
    assert_limits(3, 1000000, 700000);
    put("pod/box/cpu.max", "50000 100000\n");
    put("pod/box/memory.max", "500000\n");
    put("pod/box/memory.current", "600000\n"); /* above the limit, and no statistics */
    assert_limits(1, 500000, 0);
    put("pod/box/cpu.max", "nonsense\n");
    assert_limits(3, 500000, 0);
}

static void version_1_has_its_own_files(void **state) {
    (void)state;
    plant("old", "4:cpu,cpuacct:/docker/abc\n");
    put("cpu/cpu.cfs_quota_us", "-1\n");
    put("cpu/cpu.cfs_period_us", "100000\n");
    assert_limits(LONG_MAX, UINT64_MAX, UINT64_MAX);
    put("cpu/cpu.cfs_quota_us", "400000\n");
    assert_limits(4, UINT64_MAX, UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_limits_nothing),
        cmocka_unit_test(the_strictest_group_counts),
        cmocka_unit_test(version_1_has_its_own_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
