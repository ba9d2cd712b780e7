/* mm_float.h - products of float weights, written over a vector of sixteen lanes; private to
 * mm_*.c.
 *
 * The including file defines before it: lanes (sixteen f32) with lanes_zero(), lanes_load(p),
 * lanes_store(p, s), lanes_fma(a, b, c), lanes_tree16(s), lanes_load_f16(p) and lanes_load_bf16(p);
 * vec (VEC of the sixteen) with vec_zero(), vec_load(p), vec_load_f16(p), vec_load_bf16(p),
 * vec_store(p, v), vec_fma(a, b, c) and IN_REGISTER(v), which keeps the compiler from reading v from memory
 * where it is used; trees_of_8(s, out), tree16 of eight times sixteen lanes;
 * decode_blocks(type, src, dst, n), how many of n elements it turned into f32;
 * TILE_NT; STRETCH, elements of k (a multiple of 256) whose activations stay in the first-level cache,
 * and PANEL_BYTES, of weights that stay in the second.  Loads need no alignment.
 *
 * Few activation rows (T < RF_MM_TILE_MIN) read F32, F16 and BF16 weights in place, a row at a time.
 * So do the register tiles of up to IN_PLACE rows; for more, and for other formats, a panel of weight
 * rows is decoded to f32.  The more rows it has, the less often activations, which for a prompt exceed
 * the caches, are read: where rows are long it is a part of their columns, and the lanes of some
 * activation rows wait in memory from part to part.  The sixteen lanes of an output never meet before
 * the end, so a register tile holds one vector of each, for TILE_NR x TILE_NT outputs, and passes over a
 * stretch of k once for each vector: that leaves registers for more outputs than whole sets of lanes
 * would.  A panel, and the activation rows that go through it, lie in the order in which such a pass
 * reads them: no cache line is read by halves, and rows that are a power of two apart do not take each
 * other's place in the first-level cache.  Tiles of F16 and BF16 in place fetch the weights that come
 * next; the others gain from a plain loop. */
#include <string.h>

#include "backend/cpu/mm.h"

/* Where weights are found: in rows of their own format, or decoded in a panel. */
typedef enum float_kind { KIND_F32, KIND_F16, KIND_BF16, KIND_PANEL } float_kind;

RF_INLINE float_kind kind_of(rf_dtype t) {
    if (t == RF_DT_F32) return KIND_F32;
    if (t == RF_DT_F16) return KIND_F16;
    return t == RF_DT_BF16 ? KIND_BF16 : KIND_PANEL;
}

RF_INLINE size_t kind_bytes(float_kind kind) {
    return kind == KIND_F16 || kind == KIND_BF16 ? 2 : 4;
}

RF_INLINE lanes load_w(float_kind kind, const uint8_t *p) {
    if (kind == KIND_F16) return lanes_load_f16(p);
    return kind == KIND_BF16 ? lanes_load_bf16(p) : lanes_load(p);
}

/* ---- few activation rows ---- */

enum {
    FEW_NR = 4,
    FEW_NT = RF_MM_TILE_MIN - 1,
    FEW_SHORT = 4096, /* bytes: of shorter rows one at a time keeps memory busier than four */
};

/* The lanes of nr x nt outputs. */
typedef struct few_lanes {
    lanes s[FEW_NR][FEW_NT];
} few_lanes;

/* Elements k .. k + 15. */
RF_INLINE void few_step(float_kind kind, int nr, int nt, const uint8_t *const w[],
                        const float *const x[], size_t k, few_lanes *tile) {
    lanes wk[FEW_NR];
    RF_UNROLL
    for (int r = 0; r < nr; r++)
        wk[r] = load_w(kind, w[r] + k * kind_bytes(kind));
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        lanes xk = lanes_load(x[t] + k);
        RF_UNROLL
        for (int r = 0; r < nr; r++)
            tile->s[r][t] = lanes_fma(wk[r], xk, tile->s[r][t]);
    }
}

/* The last k .. n - 1 elements, continued with zeros. */
RF_INLINE void few_end(float_kind kind, int nr, int nt, const uint8_t *const w[],
                       const float *const x[], size_t k, size_t n, few_lanes *tile) {
    uint8_t w_end[FEW_NR][64] = {{0}};
    float x_end[FEW_NT][16] = {{0}};
    const uint8_t *wp[FEW_NR];
    const float *xp[FEW_NT];
    for (int r = 0; r < nr; r++) {
        memcpy(w_end[r], w[r] + k * kind_bytes(kind), (n - k) * kind_bytes(kind));
        wp[r] = w_end[r];
    }
    for (int t = 0; t < nt; t++) {
        memcpy(x_end[t], x[t] + k, (n - k) * sizeof(float));
        xp[t] = x_end[t];
    }
    few_step(kind, nr, nt, wp, xp, 0, tile);
}

