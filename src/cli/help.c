/* help.c - help texts, man page and shell completions, all made from the tables. */
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static void flag_left(rf_buf *out, const rf_flag *f) {
    if (f->short_name) rf_buf_printf(out, "-%c, ", f->short_name);
    rf_buf_printf(out, "--%s%s%s", f->name, f->metavar ? " " : "", f->metavar ? f->metavar : "");
}

static void flag_help(rf_buf *out, const rf_flag *f) {
    rf_buf left = {0};
    flag_left(&left, f);
    rf_buf_printf(out, "  %-30s %s", left.p ? left.p : "", f->help);
    if (f->dflt) rf_buf_printf(out, " (default %s)", f->dflt);
    if (f->env) rf_buf_printf(out, " [%s]", f->env);
    rf_buf_putc(out, '\n');
    rf_buf_free(&left);
}

/* A heading before the first of a group of flags, where a command has many. */
static const char *group_of(rf_flag_id id) {
    static const struct {
        rf_flag_id last;
        const char *title;
    } groups[] = {{RF_F_KV_TYPE, "Model and machine"},
                  {RF_F_N, "Input and length"},
                  {RF_F_MIRO_ETA, "Sampling"},
                  {RF_F_COUNT, "Tokens and output"}};
    size_t i = 0;
    while (id > groups[i].last)
        i++;
    return groups[i].title;
}

static void flags_help(rf_buf *out, const rf_command *command) {
    enum { MANY = 12 };
    const char *last = NULL;
    size_t n = 0;
    while (command->flags[n] != RF_F_COUNT)
        n++;
    bool grouped = n > MANY;
    if (!grouped) rf_buf_puts(out, "\nFlags:\n");
    for (int id = 0; id < RF_F_COUNT; id++) {
        if (!rf_command_lists(command, (rf_flag_id)id)) continue;
        const char *title = group_of((rf_flag_id)id);
        if (grouped && title != last) rf_buf_printf(out, "\n%s:\n", title);
        last = title;
        flag_help(out, rf_flag_get((rf_flag_id)id));
    }
}

/* Text broken at spaces into lines of at most width bytes. */
static void wrapped(rf_buf *out, const char *text, size_t width) {
    while (*text) {
        size_t n = strlen(text), cut = n;
        if (n > width)
            for (cut = width; cut > 0 && text[cut] != ' ';)
                cut--;
        if (cut == 0) cut = strcspn(text, " ");
        rf_buf_put(out, text, cut);
        rf_buf_putc(out, '\n');
        text += cut + strspn(text + cut, " ");
    }
}

static void command_help(rf_buf *out, const rf_command *command) {
    rf_buf_printf(out, "rocmforge %s%s%s - %s\n", command->name, command->args[0] ? " " : "",
                  command->args, command->summary);
    if (command->details) {
        rf_buf_putc(out, '\n');
        wrapped(out, command->details, 96);
    }
    if (command->flags) flags_help(out, command);
    rf_buf_puts(out, "\nFlags of every command:\n");
    for (int id = 0; id < RF_F_COUNT; id++)
        if (rf_flag_is_common((rf_flag_id)id)) flag_help(out, rf_flag_get((rf_flag_id)id));
}

static void overview(rf_buf *out) {
    rf_buf_puts(out, "rocmforge - run large language models from GGUF files\n\n"
                     "Usage: rocmforge COMMAND [FLAGS] [ARGUMENTS]\n\nCommands:\n");
    for (size_t i = 0; i < rf_command_count; i++)
        rf_buf_printf(out, "  %-14s %s\n", rf_commands[i].name, rf_commands[i].summary);
    rf_buf_puts(out,
                "\nTry:\n"
                "  rocmforge generate \"Once upon a time\"\n"
                "  rocmforge chat\n"
                "\n'rocmforge help COMMAND' shows a command's flags.  Without -m, commands use "
                "the built-in demo model.\n");
}

