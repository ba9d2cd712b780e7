/* test_vec.c - the CPU kernels beside the matrix product: every instruction set that this machine has
 * against the scalar one bit by bit, and the scalar one against double.
 *
 * Inputs end where an unreadable page begins; outputs are followed by bytes that must not change. */
#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cpu/attend.h"
#include "backend/cpu/kernels.h"
#include "base/fmath.h"
#include "lib/testlib.h"

enum { FENCE = 32 };

static rf_cpu_kernels level_kernels(rf_isa isa) {
    rf_cpu_kernels k = {.isa = isa};
    rf_cpu_vec_scalar(&k);
#if defined(__x86_64__)
    if (isa >= RF_ISA_AVX2) rf_cpu_vec_avx2(&k);
    if (isa >= RF_ISA_AVX512) rf_cpu_vec_avx512(&k);
#elif defined(__aarch64__)
    if (isa >= RF_ISA_NEON) rf_cpu_vec_neon(&k);
#endif
    return k;
}

/* n floats followed by a fence; the memory is the caller's to free. */
static float *fenced(size_t n) {
    float *p = rf_alloc(n * sizeof(float) + FENCE, 1);
    assert_non_null(p);
    memset(p, 0xA5, n * sizeof(float) + FENCE);
    return p;
}

static void check_fence(const void *behind) {
    const uint8_t *p = behind;
    for (int i = 0; i < FENCE; i++)
        assert_int_equal(p[i], 0xA5);
}

/* Same bits, or both NaN. */
static void assert_same(const float *a, const float *b, size_t n, const char *what, size_t id) {
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&a[i], &b[i], sizeof a[i]) == 0 || (isnan(a[i]) && isnan(b[i]))) continue;
        fail_msg("%s, case %zu, element %zu of %zu: %.9g, expected %.9g", what, id, i, n,
                 (double)a[i], (double)b[i]);
    }
}

static void assert_close(double got, double want, double tolerance, const char *what) {
    if (fabs(got - want) <= tolerance) return;
    fail_msg("%s: %.9g, expected %.9g within %g", what, got, want, tolerance);
}

