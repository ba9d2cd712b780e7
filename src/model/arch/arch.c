/* arch.c - the table of architectures as an array.
 *
 * Rows come from arch.def alone; nothing else in the project compares architecture names. */
#include "model/arch/arch.h"

static const rf_arch table[] = {
#define ARCH(name_, families_, builder, ...) \
    {.name = name_,                          \
     .families = families_,                  \
     .bind = rf_##builder##_bind,            \
     .build = rf_##builder##_build,          \
     __VA_ARGS__},
#include "model/arch/arch.def"
#undef ARCH
};

size_t rf_arch_count(void) { return RF_COUNT(table); }

const rf_arch *rf_arch_at(size_t i) {
    RF_ASSERT(i < RF_COUNT(table));
    return &table[i];
}
