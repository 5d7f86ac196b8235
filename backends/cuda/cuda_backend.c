/* cuda_backend.c: the vtable of the CUDA backend.  Layer: cuda.  May include:
 * core, ir, device.
 *
 *   program --lower--> CUDA C --compile (NVRTC)--> CUBIN --load--> module
 * --launch--> batch
 *
 * The slots bring the device's context in and out; what they call finds it
 * current. */
#include "cuda/cuda_backend.h"
#include "cuda/detach.h"
#include "cuda/event.h"
#include "cuda/module.h"
#include "cuda/stream.h"
#include "cuda/text.h"
#include <stdlib.h>
#include <string.h>

struct jitc_source {
    jitc_cuda_device *device;
    char *text;
    bool fuse; /* multiplications and additions */
};

/* Devices and memory. */

static jit_status device_count(jitc_backend *b, int *out) {
    *out = jitc_cuda_backend_of(b)->device_count;
    return JIT_OK;
}

static jit_status target(jitc_backend *b, int device, const jitc_target **out) {
    jitc_cuda_device *d;
    TRY(jitc_cuda_device_get(b, device, &d));
    *out = &d->target;
    return JIT_OK;
}

static jit_status alloc_block(jitc_backend *b, int device, size_t bytes, void **out) {
    jitc_cuda_device *d;
    TRY(jitc_cuda_device_get(b, device, &d));
    INSIDE(d, jitc_cuda_alloc(d, bytes, out));
}

static void free_block(jitc_backend *b, int device, void *pointer, size_t bytes) {
    jitc_cuda_device *d = &jitc_cuda_backend_of(b)->device[device];
    jitc_cuda_scope scope;
    (void) bytes;
    if (jitc_cuda_enter_failed(d, &scope))
        jitc_cuda_free(d, pointer);
    jitc_cuda_leave(d, &scope);
}

static void trim(jitc_backend *b, int device) {
    jitc_cuda_device *d = &jitc_cuda_backend_of(b)->device[device];
    jitc_cuda_scope scope;
    if (jitc_cuda_enter_failed(d, &scope))
        jitc_cuda_trim(d);
    jitc_cuda_leave(d, &scope);
}

static void share(jitc_backend *b, int device) {
    jitc_cuda_device *d = &jitc_cuda_backend_of(b)->device[device];
    jitc_cuda_scope scope;
    if (__builtin_expect(jitc_load_acquire(&d->pool.shared), 1)) /* pairs with jitc_cuda_share */
        return;
    if (jitc_cuda_enter_failed(d, &scope))
        jitc_cuda_share(d);
    jitc_cuda_leave(d, &scope);
}

static jit_status look_up(jitc_backend *b, int device, const void *pointer, jitc_address *out) {
    jitc_cuda_device *d;
    TRY(jitc_cuda_device_get(b, device, &d));
    return jitc_cuda_look_up(d, pointer, out);
}

/* Streams. */

static jit_status create_stream(jitc_cuda_device *d, jitc_stream **out) {
    jitc_cuda_stream *s;
    TRY(jitc_cuda_stream_create(d, &s));
    *out = &s->base;
    return JIT_OK;
}

static jit_status stream_create(jitc_backend *b, int device, jitc_stream **out) {
    jitc_cuda_device *d;
    TRY(jitc_cuda_device_get(b, device, &d));
    INSIDE(d, create_stream(d, out));
}

static void stream_destroy(jitc_stream *s) {
    jitc_cuda_stream_destroy(jitc_cuda_stream_of(s));
}

static size_t scratch(jitc_kernel *k, uint64_t lanes) {
    return jitc_cuda_scratch_of(&jitc_cuda_kernel_of(k)->shape, lanes);
}

static jit_status launch(jitc_stream *base, jitc_kernel *k, const jitc_launch_args *a,
                         uint64_t *number) {
    jitc_cuda_stream *s = jitc_cuda_stream_of(base);
    jitc_add_relaxed(&k->work, a->lanes * k->operations);
    INSIDE(s->device, jitc_cuda_launch(s, jitc_cuda_kernel_of(k), a, number));
}

static jit_status copy(jitc_stream *base, void *to, const void *from, size_t bytes,
                       uint64_t *number) {
    jitc_cuda_stream *s = jitc_cuda_stream_of(base);
    INSIDE(s->device, jitc_cuda_copy(s, to, from, bytes, number));
}

