#include "device/memory.h"
#include "device/lend.h"
#include <stdlib.h>

enum {
    SMALLEST = 512, /* bytes of the first class */
    FINE = 16,      /* from 2^FINE units (32 MiB) up there are 32 classes an octave, not 8 */
    COARSE_CLASSES = 8 * (FINE - 2),
    CLASSES = COARSE_CLASSES + 32 * 19, /* up to 2^44 bytes */
    SHARDS = 32,
    LOOK = 4 /* blocks of a class looked at for one that needs no waiting */
};

/* Blocks that nobody holds, in lists by class. A block is kept where the stream that wrote it last
 * looks first, so that threads that use memory of their own do not meet. */
typedef struct shard {
    jitc_spin lock;
    _Atomic size_t cached; /* bytes; like the lists changed under the lock, read without */
    /* What is live is the sum over all: a block may be taken in one and given back in another. */
    _Atomic size_t live, most; /* the latter: so far */
    _Atomic(jitc_buffer *) list[CLASSES];
    char other_line[64];
} shard;

struct jitc_memory {
    jitc_device *device;
    _Atomic size_t peak;
    shard shard[SHARDS];
};

/* The class of a size, and the class's size in *rounded: k 2^e units, where k has 4 bits, or 6. */
static unsigned size_class(size_t bytes, size_t *rounded) {
    size_t units = bytes / SMALLEST + (bytes % SMALLEST != 0);
    if (units <= 8) {
        units += !units;
        *rounded = units * SMALLEST;
        return (unsigned) units - 1;
    }
    unsigned top = 63 - (unsigned) __builtin_clzll(units - 1), bits = top < FINE ? 3 : 5;
    unsigned e = top - bits;
    size_t step = (size_t) 1 << e, k = (units + step - 1) >> e;
    *rounded = k * step * SMALLEST;
    unsigned within = (unsigned) k - (1u << bits) - 1;
    return bits == 3 ? 8 * (top - 2) + within : COARSE_CLASSES + 32 * (top - FINE) + within;
}

jit_status jitc_memory_create(jitc_device *d, jitc_memory **out) {
    void *p = NULL;
    TRY(jitc_calloc(1, sizeof(jitc_memory), &p));
    *out = p;
    (*out)->device = d;
    return JIT_OK;
}

/* ---- Uses ---- */

/* Is all that was done with the block ordered before new work on `stream` anyway? */
static bool is_own(const jitc_buffer *b, const jitc_stream *stream) {
    if (b->write.stream && b->write.stream != stream)
        return false;
    for (size_t i = 0; i < b->read_count; ++i)
        if (b->reads[i].stream != stream)
            return false;
    return true;
}

static bool use_is_over(const jitc_use *u, const jitc_stream *stream) {
    return !u->stream || u->stream == stream ||
           u->stream->backend->done(u->stream, jitc_use_behind_user_wait(*u).number);
}

/* Is it so, or over? */
static bool is_ready(const jitc_buffer *b, const jitc_stream *stream) {
    if (!use_is_over(&b->write, stream))
        return false;
    for (size_t i = 0; i < b->read_count; ++i)
        if (!use_is_over(&b->reads[i], stream))
            return false;
    return true;
}

/* ---- Lists and figures ---- */

static shard *shard_of(jitc_memory *m, const jitc_stream *stream) {
    return &m->shard[stream ? stream->index % SHARDS : 0];
}

jitc_memory_stats jitc_device_memory(jitc_device *d) {
    jitc_memory *m = d->memory;
    jitc_memory_stats stats = {.peak = jitc_load_relaxed(&m->peak)};
    for (int i = 0; i < SHARDS; ++i) {
        stats.live += jitc_load_relaxed(&m->shard[i].live);
        stats.cached += jitc_load_relaxed(&m->shard[i].cached);
    }
    return stats;
}

static void note_peak(jitc_memory *m) {
    size_t live = jitc_device_memory(m->device).live, peak = jitc_load_relaxed(&m->peak);
    while (live > peak && !jitc_compare_exchange(&m->peak, &peak, live)) {
    }
}

static void add_live(jitc_memory *m, const jitc_stream *stream, size_t bytes) {
    jitc_add_relaxed(&shard_of(m, stream)->live, bytes);
}

