/* utf8.c - strict UTF-8, after table 3-7 of the Unicode standard. */
#include "base/utf8.h"

/* Length that the lead byte announces, and the range its second byte must lie in; 0 = no lead. */
static int lead_length(unsigned char c, unsigned char *second_lo, unsigned char *second_hi) {
    *second_lo = 0x80;
    *second_hi = 0xBF;
    if (c < 0x80) return 1;
    if (c < 0xC2) return 0; /* continuation bytes, and C0 C1: overlong */
    if (c < 0xE0) return 2;
    if (c < 0xF0) {
        if (c == 0xE0) *second_lo = 0xA0; /* below: overlong */
        if (c == 0xED) *second_hi = 0x9F; /* above: surrogates */
        return 3;
    }
    if (c > 0xF4) return 0;
    if (c == 0xF0) *second_lo = 0x90; /* below: overlong */
    if (c == 0xF4) *second_hi = 0x8F; /* above: beyond U+10FFFF */
    return 4;
}

/* How many of the first n bytes fit one character; *need is its full length, 0 when none starts. */
static int match(const char *p, size_t n, int *need) {
    unsigned char lo, hi;
    *need = 0;
    if (n == 0) return 0;
    *need = lead_length((unsigned char)p[0], &lo, &hi);
    if (*need == 0) return 0;
    int got = 1;
    for (; got < *need && (size_t)got < n; got++) {
        unsigned char c = (unsigned char)p[got];
        if (c < lo || c > hi) break;
        lo = 0x80;
        hi = 0xBF;
    }
    return got;
}

int rf_utf8_decode(const char *p, size_t n, uint32_t *cp) {
    int need;
    *cp = 0xFFFD;
    if (match(p, n, &need) != need || need == 0) return 0;
    unsigned char lead = (unsigned char)p[0];
    static const unsigned char lead_mask[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t v = lead & lead_mask[need];
    for (int i = 1; i < need; i++) {
        v = v << 6 | ((unsigned char)p[i] & 0x3Fu);
    }
    *cp = v;
    return need;
}

int rf_utf8_encode(uint32_t cp, char out[4]) {
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) cp = 0xFFFD;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int len = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    static const uint32_t lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80u | (cp & 0x3Fu));
        cp >>= 6;
    }
    out[0] = (char)(lead[len] | cp);
    return len;
}

size_t rf_utf8_valid_prefix(const char *p, size_t n) {
    size_t i = 0;
    while (i < n) {
        if ((unsigned char)p[i] < 0x80) {
            i++;
            continue;
        }
        int need;
        if (match(p + i, n - i, &need) != need || need == 0) break;
        i += (size_t)need;
    }
    return i;
}

bool rf_utf8_is_partial(const char *p, size_t n) {
    int need;
    return n > 0 && (size_t)match(p, n, &need) == n && n < (size_t)need;
}
