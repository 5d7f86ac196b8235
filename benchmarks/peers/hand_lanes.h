/* hand_lanes.h: by hand in C, what lanes do that go their own way, or meet in one element.
 * Layer: benchmarks. May include: nothing of the library.
 *
 * Arrays are aligned to 64 bytes, and their sizes are multiples of 64. */
#ifndef BENCH_HAND_LANES_H
#define BENCH_HAND_LANES_H
#include <stddef.h>
#include <stdint.h>

enum { HAND_ITERATIONS = 256 };

/* Iterations of z z + c until |z| is 2: two vectors at a time. Products and sums are not fused. */
void hand_mandelbrot(uint32_t *restrict count, const float *re, const float *im, size_t n);
/* Add 1, or value[i], to bins[index[i]]: 8 tables that take turns, if they are small, for each
 * thread. */
void hand_histogram(uint32_t *bins, size_t size, const uint32_t *index, size_t n);
void hand_scatter_add(float *bins, size_t size, const float *value, const uint32_t *index,
                      size_t n);

#endif
