/* heads.hip - heads of queries, keys and values: norm, rotation and the way into the KV pool; one
 * block per row and head, or, of many rows whose heads have no norm, per row. */
#include "backend/gpu/kernels/kv.h"
#include "backend/gpu/kernels/norm.h"

typedef struct heads_shared {
    float x[RF_MAX_HEAD_DIM];
    float lanes[16];
} heads_shared;

/* tree16 of one head in shared memory; mean counts only with distances. */
RF_DEVICE float head_sum(heads_shared *s, uint32_t n, int is_sum, float mean) {
    const uint32_t tid = rf_tid();
    if (tid < 16) {
        float total = 0.0f;
        for (uint32_t first = 0; first < n; first += RF_NORM_STRETCH) {
            const uint32_t end = rf_min_u32(first + RF_NORM_STRETCH, n);
            float acc = 0.0f;
            for (uint32_t k = first + tid; k < end; k += 16) {
                float v = s->x[k] - mean;
                acc = is_sum ? acc + s->x[k] : rf_fma(v, v, acc);
            }
            total += acc;
        }
        s->lanes[tid] = total;
    }
    rf_sync();
    float sum = rf_tree16(s->lanes);
    rf_sync();
    return sum;
}

RF_DEVICE void norm_head(heads_shared *s, const rf_gpu_heads *h) {
    const uint32_t n = h->head_dim;
    float mean = 0.0f;
    if (h->norm == RF_GPU_LAYER_NORM) mean = head_sum(s, n, 1, 0.0f) / (float)n;
    const float r = 1.0f / __builtin_sqrtf(head_sum(s, n, 0, mean) / (float)n + h->eps);
    for (uint32_t k = rf_tid(); k < n; k += RF_BLOCK_heads) {
        float y = (s->x[k] - mean) * r;
        if (h->w) y = y * h->w[k];
        if (h->b) y = y + h->b[k];
        s->x[k] = y;
    }
    rf_sync();
}

RF_DEVICE void rotate_head(heads_shared *s, const rf_gpu_heads *h, uint32_t pos) {
    const uint32_t half = h->n_dims / 2;
    const float *cos_sin = h->cos_sin + (uint64_t)pos * h->n_dims;
    for (uint32_t i = rf_tid(); i < half; i += RF_BLOCK_heads) {
        const uint32_t i0 = h->neox ? i : 2 * i, i1 = h->neox ? i + half : 2 * i + 1;
        const float x0 = s->x[i0], x1 = s->x[i1], c = cos_sin[2 * i], sn = cos_sin[2 * i + 1];
        s->x[i0] = rf_fma(x0, c, -(x1 * sn));
        s->x[i1] = rf_fma(x0, sn, x1 * c);
    }
    rf_sync();
}

/* Groups of 32 as activations are quantised, the last one filled up, their scale rounded to f16.
 * Each thread finds its group's largest |x| by itself. */
RF_DEVICE void put_q8_0(const heads_shared *s, uint8_t *row, uint32_t n) {
    for (uint32_t k = rf_tid(); k < rf_div_up(n, 32) * 32; k += RF_BLOCK_heads) {
        uint32_t most = 0;
        for (uint32_t i = k & ~31u; i < rf_min_u32((k & ~31u) + 32, n); i++) {
            most = rf_max_u32(most, rf_size_of(s->x[i]));
        }
        const float amax = rf_float_of(most), id = amax > 0 ? 127.0f / amax : 0;
        uint8_t *block = row + k / 32 * RF_KV_Q8_BYTES;
        block[2 + k % 32] = (uint8_t)rf_quantised(k < n ? s->x[k] : 0.0f, id);
        if (k % 32 == 0) *(uint16_t *)(void *)block = rf_f16_of(amax / 127.0f);
    }
}

RF_DEVICE uint32_t nibble_of(float x, float id) {
    float q = x * id + 8.5f;
    q = q > 0.0f ? q : 0.0f; /* a NaN too */
    q = q < 15.0f ? q : 15.0f;
    return (uint32_t)q;
}

/* The same for multiples -8 .. 7 of a scale such that the value of largest size is -8 of it.  A thread
 * makes a byte: two elements. */
