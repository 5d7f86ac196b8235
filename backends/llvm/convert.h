/* convert.h: values from one element type to another.  Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_CONVERT_H
#define JITC_LLVM_CONVERT_H
#include "llvm/emit.h"

/** A float value as f32 (f16, bf16; f32 unchanged) and back, rounded to nearest even. */
LLVMValueRef jitc_emit_widen(jitc_emit *e, jit_dtype type, LLVMValueRef v);
LLVMValueRef jitc_emit_narrow(jitc_emit *e, jit_dtype type, LLVMValueRef v);
/** An f64 vector to any float type in one rounding. */
LLVMValueRef jitc_emit_narrow_double(jitc_emit *e, jit_dtype type, LLVMValueRef v);
/** The operations `cast` and `bitcast`. */
LLVMValueRef jitc_emit_conversion(jitc_emit *e, jit_dtype from, jit_dtype to, LLVMValueRef v);
LLVMValueRef jitc_emit_bitcast(jitc_emit *e, jit_dtype from, jit_dtype to, LLVMValueRef v);
/** An integer vector to <n x scalar integer>, by its sign or zeros, or cut. */
LLVMValueRef jitc_emit_resize(jitc_emit *e, jit_dtype from, LLVMTypeRef scalar, unsigned bits,
                              LLVMValueRef v);
#endif
