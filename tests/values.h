/* values.h: the values that operations are tried on. */
#ifndef JITC_TESTS_VALUES_H
#define JITC_TESTS_VALUES_H
#include "ir/ir.h"

/** Elements, as bits. */
typedef struct values {
    uint64_t *bits;
    size_t count;
} values;

/** Where things go wrong: every value of an 8-bit type; else zeros, limits, powers of two and their
 * neighbours, shift amounts, divisors; for floats subnormals, infinities, NaNs, halves as well.
 * Free .bits. */
values values_edges(jit_dtype t);
/** About `count` of them, spread evenly. Shrinks `v`. */
void values_thin(values *v, size_t count);
/** Every value of a type of at most 16 bits. */
values values_all(jit_dtype t);
/** Append random ones: all exponents and, for floats, as many of moderate size. The same in every
 * run. */
void values_add_random(values *v, jit_dtype t, size_t count);
/** Append the bits of one. */
void values_add(values *v, uint64_t bits);
#endif
