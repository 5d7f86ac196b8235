/* test_plan.c: from variables to programs: which operations that combine lanes share a kernel, what
 * goes through memory, how long kernels are cut.  Layer: tests. */
#include "schedule/schedule.h"
#include "trace_graph.h"
#include <stdlib.h>

static jitc_plan plan;
static jitc_options options;
static jitc_buffer memory; /* of all arrays; never given up */

static void start_plan(void) {
    start();
    jitc_refcount_init(&memory.refs);
    jitc_options_init(&options);
}

static void stop_plan(void) {
    jitc_plan_finish(&plan);
    stop();
}

TestSuite(plan, .init = start_plan, .fini = stop_plan);

static jit_var array(jit_dtype t, uint64_t size) {
    jitc_buffer_ref(&memory);
    return jitc_trace_data(g, JIT_LLVM, 0, t, size, &memory);
}

/* A plan for the variables; every program is what backends rely on. Drops the former plan. */
static void make(size_t n, const jit_var *v) {
    uint32_t node[64];
    bool busy;
    for (size_t i = 0; i < n; ++i)
        node[i] = v[i] & JITC_INDEX_MASK;
    jitc_wanted wanted = {n, node, false};
    jitc_graph_lock(g);
    cr_assert_eq(jitc_plan_make_locked(&plan, g, &options, &wanted, &busy), JIT_OK);
    cr_assert(!busy);
    jitc_plan_abandon_locked(&plan, g);
    jitc_graph_unlock(g);
    jitc_plan_drop_all_buffers(&plan, g);
    for (size_t i = 0; i < plan.groups; ++i) {
        const char *wrong = jitc_program_invalid(&plan.group[i].program);
        char *text = wrong ? jitc_program_print(&plan.group[i].program) : NULL;
        cr_assert_null(wrong, "kernel %zu: %s\n%s", i, wrong, text);
    }
}
#define PLAN(...)                                                                                  \
    make(sizeof((jit_var[]) {__VA_ARGS__}) / sizeof(jit_var), (jit_var[]) {__VA_ARGS__})

/* Operations of kernel i, apart from leaves, as a word each. */
static const char *words(size_t i) {
    static char text[1000];
    *text = 0;
    const jitc_program *p = &plan.group[i].program;
    for (uint32_t k = 0; k < p->head.count; ++k)
        if (p->inst[k].op != JITC_OP_literal && p->inst[k].op != JITC_OP_counter) {
            strcat(text, *text ? " " : "");
            strcat(text, jitc_ops[p->inst[k].op].name);
        }
    return text;
}

static void assert_kernel(size_t i, uint64_t lanes, jitc_shape shape, const char *text) {
    cr_assert_lt(i, plan.groups);
    cr_assert_str_eq(words(i), text, "kernel %zu: %s", i, words(i));
    cr_assert_eq(plan.group[i].lanes, lanes);
    cr_assert_eq(plan.group[i].program.head.shape, shape);
}

static jit_var reduce(jit_reduce_op op, jit_var a) {
    return jitc_trace_reduce(g, op, a);
}
static jit_var mul(jit_var a, jit_var b) {
    return binary(JITC_OP_mul, a, b);
}
/* Too dear to be computed twice. */
static jit_var dear(jit_var a) {
    for (int i = 0; i < 30; ++i)
        a = unary(i & 1 ? JITC_OP_sqrt : JITC_OP_exp, a);
    return a;
}
static size_t count(size_t i, jitc_op op) {
    size_t n = 0;
    for (uint32_t k = 0; k < plan.group[i].program.head.count; ++k)
        n += plan.group[i].program.inst[k].op == op;
    return n;
}

/* ---- what is written ---- */

