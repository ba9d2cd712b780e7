/* launch_attend.c - which kernels attention runs by, over what grid: by rules that hold for all rows of a cache, so that a
 * row has the same bits whichever of a rule's kernels it comes to. */
#include "backend/backend.h"
#include "backend/gpu/put.h"
#include "backend/gpu/tile.h"
#include "quant/dtype.h"

enum {
    ATTEND_VALUE_BYTES = 32 << 10,
    ATTEND_STEP_BLOCKS = 4,
    ATTEND_FEW = 512,      /* heads of rows */
    ATTEND_AT_ONCE = 2,    /* blocks of one of these kernels that a multiprocessor runs */
    ATTEND_MIN_ROWS = 16,  /* of attend_rows and the like */
    ATTEND_OWN_ROWS = 256, /* whose heads attention makes itself; more have not been measured */
};

/* Of sixteen bits. */
static bool fits_attend_vec(const rf_gpu_attend_args *a) {
    bool is_half = a->k_type == RF_DT_F16 || a->k_type == RF_DT_BF16;
    return is_half && a->k_type == a->v_type && a->v && a->head_dim % 16 == 0 &&
           a->head_dim <= RF_GPU_ATTEND_VEC_DIM && a->value_dim % 8 == 0 &&
           a->value_dim <= RF_GPU_ATTEND_VEC_DIM;
}

/* Shared memory that NVIDIA's kernels of attention by half.h's rule are given; AMD's bring their own. */
static uint32_t attend_halves_shared(const rf_gpu_queue *q, uint32_t bytes) {
    return is_amd(q) ? 0 : bytes;
}

/* Is this attention that half.h's rule is for, on NVIDIA's GPUs? */
static bool fits_attend_halves(const rf_gpu_attend_args *a) {
    bool is_half = a->k_type == RF_DT_F16 || a->k_type == RF_DT_BF16 || a->k_type == RF_DT_Q8_0;
    return is_half && a->k_type == a->v_type && a->v && a->head_dim == a->value_dim &&
           (a->head_dim == RF_ATTEND_HALVES_DIM || 2 * a->head_dim == RF_ATTEND_HALVES_DIM) &&
           a->scale > 0;
}

/* By that rule, which holds for all rows of a cache: only what never changes counts. */
static bool takes_attend_halves(const rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    bool is_ints = is_amd(q) && a->k_type == RF_DT_Q8_0;
    return fits_attend_halves(a) && !is_ints && q->fast_floats &&
           attend_halves_shared(q, RF_ATTEND_HALVES_SHARED) <= q->info.lds_bytes &&
           can_run(q, RF_GPU_attend_halves);
}

/* Enough neighbouring rows of each sequence. */
static bool has_many_rows(const rf_gpu_attend_args *a) {
    return a->n_rows >= ATTEND_MIN_ROWS && a->n_rows / RF_GPU_MANY_ROWS >= a->n_seqs;
}

static bool takes_attend_rows(const rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    return fits_attend_vec(a) && has_many_rows(a) && !takes_attend_halves(q, a);
}

/* Keys and values of Q8_0, of either width that it takes. */
static bool fits_attend_ints(const rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    bool is_q8 = a->v && a->k_type == RF_DT_Q8_0 && a->v_type == RF_DT_Q8_0;
    bool is_wide = a->head_dim == RF_GPU_ATTEND_INTS_DIM;
    return is_q8 && a->head_dim == a->value_dim &&
           (is_wide || 2 * a->head_dim == RF_GPU_ATTEND_INTS_DIM) &&
           RF_ATTEND_INTS_SHARED <= q->info.lds_bytes && can_run(q, RF_GPU_attend_ints);
}

