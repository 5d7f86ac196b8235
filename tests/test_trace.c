/* test_trace.c: the graph of variables: recording, simplification, references, scopes, threads. */
#include "trace/private.h"
#include "values.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOR_OPS(op)  for (jitc_op op = JITC_OP_literal; op < JITC_OP_COUNT; ++op)
#define FOR_TYPES(t) for (jit_dtype t = JIT_bool; t <= JIT_f64; ++t)

static jitc_graph *g; /* Criterion runs each test in a process of its own */

static void start(void) {
    cr_assert_eq(jitc_graph_create(&g), JIT_OK);
}

static uint64_t alive(void) {
    return jitc_graph_get_stats(g).variables;
}

static void stop(void) {
    jitc_graph_destroy(g);
}

TestSuite(trace, .init = start, .fini = stop);

static uint64_t random_bits(void) {
    static _Thread_local uint64_t s = 88172645463325252;
    s ^= s << 13;
    s ^= s >> 7;
    return s ^= s << 17;
}

/* ---- making variables ---- */

static jit_var data(jit_dtype t, uint64_t size) {
    return jitc_trace_data(g, JIT_LLVM, 0, t, size, NULL);
}

static jit_var literal(jit_dtype t, uint64_t bits, uint64_t size) {
    return jitc_trace_literal(g, JIT_LLVM, 0, t, bits, size);
}

static jit_var literal_f32(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return literal(JIT_f32, bits, 1);
}

static jit_var unary(jitc_op op, jit_var a) {
    return jitc_trace_unary(g, op, a);
}

static jit_var binary(jitc_op op, jit_var a, jit_var b) {
    return jitc_trace_binary(g, op, a, b);
}

static void unref(jit_var v) {
    jitc_trace_unref(g, v);
}

static jitc_var_info info(jit_var v) {
    jitc_var_info i = {0};
    cr_assert_eq(jitc_trace_info(g, "test", v, &i), JIT_OK, "%s", jit_error());
    return i;
}

static bool is_alive(jit_var v) {
    jitc_var_info i;
    bool yes = jitc_trace_info(g, "test", v, &i) == JIT_OK;
    if (!yes)
        jit_error_clear();
    return yes;
}

static const jitc_node *node(jit_var v) {
    return jitc_node_at(g, v & JITC_INDEX_MASK);
}

/* The call gave 0 and this error. */
#define FAILS(call, status, text)                                                                  \
    do {                                                                                           \
        jit_error_clear();                                                                         \
        cr_assert_eq((call), 0);                                                                   \
        cr_assert_eq(jit_error_status(), (status), "%s: %s", #call, jit_error());                  \
        cr_assert_str_eq(jit_error(), (text));                                                     \
        jit_error_clear();                                                                         \
    } while (0)

/* ---- properties ---- */

Test(trace, variables_know_what_they_are) {
    jit_var a = jitc_trace_literal(g, JIT_CUDA, 3, JIT_i16, 0xffff1234, 7);
    jitc_var_info i = info(a);
    cr_assert(i.literal && !i.evaluated);
    cr_assert_eq(i.bits, 0x1234);
    cr_assert_eq(i.size, 7);
    cr_assert_eq(i.type, JIT_i16);
    cr_assert_eq(i.backend, JIT_CUDA);
    cr_assert_eq(i.device, 3);
    cr_assert_eq(i.external, 1);
    jit_var d = data(JIT_f64, 5);
    cr_assert(info(d).evaluated && !info(d).literal);
    jit_var n = unary(JITC_OP_sqrt, d);
    i = info(n);
    cr_assert(i.type == JIT_f64 && i.size == 5 && !i.literal && !i.evaluated);
    cr_assert_eq(info(d).internal, 1);
    cr_assert_eq(info(binary(JITC_OP_lt, d, n)).type, JIT_bool);
    jit_var t = literal(JIT_bool, 200, 1);
    cr_assert_eq(info(t).bits, 1);
}

Test(trace, sizes_reach_the_limit_and_not_beyond) {
    static const uint64_t sizes[] = {0, 1, 2, 0xffffffff, 0x100000000, 0x100000001, JITC_MAX_SIZE};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        jit_var c = jitc_trace_counter(g, JIT_LLVM, 0, sizes[i]);
        cr_assert_eq(info(c).size, sizes[i]);
        cr_assert_eq(info(c).type, sizes[i] > 0x100000000 ? JIT_u64 : JIT_u32);
        jit_var one = literal(info(c).type, 5, 1);
        jit_var sum = binary(JITC_OP_add, one, c);
        cr_assert_eq(info(sum).size, sizes[i]);
        cr_assert_eq(info(literal(JIT_i8, 1, sizes[i])).size, sizes[i]);
        cr_assert_eq(info(data(JIT_i8, sizes[i])).size, sizes[i]);
    }
    FAILS(jitc_trace_counter(g, JIT_LLVM, 0, JITC_MAX_SIZE + 1), JIT_INVALID_ARGUMENT,
          "new variable: 1099511627777 elements; at most 1099511627776 are possible");
    FAILS(data(JIT_f32, UINT64_MAX), JIT_INVALID_ARGUMENT,
          "new variable: 18446744073709551615 elements; at most 1099511627776 are possible");
    FAILS(literal((jit_dtype) 13, 0, 1), JIT_INVALID_ARGUMENT,
          "new variable: 13 is no element type");
    FAILS(jitc_trace_counter(g, (jit_backend) 3, 0, 1), JIT_INVALID_ARGUMENT,
          "new variable: 3 is no backend");
    FAILS(jitc_trace_counter(g, JIT_LLVM, 32, 1), JIT_INVALID_ARGUMENT,
          "new variable: device 32; there can be 32");
}

