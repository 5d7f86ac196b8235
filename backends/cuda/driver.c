/* driver.c: finding, opening and asking the CUDA driver.  Layer: cuda.  May include: core. */
#include "cuda/driver.h"
#include "core/exit.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The oldest driver: of CUDA 11.4. */
enum { OLDEST_VERSION = 11040 };

static const char *const symbols[] = {
#define DRIVER(name, symbol, ...) [JITC_CU_##name] = symbol,
#include "cuda/driver.def"
};

static const bool optional[] = {
#define DRIVER(name, ...)   [JITC_CU_##name] = false,
#define OPTIONAL(name, ...) [JITC_CU_##name] = true,
#include "cuda/driver.def"
};

static jit_status open_library(const char *path, void **out) {
    if (path && *path) {
        *out = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        return *out ? JIT_OK
                    : jitc_fail(JIT_UNAVAILABLE, "cuda: cannot open the driver's library: %s",
                                dlerror());
    }
    *out = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!*out)
        *out = dlopen("libcuda.so", RTLD_NOW | RTLD_LOCAL);
    return *out ? JIT_OK
                : jitc_fail(JIT_UNAVAILABLE, "cuda: there is no NVIDIA driver: neither "
                                             "libcuda.so.1 nor libcuda.so can be opened "
                                             "(JITC_LIBCUDA names another file)");
}

static jit_status find_functions(void *library, const char *path, jitc_cuda *c) {
    /* A function pointer and an object pointer have the same bytes, as dlsym requires. */
    void *found[JITC_CU_COUNT];
    for (int f = 0; f < JITC_CU_COUNT; ++f) {
        found[f] = dlsym(library, symbols[f]);
        if (!found[f] && !optional[f])
            return jitc_fail(JIT_UNAVAILABLE,
                             "cuda: %s has no function %s: the driver has to be that of CUDA "
                             "%d.%d or newer",
                             path && *path ? path : "libcuda.so.1", symbols[f],
                             OLDEST_VERSION / 1000, OLDEST_VERSION % 1000 / 10);
    }
#define DRIVER(name, ...) memcpy(&c->name, &found[JITC_CU_##name], sizeof c->name);
#include "cuda/driver.def"
    return JIT_OK;
}

static jit_status check_version(jitc_cuda *c) {
    TRY(CU(c, DriverGetVersion, &c->version));
    if (c->version >= OLDEST_VERSION)
        return JIT_OK;
    return jitc_fail(JIT_UNAVAILABLE,
                     "cuda: the driver is of CUDA %d.%d, which is too old: %d.%d or newer is "
                     "needed",
                     c->version / 1000, c->version % 1000 / 10, OLDEST_VERSION / 1000,
                     OLDEST_VERSION % 1000 / 10);
}

static jit_status initialise(const jitc_cuda *c) {
    char why[256];
    CUresult result = c->Init(0);
    if (result == CUDA_SUCCESS)
        return JIT_OK;
    jitc_cuda_describe(c, result, JITC_CU_Init, why, sizeof why);
    return jitc_fail(JIT_UNAVAILABLE,
                     result == CUDA_ERROR_NO_DEVICE ? "cuda: there is no CUDA device: %s"
                                                    : "cuda: the driver does not start: %s",
                     why);
}

jit_status jitc_cuda_open(const char *path, jitc_cuda *out) {
    void *library;
    jitc_cuda c = {0};
    TRY(open_library(path, &library));
    jit_status status = find_functions(library, path, &c);
    if (status == JIT_OK)
        status = check_version(&c);
    if (status != JIT_OK) {
        dlclose(library);
        return status;
    }
    static atomic_uint times;
    TRY(initialise(&c)); /* has started threads and files of its own: the library stays */
    jitc_exit_guard_again(&times);
    *out = c;
    return JIT_OK;
}

void jitc_cuda_describe(const jitc_cuda *c, CUresult result, jitc_cuda_function f, char *text,
                        size_t size) {
    const char *name = NULL, *meaning = NULL;
    size_t length = strcspn(symbols[f], "_"); /* "_v2" is of no use to people */
    if (c->GetErrorName(result, &name) != CUDA_SUCCESS)
        name = NULL;
    if (c->GetErrorString(result, &meaning) != CUDA_SUCCESS)
        meaning = NULL;
    if (name)
        snprintf(text, size, "%.*s: %s (%s)", (int) length, symbols[f], name,
                 meaning ? meaning : "?");
    else
        snprintf(text, size, "%.*s: error %d", (int) length, symbols[f], result);
}

jit_status jitc_cuda_check(const jitc_cuda *c, CUresult result, jitc_cuda_function f) {
    char text[256];
    if (__builtin_expect(result == CUDA_SUCCESS, 1))
        return JIT_OK;
    jitc_cuda_describe(c, result, f, text, sizeof text);
    return jitc_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? JIT_OUT_OF_MEMORY : JIT_DEVICE_FAILED,
                     "cuda: %s", text);
}
