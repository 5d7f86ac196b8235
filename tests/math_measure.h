/* math_measure.h: how far a math function is from the truth, whatever computes it. */
#ifndef JITC_TESTS_MATH_MEASURE_H
#define JITC_TESTS_MATH_MEASURE_H
#include "ir/ir.h"

/** What is measured: an operation with the property INEXACT, in f32 or f64. */
typedef struct math_function {
    jitc_op op;
    jit_dtype type;
    /** r[i] = f(a[i], b[i]) for n elements, a multiple of 64; arrays are aligned to 64 bytes; b is
     * read for functions of two arguments. False: it failed. From any thread, several at once. */
    bool (*run)(const void *context, const void *a, const void *b, void *r, size_t n);
    const void *context;
} math_function;

/** How much is tried. */
typedef struct math_effort {
    uint64_t stride; /* of the bit patterns of f32, for functions of one argument */
    size_t random;   /* arguments that suit the function */
    size_t chunk;    /* elements a call of run(), a multiple of 64 */
    int threads;
} math_effort;

typedef struct math_error {
    double ulp;     /* the largest, in units in the last place of the true value (MPFR) */
    uint64_t at[2]; /* where: arguments as bits of the type */
    size_t above;   /* how many were found to be off by more than 1 */
    bool failed;    /* a call of run() */
} math_error;

/** Special arguments (zeros, infinities, NaN, limits of ranges) in all combinations, every
 * stride-th bit pattern of f32, and random arguments. The C library in the next wider type finds
 * the candidates, MPFR judges. */
math_error math_measure(const math_function *f, const math_effort *effort);
double math_to_double(jit_dtype type, uint64_t bits);
/** Print the arguments where the error was found. */
void math_print_where(const math_function *f, const math_error *e);
#endif
