/* test_loop.c: loops and branches inside of kernels, against references computed here.
 * What goes wrong is in test_loop_errors.c, the programs in test_loop_plan.c. */
#include "support.h"
#include <jit/loop.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define B support_backend()

static void begin(void) {
    support_init();
    jit_scope_push();
}

static void end(void) {
    jit_stats s;
    cr_assert_eq(jit_scope_pop(0, NULL), JIT_OK);
    cr_assert_eq(jit_get_stats(&s), JIT_OK);
    cr_assert_eq(s.variables, 0, "%d variables are left", (int) s.variables);
    cr_assert_str_empty(jit_error());
    support_shutdown();
}

TestSuite(loop, .init = begin, .fini = end);

static uint64_t launches(void) {
    jit_stats s;
    cr_assert_eq(jit_get_stats(&s), JIT_OK);
    return s.launches;
}

static void expect_u32(jit_var v, size_t n, const uint32_t *expected, const char *what) {
    uint32_t *x = malloc((n + 1) * sizeof *x);
    cr_assert_eq(jit_size(v), n, "%s: %zu elements", what, jit_size(v));
    cr_assert_eq(jit_read(v, x), JIT_OK, "%s: %s", what, jit_error());
    for (size_t i = 0; i < n; ++i)
        cr_assert_eq(x[i], expected[i], "%s: lane %zu: %u, not %u", what, i, x[i], expected[i]);
    free(x);
}

/* Steps from x to 1. */
static void collatz(jit_var x, jit_var *steps, jit_var *last) {
    jit_var s[] = {x, jit_u32(B, 0)};
    jit_loop *l = jit_loop_begin(2, s);
    jit_loop_condition(l, jit_ne(s[0], jit_u32(B, 1)));
    jit_var odd = jit_ne(jit_and(s[0], jit_u32(B, 1)), jit_u32(B, 0));
    jit_var up = jit_add(jit_mul(s[0], jit_u32(B, 3)), jit_u32(B, 1));
    s[0] = jit_select(odd, up, jit_shr(s[0], jit_u32(B, 1)));
    s[1] = jit_add(s[1], jit_u32(B, 1));
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

Test(loop, lanes_leave_one_by_one) {
    static const size_t sizes[] = {1, 2, 17, 1000, 100003};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; ++k) {
        size_t n = sizes[k];
        uint32_t *steps = malloc(2 * n * sizeof *steps), *ones = steps + n;
        jit_var v, last, x = jit_add(jit_counter(B, n), jit_u32(B, 1));
        for (size_t i = 0; i < n; ++i) {
            steps[i] = collatz_steps((uint32_t) i + 1);
            ones[i] = 1;
        }
        uint64_t before = launches();
        collatz(x, &v, &last);
        cr_assert_eq(launches(), before);
        jit_schedule(last);
        expect_u32(v, n, steps, "steps");
        cr_assert_eq(launches(), before + 1, "both results come from one kernel");
        expect_u32(last, n, ones, "last");
        cr_assert_eq(launches(), before + 1);
        free(steps);
    }
}
