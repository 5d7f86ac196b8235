/* share.c: arrays go from another library to this one and back, in place, by DLPack.
 *
 * The other library is the first half of this file: a producer of matrices and a consumer of them,
 * which know nothing of jitc. On the CPU they work in threads, on the GPU on a stream of their own,
 * through the driver. The second half is what a user of jitc writes.
 *
 *     theirs: a[i][j] = j  --import-->  ours: y = 2 a + k  --export-->  theirs: checks all of y
 *
 * Who waits: on a GPU the consumer's stream, on the device. The consumer tells the producer which
 * one that is; the CPU waits once, to look at the result. On the CPU there are no streams: a tensor
 * is handed over when its elements are there. */
#include <dlfcn.h>
#include <dlpack/dlpack.h> /* of https://github.com/dmlc/dlpack; many packages bring it along */
#include <jit/dlpack.h>
#include <jit/view.h> /* behind dlpack.h */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1000, COLUMNS = 300, BYTES = ROWS * COLUMNS * sizeof(float), NON_BLOCKING = 1 };

/* ---- The other library ---- */

/* What it calls of the driver, opened at run time. A result of 0 is success. */
#define DRIVER(X)                                                                                  \
    X(retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                            \
    X(release, "cuDevicePrimaryCtxRelease_v2", (int device))                                       \
    X(push, "cuCtxPushCurrent_v2", (void *context))                                                \
    X(pop, "cuCtxPopCurrent_v2", (void **context))                                                 \
    X(alloc, "cuMemAlloc_v2", (uintptr_t *pointer, size_t bytes))                                  \
    X(free, "cuMemFree_v2", (uintptr_t pointer))                                                   \
    X(fill, "cuMemsetD32Async", (uintptr_t to, unsigned word, size_t count, void *stream))         \
    X(download, "cuMemcpyDtoHAsync_v2", (void *to, uintptr_t from, size_t bytes, void *stream))    \
    X(stream_create, "cuStreamCreate", (void **stream, unsigned flags))                            \
    X(stream_destroy, "cuStreamDestroy_v2", (void *stream))                                        \
    X(sync, "cuStreamSynchronize", (void *stream))                                                 \
    X(event_create, "cuEventCreate", (void **event, unsigned flags))                               \
    X(event_destroy, "cuEventDestroy_v2", (void *event))                                           \
    X(record, "cuEventRecord", (void *event, void *stream))                                        \
    X(wait, "cuStreamWaitEvent", (void *stream, void *event, unsigned flags))

static struct {
#define FIELD(name, symbol, arguments) int(*name) arguments;
    DRIVER(FIELD)
    int error; /* the first one */
    void *context, *stream;
} cu;
#define CU(call) (cu.error = cu.error ? cu.error : cu.call)

static bool open_their_stream(void) {
    const char *path = getenv("JITC_LIBCUDA");
    void *driver = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW), *found;
#define FIND(name, symbol, arguments)                                                              \
    if (!driver || !(found = dlsym(driver, symbol)))                                               \
        return false;                                                                              \
    memcpy(&cu.name, &found, sizeof found);
    DRIVER(FIND)
    CU(retain(&cu.context, 0)); /* the one that jitc uses, too */
    CU(push(cu.context));
    return CU(stream_create(&cu.stream, NON_BLOCKING)) == 0; /* nothing orders it by itself */
}

/* A matrix of theirs, column by column: a[i][j] is at data[i + j * ROWS]. */
typedef struct matrix {
    DLManagedTensorVersioned tensor;
    int64_t shape[2], strides[2];
} matrix;

/* Called by whoever uses the matrix last, from any thread: no context need be current. */
static void matrix_delete(DLManagedTensorVersioned *t) {
    void *popped;
    if (t->dl_tensor.device.device_type != kDLCUDA) {
        free(t->dl_tensor.data);
    } else if (cu.push(cu.context) == 0) {
        cu.free((uintptr_t) t->dl_tensor.data);
        cu.pop(&popped);
    }
    free(t);
}

static void *fill_columns(void *a) {
    for (int64_t j = 0; j < COLUMNS; ++j)
        for (int64_t i = 0; i < ROWS; ++i)
            *(float *) jit_view_at(a, (int64_t[]) {i, j}) = (float) j;
    return NULL;
}

static void *run_in_thread(void *(*function)(void *), void *argument) {
    pthread_t thread;
    void *result;
    bool good = pthread_create(&thread, NULL, function, argument) == 0;
    return good && pthread_join(thread, &result) == 0 ? result : NULL;
}

