/* detach.c: waiting for all that a device does, and memory that outlives the backend.
 * Layer: cuda. */
#include "cuda/detach.h"
#include "core/exit.h"
#include <stdlib.h>

/* ---- The barrier ---- */

/* To free memory that is no pool's takes until the device has done everything, streams that are
 * not blocking included. cuCtxSynchronize() would end whatever is being captured. What cannot be
 * freed is tried once more: it is never freed else. */
static CUresult wait_in_context(const jitc_cuda *c) {
    CUdeviceptr block;
    void *pinned;
    CUresult result = c->MemAlloc(&block, 1);
    if (result == CUDA_SUCCESS)
        return c->MemFree(block) == CUDA_SUCCESS ? CUDA_SUCCESS : c->MemFree(block);
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return result;
    result = c->MemHostAlloc(&pinned, 1, 0);
    if (result != CUDA_SUCCESS)
        return result;
    return c->MemFreeHost(pinned) == CUDA_SUCCESS ? CUDA_SUCCESS : c->MemFreeHost(pinned);
}

/* Calls a function with the primary context of a device, if there is one. */
typedef CUresult with_context(const jitc_cuda *c, CUcontext context, CUcontext own);

static CUresult in_primary(const jitc_cuda *c, int ordinal, with_context *function, CUcontext own) {
    CUdevice device;
    CUcontext context;
    unsigned flags;
    int active = 0;
    CUresult result = c->DeviceGet(&device, ordinal);
    if (result == CUDA_SUCCESS)
        result = c->PrimaryCtxGetState(device, &flags, &active);
    if (result != CUDA_SUCCESS || !active)
        return result;
    result = c->PrimaryCtxRetain(&context, device);
    if (result != CUDA_SUCCESS)
        return result;
    result = function(c, context, own);
    if (c->PrimaryCtxRelease(device) != CUDA_SUCCESS)
        c->PrimaryCtxRelease(device);
    return result;
}

/* Of all devices; until one fails. */
static CUresult in_all_primaries(const jitc_cuda *c, with_context *function, CUcontext own) {
    int count = 0;
    CUresult result = c->DeviceGetCount(&count);
    for (int i = 0; i < count && result == CUDA_SUCCESS; ++i)
        result = in_primary(c, i, function, own);
    return result;
}

/* Another device may work on our memory, too. Nobody works where no context is. */
static CUresult wait_in_other_context(const jitc_cuda *c, CUcontext context, CUcontext own) {
    if (context == own)
        return CUDA_SUCCESS;
    CUresult result = c->CtxPushCurrent(context);
    if (result != CUDA_SUCCESS)
        return result;
    result = wait_in_context(c);
    jitc_cuda_pop(c, context);
    return result;
}

CUresult jitc_cuda_barrier(const jitc_cuda *c) {
    CUcontext own = NULL;
    CUresult result = wait_in_context(c);
    if (result == CUDA_SUCCESS)
        result = c->CtxGetCurrent(&own);
    return result == CUDA_SUCCESS ? in_all_primaries(c, wait_in_other_context, own) : result;
}

static CUresult stop_at(const jitc_cuda *c, CUcontext context, CUcontext wanted) {
    (void) c;
    return context == wanted ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

bool jitc_cuda_is_primary(const jitc_cuda *c, CUcontext context) {
    return in_all_primaries(c, stop_at, context) == CUDA_ERROR_NOT_READY;
}

/* ---- What is left of a device ---- */

struct jitc_cuda_rest {
    jitc_cuda cuda;
    CUdevice device;
    CUcontext context;
    CUmemoryPool pool;   /* NULL: none, or the device still has it */
    atomic_size_t users; /* blocks, and the device */
    unsigned generation; /* of the process: a child has no driver */
    bool lost;           /* the context is gone, and the memory with it */
};

/* A block that is to be freed by a thread: its owner called from within the driver. */
typedef struct late {
    jitc_cuda_rest *rest;
    void *pointer;
} late;

static bool has_driver(const jitc_cuda_rest *r) {
    return r->generation == jitc_load_relaxed(&jitc_fork_generation);
}

static CUresult enter(const jitc_cuda_rest *r, int *mode) {
    *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!jitc_exit_enter_calls())
        return CUDA_ERROR_DEINITIALIZED;
    CUresult result = r->cuda.ThreadExchangeStreamCaptureMode(mode);
    if (result == CUDA_SUCCESS) {
        result = r->cuda.CtxPushCurrent(r->context);
        if (result != CUDA_SUCCESS)
            r->cuda.ThreadExchangeStreamCaptureMode(mode);
    }
    if (result != CUDA_SUCCESS)
        jitc_exit_leave_calls();
    return result;
}

