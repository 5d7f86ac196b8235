/* test_cuda_loop.c: loops and branches on the CUDA backend, against the interpreter. Arrays have
 * exactly their size: a padding lane that ran would be found. */
#include "cuda_run.h"
#include "loops.h"
#include "programs.h"
#include <stdlib.h>
#include <string.h>

#define FOR_TYPES(t) for (jit_dtype t = JIT_bool; t <= JIT_f64; ++t)

TestSuite(cuda_loop, .init = cuda_run_start, .fini = cuda_run_stop);

enum { LANES = 333 };

static cuda_run r;
static jitc_program p;
static uint32_t counts[LANES];

static void begin(void) {
    p = (jitc_program) {.head.flags = JITC_PROGRAM_TAIL};
    cuda_run_begin(&r);
    for (size_t i = 0; i < LANES; ++i)
        counts[i] = (uint32_t) (i % 3 ? i % 3 - 1 : i * 7919 % 41); /* 0, 1, or many */
    cuda_run_array(&r, JIT_u32, counts, LANES);
}

static void compare(const char *what) {
    cuda_run_compare(&r, &p, LANES, what);
    cuda_run_end(&r, &p);
}

static uint32_t u32(uint32_t x) {
    return add_literal(&p, JIT_u32, x, r.params);
}
static uint32_t binary(jitc_op op, uint32_t a, uint32_t b) {
    return add(&p, op, jitc_op_type(op, (jit_dtype) p.inst[a].type), a, b, 0);
}
/** A state that changes, in the way of its type, in every iteration. */
static uint32_t changed(uint32_t v) {
    jit_dtype t = (jit_dtype) p.inst[v].type;
    if (t == JIT_bool)
        return add(&p, JITC_OP_not, t, v, 0, 0);
    if (jitc_dtypes[t].cls == JITC_FLOAT)
        return add(&p, JITC_OP_neg, t, binary(JITC_OP_mul, v, v), 0, 0);
    return binary(JITC_OP_add, binary(JITC_OP_mul, v, v), add_baked(&p, t, 3));
}

static unsigned char *bytes_of(jit_dtype t, unsigned salt) {
    unsigned char *x = malloc(8 * LANES);
    for (size_t i = 0; i < 8 * LANES; ++i)
        x[i] = (unsigned char) (t == JIT_bool ? i * salt % 3 == 0 : i * 37 + i / 7 * salt);
    return x;
}
static uint32_t input(jit_dtype t, void *x) {
    cuda_run_array(&r, t, x, LANES);
    return add_data(&p, t, x, r.params);
}
/** An array that the value is stored to. */
static unsigned char *output(uint32_t value) {
    jit_dtype t = (jit_dtype) p.inst[value].type;
    unsigned char *x = calloc(8, LANES);
    cuda_run_array(&r, t, x, LANES);
    add_store(&p, t, value, x, r.params);
    return x;
}

/** for (i = 0; i < counts[lane]; ++i) x[k] = changed(x[k]), of `states` of type t. */
static void check_states(jit_dtype t, unsigned states) {
    unsigned char *in[40], *out[40], *numbers;
    uint32_t v[40];
    begin();
    uint32_t count = add_data(&p, JIT_u32, counts, r.params), zero = u32(0), one = u32(1);
    for (unsigned k = 0; k < states; ++k)
        v[k] = input(t, in[k] = bytes_of(t, k + 1));
    uint32_t loop = add_loop(&p, false), i = add_phi(&p, zero, loop, 0);
    for (unsigned k = 0; k < states; ++k)
        v[k] = add_phi(&p, v[k], loop, k + 1);
    add_test(&p, binary(JITC_OP_lt, i, count), loop);
    uint32_t after = binary(JITC_OP_add, i, one), next[40];
    for (unsigned k = 0; k < states; ++k)
        next[k] = changed(v[k]);
    add_next(&p, i, after);
    for (unsigned k = 0; k < states; ++k)
        add_next(&p, v[k], next[k]);
    add_end(&p, loop);
    numbers = output(i);
    for (unsigned k = 0; k < states; ++k)
        out[k] = output(v[k]);
    compare(jitc_dtypes[t].name);
    cr_assert_arr_eq(numbers, counts, sizeof counts, "the interpreter itself");
    free(numbers);
    for (unsigned k = 0; k < states; ++k)
        free(in[k]), free(out[k]);
}

Test(cuda_loop, states_of_every_type_and_lanes_with_trip_counts_of_their_own) {
    FOR_TYPES(t)
    check_states(t, 1);
}

Test(cuda_loop, loops_have_no_states_or_many) {
    check_states(JIT_f32, 0);
    check_states(JIT_f32, 7);
    check_states(JIT_u16, 40);
}

