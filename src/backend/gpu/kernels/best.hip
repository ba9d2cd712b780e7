/* best.hip - which of a row's logits can be chosen (rf_best): the best of each group of columns, then
 * the groups whose best is among the first, and the best of all.  What is not a finite number counts as
 * -inf.  Where a row has noise, its noisy numbers (noise.h) are what is compared, and only the columns
 * that may be drawn are the best of all. */
#include "backend/gpu/kernels/canon.h"

#define RF_BOTH RF_DEVICE
#include "backend/noise.h"

enum {
    BEST_PARTS = 16, /* threads of a group of columns, groups of a block */
    BEST_EACH = (int)RF_BEST_GROUP / (int)BEST_PARTS,    /* columns of a thread */
    BEST_COLUMNS = (int)RF_BEST_GROUP * (int)BEST_PARTS, /* of a block */
    BEST_SUMS = (int)RF_BLOCK_best_rows / (int)BEST_PARTS,
    BEST_OWN = (int)RF_GPU_BEST_MAX_GROUPS / (int)RF_BLOCK_best_rows, /* groups of a thread */
    BEST_FEW = (int)RF_BLOCK_best_rows, /* columns of which each thread has one */
};

RF_DEVICE float finite_or_least(float x) {
    return x > -__builtin_inff() && x < __builtin_inff() ? x : -__builtin_inff();
}

/* Noise to the block's numbers x, of columns from first on: four neighbours by each thread, whose words
 * are made at once.  word: [BEST_PARTS] */
RF_DEVICE void add_noise(const rf_noise *noise, uint32_t first, float *x, uint32_t *word) {
    const uint32_t tid = rf_tid(), group = tid / BEST_PARTS;
    uint32_t mine[4];
    if (tid < BEST_PARTS / 4)
        rf_noise_words(noise, RF_NOISE_GROUPS, first / (4 * RF_BEST_GROUP) + tid, word + 4 * tid);
    rf_noise_words(noise, RF_NOISE_COLUMNS, first / 4 + tid, mine);
    rf_sync();
    RF_UNROLL
    for (uint32_t k = 0; k < 4; k++) {
        const float v = x[4 * tid + k], wait = rf_noise_wait_of(4 * tid + k, word[group], mine[k]);
        x[4 * tid + k] = v > -__builtin_inff() ? rf_noisy(noise, v, wait) : v;
    }
    rf_sync();
}

/* With noise if there is any. */
RF_DEVICE float number_at(const rf_noise *noise, const float *x, uint32_t column) {
    const float v = finite_or_least(x[column]);
    return noise->scale > 0 && v > -__builtin_inff() ? rf_noisy_at(noise, column, v) : v;
}

/* The largest of each group of the block's numbers x; returns that of this thread's group.  part: [threads] */
RF_DEVICE float keep_most(float *most, uint32_t n_groups, const float *x, float *part) {
    const uint32_t tid = rf_tid(), group = rf_bid_x() * BEST_PARTS + tid / BEST_PARTS;
    const float *mine = x + tid / BEST_PARTS * RF_BEST_GROUP + tid % BEST_PARTS;
    float v = mine[0];
    RF_UNROLL
    for (uint32_t j = 1; j < BEST_EACH; j++)
        v = mine[j * BEST_PARTS] > v ? mine[j * BEST_PARTS] : v;
    part[tid] = v;
    rf_sync();
    v = part[tid / BEST_PARTS * BEST_PARTS];
    for (uint32_t j = 1; j < BEST_PARTS; j++) {
        const float other = part[tid / BEST_PARTS * BEST_PARTS + j];
        v = other > v ? other : v;
    }
    if (tid % BEST_PARTS == 0 && group < n_groups) most[group] = v;
    rf_sync();
    return v;
}

/* The sum over neighbouring threads, n in all, a power of two and at most 32. */
RF_DEVICE uint64_t add_neighbours(uint64_t v, uint32_t n) {
    RF_UNROLL
    for (uint32_t half = n / 2; half > 0; half /= 2) {
        const uint32_t low = rf_lane_xor((uint32_t)v, half);
        v += (uint64_t)rf_lane_xor((uint32_t)(v >> 32), half) << 32 | low;
    }
    return v;
}

