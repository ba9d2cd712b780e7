/* test_kv.c - the block pool against a naive model of it, over long random histories.
 *
 * The model knows each block's references, content and age in plain arrays and searches them from
 * end to end; it has no hash, no list and no serial of its own making that could hide the same
 * mistake. */
#include <string.h>

#include "engine/kv.h"
#include "lib/testlib.h"

enum { MAX_BLOCKS = 64, MAX_SEQS = 8, MAX_TOKENS = 96 };

typedef struct model_block {
    uint32_t refs;
    bool findable;
    uint64_t name;   /* of the content, given by the model; 0: not full */
    uint64_t parent; /* name of the content before it; 0: the start */
    uint64_t salt;
    uint64_t released;          /* when the last reference went, for the order of eviction */
    uint32_t n_prefix;          /* tokens from the start of the sequence to the block's end, */
    int32_t prefix[MAX_TOKENS]; /* to prove that a match never lies about any of them */
} model_block;

typedef struct model_seq {
    rf_kv_seq kv;
    bool open;
    uint32_t n_tokens, n_done;
    int32_t tokens[MAX_TOKENS];
} model_seq;

typedef struct model {
    rf_kv *kv;
    uint32_t n_blocks, size, n_seqs; /* size: tokens per block */
    uint64_t clock, next_name, evictions, noise;
    model_block blocks[MAX_BLOCKS];
    model_seq seqs[MAX_SEQS];
} model;

static uint32_t pick(model *m, uint32_t n) { return (uint32_t)(rf_test_rand(&m->noise) % n); }

/* ---- what the model expects ---- */

static int find_block(const model *m, uint64_t salt, uint64_t parent, const int32_t *tokens) {
    int found = -1;
    for (uint32_t id = 0; id < m->n_blocks; id++) {
        const model_block *b = &m->blocks[id];
        if (!b->findable || b->parent != parent || b->salt != salt) continue;
        if (memcmp(b->prefix + b->n_prefix - m->size, tokens, m->size * sizeof *tokens) != 0)
            continue;
        assert_int_equal(found, -1); /* one content is findable in one place only */
        found = (int)id;
    }
    return found;
}

static uint32_t n_free(const model *m) {
    uint32_t n = 0;
    for (uint32_t id = 0; id < m->n_blocks; id++)
        n += m->blocks[id].refs == 0;
    return n;
}

/* The sequence got block id: it must have been blank, or the oldest cached one if none was. */
static void model_take(model *m, uint32_t id) {
    assert_true(id < m->n_blocks);
    const model_block *b = &m->blocks[id];
    assert_int_equal(b->refs, 0);
    for (uint32_t i = 0; b->findable && i < m->n_blocks; i++) {
        if (m->blocks[i].refs > 0) continue;
        assert_true(m->blocks[i].findable); /* no blank one was left */
        assert_true(m->blocks[i].released >= b->released);
    }
    m->evictions += b->findable;
    m->blocks[id] = (model_block){.refs = 1};
}

static void model_commit(model *m, model_seq *s, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        model_block *b = &m->blocks[s->kv.blocks[i]];
        uint64_t parent = i ? m->blocks[s->kv.blocks[i - 1]].name : 0;
        int twin = find_block(m, s->kv.salt, parent, s->tokens + i * m->size);
        b->parent = parent;
        b->salt = s->kv.salt;
        b->n_prefix = (i + 1) * m->size;
        memcpy(b->prefix, s->tokens, b->n_prefix * sizeof *b->prefix);
        b->name = twin >= 0 ? m->blocks[twin].name : ++m->next_name;
        b->findable = twin < 0;
    }
}

static void model_drop(model *m, const uint32_t *blocks, uint32_t n, uint32_t kept) {
    for (uint32_t i = n; i-- > kept;) {
        model_block *b = &m->blocks[blocks[i]];
        assert_true(b->refs > 0);
        if (--b->refs == 0) b->released = ++m->clock;
        if (b->refs == 0 && !b->findable) *b = (model_block){0};
    }
}

/* ---- the same steps on both sides ---- */