/* Threads that take and give do not meet: all is added up when one of them has more than ever, or
 * when somebody asks. */
static void note_live(jitc_memory *m, const jitc_stream *stream) {
    shard *s = shard_of(m, stream);
    size_t live = jitc_load_relaxed(&s->live);
    if ((ptrdiff_t) live <= (ptrdiff_t) jitc_load_relaxed(&s->most))
        return;
    jitc_store_relaxed(&s->most, live);
    note_peak(m);
}

static void count_cached_locked(shard *s, size_t bytes) REQUIRES(&s->lock) {
    jitc_store_relaxed(&s->cached, jitc_load_relaxed(&s->cached) + bytes);
}

static void push(shard *s, unsigned class, jitc_buffer *b) {
    jitc_spin_lock(&s->lock);
    b->next_free = jitc_load_relaxed(&s->list[class]);
    jitc_store_relaxed(&s->list[class], b);
    count_cached_locked(s, b->bytes);
    jitc_spin_unlock(&s->lock);
}

/* The first of the list, or NULL. */
static jitc_buffer *pop(shard *s, unsigned class) {
    if (!jitc_load_relaxed(&s->list[class]))
        return NULL;
    jitc_spin_lock(&s->lock);
    jitc_buffer *b = jitc_load_relaxed(&s->list[class]);
    if (b) {
        jitc_store_relaxed(&s->list[class], b->next_free);
        count_cached_locked(s, 0 - b->bytes);
    }
    jitc_spin_unlock(&s->lock);
    return b;
}

/* One that `stream` may use at once; the backend is not asked. */
static jitc_buffer *pop_own(shard *s, unsigned class, const jitc_stream *stream) {
    if (!jitc_load_relaxed(&s->list[class]))
        return NULL;
    jitc_spin_lock(&s->lock);
    jitc_buffer *before = NULL, *b = jitc_load_relaxed(&s->list[class]);
    for (int i = 1; b && !is_own(b, stream); ++i) {
        before = b;
        b = i < LOOK ? b->next_free : NULL;
    }
    if (b && before)
        before->next_free = b->next_free;
    else if (b)
        jitc_store_relaxed(&s->list[class], b->next_free);
    if (b)
        count_cached_locked(s, 0 - b->bytes);
    jitc_spin_unlock(&s->lock);
    return b;
}

/* May a stream wait for what another one does with memory? Not where there is enough: threads that
 * share nothing do not wait for each other. But a thread that runs ahead of the one which frees
 * what it makes must not fill the device. `taken_out`: bytes that the caller has off the lists. */
static bool may_wait(const jitc_memory *m, size_t bytes, size_t taken_out) {
    const jitc_options *o = m->device->options;
    size_t spare = (size_t) o->memory_spare, limit = (size_t) o->memory_limit;
    jitc_memory_stats s = jitc_device_memory(m->device);
    size_t cached = s.cached + taken_out;
    return !spare || cached > s.live + spare || (limit && cached + s.live + bytes > limit);
}

/* One that is ready; else the first, behind its uses. The backend is asked under no lock. */
static jitc_buffer *pop_any(jitc_memory *m, unsigned class, const jitc_stream *stream) {
    jitc_buffer *seen[LOOK], *found = NULL;
    size_t n = 0, first = (size_t) (shard_of(m, stream) - m->shard);
    for (size_t i = 0; i < SHARDS && n < LOOK && !found; ++i) {
        shard *s = &m->shard[(first + i) % SHARDS];
        while (n < LOOK && !found && (seen[n] = pop(s, class)) != NULL)
            if (is_ready(seen[n++], stream))
                found = seen[n - 1];
    }
    if (!found && n && may_wait(m, seen[0]->bytes, n * seen[0]->bytes))
        found = seen[0];
    while (n--) /* backwards: they lie as they did */
        if (seen[n] != found)
            push(shard_of(m, seen[n]->write.stream), class, seen[n]);
    return found;
}

void jitc_memory_give(jitc_memory *m, jitc_buffer *b) {
    size_t rounded;
    unsigned class = size_class(b->bytes, &rounded);
    add_live(m, b->write.stream, 0 - b->bytes);
    push(shard_of(m, b->write.stream), class, b);
}

