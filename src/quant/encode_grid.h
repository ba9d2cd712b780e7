/* encode_grid.h - the search for the formats whose values are points of a code book.
 *
 * A block is split into sub-blocks with odd integer scales under one f16 scale, and those into
 * vectors that become the nearest point of the code book, signs apart.  The nearest point is found
 * exactly: points are sorted by their second half, so a half whose error alone exceeds the best
 * whole seen so far rules out all of its points at once. */
#pragma once
#include "quant/encode_lanes.h"
#include "quant/iq_tables.h"

enum {
    FOUR_LEVELS = 8,
    EIGHT_LEVELS = 3,
    FOUR_HALVES = 64,  /* pairs of 8 levels */
    EIGHT_HALVES = 81, /* quadruples of 3 levels */
    MAX_POINTS = 1024,
    MAX_STEP = 15,   /* scales are 2 s + 1 */
    SUPER_TRIES = 2, /* f16 scales to start from; one more by least squares */
    SPANS = 6,       /* scales of a sub-block to start from */
};

typedef struct book {
    const rf_enc_grid_format *f;
    int n_levels, n_halves;
    float level[FOUR_LEVELS];         /* [n_levels] */
    uint8_t first[MAX_POINTS];        /* [n_points] the first half's levels as one number */
    uint16_t start[EIGHT_HALVES + 1]; /* [n_halves + 1] the points with this second half */
} book;

static unsigned coordinate(const rf_enc_grid_format *f, int point, int i) {
    uint64_t v = f->is_eight ? f->eight[point] : f->four[point];
    return (unsigned)(v >> 8 * i) & 255;
}

/* The levels of coordinates from .. from + dims / 2 as digits, the first one lowest. */
static int half_code(const book *b, int point, int from) {
    int code = 0;
    for (int i = (b->f->is_eight ? 4 : 2) - 1; i >= 0; i--) {
        float v = (float)coordinate(b->f, point, from + i);
        int level = 0;
        while (b->level[level] < v)
            level++;
        code = code * b->n_levels + level;
    }
    return code;
}

static void load_book(book *b, const rf_enc_grid_format *f) {
    *b = (book){.f = f,
                .n_levels = f->is_eight ? EIGHT_LEVELS : FOUR_LEVELS,
                .n_halves = f->is_eight ? EIGHT_HALVES : FOUR_HALVES};
    for (int i = 0; i < b->n_levels; i++)
        b->level[i] = (float)f->level[i];
    for (int p = 0; p < f->n_points; p++) {
        b->first[p] = (uint8_t)half_code(b, p, 0);
        b->start[half_code(b, p, f->is_eight ? 4 : 2) + 1] = (uint16_t)(p + 1);
    }
    for (int h = 0; h < b->n_halves; h++) /* halves without points */
        if (b->start[h + 1] < b->start[h]) b->start[h + 1] = b->start[h];
}

/* The error of every half of a vector: out[code]. */
RF_INLINE void half_errors_four(const book *b, const float *x, const float *w, float d,
                                float out[FOUR_HALVES]) {
    float e[2][FOUR_LEVELS];
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < FOUR_LEVELS; k++) {
            float r = x[i] - d * b->level[k];
            e[i][k] = w[i] * r * r;
        }
    }
    for (int j = 0; j < FOUR_LEVELS; j++) {
        for (int i = 0; i < FOUR_LEVELS; i++)
            out[FOUR_LEVELS * j + i] = e[0][i] + e[1][j];
    }
}

RF_INLINE void half_errors_eight(const book *b, const float *x, const float *w, float d,
                                 float out[EIGHT_HALVES]) {
    float e[4][EIGHT_LEVELS], pair[2][9];
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < EIGHT_LEVELS; k++) {
            float r = x[i] - d * b->level[k];
            e[i][k] = w[i] * r * r;
        }
    }
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 9; k++)
            pair[i][k] = e[2 * i][k % 3] + e[2 * i + 1][k / 3];
    }
    for (int j = 0; j < 9; j++) {
        for (int i = 0; i < 9; i++)
            out[9 * j + i] = pair[0][i] + pair[1][j];
    }
}

typedef struct nearest {
    float err;
    int point;
} nearest;

