/* test_llvm_loop.c: loops and branches on the CPU backend. */
#include "interpret.h"
#include "llvm_run.h"
#include "loops.h"
#include "reference.h"
#include <criterion/criterion.h>
#include <string.h>

/* Random programs. */

static void check_equal(const jitc_program *p, const loop_arrays *got, const loop_arrays *want,
                        uint64_t seed) {
    int output = 0;
    for (uint32_t n = 0; n < p->head.count; n++) {
        jit_dtype t = (jit_dtype) p->inst[n].type;
        if (p->inst[n].op != JITC_OP_store)
            continue;
        for (uint64_t i = 0; i < got->lanes; i++) {
            uint64_t a = read_element(t, got->out[output], i);
            uint64_t b = read_element(t, want->out[output], i);
            cr_assert(reference_same(JITC_OP_add, t, a, b),
                      "program %lu, output %d (%s), lane %lu: %lx, not %lx", seed, output,
                      jitc_dtypes[t].name, i, a, b);
        }
        output++;
    }
    cr_assert_arr_eq(got->out[LOOP_OUTPUTS - 1], want->out[LOOP_OUTPUTS - 1], got->lanes * 4);
    cr_assert_eq(got->report.claimed != 0, want->report.claimed != 0);
}

static void check_random(runner *r, uint64_t seed, uint32_t flags, int level) {
    static const uint64_t sizes[] = {1, 7, 16, 33, 130, 1000};
    loop_arrays got, want;
    uint64_t params[256], lanes = sizes[seed % 6];
    loop_arrays_init(&got, lanes, seed);
    loop_arrays_init(&want, lanes, seed);
    for (int which = 0; which < 2; which++) {
        loop_arrays *a = which ? &got : &want;
        jitc_program p = {.head.flags = flags};
        if (flags & JITC_PROGRAM_BOUNDS) {
            params[p.head.params] = (uintptr_t) &a->report;
            p.head.report = p.head.params++;
        }
        loop_program(&p, a, seed, params);
        if (which) {
            runner_run(r, &p, level, lanes, params);
            check_equal(&p, &got, &want, seed);
        } else {
            interpret(&p, lanes, params);
        }
        jitc_program_finish(&p);
    }
    loop_arrays_finish(&got);
    loop_arrays_finish(&want);
}

static void check_programs(runner *r) {
    static const uint32_t flags[] = {0, JITC_PROGRAM_TAIL, JITC_PROGRAM_BOUNDS, JITC_PROGRAM_WIDE};
    static uint64_t seed; /* goes on: others on each instruction set */
    for (uint64_t i = 0; i < 14; i++, seed++)
        check_random(r, seed, flags[i % 4], seed % 2 || i == 0 ? 2 : 0);
}
Test(llvm_loop, random_programs_are_as_interpreted, .timeout = 120) {
    runner_for_each_isa(check_programs);
}

/* One loop. */

enum { MANY = 300 };

/** Each lane goes around as often as its element says; `body` says what becomes of a state. */
typedef uint32_t (*body)(jitc_program *p, uint32_t state, uint64_t *params);

static uint32_t add_counted(jitc_program *p, uint32_t trips, uint32_t start, body f,
                            uint64_t *params) {
    uint32_t zero = add_literal(p, JIT_u32, 0, params), one = add_literal(p, JIT_u32, 1, params);
    uint32_t loop = add_loop(p, false);
    uint32_t i = add_phi(p, zero, loop, 0), state = add_phi(p, start, loop, 1);
    add_test(p, add(p, JITC_OP_lt, JIT_bool, i, trips, 0), loop);
    uint32_t new = f(p, state, params), counted = add(p, JITC_OP_add, JIT_u32, i, one, 0);
    add_next(p, i, counted);
    add_next(p, state, new);
    add_end(p, loop);
    return state;
}

