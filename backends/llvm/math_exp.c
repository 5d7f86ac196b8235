/* math_exp.c: exponentials, logarithms, powers and what is made of them.
 * Layer: llvm.  May include: core, ir.
 *
 * The classical shape: bring the argument into a small interval, take a polynomial there, put the
 * result together again. What matters for the last bit is noted at each; the measured errors are in
 * docs/math-errors.md. Forms ending in _wide compute in f64 what is rounded to f32 at the end: half
 * an ULP without any care, and no need of fma. */
#include "llvm/math_coefficients.h"
#include "llvm/math_forms.h"
#include <math.h>

/* Exponentials: base^x = 2^n base^r, n = rint(x log2(base)), r = x - n log_base(2). */

typedef struct exponential {
    double low, high;   /* beyond: 0, infinity */
    double rate;        /* log2(base) */
    const double *step; /* log_base(2) in two parts */
    const double *poly; /* (base^r - 1) / r */
    unsigned count;
} exponential;

static value emit_exponential(const jitc_math *m, const exponential *f, value x) {
    x = jitc_math_clamp(m, x, f->low, f->high);
    whole n = jitc_math_nearest(m, times(m, x, real(m, f->rate)));
    value r = muladd(m, n.number, real(m, -f->step[0]), x);
    if (f->step[1] != 0)
        r = muladd(m, n.number, real(m, -f->step[1]), r);
    value y = muladd(m, r, jitc_math_polynomial(m, f->poly, f->count, r), real(m, 1));
    return jitc_math_scale(m, y, n);
}

value jitc_math_exp_f32(const jitc_math *m, const value *args) {
    static const exponential f = {-104.5,      89.5,    M_LOG2E,
                                  LN2_EXP_F32, EXP_F32, sizeof EXP_F32 / sizeof *EXP_F32};
    return emit_exponential(m, &f, args[0]);
}

value jitc_math_exp2_f32(const jitc_math *m, const value *args) {
    static const double step[2] = {1, 0};
    static const exponential f = {-151, 129, 1, step, EXP2_F32, sizeof EXP2_F32 / sizeof *EXP2_F32};
    return emit_exponential(m, &f, args[0]);
}

value jitc_math_exp_f64(const jitc_math *m, const value *args) {
    static const exponential f = {-746,    710,     M_LOG2E,
                                  LN2_F64, EXP_F64, sizeof EXP_F64 / sizeof *EXP_F64};
    return emit_exponential(m, &f, args[0]);
}

/* Exponentials in f64. */

/** e^x = power (1 + rest), power = 2^n, for the f32 vector x = log2(e^x) / rate. */
typedef struct wide_exponential {
    value power, r;
    whole n;
} wide_exponential;

static wide_exponential begin_exponential(const jitc_math *w, value x, double rate) {
    value t = times(w, widen(w, x), real(w, rate));
    wide_exponential s = {.n = jitc_math_nearest(w, t)};
    s.r = times(w, minus(w, t, s.n.number), real(w, M_LN2));
    s.power = jitc_math_power_of_two(w, s.n.bits);
    return s;
}

/** Everything within [low, high] has its power in range, and beyond it f32 rounds to 0 or infinity.
 */
static value wide_power(const jitc_math *m, value x, double rate) {
    jitc_math w = jitc_math_begin(m->e, JIT_f64);
    wide_exponential s =
        begin_exponential(&w, jitc_math_clamp(m, x, -151 / rate, 129 / rate), rate);
    value scaled = times(&w, s.power, s.r);
    return narrow(m, muladd(&w, scaled, POLYNOMIAL(&w, EXPM1_WIDE, s.r), s.power));
}

value jitc_math_exp_wide(const jitc_math *m, const value *args) {
    return wide_power(m, args[0], M_LOG2E);
}

value jitc_math_exp2_wide(const jitc_math *m, const value *args) {
    return wide_power(m, args[0], 1);
}

value jitc_math_exp10_wide(const jitc_math *m, const value *args) {
    return wide_power(m, args[0], M_LN10 / M_LN2);
}

