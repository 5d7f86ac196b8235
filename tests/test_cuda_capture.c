/* test_cuda_capture.c: another library captures a stream into a graph: what we do beside it leaves
 * the capture alone, and what cannot be done in it is refused before it is touched. */
#include "cuda_foreign.h"
#include <jit/cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 1000 };

static cuda_world w;
static foreign f;
static gate g;

/* With a gate closed that of x + x could not be loaded. */
static void load_kernel(void) {
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    ASSERT_OK(jit_var_eval(y));
    ASSERT_OK(jit_sync_thread());
    jit_unref(x), jit_unref(y);
}

static void start(void) {
    w = cuda_world_simulated();
    f = foreign_find();
    support_init();
    foreign_enter(0);
    load_kernel();
}
static void end(void) {
    foreign_leave(0);
    support_shutdown();
}
TestSuite(cuda_capture, .init = start, .fini = end);

static const int modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                            CU_STREAM_CAPTURE_MODE_RELAXED};
enum { MODES = 3 };

static void begin_capture(CUstream s, int mode) {
    CU_OK(f.StreamBeginCapture(s, mode));
    CU_OK(f.LaunchHostFunc(s, free, NULL));
}

/* The capture is as good as it was. */
static void end_capture(CUstream s, const char *what) {
    int state = 0;
    CUgraph graph;
    CU_OK(f.StreamIsCapturing(s, &state));
    cr_assert_eq(state, CU_STREAM_CAPTURE_STATUS_ACTIVE, "%s: %d", what, state);
    cr_assert_eq(f.StreamEndCapture(s, &graph), CUDA_SUCCESS, "%s", what);
    CU_OK(f.GraphDestroy(graph));
}

static void expect_unsupported(jit_status status, const char *what) {
    cr_assert_eq(status, JIT_UNSUPPORTED, "%s: %s", what, jit_status_name(status));
    cr_assert(strstr(jit_error(), "captured into a graph"), "%s: %s", what, jit_error());
    jit_error_clear();
}

/* ---- A stream that is captured and named ---- */

static void name_captured(CUstream s, int mode, const char *what) {
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    foreign_close(&g, jit_cuda_stream());
    ASSERT_OK(jit_var_eval(y));
    begin_capture(s, mode);
    expect_unsupported(jit_cuda_sync_stream((uintptr_t) s), what);
    expect_unsupported(jit_cuda_wait_stream((uintptr_t) s), what);
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) JIT_STREAM_NONE));
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) JIT_STREAM_LEGACY));
    foreign_open(&g);
    ASSERT_OK(jit_sync_thread());
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) s)); /* nothing is to be waited for */
    expect_unsupported(jit_cuda_wait_stream((uintptr_t) s), what);
    end_capture(s, what);
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) s));
    ASSERT_OK(jit_cuda_wait_stream((uintptr_t) s));
    cuda_world_expect(y, SIZE, 2, 0);
    jit_unref(x), jit_unref(y);
}

Test(cuda_capture, a_captured_stream_is_not_touched) {
    CUstream blocking = foreign_stream(CU_STREAM_DEFAULT);
    CUstream other = foreign_stream(CU_STREAM_NON_BLOCKING);
    for (int m = 0; m < MODES; ++m) {
        name_captured(other, modes[m], "non-blocking");
        name_captured(blocking, modes[m], "blocking");
        name_captured(CU_STREAM_PER_THREAD, modes[m], "per thread");
    }
    CU_OK(f.StreamDestroy(blocking));
    CU_OK(f.StreamDestroy(other));
}

