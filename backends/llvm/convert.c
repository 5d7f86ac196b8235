/* convert.c: casts between all element types, exact to the last bit.
 * Layer: llvm.  May include: core, ir.
 *
 * Nothing here relies on the result of a conversion out of range, which LLVM leaves undefined for
 * constants, without replacing it by a select. The saturating conversions of LLVM are not used:
 * they become code for one lane after the other in every version. */
#include "llvm/convert.h"
#include <math.h>

static LLVMValueRef bits_of(jitc_emit *e, LLVMValueRef v, LLVMTypeRef scalar) {
    return jitc_emit_cast(e, LLVMBitCast, v, scalar);
}
static LLVMValueRef shift(jitc_emit *e, LLVMOpcode op, LLVMValueRef v, LLVMTypeRef scalar,
                          unsigned amount) {
    return jitc_emit_bin(e, op, v, jitc_emit_int(e, scalar, amount));
}
static bool is_float(jit_dtype t) {
    return jitc_dtypes[t].cls == JITC_FLOAT;
}

/* 16-bit floats. */

static bool has_half(const jitc_emit *e) {
    return e->isa >= JITC_ISA_V3; /* F16C */
}

/** In integers, for machines without the instruction: shift the fields into place, then let a
 *  multiplication by 2^112 correct the exponent, which also handles subnormals. */
static LLVMValueRef half_to_float(jitc_emit *e, LLVMValueRef v) {
    LLVMValueRef wide = jitc_emit_cast(e, LLVMZExt, v, e->i32);
    LLVMValueRef sign = jitc_emit_bin(e, LLVMAnd, wide, jitc_emit_int(e, e->i32, 0x8000));
    LLVMValueRef fields = shift(
        e, LLVMShl, jitc_emit_bin(e, LLVMAnd, wide, jitc_emit_int(e, e->i32, 0x7fff)), e->i32, 13);
    LLVMValueRef finite = bits_of(
        e,
        jitc_emit_bin(e, LLVMFMul, bits_of(e, fields, e->f32), jitc_emit_real(e, e->f32, 0x1p112)),
        e->i32);
    LLVMValueRef special = jitc_emit_bin(e, LLVMOr, fields, jitc_emit_int(e, e->i32, 0x7f800000));
    LLVMValueRef is_special =
        jitc_emit_icmp(e, LLVMIntUGE, fields, jitc_emit_int(e, e->i32, 0x7c00u << 13));
    LLVMValueRef magnitude = jitc_emit_select(e, is_special, special, finite);
    return bits_of(e, jitc_emit_bin(e, LLVMOr, magnitude, shift(e, LLVMShl, sign, e->i32, 16)),
                   e->f32);
}

/** Round a magnitude's bits to nearest even at `drop` bits: the bits that stay, not yet shifted. */
static LLVMValueRef add_rounding(jitc_emit *e, LLVMValueRef bits, unsigned drop) {
    LLVMValueRef odd = jitc_emit_bin(e, LLVMAnd, shift(e, LLVMLShr, bits, e->i32, drop),
                                     jitc_emit_int(e, e->i32, 1));
    LLVMValueRef half = jitc_emit_int(e, e->i32, (1u << (drop - 1)) - 1);
    return jitc_emit_bin(e, LLVMAdd, jitc_emit_bin(e, LLVMAdd, bits, half), odd);
}

