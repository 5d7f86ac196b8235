/* real.c: arithmetic on floats (add, sub and mul on integers too), rounding, extrema.
 * Layer: llvm.  May include: core, ir.
 *
 * f16 and bf16 are computed in f32 and rounded once more, which for + - * / and sqrt gives what one
 * rounding would (24 >= 2 * 11 + 2). */
#include "llvm/convert.h"
#include "llvm/operation.h"

static bool is_float(const jitc_operation *o) {
    return jitc_dtypes[o->type].cls == JITC_FLOAT;
}
/** The type in which floats of o's type are computed. */
static LLVMTypeRef computed(jitc_emit *e, const jitc_operation *o) {
    return o->type == JIT_f64 ? e->f64 : e->f32;
}
static LLVMTypeRef same_bits(jitc_emit *e, const jitc_operation *o) {
    return o->type == JIT_f64 ? e->i64 : e->i32;
}
static LLVMValueRef operand(jitc_emit *e, const jitc_operation *o, int i) {
    return jitc_emit_widen(e, o->type, o->v[i]);
}
static LLVMValueRef result(jitc_emit *e, const jitc_operation *o, LLVMValueRef v) {
    return jitc_emit_narrow(e, o->type, v);
}

/** With fast math: a b + c in one step if one operand is a product. NULL if none is. */
static LLVMValueRef fuse(jitc_emit *e, LLVMValueRef a, LLVMValueRef b, bool negate_b) {
    const jitc_llvm *api = e->api;
    LLVMValueRef product = a, other = negate_b ? api->LLVMBuildFNeg(e->b, b, "") : b;
    if (!api->LLVMIsAInstruction(a) || api->LLVMGetInstructionOpcode(a) != LLVMFMul) {
        if (negate_b || !api->LLVMIsAInstruction(b) || api->LLVMGetInstructionOpcode(b) != LLVMFMul)
            return NULL;
        product = b;
        other = a;
    }
    return jitc_emit_fma(e, api->LLVMGetOperand(product, 0), api->LLVMGetOperand(product, 1),
                         other);
}

static LLVMValueRef arithmetic(jitc_emit *e, const jitc_operation *o, LLVMOpcode integer,
                               LLVMOpcode real) {
    if (!is_float(o))
        return jitc_emit_bin(e, integer, o->v[0], o->v[1]);
    LLVMValueRef a = operand(e, o, 0), b = operand(e, o, 1);
    LLVMValueRef fused = NULL;
    if (e->fast_math && e->isa >= JITC_ISA_V3 && real != LLVMFMul)
        fused = fuse(e, a, b, real == LLVMFSub);
    return result(e, o, fused ? fused : jitc_emit_bin(e, real, a, b));
}

LLVMValueRef jitc_emit_op_add(jitc_emit *e, const jitc_operation *o) {
    return arithmetic(e, o, LLVMAdd, LLVMFAdd);
}
LLVMValueRef jitc_emit_op_sub(jitc_emit *e, const jitc_operation *o) {
    return arithmetic(e, o, LLVMSub, LLVMFSub);
}
LLVMValueRef jitc_emit_op_mul(jitc_emit *e, const jitc_operation *o) {
    return arithmetic(e, o, LLVMMul, LLVMFMul);
}

static LLVMValueRef intrinsic(jitc_emit *e, const jitc_operation *o, const char *name,
                              LLVMValueRef v) {
    return jitc_emit_intrinsic(e, name, jitc_emit_vector(e, computed(e, o)), 1, &v);
}

LLVMValueRef jitc_emit_op_sqrt(jitc_emit *e, const jitc_operation *o) {
    return result(e, o, intrinsic(e, o, "llvm.sqrt", operand(e, o, 0)));
}

LLVMValueRef jitc_emit_op_rcp(jitc_emit *e, const jitc_operation *o) {
    LLVMValueRef one = jitc_emit_real(e, computed(e, o), 1);
    return result(e, o, jitc_emit_bin(e, LLVMFDiv, one, operand(e, o, 0)));
}

/** 1/sqrt(x) in f64: two roundings may be 1.5 ULP off, so a correction from the remainders of
 *  both steps follows; small numbers are scaled so that these do not underflow. */
