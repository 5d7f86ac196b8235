/* test_event_life.c: misuse and failures of events, their end, host calls, and all at once. */
#include "cuda/driver.h"
#include "event_world.h"
#include <stdlib.h>

TestSuite(event, .init = event_start, .fini = event_end, .timeout = 120);

/* ---- Misuse, failures, the end ---- */

Test(event, null_and_nonsense_are_errors) {
    jit_event *e = new_event(true), *none = e;
    double ms;
    bool done;
    FAILS(JIT_INVALID_ARGUMENT, "out", jit_event_create(B, false, NULL));
    FAILS(JIT_INVALID_ARGUMENT, "7", jit_event_create((jit_backend) 7, false, &none));
    cr_assert_null(none);
    if (B == JIT_LLVM)
        FAILS(JIT_UNAVAILABLE, "CUDA", jit_event_create(JIT_CUDA, false, &none));
    FAILS(JIT_INVALID_ARGUMENT, "jit_event_record", jit_event_record(NULL));
    FAILS(JIT_INVALID_ARGUMENT, "jit_event_query", jit_event_query(NULL, &done));
    FAILS(JIT_INVALID_ARGUMENT, "done", jit_event_query(e, NULL));
    FAILS(JIT_INVALID_ARGUMENT, "jit_event_wait", jit_event_wait(NULL));
    FAILS(JIT_INVALID_ARGUMENT, "jit_event_stream_wait", jit_event_stream_wait(NULL));
    FAILS(JIT_INVALID_ARGUMENT, "jit_event_elapsed", jit_event_elapsed(NULL, e, &ms));
    FAILS(JIT_INVALID_ARGUMENT, "jit_event_elapsed", jit_event_elapsed(e, NULL, &ms));
    FAILS(JIT_INVALID_ARGUMENT, "milliseconds", jit_event_elapsed(e, e, NULL));
    FAILS(JIT_INVALID_ARGUMENT, "function", jit_call(B, NULL, NULL));
    FAILS(JIT_INVALID_ARGUMENT, "7", jit_call((jit_backend) 7, free, NULL));
    jit_event_destroy(e);
}

static void expect_shell(jit_event *e) {
    double ms;
    bool done;
    FAILS(JIT_INVALID_HANDLE, "jit_shutdown", jit_event_record(e));
    FAILS(JIT_INVALID_HANDLE, "jit_shutdown", jit_event_query(e, &done));
    FAILS(JIT_INVALID_HANDLE, "jit_shutdown", jit_event_wait(e));
    FAILS(JIT_INVALID_HANDLE, "jit_shutdown", jit_event_stream_wait(e));
    FAILS(JIT_INVALID_HANDLE, "jit_shutdown", jit_event_elapsed(e, e, &ms));
}

Test(event, is_a_shell_after_shutdown) {
    jit_event *idle = new_event(true), *used = new_event(false), *none;
    jit_unref(evaluate(1));
    ASSERT_OK(jit_event_record(used));
    support_shutdown();
    FAILS(JIT_NOT_INITIALIZED, "jit_init", jit_event_create(B, false, &none));
    FAILS(JIT_NOT_INITIALIZED, "jit_init", jit_call(B, free, NULL));
    FAILS(JIT_NOT_INITIALIZED, "jit_init", jit_trim());
    expect_shell(idle);
    support_init();
    expect_shell(used);
    ASSERT_OK(jit_event_create(B, false, &none)); /* others work */
    ASSERT_OK(jit_event_record(none));
    jit_event_destroy(used);
    jit_event_destroy(none);
    support_shutdown();
    jit_event_destroy(idle);
    support_init();
}

static void *open_later(void *context) {
    gate_pause();
    gate_open(context);
    return NULL;
}

/* On the CPU the gate is a call that jit_shutdown() waits for. */
Test(event, shutdown_waits_for_those_who_wait) {
    gate g;
    pthread_t t[2];
    waiter w = {.event = new_event(true)};
    if (B != JIT_LLVM)
        support_skip("what closes a gate has to end before the library does");
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    jit_unref(evaluate(1));
    ASSERT_OK(jit_event_record(w.event));
    cr_assert_eq(pthread_create(&t[0], NULL, wait_in_thread, &w), 0);
    wait_until(&w.inside);
    gate_pause();
    cr_assert_eq(pthread_create(&t[1], NULL, open_later, &g), 0);
    support_shutdown();
    for (int i = 0; i < 2; ++i)
        cr_assert_eq(pthread_join(t[i], NULL), 0);
    cr_assert(w.status == JIT_OK || w.status == JIT_INVALID_HANDLE);
    jit_event_destroy(w.event);
    jit_event_destroy(g.event);
    support_init();
}

