/* test_cuda_fault.c: a kernel that fails is told by name, once and in full by the next that waits;
 * from then on the device fails with few words, and everything else goes on. */
#include "cuda_foreign.h"
#include <jit/cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 1000 };

static cuda_world w;
static foreign f;

static void start(void) {
    w = cuda_world_simulated();
    f = foreign_find();
    ASSERT_OK(jit_set_option("cache_disk", "0"));
    support_init();
}
static void end(void) {
    jit_error_clear();
    jit_shutdown();
    jit_error_clear();
    support_init(); /* and it works again */
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    cuda_world_expect(y, SIZE, 2, 0);
    jit_unref(x), jit_unref(y);
    jit_shutdown();
}
TestSuite(cuda_fault, .init = start, .fini = end);

/* ---- What fails ---- */

/* An array whose memory another library has given back: who reads it fails. */
static jit_var make_trap(void) {
    jit_var x = cuda_world_ramp(SIZE);
    void *address;
    ASSERT_OK(jit_data(x, &address));
    ASSERT_OK(jit_sync_thread());
    foreign_enter(0);
    cr_assert_eq(w.MemFree((CUdeviceptr) (uintptr_t) address), CUDA_SUCCESS);
    foreign_leave(0);
    return x;
}

static gate g;

/* The thread's work waits for foreign_open(&g): else a failure comes to light in between. */
static void hold_up(void) {
    CUstream s = jit_cuda_stream();
    foreign_enter(0);
    foreign_close(&g, s);
    foreign_leave(0);
}

/* The kernel of sqrt(x) + i. */
static jit_var make_kernel_of(jit_var x, int i) {
    jit_var c = jit_f32(JIT_CUDA, 0.5f + (float) i), y = jit_sqrt(x), z = y;
    for (int k = 0; k <= i; ++k) { /* scalars do not make another program, operations do */
        jit_var next = jit_add(z, c);
        jit_unref(z);
        z = next;
    }
    jit_unref(c);
    return z;
}

/* Its name, out of what JIT_DUMP prints when it is compiled. */
static void find_name(int i, char name[32]) {
    static char text[65536];
    jit_var x = cuda_world_ramp(SIZE), y = make_kernel_of(x, i);
    int saved = dup(2);
    FILE *file = tmpfile();
    ASSERT_OK(jit_set_option("dump", "g"));
    fflush(stderr);
    dup2(fileno(file), 2);
    jit_status status = jit_var_eval(y);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    ASSERT_OK(status);
    ASSERT_OK(jit_set_option("dump", ""));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *found = strstr(text, "KERNEL void ");
    cr_assert(found && sscanf(found, "KERNEL void %31[a-z0-9_]", name) == 1, "%s", text);
    cr_assert_eq(strlen(name), strlen("jitc_0123456789ab"), "%s", name);
    ASSERT_OK(jit_sync_thread());
    jit_unref(x), jit_unref(y);
}

/* ---- What is said ---- */

static void expect_text(const char *what, bool there) {
    cr_assert_eq(strstr(jit_error(), what) != NULL, there, "\"%s\" in \"%s\"", what, jit_error());
}

/* The first who waits hears all, the next ones little; other devices and the CPU go on. */
static void expect_failure(const char *name) {
    cr_assert_eq(jit_sync_thread(), JIT_DEVICE_FAILED);
    expect_text("cuda: device 0 has failed and is not used any more: ", true);
    expect_text("CUDA_ERROR_ILLEGAL_ADDRESS", true);
    expect_text(name, true);
    expect_text("instructions over 1000 lanes", true);
    jit_error_clear();
    for (int i = 0; i < 2; ++i) {
        cr_assert_eq(jit_sync_device(), JIT_DEVICE_FAILED);
        expect_text("cuda: device 0 has failed before (", true);
        expect_text(name, true);
        expect_text("instructions", false);
        jit_error_clear();
    }
    cr_assert_eq(jit_cuda_sync_stream((uintptr_t) JIT_STREAM_LEGACY), JIT_DEVICE_FAILED);
    expect_text("failed before", true);
    jit_error_clear();
    cuda_world_cpu_computes();
    ASSERT_OK(jit_set_device(JIT_CUDA, 1));
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    cuda_world_expect(y, SIZE, 2, 0);
    jit_unref(x), jit_unref(y);
}

Test(cuda_fault, the_kernel_is_named_once_and_in_short_later) {
    char name[32];
    find_name(0, name);
    jit_var x = make_trap(), y = make_kernel_of(x, 0);
    hold_up();
    ASSERT_OK(jit_var_eval(y));
    foreign_open(&g);
    expect_failure(name);
    expect_text("", true);
}

/* Only those that were not known to be done, each once; with many it is said that there are more.
 */
