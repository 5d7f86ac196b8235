/* cuda_world.h: for the tests of the CUDA backend: its driver's functions, the settings of the
 * simulated driver, and work to try it with. */
#ifndef JITC_TESTS_CUDA_WORLD_H
#define JITC_TESTS_CUDA_WORLD_H
#include "cuda/driver.h"
#include "support.h"

/** Functions of the driver under test that the library does not call, and the settings of the
 * simulated driver; NULL where they are not there. */
typedef struct cuda_world {
    CUresult (*CtxReset)(CUdevice device);
    CUresult (*CtxRetain)(CUcontext *context, CUdevice device);
    CUresult (*CtxRelease)(CUdevice device);
    CUresult (*CtxGetCurrent)(CUcontext *context);
    CUresult (*CtxPushCurrent)(CUcontext context);
    CUresult (*CtxPopCurrent)(CUcontext *context);
    CUresult (*MemFree)(CUdeviceptr pointer);
    void (*fail)(const char *name, int n, int result);
    uint64_t (*calls)(const char *name);
    unsigned (*faults)(void);
    unsigned (*races)(void);
    const char *(*fault_text)(void);
    unsigned (*alive)(const char *kind);
    void (*seed)(uint64_t seed);
    void (*memory)(uint64_t bytes);
    void (*kernel_time_us)(unsigned us);
    void (*order)(bool on);
    void (*reuse_handles)(bool on);
} cuda_world;

/** Skips the test if CUDA is not under test. */
cuda_world cuda_world_find(void);
/** Skips the test if the simulated driver is not under test. */
cuda_world cuda_world_simulated(void);

/** The CPU backend, if it is built, can be started and computes. */
void cuda_world_cpu_computes(void);
/** 0, 1, 2, ... as f32 in memory of the CUDA device; 0 on failure. */
jit_var cuda_world_ramp(size_t n);
/** jit_read() gives scale * i + offset for element i of n. */
void cuda_world_expect(jit_var v, size_t n, float scale, float offset);
#endif
