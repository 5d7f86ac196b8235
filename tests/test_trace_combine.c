/* test_trace_combine.c: recording operations that combine lanes: what is one variable, what is
 * known already, what is refused, and parts.  Layer: tests. */
#include "ir/program.h"
#include "trace_graph.h"
#include <stdlib.h>

TestSuite(trace, .init = start, .fini = stop);

static jit_var reduce(jit_reduce_op op, jit_var a) {
    return jitc_trace_reduce(g, op, a);
}
static jit_var block(jit_reduce_op op, jit_var a, uint64_t n) {
    return jitc_trace_block_reduce(g, op, a, n);
}
static jit_var prefix(jit_reduce_op op, jit_var a, bool exclusive, bool reverse) {
    return jitc_trace_prefix_reduce(g, op, a, exclusive, reverse);
}

static void assert_literal(jit_var v, jit_dtype t, uint64_t bits, uint64_t size) {
    jitc_var_info i = info(v);
    cr_assert(i.literal, "no literal");
    cr_assert_eq(i.type, t);
    cr_assert_eq(i.bits, bits, "%llx", (unsigned long long) i.bits);
    cr_assert_eq(i.size, size);
}

static void assert_is(jit_var v, jitc_op op, jit_dtype t, uint64_t size) {
    jitc_var_info i = info(v);
    cr_assert_eq(node(v)->op, op, "%s", jitc_ops[node(v)->op].name);
    cr_assert_eq(i.type, t);
    cr_assert_eq(i.size, size);
}

/* ---- one variable for equal calls ---- */

Test(trace, reductions_differ_by_operation_variant_and_block) {
    jit_var x = data(JIT_i32, 100), v[40];
    size_t n = 0;
    for (int again = 0; again < 2; ++again) {
        size_t first = n;
        for (int op = 0; op < JITC_REDUCE_COUNT; ++op) {
            v[n++] = reduce((jit_reduce_op) op, x);
            v[n++] = block((jit_reduce_op) op, x, 10);
        }
        v[n++] = block(JIT_REDUCE_ADD, x, 11);
        for (int i = 0; i < 4; ++i)
            v[n++] = prefix(JIT_REDUCE_ADD, x, i & 1, i & 2);
        v[n++] = jitc_trace_sort(g, x, false, NULL);
        v[n++] = jitc_trace_sort(g, x, true, NULL);
        for (size_t i = first; again && i < n; ++i)
            cr_assert_eq(v[i], v[i - first], "call %zu", i - first);
    }
    cr_assert_eq(alive(), 1 + n / 2);
    for (size_t i = 0; i < n / 2; ++i)
        for (size_t k = 0; k < i; ++k)
            cr_assert_neq(v[i], v[k], "calls %zu and %zu", i, k);
    for (size_t i = 0; i < n; ++i)
        unref(v[i]);
    unref(x);
    cr_assert_eq(alive(), 0);
}

/** Also when the operand has so many users that they are in the table. */
Test(trace, reductions_of_a_hub_are_found_and_forgotten) {
    jit_var x = data(JIT_u32, 1000), v[100];
    for (uint64_t i = 0; i < 100; ++i)
        v[i] = block(JIT_REDUCE_ADD, x, i + 2);
    for (uint64_t i = 0; i < 100; ++i) {
        jit_var again = block(JIT_REDUCE_ADD, x, i + 2);
        cr_assert_eq(again, v[i]);
        unref(again);
        unref(v[i]);
    }
    unref(x);
    cr_assert_eq(alive(), 0);
}

