#include "device/buffer.h"
#include "device/memory.h"
#include <stdlib.h>

/* ORDER: the former owners' work on the block before ours, by their uses, which stay noted until
 * our first write and which it waits for, on the device, like any other; without them a reader on
 * another stream may see our data. A block that is given back unused keeps them for the next. */
jit_status jitc_buffer_create(jitc_device *d, jitc_stream *stream, size_t bytes,
                              jitc_buffer **out) {
    return jitc_memory_take(d->memory, stream, bytes, out);
}

jit_status jitc_buffer_map(jitc_device *d, void *pointer, size_t bytes, void (*release)(void *),
                           void *context, jitc_buffer **out) {
    void *p = NULL;
    TRY(jitc_calloc(1, sizeof(jitc_buffer), &p));
    jitc_buffer *b = p;
    jitc_refcount_init(&b->refs);
    jitc_spin_init(&b->lock);
    b->device = d;
    b->pointer = pointer;
    b->bytes = bytes;
    b->foreign = true;
    b->release = release;
    b->context = context;
    *out = b;
    return JIT_OK;
}

static void end_foreign(void *p) {
    jitc_buffer *b = p;
    if (b->release)
        jitc_error_call(b->release, b->context);
    free(b->reads);
    free(b);
}

/* The first use that is not done; stream NULL: none. */
static jitc_use pending_use(const jitc_buffer *b) {
    jitc_use none = {0};
    for (size_t i = 0; i <= b->read_count; ++i) {
        jitc_use u = i ? b->reads[i - 1] : b->write;
        if (u.stream && !u.stream->backend->done(u.stream, jitc_use_behind_user_wait(u).number))
            return u;
    }
    return none;
}

/* Queue the release of foreign memory behind all its uses. */
static jit_status queue_end_locked(jitc_buffer *b, jitc_stream *s) REQUIRES(&s->lock) {
    uint64_t number;
    TRY(jitc_buffer_before_write(b, s));
    TRY(s->backend->call(s, end_foreign, b, &number));
    jitc_store_release(&s->queued, number); /* pairs with jitc_device_sync */
    return JIT_OK;
}

static jit_status queue_end_at_nobody(jitc_buffer *b) {
    jitc_stream *nobodys;
    TRY(jitc_device_end_stream(b->device, &nobodys));
    jitc_mutex_lock(&nobodys->lock);
    jit_status status = queue_end_locked(b, nobodys);
    jitc_mutex_unlock(&nobodys->lock);
    return status;
}

/* On a stream that uses it: its owner's jit_sync_thread() then waits for the release too. But the
 * owner may be waiting under the stream's lock, for a copy to the host: nobody else waits with it.
 * On the CPU what is queued behind a call waits for it, and so might the call for that: a release
 * may read what was computed since. A stream that stands for somebody else's runs nothing.
 * NULL: on nobody's. */
static jit_status queue_end(jitc_buffer *b, jitc_stream *user) {
    if (!user || !user->index || user->backend->host_memory || !jitc_mutex_try_lock(&user->lock))
        return queue_end_at_nobody(b);
    jit_status status = queue_end_locked(b, user);
    jitc_mutex_unlock(&user->lock);
    return status;
}

/* A failure is made up for by a wait, or tried again: it is no error of the thread. */
static bool try_queue_end(jitc_buffer *b, jitc_stream *user) {
    bool clean = jit_error_status() == JIT_OK;
    if (queue_end(b, user) == JIT_OK)
        return true;
    if (clean)
        jit_error_clear();
    return false;
}

static void give_up_foreign(jitc_buffer *b) {
    b->write = (jitc_use) {0}; /* its owner's; that we come after it is no use of ours */
    jitc_use use = pending_use(b);
    /* ORDER: our last use of foreign memory before its owner's `release`, by a call queued behind
     * it; without it the owner may free what a kernel still reads. */
    if (use.stream && try_queue_end(b, use.stream))
        return;
    jitc_buffer_wait(b, true);
    end_foreign(b);
}

/* Its device has ended. */
static void end_detached(jitc_buffer *b) {
    b->end.free(b->end.context, b->foreign ? NULL : b->pointer, b->bytes);
    end_foreign(b); /* own memory has no `release` */
}

bool jitc_buffer_unref_later(jitc_buffer *b) {
    if (!jitc_refcount_down(&b->refs))
        return true;
    if (!b->foreign) {
        jitc_memory_give(b->device->memory, b);
        return true;
    }
    bool queued = try_queue_end(b, NULL);
    if (!queued)
        jitc_refcount_init(&b->refs); /* nobody else has one */
    return queued;
}

void jitc_buffer_unref(jitc_buffer *b) {
    if (!b || !jitc_refcount_down(&b->refs))
        return;
    if (!b->device)
        end_detached(b);
    else if (b->foreign)
        give_up_foreign(b);
    else
        jitc_memory_give(b->device->memory, b);
}

