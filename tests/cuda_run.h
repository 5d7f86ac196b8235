/* cuda_run.h: programs run on the CUDA backend and on the host, side by side, for its tests.
 *
 *   float x[100];
 *   cuda_run r;
 *   cuda_run_begin(&r);
 *   cuda_run_array(&r, x, sizeof x);              memory that the program's parameters point to
 *   uint32_t v = add_data(&p, JIT_f32, x, r.params); ...
 *   cuda_run_compare(&r, &p, 100);                the arrays are then as interpret() leaves them
 *   cuda_run_end(&r);
 *
 * On the device an array has exactly its size, so that the simulated driver finds every access
 * outside. */
#ifndef JITC_TESTS_CUDA_RUN_H
#define JITC_TESTS_CUDA_RUN_H
#include "cuda_world.h"
#include "device/backend.h"

enum { CUDA_RUN_ARRAYS = 96 };

typedef struct cuda_run_memory {
    void *host;
    size_t bytes;
    CUdeviceptr device;
    jit_dtype type;  /* for comparing */
    double relative; /* error that is allowed, relative to the reference or to 1; 0: equal bits */
} cuda_run_memory;

typedef struct cuda_run {
    uint64_t params[4096];
    cuda_run_memory array[CUDA_RUN_ARRAYS];
    size_t arrays;
    void *got[CUDA_RUN_ARRAYS]; /* what the device made of them */
} cuda_run;

/** The backend; the simulated driver, or a GPU. */
void cuda_run_start(void);
void cuda_run_stop(void);

/** For tests that do the steps on their own: the backend, its stream, memory of exactly so many
 * bytes, and a launch, waited for, that puts the address of scratch memory into `params`. */
jitc_backend *cuda_run_backend(void);
jitc_stream *cuda_run_stream(void);
CUdeviceptr cuda_run_alloc(size_t bytes);
void cuda_run_free(CUdeviceptr p);
void cuda_run_launch(const jitc_program *p, uint64_t lanes, uint64_t *params);

void cuda_run_begin(cuda_run *r);
cuda_run_memory *cuda_run_array(cuda_run *r, jit_dtype type, void *host, size_t elements);
/** On the device only: r->got[] is what the arrays are then. */
void cuda_run_device(cuda_run *r, const jitc_program *p, uint64_t lanes);
/** On the device, then on the host; the arrays have to be the same. `what` names it. */
void cuda_run_compare(cuda_run *r, const jitc_program *p, uint64_t lanes, const char *what);
/** The program is finished too. */
void cuda_run_end(cuda_run *r, jitc_program *p);
#endif