static rf_guarded noise(uint64_t *seed, size_t n, float scale) {
    float *p = rf_alloc(n, sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = rf_test_randf(seed) * scale;
    rf_guarded g = rf_guard(p, n * sizeof *p);
    rf_free(p);
    return g;
}

static const float *floats(const rf_guarded *g) { return (const float *)(const void *)g->p; }

/* The values at which an exponential or a conversion does something special. */
static const float edges[] = {
    0.0f,     -0.0f,     1.0f,    -1.0f,        87.3f,    -87.3f,  88.3f,   -88.3f,  88.8f,
    -88.8f,   104.0f,    -104.0f, 1e-38f,       -1e-38f,  1e-45f,  -1e-45f, 3.4e38f, -3.4e38f,
    INFINITY, -INFINITY, NAN,     65504.f,      65519.f,  65520.f, 65536.f, 6.1e-5f, 6.0e-8f,
    2.9e-8f,  3e-8f,     0.333f,  -0.69314718f, 0.34657f, 2049.0f, 2051.0f, 1e30f};

static const size_t lengths[] = {1,  2,  3,  4,  5,  7,  8,  9,  12,  15,  16,  17,  23,
                                 24, 31, 32, 33, 48, 63, 64, 65, 100, 172, 896, 4096};

static void test_rms_norm(void **state) {
    (void)state;
    rf_cpu_kernels scalar = level_kernels(RF_ISA_SCALAR);
    uint64_t seed = 1;
    for (size_t c = 0; c < RF_COUNT(lengths); c++) {
        size_t n = lengths[c];
        rf_guarded x = noise(&seed, n, 3.0f), w = noise(&seed, n, 2.0f);
        float *want = fenced(n), *got = fenced(n);
        scalar.rms_norm(want, floats(&x), floats(&w), n, 1e-5f);
        double ss = 0;
        for (size_t i = 0; i < n; i++)
            ss += (double)floats(&x)[i] * (double)floats(&x)[i];
        double r = 1 / sqrt(ss / (double)n + (double)1e-5f);
        for (size_t i = 0; i < n; i++) {
            double exact = (double)floats(&x)[i] * r * (double)floats(&w)[i];
            assert_close((double)want[i], exact, 1e-6 * fabs(exact) + 1e-12, "rms_norm");
        }
        check_fence(want + n);
        for (rf_isa isa = RF_ISA_SCALAR + 1; isa <= rf_isa_best(); isa++) {
            rf_cpu_kernels k = level_kernels(isa);
            k.rms_norm(got, floats(&x), floats(&w), n, 1e-5f);
            assert_same(got, want, n, rf_isa_name(isa), n);
            check_fence(got + n);
            memcpy(got, floats(&x), n * sizeof *got); /* in place, as for heads */
            k.rms_norm(got, got, floats(&w), n, 1e-5f);
            assert_same(got, want, n, rf_isa_name(isa), n);
        }
        rf_free(want);
        rf_free(got);
        rf_guard_free(&x);
        rf_guard_free(&w);
    }
}

/* One head by the definition, in double. */
static void rotate_exact(const float *x, double *out, uint32_t head_dim, const rf_rope *rope,
                         const float *cs) {
    uint32_t half = rope->n_dims / 2;
    for (uint32_t i = 0; i < head_dim; i++)
        out[i] = (double)x[i];
    for (uint32_t i = 0; i < half; i++) {
        uint32_t a = rope->kind == RF_ROPE_NEOX ? i : 2 * i;
        uint32_t b = rope->kind == RF_ROPE_NEOX ? i + half : 2 * i + 1;
        double c = (double)cs[2 * i], s = (double)cs[2 * i + 1];
        out[a] = (double)x[a] * c - (double)x[b] * s;
        out[b] = (double)x[a] * s + (double)x[b] * c;
    }
}

/* req: B-69 (angles far from the identity of position 0) */
static void test_rope(void **state) {
    (void)state;
    static const uint32_t shapes[][2] = {/* head_dim, n_dims */ {2, 2},
                                         {4, 4},
                                         {8, 8},
                                         {8, 6},
                                         {16, 16},
                                         {20, 14},
                                         {32, 32},
                                         {48, 40},
                                         {64, 64},
                                         {80, 32},
                                         {96, 96},
                                         {128, 128},
                                         {128, 64}};
    rf_cpu_kernels scalar = level_kernels(RF_ISA_SCALAR);
    uint64_t seed = 2;
    for (size_t c = 0; c < 3 * RF_COUNT(shapes); c++) {
        uint32_t dim = shapes[c / 3][0], n_dims = shapes[c / 3][1], heads = 3;
        rf_rope rope = {.kind = (rf_rope_kind)(c % 3), .n_dims = n_dims, .magnitude = 1.0f};
        rf_guarded x = noise(&seed, (size_t)heads * dim, 2.0f), cs = noise(&seed, n_dims, 1.0f);
        size_t n = (size_t)heads * dim;
        float *want = fenced(n), *got = fenced(n);
        double exact[128];
        memcpy(want, x.p, x.n);
        scalar.rope(want, heads, dim, &rope, floats(&cs));
        for (uint32_t h = 0; h < heads; h++) {
            const float *from = floats(&x) + (size_t)h * dim;
            rf_rope kind = rope;
            if (rope.kind == RF_ROPE_NONE) kind.n_dims = 0;
            rotate_exact(from, exact, dim, &kind, floats(&cs));
            for (uint32_t i = 0; i < dim; i++) {
                assert_close((double)want[h * dim + i], exact[i], 5e-7, "rope");
            }
        }
        for (rf_isa isa = RF_ISA_SCALAR + 1; isa <= rf_isa_best(); isa++) {
            rf_cpu_kernels k = level_kernels(isa);
            memcpy(got, x.p, x.n);
            k.rope(got, heads, dim, &rope, floats(&cs));
            assert_same(got, want, n, rf_isa_name(isa), c);
            check_fence(got + n);
        }
        check_fence(want + n);
        rf_free(want);
        rf_free(got);
        rf_guard_free(&x);
        rf_guard_free(&cs);
    }
}

/* The element-wise kernels by number, for comparing instruction sets. */
enum { GLU_KINDS = RF_ACT_SWIGLU_OAI + 1, ELEMENT_KINDS = 2 * GLU_KINDS + 4 };

static void run_kind(const rf_cpu_kernels *k, int kind, float *dst, const float *a, const float *b,
                     size_t n) {
    if (kind < GLU_KINDS) {
        k->glu((rf_act)kind, dst, a, b, n);
    } else if (kind < 2 * GLU_KINDS) {
        k->act((rf_act)(kind - GLU_KINDS), dst, a, n);
    } else if (kind == 2 * GLU_KINDS) {
        k->add(dst, a, b, n);
    } else if (kind == 2 * GLU_KINDS + 1) {
        k->mul(dst, a, b, n);
    } else if (kind == 2 * GLU_KINDS + 2) {
        k->scale(dst, a, 0.37f, n);
    } else {
        k->softcap(dst, a, 30.0f, n);
    }
}

/* What they should give, from libm. */
static double exact_act(rf_act act, double x) {
    switch (act) {
    case RF_ACT_SILU:
        return x / (1 + exp(-x));
    case RF_ACT_GELU:
        return 0.5 * x * erfc(-x / sqrt(2));
    case RF_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3))));
    case RF_ACT_RELU:
        return fmax(x, 0);
    case RF_ACT_RELU2:
        return pow(fmax(x, 0), 2);
    case RF_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    case RF_ACT_SWIGLU_OAI:
        return x;
    }
    return (double)NAN;
}

