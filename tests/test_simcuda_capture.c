/* test_simcuda_capture.c: what goes with the capture of a stream into a graph, and what makes it
 * invalid. It holds on a real driver, too, which JITC_LIBCUDA may name (H200, driver 13.0). What
 * captured graphs do: test_simcuda_captured.c. */
#include "capture_world.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a capture allows beside it ---- */

#define CALLS(X)                                                                                   \
    X(EventQuery)                                                                                  \
    X(EventSynchronize)                                                                            \
    X(StreamSynchronize)                                                                           \
    X(StreamQuery)                                                                                 \
    X(CtxSynchronize)                                                                              \
    X(MemAlloc)                                                                                    \
    X(MemFree)                                                                                     \
    X(MemHostAlloc)                                                                                \
    X(MemFreeHost)                                                                                 \
    X(EventCreate)                                                                                 \
    X(EventDestroy)                                                                                \
    X(EventRecord)                                                                                 \
    X(StreamWaitEvent)                                                                             \
    X(LaunchKernel)                                                                                \
    X(MemcpyHtoDAsyncPinned)                                                                       \
    X(MemcpyDtoHAsyncPageable)                                                                     \
    X(MemcpyDtoHAsyncPinned)                                                                       \
    X(MemAllocAsync)                                                                               \
    X(MemFreeAsync)                                                                                \
    X(GraphLaunch)                                                                                 \
    X(GraphInstantiate)                                                                            \
    X(ModuleLoadData)                                                                              \
    X(StreamCreate)                                                                                \
    X(StreamIsCapturing)                                                                           \
    X(PointerGetAttribute)                                                                         \
    X(MemGetInfo)                                                                                  \
    X(EventRecordLegacy)                                                                           \
    X(EventRecordPerThread)
enum calls {
#define X(name) CALL_##name,
    CALLS(X)
#undef X
        CALL_COUNT
};
static const char *const names[] = {
#define X(name) #name,
    CALLS(X)
#undef X
};
#define SET(name)       (1u << CALL_##name)
#define CONFLICTING     SET(CtxSynchronize)
#define LEGACY_CONFLICT SET(EventRecordLegacy)
/* What a capture cannot see, but where its mode or the thread's allows it. */
#define UNSAFE                                                                                     \
    (CONFLICTING | SET(EventQuery) | SET(EventSynchronize) | SET(StreamSynchronize) |              \
     SET(StreamQuery) | SET(MemAlloc) | SET(MemFree) | SET(MemHostAlloc) | SET(MemFreeHost) |      \
     SET(MemAllocAsync) | SET(MemFreeAsync) | SET(GraphInstantiate))

/** A call is made while a stream captures. */
static const struct fact {
    bool blocking; /* the stream */
    int mode;      /* of the capture */
    bool same;     /* the call comes from the thread that captures, */
    bool relaxed;  /* which is in this mode, or in that which threads have */
    unsigned fail; /* the calls that fail; they make the capture invalid, and no others do */
} facts[] = {
    {false, GLOBAL, false, false, UNSAFE},
    {false, GLOBAL, false, true, CONFLICTING},
    {true, GLOBAL, false, false, UNSAFE | LEGACY_CONFLICT},
    {true, GLOBAL, false, true, CONFLICTING | LEGACY_CONFLICT},
    {false, GLOBAL, true, false, UNSAFE},
    {false, GLOBAL, true, true, CONFLICTING},
    {false, THREAD_LOCAL, false, false, CONFLICTING},
    {false, THREAD_LOCAL, false, true, CONFLICTING},
    {false, THREAD_LOCAL, true, false, UNSAFE},
    {false, THREAD_LOCAL, true, true, CONFLICTING},
    {false, RELAXED, true, false, CONFLICTING},
    {false, RELAXED, true, true, CONFLICTING},
    {true, RELAXED, false, false, CONFLICTING | LEGACY_CONFLICT},
    {true, RELAXED, false, true, CONFLICTING | LEGACY_CONFLICT},
};

