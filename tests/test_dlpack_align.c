/* Memory of others lies anywhere: elements at a multiple of their size only, or not even that.
 * Kernels take several elements at once where they can, in the middle of arrays and at their ends.
 *
 * Public references: dgl#995, tf-dlpack#4, jax#29810 (copies or crashes). */
#include "dlpack_producer.h"
#include <stdlib.h>

static void start(void) {
    support_init();
}
TestSuite(dlpack_align, .init = start, .fini = support_shutdown, .timeout = 300);

static jit_var take(jit_dtype t, size_t n, size_t off, bool at_start, producer **out) {
    const int64_t shape[] = {(int64_t) n};
    tensor_spec spec = {t, 1, shape, .off = off, .at_start = at_start, .legacy = off % 3 == 0};
    *out = producer_create(&spec);
    return producer_take(*out);
}

static void expect(jit_var v, const uint64_t *expected, size_t n, size_t off) {
    uint64_t *got = support_read(v, n);
    for (size_t i = 0; i < n; ++i)
        cr_assert_eq(got[i], expected[i], "%s, %zu elements, off by %zu: element %zu is %#llx",
                     jit_dtype_name(jit_type(v)), n, off, i, (unsigned long long) got[i]);
    free(got);
}

/* select(a == b, a, b) of two arrays that are off by different numbers of bytes; a copy of one; and
 * a wider and a narrower type beside it. */
static void check(jit_dtype t, size_t n, size_t off, size_t other) {
    producer *p, *q;
    jit_var a = take(t, n, off, off % 2, &p), b = take(t, n, other, other % 2, &q);
    uint64_t *expected = producer_expected(p), *ones = calloc(n, sizeof *ones);
    for (size_t i = 0; i < n; ++i)
        ones[i] = 1;
    jit_var same = jit_eq(a, b), chosen = jit_select(same, a, b), bytes = jit_cast(same, JIT_u8);
    jit_var wide = jit_cast(same, JIT_u64);
    ASSERT_VAR(wide);
    ASSERT_OK(jit_schedule(chosen));
    ASSERT_OK(jit_schedule(bytes));
    ASSERT_OK(jit_schedule(wide));
    ASSERT_OK(jit_eval());
    expect(chosen, expected, n, off);
    expect(bytes, ones, n, off);
    expect(wide, ones, n, off);
    expect(a, expected, n, off);
    jit_unref(same), jit_unref(chosen), jit_unref(bytes), jit_unref(wide);
    jit_unref(a), jit_unref(b);
    producer_destroy(p), producer_destroy(q);
    free(expected), free(ones);
}

static const size_t sizes[] = {1, 2, 3, 7, 16, 17, 63, 64, 65, 131, 1000, 4099};
enum { SIZES = sizeof sizes / sizeof *sizes };

Test(dlpack_align, arrays_that_are_off_by_elements) {
    static const size_t off[] = {0, 1, 2, 3, 5, 7, 15};
    for (int t = 0; t < JITC_DTYPE_COUNT; ++t)
        for (size_t i = 0; i < SIZES; ++i)
            for (size_t k = 0; k < 7; ++k) {
                size_t element = jit_dtype_size((jit_dtype) t);
                check((jit_dtype) t, sizes[i], off[k] * element, off[(k * 3 + i) % 7] * element);
            }
}

Test(dlpack_align, arrays_that_are_off_by_bytes) {
    for (int t = 0; t < JITC_DTYPE_COUNT; ++t)
        for (size_t i = 0; i < SIZES; ++i)
            for (size_t off = 1; off < 9; off += 3)
                check((jit_dtype) t, sizes[i], off, 9 - off);
}

/* Public references: pytorch#168177, iree#21153, warp#1573 (byte_offset is ignored). */
Test(dlpack_align, byte_offset_counts) {
    static const uint64_t offsets[] = {16, 4, 1, 4096};
    const int64_t shape[] = {100};
    for (int i = 0; i < 4; ++i) {
        tensor_spec spec = {JIT_f32, 1, shape, .off = (size_t) i, .byte_offset = offsets[i]};
        producer *p = producer_create(&spec);
        uint64_t *expected = producer_expected(p);
        jit_var v = producer_take(p);
        expect(v, expected, 100, (size_t) i);
        jit_unref(v);
        producer_destroy(p);
        free(expected);
    }
}

/* All lengths of the last vector; the memory ends behind it. */
Test(dlpack_align, the_end_of_an_array_is_not_passed) {
    for (int t = 0; t < JITC_DTYPE_COUNT; ++t)
        for (size_t n = 1; n < 140; n += 6)
            check((jit_dtype) t, n, 0, 0);
}