/* nr x nt outputs of rows w[r] and x[t] of n elements, into out[t * FEW_NR + r].  next: the bytes
 * of the next nr rows, which lie back to back. */
RF_INLINE void few_outputs(float_kind kind, int nr, int nt, const uint8_t *const w[],
                           const uint8_t *next, const float *const x[], size_t n, float *out) {
    few_lanes tile;
    RF_UNROLL
    for (int r = 0; r < nr; r++) {
        RF_UNROLL
        for (int t = 0; t < nt; t++)
            tile.s[r][t] = lanes_zero();
    }
    size_t whole = n & ~(size_t)15;
    for (size_t k = 0; k < whole; k += 16) {
        const size_t bytes = 16 * kind_bytes(kind) * (size_t)nr;
        RF_UNROLL
        for (size_t i = 0; i < bytes; i += 64)
            rf_mm_ask_for(next + k / 16 * bytes + i);
        few_step(kind, nr, nt, w, x, k, &tile);
    }
    if (whole < n) few_end(kind, nr, nt, w, x, whole, n, &tile);
    RF_UNROLL
    for (int r = 0; r < nr; r++) {
        RF_UNROLL
        for (int t = 0; t < nt; t++)
            out[t * FEW_NR + r] = lanes_tree16(tile.s[r][t]);
    }
}

/* Output rows [row, row + n_rows) from weights at w (rows stride bytes apart) for all nt activation
 * rows, nr output rows at a time; rows beyond the range repeat the last. */
RF_INLINE void few_rows(float_kind kind, int nr, int nt, const rf_mm *mm, const uint8_t *w,
                        size_t stride, uint32_t row, uint32_t n_rows) {
    const rf_mm_input *a = mm->act;
    const float *x[FEW_NT];
    for (int t = 0; t < nt; t++)
        x[t] = a->x + (size_t)t * a->n_cols;
    for (uint32_t r0 = 0; r0 < n_rows; r0 += (uint32_t)nr) {
        const uint8_t *wr[FEW_NR];
        float out[FEW_NT * FEW_NR];
        for (uint32_t r = 0; r < (uint32_t)nr; r++)
            wr[r] = w + (r0 + r < n_rows ? r0 + r : n_rows - 1) * stride;
        const uint8_t *next = wr[0];
        if (n_rows - r0 > (uint32_t)nr)
            next += (size_t)nr * stride;
        else if (mm->next)
            next = mm->next;
        few_outputs(kind, nr, nt, wr, next, x, a->n_cols, out);
        for (uint32_t r = 0; r < (uint32_t)nr && r0 + r < n_rows; r++)
            for (int t = 0; t < nt; t++) {
                float v = out[t * FEW_NR + (int)r];
                if (mm->bias) v += mm->bias[row + r0 + r];
                mm->dst[(size_t)t * mm->dst_stride + row + r0 + r] = v;
            }
    }
}

RF_INLINE void few_of_kind(float_kind kind, const rf_mm *mm, const uint8_t *w, size_t stride,
                           uint32_t row, uint32_t n_rows) {
    switch (mm->act->n_rows) {
    case 1:
        if (stride < FEW_SHORT)
            few_rows(kind, 1, 1, mm, w, stride, row, n_rows);
        else
            few_rows(kind, 4, 1, mm, w, stride, row, n_rows);
        break;
    case 2:
        few_rows(kind, 3, 2, mm, w, stride, row, n_rows);
        break;
    default:
        few_rows(kind, 2, 3, mm, w, stride, row, n_rows);
        break;
    }
}

/* ---- decoding ---- */

/* Elements [k, k + n) of a row as f32; k is a multiple of the format's blocks. */
static void decode_stretch(const rf_tensor *w, uint32_t row, size_t k, size_t n, float *dst) {
    const rf_dtype_info *info = rf_dtype_get(w->type);
    const uint8_t *src = rf_mm_row(w, row) + k / info->block_elems * info->block_bytes;
    size_t done = decode_blocks(w->type, src, dst, n);
    info->decode(src + done / info->block_elems * info->block_bytes, dst + done, n - done);
}

