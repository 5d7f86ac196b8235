/* test_cuda_failure.c: every call of the driver and of NVRTC fails once, at every place where it is
 * made. Each time there is a status, and a text that names the call; nothing leaks, and the CPU
 * backend computes. What only gives something back may fail unseen. */
#include "cuda_world.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { N = 1000, NVRTC_ERROR_INTERNAL = 11 };

/* ---- The scenario: what a program does ---- */

static atomic_int wrong; /* elements */

/* Kernels of two sizes, and kernels that depend on each other, in one evaluation; then read. */
static jit_status compute(jit_var x) {
    float got[N], small[10];
    jit_scope_push();
    jit_var twice = jit_mul(x, jit_f32(JIT_CUDA, 2));
    jit_var index = jit_sub(jit_u32(JIT_CUDA, N - 1), jit_counter(JIT_CUDA, N));
    jit_var reversed = jit_gather(twice, index, 0);
    jit_var changed = jit_scatter(reversed, jit_f32(JIT_CUDA, -1), jit_u32(JIT_CUDA, 7), 0);
    jit_var other = jit_add(cuda_world_ramp(10), jit_f32(JIT_CUDA, 1));
    jit_status status = other ? jit_schedule(other) : jit_error_status();
    if (status == JIT_OK)
        status = jit_read(changed, got);
    if (status == JIT_OK)
        status = jit_read(other, small);
    for (int i = 0; status == JIT_OK && i < N; ++i)
        wrong += got[i] != (i == 7 ? -1 : (float) (2 * (N - 1 - i)));
    for (int i = 0; status == JIT_OK && i < 10; ++i)
        wrong += small[i] != (float) (i + 1);
    jit_scope_pop(0, NULL);
    return status;
}

typedef struct other_thread {
    jit_var x;
    jitc_error error;
} other_thread;

static void *compute_in_thread(void *context) {
    other_thread *t = context;
    if (compute(t->x) == JIT_OK)
        jit_error_clear();
    jitc_error_take(&t->error);
    return NULL;
}

static jit_status run_thread(jit_var x) {
    other_thread t = {.x = x};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, compute_in_thread, &t), 0);
    pthread_join(thread, NULL);
    return t.error.status == JIT_OK ? JIT_OK : jitc_error_raise(&t.error);
}

static jit_status run_all(void) {
    jit_scope_push();
    jit_var x = cuda_world_ramp(N);
    jit_status status = x ? JIT_OK : jit_error_status();
    for (int i = 0; i < 3 && status == JIT_OK; ++i)
        status = compute(x);
    jit_var more = jit_add(x, jit_f32(JIT_CUDA, 1)), same = jit_sub(more, jit_f32(JIT_CUDA, 1));
    if (status == JIT_OK)
        status = jit_var_eval(same); /* queued in this thread, read in another */
    if (status == JIT_OK)
        status = run_thread(same);
    if (status == JIT_OK)
        status = jit_sync_all_devices();
    jit_scope_pop(0, NULL);
    return status;
}

static jit_status scenario(void) {
    TRY(jit_init(JIT_CUDA));
    jit_status status = run_all();
    if (status != JIT_OK)
        cuda_world_cpu_computes();
    jit_shutdown();
    return status;
}

/* ---- Failing ---- */

/* Nothing works without it. Others may fail unseen: what gives something back, what only makes
 * things faster, and what is tried in another way, such as memory when unused blocks have been
 * given back. The results are right then. */
static bool must_be_seen(const char *name) {
    static const char *const needed[] = {"cuInit",      "cuDevice",       "Retain",
                                         "cuMemcpy",    "cuStreamCreate", "cuModuleLoad",
                                         "cuModuleGet", "cuLaunchKernel", "nvrtcGetNum",
                                         "nvrtcCreate", "nvrtcCompile",   "nvrtcGetCUBIN"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; ++i)
        if (strstr(name, needed[i]) && !strstr(name, "Release"))
            return true;
    return false;
}

/* Its failure leaves something. */
static bool gives_back(const char *name) {
    return strstr(name, "Destroy") || strstr(name, "Free") || strstr(name, "Unload") ||
           strstr(name, "Release") || strstr(name, "Pop");
}

/* The text has the name, without "_v2". */
static bool names(const char *text, const char *name) {
    char plain[64];
    snprintf(plain, sizeof plain, "%.*s", (int) strcspn(name, "_"), name);
    return strstr(text, plain) != NULL;
}