static jit_status upload(jitc_stream *base, void *to, const void *from, size_t bytes,
                         uint64_t *number) {
    jitc_cuda_stream *s = jitc_cuda_stream_of(base);
    INSIDE(s->device, jitc_cuda_upload(s, to, from, bytes, number));
}

static jit_status download(jitc_stream *base, void *to, const void *from, size_t bytes) {
    jitc_cuda_stream *s = jitc_cuda_stream_of(base);
    INSIDE(s->device, jitc_cuda_download(s, to, from, bytes));
}

static jit_status call(jitc_stream *base, void (*function)(void *), void *context,
                       uint64_t *number) {
    jitc_cuda_stream *s = jitc_cuda_stream_of(base);
    INSIDE(s->device, jitc_cuda_call(s, function, context, number));
}

static jit_status stream_wait(jitc_stream *base, jitc_stream *other, uint64_t n) {
    jitc_cuda_stream *s = jitc_cuda_stream_of(base);
    INSIDE(s->device, jitc_cuda_stream_wait(s, jitc_cuda_stream_of(other), n));
}

static jit_status flush_inside(jitc_cuda_stream *s) {
    jit_status status = jitc_cuda_flush(s);
    jitc_cuda_tell_graphs(s);
    return status;
}

static jit_status flush(jitc_stream *base) {
    jitc_cuda_stream *s = jitc_cuda_stream_of(base);
    INSIDE(s->device, flush_inside(s));
}

static bool done(jitc_stream *base, uint64_t n) {
    jitc_cuda_stream *s = jitc_cuda_stream_of(base);
    return jitc_cuda_reached(s, n) && n < jitc_load_acquire(&s->first_call); /* calls.c */
}

static jit_status wait_for(jitc_stream *base, uint64_t n) {
    jitc_cuda_stream *s = jitc_cuda_stream_of(base);
    jit_status status = jitc_cuda_reach(s, n);
    jitc_cuda_calls_wait(s, n);
    jitc_cuda_unload_retired(s->device);
    return status;
}

static void stream_native(jitc_stream *base, void **stream, void **context) {
    jitc_cuda_stream *s = jitc_cuda_stream_of(base);
    if (stream) {
        jitc_store_relaxed(&s->shown, true); /* pairs with has_ended in foreign.c */
        *stream = s->stream;
    }
    *context = s->device->context;
}

static jit_status stream_release(jitc_stream *s, intptr_t other) {
    return jitc_cuda_sync_stream(jitc_cuda_stream_of(s), other);
}

static jit_status stream_acquire(jitc_stream *s, intptr_t other) {
    return jitc_cuda_wait_stream(jitc_cuda_stream_of(s), other);
}

static uint64_t consumer_id(jitc_stream *s, intptr_t other) {
    return jitc_cuda_consumer_id(jitc_cuda_stream_of(s)->device, other);
}

static bool consumer_is_apart(jitc_stream *s, intptr_t other) {
    return jitc_cuda_consumer_is_apart(jitc_cuda_stream_of(s)->device, other);
}

static jit_status create_consumer(jitc_cuda_device *d, jitc_stream **out) {
    jitc_cuda_stream *s;
    TRY(jitc_cuda_consumer_create(d, &s));
    *out = &s->base;
    return JIT_OK;
}

static jit_status consumer_create(jitc_backend *b, int device, jitc_stream **out) {
    jitc_cuda_device *d;
    TRY(jitc_cuda_device_get(b, device, &d));
    INSIDE(d, create_consumer(d, out));
}

static jit_status consumer_mark(jitc_stream *marks, intptr_t other, uint64_t *number) {
    return jitc_cuda_consumer_mark(jitc_cuda_stream_of(marks), other, number);
}

static jit_status barrier_inside(jitc_cuda_device *d) {
    /* whichever call it was: they say the same of work that failed */
    return jitc_cuda_device_check(d, jitc_cuda_barrier(&d->backend->cuda), JITC_CU_MemFree);
}

static jit_status barrier(jitc_backend *b, int device) {
    jitc_cuda_device *d;
    TRY(jitc_cuda_device_get(b, device, &d));
    INSIDE(d, barrier_inside(d));
}

static void detach(jitc_backend *b, int device, size_t blocks, jitc_detached *out) {
    jitc_cuda_detach(&jitc_cuda_backend_of(b)->device[device], blocks, out);
}