static LLVMValueRef float_to_half(jitc_emit *e, LLVMValueRef v) {
    LLVMValueRef bits = bits_of(e, v, e->i32);
    LLVMValueRef a = jitc_emit_bin(e, LLVMAnd, bits, jitc_emit_int(e, e->i32, 0x7fffffff));
    LLVMValueRef sign = jitc_emit_bin(e, LLVMAnd, shift(e, LLVMLShr, bits, e->i32, 16),
                                      jitc_emit_int(e, e->i32, 0x8000));
    LLVMValueRef rebased =
        jitc_emit_bin(e, LLVMSub, add_rounding(e, a, 13), jitc_emit_int(e, e->i32, 112u << 23));
    LLVMValueRef normal = shift(e, LLVMLShr, rebased, e->i32, 13);
    /* Adding 1/2 leaves the multiples of 2^-24, the subnormals' unit, in the last bits, rounded. */
    LLVMValueRef sum =
        jitc_emit_bin(e, LLVMFAdd, bits_of(e, a, e->f32), jitc_emit_real(e, e->f32, 0.5));
    LLVMValueRef subnormal =
        jitc_emit_bin(e, LLVMSub, bits_of(e, sum, e->i32), jitc_emit_int(e, e->i32, 0x3f000000));
    LLVMValueRef nan = jitc_emit_bin(e, LLVMOr, jitc_emit_int(e, e->i32, 0x7e00),
                                     jitc_emit_bin(e, LLVMAnd, shift(e, LLVMLShr, a, e->i32, 13),
                                                   jitc_emit_int(e, e->i32, 0x3ff)));
#define ABOVE(limit) jitc_emit_icmp(e, LLVMIntUGE, a, jitc_emit_int(e, e->i32, limit))
    LLVMValueRef r = jitc_emit_select(e, ABOVE(0x38800000), normal, subnormal);
    r = jitc_emit_select(e, ABOVE(0x477ff000), jitc_emit_int(e, e->i32, 0x7c00), r);
    r = jitc_emit_select(e, ABOVE(0x7f800001), nan, r);
#undef ABOVE
    return jitc_emit_cast(e, LLVMTrunc, jitc_emit_bin(e, LLVMOr, r, sign), e->i16);
}

static LLVMValueRef float_to_bfloat(jitc_emit *e, LLVMValueRef v) {
    LLVMValueRef bits = bits_of(e, v, e->i32);
    LLVMValueRef quiet = jitc_emit_bin(e, LLVMOr, bits, jitc_emit_int(e, e->i32, 0x400000));
    LLVMValueRef nan = jitc_emit_fcmp(e, LLVMRealUNO, v, v);
    LLVMValueRef r = jitc_emit_select(e, nan, quiet, add_rounding(e, bits, 16));
    return jitc_emit_cast(e, LLVMTrunc, shift(e, LLVMLShr, r, e->i32, 16), e->i16);
}

LLVMValueRef jitc_emit_widen(jitc_emit *e, jit_dtype type, LLVMValueRef v) {
    if (type == JIT_bf16)
        return bits_of(e, shift(e, LLVMShl, jitc_emit_cast(e, LLVMZExt, v, e->i32), e->i32, 16),
                       e->f32);
    if (type != JIT_f16)
        return v;
    if (!has_half(e))
        return half_to_float(e, v);
    return jitc_emit_cast(e, LLVMFPExt, bits_of(e, v, e->f16), e->f32);
}

LLVMValueRef jitc_emit_narrow(jitc_emit *e, jit_dtype type, LLVMValueRef v) {
    if (type == JIT_bf16)
        return float_to_bfloat(e, v);
    if (type != JIT_f16)
        return v;
    if (!has_half(e))
        return float_to_half(e, v);
    return bits_of(e, jitc_emit_cast(e, LLVMFPTrunc, v, e->f16), e->i16);
}

/** f64 to f32, inexact results to the neighbour with an odd last bit: rounding once more, to a type
 *  with at least two bits less, then gives what one rounding would. */