static void few(const rf_mm *mm, uint32_t begin, uint32_t end, float *scratch) {
    const rf_tensor *w = mm->w;
    const uint8_t *at = rf_mm_row(w, begin);
    const size_t cols = rf_mm_round16(w->cols);
    switch (kind_of(w->type)) {
    case KIND_F32:
        few_of_kind(KIND_F32, mm, at, w->row_bytes, begin, end - begin);
        return;
    case KIND_F16:
        few_of_kind(KIND_F16, mm, at, w->row_bytes, begin, end - begin);
        return;
    case KIND_BF16:
        few_of_kind(KIND_BF16, mm, at, w->row_bytes, begin, end - begin);
        return;
    case KIND_PANEL:
        break;
    }
    for (uint32_t row = begin; row < end; row += FEW_NR) {
        uint32_t n = end - row < FEW_NR ? end - row : FEW_NR;
        for (uint32_t r = 0; r < n; r++)
            decode_stretch(w, row + r, 0, w->cols, scratch + r * cols);
        few_of_kind(KIND_F32, mm, (const uint8_t *)scratch, cols * sizeof(float), row, n);
    }
}

/* ---- tiles ---- */

enum {
    TILE_NR = RF_MM_FLOAT_NR,
    GROUP_NT = RF_MM_FLOAT_NT,
    TILE_SUMS = TILE_NR * 16,          /* lanes for each activation row of a tile */
    LOOK_EVERY = 64,                   /* elements of k */
    LOOK_BYTES = 192 << 10,            /* of f32 in what is fetched ahead */
    IN_PLACE = RF_MM_LAY_OUT_FROM - 1, /* most activation rows of tiles without a panel */
    PACK_AHEAD = 2048,                 /* bytes of the rows that are decoded next */
    PART = 2 * STRETCH,                /* most elements of k in a decoded panel */
};

/* Whether tiles fetch the weights that come next. */
RF_INLINE bool kind_looks(float_kind kind) { return kind == KIND_F16 || kind == KIND_BF16; }

RF_INLINE vec load_vec(float_kind kind, const uint8_t *p) {
    if (kind == KIND_F16) return vec_load_f16(p);
    return kind == KIND_BF16 ? vec_load_bf16(p) : vec_load(p);
}

/* Lanes lane .. lane + VEC - 1 of elements i .. i + 15. */
RF_INLINE void tile_step(float_kind kind, int nt, const uint8_t *const w[], const float *const x[],
                         size_t i, size_t lane, vec s[TILE_NR][TILE_NT]) {
    vec xi[TILE_NT];
    RF_UNROLL
    for (int t = 0; t < nt; t++)
        xi[t] = vec_load(x[t] + i + lane);
    RF_UNROLL
    for (int r = 0; r < TILE_NR; r++) {
        vec wi = load_vec(kind, w[r] + (i + lane) * kind_bytes(kind));
        RF_UNROLL
        for (int t = 0; t < nt; t++)
            s[r][t] = vec_fma(wi, xi[t], s[r][t]);
    }
}

/* A stretch of k of a panel's rows and of some activation rows. */
typedef struct float_stretch {
    const uint8_t *w;
    size_t row_bytes, tile_bytes; /* from a row and from a tile to the next */
    size_t n;                     /* elements, a multiple of 16 */
    bool first, last;             /* of k */
    uint32_t t;                   /* the first of the activation rows */
    size_t k;                     /* the first element */
} float_stretch;

/* A panel: elements [k, end) of n_rows weight rows from row `row` on, in place or decoded to f32.  Decoded
 * it is cut into stretches, each [16 / VEC][tiles][n / 16][TILE_NR][VEC]. */
typedef struct float_panel {
    const rf_mm *mm;
    uint32_t row, n_rows;
    size_t k, end;
    float_kind kind;
    const uint8_t *w;
    float *sums; /* [RF_MM_FLOAT_ROWS / TILE_NR][RF_MM_FLOAT_NT][TILE_NR][16] */
    rf_mm_ahead ahead;
    uint32_t next_t; /* where activation rows go on behind those that are multiplied now, */
    size_t next_k;   /* and with which element */
} float_panel;