Test(trace, results_have_type_and_size) {
    jit_var x = data(JIT_f16, 100), m = data(JIT_bool, 100), big = data(JIT_bool, 1ull << 33);
    jit_var a, b;
    assert_is(reduce(JIT_REDUCE_ADD, x), JITC_OP_reduce, JIT_f16, 1);
    assert_is(block(JIT_REDUCE_MAX, x, 33), JITC_OP_block_reduce, JIT_f16, 4);
    assert_is(block(JIT_REDUCE_MAX, x, 100), JITC_OP_reduce, JIT_f16, 1);
    assert_is(block(JIT_REDUCE_MAX, x, UINT64_MAX), JITC_OP_reduce, JIT_f16, 1);
    assert_is(prefix(JIT_REDUCE_ADD, x, true, false), JITC_OP_prefix_reduce, JIT_f16, 100);
    cr_assert_eq(jitc_trace_compress(g, m, &a, &b), JIT_OK);
    assert_is(a, JITC_OP_compress, JIT_u32, 100);
    assert_is(b, JITC_OP_part, JIT_u32, 1);
    cr_assert_eq(jitc_trace_compress(g, big, &a, &b), JIT_OK);
    assert_is(a, JITC_OP_compress, JIT_u64, 1ull << 33);
    assert_is(b, JITC_OP_part, JIT_u64, 1);
    a = jitc_trace_sort(g, x, false, &b);
    assert_is(a, JITC_OP_sort, JIT_f16, 100);
    assert_is(b, JITC_OP_part, JIT_u32, 100);
    a = jitc_trace_sort(g, big, true, &b);
    assert_is(a, JITC_OP_sort, JIT_bool, 1ull << 33);
    assert_is(b, JITC_OP_part, JIT_u64, 1ull << 33);
    jit_var t = data(JIT_u16, 7), i = data(JIT_i64, 5);
    assert_is(jitc_trace_scatter_reduce(g, JIT_REDUCE_OR, t, literal(JIT_u16, 3, 1), i, 0),
              JITC_OP_scatter_reduce, JIT_u16, 7);
    cr_assert_eq(jitc_trace_scatter_inc(g, t, i, 0, &a, &b), JIT_OK);
    assert_is(a, JITC_OP_scatter_reduce, JIT_u16, 7);
    assert_is(b, JITC_OP_part, JIT_u16, 5);
    cr_assert_eq(jitc_trace_scatter_inc(g, t, literal(JIT_u8, 2, 1), data(JIT_bool, 9), &a, &b),
                 JIT_OK);
    assert_is(b, JITC_OP_part, JIT_u16, 9);
}

/* ---- known already ---- */

Test(trace, of_no_element_is_the_identity) {
    for (int op = 0; op < JITC_REDUCE_COUNT; ++op)
        for (int t = 0; t < JITC_DTYPE_COUNT; ++t) {
            jit_reduce_op r = (jit_reduce_op) op;
            jit_dtype type = (jit_dtype) t;
            if (!jitc_reduce_accepts(r, type))
                continue;
            jit_var none = data(type, 0), one = data(type, 1), six = data(type, 6);
            uint64_t identity = jitc_reduce_identity(r, type);
            assert_literal(reduce(r, none), type, identity, 1);
            cr_assert_eq(block(r, none, 3), none);
            cr_assert_eq(prefix(r, none, true, false), none);
            cr_assert_eq(reduce(r, one), one);
            cr_assert_eq(block(r, one, 3), one);
            cr_assert_eq(prefix(r, one, false, true), one);
            assert_literal(prefix(r, one, true, true), type, identity, 1);
            cr_assert_eq(block(r, six, 1), six);
        }
}

Test(trace, equal_elements_are_combined_where_that_is_exact) {
    const uint32_t third = 0x3eaaaaab;
    assert_literal(reduce(JIT_REDUCE_ADD, literal(JIT_u8, 7, 100)), JIT_u8, 700 & 255, 1);
    assert_literal(reduce(JIT_REDUCE_ADD, literal(JIT_i64, (uint64_t) -3, 1ull << 40)), JIT_i64,
                   (uint64_t) -3 << 40, 1);
    assert_literal(reduce(JIT_REDUCE_MUL, literal(JIT_u32, 3, 20)), JIT_u32, 3486784401u, 1);
    assert_literal(reduce(JIT_REDUCE_MUL, literal(JIT_i16, 2, 16)), JIT_i16, 0, 1);
    assert_literal(reduce(JIT_REDUCE_MIN, literal(JIT_f32, third, 9)), JIT_f32, third, 1);
    assert_literal(reduce(JIT_REDUCE_AND, literal(JIT_bool, 0, 9)), JIT_bool, 0, 1);
    assert_literal(reduce(JIT_REDUCE_ADD, literal(JIT_f64, 0, 9)), JIT_f64, 0, 1);
    assert_literal(block(JIT_REDUCE_ADD, literal(JIT_u32, 5, 12), 4), JIT_u32, 20, 3);
    assert_literal(block(JIT_REDUCE_MAX, literal(JIT_u32, 5, 13), 4), JIT_u32, 5, 4);
    jit_var m = literal(JIT_i8, 9, 5);
    cr_assert_eq(prefix(JIT_REDUCE_MIN, m, false, false), m);
    /* a short block, an order of rounding, a first element that differs */
    assert_is(block(JIT_REDUCE_ADD, literal(JIT_u32, 5, 13), 4), JITC_OP_block_reduce, JIT_u32, 4);
    assert_is(reduce(JIT_REDUCE_ADD, literal(JIT_f32, third, 9)), JITC_OP_reduce, JIT_f32, 1);
    assert_is(reduce(JIT_REDUCE_ADD, literal(JIT_f32, 0x80000000, 9)), JITC_OP_reduce, JIT_f32, 1);
    assert_is(prefix(JIT_REDUCE_MIN, m, true, false), JITC_OP_prefix_reduce, JIT_i8, 5);
    assert_is(prefix(JIT_REDUCE_ADD, m, false, false), JITC_OP_prefix_reduce, JIT_i8, 5);
}

