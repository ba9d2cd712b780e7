/* kernels.hip - the one translation unit of all GPU kernels: a code object is this file compiled for
 * one target. */
#include "backend/gpu/kernels/attend.hip"
#include "backend/gpu/kernels/attend_fold.hip"
#include "backend/gpu/kernels/attend_vec.hip"
#include "backend/gpu/kernels/each.hip"
#include "backend/gpu/kernels/heads.hip"
#include "backend/gpu/kernels/mm_float.hip"
#include "backend/gpu/kernels/mm_float_one.hip"
#include "backend/gpu/kernels/mm_one.hip"
#include "backend/gpu/kernels/mm_tile.hip"
#include "backend/gpu/kernels/mm_vec.hip"
#include "backend/gpu/kernels/norm.hip"
#include "backend/gpu/kernels/route.hip"
