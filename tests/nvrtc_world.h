/* nvrtc_world.h: the real NVRTC, which needs no GPU, and the texts it is given. */
#ifndef JITC_TESTS_NVRTC_WORLD_H
#define JITC_TESTS_NVRTC_WORLD_H
#include "cuda/nvrtc.h"
#include "ir/program.h"

/** Of the file that JITC_TEST_NVRTC names; without, it is searched as the library does. NULL, and
 * the test is skipped: there is none. */
jitc_nvrtc *nvrtc_world_open(void);
/** The text of a program, as jitc_cuda_layout_of() lays its parameters out; the caller's. */
char *nvrtc_world_text(const jitc_program *p, uint32_t most_bytes);
#endif
