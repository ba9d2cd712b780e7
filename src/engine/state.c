/* state.c - the file format of saved KV blocks: a header, tokens, blocks, states, a digest;
 * little-endian. */
#include "engine/state.h"

#include <stdio.h>
#include <string.h>

#include "base/os.h"

/* Raised with every change of the layout, and of the canonical arithmetic that blocks come from. */
enum { VERSION = 2 };
static const char magic[8] = {'R', 'F', '-', 'S', 'T', 'A', 'T', 'E'};

typedef struct header {
    char magic[8];
    uint32_t version, block_tokens, n_tokens, n_blocks;
    uint64_t block_bytes;
    char k_type[16], v_type[16], kv_layout[32]; /* padded with NUL */
    char model[RF_SHA256_HEX - 1];
    uint64_t state_floats;
    uint32_t n_states, unused; /* 0 */
} header; /* then tokens int32 [n_tokens], blocks [n_blocks][block_bytes], states [n_states] of how many
             blocks are before it (u32) and f32 [state_floats], digest in hex of all that */
_Static_assert(sizeof(header) == 176, "a header as it lies in the file");
enum { DIGEST = RF_SHA256_HEX - 1 };

static header header_of(const rf_state_home *h, uint32_t n_tokens, uint32_t n_blocks,
                        uint32_t n_states) {
    header d = {.version = VERSION,
                .block_tokens = RF_KV_BLOCK,
                .n_tokens = n_tokens,
                .n_blocks = n_blocks,
                .block_bytes = h->ops->kv_block_bytes(h->exec),
                .state_floats = h->state_floats,
                .n_states = n_states};
    memcpy(d.magic, magic, sizeof magic);
    snprintf(d.k_type, sizeof d.k_type, "%s", rf_dtype_get(h->k_type)->name);
    snprintf(d.v_type, sizeof d.v_type, "%s", rf_dtype_get(h->v_type)->name);
    snprintf(d.kv_layout, sizeof d.kv_layout, "%s", h->ops->kv_layout);
    memcpy(d.model, h->model, sizeof d.model);
    return d;
}

/* Frequencies depend on the context that the plan was made for. */
static void add_ropes(rf_sha256 *sum, const rf_plan *p) {
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const rf_rope *r = p->steps[i].rope;
        if (!r) continue;
        const uint32_t about[] = {i, (uint32_t)r->kind, r->n_dims};
        rf_sha256_add(sum, about, sizeof about);
        rf_sha256_add(sum, r->inv_freq, r->n_dims / 2 * sizeof *r->inv_freq);
        rf_sha256_add(sum, &r->magnitude, sizeof r->magnitude);
    }
}

rf_status rf_state_model(const rf_gguf *g, const rf_plan *p, char out[RF_SHA256_HEX]) {
    rf_sha256 *sum = NULL;
    rf_buf text = {0};
    rf_plan_print(p, &text);
    rf_status s = text.failed ? RF_ENOMEM : rf_gguf_fingerprint(g, out);
    if (s == RF_OK) s = rf_sha256_create(&sum);
    if (s == RF_OK) {
        rf_sha256_add(sum, out, DIGEST);
        rf_sha256_add(sum, text.p, text.len);
        add_ropes(sum, p);
        rf_sha256_hex(sum, out);
    }
    rf_sha256_free(sum);
    rf_buf_free(&text);
    return s;
}

/* ---- writing ---- */

typedef struct sink {
    rf_outfile *file;
    rf_sha256 *sum;
} sink;

static rf_status put(const sink *to, const void *p, size_t n, rf_error *e) {
    rf_sha256_add(to->sum, p, n);
    return rf_outfile_write(to->file, p, n, e);
}

/* The slot of the snapshot behind the first n_blocks of seq; RF_NO_STATE: there is none. */
static uint32_t snapshot_of(const rf_state_home *h, const rf_kv_seq *seq, uint32_t n_blocks) {
    return rf_states_find(h->states, rf_kv_name(h->kv, seq, n_blocks - 1));
}

