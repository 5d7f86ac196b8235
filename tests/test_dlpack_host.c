/* test_dlpack_host.c: on the CPU an export waits for what it gives, and for nothing else. */
#include "dlpack_world.h"
#include "gate.h"
#include <pthread.h>
#include <stdlib.h>

static void start(void) {
    ASSERT_OK(jit_set_option("num_threads", "4")); /* gates occupy some */
    support_init();
}
TestSuite(dlpack_host, .init = start, .fini = support_shutdown, .timeout = 120);

enum { SIZE = 1000 };

static jit_var plus(jit_var v, uint32_t k) {
    jit_var literal = jit_u32(B, k), sum = jit_add(v, literal);
    jit_unref(literal);
    ASSERT_VAR(sum);
    return sum;
}

static void *open_later(void *g) {
    gate_pause();
    gate_open(g);
    return NULL;
}

/* The export comes back when the gate is open, if `waits`, and with the gate closed else. */
static tensor export_behind(gate *g, jit_var v, const jit_export_options *o, bool waits) {
    pthread_t thread;
    if (waits)
        cr_assert_eq(pthread_create(&thread, NULL, open_later, g), 0);
    tensor t = dlpack_export(v, false, o);
    cr_assert_eq(atomic_load(&g->open), waits);
    if (waits)
        pthread_join(thread, NULL);
    return t;
}

static void expect_ramp(const tensor *t, uint32_t first) {
    for (uint32_t i = 0; i < SIZE; ++i)
        cr_assert_eq(((const uint32_t *) dlpack_tensor(t)->data)[i], first + i);
}

static void check_computed(const jit_export_options *o, bool waits, bool literal) {
    gate g;
    jit_var x = dlpack_ramp(SIZE, 0), v = literal ? jit_counter(B, SIZE) : plus(x, 5);
    ASSERT_OK(jit_sync_thread());
    gate_close(&g, NULL);
    gate_block_own_stream(&g);
    tensor t = export_behind(&g, v, o, waits);
    gate_open(&g);
    if (!waits)
        ASSERT_OK(jit_sync_thread());
    expect_ramp(&t, literal ? 0 : 5);
    gate_finish(&g);
    dlpack_delete(&t);
    jit_unref(x), jit_unref(v);
}

/* drjit#198: nobody is given what is not there. */
Test(dlpack_host, it_waits_until_the_array_is_there_unless_it_is_told_not_to) {
    for (int literal = 0; literal < 2; ++literal) {
        check_computed(NULL, true, literal);
        check_computed(EXPORT_WITH(.copy = JIT_COPY_ALWAYS), true, literal);
        check_computed(EXPORT_ON(JIT_STREAM_NONE), false, literal);
        check_computed(EXPORT_ON(JIT_STREAM_NONE, .copy = JIT_COPY_ALWAYS), false, literal);
    }
}

/* Another thread computes with the array, behind the gate. */
typedef struct user {
    gate *gate;
    jit_var v, sum;
} user;

static void *use_behind_gate(void *context) {
    user *u = context;
    gate_block_own_stream(u->gate);
    u->sum = plus(u->v, 1);
    ASSERT_OK(jit_var_eval(u->sum));
    return NULL;
}

static void check_used(bool read_only) {
    gate g;
    pthread_t thread;
    user u = {.gate = &g, .v = dlpack_ramp(SIZE, 0)};
    ASSERT_OK(jit_sync_thread());
    gate_close(&g, NULL);
    cr_assert_eq(pthread_create(&thread, NULL, use_behind_gate, &u), 0);
    pthread_join(thread, NULL);
    tensor t = export_behind(&g, u.v, EXPORT_WITH(.read_only = read_only), !read_only);
    if (!read_only)
        dlpack_write(&t, 1000000);
    gate_finish(&g);
    dlpack_expect(u.sum, SIZE, 1, NULL);
    dlpack_delete(&t);
    jit_unref(u.v), jit_unref(u.sum);
}

Test(dlpack_host, who_may_write_gets_it_after_those_who_read) {
    check_used(false);
    check_used(true);
}
