/* shape.h: launching programs whose shape combines lanes.  Layer: llvm.  May include: core, ir.
 *
 * A launch is one task of a queue, as any other. What its blocks have computed is put together by
 * the thread that ends the last one (REDUCE, BLOCK_REDUCE), or handed from block to block, in order
 * (SCAN, COMPRESS). Results are the same bits for any number of threads. */
#ifndef JITC_LLVM_SHAPE_H
#define JITC_LLVM_SHAPE_H
#include "ir/program.h"
#include "llvm/accumulate.h"
#include "llvm/numbers.h"
#include "llvm/workers.h"

/** What a launch has to know of a program. */
typedef struct jitc_shape_plan {
    jitc_shape shape;
    uint32_t scratch;    /* the first of the parameters for the backend */
    jitc_combining *all; /* REDUCE, BLOCK_REDUCE, SCAN */
    uint32_t count;
    uint32_t lanes; /* BLOCK_REDUCE: the parameter with the lanes of a block */
    bool reverse, exclusive;
    bool stores;     /* SCAN: jitc_scan_stores() */
    jitc_inst found; /* COMPRESS: the instruction */
    const jitc_numbers *numbers;
} jitc_shape_plan;

/** JIT_OUT_OF_MEMORY. */
jit_status jitc_shape_init(const jitc_program *p, bool avx512, jitc_shape_plan *out);
void jitc_shape_finish(jitc_shape_plan *s);
/** Does the shape need what is below, or is a launch a task like any other? */
static inline bool jitc_shape_combines(const jitc_shape_plan *s) {
    return s->shape >= JITC_SHAPE_REDUCE && s->shape <= JITC_SHAPE_COMPRESS;
}
/** The backend's slot. */
size_t jitc_shape_scratch(const jitc_shape_plan *s, uint64_t lanes);
/** Queue the task that runs `t`: a kernel (its function takes what combine.h says), lanes, lanes of
 * a block, cost, parameters. The plan lives until the task has ended. JIT_OUT_OF_MEMORY. */
jit_status jitc_shape_launch(const jitc_shape_plan *s, jitc_queue *q, int threads,
                             const jitc_task *t, uint64_t *number);
#endif
