/* math_measure.h: how far a compiled math function is from the truth. */
#ifndef JITC_TESTS_MATH_MEASURE_H
#define JITC_TESTS_MATH_MEASURE_H
#include "math_kernel.h"

typedef struct math_error {
    double ulp;     /* the largest, in units in the last place of the true value (MPFR) */
    uint64_t at[2]; /* where: arguments as bits of the type */
    size_t above;   /* how many were found to be off by more than 1 */
} math_error;

/** Special arguments (zeros, infinities, NaN, limits of ranges) in all combinations, every
 * stride-th bit pattern of f32 for functions of one argument, and `random` arguments that suit the
 * function. The C library in the next wider type finds the candidates, MPFR judges. */
math_error math_measure(const math_kernel *k, uint64_t stride, size_t random);
double math_to_double(jit_dtype type, uint64_t bits);
#endif
