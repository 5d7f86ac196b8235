/* test_simcuda_races.c: which accesses to memory the simulated driver's checker of order compares:
 * bytes, reads, writes, atomics; the begin and end of allocations; nodes of graphs. */
#include "simcuda_client.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char kernels[] =
    "KERNEL void put(unsigned char *p, unsigned first, unsigned n, unsigned step) {\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) ST(p + first + i * step, (unsigned char) 1);\n"
    "}\n"
    "KERNEL void get(const unsigned char *p, unsigned first, unsigned n, unsigned step) {\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n && LD(p + first + i * step) == 77) __trap();\n"
    "}\n"
    "KERNEL void count(unsigned *p, unsigned first, unsigned n, unsigned step) {\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) atomicAdd(p + first + i * step, 1u);\n"
    "}\n"
    "KERNEL void wide(float4 *p, unsigned first, unsigned n, unsigned step) {\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) ST(p + first + i * step, make_float4(1, 2, 3, 4));\n"
    "}\n"
    "KERNEL void three(float3 *p, unsigned first, unsigned n, unsigned step) {\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) ST(p + first + i * step, make_float3(1, 2, 3));\n"
    "}\n"
    "KERNEL void move(unsigned char *p, unsigned first, unsigned n, unsigned step) {\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) ST(p + first + n + i * step, LD(p + first + i * step));\n"
    "}\n"
    "KERNEL void hold(unsigned *p, volatile unsigned *flags) {\n"
    "    ST(p, 1u);\n"
    "    ST(flags, 1u);\n"
    "    while (!LD(flags + 1)) {\n"
    "    }\n"
    "}\n";

enum { SIZE = 10000 };

static CUmodule module;
static CUfunction put, get, count, wide, three, move, hold;
static CUdeviceptr p;
static CUstream a, b, c; /* non-blocking */
static CUevent event;
static unsigned races; /* so far */

static void start(void) {
    client_start();
    cu.seed(0); /* of two that race the one that was queued first runs first */
    module = client_load(kernels);
    put = client_function(module, "put");
    get = client_function(module, "get");
    count = client_function(module, "count");
    three = client_function(module, "three");
    move = client_function(module, "move");
    hold = client_function(module, "hold");
    wide = client_function(module, "wide");
    p = client_alloc(SIZE);
    a = client_stream(CU_STREAM_NON_BLOCKING);
    b = client_stream(CU_STREAM_NON_BLOCKING);
    c = client_stream(CU_STREAM_NON_BLOCKING);
    OK(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cu.MemsetD32(p, 0, SIZE / 4));
    OK(cu.CtxSynchronize());
}

static void end(void) {
    CUcontext context;
    OK(cu.CtxSynchronize());
    OK(cu.EventDestroy(event));
    OK(cu.StreamDestroy(a));
    OK(cu.StreamDestroy(b));
    OK(cu.StreamDestroy(c));
    OK(cu.MemFree(p));
    OK(cu.ModuleUnload(module));
    OK(cu.CtxPopCurrent(&context));
    OK(cu.PrimaryCtxRelease(0));
    cr_assert_eq(cu.alive(NULL), 0);
    cr_assert_eq(cu.faults(), cu.races(), "%s", cu.fault_text());
}
TestSuite(simcuda_races, .init = start, .fini = end);

/** Launch one of the kernels on `n` elements from `first` on. */
static void run_step(CUfunction f, CUdeviceptr to, unsigned first, unsigned n, unsigned step,
                     CUstream s) {
    void *arguments[] = {&to, &first, &n, &step};
    OK(cu.LaunchKernel(f, (n + 31) / 32, 1, 1, 32, 1, 1, 0, s, arguments, NULL));
}
static void run(CUfunction f, CUdeviceptr to, unsigned first, unsigned n, CUstream s) {
    run_step(f, to, first, n, 1, s);
}

static void post(void *semaphore) {
    sem_post(semaphore);
}

/** What is on `s` is done, but nobody has asked the driver. */
static void reach(CUstream s) {
    sem_t done;
    sem_init(&done, 0, 0);
    OK(cu.LaunchHostFunc(s, post, &done));
    sem_wait(&done);
    sem_destroy(&done);
}