/* ---- errors ---- */

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

/* ---- value numbering ---- */

Test(trace, equal_operations_are_one_variable) {
    jit_var x = data(JIT_f32, 8), y = data(JIT_f32, 8), z = data(JIT_f32, 1);
    jit_var a = binary(JITC_OP_add, x, y);
    cr_assert_eq(binary(JITC_OP_add, x, y), a);
    cr_assert_eq(binary(JITC_OP_add, y, x), a);
    cr_assert_eq(node(a)->a, x & JITC_INDEX_MASK); /* as it was traced first */
    cr_assert_neq(binary(JITC_OP_sub, x, y), binary(JITC_OP_sub, y, x));
    cr_assert_neq(binary(JITC_OP_mul, x, y), a);
    jit_var f = jitc_trace_ternary(g, JITC_OP_fma, x, y, z);
    cr_assert_eq(jitc_trace_ternary(g, JITC_OP_fma, x, y, z), f);
    cr_assert_neq(jitc_trace_ternary(g, JITC_OP_fma, x, y, y), f);
    cr_assert_neq(jitc_trace_cast(g, JITC_OP_cast, x, JIT_i32),
                  jitc_trace_cast(g, JITC_OP_cast, x, JIT_u32));
    cr_assert_neq(jitc_trace_cast(g, JITC_OP_cast, x, JIT_i32),
                  jitc_trace_cast(g, JITC_OP_bitcast, x, JIT_i32));
    cr_assert_eq(literal(JIT_f32, 77, 1), literal(JIT_f32, 77, 1));
    cr_assert_neq(literal(JIT_f32, 77, 1), literal(JIT_f32, 77, 2));
    cr_assert_neq(literal(JIT_f32, 77, 1), literal(JIT_i32, 77, 1));
    cr_assert_neq(literal(JIT_f32, 77, 1), literal(JIT_f32, 78, 1));
    cr_assert_eq(jitc_trace_counter(g, JIT_LLVM, 0, 9), jitc_trace_counter(g, JIT_LLVM, 0, 9));
    cr_assert_neq(jitc_trace_counter(g, JIT_LLVM, 0, 9), jitc_trace_counter(g, JIT_LLVM, 1, 9));
    cr_assert_neq(data(JIT_f32, 8), data(JIT_f32, 8));
    jit_var i = data(JIT_u32, 8), m = data(JIT_bool, 8);
    cr_assert_eq(jitc_trace_gather(g, x, i, m), jitc_trace_gather(g, x, i, m));
    cr_assert_neq(jitc_trace_gather(g, x, i, m), jitc_trace_gather(g, x, i, 0));
    cr_assert_eq(jitc_trace_scatter(g, x, y, i, m), jitc_trace_scatter(g, x, y, i, m));
    cr_assert_neq(jitc_trace_scatter(g, x, y, i, m), jitc_trace_scatter(g, y, y, i, m));
    cr_assert_neq(jitc_trace_scatter(g, x, y, i, m), jitc_trace_scatter(g, x, x, i, m));
}

