/* test_trace_simplify.c: simplification of what is recorded changes no bit of a result.
 * Layer: tests. */
#include "trace_graph.h"
#include "values.h"
#include <stdlib.h>

#define FOR_OPS(op)  for (jitc_op op = JITC_OP_literal; op < JITC_OP_COUNT; ++op)
#define FOR_TYPES(t) for (jit_dtype t = JIT_bool; t <= JIT_f64; ++t)

TestSuite(trace, .init = start, .fini = stop);

/* What the graph computes for node i if all data nodes have the element x: by folding. */
static uint64_t evaluate(uint32_t i, uint64_t x) {
    const jitc_node *n = jitc_node_at(g, i);
    if (n->op == JITC_OP_literal)
        return *jitc_node_value(g, i);
    if (n->op == JITC_OP_data)
        return x;
    uint64_t in[3] = {evaluate(n->a, x), 0, 0}, out;
    if (jitc_ops[n->op].arity > 1)
        in[1] = evaluate(n->b, x);
    if (jitc_ops[n->op].arity > 2)
        in[2] = evaluate(*jitc_node_c(g, i), x);
    uint32_t typed = n->op == JITC_OP_select ? n->b : n->a;
    cr_assert(
        jitc_fold(n->op, jitc_node_type(jitc_node_at(g, typed)), jitc_node_type(n), in, &out));
    return out;
}

static bool is_nan_bits(jit_dtype t, uint64_t bits) {
    switch (t) {
        case JIT_f16: return (bits & 0x7fff) > 0x7c00;
        case JIT_bf16: return (bits & 0x7fff) > 0x7f80;
        case JIT_f32: return (bits & 0x7fffffff) > 0x7f800000;
        case JIT_f64: return (bits & INT64_MAX) > 0x7ff0000000000000;
        default: return false;
    }
}

/* The variable v has the value that folding `op` gives, whatever was recorded for it. */
static void check_value(jit_var v, jitc_op op, jit_dtype t, const uint64_t in[3], uint64_t x) {
    jitc_var_info r = info(v);
    uint64_t want, got = evaluate(v & JITC_INDEX_MASK, x);
    if (!jitc_fold(op, t, r.type, in, &want))
        return;
    bool same = got == want || (is_nan_bits(r.type, got) && is_nan_bits(r.type, want));
    cr_assert(same, "%s of %s: %lx %lx %lx: want %lx, got %lx", jitc_ops[op].name,
              jitc_dtypes[t].name, in[0], in[1], in[2], want, got);
}

static values edges(jit_dtype t, size_t count) {
    values v = values_edges(t);
    values_thin(&v, count);
    const uint64_t basic[] = {
        0, 1, 2, 3, 4, jitc_bits_mask(t), jitc_bits_mask(t) / 2, jitc_bits_mask(t) / 2 + 1};
    for (size_t i = 0; i < sizeof basic / sizeof *basic; ++i)
        if (t != JIT_bool || basic[i] < 2)
            values_add(&v, basic[i]);
    static const struct {
        uint64_t one, step;
    } floats[] = {[JIT_f16] = {0x3c00, 1 << 10},
                  [JIT_bf16] = {0x3f80, 1 << 7},
                  [JIT_f32] = {0x3f800000, 1 << 23},
                  [JIT_f64] = {0x3ff0000000000000, (uint64_t) 1 << 52}};
    if (jitc_dtypes[t].cls == JITC_FLOAT)
        for (uint64_t power = 0; power < 8; ++power) /* 1/16 ... 8 */
            values_add(&v, floats[t].one + (power - 4) * floats[t].step);
    return v;
}

