/* test_scatter_reduce.c: jit_scatter_reduce() and jit_scatter_inc() through the public interface.
 * Layer: tests. */
#include "combine_total.h"
#include <stdlib.h>
#include <string.h>

static void start_backend(void) {
    support_init();
}
TestSuite(scatter_reduce, .init = start_backend, .fini = support_shutdown);

enum { TARGET = 37 };

static jit_var array(jit_dtype t, const uint64_t *bits, size_t n) {
    jit_var v = support_array(t, bits, n);
    ASSERT_VAR(v);
    return v;
}

/* Where lane i goes: all over, to one element, or (seldom) out of range. */
static uint64_t place(size_t i, unsigned pattern) {
    return pattern == 0 ? i * 7 % TARGET : pattern == 1 ? 5 : i * 13 % (TARGET + 2);
}
static bool is_masked(size_t i, unsigned pattern) {
    return pattern == 2 && i % 3 == 1;
}

static void scatter(jit_reduce_op op, jit_dtype t, size_t n, unsigned pattern) {
    uint64_t *before = elements_of(SMALL, op, t, 100, TARGET), *got;
    uint64_t *values = elements_of(SMALL, op, t, 200, n), *mask = calloc(n + 1, sizeof *mask);
    uint64_t *index = calloc(n + 1, sizeof *index);
    total s[TARGET];
    for (size_t i = 0; i < TARGET; ++i) {
        s[i] = total_start(op, t);
        s[i].stepwise = true;
        total_add(&s[i], before[i]);
    }
    for (size_t i = 0; i < n; ++i) {
        index[i] = place(i, pattern);
        mask[i] = !is_masked(i, pattern);
        if (mask[i] && index[i] < TARGET)
            total_add(&s[index[i]], values[i]);
    }
    jit_var v[5] = {array(t, before, TARGET), array(t, values, n), array(JIT_u32, index, n),
                    pattern == 2 ? array(JIT_bool, mask, n) : 0, 0};
    v[4] = jit_scatter_reduce(op, v[0], v[1], v[2], v[3]);
    ASSERT_VAR(v[4]);
    got = support_read(v[4], TARGET);
    for (size_t i = 0; i < TARGET; ++i)
        if (s[i].count == 1) /* not touched: also NaN and zero keep their bits */
            cr_assert_eq(got[i], before[i]);
        else
            total_check(&s[i], got[i], "scatter_reduce", i);
    free(got);
    got = support_read(v[0], TARGET); /* stays as it was */
    cr_assert_arr_eq(got, before, TARGET * sizeof *got);
    free(got);
    for (int i = 0; i < 5; ++i)
        jit_unref(v[i]);
    free(before);
    free(values);
    free(mask);
    free(index);
}

Test(scatter_reduce, every_lane_counts_once) {
    FOR_TYPES(t)
    FOR_REDUCTIONS(op)
    if (jitc_reduce_accepts(op, t)) {
        bool few = jitc_dtypes[t].cls == JITC_FLOAT && op == JIT_REDUCE_MUL; /* else overflow */
        for (unsigned pattern = 0; pattern < 3; ++pattern)
            scatter(op, t, few ? 40 : 300, pattern);
        scatter(op, t, 1, 0);
        scatter(op, t, 0, 0);
    }
}

/** As many lanes as keep all threads busy, at one element and at many. */
Test(scatter_reduce, many_lanes_at_once) {
    enum { LANES = 200000 };
    for (uint32_t bins = 1; bins <= 100000; bins *= 10) {
        jit_backend b = support_backend();
        jit_var i = jit_mod(jit_mul(jit_counter(b, LANES), jit_u32(b, 7)), jit_u32(b, bins));
        jit_var none = support_literal(JIT_u32, 0, bins);
        uint64_t *got =
            support_read(jit_scatter_reduce(JIT_REDUCE_ADD, none, jit_u32(b, 1), i, 0), bins);
        for (uint32_t k = 0; k < bins; ++k)
            cr_assert_eq(got[k], LANES / bins, "%u of %u: %u", k, bins, (unsigned) got[k]);
        free(got);
    }
}

/** One element is combined with all lanes' values, which is a reduction too. */
Test(scatter_reduce, to_one_element_is_a_reduction) {
    enum { N = 5000 };
    uint64_t *a = elements_of(SMALL, JIT_REDUCE_ADD, JIT_f32, 0, N), *got;
    jit_var x = array(JIT_f32, a, N), zero = support_literal(JIT_f32, 0, 1);
    jit_var y = jit_scatter_reduce(JIT_REDUCE_ADD, zero, x, jit_u32(support_backend(), 0), 0);
    total s = total_start(JIT_REDUCE_ADD, JIT_f32);
    s.stepwise = true;
    for (size_t i = 0; i < N; ++i)
        total_add(&s, a[i]);
    got = support_read(y, 1);
    total_check(&s, *got, "scatter_reduce", 0);
    free(got);
    free(a);
}

