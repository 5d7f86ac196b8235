/* nvrtc_find.h: where NVRTC is.  Layer: cuda.  May include: core.  Private to nvrtc.c. */
#ifndef JITC_CUDA_NVRTC_FIND_H
#define JITC_CUDA_NVRTC_FIND_H
#include "core/error.h"

/** Open the library, a handle of dlopen(): `path` if it is not empty, else the first of
 *    libnvrtc.so.13, .12, .11.2, libnvrtc.so     where the dynamic linker looks
 *    $CUDA_PATH, $CUDA_HOME, /usr/local/cuda, /usr/local/cuda-*     in lib64, the toolkit
 *    $VIRTUAL_ENV, ~/.local, /usr/local, /usr    in lib/python3 or lib/python3.*, and there in
 *                                                site-packages or dist-packages: pip's wheels
 *  and of several in a place the newest. *name: what was opened; free(). JIT_UNAVAILABLE. */
jit_status jitc_nvrtc_find(const char *path, void **library, char **name);
#endif
