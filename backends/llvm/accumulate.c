/* accumulate.c: words for code that combines lanes.  Layer: llvm.  May include: core, ir. */
#include "llvm/accumulate.h"
#include "llvm/convert.h"
#include "llvm/operation.h"

enum { MAX_LANES = 64 };

jit_dtype jitc_accumulator_type(jit_dtype t) {
    return t == JIT_f16 || t == JIT_bf16 ? JIT_f32 : t == JIT_bool ? JIT_u8 : t;
}

uint64_t jitc_accumulator_neutral(jit_reduce_op op, jit_dtype t) {
    jit_dtype sum = jitc_accumulator_type(t);
    if (op == JIT_REDUCE_ADD && jitc_dtypes[sum].cls == JITC_FLOAT)
        return (uint64_t) 1 << (jitc_dtypes[sum].bits - 1);
    return jitc_reduce_identity(op, t == JIT_bool ? t : sum);
}

jitc_combining jitc_combining_of(const jitc_inst *i) {
    jit_dtype t = (jit_dtype) i->type;
    return (jitc_combining) {i->a, i->b, jitc_inst_reduce(i), t, jitc_accumulator_type(t)};
}

LLVMValueRef jitc_emit_bits(jitc_emit *e, jit_dtype type, uint64_t bits) {
    LLVMTypeRef scalar = jitc_emit_scalar(e, type);
    if (type != JIT_f32 && type != JIT_f64)
        return jitc_emit_int(e, scalar, bits);
    return jitc_emit_cast(e, LLVMBitCast, jitc_emit_int(e, type == JIT_f32 ? e->i32 : e->i64, bits),
                          scalar);
}

LLVMValueRef jitc_emit_neutral(jitc_emit *e, const jitc_combining *c) {
    return jitc_emit_bits(e, c->sum, jitc_accumulator_neutral(c->op, c->type));
}

LLVMValueRef jitc_emit_to_sum(jitc_emit *e, const jitc_combining *c, LLVMValueRef v) {
    if (c->type == JIT_bool)
        return jitc_emit_cast(e, LLVMZExt, v, e->i8);
    return c->sum == c->type ? v : jitc_emit_widen(e, c->type, v);
}

LLVMValueRef jitc_emit_from_sum(jitc_emit *e, const jitc_combining *c, LLVMValueRef v) {
    return c->sum == c->type || c->type == JIT_bool ? v : jitc_emit_narrow(e, c->type, v);
}

jit_dtype jitc_stored_type(const jitc_combining *c) {
    return c->type == JIT_bool ? JIT_u8 : c->type;
}

LLVMValueRef jitc_emit_combine(jitc_emit *e, const jitc_combining *c, LLVMValueRef a,
                               LLVMValueRef b) {
    const jitc_operation o = {
        .op = jitc_reduce_op(c->op), .type = c->sum, .to = c->sum, .v = {a, b}};
    return jitc_emit_operation(e, &o);
}

LLVMValueRef jitc_emit_shuffle(jitc_emit *e, LLVMValueRef a, LLVMValueRef b, const int *from) {
    LLVMValueRef mask[MAX_LANES];
    for (unsigned i = 0; i < e->lanes; i++)
        mask[i] = from[i] < 0 ? e->api->LLVMGetUndef(e->i32)
                              : e->api->LLVMConstInt(e->i32, (unsigned) from[i], 0);
    return e->api->LLVMBuildShuffleVector(e->b, a, b, e->api->LLVMConstVector(mask, e->lanes), "");
}

LLVMValueRef jitc_emit_spread(jitc_emit *e, LLVMValueRef v, unsigned lane) {
    int from[MAX_LANES];
    for (unsigned i = 0; i < e->lanes; i++)
        from[i] = (int) lane;
    return jitc_emit_shuffle(e, v, v, from);
}

LLVMValueRef jitc_emit_total(jitc_emit *e, const jitc_combining *c, const LLVMValueRef *v) {
    LLVMValueRef low = jitc_emit_combine(e, c, v[0], v[1]);
    LLVMValueRef all = jitc_emit_combine(e, c, low, jitc_emit_combine(e, c, v[2], v[3]));
    for (unsigned half = e->lanes / 2; half; half /= 2) {
        int from[MAX_LANES];
        for (unsigned i = 0; i < e->lanes; i++)
            from[i] = i < half ? (int) (i + half) : -1;
        all = jitc_emit_combine(e, c, all, jitc_emit_shuffle(e, all, all, from));
    }
    return e->api->LLVMBuildExtractElement(e->b, all, e->api->LLVMConstInt(e->i32, 0, 0), "");
}
