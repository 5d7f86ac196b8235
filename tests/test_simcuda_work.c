/* test_simcuda_work.c: streams, events, kernels and graphs of the simulated driver. */
#include "simcuda_client.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char kernels[] = "KERNEL void add(unsigned *p, unsigned n, unsigned v) {\n"
                              "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                              "    if (i < n) ST(p + i, LD(p + i) + v);\n"
                              "}\n"
                              "KERNEL void times(unsigned *p, unsigned v) { ST(p, LD(p) * v); }\n"
                              "struct pair { unsigned long long n; unsigned long long word[2]; };\n"
                              "KERNEL void pair(const struct pair P) {\n"
                              "    ST((unsigned *) P.word[0], (unsigned) (P.n + P.word[1]));\n"
                              "}\n";

/** Queue p[0 ... n-1] += v. */
static CUresult add(CUfunction f, CUdeviceptr p, unsigned n, unsigned v, CUstream stream) {
    void *params[] = {&p, &n, &v};
    return cu.LaunchKernel(f, (n + 31) / 32, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

static void set_word(CUdeviceptr to, unsigned value) {
    OK(cu.MemcpyHtoD(to, &value, sizeof value));
    OK(cu.CtxSynchronize());
}

/* ---- streams ---- */

Test(simcuda, work_runs_behind_the_callers_back) {
    client_start();
    gate g;
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING), other = client_stream(1);
    CUdeviceptr p = client_alloc(4);
    unsigned pageable = 5, *pinned;
    OK(cu.MemHostAlloc((void **) &pinned, 4, 0));
    *pinned = 6;
    gate_close(&g, stream);
    OK(cu.MemcpyHtoDAsync(p, &pageable, 4, stream));
    GIVES(cu.StreamQuery(stream), CUDA_ERROR_NOT_READY);
    OK(cu.StreamSynchronize(other)); /* is not held up */
    OK(cu.StreamQuery(other));
    pageable = 7; /* was read in the call */
    gate_open(&g);
    OK(cu.StreamSynchronize(stream));
    OK(cu.StreamQuery(stream));
    cr_assert_eq(client_word(p), 5);

    gate_close(&g, stream);
    OK(cu.MemcpyHtoDAsync(p, pinned, 4, stream));
    *pinned = 8; /* is read when the copy runs */
    gate_open(&g);
    OK(cu.StreamSynchronize(stream));
    cr_assert_eq(client_word(p), 8);
    OK(cu.MemFreeHost(pinned));
    OK(cu.MemFree(p));
    OK(cu.StreamDestroy(stream));
    OK(cu.StreamDestroy(other));
    client_end();
}

Test(simcuda, a_destroyed_stream_finishes_its_work) {
    client_start();
    gate g;
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_alloc(4);
    set_word(p, 1);
    gate_close(&g, stream);
    OK(cu.MemsetD8Async(p, 2, 4, stream));
    OK(cu.StreamDestroy(stream));
    gate_open(&g);
    cr_assert_eq(client_word(p), 0x02020202);
    OK(cu.MemFree(p));
    client_end();
}

Test(simcuda, a_wait_keeps_what_the_event_was_when_it_was_queued) {
    client_start();
    gate g, h;
    CUevent event;
    CUstream a = client_stream(1), b = client_stream(1), c = client_stream(1);
    OK(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cu.StreamWaitEvent(b, event, 0)); /* was never recorded */
    OK(cu.StreamSynchronize(b));
    OK(cu.EventQuery(event));
    gate_close(&g, a);
    OK(cu.EventRecord(event, a));
    OK(cu.StreamWaitEvent(b, event, 0));
    GIVES(cu.EventQuery(event), CUDA_ERROR_NOT_READY);
    OK(cu.EventRecord(event, c)); /* at once */
    OK(cu.EventSynchronize(event));
    GIVES(cu.StreamQuery(b), CUDA_ERROR_NOT_READY);
    gate_close(&h, c);
    OK(cu.EventRecord(event, c)); /* b does not wait for this one */
    OK(cu.EventDestroy(event));
    gate_open(&g);
    OK(cu.StreamSynchronize(b));
    GIVES(cu.StreamQuery(c), CUDA_ERROR_NOT_READY);
    gate_open(&h);
    OK(cu.CtxSynchronize());
    OK(cu.StreamDestroy(a));
    OK(cu.StreamDestroy(b));
    OK(cu.StreamDestroy(c));
    client_end();
}

Test(simcuda, the_legacy_stream_and_blocking_streams_wait_for_each_other) {
    client_start();
    cu.order(false); /* what is not ordered is to be seen */
    gate g;
    CUdeviceptr p = client_alloc(4);
    CUstream a = client_stream(CU_STREAM_DEFAULT), b = client_stream(CU_STREAM_DEFAULT);
    CUstream free = client_stream(CU_STREAM_NON_BLOCKING);
    gate_close(&g, a);
    OK(cu.MemsetD8Async(p, 1, 1, b)); /* two blocking streams do not wait for each other */
    OK(cu.StreamSynchronize(b));
    OK(cu.MemsetD8Async(p, 1, 1, NULL)); /* the legacy stream waits for a */
    OK(cu.MemsetD8Async(p, 1, 1, b));    /* and b for the legacy stream, */
    OK(cu.MemsetD8AsyncLocal(p, 1, 1, NULL));
    OK(cu.MemsetD8Async(p, 1, 1, free));
    OK(cu.StreamSynchronize(free)); /* but this one for none */
    GIVES(cu.StreamQuery(NULL), CUDA_ERROR_NOT_READY);
    GIVES(cu.StreamQuery(b), CUDA_ERROR_NOT_READY);
    GIVES(cu.StreamQuery(PER_THREAD), CUDA_ERROR_NOT_READY);
    gate_open(&g);
    OK(cu.StreamSynchronize(NULL));
    OK(cu.StreamQuery(a));
    OK(cu.CtxSynchronize());

    gate_close(&g, PER_THREAD); /* is a blocking stream, too */
    OK(cu.StreamSynchronize(a));
    GIVES(cu.StreamQuery(NULL), CUDA_ERROR_NOT_READY);
    gate_open(&g);
    OK(cu.StreamSynchronize(NULL));
    OK(cu.MemFree(p));
    OK(cu.StreamDestroy(a));
    OK(cu.StreamDestroy(b));
    OK(cu.StreamDestroy(free));
    client_end();
}

Test(simcuda, synchronous_copies_wait_for_what_the_default_stream_waits_for) {
    client_start();
    cu.order(false); /* what is not ordered is to be seen */
    gate g;
    CUdeviceptr p = client_alloc(4);
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    unsigned word = 0;
    set_word(p, 1);
    gate_close(&g, stream);
    OK(cu.MemsetD8Async(p, 2, 4, stream));
    OK(cu.MemcpyDtoH(&word, p, 4)); /* of a non-blocking stream it knows nothing */
    cr_assert_eq(word, 1);
    OK(cu.MemcpyDtoHLocal(&word, p, 4));
    cr_assert_eq(word, 1);
    gate_open(&g);
    OK(cu.StreamSynchronize(stream));
    OK(cu.MemcpyDtoH(&word, p, 4));
    cr_assert_eq(word, 0x02020202);
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(p));
    client_end();
}

