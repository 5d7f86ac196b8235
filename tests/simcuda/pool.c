/* pool.c: the entry points that allocate, free and describe memory.  Layer: tests. */
#include "order.h"

typedef struct freeing {
    sim_work work;
    sim_allocation *block;
} freeing;

CUresult sim_cuMemGetInfo_v2(size_t *unused, size_t *total) {
    if (!unused || !total)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t used = sim_memory_used(sim_current()->device);
    *total = sim_device_memory();
    *unused = used < *total ? *total - used : 0;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    sim_allocation *block;
    if (!pointer)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_memory_create(sim_current(), bytes, false, &block);
    if (result == CUDA_SUCCESS)
        *pointer = block->base;
    return result;
}

/* Waits for all work, as the real one; who relies on that stalls the device. Work that was queued
 * and uses the memory fails here. Memory that nothing has ever used is freed to wait for the work,
 * and for nothing else: then the host knows it. */
static void wait_for_context(sim_context *c, bool unused) {
    if (unused)
        sim_order_wait_all(c);
    else
        sim_context_wait(c);
}

CUresult sim_cuMemFree_v2(CUdeviceptr pointer) {
    sim_allocation *block;
    CUresult result = sim_memory_starting(pointer, false, &block);
    if (result != CUDA_SUCCESS)
        return result;
    bool unused = !block->segments;
    block->late = sim_context_busy(block->context);
    sim_order_freed_by_host(block, "cuMemFree");
    sim_memory_destroy(block);
    wait_for_context(block->context, unused);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    enum { PORTABLE = 1, DEVICEMAP = 2, WRITECOMBINED = 4 };
    sim_allocation *block;
    if (!pointer || flags > (PORTABLE | DEVICEMAP | WRITECOMBINED))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_memory_create(sim_current(), bytes, true, &block);
    if (result == CUDA_SUCCESS)
        *pointer = (void *) (uintptr_t) block->base;
    return result;
}

/* Lies where pinned memory does: the host may touch it at any time, as on devices that have
 * concurrent access. */
CUresult sim_cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags) {
    enum { GLOBAL = 1, HOST = 2 };
    sim_allocation *block;
    if (!pointer || (flags != GLOBAL && flags != HOST))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_memory_create(sim_current(), bytes, true, &block);
    if (result != CUDA_SUCCESS)
        return result;
    block->managed = true;
    *pointer = block->base;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocHost_v2(void **pointer, size_t bytes) {
    return sim_cuMemHostAlloc(pointer, bytes, 0);
}

CUresult sim_cuMemFreeHost(void *pointer) {
    sim_allocation *block;
    CUresult result = sim_memory_starting((uintptr_t) pointer, true, &block);
    if (result != CUDA_SUCCESS)
        return result;
    block->ending = true; /* nobody frees it meanwhile */
    wait_for_context(block->context, !block->segments);
    if (block->live) {
        sim_order_freed_by_host(block, "cuMemFreeHost");
        sim_memory_destroy(block);
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *pointer, unsigned flags) {
    const sim_allocation *block = sim_memory_at((uintptr_t) pointer);
    if (!device || flags != 0 || !block || !block->live || !block->pinned || block->managed)
        return CUDA_ERROR_INVALID_VALUE;
    *device = (uintptr_t) pointer;
    return CUDA_SUCCESS;
}

/** The live allocation with `pointer` in it, or NULL. */
static const sim_allocation *around(CUdeviceptr pointer) {
    return sim_reach(pointer, 1) ? sim_memory_at(pointer) : NULL;
}

CUresult sim_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
    const sim_allocation *block = around(pointer);
    if (!block)
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = block->base;
    if (bytes)
        *bytes = block->end - block->base;
    return CUDA_SUCCESS;
}

/* ---- what a pointer is ---- */

enum { /* CU_POINTER_ATTRIBUTE_... */
       OF_CONTEXT = 1,
       OF_MEMORY_TYPE = 2,
       OF_DEVICE_POINTER = 3,
       OF_HOST_POINTER = 4,
       OF_BUFFER_ID = 7,
       OF_IS_MANAGED = 8,
       OF_DEVICE_ORDINAL = 9,
       OF_RANGE_START = 11,
       OF_RANGE_SIZE = 12,
       OF_MAPPED = 13
};
enum { TYPE_HOST = 1, TYPE_DEVICE = 2 }; /* CU_MEMORYTYPE_... */

CUresult sim_cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer) {
    const sim_allocation *block = around(pointer);
    if (!data || !block)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
        case OF_CONTEXT: *(CUcontext *) data = sim_object_handle(block->context); break;
        case OF_MEMORY_TYPE:
            *(unsigned *) data = block->pinned && !block->managed ? TYPE_HOST : TYPE_DEVICE;
            break;
        case OF_DEVICE_POINTER: *(CUdeviceptr *) data = pointer; break;
        case OF_HOST_POINTER:
            if (!block->pinned)
                return CUDA_ERROR_INVALID_VALUE;
            *(void **) data = (void *) (uintptr_t) pointer;
            break;
        case OF_BUFFER_ID: *(unsigned long long *) data = block->number; break;
        case OF_IS_MANAGED: *(unsigned *) data = block->managed; break;
        case OF_DEVICE_ORDINAL: *(int *) data = block->context->device; break;
        case OF_RANGE_START: *(CUdeviceptr *) data = block->base; break;
        case OF_RANGE_SIZE: *(size_t *) data = block->end - block->base; break;
        case OF_MAPPED: *(unsigned *) data = 1; break;
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuPointerGetAttributes(unsigned count, int *attributes, void **data,
                                    CUdeviceptr pointer) {
    if (!attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        CUresult result = sim_cuPointerGetAttribute(data[i], attributes[i], pointer);
        if (result == CUDA_ERROR_NOT_SUPPORTED)
            return result;
    }
    return CUDA_SUCCESS;
}

/* ---- in stream order ---- */

CUresult sim_cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
    sim_stream *s = sim_stream_find(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = sim_capture_memory(s);
    if (result == CUDA_SUCCESS)
        result = sim_cuMemAlloc_v2(pointer, bytes);
    if (result != CUDA_SUCCESS)
        return result;
    sim_allocation *block = sim_memory_at(*pointer);
    block->access = sim_pool_access(block->context->device);
    block->birth = sim_submit(sim_work_create(sizeof(sim_work), "cuMemAllocAsync", NULL), s);
    return CUDA_SUCCESS;
}

static void end_freeing(sim_work *w) {
    sim_allocation *block = ((freeing *) w)->block;
    if (!block->live)
        return;
    if (w->stream->object.context->error == CUDA_SUCCESS)
        sim_order_freed(block, w);
    sim_memory_destroy(block);
}

CUresult sim_cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
    sim_allocation *block;
    sim_stream *s = sim_stream_find(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = sim_capture_memory(s);
    if (result == CUDA_SUCCESS)
        result = sim_memory_starting(pointer, false, &block);
    if (result != CUDA_SUCCESS)
        return result;
    block->ending = true;
    freeing *f = sim_work_create(sizeof *f, "cuMemFreeAsync", NULL);
    f->work.end = end_freeing;
    f->block = block;
    sim_submit(&f->work, s);
    return CUDA_SUCCESS;
}
