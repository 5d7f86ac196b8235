/* test_switch.c: branches, and calls by an index. */
#include "loop_world.h"
#include "programs.h"
#include <stdlib.h>
#include <string.h>

static jit_var lit(uint32_t v) {
    return jit_u32(B, v);
}

static void expect_error(jit_status status, const char *word) {
    cr_assert_eq(jit_error_status(), status, "%s: %s", jit_status_name(jit_error_status()),
                 jit_error());
    cr_assert(strstr(jit_error(), word), "%s", jit_error());
    jit_error_clear();
}

TestSuite(branch, .init = loop_world_begin, .fini = loop_world_end);

/* ---- branches ---- */

Test(branch, each_lane_takes_one_side) {
    enum { N = 40 };
    uint32_t x[N], y[N], array[N * 2] = {0};
    for (uint32_t i = 0; i < N; ++i) {
        x[i] = i % 3 ? i + 100 : i * 2;
        y[i] = i % 3 ? i * 7 : 5;
        array[i % 3 ? i : i + N] = i + 1;
    }
    jit_var i = jit_counter(B, N), other = jit_ne(jit_mod(i, lit(3)), lit(0));
    jit_var s[] = {i, lit(5), jit_literal(B, JIT_u32, &(uint32_t) {0}, 2 * N)};
    jit_if *f = jit_if_begin(other, 3, s);
    s[0] = jit_add(s[0], lit(100));
    s[1] = jit_mul(i, lit(7));
    s[2] = jit_scatter(s[2], jit_add(i, lit(1)), i, 0);
    ASSERT_OK(jit_if_else(f, 3, s));
    s[0] = jit_mul(s[0], lit(2));
    s[2] = jit_scatter(s[2], jit_add(i, lit(1)), jit_add(i, lit(N)), 0);
    ASSERT_OK(jit_if_end(f, 3, s));
    cr_assert_eq(loop_world_kernels(3, s), 2, "the array of zeros, and both sides");
    loop_world_expect_u32(s[0], N, x, "x");
    loop_world_expect_u32(s[1], N, y, "y");
    loop_world_expect_u32(s[2], 2 * N, array, "array");
}

/* The second side needs what comes late, and the first is wanted early. */
Test(branch, sides_that_cannot_share_a_kernel_pass_the_array_through_memory) {
    enum { N = 12 };
    uint32_t x[N], y[N], array[2 * N] = {0};
    jit_var i = jit_counter(B, N), last = jit_sub(lit(N - 1), i);
    jit_var late = jit_gather(jit_mul(jit_gather(jit_mul(i, i), last, 0), lit(3)), last, 0);
    for (uint32_t k = 0; k < N; ++k) {
        x[k] = k < 4 ? k + 1 : k;
        y[k] = k < 4 ? 0 : 3 * k * k;
        array[k < 4 ? k : k + N] = k < 4 ? 8 : 9;
    }
    jit_var s[] = {i, lit(0), jit_literal(B, JIT_u32, &(uint32_t) {0}, 2 * N)};
    jit_if *f = jit_if_begin(jit_lt(i, lit(4)), 3, s);
    s[0] = jit_add(s[0], lit(1));
    s[2] = jit_scatter(s[2], lit(8), i, 0);
    ASSERT_OK(jit_if_else(f, 3, s));
    s[1] = late;
    s[2] = jit_scatter(s[2], lit(9), jit_add(i, lit(N)), 0);
    ASSERT_OK(jit_if_end(f, 3, s));
    jit_schedule(s[0]);
    jit_schedule(s[1]);
    loop_world_kernels(3, s);
    loop_world_expect_u32(s[2], 2 * N, array, "array");
    loop_world_expect_u32(s[0], N, x, "x");
    loop_world_expect_u32(s[1], N, y, "y");
}

