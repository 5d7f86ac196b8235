/* parts.h: what bench_dlpack is made of.  Layer: benchmarks. May include: <jit/dlpack.h>. */
#ifndef BENCH_DLPACK_PARTS_H
#define BENCH_DLPACK_PARTS_H
#include "bench.h"
#include "cuda_device.h"

#include <dlpack/dlpack.h>
#include <jit/dlpack.h>

/* One backend and, on a GPU, the stream of another library there. */
typedef struct site {
    bench *bench;
    jit_backend backend;
    const char *name;
    cuda_device *device; /* NULL on the CPU */
    void *stream;        /* non-blocking */
    int largest;         /* binary logarithm of the most elements of an array */
    bool wrong;          /* becomes true when a result or a count is not what it should be */
} site;

/* An evaluated array 0, 1, ... of `count` f32. 0, after a message, on failure. */
jit_var site_array(const site *s, size_t count);
/* Memory of another library, on the site. NULL, after a message, on failure. */
void *site_alloc(const site *s, size_t bytes);
void site_free(const site *s, void *memory);
/* Print the thread's error and forget it. Returns -1, a sample that failed. */
double site_failed(const char *what);

/* costs.c: exporting and importing by themselves. */
void measure_costs(site *s);
/* loop.c: step by step: produce, export, consume on another stream, delete. */
void measure_loops(site *s);
/* strided.c: reading a transposed matrix in place. */
void measure_strided(site *s);
#endif
