/* test_cuda_module.c: the slots of the CUDA backend that load and launch: graphs of kernels, when
 * code is unloaded, and what fails. */
#include "cuda/module.h"
#include "cuda/text.h"
#include "cuda_slots.h"
#include "programs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cuda_module, .init = slots_start, .fini = slots_end);

/* ---- Graphs ---- */

static void run_chain(jitc_stream *s, jitc_kernel *const k[2], void *x, unsigned length,
                      uint32_t step) {
    for (unsigned i = 0; i < length; ++i)
        launch(s, k[i % 2], x, x, 1, step);
    ASSERT_OK(b->flush(s));
}

Test(cuda_module, chains_of_kernels_of_all_lengths) {
    jitc_stream *s = stream[0];
    jitc_kernel *const k[] = {make_kernel(0), make_kernel(0)};
    void *x = make_ramp(s);
    uint32_t sum = 0;
    for (unsigned round = 0; round < 3; ++round)
        for (unsigned length = 1; length < 140; length += 1 + length / 8) {
            run_chain(s, k, x, length, round + length);
            sum += length * (round + length);
        }
    expect(s, x, 1, sum);
    cr_assert(!w.calls || calls("cuGraphLaunch") > 0);
    b->kernel_destroy(b, k[0]), b->kernel_destroy(b, k[1]);
    release(x);
}

Test(cuda_module, a_graph_is_made_for_a_length_that_comes_again) {
    jitc_stream *s = stream[0];
    if (!w.calls)
        cr_skip_test("this wants the simulated driver");
    jitc_kernel *const k[] = {make_kernel(0), make_kernel(0)};
    void *x = make_ramp(s);
    uint64_t made = calls("cuGraphInstantiateWithFlags"), graphs = calls("cuGraphLaunch");
    uint64_t kernels = calls("cuLaunchKernel"), set = calls("cuGraphExecKernelNodeSetParams_v2");
    run_chain(s, k, x, 5, 1);
    cr_assert_eq(calls("cuGraphInstantiateWithFlags"), made);
    for (int i = 0; i < 10; ++i)
        run_chain(s, k, x, 5, 1);
    cr_assert_eq(calls("cuGraphInstantiateWithFlags"), made + 1);
    cr_assert_eq(calls("cuGraphLaunch"), graphs + 10);
    cr_assert_eq(calls("cuLaunchKernel"), kernels + 5);
    cr_assert_eq(calls("cuGraphExecKernelNodeSetParams_v2"), set, "nothing has changed");
    expect(s, x, 1, 55);
    run_chain(s, k, x, 5, 2);
    cr_assert_eq(calls("cuGraphExecKernelNodeSetParams_v2"), set + 5);
    expect(s, x, 1, 65);
    b->kernel_destroy(b, k[0]), b->kernel_destroy(b, k[1]);
    release(x);
}

/* Chains of one length that alternate become two graphs, and are set no more. */
Test(cuda_module, alternating_chains_are_two_graphs) {
    jitc_stream *s = stream[0];
    if (!w.calls)
        cr_skip_test("this wants the simulated driver");
    jitc_kernel *const k[] = {make_kernel(0), make_kernel(0)};
    void *x = make_ramp(s);
    for (unsigned i = 0; i < 40; ++i)
        run_chain(s, k, x, 3, 1 + i % 2);
    uint64_t made = calls("cuGraphInstantiateWithFlags");
    uint64_t set = calls("cuGraphExecKernelNodeSetParams_v2");
    for (unsigned i = 0; i < 40; ++i)
        run_chain(s, k, x, 3, 1 + i % 2);
    cr_assert_eq(calls("cuGraphInstantiateWithFlags"), made);
    cr_assert_eq(calls("cuGraphExecKernelNodeSetParams_v2"), set);
    expect(s, x, 1, 80 / 2 * 3 * (1 + 2));
    b->kernel_destroy(b, k[0]), b->kernel_destroy(b, k[1]);
    release(x);
}

static atomic_int warnings;

static void count_warnings(void *context, int level, const char *text) {
    (void) context, (void) level;
    cr_assert(strstr(text, "graphs do not work"), "%s", text);
    jitc_add_acq_rel(&warnings, 1);
}

