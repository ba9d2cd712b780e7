/* cli.c - finding the command, parsing its flags, environment and config file; failing; output.
 *
 * Not here: what commands do (cmd_*.c), what help looks like (help.c). */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os.h"

enum {
    MAX_ARGS = 4096,
    MAX_LIST = 256,
    MAX_NAME = 40, /* bytes of a command's name that are compared with a mistyped one */
    MAX_CONFIG_BYTES = 1 << 20,
    MAX_CONFIG_LINE = 191, /* with its end; the INI library's own limit is 200 */
};

typedef struct value {
    bool given;
    const char *text; /* borrowed from argv, environment or the config copy */
    int64_t integer;
    double number;
    bool boolean;
} value;

typedef struct list {
    const char *items[MAX_LIST];
    size_t n;
} list;

struct rf_cli {
    const rf_command *command;
    const char *args[MAX_ARGS];
    int n_args;
    value values[RF_F_COUNT];
    list *lists[RF_F_COUNT]; /* of LIST flags that were given */
    rf_buf config;           /* strings of the config file, never moved once read */
    char model_path[4096];
    bool out_failed;
    int out_errno;
};

static const rf_flag flags[RF_F_COUNT] = {
#define X(id, name, short_name, kind, metavar, dflt, min, max, env, help) \
    {name, short_name, RF_FLAG_##kind, metavar, dflt, min, max, env, help},
#include "cli/flags.def"
#undef X
};

const rf_flag *rf_flag_get(rf_flag_id id) { return &flags[id]; }

bool rf_flag_is_common(rf_flag_id id) {
    return id == RF_F_HELP || id == RF_F_JSON || id == RF_F_LOG || id == RF_F_CONFIG ||
           id == RF_F_COLOR;
}

bool rf_command_lists(const rf_command *command, rf_flag_id id) {
    for (const uint8_t *f = command->flags; f && *f != RF_F_COUNT; f++)
        if (*f == (uint8_t)id) return true;
    return false;
}

/* ---- values ---- */

int rf_cli_n_args(const rf_cli *c) { return c->n_args; }
const char *rf_cli_arg(const rf_cli *c, int i) { return i < c->n_args ? c->args[i] : NULL; }
bool rf_cli_given(const rf_cli *c, rf_flag_id id) { return c->values[id].given; }
bool rf_cli_bool(const rf_cli *c, rf_flag_id id) { return c->values[id].boolean; }
const char *rf_cli_str(const rf_cli *c, rf_flag_id id) { return c->values[id].text; }
int64_t rf_cli_int(const rf_cli *c, rf_flag_id id) { return c->values[id].integer; }
double rf_cli_num(const rf_cli *c, rf_flag_id id) { return c->values[id].number; }
size_t rf_cli_list(const rf_cli *c, rf_flag_id id, const char *const **out) {
    *out = c->lists[id] ? c->lists[id]->items : NULL;
    return c->lists[id] ? c->lists[id]->n : 0;
}

bool rf_cli_color(const rf_cli *c) {
    const char *no_color = getenv("NO_COLOR");
    if (c->values[RF_F_COLOR].given) return c->values[RF_F_COLOR].boolean;
    return !(no_color && no_color[0]) && isatty(STDOUT_FILENO);
}

static bool parse_bool(const char *text, bool *out) {
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off"};
    for (size_t i = 0; i < RF_COUNT(yes); i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *out = strcmp(text, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

static rf_status set_number(const rf_flag *f, value *v, const char *text, const char *from,
                            rf_error *e) {
    char *end = NULL;
    errno = 0;
    double x = f->kind == RF_FLAG_INT ? 0 : strtod(text, &end);
    long long n = f->kind == RF_FLAG_INT ? strtoll(text, &end, 10) : 0;
    if (f->kind == RF_FLAG_INT) x = (double)n;
    if (end == text || *end || errno == ERANGE || !isfinite(x) || x < f->min || x > f->max)
        return rf_fail(e, RF_EARG, "%s: '%.80s' is not %s between %.10g and %.10g", from, text,
                       f->kind == RF_FLAG_INT ? "a whole number" : "a number", f->min, f->max);
    v->integer = n;
    v->number = x;
    return RF_OK;
}

/* from: where the text was given, for the message. */
static rf_status set_value(rf_cli *c, rf_flag_id id, const char *text, const char *from,
                           rf_error *e) {
    const rf_flag *f = &flags[id];
    value *v = &c->values[id];
    if (f->kind == RF_FLAG_BOOL) {
        if (!parse_bool(text, &v->boolean))
            return rf_fail(e, RF_EARG, "%s: '%.80s' is neither true nor false", from, text);
    } else if (f->kind == RF_FLAG_INT || f->kind == RF_FLAG_NUM) {
        RF_TRY(set_number(f, v, text, from, e));
    } else if (f->kind == RF_FLAG_LIST) {
        if (!c->lists[id]) c->lists[id] = rf_alloc(1, sizeof(list));
        if (!c->lists[id]) return rf_fail_nomem(e, sizeof(list));
        if (c->lists[id]->n == MAX_LIST)
            return rf_fail(e, RF_EARG, "%s: given more than %d times", from, MAX_LIST);
        c->lists[id]->items[c->lists[id]->n++] = text;
    }
    v->given = true;
    v->text = text;
    return RF_OK;
}

/* ---- flags ---- */

/* How many letters must be typed otherwise to make b of a: the usual edit distance. */
static size_t distance(const char *a, const char *b) {
    size_t row[MAX_NAME + 1], n = strlen(b);
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            size_t best = diagonal + (a[i] != b[j]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j + 1] + 1 < best) best = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return row[n];
}

bool rf_command_takes(const rf_command *command, rf_flag_id id) {
    return rf_flag_is_common(id) || rf_command_lists(command, id);
}

static int find_flag(const rf_command *command, const char *name, size_t len) {
    for (int id = 0; id < RF_F_COUNT; id++)
        if (rf_command_takes(command, (rf_flag_id)id) && strlen(flags[id].name) == len &&
            memcmp(flags[id].name, name, len) == 0)
            return id;
    return -1;
}

static int find_short(const rf_command *command, char short_name) {
    for (int id = 0; id < RF_F_COUNT; id++)
        if (rf_command_takes(command, (rf_flag_id)id) && flags[id].short_name == short_name)
            return id;
    return -1;
}

static rf_status unknown_flag(const rf_command *command, const char *arg, size_t len, rf_error *e) {
    char name[MAX_NAME + 1] = "";
    const char *nearest = NULL;
    size_t least = 3;
    if (len <= MAX_NAME) memcpy(name, arg + 2, len);
    for (int id = 0; id < RF_F_COUNT && name[0]; id++) {
        if (!rf_command_takes(command, (rf_flag_id)id)) continue;
        size_t d = distance(name, flags[id].name);
        if (d < least) least = d, nearest = flags[id].name;
    }
    if (!nearest) return rf_fail(e, RF_EARG, "unknown flag '%.80s'", arg);
    return rf_fail(e, RF_EARG, "unknown flag '%.80s' (did you mean '--%s'?)", arg, nearest);
}

static rf_status parse_long(rf_cli *c, char **argv, int argc, int *i, rf_error *e) {
    const char *name = argv[*i] + 2, *eq = strchr(name, '=');
    size_t len = eq ? (size_t)(eq - name) : strlen(name);
    int id = find_flag(c->command, name, len);
    bool negated = false;
    if (id < 0 && len > 3 && memcmp(name, "no-", 3) == 0) {
        id = find_flag(c->command, name + 3, len - 3);
        negated = id >= 0 && flags[id].kind == RF_FLAG_BOOL;
        if (!negated) id = -1;
    }
    if (id < 0) return unknown_flag(c->command, argv[*i], len, e);
    if (flags[id].kind == RF_FLAG_BOOL && !eq)
        return set_value(c, (rf_flag_id)id, negated ? "false" : "true", argv[*i], e);
    if (negated) return rf_fail(e, RF_EARG, "%.80s takes no value", argv[*i]);
    if (eq) {
        char from[64];
        snprintf(from, sizeof from, "--%s", flags[id].name);
        return set_value(c, (rf_flag_id)id, eq + 1, from, e);
    }
    if (*i + 1 >= argc) return rf_fail(e, RF_EARG, "%.80s needs a value", argv[*i]);
    ++*i;
    return set_value(c, (rf_flag_id)id, argv[*i], argv[*i - 1], e);
}

static rf_status parse_short(rf_cli *c, char **argv, int argc, int *i, rf_error *e) {
    int id = find_short(c->command, argv[*i][1]);
    if (id < 0) return rf_fail(e, RF_EARG, "unknown flag '%.80s'", argv[*i]);
    char from[3] = {'-', argv[*i][1], 0};
    if (flags[id].kind == RF_FLAG_BOOL) {
        if (argv[*i][2]) return rf_fail(e, RF_EARG, "%.80s takes no value", argv[*i]);
        return set_value(c, (rf_flag_id)id, "true", from, e);
    }
    if (argv[*i][2]) return set_value(c, (rf_flag_id)id, argv[*i] + 2, from, e);
    if (*i + 1 >= argc) return rf_fail(e, RF_EARG, "%.80s needs a value", argv[*i]);
    ++*i;
    return set_value(c, (rf_flag_id)id, argv[*i], from, e);
}

static rf_status parse_args(rf_cli *c, char **argv, int argc, int first, rf_error *e) {
    bool only_args = false;
    for (int i = first; i < argc; i++) {
        bool is_number = argv[i][0] == '-' && argv[i][1] >= '0' && argv[i][1] <= '9';
        if (!only_args && strcmp(argv[i], "--") == 0) {
            only_args = true;
        } else if (!only_args && argv[i][0] == '-' && argv[i][1] == '-') {
            RF_TRY(parse_long(c, argv, argc, &i, e));
        } else if (!only_args && argv[i][0] == '-' && argv[i][1] && !is_number) {
            RF_TRY(parse_short(c, argv, argc, &i, e));
        } else {
            if (c->n_args == MAX_ARGS)
                return rf_fail(e, RF_EARG, "more than %d arguments", MAX_ARGS);
            c->args[c->n_args++] = argv[i];
        }
    }
    return RF_OK;
}

static rf_status check_args(rf_cli *c, rf_error *e) {
    if (rf_cli_bool(c, RF_F_HELP)) return RF_OK;
    if (c->n_args < c->command->min_args)
        return rf_fail(e, RF_EARG, "missing argument: it takes %s", c->command->args);
    if (c->command->max_args >= 0 && c->n_args > c->command->max_args)
        return rf_fail(e, RF_EARG, "unexpected argument '%.80s'", c->args[c->command->max_args]);
    return RF_OK;
}

/* ---- environment and config file ---- */

static rf_status from_environment(rf_cli *c, rf_error *e) {
    for (int id = 0; id < RF_F_COUNT; id++) {
        const char *text = flags[id].env ? getenv(flags[id].env) : NULL;
        if (text && text[0] && rf_command_takes(c->command, (rf_flag_id)id) && !c->values[id].given)
            RF_TRY(set_value(c, (rf_flag_id)id, text, flags[id].env, e));
    }
    return RF_OK;
}

typedef struct config_reader {
    rf_cli *c;
    rf_error *e;
    const char *path;
    bool given[RF_F_COUNT]; /* by flag or environment: the file must not touch these */
    bool in_section[RF_F_COUNT];
    rf_status status;
} config_reader;

static int config_line(void *user, const char *section, const char *name, const char *text) {
    config_reader *r = user;
    const rf_command *command = r->c->command;
    if (section[0] && strcmp(section, command->name) != 0) {
        for (size_t i = 0; i < rf_command_count; i++)
            if (strcmp(section, rf_commands[i].name) == 0) return 1; /* another command's section */
        r->status = rf_fail(r->e, RF_EFORMAT, "%s: there is no command [%.80s]", r->path, section);
        return 0;
    }
    int id = find_flag(command, name, strlen(name));
    for (int k = 0; k < RF_F_COUNT && id < 0 && !section[0]; k++)
        if (strcmp(flags[k].name, name) == 0) id = k; /* another command's */
    if (id < 0) {
        r->status = rf_fail(r->e, RF_EFORMAT, "%s: unknown setting '%.80s'", r->path, name);
        return 0;
    }
    if (!rf_command_takes(command, (rf_flag_id)id) || r->given[id]) return 1;
    if (!section[0] && r->in_section[id]) return 1; /* the command's own section wins */
    if (section[0] && !r->in_section[id] && r->c->lists[id]) r->c->lists[id]->n = 0;
    r->in_section[id] = section[0] != 0;
    rf_buf *config = &r->c->config;
    char *copy = config->p + config->len;
    size_t len = strlen(text) + 1;
    if (len > config->cap - config->len) return 0;
    memcpy(copy, text, len);
    config->len += len;
    char from[160];
    snprintf(from, sizeof from, "%.100s: %s", r->path, flags[id].name);
    r->status = set_value(r->c, (rf_flag_id)id, copy, from, r->e);
    return r->status == RF_OK;
}

static bool config_default_path(char *out, size_t cap) {
    const char *dir = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = -1;
    if (dir && dir[0])
        n = snprintf(out, cap, "%s/rocmforge/config", dir);
    else if (home && home[0])
        n = snprintf(out, cap, "%s/.config/rocmforge/config", home);
    return n > 0 && (size_t)n < cap && access(out, R_OK) == 0;
}

/* A copy that the INI reader takes as it is meant: it would cut long lines, take an indented line
 * for the rest of the one before, and stop at a byte 0. */
static rf_status config_text(const char *path, const char *text, size_t len, char **out,
                             rf_error *e) {
    char *copy = *out = rf_alloc(len + 1, 1);
    if (!copy) return rf_fail_nomem(e, len);
    for (size_t at = 0, line = 1; at < len; line++) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - (text + at)) + 1 : len - at;
        if (n > MAX_CONFIG_LINE || memchr(text + at, 0, n))
            return rf_fail(e, RF_EFORMAT, "%s:%zu: %s", path, line,
                           n > MAX_CONFIG_LINE ? "the line is longer than 190 bytes"
                                               : "the line has a byte 0; expected text");
        size_t blank = 0;
        while (blank < n && (text[at + blank] == ' ' || text[at + blank] == '\t'))
            blank++;
        memcpy(copy, text + at + blank, n - blank);
        copy += n - blank;
        at += n;
    }
    return RF_OK;
}

static rf_status read_config(config_reader *r, const char *text, size_t len) {
    char *copy = NULL;
    rf_buf *config = &r->c->config;
    config->p = rf_alloc(len * 2 + 2, 1); /* every value fits, and none moves */
    config->cap = len * 2 + 2;
    rf_status s =
        config->p ? config_text(r->path, text, len, &copy, r->e) : rf_fail_nomem(r->e, config->cap);
    int line = s == RF_OK ? ini_parse_string(copy, config_line, r) : 0;
    rf_free(copy);
    if (s != RF_OK || r->status != RF_OK) return s != RF_OK ? s : r->status;
    if (line < 0) return rf_fail_nomem(r->e, len);
    if (line > 0) return rf_fail(r->e, RF_EFORMAT, "%s:%d: expected 'flag = value'", r->path, line);
    return RF_OK;
}

static rf_status from_config(rf_cli *c, rf_error *e) {
    char path[4096];
    const char *named = rf_cli_str(c, RF_F_CONFIG);
    if (!named && !config_default_path(path, sizeof path)) return RF_OK;
    config_reader r = {.c = c, .e = e, .path = named ? named : path};
    uint8_t *text = NULL;
    size_t len = 0;
    RF_TRY(rf_file_read(r.path, MAX_CONFIG_BYTES, &text, &len, e));
    for (int id = 0; id < RF_F_COUNT; id++)
        r.given[id] = c->values[id].given;
    rf_status s = read_config(&r, (const char *)text, len);
    rf_free(text);
    return s;
}

static rf_status from_defaults(rf_cli *c, rf_error *e) {
    for (int id = 0; id < RF_F_COUNT; id++) {
        if (c->values[id].given || !flags[id].dflt) continue;
        RF_TRY(set_value(c, (rf_flag_id)id, flags[id].dflt, flags[id].name, e));
        c->values[id].given = false;
    }
    return RF_OK;
}

/* ---- failing and output ---- */

static int exit_code(rf_status s) {
    switch (s) {
    case RF_OK:
        return RF_EXIT_OK;
    case RF_ENOMEM:
        return RF_EXIT_NOMEM;
    case RF_EIO:
        return RF_EXIT_IO;
    case RF_EFORMAT:
        return RF_EXIT_FORMAT;
    case RF_EUNSUPPORTED:
        return RF_EXIT_UNSUPPORTED;
    case RF_EDEVICE:
        return RF_EXIT_DEVICE;
    case RF_EARG:
        return RF_EXIT_USAGE;
    case RF_EFULL:
        return RF_EXIT_FAILED;
    case RF_ECANCELLED:
        return RF_EXIT_INTERRUPTED;
    }
    return RF_EXIT_FAILED;
}

int rf_cli_fail(const rf_cli *c, const rf_error *e) {
    const char *name = c->command ? c->command->name : NULL;
    if (c->values[RF_F_JSON].boolean) {
        rf_buf line = {0};
        rf_buf_puts(&line, "{\"error\":{\"status\":");
        rf_buf_json_str(&line, rf_str_of(rf_status_name(e->status)));
        rf_buf_puts(&line, ",\"message\":");
        rf_buf_json_str(&line, rf_str_of(e->text));
        rf_buf_puts(&line, "}}\n");
        fwrite(line.p, 1, line.len, stderr);
        rf_buf_free(&line);
    } else {
        fprintf(stderr, "rocmforge%s%s: %s\n", name ? " " : "", name ? name : "", e->text);
    }
    return exit_code(e->status);
}

int rf_cli_usage(const rf_cli *c, const char *fmt, ...) {
    char text[400];
    rf_error e = {0};
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    rf_fail(&e, RF_EARG, "%s; see 'rocmforge help%s%s'", text, c->command ? " " : "",
            c->command ? c->command->name : "");
    return rf_cli_fail(c, &e);
}

bool rf_cli_write(rf_cli *c, rf_buf *out) {
    if (out->failed && !c->out_failed) {
        c->out_failed = true;
        c->out_errno = ENOMEM;
    }
    for (size_t done = 0; done < out->len && !c->out_failed;) {
        ssize_t n = write(STDOUT_FILENO, out->p + done, out->len - done);
        if (n >= 0) {
            done += (size_t)n;
        } else if (errno != EINTR) {
            c->out_failed = true;
            c->out_errno = errno;
        }
    }
    rf_buf_clear(out);
    return !c->out_failed;
}

/* ---- progress ---- */

void rf_progress_start(rf_progress *p, const rf_cli *c, const char *what, uint64_t total) {
    *p = (rf_progress){.what = what, .total = total ? total : 1};
    p->enabled = isatty(STDERR_FILENO) && !rf_cli_bool(c, RF_F_JSON);
}

void rf_progress_step(rf_progress *p, uint64_t done) {
    uint64_t now = rf_time_us();
    if (!p->enabled || now - p->last_us < 100000) return;
    p->last_us = now;
    p->shown = true;
    int percent = (int)((done > p->total ? p->total : done) * 100 / p->total), bar = percent / 4;
    fprintf(stderr, "\r%s [%.*s%*s] %3d%%", p->what, bar, "#########################", 25 - bar, "",
            percent);
    fflush(stderr);
}

void rf_progress_end(rf_progress *p) {
    if (p->shown) fputs("\r\033[K", stderr);
    p->shown = false;
}

/* ---- interrupts ---- */

static volatile sig_atomic_t interrupts;

static void on_interrupt(int sig) {
    (void)sig;
    if (interrupts++ > 0) _exit(RF_EXIT_INTERRUPTED);
}

void rf_cli_catch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
}

