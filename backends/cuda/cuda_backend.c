/* cuda_backend.c: the vtable of the CUDA backend.  Layer: cuda. */
#include "cuda/cuda_backend.h"

jit_status jitc_cuda_backend_create(const jitc_options *o, jitc_backend **out) {
    (void) o, (void) out;
    return jitc_fail(JIT_UNAVAILABLE, "cuda: not built yet");
}
