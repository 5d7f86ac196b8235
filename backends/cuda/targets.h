/* targets.h: kernels that combine values into elements of arrays: how they are laid out and
 * launched.  Layer: cuda.  May include: core, ir.
 *
 * Small arrays are combined into copies of them in the memory of each block, which are combined
 * with the array at the end; large ones where they are. Which, the launch decides by their sizes.
 */
#ifndef JITC_CUDA_TARGETS_H
#define JITC_CUDA_TARGETS_H
#include "ir/program.h"

enum { JITC_CUDA_TARGETS = 16, JITC_CUDA_COLUMNS = 32 };
/** Of each block's memory, the driver's. */
enum { JITC_CUDA_RESERVED_BYTES = 1 << 10 };

/** Where a target is combined: two bits of the second hidden parameter. */
enum {
    JITC_CUDA_IN_PLACE = 0,
    JITC_CUDA_IN_BLOCK = 1,
    JITC_CUDA_IN_COLUMNS = 2 /* in the block, in a copy for each lane of a warp */
};

/** The target of a scatter_reduce that may be combined in blocks. */
typedef struct jitc_cuda_target {
    uint32_t size; /* the parameter with its number of elements */
    uint8_t bytes; /* of an element in the block */
    bool direct;   /* there are instructions for it in a block's memory: collisions are no matter */
} jitc_cuda_target;

/** A pure function of the program. */
typedef struct jitc_cuda_targets {
    uint32_t rows;    /* lanes that a thread computes at once; 0: no scatter_reduce */
    uint32_t scratch; /* the first of the hidden parameters */
    uint32_t count;
    jitc_cuda_target target[JITC_CUDA_TARGETS];
} jitc_cuda_targets;

jitc_cuda_targets jitc_cuda_targets_of(const jitc_program *p);
/** Which of them scatter_reduce `inst` has; JITC_CUDA_TARGETS: none. */
uint32_t jitc_cuda_target_of(const jitc_program *p, uint32_t inst);
/** Is there an instruction for it in a block's memory, for elements of 32 bits? */
bool jitc_cuda_is_direct(jit_reduce_op op, jit_dtype t);

/** What a kernel may have. */
typedef struct jitc_cuda_room {
    uint32_t multiprocessors;
    uint32_t block_bytes, all_bytes; /* of a block's memory, of that of a multiprocessor */
    uint32_t threads[2];             /* of a multiprocessor, with small and with large blocks; 0: */
} jitc_cuda_room;                    /* such do not run */

/** The threads of those blocks. */
enum { JITC_CUDA_SMALL_BLOCK = 512, JITC_CUDA_LARGE_BLOCK = 1024 };

typedef struct jitc_cuda_targets_plan {
    uint64_t blocks;
    uint32_t block;  /* threads */
    uint32_t bytes;  /* of a block's memory */
    uint32_t places; /* JITC_CUDA_IN_... of each target */
} jitc_cuda_targets_plan;

/** One launch. `block`: threads of blocks where nothing is combined in them. */
jitc_cuda_targets_plan jitc_cuda_plan_targets(const jitc_cuda_targets *t, uint64_t lanes,
                                              const uint64_t *params, const jitc_cuda_room *room,
                                              uint32_t block);
#endif
