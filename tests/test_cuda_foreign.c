/* test_cuda_foreign.c: order with streams of other contexts, devices, threads and of older drivers;
 * and whatever fails, the thread gets its context and its capture mode back. */
#include "cuda_foreign.h"
#include <jit/cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 1000 };

static cuda_world w;
static foreign f;
static gate g;

static void start(void) {
    w = cuda_world_simulated();
    f = foreign_find();
    support_init();
}
TestSuite(cuda_foreign, .init = start, .fini = support_shutdown);

static void push(CUcontext c) {
    CU_OK(f.CtxPushCurrent(c));
}
static void pop(void) {
    CUcontext c;
    CU_OK(f.CtxPopCurrent(&c));
}

/* ---- Other contexts and devices ---- */

/* A stream that is not of the calling thread's context, nor of our device's. */
typedef struct distant {
    CUcontext context;
    CUstream stream;
} distant;

static distant make_distant(int device, bool primary) {
    distant d;
    if (primary) {
        CU_OK(f.CtxRetain(&d.context, device));
        push(d.context);
    } else {
        CU_OK(f.CtxCreate(&d.context, 0, device));
    }
    d.stream = foreign_stream(CU_STREAM_NON_BLOCKING);
    pop();
    return d;
}

static void end_distant(distant *d, int device, bool primary) {
    push(d->context);
    CU_OK(f.StreamDestroy(d->stream));
    pop();
    if (primary)
        CU_OK(f.CtxRelease(device));
    else
        CU_OK(f.CtxDestroy(d->context));
}

static bool is_done(const distant *d) {
    push(d->context);
    foreign_settle();
    CUresult result = f.StreamQuery(d->stream);
    pop();
    cr_assert(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY, "%d", result);
    return result == CUDA_SUCCESS;
}

/* With a gate closed those of x + x and x + 1 could not be loaded. */
static void load_kernels(void) {
    jit_var x = cuda_world_ramp(SIZE), one = jit_f32(JIT_CUDA, 1);
    jit_var y = jit_add(x, x), z = jit_add(x, one);
    ASSERT_OK(jit_var_eval(y));
    ASSERT_OK(jit_var_eval(z));
    ASSERT_OK(jit_sync_thread());
    jit_unref(x), jit_unref(one), jit_unref(y), jit_unref(z);
}

static void nothing(void *context) {
    (void) context;
}

static void expect_that_it_waits_for_us(const distant *d, const char *what) {
    foreign_enter(jit_device(JIT_CUDA));
    foreign_close(&g, jit_cuda_stream());
    foreign_leave(jit_device(JIT_CUDA));
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) d->stream));
    push(d->context);
    CU_OK(f.LaunchHostFunc(d->stream, nothing, NULL));
    pop();
    cr_assert_not(is_done(d), "%s", what);
    foreign_open(&g);
    push(d->context);
    CU_OK(f.StreamSynchronize(d->stream));
    pop();
}

static void expect_that_we_wait_for_it(const distant *d, const char *what) {
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    ASSERT_OK(jit_sync_thread());
    push(d->context);
    foreign_close(&g, d->stream);
    pop();
    ASSERT_OK(jit_cuda_wait_stream((uintptr_t) d->stream));
    ASSERT_OK(jit_var_eval(y));
    distant ours = {jit_cuda_context(), jit_cuda_stream()};
    cr_assert_not(is_done(&ours), "%s", what);
    foreign_open(&g);
    cuda_world_expect(y, SIZE, 2, 0);
    jit_unref(x), jit_unref(y);
}

static void expect_order(int ours, int theirs, bool primary) {
    char what[64];
    snprintf(what, sizeof what, "our device %d, their %d, %s context", ours, theirs,
             primary ? "primary" : "another");
    ASSERT_OK(jit_set_device(JIT_CUDA, ours));
    load_kernels();
    distant d = make_distant(theirs, primary);
    expect_that_it_waits_for_us(&d, what);
    expect_that_we_wait_for_it(&d, what);
    expect_that_we_wait_for_it(&d, what);
    end_distant(&d, theirs, primary);
}

