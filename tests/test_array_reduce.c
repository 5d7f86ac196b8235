/* test_array_reduce.c: functions of all elements that are composed of others: sums that must not
 * overflow on the way, and the place of the smallest and the largest element, for every type. */
#include "ir/bits.h"
#include "support.h"
#include "values.h"
#include <jit/array.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define B              support_backend()
#define FOR_TYPES(t)   for (jit_dtype t = JIT_bool; t <= JIT_f64; ++t)
#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

TestSuite(array_reduce, .init = support_init, .fini = support_shutdown, .timeout = 120);

/** The one element of a variable of the type. */
static uint64_t only(jit_var v, jit_dtype t) {
    ASSERT_VAR(v);
    cr_assert_eq(jit_type(v), t, "%s", jit_dtype_name(jit_type(v)));
    uint64_t *bits = support_read(v, 1), one = bits[0];
    free(bits);
    return one;
}

static double only_f64(jit_var v) {
    uint64_t bits = only(v, JIT_f64);
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* ---- sums ---- */

Test(array_reduce, sum_and_extremes_are_reductions) {
    const int32_t numbers[] = {3, -7, 12, 12, 5};
    jit_scope_push();
    jit_var v = jit_from_host(B, JIT_i32, numbers, 5);
    cr_assert_eq(jit_sum(v), jit_reduce(JIT_REDUCE_ADD, v));
    cr_assert_eq(only(jit_sum(v), JIT_i32), 25);
    cr_assert_eq(only(jit_amin(v), JIT_i32), (uint32_t) -7);
    cr_assert_eq(only(jit_amax(v), JIT_i32), 12);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/** f16 numbers in memory. */
static jit_var halves(const float *numbers, size_t n) {
    uint64_t bits[64];
    for (size_t i = 0; i < n; ++i)
        bits[i] = jitc_f16_from_f32(numbers[i]);
    return support_array(JIT_f16, bits, n);
}

Test(array_reduce, sums_of_16_bit_floats_do_not_overflow_on_the_way) {
    const float a[] = {1000, -1000, 1, 3}, b[] = {1000, 1000, 1, 0.5f}, large[] = {60000, 60000};
    jit_scope_push();
    jit_var dot = jit_dot(halves(a, 4), halves(b, 4));
    cr_assert_eq(only(dot, JIT_f16), jitc_f16_from_f32(2.5f));
    cr_assert_eq(only(jit_mean(halves(large, 2)), JIT_f16), jitc_f16_from_f32(60000));
    ASSERT_OK(jit_scope_pop(0, NULL));
}

Test(array_reduce, dot_broadcasts_and_wraps) {
    const uint8_t numbers[] = {200, 100, 3};
    jit_scope_push();
    jit_var v = jit_from_host(B, JIT_u8, numbers, 3);
    cr_assert_eq(only(jit_dot(v, v), JIT_u8), (200 * 200 + 100 * 100 + 9) & 255);
    cr_assert_eq(only(jit_dot(v, jit_u8(B, 2)), JIT_u8), 606 & 255);
    cr_assert_eq(only(jit_dot(jit_u8(B, 2), v), JIT_u8), 606 & 255);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

Test(array_reduce, means_of_integers_are_f64) {
    const uint8_t numbers[] = {255, 0, 255, 1};
    const uint64_t bits[] = {1, 0, 1, 1};
    jit_scope_push();
    cr_assert_eq(only_f64(jit_mean(jit_from_host(B, JIT_u8, numbers, 4))), 127.75);
    cr_assert_eq(only_f64(jit_mean(support_array(JIT_bool, bits, 4))), 0.75);
    cr_assert_eq(only_f64(jit_mean(jit_counter(B, 1001))), 500);
    cr_assert_eq(only_f64(jit_mean(jit_i64(B, -5))), -5);
    cr_assert(isnan(only_f64(jit_mean(support_literal(JIT_i32, 0, 0)))));
    cr_assert(isnan(only_f64(jit_mean(support_literal(JIT_f64, 0, 0)))));
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/* What is summed up is not stored, and read once for both; what becomes of the sums is a kernel of
 * one lane. */
Test(array_reduce, means_of_one_size_share_a_pass) {
    jit_stats before, after;
    jit_scope_push();
    jit_var x = jit_cast(jit_counter(B, 1000), JIT_f64);
    jit_var mean = jit_mean(x), square = jit_mean(jit_mul(x, x));
    ASSERT_OK(jit_get_stats(&before));
    ASSERT_OK(jit_schedule(mean));
    ASSERT_OK(jit_schedule(square));
    ASSERT_OK(jit_eval());
    ASSERT_OK(jit_get_stats(&after));
    cr_assert_eq(after.launches - before.launches, 2);
    cr_assert_eq(only_f64(mean), 499.5);
    cr_assert_eq(only_f64(square), 999 * 1999 / 6.0);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/* ---- masks ---- */

Test(array_reduce, any_all_and_count_of_masks) {
    static const struct {
        size_t n;
        uint64_t bits[4];
        bool any, all;
        uint32_t count;
    } cases[] = {{0, {0}, false, true, 0},         {1, {1}, true, true, 1},
                 {1, {0}, false, false, 0},        {4, {0, 0, 1, 0}, true, false, 1},
                 {4, {1, 1, 1, 1}, true, true, 4}, {4, {0, 0, 0, 0}, false, false, 0}};
    for (size_t k = 0; k < COUNT_OF(cases); ++k) {
        jit_scope_push();
        jit_var mask = support_array(JIT_bool, cases[k].bits, cases[k].n);
        cr_assert_eq(only(jit_any(mask), JIT_bool), cases[k].any, "case %zu", k);
        cr_assert_eq(only(jit_all(mask), JIT_bool), cases[k].all, "case %zu", k);
        cr_assert_eq(only(jit_count(mask), JIT_u32), cases[k].count, "case %zu", k);
        ASSERT_OK(jit_scope_pop(0, NULL));
    }
}

Test(array_reduce, counts_from_2_to_the_32_on_are_u64) {
    const uint64_t n = (uint64_t) 1 << 32;
    jit_scope_push();
    cr_assert_eq(only(jit_count(support_literal(JIT_bool, 1, n)), JIT_u64), n);
    cr_assert_eq(only(jit_count(support_literal(JIT_bool, 1, n - 1)), JIT_u32), n - 1);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/* ---- places of extremes ---- */

/** The element as a float: exact for all floats. */
static double float_of(jit_dtype t, uint64_t bits) {
    double d;
    switch (t) {
        case JIT_f16: return jitc_f16_to_f32((uint16_t) bits);
        case JIT_bf16: return jitc_bf16_to_f32((uint16_t) bits);
        case JIT_f32: return jitc_f32_from_bits((uint32_t) bits);
        default: memcpy(&d, &bits, sizeof d); return d;
    }
}

/** Is a before b: strictly, where NaN is before all else? */
static bool before(jit_dtype t, uint64_t a, uint64_t b, bool largest) {
    if (jitc_dtypes[t].cls == JITC_FLOAT) {
        double x = float_of(t, a), y = float_of(t, b);
        if (isnan(x) || isnan(y))
            return isnan(x) && !isnan(y);
        return largest ? x > y : x < y;
    }
    if (jitc_dtypes[t].cls == JITC_INT) { /* move the sign bit to the top, and flip it */
        unsigned shift = 64u - jitc_dtypes[t].bits;
        a = a << shift ^ (uint64_t) 1 << 63;
        b = b << shift ^ (uint64_t) 1 << 63;
    }
    return largest ? a > b : a < b;
}

static size_t extreme(jit_dtype t, const uint64_t *bits, size_t n, bool largest) {
    size_t best = 0;
    for (size_t i = 1; i < n; ++i)
        best = before(t, bits[i], bits[best], largest) ? i : best;
    return best;
}

static void check_extremes(jit_dtype t, const uint64_t *bits, size_t n, jit_var v) {
    size_t least = extreme(t, bits, n, false), most = extreme(t, bits, n, true);
    uint64_t got = only(jit_argmin(v), JIT_u32);
    cr_assert_eq(got, least, "argmin of %zu %s: %lu, not %zu", n, jit_dtype_name(t), got, least);
    got = only(jit_argmax(v), JIT_u32);
    cr_assert_eq(got, most, "argmax of %zu %s: %lu, not %zu", n, jit_dtype_name(t), got, most);
}

/** Edge values that begin somewhere in the middle, twice over: each has an equal one. */
Test(array_reduce, extremes_of_edge_values_are_the_first_ones) {
    FOR_TYPES(t) {
        values edges = values_edges(t);
        values_thin(&edges, 60);
        size_t n = 2 * edges.count;
        uint64_t *bits = malloc(n * sizeof *bits);
        for (int nans = 0; nans < 2; ++nans) {
            for (size_t i = 0; i < n; ++i) {
                bits[i] = edges.bits[(i * 7 + 11) % edges.count];
                if (!nans && jitc_dtypes[t].cls == JITC_FLOAT && isnan(float_of(t, bits[i])))
                    bits[i] = 0;
            }
            jit_scope_push();
            jit_var v = support_array(t, bits, n);
            check_extremes(t, bits, n, v);
            check_extremes(t, bits, 1, jit_slice(v, 0, 1, 1));
            ASSERT_OK(jit_scope_pop(0, NULL));
        }
        free(bits);
        free(edges.bits);
    }
}

Test(array_reduce, zeros_of_both_signs_are_equal) {
    const double zeros[] = {1, 0.0, -0.0, 2}, negative[] = {-1, 0.0, -0.0, -2};
    static const jit_dtype types[] = {JIT_f16, JIT_bf16, JIT_f32, JIT_f64};
    for (size_t k = 0; k < COUNT_OF(types); ++k) {
        jit_scope_push();
        jit_var v = jit_cast(jit_from_host(B, JIT_f64, zeros, 4), types[k]);
        cr_assert_eq(only(jit_argmin(v), JIT_u32), 1);
        cr_assert_eq(only(jit_argmin(jit_reverse(v)), JIT_u32), 1);
        v = jit_cast(jit_from_host(B, JIT_f64, negative, 4), types[k]);
        cr_assert_eq(only(jit_argmax(v), JIT_u32), 1);
        cr_assert_eq(only(jit_argmax(jit_reverse(v)), JIT_u32), 1);
        ASSERT_OK(jit_scope_pop(0, NULL));
    }
}

/** The smallest differences count. */
Test(array_reduce, neighbours_are_told_apart) {
    FOR_TYPES(t)
    for (unsigned top = 0; top < 32 && t != JIT_bool; top += 5) { /* all signs and sizes */
        uint64_t bits = jitc_bits_mask(t) / 31 * top;
        if (jitc_dtypes[t].cls == JITC_FLOAT && isnan(float_of(t, bits | 1)))
            continue;
        const uint64_t up[] = {bits & ~(uint64_t) 1, bits | 1}, down[] = {up[1], up[0]};
        jit_scope_push();
        check_extremes(t, up, 2, support_array(t, up, 2));
        check_extremes(t, down, 2, support_array(t, down, 2));
        ASSERT_OK(jit_scope_pop(0, NULL));
    }
}

/* More lanes than a block, and operands that are computed on the way. */
Test(array_reduce, extremes_of_many_computed_elements) {
    enum { N = 70001 };
    static const jit_dtype types[] = {JIT_i16, JIT_f32, JIT_u64, JIT_f64};
    for (size_t k = 0; k < COUNT_OF(types); ++k) {
        jit_scope_push();
        jit_var v = jit_mul(jit_counter(B, N), jit_u32(B, 2654435761u));
        v = jit_cast(jit_cast(jit_shr(v, jit_u32(B, 12)), types[k]), types[k]);
        uint64_t *bits = support_read(v, N);
        jit_var again = jit_bitcast(jit_bitcast(v, types[k]), types[k]);
        check_extremes(types[k], bits, N, v);
        check_extremes(types[k], bits, N, again);
        free(bits);
        ASSERT_OK(jit_scope_pop(0, NULL));
    }
}

Test(array_reduce, extremes_of_literals_and_counters) {
    jit_scope_push();
    cr_assert_eq(only(jit_argmin(support_literal(JIT_f32, 0x40000000, 9)), JIT_u32), 0);
    cr_assert_eq(only(jit_argmax(support_literal(JIT_i64, 77, 9)), JIT_u32), 0);
    cr_assert_eq(only(jit_argmin(jit_counter(B, 9)), JIT_u32), 0);
    cr_assert_eq(only(jit_argmax(jit_counter(B, 9)), JIT_u32), 8);
    cr_assert_eq(only(jit_argmax(jit_f16(B, 3)), JIT_u32), 0);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/* ---- errors ---- */

static void expect_error(jit_var v, jit_status status, const char *words) {
    cr_assert_eq(v, 0);
    cr_assert_eq(jit_error_status(), status, "%s", jit_error());
    cr_assert_not_null(strstr(jit_error(), words), "%s", jit_error());
    jit_error_clear();
}

Test(array_reduce, errors_name_what_is_wrong) {
    jit_var empty = support_literal(JIT_f32, 0, 0), v = support_literal(JIT_f32, 0, 3);
    jit_var w = support_literal(JIT_u32, 0, 3);
    expect_error(jit_argmin(empty), JIT_INVALID_ARGUMENT, "jit_argmin");
    expect_error(jit_argmax(empty), JIT_INVALID_ARGUMENT, "empty");
    expect_error(jit_any(v), JIT_TYPE_MISMATCH, "jit_any");
    expect_error(jit_all(v), JIT_TYPE_MISMATCH, "f32");
    expect_error(jit_count(v), JIT_TYPE_MISMATCH, "bool");
    expect_error(jit_dot(v, w), JIT_TYPE_MISMATCH, "f32 and u32");
    expect_error(jit_dot(v, 0), JIT_INVALID_HANDLE, "");
    expect_error(jit_mean(0), JIT_INVALID_HANDLE, "jit_mean");
    expect_error(jit_sum(0), JIT_INVALID_HANDLE, "");
    jit_unref(empty);
    jit_unref(v);
    jit_unref(w);
    jit_stats s;
    ASSERT_OK(jit_get_stats(&s));
    cr_assert_eq(s.variables, 0);
}
