/* test_loop_steps.c: the option loop_steps, by which loops run one iteration at a time. */
#include "loop_world.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static jit_var lit(uint32_t v) {
    return jit_u32(B, v);
}

static void begin(void) {
    loop_world_begin();
    ASSERT_OK(jit_set_option("loop_steps", "1"));
}

static void end(void) {
    ASSERT_OK(jit_set_option("loop_steps", "0"));
    loop_world_end();
}

TestSuite(loop_steps, .init = begin, .fini = end);

static void expect(jit_var v, size_t n, const uint32_t *expected) {
    uint32_t *found = calloc(n + 1, sizeof *found);
    cr_assert_eq(jit_size(v), n);
    ASSERT_OK(jit_read(v, found));
    for (size_t i = 0; i < n; ++i)
        cr_assert_eq(found[i], expected[i], "element %zu: %u, not %u", i, found[i], expected[i]);
    free(found);
}

/* Lane i goes round i mod `most` times. One state is one element at the start, one stays. */
static void counting_loop(size_t n, uint32_t most, jit_var state[3]) {
    jit_var i = jit_counter(B, n), trips = jit_mod(i, lit(most));
    state[0] = lit(0);
    state[1] = i;
    state[2] = jit_add(i, lit(7));
    jit_loop *l = jit_loop_begin(3, state);
    jit_loop_condition(l, jit_lt(state[0], trips));
    state[0] = jit_add(state[0], lit(1));
    state[1] = jit_add(jit_mul(state[1], lit(3)), state[2]);
    ASSERT_OK(jit_loop_end(l, 3, state));
}

Test(loop_steps, results_are_those_of_the_loop_and_in_memory) {
    enum { N = 100, MOST = 9 };
    uint32_t counts[N], values[N], same[N];
    for (uint32_t i = 0; i < N; ++i) {
        counts[i] = i % MOST;
        same[i] = i + 7;
        values[i] = i;
        for (uint32_t k = 0; k < counts[i]; ++k)
            values[i] = values[i] * 3 + same[i];
    }
    jit_var state[3];
    uint64_t before = loop_world_launches();
    counting_loop(N, MOST, state);
    uint64_t made = loop_world_launches() - before;
    cr_assert(made >= MOST, "a kernel for each of %d iterations, not %lu in all", MOST,
              (unsigned long) made);
    before = loop_world_launches();
    expect(state[0], N, counts);
    expect(state[1], N, values);
    cr_assert_eq(loop_world_launches(), before, "they are there");
    expect(state[2], N, same);
}

Test(loop_steps, no_lane_goes_in) {
    uint32_t zeros[5] = {0}, lanes[] = {0, 1, 2, 3, 4}, sevens[] = {7, 8, 9, 10, 11};
    jit_var state[3];
    counting_loop(5, 1, state);
    expect(state[0], 5, zeros);
    expect(state[1], 5, lanes);
    expect(state[2], 5, sevens);
}

/* One lane, none, and some that fill no vector. */
Test(loop_steps, numbers_of_lanes) {
    static const size_t sizes[] = {0, 1, 2, 15, 16, 17, 33, 1000};
    uint32_t counts[1000];
    for (uint32_t i = 0; i < 1000; ++i)
        counts[i] = i % 3;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; ++k) {
        jit_var state[3];
        counting_loop(sizes[k], 3, state);
        expect(state[0], sizes[k], counts);
    }
}

static void *loop_in_thread(void *unused) {
    uint32_t counts[70];
    for (uint32_t i = 0; i < 70; ++i)
        counts[i] = i % 5;
    for (int k = 0; k < 20; ++k) {
        jit_var state[3];
        jit_scope_push();
        counting_loop(70, 5, state);
        expect(state[0], 70, counts);
        jit_scope_pop(0, NULL);
    }
    return unused;
}

Test(loop_steps, threads_at_once) {
    pthread_t threads[3];
    for (int i = 0; i < 3; ++i)
        cr_assert_eq(pthread_create(&threads[i], NULL, loop_in_thread, NULL), 0);
    for (int i = 0; i < 3; ++i)
        pthread_join(threads[i], NULL);
}