static double exact_kind(int kind, double a, double b) {
    double g = fmin(a, 7), u = fmax(fmin(b, 7), -7);
    if (kind == RF_ACT_SWIGLU_OAI) return g / (1 + exp(-1.702 * g)) * (u + 1);
    if (kind < GLU_KINDS) return exact_act((rf_act)kind, a) * b;
    if (kind < 2 * GLU_KINDS) return exact_act((rf_act)(kind - GLU_KINDS), a);
    if (kind == 2 * GLU_KINDS) return a + b;
    if (kind == 2 * GLU_KINDS + 1) return a * b;
    return kind == 2 * GLU_KINDS + 2 ? a * (double)0.37f : 30 * tanh(a / 30);
}

/* exact: compare with libm as well. */
static void check_elementwise(const rf_guarded *a, const rf_guarded *b, size_t n, bool exact) {
    rf_cpu_kernels scalar = level_kernels(RF_ISA_SCALAR);
    float *want = fenced(n), *got = fenced(n);
    for (int kind = 0; kind < ELEMENT_KINDS; kind++) {
        run_kind(&scalar, kind, want, floats(a), floats(b), n);
        check_fence(want + n);
        for (rf_isa isa = RF_ISA_SCALAR; isa <= rf_isa_best(); isa++) {
            rf_cpu_kernels k = level_kernels(isa);
            memcpy(got, a->p, a->n); /* in place */
            run_kind(&k, kind, got, got, floats(b), n);
            assert_same(got, want, n, rf_isa_name(isa), (size_t)kind);
            check_fence(got + n);
        }
        for (size_t i = 0; i < n && exact; i++) {
            double x = (double)floats(a)[i], u = (double)floats(b)[i], size = fabs(x);
            if (kind < GLU_KINDS) size *= fabs(u) + 1;
            assert_close((double)want[i], exact_kind(kind, x, u), 5e-7 * (1 + size), "element");
        }
    }
    rf_free(want);
    rf_free(got);
}

static void test_elementwise(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (size_t c = 0; c < RF_COUNT(lengths); c++) {
        rf_guarded a = noise(&seed, lengths[c], c % 2 ? 100.0f : 8.0f);
        rf_guarded b = noise(&seed, lengths[c], 9.0f);
        check_elementwise(&a, &b, lengths[c], c % 2 == 0);
        rf_guard_free(&a);
        rf_guard_free(&b);
    }
    rf_guarded a = rf_guard(edges, sizeof edges), b = noise(&seed, RF_COUNT(edges), 1.0f);
    check_elementwise(&a, &b, RF_COUNT(edges), false);
    rf_guard_free(&a);
    rf_guard_free(&b);
}

/* dst += x * scale, as one fma each. */
static void test_add_scaled(void **state) {
    (void)state;
    uint64_t seed = 8;
    for (size_t c = 0; c < RF_COUNT(lengths); c++) {
        size_t n = lengths[c];
        rf_guarded x = noise(&seed, n, 3.0f), y = noise(&seed, n, 2.0f);
        float *got = fenced(n);
        for (rf_isa isa = RF_ISA_SCALAR; isa <= rf_isa_best(); isa++) {
            rf_cpu_kernels k = level_kernels(isa);
            memcpy(got, y.p, y.n);
            k.add_scaled(got, floats(&x), 0.7f, n);
            for (size_t i = 0; i < n; i++)
                assert_true(got[i] == fmaf(floats(&x)[i], 0.7f, floats(&y)[i]));
            check_fence(got + n);
        }
        rf_free(got);
        rf_guard_free(&x);
        rf_guard_free(&y);
    }
}

/* With and without weight and bias, far from zero mean. */
static void test_layer_norm(void **state) {
    (void)state;
    rf_cpu_kernels scalar = level_kernels(RF_ISA_SCALAR);
    uint64_t seed = 9;
    for (size_t c = 0; c < 4 * RF_COUNT(lengths); c++) {
        size_t n = lengths[c / 4];
        rf_guarded x = noise(&seed, n, 3.0f), w = noise(&seed, n, 2.0f), b = noise(&seed, n, 1.0f);
        const float *wp = c & 1 ? floats(&w) : NULL, *bp = c & 2 ? floats(&b) : NULL;
        float *want = fenced(n), *got = fenced(n);
        scalar.layer_norm(want, floats(&x), wp, bp, n, 1e-5f);
        double mean = 0, square = 0;
        for (size_t i = 0; i < n; i++)
            mean += (double)floats(&x)[i] / (double)n;
        for (size_t i = 0; i < n; i++)
            square += pow((double)floats(&x)[i] - mean, 2) / (double)n;
        for (size_t i = 0; i < n; i++) {
            double exact = ((double)floats(&x)[i] - mean) / sqrt(square + (double)1e-5f);
            exact = exact * (wp ? (double)wp[i] : 1) + (bp ? (double)bp[i] : 0);
            /* one element alone is all mean: its distance from that is rounding, times 1/sqrt(eps) */
            assert_close((double)want[i], exact, n == 1 ? 1e-3 : 3e-5, "layer_norm");
        }
        check_fence(want + n);
        for (rf_isa isa = RF_ISA_SCALAR + 1; isa <= rf_isa_best(); isa++) {
            rf_cpu_kernels k = level_kernels(isa);
            memcpy(got, floats(&x), n * sizeof *got);
            k.layer_norm(got, got, wp, bp, n, 1e-5f);
            assert_same(got, want, n, rf_isa_name(isa), n);
            check_fence(got + n);
        }
        rf_free(want);
        rf_free(got);
        rf_guard_free(&x);
        rf_guard_free(&w);
        rf_guard_free(&b);
    }
}