Test(branch, conditions_that_are_known_need_no_branch) {
    for (int known = 0; known < 2; ++known) {
        uint32_t expected[6];
        jit_var one = support_literal(JIT_u32, 1, 6); /* as many as there are lanes */
        jit_var i = jit_counter(B, 6), s[] = {i, one, jit_counter(B, 8)};
        jit_if *f = jit_if_begin(jit_bool(B, known), 3, s);
        s[0] = jit_add(s[0], s[1]);
        s[2] = jit_scatter(s[2], lit(50), lit(3), 0);
        ASSERT_OK(jit_if_else(f, 3, s));
        jit_var x = s[0];
        s[0] = jit_mul(s[1], lit(3));
        s[1] = x;
        ASSERT_OK(jit_if_end(f, 3, s));
        jitc_plan p = {0};
        loop_world_plan(&p, 2, s);
        for (size_t k = 0; k < p.groups; ++k)
            cr_assert_eq(loop_world_count(&p.group[k].program, JITC_OP_loop), 0);
        loop_world_drop(&p);
        for (uint32_t k = 0; k < 6; ++k)
            expected[k] = known ? k + 1 : 3;
        loop_world_expect_u32(s[0], jit_size(s[0]), expected, "first");
        for (uint32_t k = 0; k < 6; ++k)
            expected[k] = known ? 1 : k;
        loop_world_expect_u32(s[1], jit_size(s[1]), expected, "second");
        uint32_t array[8] = {0, 1, 2, known ? 50 : 3, 4, 5, 6, 7};
        loop_world_expect_u32(s[2], 8, array, "array");
    }
}

/* ---- calls ---- */

TestSuite(switching, .init = loop_world_begin, .fini = loop_world_end);

/* a x + number, a x - number */
static jit_status line(void *context, size_t n_args, const jit_var *args, size_t n_results,
                       jit_var *results) {
    cr_assert(n_args == 2 && n_results == 2);
    jit_var number = lit((uint32_t) (uintptr_t) context), product = jit_mul(args[0], args[1]);
    results[0] = jit_add(product, number);
    results[1] = jit_sub(product, number);
    return JIT_OK;
}

Test(switching, every_lane_calls_one_function) {
    static const size_t counts[] = {1, 2, 17};
    enum { N = 60 };
    for (size_t k = 0; k < sizeof counts / sizeof *counts; ++k) {
        jit_callable callables[17];
        uint32_t first[N], second[N];
        for (size_t c = 0; c < counts[k]; ++c)
            callables[c] = (jit_callable) {line, (void *) (c * 1000)};
        for (uint32_t i = 0; i < N; ++i) {
            uint32_t index = i % 20;
            first[i] = index < counts[k] ? 3 * i + index * 1000 : 0;
            second[i] = index < counts[k] ? 3 * i - index * 1000 : 0;
        }
        jit_var i = jit_counter(B, N), args[] = {i, lit(3)}, r[2];
        ASSERT_OK(jit_switch(jit_mod(i, lit(20)), counts[k], callables, 2, args, 2, r));
        cr_assert_eq(loop_world_kernels(2, r), 1);
        jit_schedule(r[1]);
        loop_world_expect_u32(r[0], N, first, "first");
        loop_world_expect_u32(r[1], N, second, "second");
    }
}

/* Indices of all types, negative ones too, and more callables than the type has numbers. */
Test(switching, indices_out_of_range_call_nothing) {
    static jit_callable callables[130];
    for (size_t c = 0; c < 130; ++c)
        callables[c] = (jit_callable) {line, (void *) (c + 1)};
    for (int t = JIT_i8; t <= JIT_u64; ++t) {
        uint64_t index[] = {0, 1, 2, 127, 128, 255, UINT64_MAX},
                 mask = jitc_bits_mask((jit_dtype) t);
        uint32_t expected[7];
        uint64_t limit = jitc_dtypes[t].cls == JITC_INT ? mask >> 1 : mask;
        for (size_t i = 0; i < 7; ++i) {
            index[i] &= mask;
            expected[i] = index[i] < 130 && index[i] <= limit ? (uint32_t) index[i] + 1 : 0;
        }
        jit_var args[] = {lit(0), lit(1)}, r[2];
        jit_var v = support_array((jit_dtype) t, index, 7);
        ASSERT_OK(jit_switch(v, t == JIT_i8 || t == JIT_u16 ? 130 : 3, callables, 2, args, 2, r));
        for (size_t i = 0; i < 7 && t != JIT_i8 && t != JIT_u16; ++i)
            expected[i] = expected[i] > 3 ? 0 : expected[i];
        loop_world_expect_u32(r[0], 7, expected, jit_dtype_name((jit_dtype) t));
    }
    jit_var args[] = {jit_counter(B, 3), lit(2)}, r[2];
    ASSERT_OK(jit_switch(lit(1), 3, callables, 2, args, 2, r));
    loop_world_expect_u32(r[0], 3, (uint32_t[]) {2, 4, 6}, "an index that is known");
    ASSERT_OK(jit_switch(lit(9), 3, callables, 2, args, 2, r));
    loop_world_expect_u32(r[0], jit_size(r[0]), (uint32_t[]) {0, 0, 0}, "and out of range");
}

