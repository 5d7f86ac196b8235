/* combining.h: programs that combine lanes, and what they should give, for the tests of backends.
 */
#ifndef JITC_TESTS_COMBINING_H
#define JITC_TESTS_COMBINING_H
#include "programs.h"

/** What elements have been combined to: exactly, as long as sums and products are small. */
typedef struct reference {
    jit_reduce_op op;
    jit_dtype type;
    double real;
    uint64_t bits; /* of integers and bool */
} reference;

void reference_init(reference *r, jit_reduce_op op, jit_dtype type);
/** Bits of an element. */
void reference_add(reference *r, uint64_t element);
/** Bits of an element: rounded once. */
uint64_t reference_value(const reference *r);
/** The same element? NaN is one. */
bool same_element(jit_dtype t, uint64_t a, uint64_t b);

/** Element number `i` of an array in which sums and products of neighbours are exact, and seldom
 * the same. */
uint64_t element_for(jit_reduce_op op, jit_dtype t, uint64_t i);
/** n of them, and behind them `padding` bytes that spoil every result into which they come. */
void fill_for(jit_reduce_op op, jit_dtype t, void *array, uint64_t n, size_t padding);

/** Append a parameter. */
uint32_t add_param(jitc_program *p, uint64_t value, uint64_t *params);
/** Append a reduction to where `out` points. */
void add_reduce(jitc_program *p, jit_reduce_op op, uint32_t value, void *out, uint64_t *params);
/** The last parameters. */
void add_scratch(jitc_program *p, uint64_t *params);
#endif
