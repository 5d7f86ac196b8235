/* slots.h: partial results, one in the low bytes of each 64-bit word.
 * Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_SLOTS_H
#define JITC_LLVM_SLOTS_H
#include "ir/ir.h"

/** a combined with b, which have the type in which elements are combined (accumulate.h). */
uint64_t jitc_slot_combine(jit_reduce_op op, jit_dtype sum, uint64_t a, uint64_t b);
/** Every `stride`-th of the slots, `count` of them: neighbours combined, then neighbours of those,
 * ... The slots are overwritten. */
uint64_t jitc_slots_total(jit_reduce_op op, jit_dtype sum, uint64_t *slots, uint64_t count,
                          uint64_t stride);
/** Write a result as element number `at` of an array of elements of type `type`. */
void jitc_slot_store(jit_dtype type, uint64_t slot, void *array, uint64_t at);
#endif
