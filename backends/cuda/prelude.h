/* prelude.h: what a text begins with.  Layer: cuda.  May include: core. */
#ifndef JITC_CUDA_PRELUDE_H
#define JITC_CUDA_PRELUDE_H
#include "cuda/writer.h"

/** Write the macros and types that every text has, and the helpers that `body` names. */
void jitc_cuda_put_prelude(jitc_cuda_writer *w, const char *body, size_t size);
#endif