bool rf_cli_interrupted(void) { return interrupts > 0; }
void rf_cli_clear_interrupt(void) { interrupts = 0; }

/* ---- the model file ---- */

static bool join(char *out, size_t cap, const char *dir, const char *name, const char *suffix) {
    int n = snprintf(out, cap, "%s/%s%s", dir, name, suffix);
    return n > 0 && (size_t)n < cap && access(out, F_OK) == 0;
}

bool rf_cli_models_dir(const rf_cli *c, char *out, size_t cap) {
    const char *dir = rf_cli_str(c, RF_F_MODELS_DIR), *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    int n = -1;
    if (dir)
        n = snprintf(out, cap, "%s", dir);
    else if (data && data[0] == '/')
        n = snprintf(out, cap, "%s/rocmforge/models", data);
    else if (home && home[0] == '/')
        n = snprintf(out, cap, "%s/.local/share/rocmforge/models", home);
    return n > 0 && (size_t)n < cap;
}

void rf_cli_find_model(rf_cli *c, const char *name, char *out, size_t cap) {
    char dir[4000];
    bool bare = !strchr(name, '/') && access(name, F_OK) != 0;
    if (bare && rf_cli_models_dir(c, dir, sizeof dir) &&
        (join(out, cap, dir, name, "") || join(out, cap, dir, name, ".gguf")))
        return;
    snprintf(out, cap, "%s", name);
}