/* Let the n-th call of `name` fail. False if the scenario has fewer. */
static bool fail_once(const cuda_world *w, const char *name, int n, int result) {
    uint64_t calls = w->calls(name);
    unsigned alive = w->alive(NULL), faults = w->faults();
    w->fail(name, n, result);
    jit_status status = scenario();
    w->fail(NULL, 0, 0);
    cr_assert_eq(wrong, 0, "call %d of %s failed: wrong results", n, name);
    if (w->calls(name) - calls < (uint64_t) n) {
        cr_assert_eq(status, JIT_OK, "without a failure of %s: %s", name, jit_error());
        return false;
    }
    if (status == JIT_OK)
        cr_assert_not(must_be_seen(name), "call %d of %s failed unseen", n, name);
    else if (status == JIT_OUT_OF_MEMORY)
        cr_assert(strstr(jit_error(), "no memory for "), "%s", jit_error());
    else
        cr_assert(names(jit_error(), name), "call %d of %s failed; %s: %s", n, name,
                  jit_status_name(status), jit_error());
    jit_error_clear();
    if (gives_back(name) || (strstr(name, "Ctx") && status == JIT_OK))
        return true; /* what was to be given back is left */
    cr_assert_eq(w->alive(NULL), alive, "call %d of %s failed: %u objects are left", n, name,
                 w->alive(NULL) - alive);
    cr_assert_eq(w->faults(), faults, "call %d of %s failed: %s", n, name, w->fault_text());
    return true;
}

static void fail_everywhere(const cuda_world *w, const char *name, int result) {
    int n = 1;
    while (fail_once(w, name, n, result))
        ++n;
    fprintf(stderr, "%-45s failed at %d places\n", name, n - 1);
}

static cuda_world start(void) {
    cuda_world w = cuda_world_simulated();
    w.kernel_time_us(200); /* so that there is something to wait for */
    ASSERT_OK(jit_set_option("cache_disk", "0"));
    return w;
}

Test(cuda_failure, each_call_of_the_driver, .timeout = 280) {
    cuda_world w = start();
    static const char *const symbols[] = {
#define DRIVER(name, symbol, ...) symbol,
#include "cuda/driver.def"
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; ++i)
        fail_everywhere(&w, symbols[i], CUDA_ERROR_UNKNOWN);
}

/* But nvrtcDestroyProgram(): what it does not destroy stays, and LeakSanitizer would say so. */
Test(cuda_failure, each_call_of_the_compiler, .timeout = 280) {
    cuda_world w = start();
    static const char *const symbols[] = {
        "nvrtcVersion",           "nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs",
        "nvrtcCreateProgram",     "nvrtcCompileProgram",       "nvrtcGetCUBINSize",
        "nvrtcGetCUBIN",          "nvrtcGetPTXSize",           "nvrtcGetPTX",
        "nvrtcGetProgramLogSize", "nvrtcGetProgramLog",        "nvrtcGetErrorString"};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; ++i)
        fail_everywhere(&w, symbols[i], NVRTC_ERROR_INTERNAL);
}

