/* trace_graph.h: a graph of variables for each test, and short names for what is done to it.
 * Layer: tests.  May include: core, ir, device, trace. */
#ifndef JITC_TESTS_TRACE_GRAPH_H
#define JITC_TESTS_TRACE_GRAPH_H
#include "trace/private.h"
#include <criterion/criterion.h>
#include <stdio.h>

static jitc_graph *g; /* Criterion runs each test in a process of its own */

static inline void start(void) {
    cr_assert_eq(jitc_graph_create(&g), JIT_OK);
}

static inline uint64_t alive(void) {
    return jitc_graph_get_stats(g).variables;
}

static inline void stop(void) {
    jitc_graph_destroy(g);
}

static inline uint64_t random_bits(void) {
    static _Thread_local uint64_t s = 88172645463325252;
    s ^= s << 13;
    s ^= s >> 7;
    return s ^= s << 17;
}

static inline jit_var data(jit_dtype t, uint64_t size) {
    return jitc_trace_data(g, JIT_LLVM, 0, t, size, NULL);
}

static inline jit_var literal(jit_dtype t, uint64_t bits, uint64_t size) {
    return jitc_trace_literal(g, JIT_LLVM, 0, t, bits, size);
}

static inline jit_var literal_f32(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return literal(JIT_f32, bits, 1);
}

static inline jit_var unary(jitc_op op, jit_var a) {
    return jitc_trace_unary(g, op, a);
}

static inline jit_var binary(jitc_op op, jit_var a, jit_var b) {
    return jitc_trace_binary(g, op, a, b);
}

static inline void unref(jit_var v) {
    jitc_trace_unref(g, v);
}

static inline jitc_var_info info(jit_var v) {
    jitc_var_info i = {0};
    cr_assert_eq(jitc_trace_info(g, "test", v, &i), JIT_OK, "%s", jit_error());
    return i;
}

static inline bool is_alive(jit_var v) {
    jitc_var_info i;
    bool yes = jitc_trace_info(g, "test", v, &i) == JIT_OK;
    if (!yes)
        jit_error_clear();
    return yes;
}

static inline const jitc_node *node(jit_var v) {
    return jitc_node_at(g, v & JITC_INDEX_MASK);
}

/** The call gave 0 and this error. */
#define FAILS(call, status, text)                                                                  \
    do {                                                                                           \
        jit_error_clear();                                                                         \
        cr_assert_eq((call), 0);                                                                   \
        cr_assert_eq(jit_error_status(), (status), "%s: %s", #call, jit_error());                  \
        cr_assert_str_eq(jit_error(), (text));                                                     \
        jit_error_clear();                                                                         \
    } while (0)
#endif
