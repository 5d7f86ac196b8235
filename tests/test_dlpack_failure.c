/* test_dlpack_failure.c: an export that fails half-way, on the simulated driver: nothing is left
 * behind, and the next one works. */
#include "cuda_world.h"
#include "dlpack_world.h"
#include "lend_world.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 1000, BYTES = 1 << 20 };

static cuda_world w;

static void start(void) {
    w = cuda_world_simulated();
    support_init();
    ASSERT_OK(jit_set_option("memory_spare", "0"));
}
TestSuite(dlpack_failure, .init = start, .fini = support_shutdown, .timeout = 60);

/* A stream of somebody else. */
static CUstream make_stream(void) {
    CUresult (*create)(CUstream *, unsigned) = NULL;
    CUstream s = NULL;
    void *function = support_driver("cuStreamCreate");
    memcpy(&create, &function, sizeof create);
    w.CtxPushCurrent(jit_cuda_context());
    cr_assert_eq(create(&s, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    w.CtxPopCurrent(&(CUcontext) {NULL});
    return s;
}

static void end_stream(CUstream s) {
    CUresult (*destroy)(CUstream) = NULL;
    void *function = support_driver("cuStreamDestroy_v2");
    memcpy(&destroy, &function, sizeof destroy);
    w.CtxPushCurrent(jit_cuda_context());
    cr_assert_eq(destroy(s), CUDA_SUCCESS);
    w.CtxPopCurrent(&(CUcontext) {NULL});
}

static void expect_works(jit_var v, const jit_export_options *o) {
    tensor t = dlpack_export(v, false, o);
    uint64_t *bits = dlpack_read(&t, SIZE);
    for (size_t i = 0; i < SIZE; ++i)
        cr_assert_eq(bits[i], i + 1);
    free(bits);
    dlpack_delete(&t);
}

/* An expression, so that there is something to wait for. */
static jit_var make(void) {
    jit_var x = dlpack_ramp(SIZE, 0), one = jit_u32(JIT_CUDA, 1), v = jit_add(x, one);
    jit_unref(x), jit_unref(one);
    return v;
}

/* `nth`: which call of it fails. */
static void check_failure(const char *call, int nth, int copy, jit_status status) {
    CUstream s = make_stream();
    jit_var v = make();
    DLManagedTensorVersioned *t = (void *) &t;
    ASSERT_OK(jit_var_eval(v));
    jit_stats before = dlpack_stats();
    const jit_export_options *o = EXPORT_ON((intptr_t) s, .copy = copy);
    w.fail(call, nth, CUDA_ERROR_INVALID_HANDLE);
    jit_status got = jit_export_dlpack(v, o, &t);
    w.fail(NULL, 0, 0);
    cr_assert_eq(got, status, "%s fails: %s: %s", call, jit_status_name(got), jit_error());
    cr_assert_null(t);
    jit_error_clear();
    ASSERT_OK(jit_sync_thread());
    jit_stats after = dlpack_stats();
    cr_assert_eq(after.bytes_live, before.bytes_live, "%s fails: %zu bytes are left", call,
                 after.bytes_live - before.bytes_live);
    cr_assert_eq(after.variables, before.variables);
    cr_assert_eq(lend_pending(), 0);
    expect_works(v, o);
    jit_unref(v);
    end_stream(s);
    jit_shutdown(); /* what is pending for the stream */
    support_init();
    ASSERT_OK(jit_set_option("memory_spare", "0"));
}

/* In a thread of its own, as the leak checker is told to overlook what is called by Criterion. */
static void in_thread(void *(*function)(void *) ) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, function, NULL), 0);
    pthread_join(thread, NULL);
}

static void *fail_streams(void *context) {
    for (int copy = 0; copy <= JIT_COPY_ALWAYS; ++copy) {
        check_failure("cuStreamWaitEvent", 1, copy, JIT_INVALID_ARGUMENT);
        check_failure("cuStreamIsCapturing", 2, copy, JIT_INVALID_ARGUMENT); /* 1: its number */
    }
    return context;
}

Test(dlpack_failure, a_stream_that_cannot_be_told_to_wait) {
    in_thread(fail_streams);
}

static void check_no_memory(jit_var v, size_t taken, const jit_export_options *o) {
    DLManagedTensorVersioned *t = (void *) &t;
    jit_stats before = dlpack_stats();
    w.memory(taken);
    cr_assert_eq(jit_export_dlpack(v, o, &t), JIT_OUT_OF_MEMORY, "%s", jit_error());
    w.memory(0);
    cr_assert_null(t);
    jit_error_clear();
    jit_stats after = dlpack_stats();
    cr_assert_eq(after.bytes_live, before.bytes_live);
    cr_assert_eq(after.variables, before.variables);
}

static void *fail_copies(void *context) {
    jit_var large = jit_counter(JIT_CUDA, 16 * BYTES), v = dlpack_ramp(BYTES, 0);
    ASSERT_OK(jit_sync_thread());
    ASSERT_OK(jit_trim());
    check_no_memory(v, 5 * BYTES, EXPORT_WITH(.copy = JIT_COPY_ALWAYS));
    check_no_memory(large, 5 * BYTES, NULL);
    check_no_memory(large, 5 * BYTES, EXPORT_WITH(.device_type = kDLCPU));
    tensor t = dlpack_export(v, false, EXPORT_WITH(.copy = JIT_COPY_ALWAYS));
    tensor u = dlpack_export(large, false, NULL);
    dlpack_delete(&t);
    dlpack_delete(&u);
    jit_unref(large), jit_unref(v);
    return context;
}

Test(dlpack_failure, no_memory_for_a_copy) {
    in_thread(fail_copies);
}

static void *fail_download(void *context) {
    DLManagedTensorVersioned *t = (void *) &t;
    jit_var v = make();
    ASSERT_OK(jit_var_eval(v));
    jit_stats before = dlpack_stats();
    w.fail("cuMemcpyDtoHAsync_v2", 1, CUDA_ERROR_UNKNOWN);
    jit_status status = jit_export_dlpack(v, EXPORT_WITH(.device_type = kDLCPU), &t);
    w.fail(NULL, 0, 0);
    cr_assert_eq(status, JIT_DEVICE_FAILED, "%s: %s", jit_status_name(status), jit_error());
    cr_assert_null(t);
    jit_error_clear();
    cr_assert_eq(dlpack_stats().bytes_live, before.bytes_live);
    jit_unref(v);
    return context;
}

Test(dlpack_failure, a_copy_to_the_cpu_that_fails) {
    in_thread(fail_download);
}

Test(dlpack_failure, an_expression_that_cannot_be_evaluated) {
    jit_var large = jit_counter(JIT_CUDA, 16 * BYTES), sum = jit_add(large, large);
    check_no_memory(sum, 5 * BYTES, NULL);
    jit_unref(large), jit_unref(sum);
}