/** What the calls use; `made` is what one of them made. */
static struct things {
    CUstream stream; /* blocking, does not capture */
    CUevent recorded, spare;
    CUdeviceptr freed, freed_async;
    void *pinned, *freed_pinned;
    CUgraph graph;
    CUgraphExec exec;
    char *code;
    struct {
        CUevent event;
        CUdeviceptr memory, async;
        void *pinned;
        CUgraphExec exec;
        CUmodule module;
        CUstream stream;
    } made;
} t;

static CUresult call(enum calls which) {
    static char pageable[64];
    size_t sizes[2];
    int status;
    CUcontext context;
    switch (which) {
        case CALL_EventQuery: return cu.EventQuery(t.recorded);
        case CALL_EventSynchronize: return cu.EventSynchronize(t.recorded);
        case CALL_StreamSynchronize: return cu.StreamSynchronize(t.stream);
        case CALL_StreamQuery: return cu.StreamQuery(t.stream);
        case CALL_CtxSynchronize: return cu.CtxSynchronize();
        case CALL_MemAlloc: return cu.MemAlloc(&t.made.memory, 1 << 20);
        case CALL_MemFree: return cu.MemFree(t.freed);
        case CALL_MemHostAlloc: return cu.MemHostAlloc(&t.made.pinned, 4096, 0);
        case CALL_MemFreeHost: return cu.MemFreeHost(t.freed_pinned);
        case CALL_EventCreate: return cu.EventCreate(&t.made.event, CU_EVENT_DISABLE_TIMING);
        case CALL_EventDestroy: return cu.EventDestroy(t.spare);
        case CALL_EventRecord: return cu.EventRecord(t.recorded, t.stream);
        case CALL_StreamWaitEvent: return cu.StreamWaitEvent(t.stream, t.recorded, 0);
        case CALL_LaunchKernel: return capture_launch(w.add, 0, t.stream);
        case CALL_MemcpyHtoDAsyncPinned: return cu.MemcpyHtoDAsync(w.p, t.pinned, 64, t.stream);
        case CALL_MemcpyDtoHAsyncPageable: return cu.MemcpyDtoHAsync(pageable, w.p, 64, t.stream);
        case CALL_MemcpyDtoHAsyncPinned: return cu.MemcpyDtoHAsync(t.pinned, w.p, 64, t.stream);
        case CALL_MemAllocAsync: return cu.MemAllocAsync(&t.made.async, 1 << 20, t.stream);
        case CALL_MemFreeAsync: return cu.MemFreeAsync(t.freed_async, t.stream);
        case CALL_GraphLaunch: return cu.GraphLaunch(t.exec, t.stream);
        case CALL_GraphInstantiate: return cu.GraphInstantiate(&t.made.exec, t.graph, 0);
        case CALL_ModuleLoadData: return cu.ModuleLoadData(&t.made.module, t.code, 0, NULL, NULL);
        case CALL_StreamCreate: return cu.StreamCreate(&t.made.stream, CU_STREAM_DEFAULT);
        case CALL_StreamIsCapturing: return cu.StreamIsCapturing(t.stream, &status);
        case CALL_PointerGetAttribute: return cu.PointerGetAttribute(&context, 1, w.p);
        case CALL_MemGetInfo: return cu.MemGetInfo(&sizes[0], &sizes[1]);
        case CALL_EventRecordLegacy: return cu.EventRecord(t.recorded, LEGACY);
        case CALL_EventRecordPerThread: return cu.EventRecord(t.recorded, PER_THREAD);
        default: return CUDA_ERROR_UNKNOWN;
    }
}