RF_DEVICE uint32_t units_below(float top, float v) {
    return (uint32_t)(int32_t)(rf_exp32(v - top) * RF_EXPF_UNITS);
}

/* The mass of each group of the block's numbers x below its largest, as floats. */
RF_DEVICE void keep_mass(float *mass, uint32_t n_groups, const float *x, float top) {
    const uint32_t tid = rf_tid(), group = rf_bid_x() * BEST_PARTS + tid / BEST_PARTS;
    const float *mine = x + tid / BEST_PARTS * RF_BEST_GROUP + tid % BEST_PARTS;
    uint64_t units = 0;
    RF_UNROLL
    for (uint32_t j = 0; j < BEST_EACH; j++)
        units += top > -__builtin_inff() ? units_below(top, mine[j * BEST_PARTS]) : 0;
    units = add_neighbours(units, BEST_PARTS);
    if (tid % BEST_PARTS == 0 && group < n_groups) mass[group] = (float)units;
}

typedef struct best_groups_shared {
    float x[BEST_COLUMNS], part[RF_BLOCK_best_groups];
    uint32_t word[BEST_PARTS];
} best_groups_shared;

/* draws, a constant: some rows have noise. */
RF_DEVICE void best_groups_run(best_groups_shared *s, const rf_gpu_best_args *a, int draws) {
    const uint32_t tid = rf_tid(), first = rf_bid_x() * BEST_COLUMNS;
    const uint64_t all = (uint64_t)a->n_rows * a->n_groups;
    for (uint32_t row = rf_bid_y(); row < a->n_rows; row += 65535) {
        RF_UNROLL
        for (uint32_t j = 0; j < BEST_EACH; j++) {
            const uint32_t i = j * RF_BLOCK_best_groups + tid;
            s->x[i] = first + i < a->cols
                          ? finite_or_least(a->x[(uint64_t)row * a->cols + first + i])
                          : -__builtin_inff();
        }
        rf_sync();
        float *most = a->most + (uint64_t)row * a->n_groups;
        if (draws) {
            const rf_noise noise = a->noise[row];
            if (noise.scale > 0 && noise.narrows) {
                const float top = keep_most(most + all, a->n_groups, s->x, s->part);
                keep_mass(most + 2 * all, a->n_groups, s->x, top);
            }
            if (noise.scale > 0) add_noise(&noise, first, s->x, s->word);
        }
        (void)keep_most(most, a->n_groups, s->x, s->part);
    }
}

RF_KERNEL(best_groups, rf_gpu_best_args) {
    RF_SHARED best_groups_shared s;
    best_groups_run(&s, &a, 0);
}
RF_KERNEL(drawn_groups, rf_gpu_best_args) {
    RF_SHARED best_groups_shared s;
    best_groups_run(&s, &a, 1);
}

/* A column and its logit. */
typedef struct best_column {
    float x;
    uint32_t at;
} best_column;

typedef struct best_shared {
    uint32_t count[RF_BLOCK_best_rows], sum[BEST_SUMS];
    uint32_t group[RF_BEST_GROUPS];
    float most[RF_BLOCK_best_rows / 32];
    uint32_t at[RF_BLOCK_best_rows / 32];
    uint64_t mass[RF_BLOCK_best_rows / 32];
    best_column few[BEST_FEW], largest[RF_BEST_SURE]; /* the latter in order */
} best_shared;

/* The counts of all threads, added; also leaves them in s. */
RF_DEVICE uint32_t count_all(best_shared *s, uint32_t mine) {
    const uint32_t tid = rf_tid();
    uint32_t all = 0;
    s->count[tid] = mine;
    rf_sync();
    if (tid < BEST_SUMS) {
        uint32_t sum = 0;
        for (uint32_t j = 0; j < BEST_PARTS; j++)
            sum += s->count[tid * BEST_PARTS + j];
        s->sum[tid] = sum;
    }
    rf_sync();
    for (uint32_t j = 0; j < BEST_SUMS; j++)
        all += s->sum[j];
    return all;
}

