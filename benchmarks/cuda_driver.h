/* cuda_driver.h: the CUDA driver and NVRTC, opened at run time, without this library.
 * Layer: benchmarks. May include: nothing of the library. */
#ifndef BENCH_CUDA_DRIVER_H
#define BENCH_CUDA_DRIVER_H
#include <stdbool.h>
#include <stddef.h>

typedef unsigned long long cuda_address;

/* The driver's functions that benchmarks call; X(field, symbol, arguments). All return 0 for
 * success. Contexts, streams, events, modules and functions are pointers that nobody looks into. */
#define CUDA_DRIVER_CALLS(X)                                                                       \
    X(init, "cuInit", (unsigned flags))                                                            \
    X(version, "cuDriverGetVersion", (int *version))                                               \
    X(error_name, "cuGetErrorName", (int error, const char **name))                                \
    X(get, "cuDeviceGet", (int *device, int ordinal))                                              \
    X(name, "cuDeviceGetName", (char *name, int length, int device))                               \
    X(attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))                  \
    X(retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                            \
    X(release, "cuDevicePrimaryCtxRelease_v2", (int device))                                       \
    X(push, "cuCtxPushCurrent_v2", (void *context))                                                \
    X(pop, "cuCtxPopCurrent_v2", (void **context))                                                 \
    X(sync_context, "cuCtxSynchronize", (void) )                                                   \
    X(memory, "cuMemGetInfo_v2", (size_t *unused, size_t *total))                                  \
    X(alloc, "cuMemAlloc_v2", (cuda_address * pointer, size_t bytes))                              \
    X(free, "cuMemFree_v2", (cuda_address pointer))                                                \
    X(host_alloc, "cuMemHostAlloc", (void **pointer, size_t bytes, unsigned flags))                \
    X(host_free, "cuMemFreeHost", (void *pointer))                                                 \
    X(copy, "cuMemcpyDtoDAsync_v2",                                                                \
      (cuda_address to, cuda_address from, size_t bytes, void *stream))                            \
    X(download, "cuMemcpyDtoHAsync_v2", (void *to, cuda_address from, size_t bytes, void *stream)) \
    X(upload, "cuMemcpyHtoDAsync_v2",                                                              \
      (cuda_address to, const void *from, size_t bytes, void *stream))                             \
    X(clear, "cuMemsetD32Async", (cuda_address to, unsigned value, size_t count, void *stream))    \
    X(stream_create, "cuStreamCreate", (void **stream, unsigned flags))                            \
    X(stream_destroy, "cuStreamDestroy_v2", (void *stream))                                        \
    X(stream_wait, "cuStreamWaitEvent", (void *stream, void *event, unsigned flags))               \
    X(sync, "cuStreamSynchronize", (void *stream))                                                 \
    X(event_create, "cuEventCreate", (void **event, unsigned flags))                               \
    X(event_destroy, "cuEventDestroy_v2", (void *event))                                           \
    X(record, "cuEventRecord", (void *event, void *stream))                                        \
    X(module_load, "cuModuleLoadData", (void **module, const void *image))                         \
    X(module_unload, "cuModuleUnload", (void *module))                                             \
    X(function, "cuModuleGetFunction", (void **function, void *module, const char *name))          \
    X(launch, "cuLaunchKernel",                                                                    \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,        \
       unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters,       \
       void **extra))

typedef struct cuda_driver {
#define FIELD(field, symbol, arguments) int(*field) arguments;
    CUDA_DRIVER_CALLS(FIELD)
#undef FIELD
    unsigned (*races)(void); /* NULL, or the driver is simulated: unordered accesses so far */
} cuda_driver;

enum { /* of cuda.h */
       CUDA_CAPABILITY_MAJOR = 75,
       CUDA_CAPABILITY_MINOR = 76,
       CUDA_STREAM_NON_BLOCKING = 1,
       CUDA_EVENT_DISABLE_TIMING = 2
};

/* Resolve every function of the driver that JITC_LIBCUDA names, else libcuda.so.1. False, after a
 * message, if the library or a function is missing. */
bool cuda_driver_open(cuda_driver *d);
/* Is `result` success? Else print "<what>: <name of the error>". */
bool cuda_driver_check(const cuda_driver *d, int result, const char *what);
/* Compile CUDA C for a device and load it into the context that is current. NVRTC is the one that
 * JITC_LIBNVRTC names, or that the process has loaded, or that is found by name. False, after a
 * message with the compiler's, on failure. */
bool cuda_driver_compile(const cuda_driver *d, int device, const char *text, void **module);
/* The version of the NVRTC that cuda_driver_compile() would use, in words. */
void cuda_driver_describe_nvrtc(char *text, size_t size);

#endif