static void make_things(void) {
    t.stream = client_stream(CU_STREAM_DEFAULT);
    t.recorded = capture_event();
    unsigned v = 0;
    void *params[] = {&w.p, &v};
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS kernel = {w.add, 1, 1, 1, 1, 1, 1, 0, params, NULL, NULL, NULL};
    OK(cu.GraphCreate(&t.graph, 0));
    OK(cu.GraphAddKernelNode(&node, t.graph, NULL, 0, &kernel));
    OK(cu.GraphInstantiate(&t.exec, t.graph, 0));
    OK(cu.MemHostAlloc(&t.pinned, 64, 0));
    memset(t.pinned, 0, 64);
    t.code = capture_code();
}

static void destroy_things(void) {
    free(t.code);
    OK(cu.MemFreeHost(t.pinned));
    OK(cu.GraphExecDestroy(t.exec));
    OK(cu.GraphDestroy(t.graph));
    OK(cu.EventDestroy(t.recorded));
    OK(cu.StreamDestroy(t.stream));
}

static void prepare(void) {
    memset(&t.made, 0, sizeof t.made);
    OK(cu.MemAlloc(&t.freed, 1 << 20));
    OK(cu.MemHostAlloc(&t.freed_pinned, 4096, 0));
    t.spare = capture_event();
    OK(cu.MemAllocAsync(&t.freed_async, 1 << 20, t.stream));
    OK(cu.EventRecord(t.recorded, t.stream));
    OK(cu.CtxSynchronize());
}

/** Free what prepare() and call() made; what a call was to free, unless it did. */
static void clean_up(enum calls which, CUresult result) {
    bool done = result == CUDA_SUCCESS;
    if (which != CALL_MemFree || !done)
        OK(cu.MemFree(t.freed));
    if (which != CALL_MemFreeHost || !done)
        OK(cu.MemFreeHost(t.freed_pinned));
    if (which != CALL_EventDestroy || !done)
        OK(cu.EventDestroy(t.spare));
    if (which != CALL_MemFreeAsync || !done)
        OK(cu.MemFreeAsync(t.freed_async, t.stream));
    if (t.made.event)
        OK(cu.EventDestroy(t.made.event));
    if (t.made.memory)
        OK(cu.MemFree(t.made.memory));
    if (t.made.async)
        OK(cu.MemFreeAsync(t.made.async, t.stream));
    if (t.made.pinned)
        OK(cu.MemFreeHost(t.made.pinned));
    if (t.made.exec)
        OK(cu.GraphExecDestroy(t.made.exec));
    if (t.made.module)
        OK(cu.ModuleUnload(t.made.module));
    if (t.made.stream)
        OK(cu.StreamDestroy(t.made.stream));
    OK(cu.CtxSynchronize());
}

typedef struct caller {
    enum calls which;
    bool relaxed;
    CUresult result;
} caller;

static void *make_call(void *argument) {
    caller *c = argument;
    CUcontext context;
    OK(cu.CtxPushCurrent(w.context));
    int mode = capture_set_mode(c->relaxed ? RELAXED : GLOBAL);
    c->result = call(c->which);
    capture_set_mode(mode);
    OK(cu.CtxPopCurrent(&context));
    return NULL;
}

/** Run a function in another thread, to its end. */
static void in_thread(void *(*function)(void *), void *argument) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, function, argument), 0);
    pthread_join(thread, NULL);
}

