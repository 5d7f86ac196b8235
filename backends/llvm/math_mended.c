/* math_mended.c: calls of the vector library, and ways around what SLEEF 3.5.1 gets wrong.
 * Layer: llvm.  May include: core, ir. */
#include "llvm/math_forms.h"
#include <math.h>

/** f(x) = x where |x| < limit: the library loses the last bit there, or the sign of a zero. */
static value identity_below(const jitc_math *m, double limit, value y, value x) {
    return choose(m, less(m, magnitude(m, x), real(m, limit)), x, y);
}

/* Without fma the result of the smallest arguments is off by 1.5 ULP. */
value jitc_math_erf_mended(const jitc_math *m, const value *args) {
    value x = args[0], linear = muladd(m, x, real(m, M_2_SQRTPI - 1), x);
    value y = jitc_math_library(m, JITC_OP_erf, args);
    return choose(m, less(m, magnitude(m, x), real(m, 1e-10)), linear, y);
}

/** The library's value; but where that is infinite for finite arguments, ask again: SLEEF's log1p,
 * sinh, cosh and pow overflow too early. */
static value finite_if_due(const jitc_math *m, jitc_op op, const value *args) {
    value infinity = real(m, INFINITY), y = jitc_math_library(m, op, args);
    value doubtful = equal(m, magnitude(m, y), infinity);
    for (unsigned k = 0; k < jitc_ops[op].arity; k++)
        doubtful = bits_and(m, doubtful, less(m, magnitude(m, args[k]), infinity));
    return jitc_math_unless_any(m, doubtful, y, jitc_math_lanes, op, args);
}

value jitc_math_log1p_mended(const jitc_math *m, const value *args) {
    return identity_below(m, 0x1p-54, finite_if_due(m, JITC_OP_log1p, args), args[0]);
}

value jitc_math_sinh_mended(const jitc_math *m, const value *args) {
    return identity_below(m, 0x1p-27, finite_if_due(m, JITC_OP_sinh, args), args[0]);
}

value jitc_math_cosh_mended(const jitc_math *m, const value *args) {
    return finite_if_due(m, JITC_OP_cosh, args);
}

/* 1 is 1 to the power of NaN, and NaN to the power of -0. */
value jitc_math_pow_mended(const jitc_math *m, const value *args) {
    value y = finite_if_due(m, JITC_OP_pow, args);
    value one = real(m, 1), certain = equal(m, args[1], real(m, 0));
    return choose(m, bits_or(m, equal(m, args[0], one), certain), one, y);
}

value jitc_math_tan_mended(const jitc_math *m, const value *args) {
    return identity_below(m, 0x1p-27, jitc_math_library(m, JITC_OP_tan, args), args[0]);
}

value jitc_math_tanh_mended(const jitc_math *m, const value *args) {
    return identity_below(m, 0x1p-27, jitc_math_library(m, JITC_OP_tanh, args), args[0]);
}

/* Without fma SLEEF's subnormal results are off by 1.3 and 1.6 ULP. */
value jitc_math_atan2_lanes(const jitc_math *m, const value *args) {
    return jitc_math_lanes(m, JITC_OP_atan2, args);
}

value jitc_math_hypot_lanes(const jitc_math *m, const value *args) {
    return jitc_math_lanes(m, JITC_OP_hypot, args);
}
