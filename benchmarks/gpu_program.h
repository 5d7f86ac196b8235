/* gpu_program.h: programs written by hand and run through the CUDA backend alone, where benchmarks
 * measure one kernel.
 * Layer: benchmarks. May include: core, ir, device. */
#ifndef BENCH_GPU_PROGRAM_H
#define BENCH_GPU_PROGRAM_H
#include "bench.h"
#include "device/backend.h"

/** The backend and one stream of its first device. What fails here has printed a message. */
typedef struct gpu {
    jitc_backend *backend;
    jitc_stream *stream;
} gpu;

bool gpu_check(jit_status status, const char *what);
bool gpu_open(gpu *g);
void gpu_close(gpu *g);
/** Device memory, with room for the last vector; freeing NULL is allowed. */
bool gpu_alloc(gpu *g, size_t bytes, void **out);
void gpu_free(gpu *g, const void *p);
/** The library that the environment names as BENCH_PEER; NULL: none. */
void *gpu_peer(void);
/** Did the peer's calls of the CUDA runtime succeed? */
bool gpu_peer_check(int error);

/** A program that is written; begins as {0}. */
typedef struct gpu_program {
    jitc_program p;
    uint64_t params[16];
} gpu_program;

/** Append an instruction; its index. */
uint32_t program_add(gpu_program *w, jitc_inst i);
uint32_t program_op(gpu_program *w, jitc_op op, jit_dtype t, uint32_t a, uint32_t b);
uint32_t program_baked(gpu_program *w, jit_dtype t, uint64_t bits);
uint32_t program_data(gpu_program *w, jit_dtype t, const void *p);
/** Append a parameter; its index. */
uint32_t program_parameter(gpu_program *w, uint64_t value);

/** A program that can be launched. */
typedef struct gpu_kernel {
    jitc_kernel *kernel;
    uint64_t lanes, params[16];
    uint32_t count; /* of the parameters */
    void *scratch;
} gpu_kernel;

/** Compile a program, which is freed. */
bool gpu_compile(gpu *g, gpu_program *w, uint64_t lanes, gpu_kernel *out);
/** Launch it back to back, and wait. */
bool gpu_run(gpu *g, const gpu_kernel *k, size_t calls);
void gpu_release(gpu *g, gpu_kernel *k);
/** The same with memory, of which nothing is kept for reuse; NULL entries are allowed. */
void gpu_release_all(gpu *g, gpu_kernel *k, const void *const *memory, size_t n);
/** Store `value` of a program, which is freed, to n elements of `out`. */
bool gpu_fill(gpu *g, gpu_program *w, uint32_t value, void *out, size_t n);
#endif
