/* gate.c: see gate.h. */
#include "gate.h"
#include "api/event.h"
#include "cuda/driver.h"
#include <string.h>
#include <time.h>

void gate_pause(void) {
    nanosleep(&(struct timespec) {.tv_nsec = 2000000}, NULL);
}

static void pass(void *context) {
    const gate *g = context;
    while (!atomic_load(&g->open))
        nanosleep(&(struct timespec) {.tv_nsec = 50000}, NULL);
}

/* The thread ends with its work queued; nobody takes its stream until that is over. */
static void *queue_pass(void *context) {
    gate *g = context;
    ASSERT_OK(jit_call(JIT_LLVM, pass, g));
    ASSERT_OK(jit_event_record(g->event));
    return NULL;
}

static void close_on_cpu(gate *g) {
    pthread_t t;
    ASSERT_OK(jit_event_create(JIT_LLVM, false, &g->event));
    cr_assert_eq(pthread_create(&t, NULL, queue_pass, g), 0);
    cr_assert_eq(pthread_join(t, NULL), 0);
}

static void find(void *function, const char *symbol) {
    void *address = support_driver(symbol);
    cr_assert_not_null(address, "the driver has no %s", symbol);
    memcpy(function, &address, sizeof address); /* as dlsym() requires */
}

/* The context that the library uses, made current in this thread. */
static void push_context(void) {
    CUresult (*retain)(CUcontext *, CUdevice), (*push)(CUcontext);
    CUcontext context;
    find(&retain, "cuDevicePrimaryCtxRetain");
    find(&push, "cuCtxPushCurrent_v2");
    cr_assert(!retain(&context, jit_device(JIT_CUDA)) && !push(context));
}

static void pop_context(void) {
    CUresult (*pop)(CUcontext *);
    CUcontext context;
    find(&pop, "cuCtxPopCurrent_v2");
    cr_assert(!pop(&context));
}

/* It stays as long as the stream does: what push_context() has retained. */
static void release_context(void) {
    CUresult (*release)(CUdevice);
    find(&release, "cuDevicePrimaryCtxRelease_v2");
    cr_assert(!release(jit_device(JIT_CUDA)));
}

static void close_on_gpu(gate *g) {
    CUresult (*create)(CUstream *, unsigned), (*make)(CUevent *, unsigned);
    CUresult (*launch)(CUstream, void (*)(void *), void *), (*record)(CUevent, CUstream);
    CUstream stream;
    CUevent event;
    find(&create, "cuStreamCreate");
    find(&make, "cuEventCreate");
    find(&launch, "cuLaunchHostFunc");
    find(&record, "cuEventRecord");
    push_context();
    cr_assert(!create(&stream, CU_STREAM_NON_BLOCKING) && !make(&event, CU_EVENT_DEFAULT));
    cr_assert(!launch(stream, pass, g) && !record(event, stream));
    pop_context();
    g->stream = stream;
    g->native = event;
    ASSERT_OK(jitc_event_adopt(JIT_CUDA, event, false, &g->event));
}

void gate_close(gate *g, void (*kernels)(void)) {
    memset(g, 0, sizeof *g);
    if (support_backend() == JIT_CUDA) {
        if (kernels)
            kernels();
        ASSERT_OK(jit_sync_thread());
        ASSERT_OK(jit_trim()); /* what our stream used may be written again behind the gate only */
        close_on_gpu(g);
    } else {
        close_on_cpu(g);
    }
}

void gate_open(gate *g) {
    atomic_store(&g->open, true);
}

void gate_finish(gate *g) {
    CUresult (*end_stream)(CUstream), (*end_event)(CUevent);
    gate_open(g);
    ASSERT_OK(jit_event_wait(g->event)); /* the function reads the gate until then */
    jit_event_destroy(g->event);
    if (!g->stream)
        return;
    find(&end_stream, "cuStreamDestroy_v2");
    find(&end_event, "cuEventDestroy_v2");
    push_context();
    cr_assert(!end_event(g->native) && !end_stream(g->stream));
    pop_context();
    release_context();
    release_context();
}

void gate_block_own_stream(gate *g) {
    ASSERT_OK(jit_event_stream_wait(g->event));
}
