/* event.c: events.  Layer: tests.
 *
 * Recording queues a marker; the event remembers the marker's place, which is what a wait that is
 * queued later keeps, whatever becomes of the event. */
#include "order.h"
#include <time.h>

enum { EVENT_FLAGS = 7, EVENT_INTERPROCESS = 4 };

typedef struct sim_event {
    sim_object object;
    unsigned flags;
    bool recorded;
    sim_captured captured;
    sim_point point;
    sim_clock *clock;    /* what came before it */
    uint64_t generation; /* how often it was recorded */
    uint64_t time_ns;    /* when the marker of this generation ran */
} sim_event;

typedef struct marker {
    sim_work work;
    sim_event *event;
    uint64_t generation;
} marker;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static void end_marker(sim_work *w) {
    marker *m = (marker *) w;
    if (m->generation == m->event->generation)
        m->event->time_ns = now();
}

CUresult sim_cuEventCreate(CUevent *event, unsigned flags) {
    bool shared = flags & EVENT_INTERPROCESS;
    if (!event || flags > EVENT_FLAGS || (shared && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    sim_event *e = sim_object_create(SIM_EVENT, sizeof *e, sim_current());
    e->flags = flags;
    *event = sim_object_handle(e);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy_v2(CUevent event) {
    sim_event *e = sim_object_find(event, SIM_EVENT);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_object_end(e); /* what waits for it has its place */
    return CUDA_SUCCESS;
}

CUresult sim_cuEventRecord(CUevent event, CUstream stream) {
    sim_event *e = sim_object_find(event, SIM_EVENT);
    sim_stream *s = sim_stream_anywhere(stream);
    if (!e || !s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (e->object.context != s->object.context) {
        sim_fault("event %u is recorded on stream %u of another context", e->object.number,
                  s->object.number);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (sim_capture_record(s, &e->captured))
        return CUDA_SUCCESS;
    marker *m = sim_work_create(sizeof *m, "cuEventRecord", NULL);
    m->work.end = end_marker;
    m->event = e;
    m->generation = ++e->generation;
    e->recorded = true;
    e->point = sim_submit(&m->work, s);
    sim_order_keep(&e->clock, s);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    CUresult result;
    sim_stream *s = sim_stream_anywhere(stream);
    sim_event *e = sim_object_find(event, SIM_EVENT);
    if (!s || !e)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags != 0) /* CU_EVENT_WAIT_EXTERNAL, for captures only, is not simulated */
        return flags == 1 && s->capture ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    if (sim_capture_wait(s, &e->captured, &result))
        return result;
    sim_work *w = sim_work_create(sizeof *w, "cuStreamWaitEvent", NULL);
    sim_work_after(w, e->point);
    sim_order_after(s, e->clock);
    sim_submit(w, s);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventQuery(CUevent event) {
    sim_event *e = sim_object_find(event, SIM_EVENT);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_capture_wait_for_event(&e->captured) != CUDA_SUCCESS)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (!sim_point_done(e->point))
        return CUDA_ERROR_NOT_READY;
    sim_order_host(e->clock);
    return e->object.context->error;
}

CUresult sim_cuEventSynchronize(CUevent event) {
    sim_event *e = sim_object_find(event, SIM_EVENT);
    if (!e || sim_capture_wait_for_event(&e->captured) != CUDA_SUCCESS)
        return e ? CUDA_ERROR_CAPTURED_EVENT : CUDA_ERROR_INVALID_HANDLE;
    return sim_order_wait(e->point, e->clock, e->object.context);
}

CUresult sim_cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
    if (!ms)
        return CUDA_ERROR_INVALID_VALUE;
    sim_event *a = sim_object_find(start, SIM_EVENT), *b = sim_object_find(end, SIM_EVENT);
    if (!a || !b || a->object.context != b->object.context || !a->recorded || !b->recorded ||
        (a->flags | b->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (a->captured.capture || b->captured.capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (!sim_point_done(a->point) || !sim_point_done(b->point))
        return CUDA_ERROR_NOT_READY;
    sim_order_host(a->clock);
    sim_order_host(b->clock);
    *ms = (float) ((double) (int64_t) (b->time_ns - a->time_ns) * 1e-6);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end) {
    return sim_cuEventElapsedTime(ms, start, end);
}
