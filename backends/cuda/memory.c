/* memory.c: device memory, and copies to it, from it and in it.  Layer: cuda.
 *
 * Copies from and to memory that the driver has not pinned make the CPU wait, so they go through
 * pinned memory of the stream: uploads through chunks that are used in turn, small downloads
 * through a block of their own. A large download goes to its destination; it waits anyway.
 *
 * What is called here under base.lock is the only one that hands work to the driver, once the batch
 * is flushed: so the stream's mutex is not held over a copy. */
#include "cuda/stream.h"
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 1 << 19,  /* bytes: 50 us to fill, 10 us to transfer */
    BOUNCE = 1 << 16, /* bytes: larger downloads gain nothing by it */
    ALIGN = 256,
    TABLE = 1 << 16 /* bytes of the smallest table of arguments */
};

static const jitc_cuda *cuda_of(const jitc_cuda_stream *s) {
    return &s->device->backend->cuda;
}

static CUdeviceptr address(const void *pointer) {
    return (uintptr_t) pointer;
}

/* ---- Blocks ---- */

static jit_status fail_full(jitc_cuda_device *d, size_t bytes) {
    size_t unused = 0, total = 0;
    if (d->backend->cuda.MemGetInfo(&unused, &total) != CUDA_SUCCESS)
        return jitc_fail(JIT_OUT_OF_MEMORY,
                         "cuda: cuMemAlloc: no memory for %zu bytes on device %d", bytes,
                         d->ordinal);
    return jitc_fail(JIT_OUT_OF_MEMORY,
                     "cuda: cuMemAlloc: no memory for %zu bytes on device %d: of its %zu bytes "
                     "%zu are free",
                     bytes, d->ordinal, total, unused);
}