/* It would never end. */
Test(loop_steps, a_loop_that_changes_nothing_is_not_run, .timeout = 20) {
    jit_var i = jit_counter(B, 3), state[] = {i};
    jit_loop *l = jit_loop_begin(1, state);
    jit_loop_condition(l, jit_lt(state[0], lit(2)));
    ASSERT_OK(jit_loop_end(l, 1, state));
    cr_assert_eq(state[0], i);
}

/* Without a scope, so that what is left over is seen. */
Test(loop_steps, references_are_the_callers) {
    jit_var start[2] = {lit(0), jit_counter(B, 3)}, state[2], kept[6];
    jit_scope_pop(2, start);
    memcpy(state, start, sizeof state);
    jit_loop *l = jit_loop_begin(2, state);
    memcpy(kept, state, sizeof state);
    kept[2] = jit_lt(state[0], kept[1]);
    jit_loop_condition(l, kept[2]);
    kept[3] = lit(1);
    kept[4] = state[0] = jit_add(state[0], kept[3]);
    ASSERT_OK(jit_loop_end(l, 2, state));
    expect(state[0], 3, (uint32_t[]) {0, 1, 2});
    expect(state[1], 3, (uint32_t[]) {0, 1, 2});
    for (int i = 0; i < 5; ++i)
        jit_unref(kept[i]);
    for (int i = 0; i < 2; ++i) {
        jit_unref(start[i]);
        jit_unref(state[i]);
    }
    jit_scope_push();
}

Test(loop_steps, arrays_are_scattered_into) {
    enum { N = 50, BINS = 7 };
    uint32_t bins[BINS] = {0}, places[N * 4] = {0}, next = 0;
    for (uint32_t i = 0; i < N; ++i)
        for (uint32_t k = 0; k < i % 4; ++k, ++next) {
            bins[(i + k) % BINS] += i;
            places[i * 4 + k] = i + 1;
        }
    jit_var i = jit_counter(B, N);
    jit_var state[] = {lit(0), jit_literal(B, JIT_u32, &(uint32_t) {0}, BINS),
                       jit_literal(B, JIT_u32, &(uint32_t) {0}, N * 4), lit(0), lit(0)};
    jit_loop *l = jit_loop_begin(5, state);
    jit_var k = state[0];
    jit_loop_condition(l, jit_lt(k, jit_and(i, lit(3))));
    jit_var bin = jit_mod(jit_add(i, k), lit(BINS));
    state[1] = jit_scatter_reduce(JIT_REDUCE_ADD, state[1], i, bin, 0);
    state[2] = jit_scatter(state[2], jit_add(i, lit(1)), jit_add(jit_mul(i, lit(4)), k), 0);
    state[4] = jit_add(state[4], jit_scatter_inc(&state[3], jit_mul(i, lit(0)), 0));
    state[0] = jit_add(k, lit(1));
    ASSERT_OK(jit_loop_end(l, 5, state));
    expect(state[1], BINS, bins);
    expect(state[2], N * 4, places);
    expect(state[3], 1, &next);
    jit_var sum = jit_reduce(JIT_REDUCE_ADD, state[4]);
    expect(sum, 1, (uint32_t[]) {next * (next - 1) / 2});
}

/* Inner loops stay in the kernel, also where lanes have left the outer one. */
Test(loop_steps, loops_inside_of_loops) {
    enum { N = 40 };
    uint32_t expected[N];
    for (uint32_t i = 0; i < N; ++i) {
        expected[i] = 0;
        for (uint32_t a = 0; a < i % 5; ++a)
            for (uint32_t b = 0; b < a; ++b)
                expected[i] += b % 2 ? i : 1;
    }
    jit_var i = jit_counter(B, N), outer[] = {lit(0), lit(0)};
    jit_loop *l = jit_loop_begin(2, outer);
    jit_var a = outer[0], inner[] = {lit(0), outer[1]};
    jit_loop_condition(l, jit_lt(a, jit_mod(i, lit(5))));
    jit_loop *m = jit_loop_begin(2, inner);
    jit_var b = inner[0], branch[] = {inner[1]};
    jit_loop_condition(m, jit_lt(b, a));
    jit_if *f = jit_if_begin(jit_eq(jit_and(b, lit(1)), lit(1)), 1, branch);
    branch[0] = jit_add(branch[0], i);
    ASSERT_OK(jit_if_else(f, 1, branch));
    branch[0] = jit_add(branch[0], lit(1));
    ASSERT_OK(jit_if_end(f, 1, branch));
    inner[0] = jit_add(b, lit(1));
    inner[1] = branch[0];
    ASSERT_OK(jit_loop_end(m, 2, inner));
    outer[0] = jit_add(a, lit(1));
    outer[1] = inner[1];
    ASSERT_OK(jit_loop_end(l, 2, outer));
    expect(outer[1], N, expected);
}