static LLVMValueRef float_to_odd(jitc_emit *e, LLVMValueRef v) {
    LLVMValueRef one = jitc_emit_int(e, e->i32, 1);
    LLVMValueRef f = jitc_emit_cast(e, LLVMFPTrunc, v, e->f32);
    LLVMValueRef back = jitc_emit_cast(e, LLVMFPExt, f, e->f64);
    LLVMValueRef bits = bits_of(e, f, e->i32);
    LLVMValueRef mask = jitc_emit_int(e, e->i64, INT64_MAX);
    LLVMValueRef size = jitc_emit_bin(e, LLVMAnd, bits_of(e, v, e->i64), mask);
    LLVMValueRef back_size = jitc_emit_bin(e, LLVMAnd, bits_of(e, back, e->i64), mask);
    LLVMValueRef up = jitc_emit_icmp(e, LLVMIntUGT, size, back_size);
    LLVMValueRef step = jitc_emit_select(e, up, one, jitc_emit_int(e, e->i32, UINT32_MAX));
    LLVMValueRef even = jitc_emit_icmp(e, LLVMIntEQ, jitc_emit_bin(e, LLVMAnd, bits, one),
                                       jitc_emit_int(e, e->i32, 0));
    LLVMValueRef inexact = jitc_emit_fcmp(e, LLVMRealONE, v, back);
    LLVMValueRef move = jitc_emit_bin(e, LLVMAnd, even, inexact);
    return bits_of(e, jitc_emit_select(e, move, jitc_emit_bin(e, LLVMAdd, bits, step), bits),
                   e->f32);
}

LLVMValueRef jitc_emit_narrow_double(jitc_emit *e, jit_dtype type, LLVMValueRef v) {
    if (type == JIT_f64)
        return v;
    if (type == JIT_f32)
        return jitc_emit_cast(e, LLVMFPTrunc, v, e->f32);
    return jitc_emit_narrow(e, type, float_to_odd(e, v));
}

/* Integers. */

LLVMValueRef jitc_emit_resize(jitc_emit *e, jit_dtype from, LLVMTypeRef scalar, unsigned bits,
                              LLVMValueRef v) {
    unsigned have = from == JIT_bool ? 1 : jitc_dtypes[from].bits;
    if (have == bits)
        return v;
    if (have > bits)
        return jitc_emit_cast(e, LLVMTrunc, v, scalar);
    return jitc_emit_cast(e, jitc_dtypes[from].cls == JITC_INT ? LLVMSExt : LLVMZExt, v, scalar);
}

/** A 64-bit magnitude whose lowest bits are gathered into one, so that its conversion to f64 is
 *  exact or as good as rounded to odd. */
static LLVMValueRef jam(jitc_emit *e, LLVMValueRef m) {
    LLVMValueRef low = jitc_emit_bin(e, LLVMAnd, m, jitc_emit_int(e, e->i64, 0xfff));
    LLVMValueRef zero = jitc_emit_int(e, e->i64, 0);
    LLVMValueRef sticky = jitc_emit_select(e, jitc_emit_icmp(e, LLVMIntNE, low, zero),
                                           jitc_emit_int(e, e->i64, 0x1000), zero);
    LLVMValueRef high = jitc_emit_bin(e, LLVMAnd, m, jitc_emit_int(e, e->i64, ~(uint64_t) 0xfff));
    LLVMValueRef big =
        jitc_emit_icmp(e, LLVMIntUGE, m, jitc_emit_int(e, e->i64, (uint64_t) 1 << 53));
    return jitc_emit_select(e, big, jitc_emit_bin(e, LLVMOr, high, sticky), m);
}

/** 64-bit integers to a 16-bit float: magnitude, f64 rounded to odd, down, sign. */
static LLVMValueRef wide_to_small_float(jitc_emit *e, jit_dtype from, jit_dtype to,
                                        LLVMValueRef v) {
    LLVMValueRef m = v, sign = NULL;
    if (jitc_dtypes[from].cls == JITC_INT) {
        sign = jitc_emit_icmp(e, LLVMIntSLT, v, jitc_emit_int(e, e->i64, 0));
        m = jitc_emit_select(e, sign, e->api->LLVMBuildNeg(e->b, v, ""), v);
    }
    LLVMValueRef d = jitc_emit_cast(e, LLVMUIToFP, jam(e, m), e->f64);
    LLVMValueRef r = jitc_emit_narrow_double(e, to, d);
    if (!sign)
        return r;
    LLVMValueRef bit =
        jitc_emit_select(e, sign, jitc_emit_int(e, e->i16, 0x8000), jitc_emit_int(e, e->i16, 0));
    return jitc_emit_bin(e, LLVMOr, r, bit);
}

