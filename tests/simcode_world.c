/* simcode_world.c: kernels written by hand on the driver under test. */
#include "simcode_world.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct program program;
/* The entry points that are used, by the names of the libraries. */
#define DRIVER(X)                                                                                  \
    X(cuInit, (unsigned) )                                                                         \
    X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                           \
    X(cuDevicePrimaryCtxReset_v2, (CUdevice))                                                      \
    X(cuCtxSetCurrent, (CUcontext))                                                                \
    X(cuCtxSynchronize, (void) )                                                                   \
    X(cuDeviceGetAttribute, (int *, int, CUdevice))                                                \
    X(cuMemAlloc_v2, (CUdeviceptr *, size_t) )                                                     \
    X(cuMemFree_v2, (CUdeviceptr))                                                                 \
    X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t) )                                       \
    X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t) )                                             \
    X(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t) )                                        \
    X(cuModuleLoadData, (CUmodule *, const void *) )                                               \
    X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *) )                                \
    X(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,     \
                       unsigned, CUstream, void **, void **) )
#define COMPILER(X)                                                                                \
    X(nvrtcCreateProgram,                                                                          \
      (program **, const char *, const char *, int, const char *const *, const char *const *) )    \
    X(nvrtcCompileProgram, (program *, int, const char *const *) )                                 \
    X(nvrtcDestroyProgram, (program **) )                                                          \
    X(nvrtcGetProgramLogSize, (program *, size_t *) )                                              \
    X(nvrtcGetProgramLog, (program *, char *) )                                                    \
    X(nvrtcGetCUBINSize, (program *, size_t *) )                                                   \
    X(nvrtcGetCUBIN, (program *, char *) )

#define MEMBER(name, parameters) int(*name) parameters;
typedef struct compiler {
    void *library;
    COMPILER(MEMBER)
} compiler;
static struct {
    void *driver;
    char arch[40];
    unsigned faults;
    DRIVER(MEMBER)
    compiler compiler, real;
} world; /* a test has a process of its own */
#undef MEMBER

const char simcode_head[] = "#ifdef __CUDACC_RTC__\n"
                            "#define KERNEL extern \"C\" __global__\n"
                            "#define DEV static __device__ __forceinline__\n"
                            "#define LD(p) (*(p))\n"
                            "#define ST(p, v) ((void) (*(p) = (v)))\n"
                            "#define SHARED(T, name, n) __shared__ T name[n]\n"
                            "#endif\n"
                            "typedef unsigned char u8;\n"
                            "typedef unsigned short u16;\n"
                            "typedef unsigned int u32;\n"
                            "typedef unsigned long long u64;\n"
                            "typedef long long i64;\n"
                            "#line 1 \"test\"\n";

#define MUST(call)                                                                                 \
    do {                                                                                           \
        int result_ = (call);                                                                      \
        cr_assert_eq(result_, 0, "%s: %d", #call, result_);                                        \
    } while (0)

/* What a variable names; else one of `names`, which are the real ones. */
static void *open_library(const char *variable, const char *const *names) {
    const char *path = getenv(variable);
    if (path && *path) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        cr_assert(library, "%s: %s", path, dlerror());
        return library;
    }
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library) {
            return library;
        }
    }
    cr_skip_test("no library in %s", variable);
    return NULL;
}

void *simcode_symbol(const char *name) {
    bool nvrtc = strncmp(name, "nvrtc", 5) == 0;
    return dlsym(nvrtc ? world.compiler.library : world.driver, name);
}

static void find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    cr_assert(symbol, "%s is not in the library", name);
    memcpy(function, &symbol, sizeof symbol);
}

static void open_compiler(const char *variable, compiler *c) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
    c->library = open_library(variable, names);
#define FIND(name, parameters) find(c->library, #name, &c->name);
    COMPILER(FIND)
#undef FIND
}

void simcode_reset(void) {
    CUcontext context;
    MUST(world.cuDevicePrimaryCtxReset_v2(0));
    MUST(world.cuDevicePrimaryCtxRetain(&context, 0));
    MUST(world.cuCtxSetCurrent(context));
}

void simcode_open(void) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    const char *cc = getenv("SIMCUDA_CC");
    if (cc && strcmp(cc, "gcc") == 0 && system("command -v gcc >/dev/null") != 0) {
        cr_skip_test("gcc, which should compile the kernels, is not there");
    }
    world.driver = open_library("JITC_LIBCUDA", names);
