/* test_cuda_scatter.c: scatter_reduce on the CUDA backend: how it is launched, and what it
 * computes, against the interpreter. Arrays have exactly their size, up to the pairs of 8-bit
 * elements. */
#include "cuda/targets.h"
#include "cuda/text.h"
#include "cuda_run.h"
#include "programs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOR_TYPES(t) for (jit_dtype t = JIT_bool; t <= JIT_f64; ++t)
#define FOR_OPS(op)  for (jit_reduce_op op = JIT_REDUCE_ADD; op <= JIT_REDUCE_OR; ++op)

TestSuite(cuda_scatter, .init = cuda_run_start, .fini = cuda_run_stop);

static cuda_run r;
static jitc_program p;

/* Numbers. */

static uint64_t mixed(uint64_t x) { /* splitmix64 */
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static uint64_t real(jit_dtype t, int x) {
    uint64_t in[] = {(uint64_t) (uint32_t) x, 0, 0}, out;
    cr_assert(jitc_fold(JITC_OP_cast, JIT_i32, t, in, &out));
    return out;
}

/** Sums of them are exact in all types, products are powers of two; extrema may be anything. */
static uint64_t element(jit_dtype t, jit_reduce_op op, uint64_t i) {
    uint64_t edges[64], x = mixed(i);
    size_t n = edge_values(t, edges);
    if (t == JIT_bool)
        return x & 1;
    if (jitc_dtypes[t].cls != JITC_FLOAT)
        return (op == JIT_REDUCE_MUL ? x | 1 : x) & jitc_bits_mask(t);
    if (op == JIT_REDUCE_ADD)
        return real(t, x % 16 ? 0 : x & 256 ? 1 : -1);
    if (op == JIT_REDUCE_MUL)
        return real(t, x % 64 == 0 ? 2 : x & 64 ? 1 : -1);
    if (!is_nan_bits(t, edges[x % n]))
        return edges[x % n];
    /* Now and then NaN, of either sign: where there are few elements, all would be. */
    uint64_t sign = (x >> 35 & 1) << (jitc_dtypes[t].bits - 1);
    return x >> 32 & 7 ? real(t, (int) (x >> 40 & 63)) : edges[x % n] ^ sign;
}

typedef enum pattern { EQUAL, SORTED, RANDOM, MOSTLY, PATTERNS } pattern;

static uint32_t place(pattern kind, uint64_t i, uint64_t lanes, uint32_t targets) {
    switch (kind) {
        case EQUAL: return targets / 2;
        case SORTED: return (uint32_t) (i * targets / lanes);
        case RANDOM: return (uint32_t) (mixed(i + 77) % targets);
        default: return mixed(i + 5) % 10 ? targets - 1 : (uint32_t) (mixed(i + 99) % targets);
    }
}

/* Programs. */

static void *values[64];
static size_t value_count;

static void begin(void) {
    p = (jitc_program) {.head.flags = JITC_PROGRAM_TAIL};
    cuda_run_begin(&r);
}
static void end(void) {
    cuda_run_end(&r, &p);
    while (value_count)
        free(values[--value_count]);
}
static void *room(size_t elements, jit_dtype t) {
    void *x = calloc(elements + 2, jitc_dtypes[t].bytes);
    cr_assert(x && value_count < 64);
    return values[value_count++] = x;
}

static uint32_t add_values(jit_dtype t, jit_reduce_op op, uint64_t lanes, uint64_t salt) {
    void *x = room(lanes, t);
    for (uint64_t i = 0; i < lanes; ++i)
        write_element(t, x, i, element(t, op, i + (salt << 32)));
    cuda_run_array(&r, t, x, lanes);
    return add_data(&p, t, x, r.params);
}
static uint32_t add_places(pattern kind, uint64_t lanes, uint32_t targets) {
    uint32_t *x = room(lanes, JIT_u32);
    for (uint64_t i = 0; i < lanes; ++i)
        x[i] = place(kind, i, lanes, targets);
    cuda_run_array(&r, JIT_u32, x, lanes);
    return add_data(&p, JIT_u32, x, r.params);
}
/** An array to be combined into. Our own arrays have padding; that of 8-bit elements is touched. */
static uint32_t add_target(jit_dtype t, jit_reduce_op op, uint32_t targets, cuda_run_memory **out) {
    uint32_t padded = jitc_dtypes[t].bytes == 1 ? targets + (targets & 1) : targets;
    void *x = room(padded, t);
    for (uint32_t i = 0; i < padded; ++i)
        write_element(t, x, i, element(t, op, i + 12345));
    cuda_run_memory *m = cuda_run_array(&r, t, x, padded);
    m->relative = jitc_dtypes[t].cls == JITC_FLOAT && op <= JIT_REDUCE_MUL ? 0.01 : 0;
    if (out)
        *out = m;
    return add_buffer(&p, t, x, targets, r.params);
}
static uint32_t combine(jit_dtype t, jit_reduce_op op, int part, uint32_t target, uint32_t value,
                        uint32_t index) {
    return add_flagged(&p, (jitc_inst) {.op = JITC_OP_scatter_reduce,
                                        .type = (uint8_t) t,
                                        .aux = (uint8_t) ((int) op | part),
                                        .a = target,
                                        .b = value,
                                        .c = index});
}
static void add_scratch(void) {
    p.head.flags |= JITC_PROGRAM_SCRATCH;
    p.head.scratch = p.head.params;
    p.head.params += JITC_SCRATCH_PARAMS;
}
static void compare(uint64_t lanes, const char *what) {
    add_scratch();
    cuda_run_compare(&r, &p, lanes, what);
    end();
}

static void check(jit_dtype t, jit_reduce_op op, pattern kind, uint64_t lanes, uint32_t targets) {
    char what[100];
    snprintf(what, sizeof what, "%s of %s, pattern %d, %u targets", jitc_reduce_name(op),
             jitc_dtypes[t].name, kind, targets);
    begin();
    uint32_t target = add_target(t, op, targets, NULL);
    uint32_t value = add_values(t, op, lanes, 1), index = add_places(kind, lanes, targets);
    combine(t, op, 0, target, value, index);
    compare(lanes, what);
}

/* In the memory of blocks, in columns there, and in place. */
Test(cuda_scatter, every_operation_of_every_type) {
    FOR_TYPES(t)
    FOR_OPS(op) {
        if (!jitc_reduce_accepts(op, t))
            continue;
        pattern kind = (pattern) (((int) t + (int) op) % PATTERNS);
        check(t, op, kind, 301, 37);
        check(t, op, kind, 301, 1501);
        if (!jitc_cuda_is_direct(op, t))
            check(t, op, kind, 2048 + 5, 1);
    }
}

Test(cuda_scatter, indices_collide_or_not) {
    static const jit_dtype types[] = {JIT_u32, JIT_f32, JIT_i8, JIT_f16};
    for (pattern kind = EQUAL; kind < PATTERNS; ++kind)
        for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
            check(types[i], JIT_REDUCE_ADD, kind, 1000, 50);
            check(types[i], JIT_REDUCE_MAX, kind, 1000, 1100);
        }
}