/* Of the threads before this one, after count_all. */
RF_DEVICE uint32_t count_before(const best_shared *s) {
    const uint32_t tid = rf_tid();
    uint32_t n = 0;
    for (uint32_t j = 0; j < tid / BEST_PARTS; j++)
        n += s->sum[j];
    for (uint32_t j = tid / BEST_PARTS * BEST_PARTS; j < tid; j++)
        n += s->count[j];
    return n;
}

/* Numbers in the order of floats. */
RF_DEVICE uint32_t key_of(float x) {
    const uint32_t bits = rf_bits_of(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
RF_DEVICE float float_of_key(uint32_t key) {
    return rf_float_of(key >> 31 ? key & 0x7fffffffu : ~key);
}

/* The highest bound that n_sure of the keys reach, bit by bit from the top. */
RF_DEVICE uint32_t find_bound(best_shared *s, const uint32_t *key, uint32_t n_sure) {
    uint32_t bound = 0;
    RF_NO_UNROLL
    for (uint32_t bit = 0x80000000u; bit; bit >>= 1) {
        uint32_t n = 0;
        RF_UNROLL
        for (uint32_t j = 0; j < BEST_OWN; j++)
            n += key[j] >= (bound | bit);
        if (count_all(s, n) >= n_sure) bound |= bit;
    }
    return bound;
}

/* Lists the groups whose keys reach the bound, this thread's from number tid * own on, if RF_BEST_GROUPS hold
 * them; returns how many they are. */
RF_DEVICE uint32_t list_groups(best_shared *s, const uint32_t *key, uint32_t own, uint32_t bound) {
    uint32_t n = 0;
    RF_UNROLL
    for (uint32_t j = 0; j < BEST_OWN; j++)
        n += key[j] >= bound;
    const uint32_t n_all = count_all(s, n);
    if (n_all > RF_BEST_GROUPS) return n_all;
    uint32_t at = count_before(s);
    RF_UNROLL
    for (uint32_t j = 0; j < BEST_OWN; j++)
        if (key[j] >= bound) s->group[at++] = rf_tid() * own + j;
    rf_sync();
    return n_all;
}

RF_DEVICE int comes_before(float x, uint32_t at, float other, uint32_t other_at) {
    return x > other || (x == other && at < other_at);
}

/* The largest number of all threads and its place, the lowest of equals; left in s by each 32 threads. */
RF_DEVICE void find_first(best_shared *s, float most, uint32_t at) {
    RF_UNROLL
    for (uint32_t half = 16; half > 0; half /= 2) {
        const float other = rf_float_of(rf_lane_xor(rf_bits_of(most), half));
        const uint32_t other_at = rf_lane_xor(at, half);
        const int is_before = comes_before(other, other_at, most, at);
        most = is_before ? other : most;
        at = is_before ? other_at : at;
    }
    if (rf_tid() % 32 == 0) {
        s->most[rf_tid() / 32] = most;
        s->at[rf_tid() / 32] = at;
    }
    rf_sync();
}

/* Of what n times 32 threads left, the place. */
RF_DEVICE uint32_t first_of(const best_shared *s, uint32_t n) {
    float most = s->most[0];
    uint32_t at = s->at[0];
    for (uint32_t i = 1; i < n; i++) {
        const int is_before = comes_before(s->most[i], s->at[i], most, at);
        most = is_before ? s->most[i] : most;
        at = is_before ? s->at[i] : at;
    }
    return most == -__builtin_inff() ? RF_BEST_NONE : at;
}

/* The column of the row's largest number; most: of this thread's groups, the first of which is at. */
RF_DEVICE uint32_t first_column(best_shared *s, const rf_noise *noise, const float *x,
                                uint32_t cols, float most, uint32_t at) {
    find_first(s, most, at);
    const uint32_t group = first_of(s, RF_BLOCK_best_rows / 32);
    const uint32_t column = group * RF_BEST_GROUP + rf_tid() % RF_BEST_GROUP;
    rf_sync();
    find_first(s,
               group < RF_BEST_NONE && column < cols ? number_at(noise, x, column)
                                                     : -__builtin_inff(),
               column);
    return first_of(s, RF_BEST_GROUP / 32);
}

/* The sum over all threads. */
RF_DEVICE uint64_t add_all(best_shared *s, uint64_t mine) {
    mine = add_neighbours(mine, 32);
    rf_sync();
    if (rf_tid() % 32 == 0) s->mass[rf_tid() / 32] = mine;
    rf_sync();
    mine = 0;
    for (uint32_t i = 0; i < RF_BLOCK_best_rows / 32; i++)
        mine += s->mass[i];
    return mine;
}

/* A row whose columns are drawn from, and what best_groups told of its groups. */
typedef struct best_row {
    const float *x, *most, *mass; /* [cols], [n_groups] of logits, likewise */
    uint32_t cols, n_groups;
    float top; /* the largest logit */
} best_row;

RF_DEVICE float largest_of(best_shared *s, const best_row *r) {
    float most = -__builtin_inff();
    for (uint32_t g = rf_tid(); g < r->n_groups; g += RF_BLOCK_best_rows)
        most = r->most[g] > most ? r->most[g] : most;
    rf_sync();
    find_first(s, most, 0);
    for (uint32_t i = 0; i < RF_BLOCK_best_rows / 32; i++)
        most = s->most[i] > most ? s->most[i] : most;
    return most;
}

RF_DEVICE uint64_t mass_of_all(best_shared *s, const best_row *r) {
    uint64_t all = 0;
    for (uint32_t g = rf_tid(); g < r->n_groups; g += RF_BLOCK_best_rows)
        if (r->most[g] > -__builtin_inff())
            all += rf_noise_mass((uint64_t)r->mass[g], rf_exp32(r->most[g] - r->top));
    return add_all(s, all);
}

/* The mass of the columns before this one, by falling logit. */
RF_DEVICE uint64_t mass_before(best_shared *s, const best_row *r, uint32_t column) {
    const float mine = r->x[column];
    uint64_t before = 0;
    for (uint32_t g = rf_tid(); g < r->n_groups; g += RF_BLOCK_best_rows) {
        if (!(r->most[g] >= mine)) continue;
        const uint32_t from = g * RF_BEST_GROUP;
        RF_UNROLL_8
        for (uint32_t k = 0; k < RF_BEST_GROUP; k++) {
            const uint32_t i = from + k;
            const float v = i < r->cols ? finite_or_least(r->x[i]) : -__builtin_inff();
            before += comes_before(v, i, mine, column) ? units_below(r->top, v) : 0;
        }
    }
    return add_all(s, before);
}

/* The first by noise of those that reach `least` and come before the column by falling logit. */
RF_DEVICE uint32_t first_before(best_shared *s, const rf_noise *noise, const best_row *r,
                                float least, uint32_t column) {
    const float mine = r->x[column];
    float most = -__builtin_inff();
    uint32_t at = RF_BEST_NONE;
    for (uint32_t g = rf_tid(); g < r->n_groups; g += RF_BLOCK_best_rows) {
        if (!(r->most[g] >= mine)) continue;
        const uint32_t from = g * RF_BEST_GROUP, to = rf_min_u32(from + RF_BEST_GROUP, r->cols);
        RF_NO_UNROLL
        for (uint32_t i = from; i < to; i++) {
            const float v = finite_or_least(r->x[i]);
            if (!(v >= least) || !comes_before(v, i, mine, column)) continue;
            const float noisy = number_at(noise, r->x, i);
            at = noisy > most ? i : at;
            most = noisy > most ? noisy : most;
        }
    }
    rf_sync();
    find_first(s, most, at);
    return first_of(s, RF_BLOCK_best_rows / 32);
}

/* The first by noise of the columns that may be drawn, where `first` is that of all.  These are the likeliest
 * few: whoever is not among them tells that all who come later are not, either. */
RF_DEVICE uint32_t first_that_may(best_shared *s, const rf_noise *noise, const best_row *r,
                                  uint32_t first) {
    const int by_share = noise->narrows & RF_NARROWS_SHARE;
    const float least =
        noise->narrows & RF_NARROWS_DEPTH ? r->top + noise->depth : -__builtin_inff();
    const uint64_t share = by_share ? rf_noise_share(mass_of_all(s, r), noise->share) : 0;
    while (first != RF_BEST_NONE) {
        if (r->x[first] >= least && (!by_share || mass_before(s, r, first) < share)) break;
        first = first_before(s, noise, r, least, first);
    }
    return first;
}

/* The k largest columns ------------------------------------------------------------------------*/

/* All that reach the bound of the n listed groups, where each thread can have one of them, else too many. */
RF_DEVICE uint32_t list_few(best_shared *s, const best_row *r, uint32_t n, uint32_t bound) {
    enum { EACH = (int)RF_BEST_GROUPS * (int)RF_BEST_GROUP / (int)BEST_FEW };
    float v[EACH];
    uint32_t mine = 0;
    RF_UNROLL
    for (uint32_t j = 0; j < EACH; j++) {
        const uint32_t i = j * BEST_FEW + rf_tid(), g = i / RF_BEST_GROUP;
        const uint32_t column = g < n ? s->group[g] * RF_BEST_GROUP + i % RF_BEST_GROUP : r->cols;
        v[j] = column < r->cols ? finite_or_least(r->x[column]) : -__builtin_inff();
        if (key_of(v[j]) < bound) v[j] = -__builtin_inff();
        mine += v[j] > -__builtin_inff();
    }
    const uint32_t n_few = count_all(s, mine);
    if (n_few > BEST_FEW) return n_few;
    uint32_t at = count_before(s);
    RF_UNROLL
    for (uint32_t j = 0; j < EACH; j++) {
        const uint32_t i = j * BEST_FEW + rf_tid();
        if (!(v[j] > -__builtin_inff())) continue;
        s->few[at].x = v[j];
        s->few[at++].at = s->group[i / RF_BEST_GROUP] * RF_BEST_GROUP + i % RF_BEST_GROUP;
    }
    rf_sync();
    return n_few;
}

/* The k largest of the few, each put where as many are before it. */
RF_DEVICE void rank_few(best_shared *s, uint32_t n_few, uint32_t k) {
    if (n_few == 0) return;
    const best_column own = s->few[rf_min_u32(rf_tid(), n_few - 1)];
    uint32_t before = 0;
    RF_UNROLL_4
    for (uint32_t i = 0; i < n_few; i++)
        before += (uint32_t)comes_before(s->few[i].x, s->few[i].at, own.x, own.at);
    if (rf_tid() < n_few && before < k) s->largest[before] = own;
    rf_sync();
}

/* The k largest of the whole row, one after the other, where there are too many alike; returns how many there
 * are. */
RF_DEVICE uint32_t seek_largest(best_shared *s, const best_row *r, uint32_t k) {
    best_column last = {__builtin_inff(), 0};
    uint32_t n = 0;
    for (; n < k; n++) {
        best_column own = {-__builtin_inff(), RF_BEST_NONE};
        RF_NO_UNROLL
        for (uint32_t i = rf_tid(); i < r->cols; i += RF_BLOCK_best_rows) {
            const float v = finite_or_least(r->x[i]);
            const int is_next = comes_before(last.x, last.at, v, i) && v > own.x;
            own.x = is_next ? v : own.x;
            own.at = is_next ? i : own.at;
        }
        rf_sync();
        find_first(s, own.x, own.at);
        last.at = first_of(s, RF_BLOCK_best_rows / 32);
        if (last.at == RF_BEST_NONE) break;
        last.x = r->x[last.at];
        if (rf_tid() == 0) s->largest[n] = last;
    }
    rf_sync();
    return n;
}

RF_DEVICE uint32_t find_largest(best_shared *s, const best_row *r, uint32_t own, uint32_t k) {
    uint32_t key[BEST_OWN];
    RF_UNROLL
    for (uint32_t j = 0; j < BEST_OWN; j++) {
        const uint32_t g = rf_tid() * own + j;
        key[j] = j < own && g < r->n_groups ? key_of(r->most[g]) : 0;
    }
    const uint32_t bound = find_bound(s, key, k), n = list_groups(s, key, own, bound);
    const uint32_t n_few = n > RF_BEST_GROUPS ? ~0u : list_few(s, r, n, bound);
    if (n_few > BEST_FEW) return seek_largest(s, r, k);
    rank_few(s, n_few, k);
    return rf_min_u32(n_few, k);
}

/* The first by noise of the k largest columns, as far as the other options leave them; thread t has number t. */
RF_DEVICE uint32_t first_of_largest(best_shared *s, const rf_noise *noise, const best_row *r,
                                    uint32_t own) {
    const uint32_t tid = rf_tid(), n = find_largest(s, r, own, noise->count);
    if (n == 0) return RF_BEST_NONE;
    const best_column c = s->largest[rf_min_u32(tid, n - 1)];
    const float least =
        noise->narrows & RF_NARROWS_DEPTH ? r->top + noise->depth : -__builtin_inff();
    const uint32_t units = tid < n ? units_below(r->top, c.x) : 0;
    const uint64_t all = add_all(s, units);
    int may = tid < n && c.x >= least;
    s->count[tid] = units;
    rf_sync();
    if (may && noise->narrows & RF_NARROWS_SHARE) {
        uint64_t before = 0;
        for (uint32_t i = 0; i < tid; i++)
            before += s->count[i];
        may = before < rf_noise_share(all, noise->share);
    }
    find_first(s, may ? number_at(noise, r->x, c.at) : -__builtin_inff(), c.at);
    return first_of(s, RF_BLOCK_best_rows / 32);
}

/* One block per row.  Thread t owns neighbouring groups, so that their order is that of the threads.  draws, a
 * constant: some rows have noise. */
RF_DEVICE void best_rows_run(best_shared *s, const rf_gpu_best_args *a, int draws) {
    const uint32_t tid = rf_tid(), row = rf_bid_x();
    const uint32_t own = (a->n_groups + RF_BLOCK_best_rows - 1) / RF_BLOCK_best_rows;
    const float *x = a->x + (uint64_t)row * a->cols;
    rf_best *dst = a->dst + row;
    uint32_t key[BEST_OWN], at = 0;
    float top = -__builtin_inff();
    RF_UNROLL
    for (uint32_t j = 0; j < BEST_OWN; j++) {
        const uint32_t group = tid * own + j;
        key[j] = 0; /* below -inf's */
        if (j < own && group < a->n_groups) {
            const float most = a->most[(uint64_t)row * a->n_groups + group];
            key[j] = key_of(most);
            at = most > top ? group : at;
            top = most > top ? most : top;
        }
    }
    const rf_noise none = {{0, 0}, 0, 0.0f, 0, 0, 0, 0.0f}, noise = draws ? a->noise[row] : none;
    uint32_t first = first_column(s, &noise, x, a->cols, top, at);
    if (noise.scale > 0 && noise.narrows) {
        const uint64_t all = (uint64_t)a->n_rows * a->n_groups;
        const float *most = a->most + all + (uint64_t)row * a->n_groups;
        best_row r = {x, most, most + all, a->cols, a->n_groups, 0};
        r.top = largest_of(s, &r);
        first = noise.narrows & RF_NARROWS_COUNT ? first_of_largest(s, &noise, &r, own)
                                                 : first_that_may(s, &noise, &r, first);
    }
    if (tid == 0) a->chosen[row] = a->first[row] = first;
    if (a->first_only) return;
    if (tid == 0) dst->first = first;
    if (noise.scale > 0) { /* whose first is all that is told */
        if (tid == 0) dst->n_groups = 0;
        return;
    }
    const uint32_t bound = find_bound(s, key, RF_BEST_SURE);
    const uint32_t n_all = list_groups(s, key, own, bound);
    if (tid == 0) {
        dst->n_groups = n_all;
        dst->bound = float_of_key(bound);
    }
    if (n_all > RF_BEST_GROUPS) return;
    for (uint32_t i = tid; i < n_all * RF_BEST_GROUP; i += RF_BLOCK_best_rows) {
        const uint32_t g = s->group[i / RF_BEST_GROUP], k = i % RF_BEST_GROUP;
        const uint32_t column = g * RF_BEST_GROUP + k;
        dst->x[i / RF_BEST_GROUP][k] = column < a->cols ? x[column] : -__builtin_inff();
        if (k == 0) dst->group[i / RF_BEST_GROUP] = g;
    }
}

RF_KERNEL(best_rows, rf_gpu_best_args) {
    RF_SHARED best_shared s;
    best_rows_run(&s, &a, 0);
}
RF_KERNEL(drawn_rows, rf_gpu_best_args) {
    RF_SHARED best_shared s;
    best_rows_run(&s, &a, 1);
}
