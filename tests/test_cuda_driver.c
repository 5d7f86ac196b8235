/* test_cuda_driver.c: the slots of the CUDA backend that queue, wait and call: numbers, kernels
 * that are held back, order between streams, staging, calls. */
#include "cuda/device.h"
#include "cuda_foreign.h"
#include "cuda_slots.h"
#include <stdlib.h>
#include <string.h>

TestSuite(cuda_driver, .init = slots_start, .fini = slots_end);

/* ---- Memory of others ---- */

static jitc_address look_up(const void *pointer) {
    jitc_address a;
    ASSERT_OK(b->look_up(b, 0, pointer, &a));
    return a;
}

/* Drivers that cannot tell are asked nothing. */
Test(cuda_driver, addresses_are_looked_up) {
    foreign f = foreign_find();
    void *x = alloc(100), *pinned;
    foreign_enter(0);
    CU_OK(f.MemHostAlloc(&pinned, 100, 0));
    jitc_address a = look_up((char *) x + 50), host = look_up(pinned);
    cr_assert(a.kind == JITC_ADDRESS_DEVICE && a.device == 0 && a.on_device == (char *) x + 50);
    cr_assert(host.kind == JITC_ADDRESS_PINNED && host.on_device == pinned);
    cr_assert_eq(look_up(&a).kind, JITC_ADDRESS_HOST);
    cr_assert_eq(look_up(NULL).kind, JITC_ADDRESS_HOST);
    jitc_cuda_backend_of(b)->cuda.PointerGetAttributes = NULL;
    cr_assert_eq(look_up(x).kind, JITC_ADDRESS_UNKNOWN);
    CU_OK(f.MemFreeHost(pinned));
    foreign_leave(0);
    release(x);
}

/* ---- Numbers ---- */

Test(cuda_driver, numbers_go_up_by_one_and_are_done_in_order) {
    jitc_stream *s = stream[0];
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s), *y = alloc(4 * N);
    uint64_t first = jitc_load_relaxed(&s->queued);
    be_slow(20000);
    for (uint64_t i = 1; i <= 3; ++i)
        cr_assert_eq(launch(s, k, y, x, 1, 0), first + i);
    cr_assert_not(b->done(s, first + 1), "it is held back");
    foreign_enter(0);
    foreign_settle(); /* the device has nothing left to do */
    foreign_leave(0);
    cr_assert_not(b->done(s, first + 1), "it is held back");
    ASSERT_OK(b->flush(s));
    cr_assert(!w.kernel_time_us || !b->done(s, first + 3));
    ASSERT_OK(b->wait(s, first + 2));
    cr_assert(b->done(s, first) && b->done(s, first + 1) && b->done(s, first + 2));
    ASSERT_OK(b->wait(s, first + 3));
    cr_assert(b->done(s, first + 3));
    b->kernel_destroy(b, k);
    release(x), release(y);
}

Test(cuda_driver, an_idle_stream_asks_the_driver_nothing) {
    jitc_stream *s = stream[0];
    uint64_t n;
    void *x = make_ramp(s);
    n = jitc_load_relaxed(&s->queued);
    ASSERT_OK(b->wait(s, n));
    uint64_t before = calls(NULL);
    for (int i = 0; i < 100; ++i)
        cr_assert(b->done(s, n) && b->done(s, 0));
    ASSERT_OK(b->wait(s, n));
    cr_assert_eq(calls(NULL), before);
    release(x);
}

Test(cuda_driver, done_comes_true_without_a_wait) {
    jitc_stream *s = stream[0];
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s);
    be_slow(2000);
    uint64_t n = launch(s, k, x, x, 1, 0);
    ASSERT_OK(b->flush(s));
    while (!b->done(s, n))
        sched_yield();
    expect(s, x, 1, 0);
    b->kernel_destroy(b, k);
    release(x);
}

/* ---- Kernels that are held back ---- */

Test(cuda_driver, what_depends_on_kernels_hands_them_over) {
    jitc_stream *s = stream[0];
    jitc_kernel *k = make_kernel(0);
    uint32_t fives[N];
    uint64_t number;
    void *x = make_ramp(s), *y = alloc(4 * N), *z = alloc(4 * N);
    launch(s, k, y, x, 2, 1);
    expect(s, y, 2, 1); /* a download */
    launch(s, k, y, x, 3, 1);
    ASSERT_OK(b->copy(s, z, y, 4 * N, &number));
    note(s, number);
    launch(s, k, y, x, 4, 1); /* the copy was before */
    expect(s, z, 3, 1);
    for (int i = 0; i < N; ++i)
        fives[i] = 5;
    launch(s, k, y, x, 5, 0);
    upload(s, x, fives, sizeof fives); /* the kernel was before */
    expect(s, y, 5, 0);
    ASSERT_OK(b->wait(s, launch(s, k, y, x, 6, 0)));
    expect(s, y, 0, 30);
    b->kernel_destroy(b, k);
    release(x), release(y), release(z);
}