RF_INLINE void look_in_half(const book *b, int half, float err, const float *first, nearest *best) {
    for (int p = b->start[half]; p < b->start[half + 1]; p++) {
        float e = err + first[b->first[p]];
        if (e < best->err) *best = (nearest){e, p};
    }
}

/* x and w: one vector.  Of equally near points the one found first. */
RF_INLINE nearest nearest_point(const book *b, bool is_eight, const float *x, const float *w,
                                float d) {
    enum { MAX_HALVES = EIGHT_HALVES };
    float first[MAX_HALVES], second[MAX_HALVES];
    int n = is_eight ? EIGHT_HALVES : FOUR_HALVES;
    if (is_eight) {
        half_errors_eight(b, x, w, d, first);
        half_errors_eight(b, x + 4, w + 4, d, second);
    } else {
        half_errors_four(b, x, w, d, first);
        half_errors_four(b, x + 2, w + 2, d, second);
    }
    float least = first[0];
    int likely = 0;
    for (int h = 1; h < n; h++) {
        if (first[h] < least) least = first[h];
        if (second[h] < second[likely]) likely = h;
    }
    nearest best = {RF_ENC_HUGE, 0};
    look_in_half(b, likely, second[likely], first, &best);
    for (int h = 0; h < n; h++) {
        if (second[h] + least < best.err) look_in_half(b, h, second[h], first, &best);
    }
    return best;
}

/* One sub-block of len values for the scale d; index, where wanted, gets its points. */
RF_INLINE scale_sums grid_pass(const book *b, bool is_eight, const float *x, const float *w,
                               int len, float d, uint16_t *index) {
    scale_sums sums = {0, 0, 0};
    int dims = is_eight ? 8 : 4;
    for (int i = 0; i < len; i += dims) {
        nearest near = nearest_point(b, is_eight, x + i, w + i, d);
        uint64_t v = is_eight ? b->f->eight[near.point] : b->f->four[near.point];
        if (index) index[i / dims] = (uint16_t)near.point;
        sums.err += near.err;
        for (int k = 0; k < dims; k++, v >>= 8) {
            float q = (float)(int)(v & 255), wq = w[i + k] * q;
            sums.xq += wq * x[i + k];
            sums.qq += wq * q;
        }
    }
    return sums;
}

typedef struct grid_job {
    const book *book;
    const rf_enc_block *b;
    int len;                          /* of a sub-block */
    _Alignas(16) float x[RF_ENC_MAX]; /* magnitudes; a sign that cannot be stored stays here */
    float free[RF_ENC_MAX_SUBS];      /* [n_subs] the scale each sub-block would choose alone */
} grid_job;

/* Signs out of the values.  Where their number must be even, the value that costs least gives up
 * its own: its magnitude turns negative. */
static void take_signs(grid_job *job, uint8_t signs[RF_ENC_MAX / 8]) {
    for (int v = 0; v < RF_ENC_MAX / 8; v++) {
        const float *x = job->b->x + 8 * v, *w = job->b->w + 8 * v;
        unsigned bits = 0;
        int cheapest = 0;
        for (int i = 0; i < 8; i++) {
            bits |= (unsigned)(x[i] < 0) << i;
            job->x[8 * v + i] = x[i] < 0 ? -x[i] : x[i];
            if (w[i] * job->x[8 * v + i] < w[cheapest] * job->x[8 * v + cheapest]) cheapest = i;
        }
        if (job->book->f->has_even_signs && __builtin_parity(bits)) {
            bits ^= 1u << cheapest;
            job->x[8 * v + cheapest] = -job->x[8 * v + cheapest];
        }
        signs[v] = (uint8_t)bits;
    }
}

RF_INLINE float grid_free_scale(const grid_job *job, bool is_eight, int sub) {
    const float *x = job->x + sub * job->len, *w = job->b->w + sub * job->len;
    const book *b = job->book;
    float top = 0, best_err = RF_ENC_HUGE, best = 0;
    for (int i = 0; i < job->len; i++)
        top = x[i] > top ? x[i] : top;
    for (int k = 0; k <= SPANS && top > 0; k++) { /* the last: values all alike */
        float span = b->level[b->n_levels - 1] * (0.7f + 0.1f * (float)k);
        float d = top / (k < SPANS ? span : b->level[0]);
        scale_sums s = grid_pass(b, is_eight, x, w, job->len, d, NULL);
        if (!(s.err < (k < SPANS ? 1 : 0.01f) * best_err)) continue;
        best_err = s.err;
        best = s.xq / s.qq;
    }
    return best > 0 ? best : 0;
}