Test(loop_steps, many_iterations_of_one_lane) {
    jit_var state[] = {lit(0), lit(1)};
    jit_loop *l = jit_loop_begin(2, state);
    jit_loop_condition(l, jit_lt(state[0], lit(500)));
    state[0] = jit_add(state[0], lit(1));
    state[1] = jit_mul(state[1], lit(3));
    ASSERT_OK(jit_loop_end(l, 2, state));
    uint32_t power = 1;
    for (int k = 0; k < 500; ++k)
        power *= 3;
    expect(state[0], 1, (uint32_t[]) {500});
    expect(state[1], 1, &power);
}

static jit_status call(void *context, size_t n_args, const jit_var *args, size_t n_results,
                       jit_var *results) {
    (void) context, (void) n_args, (void) n_results;
    jit_var s[] = {args[0], lit(0)};
    jit_loop *l = jit_loop_begin(2, s);
    jit_loop_condition(l, jit_lt(s[1], lit(3)));
    s[0] = jit_add(s[0], s[0]);
    s[1] = jit_add(s[1], lit(1));
    jit_status status = jit_loop_end(l, 2, s);
    results[0] = s[0];
    return status;
}

/* What is recorded there may depend on the arguments, which have no values yet. */
Test(loop_steps, loops_of_callables_are_not_run) {
    const jit_callable callables[] = {{call, NULL}};
    jit_var i = jit_counter(B, 4), result;
    ASSERT_OK(jit_switch(jit_and(i, lit(1)), 1, callables, 1, &i, 1, &result));
    expect(result, 4, (uint32_t[]) {0, 0, 16, 0});
}

static void expect_failure(jit_status status, jit_status wanted, const char *text,
                           const jit_var *state) {
    cr_assert_eq(status, wanted, "%s, not %s: %s", jit_status_name(status), jit_status_name(wanted),
                 jit_error());
    cr_assert(strstr(jit_error(), text), "%s", jit_error());
    cr_assert(!state[0] && !state[1]);
    jit_error_clear();
}

Test(loop_steps, what_is_wrong_is_said_at_the_end) {
    for (int wrong = 0; wrong < 4; ++wrong) {
        jit_var i = jit_counter(B, 4), state[] = {lit(0), i};
        jit_loop *l = jit_loop_begin(2, state);
        jit_var k = state[0];
        if (wrong != 1)
            jit_loop_condition(l, jit_lt(k, i));
        state[0] = jit_add(k, lit(1));
        if (wrong == 2)
            state[0] = jit_cast(state[0], JIT_f32);
        if (wrong == 3)
            state[1] = jit_add(state[1], jit_reduce(JIT_REDUCE_ADD, state[1]));
        jit_status status = jit_loop_end(l, wrong == 0 ? 1 : 2, state);
        if (wrong == 0) {
            cr_assert(strstr(jit_error(), "1 states, but jit_loop_begin() had 2"), "%s",
                      jit_error());
            state[0] = state[1] = 0;
        }
        expect_failure(status, wrong == 2 ? JIT_TYPE_MISMATCH : JIT_INVALID_ARGUMENT,
                       wrong == 0   ? "had 2"
                       : wrong == 1 ? "no condition"
                       : wrong == 2 ? "type"
                                    : "combines lanes",
                       state);
    }
    jit_var none[] = {0, lit(1)};
    cr_assert_null(jit_loop_begin(2, none));
    expect_failure(jit_error_status(), JIT_INVALID_HANDLE, "state 0 is 0", none);
}