static uint32_t through_functions(jitc_program *p, uint32_t x, uint64_t *params) {
    jit_dtype t = (jit_dtype) p->inst[x].type;
    uint32_t y = add(p, JITC_OP_exp, t, add(p, JITC_OP_sin, t, x, 0, 0), 0, 0);
    uint64_t three = t == JIT_f32 ? 0x40400000 : 0x4008000000000000;
    y = add(p, JITC_OP_mod, t, y, add_literal(p, t, three, params), 0);
    y = add(p, JITC_OP_fma, t, y, x, y);
    return add(p, JITC_OP_atan2, t, add(p, JITC_OP_erf, t, y, 0, 0), x, 0);
}

/** Functions in a loop give what they give one after the other. */
static void check_functions_of(runner *r, jit_dtype t, int level) {
    enum { TRIPS = 4 };
    uint64_t params[32], in[MANY + JITC_PADDING], out[TRIPS + 1][MANY + JITC_PADDING];
    uint32_t trips[MANY + JITC_PADDING];
    for (uint64_t i = 0; i < MANY + JITC_PADDING; i++) {
        trips[i] = (uint32_t) i * 7 % 11 % (TRIPS + 1);
        write_element(t, in, i, reference_from_double(t, i == 5 ? 1e30 : (double) i / 8 - 17));
    }
    jitc_program loop = {0}, line = {0};
    uint32_t x = add_data(&loop, t, in, params), n = add_data(&loop, JIT_u32, trips, params);
    add_store(&loop, t, add_counted(&loop, n, x, through_functions, params), out[TRIPS], params);
    runner_run(r, &loop, level, MANY, params);
    uint64_t looped[MANY];
    memcpy(looped, out[TRIPS], sizeof looped);
    x = add_data(&line, t, in, params);
    for (int k = 0; k <= TRIPS; k++, x = through_functions(&line, x, params))
        add_store(&line, t, x, out[k], params);
    runner_run(r, &line, level, MANY, params);
    for (uint64_t i = 0; i < MANY; i++) {
        uint64_t want = read_element(t, out[trips[i]], i);
        cr_assert(reference_same(JITC_OP_add, t, read_element(t, looped, i), want), "lane %lu", i);
    }
    jitc_program_finish(&loop);
    jitc_program_finish(&line);
}

static void check_functions(runner *r) {
    check_functions_of(r, JIT_f32, 0);
    check_functions_of(r, JIT_f64, 2);
}
Test(llvm_loop, functions_in_a_loop_are_as_outside) {
    runner_for_each_isa(check_functions);
}

static uint32_t unchanged(jitc_program *p, uint32_t x, uint64_t *params) {
    (void) p, (void) params;
    return x;
}

/** Lanes that do not exist would go around for ever, or for an hour. */
static void check_padding(runner *r) {
    enum { LANES = 37 };
    for (int endless = 0; endless < 2; endless++) {
        uint32_t trips[LANES + JITC_PADDING], out[LANES + JITC_PADDING];
        uint64_t params[16];
        jitc_program p = {0};
        for (int i = 0; i < LANES + JITC_PADDING; i++)
            trips[i] = i < LANES ? (uint32_t) i % 3 : ~0u;
        uint32_t n = add_data(&p, JIT_u32, trips, params), state;
        if (endless) {
            uint32_t zero = add_literal(&p, JIT_u32, 0, params);
            uint32_t loop = add_loop(&p, false);
            state = add_phi(&p, n, loop, 0);
            add_test(&p, add(&p, JITC_OP_ne, JIT_bool, state, zero, 0), loop);
            uint32_t half =
                add(&p, JITC_OP_shr, JIT_i32, add(&p, JITC_OP_cast, JIT_i32, state, 0, 0),
                    add_baked(&p, JIT_i32, 1), 0);
            add_next(&p, state, add(&p, JITC_OP_cast, JIT_u32, half, 0, 0));
            add_end(&p, loop); /* all ones stay all ones */
        } else {
            state = add_counted(&p, n, n, unchanged, params);
        }
        add_store(&p, JIT_u32, state, out, params);
        runner_run(r, &p, 0, LANES, params);
        for (uint32_t i = 0; i < LANES; i++)
            cr_assert_eq(out[i], endless ? 0 : i % 3);
        jitc_program_finish(&p);
    }
}
Test(llvm_loop, lanes_that_do_not_exist_end_at_once, .timeout = 60) {
    runner_for_each_isa(check_padding);
}

