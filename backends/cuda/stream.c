/* stream.c: what the device has done, and waiting for it, on the CPU and on the device.
 * Layer: cuda. */
#include "cuda/stream.h"
#include "core/mem.h"
#include <stdlib.h>

/* ---- Marks ---- */

/* What went wrong where. */
typedef struct outcome {
    CUresult result;
    jitc_cuda_function function;
} outcome;

static outcome take_mark_locked(jitc_cuda_stream *s, jitc_cuda_mark **out) REQUIRES(&s->mutex) {
    outcome o = {CUDA_SUCCESS, JITC_CU_EventCreate};
    jitc_cuda_mark *m = *out = s->free_marks;
    if (m) {
        s->free_marks = m->next;
        return o;
    }
    m = calloc(1, sizeof *m);
    o.result = m ? jitc_cuda_of(s)->EventCreate(&m->event, CU_EVENT_DISABLE_TIMING)
                 : CUDA_ERROR_OUT_OF_MEMORY;
    if (o.result != CUDA_SUCCESS) {
        free(m);
        return o;
    }
    *out = m;
    return o;
}

static void drop_mark_locked(jitc_cuda_stream *s, jitc_cuda_mark *m) REQUIRES(&s->mutex) {
    if (--m->users)
        return;
    m->next = s->free_marks;
    s->free_marks = m;
}

static void forget_first_locked(jitc_cuda_stream *s) REQUIRES(&s->mutex) {
    drop_mark_locked(s, s->mark[0]);
    --s->marks;
    for (unsigned i = 0; i < s->marks; ++i)
        s->mark[i] = s->mark[i + 1];
}

/* A mark for `number`, the last one, behind what is queued on `where`. */
static outcome record_on_locked(jitc_cuda_stream *s, CUstream where, uint64_t number,
                                jitc_cuda_mark **out) REQUIRES(&s->mutex) {
    jitc_cuda_mark *m;
    *out = NULL;
    outcome o = take_mark_locked(s, &m);
    if (o.result != CUDA_SUCCESS)
        return o;
    m->users = 1;
    m->number = number;
    o = (outcome) {jitc_cuda_of(s)->EventRecord(m->event, where), JITC_CU_EventRecord};
    if (o.result != CUDA_SUCCESS) {
        drop_mark_locked(s, m);
        return o;
    }
    if (s->marks == JITC_CUDA_MARKS)
        forget_first_locked(s);
    s->mark[s->marks++] = *out = m;
    return o;
}

/* A mark behind all that has been submitted. */
static outcome record_locked(jitc_cuda_stream *s, jitc_cuda_mark **out) REQUIRES(&s->mutex) {
    if (s->marks && s->mark[s->marks - 1]->number == s->submitted) {
        *out = s->mark[s->marks - 1];
        return (outcome) {CUDA_SUCCESS, JITC_CU_EventRecord};
    }
    return record_on_locked(s, s->stream, s->submitted, out);
}

/* The first mark at or behind number n, which has been submitted. */
static outcome find_locked(jitc_cuda_stream *s, uint64_t n, jitc_cuda_mark **out)
    REQUIRES(&s->mutex) {
    for (unsigned i = 0; i < s->marks; ++i)
        if (s->mark[i]->number >= n) {
            *out = s->mark[i];
            return (outcome) {CUDA_SUCCESS, JITC_CU_EventRecord};
        }
    return record_locked(s, out);
}

void jitc_cuda_mark_locked(jitc_cuda_stream *s) {
    jitc_cuda_mark *ignored;
    record_locked(s, &ignored);
}

static void note_finished_locked(jitc_cuda_stream *s, uint64_t n) REQUIRES(&s->mutex) {
    if (n > jitc_load_relaxed(&s->finished))
        jitc_store_release(&s->finished, n); /* pairs with jitc_cuda_reached */
    while (s->marks && s->mark[0]->number <= n)
        forget_first_locked(s);
}

uint64_t jitc_cuda_submitted_locked(jitc_cuda_stream *s) {
    s->submitted = jitc_load_relaxed(&s->last) + 1;
    jitc_store_release(&s->handed, s->submitted); /* pairs with is_submitted in foreign.c */
    jitc_store_release(&s->last, s->submitted);   /* pairs with is_idle in module.c */
    return s->submitted;
}