/* Operands with many users, from both sides, and pairs of them; released in three orders. */
Test(trace, hubs_keep_values_unique) {
    enum { N = 150 };
    static jit_var v[2 * N], r[2 * N][N];
    for (int order = 0; order < 3; ++order) {
        for (int i = 0; i < 2 * N; ++i)
            v[i] = data(JIT_f32, 8);
        for (int i = 0; i < 2 * N; ++i)
            for (int k = 0; k < N; ++k)
                r[i][k] = binary(JITC_OP_sub, v[i], v[2 * N - 1 - k]);
        for (int i = 0; i < 2 * N; ++i)
            for (int k = 0; k < N; ++k) {
                if (i == 2 * N - 1 - k)
                    continue;
                jit_var again = binary(JITC_OP_sub, v[i], v[2 * N - 1 - k]);
                cr_assert_eq(again, r[i][k]);
                unref(again);
            }
        for (int n = 0; n < 2 * N * N; ++n) {
            int at = order == 0 ? n : order == 1 ? 2 * N * N - 1 - n : n * 7919 % (2 * N * N);
            unref(r[at / N][at % N]);
        }
        for (int i = 0; i < 2 * N; ++i)
            unref(v[i]);
        cr_assert_eq(alive(), 0);
    }
    cr_assert_eq(g->p->table.count, 0);
}

/* Against a model: each variable has a structural hash; equal hash if and only if equal handle. */
enum { FUZZ_MAX = 20000 };
typedef struct fuzz {
    jit_var v[FUZZ_MAX];
    uint64_t hash[FUZZ_MAX];
    uint32_t count;
} fuzz;

static uint64_t scramble(uint64_t a, uint64_t b) {
    uint64_t h = (a ^ b >> 31) * 0x9E3779B97F4A7C15 + b * 0xD6E8FEB86659FD93;
    return (h ^ h >> 29) * 0xBF58476D1CE4E5B9;
}

static void fuzz_add(fuzz *f, jit_var v, uint64_t hash, int step) {
    cr_assert(v, "%s", jit_error());
    uint32_t n = f->count;
    for (uint32_t q = 0; q < (step % 64 ? 2 : n) && n; ++q) {
        uint32_t o = step % 64 ? (uint32_t) (random_bits() % n) : q;
        cr_assert_eq(f->hash[o] == hash, f->v[o] == v, "step %d", step);
    }
    f->v[n] = v;
    f->hash[n] = hash;
    f->count++;
}

static void fuzz_leaf(fuzz *f, int step) {
    if (random_bits() % 4 == 0) {
        fuzz_add(f, data(JIT_f32, 100), scramble((uint64_t) step, 99), step);
        return;
    }
    uint32_t bits = 0x3f912345 + (uint32_t) (random_bits() % 50) * 77777;
    fuzz_add(f, literal(JIT_f32, bits, 1), scramble(bits, 1), step);
}

static uint64_t fold_hash(jitc_op op, const jit_var *v, uint32_t count, uint64_t otherwise) {
    uint64_t in[3] = {0}, bits;
    for (uint32_t i = 0; i < count; ++i) {
        jitc_var_info o = info(v[i]);
        if (!o.literal)
            return otherwise;
        in[i] = o.bits;
    }
    cr_assert(jitc_fold(op, JIT_f32, JIT_f32, in, &bits));
    return scramble(bits, 1);
}

static void fuzz_operation(fuzz *f, int step) {
    static const jitc_op ops[] = {JITC_OP_add, JITC_OP_mul,  JITC_OP_sub,
                                  JITC_OP_fma, JITC_OP_sqrt, JITC_OP_exp};
    jitc_op op = ops[random_bits() % 6];
    uint32_t count = jitc_ops[op].arity;
    uint64_t h[3] = {0};
    jit_var v[3] = {0};
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t few = f->count < 12 ? f->count : 12;
        uint32_t at = (uint32_t) (random_bits() % (random_bits() % 8 ? f->count : few));
        v[i] = f->v[at];
        h[i] = f->hash[at];
    }
    if (op == JITC_OP_sub && v[0] == v[1])
        op = JITC_OP_add; /* 0 would be simplified later on */
    if (jitc_ops[op].props & JITC_COMMUTES && h[0] > h[1]) {
        uint64_t t = h[0];
        h[0] = h[1];
        h[1] = t;
    }
    uint64_t hash = scramble(scramble(h[0], h[1] + 5), h[2] + (uint64_t) op * 31);
    hash = fold_hash(op, v, count, hash);
    jit_var r = count == 1   ? unary(op, v[0])
                : count == 2 ? binary(op, v[0], v[1])
                             : jitc_trace_ternary(g, op, v[0], v[1], v[2]);
    fuzz_add(f, r, hash, step);
}

static void fuzz_release(fuzz *f, int step) {
    uint32_t at = (uint32_t) (random_bits() % f->count);
    jit_var v = f->v[at];
    unref(v);
    f->count--;
    f->v[at] = f->v[f->count];
    f->hash[at] = f->hash[f->count];
    if (step % 1024)
        return;
    bool other = false;
    for (uint32_t i = 0; i < f->count; ++i)
        other |= f->v[i] == v;
    cr_assert_eq(is_alive(v), other);
}

