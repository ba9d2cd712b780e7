/* test_huge.c - weights that move into huge pages while requests run: the same answers, and nothing is left when the
 * engine ends before they have moved. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/os.h"
#include "engine/harness.h"

enum { N_PROMPT = 40, N_TOKENS = 100 };

/* The demo model in memory that only a path of this process leads to, which systems keep in small pages. */
static int model_fd;
static char model_path[64];

static int make_model(void **state) {
    (void)state;
    size_t n;
    uint8_t *bytes = rf_test_read(RF_SOURCE_DIR "/models/demo.gguf", &n);
    model_fd = memfd_create("demo", MFD_CLOEXEC);
    if (model_fd < 0) return -1;
    for (size_t at = 0; at < n;) {
        ssize_t some = write(model_fd, bytes + at, n - at);
        if (some <= 0) return -1;
        at += (size_t)some;
    }
    rf_free(bytes);
    snprintf(model_path, sizeof model_path, "/proc/self/fd/%d", model_fd);
    return 0;
}

static int close_model(void **state) {
    (void)state;
    return close(model_fd);
}

/* Bytes that are still mapped from the file. */
static size_t of_file(void) { return rf_test_mapped("memfd:demo"); }

/* Weights move: the system has huge pages, and did not give them to the file. */
static bool they_move(void) {
    char line[100] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "r");
    if (!f) return false;
    bool small = fgets(line, sizeof line, f) && (strstr(line, "[never]") || strstr(line, "[deny]"));
    fclose(f);
    return small && rf_has_huge_pages();
}

static rf_engine *open_model(bool huge_pages) {
    return open_engine((rf_engine_opts){
        .model_path = model_path, .n_threads = 2, .max_seqs = 1, .huge_pages = huge_pages});
}

static void answer(rf_engine *en, record *r) {
    int32_t prompt[N_PROMPT];
    uint64_t noise = 3;
    random_tokens(&noise, prompt, N_PROMPT, 1000);
    *r = (record){0};
    rf_request_opts o = request_of(prompt, N_PROMPT, N_TOKENS, r);
    o.ignore_eos = true;
    run_request(en, &o);
}

static void test_same_answers(void **state) {
    (void)state;
    static record want, got;
    rf_engine *en = open_model(false);
    answer(en, &want);
    rf_engine_settle(en);
    const size_t all = of_file();
    assert_true(all > 0);
    rf_engine_close(en);
    assert_int_equal(of_file(), 0);

    en = open_model(true);
    uint64_t start = rf_time_us();
    while (rf_time_us() - start < 400000) { /* before, while and after they move */
        answer(en, &got);
        assert_same_answer(&got, &want);
    }
    rf_engine_settle(en);
    answer(en, &got);
    assert_same_answer(&got, &want);
    if (they_move())
        assert_true(of_file() < all / 2);
    else
        print_message("left out: that weights move (no huge pages, or the file is in them)\n");
    rf_engine_settle(en); /* again: nothing */
    rf_engine_close(en);
    assert_int_equal(of_file(), 0);
}

static void test_end_at_once(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        rf_engine *en = open_model(true);
        usleep(70000u * (unsigned)i); /* before, or while they move */
        rf_engine_close(en);
        assert_int_equal(of_file(), 0);
    }
}

/* Whatever the opening of an engine fails to get, it opens or says so, and nothing is lost. */
static void test_no_memory(void **state) {
    (void)state;
    static record want, got;
    rf_engine *en = open_model(false);
    answer(en, &want);
    rf_engine_close(en);
    rf_alloc_count();
    rf_engine_close(open_model(true));
    long n = rf_alloc_count();
    for (long nth = n > 12 ? n - 12 : 1; nth <= n + 1;
         nth++) { /* the last ones: those for moving */
        rf_text why;
        const rf_engine_opts o = {
            .model_path = model_path, .n_threads = 1, .max_seqs = 1, .huge_pages = true};
        rf_alloc_fail_nth(nth);
        int s = rf_engine_open(&en, &o, &why);
        if (s == ROCMFORGE_OK) rf_engine_settle(en);
        rf_alloc_fail_nth(0);
        if (s != ROCMFORGE_OK) continue;
        answer(en, &got);
        assert_same_answer(&got, &want);
        rf_engine_close(en);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_answers),
        cmocka_unit_test(test_end_at_once),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, make_model, close_model);
}