static void check_fact(const struct fact *f, enum calls which) {
    prepare();
    caller c = {which, f->relaxed, CUDA_ERROR_UNKNOWN};
    CUstream stream = client_stream(f->blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    CUgraph graph = NULL;
    OK(cu.StreamBeginCapture(stream, f->mode));
    if (f->same)
        make_call(&c);
    else
        in_thread(make_call, &c);
    int status = capture_state(stream);
    CUresult end = cu.StreamEndCapture(stream, &graph), expected = CUDA_SUCCESS;
    if (f->fail & 1u << which)
        expected = which == CALL_EventRecordLegacy ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
                                                   : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    bool good = expected == CUDA_SUCCESS;
    cr_expect(
        c.result == expected && status == (good ? ACTIVE : INVALIDATED) &&
            end == (good ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) && !graph == !good,
        "%s: %d, not %d; state %d, end %d; capture: blocking %d, mode %d, same thread %d; "
        "thread relaxed %d",
        names[which], c.result, expected, status, end, f->blocking, f->mode, f->same, f->relaxed);
    if (graph)
        OK(cu.GraphDestroy(graph));
    OK(cu.StreamDestroy(stream));
    clean_up(which, c.result);
}

Test(simcuda_capture, calls_beside_a_capture_get_on_as_on_an_h200, .timeout = 300) {
    capture_start();
    make_things();
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        for (int which = 0; which < CALL_COUNT; which++)
            check_fact(&facts[i], (enum calls) which);
    destroy_things();
    capture_finish();
}

/* ---- what makes a capture invalid ---- */

Test(simcuda_capture, an_event_recorded_in_a_capture_cannot_be_waited_for) {
    capture_start();
    CUcontext context;
    CUevent e = capture_event();
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUresult (*const waits[])(CUevent) = {cu.EventQuery, cu.EventSynchronize};
    for (int i = 0; i < 2; i++) {
        OK(cu.EventRecord(e, stream));
        OK(cu.EventSynchronize(e));
        OK(cu.StreamBeginCapture(stream, GLOBAL));
        OK(cu.EventRecord(e, stream));
        int mode = capture_set_mode(RELAXED);
        cr_assert_eq(mode, GLOBAL);
        cr_assert_eq(capture_state(LEGACY), NONE);
        GIVES(waits[i](e), CUDA_ERROR_CAPTURED_EVENT);
        cr_assert_eq(capture_state(stream), INVALIDATED);
        GIVES(cu.StreamGetCtx(stream, &context), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        GIVES(capture_launch(w.add, 1, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        capture_end_broken(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        capture_set_mode(mode);
    }
    OK(cu.EventRecord(e, stream)); /* outside of it */
    OK(cu.EventSynchronize(e));
    OK(cu.EventDestroy(e));
    OK(cu.StreamDestroy(stream));
    capture_finish();
}

Test(simcuda_capture, the_default_stream_of_a_thread_captures_the_legacy_one_does_not) {
    capture_start();
    CUevent outside = capture_event();
    int status;
    OK(cu.EventRecord(outside, NULL));
    OK(cu.EventSynchronize(outside));
    GIVES(cu.StreamBeginCapture(LEGACY, RELAXED), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    GIVES(cu.StreamBeginCapture(NULL, RELAXED), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    for (int i = 0; i < 2; i++) {
        OK(i ? cu.StreamBeginCaptureLocal(NULL, GLOBAL)
             : cu.StreamBeginCapture(PER_THREAD, GLOBAL));
        cr_assert_eq(capture_state(PER_THREAD), ACTIVE);
        GIVES(cu.StreamIsCapturing(LEGACY, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        cr_assert_eq(capture_state(PER_THREAD), ACTIVE, "asking does no harm");
        GIVES(cu.StreamWaitEvent(PER_THREAD, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        cr_assert_eq(capture_state(PER_THREAD), INVALIDATED);
        capture_end_broken(PER_THREAD, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    OK(cu.StreamWaitEvent(PER_THREAD, outside, 0));
    cr_assert_eq(capture_state(LEGACY), NONE);
    OK(cu.EventDestroy(outside));
    capture_finish();
}

static CUresult ask_for_number(CUstream stream) {
    unsigned long long number;
    return cu.StreamGetId(stream, &number);
}

/* Nor be asked for its number. */
Test(simcuda_capture, a_stream_that_captures_cannot_be_waited_for) {
    capture_start();
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUresult (*const waits[])(CUstream) = {cu.StreamSynchronize, cu.StreamQuery, ask_for_number};
    int mode = capture_set_mode(RELAXED);
    for (int i = 0; i < 3; i++) {
        OK(cu.StreamBeginCapture(stream, RELAXED));
        GIVES(waits[i](stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        capture_end_broken(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        OK(waits[i](stream));
    }
    capture_set_mode(mode);
    OK(cu.StreamDestroy(stream));
    capture_finish();
}

Test(simcuda_capture, modes_and_handles_are_checked) {
    capture_start();
    CUgraph graph;
    int status;
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    GIVES(cu.StreamBeginCapture(stream, 3), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(capture_set_mode(THREAD_LOCAL), GLOBAL);
    cr_assert_eq(capture_set_mode(GLOBAL), THREAD_LOCAL);
    GIVES(cu.StreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    OK(cu.StreamBeginCapture(stream, GLOBAL));
    GIVES(cu.StreamBeginCapture(stream, GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
    OK(cu.StreamIsCapturing(stream, &status));
    OK(cu.GraphExecDestroy(capture_end(stream))); /* an empty graph */
    OK(cu.StreamDestroy(stream));
    capture_finish();
}

/* It is not known what a real driver makes of it. */
Test(simcuda_capture, a_mode_that_is_none_is_taken_all_the_same) {
    capture_start();
    int wrong = 3;
    OK(cu.ThreadExchangeCaptureMode(&wrong));
    cr_assert_eq(wrong, GLOBAL);
    capture_set_mode(THREAD_LOCAL);
    cr_assert_eq(capture_set_mode(GLOBAL), THREAD_LOCAL);
    FAULTS(w.simulated, w.simulated ? "3 is no mode" : "");
}

static void *ask_in_mode(void *argument) {
    int *mode = argument;
    CUcontext context;
    OK(cu.CtxPushCurrent(w.context));
    capture_set_mode(*mode);
    *mode = cu.EventQuery(t.recorded);
    OK(cu.CtxPopCurrent(&context));
    return NULL;
}

Test(simcuda_capture, a_thread_in_the_thread_local_mode_ignores_captures_of_others) {
    capture_start();
    CUgraph graph;
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    t.recorded = capture_event();
    OK(cu.StreamBeginCapture(stream, GLOBAL));
    int result = THREAD_LOCAL;
    in_thread(ask_in_mode, &result);
    cr_assert_eq(result, CUDA_SUCCESS);
    cr_assert_eq(capture_state(stream), ACTIVE);
    result = GLOBAL;
    in_thread(ask_in_mode, &result);
    cr_assert_eq(result, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    GIVES(cu.StreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cu.EventDestroy(t.recorded));
    OK(cu.StreamDestroy(stream));
    capture_finish();
}

static void *end_here(void *stream) {
    CUcontext context;
    CUgraph graph = NULL;
    OK(cu.CtxPushCurrent(w.context));
    CUresult result = cu.StreamEndCapture(*(CUstream *) stream, &graph);
    if (graph)
        OK(cu.GraphDestroy(graph));
    OK(cu.CtxPopCurrent(&context));
    cr_assert((graph != NULL) == (result == CUDA_SUCCESS));
    return (void *) (intptr_t) result;
}

Test(simcuda_capture, a_capture_is_ended_in_its_thread_unless_it_is_relaxed) {
    capture_start();
    CUgraph graph;
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    for (int mode = GLOBAL; mode <= RELAXED; mode++) {
        pthread_t thread;
        void *result;
        OK(cu.StreamBeginCapture(stream, mode));
        pthread_create(&thread, NULL, end_here, &stream);
        pthread_join(thread, &result);
        cr_assert_eq((intptr_t) result,
                     mode == RELAXED ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        if (capture_state(stream) != NONE) {
            cu.StreamEndCapture(stream, &graph);
            cr_assert_eq(capture_state(stream), NONE);
        }
    }
    OK(cu.StreamDestroy(stream));
    capture_finish();
}
