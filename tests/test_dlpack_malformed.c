/* Tensors that cannot be imported: each one is refused with a message that tells why, its deleter
 * is called once, and nothing that it points to is touched. */
#include "dlpack_producer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

TestSuite(dlpack_malformed, .init = support_init, .fini = support_shutdown, .timeout = 120);

static int deleted;
static void count_deleter(DLManagedTensorVersioned *t) {
    (void) t;
    ++deleted;
}
static void count_legacy(DLManagedTensor *t) {
    (void) t;
    ++deleted;
}

/* Memory that cannot be read at all: of the host, or of nobody. */
static void *untouchable(void) {
    static void *pages;
    if (!pages)
        pages = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages;
}

static int64_t shape[65] = {2, 3}, strides[65] = {3, 1};

/* A tensor of 2 x 3 floats which is right. */
static DLManagedTensorVersioned valid(void) {
    memset(shape, 0, sizeof shape);
    memset(strides, 0, sizeof strides);
    shape[0] = 2, shape[1] = 3;
    strides[0] = 3, strides[1] = 1;
    return (DLManagedTensorVersioned) {.version = {1, 3},
                                       .deleter = count_deleter,
                                       .dl_tensor = {.data = untouchable(),
                                                     .device = {kDLCPU, 0},
                                                     .ndim = 2,
                                                     .dtype = {kDLFloat, 32, 1},
                                                     .shape = shape,
                                                     .strides = strides}};
}

/* By both functions; `words` are in the message. */
static void refuse_with(DLManagedTensorVersioned t, const jit_import_options *o, jit_status status,
                        const char *words) {
    DLManagedTensor legacy = {.dl_tensor = t.dl_tensor, .deleter = count_legacy};
    for (int i = 0; i < 2; ++i) {
        jit_var v = 77;
        deleted = 0;
        jit_error_clear();
        jit_status got =
            i ? jit_import_dlpack_legacy(&legacy, o, &v) : jit_import_dlpack(&t, o, &v);
        cr_assert_eq(got, status, "%s, not %s: %s", jit_status_name(got), jit_status_name(status),
                     jit_error());
        cr_assert(strstr(jit_error(), words), "'%s' is not in: %s", words, jit_error());
        cr_assert(strstr(jit_error(), i ? "jit_import_dlpack_legacy: " : "jit_import_dlpack: ") ||
                      status == JIT_UNAVAILABLE,
                  "%s", jit_error());
        cr_assert_eq(v, 0);
        cr_assert_eq(deleted, 1, "the deleter was called %d times", deleted);
    }
    jit_error_clear();
}
static void refuse(DLManagedTensorVersioned t, jit_status status, const char *words) {
    refuse_with(t, NULL, status, words);
}

Test(dlpack_malformed, dimensions) {
    static const int32_t bad[] = {-1, -2147483647 - 1, 65, 200, 2147483647};
    for (int i = 0; i < 5; ++i) {
        DLManagedTensorVersioned t = valid();
        char words[32];
        t.dl_tensor.ndim = bad[i];
        snprintf(words, sizeof words, "%d dimensions", bad[i]);
        refuse(t, bad[i] < 0 ? JIT_INVALID_ARGUMENT : JIT_UNSUPPORTED, words);
    }
    DLManagedTensorVersioned t = valid();
    t.dl_tensor.shape = NULL;
    refuse(t, JIT_INVALID_ARGUMENT, "shape is NULL");
    t.dl_tensor.strides = NULL;
    refuse(t, JIT_INVALID_ARGUMENT, "shape is NULL");
}

