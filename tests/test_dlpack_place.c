/* Where the memory of a tensor is, and where its variable is to be: both backends at once, pinned
 * and managed memory, several GPUs, and addresses that are not what the tensor says. */
#include "cuda_foreign.h"
#include "dlpack_producer.h"
#include <stdlib.h>
#include <string.h>

static cuda_world w;

static void start(void) {
    w = cuda_world_simulated();
    if (!support_is_built(JIT_LLVM))
        support_skip("the CPU backend is not built");
    ASSERT_OK(jit_init(JIT_CUDA | JIT_LLVM));
}
TestSuite(dlpack_place, .init = start, .fini = support_shutdown, .timeout = 120);

static const int64_t shape[] = {9, 14}, compact[] = {14, 1}, transposed[] = {1, 9};
static const int64_t backwards[] = {-20, -1}, none[] = {0, 14};

/* All ways to lie in memory; the caller adds where. */
static const tensor_spec arrangements[] = {
    {JIT_f32, 2, shape, compact, .legacy = false},
    {JIT_f32, 2, shape, NULL, .legacy = true},
    {JIT_f64, 2, shape, transposed, .legacy = true},
    {JIT_u16, 2, shape, backwards, .legacy = false},
    {JIT_bool, 2, shape, transposed, .byte_offset = 3},
    {JIT_i32, 2, shape, compact, .off = 1},
    {JIT_i32, 2, shape, backwards, .off = 2, .at_start = true},
    {JIT_i64, 2, none, NULL, .legacy = false},
    {JIT_f32, 0, NULL, NULL, .byte_offset = 16},
};
/* Used in place, with what jit_data() gives. */
static bool is_compact(int i) {
    return i < 2 || i > 6;
}
enum { ARRANGEMENTS = sizeof arrangements / sizeof *arrangements };

static producer *make(int i, DLDeviceType device, int device_id) {
    tensor_spec spec = arrangements[i];
    spec.device = device;
    spec.device_id = device_id;
    return producer_create(&spec);
}

static void expect(const producer *p, jit_var v) {
    uint64_t *expected = producer_expected(p), *got = support_read(v, p->size);
    for (size_t i = 0; i < p->size; ++i)
        cr_assert_eq(got[i], expected[i], "element %zu is %#llx, not %#llx", i,
                     (unsigned long long) got[i], (unsigned long long) expected[i]);
    cr_assert_eq(jit_var_ndim(v), p->spec.ndim);
    for (int k = 0; k < p->spec.ndim; ++k)
        cr_assert_eq(jit_var_shape(v)[k], p->spec.shape[k]);
    free(expected), free(got);
}

/* Is the address of a variable that of the tensor? */
static bool is_in_place(jit_var v, const char *memory) {
    void *address;
    ASSERT_OK(jit_data(v, &address));
    return address == memory;
}

static jit_var take(producer *p, jit_backend backend, int copy) {
    jit_import_options o = JIT_IMPORT_OPTIONS;
    jit_var v = 0;
    o.backend = backend;
    o.copy = copy;
    ASSERT_OK(producer_import(p, &o, &v));
    return v;
}

static void refuse(producer *p, jit_backend backend, int copy, jit_status status,
                   const char *words) {
    jit_import_options o = JIT_IMPORT_OPTIONS;
    jit_var v = 77;
    o.backend = backend;
    o.copy = copy;
    jit_error_clear();
    cr_assert_eq(producer_import(p, &o, &v), status, "%s", jit_error());
    cr_assert(strstr(jit_error(), words), "'%s' is not in: %s", words, jit_error());
    cr_assert_eq(v, 0);
    producer_destroy(p);
    jit_error_clear();
}

/* ---- In place ---- */

/* Public references: jax#22346, jax#37896 (pinned memory is refused), pytorch#96318 (managed
 * memory), MatX#1234 (with a wrong device type). */
Test(dlpack_place, memory_goes_to_its_own_backend) {
    static const struct {
        DLDeviceType device;
        jit_backend backend;
    } cases[] = {{kDLCPU, JIT_LLVM},
                 {kDLCUDAHost, JIT_LLVM},
                 {kDLCUDA, JIT_CUDA},
                 {kDLCUDAManaged, JIT_CUDA}};
    for (int i = 0; i < 4 * ARRANGEMENTS; ++i) {
        producer *p = make(i / 4, cases[i % 4].device, 0);
        char *memory = p->memory;
        jit_var v =
            take(p, (jit_backend) 0, is_compact(i / 4) ? JIT_COPY_NEVER : JIT_COPY_IF_NEEDED);
        cr_assert_eq(jit_backend_of(v), cases[i % 4].backend);
        cr_assert_eq(jit_device_of(v), 0);
        expect(p, v);
        cr_assert_eq(is_compact(i / 4), is_in_place(v, memory));
        jit_unref(v);
        producer_destroy(p);
    }
}

