/* builder.h: what the files that build a kernel share.  Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_BUILDER_H
#define JITC_LLVM_BUILDER_H
#include "ir/program.h"
#include "llvm/kernel.h"
#include "llvm/literals.h"
#include "llvm/memory.h"

enum {
    JITC_MAX_UNROLL = 4,
    JITC_UPDATE_MOST_COPIES = 8 /* of an array that is updated: see scatter_reduce.h */
};

typedef struct jitc_open_loop jitc_open_loop;

/** A kernel being built. The code of one instruction is emitted for all vectors of an iteration
 * before that of the next one. */
typedef struct jitc_builder {
    jitc_emit e;
    const jitc_program *p;
    int level;
    unsigned unroll;        /* vectors of an iteration of the loop over lanes being built */
    LLVMValueRef *values;   /* JITC_MAX_UNROLL for each instruction */
    LLVMValueRef *pointers; /* of each parameter, loaded in the entry block; NULL: not one */
    LLVMValueRef begin, end, params;
    LLVMValueRef step, slot; /* programs that combine lanes (combine.h) */
    jitc_literals literals;
    LLVMValueRef position; /* i64: the first lane of the first vector */
    const jitc_tail *tail; /* of each vector of the iteration; NULL: all lanes exist */
    bool mask_memory;      /* with a tail: arrays end at the last lane */
    unsigned ahead;        /* bytes between what is loaded and what is asked for; 0: nothing is */
    bool *early;           /* of each instruction: it was computed in the entry block */
    jitc_open_loop *loops; /* of the program, of which `depth` are open (loop.c) */
    uint32_t depth;
    const LLVMValueRef *active; /* in a loop: of each vector, the lanes that run */
    /* How elements are updated (scatter_reduce.c): i64, <n x i64>; i64: where each copy lies, from
     * the first on. */
    LLVMValueRef shared, spread, copy[JITC_UPDATE_MOST_COPIES];
} jitc_builder;

/** The values of an instruction, one for each vector. */
static inline LLVMValueRef *jitc_build_value(jitc_builder *k, uint32_t inst) {
    return k->values + (size_t) inst * JITC_MAX_UNROLL;
}
/** An i64. */
static inline LLVMValueRef jitc_build_constant(jitc_builder *k, uint64_t v) {
    return k->e.api->LLVMConstInt(k->e.i64, v, 0);
}
static inline LLVMValueRef jitc_build_pointer(jitc_builder *k, LLVMTypeRef element,
                                              LLVMValueRef base, LLVMValueRef index) {
    return k->e.api->LLVMBuildGEP2(k->e.b, element, base, &index, 1, "");
}
/** Load a parameter. */
static inline LLVMValueRef jitc_build_param(jitc_builder *k, uint32_t index, LLVMTypeRef type) {
    LLVMValueRef at = jitc_build_pointer(k, k->e.i64, k->params, jitc_build_constant(k, index));
    return k->e.api->LLVMBuildLoad2(k->e.b, type, at, "");
}
/** The lanes of vector number `u` that run; NULL: all of them. */
static inline LLVMValueRef jitc_build_active(const jitc_builder *k, unsigned u) {
    return k->active ? k->active[u] : k->tail ? k->tail[u].mask : NULL;
}

/** Make an operand's value where the builder stands: literals once for all vectors. */
void jitc_build_operand(jitc_builder *k, uint32_t inst);
/** An access of instruction number `inst` to buffer `buffer` at `index`, which may be masked, by
 * the lanes that run. */
jitc_lane_access jitc_build_access(jitc_builder *k, uint32_t inst, uint32_t buffer, uint32_t index,
                                   unsigned u);
/** Where vector number `u` of the array of a parameter lies. */
LLVMValueRef jitc_build_vector_pointer(jitc_builder *k, jit_dtype type, uint32_t parameter,
                                       unsigned u);
/** Elements of vector number `u` to an output, and from one. */
void jitc_build_store(jitc_builder *k, jit_dtype type, uint32_t parameter, LLVMValueRef v,
                      unsigned u);
LLVMValueRef jitc_build_load(jitc_builder *k, jit_dtype type, uint32_t parameter, unsigned u);
/** The lanes that exist of a vector of which `rest` lanes do, or more than it has. */
jitc_tail jitc_build_tail(jitc_builder *k, LLVMValueRef rest);
/** The instructions of one iteration, from k->position on. May end the block and begin others. */
void jitc_build_body(jitc_builder *k);
#endif
