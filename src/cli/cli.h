/* cli.h - the command line's framework: one table of commands, one of flags, one way to fail.
 *
 * Help, man page and shell completions are printed from these tables.  A value comes from the flag,
 * else from the environment variable, else from the config file, else from the table's default.
 * Commands write results to stdout through rf_buf and rf_cli_write, everything else to stderr. */
#pragma once
#include <stdio.h>

#include "base/base.h"
#include "base/buf.h"

typedef enum rf_flag_kind {
    RF_FLAG_BOOL, /* --name, --no-name */
    RF_FLAG_STR,
    RF_FLAG_INT,  /* min..max */
    RF_FLAG_NUM,  /* min..max */
    RF_FLAG_LIST, /* may be given several times */
} rf_flag_kind;

typedef enum rf_flag_id {
#define X(id, name, short_name, kind, metavar, dflt, min, max, env, help) RF_F_##id,
#include "cli/flags.def"
#undef X
    RF_F_COUNT
} rf_flag_id;
_Static_assert(RF_F_COUNT < 255, "flags are listed as bytes");

typedef struct rf_flag {
    const char *name;
    char short_name; /* 0: none */
    rf_flag_kind kind;
    const char *metavar, *dflt; /* dflt NULL: unset */
    double min, max;
    const char *env; /* NULL: none */
    const char *help;
} rf_flag;

typedef struct rf_cli rf_cli;
typedef struct rf_command {
    const char *name;       /* "gguf dump" has a space: a command and its sub-command */
    const char *args;       /* "FILE TENSOR", for help */
    int min_args, max_args; /* max_args -1: any number */
    const uint8_t *flags;   /* rf_flag_id, ended by RF_F_COUNT; NULL: only the common ones */
    const char *summary;    /* one line */
    const char *details;    /* for the man page; may be NULL */
    int (*run)(rf_cli *c);  /* exit code */
} rf_command;
extern const rf_command rf_commands[];
extern const size_t rf_command_count;
const rf_flag *rf_flag_get(rf_flag_id id);
bool rf_flag_is_common(rf_flag_id id); /* taken by every command: help, json, log, config, color */
bool rf_command_lists(const rf_command *command, rf_flag_id id);
bool rf_command_takes(const rf_command *command, rf_flag_id id); /* listed or common */

/* Exit codes, documented in the man page. */
enum {
    RF_EXIT_OK = 0,
    RF_EXIT_FAILED = 1, /* anything without a code of its own, e.g. a check that did not hold */
    RF_EXIT_USAGE = 2,  /* wrong command, flag or argument */
    RF_EXIT_IO = 3,     /* a file or the output could not be read or written */
    RF_EXIT_FORMAT = 4, /* a file is malformed */
    RF_EXIT_UNSUPPORTED = 5, /* well-formed, but this build cannot do it */
    RF_EXIT_NOMEM = 6,
    RF_EXIT_DEVICE = 7,
    RF_EXIT_INTERRUPTED = 130,
};

/* Positional arguments and values, valid while the command runs. */
int rf_cli_n_args(const rf_cli *c);
const char *rf_cli_arg(const rf_cli *c, int i);    /* NULL when absent */
bool rf_cli_given(const rf_cli *c, rf_flag_id id); /* by flag, environment or config file */
bool rf_cli_bool(const rf_cli *c, rf_flag_id id);
const char *rf_cli_str(const rf_cli *c, rf_flag_id id); /* NULL when unset */
int64_t rf_cli_int(const rf_cli *c, rf_flag_id id);
double rf_cli_num(const rf_cli *c, rf_flag_id id);
size_t rf_cli_list(const rf_cli *c, rf_flag_id id, const char *const **out);
bool rf_cli_color(
    const rf_cli *c); /* stdout is a terminal, NO_COLOR is unset, --color does not object */

/* Prints "rocmforge COMMAND: text" on stderr (as {"error":...} with --json) and returns the exit
 * code that belongs to the status. */
int rf_cli_fail(const rf_cli *c, const rf_error *e);
/* The same for a wrong argument found by the command itself; adds where to find help. */
int rf_cli_usage(const rf_cli *c, const char *fmt, ...) RF_PRINTF(2, 3);
/* Writes and empties out to stdout; failing (full disk, closed pipe) is remembered and becomes the
 * program's exit code.  False once writing has failed: stop working. */
bool rf_cli_write(rf_cli *c, rf_buf *out);

/* A progress bar on stderr for long work: drawn at most ten times a second, only on a terminal. */
typedef struct rf_progress {
    const char *what;
    uint64_t total;
    uint64_t last_us;
    bool shown, enabled;
} rf_progress;
void rf_progress_start(rf_progress *p, const rf_cli *c, const char *what, uint64_t total);
void rf_progress_step(rf_progress *p, uint64_t done);
void rf_progress_end(rf_progress *p); /* erases the bar */

/* Commands that can stop cleanly catch Ctrl-C and look for it between steps; a second Ctrl-C ends
 * the program at once.  The others leave it alone and die by it. */
void rf_cli_catch_interrupts(void);
bool rf_cli_interrupted(void);
void rf_cli_clear_interrupt(void);

/* The file of a model that a user named: the name, if it is a path; else what the directory of models
 * has by that name, if anything. */
void rf_cli_find_model(rf_cli *c, const char *name, char *out, size_t cap);
/* The model to use: -m, ROCMFORGE_GGUF, config, else the built-in demo model.  A bare name is also
 * looked for in the directory ROCMFORGE_MODELS.  *path is valid while the command runs. */
RF_CHECKED rf_status rf_cli_model_path(rf_cli *c, const char **path, rf_error *e);
/* Where models are kept: --models-dir, else ~/.local/share/rocmforge/models (XDG_DATA_HOME), whether
 * it exists or not.  False without a home directory. */
bool rf_cli_models_dir(const rf_cli *c, char *out, size_t cap);

/* One per command, in cmd_<name>.c. */
int rf_cmd_generate(rf_cli *c);
int rf_cmd_chat(rf_cli *c);
int rf_cmd_serve(rf_cli *c);
int rf_cmd_tokenize(rf_cli *c);
int rf_cmd_detokenize(rf_cli *c);
int rf_cmd_logits(rf_cli *c);
int rf_cmd_embed(rf_cli *c);
int rf_cmd_bench(rf_cli *c);
int rf_cmd_bench_serve(rf_cli *c);
int rf_cmd_models(rf_cli *c);
int rf_cmd_pull(rf_cli *c);
int rf_cmd_inspect(rf_cli *c);
int rf_cmd_gguf_dump(rf_cli *c);
int rf_cmd_gguf_verify(rf_cli *c);
int rf_cmd_gguf_dequant(rf_cli *c);
int rf_cmd_gguf_split(rf_cli *c);
int rf_cmd_gguf_merge(rf_cli *c);
int rf_cmd_gguf_diff(rf_cli *c);
int rf_cmd_quantize(rf_cli *c);
int rf_cmd_imatrix(rf_cli *c);
int rf_cmd_perplexity(rf_cli *c);
int rf_cmd_doctor(rf_cli *c);
int rf_cmd_selftest(rf_cli *c);
int rf_cmd_plan(rf_cli *c);
int rf_cmd_version(rf_cli *c);
int rf_cmd_help(rf_cli *c);
int rf_cmd_man(rf_cli *c);
int rf_cmd_completions(rf_cli *c);