/* Segments side by side where the device would be idle otherwise and there is room; else 1. */
static uint32_t splits_of(const rf_gpu_queue *q, const rf_gpu_attend_args *a, uint64_t n_blocks) {
    uint32_t n = div_up(a->max_kv_len, RF_GPU_SEGMENT_BLOCKS * 32);
    bool is_busy = n_blocks >= 2 * (uint64_t)q->info.n_units;
    bool has_room =
        a->parts && rf_gpu_parts_bytes(a->n_rows, a->n_heads, n, a->value_dim) <= a->parts_bytes;
    uint32_t groups = (uint32_t)((n_blocks - 1) / ((uint64_t)a->n_rows * a->n_kv_heads)) + 1;
    if (is_busy || !has_room || q->left_out[RF_GPU_attend_fold]) return 1;
    return n > 0 && n <= MAX_GRID_Y / groups ? n : 1;
}

static void put_attend_fold(rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    enum { SIDE_BY_SIDE = 4 };
    rf_gpu_grid grid = {a->n_rows, a->n_heads, div_up(a->value_dim, RF_FOLD_COLUMNS)};
    uint64_t n = 2 * (uint64_t)grid.x * grid.y * grid.z / q->info.n_units;
    uint32_t most = n < SIDE_BY_SIDE ? SIDE_BY_SIDE : (uint32_t)n;
    rf_gpu_put_shared(q, RF_GPU_attend_fold, grid, spread_shared(q, most, RF_FOLD_SHARED), a,
                      sizeof *a);
}

/* Stretches of so many items: query heads of rows that share a KV head. */
static uint64_t stretches_of(const rf_gpu_attend_args *a, uint32_t items) {
    return ((uint64_t)a->n_rows * (a->n_heads / a->n_kv_heads) + items - 1) / items;
}

/* Has the device work from so many blocks? */
static bool are_most(const rf_gpu_queue *q, uint64_t n_blocks) {
    return 4 * n_blocks >= 3 * (uint64_t)q->info.n_units;
}

uint64_t rf_gpu_kv_halves_bytes(const rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    bool is_turned =
        a->k_type == RF_DT_Q8_0 && (q ? takes_attend_halves(q, a) : fits_attend_halves(a));
    return is_turned ? (uint64_t)a->n_kv_blocks * a->n_kv_heads * RF_KV_BLOCK * 4 * a->head_dim : 0;
}

/* Is there room for so many bytes of keys and values of Q8_0 as F16? */
static bool turns_to_halves(const rf_gpu_queue *q, const rf_gpu_attend_args *a, uint64_t bytes) {
    return a->parts && bytes <= a->parts_bytes && can_run(q, RF_GPU_kv_halves) &&
           a->n_kv_heads <= MAX_GRID_Y && a->n_seqs <= MAX_GRID_Y;
}

/* Makes a pool of them, which a then attends to. */
static void turn_to_halves(rf_gpu_queue *q, rf_gpu_attend_args *a, uint64_t bytes) {
    rf_gpu_grid grid = {div_up(a->max_kv_len, RF_KV_BLOCK), a->n_kv_heads, a->n_seqs};
    rf_gpu_put_shared(q, RF_GPU_kv_halves, grid, 0, a, sizeof *a);
    a->k = a->parts;
    a->v = (const uint8_t *)a->parts + bytes / 2;
    a->k_type = a->v_type = RF_DT_F16;
}

/* How attention of many rows is launched: blocks of so many items, of which so many run at once on a multiprocessor. */
typedef struct attend_many {
    rf_gpu_kernel kernel; /* NO_KERNEL: as that of few rows */
    uint32_t items, shared_bytes, at_once;
    uint64_t turned; /* bytes of keys and values as F16, 0: as they are */
    bool splits;     /* segments side by side where the device would be idle */
} attend_many;

/* Many rows on matrix units, on AMD over Q8_0 few, too: not with blocks for less than three quarters of the
 * device, where kernels for few rows, which take segments side by side, are faster. */