/* One vector of the lanes of TILE_NR x nt outputs, from where they wait, or zeros, and back. */
RF_INLINE void take_sums(int nt, bool first, const float *sums, vec v[TILE_NR][TILE_NT]) {
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        RF_UNROLL
        for (int r = 0; r < TILE_NR; r++)
            v[r][t] = first ? vec_zero() : vec_load(sums + t * TILE_SUMS + r * 16);
    }
}
RF_INLINE void leave_sums(int nt, float *sums, vec v[TILE_NR][TILE_NT]) {
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        RF_UNROLL
        for (int r = 0; r < TILE_NR; r++)
            vec_store(sums + t * TILE_SUMS + r * 16, v[r][t]);
    }
}

/* Adds a stretch of nt activation rows x[t] to the lanes of TILE_NR x nt outputs at sums. */
RF_INLINE void add_tile(float_kind kind, int nt, const uint8_t *const w[], const float *const x[],
                        const float_stretch *s, float *sums, rf_mm_ahead *ahead) {
    const bool looks = kind_looks(kind);
    const size_t n = s->n;
    for (size_t lane = 0; lane < 16; lane += VEC) {
        vec v[TILE_NR][TILE_NT];
        take_sums(nt, s->first, sums + lane, v);
        for (size_t k = 0, end; k < n; k = end) {
            end = !looks || n - k < LOOK_EVERY ? n : k + LOOK_EVERY;
            if (looks) rf_mm_look_ahead(ahead);
            for (size_t i = k; i < end; i += 16)
                tile_step(kind, nt, w, x, i, lane, v);
        }
        leave_sums(nt, sums + lane, v);
    }
}

/* The outputs of a tile's sums: weight rows from r0 of the panel on, nt activation rows from t on.
 * An odd one's neighbour in trees_of_8 is whatever lies behind it. */
static void store_tile(const float_panel *p, uint32_t r0, uint32_t t, int nt, const float *sums) {
    const rf_mm *mm = p->mm;
    const uint32_t n = p->n_rows - r0 < TILE_NR ? p->n_rows - r0 : TILE_NR;
    float out[GROUP_NT * TILE_NR], bias[TILE_NR] = {0};
    if (mm->bias) memcpy(bias, mm->bias + p->row + r0, n * sizeof *bias);
    for (int i = 0; i < nt; i += 2)
        trees_of_8(sums + i * TILE_SUMS, out + i * TILE_NR);
    for (int i = 0; i < nt; i++) {
        float *from = out + i * TILE_NR;
        float *dst = mm->dst + (size_t)(t + (uint32_t)i) * mm->dst_stride + p->row + r0;
        if (mm->bias)
            for (int r = 0; r < TILE_NR; r++)
                from[r] += bias[r];
        if (n == TILE_NR)
            memcpy(dst, from, TILE_NR * sizeof *dst);
        else
            memcpy(dst, from, n * sizeof *dst);
    }
}

/* All of the panel's rows (beyond the last, that one again) times a + b activation rows, in one or
 * two register tiles: the second finds the weights in the first-level cache. */
RF_INLINE void add_rows(float_kind kind, int a, int b, float_panel *p, const float_stretch *s,
                        const float *const x[]) {
    float *sums = p->sums;
    const uint8_t *at = s->w;
    for (uint32_t r0 = 0; r0 < p->n_rows; r0 += TILE_NR) {
        const uint8_t *w[TILE_NR];
        for (uint32_t r = 0; r < TILE_NR; r++)
            w[r] = at + (r0 + r < p->n_rows ? r : p->n_rows - 1 - r0) * s->row_bytes;
        add_tile(kind, a, w, x, s, sums, &p->ahead);
        if (s->last) store_tile(p, r0, s->t, a, sums);
        sums += a * TILE_SUMS;
        if (b > 0) {
            add_tile(kind, b, w, x + a, s, sums, &p->ahead);
            if (s->last) store_tile(p, r0, s->t + (uint32_t)a, b, sums);
            sums += b * TILE_SUMS;
        }
        at += s->tile_bytes;
    }
}

/* The same in a decoded panel ---- */

/* Elements [begin, end) of nt activation rows of n, continued with zeros, in the order in which their tile reads
 * them: [16 / VEC][n / 16][nt][VEC]. */
RF_INLINE void order_rows(int nt, const float *const x[], size_t n, size_t begin, size_t end,
                          float *dst) {
    const size_t whole = end & ~(size_t)15;
    float rest[TILE_NT][16] = {{0}};
    for (int t = 0; t < nt && whole < end; t++)
        memcpy(rest[t], x[t] + whole, (end - whole) * sizeof(float));
    for (size_t lane = 0; lane < 16; lane += VEC) {
        float *to = dst + (lane * (rf_mm_round16(n) / 16) + begin / 16 * VEC) * (size_t)nt;
        for (size_t i = begin; i < whole; i += 16)
            for (int t = 0; t < nt; t++, to += VEC)
                vec_store(to, vec_load(x[t] + i + lane));
        for (int t = 0; t < nt && whole < end; t++, to += VEC)
            vec_store(to, vec_load(rest[t] + lane));
    }
}