static void command_json(rf_buf *out, const rf_command *command) {
    rf_buf_puts(out, "{\"name\":");
    rf_buf_json_str(out, rf_str_of(command->name));
    rf_buf_puts(out, ",\"arguments\":");
    rf_buf_json_str(out, rf_str_of(command->args));
    rf_buf_puts(out, ",\"summary\":");
    rf_buf_json_str(out, rf_str_of(command->summary));
    rf_buf_puts(out, ",\"flags\":[");
    for (int id = 0, n = 0; id < RF_F_COUNT; id++) {
        const rf_flag *f = rf_flag_get((rf_flag_id)id);
        if (!rf_command_takes(command, (rf_flag_id)id)) continue;
        rf_buf_printf(out, "%s{\"flag\":\"--%s\",\"short\":", n++ ? "," : "", f->name);
        rf_buf_printf(out, f->short_name ? "\"-%c\"" : "null", f->short_name);
        rf_buf_puts(out, ",\"help\":");
        rf_buf_json_str(out, rf_str_of(f->help));
        rf_buf_putc(out, '}');
    }
    rf_buf_puts(out, "]}");
}

/* The command of that name, or all of a group ("gguf"), or all where name is empty. */
static size_t help_for(rf_buf *out, const char *name, bool json) {
    size_t n = strlen(name), n_found = 0;
    for (size_t i = 0; i < rf_command_count; i++) {
        const rf_command *command = &rf_commands[i];
        bool is_group = strncmp(command->name, name, n) == 0 && command->name[n] == ' ';
        if (name[0] && strcmp(command->name, name) != 0 && !is_group) continue;
        if (n_found++) rf_buf_putc(out, json ? ',' : '\n');
        if (json)
            command_json(out, command);
        else
            command_help(out, command);
    }
    return n_found;
}

int rf_cmd_help(rf_cli *c) {
    rf_buf out = {0};
    char name[64] = "";
    bool json = rf_cli_bool(c, RF_F_JSON);
    for (int i = 0; i < rf_cli_n_args(c); i++) {
        size_t used = strlen(name);
        snprintf(name + used, sizeof name - used, "%s%s", i ? " " : "", rf_cli_arg(c, i));
    }
    if (json) rf_buf_puts(&out, "{\"commands\":[");
    size_t n_found = 1;
    if (!json && !name[0])
        overview(&out);
    else
        n_found = help_for(&out, name, json);
    if (json) rf_buf_puts(&out, "]}\n");
    if (n_found) rf_cli_write(c, &out);
    rf_buf_free(&out);
    return n_found ? RF_EXIT_OK : rf_cli_usage(c, "there is no command '%s'", name);
}

/* ---- man page ---- */

/* Prints the text; with --json as {"key":"text"}. */
static void print_text(rf_cli *c, const char *key, rf_buf *text) {
    rf_buf out = {0};
    if (rf_cli_bool(c, RF_F_JSON)) {
        rf_buf_printf(&out, "{\"%s\":", key);
        rf_buf_json_str(&out, rf_buf_str(text));
        rf_buf_puts(&out, "}\n");
        out.failed = out.failed || text->failed;
        rf_cli_write(c, &out);
    } else {
        rf_cli_write(c, text);
    }
    rf_buf_free(&out);
    rf_buf_free(text);
}

static void man_char(rf_buf *out, char c) {
    if (c == '\\')
        rf_buf_puts(out, "\\e");
    else if (c == '-')
        rf_buf_puts(out, "\\-");
    else
        rf_buf_putc(out, c);
}

/* Text in mdoc: special characters escaped, each sentence on a line of its own, no long lines. */
static void man_text(rf_buf *out, const char *text) {
    enum { WIDTH = 72 };
    size_t column = 0;
    char last = 0;
    for (; *text; text++) {
        bool sentence = last == '.' && text[0] == ' ' && text[1] == ' ';
        if (sentence || (*text == ' ' && column + strcspn(text + 1, " ") > WIDTH)) {
            rf_buf_putc(out, '\n');
            column = 0;
            text += sentence;
        } else {
            if (column == 0 && (*text == '.' || *text == '\'')) rf_buf_puts(out, "\\&");
            man_char(out, *text);
            column++;
        }
        last = *text;
    }
    rf_buf_puts(out, last == '.' ? "\n" : ".\n");
}