Test(trace, random_programs_agree_with_a_model) {
    static fuzz f;
    for (int step = 0; step < 1000000; ++step) {
        uint64_t grow = step >> 14 & 1 ? 62 : 38, r = random_bits() % 100;
        if (f.count < 8 || (r < 4 && f.count < FUZZ_MAX))
            fuzz_leaf(&f, step);
        else if (r < grow && f.count < FUZZ_MAX)
            fuzz_operation(&f, step);
        else
            fuzz_release(&f, step);
        if (step % 100000 == 0) {
            jitc_graph_lock(g);
            jitc_graph_stamps_locked(g);
            jitc_graph_unlock(g);
        }
    }
    while (f.count)
        unref(f.v[--f.count]);
    cr_assert_eq(alive(), 0);
    cr_assert_eq(g->p->table.count, 0);
    cr_assert_eq(jit_error_status(), JIT_OK, "%s", jit_error());
}

/* ---- simplification ---- */

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

/* ---- memory operations ---- */

Test(trace, masks_are_joined_to_the_index) {
    jit_var s = data(JIT_f32, 100), i = data(JIT_i16, 10), m = data(JIT_bool, 10);
    jit_var v = jitc_trace_gather(g, s, i, m);
    cr_assert_eq(info(v).size, 10);
    cr_assert_eq(info(v).type, JIT_f32);
    const jitc_node *index = jitc_node_at(g, node(v)->b);
    cr_assert_eq(index->op, JITC_OP_masked);
    cr_assert_eq(jitc_node_type(index), JIT_i16);
    cr_assert_eq(index->a, i & JITC_INDEX_MASK);
    cr_assert_eq(index->b, m & JITC_INDEX_MASK);
    cr_assert_eq(index->external, 0);
    cr_assert_eq(jitc_trace_gather(g, s, i, m), v);
    jit_var t = literal(JIT_bool, 1, 10), f = literal(JIT_bool, 0, 1);
    cr_assert_eq(jitc_trace_gather(g, s, i, t), jitc_trace_gather(g, s, i, 0));
    jit_var nothing = jitc_trace_gather(g, s, i, f);
    cr_assert(info(nothing).literal && info(nothing).size == 10 && !info(nothing).bits);
    jit_var one = data(JIT_i16, 1);
    cr_assert_eq(info(jitc_trace_gather(g, s, one, t)).size, 10);
    cr_assert_eq(info(jitc_trace_gather(g, s, one, m)).size, 10);
    cr_assert_eq(info(jitc_trace_gather(g, data(JIT_f32, 0), i, 0)).size, 10);
}

Test(trace, gather_from_a_literal_is_folded_within_its_size) {
    jit_var s = literal(JIT_f32, 0x40400000, 100), x = data(JIT_i8, 10);
    jit_var v = jitc_trace_gather(g, s, literal(JIT_i8, 99, 5), 0);
    cr_assert(info(v).literal && info(v).bits == 0x40400000 && info(v).size == 5);
    cr_assert(!info(jitc_trace_gather(g, s, literal(JIT_i8, 100, 5), 0)).literal);
    cr_assert(!info(jitc_trace_gather(g, s, literal(JIT_i8, 0xff, 5), 0)).literal);
    cr_assert(!info(jitc_trace_gather(g, s, x, 0)).literal);
}

Test(trace, scatter_has_the_size_of_its_target) {
    jit_var s = data(JIT_f32, 100), x = data(JIT_f32, 1), i = data(JIT_u64, 10);
    jit_var m = data(JIT_bool, 1), f = literal(JIT_bool, 0, 10);
    jit_var v = jitc_trace_scatter(g, s, x, i, m);
    cr_assert_eq(info(v).size, 100);
    cr_assert_eq(node(v)->b, x & JITC_INDEX_MASK);
    cr_assert_eq(jitc_node_at(g, *jitc_node_c(g, v & JITC_INDEX_MASK))->op, JITC_OP_masked);
    cr_assert_eq(jitc_trace_scatter(g, s, x, i, f), s);
    cr_assert_eq(jitc_trace_scatter(g, s, x, data(JIT_u64, 0), 0), s);
    unref(v), unref(s), unref(s), unref(s);
}

/* ---- memory of the graph ---- */

static jit_var chain(jit_var x, int n) {
    static const jitc_op ops[] = {JITC_OP_mul, JITC_OP_add};
    jit_var l = literal_f32(1.5f);
    jitc_trace_ref(g, x);
    for (int i = 0; i < n; ++i) {
        jit_var y = binary(ops[i & 1], x, l);
        unref(x);
        x = y;
    }
    unref(l);
    return x;
}

