/* divide.c: integer division without the division instruction, which exists for scalars only.
 * Layer: llvm.  May include: core, ir.
 *
 * The quotient is taken in a float type: exact for up to 32 bits after truncation, since a quotient
 * that is no integer misses the next one by more than the rounding error; corrected once for 64
 * bits. No form traps, whatever lies in lanes that nobody reads. */
#include "llvm/convert.h"
#include "llvm/operation.h"

/** A division: operands as vectors of `scalar`, the divisor never 0. */
typedef struct division {
    jit_dtype type;
    LLVMTypeRef scalar;
    LLVMValueRef a, b, by_zero; /* by_zero: mask of divisors that were 0; NULL: none can be */
} division;

static LLVMValueRef constant(jitc_emit *e, const division *d, uint64_t value) {
    return jitc_emit_int(e, d->scalar, value);
}
static bool is_signed(const division *d) {
    return jitc_dtypes[d->type].cls == JITC_INT;
}

/** 8 and 16 bits through f32, 32 bits through f64. */
static LLVMValueRef divide_in_float(jitc_emit *e, const division *d) {
    LLVMTypeRef real = jitc_dtypes[d->type].bits == 32 ? e->f64 : e->f32;
    LLVMOpcode up = is_signed(d) ? LLVMSIToFP : LLVMUIToFP;
    LLVMValueRef q = jitc_emit_bin(e, LLVMFDiv, jitc_emit_cast(e, up, d->a, real),
                                   jitc_emit_cast(e, up, d->b, real));
    if (jitc_dtypes[d->type].bits < 32)
        return jitc_emit_cast(e, LLVMTrunc, jitc_emit_cast(e, LLVMFPToSI, q, e->i32), d->scalar);
    if (!is_signed(d))
        return jitc_emit_cast(e, LLVMFPToUI, q, e->i32);
    /* -2^31 / -1 = 2^31 wraps. */
    LLVMValueRef limit = jitc_emit_real(e, real, 0x1p31);
    LLVMValueRef wraps = jitc_emit_fcmp(e, LLVMRealOEQ, q, limit);
    q = jitc_emit_select(e, wraps, jitc_emit_real(e, real, -0x1p31), q);
    return jitc_emit_cast(e, LLVMFPToSI, q, e->i32);
}

/** Add or subtract 1 where the mask is true. */
static LLVMValueRef step_if(jitc_emit *e, const division *d, LLVMOpcode op, LLVMValueRef mask,
                            LLVMValueRef v) {
    return jitc_emit_select(e, mask, jitc_emit_bin(e, op, v, constant(e, d, 1)), v);
}

/** 64-bit magnitudes; b < 2^63, or a <= b = 2^63. An estimate, its remainder divided again, and a
 * last correction by one. */
static LLVMValueRef divide_magnitudes(jitc_emit *e, const division *d, LLVMValueRef a,
                                      LLVMValueRef b) {
    LLVMValueRef divisor = jitc_emit_cast(e, LLVMUIToFP, b, e->f64);
    LLVMValueRef estimate =
        jitc_emit_bin(e, LLVMFDiv, jitc_emit_cast(e, LLVMUIToFP, a, e->f64), divisor);
    LLVMValueRef limit = jitc_emit_real(e, e->f64, 0x1.fffffffffffffp63);
    LLVMValueRef fits = jitc_emit_fcmp(e, LLVMRealOLT, estimate, limit);
    estimate = jitc_emit_select(e, fits, estimate, limit);
    LLVMValueRef q = jitc_emit_cast(e, LLVMFPToUI, estimate, e->i64);
    LLVMValueRef r = jitc_emit_bin(e, LLVMSub, a, jitc_emit_bin(e, LLVMMul, q, b));
    LLVMValueRef more = jitc_emit_cast(
        e, LLVMFPToSI,
        jitc_emit_bin(e, LLVMFDiv, jitc_emit_cast(e, LLVMSIToFP, r, e->f64), divisor), e->i64);
    q = jitc_emit_bin(e, LLVMAdd, q, more);
    r = jitc_emit_bin(e, LLVMSub, r, jitc_emit_bin(e, LLVMMul, more, b));
    LLVMValueRef below = jitc_emit_icmp(e, LLVMIntSLT, r, constant(e, d, 0));
    q = step_if(e, d, LLVMSub, below, q);
    r = jitc_emit_select(e, below, jitc_emit_bin(e, LLVMAdd, r, b), r);
    return step_if(e, d, LLVMAdd, jitc_emit_icmp(e, LLVMIntUGE, r, b), q);
}

static LLVMValueRef magnitude(jitc_emit *e, const division *d, LLVMValueRef v) {
    LLVMValueRef negative = jitc_emit_icmp(e, LLVMIntSLT, v, constant(e, d, 0));
    return jitc_emit_select(e, negative, e->api->LLVMBuildNeg(e->b, v, ""), v);
}

