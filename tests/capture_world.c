/* capture_world.c: what tests of captures have.  Layer: tests. */
#include "capture_world.h"
#include <stdlib.h>
#include <string.h>

static const char text[] = "KERNEL void add(unsigned *p, unsigned v) { ST(p, LD(p) + v); }\n"
                           "KERNEL void times(unsigned *p, unsigned v) { ST(p, LD(p) * v); }\n";
#define PTX(name, operation)                                                                       \
    ".visible .entry " name "(.param .u64 p, .param .u32 v) {\n"                                   \
    ".reg .u64 %a;\n.reg .u32 %x, %y;\n"                                                           \
    "ld.param.u64 %a, [p];\nld.param.u32 %y, [v];\nld.u32 %x, [%a];\n" operation                   \
    " %x, %x, %y;\nst.u32 [%a], %x;\nret;\n}\n"
static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n" PTX("add", "add.u32")
    PTX("times", "mul.lo.u32");

capture_world w;

char *capture_code(void) {
    return w.simulated ? client_compile(text, 90) : strdup(ptx);
}

void capture_start(void) {
    w.simulated = client_open_any();
    OK(cu.Init(0));
    OK(cu.PrimaryCtxRetain(&w.context, 0));
    OK(cu.CtxPushCurrent(w.context));
    char *code = capture_code();
    OK(cu.ModuleLoadData(&w.module, code, 0, NULL, NULL));
    free(code);
    w.add = client_function(w.module, "add");
    w.times = client_function(w.module, "times");
    w.p = client_alloc(64);
    OK(cu.MemsetD32(w.p, 0, 16));
    OK(cu.CtxSynchronize());
}

void capture_start_simulated(void) {
    capture_start();
    if (!w.simulated)
        cr_skip_test("this is no simulated driver");
}

void capture_finish(void) {
    OK(cu.MemFree(w.p));
    OK(cu.ModuleUnload(w.module));
    CUcontext context;
    OK(cu.CtxPopCurrent(&context));
    OK(cu.PrimaryCtxRelease(0));
    FAULTS(0, "");
    cr_assert(!w.simulated || cu.alive(NULL) == 0, "something is alive");
}

CUresult capture_launch(CUfunction f, unsigned v, CUstream stream) {
    void *params[] = {&w.p, &v};
    return cu.LaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

CUevent capture_event(void) {
    CUevent e;
    OK(cu.EventCreate(&e, CU_EVENT_DISABLE_TIMING));
    return e;
}

int capture_state(CUstream stream) {
    int status = UNKNOWN;
    OK(cu.StreamIsCapturing(stream, &status));
    return status;
}

int capture_set_mode(int mode) {
    OK(cu.ThreadExchangeCaptureMode(&mode));
    return mode;
}

void capture_end_broken(CUstream stream, CUresult expected) {
    CUgraph graph = (CUgraph) &w;
    GIVES(cu.StreamEndCapture(stream, &graph), expected);
    cr_assert_null(graph);
    cr_assert_eq(capture_state(stream), NONE);
}

CUgraphExec capture_end(CUstream stream) {
    CUgraph graph = NULL;
    CUgraphExec exec;
    OK(cu.StreamEndCapture(stream, &graph));
    cr_assert_not_null(graph);
    cr_assert_eq(capture_state(stream), NONE);
    OK(cu.GraphInstantiate(&exec, graph, 0));
    OK(cu.GraphDestroy(graph));
    return exec;
}
