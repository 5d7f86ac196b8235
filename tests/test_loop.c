/* test_loop.c: loops and branches inside of kernels, against references computed here.
 * What goes wrong is in test_loop_errors.c, the programs in test_loop_plan.c. */
#include "loop_world.h"
#include "programs.h"
#include "values.h"
#include <jit/array.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(loop, .init = loop_world_begin, .fini = loop_world_end);

static jit_var lit(uint32_t v) {
    return jit_u32(B, v);
}

/* Steps from x to 1. */
static void collatz(jit_var x, jit_var *steps, jit_var *last) {
    jit_var s[] = {x, lit(0)};
    jit_loop *l = jit_loop_begin(2, s);
    jit_loop_condition(l, jit_ne(s[0], lit(1)));
    jit_var odd = jit_ne(jit_and(s[0], lit(1)), lit(0));
    jit_var up = jit_add(jit_mul(s[0], lit(3)), lit(1));
    s[0] = jit_select(odd, up, jit_shr(s[0], lit(1)));
    s[1] = jit_add(s[1], lit(1));
    cr_assert_eq(jit_loop_end(l, 2, s), JIT_OK, "%s", jit_error());
    *last = s[0];
    *steps = s[1];
}

static uint32_t collatz_steps(uint32_t x) {
    uint32_t steps = 0;
    for (; x != 1; ++steps)
        x = x & 1 ? 3 * x + 1 : x >> 1;
    return steps;
}

static jit_status give_seven(void *context, size_t n_args, const jit_var *args, size_t n_results,
                             jit_var *results) {
    (void) context, (void) n_args, (void) args, (void) n_results;
    results[0] = jit_u32(B, 7);
    return JIT_OK;
}

Test(loop, results_of_a_call_have_an_element_for_each_lane) {
    static const size_t sizes[] = {0, 1, 100};
    const jit_callable seven = {give_seven, NULL};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; ++k) {
        jit_var result, arg = jit_counter(B, sizes[k]);
        ASSERT_OK(
            jit_switch(support_literal(JIT_u32, 0, sizes[k]), 1, &seven, 1, &arg, 1, &result));
        uint64_t *got = support_read(result, sizes[k]);
        for (size_t i = 0; i < sizes[k]; ++i)
            cr_assert_eq(got[i], 7);
        free(got);
    }
}

/* Also where it is known which lanes go in: one value is one for each lane. */
Test(loop, results_have_an_element_for_each_lane) {
    static const size_t sizes[] = {0, 1, 100};
    for (int known = 0; known < 4; ++known)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; ++k) {
            size_t n = sizes[k];
            bool enter = known & 1, one_at_start = known & 2;
            uint32_t expected[100];
            jit_var s[] = {one_at_start ? jit_u32(B, 5) : jit_counter(B, n)};
            jit_var more = one_at_start ? jit_counter(B, n) : jit_u32(B, 7);
            jit_if *branch = jit_if_begin(support_literal(JIT_bool, enter, n), 1, s);
            s[0] = more;
            ASSERT_OK(jit_if_end(branch, 1, s));
            for (uint32_t i = 0; i < n; ++i)
                expected[i] = one_at_start ? (enter ? i : 5) : enter ? 7 : i;
            uint64_t *got = support_read(s[0], n);
            for (size_t i = 0; i < n; ++i)
                cr_assert_eq(got[i], expected[i]);
            free(got);
        }
}

/* An array of a loop is one, and keeps its size, if nothing is stored into it. */
Test(loop, arrays_into_which_no_lane_stores) {
    for (int nobody = 0; nobody < 2; ++nobody) {
        size_t lanes = nobody ? 5 : 0;
        jit_var s[] = {jit_counter(B, 7), support_literal(JIT_u32, 0, lanes)};
        jit_if *branch = jit_if_begin(jit_lt(jit_counter(B, lanes), jit_u32(B, 3)), 2, s);
        s[0] = jit_scatter(s[0], jit_u32(B, 9), jit_counter(B, lanes), jit_bool(B, !nobody));
        ASSERT_OK(jit_if_end(branch, 2, s));
        cr_assert_eq(jit_size(s[0]), 7);
        cr_assert_eq(jit_size(s[1]), lanes);
        uint64_t *got = support_read(s[0], 7);
        for (size_t i = 0; i < 7; ++i)
            cr_assert_eq(got[i], i);
        free(got);
    }
}

