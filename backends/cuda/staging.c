#include "cuda/staging.h"
#include "cuda/stream.h"
#include <stdlib.h>

enum {
    FIRST_SLAB = 2 * JITC_CUDA_CHUNK,
    LAST_SLAB = 32 * JITC_CUDA_CHUNK,
    LOOK = 8,   /* streams of which it is asked whether they are done with a chunk */
    PAUSE = 256 /* calls in which no pinned memory is asked for after there was none */
};

struct jitc_cuda_slab {
    jitc_cuda_slab *next;
    void *memory;
    size_t bytes;
    jitc_cuda_chunk chunk[];
};

void jitc_cuda_staging_finish(jitc_cuda_device *d, bool there) {
    jitc_cuda_staging *s = &d->staging;
    for (jitc_cuda_slab *slab = s->slabs, *next; slab; slab = next) {
        next = slab->next;
        if (there)
            d->backend->cuda.MemFreeHost(slab->memory);
        free(slab);
    }
    jitc_add_relaxed(&d->backend->base.pinned, 0 - (uint64_t) s->bytes);
}

/* ---- The list ---- */

static void append_locked(jitc_cuda_staging *s, jitc_cuda_chunk *c) REQUIRES(&s->lock) {
    c->next = NULL;
    if (s->first)
        s->last->next = c;
    else
        s->first = c;
    s->last = c;
}

static void remove_locked(jitc_cuda_device *d, jitc_cuda_chunk *before, jitc_cuda_chunk *c)
    REQUIRES(&d->staging.lock) {
    jitc_cuda_staging *s = &d->staging;
    if (before)
        before->next = c->next;
    else
        s->first = c->next;
    if (s->last == c)
        s->last = before;
}

/* The first whose last use is over. What a stream has not reached, it has not reached later either.
 */
static jitc_cuda_chunk *find_locked(jitc_cuda_device *d) REQUIRES(&d->staging.lock) {
    const jitc_cuda_stream *busy = NULL;
    jitc_cuda_chunk *before = NULL, *c = d->staging.first;
    for (int looks = 0; c && looks < LOOK; before = c, c = c->next) {
        if (c->stream && c->stream == busy)
            continue;
        if (!c->stream || jitc_cuda_reached(c->stream, c->number)) {
            remove_locked(d, before, c);
            return c;
        }
        busy = c->stream;
        ++looks;
    }
    return NULL;
}

/* ---- More of it ---- */

static size_t slab_bytes_locked(const jitc_cuda_device *d) REQUIRES(&d->staging.lock) {
    size_t limit = (size_t) d->backend->options->pinned_limit, have = d->staging.bytes;
    size_t wanted = have < FIRST_SLAB ? FIRST_SLAB : have < LAST_SLAB ? have : LAST_SLAB;
    size_t room = limit > have ? limit - have : 0;
    return (wanted < room ? wanted : room) / JITC_CUDA_CHUNK * JITC_CUDA_CHUNK;
}

/* Less, where so much cannot be had. */
static void *pin(const jitc_cuda *c, size_t *bytes) {
    void *memory = NULL;
    for (; *bytes; *bytes = *bytes / 2 / JITC_CUDA_CHUNK * JITC_CUDA_CHUNK)
        if (c->MemHostAlloc(&memory, *bytes, 0) == CUDA_SUCCESS)
            return memory;
    return NULL;
}

static void grow_locked(jitc_cuda_device *d) REQUIRES(&d->staging.lock) {
    jitc_cuda_staging *s = &d->staging;
    size_t bytes = slab_bytes_locked(d), count = bytes / JITC_CUDA_CHUNK;
    if (s->pause) {
        --s->pause;
        return;
    }
    jitc_cuda_slab *slab = count ? calloc(1, sizeof *slab + count * sizeof *slab->chunk) : NULL;
    void *memory = slab ? pin(&d->backend->cuda, &bytes) : NULL;
    if (!memory) {
        s->pause = count ? PAUSE : 0;
        free(slab);
        return;
    }
    *slab = (jitc_cuda_slab) {s->slabs, memory, bytes};
    s->slabs = slab;
    s->bytes += bytes;
    jitc_add_relaxed(&d->backend->base.pinned, (uint64_t) bytes);
    for (size_t i = 0; i < bytes / JITC_CUDA_CHUNK; ++i) {
        slab->chunk[i].pointer = (char *) memory + i * JITC_CUDA_CHUNK;
        slab->chunk[i].next = s->first;
        s->first = &slab->chunk[i];
        if (!s->last)
            s->last = s->first;
    }
}

/* ---- Taking and giving ---- */

/* *busy: it has to be waited for. */
static jitc_cuda_chunk *take_locked(jitc_cuda_device *d, bool wait, bool *busy)
    REQUIRES(&d->staging.lock) {
    jitc_cuda_staging *s = &d->staging;
    jitc_cuda_chunk *c = find_locked(d);
    *busy = false;
    if (c)
        return c;
    size_t before = s->bytes;
    grow_locked(d);
    *busy = s->bytes == before;
    c = *busy && !wait ? NULL : s->first;
    if (c)
        remove_locked(d, NULL, c);
    return c;
}

jit_status jitc_cuda_chunk_take(jitc_cuda_device *d, bool wait, jitc_cuda_chunk **out) {
    bool busy;
    jitc_mutex_lock(&d->staging.lock);
    jitc_cuda_chunk *c = *out = take_locked(d, wait, &busy);
    jitc_mutex_unlock(&d->staging.lock);
    if (c && busy) {
        jit_status status = jitc_cuda_reach(c->stream, c->number);
        if (status != JIT_OK) {
            jitc_cuda_chunk_give(d, c, c->stream, c->number);
            *out = NULL;
            return status;
        }
    }
    if (c)
        c->used = 0;
    return JIT_OK;
}

void jitc_cuda_chunk_give(jitc_cuda_device *d, jitc_cuda_chunk *c, jitc_cuda_stream *stream,
                          uint64_t number) {
    c->stream = stream;
    c->number = number;
    jitc_mutex_lock(&d->staging.lock);
    append_locked(&d->staging, c);
    jitc_mutex_unlock(&d->staging.lock);
}

void jitc_cuda_staging_forget(jitc_cuda_stream *stream) {
    jitc_cuda_staging *s = &stream->device->staging;
    if (stream->chunk)
        jitc_cuda_chunk_give(stream->device, stream->chunk, NULL, 0);
    stream->chunk = NULL;
    jitc_mutex_lock(&s->lock);
    for (jitc_cuda_chunk *c = s->first; c; c = c->next)
        if (c->stream == stream)
            c->stream = NULL;
    jitc_mutex_unlock(&s->lock);
}
