/* mem.h: growing arrays and byte blobs on the host heap.  Layer: core.  May include: core. */
#ifndef JITC_CORE_MEM_H
#define JITC_CORE_MEM_H
#include "core/error.h"

/** Make room for `need` elements of `size` bytes in the array `*items` of `*capacity` elements, by
 *  doubling. On failure (JIT_OUT_OF_MEMORY) the array stays as it was. */
jit_status jitc_grow(void **items, size_t *capacity, size_t need, size_t size);
/** calloc that reports. JIT_OUT_OF_MEMORY. Free with free(). */
jit_status jitc_calloc(size_t count, size_t size, void **out);

/** Bytes on the heap; `data` is owned and freed with free(). */
typedef struct jitc_blob {
    void *data;
    size_t size;
} jitc_blob;
#endif