static void *address(jit_var v) {
    void *p;
    ASSERT_OK(jit_data(v, &p));
    return p;
}

/** In the memory of the target if nobody has it any more; else the target stays. */
Test(scatter_reduce, works_in_place_where_nobody_can_tell) {
    const uint64_t start[4] = {1, 2, 3, 4}, ones[4] = {1, 1, 1, 1}, at[4] = {2, 2, 0, 9};
    for (int kept = 0; kept < 2; ++kept) {
        jit_var t = array(JIT_i32, start, 4), v = array(JIT_i32, ones, 4);
        jit_var i = array(JIT_u32, at, 4);
        void *before = address(t);
        jit_var u = jit_scatter_reduce(JIT_REDUCE_ADD, t, v, i, 0);
        if (!kept)
            jit_unref(t);
        cr_assert_eq(address(u) == before, !kept);
        uint64_t *got = support_read(u, 4);
        cr_assert(got[0] == 2 && got[1] == 2 && got[2] == 5 && got[3] == 4);
        free(got);
        if (kept) {
            got = support_read(t, 4);
            cr_assert_arr_eq(got, start, sizeof start);
            free(got);
            jit_unref(t);
        }
        jit_unref(u);
        jit_unref(v);
        jit_unref(i);
    }
}

Test(scatter_reduce, bounds_are_reported) {
    const uint64_t start[4] = {1, 2, 3, 4}, at[3] = {1, 4, 2};
    ASSERT_OK(jit_set_option("bounds_check", "1"));
    jit_var t = array(JIT_u32, start, 4), i = array(JIT_u32, at, 3), old;
    jit_var u = jit_scatter_reduce(JIT_REDUCE_MAX, t, jit_u32(support_backend(), 9), i, 0);
    cr_assert_eq(jit_var_eval(u), JIT_OUT_OF_BOUNDS);
    cr_assert_str_eq(jit_error(), "jit_scatter_reduce: index 4 lies outside of the array of 4 u32");
    jit_error_clear();
    jit_unref(u);
    u = jit_ref(t);
    old = jit_scatter_inc(&u, i, 0);
    cr_assert_eq(jit_var_eval(old), JIT_OUT_OF_BOUNDS);
    jit_error_clear();
    ASSERT_OK(jit_set_option("bounds_check", "0"));
    uint64_t *got = support_read(old, 3); /* nothing was half done */
    cr_assert(got[0] == 2 && got[1] == 0 && got[2] == 3);
    free(got);
    got = support_read(u, 4);
    cr_assert(got[0] == 1 && got[1] == 3 && got[2] == 4 && got[3] == 4);
    free(got);
    jit_unref(t);
    jit_unref(u);
    jit_unref(i);
    jit_unref(old);
}

/* ---- jit_scatter_inc ---- */

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;
    return (x > y) - (x < y);
}

/* The lanes of each element have got first, first + 1, ..., in any order. */
static void check_places(const uint64_t *old, size_t n, unsigned pattern, const uint64_t *first,
                         uint64_t mask) {
    uint64_t *at = calloc(n + 1, sizeof *at);
    for (size_t e = 0; e < TARGET; ++e) {
        size_t count = 0;
        for (size_t i = 0; i < n; ++i)
            if (place(i, pattern) == e && !is_masked(i, pattern))
                at[count++] = (old[i] - first[e]) & mask;
        qsort(at, count, sizeof *at, compare);
        for (size_t k = 0; k < count; ++k)
            cr_assert_eq(at[k], k & mask, "element %zu, place %zu", e, k);
    }
    free(at);
    for (size_t i = 0; i < n; ++i)
        if (is_masked(i, pattern) || place(i, pattern) >= TARGET)
            cr_assert_eq(old[i], 0);
}

static void increment(jit_dtype t, size_t n, unsigned pattern) {
    uint64_t *before = elements_of(SMALL, JIT_REDUCE_ADD, t, 100, TARGET), *got;
    uint64_t *index = calloc(n + 1, sizeof *index), *mask = calloc(n + 1, sizeof *mask);
    for (size_t i = 0; i < n; ++i) {
        index[i] = place(i, pattern);
        mask[i] = !is_masked(i, pattern);
    }
    jit_var target = array(t, before, TARGET), i = array(JIT_i64, index, n);
    jit_var m = pattern == 2 ? array(JIT_bool, mask, n) : 0;
    jit_var old = jit_scatter_inc(&target, i, m);
    ASSERT_VAR(old);
    cr_assert_eq(jit_type(old), t);
    cr_assert_eq(jit_size(target), TARGET);
    got = support_read(old, n);
    check_places(got, n, pattern, before, jitc_bits_mask(t));
    free(got);
    got = support_read(target, TARGET);
    for (size_t e = 0; e < TARGET; ++e) {
        uint64_t count = 0;
        for (size_t k = 0; k < n; ++k)
            count += index[k] == e && mask[k];
        cr_assert_eq(got[e], (before[e] + count) & jitc_bits_mask(t));
    }
    free(got);
    jit_unref(target);
    jit_unref(old);
    jit_unref(i);
    jit_unref(m);
    free(before);
    free(index);
    free(mask);
}