/* Of nt activation rows that go through a panel together, those of the first register tile. */
RF_INLINE int first_tile(int nt) { return nt <= TILE_NT ? nt : (nt + 1) / 2; }

/* Activation rows from `first` on to their block: as order_rows, the first tile's, then the second's. */
static void lay_out_floats(const rf_mm_input *a, uint32_t first, uint32_t begin, uint32_t end) {
    const size_t cols = a->n_cols;
    const int nt = a->n_rows - first < GROUP_NT ? (int)(a->n_rows - first) : GROUP_NT;
    const float *x[GROUP_NT];
    float *to =
        (float *)(void *)(a->blocks + first / GROUP_NT * rf_act_block_bytes(RF_INT_NONE, cols));
    for (int t = 0; t < nt; t++)
        x[t] = a->x + (first + (uint32_t)t) * cols;
    order_rows(first_tile(nt), x, cols, begin, end, to);
    to += (size_t)first_tile(nt) * rf_mm_round16(cols);
    order_rows(nt - first_tile(nt), x + first_tile(nt), cols, begin, end, to);
}

/* Activation rows of a group as order_rows has them: those of the first register tile, then the second's. */
typedef struct float_order {
    const float *rows;
    size_t cols;
} float_order;

/* The order of rows from row t on, laid out for all products. */
RF_INLINE float_order order_of(const rf_mm_input *act, uint32_t t) {
    const size_t bytes = rf_act_block_bytes(RF_INT_NONE, act->n_cols);
    return (float_order){(const float *)(const void *)(act->blocks + t / GROUP_NT * bytes),
                         rf_mm_round16(act->n_cols)};
}

/* Where a pass over the lanes from `lane` on, from element k on, finds each tile's rows. */
RF_INLINE void pass_rows(float_order o, size_t k, size_t lane, int a, int b, const float *x[2]) {
    const size_t at = lane / VEC * (o.cols / 16 * VEC) + k / 16 * VEC;
    x[0] = o.rows + at * (size_t)a;
    x[1] = o.rows + o.cols * (size_t)a + at * (size_t)b;
}

/* What the tiles of a pass ask for while they multiply: step bytes from `at` on for each sixteen elements. */
typedef struct float_ask {
    uintptr_t at; /* may come to lie behind all rows */
    size_t step;
} float_ask;

/* Adds n elements of TILE_NR weight rows and nt activation rows to one vector of each output's lanes. */
RF_INLINE void add_panel_tile(int nt, const float *w, const float *x, size_t n, bool first,
                              float *sums, float_ask *ask) {
    vec v[TILE_NR][TILE_NT];
    take_sums(nt, first, sums, v);
    for (size_t i = 0; i < n; i += 16, w += TILE_NR * VEC, x += nt * VEC) {
        vec xi[TILE_NT];
        __builtin_prefetch((const void *)ask->at);
        ask->at += ask->step;
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            xi[t] = vec_load(x + t * VEC);
            IN_REGISTER(xi[t]);
        }
        RF_UNROLL
        for (int r = 0; r < TILE_NR; r++) {
            vec wi = vec_load(w + r * VEC);
            IN_REGISTER(wi);
            RF_UNROLL
            for (int t = 0; t < nt; t++)
                v[r][t] = vec_fma(wi, xi[t], v[r][t]);
        }
    }
    leave_sums(nt, sums, v);
}

/* The rows of the pass behind the one at lane and stretch s, as if its tiles were as wide. */
RF_INLINE void next_rows(const float_panel *p, const float_stretch *s, float_order o, size_t lane,
                         int a, int b, const float *x[2]) {
    if (lane + VEC < 16)
        pass_rows(o, s->k, lane + VEC, a, b, x);
    else if (s->k + s->n < p->end)
        pass_rows(o, s->k + s->n, 0, a, b, x);
    else
        pass_rows(order_of(p->mm->act, p->next_t), p->next_k, 0, a, b, x);
}

/* As add_rows; activation rows that are in blocks already are read there, and the next ones, which come from further
 * away than the second-level cache, asked for in a pass over all of the panel's rows. */
