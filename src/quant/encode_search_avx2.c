/* encode_search_avx2.c - the same searches, compiled for AVX2. */
#include "quant/encode_grid.h"
#include "quant/encode_super.h"

const rf_enc_searches rf_enc_searches_avx2 = {search_scales, search_affines, search_points};