Test(cuda_fault, kernels_that_may_have_failed_are_listed) {
    enum { KERNELS = 7 };
    char name[KERNELS][32];
    jit_var good = cuda_world_ramp(SIZE);
    for (int i = 0; i < KERNELS; ++i)
        find_name(i, name[i]);
    jit_var over = make_kernel_of(good, 6);
    ASSERT_OK(jit_var_eval(over)); /* and done: not listed */
    jit_var x = make_trap();
    hold_up();
    for (int i = 0; i < 3; ++i)
        for (int twice = 0; twice < 2; ++twice)
            ASSERT_OK(jit_var_eval(make_kernel_of(i == 1 ? x : good, i)));
    foreign_open(&g);
    cr_assert_eq(jit_sync_thread(), JIT_DEVICE_FAILED);
    expect_text("one of these kernels: ", true);
    for (int i = 0; i < KERNELS; ++i) {
        expect_text(name[i], i < 3);
        const char *found = strstr(jit_error(), name[i]);
        cr_assert(!found || !strstr(found + 1, name[i]), "twice: %s", jit_error());
    }
    expect_text("or another", false);
    expect_text("the option cuda_sync_launch tells which", true);
}

Test(cuda_fault, many_kernels_are_not_all_listed) {
    enum { KERNELS = 6 };
    char name[32];
    for (int i = 0; i < KERNELS; ++i)
        find_name(i, name); /* loads it */
    jit_var good = cuda_world_ramp(SIZE), x = make_trap();
    hold_up();
    for (int i = 0; i < KERNELS; ++i)
        ASSERT_OK(jit_var_eval(make_kernel_of(i == 5 ? x : good, i)));
    foreign_open(&g);
    cr_assert_eq(jit_sync_thread(), JIT_DEVICE_FAILED);
    expect_text("or another", true);
    expect_text("the option cuda_sync_launch tells which)", true);
}

/* With the option the launch itself fails, and the kernel is the one. */
Test(cuda_fault, with_the_option_the_launch_tells) {
    char name[2][32];
    find_name(0, name[0]), find_name(1, name[1]);
    ASSERT_OK(jit_set_option("cuda_sync_launch", "1"));
    jit_var good = cuda_world_ramp(SIZE), x = make_trap();
    w.kernel_time_us(5000);
    ASSERT_OK(jit_var_eval(make_kernel_of(good, 0)));
    uint64_t calls = w.calls("cuEventSynchronize") + w.calls("cuStreamSynchronize");
    ASSERT_OK(jit_sync_thread());
    cr_assert_eq(w.calls("cuEventSynchronize") + w.calls("cuStreamSynchronize"), calls,
                 "it was waited for");
    cr_assert_eq(jit_var_eval(make_kernel_of(x, 1)), JIT_DEVICE_FAILED);
    expect_text("; kernel ", true);
    expect_text(name[1], true);
    expect_text(name[0], false);
    ASSERT_OK(jit_set_option("cuda_sync_launch", "0"));
}

/** The launch of kernel 1 fails while kernel 0 is not known to be done; `blamed` is named. */
static void fail_launch(CUresult result, const char *text, int blamed) {
    char name[2][32];
    find_name(0, name[0]), find_name(1, name[1]);
    jit_var x = cuda_world_ramp(SIZE);
    ASSERT_OK(jit_set_option("cuda_graphs", "0"));
    hold_up();
    ASSERT_OK(jit_var_eval(make_kernel_of(x, 0)));
    w.fail("cuLaunchKernel", 1, result);
    cr_assert_eq(jit_var_eval(make_kernel_of(x, 1)), JIT_DEVICE_FAILED);
    foreign_open(&g);
    expect_text(text, true);
    expect_text(name[blamed], true);
    expect_text(name[!blamed], false);
    ASSERT_OK(jit_set_option("cuda_graphs", "1"));
}

/* The driver tells of a failure when the next kernel is launched: it was an earlier one. */
Test(cuda_fault, a_launch_that_hears_of_an_earlier_failure_is_not_blamed) {
    fail_launch(CUDA_ERROR_ILLEGAL_ADDRESS, "cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS", 0);
}

/* But what is wrong with the launch itself is. */
Test(cuda_fault, a_launch_that_fails_is_blamed) {
    fail_launch(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "at the launch of kernel ", 1);
}

/* Another thread's kernel fails: whoever hears of it first names it. */
static void *fail_in_thread(void *x) {
    jit_var_eval(make_kernel_of(*(jit_var *) x, 0));
    return NULL;
}
Test(cuda_fault, kernels_of_all_streams_are_suspects) {
    char name[32];
    pthread_t thread;
    find_name(0, name);
    jit_var x = make_trap();
    cr_assert_eq(pthread_create(&thread, NULL, fail_in_thread, &x), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(jit_sync_device(), JIT_DEVICE_FAILED);
    expect_text(name, true);
}

/* Not one of ours. */
Test(cuda_fault, a_kernel_of_another_library_is_not_taken_for_ours) {
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    cuda_world_expect(y, SIZE, 2, 0);
    w.fail("cuMemcpyHtoDAsync_v2", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    cr_assert_eq(cuda_world_ramp(SIZE), 0);
    cr_assert_eq(jit_error_status(), JIT_DEVICE_FAILED);
    expect_text("no kernel of this library was running", true);
    jit_error_clear();
    cr_assert_eq(jit_sync_device(), JIT_DEVICE_FAILED);
    expect_text("by a kernel of another library", true);
}
