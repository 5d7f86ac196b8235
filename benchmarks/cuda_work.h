/* cuda_work.h: element-wise programs over large arrays of any type, on the GPU.
 * Layer: benchmarks. May include: <jit/jit.h>. */
#ifndef BENCH_CUDA_WORK_H
#define BENCH_CUDA_WORK_H
#include <jit/jit.h>

enum { CUDA_WORK_INPUTS = 16 };

typedef enum cuda_kind {
    CUDA_AXPY,   /* 2 x + y */
    CUDA_SUM,    /* of `count` inputs; of one: x + 1 */
    CUDA_CHAIN,  /* `count` additions and multiplications of two inputs */
    CUDA_GATHER, /* x at random places */
    CUDA_HOPS    /* `count` gathers, each from the result of the one before: as many kernels */
} cuda_kind;

typedef struct cuda_work {
    cuda_kind kind;
    jit_dtype type;
    size_t count, n;
    jit_var inputs[CUDA_WORK_INPUTS], index;
    size_t calls; /* in a sample; found by the first samples */
} cuda_work;

/* Arrays that a kernel of the work reads, and the bytes that it moves. */
size_t cuda_work_inputs(const cuda_work *w);
double cuda_work_bytes(const cuda_work *w);
/* Make the inputs on the device. False, after a message, on failure. */
bool cuda_work_prepare(cuda_work *w);
void cuda_work_release(cuda_work *w);
/* Trace the work: a variable of the scope that is open. 0 on failure. */
jit_var cuda_work_trace(const cuda_work *w);

/* A chain of operations that `seed` chooses, of w->inputs. */
jit_var cuda_work_chain(const cuda_work *w, size_t operations, uint64_t seed);

/* A sample: nanoseconds per evaluation, several back to back and one wait; tracing included. */
double cuda_work_sample(void *work);

/* Print the thread's error and forget it. Returns -1. */
double cuda_work_failed(const char *what);

#endif
