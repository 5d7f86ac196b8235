/* combine_total.h: what a reduction has to give: exactly, or, for sums and products of floats, how
 * near.  Layer: tests. */
#ifndef JITC_TESTS_COMBINE_TOTAL_H
#define JITC_TESTS_COMBINE_TOTAL_H
#include "support.h"

#define FOR_TYPES(t)      for (jit_dtype t = JIT_bool; t <= JIT_f64; ++t)
#define FOR_REDUCTIONS(r) for (jit_reduce_op r = JIT_REDUCE_ADD; r <= JIT_REDUCE_OR; ++r)

/** Elements that have been combined so far. */
typedef struct total {
    jit_reduce_op op;
    jit_dtype type;
    size_t count;
    bool stepwise;                /* in memory: rounded to the type at every step */
    uint64_t exact;               /* of integers and bool; of floats for MIN and MAX */
    long double sum, lost;        /* of floats: ADD, MUL; compensated */
    long double magnitude;        /* sum of the absolute values */
    bool nan, positive, negative; /* met so far: NaN, infinities */
    bool zero, sign;              /* of factors: a zero; the sign of the product */
} total;

total total_start(jit_reduce_op op, jit_dtype t);
void total_add(total *s, uint64_t bits);
/** Is the element a right result? Sums: pairwise or better, in blocks of up to a few hundred. */
bool total_allows(const total *s, uint64_t bits);
/** Fails with both values unless it is. */
void total_check(const total *s, uint64_t bits, const char *what, size_t i);

double element_to_f64(jit_dtype t, uint64_t bits);
uint64_t element_from_f64(jit_dtype t, double x);

typedef enum filling { SMALL, EQUAL, ASCENDING, SPECIAL, FILLINGS } filling;
/** Element i of an array for the reduction. SMALL: any whose total neither overflows nor is ruled
 * by one of them; SPECIAL: also NaN, infinities, zeros of both signs, the largest and the smallest.
 */
uint64_t element_of(filling f, jit_reduce_op op, jit_dtype t, size_t i);
/** n of them, from element `first` on; free(). */
uint64_t *elements_of(filling f, jit_reduce_op op, jit_dtype t, size_t first, size_t n);
#endif
