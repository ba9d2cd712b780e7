/* keys.c - the file of sums, and a comparison that tells nothing by its time. */
#include "server/keys.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <string.h>

#include "base/os.h"

enum { MAX_FILE_BYTES = 1 << 20, MAX_KEYS = 10000, SUM_BYTES = 32, MAX_WEIGHT = 1000 };

struct rf_keys {
    rf_key *keys; /* [n] */
    size_t n;
};

static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static rf_str next_word(rf_str *line) {
    while (line->len && (*line->p == ' ' || *line->p == '\t'))
        *line = (rf_str){line->p + 1, line->len - 1};
    size_t n = 0;
    while (n < line->len && line->p[n] != ' ' && line->p[n] != '\t')
        n++;
    rf_str word = {line->p, n};
    *line = (rf_str){line->p + n, line->len - n};
    return word;
}

static bool parse_scopes(rf_str word, unsigned *scopes) {
    for (size_t at = 0; at <= word.len;) {
        const char *comma = memchr(word.p + at, ',', word.len - at);
        size_t n = comma ? (size_t)(comma - word.p) - at : word.len - at;
        rf_str name = {word.p + at, n};
        if (rf_str_is(name, "user"))
            *scopes |= RF_SCOPE_USER;
        else if (rf_str_is(name, "metrics"))
            *scopes |= RF_SCOPE_METRICS;
        else if (rf_str_is(name, "admin"))
            *scopes |= RF_SCOPE_ADMIN;
        else
            return false;
        at += n + 1;
    }
    return true;
}

static bool parse_weight(rf_str word, uint32_t *weight) {
    *weight = word.len == 0;
    for (size_t i = 0; i < word.len; i++) {
        if (word.p[i] < '0' || word.p[i] > '9' || *weight > MAX_WEIGHT) return false;
        *weight = *weight * 10 + (uint32_t)(word.p[i] - '0');
    }
    return *weight >= 1 && *weight <= MAX_WEIGHT;
}

static rf_status parse_line(rf_key *key, rf_str line, const char *path, size_t number,
                            rf_error *e) {
    rf_str sum = next_word(&line), scopes = next_word(&line), name = next_word(&line);
    bool ok = sum.len == 2 * SUM_BYTES;
    for (size_t i = 0; ok && i < SUM_BYTES; i++) {
        int high = hex(sum.p[2 * i]), low = hex(sum.p[2 * i + 1]);
        ok = high >= 0 && low >= 0;
        if (ok) key->sum[i] = (uint8_t)(high << 4 | low);
    }
    if (!ok)
        return rf_fail(e, RF_EFORMAT,
                       "%s line %zu: expected the SHA-256 sum of a key (64 hexadecimal digits), "
                       "such as sha256sum prints",
                       path, number);
    if (!parse_scopes(scopes, &key->scopes))
        return rf_fail(e, RF_EFORMAT,
                       "%s line %zu: '%.*s' are no scopes; known are user, metrics and admin, "
                       "separated by commas",
                       path, number, (int)(scopes.len > 40 ? 40 : scopes.len), scopes.p);
    if (name.len == 0 || name.len >= sizeof key->name)
        return rf_fail(e, RF_EFORMAT, "%s line %zu: expected one name of 1 to %zu bytes", path,
                       number, sizeof key->name - 1);
    memcpy(key->name, name.p, name.len);
    if (!parse_weight(next_word(&line), &key->weight) || next_word(&line).len)
        return rf_fail(e, RF_EFORMAT,
                       "%s line %zu: expected nothing behind the name, or a weight of 1 to %d",
                       path, number, MAX_WEIGHT);
    return RF_OK;
}

rf_status rf_keys_parse(rf_keys **out, rf_str text, const char *path, rf_error *e) {
    *out = NULL;
    size_t n_lines = 1, number = 0;
    for (size_t i = 0; i < text.len; i++)
        n_lines += text.p[i] == '\n';
    rf_keys *k = rf_alloc(1, sizeof *k);
    if (k) k->keys = rf_alloc(n_lines < MAX_KEYS ? n_lines : MAX_KEYS, sizeof *k->keys);
    rf_status s = k && k->keys ? RF_OK : rf_fail_nomem(e, n_lines * sizeof *k->keys);
    while (s == RF_OK && text.len) {
        const char *end = memchr(text.p, '\n', text.len);
        size_t n = end ? (size_t)(end - text.p) : text.len;
        rf_str line = {text.p, n && text.p[n - 1] == '\r' ? n - 1 : n};
        text = (rf_str){text.p + n + (end != NULL), text.len - n - (end != NULL)};
        number++;
        rf_str rest = line;
        if (next_word(&rest).len == 0 || line.p[0] == '#') continue;
        if (k->n == MAX_KEYS)
            s = rf_fail(e, RF_EUNSUPPORTED, "%s: more than %d keys", path, MAX_KEYS);
        else
            s = parse_line(&k->keys[k->n++], line, path, number, e);
    }
    if (s == RF_OK && k->n == 0)
        s = rf_fail(e, RF_EFORMAT, "%s: there is no key in it; nobody could use the server", path);
    if (s == RF_OK)
        *out = k;
    else
        rf_keys_free(k);
    return s;
}

rf_status rf_keys_load(rf_keys **out, const char *path, rf_error *e) {
    uint8_t *bytes;
    size_t n;
    *out = NULL;
    RF_TRY(rf_file_read(path, MAX_FILE_BYTES, &bytes, &n, e));
    rf_status s = rf_keys_parse(out, (rf_str){(const char *)bytes, n}, path, e);
    rf_free(bytes);
    return s;
}

void rf_keys_part_prefixes(rf_keys *k) {
    static atomic_uint_fast64_t n_given;
    for (size_t i = 0; i < k->n; i++)
        k->keys[i].prefix_salt = atomic_fetch_add(&n_given, 1) + 1;
}

void rf_keys_free(rf_keys *k) {
    if (!k) return;
    rf_free(k->keys);
    rf_free(k);
}

const rf_key *rf_keys_find(const rf_keys *k, rf_str secret) {
    uint8_t sum[SUM_BYTES];
    const rf_key *found = NULL;
    if (gnutls_hash_fast(GNUTLS_DIG_SHA256, secret.p, secret.len, sum) != 0) return NULL;
    for (size_t i = 0; i < k->n; i++)
        if (gnutls_memcmp(k->keys[i].sum, sum, sizeof sum) == 0) found = &k->keys[i];
    return found;
}

bool rf_key_may(const rf_key *key, rf_scope scope) {
    return scope == RF_SCOPE_NONE || (key->scopes & ((unsigned)scope | RF_SCOPE_ADMIN)) != 0;
}