/* Nobody would hand them over later. */
Test(cuda_driver, who_waits_for_kernels_hands_them_over) {
    jitc_stream *s = stream[0];
    foreign f = foreign_find();
    jitc_event *event;
    uint32_t *copy;
    atomic_int called = 0;
    if (!w.calls)
        cr_skip_test("this wants the simulated driver");
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s), *y = alloc(4 * N);
    foreign_enter(0);
    CUstream other = foreign_stream(CU_STREAM_NON_BLOCKING);
    CU_OK(f.MemHostAlloc((void **) &copy, 4 * N, 0));
    ASSERT_OK(b->event_create(b, 0, false, NULL, &event));

    uint64_t n = launch(s, k, y, x, 1, 1); /* the CPU */
    ASSERT_OK(b->wait(s, n));
    cr_assert(b->done(s, n));
    uint64_t launched = foreign_launches(&w); /* a call */
    launch(s, k, y, x, 1, 2);
    ASSERT_OK(b->call(s, be_counted, &called, &n));
    note(s, n);
    cr_assert_eq(foreign_launches(&w), launched + 1);
    ASSERT_OK(b->wait(s, n));
    launch(s, k, y, x, 2, 1); /* an event */
    ASSERT_OK(b->event_record(event, s));
    ASSERT_OK(b->event_stream_wait(stream[1], event));
    expect(stream[1], y, 2, 1);
    launch(s, k, y, x, 3, 1); /* a stream of another library */
    ASSERT_OK(b->stream_release(s, (intptr_t) other));
    CU_OK(f.MemcpyDtoHAsync(copy, (CUdeviceptr) (uintptr_t) y, 4 * N, other));
    CU_OK(f.StreamSynchronize(other));
    for (uint32_t i = 0; i < N; ++i)
        cr_assert_eq(copy[i], 3 * i + 1, "element %u: %u", i, copy[i]);

    b->event_destroy(event);
    CU_OK(f.MemFreeHost(copy));
    CU_OK(f.StreamDestroy(other));
    foreign_leave(0);
    b->kernel_destroy(b, k);
    release(x), release(y);
}

Test(cuda_driver, very_many_kernels_are_handed_over_in_between) {
    jitc_stream *s = stream[0];
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s);
    for (int i = 0; i < 3000; ++i)
        launch(s, k, x, x, 1, 1);
    expect(s, x, 1, 3000);
    b->kernel_destroy(b, k);
    release(x);
}

/* ---- Order between streams ---- */

Test(cuda_driver, a_stream_waits_for_another_on_the_device) {
    jitc_stream *s = stream[0], *t = stream[1];
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s), *y = alloc(4 * N), *z = alloc(4 * N);
    ASSERT_OK(b->wait(s, jitc_load_relaxed(&s->queued)));
    be_slow(5000);
    for (uint32_t round = 1; round < 8; ++round) {
        uint64_t n = launch(s, k, y, x, round, 1); /* held back */
        ASSERT_OK(b->stream_wait(t, s, n));
        n = launch(t, k, z, y, 1, 1);
        ASSERT_OK(b->stream_wait(s, t, n)); /* before y is written anew */
        ASSERT_OK(b->stream_wait(s, s, n)); /* itself: nothing */
        expect(t, z, round, 2);
    }
    b->kernel_destroy(b, k);
    release(x), release(y), release(z);
}

/* A stream that waits may hold kernels back, which the other one waits for in its turn. */
Test(cuda_driver, streams_that_wait_for_each_other_in_turn_do_not_hang) {
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(stream[0]);
    be_slow(200);
    for (int i = 1; i <= 300; ++i) {
        jitc_stream *s = stream[i % STREAMS], *before = stream[(i - 1) % STREAMS];
        ASSERT_OK(b->stream_wait(s, before, jitc_load_relaxed(&before->queued)));
        launch(s, k, x, x, 1, 1);
    }
    expect(stream[300 % STREAMS], x, 1, 300);
    b->kernel_destroy(b, k);
    release(x);
}

/* What was queued behind number n is not waited for, as it may take long: there is an event behind
 * each flush, and none has to be recorded later. */
