/* testlib.c - fixtures, temporary files, guard pages and noise for every test program.
 *
 * A helper that cannot do its work fails the running test; none returns a half-made thing. */
#include "lib/testlib.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"

#define MAX_FIXTURE ((size_t)1 << 30)

/* Paths come from a ring, so that a test may hold a few at once. */
static char *next_path(void) {
    static char ring[4][4096];
    static unsigned next;
    return ring[next++ % RF_COUNT(ring)];
}

static const char *join(const char *dir, const char *relative) {
    char *out = next_path();
    int n = snprintf(out, 4096, "%s/%s", dir, relative);
    if (n < 0 || n >= 4096) fail_msg("path too long: %s/%s", dir, relative);
    return out;
}

const char *rf_test_data(const char *relative) { return join(RF_TEST_DATA_DIR, relative); }

const char *rf_test_shared(const char *relative) {
    const char *dir = getenv("ROCMFORGE_TEST_DATA");
    if (!dir || !*dir) dir = RF_TEST_DATA_DIR "/../../../shared/data";
    struct stat st;
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode)) return NULL;
    return join(dir, relative);
}

uint8_t *rf_test_read(const char *path, size_t *n) {
    uint8_t *p = NULL;
    rf_error e = {0};
    if (rf_file_read(path, MAX_FIXTURE, &p, n, &e) != RF_OK) fail_msg("%s", e.text);
    return p;
}

/* The temporary directory, made at the first call and removed at exit by the process that made it
 * (a forked child leaves it alone). */
static char tmp_dir[4000];
static pid_t tmp_owner;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_tmp(void) {
    if (tmp_owner == getpid()) nftw(tmp_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *rf_test_tmp(const char *name) {
    if (!tmp_dir[0]) {
        const char *base = getenv("TMPDIR");
        snprintf(tmp_dir, sizeof tmp_dir, "%s/rocmforge-test-XXXXXX",
                 base && *base ? base : "/tmp");
        if (!mkdtemp(tmp_dir)) fail_msg("cannot make a temporary directory at %s", tmp_dir);
        tmp_owner = getpid();
        if (atexit(remove_tmp) != 0) fail_msg("atexit failed");
    }
    return join(tmp_dir, name);
}

rf_guarded rf_guard(const void *bytes, size_t n) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (n + page - 1) / page * page;
    rf_guarded g = {NULL, n, NULL, body + page};
    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED) fail_msg("cannot map %zu bytes for a guarded copy", g.map_bytes);
    uint8_t *end = (uint8_t *)g.map + body;
    if (mprotect(end, page, PROT_NONE) != 0) fail_msg("cannot protect the guard page");
    g.p = end - n;
    if (n) memcpy(g.p, bytes, n);
    return g;
}

void rf_guard_free(rf_guarded *g) {
    if (g->map) munmap(g->map, g->map_bytes);
    *g = (rf_guarded){0};
}

uint64_t rf_test_rand(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

float rf_test_randf(uint64_t *state) {
    return (float)(int32_t)(rf_test_rand(state) >> 40) * 0x1p-23f - 1.0f;
}

size_t rf_test_mapped(const char *name) {
    FILE *f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    size_t n = 0;
    unsigned long begin, end;
    for (char line[600]; fgets(line, sizeof line, f);)
        if (strstr(line, name) && sscanf(line, "%lx-%lx", &begin, &end) == 2) n += end - begin;
    fclose(f);
    return n;
}