Test(plan, a_reduction_reads_its_inputs_once_and_stores_nothing) {
    jit_var x = array(JIT_f32, 1000), y = array(JIT_f32, 1000);
    PLAN(reduce(JIT_REDUCE_ADD, mul(x, y)));
    cr_assert_eq(plan.groups, 1);
    char *text = jitc_program_print(&plan.group[0].program);
    cr_assert_str_eq(text, "program of 6 parameters scratch reduce, scratch p3\n"
                           "v0    f32  data     p0\n"
                           "v1    f32  data     p1\n"
                           "v2    f32  mul      v0 v1\n"
                           "v3    f32  reduce   v2 p2 add\n");
    free(text);
    static const jitc_param_kind kinds[] = {JITC_PARAM_READ,    JITC_PARAM_READ, JITC_PARAM_WRITE,
                                            JITC_PARAM_SCRATCH, JITC_PARAM_BITS, JITC_PARAM_BITS};
    for (int i = 0; i < 6; ++i)
        cr_assert_eq(plan.group[0].param[i].kind, kinds[i]);
    cr_assert_eq(plan.group[0].lanes, 1000);
    cr_assert_eq(plan.slot[plan.group[0].output[0]].used_bytes, 4);
}

/** The usual plan and that of the partition are the same bytes: one kernel in the cache. */
Test(plan, both_ways_to_a_plan_write_the_same_reduction) {
    jit_var x = array(JIT_f32, 1000), y = array(JIT_f32, 1000), other = array(JIT_f32, 7);
    jit_var sum = reduce(JIT_REDUCE_ADD, mul(x, y));
    jitc_program direct;
    PLAN(sum);
    cr_assert_eq(jitc_program_copy(&plan.group[0].program, &direct), JIT_OK);
    PLAN(sum, unary(JITC_OP_sqrt, other));
    cr_assert_eq(plan.groups, 2);
    size_t i = plan.group[0].lanes == 1000 ? 0 : 1;
    cr_assert(jitc_program_equal(&direct, &plan.group[i].program));
    jitc_program_finish(&direct);
}

Test(plan, block_length_is_a_parameter) {
    jit_var x = array(JIT_i32, 1000);
    PLAN(jitc_trace_block_reduce(g, JIT_REDUCE_MAX, x, 30));
    char *text = jitc_program_print(&plan.group[0].program);
    cr_assert_str_eq(text, "program of 6 parameters scratch block_reduce, scratch p3\n"
                           "v0    i32  data     p0\n"
                           "v1    i32  block_reduce v0 p1 max p2\n");
    free(text);
    cr_assert_eq(plan.group[0].param[2].bits, 30);
    cr_assert_eq(plan.group[0].lanes, 1000);
    cr_assert_eq(plan.slot[plan.group[0].output[0]].used_bytes, 34 * 4);
}

Test(plan, scans_have_their_variant) {
    jit_var x = array(JIT_i32, 1000);
    PLAN(jitc_trace_prefix_reduce(g, JIT_REDUCE_ADD, mul(x, x), true, true));
    char *text = jitc_program_print(&plan.group[0].program);
    cr_assert_str_eq(text, "program of 5 parameters scratch scan, scratch p2\n"
                           "v0    i32  data     p0\n"
                           "v1    i32  mul      v0 v0\n"
                           "v2    i32  prefix_reduce v1 p1 add exclusive reverse\n");
    free(text);
}

Test(plan, parts_are_written_by_the_kernel_of_their_operation) {
    jit_var x = array(JIT_f32, 1000), m = binary(JITC_OP_lt, x, literal_f32(0)), all, number, index;
    cr_assert_eq(jitc_trace_compress(g, m, &all, &number), JIT_OK);
    const jit_var wanted[] = {all, number};
    for (int i = 0; i < 3; ++i) { /* the one, the other, both */
        make(i < 2 ? 1 : 2, i < 2 ? &wanted[i] : wanted);
        cr_assert_eq(plan.groups, 1);
        char *text = jitc_program_print(&plan.group[0].program);
        cr_assert_str_eq(text, "program of 7 parameters scratch compress, scratch p4\n"
                               "v0    f32  data     p0\n"
                               "v1    f32  literal  p1\n"
                               "v2    bool lt       v0 v1\n"
                               "v3    u32  compress v2 p2 p3\n");
        free(text);
        cr_assert_eq(plan.group[0].outputs, 2);
    }
    unref(number);
    PLAN(all);
    cr_assert_eq(plan.group[0].outputs, 1);
    jit_var sorted = jitc_trace_sort(g, mul(x, x), true, &index);
    PLAN(index);
    cr_assert_eq(plan.groups, 2);
    assert_kernel(0, 1000, JITC_SHAPE_MAP, "data mul store");
    char *text = jitc_program_print(&plan.group[1].program);
    cr_assert_str_eq(text, "program of 7 parameters scratch sort, scratch p4\n"
                           "v0    f32  buffer   p0\n"
                           "v1    f32  sort     v0 p2 descending p3\n");
    free(text);
    unref(sorted);
}

