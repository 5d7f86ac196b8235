/* cuda_device.c: see cuda_device.h.
 * Layer: benchmarks. May include: nothing of the library. */
#include "cuda_device.h"
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double most_copied = 1 << 30;

struct cuda_device {
    cuda_driver driver;
    void *context;
    int device;
    cuda_address from, to; /* for copies, as large as the largest so far */
    size_t bytes;
};

cuda_device *cuda_device_open(void) {
    cuda_device *d = calloc(1, sizeof *d);
    if (d && cuda_driver_open(&d->driver) && d->driver.get(&d->device, 0) == 0 &&
        d->driver.retain(&d->context, d->device) == 0)
        return d;
    free(d);
    fprintf(stderr, "There is no GPU here, or no driver: libcuda.so.1 or what JITC_LIBCUDA says\n");
    return NULL;
}

const cuda_driver *cuda_device_driver(const cuda_device *d) {
    return &d->driver;
}

void *cuda_device_context(const cuda_device *d) {
    return d->context;
}

int cuda_device_number(const cuda_device *d) {
    return d->device;
}

static void release_memory(cuda_device *d) {
    d->driver.free(d->from);
    d->driver.free(d->to);
    d->from = d->to = 0;
    d->bytes = 0;
}

void cuda_device_close(cuda_device *d) {
    if (!d)
        return;
    d->driver.push(d->context);
    release_memory(d);
    d->driver.pop(&d->context);
    d->driver.release(d->device);
    free(d);
}

void cuda_device_describe(const cuda_device *d, char *text, size_t size) {
    char name[128] = "?", module[160], nvrtc[32];
    int version = 0, major = 0, minor = 0;
    d->driver.name(name, sizeof name, d->device);
    d->driver.version(&version);
    d->driver.attribute(&major, CUDA_CAPABILITY_MAJOR, d->device);
    d->driver.attribute(&minor, CUDA_CAPABILITY_MINOR, d->device);
    bench_find_line("/proc/driver/nvidia/version", "Kernel Module", 'K', module, sizeof module);
    module[strcspn(module, "(")] = '\0';
    cuda_driver_describe_nvrtc(nvrtc, sizeof nvrtc);
    snprintf(text, size, "%s (sm_%d%d), driver for CUDA %d.%d (%s), %s", name, major, minor,
             version / 1000, version % 1000 / 10, module, nvrtc);
}

double cuda_device_free_memory(const cuda_device *d) {
    size_t unused = 0, total;
    void *context;
    d->driver.push(d->context);
    if (d->driver.memory(&unused, &total) != 0)
        unused = 0;
    d->driver.pop(&context);
    return (double) unused;
}

static bool reserve(cuda_device *d, size_t bytes) {
    if (bytes <= d->bytes)
        return true;
    release_memory(d);
    if (d->driver.alloc(&d->from, bytes) != 0 || d->driver.alloc(&d->to, bytes) != 0)
        return false;
    d->bytes = bytes;
    return true;
}

static double bytes_at_once(const cuda_copy *c) {
    return c->bytes < most_copied ? c->bytes : most_copied;
}

static bool copy_back_to_back(void *copy, size_t calls) {
    const cuda_copy *c = copy;
    const cuda_device *d = c->device;
    for (size_t i = 0; i < calls; ++i)
        if (d->driver.copy(d->to, d->from, (size_t) bytes_at_once(c), NULL) != 0)
            return false;
    return d->driver.sync(NULL) == 0;
}

double cuda_copy_sample(void *copy) {
    cuda_copy *c = copy;
    void *context;
    double bytes = bytes_at_once(c);
    c->device->driver.push(c->device->context);
    bool ready = reserve(c->device, (size_t) bytes);
    double ns = ready ? bench_per_batch(copy_back_to_back, c, &c->calls) : -1;
    c->device->driver.pop(&context);
    return ns * (ns < 0 ? 1 : c->bytes / bytes);
}