RF_DEVICE void put_q4_0(const heads_shared *s, uint8_t *row, uint32_t n) {
    for (uint32_t k = rf_tid(); k < rf_div_up(n, 32) * 16; k += RF_BLOCK_heads) {
        const uint32_t first = k / 16 * 32, i0 = first + k % 16, i1 = i0 + 16;
        uint32_t most_bits = 0;
        float most = 0.0f;
        for (uint32_t i = first; i < rf_min_u32(first + 32, n); i++) {
            const uint32_t bits = rf_size_of(s->x[i]);
            most = bits > most_bits ? s->x[i] : most;
            most_bits = rf_max_u32(most_bits, bits);
        }
        const float d = most / -8.0f, id = d != 0.0f ? 1.0f / d : 0.0f;
        uint8_t *block = row + k / 16 * RF_KV_Q4_BYTES;
        block[2 + k % 16] = (uint8_t)(nibble_of(i0 < n ? s->x[i0] : 0.0f, id) |
                                      nibble_of(i1 < n ? s->x[i1] : 0.0f, id) << 4);
        if (k % 16 == 0) *(uint16_t *)(void *)block = rf_f16_of(d);
    }
}

/* The head in shared memory to its row of the KV pool. */
RF_DEVICE void put_head(const heads_shared *s, const rf_gpu_heads *h, uint8_t *row) {
    if (h->pool_type == RF_DT_Q8_0) {
        put_q8_0(s, row, h->head_dim);
        return;
    }
    if (h->pool_type == RF_DT_Q4_0) {
        put_q4_0(s, row, h->head_dim);
        return;
    }
    for (uint32_t k = rf_tid(); k < h->head_dim; k += RF_BLOCK_heads)
        rf_kv_put(row, h->pool_type, k, s->x[k]);
}

RF_KERNEL_EARLY(heads, rf_gpu_heads_args, 1) {
    RF_SHARED heads_shared s;
    uint32_t head = rf_bid_y();
    const uint32_t row = rf_bid_x();
    rf_gpu_heads h = a.part[0];
    if (a.n_parts > 1 && head >= h.n_heads) {
        head -= h.n_heads;
        h = a.part[1];
        if (a.n_parts > 2 && head >= h.n_heads) {
            head -= h.n_heads;
            h = a.part[2];
        }
    }
    const uint64_t at = ((uint64_t)row * h.n_heads + head) * h.head_dim;
    const uint32_t pos = h.cos_sin || h.pool ? a.batch.pos[row] : 0;
    if (h.cos_sin && 16 * rf_tid() < h.n_dims)
        rf_expect(h.cos_sin + (uint64_t)pos * h.n_dims + 16 * rf_tid());
    uint64_t block = 0;
    if (h.pool)
        block = a.batch.table[(uint64_t)a.batch.row_seq[row] * a.batch.table_stride + pos / 32];
    rf_await_before();
    for (uint32_t k = rf_tid(); k < h.head_dim; k += RF_BLOCK_heads)
        s.x[k] = h.x[at + k];
    rf_sync();
    if (h.norm != RF_GPU_NO_NORM) norm_head(&s, &h);
    if (h.cos_sin) rotate_head(&s, &h, pos);
    if (h.dst) {
        for (uint32_t k = rf_tid(); k < h.head_dim; k += RF_BLOCK_heads)
            h.dst[at + k] = s.x[k];
    }
    if (!h.pool) return;
    const uint64_t slot = (block * h.n_heads + head) * 32 + pos % 32;
    put_head(&s, &h, (uint8_t *)h.pool + slot * rf_kv_row_bytes(h.pool_type, h.head_dim));
}

/* Eight elements of a head as two fours: of pairs that are rotated four, whose firsts and seconds lie apart with neox;
 * else neighbours. */
typedef struct head_eight {
    uint32_t at[2];
    int is_rotated, is_apart;
} head_eight;

RF_DEVICE head_eight head_eight_of(const rf_gpu_heads *h, uint32_t i) {
    head_eight e = {{8 * i, 8 * i + 4}, h->cos_sin && 8 * i < h->n_dims, 0};
    if (!e.is_rotated || !h->neox) return e;
    e.at[0] = 4 * i;
    e.at[1] = 4 * i + h->n_dims / 2;
    e.is_apart = 1;
    return e;
}

/* cs: cosine and sine of four pairs. */
RF_DEVICE void rotate_eight(float x[8], const rf_f4 cs[2], int is_apart) {
    RF_UNROLL
    for (uint32_t j = 0; j < 4; j++) {
        const float c = cs[j / 2].v[j % 2 * 2], sn = cs[j / 2].v[j % 2 * 2 + 1];
        const float x0 = is_apart ? x[j] : x[2 * j], x1 = is_apart ? x[j + 4] : x[2 * j + 1];
        const float y0 = rf_fma(x0, c, -(x1 * sn)), y1 = rf_fma(x0, sn, x1 * c);
        x[is_apart ? j : 2 * j] = y0;
        x[is_apart ? j + 4 : 2 * j + 1] = y1;
    }
}

/* The largest sizes in the groups of 32 of either four: those of four threads' eights, or of eight threads' fours.  All
 * threads of a block call. */
