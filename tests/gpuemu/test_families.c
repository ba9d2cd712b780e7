/* test_families.c - the emulator's arithmetic, memory and lane operations on eight architectures,
 * against the same expressions computed by the host's compiler. */
#include <math.h>

#include "base/fmath.h"
#include "gpuemu/fixture.h"

typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#include "gpuemu/cases.h"

#pragma GCC diagnostic ignored "-Wconversion" /* the expressions mix widths on purpose */
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wdouble-promotion"
#pragma GCC diagnostic ignored "-Wparentheses"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wshift-op-parentheses"
#pragma GCC diagnostic ignored "-Wbitwise-op-parentheses"
#endif

static i32 s(u32 v) { return (i32)v; }
static u32 absd(i32 v) { return v < 0 ? 0u - (u32)v : (u32)v; }
static u32 bswap(u32 v) { return __builtin_bswap32(v); }
static u32 min3(u32 a, u32 b, u32 c) { return a < b ? (a < c ? a : c) : (b < c ? b : c); }
static u32 max3(u32 a, u32 b, u32 c) { return a > b ? (a > c ? a : c) : (b > c ? b : c); }
static float fma_(float x, float y, float z) { return fmaf(x, y, z); }
static float abs_(float x) { return fabsf(x); }
static float sqrt_(float x) { return sqrtf(x); }
static float floor_(float x) { return floorf(x); }
static float ceil_(float x) { return ceilf(x); }
static float trunc_(float x) { return truncf(x); }
static float rint_(float x) { return rintf(x); }
static u32 half_bits(float x) { return rf_f32_to_f16(x); }
static float half(float x) { return rf_f16_to_f32(rf_f32_to_f16(x)); }

static __attribute__((no_sanitize("undefined"))) void host_int(u32 *y, u32 a, u32 b, u32 c) {
#define X(e) *y++ = (u32)(e);
    INT_CASES(X)
#undef X
}

static __attribute__((no_sanitize("undefined"))) void host_wide(u64 *y, u32 a, u32 b, u32 c) {
    u64 w = (u64)a << 32 | b;
#define X(e) *y++ = (u64)(e);
    WIDE_CASES(X)
#undef X
}

static __attribute__((no_sanitize("undefined"))) void host_float(float *out, u32 a, float x,
                                                                 float y, float z) {
#define X(e) *out++ = (e);
    FLOAT_CASES(X)
#undef X
}

static const char *const int_text[] = {
#define X(e) #e,
    INT_CASES(X)
#undef X
};
static const char *const wide_text[] = {
#define X(e) #e,
    WIDE_CASES(X)
#undef X
};
static const char *const float_text[] = {
#define X(e) #e,
    FLOAT_CASES(X)
#undef X
};

/* Inputs: random bits, small numbers, and the edges. */
static void fill_inputs(u32 *in, bool floats) {
    static const u32 edge[] = {0,          1,          2,          31,         32,
                               0xffff,     0x7fffffff, 0x80000000, 0x80000001, 0xffffffff,
                               0x00800000, 0x007fffff, 0x3f800000, 0xbf800000, 0x7f7fffff,
                               0x7f800000, 0xff800000, 0x477fe000};
    u64 seed = 7;
    for (u32 i = 0; i < 3 * N_THREADS; i++) {
        u64 r = rf_test_rand(&seed);
        u32 kind = (u32)(r >> 60);
        in[i] = (u32)r;
        if (kind < 3) in[i] = edge[(u32)r % RF_COUNT(edge)];
        if (kind >= 3 && kind < 6) in[i] = (u32)r & 1023;
        if (floats && kind >= 3 && kind < 12) { /* numbers of ordinary size */
            float f = (float)((double)(i32)(u32)r * 0x1p-28);
            memcpy(&in[i], &f, sizeof f);
        }
    }
}