Test(cuda_scatter, lanes_of_any_number) {
    static const uint64_t lanes[] = {1, 2, 31, 32, 33, 127, 128, 129, 1000, 8193};
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; ++i) {
        check(JIT_u32, JIT_REDUCE_ADD, RANDOM, lanes[i], 20);
        check(JIT_f32, JIT_REDUCE_ADD, RANDOM, lanes[i], 1 + (lanes[i] > 8000) * 2);
        check(JIT_i64, JIT_REDUCE_MIN, MOSTLY, lanes[i], 1025 + (uint32_t) lanes[i] / 16);
    }
}

/** More of a block's memory than it has without asking for it. */
Test(cuda_scatter, blocks_have_much_memory) {
    enum { LANES = 1100, TARGETS = 9 };
    begin();
    uint32_t x = add_values(JIT_u64, JIT_REDUCE_ADD, LANES, 1), i = add_places(RANDOM, LANES, 1024);
    for (int k = 0; k < TARGETS; ++k)
        combine(JIT_u64, JIT_REDUCE_ADD, 0, add_target(JIT_u64, JIT_REDUCE_ADD, 1024, NULL), x, i);
    compare(LANES, "much");
}

/* Masks, and indices out of range. */

static void check_indices(uint32_t flags, jit_dtype type, uint32_t targets) {
    enum { LANES = 700 };
    begin();
    p.head.flags |= flags;
    static uint64_t report[3];
    memset(report, 0, sizeof report);
    uint32_t target = add_target(JIT_f32, JIT_REDUCE_ADD, targets, NULL);
    uint32_t value = add_values(JIT_f32, JIT_REDUCE_ADD, LANES, 1);
    void *x = room(LANES, type), *mask = room(LANES, JIT_bool);
    for (uint32_t i = 0; i < LANES; ++i) {
        uint64_t at = mixed(i) % (targets + 10) - 5; /* some below 0 */
        write_element(type, x, i, at & jitc_bits_mask(type));
        write_element(JIT_bool, mask, i, mixed(i + 3) % 3 != 0);
    }
    cuda_run_array(&r, type, x, LANES);
    cuda_run_array(&r, JIT_bool, mask, LANES);
    uint32_t index = add_data(&p, type, x, r.params);
    uint32_t masked =
        add(&p, JITC_OP_masked, type, index, add_data(&p, JIT_bool, mask, r.params), 0);
    combine(JIT_f32, JIT_REDUCE_ADD, 0, target, value, index);
    uint32_t again = combine(JIT_f32, JIT_REDUCE_ADD, 0, target, value, masked);
    if (flags & JITC_PROGRAM_BOUNDS) {
        cuda_run_array(&r, JIT_u64, report, 3);
        p.head.report = p.head.params;
        r.params[p.head.params++] = (uintptr_t) report;
    }
    add_scratch();
    if (flags & JITC_PROGRAM_BOUNDS) {
        cuda_run_device(&r, &p, LANES);
        const uint64_t *got = r.got[r.arrays - 1];
        uint32_t claimed = (uint32_t) got[0];
        cr_expect(claimed == again || claimed == again + 1, "%u", claimed);
        cr_expect_geq(got[1], targets);
        cr_expect_eq(got[2], targets);
    } else {
        cuda_run_compare(&r, &p, LANES, jitc_dtypes[type].name);
    }
    end();
}

