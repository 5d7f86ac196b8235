/* test_trace_errors.c: what the graph of variables refuses, and in which words.  Layer: tests. */
#include "trace_graph.h"

TestSuite(trace, .init = start, .fini = stop);

Test(trace, zero_operands_give_zero_and_keep_the_first_error) {
    jit_var x = data(JIT_f32, 4);
    FAILS(binary(JITC_OP_add, 0, x), JIT_INVALID_HANDLE, "operand 1 of jit_add is 0 (no variable)");
    FAILS(binary(JITC_OP_add, x, 0), JIT_INVALID_HANDLE, "operand 2 of jit_add is 0 (no variable)");
    FAILS(unary(JITC_OP_sin, 0), JIT_INVALID_HANDLE, "operand 1 of jit_sin is 0 (no variable)");
    FAILS(jitc_trace_gather(g, x, 0, 0), JIT_INVALID_HANDLE,
          "operand 2 of jit_gather is 0 (no variable)");
    FAILS(jitc_trace_ref(g, 0), JIT_INVALID_HANDLE, "jit_ref: the variable is 0 (no variable)");
    jit_var bad = binary(JITC_OP_and, x, x);
    cr_assert_eq(unary(JITC_OP_sin, binary(JITC_OP_mul, bad, x)), 0);
    cr_assert_eq(jit_error_status(), JIT_TYPE_MISMATCH);
    jit_error_clear();
    unref(0);
    cr_assert_eq(jit_error_status(), JIT_OK);
    unref(x);
    cr_assert_eq(alive(), 0);
}

Test(trace, dead_and_garbage_handles_are_errors) {
    char text[100];
    jit_var x = data(JIT_f32, 4), y = data(JIT_f32, 4);
    unref(y);
    snprintf(text, sizeof text, "operand 3 of jit_fma is no live variable (handle 0x%08x)", y);
    FAILS(jitc_trace_ternary(g, JITC_OP_fma, x, x, y), JIT_INVALID_HANDLE, text);
    unref(y);
    snprintf(text, sizeof text, "jit_unref: handle 0x%08x names no live variable", y);
    cr_assert_str_eq(jit_error(), text);
    FAILS(unary(JITC_OP_sqrt, ~0u), JIT_INVALID_HANDLE,
          "operand 1 of jit_sqrt is no live variable (handle 0xffffffff)");
    for (int i = 0; i < 100000; ++i) {
        jit_var v = (jit_var) random_bits();
        if (v == x)
            continue;
        jit_error_clear();
        cr_assert_eq(binary(JITC_OP_add, v, x), 0);
        cr_assert_eq(jit_error_status(), JIT_INVALID_HANDLE);
        unref(v);
    }
    jit_error_clear();
    unref(x);
    cr_assert_eq(alive(), 0);
}

/* A node that others use keeps its slot; its handle is dead all the same. */
Test(trace, a_handle_dies_with_its_last_reference) {
    jit_var x = data(JIT_f32, 4), y = unary(JITC_OP_sqrt, x);
    cr_assert_eq(jitc_trace_ref(g, x), x);
    unref(x);
    cr_assert(is_alive(x));
    unref(x);
    cr_assert(!is_alive(x));
    cr_assert_eq(alive(), 2);
    unref(y);
    cr_assert_eq(alive(), 0);
}

Test(trace, a_freed_slot_does_not_repeat_a_handle_soon) {
    jit_var old = data(JIT_f32, 4);
    unref(old);
    for (int i = 0; i < 31 * JITC_QUARANTINE - 1; ++i) {
        jit_var v = data(JIT_f32, 4);
        cr_assert_neq(v, old);
        cr_assert(!is_alive(old));
        unref(v);
    }
}

