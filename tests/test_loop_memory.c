/* test_loop_memory.c: loops that gather and scatter, and their results in other kernels. */
#include "api/runtime.h"
#include "loop_world.h"
#include <stdlib.h>
#include <string.h>

static jit_var lit(uint32_t v) {
    return jit_u32(B, v);
}

static jit_var zeros(size_t n) {
    return jit_literal(B, JIT_u32, &(uint32_t) {0}, n);
}

TestSuite(loop_memory, .init = loop_world_begin, .fini = loop_world_end);

/* Neighbours of each vertex of a graph, from an array of offsets. */
Test(loop_memory, sums_over_gathered_neighbours) {
    enum { N = 100 };
    uint32_t offset[N + 1] = {0}, neighbour[N * 7], value[N], expected[N];
    for (uint32_t i = 0; i < N; ++i) {
        value[i] = i * i;
        expected[i] = 0;
        offset[i + 1] = offset[i] + i % 7;
        for (uint32_t k = offset[i]; k < offset[i + 1]; ++k)
            neighbour[k] = (i * 31 + k * 17) % N;
    }
    for (uint32_t i = 0; i < N; ++i)
        for (uint32_t k = offset[i]; k < offset[i + 1]; ++k)
            expected[i] += value[neighbour[k]];
    jit_var i = jit_counter(B, N), from = jit_from_host(B, JIT_u32, offset, N + 1);
    jit_var to = jit_from_host(B, JIT_u32, neighbour, offset[N]);
    jit_var squares = jit_mul(i, i); /* not in memory yet */
    jit_var end = jit_gather(from, jit_add(i, lit(1)), 0);
    jit_var s[] = {jit_gather(from, i, 0), lit(0), to};
    jit_loop *l = jit_loop_begin(3, s);
    jit_loop_condition(l, jit_lt(s[0], end));
    s[1] = jit_add(s[1], jit_gather(squares, jit_gather(s[2], s[0], 0), 0));
    s[0] = jit_add(s[0], lit(1));
    ASSERT_OK(jit_loop_end(l, 3, s));
    cr_assert_eq(s[2], to, "an array that is only indexed may be a state");
    loop_world_expect_u32(s[1], N, expected, "sums");
}

/* Only lanes that are in gather: an index out of range of the others is nobody's error. */
Test(loop_memory, lanes_that_have_left_touch_no_memory) {
    uint32_t table[5] = {1, 2, 3, 4, 5}, expected[10];
    jit_set_option("bounds_check", "1");
    jit_var source = jit_from_host(B, JIT_u32, table, 5), i = jit_counter(B, 10);
    jit_var s[] = {lit(0), i};
    jit_loop *l = jit_loop_begin(2, s);
    jit_loop_condition(l, jit_lt(s[1], lit(5)));
    s[0] = jit_add(s[0], jit_gather(source, s[1], 0));
    s[1] = jit_add(s[1], lit(1));
    ASSERT_OK(jit_loop_end(l, 2, s));
    for (uint32_t k = 0; k < 10; ++k) {
        expected[k] = 0;
        for (uint32_t m = k; m < 5; ++m)
            expected[k] += table[m];
    }
    loop_world_expect_u32(s[0], 10, expected, "sums");
    jit_var t[] = {lit(0), i};
    l = jit_loop_begin(2, t);
    jit_loop_condition(l, jit_lt(t[1], lit(6)));
    t[0] = jit_add(t[0], jit_gather(source, t[1], 0));
    t[1] = jit_add(t[1], lit(1));
    ASSERT_OK(jit_loop_end(l, 2, t));
    cr_assert_eq(jit_read(t[0], expected), JIT_OUT_OF_BOUNDS);
    jit_error_clear();
    jit_set_option("bounds_check", "0");
}

/* Lane i writes i + k to element 10 i + k, k < i; the array is another size than the lanes. */
static void scattering_loop(jit_var array, jit_var *updated, jit_var *count) {
    jit_var i = jit_counter(B, 10), s[] = {array, lit(0)};
    jit_loop *l = jit_loop_begin(2, s);
    jit_loop_condition(l, jit_lt(s[1], i));
    s[0] = jit_scatter(s[0], jit_add(i, s[1]), jit_add(jit_mul(i, lit(10)), s[1]), 0);
    s[1] = jit_add(s[1], lit(1));
    ASSERT_OK(jit_loop_end(l, 2, s));
    *updated = s[0];
    *count = s[1];
}

