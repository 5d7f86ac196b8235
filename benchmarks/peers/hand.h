/* hand.h: the same work written by hand in C: what this machine can do.
 * Layer: benchmarks. May include: nothing of the library. */
#ifndef BENCH_HAND_H
#define BENCH_HAND_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HAND_COEFFICIENTS = 17 };
#define HAND_RATE       0.02f
#define HAND_VOLATILITY 0.3f
#define HAND_INV_SQRT2  0.70710678f

/* Threads of the functions below, which run on OpenMP where the compiler has it. */
void hand_set_threads(int threads);

/* Arrays are aligned to 64 bytes, and their sizes are multiples of 16. */
void hand_saxpy(float *restrict z, float a, const float *x, const float *y, size_t n);
/* The same with stores that bypass the cache: better for arrays beyond its size. */
void hand_saxpy_streaming(float *restrict z, float a, const float *x, const float *y, size_t n);
void hand_horner(float *restrict z, const float *x, const float *c, size_t n);
void hand_black_scholes(float *restrict z, const float *s, const float *k, const float *t,
                        size_t n);
void hand_gather(float *restrict z, const float *x, const uint32_t *index, size_t n);

/* z = 2 x' + 1 for a square matrix, z row by row; the second in tiles that fit the cache. */
void hand_transposed(float *restrict z, const float *x, size_t side);
void hand_transposed_tiled(float *restrict z, const float *x, size_t side);

/* A function applied to arrays; `y` is ignored by those of one argument. */
typedef void hand_function(float *restrict z, const float *x, const float *y, size_t n);
/* glibc's vector variant of "exp", "log", "sin", "cos", "pow" or "erf". NULL: no such name. */
hand_function *hand_math_find(const char *name);

/* SLEEF's variant within 1 ULP, for the vectors of this machine. NULL: not installed. */
void *hand_sleef_find(const char *name);
/* Apply what hand_sleef_find() gave; y NULL for a function of one argument. */
void hand_sleef_apply(void *function, float *z, const float *x, const float *y, size_t n);

#endif