/** The last of eight streams that write one byte at the same time. */
static unsigned last_of_eight(CUdeviceptr p, CUstream *streams, CUevent event, unsigned first) {
    gate g;
    gate_close(&g, streams[8]);
    OK(cu.EventRecord(event, streams[8]));
    for (unsigned i = 0; i < 8; i++) {
        CUstream stream = streams[(first + i) % 8];
        OK(cu.StreamWaitEvent(stream, event, 0));
        OK(cu.MemsetD8Async(p, (unsigned char) i, 4, stream));
    }
    gate_open(&g);
    return client_word(p) & 0xFF;
}

Test(simcuda, the_seed_decides_which_stream_is_first) {
    client_start();
    cu.order(false); /* they race */
    CUdeviceptr p = client_alloc(4);
    CUstream streams[9];
    CUevent event;
    OK(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 9; i++)
        streams[i] = client_stream(CU_STREAM_NON_BLOCKING);
    cu.seed(0);
    for (unsigned i = 0; i < 16; i++)
        cr_assert_eq(last_of_eight(p, streams, event, i), 7, "without a seed: as queued");
    unsigned seen = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        cu.seed(seed);
        seen |= 1u << last_of_eight(p, streams, event, 0);
    }
    cr_assert_gt(__builtin_popcount(seen), 3, "%#x", seen);
    for (int i = 0; i < 9; i++)
        OK(cu.StreamDestroy(streams[i]));
    OK(cu.EventDestroy(event));
    OK(cu.MemFree(p));
    client_end();
}