static LLVMValueRef divide_signed_wide(jitc_emit *e, const division *d) {
    LLVMValueRef q = divide_magnitudes(e, d, magnitude(e, d, d->a), magnitude(e, d, d->b));
    LLVMValueRef differ =
        jitc_emit_icmp(e, LLVMIntSLT, jitc_emit_bin(e, LLVMXor, d->a, d->b), constant(e, d, 0));
    return jitc_emit_select(e, differ, e->api->LLVMBuildNeg(e->b, q, ""), q);
}

/** Divisors near 2^63 and above have quotients 0, 1 or 2: found by comparing. */
static LLVMValueRef divide_unsigned_wide(jitc_emit *e, const division *d) {
    LLVMValueRef limit = constant(e, d, ((uint64_t) 1 << 63) - (1 << 14));
    LLVMValueRef big = jitc_emit_icmp(e, LLVMIntUGE, d->b, limit);
    LLVMValueRef b = jitc_emit_select(e, big, constant(e, d, 1), d->b);
    LLVMValueRef q = divide_magnitudes(e, d, d->a, b);
    LLVMValueRef once = jitc_emit_icmp(e, LLVMIntUGE, d->a, d->b);
    LLVMValueRef rest = jitc_emit_bin(e, LLVMSub, d->a, d->b);
    LLVMValueRef twice = jitc_emit_bin(e, LLVMAnd, once, jitc_emit_icmp(e, LLVMIntUGE, rest, d->b));
    LLVMValueRef count = step_if(e, d, LLVMAdd, once, constant(e, d, 0));
    return jitc_emit_select(e, big, step_if(e, d, LLVMAdd, twice, count), q);
}

/** A constant divisor that LLVM turns into multiplications and shifts: neither 0 nor -1. */
static bool is_easy_constant(const jitc_operation *o) {
    uint64_t all = jitc_bits_mask(o->type);
    if (!o->baked || o->bits == 0 || (jitc_dtypes[o->type].cls == JITC_INT && o->bits == all))
        return false;
    /* For 64 bits only powers of two: there is no vector instruction for the product's upper half.
     */
    return jitc_dtypes[o->type].bits < 64 || (o->bits & (o->bits - 1)) == 0;
}

static LLVMValueRef quotient(jitc_emit *e, const jitc_operation *o, const division *d) {
    if (is_easy_constant(o))
        return jitc_emit_bin(e, is_signed(d) ? LLVMSDiv : LLVMUDiv, d->a, d->b);
    if (jitc_dtypes[o->type].bits < 64)
        return divide_in_float(e, d);
    return is_signed(d) ? divide_signed_wide(e, d) : divide_unsigned_wide(e, d);
}

static division begin(jitc_emit *e, const jitc_operation *o) {
    division d = {
        .type = o->type, .scalar = jitc_emit_scalar(e, o->type), .a = o->v[0], .b = o->v[1]};
    if (o->baked && o->bits != 0)
        return d;
    d.by_zero = jitc_emit_icmp(e, LLVMIntEQ, d.b, constant(e, &d, 0));
    d.b = jitc_emit_select(e, d.by_zero, constant(e, &d, 1), d.b);
    return d;
}

static LLVMValueRef zero_if_by_zero(jitc_emit *e, const division *d, LLVMValueRef v) {
    return d->by_zero ? jitc_emit_select(e, d->by_zero, constant(e, d, 0), v) : v;
}

static LLVMValueRef real_modulo(jitc_emit *e, const jitc_operation *o) {
    if (o->type == JIT_f64)
        return jitc_emit_lane_call(e, "jitc_lanes_fmod_f64", 2, o->v);
    LLVMValueRef args[] = {jitc_emit_widen(e, o->type, o->v[0]),
                           jitc_emit_widen(e, o->type, o->v[1])};
    return jitc_emit_narrow(e, o->type, jitc_emit_lane_call(e, "jitc_lanes_fmod_f32", 2, args));
}

static LLVMValueRef real_quotient(jitc_emit *e, const jitc_operation *o) {
    LLVMValueRef a = jitc_emit_widen(e, o->type, o->v[0]);
    LLVMValueRef b = jitc_emit_widen(e, o->type, o->v[1]);
    return jitc_emit_narrow(e, o->type, jitc_emit_bin(e, LLVMFDiv, a, b));
}

LLVMValueRef jitc_emit_op_div(jitc_emit *e, const jitc_operation *o) {
    if (jitc_dtypes[o->type].cls == JITC_FLOAT)
        return real_quotient(e, o);
    division d = begin(e, o);
    return zero_if_by_zero(e, &d, quotient(e, o, &d));
}

LLVMValueRef jitc_emit_op_mod(jitc_emit *e, const jitc_operation *o) {
    if (jitc_dtypes[o->type].cls == JITC_FLOAT)
        return real_modulo(e, o);
    division d = begin(e, o);
    LLVMValueRef q = quotient(e, o, &d);
    LLVMValueRef r = jitc_emit_bin(e, LLVMSub, d.a, jitc_emit_bin(e, LLVMMul, q, d.b));
    return zero_if_by_zero(e, &d, r);
}