Test(cuda_foreign, streams_of_other_contexts_and_devices) {
    for (int ours = 0; ours < 2; ++ours)
        for (int theirs = 0; theirs < 2; ++theirs) {
            expect_order(ours, theirs, true);
            expect_order(ours, theirs, false);
        }
}

/* A stream of a device that we do not use reads an array of ours, and writes it. */
static void expect_access(int ours, int theirs, bool primary) {
    float *copy;
    void *address;
    ASSERT_OK(jit_set_device(JIT_CUDA, ours));
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x), z;
    distant d = make_distant(theirs, primary);
    ASSERT_OK(jit_data(y, &address));
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) d.stream));
    push(d.context);
    CU_OK(f.MemHostAlloc((void **) &copy, SIZE * sizeof *copy, 0));
    CU_OK(f.MemcpyDtoHAsync(copy, (uintptr_t) address, SIZE * sizeof *copy, d.stream));
    CU_OK(f.StreamSynchronize(d.stream));
    for (int i = 0; i < SIZE; ++i) {
        cr_assert_eq(copy[i], 2 * (float) i);
        copy[i] += 5;
    }
    CU_OK(f.MemcpyHtoDAsync((uintptr_t) address, copy, SIZE * sizeof *copy, d.stream));
    pop();
    ASSERT_OK(jit_cuda_wait_stream((uintptr_t) d.stream));
    z = jit_add(y, y);
    cuda_world_expect(z, SIZE, 4, 10);
    push(d.context);
    CU_OK(f.MemFreeHost(copy));
    pop();
    end_distant(&d, theirs, primary);
    jit_unref(x), jit_unref(y), jit_unref(z);
}

/* And later, in contexts that are made anew, and when we use both. */
Test(cuda_foreign, streams_of_another_device_read_and_write_our_memory) {
    for (int i = 0; i < 6; ++i)
        expect_access(0, 1, i < 3);
    for (int i = 0; i < 6; ++i)
        expect_access(i % 2, (i + 1) % 2, i < 3);
}

/* An event of the stream's own context is kept; of another context it is made and ended at once. */
Test(cuda_foreign, no_event_is_left_in_another_context) {
    distant d = make_distant(0, false);
    ASSERT_OK(jit_cuda_wait_stream((uintptr_t) d.stream));
    unsigned events = w.alive("events");
    for (int i = 0; i < 5; ++i)
        ASSERT_OK(jit_cuda_wait_stream((uintptr_t) d.stream));
    cr_assert_eq(w.alive("events"), events);
    end_distant(&d, 0, false);
}

/* What is no stream, as far as the driver can tell. */
Test(cuda_foreign, a_handle_that_names_no_stream) {
    load_kernels();
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    foreign_enter(0);
    foreign_close(&g, CU_STREAM_LEGACY); /* else there may be nothing left to wait for */
    foreign_leave(0);
    ASSERT_OK(jit_var_eval(y));
    distant d = make_distant(0, true);
    end_distant(&d, 0, true);
    cr_assert_eq(jit_cuda_sync_stream((uintptr_t) d.stream), JIT_INVALID_ARGUMENT);
    cr_assert(strstr(jit_error(), "is no CUstream"), "%s", jit_error());
    jit_error_clear();
    cr_assert_eq(jit_cuda_wait_stream((uintptr_t) d.stream), JIT_INVALID_ARGUMENT);
    cr_assert(strstr(jit_error(), "is no CUstream"), "%s", jit_error());
    jit_error_clear();
    foreign_open(&g);
    cuda_world_expect(y, SIZE, 2, 0);
    jit_unref(x), jit_unref(y);
    jit_shutdown();
    cr_assert(w.faults() > 0); /* the simulated driver has noted it */
    _exit(0);
}

/* ---- The thread's context and capture mode ---- */

typedef struct thread_state {
    CUcontext context;
    int mode;
} thread_state;