static uint32_t count_snapshots(const rf_state_home *h, const rf_kv_seq *seq) {
    uint32_t n = 0;
    for (uint32_t i = 1; h->states && i <= seq->n_blocks; i++)
        n += snapshot_of(h, seq, i) != RF_NO_STATE;
    return n;
}

static rf_status put_blocks(const sink *to, const rf_state_home *h, const rf_kv_seq *seq,
                            uint8_t *block, size_t bytes, rf_error *e) {
    for (uint32_t i = 0; i < seq->n_blocks; i++) {
        rf_status s = h->ops->kv_read(h->exec, seq->blocks[i], block);
        if (s != RF_OK) return rf_fail(e, s, "the backend cannot read its KV cache");
        RF_TRY(put(to, block, bytes, e));
    }
    return RF_OK;
}

static rf_status put_states(const sink *to, const rf_state_home *h, const rf_kv_seq *seq,
                            float *state, rf_error *e) {
    for (uint32_t i = 1; h->states && i <= seq->n_blocks; i++) {
        uint32_t slot = snapshot_of(h, seq, i);
        if (slot == RF_NO_STATE) continue;
        rf_status s = h->ops->state_read(h->exec, slot, state);
        if (s != RF_OK) return rf_fail(e, s, "the backend cannot read its slots of state");
        RF_TRY(put(to, &i, sizeof i, e));
        RF_TRY(put(to, state, h->state_floats * sizeof *state, e));
    }
    return RF_OK;
}

static rf_status put_all(const sink *to, const rf_state_home *h, const rf_kv_seq *seq,
                         const int32_t *tokens, uint32_t n, void *scratch, rf_error *e) {
    const header d = header_of(h, n, seq->n_blocks, count_snapshots(h, seq));
    RF_TRY(put(to, &d, sizeof d, e));
    RF_TRY(put(to, tokens, n * sizeof *tokens, e));
    RF_TRY(put_blocks(to, h, seq, scratch, (size_t)d.block_bytes, e));
    RF_TRY(put_states(to, h, seq, scratch, e));
    char digest[RF_SHA256_HEX];
    rf_sha256_hex(to->sum, digest);
    return rf_outfile_write(to->file, digest, DIGEST, e);
}

static rf_status write_file(const rf_state_home *h, const char *path, const rf_kv_seq *seq,
                            const int32_t *tokens, uint32_t n, rf_error *e) {
    sink to = {0};
    size_t bytes = h->ops->kv_block_bytes(h->exec), state_bytes = h->state_floats * sizeof(float);
    if (state_bytes > bytes) bytes = state_bytes;
    void *scratch = rf_alloc(1, bytes); /* a block or a state */
    rf_status s = scratch && rf_sha256_create(&to.sum) == RF_OK ? RF_OK : rf_fail_nomem(e, bytes);
    if (s == RF_OK) s = rf_outfile_open(&to.file, path, e);
    if (s == RF_OK) {
        s = put_all(&to, h, seq, tokens, n, scratch, e);
        if (s == RF_OK)
            s = rf_outfile_commit(to.file, e);
        else
            rf_outfile_abort(to.file);
    }
    rf_sha256_free(to.sum);
    rf_free(scratch);
    return s;
}

/* Holds the blocks to save: as far as the last snapshot where only those are of use. */
static rf_status hold(const rf_state_home *h, rf_kv_seq *seq, const int32_t *tokens, uint32_t n,
                      rf_error *e) {
    if (rf_kv_hold(h->kv, seq, tokens, n) != RF_OK) return rf_fail_nomem(e, n);
    if (seq->n_blocks == 0)
        return rf_fail(
            e, RF_EARG,
            "none of the %u tokens are in the KV cache in whole blocks of %d; run a request "
            "with them first",
            n, RF_KV_BLOCK);
    uint32_t last = seq->n_blocks;
    while (h->states && last > 0 && snapshot_of(h, seq, last) == RF_NO_STATE)
        last--;
    rf_kv_trim(h->kv, seq, last * RF_KV_BLOCK);
    if (last > 0) return RF_OK;
    return rf_fail(e, RF_EARG,
                   "there is no snapshot of the state behind any block of the %u tokens any more; "
                   "run a request with them first",
                   n);
}