Test(cuda_failure, memory_that_runs_out_anywhere, .timeout = 120) {
    cuda_world w = start();
    fail_everywhere(&w, "cuMemAllocFromPoolAsync", CUDA_ERROR_OUT_OF_MEMORY);
    ASSERT_OK(jit_set_option("cuda_pool", "0"));
    fail_everywhere(&w, "cuMemAlloc_v2", CUDA_ERROR_OUT_OF_MEMORY);
    fail_everywhere(&w, "cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY);
}

/* ---- Larger failures ---- */

/* The device has failed: its status, wherever it is used; after a restart it works again. */
static void expect_failed_device(jit_var v, const char *named) {
    float got[N];
    cr_assert_eq(jit_read(v, got), JIT_DEVICE_FAILED, "%s", jit_error());
    cr_assert(strstr(jit_error(), named), "\"%s\" is not in \"%s\"", named, jit_error());
    jit_error_clear();
    cr_assert_eq(jit_sync_all_devices(), JIT_DEVICE_FAILED, "%s", jit_error());
    jit_error_clear();
    jit_var w = cuda_world_ramp(N);
    if (w)
        cr_assert_eq(jit_read(w, got), JIT_DEVICE_FAILED, "%s", jit_error());
    jit_error_clear();
    cuda_world_cpu_computes();
    jit_shutdown();
    jit_error_clear();
}

static void expect_restart(void) {
    ASSERT_OK(scenario());
}

Test(cuda_failure, a_context_that_another_library_resets) {
    cuda_world w = cuda_world_find();
    support_init();
    jit_var x = cuda_world_ramp(N), y = jit_add(x, x);
    ASSERT_OK(jit_var_eval(y));
    ASSERT_OK(jit_sync_thread());
    cr_assert_eq(w.CtxReset(jit_device(JIT_CUDA)), CUDA_SUCCESS);
    expect_failed_device(jit_mul(y, x), "context");
    expect_restart();
}

/* Another library gives the array's memory back: an access of the kernel is illegal. */
Test(cuda_failure, an_illegal_access_names_the_kernel) {
    cuda_world w = cuda_world_simulated();
    void *address;
    CUcontext context;
    support_init();
    jit_var x = cuda_world_ramp(N), y = jit_sqrt(x);
    ASSERT_OK(jit_data(x, &address));
    ASSERT_OK(jit_sync_thread());
    cr_assert(!w.CtxRetain(&context, 0) && !w.CtxPushCurrent(context));
    cr_assert_eq(w.MemFree((CUdeviceptr) (uintptr_t) address), CUDA_SUCCESS);
    cr_assert(!w.CtxPopCurrent(&context) && !w.CtxRelease(0));
    expect_failed_device(y, "CUDA_ERROR_ILLEGAL_ADDRESS");
    cr_assert(w.faults() > 0);
    expect_restart();
}

Test(cuda_failure, a_kernel_that_the_compiler_refuses) {
    enum { NVRTC_ERROR_COMPILATION = 6 };
    cuda_world w = start();
    float got[N];
    support_init();
    jit_var x = cuda_world_ramp(N), y = jit_sqrt(x);
    w.fail("nvrtcCompileProgram", 1, NVRTC_ERROR_COMPILATION);
    cr_assert_eq(jit_read(y, got), JIT_COMPILE_FAILED, "%s", jit_error());
    cr_assert(strstr(jit_error(), "nvrtcCompileProgram"), "%s", jit_error());
    jit_error_clear();
    ASSERT_OK(jit_read(y, got)); /* the next time it is compiled */
    cr_assert_eq(got[4], 2);
    jit_unref(x);
    jit_unref(y);
    support_shutdown();
}

/* At exit the driver may be gone: nothing is waited for, but nothing has been read either. */
Test(cuda_failure, a_driver_that_goes_during_a_read) {
    cuda_world w = start();
    float got[N];
    support_init();
    jit_var x = cuda_world_ramp(N);
    w.fail("cuEventSynchronize", 1, CUDA_ERROR_DEINITIALIZED);
    cr_assert_eq(jit_read(x, got), JIT_DEVICE_FAILED, "%s", jit_error());
    cr_assert(strstr(jit_error(), "CUDA_ERROR_DEINITIALIZED"), "%s", jit_error());
    jit_error_clear();
    ASSERT_OK(jit_sync_all_devices());
    jit_shutdown();
    jit_error_clear();
}

Test(cuda_failure, a_device_that_is_full) {
    enum { MEGABYTE = 1 << 20, COUNT = 64 };
    cuda_world w = cuda_world_simulated();
    jit_var v[COUNT];
    int count = 0;
    w.memory((uint64_t) 32 * MEGABYTE);
    support_init();
    while (count < COUNT && (v[count] = cuda_world_ramp(MEGABYTE / 4)) != 0)
        ++count;
    cr_assert(count > 4 && count <= 32, "%d MB", count);
    cr_assert_eq(jit_error_status(), JIT_OUT_OF_MEMORY, "%s", jit_error());
    cr_assert(strstr(jit_error(), "on device 0"), "%s", jit_error());
    jit_error_clear();
    jit_var sum = jit_add(v[0], v[1]);
    cr_assert_eq(jit_var_eval(sum), JIT_OUT_OF_MEMORY, "%s", jit_error());
    jit_error_clear();
    jit_unref(v[--count]);
    jit_unref(v[--count]);
    cuda_world_expect(sum, MEGABYTE / 4, 2, 0);
    while (count)
        jit_unref(v[--count]);
    jit_unref(sum);
    support_shutdown();
}