static void do_reserve(model *m, model_seq *s, uint32_t n_tokens) {
    uint32_t before = s->kv.n_blocks, want = (n_tokens + m->size - 1) / m->size;
    uint32_t need = want > before ? want - before : 0;
    rf_status expected = need > n_free(m) ? RF_EFULL : RF_OK;
    rf_kv_stats old, now;
    rf_kv_get_stats(m->kv, &old);
    assert_int_equal(rf_kv_reserve(m->kv, &s->kv, n_tokens), expected);
    rf_kv_get_stats(m->kv, &now);
    if (expected == RF_EFULL) { /* all or nothing */
        assert_int_equal(s->kv.n_blocks, before);
        assert_memory_equal(&old, &now, sizeof old);
        return;
    }
    assert_int_equal(s->kv.n_blocks, before + need);
    for (uint32_t i = before; i < s->kv.n_blocks; i++)
        model_take(m, s->kv.blocks[i]);
}

static void do_open(model *m, model_seq *s) {
    s->open = true;
    s->kv.salt = pick(m, 3);
    s->n_tokens = 1 + pick(m, MAX_TOKENS / 2);
    uint32_t alphabet = 1 + pick(m, 3);
    for (uint32_t i = 0; i < s->n_tokens; i++)
        s->tokens[i] = (int32_t)pick(m, alphabet);
    uint32_t found, want[MAX_TOKENS], n = 0, n_shared = 0, most = (s->n_tokens - 1) / m->size;
    uint64_t parent = 0;
    for (int id; n < most && (id = find_block(m, s->kv.salt, parent, s->tokens + n * m->size)) >= 0;
         n++) {
        want[n] = (uint32_t)id;
        parent = m->blocks[id].name;
        n_shared += m->blocks[id].refs > 0;
    }
    rf_kv_stats old, now;
    rf_kv_get_stats(m->kv, &old);
    assert_int_equal(rf_kv_shared(m->kv, s->kv.salt, s->tokens, s->n_tokens), n_shared);
    rf_kv_get_stats(m->kv, &now);
    assert_memory_equal(&old, &now, sizeof old);
    assert_int_equal(rf_kv_match(m->kv, &s->kv, s->tokens, s->n_tokens, &found), RF_OK);
    assert_int_equal(found, n * m->size);
    assert_int_equal(s->kv.n_blocks, n);
    for (uint32_t i = 0; i < n; i++) {
        model_block *b = &m->blocks[s->kv.blocks[i]];
        assert_int_equal(s->kv.blocks[i], want[i]);
        assert_int_equal(b->n_prefix, (i + 1) * m->size);
        assert_memory_equal(b->prefix, s->tokens, b->n_prefix * sizeof *b->prefix);
        b->refs++;
    }
    s->n_done = found;
    do_reserve(m, s, s->n_tokens);
}

static void do_close(model *m, model_seq *s) {
    uint32_t blocks[MAX_TOKENS], n = s->kv.n_blocks;
    if (n) memcpy(blocks, s->kv.blocks, n * sizeof *blocks);
    rf_kv_release(m->kv, &s->kv);
    assert_null(s->kv.blocks);
    assert_int_equal(s->kv.n_blocks, 0);
    model_drop(m, blocks, n, 0);
    *s = (model_seq){0};
}

/* Gives back blocks behind what is computed. */
static void do_trim(model *m, model_seq *s) {
    uint32_t blocks[MAX_TOKENS], n = s->kv.n_blocks;
    uint32_t n_tokens = s->n_done + pick(m, s->n_tokens - s->n_done + 1);
    uint32_t kept = (n_tokens + m->size - 1) / m->size;
    if (n) memcpy(blocks, s->kv.blocks, n * sizeof *blocks);
    rf_kv_trim(m->kv, &s->kv, n_tokens);
    assert_int_equal(s->kv.n_blocks, kept < n ? kept : n);
    if (s->kv.n_blocks) assert_memory_equal(s->kv.blocks, blocks, s->kv.n_blocks * sizeof *blocks);
    model_drop(m, blocks, n, kept);
}