value jitc_math_expm1_wide(const jitc_math *m, const value *args) {
    jitc_math w = jitc_math_begin(m->e, JIT_f64);
    wide_exponential s = begin_exponential(&w, jitc_math_clamp(m, args[0], -90, 90), M_LOG2E);
    value scaled = times(&w, s.power, s.r), above = minus(&w, s.power, real(&w, 1));
    value y = narrow(m, muladd(&w, scaled, POLYNOMIAL(&w, EXPM1_WIDE, s.r), above));
    return with_sign(m, y, args[0]); /* -0 */
}

/** Twice cosh and sinh of x, which is within +-90, from those of the rest r:
 *  e^x = p (C + S), e^-x = (C - S) / p. */
typedef struct hyperbolic {
    value cosh2, sinh2;
} hyperbolic;

static hyperbolic emit_hyperbolic(const jitc_math *w, value x) {
    wide_exponential s = begin_exponential(w, x, M_LOG2E);
    value square = times(w, s.r, s.r);
    value c = POLYNOMIAL(w, COSH_WIDE, square), d = times(w, s.r, POLYNOMIAL(w, SINH_WIDE, square));
    value twice_one = integer(w, 2 * w->one); /* the bits of 2^-n are 2 one - bits(2^n) */
    value inverse = from_bits(w, int_minus(w, twice_one, to_bits(w, s.power)));
    value sum = plus(w, s.power, inverse), difference = minus(w, s.power, inverse);
    return (hyperbolic) {muladd(w, sum, c, times(w, difference, d)),
                         muladd(w, difference, c, times(w, sum, d))};
}

value jitc_math_sinh_wide(const jitc_math *m, const value *args) {
    jitc_math w = jitc_math_begin(m->e, JIT_f64);
    hyperbolic h = emit_hyperbolic(&w, jitc_math_clamp(m, args[0], -90, 90));
    return with_sign(m, narrow(m, times(&w, h.sinh2, real(&w, 0.5))), args[0]);
}

value jitc_math_cosh_wide(const jitc_math *m, const value *args) {
    jitc_math w = jitc_math_begin(m->e, JIT_f64);
    hyperbolic h = emit_hyperbolic(&w, jitc_math_clamp(m, args[0], -90, 90));
    return narrow(m, times(&w, h.cosh2, real(&w, 0.5)));
}

value jitc_math_tanh_wide(const jitc_math *m, const value *args) {
    jitc_math w = jitc_math_begin(m->e, JIT_f64);
    hyperbolic h = emit_hyperbolic(&w, jitc_math_clamp(m, args[0], -20, 20));
    return with_sign(m, narrow(m, over(&w, h.sinh2, h.cosh2)), args[0]);
}

/* Logarithms: x = 2^k u with u in [sqrt(1/2), sqrt(2)); log(x) = k log(2) + log(u). */

typedef struct decomposed {
    value exponent, rest; /* k as a number, u - 1 (exact) */
} decomposed;

/** x is positive and normal (else the result is rubbish, but a number). */
static decomposed decompose(const jitc_math *m, value x) {
    uint64_t root = m->type == JIT_f64 ? 0x3FE6A09E667F3BCD : 0x3F3504F3; /* sqrt(1/2) */
    uint64_t fraction = ((uint64_t) 1 << m->mantissa) - 1;
    value bits = to_bits(m, x);
    value shifted = int_plus(m, bits, integer(m, m->one - root)); /* exponent: that of 1 plus k */
    value exponent = bits_and(m, shifted, integer(m, ~fraction));
    value u = int_plus(m, int_minus(m, bits, exponent), integer(m, m->one));
    /* 2^mantissa + an integer below: a float that reads the exponent's field as a number. */
    double base = m->type == JIT_f64 ? 0x1p52 : 0x1p23, bias = m->type == JIT_f64 ? 1023 : 127;
    value field = shift_right(m, shifted, integer(m, m->mantissa));
    value number = from_bits(m, bits_or(m, field, to_bits(m, real(m, base))));
    return (decomposed) {minus(m, number, real(m, base + bias)),
                         minus(m, from_bits(m, u), real(m, 1))};
}