/* ---- Creating and destroying ---- */

static jit_status create_handles(jitc_cuda_stream *s) {
    const jitc_cuda *c = jitc_cuda_of(s);
    unsigned flags = s->is_consumer ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    TRY(jitc_cuda_device_check(s->device, c->StreamCreate(&s->stream, flags),
                               JITC_CU_StreamCreate));
    jit_status status = jitc_cuda_device_check(
        s->device, c->EventCreate(&s->sync_stream_event, CU_EVENT_DISABLE_TIMING),
        JITC_CU_EventCreate);
    if (status != JIT_OK)
        c->StreamDestroy(s->stream);
    return status;
}

static jit_status create(jitc_cuda_device *d, bool is_consumer, jitc_cuda_stream **out) {
    void *p;
    TRY(jitc_calloc(1, sizeof(jitc_cuda_stream), &p));
    jitc_cuda_stream *s = p;
    s->device = d;
    s->is_consumer = is_consumer;
    jit_status status = create_handles(s);
    if (status != JIT_OK) {
        free(s);
        return status;
    }
    jitc_mutex_init(&s->mutex);
    jitc_store_relaxed(&s->first_call, UINT64_MAX);
    *out = s;
    return JIT_OK;
}

jit_status jitc_cuda_consumer_create(jitc_cuda_device *d, jitc_cuda_stream **out) {
    return create(d, true, out);
}

jit_status jitc_cuda_stream_create(jitc_cuda_device *d, jitc_cuda_stream **out) {
    TRY(create(d, false, out));
    jitc_mutex_lock(&d->lock);
    (*out)->next = d->streams;
    d->streams = *out;
    jitc_add_relaxed(&d->stream_count, 1u);
    jitc_mutex_unlock(&d->lock);
    return JIT_OK;
}

static void unlink_stream(jitc_cuda_device *d, jitc_cuda_stream *s) {
    jitc_mutex_lock(&d->lock);
    jitc_cuda_stream **link = &d->streams;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    jitc_sub_release(&d->stream_count, 1u);
    jitc_mutex_unlock(&d->lock);
}

/* `there`: the context is, and with it what was made in it. */
static void free_marks(jitc_cuda_stream *s, bool there) UNCHECKED_LOCKING {
    while (s->marks)
        forget_first_locked(s);
    for (jitc_cuda_mark *m = s->free_marks, *next; m; m = next) {
        next = m->next;
        if (there)
            jitc_cuda_of(s)->EventDestroy(m->event);
        free(m);
    }
}

/* It cannot be destroyed without harm to a capture that is not over: then it stays. */
static void destroy_probe(jitc_cuda_stream *s) {
    int state = CU_STREAM_CAPTURE_STATUS_NONE;
    if (s->probe && jitc_cuda_of(s)->StreamIsCapturing(s->probe, &state) == CUDA_SUCCESS &&
        state == CU_STREAM_CAPTURE_STATUS_NONE)
        jitc_cuda_of(s)->StreamDestroy(s->probe);
}

void jitc_cuda_stream_destroy(jitc_cuda_stream *s) {
    jitc_cuda_scope scope;
    jitc_cuda_calls_wait(s, UINT64_MAX - 1);
    if (!s->is_consumer)
        unlink_stream(s->device, s);
    else if (s->device->backend->forked)
        jitc_mutex_init(&s->mutex); /* whoever held it is not there */
    jitc_cuda_staging_forget(s);
    bool there = jitc_cuda_enter_failed(s->device, &scope);
    free_marks(s, there);
    jitc_cuda_batch_finish(there ? jitc_cuda_of(s) : NULL, &s->batch);
    jitc_cuda_states_finish(s, there);
    free(s->params);
    if (there) {
        jitc_cuda_tables_finish(s);
        jitc_cuda_of(s)->EventDestroy(s->sync_stream_event);
        destroy_probe(s);
        jitc_cuda_of(s)->StreamDestroy(s->stream);
    }
    jitc_cuda_leave(s->device, &scope);
    jitc_mutex_finish(&s->mutex);
    free(s);
}

