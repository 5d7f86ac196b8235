/* fold.c: operations on literals, generated from the FOLD column of ops.def.
 * Layer: ir.  May include: core.
 *
 * The column is expanded once for each class of operands: signed integers as int64_t, unsigned ones
 * and bool as uint64_t, floats as double. The result is then cut, or rounded, to the type. Rounding
 * a sum, product, quotient or square root first to double and then to a float of at most 24 bits
 * gives what one rounding gives, since 53 >= 2 * 24 + 2. (Figueroa 1995; for fma, which it does not
 * cover, see fma_once.) Built with -fwrapv, so that integers wrap, and -ffp-contract=off, so that
 * nothing is fused.
 *
 * Names in the column that depend on the class are macros, defined before the expansion. */
#include "ir/bits.h"
#include "ir/ir.h"
#include <fenv.h>
#include <math.h>
#include <string.h>

/** Operands of one fold: their bits, zero above the width of the type. */
typedef struct operands {
    uint64_t bits[3];
    int width;      /* of the type; 1 for bool */
    jit_dtype type; /* of the operands and, for floats, of the result */
} operands;

static uint64_t width_mask(int width) {
    return ~(uint64_t) 0 >> (64 - width);
}
static int64_t sign_extend(uint64_t bits, int width) {
    return (int64_t) (bits << (64 - width)) >> (64 - width);
}

/* Integers. */

__extension__ typedef __int128 wide_signed;
__extension__ typedef unsigned __int128 wide_unsigned;

static int64_t div_signed(int64_t a, int64_t b) {
    return b == 0 ? 0 : b == -1 ? -a : a / b; /* MIN / -1 traps on the host */
}
static int64_t mod_signed(int64_t a, int64_t b) {
    return b == 0 || b == -1 ? 0 : a % b;
}
static uint64_t clz(uint64_t bits, int width) {
    return bits ? (uint64_t) (__builtin_clzll(bits) - (64 - width)) : (uint64_t) width;
}
static uint64_t ctz(uint64_t bits, int width) {
    return bits ? (uint64_t) __builtin_ctzll(bits) : (uint64_t) width;
}
static uint64_t reverse(uint64_t bits, int width) {
    uint64_t r = 0;
    for (int i = 0; i < width; ++i)
        r |= (bits >> i & 1) << (width - 1 - i);
    return r;
}

#define NOT(a)    (~(a))
#define POPC(a)   __builtin_popcountll(a##_bits)
#define CLZ(a)    clz(a##_bits, o->width)
#define CTZ(a)    ctz(a##_bits, o->width)
#define BREV(a)   reverse(a##_bits, o->width)
#define SHL(a, b) (b##_bits < (uint64_t) o->width ? a##_bits << b##_bits : 0)

#define ABS(a)       (a < 0 ? -a : a)
#define DIV(a, b)    div_signed(a, b)
#define MOD(a, b)    mod_signed(a, b)
#define MUL_HI(a, b) ((wide_signed) a * b >> o->width)
#define SHR(a, b)    (a >> (b##_bits < 64 ? b##_bits : 63))
static uint64_t fold_signed(jitc_op op, const operands *o) {
    const uint64_t a_bits = o->bits[0], b_bits = o->bits[1];
    const int64_t a = sign_extend(a_bits, o->width), b = sign_extend(b_bits, o->width);
    switch (op) {
#define OP(name, ...)       case JITC_OP_##name:
#define FOLD(integer, real) return (uint64_t) (integer);
#include "ir/ops.def"
        default: return 0;
    }
}
#undef ABS
#undef DIV
#undef MOD
#undef MUL_HI
#undef SHR

#define ABS(a)       (a)
#define DIV(a, b)    (b ? a / b : 0)
#define MOD(a, b)    (b ? a % b : 0)
#define MUL_HI(a, b) ((wide_unsigned) a * b >> o->width)
#define SHR(a, b)    (b < (uint64_t) o->width ? a >> b : 0)
static uint64_t fold_unsigned(jitc_op op, const operands *o) {
    const uint64_t a = o->bits[0], b = o->bits[1], a_bits = a, b_bits = b;
    switch (op) {
#define OP(name, ...)       case JITC_OP_##name:
#define FOLD(integer, real) return (uint64_t) (integer);
#include "ir/ops.def"
        default: return 0;
    }
}
#undef NOT
#undef POPC
#undef CLZ
#undef CTZ
#undef BREV
#undef SHL
#undef ABS
#undef DIV
#undef MOD
#undef MUL_HI
#undef SHR

/* Floats. */