static attend_many prompt_of(const rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    bool is_half = takes_attend_halves(q, a);
    bool is_q8 = a->k_type == RF_DT_Q8_0 && a->v_type == RF_DT_Q8_0 && a->v && !is_half &&
                 a->head_dim == a->value_dim && (a->head_dim == 64 || a->head_dim == 128);
    bool takes_few = is_q8 && is_amd(q);
    bool by_group = is_half && can_run(q, RF_GPU_attend_halves_group) &&
                    are_most(q, stretches_of(a, RF_HALVES_GROUP_ITEMS) * a->n_kv_heads);
    attend_many m = {RF_GPU_attend_ints_tile,
                     RF_INTS_TILE_ITEMS,
                     RF_INTS_TILE_SHARED,
                     ATTEND_AT_ONCE,
                     0,
                     takes_few};
    const attend_many none = {.kernel = NO_KERNEL};
    if (is_half)
        m = (attend_many){RF_GPU_attend_halves_tile,    RF_HALVES_TILE_ITEMS,
                          RF_HALVES_TILE_SHARED,        ATTEND_AT_ONCE,
                          rf_gpu_kv_halves_bytes(q, a), false};
    if (by_group)
        m = (attend_many){RF_GPU_attend_halves_group,   RF_HALVES_GROUP_ITEMS,
                          RF_HALVES_GROUP_SHARED,       1,
                          rf_gpu_kv_halves_bytes(q, a), false};
    if (is_amd(q)) m.shared_bytes = 0;
    uint64_t stretches = stretches_of(a, m.items);
    if (!(is_q8 || is_half) || a->pattern == RF_ATTN_CUSTOM || !(takes_few || has_many_rows(a)) ||
        !can_run(q, m.kernel) || stretches > MAX_GRID_Y || m.shared_bytes > q->info.lds_bytes ||
        (m.turned && !turns_to_halves(q, a, m.turned)))
        return none;
    bool may_be_few = is_half || fits_attend_ints(q, a);
    return may_be_few && !are_most(q, stretches * a->n_kv_heads) ? none : m;
}

/* Of attend_tile for all of the device, of attend_rows for one and a half: with fewer, kernels for few rows
 * are faster behind long contexts.  On AMD, where that was not measured, for half of it. */
static bool has_blocks(const rf_gpu_queue *q, bool is_large, uint64_t n_blocks) {
    if (is_large) return n_blocks >= q->info.n_units;
    return 2 * n_blocks >= (is_nvidia(q) ? 3 : 1) * (uint64_t)q->info.n_units;
}

/* By attend_tile where its shared memory is there, else by attend_rows, or by none of them but on matrix units. */
static attend_many many_of(const rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    for (int is_large = 1; is_large >= 0 && takes_attend_rows(q, a); is_large--) {
        rf_rows_tile t = rf_rows_tile_of();
        attend_many m = {is_large ? RF_GPU_attend_tile : RF_GPU_attend_rows,
                         is_large ? RF_TILE_ITEMS : t.items,
                         is_large ? RF_TILE_SHARED : rf_rows_shared_bytes(t),
                         ATTEND_AT_ONCE,
                         0,
                         false};
        uint64_t stretches = stretches_of(a, m.items);
        if (!can_run(q, m.kernel) || m.shared_bytes > q->info.lds_bytes || stretches > MAX_GRID_Y ||
            !has_blocks(q, is_large, stretches * a->n_kv_heads))
            continue;
        if (is_amd(q)) m.shared_bytes = 0;
        return m;
    }
    return prompt_of(q, a);
}

static void put_many(rf_gpu_queue *q, const rf_gpu_attend_args *a, const attend_many *m) {
    rf_gpu_attend_args args = *a;
    uint64_t stretches = stretches_of(a, m->items), n_blocks = stretches * a->n_kv_heads;
    if (m->turned) turn_to_halves(q, &args, m->turned);
    args.is_paired = n_blocks <= m->at_once * (uint64_t)q->info.n_units;
    args.n_splits = m->splits ? splits_of(q, a, n_blocks) : 1;
    rf_gpu_put_shared(q, m->kernel,
                      (rf_gpu_grid){a->n_kv_heads, (uint32_t)stretches, args.n_splits},
                      m->shared_bytes, &args, sizeof args);
    if (args.n_splits > 1) put_attend_fold(q, &args);
}