Test(cuda_scatter, masked_lanes_and_indices_out_of_range_combine_nothing) {
    static const jit_dtype types[] = {JIT_i8, JIT_i16, JIT_u32, JIT_i64, JIT_u64};
    for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
        check_indices(0, types[i], 40);
        check_indices(JITC_PROGRAM_WIDE, types[i], 40);
        if (types[i] != JIT_i8)
            check_indices(i % 2 ? JITC_PROGRAM_WIDE : 0, types[i], 3000);
    }
    check_indices(JITC_PROGRAM_BOUNDS, JIT_i32, 40);
    check_indices(JITC_PROGRAM_BOUNDS, JIT_i64, 3000);
}

/* Old values. */

typedef struct old_value {
    uint64_t old, added;
    uint32_t place;
} old_value;

static int by_place_and_value(const void *a, const void *b) {
    const old_value *x = a, *y = b;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return x->old < y->old ? -1 : x->old > y->old;
}

/** The old values of one element are those of some order: sorted, each is the one before it and
 * what that lane has added. Values are positive, and sums do not wrap. */
static void check_old(jit_dtype t, pattern kind, uint64_t lanes, uint32_t targets, bool equal) {
    begin();
    uint32_t target = add_target(t, JIT_REDUCE_ADD, targets, NULL);
    memset(r.array[0].host, 0, r.array[0].bytes);
    void *x = room(lanes, t), *out = room(lanes, t);
    for (uint64_t i = 0; i < lanes; ++i)
        write_element(t, x, i, equal ? 1 : 1 + i % 3);
    cuda_run_array(&r, t, x, lanes);
    cuda_run_array(&r, t, out, lanes);
    uint32_t index = add_places(kind, lanes, targets);
    uint32_t old =
        combine(t, JIT_REDUCE_ADD, JITC_AUX_PART, target, add_data(&p, t, x, r.params), index);
    add_store(&p, t, old, out, r.params);
    add_scratch();
    cuda_run_device(&r, &p, lanes);
    old_value *list = calloc(lanes, sizeof *list);
    for (uint64_t i = 0; i < lanes; ++i)
        list[i] = (old_value) {.old = read_element(t, r.got[2], i),
                               .added = read_element(t, x, i),
                               .place = place(kind, i, lanes, targets)};
    qsort(list, lanes, sizeof *list, by_place_and_value);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < lanes; ++i) {
        if (!i || list[i].place != list[i - 1].place)
            sum = 0;
        cr_assert_eq(list[i].old, sum, "%s, pattern %d: %llu lanes", jitc_dtypes[t].name, kind,
                     (unsigned long long) lanes);
        sum += list[i].added;
        cr_assert(i + 1 < lanes && list[i + 1].place == list[i].place
                      ? true
                      : read_element(t, r.got[0], list[i].place) == sum);
    }
    free(list);
    end();
}