/** Arrays that end before a page that must not be touched. */
static void check_ends(runner *r) {
    static const uint64_t sizes[] = {1, 15, 17, 64, 100, 1003};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        uint64_t n = sizes[k], params[16];
        uint32_t *trips = guarded_alloc(n * 4), *out = guarded_alloc(n * 4);
        bool *mask = guarded_alloc(n);
        jitc_program p = {.head.flags = JITC_PROGRAM_TAIL};
        for (uint64_t i = 0; i < n; i++) {
            trips[i] = (uint32_t) i % 5;
            mask[i] = i % 3;
        }
        uint32_t x = add_data(&p, JIT_u32, trips, params);
        x = add_counted(&p, x, x, unchanged, params);
        uint32_t loop = add_loop(&p, true), state = add_phi(&p, x, loop, 0);
        add_test(&p, add_data(&p, JIT_bool, mask, params), loop); /* read inside */
        add_next(&p, state, add(&p, JITC_OP_add, JIT_u32, state, add_baked(&p, JIT_u32, 9), 0));
        add_end(&p, loop);
        add_store(&p, JIT_u32, state, out, params);
        runner_run(r, &p, k % 2 ? 2 : 0, n, params);
        for (uint64_t i = 0; i < n; i++)
            cr_assert_eq(out[i], i % 5 + (i % 3 ? 9 : 0));
        jitc_program_finish(&p);
        guarded_free(trips, n * 4);
        guarded_free(out, n * 4);
        guarded_free(mask, n);
    }
}
Test(llvm_loop, nothing_behind_the_last_element_is_touched) {
    runner_for_each_isa(check_ends);
}

/** States of all types that move around in a ring: all change at once. */
static void check_states_of(runner *r, unsigned states, int level) {
    enum { MOST = 40, LANES = 70 };
    uint64_t params[128], *in[MOST], *out[MOST];
    uint32_t trips[LANES + JITC_PADDING], start[MOST], phi[MOST];
    for (uint32_t i = 0; i < LANES + JITC_PADDING; i++)
        trips[i] = i % 7 * 3;
    jitc_program p = {0};
    jit_dtype t = (jit_dtype) (states * 5 % JITC_DTYPE_COUNT);
    uint32_t n = add_data(&p, JIT_u32, trips, params), zero = add_baked(&p, JIT_u32, 0);
    for (unsigned s = 0; s < states; s++) {
        in[s] = calloc(LANES + JITC_PADDING, 8);
        out[s] = calloc(LANES + JITC_PADDING, 8);
        for (uint32_t i = 0; i < LANES; i++)
            write_element(t, in[s], i,
                          (i * 77 + s * 1001) & (t == JIT_bool ? 1 : 0x3fff) & jitc_bits_mask(t));
        start[s] = add_data(&p, t, in[s], params);
    }
    uint32_t loop = add_loop(&p, false), i = add_phi(&p, zero, loop, 0);
    for (unsigned s = 0; s < states; s++)
        phi[s] = add_phi(&p, start[s], loop, s + 1);
    add_test(&p, add(&p, JITC_OP_lt, JIT_bool, i, n, 0), loop);
    uint32_t counted = add(&p, JITC_OP_add, JIT_u32, i, add_baked(&p, JIT_u32, 1), 0);
    add_next(&p, i, counted);
    for (unsigned s = 0; s < states; s++)
        add_next(&p, phi[s], phi[(s + 1) % states]);
    add_end(&p, loop);
    for (unsigned s = 0; s < states; s++)
        add_store(&p, t, phi[s], out[s], params);
    runner_run(r, &p, level, LANES, params);
    for (unsigned s = 0; s < states; s++)
        for (uint32_t l = 0; l < LANES; l++)
            cr_assert_eq(read_element(t, out[s], l),
                         read_element(t, in[(s + trips[l]) % states], l), "%u states of %s", states,
                         jitc_dtypes[t].name);
    for (unsigned s = 0; s < states; s++) {
        free(in[s]);
        free(out[s]);
    }
    jitc_program_finish(&p);
}

