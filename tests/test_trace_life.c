/* test_trace_life.c: how long variables, their arrays and their labels live; scopes.
 * Layer: tests. */
#include "trace_graph.h"
#include <stdlib.h>

TestSuite(trace, .init = start, .fini = stop);

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
    unref(y);
    cr_assert_eq(released, 0);
    unref(z), unref(z);
    alive();
    cr_assert_eq(released, 1);
}

Test(trace, a_twin_is_evaluated_in_place_of_a_variable) {
    jit_var x = data(JIT_f32, 8), y = unary(JITC_OP_sqrt, x), l = literal(JIT_f32, 5, 8);
    jit_var z = jitc_trace_ternary(g, JITC_OP_fma, x, y, l);
    jit_var all[] = {y, l, z}, twin[3];
    for (int i = 0; i < 3; ++i) {
        twin[i] = jitc_trace_twin(g, "test", all[i]);
        cr_assert_neq(twin[i], all[i]);
        cr_assert_eq(info(twin[i]).size, 8);
        cr_assert_eq(info(twin[i]).bits, info(all[i]).bits);
    }
    cr_assert_eq(jitc_trace_twin(g, "test", x), x); /* in memory */
    cr_assert_eq(unary(JITC_OP_sqrt, x), y);        /* not the twin */
    cr_assert_eq(literal(JIT_f32, 5, 8), l);
    unref(x), unref(y), unref(l);
    cr_assert_eq(info(x).internal, 4);
    for (int i = 0; i < 3; ++i) {
        jitc_graph_lock(g);
        jitc_graph_set_data_locked(g, twin[i] & JITC_INDEX_MASK, count_buffer());
        jitc_graph_unlock(g);
        cr_assert(info(twin[i]).evaluated && !info(all[i]).evaluated);
    }
    cr_assert_eq(info(x).internal, 2);
    cr_assert_eq(jitc_trace_ternary(g, JITC_OP_fma, x, y, l), z);
    unref(z), unref(z), unref(y), unref(l), unref(x);
    for (int i = 0; i < 3; ++i)
        unref(twin[i]);
    cr_assert_eq(alive(), 0);
    cr_assert_eq(released, 3);
    cr_assert_eq(jitc_trace_twin(g, "test", z), 0);
    cr_assert_eq(jit_error_status(), JIT_INVALID_HANDLE);
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