static void do_commit(model *m, model_seq *s) {
    uint32_t room = s->kv.n_blocks * m->size;
    uint32_t most = s->n_tokens < room ? s->n_tokens : room;
    if (most <= s->n_done) return;
    uint32_t before = s->n_done / m->size;
    s->n_done += 1 + pick(m, most - s->n_done);
    assert_int_equal(rf_kv_commit(m->kv, &s->kv, s->tokens, s->n_done), RF_OK);
    model_commit(m, s, before, s->n_done / m->size);
    assert_int_equal(rf_kv_commit(m->kv, &s->kv, s->tokens, s->n_done), RF_OK); /* idempotent */
    assert_int_equal(rf_kv_commit(m->kv, &s->kv, s->tokens, room + m->size), RF_EARG);
}

static void do_grow(model *m, model_seq *s) {
    uint32_t more = 1 + pick(m, 5);
    if (s->n_tokens + more > MAX_TOKENS) return;
    uint32_t first = s->n_tokens;
    do_reserve(m, s, first + more);
    for (uint32_t i = 0; i < more; i++)
        s->tokens[s->n_tokens++] = (int32_t)pick(m, 2);
}

static void check(const model *m) {
    const rf_kv_seq *seqs[MAX_SEQS];
    uint32_t n_cached = 0;
    for (uint32_t i = 0; i < m->n_seqs; i++)
        seqs[i] = &m->seqs[i].kv;
    assert_true(rf_kv_consistent(m->kv, seqs, m->n_seqs));
    for (uint32_t id = 0; id < m->n_blocks; id++)
        n_cached += m->blocks[id].refs == 0 && m->blocks[id].findable;
    rf_kv_stats stats;
    rf_kv_get_stats(m->kv, &stats);
    assert_int_equal(stats.n_blocks, m->n_blocks);
    assert_int_equal(stats.n_free, n_free(m));
    assert_int_equal(stats.n_cached, n_cached);
    assert_int_equal(stats.evictions, m->evictions);
}

static void run_history(uint32_t n_blocks, uint32_t size, uint32_t n_seqs, uint32_t n_steps) {
    static model m;
    m = (model){.n_blocks = n_blocks, .size = size, .n_seqs = n_seqs, .noise = n_blocks};
    assert_int_equal(rf_kv_create(&m.kv, n_blocks, size), RF_OK);
    for (uint32_t step = 0; step < n_steps; step++) {
        model_seq *s = &m.seqs[pick(&m, n_seqs)];
        uint32_t what = pick(&m, 16);
        if (!s->open)
            do_open(&m, s);
        else if (what < 8)
            do_commit(&m, s);
        else if (what < 11)
            do_grow(&m, s);
        else if (what < 12)
            do_reserve(&m, s, (n_blocks + 1 + pick(&m, 4)) * size); /* never fits */
        else if (what < 13)
            do_trim(&m, s);
        else
            do_close(&m, s);
        check(&m);
    }
    for (uint32_t i = 0; i < n_seqs; i++)
        if (m.seqs[i].open) do_close(&m, &m.seqs[i]);
    check(&m);
    assert_int_equal(n_free(&m), n_blocks);
    rf_kv_stats stats;
    rf_kv_get_stats(m.kv, &stats);
    assert_true(stats.hits > 0 && stats.misses > 0 && stats.evictions > 0);
    rf_kv_free(m.kv);
}

/* 140,000 random steps, checked against the model after each.
 * req: B-26, B-27 (removal frees), B-28 (no underflow), B-29, B-33 (length tracked), C-10 */
static void random_histories(void **state) {
    (void)state;
    run_history(24, 3, 6, 60000);
    run_history(64, 4, 8, 40000);
    run_history(2, 1, 2, 20000); /* every block in one of two buckets */
    run_history(7, 2, 8, 20000); /* nearly always full */
}

/* ---- single properties, by hand ---- */

static rf_kv *create(uint32_t n_blocks, uint32_t size) {
    rf_kv *kv;
    assert_int_equal(rf_kv_create(&kv, n_blocks, size), RF_OK);
    return kv;
}

