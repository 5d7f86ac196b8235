/* foreign.c: order between our streams and those that others own.  Layer: cuda.
 *
 * Our streams are blocking ones of the primary context: they and the legacy default stream wait for
 * each other by themselves. For all others an event is recorded on the one stream and waited for
 * on the other; the CPU does not wait. An event is recorded in the context of its stream; any
 * stream may wait for it, also one of another device.
 *
 * A stream that is being captured into a graph cannot wait for what is outside of it, and to try it
 * ends the capture. So it is asked first. */
#include "cuda/detach.h"
#include "cuda/event.h"

/* The handles 1 and 2 stand for the default streams of the current context. */
static CUstream handle_of(intptr_t other) {
    return (CUstream) (uintptr_t) other;
}

static jit_status fail_capture(intptr_t other, const char *what) {
    return jitc_fail(JIT_UNSUPPORTED, "cuda: the stream %#llx is being captured into a graph, %s",
                     (unsigned long long) other, what);
}

static jit_status check(jitc_cuda_stream *s, intptr_t other, CUresult result,
                        jitc_cuda_function f) {
    char text[256];
    if (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
        result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) {
        jitc_cuda_describe(jitc_cuda_of(s), result, f, text, sizeof text);
        return jitc_fail(JIT_UNSUPPORTED, "cuda: the stream %#llx takes part in a capture: %s",
                         (unsigned long long) other, text);
    }
    if (result == CUDA_ERROR_INVALID_HANDLE) {
        jitc_cuda_describe(jitc_cuda_of(s), result, f, text, sizeof text);
        return jitc_fail(JIT_INVALID_ARGUMENT, "cuda: %#llx is no CUstream: %s",
                         (unsigned long long) other, text);
    }
    return jitc_cuda_device_check(s->device, result, f);
}

static jit_status check_token(intptr_t other, intptr_t least) {
    if (other >= least || other == JITC_STREAM_NONE)
        return JIT_OK;
    return jitc_fail(JIT_INVALID_ARGUMENT, "cuda: %lld stands for no stream", (long long) other);
}

static jit_status is_capturing(jitc_cuda_stream *s, intptr_t other, bool *out) {
    int state = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = jitc_cuda_of(s)->StreamIsCapturing(handle_of(other), &state);
    *out = state != CU_STREAM_CAPTURE_STATUS_NONE;
    return check(s, other, result, JITC_CU_StreamIsCapturing);
}

/* ---- Others wait for us ---- */

static jit_status make_wait(jitc_cuda_stream *s, intptr_t other) {
    const jitc_cuda *c = jitc_cuda_of(s);
    if (other == JITC_STREAM_PER_THREAD && c->StreamWaitEvent_ptsz)
        return check(s, other, c->StreamWaitEvent_ptsz(NULL, s->sync_stream_event, 0),
                     JITC_CU_StreamWaitEvent_ptsz);
    return check(s, other, c->StreamWaitEvent(handle_of(other), s->sync_stream_event, 0),
                 JITC_CU_StreamWaitEvent);
}

static jit_status release_inside(jitc_cuda_stream *s, intptr_t other) {
    bool capturing;
    TRY(jitc_cuda_flush(s));
    if (other <= JITC_STREAM_LEGACY || handle_of(other) == s->stream)
        return JIT_OK; /* ORDER: our work before the legacy stream's, as our streams are blocking */
    TRY(is_capturing(s, other, &capturing));
    if (capturing)
        return jitc_cuda_reached(s, jitc_load_relaxed(&s->last))
                   ? JIT_OK
                   : fail_capture(other, "which cannot wait for unfinished work outside of it: end "
                                         "the capture, or wait with jit_sync_thread() before it");
    /* ORDER: our work before what is queued on `other` from now on, by this event: recorded behind
     * all of s, which the caller holds; without it the other stream reads what is not written. */
    TRY(jitc_cuda_device_check(s->device,
                               jitc_cuda_of(s)->EventRecord(s->sync_stream_event, s->stream),
                               JITC_CU_EventRecord));
    return make_wait(s, other);
}

/* Nothing was queued, or it is known to be over; others' work on the stream is not known. */
static bool has_ended(jitc_cuda_stream *s) {
    return jitc_load_relaxed(&s->last) <= jitc_load_acquire(&s->finished) && /* pairs with */
           !jitc_load_relaxed(&s->shown); /* note_finished_locked, and with stream_native */
}

/* Nothing is held back: who needs no event needs no driver. */
static bool is_submitted(jitc_cuda_stream *s) {
    /* pairs with drop_batch_locked and jitc_cuda_submitted_locked */
    return jitc_load_acquire(&s->handed) >= jitc_load_relaxed(&s->last);
}

jit_status jitc_cuda_sync_stream(jitc_cuda_stream *s, intptr_t other) {
    TRY(check_token(other, JITC_STREAM_LEGACY));
    bool idle = has_ended(s) || (other <= JITC_STREAM_LEGACY && is_submitted(s));
    if (idle && !jitc_load_acquire(&s->device->failed)) /* pairs with note_locked */
        return JIT_OK;
    INSIDE(s->device, release_inside(s, other));
}

/* ---- We wait for others ---- */

