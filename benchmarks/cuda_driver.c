/* cuda_driver.c: see cuda_driver.h.
 * Layer: benchmarks. May include: nothing of the library. */
#include "cuda_driver.h"
#include "bench.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* X(field, symbol, arguments); a program is a pointer that nobody looks into. */
#define NVRTC_CALLS(X)                                                                             \
    X(version, "nvrtcVersion", (int *major, int *minor))                                           \
    X(create, "nvrtcCreateProgram",                                                                \
      (void **program, const char *text, const char *name, int headers, const char *const *header, \
       const char *const *header_name))                                                            \
    X(destroy, "nvrtcDestroyProgram", (void **program))                                            \
    X(compile, "nvrtcCompileProgram", (void *program, int options, const char *const *option))     \
    X(log_size, "nvrtcGetProgramLogSize", (void *program, size_t *size))                           \
    X(log, "nvrtcGetProgramLog", (void *program, char *log))                                       \
    X(code_size, "nvrtcGetCUBINSize", (void *program, size_t *size))                               \
    X(code, "nvrtcGetCUBIN", (void *program, char *code))

typedef struct nvrtc {
#define FIELD(field, symbol, arguments) int(*field) arguments;
    NVRTC_CALLS(FIELD)
#undef FIELD
} nvrtc;

static bool find(void *library, const char *symbol, void *slot) {
    void *address = dlsym(library, symbol);
    memcpy(slot, &address, sizeof address);
    return address != NULL;
}

static bool resolve(void *library, const char *symbol, void *slot) {
    bool found = find(library, symbol, slot);
    if (!found)
        fprintf(stderr, "%s is missing\n", symbol);
    return found;
}

bool cuda_driver_open(cuda_driver *d) {
    const char *path = getenv("JITC_LIBCUDA");
    void *library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    bool complete = library != NULL;
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
#define RESOLVE(field, symbol, arguments)                                                          \
    complete = complete && resolve(library, symbol, &d->field);
    CUDA_DRIVER_CALLS(RESOLVE)
#undef RESOLVE
    if (library)
        find(library, "simcuda_races", &d->races);
    return complete && cuda_driver_check(d, d->init(0), "cuInit");
}

bool cuda_driver_check(const cuda_driver *d, int result, const char *what) {
    const char *name = NULL;
    if (result == 0)
        return true;
    if (d->error_name(result, &name) != 0 || !name)
        name = "an error without a name";
    fprintf(stderr, "%s: %s (%d)\n", what, name, result);
    return false;
}

static void *open_nvrtc(void) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so"};
    const char *path = getenv("JITC_LIBNVRTC");
    char loaded[4096];
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library && bench_find_line("/proc/self/maps", "libnvrtc.so", '/', loaded, sizeof loaded))
        library = dlopen(loaded, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; ++i)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

static bool find_nvrtc(nvrtc *n) {
    void *library = open_nvrtc();
    bool complete = library != NULL;
    if (!library)
        fprintf(stderr, "NVRTC is neither what JITC_LIBNVRTC says nor found by name\n");
#define RESOLVE(field, symbol, arguments)                                                          \
    complete = complete && resolve(library, symbol, &n->field);
    NVRTC_CALLS(RESOLVE)
#undef RESOLVE
    return complete;
}

static void print_log(const nvrtc *n, void *program) {
    size_t size = 0;
    char *log = NULL;
    if (n->log_size(program, &size) == 0 && (log = malloc(size + 1)) && n->log(program, log) == 0)
        fprintf(stderr, "%.*s\n", (int) size, log);
    free(log);
}

/* free() the result. NULL, after a message, on failure. */
static char *compile(const nvrtc *n, const char *text, const char *target) {
    void *program = NULL;
    size_t size = 0;
    char *code = NULL;
    if (n->create(&program, text, "benchmark.cu", 0, NULL, NULL) != 0)
        return NULL;
    int result = n->compile(program, 1, &target);
    if (result != 0) {
        fprintf(stderr, "NVRTC: error %d\n", result);
        print_log(n, program);
    } else if (n->code_size(program, &size) == 0 && (code = malloc(size)) &&
               n->code(program, code) != 0) {
        free(code);
        code = NULL;
    }
    n->destroy(&program);
    return code;
}

bool cuda_driver_compile(const cuda_driver *d, int device, const char *text, void **module) {
    nvrtc n;
    char target[64];
    int major = 0, minor = 0;
    if (!find_nvrtc(&n) ||
        !cuda_driver_check(d, d->attribute(&major, CUDA_CAPABILITY_MAJOR, device), "capability") ||
        !cuda_driver_check(d, d->attribute(&minor, CUDA_CAPABILITY_MINOR, device), "capability"))
        return false;
    snprintf(target, sizeof target, "--gpu-architecture=sm_%d%d", major, minor);
    char *code = compile(&n, text, target);
    if (!code) {
        fprintf(stderr, "The benchmark's own kernels cannot be compiled for sm_%d%d\n", major,
                minor);
        return false;
    }
    bool loaded = cuda_driver_check(d, d->module_load(module, code), "cuModuleLoadData");
    free(code);
    return loaded;
}

void cuda_driver_describe_nvrtc(char *text, size_t size) {
    int major = 0, minor = 0, (*version)(int *, int *) = NULL;
    void *library = open_nvrtc();
    if (library && resolve(library, "nvrtcVersion", &version) && version(&major, &minor) == 0)
        snprintf(text, size, "NVRTC %d.%d", major, minor);
    else
        snprintf(text, size, "NVRTC unknown");
}