rf_status rf_cli_model_path(rf_cli *c, const char **path, rf_error *e) {
    const char *name = rf_cli_str(c, RF_F_MODEL);
    char *out = c->model_path;
    size_t cap = sizeof c->model_path;
    *path = out;
    if (name) {
        rf_cli_find_model(c, name, out, cap);
        return RF_OK;
    }
    char exe[4000];
    rf_exe_dir(exe, sizeof exe);
    if (join(out, cap, exe, "demo.gguf", "") ||
        join(out, cap, exe, "../share/rocmforge/demo.gguf", ""))
        return RF_OK;
    *path = NULL;
    return rf_fail(e, RF_EIO,
                   "the built-in demo model was not found as %s/demo.gguf or "
                   "../share/rocmforge/demo.gguf beside it; name a model with -m",
                   exe);
}

/* ---- main ---- */

/* The command named by argv[1] (and argv[2]); *n_words: how many of them name it. */
static const rf_command *find_command(int argc, char **argv, int *n_words) {
    for (size_t i = 0; i < rf_command_count; i++) {
        const char *name = rf_commands[i].name, *space = strchr(name, ' ');
        size_t first = space ? (size_t)(space - name) : strlen(name);
        if (argc < 2 || strlen(argv[1]) != first || memcmp(argv[1], name, first) != 0) continue;
        if (space && (argc < 3 || strcmp(argv[2], space + 1) != 0)) continue;
        *n_words = space ? 2 : 1;
        return &rf_commands[i];
    }
    return NULL;
}