Test(loop, lanes_leave_one_by_one) {
    static const size_t sizes[] = {1, 2, 17, 1000, 100003};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; ++k) {
        size_t n = sizes[k];
        uint32_t *steps = malloc(2 * n * sizeof *steps), *ones = steps + n;
        jit_var v, last, x = jit_add(jit_counter(B, n), lit(1));
        for (size_t i = 0; i < n; ++i) {
            steps[i] = collatz_steps((uint32_t) i + 1);
            ones[i] = 1;
        }
        uint64_t before = loop_world_launches();
        collatz(x, &v, &last);
        cr_assert_eq(loop_world_launches(), before);
        jit_schedule(last);
        loop_world_expect_u32(v, n, steps, "steps");
        cr_assert_eq(loop_world_launches(), before + 1, "both results come from one kernel");
        loop_world_expect_u32(last, n, ones, "last");
        cr_assert_eq(loop_world_launches(), before + 1);
        free(steps);
    }
}

Test(loop, a_long_loop_over_many_lanes) {
    size_t n = ((size_t) 1 << 20) + 7;
    uint32_t *expected = malloc(n * sizeof *expected), *found = malloc(n * sizeof *found);
    jit_var s[] = {jit_counter(B, n), lit(0)};
    jit_loop *l = jit_loop_begin(2, s);
    jit_loop_condition(l, jit_lt(s[1], jit_and(s[0], lit(7))));
    s[0] = jit_add(s[0], lit(8));
    s[1] = jit_add(s[1], lit(1));
    ASSERT_OK(jit_loop_end(l, 2, s));
    ASSERT_OK(jit_read(s[0], found));
    for (size_t i = 0; i < n; ++i)
        expected[i] = (uint32_t) i + 8 * ((uint32_t) i & 7);
    cr_assert_arr_eq(found, expected, n * sizeof *found);
    free(found);
    free(expected);
}

/* sqrt(x) by newton's iteration: floats, and a condition that is not about a counter. */
Test(loop, newton_iterations_until_each_lane_converges) {
    enum { N = 300 };
    float x[N], expected[N];
    for (int i = 0; i < N; ++i) {
        x[i] = expf((float) i / 20 - 7);
        float y = x[i], before = 0;
        for (int k = 0; k < 40 && fabsf(y - before) > 1e-6f * y; ++k) {
            before = y;
            y = 0.5f * (y + x[i] / y);
        }
        expected[i] = y;
    }
    jit_var v = jit_from_host(B, JIT_f32, x, N), s[] = {v, jit_f32(B, 0), lit(0)};
    jit_loop *l = jit_loop_begin(3, s);
    jit_var apart = jit_gt(jit_abs(jit_sub(s[0], s[1])), jit_mul(jit_f32(B, 1e-6f), s[0]));
    jit_loop_condition(l, jit_and(jit_lt(s[2], lit(40)), apart));
    s[1] = s[0];
    s[0] = jit_mul(jit_f32(B, 0.5f), jit_add(s[0], jit_div(v, s[0])));
    s[2] = jit_add(s[2], lit(1));
    ASSERT_OK(jit_loop_end(l, 3, s));
    loop_world_expect_f32(s[0], N, expected, "roots");
}

static uint32_t escape_time(float cx, float cy) {
    uint32_t n = 0;
    for (float x = 0, y = 0; n < 50 && x * x + y * y <= 4; ++n) {
        float next = x * x - y * y + cx;
        y = 2 * (x * y) + cy;
        x = next;
    }
    return n;
}