static void call_the_driver(void *argument) {
    CUcontext context;
    *(CUresult *) argument = cu.CtxGetCurrent(&context);
}

Test(simcuda, host_functions_may_not_call_the_driver) {
    client_start();
    CUresult result = CUDA_SUCCESS;
    OK(cu.LaunchHostFunc(NULL, call_the_driver, &result));
    OK(cu.StreamSynchronize(NULL));
    cr_assert_eq(result, CUDA_ERROR_NOT_PERMITTED);
    client_end();
}

Test(simcuda, streams_say_what_they_are) {
    CUcontext context = client_start(), found;
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    unsigned flags;
    int capturing = 1;
    OK(cu.StreamGetFlags(stream, &flags));
    cr_assert_eq(flags, CU_STREAM_NON_BLOCKING);
    OK(cu.StreamGetCtx(stream, &found));
    cr_assert_eq(found, context);
    OK(cu.StreamGetCtx(NULL, &found));
    cr_assert_eq(found, context);
    OK(cu.StreamIsCapturing(stream, &capturing));
    cr_assert_eq(capturing, 0);
    GIVES(cu.StreamCreate(&stream, 2), CUDA_ERROR_INVALID_VALUE);
    OK(cu.StreamDestroy(stream));
    client_end();
}

Test(simcuda, memory_is_freed_in_stream_order) {
    client_start();
    gate g;
    CUdeviceptr p;
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    gate_close(&g, stream);
    OK(cu.MemAllocAsync(&p, 64, stream));
    OK(cu.MemsetD8Async(p, 1, 64, stream));
    OK(cu.MemFreeAsync(p, stream));
    cr_assert_eq(cu.alive("allocations"), 1);
    gate_open(&g);
    OK(cu.StreamSynchronize(stream));
    cr_assert_eq(cu.alive("allocations"), 0);
    OK(cu.StreamDestroy(stream));
    client_end();
}

