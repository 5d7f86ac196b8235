/* memory.c: device memory: blocks, and the tables of arguments.  Layer: cuda. */
#include "cuda/stream.h"

enum { TABLE = 1 << 16 /* bytes of the smallest table of arguments */ };

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

/* ---- Tables of arguments ---- */

/* The stream runs in order: a table may be written behind the launches that were submitted. */
static bool is_usable(jitc_cuda_stream *s, const jitc_cuda_table *t) {
    jitc_mutex_lock(&s->mutex);
    bool usable = t->number <= s->submitted;
    jitc_mutex_unlock(&s->mutex);
    return usable;
}

/* Make t large enough; nothing that runs uses it. */
static jit_status grow_table(jitc_cuda_stream *s, jitc_cuda_table *t, size_t bytes) {
    size_t size = TABLE;
    while (size < bytes)
        size *= 2;
    if (t->pointer)
        cuda_of(s)->MemFree(address(t->pointer));
    *t = (jitc_cuda_table) {0};
    TRY(jitc_cuda_alloc(s->device, size, &t->pointer));
    t->size = size;
    return JIT_OK;
}

static jit_status take_table(jitc_cuda_stream *s, size_t bytes, jitc_cuda_table **out) {
    jitc_cuda_table *oldest = &s->table[0];
    for (int i = 0; i < JITC_CUDA_TABLES; ++i) {
        jitc_cuda_table *t = *out = &s->table[i];
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
                                  jitc_cuda_table **out) {
    size_t bytes = count * sizeof *words;
    TRY(take_table(s, bytes, out));
    char *to = (*out)->pointer;
    const char *from = (const char *) words;
    /* Until the launch, before which it is queued, is over. */
    return jitc_cuda_upload_part(s, to, from, bytes, jitc_load_relaxed(&s->last) + 1);
}

void jitc_cuda_tables_finish(jitc_cuda_stream *s) {
    for (int i = 0; i < JITC_CUDA_TABLES; ++i)
        if (s->table[i].pointer)
            cuda_of(s)->MemFree(address(s->table[i].pointer));
}
