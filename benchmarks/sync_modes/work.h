/* work.h: kernels that last as long as wanted and leave nearly all of the GPU to others.
 * Layer: benchmarks. May include: <jit/jit.h>.
 *
 * The work is fmod of doubles, which takes some ten nanoseconds for each bit by which the exponents
 * of its operands differ: a thousand small kernels' worth of time from one operation that is
 * traced. Its result is exact: with v one or two units of 2^-1000 and an even exponent e,
 *
 *   fmod(v 2^e, 3 units) = v        so that step T produces, in element i, T + 1 + (i & 1)
 *
 * and no compiler knows. The length is in a literal, so kernels are compiled once for all lengths.
 */
#ifndef BENCH_SYNC_WORK_H
#define BENCH_SYNC_WORK_H
#include "cuda_device.h"
#include <jit/jit.h>

enum { SYNC_ELEMENTS = 1024, SYNC_LONGEST_CHAIN = 16 };

/* A loop of `count` operations of `bits` bits each. */
typedef struct sync_loop {
    unsigned count, bits;
} sync_loop;

/* How `microseconds` of work are made: a step's array by `pieces` kernels, one after another, both
 * by this library (`traced`, each) and by hand (`produced`, each); it is consumed by one kernel. */
typedef struct sync_work {
    double microseconds;
    unsigned pieces;
    sync_loop traced, produced, consumed;
} sync_work;

/* The GPU and the kernels written by hand. */
typedef struct sync_gpu {
    cuda_device *device;
    const cuda_driver *driver;
    void *context, *module, *produce, *consume;
    double traced_ns[SYNC_LONGEST_CHAIN + 1]; /* a bit of one operation of a chain of [count] */
    double written_ns;                        /* the same in kernels written by hand */
} sync_gpu;

/* Open the GPU, whose context becomes current in the calling thread, and compile the kernels.
 * False, after a message, on failure. */
bool sync_gpu_open(sync_gpu *g);
void sync_gpu_close(sync_gpu *g);
/* Measure how long operations last. */
bool sync_gpu_calibrate(sync_gpu *g);

/* What makes `microseconds` of work. Without calibration: as little as there is. */
sync_work sync_work_of(const sync_gpu *g, double microseconds);
/* The SYNC_ELEMENTS numbers that every chain starts from. */
void sync_fill_start(double *values);
/* An array of them. Each is a variable of its own. 0, after a message, on failure. */
jit_var sync_work_start(void);
/* The array of step `tag`: traced and evaluated. A new reference; 0, after a message, on failure.
 */
jit_var sync_work_trace(const sync_work *w, jit_var start, double tag);

/* One launch of produce: `tag` < 0: a piece that is not the last one. */
bool sync_launch_produce(const sync_gpu *g, void *stream, cuda_address from, cuda_address to,
                         sync_loop loop, double tag);
/* One launch of consume: adds to the word at `stale` the number of elements of `from` that are not
 * those of step `tag`. */
bool sync_launch_consume(const sync_gpu *g, void *stream, cuda_address from, cuda_address stale,
                         sync_loop loop, double tag);

/* Print the thread's error and forget it. Returns false. */
bool sync_failed(const char *what);

#endif