/* Every half, its neighbours and the ties between, and noise. */
static void test_f32_to_f16(void **state) {
    (void)state;
    enum { N = 3 * 65536 };
    float *x = rf_alloc(N, sizeof *x);
    uint16_t *got = rf_alloc(N + FENCE, sizeof *got);
    assert_non_null(x);
    assert_non_null(got);
    for (uint32_t i = 0; i < 65536; i++) {
        float f = rf_f16_to_f32((uint16_t)i), g = rf_f16_to_f32((uint16_t)(i + 1));
        x[3 * i] = f;
        x[3 * i + 1] = isfinite(f) && isfinite(g) ? (f + g) / 2 : f;
        x[3 * i + 2] = nextafterf(x[3 * i + 1], i % 2 ? INFINITY : -INFINITY);
    }
    for (rf_isa isa = RF_ISA_SCALAR; isa <= rf_isa_best(); isa++) {
        rf_cpu_kernels k = level_kernels(isa);
        for (size_t n = 1; n < 40; n++) { /* ends of rows */
            memset(got, 0xA5, (n + FENCE) * sizeof *got);
            rf_guarded g = rf_guard(x + 1000 * n, n * sizeof *x);
            k.f32_to_f16(got, floats(&g), n);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(got[i], rf_f32_to_f16(x[1000 * n + i]));
            }
            check_fence(got + n);
            rf_guard_free(&g);
        }
        k.f32_to_f16(got, x, N);
        for (size_t i = 0; i < N; i++) {
            uint16_t want = rf_f32_to_f16(x[i]);
            if (isnan(x[i])) {
                assert_true((got[i] & 0x7C00) == 0x7C00 && (got[i] & 0x3FF) != 0);
            } else if (got[i] != want) {
                fail_msg("%s: %.9g becomes %04x, expected %04x", rf_isa_name(isa), (double)x[i],
                         got[i], want);
            }
        }
    }
    rf_free(x);
    rf_free(got);
}

/* Attention --------------------------------------------------------------------------------------*/

/* Most cases have few keys, some enough for segments to be folded. */
enum { KV_HEADS = 2, FEW_KEYS = 200, MAX_KEYS = 700, TABLE = 22, MAX_ROWS = 40 };

typedef struct attend_case {
    rf_attend a;
    float sinks[130];
    rf_guarded q, k, v;
    uint32_t table[TABLE], slots; /* blocks in the pool */
    uint32_t pos[MAX_ROWS];
    float mask[MAX_ROWS][MAX_KEYS];
    bool seen[MAX_ROWS][MAX_KEYS];
    bool poisoned; /* the last key of which only the last row knows */
    float *scratch;
} attend_case;

static bool is_visible(const attend_case *c, uint32_t row, uint32_t j) {
    const rf_attend *a = &c->a;
    uint32_t pos = c->pos[row];
    switch (a->pattern.kind) {
    case RF_ATTN_CAUSAL:
        return j <= pos;
    case RF_ATTN_BIDIRECTIONAL:
        return true;
    case RF_ATTN_LOCAL:
        return j <= pos && j + a->pattern.window > pos;
    case RF_ATTN_LOCAL_BOTH:
        return j <= pos + a->pattern.window / 2 && pos <= j + a->pattern.window / 2;
    case RF_ATTN_GLOBAL_LOCAL:
        return j <= pos && (j < a->pattern.n_global || j + a->pattern.window > pos);
    case RF_ATTN_PREFIX:
        return j <= pos || j < a->pattern.n_global;
    case RF_ATTN_CUSTOM:
        return c->mask[row][j] != -INFINITY;
    }
    return false;
}

static const rf_dtype kv_types[] = {RF_DT_F32, RF_DT_F16, RF_DT_BF16, RF_DT_Q8_0, RF_DT_Q4_0};