typedef struct grid_try {
    float err, next; /* next: the scale by least squares for these steps */
    uint16_t d;
    uint8_t step[RF_ENC_MAX_SUBS];
} grid_try;

/* The best steps under the f16 scale h. */
RF_INLINE void assign_steps(const grid_job *job, bool is_eight, uint16_t h, grid_try *out) {
    float d = rf_enc_of_half(job->b, h) * job->book->f->unit, xq = 0, qq = 0;
    *out = (grid_try){.d = h};
    for (int j = 0; j < job->book->f->n_subs; j++) {
        const float *x = job->x + j * job->len, *w = job->b->w + j * job->len;
        float wish = 0.5f * (job->free[j] * safe_inverse(d) - 1);
        int middle = rf_enc_code(wish, &(rf_levels){0, MAX_STEP, false});
        int beside = wish > (float)middle ? middle + 1 : middle - 1;
        scale_sums best = {RF_ENC_HUGE, 0, 0};
        for (int k = 0; k < 2; k++) {
            int step = k ? beside : middle;
            if (step < 0 || step > MAX_STEP) continue;
            scale_sums s =
                grid_pass(job->book, is_eight, x, w, job->len, d * (float)(2 * step + 1), NULL);
            if (!(s.err < best.err)) continue;
            best = s;
            out->step[j] = (uint8_t)step;
        }
        float scale = (float)(2 * out->step[j] + 1);
        out->err += best.err;
        xq += scale * best.xq;
        qq += scale * scale * best.qq;
    }
    out->next = qq > 0 ? xq / qq : d;
}

RF_INLINE void search_grid(grid_job *job, bool is_eight, rf_enc_grid_fit *out) {
    const rf_enc_grid_format *f = job->book->f;
    float top = 0;
    for (int j = 0; j < f->n_subs; j++) {
        job->free[j] = grid_free_scale(job, is_eight, j);
        if (job->free[j] > top) top = job->free[j];
    }
    grid_try best = {.err = RF_ENC_HUGE};
    for (int k = 0; k < SUPER_TRIES + 1; k++) {
        float d = k < SUPER_TRIES ? top / (float)(2 * (MAX_STEP - k) + 1) : best.next;
        uint16_t h = rf_enc_half(job->b, d / f->unit);
        grid_try now;
        if ((h & 0x7fff) == 0) h |= 1; /* small values still have a chance */
        assign_steps(job, is_eight, h, &now);
        if (now.err < best.err) best = now;
    }
    out->d = best.d;
    memcpy(out->step, best.step, sizeof out->step);
    float d = rf_enc_of_half(job->b, best.d) * f->unit;
    for (int j = 0; j < f->n_subs; j++) {
        (void)grid_pass(job->book, is_eight, job->x + j * job->len, job->b->w + j * job->len,
                        job->len, d * (float)(2 * best.step[j] + 1),
                        out->index + j * job->len / (is_eight ? 8 : 4));
    }
}

static void search_points(const rf_enc_grid_format *f, const float *src, size_t n,
                          const float *importance, rf_enc_grid_sink sink, void *dst) {
    book b;
    load_book(&b, f);
    for (size_t g = 0; g < n / RF_ENC_MAX; g++) {
        rf_enc_block block;
        rf_enc_grid_fit fit = {0};
        const float *w = importance ? importance + RF_ENC_MAX * g : NULL;
        if (rf_enc_load(&block, src + RF_ENC_MAX * g, w, RF_ENC_MAX)) {
            grid_job job = {.book = &b, .b = &block, .len = RF_ENC_MAX / f->n_subs};
            take_signs(&job, fit.signs);
            if (f->is_eight) {
                search_grid(&job, true, &fit);
            } else {
                search_grid(&job, false, &fit);
            }
        }
        sink(&fit, dst, g);
    }
}
