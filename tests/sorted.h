/* sorted.h: arrays to sort, and what it means that they are sorted.  Layer: tests. */
#ifndef JITC_TESTS_SORTED_H
#define JITC_TESTS_SORTED_H
#include "programs.h"

typedef enum input { RANDOM, EQUAL, ASCENDING, DESCENDING, EDGES, FEW, INPUTS } input;

void sorted_fill(jit_dtype t, void *array, uint64_t n, input kind);

typedef struct sorted {
    jit_dtype type;
    bool descending;
    const void *from, *to;   /* n elements: as they were, and in order */
    const uint32_t *numbers; /* where each of `to` was; or NULL */
    uint64_t n;
} sorted;

/** Fails the test unless the elements are in order (floats by totalOrder), each came once, and,
 * with numbers, equal ones stayed in their order. */
void sorted_check(const sorted *s);
#endif