enum { THREADS = 6, EVENTS = 200 };

static void *destroy_in_thread(void *events) {
    jit_event **e = events;
    for (int i = 0; i < EVENTS; ++i)
        jit_event_destroy(e[i]);
    return NULL;
}

Test(event, may_be_destroyed_while_the_runtime_shuts_down) {
    static jit_event *e[THREADS][EVENTS];
    for (int round = 0; round < 5; ++round) {
        pthread_t t[THREADS];
        for (int i = 0; i < THREADS * EVENTS; ++i) {
            e[i / EVENTS][i % EVENTS] = new_event(i & 1);
            ASSERT_OK(jit_event_record(e[i / EVENTS][i % EVENTS]));
        }
        for (int i = 0; i < THREADS; ++i)
            cr_assert_eq(pthread_create(&t[i], NULL, destroy_in_thread, e[i]), 0);
        support_shutdown();
        for (int i = 0; i < THREADS; ++i)
            cr_assert_eq(pthread_join(t[i], NULL), 0);
        support_init();
    }
}

typedef jit_status (*use)(jit_event *e);

static jit_status use_create(jit_event *e) {
    jit_event *other = e;
    jit_status status = jit_event_create(B, true, &other);
    if (status == JIT_OK)
        jit_event_destroy(other);
    else
        cr_assert_null(other);
    return status;
}
static jit_status use_query(jit_event *e) {
    bool done;
    return jit_event_query(e, &done);
}
static jit_status use_elapsed(jit_event *e) {
    double ms;
    return jit_event_elapsed(e, e, &ms);
}

/* What the driver refuses once is told, and works the next time. */
Test(event, failures_of_the_driver_leave_everything_as_it_was) {
    static const struct {
        const char *function;
        use use;
    } row[] = {{"cuEventCreate", use_create},
               {"cuEventRecord", jit_event_record},
               {"cuEventQuery", use_query},
               {"cuEventSynchronize", jit_event_wait},
               {"cuStreamWaitEvent", jit_event_stream_wait},
               {"cuEventElapsedTime", use_elapsed}};
    void (*fail)(const char *, int, int);
    *(void **) &fail = support_driver("simcuda_fail");
    if (!fail)
        support_skip("this wants the simulated driver");
    jit_event *e = new_event(true);
    for (size_t i = 0; i < sizeof row / sizeof *row; ++i) {
        ASSERT_OK(jit_event_record(e));
        jit_var v = evaluate((float) i);
        ASSERT_OK(jit_sync_thread());
        bool v2 = row[i].use == use_elapsed && support_driver("cuEventElapsedTime_v2");
        fail(v2 ? "cuEventElapsedTime_v2" : row[i].function, 1, CUDA_ERROR_OUT_OF_MEMORY);
        FAILS(JIT_OUT_OF_MEMORY, row[i].function, row[i].use(e));
        ASSERT_OK(row[i].use(e));
        expect(v, (float) i);
    }
    jit_event_destroy(e);
}

static void must_not_be_called(void *context) {
    (void) context;
    cr_assert(false, "a call that failed is made");
}

