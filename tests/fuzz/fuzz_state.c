/* fuzz_state.c - any bytes as a saved state: refused with a reason, or all of it in the pool.
 *
 * Each input is also read with the right digest at its end, so that more than the digest is tried.  The
 * backend is a small array. */
#include <string.h>

#include "engine/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    N_BLOCKS = 8,
    BLOCK_BYTES = 16,
    N_VOCAB = 100,
    N_SLOTS = 4,
    STATE_FLOATS = 3,
    STATE_BYTES = 4 + STATE_FLOATS * 4,
    DIGEST = RF_SHA256_HEX - 1
};

struct rf_exec {
    uint8_t block[N_BLOCKS][BLOCK_BYTES];
    float state[N_SLOTS][STATE_FLOATS];
};

static size_t toy_block_bytes(const rf_exec *x) {
    (void)x;
    return BLOCK_BYTES;
}

static rf_status toy_write(rf_exec *x, uint32_t block, const void *src) {
    RF_ASSERT(block < N_BLOCKS);
    memcpy(x->block[block], src, BLOCK_BYTES);
    return RF_OK;
}

static rf_status toy_state_write(rf_exec *x, uint32_t slot, const float *src) {
    RF_ASSERT(slot < N_SLOTS);
    memcpy(x->state[slot], src, sizeof x->state[slot]);
    return RF_OK;
}

static const rf_backend_ops toy_ops = {.kv_layout = "toy",
                                       .kv_block_bytes = toy_block_bytes,
                                       .kv_write = toy_write,
                                       .state_write = toy_state_write};

/* The last snapshot of the file is behind the last block. */
static void check_state(rf_state_home *h, const rf_kv_seq *seq, const uint8_t *end) {
    uint32_t slot = rf_states_find(h->states, rf_kv_name(h->kv, seq, seq->n_blocks - 1));
    RF_ASSERT(slot != RF_NO_STATE);
    RF_ASSERT(memcmp(h->exec->state[slot], end - STATE_FLOATS * 4, STATE_FLOATS * 4) == 0);
}

/* The pool's blocks spell the tokens and hold what the file does behind them. */
static void check_restored(rf_state_home *h, const rf_ids *tokens, const uint8_t *blocks,
                           const uint8_t *end, uint32_t n) {
    rf_kv_seq seq = {0};
    RF_ASSERT(n % RF_KV_BLOCK == 0 && n <= tokens->len);
    RF_ASSERT(rf_kv_hold(h->kv, &seq, tokens->p, n) == RF_OK);
    RF_ASSERT(seq.n_blocks * RF_KV_BLOCK == n);
    for (uint32_t i = 0; i < seq.n_blocks; i++)
        RF_ASSERT(memcmp(h->exec->block[seq.blocks[i]], blocks + i * BLOCK_BYTES, BLOCK_BYTES) ==
                  0);
    if (h->states && n) check_state(h, &seq, end);
    rf_kv_release(h->kv, &seq);
}

static void read_once(const uint8_t *data, size_t size, bool has_states) {
    rf_exec x = {0};
    rf_state_home h = {
        .ops = &toy_ops, .exec = &x, .n_vocab = N_VOCAB, .k_type = RF_DT_F16, .v_type = RF_DT_Q8_0};
    memset(h.model, 'a', sizeof h.model - 1);
    rf_ids tokens = {0};
    uint32_t n_restored;
    rf_error e = {0};
    if (has_states) RF_ASSERT(rf_states_create(&h.states, 1, N_SLOTS - 1) == RF_OK);
    if (has_states) h.state_floats = STATE_FLOATS;
    RF_ASSERT(rf_kv_create(&h.kv, N_BLOCKS, RF_KV_BLOCK) == RF_OK);
    rf_status s = rf_state_read(&h, "input", data, size, 0, &tokens, &n_restored, &e);
    RF_ASSERT(s == RF_OK ? true : e.status == s && e.text[0] && n_restored == 0);
    if (s == RF_OK) {
        uint32_t n_states, n_blocks = n_restored / RF_KV_BLOCK;
        memcpy(&n_states, data + 168, sizeof n_states);
        const uint8_t *end = data + size - DIGEST;
        size_t behind = n_states * (has_states ? STATE_BYTES : 4);
        check_restored(&h, &tokens, end - behind - n_blocks * BLOCK_BYTES, end, n_restored);
    }
    RF_ASSERT(rf_kv_consistent(h.kv, NULL, 0));
    rf_ids_free(&tokens);
    rf_kv_free(h.kv);
    rf_states_free(h.states);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_once(data, size, false);
    if (size < DIGEST) return 0;
    rf_sha256 *sum;
    char hex[RF_SHA256_HEX];
    uint8_t *sealed = rf_alloc(size, 1);
    RF_ASSERT(sealed && rf_sha256_create(&sum) == RF_OK);
    memcpy(sealed, data, size - DIGEST);
    rf_sha256_add(sum, sealed, size - DIGEST);
    rf_sha256_hex(sum, hex);
    memcpy(sealed + size - DIGEST, hex, DIGEST);
    read_once(sealed, size, false);
    read_once(sealed, size, true);
    rf_sha256_free(sum);
    rf_free(sealed);
    return 0;
}