/** The value of an element of float type. */
static double decode(uint64_t bits, jit_dtype t) {
    switch (t) {
        case JIT_f16: return (double) jitc_f16_to_f32((uint16_t) bits);
        case JIT_bf16: return (double) jitc_bf16_to_f32((uint16_t) bits);
        case JIT_f32: return (double) jitc_f32_from_bits((uint32_t) bits);
        default: return jitc_f64_from_bits(bits);
    }
}
/** Round to a float type, once. */
static uint64_t encode(double d, jit_dtype t) {
    switch (t) {
        case JIT_f16: return jitc_f16_from_f64(d);
        case JIT_bf16: return jitc_bf16_from_f64(d);
        case JIT_f32: return jitc_f32_bits((float) d);
        default: return jitc_f64_bits(d);
    }
}
static uint64_t as_value(const operands *o, double d) {
    return encode(d, o->type);
}
static uint64_t as_truth(const operands *o, int truth) {
    (void) o;
    return (uint64_t) truth;
}
static uint64_t as_bits(const operands *o, uint64_t bits) {
    (void) o;
    return bits;
}

/** x + y, inexact results rounded to the neighbour with an odd last bit: another rounding, to a
 * type with at least two bits less, then gives what rounding the exact sum once would. */
static double add_to_odd(double x, double y) {
    double sum = x + y;
    if (!isfinite(sum))
        return sum;
    double y_part = sum - x,
           error = (x - (sum - y_part)) + (y - y_part); /* exact: Knuth's TwoSum */
    uint64_t bits = jitc_f64_bits(sum);
    if (error == 0 || (bits & 1))
        return sum;
    return jitc_f64_from_bits((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}
static double fma_once(jit_dtype t, double a, double b, double c) {
    if (t == JIT_f64)
        return fma(a, b, c);
    return add_to_odd(a * b, c); /* two 24-bit mantissas: the product is exact */
}
static double minimum(double a, double b) {
    if (isnan(a) || isnan(b))
        return a + b;
    if (a == b)
        return signbit(a) ? a : b; /* -0 < +0 */
    return a < b ? a : b;
}
static double maximum(double a, double b) {
    return -minimum(-a, -b);
}
static double minimum_number(double a, double b) {
    return isnan(a) ? b : isnan(b) ? a : minimum(a, b);
}
static double maximum_number(double a, double b) {
    return isnan(a) ? b : isnan(b) ? a : maximum(a, b);
}
/** powl, but for -infinity to powers below -2^62, of which glibc 2.36 makes +infinity. */
static long double powerl(long double a, long double b) {
    return isinf(a) && b < -0x1p62L ? 0 : powl(a, b);
}
static long double rsqrtl(long double a) {
    return 1 / sqrtl(a);
}

/* Functions are computed in long double, where their error vanishes in the final rounding. */
#define MATH1(f, a)    ((double) f##l((long double) a))
#define MATH2(f, a, b) ((double) f##l((long double) a, (long double) b))
/* Sign bits are a matter of bits: a conversion would lose those of a signalling NaN. */
#define SIGN           ((uint64_t) 1 << (o->width - 1))
#define NEG(a)         (a##_bits ^ SIGN)
#define ABS(a)         (a##_bits & ~SIGN)
#define COPYSIGN(a, b) ((a##_bits & ~SIGN) | (b##_bits & SIGN))
#define FMA(a, b, c)   fma_once(o->type, a, b, c)
#define RESULT(e)      _Generic((e), double: as_value, int: as_truth, uint64_t: as_bits)(o, e)
static uint64_t fold_real(jitc_op op, const operands *o) {
    const uint64_t a_bits = o->bits[0], b_bits = o->bits[1];
    const double a = decode(a_bits, o->type), b = decode(b_bits, o->type);
    const double c = decode(o->bits[2], o->type);
    switch (op) {
#define OP(name, ...)       case JITC_OP_##name:
#define FOLD(integer, real) return RESULT(real);
#include "ir/ops.def"
        default: return 0;
    }
}
#undef MATH1
#undef MATH2
#undef SIGN
#undef NEG
#undef ABS
#undef COPYSIGN
#undef FMA
#undef RESULT

/* Casts. */

static bool is_zero(uint64_t bits, jit_dtype t) {
    if (jitc_dtypes[t].cls == JITC_FLOAT)
        return !(bits & width_mask(jitc_dtypes[t].bits - 1)); /* -0 too */
    return !bits;
}
static uint64_t real_to_integer(double d, jit_dtype to) {
    bool is_signed = jitc_dtypes[to].cls == JITC_INT;
    double limit = ldexp(1, jitc_dtypes[to].bits - is_signed); /* the first value above the range */
    uint64_t greatest = width_mask(jitc_dtypes[to].bits - is_signed);
    if (isnan(d))
        return 0;
    if (d >= limit)
        return greatest;
    if (is_signed)
        return d <= -limit ? greatest + 1 : (uint64_t) (int64_t) d;
    return d <= 0 ? 0 : (uint64_t) d;
}
/** A magnitude below 2^64 to double, rounded to odd: see add_to_odd. */
static double magnitude_to_odd(uint64_t m) {
    if (m >> 53)
        m = (m & ~(uint64_t) 0xfff) | (m & 0xfff ? 0x1000 : 0);
    return (double) m;
}
static uint64_t integer_to_real(uint64_t bits, jit_dtype from, jit_dtype to) {
    bool negative = jitc_dtypes[from].cls == JITC_INT && bits >> (jitc_dtypes[from].bits - 1);
    uint64_t m = negative ? (uint64_t) -sign_extend(bits, jitc_dtypes[from].bits) : bits;
    double d = to == JIT_f64 ? (double) m : magnitude_to_odd(m);
    return encode(negative ? -d : d, to);
}
static uint64_t fold_cast(uint64_t bits, jit_dtype from, jit_dtype to) {
    bool from_real = jitc_dtypes[from].cls == JITC_FLOAT;
    bool to_real = jitc_dtypes[to].cls == JITC_FLOAT;
    if (from == to)
        return bits;
    if (to == JIT_bool)
        return !is_zero(bits, from);
    if (from_real)
        return to_real ? encode(decode(bits, from), to) : real_to_integer(decode(bits, from), to);
    if (to_real)
        return integer_to_real(bits, from, to);
    return jitc_dtypes[from].cls == JITC_INT ? (uint64_t) sign_extend(bits, jitc_dtypes[from].bits)
                                             : bits;
}

/* The two entries to float arithmetic are not inlined: a compiler that does not know FENV_ACCESS
 * may move arithmetic, but no call of a function that it cannot see, over the change of mode. */
static __attribute__((noinline)) uint64_t fold_elementwise(jitc_op op, const operands *o) {
    switch (jitc_dtypes[o->type].cls) {
        case JITC_INT: return fold_signed(op, o);
        case JITC_FLOAT: return fold_real(op, o);
        default: return fold_unsigned(op, o);
    }
}
static __attribute__((noinline)) uint64_t fold_conversion(jitc_op op, const operands *o,
                                                          jit_dtype to) {
    return op == JITC_OP_cast ? fold_cast(o->bits[0], o->type, to) : o->bits[0];
}

static uint64_t fold_operands(jitc_op op, const operands *o, jit_dtype to) {
    if (jitc_ops[op].form == JITC_FORM_CAST)
        return fold_conversion(op, o, to) & (to == JIT_bool ? 1 : jitc_bits_mask(to));
    uint64_t bits = fold_elementwise(op, o);
    return bits & width_mask(jitc_ops[op].result == JITC_RESULT_BOOL ? 1 : o->width);
}

/** Does folding this compute with floats in modes of the calling thread that may not be the usual
 * ones? Asking is ten times quicker than saving and setting them. Functions in long double always
 * set them: x87 arithmetic has modes of its own. */
static bool modes_matter(jitc_op op, jit_dtype t, jit_dtype to) {
    bool real = jitc_dtypes[t].cls == JITC_FLOAT ||
                (op == JITC_OP_cast && jitc_dtypes[to].cls == JITC_FLOAT);
#if defined(__SSE2_MATH__)
    enum { FLAGS = 0x3f, USUAL = 0x1f80 }; /* of MXCSR */
    if (real && !(jitc_ops[op].props & JITC_INEXACT))
        return (__builtin_ia32_stmxcsr() & ~(unsigned) FLAGS) != USUAL;
#endif
    return real;
}

bool jitc_fold(jitc_op op, jit_dtype t, jit_dtype to, const uint64_t in[3], uint64_t *out) {
    operands o = {.width = t == JIT_bool ? 1 : jitc_dtypes[t].bits, .type = t};
    jitc_form form = jitc_ops[op].form;
    if (!jitc_op_accepts(op, t))
        return false;
    if (form == JITC_FORM_SELECT) {
        *out = in[0] ? in[1] : in[2];
        return true;
    }
    if (form != JITC_FORM_UNARY && form != JITC_FORM_BINARY && form != JITC_FORM_TERNARY &&
        form != JITC_FORM_CAST)
        return false;
    memcpy(o.bits, in, jitc_ops[op].arity * sizeof *in);
    if (!modes_matter(op, t, to)) {
        *out = fold_operands(op, &o, to);
        return true;
    }
    fenv_t modes;
    fegetenv(&modes);
    fesetenv(FE_DFL_ENV);
    *out = fold_operands(op, &o, to);
    fesetenv(&modes);
    return true;
}