#define FIND(name, parameters) find(world.driver, #name, &world.name);
    DRIVER(FIND)
#undef FIND
    open_compiler("JITC_LIBNVRTC", &world.compiler);
    MUST(world.cuInit(0));
    CUcontext context;
    int major, minor;
    MUST(world.cuDevicePrimaryCtxRetain(&context, 0));
    MUST(world.cuCtxSetCurrent(context));
    MUST(world.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    MUST(world.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
    snprintf(world.arch, sizeof world.arch, "--gpu-architecture=sm_%d%d", major, minor);
}

void simcode_open_simulated(void) {
    simcode_open();
    if (!simcode_symbol("simcuda_seed")) {
        cr_skip_test("this is about the simulated driver");
    }
}

void simcode_seed(uint64_t seed) {
    void *symbol = simcode_symbol("simcuda_seed");
    void (*set)(uint64_t);
    memcpy(&set, &symbol, sizeof set);
    if (set) {
        set(seed);
    }
}

static char *cubin_of(const compiler *c, program *p) {
    size_t bytes;
    MUST(c->nvrtcGetCUBINSize(p, &bytes));
    char *cubin = malloc(bytes);
    MUST(c->nvrtcGetCUBIN(p, cubin));
    return cubin;
}

static char *compile_by(const compiler *c, const char *text, char **log) {
    program *p;
    char *whole, *cubin = NULL;
    size_t bytes;
    cr_assert(asprintf(&whole, "%s%s", simcode_head, text) > 0);
    const char *const options[] = {world.arch, "--fmad=false"};
    MUST(c->nvrtcCreateProgram(&p, whole, "test", 0, NULL, NULL));
    int result = c->nvrtcCompileProgram(p, 2, options);
    MUST(c->nvrtcGetProgramLogSize(p, &bytes));
    *log = malloc(bytes);
    MUST(c->nvrtcGetProgramLog(p, *log));
    if (result == 0) {
        cubin = cubin_of(c, p);
        free(*log);
        *log = NULL;
    }
    MUST(c->nvrtcDestroyProgram(&p));
    free(whole);
    return cubin;
}

char *simcode_compile(const char *text, char **log) {
    return compile_by(&world.compiler, text, log);
}

/* Where the real compiler is, it has to take the text, too. */
static void check_is_cuda(const char *text) {
    const char *path = getenv("JITC_TEST_NVRTC");
    if (!path || !*path) {
        return;
    }
    if (!world.real.library) {
        open_compiler("JITC_TEST_NVRTC", &world.real);
    }
    char *log;
    char *cubin = compile_by(&world.real, text, &log);
    cr_assert(cubin, "%s", log);
    free(cubin);
}

CUfunction simcode_function(const char *text, const char *name) {
    char *log;
    char *cubin = simcode_compile(text, &log);
    cr_assert(cubin, "%s", log);
    check_is_cuda(text);
    CUmodule module;
    CUfunction function;
    MUST(world.cuModuleLoadData(&module, cubin));
    MUST(world.cuModuleGetFunction(&function, module, name));
    free(cubin);
    return function;
}

CUdeviceptr simcode_upload(const void *from, size_t bytes) {
    CUdeviceptr p;
    MUST(world.cuMemAlloc_v2(&p, bytes));
    MUST(from ? world.cuMemcpyHtoD_v2(p, from, bytes) : world.cuMemsetD8_v2(p, 0, bytes));
    return p;
}

void simcode_download(void *to, CUdeviceptr from, size_t bytes) {
    MUST(world.cuMemcpyDtoH_v2(to, from, bytes));
}

void simcode_free(CUdeviceptr p) {
    MUST(world.cuMemFree_v2(p));
}

CUresult simcode_run(CUfunction f, unsigned blocks, unsigned threads, void **arguments) {
    MUST(world.cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL));
    return world.cuCtxSynchronize();
}

const char *simcode_faults(unsigned *count) {
    void *symbols[] = {simcode_symbol("simcuda_faults"), simcode_symbol("simcuda_fault_text")};
    unsigned (*faults)(void);
    const char *(*text)(void);
    memcpy(&faults, &symbols[0], sizeof faults);
    memcpy(&text, &symbols[1], sizeof text);
    if (!faults) {
        *count = 0;
        return "";
    }
    *count = faults() - world.faults;
    world.faults = faults();
    return text();
}
