/* cmd_models.c - which model files are at hand, and which architectures run. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/session.h"
#include "gguf/gguf.h"

typedef struct listing {
    rf_cli *c;
    rf_buf *out;
    bool json;
    size_t n;
} listing;

static void add_model(listing *l, const char *path, bool built_in) {
    rf_gguf *g = NULL;
    rf_error e = {0};
    rf_str name = {0}, arch = {0};
    rf_status s = rf_gguf_open(&g, path, &e);
    if (s == RF_OK) s = rf_gguf_get_str(g, "general.name", &name, NULL, &e);
    if (s == RF_OK) s = rf_gguf_get_str(g, "general.architecture", &arch, NULL, &e);
    uint64_t bytes = g ? rf_gguf_file_bytes(g) : 0;
    if (l->json) {
        rf_buf_puts(l->out, l->n ? ",{\"path\":" : "{\"path\":");
        rf_buf_json_str(l->out, rf_str_of(path));
        rf_buf_puts(l->out, ",\"name\":");
        rf_buf_json_str(l->out, name);
        rf_buf_puts(l->out, ",\"architecture\":");
        rf_buf_json_str(l->out, arch);
        rf_buf_printf(l->out,
                      ",\"bytes\":%llu,\"built_in\":%s,\"error\":", (unsigned long long)bytes,
                      built_in ? "true" : "false");
        if (s == RF_OK)
            rf_buf_puts(l->out, "null");
        else
            rf_buf_json_str(l->out, rf_str_of(e.text));
        rf_buf_putc(l->out, '}');
    } else if (s == RF_OK) {
        rf_buf_printf(l->out, "%s\n    %.*s (%.*s), %.1f MB%s\n", path, RF_STR_ARG(name),
                      RF_STR_ARG(arch), (double)bytes / 1e6, built_in ? ", built in" : "");
    } else {
        rf_buf_printf(l->out, "%s\n    cannot be opened: %s\n", path, e.text);
    }
    l->n++;
    rf_gguf_close(g);
}

static int is_gguf(const struct dirent *entry) {
    size_t n = strlen(entry->d_name);
    return n > 5 && strcmp(entry->d_name + n - 5, ".gguf") == 0;
}

static rf_status add_dir(listing *l, const char *dir, rf_error *e) {
    struct dirent **entries;
    int n = scandir(dir, &entries, is_gguf, alphasort);
    if (n < 0)
        return rf_fail(e, RF_EIO,
                       "%s: cannot be read; set ROCMFORGE_MODELS or --models-dir to a directory",
                       dir);
    for (int i = 0; i < n; i++) {
        char path[4096];
        int len = snprintf(path, sizeof path, "%s/%s", dir, entries[i]->d_name);
        if (len > 0 && (size_t)len < sizeof path) add_model(l, path, false);
        free(entries[i]);
    }
    free(entries);
    return RF_OK;
}

static void add_architectures(listing *l) {
    const char *name, *families;
    rf_buf_puts(l->out, l->json ? "],\"architectures\":[" : "\nArchitectures:\n");
    for (size_t i = 0; (name = rf_architecture(i, &families)) != NULL; i++) {
        if (!l->json) {
            rf_buf_printf(l->out, "  %-15s %s\n", name, families);
            continue;
        }
        rf_buf_puts(l->out, i ? ",{\"name\":" : "{\"name\":");
        rf_buf_json_str(l->out, rf_str_of(name));
        rf_buf_puts(l->out, ",\"families\":");
        rf_buf_json_str(l->out, rf_str_of(families));
        rf_buf_putc(l->out, '}');
    }
    if (l->json) rf_buf_puts(l->out, "]}\n");
}

int rf_cmd_models(rf_cli *c) {
    rf_buf out = {0};
    rf_error e = {0};
    listing l = {.c = c, .out = &out, .json = rf_cli_bool(c, RF_F_JSON)};
    const char *demo;
    char dir[4000];
    /* The default directory need not exist; one that was named must. */
    bool named = rf_cli_given(c, RF_F_MODELS_DIR);
    bool listed = rf_cli_models_dir(c, dir, sizeof dir) && (named || access(dir, F_OK) == 0);
    if (l.json) rf_buf_puts(&out, "{\"models\":[");
    if (rf_cli_model_path(c, &demo, &e) == RF_OK) add_model(&l, demo, true);
    e = (rf_error){0};
    rf_status s = listed ? add_dir(&l, dir, &e) : RF_OK;
    add_architectures(&l);
    if (s == RF_OK) rf_cli_write(c, &out);
    rf_buf_free(&out);
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}
