/* What combines or moves lanes, over many of them: 2^16 + 5, or 2^N + 5 with JITC_TEST_LARGE=N.
 * With 32, numbers of lanes have more than 32 bits, and 120 GB of device memory are needed. */
#include "support.h"
#include <jit/array.h>
#include <jit/ops.h>
#include <stdlib.h>

static uint64_t lanes(void) {
    const char *log2 = getenv("JITC_TEST_LARGE");
    return ((uint64_t) 1 << (log2 ? atoi(log2) : 16)) + 5;
}

static jit_var u64(uint64_t x) {
    return jit_u64(support_backend(), x);
}
/** 0, 1, 2 ... */
static jit_var numbers(uint64_t n) {
    return jit_cast(jit_counter(support_backend(), n), JIT_u64);
}
/** Numbers without an order, many of them more than once. */
static jit_var mixed(uint64_t n) {
    jit_var x = jit_mul(numbers(n), u64(0x9e3779b97f4a7c15));
    return jit_cast(jit_shr(jit_xor(x, jit_shr(x, u64(31))), u64(20)), JIT_u32);
}
/** The element in front of each; the first's is the last. */
static jit_var former(jit_var v) {
    return jit_roll(v, 1);
}
static jit_var is_first(uint64_t n) {
    return jit_eq(numbers(n), u64(0));
}

static void expect_all(jit_var mask, const char *what) {
    bool all = false;
    ASSERT_OK(jit_read(jit_all(mask), &all));
    cr_expect(all, "%s", what);
}
static void expect_u64(jit_var v, uint64_t expected, const char *what) {
    uint64_t got = 0;
    ASSERT_OK(jit_read(jit_cast(v, JIT_u64), &got));
    cr_expect_eq(got, expected, "%s: %llu, not %llu", what, (unsigned long long) got,
                 (unsigned long long) expected);
}
static uint64_t sum_below(uint64_t n) {
    return n % 2 ? (n - 1) / 2 * n : n / 2 * (n - 1);
}

static void begin(void) {
    support_init();
    jit_scope_push();
}
static void end(void) {
    jit_scope_pop(0, NULL);
    support_shutdown();
}
#define LARGE(name) Test(large, name, .init = begin, .fini = end, .timeout = 300)

LARGE(reductions) {
    uint64_t n = lanes();
    jit_var i = numbers(n), x = mixed(n);
    expect_u64(jit_sum(i), sum_below(n), "sum");
    expect_u64(jit_amax(i), n - 1, "max");
    expect_u64(jit_amin(jit_xor(i, u64(n - 2))), 0, "min");
    expect_u64(jit_count(jit_eq(jit_mod(i, u64(3)), u64(0))), (n + 2) / 3, "count");
    expect_u64(jit_argmax(jit_eq(i, u64(n - 2))), n - 2, "argmax");
    expect_u64(jit_argmin(jit_ne(i, u64(n - 1))), n - 1, "argmin");
    ASSERT_OK(jit_var_eval(x)); /* what is in memory is read in vectors */
    expect_u64(jit_sum(jit_sub(jit_cast(x, JIT_u64), jit_cast(mixed(n), JIT_u64))), 0,
               "sum of x-x");
}

/** Numbers of more than 32 bits everywhere: what needs no memory does not take long on a CPU. */
LARGE(places_of_extrema) {
    uint64_t n = support_simulated() ? lanes() : ((uint64_t) 1 << 32) + 5;
    static const jit_dtype types[] = {JIT_bool, JIT_i8, JIT_f16, JIT_u64};
    for (size_t t = 0; t < sizeof types / sizeof *types; ++t) {
        jit_var there = jit_ge(numbers(n), u64(n - 3));
        expect_u64(jit_argmax(jit_cast(there, types[t])), n - 3, "argmax");
        expect_u64(jit_argmin(jit_cast(jit_not(there), types[t])), n - 3, "argmin");
    }
}

LARGE(reductions_of_blocks) {
    uint64_t n = lanes();
    jit_var x = jit_cast(jit_mod(numbers(n), u64(5)), JIT_u32);
    jit_var sums = jit_block_reduce(JIT_REDUCE_ADD, x, 1000);
    cr_expect_eq(jit_size(sums), (n + 999) / 1000);
    jit_var whole = jit_lt(numbers(n / 1000), u64(n / 1000));
    expect_all(
        jit_and(whole, jit_eq(jit_slice(sums, 0, n / 1000, 1), jit_u32(support_backend(), 2000))),
        "blocks");
}