static void test_integers(void **state) {
    (void)state;
    static u32 in[3 * N_THREADS], got[N_INT][N_THREADS], want[N_INT];
    fill_inputs(in, false);
    for (size_t a = 0; a < RF_COUNT(archs); a++) {
        rf_emu_module *m = open_arch(archs[a]);
        args k = {0};
        add_pointer(&k, got, sizeof got);
        add_pointer(&k, in, sizeof in);
        run_kernel(m, "t_int", N_THREADS / 128, 128, 0, &k, NULL);
        for (u32 i = 0; i < N_THREADS; i++) {
            host_int(want, in[3 * i], in[3 * i + 1], in[3 * i + 2]);
            for (u32 c = 0; c < N_INT; c++)
                if (got[c][i] != want[c])
                    fail_msg("%s: %s of %#x, %#x, %#x is %#x, expected %#x", archs[a], int_text[c],
                             in[3 * i], in[3 * i + 1], in[3 * i + 2], got[c][i], want[c]);
        }
        rf_emu_module_close(m);
    }
}

static void test_wide_integers(void **state) {
    (void)state;
    static u32 in[3 * N_THREADS];
    static u64 got[N_WIDE][N_THREADS], want[N_WIDE];
    fill_inputs(in, false);
    for (size_t a = 0; a < RF_COUNT(archs); a++) {
        rf_emu_module *m = open_arch(archs[a]);
        args k = {0};
        add_pointer(&k, got, sizeof got);
        add_pointer(&k, in, sizeof in);
        run_kernel(m, "t_wide", N_THREADS / 128, 128, 0, &k, NULL);
        for (u32 i = 0; i < N_THREADS; i++) {
            host_wide(want, in[3 * i], in[3 * i + 1], in[3 * i + 2]);
            for (u32 c = 0; c < N_WIDE; c++)
                if (got[c][i] != want[c])
                    fail_msg("%s: %s of %#x, %#x, %#x", archs[a], wide_text[c], in[3 * i],
                             in[3 * i + 1], in[3 * i + 2]);
        }
        rf_emu_module_close(m);
    }
}

/* Equal bits, or both NaN: IEEE leaves the bits of a NaN open. */
static void test_floats(void **state) {
    (void)state;
    static u32 in[3 * N_THREADS];
    static float got[N_FLOAT][N_THREADS], want[N_FLOAT];
    fill_inputs(in, true);
    for (size_t a = 0; a < RF_COUNT(archs); a++) {
        rf_emu_module *m = open_arch(archs[a]);
        args k = {0};
        add_pointer(&k, got, sizeof got);
        add_pointer(&k, in, sizeof in);
        run_kernel(m, "t_float", N_THREADS / 128, 128, 0, &k, NULL);
        for (u32 i = 0; i < N_THREADS; i++) {
            float f[3];
            memcpy(f, in + 3 * i, sizeof f);
            if (!(fabsf(f[0]) < 1e12f)) f[0] = 0.5f; /* a conversion to i32 must be defined */
            if (memcmp(f, in + 3 * i, 4)) continue;
            host_float(want, in[3 * i], f[0], f[1], f[2]);
            for (u32 c = 0; c < N_FLOAT; c++) {
                bool nan = got[c][i] != got[c][i] && want[c] != want[c];
                if (!nan && memcmp(&got[c][i], &want[c], 4))
                    fail_msg("%s: %s of %a, %a, %a is %a, expected %a", archs[a], float_text[c],
                             (double)f[0], (double)f[1], (double)f[2], (double)got[c][i],
                             (double)want[c]);
            }
        }
        rf_emu_module_close(m);
    }
}

static void test_scalar_unit(void **state) {
    (void)state;
    static u32 in[3 * N_THREADS], got[N_INT], want[N_INT];
    fill_inputs(in, false);
    for (size_t a = 0; a < RF_COUNT(archs); a++) {
        rf_emu_module *m = open_arch(archs[a]);
        for (u32 i = 0; i < 100; i++) {
            args k = {0};
            add_pointer(&k, got, sizeof got);
            for (u32 n = 0; n < 3; n++)
                add_number(&k, in[3 * i + n]);
            run_kernel(m, "t_scalar", 1, 1, 0, &k, NULL);
            host_int(want, in[3 * i], in[3 * i + 1], in[3 * i + 2]);
            for (u32 c = 0; c < N_INT; c++)
                if (got[c] != want[c])
                    fail_msg("%s: scalar %s of %#x, %#x, %#x is %#x, expected %#x", archs[a],
                             int_text[c], in[3 * i], in[3 * i + 1], in[3 * i + 2], got[c], want[c]);
        }
        rf_emu_module_close(m);
    }
}