RF_INLINE void add_panel(int a, int b, float_panel *p, const float_stretch *s,
                         const float *const x[]) {
    const bool is_laid_out = p->mm->act->blocks;
    const uint32_t n_tiles = (p->n_rows + TILE_NR - 1) / TILE_NR;
    const size_t n = s->n, of_tile = (size_t)(a + b) * TILE_SUMS;
    const float *w = (const float *)(const void *)s->w;
    _Alignas(64) float ordered[GROUP_NT * STRETCH];
    float_order o = {ordered, n};
    if (is_laid_out) {
        o = order_of(p->mm->act, s->t);
    } else {
        order_rows(a, x, n, 0, n, ordered);
        order_rows(b, x + a, n, 0, n, ordered + (size_t)a * n);
    }
    for (size_t lane = 0; lane < 16; lane += VEC) {
        const float *now[2], *next[2];
        pass_rows(o, is_laid_out ? s->k : 0, lane, a, b, now);
        memcpy(next, now, sizeof next);
        if (is_laid_out) next_rows(p, s, o, lane, a, b, next);
        float_ask ask_a = {(uintptr_t)next[0], (size_t)a * sizeof(vec) / n_tiles},
                  ask_b = {(uintptr_t)next[1], (size_t)b * sizeof(vec) / n_tiles};
        for (uint32_t i = 0; i < n_tiles; i++, w += n / 16 * VEC * TILE_NR) {
            float *sums = p->sums + i * of_tile;
            add_panel_tile(a, w, now[0], n, s->first, sums + lane, &ask_a);
            if (b > 0)
                add_panel_tile(b, w, now[1], n, s->first, sums + a * TILE_SUMS + lane, &ask_b);
            if (s->last && lane + VEC == 16) store_tile(p, i * TILE_NR, s->t, a + b, sums);
        }
    }
}

/* One function per format and number of activation rows, so that they are constants inside. */
typedef void (*add_rows_fn)(float_panel *p, const float_stretch *s, const float *const x[]);
#define ADD_ROWS_OF(kind, a, b)                                                     \
    static void add_rows_##kind##_##a##_##b(float_panel *p, const float_stretch *s, \
                                            const float *const x[]) {               \
        if (kind == KIND_PANEL)                                                     \
            add_panel(a, b, p, s, x);                                               \
        else                                                                        \
            add_rows(kind, a, b, p, s, x);                                          \
    }
#define ADD_ROWS(a, b)           \
    ADD_ROWS_OF(KIND_F32, a, b)  \
    ADD_ROWS_OF(KIND_F16, a, b)  \
    ADD_ROWS_OF(KIND_BF16, a, b) \
    ADD_ROWS_OF(KIND_PANEL, a, b)
ADD_ROWS(1, 0)
ADD_ROWS(2, 0)
ADD_ROWS(3, 0)
#if TILE_NT == 3
ADD_ROWS(2, 2)
ADD_ROWS(3, 2)
ADD_ROWS(3, 3)
#define ADD_SOME(kind)                                                          \
    {                                                                           \
        add_rows_##kind##_1_0, add_rows_##kind##_2_0, add_rows_##kind##_3_0,    \
            add_rows_##kind##_2_2, add_rows_##kind##_3_2, add_rows_##kind##_3_3 \
    }
#else
ADD_ROWS(4, 0)
ADD_ROWS(5, 0)
ADD_ROWS(6, 0)
#define ADD_SOME(kind)                                                          \
    {                                                                           \
        add_rows_##kind##_1_0, add_rows_##kind##_2_0, add_rows_##kind##_3_0,    \
            add_rows_##kind##_4_0, add_rows_##kind##_5_0, add_rows_##kind##_6_0 \
    }
#endif
static const add_rows_fn add_some[][GROUP_NT] = {[KIND_F32] = ADD_SOME(KIND_F32),
                                                 [KIND_F16] = ADD_SOME(KIND_F16),
                                                 [KIND_BF16] = ADD_SOME(KIND_BF16),
                                                 [KIND_PANEL] = ADD_SOME(KIND_PANEL)};

/* The elements of the stretch at k: at most STRETCH of those in whole sixteens, or the rest. */
RF_INLINE size_t stretch_at(size_t k, size_t cols) {
    const size_t whole = cols & ~(size_t)15;
    if (k == whole) return cols - k;
    return whole - k < STRETCH ? whole - k : STRETCH;
}