Test(cuda_scatter, old_values_are_those_of_some_order) {
    for (pattern kind = EQUAL; kind < PATTERNS; ++kind)
        for (int equal = 0; equal < 2; ++equal)
            for (jit_dtype t = JIT_i8; t <= JIT_u64; ++t) {
                check_old(t, kind, 50, 9, equal);
                if (jitc_dtypes[t].bits > 8)
                    check_old(t, kind, 1000, 2000, equal);
            }
}

/* With other things in the kernel. */

static uint32_t u32(uint32_t x) {
    return add_literal(&p, JIT_u32, x, r.params);
}

Test(cuda_scatter, several_targets_and_stores_share_a_kernel) {
    enum { LANES = 3000 };
    begin();
    uint32_t few = add_target(JIT_f32, JIT_REDUCE_ADD, 3, NULL),
             part = add_target(JIT_u8, JIT_REDUCE_MAX, 7, NULL);
    uint32_t many = add_target(JIT_f64, JIT_REDUCE_ADD, 5000, NULL);
    uint32_t place_of = add_target(JIT_u16, JIT_REDUCE_OR, 100, NULL);
    uint32_t table = add_target(JIT_u32, JIT_REDUCE_ADD, 64, NULL);
    uint32_t x = add_values(JIT_f32, JIT_REDUCE_ADD, LANES, 1), i = add_places(RANDOM, LANES, 64);
    float *out = room(LANES, JIT_f32);
    cuda_run_array(&r, JIT_f32, out, LANES);
    uint32_t g = add(&p, JITC_OP_gather, JIT_u32, table, i, 0);
    uint32_t twice = add(&p, JITC_OP_add, JIT_f32, x, x, 0);
    combine(JIT_f32, JIT_REDUCE_ADD, 0, few, twice, add(&p, JITC_OP_mod, JIT_u32, i, u32(3), 0));
    uint32_t low = add(&p, JITC_OP_cast, JIT_u8, g, 0, 0);
    combine(JIT_u8, JIT_REDUCE_MAX, 0, part, low, add(&p, JITC_OP_mod, JIT_u32, g, u32(7), 0));
    uint32_t wide = add(&p, JITC_OP_cast, JIT_f64, x, 0, 0);
    combine(JIT_f64, JIT_REDUCE_ADD, 0, many, wide, add(&p, JITC_OP_mod, JIT_u32, g, u32(5000), 0));
    uint32_t bits = add(&p, JITC_OP_cast, JIT_u16, g, 0, 0);
    combine(JIT_u16, JIT_REDUCE_OR, 0, place_of, bits,
            add(&p, JITC_OP_mod, JIT_u32, i, u32(100), 0));
    add_store(&p, JIT_f32, twice, out, r.params);
    compare(LANES, "several");
}

