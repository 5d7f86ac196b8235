/* bench_dlpack.c: what it costs to share arrays by DLPack: the calls, a loop, strided views; on the
 * CPU and, where there is one, on the GPU.
 * Layer: benchmarks. May include: <jit/dlpack.h>.
 *
 * BENCH_LARGEST is the binary logarithm of the largest arrays (24), for devices that are slow or
 * small. */
#include "dlpack/parts.h"

#include <stdio.h>
#include <stdlib.h>

double site_failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, jit_error());
    jit_error_clear();
    return -1;
}

jit_var site_array(const site *s, size_t count) {
    jit_scope_push();
    jit_var v = jit_cast(jit_counter(s->backend, count), JIT_f32);
    bool good = jit_var_eval(v) == JIT_OK;
    jit_scope_pop(good, &v);
    if (!good)
        site_failed("evaluating");
    return good ? v : 0;
}

void *site_alloc(const site *s, size_t bytes) {
    cuda_address address = 0;
    void *memory = NULL, *context;
    if (!s->device) {
        memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    } else {
        const cuda_driver *d = cuda_device_driver(s->device);
        d->push(cuda_device_context(s->device));
        if (cuda_driver_check(d, d->alloc(&address, bytes), "cuMemAlloc"))
            memory = (void *) (uintptr_t) address;
        d->pop(&context);
    }
    if (!memory)
        fprintf(stderr, "no %zu bytes\n", bytes);
    return memory;
}

void site_free(const site *s, void *memory) {
    void *context;
    if (!s->device) {
        free(memory);
        return;
    }
    const cuda_driver *d = cuda_device_driver(s->device);
    d->push(cuda_device_context(s->device));
    d->free((cuda_address) (uintptr_t) memory);
    d->pop(&context);
}

static void measure_site(site *s) {
    bool quick = bench_effort(s->bench) < 0;
    bench_set_budget(s->bench, quick ? 0 : 0.3);
    if (quick)
        bench_set_rounds(s->bench, 1);
    measure_costs(s);
    measure_loops(s);
    measure_strided(s);
}

static bool measure_gpu(site *s) {
    const cuda_driver *d = cuda_device_driver(s->device);
    char text[400];
    void *context;
    d->push(cuda_device_context(s->device)); /* of all that is done here */
    if (cuda_driver_check(d, d->stream_create(&s->stream, CUDA_STREAM_NON_BLOCKING),
                          "cuStreamCreate")) {
        measure_site(s);
        d->stream_destroy(s->stream);
    }
    d->pop(&context);
    cuda_device_describe(s->device, text, sizeof text);
    bench_note(s->bench, "%s", text);
    return !s->wrong;
}

int main(int argc, char **argv) {
    static const char *const who[] = {"jitc",   "legacy", "evaluate", "jit_data", "compact",
                                      "copied", "C",      "C tiled",  NULL};
    const char *text = getenv("BENCH_LARGEST");
    int largest = text ? atoi(text) : 24;
    bench *b = bench_create("dlpack", who, argc, argv);
    if (!b)
        return 2;
    if (jit_init(JIT_LLVM | JIT_CUDA) != JIT_OK) {
        site_failed("jit_init");
        bench_destroy(b);
        return 2;
    }
    site cpu = {.bench = b, .backend = JIT_LLVM, .name = "CPU", .largest = largest};
    site gpu = {.bench = b, .backend = JIT_CUDA, .name = "GPU", .largest = largest};
    bool good = true;
    if (jit_has_backend(JIT_LLVM)) {
        measure_site(&cpu);
        good = !cpu.wrong;
    }
    if (jit_has_backend(JIT_CUDA) && (gpu.device = cuda_device_open()))
        good = measure_gpu(&gpu) && good;
    bench_note(b, "export + deleter: of an evaluated array of 1024 f32; busy: the array is being "
                  "computed; legacy: the struct without a version. evaluate: tracing and "
                  "evaluating alone. GB/s count what is read and written once.");
    bench_note(b, "loop: each step computes an array, exports it, has it copied by the consumer, "
                  "and deletes the tensor at once; jit_data: the same without a tensor.");
    jit_shutdown();
    cuda_device_close(gpu.device);
    int status = bench_destroy(b);
    return status ? status : !good;
}
