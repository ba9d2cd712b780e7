/* launch.h - the GPU's ops: each function takes the op's arguments, chooses kernel, grid and shared
 * memory, and queues it.
 *
 * Nothing is allocated and nothing waits, so every call may be recorded in a graph.  Sizes of 0
 * queue nothing.  A failure stays in the queue.  Kernels may ask for as much dynamic shared memory
 * as the device has: a driver with a lower default raises the limit of each function. */
#pragma once
#include "backend/gpu/args.h"
#include "backend/gpu/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

void rf_gpu_op_norm(rf_gpu_queue *q, const rf_gpu_norm_args *a);
void rf_gpu_op_quant(rf_gpu_queue *q, const rf_gpu_quant_args *a);
/* Nothing where the products of so many rows do without. */
void rf_gpu_op_lists(rf_gpu_queue *q, const rf_gpu_lists_args *a);
/* One launch for neighbouring parts of one layout.  Lists, where there are any, are of this route. */
void rf_gpu_op_matmul(rf_gpu_queue *q, const rf_gpu_matmul_args *a);
/* Does the launch of the product norm its row, too, with all that the norm is asked for, or make the route? */
bool rf_gpu_takes_along(const rf_gpu_queue *q, const rf_gpu_choose_args *a);
/* With experts for which it does that, or as rf_gpu_op_matmul, of a route that is there. */
void rf_gpu_op_choose(rf_gpu_queue *q, const rf_gpu_choose_args *a);
/* Norm, rotation and KV put of queries, keys and values; also ROPE and KV_PUT alone. */
void rf_gpu_op_heads(rf_gpu_queue *q, const rf_gpu_heads_args *a);
void rf_gpu_op_attend(rf_gpu_queue *q, const rf_gpu_attend_args *a);
/* Will it leave dst in integers, too, where a->ints says?  Else what lies there stays. */
bool rf_gpu_attend_makes_ints(const rf_gpu_queue *q, const rf_gpu_attend_args *a);
void rf_gpu_op_conv(rf_gpu_queue *q, const rf_gpu_conv_args *a);
void rf_gpu_op_recur(rf_gpu_queue *q, const rf_gpu_recur_args *a);
void rf_gpu_op_each(rf_gpu_queue *q, const rf_gpu_each_args *a);
void rf_gpu_op_embed(rf_gpu_queue *q, const rf_gpu_embed_args *a);
void rf_gpu_op_copy(rf_gpu_queue *q, const rf_gpu_copy_args *a);
void rf_gpu_op_route(rf_gpu_queue *q, const rf_gpu_route_args *a);
void rf_gpu_op_mix(rf_gpu_queue *q, const rf_gpu_mix_args *a);
/* Groups of a row of so many columns; 0: its best cannot be told. */
uint32_t rf_gpu_best_groups(uint32_t cols);
void rf_gpu_op_best(rf_gpu_queue *q, const rf_gpu_best_args *a);

/* May the queue go without that kernel, others doing its work?  Looks at what it leaves out. */
bool rf_gpu_has_substitute(const rf_gpu_queue *q, rf_gpu_kernel k);

/* Two weights may share a launch, or make a gated pair. */
bool rf_gpu_same_layout(const rf_gpu_weight *a, const rf_gpu_weight *b);
/* Scratch of rf_gpu_attend_args.parts. */
uint64_t rf_gpu_parts_bytes(uint32_t n_rows, uint32_t n_heads, uint32_t n_splits,
                            uint32_t value_dim);
/* Bytes of rf_gpu_attend_args.parts with which attention of many rows takes keys and values of Q8_0 as F16; 0: it does not,
 * on a device of NVIDIA's with fast floats if q is NULL. */
uint64_t rf_gpu_kv_halves_bytes(const rf_gpu_queue *q, const rf_gpu_attend_args *a);
/* Scratch of rf_gpu_matmul_args.ahead for up to so many rows, wherever it may be of use; only what the
 * parts' weights are like matters. */
size_t rf_gpu_ahead_bytes(const rf_gpu_matmul_args *a, uint32_t max_rows);
/* The same for rows of x in 16-bit floats. */
size_t rf_gpu_halves_bytes(const rf_gpu_matmul_args *a, uint32_t max_rows);
/* Bytes of rf_gpu_matmul_args.kept, with which products of many rows do not make digits of the weights, or f16, each time; 0:
 * they have no use for it.  What rf_gpu_op_keep makes depends on the weights alone; where it leaves a->unfit not 0 it must not be
 * used. */
uint64_t rf_gpu_kept_bytes(const rf_gpu_queue *q, const rf_gpu_matmul_args *a);
void rf_gpu_op_keep(rf_gpu_queue *q, const rf_gpu_matmul_args *a);
/* Scratch of rf_gpu_recur_args.ready, for so many rows of what a is of. */
size_t rf_gpu_ready_bytes(const rf_gpu_recur_args *a, uint32_t max_rows);
/* Scratch of rf_gpu_lists_args.lists. */
size_t rf_gpu_lists_bytes(uint32_t max_rows, uint32_t n_used, uint32_t n_experts);

#ifdef __cplusplus
}
#endif