/** All states change at once: (a, b, c) = (b, c, a), and (x, y) = (y, x + y). */
Test(cuda_loop, states_may_be_swapped) {
    unsigned char *in[5], *out[5];
    uint32_t v[5], phi[5];
    begin();
    uint32_t count = add_data(&p, JIT_u32, counts, r.params), zero = u32(0), one = u32(1);
    for (unsigned k = 0; k < 5; ++k)
        v[k] = input(JIT_u32, in[k] = bytes_of(JIT_u32, k + 1));
    uint32_t loop = add_loop(&p, false), i = add_phi(&p, zero, loop, 0);
    for (unsigned k = 0; k < 5; ++k)
        phi[k] = add_phi(&p, v[k], loop, k + 1);
    add_test(&p, binary(JITC_OP_lt, i, count), loop);
    uint32_t after = binary(JITC_OP_add, i, one), sum = binary(JITC_OP_add, phi[3], phi[4]);
    add_next(&p, phi[0], phi[1]);
    add_next(&p, phi[1], phi[2]);
    add_next(&p, phi[2], phi[0]);
    add_next(&p, phi[4], sum);
    add_next(&p, phi[3], phi[4]);
    add_next(&p, i, after);
    add_end(&p, loop);
    for (unsigned k = 0; k < 5; ++k)
        out[k] = output(phi[k]);
    compare("swaps");
    for (unsigned k = 0; k < 5; ++k)
        free(in[k]), free(out[k]);
}

/** A triangle of loops, `depth` of them in each other: each runs as often as the one around it has
 * run so far. A value from outside and the state of the outermost are used in the innermost. */
static uint32_t nest(unsigned depth, uint32_t limit, uint32_t total, uint32_t outer) {
    if (!depth)
        return binary(JITC_OP_add, binary(JITC_OP_mul, total, u32(3)), outer);
    uint32_t zero = u32(0), loop = add_loop(&p, false), i = add_phi(&p, zero, loop, 0);
    uint32_t sum = add_phi(&p, total, loop, 1);
    add_test(&p, binary(JITC_OP_lt, i, limit), loop);
    uint32_t one = u32(1), mine = nest(depth - 1, i, sum, binary(JITC_OP_xor, outer, i));
    uint32_t after = binary(JITC_OP_add, i, one);
    add_next(&p, sum, mine);
    add_next(&p, i, after);
    add_end(&p, loop);
    return sum;
}

Test(cuda_loop, loops_nest) {
    for (unsigned depth = 1; depth <= 4; ++depth) {
        begin();
        uint32_t count = add_data(&p, JIT_u32, counts, r.params), number = u32(12345);
        uint32_t limit = binary(JITC_OP_mod, count, u32(9));
        unsigned char *out = output(nest(depth, limit, number, count));
        compare("nest");
        free(out);
    }
}

/** if (c) x = f(x) and, behind it, if (!c) x = g(x): in each a branch of a branch. */
static uint32_t branch(uint32_t condition, uint32_t x, unsigned depth) {
    uint32_t loop = add_loop(&p, true), phi = add_phi(&p, x, loop, 0);
    uint32_t same = binary(JITC_OP_xor, condition, add_baked(&p, JIT_bool, 0));
    add_test(&p, same, loop);
    uint32_t odd = binary(JITC_OP_and, phi, u32(1)), value = changed(phi);
    uint32_t is_odd = binary(JITC_OP_eq, odd, u32(1));
    if (depth)
        value = branch(is_odd, value, depth - 1);
    add_next(&p, phi, value);
    add_end(&p, loop);
    return phi;
}

Test(cuda_loop, branches_are_taken_at_most_once) {
    unsigned char *flags = bytes_of(JIT_bool, 2), *in = bytes_of(JIT_u32, 3);
    begin();
    uint32_t c = input(JIT_bool, flags), x = input(JIT_u32, in);
    uint32_t then = branch(c, x, 2), otherwise = add(&p, JITC_OP_not, JIT_bool, c, 0, 0);
    unsigned char *out = output(branch(otherwise, then, 0));
    compare("branches");
    free(flags), free(in), free(out);
}

/** A list: lane i follows next[] from i, with its length in steps, until the end or a number of
 * steps; on the way it writes to a row of its own. Indices of the end lie outside of the array. */