/* args: lane, array */
static jit_status writes(void *context, size_t n_args, const jit_var *args, size_t n_results,
                         jit_var *results) {
    (void) context, (void) n_args, (void) n_results;
    jit_var s[] = {args[1], lit(0)};
    jit_loop *l = jit_loop_begin(2, s);
    jit_loop_condition(l, jit_lt(s[1], lit(2)));
    s[0] = jit_scatter(s[0], args[0], jit_add(args[0], jit_mul(s[1], lit(12))), 0);
    s[1] = jit_add(s[1], lit(1));
    TRY(jit_loop_end(l, 2, s));
    results[0] = s[0];
    results[1] = lit(7);
    return JIT_OK;
}

static jit_status passes(void *context, size_t n_args, const jit_var *args, size_t n_results,
                         jit_var *results) {
    (void) context, (void) n_args, (void) n_results;
    results[0] = args[1];
    results[1] = args[0];
    return JIT_OK;
}

Test(switching, one_of_the_functions_scatters) {
    uint32_t array[24] = {0}, values[12];
    for (uint32_t i = 0; i < 12; ++i) {
        if (i % 3 == 1)
            array[i] = array[i + 12] = i;
        values[i] = i % 3 == 1 ? 7 : i % 3 == 0 ? i : 0;
    }
    jit_callable callables[] = {{passes, NULL}, {writes, NULL}};
    jit_var i = jit_counter(B, 12), r[2];
    jit_var args[] = {i, jit_literal(B, JIT_u32, &(uint32_t) {0}, 24)};
    ASSERT_OK(jit_switch(jit_mod(i, lit(3)), 2, callables, 2, args, 2, r));
    jit_schedule(r[1]);
    loop_world_expect_u32(r[0], 24, array, "array");
    loop_world_expect_u32(r[1], 12, values, "values");
}

/* The first argument is the first result. */
static jit_status forgets(void *context, size_t n_args, const jit_var *args, size_t n_results,
                          jit_var *results) {
    (void) context, (void) n_args, (void) n_results;
    results[0] = args[0];
    return JIT_OK;
}

/* Ways in which no lane scatters into args[0], as is known when it is recorded. */
typedef enum idle { MASKED, IN_IF, IN_ELSE, IN_LOOP, FIRST_CALL, LAST_CALL, NO_CALL, IDLES } idle;

static jit_var scattered(jit_var array) {
    return jit_scatter(array, lit(9), jit_counter(B, 8), 0);
}

static jit_status scatters(void *context, size_t n_args, const jit_var *args, size_t n_results,
                           jit_var *results) {
    (void) context, (void) n_args, (void) n_results;
    results[0] = scattered(args[0]);
    return JIT_OK;
}

static jit_status idles(void *context, size_t n_args, const jit_var *args, size_t n_results,
                        jit_var *results) {
    idle how = *(const idle *) context;
    jit_var s[] = {args[0]};
    if (how == MASKED) {
        s[0] = jit_scatter(s[0], lit(9), jit_counter(B, 8), jit_bool(B, false));
    } else if (how == IN_LOOP) {
        jit_loop *l = jit_loop_begin(1, s);
        jit_loop_condition(l, jit_bool(B, false));
        s[0] = scattered(s[0]);
        TRY(jit_loop_end(l, 1, s));
    } else if (how <= IN_ELSE) {
        jit_if *f = jit_if_begin(jit_bool(B, how == IN_ELSE), 1, s);
        if (how == IN_ELSE)
            TRY(jit_if_else(f, 1, s));
        s[0] = scattered(s[0]);
        TRY(jit_if_end(f, 1, s));
    } else {
        jit_callable both[2] = {{scatters, NULL}, {forgets, NULL}};
        if (how == LAST_CALL)
            both[0] = both[1], both[1].function = scatters;
        uint32_t index = how == FIRST_CALL ? 1 : how == LAST_CALL ? 0 : 7;
        TRY(jit_switch(lit(index), 2, both, n_args, args, n_results, s));
    }
    results[0] = s[0];
    return JIT_OK;
}

