/* cuda.c: order with streams of CUDA that others own.  Layer: api.  May include: all layers.
 *
 * Nothing here belongs to the backend of that name: where it is not built, or was not started, each
 * function says so. */
#include "api/eval.h"
#include "api/event.h"
#include "device/lend.h"
#include <jit/cuda.h>

enum { STREAM_AMBIGUOUS = 0 }; /* one of the two default streams, or one that cannot be named */

/* What the functions here work on. */
typedef struct place {
    jitc_thread *thread;
    int device;
    jitc_thread_state *state; /* NULL: the thread has not used the device */
} place;

static jit_status find_place(const char *function, place *out) {
    jitc_started *s = NULL;
    TRY(jitc_api_backend(function, JIT_CUDA, &s));
    TRY(jitc_api_thread(&out->thread));
    out->device = out->thread->current[jitc_backend_index(JIT_CUDA)];
    jitc_thread_state *state = &out->thread->state[jitc_backend_index(JIT_CUDA)][out->device];
    out->state = state->device ? state : NULL;
    return JIT_OK;
}

static jit_status make_state(place *p) {
    return p->state ? JIT_OK : jitc_api_state(p->thread, JIT_CUDA, p->device, &p->state);
}

/* The token as one of backend.h. */
static jit_status read_token(const char *function, uintptr_t stream, intptr_t *out) {
    *out = (intptr_t) stream;
    if (*out == JIT_STREAM_NOT_GIVEN)
        *out = JITC_STREAM_LEGACY;
    if (*out < JITC_STREAM_NONE)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "%s: %lld stands for no stream; use one of JIT_STREAM_..., 0, or a "
                         "CUstream",
                         function, (long long) *out);
    return JIT_OK;
}

jit_status jit_cuda_sync_stream(uintptr_t stream) {
    static const char name[] = "jit_cuda_sync_stream";
    place p;
    intptr_t other;
    TRY(find_place(name, &p));
    TRY(read_token(name, stream, &other));
    if (p.thread->scheduled_count)
        TRY(jitc_eval_thread(name, p.thread, 0, false));
    if (other == STREAM_AMBIGUOUS)
        return jitc_api_sync_thread(p.thread);
    TRY(find_place(name, &p)); /* it may have been made now */
    if (!p.state)
        return JIT_OK;
    jitc_stream *s = p.state->stream;
    jitc_mutex_lock(&s->lock);
    jitc_consumer_seen(p.state->device, s, other);
    jit_status status = s->backend->stream_release(s, other);
    jitc_mutex_unlock(&s->lock);
    return status;
}

jit_status jit_cuda_wait_stream(uintptr_t stream) {
    static const char name[] = "jit_cuda_wait_stream";
    place p;
    intptr_t other;
    TRY(find_place(name, &p));
    TRY(read_token(name, stream, &other));
    TRY(make_state(&p));
    jitc_stream *s = p.state->stream;
    jitc_mutex_lock(&s->lock);
    jitc_consumer_seen(p.state->device, s, other);
    jit_status status = s->backend->stream_acquire(s, other);
    jitc_stream_note_user_wait(s);
    jitc_mutex_unlock(&s->lock);
    return status;
}

static jit_status find_native(const char *function, void **stream, void **context) {
    place p;
    TRY(find_place(function, &p));
    TRY(make_state(&p));
    p.state->stream->backend->stream_native(p.state->stream, stream, context);
    return JIT_OK;
}

void *jit_cuda_stream(void) {
    void *stream = NULL, *context;
    return find_native("jit_cuda_stream", &stream, &context) == JIT_OK ? stream : NULL;
}

void *jit_cuda_context(void) {
    void *context = NULL;
    return find_native("jit_cuda_context", NULL, &context) == JIT_OK ? context : NULL;
}

jit_status jit_cuda_event_wrap(void *event, jit_event **out) {
    if (!event || !out)
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_cuda_event_wrap: %s is NULL",
                         event ? "out" : "event");
    *out = NULL;
    return jitc_event_adopt(JIT_CUDA, event, true, out); /* timed or not: the driver will tell */
}

void *jit_cuda_event(jit_event *event) {
    jitc_event *e;
    if (jitc_event_hold("jit_cuda_event", event, &e) != JIT_OK)
        return NULL;
    void *native = e->backend->event_native(e);
    jitc_event_let_go(event);
    if (!native)
        jitc_fail(JIT_UNSUPPORTED, "jit_cuda_event: events of the CPU backend have no CUevent");
    return native;
}