uint64_t rf_gpu_parts_bytes(uint32_t n_rows, uint32_t n_heads, uint32_t n_splits,
                            uint32_t value_dim) {
    return (uint64_t)n_rows * n_heads * n_splits * (value_dim + 2) * sizeof(float);
}

/* One query head per block while the device has room for all at once, else four that share keys. */
static rf_gpu_kernel attend_vec_of(const rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    uint32_t n_segments = div_up(a->max_kv_len, RF_GPU_SEGMENT_BLOCKS * RF_KV_BLOCK);
    bool has_room = (uint64_t)a->n_rows * a->n_heads * n_segments <= q->info.n_units;
    bool is_one = has_room || a->n_heads == a->n_kv_heads;
    rf_gpu_kernel k = is_one ? RF_GPU_attend_vec_1 : RF_GPU_attend_vec_4;
    if (q->left_out[k]) k = is_one ? RF_GPU_attend_vec_4 : RF_GPU_attend_vec_1;
    return q->left_out[k] ? NO_KERNEL : k;
}

/* The kernel for few rows, or NO_KERNEL, and the shared memory that it is given. */
static rf_gpu_kernel walking_kernel(const rf_gpu_queue *q, const rf_gpu_attend_args *a,
                                    uint32_t *shared_bytes) {
    if (takes_attend_halves(q, a)) {
        *shared_bytes = attend_halves_shared(q, RF_ATTEND_HALVES_SHARED);
        return RF_GPU_attend_halves;
    }
    if (fits_attend_ints(q, a)) {
        *shared_bytes = RF_ATTEND_INTS_SHARED;
        return RF_GPU_attend_ints;
    }
    *shared_bytes = is_nvidia(q) ? RF_ATTEND_VEC_SHARED : 0;
    return fits_attend_vec(a) ? attend_vec_of(q, a) : NO_KERNEL;
}

/* May attention norm, rotate and put what it attends to itself?  Rows that see each other's cannot. */
static bool makes_heads(const rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    uint32_t shared_bytes;
    return a->rows_alone && a->n_rows <= ATTEND_OWN_ROWS && !takes_attend_rows(q, a) &&
           walking_kernel(q, a, &shared_bytes) != NO_KERNEL;
}

/* Do walks of one segment each fold them together, n_blocks times?  Where these are a quarter of the device at most: more
 * wait for room side by side longer than a fold takes.  (The host's blocks run one behind the other.) */
static bool is_cluster(const rf_gpu_queue *q, rf_gpu_kernel k, uint64_t n_blocks, uint32_t n_walks,
                       uint32_t n_segments) {
    return k == RF_GPU_attend_halves && can_run(q, RF_GPU_attend_halves_cluster) &&
           (q->driver->launch_hinted || !is_nvidia(q)) && n_walks > 1 && n_walks == n_segments &&
           n_walks <= RF_CLUSTER_MOST && 4 * n_blocks * n_walks <= q->info.n_units;
}

/* How many blocks of so much shared memory take n_segments in turns, n_blocks times: with the least steps
 * one after another, where a block's start counts as one, and so does folding long heads by a kernel of its own. */