static void check_states(runner *r) {
    static const uint8_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 40};
    for (size_t i = 0; i < sizeof counts; i++)
        check_states_of(r, counts[i], i % 4 == 1 ? 2 : 0);
}
Test(llvm_loop, states_of_all_types_change_at_once) {
    runner_for_each_isa(check_states);
}

/** States that all lanes count in step: from where, by what, until what. */
static void check_counted(runner *r) {
    static const struct {
        jit_dtype type;
        jitc_op op;
        uint64_t first, step, limit, last;
    } cases[] = {{JIT_i32, JITC_OP_lt, 0xfffffffb, 3, 4, 4},
                 {JIT_i32, JITC_OP_ge, 5, 0xfffffffe, 0xfffffffd, 0xfffffffb},
                 {JIT_u32, JITC_OP_lt, 0xfffffffb, 3, 4, 0xfffffffb},
                 {JIT_u64, JITC_OP_ne, 0, 1, 9, 9},
                 {JIT_i64, JITC_OP_le, 1, (uint64_t) 1 << 62, 1, 0x4000000000000001},
                 {JIT_u32, JITC_OP_gt, 7, 0xffffffff, 0, 0},
                 {JIT_u32, JITC_OP_eq, 7, 1, 7, 8}};
    enum { LANES = 70, CASES = sizeof cases / sizeof *cases };
    for (int c = 0; c < CASES * 2; c++) {
        jit_dtype t = cases[c / 2].type;
        uint64_t params[16], out[LANES + JITC_PADDING];
        uint32_t stay[LANES + JITC_PADDING];
        for (uint32_t i = 0; i < LANES + JITC_PADDING; i++)
            stay[i] = i % 5 ? 100 : 0; /* lanes that leave at once */
        jitc_program p = {0};
        uint32_t x = add_data(&p, JIT_u32, stay, params), zero = add_baked(&p, JIT_u32, 0);
        uint32_t first = add_literal(&p, t, cases[c / 2].first, params);
        uint32_t step = add_literal(&p, t, cases[c / 2].step, params);
        uint32_t limit = add_literal(&p, t, cases[c / 2].limit, params);
        uint32_t loop = add_loop(&p, false), n = add_phi(&p, first, loop, 0);
        uint32_t go = add(&p, cases[c / 2].op, JIT_bool, n, limit, 0);
        if (c % 2)
            go = add(&p, JITC_OP_and, JIT_bool, go, add(&p, JITC_OP_ne, JIT_bool, x, zero, 0), 0);
        add_test(&p, go, loop);
        add_next(&p, n, add(&p, JITC_OP_add, t, n, step, 0));
        add_end(&p, loop);
        add_store(&p, t, n, out, params);
        runner_run(r, &p, 2, LANES, params);
        for (uint32_t i = 0; i < LANES; i++)
            cr_assert_eq(read_element(t, out, i),
                         c % 2 && i % 5 == 0 ? cases[c / 2].first : cases[c / 2].last,
                         "case %d, lane %u: %lx", c, i, read_element(t, out, i));
        jitc_program_finish(&p);
    }
}
Test(llvm_loop, lanes_that_count_in_step_leave_together, .timeout = 60) {
    runner_for_each_isa(check_counted);
}