Test(cuda_scatter, more_targets_than_a_block_keeps) {
    enum { LANES = 500, TARGETS = JITC_CUDA_TARGETS + 4 };
    begin();
    uint32_t x = add_values(JIT_i32, JIT_REDUCE_ADD, LANES, 1), i = add_places(RANDOM, LANES, 20);
    for (int k = 0; k < TARGETS; ++k)
        combine(JIT_i32, JIT_REDUCE_ADD, 0, add_target(JIT_i32, JIT_REDUCE_ADD, 20, NULL), x, i);
    compare(LANES, "many");
}

/** An array that is read, or combined in two ways, has one place. */
Test(cuda_scatter, arrays_that_are_used_otherwise_stay_in_place) {
    enum { LANES = 600 };
    begin();
    uint32_t target = add_target(JIT_u32, JIT_REDUCE_ADD, 10, NULL);
    uint32_t x = add_values(JIT_u32, JIT_REDUCE_ADD, LANES, 1), i = add_places(EQUAL, LANES, 5);
    uint32_t j = add(&p, JITC_OP_add, JIT_u32, i, u32(5), 0);
    uint32_t first = combine(JIT_u32, JIT_REDUCE_ADD, 0, target, x, i);
    uint32_t second = combine(JIT_u32, JIT_REDUCE_MAX, 0, target, x, j);
    cr_expect_eq(jitc_cuda_target_of(&p, first), JITC_CUDA_TARGETS);
    cr_expect_eq(jitc_cuda_target_of(&p, second), JITC_CUDA_TARGETS);
    cr_expect_eq(jitc_cuda_targets_of(&p).count, 0);
    cr_expect_gt(jitc_cuda_targets_of(&p).rows, 0);
    compare(LANES, "two ways");
}

/** Lane i combines counts[i] values, in a loop, into few and many elements, and counts them. */
static void check_loop(uint32_t targets) {
    enum { LANES = 300 };
    begin();
    p.head.flags |= JITC_PROGRAM_LOOPS;
    uint32_t target = add_target(JIT_f32, JIT_REDUCE_ADD, targets, NULL);
    uint32_t numbers = add_target(JIT_u32, JIT_REDUCE_ADD, 4, NULL);
    uint32_t x = add_values(JIT_f32, JIT_REDUCE_ADD, LANES, 1),
             count = add_places(RANDOM, LANES, 9);
    uint32_t *out = room(LANES, JIT_u32), zero = u32(0);
    cuda_run_array(&r, JIT_u32, out, LANES);
    uint32_t loop = add_flagged(&p, (jitc_inst) {.op = JITC_OP_loop});
    uint32_t i = add(&p, JITC_OP_phi, JIT_u32, zero, loop, 0);
    add(&p, JITC_OP_test, JIT_bool, add(&p, JITC_OP_lt, JIT_bool, i, count, 0), loop, 0);
    uint32_t one = u32(1), at = add(&p, JITC_OP_mul, JIT_u32, i, count, 0);
    combine(JIT_f32, JIT_REDUCE_ADD, 0, target, x, at);
    combine(JIT_u32, JIT_REDUCE_ADD, JITC_AUX_PART, numbers, one, u32(3));
    add(&p, JITC_OP_next, JIT_u32, i, add(&p, JITC_OP_add, JIT_u32, i, one, 0), 0);
    add(&p, JITC_OP_end, JIT_bool, loop, 0, 0);
    combine(JIT_u32, JIT_REDUCE_ADD, JITC_AUX_PART, numbers, i, u32(2));
    add_store(&p, JIT_u32, i, out, r.params);
    compare(LANES, "loop");
}

Test(cuda_scatter, values_are_combined_in_loops) {
    check_loop(30);
    check_loop(3000);
}