static uint32_t walks_of(const rf_gpu_queue *q, const rf_gpu_attend_args *a, uint64_t n_blocks,
                         uint32_t n_segments, rf_gpu_kernel k, uint32_t shared_bytes) {
    enum { SHORT_HEAD = 64 };
    const bool is_tight = 2 * shared_bytes + BLOCK_RESERVE > q->info.lds_bytes;
    const uint64_t at_once = (is_tight ? 1 : ATTEND_AT_ONCE) * (uint64_t)q->info.n_units;
    const uint32_t fold = a->value_dim > SHORT_HEAD ? 1 : 0;
    uint64_t least = UINT64_MAX;
    uint32_t best = 1;
    for (uint32_t n = 1; n <= n_segments; n++) {
        uint64_t turns = (n_blocks * n + at_once - 1) / at_once;
        bool folds = n > 1 && !is_cluster(q, k, n_blocks, n, n_segments);
        uint64_t steps = turns * (div_up(n_segments, n) + 1) + (folds ? fold : 0);
        if (steps >= least) continue;
        least = steps;
        best = n;
    }
    return best;
}

/* How attention of few rows is spread over the device. */
typedef struct attend_spread {
    rf_gpu_kernel kernel;
    uint32_t shared_bytes;
    uint32_t groups; /* of query heads of a KV head */
    uint32_t n_splits, n_walks;
} attend_spread;

/* More blocks than the device has at once, which has twice as many of half the threads? */
static bool takes_small_halves(const rf_gpu_queue *q, uint64_t n_blocks) {
    return n_blocks > ATTEND_AT_ONCE * (uint64_t)q->info.n_units &&
           room_of_block(q, 2 * ATTEND_AT_ONCE) >= RF_ATTEND_HALVES_SMALL_SHARED &&
           can_run(q, RF_GPU_attend_halves_small);
}

/* Four query heads per block, but one while there are few rows. */
static attend_spread spread_of(const rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    attend_spread s = {.shared_bytes = 0};
    uint32_t per_kv = a->n_heads / a->n_kv_heads;
    s.kernel = walking_kernel(q, a, &s.shared_bytes);
    bool walks = s.kernel != NO_KERNEL;
    if (!walks) {
        s.shared_bytes = 0;
        bool alone = per_kv == 1 || (uint64_t)a->n_rows * a->n_heads <= ATTEND_FEW;
        if (q->left_out[alone ? RF_GPU_attend_1 : RF_GPU_attend_4]) alone = !alone;
        s.kernel = alone ? RF_GPU_attend_1 : RF_GPU_attend_4;
    }
    bool is_one = s.kernel == RF_GPU_attend_1 || s.kernel == RF_GPU_attend_vec_1;
    s.groups = is_one ? per_kv : div_up(per_kv, 4);
    uint64_t n_blocks = (uint64_t)a->n_rows * a->n_kv_heads * s.groups;
    if (s.kernel == RF_GPU_attend_halves && takes_small_halves(q, n_blocks)) {
        s.kernel = RF_GPU_attend_halves_small;
        s.shared_bytes = RF_ATTEND_HALVES_SMALL_SHARED;
    }
    s.n_splits = splits_of(q, a, n_blocks);
    s.n_walks = walks ? walks_of(q, a, n_blocks, s.n_splits, s.kernel, s.shared_bytes) : s.n_splits;
    if (is_cluster(q, s.kernel, n_blocks, s.n_walks, s.n_splits)) {
        s.kernel = RF_GPU_attend_halves_cluster;
        s.n_splits = 1;
    }
    if (s.n_walks == 1) s.n_splits = 1;
    return s;
}

/* The kernel that does the same and makes its results integers, too. */
static rf_gpu_kernel with_ints(rf_gpu_kernel k) {
    if (k == RF_GPU_attend_halves) return RF_GPU_attend_halves_quant;
    return k == RF_GPU_attend_halves_small ? RF_GPU_attend_halves_small_quant : NO_KERNEL;
}

/* Where a block has all keys of its heads, and these are whole groups.  What it takes to make them costs one row more
 * than its product's blocks have to do for themselves. */
