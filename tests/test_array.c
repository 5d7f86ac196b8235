/* test_array.c: reshaping and joining: every operation on every kind of operand against the index
 * that it stands for; what is computed anew and what is put in memory; sizes 0, 1 and beyond 2^32.
 */
#include "dlpack_producer.h"
#include "operand.h"
#include <jit/array.h>
#include <jit/loop.h>
#include <stdlib.h>
#include <string.h>

#define B support_backend()

TestSuite(array, .init = support_init, .fini = support_shutdown, .timeout = 120);

static uint64_t launches(void) {
    jit_stats s;
    ASSERT_OK(jit_get_stats(&s));
    return s.launches;
}

/* ---- operations ---- */

typedef struct operation {
    const char *name;
    jit_var (*make)(jit_var v, size_t n);
    size_t (*size)(size_t n);
    size_t (*from)(size_t i, size_t n);
} operation;

static jit_var tile_3(jit_var v, size_t n) {
    return (void) n, jit_tile(v, 3);
}
static size_t three_times(size_t n) {
    return 3 * n;
}
static size_t from_tile(size_t i, size_t n) {
    return i % n;
}
static jit_var repeat_3(jit_var v, size_t n) {
    return (void) n, jit_repeat(v, 3);
}
static size_t from_repeat(size_t i, size_t n) {
    return (void) n, i / 3;
}
static jit_var reverse(jit_var v, size_t n) {
    return (void) n, jit_reverse(v);
}
static size_t as_many(size_t n) {
    return n;
}
static size_t from_reverse(size_t i, size_t n) {
    return n - 1 - i;
}
static jit_var slice_up(jit_var v, size_t n) {
    return jit_slice(v, n > 1, n / 2, 2);
}
static size_t half(size_t n) {
    return n / 2;
}
static size_t from_slice_up(size_t i, size_t n) {
    return (n > 1) + 2 * i;
}
static jit_var slice_down(jit_var v, size_t n) {
    return jit_slice(v, n ? n - 1 : 0, (n + 2) / 3, -3);
}
static size_t third(size_t n) {
    return (n + 2) / 3;
}
static size_t from_slice_down(size_t i, size_t n) {
    return n - 1 - 3 * i;
}
static jit_var one_element(jit_var v, size_t n) {
    return jit_slice(v, n / 2, n > 0, 1);
}
static size_t at_most_one(size_t n) {
    return n > 0;
}
static size_t middle(size_t i, size_t n) {
    return (void) i, n / 2;
}
static jit_var roll_right(jit_var v, size_t n) {
    return jit_roll(v, (ptrdiff_t) (3 * n + 2));
}
static size_t from_roll_right(size_t i, size_t n) {
    return (i + 2 * n - 2 % n) % n;
}
static jit_var roll_left(jit_var v, size_t n) {
    return (void) n, jit_roll(v, -1);
}
static size_t from_roll_left(size_t i, size_t n) {
    return (i + 1) % n;
}
static size_t rows_of(size_t n) {
    return n % 3 ? n % 2 ? 1 : 2 : 3;
}
static jit_var transpose(jit_var v, size_t n) {
    return jit_transpose(v, rows_of(n), n / rows_of(n));
}
static size_t from_transpose(size_t i, size_t n) {
    size_t rows = rows_of(n), columns = n / rows;
    return i % rows * columns + i / rows;
}

