/* test_random.c: Philox-4x32-10 gives the published words, folded and computed; the distributions
 * have the moments that they should have; no two uses share numbers. */
#include "support.h"
#include <jit/random.h>
#include <math.h>
#include <stdlib.h>

#define B support_backend()

TestSuite(random, .init = support_init, .fini = support_shutdown, .timeout = 120);

/* kat_vectors of Random123 1.14, "philox4x32 10": counter, key, result. */
static const uint32_t vectors[][10] = {
    {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
    {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e,
     0xa20bc7c6, 0x6d5451fd},
    {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb,
     0x5001e420, 0x24126ea1},
};
enum { VECTORS = sizeof vectors / sizeof *vectors };

static void check_vector(const jit_var *input, const uint32_t *want, size_t count) {
    jit_var out[4];
    ASSERT_OK(jit_philox(input, input + 4, out));
    for (size_t k = 0; k < 4; ++k) {
        uint64_t *got = support_read(out[k], count);
        for (size_t i = 0; i < count; ++i)
            cr_assert_eq(got[i], want[10 * i + 6 + k], "vector %zu, word %zu: %#lx", i, k, got[i]);
        free(got);
    }
}

Test(random, known_answers_folded) {
    for (size_t i = 0; i < VECTORS; ++i) {
        jit_var input[6];
        jit_stats before, after;
        jit_scope_push();
        for (size_t k = 0; k < 6; ++k)
            input[k] = jit_u32(B, vectors[i][k]);
        ASSERT_OK(jit_get_stats(&before));
        check_vector(input, vectors[i], 1);
        ASSERT_OK(jit_get_stats(&after));
        cr_assert_eq(after.kernels_compiled, before.kernels_compiled, "it was not folded");
        ASSERT_OK(jit_scope_pop(0, NULL));
    }
}

Test(random, known_answers_computed) {
    jit_var input[6];
    uint32_t column[VECTORS];
    jit_scope_push();
    for (size_t k = 0; k < 6; ++k) {
        for (size_t i = 0; i < VECTORS; ++i)
            column[i] = vectors[i][k];
        input[k] = jit_from_host(B, JIT_u32, column, VECTORS);
    }
    check_vector(input, vectors[0], VECTORS);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/* ---- streams ---- */

/** The words for one index, draw and seed. */
static void words(jit_var index, jit_var draw, uint64_t seed, uint32_t out[4]) {
    jit_var v[4];
    ASSERT_OK(jit_random(index, draw, seed, v));
    for (int k = 0; k < 4; ++k)
        ASSERT_OK(jit_read(v[k], &out[k]));
}

Test(random, seed_index_and_draw_fill_the_counter_and_the_key) {
    uint32_t got[4];
    const uint32_t *v = vectors[2]; /* the digits of pi */
    jit_scope_push();
    words(jit_u64(B, v[0] | (uint64_t) v[1] << 32), jit_u64(B, v[2] | (uint64_t) v[3] << 32),
          v[4] | (uint64_t) v[5] << 32, got);
    for (int k = 0; k < 4; ++k)
        cr_assert_eq(got[k], v[6 + k]);
    words(jit_u32(B, 0), 0, 0, got);
    for (int k = 0; k < 4; ++k)
        cr_assert_eq(got[k], vectors[0][6 + k]);
    uint32_t narrow[4];
    words(jit_u32(B, 5), jit_u32(B, 7), 9, narrow);
    words(jit_u64(B, 5), jit_u64(B, 7), 9, got);
    for (int k = 0; k < 4; ++k)
        cr_assert_eq(got[k], narrow[k], "the type of an index does not matter");
    ASSERT_OK(jit_scope_pop(0, NULL));
}

Test(random, other_seeds_and_draws_compile_nothing) {
    jit_stats before, after;
    for (uint32_t k = 0; k < 3; ++k) {
        jit_var v[4];
        jit_scope_push();
        ASSERT_OK(jit_random(jit_counter(B, 100), jit_u32(B, k + 7), k * 1234567 + 3, v));
        ASSERT_OK(jit_var_eval(v[0]));
        ASSERT_OK(jit_scope_pop(0, NULL));
        if (k == 0)
            ASSERT_OK(jit_get_stats(&before));
    }
    ASSERT_OK(jit_get_stats(&after));
    cr_assert_eq(after.kernels_compiled + after.disk_hits,
                 before.kernels_compiled + before.disk_hits);
}

/* ---- distributions: the numbers are always the same, so the bounds are no gamble ---- */

enum { N = 100000 };

/** Mean, variance, fourth moment of N numbers of type f32 or f64. */
typedef struct moments {
    double mean, variance, fourth, low, high;
} moments;

static moments moments_of(jit_var v) {
    const double count = N;
    double *x = malloc(N * sizeof *x);
    cr_assert_not_null(x);
    ASSERT_OK(jit_read(jit_cast(v, JIT_f64), x));
    moments m = {.low = INFINITY, .high = -INFINITY};
    for (size_t i = 0; i < N; ++i) {
        m.mean += x[i] / count;
        m.low = fmin(m.low, x[i]);
        m.high = fmax(m.high, x[i]);
    }
    for (size_t i = 0; i < N; ++i) {
        double d = (x[i] - m.mean) * (x[i] - m.mean);
        m.variance += d / count;
        m.fourth += d * d / count;
    }
    free(x);
    return m;
}

/** Within 4 standard deviations of what the distribution has, whose sixth moments are ignored. */
static void expect_moments(jit_var v, double mean, double variance, double fourth) {
    moments m = moments_of(v);
    double error = 4 / sqrt((double) N);
    cr_assert_lt(fabs(m.mean - mean), error * sqrt(variance), "mean %g", m.mean);
    cr_assert_lt(fabs(m.variance - variance), error * sqrt(fourth - variance * variance),
                 "variance %g", m.variance);
    cr_assert_lt(fabs(m.fourth - fourth), error * 10 * fourth, "fourth moment %g", m.fourth);
}

Test(random, uniform_numbers_are_uniform) {
    jit_var w[4];
    jit_scope_push();
    ASSERT_OK(jit_random(jit_counter(B, N), jit_u32(B, 3), 42, w));
    for (int k = 0; k < 4; ++k) {
        moments m = moments_of(jit_uniform_f32(w[k]));
        cr_assert(m.low >= 0 && m.high < 1);
        expect_moments(jit_uniform_f32(w[k]), 0.5, 1 / 12.0, 1 / 80.0);
        expect_moments(jit_uniform_f64(w[k], w[(k + 1) % 4]), 0.5, 1 / 12.0, 1 / 80.0);
    }
    /* Words of one lane, neighbours, and the same lane of another draw do not go together. */
    jit_var next[4], half = jit_f32(B, 0.5f), a = jit_sub(jit_uniform_f32(w[0]), half);
    ASSERT_OK(jit_random(jit_counter(B, N), jit_u32(B, 4), 42, next));
    expect_moments(jit_mul(a, jit_sub(jit_uniform_f32(w[1]), half)), 0, 1 / 144.0, 1 / 6400.0);
    expect_moments(jit_mul(a, jit_sub(jit_uniform_f32(next[0]), half)), 0, 1 / 144.0, 1 / 6400.0);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

Test(random, uniform_numbers_use_all_bits_and_stay_below_one) {
    jit_scope_push();
    jit_var ones = jit_u32(B, 0xffffffff), one = jit_u32(B, 1u << 8), zero = jit_u32(B, 0);
    float f[2];
    double d[2];
    ASSERT_OK(jit_read(jit_uniform_f32(ones), &f[0]));
    ASSERT_OK(jit_read(jit_uniform_f32(one), &f[1]));
    cr_assert(f[0] == 1 - 0x1p-24f && f[1] == 0x1p-24f);
    ASSERT_OK(jit_read(jit_uniform_f64(ones, ones), &d[0]));
    ASSERT_OK(jit_read(jit_uniform_f64(zero, jit_u32(B, 1u << 11)), &d[1]));
    cr_assert(d[0] == 1 - 0x1p-53 && d[1] == 0x1p-53);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

Test(random, normal_numbers_are_normal) {
    jit_var w[4], z[2];
    jit_scope_push();
    ASSERT_OK(jit_random(jit_counter(B, N), 0, 1, w));
    ASSERT_OK(jit_normal_f32(w[0], w[1], z));
    expect_moments(z[0], 0, 1, 3);
    expect_moments(z[1], 0, 1, 3);
    expect_moments(jit_mul(z[0], z[1]), 0, 1, 9);
    /* The ends of the range are numbers. */
    jit_var ends = jit_from_host(B, JIT_u32, (uint32_t[]) {0, 0xffffffff}, 2);
    float at[2][2];
    ASSERT_OK(jit_normal_f32(ends, ends, z));
    ASSERT_OK(jit_read(z[0], at[0]));
    ASSERT_OK(jit_read(z[1], at[1]));
    cr_assert(fabsf(at[0][0] - 6.763f) < 0.01f && at[1][0] == 0, "%g %g", at[0][0], at[1][0]);
    cr_assert(at[0][1] == 0 && at[1][1] == 0, "%g %g", at[0][1], at[1][1]);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/* ---- errors ---- */

Test(random, errors_leave_nothing) {
    jit_var out[4] = {1, 1, 1, 1}, wrong = jit_f32(B, 1);
    cr_assert_eq(jit_random(wrong, 0, 1, out), JIT_TYPE_MISMATCH, "%s", jit_error());
    cr_assert(!out[0] && !out[1] && !out[2] && !out[3]);
    jit_error_clear();
    cr_assert_eq(jit_random(0, 0, 1, out), JIT_INVALID_HANDLE, "%s", jit_error());
    jit_error_clear();
    cr_assert_eq(jit_uniform_f32(wrong), 0);
    cr_assert_eq(jit_error_status(), JIT_TYPE_MISMATCH);
    jit_error_clear();
    cr_assert_eq(jit_normal_f32(wrong, 0, out), JIT_INVALID_HANDLE);
    jit_error_clear();
    jit_unref(wrong);
    jit_stats s;
    ASSERT_OK(jit_get_stats(&s));
    cr_assert_eq(s.variables, 0, "%llu variables are left", (unsigned long long) s.variables);
}