/* ---- memory ---- */

static void test_widths(void **state) {
    (void)state;
    enum { N = 300 };
    static u8 x[64 * N], y[64 * N], want[64 * N];
    u64 seed = 3;
    for (size_t i = 0; i < sizeof x; i++)
        x[i] = (u8)rf_test_rand(&seed);
    memset(want, 0x55, sizeof want);
    for (u32 i = 0; i < N; i++) {
        u8 *w = want + 64 * i;
        const u8 *p = x + 64 * i;
        memcpy(w, p, 31);
        w[31] = 0x55;
        i32 byte = (i8)p[32];
        i16 word;
        u16 half_word;
        memcpy(&word, p + 36, 2);
        memcpy(&half_word, p + 40, 2);
        i32 wide = word;
        u32 both = (u32)half_word << 16 | p[42];
        memcpy(w + 32, &byte, 4);
        memcpy(w + 36, &wide, 4);
        memcpy(w + 40, &both, 4);
    }
    for (size_t a = 0; a < RF_COUNT(archs); a++) {
        rf_emu_module *m = open_arch(archs[a]);
        args k = {0};
        memset(y, 0x55, sizeof y);
        add_pointer(&k, y, sizeof y);
        add_pointer(&k, x, sizeof x);
        add_number(&k, N);
        run_kernel(m, "t_widths", 2, 256, 0, &k, NULL);
        assert_memory_equal(y, want, sizeof y);
        rf_emu_module_close(m);
    }
}

static void test_atomics(void **state) {
    (void)state;
    enum { BLOCKS = 6 };
    for (size_t a = 0; a < RF_COUNT(archs); a++) {
        rf_emu_module *m = open_arch(archs[a]);
        u32 y[6] __attribute__((aligned(8))) = {0}, lds[4 * BLOCKS] = {0};
        float f = 0;
        args k = {0}, l = {0};
        add_pointer(&k, y, sizeof y);
        add_pointer(&k, &f, sizeof f);
        run_kernel(m, "t_global_atomics", BLOCKS, 256, 0, &k, NULL);
        assert_int_equal(y[0], 256 * BLOCKS);
        assert_int_equal(y[1], 256 * BLOCKS - 1);
        assert_int_equal((i32)y[2], -(256 * BLOCKS - 1));
        assert_int_equal(y[3], 0xffffffff);
        u64 sum;
        memcpy(&sum, y + 4, sizeof sum);
        assert_true(sum == (u64)(256 * BLOCKS) << 30);
        assert_true(f == 64.0f * BLOCKS);
        add_pointer(&l, lds, sizeof lds);
        run_kernel(m, "t_lds_atomics", BLOCKS, 256, 0, &l, NULL);
        u32 bits = 0;
        for (u32 t = 0; t < 256; t++)
            bits ^= t * t;
        for (u32 b = 0; b < BLOCKS; b++) {
            assert_int_equal(lds[4 * b], 255 * 128);
            assert_int_equal(lds[4 * b + 1], 255 * 7);
            assert_int_equal(lds[4 * b + 2], 300 - 255);
            assert_int_equal(lds[4 * b + 3], bits);
        }
        rf_emu_module_close(m);
    }
}

static void test_lds(void **state) {
    (void)state;
    enum { BLOCKS = 5, N = 256 * BLOCKS };
    static u32 x[N], y[N], total[BLOCKS];
    u64 seed = 9;
    for (u32 i = 0; i < N; i++)
        x[i] = (u32)rf_test_rand(&seed);
    for (size_t a = 0; a < RF_COUNT(archs); a++) {
        rf_emu_module *m = open_arch(archs[a]);
        args k = {0}, c = {0};
        add_pointer(&k, y, sizeof y);
        add_pointer(&k, total, sizeof total);
        add_pointer(&k, x, sizeof x);
        memset(y, 0, sizeof y);
        run_kernel(m, "t_lds", BLOCKS, 256, 1024, &k, NULL);
        for (u32 b = 0; b < BLOCKS; b++) {
            u32 sum = 0;
            for (u32 i = 0; i < 256; i++) {
                assert_int_equal(y[256 * b + i], x[256 * b + 255 - i]);
                sum += x[256 * b + i];
            }
            assert_int_equal(total[b], sum);
        }
        add_pointer(&c, y, sizeof y);
        run_kernel(m, "t_constant", 1, 256, 0, &c, NULL);
        static const u32 table[] = {1, 20, 300, 4000};
        for (u32 i = 0; i < 256; i++)
            assert_int_equal(y[i], table[i & 3]);
        rf_emu_module_close(m);
    }
}

