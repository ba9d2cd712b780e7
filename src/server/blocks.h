/* blocks.h - an answer as blocks: reasoning, text and calls, in the order in which the model wrote
 * them.
 *
 * For APIs that open and close the parts of an answer one after the other.  Blocks are told while
 * they grow, and kept until the answer is over; a call is told when it is whole. */
#pragma once
#include "server/reply.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rf_block_kind {
    RF_BLOCK_TEXT,
    RF_BLOCK_REASONING,
    RF_BLOCK_CALL,
} rf_block_kind;

typedef struct rf_block {
    rf_block_kind kind;
    uint64_t id;          /* random, for APIs whose blocks have names */
    rf_buf text;          /* so far; of a call its arguments, a JSON object */
    rf_buf call_id, name; /* of a call; its id is empty when the model gave none */
    bool is_cut;          /* the answer ended inside it */
} rf_block;

/* Who is told of block i. */
typedef struct rf_block_sink {
    void (*open)(void *user, size_t i, const rf_block *b);
    void (*grow)(void *user, size_t i, const rf_block *b, rf_str more);
    void (*close)(void *user, size_t i, const rf_block *b);
    void *user;
} rf_block_sink;

typedef struct rf_blocks rf_blocks;
RF_CHECKED rf_status rf_blocks_create(rf_blocks **out, const rf_reply_format *f,
                                      const rf_reply_opts *o);
/* text: of one token.  is_last: there will be no more.  sink may be NULL. */
RF_CHECKED rf_status rf_blocks_feed(rf_blocks *b, rf_str text, bool is_last,
                                    const rf_block_sink *sink);
size_t rf_blocks_count(const rf_blocks *b); /* 0 for NULL */
const rf_block *rf_blocks_at(const rf_blocks *b, size_t i);
bool rf_blocks_have_call(const rf_blocks *b);
uint32_t rf_blocks_n_reasoning(const rf_blocks *b); /* tokens that came within reasoning */
void rf_blocks_free(rf_blocks *b);                  /* NULL is fine */

#ifdef __cplusplus
}
#endif
