/* place.c: places in queues, and when they were reached.  Layer: llvm.  May include: core.
 *
 * All is guarded by the pool's lock: a place is shared by threads, and after a fork() nobody could
 * open a lock of its own that another thread held. */
#include "llvm/workers_private.h"

static void append_locked(jitc_pool *p, jitc_queue *q, jitc_place *place) REQUIRES(&p->lock) {
    (void) p;
    place->next = NULL;
    place->previous = q->last_place;
    *(place->previous ? &place->previous->next : &q->places) = place;
    q->last_place = place;
    place->listed = true;
}

static void unlink_locked(jitc_pool *p, jitc_place *place) REQUIRES(&p->lock) {
    jitc_queue *q = place->queue;
    (void) p;
    if (!place->listed)
        return;
    place->listed = false;
    *(place->previous ? &place->previous->next : &q->places) = place->next;
    *(place->next ? &place->next->previous : &q->last_place) = place->previous;
}

void jitc_place_reached_locked(jitc_pool *p, jitc_queue *q, uint64_t n) {
    jitc_place *place = q->places;
    int64_t now = place && place->number <= n ? jitc_now_ns() : 0;
    for (; (place = q->places) && place->number <= n; place->time_ns = now)
        unlink_locked(p, place);
}

void jitc_place_set(jitc_place *place, jitc_queue *q, bool timed) {
    jitc_pool *p = q->pool;
    int64_t now = timed ? jitc_now_ns() : 0;
    jitc_spin_lock(&p->lock);
    unlink_locked(p, place);
    place->queue = q;
    place->number = jitc_load_relaxed(&q->last);
    bool reached = jitc_queue_done(q, place->number);
    place->time_ns = reached ? now : 0;
    if (timed && !reached)
        append_locked(p, q, place);
    jitc_spin_unlock(&p->lock);
}

jitc_place jitc_place_get(jitc_pool *p, const jitc_place *place) {
    jitc_spin_lock(&p->lock);
    jitc_place copy = {.queue = place->queue, .number = place->number, .time_ns = place->time_ns};
    jitc_spin_unlock(&p->lock);
    return copy;
}

void jitc_place_finish(jitc_pool *p, jitc_place *place) {
    jitc_spin_lock(&p->lock);
    unlink_locked(p, place);
    jitc_spin_unlock(&p->lock);
}
