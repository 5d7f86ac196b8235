/* test_simcuda_contexts.c: several contexts and devices of the simulated driver, and what they have
 * to do with each other. */
#include "simcuda_client.h"
#include <string.h>

/** The primary context of device 0, current; one beside it; and the primary one of device 1. */
static struct {
    CUcontext first, own, second;
} c;

static void start(void) {
    CUcontext current;
    c.first = client_start();
    OK(cu.CtxCreate(&c.own, 0, 0));
    OK(cu.CtxPopCurrent(&current));
    OK(cu.PrimaryCtxRetain(&c.second, 1));
}

static void finish(void) {
    OK(cu.CtxDestroy(c.own));
    OK(cu.PrimaryCtxRelease(1));
    client_end();
}

/** A stream of a context that is not current. */
static CUstream stream_in(CUcontext context, unsigned flags) {
    OK(cu.CtxPushCurrent(context));
    CUstream stream = client_stream(flags);
    OK(cu.CtxPopCurrent(&context));
    return stream;
}

static CUevent event_in(CUcontext context, unsigned flags) {
    CUevent event;
    OK(cu.CtxPushCurrent(context));
    OK(cu.EventCreate(&event, flags));
    OK(cu.CtxPopCurrent(&context));
    return event;
}

static CUcontext context_of(CUstream stream) {
    CUcontext context = NULL;
    OK(cu.StreamGetCtx(stream, &context));
    return context;
}

Test(simcuda_contexts, streams_know_their_context_default_streams_are_of_the_current_one) {
    start();
    CUcontext current;
    CUstream own = stream_in(c.own, CU_STREAM_DEFAULT), far = stream_in(c.second, 1);
    cr_assert_eq(context_of(own), c.own);
    cr_assert_eq(context_of(far), c.second);
    CUcontext contexts[] = {c.first, c.own, c.second};
    for (int i = 0; i < 3; i++) {
        OK(cu.CtxPushCurrent(contexts[i]));
        cr_assert_eq(context_of(NULL), contexts[i]);
        cr_assert_eq(context_of(LEGACY), contexts[i]);
        cr_assert_eq(context_of(PER_THREAD), contexts[i]);
        OK(cu.CtxPopCurrent(&current));
    }
    OK(cu.StreamDestroy(own)); /* of whichever context */
    OK(cu.StreamDestroy(far));
    finish();
}

Test(simcuda_contexts, legacy_streams_wait_within_their_context) {
    start();
    gate g;
    CUcontext current;
    CUstream here = client_stream(CU_STREAM_DEFAULT);
    gate_close(&g, here);
    OK(cu.CtxPushCurrent(c.own)); /* same device */
    OK(cu.StreamSynchronize(LEGACY));
    OK(cu.StreamSynchronize(PER_THREAD));
    OK(cu.CtxSynchronize());
    OK(cu.CtxPopCurrent(&current));
    GIVES(cu.StreamQuery(LEGACY), CUDA_ERROR_NOT_READY);
    gate_open(&g);
    OK(cu.StreamSynchronize(LEGACY));
    OK(cu.StreamDestroy(here));
    finish();
}

/** Streams of a and b: b waits for an event of a, whichever context is current. */
static void check_wait(CUcontext a, CUcontext b) {
    gate g;
    CUcontext current;
    CUstream producer = stream_in(a, CU_STREAM_NON_BLOCKING);
    CUstream consumer = stream_in(b, CU_STREAM_NON_BLOCKING);
    CUevent event = event_in(a, CU_EVENT_DISABLE_TIMING);
    OK(cu.CtxPushCurrent(a));
    gate_close(&g, producer);
    OK(cu.CtxPopCurrent(&current));
    OK(cu.EventRecord(event, producer));
    OK(cu.StreamWaitEvent(consumer, event, 0));
    GIVES(cu.EventQuery(event), CUDA_ERROR_NOT_READY);
    GIVES(cu.StreamQuery(consumer), CUDA_ERROR_NOT_READY);
    gate_open(&g);
    OK(cu.StreamSynchronize(consumer));
    OK(cu.EventQuery(event));
    OK(cu.EventSynchronize(event));
    OK(cu.EventDestroy(event));
    OK(cu.StreamDestroy(producer));
    OK(cu.StreamDestroy(consumer));
}

Test(simcuda_contexts, streams_wait_for_events_of_other_contexts_and_devices) {
    start();
    CUcontext contexts[] = {c.first, c.own, c.second};
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            check_wait(contexts[a], contexts[b]);
    finish();
}