Test(trace, masks_that_are_known_need_no_compress) {
    jit_var a, b;
    cr_assert_eq(jitc_trace_compress(g, literal(JIT_bool, 1, 50), &a, &b), JIT_OK);
    assert_is(a, JITC_OP_counter, JIT_u32, 50);
    assert_literal(b, JIT_u32, 50, 1);
    cr_assert_eq(jitc_trace_compress(g, literal(JIT_bool, 0, 50), &a, &b), JIT_OK);
    cr_assert_eq(info(a).size, 50);
    assert_literal(b, JIT_u32, 0, 1);
    cr_assert_eq(jitc_trace_compress(g, data(JIT_bool, 0), &a, &b), JIT_OK);
    cr_assert_eq(info(a).size, 0);
    assert_literal(b, JIT_u32, 0, 1);
    cr_assert_eq(jitc_trace_compress(g, data(JIT_bool, 1), &a, &b), JIT_OK);
    assert_literal(a, JIT_u32, 0, 1);
    assert_is(b, JITC_OP_cast, JIT_u32, 1);
}

Test(trace, what_is_in_order_is_not_sorted) {
    jit_var x = literal(JIT_f32, 5, 8), one = data(JIT_f32, 1), none = data(JIT_bool, 0), index;
    cr_assert_eq(jitc_trace_sort(g, x, true, &index), x);
    assert_is(index, JITC_OP_counter, JIT_u32, 8);
    cr_assert_eq(jitc_trace_sort(g, one, false, &index), one);
    assert_literal(index, JIT_u32, 0, 1);
    cr_assert_eq(jitc_trace_sort(g, none, false, &index), none);
    cr_assert_eq(info(index).size, 0);
    cr_assert_eq(jitc_trace_sort(g, none, false, NULL), none);
}

Test(trace, scatters_of_nothing_change_nothing) {
    jit_var t = data(JIT_i32, 7), none = data(JIT_u32, 0), i = data(JIT_u32, 4), a, b;
    jit_var no = literal(JIT_bool, 0, 1);
    cr_assert_eq(jitc_trace_scatter_reduce(g, JIT_REDUCE_ADD, t, t, i, no), 0);
    jit_error_clear();
    jit_var one = literal(JIT_i32, 1, 1);
    cr_assert_eq(jitc_trace_scatter_reduce(g, JIT_REDUCE_ADD, t, one, i, no), t);
    cr_assert_eq(jitc_trace_scatter_reduce(g, JIT_REDUCE_ADD, t, one, none, 0), t);
    cr_assert_eq(jitc_trace_scatter_inc(g, t, i, no, &a, &b), JIT_OK);
    cr_assert_eq(a, t);
    assert_literal(b, JIT_i32, 0, 4);
    cr_assert_eq(jitc_trace_scatter_inc(g, t, none, 0, &a, &b), JIT_OK);
    cr_assert_eq(info(b).size, 0);
}

/* ---- parts ---- */

static uint32_t part_of(jit_var v) {
    jitc_graph_lock(g);
    uint32_t part = jitc_graph_part_locked(g, v & JITC_INDEX_MASK);
    jitc_graph_unlock(g);
    return part;
}

