/* What went wrong elsewhere, and was reported in public: each test names the reports. Those about
 * deleters are in test_dlpack_owner.c, about devices in test_dlpack_place.c, about addresses in
 * test_dlpack_align.c. And types that there are not here, as raw bytes. */
#include "dlpack_producer.h"
#include <stdlib.h>

TestSuite(dlpack_reports, .init = support_init, .fini = support_shutdown, .timeout = 60);

#define NUMBERS(...)                                                                               \
    (const int64_t[]) {                                                                            \
        __VA_ARGS__                                                                                \
    }

/* Imports, reads, compares, and tells whether the memory is used in place by what wants an address:
 * there is no view, and no copy. */
static bool is_contiguous(const tensor_spec *spec) {
    producer *p = producer_create(spec);
    const char *memory = p->memory;
    uint64_t *expected = producer_expected(p);
    jit_var v = producer_take(p);
    uint64_t *got;
    void *address;
    ASSERT_OK(jit_data(v, &address));
    got = support_read(v, p->size);
    cr_assert_arr_eq(got, expected, p->size * sizeof *got);
    jit_unref(v);
    producer_destroy(p);
    free(got), free(expected);
    return address == memory;
}

/* onnxruntime#27450, triton python_backend#444, nanobind#1259: strides of an array without elements
 * say that it is not contiguous. */
Test(dlpack_reports, arrays_without_elements_are_contiguous) {
    static const int64_t strides[][4] = {
        {0, 0, 0, 0}, {0, 0, 128, 1}, {1, 1, 1, 1}, {9, -9, 7, -1}};
    for (int i = 0; i < 4; ++i)
        cr_assert(is_contiguous(
            &(tensor_spec) {JIT_f32, 4, NUMBERS(1, 8, 0, 128), strides[i], .legacy = i % 2}));
}

/* pytorch#99803, pytorch#83069, tvm#14797, triton#6102, onnxruntime#7391: strides of dimensions of
 * size 1 say so. */
Test(dlpack_reports, strides_of_dimensions_of_size_1_mean_nothing) {
    static const int64_t strides[][2] = {{1, 1},   {0, 1},  {77, 1},
                                         {999, 1}, {-5, 1}, {INT64_MAX, 1}};
    for (int i = 0; i < 6; ++i) {
        cr_assert(
            is_contiguous(&(tensor_spec) {JIT_f32, 2, NUMBERS(1, 77), strides[i], .flags = 0}));
        cr_assert(is_contiguous(&(tensor_spec) {JIT_i64, 2, NUMBERS(77, 1),
                                                NUMBERS(1, strides[i][0]), .legacy = true}));
    }
}

/* cupy#2095, pytorch#18510: strides that are NULL are looked into; apache/arrow#51122, dlpack#178:
 * or refused, if the version is older than the rule that there must be some. */
Test(dlpack_reports, strides_may_be_missing_in_all_versions) {
    for (uint32_t minor = 0; minor < 5; ++minor) {
        producer *p = producer_create(&(tensor_spec) {JIT_u16, 2, NUMBERS(3, 4), NULL, .flags = 0});
        p->versioned->version.minor = minor;
        jit_unref(producer_take(p));
        producer_destroy(p);
    }
    cr_assert(is_contiguous(&(tensor_spec) {JIT_u16, 2, NUMBERS(3, 4), NULL, .legacy = true}));
    cr_assert(is_contiguous(&(tensor_spec) {JIT_f64, 0, NULL, NULL, .legacy = true}));
    cr_assert(is_contiguous(&(tensor_spec) {JIT_f64, 0, NULL, NULL, .legacy = false}));
}

/* jax#17784, jax#24680: a transposed array is read as if it were not. */
Test(dlpack_reports, a_transposed_array_is_transposed) {
    const tensor_spec spec = {JIT_i32, 2, NUMBERS(2, 2), NUMBERS(1, 2), .flags = 0};
    producer *p = producer_create(&spec);
    jit_var v = producer_take(p);
    uint64_t *got = support_read(v, 4);
    static const size_t places[] = {0, 2, 1, 3};
    for (int i = 0; i < 4; ++i)
        cr_assert_eq(got[i], producer_bits(JIT_i32, places[i]));
    free(got);
    jit_unref(v);
    producer_destroy(p);
    cr_assert(!is_contiguous(&spec));
}

/* jax#19352, jax#4719, pytorch#67081, pytorch#114673, warp#1619: bool is missing, or a number. */
Test(dlpack_reports, bools_are_bools_and_bytes_are_bytes) {
    producer *p = producer_create(&(tensor_spec) {JIT_bool, 1, NUMBERS(40), NULL, .flags = 0});
    jit_var v = producer_take(p), one = jit_u8(support_backend(), 1);
    jit_var sum = jit_cast(v, JIT_u8), more = jit_add(sum, one);
    uint64_t *expected = producer_expected(p), *got = support_read(more, 40);
    cr_assert_eq(jit_type(v), JIT_bool);
    for (int i = 0; i < 40; ++i)
        cr_assert_eq(got[i], expected[i] + 1);
    free(got), free(expected);
    jit_unref(v), jit_unref(one), jit_unref(sum), jit_unref(more);
    producer_destroy(p);
    p = producer_create(&(tensor_spec) {JIT_u8, 1, NUMBERS(40), NULL, .flags = 0});
    v = producer_take(p);
    cr_assert_eq(jit_type(v), JIT_u8);
    jit_unref(v);
    producer_destroy(p);
}