Test(trace, a_long_chain_dies_little_by_little) {
    enum { N = 1000000 };
    jit_var x = data(JIT_f32, 8), r = chain(x, N);
    jitc_graph_stats s = jitc_graph_get_stats(g);
    cr_assert_eq(s.variables, N + 2);
    cr_assert_lt(s.bytes, 64 * (N + 2));
    unref(r);
    cr_assert_gt(g->p->live, N - 10); /* the call was short */
    for (int i = 0; i < N; ++i)
        unref(jitc_trace_ref(g, x));
    cr_assert_eq(g->p->live, 1); /* others have paid for it */
    jit_var again = chain(x, N);
    cr_assert_eq(jitc_graph_get_stats(g).bytes, s.bytes);
    unref(again), unref(x);
    cr_assert_eq(alive(), 0);
}

/* A dead node that is traced again before it was freed is what it was. */
Test(trace, waiting_nodes_are_revived) {
    jit_var x = data(JIT_f32, 8), r = chain(x, 1000);
    unref(r);
    cr_assert_gt(g->p->live, 900);
    jit_var again = chain(x, 1000);
    cr_assert(is_alive(again));
    cr_assert_eq(alive(), 1002);
    unref(again), unref(x);
    cr_assert_eq(alive(), 0);
}

/* ---- arrays in memory ---- */

static jitc_device device; /* foreign memory without uses needs no more of it */
static int released;
static jit_var next_to_release;

static void count_release(void *context) {
    (void) context;
    ++released;
}

static jit_var mapped(void (*release)(void *), void *context) {
    static char memory[64];
    jitc_buffer *b;
    cr_assert_eq(jitc_buffer_map(&device, memory, sizeof memory, release, context, &b), JIT_OK);
    return jitc_trace_data(g, JIT_LLVM, 0, JIT_f32, 16, b);
}

Test(trace, a_buffer_is_given_up_with_its_last_user) {
    jit_var x = mapped(count_release, NULL), y = unary(JITC_OP_sqrt, x);
    unref(x);
    cr_assert_eq(released, 0);
    unref(y);
    cr_assert_eq(released, 1);
    cr_assert_eq(alive(), 0);
    jitc_buffer *b;
    cr_assert_eq(jitc_buffer_map(&device, &b, 1, count_release, NULL, &b), JIT_OK);
    cr_assert_eq(jitc_trace_data(g, JIT_LLVM, 99, JIT_f32, 16, b), 0);
    cr_assert_eq(released, 2);
    mapped(count_release, NULL);
    unary(JITC_OP_sqrt, mapped(count_release, NULL));
    jitc_graph_destroy(g);
    cr_assert_eq(released, 4);
    g = NULL;
}

/* Release is user code: it may call the library, and end the life of another array. */
static void release_next(void *context) {
    jit_var *v = context;
    ++released;
    if (*v)
        unref(*v);
}

Test(trace, release_callbacks_may_release_others_without_end) {
    enum { N = 300000 };
    jit_var *v = calloc(N + 1, sizeof *v);
    for (int i = 0; i < N; ++i)
        v[i] = mapped(release_next, &v[i + 1]);
    unref(v[0]);
    cr_assert_eq(released, N);
    cr_assert_eq(alive(), 0);
    free(v);
}

static void trace_in_callback(void *context) {
    (void) context;
    jitc_trace_scope_push(g);
    binary(JITC_OP_mul, next_to_release, literal_f32(3.5f));
    jitc_trace_scope_pop(g, 0, NULL);
    ++released;
}

Test(trace, release_callbacks_may_trace_also_when_a_scope_ends) {
    next_to_release = data(JIT_f32, 16);
    jitc_trace_scope_push(g);
    for (int i = 0; i < 1000; ++i)
        mapped(trace_in_callback, NULL);
    cr_assert_eq(jitc_trace_scope_pop(g, 0, NULL), JIT_OK);
    cr_assert_eq(released, 1000);
    cr_assert_eq(alive(), 1);
}

static jitc_buffer *count_buffer(void) {
    jitc_buffer *b;
    cr_assert_eq(jitc_buffer_map(&device, &released, 4, count_release, NULL, &b), JIT_OK);
    return b;
}

