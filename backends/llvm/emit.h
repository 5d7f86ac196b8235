/* emit.h: small words for building vector IR through the LLVM-C builder.
 * Layer: llvm.  May include: core, ir.
 *
 * All values of a kernel are vectors of `lanes` elements, whatever their type; the legaliser splits
 * and joins well. How types are represented:
 *   bool     <n x i1> in the kernel, one byte in memory      f16    <n x half> in memory order only:
 *   iN, uN   <n x iN>                                                values are <n x half>, arithmetic
 *   f32 f64  <n x float>, <n x double>                               is done on <n x float>
 *   bf16     <n x i16> (its bits)
 * Only forms that were tried on every supported LLVM are emitted: a selection failure ends the process.
 * Nothing here folds constants by hand; the builder does. */
#ifndef JITC_LLVM_EMIT_H
#define JITC_LLVM_EMIT_H
#include "ir/ir.h"
#include "llvm/api.h"

/** Instruction sets, by what code generation asks of them. */
typedef enum jitc_isa { JITC_ISA_V1, JITC_ISA_V2, JITC_ISA_V3, JITC_ISA_V4 } jitc_isa; /* x86-64-v1 ... v4 */

typedef struct jitc_emit {
    const jitc_llvm *api;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMValueRef function;
    LLVMBuilderRef b;
    jitc_isa isa;
    unsigned lanes;
    bool fast_math;
    LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr; /* scalar types */
} jitc_emit;

/** <lanes x scalar>. */
LLVMTypeRef jitc_emit_vector(jitc_emit *e, LLVMTypeRef scalar);
/** A constant in all lanes; `scalar` says which type. Cheap at level 0 too (a broadcast load from a
 *  constant of one element where that is quicker than a constant vector). */
LLVMValueRef jitc_emit_int(jitc_emit *e, LLVMTypeRef scalar, uint64_t value);
LLVMValueRef jitc_emit_real(jitc_emit *e, LLVMTypeRef scalar, double value);
/** Call an intrinsic by name, overloaded on the types given (up to 2; NULL none). */
LLVMValueRef jitc_emit_intrinsic(jitc_emit *e, const char *name, LLVMTypeRef overload,
                                 unsigned count, LLVMValueRef *args);
/** Call an external function of the runtime's symbol table (symbols.h): the loader resolves it. */
LLVMValueRef jitc_emit_call(jitc_emit *e, const char *symbol, LLVMTypeRef result, unsigned count,
                            LLVMValueRef *args);
/** fma(a, b, c) in one rounding (needs v3; below, a call). f32 or f64 vectors. */
LLVMValueRef jitc_emit_fma(jitc_emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);

/** A math function (property INEXACT, form UNARY or BINARY) of f32 or f64 vectors, within 1 ULP: inlined, or a call
 *  of the vector library, or a loop over the lanes. math.c. */
LLVMValueRef jitc_emit_math(jitc_emit *e, jitc_op op, jit_dtype type, const LLVMValueRef *args);
#endif
