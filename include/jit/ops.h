/* ops.h: the operations on variables. Made from src/ir/ops.def by gen_ops: do not edit.
 * Compiles alone as C17 and as C++17.
 *
 * For every function: it records one operation, element by element, and computes nothing
 * yet. The operands are borrowed; the result is a new reference, given back with
 * jit_unref() or by the open scope. Any thread may call it. The types that the operands
 * may have are named in parentheses; the result has the operands' type unless it says
 * otherwise.
 *
 * The operands have one type, one backend, one device, and one size, or size 1, which
 * stands for as many copies as the others have. Results are the same for literals and on
 * every backend, bit for bit, except where it says "not exact".
 *
 * On failure the result is 0, and the calling thread's jit_error() says why:
 * JIT_NOT_INITIALIZED, JIT_INVALID_HANDLE, JIT_TYPE_MISMATCH (operands of different types
 * or backends, or a type that the operation does not take), JIT_SIZE_MISMATCH,
 * JIT_OUT_OF_MEMORY. An operand 0 gives 0. */
#ifndef JIT_OPS_H
#define JIT_OPS_H
#include <jit/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** -a. Integers wrap; floats flip the sign bit, also of NaN. (integers, floats) */
JIT_API jit_var jit_neg(jit_var a);

/** |a|. The smallest integer stays itself; floats clear the sign bit. (integers, floats) */
JIT_API jit_var jit_abs(jit_var a);

/** Every bit of a flipped; logical on bool. (integers, bool) */
JIT_API jit_var jit_not(jit_var a);

/** Number of bits set in a. (integers) */
JIT_API jit_var jit_popc(jit_var a);

/** Number of leading zero bits of a; the width if a is 0. (integers) */
JIT_API jit_var jit_clz(jit_var a);

/** Number of trailing zero bits of a; the width if a is 0. (integers) */
JIT_API jit_var jit_ctz(jit_var a);

/** The bits of a in reverse order. (integers) */
JIT_API jit_var jit_brev(jit_var a);

/** Square root, correctly rounded; NaN below zero, -0 for -0. (floats) */
JIT_API jit_var jit_sqrt(jit_var a);

/** 1/a, correctly rounded. (floats) */
JIT_API jit_var jit_rcp(jit_var a);

/** 1/sqrt(a). Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_rsqrt(jit_var a);

/** Largest integer not above a. (floats) */
JIT_API jit_var jit_floor(jit_var a);

/** Smallest integer not below a. (floats) */
JIT_API jit_var jit_ceil(jit_var a);

/** a without its fraction. (floats) */
JIT_API jit_var jit_trunc(jit_var a);

/** Nearest integer; halves go to the even one. (floats) */
JIT_API jit_var jit_round(jit_var a);

/** e to the power a. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_exp(jit_var a);

/** 2 to the power a. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_exp2(jit_var a);

/** 10 to the power a. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_exp10(jit_var a);

/** exp(a) - 1, also precise near 0. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_expm1(jit_var a);

/** Natural logarithm; NaN below zero, -infinity at zero. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_log(jit_var a);

/** Logarithm to base 2. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_log2(jit_var a);

/** Logarithm to base 10. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_log10(jit_var a);

/** log(1 + a), also precise near 0. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_log1p(jit_var a);

/** Sine of a in radians, for every a. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_sin(jit_var a);

/** Cosine of a in radians, for every a. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_cos(jit_var a);

/** Tangent of a in radians, for every a. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_tan(jit_var a);

/** Arc sine in radians; NaN outside of [-1, 1]. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_asin(jit_var a);

/** Arc cosine in radians; NaN outside of [-1, 1]. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_acos(jit_var a);

/** Arc tangent in radians. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_atan(jit_var a);

/** Hyperbolic sine. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_sinh(jit_var a);

/** Hyperbolic cosine. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_cosh(jit_var a);

/** Hyperbolic tangent. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_tanh(jit_var a);

/** Cube root. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_cbrt(jit_var a);

/** Error function. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_erf(jit_var a);

/** a + b. Integers wrap. (integers, floats) */
JIT_API jit_var jit_add(jit_var a, jit_var b);

