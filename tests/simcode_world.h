/* simcode_world.h: kernels written by hand, compiled by NVRTC and run by the driver under test
 * (JITC_LIBCUDA, JITC_LIBNVRTC; else the real ones), without the library. Most tests hold on a GPU,
 * too: what the simulation assumes of it. */
#ifndef JITC_TESTS_SIMCODE_WORLD_H
#define JITC_TESTS_SIMCODE_WORLD_H
#include "cuda/driver.h"
#include <criterion/criterion.h>
#include <stdbool.h>

/** What stands in front of every text of these tests: types, and CUDA's meaning of the macros that
 * the simulated NVRTC defines by itself. */
extern const char simcode_head[];
/** The text of a kernel, as written. */
#define SIMCODE_TEXT(...) #__VA_ARGS__

/** Opens both libraries and makes the context of device 0 current. Skips the test without them. */
void simcode_open(void);
/** The same; skips the test where the driver is a real one. */
void simcode_open_simulated(void);
/** After a fault: a new context. */
void simcode_reset(void);
/** A function of the driver or compiler under test. */
void *simcode_symbol(const char *name);
/** simcuda_seed(); nothing on another driver. */
void simcode_seed(uint64_t seed);

/** Compile simcode_head and `text`: a CUBIN, free(); NULL, and then *log, free(). */
char *simcode_compile(const char *text, char **log);
/** Compile, load, look up: the test fails if one of that does, and if the real compiler, where
 * JITC_TEST_NVRTC names one, refuses the text. */
CUfunction simcode_function(const char *text, const char *name);

/** Device memory with a copy of `bytes` bytes; of zeros if `from` is NULL. */
CUdeviceptr simcode_upload(const void *from, size_t bytes);
void simcode_download(void *to, CUdeviceptr from, size_t bytes);
void simcode_free(CUdeviceptr p);

/** Run `blocks` blocks of `threads` threads to the end; the result of that. */
CUresult simcode_run(CUfunction f, unsigned blocks, unsigned threads, void **arguments);
/** Simulated driver: faults found since the last call, and the text of all. */
const char *simcode_faults(unsigned *count);
#endif
