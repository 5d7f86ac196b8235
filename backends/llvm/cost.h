/* cost.h: what a kernel costs, estimated from its program.  Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_COST_H
#define JITC_LLVM_COST_H
#include "ir/program.h"

/** Nanoseconds for one lane on one thread, roughly: data in the second-level cache. */
double jitc_cost_estimate(const jitc_program *p, unsigned native_bytes);
/** What the values of a program cost a lane, in additions: without loads, stores, and combining. */
double jitc_cost_of_values(const jitc_program *p);
/** Nanoseconds as a number of additions of f32. */
uint32_t jitc_cost_operations(double ns_per_lane, unsigned native_bytes);
/** Lanes of a block of a launch: 64 at least, a multiple of 64. */
uint64_t jitc_cost_block(double ns_per_lane, uint64_t lanes, int threads);
/** The same where loops make some lanes dear, and nobody knows which: `block`, or less. */
uint64_t jitc_cost_loop_block(uint64_t block, uint64_t lanes, int threads);
#endif
