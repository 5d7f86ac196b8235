/* text_look.h: how blocks of a kernel learn what is in front of them, as CUDA C.
 * Layer: cuda.  May include: core, ir. */
#ifndef JITC_CUDA_TEXT_LOOK_H
#define JITC_CUDA_TEXT_LOOK_H
#include "cuda/shape.h"
#include "cuda/text_parts.h"

/** Define look_back(state, all, tile, tiles, tag, lane), in front of the kernel: instruction n over
 * all tiles in front of `tile`, of which `all` is the block's. Called by one warp. */
void jitc_cuda_put_look_back(jitc_cuda_body *k, uint32_t n, const jitc_cuda_shape *s);
/** Define `tile` and `tag` in the kernel, and lane, warp and tiles. Blocks get their tiles in the
 *  order in which they begin, so that none waits for one that has not. */
void jitc_cuda_put_tile_number(jitc_cuda_body *k);
/** Bring what a tile far ahead reads into the cache: by so many bytes for each multiprocessor.
 *  `reverse`: tile 0 is the last one, and ends at m. */
void jitc_cuda_put_prefetch(jitc_cuda_body *k, const jitc_cuda_shape *s, uint32_t ahead,
                            bool reverse);
#endif