/* ---- Trimming ---- */

/* Give a block back to the system. */
static void free_block(jitc_memory *m, jitc_buffer *b) {
    jitc_backend *backend = m->device->backend;
    backend->free(backend, m->device->id, b->pointer, b->bytes);
    free(b->reads);
    free(b);
}

static jitc_buffer *take_list(shard *s, unsigned class) {
    if (!jitc_load_relaxed(&s->list[class]))
        return NULL;
    jitc_spin_lock(&s->lock);
    jitc_buffer *all = jitc_load_relaxed(&s->list[class]);
    jitc_store_relaxed(&s->list[class], (jitc_buffer *) NULL);
    for (jitc_buffer *b = all; b; b = b->next_free)
        count_cached_locked(s, 0 - b->bytes);
    jitc_spin_unlock(&s->lock);
    return all;
}

/* Free blocks of one list until `wanted` bytes are: those whose uses are over. */
static size_t free_idle_of(jitc_memory *m, shard *s, unsigned class, size_t wanted) {
    jitc_buffer *kept = NULL, *next;
    size_t freed = 0;
    for (jitc_buffer *b = take_list(s, class); b; b = next) {
        next = b->next_free;
        if (freed < wanted && is_ready(b, NULL)) {
            freed += b->bytes;
            free_block(m, b);
        } else {
            b->next_free = kept;
            kept = b;
        }
    }
    for (; kept; kept = next) { /* backwards: they lie as they did */
        next = kept->next_free;
        push(s, class, kept);
    }
    return freed;
}

/* The same, after waiting for them. What cannot be waited for stays. */
static size_t free_busy_of(jitc_memory *m, shard *s, unsigned class, size_t wanted) {
    size_t freed = 0;
    for (jitc_buffer *b; freed < wanted && (b = pop(s, class)) != NULL;) {
        if (jitc_buffer_wait(b, true) != JIT_OK && !is_ready(b, NULL)) {
            push(s, class, b);
            return freed;
        }
        freed += b->bytes;
        free_block(m, b);
    }
    return freed;
}

/* The largest first: fewer have to be made anew. */
static size_t free_blocks(jitc_memory *m, bool wait, size_t wanted) {
    size_t freed = 0;
    for (unsigned class = CLASSES; class --> 0;)
        for (int i = 0; i < SHARDS && freed < wanted; ++i)
            freed += (wait ? free_busy_of : free_idle_of)(m, &m->shard[i], class, wanted - freed);
    return freed;
}

void jitc_device_trim(jitc_device *d) {
    jitc_lend_collect(d);
    free_blocks(d->memory, false, SIZE_MAX);
    d->backend->trim(d->backend, d->id);
}

void jitc_memory_destroy(jitc_memory *m) {
    if (!m)
        return;
    for (unsigned class = 0; class < CLASSES; ++class)
        for (int i = 0; i < SHARDS; ++i)
            for (jitc_buffer *b; (b = pop(&m->shard[i], class)) != NULL;)
                free_block(m, b);
    free(m);
}

/* ---- New blocks ---- */

/* Count `bytes` as live, if the option allows it. */
static jit_status reserve(jitc_memory *m, const jitc_stream *stream, size_t bytes) {
    size_t limit = (size_t) m->device->options->memory_limit;
    add_live(m, stream, bytes);
    size_t live = limit ? jitc_device_memory(m->device).live : 0;
    if (live <= limit)
        return JIT_OK;
    add_live(m, stream, 0 - bytes);
    return jitc_fail(JIT_OUT_OF_MEMORY,
                     "device memory: %zu bytes do not fit, %zu of the option memory_limit = %zu "
                     "are in use",
                     bytes, live - bytes, limit);
}

/* What is kept must leave room for what is live. */
static void keep_limit(jitc_memory *m) {
    size_t limit = (size_t) m->device->options->memory_limit;
    if (!limit)
        return;
    jitc_memory_stats s = jitc_device_memory(m->device);
    if (s.live + s.cached <= limit)
        return;
    size_t excess = s.live + s.cached - limit, freed = free_blocks(m, false, excess);
    if (freed < excess)
        free_blocks(m, true, excess - freed);
}

