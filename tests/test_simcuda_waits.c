/* test_simcuda_waits.c: which calls of the driver wait until all is over that runs in the context.
 * What is not said to be simulated holds on a real driver, too, which JITC_LIBCUDA may name. */
#include "capture_world.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    char *code;
    CUmodule module;    /* a second one, whose functions were not used */
    CUfunction add;     /* its */
    CUmodule loaded;    /* by the call */
    CUdeviceptr memory; /* to be freed */
    void *pinned;
    CUstream stream; /* beside the one with the gate */
} t;

static void start(void) {
    t.code = capture_code();
    OK(cu.ModuleLoadData(&t.module, t.code, 0, NULL, NULL));
    t.add = client_function(t.module, "add");
    t.memory = client_alloc(64);
    OK(cu.MemHostAlloc(&t.pinned, 64, 0));
    t.stream = client_stream(CU_STREAM_NON_BLOCKING);
    OK(capture_launch(w.times, 1, t.stream)); /* its kernel is loaded from here on */
    OK(cu.StreamSynchronize(t.stream));
}

static void finish(void) {
    OK(cu.StreamSynchronize(t.stream));
    if (t.module)
        OK(cu.ModuleUnload(t.module));
    if (t.loaded)
        OK(cu.ModuleUnload(t.loaded));
    if (t.memory)
        OK(cu.MemFree(t.memory));
    if (t.pinned)
        OK(cu.MemFreeHost(t.pinned));
    OK(cu.StreamDestroy(t.stream));
    free(t.code);
    memset(&t, 0, sizeof t);
}

/* ---- calls that wait ---- */

static CUresult load(void) {
    return cu.ModuleLoadData(&t.loaded, t.code, 0, NULL, NULL);
}
static CUresult unload(void) {
    CUmodule module = t.module;
    t.module = NULL;
    return cu.ModuleUnload(module);
}
static CUresult load_function(void) {
    return cu.FuncLoad(t.add);
}
static CUresult launch_first(void) {
    return capture_launch(t.add, 1, t.stream);
}
static CUresult free_memory(void) {
    CUdeviceptr memory = t.memory;
    t.memory = 0;
    return cu.MemFree(memory);
}
static CUresult free_pinned(void) {
    void *pinned = t.pinned;
    t.pinned = NULL;
    return cu.MemFreeHost(pinned);
}

typedef struct waiter {
    CUresult (*call)(void);
    CUresult result;
    atomic_bool inside, over;
    pthread_t thread;
} waiter;

static void *wait_in_call(void *argument) {
    waiter *x = argument;
    CUcontext context;
    OK(cu.CtxPushCurrent(w.context));
    atomic_store(&x->inside, true);
    x->result = x->call();
    atomic_store(&x->over, true);
    OK(cu.CtxPopCurrent(&context));
    return NULL;
}

static void call_in_thread(waiter *x, CUresult (*call)(void)) {
    memset(x, 0, sizeof *x);
    x->call = call;
    cr_assert_eq(pthread_create(&x->thread, NULL, wait_in_call, x), 0);
    while (!atomic_load(&x->inside))
        usleep(100);
}

static void check_that_it_waits(const char *name, CUresult (*call)(void)) {
    gate g;
    waiter x;
    start();
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    gate_close(&g, stream);
    call_in_thread(&x, call);
    usleep(20000);
    cr_expect(!atomic_load(&x.over), "%s did not wait", name);
    gate_open(&g);
    cr_assert_eq(pthread_join(x.thread, NULL), 0);
    cr_expect_eq(x.result, CUDA_SUCCESS, "%s is %d", name, x.result);
    OK(cu.StreamDestroy(stream));
    finish();
}
#define WAITS(call) check_that_it_waits(#call, call)

Test(simcuda_waits, freeing_memory_waits) {
    capture_start();
    WAITS(free_memory);
    WAITS(free_pinned);
    capture_finish();
}

Test(simcuda_waits, simulated_loading_and_unloading_waits) {
    capture_start_simulated();
    WAITS(load);
    WAITS(unload);
    WAITS(load_function);
    WAITS(launch_first);
    capture_finish();
}

Test(simcuda_waits, simulated_waits_end_with_what_was_queued_before) {
    capture_start_simulated();
    gate before, behind;
    waiter x;
    start();
    CUstream first = client_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = client_stream(CU_STREAM_NON_BLOCKING);
    gate_close(&before, first);
    call_in_thread(&x, unload);
    while (cu.alive("modules") > 1) /* it waits now */
        usleep(100);
    gate_close(&behind, second);
    gate_close(&behind, first);
    gate_open(&before);
    cr_assert_eq(pthread_join(x.thread, NULL), 0);
    gate_open(&behind);
    gate_open(&behind);
    OK(cu.StreamSynchronize(first));
    OK(cu.StreamSynchronize(second));
    OK(cu.StreamDestroy(first));
    OK(cu.StreamDestroy(second));
    finish();
    capture_finish();
}

Test(simcuda_waits, simulated_a_copy_whose_memory_was_freed_is_a_fault) {
    capture_start_simulated();
    gate g;
    waiter x;
    start();
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    unsigned before = cu.alive("allocations");
    gate_close(&g, stream);
    OK(cu.MemsetD8Async(t.memory, 1, 64, stream));
    call_in_thread(&x, free_memory);
    while (cu.alive("allocations") == before)
        usleep(100);
    gate_open(&g);
    cr_assert_eq(pthread_join(x.thread, NULL), 0);
    GIVES(cu.StreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAULTS(1, "which was freed while work was queued");
}

/* ---- calls that do not ---- */

Test(simcuda_waits, other_calls_do_not_wait) {
    gate g;
    CUevent event;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr memory;
    void *pinned;
    capture_start();
    start();
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    gate_close(&g, stream);
    OK(cu.MemAlloc(&memory, 64));
    OK(cu.MemHostAlloc(&pinned, 64, 0));
    CUstream other = client_stream(CU_STREAM_NON_BLOCKING);
    OK(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(capture_launch(w.times, 1, other));
    OK(cu.StreamBeginCapture(other, RELAXED));
    OK(capture_launch(w.times, 1, other));
    OK(cu.StreamEndCapture(other, &graph));
    OK(cu.GraphInstantiate(&exec, graph, 0));
    OK(cu.GraphLaunch(exec, other));
    OK(cu.EventRecord(event, other));
    OK(cu.EventSynchronize(event));
    GIVES(cu.StreamQuery(stream), CUDA_ERROR_NOT_READY);
    gate_open(&g);
    OK(cu.GraphExecDestroy(exec));
    OK(cu.GraphDestroy(graph));
    OK(cu.EventDestroy(event));
    OK(cu.StreamDestroy(other));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(memory));
    OK(cu.MemFreeHost(pinned));
    finish();
    capture_finish();
}
