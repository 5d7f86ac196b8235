/* text_scatter.h: values combined into elements of arrays, as CUDA C.
 * Layer: cuda.  May include: core, ir. */
#ifndef JITC_CUDA_TEXT_SCATTER_H
#define JITC_CUDA_TEXT_SCATTER_H
#include "cuda/targets.h"
#include "cuda/text_parts.h"

/** The kernel of a program of shape MAP with a scatter_reduce. */
void jitc_cuda_put_targets(jitc_cuda_body *k);
#endif