static void check_binary_with_literals(jitc_op op, jit_dtype t, const values *v) {
    jit_var x = data(t, 10);
    for (size_t k = 0; k < v->count; ++k) {
        jit_var l = literal(t, v->bits[k], 1);
        jit_var left = binary(op, l, x), right = binary(op, x, l);
        cr_assert(left && right, "%s", jit_error());
        cr_assert_eq(info(left).size, 10);
        cr_assert_eq(info(right).size, 10);
        for (size_t i = 0; i < v->count; ++i) {
            check_value(left, op, t, (uint64_t[3]) {v->bits[k], v->bits[i]}, v->bits[i]);
            check_value(right, op, t, (uint64_t[3]) {v->bits[i], v->bits[k]}, v->bits[i]);
        }
        unref(l), unref(left), unref(right);
    }
    jit_var same = binary(op, x, x);
    for (size_t i = 0; i < v->count; ++i)
        check_value(same, op, t, (uint64_t[3]) {v->bits[i], v->bits[i]}, v->bits[i]);
    unref(same), unref(x);
}

Test(trace, simplification_of_binary_operations_changes_no_bit, .timeout = 300) {
    FOR_TYPES(t) {
        values v = edges(t, 60);
        FOR_OPS(op)
        if (jitc_ops[op].form == JITC_FORM_BINARY && jitc_op_accepts(op, t))
            check_binary_with_literals(op, t, &v);
        free(v.bits);
    }
    cr_assert_eq(alive(), 0);
}

Test(trace, simplification_of_unary_operations_changes_no_bit) {
    FOR_TYPES(t) {
        values v = edges(t, 100);
        jit_var x = data(t, 10);
        FOR_OPS(inner) FOR_OPS(outer) {
            if (jitc_ops[inner].form != JITC_FORM_UNARY || !jitc_op_accepts(inner, t) ||
                jitc_ops[outer].form != JITC_FORM_UNARY || !jitc_op_accepts(outer, t))
                continue;
            jit_var y = unary(inner, x), z = unary(outer, y);
            for (size_t i = 0; i < v.count; ++i) {
                uint64_t middle, in[3] = {v.bits[i]};
                cr_assert(jitc_fold(inner, t, t, in, &middle));
                check_value(z, outer, t, (uint64_t[3]) {middle}, v.bits[i]);
            }
            unref(y), unref(z);
        }
        unref(x);
        free(v.bits);
    }
    cr_assert_eq(alive(), 0);
}

static void check_cast_chain(jit_dtype t1, jit_dtype t2, jit_dtype t3, const values *v) {
    jit_var x = data(t1, 10), y = jitc_trace_cast(g, JITC_OP_cast, x, t2);
    jit_var z = jitc_trace_cast(g, JITC_OP_cast, y, t3);
    cr_assert_eq(info(z).type, t3);
    for (size_t i = 0; i < v->count; ++i) {
        uint64_t middle = v->bits[i], in[3] = {v->bits[i]};
        if (t1 != t2)
            cr_assert(jitc_fold(JITC_OP_cast, t1, t2, in, &middle));
        uint64_t want = middle, got = evaluate(z & JITC_INDEX_MASK, v->bits[i]);
        in[0] = middle;
        if (t2 != t3)
            cr_assert(jitc_fold(JITC_OP_cast, t2, t3, in, &want));
        cr_assert_eq(got, want, "%s %s %s of %lx: want %lx, got %lx", jitc_dtypes[t1].name,
                     jitc_dtypes[t2].name, jitc_dtypes[t3].name, v->bits[i], want, got);
    }
    unref(x), unref(y), unref(z);
}

Test(trace, simplification_of_casts_changes_no_bit) {
    FOR_TYPES(t1) {
        values v = edges(t1, 200);
        FOR_TYPES(t2) FOR_TYPES(t3) check_cast_chain(t1, t2, t3, &v);
        free(v.bits);
    }
    cr_assert_eq(alive(), 0);
}

