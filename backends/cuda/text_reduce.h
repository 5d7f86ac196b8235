/* text_reduce.h: the kernels of shapes that combine lanes, as CUDA C.
 * Layer: cuda.  May include: core, ir. */
#ifndef JITC_CUDA_TEXT_REDUCE_H
#define JITC_CUDA_TEXT_REDUCE_H
#include "cuda/text_parts.h"

void jitc_cuda_put_reduce(jitc_cuda_body *k);   /* text_reduce.c */
void jitc_cuda_put_teams(jitc_cuda_body *k);    /* text_team.c: BLOCK_REDUCE */
void jitc_cuda_put_scan(jitc_cuda_body *k);     /* text_scan.c */
void jitc_cuda_put_compress(jitc_cuda_body *k); /* text_compress.c */
void jitc_cuda_put_sort(jitc_cuda_body *k);     /* text_sort.c */
#endif