/* Once more after idle blocks went back, and once more after waiting for those in use. */
static jit_status allocate_anyhow(jitc_memory *m, size_t bytes, void **pointer) {
    jitc_backend *backend = m->device->backend;
    int id = m->device->id;
    jitc_error failure;
    jit_status status = backend->alloc(backend, id, bytes, pointer);
    for (int wait = 0; wait < 2 && status == JIT_OUT_OF_MEMORY; ++wait) {
        if (!free_blocks(m, wait, SIZE_MAX) && wait)
            return status;
        backend->trim(backend, id);
        jitc_error_take(&failure); /* a failure that a retry mends is no error of the thread */
        status = backend->alloc(backend, id, bytes, pointer);
    }
    return status;
}

static jit_status allocate(jitc_memory *m, const jitc_stream *stream, size_t bytes,
                           void **pointer) {
    jitc_error before, ignored;
    TRY(reserve(m, stream, bytes));
    jitc_error_take(&before);
    keep_limit(m);
    jitc_error_take(&ignored);
    jit_status status = allocate_anyhow(m, bytes, pointer);
    if (status == JIT_OK)
        note_live(m, stream);
    else
        add_live(m, stream, 0 - bytes);
    jitc_error_restore(&before);
    return status;
}

static jit_status create(jitc_memory *m, const jitc_stream *stream, size_t bytes,
                         jitc_buffer **out) {
    void *p = NULL;
    TRY(jitc_calloc(1, sizeof(jitc_buffer), &p));
    jitc_buffer *b = p;
    jit_status status = allocate(m, stream, bytes, &b->pointer);
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

static jitc_buffer *find(jitc_memory *m, unsigned class, jitc_stream *stream) {
    jitc_buffer *b = pop_own(shard_of(m, stream), class, stream);
    if (!b)
        b = pop_any(m, class, stream);
    if (b) {
        add_live(m, stream, b->bytes);
        note_live(m, stream);
    }
    return b;
}

/* There is none in the cache. What consumers have given back may be more than is allowed, ... */
static jitc_buffer *find_after_recall(jitc_memory *m, unsigned class, jitc_stream *stream) {
    const jitc_device *d = m->device;
    if (jitc_lend_pending(d) <= (size_t) d->options->memory_lent)
        return NULL;
    return jitc_lend_recall(d, true) ? find(m, class, stream) : NULL;
}

/* ... or be what is missing. */
static jit_status create_after_recall(jitc_memory *m, unsigned class, jitc_stream *stream,
                                      size_t bytes, jitc_buffer **out) {
    jitc_error before, failure;
    jitc_error_take(&before);
    jit_status status = create(m, stream, bytes, out);
    if (status == JIT_OUT_OF_MEMORY && jitc_lend_recall(m->device, true)) {
        jitc_error_take(&failure); /* a failure that a retry mends is no error of the thread */
        *out = find(m, class, stream);
        status = *out ? JIT_OK : create(m, stream, bytes, out);
    }
    jitc_error_restore(&before);
    return status;
}

jit_status jitc_memory_take(jitc_memory *m, jitc_stream *stream, size_t bytes, jitc_buffer **out) {
    size_t rounded;
    unsigned class = size_class(bytes, &rounded);
    if (class >= CLASSES)
        return jitc_fail(JIT_OUT_OF_MEMORY, "device memory: %zu bytes are more than any device has",
                         bytes);
    jitc_buffer *b = find(m, class, stream);
    if (!b)
        b = find_after_recall(m, class, stream);
    if (!b)
        TRY(create_after_recall(m, class, stream, rounded, &b));
    jitc_refcount_init(&b->refs);
    *out = b;
    return JIT_OK;
}

void jitc_memory_fork_hold(jitc_memory *m) UNCHECKED_LOCKING {
    for (int i = 0; i < SHARDS; ++i)
        jitc_spin_lock(&m->shard[i].lock);
}

void jitc_memory_fork_release(jitc_memory *m) UNCHECKED_LOCKING {
    for (int i = 0; i < SHARDS; ++i)
        jitc_spin_unlock(&m->shard[i].lock);
}