/* Folding gives literals of the size of the result, also for operations that are not exact. */
Test(trace, operations_on_literals_are_literals) {
    FOR_TYPES(t) {
        values v = edges(t, 40);
        FOR_OPS(op) {
            uint32_t count = jitc_ops[op].arity;
            if (!jitc_op_accepts(op, t) ||
                (jitc_ops[op].form != JITC_FORM_UNARY && jitc_ops[op].form != JITC_FORM_BINARY))
                continue;
            for (size_t i = 0; i < v.count; ++i) {
                uint64_t in[3] = {v.bits[i], v.bits[v.count - 1 - i]};
                jit_var a = literal(t, in[0], 1), b = literal(t, in[1], 20);
                jit_var r = count == 1 ? unary(op, b) : binary(op, a, b);
                cr_assert(info(r).literal, "%s", jitc_ops[op].name);
                cr_assert_eq(info(r).size, 20);
                if (count == 1)
                    in[0] = in[1];
                check_value(r, op, t, in, 0);
                unref(a), unref(b), unref(r);
            }
        }
        free(v.bits);
    }
    cr_assert_eq(alive(), 0);
}

/* Rules that must fire: op(x, literal) or, with `left`, op(literal, x) is x, or the literal `want`.
 */
typedef struct expected_rule {
    jitc_op op;
    jit_dtype type;
    bool left, is_x;
    uint64_t bits, want;
} expected_rule;

Test(trace, rules_fire_where_they_may) {
    static const expected_rule rules[] = {
        {JITC_OP_add, JIT_i32, false, true, 0, 0},
        {JITC_OP_add, JIT_u8, true, true, 0, 0},
        {JITC_OP_add, JIT_f32, false, true, 0x80000000, 0},
        {JITC_OP_sub, JIT_f64, false, true, 0, 0},
        {JITC_OP_mul, JIT_f16, true, true, 0x3c00, 0},
        {JITC_OP_mul, JIT_i64, true, false, 0, 0},
        {JITC_OP_div, JIT_bf16, false, true, 0x3f80, 0},
        {JITC_OP_div, JIT_i8, false, true, 1, 0},
        {JITC_OP_mod, JIT_i8, false, false, 0xff, 0},
        {JITC_OP_and, JIT_u16, false, true, 0xffff, 0},
        {JITC_OP_and, JIT_bool, true, true, 1, 0},
        {JITC_OP_or, JIT_bool, true, false, 1, 1},
        {JITC_OP_or, JIT_i32, false, false, 0xffffffff, 0xffffffff},
        {JITC_OP_xor, JIT_bool, false, true, 0, 0},
        {JITC_OP_shl, JIT_i32, false, true, 0, 0},
        {JITC_OP_shr, JIT_u64, false, true, 0, 0},
        {JITC_OP_max, JIT_u32, false, true, 0, 0},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; ++i) {
        expected_rule r = rules[i];
        jit_var x = data(r.type, 10), one = data(r.type, 1), l = literal(r.type, r.bits, 1);
        jit_var ten = literal(r.type, r.bits, 10);
        jit_var v = r.left ? binary(r.op, l, x) : binary(r.op, x, l);
        cr_assert_eq(r.is_x, v == x, "rule %zu", i);
        if (!r.is_x)
            cr_assert(info(v).literal && info(v).bits == r.want && info(v).size == 10);
        /* The result has ten elements, so it can not be `one`. */
        jit_var w = r.left ? binary(r.op, ten, one) : binary(r.op, one, ten);
        cr_assert(w != one && info(w).size == 10 && info(w).literal == !r.is_x);
        unref(x), unref(one), unref(l), unref(ten), unref(v), unref(w);
    }
    cr_assert_eq(alive(), 0);
}

Test(trace, rules_that_would_change_floats_do_not_fire) {
    jit_var x = data(JIT_f32, 10), zero = literal_f32(0), minus_zero = literal_f32(-0.0f);
    cr_assert_neq(binary(JITC_OP_add, x, zero), x);
    cr_assert_neq(binary(JITC_OP_sub, x, minus_zero), x);
    cr_assert(!info(binary(JITC_OP_mul, x, zero)).literal);
    cr_assert(!info(binary(JITC_OP_sub, x, x)).literal);
    cr_assert(!info(binary(JITC_OP_eq, x, x)).literal);
    cr_assert(info(binary(JITC_OP_lt, x, x)).literal);
    cr_assert_eq(binary(JITC_OP_max, x, x), x);
}