/* ---- lanes ---- */

/* What case c of t_lanes gives lane l of n; row: the lanes of 16 that DPP stays within. */
static u32 lane_case(u32 c, u32 l, u32 n, const u32 *v) {
    u32 row = l & ~15u, k = l & 15;
    u64 odd = 0;
    for (u32 q = 0; q < n; q++)
        odd |= (u64)(v[q] & 1) << q;
    switch (c) {
    case 0:
        return v[l ^ 5];
    case 1:
        return v[l ^ 9];
    case 2:
        return v[l ^ 1];
    case 3:
        return v[(l & ~3u) | (0x1b >> 2 * (l & 3) & 3)];
    case 4:
        return v[l ^ 1];
    case 5:
        return k ? v[l - 1] : 77;
    case 6:
        return k + 3 < 16 ? v[l + 3] : 0;
    case 7:
        return v[row | ((k - 4) & 15)];
    case 8:
        return v[row | (15 - k)];
    case 9:
        return v[(l & ~7u) | (7 - (l & 7))];
    case 10:
        return v[3];
    case 11:
        return v[0];
    case 12:
        return n == 32 ? v[l ^ 16] : v[l];
    case 13: /* picks 7 .. 0, then 15 .. 8 of the row of 16 */
        if (n == 64) return v[l];
        return v[row | (k < 8 ? 7 - k : 23 - k)];
    case 14:
        return (u32)odd;
    case 15:
        return (u32)(odd >> 32);
    default:
        return v[__builtin_ctzll(odd)];
    }
}

static void test_lanes(void **state) {
    (void)state;
    enum { N_CASES = 17 };
    for (size_t a = 0; a < RF_COUNT(archs); a++) {
        rf_emu_module *m = open_arch(archs[a]);
        u32 n = strncmp(archs[a], "gfx9", 4) ? 32 : 64;
        static u32 x[64], y[N_CASES][64];
        u64 seed = 11;
        for (u32 l = 0; l < 64; l++)
            x[l] = (u32)rf_test_rand(&seed);
        memset(y, 0, sizeof y);
        args k = {0};
        add_pointer(&k, y, sizeof y);
        add_pointer(&k, x, sizeof x);
        add_number(&k, n);
        run_kernel(m, "t_lanes", 1, n, 0, &k, NULL);
        for (u32 c = 0; c < N_CASES; c++)
            for (u32 l = 0; l < n; l++) {
                u32 want = c == 16 && !(x[l] & 1) ? 0 : lane_case(c, l, n, x);
                if (y[c][l] != want)
                    fail_msg("%s: lane case %u, lane %u: %#x, expected %#x", archs[a], c, l,
                             y[c][l], want);
            }
        rf_emu_module_close(m);
    }
}

/* ---- products ---- */

static void test_dot4(void **state) {
    (void)state;
    static i8 a[1024], b[1024];
    static i32 c[256], y[256];
    u64 seed = 5;
    for (u32 i = 0; i < 1024; i++) {
        a[i] = (i8)rf_test_rand(&seed);
        b[i] = (i8)rf_test_rand(&seed);
        c[i / 4] = (i32)(rf_test_rand(&seed) >> 40);
    }
    for (size_t r = 0; r < RF_COUNT(archs); r++) {
        rf_emu_module *m = open_arch(archs[r]);
        args k = {0};
        add_pointer(&k, y, sizeof y);
        add_pointer(&k, a, sizeof a);
        add_pointer(&k, b, sizeof b);
        add_pointer(&k, c, sizeof c);
        run_kernel(m, "t_dot4", 1, 256, 0, &k, NULL);
        for (u32 i = 0; i < 256; i++) {
            i32 want = c[i];
            for (u32 j = 4 * i; j < 4 * i + 4; j++)
                want += a[j] * b[j];
            assert_int_equal(y[i], want);
        }
        rf_emu_module_close(m);
    }
}

