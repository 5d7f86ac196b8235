/* reduce.h: code that combines the lanes of ranges.  Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_REDUCE_H
#define JITC_LLVM_REDUCE_H
#include "llvm/accumulate.h"

/** Ranges of so many lanes at most are cut into short blocks, of JITC_SHORT_BLOCK lanes at most.
 * They are kept from the start of the first group of lanes to the end of the last. */
enum { JITC_SHORT_BLOCK = 32, JITC_BLOCKS_LANES = 512, JITC_BLOCKS_ROOM = 1024 };

typedef struct jitc_reduce_code {
    const jitc_combining *all;
    unsigned count;
    uint32_t lanes; /* BLOCK_REDUCE: the parameter with the length of a block */
    bool partial;   /* results always go to `partials` */
    bool whole;     /* ranges are whole chunks */
    bool store;     /* values are also stored to the output */
} jitc_reduce_code;

/** Combine the lanes of ranges of k->step lanes from k->begin on, which, unless this is a
 * BLOCK_REDUCE, is a multiple of a chunk. Emitted behind the entry; *exit: where the code goes on.
 * Results of the first range have number k->slot. They go to the address that the second parameter
 * of SCRATCH has, 8 bytes each, those of a range side by side; if that is 0, to the outputs.
 * JIT_OUT_OF_MEMORY. */
jit_status jitc_build_reduce(jitc_builder *k, const jitc_reduce_code *code,
                             LLVMBasicBlockRef *exit);
#endif
