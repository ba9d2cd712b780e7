/* imatrix.h - reading importance matrices: how large the inputs of each weight's columns were.
 *
 * Two formats: GGUF with NAME.in_sum2 and NAME.counts, and the older one of plain records.  Numbers
 * are borrowed from the file's map and live as long as the rf_imatrix; they may be anything a file
 * can hold, NaN included. */
#pragma once
#include "gguf/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_imatrix rf_imatrix;
RF_CHECKED rf_status rf_imatrix_open(rf_imatrix **out, const char *path, rf_error *e);
/* The same over borrowed bytes (tests, fuzzing). */
RF_CHECKED rf_status rf_imatrix_open_memory(rf_imatrix **out, const void *p, size_t n, rf_error *e);
void rf_imatrix_close(rf_imatrix *im); /* NULL is fine */

/* Sums of squares over the rows that met each matrix of a weight. */
typedef struct rf_importance {
    const uint8_t *sums;   /* f32 [n_mats][n_cols], unaligned; NULL: the weight is unknown */
    const uint8_t *counts; /* f32 [n_counts], unaligned; NULL in the older format */
    uint64_t n_counts;     /* n_mats, or 1 that stands for all of them */
} rf_importance;
/* How many rows met that matrix; 1 in the older format. */
float rf_importance_count(const rf_importance *im, uint64_t matrix);
/* What is known of a weight of this shape; another shape is RF_EFORMAT. */
RF_CHECKED rf_status rf_imatrix_find(const rf_imatrix *im, rf_str weight, uint64_t n_cols,
                                     uint64_t n_mats, rf_importance *out, rf_error *e);

#ifdef __cplusplus
}
#endif
