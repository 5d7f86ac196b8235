/* sort.h: sorting: its kernels, their memory and launches.  Layer: cuda.  May include: core, ir.
 *
 * A radix sort from the last byte to the first, each pass stable. Its kernels are in one text
 * (text_sort.c) and launched one behind the other:
 *
 *   clear   counters and sums to 0
 *   count   how often each byte of the elements has each value; the second hidden parameter: in how
 *           many columns (the binary logarithm), of which the lanes of a warp have one each, since
 *           a bank of a block's memory serves one of them at a time
 *   begin   where the elements of each value begin, for each byte
 *   pass    once for each byte, which the second hidden parameter says: elements to their places.
 *           A block has a tile of consecutive elements, in the order of a counter, and learns from
 *           the tiles in front of it how many elements of each value they have ("Onesweep",
 *           Adinets and Merrill, 2022)
 *
 * What a block has room for twice is sorted by one, in one launch:
 *
 *   small   all passes, in memory of the block
 *
 * Scratch memory: for each byte, how many elements have each value, which become places (u64), and
 * a counter of tiles; for each tile, how many elements of each value it has, or it and all before
 * it have; then room for the elements and numbers of every other pass. */
#ifndef JITC_CUDA_SORT_H
#define JITC_CUDA_SORT_H
#include "cuda/targets.h"

typedef enum jitc_cuda_sort_kernel {
    JITC_CUDA_SORT_CLEAR,
    JITC_CUDA_SORT_COUNT,
    JITC_CUDA_SORT_BEGIN,
    JITC_CUDA_SORT_PASS,
    JITC_CUDA_SORT_SMALL,
    JITC_CUDA_SORT_KERNELS
} jitc_cuda_sort_kernel;

enum {
    JITC_CUDA_SORT_THREADS = 384,   /* of a block of `pass` and `small` */
    JITC_CUDA_SORT_COUNTERS = 1024, /* of `count` */
    JITC_CUDA_SORT_LAUNCHES = JITC_CUDA_SORT_PASS + 8
};

/** What stands behind the name of the text for each: "_clear", ... */
extern const char *const jitc_cuda_sort_suffixes[JITC_CUDA_SORT_KERNELS];

/** A pure function of the program. */
typedef struct jitc_cuda_sort_shape {
    uint32_t passes;
    uint32_t items;       /* elements of a thread of `pass`; even */
    uint32_t resident;    /* blocks of `pass` that a multiprocessor is to have at once */
    uint32_t key, number; /* bytes of an element, and of its number; 0: no numbers */
} jitc_cuda_sort_shape;

jitc_cuda_sort_shape jitc_cuda_sort_shape_of(const jitc_program *p);
/** The instruction. */
const jitc_inst *jitc_cuda_sort_of(const jitc_program *p);
/** u64 of counts, and of the counters of tiles behind them. */
uint32_t jitc_cuda_sort_counts(const jitc_cuda_sort_shape *s);
/** u64 that the elements of a tile, or their numbers, take in a block's memory. */
uint32_t jitc_cuda_sort_room(const jitc_cuda_sort_shape *s);
/** How many elements `small` sorts, at most. */
uint32_t jitc_cuda_sort_small(const jitc_cuda_sort_shape *s);
/** Bytes of scratch memory for n elements. */
size_t jitc_cuda_sort_scratch(const jitc_cuda_sort_shape *s, uint64_t n);

typedef struct jitc_cuda_sort_launch {
    jitc_cuda_sort_kernel kernel;
    uint64_t blocks;
    unsigned threads, bytes; /* of a block, and of its memory */
    uint64_t word;           /* the second hidden parameter */
} jitc_cuda_sort_launch;

/** The launches for n elements, of which there is one or more; how many. */
unsigned jitc_cuda_plan_sort(const jitc_cuda_sort_shape *s, uint64_t n, const jitc_cuda_room *room,
                             jitc_cuda_sort_launch out[JITC_CUDA_SORT_LAUNCHES]);
#endif
