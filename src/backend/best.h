/* best.h - the few columns of a row of logits that can be chosen, or the first of them alone, as a device
 * with a memory of its own hands them over in place of the row.
 *
 * Groups of neighbouring columns, whole: whoever looks for the k best of the row finds them here if k
 * of them reach the bound, for whatever is elsewhere does not. */
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RF_BEST_GROUP = 64,  /* columns of a group */
    RF_BEST_GROUPS = 64, /* groups at most */
    RF_BEST_SURE = 48,   /* groups, and so numbers, that reach the bound at least */
};
#define RF_BEST_NONE 0xffffffffu /* as first: no number is finite */

/* What of a row whoever chooses needs. */
typedef enum rf_by_best {
    RF_BY_ROW,
    RF_BY_BEST,
    RF_BY_FIRST, /* the largest number's column, of noisy numbers where there is noise */
} rf_by_best;

/* A row's noise (noise.h), and which of its columns may be drawn. */
typedef struct rf_noise {
    uint32_t seed[2]; /* low half first */
    uint32_t draw;    /* how many there were before, of this seed */
    float scale;      /* of the logits; 0: they have no noise */
    uint32_t narrows; /* rf_narrows, or 0: any column */
    uint32_t count;   /* by RF_NARROWS_COUNT, at most RF_BEST_SURE */
    uint32_t share;   /* by RF_NARROWS_SHARE, of 2^32 */
    float depth;      /* by RF_NARROWS_DEPTH, 0 or less */
} rf_noise;

/* Only so many of the largest logits; of these, or of the row, only the likeliest that together hold a share of
 * the mass; only logits that reach the largest plus the depth. */
typedef enum rf_narrows {
    RF_NARROWS_SHARE = 1,
    RF_NARROWS_DEPTH = 2,
    RF_NARROWS_COUNT = 4,
} rf_narrows;

typedef struct rf_best {
    rf_by_best by;     /* RF_BY_FIRST: first alone is told, with the row's noise; else RF_BY_BEST */
    uint32_t n_groups; /* 0, too, where too many are alike */
    float bound;       /* every finite number of the row that is at least this is in a group here */
    uint32_t first;    /* column of the largest finite number, the lowest of equals */
    uint32_t
        group[RF_BEST_GROUPS]; /* [n_groups] ascending; columns from group * RF_BEST_GROUP on */
    float x[RF_BEST_GROUPS][RF_BEST_GROUP]; /* -inf behind the row's end */
} rf_best;

#ifdef __cplusplus
}
#endif
