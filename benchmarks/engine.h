/* engine.h: a tracing library as the benchmarks see it, so that each of them is written once.
 * Layer: benchmarks. May include: <jit/jit.h> in engine_jitc.c only. */
#ifndef BENCH_ENGINE_H
#define BENCH_ENGINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t engine_var;

typedef enum engine_function {
    ENGINE_SQRT,
    ENGINE_EXP,
    ENGINE_LOG,
    ENGINE_SIN,
    ENGINE_COS,
    ENGINE_ERF,
    ENGINE_FUNCTIONS
} engine_function;

typedef struct engine engine;
struct engine {
    const char *name;
    int backend; /* of jitc: a jit_backend */
    /* Called in measured loops: the library's own functions, without a wrapper. */
    engine_var (*add)(engine_var a, engine_var b);
    engine_var (*sub)(engine_var a, engine_var b);
    engine_var (*mul)(engine_var a, engine_var b);
    engine_var (*div)(engine_var a, engine_var b);
    engine_var (*fma)(engine_var a, engine_var b, engine_var c);
    void (*release)(engine_var v);
    /* Start anew, or change the number of threads; earlier variables are lost. */
    bool (*start)(const engine *e, int threads);
    void (*stop)(const engine *e);
    engine_var (*retain)(const engine *e, engine_var v);
    engine_var (*literal)(const engine *e, float value);
    engine_var (*floats)(const engine *e, const float *data, size_t size);
    engine_var (*indices)(const engine *e, const uint32_t *data, size_t size);
    engine_var (*gather)(const engine *e, engine_var source, engine_var index);
    engine_var (*unary)(const engine *e, engine_function f, engine_var a);
    engine_var (*pow)(const engine *e, engine_var a, engine_var b);
    /* NULL: not known of this library. The last gives numbers of elements of a that are below b. */
    engine_var (*sum)(const engine *e, engine_var a);
    engine_var (*prefix_sum)(const engine *e, engine_var a);
    engine_var (*compress_less)(const engine *e, engine_var a, engine_var b);
    bool (*evaluate)(const engine *e, engine_var v); /* launches, does not wait */
    void (*sync)(const engine *e);
    bool (*read)(const engine *e, engine_var v, float *destination, size_t size);
    void (*forget_memory)(const engine *e); /* give memory kept for reuse back */
    const struct engine_drjit_calls *drjit;
};

/* Fill *e. False: not installed (a reason goes to stderr). */
bool engine_jitc_open(engine *e);
bool engine_jitc_cuda_open(engine *e);
bool engine_drjit_open(engine *e);

/* A chain of `n` additions and multiplications of v by x or y, chosen by `seed`, each releasing the
 * value before it. New reference. */
engine_var engine_chain(const engine *e, engine_var x, engine_var y, size_t n, uint64_t seed);

#endif
