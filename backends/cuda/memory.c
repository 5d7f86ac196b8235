/* memory.c: device memory: blocks, and the tables of arguments.  Layer: cuda.
 *
 * cuMemFree() waits for everything that the device does, and keeps all threads waiting: so blocks
 * come from a pool of the driver. The cache of blocks (device/memory.c) lies above, and gives back
 * only what nothing uses any more. */
#include "cuda/stream.h"

enum { TABLE = 1 << 16 /* bytes of the smallest table of arguments */ };

/* ---- The pool ---- */

static CUresult create_pool(const jitc_cuda *c, CUdevice device, CUmemoryPool *out) {
    uint64_t everything = UINT64_MAX; /* of what is freed it keeps until it is trimmed */
    int no = 0; /* an allocation does not wait for frees, which may wait for others */
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    CUresult result = c->MemPoolCreate(out, &props);
    if (result == CUDA_SUCCESS)
        result = c->MemPoolSetAttribute(*out, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &everything);
    else
        *out = NULL;
    if (result == CUDA_SUCCESS)
        result =
            c->MemPoolSetAttribute(*out, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no);
    return result;
}

static bool wants_pool(const jitc_cuda_device *d) {
    const jitc_cuda *c = &d->backend->cuda;
    return d->backend->options->cuda_pool && c->MemPoolCreate && c->MemPoolDestroy &&
           c->MemPoolSetAttribute && c->MemPoolSetAccess && c->MemPoolTrimTo &&
           c->MemAllocFromPoolAsync && c->MemFreeAsync && c->DeviceCanAccessPeer && c->StreamQuery;
}

static jit_status create_handles(jitc_cuda_device *d) {
    const jitc_cuda *c = &d->backend->cuda;
    jitc_cuda_pool *p = &d->pool;
    TRY(jitc_cuda_device_check(d, c->StreamCreate(&p->stream, CU_STREAM_NON_BLOCKING),
                               JITC_CU_StreamCreate));
    jit_status status = jitc_cuda_device_check(d, c->StreamCreate(&p->frees, CU_STREAM_DEFAULT),
                                               JITC_CU_StreamCreate);
    if (status != JIT_OK)
        goto stream;
    status = jitc_cuda_device_check(d, c->EventCreate(&p->event, CU_EVENT_DISABLE_TIMING),
                                    JITC_CU_EventCreate);
    if (status == JIT_OK)
        return JIT_OK;
    c->StreamDestroy(p->frees);
stream:
    c->StreamDestroy(p->stream);
    return status;
}

static void destroy_handles(jitc_cuda_device *d) {
    d->backend->cuda.EventDestroy(d->pool.event);
    d->backend->cuda.StreamDestroy(d->pool.stream);
    d->backend->cuda.StreamDestroy(d->pool.frees);
}

static jit_status decide_locked(jitc_cuda_device *d) REQUIRES(&d->pool.lock) {
    const jitc_cuda *c = &d->backend->cuda;
    jitc_cuda_pool *p = &d->pool;
    int supported = 0;
    if (wants_pool(d))
        TRY(jitc_cuda_device_check(d,
                                   c->DeviceGetAttribute(&supported,
                                                         CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
                                                         d->device),
                                   JITC_CU_DeviceGetAttribute));
    if (supported)
        TRY(create_handles(d));
    if (supported && create_pool(c, d->device, &p->handle) != CUDA_SUCCESS) {
        if (p->handle)
            c->MemPoolDestroy(p->handle);
        p->handle = NULL;
        destroy_handles(d);
    }
    jitc_store_release(&p->decided, true); /* pairs with has_pool */
    return JIT_OK;
}

static jit_status decide(jitc_cuda_device *d) {
    jit_status status = JIT_OK;
    if (__builtin_expect(jitc_load_acquire(&d->pool.decided), 1)) /* pairs with decide_locked */
        return JIT_OK;
    jitc_mutex_lock(&d->pool.lock);
    if (!jitc_load_relaxed(&d->pool.decided))
        status = decide_locked(d);
    jitc_mutex_unlock(&d->pool.lock);
    return status;
}

static bool has_pool(const jitc_cuda_device *d) {
    return jitc_load_acquire(&d->pool.decided) && d->pool.handle; /* pairs with decide_locked */
}

/* Others' streams on device `ordinal` can use nothing in a pool, not even copy it, before they are
 * given access, to what lies there already as well. No context is made there: the device may never
 * be used. A failure is theirs to see, who then get an error from the driver. */
