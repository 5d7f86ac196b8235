/* hand.c: plain loops, compiled for the machine at hand with its longest vectors.
 * Layer: benchmarks. May include: nothing of the library.
 *
 * Divisions and square roots stay correctly rounded; products and sums may be fused. */
#include "peers/hand.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#ifdef __AVX512F__
#    include <immintrin.h>
#endif
#ifdef _OPENMP
#    include <omp.h>
#endif

/* glibc has vector variants of these; its header names them under -ffast-math only. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#    define HAS_VECTOR_VARIANT __attribute__((simd("notinbranch")))
#else
#    define HAS_VECTOR_VARIANT
#endif
HAS_VECTOR_VARIANT float expf(float);
HAS_VECTOR_VARIANT float logf(float);
HAS_VECTOR_VARIANT float sinf(float);
HAS_VECTOR_VARIANT float cosf(float);
HAS_VECTOR_VARIANT float erff(float);
HAS_VECTOR_VARIANT float powf(float, float);

void hand_set_threads(int threads) {
#ifdef _OPENMP
    omp_set_num_threads(threads);
#else
    (void) threads;
#endif
}

void hand_saxpy(float *restrict z, float a, const float *x, const float *y, size_t n) {
#pragma omp parallel for simd aligned(x, y, z : 64)
    for (size_t i = 0; i < n; ++i)
        z[i] = a * x[i] + y[i];
}

void hand_saxpy_streaming(float *restrict z, float a, const float *x, const float *y, size_t n) {
#ifdef __AVX512F__
    __m512 factor = _mm512_set1_ps(a);
#    pragma omp parallel for
    for (size_t i = 0; i < n; i += 16)
        _mm512_stream_ps(z + i,
                         _mm512_fmadd_ps(factor, _mm512_load_ps(x + i), _mm512_load_ps(y + i)));
#else
    hand_saxpy(z, a, x, y, n);
#endif
}

void hand_transposed(float *restrict z, const float *x, size_t side) {
#pragma omp parallel for
    for (size_t i = 0; i < side; ++i)
        for (size_t j = 0; j < side; ++j)
            z[i * side + j] = 2 * x[j * side + i] + 1;
}

void hand_transposed_tiled(float *restrict z, const float *x, size_t side) {
    enum { TILE = 16 };
#pragma omp parallel for
    for (size_t from = 0; from < side; from += TILE)
        for (size_t column = 0; column < side; column += TILE)
            for (size_t i = from; i < side && i < from + TILE; ++i)
                for (size_t j = column; j < side && j < column + TILE; ++j)
                    z[i * side + j] = 2 * x[j * side + i] + 1;
}

void hand_horner(float *restrict z, const float *x, const float *c, size_t n) {
    float k[HAND_COEFFICIENTS];
    memcpy(k, c, sizeof k);
#pragma omp parallel for simd aligned(x, z : 64)
    for (size_t i = 0; i < n; ++i) {
        float r = k[HAND_COEFFICIENTS - 1];
#pragma GCC unroll 16
        for (int j = HAND_COEFFICIENTS - 2; j >= 0; --j)
            r = r * x[i] + k[j];
        z[i] = r;
    }
}

void hand_black_scholes(float *restrict z, const float *s, const float *k, const float *t,
                        size_t n) {
    const float v = HAND_VOLATILITY, drift = HAND_RATE + 0.5f * v * v;
#pragma omp parallel for simd aligned(s, k, t, z : 64)
    for (size_t i = 0; i < n; ++i) {
        float q = v * sqrtf(t[i]);
        float d1 = (logf(s[i] / k[i]) + drift * t[i]) / q, d2 = d1 - q;
        float n1 = 0.5f * (1 + erff(d1 * HAND_INV_SQRT2));
        float n2 = 0.5f * (1 + erff(d2 * HAND_INV_SQRT2));
        z[i] = s[i] * n1 - k[i] * expf(-HAND_RATE * t[i]) * n2;
    }
}

void hand_gather(float *restrict z, const float *x, const uint32_t *index, size_t n) {
#pragma omp parallel for simd aligned(index, z : 64)
    for (size_t i = 0; i < n; ++i)
        z[i] = x[index[i]];
}

#define MAP(name, expression)                                                                      \
    static void map_##name(float *restrict z, const float *x, const float *y, size_t n) {          \
        (void) y;                                                                                  \
        _Pragma("omp parallel for simd aligned(z : 64)") for (size_t i = 0; i < n; ++i) z[i] =     \
            expression;                                                                            \
    }
MAP(exp, expf(x[i]))
MAP(log, logf(x[i]))
MAP(sin, sinf(x[i]))
MAP(cos, cosf(x[i]))
MAP(pow, powf(x[i], y[i]))
MAP(erf, erff(x[i]))
#undef MAP

hand_function *hand_math_find(const char *name) {
    static const struct {
        const char *name;
        hand_function *function;
    } table[] = {{"exp", map_exp}, {"log", map_log}, {"sin", map_sin},
                 {"cos", map_cos}, {"pow", map_pow}, {"erf", map_erf}};
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i)
        if (!strcmp(table[i].name, name))
            return table[i].function;
    return NULL;
}

#if defined(__AVX512F__)
#    define SLEEF_SUFFIX "f16_u10"
typedef float vector __attribute__((vector_size(64)));
#elif defined(__AVX2__)
#    define SLEEF_SUFFIX "f8_u10"
typedef float vector __attribute__((vector_size(32)));
#else
#    define SLEEF_SUFFIX "f4_u10"
typedef float vector __attribute__((vector_size(16)));
#endif

void *hand_sleef_find(const char *name) {
    char symbol[64];
    void *library = dlopen("libsleef.so.3", RTLD_NOW | RTLD_LOCAL);
    snprintf(symbol, sizeof symbol, "Sleef_%s" SLEEF_SUFFIX, name);
    return library ? dlsym(library, symbol) : NULL;
}

void hand_sleef_apply(void *function, float *z, const float *x, const float *y, size_t n) {
    enum { LANES = sizeof(vector) / sizeof(float) };
    vector (*unary)(vector);
    vector (*binary)(vector, vector);
    memcpy(&unary, &function, sizeof unary);
    memcpy(&binary, &function, sizeof binary);
#pragma omp parallel for
    for (size_t i = 0; i < n; i += LANES) {
        const vector *a = (const vector *) (const void *) (x + i);
        const vector *b = y ? (const vector *) (const void *) (y + i) : NULL;
        *(vector *) (void *) (z + i) = b ? binary(*a, *b) : unary(*a);
    }
}
