/* os.c - files: mapped, read whole, and written so that a failure leaves no half.
 *
 * The machine's side of os.h (clock, processors, memory) is in os_machine.c.  Written for POSIX;
 * each system call that a signal may interrupt is repeated. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static rf_status fail_errno(rf_error *e, const char *what, const char *path, int error) {
    return rf_fail(e, error == ENOMEM ? RF_ENOMEM : RF_EIO, "%s: cannot %s: %s", path, what,
                   strerror(error)); /* thread-safe in glibc and musl */
}

static int open_again(const char *path, int flags, mode_t mode) {
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* Opens a file for reading; a directory is refused here, where its name is known. */
static rf_status open_input(int *out, struct stat *st, const char *path, int flags, rf_error *e) {
    if (!path || !*path) return rf_fail(e, RF_EARG, "no file name given");
    int fd = open_again(path, O_RDONLY | flags, 0);
    if (fd < 0) return fail_errno(e, "open", path, errno);
    if (fstat(fd, st) != 0) {
        int error = errno;
        close(fd);
        return fail_errno(e, "examine", path, error);
    }
    if (S_ISDIR(st->st_mode)) {
        close(fd);
        return rf_fail(e, RF_EIO, "%s: is a directory, expected a file", path);
    }
    *out = fd;
    return RF_OK;
}

rf_status rf_filemap_open(rf_filemap *out, const char *path, rf_error *e) {
    *out = (rf_filemap){0};
    int fd;
    struct stat st;
    /* O_NONBLOCK: a pipe without a writer must be refused, not waited for */
    RF_TRY(open_input(&fd, &st, path, O_NONBLOCK, e));
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return rf_fail(e, RF_EIO,
                       "%s: is not a regular file and cannot be mapped; copy it into one", path);
    }
    if (st.st_size == 0) {
        close(fd);
        return RF_OK;
    }
    if ((uint64_t)st.st_size > SIZE_MAX / 2) {
        close(fd);
        return rf_fail(e, RF_EIO, "%s: %lld bytes do not fit the address space", path,
                       (long long)st.st_size);
    }
    size_t size = (size_t)st.st_size;
    int error = ENOMEM;
    void *p = MAP_FAILED;
    if (!rf_alloc_should_fail()) {
        p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        error = errno;
    }
    close(fd);
    if (p == MAP_FAILED) return fail_errno(e, "map", path, error);
    rf_want_huge_pages(p, size);
    *out = (rf_filemap){p, size};
    return RF_OK;
}

void rf_filemap_close(rf_filemap *m) {
    if (m->data) {
        union {
            const uint8_t *data;
            void *p;
        } unconst = {m->data};
        munmap(unconst.p, m->size);
    }
    *m = (rf_filemap){0};
}

/* One read of at most n bytes: how many came, 0 at the end, -1 with errno. */
static ssize_t read_again(int fd, void *p, size_t n) {
    ssize_t got;
    do {
        got = read(fd, p, n);
    } while (got < 0 && errno == EINTR);
    return got;
}

/* Reads fd to its end.  Room grows with what has come, so that neither a lying size nor an endless
 * pipe takes more than twice the bytes that were really there. */
static rf_status read_all(int fd, const char *name, size_t hint, size_t max_bytes, uint8_t **out,
                          size_t *out_len, rf_error *e) {
    size_t cap = hint < max_bytes ? hint + 1 : max_bytes; /* one more, to see the end at once */
    if (cap == 0) cap = 1;
    uint8_t *p = rf_alloc(cap, 1);
    if (!p) return rf_fail_nomem(e, cap);
    size_t len = 0;
    for (;;) {
        uint8_t probe; /* when full: is there one more? */
        bool full = len == max_bytes;
        ssize_t got = full ? read_again(fd, &probe, 1) : read_again(fd, p + len, cap - len);
        if (got < 0) {
            int error = errno;
            rf_free(p);
            return fail_errno(e, "read", name, error);
        }
        if (got == 0) break;
        if (full) {
            rf_free(p);
            return rf_fail(e, RF_EFORMAT, "%s: longer than the %zu bytes allowed here", name,
                           max_bytes);
        }
        len += (size_t)got;
        if (len == cap && len < max_bytes) {
            size_t more = cap > max_bytes / 2 ? max_bytes : cap * 2;
            uint8_t *q = rf_realloc(p, cap, more, 1);
            if (!q) {
                rf_free(p);
                return rf_fail_nomem(e, more);
            }
            p = q;
            cap = more;
        }
    }
    *out = p;
    *out_len = len;
    return RF_OK;
}