static size_t row_bytes(rf_dtype type, uint32_t n) {
    if (type == RF_DT_Q8_0 || type == RF_DT_Q4_0)
        return (n + 31) / 32 * (type == RF_DT_Q8_0 ? 34 : 18);
    return type == RF_DT_F32 ? 4 * n : 2 * n;
}

static float elem_at(rf_dtype type, const uint8_t *row, uint32_t d) {
    float f;
    uint16_t h;
    size_t at = type == RF_DT_Q8_0   ? d / 32 * 34
                : type == RF_DT_Q4_0 ? d / 32 * 18
                : type == RF_DT_F32  ? 4 * d
                                     : 2 * d;
    memcpy(&h, row + at, sizeof h);
    if (type == RF_DT_F16) return rf_f16_to_f32(h);
    if (type == RF_DT_BF16) return rf_bf16_to_f32(h);
    if (type == RF_DT_Q8_0) return rf_f16_to_f32(h) * (float)(int8_t)row[at + 2 + d % 32];
    if (type == RF_DT_Q4_0)
        return rf_f16_to_f32(h) * (float)((row[at + 2 + d % 16] >> (d % 32 / 16 * 4) & 15) - 8);
    memcpy(&f, row + at, sizeof f);
    return f;
}

/* Dimension d of the key and of the value at position j, whatever their type. */
static double key_at(const rf_attend *a, uint32_t j, uint32_t d) {
    const uint8_t *row = a->k + a->table[j / 32] * a->k_block + j % 32 * a->k_row;
    return (double)elem_at(a->k_type, row, d);
}

static double value_at(const rf_attend *a, uint32_t j, uint32_t d) {
    const uint8_t *row = a->v + a->table[j / 32] * a->v_block + j % 32 * a->v_row;
    return (double)elem_at(a->v_type, row, d);
}

/* A row of n random numbers, or of the one that is given. */
static void set_row(uint8_t *row, rf_dtype type, uint32_t n, uint64_t *seed, const float *all) {
    for (uint32_t d = 0; d < n; d++) {
        float f = all ? *all : rf_test_randf(seed);
        uint16_t h = type == RF_DT_BF16 ? rf_f32_to_bf16(f) : rf_f32_to_f16(f);
        if (type == RF_DT_F32) {
            memcpy(row + 4 * d, &f, sizeof f);
        } else if (type == RF_DT_Q4_0) {
            h = rf_f32_to_f16(f / 8);
            if (d % 32 == 0) memcpy(row + d / 32 * 18, &h, sizeof h);
            row[d / 32 * 18 + 2 + d % 16] = (uint8_t)rf_test_rand(seed);
        } else if (type != RF_DT_Q8_0) {
            memcpy(row + 2 * d, &h, sizeof h);
        } else {
            h = rf_f32_to_f16(f / 127);
            if (d % 32 == 0) memcpy(row + d / 32 * 34, &h, sizeof h);
            row[d / 32 * 34 + 2 + d % 32] = (uint8_t)(rf_test_rand(seed) % 255 + 129);
        }
    }
}

static bool is_seen(const attend_case *c, uint32_t j) {
    bool any = false;
    for (uint32_t r = 0; r < c->a.n_rows && j < c->a.kv_len; r++)
        any = any || c->seen[r][j];
    return any;
}

/* A pool of blocks of KV_HEADS heads of 32 rows of dim elements. */
static rf_guarded random_pool(attend_case *c, uint64_t *seed, uint32_t dim, rf_dtype type) {
    const rf_attend *a = &c->a;
    size_t row = row_bytes(type, dim), n_rows = (size_t)c->slots * KV_HEADS * 32;
    uint8_t *p = rf_alloc(n_rows, row);
    assert_non_null(p);
    for (size_t i = 0; i < n_rows; i++)
        set_row(p + i * row, type, dim, seed, NULL);
    /* What lies in rows that nobody may see must not matter. */
    for (uint32_t j = 0; j < (a->kv_len + 31) / 32 * 32; j++) {
        if (is_seen(c, j) && !(c->poisoned && j == c->pos[a->n_rows - 1])) continue;
        if (c->table[j / 32] >= c->slots) continue;
        float poison = j % 2 ? NAN : INFINITY;
        size_t at = (size_t)c->table[j / 32] * KV_HEADS * 32 + 32 + j % 32; /* of KV head 1 */
        set_row(p + at * row, type, dim, seed, &poison);
    }
    rf_guarded g = rf_guard(p, n_rows * row);
    rf_free(p);
    return g;
}

