/* test_cuda_kernel.c: kernels of the CUDA backend over memory that is not the library's own: arrays
 * that end right behind their last element, and begin at any element. The simulated driver finds
 * every access outside of them. */
#include "cuda_run.h"
#include "programs.h"
#include <stdlib.h>
#include <string.h>

#define FOR_TYPES(t) for (jit_dtype t = JIT_bool; t <= JIT_f64; ++t)

static jitc_backend *b;
static jitc_stream *s;

static void start(void) {
    cuda_run_start();
    b = cuda_run_backend();
    s = cuda_run_stream();
}
TestSuite(cuda_kernel, .init = start, .fini = cuda_run_stop);

static void *pointer(CUdeviceptr p) {
    return (void *) (uintptr_t) p; // NOLINT: an address on the device
}

/** out = not(not(in)) or in + 0: n elements at places `from`, `to` of memory that ends there. */
static void check_copy(jit_dtype t, uint32_t flags, size_t n, size_t from, size_t to) {
    size_t bytes = jitc_dtypes[t].bytes, in_bytes = (from + n) * bytes,
           out_bytes = (to + n) * bytes;
    jitc_program p = {.head.flags = flags};
    uint64_t params[8], number;
    CUdeviceptr in = cuda_run_alloc(in_bytes), out = cuda_run_alloc(out_bytes);
    unsigned char *data = malloc(in_bytes), *got = malloc(out_bytes);
    for (size_t i = 0; i < in_bytes; ++i)
        data[i] = (unsigned char) (t == JIT_bool ? i % 3 == 0 : i * 7 % 120);
    memset(got, 1, out_bytes);
    ASSERT_OK(b->upload(s, pointer(in), data, in_bytes, &number));
    ASSERT_OK(b->upload(s, pointer(out), got, out_bytes, &number));
    uint32_t x = add_data(&p, t, pointer(in + from * bytes), params);
    uint32_t y = add(&p, JITC_OP_select, t, add_baked(&p, JIT_bool, 1), x, x);
    add_store(&p, t, y, pointer(out + to * bytes), params);
    cuda_run_launch(&p, n, params);
    ASSERT_OK(b->download(s, got, pointer(out), out_bytes));
    cr_assert_arr_eq(got + to * bytes, data + from * bytes, n * bytes, "%zu %s from %zu to %zu", n,
                     jit_dtype_name(t), from, to);
    for (size_t i = 0; i < to * bytes; ++i)
        cr_assert_eq(got[i], 1, "%zu %s from %zu to %zu: written in front", n, jit_dtype_name(t),
                     from, to);
    cuda_run_free(in), cuda_run_free(out);
    free(data), free(got);
    jitc_program_finish(&p);
}

Test(cuda_kernel, arrays_may_end_behind_their_last_element) {
    static const size_t sizes[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 64, 65, 255, 257, 1000, 4099};
    FOR_TYPES(t)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        check_copy(t, JITC_PROGRAM_TAIL, sizes[i], 0, 0);
}

Test(cuda_kernel, arrays_may_begin_at_any_element) {
    static const size_t sizes[] = {1, 5, 64, 100, 1021};
    FOR_TYPES(t)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        for (size_t from = 0; from < 4; ++from)
            check_copy(t, JITC_PROGRAM_TAIL, sizes[i], from, (from * 3 + i) % 4);
}

Test(cuda_kernel, indices_may_have_64_bits) {
    FOR_TYPES(t) {
        check_copy(t, JITC_PROGRAM_TAIL | JITC_PROGRAM_WIDE, 1021, 1, 3);
        check_copy(t, JITC_PROGRAM_WIDE, 1024, 0, 0);
        check_copy(t, JITC_PROGRAM_STREAM, 1024, 0, 0);
    }
}

/* Damaged code is refused, whatever is damaged. */
Test(cuda_kernel, damaged_code_is_refused) {
    jitc_program p = {0};
    uint64_t params[8];
    jitc_source *source;
    jitc_blob code;
    jitc_kernel *k;
    uint32_t x = add_data(&p, JIT_f32, NULL, params);
    add_store(&p, JIT_f32, add(&p, JITC_OP_sqrt, JIT_f32, x, 0, 0), NULL, params);
    ASSERT_OK(b->lower(b, 0, &p, &source));
    ASSERT_OK(b->compile(b, source, 2, &code));
    for (size_t size = 0; size < code.size; size += 1 + code.size / 7) {
        void *copy = malloc(size + 1);
        memcpy(copy, code.data, size);
        jitc_blob cut = {copy, size};
        cr_assert_eq(b->load(b, 0, &p, &cut, &k), JIT_COMPILE_FAILED, "%zu of %zu bytes: %s", size,
                     code.size, jit_error());
        jit_error_clear();
        free(copy);
    }
    free(code.data);
    b->source_destroy(b, source);
    jitc_program_finish(&p);
}
