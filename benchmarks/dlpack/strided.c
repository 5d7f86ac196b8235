/* strided.c: 2 a + 1 over a matrix, which is read as it lies: row by row, and transposed; beside a
 * copy that is made before, and loops written by hand.
 * Layer: benchmarks. May include: <jit/dlpack.h>. */
#include "dlpack/parts.h"
#include "peers/hand.h"

#include <stdlib.h>
#include <string.h>

static const double fill_ns = 5e6;

typedef struct matrix {
    DLManagedTensorVersioned tensor;
    int64_t shape[2], strides[2];
    jit_var v;
    size_t side;
    const site *site;
} matrix;

typedef struct hand {
    void (*function)(float *restrict z, const float *x, size_t side);
    float *z;
    const float *x;
    size_t side;
} hand;

static void keep(DLManagedTensorVersioned *t) {
    (void) t; /* the memory is somebody else's */
}

static bool import(matrix *m, const site *s, void *memory, bool transposed, int copy) {
    jit_import_options options = JIT_IMPORT_OPTIONS;
    options.copy = copy;
    options.producer_stream = JIT_STREAM_NONE;
    m->site = s;
    m->shape[0] = m->shape[1] = (int64_t) m->side;
    m->strides[transposed] = (int64_t) m->side;
    m->strides[!transposed] = 1;
    m->tensor =
        (DLManagedTensorVersioned) {.version = {1, 0},
                                    .deleter = keep,
                                    .dl_tensor = {.data = memory,
                                                  .device = {s->device ? kDLCUDA : kDLCPU, 0},
                                                  .ndim = 2,
                                                  .dtype = {kDLFloat, 32, 1},
                                                  .shape = m->shape,
                                                  .strides = m->strides}};
    return jit_import_dlpack(&m->tensor, &options, &m->v) == JIT_OK;
}

static jit_var trace(const matrix *m) {
    jit_backend b = m->site->backend;
    return jit_add(jit_mul(m->v, jit_f32(b, 2)), jit_f32(b, 1));
}

static double sample(void *context) {
    const matrix *m = context;
    for (size_t calls = 1;; calls *= 2) {
        double start = bench_now();
        bool good = true;
        for (size_t i = 0; i < calls && good; ++i) {
            jit_scope_push();
            good = jit_var_eval(trace(m)) == JIT_OK;
            good = jit_scope_pop(0, NULL) == JIT_OK && good;
        }
        if (!good || jit_sync_thread() != JIT_OK)
            return site_failed("evaluating");
        double elapsed = bench_now() - start;
        if (elapsed >= fill_ns)
            return elapsed / (double) calls;
    }
}

static void run_by_hand(void *context) {
    const hand *h = context;
    h->function(h->z, h->x, h->side);
}

static double sample_hand(void *context) {
    return bench_per_call(run_by_hand, context, fill_ns);
}

/* The memory holds 0, 1, 2, ...; `z` has room for the result. */
static bool is_right(const matrix *m, float *z) {
    jit_scope_push();
    bool good = jit_read(trace(m), z) == JIT_OK;
    jit_scope_pop(0, NULL);
    for (size_t i = 0; i < m->side && good; ++i)
        for (size_t j = 0; j < m->side && good; ++j)
            good = z[i * m->side + j] ==
                   2 * (float) (i * (size_t) m->strides[0] + j * (size_t) m->strides[1]) + 1;
    return good;
}

static void measure(site *s, bench_row *row, matrix m[3], float *x, float *z) {
    size_t side = m[0].side;
    hand plain = {hand_transposed, z, x, side}, tiled = {hand_transposed_tiled, z, x, side};
    if (!s->device)
        row->goal = (bench_goal) {1, "C"};
    bench_row_add(row, "jitc", sample, &m[0]);
    bench_row_add(row, "compact", sample, &m[1]);
    bench_row_add(row, "copied", sample, &m[2]);
    if (!s->device) {
        bench_row_add(row, "C", sample_hand, &plain);
        bench_row_add(row, "C tiled", sample_hand, &tiled);
    }
    bench_measure(s->bench, row);
}

static bool fill(const site *s, void *memory, const float *x, size_t bytes) {
    if (!s->device)
        return memcpy(memory, x, bytes) != NULL;
    const cuda_driver *d = cuda_device_driver(s->device);
    return d->upload((cuda_address) (uintptr_t) memory, x, bytes, s->stream) == 0 &&
           d->sync(s->stream) == 0;
}

/* The same memory transposed, row by row, and transposed into a copy. */
static bool import_all(matrix m[3], const site *s, void *memory) {
    return import(&m[0], s, memory, true, JIT_COPY_NEVER) &&
           import(&m[1], s, memory, false, JIT_COPY_NEVER) &&
           import(&m[2], s, memory, true, JIT_COPY_ALWAYS);
}

void measure_strided(site *s) {
    size_t side = s->largest < 24 ? (size_t) 1 << s->largest / 2 : 4096;
    size_t bytes = side * side * sizeof(float);
    bench_row row = bench_row_rate(2.0 * (double) bytes, 0, "2 a + 1, transposed, %s, %zu^2 f32",
                                   s->name, side);
    if (!bench_wants(s->bench, row.name))
        return;
    matrix m[3] = {{.side = side}, {.side = side}, {.side = side}};
    float *x = aligned_alloc(256, bytes), *z = aligned_alloc(256, bytes);
    void *memory = site_alloc(s, bytes);
    for (size_t i = 0; x && i < side * side; ++i)
        x[i] = (float) i; /* exact up to 2^24 */
    if (!x || !z || !memory || !fill(s, memory, x, bytes) || !import_all(m, s, memory)) {
        s->wrong = site_failed("importing matrices") < 0;
    } else if (is_right(&m[0], z) && is_right(&m[1], z) && is_right(&m[2], z)) {
        measure(s, &row, m, x, z);
    } else {
        fprintf(stderr, "WRONG: 2 a + 1 of a matrix %s\n", jit_error());
        s->wrong = true;
    }
    for (int k = 0; k < 3; ++k)
        jit_unref(m[k].v);
    jit_sync_thread();
    site_free(s, memory);
    free(x);
    free(z);
}
