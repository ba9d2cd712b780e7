/* encode_ternary.c - TQ1_0 and TQ2_0: -d, 0 or d, the d of least error.
 *
 * With the magnitudes in falling order, the k largest become +-d for some k, and the best d for a
 * given k is their weighted mean; so all 256 k are looked at and the optimum is exact. */
#include "base/fmath.h"
#include "quant/encode.h"

typedef struct item {
    float magnitude, w;
} item;

/* Falling order, stable; shell sort is enough for 256. */
static void sort(item *p, int n) {
    for (int gap = 121; gap > 0; gap /= 3)
        for (int i = gap; i < n; i++) {
            item v = p[i];
            int j = i;
            for (; j >= gap && p[j - gap].magnitude < v.magnitude; j -= gap)
                p[j] = p[j - gap];
            p[j] = v;
        }
}

static float best_d(const rf_enc_block *b) {
    item items[256];
    float sum = 0, weight = 0, best = 0, best_gain = 0;
    for (int i = 0; i < 256; i++)
        items[i] = (item){b->x[i] < 0 ? -b->x[i] : b->x[i], b->w[i]};
    sort(items, 256);
    for (int k = 0; k < 256; k++) {
        sum += items[k].w * items[k].magnitude;
        weight += items[k].w;
        float gain = sum * sum / weight; /* how much less error than with zeros only */
        if (gain > best_gain) {
            best_gain = gain;
            best = sum / weight;
        }
    }
    return best;
}

static float codes_for(const rf_enc_block *b, uint16_t h, uint8_t *t) {
    float d = rf_enc_of_half(b, h), half = 0.5f * d, err = 0;
    for (int i = 0; i < 256; i++) {
        int q = d > 0 ? (b->x[i] > half) - (b->x[i] < -half) : 0;
        float r = b->x[i] - d * (float)q;
        err += b->w[i] * r * r;
        t[i] = (uint8_t)(q + 1);
    }
    return err;
}

/* t[256]: 0, 1, 2 for -d, 0, d; returns d. */
static uint16_t encode_block(const float *src, const float *importance, uint8_t *t) {
    rf_enc_block b;
    uint8_t other[256];
    memset(t, 1, 256);
    if (!rf_enc_load(&b, src, importance, 256)) return 0;
    uint16_t best = rf_enc_half(&b, best_d(&b)), h = best;
    float err = codes_for(&b, best, t);
    for (int step = -1; step <= 1; step += 2) {
        int beside = h + step;
        if (beside < 0 || beside > 0x7bff) continue;
        float now = codes_for(&b, (uint16_t)beside, other);
        if (!(now < err)) continue;
        err = now;
        best = (uint16_t)beside;
        memcpy(t, other, 256);
    }
    return best;
}

/* The digits t[0], t[stride], ... as a fraction of 256 in base 3, rounded up. */
static uint8_t trits(const uint8_t *t, int stride, int n_digits) {
    unsigned v = 0;
    for (int i = 0; i < 5; i++)
        v = 3 * v + (i < n_digits ? t[i * stride] : 0);
    return (uint8_t)((v * 256 + 242) / 243);
}

void rf_encode_tq1_0(const float *src, void *dst, size_t n, const float *importance) {
    rf_block_tq1_0 *b = (rf_block_tq1_0 *)dst;
    for (size_t g = 0; g < n / 256; g++) {
        uint8_t t[256];
        rf_store_u16(b[g].d,
                     encode_block(src + 256 * g, importance ? importance + 256 * g : NULL, t));
        for (int l = 0; l < 32; l++)
            b[g].qs[l] = trits(t + l, 32, 5);
        for (int l = 0; l < 16; l++)
            b[g].qs[32 + l] = trits(t + 160 + l, 16, 5);
        for (int l = 0; l < 4; l++)
            b[g].qh[l] = trits(t + 240 + l, 4, 4);
    }
}

void rf_encode_tq2_0(const float *src, void *dst, size_t n, const float *importance) {
    rf_block_tq2_0 *b = (rf_block_tq2_0 *)dst;
    for (size_t g = 0; g < n / 256; g++) {
        uint8_t t[256];
        rf_store_u16(b[g].d,
                     encode_block(src + 256 * g, importance ? importance + 256 * g : NULL, t));
        for (int h = 0; h < 2; h++)
            for (int l = 0; l < 32; l++) {
                const uint8_t *p = t + 128 * h + l;
                b[g].qs[32 * h + l] = (uint8_t)(p[0] | p[32] << 2 | p[64] << 4 | p[96] << 6);
            }
    }
}
