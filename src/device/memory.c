#include "device/memory.h"
#include <stdlib.h>

enum {
    SMALLEST = 512,   /* bytes of the first class */
    CLASSES = 8 * 48, /* 8 an octave, from 512 bytes up */
    LOOK = 4          /* blocks of a class looked at for one that needs no waiting */
};

struct jitc_memory {
    jitc_device *device;
    jitc_spin lock; /* guards the lists and the figures */
    jitc_buffer *list[CLASSES];
    jitc_memory_stats stats;
};

/* The class of a size, and the class's size in *rounded: (8 + k) 2^e units, k = 0 ... 7. */
static unsigned size_class(size_t bytes, size_t *rounded) {
    size_t units = (bytes + SMALLEST - 1) / SMALLEST;
    if (units <= 8) {
        units += !units;
        *rounded = units * SMALLEST;
        return (unsigned) units - 1;
    }
    unsigned e = 60 - (unsigned) __builtin_clzll(units - 1); /* units - 1 has 4 + e bits */
    size_t step = (size_t) 1 << e, k = (units + step - 1) >> e;
    *rounded = k * step * SMALLEST;
    return 8 * e + (unsigned) k - 1;
}

jit_status jitc_memory_create(jitc_device *d, jitc_memory **out) {
    void *p = NULL;
    TRY(jitc_calloc(1, sizeof(jitc_memory), &p));
    *out = p;
    (*out)->device = d;
    return JIT_OK;
}

/* Give a block back to the system. */
static void free_block(jitc_memory *m, jitc_buffer *b) {
    jitc_backend *backend = m->device->backend;
    backend->free(backend, m->device->id, b->pointer, b->bytes);
    free(b->reads);
    free(b);
}

static bool use_is_done(const jitc_use *u) {
    return !u->stream || u->stream->backend->done(u->stream, u->number);
}

/* Is all that was done with the block over, or ordered before new work on `stream` anyway? */
static bool is_ready(const jitc_buffer *b, const jitc_stream *stream) {
    if (b->write.stream != stream && !use_is_done(&b->write))
        return false;
    for (size_t i = 0; i < b->read_count; ++i)
        if (b->reads[i].stream != stream && !use_is_done(&b->reads[i]))
            return false;
    return true;
}

/* Take a block off a list; the caller holds the lock. */
static jitc_buffer *pick_locked(jitc_memory *m, unsigned class, jitc_stream *stream)
    REQUIRES(&m->lock) {
    jitc_buffer **link = &m->list[class];
    for (int i = 0; *link && i < LOOK && !is_ready(*link, stream); ++i)
        link = &(*link)->next_free;
    if (!*link || !is_ready(*link, stream))
        link = &m->list[class];
    jitc_buffer *b = *link;
    if (b)
        *link = b->next_free;
    return b;
}

static void count_live_locked(jitc_memory *m, size_t bytes) REQUIRES(&m->lock) {
    m->stats.live += bytes;
    if (m->stats.live > m->stats.peak)
        m->stats.peak = m->stats.live;
}

static jitc_buffer *take_cached(jitc_memory *m, unsigned class, size_t bytes, jitc_stream *stream) {
    jitc_spin_lock(&m->lock);
    jitc_buffer *b = pick_locked(m, class, stream);
    if (b) {
        m->stats.cached -= bytes;
        count_live_locked(m, bytes);
    }
    jitc_spin_unlock(&m->lock);
    return b;
}

/* Free cached blocks: those that are idle, or all of them after waiting for their uses. */
static void trim(jitc_memory *m, bool wait) {
    for (unsigned class = 0; class < CLASSES; ++class) {
        jitc_spin_lock(&m->lock);
        jitc_buffer *all = m->list[class], *keep = NULL;
        m->list[class] = NULL;
        for (jitc_buffer *b = all; b; b = b->next_free)
            m->stats.cached -= b->bytes;
        jitc_spin_unlock(&m->lock);
        for (jitc_buffer *b = all, *next; b; b = next) {
            next = b->next_free;
            if (wait)
                jitc_buffer_wait(b, true);
            if (wait || is_ready(b, NULL)) {
                free_block(m, b);
            } else {
                b->next_free = keep;
                keep = b;
            }
        }
        jitc_spin_lock(&m->lock);
        for (jitc_buffer *b = keep, *next; b; b = next) {
            next = b->next_free;
            b->next_free = m->list[class];
            m->list[class] = b;
            m->stats.cached += b->bytes;
        }
        jitc_spin_unlock(&m->lock);
    }
}

