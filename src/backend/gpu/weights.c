/* weights.c - see weights.h.
 *
 * A matrix is packed and uploaded in pieces: a stretch of tiles of one plane, or some whole planes.
 * Such a piece is a small matrix with a layout of its own, whose parts are copied to where they
 * belong in the parts of the whole.  While one pinned buffer is on its way, the threads pack into
 * the other. */
#include "backend/gpu/weights.h"

#include <string.h>

enum {
    PIECE_BYTES = 16 << 20, /* of a pinned buffer, but for rows that need more */
    ALIGN = 256,
    N_PARTS = 6, /* lo, hi, d, m, scale, min */
};

struct rf_gpu_block {
    rf_gpu_block *next;
    uint8_t *memory;
    rf_gpu_entry *entry; /* [n] */
    uint32_t n, refs;
};

/* Naming -----------------------------------------------------------------------------------------*/

static bool is_same(const rf_gpu_entry *a, const rf_gpu_entry *b) {
    return a->key == b->key && a->is_vector == b->is_vector && a->layout.rounds == b->layout.rounds;
}

static rf_status add(rf_gpu_weights *w, const rf_gpu_entry *entry, uint32_t *out, rf_error *e) {
    for (uint32_t i = 0; i < w->n; i++) {
        *out = i;
        if (is_same(&w->entry[i], entry)) return RF_OK;
    }
    if (w->n == w->cap) {
        uint32_t cap = w->cap ? 2 * w->cap : 256;
        rf_gpu_entry *more = rf_realloc(w->entry, w->cap, cap, sizeof *more);
        if (!more) return rf_fail_nomem(e, cap * sizeof *more);
        w->entry = more;
        w->cap = cap;
    }
    *out = w->n;
    w->entry[w->n++] = *entry;
    return RF_OK;
}

rf_status rf_gpu_weights_matrix(rf_gpu_weights *w, const rf_tensor *t, uint32_t *out, rf_error *e) {
    rf_gpu_entry entry = {.key = t->data, .tensor = *t};
    RF_TRY(rf_gpu_layout_of(&entry.layout, t, e));
    return add(w, &entry, out, e);
}

rf_status rf_gpu_weights_table(rf_gpu_weights *w, const rf_tensor *t, uint32_t *out, rf_error *e) {
    rf_gpu_entry entry = {.key = t->data, .tensor = *t};
    RF_TRY(rf_gpu_layout_of(&entry.layout, t, e));
    entry.layout.rounds = false;
    return add(w, &entry, out, e);
}

rf_status rf_gpu_weights_vector(rf_gpu_weights *w, const rf_tensor *t, uint32_t *out, rf_error *e) {
    const rf_dtype_info *info = rf_dtype_get(t->type);
    if (!info->decode)
        return rf_fail(
            e, RF_EUNSUPPORTED,
            "tensor \"%.*s\": a vector of type %s cannot be decoded, expected a float or "
            "quantised type",
            RF_STR_ARG(t->name), info->name);
    const rf_gpu_entry entry = {.key = t->data, .is_vector = true, .tensor = *t};
    return add(w, &entry, out, e);
}

rf_status rf_gpu_weights_floats(rf_gpu_weights *w, const float *v, uint32_t n, uint32_t *out,
                                rf_error *e) {
    const rf_tensor t = {.name = RF_STR("of the model's own"),
                         .type = RF_DT_F32,
                         .cols = n,
                         .rows = 1,
                         .planes = 1,
                         .row_bytes = n * sizeof *v,
                         .data = v};
    return rf_gpu_weights_vector(w, &t, out, e);
}

/* Sizes ------------------------------------------------------------------------------------------*/

static size_t vector_rows(const rf_tensor *t) {
    return (size_t)t->rows * (t->planes ? t->planes : 1);
}

