/* context.c: contexts, and which one is current in a thread.  Layer: tests. */
#include "order.h"

enum { STACK = 64 };

/** The contexts that were pushed; the last one is current. Contexts are never freed. */
static __thread struct {
    sim_context *items[STACK];
    int count;
} stack;

static struct {
    sim_context *context; /* NULL: not active */
    unsigned retained;
} primary[SIM_DEVICES];

sim_context *sim_current(void) {
    return stack.count ? stack.items[stack.count - 1] : NULL;
}

unsigned sim_contexts_retained(void) {
    unsigned sum = 0;
    for (int i = 0; i < SIM_DEVICES; i++)
        sum += primary[i].retained;
    return sum;
}

static sim_context *create(int device, bool is_primary) {
    sim_context *c = sim_object_create(SIM_CONTEXT, sizeof *c, NULL);
    c->object.context = c;
    c->device = device;
    c->primary = is_primary;
    c->legacy = sim_stream_create(c, SIM_LEGACY);
    return c;
}

/** What was left behind in a context that its last user has given up is a leak, unless an error
 *  kept it from being freed. */
static void report_leaks(const sim_context *c) {
    static const sim_kind kinds[] = {SIM_STREAM, SIM_EVENT, SIM_MODULE, SIM_GRAPH, SIM_EXEC};
    if (c->error != CUDA_SUCCESS)
        return;
    unsigned count = sim_memory_count(c);
    if (count)
        sim_fault("leak: %u allocations of context %u were never freed", count, c->object.number);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        count = sim_object_count(kinds[i], c);
        if (count)
            sim_fault("leak: %u of kind %s in context %u were never destroyed", count,
                      sim_kind_name(kinds[i]), c->object.number);
    }
}

/** End a context with everything in it, once what is queued is done. */
static void destroy(sim_context *c, sim_life life) {
    c->object.life = life; /* nothing more is queued */
    sim_captures_lose(c);
    sim_context_wait(c);
    if (life == SIM_DESTROYED)
        report_leaks(c);
    sim_memory_lose(c);
    sim_objects_lose(c);
}

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!primary[device].context)
        primary[device].context = create(device, true);
    primary[device].retained++;
    *context = sim_object_handle(primary[device].context);
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    if (sim_device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    if (primary[device].retained == 0) {
        sim_fault("the primary context of device %d is released more often than retained", device);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    sim_context *c = primary[device].context;
    if (--primary[device].retained == 0 && c) {
        primary[device].context = NULL;
        destroy(c, SIM_DESTROYED);
    }
    return CUDA_SUCCESS;
}

/* The references stay: whoever retained the context has to release it. */
CUresult sim_cuDevicePrimaryCtxReset_v2(CUdevice device) {
    if (sim_device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_context *c = primary[device].context;
    primary[device].context = NULL;
    if (c)
        destroy(c, SIM_LOST);
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    *flags = 0;
    *active = primary[device].context != NULL;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    (void) flags; /* how to wait: no difference here */
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    if (stack.count == STACK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_context *c = create(device, false);
    stack.items[stack.count++] = c;
    *context = sim_object_handle(c);
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxCreate_v3(CUcontext *context, void *params, int count, unsigned flags,
                            CUdevice device) {
    return params || count ? CUDA_ERROR_NOT_SUPPORTED : sim_cuCtxCreate_v2(context, flags, device);
}

CUresult sim_cuCtxCreate_v4(CUcontext *context, void *params, unsigned flags, CUdevice device) {
    return params ? CUDA_ERROR_NOT_SUPPORTED : sim_cuCtxCreate_v2(context, flags, device);
}

CUresult sim_cuCtxDestroy_v2(CUcontext context) {
    sim_context *c = sim_object_find(context, SIM_CONTEXT);
    if (!c || c->object.life != SIM_ALIVE || c->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (sim_current() == c)
        stack.count--;
    destroy(c, SIM_DESTROYED);
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCurrent(CUcontext *context) {
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    *context = sim_current() ? sim_object_handle(sim_current()) : NULL;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxPushCurrent_v2(CUcontext context) {
    sim_context *c = sim_object_find(context, SIM_CONTEXT);
    if (!c || c->object.life == SIM_DESTROYED)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.count == STACK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack.items[stack.count++] = c;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxPopCurrent_v2(CUcontext *context) {
    if (!stack.count)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context)
        *context = sim_object_handle(sim_current());
    stack.count--;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCurrent(CUcontext context) {
    if (!context) {
        stack.count -= stack.count > 0;
        return CUDA_SUCCESS;
    }
    int count = stack.count;
    stack.count -= count > 0;
    CUresult result = sim_cuCtxPushCurrent_v2(context);
    if (result != CUDA_SUCCESS)
        stack.count = count;
    return result;
}

CUresult sim_cuCtxGetDevice(CUdevice *device) {
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = sim_current()->device;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSynchronize(void) {
    CUresult result = sim_capture_wait_for_context(sim_current());
    return result == CUDA_SUCCESS ? sim_order_wait_all(sim_current()) : result;
}