Test(loop, mandelbrot) {
    enum { N = 40 };
    uint32_t expected[N * N];
    for (int i = 0; i < N * N; ++i)
        expected[i] = escape_time((float) (i % N) * 0.0625f - 2, (float) (i / N) * 0.0625f - 1.25f);
    jit_var i = jit_counter(B, N * N), zero = jit_f32(B, 0);
    jit_var cx = jit_cast(jit_mod(i, lit(N)), JIT_f32), cy = jit_cast(jit_div(i, lit(N)), JIT_f32);
    cx = jit_sub(jit_mul(cx, jit_f32(B, 0.0625f)), jit_f32(B, 2));
    cy = jit_sub(jit_mul(cy, jit_f32(B, 0.0625f)), jit_f32(B, 1.25f));
    jit_var s[] = {zero, zero, lit(0)};
    jit_loop *l = jit_loop_begin(3, s);
    jit_var xx = jit_mul(s[0], s[0]), yy = jit_mul(s[1], s[1]);
    jit_var inside = jit_le(jit_add(xx, yy), jit_f32(B, 4));
    jit_loop_condition(l, jit_and(inside, jit_lt(s[2], lit(50))));
    jit_var xy = jit_mul(s[0], s[1]);
    s[0] = jit_add(jit_sub(xx, yy), cx);
    s[1] = jit_add(jit_mul(jit_f32(B, 2), xy), cy);
    s[2] = jit_add(s[2], lit(1));
    ASSERT_OK(jit_loop_end(l, 3, s));
    loop_world_expect_u32(s[2], N * N, expected, "iterations");
}

/* States change places, and one stays as it is. */
Test(loop, all_states_change_at_once) {
    enum { N = 20 };
    uint32_t expected[N];
    for (uint32_t i = 0; i < N; ++i) {
        uint32_t a = 0, b = 1;
        for (uint32_t k = 0; k < i; ++k) {
            uint32_t sum = a + b;
            a = b;
            b = sum;
        }
        expected[i] = a;
    }
    jit_var limit = jit_counter(B, N), s[] = {lit(0), lit(1), lit(0), limit};
    jit_loop *l = jit_loop_begin(4, s);
    jit_loop_condition(l, jit_lt(s[2], s[3]));
    jit_var a = s[0], b = s[1];
    s[0] = b;
    s[1] = jit_add(a, b);
    s[2] = jit_add(s[2], lit(1));
    ASSERT_OK(jit_loop_end(l, 4, s));
    loop_world_expect_u32(s[0], N, expected, "fibonacci");
    cr_assert_eq(s[3], limit, "a state that does not change is what it was");
}

/* A state of each type goes through a branch in a loop. */
Test(loop, states_of_all_types) {
    for (int t = 0; t < JITC_DTYPE_COUNT; ++t) {
        values v = values_edges((jit_dtype) t);
        values_thin(&v, 60);
        uint64_t *expected = malloc(v.count * sizeof *expected);
        for (size_t i = 0; i < v.count; ++i)
            expected[i] = v.bits[i % 3 == 2 ? v.count - 1 - i : i];
        jit_var there = support_array((jit_dtype) t, v.bits, v.count);
        for (size_t i = 0; i < v.count / 2; ++i) {
            uint64_t other = v.bits[i];
            v.bits[i] = v.bits[v.count - 1 - i];
            v.bits[v.count - 1 - i] = other;
        }
        jit_var back = support_array((jit_dtype) t, v.bits, v.count);
        jit_var s[] = {there, back, jit_mod(jit_counter(B, v.count), lit(3)), lit(0)};
        jit_loop *l = jit_loop_begin(4, s);
        jit_loop_condition(l, jit_ne(s[2], lit(0)));
        jit_var inner[] = {s[0]};
        jit_if *f = jit_if_begin(jit_eq(s[2], lit(1)), 1, inner);
        inner[0] = jit_select(jit_eq(s[3], lit(0)), inner[0], s[1]);
        ASSERT_OK(jit_if_end(f, 1, inner));
        s[0] = inner[0];
        s[2] = jit_sub(s[2], lit(1));
        s[3] = jit_add(s[3], lit(1));
        ASSERT_OK(jit_loop_end(l, 4, s));
        loop_world_expect(s[0], v.count, expected, jit_dtype_name((jit_dtype) t));
        free(expected);
        free(v.bits);
    }
}