static size_t bytes_of(const rf_gpu_entry *entry) {
    size_t n = entry->is_vector ? vector_rows(&entry->tensor) * entry->tensor.cols * sizeof(float)
                                : entry->layout.bytes;
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static const rf_gpu_entry *find_in(const rf_gpu_block *b, const rf_gpu_entry *entry) {
    for (uint32_t i = 0; i < b->n; i++)
        if (is_same(&b->entry[i], entry)) return &b->entry[i];
    return NULL;
}

static rf_gpu_block *block_of(const rf_gpu_store *store, const rf_gpu_entry *entry) {
    rf_gpu_block *b = store->first;
    while (b && !find_in(b, entry))
        b = b->next;
    return b;
}

size_t rf_gpu_weights_bytes(const rf_gpu_weights *w, const rf_gpu_store *store) {
    size_t n = 0;
    for (uint32_t i = 0; i < w->n; i++)
        if (!block_of(store, &w->entry[i])) n += bytes_of(&w->entry[i]);
    return n;
}

/* Loading ----------------------------------------------------------------------------------------*/

typedef struct loader {
    rf_gpu_queue *q;
    rf_pool *pool;
    uint8_t *buffer[2]; /* pinned, [cap] */
    rf_gpu_event sent[2];
    bool in_flight[2];
    int at; /* the buffer to fill next */
    size_t cap;
    float *scratch; /* [n_threads][max_cols] */
    size_t max_cols;
} loader;

/* Waits until the buffer to fill next is free. */
static uint8_t *next_buffer(loader *l) {
    if (l->in_flight[l->at]) rf_gpu_await(l->q, l->sent[l->at]);
    l->in_flight[l->at] = false;
    return l->buffer[l->at];
}

static void send_buffer(loader *l) {
    rf_gpu_mark(l->q, l->sent[l->at]);
    l->in_flight[l->at] = true;
    l->at ^= 1;
}

/* A part's place in a layout, and its bytes per tile of 32 rows. */
typedef struct part {
    size_t at, tile_bytes;
} part;

static void parts_of(const rf_gpu_layout *l, part out[N_PARTS]) {
    size_t cols = l->cols, group = l->form == RF_GPU_INT_256 ? 256 : 32;
    size_t groups = cols / group * RF_GPU_TILE_ROWS, elem = l->d_f32 ? 4 : 2;
    bool is_256 = l->form == RF_GPU_INT_256;
    const part all[N_PARTS] = {
        {0, cols * 4 * l->lo_bits},
        {l->hi_at, cols * 4 * l->hi_bits},
        {l->d_at, groups * elem},
        {l->m_at, l->has_min ? groups * elem : 0},
        {l->scale_at, is_256 ? groups * l->n_scales : 0},
        {l->min_at, is_256 && l->has_min ? groups * l->n_scales : 0},
    };
    memcpy(out, all, sizeof all);
}

static bool is_float(const rf_gpu_layout *l) {
    return l->form == RF_GPU_F32 || l->form == RF_GPU_F16 || l->form == RF_GPU_BF16;
}

static uint32_t tiles_of(uint32_t rows) { return (rows + RF_GPU_TILE_ROWS - 1) / RF_GPU_TILE_ROWS; }

/* Rows [row, row + rows) of planes [plane, plane + planes). */
typedef struct piece {
    uint32_t plane, planes, row, rows;
} piece;

static rf_tensor tensor_of(const rf_tensor *t, const piece *p) {
    rf_tensor out = *t;
    out.data = (const uint8_t *)t->data + ((size_t)p->plane * t->rows + p->row) * t->row_bytes;
    out.rows = p->rows;
    out.planes = p->planes;
    return out;
}

/* Bytes of one tile at most: the last one of floats has fewer rows than the others. */
static size_t most_of_tile(const rf_gpu_layout *l) {
    size_t row = (size_t)l->cols * (l->form == RF_GPU_F32 ? 4 : 2);
    uint32_t rows = l->rows < RF_GPU_TILE_ROWS ? l->rows : RF_GPU_TILE_ROWS;
    return is_float(l) ? rows * row : l->bytes / ((size_t)l->planes * tiles_of(l->rows)) + 1;
}

typedef struct packing {
    const rf_gpu_layout *layout;
    const rf_tensor *tensor;
    uint8_t *dst;
    float *scratch;
    size_t max_cols;
    uint32_t next; /* tile, touched with __atomic builtins only */
} packing;

static void pack_tiles(void *user, int ith, int n_threads) {
    packing *p = user;
    uint32_t n = rf_gpu_layout_tiles(p->layout), step = n / (4 * (uint32_t)n_threads) + 1;
    for (;;) {
        uint32_t begin = __atomic_fetch_add(&p->next, step, __ATOMIC_RELAXED);
        if (begin >= n) return;
        uint32_t end = n - begin < step ? n : begin + step;
        rf_gpu_pack(p->layout, p->tensor, begin, end, p->dst,
                    p->scratch + (size_t)ith * p->max_cols);
    }
}

/* Packs one piece into a pinned buffer and queues its way to the device. */
static rf_status send_piece(loader *l, const rf_gpu_entry *entry, const piece *p, rf_error *e) {
    const rf_gpu_layout *whole = &entry->layout;
    rf_tensor t = tensor_of(&entry->tensor, p);
    rf_gpu_layout layout;
    RF_TRY(rf_gpu_layout_of(&layout, &t, e));
    layout.rounds = whole->rounds;
    RF_ASSERT(layout.bytes <= l->cap && layout.form == whole->form);
    uint8_t *buffer = next_buffer(l);
    RF_TRY(rf_gpu_status(l->q, e));
    memset(buffer, 0, layout.bytes);
    packing job = {&layout, &t, buffer, l->scratch, l->max_cols, 0};
    rf_pool_run(l->pool, pack_tiles, &job);
    if (is_float(whole)) {
        size_t row = (size_t)whole->cols * (whole->form == RF_GPU_F32 ? 4 : 2);
        size_t first = (size_t)p->plane * whole->rows + p->row;
        rf_gpu_upload(l->q, entry->base + first * row, buffer, (size_t)p->planes * p->rows * row);
    } else {
        part from[N_PARTS], to[N_PARTS];
        parts_of(&layout, from);
        parts_of(whole, to);
        size_t first = (size_t)p->plane * tiles_of(whole->rows) + p->row / RF_GPU_TILE_ROWS;
        size_t n = (size_t)p->planes * tiles_of(p->rows);
        for (int i = 0; i < N_PARTS; i++)
            rf_gpu_upload(l->q, entry->base + to[i].at + first * to[i].tile_bytes,
                          buffer + from[i].at, n * from[i].tile_bytes);
    }
    send_buffer(l);
    return rf_gpu_status(l->q, e);
}

/* Tiles of a layout that surely fit into n bytes. */
static uint32_t tiles_in(const rf_gpu_layout *l, size_t n) {
    size_t tiles = (size_t)l->planes * tiles_of(l->rows), each = most_of_tile(l);
    size_t fit = n > N_PARTS * ALIGN ? (n - N_PARTS * ALIGN) / each : 0;
    return fit > tiles ? (uint32_t)tiles : (uint32_t)fit;
}

static rf_status load_matrix(loader *l, const rf_gpu_entry *entry, rf_error *e) {
    const rf_gpu_layout *w = &entry->layout;
    uint32_t per_plane = tiles_of(w->rows), fit = tiles_in(w, l->cap);
    RF_ASSERT(fit > 0);
    if (fit >= per_plane) {
        uint32_t step = fit / per_plane;
        for (uint32_t k = 0; k < w->planes; k += step) {
            piece p = {k, w->planes - k < step ? w->planes - k : step, 0, w->rows};
            RF_TRY(send_piece(l, entry, &p, e));
        }
        return RF_OK;
    }
    uint32_t step = fit * RF_GPU_TILE_ROWS;
    for (uint32_t k = 0; k < w->planes; k++)
        for (uint32_t r = 0; r < w->rows; r += step) {
            piece p = {k, 1, r, w->rows - r < step ? w->rows - r : step};
            RF_TRY(send_piece(l, entry, &p, e));
        }
    return RF_OK;
}

static rf_status load_vector(loader *l, const rf_gpu_entry *entry, rf_error *e) {
    const rf_tensor *t = &entry->tensor;
    size_t row = (size_t)t->cols * sizeof(float), rows = vector_rows(t), at = 0;
    while (at < rows) {
        size_t n = l->cap / row < rows - at ? l->cap / row : rows - at;
        uint8_t *buffer = next_buffer(l);
        RF_TRY(rf_gpu_status(l->q, e));
        for (size_t i = 0; i < n; i++)
            rf_dtype_get(t->type)->decode((const uint8_t *)t->data + (at + i) * t->row_bytes,
                                          (float *)(void *)(buffer + i * row), t->cols);
        rf_gpu_upload(l->q, entry->base + at * row, buffer, n * row);
        send_buffer(l);
        at += n;
    }
    return rf_gpu_status(l->q, e);
}

/* Buffers that hold at least one row of a vector or one tile of a matrix. */
static rf_status open_loader(loader *l, const rf_gpu_block *b, rf_error *e) {
    l->cap = 1 << 16;
    for (uint32_t i = 0; i < b->n; i++) {
        const rf_gpu_entry *entry = &b->entry[i];
        const rf_gpu_layout *w = &entry->layout;
        size_t all = bytes_of(entry), want = all < PIECE_BYTES ? all : PIECE_BYTES, least;
        if (entry->is_vector)
            least = (size_t)entry->tensor.cols * sizeof(float);
        else
            least = most_of_tile(w);
        if (entry->tensor.cols > l->max_cols) l->max_cols = entry->tensor.cols;
        want = want > least ? want : least;
        want += (N_PARTS + 1) * ALIGN;
        l->cap = want > l->cap ? want : l->cap;
    }
    l->scratch = rf_alloc((size_t)rf_pool_size(l->pool) * l->max_cols, sizeof *l->scratch);
    if (!l->scratch) return rf_fail_nomem(e, l->max_cols * sizeof *l->scratch);
    for (int i = 0; i < 2; i++) {
        l->buffer[i] = rf_gpu_host_alloc(l->q, l->cap, "uploads");
        l->sent[i] = rf_gpu_event_new(l->q);
    }
    return rf_gpu_status(l->q, e);
}

static void close_loader(loader *l) {
    rf_gpu_wait(l->q);
    for (int i = 0; i < 2; i++) {
        rf_gpu_host_free(l->q, l->buffer[i]);
        rf_gpu_event_free(l->q, l->sent[i]);
    }
    rf_free(l->scratch);
}

static void free_block(rf_gpu_block *b, rf_gpu_queue *q) {
    rf_gpu_free(q, b->memory);
    rf_free(b->entry);
    rf_free(b);
}

static void place_entries(rf_gpu_block *b) {
    uint8_t *at = b->memory;
    for (uint32_t i = 0; i < b->n; i++) {
        b->entry[i].base = at;
        at += bytes_of(&b->entry[i]);
    }
}

/* A block with room for all that the store lacks, nothing loaded yet. */
static rf_status new_block(rf_gpu_block **out, const rf_gpu_weights *w, const rf_gpu_store *store,
                           rf_gpu_queue *q, rf_error *e) {
    rf_gpu_block *b = rf_alloc(1, sizeof *b);
    *out = NULL;
    if (!b) return rf_fail_nomem(e, sizeof *b);
    b->entry = rf_alloc(w->n, sizeof *b->entry);
    if (!b->entry) {
        rf_free(b);
        return rf_fail_nomem(e, w->n * sizeof *b->entry);
    }
    b->memory = rf_gpu_alloc(q, rf_gpu_weights_bytes(w, store), "weights");
    rf_status s = rf_gpu_status(q, e);
    if (s != RF_OK) {
        free_block(b, q);
        return s;
    }
    for (uint32_t i = 0; i < w->n; i++)
        if (!block_of(store, &w->entry[i])) b->entry[b->n++] = w->entry[i];
    place_entries(b);
    *out = b;
    return RF_OK;
}

static rf_status fill_block(rf_gpu_block *b, rf_gpu_queue *q, rf_pool *pool, rf_error *e) {
    loader l = {.q = q, .pool = pool};
    rf_status s = open_loader(&l, b, e);
    for (uint32_t i = 0; s == RF_OK && i < b->n; i++)
        s = b->entry[i].is_vector ? load_vector(&l, &b->entry[i], e)
                                  : load_matrix(&l, &b->entry[i], e);
    close_loader(&l);
    return s == RF_OK ? rf_gpu_status(q, e) : s;
}

/* Holds on to a block once. */
static void hold(rf_gpu_weights *w, rf_gpu_block *b) {
    for (uint32_t i = 0; i < w->n_blocks; i++)
        if (w->blocks[i] == b) return;
    w->blocks[w->n_blocks++] = b;
    b->refs++;
}

rf_status rf_gpu_weights_load(rf_gpu_weights *w, rf_gpu_store *store, rf_gpu_queue *q,
                              rf_pool *pool, rf_error *e) {
    uint32_t n_blocks = 1;
    for (const rf_gpu_block *b = store->first; b; b = b->next)
        n_blocks++;
    w->blocks = rf_alloc(n_blocks, sizeof *w->blocks);
    if (!w->blocks) return rf_fail_nomem(e, n_blocks * sizeof *w->blocks);
    if (rf_gpu_weights_bytes(w, store)) {
        rf_gpu_block *b;
        RF_TRY(new_block(&b, w, store, q, e));
        rf_status s = fill_block(b, q, pool, e);
        if (s != RF_OK) {
            free_block(b, q);
            return s;
        }
        b->next = store->first;
        store->first = b;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        rf_gpu_block *b = block_of(store, &w->entry[i]);
        w->entry[i].base = find_in(b, &w->entry[i])->base;
        hold(w, b);
    }
    return RF_OK;
}

void rf_gpu_weights_release(rf_gpu_weights *w, rf_gpu_store *store, rf_gpu_queue *q) {
    for (uint32_t i = 0; i < w->n_blocks; i++) {
        rf_gpu_block *b = w->blocks[i], **at = &store->first;
        if (--b->refs) continue;
        while (*at != b)
            at = &(*at)->next;
        *at = b->next;
        free_block(b, q);
    }
    rf_free(w->blocks);
    rf_free(w->entry);
    *w = (rf_gpu_weights){.n = 0};
}

void rf_gpu_store_lost(rf_gpu_store *store, rf_gpu_queue *q) {
    for (rf_gpu_block *b = store->first; b; b = b->next) {
        rf_gpu_free(q, b->memory);
        b->memory = NULL;
    }
}

rf_status rf_gpu_store_reload(rf_gpu_store *store, rf_gpu_queue *q, rf_pool *pool, rf_error *e) {
    for (rf_gpu_block *b = store->first; b; b = b->next) {
        size_t n = 0;
        for (uint32_t i = 0; i < b->n; i++)
            n += bytes_of(&b->entry[i]);
        b->memory = rf_gpu_alloc(q, n, "weights");
        RF_TRY(rf_gpu_status(q, e));
        place_entries(b);
        RF_TRY(fill_block(b, q, pool, e));
    }
    return RF_OK;
}

void rf_gpu_weights_relink(rf_gpu_weights *w, const rf_gpu_store *store) {
    for (uint32_t i = 0; i < w->n; i++)
        w->entry[i].base = find_in(block_of(store, &w->entry[i]), &w->entry[i])->base;
}

rf_gpu_weight rf_gpu_weights_at(const rf_gpu_weights *w, uint32_t number) {
    RF_ASSERT(number < w->n && !w->entry[number].is_vector);
    return rf_gpu_weight_at(&w->entry[number].layout, w->entry[number].base);
}

const float *rf_gpu_weights_vector_at(const rf_gpu_weights *w, uint32_t number) {
    RF_ASSERT(number < w->n && w->entry[number].is_vector);
    return (const float *)(const void *)w->entry[number].base;
}