/* Which keys each row sees; a block nobody sees lies nowhere. */
static void make_visible(attend_case *c, uint64_t *seed) {
    const rf_attend *a = &c->a;
    for (uint32_t r = 0; r < a->n_rows; r++)
        for (uint32_t j = 0; j < a->kv_len; j++) {
            bool hidden = (rf_test_rand(seed) & 3) == 0 || j / 32 == 1 || j / 256 == 1;
            c->mask[r][j] = hidden ? -INFINITY : rf_test_randf(seed) * 2.0f;
            c->seen[r][j] = is_visible(c, r, j);
        }
    for (uint32_t i = 0; i < TABLE; i++) {
        bool any = false;
        for (uint32_t j = 32 * i; j < 32 * i + 32; j++)
            any = any || is_seen(c, j);
        if (!any) c->table[i] = 1u << 30;
    }
}

/* value_dim 0: values are the first half of each key.  Rows lie at neighbouring positions. */
static void make_case(attend_case *c, uint64_t *seed, uint32_t head_dim, uint32_t value_dim,
                      uint32_t n_rows, uint32_t n_q, const rf_dtype type[2],
                      rf_attn_pattern pattern) {
    memset(c, 0, sizeof *c);
    rf_attend *a = &c->a;
    *a = (rf_attend){.n_rows = n_rows, .n_q = n_q, .head_dim = head_dim, .pattern = pattern};
    a->k_type = type[0];
    a->v_type = type[value_dim != 0];
    a->value_dim = value_dim ? value_dim : (head_dim + 1) / 2;
    a->k_row = row_bytes(a->k_type, head_dim);
    a->v_row = value_dim ? row_bytes(a->v_type, value_dim) : a->k_row;
    a->k_block = a->k_row * 32 * KV_HEADS;
    a->v_block = a->v_row * 32 * KV_HEADS;
    if (rf_test_rand(seed) & 1) a->softcap = 3.0f;
    if (rf_test_rand(seed) & 1) a->sinks = c->sinks;
    for (uint32_t h = 0; h < n_q; h++)
        c->sinks[h] = h % 3 == 2 ? -INFINITY : 4.0f * rf_test_randf(seed);
    uint32_t most = rf_test_rand(seed) % 4 ? FEW_KEYS : MAX_KEYS;
    a->kv_len = n_rows + (uint32_t)(rf_test_rand(seed) % (most - n_rows + 1));
    a->pos = c->pos;
    c->pos[0] = (uint32_t)(rf_test_rand(seed) % (a->kv_len - n_rows + 1));
    for (uint32_t r = 1; r < n_rows; r++)
        c->pos[r] = c->pos[0] + r;
    c->poisoned = n_rows > 1 && pattern.kind == RF_ATTN_CAUSAL;
    a->scale = 4.0f / sqrtf((float)head_dim);
    c->slots = (a->kv_len + 31) / 32;
    a->table = c->table;
    for (uint32_t i = 0; i < TABLE; i++)
        c->table[i] = c->slots - 1 - i % c->slots;
    make_visible(c, seed);
    if (pattern.kind == RF_ATTN_CUSTOM) a->mask = c->mask[0];
    a->mask_stride = MAX_KEYS;
    a->q_stride = (size_t)(n_q + 1) * head_dim; /* heads of another KV head lie between */
    a->dst_stride = (size_t)(n_q + 1) * a->value_dim;
    c->scratch = rf_alloc(rf_attend_scratch_bytes(head_dim, a->value_dim), 1);
    assert_non_null(c->scratch);
    a->scratch = c->scratch;
    c->q = noise(seed, a->q_stride * (n_rows - 1) + (size_t)n_q * head_dim, 2.0f);
    a->q = floats(&c->q);
    c->k = random_pool(c, seed, head_dim, a->k_type);
    c->v = random_pool(c, seed, value_dim ? value_dim : head_dim, a->v_type);
    a->k = c->k.p + a->k_block / KV_HEADS; /* KV head 1 */
    a->v = value_dim ? c->v.p + a->v_block / KV_HEADS : a->k;
}

static void free_case(attend_case *c) {
    rf_guard_free(&c->q);
    rf_guard_free(&c->k);
    rf_guard_free(&c->v);
    rf_free(c->scratch);
}

