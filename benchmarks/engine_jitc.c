/* engine_jitc.c: this library.
 * Layer: benchmarks. May include: <jit/jit.h>. */
#include "engine.h"

#include <jit/jit.h>
#include <stdio.h>

static void stop(const engine *e) {
    (void) e;
    jit_shutdown();
}

static jit_backend backend(const engine *e) {
    return (jit_backend) e->backend;
}

static bool start(const engine *e, int threads) {
    char text[16];
    stop(e);
    snprintf(text, sizeof text, "%d", threads);
    if (jit_set_option("num_threads", text) == JIT_OK && jit_init((unsigned) e->backend) == JIT_OK)
        return true;
    fprintf(stderr, "jitc: %s\n", jit_error());
    return false;
}

static engine_var retain(const engine *e, engine_var v) {
    (void) e;
    return jit_ref(v);
}

static engine_var literal(const engine *e, float value) {
    return jit_f32(backend(e), value);
}

static engine_var floats(const engine *e, const float *data, size_t size) {
    return jit_from_host(backend(e), JIT_f32, data, size);
}

static engine_var indices(const engine *e, const uint32_t *data, size_t size) {
    return jit_from_host(backend(e), JIT_u32, data, size);
}

static engine_var gather(const engine *e, engine_var source, engine_var index) {
    (void) e;
    return jit_gather(source, index, 0);
}

static engine_var unary(const engine *e, engine_function f, engine_var a) {
    static jit_var (*const functions[ENGINE_FUNCTIONS])(jit_var) = {
        [ENGINE_SQRT] = jit_sqrt, [ENGINE_EXP] = jit_exp, [ENGINE_LOG] = jit_log,
        [ENGINE_SIN] = jit_sin,   [ENGINE_COS] = jit_cos, [ENGINE_ERF] = jit_erf};
    (void) e;
    return functions[f](a);
}

static engine_var power(const engine *e, engine_var a, engine_var b) {
    (void) e;
    return jit_pow(a, b);
}

static engine_var sum(const engine *e, engine_var a) {
    (void) e;
    return jit_reduce(JIT_REDUCE_ADD, a);
}

static engine_var prefix_sum(const engine *e, engine_var a) {
    (void) e;
    return jit_prefix_reduce(JIT_REDUCE_ADD, a, false, false);
}

static engine_var compress_less(const engine *e, engine_var a, engine_var b) {
    jit_var mask = jit_lt(a, b), numbers = 0, count = 0;
    (void) e;
    jit_compress_padded(mask, &numbers, &count);
    jit_unref(count);
    jit_unref(mask);
    return numbers;
}

static bool evaluate(const engine *e, engine_var v) {
    (void) e;
    if (jit_var_eval(v) == JIT_OK)
        return true;
    fprintf(stderr, "jitc: %s\n", jit_error());
    jit_error_clear();
    return false;
}

static void synchronise(const engine *e) {
    (void) e;
    jit_sync_thread();
}

static bool read_floats(const engine *e, engine_var v, float *destination, size_t size) {
    (void) e;
    return jit_read_range(v, 0, size, destination) == JIT_OK;
}

static void forget_memory(const engine *e) {
    (void) e;
}

bool engine_jitc_open(engine *e) {
    *e = (engine) {.name = "jitc",
                   .backend = JIT_LLVM,
                   .add = jit_add,
                   .sub = jit_sub,
                   .mul = jit_mul,
                   .div = jit_div,
                   .fma = jit_fma,
                   .release = jit_unref,
                   .start = start,
                   .stop = stop,
                   .retain = retain,
                   .literal = literal,
                   .floats = floats,
                   .indices = indices,
                   .gather = gather,
                   .unary = unary,
                   .pow = power,
                   .sum = sum,
                   .prefix_sum = prefix_sum,
                   .compress_less = compress_less,
                   .evaluate = evaluate,
                   .sync = synchronise,
                   .read = read_floats,
                   .forget_memory = forget_memory};
    return true;
}

bool engine_jitc_cuda_open(engine *e) {
    engine_jitc_open(e);
    e->backend = JIT_CUDA;
    return true;
}
