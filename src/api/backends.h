/* backends.h: the backends that were built.  Layer: api.  May include: all layers. */
#ifndef JITC_API_BACKENDS_H
#define JITC_API_BACKENDS_H
#include "device/backend.h"

/** Create a backend. JIT_UNAVAILABLE, and what is missing, if it was not built or is not there. */
jit_status jitc_api_create_backend(jit_backend id, const jitc_options *o, jitc_backend **out);
/** "LLVM", "CUDA"; "?" for a value that is no backend. */
const char *jitc_api_backend_name(jit_backend id);
#endif