static void after(CUstream waits, CUstream s) {
    OK(cu.EventRecord(event, s));
    OK(cu.StreamWaitEvent(waits, event, 0));
}

/** Since the last time there have been `more` races, of which the last says all that. */
static void expect(unsigned more, const char *const *words, int line) {
    OK(cu.CtxSynchronize());
    const char *text = cu.fault_text(), *last = text;
    for (const char *next = text; (next = strchr(next, '\n')) && next[1];)
        last = ++next;
    cr_assert_eq(cu.races() - races, more, "line %d: %u races: %s", line, cu.races() - races, text);
    for (; more && *words; words++)
        cr_assert(strstr(last, *words), "line %d: '%s' is not in: %s", line, *words, last);
    races = cu.races();
}
#define SILENT()         expect(0, NULL, __LINE__)
#define RACES(more, ...) expect(more, (const char *const[]) {__VA_ARGS__, NULL}, __LINE__)

/* ---- kinds of accesses ---- */

Test(simcuda_races, reads_and_writes_of_kernels) {
    run(put, p, 0, 100, a);
    run(get, p, 0, 100, b);
    RACES(1, "race: kernel get (number 1 on non-blocking stream", "reads bytes 0 to 99 of",
          "of 10000 bytes; kernel put (number 1 on non-blocking stream", "writes them");
    run(get, p, 0, 100, a);
    run(put, p, 0, 100, b);
    RACES(1, "kernel put", "writes bytes 0 to 99", "kernel get", "reads them");
    run(put, p, 0, 100, a);
    run(put, p, 0, 100, b);
    RACES(1, "writes bytes 0 to 99", "writes them");
    run(get, p, 0, 100, a);
    run(get, p, 0, 100, b);
    SILENT();
    run(put, p, 0, 100, a);
    after(b, a);
    run(get, p, 0, 100, b);
    after(c, b);
    run(put, p, 0, 100, c);
    SILENT();
}

Test(simcuda_races, atomics_do_not_race_with_each_other) {
    run(count, p, 0, 10, a);
    run(count, p, 0, 10, b);
    SILENT();
    run(count, p, 0, 10, a);
    run(get, p, 0, 1, b);
    RACES(1, "kernel get", "reads bytes 0 to 0 of", "kernel count", "has atomics on them");
    run(get, p, 4, 4, a);
    run(count, p, 0, 10, b);
    RACES(1, "kernel count", "has atomics on bytes 4 to 7 of", "kernel get", "reads them");
    run(put, p, 39, 10, a);
    run(count, p, 0, 10, b);
    RACES(1, "has atomics on bytes 39 to 39 of", "writes them");
    run(count, p, 0, 10, a);
    run(put, p, 39, 10, b);
    RACES(1, "writes bytes 39 to 39 of", "has atomics on them");
}

/** Atomics of two streams: whoever reads has to come after both. */
Test(simcuda_races, each_of_several_is_remembered) {
    run(count, p, 0, 1, a);
    run(count, p, 0, 1, b);
    after(c, b);
    run(get, p, 0, 4, c);
    RACES(1, "kernel get", "kernel count (number 1");
    run(get, p, 0, 4, a);
    run(get, p, 0, 4, b);
    run(get, p, 0, 4, a);
    after(c, b);
    run(put, p, 0, 4, c);
    RACES(1, "kernel put", "kernel get (number 3 on"); /* the last one of a */
    run(get, p, 0, 4, a);
    run(get, p, 0, 4, b);
    after(c, b);
    after(c, a);
    run(put, p, 0, 4, c);
    SILENT();
}

/* ---- bytes ---- */

Test(simcuda_races, disjoint_halves_are_no_race_and_one_common_byte_is) {
    run(put, p, 0, 500, a);
    run(put, p, 500, 500, b);
    SILENT();
    run(put, p, 0, 501, a);
    run(put, p, 500, 500, b);
    RACES(1, "writes bytes 500 to 500 of");
    run(put, p, 63, 1, a);
    run(put, p, 64, 1, b);
    run(put, p, SIZE - 1, 1, c);
    SILENT();
    run(wide, p, 0, 4, a);
    run(put, p, 64, 1, b);
    SILENT();
    run(wide, p, 0, 4, a);
    run(put, p, 63, 1, b);
    RACES(1, "writes bytes 63 to 63 of");
    run(three, p, 5, 1, a); /* bytes 60 to 71 */
    run(put, p, 59, 1, b);
    run(put, p, 72, 1, c);
    SILENT();
    run(three, p, 5, 1, a);
    run(get, p, 59, 20, b);
    RACES(1, "reads bytes 60 to 71 of");
    run(move, p, 100, 10, a);
    run(get, p, 100, 11, b);
    RACES(1, "reads bytes 110 to 110 of");
    run(get, p, 95, 30, a);
    run(move, p, 100, 10, b);
    RACES(1, "writes bytes 110 to 119 of");
}