/* Each function of graphs fails once, some of them in the middle of a chain. */
Test(cuda_module, without_graphs_kernels_go_one_by_one) {
    static const struct {
        const char *function;
        int call;
    } failures[] = {{"cuGraphCreate", 1},
                    {"cuGraphAddKernelNode_v2", 3},
                    {"cuGraphInstantiateWithFlags", 1},
                    {"cuGraphExecKernelNodeSetParams_v2", 3},
                    {"cuGraphLaunch", 1}};
    if (!w.fail)
        cr_skip_test("this wants the simulated driver");
    jit_set_log(count_warnings, NULL, 1);
    jitc_kernel *const k[] = {make_kernel(0), make_kernel(0)};
    for (int f = 0; f < (int) (sizeof failures / sizeof *failures); ++f) {
        jitc_stream *s = create_stream();
        void *x = make_ramp(s);
        for (int i = 0; i < 6; ++i) {
            if (i == 2)
                w.fail(failures[f].function, failures[f].call, CUDA_ERROR_NOT_SUPPORTED);
            run_chain(s, k, x, i < 4 ? 7 : 4, 1 + (unsigned) i % 2); /* nodes change */
        }
        w.fail(NULL, 0, 0);
        expect(s, x, 1, 7 * (1 + 2 + 1 + 2) + 4 * (1 + 2));
        cr_assert_eq(warnings, f + 1, "%s", failures[f].function);
        destroy_stream(s);
        release(x);
    }
    jit_set_log(NULL, NULL, 1);
    b->kernel_destroy(b, k[0]), b->kernel_destroy(b, k[1]);
}

/* ---- Modules ---- */

Test(cuda_module, code_is_unloaded_when_the_device_is_idle) {
    jitc_stream *s = stream[0], *t = stream[1];
    if (!w.calls)
        cr_skip_test("this wants the simulated driver");
    jitc_kernel *k = make_kernel(0), *other = make_kernel(1);
    void *x = make_ramp(s), *y = make_ramp(t);
    cr_assert_eq(calls("cuModuleLoadDataEx"), 2);
    ASSERT_OK(b->wait(s, launch(s, k, x, x, 2, 0)));
    b->kernel_destroy(b, k);
    uint64_t n = launch(t, other, y, y, 1, 1); /* held back */
    ASSERT_OK(b->wait(s, launch(s, other, x, x, 1, 1)));
    cr_assert_eq(calls("cuModuleUnload"), 0, "the other stream has work");
    ASSERT_OK(b->flush(t));
    while (!b->done(t, n))
        sched_yield();
    cr_assert_eq(calls("cuModuleUnload"), 0, "done() never waits");
    ASSERT_OK(b->wait(t, n));
    cr_assert_eq(calls("cuModuleUnload"), 1);
    b->kernel_destroy(b, other);
    release(x), release(y);
}

/* The code of another program, under the name of k. */
static jitc_blob compile_as(const jitc_kernel *k, const jitc_program *p) {
    const jitc_cuda_backend *cuda = jitc_cuda_backend_of(b);
    const jitc_cuda_device *d = &cuda->device[0];
    char name[32], *text;
    jitc_blob code;
    ASSERT_OK(jitc_cuda_text(p, jitc_cuda_layout_of(p, d->most_bytes), &text));
    snprintf(name, sizeof name, JITC_CUDA_NAME, (unsigned long long) jitc_cuda_name_of(p));
    char *found = strstr(text, name);
    cr_assert_not_null(found);
    snprintf(name, sizeof name, JITC_CUDA_NAME,
             (unsigned long long) ((const jitc_cuda_kernel *) k)->name);
    memcpy(found, name, strlen(name));
    ASSERT_OK(jitc_nvrtc_compile(cuda->nvrtc, text, d->arch, d->ptx, false, &code));
    free(text);
    return code;
}

Test(cuda_module, a_kernel_can_be_given_other_code) {
    jitc_stream *s = stream[0];
    jitc_kernel *k = make_kernel(0);
    jitc_program p = {0};
    uint64_t params[8];
    void *x = make_ramp(s), *y = alloc(4 * N);
    add_store(&p, JIT_u32, add_data(&p, JIT_u32, NULL, params), NULL, params);
    p.head.params = 4; /* as many as the kernel's */
    p.inst[1].b = 3;
    jitc_blob code = compile_as(k, &p);
    launch(s, k, y, x, 7, 7);
    ASSERT_OK(b->reload(b, k, &code));
    expect(s, y, 7, 7); /* the launch was before */
    launch(s, k, y, x, 7, 7);
    expect(s, y, 1, 0);
    b->kernel_destroy(b, k);
    free(code.data);
    jitc_program_finish(&p);
    release(x), release(y);
}

/* An evaluation may come down to nothing. */
Test(cuda_module, a_kernel_without_parameters_runs) {
    jitc_program p = {0};
    jitc_source *source;
    jitc_blob code;
    jitc_kernel *k;
    uint64_t number;
    jitc_launch_args a = {.lanes = N};
    ASSERT_OK(b->lower(b, 0, &p, &source));
    ASSERT_OK(b->compile(b, source, 2, &code));
    ASSERT_OK(b->load(b, 0, &p, &code, &k));
    ASSERT_OK(b->launch(stream[0], k, &a, &number));
    ASSERT_OK(b->wait(stream[0], number));
    free(code.data);
    b->source_destroy(b, source);
    b->kernel_destroy(b, k);
}

