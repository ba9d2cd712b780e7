/* os_huge.c - huge pages: wishes for them and for what is to be read soon, and what files are mapped to moved into them where
 * it lies.
 *
 * Most systems keep a file in small pages, whatever was asked for, and give huge ones to a program's own
 * memory.  So the bytes are copied there, and the copy is put in the file's place at once (mremap): whoever
 * reads there meanwhile finds the same bytes before and after.  For Linux; elsewhere nothing moves. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os.h"

enum {
    HUGE_PAGE = 2 << 20, /* of a system whose pages are 4096 bytes */
    PIECE = 8 * HUGE_PAGE,
    WANTED_BYTES = 128 << 10, /* at once: of a longer wish a system may drop the rest */
};

void rf_want_huge_pages(const void *p, size_t size) {
#if defined(MADV_HUGEPAGE)
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)p + page - 1) / page * page, end = (uintptr_t)p + size;
    if (first < end) /* a wish, which systems without huge pages refuse */
        (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)p, (void)size;
#endif
}

static void want(uintptr_t begin, uintptr_t end) {
    for (uintptr_t next; begin < end; begin = next) {
        next = end - begin < WANTED_BYTES ? end : begin + WANTED_BYTES;
        (void)madvise((void *)begin, next - begin, MADV_WILLNEED);
    }
}

/* Huge pages come only where a thread stumbles over their absence, and by twos unless it reads at random. */
void rf_want_near(const void *p, size_t size) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = (uintptr_t)p / page * page, end = size ? (uintptr_t)p + size : begin;
    uintptr_t first = ((uintptr_t)p + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uintptr_t last = end / HUGE_PAGE * HUGE_PAGE;
    if (page != 4096 || first >= last) first = last = end; /* no whole one */
    want(begin, first);
    want(last, end);
    if (first == last) return;
    (void)madvise((void *)first, last - first, MADV_RANDOM);
    for (uintptr_t at = first; at < last; at += HUGE_PAGE) {
        (void)*(const volatile uint8_t *)at;
        want(at, at + HUGE_PAGE); /* where there are no huge pages */
    }
    (void)madvise((void *)first, last - first, MADV_NORMAL);
}

#if defined(__linux__) && defined(MADV_HUGEPAGE)

bool rf_has_huge_pages(void) {
    if (sysconf(_SC_PAGESIZE) != 4096) return false; /* their size is another */
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (!f) return false;
    char line[64];
    bool has = fgets(line, sizeof line, f) && !strstr(line, "[never]");
    fclose(f);
    return has;
}

/* Memory that is mapped read-only from a file. */
typedef struct part {
    uintptr_t begin, end;
    bool is_file;
    size_t huge; /* bytes of it that the page tables hold as huge pages */
} part;

/* A line of /proc/self/smaps without what is beyond the buffer. */
static bool next_line(FILE *f, char *line, int cap) {
    if (!fgets(line, cap, f)) return false;
    if (!strchr(line, '\n'))
        for (int c = 0; c != EOF && c != '\n';)
            c = fgetc(f);
    return true;
}

static bool is_head(const char *line, part *out) {
    unsigned long begin, end, inode;
    char access[8];
    if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &begin, &end, access, &inode) != 4) return false;
    *out = (part){.begin = begin, .end = end, .is_file = inode && strcmp(access, "r--p") == 0};
    return true;
}

/* The first part of a file that begins before `end` and ends behind `begin`. */
static bool find_part(uintptr_t begin, uintptr_t end, part *out) {
    FILE *f = fopen("/proc/self/smaps", "re");
    if (!f) return false;
    bool inside = false;
    part next = {0};
    for (char line[256]; next_line(f, line, sizeof line);) {
        unsigned long kib;
        if (is_head(line, &next)) {
            if (inside) break;
            *out = next;
            inside = next.is_file && next.begin < end && next.end > begin;
        } else if (inside && (sscanf(line, "FilePmdMapped: %lu kB", &kib) == 1 ||
                              sscanf(line, "ShmemPmdMapped: %lu kB", &kib) == 1)) {
            out->huge += kib * 1024;
        }
    }
    fclose(f);
    return inside;
}

/* n bytes of memory that begin with a huge page; NULL: there are none. */
static uint8_t *take(size_t n) {
    if (rf_alloc_should_fail()) return NULL;
    uint8_t *all =
        mmap(NULL, n + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)all % HUGE_PAGE) % HUGE_PAGE;
    if (before) munmap(all, before);
    munmap(all + before + n, HUGE_PAGE - before);
    return all + before;
}

static bool move_piece(uint8_t *at, size_t n) {
    uint8_t *copy = take(n);
    if (!copy) return false;
    (void)madvise(copy, n, MADV_HUGEPAGE);
    (void)madvise(copy, n, MADV_DONTDUMP); /* as it was in the file's pages */
    memcpy(copy, at, n);
    if (mprotect(copy, n, PROT_READ) == 0 &&
        mremap(copy, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at)
        return true;
    /* Too many maps: that is seen before the file's goes.  Behind that only a kernel without a few bytes
     * of memory fails, and there would be a hole. */
    RF_ASSERT(msync(at, n, MS_ASYNC) == 0);
    munmap(copy, n);
    return false;
}

static size_t move_part(uintptr_t begin, uintptr_t end, rf_stop_fn stop, const void *user) {
    const uintptr_t first = (begin + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    const uintptr_t last = end / HUGE_PAGE * HUGE_PAGE;
    for (uintptr_t at = first; at < last; at += PIECE) {
        size_t n = last - at < PIECE ? last - at : PIECE;
        if (stop(user) || !move_piece((uint8_t *)at, n)) return at - first;
    }
    return first < last ? last - first : 0;
}

size_t rf_into_huge_pages(const void *p, size_t size, rf_stop_fn stop, const void *user) {
    const uintptr_t end = (uintptr_t)p + size;
    size_t n = 0;
    /* A huge page counts from when it was read. */
    for (uintptr_t at = (uintptr_t)p; at < end && !stop(user); at += HUGE_PAGE)
        (void)*(const volatile uint8_t *)at;
    part found = {0};
    for (uintptr_t at = (uintptr_t)p; !stop(user) && find_part(at, end, &found); at = found.end) {
        if (found.huge >= (found.end - found.begin) / 2) continue;
        n += move_part(found.begin < at ? at : found.begin, found.end < end ? found.end : end, stop,
                       user);
    }
    return n;
}

#else

bool rf_has_huge_pages(void) { return false; }

size_t rf_into_huge_pages(const void *p, size_t size, rf_stop_fn stop, const void *user) {
    (void)p, (void)size, (void)stop, (void)user;
    return 0;
}

#endif