Test(trace, an_evaluated_node_is_a_leaf) {
    jit_var x = data(JIT_f32, 8), y = unary(JITC_OP_sqrt, x), z = binary(JITC_OP_add, y, y);
    jit_var l = literal(JIT_f32, 0x3f800000, 8);
    jitc_graph_lock(g);
    cr_assert_eq(jitc_graph_find_locked(g, "test", y), y & JITC_INDEX_MASK);
    jitc_graph_set_data_locked(g, y & JITC_INDEX_MASK, count_buffer());
    device.id = 5;
    jitc_graph_set_data_locked(g, l & JITC_INDEX_MASK, count_buffer());
    jitc_graph_unlock(g);
    cr_assert(info(y).evaluated && info(l).evaluated && !info(l).literal);
    cr_assert_eq(info(l).device, 5); /* where it was evaluated */
    cr_assert_eq(info(x).internal, 0);
    cr_assert_eq(binary(JITC_OP_add, y, y), z);
    cr_assert_neq(unary(JITC_OP_sqrt, x), y); /* not found by value any more */
    cr_assert_neq(unary(JITC_OP_neg, l), 0);
    jitc_graph_lock(g);
    jitc_buffer *old = jitc_graph_swap_data_locked(g, y & JITC_INDEX_MASK, count_buffer());
    jitc_graph_unlock(g);
    cr_assert_eq(released, 0);
    jitc_buffer_unref(old);
    cr_assert_eq(released, 1);
    unref(y);
    cr_assert_eq(released, 1);
    unref(z), unref(z);
    alive();
    cr_assert_eq(released, 2);
}

Test(trace, a_held_node_stays) {
    jit_var x = data(JIT_f32, 8), y = unary(JITC_OP_sqrt, x);
    uint32_t i = y & JITC_INDEX_MASK;
    jitc_graph_lock(g);
    jitc_graph_hold_locked(g, i);
    jitc_graph_unlock(g);
    unref(y), unref(x);
    cr_assert_eq(alive(), 2);
    jitc_graph_lock(g);
    jitc_graph_release_locked(g, i);
    jitc_graph_unlock(g);
    cr_assert_eq(alive(), 0);
}

Test(trace, stamps_start_again_when_numbers_run_out) {
    jit_var x = data(JIT_f32, 8), r = chain(x, 100);
    jitc_graph_lock(g);
    cr_assert_eq(jitc_graph_stamps_locked(g), 1);
    *jitc_node_stamp(g, r & JITC_INDEX_MASK) = 77;
    g->stamp_base = UINT32_MAX - 50;
    cr_assert_eq(jitc_graph_stamps_locked(g), 1);
    cr_assert_eq(*jitc_node_stamp(g, r & JITC_INDEX_MASK), 0);
    g->stamp_base = UINT32_MAX - 50;
    jitc_graph_unlock(g);
    unref(r), unref(x);
    cr_assert_eq(alive(), 0);
}

/* ---- labels ---- */

Test(trace, labels_are_kept_and_die_with_their_variable) {
    enum { N = 3000 };
    static jit_var v[N];
    char text[20];
    for (int i = 0; i < N; ++i) {
        v[i] = data(JIT_f32, 8);
        snprintf(text, sizeof text, "label %d", i);
        cr_assert_eq(jitc_trace_set_label(g, v[i], "old"), JIT_OK);
        cr_assert_eq(jitc_trace_set_label(g, v[i], text), JIT_OK);
    }
    for (int i = 0; i < N; i += 3)
        unref(v[i]);
    for (int i = 1; i < N; i += 3)
        cr_assert_eq(jitc_trace_set_label(g, v[i], NULL), JIT_OK);
    for (int i = 0; i < N; ++i) {
        char want[20] = "";
        if (i % 3 == 2)
            snprintf(want, sizeof want, "label %d", i);
        jit_error_clear();
        jit_status status = jitc_trace_label(g, v[i], text, sizeof text);
        cr_assert_eq(status, i % 3 ? JIT_OK : JIT_INVALID_HANDLE);
        cr_assert_str_eq(text, want);
    }
    jitc_trace_label(g, v[2], text, 3);
    cr_assert_str_eq(text, "la");
    for (int i = 0; i < N; ++i) /* slots that are used again have none */
        v[i] = i % 3 ? v[i] : data(JIT_f32, 8);
    jitc_trace_label(g, v[0], text, sizeof text);
    cr_assert_str_eq(text, "");
    cr_assert_eq(jitc_trace_set_label(g, 0, "x"), JIT_INVALID_HANDLE);
}

/* ---- scopes ---- */

Test(trace, a_scope_gives_back_what_was_made_in_it) {
    jit_var x = data(JIT_f32, 8);
    jitc_trace_scope_push(g);
    jit_var a = unary(JITC_OP_sin, x), b = unary(JITC_OP_cos, a), c = binary(JITC_OP_add, a, b);
    jit_var keep[] = {c, 0};
    cr_assert_eq(jitc_trace_scope_pop(g, 2, keep), JIT_OK);
    cr_assert(is_alive(x) && !is_alive(a) && !is_alive(b));
    cr_assert_eq(info(c).external, 1);
    unref(c), unref(x);
    cr_assert_eq(alive(), 0);
}

