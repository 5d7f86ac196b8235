/* hand_combine.h: sums, prefix sums and compaction, written by hand in C.
 * Layer: benchmarks. May include: nothing of the library. */
#ifndef BENCH_HAND_COMBINE_H
#define BENCH_HAND_COMBINE_H
#include <stddef.h>
#include <stdint.h>

/* Arrays are aligned to 64 bytes, and their sizes are multiples of 64. On the threads of
 * hand_set_threads(). */
float hand_sum(const float *x, size_t n);
float hand_dot(const float *x, const float *y, size_t n);
void hand_prefix_sum(float *restrict z, const float *x, size_t n);
/* The numbers of elements below `limit`; how many. */
size_t hand_compress(uint32_t *restrict z, const float *x, float limit, size_t n);

#endif
