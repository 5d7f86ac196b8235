/* test_cuda_absence.c: what is needed for CUDA is not there. jit_init() says what is missing, and
 * the CPU backend is not disturbed. */
#include "cuda_world.h"
#include <stdlib.h>
#include <string.h>

/* The backend cannot be started; the text names what is missing. */
static void expect_absent(const char *named) {
    cr_assert_eq(jit_init(JIT_CUDA), JIT_UNAVAILABLE, "%s", jit_error());
    cr_assert(strstr(jit_error(), named), "\"%s\" is not in \"%s\"", named, jit_error());
    cr_assert_not(jit_has_backend(JIT_CUDA));
    cr_assert_eq(jit_device_count(JIT_CUDA), 0);
    jit_error_clear();
    if (!support_is_built(JIT_LLVM))
        return;
    ASSERT_OK(jit_init(JIT_CUDA | JIT_LLVM));
    cr_assert_str_empty(jit_error());
    cr_assert_not(jit_has_backend(JIT_CUDA));
    cr_assert(jit_has_backend(JIT_LLVM));
    cuda_world_cpu_computes();
    cr_assert_eq(jit_f32(JIT_CUDA, 1), 0);
    cr_assert_eq(jit_error_status(), JIT_UNAVAILABLE, "%s", jit_error());
    jit_error_clear();
    jit_shutdown();
}

/* What was missing is there now. */
static void expect_present(void) {
    support_init();
    jit_var a = cuda_world_ramp(100), b = jit_add(a, a);
    cuda_world_expect(b, 100, 2, 0);
    jit_unref(a);
    jit_unref(b);
    support_shutdown();
}

static void set(const char *option, const char *value) {
    ASSERT_OK(jit_set_option(option, value));
}

Test(cuda_absence, no_driver) {
    char before[1024];
    cuda_world_find();
    ASSERT_OK(jit_get_option("cuda_driver", before, sizeof before));
    set("cuda_driver", "/nonexistent/libcuda.so.1");
    expect_absent("/nonexistent/libcuda.so.1");
    set("cuda_driver", before);
    expect_present();
}

/* A library that is none of CUDA; CMake makes one that has cuInit only. */
Test(cuda_absence, a_driver_without_a_function) {
    const char *path = getenv("JITC_TEST_POOR_DRIVER");
    char before[1024];
    cuda_world_find();
    if (!path)
        support_skip("JITC_TEST_POOR_DRIVER is not set");
    ASSERT_OK(jit_get_option("cuda_driver", before, sizeof before));
    set("cuda_driver", path);
    expect_absent("cuDriverGetVersion");
    set("cuda_driver", before);
    expect_present();
}

Test(cuda_absence, no_compiler) {
    char before[1024];
    cuda_world_find();
    expect_present(); /* the driver, that is */
    ASSERT_OK(jit_get_option("cuda_nvrtc", before, sizeof before));
    set("cuda_nvrtc", "/nonexistent/libnvrtc.so");
    expect_absent("/nonexistent/libnvrtc.so");
    set("cuda_nvrtc", before);
    expect_present();
}

Test(cuda_absence, a_compiler_without_a_function) {
    const char *path = getenv("JITC_TEST_POOR_DRIVER");
    char before[1024];
    cuda_world_find();
    expect_present(); /* the driver, that is */
    if (!path)
        support_skip("JITC_TEST_POOR_DRIVER is not set");
    ASSERT_OK(jit_get_option("cuda_nvrtc", before, sizeof before));
    set("cuda_nvrtc", path);
    expect_absent("nvrtc");
    set("cuda_nvrtc", before);
    expect_present();
}

Test(cuda_absence, a_driver_that_does_not_start) {
    cuda_world w = cuda_world_simulated();
    w.fail("cuInit", 1, CUDA_ERROR_UNKNOWN);
    cr_assert_eq(jit_init(JIT_CUDA), JIT_UNAVAILABLE, "%s", jit_error());
    cr_assert(strstr(jit_error(), "cuInit"), "%s", jit_error());
    jit_error_clear();
    cuda_world_cpu_computes();
    expect_present();
}

/* The simulated driver reads its environment when the first function is called. */
Test(cuda_absence, a_driver_that_is_too_old) {
    cuda_world_simulated();
    setenv("SIMCUDA_VERSION", "11000", 1);
    expect_absent("CUDA 11.0");
}

Test(cuda_absence, no_device) {
    cuda_world_simulated();
    setenv("SIMCUDA_DEVICES", "0", 1);
    expect_absent("device");
}

/* The newest compiler does not know the oldest devices any more. */
Test(cuda_absence, a_device_that_is_too_old) {
    cuda_world_simulated();
    setenv("SIMCUDA_CAPABILITY", "35", 1);
    jit_status status = jit_init(JIT_CUDA);
    if (status == JIT_OK) {
        cr_assert_eq(cuda_world_ramp(3), 0);
        status = jit_error_status();
        jit_shutdown();
    }
    cr_assert_eq(status, JIT_UNAVAILABLE, "%s", jit_error());
    cr_assert(strstr(jit_error(), "3.5") || strstr(jit_error(), "35"), "%s", jit_error());
    jit_error_clear();
    cuda_world_cpu_computes();
}