Test(trace, what_a_scope_keeps_belongs_to_the_outer_one) {
    jit_var x = data(JIT_f32, 8);
    jitc_trace_scope_push(g);
    jitc_trace_scope_push(g);
    jit_var a = unary(JITC_OP_sin, x), twice = unary(JITC_OP_sin, x);
    cr_assert_eq(a, twice);
    cr_assert_eq(jitc_trace_scope_pop(g, 1, &a), JIT_OK);
    cr_assert_eq(info(a).external, 1);
    cr_assert_eq(jitc_trace_scope_pop(g, 0, NULL), JIT_OK);
    cr_assert(!is_alive(a));
    unref(x);
    cr_assert_eq(alive(), 0);
}

Test(trace, a_reference_given_back_in_a_scope_is_not_given_back_twice) {
    jit_var x = data(JIT_f32, 8), v[100];
    jitc_trace_scope_push(g);
    for (int i = 0; i < 100; ++i)
        v[i] = binary(JITC_OP_add, x, literal_f32((float) i + .3f));
    jitc_trace_scope_push(g);
    jit_var y = unary(JITC_OP_sin, x);
    for (int i = 0; i < 100; i += 2)
        unref(v[i]); /* of the outer scope */
    unref(y);
    cr_assert_eq(jitc_trace_scope_pop(g, 0, NULL), JIT_OK);
    jitc_trace_ref(g, v[1]);
    unref(v[1]);
    cr_assert_eq(info(v[1]).external, 1);
    cr_assert_eq(jitc_trace_scope_pop(g, 1, &v[1]), JIT_OK);
    cr_assert_eq(jit_error_status(), JIT_OK, "%s", jit_error());
    cr_assert_eq(info(v[1]).external, 1);
    cr_assert_eq(info(x).external, 1);
    unref(v[1]), unref(x);
    cr_assert_eq(alive(), 0);
}

Test(trace, scopes_report_wrong_use) {
    cr_assert_eq(jitc_trace_scope_pop(g, 0, NULL), JIT_INVALID_ARGUMENT);
    cr_assert_str_eq(jit_error(), "jit_scope_pop: no scope is open");
    jit_error_clear();
    jit_var x = data(JIT_f32, 8), dead = data(JIT_f32, 8);
    unref(dead);
    jitc_trace_scope_push(g);
    jit_var y = unary(JITC_OP_sin, x), keep[] = {y, dead};
    cr_assert_eq(jitc_trace_scope_pop(g, 2, keep), JIT_INVALID_HANDLE);
    jit_error_clear();
    cr_assert_eq(info(y).external, 1);
    cr_assert_eq(jitc_trace_scope_pop(g, 0, NULL), JIT_INVALID_ARGUMENT);
    jit_error_clear();
    unref(y), unref(x);
    cr_assert_eq(alive(), 0);
}

Test(trace, many_references_in_a_scope_are_matched) {
    enum { N = 100000 };
    static jit_var v[N];
    jit_var x = data(JIT_f32, 8);
    jitc_trace_scope_push(g);
    for (int i = 0; i < N; ++i)
        v[i] = binary(JITC_OP_mul, i % 7 && i ? v[i - 1] : x, literal_f32((float) i + .7f));
    for (int i = 0; i < N; ++i)
        if (i % 3 == 0)
            unref(v[i]);
    cr_assert_eq(jitc_trace_scope_pop(g, N / 2, v + N / 2), JIT_INVALID_HANDLE); /* every third */
    jit_error_clear();
    for (int i = N / 2; i < N; ++i)
        if (i % 3)
            unref(v[i]);
    cr_assert_eq(jit_error_status(), JIT_OK, "%s", jit_error());
    unref(x);
    cr_assert_eq(alive(), 0);
}

Test(trace, a_long_loop_in_a_scope_takes_bounded_memory) {
    jit_var x = data(JIT_f32, 8);
    jitc_trace_scope_push(g);
    jit_var window[20] = {0};
    for (int i = 0; i < 200000; ++i) { /* given back long after it was got */
        unref(window[i % 20]);
        window[i % 20] = binary(JITC_OP_mul, x, literal_f32((float) i + .7f));
        if (i % 100 == 0)
            cr_assert_lt(alive(), 100 + 2 * (uint64_t) i);
    }
    cr_assert_eq(jitc_trace_scope_pop(g, 0, NULL), JIT_OK);
    unref(x);
    cr_assert_eq(alive(), 0);
}

