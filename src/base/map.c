/* map.c - open addressing with linear probing over a power of two, at most three quarters full.
 *
 * The hash multiplies 64 x 64 -> 128 bits and folds.  Its secrets all come from the map's random
 * seed: with fixed ones, a key could be built that multiplies by zero and collides with any other. */
#include "base/map.h"

#include <string.h>

#include "base/os.h"

__extension__ typedef unsigned __int128 u128;

static uint64_t fold(uint64_t a, uint64_t b) {
    u128 product = (u128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load64(const unsigned char *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t load32(const unsigned char *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Odd 64-bit constants from the binary fractions of sqrt 2, 3, 5 and 7. */
#define K0 0x6A09E667F3BCC909u
#define K1 0xBB67AE8584CAA73Bu
#define K2 0x3C6EF372FE94F82Bu
#define K3 0xA54FF53A5F1D36F1u

uint64_t rf_hash(const void *bytes, size_t n, uint64_t seed) {
    const unsigned char *p = bytes;
    uint64_t secret_a = fold(seed ^ K0, K1), secret_b = fold(seed ^ K2, K3);
    uint64_t h = secret_a + n;
    size_t left = n;
    for (; left > 16; left -= 16, p += 16) {
        h = fold(load64(p) ^ secret_a, load64(p + 8) ^ h) + secret_b;
    }
    uint64_t a = 0, b = 0; /* the last 1..16 bytes; the two halves may overlap */
    if (left >= 8) {
        a = load64(p);
        b = load64(p + left - 8);
    } else if (left >= 4) {
        a = load32(p);
        b = load32(p + left - 4);
    } else if (left > 0) {
        a = (uint64_t)p[0] << 16 | (uint64_t)p[left / 2] << 8 | p[left - 1];
    }
    h = fold(a ^ secret_b, b ^ h);
    return fold(h ^ secret_a, secret_b ^ n);
}

typedef struct entry {
    const char *key;
    size_t len;
    uint32_t hash;       /* upper half of the 64-bit hash; the lower half chose the slot */
    uint32_t value_plus; /* value + 1; 0 = free */
} entry;

struct rf_map {
    entry *slots; /* [mask + 1] */
    size_t mask;
    size_t len;
    uint64_t seed;
};

#define MIN_SLOTS 16u

rf_status rf_map_create(rf_map **out, size_t expected) {
    *out = NULL;
    size_t want;
    if (!rf_add_ok(expected, expected / 3 + 1, &want)) return RF_ENOMEM;
    size_t n_slots = MIN_SLOTS;
    while (n_slots < want) {
        if (!rf_mul_ok(n_slots, 2, &n_slots)) return RF_ENOMEM;
    }
    rf_map *m = rf_alloc(1, sizeof *m);
    if (!m) return RF_ENOMEM;
    m->slots = rf_alloc(n_slots, sizeof *m->slots);
    if (!m->slots) {
        rf_free(m);
        return RF_ENOMEM;
    }
    m->mask = n_slots - 1;
    m->seed = rf_random_u64();
    *out = m;
    return RF_OK;
}

void rf_map_free(rf_map *m) {
    if (!m) return;
    rf_free(m->slots);
    rf_free(m);
}

/* The key's slot, or the free one where it belongs. */
static entry *find(const rf_map *m, rf_str key, uint64_t hash) {
    uint32_t high = (uint32_t)(hash >> 32);
    for (size_t i = (size_t)hash & m->mask;; i = (i + 1) & m->mask) {
        entry *e = &m->slots[i];
        if (e->value_plus == 0) return e;
        if (e->hash == high && rf_str_eq((rf_str){e->key, e->len}, key)) return e;
    }
}

static rf_status grow(rf_map *m) {
    size_t n_slots;
    if (!rf_mul_ok(m->mask + 1, 2, &n_slots)) return RF_ENOMEM;
    entry *fresh = rf_alloc(n_slots, sizeof *fresh);
    if (!fresh) return RF_ENOMEM;
    entry *old = m->slots;
    size_t n_old = m->mask + 1;
    m->slots = fresh;
    m->mask = n_slots - 1;
    for (size_t i = 0; i < n_old; i++) {
        if (old[i].value_plus == 0) continue;
        rf_str key = {old[i].key, old[i].len};
        *find(m, key, rf_hash(key.p, key.len, m->seed)) = old[i];
    }
    rf_free(old);
    return RF_OK;
}

rf_status rf_map_put(rf_map *m, rf_str key, uint32_t value, uint32_t *old) {
    if (old) *old = RF_MAP_NONE;
    if (value == RF_MAP_NONE) return RF_EARG;
    uint64_t hash = rf_hash(key.p, key.len, m->seed);
    entry *e = find(m, key, hash);
    if (e->value_plus != 0) {
        if (old) *old = e->value_plus - 1;
        e->value_plus = value + 1;
        return RF_OK;
    }
    if (m->len + 1 > (m->mask + 1) / 4 * 3) {
        RF_TRY(grow(m));
        e = find(m, key, hash);
    }
    *e = (entry){key.p, key.len, (uint32_t)(hash >> 32), value + 1};
    m->len++;
    return RF_OK;
}

uint32_t rf_map_get(const rf_map *m, rf_str key) {
    const entry *e = find(m, key, rf_hash(key.p, key.len, m->seed));
    return e->value_plus == 0 ? RF_MAP_NONE : e->value_plus - 1;
}

size_t rf_map_len(const rf_map *m) { return m->len; }