static LLVMValueRef rsqrt_f64(jitc_emit *e, const jitc_operation *o) {
    LLVMValueRef x = o->v[0], one = jitc_emit_real(e, e->f64, 1);
    LLVMValueRef tiny = jitc_emit_fcmp(e, LLVMRealOLT, x, jitc_emit_real(e, e->f64, 0x1p-900));
    LLVMValueRef up = jitc_emit_bin(e, LLVMFMul, x, jitc_emit_real(e, e->f64, 0x1p200));
    x = jitc_emit_select(e, tiny, up, x);
    LLVMValueRef s = intrinsic(e, o, "llvm.sqrt", x);
    LLVMValueRef y = jitc_emit_bin(e, LLVMFDiv, one, s);
    LLVMValueRef minus_s = e->api->LLVMBuildFNeg(e->b, s, "");
    LLVMValueRef of_root = jitc_emit_fma(e, minus_s, s, x);       /* x - s^2 */
    LLVMValueRef of_quotient = jitc_emit_fma(e, minus_s, y, one); /* 1 - s y */
    LLVMValueRef half = jitc_emit_bin(e, LLVMFMul, jitc_emit_bin(e, LLVMFMul, y, y),
                                      jitc_emit_real(e, e->f64, -0.5));
    LLVMValueRef correction = jitc_emit_fma(e, of_root, half, of_quotient);
    LLVMValueRef better = jitc_emit_fma(e, y, correction, y);
    /* 0, infinities and NaN: the remainders are NaN. */
    LLVMValueRef good = jitc_emit_fcmp(e, LLVMRealORD, better, better);
    y = jitc_emit_select(e, good, better, y);
    LLVMValueRef back = jitc_emit_bin(e, LLVMFMul, y, jitc_emit_real(e, e->f64, 0x1p100));
    return jitc_emit_select(e, tiny, back, y);
}

LLVMValueRef jitc_emit_op_rsqrt(jitc_emit *e, const jitc_operation *o) {
    if (o->type == JIT_f64)
        return rsqrt_f64(e, o);
    LLVMValueRef wide = jitc_emit_cast(e, LLVMFPExt, operand(e, o, 0), e->f64);
    LLVMValueRef root = jitc_emit_intrinsic(e, "llvm.sqrt", jitc_emit_vector(e, e->f64), 1, &wide);
    LLVMValueRef r = jitc_emit_bin(e, LLVMFDiv, jitc_emit_real(e, e->f64, 1), root);
    return result(e, o, jitc_emit_cast(e, LLVMFPTrunc, r, e->f32));
}

LLVMValueRef jitc_emit_op_rounding(jitc_emit *e, const jitc_operation *o) {
    static const char *const names[] = {"llvm.floor", "llvm.ceil", "llvm.trunc", "llvm.roundeven"};
    _Static_assert(JITC_OP_round - JITC_OP_floor == 3 && JITC_OP_ceil - JITC_OP_floor == 1,
                   "ORDER ops: floor ceil trunc round");
    return result(e, o, intrinsic(e, o, names[o->op - JITC_OP_floor], operand(e, o, 0)));
}

LLVMValueRef jitc_emit_op_math(jitc_emit *e, const jitc_operation *o) {
    jit_dtype type = o->type == JIT_f64 ? JIT_f64 : JIT_f32;
    LLVMValueRef args[2];
    for (int i = 0; i < jitc_ops[o->op].arity; i++)
        args[i] = operand(e, o, i);
    return result(e, o, jitc_emit_math(e, o->op, type, args));
}

static bool wants_less(const jitc_operation *o) {
    return o->op == JITC_OP_min || o->op == JITC_OP_fmin;
}

/** The lesser (greater) of a and b; of zeros the negative (positive) one; b if either is NaN. By
 * hand: LLVM's own forms cannot be selected before version 17. */
static LLVMValueRef ordered_extremum(jitc_emit *e, const jitc_operation *o, LLVMValueRef a,
                                     LLVMValueRef b) {
    LLVMRealPredicate better = wants_less(o) ? LLVMRealOLT : LLVMRealOGT;
    LLVMValueRef r = jitc_emit_select(e, jitc_emit_fcmp(e, better, a, b), a, b);
    LLVMTypeRef integer = same_bits(e, o);
    LLVMValueRef zero = jitc_emit_bin(e, wants_less(o) ? LLVMOr : LLVMAnd,
                                      jitc_emit_cast(e, LLVMBitCast, a, integer),
                                      jitc_emit_cast(e, LLVMBitCast, b, integer));
    LLVMValueRef equal = jitc_emit_fcmp(e, LLVMRealOEQ, a, b);
    return jitc_emit_select(e, equal, jitc_emit_cast(e, LLVMBitCast, zero, computed(e, o)), r);
}