jit_status jitc_cuda_alloc(jitc_cuda_device *d, size_t bytes, void **out) {
    CUdeviceptr pointer = 0;
    CUresult result = d->backend->cuda.MemAlloc(&pointer, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return fail_full(d, bytes);
    TRY(jitc_cuda_device_check(d, result, JITC_CU_MemAlloc));
    *out = (void *) (uintptr_t) pointer;
    return JIT_OK;
}

/* ---- Numbers ---- */

static uint64_t note_submitted(jitc_cuda_stream *s, bool mark) {
    jitc_mutex_lock(&s->mutex);
    uint64_t number = jitc_cuda_submitted_locked(s);
    if (mark)
        jitc_cuda_mark_locked(s);
    jitc_mutex_unlock(&s->mutex);
    return number;
}

/* ---- Staging ---- */

static bool has_room(jitc_cuda_stream *s, jitc_cuda_chunk *c, size_t bytes) {
    if (c->size - c->used >= bytes)
        return true;
    if (!jitc_cuda_reached(s, c->number))
        return false;
    c->used = 0;
    return true;
}

static CUresult create_chunk(jitc_cuda_stream *s, jitc_cuda_chunk *c) {
    CUresult result = cuda_of(s)->MemHostAlloc(&c->pointer, CHUNK, 0);
    if (result == CUDA_SUCCESS)
        c->size = CHUNK;
    else
        c->pointer = NULL;
    return result;
}

static jit_status fail_chunk(jitc_cuda_stream *s, CUresult result) {
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return jitc_fail(JIT_OUT_OF_MEMORY,
                         "cuda: cuMemHostAlloc: no memory for %d bytes of pinned host memory",
                         CHUNK);
    return jitc_cuda_device_check(s->device, result, JITC_CU_MemHostAlloc);
}

/* Room for at most CHUNK bytes, at *to. Waits if all chunks are in use; where a further one cannot
 * be had, those that there are have to do. */
static jit_status stage(jitc_cuda_stream *s, size_t bytes, jitc_cuda_chunk **out, char **to) {
    jitc_cuda_chunk *c = NULL, *oldest = &s->staging[0];
    for (int i = 0; i < JITC_CUDA_CHUNKS && !c; ++i) {
        jitc_cuda_chunk *candidate = &s->staging[i];
        CUresult result = candidate->pointer ? CUDA_SUCCESS : create_chunk(s, candidate);
        if (result != CUDA_SUCCESS && i == 0)
            return fail_chunk(s, result);
        if (result != CUDA_SUCCESS)
            break;
        if (has_room(s, candidate, bytes))
            c = candidate;
        else if (candidate->number < oldest->number)
            oldest = candidate;
    }
    if (!c) {
        TRY(jitc_cuda_reach(s, oldest->number));
        oldest->used = 0;
        c = oldest;
    }
    *out = c;
    *to = (char *) c->pointer + c->used;
    c->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return JIT_OK;
}

/* At most CHUNK bytes. The caller notes the number of the copy in the chunk. */
static jit_status upload_piece(jitc_cuda_stream *s, void *to, const void *from, size_t bytes,
                               jitc_cuda_chunk **out) {
    char *staged = NULL;
    TRY(stage(s, bytes, out, &staged));
    memcpy(staged, from, bytes);
    return jitc_cuda_device_check(
        s->device, cuda_of(s)->MemcpyHtoDAsync(address(to), staged, bytes, s->stream),
        JITC_CU_MemcpyHtoDAsync);
}

static size_t piece_of(size_t bytes) {
    return bytes < CHUNK ? bytes : CHUNK;
}

/* ---- Copies ---- */

static jit_status upload_pieces(jitc_cuda_stream *s, char *to, const char *from, size_t bytes,
                                uint64_t *number) {
    for (size_t n; bytes; bytes -= n, to += n, from += n) {
        jitc_cuda_chunk *chunk;
        n = piece_of(bytes);
        TRY(upload_piece(s, to, from, n, &chunk));
        chunk->number = *number = note_submitted(s, n < bytes);
    }
    return JIT_OK;
}

jit_status jitc_cuda_upload(jitc_cuda_stream *s, void *to, const void *from, size_t bytes,
                            uint64_t *number) {
    TRY(jitc_cuda_flush(s));
    *number = jitc_load_relaxed(&s->last);
    jit_status status = upload_pieces(s, to, from, bytes, number);
    if (status != JIT_OK)
        jitc_cuda_reach(s, jitc_load_relaxed(&s->last)); /* nothing may be queued now */
    return status;
}

jit_status jitc_cuda_copy(jitc_cuda_stream *s, void *to, const void *from, size_t bytes,
                          uint64_t *number) {
    TRY(jitc_cuda_flush(s));
    TRY(jitc_cuda_device_check(
        s->device, cuda_of(s)->MemcpyDtoDAsync(address(to), address(from), bytes, s->stream),
        JITC_CU_MemcpyDtoDAsync));
    *number = note_submitted(s, false);
    return JIT_OK;
}

/* Pinned memory for small downloads, if it can be had. */
static bool has_bounce(jitc_cuda_stream *s) {
    jitc_cuda_chunk *b = &s->bounce;
    if (!b->pointer && cuda_of(s)->MemHostAlloc(&b->pointer, BOUNCE, 0) != CUDA_SUCCESS)
        b->pointer = NULL;
    return b->pointer != NULL;
}

jit_status jitc_cuda_download(jitc_cuda_stream *s, void *to, const void *from, size_t bytes) {
    bool bounced = bytes <= BOUNCE && has_bounce(s);
    TRY(jitc_cuda_flush(s));
    TRY(jitc_cuda_device_check(s->device,
                               cuda_of(s)->MemcpyDtoHAsync(bounced ? s->bounce.pointer : to,
                                                           address(from), bytes, s->stream),
                               JITC_CU_MemcpyDtoHAsync));
    TRY(jitc_cuda_reach(s, note_submitted(s, false)));
    if (jitc_load_acquire(&s->device->failed))        /* pairs with note_failure_locked */
        return jitc_error_raise(&s->device->failure); /* at exit, when nobody is waited for */
    if (bounced)
        memcpy(to, s->bounce.pointer, bytes);
    return JIT_OK;
}

/* ---- Tables of arguments ---- */

/* The stream runs in order: a table may be written behind the launches that were submitted. */
static bool is_usable(jitc_cuda_stream *s, const jitc_cuda_chunk *t) {
    jitc_mutex_lock(&s->mutex);
    bool usable = t->number <= s->submitted;
    jitc_mutex_unlock(&s->mutex);
    return usable;
}

/* Make t large enough; nothing that runs uses it. */
static jit_status grow_table(jitc_cuda_stream *s, jitc_cuda_chunk *t, size_t bytes) {
    size_t size = TABLE;
    while (size < bytes)
        size *= 2;
    if (t->pointer)
        cuda_of(s)->MemFree(address(t->pointer));
    *t = (jitc_cuda_chunk) {0};
    TRY(jitc_cuda_alloc(s->device, size, &t->pointer));
    t->size = size;
    return JIT_OK;
}

static jit_status take_table(jitc_cuda_stream *s, size_t bytes, jitc_cuda_chunk **out) {
    jitc_cuda_chunk *oldest = &s->table[0];
    for (int i = 0; i < JITC_CUDA_CHUNKS; ++i) {
        jitc_cuda_chunk *t = *out = &s->table[i];
        if (!t->pointer)
            return grow_table(s, t, bytes);
        if (t->size >= bytes && is_usable(s, t))
            return JIT_OK;
        if (t->number < oldest->number)
            oldest = t;
    }
    *out = oldest;
    if (oldest->size >= bytes)
        return jitc_cuda_flush(s);
    TRY(jitc_cuda_reach(s, oldest->number));
    return grow_table(s, oldest, bytes);
}

jit_status jitc_cuda_upload_table(jitc_cuda_stream *s, const uint64_t *words, uint32_t count,
                                  jitc_cuda_chunk **out) {
    size_t bytes = count * sizeof *words;
    const char *from = (const char *) words;
    TRY(take_table(s, bytes, out));
    char *to = (*out)->pointer;
    uint64_t number =
        jitc_load_relaxed(&s->last) + 1; /* of the launch, before which it is queued */
    for (size_t n; bytes; bytes -= n, to += n, from += n) {
        jitc_cuda_chunk *chunk;
        n = piece_of(bytes);
        TRY(upload_piece(s, to, from, n, &chunk));
        chunk->number = number;
    }
    return JIT_OK;
}

void jitc_cuda_staging_finish(jitc_cuda_stream *s) {
    const jitc_cuda *c = cuda_of(s);
    for (int i = 0; i < JITC_CUDA_CHUNKS; ++i) {
        if (s->staging[i].pointer)
            c->MemFreeHost(s->staging[i].pointer);
        if (s->table[i].pointer)
            c->MemFree(address(s->table[i].pointer));
    }
    if (s->bounce.pointer)
        c->MemFreeHost(s->bounce.pointer);
}