/* As many dimensions as there can be; the last of them more than one element. */
Test(dlpack_reports, sixty_four_dimensions) {
    int64_t shape[64], strides[64];
    for (int reversed = 0; reversed < 2; ++reversed) {
        for (int k = 0; k < 64; ++k) {
            shape[k] = k < 54 ? 1 : 2;
            strides[k] = k < 54 ? 7 * k : 1 << (reversed ? k - 54 : 63 - k);
        }
        tensor_spec spec = {JIT_f32, 64, shape, strides, .legacy = reversed};
        cr_assert_eq(is_contiguous(&spec), !reversed);
    }
}

/* What jit_var_shape() tells of others. */
Test(dlpack_reports, what_is_computed_has_one_dimension) {
    producer *p =
        producer_create(&(tensor_spec) {JIT_f32, 2, NUMBERS(3, 5), NUMBERS(1, 3), .flags = 0});
    jit_var v = producer_take(p), sum = jit_add(v, v), one = jit_f32(support_backend(), 1);
    const int64_t *shape = jit_var_shape(v);
    cr_assert(jit_var_ndim(v) == 2 && shape[0] == 3 && shape[1] == 5);
    cr_assert(jit_var_ndim(sum) == 1 && jit_var_shape(sum)[0] == 15);
    cr_assert(jit_var_ndim(one) == 1 && jit_var_shape(one)[0] == 1);
    for (int i = 0; i < 2000; ++i) { /* the table grows */
        jit_var other = jit_counter(support_backend(), (size_t) i + 2);
        cr_assert_eq(jit_var_shape(other)[0], i + 2);
        jit_unref(other);
    }
    ASSERT_OK(jit_var_eval(v));
    ASSERT_OK(jit_var_eval(sum));
    cr_assert(jit_var_shape(v) == shape && shape[0] == 3 && shape[1] == 5,
              "it is good as long as v");
    cr_assert(jit_var_ndim(sum) == 1 && jit_var_shape(sum)[0] == 15);
    jit_unref(v), jit_unref(sum), jit_unref(one);
    producer_destroy(p);
}

/* ---- Raw bytes ---- */

/* `bytes`: of an element. The shape is (6, 4), `strides` count elements. */
static void check_raw(DLDataType type, size_t bytes, const int64_t *strides, uint64_t flags) {
    int64_t in_bytes[] = {strides[0] * (int64_t) bytes, strides[1] * (int64_t) bytes, 1};
    const int64_t shape[] = {6, 4, (int64_t) bytes};
    tensor_spec spec = {JIT_u8, 3, shape, in_bytes, .flags = flags};
    producer *p = producer_create(&spec);
    uint64_t *expected = producer_expected(p);
    jit_import_options o = JIT_IMPORT_OPTIONS;
    jit_var v = 0;
    o.raw_bytes = true;
    p->tensor->ndim = 2;
    p->tensor->dtype = type;
    for (int k = 0; k < 2; ++k)
        p->tensor->strides[k] = strides[k];
    ASSERT_OK(producer_import(p, &o, &v));
    cr_assert_eq(jit_type(v), JIT_u8);
    cr_assert_eq(jit_var_ndim(v), 3);
    for (int k = 0; k < 3; ++k)
        cr_assert_eq(jit_var_shape(v)[k], shape[k]);
    uint64_t *got = support_read(v, p->size);
    cr_assert_arr_eq(got, expected, p->size * sizeof *got, "type %d", type.code);
    free(got), free(expected);
    jit_unref(v);
    producer_destroy(p);
}

Test(dlpack_reports, types_that_there_are_not_are_raw_bytes) {
    static const struct {
        DLDataType type;
        size_t bytes;
        uint64_t flags;
    } types[] = {{{kDLComplex, 32, 1}, 4, 0},      {{kDLComplex, 64, 1}, 8, 0},
                 {{kDLComplex, 128, 1}, 16, 0},    {{kDLFloat, 128, 1}, 16, 0},
                 {{kDLFloat, 32, 3}, 12, 0},       {{kDLInt, 16, 4}, 8, 0},
                 {{kDLOpaqueHandle, 64, 1}, 8, 0}, {{kDLFloat8_e4m3fn, 8, 1}, 1, 0},
                 {{kDLFloat8_e5m2, 8, 2}, 2, 0},   {{kDLFloat8_e8m0fnu, 8, 1}, 1, 0},
                 {{kDLFloat4_e2m1fn, 4, 2}, 1, 0}, {{kDLFloat6_e3m2fn, 6, 4}, 3, 0},
                 {{kDLFloat6_e3m2fn, 6, 1}, 1, 4}, {{kDLFloat4_e2m1fn, 4, 3}, 3, 4},
                 {{kDLBool, 8, 2}, 2, 0},          {{99, 24, 1}, 3, 0}};
    static const int64_t strides[][2] = {{4, 1}, {1, 6}, {9, 2}, {0, 1}, {-5, -1}};
    for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
        for (int k = 0; k < 5; ++k)
            check_raw(types[i].type, types[i].bytes, strides[k], types[i].flags);
}

/* The option changes nothing for types that there are. */
Test(dlpack_reports, known_types_are_not_raw) {
    producer *p = producer_create(&(tensor_spec) {JIT_bf16, 1, NUMBERS(9), NULL, .flags = 0});
    jit_import_options o = JIT_IMPORT_OPTIONS;
    jit_var v = 0;
    o.raw_bytes = true;
    ASSERT_OK(producer_import(p, &o, &v));
    cr_assert(jit_type(v) == JIT_bf16 && jit_size(v) == 9 && jit_var_ndim(v) == 1);
    jit_unref(v);
    producer_destroy(p);
}
