/* dtype.h - the table of number formats: what a block is, how it decodes, what integers it holds.
 *
 * Everything that knows a format's bytes lies in this room; the rest of the project asks the table.
 * All functions are pure and thread-safe; source pointers need no alignment. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rf_dtype { /* our own dense numbering; files carry rf_dtype_info.id */
#define X(name, id, elems, bytes) RF_DT_##name,
#include "quant/dtype.def"
#undef X
                        RF_DT_COUNT
} rf_dtype;

/* The integer view of a format, which the CPU backend's exact dot products are made of.
 * A group is the stretch of a row that shares one pair of floats (d, m). */
typedef enum rf_int_view {
    RF_INT_NONE, /* only decode(): floats, or formats whose scales are not integers */
    RF_INT_32,   /* groups of 32:  w[i] = d * q[i] + m */
    RF_INT_256,  /* groups of 256: w[i] = d * scale[i/16] * q[i] + m * min[i/16] */
} rf_int_view;

/* One unpacked group.  For RF_INT_32 only q[0..31], d and m are set.  |q| <= 127, except that Q8_0
 * and Q8_K give -128 for that byte: no quantiser writes it, but a file may hold it. */
typedef struct rf_int_group {
    int8_t q[256];
    int16_t scale[16], min[16]; /* RF_INT_256: per 16 elements; min is 0 where has_min is false */
    float d, m;
} rf_int_group;

typedef struct rf_dtype_info {
    const char *name; /* "Q4_K" */
    uint32_t id;      /* in GGUF files */
    uint32_t block_elems, block_bytes;
    /* dst[0..n): the exact f32 values; n is a multiple of block_elems.  NULL for integer types. */
    void (*decode)(const void *src, float *dst, size_t n);
    /* The other way: dst gets the blocks of src[0..n), n a multiple of block_elems.  The error is
     * weighted with importance[0..n), or evenly where that is NULL.  NULL: no encoder. */
    void (*encode)(const float *src, void *dst, size_t n, const float *importance);
    rf_int_view view;
    bool has_min;   /* m (and min) may be nonzero */
    bool is_nonneg; /* every q is >= 0 (so a u8 x s8 product needs no sign handling) */
    bool is_block;  /* a block format, not a plain scalar type */
    /* Group number g of a row of blocks (g counts groups of 32 or 256 elements from its start). */
    void (*unpack)(const void *row, size_t g, rf_int_group *out); /* NULL for RF_INT_NONE */
} rf_dtype_info;

const rf_dtype_info *rf_dtype_get(rf_dtype t);
/* False when the id is unknown or was removed from the format. */
bool rf_dtype_from_id(uint32_t id, rf_dtype *out);
bool rf_dtype_from_name(rf_str name, rf_dtype *out); /* case-insensitive */
/* Bytes of n elements; false when n is no multiple of the block or the size overflows. */
bool rf_dtype_bytes(rf_dtype t, uint64_t n, size_t *out);

#ifdef __cplusplus
}
#endif
