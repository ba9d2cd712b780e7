/* replay.c - main() for a fuzz target without a fuzzer: every file below the given directories is fed
 * to LLVMFuzzerTestOneInput once.
 *
 * The input ends at an unreadable page, so that reading one byte too many stops the program also
 * where no sanitizer is built in.  An unreadable directory or an empty corpus is a failure. */
#include <errno.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"

#define MAX_INPUT ((size_t)64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long n_inputs;

/* Runs the target on bytes[0..n), placed before a guard page; 0 on success. */
static int run_guarded(const char *path, const uint8_t *bytes, size_t n) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (n + page - 1) / page * page;
    uint8_t *map =
        mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + body, page, PROT_NONE) != 0) {
        fprintf(stderr, "%s: cannot map %zu bytes: %s\n", path, body + page, strerror(errno));
        return 1;
    }
    if (n) memcpy(map + body - n, bytes, n);
    int rc = LLVMFuzzerTestOneInput(map + body - n, n);
    munmap(map, body + page);
    if (rc != 0) fprintf(stderr, "%s: the fuzz target returned %d, expected 0\n", path, rc);
    return rc != 0;
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    (void)ftw;
    if (type == FTW_D) return 0;
    if (type != FTW_F) {
        fprintf(stderr, "%s: not a readable file or directory\n", path);
        return 1;
    }
    uint8_t *bytes;
    size_t n;
    rf_error e = {0};
    if (rf_file_read(path, MAX_INPUT, &bytes, &n, &e) != RF_OK) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    fprintf(stderr, "%s\n", path); /* the last line names the culprit when the target crashes */
    int rc = run_guarded(path, bytes, n);
    rf_free(bytes);
    n_inputs++;
    return rc;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s DIRECTORY...\n", argv[0]);
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        long before = n_inputs;
        int rc = nftw(argv[i], visit, 8, FTW_PHYS);
        if (rc < 0) fprintf(stderr, "%s: %s\n", argv[i], strerror(errno));
        if (rc != 0) return 1;
        if (n_inputs == before) {
            fprintf(stderr, "%s: holds no inputs\n", argv[i]);
            return 1;
        }
    }
    printf("%ld inputs ran\n", n_inputs);
    return 0;
}