/* ---- Waiting ---- */

jit_status jitc_cuda_flush(jitc_cuda_stream *s) {
    jitc_mutex_lock(&s->mutex);
    jit_status status = jitc_cuda_flush_locked(s);
    jitc_mutex_unlock(&s->mutex);
    return status;
}

/* Number n has been submitted. An error that is not final says nothing: it is asked again. */
static bool query_locked(jitc_cuda_stream *s, uint64_t n) REQUIRES(&s->mutex) {
    jitc_cuda_mark *m;
    outcome o = find_locked(s, n, &m);
    if (o.result == CUDA_SUCCESS)
        o = (outcome) {jitc_cuda_of(s)->EventQuery(m->event), JITC_CU_EventQuery};
    if (o.result == CUDA_SUCCESS)
        note_finished_locked(s, m->number);
    else if (jitc_cuda_is_final(o.result))
        jitc_cuda_device_fail(s->device, o.result, o.function, "");
    return o.result == CUDA_SUCCESS || jitc_cuda_is_final(o.result);
}

bool jitc_cuda_reached(jitc_cuda_stream *s, uint64_t n) {
    jitc_cuda_scope scope;
    bool reached = true;
    if (n <= jitc_load_acquire(&s->finished)) /* pairs with note_finished_locked */
        return true;
    if (!jitc_cuda_enter_failed(s->device, &scope))
        return true; /* nothing runs where no context is */
    jitc_mutex_lock(&s->mutex);
    if (n > jitc_load_relaxed(&s->finished))
        reached = n <= s->submitted && query_locked(s, n);
    jitc_mutex_unlock(&s->mutex);
    jitc_cuda_leave(s->device, &scope);
    return reached;
}

/* What to wait for; NULL: all of the stream. */
static jitc_cuda_mark *hold_mark(jitc_cuda_stream *s, uint64_t n) {
    jitc_cuda_mark *m = NULL;
    jitc_mutex_lock(&s->mutex);
    if (n > s->submitted)
        jitc_cuda_flush_locked(s); /* if it fails, so has the device, which is looked at below */
    if (find_locked(s, n, &m).result == CUDA_SUCCESS)
        ++m->users;
    jitc_mutex_unlock(&s->mutex);
    return m;
}

static outcome wait_for_mark(jitc_cuda_stream *s, jitc_cuda_mark *m) {
    outcome o = {jitc_cuda_of(s)->EventSynchronize(m->event), JITC_CU_EventSynchronize};
    jitc_mutex_lock(&s->mutex);
    if (o.result == CUDA_SUCCESS)
        note_finished_locked(s, m->number);
    drop_mark_locked(s, m);
    jitc_mutex_unlock(&s->mutex);
    return o;
}

static outcome wait_for_all(jitc_cuda_stream *s) {
    jitc_mutex_lock(&s->mutex);
    uint64_t submitted = s->submitted;
    jitc_mutex_unlock(&s->mutex);
    outcome o = {jitc_cuda_of(s)->StreamSynchronize(s->stream), JITC_CU_StreamSynchronize};
    jitc_mutex_lock(&s->mutex);
    if (o.result == CUDA_SUCCESS)
        note_finished_locked(s, submitted);
    jitc_mutex_unlock(&s->mutex);
    return o;
}

static outcome wait_inside(jitc_cuda_stream *s, uint64_t n) {
    jitc_cuda_mark *m = hold_mark(s, n);
    outcome o = {CUDA_ERROR_UNKNOWN, JITC_CU_EventSynchronize};
    if (m)
        o = wait_for_mark(s, m);
    if (o.result != CUDA_SUCCESS && !jitc_cuda_is_final(o.result) && !s->is_consumer)
        o = wait_for_all(s); /* without events, then */
    if (jitc_cuda_is_final(o.result))
        jitc_cuda_device_fail(s->device, o.result, o.function, "");
    return o;
}