static void check_memory(bool negative, jit_dtype index_type) {
    enum { NODES = 100, STEPS = 8 };
    static int64_t wide[NODES], visited[LANES * STEPS];
    begin();
    for (int i = 0; i < NODES; ++i)
        wide[i] = i % 10 == 9 ? (negative ? -1 : NODES) : i * 3 % NODES;
    memset(visited, 0, sizeof visited);
    cuda_run_array(&r, JIT_i64, wide, NODES);
    cuda_run_array(&r, JIT_i64, visited, LANES * STEPS);
    uint32_t list = add_buffer(&p, JIT_i64, wide, NODES, r.params);
    uint32_t row = add_buffer(&p, JIT_i64, visited, LANES * STEPS, r.params);
    uint32_t lane = add(&p, JITC_OP_counter, JIT_u32, 0, 0, 0), zero = u32(0);
    uint32_t start = add(&p, JITC_OP_cast, JIT_i64, binary(JITC_OP_mod, lane, u32(NODES)), 0, 0);
    uint32_t loop = add_loop(&p, false), node = add_phi(&p, start, loop, 0),
             i = add_phi(&p, zero, loop, 1);
    uint32_t end = add_baked(&p, JIT_i64, NODES), nowhere = add_baked(&p, JIT_i64, 0);
    uint32_t inside = binary(JITC_OP_ge, node, nowhere);
    uint32_t goes = binary(JITC_OP_and, inside, binary(JITC_OP_lt, node, end));
    add_test(&p, binary(JITC_OP_and, goes, binary(JITC_OP_lt, i, u32(STEPS))), loop);
    uint32_t index = add(&p, JITC_OP_cast, index_type, node, 0, 0);
    uint32_t next = add(&p, JITC_OP_gather, JIT_i64, list, index, 0);
    uint32_t place = binary(JITC_OP_add, binary(JITC_OP_mul, lane, u32(STEPS)), i);
    uint32_t odd = binary(JITC_OP_eq, binary(JITC_OP_and, i, u32(1)), u32(1));
    add(&p, JITC_OP_scatter, JIT_i64, row, node, add(&p, JITC_OP_masked, JIT_u32, place, odd, 0));
    uint32_t after = binary(JITC_OP_add, i, u32(1));
    add_next(&p, node, next);
    add_next(&p, i, after);
    add_end(&p, loop);
    unsigned char *out = output(node);
    compare("list");
    free(out);
}

Test(cuda_loop, arrays_are_read_and_written_inside) {
    check_memory(false, JIT_i32);
    check_memory(true, JIT_i64);
}

/** Lanes whose count is above 20 read behind an array, in their last iteration only. */
Test(cuda_loop, indices_out_of_range_are_reported_from_inside) {
    static float x[40];
    static uint64_t report[3];
    for (int any = 0; any < 2; ++any) {
        begin();
        memset(report, 0, sizeof report);
        cuda_run_array(&r, JIT_f32, x, 40);
        cuda_run_array(&r, JIT_u64, report, 3);
        p.head.flags |= JITC_PROGRAM_BOUNDS;
        uint32_t size = any ? 20 : 40;
        uint32_t buffer = add_buffer(&p, JIT_f32, x, size, r.params);
        p.head.report = p.head.params;
        r.params[p.head.params++] = (uintptr_t) report;
        uint32_t count = add_data(&p, JIT_u32, counts, r.params), zero = u32(0);
        uint32_t loop = add_loop(&p, false), i = add_phi(&p, zero, loop, 0);
        add_test(&p, binary(JITC_OP_lt, i, count), loop);
        uint32_t gather = add(&p, JITC_OP_gather, JIT_f32, buffer, i, 0);
        add_next(&p, i, binary(JITC_OP_add, i, u32(1)));
        add_end(&p, loop);
        cuda_run_device(&r, &p, LANES);
        const uint64_t *got = r.got[2];
        cr_expect_eq((uint32_t) got[0], any ? gather + 1 : 0);
        cr_expect(any ? got[1] >= 20 && got[1] < 40 && got[2] == 20 : !got[1], "%llu",
                  (unsigned long long) got[1]);
        cuda_run_end(&r, &p);
    }
}

/** Arrays that are on both sides. */
static void add_arrays(loop_arrays *a) {
    for (uint32_t n = 0; n < p.head.count; ++n) {
        const jitc_inst *i = &p.inst[n];
        if (i->op == JITC_OP_data || i->op == JITC_OP_store)
            cuda_run_array(&r, (jit_dtype) i->type,
                           (void *) (uintptr_t) r.params[i->op == JITC_OP_store ? i->b : i->a],
                           LANES);
    }
    cuda_run_array(&r, JIT_u32, a->out[LOOP_OUTPUTS - 1], LANES);
    cuda_run_array(&r, JIT_u32, a->sums, LOOP_SUMS);
}

Test(cuda_loop, random_programs_are_as_interpreted) {
    for (uint64_t seed = 1; seed <= 16; ++seed) {
        loop_arrays a;
        p = (jitc_program) {.head.flags = JITC_PROGRAM_TAIL | (seed % 3 ? 0 : JITC_PROGRAM_WIDE)};
        if (seed % 2) { /* with scatter_reduce instead of scatter */
            p.head.flags |= JITC_PROGRAM_SCRATCH;
            p.head.params = JITC_SCRATCH_PARAMS;
        }
        cuda_run_begin(&r);
        loop_arrays_init(&a, LANES, seed);
        loop_program(&p, &a, seed, r.params);
        add_arrays(&a);
        compare("random");
        loop_arrays_finish(&a);
    }
}