static int close_output(const rf_cli *c, int code) {
    if (!c->out_failed) return code;
    if (c->out_errno != EPIPE)
        fprintf(stderr, "rocmforge: cannot write to standard output: %s\n", strerror(c->out_errno));
    return code ? code : RF_EXIT_IO;
}

/* Where the arguments cannot be understood, an error is JSON if --json stands anywhere among them.
 * */
static void look_for_json(rf_cli *c, int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0) c->values[RF_F_JSON].boolean = true;
}

static int run_command(rf_cli *c, int argc, char **argv, int n_words) {
    rf_error e = {0};
    if (parse_args(c, argv, argc, 1 + n_words, &e) != RF_OK || check_args(c, &e) != RF_OK) {
        look_for_json(c, argc, argv);
        return rf_cli_usage(c, "%s", e.text);
    }
    if (rf_cli_bool(c, RF_F_HELP)) {
        c->args[0] = c->command->name;
        c->n_args = 1;
        return rf_cmd_help(c);
    }
    if (from_environment(c, &e) != RF_OK || from_config(c, &e) != RF_OK ||
        from_defaults(c, &e) != RF_OK || rf_log_configure(rf_cli_str(c, RF_F_LOG), &e) != RF_OK)
        return rf_cli_fail(c, &e);
    return c->command->run(c);
}

