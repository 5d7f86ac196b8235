/* operation.h: elementwise operations as vector code, one function a row of ops.def's LLVM column.
 * Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_OPERATION_H
#define JITC_LLVM_OPERATION_H
#include "llvm/emit.h"

/** An operation and its operands. */
typedef struct jitc_operation {
    jitc_op op;
    jit_dtype type; /* of the operands (select: of b and c) */
    jit_dtype to;   /* of the result */
    LLVMValueRef v[3];
    bool baked; /* the second operand is a literal of this program: its bits are */
    uint64_t bits;
} jitc_operation;

typedef LLVMValueRef (*jitc_emitter)(jitc_emit *e, const jitc_operation *o);

/** Emit one operation of form UNARY, BINARY, TERNARY, SELECT or CAST. */
LLVMValueRef jitc_emit_operation(jitc_emit *e, const jitc_operation *o);

/* The names in the column; `none` stands for what kernel.c does itself. */
/* clang-format off */
#define JITC_EMITTERS(X)                                                                           \
    X(neg) X(abs) X(not) X(popc) X(clz) X(ctz) X(brev) X(add) X(sub) X(mul) X(div) X(mod)          \
    X(mul_hi) X(shl) X(shr) X(bits) X(compare) X(sqrt) X(rcp) X(rsqrt) X(rounding) X(math)         \
    X(least) X(least_number) X(copysign) X(fma) X(select) X(cast) X(bitcast)
/* clang-format on */
#define X(name) LLVMValueRef jitc_emit_op_##name(jitc_emit *e, const jitc_operation *o);
JITC_EMITTERS(X)
#undef X
#endif
