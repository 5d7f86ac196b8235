/* test_simcuda_captured.c: the graphs that captures make. What is not said to be simulated holds on
 * a real driver, too, which JITC_LIBCUDA may name (H200, driver 13.0). */
#include "capture_world.h"

/* ---- what a captured graph does ---- */

static void count_calls(void *counter) {
    ++*(int *) counter;
}

Test(simcuda_captured, captured_work_runs_at_every_launch_and_not_before) {
    capture_start();
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    unsigned *pinned, pageable = 5, out = 0;
    int called = 0;
    OK(cu.MemHostAlloc((void **) &pinned, 4, 0));
    *pinned = 0;
    OK(cu.StreamBeginCapture(stream, THREAD_LOCAL));
    OK(cu.MemcpyHtoDAsync(w.p, &pageable, 4, stream)); /* read at every launch */
    OK(capture_launch(w.add, 2, stream));
    OK(cu.MemcpyDtoDAsync(w.p + 4, w.p, 4, stream));
    OK(cu.MemsetD32Async(w.p, 1, 1, stream));
    OK(cu.LaunchHostFunc(stream, count_calls, &called));
    OK(capture_launch(w.times, 3, stream));
    OK(cu.MemcpyDtoHAsync(&out, w.p, 4, stream));
    OK(cu.MemcpyDtoHAsync(pinned, w.p + 4, 4, stream));
    CUgraphExec exec = capture_end(stream);
    OK(cu.StreamSynchronize(stream));
    cr_assert(called == 0 && out == 0 && *pinned == 0, "something ran");
    for (int i = 1; i <= 3; i++) {
        out = 0;
        pageable = (unsigned) i * 10;
        OK(cu.GraphLaunch(exec, stream));
        OK(cu.StreamSynchronize(stream));
        cr_assert(called == i && out == 3 && *pinned == pageable + 2, "%d %u %u", called, out,
                  *pinned);
    }
    OK(cu.GraphExecDestroy(exec));
    OK(cu.MemFreeHost(pinned));
    OK(cu.StreamDestroy(stream));
    capture_finish();
}

