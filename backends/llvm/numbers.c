/* numbers.c: a bit for each lane to the numbers of those that are set.
 * Layer: llvm.  May include: core. */
#include "llvm/numbers.h"
#include <stdbool.h>
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

/* Numbers are packed in a register and stored as a whole vector: a store that packs takes many
 * times as long, on some processors hundreds of cycles. What is behind the numbers of a vector is
 * overwritten by the next ones; behind those of the range, which may be another thread's, nothing
 * is written. */
#    define WRITE_PACKED(name, type, bits, lanes_of, mask_of, set, add, pack, store, store_some)   \
        WITH("avx512f,popcnt")                                                                     \
        static uint64_t name(const jitc_lane_bits *b, type *out, uint64_t at) {                    \
            enum { LANES = 512 / (bits) };                                                         \
            uint64_t end = at + count_avx512(b);                                                   \
            const __m512i step = set(LANES);                                                       \
            __m512i lanes = add(set((int##bits##_t) b->first), lanes_of);                          \
            for (uint64_t i = 0; i * 64 < b->count; i++) {                                         \
                uint64_t w = word(b, i);                                                           \
                bool inside = at + 64 <= end;                                                      \
                for (int part = 0; part < 64 / LANES; part++, w >>= LANES) {                       \
                    unsigned n = (unsigned) __builtin_popcountll(w & ((1u << LANES) - 1));         \
                    __m512i packed = pack((mask_of) w, lanes);                                     \
                    if (inside)                                                                    \
                        store(out + at, packed);                                                   \
                    else                                                                           \
                        store_some(out + at, (mask_of) ((1u << n) - 1), packed);                   \
                    at += n;                                                                       \
                    lanes = add(lanes, step);                                                      \
                }                                                                                  \
            }                                                                                      \
            return at;                                                                             \
        }
WRITE_PACKED(write_u32_avx512, uint32_t, 32,
             _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), __mmask16,
             _mm512_set1_epi32, _mm512_add_epi32, _mm512_maskz_compress_epi32, _mm512_storeu_si512,
             _mm512_mask_storeu_epi32)
WRITE_PACKED(write_u64_avx512, uint64_t, 64, _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), __mmask8,
             _mm512_set1_epi64, _mm512_add_epi64, _mm512_maskz_compress_epi64, _mm512_storeu_si512,
             _mm512_mask_storeu_epi64)
#    undef WRITE_PACKED
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
