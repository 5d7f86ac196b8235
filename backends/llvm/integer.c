/* integer.c: bit counts, shifts and wide products.  Layer: llvm.  May include: core, ir. */
#include "llvm/convert.h"
#include "llvm/operation.h"

static LLVMTypeRef scalar_of(jitc_emit *e, const jitc_operation *o) {
    return jitc_emit_scalar(e, o->type);
}
static LLVMValueRef unary(jitc_emit *e, const jitc_operation *o, const char *name) {
    LLVMValueRef args[] = {o->v[0]};
    return jitc_emit_intrinsic(e, name, jitc_emit_vector(e, scalar_of(e, o)), 1, args);
}
/** clz and ctz: the flag says that 0 is a legal operand. */
static LLVMValueRef count_zeros(jitc_emit *e, const jitc_operation *o, const char *name) {
    LLVMValueRef args[] = {o->v[0], e->api->LLVMConstInt(e->i1, 0, 0)};
    return jitc_emit_intrinsic(e, name, jitc_emit_vector(e, scalar_of(e, o)), 2, args);
}

LLVMValueRef jitc_emit_op_popc(jitc_emit *e, const jitc_operation *o) {
    return unary(e, o, "llvm.ctpop");
}
LLVMValueRef jitc_emit_op_brev(jitc_emit *e, const jitc_operation *o) {
    return unary(e, o, "llvm.bitreverse");
}
LLVMValueRef jitc_emit_op_clz(jitc_emit *e, const jitc_operation *o) {
    return count_zeros(e, o, "llvm.ctlz");
}
LLVMValueRef jitc_emit_op_ctz(jitc_emit *e, const jitc_operation *o) {
    return count_zeros(e, o, "llvm.cttz");
}

/** Shift amounts of the type's width and above are undefined in LLVM: replaced before, and the
 * result after. */
static LLVMValueRef shift_or_zero(jitc_emit *e, const jitc_operation *o, LLVMOpcode op) {
    LLVMTypeRef t = scalar_of(e, o);
    LLVMValueRef zero = jitc_emit_int(e, t, 0);
    LLVMValueRef fits =
        jitc_emit_icmp(e, LLVMIntULT, o->v[1], jitc_emit_int(e, t, jitc_dtypes[o->type].bits));
    LLVMValueRef amount = jitc_emit_select(e, fits, o->v[1], zero);
    return jitc_emit_select(e, fits, jitc_emit_bin(e, op, o->v[0], amount), zero);
}

LLVMValueRef jitc_emit_op_shl(jitc_emit *e, const jitc_operation *o) {
    return shift_or_zero(e, o, LLVMShl);
}

LLVMValueRef jitc_emit_op_shr(jitc_emit *e, const jitc_operation *o) {
    if (jitc_dtypes[o->type].cls != JITC_INT)
        return shift_or_zero(e, o, LLVMLShr);
    LLVMValueRef last = jitc_emit_int(e, scalar_of(e, o), jitc_dtypes[o->type].bits - 1u);
    LLVMValueRef fits = jitc_emit_icmp(e, LLVMIntULT, o->v[1], last);
    return jitc_emit_bin(e, LLVMAShr, o->v[0], jitc_emit_select(e, fits, o->v[1], last));
}

/** Upper half of the unsigned product of two 64-bit vectors, from products of 32-bit halves. */
static LLVMValueRef wide_high(jitc_emit *e, LLVMValueRef a, LLVMValueRef b) {
    LLVMValueRef low = jitc_emit_int(e, e->i64, UINT32_MAX), by = jitc_emit_int(e, e->i64, 32);
    LLVMValueRef a0 = jitc_emit_bin(e, LLVMAnd, a, low), a1 = jitc_emit_bin(e, LLVMLShr, a, by);
    LLVMValueRef b0 = jitc_emit_bin(e, LLVMAnd, b, low), b1 = jitc_emit_bin(e, LLVMLShr, b, by);
    LLVMValueRef p00 = jitc_emit_bin(e, LLVMMul, a0, b0), p01 = jitc_emit_bin(e, LLVMMul, a0, b1);
    LLVMValueRef p10 = jitc_emit_bin(e, LLVMMul, a1, b0), p11 = jitc_emit_bin(e, LLVMMul, a1, b1);
    /* No sum overflows: (2^32-1)^2 + 2 (2^32-1) < 2^64. */
    LLVMValueRef t = jitc_emit_bin(e, LLVMAdd, p10, jitc_emit_bin(e, LLVMLShr, p00, by));
    LLVMValueRef u = jitc_emit_bin(e, LLVMAdd, p01, jitc_emit_bin(e, LLVMAnd, t, low));
    LLVMValueRef high = jitc_emit_bin(e, LLVMAdd, p11, jitc_emit_bin(e, LLVMLShr, t, by));
    return jitc_emit_bin(e, LLVMAdd, high, jitc_emit_bin(e, LLVMLShr, u, by));
}

/** A negative factor, read as unsigned, is 2^64 too large: the upper half is too large by the
 * other. */
static LLVMValueRef wide_high_signed(jitc_emit *e, LLVMValueRef a, LLVMValueRef b) {
    LLVMValueRef sign = jitc_emit_int(e, e->i64, 63);
    LLVMValueRef of_a = jitc_emit_bin(e, LLVMAnd, jitc_emit_bin(e, LLVMAShr, a, sign), b);
    LLVMValueRef of_b = jitc_emit_bin(e, LLVMAnd, jitc_emit_bin(e, LLVMAShr, b, sign), a);
    LLVMValueRef high = jitc_emit_bin(e, LLVMSub, wide_high(e, a, b), of_a);
    return jitc_emit_bin(e, LLVMSub, high, of_b);
}

LLVMValueRef jitc_emit_op_mul_hi(jitc_emit *e, const jitc_operation *o) {
    unsigned bits = jitc_dtypes[o->type].bits;
    bool is_signed = jitc_dtypes[o->type].cls == JITC_INT;
    if (bits == 64)
        return (is_signed ? wide_high_signed : wide_high)(e, o->v[0], o->v[1]);
    LLVMTypeRef wide = bits == 8 ? e->i16 : bits == 16 ? e->i32 : e->i64;
    LLVMValueRef product =
        jitc_emit_bin(e, LLVMMul, jitc_emit_resize(e, o->type, wide, 2 * bits, o->v[0]),
                      jitc_emit_resize(e, o->type, wide, 2 * bits, o->v[1]));
    product = jitc_emit_bin(e, LLVMLShr, product, jitc_emit_int(e, wide, bits));
    return jitc_emit_cast(e, LLVMTrunc, product, scalar_of(e, o));
}
