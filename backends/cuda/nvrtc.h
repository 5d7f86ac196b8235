/* nvrtc.h: NVIDIA's run-time compiler, opened at run time.  Layer: cuda.  May include: core. */
#ifndef JITC_CUDA_NVRTC_H
#define JITC_CUDA_NVRTC_H
#include "core/mem.h"
#include "core/sync.h"

typedef struct jitc_nvrtc jitc_nvrtc;

/** Opens the library: `path` if it is not empty, else by name, newest version first, then in the
 *  toolkit's folder and where pip puts it. JIT_UNAVAILABLE: the text names what was missing. */
jit_status jitc_nvrtc_open(const char *path, jitc_nvrtc **out);
void jitc_nvrtc_close(jitc_nvrtc *n);
/** 1000 * major + 10 * minor, such as 13000. */
int jitc_nvrtc_version(const jitc_nvrtc *n);
/** The architecture that code for compute capability `capability` (such as 90) is compiled for: the
 *  same, or the newest one below it that the library knows; *ptx: then the code is PTX, which the
 *  driver compiles, and not a CUBIN. JIT_UNAVAILABLE if the device is older than all it knows. */
jit_status jitc_nvrtc_arch(const jitc_nvrtc *n, int capability, int *arch, bool *ptx);
/** Compile. *out: a CUBIN or PTX with its final 0. Any thread that has 256 KiB of stack, several at
 *  once. JIT_COMPILE_FAILED with the beginning of the compiler's log; the whole is logged as a
 * debug message. JIT_UNAVAILABLE if the process exits. */
jit_status jitc_nvrtc_compile(jitc_nvrtc *n, const char *text, int arch, bool ptx, bool fuse,
                              jitc_blob *out);
#endif
