/* mm_neon_types.h - sizes and integer lanes that the NEON product files share. */
#pragma once
#include <arm_neon.h>

enum {
    LANES = 8,               /* weight rows side by side */
    WIDTH = 4,               /* activation rows of a tile */
    PANEL_BYTES = 32 * 1024, /* half of a first-level cache; within RF_MM_PANEL_BYTES */
};

typedef struct lane_ints { /* [half of the lanes][activation row] */
    int32x4_t v[2][WIDTH];
} lane_ints;