Test(plan, old_values_are_stored_beside_the_scatter) {
    jit_var t = array(JIT_u32, 10), i = array(JIT_u32, 1000), updated, old;
    cr_assert_eq(jitc_trace_scatter_inc(g, t, i, 0, &updated, &old), JIT_OK);
    PLAN(updated);
    char *text = jitc_program_print(&plan.group[0].program);
    cr_assert_str_eq(text, "program of 8 parameters scratch, scratch p5\n"
                           "v0    u32  buffer   p0\n"
                           "v1    u32  literal  p2\n"
                           "v2    u32  data     p3\n"
                           "v3    u32  scatter_reduce v0 v1 v2 add old\n"
                           "v4    u32  store    v3 p4\n");
    free(text);
    cr_assert_eq(plan.group[0].lanes, 1000);
    cr_assert_eq(plan.group[0].outputs, 2);
    unref(old);
    PLAN(updated, jitc_trace_scatter_reduce(g, JIT_REDUCE_MIN, t, literal(JIT_u32, 5, 1), i, 0));
    assert_kernel(0, 1000, JITC_SHAPE_MAP, "buffer data scatter_reduce buffer scatter_reduce");
    cr_assert_eq(plan.groups, 1);
}

/** Sorting reads no index that could be out of range. */
Test(plan, only_what_is_indexed_is_checked) {
    options.bounds_check = true;
    jit_var x = array(JIT_f32, 100), i = array(JIT_u32, 100);
    PLAN(jitc_trace_sort(g, x, false, NULL));
    cr_assert(!(plan.group[0].program.head.flags & JITC_PROGRAM_BOUNDS));
    PLAN(jitc_trace_scatter_reduce(g, JIT_REDUCE_ADD, x, x, i, 0));
    cr_assert(plan.group[0].program.head.flags & JITC_PROGRAM_BOUNDS);
    PLAN(reduce(JIT_REDUCE_ADD, jitc_trace_gather(g, x, i, 0)));
    cr_assert(plan.group[0].program.head.flags & JITC_PROGRAM_BOUNDS);
}

/** As any other variable that a thread is evaluating: who needs it waits. */
Test(plan, a_claimed_reduction_is_busy) {
    jit_var sum = reduce(JIT_REDUCE_ADD, array(JIT_f32, 100));
    uint32_t node = sum & JITC_INDEX_MASK;
    bool busy = false;
    jitc_graph_lock(g);
    jitc_node_at(g, node)->flags |= JITC_NODE_CLAIMED;
    jitc_wanted wanted = {1, &node, false};
    cr_assert_eq(jitc_plan_make_locked(&plan, g, &options, &wanted, &busy), JIT_OK);
    cr_assert(busy);
    cr_assert_eq(plan.groups, 0);
    jitc_node_at(g, node)->flags &= (uint8_t) ~JITC_NODE_CLAIMED;
    jitc_graph_unlock(g);
}

/* ---- who shares a kernel ---- */

Test(plan, reductions_and_stores_of_one_size_share_a_pass) {
    jit_var x = array(JIT_f32, 1000), y = mul(x, x), m = binary(JITC_OP_lt, x, y);
    PLAN(reduce(JIT_REDUCE_ADD, y), reduce(JIT_REDUCE_MAX, x), y, reduce(JIT_REDUCE_AND, m));
    cr_assert_eq(plan.groups, 1);
    assert_kernel(0, 1000, JITC_SHAPE_REDUCE, "data mul lt reduce reduce store reduce");
    PLAN(reduce(JIT_REDUCE_ADD, y), reduce(JIT_REDUCE_ADD, array(JIT_f32, 999)));
    cr_assert_eq(plan.groups, 2);
}