/* Small whole numbers, so that every order of summation gives the same f32. */
static void test_matrices(void **state) {
    (void)state;
    static i8 a[16][32], b[16][32];
    static u16 ha[16][16], hb[16][16];
    static i32 y[16][16];
    static float f[16][16];
    u64 seed = 6;
    for (u32 r = 0; r < 16; r++)
        for (u32 c = 0; c < 32; c++) {
            a[r][c] = (i8)rf_test_rand(&seed);
            b[r][c] = (i8)rf_test_rand(&seed);
            if (c >= 16) continue;
            ha[r][c] = rf_f32_to_f16((float)(a[r][c] / 8));
            hb[r][c] = rf_f32_to_f16((float)(b[r][c] / 8));
        }
    for (size_t k = 0; k < RF_COUNT(archs); k++) {
        rf_emu_module *m = open_arch(archs[k]);
        u32 n = strncmp(archs[k], "gfx9", 4) ? 32 : 64;
        args i = {0}, h = {0};
        add_pointer(&i, y, sizeof y);
        add_pointer(&i, a, sizeof a);
        add_pointer(&i, b, sizeof b);
        run_kernel(m, "t_matrix_i8", 1, n, 0, &i, NULL);
        add_pointer(&h, f, sizeof f);
        add_pointer(&h, ha, sizeof ha);
        add_pointer(&h, hb, sizeof hb);
        run_kernel(m, "t_matrix_f16", 1, n, 0, &h, NULL);
        for (u32 r = 0; r < 16; r++)
            for (u32 c = 0; c < 16; c++) {
                i32 sum = 0, halves = 0;
                for (u32 j = 0; j < 32; j++)
                    sum += a[r][j] * b[c][j];
                for (u32 j = 0; j < 16; j++)
                    halves += (a[r][j] / 8) * (b[c][j] / 8);
                if (y[r][c] != sum || f[r][c] != (float)halves)
                    fail_msg("%s: product at %u, %u", archs[k], r, c);
            }
        rf_emu_module_close(m);
    }
}

/* The same with 32 rows, onto what is there already. */
static void test_wide_matrices(void **state) {
    (void)state;
    static i8 a[32][64], b[32][64];
    static i32 c[32][32], y[32][32];
    u64 seed = 7;
    for (u32 r = 0; r < 32; r++)
        for (u32 k = 0; k < 64; k++) {
            a[r][k] = (i8)rf_test_rand(&seed);
            b[r][k] = (i8)rf_test_rand(&seed);
            c[r][k / 2] = (i32)(rf_test_rand(&seed) >> 40);
        }
    for (size_t k = 0; k < RF_COUNT(archs); k++) {
        rf_emu_module *m = open_arch(archs[k]);
        args i = {0};
        add_pointer(&i, y, sizeof y);
        add_pointer(&i, a, sizeof a);
        add_pointer(&i, b, sizeof b);
        add_pointer(&i, c, sizeof c);
        run_kernel(m, "t_matrix_wide", 1, strncmp(archs[k], "gfx9", 4) ? 32 : 64, 0, &i, NULL);
        for (u32 r = 0; r < 32; r++)
            for (u32 n = 0; n < 32; n++) {
                i32 want = c[r][n];
                for (u32 j = 0; j < 64; j++)
                    want += a[r][j] * b[n][j];
                if (y[r][n] != want) fail_msg("%s: product at %u, %u", archs[k], r, n);
            }
        rf_emu_module_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),      cmocka_unit_test(test_wide_integers),
        cmocka_unit_test(test_floats),        cmocka_unit_test(test_scalar_unit),
        cmocka_unit_test(test_widths),        cmocka_unit_test(test_atomics),
        cmocka_unit_test(test_lds),           cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_dot4),          cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_wide_matrices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
