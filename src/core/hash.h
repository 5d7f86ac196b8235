/* hash.h: 128-bit content hash (xxHash XXH3).  Layer: core.  May include: nothing. */
#ifndef JITC_CORE_HASH_H
#define JITC_CORE_HASH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct jitc_hash {
    uint64_t lo, hi;
} jitc_hash;

/** Hash of `bytes` bytes, with a seed that separates kinds of content. */
jitc_hash jitc_hash_bytes(const void *data, size_t bytes, uint64_t seed);
static inline bool jitc_hash_equal(jitc_hash a, jitc_hash b) {
    return a.lo == b.lo && a.hi == b.hi;
}
#endif