static bool makes_ints(const rf_gpu_queue *q, const rf_gpu_attend_args *a, const attend_spread *s) {
    enum { HEADS = 4 }; /* of a block */
    rf_gpu_kernel k = with_ints(s->kernel);
    if (!a->ints.q || a->n_rows < 2 || has_many_rows(a) || k == NO_KERNEL || !can_run(q, k))
        return false;
    uint32_t rest = a->n_heads / a->n_kv_heads % HEADS;
    bool fits = HEADS * a->value_dim % a->ints_view == 0 && rest * a->value_dim % a->ints_view == 0;
    return fits && s->n_splits == 1;
}

/* Where rows of many sequences, few of each, come before rows of those that have many: the latter, for a kernel of their
 * own, whose blocks would go through the former one sequence after the other. */
static bool has_rest(const rf_gpu_queue *q, const rf_gpu_attend_args *a, rf_gpu_attend_args *rest) {
    const uint32_t n = a->few_rows;
    bool heads_too = a->heads.n_parts && makes_heads(q, a);
    if (n == 0 || n >= a->n_rows || heads_too) return false;
    *rest = *a;
    rest->q += (size_t)n * a->n_heads * a->head_dim;
    rest->dst += (size_t)n * a->n_heads * a->value_dim;
    rest->batch.pos += n;
    rest->batch.row_seq += n;
    if (a->batch.mask) rest->batch.mask += (size_t)n * a->batch.mask_stride;
    rest->n_rows -= n;
    rest->first_seq += a->few_seqs;
    rest->n_seqs -= a->few_seqs;
    rest->few_rows = rest->few_seqs = 0;
    rest->ints.q = NULL;
    return many_of(q, rest).kernel != NO_KERNEL;
}

bool rf_gpu_attend_makes_ints(const rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    rf_gpu_attend_args rest;
    if (a->n_rows == 0 || has_rest(q, a, &rest)) return false;
    attend_spread s = spread_of(q, a);
    return makes_ints(q, a, &s);
}

static void put_few(rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    rf_gpu_attend_args args = *a;
    attend_spread s = spread_of(q, a);
    rf_gpu_kernel k = makes_ints(q, a, &s) ? with_ints(s.kernel) : s.kernel;
    args.n_splits = s.n_splits;
    args.n_walks = s.n_walks;
    rf_gpu_grid grid = {a->n_rows, a->n_kv_heads, s.groups * s.n_walks};
    bool in_cluster = k == RF_GPU_attend_halves_cluster;
    if ((k == RF_GPU_attend_halves || in_cluster) && are_few(q, (uint64_t)grid.x * grid.y * grid.z))
        rf_gpu_share(q, SHARE_OF_FEW);
    if (in_cluster) rf_gpu_cluster(q, s.n_walks);
    rf_gpu_put_shared(q, k, grid, s.shared_bytes, &args, sizeof args);
    if (args.n_splits > 1) put_attend_fold(q, &args);
}

/* By the kernel for so many rows. */
static void put_rows(rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    attend_many m = many_of(q, a);
    if (m.kernel == NO_KERNEL)
        put_few(q, a);
    else
        put_many(q, a, &m);
}

/* Values pass through shared memory in steps of as many KV blocks as it holds. */
void rf_gpu_op_attend(rf_gpu_queue *q, const rf_gpu_attend_args *a) {
    rf_gpu_attend_args args = *a, rest;
    if (a->n_rows == 0) return;
    if (a->heads.n_parts && !makes_heads(q, a)) {
        rf_gpu_op_heads(q, &a->heads);
        args.heads.n_parts = 0;
    }
    size_t v_row = a->v ? rf_kv_head_bytes((rf_dtype)a->v_type, a->value_dim)
                        : rf_kv_head_bytes((rf_dtype)a->k_type, a->head_dim);
    args.step_blocks = min_u32(ATTEND_VALUE_BYTES / (32 * (uint32_t)v_row), ATTEND_STEP_BLOCKS);
    if (has_rest(q, &args, &rest)) {
        put_rows(q, &rest);
        args.n_rows = args.few_rows;
        args.n_seqs = args.few_seqs;
        args.ints.q = NULL;
    }
    put_rows(q, &args);
}