static void expect_scattered(jit_var v) {
    uint32_t expected[100] = {0};
    for (uint32_t i = 0; i < 10; ++i)
        for (uint32_t k = 0; k < i; ++k)
            expected[10 * i + k] = i + k;
    loop_world_expect_u32(v, 100, expected, "the array");
}

static const uint32_t numbers[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

Test(loop_memory, an_array_is_updated_and_the_old_one_stays) {
    uint32_t none[100] = {0};
    jit_var old = jit_from_host(B, JIT_u32, none, 100), updated, count;
    scattering_loop(old, &updated, &count);
    jit_schedule(count);
    expect_scattered(updated);
    loop_world_expect_u32(count, 10, numbers, "the other state");
    loop_world_expect_u32(old, 100, none, "the old array");
    scattering_loop(zeros(100), &updated, &count);
    loop_world_expect_u32(count, 10, numbers, "without the array");
    expect_scattered(updated);
    jit_var t[] = {jit_counter(B, 10)}; /* and as many elements as lanes */
    jit_loop *l = jit_loop_begin(1, t);
    jit_loop_condition(l, jit_lt(jit_counter(B, 10), lit(0)));
    t[0] = jit_scatter(t[0], lit(5), lit(1), 0);
    ASSERT_OK(jit_loop_end(l, 1, t));
    loop_world_expect_u32(t[0], 10, numbers, "no lane went in");
}

/* In place where nobody can tell; where the loop may run again it has the old array. */
Test(loop_memory, the_memory_of_an_array_is_reused_if_nobody_can_tell) {
    void *before, *after;
    jit_var updated, count, copy;
    for (int keep = 0; keep < 2; ++keep) {
        jit_scope_pop(0, NULL);
        jit_var array = jit_from_host(B, JIT_u32, (uint32_t[100]) {0}, 100);
        ASSERT_OK(jit_data(array, &before));
        jit_scope_push();
        scattering_loop(array, &updated, &count);
        copy = count;
        jit_scope_pop(keep ? 2 : 1, (jit_var[]) {updated, count});
        jit_unref(array);
        jit_var_eval(updated);
        ASSERT_OK(jit_data(updated, &after));
        cr_assert_eq(before == after, !keep);
        if (keep)
            loop_world_expect_u32(copy, 10, numbers, "what is computed by the loop as well");
        if (keep)
            jit_unref(copy);
        expect_scattered(updated);
        jit_unref(updated);
        jit_scope_push();
    }
}

/* A loop behind a loop sees all that the first has scattered. */
Test(loop_memory, loops_that_scatter_into_one_array_come_one_after_the_other) {
    uint32_t expected[10];
    jit_var i = jit_counter(B, 10), s[] = {zeros(10), lit(0)};
    for (uint32_t round = 0; round < 3; ++round) {
        jit_loop *l = jit_loop_begin(2, s);
        jit_loop_condition(l, jit_lt(s[1], lit(2)));
        jit_var index = jit_mod(jit_add(i, lit(3 * round)), lit(10));
        s[0] = jit_scatter(s[0], jit_add(i, lit(100 * round)), index, 0);
        s[1] = jit_add(s[1], lit(1));
        ASSERT_OK(jit_loop_end(l, 2, s));
        s[1] = lit(0);
    }
    for (uint32_t k = 0; k < 10; ++k)
        expected[(k + 6) % 10] = k + 200;
    loop_world_expect_u32(s[0], 10, expected, "the last round");
}

/* What combines lanes: i again, where i counts the lanes; or something that has one element. */
typedef enum combined { NOTHING, SORTED, SCANNED, BLOCKS, REDUCED, COMBINED } combined;

static jit_var combine(combined how, jit_var i) {
    switch (how) {
        case SORTED: return jit_sort(i, false, NULL);
        case SCANNED: return jit_prefix_reduce(JIT_REDUCE_MAX, i, false, false);
        case BLOCKS: return jit_block_reduce(JIT_REDUCE_MAX, i, 1);
        case REDUCED: return jit_add(i, jit_reduce(JIT_REDUCE_MIN, i));
        default: return i;
    }
}

enum { BESIDE = 33 };

/* Both branches add to the first array, each to one of the others, at a place that comes from what
 * combines lanes, before or in the branch; lane i takes the first if i is odd. The last state is a
 * value. */
static void branches_that_add(combined first, combined second, bool inside, jit_var s[4]) {
    jit_var i = jit_counter(B, BESIDE);
    jit_var at = combine(first, i), other = combine(second, i);
    for (int k = 0; k < 4; ++k)
        s[k] = k < 3 ? zeros(BESIDE) : lit(0);
    jit_if *f = jit_if_begin(jit_eq(jit_and(i, lit(1)), lit(1)), 4, s);
    if (inside)
        at = combine(first, i);
    s[0] = jit_scatter_reduce(JIT_REDUCE_ADD, s[0], lit(1), at, 0);
    s[1] = jit_scatter(s[1], at, at, 0);
    s[3] = at;
    ASSERT_OK(jit_if_else(f, 4, s));
    if (inside)
        other = combine(second, i);
    s[0] = jit_scatter_reduce(JIT_REDUCE_ADD, s[0], lit(2), other, 0);
    s[2] = jit_scatter(s[2], lit(7), other, 0);
    s[3] = jit_add(other, lit(100));
    ASSERT_OK(jit_if_end(f, 4, s));
}

/* The interpreter of loop_world.h does not combine lanes. */
static void expect_read(jit_var v, const uint32_t *expected, int k, int n) {
    uint32_t found[BESIDE];
    ASSERT_OK(jit_read(v, found));
    for (uint32_t i = 0; i < BESIDE; ++i)
        cr_assert_eq(found[i], expected[i], "form %d, state %d: element %u is %u, not %u", n, k, i,
                     found[i], expected[i]);
}

Test(loop_memory, branches_write_one_array_beside_what_combines_lanes, .timeout = 120) {
    enum { FORMS = COMBINED * COMBINED * 2 };
    uint32_t expected[4][BESIDE];
    for (uint32_t i = 0; i < BESIDE; ++i) {
        expected[0][i] = i % 2 ? 1 : 2;
        expected[1][i] = i % 2 ? i : 0;
        expected[2][i] = i % 2 ? 0 : 7;
        expected[3][i] = i % 2 ? i : i + 100;
    }
    for (int n = 0; n < FORMS * 15; ++n) { /* one or several are wanted at a time */
        int form = n % FORMS, wanted = n / FORMS + 1;
        jit_var s[4];
        branches_that_add((combined) (form % COMBINED), (combined) (form / COMBINED % COMBINED),
                          form >= FORMS / 2, s);
        for (int k = 0; k < 4; ++k)
            if (wanted >> k & 1)
                jit_schedule(s[k]);
        ASSERT_OK(jit_eval());
        for (int k = 3; k >= 0; --k)
            expect_read(s[k], expected[k], k, n);
    }
}

/* Lane i takes i mod 4 numbers from a counter, one in each iteration. */
static void taking_loop(size_t n, jit_var *counter, jit_var *sum) {
    jit_var i = jit_counter(B, n), s[] = {zeros(1), lit(0), lit(0)}, old;
    jit_loop *l = jit_loop_begin(3, s);
    jit_loop_condition(l, jit_lt(s[2], jit_and(i, lit(3))));
    old = jit_scatter_inc(&s[0], jit_mul(i, lit(0)), 0);
    s[1] = jit_add(s[1], old);
    s[2] = jit_add(s[2], lit(1));
    ASSERT_OK(jit_loop_end(l, 3, s));
    *counter = s[0];
    *sum = s[1];
}

Test(loop_memory, old_values_of_a_counter_are_all_different) {
    enum { N = 200, TAKEN = N / 4 * 6 };
    for (int keep = 0; keep < 2; ++keep) {
        jit_var counter, sum;
        uint32_t found[N], total = 0;
        taking_loop(N, &counter, &sum);
        if (keep)
            jit_schedule(counter);
        ASSERT_OK(jit_read(sum, found));
        for (uint32_t i = 0; i < N; ++i)
            total += found[i];
        cr_assert_eq(total, TAKEN * (TAKEN - 1) / 2, "each number once, not %u", total);
        if (keep)
            loop_world_expect_u32(counter, 1, (uint32_t[]) {TAKEN}, "counter");
    }
    jit_var counter, sum;
    taking_loop(N, &counter, &sum);
    jit_var all = jit_reduce(JIT_REDUCE_ADD, sum), both[] = {all, counter};
    jit_schedule(counter);
    loop_world_kernels(2, both);
    loop_world_expect_u32(all, 1, (uint32_t[]) {TAKEN * (TAKEN - 1) / 2}, "a reduction behind it");
}

Test(loop_memory, the_condition_does_not_depend_on_a_scatter) {
    jit_var s[] = {zeros(1), lit(0)}, old, i = jit_counter(B, 4);
    jit_loop *l = jit_loop_begin(2, s);
    old = jit_scatter_inc(&s[0], jit_mul(i, lit(0)), 0);
    jit_loop_condition(l, jit_lt(old, lit(10)));
    s[1] = jit_add(s[1], lit(1));
    ASSERT_OK(jit_loop_end(l, 2, s));
    cr_assert_eq(jit_var_eval(s[1]), JIT_INVALID_ARGUMENT);
    cr_assert(strstr(jit_error(), "condition"), "%s", jit_error());
    jit_error_clear();
}

/* An export evaluates another variable of the same value, which others may write to. */
Test(loop_memory, twins_of_a_result_have_memory_of_their_own) {
    jit_var updated, count;
    void *a, *b;
    scattering_loop(zeros(100), &updated, &count);
    jitc_graph *g = jitc_api_graph("test");
    jit_var twin = jitc_trace_twin(g, "test", updated), other = jitc_trace_twin(g, "test", count);
    jit_schedule(twin);
    jit_schedule(other);
    jit_schedule(count);
    expect_scattered(updated);
    expect_scattered(twin);
    ASSERT_OK(jit_data(updated, &a));
    ASSERT_OK(jit_data(twin, &b));
    cr_assert_neq(a, b);
    loop_world_expect_u32(other, 10, numbers, "a value");
}

/* ---- kernels ---- */

/* Steps from i down to 0 by 3, and their number; dear enough. */
static void stepping_loop(size_t n, jit_var *rest, jit_var *steps) {
    jit_var s[] = {jit_counter(B, n), lit(0)};
    jit_loop *l = jit_loop_begin(2, s);
    jit_loop_condition(l, jit_ge(s[0], lit(3)));
    s[0] = jit_sub(s[0], lit(3));
    s[1] = jit_add(s[1], lit(1));
    ASSERT_OK(jit_loop_end(l, 2, s));
    *rest = s[0];
    *steps = s[1];
}

static size_t loops_in(size_t n, const jit_var *v) {
    jitc_plan p = {0};
    size_t loops = 0;
    loop_world_plan(&p, n, v);
    for (size_t i = 0; i < p.groups; ++i)
        loops += loop_world_count(&p.group[i].program, JITC_OP_loop);
    loop_world_drop(&p);
    return loops;
}

Test(loop_memory, a_loop_runs_once_for_all_kernels_that_need_it) {
    uint32_t expected[50], sum = 0;
    jit_var rest, steps;
    stepping_loop(50, &rest, &steps);
    jit_var reversed = jit_gather(steps, jit_sub(lit(49), jit_counter(B, 50)), 0);
    jit_var both = jit_add(reversed, rest), total = jit_reduce(JIT_REDUCE_ADD, rest);
    jit_var half = jit_mul(rest, lit(2));
    cr_assert_eq(loops_in(1, &both), 1, "one result is gathered, the other is used behind that");
    jit_var all[] = {both, total, half};
    cr_assert_eq(loops_in(3, all), 1, "a reduction too");
    for (uint32_t i = 0; i < 50; ++i) {
        expected[i] = (49 - i) / 3 + i % 3;
        sum += i % 3;
    }
    loop_world_expect_u32(both, 50, expected, "both");
    (void) sum;
}

Test(loop_memory, two_loops_in_one_kernel_or_over_several_sizes) {
    uint32_t expected[20];
    jit_var a, b, c, d, e, f;
    stepping_loop(20, &a, &b);
    stepping_loop(20, &c, &d); /* a loop of its own */
    stepping_loop(30, &e, &f);
    jit_var sum = jit_add(b, jit_mul(d, lit(10)));
    cr_assert_eq(loop_world_kernels(1, &sum), 1);
    for (uint32_t i = 0; i < 20; ++i)
        expected[i] = 11 * (i / 3);
    jit_schedule(f);
    loop_world_expect_u32(sum, 20, expected, "sum");
    jit_var mixed = jit_add(jit_gather(f, lit(29), 0), a);
    for (uint32_t i = 0; i < 20; ++i)
        expected[i] = 9 + i % 3;
    loop_world_expect_u32(mixed, 20, expected, "mixed");
}

/* Long code around and inside of a loop: cut outside only. */
Test(loop_memory, a_loop_is_not_cut) {
    enum { N = 30, LONG = 40 };
    uint32_t expected[N];
    static const char *const limits[] = {"2", "5", "23", "60", "4096"};
    for (size_t k = 0; k < sizeof limits / sizeof *limits; ++k) {
        jit_set_option("kernel_ops", limits[k]);
        jit_var i = jit_counter(B, N), x = i, y;
        for (uint32_t m = 0; m < LONG; ++m)
            x = jit_add(jit_mul(x, lit(3)), lit(m));
        jit_var s[] = {x, lit(0)};
        jit_loop *l = jit_loop_begin(2, s);
        jit_loop_condition(l, jit_lt(s[1], jit_mod(i, lit(4))));
        for (uint32_t m = 0; m < LONG; ++m)
            s[0] = jit_xor(jit_mul(s[0], lit(5)), jit_add(i, lit(m)));
        s[1] = jit_add(s[1], lit(1));
        ASSERT_OK(jit_loop_end(l, 2, s));
        y = jit_add(s[0], s[1]);
        for (uint32_t m = 0; m < LONG; ++m)
            y = jit_add(jit_mul(y, lit(7)), lit(m));
        for (uint32_t n = 0; n < N; ++n) {
            uint32_t v = n, trips = n % 4;
            for (uint32_t m = 0; m < LONG; ++m)
                v = v * 3 + m;
            for (uint32_t t = 0; t < trips; ++t)
                for (uint32_t m = 0; m < LONG; ++m)
                    v = (v * 5) ^ (n + m);
            v += trips;
            for (uint32_t m = 0; m < LONG; ++m)
                v = v * 7 + m;
            expected[n] = v;
        }
        cr_assert_eq(loops_in(1, &y), 1);
        cr_assert(k == 4 || loop_world_kernels(1, &y) > 1);
        loop_world_expect_u32(y, N, expected, limits[k]);
    }
    jit_set_option("kernel_ops", "4096");
}

/* Traversals take neither stack nor more than linear time. */
Test(loop_memory, bodies_and_nests_may_be_large) {
    enum { OPERATIONS = 100000, DEPTH = 200 };
    jit_var i = jit_counter(B, 4), s[] = {i, lit(0)}, x;
    jit_loop *l = jit_loop_begin(2, s);
    jit_loop_condition(l, jit_lt(s[1], lit(2)));
    x = s[0];
    for (uint32_t m = 0; m < OPERATIONS; ++m)
        x = jit_add(jit_xor(x, lit(m)), i);
    s[0] = x;
    s[1] = jit_add(s[1], lit(1));
    ASSERT_OK(jit_loop_end(l, 2, s));
    cr_assert_eq(loop_world_kernels(1, s), 1);
    jit_var state[DEPTH], outermost = 0;
    jit_if *open[DEPTH];
    for (uint32_t d = 0; d < DEPTH; ++d) {
        state[d] = d ? state[d - 1] : i;
        open[d] = jit_if_begin(jit_ne(state[d], lit(d + 10)), 1, &state[d]);
        outermost = d ? outermost : state[0];
        state[d] = jit_add(state[d], outermost);
    }
    for (uint32_t d = DEPTH; d-- > 0;) {
        ASSERT_OK(jit_if_end(open[d], 1, &state[d]));
        if (d)
            state[d - 1] = state[d];
    }
    cr_assert_eq(loop_world_kernels(1, state), 1);
}
