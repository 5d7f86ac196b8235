#define XXH_INLINE_ALL
#include "core/hash.h"
#include <xxhash.h>

jitc_hash jitc_hash_bytes(const void *data, size_t bytes, uint64_t seed) {
    XXH128_hash_t h = XXH3_128bits_withSeed(data, bytes, seed);
    return (jitc_hash) {h.low64, h.high64};
}
