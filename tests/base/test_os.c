/* test_os.c - files read, mapped and written, with every way they can refuse; the machine's facts. */
#include "lib/testlib.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"

static void write_file(const char *path, const void *p, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* A fresh directory below the test's own. */
static const char *make_dir(const char *name) {
    const char *dir = rf_test_tmp(name);
    assert_int_equal(mkdir(dir, 0755), 0);
    return dir;
}

static int count_entries(const char *dir) {
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    closedir(d);
    return n;
}

static void assert_content(const char *path, const char *expected) {
    size_t n;
    uint8_t *p = rf_test_read(path, &n);
    assert_int_equal(n, strlen(expected));
    assert_memory_equal(p, expected, n);
    rf_free(p);
}

/* The failure names the path and says why. */
static void assert_error(const rf_error *e, rf_status s, const char *path, const char *why) {
    assert_int_equal(e->status, s);
    if (!strstr(e->text, path) || !strstr(e->text, why)) {
        fail_msg("\"%s\" names not both \"%s\" and \"%s\"", e->text, path, why);
    }
}

/* Reading ---------------------------------------------------------------------------------- */

static void a_map_shows_the_file(void **state) {
    (void)state;
    const char *path = rf_test_tmp("mapped");
    write_file(path, "GGUF\0\1\2", 7);
    rf_filemap m;
    rf_error e = {0};
    assert_int_equal(rf_filemap_open(&m, path, &e), RF_OK);
    assert_int_equal(m.size, 7);
    assert_memory_equal(m.data, "GGUF\0\1\2", 7);
    rf_filemap_close(&m);
    assert_null(m.data);
    rf_filemap_close(&m);
    write_file(path, "", 0);
    assert_int_equal(rf_filemap_open(&m, path, &e), RF_OK);
    assert_null(m.data);
    assert_int_equal(m.size, 0);
    rf_filemap_close(&m);
}

/* How many pages of a map are in memory. */
static size_t count_resident(const uint8_t *p, size_t size) {
    static unsigned char seen[4096];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (size + page - 1) / page;
    union {
        const uint8_t *p;
        void *whole;
    } unconst = {p};
    size_t found = 0;
    assert_true(n <= sizeof seen);
    assert_int_equal(mincore(unconst.whole, size, seen), 0);
    for (size_t i = 0; i < n; i++)
        found += seen[i] & 1;
    return found;
}

/* The system reads them while we go on. */
static void must_come(const uint8_t *p, size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int ms = 0; count_resident(p, size) < (size + page - 1) / page; ms++) {
        const struct timespec t = {0, 1000000};
        if (ms == 20000) fail_msg("not read: %zu bytes", size);
        nanosleep(&t, NULL);
    }
}

/* What is wanted of a map is read, and nothing else. */
static void a_part_of_a_map_is_read(void **state) {
    (void)state;
    enum { SIZE = 10 << 20, FIRST = 3000000, LAST = 9 << 20, BLOCK = 2 << 20 };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), begin = FIRST / page * page;
    const char *path = rf_test_tmp("wanted");
    uint8_t *data = rf_alloc(SIZE, 1);
    assert_non_null(data);
    for (size_t i = 0; i < SIZE; i++) {
        data[i] = (uint8_t)(i % 251);
    }
    write_file(path, data, SIZE);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    assert_int_equal(close(fd), 0);
    rf_filemap m;
    rf_error e = {0};
    assert_int_equal(rf_filemap_open(&m, path, &e), RF_OK);
    bool was_dropped = count_resident(m.data, SIZE) == 0; /* not where memory is the disk */
    rf_want_near(m.data + 5, 0);
    rf_want_near(m.data + FIRST, LAST - FIRST);
    must_come(m.data + begin, LAST - begin);
    size_t n = count_resident(m.data, SIZE) - (LAST - begin) / page;
    if (was_dropped && page == 4096 && (uintptr_t)m.data % BLOCK == 0) assert_int_equal(n, 0);
    assert_memory_equal(m.data, data, SIZE);
    rf_filemap_close(&m);
    rf_free(data);
}

