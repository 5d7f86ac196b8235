/* test_cuda_event.c: events that others lend us, and events on a device that fails. What holds for
 * all backends is in test_event.c, what is about captures in test_cuda_capture.c. */
#include "cuda_foreign.h"
#include <jit/cuda.h>
#include <pthread.h>
#include <string.h>

enum { SIZE = 1000 };

static cuda_world w;
static foreign f;
static gate g;

static void start(void) {
    w = cuda_world_simulated();
    f = foreign_find();
    support_init();
    foreign_enter(0);
}
static void end(void) {
    foreign_leave(0);
    support_shutdown();
}
TestSuite(cuda_event, .init = start, .fini = end);

static void expect_error(jit_status status, jit_status expected, const char *text) {
    cr_assert_eq(status, expected, "%s: %s", jit_status_name(status), jit_error());
    cr_assert(strstr(jit_error(), text), "\"%s\" is not in \"%s\"", text, jit_error());
    jit_error_clear();
}

/* With a gate closed the kernel of x + x could not be loaded. */
static void load_kernel(void) {
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    ASSERT_OK(jit_var_eval(y));
    ASSERT_OK(jit_sync_thread());
    jit_unref(x), jit_unref(y);
}

/* ---- Events of others ---- */

Test(cuda_event, another_librarys_event_is_waited_for_and_lives_on) {
    CUstream theirs = foreign_stream(CU_STREAM_NON_BLOCKING);
    CUevent native;
    jit_event *event;
    bool done;
    CU_OK(f.EventCreate(&native, CU_EVENT_DISABLE_TIMING));
    ASSERT_OK(jit_cuda_event_wrap(native, &event));
    cr_assert_eq(jit_cuda_event(event), (void *) native);
    ASSERT_OK(jit_event_query(event, &done));
    cr_assert(done, "it was never recorded");
    load_kernel();
    foreign_close(&g, theirs);
    CU_OK(f.EventRecord(native, theirs));
    ASSERT_OK(jit_event_query(event, &done));
    cr_assert_not(done);
    ASSERT_OK(jit_event_stream_wait(event));
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    ASSERT_OK(jit_var_eval(y));
    foreign_settle();
    cr_assert_eq(f.StreamQuery(jit_cuda_stream()), CUDA_ERROR_NOT_READY);
    foreign_open(&g);
    ASSERT_OK(jit_event_wait(event));
    cuda_world_expect(y, SIZE, 2, 0);
    jit_event_destroy(event);
    CU_OK(f.EventQuery(native)); /* it was lent */
    CU_OK(f.EventDestroy(native));
    CU_OK(f.StreamDestroy(theirs));
    jit_unref(x), jit_unref(y);
}

/* We record it, others wait. */
Test(cuda_event, a_lent_event_can_be_recorded) {
    CUstream theirs = foreign_stream(CU_STREAM_NON_BLOCKING);
    CUevent native;
    jit_event *event;
    CU_OK(f.EventCreate(&native, CU_EVENT_DISABLE_TIMING));
    ASSERT_OK(jit_cuda_event_wrap(native, &event));
    load_kernel();
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    foreign_close(&g, jit_cuda_stream());
    ASSERT_OK(jit_var_eval(y));
    ASSERT_OK(jit_event_record(event));
    CU_OK(f.StreamWaitEvent(theirs, native, 0));
    foreign_settle();
    cr_assert_eq(f.StreamQuery(theirs), CUDA_ERROR_NOT_READY);
    foreign_open(&g);
    CU_OK(f.StreamSynchronize(theirs));
    jit_event_destroy(event);
    CU_OK(f.EventDestroy(native));
    CU_OK(f.StreamDestroy(theirs));
    jit_unref(x), jit_unref(y);
}

