/* values.c: the values that operations are tried on. */
#include "values.h"
#include "reference.h"
#include <math.h>
#include <stdlib.h>

void values_add(values *v, uint64_t bits) {
    if ((v->count & (v->count + 1)) == 0) { /* 0, 1, 3, 7, ...: full */
        uint64_t *grown = realloc(v->bits, (2 * v->count + 1) * sizeof *grown);
        if (!grown)
            exit(1);
        v->bits = grown;
    }
    v->bits[v->count++] = bits;
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;
    return (x > y) - (x < y);
}
static void sort_unique(values *v) {
    size_t kept = 0;
    qsort(v->bits, v->count, sizeof *v->bits, compare);
    for (size_t i = 0; i < v->count; ++i)
        if (kept == 0 || v->bits[i] != v->bits[kept - 1])
            v->bits[kept++] = v->bits[i];
    v->count = kept;
}

/** The value and its negation, cut to the type. */
static void add_integers(values *v, jit_dtype t, uint64_t value) {
    values_add(v, value & jitc_bits_mask(t));
    values_add(v, (0 - value) & jitc_bits_mask(t));
}
static void integer_edges(values *v, jit_dtype t) {
    static const uint64_t small[] = {0,   1,   2,   3,   5,   7,    8,     9,    10,
                                     15,  16,  17,  31,  32,  33,   63,    64,   65,
                                     100, 127, 128, 255, 256, 1000, 65535, 65536};
    static const int powers[] = {15, 16, 23, 24, 31, 32, 52, 53, 62, 63};
    for (size_t i = 0; i < sizeof small / sizeof *small; ++i)
        add_integers(v, t, small[i]);
    for (size_t i = 0; i < sizeof powers / sizeof *powers; ++i)
        for (uint64_t k = 0; k < 3; ++k)
            add_integers(v, t, ((uint64_t) 1 << powers[i]) + k - 1);
    add_integers(v, t, 0x5555555555555555);
    add_integers(v, t, 0x0123456789abcdef);
    /* Halfway between two floats, and one off: conversions must round once. */
    add_integers(v, t, ((uint64_t) 1 << 63) + ((uint64_t) 1 << 55) + 1);
    add_integers(v, t, ((uint64_t) 1 << 62) + ((uint64_t) 1 << 38) - 1);
    add_integers(v, t, ((uint64_t) 1 << 62) + ((uint64_t) 1 << 38) + 1);
    add_integers(v, t, ((uint64_t) 1 << 60) + ((uint64_t) 1 << 7) + 1);
    for (uint64_t k = 0; k < 3; ++k) {
        add_integers(v, t, ((uint64_t) 1 << 24) + k);
        add_integers(v, t, 2049 + k);
        add_integers(v, t, 65519 + k);
    }
}

static void add_reals(values *v, jit_dtype t, double value) {
    values_add(v, reference_from_double(t, value));
    values_add(v, reference_from_double(t, -value));
}
/** Bit patterns that every float type has, with both signs. */
static void special_reals(values *v, jit_dtype t) {
    int stored = t == JIT_f16 ? 10 : t == JIT_bf16 ? 7 : t == JIT_f32 ? 23 : 52;
    uint64_t sign = (uint64_t) 1 << (jitc_dtypes[t].bits - 1), one = (uint64_t) 1 << stored;
    uint64_t infinity = (sign - 1) / one * one, exact_one = reference_from_double(t, 1);
    const uint64_t patterns[] = {0,
                                 1, /* subnormals */
                                 2,
                                 one / 2 + 1,
                                 one - 1,
                                 one, /* smallest normal */
                                 one + 1,
                                 2 * one,
                                 infinity - 1, /* greatest */
                                 infinity - 2,
                                 infinity - one, /* greatest power of two */
                                 infinity - 2 * one + 1,
                                 infinity,
                                 infinity + one / 2, /* quiet NaN */
                                 infinity + one / 2 + 5,
                                 infinity + 1, /* signalling NaN */
                                 exact_one - 1,
                                 exact_one + 1};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; ++i) {
        values_add(v, patterns[i]);
        values_add(v, patterns[i] | sign);
    }
}
static void real_edges(values *v, jit_dtype t) {
    static const double small[] = {
        0.1,   0.25, 1.0 / 3, 0.5,  0.75, 1,     1.25,  1.5,   2,       2.5,     3,
        3.5,   4.5,  7,       10,   11,   17.3,  31,    100,   127.5,   128.5,   255,
        255.5, 256,  1e-3,    1e-5, 2049, 65504, 65519, 65520, 32767.5, 32768.5, 65535.5};
    static const int powers[] = {8, 15, 16, 23, 24, 31, 32, 52, 53, 63, 64, 100};
    special_reals(v, t);
    for (size_t i = 0; i < sizeof small / sizeof *small; ++i)
        add_reals(v, t, small[i]);
    for (size_t i = 0; i < sizeof powers / sizeof *powers; ++i) {
        double power = ldexp(1, powers[i]);
        add_reals(v, t, power);
        add_reals(v, t, power - 0.5);
        add_reals(v, t, power + 1);
        add_reals(v, t, reference_to_double(t, reference_from_double(t, power) - 1));
        add_reals(v, t, reference_to_double(t, reference_from_double(t, power) + 1));
    }
    add_reals(v, t, 3.14159265358979323846);
    add_reals(v, t, 1.57079632679489661923);
    add_reals(v, t, 88.5);
    add_reals(v, t, 88.75);  /* about where exp overflows in f32 ... */
    add_reals(v, t, 709.75); /* ... and in f64 */
}

values values_all(jit_dtype t) {
    values v = {0};
    for (uint64_t i = 0; i <= (t == JIT_bool ? 1 : jitc_bits_mask(t)); ++i)
        values_add(&v, i);
    return v;
}

values values_edges(jit_dtype t) {
    if (jitc_dtypes[t].bits == 8)
        return values_all(t);
    values v = {0};
    if (jitc_dtypes[t].cls == JITC_FLOAT)
        real_edges(&v, t);
    else
        integer_edges(&v, t);
    sort_unique(&v);
    return v;
}

void values_thin(values *v, size_t count) {
    if (v->count <= count)
        return;
    for (size_t i = 0; i < count; ++i)
        v->bits[i] = v->bits[i * (v->count - 1) / (count - 1)];
    v->count = count;
}

/** A linear congruential generator's better bits (Knuth's MMIX constants), mixed. */
static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *state;
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    return x ^ x >> 33;
}

void values_add_random(values *v, jit_dtype t, size_t count) {
    uint64_t state = 1;
    for (size_t i = 0; i < count; ++i) {
        uint64_t bits = next_random(&state);
        if (jitc_dtypes[t].cls == JITC_FLOAT && i % 2)
            bits = reference_from_double(t, ldexp((double) (int64_t) bits, -63 + (int) (i % 32)));
        values_add(v, t == JIT_bool ? bits & 1 : bits & jitc_bits_mask(t));
    }
}
