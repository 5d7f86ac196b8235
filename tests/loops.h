/* loops.h: random programs with loops and branches, for the tests of backends. */
#ifndef JITC_TESTS_LOOPS_H
#define JITC_TESTS_LOOPS_H
#include "programs.h"

/** Loops: built in the order in which they stand in a program. */
uint32_t add_loop(jitc_program *p, bool once);
uint32_t add_phi(jitc_program *p, uint32_t start, uint32_t loop, uint32_t number);
void add_test(jitc_program *p, uint32_t condition, uint32_t loop);
void add_next(jitc_program *p, uint32_t phi, uint32_t value);
void add_end(jitc_program *p, uint32_t loop);

enum { LOOP_INPUTS = 8, LOOP_OUTPUTS = 6, LOOP_SUMS = 50 };

/** The arrays of a random program. */
typedef struct loop_arrays {
    uint64_t lanes;
    void *in[LOOP_INPUTS];    /* filled, of `lanes` elements and the padding */
    void *out[LOOP_OUTPUTS];  /* likewise; the last one is scattered into */
    uint32_t sums[LOOP_SUMS]; /* of programs with SCRATCH: scatter_reduce adds to it */
    jitc_bounds_report report;
} loop_arrays;

void loop_arrays_init(loop_arrays *a, uint64_t lanes, uint64_t seed);
void loop_arrays_finish(loop_arrays *a);
/** A program of loops and branches in each other, with accesses by index inside, all bounded. The
 * same for the same seed. `params`: room for 256. */
void loop_program(jitc_program *p, const loop_arrays *a, uint64_t seed, uint64_t *params);
#endif