Test(plan, scatters_go_beside_reductions) {
    jit_var x = array(JIT_f32, 1000), y = mul(x, x), t = array(JIT_f32, 5),
            i = array(JIT_u32, 1000);
    jit_var s = jitc_trace_scatter(g, t, y, i, 0);
    PLAN(s, y);
    cr_assert_eq(plan.groups, 1);
    PLAN(s, y, reduce(JIT_REDUCE_ADD, x));
    cr_assert_eq(plan.groups, 2);
    assert_kernel(0, 1000, JITC_SHAPE_REDUCE, "data mul store reduce");
    assert_kernel(1, 1000, JITC_SHAPE_MAP, "buffer data data scatter"); /* y from memory */
}

Test(plan, block_reductions_of_one_length_share_a_pass) {
    jit_var x = array(JIT_f32, 1000), y = mul(x, x);
    PLAN(jitc_trace_block_reduce(g, JIT_REDUCE_ADD, y, 10),
         jitc_trace_block_reduce(g, JIT_REDUCE_ADD, y, 20),
         jitc_trace_block_reduce(g, JIT_REDUCE_MAX, x, 10), reduce(JIT_REDUCE_ADD, y));
    cr_assert_eq(plan.groups, 3);
    assert_kernel(0, 1000, JITC_SHAPE_REDUCE, "data mul reduce");
    assert_kernel(1, 1000, JITC_SHAPE_BLOCK_REDUCE, "data mul block_reduce block_reduce");
    assert_kernel(2, 1000, JITC_SHAPE_BLOCK_REDUCE, "data mul block_reduce");
}

Test(plan, the_other_operations_have_a_kernel_each) {
    jit_var x = array(JIT_f32, 1000), y = mul(x, x), m = binary(JITC_OP_lt, x, y), a, b, c, d;
    a = jitc_trace_prefix_reduce(g, JIT_REDUCE_ADD, y, false, false);
    b = jitc_trace_prefix_reduce(g, JIT_REDUCE_ADD, y, true, false);
    cr_assert_eq(jitc_trace_compress(g, m, &c, &d), JIT_OK);
    PLAN(a, b, c, y);
    cr_assert_eq(plan.groups, 4);
    assert_kernel(0, 1000, JITC_SHAPE_MAP, "data mul store");
    for (size_t i = 1; i < 4; ++i) /* what is in memory is not computed again */
        cr_assert_eq(count(i, JITC_OP_mul), 0);
    cr_assert_eq(plan.group[3].program.head.shape, JITC_SHAPE_COMPRESS);
}

/* ---- what goes through memory ---- */

Test(plan, dear_inputs_of_several_kernels_are_computed_once) {
    jit_var x = array(JIT_f32, 1000), y = dear(x);
    jit_var a = jitc_trace_prefix_reduce(g, JIT_REDUCE_ADD, y, false, false);
    jit_var b = jitc_trace_block_reduce(g, JIT_REDUCE_ADD, y, 10);
    PLAN(a);
    cr_assert_eq(plan.groups, 1);
    PLAN(b);
    cr_assert_eq(plan.groups, 1);
    PLAN(a, b);
    cr_assert_eq(plan.groups, 3);
    cr_assert_eq(count(0, JITC_OP_exp), 15);
    cr_assert_eq(plan.group[0].program.head.shape, JITC_SHAPE_MAP);
    PLAN(a, b, reduce(JIT_REDUCE_ADD, mul(y, y)));
    cr_assert_eq(plan.groups, 3);
    cr_assert_eq(plan.group[0].program.head.shape, JITC_SHAPE_REDUCE);
    for (size_t i = 0; i < 3; ++i)
        cr_assert_eq(count(i, JITC_OP_exp), i ? 0 : 15);
}

