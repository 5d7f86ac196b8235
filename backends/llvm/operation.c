/* operation.c: the table of emitters, and the operations that exist for more than one class.
 * Layer: llvm.  May include: core, ir. */
#include "llvm/operation.h"
#include "llvm/convert.h"

#define jitc_emit_op_none NULL
static const jitc_emitter emitters[JITC_OP_COUNT] = {
#define OP(name, ...) [JITC_OP_##name] =
#define LLVM(name)    jitc_emit_op_##name,
#include "ir/ops.def"
};
#undef jitc_emit_op_none

LLVMValueRef jitc_emit_operation(jitc_emit *e, const jitc_operation *o) {
    assert(emitters[o->op]);
    return emitters[o->op](e, o);
}

static jitc_class class_of(const jitc_operation *o) {
    return (jitc_class) jitc_dtypes[o->type].cls;
}

LLVMValueRef jitc_emit_op_not(jitc_emit *e, const jitc_operation *o) {
    return jitc_emit_not(e, o->v[0]);
}

LLVMValueRef jitc_emit_op_bits(jitc_emit *e, const jitc_operation *o) {
    LLVMOpcode op = o->op == JITC_OP_and ? LLVMAnd : o->op == JITC_OP_or ? LLVMOr : LLVMXor;
    return jitc_emit_bin(e, op, o->v[0], o->v[1]);
}

/** Comparisons, in the order eq ne lt le gt ge. */
static unsigned comparison(const jitc_operation *o) {
    return (unsigned) (o->op - JITC_OP_eq);
}
_Static_assert(JITC_OP_ge - JITC_OP_eq == 5 && JITC_OP_lt - JITC_OP_eq == 2,
               "ORDER ops: comparisons are eq ne lt le gt ge");

/** On <n x i1>, by hand: the comparison instructions of such vectors are a rarely trodden path. */
static LLVMValueRef compare_bool(jitc_emit *e, const jitc_operation *o) {
    LLVMValueRef a = o->v[0], b = o->v[1];
    switch (comparison(o)) {
        case 0: return jitc_emit_not(e, jitc_emit_bin(e, LLVMXor, a, b));
        case 1: return jitc_emit_bin(e, LLVMXor, a, b);
        case 2: return jitc_emit_bin(e, LLVMAnd, jitc_emit_not(e, a), b);
        case 3: return jitc_emit_bin(e, LLVMOr, jitc_emit_not(e, a), b);
        case 4: return jitc_emit_bin(e, LLVMAnd, a, jitc_emit_not(e, b));
        default: return jitc_emit_bin(e, LLVMOr, a, jitc_emit_not(e, b));
    }
}

LLVMValueRef jitc_emit_op_compare(jitc_emit *e, const jitc_operation *o) {
    static const LLVMRealPredicate real[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT,
                                             LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
    static const LLVMIntPredicate by_sign[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntSLT,
                                               LLVMIntSLE, LLVMIntSGT, LLVMIntSGE};
    static const LLVMIntPredicate by_size[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntULT,
                                               LLVMIntULE, LLVMIntUGT, LLVMIntUGE};
    unsigned which = comparison(o);
    switch (class_of(o)) {
        case JITC_BOOL: return compare_bool(e, o);
        case JITC_INT: return jitc_emit_icmp(e, by_sign[which], o->v[0], o->v[1]);
        case JITC_UINT: return jitc_emit_icmp(e, by_size[which], o->v[0], o->v[1]);
        default:
            return jitc_emit_fcmp(e, real[which], jitc_emit_widen(e, o->type, o->v[0]),
                                  jitc_emit_widen(e, o->type, o->v[1]));
    }
}

LLVMValueRef jitc_emit_op_select(jitc_emit *e, const jitc_operation *o) {
    LLVMValueRef mask = o->v[0], a = o->v[1], b = o->v[2];
    if (o->type != JIT_bool)
        return jitc_emit_select(e, mask, a, b);
    LLVMValueRef other = jitc_emit_bin(e, LLVMAnd, jitc_emit_not(e, mask), b);
    return jitc_emit_bin(e, LLVMOr, jitc_emit_bin(e, LLVMAnd, mask, a), other);
}

LLVMValueRef jitc_emit_op_cast(jitc_emit *e, const jitc_operation *o) {
    return jitc_emit_conversion(e, o->type, o->to, o->v[0]);
}

LLVMValueRef jitc_emit_op_bitcast(jitc_emit *e, const jitc_operation *o) {
    return jitc_emit_bitcast(e, o->type, o->to, o->v[0]);
}

/** The bits of a float vector with and, or, xor applied to the sign. */
static LLVMValueRef with_sign(jitc_emit *e, const jitc_operation *o, LLVMOpcode op, bool sign) {
    unsigned bits = jitc_dtypes[o->type].bits;
    LLVMTypeRef integer = bits == 16 ? e->i16 : bits == 32 ? e->i32 : e->i64;
    uint64_t mask = (uint64_t) 1 << (bits - 1);
    LLVMValueRef v = jitc_emit_cast(e, LLVMBitCast, o->v[0], integer);
    v = jitc_emit_bin(e, op, v, jitc_emit_int(e, integer, sign ? mask : mask - 1));
    return jitc_emit_cast(e, LLVMBitCast, v, jitc_emit_scalar(e, o->type));
}

LLVMValueRef jitc_emit_op_neg(jitc_emit *e, const jitc_operation *o) {
    if (class_of(o) == JITC_FLOAT)
        return with_sign(e, o, LLVMXor, true);
    return e->api->LLVMBuildNeg(e->b, o->v[0], "");
}

LLVMValueRef jitc_emit_op_abs(jitc_emit *e, const jitc_operation *o) {
    if (class_of(o) == JITC_UINT)
        return o->v[0];
    if (class_of(o) == JITC_FLOAT)
        return with_sign(e, o, LLVMAnd, false);
    LLVMValueRef zero = jitc_emit_int(e, jitc_emit_scalar(e, o->type), 0);
    LLVMValueRef negative = jitc_emit_icmp(e, LLVMIntSLT, o->v[0], zero);
    return jitc_emit_select(e, negative, e->api->LLVMBuildNeg(e->b, o->v[0], ""), o->v[0]);
}

LLVMValueRef jitc_emit_op_copysign(jitc_emit *e, const jitc_operation *o) {
    jitc_operation of_b = *o;
    of_b.v[0] = o->v[1];
    unsigned bits = jitc_dtypes[o->type].bits;
    LLVMTypeRef integer = bits == 16 ? e->i16 : bits == 32 ? e->i32 : e->i64;
    LLVMValueRef size = jitc_emit_cast(e, LLVMBitCast, with_sign(e, o, LLVMAnd, false), integer);
    LLVMValueRef sign = jitc_emit_cast(e, LLVMBitCast, with_sign(e, &of_b, LLVMAnd, true), integer);
    return jitc_emit_cast(e, LLVMBitCast, jitc_emit_bin(e, LLVMOr, size, sign),
                          jitc_emit_scalar(e, o->type));
}
