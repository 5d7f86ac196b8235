/* detach.h: waiting for all that a device does, and memory that outlives the backend.
 * Layer: cuda.  May include: core, ir, device.
 *
 * Whoever was lent memory may keep it longer than we live. What is needed to free it, the context
 * and the pool, is then kept by a jitc_cuda_rest, until the last block was freed. */
#ifndef JITC_CUDA_DETACH_H
#define JITC_CUDA_DETACH_H
#include "cuda/device.h"

/** Wait, on the CPU, for all work of all streams, of whoever they are, in the current context and
 * in the primary ones of all devices. Breaks no capture, in the capture mode "relaxed". */
CUresult jitc_cuda_barrier(const jitc_cuda *c);
/** Is it one of these? */
bool jitc_cuda_is_primary(const jitc_cuda *c, CUcontext context);
/** So many blocks of the device, which is about to end, stay; see the slot. */
void jitc_cuda_detach(jitc_cuda_device *d, size_t blocks, jitc_detached *out);
/** The device has ended; its reference to the context, and the pool, are the rest's now. */
void jitc_cuda_rest_take(jitc_cuda_rest *r, CUmemoryPool pool);
#endif
