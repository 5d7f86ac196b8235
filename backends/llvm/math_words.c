/* math_words.c: polynomials and whole numbers in floats.  Layer: llvm.  May include: core, ir. */
#include "llvm/math_words.h"

enum { MAX_LANES = 64, MAX_TERMS = 32 };

jitc_math jitc_math_begin(jitc_emit *e, jit_dtype type) {
    if (type == JIT_f64)
        return (jitc_math) {e, e->f64, e->i64, 52, 0x3FF0000000000000, 0x1.8p52, type};
    return (jitc_math) {e, e->f32, e->i32, 23, 0x3F800000, 0x1.8p23, type};
}

static value shuffle(const jitc_math *m, value a, value b, unsigned first, unsigned count) {
    value index[MAX_LANES];
    for (unsigned k = 0; k < count; k++)
        index[k] = m->e->api->LLVMConstInt(m->e->i32, first + k, 0);
    return m->e->api->LLVMBuildShuffleVector(m->e->b, a, b,
                                             m->e->api->LLVMConstVector(index, count), "");
}

value jitc_math_piece(const jitc_math *m, value x, unsigned first, unsigned count) {
    if (count == m->e->lanes)
        return x;
    return shuffle(m, x, m->e->api->LLVMGetPoison(m->e->api->LLVMTypeOf(x)), first, count);
}

value jitc_math_join(const jitc_math *m, value *v, unsigned count, unsigned lanes) {
    for (; count > 1; count /= 2, lanes *= 2)
        for (unsigned k = 0; k < count / 2; k++)
            v[k] = shuffle(m, v[2 * k], v[2 * k + 1], 0, 2 * lanes);
    return v[0];
}

/** c[0] + c[1] x + c[2] x^2 ... by Horner's rule. */
value jitc_math_polynomial(const jitc_math *m, const double *c, unsigned count, value x) {
    value sum = real(m, c[count - 1]);
    for (unsigned k = count - 1; k-- > 0;)
        sum = muladd(m, sum, x, real(m, c[k]));
    return sum;
}

/** The same in pairs, pairs of pairs ...: two operations more, a third of the latency. */
value jitc_math_polynomial_in_pairs(const jitc_math *m, const double *c, unsigned count, value x) {
    value term[MAX_TERMS];
    for (unsigned k = 0; k < count; k++)
        term[k] = real(m, c[k]);
    for (value power = x; count > 1; power = times(m, power, power)) {
        for (unsigned k = 0; k + 1 < count; k += 2)
            term[k / 2] = muladd(m, term[k + 1], power, term[k]);
        if (count % 2)
            term[count / 2] = term[count - 1];
        count = (count + 1) / 2;
        if (count == 1)
            break;
    }
    return term[0];
}

/* Whole numbers in floats. */

/** |t| < 2^(mantissa - 1). Adding the magic number rounds, on every machine and without a call. */
whole jitc_math_nearest(const jitc_math *m, value t) {
    value magic = real(m, m->magic), sum = plus(m, t, magic);
    return (whole) {minus(m, sum, magic), to_bits(m, sum)};
}

/** 2^n for an integer in low bits; n within the exponents of normal numbers. */
value jitc_math_power_of_two(const jitc_math *m, value n) {
    value exponent = shift_left(m, n, integer(m, m->mantissa));
    return from_bits(m, int_plus(m, exponent, integer(m, m->one)));
}

/** y 2^n with one rounding, down to subnormals and up to infinity; 0.5 < |y| < 2. */
value jitc_math_scale(const jitc_math *m, value y, whole n) {
    if (m->e->isa >= JITC_ISA_V4 && m->type == JIT_f32 && m->e->lanes == 16) {
        const jitc_llvm *api = m->e->api;
        value args[] = {y, n.number, api->LLVMConstNull(api->LLVMTypeOf(y)),
                        api->LLVMConstInt(m->e->i16, 0xFFFF, 0),
                        api->LLVMConstInt(m->e->i32, 4, 0)};
        return jitc_emit_intrinsic(m->e, "llvm.x86.avx512.mask.scalef.ps.512", NULL, 5, args);
    }
    /* 2^n itself may be out of range: two factors. The first product is exact. */
    value half = shift_right(m, n.bits, integer(m, 1)), rest = int_minus(m, n.bits, half);
    return times(m, times(m, y, jitc_math_power_of_two(m, half)), jitc_math_power_of_two(m, rest));
}

/** x, or the limit that it is beyond; NaN stays. */
value jitc_math_clamp(const jitc_math *m, value x, double low, double high) {
    x = choose(m, greater(m, x, real(m, high)), real(m, high), x);
    return choose(m, less(m, x, real(m, low)), real(m, low), x);
}