rf_status rf_state_save(const rf_state_home *h, const char *path, uint64_t salt,
                        const int32_t *tokens, uint32_t n, uint32_t *n_saved, rf_error *e) {
    rf_kv_seq seq = {.salt = salt};
    *n_saved = 0;
    rf_status s = hold(h, &seq, tokens, n, e);
    if (s == RF_OK) s = write_file(h, path, &seq, tokens, n, e);
    if (s == RF_OK) *n_saved = seq.n_blocks * RF_KV_BLOCK;
    rf_kv_release(h->kv, &seq);
    return s;
}

/* ---- reading ---- */

/* Bytes of a state and the number before it; SIZE_MAX where that is no number. */
static size_t size_of_state(const header *d) {
    size_t n = SIZE_MAX;
    bool ok = d->state_floats <= SIZE_MAX && rf_mul_ok((size_t)d->state_floats, sizeof(float), &n);
    return ok && rf_add_ok(n, sizeof(uint32_t), &n) ? n : SIZE_MAX;
}

/* Bytes of a whole file; SIZE_MAX where that is no number. */
static size_t size_of(const header *d) {
    size_t tokens, blocks, states, n = SIZE_MAX;
    if (d->block_bytes > SIZE_MAX || !rf_mul_ok(d->n_tokens, sizeof(int32_t), &tokens) ||
        !rf_mul_ok(d->n_blocks, (size_t)d->block_bytes, &blocks) ||
        !rf_mul_ok(d->n_states, size_of_state(d), &states) || !rf_add_ok(tokens, blocks, &n) ||
        !rf_add_ok(n, states, &n) || !rf_add_ok(n, sizeof *d + DIGEST, &n))
        return SIZE_MAX;
    return n;
}

static rf_status check_digest(const char *name, const uint8_t *bytes, size_t n, rf_error *e) {
    rf_sha256 *sum;
    char digest[RF_SHA256_HEX];
    if (rf_sha256_create(&sum) != RF_OK) return rf_fail_nomem(e, 1);
    rf_sha256_add(sum, bytes, n - DIGEST);
    rf_sha256_hex(sum, digest);
    rf_sha256_free(sum);
    if (memcmp(digest, bytes + n - DIGEST, DIGEST) == 0) return RF_OK;
    return rf_fail(e, RF_EFORMAT,
                   "%s: the digest at its end is not that of its bytes; the file is damaged", name);
}

/* Is it a whole, undamaged file of this version? */
static rf_status check_form(const char *name, const uint8_t *bytes, size_t n, header *d,
                            rf_error *e) {
    if (n < sizeof *d + DIGEST || memcmp(bytes, magic, sizeof magic) != 0)
        return rf_fail(e, RF_EFORMAT, "%s: no saved state: it does not begin with %.8s", name,
                       magic);
    memcpy(d, bytes, sizeof *d);
    if (d->version != VERSION)
        return rf_fail(e, RF_EUNSUPPORTED,
                       "%s: a state of version %u, expected %d; compute and save it again", name,
                       d->version, VERSION);
    if (size_of(d) != n)
        return rf_fail(e, RF_EFORMAT,
                       "%s: %zu bytes, expected %zu of %u tokens, %u blocks and %u states; the "
                       "file is cut off "
                       "or damaged",
                       name, n, size_of(d), d->n_tokens, d->n_blocks, d->n_states);
    if (d->block_tokens == 0 || d->n_blocks > d->n_tokens / d->block_tokens)
        return rf_fail(e, RF_EFORMAT, "%s: %u blocks of %u tokens, but only %u tokens", name,
                       d->n_blocks, d->block_tokens, d->n_tokens);
    return check_digest(name, bytes, n, e);
}