/** mean, then the mean square of what differs from it. */
Test(plan, a_chain_of_reductions_is_a_kernel_each) {
    jit_var x = array(JIT_f32, 1000), n = literal_f32(1000);
    jit_var mean = binary(JITC_OP_div, reduce(JIT_REDUCE_ADD, x), n);
    jit_var d = binary(JITC_OP_sub, x, mean);
    jit_var var = binary(JITC_OP_div, reduce(JIT_REDUCE_ADD, mul(d, d)), n);
    PLAN(var);
    cr_assert_eq(plan.groups, 3);
    assert_kernel(0, 1000, JITC_SHAPE_REDUCE, "data reduce");
    assert_kernel(1, 1000, JITC_SHAPE_REDUCE, "data div data sub mul reduce");
    assert_kernel(2, 1, JITC_SHAPE_MAP, "data div store");
}

Test(plan, what_uses_a_part_comes_later) {
    jit_var x = array(JIT_f32, 1000), all, number;
    cr_assert_eq(jitc_trace_compress(g, binary(JITC_OP_lt, x, literal_f32(0)), &all, &number),
                 JIT_OK);
    jit_var y = mul(x, jitc_trace_cast(g, JITC_OP_cast, number, JIT_f32));
    unref(all);
    PLAN(y);
    cr_assert_eq(plan.groups, 2);
    assert_kernel(1, 1000, JITC_SHAPE_MAP, "data cast data mul store");
    PLAN(y, number, jitc_trace_gather(g, x, all, 0));
    cr_assert_eq(plan.groups, 2);
}

/* ---- long kernels ---- */

Test(plan, a_cut_leaves_the_part_that_combines) {
    jit_var x = array(JIT_f32, 1000), y = array(JIT_f32, 1000), z = dear(x);
    jit_var m = binary(JITC_OP_lt, z, y), all, number, v[5];
    v[0] = jitc_trace_prefix_reduce(g, JIT_REDUCE_ADD, mul(z, y), false, false);
    v[1] = jitc_trace_block_reduce(g, JIT_REDUCE_ADD, mul(z, y), 7);
    cr_assert_eq(jitc_trace_compress(g, m, &all, &number), JIT_OK);
    v[2] = number;
    v[3] = reduce(JIT_REDUCE_ADD, mul(z, y));
    v[4] = jitc_trace_sort(g, mul(z, y), false, NULL);
    for (int64_t ops = 2; ops < 40; ++ops) {
        options.kernel_ops = ops;
        for (int i = 0; i < 5; ++i) {
            make(1, &v[i]);
            size_t last = plan.groups - 1, exps = 0;
            for (size_t k = 0; k <= last; ++k) {
                exps += count(k, JITC_OP_exp);
                cr_assert_eq(plan.group[k].program.head.shape != JITC_SHAPE_MAP, k == last);
            }
            cr_assert_eq(exps, 15);
        }
        make(5, v);
    }
}

Test(plan, many_block_reductions_are_cut_between_them) {
    jit_var x = array(JIT_i32, 1000), v[60];
    for (uint64_t i = 0; i < 60; ++i)
        v[i] = jitc_trace_block_reduce(g, JIT_REDUCE_ADD,
                                       binary(JITC_OP_add, x, literal(JIT_i32, i + 1, 1)), 7);
    make(60, v);
    cr_assert_eq(plan.groups, 1);
    options.kernel_ops = 9;
    make(60, v);
    size_t all = 0;
    for (size_t i = 0; i < plan.groups; ++i)
        all += count(i, JITC_OP_block_reduce);
    cr_assert_eq(all, 60);
}

/* ---- anything ---- */

static jit_var pick(const jit_var *v, size_t n) {
    return v[random_bits() % n];
}

/* An operation of any kind on some of v[0 ... n-1], or 0 if they do not go together. */
static jit_var anything(const jit_var *v, size_t n) {
    jit_var a = pick(v, n), b = pick(v, n), c = 0, m = binary(JITC_OP_lt, a, b), other = 0;
    jit_var i = jitc_trace_cast(g, JITC_OP_cast, b, JIT_u32);
    jit_reduce_op op = (jit_reduce_op) (random_bits() % 4);
    switch (random_bits() % 12) {
        case 0: return reduce(op, a);
        case 1: return jitc_trace_block_reduce(g, op, a, random_bits() % 9);
        case 2: return jitc_trace_prefix_reduce(g, op, a, random_bits() & 1, random_bits() & 1);
        case 3:
            return m && jitc_trace_compress(g, m, &c, &other) == JIT_OK && random_bits() & 1
                       ? c
                       : other;
        case 4:
            c = jitc_trace_sort(g, a, random_bits() & 1, &other);
            return random_bits() & 1 ? c : other;
        case 5: return jitc_trace_gather(g, a, i, m);
        case 6: return jitc_trace_scatter(g, a, b, i, m);
        case 7: return jitc_trace_scatter_reduce(g, op, a, b, i, 0);
        case 8:
            jitc_trace_scatter_inc(g, a, i, m, &c, &other);
            return random_bits() & 1 ? c : other;
        case 9: return jitc_trace_cast(g, JITC_OP_cast, a, random_bits() & 1 ? JIT_f32 : JIT_u32);
        case 10: return unary(JITC_OP_neg, a);
        default: return binary(JITC_OP_add, a, b);
    }
}

