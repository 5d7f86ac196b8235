/* module.h: kernels that are loaded.  Layer: cuda.  May include: core, ir, device.
 *
 * Loading and unloading a module wait for everything that runs on the device. Kernels are loaded
 * before an evaluation's first launch; what is not needed any more is kept, and unloaded when the
 * device is idle anyway. */
#ifndef JITC_CUDA_MODULE_H
#define JITC_CUDA_MODULE_H
#include "cuda/device.h"
#include "cuda/shape.h"
#include "cuda/targets.h"

enum { JITC_CUDA_FUNCTIONS = JITC_CUDA_SORT_KERNELS };

/** Code as it was loaded, once. */
struct jitc_cuda_code {
    CUmodule module;
    CUfunction function[JITC_CUDA_FUNCTIONS]; /* the first; SORT: by jitc_cuda_sort_kernel */
    uint64_t serial;     /* of the first; no other has it: handles come again after unloading */
    unsigned block;      /* threads, for large launches */
    jitc_cuda_room room; /* with scatter_reduce, or a sort */
    struct jitc_cuda_code *next; /* older code of the kernel; retired code of the device */
};

struct jitc_cuda_kernel {
    jitc_kernel base;
    jitc_cuda_device *device;
    _Atomic(jitc_cuda_code *) code; /* the newest */
    uint32_t elements;              /* per thread */
    bool in_memory;                 /* arguments are read through a pointer */
    jitc_cuda_shape shape;
    jitc_cuda_targets targets;
    uint64_t name;         /* see text.h; this and the next are for messages */
    uint32_t instructions; /* of the program */
};

static inline jitc_cuda_kernel *jitc_cuda_kernel_of(jitc_kernel *k) {
    return (jitc_cuda_kernel *) k; /* its first member */
}

/** The context is current. JIT_COMPILE_FAILED if the driver does not take the code. */
jit_status jitc_cuda_kernel_load(jitc_cuda_device *d, const jitc_program *p, const jitc_blob *code,
                                 jitc_cuda_kernel **out);
jit_status jitc_cuda_kernel_reload(jitc_cuda_kernel *k, const jitc_blob *code);
/** Retires its code. `k` is not NULL. */
void jitc_cuda_kernel_destroy(jitc_cuda_kernel *k);
/** Unload what is retired, if the device is idle. */
void jitc_cuda_unload_retired(jitc_cuda_device *d);
#endif
