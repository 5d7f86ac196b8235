/* simcuda_client.c: the simulated driver as its tests use it.  Layer: tests. */
#include "simcuda_client.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

client cu;

static void *symbol(const char *name) {
    void *found = dlsym(cu.library, name);
    cr_assert(found, "the library has no %s", name);
    return found;
}

static unsigned no_faults(void) {
    return 0;
}
static const char *no_text(void) {
    return "";
}

bool client_open_any(void) {
    const char *path = getenv("JITC_LIBCUDA");
    cu.library = dlopen(path && *path ? path : SIMCUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!cu.library)
        cr_skip_test("there is no driver here");
#define FIND(name, symbol_name) *(void **) &cu.name = symbol(symbol_name)
/* A real driver need not have those of all versions. */
#define FUNCTION(name, symbol_name, parameters)                                                    \
    *(void **) &cu.name = dlsym(cu.library, symbol_name);
#include "simcuda_client.def"
    cu.faults = no_faults;
    cu.fault_text = no_text;
    if (!dlsym(cu.library, "simcuda_seed"))
        return false;
#define FUNCTION(name, symbol_name, parameters) symbol(symbol_name);
#include "simcuda_client.def"
    FIND(seed, "simcuda_seed");
    FIND(fail, "simcuda_fail");
    FIND(calls, "simcuda_calls");
    FIND(faults, "simcuda_faults");
    FIND(fault_text, "simcuda_fault_text");
    FIND(alive, "simcuda_alive");
    FIND(memory, "simcuda_memory");
    FIND(kernel_time_us, "simcuda_kernel_time_us");
    FIND(order, "simcuda_order");
    FIND(order_strict, "simcuda_order_strict");
    FIND(races, "simcuda_races");
    FIND(reuse, "simcuda_reuse");
#undef FIND
    return true;
}

void client_open(void) {
    if (!client_open_any())
        cr_skip_test("there is no simulated driver here");
}

CUcontext client_start(void) {
    CUcontext context;
    client_open();
    OK(cu.Init(0));
    OK(cu.PrimaryCtxRetain(&context, 0));
    OK(cu.CtxPushCurrent(context));
    return context;
}

void client_end(void) {
    CUcontext context;
    OK(cu.CtxPopCurrent(&context));
    OK(cu.PrimaryCtxRelease(0));
    FAULTS(0, "");
    cr_assert_eq(cu.alive(NULL), 0, "something is alive");
}

CUdeviceptr client_alloc(size_t bytes) {
    CUdeviceptr pointer = 0;
    OK(cu.MemAlloc(&pointer, bytes));
    return pointer;
}

CUstream client_stream(unsigned flags) {
    CUstream stream;
    OK(cu.StreamCreate(&stream, flags));
    return stream;
}

unsigned client_word(CUdeviceptr from) {
    unsigned word = 0;
    OK(cu.CtxSynchronize());
    OK(cu.MemcpyDtoH(&word, from, sizeof word));
    return word;
}

char *client_compile(const char *text, int arch) {
    typedef struct nvrtc_program *program;
    int (*create)(program *, const char *, const char *, int, const char **, const char **);
    int (*compile)(program, int, const char *const *), (*destroy)(program *);
    int (*size)(program, size_t *), (*get)(program, char *);
    int (*log_size)(program, size_t *), (*get_log)(program, char *);
    *(void **) &create = symbol("nvrtcCreateProgram");
    *(void **) &compile = symbol("nvrtcCompileProgram");
    *(void **) &destroy = symbol("nvrtcDestroyProgram");
    *(void **) &size = symbol("nvrtcGetCUBINSize");
    *(void **) &get = symbol("nvrtcGetCUBIN");
    *(void **) &log_size = symbol("nvrtcGetProgramLogSize");
    *(void **) &get_log = symbol("nvrtcGetProgramLog");

    program p;
    char option[40], log[4096] = "";
    const char *options[] = {option};
    size_t bytes;
    snprintf(option, sizeof option, "--gpu-architecture=sm_%d", arch);
    OK(create(&p, text, "test.cu", 0, NULL, NULL));
    int result = compile(p, 1, options);
    if (result && log_size(p, &bytes) == 0 && bytes < sizeof log)
        get_log(p, log);
    cr_assert_eq(result, 0, "nvrtcCompileProgram is %d: %s", result, log);
    OK(size(p, &bytes));
    char *code = malloc(bytes);
    OK(get(p, code));
    OK(destroy(&p));
    return code;
}

CUmodule client_load(const char *text) {
    CUmodule module;
    char *code = client_compile(text, 90);
    OK(cu.ModuleLoadData(&module, code, 0, NULL, NULL));
    free(code);
    return module;
}

CUfunction client_function(CUmodule module, const char *name) {
    CUfunction function;
    OK(cu.ModuleGetFunction(&function, module, name));
    return function;
}

static void wait_for_gate(void *argument) {
    gate *g = argument;
    sem_wait(&g->open);
}

void gate_close(gate *g, CUstream stream) {
    sem_init(&g->open, 0, 0);
    OK(cu.LaunchHostFunc(stream, wait_for_gate, g));
}

void gate_open(gate *g) {
    sem_post(&g->open);
}
