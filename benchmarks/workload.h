/* workload.h: the computations of bench_throughput.c, once for tracing libraries and once by hand.
 * Layer: benchmarks. May include: nothing of the library. */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H
#include "engine.h"

enum { WORKLOAD_INPUTS = 3, WORKLOAD_MOST_VARIABLES = 64 };

/* The variables of one evaluation, released together. */
typedef struct workload_tape {
    const engine *engine;
    const engine_var *inputs; /* borrowed */
    engine_var index;         /* borrowed */
    size_t count;
    engine_var made[WORKLOAD_MOST_VARIABLES];
} workload_tape;

typedef struct workload_arrays {
    size_t n;
    float *inputs[WORKLOAD_INPUTS], *output;
    uint32_t *index;
} workload_arrays;

typedef struct workload {
    const char *name; /* also that of peer.py */
    size_t inputs;
    struct {
        float low, high;
    } range[WORKLOAD_INPUTS];
    bool indexed;   /* needs the array of indices */
    bool combines;  /* lanes with each other: not on every engine */
    size_t results; /* elements that are compared; 0: some of n */
    engine_var (*trace)(workload_tape *t);
    void (*hand)(const workload_arrays *a);
} workload;

/* Ended by a name NULL. */
extern const workload workload_table[];

/* Give every variable of the tape back. */
void workload_release(workload_tape *t);
/* Allocate and fill the arrays that w needs; false without memory. */
bool workload_prepare(const workload *w, size_t n, workload_arrays *a);
void workload_finish(workload_arrays *a);

#endif
