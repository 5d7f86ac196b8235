/* device.c: opening devices; entering and leaving their contexts.  Layer: cuda. */
#include "core/exit.h"
#include "cuda/detach.h"
#include <stdio.h>

/* Raised when the code made of a program changes. */
enum { CODE_VERSION = 4 };

/* Bytes of a kernel's arguments: what all take, and what is taken since CUDA 12.1. */
enum { FEW_BYTES = 4096, MANY_BYTES = 32764, MANY_SINCE = 12010 };

/* ---- The thread's capture mode ---- */

static CUresult relax(const jitc_cuda *c, jitc_cuda_scope *scope) {
    scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult result = c->ThreadExchangeStreamCaptureMode(&scope->mode);
    scope->relaxed = result == CUDA_SUCCESS;
    return result;
}

static void unrelax(const jitc_cuda *c, const jitc_cuda_scope *scope) {
    int mode = scope->mode;
    if (scope->relaxed && c->ThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
        c->ThreadExchangeStreamCaptureMode(&mode); /* once more: it is the caller's */
}

/* ---- Opening ---- */

void jitc_cuda_device_init(jitc_cuda_device *d, jitc_cuda_backend *b, int ordinal) {
    d->backend = b;
    d->ordinal = ordinal;
    jitc_mutex_init(&d->lock);
    jitc_mutex_init(&d->pool.lock);
    jitc_mutex_init(&d->staging.lock);
}

void jitc_cuda_device_finish(jitc_cuda_device *d) {
    const jitc_cuda *c = &d->backend->cuda;
    jitc_cuda_scope scope = {0};
    if (jitc_load_relaxed(&d->opened)) {
        bool there = jitc_cuda_enter_failed(d, &scope);
        jitc_cuda_staging_finish(d, there);
        if (there)
            jitc_cuda_pool_finish(d);
        jitc_cuda_leave(d, &scope);
    }
    if (d->rest) {
        jitc_cuda_rest_take(d->rest, d->pool.handle);
    } else if (jitc_load_relaxed(&d->opened) && !d->backend->forked) {
        relax(c, &scope);
        c->PrimaryCtxRelease(d->device); /* the driver may be gone, at exit */
        unrelax(c, &scope);
    }
    jitc_mutex_finish(&d->staging.lock);
    jitc_mutex_finish(&d->pool.lock);
    jitc_mutex_finish(&d->lock);
}

static jit_status read_attributes(jitc_cuda_device *d) {
    const jitc_cuda *c = &d->backend->cuda;
    int major, minor;
    TRY(CU(c, DeviceGet, &d->device, d->ordinal));
    TRY(CU(c, DeviceGetAttribute, &d->multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
           d->device));
    TRY(CU(c, DeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d->device));
    TRY(CU(c, DeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d->device));
    TRY(CU(c, DeviceGetAttribute, &d->block_bytes,
           CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, d->device));
    TRY(CU(c, DeviceGetAttribute, &d->multiprocessor_bytes,
           CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, d->device));
    d->capability = 10 * major + minor;
    return jitc_nvrtc_arch(d->backend->nvrtc, d->capability, &d->arch, &d->ptx);
}

static void describe(jitc_cuda_device *d) {
    int driver = d->backend->cuda.version, nvrtc = jitc_nvrtc_version(d->backend->nvrtc);
    d->most_bytes = driver >= MANY_SINCE && nvrtc >= MANY_SINCE ? MANY_BYTES : FEW_BYTES;
    d->target.lanes = 1;
    snprintf(d->target.text, sizeof d->target.text, "cuda %d %s_%d nvrtc %d driver %d arguments %u",
             CODE_VERSION, d->ptx ? "compute" : "sm", d->arch, nvrtc, driver, d->most_bytes);
}

static jit_status retain(jitc_cuda_device *d) {
    const jitc_cuda *c = &d->backend->cuda;
    jitc_cuda_scope scope = {0};
    TRY(jitc_cuda_check(c, relax(c, &scope), JITC_CU_ThreadExchangeStreamCaptureMode));
    jit_status status = CU(c, PrimaryCtxRetain, &d->context, d->device);
    unrelax(c, &scope);
    return status;
}

/* What the driver registers for the exit when a context is made comes after ours. */
static jit_status open_inside(jitc_cuda_device *d) {
    static atomic_uint times;
    TRY(read_attributes(d));
    describe(d);
    TRY(retain(d));
    jitc_exit_guard_again(&times);
    return JIT_OK;
}

static jit_status open_locked(jitc_cuda_device *d) REQUIRES(&d->lock) {
    if (!jitc_exit_enter_calls())
        return jitc_fail(JIT_UNAVAILABLE, "cuda: the process is exiting");
    jit_status status = open_inside(d);
    jitc_exit_leave_calls();
    TRY(status);
    jitc_store_release(&d->opened, true); /* pairs with jitc_cuda_device_get */
    return JIT_OK;
}

jit_status jitc_cuda_device_get(jitc_backend *base, int ordinal, jitc_cuda_device **out) {
    jitc_cuda_device *d = *out = &jitc_cuda_backend_of(base)->device[ordinal];
    jit_status status = JIT_OK;
    if (__builtin_expect(jitc_load_acquire(&d->opened), 1)) /* pairs with open_locked */
        return JIT_OK;
    if (jitc_cuda_backend_of(base)->forked)
        return jitc_cuda_fail_forked();
    jitc_mutex_lock(&d->lock);
    if (!jitc_load_relaxed(&d->opened))
        status = open_locked(d);
    jitc_mutex_unlock(&d->lock);
    return status;
}

/* ---- The context ---- */

/* The stack of contexts is the thread's. Mostly the context is current already: another library
 * that computes on the device has made it so, and then nothing has to be changed. */
static CUresult push(const jitc_cuda_device *d, jitc_cuda_scope *scope, jitc_cuda_function *f) {
    const jitc_cuda *c = &d->backend->cuda;
    CUcontext current = NULL;
    *scope = (jitc_cuda_scope) {0};
    *f = JITC_CU_ThreadExchangeStreamCaptureMode;
    if (!jitc_exit_enter_calls())
        return CUDA_ERROR_DEINITIALIZED; /* what the driver would say */
    CUresult result = relax(c, scope);
    if (result == CUDA_SUCCESS) {
        *f = JITC_CU_CtxGetCurrent;
        result = c->CtxGetCurrent(&current);
    }
    if (result == CUDA_SUCCESS && current != d->context) {
        *f = JITC_CU_CtxPushCurrent;
        result = c->CtxPushCurrent(d->context);
        scope->pushed = result == CUDA_SUCCESS;
    }
    if (result != CUDA_SUCCESS) {
        unrelax(c, scope);
        scope->relaxed = false;
        jitc_exit_leave_calls();
    }
    scope->entered = result == CUDA_SUCCESS;
    return result;
}

/* Should it fail and leave the context there, it is tried once more: the caller does not want it.
 */
void jitc_cuda_pop(const jitc_cuda *c, CUcontext context) {
    CUcontext current = NULL;
    if (c->CtxPopCurrent(&current) != CUDA_SUCCESS && c->CtxGetCurrent(&current) == CUDA_SUCCESS &&
        current == context)
        c->CtxPopCurrent(&current);
}

jit_status jitc_cuda_enter(jitc_cuda_device *d, jitc_cuda_scope *scope) {
    jitc_cuda_function f;
    *scope = (jitc_cuda_scope) {0};
    if (__builtin_expect(jitc_load_acquire(&d->failed), 0)) /* pairs with note_locked */
        return jitc_cuda_device_raise(d);
    CUresult result = push(d, scope, &f);
    return jitc_cuda_device_check(d, result, f);
}

bool jitc_cuda_enter_failed(jitc_cuda_device *d, jitc_cuda_scope *scope) {
    jitc_cuda_function f;
    *scope = (jitc_cuda_scope) {0};
    if (jitc_load_acquire(&d->lost)) /* pairs with note_locked */
        return false;
    CUresult result = push(d, scope, &f);
    if (result != CUDA_SUCCESS && !jitc_cuda_is_final(result))
        result = push(d, scope, &f); /* once more: what cannot be ended now is never ended */
    if (result != CUDA_SUCCESS && jitc_cuda_is_final(result))
        jitc_cuda_device_fail(d, result, f, "");
    return result == CUDA_SUCCESS;
}

void jitc_cuda_leave(jitc_cuda_device *d, const jitc_cuda_scope *scope) {
    if (scope->pushed)
        jitc_cuda_pop(&d->backend->cuda, d->context);
    unrelax(&d->backend->cuda, scope);
    if (scope->entered)
        jitc_exit_leave_calls();
}