/* Reserve `bytes` of the limit set by the option, trimming the cache if they do not fit beside it.
 */
static jit_status reserve(jitc_memory *m, size_t bytes) {
    size_t limit = (size_t) m->device->options->memory_limit;
    jitc_spin_lock(&m->lock);
    size_t live = m->stats.live, cached = m->stats.cached;
    bool fits = !limit || (bytes <= limit && live <= limit - bytes);
    if (fits)
        count_live_locked(m, bytes);
    jitc_spin_unlock(&m->lock);
    if (!fits)
        return jitc_fail(JIT_OUT_OF_MEMORY,
                         "device memory: %zu bytes do not fit, %zu of the option memory_limit = "
                         "%zu are in use",
                         bytes, live, limit);
    if (limit && live + cached + bytes > limit)
        trim(m, true);
    return JIT_OK;
}

static void unreserve(jitc_memory *m, size_t bytes) {
    jitc_spin_lock(&m->lock);
    m->stats.live -= bytes;
    jitc_spin_unlock(&m->lock);
}

static jit_status allocate(jitc_memory *m, size_t bytes, void **pointer) {
    jitc_device *d = m->device;
    jitc_error before, first;
    TRY(reserve(m, bytes));
    jitc_error_take(&before); /* a first failure that the retry mends is no error of the thread */
    jit_status status = d->backend->alloc(d->backend, d->id, bytes, pointer);
    if (status != JIT_OK) {
        jitc_error_take(&first);
        trim(m, true);
        status = d->backend->alloc(d->backend, d->id, bytes, pointer);
    }
    if (status != JIT_OK)
        unreserve(m, bytes);
    if (before.status != JIT_OK) { /* it stays the thread's first */
        jitc_error_take(&first);
        jitc_error_raise(&before);
    }
    return status;
}

/* A new block. */
static jit_status create(jitc_memory *m, size_t bytes, jitc_buffer **out) {
    void *p = NULL;
    TRY(jitc_calloc(1, sizeof(jitc_buffer), &p));
    jitc_buffer *b = p;
    jit_status status = allocate(m, bytes, &b->pointer);
    if (status != JIT_OK) {
        free(b);
        return status;
    }
    b->device = m->device;
    b->bytes = bytes;
    jitc_spin_init(&b->lock);
    *out = b;
    return JIT_OK;
}

jit_status jitc_memory_take(jitc_memory *m, jitc_stream *stream, size_t bytes, jitc_buffer **out) {
    size_t rounded;
    unsigned class = size_class(bytes, &rounded);
    if (class >= CLASSES)
        return jitc_fail(JIT_OUT_OF_MEMORY, "device memory: %zu bytes are more than any device has",
                         bytes);
    jitc_buffer *b = take_cached(m, class, rounded, stream);
    if (!b)
        TRY(create(m, rounded, &b));
    jitc_refcount_init(&b->refs);
    *out = b;
    return JIT_OK;
}

void jitc_memory_give(jitc_memory *m, jitc_buffer *b) {
    size_t rounded;
    unsigned class = size_class(b->bytes, &rounded);
    jitc_spin_lock(&m->lock);
    m->stats.live -= b->bytes;
    m->stats.cached += b->bytes;
    b->next_free = m->list[class];
    m->list[class] = b;
    jitc_spin_unlock(&m->lock);
}

void jitc_memory_destroy(jitc_memory *m) {
    if (!m)
        return;
    trim(m, true);
    free(m);
}

jitc_memory_stats jitc_device_memory(jitc_device *d) {
    jitc_spin_lock(&d->memory->lock);
    jitc_memory_stats s = d->memory->stats;
    jitc_spin_unlock(&d->memory->lock);
    return s;
}

void jitc_device_trim(jitc_device *d) {
    trim(d->memory, false);
}