static void a_map_refuses_what_is_no_file(void **state) {
    (void)state;
    rf_filemap m;
    const char *absent = rf_test_tmp("no-such-file");
    rf_error e = {0};
    assert_int_equal(rf_filemap_open(&m, absent, &e), RF_EIO);
    assert_error(&e, RF_EIO, absent, strerror(ENOENT));
    assert_null(m.data);
    const char *dir = make_dir("a-directory");
    e = (rf_error){0};
    assert_int_equal(rf_filemap_open(&m, dir, &e), RF_EIO);
    assert_error(&e, RF_EIO, dir, "directory");
    const char *fifo = rf_test_tmp("a-pipe");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    e = (rf_error){0};
    assert_int_equal(rf_filemap_open(&m, fifo, &e), RF_EIO); /* and does not wait for a writer */
    assert_error(&e, RF_EIO, fifo, "not a regular file");
    e = (rf_error){0};
    assert_int_equal(rf_filemap_open(&m, "", &e), RF_EARG);
    assert_int_equal(rf_filemap_open(&m, NULL, NULL), RF_EARG);
    const char *path = rf_test_tmp("map-nomem");
    write_file(path, "x", 1);
    e = (rf_error){0};
    rf_alloc_fail_nth(1);
    assert_int_equal(rf_filemap_open(&m, path, &e), RF_ENOMEM);
    rf_alloc_fail_nth(0);
    assert_error(&e, RF_ENOMEM, path, strerror(ENOMEM));
}

static void a_file_is_read_whole_and_bounded(void **state) {
    (void)state;
    static char big[70000];
    for (size_t i = 0; i < sizeof big; i++) {
        big[i] = (char)(i * 31 % 251);
    }
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 8192, 8193, sizeof big};
    const char *path = rf_test_tmp("read");
    for (size_t i = 0; i < RF_COUNT(sizes); i++) {
        write_file(path, big, sizes[i]);
        static const size_t slack[] = {0, 1, 1 << 20};
        for (size_t k = 0; k < RF_COUNT(slack); k++) {
            uint8_t *p;
            size_t n;
            rf_error e = {0};
            assert_int_equal(rf_file_read(path, sizes[i] + slack[k], &p, &n, &e), RF_OK);
            assert_int_equal(n, sizes[i]);
            assert_memory_equal(p, big, n);
            rf_free(p);
        }
        if (sizes[i] == 0) continue;
        uint8_t *p;
        size_t n;
        rf_error e = {0};
        assert_int_equal(rf_file_read(path, sizes[i] - 1, &p, &n, &e), RF_EFORMAT);
        assert_error(&e, RF_EFORMAT, path, "longer than");
        assert_null(p);
        assert_int_equal(n, 0);
    }
}

static void reading_refuses_what_is_no_file(void **state) {
    (void)state;
    uint8_t *p;
    size_t n;
    rf_error e = {0};
    const char *absent = rf_test_tmp("not-here");
    assert_int_equal(rf_file_read(absent, 10, &p, &n, &e), RF_EIO);
    assert_error(&e, RF_EIO, absent, strerror(ENOENT));
    e = (rf_error){0};
    assert_int_equal(rf_file_read("/", 10, &p, &n, &e), RF_EIO);
    assert_error(&e, RF_EIO, "/", "directory");
    assert_int_equal(rf_file_read("", 10, &p, &n, NULL), RF_EARG);
    assert_int_equal(rf_file_read(NULL, 10, &p, &n, NULL), RF_EARG);
}

/* Feeds n bytes to rf_file_read("-") through a pipe. */
static rf_status read_stdin(size_t n, size_t max_bytes, uint8_t **p, size_t *got, rf_error *e) {
    int ends[2], saved = dup(STDIN_FILENO);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        close(ends[0]);
        for (size_t i = 0; i < n; i++) {
            char c = (char)(i % 127);
            if (write(ends[1], &c, 1) != 1) _exit(1);
        }
        _exit(0);
    }
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    rf_status s = rf_file_read("-", max_bytes, p, got, e);
    dup2(saved, STDIN_FILENO);
    close(saved);
    waitpid(pid, NULL, 0);
    return s;
}

static void standard_input_is_read_and_bounded(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 4096, 9000};
    for (size_t i = 0; i < RF_COUNT(sizes); i++) {
        uint8_t *p;
        size_t n;
        rf_error e = {0};
        assert_int_equal(read_stdin(sizes[i], 9000, &p, &n, &e), RF_OK);
        assert_int_equal(n, sizes[i]);
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(p[k], k % 127);
        }
        rf_free(p);
    }
    uint8_t *p;
    size_t n;
    rf_error e = {0};
    assert_int_equal(read_stdin(9001, 9000, &p, &n, &e), RF_EFORMAT);
    assert_error(&e, RF_EFORMAT, "standard input", "9000");
}

