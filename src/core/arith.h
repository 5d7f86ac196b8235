/* arith.h: small arithmetic on sizes.  Layer: core.  May include: nothing. */
#ifndef JITC_CORE_ARITH_H
#define JITC_CORE_ARITH_H
#include <stdint.h>

static inline uint64_t jitc_least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
/** a / b, rounded up; a + b need not fit. */
static inline uint64_t jitc_ceil_div(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}
#endif
