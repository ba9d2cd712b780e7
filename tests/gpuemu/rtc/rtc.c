/* rtc.c - a stand-in for libhiprtc.so and libnvrtc.so, under the names of both.
 *
 * With RF_RTC_CLANG=PROGRAM in the environment it compiles for AMD in earnest, without any header but
 * those it is given and with types of its own such as old versions of hiprtc have.  Otherwise the code
 * is a text: how often this library has compiled, and the options.  RF_RTC_ERROR=TEXT: compiling fails
 * with that log. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/os.h"

#define API __attribute__((visibility("default")))

enum { OK = 0, INVALID_INPUT = 3, COMPILATION = 6, MAX_FILE = 64 << 20 };

typedef struct program {
    const char *text, *name;
    int n_headers;
    const char *const *headers, *const *names; /* not copied: the caller keeps them, as ours does */
    char *log;
    char *code;
    size_t n_code;
} program;

static int n_compiled;

static const char preamble[] = "typedef signed long long int64_t;\n"
                               "typedef unsigned long long uint64_t;\n"
                               "typedef __SIZE_TYPE__ size_t;\n";

/* dir/name, its folders made. */
static bool put(const char *dir, const char *name, const char *before, const char *text) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (char *slash = strchr(path + strlen(dir) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *f = fopen(path, "w");
    if (!f) return false;
    bool ok = fputs(before, f) >= 0 && fputs(text, f) >= 0;
    return fclose(f) == 0 && ok;
}

static bool get(const char *dir, const char *name, char **out, size_t *n) {
    char path[600];
    uint8_t *bytes;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (rf_file_read(path, MAX_FILE, &bytes, n, NULL) != RF_OK) return false;
    *out = rf_alloc(*n + 1, 1);
    if (*out) memcpy(*out, bytes, *n);
    rf_free(bytes);
    return *out != NULL;
}

static bool run_clang(program *p, const char *clang, const char *dir, int n_options,
                      const char *const *options) {
    char line[3000];
    size_t n = 0, n_log;
    bool ok = put(dir, p->name, preamble, p->text);
    for (int i = 0; ok && i < p->n_headers; i++)
        ok = put(dir, p->names[i], "", p->headers[i]);
    n += (size_t)snprintf(line, sizeof line,
                          "cd '%s' && '%s' -x hip --offload-device-only --no-gpu-bundle-output "
                          "-mcode-object-version=5 -nogpuinc -nogpulib -nostdinc -D__HIPCC_RTC__ "
                          "-I. '%s' -o code",
                          dir, clang, p->name);
    for (int i = 0; i < n_options && n < sizeof line; i++)
        n += (size_t)snprintf(line + n, sizeof line - n, " '%s'", options[i]);
    if (n < sizeof line) n += (size_t)snprintf(line + n, sizeof line - n, " >log 2>&1");
    ok = ok && n < sizeof line && system(line) == 0;
    if (!get(dir, "log", &p->log, &n_log)) ok = false;
    return ok && get(dir, "code", &p->code, &p->n_code);
}

static bool compile(program *p, const char *clang, int n_options, const char *const *options) {
    char dir[] = "/tmp/rf_rtc_XXXXXX", line[100];
    if (!mkdtemp(dir)) return false;
    bool ok = run_clang(p, clang, dir, n_options, options);
    snprintf(line, sizeof line, "rm -rf '%s'", dir);
    return system(line) == 0 && ok;
}

static char *text_of(const char *text) {
    char *copy = rf_alloc(strlen(text) + 1, 1);
    if (copy) strcpy(copy, text);
    return copy;
}

API int hiprtcVersion(int *major, int *minor);
API int hiprtcVersion(int *major, int *minor) {
    *major = 9;
    *minor = 0;
    return OK;
}

API int hiprtcCreateProgram(program **out, const char *text, const char *name, int n_headers,
                            const char *const *headers, const char *const *names);
API int hiprtcCreateProgram(program **out, const char *text, const char *name, int n_headers,
                            const char *const *headers, const char *const *names) {
    *out = rf_alloc(1, sizeof **out);
    if (!*out || !text || strchr(name, '/')) return INVALID_INPUT;
    **out = (program){
        .text = text, .name = name, .n_headers = n_headers, .headers = headers, .names = names};
    return OK;
}

API int hiprtcCompileProgram(program *p, int n_options, const char *const *options);
API int hiprtcCompileProgram(program *p, int n_options, const char *const *options) {
    const char *clang = getenv("RF_RTC_CLANG"), *error = getenv("RF_RTC_ERROR");
    n_compiled++;
    if (error) {
        p->log = text_of(error);
        return COMPILATION;
    }
    if (clang) return compile(p, clang, n_options, options) ? OK : COMPILATION;
    char text[500];
    size_t n = (size_t)snprintf(text, sizeof text, "%d", n_compiled);
    for (int i = 0; i < n_options && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %s", options[i]);
    p->code = text_of(text);
    p->n_code = strlen(text);
    return p->code ? OK : COMPILATION;
}

API int hiprtcGetProgramLogSize(program *p, size_t *n);
API int hiprtcGetProgramLogSize(program *p, size_t *n) {
    *n = p->log ? strlen(p->log) : 0; /* as hiprtc: without a NUL */
    return OK;
}

API int hiprtcGetProgramLog(program *p, char *out);
API int hiprtcGetProgramLog(program *p, char *out) {
    if (p->log) memcpy(out, p->log, strlen(p->log));
    return OK;
}

API int hiprtcGetCodeSize(program *p, size_t *n);
API int hiprtcGetCodeSize(program *p, size_t *n) {
    *n = p->n_code;
    return OK;
}

API int hiprtcGetCode(program *p, char *out);
API int hiprtcGetCode(program *p, char *out) {
    memcpy(out, p->code, p->n_code);
    return OK;
}

API int hiprtcDestroyProgram(program **p);
API int hiprtcDestroyProgram(program **p) {
    if (*p) {
        rf_free((*p)->log);
        rf_free((*p)->code);
    }
    rf_free(*p);
    *p = NULL;
    return OK;
}

API const char *hiprtcGetErrorString(int code);
API const char *hiprtcGetErrorString(int code) {
    return code == COMPILATION ? "HIPRTC_ERROR_COMPILATION" : "another error";
}

#define SAME(nvrtc, hiprtc) API __typeof__(hiprtc) nvrtc __attribute__((alias(#hiprtc)))
SAME(nvrtcVersion, hiprtcVersion);
SAME(nvrtcCreateProgram, hiprtcCreateProgram);
SAME(nvrtcCompileProgram, hiprtcCompileProgram);
SAME(nvrtcGetProgramLogSize, hiprtcGetProgramLogSize);
SAME(nvrtcGetProgramLog, hiprtcGetProgramLog);
SAME(nvrtcGetPTXSize, hiprtcGetCodeSize);
SAME(nvrtcGetPTX, hiprtcGetCode);
SAME(nvrtcDestroyProgram, hiprtcDestroyProgram);
SAME(nvrtcGetErrorString, hiprtcGetErrorString);
