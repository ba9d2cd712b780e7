/* nvrtc_check.c - can NVIDIA's run-time compiler make every kernel from the source that is part of the program?
 * It reads C++ otherwise than clang, which builds the kernels.  No test of ctest's: it takes a minute
 * and a library that few machines have.
 *
 *     nvrtc_check LIBNVRTC ARCHITECTURE...        nvrtc_check libnvrtc.so.13 sm_80 sm_90 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/gpu/compile.h"

static const char *const everywhere[] = {
#define X(name, args, block)        "rf_" #name,
#define X_HOPPER(name, args, block) /* not on all */
#define X_AMD_MATRIX(name, args, block)
#include "backend/gpu/kernels.def"
#undef X
#define X(name, kind, args) "rf_" #name "_kind_" #kind,
#define X_HOPPER(name, kind, args)
#include "backend/gpu/kinds.def"
#undef X
};
static const char *const on_hopper[] = {
#define X(name, args, block)
#define X_NOT_AMD(name, args, block)
#define X_NVIDIA(name, args, block)
#define X_MATRIX(name, args, block)
#define X_AMD_MATRIX(name, args, block)
#define X_HOPPER(name, args, block) "rf_" #name,
#include "backend/gpu/kernels.def"
#undef X
#define X(name, kind, args)
#define X_NOT_AMD(name, kind, args)
#define X_HOPPER(name, kind, args) "rf_" #name "_kind_" #kind,
#include "backend/gpu/kinds.def"
#undef X
};

/* PTX names each kernel behind ".entry". */
static int n_missing(const char *ptx, const char *const *names, size_t n) {
    int missing = 0;
    for (size_t i = 0; i < n; i++) {
        char entry[100];
        snprintf(entry, sizeof entry, ".entry %s(", names[i]);
        if (strstr(ptx, entry)) continue;
        fprintf(stderr, "no kernel %s\n", names[i]);
        missing++;
    }
    return missing;
}

static int check(const rf_gpu_driver *d, const char *arch) {
    rf_gpu_compiled c;
    rf_error e = {.status = RF_OK};
    if (rf_gpu_compile(d, arch, &c, &e) != RF_OK) {
        fprintf(stderr, "%s: %s\n", arch, e.text);
        return 1;
    }
    char *ptx = c.image;
    ptx[c.n - 1] = 0; /* as it is, by the compiler's word */
    int missing = n_missing(ptx, everywhere, RF_COUNT(everywhere));
    if (strcmp(c.target, "sm_90a") == 0) missing += n_missing(ptx, on_hopper, RF_COUNT(on_hopper));
    printf("%s: %zu bytes of PTX, %d kernels missing\n", c.target, c.n, missing);
    rf_free(c.image);
    return missing;
}

int main(int argc, char **argv) {
    const rf_gpu_driver d = {.name = "cuda"};
    int bad = argc < 3;
    if (bad)
        fprintf(stderr, "use: nvrtc_check LIBNVRTC ARCHITECTURE...\n");
    else
        bad = setenv("RF_GPU_COMPILER", argv[1], 1) != 0;
    for (int i = 2; i < argc && !bad; i++)
        bad = check(&d, argv[i]);
    return bad != 0;
}
