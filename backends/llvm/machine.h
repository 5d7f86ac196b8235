/* machine.h: what the processor and the system offer.  Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_MACHINE_H
#define JITC_LLVM_MACHINE_H
#include "llvm/emit.h"

/** The greatest instruction set that the processor has, or a lesser one that `wanted` names
 * ("x86-64", "x86-64-v2", ...; empty: none). JIT_INVALID_ARGUMENT if there is no such name;
 * JIT_UNAVAILABLE if the processor does not have it. */
jit_status jitc_machine_isa(const char *wanted, jitc_isa *out);
/** "x86-64-v3". */
const char *jitc_machine_isa_name(jitc_isa isa);
/** Processors that this process may use: its affinity, cut by the quota of its control group. */
int jitc_machine_cores(void);
/** Bytes of memory that this process may use at most: what the system has, swap included, cut by
 * the limit of its control group. */
uint64_t jitc_machine_memory(void);
#endif