/** y, but the results of C's logarithms where x (the distance from `pole`) has none. */
static value log_specials(const jitc_math *m, value y, value x, double pole) {
    value at = real(m, pole);
    y = choose(m, less(m, x, real(m, INFINITY)), y, x); /* infinity and NaN */
    y = choose(m, equal(m, x, at), real(m, -INFINITY), y);
    return choose(m, less(m, x, at), real(m, NAN), y);
}

/** The same for subnormal numbers, too. */
static decomposed decompose_any(const jitc_math *m, value x) {
    value tiny = less(m, x, real(m, 0x1p-126));
    decomposed d = decompose(m, choose(m, tiny, times(m, x, real(m, 0x1p23)), x));
    d.exponent = choose(m, tiny, minus(m, d.exponent, real(m, 23)), d.exponent);
    return d;
}

value jitc_math_log_f32(const jitc_math *m, const value *args) {
    decomposed d = decompose_any(m, args[0]);
    value k = d.exponent, r = d.rest, square = times(m, r, r);
    value y = times(m, times(m, IN_PAIRS(m, LOG_F32, r), r), square);
    /* r dominates, or k times the first part, which is exact: they are added last. */
    y = muladd(m, k, real(m, LN2_F32[1]), y);
    y = plus(m, r, muladd(m, square, real(m, -0.5), y));
    return log_specials(m, muladd(m, k, real(m, LN2_F32[0]), y), args[0], 0);
}

/** log10(2) in two parts (the first times k is exact), and log10(e) in two parts. A logarithm to
 * base 2 of this kind is off by up to 1.14 ULP near the square root of 2. */
value jitc_math_log10_f32(const jitc_math *m, const value *args) {
    decomposed d = decompose_any(m, args[0]);
    value r = d.rest, square = times(m, r, r), high = real(m, LOG10_E_F32[0]);
    value y = times(m, times(m, IN_PAIRS(m, LOG_F32, r), r), square);
    y = muladd(m, square, real(m, -0.5), y); /* log(u) - r */
    /* r log10(e) and k log10(2), each as two numbers; the larger ones are added last. */
    value product = times(m, r, high);
    value low = muladd(m, r, high, minus(m, real(m, 0), product));
    low = muladd(m, y, high, muladd(m, r, real(m, LOG10_E_F32[1]), low));
    value whole_part = times(m, d.exponent, real(m, LOG10_2_LOG_F32[0]));
    value sum = plus(m, whole_part, product);
    low = plus(m, low, minus(m, product, minus(m, sum, whole_part)));
    low = muladd(m, d.exponent, real(m, LOG10_2_LOG_F32[1]), low);
    return log_specials(m, plus(m, sum, low), args[0], 0);
}

/** The natural logarithm of x (f64 that was f32, so never subnormal) times `unit`. */
static value wide_log(const jitc_math *w, decomposed d, double unit) {
    value series = IN_PAIRS(w, LOG1P_WIDE, d.rest);
    value y = muladd(w, d.exponent, real(w, M_LN2), times(w, series, d.rest));
    return unit == 1 ? y : times(w, y, real(w, unit));
}

static value wide_log_in_unit(const jitc_math *m, value x, double unit) {
    jitc_math w = jitc_math_begin(m->e, JIT_f64);
    return log_specials(m, narrow(m, wide_log(&w, decompose(&w, widen(&w, x)), unit)), x, 0);
}

value jitc_math_log_wide(const jitc_math *m, const value *args) {
    return wide_log_in_unit(m, args[0], 1);
}

value jitc_math_log2_wide(const jitc_math *m, const value *args) {
    return wide_log_in_unit(m, args[0], M_LOG2E);
}

value jitc_math_log10_wide(const jitc_math *m, const value *args) {
    return wide_log_in_unit(m, args[0], M_LOG10E);
}

