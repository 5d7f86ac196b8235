/* event.c: events of the driver, our own and those that others lend.  Layer: cuda. */
#include "cuda/event.h"
#include "core/mem.h"
#include <stdlib.h>

struct jitc_cuda_event {
    jitc_event base;
    jitc_cuda_device *device;
    CUevent event;
    bool borrowed;
};

static jitc_cuda_event *event_of(jitc_event *e) {
    return (jitc_cuda_event *) e; /* its first member */
}

static const jitc_cuda *cuda_of(const jitc_cuda_event *e) {
    return &e->device->backend->cuda;
}

static jit_status fail_captured(const jitc_cuda_event *e, const char *why) {
    return jitc_fail(JIT_UNSUPPORTED,
                     "cuda: the event %p was recorded while its stream was captured into a graph, "
                     "and is a place in that graph only%s",
                     (void *) e->event, why);
}

/* What can be wrong with an event that somebody else owns. */
static jit_status check(const jitc_cuda_event *e, CUresult result, jitc_cuda_function f) {
    char text[256];
    if (result != CUDA_ERROR_CAPTURED_EVENT && result != CUDA_ERROR_INVALID_HANDLE)
        return jitc_cuda_device_check(e->device, result, f);
    if (result == CUDA_ERROR_CAPTURED_EVENT)
        return fail_captured(e, "");
    jitc_cuda_describe(cuda_of(e), result, f, text, sizeof text);
    return jitc_fail(JIT_INVALID_ARGUMENT,
                     "cuda: the event %p is no event of device %d's primary context: %s",
                     (void *) e->event, e->device->ordinal, text);
}

jit_status jitc_cuda_event_create(jitc_cuda_device *d, bool timed, void *native, jitc_event **out) {
    void *p;
    TRY(jitc_calloc(1, sizeof(jitc_cuda_event), &p));
    jitc_cuda_event *e = p;
    e->device = d;
    e->event = native;
    e->borrowed = native != NULL;
    jit_status status = JIT_OK;
    if (!native)
        status = jitc_cuda_device_check(
            d,
            cuda_of(e)->EventCreate(&e->event, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING),
            JITC_CU_EventCreate);
    if (status != JIT_OK) {
        free(e);
        return status;
    }
    *out = &e->base;
    return JIT_OK;
}

void jitc_cuda_event_destroy(jitc_event *base) {
    jitc_cuda_event *e = event_of(base);
    jitc_cuda_scope scope;
    if (!e)
        return;
    if (!e->borrowed) {
        if (jitc_cuda_enter_failed(e->device, &scope))
            cuda_of(e)->EventDestroy(e->event);
        jitc_cuda_leave(e->device, &scope);
    }
    free(e);
}

static jit_status record(jitc_cuda_event *e, jitc_cuda_stream *s) {
    TRY(jitc_cuda_flush(s));
    return check(e, cuda_of(e)->EventRecord(e->event, s->stream), JITC_CU_EventRecord);
}

jit_status jitc_cuda_event_record(jitc_event *base, jitc_cuda_stream *s) {
    INSIDE(s->device, record(event_of(base), s));
}

static jit_status query(const jitc_cuda_event *e, bool *done) {
    CUresult result = cuda_of(e)->EventQuery(e->event);
    *done = result == CUDA_SUCCESS || jitc_cuda_is_final(result);
    return result == CUDA_ERROR_NOT_READY ? JIT_OK : check(e, result, JITC_CU_EventQuery);
}

jit_status jitc_cuda_event_done(jitc_event *base, bool *done) {
    *done = true; /* nothing runs on a device that has failed */
    INSIDE(event_of(base)->device, query(event_of(base), done));
}

static jit_status synchronize(const jitc_cuda_event *e) {
    return check(e, cuda_of(e)->EventSynchronize(e->event), JITC_CU_EventSynchronize);
}

jit_status jitc_cuda_event_wait(jitc_event *base) {
    INSIDE(event_of(base)->device, synchronize(event_of(base)));
}

static jit_status is_capturing(jitc_cuda_stream *s, CUstream stream, bool *out) {
    int state = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = s->device->backend->cuda.StreamIsCapturing(stream, &state);
    *out = state != CU_STREAM_CAPTURE_STATUS_NONE;
    return jitc_cuda_device_check(s->device, result, JITC_CU_StreamIsCapturing);
}

/* A stream that waits for an event of a capture takes part in that, and all that it runs from then
 * on is captured. Whether an event is one cannot be asked without harm to the capture, so a stream
 * that runs nothing waits first. It adds nothing to the graph, and is free again at its end. */
static jit_status try_wait(jitc_cuda_stream *s, const jitc_cuda_event *e) {
    const jitc_cuda *c = cuda_of(e);
    bool captured;
    if (!s->probe) {
        CUresult result = c->StreamCreate(&s->probe, CU_STREAM_NON_BLOCKING);
        TRY(jitc_cuda_device_check(s->device, result, JITC_CU_StreamCreate));
    }
    TRY(is_capturing(s, s->probe, &captured));
    if (captured)
        return fail_captured(e, ", or another one was, whose capture is not over");
    TRY(check(e, c->StreamWaitEvent(s->probe, e->event, 0), JITC_CU_StreamWaitEvent));
    TRY(is_capturing(s, s->probe, &captured));
    return captured ? fail_captured(e, "") : JIT_OK;
}

/* The event may be one of another device. */
static jit_status make_wait(jitc_cuda_stream *s, const jitc_cuda_event *e) {
    if (e->borrowed)
        TRY(try_wait(s, e));
    TRY(jitc_cuda_flush(s));
    CUresult result = cuda_of(e)->StreamWaitEvent(s->stream, e->event, 0);
    if (jitc_cuda_is_final(result))
        return jitc_cuda_device_check(s->device, result, JITC_CU_StreamWaitEvent);
    TRY(check(e, result, JITC_CU_StreamWaitEvent));
    jitc_cuda_note_wait(s);
    return JIT_OK;
}

jit_status jitc_cuda_event_stream_wait(jitc_cuda_stream *s, jitc_event *base) {
    INSIDE(s->device, make_wait(s, event_of(base)));
}

static jit_status elapsed(const jitc_cuda_event *from, const jitc_cuda_event *to, double *out) {
    const jitc_cuda *c = cuda_of(from);
    float milliseconds;
    CUresult (*ask)(float *, CUevent, CUevent) =
        c->EventElapsedTime_v2 ? c->EventElapsedTime_v2 : c->EventElapsedTime;
    CUresult result = ask ? ask(&milliseconds, from->event, to->event) : CUDA_ERROR_NOT_FOUND;
    switch (result) {
        case CUDA_SUCCESS: *out = (double) milliseconds; return JIT_OK;
        case CUDA_ERROR_NOT_READY:
            return jitc_fail(JIT_INVALID_ARGUMENT,
                             "cuda: the work before one of two events is not done yet: wait for "
                             "both before asking for the time between them");
        case CUDA_ERROR_INVALID_HANDLE:
            return jitc_fail(JIT_INVALID_ARGUMENT,
                             "cuda: there is no time between two events unless both are timed, of "
                             "one device, and recorded");
        default: return check(from, result, JITC_CU_EventElapsedTime);
    }
}

jit_status jitc_cuda_event_elapsed(jitc_event *from, jitc_event *to, double *milliseconds) {
    INSIDE(event_of(from)->device, elapsed(event_of(from), event_of(to), milliseconds));
}

void *jitc_cuda_event_native(jitc_event *e) {
    return event_of(e)->event;
}