/* The event is of the other stream's context; ours would not do. */
static jit_status wait_for_other_context(jitc_cuda_stream *s, intptr_t other, CUcontext context) {
    const jitc_cuda *c = jitc_cuda_of(s);
    CUevent event = NULL;
    TRY(check(s, other, c->CtxPushCurrent(context), JITC_CU_CtxPushCurrent));
    jit_status status =
        check(s, other, c->EventCreate(&event, CU_EVENT_DISABLE_TIMING), JITC_CU_EventCreate);
    if (status == JIT_OK)
        status = check(s, other, c->EventRecord(event, handle_of(other)), JITC_CU_EventRecord);
    if (status == JIT_OK)
        status = check(s, other, c->StreamWaitEvent(s->stream, event, 0), JITC_CU_StreamWaitEvent);
    if (event)
        c->EventDestroy(event); /* the wait goes on */
    jitc_cuda_pop(c, context);
    return status;
}

static jit_status find_context(jitc_cuda_stream *s, intptr_t other, CUcontext *out) {
    *out = s->device->context;
    if (other <= JITC_STREAM_PER_THREAD)
        return JIT_OK;
    return check(s, other, jitc_cuda_of(s)->StreamGetCtx(handle_of(other), out),
                 JITC_CU_StreamGetCtx);
}

static jit_status wait_for(jitc_cuda_stream *s, intptr_t other) {
    const jitc_cuda *c = jitc_cuda_of(s);
    CUcontext context;
    TRY(find_context(s, other, &context));
    if (context != s->device->context)
        return wait_for_other_context(s, other, context);
    TRY(check(s, other, c->EventRecord(s->sync_stream_event, handle_of(other)),
              JITC_CU_EventRecord));
    return check(s, other, c->StreamWaitEvent(s->stream, s->sync_stream_event, 0),
                 JITC_CU_StreamWaitEvent);
}

static jit_status acquire_inside(jitc_cuda_stream *s, intptr_t other) {
    bool capturing;
    if (handle_of(other) == s->stream)
        return JIT_OK;
    if (other == 0) /* what is on the legacy stream comes before our work by itself */
        other = JITC_STREAM_PER_THREAD;
    TRY(is_capturing(s, other, &capturing));
    if (capturing)
        return fail_capture(other, "and what is captured does not run: wait for it after the "
                                   "graph's launch");
    TRY(jitc_cuda_flush(s)); /* what was launched before need not wait */
    TRY(wait_for(s, other));
    jitc_cuda_note_wait(s);
    return JIT_OK;
}

jit_status jitc_cuda_wait_stream(jitc_cuda_stream *s, intptr_t other) {
    TRY(check_token(other, 0));
    if (other == JITC_STREAM_LEGACY) /* ORDER: its work before ours, as our streams are blocking */
        jitc_cuda_note_wait(s);      /* and before what others wait for on ours */
    if (other <= JITC_STREAM_LEGACY && other != 0 &&
        !jitc_load_acquire(&s->device->failed)) /* pairs with note_locked */
        return JIT_OK;
    INSIDE(s->device, acquire_inside(s, other));
}

/* ---- Those who have read our memory ---- */

/* Handles are used again for other streams, numbers are not. A driver without the function can tell
 * nobody apart; and to ask for the number of a stream that is being captured ends the capture. */
static uint64_t id_of(const jitc_cuda *c, intptr_t other) {
    unsigned long long id = 0;
    int state = CU_STREAM_CAPTURE_STATUS_NONE;
    if (c->StreamIsCapturing(handle_of(other), &state) != CUDA_SUCCESS ||
        state != CU_STREAM_CAPTURE_STATUS_NONE)
        return 0;
    return c->StreamGetId(handle_of(other), &id) == CUDA_SUCCESS ? id : 0;
}

/* Which stream a number like 2 stands for depends on the context, a handle says it by itself. */
uint64_t jitc_cuda_consumer_id(jitc_cuda_device *d, intptr_t other) {
    const jitc_cuda *c = &d->backend->cuda;
    jitc_cuda_scope scope;
    if (!c->StreamGetId || jitc_load_acquire(&d->failed)) /* pairs with note_locked */
        return 0;
    if (other > JITC_STREAM_PER_THREAD)
        return id_of(c, other);
    uint64_t id = jitc_cuda_enter_failed(d, &scope) ? id_of(c, other) : 0;
    jitc_cuda_leave(d, &scope);
    return id;
}

/* The barrier waits in primary contexts. */
static bool is_apart(jitc_cuda_device *d, intptr_t other) {
    const jitc_cuda *c = &d->backend->cuda;
    CUcontext context = NULL;
    if (other <= JITC_STREAM_PER_THREAD)
        return false;
    return c->StreamGetCtx(handle_of(other), &context) != CUDA_SUCCESS ||
           (context != d->context && !jitc_cuda_is_primary(c, context));
}

bool jitc_cuda_consumer_is_apart(jitc_cuda_device *d, intptr_t other) {
    jitc_cuda_scope scope;
    bool apart = !jitc_cuda_enter_failed(d, &scope) || is_apart(d, other);
    jitc_cuda_leave(d, &scope);
    return apart;
}

/* Nobody knows how long another context lives, and with it its events: one of ours stands for
 * them. */
static jit_status mark_inside(jitc_cuda_stream *marks, intptr_t other, uint64_t *number) {
    bool capturing;
    CUcontext context;
    TRY(is_capturing(marks, other, &capturing));
    if (capturing)
        return fail_capture(other, "and what is captured does not run");
    TRY(find_context(marks, other, &context));
    if (context == marks->device->context)
        return jitc_cuda_mark_other(marks, handle_of(other), number);
    TRY(wait_for_other_context(marks, other, context));
    return jitc_cuda_mark_other(marks, marks->stream, number);
}

jit_status jitc_cuda_consumer_mark(jitc_cuda_stream *marks, intptr_t other, uint64_t *number) {
    INSIDE(marks->device, mark_inside(marks, other, number));
}
