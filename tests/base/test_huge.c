/* test_huge.c - what a file is mapped to moves into other memory under its readers' eyes. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os.h"
#include "lib/testlib.h"

enum {
    HUGE_PAGE = 2 << 20,
    PIECE = 8 * HUGE_PAGE, /* after which os_huge.c asks whether to go on */
    SIZE = 2 * PIECE + HUGE_PAGE + 12345,
};

typedef struct mapped {
    char path[200];
    uint8_t *room, *p; /* p: the file, where no page of it can be a huge one */
} mapped;

static const size_t room_bytes = (size_t)SIZE + 2 * HUGE_PAGE;

static mapped map_file(const char *name, int access) {
    mapped m;
    uint64_t noise = 1;
    uint64_t *words = malloc(SIZE);
    assert_non_null(words);
    for (size_t i = 0; i < SIZE / 8; i++)
        words[i] = rf_test_rand(&noise);
    snprintf(m.path, sizeof m.path, "%s", rf_test_tmp(name));
    FILE *f = fopen(m.path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(words, 1, SIZE, f), SIZE);
    assert_int_equal(fclose(f), 0);
    free(words);
    m.room = mmap(NULL, room_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(m.room, MAP_FAILED);
    m.p = m.room + HUGE_PAGE - (uintptr_t)m.room % HUGE_PAGE + 4096;
    int fd = open(m.path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_ptr_equal(mmap(m.p, SIZE, access, MAP_PRIVATE | MAP_FIXED, fd, 0), m.p);
    close(fd);
    return m;
}

static void unmap(const mapped *m) { assert_int_equal(munmap(m->room, room_bytes), 0); }

/* Bytes that are still mapped from the file. */
static size_t of_file(const mapped *m) { return rf_test_mapped(m->path); }

static size_t pages_of(size_t n) { return (n + 4095) / 4096 * 4096; }

static void assert_same_bytes(const mapped *m) {
    size_t n;
    uint8_t *bytes = rf_test_read(m->path, &n);
    assert_int_equal(n, SIZE);
    assert_memory_equal(bytes, m->p, SIZE);
    rf_free(bytes);
}

static bool never(const void *user) {
    (void)user;
    return false;
}

static uint64_t sum_of(const uint8_t *p) {
    uint64_t sum = 0;
    for (size_t i = 0; i < SIZE; i += 64)
        sum = sum * 31 + p[i];
    return sum;
}

typedef struct reader {
    const uint8_t *p;
    uint64_t sum;
    atomic_bool stop;
    size_t n_read, n_wrong;
} reader;

static void *read_on(void *user) {
    reader *r = user;
    do {
        r->n_wrong += sum_of(r->p) != r->sum;
        r->n_read++;
    } while (!atomic_load(&r->stop));
    return NULL;
}

static void test_under_a_reader(void **state) {
    (void)state;
    mapped m = map_file("reader", PROT_READ);
    reader r = {.p = m.p, .sum = sum_of(m.p)};
    pthread_t thread;
    assert_int_equal(of_file(&m), pages_of(SIZE));
    assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
    size_t n = rf_into_huge_pages(m.p, SIZE, never, NULL);
    atomic_store(&r.stop, true);
    pthread_join(thread, NULL);
    assert_true(r.n_read > 0);
    assert_int_equal(r.n_wrong, 0);
    assert_int_equal(n, 2 * PIECE); /* all but what shares a huge page with something else */
    assert_int_equal(of_file(&m), pages_of(SIZE) - n);
    assert_same_bytes(&m);
    assert_int_equal(rf_into_huge_pages(m.p, SIZE, never, NULL), 0);
    unmap(&m);
}

/* A part of the file only. */
static void test_part(void **state) {
    (void)state;
    mapped m = map_file("part", PROT_READ);
    size_t n = rf_into_huge_pages(m.p + HUGE_PAGE, 3 * HUGE_PAGE, never, NULL);
    assert_int_equal(n, 2 * HUGE_PAGE);
    assert_int_equal(of_file(&m), pages_of(SIZE) - n);
    assert_same_bytes(&m);
    unmap(&m);
}

static bool has_begun(const void *user) { return of_file(user) < pages_of(SIZE); }

static void test_stop(void **state) {
    (void)state;
    mapped m = map_file("stop", PROT_READ);
    assert_int_equal(rf_into_huge_pages(m.p, SIZE, has_begun, &m), PIECE);
    assert_same_bytes(&m);
    assert_int_equal(rf_into_huge_pages(m.p, SIZE, never, NULL), PIECE); /* the rest */
    assert_same_bytes(&m);
    unmap(&m);
}

static void test_no_memory(void **state) {
    (void)state;
    mapped m = map_file("memory", PROT_READ);
    rf_alloc_fail_nth(2);
    size_t n = rf_into_huge_pages(m.p, SIZE, never, NULL);
    rf_alloc_fail_nth(0);
    assert_int_equal(n, PIECE);
    assert_same_bytes(&m);
    unmap(&m);
}

/* What may be written, or is no file's, stays where it is. */
static void test_other_memory(void **state) {
    (void)state;
    mapped m = map_file("written", PROT_READ | PROT_WRITE);
    assert_int_equal(rf_into_huge_pages(m.p, SIZE, never, NULL), 0);
    assert_int_equal(of_file(&m), pages_of(SIZE));
    unmap(&m);
    uint8_t *p = rf_alloc(SIZE, 1);
    assert_non_null(p);
    assert_int_equal(rf_into_huge_pages(p, SIZE, never, NULL), 0);
    memset(p, 1, SIZE);
    rf_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_under_a_reader), cmocka_unit_test(test_part),
        cmocka_unit_test(test_stop),           cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_other_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