/* A call that was made to fail is made again. */
static thread_state look(void) {
    thread_state s;
    while (f.CtxGetCurrent(&s.context) == CUDA_ERROR_UNKNOWN) {
    }
    s.mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    while (f.ExchangeCaptureMode(&s.mode) == CUDA_ERROR_UNKNOWN) {
    }
    int mode = s.mode;
    while (f.ExchangeCaptureMode(&mode) == CUDA_ERROR_UNKNOWN) {
    }
    return s;
}

static jit_event *event, *wrapped, *later;

/* Streams of the primary context and of another one, and what is current in the thread. */
static distant near, far, current;

static jit_status call(int i) {
    bool done;
    double ms;
    switch (i) {
        case 0: return jit_cuda_sync_stream((uintptr_t) JIT_STREAM_LEGACY);
        case 1: return jit_cuda_sync_stream((uintptr_t) JIT_STREAM_PER_THREAD);
        case 2: return jit_cuda_sync_stream((uintptr_t) near.stream);
        case 3: return jit_cuda_sync_stream((uintptr_t) far.stream);
        case 4: return jit_cuda_sync_stream(0);
        case 5: return jit_cuda_wait_stream(0);
        case 6: return jit_cuda_wait_stream((uintptr_t) near.stream);
        case 7: return jit_cuda_wait_stream((uintptr_t) far.stream);
        case 8: return jit_event_record(event);
        case 9: return jit_event_query(event, &done);
        case 10: return jit_event_stream_wait(event);
        case 11: return jit_event_record(later);
        case 12: return jit_event_wait(later);
        case 13: return jit_event_elapsed(event, later, &ms);
        case 14: return jit_event_query(wrapped, &done);
        case 15: return jit_sync_device();
        default: return jit_trim();
    }
}
enum { CALLS = 17, WAITS = 4 /* the first that waits for the device */ };

/* Let the n-th call of a function fail. False if fewer were made. */
static bool fail_one(const char *name, int n) {
    uint64_t calls = w.calls(name);
    jit_var x = cuda_world_ramp(SIZE), one = jit_f32(JIT_CUDA, 1);
    push(near.context);
    foreign_close(&g, CU_STREAM_LEGACY);
    pop();
    w.fail(name, n, CUDA_ERROR_UNKNOWN);
    for (int i = 0; i < CALLS; ++i) {
        if (i == WAITS) /* until then there is work for others to wait for */
            foreign_open(&g);
        jit_var y = jit_add(x, one);
        jit_schedule(y);
        jit_eval();
        jit_status status = call(i);
        thread_state after = look();
        cr_assert(status == JIT_OK || jit_error_status() != JIT_OK);
        cr_assert_eq(after.context, current.context, "call %d, %d of %s: context", i, n, name);
        cr_assert_eq(after.mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "call %d, %d of %s: mode %d",
                     i, n, name, after.mode);
        jit_unref(y);
    }
    w.fail(NULL, 0, 0);
    jit_unref(x), jit_unref(one);
    jit_error_clear();
    return w.calls(name) - calls >= (uint64_t) n;
}

/* Those that wait, order and look; what launches and copies is in test_cuda_failure.c. */
static const char *const failing[] = {"cuStreamIsCapturing",
                                      "cuStreamGetCtx",
                                      "cuEventRecord",
                                      "cuStreamWaitEvent",
                                      "cuEventQuery",
                                      "cuEventSynchronize",
                                      "cuStreamWaitEvent_ptsz",
                                      "cuEventElapsedTime_v2",
                                      "cuCtxGetCurrent",
                                      "cuCtxPushCurrent_v2",
                                      "cuCtxPopCurrent_v2",
                                      "cuEventCreate",
                                      "cuThreadExchangeStreamCaptureMode"};