/* Sixteen elements of a row to its tile, the vectors of lanes apart floats behind each other. */
RF_INLINE void pack_16(float_kind kind, const uint8_t *src, float *to, size_t apart) {
    RF_UNROLL
    for (size_t lane = 0; lane < 16; lane += VEC)
        vec_store(to + lane / VEC * apart, load_vec(kind, src + lane * kind_bytes(kind)));
}

/* Elements [k, k + n) of a row, the last sixteen continued with zeros. */
static void pack_row(const rf_tensor *w, uint32_t row, size_t k, size_t n, float *to,
                     size_t apart) {
    const float_kind kind = kind_of(w->type);
    const size_t whole = kind == KIND_PANEL ? 0 : n & ~(size_t)15, step = TILE_NR * VEC;
    const uint8_t *src = rf_mm_row(w, row) + k * kind_bytes(kind);
    float rest[STRETCH];
    for (size_t i = 0; i < whole; i += 16, src += 16 * kind_bytes(kind), to += step) {
        __builtin_prefetch(src + PACK_AHEAD);
        pack_16(kind, src, to, apart);
    }
    if (whole == n) return;
    decode_stretch(w, row, k + whole, n - whole, rest);
    for (size_t i = n - whole; i < rf_mm_round16(n - whole); i++)
        rest[i] = 0;
    for (size_t i = whole; i < n; i += 16, to += step)
        pack_16(KIND_F32, (const uint8_t *)(rest + i - whole), to, apart);
}

static void decode_panel(float_panel *p, float *dst) {
    const rf_tensor *w = p->mm->w;
    const size_t padded = (p->n_rows + TILE_NR - 1) / TILE_NR * TILE_NR;
    p->w = (const uint8_t *)dst;
    for (size_t k = p->k, n; k < p->end; k += n) {
        n = stretch_at(k, w->cols);
        const size_t n_vecs = rf_mm_round16(n) / 16 * VEC;
        for (uint32_t r = 0; r < p->n_rows; r++)
            pack_row(w, p->row + r, k, n, dst + r / TILE_NR * TILE_NR * n_vecs + r % TILE_NR * VEC,
                     padded * n_vecs);
        dst += padded * rf_mm_round16(n);
    }
}

/* The last n < 16 elements of k, continued with zeros. */
static void add_end(float_panel *p, float_stretch s, uint32_t nt, const float *const x[]) {
    uint8_t w_end[RF_MM_FLOAT_ROWS][64] = {{0}};
    float x_end[GROUP_NT][16] = {{0}};
    const float *xp[GROUP_NT];
    for (uint32_t i = 0; i < nt; i++) {
        memcpy(x_end[i], x[i], s.n * sizeof(float));
        xp[i] = x_end[i];
    }
    if (p->kind != KIND_PANEL) {
        for (uint32_t r = 0; r < p->n_rows; r++)
            memcpy(w_end[r], s.w + r * s.row_bytes, s.n * kind_bytes(p->kind));
        s.w = w_end[0];
        s.row_bytes = sizeof w_end[0];
        s.tile_bytes = TILE_NR * sizeof w_end[0];
    }
    s.n = 16;
    add_some[p->kind][nt - 1](p, &s, xp);
}

/* The panel times nt activation rows from row t on. */
static void multiply_panel(float_panel *p, uint32_t t, uint32_t nt) {
    const rf_mm *mm = p->mm;
    const size_t cols = mm->act->n_cols;
    const size_t padded = (p->n_rows + TILE_NR - 1) / TILE_NR * TILE_NR;
    float_stretch s = {.w = p->w, .t = t};
    for (size_t k = p->k; k < p->end; k += s.n) {
        const float *x[GROUP_NT];
        for (uint32_t i = 0; i < nt; i++)
            x[i] = mm->act->x + (size_t)(t + i) * cols + k;
        s.k = k;
        s.n = stretch_at(k, cols);
        s.first = k == 0;
        s.last = k + s.n == cols;
        if (p->kind == KIND_PANEL) {
            s.w = p->w + (k - p->k) * padded * sizeof(float);
        } else {
            s.w = p->w + k * kind_bytes(p->kind);
            s.row_bytes = mm->w->row_bytes;
            s.tile_bytes = TILE_NR * s.row_bytes;
        }
        if (s.n % 16) {
            add_end(p, s, nt, x);
            return;
        }
        add_some[p->kind][nt - 1](p, &s, x);
    }
}