Test(cuda_event, there_is_no_time_between_events_without) {
    jit_event *timed, *plain;
    CUevent native;
    double ms;
    CU_OK(f.EventCreate(&native, CU_EVENT_DISABLE_TIMING));
    ASSERT_OK(jit_event_create(JIT_CUDA, true, &timed));
    ASSERT_OK(jit_cuda_event_wrap(native, &plain));
    jit_var x = cuda_world_ramp(SIZE);
    expect_error(jit_event_elapsed(timed, timed, &ms), JIT_INVALID_ARGUMENT, "recorded");
    ASSERT_OK(jit_event_record(timed));
    ASSERT_OK(jit_event_record(plain));
    ASSERT_OK(jit_sync_thread());
    expect_error(jit_event_elapsed(timed, plain, &ms), JIT_INVALID_ARGUMENT, "both are timed");
    ASSERT_OK(jit_event_elapsed(timed, timed, &ms));
    cr_assert_eq(ms, 0);
    jit_event_destroy(timed), jit_event_destroy(plain);
    CU_OK(f.EventDestroy(native));
    jit_unref(x);
}

Test(cuda_event, what_cannot_be_wrapped_or_shown) {
    jit_event *event = (jit_event *) &event;
    expect_error(jit_cuda_event_wrap(NULL, &event), JIT_INVALID_ARGUMENT, "event is NULL");
    expect_error(jit_cuda_event_wrap(&event, NULL), JIT_INVALID_ARGUMENT, "out is NULL");
    cr_assert_null(jit_cuda_event(NULL));
    expect_error(jit_error_status(), JIT_INVALID_ARGUMENT, "jit_cuda_event");
    if (!support_is_built(JIT_LLVM))
        return;
    ASSERT_OK(jit_init(JIT_LLVM));
    ASSERT_OK(jit_event_create(JIT_LLVM, false, &event));
    cr_assert_null(jit_cuda_event(event));
    expect_error(jit_error_status(), JIT_UNSUPPORTED, "no CUevent");
    jit_event_destroy(event);
    jit_shutdown();
}

/* ---- On a device that has failed ---- */

/* A program that polls comes to an end. */
Test(cuda_event, on_a_device_that_has_failed_events_are_done_and_fail) {
    jit_event *event, *late;
    bool done = false;
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    ASSERT_OK(jit_event_create(JIT_CUDA, true, &event));
    ASSERT_OK(jit_event_create(JIT_CUDA, false, &late));
    ASSERT_OK(jit_var_eval(y));
    ASSERT_OK(jit_event_record(event));
    w.fail("cuEventQuery", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_error(jit_event_query(event, &done), JIT_DEVICE_FAILED, "cuEventQuery: ");
    cr_assert(done);
    for (int i = 0; i < 2; ++i) {
        done = false;
        expect_error(jit_event_query(event, &done), JIT_DEVICE_FAILED, "failed before");
        cr_assert(done);
        expect_error(jit_event_wait(event), JIT_DEVICE_FAILED, "failed before");
        expect_error(jit_event_record(late), JIT_DEVICE_FAILED, "failed before");
        expect_error(jit_event_stream_wait(event), JIT_DEVICE_FAILED, "failed before");
    }
    jit_unref(x), jit_unref(y);
    jit_event_destroy(event), jit_event_destroy(late);
    jit_error_clear();
    jit_shutdown();
    jit_error_clear();
    support_init();
}

/* Nobody holds a lock that another thread's work needs while an event is waited for. */
typedef struct opener {
    pthread_t thread;
    jit_status status;
} opener;

static void *compute_and_open(void *context) {
    opener *o = context;
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    o->status = jit_var_eval(y);
    jit_unref(x), jit_unref(y);
    foreign_open(&g);
    return NULL;
}

Test(cuda_event, a_wait_holds_no_lock) {
    opener o;
    jit_event *event;
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    ASSERT_OK(jit_event_create(JIT_CUDA, false, &event));
    ASSERT_OK(jit_var_eval(y));
    foreign_close(&g, jit_cuda_stream());
    ASSERT_OK(jit_event_record(event));
    cr_assert_eq(pthread_create(&o.thread, NULL, compute_and_open, &o), 0);
    ASSERT_OK(jit_event_wait(event));
    pthread_join(o.thread, NULL);
    ASSERT_OK(o.status);
    jit_event_destroy(event);
    jit_unref(x), jit_unref(y);
}