static LLVMValueRef integer_to_real(jitc_emit *e, jit_dtype from, jit_dtype to, LLVMValueRef v) {
    LLVMOpcode op = jitc_dtypes[from].cls == JITC_INT ? LLVMSIToFP : LLVMUIToFP;
    if (to == JIT_f32 || to == JIT_f64)
        return jitc_emit_cast(e, op, v, jitc_emit_scalar(e, to));
    if (jitc_dtypes[from].bits == 64)
        return wide_to_small_float(e, from, to, v);
    if (jitc_dtypes[from].bits == 32)
        return jitc_emit_narrow_double(e, to, jitc_emit_cast(e, op, v, e->f64));
    return jitc_emit_narrow(e, to, jitc_emit_cast(e, op, v, e->f32)); /* exact in f32 */
}

/* Floats to integers. */

/** x cut to [low, high], NaN to 0; the bounds are exact in x's type. */
static LLVMValueRef clamp(jitc_emit *e, LLVMTypeRef real, LLVMValueRef x, double low, double high) {
    LLVMValueRef l = jitc_emit_real(e, real, low), h = jitc_emit_real(e, real, high);
    LLVMValueRef above = jitc_emit_fcmp(e, LLVMRealOGT, x, l); /* false for NaN */
    LLVMValueRef r = jitc_emit_select(e, above, x, l);
    if (low != 0) {
        LLVMValueRef nan = jitc_emit_fcmp(e, LLVMRealUNO, x, x);
        r = jitc_emit_select(e, nan, jitc_emit_real(e, real, 0), r);
    }
    return jitc_emit_select(e, jitc_emit_fcmp(e, LLVMRealOLT, r, h), r, h);
}

/** To the integer type of the float's own precision or wider, where the greatest value has no exact
 *  float: what the conversion makes of values out of range is replaced. */
static LLVMValueRef convert_and_mend(jitc_emit *e, LLVMTypeRef real, jit_dtype to, LLVMValueRef x) {
    bool is_signed = jitc_dtypes[to].cls == JITC_INT;
    unsigned bits = jitc_dtypes[to].bits;
    LLVMTypeRef integer = jitc_emit_scalar(e, to);
    LLVMValueRef zero = jitc_emit_int(e, integer, 0);
    LLVMValueRef limit = jitc_emit_real(e, real, ldexp(1, (int) bits - is_signed));
    LLVMValueRef greatest = jitc_emit_int(e, integer, jitc_bits_mask(to) >> is_signed);
    LLVMValueRef least = jitc_emit_int(e, integer, is_signed ? (uint64_t) 1 << (bits - 1) : 0);
    LLVMValueRef low = jitc_emit_real(e, real, is_signed ? -ldexp(1, (int) bits - 1) : 0);
    LLVMValueRef too_big = jitc_emit_fcmp(e, LLVMRealOGE, x, limit);
    LLVMValueRef too_small = jitc_emit_fcmp(e, LLVMRealOLE, x, low);
    LLVMValueRef nan = jitc_emit_fcmp(e, LLVMRealUNO, x, x);
    LLVMValueRef r = jitc_emit_cast(e, is_signed ? LLVMFPToSI : LLVMFPToUI, x, integer);
    r = jitc_emit_select(e, too_big, greatest, r);
    /* Out of range below, the machine gives the least signed value by itself. */
    if (!is_signed || e->api->LLVMIsConstant(x))
        r = jitc_emit_select(e, too_small, least, r);
    return jitc_emit_select(e, nan, zero, r);
}

