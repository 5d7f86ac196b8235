/* math_mended.c: calls of the vector library, and selects around what SLEEF 3.5.1 gets wrong.
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

/* Infinity from 2^1000 or so on. There: log(1 + x) = log(x) = log(x / 2^1007) + 1007 log(2), whose
 * second part is by chance almost a double. */
value jitc_math_log1p_mended(const jitc_math *m, const value *args) {
    static const double part = 697.99921082386490; /* 1007 log(2) */
    value x = args[0], large = greater(m, x, real(m, 0x1p1000));
    value scaled = minus(m, times(m, x, real(m, 0x1p-1007)), real(m, 1));
    value arg = choose(m, large, scaled, x);
    value y = jitc_math_library(m, JITC_OP_log1p, &arg);
    y = choose(m, large, plus(m, y, real(m, part)), y);
    return identity_below(m, 0x1p-54, y, x);
}

value jitc_math_tan_mended(const jitc_math *m, const value *args) {
    return identity_below(m, 0x1p-27, jitc_math_library(m, JITC_OP_tan, args), args[0]);
}

value jitc_math_tanh_mended(const jitc_math *m, const value *args) {
    return identity_below(m, 0x1p-27, jitc_math_library(m, JITC_OP_tanh, args), args[0]);
}

/* sinh and cosh are infinite already where e^x is, not e^x / 2. Above 700: f(x) = f(x - c) e^c,
 * with a c of so few bits that the difference is exact, and whose e^c is by chance almost a double.
 */
static value large_hyperbolic(const jitc_math *m, jitc_op op, value x) {
    static const double c = 0x1.62e42febbb800p-1, exp_c = 0x1.fffffffc17e11p+0;
    value large = greater(m, magnitude(m, x), real(m, 700));
    value arg = choose(m, large, minus(m, x, with_sign(m, real(m, c), x)), x);
    value y = jitc_math_library(m, op, &arg);
    return choose(m, large, times(m, y, real(m, exp_c)), y);
}

value jitc_math_sinh_mended(const jitc_math *m, const value *args) {
    return identity_below(m, 0x1p-27, large_hyperbolic(m, JITC_OP_sinh, args[0]), args[0]);
}

value jitc_math_cosh_mended(const jitc_math *m, const value *args) {
    return large_hyperbolic(m, JITC_OP_cosh, args[0]);
}

/* Infinity already for results within 2 parts in 10^9 of the largest number. */
value jitc_math_pow_mended(const jitc_math *m, const value *args) {
    value infinity = real(m, INFINITY), y = jitc_math_library(m, JITC_OP_pow, args);
    value doubtful =
        bits_and(m, equal(m, magnitude(m, y), infinity), less(m, magnitude(m, args[0]), infinity));
    doubtful = bits_and(m, doubtful, less(m, magnitude(m, args[1]), infinity));
    return jitc_math_unless_any(m, doubtful, y, jitc_math_lanes, JITC_OP_pow, args);
}

/* Without fma subnormal results are off by 1.6 ULP. */
value jitc_math_atan2_lanes(const jitc_math *m, const value *args) {
    return jitc_math_lanes(m, JITC_OP_atan2, args);
}
