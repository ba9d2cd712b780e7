/* arena.c - chunks from rf_alloc, cut from the front; big requests get a chunk of their own.
 *
 * Under AddressSanitizer the unused part of a chunk is poisoned and blocks keep a gap between them,
 * so that an overrun inside an arena is seen like one on the heap. */
#include "base/arena.h"

#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define GAP 8u /* bytes kept poisoned behind each block */
static void hide(const void *p, size_t n) { __asan_poison_memory_region(p, n); }
static void show(const void *p, size_t n) { __asan_unpoison_memory_region(p, n); }
#else
#define GAP 0u
static void hide(const void *p, size_t n) {
    (void)p;
    (void)n;
}
static void show(const void *p, size_t n) {
    (void)p;
    (void)n;
}
#endif

#define ALIGN       64u
#define CHUNK_FIRST ((size_t)8 << 10)
#define CHUNK_LAST  ((size_t)1 << 20)

typedef struct chunk {
    struct chunk *next;
    size_t used, cap;    /* bytes of data */
    unsigned char *data; /* the same block, 64 bytes in */
} chunk;
_Static_assert(sizeof(chunk) <= ALIGN, "the data of a chunk starts aligned");

struct rf_arena {
    chunk *head; /* the one that small blocks are cut from; full and big ones behind it */
    size_t next_cap;
    size_t bytes;
};

rf_status rf_arena_create(rf_arena **out) {
    *out = NULL;
    rf_arena *a = rf_alloc(1, sizeof *a);
    if (!a) return RF_ENOMEM;
    a->next_cap = CHUNK_FIRST;
    a->bytes = sizeof *a;
    *out = a;
    return RF_OK;
}

void rf_arena_free(rf_arena *a) {
    if (!a) return;
    for (chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        show(c->data, c->cap);
        rf_free(c);
    }
    rf_free(a);
}

static chunk *chunk_new(rf_arena *a, size_t cap) {
    size_t total;
    if (!rf_add_ok(cap, ALIGN, &total)) return NULL;
    chunk *c = rf_alloc(total, 1);
    if (!c) return NULL;
    c->cap = cap;
    c->data = (unsigned char *)c + ALIGN;
    hide(c->data, cap);
    a->bytes += total;
    return c;
}

static void *cut(chunk *c, size_t at, size_t bytes) {
    void *p = c->data + at;
    c->used = at + bytes;
    show(p, bytes);
    return p;
}

static void *take(rf_arena *a, size_t bytes, size_t align) {
    size_t with_gap;
    if (!rf_add_ok(bytes, GAP, &with_gap)) return NULL;
    chunk *c = a->head;
    if (c) {
        size_t at = (c->used + (c->used ? GAP : 0) + align - 1) & ~(align - 1);
        if (at <= c->cap && bytes <= c->cap - at) return cut(c, at, bytes);
    }
    bool big = with_gap > a->next_cap / 4;
    c = chunk_new(a, big ? with_gap : a->next_cap);
    if (!c) return NULL;
    if (big && a->head) { /* the head still has room for small blocks */
        c->next = a->head->next;
        a->head->next = c;
    } else {
        c->next = a->head;
        a->head = c;
    }
    if (!big && a->next_cap < CHUNK_LAST) a->next_cap *= 2;
    return cut(c, 0, bytes);
}

void *rf_arena_alloc(rf_arena *a, size_t n, size_t size) {
    size_t bytes;
    if (!rf_mul_ok(n, size, &bytes)) return NULL;
    return take(a, bytes, ALIGN);
}

/* Strings are packed without alignment: a vocabulary has a hundred thousand short ones. */
rf_str rf_arena_str(rf_arena *a, rf_str s) {
    size_t bytes;
    if (!rf_add_ok(s.len, 1, &bytes)) return (rf_str){NULL, 0};
    char *p = take(a, bytes, 1);
    if (!p) return (rf_str){NULL, 0};
    if (s.len) memcpy(p, s.p, s.len);
    return (rf_str){p, s.len};
}

size_t rf_arena_bytes(const rf_arena *a) { return a->bytes; }