Test(loop, loops_nest_in_loops_and_branches) {
    enum { N = 50 };
    uint32_t expected[N];
    for (uint32_t i = 0; i < N; ++i) {
        uint32_t sum = 0;
        for (uint32_t a = 0; a < i % 5; ++a) {
            if (i & 1)
                for (uint32_t b = 0; b <= a; ++b)
                    sum += a * b + i;
            else
                sum += 1000;
        }
        expected[i] = sum;
    }
    jit_var i = jit_counter(B, N), s[] = {lit(0), lit(0)};
    jit_loop *outer = jit_loop_begin(2, s);
    jit_loop_condition(outer, jit_lt(s[1], jit_mod(i, lit(5))));
    jit_var branch[] = {s[0]};
    jit_if *f = jit_if_begin(jit_ne(jit_and(i, lit(1)), lit(0)), 1, branch);
    jit_var in[] = {branch[0], lit(0)};
    jit_loop *inner = jit_loop_begin(2, in);
    jit_loop_condition(inner, jit_le(in[1], s[1]));
    in[0] = jit_add(in[0], jit_add(jit_mul(s[1], in[1]), i));
    in[1] = jit_add(in[1], lit(1));
    ASSERT_OK(jit_loop_end(inner, 2, in));
    branch[0] = in[0];
    ASSERT_OK(jit_if_else(f, 1, branch));
    branch[0] = jit_add(branch[0], lit(1000));
    ASSERT_OK(jit_if_end(f, 1, branch));
    s[0] = branch[0];
    s[1] = jit_add(s[1], lit(1));
    ASSERT_OK(jit_loop_end(outer, 2, s));
    loop_world_expect_u32(s[0], N, expected, "sums");
}

/* What an inner loop computes without the outer one is computed before it. */
Test(loop, what_does_not_depend_on_a_loop_is_outside_of_it) {
    jit_var s[] = {lit(0), lit(0)}, i = jit_counter(B, 9), inner[] = {i};
    jit_loop *outer = jit_loop_begin(2, s);
    jit_loop_condition(outer, jit_lt(s[0], lit(3)));
    jit_loop *l = jit_loop_begin(1, inner);
    jit_loop_condition(l, jit_lt(inner[0], lit(100)));
    inner[0] = jit_mul(jit_add(inner[0], lit(1)), lit(3));
    ASSERT_OK(jit_loop_end(l, 1, inner));
    uint32_t expected[9], sums[9];
    for (uint32_t k = 0; k < 9; ++k) {
        expected[k] = k;
        while (expected[k] < 100)
            expected[k] = (expected[k] + 1) * 3;
        sums[k] = 3 * expected[k];
    }
    loop_world_expect_u32(inner[0], 9, expected, "evaluated while the outer loop is open");
    s[1] = jit_add(s[1], inner[0]);
    s[0] = jit_add(s[0], lit(1));
    ASSERT_OK(jit_loop_end(outer, 2, s));
    loop_world_expect_u32(s[1], 9, sums, "sums");
}

Test(loop, states_nobody_needs_are_left_out_and_dropped_loops_cost_nothing) {
    jit_var x = jit_counter(B, 10), s[] = {lit(0), x, x, x};
    uint32_t expected[10];
    jit_loop *l = jit_loop_begin(4, s);
    jit_loop_condition(l, jit_lt(s[0], lit(4)));
    s[0] = jit_add(s[0], lit(1));
    s[1] = jit_add(s[1], s[2]);
    s[2] = jit_mul(s[2], lit(2));
    s[3] = jit_div(s[3], lit(2));
    ASSERT_OK(jit_loop_end(l, 4, s));
    jitc_plan p = {0};
    loop_world_plan(&p, 1, &s[1]);
    cr_assert_eq(p.groups, 1);
    cr_assert_eq(loop_world_count(&p.group[0].program, JITC_OP_phi), 3, "not the fourth");
    cr_assert_eq(loop_world_count(&p.group[0].program, JITC_OP_div), 0);
    loop_world_drop(&p);
    for (uint32_t i = 0; i < 10; ++i)
        expected[i] = i + i * 15;
    loop_world_expect_u32(s[1], 10, expected, "the second state");
}

