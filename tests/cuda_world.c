/* cuda_world.c: for the tests of the CUDA backend. */
#include "cuda_world.h"
#include <stdlib.h>
#include <string.h>

static void find(void *function, const char *symbol) {
    void *address = support_driver(symbol);
    memcpy(function, &address, sizeof address); /* as dlsym() requires */
}

cuda_world cuda_world_find(void) {
    cuda_world w = {0};
    if (support_backend() != JIT_CUDA)
        support_skip("this is about CUDA: set JITC_TEST_BACKEND=cuda");
    find(&w.CtxReset, "cuDevicePrimaryCtxReset_v2");
    find(&w.CtxRetain, "cuDevicePrimaryCtxRetain");
    find(&w.CtxRelease, "cuDevicePrimaryCtxRelease_v2");
    find(&w.CtxGetCurrent, "cuCtxGetCurrent");
    find(&w.CtxPushCurrent, "cuCtxPushCurrent_v2");
    find(&w.CtxPopCurrent, "cuCtxPopCurrent_v2");
    find(&w.MemFree, "cuMemFree_v2");
    find(&w.fail, "simcuda_fail");
    find(&w.calls, "simcuda_calls");
    find(&w.faults, "simcuda_faults");
    find(&w.races, "simcuda_races");
    find(&w.fault_text, "simcuda_fault_text");
    find(&w.alive, "simcuda_alive");
    find(&w.seed, "simcuda_seed");
    find(&w.memory, "simcuda_memory");
    find(&w.kernel_time_us, "simcuda_kernel_time_us");
    find(&w.order, "simcuda_order");
    find(&w.reuse_handles, "simcuda_reuse_handles");
    return w;
}

cuda_world cuda_world_simulated(void) {
    cuda_world w = cuda_world_find();
    if (!w.faults)
        support_skip("this wants the simulated driver");
    return w;
}

void cuda_world_cpu_computes(void) {
    float x[3] = {1, 2, 3}, got[3];
    if (!support_is_built(JIT_LLVM))
        return;
    ASSERT_OK(jit_init(JIT_LLVM));
    jit_var a = jit_from_host(JIT_LLVM, JIT_f32, x, 3), b = jit_add(a, a);
    ASSERT_OK(jit_read(b, got));
    cr_assert(got[0] == 2 && got[1] == 4 && got[2] == 6);
    jit_unref(a);
    jit_unref(b);
    jit_shutdown();
}

jit_var cuda_world_ramp(size_t n) {
    float *x = malloc((n + 1) * sizeof *x);
    cr_assert_not_null(x);
    for (size_t i = 0; i < n; ++i)
        x[i] = (float) i;
    jit_var v = jit_from_host(JIT_CUDA, JIT_f32, x, n);
    free(x);
    return v;
}

void cuda_world_expect(jit_var v, size_t n, float scale, float offset) {
    float *x = malloc((n + 1) * sizeof *x);
    cr_assert_not_null(x);
    cr_assert_eq(jit_size(v), n);
    ASSERT_OK(jit_read(v, x));
    for (size_t i = 0; i < n; ++i)
        cr_assert_eq(x[i], scale * (float) i + offset, "element %zu of %zu: %g", i, n,
                     (double) x[i]);
    free(x);
}
