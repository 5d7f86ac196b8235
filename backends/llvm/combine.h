/* combine.h: code of programs whose shape combines lanes.  Layer: llvm.  May include: core, ir.
 *
 *   void kernel(uint64_t begin, uint64_t end, const uint64_t *params, uint64_t step, uint64_t slot)
 *
 * combines lanes begin ... end-1 of a REDUCE, BLOCK_REDUCE (reduce.h) or SCAN (scan.h). What it
 * gives is put together by shape.c. A COMPRESS has the usual arguments: its kernel leaves a bit for
 * each lane at the address that the second parameter of SCRATCH has, and nothing else. */
#ifndef JITC_LLVM_COMBINE_H
#define JITC_LLVM_COMBINE_H
#include "llvm/builder.h"

static inline bool jitc_combines(const jitc_program *p) {
    return p->head.shape == JITC_SHAPE_REDUCE || p->head.shape == JITC_SHAPE_BLOCK_REDUCE ||
           p->head.shape == JITC_SHAPE_SCAN;
}
/** Behind the entry; *exit: where the code goes on. JIT_OUT_OF_MEMORY. */
jit_status jitc_build_combining(jitc_builder *k, LLVMBasicBlockRef *exit);
/** COMPRESS: the bits of vector number `u`, which starts at lane `first`. */
void jitc_build_bits(jitc_builder *k, uint32_t inst, LLVMValueRef first, unsigned u);
#endif