Test(simcuda_races, scattered_accesses_are_compared_by_byte) {
    run_step(put, p, 0, 3000, 2, a);
    run_step(put, p, 1, 3000, 2, b);
    SILENT();
    run_step(put, p, 0, 3000, 2, a);
    run_step(get, p, 0, 2000, 3, b);
    RACES(1, "reads bytes 0 to 5994 (1000 of them) of");
    run(put, p, 0, SIZE, a); /* over all pieces at once */
    OK(cu.StreamSynchronize(a));
    run_step(get, p, 5, 100, 7, b);
    run(put, p, 0, 5, c);
    SILENT();
    for (unsigned i = 0; i < 100; i++) /* one after another, on both sides of what there is */
        run(put, p, i % 2 ? 5000 + i * 10 : 5000 - i * 10, 10, i % 2 ? a : b);
    run(get, p, 0, SIZE, c);
    RACES(16, "kernel get"); /* 100, but these are enough */
}

Test(simcuda_races, of_large_memory_only_what_is_touched_is_looked_at) {
    enum { LARGE = 64 << 20 };
    CUdeviceptr large = client_alloc(LARGE);
    run(put, large, LARGE - 1, 1, a);
    run(put, large, LARGE - 2, 1, b);
    run(put, large, 0, 1, c);
    SILENT();
    run_step(put, large, 1000, 3, 20 << 20, a);
    run_step(get, large, 1000 + (20 << 20), 2, 20 << 20, b);
    RACES(1, "reads bytes 20972520 to 41944040 (2 of them) of");
    OK(cu.MemFree(large));
}

Test(simcuda_races, copies_and_fills) {
    unsigned char *pinned;
    CUdeviceptr q = client_alloc(SIZE);
    OK(cu.MemHostAlloc((void **) &pinned, SIZE, 0));
    memset(pinned, 1, SIZE);
    OK(cu.MemcpyHtoDAsync(p + 100, pinned, 100, a));
    OK(cu.MemcpyDtoDAsync(q, p + 150, 100, b));
    RACES(1, "cuMemcpyDtoDAsync", "reads bytes 150 to 199 of", "cuMemcpyHtoDAsync", "writes");
    OK(cu.MemsetD8Async(q, 1, 10, a));
    OK(cu.MemcpyDtoDAsync(q + 9, p, 100, b));
    RACES(1, "writes bytes 9 to 9 of", "cuMemset");
    OK(cu.MemcpyDtoHAsync(pinned, p, 50, a)); /* on the other side, too */
    OK(cu.MemcpyDtoHAsync(pinned + 49, q, 50, b));
    RACES(1, "cuMemcpyDtoHAsync", "writes bytes 49 to 49 of");
    OK(cu.MemcpyDtoHAsync(pinned, p, 50, a));
    after(b, a);
    OK(cu.MemcpyHtoDAsync(q, pinned, 50, b));
    SILENT();
    OK(cu.MemcpyDtoHAsync(pinned, p, 50, a));
    OK(cu.MemFreeHost(pinned));
    RACES(1, "cuMemFreeHost frees bytes 0 to 49 of");
    OK(cu.MemFree(q));
}

/* A copy that says nothing of waiting is none, even if it does. */
Test(simcuda_races, the_host_waits_only_where_that_is_promised) {
    unsigned word = 1;
    OK(cu.MemcpyHtoD(p, &word, 4));
    run(get, p, 0, 4, a);
    RACES(1, "cuMemcpyHtoD (number");
    OK(cu.MemsetD32(p, 0, 1));
    run(get, p, 0, 4, a);
    RACES(1, "cuMemset (number");
    OK(cu.MemcpyDtoHAsync(&word, p, 4, a));
    run(put, p, 0, 4, b);
    RACES(1, "cuMemcpyDtoHAsync (number");
    OK(cu.MemcpyDtoH(&word, p, 4));
    run(put, p, 0, 4, b);
    SILENT();
}