Test(dlpack_place, pinned_memory_can_be_used_by_a_gpu_in_place) {
    for (int i = 0; i < ARRANGEMENTS; ++i) {
        producer *p = make(i, kDLCUDAHost, 0);
        char *memory = p->memory;
        jit_var v = take(p, JIT_CUDA, is_compact(i) ? JIT_COPY_NEVER : JIT_COPY_IF_NEEDED);
        cr_assert_eq(jit_backend_of(v), JIT_CUDA);
        expect(p, v);
        cr_assert(!p->size || is_compact(i) == is_in_place(v, memory));
        jit_unref(v);
        producer_destroy(p);
    }
}

/* Of another GPU; managed memory says 0 for its device and is where the driver tells. */
Test(dlpack_place, memory_of_a_second_gpu) {
    for (int i = 0; i < 2 * ARRANGEMENTS; ++i) {
        producer *p = make(i / 2, i % 2 ? kDLCUDAManaged : kDLCUDA, 1);
        jit_var v = take(p, (jit_backend) 0, JIT_COPY_IF_NEEDED);
        cr_assert_eq(jit_device_of(v), p->size || !(i % 2) ? 1 : 0);
        expect(p, v);
        jit_unref(v);
        producer_destroy(p);
    }
    cr_assert_eq(jit_device(JIT_CUDA), 0, "the thread's device stays");
}

/* Public reference: cuda-python#1863. */
Test(dlpack_place, managed_memory_may_be_called_memory_of_a_gpu_and_the_reverse) {
    for (int i = 0; i < 2; ++i) {
        producer *p = make(0, i ? kDLCUDAManaged : kDLCUDA, 0);
        p->tensor->device.device_type = i ? kDLCUDA : kDLCUDAManaged;
        jit_var v = take(p, (jit_backend) 0, JIT_COPY_NEVER);
        expect(p, v);
        jit_unref(v);
        producer_destroy(p);
    }
}

/* XLA counts several devices on one host. */
Test(dlpack_place, the_number_of_a_cpu_means_nothing) {
    for (int i = 0; i < 2; ++i) {
        producer *p = make(0, i ? kDLCUDAHost : kDLCPU, 0);
        p->tensor->device.device_id = 1 + i;
        jit_var v = take(p, (jit_backend) 0, JIT_COPY_NEVER);
        expect(p, v);
        jit_unref(v);
        producer_destroy(p);
    }
}

/* ---- Copies ---- */

Test(dlpack_place, memory_of_the_cpu_is_copied_to_a_gpu) {
    for (int i = 0; i < ARRANGEMENTS; ++i) {
        producer *p = make(i, kDLCPU, 0);
        jit_var v = take(p, JIT_CUDA, JIT_COPY_IF_NEEDED);
        cr_assert_eq(atomic_load(&p->deleted), 1, "it is not needed any more");
        cr_assert_eq(jit_backend_of(v), JIT_CUDA);
        expect(p, v);
        jit_unref(v);
        producer_destroy(p);
    }
}

Test(dlpack_place, memory_of_a_gpu_is_copied_to_the_cpu) {
    for (int i = 0; i < 2 * ARRANGEMENTS; ++i) {
        producer *p = make(i / 2, i % 2 ? kDLCUDAManaged : kDLCUDA, 1);
        jit_var v = take(p, JIT_LLVM, JIT_COPY_IF_NEEDED);
        cr_assert_eq(jit_backend_of(v), JIT_LLVM);
        cr_assert_eq(producer_deleted(p), 1, "it is not needed any more");
        expect(p, v);
        jit_var sum = jit_eq(v, v);
        cr_assert_eq(jit_size(sum), p->size);
        ASSERT_OK(jit_var_eval(sum));
        jit_unref(sum);
        jit_unref(v);
        producer_destroy(p);
    }
}

Test(dlpack_place, nothing_is_copied_if_it_must_not_be) {
    refuse(make(0, kDLCPU, 0), JIT_CUDA, JIT_COPY_NEVER, JIT_UNSUPPORTED, "JIT_COPY_NEVER");
    refuse(make(0, kDLCUDA, 0), JIT_LLVM, JIT_COPY_NEVER, JIT_UNSUPPORTED, "JIT_COPY_NEVER");
    refuse(make(0, kDLCUDAManaged, 0), JIT_LLVM, JIT_COPY_NEVER, JIT_UNSUPPORTED, "JIT_COPY_NEVER");
    for (int i = 5; i <= 6; ++i) {
        refuse(make(i, kDLCPU, 0), 0, JIT_COPY_NEVER, JIT_UNSUPPORTED, "multiples of their size");
        refuse(make(i, kDLCUDA, 0), 0, JIT_COPY_NEVER, JIT_UNSUPPORTED, "multiples of their size");
    }
    producer *p = make(7, kDLCPU, 0); /* there is nothing to copy */
    jit_unref(take(p, JIT_CUDA, JIT_COPY_NEVER));
    producer_destroy(p);
}

