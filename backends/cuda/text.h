/* text.h: a program as CUDA C.  Layer: cuda.  May include: core, ir.
 *
 * One kernel a text, always of the same shape:
 *
 *   KERNEL void jitc_0123456789ab(const struct parameters P)     struct { u64 n; u64 word[COUNT]; }
 *   KERNEL void jitc_0123456789ab(u64 n, const u64 *word)        IN_MEMORY: more words than fit
 *
 * named after a hash of the program, and run with blocks of any size (one dimension) over ceil(n /
 * (block * elements)) blocks. The text keeps to what NVRTC and a C compiler both take, given a few
 * macros (KERNEL, DEV, LD, ST): see prelude.def. */
#ifndef JITC_CUDA_TEXT_H
#define JITC_CUDA_TEXT_H
#include "ir/program.h"

/** The name of a kernel, by a number that is made of its program. */
#define JITC_CUDA_NAME "jitc_%012llx"
uint64_t jitc_cuda_name_of(const jitc_program *p);

/** How a program is laid out; a pure function of it. */
typedef struct jitc_cuda_layout {
    uint32_t elements; /* consecutive elements that a thread computes: 1, 2, 4, 8 or 16 */
    bool in_memory;    /* the parameters are read through a pointer */
} jitc_cuda_layout;

/** `most_bytes`: size of the largest argument of a kernel, 4096 or, since CUDA 12.1, 32764. */
jitc_cuda_layout jitc_cuda_layout_of(const jitc_program *p, uint32_t most_bytes);
/** The text; free(). JIT_OUT_OF_MEMORY. */
jit_status jitc_cuda_text(const jitc_program *p, jitc_cuda_layout layout, char **out);
#endif