RF_DEVICE void most_of_groups(uint32_t most[2], const float x[8], int is_apart) {
    const uint32_t size[2] = {quant_size(x), quant_size(x + 4)},
                   both = size[0] > size[1] ? size[0] : size[1];
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        most[i] = is_apart ? size[i] : both;
    rf_lanes_most(most, 2, 4);
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t other = rf_lane_xor(most[i], 4);
        if (is_apart && other > most[i]) most[i] = other;
    }
}

/* Four elements in Q8_0, of a group whose largest size is most. */
RF_DEVICE void put_four_q8(uint8_t *row, uint32_t at, const float x[4], uint32_t most) {
    const rf_quant_scale s = rf_quant_scale_of(rf_float_of(most), 256);
    const uint32_t q = quant_four(x, s.id);
    uint8_t *group = row + at / 32 * RF_KV_Q8_BYTES;
    uint16_t *to = (uint16_t *)(void *)(group + 2 + at % 32);
    to[0] = (uint16_t)q;
    to[1] = (uint16_t)(q >> 16);
    if (at % 32 == 0) *(uint16_t *)(void *)group = rf_f16_of(s.d);
}

RF_DEVICE void put_eight(const rf_gpu_heads *h, const head_eight *e, const float x[8],
                         const uint32_t most[2], float *dst, uint8_t *row) {
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const float *v = x + 4 * i;
        const rf_f4 four = {{v[0], v[1], v[2], v[3]}};
        if (dst) *(rf_f4 *)(void *)(dst + e->at[i]) = four;
        if (row && h->pool_type == RF_DT_Q8_0)
            put_four_q8(row, e->at[i], v, most[i]);
        else if (row)
            rf_kv_put_four(row, h->pool_type, e->at[i], v);
    }
}

/* The same for all threads of a block. */
RF_DEVICE int puts_q8(const rf_gpu_heads_args *a) {
    int puts = 0;
    RF_UNROLL
    for (uint32_t p = 0; p < 3; p++)
        puts |= p < a->n_parts && a->part[p].pool && a->part[p].pool_type == RF_DT_Q8_0;
    return puts;
}

/* Grid x: rows; y: 256 eights of all parts' heads. */
RF_KERNEL_EARLY(heads_rows, rf_gpu_heads_args, 6) {
    const uint32_t row = rf_bid_x(), pos = a.batch.pos[row];
    uint32_t k = rf_bid_y() * RF_BLOCK_heads_rows + rf_tid();
    uint64_t block = 0;
    rf_gpu_heads h = a.part[0];
    RF_UNROLL
    for (uint32_t p = 1; p < 3; p++) {
        const uint32_t n = h.n_heads * h.head_dim / 8;
        if (p >= a.n_parts || k < n) break;
        k -= n;
        h = a.part[p];
    }
    const uint32_t per_head = h.head_dim / 8, n_heads = h.n_heads,
                   head = rf_min_u32(k / per_head, n_heads - 1);
    const int is_here = k < per_head * n_heads;
    const head_eight e = head_eight_of(&h, k % per_head);
    const uint64_t at = ((uint64_t)row * h.n_heads + head) * h.head_dim;
    rf_f4 x[2], cs[2] = {{{0.0f, 0.0f, 0.0f, 0.0f}}, {{0.0f, 0.0f, 0.0f, 0.0f}}};
    if (e.is_rotated) {
        RF_UNROLL
        for (uint32_t i = 0; i < 2; i++)
            cs[i] = ((const rf_f4 *)(const void *)(h.cos_sin + (uint64_t)pos * h.n_dims +
                                                   k % per_head * 8))[i];
    }
    if (h.pool)
        block = a.batch.table[(uint64_t)a.batch.row_seq[row] * a.batch.table_stride + pos / 32];
    rf_await_before();
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        x[i] = *(const rf_f4 *)(const void *)(h.x + at + e.at[i]);
    float v[8];
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        v[i] = x[i / 4].v[i % 4];
    if (e.is_rotated && e.is_apart)
        rotate_eight(v, cs, 1);
    else if (e.is_rotated)
        rotate_eight(v, cs, 0);
    const uint64_t slot = (block * h.n_heads + head) * 32 + pos % 32;
    uint8_t *pool = (uint8_t *)h.pool;
    uint32_t most[2] = {0, 0};
    if (puts_q8(&a)) most_of_groups(most, v, e.is_apart);
    if (!is_here) return;
    if (pool) pool += slot * rf_kv_row_bytes(h.pool_type, h.head_dim);
    put_eight(&h, &e, v, most, h.dst ? h.dst + at : 0, pool);
}
