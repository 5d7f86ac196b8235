/* event.c: events of the CPU backend.  Layer: llvm.  May include: core, ir, device. */
#include "llvm/event.h"
#include "core/mem.h"
#include <stdlib.h>

typedef struct llvm_event {
    jitc_event base;
    jitc_pool *pool;
    jitc_place place; /* its queue lives as long as the device */
} llvm_event;

static llvm_event *event_of(jitc_event *e) {
    return (llvm_event *) e;
}

static jitc_place place_of(jitc_event *e) {
    return jitc_place_get(event_of(e)->pool, &event_of(e)->place);
}

static bool is_reached(const jitc_place *p) {
    return !p->queue || jitc_queue_done(p->queue, p->number);
}

jit_status jitc_llvm_event_create(jitc_pool *p, void *native, jitc_event **out) {
    llvm_event *e;
    if (native)
        return jitc_fail(JIT_UNSUPPORTED, "llvm: there are no events of others on the CPU");
    TRY(jitc_calloc(1, sizeof *e, (void **) &e));
    e->pool = p;
    *out = &e->base;
    return JIT_OK;
}

void jitc_llvm_event_destroy(jitc_event *e) {
    jitc_place_finish(event_of(e)->pool, &event_of(e)->place);
    free(e);
}

jit_status jitc_llvm_event_record(jitc_event *e, jitc_stream *s) {
    jitc_place_set(&event_of(e)->place, jitc_llvm_queue(s), e->timed);
    return JIT_OK;
}

jit_status jitc_llvm_event_done(jitc_event *e, bool *done) {
    jitc_place p = place_of(e);
    *done = is_reached(&p);
    if (!*done)
        jitc_pool_resume(event_of(e)->pool);
    return JIT_OK;
}

jit_status jitc_llvm_event_wait(jitc_event *e) {
    jitc_place p = place_of(e);
    if (p.queue)
        jitc_queue_wait(p.queue, p.number);
    return JIT_OK;
}

jit_status jitc_llvm_event_stream_wait(jitc_stream *s, jitc_event *e) {
    uint64_t number;
    jitc_place p = place_of(e);
    if (!p.queue)
        return JIT_OK;
    /* ORDER: what is before the event before what s is given from now on, by a wait in its queue;
     * without it both run side by side. */
    TRY(jitc_queue_wait_for(jitc_llvm_queue(s), p.queue, p.number, &number));
    jitc_store_release(&s->queued, number); /* pairs with readers of the stream's last number */
    return JIT_OK;
}

static jit_status time_of(jitc_event *e, const char *which, int64_t *ns) {
    jitc_place p = place_of(e);
    if (!p.queue)
        return jitc_fail(JIT_INVALID_ARGUMENT, "llvm: the %s event was never recorded", which);
    if (!is_reached(&p))
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "llvm: work before the %s event is not over: wait for the event first",
                         which);
    p = place_of(e); /* the time may have been noted in between */
    *ns = p.time_ns;
    if (!*ns)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "llvm: the %s event has no time: it was recorded again meanwhile", which);
    return JIT_OK;
}

jit_status jitc_llvm_event_elapsed(jitc_event *from, jitc_event *to, double *milliseconds) {
    int64_t begin, end;
    TRY(time_of(from, "first", &begin));
    TRY(time_of(to, "second", &end));
    *milliseconds = (double) (end - begin) / 1e6;
    return JIT_OK;
}
