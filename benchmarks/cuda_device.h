/* cuda_device.h: the GPU without this library: what it is called, and how fast it copies.
 * Layer: benchmarks. May include: nothing of the library. */
#ifndef BENCH_CUDA_DEVICE_H
#define BENCH_CUDA_DEVICE_H
#include "cuda_driver.h"

typedef struct cuda_device cuda_device;

/* What cuda_copy_sample() is asked for: `bytes` are read and as many written. */
typedef struct cuda_copy {
    cuda_device *device;
    double bytes;
    size_t calls; /* in a sample; found by the first samples */
} cuda_copy;

/* The first device of the driver that JITC_LIBCUDA names, else libcuda.so.1. NULL, after a message:
 * there is none. */
cuda_device *cuda_device_open(void);
void cuda_device_close(cuda_device *d);
/* Its driver, primary context and CUdevice; they live as long as d. */
const cuda_driver *cuda_device_driver(const cuda_device *d);
void *cuda_device_context(const cuda_device *d);
int cuda_device_number(const cuda_device *d);
/* GPU, driver and NVRTC (which this process has loaded by now) in one line. */
void cuda_device_describe(const cuda_device *d, char *text, size_t size);
/* Bytes that are free on the device. */
double cuda_device_free_memory(const cuda_device *d);
/* A sample: nanoseconds per copy within the device, several back to back. Copies of more than some
 * GB are scaled up from a smaller one. */
double cuda_copy_sample(void *copy);

#endif
