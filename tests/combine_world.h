/* combine_world.h: kernels of the CUDA backend that combine lanes, over memory that ends right
 * behind its last element; and what they have to give. */
#ifndef JITC_TESTS_COMBINE_WORLD_H
#define JITC_TESTS_COMBINE_WORLD_H
#include "cuda_slots.h"
#include "programs.h"

#define FOR_TYPES(t)      for (jit_dtype t = JIT_bool; t <= JIT_f64; ++t)
#define FOR_REDUCTIONS(r) for (jit_reduce_op r = JIT_REDUCE_ADD; r <= JIT_REDUCE_OR; ++r)

/** A program and its parameters. */
typedef struct combine_program {
    jitc_program p;
    uint64_t params[40];
    jitc_kernel *k;
} combine_program;

/** Device memory of exactly so many bytes, which begins `offset` bytes behind a boundary of 256;
 * with the bytes of `from`, or all 0xee. */
void *exact(size_t bytes, size_t offset, const void *from);
void *exact_room(size_t bytes, size_t offset); /* with any bytes */
/** Give all of it back: everything is over. */
void exact_finish(void);
/** The bytes of such memory; free(). Waits for the stream. */
void *fetch(jitc_stream *s, const void *p, size_t bytes);

/** A program of this shape. */
combine_program *combine_begin(jitc_shape shape, uint32_t flags);
/** Append what combines lanes. */
void combine_add(combine_program *c, jitc_op op, jit_reduce_op reduce, uint32_t aux, uint32_t value,
                 void *out);
/** Compile it. */
void combine_compile(combine_program *c);
/** Queue it on a stream; its number. */
uint64_t combine_launch(combine_program *c, jitc_stream *s, uint64_t lanes);
/** Compile it, run it once and wait. */
void combine_run(combine_program *c, uint64_t lanes);
void combine_end(combine_program *c);

/** Elements whose combination does not depend on the order; free(). */
void *combine_values(jit_dtype t, jit_reduce_op op, size_t n, unsigned salt);
/** The identity, an element and the combination in the type in which is combined, and back. */
uint64_t combine_first(jit_dtype t, jit_reduce_op op);
uint64_t combine_next(jit_dtype t, jit_reduce_op op, uint64_t sum, const void *array, size_t i);
uint64_t combine_rounded(jit_dtype t, jit_reduce_op op, uint64_t sum);
/** Fails unless element i of `got` is `sum`, rounded; NaN is NaN. */
void combine_expect(jit_dtype t, jit_reduce_op op, const void *got, size_t i, uint64_t sum,
                    const char *what);
#endif
