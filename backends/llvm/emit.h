/* emit.h: small words for building vector IR through the LLVM-C builder.
 * Layer: llvm.  May include: core, ir.
 *
 * All values of a kernel are vectors of `lanes` elements, whatever their type; the legaliser splits
 * and joins well. How types are represented:
 *   bool       <n x i1> in the kernel, one byte in memory
 *   iN, uN     <n x iN>
 *   f32, f64   <n x float>, <n x double>
 *   f16, bf16  <n x i16>: the bits; arithmetic is done on <n x float> (convert.h)
 * Only forms that were tried on every supported LLVM are emitted: a selection failure ends the
 * process. Nothing here folds constants by hand; the builder does. */
#ifndef JITC_LLVM_EMIT_H
#define JITC_LLVM_EMIT_H
#include "ir/ir.h"
#include "llvm/api.h"

/** Instruction sets, by what code generation asks of them: x86-64-v1 ... v4. */
typedef enum jitc_isa { JITC_ISA_V1, JITC_ISA_V2, JITC_ISA_V3, JITC_ISA_V4 } jitc_isa;

typedef struct jitc_emit {
    const jitc_llvm *api;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMValueRef function;
    LLVMBuilderRef b;
    jitc_isa isa;
    unsigned lanes;
    bool fast_math;
    bool stream; /* whole vectors are stored past the caches */
    LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr; /* scalar types */
} jitc_emit;

/** <lanes x scalar>. */
LLVMTypeRef jitc_emit_vector(jitc_emit *e, LLVMTypeRef scalar);
/** The scalar type that stands for an element type; bool: i1. */
LLVMTypeRef jitc_emit_scalar(jitc_emit *e, jit_dtype type);
/** A constant in all lanes; `scalar` says which type. */
LLVMValueRef jitc_emit_int(jitc_emit *e, LLVMTypeRef scalar, uint64_t value);
LLVMValueRef jitc_emit_real(jitc_emit *e, LLVMTypeRef scalar, double value);
/** 0, 1, 2, ... */
LLVMValueRef jitc_emit_iota(jitc_emit *e, LLVMTypeRef scalar);
/** A scalar value in all lanes. */
LLVMValueRef jitc_emit_splat(jitc_emit *e, LLVMValueRef scalar);
/** Call an intrinsic by name, overloaded on one type (NULL: none). */
LLVMValueRef jitc_emit_intrinsic(jitc_emit *e, const char *name, LLVMTypeRef overload,
                                 unsigned count, LLVMValueRef *args);
/** The same, overloaded on two types. */
LLVMValueRef jitc_emit_intrinsic2(jitc_emit *e, const char *name, LLVMTypeRef overloads[2],
                                  unsigned count, LLVMValueRef *args);
/** Call an external function of the runtime's symbol table (symbols.h) or of helpers.h: the loader
 *  resolves it. */
LLVMValueRef jitc_emit_call(jitc_emit *e, const char *symbol, LLVMTypeRef result, unsigned count,
                            LLVMValueRef *args);
/** Room on the stack for `count` elements, allotted once in the entry block, aligned to 64. */
LLVMValueRef jitc_emit_stack(jitc_emit *e, LLVMTypeRef scalar, unsigned count);
/** Call void symbol(T *result, const T *a, const T *b, const T *c, uint64_t lanes) on the first
 *  `count` of a, b, c. */
LLVMValueRef jitc_emit_lane_call(jitc_emit *e, const char *symbol, unsigned count,
                                 const LLVMValueRef *args);
/** fma(a, b, c) in one rounding (needs v3; below, a call). f32 or f64 vectors. */
LLVMValueRef jitc_emit_fma(jitc_emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);

/* One instruction each. */
static inline LLVMValueRef jitc_emit_bin(jitc_emit *e, LLVMOpcode op, LLVMValueRef a,
                                         LLVMValueRef b) {
    return e->api->LLVMBuildBinOp(e->b, op, a, b, "");
}
static inline LLVMValueRef jitc_emit_icmp(jitc_emit *e, LLVMIntPredicate p, LLVMValueRef a,
                                          LLVMValueRef b) {
    return e->api->LLVMBuildICmp(e->b, p, a, b, "");
}
static inline LLVMValueRef jitc_emit_fcmp(jitc_emit *e, LLVMRealPredicate p, LLVMValueRef a,
                                          LLVMValueRef b) {
    return e->api->LLVMBuildFCmp(e->b, p, a, b, "");
}
static inline LLVMValueRef jitc_emit_select(jitc_emit *e, LLVMValueRef mask, LLVMValueRef a,
                                            LLVMValueRef b) {
    return e->api->LLVMBuildSelect(e->b, mask, a, b, "");
}
/** A cast instruction to a vector of `scalar` (of v's own width for LLVMBitCast). */
static inline LLVMValueRef jitc_emit_cast(jitc_emit *e, LLVMOpcode op, LLVMValueRef v,
                                          LLVMTypeRef scalar) {
    return e->api->LLVMBuildCast(e->b, op, v, jitc_emit_vector(e, scalar), "");
}
static inline LLVMValueRef jitc_emit_not(jitc_emit *e, LLVMValueRef v) {
    return e->api->LLVMBuildNot(e->b, v, "");
}
/** A mask as an integer that has a bit for each lane; that of lane 0 is the lowest. */
static inline LLVMValueRef jitc_emit_mask_bits(jitc_emit *e, LLVMValueRef mask) {
    LLVMTypeRef packed = e->api->LLVMIntTypeInContext(e->context, e->lanes);
    return e->api->LLVMBuildCast(e->b, LLVMBitCast, mask, packed, "");
}
/** The same as an i64. */
static inline LLVMValueRef jitc_emit_mask_bits64(jitc_emit *e, LLVMValueRef mask) {
    LLVMValueRef bits = jitc_emit_mask_bits(e, mask);
    return e->lanes < 64 ? e->api->LLVMBuildCast(e->b, LLVMZExt, bits, e->i64, "") : bits;
}

/* Blocks. */

static inline LLVMBasicBlockRef jitc_emit_block(jitc_emit *e, const char *name) {
    return e->api->LLVMAppendBasicBlockInContext(e->context, e->function, name);
}
/** The block in which the builder stands. */
static inline LLVMBasicBlockRef jitc_emit_here(const jitc_emit *e) {
    return e->api->LLVMGetInsertBlock(e->b);
}
/** Go on at the end of a block. */
static inline void jitc_emit_at(jitc_emit *e, LLVMBasicBlockRef block) {
    e->api->LLVMPositionBuilderAtEnd(e->b, block);
}
static inline void jitc_emit_jump(jitc_emit *e, LLVMBasicBlockRef to) {
    e->api->LLVMBuildBr(e->b, to);
}
static inline void jitc_emit_branch(jitc_emit *e, LLVMValueRef condition, LLVMBasicBlockRef yes,
                                    LLVMBasicBlockRef no) {
    e->api->LLVMBuildCondBr(e->b, condition, yes, no);
}

/** A math function (property INEXACT, form UNARY or BINARY) of f32 or f64 vectors, within 1 ULP:
 *  inlined, or a call of the vector library, or a loop over the lanes. math.c. */
LLVMValueRef jitc_emit_math(jitc_emit *e, jitc_op op, jit_dtype type, const LLVMValueRef *args);
/** How jitc_emit_math computes it: a name of math.def; NULL if it does not. For the documentation.
 */
const char *jitc_math_describe(jitc_op op, jit_dtype type, jitc_isa isa);
#endif
