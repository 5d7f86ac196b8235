/* cuda_device.c: see cuda_device.h.
 * Layer: benchmarks. May include: nothing of the library. */
#include "cuda_device.h"
#include "bench.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long device_pointer;
enum { MOST_CALLS = 4096, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 };
static const double fill_ns = 5e6;
static const double most_copied = 1 << 30;

/* The driver's functions; X(field, symbol, arguments). All return 0 for success. */
#define DRIVER_CALLS(X)                                                                            \
    X(init, "cuInit", (unsigned flags))                                                            \
    X(version, "cuDriverGetVersion", (int *version))                                               \
    X(get, "cuDeviceGet", (int *device, int ordinal))                                              \
    X(name, "cuDeviceGetName", (char *name, int length, int device))                               \
    X(attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))                  \
    X(retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                            \
    X(release, "cuDevicePrimaryCtxRelease_v2", (int device))                                       \
    X(push, "cuCtxPushCurrent_v2", (void *context))                                                \
    X(pop, "cuCtxPopCurrent_v2", (void **context))                                                 \
    X(memory, "cuMemGetInfo_v2", (size_t *unused, size_t *total))                                  \
    X(alloc, "cuMemAlloc_v2", (device_pointer * pointer, size_t bytes))                            \
    X(free, "cuMemFree_v2", (device_pointer pointer))                                              \
    X(copy, "cuMemcpyDtoDAsync_v2",                                                                \
      (device_pointer to, device_pointer from, size_t bytes, void *stream))                        \
    X(sync, "cuStreamSynchronize", (void *stream))

struct cuda_device {
#define FIELD(field, symbol, arguments) int(*field) arguments;
    DRIVER_CALLS(FIELD)
#undef FIELD
    void *context;
    int device;
    device_pointer from, to; /* for copies, as large as the largest so far */
    size_t bytes;
};

static bool resolve(void *library, const char *symbol, void *slot) {
    void *address = dlsym(library, symbol);
    memcpy(slot, &address, sizeof address);
    return address != NULL;
}

static bool open_driver(cuda_device *d) {
    const char *path = getenv("JITC_LIBCUDA");
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    bool complete = library != NULL;
#define RESOLVE(field, symbol, arguments)                                                          \
    complete = complete && resolve(library, symbol, &d->field);
    DRIVER_CALLS(RESOLVE)
#undef RESOLVE
    return complete && d->init(0) == 0 && d->get(&d->device, 0) == 0 &&
           d->retain(&d->context, d->device) == 0;
}

cuda_device *cuda_device_open(void) {
    cuda_device *d = calloc(1, sizeof *d);
    if (d && open_driver(d))
        return d;
    free(d);
    fprintf(stderr, "There is no GPU here, or no driver: libcuda.so.1 or what JITC_LIBCUDA says\n");
    return NULL;
}

static void release_memory(cuda_device *d) {
    d->free(d->from);
    d->free(d->to);
    d->from = d->to = 0;
    d->bytes = 0;
}

void cuda_device_close(cuda_device *d) {
    if (!d)
        return;
    d->push(d->context);
    release_memory(d);
    d->pop(&d->context);
    d->release(d->device);
    free(d);
}

/* Copy the first line of `path` that contains `key`, from the character `from` on, to `text`;
 * "unknown" if there is none. */
static void find_line(const char *path, const char *key, int from, char *text, size_t size) {
    char line[4096], *found = NULL;
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, key) ? strchr(line, from) : NULL;
    if (file)
        fclose(file);
    snprintf(text, size, "%s", found ? found : "unknown");
    text[strcspn(text, "\n")] = '\0';
}

/* The version of the NVRTC that this process has loaded. */
static void describe_nvrtc(char *text, size_t size) {
    char path[4096];
    int major, minor, (*version)(int *, int *) = NULL;
    find_line("/proc/self/maps", "libnvrtc.so", '/', path, sizeof path);
    void *library = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    if (library && resolve(library, "nvrtcVersion", &version) && version(&major, &minor) == 0)
        snprintf(text, size, "NVRTC %d.%d", major, minor);
    else
        snprintf(text, size, "NVRTC unknown");
}

void cuda_device_describe(const cuda_device *d, char *text, size_t size) {
    char name[128] = "?", module[160], nvrtc[32];
    int version = 0, major = 0, minor = 0;
    d->name(name, sizeof name, d->device);
    d->version(&version);
    d->attribute(&major, CAPABILITY_MAJOR, d->device);
    d->attribute(&minor, CAPABILITY_MINOR, d->device);
    find_line("/proc/driver/nvidia/version", "Kernel Module", 'K', module, sizeof module);
    module[strcspn(module, "(")] = '\0';
    describe_nvrtc(nvrtc, sizeof nvrtc);
    snprintf(text, size, "%s (sm_%d%d), driver for CUDA %d.%d (%s), %s", name, major, minor,
             version / 1000, version % 1000 / 10, module, nvrtc);
}

double cuda_device_free_memory(const cuda_device *d) {
    size_t unused = 0, total;
    void *context;
    d->push(d->context);
    if (d->memory(&unused, &total) != 0)
        unused = 0;
    d->pop(&context);
    return (double) unused;
}

static bool reserve(cuda_device *d, size_t bytes) {
    if (bytes <= d->bytes)
        return true;
    release_memory(d);
    if (d->alloc(&d->from, bytes) != 0 || d->alloc(&d->to, bytes) != 0)
        return false;
    d->bytes = bytes;
    return true;
}

static double copy_back_to_back(cuda_copy *c, size_t bytes) {
    cuda_device *d = c->device;
    c->calls = c->calls ? c->calls : 1;
    for (;; c->calls *= 2) {
        double start = bench_now();
        for (size_t i = 0; i < c->calls; ++i)
            if (d->copy(d->to, d->from, bytes, NULL) != 0)
                return -1;
        if (d->sync(NULL) != 0)
            return -1;
        double elapsed = bench_now() - start;
        if (elapsed >= fill_ns || c->calls >= MOST_CALLS)
            return elapsed / (double) c->calls;
    }
}

double cuda_copy_sample(void *copy) {
    cuda_copy *c = copy;
    void *context;
    double bytes = c->bytes < most_copied ? c->bytes : most_copied;
    c->device->push(c->device->context);
    bool ready = reserve(c->device, (size_t) bytes);
    double ns = ready ? copy_back_to_back(c, (size_t) bytes) : -1;
    c->device->pop(&context);
    return ns * (ns < 0 ? 1 : c->bytes / bytes);
}
