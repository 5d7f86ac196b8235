/* text_loop.h: loops and branches as CUDA C.  Layer: cuda.  May include: core, ir. */
#ifndef JITC_CUDA_TEXT_LOOP_H
#define JITC_CUDA_TEXT_LOOP_H
#include "cuda/text_parts.h"

/** Write instruction n, a loop, phi, test, next or end; all of the program are written in their
 *  order. Behind the end, the variables of the phis have the values of the states. */
void jitc_cuda_put_loop(jitc_cuda_body *k, uint32_t n);
#endif
