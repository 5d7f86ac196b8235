/* cuda_foreign.h: another library in the same process: streams, events and contexts that are not
 * ours, and work on them, by the driver that is under test. */
#ifndef JITC_TESTS_CUDA_FOREIGN_H
#define JITC_TESTS_CUDA_FOREIGN_H
#include "core/sync.h"
#include "cuda_world.h"
#include <pthread.h>

#define CU_STREAM_NULL       ((CUstream) 0)
#define CU_STREAM_LEGACY     ((CUstream) 1)
#define CU_STREAM_PER_THREAD ((CUstream) 2)

/** X(member, symbol, parameters): functions of the driver; NULL where it does not have them. */
#define FOREIGN_FUNCTIONS(X)                                                                       \
    X(CtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))               \
    X(CtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                               \
    X(CtxCreate, "cuCtxCreate_v2", (CUcontext * context, unsigned flags, CUdevice device))         \
    X(CtxDestroy, "cuCtxDestroy_v2", (CUcontext context))                                          \
    X(CtxGetCurrent, "cuCtxGetCurrent", (CUcontext * context))                                     \
    X(CtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext context))                                  \
    X(CtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext * context))                                  \
    X(StreamCreate, "cuStreamCreate", (CUstream * stream, unsigned flags))                         \
    X(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                      \
    X(StreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                 \
    X(StreamQuery, "cuStreamQuery", (CUstream stream))                                             \
    X(StreamWaitEvent, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags))      \
    X(EventCreate, "cuEventCreate", (CUevent * event, unsigned flags))                             \
    X(EventDestroy, "cuEventDestroy_v2", (CUevent event))                                          \
    X(EventRecord, "cuEventRecord", (CUevent event, CUstream stream))                              \
    X(EventQuery, "cuEventQuery", (CUevent event))                                                 \
    X(EventSynchronize, "cuEventSynchronize", (CUevent event))                                     \
    X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr * pointer, size_t bytes))                            \
    X(MemFree, "cuMemFree_v2", (CUdeviceptr pointer))                                              \
    X(MemsetD32, "cuMemsetD32_v2", (CUdeviceptr pointer, unsigned value, size_t count))            \
    X(MemHostAlloc, "cuMemHostAlloc", (void **pointer, size_t bytes, unsigned flags))              \
    X(MemFreeHost, "cuMemFreeHost", (void *pointer))                                               \
    X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                                     \
      (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                                 \
    X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                     \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                           \
    X(LaunchHostFunc, "cuLaunchHostFunc",                                                          \
      (CUstream stream, void (*function)(void *), void *context))                                  \
    X(ExchangeCaptureMode, "cuThreadExchangeStreamCaptureMode", (int *mode))                       \
    X(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, int mode))                  \
    X(StreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                  \
    X(StreamIsCapturing, "cuStreamIsCapturing", (CUstream stream, int *status))                    \
    X(GraphDestroy, "cuGraphDestroy", (CUgraph graph))

typedef struct foreign {
#define X(member, symbol, parameters) CUresult(*member) parameters;
    FOREIGN_FUNCTIONS(X)
#undef X
} foreign;

foreign foreign_find(void);
/** CUDA_SUCCESS, or the test fails. */
#define CU_OK(call) cr_assert_eq((call), CUDA_SUCCESS, "%s", #call)

/** Make a device's primary context current, and give it up. */
void foreign_enter(int device);
void foreign_leave(int device);
/** In the current context. */
CUstream foreign_stream(unsigned flags);
/** Something that the work of a stream stops at until it is opened. One at a time is reached. */
typedef struct gate {
    atomic_bool open;
} gate;
void foreign_close(gate *g, CUstream stream);
void foreign_open(gate *g);
/** Who opens a gate as soon as the CPU waits for the device, which the calls of the driver tell:
 * whoever has to wait comes back, and nothing is over before. */
typedef struct foreign_opener {
    gate *gate;
    const cuda_world *w;
    uint64_t waits; /* of the CPU, before */
    pthread_t thread;
} foreign_opener;
void foreign_open_at_wait(foreign_opener *o, gate *g, const cuda_world *w);
/** The gate is opened in any case. */
void foreign_opener_end(foreign_opener *o);
/** All that was queued so far and could run has run: streams behind a closed gate have not moved.
 */
void foreign_settle(void);

/** The driver under test is, from now on, a copy of the simulated one without this function. To be
 * called before it is used; skips the test if another one is wanted. */
void foreign_hide_function(const char *name);

/** Kernels and graphs launched so far. */
uint64_t foreign_launches(const cuda_world *w);
/** Calls so far in which the CPU waits for the device. */
uint64_t foreign_waits(const cuda_world *w);
#endif