Test(trace, parts_live_with_their_operation) {
    jit_var x = data(JIT_f32, 8), index, again;
    jit_var alone = jitc_trace_sort(g, x, false, NULL);
    cr_assert_eq(part_of(alone), 0);
    cr_assert_eq(part_of(x), 0);
    cr_assert_eq(jitc_trace_sort(g, x, false, &index), alone);
    cr_assert_eq(jitc_trace_sort(g, x, false, &again), alone);
    cr_assert_eq(index, again);
    cr_assert_eq(part_of(alone), index & JITC_INDEX_MASK);
    for (int i = 0; i < 3; ++i)
        unref(alone);
    cr_assert_eq(alive(), 3); /* the part needs it */
    unref(index);
    unref(index);
    cr_assert_eq(alive(), 1);
    unref(x);
    cr_assert_eq(alive(), 0);
}

static void claim(jit_var v, bool yes) {
    jitc_graph_lock(g);
    jitc_node *n = jitc_node_at(g, v & JITC_INDEX_MASK);
    n->flags = (uint8_t) (yes ? n->flags | JITC_NODE_CLAIMED : n->flags & ~JITC_NODE_CLAIMED);
    jitc_graph_unlock(g);
}

/** Nobody would write the part of an operation whose kernel is written already. */
Test(trace, a_claimed_operation_gets_no_new_part) {
    jit_var x = data(JIT_f32, 8), index, other;
    jit_var alone = jitc_trace_sort(g, x, false, NULL);
    claim(alone, true);
    jit_var both = jitc_trace_sort(g, x, false, &index);
    cr_assert_neq(both, alone);
    cr_assert_eq(part_of(both), index & JITC_INDEX_MASK);
    cr_assert_eq(part_of(alone), 0);
    cr_assert_eq(jitc_trace_sort(g, x, false, NULL), alone);
    claim(alone, false);
    cr_assert_eq(jitc_trace_sort(g, x, false, &index), alone);
    claim(alone, true); /* with its part */
    claim(index, true);
    cr_assert_eq(jitc_trace_sort(g, x, false, &other), alone);
    cr_assert_eq(index, other);
    claim(alone, false);
    claim(index, false);
}

/** Whoever evaluates the twin of a part gets it, whatever becomes of the operation. */
Test(trace, the_twin_of_a_part_has_an_operation_of_its_own) {
    jit_var m = data(JIT_bool, 8), indices, count;
    cr_assert_eq(jitc_trace_compress(g, m, &indices, &count), JIT_OK);
    jit_var twin = jitc_trace_twin(g, "test", count);
    cr_assert_neq(twin, count);
    cr_assert_neq(node(twin)->a, node(count)->a);
    cr_assert_eq(jitc_node_at(g, node(twin)->a)->op, JITC_OP_compress);
    cr_assert_eq(jitc_graph_part_locked(g, node(twin)->a), twin & JITC_INDEX_MASK);
    cr_assert_eq(part_of(indices), count & JITC_INDEX_MASK);
    unref(twin);
    cr_assert_eq(alive(), 3);
    unref(indices);
    unref(count);
    unref(m);
    cr_assert_eq(alive(), 0);
}

Test(trace, scopes_take_both_results) {
    jit_var x = data(JIT_u32, 8), index, old, updated;
    jitc_trace_scope_push(g);
    jit_var sorted = jitc_trace_sort(g, x, false, &index);
    cr_assert_eq(jitc_trace_scatter_inc(g, x, index, 0, &updated, &old), JIT_OK);
    cr_assert_eq(jitc_trace_scope_pop(g, 1, &old), JIT_OK);
    cr_assert(is_alive(old));
    cr_assert(!is_alive(sorted) || info(sorted).external == 0);
    unref(old);
    unref(x);
    cr_assert_eq(alive(), 0);
}

/* ---- words ---- */