/* One element for 2^32: on the GPU there is no more of it, and nobody writes so many. */
Test(dlpack_place, what_is_there_several_times_is_copied_once) {
    static const int64_t many[] = {1 << 16, 1 << 16}, zeros[] = {0, 0};
    uint32_t word = 12345;
    DLManagedTensorVersioned t = {{1, 3},
                                  NULL,
                                  NULL,
                                  0,
                                  {&word,
                                   {kDLCPU, 0},
                                   2,
                                   {kDLUInt, 32, 1},
                                   (int64_t *) (uintptr_t) many,
                                   (int64_t *) (uintptr_t) zeros,
                                   0}};
    jit_import_options o = JIT_IMPORT_OPTIONS;
    jit_var v = 0;
    o.backend = JIT_CUDA;
    ASSERT_OK(jit_import_dlpack(&t, &o, &v));
    cr_assert_eq(jit_size(v), (size_t) 1 << 32);
    jit_stats stats;
    ASSERT_OK(jit_get_stats(&stats));
    cr_assert_lt(stats.bytes_live, 1 << 20);
    jit_unref(v);
}

/* Who has a copy does not see what the producer writes later. */
Test(dlpack_place, a_copy_is_seen_by_nobody_else) {
    static const DLDeviceType devices[] = {kDLCPU, kDLCUDAHost, kDLCUDAManaged};
    for (int i = 0; i < 3 * ARRANGEMENTS; ++i) {
        tensor_spec spec = arrangements[i / 3];
        spec.device = devices[i % 3];
        spec.keeps = true;
        producer *p = producer_create(&spec);
        char *memory = p->memory;
        jit_var v = take(p, (jit_backend) 0, JIT_COPY_ALWAYS);
        cr_assert_eq(producer_deleted(p), 1, "it is not needed any more");
        if (memory)
            memset(memory, 0x5a, p->elements * jit_dtype_size(spec.type));
        expect(p, v);
        cr_assert(!is_in_place(v, memory) || !p->size);
        jit_unref(v);
        producer_destroy(p);
    }
}

/* ---- What the driver knows better ---- */

Test(dlpack_place, an_address_has_to_be_of_the_device) {
    producer *p = make(0, kDLCPU, 0);
    p->tensor->device = (DLDevice) {kDLCUDA, 0};
    refuse(p, 0, 0, JIT_INVALID_ARGUMENT, "pageable host memory");
    p = make(0, kDLCUDAHost, 0);
    p->tensor->device = (DLDevice) {kDLCUDA, 0};
    refuse(p, 0, 0, JIT_INVALID_ARGUMENT, "pinned host memory");
    p = make(0, kDLCUDA, 1);
    p->tensor->device.device_id = 0;
    refuse(p, 0, 0, JIT_INVALID_ARGUMENT, "memory of another device");
    p = make(2, kDLCPU, 0);
    p->tensor->device = (DLDevice) {kDLCUDAManaged, 0};
    refuse(p, 0, 0, JIT_INVALID_ARGUMENT, "pageable host memory");
    static const int ids[] = {-1, 2, 99, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 10; ++i) {
        p = make(i % 2 ? 7 : 0, kDLCUDA, 0); /* also without elements */
        p->tensor->device.device_id = ids[i / 2];
        refuse(p, 0, 0, JIT_INVALID_ARGUMENT, "CUDA device");
    }
}

/* ---- Streams ---- */

/* What is being captured does not run, and cannot be waited for. The capture goes on. */
Test(dlpack_place, a_stream_that_is_captured_cannot_be_waited_for) {
    foreign f = foreign_find();
    CUgraph graph;
    foreign_enter(0);
    CUstream stream = foreign_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 2; ++i) {
        tensor_spec spec = arrangements[2 * i];
        spec.device = i ? kDLCUDAHost : kDLCUDA;
        spec.keeps = true; /* to free it would end the capture */
        producer *p = producer_create(&spec);
        jit_import_options o = JIT_IMPORT_OPTIONS;
        jit_var v;
        o.producer_stream = (intptr_t) stream;
        CU_OK(f.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        cr_assert_eq(producer_import(p, &o, &v), JIT_UNSUPPORTED);
        cr_assert(strstr(jit_error(), "captured"), "%s", jit_error());
        CU_OK(f.StreamEndCapture(stream, &graph));
        CU_OK(f.GraphDestroy(graph));
        producer_destroy(p);
        jit_error_clear();
    }
    CU_OK(f.StreamDestroy(stream));
    foreign_leave(0);
}

