/* sort.h: sorting an array.  Layer: llvm.  May include: core, ir.  (Knows nothing of LLVM.)
 *
 * A radix sort from the last digit to the first, each pass stable, so the whole is. Digits are
 * bytes; those that all elements share take no pass. */
#ifndef JITC_LLVM_SORT_H
#define JITC_LLVM_SORT_H
#include "ir/program.h"
#include "llvm/workers.h"

/** What a `sort` instruction asks for. */
typedef struct jitc_sort {
    jit_dtype type;
    bool descending;
    const void *from; /* n elements */
    void *to;         /* n elements, elsewhere */
    void *numbers;    /* NULL, or where the numbers of the elements go: u32, u64 if n > 2^32 */
    uint64_t n;
    void *scratch;
} jitc_sort;

/** What a launch has to know of a program. */
typedef struct jitc_sort_plan {
    bool sorts; /* its shape is SORT */
    jitc_inst sort;
    uint32_t from, scratch; /* parameters */
} jitc_sort_plan;
jitc_sort_plan jitc_sort_plan_of(const jitc_program *p);
/** A launch of such a program; as jitc_queue_launch(). */
jit_status jitc_sort_launch_plan(const jitc_sort_plan *p, jitc_queue *q, int threads,
                                 const jitc_task *t, uint64_t *number);

/** Bytes of scratch memory for n elements, with or without their numbers, on a pool of so many
 * threads. */
size_t jitc_sort_scratch(jit_dtype type, bool numbers, uint64_t n, int threads);
/** Queue it; as jitc_queue_launch(). Part of it may be queued when that fails: nothing depends on
 * what it writes then. */
jit_status jitc_sort_launch(jitc_queue *q, const jitc_sort *s, int threads, uint64_t *number);
#endif