Test(trace, scopes_outlive_their_graph_empty) {
    jitc_trace_scope_push(g);
    jit_var old = data(JIT_f32, 8);
    jitc_trace_scope_push(g);
    jitc_graph_destroy(g);
    start();
    cr_assert(!is_alive(old));
    jit_var x = data(JIT_f32, 8);
    cr_assert_eq(jitc_trace_scope_pop(g, 0, NULL), JIT_OK);
    cr_assert(!is_alive(x));
    cr_assert_eq(jitc_trace_scope_pop(g, 0, NULL), JIT_OK);
    cr_assert_eq(alive(), 0);
}

static void *end_in_scope(void *context) {
    (void) context;
    jitc_trace_scope_push(g);
    data(JIT_f32, 8);
    return NULL;
}

Test(trace, a_thread_may_end_in_a_scope) {
    pthread_t t;
    pthread_create(&t, NULL, end_in_scope, NULL);
    pthread_join(t, NULL);
    cr_assert_eq(alive(), 1); /* nobody gave it back */
}

/* ---- threads ---- */

enum { THREADS = 3, SHARED = 64, STEPS = 64 * 2000 };
static jit_var shared[SHARED];

static void *trace_in_thread(void *context) {
    enum { N = 200 };
    jit_var v[N] = {0};
    uint64_t s = (uintptr_t) context * 7919 + 1;
    for (int i = 0; i < STEPS; ++i) {
        s = s * 6364136223846793005 + 1442695040888963407;
        uint32_t r = (uint32_t) (s >> 33);
        if (i % 64 == 0)
            jitc_trace_scope_push(g);
        jit_var a = r % 5 && v[r / 5 % N] ? v[r / 5 % N] : shared[r % SHARED];
        jit_var y = r & 1 ? binary(JITC_OP_add, a, shared[r / 7 % SHARED])
                          : jitc_trace_ternary(g, JITC_OP_fma, a, a, shared[r / 7 % SHARED]);
        if (i % 64 < 32) { /* y belongs to the scope */
            unary(JITC_OP_sin, y);
            if (i % 64 == 31)
                jitc_trace_scope_pop(g, 0, NULL);
            continue;
        }
        if (v[i % N])
            unref(v[i % N]);
        v[i % N] = y;
    }
    for (int i = 0; i < N; ++i)
        if (v[i])
            unref(v[i]);
    return jit_error_status() == JIT_OK ? NULL : "error";
}

Test(trace, threads_share_a_graph) {
    pthread_t t[THREADS];
    for (int i = 0; i < SHARED; ++i)
        shared[i] = data(JIT_f32, 8);
    for (uintptr_t i = 0; i < THREADS; ++i)
        pthread_create(&t[i], NULL, trace_in_thread, (void *) i);
    cr_assert_null(trace_in_thread((void *) 77)); /* the owner of the lock too */
    for (int i = 0; i < THREADS; ++i) {
        void *failed;
        pthread_join(t[i], &failed);
        cr_assert_null(failed);
    }
    for (int i = 0; i < SHARED; ++i)
        unref(shared[i]);
    cr_assert_eq(alive(), 0);
}

Test(trace, the_child_of_a_fork_can_go_on) {
    jit_var x = data(JIT_f32, 8);
    jitc_graph_lock(g); /* as if another thread were tracing */
    pid_t child = fork();
    if (!child) {
        jitc_graph_forked(g);
        jit_var y = unary(JITC_OP_sin, x);
        _exit(y && alive() == 2 ? 0 : 1);
    }
    jitc_graph_unlock(g);
    int status;
    waitpid(child, &status, 0);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- the lock ---- */

static struct {
    jitc_lock lock;
    long count;
} counted;

static void *count_in_thread(void *context) {
    long n = (long) (intptr_t) context;
    for (long i = 0; i < n; ++i) {
        jitc_lock_acquire(&counted.lock);
        counted.count++;
        jitc_lock_release(&counted.lock);
    }
    return NULL;
}

/* Short bursts of others revoke the owner's bias a few times, long ones end it. */
Test(lock, excludes_threads_before_and_after_its_bias_is_dropped) {
    for (int round = 0; round < 200; ++round) {
        jitc_lock_init(&counted.lock);
        counted.count = 0;
        long others = round % 2 ? 3 : 2000;
        pthread_t t[2];
        for (int i = 0; i < 2; ++i)
            pthread_create(&t[i], NULL, count_in_thread, (void *) (intptr_t) others);
        count_in_thread((void *) (intptr_t) 20000);
        for (int i = 0; i < 2; ++i)
            pthread_join(t[i], NULL);
        cr_assert_eq(counted.count, 20000 + 2 * others);
        jitc_lock_finish(&counted.lock);
    }
}