/* got and want: texts of at most n bytes; got comes from the file. */
static rf_status fail_field(rf_error *e, const char *name, const char *what, const char *got,
                            const char *want, size_t n) {
    char shown[33] = "";
    for (size_t i = 0; i < n && i < sizeof shown - 1 && got[i]; i++)
        shown[i] = got[i] > ' ' && got[i] < 127 ? got[i] : '?';
    return rf_fail(e, RF_EARG, "%s: saved with %s %s, but this engine has %.*s", name, what, shown,
                   (int)n, want);
}

/* Was it saved by an engine whose blocks are as good as this one's own? */
static rf_status check_origin(const rf_state_home *h, const char *name, const header *d,
                              rf_error *e) {
    const header want = header_of(h, 0, 0, 0);
    if (memcmp(d->model, want.model, sizeof d->model) != 0)
        return fail_field(e, name, "another model or context length: fingerprint", d->model,
                          want.model, 16);
    if (memcmp(d->k_type, want.k_type, sizeof d->k_type) != 0)
        return fail_field(e, name, "keys of type", d->k_type, want.k_type, sizeof d->k_type);
    if (memcmp(d->v_type, want.v_type, sizeof d->v_type) != 0)
        return fail_field(e, name, "values of type", d->v_type, want.v_type, sizeof d->v_type);
    if (memcmp(d->kv_layout, want.kv_layout, sizeof d->kv_layout) != 0)
        return fail_field(e, name, "a KV cache laid out as", d->kv_layout, want.kv_layout,
                          sizeof d->kv_layout);
    if (d->block_tokens != want.block_tokens || d->block_bytes != want.block_bytes)
        return rf_fail(
            e, RF_EARG,
            "%s: saved in blocks of %u tokens and %llu bytes, but this engine's have %u and "
            "%llu",
            name, d->block_tokens, (unsigned long long)d->block_bytes, want.block_tokens,
            (unsigned long long)want.block_bytes);
    if (d->state_floats != want.state_floats)
        return rf_fail(e, RF_EARG,
                       "%s: saved with states of %llu numbers, but this engine's have %llu", name,
                       (unsigned long long)d->state_floats, (unsigned long long)want.state_floats);
    return RF_OK;
}

static rf_status read_tokens(const rf_state_home *h, const char *name, const header *d,
                             const uint8_t *from, rf_ids *out, rf_error *e) {
    for (uint32_t i = 0; i < d->n_tokens; i++) {
        int32_t id;
        memcpy(&id, from + i * sizeof id, sizeof id);
        if (id < 0 || (uint32_t)id >= h->n_vocab)
            return rf_fail(e, RF_EFORMAT, "%s: token %u is %d, not below the vocabulary's %u", name,
                           i, id, h->n_vocab);
        rf_ids_push(out, id);
    }
    return out->failed ? rf_fail_nomem(e, d->n_tokens * sizeof(int32_t)) : RF_OK;
}

/* Blocks that the pool still has stay as they are; the others get theirs from the file. */
static rf_status fill(const rf_state_home *h, const char *name, rf_kv_seq *seq, const header *d,
                      const int32_t *tokens, const uint8_t *blocks, rf_error *e) {
    uint32_t n = d->n_blocks * RF_KV_BLOCK;
    rf_status s = rf_kv_hold(h->kv, seq, tokens, n);
    uint32_t first = seq->n_blocks;
    if (s == RF_OK) s = rf_kv_reserve(h->kv, seq, n);
    if (s == RF_EFULL)
        return rf_fail(
            e, s,
            "%s: no room for its %u KV blocks; wait until fewer requests run, or give the "
            "engine a larger KV cache",
            name, d->n_blocks);
    if (s != RF_OK) return rf_fail_nomem(e, n);
    for (uint32_t i = first; i < d->n_blocks; i++) {
        s = h->ops->kv_write(h->exec, seq->blocks[i], blocks + i * (size_t)d->block_bytes);
        if (s != RF_OK) return rf_fail(e, s, "the backend cannot write its KV cache");
    }
    s = rf_kv_commit(h->kv, seq, tokens, n);
    RF_ASSERT(s == RF_OK);
    return RF_OK;
}

