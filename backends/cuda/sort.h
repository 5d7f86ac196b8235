/* sort.h: sorting: its kernels, their memory and launches.  Layer: cuda.  May include: core, ir.
 *
 * A radix sort from the last byte to the first, each pass stable. Four kernels in one text
 * (text_sort.c), which are launched one behind the other:
 *
 *   clear   counters and sums to 0
 *   count   how often each byte of the elements has each value
 *   begin   where the elements of each value begin, for each byte
 *   pass    once for each byte, which the second hidden parameter says: elements to their places.
 *           A block has a tile of consecutive elements, in the order of a counter, and learns from
 *           the tiles in front of it how many elements of each value they have ("Onesweep",
 *           Adinets and Merrill, 2022)
 *
 * Scratch memory: for each byte, how many elements have each value, which become places (u64), and
 * a counter of tiles; for each tile, how many elements of each value it has, or it and all before
 * it have; then room for the elements and numbers of every other pass. */
#ifndef JITC_CUDA_SORT_H
#define JITC_CUDA_SORT_H
#include "ir/program.h"

typedef enum jitc_cuda_sort_kernel {
    JITC_CUDA_SORT_CLEAR,
    JITC_CUDA_SORT_COUNT,
    JITC_CUDA_SORT_BEGIN,
    JITC_CUDA_SORT_PASS,
    JITC_CUDA_SORT_KERNELS
} jitc_cuda_sort_kernel;

/** What stands behind the name of the text for each: "_clear", ... */
extern const char *const jitc_cuda_sort_suffixes[JITC_CUDA_SORT_KERNELS];

/** A pure function of the program. */
typedef struct jitc_cuda_sort_shape {
    uint32_t passes;
    uint32_t threads, items; /* of a block of `pass`; elements of a thread */
    uint32_t key, number;    /* bytes of an element, and of its number; 0: no numbers */
} jitc_cuda_sort_shape;

jitc_cuda_sort_shape jitc_cuda_sort_shape_of(const jitc_program *p);
/** The instruction. */
const jitc_inst *jitc_cuda_sort_of(const jitc_program *p);
/** u64 of counts, and of the counters of tiles behind them. */
uint32_t jitc_cuda_sort_counts(const jitc_cuda_sort_shape *s);
/** Bytes of scratch memory for n elements. */
size_t jitc_cuda_sort_scratch(const jitc_cuda_sort_shape *s, uint64_t n);
/** Blocks and threads of a kernel. */
typedef struct jitc_cuda_sort_grid {
    uint64_t blocks;
    unsigned threads;
} jitc_cuda_sort_grid;
jitc_cuda_sort_grid jitc_cuda_sort_grid_of(const jitc_cuda_sort_shape *s,
                                           jitc_cuda_sort_kernel kernel, uint64_t n,
                                           unsigned multiprocessors);
#endif