/* The producer. What the consumer queues on `stream` from now on sees the values. */
static DLManagedTensorVersioned *produce(DLDeviceType device, void *stream) {
    uintptr_t memory = device == kDLCUDA ? 0 : (uintptr_t) malloc(BYTES);
    matrix *m = calloc(1, sizeof *m);
    unsigned word;
    void *event;
    if (device == kDLCUDA)
        CU(alloc(&memory, BYTES));
    if (!m || !memory)
        exit(1);
    m->shape[0] = ROWS, m->shape[1] = COLUMNS;
    jit_view_init(&m->tensor.dl_tensor, (void *) memory, JIT_f32, 2, m->shape, m->strides);
    m->strides[0] = 1, m->strides[1] = ROWS; /* not row by row, as jit_view_init() has it */
    m->tensor.dl_tensor.device.device_type = device;
    m->tensor.version = (DLPackVersion) {1, 0};
    m->tensor.deleter = matrix_delete;
    if (device != kDLCUDA) {
        run_in_thread(fill_columns, &m->tensor.dl_tensor);
        return &m->tensor;
    }
    for (uintptr_t j = 0; j < COLUMNS; ++j) {
        float value = (float) j;
        memcpy(&word, &value, sizeof word);
        CU(fill(memory + j * ROWS * sizeof value, word, ROWS, cu.stream));
    }
    CU(event_create(&event, 0));
    CU(record(event, cu.stream));
    CU(wait(stream, event, 0)); /* the consumer's stream waits for ours */
    CU(event_destroy(event));   /* does not end the wait */
    return &m->tensor;
}

/* The consumer: 2 a + k, where k counts the elements row by row? NULL if it is not. */
static void *check(void *y) {
    for (int64_t i = 0; i < ROWS; ++i)
        for (int64_t j = 0; j < COLUMNS; ++j) {
            const float *element = jit_view_at(y, (int64_t[]) {i, j});
            if (!element || *element != (float) (2 * j + i * COLUMNS + j))
                return NULL;
        }
    return y;
}

/* Takes the tensor. Of another major version only the deleter may be looked at. */
static bool consume(DLManagedTensorVersioned *t) {
    static float host[ROWS * COLUMNS];
    const DLTensor *y = &t->dl_tensor;
    bool good = t->version.major == 1 && jit_view_type(y->dtype) == JIT_f32 && y->ndim == 2 &&
                jit_view_is_contiguous(y) && jit_view_bytes(y) == sizeof host;
    if (good && y->device.device_type == kDLCUDA)
        CU(download(host, (uintptr_t) y->data, sizeof host, cu.stream)); /* queued, not done */
    else if (good)
        memcpy(host, y->data, sizeof host);
    DLTensor seen;
    int64_t shape[] = {ROWS, COLUMNS}, strides[2];
    t->deleter(t); /* already: what its stream still reads stays */
    if (cu.stream)
        CU(sync(cu.stream));
    return good && jit_view_init(&seen, host, JIT_f32, 2, shape, strides) &&
           run_in_thread(check, &seen);
}

/* ---- The user of jitc ---- */

static bool share(jit_backend b) {
    DLManagedTensorVersioned *y;
    jit_import_options in = JIT_IMPORT_OPTIONS;
    jit_export_options out = JIT_EXPORT_OPTIONS;
    void *stream = NULL;
    if (b == JIT_CUDA) {
        stream = jit_cuda_stream();             /* ours, which reads their matrix: */
        in.producer_stream = (intptr_t) stream; /* produce() has ordered it */
        out.stream = (intptr_t) cu.stream;      /* theirs, which reads our result */
    }
    jit_scope_push();
    jit_var a = 0, k = jit_cast(jit_counter(b, ROWS * COLUMNS), JIT_f32);
    jit_status status =
        jit_import_dlpack(produce(b == JIT_CUDA ? kDLCUDA : kDLCPU, stream), &in, &a);
    out.ndim = 2;
    out.shape = jit_var_shape(a); /* a has one; what is computed has one dimension */
    if (status == JIT_OK)         /* one kernel, which reads the columns where they are */
        status = jit_export_dlpack(jit_fma(a, jit_f32(b, 2), k), &out, &y);
    jit_scope_pop(0, NULL); /* what the tensor y needs stays */
    if (status != JIT_OK)
        fprintf(stderr, "%s\n", jit_error());
    bool good = status == JIT_OK && consume(y) && cu.error == 0;
    printf("%s: their matrix, our kernel, their reader: %s\n", b == JIT_CUDA ? "GPU" : "CPU",
           good ? "ok" : "WRONG");
    return good;
}

int main(void) {
    bool good = true;
    if (jit_init(JIT_LLVM | JIT_CUDA) != JIT_OK)
        return fprintf(stderr, "%s\n", jit_error()), 1;
    if (jit_has_backend(JIT_LLVM))
        good = share(JIT_LLVM);
    if (jit_has_backend(JIT_CUDA))
        good = open_their_stream() && share(JIT_CUDA) && good;
    jit_shutdown(); /* by now their deleter has been called */
    if (cu.stream) {
        CU(stream_destroy(cu.stream));
        CU(release(0));
    }
    return !good || cu.error != 0;
}