/* Events. */

static jit_status event_create(jitc_backend *b, int device, bool timed, void *native,
                               jitc_event **out) {
    jitc_cuda_device *d;
    TRY(jitc_cuda_device_get(b, device, &d));
    INSIDE(d, jitc_cuda_event_create(d, timed, native, out));
}

static jit_status event_record(jitc_event *e, jitc_stream *s) {
    return jitc_cuda_event_record(e, jitc_cuda_stream_of(s));
}

static jit_status event_stream_wait(jitc_stream *s, jitc_event *e) {
    return jitc_cuda_event_stream_wait(jitc_cuda_stream_of(s), e);
}

/* Kernels. */

static jit_status lower(jitc_backend *b, int device, const jitc_program *p, jitc_source **out) {
    jitc_cuda_device *d;
    void *memory;
    TRY(jitc_cuda_device_get(b, device, &d));
    TRY(jitc_calloc(1, sizeof(jitc_source), &memory));
    jitc_source *s = memory;
    s->device = d;
    s->fuse = p->head.flags & JITC_PROGRAM_FAST_MATH;
    jit_status status = jitc_cuda_text(p, jitc_cuda_layout_of(p, d->most_bytes), &s->text);
    if (status != JIT_OK) {
        free(s);
        return status;
    }
    *out = s;
    return JIT_OK;
}

static jit_status compile(jitc_backend *b, jitc_source *s, int level, jitc_blob *out) {
    (void) level; /* there is one */
    return jitc_nvrtc_compile(jitc_cuda_backend_of(b)->nvrtc, s->text, s->device->arch,
                              s->device->ptx, s->fuse, out);
}

/* The machine code is the driver's secret; PTX is its assembly. */
static char *print_ptx(const jitc_source *s) {
    jitc_blob ptx;
    jitc_error before, failure;
    jitc_error_take(&before); /* a text that cannot be shown is no error of the thread */
    jit_status status = jitc_nvrtc_compile(s->device->backend->nvrtc, s->text, s->device->arch,
                                           true, s->fuse, &ptx);
    jitc_error_take(&failure);
    jitc_error_raise(&before);
    return status == JIT_OK ? ptx.data : strdup(failure.text);
}

static char *source_print(jitc_source *s, int level) {
    return level < 0 ? strdup(s->text) : print_ptx(s);
}

static void source_destroy(jitc_backend *b, jitc_source *s) {
    (void) b;
    if (!s)
        return;
    free(s->text);
    free(s);
}

static jit_status load_inside(jitc_cuda_device *d, const jitc_program *p, const jitc_blob *code,
                              jitc_kernel **out) {
    jitc_cuda_kernel *k;
    TRY(jitc_cuda_kernel_load(d, p, code, &k));
    *out = &k->base;
    return JIT_OK;
}

static jit_status load(jitc_backend *b, int device, const jitc_program *p, const jitc_blob *code,
                       jitc_kernel **out) {
    jitc_cuda_device *d;
    TRY(jitc_cuda_device_get(b, device, &d));
    INSIDE(d, load_inside(d, p, code, out));
}

static jit_status reload(jitc_backend *b, jitc_kernel *base, const jitc_blob *code) {
    jitc_cuda_kernel *k = jitc_cuda_kernel_of(base);
    (void) b;
    INSIDE(k->device, jitc_cuda_kernel_reload(k, code));
}

static void kernel_destroy(jitc_backend *b, jitc_kernel *k) {
    (void) b;
    if (k)
        jitc_cuda_kernel_destroy(jitc_cuda_kernel_of(k));
}

/* The backend. */

/* What forked() walks is whole. */
static void fork_hold(jitc_backend *base) UNCHECKED_LOCKING {
    jitc_cuda_backend *b = jitc_cuda_backend_of(base);
    jitc_cuda_calls_fork_hold(b->calls);
    for (int i = 0; i < b->device_count; ++i)
        jitc_mutex_lock(&b->device[i].lock);
}

static void fork_release(jitc_backend *base) UNCHECKED_LOCKING {
    jitc_cuda_backend *b = jitc_cuda_backend_of(base);
    for (int i = 0; i < b->device_count; ++i)
        jitc_mutex_unlock(&b->device[i].lock);
    jitc_cuda_calls_fork_release(b->calls);
}

