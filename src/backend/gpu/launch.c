/* launch.c - which kernel runs an op on rows, over what grid: norms, heads, what keeps a state, and all that a kernel does
 * alone.  Attention: launch_attend.c; matrix products: launch_products.c, launch_ahead.c, launch_halves.c. */
#include "backend/gpu/launch.h"

#include "backend/gpu/put.h"
#include "backend/gpu/tile.h"
#include "model/model.h"
#include "quant/dtype.h"

enum {
    HEADS_MIN_ROWS = 32, /* of heads_rows */
    CONV_BLOCKS = 8,     /* for each unit of the device */
    FEW_BLOCKS_MIN = 16, /* of norms that take SHARE_OF_FEW, */
    QUANT_MIN_ROWS = 16, /* and rows in integers that do */
};

/* Blocks of parts of rows, where these are not many and can be had; rows: whose blocks have more of a row. */
static bool takes_parts(const rf_gpu_queue *q, rf_gpu_kernel parts, rf_gpu_kernel rows,
                        uint64_t n_blocks) {
    bool is_few = n_blocks <= 2 * (uint64_t)q->info.n_units;
    return can_run(q, parts) && (is_few || !can_run(q, rows));
}

/* All blocks of a row add up the whole row. */
void rf_gpu_op_norm(rf_gpu_queue *q, const rf_gpu_norm_args *a) {
    uint32_t n_parts = min_u32(div_up(a->n, RF_GPU_NORM_PART), RF_GPU_NORM_PARTS);
    uint64_t n_blocks = (uint64_t)n_parts * a->n_items;
    if (!takes_parts(q, RF_GPU_norm_parts, RF_GPU_norm_rows, n_blocks)) {
        rf_gpu_put(q, RF_GPU_norm_rows, a->n_items, a->n > 0, 1, a, sizeof *a);
        return;
    }
    bool is_spread = a->n_items > 1 && n_blocks <= q->info.n_units;
    if (a->n_items > 1 && n_blocks >= FEW_BLOCKS_MIN && are_few(q, n_blocks))
        rf_gpu_share(q, SHARE_OF_FEW);
    rf_gpu_put_shared(q, RF_GPU_norm_parts, (rf_gpu_grid){a->n_items, n_parts, 1},
                      is_spread ? spread_shared(q, 2, RF_NORM_SHARED) : 0, a, sizeof *a);
}

void rf_gpu_op_quant(rf_gpu_queue *q, const rf_gpu_quant_args *a) {
    uint32_t n_parts = div_up(a->cols, RF_GPU_NORM_PART);
    if (!takes_parts(q, RF_GPU_quant_parts, RF_GPU_quant_rows, (uint64_t)n_parts * a->n_rows)) {
        rf_gpu_put(q, RF_GPU_quant_rows, a->n_rows, div_up(n_parts, RF_GPU_NORM_PARTS), 1, a,
                   sizeof *a);
        return;
    }
    if (a->n_rows >= QUANT_MIN_ROWS) rf_gpu_share(q, SHARE_OF_FEW);
    rf_gpu_put(q, RF_GPU_quant_parts, a->n_rows, n_parts, 1, a, sizeof *a);
}

/* Many rows, of which every element is made of two at most: a thread has eight. */
static bool takes_heads_rows(const rf_gpu_queue *q, const rf_gpu_heads_args *a) {
    for (uint32_t i = 0; i < a->n_parts; i++) {
        const rf_gpu_heads *h = &a->part[i];
        bool is_q8 = h->pool && h->pool_type == RF_DT_Q8_0;
        uint32_t whole = is_q8 ? 64 : 8; /* of Q8_0 eight threads have whole groups */
        bool is_odd = h->head_dim % whole != 0 || (h->cos_sin && h->n_dims % whole != 0);
        bool is_q4 = h->pool && h->pool_type == RF_DT_Q4_0;
        if (h->norm != RF_GPU_NO_NORM || is_odd || is_q4) return false;
    }
    return a->n_rows >= HEADS_MIN_ROWS && a->batch.pos && can_run(q, RF_GPU_heads_rows);
}

void rf_gpu_op_heads(rf_gpu_queue *q, const rf_gpu_heads_args *a) {
    uint32_t n_heads = 0, n_eights = 0;
    for (uint32_t i = 0; i < a->n_parts; i++) {
        n_heads += a->part[i].n_heads;
        n_eights += a->part[i].n_heads * a->part[i].head_dim / 8;
    }
    if (takes_heads_rows(q, a))
        rf_gpu_put(q, RF_GPU_heads_rows, a->n_rows,
                   div_up(n_eights, rf_gpu_block[RF_GPU_heads_rows]), 1, a, sizeof *a);
    else
        rf_gpu_put(q, RF_GPU_heads, a->n_rows, n_heads, 1, a, sizeof *a);
}

