/* test_topology.c - cores and nodes found in trees of files like those that the kernel shows, and threads
 * spread over nodes. */
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

/* A file of the description of nodes; name: "node/online" or "node/nodeN/cpulist". */
static void put_node(const char *name, const char *text) {
    char path[4096 + 128];
    snprintf(path, sizeof path, "%s/node", root);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s", root, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    mkdir(path, 0755);
    *slash = '/';
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
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

/* Two sockets with hardware threads, a node of memory alone, and numbers with a gap. */
static void processors_lie_on_nodes(void **state) {
    (void)state;
    char where[4096];
    plant("nodes");
    snprintf(where, sizeof where, "%s", root);
    strncat(root, "/cpu", sizeof root - strlen(root) - 1);
    assert_int_equal(mkdir(root, 0755), 0);
    for (unsigned cpu = 0; cpu < 16; cpu++) { /* 0 and 8 are one core, 1 and 9, ... */
        char list[32];
        snprintf(list, sizeof list, "%u,%u\n", cpu % 8, cpu % 8 + 8);
        put(cpu, "core_cpus_list", list);
    }
    snprintf(root, sizeof root, "%s", where);
    put_node("node/online", "0-1,7\n");
    put_node("node/node0/cpulist", "0-3,8-11\n");
    put_node("node/node1/cpulist", "\n");
    put_node("node/node7/cpulist", "4-7,12-15\n");
    rf_cpu_mask all = range(0, 15), low = range(0, 3), most = range(2, 9);
    rf_nodes n;
    rf_topology_nodes(&n, &all, root);
    assert_int_equal(n.n, 2);
    for (unsigned cpu = 0; cpu < 20; cpu++)
        assert_int_equal(n.of[cpu], cpu > 15 ? 2 : cpu / 4 % 2);
    assert_int_equal(n.cores[0], 4);
    assert_int_equal(n.cores[1], 4);
    rf_topology_nodes(&n, &low, root); /* allowed are those of one node */
    assert_int_equal(n.n, 1);
    rf_topology_nodes(&n, &most, root); /* 2, 3, 8, 9 and 4 to 7 */
    assert_int_equal(n.n, 2);
    assert_int_equal(n.cores[0], 4);
    assert_int_equal(n.cores[1], 4);
    assert_int_equal(n.of[1], 2);
}

static void wrong_nodes_are_one(void **state) {
    (void)state;
    static const char *const wrong[][3] = {
        {"0-1", "0-3", NULL},         /* the second is missing */
        {"0-1", "0-3", "4-6"},        /* no node has processor 7 */
        {"0-1", "0-4", "4-7"},        /* two have 4 */
        {"0-1", "0-3", "garbage"},    /* no list */
        {"0-1", "0-3", "4-5 6-7"},    /* ends early */
        {"0-1", "0-3", ""},           /* empty */
        {"garbage", "0-3", "4-7"},    /* which nodes? */
        {"0", "0-3", "4-7"},          /* one of them is off */
        {"0-99999999", "0-3", "4-7"}, /* more than there are */
        {"1-0", "0-3", "4-7"},        /* none */
        {"0-1", "0-3", "7-4"},        /* none */
        {NULL, "0-3", "4-7"},         /* an old kernel */
        {"0-1", "0-99999999999999999999", "4-7"},
    };
    rf_cpu_mask all = range(0, 7), none = {{0}};
    rf_nodes n;
    for (size_t i = 0; i < RF_COUNT(wrong); i++) {
        char name[32];
        snprintf(name, sizeof name, "wrong-%zu", i);
        plant(name);
        if (wrong[i][0]) put_node("node/online", wrong[i][0]);
        put_node("node/node0/cpulist", wrong[i][1]);
        if (wrong[i][2]) put_node("node/node1/cpulist", wrong[i][2]);
        rf_topology_nodes(&n, &all, root);
        if (n.n != 1) fail_msg("case %zu has %d nodes", i, n.n);
        assert_int_equal(n.cores[0], 1);
        assert_int_equal(n.of[5], 0);
        rf_topology_nodes(&n, &none, root);
        assert_int_equal(n.n, 1);
    }
}

static void check_spread(const int *cores, int n_threads, const int *want) {
    rf_nodes nodes = {.n = 0};
    rf_spread s;
    int at = 0, n = 0;
    for (; cores[nodes.n]; nodes.n++)
        nodes.cores[nodes.n] = cores[nodes.n];
    rf_topology_spread(&s, &nodes, n_threads);
    for (int i = 0; i < nodes.n; i++) {
        if (want[i] == 0) continue;
        assert_int_equal(s.node[n], i);
        assert_int_equal(s.first[n], at);
        at += want[i];
        n++;
    }
    assert_int_equal(s.n, n);
    assert_int_equal(s.first[n], n_threads);
    assert_int_equal(at, n_threads);
}

static void threads_follow_cores(void **state) {
    (void)state;
    static const int one[] = {4, 0}, two[] = {8, 8, 0}, odd[] = {12, 4, 0},
                     four[] = {2, 2, 2, 2, 0};
    check_spread(one, 1, (int[]){1});
    check_spread(one, 1024, (int[]){1024});
    check_spread(two, 16, (int[]){8, 8});
    check_spread(two, 5, (int[]){3, 2});
    check_spread(two, 1, (int[]){1, 0});
    check_spread(two, 1024, (int[]){512, 512});
    check_spread(odd, 16, (int[]){12, 4});
    check_spread(odd, 8, (int[]){6, 2});
    check_spread(odd, 2, (int[]){2, 0});
    check_spread(four, 8, (int[]){2, 2, 2, 2});
    check_spread(four, 2, (int[]){1, 0, 1, 0});
}

static void this_machine(void **state) {
    (void)state;
    rf_nodes n;
    rf_find_nodes(&n);
    assert_in_range(rf_core_count(), 1, rf_cpu_count());
    assert_in_range(n.n, 1, rf_cpu_count());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_a_core_count_once),
        cmocka_unit_test(undescribed_processors_are_cores),
        cmocka_unit_test(processors_lie_on_nodes),
        cmocka_unit_test(wrong_nodes_are_one),
        cmocka_unit_test(threads_follow_cores),
        cmocka_unit_test(this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
