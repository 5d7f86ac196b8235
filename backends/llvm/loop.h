/* loop.h: loops and branches of a program.  Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_LOOP_H
#define JITC_LLVM_LOOP_H
#include "llvm/builder.h"

/** A loop of which the end has not been emitted yet. */
struct jitc_open_loop {
    uint32_t inst;                         /* the `loop` */
    LLVMBasicBlockRef head;                /* NULL: a branch */
    LLVMBasicBlockRef tested, exit;        /* where it is left, and where that leads */
    LLVMValueRef entered[JITC_MAX_UNROLL]; /* lanes at the head */
    LLVMValueRef active[JITC_MAX_UNROLL];  /* lanes that run: from the test on, that stay */
    const LLVMValueRef *outer;             /* k->active outside */
    /* A state that all active lanes count in step, and what the test compares it with; 0: none. */
    uint32_t counted, step, compare;
    LLVMValueRef counter; /* the same, as a scalar */
};

/** Emit instruction number `n` if it is one of a loop's: loop, phi, test, next, end. */
bool jitc_build_control(jitc_builder *k, uint32_t n);
/** How many loops a program has. */
uint32_t jitc_loop_count(const jitc_program *p);
/** For how many vectors side by side there are registers. */
unsigned jitc_loop_unroll(const jitc_program *p, const jitc_kernel_target *target);
/** The number of the instruction that ends a loop. */
uint32_t jitc_loop_end(const jitc_program *p, uint32_t loop);
#endif