/* No command was recognised: what is wrong, and the nearest name. */
static int no_command(rf_cli *c, int argc, char **argv) {
    look_for_json(c, argc, argv);
    if (argc < 2) return rf_cli_usage(c, "no command given");
    const char *nearest = NULL;
    size_t least = 3, n = strlen(argv[1]);
    for (size_t i = 0; i < rf_command_count; i++) {
        const char *name = rf_commands[i].name;
        if (strncmp(name, argv[1], n) == 0 && name[n] == ' ')
            return argc < 3 ? rf_cli_usage(c, "'%s' needs one of its commands, such as '%s'",
                                           argv[1], name)
                            : rf_cli_usage(c, "unknown command '%s %.80s'", argv[1], argv[2]);
        size_t d = n < MAX_NAME && strlen(name) <= MAX_NAME ? distance(argv[1], name) : least;
        if (d < least) least = d, nearest = name;
    }
    if (nearest)
        return rf_cli_usage(c, "unknown command '%s' (did you mean '%s'?)", argv[1], nearest);
    return rf_cli_usage(c, "unknown command '%.80s'", argv[1]);
}

/* "rocmforge --help", "rocmforge gguf --help" and "rocmforge --version" as the commands they mean.
 * */
static void translate(int argc, char **argv) {
    static char help[] = "help", version[] = "version";
    if (argc < 2) return;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) argv[1] = help;
    if (strcmp(argv[1], "--version") == 0) argv[1] = version;
    if (argc == 3 && strcmp(argv[1], "gguf") == 0 &&
        (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) {
        argv[2] = argv[1];
        argv[1] = help;
    }
}