Test(trace, what_cannot_be_combined_is_refused) {
    jit_var f = data(JIT_f32, 4), m = data(JIT_bool, 4), u = data(JIT_u32, 5), a = 7, b = 7;
    FAILS(reduce(JIT_REDUCE_AND, f), JIT_TYPE_MISMATCH,
          "jit_reduce: the reduction \"and\" is not defined for f32; convert with jit_cast()");
    FAILS(block(JIT_REDUCE_ADD, m, 2), JIT_TYPE_MISMATCH,
          "jit_block_reduce: the reduction \"add\" is not defined for bool; convert with "
          "jit_cast()");
    FAILS(prefix((jit_reduce_op) 6, u, false, false), JIT_INVALID_ARGUMENT,
          "jit_prefix_reduce: 6 is no jit_reduce_op");
    FAILS(reduce((jit_reduce_op) -1, u), JIT_INVALID_ARGUMENT,
          "jit_reduce: -1 is no jit_reduce_op");
    FAILS(block(JIT_REDUCE_ADD, u, 0), JIT_INVALID_ARGUMENT,
          "jit_block_reduce: a block of 0 elements; at least 1");
    FAILS(reduce(JIT_REDUCE_ADD, 0), JIT_INVALID_HANDLE,
          "operand 1 of jit_reduce is 0 (no variable)");
    FAILS(jitc_trace_sort(g, 0, false, &a), JIT_INVALID_HANDLE,
          "operand 1 of jit_sort is 0 (no variable)");
    FAILS(jitc_trace_scatter_reduce(g, JIT_REDUCE_MUL, m, m, literal(JIT_u8, 1, 1), 0),
          JIT_TYPE_MISMATCH,
          "jit_scatter_reduce: the reduction \"mul\" is not defined for bool; convert with "
          "jit_cast()");
    FAILS(jitc_trace_scatter_reduce(g, JIT_REDUCE_ADD, f, f, u, 0), JIT_SIZE_MISMATCH,
          "jit_scatter_reduce: operands have 4 and 5 elements; sizes must be equal, or 1");
    FAILS(jitc_trace_scatter_reduce(g, JIT_REDUCE_ADD, f, u, u, 0), JIT_TYPE_MISMATCH,
          "jit_scatter_reduce: operands have types f32 and u32; convert one with jit_cast()");
    jit_error_clear();
    cr_assert_eq(jitc_trace_compress(g, u, &a, &b), JIT_TYPE_MISMATCH);
    cr_assert_str_eq(jit_error(), "jit_compress: the mask has type u32; it must be bool");
    jit_error_clear();
    cr_assert_eq(jitc_trace_scatter_inc(g, f, u, 0, &a, &b), JIT_TYPE_MISMATCH);
    cr_assert_str_eq(jit_error(),
                     "jit_scatter_inc: the target has type f32; it must be an integer");
    jit_error_clear();
    cr_assert_eq(jitc_trace_scatter_inc(g, u, f, 0, &a, &b), JIT_TYPE_MISMATCH);
    cr_assert_str_eq(jit_error(), "jit_scatter_inc: the index has type f32; it must be an integer");
    jit_error_clear();
    cr_assert_eq(jitc_trace_scatter_inc(g, u, 0, 0, &a, &b), JIT_INVALID_HANDLE);
    cr_assert_str_eq(jit_error(), "operand 2 of jit_scatter_inc is 0 (no variable)");
    jit_error_clear();
    cr_assert_eq(a, 7);
    cr_assert_eq(b, 7);
    cr_assert_eq(alive(), 4);
}

Test(trace, the_variant_is_printed) {
    jit_var x = data(JIT_u32, 8), v[6];
    v[0] = reduce(JIT_REDUCE_MAX, x);
    v[1] = block(JIT_REDUCE_OR, x, 3);
    v[2] = prefix(JIT_REDUCE_ADD, x, true, true);
    v[3] = jitc_trace_sort(g, x, true, &v[4]);
    v[5] = jitc_trace_scatter_reduce(g, JIT_REDUCE_MUL, x, x, x, 0);
    uint32_t nodes[6];
    for (int i = 0; i < 6; ++i)
        nodes[i] = v[i] & JITC_INDEX_MASK;
    jitc_graph_lock(g);
    char *text = jitc_graph_print_locked(g, 6, nodes);
    jitc_graph_unlock(g);
    cr_assert_str_eq(text, "  v1 = data : u32[8]\n"
                           "  v2 = reduce max v1 : u32[1]\n"
                           "  v3 = block_reduce or 3 v1 : u32[3]\n"
                           "  v4 = prefix_reduce exclusive reverse add v1 : u32[8]\n"
                           "  v5 = sort descending v1 : u32[8]\n"
                           "  v6 = part v5 : u32[8]\n"
                           "  v7 = scatter_reduce mul v1 v1 v1 : u32[8]\n");
    free(text);
}