value jitc_math_log1p_wide(const jitc_math *m, const value *args) {
    jitc_math w = jitc_math_begin(m->e, JIT_f64);
    value x = widen(&w, args[0]);
    decomposed d = decompose(&w, plus(&w, x, real(&w, 1)));
    /* Near 1 the sum has lost digits of x, but there u - 1 is x. */
    d.rest = choose(&w, equal(&w, d.exponent, real(&w, 0)), x, d.rest);
    value y = log_specials(m, narrow(m, wide_log(&w, d, 1)), args[0], -1);
    return with_sign(m, y, args[0]); /* -0; at the pole both are negative */
}

/* Powers. */

/** What the sign of pow depends on. */
typedef struct parity {
    value whole, odd; /* is y an integer, an odd one? */
} parity;

static parity find_parity(const jitc_math *m, value y) {
    /* From 2^24 on every number is an even integer; infinity and NaN count as such, too. */
    value limit = real(m, 0x1p24), near = less(m, magnitude(m, y), limit);
    value number = choose(m, near, y, limit);
    value i = jitc_emit_cast(m->e, LLVMFPToSI, number, m->i);
    value back = jitc_emit_cast(m->e, LLVMSIToFP, i, m->f);
    value low = bits_and(m, i, integer(m, 1));
    parity p = {.whole = equal(m, back, number)};
    p.odd = bits_and(m, p.whole, jitc_emit_icmp(m->e, LLVMIntNE, low, integer(m, 0)));
    return p;
}

/** |x|^y for non-negative x; rubbish for NaN and for 1^infinity. */
static value wide_pow(const jitc_math *m, value x, value y) {
    jitc_math w = jitc_math_begin(m->e, JIT_f64);
    value base = widen(&w, x), infinity = real(&w, INFINITY);
    decomposed d = decompose(&w, base);
    value log2 = muladd(&w, d.rest, IN_PAIRS(&w, LOG2_POW, d.rest), d.exponent);
    log2 = choose(&w, equal(&w, base, real(&w, 0)), real(&w, -INFINITY), log2);
    log2 = choose(&w, equal(&w, base, infinity), infinity, log2);
    value t = jitc_math_clamp(&w, times(&w, log2, widen(&w, y)), -200, 200);
    whole n = jitc_math_nearest(&w, t);
    value power = POLYNOMIAL(&w, EXP2_POW, minus(&w, t, n.number));
    return narrow(m, times(&w, power, jitc_math_power_of_two(&w, n.bits)));
}

/* The order of the selects is C's Annex F: 1^y and x^0 are 1 even for NaN. */
value jitc_math_pow_wide(const jitc_math *m, const value *args) {
    value x = args[0], y = args[1], size = magnitude(m, x);
    value zero = real(m, 0), one = real(m, 1);
    value r = choose(m, equal(m, size, one), one, wide_pow(m, size, y));
    parity p = find_parity(m, y);
    r = choose(m, p.odd, with_sign(m, r, x), r);
    value root = bits_and(m, less(m, x, zero), less(m, size, real(m, INFINITY)));
    root = bits_and(m, root, jitc_emit_not(m->e, p.whole));
    r = choose(m, root, real(m, NAN), r);
    r = choose(m, unordered(m, x, y), real(m, NAN), r);
    return choose(m, bits_or(m, equal(m, x, one), equal(m, y, zero)), one, r);
}

value jitc_math_hypot_wide(const jitc_math *m, const value *args) {
    jitc_math w = jitc_math_begin(m->e, JIT_f64);
    value x = widen(&w, args[0]), y = widen(&w, args[1]), infinity = real(m, INFINITY);
    value r = narrow(m, square_root(&w, muladd(&w, x, x, times(&w, y, y))));
    /* Infinity wins over NaN. */
    value infinite = bits_or(m, equal(m, magnitude(m, args[0]), infinity),
                             equal(m, magnitude(m, args[1]), infinity));
    return choose(m, infinite, infinity, r);
}