/* A thread's stream is made by the first of these that it calls. */
static void *first_use_fails(void *event) {
    void (*fail)(const char *, int, int);
    *(void **) &fail = support_driver("simcuda_fail");
    static const use row[] = {jit_event_record, jit_event_stream_wait};
    for (size_t i = 0; i < sizeof row / sizeof *row; ++i) {
        fail("cuStreamCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
        FAILS(JIT_OUT_OF_MEMORY, "cuStreamCreate", row[i](event));
    }
    fail("cuStreamCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
    FAILS(JIT_OUT_OF_MEMORY, "cuStreamCreate", jit_call(B, must_not_be_called, NULL));
    for (size_t i = 0; i < sizeof row / sizeof *row; ++i)
        ASSERT_OK(row[i](event));
    expect(evaluate(1), 1);
    return NULL;
}

Test(event, a_thread_that_gets_no_stream_is_told_and_tries_again) {
    if (!support_driver("simcuda_fail"))
        support_skip("this wants the simulated driver");
    jit_event *e = new_event(true);
    jit_unref(evaluate(0));
    in_thread(first_use_fails, e);
    jit_event_destroy(e);
}

/* ---- Calls ---- */

typedef struct note {
    atomic_int calls;
    jit_event *event;
    bool done;
    int order;
} note;

static atomic_int noted;

static void take_note(void *context) {
    note *n = context;
    jit_var v = jit_f32(B, 1); /* no lock is held */
    jit_unref(v);
    gate_pause(); /* who waits for the call waits for its end */
    n->done = !n->event || (jit_event_query(n->event, &n->done) == JIT_OK && n->done);
    n->order = atomic_fetch_add(&noted, 1);
    atomic_fetch_add(&n->calls, 1);
}

Test(event, a_call_comes_once_after_all_that_was_queued) {
    gate g;
    note n = {.event = new_event(false)};
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    jit_var v = evaluate(8);
    ASSERT_OK(jit_event_record(n.event));
    ASSERT_OK(jit_call(B, take_note, &n));
    gate_pause();
    cr_assert_eq(atomic_load(&n.calls), 0);
    gate_open(&g);
    ASSERT_OK(jit_sync_thread());
    cr_assert_eq(atomic_load(&n.calls), 1, "jit_sync_thread() waits for the call");
    cr_assert(n.done, "the call came before the work");
    gate_finish(&g);
    expect(v, 8);
    jit_event_destroy(n.event);
}

Test(event, a_call_without_work_comes_too) {
    note n = {0};
    ASSERT_OK(jit_call(B, take_note, &n)); /* nobody waits, and nothing else is queued */
    while (!atomic_load(&n.calls))
        gate_pause();
    ASSERT_OK(jit_sync_thread());
    cr_assert_eq(atomic_load(&n.calls), 1);
}

Test(event, calls_of_a_thread_come_in_order) {
    enum { CALLS = 20 };
    static note n[CALLS];
    jit_var v = evaluate(9);
    for (int i = 0; i < CALLS; ++i)
        ASSERT_OK(jit_call(B, take_note, &n[i]));
    ASSERT_OK(jit_sync_device());
    for (int i = 0; i < CALLS; ++i) {
        cr_assert_eq(atomic_load(&n[i].calls), 1);
        cr_assert_eq(n[i].order, i);
    }
    expect(v, 9);
}

/* ---- All at once ---- */

enum { SHARED = 4, STEPS = 150 };

typedef struct player {
    jit_event **shared;
    int number;
} player;

static void step(jit_event *e, unsigned what) {
    double ms;
    bool done;
    switch (what % 5) {
        case 0: ASSERT_OK(jit_event_record(e)); break;
        case 1: ASSERT_OK(jit_event_stream_wait(e)); break;
        case 2: ASSERT_OK(jit_event_query(e, &done)); break;
        case 3: ASSERT_OK(jit_event_wait(e)); break;
        default: /* others record it meanwhile: there may be no time */
            if (jit_event_elapsed(e, e, &ms) != JIT_OK)
                cr_assert_eq(jit_error_status(), JIT_INVALID_ARGUMENT);
            jit_error_clear();
    }
}

static void *play(void *context) {
    const player *p = context;
    uint32_t r = (uint32_t) p->number * 2654435761u + 1;
    for (int i = 0; i < STEPS; ++i) {
        r = r * 1664525 + 1013904223;
        jit_var v = r >> 28 < 4 ? evaluate((float) i) : 0;
        step(p->shared[r >> 16 & (SHARED - 1)], r >> 20 & 63);
        if (v && r & 256)
            expect(v, (float) i);
        else
            jit_unref(v);
    }
    return NULL;
}

Test(event, threads_use_the_same_events) {
    pthread_t t[THREADS];
    player p[THREADS];
    jit_event *shared[SHARED];
    for (int i = 0; i < SHARED; ++i)
        shared[i] = new_event(true);
    for (int i = 0; i < THREADS; ++i) {
        p[i] = (player) {shared, i};
        cr_assert_eq(pthread_create(&t[i], NULL, play, &p[i]), 0);
    }
    for (int i = 0; i < THREADS; ++i)
        cr_assert_eq(pthread_join(t[i], NULL), 0);
    for (int i = 0; i < SHARED; ++i)
        jit_event_destroy(shared[i]);
}