static void forked(jitc_backend *base) {
    jitc_cuda_backend *b = jitc_cuda_backend_of(base);
    b->forked = true;
    jitc_cuda_calls_forked(b->calls);
    for (int i = 0; i < b->device_count; ++i)
        jitc_cuda_device_forked(&b->device[i]);
}

static void destroy(jitc_backend *base) {
    jitc_cuda_backend *b = jitc_cuda_backend_of(base);
    jitc_cuda_calls_destroy(b->calls);
    for (int i = 0; i < b->device_count; ++i) {
        jitc_cuda_unload_retired(&b->device[i]);
        jitc_cuda_device_finish(&b->device[i]);
    }
    jitc_nvrtc_close(b->nvrtc);
    free(b);
}

static const jitc_backend slots = {
    .id = JIT_CUDA,
    .name = "cuda",
    .host_memory = false,
    .levels = 0,
    .device_count = device_count,
    .target = target,
    .alloc = alloc_block,
    .free = free_block,
    .trim = trim,
    .share = share,
    .look_up = look_up,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .scratch = scratch,
    .launch = launch,
    .copy = copy,
    .upload = upload,
    .download = download,
    .call = call,
    .stream_wait = stream_wait,
    .flush = flush,
    .done = done,
    .wait = wait_for,
    .event_create = event_create,
    .event_destroy = jitc_cuda_event_destroy,
    .event_record = event_record,
    .event_done = jitc_cuda_event_done,
    .event_wait = jitc_cuda_event_wait,
    .event_stream_wait = event_stream_wait,
    .event_elapsed = jitc_cuda_event_elapsed,
    .event_native = jitc_cuda_event_native,
    .stream_release = stream_release,
    .stream_acquire = stream_acquire,
    .consumer_id = consumer_id,
    .consumer_is_apart = consumer_is_apart,
    .consumer_create = consumer_create,
    .consumer_mark = consumer_mark,
    .barrier = barrier,
    .detach = detach,
    .stream_native = stream_native,
    .fork_hold = fork_hold,
    .fork_release = fork_release,
    .forked = forked,
    .lower = lower,
    .compile = compile,
    .source_print = source_print,
    .source_destroy = source_destroy,
    .load = load,
    .reload = reload,
    .kernel_destroy = kernel_destroy,
    .destroy = destroy,
};

static jit_status count_devices(const jitc_cuda *c, int *out) {
    CUresult result = c->DeviceGetCount(out);
    if (result == CUDA_ERROR_NO_DEVICE || (result == CUDA_SUCCESS && *out == 0))
        return jitc_fail(JIT_UNAVAILABLE, "cuda: the driver sees no CUDA device "
                                          "(CUDA_VISIBLE_DEVICES may hide it)");
    return jitc_cuda_check(c, result, JITC_CU_DeviceGetCount);
}

static bool has_graphs(const jitc_cuda *c) {
    return c->GraphCreate && c->GraphDestroy && c->GraphAddKernelNode && c->GraphInstantiate &&
           c->GraphExecDestroy && c->GraphExecKernelNodeSetParams && c->GraphLaunch;
}

static jit_status create_parts(jitc_cuda_backend *b, const jitc_options *o) {
    TRY(jitc_nvrtc_open(o->cuda_nvrtc, &b->nvrtc));
    jit_status status = jitc_cuda_calls_create(&b->calls);
    if (status != JIT_OK) {
        jitc_nvrtc_close(b->nvrtc);
        return status;
    }
    b->options = o;
    b->has_graphs = has_graphs(&b->cuda);
    for (int i = 0; i < b->device_count; ++i)
        jitc_cuda_device_init(&b->device[i], b, i);
    return JIT_OK;
}

jit_status jitc_cuda_backend_create(const jitc_options *o, jitc_backend **out) {
    jitc_cuda cuda;
    int count;
    void *p;
    TRY(jitc_cuda_open(o->cuda_driver, &cuda));
    TRY(count_devices(&cuda, &count));
    TRY(jitc_calloc(1, sizeof(jitc_cuda_backend) + (size_t) count * sizeof(jitc_cuda_device), &p));
    jitc_cuda_backend *b = p;
    b->base = slots;
    b->cuda = cuda;
    b->device_count = count;
    jit_status status = create_parts(b, o);
    if (status != JIT_OK) {
        free(b);
        return status;
    }
    *out = &b->base;
    return JIT_OK;
}
