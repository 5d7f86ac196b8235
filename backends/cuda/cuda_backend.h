/* cuda_backend.h: the CUDA backend.  Layer: cuda.  May include: core, ir, device. */
#ifndef JITC_CUDA_BACKEND_H
#define JITC_CUDA_BACKEND_H
#include "device/backend.h"

/** Opens the driver; NVRTC is opened by the first compilation. JIT_UNAVAILABLE and what is missing.
 */
jit_status jitc_cuda_backend_create(const jitc_options *o, jitc_backend **out);
#endif
