/* arch.c - the table of architectures as an array.
 *
 * Rows come from arch.def alone; nothing else in the project compares architecture names. */
#include "model/arch/arch.h"

static const rf_arch table[] = {
#define X(name, families, rope, qkv_bias, qk_norm, builder) \
    {name, families, rope, qkv_bias, qk_norm, rf_##builder##_bind, rf_##builder##_build},
#include "model/arch/arch.def"
#undef X
};

size_t rf_arch_count(void) { return RF_COUNT(table); }

const rf_arch *rf_arch_at(size_t i) {
    RF_ASSERT(i < RF_COUNT(table));
    return &table[i];
}