/* softmax(softcap(scale * q K^T) + mask, sink) V in double over the visible keys. */
static void check_head(const attend_case *c, uint32_t row, uint32_t h, const float *got) {
    const rf_attend *a = &c->a;
    const float *q = a->q + row * a->q_stride + (size_t)h * a->head_dim;
    double s[MAX_KEYS] = {0}, sink = a->sinks ? (double)a->sinks[h] : -HUGE_VAL, top = sink;
    /* queries that become integers are off by up to 2^-15 of the largest element, 2; the scale is 4 */
    bool is_int = rf_attend_is_int(a->k_type) || rf_attend_is_int(a->v_type);
    double tolerance = is_int ? 3e-4 : 4e-6;
    for (uint32_t j = 0; j < a->kv_len; j++) {
        if (!c->seen[row][j]) continue;
        for (uint32_t d = 0; d < a->head_dim; d++)
            s[j] += (double)q[d] * key_at(a, j, d);
        s[j] *= (double)a->scale;
        if (a->softcap > 0) s[j] = (double)a->softcap * tanh(s[j] / (double)a->softcap);
        s[j] += a->mask ? (double)c->mask[row][j] : 0;
        top = fmax(top, s[j]);
    }
    double sum = sink == -HUGE_VAL ? 0 : exp(sink - top);
    for (uint32_t j = 0; j < a->kv_len; j++) {
        if (c->seen[row][j]) sum += s[j] = exp(s[j] - top);
    }
    for (uint32_t d = 0; d < a->value_dim; d++) {
        double acc = 0;
        for (uint32_t j = 0; j < a->kv_len; j++) {
            if (c->seen[row][j]) acc += s[j] * value_at(a, j, d);
        }
        assert_close((double)got[d], sum > 0 ? acc / sum : 0, tolerance, "attend");
    }
}

static void check_exact(const attend_case *c, const float *got) {
    const rf_attend *a = &c->a;
    for (uint32_t r = 0; r < a->n_rows - c->poisoned; r++)
        for (uint32_t h = 0; h < a->n_q; h++)
            check_head(c, r, h, got + r * a->dst_stride + (size_t)h * a->value_dim);
}

/* Of one row: its segments by stretches of n, the last one first, then all of them folded. */
static void attend_in_stretches(attend_case *c, const rf_cpu_kernels *k, uint32_t n) {
    rf_attend a = c->a;
    const rf_attend_span span = rf_attend_span_of(&a, 0);
    uint32_t first, n_segments = rf_attend_segments(&span, &first);
    a.sums_stride = (size_t)(a.n_q + 1) * (RF_ATTEND_SUMS + a.value_dim); /* others' lie between */
    float *sums = fenced(a.sums_stride * n_segments);
    for (uint32_t at = (n_segments - 1) / n * n; n_segments > 0; at -= n) {
        a.sums = sums + at * a.sums_stride;
        a.first_segment = first + at;
        a.n_segments = n_segments - at < n ? n_segments - at : n;
        k->attend(&a);
        if (at == 0) break;
    }
    a.sums = sums;
    a.n_segments = n_segments;
    k->attend_fold(&a);
    check_fence(sums + a.sums_stride * n_segments);
    rf_free(sums);
}

/* What lies between the rows' heads is not written: it has the fence's bytes in both. */
static void check_case(attend_case *c, size_t id) {
    size_t n = c->a.dst_stride * (c->a.n_rows - 1) + (size_t)c->a.n_q * c->a.value_dim;
    float *want = fenced(n), *got = fenced(n);
    c->a.dst = want;
    rf_cpu_kernels scalar = level_kernels(RF_ISA_SCALAR);
    scalar.attend(&c->a);
    check_exact(c, want);
    check_fence(want + n);
    c->a.dst = got;
    for (rf_isa isa = RF_ISA_SCALAR + 1; isa <= rf_isa_best(); isa++) {
        rf_cpu_kernels k = level_kernels(isa);
        k.attend(&c->a);
        assert_same(got, want, n, rf_isa_name(isa), id);
        check_fence(got + n);
    }
    for (rf_isa isa = RF_ISA_SCALAR; c->a.n_rows == 1 && isa <= rf_isa_best(); isa++) {
        rf_cpu_kernels k = level_kernels(isa);
        memset(got, 0x5A, n * sizeof *got);
        attend_in_stretches(c, &k, 1 + (uint32_t)(id % 3));
        assert_same(got, want, n, rf_isa_name(isa), id);
        check_fence(got + n);
    }
    rf_free(want);
    rf_free(got);
}

static const rf_attn_pattern patterns[] = {
    {RF_ATTN_CAUSAL, 0, 0},         {RF_ATTN_BIDIRECTIONAL, 0, 0}, {RF_ATTN_LOCAL, 1, 0},
    {RF_ATTN_LOCAL, 40, 0},         {RF_ATTN_GLOBAL_LOCAL, 5, 3},  {RF_ATTN_GLOBAL_LOCAL, 33, 70},
    {RF_ATTN_GLOBAL_LOCAL, 300, 9}, {RF_ATTN_CUSTOM, 0, 0},        {RF_ATTN_LOCAL_BOTH, 24, 0},
    {RF_ATTN_PREFIX, 0, 37},
};