static LLVMValueRef integer_extremum(jitc_emit *e, const jitc_operation *o) {
    bool is_signed = jitc_dtypes[o->type].cls == JITC_INT;
    LLVMIntPredicate less = is_signed ? LLVMIntSLT : LLVMIntULT;
    LLVMIntPredicate more = is_signed ? LLVMIntSGT : LLVMIntUGT;
    LLVMValueRef better = jitc_emit_icmp(e, wants_less(o) ? less : more, o->v[0], o->v[1]);
    return jitc_emit_select(e, better, o->v[0], o->v[1]);
}

/** min and max: NaN if either is. */
LLVMValueRef jitc_emit_op_least(jitc_emit *e, const jitc_operation *o) {
    if (!is_float(o))
        return integer_extremum(e, o);
    LLVMValueRef a = operand(e, o, 0), b = operand(e, o, 1);
    LLVMValueRef r = ordered_extremum(e, o, a, b);
    r = jitc_emit_select(e, jitc_emit_fcmp(e, LLVMRealUNO, a, a), a, r);
    return result(e, o, r);
}

/** fmin and fmax: the other one if one is NaN. */
LLVMValueRef jitc_emit_op_least_number(jitc_emit *e, const jitc_operation *o) {
    LLVMValueRef a = operand(e, o, 0), b = operand(e, o, 1);
    LLVMValueRef r = ordered_extremum(e, o, a, b);
    r = jitc_emit_select(e, jitc_emit_fcmp(e, LLVMRealUNO, b, b), a, r);
    return result(e, o, r);
}

/** Round to odd: the sum of an exact product and c in f64, where inexact to the odd neighbour, then
 * one rounding to 11 or 8 bits. */
static LLVMValueRef small_fma(jitc_emit *e, const jitc_operation *o) {
    LLVMValueRef v[3];
    for (int i = 0; i < 3; i++)
        v[i] = jitc_emit_cast(e, LLVMFPExt, operand(e, o, i), e->f64);
    LLVMValueRef x = jitc_emit_bin(e, LLVMFMul, v[0], v[1]), y = v[2]; /* exact */
    LLVMValueRef sum = jitc_emit_bin(e, LLVMFAdd, x, y);
    LLVMValueRef y_part = jitc_emit_bin(e, LLVMFSub, sum, x);
    LLVMValueRef x_part = jitc_emit_bin(e, LLVMFSub, sum, y_part);
    LLVMValueRef error = jitc_emit_bin(e, LLVMFAdd, jitc_emit_bin(e, LLVMFSub, x, x_part),
                                       jitc_emit_bin(e, LLVMFSub, y, y_part)); /* TwoSum */
    LLVMValueRef zero = jitc_emit_real(e, e->f64, 0), one = jitc_emit_int(e, e->i64, 1);
    LLVMValueRef bits = jitc_emit_cast(e, LLVMBitCast, sum, e->i64);
    LLVMValueRef away =
        jitc_emit_not(e, jitc_emit_bin(e, LLVMXor, jitc_emit_fcmp(e, LLVMRealOGT, error, zero),
                                       jitc_emit_fcmp(e, LLVMRealOGT, sum, zero)));
    LLVMValueRef step = jitc_emit_select(e, away, one, jitc_emit_int(e, e->i64, UINT64_MAX));
    LLVMValueRef even = jitc_emit_icmp(e, LLVMIntEQ, jitc_emit_bin(e, LLVMAnd, bits, one),
                                       jitc_emit_int(e, e->i64, 0));
    LLVMValueRef move =
        jitc_emit_bin(e, LLVMAnd, even, jitc_emit_fcmp(e, LLVMRealONE, error, zero));
    bits = jitc_emit_select(e, move, jitc_emit_bin(e, LLVMAdd, bits, step), bits);
    return jitc_emit_narrow_double(e, o->type, jitc_emit_cast(e, LLVMBitCast, bits, e->f64));
}

LLVMValueRef jitc_emit_op_fma(jitc_emit *e, const jitc_operation *o) {
    if (o->type == JIT_f16 || o->type == JIT_bf16)
        return small_fma(e, o);
    return jitc_emit_fma(e, o->v[0], o->v[1], o->v[2]);
}