Test(simcuda_captured, other_streams_take_part_and_come_back) {
    capture_start();
    CUstream a = client_stream(CU_STREAM_NON_BLOCKING), b = client_stream(CU_STREAM_DEFAULT);
    CUevent fork = capture_event(), join = capture_event();
    CUgraph graph;
    CUgraphNode nodes[9];
    uint64_t id = 0, other = 1;
    const CUgraphNode *after;
    size_t count = 9, pairs;
    int status;
    OK(cu.StreamBeginCapture(a, GLOBAL));
    OK(capture_launch(w.add, 2, a));
    OK(cu.EventRecord(fork, a));
    OK(cu.StreamWaitEvent(b, fork, 0));
    cr_assert_eq(capture_state(b), ACTIVE);
    GIVES(cu.StreamIsCapturing(LEGACY, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    OK(capture_launch(w.times, 5, b));
    OK(cu.MemsetD32Async(w.p + 8, 7, 1, a));
    OK(cu.EventRecord(join, b));
    OK(cu.StreamWaitEvent(a, join, 0));
    OK(cu.StreamGetCaptureInfo(b, &status, &other, NULL, NULL, &count));
    cr_assert(status == ACTIVE && count == 1);
    OK(cu.StreamGetCaptureInfo(a, &status, &id, &graph, &after, &pairs));
    cr_assert(status == ACTIVE && id == other && pairs == 2 && after[0] != after[1]);
    OK(capture_launch(w.add, 1, a));
    count = 9;
    OK(cu.GraphGetNodes(graph, nodes, &count));
    cr_assert_eq(count, 4);
    CUgraphExec exec = capture_end(a);
    cr_assert_eq(capture_state(b), NONE);
    unsigned value = 0;
    for (unsigned i = 0; i < 20; i++) {
        if (w.simulated)
            cu.seed(i);
        value = (value + 2) * 5 + 1;
        OK(cu.GraphLaunch(exec, i % 2 ? a : b));
        OK(cu.CtxSynchronize());
        cr_assert_eq(client_word(w.p), value);
    }
    cr_assert_eq(client_word(w.p + 8), 7);
    OK(cu.GraphExecDestroy(exec));
    OK(cu.EventDestroy(fork));
    OK(cu.EventDestroy(join));
    OK(cu.StreamDestroy(a));
    OK(cu.StreamDestroy(b));
    capture_finish();
}

Test(simcuda_captured, branches_are_joined_and_captures_are_not_mixed) {
    capture_start();
    CUgraph graph;
    CUstream a = client_stream(CU_STREAM_NON_BLOCKING), b = client_stream(CU_STREAM_NON_BLOCKING);
    CUevent in_a = capture_event(), in_b = capture_event();
    OK(cu.StreamBeginCapture(a, GLOBAL));
    OK(cu.EventRecord(in_a, a));
    OK(cu.StreamWaitEvent(b, in_a, 0));
    OK(capture_launch(w.add, 1, b)); /* nothing of a comes after it */
    capture_end_broken(a, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    cr_assert_eq(capture_state(b), NONE);

    OK(cu.StreamBeginCapture(a, GLOBAL));
    OK(cu.EventRecord(in_a, a));
    OK(cu.StreamWaitEvent(b, in_a, 0));
    GIVES(cu.StreamEndCapture(b, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    cu.StreamEndCapture(a, &graph);
    cr_assert(capture_state(a) == NONE && capture_state(b) == NONE);

    OK(cu.StreamBeginCapture(a, GLOBAL));
    OK(cu.StreamBeginCapture(b, GLOBAL));
    OK(capture_launch(w.add, 1, a));
    OK(capture_launch(w.add, 1, b));
    OK(cu.EventRecord(in_b, b));
    GIVES(cu.StreamWaitEvent(a, in_b, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    cr_assert_eq(capture_state(a), INVALIDATED);
    capture_end_broken(a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    cu.StreamEndCapture(b, &graph);
    cr_assert_eq(client_word(w.p), 0, "something ran");
    OK(cu.EventDestroy(in_a));
    OK(cu.EventDestroy(in_b));
    OK(cu.StreamDestroy(a));
    OK(cu.StreamDestroy(b));
    capture_finish();
}

/* ---- of the simulated driver ---- */

Test(simcuda_captured, simulated_captured_kernels_can_be_changed) {
    capture_start_simulated();
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph;
    CUgraphNode nodes[2];
    CUgraphExec exec;
    size_t count = 2;
    unsigned nine = 9;
    void *params[] = {&w.p, &nine};
    CUDA_KERNEL_NODE_PARAMS changed = {w.add, 1, 1, 1, 1, 1, 1, 0, params, NULL, NULL, NULL};
    OK(cu.StreamBeginCapture(stream, RELAXED));
    OK(capture_launch(w.add, 2, stream));
    OK(cu.MemsetD32Async(w.p + 4, 7, 1, stream));
    OK(cu.StreamEndCapture(stream, &graph));
    cr_assert_eq(cu.alive("graphs"), 1, "the caller has to destroy it");
    OK(cu.GraphGetNodes(graph, nodes, &count));
    OK(cu.GraphInstantiate(&exec, graph, 0));
    OK(cu.GraphExecKernelNodeSetParams(exec, nodes[0], &changed));
    GIVES(cu.GraphExecKernelNodeSetParams(exec, nodes[1], &changed), CUDA_ERROR_INVALID_VALUE);
    OK(cu.GraphDestroy(graph));
    OK(cu.GraphLaunch(exec, stream));
    OK(cu.GraphExecDestroy(exec)); /* what is queued has its own */
    cr_assert_eq(client_word(w.p), 9);
    cr_assert_eq(client_word(w.p + 4), 7);
    OK(cu.StreamDestroy(stream));
    capture_finish();
}

Test(simcuda_captured, simulated_captures_end_with_their_context) {
    capture_start_simulated();
    CUcontext own, context;
    CUstream stream;
    CUevent e = capture_event();
    OK(cu.CtxCreate(&own, 0, 0));
    stream = client_stream(CU_STREAM_DEFAULT);
    OK(cu.StreamBeginCapture(stream, GLOBAL));
    OK(cu.MemsetD32Async(w.p, 1, 1, stream));
    OK(cu.CtxPushCurrent(w.context));
    cr_assert_eq(capture_state(LEGACY), NONE, "another context");
    GIVES(cu.EventQuery(e), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    int mode = capture_set_mode(RELAXED);
    OK(cu.CtxSynchronize());
    OK(cu.CtxPopCurrent(&context));
    OK(cu.CtxDestroy(own));
    FAULTS(1, "stream");
    capture_set_mode(mode);
    OK(cu.EventQuery(e));
    cr_assert_eq(client_word(w.p), 0);
}

Test(simcuda_captured, simulated_streams_are_not_destroyed_while_they_capture) {
    capture_start_simulated();
    CUdeviceptr memory;
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    OK(cu.StreamBeginCapture(stream, RELAXED));
    GIVES(cu.MemAllocAsync(&memory, 4, stream), CUDA_ERROR_NOT_SUPPORTED);
    GIVES(cu.MemFreeAsync(w.p, stream), CUDA_ERROR_NOT_SUPPORTED);
    CUevent e = capture_event();
    GIVES(cu.StreamWaitEvent(stream, e, 1), CUDA_ERROR_NOT_SUPPORTED); /* as a node */
    GIVES(cu.StreamWaitEvent(PER_THREAD, e, 1), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(capture_state(stream), ACTIVE);
    GIVES(cu.StreamDestroy(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    FAULTS(1, "while it captures");
    capture_end_broken(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void call_the_driver(void *argument) {
    CUcontext context;
    *(CUresult *) argument = cu.CtxGetCurrent(&context);
}

Test(simcuda_captured, simulated_host_functions_of_graphs_may_not_call_the_driver) {
    capture_start_simulated();
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUresult result = CUDA_SUCCESS;
    OK(cu.StreamBeginCapture(stream, RELAXED));
    OK(cu.LaunchHostFunc(stream, call_the_driver, &result));
    CUgraphExec exec = capture_end(stream);
    OK(cu.GraphLaunch(exec, stream));
    OK(cu.StreamSynchronize(stream));
    cr_assert_eq(result, CUDA_ERROR_NOT_PERMITTED);
    OK(cu.GraphExecDestroy(exec));
    OK(cu.StreamDestroy(stream));
    capture_finish();
}

/** A graph that adds `v`. */
static CUgraphExec make_adder(unsigned v, CUstream stream) {
    OK(cu.StreamBeginCapture(stream, RELAXED));
    OK(capture_launch(w.add, v, stream));
    return capture_end(stream);
}

Test(simcuda_captured, simulated_graphs_can_be_launched_in_captures) {
    capture_start_simulated();
    gate g;
    CUstream a = client_stream(CU_STREAM_NON_BLOCKING), b = client_stream(CU_STREAM_NON_BLOCKING);
    CUgraphExec inner = make_adder(3, a);
    gate_close(&g, a);
    OK(cu.GraphLaunch(inner, a));
    OK(cu.StreamBeginCapture(b, RELAXED));
    OK(cu.GraphLaunch(inner, b));
    OK(cu.GraphLaunch(inner, b));
    CUgraphExec outer = capture_end(b);
    OK(cu.GraphLaunch(inner, b)); /* comes after its other launch still */
    GIVES(cu.StreamQuery(b), CUDA_ERROR_NOT_READY);
    gate_open(&g);
    OK(cu.GraphExecDestroy(inner));
    cr_assert_eq(client_word(w.p), 6);
    OK(cu.GraphLaunch(outer, a));
    cr_assert_eq(client_word(w.p), 12);
    OK(cu.GraphExecDestroy(outer));
    OK(cu.StreamDestroy(a));
    OK(cu.StreamDestroy(b));
    capture_finish();
}

Test(simcuda_captured, simulated_events_of_captures_that_are_over_are_refused) {
    capture_start_simulated();
    float ms;
    CUstream a = client_stream(CU_STREAM_NON_BLOCKING), b = client_stream(CU_STREAM_NON_BLOCKING);
    CUevent timed[2], e = capture_event();
    for (int i = 0; i < 2; i++) {
        OK(cu.EventCreate(&timed[i], CU_EVENT_DEFAULT));
        OK(cu.EventRecord(timed[i], a));
    }
    OK(cu.StreamBeginCapture(a, GLOBAL));
    OK(cu.EventRecord(e, a));
    OK(cu.EventRecord(timed[1], a));
    GIVES(cu.StreamWaitEvent(LEGACY, e, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    cr_assert_eq(capture_state(a), INVALIDATED);
    GIVES(cu.StreamWaitEvent(b, e, 0), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    capture_end_broken(a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    GIVES(cu.StreamWaitEvent(b, e, 0), CUDA_ERROR_CAPTURED_EVENT);
    GIVES(cu.EventQuery(e), CUDA_ERROR_CAPTURED_EVENT);
    GIVES(cu.EventElapsedTime(&ms, timed[0], timed[1]), CUDA_ERROR_CAPTURED_EVENT);
    GIVES(cu.EventElapsedTime(&ms, timed[1], timed[0]), CUDA_ERROR_CAPTURED_EVENT);

    OK(cu.StreamBeginCapture(a, GLOBAL));
    GIVES(cu.StreamWaitEvent(a, e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    GIVES(capture_launch(w.add, 1, a), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    GIVES(cu.EventRecord(e, (CUstream) e), CUDA_ERROR_INVALID_HANDLE);
    FAULTS(1, "is no stream");
}

/* ---- order, as the checker of the simulated driver sees it ---- */

/** Two streams write the same word in a capture; the second may wait for the first. */
static CUgraphExec capture_two_writers(CUstream a, CUstream b, bool waits) {
    CUevent fork = capture_event(), done = capture_event();
    OK(cu.StreamBeginCapture(a, RELAXED));
    OK(cu.EventRecord(fork, a));
    OK(cu.StreamWaitEvent(b, fork, 0));
    OK(capture_launch(w.add, 1, a));
    OK(cu.EventRecord(done, a));
    if (waits)
        OK(cu.StreamWaitEvent(b, done, 0));
    OK(cu.MemsetD32Async(w.p, 5, 1, b));
    OK(cu.EventRecord(done, b));
    OK(cu.StreamWaitEvent(a, done, 0));
    OK(cu.EventDestroy(fork));
    OK(cu.EventDestroy(done));
    return capture_end(a);
}

Test(simcuda_captured, simulated_races_in_a_graph_and_beside_it_are_reported) {
    capture_start_simulated();
    CUstream a = client_stream(CU_STREAM_NON_BLOCKING), b = client_stream(CU_STREAM_NON_BLOCKING);
    CUgraphExec races = capture_two_writers(a, b, false), ordered = capture_two_writers(a, b, true);
    for (uint64_t seed = 0; seed < 5; seed++) {
        cu.seed(seed);
        OK(cu.GraphLaunch(ordered, a));
        OK(cu.StreamSynchronize(a));
        cr_assert_eq(cu.races(), 0, "%s", cu.fault_text());
    }
    for (unsigned seed = 0; seed < 5; seed++) {
        cu.seed(seed);
        OK(cu.GraphLaunch(races, a));
        OK(cu.StreamSynchronize(a));
        cr_assert_eq(cu.races(), seed + 1, "%s", cu.fault_text());
    }
    CUevent e = capture_event();
    OK(cu.GraphLaunch(ordered, a));
    OK(cu.EventRecord(e, a));
    OK(cu.StreamWaitEvent(b, e, 0));
    OK(capture_launch(w.add, 1, b));
    OK(cu.CtxSynchronize());
    cr_assert_eq(cu.races(), 5, "%s", cu.fault_text());
    OK(cu.GraphLaunch(ordered, a));
    OK(capture_launch(w.add, 1, b)); /* nothing orders it */
    OK(cu.CtxSynchronize());
    cr_assert_gt(cu.races(), 5);
}