Test(dlpack_malformed, sizes) {
    DLManagedTensorVersioned t = valid();
    shape[1] = -1;
    refuse(t, JIT_INVALID_ARGUMENT, "dimension 1 has size -1");
    shape[0] = 0; /* there would be no elements */
    refuse(t, JIT_INVALID_ARGUMENT, "dimension 1 has size -1");
    shape[0] = INT64_MIN;
    refuse(t, JIT_INVALID_ARGUMENT, "-9223372036854775808");
    shape[0] = INT64_MAX, shape[1] = INT64_MAX; /* the product is 1, modulo 2^64 */
    refuse(t, JIT_INVALID_ARGUMENT, "elements");
    shape[0] = (int64_t) 1 << 32, shape[1] = (int64_t) 1 << 32; /* 0 */
    refuse(t, JIT_INVALID_ARGUMENT, "elements");
    strides[0] = strides[1] = 0; /* no address overflows */
    refuse(t, JIT_INVALID_ARGUMENT, "elements");
    shape[0] = (int64_t) 1 << 20, shape[1] = ((int64_t) 1 << 20) + 1;
    refuse(t, JIT_INVALID_ARGUMENT, "2^40");
    t = valid();
    shape[0] = (int64_t) 1 << 61, shape[1] = 1; /* so many bytes as 64 bits can count, and more */
    refuse(t, JIT_INVALID_ARGUMENT, "addresses");
    t.dl_tensor.strides = NULL;
    refuse(t, JIT_INVALID_ARGUMENT, "addresses");
}

Test(dlpack_malformed, strides) {
    static const int64_t bad[] = {INT64_MAX, INT64_MIN, (int64_t) 1 << 61, -((int64_t) 1 << 61)};
    for (int i = 0; i < 8; ++i) {
        DLManagedTensorVersioned t = valid();
        strides[i % 2] = bad[i / 2];
        refuse(t, JIT_INVALID_ARGUMENT, "addresses");
    }
    DLManagedTensorVersioned t = valid(); /* each is right, both together are not */
    shape[0] = shape[1] = 2;
    strides[0] = strides[1] = (int64_t) 1 << 60;
    refuse(t, JIT_INVALID_ARGUMENT, "addresses");
    strides[0] = strides[1] = -((int64_t) 1 << 60);
    refuse(t, JIT_INVALID_ARGUMENT, "addresses");
    strides[1] = 1;
    strides[0] = -(int64_t) ((uintptr_t) untouchable() / 4) - 1; /* below 0 */
    refuse(t, JIT_INVALID_ARGUMENT, "addresses");
    strides[0] = (int64_t) 1 << 41; /* an address there may be, but not so many elements */
    refuse(t, JIT_INVALID_ARGUMENT, "2^40");
}

Test(dlpack_malformed, data) {
    DLManagedTensorVersioned t = valid();
    t.dl_tensor.data = NULL;
    refuse(t, JIT_INVALID_ARGUMENT, "data is NULL");
    t.dl_tensor.byte_offset = 4096;
    refuse(t, JIT_INVALID_ARGUMENT, "data is NULL");
    t = valid();
    t.dl_tensor.byte_offset = UINT64_MAX;
    refuse(t, JIT_INVALID_ARGUMENT, "byte_offset");
    t.dl_tensor.data = (void *) UINTPTR_MAX;
    t.dl_tensor.byte_offset = 0;
    refuse(t, JIT_INVALID_ARGUMENT, "addresses");
}

