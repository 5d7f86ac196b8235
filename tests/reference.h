/* reference.h: what operations have to return, computed another way than by the library: integers
 * in 128 bits, floats with MPFR. An element is its bits in a uint64_t, zero above the type's width.
 */
#ifndef JITC_TESTS_REFERENCE_H
#define JITC_TESTS_REFERENCE_H
#include "ir/ir.h"

/** The exact result of an elementwise operation (not a cast) on operands of type `t`. False if the
 * operation has none for that type, or one that is known within an error only. */
bool reference_exact(jitc_op op, jit_dtype t, const uint64_t in[3], uint64_t *out);
/** For operations with the property INEXACT: how far `got` is from the true value, in units in the
 * last place of type `t` at the true value. INFINITY if one is NaN and the other is not, or if a
 * zero or infinity that has to be exact is not. */
double reference_error(jitc_op op, jit_dtype t, const uint64_t in[3], uint64_t got);
/** The result of jit_cast(). */
uint64_t reference_cast(uint64_t bits, jit_dtype from, jit_dtype to);

/** Are they the same result? NaNs are equal, except where `op` copies bits. `t`: type of the
 * result. */
bool reference_same(jitc_op op, jit_dtype t, uint64_t a, uint64_t b);
bool reference_is_nan(jit_dtype t, uint64_t bits);
/** The bits of a double rounded to a type, for writing tests. */
uint64_t reference_from_double(jit_dtype t, double d);
double reference_to_double(jit_dtype t, uint64_t bits);
#endif