/** Who has left a loop is waited for in vain: a real GPU gives wrong results then, or none. */
Test(cuda_scatter, in_loops_no_lane_waits_for_others) {
    static uint32_t target[1];
    char *text;
    begin();
    p.head.flags |= JITC_PROGRAM_LOOPS;
    uint32_t buffer = add_buffer(&p, JIT_u32, target, 1, r.params), zero = u32(0);
    uint32_t loop = add_flagged(&p, (jitc_inst) {.op = JITC_OP_loop});
    uint32_t i = add(&p, JITC_OP_phi, JIT_u32, zero, loop, 0);
    add(&p, JITC_OP_test, JIT_bool, add(&p, JITC_OP_lt, JIT_bool, i, u32(9), 0), loop, 0);
    combine(JIT_u32, JIT_REDUCE_ADD, 0, buffer, i, zero);
    uint32_t old = combine(JIT_u32, JIT_REDUCE_ADD, JITC_AUX_PART, buffer, u32(1), zero);
    add(&p, JITC_OP_next, JIT_u32, i, add(&p, JITC_OP_add, JIT_u32, old, i, 0), 0);
    add(&p, JITC_OP_end, JIT_bool, loop, 0, 0);
    add_scratch();
    cr_assert_null(jitc_program_invalid(&p), "%s", jitc_program_invalid(&p));
    cr_assert_eq(jitc_cuda_text(&p, jitc_cuda_layout_of(&p, 4096), &text), JIT_OK);
    cr_assert(strstr(text, "atomic_add_u32"));
    cr_expect_not(strstr(text, "_sync("), "%s", text);
    cr_expect_not(strstr(text, "__activemask"), "%s", text);
    free(text);
    end();
}

/** Lanes count until they have got 100 or more: those behind the end, which get nothing, must not.
 */
Test(cuda_scatter, loops_go_by_old_values) {
    enum { LANES = 33 };
    static uint32_t counter[1];
    begin();
    counter[0] = 0;
    p.head.flags |= JITC_PROGRAM_LOOPS;
    cuda_run_array(&r, JIT_u32, counter, 1);
    uint32_t buffer = add_buffer(&p, JIT_u32, counter, 1, r.params), zero = u32(0);
    uint32_t loop = add_flagged(&p, (jitc_inst) {.op = JITC_OP_loop});
    uint32_t old = combine(JIT_u32, JIT_REDUCE_ADD, JITC_AUX_PART, buffer, u32(1), zero);
    add(&p, JITC_OP_test, JIT_bool, add(&p, JITC_OP_lt, JIT_bool, old, u32(100), 0), loop, 0);
    add(&p, JITC_OP_end, JIT_bool, loop, 0, 0);
    add_scratch();
    cuda_run_device(&r, &p, LANES);
    cr_expect_eq(*(const uint32_t *) r.got[0], 100 + LANES);
    end();
}

/* Launches. */

static jitc_cuda_targets_plan plan(bool direct, uint8_t bytes, uint64_t size, uint64_t lanes) {
    static const jitc_cuda_room h200 = {132, 227 << 10, 228 << 10, {2048, 2048}};
    jitc_cuda_targets t = {.rows = 4, .count = 1, .target = {{0, bytes, direct}}};
    return jitc_cuda_plan_targets(&t, lanes, &size, &h200, 256);
}