Test(cuda_foreign, whatever_fails_the_thread_gets_its_context_and_mode_back, .timeout = 120) {
    near = make_distant(0, true), far = make_distant(0, false);
    current = make_distant(1, true);
    CUevent native;
    push(near.context);
    CU_OK(f.EventCreate(&native, CU_EVENT_DEFAULT));
    pop();
    ASSERT_OK(jit_event_create(JIT_CUDA, true, &event));
    ASSERT_OK(jit_event_create(JIT_CUDA, true, &later));
    ASSERT_OK(jit_cuda_event_wrap(native, &wrapped));
    load_kernels();
    push(current.context); /* another library's, of another device */
    int mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    CU_OK(f.ExchangeCaptureMode(&mode));
    for (size_t i = 0; i < sizeof failing / sizeof *failing; ++i) {
        int n = 1;
        while (fail_one(failing[i], n))
            n += n < 10 ? 1 : 7;
        cr_assert_gt(n, 1, "%s is never called", failing[i]);
    }
    pop();
    jit_event_destroy(event), jit_event_destroy(later), jit_event_destroy(wrapped);
    push(near.context);
    CU_OK(f.EventDestroy(native));
    pop();
    end_distant(&current, 1, true);
    end_distant(&far, 0, false);
    end_distant(&near, 0, true);
}

/* ---- Threads ---- */

typedef struct worker {
    pthread_t thread;
    float offset;
    int wrong;
} worker;

/* Computes, and lets another library's stream of its own read, and write back. */
static void *compute_and_share(void *context) {
    worker *me = context;
    void *address;
    float *copy;
    foreign_enter(0);
    CUstream s = foreign_stream(CU_STREAM_NON_BLOCKING);
    CU_OK(f.MemHostAlloc((void **) &copy, SIZE * sizeof *copy, 0));
    jit_var x = cuda_world_ramp(SIZE);
    for (int round = 0; round < 10; ++round) {
        jit_var c = jit_f32(JIT_CUDA, me->offset + (float) round), y = jit_add(x, c);
        me->wrong += jit_data(y, &address) != JIT_OK;
        me->wrong += jit_cuda_sync_stream((uintptr_t) s) != JIT_OK;
        CU_OK(f.MemcpyDtoHAsync(copy, (uintptr_t) address, SIZE * sizeof *copy, s));
        me->wrong += jit_cuda_wait_stream((uintptr_t) s) != JIT_OK; /* before y's memory goes */
        jit_unref(y), jit_unref(c);
        CU_OK(f.StreamSynchronize(s));
        for (int i = 0; i < SIZE; ++i)
            me->wrong += copy[i] != (float) i + me->offset + (float) round;
    }
    jit_unref(x);
    CU_OK(f.MemFreeHost(copy));
    CU_OK(f.StreamDestroy(s));
    foreign_leave(0);
    return NULL;
}

Test(cuda_foreign, eight_threads_at_once, .timeout = 60) {
    enum { THREADS = 8 };
    worker all[THREADS];
    w.seed(7);
    for (int i = 0; i < THREADS; ++i) {
        all[i] = (worker) {.offset = (float) (100 * i)};
        cr_assert_eq(pthread_create(&all[i].thread, NULL, compute_and_share, &all[i]), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(all[i].thread, NULL);
        cr_assert_eq(all[i].wrong, 0, "thread %d: %d", i, all[i].wrong);
    }
}

/* ---- A driver without cuStreamWaitEvent_ptsz ---- */

Test(cuda_foreign_old, a_driver_without_the_ptsz_function_gets_the_handle_2) {
    foreign_hide_function("cuStreamWaitEvent_ptsz");
    w = cuda_world_simulated();
    support_init();
    f = foreign_find();
    load_kernels();
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    foreign_enter(0);
    foreign_close(&g, jit_cuda_stream());
    ASSERT_OK(jit_var_eval(y));
    uint64_t waits = w.calls("cuStreamWaitEvent");
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) JIT_STREAM_PER_THREAD));
    cr_assert_eq(w.calls("cuStreamWaitEvent"), waits + 1);
    CU_OK(f.LaunchHostFunc(CU_STREAM_PER_THREAD, nothing, NULL));
    foreign_settle();
    cr_assert_eq(f.StreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
    foreign_open(&g);
    CU_OK(f.StreamSynchronize(CU_STREAM_PER_THREAD));
    foreign_leave(0);
    cuda_world_expect(y, SIZE, 2, 0);
    jit_unref(x), jit_unref(y);
    support_shutdown();
}