_Static_assert((int)RF_GPU_CONV_ROWS >= (int)RF_MAX_TAPS - 1, "one stretch reads the state");

/* Stretches of the longest sequence side by side, as far as the device has room for them. */
void rf_gpu_op_conv(rf_gpu_queue *q, const rf_gpu_conv_args *a) {
    rf_gpu_conv_args args = *a;
    if (a->n_seqs == 0) return;
    uint32_t n_cols = div_up(a->cols, rf_gpu_block[RF_GPU_conv]);
    uint32_t longest = div_up(a->n_rows - a->n_seqs + 1, RF_GPU_CONV_ROWS);
    uint64_t room = CONV_BLOCKS * (uint64_t)q->info.n_units / ((uint64_t)n_cols * a->n_seqs) + 1;
    args.n_stretches = room < longest ? (uint32_t)room : longest;
    rf_gpu_put(q, RF_GPU_conv, a->n_seqs, n_cols, args.n_stretches, &args, sizeof args);
}

size_t rf_gpu_ready_bytes(const rf_gpu_recur_args *a, uint32_t max_rows) {
    size_t cols = 2 * (size_t)a->n_heads;
    if (a->is_delta) cols += 2 * (size_t)a->n_kv_heads * a->head_dim;
    return max_rows * cols * sizeof(float);
}

void rf_gpu_op_recur(rf_gpu_queue *q, const rf_gpu_recur_args *a) {
    rf_gpu_kernel k = a->is_delta ? RF_GPU_delta_128 : RF_GPU_scan_128;
    if (a->head_dim != RF_GPU_RECUR_KEPT || !can_run(q, k))
        k = a->is_delta ? RF_GPU_delta : RF_GPU_scan;
    rf_gpu_put(q, RF_GPU_recur_ready, a->n_rows, a->is_delta ? a->n_kv_heads + 1 : 1, 1, a,
               sizeof *a);
    rf_gpu_put(q, k, a->n_seqs, a->n_heads, div_up(a->value_dim, rf_gpu_block[k]), a, sizeof *a);
}

void rf_gpu_op_each(rf_gpu_queue *q, const rf_gpu_each_args *a) {
    rf_gpu_put(q, RF_GPU_each, div_up(a->cols, rf_gpu_block[RF_GPU_each]),
               min_u32(a->n_rows, MAX_GRID_Y), 1, a, sizeof *a);
}

void rf_gpu_op_embed(rf_gpu_queue *q, const rf_gpu_embed_args *a) {
    rf_gpu_put(q, RF_GPU_embed, div_up(a->cols, rf_gpu_block[RF_GPU_embed]),
               min_u32(a->n_rows, MAX_GRID_Y), 1, a, sizeof *a);
}

void rf_gpu_op_copy(rf_gpu_queue *q, const rf_gpu_copy_args *a) {
    rf_gpu_put(q, RF_GPU_copy, div_up(a->n_heads * a->n, rf_gpu_block[RF_GPU_copy]),
               min_u32(a->n_rows, MAX_GRID_Y), 1, a, sizeof *a);
}

void rf_gpu_op_route(rf_gpu_queue *q, const rf_gpu_route_args *a) {
    rf_gpu_put(q, RF_GPU_route, a->n_rows, a->n_experts > 0, 1, a, sizeof *a);
}

void rf_gpu_op_mix(rf_gpu_queue *q, const rf_gpu_mix_args *a) {
    rf_gpu_put(q, RF_GPU_mix, div_up(a->cols, rf_gpu_block[RF_GPU_mix]),
               min_u32(a->n_rows, MAX_GRID_Y), 1, a, sizeof *a);
}

uint32_t rf_gpu_best_groups(uint32_t cols) {
    uint32_t n = div_up(cols, RF_BEST_GROUP);
    return n >= RF_BEST_GROUPS && n <= RF_GPU_BEST_MAX_GROUPS ? n : 0;
}

void rf_gpu_op_best(rf_gpu_queue *q, const rf_gpu_best_args *a) {
    enum { GROUPS_OF_BLOCK = 16 };
    rf_gpu_kernel groups = a->noise ? RF_GPU_drawn_groups : RF_GPU_best_groups;
    rf_gpu_kernel rows = a->noise ? RF_GPU_drawn_rows : RF_GPU_best_rows;
    rf_gpu_put(q, groups, div_up(a->n_groups, GROUPS_OF_BLOCK), min_u32(a->n_rows, MAX_GRID_Y), 1,
               a, sizeof *a);
    rf_gpu_put(q, rows, a->n_rows, 1, 1, a, sizeof *a);
}