Test(cuda_driver, a_wait_for_a_number_is_not_one_for_what_follows) {
    jitc_stream *s = stream[0], *t = stream[1];
    if (!w.calls)
        cr_skip_test("this wants the simulated driver");
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s), *y = alloc(4 * N), *z = alloc(4 * N);
    expect(s, x, 1, 0), expect(t, x, 1, 0); /* both have waited for new memory, if they have to */
    be_slow(5000);
    uint64_t n = launch(s, k, y, x, 2, 0);
    ASSERT_OK(b->flush(s));
    launch(s, k, z, x, 3, 0);
    ASSERT_OK(b->flush(s));
    uint64_t recorded = calls("cuEventRecord"), waits = calls("cuStreamWaitEvent");
    ASSERT_OK(b->stream_wait(t, s, n));
    cr_assert_eq(calls("cuEventRecord"), recorded);
    cr_assert_eq(calls("cuStreamWaitEvent"), waits + 1);
    ASSERT_OK(b->stream_wait(t, s, n)); /* known */
    cr_assert_eq(calls("cuStreamWaitEvent"), waits + 1);
    expect(t, y, 2, 0);
    ASSERT_OK(b->wait(s, n));
    ASSERT_OK(b->stream_wait(t, s, n)); /* over: nothing to wait for */
    cr_assert_eq(calls("cuStreamWaitEvent"), waits + 1);
    expect(s, z, 3, 0);
    b->kernel_destroy(b, k);
    release(x), release(y), release(z);
}

/* ---- Copies ---- */

static uint8_t pattern(size_t i, unsigned seed) {
    return (uint8_t) ((i * 2654435761u >> 13) + seed);
}

Test(cuda_driver, copies_of_all_sizes) {
    static const size_t sizes[] = {1,     2,      255,    256,    257,     65535,      65536,
                                   65537, 524287, 524288, 524289, 1048577, 4194304 + 3};
    jitc_stream *s = stream[0];
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; ++k) {
        size_t n = sizes[k];
        uint8_t *data = malloc(n), *got = calloc(1, n);
        void *x = alloc(n);
        for (size_t i = 0; i < n; ++i)
            data[i] = pattern(i, (unsigned) k);
        upload(s, x, data, n);
        memset(data, 0, n); /* the source may change */
        ASSERT_OK(b->download(s, got, x, n));
        for (size_t i = 0; i < n; ++i)
            cr_assert_eq(got[i], pattern(i, (unsigned) k), "byte %zu of %zu", i, n);
        release(x);
        free(data), free(got);
    }
}

/* The staging memory is used up and used again while kernels run. */
Test(cuda_driver, many_uploads_behind_a_slow_kernel) {
    enum { COUNT = 40, BYTES = 100000 };
    jitc_stream *s = stream[0];
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s), *y[COUNT];
    uint8_t *data = malloc(BYTES), *got = malloc(BYTES);
    be_slow(1000);
    for (unsigned j = 0; j < COUNT; ++j) {
        y[j] = alloc(BYTES);
        launch(s, k, x, x, 1, 1);
        for (size_t i = 0; i < BYTES; ++i)
            data[i] = pattern(i, j);
        upload(s, y[j], data, BYTES);
    }
    for (unsigned j = 0; j < COUNT; ++j) {
        ASSERT_OK(b->download(s, got, y[j], BYTES));
        for (size_t i = 0; i < BYTES; ++i)
            cr_assert_eq(got[i], pattern(i, j), "byte %zu of upload %u", i, j);
        release(y[j]);
    }
    expect(s, x, 1, COUNT);
    b->kernel_destroy(b, k);
    release(x);
    free(data), free(got);
}

/* The first piece of pinned memory has to do where there is no second one. */
Test(cuda_driver, uploads_get_along_with_less_pinned_memory) {
    enum { BYTES = 1 << 19, UPLOADS = 4 };
    static uint8_t data[BYTES], got[BYTES];
    jitc_stream *s = stream[0];
    if (!w.fail)
        cr_skip_test("this wants the simulated driver");
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s), *y = alloc(BYTES);
    be_slow(10000);
    launch(s, k, x, x, 1, 1);
    for (unsigned j = 0; j < UPLOADS; ++j) {
        w.fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
        for (size_t i = 0; i < BYTES; ++i)
            data[i] = pattern(i, j);
        upload(s, y, data, BYTES);
    }
    w.fail(NULL, 0, 0);
    ASSERT_OK(b->download(s, got, y, BYTES));
    for (size_t i = 0; i < BYTES; ++i)
        cr_assert_eq(got[i], pattern(i, UPLOADS - 1), "byte %zu", i);
    b->kernel_destroy(b, k);
    release(x), release(y);
}

/* ---- Calls ---- */

typedef struct called {
    atomic_int *count;
    int before; /* of the calls of this stream, that have been made */
    pthread_t caller;
    jitc_stream *stream;
    bool done_before; /* what b->done() said when it was called */
    uint64_t after;   /* number of the work before */
} called;

static void be_called(void *context) {
    called *c = context;
    c->caller = pthread_self();
    c->done_before = b->done(c->stream, c->after);
    c->before = jitc_add_acq_rel(c->count, 1);
}

