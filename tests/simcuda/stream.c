/* stream.c: streams.  Layer: tests. */
#include "order.h"
#include <stdatomic.h>

static sim_stream *all;
static bool reuses_handles;

sim_stream *sim_streams(void) {
    return all;
}

sim_stream *sim_stream_create(sim_context *c, sim_stream_kind kind) {
    sim_stream *s = sim_object_create(SIM_STREAM, sizeof *s, c);
    s->kind = kind;
    s->task = all ? all->task + 1 : 0;
    s->object.implicit = kind == SIM_LEGACY || kind == SIM_PER_THREAD;
    s->next = all;
    all = s;
    return s;
}

uint64_t sim_thread(void) {
    static _Atomic uint64_t threads;
    static __thread uint64_t thread;
    if (!thread)
        thread = ++threads;
    return thread;
}

/** The default stream of the calling thread in context `c`. */
static sim_stream *per_thread(sim_context *c) {
    uint64_t thread = sim_thread();
    for (sim_stream *s = all; s; s = s->next)
        if (s->object.context == c && s->kind == SIM_PER_THREAD && s->thread == thread)
            return s;
    sim_stream *s = sim_stream_create(c, SIM_PER_THREAD);
    s->thread = thread;
    return s;
}

sim_stream *sim_stream_any(CUstream handle) {
    bool is_default = handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
    if (!is_default)
        return sim_object_find(handle, SIM_STREAM);
    sim_context *c = sim_current();
    if (!c)
        return sim_refuse(CUDA_ERROR_INVALID_CONTEXT), NULL;
    return handle == CU_STREAM_LEGACY ? c->legacy : per_thread(c);
}

/** `s`, unless a capture forbids its use. */
static sim_stream *usable(sim_stream *s) {
    CUresult result = s ? sim_capture_use(s) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        return s;
    sim_refuse(result);
    return NULL;
}

sim_stream *sim_stream_anywhere(CUstream handle) {
    return usable(sim_stream_any(handle));
}

sim_stream *sim_stream_find(CUstream handle) {
    bool is_default = handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
    return usable(is_default ? sim_stream_any(handle) : sim_object_here(handle, SIM_STREAM));
}

CUresult sim_cuStreamCreate(CUstream *stream, unsigned flags) {
    return sim_cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult sim_cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    if (!stream || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_create(
        sim_current(), flags & CU_STREAM_NON_BLOCKING ? SIM_NON_BLOCKING : SIM_BLOCKING);
    s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    if (reuses_handles)
        sim_object_take_handle(s);
    *stream = sim_object_handle(s);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamDestroy_v2(CUstream stream) {
    if ((uintptr_t) stream <= (uintptr_t) CU_STREAM_PER_THREAD) {
        sim_fault("a default stream is destroyed");
        return CUDA_ERROR_INVALID_HANDLE;
    }
    sim_stream *s = sim_object_find(stream, SIM_STREAM);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture) {
        sim_fault("stream %u is destroyed while it captures", s->object.number);
        return sim_capture_wait_for_stream(s);
    }
    sim_object_end(s); /* what is queued on it goes on */
    return CUDA_SUCCESS;
}

/** Where the work stands for which a synchronisation with `s` waits: on the legacy stream, that of
 *  the blocking streams, too. */
static sim_point end_for_host(sim_stream *s) {
    if (s->kind != SIM_LEGACY)
        return sim_stream_end(s);
    return sim_submit(sim_work_create(sizeof(sim_work), "cuStreamSynchronize", NULL), s);
}

CUresult sim_cuStreamSynchronize(CUstream stream) {
    sim_stream *s = sim_stream_anywhere(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = sim_capture_wait_for_stream(s);
    if (result != CUDA_SUCCESS)
        return result;
    sim_point end = end_for_host(s);
    return sim_order_wait(end, s->clock, s->object.context);
}

/** Does a query of `s` ask for `t`, too? */
static bool is_asked(const sim_stream *s, const sim_stream *t) {
    return t == s || (s->kind == SIM_LEGACY && t->object.context == s->object.context &&
                      t->kind != SIM_NON_BLOCKING);
}

CUresult sim_cuStreamQuery(CUstream stream) {
    sim_stream *s = sim_stream_anywhere(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_capture_wait_for_stream(s) != CUDA_SUCCESS)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    for (sim_stream *t = all; t; t = t->next)
        if (is_asked(s, t) && t->head)
            return CUDA_ERROR_NOT_READY;
    for (sim_stream *t = all; t; t = t->next)
        if (is_asked(s, t))
            sim_order_host(t->clock);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCtx(CUstream stream, CUcontext *context) {
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_any(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_capture_status(s) == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *context = sim_object_handle(s->object.context);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetFlags(CUstream stream, unsigned *flags) {
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_any(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    *flags = s->kind == SIM_NON_BLOCKING ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetPriority(CUstream stream, int *priority) {
    if (!priority)
        return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_any(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    *priority = s->priority;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetId(CUstream stream, unsigned long long *id) {
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_any(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    *id = s->task + 1; /* no other stream ever has it, whatever its handle */
    return sim_capture_wait_for_stream(s);
}

__attribute__((visibility("default"))) void simcuda_reuse_handles(bool on) {
    reuses_handles = on;
}

CUresult sim_cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument) {
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_find(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_work *w = sim_work_create(sizeof *w, "cuLaunchHostFunc", NULL);
    w->function = function;
    w->argument = argument;
    sim_submit(w, s);
    return CUDA_SUCCESS;
}
