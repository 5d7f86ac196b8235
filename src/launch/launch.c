#include "launch/launch.h"
#include <string.h>

static void note_queued(jitc_stream *s, uint64_t number) {
    jitc_store_release(&s->queued, number); /* pairs with jitc_device_sync and jit_sync_thread */
}

static jit_status before(jitc_stream *s, const jitc_access *access, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        jitc_buffer *b = access[i].buffer;
        TRY(access[i].write ? jitc_buffer_before_write(b, s) : jitc_buffer_before_read(b, s));
    }
    return JIT_OK;
}

jit_status jitc_launch_locked(jitc_cache *c, jitc_stream *s, jitc_cached *k,
                              const jitc_launch_args *args, const jitc_access *access,
                              size_t count) {
    uint64_t number;
    TRY(before(s, access, count));
    TRY(s->backend->launch(s, k->kernel, args, &number));
    note_queued(s, number);
    for (size_t i = 0; i < count; ++i)
        if (!access[i].write)
            jitc_buffer_did_read(access[i].buffer, s, number);
    for (size_t i = 0; i < count; ++i)
        if (access[i].write)
            jitc_buffer_did_write(access[i].buffer, s, number);
    jitc_cache_hot(c, k);
    return JIT_OK;
}

jit_status jitc_launch_copy_locked(jitc_stream *s, jitc_buffer *to, jitc_buffer *from,
                                   size_t bytes) {
    uint64_t number;
    if (!bytes)
        return JIT_OK;
    TRY(jitc_buffer_before_read(from, s));
    TRY(jitc_buffer_before_write(to, s));
    TRY(s->backend->copy(s, to->pointer, from->pointer, bytes, &number));
    note_queued(s, number);
    jitc_buffer_did_read(from, s, number);
    jitc_buffer_did_write(to, s, number);
    return JIT_OK;
}

jit_status jitc_launch_upload_locked(jitc_stream *s, jitc_buffer *to, const void *from,
                                     size_t bytes) {
    uint64_t number;
    if (!bytes)
        return JIT_OK;
    TRY(jitc_buffer_before_write(to, s));
    TRY(s->backend->upload(s, to->pointer, from, bytes, &number));
    note_queued(s, number);
    jitc_buffer_did_write(to, s, number);
    return JIT_OK;
}

jit_status jitc_launch_download(jitc_stream *s, void *to, jitc_buffer *from, size_t offset,
                                size_t bytes) {
    if (s->backend->host_memory) { /* under no lock, since functions may be called meanwhile */
        TRY(jitc_buffer_wait(from, false));
        memcpy(to, (const char *) from->pointer + offset, bytes);
        return JIT_OK;
    }
    jitc_mutex_lock(&s->lock);
    jit_status status = jitc_buffer_before_read(from, s);
    if (status == JIT_OK)
        status = s->backend->download(s, to, (const char *) from->pointer + offset, bytes);
    jitc_mutex_unlock(&s->lock);
    return status;
}