Test(simcuda_contexts, events_are_recorded_on_streams_of_their_context) {
    start();
    CUcontext contexts[] = {c.first, c.own, c.second};
    CUstream streams[3];
    CUevent events[3];
    for (int i = 0; i < 3; i++) {
        streams[i] = stream_in(contexts[i], CU_STREAM_DEFAULT);
        events[i] = event_in(contexts[i], CU_EVENT_DISABLE_TIMING);
    }
    unsigned faults = 0;
    for (int e = 0; e < 3; e++)
        for (int s = 0; s < 3; s++) {
            GIVES(cu.EventRecord(events[e], streams[s]),
                  e == s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
            faults += e != s;
            FAULTS(faults, "");
        }
    FAULTS(6, "of another context");
    GIVES(cu.EventRecord(events[1], LEGACY), CUDA_ERROR_INVALID_HANDLE); /* that of the first */
    OK(cu.EventRecord(events[0], LEGACY));
}

Test(simcuda_contexts, time_passes_between_events_of_one_context) {
    start();
    gate g;
    float ms = -1;
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUevent from = event_in(c.first, 0), to = event_in(c.first, 0), far = event_in(c.second, 0);
    CUevent untimed = event_in(c.first, CU_EVENT_DISABLE_TIMING);
    CUstream there = stream_in(c.second, 1);
    OK(cu.EventRecord(from, stream));
    GIVES(cu.EventElapsedTime(&ms, from, to), CUDA_ERROR_INVALID_HANDLE); /* was not recorded */
    gate_close(&g, stream);
    OK(cu.EventRecord(to, stream));
    OK(cu.EventRecord(untimed, stream));
    OK(cu.EventRecord(far, there));
    GIVES(cu.EventElapsedTime(&ms, from, to), CUDA_ERROR_NOT_READY);
    gate_open(&g);
    OK(cu.EventSynchronize(to));
    OK(cu.EventSynchronize(far));
    OK(cu.EventElapsedTime(&ms, from, to));
    cr_assert_gt(ms, 0);
    float back;
    OK(cu.EventElapsedTime(&back, to, from));
    cr_assert_eq(back, -ms);
    OK(cu.EventElapsedTime(&ms, to, to));
    cr_assert_eq(ms, 0);
    GIVES(cu.EventElapsedTime(&ms, from, far), CUDA_ERROR_INVALID_HANDLE);
    GIVES(cu.EventElapsedTime(&ms, from, untimed), CUDA_ERROR_INVALID_HANDLE);
    CUevent events[] = {from, to, far, untimed};
    for (int i = 0; i < 4; i++)
        OK(cu.EventDestroy(events[i]));
    OK(cu.StreamDestroy(stream));
    OK(cu.StreamDestroy(there));
    finish();
}

Test(simcuda_contexts, contexts_are_made_in_every_version) {
    start();
    CUcontext made, current;
    OK(cu.CtxCreate_v3(&made, NULL, 0, 0, 1));
    OK(cu.CtxGetCurrent(&current));
    cr_assert_eq(current, made);
    OK(cu.CtxDestroy(made));
    OK(cu.CtxCreate_v4(&made, NULL, 0, 1));
    cr_assert(made != c.first && made != c.second);
    OK(cu.CtxDestroy(made));
    OK(cu.CtxGetCurrent(&current));
    cr_assert_eq(current, c.first);
    finish();
}

/* ---- memory of other devices ---- */

Test(simcuda_contexts, devices_copy_from_each_other) {
    start();
    int can = -1;
    CUcontext current;
    OK(cu.DeviceCanAccessPeer(&can, 0, 1));
    cr_assert_eq(can, 1);
    OK(cu.DeviceCanAccessPeer(&can, 1, 1));
    cr_assert_eq(can, 0);
    GIVES(cu.DeviceCanAccessPeer(&can, 0, 2), CUDA_ERROR_INVALID_DEVICE);
    GIVES(cu.CtxDisablePeerAccess(c.second), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK(cu.CtxEnablePeerAccess(c.second, 0));
    GIVES(cu.CtxEnablePeerAccess(c.second, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    GIVES(cu.CtxEnablePeerAccess(c.own, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    GIVES(cu.CtxEnablePeerAccess(c.first, 0), CUDA_ERROR_INVALID_CONTEXT);
    OK(cu.CtxDisablePeerAccess(c.second));
    OK(cu.CtxEnablePeerAccess(c.second, 0));

    CUdeviceptr here = client_alloc(8);
    OK(cu.CtxPushCurrent(c.second));
    CUdeviceptr there = client_alloc(8);
    OK(cu.MemsetD32(there, 5, 2));
    OK(cu.CtxSynchronize());
    OK(cu.CtxPopCurrent(&current));
    OK(cu.MemcpyPeerAsync(here, c.first, there, c.second, 8, PER_THREAD));
    cr_assert_eq(client_word(here + 4), 5);
    GIVES(cu.MemcpyPeerAsync(here, c.second, there, c.second, 8, NULL), CUDA_ERROR_INVALID_VALUE);
    FAULTS(1, "the destination is no memory of the given context");
    GIVES(cu.MemcpyPeerAsync(here, c.first, here, c.second, 8, NULL), CUDA_ERROR_INVALID_VALUE);
    FAULTS(2, "the source is no memory");
}

/** Queue *p = 7, in the current context. */
static void launch_set(CUmodule module, CUdeviceptr p) {
    void *params[] = {&p};
    OK(cu.LaunchKernel(client_function(module, "set"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

Test(simcuda_contexts, kernels_use_memory_of_their_peers_only) {
    start();
    CUcontext current;
    CUmodule module = client_load("KERNEL void set(unsigned *p) { ST(p, 7); }\n");
    OK(cu.CtxPushCurrent(c.second));
    CUdeviceptr there = client_alloc(4);
    OK(cu.MemsetD32(there, 0, 1));
    OK(cu.CtxSynchronize());
    OK(cu.CtxPopCurrent(&current));
    OK(cu.CtxEnablePeerAccess(c.second, 0));
    launch_set(module, there);
    cr_assert_eq(client_word(there), 7);
    OK(cu.CtxDisablePeerAccess(c.second));
    FAULTS(0, "");
    launch_set(module, there);
    GIVES(cu.CtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAULTS(1, "of another device, without peer access");
}

static CUmemoryPool make_pool(int device) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    CUmemoryPool pool;
    OK(cu.MemPoolCreate(&pool, &props));
    return pool;
}

/** Access of a device to a pool, or none. */
static CUresult set_access(CUmemoryPool pool, int device, int flags) {
    CUmemAccessDesc map = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
    return cu.MemPoolSetAccess(pool, &map, 1);
}
enum { ALL = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

/** Copies and fills by a stream of the context that is current, of 64 bytes at `pool` and at
 * `own`, give `expected`; between two named contexts they are always possible. */
static void check_copies(CUdeviceptr pool, CUdeviceptr own, CUstream s, CUresult expected) {
    unsigned words[16];
    CUcontext current;
    OK(cu.CtxGetCurrent(&current));
    GIVES(cu.MemcpyDtoDAsync(own, pool, 64, s), expected);
    GIVES(cu.MemcpyDtoDAsync(pool, own, 64, s), expected);
    GIVES(cu.MemcpyAsync(own, pool, 64, s), expected);
    GIVES(cu.MemcpyDtoHAsync(words, pool, 64, s), expected);
    GIVES(cu.MemcpyHtoDAsync(pool, words, 64, s), expected);
    GIVES(cu.MemsetD8Async(pool, 1, 64, s), expected);
    GIVES(cu.MemsetD32Async(pool, 1, 16, s), expected);
    OK(cu.MemcpyPeerAsync(own, current, pool, c.first, 64, s));
    OK(cu.StreamSynchronize(s));
}

Test(simcuda_contexts, streams_of_other_devices_need_access_to_a_pool) {
    start();
    CUstream here = client_stream(CU_STREAM_NON_BLOCKING);
    CUstream own = stream_in(c.own, CU_STREAM_NON_BLOCKING);
    CUstream far = stream_in(c.second, CU_STREAM_NON_BLOCKING);
    CUmemoryPool pools[] = {make_pool(0), make_pool(0), NULL};
    CUdeviceptr block[3];
    OK(cu.DeviceGetDefaultMemPool(&pools[2], 0));
    for (int i = 0; i < 3; i++)
        OK(cu.MemAllocFromPoolAsync(&block[i], 64, pools[i], here));
    OK(cu.StreamSynchronize(here));
    CUdeviceptr mine = client_alloc(64);
    OK(cu.CtxPushCurrent(c.own));
    for (int i = 0; i < 3; i++) /* the device counts, not the context */
        check_copies(block[i], mine, own, CUDA_SUCCESS);
    OK(cu.CtxSetCurrent(c.second));
    OK(cu.CtxEnablePeerAccess(c.first, 0)); /* which is about other memory */
    CUdeviceptr there = client_alloc(64);
    for (int i = 0; i < 3; i++) {
        check_copies(block[i], there, far, CUDA_ERROR_INVALID_VALUE);
        OK(set_access(pools[i], 1, ALL));
        check_copies(block[i], there, far, CUDA_SUCCESS);
        OK(set_access(pools[i], 1, 0));
        check_copies(block[i], there, far, CUDA_ERROR_INVALID_VALUE);
    }
    OK(cu.CtxDisablePeerAccess(c.first));
    OK(set_access(pools[0], 1, ALL));
    check_copies(block[0], there, far, CUDA_SUCCESS);
    check_copies(mine, there, far, CUDA_SUCCESS); /* of no pool */
    FAULTS(0, "");
    GIVES(set_access(pools[0], 2, ALL), CUDA_ERROR_INVALID_DEVICE);
    GIVES(set_access(pools[0], 0, 0), CUDA_ERROR_INVALID_VALUE);
    GIVES(set_access(pools[0], 1, 1), CUDA_ERROR_INVALID_VALUE);
}

Test(simcuda_contexts, access_to_a_pool_makes_no_context) {
    client_start();
    CUmemoryPool pool = make_pool(0);
    unsigned flags;
    int active = -1;
    OK(set_access(pool, 1, ALL));
    OK(cu.PrimaryCtxGetState(1, &flags, &active));
    cr_assert_eq(active, 0);
    OK(cu.MemPoolDestroy(pool));
    client_end();
}

/** A kernel of device 1 writes memory of a pool of device 0, to which it has access or not. */
static CUresult launch_into_pool(bool access, bool before) {
    CUdeviceptr block;
    CUmemoryPool pool = make_pool(0);
    CUstream here = client_stream(CU_STREAM_NON_BLOCKING);
    if (access && before)
        OK(set_access(pool, 1, ALL));
    OK(cu.MemAllocFromPoolAsync(&block, 64, pool, here));
    OK(cu.StreamSynchronize(here));
    if (access && !before)
        OK(set_access(pool, 1, ALL));
    OK(cu.CtxPushCurrent(c.second));
    launch_set(client_load("KERNEL void set(unsigned *p) { ST(p, 7); }\n"), block);
    CUresult result = cu.CtxSynchronize();
    OK(cu.CtxPopCurrent(&c.second));
    if (result == CUDA_SUCCESS)
        cr_assert_eq(client_word(block), 7);
    return result;
}

Test(simcuda_contexts, kernels_use_pools_to_which_their_device_has_access) {
    start();
    GIVES(launch_into_pool(true, true), CUDA_SUCCESS);
    GIVES(launch_into_pool(true, false), CUDA_SUCCESS);
    FAULTS(0, "");
    OK(cu.CtxPushCurrent(c.second));
    OK(cu.CtxEnablePeerAccess(c.first, 0));
    OK(cu.CtxPopCurrent(&c.second));
    GIVES(launch_into_pool(false, false), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAULTS(1, "of another device, without access to the pool");
}

Test(simcuda_contexts, memory_comes_from_pools) {
    start();
    struct {
        int type, handles, location, device;
        void *unused;
        size_t most;
        unsigned char reserved[56];
    } props = {.type = 1, .location = 1, .device = 0};
    CUmemoryPool pool, far, standard;
    CUdeviceptr p;
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    OK(cu.MemPoolCreate(&pool, &props));
    props.device = 1;
    OK(cu.MemPoolCreate(&far, &props));
    props.device = 2;
    GIVES(cu.MemPoolCreate(&far, &props), CUDA_ERROR_INVALID_DEVICE);
    cr_assert_eq(cu.alive("pools"), 2);
    OK(cu.DeviceGetDefaultMemPool(&standard, 0));
    CUmemoryPool pools[] = {pool, standard};
    for (int i = 0; i < 2; i++) {
        OK(cu.MemAllocFromPoolAsync(&p, 64, pools[i], stream));
        OK(cu.MemsetD32Async(p, 9, 16, stream));
        cr_assert_eq(client_word(p), 9);
        OK(cu.MemFreeAsync(p, stream));
    }
    GIVES(cu.MemAllocFromPoolAsync(&p, 64, far, stream), CUDA_ERROR_NOT_SUPPORTED);
    GIVES(cu.MemPoolDestroy(standard), CUDA_ERROR_INVALID_VALUE);
    OK(cu.MemPoolDestroy(pool));
    OK(cu.MemPoolDestroy(far));
    OK(cu.StreamSynchronize(stream));
    OK(cu.StreamDestroy(stream));
    finish();
    GIVES(cu.MemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
    FAULTS(1, "is used after it was destroyed");
}