Test(cuda_module, code_that_is_none_is_refused) {
    static char zeros[100], text[] = "this is no code";
    const jitc_blob blobs[] = {{NULL, 0}, {zeros, sizeof zeros}, {text, sizeof text - 1}};
    jitc_program p = {0};
    jitc_kernel *k;
    for (size_t i = 0; i < sizeof blobs / sizeof *blobs; ++i) {
        cr_assert_eq(b->load(b, 0, &p, &blobs[i], &k), JIT_COMPILE_FAILED, "%s", jit_error());
        cr_assert(strstr(jit_error(), "cuModuleLoadData"), "%s", jit_error());
        jit_error_clear();
    }
}

/* ---- Failure ---- */

static void expect_error(jit_status status, const char *named) {
    cr_assert_eq(status, JIT_DEVICE_FAILED, "%s", jit_status_name(status));
    cr_assert(strstr(jit_error(), named), "\"%s\" is not in \"%s\"", named, jit_error());
    jit_error_clear();
}

Test(cuda_module, a_launch_that_fails_fails_the_device) {
    jitc_stream *s = stream[0], *t = stream[1];
    uint32_t got[N];
    uint64_t number;
    if (!w.fail)
        cr_skip_test("this wants the simulated driver");
    jitc_kernel *k = make_kernel(0);
    atomic_int count = 0;
    void *x = make_ramp(s), *y;
    be_slow(20000);
    launch(s, k, x, x, 1, 1);
    ASSERT_OK(b->call(s, be_counted, &count, &number));
    note(s, number);
    launch(s, k, x, x, 1, 1);
    uint64_t n = launch(s, k, x, x, 1, 1); /* two together for the first time: no graph */
    w.fail("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    expect_error(b->flush(s), "over 1000 lanes");
    expect_error(b->wait(s, n), "cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
    cr_assert_eq(count, 1, "what was called for before is called");
    expect_error(b->download(s, got, x, sizeof got), "cuLaunchKernel");
    expect_error(b->stream_wait(t, s, n), "cuLaunchKernel");
    expect_error(try_launch(t, k, x, x, 1, 1, &number), "cuLaunchKernel");
    expect_error(b->upload(t, x, got, sizeof got, &number), "cuLaunchKernel");
    expect_error(b->alloc(b, 0, 512, &y), "cuLaunchKernel");
    cr_assert(b->done(s, n));
    b->kernel_destroy(b, k);
    release(x);
}

/* Failures that are not of work: only the call fails. */
Test(cuda_module, calls_that_fail_leave_the_device_alone) {
    static const char *const functions[] = {
        "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuEventRecord",       "cuEventCreate",
        "cuEventSynchronize",   "cuEventQuery",         "cuCtxPushCurrent_v2", "cuMemHostAlloc"};
    if (!w.fail)
        cr_skip_test("this wants the simulated driver");
    jitc_kernel *k = make_kernel(0);
    for (size_t f = 0; f < sizeof functions / sizeof *functions; ++f) {
        jitc_stream *s = create_stream();
        void *x = make_ramp(s), *y = alloc(4 * N);
        uint32_t got[N];
        be_slow(1000);
        uint64_t n = launch(s, k, y, x, 2, 3);
        w.fail(functions[f], 1, CUDA_ERROR_UNKNOWN);
        bool done = b->done(s, n);
        jit_status status = b->download(s, got, y, sizeof got);
        cr_assert(status == JIT_OK || strncmp(functions[f], "cuMemcpy", 8) == 0 ||
                      strncmp(functions[f], "cuCtx", 5) == 0,
                  "%s: %s", functions[f], jit_error());
        jit_error_clear();
        cr_assert_not(done);
        w.fail(NULL, 0, 0);
        expect(s, y, 2, 3);
        destroy_stream(s);
        release(x), release(y);
    }
    b->kernel_destroy(b, k);
}

Test(cuda_module, a_context_that_is_reset_is_said_to_be_gone) {
    jitc_stream *s = stream[0];
    jitc_kernel *k = make_kernel(0);
    atomic_int count = 0;
    uint64_t number, n;
    void *x = make_ramp(s), *y;
    n = launch(s, k, x, x, 1, 1);
    ASSERT_OK(b->call(s, be_counted, &count, &number));
    note(s, number);
    cr_assert_eq(w.CtxReset(0), CUDA_SUCCESS);
    uint64_t later;
    if (try_launch(s, k, x, x, 1, 1, &later) == JIT_OK) /* it may only be held back */
        note(s, later);
    jit_error_clear();
    expect_error(b->flush(s), "context");
    expect_error(b->wait(s, number), "context");
    cr_assert_eq(count, 1);
    cr_assert(b->done(s, n));
    expect_error(b->alloc(b, 0, 512, &y), "context");
    b->kernel_destroy(b, k);
    release(x);
}