static void every_allocation_of_a_read_may_fail(void **state) {
    (void)state;
    for (long nth = 1; nth <= 2; nth++) {
        uint8_t *p;
        size_t n;
        rf_error e = {0};
        rf_alloc_fail_nth(nth);
        rf_status s = read_stdin(9000, 20000, &p, &n, &e);
        rf_alloc_fail_nth(0);
        assert_int_equal(s, RF_ENOMEM);
        assert_null(p);
    }
}

/* Writing ---------------------------------------------------------------------------------- */

static rf_outfile *must_open(const char *path) {
    rf_outfile *f;
    rf_error e = {0};
    if (rf_outfile_open(&f, path, &e) != RF_OK) fail_msg("%s", e.text);
    return f;
}

static void must_write(rf_outfile *f, const char *text) {
    rf_error e = {0};
    if (rf_outfile_write(f, text, strlen(text), &e) != RF_OK) fail_msg("%s", e.text);
}

static void a_commit_puts_the_whole_file_in_place(void **state) {
    (void)state;
    char dir[4096], path[4096 + 8];
    snprintf(dir, sizeof dir, "%s", make_dir("commit"));
    snprintf(path, sizeof path, "%s/out", dir);
    mode_t mask = umask(022);
    rf_outfile *f = must_open(path);
    must_write(f, "one ");
    must_write(f, "");
    must_write(f, "two");
    assert_int_equal(access(path, F_OK), -1); /* not before the commit */
    rf_error e = {0};
    assert_int_equal(rf_outfile_commit(f, &e), RF_OK);
    assert_content(path, "one two");
    assert_int_equal(count_entries(dir), 1);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);

    assert_int_equal(chmod(path, 0640), 0);
    f = must_open(path);
    must_write(f, "new");
    assert_content(path, "one two"); /* the old file stands until the last moment */
    assert_int_equal(rf_outfile_commit(f, &e), RF_OK);
    assert_content(path, "new");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(count_entries(dir), 1);
    umask(mask);
}

static void an_abort_leaves_nothing(void **state) {
    (void)state;
    char dir[4096], path[4096 + 8];
    snprintf(dir, sizeof dir, "%s", make_dir("abort"));
    snprintf(path, sizeof path, "%s/out", dir);
    rf_outfile *f = must_open(path);
    must_write(f, "half");
    rf_outfile_abort(f);
    assert_int_equal(count_entries(dir), 0);
    write_file(path, "old", 3);
    f = must_open(path);
    must_write(f, "half");
    rf_outfile_abort(f);
    assert_content(path, "old");
    assert_int_equal(count_entries(dir), 1);
    rf_outfile_abort(NULL);
}

static void a_relative_path_and_a_link_work(void **state) {
    (void)state;
    char dir[4096], before[4096];
    snprintf(dir, sizeof dir, "%s", make_dir("relative"));
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(dir), 0);
    rf_error e = {0};
    rf_outfile *f = must_open("plain");
    must_write(f, "here");
    assert_int_equal(rf_outfile_commit(f, &e), RF_OK);
    assert_content("plain", "here");
    assert_int_equal(symlink("plain", "link"), 0);
    f = must_open("link");
    must_write(f, "through");
    assert_int_equal(rf_outfile_commit(f, &e), RF_OK);
    assert_content("plain", "through");
    struct stat st;
    assert_int_equal(lstat("link", &st), 0);
    assert_true(S_ISLNK(st.st_mode)); /* the link was not replaced by a file */
    assert_int_equal(chdir(before), 0);
    assert_int_equal(count_entries(dir), 2);
}

static void a_full_disk_is_told_and_leaves_nothing(void **state) {
    (void)state;
    rf_outfile *f = must_open("/dev/full");
    rf_error e = {0};
    assert_int_equal(rf_outfile_write(f, "x", 1, &e), RF_EIO);
    assert_error(&e, RF_EIO, "/dev/full", strerror(ENOSPC));
    e = (rf_error){0};
    assert_int_equal(rf_outfile_write(f, "y", 1, &e), RF_EIO); /* no hole in the middle */
    e = (rf_error){0};
    assert_int_equal(rf_outfile_commit(f, &e), RF_EIO);
    assert_error(&e, RF_EIO, "/dev/full", "earlier write");
    assert_int_equal(access("/dev/full", F_OK), 0);
}