LARGE(prefix_sums) {
    uint64_t n = lanes();
    for (int reverse = 0; reverse < 2; ++reverse) {
        jit_scope_push();
        jit_var x = jit_mod(numbers(n), u64(7));
        jit_var s = jit_prefix_reduce(JIT_REDUCE_ADD, x, false, reverse);
        ASSERT_OK(jit_var_eval(s));
        jit_var total = jit_slice(s, reverse ? 0 : n - 1, 1, 1);
        expect_u64(jit_sub(total, jit_sum(x)), 0, "total");
        jit_var before = reverse ? jit_roll(s, -1) : former(s);
        jit_var edge = jit_eq(numbers(n), u64(reverse ? n - 1 : 0));
        expect_all(jit_eq(jit_sub(s, jit_select(edge, u64(0), before)), x), "differences");
        jit_scope_pop(0, NULL);
    }
}

LARGE(compaction) {
    uint64_t n = lanes();
    jit_var where = jit_compress(jit_eq(jit_mod(numbers(n), u64(3)), u64(1)));
    cr_expect_eq(jit_size(where), (n + 1) / 3);
    jit_var expected = jit_add(jit_mul(numbers((n + 1) / 3), u64(3)), u64(1));
    expect_all(jit_eq(jit_cast(where, JIT_u64), expected), "numbers");
}

LARGE(scatters) {
    uint64_t n = lanes();
    static uint64_t counts[1000];
    jit_var zero = u64(0), bins = jit_tile(zero, 1000), i = numbers(n);
    jit_var h = jit_scatter_reduce(JIT_REDUCE_ADD, bins, u64(1), jit_mod(i, u64(1000)),
                                   jit_bool(support_backend(), true));
    ASSERT_OK(jit_read(h, counts));
    for (uint64_t b = 0; b < 1000; ++b)
        cr_expect_eq(counts[b], n / 1000 + (b < n % 1000), "bin %d", (int) b);
    jit_var target = jit_tile(jit_u8(support_backend(), 0), n), back = jit_sub(u64(n - 1), i);
    jit_var turned = jit_scatter(target, jit_cast(jit_mod(i, u64(251)), JIT_u8), back,
                                 jit_bool(support_backend(), true));
    ASSERT_OK(jit_var_eval(turned));
    expect_all(jit_eq(turned, jit_cast(jit_mod(back, u64(251)), JIT_u8)), "turned");
    expect_all(jit_eq(jit_reverse(turned), jit_cast(jit_mod(i, u64(251)), JIT_u8)), "back again");
}

LARGE(sorting_with_numbers) {
    uint64_t n = lanes();
    jit_var x = mixed(n), index, s = jit_sort(x, false, &index);
    ASSERT_OK(jit_var_eval(s));
    jit_var at = jit_cast(index, JIT_u64), f = former(s);
    jit_var ordered = jit_or(jit_lt(f, s), jit_and(jit_eq(f, s), jit_lt(former(at), at)));
    expect_all(jit_or(is_first(n), ordered), "ordered, equal ones as they were");
    expect_all(jit_eq(jit_gather(x, index, jit_bool(support_backend(), true)), s), "numbers");
    expect_u64(jit_sum(at), sum_below(n), "all numbers");
}

LARGE(sorting) {
    static const jit_dtype types[] = {JIT_u8, JIT_f32, JIT_i64};
    uint64_t n = lanes();
    for (size_t t = 0; t < sizeof types / sizeof *types; ++t) {
        jit_scope_push();
        jit_var x = jit_cast(mixed(n), types[t]), s = jit_sort(x, true, NULL);
        ASSERT_OK(jit_var_eval(s));
        expect_all(jit_or(is_first(n), jit_ge(former(s), s)), "descending");
        expect_u64(jit_sub(jit_sum(jit_cast(s, JIT_i64)), jit_sum(jit_cast(x, JIT_i64))), 0, "sum");
        jit_scope_pop(0, NULL);
    }
}
