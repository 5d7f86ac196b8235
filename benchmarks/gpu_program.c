/* gpu_program.c: programs run through the CUDA backend alone.
 * Layer: benchmarks. May include: core, ir, device, cuda. */
#include "gpu_program.h"
#include "cuda/cuda_backend.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The backend ---- */

bool gpu_check(jit_status status, const char *what) {
    if (status != JIT_OK)
        fprintf(stderr, "%s: %s\n", what, jit_error());
    return status == JIT_OK;
}

bool gpu_open(gpu *g) {
    static jitc_options options; /* the backend keeps it */
    jitc_options_init(&options);
    int count;
    if (!gpu_check(jitc_cuda_backend_create(&options, &g->backend), "opening CUDA") ||
        !gpu_check(g->backend->device_count(g->backend, &count), "counting devices") ||
        !gpu_check(g->backend->stream_create(g->backend, 0, &g->stream), "making a stream"))
        return false;
    g->stream->backend = g->backend;
    g->stream->device = 0;
    jitc_mutex_init(&g->stream->lock);
    return true;
}

void gpu_close(gpu *g) {
    g->backend->stream_destroy(g->stream);
    g->backend->destroy(g->backend);
}

bool gpu_alloc(gpu *g, size_t bytes, void **out) {
    return gpu_check(g->backend->alloc(g->backend, 0, (bytes + 1024) / 512 * 512, out), "memory");
}

void gpu_free(gpu *g, const void *p) {
    if (p)
        g->backend->free(g->backend, 0, (void *) (uintptr_t) p, 0);
}

void *gpu_peer(void) {
    const char *path = getenv("BENCH_PEER");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (path && !library)
        fprintf(stderr, "%s\n", dlerror());
    return library;
}

bool gpu_peer_check(int error) {
    if (error)
        fprintf(stderr, "the peer: error %d of the CUDA runtime\n", error);
    return !error;
}

/* ---- Programs ---- */

uint32_t program_add(gpu_program *w, jitc_inst i) {
    uint32_t index = 0;
    if (jitc_program_add(&w->p, i, &index) != JIT_OK)
        abort(); /* of a handful of instructions */
    return index;
}

uint32_t program_op(gpu_program *w, jitc_op op, jit_dtype t, uint32_t a, uint32_t b) {
    return program_add(w, (jitc_inst) {.op = (uint8_t) op, .type = (uint8_t) t, .a = a, .b = b});
}

uint32_t program_parameter(gpu_program *w, uint64_t value) {
    w->params[w->p.head.params] = value;
    return w->p.head.params++;
}

uint32_t program_baked(gpu_program *w, jit_dtype t, uint64_t bits) {
    return program_add(w, (jitc_inst) {.op = JITC_OP_literal,
                                       .type = (uint8_t) t,
                                       .flags = JITC_INST_BAKED,
                                       .b = (uint32_t) bits,
                                       .c = (uint32_t) (bits >> 32)});
}

uint32_t program_data(gpu_program *w, jit_dtype t, const void *p) {
    return program_op(w, JITC_OP_data, t, program_parameter(w, (uintptr_t) p), 0);
}

/* ---- Kernels ---- */

static bool compile(gpu *g, const jitc_program *p, jitc_kernel **out) {
    jitc_source *source;
    jitc_blob code;
    const char *wrong = jitc_program_invalid(p);
    if (wrong)
        fprintf(stderr, "wrong program: %s\n", wrong);
    if (wrong || !gpu_check(g->backend->lower(g->backend, 0, p, &source), "text"))
        return false;
    bool good = gpu_check(g->backend->compile(g->backend, source, 2, &code), "compiling");
    g->backend->source_destroy(g->backend, source);
    good = good && gpu_check(g->backend->load(g->backend, 0, p, &code, out), "loading");
    free(code.data);
    return good;
}

bool gpu_compile(gpu *g, gpu_program *w, uint64_t lanes, gpu_kernel *out) {
    *out = (gpu_kernel) {.lanes = lanes, .count = w->p.head.params};
    memcpy(out->params, w->params, sizeof out->params);
    bool good = compile(g, &w->p, &out->kernel);
    size_t scratch = good ? g->backend->scratch(out->kernel, lanes) : 0;
    good = good && (!scratch || gpu_alloc(g, scratch, &out->scratch));
    if (w->p.head.flags & JITC_PROGRAM_SCRATCH)
        out->params[w->p.head.scratch] = (uintptr_t) out->scratch;
    jitc_program_finish(&w->p);
    return good;
}

bool gpu_run(gpu *g, const gpu_kernel *k, size_t calls) {
    jitc_launch_args a = {.lanes = k->lanes, .params = k->params, .count = k->count};
    uint64_t number = 0;
    for (size_t i = 0; i < calls; ++i) {
        if (!gpu_check(g->backend->launch(g->stream, k->kernel, &a, &number), "launching"))
            return false;
        if (i % 64 == 63 && !gpu_check(g->backend->flush(g->stream), "handing over"))
            return false;
    }
    return gpu_check(g->backend->flush(g->stream), "handing over") &&
           gpu_check(g->backend->wait(g->stream, number), "waiting");
}

void gpu_release(gpu *g, gpu_kernel *k) {
    gpu_free(g, k->scratch);
    if (k->kernel)
        g->backend->kernel_destroy(g->backend, k->kernel);
    *k = (gpu_kernel) {0};
}

void gpu_release_all(gpu *g, gpu_kernel *k, const void *const *memory, size_t n) {
    for (size_t i = 0; i < n; ++i)
        gpu_free(g, memory[i]);
    gpu_release(g, k);
    g->backend->trim(g->backend, 0);
}

bool gpu_fill(gpu *g, gpu_program *w, uint32_t value, void *out, size_t n) {
    gpu_kernel k;
    uint32_t to = program_parameter(w, (uintptr_t) out);
    program_op(w, JITC_OP_store, (jit_dtype) w->p.inst[value].type, value, to);
    bool good = gpu_compile(g, w, n, &k) && gpu_run(g, &k, 1);
    gpu_release(g, &k);
    return good;
}