/* A file-size limit stands for a disk that fills up in the middle of a regular file. */
static void a_disk_that_fills_up_leaves_the_old_file(void **state) {
    (void)state;
    char dir[4096], path[4096 + 8];
    snprintf(dir, sizeof dir, "%s", make_dir("fills-up"));
    snprintf(path, sizeof path, "%s/out", dir);
    write_file(path, "old", 3);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = {1000, 1000};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
        rf_outfile *f;
        rf_error e = {0};
        char block[600] = {0};
        if (rf_outfile_open(&f, path, &e) != RF_OK) _exit(2);
        if (rf_outfile_write(f, block, sizeof block, &e) != RF_OK) _exit(3);
        if (rf_outfile_write(f, block, sizeof block, &e) != RF_EIO) _exit(4);
        if (!strstr(e.text, path) || !strstr(e.text, strerror(EFBIG))) _exit(5);
        if (rf_outfile_commit(f, &e) != RF_EIO) _exit(6);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_content(path, "old");
    assert_int_equal(count_entries(dir), 1);
}

static void refusals_name_the_path(void **state) {
    (void)state;
    rf_outfile *f;
    rf_error e = {0};
    const char *dir = make_dir("refuse");
    assert_int_equal(rf_outfile_open(&f, dir, &e), RF_EIO);
    assert_error(&e, RF_EIO, dir, "directory");
    assert_null(f);
    e = (rf_error){0};
    const char *nowhere = rf_test_tmp("no/such/dir");
    assert_int_equal(rf_outfile_open(&f, nowhere, &e), RF_EIO);
    assert_error(&e, RF_EIO, nowhere, strerror(ENOENT));
    const char *file = rf_test_tmp("refuse-file");
    write_file(file, "x", 1);
    char below[4096];
    snprintf(below, sizeof below, "%.4000s/out", file);
    e = (rf_error){0};
    assert_int_equal(rf_outfile_open(&f, below, &e), RF_EIO);
    assert_error(&e, RF_EIO, below, strerror(ENOTDIR));
    assert_int_equal(rf_outfile_open(&f, "", NULL), RF_EARG);
    assert_int_equal(rf_outfile_open(&f, NULL, NULL), RF_EARG);
}

/* In a child without root's rights: root may write anywhere. */
static void missing_rights_are_told(void **state) {
    (void)state;
    char dir[4096], inside[4096 + 8], guarded[4096];
    snprintf(dir, sizeof dir, "%s", make_dir("locked"));
    snprintf(inside, sizeof inside, "%s/out", dir);
    snprintf(guarded, sizeof guarded, "%s", rf_test_tmp("read-only"));
    write_file(guarded, "mine", 4);
    assert_int_equal(chmod(rf_test_tmp("."), 0777), 0);
    assert_int_equal(chmod(dir, 0555), 0);
    assert_int_equal(chmod(guarded, 0444), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && setuid(65534) != 0) _exit(1);
        rf_outfile *f;
        rf_error e = {0};
        if (rf_outfile_open(&f, inside, &e) != RF_EIO) _exit(2);
        if (!strstr(e.text, inside) || !strstr(e.text, strerror(EACCES))) _exit(3);
        e = (rf_error){0};
        if (rf_outfile_open(&f, guarded, &e) != RF_EIO) _exit(4); /* rename would get around it */
        if (!strstr(e.text, guarded) || !strstr(e.text, strerror(EACCES))) _exit(5);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(count_entries(dir), 0);
    assert_content(guarded, "mine");
    assert_int_equal(chmod(dir, 0755), 0);
}