jit_status jitc_cuda_reach(jitc_cuda_stream *s, uint64_t n) {
    jitc_cuda_device *d = s->device;
    jitc_cuda_scope scope;
    outcome o = {CUDA_SUCCESS, JITC_CU_EventSynchronize};
    if (d->backend->forked && n <= jitc_load_relaxed(&s->finished))
        return JIT_OK; /* before the fork */
    /* pairs with note_finished_locked */
    if (n > jitc_load_acquire(&s->finished) && jitc_cuda_enter_failed(d, &scope)) {
        o = wait_inside(s, n);
        jitc_cuda_leave(d, &scope);
    }
    if (jitc_load_acquire(&d->failed)) /* pairs with note_locked */
        return d->cause == CUDA_ERROR_DEINITIALIZED ? JIT_OK : jitc_cuda_device_raise(d);
    return jitc_cuda_check(&d->backend->cuda, o.result, o.function);
}

/* What s knows of `other`; made in place of the oldest entry if there is nothing. */
static jitc_cuda_waited *find_waited(jitc_cuda_stream *s, const jitc_cuda_stream *other) {
    for (int i = 0; i < JITC_CUDA_WAITED; ++i)
        if (s->waited[i].other == other)
            return &s->waited[i];
    jitc_cuda_waited *oldest = &s->waited[s->next_waited++ % JITC_CUDA_WAITED];
    *oldest = (jitc_cuda_waited) {.other = other};
    return oldest;
}

/* Number n of `other` has been submitted. *reached: which number is waited for. */
static outcome wait_for_event_locked(jitc_cuda_stream *s, jitc_cuda_stream *other, uint64_t n,
                                     uint64_t *reached) REQUIRES(&other->mutex) {
    jitc_cuda_mark *m;
    outcome o = find_locked(other, n, &m);
    if (o.result != CUDA_SUCCESS)
        return o;
    *reached = m->number;
    /* ORDER: work queued on s from now on after number n of `other`, by its event. What s holds
     * back comes behind the event as well, which does no harm: `other` has handed over all that n
     * depends on, and so waits for nothing that s holds. */
    return (outcome) {jitc_cuda_of(s)->StreamWaitEvent(s->stream, m->event, 0),
                      JITC_CU_StreamWaitEvent};
}

jit_status jitc_cuda_stream_wait(jitc_cuda_stream *s, jitc_cuda_stream *other, uint64_t n) {
    uint64_t reached = n;
    if (s == other || n <= jitc_load_acquire(&other->finished)) /* pairs with note_finished */
        return JIT_OK;
    jitc_cuda_waited *waited = find_waited(s, other);
    if (n <= waited->number)
        return JIT_OK;
    jitc_mutex_lock(&other->mutex);
    jit_status status = n > other->submitted ? jitc_cuda_flush_locked(other) : JIT_OK;
    if (status == JIT_OK) {
        outcome o = wait_for_event_locked(s, other, n, &reached);
        status = jitc_cuda_device_check(s->device, o.result, o.function);
    }
    jitc_mutex_unlock(&other->mutex);
    if (status == JIT_OK) {
        waited->number = reached;
        jitc_cuda_note_wait(s);
    }
    return status;
}

void jitc_cuda_note_wait(jitc_cuda_stream *s) {
    jitc_mutex_lock(&s->mutex);
    if (!s->batch.count) /* else what is held back comes behind it and stands for it */
        jitc_store_release(&s->base.queued, jitc_cuda_submitted_locked(s)); /* pairs with waiters */
    jitc_mutex_unlock(&s->mutex);
}

jit_status jitc_cuda_mark_other(jitc_cuda_stream *s, CUstream other, uint64_t *number) {
    jitc_cuda_mark *m;
    jitc_mutex_lock(&s->mutex);
    outcome o = record_on_locked(s, other, s->submitted + 1, &m);
    if (o.result == CUDA_SUCCESS)
        *number = jitc_cuda_submitted_locked(s);
    jitc_store_release(&s->base.queued, s->submitted); /* pairs with waiters */
    jitc_mutex_unlock(&s->mutex);
    return jitc_cuda_device_check(s->device, o.result, o.function);
}

void jitc_cuda_stream_forked(jitc_cuda_stream *s) {
    jitc_mutex_init(&s->mutex); /* a thread that is not there any more may have held it */
    jitc_spin_init(&s->recent.lock);
    jitc_store_relaxed(&s->first_call, UINT64_MAX);
}
