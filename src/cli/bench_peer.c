/* bench_peer.c - one test by another engine's benchmark program: llama-bench's arguments, and its
 * answer to "-o json", an array of objects with n_prompt, n_gen and avg_ts. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/bench.h"

enum { MAX_ANSWER = 4 << 20 };

extern char **environ;

static rf_status read_all(int fd, const char *program, rf_buf *out, rf_error *e) {
    char part[4096];
    for (;;) {
        ssize_t n = read(fd, part, sizeof part);
        if (n == 0) break;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return rf_fail(e, RF_EIO, "%s: cannot read its output: %s", program, strerror(errno));
        rf_buf_put(out, part, (size_t)n);
        if (out->len > MAX_ANSWER)
            return rf_fail(e, RF_EFORMAT, "%s: more than %d bytes of output", program, MAX_ANSWER);
    }
    return out->failed ? rf_fail_nomem(e, MAX_ANSWER) : RF_OK;
}

/* Starts the program with its standard output at *fd. */
static rf_status start(const char *const argv[], pid_t *pid, int *fd, rf_error *e) {
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0) return rf_fail(e, RF_EIO, "cannot make a pipe: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    char *args[32];
    size_t n = 0;
    for (; argv[n]; n++)
        memcpy(&args[n], &argv[n], sizeof args[n]); /* posix_spawn changes none of them */
    args[n] = NULL;
    int error = posix_spawnp(pid, argv[0], &actions, NULL, args, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    *fd = ends[0];
    if (error == 0) return RF_OK;
    close(ends[0]);
    return rf_fail(e, RF_EIO, "cannot start %s: %s", argv[0], strerror(error));
}

static rf_status find_rate(const rf_json *root, const rf_bench_test *t, const char *program,
                           double *rate, rf_error *e) {
    const int64_t p = t->is_prompt ? t->n : 0, n = t->is_prompt ? 0 : t->n;
    for (size_t i = 0; i < rf_json_len(root); i++) {
        const rf_json *r = rf_json_at(root, i);
        if (rf_json_int(rf_json_get(r, "n_prompt")) != p ||
            rf_json_int(rf_json_get(r, "n_gen")) != n)
            continue;
        *rate = rf_json_real(rf_json_get(r, "avg_ts"));
        if (*rate > 0) return RF_OK;
    }
    return rf_fail(e, RF_EFORMAT,
                   "%s: its output has no result with n_prompt %lld, n_gen %lld and avg_ts; is it "
                   "llama-bench?",
                   program, (long long)p, (long long)n);
}

static rf_status parse(const rf_buf *text, const rf_bench_test *t, const char *program,
                       double *rate, rf_error *e) {
    rf_json *root;
    rf_error why = {0};
    if (rf_json_parse(&root, rf_buf_str(text), &why) != RF_OK)
        return rf_fail(e, RF_EFORMAT, "%s: its output is no JSON: %s", program, why.text);
    rf_status s = find_rate(root, t, program, rate, e);
    rf_json_free(root);
    return s;
}

rf_status rf_bench_run_peer(const rf_bench *b, const rf_bench_test *t, double *rate, rf_error *e) {
    char p[16], n[16], d[16], threads[16];
    snprintf(p, sizeof p, "%u", t->is_prompt ? t->n : 0);
    snprintf(n, sizeof n, "%u", t->is_prompt ? 0 : t->n);
    snprintf(d, sizeof d, "%u", t->depth);
    snprintf(threads, sizeof threads, "%d", t->threads);
    const char *argv[16] = {b->peer, "-m",    b->path, "-p", p,    "-n",  n,
                            "-t",    threads, "-r",    "1",  "-o", "json"};
    if (t->depth > 0) { /* ik_llama.cpp's llama-bench does not know it */
        argv[13] = "-d";
        argv[14] = d;
    }
    pid_t pid;
    int fd = -1, status = 0;
    rf_buf text = {0};
    RF_TRY(start(argv, &pid, &fd, e));
    rf_status s = read_all(fd, b->peer, &text, e);
    close(fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (s == RF_OK && rf_cli_interrupted()) s = rf_fail(e, RF_ECANCELLED, "interrupted");
    if (s == RF_OK && status != 0)
        s = rf_fail(e, RF_EIO, "%s ended with %s %d", b->peer,
                    WIFSIGNALED(status) ? "signal" : "code",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (s == RF_OK) s = parse(&text, t, b->peer, rate, e);
    rf_buf_free(&text);
    return s;
}