/* ---- allocations ---- */

Test(simcuda_races, memory_is_used_after_it_was_allocated) {
    CUdeviceptr q, r;
    OK(cu.MemAllocAsync(&q, 100, a));
    run(put, q, 0, 100, b);
    RACES(1, "kernel put", "uses allocation", "of 100 bytes, and nothing puts its cuMemAllocAsync");
    run(put, q, 0, 100, b); /* the host has waited */
    after(a, b);
    OK(cu.MemFreeAsync(q, a));
    SILENT();
    OK(cu.MemAllocAsync(&q, 100, a));
    after(b, a);
    run(put, q, 0, 100, b);
    OK(cu.MemFreeAsync(q, b));
    SILENT();
    OK(cu.MemAlloc(&r, 100)); /* of everybody at once */
    run(put, r, 0, 100, b);
    SILENT();
    OK(cu.MemFree(r));
}

Test(simcuda_races, memory_is_freed_after_all_uses) {
    CUdeviceptr q;
    OK(cu.MemAllocAsync(&q, 100, a));
    after(b, a);
    after(c, a);
    run(put, q, 10, 10, b);
    OK(cu.MemFreeAsync(q, a));
    RACES(1, "cuMemFreeAsync (number", "frees bytes 10 to 19 of", "kernel put", "writes them");
    OK(cu.MemAllocAsync(&q, 100, a));
    after(b, a);
    after(c, a);
    run(get, q, 10, 10, b);
    run(get, q, 10, 10, c);
    after(a, c);
    OK(cu.MemFreeAsync(q, a));
    RACES(1, "cuMemFreeAsync", "kernel get", "reads them");
    OK(cu.MemAllocAsync(&q, 100, a));
    after(b, a);
    run(count, q, 1, 10, b);
    after(a, b);
    OK(cu.MemFreeAsync(q, a));
    SILENT();
    OK(cu.MemAllocAsync(&q, 100, a));
    OK(cu.MemFreeAsync(q, b));
    RACES(1, "cuMemFreeAsync", "frees allocation", "nothing puts its cuMemAllocAsync");
}

Test(simcuda_races, the_host_frees_what_it_knows_is_not_used_any_more) {
    CUdeviceptr q = client_alloc(100);
    run(put, q, 0, 100, a);
    OK(cu.StreamSynchronize(a));
    OK(cu.MemFree(q));
    SILENT();
    q = client_alloc(100);
    run(put, q, 3, 10, a);
    reach(a); /* it is done, but who says so? */
    OK(cu.MemFree(q));
    RACES(1, "cuMemFree frees bytes 3 to 12 of", "kernel put", "writes them");
}

/* ---- freed too early ---- */

typedef struct freeing {
    CUcontext context;
    CUdeviceptr memory;
} freeing;

/** The call waits until the kernel is over. */
static void *free_in_thread(void *argument) {
    freeing *x = argument;
    OK(cu.CtxPushCurrent(x->context));
    OK(cu.MemFree(x->memory));
    OK(cu.CtxPopCurrent(&x->context));
    return NULL;
}

Test(simcuda_races, memory_is_not_freed_while_a_kernel_runs) {
    pthread_t thread;
    CUdeviceptr q = client_alloc(100);
    freeing x = {.memory = q};
    OK(cu.CtxGetCurrent(&x.context));
    volatile unsigned *flags;
    OK(cu.MemHostAlloc((void **) &flags, 8, 0));
    flags[0] = flags[1] = 0;
    void *arguments[] = {&q, &flags};
    OK(cu.LaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, a, arguments, NULL));
    while (!flags[0])
        usleep(50);
    unsigned before = cu.alive("allocations");
    cr_assert_eq(pthread_create(&thread, NULL, free_in_thread, &x), 0);
    while (cu.alive("allocations") == before)
        usleep(50);
    flags[1] = 1;
    cr_assert_eq(pthread_join(thread, NULL), 0);
    RACES(1, "is freed while kernel hold (number 1 on non-blocking stream", "uses it");
    OK(cu.MemFreeHost((void *) flags));
}