rf_status rf_file_read(const char *path, size_t max_bytes, uint8_t **out, size_t *out_len,
                       rf_error *e) {
    *out = NULL;
    *out_len = 0;
    const size_t first = 4096;
    if (path && strcmp(path, "-") == 0) {
        return read_all(STDIN_FILENO, "standard input", first, max_bytes, out, out_len, e);
    }
    int fd;
    struct stat st;
    RF_TRY(open_input(&fd, &st, path, 0, e));
    size_t hint = first;
    if (S_ISREG(st.st_mode) && st.st_size > 0) {
        if ((uint64_t)st.st_size > max_bytes) {
            close(fd);
            return rf_fail(e, RF_EFORMAT, "%s: %lld bytes, longer than the %zu allowed here", path,
                           (long long)st.st_size, max_bytes);
        }
        hint = (size_t)st.st_size;
    }
    rf_status s = read_all(fd, path, hint, max_bytes, out, out_len, e);
    close(fd);
    return s;
}

/* Output ----------------------------------------------------------------------------------- */

struct rf_outfile {
    int fd;
    bool direct;   /* a pipe, a device or a descriptor of ours: nothing to rename */
    bool failed;   /* a write did not reach the file; commit will refuse */
    bool nameless; /* the file has no name yet, so nothing is left of it whatever kills us */
    char *path;    /* the final name */
    char *tmp;     /* the file being written; NULL when direct */
};

static void outfile_free(rf_outfile *f) {
    if (f->fd >= 0) close(f->fd);
    rf_free(f->path);
    rf_free(f->tmp);
    rf_free(f);
}

static char *copy_string(const char *s, size_t len, size_t extra) {
    char *p = rf_alloc(len + extra + 1, 1);
    if (p) memcpy(p, s, len);
    return p;
}

/* The descriptor of this process that path names, or -1. */
static int named_descriptor(const char *path) {
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
    static const char *const dirs[] = {"/dev/fd/", "/proc/self/fd/"};
    for (size_t i = 0; i < RF_COUNT(dirs); i++) {
        size_t n = strlen(dirs[i]);
        if (strncmp(path, dirs[i], n) != 0) continue;
        char *end;
        long fd = strtol(path + n, &end, 10);
        if (path[n] >= '0' && path[n] <= '9' && *end == '\0' && fd < INT32_MAX) return (int)fd;
    }
    return -1;
}

