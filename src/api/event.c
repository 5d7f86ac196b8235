/* event.c: see event.h; and what is done at a place of the calling thread's stream. */
#include "api/event.h"
#include "core/mem.h"
#include <stdlib.h>

/* Bits of a public event's word; above them, the number of calls that are inside. */
enum { ENDED = 1u, OWNED = 2u, INSIDE = 4u };

struct jit_event {
    atomic_uint word;
    jitc_event *event;          /* NULL: ended */
    jit_event *next, *previous; /* in the runtime's list, under its events_lock */
};

/* Where the calling thread is inside: functions that it calls while it waits may fork. */
enum { MOST_INSIDE = 8 };
static _Thread_local struct {
    jit_event *event[MOST_INSIDE];
    unsigned count; /* may be more than there is room for */
} own;

static void list_locked(jit_event *e) REQUIRES(&jitc_runtime.events_lock) {
    e->next = jitc_runtime.events;
    if (e->next)
        e->next->previous = e;
    jitc_runtime.events = e;
}

/* The backend's event ends with it: while an event is listed its backend is there. */
static void unlist_locked(jit_event *e) REQUIRES(&jitc_runtime.events_lock) {
    if (!e->event)
        return;
    e->event->backend->event_destroy(e->event);
    e->event = NULL;
    *(e->previous ? &e->previous->next : &jitc_runtime.events) = e->next;
    if (e->next)
        e->next->previous = e->previous;
}

/* Nobody wants it any more. */
static void free_event(jit_event *e) {
    jitc_mutex_lock(&jitc_runtime.events_lock);
    unlist_locked(e);
    pthread_cond_broadcast(&jitc_runtime.events_left);
    jitc_mutex_unlock(&jitc_runtime.events_lock);
    free(e);
}

jit_status jitc_event_adopt(jit_backend b, void *native, bool timed, jit_event **out) {
    jitc_thread *t;
    jitc_started *s = NULL;
    jit_event *e;
    TRY(jitc_api_backend(native ? "jit_cuda_event_wrap" : "jit_event_create", b, &s));
    TRY(jitc_api_thread(&t));
    int device = t->current[jitc_backend_index(b)];
    TRY(jitc_calloc(1, sizeof *e, (void **) &e));
    jit_status status = s->backend->event_create(s->backend, device, timed, native, &e->event);
    if (status != JIT_OK) {
        free(e);
        return status;
    }
    e->event->backend = s->backend;
    e->event->device = device;
    e->event->timed = timed;
    jitc_store_relaxed(&e->word, OWNED);
    jitc_mutex_lock(&jitc_runtime.events_lock);
    list_locked(e);
    jitc_mutex_unlock(&jitc_runtime.events_lock);
    *out = e;
    return JIT_OK;
}

static void leave(jit_event *e) {
    /* The last look at e: if the word says so, others may free it from now on. */
    unsigned word = jitc_add_acq_rel(&e->word, 0u - INSIDE) - INSIDE;
    if (word < INSIDE && !(word & OWNED)) {
        free_event(e);
    } else if (word & ENDED) {
        jitc_mutex_lock(&jitc_runtime.events_lock);
        pthread_cond_broadcast(&jitc_runtime.events_left); /* jitc_event_end_all waits for it */
        jitc_mutex_unlock(&jitc_runtime.events_lock);
    }
}

void jitc_event_let_go(jit_event *e) {
    --own.count; /* the last one: calls are nested */
    leave(e);
}

jit_status jitc_event_hold(const char *function, jit_event *e, jitc_event **out) {
    if (!e)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: the event is NULL", function);
    if (jitc_add_acq_rel(&e->word, INSIDE) & ENDED) { /* pairs with jitc_event_end_all */
        leave(e);
        return jitc_fail(JIT_INVALID_HANDLE,
                         "%s: jit_shutdown() has ended the event; it can only be destroyed",
                         function);
    }
    if (own.count < MOST_INSIDE)
        own.event[own.count] = e;
    ++own.count;
    *out = e->event;
    return JIT_OK;
}

void jitc_event_end_all(void) {
    jit_event *e;
    jitc_mutex_lock(&jitc_runtime.events_lock);
    while ((e = jitc_runtime.events) != NULL) {
        /* ORDER: the mark before the count of calls inside, in one word with it; without it a call
         * that enters now would use an event that is gone. Pairs with jitc_event_hold. */
        if (atomic_fetch_or_explicit(&e->word, ENDED, memory_order_acq_rel) < INSIDE)
            unlist_locked(e);
        else
            jitc_cond_wait(&jitc_runtime.events_left, &jitc_runtime.events_lock);
    }
    jitc_mutex_unlock(&jitc_runtime.events_lock);
}

