/* cuda_backend.h: the CUDA backend.  Layer: cuda.  May include: core, ir, device. */
#ifndef JITC_CUDA_BACKEND_H
#define JITC_CUDA_BACKEND_H
#include "device/backend.h"

/** Opens the driver and NVRTC, but no device: those are opened when they are first used.
 *  `o` is borrowed, and read at evaluations. JIT_UNAVAILABLE and what is missing, so that a program
 *  can go on with the CPU. */
jit_status jitc_cuda_backend_create(const jitc_options *o, jitc_backend **out);
#endif
