/* test_topology.c - cores counted in trees of files like those that the kernel shows. */
#include "lib/testlib.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/os.h"
#include "base/topology.h"

static char root[4096];

static void plant(const char *name) {
    snprintf(root, sizeof root, "%s", rf_test_tmp(name));
    assert_int_equal(mkdir(root, 0755), 0);
}

/* Says which processors share the core of `cpu`. */
static void put(unsigned cpu, const char *file, const char *list) {
    char path[4096 + 128];
    snprintf(path, sizeof path, "%s/cpu%u", root, cpu);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/cpu%u/topology", root, cpu);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/cpu%u/topology/%s", root, cpu, file);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(list, f);
    assert_int_equal(fclose(f), 0);
}

static rf_cpu_mask range(unsigned first, unsigned last) {
    rf_cpu_mask m = {{0}};
    for (unsigned cpu = first; cpu <= last; cpu++)
        rf_cpu_mask_add(&m, cpu);
    return m;
}

/* Two hardware threads of a core are one core, however they are numbered. */
static void threads_of_a_core_count_once(void **state) {
    (void)state;
    plant("far");
    for (unsigned cpu = 0; cpu < 8; cpu++) { /* 0 and 4 are one core, 1 and 5, ... */
        char list[32];
        snprintf(list, sizeof list, "%u,%u\n", cpu % 4, cpu % 4 + 4);
        put(cpu, "core_cpus_list", list);
    }
    rf_cpu_mask all = range(0, 7), low = range(0, 3), high = range(3, 6), one = range(5, 5);
    assert_int_equal(rf_topology_cores(&all, root), 4);
    assert_int_equal(rf_topology_cores(&low, root), 4);
    assert_int_equal(rf_topology_cores(&high, root), 4); /* 3, 4, 5, 6: four cores */
    assert_int_equal(rf_topology_cores(&one, root), 1);
    plant("near");
    for (unsigned cpu = 0; cpu < 8; cpu++) { /* neighbours, in an older kernel's file */
        char list[32];
        snprintf(list, sizeof list, "%u-%u\n", cpu / 2 * 2, cpu / 2 * 2 + 1);
        put(cpu, "thread_siblings_list", list);
    }
    assert_int_equal(rf_topology_cores(&all, root), 4);
    assert_int_equal(rf_topology_cores(&low, root), 2);
    assert_int_equal(rf_topology_cores(&high, root), 3); /* 3; 4 and 5; 6 */
}

static void undescribed_processors_are_cores(void **state) {
    (void)state;
    static const char *const odd[] = {"", "\n", "garbage", "-", "9999999999999999999-1", "6-2"};
    plant("odd");
    for (unsigned cpu = 0; cpu < RF_COUNT(odd); cpu++)
        put(cpu, "core_cpus_list", odd[cpu]);
    rf_cpu_mask all = range(0, 9), none = {{0}};
    assert_int_equal(rf_topology_cores(&all, root), 10);
    assert_int_equal(rf_topology_cores(&none, root), 0);
    rf_cpu_mask_add(&none, RF_MAX_CPUS);
    assert_int_equal(rf_topology_cores(&none, root), 0);
    assert_false(rf_cpu_mask_has(&all, RF_MAX_CPUS));
}

static void this_machine(void **state) {
    (void)state;
    assert_in_range(rf_core_count(), 1, rf_cpu_count());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_a_core_count_once),
        cmocka_unit_test(undescribed_processors_are_cores),
        cmocka_unit_test(this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