Test(simcuda_races, an_address_that_is_used_again_is_other_memory) {
    CUdeviceptr q, r;
    cu.reuse(true);
    OK(cu.MemAllocAsync(&q, 1000, a));
    run(put, q, 0, 1000, a);
    OK(cu.MemFreeAsync(q, a));
    reach(a);
    OK(cu.MemAllocAsync(&r, 990, b)); /* the driver lets it wait for the other's end */
    cr_assert_eq(q, r);
    run(put, r, 0, 990, b);
    SILENT();
    OK(cu.MemFreeAsync(r, b));
    reach(b);
    OK(cu.MemAllocAsync(&q, 1000, b));
    cr_assert_eq(q, r);
    run(get, r, 0, 990, a); /* a stale pointer */
    RACES(1, "kernel get", "uses allocation", "of 1000 bytes, and nothing puts");
    OK(cu.MemFree(q));
    cu.reuse(false);
    q = client_alloc(1000);
    cr_assert_neq(q, r);
    OK(cu.MemFree(q));
}

/* Where the free has run, an access is worse than a race. */
Test(simcuda_races_after_free, an_access_fails) {
    CUcontext context;
    CUdeviceptr q;
    start();
    OK(cu.MemAllocAsync(&q, 100, a));
    OK(cu.MemFreeAsync(q, a));
    reach(a);
    run(put, q, 0, 1, a);
    GIVES(cu.CtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAULTS(1, "which was freed");
    OK(cu.PrimaryCtxReset(0));
    OK(cu.CtxPopCurrent(&context));
    OK(cu.PrimaryCtxRelease(0));
}

/* ---- graphs ---- */

typedef struct node {
    CUfunction f;
    unsigned first, n;
    int before; /* -1: none */
} node;

static CUgraphExec make_graph(const node *nodes, size_t number, CUgraph *graph) {
    CUgraphNode made[70];
    CUgraphExec exec;
    OK(cu.GraphCreate(graph, 0));
    for (size_t i = 0; i < number; i++) {
        unsigned first = nodes[i].first, n = nodes[i].n, step = 1;
        void *arguments[] = {&p, &first, &n, &step};
        CUDA_KERNEL_NODE_PARAMS params = {.func = nodes[i].f,
                                          .gridDimX = 1,
                                          .gridDimY = 1,
                                          .gridDimZ = 1,
                                          .blockDimX = 32,
                                          .blockDimY = 1,
                                          .blockDimZ = 1,
                                          .kernelParams = arguments};
        CUgraphNode *before = nodes[i].before < 0 ? NULL : &made[nodes[i].before];
        OK(cu.GraphAddKernelNode(&made[i], *graph, before, before != NULL, &params));
    }
    OK(cu.GraphInstantiate(&exec, *graph, 0));
    return exec;
}

static void run_graph(const node *nodes, size_t number, CUstream s) {
    CUgraph graph;
    CUgraphExec exec = make_graph(nodes, number, &graph);
    OK(cu.GraphLaunch(exec, s));
    OK(cu.GraphExecDestroy(exec));
    OK(cu.GraphDestroy(graph));
}

Test(simcuda_races, nodes_of_a_graph_are_ordered_by_its_edges) {
    static const node chain[] = {{0, 0, 20, -1}, {0, 10, 20, 0}, {0, 0, 30, 1}};
    node nodes[3];
    memcpy(nodes, chain, sizeof nodes);
    nodes[0].f = put, nodes[1].f = put, nodes[2].f = get;
    run_graph(nodes, 3, a);
    SILENT();
    nodes[2].before = 0; /* a fork: it reads what its neighbour writes */
    run_graph(nodes, 3, a);
    RACES(1, "(node ", "bytes 10 to 29 of");
    nodes[1].f = get;
    run_graph(nodes, 3, a);
    SILENT();
    node many[70]; /* more than a word of bits */
    for (int i = 0; i < 70; i++)
        many[i] = (node) {put, 0, 30, i - 1};
    run_graph(many, 70, a);
    SILENT();
    many[69].before = 3;
    run_graph(many, 70, a);
    RACES(1, "(node ", "bytes 0 to 29 of");
}

Test(simcuda_races, a_graph_is_work_of_its_stream) {
    node nodes[] = {{put, 0, 20, -1}, {put, 10, 20, 0}};
    run_graph(nodes, 2, a);
    run(get, p, 25, 10, b);
    RACES(1, "reads bytes 25 to 29 of", "kernel put (node 1 of number", "on non-blocking stream");
    run_graph(nodes, 2, a);
    after(b, a);
    run(get, p, 0, 30, b);
    SILENT();
    CUgraph graph; /* launches of one executable graph wait for each other, wherever they are */
    CUgraphExec exec = make_graph(nodes, 2, &graph);
    OK(cu.GraphLaunch(exec, a));
    OK(cu.GraphLaunch(exec, b));
    run(get, p, 0, 30, b);
    SILENT();
    OK(cu.GraphLaunch(exec, a));
    run_graph(nodes, 2, b);
    RACES(3, "kernel put (node 1 of number");
    OK(cu.GraphExecDestroy(exec));
    OK(cu.GraphDestroy(graph));
}

Test(simcuda_races, work_that_was_captured_is_compared_by_node) {
    CUgraph graph;
    CUgraphExec exec;
    for (int joined = 0; joined < 2; joined++) {
        OK(cu.StreamBeginCapture(a, 0));
        OK(cu.MemsetD8Async(p, 1, 10, a));
        after(b, a);
        if (joined)
            run(put, p, 5, 10, a);
        OK(cu.MemcpyDtoDAsync(p + 100, p, 10, b));
        if (!joined)
            after(a, b);
        run(put, p, 5, 10, a);
        after(a, b);
        OK(cu.StreamEndCapture(a, &graph));
        OK(cu.GraphInstantiate(&exec, graph, 0));
        OK(cu.GraphLaunch(exec, c));
        if (joined)
            RACES(2, "cuMemcpyDtoDAsync (node ", "of allocation", "kernel put (node ");
        else
            SILENT();
        OK(cu.GraphExecDestroy(exec));
        OK(cu.GraphDestroy(graph));
    }
}

/* ---- settings ---- */

Test(simcuda_races, order_by_the_legacy_stream_is_reported_on_demand) {
    CUstream blocking;
    CUdeviceptr q;
    OK(cu.StreamCreate(&blocking, CU_STREAM_DEFAULT));
    run(put, p, 0, 100, blocking);
    run(get, p, 0, 100, NULL);
    SILENT();
    cu.order_strict(true);
    run(put, p, 0, 100, blocking);
    run(get, p, 0, 100, NULL);
    RACES(1, "implicit: kernel get (number", "on the legacy stream", "reads bytes 0 to 99 of",
          "kernel put", "only the legacy stream orders the two");
    run(put, p, 0, 100, blocking);
    OK(cu.StreamSynchronize(NULL)); /* the wait is for the legacy stream */
    run(get, p, 0, 100, a);
    RACES(1, "implicit: ");
    OK(cu.MemAllocAsync(&q, 100, NULL));
    run(put, q, 0, 100, blocking);
    RACES(1, "implicit: ", "only the legacy stream puts its cuMemAllocAsync");
    run(put, p, 0, 100, blocking);
    after(NULL, blocking); /* it is said as well */
    run(get, p, 0, 100, NULL);
    SILENT();
    run(put, p, 0, 100, a);
    run(get, p, 0, 100, NULL);
    RACES(1, "race: ");
    cu.order_strict(false);
    OK(cu.MemFree(q));
    OK(cu.StreamDestroy(blocking));
}

Test(simcuda_races, nothing_is_compared_where_that_is_not_wanted) {
    CUdeviceptr q = client_alloc(100);
    cu.order(false);
    run(put, p, 0, 100, a);
    run(put, p, 0, 100, b);
    OK(cu.MemsetD8Async(q, 0, 100, c));
    OK(cu.MemcpyDtoDAsync(p, q, 100, a));
    reach(c);
    reach(a);
    OK(cu.MemFree(q));
    cr_assert_eq(cu.races(), 0, "%s", cu.fault_text());
    cu.order(true);
    run(put, p, 0, 100, b); /* of what was done before nothing is known */
    run(put, p, 0, 100, a);
    RACES(1, "kernel put (number 4 on", "kernel put (number 2 on");
}