static const operation operations[] = {
    {"tile", tile_3, three_times, from_tile},
    {"repeat", repeat_3, three_times, from_repeat},
    {"reverse", reverse, as_many, from_reverse},
    {"slice", slice_up, half, from_slice_up},
    {"slice backwards", slice_down, third, from_slice_down},
    {"one element", one_element, at_most_one, middle},
    {"roll", roll_right, as_many, from_roll_right},
    {"roll to the left", roll_left, as_many, from_roll_left},
    {"transpose", transpose, as_many, from_transpose},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static void check_result(jit_var r, const operation *op, const operand *o) {
    size_t n = op->size(o->n);
    ASSERT_VAR(r);
    uint64_t *got = support_read(r, n);
    for (size_t i = 0; i < n; ++i)
        cr_assert_eq(got[i], o->bits[op->from(i, o->n)], "%s of %zu: element %zu is %#lx, not %#lx",
                     op->name, o->n, i, got[i], o->bits[op->from(i, o->n)]);
    free(got);
}

static void check(const operation *op, operand o) {
    ASSERT_VAR(o.v);
    jit_dtype t = jit_type(o.v);
    jit_var r = op->make(o.v, o.n);
    cr_assert_eq(jit_type(r), t);
    check_result(r, op, &o);
}

Test(array, all_types_in_memory) {
    for (jit_dtype t = JIT_bool; t <= JIT_f64; ++t)
        for (size_t k = 0; k < OPERATIONS; ++k) {
            jit_scope_push();
            check(&operations[k], operand_in_memory(t, 12));
            ASSERT_OK(jit_scope_pop(0, NULL));
        }
}

Test(array, all_kinds_of_operands_and_sizes) {
    static const size_t sizes[] = {0, 1, 2, 21};
    for (size_t m = 0; m < OPERAND_MAKERS; ++m)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
            for (size_t k = 0; k < OPERATIONS; ++k) {
                if (operand_makers[m] == operand_scattered && !sizes[s])
                    continue; /* index 0 is out of range */
                jit_scope_push();
                check(&operations[k], operand_makers[m](sizes[s]));
                ASSERT_OK(jit_scope_pop(0, NULL));
            }
}

Test(array, imported_views) {
    const int64_t shape[] = {4, 6}, strides[] = {1, 5};
    for (size_t k = 0; k < OPERATIONS; ++k) {
        producer *p = producer_create(
            &(tensor_spec) {.type = JIT_u16, .ndim = 2, .shape = shape, .strides = strides});
        uint64_t *bits = producer_expected(p);
        jit_scope_push();
        operand o = {.v = producer_take(p), .n = 24};
        memcpy(o.bits, bits, 24 * sizeof *bits);
        check(&operations[k], o);
        ASSERT_OK(jit_scope_pop(0, NULL));
        free(bits);
        producer_destroy(p);
    }
}

/* Chains of operations, some of which meet what others have made. */
Test(array, operations_on_operations) {
    for (size_t k = 0; k < OPERATIONS; ++k)
        for (size_t j = 0; j < OPERATIONS; ++j) {
            jit_scope_push();
            operand o = k % 2 ? operand_cheap(12) : operand_in_memory(JIT_u32, 12), inner = {0};
            inner.n = operations[k].size(12);
            for (size_t i = 0; i < inner.n; ++i)
                inner.bits[i] = o.bits[operations[k].from(i, 12)];
            inner.v = operations[k].make(o.v, 12);
            check(&operations[j], inner);
            ASSERT_OK(jit_scope_pop(0, NULL));
        }
}

/** Some elementwise operations between others. */
static void change(operand *o, unsigned how) {
    jit_var i = jit_counter(B, o->n), even = jit_eq(jit_and(i, jit_u32(B, 1)), jit_u32(B, 0));
    for (size_t k = 0; k < o->n; ++k)
        o->bits[k] = how == 0   ? (o->bits[k] * 3 + k) & 0xffffffff
                     : how == 1 ? (k % 2 ? o->bits[k] : 5)
                                : o->bits[k];
    if (how == 0)
        o->v = jit_add(jit_mul(o->v, jit_u32(B, 3)), i);
    else if (how == 1)
        o->v = jit_select(even, jit_u32(B, 5), o->v);
    else if (how == 2)
        o->v = jit_gather(o->v, i, 0);
}

Test(array, random_chains) {
    uint64_t state = 1;
    for (int chain = 0; chain < 50; ++chain) {
        jit_scope_push();
        operand o =
            chain % 2 ? operand_in_memory(JIT_u32, 2 + (size_t) chain % 9) : operand_gathered(12);
        for (int step = 0; step < 5; ++step) {
            const operation *op;
            do {
                state = state * 6364136223846793005u + 1442695040888963407u;
                op = &operations[(state >> 33) % OPERATIONS];
            } while (op->size(o.n) > OPERAND_MOST || !o.n);
            operand next = {.n = op->size(o.n), .v = op->make(o.v, o.n)};
            for (size_t i = 0; i < next.n; ++i)
                next.bits[i] = o.bits[op->from(i, o.n)];
            change(&next, (state >> 53) % 4);
            o = next.n ? next : o;
        }
        uint64_t *got = support_read(o.v, o.n);
        cr_assert_eq(memcmp(got, o.bits, o.n * sizeof *got), 0, "chain %d", chain);
        free(got);
        ASSERT_OK(jit_scope_pop(0, NULL));
    }
}

/* ---- what is simplified, and what goes through memory ---- */

Test(array, nothing_to_do_is_the_operand_itself) {
    jit_var v = operand_in_memory(JIT_f32, 12).v;
    cr_assert_eq(jit_tile(v, 1), v);
    cr_assert_eq(jit_repeat(v, 1), v);
    cr_assert_eq(jit_slice(v, 0, 12, 1), v);
    cr_assert_eq(jit_roll(v, -24), v);
    cr_assert_eq(jit_transpose(v, 1, 12), v);
    cr_assert_eq(jit_transpose(v, 12, 1), v);
    cr_assert_eq(jit_concat(1, &v), v);
    for (int i = 0; i < 8; ++i)
        jit_unref(v);
}

Test(array, literals_stay_literals) {
    jit_scope_push();
    jit_var v = support_literal(JIT_f32, 0x3f800000, 12), long_one = jit_tile(v, 3);
    cr_assert_eq(jit_reverse(v), v);
    cr_assert_eq(jit_roll(v, 5), v);
    cr_assert_eq(jit_transpose(v, 3, 4), v);
    cr_assert_eq(long_one, support_literal(JIT_f32, 0x3f800000, 36));
    cr_assert_eq(jit_repeat(v, 3), long_one);
    cr_assert_eq(jit_slice(long_one, 30, 4, -2), support_literal(JIT_f32, 0x3f800000, 4));
    cr_assert_eq(jit_concat(3, (jit_var[]) {v, v, v}), long_one);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

Test(array, chains_and_cheap_operands_are_one_kernel) {
    jit_scope_push();
    jit_var data = operand_in_memory(JIT_u32, 24).v;
    jit_var v = jit_add(jit_reverse(data), jit_counter(B, 24));
    jit_var r = jit_mul(jit_roll(jit_transpose(v, 4, 6), 1), jit_u32(B, 2));
    jit_var broadcast = jit_tile(jit_add(jit_slice(data, 3, 1, 1), jit_u32(B, 1)), 24);
    uint64_t before = launches();
    ASSERT_OK(jit_schedule(broadcast));
    ASSERT_OK(jit_var_eval(r));
    cr_assert_eq(launches() - before, 1);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

Test(array, dear_operands_are_evaluated_once) {
    jit_scope_push();
    operand o = operand_dear(24);
    uint64_t before = launches();
    jit_var r = jit_reverse(o.v);
    ASSERT_OK(jit_var_eval(r));
    cr_assert_eq(launches() - before, 2);
    ASSERT_OK(jit_var_eval(o.v));
    cr_assert_eq(launches() - before, 2, "it is in memory");
    ASSERT_OK(jit_scope_pop(0, NULL));
}

Test(array, another_shift_compiles_nothing) {
    jit_stats before, after;
    jit_scope_push();
    jit_var v = operand_in_memory(JIT_u32, 24).v;
    ASSERT_OK(jit_var_eval(jit_roll(v, 1)));
    ASSERT_OK(jit_get_stats(&before));
    ASSERT_OK(jit_var_eval(jit_roll(v, 5)));
    ASSERT_OK(jit_get_stats(&after));
    cr_assert_eq(after.kernels_compiled + after.disk_hits,
                 before.kernels_compiled + before.disk_hits);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/* Arrays stay where they are, whatever the thread's device is; literals go anywhere. */
Test(array, arrays_of_another_device) {
    int last = jit_device_count(B) - 1;
    jit_scope_push();
    jit_var first = support_literal(JIT_u32, 5, 3);
    ASSERT_OK(jit_set_device(B, last));
    operand o = operand_in_memory(JIT_u32, 12);
    ASSERT_OK(jit_set_device(B, 0));
    for (size_t k = 0; k < OPERATIONS; ++k)
        check(&operations[k], o);
    jit_var ten[] = {first, o.v, o.v, o.v, o.v, o.v, o.v, o.v, o.v, o.v};
    jit_var few = jit_concat(2, ten), many = jit_concat(10, ten);
    cr_assert(jit_device_of(few) == last && jit_device_of(many) == last);
    ASSERT_OK(jit_var_eval(few));
    ASSERT_OK(jit_var_eval(many));
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/* ---- in loops ---- */

/** k = 3 times: sum += body(k, x), where k has one element. */
static jit_var loop_of(jit_var (*body)(jit_var k, jit_var x), jit_var x) {
    jit_var state[] = {jit_u32(B, 0), jit_u32(B, 0)};
    jit_loop *loop = jit_loop_begin(2, state);
    jit_var k = state[0];
    ASSERT_OK(jit_loop_condition(loop, jit_lt(k, jit_u32(B, 3))));
    state[1] = jit_add(state[1], body(k, x));
    state[0] = jit_add(k, jit_u32(B, 1));
    ASSERT_OK(jit_loop_end(loop, 2, state));
    return state[1];
}

static jit_var reversed_and_more(jit_var k, jit_var x) {
    return jit_add(jit_reverse(jit_mul(x, jit_u32(B, 2))), k);
}
static jit_var reversed_state(jit_var k, jit_var x) {
    return jit_reverse(jit_add(x, k));
}

/* What comes from outside of the loop can be reshaped there; what each lane has for itself cannot,
 * also where it is recorded as one element. */
Test(array, loops_reshape_what_comes_from_outside) {
    jit_scope_push();
    operand o = operand_in_memory(JIT_u32, 12);
    uint64_t *got = support_read(loop_of(reversed_and_more, o.v), 12);
    for (size_t i = 0; i < 12; ++i)
        cr_assert_eq(got[i], (6 * o.bits[11 - i] + 3) & 0xffffffff);
    free(got);
    jit_var bad = loop_of(reversed_state, o.v);
    cr_assert_eq(jit_var_eval(bad), JIT_INVALID_ARGUMENT, "%s", jit_error());
    jit_error_clear();
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/* Nothing of that size is in memory. Sizes of 2^32 are no u32. */
Test(array, more_elements_than_u32) {
    static const uint64_t sizes[] = {(uint64_t) 1 << 32, ((uint64_t) 1 << 32) + 7};
    for (size_t k = 0; k < 2; ++k) {
        uint64_t n = sizes[k];
        jit_scope_push();
        jit_var v = jit_cast(jit_counter(B, n), JIT_u64), three = jit_tile(v, 3);
        jit_var joined = jit_concat(2, (jit_var[]) {jit_counter(B, 3), jit_cast(v, JIT_u32)});
        const struct {
            jit_var from;
            uint64_t place, want;
        } cases[] = {{jit_reverse(v), 2, n - 3},
                     {jit_reverse(v), n - 3, 2},
                     {three, 2 * n + 5, 5},
                     {three, n - 1, n - 1},
                     {jit_repeat(v, 3), 2 * n + 5, (2 * n + 5) / 3},
                     {jit_roll(v, 2), 1, n - 1},
                     {jit_roll(v, 2), n - 1, n - 3},
                     {jit_transpose(v, 2, n / 2), 3, n / 2 + 1},
                     {jit_slice(v, n - 1, n / 5, -5), n / 5 - 1, n - 1 - 5 * (n / 5 - 1)},
                     {jit_cast(joined, JIT_u64), 2, 2},
                     {jit_cast(joined, JIT_u64), n + 2, (n - 1) & 0xffffffff}};
        for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
            if (n % 2 && !cases[c].from)
                continue; /* an odd number has no two rows */
            jit_var one = jit_slice(cases[c].from, cases[c].place, 1, 1);
            ASSERT_VAR(one);
            uint64_t *got = support_read(one, 1);
            cr_assert_eq(*got, cases[c].want, "case %zu of %#lx elements: %#lx, not %#lx", c, n,
                         *got, cases[c].want);
            free(got);
        }
        jit_error_clear();
        ASSERT_OK(jit_scope_pop(0, NULL));
    }
}

/* ---- joining ---- */

static void check_concat(size_t n, const operand *parts) {
    jit_var v[32];
    uint64_t want[32 * OPERAND_MOST];
    size_t size = 0;
    for (size_t k = 0; k < n; ++k) {
        v[k] = parts[k].v;
        memcpy(want + size, parts[k].bits, parts[k].n * sizeof *want);
        size += parts[k].n;
    }
    jit_var r = jit_concat(n, v);
    ASSERT_VAR(r);
    uint64_t *got = support_read(r, size);
    for (size_t i = 0; i < size; ++i)
        cr_assert_eq(got[i], want[i], "%zu arrays: element %zu of %zu is %#lx, not %#lx", n, i,
                     size, got[i], want[i]);
    free(got);
}

/** Few and many, of all kinds; some are empty, some have one element. */
Test(array, concat_joins_all_kinds) {
    static const size_t counts[] = {1, 2, 3, 8, 9, 20};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c)
        for (size_t start = 0; start < OPERAND_MAKERS; ++start) {
            operand parts[32];
            jit_scope_push();
            for (size_t k = 0; k < counts[c]; ++k) {
                size_t n = k % 4 == 3 ? 1 : k % 5 == 1 ? 0 : 3 + k;
                operand (*make)(size_t) = operand_makers[(start + k) % OPERAND_MAKERS];
                parts[k] = make == operand_scattered && !n ? operand_counter(0) : make(n);
            }
            check_concat(counts[c], parts);
            ASSERT_OK(jit_scope_pop(0, NULL));
        }
}

Test(array, concat_joins_all_types) {
    for (jit_dtype t = JIT_bool; t <= JIT_f64; ++t) {
        operand parts[10];
        jit_scope_push();
        for (size_t k = 0; k < 10; ++k)
            parts[k] = operand_in_memory(t, 1 + k % 4);
        check_concat(3, parts);
        check_concat(10, parts);
        ASSERT_OK(jit_scope_pop(0, NULL));
    }
}

Test(array, concat_of_empty_arrays_is_empty) {
    jit_scope_push();
    check_concat(
        3, (operand[]) {operand_counter(0), operand_in_memory(JIT_u32, 0), operand_counter(0)});
    operand one = operand_in_memory(JIT_u32, 7);
    jit_var v[] = {operand_counter(0).v, one.v, operand_in_memory(JIT_u32, 0).v};
    cr_assert_eq(jit_concat(3, v), one.v);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/* Indices stay in range. */
Test(array, no_index_is_out_of_bounds) {
    ASSERT_OK(jit_set_option("bounds_check", "1"));
    jit_scope_push();
    operand parts[] = {operand_in_memory(JIT_u32, 5), operand_in_memory(JIT_u32, 9),
                       operand_in_memory(JIT_u32, 2)};
    check_concat(3, parts);
    for (size_t k = 0; k < OPERATIONS; ++k)
        check(&operations[k], operand_in_memory(JIT_u32, 12));
    ASSERT_OK(jit_sync_all_devices());
    ASSERT_OK(jit_scope_pop(0, NULL));
    ASSERT_OK(jit_set_option("bounds_check", "0"));
}

/* ---- numbers ---- */

static void check_linspace(jit_dtype t, double first, double last, size_t n, double tolerance) {
    jit_scope_push();
    double *got = calloc(n + 1, sizeof *got);
    ASSERT_OK(jit_read(jit_cast(jit_linspace(B, t, first, last, n), JIT_f64), got));
    for (size_t i = 0; i < n; ++i) {
        double want = n > 1 ? first + (last - first) * (double) i / (double) (n - 1) : first;
        double off = got[i] > want ? got[i] - want : want - got[i];
        bool end = i == 0 || i == n - 1;
        cr_assert(end ? off == 0 : off <= tolerance, "%s, %zu of %zu: %.17g, not %.17g",
                  jit_dtype_name(t), i, n, got[i], want);
    }
    free(got);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

Test(array, linspace_is_even_and_meets_its_ends) {
    static const size_t sizes[] = {0, 1, 2, 3, 1000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
        check_linspace(JIT_f64, -1, 3, sizes[s], 3 * 0x1p-51);
        check_linspace(JIT_f32, 5, -2.5, sizes[s], 3 * 0x1p-21);
        check_linspace(JIT_f16, 0, 1, sizes[s], 0x1p-11);
        check_linspace(JIT_bf16, -1, 1, sizes[s], 0x1p-8);
    }
}

/* ---- errors ---- */

static void expect_error(jit_var v, jit_status status, const char *words) {
    cr_assert_eq(v, 0);
    cr_assert_eq(jit_error_status(), status, "%s", jit_error());
    cr_assert_not_null(strstr(jit_error(), words), "%s", jit_error());
    jit_error_clear();
}

Test(array, errors_name_what_is_wrong) {
    jit_var v = operand_in_memory(JIT_u32, 12).v, w = operand_in_memory(JIT_f32, 3).v;
    expect_error(jit_tile(0, 3), JIT_INVALID_HANDLE, "jit_tile");
    expect_error(jit_tile(v, SIZE_MAX / 2), JIT_INVALID_ARGUMENT, "jit_tile");
    expect_error(jit_repeat(v, (size_t) 1 << 40), JIT_INVALID_ARGUMENT, "2^40");
    expect_error(jit_slice(v, 0, 13, 1), JIT_OUT_OF_BOUNDS, "13 elements");
    expect_error(jit_slice(v, 12, 1, 1), JIT_OUT_OF_BOUNDS, "from 12");
    expect_error(jit_slice(v, 5, 7, -1), JIT_OUT_OF_BOUNDS, "steps of -1");
    expect_error(jit_slice(v, 0, 2, PTRDIFF_MIN), JIT_OUT_OF_BOUNDS, "jit_slice");
    expect_error(jit_slice(v, 0, 2, PTRDIFF_MAX), JIT_OUT_OF_BOUNDS, "jit_slice");
    expect_error(jit_slice(operand_counter(0).v, 0, 1, 1), JIT_OUT_OF_BOUNDS, "jit_slice");
    expect_error(jit_slice(v, 0, 1, 0), JIT_INVALID_ARGUMENT, "step is 0");
    expect_error(jit_transpose(v, 5, 2), JIT_SIZE_MISMATCH, "5 rows");
    expect_error(jit_transpose(v, SIZE_MAX, SIZE_MAX), JIT_SIZE_MISMATCH, "jit_transpose");
    expect_error(jit_concat(0, NULL), JIT_INVALID_ARGUMENT, "jit_concat");
    expect_error(jit_concat(2, NULL), JIT_INVALID_ARGUMENT, "jit_concat");
    expect_error(jit_concat(2, (jit_var[]) {v, w}), JIT_TYPE_MISMATCH, "u32 and f32");
    expect_error(jit_concat(2, (jit_var[]) {v, 0}), JIT_INVALID_HANDLE, "jit_concat");
    expect_error(jit_linspace(B, JIT_u32, 0, 1, 3), JIT_TYPE_MISMATCH, "u32");
    expect_error(jit_linspace((jit_backend) 64, JIT_f32, 0, 1, 3), JIT_INVALID_ARGUMENT,
                 "jit_linspace");
    jit_unref(v);
    jit_unref(w);
}

static uint64_t variables(void) {
    jit_stats s;
    ASSERT_OK(jit_get_stats(&s));
    return s.variables;
}

static void make_all(const operand *o) {
    jit_var ten[10];
    for (size_t k = 0; k < OPERATIONS; ++k)
        jit_unref(operations[k].make(o->v, o->n));
    for (size_t k = 0; k < 10; ++k)
        ten[k] = o->v;
    jit_unref(jit_concat(3, ten));
    jit_unref(jit_concat(10, ten));
}

/* No reference is left, also without a scope of the caller's. */
Test(array, temporaries_are_given_back) {
    for (size_t m = 0; m < OPERAND_MAKERS; ++m) {
        jit_scope_push();
        operand o = operand_makers[m](12);
        ASSERT_OK(jit_scope_pop(1, &o.v));
        uint64_t before = variables();
        make_all(&o);
        jit_unref(jit_linspace(B, JIT_f16, 0, 1, 9));
        cr_assert_eq(variables(), before);
        jit_unref(o.v);
        cr_assert_eq(variables(), 0);
    }
}
