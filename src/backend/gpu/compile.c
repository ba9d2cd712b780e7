/* compile.c - hiprtc and nvrtc, whose interfaces are the same but for names, and the cache. */
#include "backend/gpu/compile.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/gpu/cache.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/os.h"

extern const rf_gpu_source rf_gpu_sources[]; /* made by the build; ends with a row of NULL */

enum {
    MAX_SOURCES = 100,
    MAX_OPTIONS = 8,
    MAX_CODE = 256 << 20, /* bytes that a compiler or the cache may hand over */
    MAX_LOG = 1 << 20,
};

typedef struct compiler {
    char library[64];
    int major, minor;
    int (*version)(int *major, int *minor);
    int (*create)(void **program, const char *text, const char *name, int n_headers,
                  const char *const *headers, const char *const *names);
    int (*compile)(void *program, int n_options, const char *const *options);
    int (*log_size)(void *program, size_t *n);
    int (*log)(void *program, char *out);
    int (*code_size)(void *program, size_t *n);
    int (*code)(void *program, char *out);
    int (*destroy)(void **program);
    const char *(*error_text)(int code);
} compiler;

static bool is_cuda(const rf_gpu_driver *d) { return strcmp(d->name, "cuda") == 0; }

/* The library ------------------------------------------------------------------------------------*/

/* The first function that the library lacks, or NULL. */
static const char *look_up(compiler *c, void *library, bool cuda) {
    const struct {
        void *to;
        const char *hip, *cuda;
    } all[] = {
        {&c->version, "hiprtcVersion", "nvrtcVersion"},
        {&c->create, "hiprtcCreateProgram", "nvrtcCreateProgram"},
        {&c->compile, "hiprtcCompileProgram", "nvrtcCompileProgram"},
        {&c->log_size, "hiprtcGetProgramLogSize", "nvrtcGetProgramLogSize"},
        {&c->log, "hiprtcGetProgramLog", "nvrtcGetProgramLog"},
        {&c->code_size, "hiprtcGetCodeSize", "nvrtcGetPTXSize"},
        {&c->code, "hiprtcGetCode", "nvrtcGetPTX"},
        {&c->destroy, "hiprtcDestroyProgram", "nvrtcDestroyProgram"},
        {&c->error_text, "hiprtcGetErrorString", "nvrtcGetErrorString"},
    };
    for (size_t i = 0; i < RF_COUNT(all); i++) {
        const char *name = cuda ? all[i].cuda : all[i].hip;
        void *at = dlsym(library, name);
        if (!at) return name;
        memcpy(all[i].to, &at, sizeof at);
    }
    return NULL;
}

