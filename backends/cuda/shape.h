/* shape.h: kernels that combine lanes: how they are laid out and launched.
 * Layer: cuda.  May include: core, ir.
 *
 * Their blocks have a size that the text knows. A kernel works over tiles of consecutive lanes,
 * whose size depends on nothing but what is combined: so do the order of additions, and every bit
 * of a sum.
 *
 *   REDUCE        tiles in turn, by as many blocks as there are tiles, at most 512 or a 64th of
 *                 them; the block that ends last combines what the blocks have found, in their
 *                 order
 *   BLOCK_REDUCE  a team for each block of lanes: 1 to 32 threads, or all of a block, or several
 *                 blocks, of which the one that ends last combines what they have found
 *   SCAN          a block for each tile, in the order of a counter; it looks back on the sums of
 *   COMPRESS      the tiles before it, which are 32 of 32 of 32: text_look.c
 *   SORT          several kernels: sort.h */
#ifndef JITC_CUDA_SHAPE_H
#define JITC_CUDA_SHAPE_H
#include "cuda/sort.h"

enum {
    JITC_CUDA_REDUCE_THREADS = 512,
    JITC_CUDA_REDUCE_ROWS = 4, /* vectors of a thread in a tile */
    JITC_CUDA_TEAM_LOG = 8,
    JITC_CUDA_TEAM_THREADS = 1 << JITC_CUDA_TEAM_LOG,
    JITC_CUDA_TEAM_ROWS = 8,
    JITC_CUDA_SCAN_THREADS = 256,
    JITC_CUDA_SCAN_ROWS = 8,
    JITC_CUDA_COMPRESS_TILE = 16384,
    JITC_CUDA_LOOK_LEVELS = 4, /* of sums that are looked back on */
    JITC_CUDA_LOOK_FIRST = 32  /* u64 in front of them, the first of which counts tiles */
};

/** A pure function of the program. */
typedef struct jitc_cuda_shape {
    jitc_shape kind;  /* MAP: nothing else counts */
    uint32_t scratch; /* the first of its hidden parameters */
    uint32_t results; /* of REDUCE, BLOCK_REDUCE */
    uint32_t length;  /* BLOCK_REDUCE: the parameter with the lanes of a block */
    uint32_t threads; /* of a block */
    uint32_t lanes;   /* in a vector; 1: no vectors, memory is accessed element by element */
    uint64_t tile;    /* lanes */
    uint32_t words;   /* u64 for a sum of a tile */
    jitc_cuda_sort_shape sort;
} jitc_cuda_shape;

jitc_cuda_shape jitc_cuda_shape_of(const jitc_program *p);

/** One launch. */
typedef struct jitc_cuda_plan {
    uint64_t blocks;
    uint64_t mode;  /* the third hidden parameter */
    size_t tickets; /* counters of 32 bits that are 0 before and after it */
    size_t sums;    /* u64 that nothing else writes, and that were once 0 */
} jitc_cuda_plan;

jitc_cuda_plan jitc_cuda_plan_of(const jitc_cuda_shape *s, uint64_t lanes, const uint64_t *params,
                                 unsigned multiprocessors);
/** Bytes of scratch memory. */
size_t jitc_cuda_scratch_of(const jitc_cuda_shape *s, uint64_t lanes);
#endif