static void man_flag(rf_buf *out, const rf_flag *f) {
    rf_buf_printf(out, ".It ");
    if (f->short_name) rf_buf_printf(out, "Fl %c , ", f->short_name);
    rf_buf_printf(out, "Fl \\-%s", f->name);
    if (f->metavar) rf_buf_printf(out, " Ar %s", f->metavar);
    rf_buf_putc(out, '\n');
    man_text(out, f->help);
    if (f->dflt) rf_buf_printf(out, "Default: %s.\n", f->dflt);
    if (f->env) rf_buf_printf(out, "Environment:\n.Ev %s .\n", f->env);
}

static void man_commands(rf_buf *out) {
    rf_buf_puts(out, ".Sh COMMANDS\n.Bl -tag -width Ds\n");
    for (size_t i = 0; i < rf_command_count; i++) {
        const rf_command *command = &rf_commands[i];
        rf_buf_printf(out, ".It Cm %s", command->name);
        if (command->args[0]) rf_buf_printf(out, " Ar %s", command->args);
        rf_buf_putc(out, '\n');
        man_text(out, command->summary);
        if (command->details) man_text(out, command->details);
        for (int id = 0, n = 0; id < RF_F_COUNT; id++)
            if (rf_command_lists(command, (rf_flag_id)id))
                rf_buf_printf(out, "%s.Fl \\-%s\n", n++ ? "" : "Flags:\n",
                              rf_flag_get((rf_flag_id)id)->name);
    }
    rf_buf_puts(out, ".El\n.Sh FLAGS\n.Bl -tag -width Ds\n");
    for (int id = 0; id < RF_F_COUNT; id++)
        man_flag(out, rf_flag_get((rf_flag_id)id));
    rf_buf_puts(out, ".El\n");
}

int rf_cmd_man(rf_cli *c) {
    static const struct {
        int code;
        const char *text;
    } codes[] = {
        {RF_EXIT_OK, "success"},
        {RF_EXIT_FAILED, "a check did not hold, or another failure"},
        {RF_EXIT_USAGE, "wrong command, flag or argument"},
        {RF_EXIT_IO, "a file or the output could not be read or written"},
        {RF_EXIT_FORMAT, "a file is malformed"},
        {RF_EXIT_UNSUPPORTED, "well-formed, but not supported by this build"},
        {RF_EXIT_NOMEM, "not enough memory"},
        {RF_EXIT_DEVICE, "a device failed"},
        {RF_EXIT_INTERRUPTED, "interrupted with Ctrl-C"},
    };
    rf_buf out = {0};
    rf_buf_puts(&out, ".Dd $Mdocdate$\n.Dt ROCMFORGE 1\n.Os\n.Sh NAME\n.Nm rocmforge\n"
                      ".Nd run large language models from GGUF files\n.Sh SYNOPSIS\n.Nm\n"
                      ".Ar command\n.Op Ar flags\n.Op Ar arguments\n.Sh DESCRIPTION\n.Nm\n"
                      "loads a GGUF model and generates text.\nWithout\n.Fl m ,\ncommands use the "
                      "built-in demo model.\nA value is taken from the flag, else from the\n"
                      "environment, else from the config file.\n");
    man_commands(&out);
    rf_buf_puts(&out,
                ".Sh FILES\n.Bl -tag -width Ds\n.It Pa ~/.config/rocmforge/config\n"
                "lines of\n.Ql flag = value ,\nwith long flag names; a section\n.Ql [command]\n"
                "holds for that command only.\n.El\n.Sh EXIT STATUS\n.Bl -tag -width Ds\n");
    for (size_t i = 0; i < RF_COUNT(codes); i++)
        rf_buf_printf(&out, ".It %d\n%s\n", codes[i].code, codes[i].text);
    rf_buf_puts(&out, ".El\n");
    print_text(c, "man", &out);
    return RF_EXIT_OK;
}

/* ---- completions ---- */

static void flag_words(rf_buf *out, const rf_command *command) {
    for (int id = 0; id < RF_F_COUNT; id++)
        if (rf_command_takes(command, (rf_flag_id)id))
            rf_buf_printf(out, " --%s", rf_flag_get((rf_flag_id)id)->name);
}

/* First words of all commands, each once. */
static void command_words(rf_buf *out) {
    const char *last = "";
    for (size_t i = 0; i < rf_command_count; i++) {
        size_t n = strcspn(rf_commands[i].name, " ");
        if (strncmp(last, rf_commands[i].name, n) != 0 || strcspn(last, " ") != n)
            rf_buf_printf(out, "%s%.*s", i ? " " : "", (int)n, rf_commands[i].name);
        last = rf_commands[i].name;
    }
}