jit_status jit_event_create(jit_backend backend, bool timed, jit_event **out) {
    if (!out)
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_event_create: out is NULL");
    *out = NULL;
    return jitc_event_adopt(backend, NULL, timed, out);
}

void jit_event_destroy(jit_event *e) {
    /* pairs with jitc_event_let_go */
    if (e && atomic_fetch_and_explicit(&e->word, ~OWNED, memory_order_acq_rel) < INSIDE)
        free_event(e);
}

/* What the public functions do with the backend's event, between hold and let go. */

static jit_status record(jitc_event *e) {
    jitc_thread *t;
    jitc_thread_state *s;
    TRY(jitc_api_thread(&t));
    TRY(jitc_api_state(t, e->backend->id, e->device, &s));
    jitc_mutex_lock(&s->stream->lock);
    jit_status status = e->backend->event_record(e, s->stream);
    jitc_mutex_unlock(&s->stream->lock);
    return status;
}

jit_status jit_event_record(jit_event *event) {
    jitc_event *e;
    TRY(jitc_event_hold("jit_event_record", event, &e));
    jit_status status = record(e);
    jitc_event_let_go(event);
    return status;
}

jit_status jit_event_query(jit_event *event, bool *done) {
    jitc_event *e;
    if (!done)
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_event_query: done is NULL");
    TRY(jitc_event_hold("jit_event_query", event, &e));
    jit_status status = e->backend->event_done(e, done);
    jitc_event_let_go(event);
    return status;
}

jit_status jit_event_wait(jit_event *event) {
    jitc_event *e;
    TRY(jitc_event_hold("jit_event_wait", event, &e));
    jit_status status = e->backend->event_wait(e);
    jitc_event_let_go(event);
    return status;
}

/* The calling thread's stream on its device of a backend. */
static jit_status own_stream(jit_backend b, jitc_stream **out) {
    jitc_thread *t;
    jitc_thread_state *s;
    TRY(jitc_api_thread(&t));
    TRY(jitc_api_state(t, b, t->current[jitc_backend_index(b)], &s));
    *out = s->stream;
    return JIT_OK;
}

static jit_status stream_wait(jitc_event *e) {
    jitc_stream *s;
    TRY(own_stream(e->backend->id, &s));
    jitc_mutex_lock(&s->lock);
    jit_status status = e->backend->event_stream_wait(s, e);
    jitc_stream_note_user_wait(s);
    jitc_mutex_unlock(&s->lock);
    return status;
}

jit_status jit_event_stream_wait(jit_event *event) {
    jitc_event *e;
    TRY(jitc_event_hold("jit_event_stream_wait", event, &e));
    jit_status status = stream_wait(e);
    jitc_event_let_go(event);
    return status;
}

static jit_status elapsed(jitc_event *from, jitc_event *to, double *milliseconds) {
    if (from->backend != to->backend || from->device != to->device)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "jit_event_elapsed: the events are of two devices, whose clocks differ");
    if (!from->timed || !to->timed)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "jit_event_elapsed: the %s event was not made with `timed`",
                         from->timed ? "second" : "first");
    return from->backend->event_elapsed(from, to, milliseconds);
}

jit_status jit_event_elapsed(jit_event *from, jit_event *to, double *milliseconds) {
    jitc_event *a, *b;
    if (!milliseconds)
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_event_elapsed: milliseconds is NULL");
    TRY(jitc_event_hold("jit_event_elapsed", from, &a));
    jit_status status = jitc_event_hold("jit_event_elapsed", to, &b);
    if (status == JIT_OK) {
        status = elapsed(a, b, milliseconds);
        jitc_event_let_go(to);
    }
    jitc_event_let_go(from);
    return status;
}

jit_status jit_call(jit_backend backend, void (*function)(void *), void *context) {
    jitc_started *started;
    jitc_stream *s;
    uint64_t number;
    TRY(jitc_api_backend("jit_call", backend, &started));
    if (!function)
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_call: function is NULL");
    TRY(own_stream(backend, &s));
    jitc_mutex_lock(&s->lock);
    jit_status status = s->backend->call(s, function, context, &number);
    if (status == JIT_OK)
        jitc_store_release(&s->queued, number); /* pairs with jit_sync_thread */
    jitc_mutex_unlock(&s->lock);
    return status;
}

/* Events that nobody wants any more, and that a thread which is gone would have freed, stay in
 * the list until jit_shutdown(). */
void jitc_event_forked_locked(void) {
    for (jit_event *e = jitc_runtime.events; e; e = e->next) {
        unsigned word = jitc_load_relaxed(&e->word) & (INSIDE - 1);
        for (unsigned i = 0; i < own.count && i < MOST_INSIDE; ++i)
            if (own.event[i] == e)
                word += INSIDE;
        jitc_store_relaxed(&e->word, word);
    }
}
