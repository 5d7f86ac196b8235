/* scatter_reduce.h: values combined into elements of arrays.  Layer: llvm.
 * May include: core, ir.
 *
 * The code obeys the two parameters behind that of the scratch memory (head.scratch):
 *   + 1   how: JITC_UPDATE_...; 0: one thread updates the arrays
 *   + 2   bytes from one copy of the arrays to the next */
#ifndef JITC_LLVM_SCATTER_REDUCE_H
#define JITC_LLVM_SCATTER_REDUCE_H
#include "llvm/builder.h"

enum { JITC_UPDATE_SHARED = 1 /* several threads update the same elements */ };
/** There are so many copies, a power of two up to JITC_UPDATE_MOST_COPIES: lane n of a vector
 * updates number n modulo that. */
#define JITC_UPDATE_COPIES(copies) (((copies) - 1) << 8)

bool jitc_has_scatter_reduce(const jitc_program *p);
/** In the entry block, before the others. Nothing for programs without scatter_reduce. */
void jitc_build_scatter_reduce_begin(jitc_builder *k);
/** Instruction number `inst`, a scatter_reduce, for vector `u`. What was there before with PART (0
 * in lanes that update nothing), else NULL. */
LLVMValueRef jitc_build_scatter_reduce(jitc_builder *k, uint32_t inst, unsigned u);
#endif