/** The same where one of the numbers is each lane's own. */
static void check_counted_apart(runner *r) {
    enum { LANES = 70 };
    for (int which = 0; which < 3; which++) {
        uint64_t params[16];
        uint32_t own[LANES + JITC_PADDING], out[LANES + JITC_PADDING], numbers[] = {2, 3, 20};
        jitc_program p = {0};
        uint32_t operand[3];
        for (uint32_t i = 0; i < LANES + JITC_PADDING; i++)
            own[i] = i % 7 + 1;
        for (int k = 0; k < 3; k++)
            operand[k] = k == which ? add_data(&p, JIT_u32, own, params)
                                    : add_literal(&p, JIT_u32, numbers[k], params);
        uint32_t loop = add_loop(&p, false), n = add_phi(&p, operand[0], loop, 0);
        add_test(&p, add(&p, JITC_OP_lt, JIT_bool, n, operand[2], 0), loop);
        add_next(&p, n, add(&p, JITC_OP_add, JIT_u32, operand[1], n, 0));
        add_end(&p, loop);
        add_store(&p, JIT_u32, n, out, params);
        runner_run(r, &p, 2, LANES, params);
        for (uint32_t i = 0; i < LANES; i++) {
            numbers[which] = own[i];
            uint32_t want = numbers[0];
            while (want < numbers[2])
                want += numbers[1];
            cr_assert_eq(out[i], want, "number %d is its own, lane %u: %u", which, i, out[i]);
        }
        jitc_program_finish(&p);
    }
}
Test(llvm_loop, lanes_that_count_apart_leave_one_by_one, .timeout = 60) {
    runner_for_each_isa(check_counted_apart);
}

/* Bounds. */

enum { ELEMENTS = 20 };

/** A gather in a branch that is taken by lanes below `taken`; the index is in range in those below
 * `good`. */
static void check_report(runner *r, uint32_t taken, uint32_t good, bool uniform, bool is_reported) {
    enum { LANES = 50 };
    uint32_t table[ELEMENTS], index[LANES + JITC_PADDING], out[LANES + JITC_PADDING];
    uint64_t params[16];
    jitc_bounds_report report = {0};
    jitc_program p = {.head.flags = JITC_PROGRAM_BOUNDS, .head.params = 1};
    params[0] = (uintptr_t) &report;
    for (uint32_t i = 0; i < LANES + JITC_PADDING; i++)
        index[i] = i < good ? i % ELEMENTS : 1000 + i;
    for (uint32_t i = 0; i < ELEMENTS; i++)
        table[i] = i * i;
    uint32_t buffer = add_buffer(&p, JIT_u32, table, ELEMENTS, params);
    uint32_t x =
        uniform ? add_literal(&p, JIT_u32, 1040, params) : add_data(&p, JIT_u32, index, params);
    uint32_t lane = add(&p, JITC_OP_counter, JIT_u32, 0, 0, 0);
    uint32_t limit = add_literal(&p, JIT_u32, taken, params);
    uint32_t condition = add(&p, JITC_OP_lt, JIT_bool, lane, limit, 0);
    uint32_t loop = add_loop(&p, true), state = add_phi(&p, lane, loop, 0);
    add_test(&p, condition, loop);
    uint32_t got = add_flagged(&p, (jitc_inst) {.op = JITC_OP_gather,
                                                .type = JIT_u32,
                                                .flags = uniform ? JITC_INST_UNIFORM : 0,
                                                .a = buffer,
                                                .b = x});
    add_next(&p, state, add(&p, JITC_OP_add, JIT_u32, got, lane, 0));
    add_end(&p, loop);
    add_store(&p, JIT_u32, state, out, params);
    runner_run(r, &p, 0, LANES, params);
    cr_assert_eq(report.claimed, is_reported ? got + 1 : 0, "%u taken, uniform %d", taken, uniform);
    cr_assert_eq(report.index, is_reported ? 1040 : 0);
    for (uint32_t i = 0; i < LANES; i++)
        cr_assert_eq(out[i], i < taken && i < good && !uniform ? i + table[i % ELEMENTS] : i);
    jitc_program_finish(&p);
}

static void check_reports(runner *r) {
    check_report(r, 0, 40, false, false);
    check_report(r, 40, 40, false, false);
    check_report(r, 1000, 40, false, true);
    check_report(r, 1000, 50, false, false); /* those that do not exist would */
    check_report(r, 0, 40, true, false);
    check_report(r, 1, 40, true, true);
}
Test(llvm_loop, only_lanes_that_run_report_indices_out_of_range) {
    runner_for_each_isa(check_reports);
}
