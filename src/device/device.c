#include "device/device.h"
#include "device/lend.h"
#include "device/memory.h"
#include <stdlib.h>

jit_status jitc_device_create(jitc_backend *b, int id, const jitc_options *o, jitc_device **out) {
    void *memory = NULL;
    TRY(jitc_calloc(1, sizeof(jitc_device), &memory));
    jitc_device *d = memory;
    d->backend = b;
    d->id = id;
    d->options = o;
    jit_status status;
    TRY_GOTO(jitc_memory_create(d, &d->memory), device);
    TRY_GOTO(jitc_lender_create(d, &d->lender), memory);
    jitc_mutex_init(&d->lock);
    *out = d;
    return JIT_OK;
memory:
    jitc_memory_destroy(d->memory);
device:
    free(d);
    return status;
}

void jitc_device_destroy(jitc_device *d) {
    if (!d)
        return;
    jitc_device_sync(d);
    jitc_lender_destroy(d->lender);
    jitc_memory_destroy(d->memory);
    for (size_t i = 0; i < d->stream_count; ++i) {
        jitc_stream *s = d->streams[i];
        jitc_mutex_finish(&s->lock);
        d->backend->stream_destroy(s);
    }
    free(d->streams);
    jitc_mutex_finish(&d->lock);
    free(d);
}

static jit_status add_stream_locked(jitc_device *d, jitc_stream **out) REQUIRES(&d->lock) {
    TRY(jitc_grow((void **) &d->streams, &d->stream_capacity, d->stream_count + 1,
                  sizeof(jitc_stream *)));
    TRY(d->backend->stream_create(d->backend, d->id, out));
    jitc_stream *s = *out;
    s->backend = d->backend;
    s->device = d->id;
    s->index = (unsigned) d->stream_count + 1;
    s->next_idle = NULL;
    jitc_store_relaxed(&s->queued, 0);
    jitc_store_relaxed(&s->user_wait, 0);
    jitc_mutex_init(&s->lock);
    d->streams[d->stream_count++] = s;
    return JIT_OK;
}

/* Whoever takes a stream would wait in jit_sync_thread() for its former owner's work. */
static bool is_over(jitc_stream *s) {
    return s->backend->done(s, jitc_load_relaxed(&s->queued));
}

jit_status jitc_device_take_stream(jitc_device *d, jitc_stream **out) {
    jit_status status = JIT_OK;
    jitc_mutex_lock(&d->lock);
    jitc_stream **link = &d->idle_streams;
    while (*link && !is_over(*link))
        link = &(*link)->next_idle;
    if (*link) {
        *out = *link;
        *link = (*link)->next_idle;
    } else {
        status = add_stream_locked(d, out);
    }
    jitc_mutex_unlock(&d->lock);
    return status;
}

void jitc_device_give_stream(jitc_device *d, jitc_stream *s) {
    jitc_mutex_lock(&d->lock);
    s->next_idle = d->idle_streams;
    d->idle_streams = s;
    jitc_mutex_unlock(&d->lock);
}

jit_status jitc_device_end_stream(jitc_device *d, jitc_stream **out) {
    jitc_mutex_lock(&d->lock);
    jit_status status = d->ends ? JIT_OK : add_stream_locked(d, &d->ends);
    *out = d->ends;
    jitc_mutex_unlock(&d->lock);
    return status;
}

/* The i-th stream, or NULL: streams are only ever added. */
static jitc_stream *stream_at(jitc_device *d, size_t i) {
    jitc_mutex_lock(&d->lock);
    jitc_stream *s = i < d->stream_count ? d->streams[i] : NULL;
    jitc_mutex_unlock(&d->lock);
    return s;
}

jit_status jitc_device_sync(jitc_device *d) {
    jit_status status = JIT_OK;
    jitc_stream *s;
    jitc_lend_collect(d);
    for (size_t i = 0; (s = stream_at(d, i)) != NULL; ++i) {
        jit_status one =
            d->backend->wait(s, jitc_load_acquire(&s->queued)); /* pairs with queuers */
        if (status == JIT_OK)
            status = one;
    }
    return status;
}

void jitc_device_fork_hold(jitc_device *d) UNCHECKED_LOCKING {
    jitc_mutex_lock(&d->lock);
    for (size_t i = 0; d->backend->host_memory && i < d->stream_count; ++i)
        jitc_mutex_lock(&d->streams[i]->lock);
    jitc_memory_fork_hold(d->memory);
}

void jitc_device_fork_release(jitc_device *d) UNCHECKED_LOCKING {
    jitc_memory_fork_release(d->memory);
    for (size_t i = 0; d->backend->host_memory && i < d->stream_count; ++i)
        jitc_mutex_unlock(&d->streams[i]->lock);
    jitc_mutex_unlock(&d->lock);
}

/* Whoever held the other devices' streams may not exist here: their locks are made anew. */
void jitc_device_forked(jitc_device *d) {
    for (size_t i = 0; !d->backend->host_memory && i < d->stream_count; ++i)
        jitc_mutex_init(&d->streams[i]->lock);
    jitc_lend_forked(d);
    jitc_device_fork_release(d);
}