/* A file opened later must not become standard output where that was closed; writing there fails.
 * */
static void hold_descriptors(void) {
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

/* Model files are mapped: reading a page that the file has no more, or that its disk cannot give, is
 * this signal.  There is nothing to go on with, but a reason to give. */
static void on_lost_page(int number) {
    static const char text[] =
        "rocmforge: a file in use lost bytes: it was cut or overwritten in place, or its disk "
        "failed; "
        "write new versions of a model beside the old one and rename them, then start again\n";
    static atomic_flag told = ATOMIC_FLAG_INIT;
    (void)number;
    while (atomic_flag_test_and_set(&told)) /* threads may meet it together: one says so */
        pause();
    ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
    _exit(n < 0 ? RF_EXIT_FAILED : RF_EXIT_IO);
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGBUS, on_lost_page);
    hold_descriptors();
    rf_cli *c = rf_alloc(1, sizeof *c);
    if (!c) {
        fputs("rocmforge: out of memory\n", stderr);
        return RF_EXIT_NOMEM;
    }
    int n_words = 0;
    translate(argc, argv);
    c->command = find_command(argc, argv, &n_words);
    int code = c->command ? run_command(c, argc, argv, n_words) : no_command(c, argc, argv);
    code = close_output(c, code);
    for (int id = 0; id < RF_F_COUNT; id++)
        rf_free(c->lists[id]);
    rf_free(c->config.p);
    rf_free(c);
    return code;
}