Test(trace, types_that_do_not_fit_are_named) {
    jit_var f = data(JIT_f32, 4), i = data(JIT_i32, 4), b = data(JIT_bool, 4);
    FAILS(binary(JITC_OP_add, f, i), JIT_TYPE_MISMATCH,
          "jit_add: operands have types f32 and i32; convert one with jit_cast()");
    FAILS(unary(JITC_OP_sqrt, i), JIT_TYPE_MISMATCH,
          "jit_sqrt: not defined for i32; it takes floating-point types");
    FAILS(binary(JITC_OP_shl, f, f), JIT_TYPE_MISMATCH,
          "jit_shl: not defined for f32; it takes integer types");
    FAILS(binary(JITC_OP_add, b, b), JIT_TYPE_MISMATCH,
          "jit_add: not defined for bool; it takes integer and floating-point types");
    FAILS(binary(JITC_OP_or, f, f), JIT_TYPE_MISMATCH,
          "jit_or: not defined for f32; it takes integer types and bool");
    FAILS(jitc_trace_ternary(g, JITC_OP_select, i, f, f), JIT_TYPE_MISMATCH,
          "jit_select: the mask has type i32; it must be bool");
    FAILS(jitc_trace_ternary(g, JITC_OP_select, b, f, i), JIT_TYPE_MISMATCH,
          "jit_select: operands have types f32 and i32; convert one with jit_cast()");
    FAILS(jitc_trace_gather(g, f, f, 0), JIT_TYPE_MISMATCH,
          "jit_gather: the index has type f32; it must be an integer");
    FAILS(jitc_trace_gather(g, f, i, i), JIT_TYPE_MISMATCH,
          "jit_gather: the mask has type i32; it must be bool");
    FAILS(jitc_trace_scatter(g, f, i, i, 0), JIT_TYPE_MISMATCH,
          "jit_scatter: operands have types f32 and i32; convert one with jit_cast()");
    FAILS(jitc_trace_cast(g, JITC_OP_bitcast, f, JIT_f64), JIT_TYPE_MISMATCH,
          "jit_bitcast: f32 and f64 differ in width");
    FAILS(jitc_trace_cast(g, JITC_OP_cast, f, (jit_dtype) 77), JIT_INVALID_ARGUMENT,
          "jit_cast: 77 is no element type");
}

Test(trace, sizes_that_do_not_fit_are_named) {
    jit_var a = data(JIT_f32, 4), b = data(JIT_f32, 5), m = data(JIT_bool, 4);
    jit_var i = data(JIT_u32, 5), none = data(JIT_f32, 0), one = data(JIT_f32, 1);
    FAILS(binary(JITC_OP_add, a, b), JIT_SIZE_MISMATCH,
          "jit_add: operands have 4 and 5 elements; sizes must be equal, or 1");
    FAILS(binary(JITC_OP_add, a, none), JIT_SIZE_MISMATCH,
          "jit_add: operands have 4 and 0 elements; sizes must be equal, or 1");
    FAILS(jitc_trace_ternary(g, JITC_OP_fma, one, a, b), JIT_SIZE_MISMATCH,
          "jit_fma: operands have 4 and 5 elements; sizes must be equal, or 1");
    FAILS(jitc_trace_gather(g, a, i, m), JIT_SIZE_MISMATCH,
          "jit_gather: operands have 5 and 4 elements; sizes must be equal, or 1");
    FAILS(jitc_trace_scatter(g, b, a, i, 0), JIT_SIZE_MISMATCH,
          "jit_scatter: operands have 4 and 5 elements; sizes must be equal, or 1");
    cr_assert_eq(info(binary(JITC_OP_add, none, one)).size, 0);
    cr_assert_eq(info(binary(JITC_OP_add, one, a)).size, 4);
}

Test(trace, backends_and_devices_do_not_mix_but_literals_go_anywhere) {
    jit_var a = jitc_trace_data(g, JIT_CUDA, 0, JIT_f32, 4, NULL);
    jit_var b = jitc_trace_data(g, JIT_CUDA, 1, JIT_f32, 4, NULL), c = data(JIT_f32, 4);
    FAILS(binary(JITC_OP_add, a, c), JIT_TYPE_MISMATCH,
          "jit_add: operands belong to the backends CUDA and LLVM");
    FAILS(binary(JITC_OP_add, a, b), JIT_INVALID_ARGUMENT,
          "jit_add: operands are on the devices 0 and 1; copy one of them");
    jit_var l = jitc_trace_literal(g, JIT_CUDA, 0, JIT_f32, 0x40490fdb, 1);
    jit_var on_a = binary(JITC_OP_mul, a, l), on_b = binary(JITC_OP_mul, l, b);
    cr_assert_eq(info(on_a).device, 0);
    cr_assert_eq(info(on_b).device, 1);
    FAILS(binary(JITC_OP_add, on_a, on_b), JIT_INVALID_ARGUMENT,
          "jit_add: operands are on the devices 0 and 1; copy one of them");
    jit_var l1 = jitc_trace_literal(g, JIT_CUDA, 1, JIT_f32, 0x40490fdb, 1);
    cr_assert_eq(info(l1).device, 1);
}
