/* buffer.h: counted device memory that knows its last uses.  Layer: device.  May include: core, ir.
 */
#ifndef JITC_DEVICE_BUFFER_H
#define JITC_DEVICE_BUFFER_H
#include "device/device.h"

/** Work number `number` of `stream`; stream NULL: none. */
typedef struct jitc_use {
    jitc_stream *stream;
    uint64_t number;
} jitc_use;

/** A use, for who wants to write or to free. ORDER: readers that only the user knows before the
 * next write, by the wait for them that the user has put on the stream that used the memory;
 * without it a write on another stream, which comes after our uses alone, may overtake them. A wait
 * that has nothing to do with this memory counts as well: it is not known which. */
static inline jitc_use jitc_use_behind_user_wait(jitc_use u) {
    uint64_t wait =
        jitc_load_acquire(&u.stream->user_wait); /* pairs with jitc_stream_note_user_wait */
    u.number = wait > u.number ? wait : u.number;
    return u;
}

/** A block of device memory. Shared by variables; a buffer that anybody else holds is never
 * written. */
typedef struct jitc_buffer {
    jitc_refcount refs;
    jitc_device *device;
    void *pointer;
    size_t bytes;   /* usable: of the pool's block, or exactly what was mapped */
    bool foreign;   /* mapped memory: not padded, never written by us, given back by `release` */
    bool immutable; /* written by nobody: imported as read-only */
    void (*release)(void *context); /* foreign: called once, after the last use, under no lock */
    void *context;
    jitc_spin lock; /* guards the uses */
    jitc_use write;
    jitc_use *reads; /* at most one a stream */
    size_t read_count, read_capacity;
    struct jitc_buffer *next_free;    /* in the pool */
    unsigned loans;                   /* references that lend.c has; under its lock */
    struct jitc_consumer *pending_at; /* where it is pending last; lend.c, and under its lock */
    bool kept;                        /* for ever; likewise */
    jitc_detached end;                /* its device has ended, and `device` is NULL: lend.c */
} jitc_buffer;

/** Own memory for at least `bytes` bytes (0 is allowed) and the padding, first used on `stream`: a
 *  block that was freed on it, or one that others freed, behind their last use. One reference.
 * Holder of stream->lock. JIT_OUT_OF_MEMORY. */
jit_status jitc_buffer_create(jitc_device *d, jitc_stream *stream, size_t bytes, jitc_buffer **out);
/** Foreign memory; `release` may be NULL. On failure `release` is not called. */
jit_status jitc_buffer_map(jitc_device *d, void *pointer, size_t bytes, void (*release)(void *),
                           void *context, jitc_buffer **out);
static inline void jitc_buffer_ref(jitc_buffer *b) {
    jitc_refcount_up(&b->refs);
}
/** Drops a reference; the last one gives the memory back in stream order. Never waits. NULL is
 *  allowed. Must not be called under the graph's lock for foreign memory: `release` is user code;
 *  see jitc_graph_unlock(). */
void jitc_buffer_unref(jitc_buffer *b);
/** The same where no `release` may be called, such as under a stream's lock: it is queued, on the
 * device's stream `ends`. False if it cannot be: then the reference is still there. */
bool jitc_buffer_unref_later(jitc_buffer *b);

/* ORDER: work that touches a buffer comes after its last write, and a write also after its last
 * reads, by these two calls before it is queued; without them two streams race. Holder of
 * stream->lock. */
jit_status jitc_buffer_before_read(jitc_buffer *b, jitc_stream *stream);
jit_status jitc_buffer_before_write(jitc_buffer *b, jitc_stream *stream);
/** The user of `stream` gets the address: what is queued on it from now on comes after the last
 * write (`written`: and the last reads, as he may write), and the next write after what the user
 * lets it wait for; and work on other devices can reach the memory. Holder of stream->lock. */
jit_status jitc_buffer_lend(jitc_buffer *b, jitc_stream *stream, bool written);
/** Stamp a use that has been queued. JIT_OUT_OF_MEMORY is answered by waiting for the work. */
void jitc_buffer_did_read(jitc_buffer *b, jitc_stream *stream, uint64_t number);
void jitc_buffer_did_write(jitc_buffer *b, jitc_stream *stream, uint64_t number);
/** Wait on the CPU for the last write (and, with `reads`, for the last reads too). */
jit_status jitc_buffer_wait(jitc_buffer *b, bool reads);
#endif
