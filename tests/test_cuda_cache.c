/* test_cuda_cache.c: compiled kernels on disk, and compilations side by side. The processes that
 * come after another are this program itself. */
#include "cuda_world.h"
#include "folder.h"
#include <dlfcn.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KERNELS = 4 };

/* KERNELS kernels in one evaluation, each of another size and program. */
static jit_status evaluate_kernels(void) {
    jit_status status = JIT_OK;
    jit_scope_push();
    for (size_t k = 0; k < KERNELS && status == JIT_OK; ++k) {
        jit_var v = cuda_world_ramp(10 + k);
        for (size_t i = 0; i <= k; ++i)
            v = jit_add(v, v);
        status = jit_schedule(v);
    }
    if (status == JIT_OK)
        status = jit_eval();
    if (status == JIT_OK)
        status = jit_sync_all_devices();
    jit_scope_pop(0, NULL);
    return status;
}

/* The child: exit status 100 + kernels compiled, or 1. */
__attribute__((constructor)) static void be_a_child(void) {
    jit_stats s;
    if (!getenv("JITC_TEST_CUDA_CACHE"))
        return;
    if (jit_init(JIT_CUDA) != JIT_OK || evaluate_kernels() != JIT_OK ||
        jit_get_stats(&s) != JIT_OK || s.kernels_compiled + s.disk_hits != KERNELS) {
        fprintf(stderr, "the child: %s\n", jit_error());
        exit(1);
    }
    jit_shutdown();
    exit(100 + (int) s.kernels_compiled);
}

extern char **environ;

/* How many kernels a further process compiles; `setting`: an environment variable of it. */
static int compiled_by_child(const char *setting, const char *value) {
    char *arguments[] = {"test_cuda_cache", NULL};
    pid_t child;
    int status = -1;
    setenv("JITC_TEST_CUDA_CACHE", "1", 1);
    if (setting)
        setenv(setting, value, 1);
    cr_assert_eq(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    if (setting)
        unsetenv(setting);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) >= 100, "status %x", (unsigned) status);
    return WEXITSTATUS(status) - 100;
}

static char folder[256];

static void start(void) {
    cuda_world_find();
    support_init(); /* skips the test where there is no CUDA */
    jit_shutdown();
    folder_make(folder);
    setenv("JITC_CACHE_DIR", folder, 1);
}
static void end(void) {
    folder_remove(folder);
}
TestSuite(cuda_cache, .init = start, .fini = end);

Test(cuda_cache, a_second_process_compiles_nothing) {
    cr_assert_eq(compiled_by_child(NULL, NULL), KERNELS);
    cr_assert_eq(compiled_by_child(NULL, NULL), 0);
    cr_assert_eq(compiled_by_child("JITC_CACHE_DISK", "0"), KERNELS);
}

static void damage(const char *path, void *context) {
    FILE *file = fopen(path, "r+");
    (void) context;
    cr_assert_not_null(file);
    fseek(file, -20, SEEK_END);
    fputs("damage", file);
    fclose(file);
}
static void cut(const char *path, void *context) {
    struct stat s;
    (void) context;
    cr_assert(!stat(path, &s) && !truncate(path, s.st_size / 2));
}

Test(cuda_cache, damaged_files_are_compiled_anew) {
    compiled_by_child(NULL, NULL);
    folder_each(folder, damage, NULL);
    cr_assert_eq(compiled_by_child(NULL, NULL), KERNELS);
    folder_each(folder, cut, NULL);
    cr_assert_eq(compiled_by_child(NULL, NULL), KERNELS);
    cr_assert_eq(compiled_by_child(NULL, NULL), 0);
}

Test(cuda_cache, another_driver_compiler_or_device_is_a_miss) {
    static const char *const settings[][2] = {{"SIMCUDA_VERSION", "12040"},
                                              {"SIMCUDA_NVRTC_VERSION", "12.6"},
                                              {"SIMCUDA_CAPABILITY", "80"}};
    cuda_world_simulated();
    cr_assert_eq(compiled_by_child(NULL, NULL), KERNELS);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; ++i) {
        const char *const *s = settings[i];
        cr_assert_eq(compiled_by_child(s[0], s[1]), KERNELS, "%s=%s", s[0], s[1]);
        cr_assert_eq(compiled_by_child(s[0], s[1]), 0, "%s=%s", s[0], s[1]);
    }
    cr_assert_eq(compiled_by_child(NULL, NULL), 0, "the first ones are still there");
}

/* CMake makes a library that lets compilations wait for each other. */
Test(cuda_cache, kernels_of_one_evaluation_compile_side_by_side, .timeout = 120) {
    const char *meeting = getenv("JITC_TEST_MEETING_NVRTC"), *nvrtc = getenv("JITC_LIBNVRTC");
    int (*most)(void);
    if (!meeting || !nvrtc)
        support_skip("JITC_TEST_MEETING_NVRTC or JITC_LIBNVRTC is not set");
    setenv("JITC_TEST_NVRTC", nvrtc, 1);
    ASSERT_OK(jit_set_option("cuda_nvrtc", meeting));
    ASSERT_OK(jit_set_option("cache_disk", "0"));
    support_init();
    ASSERT_OK(evaluate_kernels());
    *(void **) &most = dlsym(dlopen(meeting, RTLD_NOW), "meeting_nvrtc_most");
    cr_assert_geq(most(), 2);
    support_shutdown();
}