static void share_with(const jitc_cuda_device *d, int ordinal) {
    const jitc_cuda *c = &d->backend->cuda;
    CUmemAccessDesc map = {{.type = CU_MEM_LOCATION_TYPE_DEVICE},
                           CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    int can = 0;
    if (c->DeviceGet(&map.location.id, ordinal) == CUDA_SUCCESS &&
        c->DeviceCanAccessPeer(&can, map.location.id, d->device) == CUDA_SUCCESS && can)
        c->MemPoolSetAccess(d->pool.handle, &map, 1);
}

/* Not when the pool is made: it takes 2.5 ms a device, and all that is allocated later is mapped
 * there as well. */
void jitc_cuda_share(jitc_cuda_device *d) {
    jitc_cuda_pool *p = &d->pool;
    jitc_mutex_lock(&p->lock); /* who comes second waits, too */
    if (p->handle && !jitc_load_relaxed(&p->shared))
        for (int i = 0; i < d->backend->device_count; ++i)
            if (i != d->ordinal)
                share_with(d, i);
    jitc_store_release(&p->shared, true); /* pairs with `share` in cuda_backend.c */
    jitc_mutex_unlock(&p->lock);
}

void jitc_cuda_pool_finish(jitc_cuda_device *d) {
    const jitc_cuda *c = &d->backend->cuda;
    if (!has_pool(d))
        return;
    c->StreamSynchronize(d->pool.stream);
    c->StreamSynchronize(d->pool.frees);
    if (!d->rest)
        c->MemPoolDestroy(d->pool.handle);
    destroy_handles(d);
}

/* ---- Blocks ---- */

static jit_status fail_full(jitc_cuda_device *d, size_t bytes) {
    size_t unused = 0, total = 0;
    const char *function = has_pool(d) ? "cuMemAllocFromPoolAsync" : "cuMemAlloc";
    if (d->backend->cuda.MemGetInfo(&unused, &total) != CUDA_SUCCESS)
        return jitc_fail(JIT_OUT_OF_MEMORY, "cuda: %s: no memory for %zu bytes on device %d",
                         function, bytes, d->ordinal);
    return jitc_fail(JIT_OUT_OF_MEMORY,
                     "cuda: %s: no memory for %zu bytes on device %d: of its %zu bytes %zu are "
                     "free",
                     function, bytes, d->ordinal, total, unused);
}

/* ORDER: the allocation before all uses of the block, by an event behind it for which each stream
 * waits once, before its next work, unless the allocation is over already; without it the memory
 * may belong to somebody else still. */
static jit_status order_locked(jitc_cuda_device *d) REQUIRES(&d->pool.lock) {
    const jitc_cuda *c = &d->backend->cuda;
    jitc_cuda_pool *p = &d->pool;
    if (c->StreamQuery(p->stream) == CUDA_SUCCESS)
        return JIT_OK;
    TRY(jitc_cuda_device_check(d, c->EventRecord(p->event, p->stream), JITC_CU_EventRecord));
    jitc_add_release(&p->recorded, 1u); /* pairs with jitc_cuda_after_pool_locked */
    return JIT_OK;
}

jit_status jitc_cuda_after_pool_locked(jitc_cuda_stream *s) {
    jitc_cuda_pool *p = &s->device->pool;
    /* pairs with order_locked */
    if (__builtin_expect(jitc_load_acquire(&p->recorded) == s->pool_recorded, 1) ||
        jitc_load_acquire(&s->device->failed)) /* pairs with note_locked */
        return JIT_OK;
    jitc_mutex_lock(&p->lock);
    s->pool_recorded = jitc_load_relaxed(&p->recorded);
    CUresult result = s->device->backend->cuda.StreamWaitEvent(s->stream, p->event, 0);
    jitc_mutex_unlock(&p->lock);
    if (result == CUDA_SUCCESS)
        return JIT_OK;
    jitc_cuda_device_fail(s->device, result, JITC_CU_StreamWaitEvent, "");
    return jitc_cuda_device_raise(s->device);
}

static jit_status alloc_from_pool(jitc_cuda_device *d, size_t bytes, CUdeviceptr *out) {
    const jitc_cuda *c = &d->backend->cuda;
    CUresult result = c->MemAllocFromPoolAsync(out, bytes, d->pool.handle, d->pool.stream);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return fail_full(d, bytes);
    TRY(jitc_cuda_device_check(d, result, JITC_CU_MemAllocFromPoolAsync));
    jitc_mutex_lock(&d->pool.lock);
    jit_status status = order_locked(d);
    jitc_mutex_unlock(&d->pool.lock);
    if (status != JIT_OK)
        c->MemFreeAsync(*out, d->pool.stream);
    return status;
}

static jit_status alloc_alone(jitc_cuda_device *d, size_t bytes, CUdeviceptr *out) {
    CUresult result = d->backend->cuda.MemAlloc(out, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return fail_full(d, bytes);
    return jitc_cuda_device_check(d, result, JITC_CU_MemAlloc);
}

jit_status jitc_cuda_alloc(jitc_cuda_device *d, size_t bytes, void **out) {
    CUdeviceptr pointer = 0;
    TRY(decide(d));
    TRY((has_pool(d) ? alloc_from_pool : alloc_alone)(d, bytes, &pointer));
    *out = (void *) (uintptr_t) pointer;
    return JIT_OK;
}

/* ORDER: readers on the legacy stream, for which nobody has to wait, before the free, by a blocking
 * stream; without it they may read what is no memory any more. And the allocation, of a block that
 * nobody has used, by its event. */
static void free_to_pool(jitc_cuda_device *d, CUdeviceptr pointer) {
    const jitc_cuda *c = &d->backend->cuda;
    jitc_cuda_pool *p = &d->pool;
    jitc_mutex_lock(&p->lock);
    if (jitc_load_relaxed(&p->recorded))
        c->StreamWaitEvent(p->frees, p->event, 0);
    c->MemFreeAsync(pointer, p->frees);
    jitc_mutex_unlock(&p->lock);
}

void jitc_cuda_free(jitc_cuda_device *d, void *pointer) {
    if (has_pool(d))
        free_to_pool(d, jitc_cuda_address(pointer));
    else
        d->backend->cuda.MemFree(jitc_cuda_address(pointer));
}

void jitc_cuda_trim(jitc_cuda_device *d) {
    if (!has_pool(d))
        return;
    d->backend->cuda.StreamSynchronize(d->pool.frees); /* it waits for the legacy stream only */
    d->backend->cuda.MemPoolTrimTo(d->pool.handle, 0);
}

/* ---- Memory of others ---- */

/* What the driver knows nothing of leaves the values as they are, or makes them 0, or is an invalid
 * value. No context has to be current. */
jit_status jitc_cuda_look_up(jitc_cuda_device *d, const void *pointer, jitc_address *out) {
    const jitc_cuda *c = &d->backend->cuda;
    unsigned type = 0, managed = 0;
    CUdeviceptr there = 0;
    int device = 0;
    int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                        CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &there, &managed, &device};
    *out = (jitc_address) {.kind = JITC_ADDRESS_UNKNOWN};
    if (!c->PointerGetAttributes)
        return JIT_OK;
    if (jitc_load_acquire(&d->failed)) /* pairs with note_locked */
        return jitc_cuda_device_raise(d);
    CUresult result = c->PointerGetAttributes(4, attributes, values, jitc_cuda_address(pointer));
    if (result != CUDA_ERROR_INVALID_VALUE)
        TRY(jitc_cuda_device_check(d, result, JITC_CU_PointerGetAttributes));
    out->kind = managed                        ? JITC_ADDRESS_MANAGED
                : type == CU_MEMORYTYPE_DEVICE ? JITC_ADDRESS_DEVICE
                : type == CU_MEMORYTYPE_HOST   ? JITC_ADDRESS_PINNED
                                               : JITC_ADDRESS_HOST;
    out->device = device;
    out->on_device = (void *) (uintptr_t) there;
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
        jitc_cuda_free(s->device, t->pointer);
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
    jitc_mutex_lock(&s->mutex);
    jit_status status = jitc_cuda_after_pool_locked(s);
    jitc_mutex_unlock(&s->mutex);
    TRY(status);
    char *to = (*out)->pointer;
    const char *from = (const char *) words;
    /* Until the launch, before which it is queued, is over. */
    return jitc_cuda_upload_part(s, to, from, bytes, jitc_load_relaxed(&s->last) + 1);
}

void jitc_cuda_tables_finish(jitc_cuda_stream *s) {
    for (int i = 0; i < JITC_CUDA_TABLES; ++i)
        if (s->table[i].pointer)
            jitc_cuda_free(s->device, s->table[i].pointer);
}