Test(simcuda, events_measure_time) {
    client_start();
    CUevent a, b, c;
    float ms = -1;
    OK(cu.EventCreate(&a, CU_EVENT_DEFAULT));
    OK(cu.EventCreate(&b, CU_EVENT_DEFAULT));
    OK(cu.EventCreate(&c, CU_EVENT_DISABLE_TIMING));
    GIVES(cu.EventElapsedTime(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
    OK(cu.EventRecord(a, NULL));
    OK(cu.EventRecord(b, NULL));
    OK(cu.EventRecord(c, NULL));
    OK(cu.CtxSynchronize());
    OK(cu.EventElapsedTime(&ms, a, b));
    cr_assert_geq(ms, 0);
    GIVES(cu.EventElapsedTime(&ms, a, c), CUDA_ERROR_INVALID_HANDLE);
    OK(cu.EventDestroy(a));
    OK(cu.EventDestroy(b));
    OK(cu.EventDestroy(c));
    client_end();
}

/* ---- modules and kernels ---- */

Test(simcuda, modules_are_checked) {
    client_start();
    CUmodule module;
    CUfunction function;
    static const char garbage[64] = "\177ELF";
    GIVES(cu.ModuleLoadData(&module, garbage, 0, NULL, NULL), CUDA_ERROR_INVALID_IMAGE);
    char *code = client_compile(kernels, 80); /* of another generation */
    GIVES(cu.ModuleLoadData(&module, code, 0, NULL, NULL), CUDA_ERROR_NO_BINARY_FOR_GPU);
    free(code);
    module = client_load(kernels);
    GIVES(cu.ModuleGetFunction(&function, module, "nothing"), CUDA_ERROR_NOT_FOUND);
    function = client_function(module, "add");
    cr_assert_eq(function, client_function(module, "add"));
    int value = 0, blocks = 0;
    OK(cu.FuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
    cr_assert_gt(value, 0);
    OK(cu.FuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    OK(cu.OccupancyBlocks(&blocks, function, 256, 0));
    cr_assert(blocks > 0 && blocks * 256 <= 2048);
    OK(cu.OccupancyBlocks(&blocks, function, value + 32, 0));
    cr_assert_eq(blocks, 0);
    OK(cu.ModuleUnload(module));
    GIVES(add(function, 0, 1, 1, NULL), CUDA_ERROR_INVALID_HANDLE);
    FAULTS(1, "function");
    cr_assert_eq(cu.alive("modules"), 0);
}

Test(simcuda, more_shared_memory_than_usual_has_to_be_asked_for) {
    client_start();
    CUmodule module = client_load("KERNEL void last(int *p, unsigned n) {\n"
                                  "    SHARED(int, few, 4);\n"
                                  "    SHARED_DYNAMIC(int, s);\n"
                                  "    few[0] = 4;\n"
                                  "    s[n - 1] = few[0];\n"
                                  "    ST(p, s[n - 1] + 1);\n"
                                  "}\n");
    CUfunction f = client_function(module, "last");
    CUdeviceptr p = client_alloc(4);
    enum { USUAL = (48 << 10) - 16, MOST = (227 << 10) - 16 };
    unsigned n = USUAL / 4;
    int blocks, room = MOST;
    void *params[] = {&p, &n};
    OK(cu.LaunchKernel(f, 1, 1, 1, 1, 1, 1, USUAL, NULL, params, NULL));
    cr_assert_eq(client_word(p), 5);
    GIVES(cu.LaunchKernel(f, 1, 1, 1, 1, 1, 1, USUAL + 1, NULL, params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    OK(cu.OccupancyBlocks(&blocks, f, 32, USUAL + 1));
    cr_assert_eq(blocks, 0);
    const int attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    GIVES(cu.FuncSetAttribute(f, attribute, MOST + 1), CUDA_ERROR_INVALID_VALUE);
    OK(cu.FuncSetAttribute(f, attribute, room));
    OK(cu.FuncGetAttribute(&room, attribute, f));
    cr_assert_eq(room, (int) MOST);
    OK(cu.OccupancyBlocks(&blocks, f, 32, MOST));
    cr_assert_eq(blocks, 1);
    n = MOST / 4;
    OK(cu.LaunchKernel(f, 1, 1, 1, 1, 1, 1, MOST, NULL, params, NULL));
    cr_assert_eq(client_word(p), 5);
    OK(cu.ModuleUnload(module));
    OK(cu.MemFree(p));
    client_end();
}

Test(simcuda, arguments_are_copied_in_the_call) {
    client_start();
    gate g;
    CUmodule module = client_load(kernels);
    CUfunction f = client_function(module, "add"), pair = client_function(module, "pair");
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_alloc(400);
    unsigned n = 100, v = 5;
    void *params[] = {&p, &n, &v};
    OK(cu.FuncLoad(f)); /* not when all is over that runs */
    OK(cu.FuncLoad(pair));
    OK(cu.MemsetD32(p, 1, 100));
    OK(cu.CtxSynchronize());
    gate_close(&g, stream);
    OK(cu.LaunchKernel(f, 4, 1, 1, 32, 1, 1, 0, stream, params, NULL));
    n = 0, v = 1000;
    unsigned long long buffer[3] = {7, p, 30};
    size_t size = sizeof buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    OK(cu.LaunchKernel(pair, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    memset(buffer, 0, sizeof buffer);
    gate_open(&g);
    cr_assert_eq(client_word(p), 37);
    cr_assert_eq(client_word(p + 396), 6);

    size = 16;
    GIVES(cu.LaunchKernel(pair, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra),
          CUDA_ERROR_INVALID_VALUE);
    FAULTS(1, "with 16 bytes of arguments; it takes 24");
    GIVES(cu.LaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, stream, params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.LaunchKernel(f, 1, 1, 1, 64, 32, 1, 0, stream, params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.LaunchKernel(f, 0, 1, 1, 32, 1, 1, 0, stream, params, NULL), CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.LaunchKernel(f, 1, 65536, 1, 32, 1, 1, 0, stream, params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.LaunchKernel(f, 1, 1, 1, 32, 1, 1, 1 << 20, stream, params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.LaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, params, extra),
          CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.LaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

Test(simcuda, an_error_of_a_kernel_stays_in_its_context) {
    client_start();
    CUcontext other, current;
    CUmodule module = client_load(kernels);
    CUfunction f = client_function(module, "add");
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_alloc(400), unused;
    OK(add(f, p, 101, 1, stream)); /* one too many */
    GIVES(cu.StreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAULTS(1, "add");
    GIVES(cu.MemAlloc(&unused, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    GIVES(cu.StreamQuery(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    GIVES(cu.ModuleUnload(module), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cu.PrimaryCtxRetain(&other, 1));
    OK(cu.CtxPushCurrent(other));
    OK(cu.MemFree(client_alloc(4)));
    OK(cu.CtxPopCurrent(&current));
    OK(cu.PrimaryCtxRelease(1));
    OK(cu.PrimaryCtxRelease(0)); /* what could not be freed is no leak */
    FAULTS(1, "");
    OK(cu.PrimaryCtxRetain(&current, 0));
    OK(cu.CtxSetCurrent(current));
    OK(cu.MemFree(client_alloc(4)));
    OK(cu.PrimaryCtxRelease(0));
    FAULTS(1, "");
}

Test(simcuda, kernels_take_the_time_they_are_told_to) {
    client_start();
    CUfunction f = client_function(client_load(kernels), "add");
    CUdeviceptr p = client_alloc(4);
    struct timespec from, to;
    cu.kernel_time_us(30000);
    clock_gettime(CLOCK_MONOTONIC, &from);
    OK(add(f, p, 1, 1, NULL));
    OK(cu.CtxSynchronize());
    clock_gettime(CLOCK_MONOTONIC, &to);
    long us = (to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000;
    cr_assert_geq(us, 30000);
}

static void *add_for_a_while(void *argument) {
    CUdeviceptr p = *(CUdeviceptr *) argument;
    CUcontext context, same;
    OK(cu.PrimaryCtxRetain(&context, 0));
    OK(cu.CtxPushCurrent(context));
    CUmodule module = client_load(kernels);
    CUfunction f = client_function(module, "add");
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    unsigned words[100];
    for (int i = 0; i < 100; i++) {
        OK(add(f, p, 100, 1, stream));
        OK(cu.MemcpyDtoHAsync(words, p, sizeof words, stream));
        OK(cu.StreamSynchronize(stream));
        cr_assert_eq(words[99], (unsigned) i + 1);
    }
    OK(cu.StreamDestroy(stream));
    OK(cu.ModuleUnload(module));
    OK(cu.CtxPopCurrent(&same));
    OK(cu.PrimaryCtxRelease(0));
    return NULL;
}

Test(simcuda, threads_work_side_by_side) {
    enum { THREADS = 4 };
    client_start();
    cu.seed(3);
    pthread_t threads[THREADS];
    CUdeviceptr p[THREADS];
    for (int i = 0; i < THREADS; i++) {
        p[i] = client_alloc(400);
        OK(cu.MemsetD32(p[i], 0, 100));
    }
    OK(cu.CtxSynchronize());
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, add_for_a_while, &p[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        OK(cu.MemFree(p[i]));
    }
    client_end();
}

/* ---- graphs ---- */

static CUDA_KERNEL_NODE_PARAMS node_params(CUfunction f, void **params) {
    return (CUDA_KERNEL_NODE_PARAMS) {.func = f,
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 1,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = params};
}

/** (p[0] + 2) * 10, each step a node. */
static CUgraph make_graph(CUmodule module, CUdeviceptr p, CUgraphNode nodes[2]) {
    unsigned one = 1, two = 2, ten = 10;
    void *add_params[] = {&p, &one, &two}, *times_params[] = {&p, &ten};
    CUDA_KERNEL_NODE_PARAMS first = node_params(client_function(module, "add"), add_params);
    CUDA_KERNEL_NODE_PARAMS second = node_params(client_function(module, "times"), times_params);
    CUgraph graph;
    OK(cu.GraphCreate(&graph, 0));
    OK(cu.GraphAddKernelNode(&nodes[0], graph, NULL, 0, &first));
    OK(cu.GraphAddKernelNode(&nodes[1], graph, nodes, 1, &second));
    return graph;
}

Test(simcuda, a_graph_runs_its_nodes_in_the_order_of_its_edges) {
    client_start();
    gate g;
    CUgraphNode nodes[2];
    CUgraphExec exec;
    CUmodule module = client_load(kernels);
    CUstream stream = client_stream(1), other = client_stream(1), third = client_stream(1);
    CUdeviceptr p = client_alloc(8);
    CUgraph graph = make_graph(module, p, nodes);
    OK(cu.GraphInstantiate(&exec, graph, 0));
    for (uint64_t seed = 0; seed < 20; seed++) {
        cu.seed(seed);
        set_word(p, 1);
        OK(cu.GraphLaunch(exec, stream));
        cr_assert_eq(client_word(p), 30);
    }
    cu.seed(0);
    set_word(p, 1);
    gate_close(&g, stream);
    OK(cu.GraphLaunch(exec, stream));
    OK(cu.GraphLaunch(exec, other)); /* not beside the first launch */
    unsigned three = 3;
    void *params[] = {&p, &three};
    CUDA_KERNEL_NODE_PARAMS changed = node_params(client_function(module, "times"), params);
    OK(cu.GraphExecKernelNodeSetParams(exec, nodes[0], &changed)); /* p[0] * 3 * 10 */
    OK(cu.GraphLaunch(exec, other));
    OK(cu.MemsetD8Async(p + 4, 0, 1, third)); /* runs after whatever is ready now */
    OK(cu.StreamSynchronize(third));
    GIVES(cu.StreamQuery(other), CUDA_ERROR_NOT_READY);
    gate_open(&g);
    cr_assert_eq(client_word(p), ((1 + 2) * 10 + 2) * 10 * 3 * 10);
    OK(cu.GraphExecDestroy(exec));
    OK(cu.GraphDestroy(graph));
    OK(cu.ModuleUnload(module));
    OK(cu.StreamDestroy(stream));
    OK(cu.StreamDestroy(other));
    OK(cu.StreamDestroy(third));
    OK(cu.MemFree(p));
    client_end();
}

Test(simcuda, graphs_are_checked) {
    client_start();
    CUgraphNode nodes[2], others[2], node;
    CUgraphExec exec;
    CUmodule module = client_load(kernels);
    CUdeviceptr p = client_alloc(4);
    CUgraph graph = make_graph(module, p, nodes), other = make_graph(module, p, others);
    unsigned ten = 10;
    void *params[] = {&p, &ten};
    CUDA_KERNEL_NODE_PARAMS step = node_params(client_function(module, "times"), params);
    OK(cu.GraphInstantiate(&exec, graph, 0));
    GIVES(cu.GraphExecKernelNodeSetParams(exec, others[0], &step), CUDA_ERROR_INVALID_VALUE);
    FAULTS(1, "is of another graph");
    GIVES(cu.GraphAddKernelNode(&node, graph, others, 1, &step), CUDA_ERROR_INVALID_VALUE);
    OK(cu.GraphAddKernelNode(&node, graph, nodes, 2, &step));
    GIVES(cu.GraphExecKernelNodeSetParams(exec, node, &step), CUDA_ERROR_INVALID_VALUE);
    step.blockDimX = 0;
    GIVES(cu.GraphExecKernelNodeSetParams(exec, nodes[0], &step), CUDA_ERROR_INVALID_VALUE);
    OK(cu.GraphDestroy(other));
    GIVES(cu.GraphDestroy(other), CUDA_ERROR_INVALID_HANDLE);
    cr_assert_eq(cu.alive("graphs"), 2);
    OK(cu.GraphDestroy(graph));
    set_word(p, 2);
    OK(cu.GraphLaunch(exec, NULL)); /* lives on without its graph */
    cr_assert_eq(client_word(p), 40);
    OK(cu.ModuleUnload(module));
    GIVES(cu.GraphLaunch(exec, NULL), CUDA_ERROR_INVALID_HANDLE);
    FAULTS(4, "after the module of one of its kernels was unloaded");
}