/* Opens the first library there is, for good: the compilers do not stand being closed. */
static rf_status find(compiler *c, const rf_gpu_driver *d, rf_error *e) {
    static const char *const usual[2][4] = {
        {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"},
        {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}};
    const char *own = getenv("RF_GPU_COMPILER");
    const char *const *all = own && *own ? &own : usual[is_cuda(d)];
    size_t n = own && *own ? 1 : RF_COUNT(usual[0]), len = 0;
    char tried[300] = "";
    for (size_t i = 0; i < n && all[i]; i++) {
        void *library = dlopen(all[i], RTLD_NOW | RTLD_LOCAL);
        const char *missing = library ? look_up(c, library, is_cuda(d)) : NULL;
        int code = library && !missing ? c->version(&c->major, &c->minor) : 0;
        if (library && !missing && !code) {
            const char *slash = strrchr(all[i], '/');
            snprintf(c->library, sizeof c->library, "%.63s", slash ? slash + 1 : all[i]);
            return RF_OK;
        }
        if (len < sizeof tried)
            len += (size_t)snprintf(tried + len, sizeof tried - len, "%s%.80s: %s%.60s",
                                    len ? "; " : "", all[i], missing ? "lacks the function " : "",
                                    missing   ? missing
                                    : library ? c->error_text(code)
                                              : "not installed");
    }
    return rf_fail(e, RF_EUNSUPPORTED, "no compiler of GPU kernels: %s", tried);
}

rf_status rf_gpu_compiler_find(const rf_gpu_driver *d, rf_error *e) {
    compiler c = {.major = 0};
    return find(&c, d, e);
}

/* Compiling --------------------------------------------------------------------------------------*/

typedef struct job {
    const rf_gpu_driver *driver;
    compiler c;
    char target[32], arch_option[64];
    const char *option[MAX_OPTIONS];
    int n_options;
    char key[RF_SHA256_HEX], path[600]; /* path empty: there is no cache */
} job;

static void add_option(job *j, const char *option) {
    RF_ASSERT(j->n_options < MAX_OPTIONS);
    j->option[j->n_options++] = option;
}

/* Hopper's own kernels need its own name.  PTX and not machine code of NVIDIA's: their driver translates
 * it on all cores. */
static void choose_options(job *j, const char *arch) {
    bool cuda = is_cuda(j->driver);
    snprintf(j->target, sizeof j->target, "%.30s%s", arch,
             cuda && strcmp(arch, "sm_90") == 0 ? "a" : "");
    if (cuda)
        snprintf(j->arch_option, sizeof j->arch_option, "--gpu-architecture=compute_%.24s",
                 j->target + strlen("sm_"));
    else
        snprintf(j->arch_option, sizeof j->arch_option, "--offload-arch=%s", j->target);
    add_option(j, j->arch_option);
    add_option(j, "-std=c++20");
    add_option(j, cuda ? "--fmad=false" : "-ffp-contract=off");
    add_option(j, cuda ? "--device-as-default-execution-space" : "-O3");
}

/* What decides about the code: source, options, compiler and the software that it is part of. */
static rf_status make_key(job *j, rf_error *e) {
    rf_sha256 *h;
    char version[200];
    if (rf_sha256_create(&h) != RF_OK) return rf_fail_nomem(e, sizeof j->key);
    int n = snprintf(version, sizeof version, "%s %d.%d %s %d", j->c.library, j->c.major,
                     j->c.minor, j->driver->library, j->driver->version);
    rf_sha256_add(h, version, (size_t)n + 1);
    for (int i = 0; i < j->n_options; i++)
        rf_sha256_add(h, j->option[i], strlen(j->option[i]) + 1);
    for (const rf_gpu_source *s = rf_gpu_sources; s->name; s++) {
        rf_sha256_add(h, s->name, strlen(s->name) + 1);
        rf_sha256_add(h, s->text, strlen(s->text) + 1);
    }
    rf_sha256_hex(h, j->key);
    rf_sha256_free(h);
    if (!rf_gpu_cache_path(j->path, sizeof j->path, "kernels-%s-%.16s.bin", j->target, j->key))
        j->path[0] = 0;
    return RF_OK;
}

/* The whole log for whoever reads logs, and its first error for everybody. */
static rf_status explain(job *j, void *program, int code, rf_error *e) {
    size_t n = 0;
    char *log = NULL;
    if (j->c.log_size(program, &n) == 0 && n > 0 && n < MAX_LOG) log = rf_alloc(n + 1, 1);
    if (log && j->c.log(program, log) != 0) log[0] = 0;
    const char *first = log ? strstr(log, "error:") : NULL;
    if (log && log[0]) rf_log_write(RF_LOG_ERROR, "%s: %s", j->c.library, log);
    rf_status s =
        rf_fail(e, RF_EUNSUPPORTED, "%s %d.%d cannot compile the kernels for %s: %.80s%s%.*s",
                j->c.library, j->c.major, j->c.minor, j->target, j->c.error_text(code),
                first ? ": " : "", first ? (int)strcspn(first, "\n") % 200 : 0, first ? first : "");
    rf_free(log);
    return s;
}

static rf_status take_code(job *j, void *program, rf_gpu_compiled *out, rf_error *e) {
    size_t n = 0;
    int code = j->c.code_size(program, &n);
    if (code) return explain(j, program, code, e);
    if (n == 0 || n > MAX_CODE)
        return rf_fail(e, RF_EUNSUPPORTED, "%s: %zu bytes of code for %s", j->c.library, n,
                       j->target);
    out->image = rf_alloc(n + 1, 1);
    if (!out->image) return rf_fail_nomem(e, n + 1);
    out->n = n;
    code = j->c.code(program, out->image);
    if (code) return explain(j, program, code, e);
    return RF_OK;
}

static rf_status compile(job *j, rf_gpu_compiled *out, rf_error *e) {
    const char *headers[MAX_SOURCES], *names[MAX_SOURCES];
    int n = 0, code;
    void *program = NULL;
    for (const rf_gpu_source *s = rf_gpu_sources + 1; s->name; s++, n++) {
        RF_ASSERT(n < MAX_SOURCES);
        headers[n] = s->text;
        names[n] = s->name;
    }
    rf_log_write(RF_LOG_WARN, "%s %d.%d compiles the GPU kernels for %s: this takes minutes, once",
                 j->c.library, j->c.major, j->c.minor, j->target);
    code = j->c.create(&program, rf_gpu_sources[0].text, "kernels.hip", n, headers, names);
    if (code) return rf_fail(e, RF_EUNSUPPORTED, "%s: %s", j->c.library, j->c.error_text(code));
    code = j->c.compile(program, j->n_options, j->option);
    rf_status s = code ? explain(j, program, code, e) : take_code(j, program, out, e);
    (void)j->c.destroy(&program);
    return s;
}

/* The cache: a file of the key, a digest of the code, and the code ---------------------------------*/

enum { HEAD = 2 * RF_SHA256_HEX }; /* both in hex, each with a newline */

static bool make_head(const job *j, const void *code, size_t n, char head[HEAD + 1]) {
    rf_sha256 *h;
    char hex[RF_SHA256_HEX];
    if (rf_sha256_create(&h) != RF_OK) return false;
    rf_sha256_add(h, code, n);
    rf_sha256_hex(h, hex);
    rf_sha256_free(h);
    return snprintf(head, HEAD + 1, "%s\n%s\n", j->key, hex) == HEAD;
}

/* A file that is damaged, or of another key, is as none. */
static bool read_cache(const job *j, rf_gpu_compiled *out) {
    uint8_t *file = NULL;
    size_t n;
    char head[HEAD + 1];
    if (!j->path[0] || rf_file_read(j->path, MAX_CODE, &file, &n, NULL) != RF_OK) return false;
    bool sound =
        n > HEAD && make_head(j, file + HEAD, n - HEAD, head) && memcmp(file, head, HEAD) == 0;
    if (sound) out->image = rf_alloc(n - HEAD + 1, 1);
    if (out->image) {
        out->n = n - HEAD;
        memcpy(out->image, file + HEAD, out->n);
    } else if (n > 0) {
        rf_log_write(RF_LOG_WARN, "%s is damaged: the kernels are compiled again", j->path);
    }
    rf_free(file);
    return out->image != NULL;
}

static rf_status write_file(const job *j, const rf_gpu_compiled *c, rf_error *e) {
    char head[HEAD + 1];
    rf_outfile *f;
    if (!make_head(j, c->image, c->n, head)) return rf_fail_nomem(e, HEAD);
    RF_TRY(rf_gpu_cache_make(j->path, e));
    RF_TRY(rf_outfile_open(&f, j->path, e));
    rf_status s = rf_outfile_write(f, head, HEAD, e);
    if (s == RF_OK) s = rf_outfile_write(f, c->image, c->n, e);
    if (s == RF_OK) return rf_outfile_commit(f, e);
    rf_outfile_abort(f);
    return s;
}

rf_status rf_gpu_compile(const rf_gpu_driver *d, const char *arch, rf_gpu_compiled *out,
                         rf_error *e) {
    job j = {.driver = d};
    rf_error why = {.status = RF_OK};
    *out = (rf_gpu_compiled){.n = 0};
    RF_TRY(find(&j.c, d, e));
    choose_options(&j, arch);
    snprintf(out->target, sizeof out->target, "%s", j.target);
    RF_TRY(make_key(&j, e));
    if (read_cache(&j, out)) return RF_OK;
    rf_status s = compile(&j, out, e);
    if (s != RF_OK) {
        rf_free(out->image);
        out->image = NULL;
        return s;
    }
    if (j.path[0] && write_file(&j, out, &why) != RF_OK)
        rf_log_write(RF_LOG_WARN, "compiled GPU kernels are not kept: %s", why.text);
    return RF_OK;
}