/* The streams of a capture that has failed are no others. */
Test(cuda_capture, a_capture_that_is_invalid_already) {
    CUstream s = foreign_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph;
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    foreign_close(&g, jit_cuda_stream());
    ASSERT_OK(jit_var_eval(y));
    begin_capture(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cr_assert_eq(f.StreamQuery(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_unsupported(jit_cuda_sync_stream((uintptr_t) s), "invalid");
    expect_unsupported(jit_cuda_wait_stream((uintptr_t) s), "invalid");
    cr_assert_eq(f.StreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    foreign_open(&g);
    cuda_world_expect(y, SIZE, 2, 0);
    jit_unref(x), jit_unref(y);
    CU_OK(f.StreamDestroy(s));
}

/* An event that was recorded in a capture would take our stream into it. */
Test(cuda_capture, an_event_of_a_capture_does_not_take_our_stream_in) {
    CUstream s = foreign_stream(CU_STREAM_NON_BLOCKING), ours = jit_cuda_stream();
    CUevent native;
    jit_event *event;
    int state;
    CU_OK(f.EventCreate(&native, CU_EVENT_DISABLE_TIMING));
    ASSERT_OK(jit_cuda_event_wrap(native, &event));
    ASSERT_OK(jit_event_stream_wait(event));
    for (int m = 0; m < MODES; ++m) {
        begin_capture(s, modes[m]);
        CU_OK(f.EventRecord(native, s));
        expect_unsupported(jit_event_stream_wait(event), "wait");
        expect_unsupported(jit_event_stream_wait(event), "wait again");
        CU_OK(f.StreamIsCapturing(ours, &state));
        cr_assert_eq(state, CU_STREAM_CAPTURE_STATUS_NONE);
        end_capture(s, "event");
        CU_OK(f.EventRecord(native, s));
        ASSERT_OK(jit_event_stream_wait(event));
    }
    jit_event_destroy(event);
    CU_OK(f.EventDestroy(native));
    CU_OK(f.StreamDestroy(s));
}

/* ---- Everything else, beside a capture ---- */

static void count_call(void *count) {
    jitc_add_acq_rel((atomic_int *) count, 1); /* pairs with do_everything */
}

static void use_events(void) {
    jit_event *a, *b;
    bool done;
    double ms;
    ASSERT_OK(jit_event_create(JIT_CUDA, true, &a));
    ASSERT_OK(jit_event_create(JIT_CUDA, true, &b));
    ASSERT_OK(jit_event_record(a));
    ASSERT_OK(jit_event_stream_wait(a));
    ASSERT_OK(jit_event_query(a, &done));
    ASSERT_OK(jit_event_record(b));
    ASSERT_OK(jit_event_wait(b));
    ASSERT_OK(jit_event_elapsed(a, b, &ms));
    jit_event_destroy(a);
    jit_event_destroy(b);
}

/* Memory, modules, graphs, copies, waits, calls, streams: of a device, in this thread. */
static void do_everything(CUstream other) {
    atomic_int count = 0;
    w.kernel_time_us(500);
    jit_var x = cuda_world_ramp(SIZE), large = cuda_world_ramp(1 << 18);
    for (int round = 0; round < 3; ++round) {
        jit_var y = jit_add(x, x), z = jit_sqrt(large), i = jit_counter(JIT_CUDA, SIZE);
        jit_var v = jit_gather(y, i, 0), u = jit_scatter(v, jit_f32(JIT_CUDA, 0), i, 0);
        ASSERT_OK(jit_schedule(z));
        ASSERT_OK(jit_var_eval(u));
        ASSERT_OK(jit_cuda_sync_stream((uintptr_t) other));
        ASSERT_OK(jit_cuda_wait_stream((uintptr_t) other));
        ASSERT_OK(jit_cuda_sync_stream((uintptr_t) JIT_STREAM_PER_THREAD));
        ASSERT_OK(jit_cuda_sync_stream(0));
        ASSERT_OK(jit_call(JIT_CUDA, count_call, &count));
        use_events();
        cuda_world_expect(y, SIZE, 2, 0);
        jit_unref(y), jit_unref(z), jit_unref(i), jit_unref(v), jit_unref(u);
        ASSERT_OK(jit_trim());
        ASSERT_OK(jit_cache_clear_memory());
    }
    jit_unref(x), jit_unref(large);
    ASSERT_OK(jit_sync_device());
    cr_assert_eq(jitc_load_acquire(&count), 3); /* pairs with count_call */
}

typedef struct companion {
    CUstream other;
    int device;
} companion;

static void *do_everything_in_thread(void *context) {
    companion *c = context;
    ASSERT_OK(jit_set_device(JIT_CUDA, c->device));
    do_everything(c->other);
    return NULL;
}

static void in_thread(companion c) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, do_everything_in_thread, &c), 0);
    pthread_join(thread, NULL);
}

Test(cuda_capture, nothing_that_we_do_ends_a_capture, .timeout = 60) {
    CUstream s = foreign_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = foreign_stream(CU_STREAM_NON_BLOCKING);
    for (int m = 0; m < MODES; ++m) {
        begin_capture(s, modes[m]);
        do_everything(other);
        end_capture(s, "this thread");
        begin_capture(s, modes[m]);
        in_thread((companion) {other, 0});
        end_capture(s, "another thread");
        begin_capture(s, modes[m]);
        in_thread((companion) {other, 1});
        end_capture(s, "another device");
    }
    CU_OK(f.StreamDestroy(s));
    CU_OK(f.StreamDestroy(other));
}

/* Opening and closing the devices, too. */
Test(cuda_capture, nor_do_start_and_shutdown) {
    CUstream s = foreign_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = foreign_stream(CU_STREAM_NON_BLOCKING);
    jit_shutdown();
    begin_capture(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
    for (int device = 0; device < 2; ++device) {
        support_init();
        ASSERT_OK(jit_set_device(JIT_CUDA, device));
        jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
        ASSERT_OK(jit_var_eval(y)); /* is still running at the end */
        jit_unref(x), jit_unref(y);
        support_shutdown();
    }
    end_capture(s, "shutdown");
    support_init();
    CU_OK(f.StreamDestroy(s));
    CU_OK(f.StreamDestroy(other));
}