Test(trace, division_by_a_power_of_two_is_a_multiplication) {
    jit_var x = data(JIT_f32, 10);
    cr_assert_eq(binary(JITC_OP_div, x, literal_f32(4)), binary(JITC_OP_mul, x, literal_f32(.25f)));
    cr_assert_eq(node(binary(JITC_OP_div, x, literal_f32(-0x1p126f)))->op, JITC_OP_mul);
    cr_assert_eq(node(binary(JITC_OP_div, x, literal_f32(0x1p127f)))->op, JITC_OP_div);
    cr_assert_eq(node(binary(JITC_OP_div, x, literal_f32(0x1p-127f)))->op, JITC_OP_div);
    cr_assert_eq(node(binary(JITC_OP_div, x, literal_f32(3)))->op, JITC_OP_div);
    cr_assert_eq(node(binary(JITC_OP_div, literal_f32(4), x))->op, JITC_OP_div);
}

Test(trace, casts_and_nested_operations_vanish) {
    jit_var f = data(JIT_f32, 10), b = data(JIT_bool, 10), i = data(JIT_i8, 10);
    cr_assert_eq(jitc_trace_cast(g, JITC_OP_cast, f, JIT_f32), f);
    cr_assert_eq(jitc_trace_cast(g, JITC_OP_bitcast, f, JIT_f32), f);
    jit_var bits = jitc_trace_cast(g, JITC_OP_bitcast, f, JIT_u32);
    cr_assert_eq(jitc_trace_cast(g, JITC_OP_bitcast, bits, JIT_f32), f);
    jit_var wide = jitc_trace_cast(g, JITC_OP_cast, i, JIT_f16);
    cr_assert_eq(jitc_trace_cast(g, JITC_OP_cast, wide, JIT_i8), i);
    jit_var number = jitc_trace_cast(g, JITC_OP_cast, b, JIT_f64);
    cr_assert_eq(jitc_trace_cast(g, JITC_OP_cast, number, JIT_bool), b);
    cr_assert_eq(unary(JITC_OP_not, unary(JITC_OP_not, b)), b);
    cr_assert_eq(unary(JITC_OP_neg, unary(JITC_OP_neg, f)), f);
    jit_var a = unary(JITC_OP_abs, f);
    cr_assert_eq(unary(JITC_OP_abs, a), a);
    cr_assert_eq(unary(JITC_OP_abs, unary(JITC_OP_neg, f)), a);
    jit_var down = unary(JITC_OP_floor, f);
    cr_assert_eq(unary(JITC_OP_round, down), down);
}

Test(trace, select_with_a_known_result_vanishes) {
    jit_var m = data(JIT_bool, 10), x = data(JIT_f32, 10), y = data(JIT_f32, 10);
    jit_var one = data(JIT_f32, 1), t = literal(JIT_bool, 1, 1), f = literal(JIT_bool, 0, 1);
    cr_assert_eq(jitc_trace_ternary(g, JITC_OP_select, m, x, x), x);
    cr_assert_eq(jitc_trace_ternary(g, JITC_OP_select, t, x, y), x);
    cr_assert_eq(jitc_trace_ternary(g, JITC_OP_select, f, x, y), y);
    cr_assert_eq(jitc_trace_ternary(g, JITC_OP_select, m, t, f), m);
    jit_var r = jitc_trace_ternary(g, JITC_OP_select, t, one, y);
    cr_assert_eq(node(r)->op, JITC_OP_select); /* `one` has not the size of the result */
    r = jitc_trace_ternary(g, JITC_OP_select, m, one, one);
    cr_assert_eq(node(r)->op, JITC_OP_select);
    r = jitc_trace_ternary(g, JITC_OP_select, t, literal_f32(3), y);
    cr_assert(info(r).literal && info(r).size == 10);
}
