/* attend_wave.h - what the attention kernels on AMD's matrix units share (attend_halves_wave.hip,
 * attend_halves_wave_tile.hip, attend_ints_wave.hip): what a lane has of scores and exponentials, and of sixteen
 * bits how a wave multiplies by half.h's rule.
 *
 * Items, with their queries and then their exponentials, are an instruction's weight rows (matrix.h), keys
 * and then columns of values its activation rows: so a lane has one item, number lane % 16, with the lanes
 * 16 apart.  Of each sixteen columns of a query or a key, and of each sixteen keys, MATRIX_OUT are the lane's
 * own.  Its keys lie as far apart as lanes share an item: their exponentials are the first that are added up,
 * and what the lane brings for weighted values. */
#pragma once
#include "backend/gpu/kernels/half.h"
#include "backend/gpu/kernels/span.h"

#if defined(RF_MATRIX)
enum {
    WAVE_APART = 16 / MATRIX_OUT, /* lanes that share an item */
    WAVE_KEYS = 2 * MATRIX_OUT,   /* of a block that are the lane's own */
    WAVE_OWN = MATRIX_OUT / 2,    /* words of the lane's own of sixteen columns or keys */
    WAVE_STEPS = RF_ATTEND_HALVES_DIM / 16,
#if defined(RF_MFMA)
    WAVE_ALIGN = 8, /* bytes of what a lane brings of sixteen columns, at most 16 */
#else
    WAVE_ALIGN = 16,
#endif
};

/* Columns of a head and their format, which are constants. */
typedef struct wave_kind {
    uint32_t dim, form;
} wave_kind;

/* v, which the compiler does not know to be the same in each turn of a loop: else it would keep every
 * address that is made of it in a register of its own. */
RF_DEVICE uint32_t wave_anew(uint32_t v) {
    asm volatile("" : "+v"(v));
    return v;
}
/* The same, not before word has been made: what v is an address of is not read earlier. */
RF_DEVICE uint32_t wave_after(uint32_t v, uint32_t word) {
    asm volatile("" : "+v"(v) : "v"(word));
    return v;
}
/* Is made here, not where it is used: what it is made of would take more registers until then. */
RF_DEVICE void wave_make(matrix_floats *x) { asm volatile("" : "+v"(*x)); }

RF_DEVICE uint32_t wave_lane(void) { return rf_tid() % MATRIX_LANES; }

/* The key, of sixteen, that is activation row number row. */
RF_DEVICE uint32_t wave_key(uint32_t row) {
    return row / MATRIX_OUT + row % MATRIX_OUT * WAVE_APART;
}

/* Words, as the alignment of a lane's own has them. */
RF_DEVICE void wave_read(uint32_t *to, const void *from, uint32_t n_words) {
    __builtin_memcpy(to, __builtin_assume_aligned(from, WAVE_ALIGN), 4 * n_words);
}

/* What the lane that is 16 or 32 further, of those that share an item, has. */
RF_DEVICE uint32_t wave_lane_xor(uint32_t v, uint32_t mask) {
#if defined(RF_MFMA)
    if (mask == 16) return rf_lane_xor(v, mask);
    return (uint32_t)__builtin_amdgcn_ds_bpermute((int)(4 * (wave_lane() ^ mask)), (int)v);
#else
    (void)mask;
    return __builtin_amdgcn_permlanex16(v, v, 0x76543210, 0xfedcba98, false, false);
#endif
}

/* What an instruction takes of the lanes' own of sixteen: on gfx11 both lanes bring all. */
RF_DEVICE void wave_whole(uint32_t to[MATRIX_HALF_WORDS], const uint32_t own[WAVE_OWN]) {
    RF_UNROLL
    for (uint32_t i = 0; i < WAVE_OWN; i++) {
#if defined(__GFX11__)
        const uint32_t other = wave_lane_xor(own[i], 16);
        const int is_low = wave_lane() < 16;
        to[i] = is_low ? own[i] : other;
        to[WAVE_OWN + i] = is_low ? other : own[i];
#else
        to[i] = own[i];
#endif
    }
}

/* Do all lanes say so? */
RF_DEVICE int wave_all(int is_so) {
#if defined(RF_MFMA)
    return __builtin_amdgcn_ballot_w64(!is_so) == 0;
#else
    return __builtin_amdgcn_ballot_w32(!is_so) == 0;
#endif
}

/* Scores and weights -----------------------------------------------------------------------------*/

/* Score after score, so that there is little code: they pass by. */
RF_DEVICE void wave_softcap(float s[2][MATRIX_OUT], float softcap) {
    const uint32_t n = 2 * MATRIX_OUT;
    RF_NO_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        const float x = softcap * rf_tanh32(s[0][0] / softcap);
        RF_UNROLL
        for (uint32_t k = 1; k < n; k++)
            s[(k - 1) / MATRIX_OUT][(k - 1) % MATRIX_OUT] = s[k / MATRIX_OUT][k % MATRIX_OUT];
        s[1][MATRIX_OUT - 1] = x;
    }
}