static rf_kv_seq run_sequence(rf_kv *kv, const int32_t *tokens, uint32_t n, uint32_t expect_found) {
    rf_kv_seq s = {0};
    uint32_t found;
    assert_int_equal(rf_kv_match(kv, &s, tokens, n, &found), RF_OK);
    assert_int_equal(found, expect_found);
    assert_int_equal(rf_kv_reserve(kv, &s, n), RF_OK);
    assert_int_equal(rf_kv_commit(kv, &s, tokens, n), RF_OK);
    return s;
}

/* Only the same tokens after the same tokens match, whatever the hash says.  req: B-29 */
static void matches_compare_tokens(void **state) {
    (void)state;
    rf_kv *kv = create(2, 2); /* two buckets: contents share one */
    static const int32_t a[] = {1, 2, 3, 4, 5};
    for (int32_t x = 0; x < 200; x++) {
        const int32_t other[] = {x, 2, 9};
        rf_kv_seq s = run_sequence(kv, a, 5 - 2, 0);
        rf_kv_release(kv, &s);
        s = run_sequence(kv, other, 3, x == 1 ? 2 : 0);
        rf_kv_release(kv, &s);
        const int32_t again[] = {x, 2, 7};
        s = run_sequence(kv, again, 3, 2);
        rf_kv_release(kv, &s);
        rf_kv_free(kv);
        kv = create(2, 2);
    }
    rf_kv_free(kv);
    /* {3,4} was computed after {1,2}: it is no prefix, and no continuation of {3,4} either */
    kv = create(8, 2);
    rf_kv_seq s = run_sequence(kv, a, 5, 0), other = {0};
    rf_kv_release(kv, &s);
    static const int32_t b[] = {3, 4, 3, 4, 5}, c[] = {1, 2, 3, 4, 5};
    s = run_sequence(kv, b, 5, 0);
    other = run_sequence(kv, c, 5, 4);
    rf_kv_release(kv, &s);
    rf_kv_release(kv, &other);
    rf_kv_free(kv);
}

static void never_the_whole_prompt(void **state) {
    (void)state;
    rf_kv *kv = create(8, 2);
    static const int32_t a[] = {1, 2, 3, 4};
    rf_kv_seq s = run_sequence(kv, a, 4, 0);
    rf_kv_release(kv, &s);
    s = run_sequence(kv, a, 4, 2); /* four are cached, but one token must be left to compute */
    rf_kv_release(kv, &s);
    uint32_t found = 9;
    assert_int_equal(rf_kv_match(kv, &s, NULL, 0, &found), RF_OK);
    assert_int_equal(found, 0);
    rf_kv_release(kv, &s);
    rf_kv_free(kv);
}

/* Holding takes all full blocks, counts as no lookup, and keeps them from being evicted.  Salts have
 * blocks of their own. */
static void holds(void **state) {
    (void)state;
    rf_kv *kv = create(4, 2);
    static const int32_t a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8, 9};
    rf_kv_stats before, after;
    rf_kv_seq s = run_sequence(kv, a, 4, 0), held = {0}, other = {.salt = 1};
    rf_kv_release(kv, &s);
    rf_kv_get_stats(kv, &before);
    assert_int_equal(rf_kv_hold(kv, &held, a, 4), RF_OK);
    assert_int_equal(held.n_blocks, 2);
    assert_int_equal(rf_kv_hold(kv, &other, a, 4), RF_OK);
    assert_int_equal(other.n_blocks, 0);
    rf_kv_get_stats(kv, &after);
    assert_true(after.hits == before.hits && after.misses == before.misses);
    assert_int_equal(rf_kv_reserve(kv, &other, 5), RF_EFULL); /* three blocks of the two left */
    assert_int_equal(rf_kv_reserve(kv, &other, 4), RF_OK);
    assert_int_equal(rf_kv_commit(kv, &other, b, 4), RF_OK);
    rf_kv_release(kv, &other);
    assert_true(other.salt == 1);
    rf_kv_release(kv, &held);
    s = (rf_kv_seq){0};
    assert_int_equal(rf_kv_hold(kv, &s, b, 4), RF_OK);
    assert_int_equal(s.n_blocks, 0);
    assert_int_equal(rf_kv_hold(kv, &other, b, 5), RF_OK);
    assert_int_equal(other.n_blocks, 2);
    rf_kv_release(kv, &other);
    rf_kv_release(kv, &s);
    rf_kv_free(kv);
}