Test(loop, sizes_broadcast_and_results_have_the_size_of_the_lanes) {
    uint32_t expected[30], counts[30];
    for (uint32_t i = 0; i < 30; ++i)
        counts[i] = expected[i] = i % 4;
    jit_var s[] = {lit(0), lit(0)}, limit = jit_mod(jit_counter(B, 30), lit(4));
    jit_loop *l = jit_loop_begin(2, s);
    cr_assert_eq(jit_size(s[0]), 1);
    jit_loop_condition(l, jit_lt(s[0], limit));
    s[0] = jit_add(s[0], lit(1));
    s[1] = s[0];
    ASSERT_OK(jit_loop_end(l, 2, s));
    loop_world_expect_u32(s[0], 30, counts, "counter");
    loop_world_expect_u32(s[1], 30, expected, "its copy");
    jit_var one[] = {lit(7)};
    l = jit_loop_begin(1, one);
    jit_loop_condition(l, jit_lt(one[0], lit(1000)));
    one[0] = jit_mul(one[0], lit(3));
    ASSERT_OK(jit_loop_end(l, 1, one));
    jit_var sum = jit_add(one[0], jit_counter(B, 5)); /* the loop runs once, not in each lane */
    cr_assert_eq(loop_world_kernels(1, &sum), 2);
    loop_world_expect_u32(sum, 5, (uint32_t[]) {1701, 1702, 1703, 1704, 1705}, "sum");
    loop_world_expect_u32(one[0], 1, (uint32_t[]) {1701}, "one lane");
    jit_var none[] = {jit_literal(B, JIT_u32, &(uint32_t) {0}, 0)};
    l = jit_loop_begin(1, none);
    jit_loop_condition(l, jit_lt(none[0], lit(10)));
    none[0] = jit_add(none[0], lit(1));
    ASSERT_OK(jit_loop_end(l, 1, none));
    loop_world_expect_u32(none[0], 0, expected, "no lane");
}

Test(loop, no_lane_goes_in_where_the_condition_is_false_at_once) {
    uint32_t numbers[6] = {0, 1, 2, 3, 4, 5};
    jit_var x = jit_counter(B, 6), s[] = {x, lit(3)};
    jit_loop *l = jit_loop_begin(2, s);
    jit_loop_condition(l, jit_bool(B, false));
    s[0] = jit_add(s[0], lit(1));
    ASSERT_OK(jit_loop_end(l, 2, s));
    cr_assert_eq(s[0], x, "known already");
    jit_var t[] = {x};
    l = jit_loop_begin(1, t);
    jit_loop_condition(l, jit_gt(t[0], lit(100)));
    t[0] = jit_add(t[0], lit(1));
    ASSERT_OK(jit_loop_end(l, 1, t));
    loop_world_expect_u32(t[0], 6, numbers, "found out in each lane");
}

/* What a loop over one element gives is used in a kernel over more lanes, which is too long. */
Test(loop, over_one_element_in_a_kernel_that_would_be_cut) {
    static const char *const limits[] = {"2", "3", "5", "8", "12", "4096"};
    for (size_t k = 0; k < sizeof limits / sizeof *limits; ++k)
        for (int enters = 0; enters < 2; ++enters) {
            jit_scope_push();
            jit_set_option("kernel_ops", limits[k]);
            jit_var may = jit_from_host(B, JIT_bool, &(bool) {enters}, 1), s[] = {lit(0)};
            jit_loop *l = jit_loop_begin(1, s);
            jit_loop_condition(l, jit_and(jit_lt(s[0], lit(3)), may));
            s[0] = jit_add(s[0], lit(1));
            ASSERT_OK(jit_loop_end(l, 1, s));
            jit_var wide = jit_tile(jit_cast(s[0], JIT_u64), 4);
            jit_var more = jit_add(jit_mul(jit_xor(s[0], lit(5)), lit(3)), jit_counter(B, 4));
            uint32_t last = enters ? 3 : 0, first = (last ^ 5) * 3;
            uint64_t got[4];
            ASSERT_OK(jit_read(wide, got));
            for (int i = 0; i < 4; ++i)
                cr_assert_eq(got[i], last, "limit %s", limits[k]);
            loop_world_expect_u32(more, 4, (uint32_t[]) {first, first + 1, first + 2, first + 3},
                                  limits[k]);
            jit_scope_pop(0, NULL);
        }
    jit_set_option("kernel_ops", "4096");
}