Test(cuda_targets, where_values_are_combined_depends_on_how_many_there_are) {
    static const struct {
        uint64_t size, lanes;
        uint32_t direct, other; /* places */
    } cases[] = {{256, 256, 1, 1},       {256, 1 << 18, 1, 1},   {256, 1 << 19, 1, 2},
                 {512, 1 << 24, 1, 2},   {1024, 1 << 24, 1, 1},  {1024, 1023, 0, 0},
                 {4096, 65535, 0, 0},    {4096, 65536, 1, 1},    {32768, 1 << 24, 1, 1},
                 {58112, 1 << 24, 1, 1}, {58113, 1 << 24, 0, 0}, {1 << 20, 1 << 28, 0, 0},
                 {0, 100, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        cr_expect_eq(plan(true, 4, cases[i].size, cases[i].lanes).places, cases[i].direct, "%zu",
                     i);
        cr_expect_eq(plan(false, 4, cases[i].size, cases[i].lanes).places, cases[i].other, "%zu",
                     i);
    }
}

Test(cuda_targets, blocks_fill_the_device_and_have_enough_to_do) {
    jitc_cuda_targets_plan few = plan(true, 4, 256, 1 << 28), some = plan(true, 4, 16384, 1 << 28);
    jitc_cuda_targets_plan many = plan(true, 4, 32768, 1 << 28), small = plan(true, 4, 256, 100000);
    jitc_cuda_targets_plan none = plan(true, 4, 1 << 24, 1 << 28),
                           tiny = plan(true, 4, 1 << 24, 100);
    cr_expect(few.block == 1024 && few.blocks == 2 * 132 && few.bytes == 1024);
    cr_expect(some.block == 1024 && some.blocks == 2 * 132 && some.bytes == 65536);
    cr_expect(many.block == 1024 && many.blocks == 132 && many.bytes == 131072);
    cr_expect(small.block == 1024 && small.blocks == 7);
    cr_expect(none.block == 256 && none.blocks == (1 << 18) && none.bytes == 0);
    cr_expect(tiny.block == 32 && tiny.blocks == 1);
}

/** Without instructions: small blocks, unless their memory is large, and early more of them. */
Test(cuda_targets, fewer_threads_meet_where_they_try_again) {
    jitc_cuda_targets_plan few = plan(false, 4, 256, 1 << 28),
                           some = plan(false, 4, 16384, 1 << 28);
    jitc_cuda_targets_plan many = plan(false, 4, 32768, 1 << 28),
                           small = plan(false, 4, 256, 100000);
    cr_expect(few.block == 512 && few.blocks == 4 * 132 && few.bytes == 32768);
    cr_expect(some.block == 512 && some.blocks == 3 * 132 && some.bytes == 65536);
    cr_expect(many.block == 1024 && many.blocks == 132 && many.bytes == 131072);
    cr_expect(small.block == 512 && small.blocks == 49);
    cr_expect_eq(plan(false, 4, 256, 1 << 20).blocks, 132);
    cr_expect_eq(plan(false, 4, 256, 1200000).blocks, 147);
}

/** What is combined in place does not count. */
Test(cuda_targets, blocks_are_large_if_all_in_them_has_instructions) {
    static const jitc_cuda_room h200 = {132, 227 << 10, 228 << 10, {2048, 2048}};
    jitc_cuda_targets t = {.rows = 4, .count = 2, .target = {{0, 4, true}, {1, 4, false}}};
    const uint64_t apart[] = {256, 1 << 24}, both[] = {256, 100};
    cr_expect_eq(jitc_cuda_plan_targets(&t, 1 << 20, apart, &h200, 256).block, 1024);
    cr_expect_eq(jitc_cuda_plan_targets(&t, 1 << 20, both, &h200, 256).block, 512);
    static const jitc_cuda_room registers = {132, 227 << 10, 228 << 10, {1536, 1024}};
    cr_expect_eq(jitc_cuda_plan_targets(&t, 1 << 20, apart, &registers, 256).block, 512);
}

/** A kernel that takes so many registers that large blocks do not run, or none of these. */
Test(cuda_targets, blocks_are_as_large_as_they_can_be) {
    jitc_cuda_targets t = {.rows = 4, .count = 1, .target = {{0, 4, true}}};
    uint64_t size = 30000;
    jitc_cuda_room large = {132, 227 << 10, 228 << 10, {512, 0}},
                   neither = {132, 227 << 10, 228 << 10, {0, 0}};
    jitc_cuda_targets_plan a = jitc_cuda_plan_targets(&t, 1 << 24, &size, &large, 256);
    jitc_cuda_targets_plan b = jitc_cuda_plan_targets(&t, 1 << 24, &size, &neither, 128);
    cr_expect(a.places == 1 && a.block == 512 && a.blocks == 132);
    cr_expect(b.places == 0 && b.block == 128 && b.bytes == 0);
}