/* What a child writes to each name of standard output must come out of the pipe. */
static void pipes_are_written_straight_through(void **state) {
    (void)state;
    static const char *const names[] = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};
    for (size_t i = 0; i < RF_COUNT(names); i++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t pid = fork();
        if (pid == 0) {
            dup2(ends[1], STDOUT_FILENO);
            rf_outfile *f;
            if (rf_outfile_open(&f, names[i], NULL) != RF_OK) _exit(1);
            if (rf_outfile_write(f, "through", 7, NULL) != RF_OK) _exit(2);
            _exit(rf_outfile_commit(f, NULL) == RF_OK ? 0 : 3);
        }
        close(ends[1]);
        char got[16] = {0};
        size_t n = 0;
        for (ssize_t r; (r = read(ends[0], got + n, sizeof got - n)) > 0;) {
            n += (size_t)r;
        }
        close(ends[0]);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_string_equal(got, "through");
    }
    rf_outfile *f;
    rf_error e = {0};
    assert_int_equal(rf_outfile_open(&f, "/dev/fd/987", &e), RF_EIO);
    assert_error(&e, RF_EIO, "/dev/fd/987", strerror(EBADF));
    /* standard output redirected to a regular file keeps what was there before */
    const char *path = rf_test_tmp("redirected");
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        dup2(fd, STDOUT_FILENO);
        if (write(STDOUT_FILENO, "head ", 5) != 5) _exit(1);
        if (rf_outfile_open(&f, "/dev/stdout", NULL) != RF_OK) _exit(2);
        if (rf_outfile_write(f, "tail", 4, NULL) != RF_OK) _exit(3);
        _exit(rf_outfile_commit(f, NULL) == RF_OK ? 0 : 4);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_content(path, "head tail");
}

static void a_broken_pipe_is_an_error(void **state) {
    (void)state;
    int ends[2];
    char name[32];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[1]);
    rf_outfile *f = must_open(name);
    rf_error e = {0};
    assert_int_equal(rf_outfile_write(f, "x", 1, &e), RF_EIO);
    assert_error(&e, RF_EIO, name, strerror(EPIPE));
    rf_outfile_abort(f);
    close(ends[1]);
    signal(SIGPIPE, before);
}

static void a_rename_that_fails_leaves_nothing(void **state) {
    (void)state;
    char dir[4096], path[4096 + 8];
    snprintf(dir, sizeof dir, "%s", make_dir("rename"));
    snprintf(path, sizeof path, "%s/out", dir);
    rf_outfile *f = must_open(path);
    must_write(f, "late");
    assert_int_equal(mkdir(path, 0755), 0); /* somebody took the name meanwhile */
    rf_error e = {0};
    assert_int_equal(rf_outfile_commit(f, &e), RF_EIO);
    assert_error(&e, RF_EIO, path, strerror(EISDIR));
    assert_int_equal(count_entries(dir), 1);
    assert_int_equal(count_entries(path), 0);
}

static void every_allocation_of_an_outfile_may_fail(void **state) {
    (void)state;
    char dir[4096], path[4096 + 8];
    snprintf(dir, sizeof dir, "%s", make_dir("walk"));
    snprintf(path, sizeof path, "%s/out", dir);
    write_file(path, "old", 3);
    long nth = 1;
    for (;; nth++) {
        rf_outfile *f;
        rf_error e = {0};
        rf_alloc_fail_nth(nth);
        rf_status s = rf_outfile_open(&f, path, &e);
        rf_alloc_fail_nth(0);
        if (s == RF_OK) {
            rf_outfile_abort(f);
            break;
        }
        assert_int_equal(s, RF_ENOMEM);
        assert_null(f);
        assert_int_equal(count_entries(dir), 1);
    }
    assert_int_equal(nth, 5); /* the object, two copies of the path, the temporary name */
}

/* The machine ------------------------------------------------------------------------------ */

static void the_machine_answers_plausibly(void **state) {
    (void)state;
    uint64_t t0 = rf_time_us(), t1 = rf_time_us();
    assert_true(t1 >= t0 && t0 > 0);
    assert_true(rf_random_u64() != rf_random_u64());
    assert_true(rf_mem_total() >= (uint64_t)64 << 20);
    assert_true(rf_mem_available() <= rf_mem_total());
    uint64_t before = rf_mem_peak_rss();
    size_t bytes = (size_t)48 << 20;
    volatile uint8_t *p = rf_alloc(bytes, 1);
    assert_true(p != NULL);
    for (size_t i = 0; i < bytes; i += 4096) {
        p[i] = 1;
    }
    assert_true(rf_mem_peak_rss() >= before && rf_mem_peak_rss() >= bytes);
    rf_free((void *)(uintptr_t)p);
    char dir[4096], exe[4096 + 32];
    rf_exe_dir(dir, sizeof dir);
    assert_true(dir[0] == '/' && dir[strlen(dir) - 1] != '/');
    struct stat st;
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    assert_true(n > 0);
    exe[n] = '\0';
    assert_true(strncmp(exe, dir, strlen(dir)) == 0 && !strchr(exe + strlen(dir) + 1, '/'));
    assert_int_equal(stat(exe, &st), 0);
    char tiny[4] = "xyz";
    rf_exe_dir(tiny, sizeof tiny);
    assert_string_equal(tiny, ""); /* too small: unknown rather than cut */
}