/* Is there a snapshot behind the last of the blocks, and each behind one of its own, in order? */
static rf_status check_states(const rf_state_home *h, const char *name, const header *d,
                              const uint8_t *states, rf_error *e) {
    uint32_t before = 0;
    for (uint32_t i = 0; i < d->n_states; i++) {
        uint32_t n_blocks;
        memcpy(&n_blocks, states + i * size_of_state(d), sizeof n_blocks);
        if (n_blocks <= before || n_blocks > d->n_blocks)
            return rf_fail(e, RF_EFORMAT, "%s: state %u is behind block %u, expected %u to %u",
                           name, i, n_blocks, before + 1, d->n_blocks);
        before = n_blocks;
    }
    if ((h->states ? d->n_blocks : 0) == before) return RF_OK;
    return rf_fail(e, RF_EFORMAT, "%s: the last of %u states is behind block %u, expected %u", name,
                   d->n_states, before, h->states ? d->n_blocks : 0);
}

/* The snapshots that are not there yet, behind blocks of seq. */
static rf_status fill_states(const rf_state_home *h, rf_kv_seq *seq, const header *d,
                             const uint8_t *states, rf_error *e) {
    if (d->n_states == 0) return RF_OK;
    float *state = rf_alloc(h->state_floats, sizeof *state); /* those in the file are not aligned */
    rf_status s = state ? RF_OK : rf_fail_nomem(e, h->state_floats * sizeof *state);
    for (uint32_t i = 0; i < d->n_states && s == RF_OK; i++) {
        rf_stateful none = {.slot = RF_NO_STATE, .from = RF_NO_STATE};
        const uint8_t *from = states + i * size_of_state(d);
        uint32_t n_blocks;
        memcpy(&n_blocks, from, sizeof n_blocks);
        uint64_t block = rf_kv_name(h->kv, seq, n_blocks - 1);
        uint32_t slot = rf_states_keep(h->states, &none, block, n_blocks * RF_KV_BLOCK);
        if (slot == RF_NO_STATE) continue;
        memcpy(state, from + sizeof n_blocks, h->state_floats * sizeof *state);
        s = h->ops->state_write(h->exec, slot, state);
        if (s == RF_OK) continue;
        rf_states_forget(h->states, block);
        (void)rf_fail(e, s, "the backend cannot write its slots of state");
    }
    rf_free(state);
    return s;
}

rf_status rf_state_read(const rf_state_home *h, const char *name, const uint8_t *bytes,
                        size_t n_bytes, uint64_t salt, rf_ids *tokens, uint32_t *n_restored,
                        rf_error *e) {
    header d;
    rf_kv_seq seq = {.salt = salt};
    *n_restored = 0;
    RF_TRY(check_form(name, bytes, n_bytes, &d, e));
    RF_TRY(check_origin(h, name, &d, e));
    RF_TRY(read_tokens(h, name, &d, bytes + sizeof d, tokens, e));
    const uint8_t *blocks = bytes + sizeof d + d.n_tokens * sizeof(int32_t);
    const uint8_t *states = blocks + d.n_blocks * (size_t)d.block_bytes;
    RF_TRY(check_states(h, name, &d, states, e));
    rf_status s = fill(h, name, &seq, &d, tokens->p, blocks, e);
    if (s == RF_OK) s = fill_states(h, &seq, &d, states, e);
    rf_kv_release(h->kv, &seq);
    if (s == RF_OK) *n_restored = d.n_blocks * RF_KV_BLOCK;
    return s;
}

rf_status rf_state_restore(const rf_state_home *h, const char *path, uint64_t salt, rf_ids *tokens,
                           uint32_t *n_restored, rf_error *e) {
    rf_filemap map;
    *n_restored = 0;
    RF_TRY(rf_filemap_open(&map, path, e));
    rf_status s = rf_state_read(h, path, map.data, map.size, salt, tokens, n_restored, e);
    rf_filemap_close(&map);
    return s;
}