static void leave(const jitc_cuda_rest *r, int mode) {
    jitc_cuda_pop(&r->cuda, r->context);
    r->cuda.ThreadExchangeStreamCaptureMode(&mode);
    jitc_exit_leave_calls();
}

/* The driver may be gone, at exit: then so is everything. */
static void end(jitc_cuda_rest *r) {
    int mode;
    if (r->pool && !r->lost && enter(r, &mode) == CUDA_SUCCESS) {
        r->cuda.MemPoolDestroy(r->pool);
        leave(r, mode);
    }
    mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!jitc_exit_enter_calls())
        return;
    if (r->cuda.ThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS) {
        r->cuda.PrimaryCtxRelease(r->device);
        r->cuda.ThreadExchangeStreamCaptureMode(&mode);
    }
    jitc_exit_leave_calls();
}

static void unref(jitc_cuda_rest *r) {
    if (jitc_add_acq_rel(&r->users, (size_t) -1) != 1)
        return;
    if (has_driver(r))
        end(r);
    free(r);
}

/* ORDER: the consumer's reads before the free, by the barrier; without it they read what is no
 * memory any more. */
static CUresult free_now(jitc_cuda_rest *r, void *pointer) {
    int mode;
    CUresult result = enter(r, &mode);
    if (result != CUDA_SUCCESS)
        return result;
    result = jitc_cuda_barrier(&r->cuda);
    if (result == CUDA_SUCCESS && pointer)
        result = r->cuda.MemFree((uintptr_t) pointer);
    leave(r, mode);
    return result;
}

static void *free_late(void *context) {
    late *l = context;
    if (jitc_exit_enter("cuda")) {
        free_now(l->rest, l->pointer);
        unref(l->rest);
        jitc_exit_leave();
    }
    free(l);
    return NULL;
}

static void start_thread(jitc_cuda_rest *r, void *pointer) {
    pthread_t thread;
    late *l = malloc(sizeof *l);
    if (!l)
        return; /* it is never freed */
    *l = (late) {r, pointer};
    if (jitc_thread_start(&thread, free_late, l))
        pthread_detach(thread);
    else
        free(l);
}

static void free_detached(void *context, void *pointer, size_t bytes) {
    jitc_cuda_rest *r = context;
    (void) bytes;
    if (!r->lost && has_driver(r) && free_now(r, pointer) == CUDA_ERROR_NOT_PERMITTED)
        start_thread(r, pointer);
    else
        unref(r);
}

static void free_never(void *context, void *pointer, size_t bytes) {
    (void) context, (void) pointer, (void) bytes;
}

void jitc_cuda_detach(jitc_cuda_device *d, size_t blocks, jitc_detached *out) {
    jitc_cuda_rest *r = calloc(1, sizeof *r);
    *out = (jitc_detached) {.free = free_never};
    if (!r)
        return;
    r->cuda = d->backend->cuda;
    r->device = d->device;
    r->context = d->context;
    r->lost = jitc_load_acquire(&d->lost); /* pairs with note_locked */
    r->generation = jitc_load_relaxed(&jitc_fork_generation);
    jitc_store_relaxed(&r->users, blocks + 1);
    d->rest = r;
    *out = (jitc_detached) {free_detached, r};
}

void jitc_cuda_rest_take(jitc_cuda_rest *r, CUmemoryPool pool) {
    r->pool = pool;
    unref(r);
}