static LLVMValueRef real_to_integer(jitc_emit *e, jit_dtype from, jit_dtype to, LLVMValueRef v) {
    bool is_signed = jitc_dtypes[to].cls == JITC_INT;
    unsigned bits = jitc_dtypes[to].bits;
    LLVMTypeRef real = from == JIT_f64 ? e->f64 : e->f32;
    LLVMValueRef x = jitc_emit_widen(e, from, v);
    if (bits == 64 || (bits == 32 && real == e->f32))
        return convert_and_mend(e, real, to, x);
    double high = ldexp(1, (int) bits - is_signed) - 1;
    x = clamp(e, real, x, is_signed ? -high - 1 : 0, high);
    if (bits == 32)
        return jitc_emit_cast(e, is_signed ? LLVMFPToSI : LLVMFPToUI, x, e->i32);
    LLVMValueRef r = jitc_emit_cast(e, LLVMFPToSI, x, e->i32);
    return jitc_emit_cast(e, LLVMTrunc, r, jitc_emit_scalar(e, to));
}

static LLVMValueRef real_to_real(jitc_emit *e, jit_dtype from, jit_dtype to, LLVMValueRef v) {
    if (from == JIT_f64)
        return jitc_emit_narrow_double(e, to, v);
    LLVMValueRef f = jitc_emit_widen(e, from, v);
    if (to == JIT_f64)
        return jitc_emit_cast(e, LLVMFPExt, f, e->f64);
    return jitc_emit_narrow(e, to, f);
}

/* Bool. */

static LLVMValueRef to_bool(jitc_emit *e, jit_dtype from, LLVMValueRef v) {
    LLVMTypeRef scalar = jitc_emit_scalar(e, from);
    if (!is_float(from))
        return jitc_emit_icmp(e, LLVMIntNE, v, jitc_emit_int(e, scalar, 0));
    LLVMValueRef f = jitc_emit_widen(e, from, v);
    LLVMTypeRef real = from == JIT_f64 ? e->f64 : e->f32;
    return jitc_emit_fcmp(e, LLVMRealUNE, f, jitc_emit_real(e, real, 0));
}

static LLVMValueRef from_bool(jitc_emit *e, jit_dtype to, LLVMValueRef v) {
    LLVMTypeRef scalar = jitc_emit_scalar(e, to);
    if (!is_float(to))
        return jitc_emit_cast(e, LLVMZExt, v, scalar);
    LLVMValueRef one;
    if (to == JIT_f16 || to == JIT_bf16)
        one = jitc_emit_int(e, scalar, to == JIT_f16 ? 0x3c00 : 0x3f80);
    else
        one = jitc_emit_real(e, scalar, 1);
    return jitc_emit_select(e, v, one, e->api->LLVMConstNull(jitc_emit_vector(e, scalar)));
}

LLVMValueRef jitc_emit_conversion(jitc_emit *e, jit_dtype from, jit_dtype to, LLVMValueRef v) {
    if (from == to)
        return v;
    if (to == JIT_bool)
        return to_bool(e, from, v);
    if (from == JIT_bool)
        return from_bool(e, to, v);
    if (is_float(from))
        return is_float(to) ? real_to_real(e, from, to, v) : real_to_integer(e, from, to, v);
    if (is_float(to))
        return integer_to_real(e, from, to, v);
    return jitc_emit_resize(e, from, jitc_emit_scalar(e, to), jitc_dtypes[to].bits, v);
}

LLVMValueRef jitc_emit_bitcast(jitc_emit *e, jit_dtype from, jit_dtype to, LLVMValueRef v) {
    LLVMTypeRef a = jitc_emit_scalar(e, from), b = jitc_emit_scalar(e, to);
    if (a == b)
        return v;
    if (to == JIT_bool)
        return jitc_emit_cast(e, LLVMTrunc, v, e->i1);
    if (from == JIT_bool)
        return jitc_emit_cast(e, LLVMZExt, v, b);
    return bits_of(e, v, b);
}