static void the_processor_count_follows_the_affinity(void **state) {
    (void)state;
    assert_in_range(rf_cpu_count(), 1, sysconf(_SC_NPROCESSORS_CONF));
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &all)) continue;
        CPU_SET(i, &one);
        break;
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(rf_cpu_count(), 1);
    assert_int_equal(rf_core_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void the_instruction_set_can_be_lowered(void **state) {
    (void)state;
    assert_string_equal(rf_isa_name(RF_ISA_SCALAR), "scalar");
#if defined(__aarch64__)
    assert_string_equal(rf_isa_name(RF_ISA_NEON), "neon");
    assert_string_equal(rf_isa_name(RF_ISA_I8MM), "i8mm");
#else
    assert_string_equal(rf_isa_name(RF_ISA_AVX2), "avx2");
    assert_string_equal(rf_isa_name(RF_ISA_AVXVNNI), "avxvnni");
    assert_string_equal(rf_isa_name(RF_ISA_AVX512), "avx512");
    assert_string_equal(rf_isa_name(RF_ISA_AMX), "amx");
#endif
    assert_string_equal(rf_isa_name(RF_ISA_COUNT), "unknown");
    const char *saved = getenv("RF_CPU");
    char *kept = saved ? strdup(saved) : NULL;
    rf_isa best = rf_isa_best(), isa;
    rf_error e = {0};
    unsetenv("RF_CPU");
    assert_int_equal(rf_isa_choose(&isa, &e), RF_OK);
    assert_int_equal(isa, best);
    setenv("RF_CPU", "", 1);
    assert_int_equal(rf_isa_choose(&isa, &e), RF_OK);
    assert_int_equal(isa, best);
    for (int i = 0; i < RF_ISA_COUNT; i++) {
        setenv("RF_CPU", rf_isa_name((rf_isa)i), 1);
        e = (rf_error){0};
        rf_status s = rf_isa_choose(&isa, &e);
        assert_int_equal(s, i <= (int)best ? RF_OK : RF_EUNSUPPORTED);
        if (s == RF_OK) {
            assert_int_equal(isa, i);
        } else {
            assert_non_null(strstr(e.text, rf_isa_name((rf_isa)i)));
        }
    }
    setenv("RF_CPU", "AVX2", 1);
    e = (rf_error){0};
    assert_int_equal(rf_isa_choose(&isa, &e), RF_EARG);
    assert_error(&e, RF_EARG, "RF_CPU=AVX2", "expected scalar, ");
    assert_non_null(strstr(e.text, rf_isa_name((rf_isa)(RF_ISA_COUNT - 1)))); /* all are named */
    if (kept) {
        setenv("RF_CPU", kept, 1);
    } else {
        unsetenv("RF_CPU");
    }
    free(kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_shows_the_file),
        cmocka_unit_test(a_part_of_a_map_is_read),
        cmocka_unit_test(a_map_refuses_what_is_no_file),
        cmocka_unit_test(a_file_is_read_whole_and_bounded),
        cmocka_unit_test(reading_refuses_what_is_no_file),
        cmocka_unit_test(standard_input_is_read_and_bounded),
        cmocka_unit_test(every_allocation_of_a_read_may_fail),
        cmocka_unit_test(a_commit_puts_the_whole_file_in_place),
        cmocka_unit_test(an_abort_leaves_nothing),
        cmocka_unit_test(a_relative_path_and_a_link_work),
        cmocka_unit_test(a_full_disk_is_told_and_leaves_nothing),
        cmocka_unit_test(a_disk_that_fills_up_leaves_the_old_file),
        cmocka_unit_test(refusals_name_the_path),
        cmocka_unit_test(missing_rights_are_told),
        cmocka_unit_test(pipes_are_written_straight_through),
        cmocka_unit_test(a_broken_pipe_is_an_error),
        cmocka_unit_test(a_rename_that_fails_leaves_nothing),
        cmocka_unit_test(every_allocation_of_an_outfile_may_fail),
        cmocka_unit_test(the_machine_answers_plausibly),
        cmocka_unit_test(the_processor_count_follows_the_affinity),
        cmocka_unit_test(the_instruction_set_can_be_lowered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
