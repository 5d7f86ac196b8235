/* cuda_run.c: programs run on the CUDA backend and on the host, side by side. */
#include "cuda_run.h"
#include "cuda/cuda_backend.h"
#include "interpret.h"
#include "programs.h"
#include "reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static cuda_world w;
static jitc_backend *b;
static jitc_stream *s;
static CUcontext context;

void cuda_run_start(void) {
    int count;
    static jitc_options o; /* the backend keeps it */
    w = cuda_world_find();
    jitc_options_init(&o);
    jit_status status = jitc_cuda_backend_create(&o, &b);
    if (status == JIT_UNAVAILABLE && !getenv("JITC_LIBCUDA"))
        support_skip("%s", jit_error());
    ASSERT_OK(status);
    cr_assert_null(jitc_backend_missing_slot(b));
    ASSERT_OK(b->device_count(b, &count));
    ASSERT_OK(b->stream_create(b, 0, &s));
    s->backend = b;
    s->device = 0;
    jitc_mutex_init(&s->lock);
    cr_assert(!w.CtxRetain(&context, 0) && !w.CtxPushCurrent(context));
}

void cuda_run_stop(void) {
    CUcontext popped;
    cr_assert(!w.CtxPopCurrent(&popped) && !w.CtxRelease(0));
    b->stream_destroy(s);
    b->destroy(b);
    cr_assert(!w.faults || !w.faults(), "the simulated driver found: %s", w.fault_text());
    cr_assert(!w.alive || !w.alive(NULL));
}

jitc_backend *cuda_run_backend(void) {
    return b;
}
jitc_stream *cuda_run_stream(void) {
    return s;
}

CUdeviceptr cuda_run_alloc(size_t bytes) {
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUdeviceptr p;
    *(void **) &alloc = support_driver("cuMemAlloc_v2");
    cr_assert_eq(alloc(&p, bytes), CUDA_SUCCESS);
    return p;
}

void cuda_run_free(CUdeviceptr p) {
    cr_assert(!w.MemFree(p));
}

static void *pointer(CUdeviceptr p) {
    return (void *) (uintptr_t) p; // NOLINT: an address on the device
}

void cuda_run_begin(cuda_run *r) {
    *r = (cuda_run) {0};
}

cuda_run_memory *cuda_run_array(cuda_run *r, jit_dtype type, void *host, size_t elements) {
    cr_assert_lt(r->arrays, (size_t) CUDA_RUN_ARRAYS);
    size_t bytes = elements * jitc_dtypes[type].bytes;
    r->array[r->arrays] = (cuda_run_memory) {
        .host = host, .bytes = bytes, .device = cuda_run_alloc(bytes ? bytes : 1), .type = type};
    return &r->array[r->arrays++];
}

void cuda_run_launch(const jitc_program *p, uint64_t lanes, uint64_t *params) {
    jitc_source *source;
    jitc_blob code;
    jitc_kernel *k;
    uint64_t number;
    const char *invalid = jitc_program_invalid(p);
    cr_assert_null(invalid, "%s", invalid);
    ASSERT_OK(b->lower(b, 0, p, &source));
    ASSERT_OK(b->compile(b, source, 2, &code));
    ASSERT_OK(b->load(b, 0, p, &code, &k));
    free(code.data);
    b->source_destroy(b, source);
    size_t scratch = b->scratch(k, lanes);
    CUdeviceptr working = scratch ? cuda_run_alloc(scratch) : 0;
    if (p->head.flags & JITC_PROGRAM_SCRATCH)
        params[p->head.scratch] = working;
    jitc_launch_args a = {.lanes = lanes, .params = params, .count = p->head.params};
    ASSERT_OK(b->launch(s, k, &a, &number));
    ASSERT_OK(b->flush(s));
    ASSERT_OK(b->wait(s, number));
    b->kernel_destroy(b, k);
    if (working)
        cuda_run_free(working);
}

/** The parameters with the addresses that the arrays have on the device. */
static void translate(const cuda_run *r, uint32_t count, uint64_t *params) {
    memcpy(params, r->params, count * sizeof *params);
    for (uint32_t i = 0; i < count; ++i)
        for (size_t k = 0; k < r->arrays; ++k)
            if (params[i] == (uintptr_t) r->array[k].host)
                params[i] = r->array[k].device;
}

void cuda_run_device(cuda_run *r, const jitc_program *p, uint64_t lanes) {
    static uint64_t params[4096];
    uint64_t number;
    for (size_t i = 0; i < r->arrays; ++i)
        if (r->array[i].bytes)
            ASSERT_OK(b->upload(s, pointer(r->array[i].device), r->array[i].host, r->array[i].bytes,
                                &number));
    translate(r, p->head.params, params);
    cuda_run_launch(p, lanes, params);
    for (size_t i = 0; i < r->arrays; ++i) {
        free(r->got[i]);
        r->got[i] = calloc(r->array[i].bytes + 1, 1);
        if (r->array[i].bytes)
            ASSERT_OK(b->download(s, r->got[i], pointer(r->array[i].device), r->array[i].bytes));
    }
}

static bool is_close(const cuda_run_memory *m, uint64_t expected, uint64_t got) {
    if (expected == got || (reference_is_nan(m->type, expected) && reference_is_nan(m->type, got)))
        return true;
    if (m->relative == 0)
        return false;
    double x = reference_to_double(m->type, expected), y = reference_to_double(m->type, got);
    return fabs(x - y) <= m->relative * fmax(1, fabs(x));
}

void cuda_run_compare(cuda_run *r, const jitc_program *p, uint64_t lanes, const char *what) {
    cuda_run_device(r, p, lanes);
    interpret(p, lanes, r->params);
    for (size_t i = 0; i < r->arrays; ++i) {
        const cuda_run_memory *m = &r->array[i];
        for (size_t k = 0; k < m->bytes / jitc_dtypes[m->type].bytes; ++k) {
            uint64_t x = read_element(m->type, m->host, k), y = read_element(m->type, r->got[i], k);
            cr_assert(is_close(m, x, y),
                      "%s, %llu lanes: element %zu of array %zu is %#llx, not %#llx", what,
                      (unsigned long long) lanes, k, i, (unsigned long long) y,
                      (unsigned long long) x);
        }
    }
}

void cuda_run_end(cuda_run *r, jitc_program *p) {
    for (size_t i = 0; i < r->arrays; ++i) {
        cuda_run_free(r->array[i].device);
        free(r->got[i]);
    }
    jitc_program_finish(p);
}
