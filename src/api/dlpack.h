/* dlpack.h: what export and import of tensors share.  Layer: api.  May include: all layers. */
#ifndef JITC_API_DLPACK_H
#define JITC_API_DLPACK_H
#include "api/runtime.h"
#include <jit/dlpack.h>

/** Copy the caller's options over the defaults in *own, a struct of `size` bytes. Both begin with
 * the size of what they are: an older caller knows fewer members, a newer one more, of which those
 * that we do not know have to be zero. `given` NULL: all defaults. JIT_INVALID_ARGUMENT. */
jit_status jitc_dlpack_options(const char *function, const void *given, size_t size, void *own);
#endif