/* Creates the temporary file in the directory of f->path; on failure nothing is left. */
static rf_status create_beside(rf_outfile *f, const struct stat *old, rf_error *e) {
    const char *slash = strrchr(f->path, '/');
    size_t dir_len = slash ? (size_t)(slash - f->path) + 1 : 0;
    enum { NAME_BYTES = 32 };
    f->tmp = copy_string(f->path, dir_len, NAME_BYTES);
    if (!f->tmp) return rf_fail_nomem(e, dir_len + NAME_BYTES);
    f->fd = access("/proc/self/fd", X_OK) == 0
                ? open_again(dir_len ? f->tmp : ".", O_WRONLY | O_TMPFILE, 0666)
                : -1;
    f->nameless = f->fd >= 0; /* else a file system that has no such files: one with a name */
    for (int attempt = 0; attempt < 16; attempt++) {
        snprintf(f->tmp + dir_len, NAME_BYTES, ".rf-%016llx.tmp",
                 (unsigned long long)rf_random_u64());
        if (f->nameless) break;
        f->fd = open_again(f->tmp, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (f->fd >= 0 || errno != EEXIST) break;
    }
    if (f->fd < 0) {
        int error = errno;
        rf_free(f->tmp);
        f->tmp = NULL;
        return fail_errno(e, "create", f->path, error);
    }
    if (old && fchmod(f->fd, old->st_mode & 0777) != 0) {
        int error = errno;
        if (!f->nameless) unlink(f->tmp);
        return fail_errno(e, "keep the permissions of", f->path, error);
    }
    return RF_OK;
}

/* Where a link points to, so that the link stays and its target is replaced. */
static rf_status follow_link(rf_outfile *f, rf_error *e) {
    char *real = realpath(f->path, NULL);
    if (!real) return fail_errno(e, "resolve", f->path, errno);
    size_t len = strlen(real);
    char *copy = copy_string(real, len, 0);
    free(real);
    if (!copy) return rf_fail_nomem(e, len + 1);
    rf_free(f->path);
    f->path = copy;
    return RF_OK;
}

static rf_status outfile_start(rf_outfile *f, rf_error *e) {
    int own = named_descriptor(f->path);
    if (own >= 0) {
        f->direct = true;
        f->fd = fcntl(own, F_DUPFD_CLOEXEC, 0);
        return f->fd >= 0 ? RF_OK : fail_errno(e, "write to", f->path, errno);
    }
    struct stat st;
    if (stat(f->path, &st) != 0) {
        if (errno != ENOENT) return fail_errno(e, "create", f->path, errno);
        return create_beside(f, NULL, e);
    }
    if (S_ISDIR(st.st_mode)) {
        return rf_fail(e, RF_EIO, "%s: is a directory, expected a file name to write", f->path);
    }
    if (!S_ISREG(st.st_mode)) {
        f->direct = true;
        f->fd = open_again(f->path, O_WRONLY, 0);
        return f->fd >= 0 ? RF_OK : fail_errno(e, "open", f->path, errno);
    }
    /* rename would replace even a file that its owner has made read-only */
    if (access(f->path, W_OK) != 0) return fail_errno(e, "overwrite", f->path, errno);
    RF_TRY(follow_link(f, e));
    return create_beside(f, &st, e);
}

rf_status rf_outfile_open(rf_outfile **out, const char *path, rf_error *e) {
    *out = NULL;
    if (!path || !*path) return rf_fail(e, RF_EARG, "no output file name given");
    rf_outfile *f = rf_alloc(1, sizeof *f);
    if (!f) return rf_fail_nomem(e, sizeof *f);
    f->fd = -1;
    size_t len = strlen(path);
    f->path = copy_string(path, len, 0);
    rf_status s = f->path ? outfile_start(f, e) : rf_fail_nomem(e, len + 1);
    if (s != RF_OK) {
        outfile_free(f);
        return s;
    }
    *out = f;
    return RF_OK;
}

rf_status rf_outfile_write(rf_outfile *f, const void *p, size_t n, rf_error *e) {
    const char *from = p;
    if (f->failed) return rf_fail(e, RF_EIO, "%s: an earlier write failed", f->path);
    while (n > 0) {
        ssize_t done = write(f->fd, from, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) {
            f->failed = true;
            return fail_errno(e, "write", f->path, errno);
        }
        from += done;
        n -= (size_t)done;
    }
    return RF_OK;
}

/* Makes the rename itself durable.  A directory that cannot be synced is no failure: the data is
 * already safe and under its final name. */
static void sync_directory(const char *path) {
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) + 1 : 0;
    char *dir = copy_string(path, len, 0);
    if (!dir) return;
    int fd = open_again(len ? dir : ".", O_RDONLY | O_DIRECTORY, 0);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    rf_free(dir);
}

rf_status rf_outfile_commit(rf_outfile *f, rf_error *e) {
    rf_status s = RF_OK;
    if (f->failed) s = rf_fail(e, RF_EIO, "%s: an earlier write failed", f->path);
    if (s == RF_OK && !f->direct) {
        int rc;
        do {
            rc = fsync(f->fd);
        } while (rc != 0 && errno == EINTR);
        if (rc != 0) s = fail_errno(e, "write", f->path, errno);
    }
    if (s == RF_OK && f->nameless) {
        char self[40];
        snprintf(self, sizeof self, "/proc/self/fd/%d", f->fd);
        if (linkat(AT_FDCWD, self, AT_FDCWD, f->tmp, AT_SYMLINK_FOLLOW) != 0)
            s = fail_errno(e, "name", f->path, errno);
        else
            f->nameless = false;
    }
    int fd = f->fd;
    f->fd = -1;
    if (close(fd) != 0 && errno != EINTR && s == RF_OK) s = fail_errno(e, "close", f->path, errno);
    if (!f->direct) {
        if (s == RF_OK && rename(f->tmp, f->path) != 0) s = fail_errno(e, "name", f->path, errno);
        if (s == RF_OK)
            sync_directory(f->path);
        else if (!f->nameless)
            unlink(f->tmp);
    }
    outfile_free(f);
    return s;
}

void rf_outfile_abort(rf_outfile *f) {
    if (!f) return;
    if (f->tmp && !f->nameless) unlink(f->tmp);
    outfile_free(f);
}

rf_status rf_file_write(const char *path, const void *p, size_t n, rf_error *e) {
    rf_outfile *f = NULL;
    RF_TRY(rf_outfile_open(&f, path, e));
    rf_status s = rf_outfile_write(f, p, n, e);
    if (s == RF_OK) return rf_outfile_commit(f, e);
    rf_outfile_abort(f);
    return s;
}
