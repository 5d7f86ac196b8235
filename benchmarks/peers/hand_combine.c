/* hand_combine.c: sums, prefix sums and compaction, written by hand in C.
 * Layer: benchmarks. May include: nothing of the library.
 *
 * Threads get one part each; a prefix sum and a compaction go over it twice, unless there is one.
 */
#include "peers/hand_combine.h"

#ifdef __AVX512F__
#    include <immintrin.h>
#endif
#ifdef _OPENMP
#    include <omp.h>
#endif

enum { PARTS = 64, LANES = 16, SIDE_BY_SIDE = 4 };

typedef float floats __attribute__((vector_size(64)));

static int threads(void) {
#ifdef _OPENMP
    int n = omp_get_max_threads();
    return n < PARTS ? n : PARTS;
#else
    return 1;
#endif
}

static size_t part_start(int part, int parts, size_t n) {
    return n / 64 * (size_t) part / (size_t) parts * 64;
}

static float total(floats v) {
    float sum = 0;
    for (int i = 0; i < LANES; ++i)
        sum += v[i];
    return sum;
}

/* y NULL: the sum of x. */
static float sum_part(const float *x, const float *y, size_t begin, size_t end) {
    floats sum[SIDE_BY_SIDE] = {{0}};
    for (size_t i = begin; i < end; i += LANES * SIDE_BY_SIDE)
        for (int k = 0; k < SIDE_BY_SIDE; ++k) {
            floats a = *(const floats *) (x + i + LANES * k);
            sum[k] += y ? a * *(const floats *) (y + i + LANES * k) : a;
        }
    return total((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

static float sum_all(const float *x, const float *y, size_t n) {
    int parts = threads();
    float sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int t = 0; t < parts; ++t)
        sum += sum_part(x, y, part_start(t, parts, n), part_start(t + 1, parts, n));
    return sum;
}

float hand_sum(const float *x, size_t n) {
    return sum_all(x, NULL, n);
}

float hand_dot(const float *x, const float *y, size_t n) {
    return sum_all(x, y, n);
}

#ifdef __AVX512F__
static __m512 shifted(__m512 v, int zeros) {
    const __m512i none = _mm512_setzero_si512(), bits = _mm512_castps_si512(v);
    switch (zeros) {
        case 1: return _mm512_castsi512_ps(_mm512_alignr_epi32(bits, none, 15));
        case 2: return _mm512_castsi512_ps(_mm512_alignr_epi32(bits, none, 14));
        case 4: return _mm512_castsi512_ps(_mm512_alignr_epi32(bits, none, 12));
        default: return _mm512_castsi512_ps(_mm512_alignr_epi32(bits, none, 8));
    }
}
static void scan_part(float *restrict z, const float *x, float before, size_t begin, size_t end) {
    const __m512i last = _mm512_set1_epi32(15);
    __m512 carry = _mm512_set1_ps(before);
    for (size_t i = begin; i < end; i += LANES) {
        __m512 v = _mm512_load_ps(x + i);
        v = _mm512_add_ps(v, shifted(v, 1));
        v = _mm512_add_ps(v, shifted(v, 2));
        v = _mm512_add_ps(v, shifted(v, 4));
        v = _mm512_add_ps(v, shifted(v, 8));
        _mm512_store_ps(z + i, _mm512_add_ps(v, carry));
        carry = _mm512_add_ps(carry, _mm512_permutexvar_ps(last, v));
    }
}
#else
static void scan_part(float *restrict z, const float *x, float before, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
        z[i] = before += x[i];
}
#endif

void hand_prefix_sum(float *restrict z, const float *x, size_t n) {
    int parts = threads();
    float before[PARTS + 1] = {0};
#pragma omp parallel for
    for (int t = 0; t < parts - 1; ++t)
        before[t + 1] = sum_part(x, NULL, part_start(t, parts, n), part_start(t + 1, parts, n));
    for (int t = 0; t < parts; ++t)
        before[t + 1] += before[t];
#pragma omp parallel for
    for (int t = 0; t < parts; ++t)
        scan_part(z, x, before[t], part_start(t, parts, n), part_start(t + 1, parts, n));
}

static size_t count_part(const float *x, float limit, size_t begin, size_t end) {
    size_t count = 0;
    for (size_t i = begin; i < end; ++i)
        count += x[i] < limit;
    return count;
}

#ifdef __AVX512F__
static size_t compress_part(uint32_t *restrict z, const float *x, float limit, size_t begin,
                            size_t end) {
    const __m512i sixteen = _mm512_set1_epi32(LANES);
    const __m512 most = _mm512_set1_ps(limit);
    __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    uint32_t *to = z;
    lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32((int) begin));
    for (size_t i = begin; i < end; i += LANES) {
        __mmask16 mask = _mm512_cmp_ps_mask(_mm512_load_ps(x + i), most, _CMP_LT_OQ);
        _mm512_mask_compressstoreu_epi32(to, mask, lanes);
        to += __builtin_popcount(mask);
        lanes = _mm512_add_epi32(lanes, sixteen);
    }
    return (size_t) (to - z);
}
#else
static size_t compress_part(uint32_t *restrict z, const float *x, float limit, size_t begin,
                            size_t end) {
    size_t count = 0;
    for (size_t i = begin; i < end; ++i)
        if (x[i] < limit)
            z[count++] = (uint32_t) i;
    return count;
}
#endif

size_t hand_compress(uint32_t *restrict z, const float *x, float limit, size_t n) {
    int parts = threads();
    size_t before[PARTS + 1] = {0};
#pragma omp parallel for
    for (int t = 0; t < parts - 1; ++t)
        before[t + 1] = count_part(x, limit, part_start(t, parts, n), part_start(t + 1, parts, n));
    for (int t = 0; t < parts; ++t)
        before[t + 1] += before[t];
#pragma omp parallel for
    for (int t = 0; t < parts; ++t) {
        size_t count = compress_part(z + before[t], x, limit, part_start(t, parts, n),
                                     part_start(t + 1, parts, n));
        if (t == parts - 1)
            before[PARTS] = before[t] + count;
    }
    return before[PARTS];
}