enum { USES_AT_ONCE = 8 };

/* Copies uses that are not on the stream `except` out of the lock, since waiting may take time;
 * *next goes from 0 over the write and, with `reads`, the reads. Returns 0 when there are no more.
 */
static size_t copy_uses(jitc_buffer *b, bool reads, const jitc_stream *except,
                        jitc_use out[USES_AT_ONCE], size_t *next) {
    size_t n = 0;
    jitc_spin_lock(&b->lock);
    size_t total = 1 + (reads ? b->read_count : 0);
    for (; *next < total && n < USES_AT_ONCE; ++*next) {
        const jitc_use *u = *next ? &b->reads[*next - 1] : &b->write;
        if (u->stream && u->stream != except)
            out[n++] = reads ? jitc_use_behind_user_wait(*u) : *u;
    }
    jitc_spin_unlock(&b->lock);
    return n;
}

static jit_status before(jitc_buffer *b, bool reads, jitc_stream *stream) {
    jitc_use uses[USES_AT_ONCE];
    size_t n, next = 0;
    while ((n = copy_uses(b, reads, stream, uses, &next)) > 0)
        for (size_t i = 0; i < n; ++i)
            TRY(stream->backend->stream_wait(stream, uses[i].stream, uses[i].number));
    return JIT_OK;
}

jit_status jitc_buffer_before_read(jitc_buffer *b, jitc_stream *stream) {
    return before(b, false, stream);
}

jit_status jitc_buffer_before_write(jitc_buffer *b, jitc_stream *stream) {
    return before(b, true, stream);
}

/* Room for one more read. Those that are done stay as well: they tell whose waits count. */
static bool make_room_locked(jitc_buffer *b) REQUIRES(&b->lock) {
    if (b->read_count < b->read_capacity)
        return true;
    size_t capacity = b->read_capacity ? 2 * b->read_capacity : 2;
    jitc_use *grown = realloc(b->reads, capacity * sizeof *grown);
    if (!grown)
        return false;
    b->reads = grown;
    b->read_capacity = capacity;
    return true;
}

static bool stamp_read_locked(jitc_buffer *b, jitc_use use) REQUIRES(&b->lock) {
    bool stamped = false;
    for (size_t i = 0; i < b->read_count && !stamped; ++i)
        if (b->reads[i].stream == use.stream) {
            if (b->reads[i].number < use.number)
                b->reads[i] = use;
            stamped = true;
        }
    if (!stamped && make_room_locked(b)) {
        b->reads[b->read_count++] = use;
        stamped = true;
    }
    return stamped;
}

static bool stamp_read(jitc_buffer *b, jitc_use use) {
    jitc_spin_lock(&b->lock);
    bool stamped = stamp_read_locked(b, use);
    jitc_spin_unlock(&b->lock);
    return stamped;
}

void jitc_buffer_did_read(jitc_buffer *b, jitc_stream *stream, uint64_t number) {
    if (!stamp_read(b, (jitc_use) {stream, number}))
        stream->backend->wait(stream, number);
}

/* Usually no other stream uses it: then one look is enough, for that and to note ours. */
static bool lend_at_once(jitc_buffer *b, const jitc_use *use, bool written) {
    jitc_spin_lock(&b->lock);
    bool alone = !b->write.stream || b->write.stream == use->stream;
    for (size_t i = 0; written && alone && i < b->read_count; ++i)
        alone = b->reads[i].stream == use->stream;
    alone = alone && stamp_read_locked(b, *use);
    jitc_spin_unlock(&b->lock);
    return alone;
}

jit_status jitc_buffer_lend(jitc_buffer *b, jitc_stream *stream, bool written) {
    jitc_use use = {stream, 0};
    if (!b->foreign)
        b->device->backend->share(b->device->backend, b->device->id);
    if (lend_at_once(b, &use, written))
        return JIT_OK;
    TRY(before(b, written, stream));
    if (!stamp_read(b, use))
        return jitc_fail(JIT_OUT_OF_MEMORY, "host memory: none to note who uses an array");
    return JIT_OK;
}

void jitc_buffer_did_write(jitc_buffer *b, jitc_stream *stream, uint64_t number) {
    jitc_spin_lock(&b->lock);
    b->write = (jitc_use) {stream, number};
    b->read_count = 0; /* the write came after them */
    jitc_spin_unlock(&b->lock);
}

jit_status jitc_buffer_wait(jitc_buffer *b, bool reads) {
    jitc_use uses[USES_AT_ONCE];
    size_t n, next = 0;
    while ((n = copy_uses(b, reads, NULL, uses, &next)) > 0)
        for (size_t i = 0; i < n; ++i)
            TRY(uses[i].stream->backend->wait(uses[i].stream, uses[i].number));
    return JIT_OK;
}