/* Pinned memory that a stream fills is there when the import returns, if the stream is named. */
Test(dlpack_place, the_cpu_waits_for_who_writes_pinned_memory) {
    static const uint32_t zeros[9 * 14];
    foreign f = foreign_find();
    foreign_enter(0);
    CUstream stream = foreign_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 20; ++i) {
        producer *p = make(i % 2 ? 2 : 0, kDLCUDAHost, 0);
        size_t bytes = p->elements * jit_dtype_size(p->spec.type);
        uint64_t *expected = producer_expected(p);
        void *contents = malloc(bytes);
        jit_var from = jit_from_host(JIT_CUDA, JIT_u8, p->memory, bytes), v = 0;
        jit_import_options o = JIT_IMPORT_OPTIONS;
        void *there;
        ASSERT_OK(jit_data(from, &there));
        ASSERT_OK(jit_sync_thread());
        memset(p->memory, 0, bytes);
        CU_OK(f.MemcpyDtoHAsync(p->memory, (uintptr_t) there, bytes, stream));
        o.producer_stream = (intptr_t) stream;
        ASSERT_OK(producer_import(p, &o, &v));
        memcpy(contents, p->memory, bytes);
        cr_assert(memcmp(contents, zeros, sizeof zeros < bytes ? sizeof zeros : bytes),
                  "the memory is not written yet");
        expect(p, v);
        jit_unref(v), jit_unref(from);
        producer_destroy(p);
        free(expected), free(contents);
    }
    CU_OK(f.StreamDestroy(stream));
    foreign_leave(0);
}

/* ---- Failures ---- */

typedef struct way {
    int arrangement;
    DLDeviceType device;
    jit_backend backend;
    int copy;
} way;

/* Import and use a tensor while the n-th call from now of a function of the driver fails. Whatever
 * comes of it, the tensor is given back once. */
static bool fails(const way *x, const char *function, int n) {
    tensor_spec spec = arrangements[x->arrangement];
    spec.device = x->device;
    spec.keeps = true; /* what does not work may as well be the test's own call */
    ASSERT_OK(jit_init(JIT_CUDA | JIT_LLVM));
    producer *p = producer_create(&spec);
    jit_import_options o = JIT_IMPORT_OPTIONS;
    jit_var v = 0;
    uint64_t bits[126];
    uint64_t before = w.calls(function);
    o.backend = x->backend;
    o.copy = x->copy;
    o.producer_stream = x->device == kDLCPU ? JIT_STREAM_NONE : JIT_STREAM_PER_THREAD;
    w.fail(function, n, CUDA_ERROR_OUT_OF_MEMORY);
    jit_status status = producer_import(p, &o, &v);
    cr_assert_eq(v != 0, status == JIT_OK);
    if (status == JIT_OK)
        status = jit_read(v, bits);
    jit_unref(v);
    bool called = w.calls(function) - before >= (uint64_t) n;
    w.fail(function, 0, 0);
    jit_shutdown();
    producer_destroy(p);
    jit_error_clear();
    return called;
}

Test(dlpack_place, whatever_fails_the_tensor_is_given_back_once) {
    static const char *const functions[] = {
        "cuPointerGetAttributes",  "cuStreamCreate",       "cuEventCreate",
        "cuStreamIsCapturing",     "cuEventRecord",        "cuStreamWaitEvent",
        "cuMemAllocFromPoolAsync", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",    "cuMemHostAlloc",       "cuEventSynchronize",
        "cuGraphLaunch",           "cuModuleLoadDataEx"};
    static const way ways[] = {{0, kDLCUDA, JIT_CUDA, 0},     {2, kDLCUDA, JIT_CUDA, 1},
                               {5, kDLCUDA, JIT_CUDA, 0},     {2, kDLCUDA, JIT_LLVM, 0},
                               {2, kDLCPU, JIT_CUDA, 0},      {0, kDLCUDAHost, JIT_CUDA, 0},
                               {0, kDLCUDAHost, JIT_LLVM, 0}, {6, kDLCUDAManaged, JIT_CUDA, 1}};
    jit_shutdown();
    for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i)
        for (size_t k = 0; k < sizeof ways / sizeof *ways; ++k)
            for (int n = 1; n < 8 && fails(&ways[k], functions[i], n); ++n) {
            }
    ASSERT_OK(jit_init(JIT_CUDA | JIT_LLVM));
}