/* What is not visible.  bits: the visible keys, from the lane's first on. */
RF_DEVICE void wave_hide(float s[2][MATRIX_OUT], uint32_t bits, float with) {
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * MATRIX_OUT; i++)
        if (!(bits >> (i / MATRIX_OUT * 16 + i % MATRIX_OUT * WAVE_APART) & 1))
            s[i / MATRIX_OUT][i % MATRIX_OUT] = with;
}

/* The largest of an item's scores that is a number. */
RF_DEVICE float wave_most(const float s[2][MATRIX_OUT]) {
    float most = -__builtin_inff();
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * MATRIX_OUT; i++) {
        most = __builtin_fmaxf(most, s[i / MATRIX_OUT][i % MATRIX_OUT]);
    }
    RF_UNROLL
    for (uint32_t mask = MATRIX_LANES / 2; mask >= 16; mask /= 2) {
        most = __builtin_fmaxf(most, rf_float_of(wave_lane_xor(rf_bits_of(most), mask)));
    }
    return most;
}

/* The largest of an item's words. */
RF_DEVICE uint32_t wave_most_word(uint32_t most) {
    RF_UNROLL
    for (uint32_t mask = MATRIX_LANES / 2; mask >= 16; mask /= 2) {
        const uint32_t other = wave_lane_xor(most, mask);
        most = other > most ? other : most;
    }
    return most;
}

/* The sum of an item's exponentials: keys 16 apart first, neighbours last. */
RF_DEVICE float wave_tree(const float p[2][MATRIX_OUT]) {
    float sum[MATRIX_OUT];
    RF_UNROLL
    for (uint32_t i = 0; i < MATRIX_OUT; i++)
        sum[i] = p[0][i] + p[1][i];
    RF_UNROLL
    for (uint32_t half = MATRIX_OUT / 2; half > 0; half /= 2) {
        RF_UNROLL
        for (uint32_t i = 0; i < half; i++)
            sum[i] += sum[i + half];
    }
    RF_UNROLL
    for (uint32_t mask = MATRIX_LANES / 2; mask >= 16; mask /= 2)
        sum[0] += rf_float_of(wave_lane_xor(rf_bits_of(sum[0]), mask));
    return sum[0];
}

/* A block's maximum and sum, and its exponentials as an instruction takes them. */
typedef struct wave_part {
    float m, l;
    uint32_t p[2][MATRIX_HALF_WORDS];
} wave_part;

/* Of the lane's scores, which are to be multiplied with unit.  bits: the keys that the item sees, all where
 * is_whole; mask: what is added, for each key of the block, or NULL.  Where no score is a number no key has a
 * weight, but the sum is none either. */
RF_DEVICE wave_part wave_soften(float s[2][MATRIX_OUT], const rf_gpu_attend_args *a, float unit,
                                uint32_t bits, int is_whole, const float *mask, wave_kind kind) {
    const uint32_t first = wave_anew(wave_lane()) / 16, own = bits >> first;
    wave_part part;
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * MATRIX_OUT; i++)
        s[i / MATRIX_OUT][i % MATRIX_OUT] *= unit;
    if (a->softcap > 0) wave_softcap(s, a->softcap);
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * MATRIX_OUT; i++) {
        const uint32_t apart = i / MATRIX_OUT * 16 + i % MATRIX_OUT * WAVE_APART;
        if (mask && own >> apart & 1) s[i / MATRIX_OUT][i % MATRIX_OUT] += mask[first + apart];
    }
    if (!is_whole) wave_hide(s, own, -__builtin_inff());
    part.m = wave_most(s);
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * MATRIX_OUT; i++) {
        float *x = &s[i / MATRIX_OUT][i % MATRIX_OUT];
        *x = rf_exp32_down(*x - part.m);
    }
    if (!is_whole) wave_hide(s, own, 0.0f);
    part.l = wave_tree(s);
    if (part.m == -__builtin_inff()) wave_hide(s, 0, 0.0f);
    RF_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t words[WAVE_OWN];
        RF_UNROLL
        for (uint32_t i = 0; i < WAVE_OWN; i++)
            words[i] = half_two(s[h][2 * i], s[h][2 * i + 1], kind.form);
        wave_whole(part.p[h], words);
    }
    return part;
}

/* The lower or the upper halves of two words. */
RF_DEVICE uint32_t wave_two_of(uint32_t a, uint32_t b, uint32_t is_upper) {
    return rf_four_bytes(a, b, is_upper ? 0x7632 : 0x5410);
}
#endif