/* Turns to the rows behind the panel, a part of which is fetched each LOOK_EVERY columns of a tile. */
static void look_behind(float_panel *p, uint32_t end, uint32_t most) {
    size_t fetch = rf_mm_look_at_rows(p->mm, p->row + p->n_rows, end, most, &p->ahead);
    size_t looks = (p->mm->w->cols + LOOK_EVERY - 1) / LOOK_EVERY * (16 / VEC);
    looks *= (p->n_rows + TILE_NR - 1) / TILE_NR;
    looks *= (p->mm->act->n_rows + TILE_NT - 1) / TILE_NT;
    p->ahead.step = fetch / looks + 1;
}

/* Weight rows in a panel of so many bytes of f32: whole tiles, at least one. */
RF_INLINE uint32_t panel_rows(size_t cols, size_t bytes) {
    size_t n = bytes / (rf_mm_round16(cols) * sizeof(float)) / TILE_NR * TILE_NR;
    return n < TILE_NR ? TILE_NR : n < RF_MM_FLOAT_ROWS ? (uint32_t)n : RF_MM_FLOAT_ROWS;
}

/* The panel times the n activation rows from row t on, some at a time; the lanes of those lie apart floats
 * behind each other. */
static void multiply_rows(float_panel *p, float *sums, size_t apart, uint32_t t, uint32_t n) {
    uint32_t tiles = (n + TILE_NT - 1) / TILE_NT;
    p->sums = sums;
    for (uint32_t done = 0, nt; done < n; done += nt) {
        nt = 0;
        for (int i = 0; i < GROUP_NT / TILE_NT && tiles > 0; i++, tiles--)
            nt += (n - done - nt + tiles - 1) / tiles; /* tiles of about the same size */
        if (p->mm->act->blocks) nt = n - done < GROUP_NT ? n - done : GROUP_NT;
        const bool is_last = done + nt == n;
        p->next_t = is_last ? t : t + done + nt;
        p->next_k = !is_last ? p->k : p->end < p->mm->w->cols ? p->end : 0;
        multiply_panel(p, t + done, nt);
        p->sums += apart;
    }
}

/* Rows [begin, end) decoded.  Where they are long, part by part and for some activation rows at a time, which all
 * of them find nearer than the rest. */
static void decode_and_multiply(float_panel *p, uint32_t begin, uint32_t end, float *scratch) {
    const size_t cols = p->mm->w->cols, group = (size_t)GROUP_NT * RF_MM_FLOAT_ROWS * 16;
    const bool in_parts = cols > PART;
    const uint32_t n_act = p->mm->act->n_rows, block = in_parts ? RF_MM_FLOAT_BLOCK : n_act;
    const uint32_t most = panel_rows(in_parts ? PART : cols, PANEL_BYTES);
    float *panel = scratch + group * RF_MM_FLOAT_BLOCK / GROUP_NT;
    for (uint32_t t = 0, n; t < n_act; t += n) {
        n = n_act - t < block ? n_act - t : block;
        for (p->row = begin; p->row < end; p->row += p->n_rows) {
            p->n_rows = end - p->row < most ? end - p->row : most;
            for (p->k = 0; p->k < cols; p->k = p->end) {
                p->end = cols - p->k < PART ? cols : p->k + PART;
                decode_panel(p, panel);
                multiply_rows(p, scratch, in_parts ? group : 0, t, n);
            }
        }
    }
}

static void matmul_float(const rf_mm *mm, uint32_t begin, uint32_t end, float *scratch) {
    const rf_tensor *w = mm->w;
    const uint32_t n_act = mm->act->n_rows;
    if (n_act < RF_MM_TILE_MIN) {
        few(mm, begin, end, scratch);
        return;
    }
    float_panel p = {.mm = mm, .kind = kind_of(w->type), .end = w->cols};
    if (n_act > IN_PLACE) p.kind = KIND_PANEL;
    if (p.kind == KIND_PANEL) {
        decode_and_multiply(&p, begin, end, scratch);
        return;
    }
    const bool looks = kind_looks(p.kind);
    const uint32_t most = panel_rows(w->cols, looks ? LOOK_BYTES : PANEL_BYTES);
    if (looks) {
        p.ahead.step = rf_mm_look_at_rows(mm, begin, end, most, &p.ahead);
        rf_mm_look_ahead(&p.ahead);
    }
    for (p.row = begin; p.row < end; p.row += p.n_rows) {
        p.n_rows = end - p.row < most ? end - p.row : most;
        if (looks) look_behind(&p, end, most);
        p.w = rf_mm_row(w, p.row);
        multiply_rows(&p, scratch, 0, 0, n_act);
    }
}
