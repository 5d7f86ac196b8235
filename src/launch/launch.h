/* launch.h: a kernel and its arguments become queued work.
 * Layer: launch.  May include: core, ir, device, cache. */
#ifndef JITC_LAUNCH_LAUNCH_H
#define JITC_LAUNCH_LAUNCH_H
#include "cache/cache.h"
#include "device/buffer.h"

/** A buffer that a kernel touches. */
typedef struct jitc_access {
    jitc_buffer *buffer;
    bool write;
} jitc_access;

/** Queue `k` on `s`, behind the work of other streams on the buffers, and stamp these with their
 * use. The kernel is recompiled in the background if it has become hot. */
jit_status jitc_launch_locked(jitc_cache *c, jitc_stream *s, jitc_cached *k,
                              const jitc_launch_args *args, const jitc_access *access, size_t count)
    REQUIRES(&s->lock);
/** Queue a copy of the first `bytes` bytes of a buffer to another one. */
jit_status jitc_launch_copy_locked(jitc_stream *s, jitc_buffer *to, jitc_buffer *from, size_t bytes)
    REQUIRES(&s->lock);
/** Queue a copy from host memory, which may change at once. */
jit_status jitc_launch_upload_locked(jitc_stream *s, jitc_buffer *to, const void *from,
                                     size_t bytes) REQUIRES(&s->lock);
/** Copy `bytes` bytes from `offset` on to host memory and wait for them. */
jit_status jitc_launch_download(jitc_stream *s, void *to, jitc_buffer *from, size_t offset,
                                size_t bytes);
#endif
