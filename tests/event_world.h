/* event_world.h: what the tests of events and threads share: work, and those who wait. */
#ifndef JITC_TESTS_EVENT_WORLD_H
#define JITC_TESTS_EVENT_WORLD_H
#include "gate.h"
#include <pthread.h>
#include <string.h>

#define B support_backend()

static inline void event_start(void) {
    ASSERT_OK(jit_set_option("num_threads", "4")); /* gates occupy some */
    support_init();
}

static inline void event_end(void) {
    cr_assert_str_empty(jit_error());
    support_shutdown();
}

/* The call fails with the status, and its message has the text. */
#define FAILS(status, text, call)                                                                  \
    do {                                                                                           \
        cr_assert_eq((call), status, "%s: %s", #call, jit_error());                                \
        cr_assert_eq(jit_error_status(), status);                                                  \
        cr_assert(strstr(jit_error(), text), "%s: %s", #call, jit_error());                        \
        jit_error_clear();                                                                         \
    } while (0)

static inline jit_event *new_event(bool timed) {
    jit_event *e;
    ASSERT_OK(jit_event_create(B, timed, &e));
    cr_assert_not_null(e);
    return e;
}

static inline bool is_done(jit_event *e) {
    bool done;
    ASSERT_OK(jit_event_query(e, &done));
    return done;
}

enum { SIZE = 5000 };

/* 3 i + offset, computed by a kernel. */
static inline jit_var evaluate(float offset) {
    jit_scope_push();
    jit_var i = jit_cast(jit_counter(B, SIZE), JIT_f32);
    jit_var v = jit_add(jit_mul(i, jit_f32(B, 3)), jit_f32(B, offset));
    ASSERT_OK(jit_var_eval(v));
    ASSERT_OK(jit_scope_pop(1, &v));
    return v;
}

/* For gate_close(): those of evaluate(), for an offset that is equal to the factor and for others.
 */
static inline void use_kernels(void) {
    jit_unref(evaluate(0));
    jit_unref(evaluate(3));
}

static inline void expect(jit_var v, float offset) {
    static _Thread_local float x[SIZE];
    ASSERT_OK(jit_read(v, x));
    for (int i = 0; i < SIZE; ++i)
        cr_assert_eq(x[i], 3 * (float) i + offset, "element %d: %g", i, (double) x[i]);
    jit_unref(v);
}

static inline void in_thread(void *(*function)(void *), void *context) {
    pthread_t t;
    cr_assert_eq(pthread_create(&t, NULL, function, context), 0);
    cr_assert_eq(pthread_join(t, NULL), 0);
}

/* Somebody who waits for an event on the CPU. */
typedef struct waiter {
    jit_event *event;
    atomic_bool inside, over;
    jit_status status;
} waiter;

static inline void *wait_in_thread(void *context) {
    waiter *w = context;
    atomic_store(&w->inside, true);
    w->status = jit_event_wait(w->event);
    atomic_store(&w->over, true);
    return NULL;
}

static inline void wait_until(atomic_bool *flag) {
    while (!atomic_load(flag))
        gate_pause();
}
#endif