/* req: C-06, C-08, B-22, B-38, B-68; C-01 (query heads of one KV head share it) */
static void test_attend(void **state) {
    (void)state;
    static const uint32_t dims[] = {1,  2,  4,  8,  12,  16,  20,  32, 40,
                                    64, 72, 80, 96, 128, 200, 576, 640};
    static const uint32_t groups[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17};
    uint64_t seed = 4;
    size_t id = 0;
    for (size_t d = 0; d < RF_COUNT(dims); d++) {
        for (size_t p = 0; p < RF_COUNT(patterns); p++) {
            for (size_t t = 0; t < RF_COUNT(kv_types); t++, id++) {
                attend_case c;
                uint32_t n_q = groups[id % RF_COUNT(groups)];
                uint32_t v_dims[] = {dims[d], dims[(d + 5) % RF_COUNT(dims)], 0};
                rf_dtype types[] = {kv_types[t], kv_types[(t + id / 12) % RF_COUNT(kv_types)]};
                make_case(&c, &seed, dims[d], v_dims[id % 3], 1, n_q, types, patterns[p]);
                check_case(&c, id);
                free_case(&c);
            }
        }
    }
}

/* Groups of rows: more queries than a pass or a tile holds, windows that begin and prefixes that end
 * inside a group, keys of later rows that must not be touched.  req: C-08, B-38 */
static void test_attend_rows(void **state) {
    (void)state;
    static const uint32_t shapes[][4] = {/* rows, heads, head_dim, value_dim (0: latent) */
                                         {2, 1, 64, 64},  {32, 1, 20, 36},  {9, 7, 64, 64},
                                         {19, 7, 8, 8},   {33, 4, 16, 0},   {5, 3, 72, 80},
                                         {3, 17, 40, 12}, {40, 5, 128, 32}, {2, 130, 36, 32},
                                         {7, 2, 576, 0},  {31, 2, 1, 1}};
    uint64_t seed = 7;
    size_t id = 0;
    for (size_t s = 0; s < RF_COUNT(shapes); s++) {
        for (size_t p = 0; p < RF_COUNT(patterns); p++, id++) {
            attend_case c;
            rf_dtype types[] = {kv_types[id % 5], kv_types[(id + id / 5) % 5]};
            make_case(&c, &seed, shapes[s][2], shapes[s][3], shapes[s][0], shapes[s][1], types,
                      patterns[p]);
            check_case(&c, id);
            free_case(&c);
        }
    }
}

/* A row that sees nothing gives zeros and touches no block. */
static void test_attend_nothing(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (rf_isa isa = RF_ISA_SCALAR; isa <= rf_isa_best(); isa++) {
        attend_case c;
        float got[5 * 24];
        make_case(&c, &seed, 24, 24, 1, 5, kv_types + 2, (rf_attn_pattern){RF_ATTN_CUSTOM, 0, 0});
        for (uint32_t j = 0; j < c.a.kv_len; j++)
            c.mask[0][j] = -INFINITY;
        for (uint32_t i = 0; i < TABLE; i++)
            c.table[i] = 1u << 30;
        for (size_t i = 0; i < RF_COUNT(got); i++)
            got[i] = 7.0f;
        c.a.dst = got;
        rf_cpu_kernels k = level_kernels(isa);
        k.attend(&c.a);
        for (size_t i = 0; i < RF_COUNT(got); i++)
            assert_true(got[i] == 0.0f);
        free_case(&c);
    }
}

/* Scores so far apart that early blocks vanish: the running maximum rises from block to block. */
static void test_attend_rising(void **state) {
    (void)state;
    uint64_t seed = 6;
    for (size_t t = 0; t < RF_COUNT(kv_types); t++) {
        attend_case c;
        rf_dtype types[] = {kv_types[t], kv_types[t]};
        make_case(&c, &seed, 64, 64, 1, 4, types, (rf_attn_pattern){RF_ATTN_BIDIRECTIONAL, 0, 0});
        for (float scale = 1.0f; scale < 5000.0f; scale *= 8.0f) {
            c.a.scale = scale;
            float *want = fenced(256), *got = fenced(256);
            rf_cpu_kernels scalar = level_kernels(RF_ISA_SCALAR);
            c.a.dst = want;
            scalar.attend(&c.a);
            for (size_t i = 0; i < 256; i++)
                assert_true(isfinite(want[i]));
            for (rf_isa isa = RF_ISA_SCALAR + 1; isa <= rf_isa_best(); isa++) {
                rf_cpu_kernels k = level_kernels(isa);
                c.a.dst = got;
                k.attend(&c.a);
                assert_same(got, want, 256, rf_isa_name(isa), (size_t)scale);
            }
            rf_free(want);
            rf_free(got);
        }
        free_case(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rms_norm),      cmocka_unit_test(test_rope),
        cmocka_unit_test(test_layer_norm),    cmocka_unit_test(test_add_scaled),
        cmocka_unit_test(test_elementwise),   cmocka_unit_test(test_f32_to_f16),
        cmocka_unit_test(test_attend),        cmocka_unit_test(test_attend_nothing),
        cmocka_unit_test(test_attend_rising), cmocka_unit_test(test_attend_rows),
    };
    print_message("levels up to %s\n", rf_isa_name(rf_isa_best()));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
