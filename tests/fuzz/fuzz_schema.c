/* fuzz_schema.c - any bytes as a JSON Schema: refused with a reason, or an automaton that can be
 * walked to the end of a text, and whose matcher comes back to where it was. */
#include "fuzz/grammar_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return walk_grammar(RF_LANGUAGE_SCHEMA, data, size);
}