/* What a program reads has been written by an earlier one, or was there. */
static void check_order(void) {
    for (size_t i = 0; i < plan.slots; ++i)
        if (plan.slot[i].output) {
            size_t written = SIZE_MAX;
            for (size_t k = 0; k < plan.groups; ++k) {
                const jitc_group *group = &plan.group[k];
                for (size_t o = 0; o < group->outputs; ++o)
                    if (group->output[o] == i) {
                        cr_assert_eq(written, SIZE_MAX, "slot %zu is written twice", i);
                        written = k;
                    }
                for (uint32_t q = 0; q < group->program.head.params; ++q)
                    if (group->param[q].kind == JITC_PARAM_READ && group->param[q].slot == i)
                        cr_assert_lt(written, k, "slot %zu is read before it is written", i);
            }
            cr_assert_lt(written, plan.groups, "slot %zu is never written", i);
        }
}

Test(plan, any_graph_gives_programs_that_hold_the_rules) {
    static const uint64_t sizes[] = {1, 1, 6, 6, 6, 40, 0};
    for (int round = 0; round < 400; ++round) {
        jit_var v[60];
        size_t n = 0;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
            v[n++] = array(i & 1 ? JIT_f32 : JIT_u32, sizes[i]);
        jitc_trace_scope_push(g);
        while (n < 60) {
            jit_var next = anything(v, n);
            if (next)
                v[n++] = next;
            jit_error_clear();
        }
        options.kernel_ops = 2 + (int64_t) (random_bits() % 60);
        make(1 + random_bits() % 20, v + 40);
        check_order();
        cr_assert_eq(jitc_trace_scope_pop(g, 0, NULL), JIT_OK);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
            unref(v[i]);
        cr_assert_eq(alive(), 0);
    }
}

/* ---- What no cache keeps ---- */

static jit_var large_gather(jit_backend b, uint64_t lanes, uint64_t elements) {
    jitc_buffer_ref(&memory);
    jit_var index = jitc_trace_data(g, b, 0, JIT_u32, lanes, &memory);
    jitc_buffer_ref(&memory);
    return jitc_trace_gather(g, jitc_trace_data(g, b, 0, JIT_f32, elements, &memory), index, 0);
}

static void check_flags(jit_backend b, uint64_t lanes, uint64_t elements, bool stream, bool far) {
    PLAN(large_gather(b, lanes, elements));
    cr_assert_eq(plan.groups, 1);
    const jitc_program *p = &plan.group[0].program;
    cr_assert_eq((p->head.flags & JITC_PROGRAM_STREAM) != 0, stream);
    for (uint32_t k = 0; k < p->head.count; ++k)
        if (p->inst[k].op == JITC_OP_buffer)
            cr_assert_eq((p->inst[k].flags & JITC_INST_FAR) != 0, far);
}

/* Only the CPU's kernels differ; a GPU's would be compiled twice for nothing. */
Test(plan, large_arrays_have_kernels_of_their_own_on_the_cpu) {
    const uint64_t large = 1 << 24, small = large - 1;
    check_flags(JIT_LLVM, small, small, false, false);
    check_flags(JIT_LLVM, large, small, true, false);
    check_flags(JIT_LLVM, small, large, false, true);
    check_flags(JIT_LLVM, large, large, true, true);
    check_flags(JIT_CUDA, large, large, false, false);
}
