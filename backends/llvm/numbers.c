/* numbers.c: a bit for each lane to the numbers of those that are set.
 * Layer: llvm.  May include: core. */
#include "llvm/numbers.h"
#if defined(__x86_64__)
#    include <immintrin.h>
#    define WITH(features) __attribute__((target(features)))
#endif

/** Word number i of the range, without bits behind its end. */
static inline uint64_t word(const jitc_lane_bits *b, uint64_t i) {
    uint64_t rest = b->count - i * 64;
    return rest < 64 ? b->bits[i] & (((uint64_t) 1 << rest) - 1) : b->bits[i];
}

static uint64_t count_any(const jitc_lane_bits *b) {
    uint64_t n = 0;
    for (uint64_t i = 0; i * 64 < b->count; i++)
        n += (unsigned) __builtin_popcountll(word(b, i));
    return n;
}

#define WRITE(name, type)                                                                          \
    static uint64_t name(const jitc_lane_bits *b, type *out, uint64_t at) {                        \
        for (uint64_t i = 0; i * 64 < b->count; i++)                                               \
            for (uint64_t w = word(b, i); w; w &= w - 1)                                           \
                out[at++] = (type) (b->first + i * 64 + (unsigned) __builtin_ctzll(w));            \
        return at;                                                                                 \
    }
WRITE(write_u32, uint32_t)
WRITE(write_u64, uint64_t)
#undef WRITE

#if defined(__x86_64__)
WITH("popcnt") static uint64_t count_avx512(const jitc_lane_bits *b) {
    uint64_t n = 0;
    for (uint64_t i = 0; i * 64 < b->count; i++)
        n += (unsigned) __builtin_popcountll(word(b, i));
    return n;
}

WITH("avx512f,popcnt")
static uint64_t write_u32_avx512(const jitc_lane_bits *b, uint32_t *out, uint64_t at) {
    const __m512i sixteen = _mm512_set1_epi32(16);
    __m512i lanes =
        _mm512_add_epi32(_mm512_set1_epi32((int) (uint32_t) b->first),
                         _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    for (uint64_t i = 0; i * 64 < b->count; i++) {
        uint64_t w = word(b, i);
        for (int part = 0; part < 4; part++, w >>= 16) {
            __mmask16 mask = (__mmask16) w;
            _mm512_mask_compressstoreu_epi32(out + at, mask, lanes);
            at += (unsigned) __builtin_popcountll(w & 0xffff);
            lanes = _mm512_add_epi32(lanes, sixteen);
        }
    }
    return at;
}

WITH("avx512f,popcnt")
static uint64_t write_u64_avx512(const jitc_lane_bits *b, uint64_t *out, uint64_t at) {
    const __m512i eight = _mm512_set1_epi64(8);
    __m512i lanes = _mm512_add_epi64(_mm512_set1_epi64((long long) b->first),
                                     _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    for (uint64_t i = 0; i * 64 < b->count; i++) {
        uint64_t w = word(b, i);
        for (int part = 0; part < 8; part++, w >>= 8) {
            _mm512_mask_compressstoreu_epi64(out + at, (__mmask8) w, lanes);
            at += (unsigned) __builtin_popcountll(w & 0xff);
            lanes = _mm512_add_epi64(lanes, eight);
        }
    }
    return at;
}
#endif

const jitc_numbers *jitc_numbers_for(bool avx512) {
    static const jitc_numbers any = {count_any, write_u32, write_u64};
#if defined(__x86_64__)
    static const jitc_numbers fast = {count_avx512, write_u32_avx512, write_u64_avx512};
    if (avx512)
        return &fast;
#endif
    (void) avx512;
    return &any;
}
