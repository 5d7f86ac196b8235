/* numbers.h: a bit for each lane to the numbers of those that are set.
 * Layer: llvm.  May include: core. */
#ifndef JITC_LLVM_NUMBERS_H
#define JITC_LLVM_NUMBERS_H
#include "core/error.h"

/** A range of lanes, of which `first` is a multiple of 64. Bits behind the last one may be set. */
typedef struct jitc_lane_bits {
    const uint64_t *bits; /* of lane `first`, and on */
    uint64_t first, count;
} jitc_lane_bits;

typedef struct jitc_numbers {
    uint64_t (*count)(const jitc_lane_bits *b);
    /** Writes the numbers from element `at` of `out` on, ascending, and nothing behind them: where
     * that is. */
    uint64_t (*write_u32)(const jitc_lane_bits *b, uint32_t *out, uint64_t at);
    uint64_t (*write_u64)(const jitc_lane_bits *b, uint64_t *out, uint64_t at);
} jitc_numbers;

/** The functions for a processor that has AVX-512 or, else, for any. */
const jitc_numbers *jitc_numbers_for(bool avx512);
#endif
