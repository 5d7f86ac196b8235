#include "core/mem.h"
#include <stdlib.h>

jit_status jitc_grow(void **items, size_t *capacity, size_t need, size_t size) {
    if (need <= *capacity)
        return JIT_OK;
    size_t grown = *capacity ? *capacity : 16;
    while (grown < need)
        grown *= 2;
    void *p = realloc(*items, grown * size);
    if (!p)
        return jitc_fail(JIT_OUT_OF_MEMORY, "host memory: %zu bytes could not be allocated",
                         grown * size);
    *items = p;
    *capacity = grown;
    return JIT_OK;
}

jit_status jitc_calloc(size_t count, size_t size, void **out) {
    *out = calloc(count, size);
    if (!*out)
        return jitc_fail(JIT_OUT_OF_MEMORY, "host memory: %zu bytes could not be allocated",
                         count * size);
    return JIT_OK;
}