/* Two sequences compute the same block at the same time: both may go on, one copy is findable, and
 * giving both back leaves nothing behind.  req: C-10, B-29 */
static void twins(void **state) {
    (void)state;
    rf_kv *kv = create(6, 2);
    static const int32_t a[] = {1, 2, 3, 4, 5}, b[] = {1, 2, 3, 4, 6};
    rf_kv_seq x = {0}, y = {0};
    uint32_t found;
    assert_int_equal(rf_kv_match(kv, &x, a, 5, &found), RF_OK);
    assert_int_equal(rf_kv_match(kv, &y, b, 5, &found), RF_OK);
    assert_int_equal(rf_kv_reserve(kv, &x, 5), RF_OK);
    assert_int_equal(rf_kv_reserve(kv, &y, 5), RF_OK);
    assert_int_equal(rf_kv_commit(kv, &x, a, 3), RF_OK);
    assert_int_equal(rf_kv_commit(kv, &y, b, 5), RF_OK); /* first block: a twin of x's */
    assert_int_equal(rf_kv_commit(kv, &x, a, 5), RF_OK); /* second block: a twin of y's */
    const rf_kv_seq *both[] = {&x, &y};
    assert_true(rf_kv_consistent(kv, both, 2));
    uint32_t first = x.blocks[0], second = y.blocks[1];
    rf_kv_release(kv, &x);
    rf_kv_release(kv, &y);
    rf_kv_seq z = run_sequence(kv, a, 5, 4);
    assert_int_equal(z.blocks[0], first);
    assert_int_equal(z.blocks[1], second);
    rf_kv_release(kv, &z);
    rf_kv_stats stats;
    rf_kv_get_stats(kv, &stats);
    assert_int_equal(stats.n_free, 6);
    assert_int_equal(stats.n_cached, 2);
    rf_kv_free(kv);
}

/* The tail of the sequence that was released first goes first. */
static void eviction_order(void **state) {
    (void)state;
    rf_kv *kv = create(4, 1);
    static const int32_t a[] = {1, 2, 9}, b[] = {3, 4, 9}, wide[] = {5, 6, 7};
    rf_kv_seq s = run_sequence(kv, a, 2, 0);
    rf_kv_release(kv, &s);
    s = run_sequence(kv, b, 2, 0);
    rf_kv_release(kv, &s);
    s = run_sequence(kv, wide, 1, 0); /* takes the block of a's 2 */
    rf_kv_release(kv, &s);
    rf_kv_seq t = run_sequence(kv, a, 2, 1);
    rf_kv_release(kv, &t);
    s = run_sequence(kv, b, 3, 1); /* its 4 went for the second half of a, its 3 is still there */
    rf_kv_release(kv, &s);
    rf_kv_stats stats;
    rf_kv_get_stats(kv, &stats);
    assert_int_equal(stats.n_free, 4);
    rf_kv_free(kv);
}

/* req: B-30 (unknown sequences), B-31 (unchecked ids) */
static void wrong_arguments(void **state) {
    (void)state;
    rf_kv *kv = NULL;
    assert_int_equal(rf_kv_create(&kv, 0, 4), RF_EARG);
    assert_int_equal(rf_kv_create(&kv, 4, 0), RF_EARG);
    assert_int_equal(rf_kv_create(&kv, UINT32_MAX, 4), RF_EARG);
    assert_null(kv);
    kv = create(4, 2);
    rf_kv_seq empty = {0};
    rf_kv_release(kv, &empty); /* what holds nothing gives nothing back */
    assert_int_equal(rf_kv_reserve(kv, &empty, UINT32_MAX), RF_EFULL);
    assert_int_equal(rf_kv_reserve(kv, &empty, 9), RF_EFULL);
    assert_int_equal(rf_kv_reserve(kv, &empty, 0), RF_OK);
    assert_int_equal(rf_kv_commit(kv, &empty, NULL, 2), RF_EARG);
    /* the judge of the other tests is not blind */
    assert_int_equal(rf_kv_reserve(kv, &empty, 3), RF_OK);
    rf_kv_seq forged = empty;
    const rf_kv_seq *one[] = {&empty}, *two[] = {&empty, &forged};
    assert_true(rf_kv_consistent(kv, one, 1));
    assert_false(rf_kv_consistent(kv, two, 2));
    assert_false(rf_kv_consistent(kv, one, 0));
    uint32_t out_of_range[] = {0, 4};
    forged = (rf_kv_seq){.blocks = out_of_range, .n_blocks = 2};
    assert_false(rf_kv_consistent(kv, two, 2));
    rf_kv_release(kv, &empty);
    rf_kv_free(kv);
    rf_kv_free(NULL);
}

