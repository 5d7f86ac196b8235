/* kernel.h: a program as an LLVM module.  Layer: llvm.  May include: core, ir.
 *
 *   void kernel(uint64_t begin, uint64_t end, const uint64_t *params)
 *
 * runs lanes begin ... end-1; begin is a multiple of 64. Unless the program says TAIL, whole
 * vectors are read and written beyond `end`, up to the next multiple of 64 lanes. Programs that
 * combine lanes have further arguments: combine.h. */
#ifndef JITC_LLVM_KERNEL_H
#define JITC_LLVM_KERNEL_H
#include "ir/program.h"
#include "llvm/emit.h"

#define JITC_KERNEL_ENTRY "kernel"

/** What the code of a program depends on besides the program. */
typedef struct jitc_kernel_target {
    jitc_isa isa;
    unsigned lanes;
    int level; /* of code generation: quick code is kept small */
} jitc_kernel_target;

/** Build the function in `module`, a new one of `context`. JIT_OUT_OF_MEMORY. */
jit_status jitc_kernel_build(const jitc_llvm *api, LLVMContextRef context, LLVMModuleRef module,
                             const jitc_kernel_target *target, const jitc_program *p);
#endif