/* Public references: jax#19352 and others (bool as bits), cuda-python#1168. */
Test(dlpack_malformed, types) {
    static const struct {
        DLDataType type;
        const char *words;
    } bad[] = {
        {{kDLFloat, 32, 0}, "0 x 32 bits of type float"},
        {{kDLFloat, 32, 4}, "4 x 32 bits of type float"},
        {{kDLInt, 128, 1}, "128 bits of type int"},
        {{kDLInt, 4, 1}, "4 bits of type int"},
        {{kDLUInt, 1, 1}, "1 bits of type uint"},
        {{kDLFloat, 80, 1}, "80 bits of type float"},
        {{kDLFloat, 8, 1}, "8 bits of type float"},
        {{kDLBfloat, 32, 1}, "32 bits of type bfloat"},
        {{kDLBool, 1, 1}, "1 bits of type bool"},
        {{kDLBool, 8, 2}, "2 x 8 bits of type bool"},
        {{kDLBool, 32, 1}, "32 bits of type bool"},
        {{kDLOpaqueHandle, 64, 1}, "opaque handle"},
        {{kDLComplex, 64, 1}, "64 bits of type complex"},
        {{kDLComplex, 128, 1}, "128 bits of type complex"},
        {{kDLFloat8_e3m4, 8, 1}, "float8_e3m4"},
        {{kDLFloat8_e4m3, 8, 1}, "float8_e4m3"},
        {{kDLFloat8_e4m3b11fnuz, 8, 1}, "float8_e4m3b11fnuz"},
        {{kDLFloat8_e4m3fn, 8, 1}, "float8_e4m3fn"},
        {{kDLFloat8_e4m3fnuz, 8, 1}, "float8_e4m3fnuz"},
        {{kDLFloat8_e5m2, 8, 1}, "float8_e5m2"},
        {{kDLFloat8_e5m2fnuz, 8, 1}, "float8_e5m2fnuz"},
        {{kDLFloat8_e8m0fnu, 8, 1}, "float8_e8m0fnu"},
        {{kDLFloat6_e2m3fn, 6, 1}, "float6_e2m3fn"},
        {{kDLFloat6_e3m2fn, 6, 1}, "float6_e3m2fn"},
        {{kDLFloat4_e2m1fn, 4, 2}, "float4_e2m1fn"},
        {{18, 32, 1}, "code 18"},
        {{255, 255, 65535}, "65535 x 255 bits of type code 255"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        DLManagedTensorVersioned t = valid();
        t.dl_tensor.dtype = bad[i].type;
        refuse(t, JIT_UNSUPPORTED, bad[i].words);
    }
}

Test(dlpack_malformed, bytes_that_are_not_whole_are_no_raw_bytes) {
    static const DLDataType bad[] = {{kDLBool, 1, 1},          {kDLFloat6_e2m3fn, 6, 1},
                                     {kDLFloat4_e2m1fn, 4, 1}, {kDLFloat4_e2m1fn, 4, 3},
                                     {kDLFloat, 32, 0},        {kDLFloat, 0, 1}};
    jit_import_options o = JIT_IMPORT_OPTIONS;
    o.raw_bytes = true;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        DLManagedTensorVersioned t = valid();
        t.dl_tensor.dtype = bad[i];
        refuse_with(t, &o, JIT_UNSUPPORTED, "whole bytes");
    }
    DLManagedTensorVersioned t = valid(); /* strides of 0, so that only the number is too large */
    t.dl_tensor.dtype = (DLDataType) {77, 248, 65535};
    shape[0] = (int64_t) 1 << 50;
    strides[0] = strides[1] = 0;
    refuse_with(t, &o, JIT_INVALID_ARGUMENT, "more bytes");
    t = valid(); /* no place for the dimension of the bytes */
    t.dl_tensor.dtype = (DLDataType) {kDLComplex, 64, 1};
    t.dl_tensor.ndim = 64;
    for (int k = 0; k < 64; ++k)
        shape[k] = strides[k] = 1;
    refuse_with(t, &o, JIT_UNSUPPORTED, "64 dimensions, and one more");
}

/* Public reference: tensorflow#47866 (a device that the process does not see). */
Test(dlpack_malformed, devices) {
    static const int unknown[] = {0, 4, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18, 99, -1};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; ++i) {
        DLManagedTensorVersioned t = valid();
        char words[32];
        memcpy(&t.dl_tensor.device.device_type, &unknown[i], sizeof unknown[i]);
        snprintf(words, sizeof words, "DLDeviceType %d;", unknown[i]);
        refuse(t, JIT_UNSUPPORTED, words);
    }
    DLManagedTensorVersioned t = valid();
    if (support_backend() == JIT_CUDA) { /* of the backend that was not started */
        refuse(t, JIT_UNAVAILABLE, "");
        return;
    }
    t.dl_tensor.device.device_type = kDLCUDA;
    refuse(t, JIT_UNAVAILABLE, "");
    t.dl_tensor.device.device_type = kDLCUDAManaged;
    refuse(t, JIT_UNAVAILABLE, "");
}