/** a - b. Integers wrap. (integers, floats) */
JIT_API jit_var jit_sub(jit_var a, jit_var b);

/** a b. Integers wrap. (integers, floats) */
JIT_API jit_var jit_mul(jit_var a, jit_var b);

/** a / b. Integers truncate towards zero, and a / 0 is 0; floats are correctly rounded. (integers,
 * floats) */
JIT_API jit_var jit_div(jit_var a, jit_var b);

/** Remainder with the sign of a. Integers: a mod 0 is 0; floats: C's fmod. (integers, floats) */
JIT_API jit_var jit_mod(jit_var a, jit_var b);

/** Upper half of the product in twice the width. (integers) */
JIT_API jit_var jit_mul_hi(jit_var a, jit_var b);

/** a shifted left by b, read as unsigned; 0 if b is not below the width. (integers) */
JIT_API jit_var jit_shl(jit_var a, jit_var b);

/** a shifted right by b, read as unsigned; signed types copy the sign. All sign bits (0 if
 * unsigned) if b is not below the width. (integers) */
JIT_API jit_var jit_shr(jit_var a, jit_var b);

/** Bitwise and; logical on bool. (integers, bool) */
JIT_API jit_var jit_and(jit_var a, jit_var b);

/** Bitwise or; logical on bool. (integers, bool) */
JIT_API jit_var jit_or(jit_var a, jit_var b);

/** Bitwise exclusive or; logical on bool. (integers, bool) */
JIT_API jit_var jit_xor(jit_var a, jit_var b);

/** a = b; false if either is NaN. (all types to bool) */
JIT_API jit_var jit_eq(jit_var a, jit_var b);

/** a differs from b; true if either is NaN. (all types to bool) */
JIT_API jit_var jit_ne(jit_var a, jit_var b);

/** a < b; false if either is NaN. (all types to bool) */
JIT_API jit_var jit_lt(jit_var a, jit_var b);

/** a <= b; false if either is NaN. (all types to bool) */
JIT_API jit_var jit_le(jit_var a, jit_var b);

/** a > b; false if either is NaN. (all types to bool) */
JIT_API jit_var jit_gt(jit_var a, jit_var b);

/** a >= b; false if either is NaN. (all types to bool) */
JIT_API jit_var jit_ge(jit_var a, jit_var b);

/** Smaller of a and b. Floats: NaN if either is NaN, and -0 < +0. (integers, floats) */
JIT_API jit_var jit_min(jit_var a, jit_var b);

/** Larger of a and b. Floats: NaN if either is NaN, and -0 < +0. (integers, floats) */
JIT_API jit_var jit_max(jit_var a, jit_var b);

/** Smaller of a and b; the other one if one is NaN; -0 < +0. (floats) */
JIT_API jit_var jit_fmin(jit_var a, jit_var b);

/** Larger of a and b; the other one if one is NaN; -0 < +0. (floats) */
JIT_API jit_var jit_fmax(jit_var a, jit_var b);

/** Magnitude of a with the sign of b. (floats) */
JIT_API jit_var jit_copysign(jit_var a, jit_var b);

/** a to the power b. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_pow(jit_var a, jit_var b);

/** Angle of the point (b, a) in radians. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_atan2(jit_var a, jit_var b);

/** sqrt(a^2 + b^2) without overflow on the way. Not exact: within 1 ULP. (floats) */
JIT_API jit_var jit_hypot(jit_var a, jit_var b);

/** a b + c, rounded once. (floats) */
JIT_API jit_var jit_fma(jit_var a, jit_var b, jit_var c);

/** a where the mask is true, else b: a copy of the bits. (all types) */
JIT_API jit_var jit_select(jit_var mask, jit_var a, jit_var b);

#ifdef __cplusplus
}
#endif
#endif
