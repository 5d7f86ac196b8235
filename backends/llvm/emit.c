/* emit.c: constants, splats, intrinsics and calls.  Layer: llvm.  May include: core, ir. */
#include "llvm/emit.h"
#include <string.h>

enum { MAX_LANES = 64, MAX_ARGS = 8 };

LLVMTypeRef jitc_emit_vector(jitc_emit *e, LLVMTypeRef scalar) {
    return e->api->LLVMVectorType(scalar, e->lanes);
}

LLVMTypeRef jitc_emit_scalar(jitc_emit *e, jit_dtype type) {
    if (type == JIT_bool)
        return e->i1;
    if (type == JIT_f32)
        return e->f32;
    if (type == JIT_f64)
        return e->f64;
    switch (jitc_dtypes[type].bytes) {
        case 1: return e->i8;
        case 2: return e->i16;
        case 4: return e->i32;
        default: return e->i64;
    }
}

static LLVMValueRef constant_splat(jitc_emit *e, LLVMValueRef scalar) {
    LLVMValueRef all[MAX_LANES];
    for (unsigned i = 0; i < e->lanes; i++)
        all[i] = scalar;
    return e->api->LLVMConstVector(all, e->lanes);
}

LLVMValueRef jitc_emit_int(jitc_emit *e, LLVMTypeRef scalar, uint64_t value) {
    return constant_splat(e, e->api->LLVMConstInt(scalar, value, 0));
}

LLVMValueRef jitc_emit_real(jitc_emit *e, LLVMTypeRef scalar, double value) {
    return constant_splat(e, e->api->LLVMConstReal(scalar, value));
}

LLVMValueRef jitc_emit_iota(jitc_emit *e, LLVMTypeRef scalar) {
    LLVMValueRef all[MAX_LANES];
    for (unsigned i = 0; i < e->lanes; i++)
        all[i] = e->api->LLVMConstInt(scalar, i, 0);
    return e->api->LLVMConstVector(all, e->lanes);
}

LLVMValueRef jitc_emit_splat(jitc_emit *e, LLVMValueRef scalar) {
    const jitc_llvm *api = e->api;
    LLVMTypeRef vector = jitc_emit_vector(e, api->LLVMTypeOf(scalar));
    LLVMValueRef none = api->LLVMGetUndef(vector);
    LLVMValueRef first =
        api->LLVMBuildInsertElement(e->b, none, scalar, api->LLVMConstInt(e->i32, 0, 0), "");
    LLVMValueRef zeros = api->LLVMConstNull(jitc_emit_vector(e, e->i32));
    return api->LLVMBuildShuffleVector(e->b, first, none, zeros, "");
}

static LLVMValueRef call_intrinsic(jitc_emit *e, const char *name, LLVMTypeRef *overloads,
                                   size_t overload_count, unsigned count, LLVMValueRef *args) {
    const jitc_llvm *api = e->api;
    unsigned id = api->LLVMLookupIntrinsicID(name, strlen(name));
    LLVMTypeRef type = api->LLVMIntrinsicGetType(e->context, id, overloads, overload_count);
    LLVMValueRef f = api->LLVMGetIntrinsicDeclaration(e->module, id, overloads, overload_count);
    return api->LLVMBuildCall2(e->b, type, f, args, count, "");
}

LLVMValueRef jitc_emit_intrinsic(jitc_emit *e, const char *name, LLVMTypeRef overload,
                                 unsigned count, LLVMValueRef *args) {
    return call_intrinsic(e, name, &overload, overload ? 1 : 0, count, args);
}

LLVMValueRef jitc_emit_intrinsic2(jitc_emit *e, const char *name, LLVMTypeRef overloads[2],
                                  unsigned count, LLVMValueRef *args) {
    return call_intrinsic(e, name, overloads, 2, count, args);
}

LLVMValueRef jitc_emit_call(jitc_emit *e, const char *symbol, LLVMTypeRef result, unsigned count,
                            LLVMValueRef *args) {
    const jitc_llvm *api = e->api;
    LLVMTypeRef types[MAX_ARGS];
    assert(count <= MAX_ARGS);
    for (unsigned i = 0; i < count; i++)
        types[i] = api->LLVMTypeOf(args[i]);
    LLVMTypeRef type = api->LLVMFunctionType(result, types, count, 0);
    LLVMValueRef f = api->LLVMGetNamedFunction(e->module, symbol);
    if (!f)
        f = api->LLVMAddFunction(e->module, symbol, type);
    return api->LLVMBuildCall2(e->b, type, f, args, count, "");
}

LLVMValueRef jitc_emit_stack(jitc_emit *e, LLVMTypeRef scalar, unsigned count) {
    const jitc_llvm *api = e->api;
    LLVMBasicBlockRef here = jitc_emit_here(e);
    LLVMBasicBlockRef entry = api->LLVMGetEntryBasicBlock(e->function);
    LLVMValueRef first = api->LLVMGetFirstInstruction(entry);
    if (first)
        api->LLVMPositionBuilderBefore(e->b, first);
    else
        jitc_emit_at(e, entry);
    LLVMValueRef room =
        api->LLVMBuildArrayAlloca(e->b, scalar, api->LLVMConstInt(e->i32, count, 0), "");
    api->LLVMSetAlignment(room, 64);
    jitc_emit_at(e, here);
    return room;
}

LLVMValueRef jitc_emit_lane_call(jitc_emit *e, const char *symbol, unsigned count,
                                 const LLVMValueRef *args) {
    const jitc_llvm *api = e->api;
    LLVMTypeRef vector = api->LLVMTypeOf(args[0]);
    LLVMTypeRef scalar = api->LLVMGetElementType(vector);
    LLVMValueRef pass[5];
    pass[0] = jitc_emit_stack(e, scalar, e->lanes);
    for (unsigned i = 0; i < count; i++) {
        pass[i + 1] = jitc_emit_stack(e, scalar, e->lanes);
        api->LLVMBuildStore(e->b, args[i], pass[i + 1]);
    }
    pass[count + 1] = api->LLVMConstInt(e->i64, e->lanes, 0);
    jitc_emit_call(e, symbol, api->LLVMVoidTypeInContext(e->context), count + 2, pass);
    return api->LLVMBuildLoad2(e->b, vector, pass[0], "");
}

LLVMValueRef jitc_emit_fma(jitc_emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    LLVMValueRef args[] = {a, b, c};
    LLVMTypeRef type = e->api->LLVMTypeOf(a);
    if (e->isa >= JITC_ISA_V3)
        return jitc_emit_intrinsic(e, "llvm.fma", type, 3, args);
    bool single = e->api->LLVMGetElementType(type) == e->f32;
    return jitc_emit_lane_call(e, single ? "jitc_lanes_fma_f32" : "jitc_lanes_fma_f64", 3, args);
}