/* An array that could be scattered into stays as it is also in lanes that call nothing, which get 0
 * for values: what is left out when it is recorded makes no difference. */
Test(switching, scatters_that_never_happen_are_scatters) {
    uint32_t start[8];
    for (uint32_t i = 0; i < 8; ++i)
        start[i] = i + 50;
    for (idle how = MASKED; how < IDLES; ++how)
        for (size_t callables = 1; callables <= 2; ++callables)
            for (int first = 0; first < (int) callables; ++first) {
                jit_callable c[2] = {{forgets, NULL}, {forgets, NULL}};
                c[first] = (jit_callable) {idles, &how};
                jit_var args[] = {jit_from_host(B, JIT_u32, start, 8)}, r[1];
                ASSERT_OK(jit_switch(jit_counter(B, 8), callables, c, 1, args, 1, r));
                loop_world_expect_u32(r[0], 8, start, "the array");
                ASSERT_OK(jit_switch(lit(5), callables, c, 1, args, 1, r));
                loop_world_expect_u32(r[0], 8, start, "if nothing is called");
            }
}

/* ---- what goes wrong ---- */

static jit_status fails(void *context, size_t n_args, const jit_var *args, size_t n_results,
                        jit_var *results) {
    (void) context, (void) n_args, (void) n_results;
    results[0] = jit_add(args[0], args[0]);
    return JIT_UNSUPPORTED;
}

static jit_status gives_floats(void *context, size_t n_args, const jit_var *args, size_t n_results,
                               jit_var *results) {
    (void) context, (void) n_args;
    for (size_t i = 0; i < n_results; ++i)
        results[i] = jit_cast(args[0], JIT_f32);
    return JIT_OK;
}

static jit_status leaves_open(void *context, size_t n_args, const jit_var *args, size_t n_results,
                              jit_var *results) {
    (void) n_args;
    jit_var s[] = {args[0]};
    jit_loop_begin(1, s);
    if (context)
        jit_loop_cancel(context); /* of who has called jit_switch() */
    for (size_t i = 0; i < n_results; ++i)
        results[i] = args[0];
    return JIT_OK;
}

Test(switching, failures_leave_nothing) {
    jit_var i = jit_counter(B, 6), args[] = {i, lit(3)}, r[2] = {1, 1};
    jit_callable bad[] = {{line, NULL}, {fails, NULL}};
    cr_assert_eq(jit_switch(i, 2, bad, 2, args, 2, r), JIT_UNSUPPORTED);
    cr_assert(!r[0] && !r[1]);
    cr_assert_str_empty(jit_error());
    bad[1].function = gives_floats;
    cr_assert_eq(jit_switch(i, 2, bad, 2, args, 2, r), JIT_TYPE_MISMATCH);
    expect_error(JIT_TYPE_MISMATCH, "result 0 is u32 from callable 0 and f32 from callable 1");
    bad[1].function = forgets;
    cr_assert_eq(jit_switch(i, 2, bad, 2, args, 2, r), JIT_INVALID_HANDLE);
    expect_error(JIT_INVALID_HANDLE, "jit_switch");
    jit_var s[] = {i};
    jit_loop *l = jit_loop_begin(1, s);
    for (int around = 0; around < 2; ++around) {
        bad[1] = (jit_callable) {leaves_open, around ? l : NULL};
        cr_assert_eq(jit_switch(i, 2, bad, 2, args, 2, r), JIT_INVALID_ARGUMENT);
        expect_error(around ? JIT_INVALID_HANDLE : JIT_INVALID_ARGUMENT,
                     around ? "jit_loop_cancel" : "jit_loop_begin() and not ended it");
    }
    jit_loop_cancel(l);
    cr_assert_eq(jit_switch(jit_cast(i, JIT_f32), 1, bad, 2, args, 2, r), JIT_TYPE_MISMATCH);
    expect_error(JIT_TYPE_MISMATCH, "f32");
    cr_assert_eq(jit_switch(0, 1, bad, 2, args, 2, r), JIT_INVALID_HANDLE);
    expect_error(JIT_INVALID_HANDLE, "jit_switch");
    cr_assert_eq(jit_switch(i, 0, bad, 2, args, 2, r), JIT_INVALID_ARGUMENT);
    expect_error(JIT_INVALID_ARGUMENT, "no callable");
}