Test(cuda_driver, calls_come_after_the_work_before_and_in_order) {
    enum { COUNT = 20 };
    static called c[STREAMS][COUNT];
    static atomic_int count[STREAMS];
    uint64_t number = 0;
    jitc_kernel *k = make_kernel(0);
    void *x[STREAMS];
    for (int t = 0; t < STREAMS; ++t)
        x[t] = make_ramp(stream[t]);
    be_slow(300);
    for (int i = 0; i < COUNT; ++i)
        for (int t = 0; t < STREAMS; ++t) {
            jitc_stream *s = stream[t];
            uint64_t n = launch(s, k, x[t], x[t], 1, 1);
            c[t][i] = (called) {.count = &count[t], .stream = s, .after = n};
            ASSERT_OK(b->call(s, be_called, &c[t][i], &number));
            cr_assert_eq(number, n + 1);
            note(s, number);
        }
    for (int t = 0; t < STREAMS; ++t) {
        ASSERT_OK(b->wait(stream[t], jitc_load_relaxed(&stream[t]->queued)));
        cr_assert_eq(count[t], COUNT, "a wait for a call is over when it has been made");
        for (int i = 0; i < COUNT; ++i) {
            cr_assert(c[t][i].done_before && c[t][i].before == i);
            cr_assert_not(pthread_equal(c[t][i].caller, pthread_self()));
        }
        expect(stream[t], x[t], 1, COUNT);
        release(x[t]);
    }
    b->kernel_destroy(b, k);
}

static void wait_for_gate(void *context) {
    atomic_bool *open = context;
    while (!jitc_load_acquire(open)) /* pairs with the test */
        sched_yield();
}

Test(cuda_driver, a_call_is_not_done_before_its_function_returns) {
    atomic_bool open = false;
    uint64_t number;
    jitc_stream *s = stream[0];
    void *x = make_ramp(s);
    uint64_t before = jitc_load_relaxed(&s->queued);
    ASSERT_OK(b->call(s, wait_for_gate, &open, &number));
    note(s, number);
    expect(s, x, 1, 0); /* the device goes on */
    cr_assert(b->done(s, before));
    cr_assert_not(b->done(s, number));
    jitc_store_release(&open, true); /* pairs with wait_for_gate */
    ASSERT_OK(b->wait(s, number));
    cr_assert(b->done(s, number));
    release(x);
}

/* ---- Threads ---- */

typedef struct watcher {
    pthread_t thread;
    atomic_bool *stop;
    jitc_stream *stream;
    unsigned looks;
} watcher;

/* Anybody may ask, wait and flush while the owner queues. */
static void *watch(void *context) {
    watcher *t = context;
    while (!jitc_load_acquire(t->stop)) {                   /* pairs with the test */
        uint64_t n = jitc_load_acquire(&t->stream->queued); /* pairs with note */
        if (t->looks % 3 == 0)
            ASSERT_OK(b->wait(t->stream, n));
        else if (t->looks % 3 == 1)
            ASSERT_OK(b->flush(t->stream));
        if (b->done(t->stream, n))
            cr_assert(b->done(t->stream, n / 2));
        ++t->looks;
    }
    return NULL;
}

Test(cuda_driver, others_look_while_a_stream_is_used, .timeout = 120) {
    enum { WATCHERS = 2, ROUNDS = 300 };
    jitc_stream *s = stream[0], *t = stream[1];
    watcher watchers[WATCHERS];
    atomic_bool stop = false;
    atomic_int count = 0;
    uint64_t number;
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s);
    for (int i = 0; i < WATCHERS; ++i) {
        watchers[i] = (watcher) {.stop = &stop, .stream = i % 2 ? t : s};
        cr_assert_eq(pthread_create(&watchers[i].thread, NULL, watch, &watchers[i]), 0);
    }
    for (int i = 0; i < ROUNDS; ++i) {
        for (int j = 0; j < i % 5; ++j)
            launch(s, k, x, x, 1, 1);
        ASSERT_OK(b->stream_wait(t, s, jitc_load_relaxed(&s->queued)));
        launch(t, k, x, x, 1, 1);
        ASSERT_OK(b->call(t, be_counted, &count, &number));
        note(t, number);
        ASSERT_OK(b->stream_wait(s, t, number));
    }
    expect(s, x, 1, ROUNDS + ROUNDS / 5 * 10);
    jitc_store_release(&stop, true); /* pairs with watch */
    for (int i = 0; i < WATCHERS; ++i)
        pthread_join(watchers[i].thread, NULL);
    ASSERT_OK(b->wait(t, number));
    cr_assert_eq(count, ROUNDS);
    b->kernel_destroy(b, k);
    release(x);
}