static rf_status whole_life(void) {
    rf_kv *kv;
    rf_kv_seq s = {0};
    static const int32_t tokens[40] = {1, 2, 3};
    uint32_t found;
    rf_status status = rf_kv_create(&kv, 40, 2);
    if (status != RF_OK) return status;
    status = rf_kv_match(kv, &s, tokens, 20, &found);
    if (status == RF_OK) status = rf_kv_reserve(kv, &s, 40);
    if (status == RF_OK) status = rf_kv_commit(kv, &s, tokens, 40);
    const rf_kv_seq *one[] = {&s};
    rf_alloc_fail_nth(0);
    assert_true(rf_kv_consistent(kv, one, 1));
    rf_kv_release(kv, &s);
    assert_true(rf_kv_consistent(kv, NULL, 0));
    rf_kv_free(kv);
    return status;
}

static void allocation_failures(void **state) {
    (void)state;
    rf_alloc_count();
    assert_int_equal(whole_life(), RF_OK);
    long n = rf_alloc_count();
    assert_true(n >= 6);
    long failed = 0;
    for (long i = 1; i <= n; i++) {
        rf_alloc_fail_nth(i);
        rf_status s = whole_life();
        rf_alloc_fail_nth(0);
        assert_true(s == RF_ENOMEM || s == RF_OK);
        failed += s == RF_ENOMEM;
    }
    assert_true(failed >= 5);
}

/* Blocks have names by content, the same for twins; what was found can be given back. */
static void names(void **state) {
    (void)state;
    rf_kv *kv;
    rf_kv_seq a = {0}, b = {0}, c = {.salt = 1};
    rf_kv_seq *const all[] = {&a, &b, &c};
    int32_t tokens[13] = {0};
    uint32_t found;
    assert_int_equal(rf_kv_create(&kv, 12, 4), RF_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(rf_kv_reserve(kv, all[i], 12), RF_OK);
        assert_int_equal(rf_kv_commit(kv, all[i], tokens, 12), RF_OK);
    }
    assert_true(rf_kv_name(kv, &a, 0) != rf_kv_name(kv, &a, 1));
    assert_true(rf_kv_name(kv, &a, 1) == rf_kv_name(kv, &b, 1) && rf_kv_name(kv, &a, 1) != 0);
    assert_true(rf_kv_name(kv, &a, 1) != rf_kv_name(kv, &c, 1));
    uint64_t name = rf_kv_name(kv, &a, 1);
    rf_kv_release(kv, &b);
    assert_int_equal(rf_kv_match(kv, &b, tokens, 13, &found), RF_OK);
    assert_int_equal(found, 12);
    rf_kv_unmatch(kv, &b, 8);
    assert_int_equal(b.n_blocks, 2);
    assert_true(rf_kv_name(kv, &b, 1) == name);
    rf_kv_unmatch(kv, &b, 0);
    assert_int_equal(b.n_blocks, 0);
    rf_kv_stats stats;
    rf_kv_get_stats(kv, &stats);
    assert_true(stats.hits == 0 && stats.misses == 3);
    for (size_t i = 0; i < 3; i++)
        rf_kv_release(kv, all[i]);
    assert_true(rf_kv_consistent(kv, NULL, 0));
    rf_kv_free(kv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_histories),
        cmocka_unit_test(matches_compare_tokens),
        cmocka_unit_test(never_the_whole_prompt),
        cmocka_unit_test(holds),
        cmocka_unit_test(twins),
        cmocka_unit_test(names),
        cmocka_unit_test(eviction_order),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
