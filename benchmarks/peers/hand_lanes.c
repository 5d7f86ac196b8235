/* hand_lanes.c: loops by hand, compiled for the machine at hand; on OpenMP where there is one.
 * Layer: benchmarks. May include: nothing of the library. */
#include "peers/hand_lanes.h"

#include <stdbool.h>
#include <stdlib.h>
#ifdef __AVX512F__
#    include <immintrin.h>
#endif
#ifdef _OPENMP
#    include <omp.h>
#endif

#ifdef __AVX512F__

enum { PAIR = 32 };

static void iterate(uint32_t *count, const float *re, const float *im) {
    const __m512 four = _mm512_set1_ps(4);
    const __m512i one = _mm512_set1_epi32(1);
    __m512 x[2], y[2], cx[2], cy[2];
    __m512i n[2];
    __mmask16 in[2] = {0xffff, 0xffff};
    for (int k = 0; k < 2; ++k) {
        cx[k] = _mm512_load_ps(re + k * 16);
        cy[k] = _mm512_load_ps(im + k * 16);
        x[k] = y[k] = _mm512_setzero_ps();
        n[k] = _mm512_setzero_si512();
    }
    for (int i = 0; i < HAND_ITERATIONS && (in[0] | in[1]); ++i)
        for (int k = 0; k < 2; ++k) {
            __m512 xx = _mm512_mul_ps(x[k], x[k]), yy = _mm512_mul_ps(y[k], y[k]);
            __m512 xy = _mm512_mul_ps(x[k], y[k]);
            in[k] = _mm512_mask_cmp_ps_mask(in[k], _mm512_add_ps(xx, yy), four, _CMP_LT_OQ);
            n[k] = _mm512_mask_add_epi32(n[k], in[k], n[k], one);
            y[k] = _mm512_add_ps(_mm512_add_ps(xy, xy), cy[k]);
            x[k] = _mm512_add_ps(_mm512_sub_ps(xx, yy), cx[k]);
        }
    for (int k = 0; k < 2; ++k)
        _mm512_store_si512(count + k * 16, n[k]);
}

#else

enum { PAIR = 1 };

static void iterate(uint32_t *count, const float *re, const float *im) {
    float x = 0, y = 0;
    uint32_t n = 0;
    for (; n < HAND_ITERATIONS && x * x + y * y < 4; ++n) {
        float xy = x * y, next = x * x - y * y + *re;
        y = xy + xy + *im;
        x = next;
    }
    *count = n;
}

#endif

void hand_mandelbrot(uint32_t *restrict count, const float *re, const float *im, size_t n) {
#pragma omp parallel for schedule(dynamic, 128)
    for (size_t i = 0; i < n; i += PAIR)
        iterate(count + i, re + i, im + i);
}

enum { TABLES = 8, CACHE = 32 << 10, PAD = 16 };

static size_t tables_of(size_t size) {
    return size * 4 * TABLES <= CACHE ? TABLES : 1;
}

/* The work of one thread, in tables of its own, which are then added to the bins. */
#define IN_TABLES(type, increment)                                                                 \
    size_t tables = tables_of(size), stride = size + PAD;                                          \
    type *t = calloc(tables * stride, sizeof *t);                                                  \
    if (!t)                                                                                        \
        return;                                                                                    \
    for (size_t i = begin; i < end && tables > 1; i += TABLES)                                     \
        for (size_t k = 0; k < TABLES; ++k)                                                        \
            t[k * stride + index[i + k]] += increment(i + k);                                      \
    for (size_t i = begin; i < end && tables == 1; ++i)                                            \
        t[index[i]] += increment(i);                                                               \
    _Pragma("omp critical") for (size_t k = 0; k < tables; ++k) for (size_t b = 0; b < size; ++b)  \
        bins[b] += t[k * stride + b];                                                              \
    free(t);

static void count_part(uint32_t *bins, size_t size, const uint32_t *index, size_t begin,
                       size_t end) {
#define ONE(i) 1
    IN_TABLES(uint32_t, ONE)
#undef ONE
}

static void add_part(float *bins, size_t size, const float *value, const uint32_t *index,
                     size_t begin, size_t end) {
#define VALUE(i) value[i]
    IN_TABLES(float, VALUE)
#undef VALUE
}

/* The part of thread number `k` of `threads`: whole groups of 64. */
static size_t part(size_t n, size_t k, size_t threads) {
    return n / 64 * k / threads * 64;
}

static size_t thread_number(size_t *count) {
#ifdef _OPENMP
    *count = (size_t) omp_get_num_threads();
    return (size_t) omp_get_thread_num();
#else
    *count = 1;
    return 0;
#endif
}

void hand_histogram(uint32_t *bins, size_t size, const uint32_t *index, size_t n) {
#pragma omp parallel
    {
        size_t threads, k = thread_number(&threads);
        count_part(bins, size, index, part(n, k, threads), part(n, k + 1, threads));
    }
}

void hand_scatter_add(float *bins, size_t size, const float *value, const uint32_t *index,
                      size_t n) {
#pragma omp parallel
    {
        size_t threads, k = thread_number(&threads);
        add_part(bins, size, value, index, part(n, k, threads), part(n, k + 1, threads));
    }
}
