/* scan.h: code for prefix sums.  Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_SCAN_H
#define JITC_LLVM_SCAN_H
#include "llvm/accumulate.h"

/** What the code of a SCAN does in one call, by its argument `step`; any other value: the totals of
 * the chunks from begin to end, which go to slots from `slot` on. */
enum { JITC_SCAN_ONLY, JITC_SCAN_TOTAL };

/** Is the program so dear that its values are stored while they are summed, and read again by the
 * scan, instead of being computed twice? */
bool jitc_scan_stores(const jitc_program *p);
/** Slots of a chunk: what comes before it, and where its total goes. */
static inline uint64_t jitc_scan_slot(uint64_t chunk, bool reverse, bool total) {
    return chunk + (reverse != total);
}
/** Emitted behind the entry; *exit: where the code goes on. JIT_OUT_OF_MEMORY. */
jit_status jitc_build_scan(jitc_builder *k, LLVMBasicBlockRef *exit);
#endif