static void complete_bash(rf_buf *out) {
    rf_buf_puts(out, "_rocmforge() {\n    local cur=\"${COMP_WORDS[COMP_CWORD]}\"\n"
                     "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W \"");
    command_words(out);
    rf_buf_puts(out, "\" -- \"$cur\"))\n        return\n    fi\n    local words=\"\"\n"
                     "    case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n");
    for (size_t i = 0; i < rf_command_count; i++) {
        rf_buf_printf(out, "    \"%s\"*) words=\"", rf_commands[i].name);
        flag_words(out, &rf_commands[i]);
        rf_buf_puts(out, "\" ;;\n");
    }
    rf_buf_puts(
        out, "    \"gguf \"*) words=\"dump verify dequant\" ;;\n    esac\n"
             "    case \"$cur\" in\n    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
             "    *) COMPREPLY=($(compgen -f -W \"$words\" -- \"$cur\")) ;;\n    esac\n}\n"
             "complete -o filenames -F _rocmforge rocmforge\n");
}

/* A description between single quotes. */
static void quoted(rf_buf *out, const char *text) {
    rf_buf_putc(out, '\'');
    for (; *text; text++)
        if (*text != '\'' && *text != '[' && *text != ']' && *text != ':') rf_buf_putc(out, *text);
    rf_buf_putc(out, '\'');
}

static void complete_fish(rf_buf *out) {
    for (size_t i = 0; i < rf_command_count; i++) {
        const rf_command *command = &rf_commands[i];
        const char *space = strchr(command->name, ' ');
        int first = (int)strcspn(command->name, " ");
        if (space)
            rf_buf_printf(out,
                          "complete -c rocmforge -n '__fish_seen_subcommand_from %.*s' -a %s -d ",
                          first, command->name, space + 1);
        else
            rf_buf_printf(out, "complete -c rocmforge -n __fish_use_subcommand -a %s -d ",
                          command->name);
        quoted(out, command->summary);
        rf_buf_putc(out, '\n');
        for (int id = 0; id < RF_F_COUNT; id++) {
            const rf_flag *f = rf_flag_get((rf_flag_id)id);
            if (!rf_command_takes(command, (rf_flag_id)id)) continue;
            rf_buf_printf(out, "complete -c rocmforge -n '__fish_seen_subcommand_from %s' -l %s",
                          space ? space + 1 : command->name, f->name);
            if (f->short_name) rf_buf_printf(out, " -s %c", f->short_name);
            rf_buf_puts(out, f->kind == RF_FLAG_BOOL ? " -d " : " -r -d ");
            quoted(out, f->help);
            rf_buf_putc(out, '\n');
        }
    }
}

static void complete_zsh(rf_buf *out) {
    rf_buf_puts(out, "#compdef rocmforge\n_rocmforge() {\n    if (( CURRENT == 2 )); then\n"
                     "        compadd ");
    command_words(out);
    rf_buf_puts(out, "\n        return\n    fi\n    case \"${words[2]} ${words[3]}\" in\n");
    for (size_t i = 0; i < rf_command_count; i++) {
        rf_buf_printf(out, "    \"%s\"*) compadd --", rf_commands[i].name);
        flag_words(out, &rf_commands[i]);
        rf_buf_puts(out, "; _files ;;\n");
    }
    rf_buf_puts(out,
                "    \"gguf \"*) compadd dump verify dequant ;;\n    esac\n}\n_rocmforge \"$@\"\n");
}

int rf_cmd_completions(rf_cli *c) {
    const char *shell = rf_cli_arg(c, 0);
    rf_buf out = {0};
    if (strcmp(shell, "bash") == 0)
        complete_bash(&out);
    else if (strcmp(shell, "zsh") == 0)
        complete_zsh(&out);
    else if (strcmp(shell, "fish") == 0)
        complete_fish(&out);
    else
        return rf_cli_usage(c, "no completions for '%s': only bash, zsh and fish", shell);
    print_text(c, "completions", &out);
    return RF_EXIT_OK;
}