Test(dlpack_malformed, options) {
    static const int copies[] = {-2, 2, 100};
    static const intptr_t streams[] = {-2, -1000, INTPTR_MIN + 1};
    jit_import_options o = JIT_IMPORT_OPTIONS;
    for (int i = 0; i < 3; ++i) {
        o.copy = copies[i];
        refuse_with(valid(), &o, JIT_INVALID_ARGUMENT, "copy");
    }
    o.copy = 0;
    for (int i = 0; i < 3; ++i) {
        o.producer_stream = streams[i];
        refuse_with(valid(), &o, JIT_INVALID_ARGUMENT, "stream");
    }
    o.producer_stream = JIT_STREAM_NONE;
    o.struct_size = 3;
    refuse_with(valid(), &o, JIT_INVALID_ARGUMENT, "struct_size");
    o.struct_size = sizeof o;
    int nonsense = 77;
    memcpy(&o.backend, &nonsense, sizeof nonsense);
    refuse_with(valid(), &o, JIT_INVALID_ARGUMENT, "77");
    o.backend = support_backend() == JIT_CUDA ? JIT_LLVM : JIT_CUDA;
    refuse_with(valid(), &o, JIT_UNAVAILABLE, "");
}

/* The CPU has no streams: a producer that was told one did something else. */
Test(dlpack_malformed, a_stream_for_memory_of_the_cpu) {
    jit_import_options o = JIT_IMPORT_OPTIONS;
    support_need_host_memory();
    o.producer_stream = JIT_STREAM_PER_THREAD;
    refuse_with(valid(), &o, JIT_INVALID_ARGUMENT, "stream");
}

Test(dlpack_malformed, arguments_that_are_missing) {
    DLManagedTensorVersioned t = valid();
    DLManagedTensor legacy = {.dl_tensor = t.dl_tensor, .deleter = count_legacy};
    jit_var v = 77;
    deleted = 0;
    cr_assert_eq(jit_import_dlpack(NULL, NULL, &v), JIT_INVALID_ARGUMENT);
    cr_assert_eq(v, 0);
    cr_assert_eq(jit_import_dlpack_legacy(NULL, NULL, &v), JIT_INVALID_ARGUMENT);
    cr_assert_eq(deleted, 0);
    cr_assert_eq(jit_import_dlpack(&t, NULL, NULL), JIT_INVALID_ARGUMENT);
    cr_assert_eq(jit_import_dlpack_legacy(&legacy, NULL, NULL), JIT_INVALID_ARGUMENT);
    cr_assert_eq(deleted, 2);
    jit_error_clear();
    cr_assert_eq(jit_var_ndim(0x7ffffff), -1);
    cr_assert_null(jit_var_shape(0x7ffffff));
    cr_assert_eq(jit_error_status(), JIT_INVALID_HANDLE);
    jit_error_clear();
}

Test(dlpack_malformed, without_a_runtime) {
    jit_shutdown();
    refuse(valid(), JIT_NOT_INITIALIZED, "");
    support_init();
}

/* Bits that are not known belong to minor versions to come: "usable, if all values are known". None
 * of them says that the elements are others; whoever means that has to change the major version.
 * (NumPy and PyTorch take such tensors, too.) */
Test(dlpack_malformed, flags_that_are_not_known_are_not_refused) {
    static const int64_t ten[] = {10};
    tensor_spec spec = {JIT_i32, 1, ten, .flags = ~(uint64_t) 7};
    producer *p = producer_create(&spec);
    jit_unref(producer_take(p));
    producer_destroy(p);
}