Test(scatter_reduce, increments_give_each_lane_a_place) {
    FOR_TYPES(t)
    if (jitc_dtypes[t].cls & JITC_DOMAIN_INTEGER && jitc_dtypes[t].bits > 8)
        for (unsigned pattern = 0; pattern < 3; ++pattern)
            increment(t, t == JIT_u32 ? 3000 : 200, pattern);
}

/** Lists of what goes to each element: counting, then sums of the counts, then places. */
Test(scatter_reduce, places_make_lists) {
    enum { N = 1000 };
    jit_backend b = support_backend();
    jit_var i = jit_counter(b, N), bin = jit_mod(jit_mul(i, jit_u32(b, 7)), jit_u32(b, TARGET));
    jit_var counts = support_literal(JIT_u32, 0, TARGET),
            place_in = jit_scatter_inc(&counts, bin, 0);
    jit_var begin = jit_prefix_reduce(JIT_REDUCE_ADD, counts, true, false);
    jit_var at = jit_add(jit_gather(begin, bin, 0), place_in);
    jit_var lists = jit_scatter(support_literal(JIT_u32, 0, N), bin, at, 0);
    uint64_t *got = support_read(lists, N);
    for (size_t k = 1; k < N; ++k)
        cr_assert_leq(got[k - 1], got[k]);
    cr_assert(got[0] == 0 && got[N - 1] == TARGET - 1);
    free(got);
}

/** The same call on the same array is the same result, and not another increment. */
Test(scatter_reduce, increments_are_functions_of_their_operands) {
    const uint64_t start[4] = {10, 20, 30, 40}, at[3] = {1, 1, 2};
    jit_var t = array(JIT_u32, start, 4), i = array(JIT_u32, at, 3), a = jit_ref(t), c = jit_ref(t);
    jit_var x = jit_scatter_inc(&a, i, 0), y = jit_scatter_inc(&c, i, 0);
    cr_assert_eq(a, c);
    cr_assert_eq(x, y);
    jit_var z = jit_scatter_inc(&c, i, 0); /* of the updated one */
    cr_assert_neq(z, x);
    uint64_t *got = support_read(c, 4);
    cr_assert(got[0] == 10 && got[1] == 24 && got[2] == 32 && got[3] == 40);
    free(got);
    got = support_read(z, 3);
    cr_assert(got[0] + got[1] == 22 + 23 && got[2] == 31);
    free(got);
    got = support_read(t, 4);
    cr_assert_arr_eq(got, start, sizeof start);
    free(got);
}

/** Either result may be wanted alone, in any order. */
Test(scatter_reduce, either_result_may_be_read_first) {
    const uint64_t start[4] = {10, 20, 30, 40}, at[3] = {1, 1, 2};
    for (int order = 0; order < 4; ++order) {
        jit_var t = array(JIT_u32, start, 4), i = array(JIT_u32, at, 3);
        jit_var old = jit_scatter_inc(&t, i, 0);
        if (order & 2) { /* one is dropped */
            jit_unref(order & 1 ? old : t);
            *(order & 1 ? &old : &t) = 0;
        }
        for (int k = 0; k < 2; ++k) {
            bool first = (k ^ order) & 1;
            uint64_t *got = first ? (old ? support_read(old, 3) : NULL)
                            : t   ? support_read(t, 4)
                                  : NULL;
            if (got && first)
                cr_assert(got[0] + got[1] == 20 + 21 && got[2] == 30);
            else if (got)
                cr_assert(got[1] == 22 && got[2] == 31);
            free(got);
        }
        jit_unref(old);
        jit_unref(t);
        jit_unref(i);
    }
}

Test(scatter_reduce, failed_increments_leave_the_target) {
    const uint64_t start[4] = {10, 20, 30, 40};
    jit_var t = array(JIT_f32, start, 4), i = array(JIT_u32, start, 4), same = t;
    cr_assert_eq(jit_scatter_inc(&t, i, 0), 0);
    cr_assert_eq(jit_error_status(), JIT_TYPE_MISMATCH);
    cr_assert_eq(t, same);
    cr_assert_eq(jit_size(t), 4);
    jit_error_clear();
    cr_assert_eq(jit_scatter_inc(NULL, i, 0), 0);
    cr_assert_eq(jit_error_status(), JIT_INVALID_ARGUMENT);
    jit_error_clear();
    same = 0;
    cr_assert_eq(jit_scatter_inc(&same, i, 0), 0);
    cr_assert_eq(jit_error_status(), JIT_INVALID_HANDLE);
    jit_error_clear();
    jit_unref(t);
    jit_unref(i);
}
