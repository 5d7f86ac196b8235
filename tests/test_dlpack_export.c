/* test_dlpack_export.c: what tensors of ours say of themselves: elements, type, shape, strides,
 * device, version and flags. Names in comments are those of public reports of what went wrong
 * elsewhere. */
#include "dlpack_world.h"
#include "values.h"
#include <stdlib.h>
#include <string.h>

TestSuite(dlpack_export, .init = support_init, .fini = support_shutdown, .timeout = 120);

enum { SIZE = 24 };

/* ---- Elements and types ---- */

/* As the standard has them; written down once more, since the table might be wrong. */
static const struct {
    jit_dtype type;
    uint8_t code, bits;
} types[] = {
    {JIT_bool, kDLBool, 8},  {JIT_i8, kDLInt, 8},       {JIT_u8, kDLUInt, 8},
    {JIT_i16, kDLInt, 16},   {JIT_u16, kDLUInt, 16},    {JIT_i32, kDLInt, 32},
    {JIT_u32, kDLUInt, 32},  {JIT_i64, kDLInt, 64},     {JIT_u64, kDLUInt, 64},
    {JIT_f16, kDLFloat, 16}, {JIT_bf16, kDLBfloat, 16}, {JIT_f32, kDLFloat, 32},
    {JIT_f64, kDLFloat, 64},
};

static void check_head(const tensor *t) {
    if (t->versioned) {
        cr_assert_eq(t->versioned->version.major, 1);
        cr_assert_eq(t->versioned->version.minor, 3);
        cr_assert_not_null(t->versioned->deleter); /* JAX and TensorFlow call it unasked */
    } else {
        cr_assert_not_null(t->legacy->deleter);
    }
    const DLTensor *d = dlpack_tensor(t);
    cr_assert_eq(d->byte_offset, 0); /* pytorch#168193, iree#21153, warp#1573: others ignore it */
    cr_assert_eq(d->device.device_type, B == JIT_LLVM ? kDLCPU : kDLCUDA);
    cr_assert_eq(d->device.device_id, 0);
}

static void check_type(size_t i, bool legacy) {
    values v = values_edges(types[i].type);
    values_thin(&v, 200);
    jit_var a = support_array(types[i].type, v.bits, v.count);
    tensor t = dlpack_export(a, legacy, NULL);
    const DLTensor *d = dlpack_tensor(&t);
    check_head(&t);
    cr_assert_eq(d->dtype.code, types[i].code, "%s", jit_dtype_name(types[i].type));
    cr_assert_eq(d->dtype.bits, types[i].bits, "%s", jit_dtype_name(types[i].type));
    cr_assert_eq(d->dtype.lanes, 1);
    /* dgl#995, jax#29810, dlpack#99: TensorFlow aborts on less than 64, JAX copies. */
    cr_assert_eq((uintptr_t) d->data % 256, 0);
    uint64_t *bits = dlpack_read(&t, v.count);
    for (size_t k = 0; k < v.count; ++k)
        cr_assert_eq(bits[k], v.bits[k], "%s: element %zu", jit_dtype_name(types[i].type), k);
    free(bits);
    free(v.bits);
    dlpack_delete(&t);
    jit_unref(a);
}

/* jax#19352, pytorch#67081, warp#1619: bool is a type of its own, one byte with 0 or 1. */
Test(dlpack_export, every_type_comes_with_its_code_and_its_elements) {
    cr_assert_eq(sizeof types / sizeof *types, JITC_DTYPE_COUNT);
    for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
        for (int legacy = 0; legacy < 2; ++legacy)
            check_type(i, legacy);
}

Test(dlpack_export, computed_booleans_are_bytes_of_0_or_1) {
    jit_var v = dlpack_ramp(SIZE, 0), three = jit_u32(B, 3), less = jit_lt(v, three);
    tensor t = dlpack_export(less, false, NULL);
    uint64_t *bits = dlpack_read(&t, SIZE);
    for (size_t i = 0; i < SIZE; ++i)
        cr_assert_eq(bits[i], i < 3);
    free(bits);
    dlpack_delete(&t);
    jit_unref(v), jit_unref(three), jit_unref(less);
}

/* ---- Shapes ---- */

typedef struct shape {
    int ndim;
    int64_t shape[8], strides[8];
} shape;

static void check_shape(jit_var v, const shape *s, bool legacy) {
    int64_t given[8];
    memcpy(given, s->shape, sizeof given);
    tensor t = dlpack_export(v, legacy, EXPORT_WITH(.ndim = s->ndim, .shape = given));
    const DLTensor *d = dlpack_tensor(&t);
    memset(given, 0, sizeof given); /* the caller's goes */
    cr_assert_eq(d->ndim, s->ndim);
    cr_assert_not_null(d->shape);
    cr_assert_not_null(d->strides); /* apache/arrow#51122, dlpack#178: never NULL since 1.2 */
    for (int i = 0; i < s->ndim; ++i) {
        cr_assert_eq(d->shape[i], s->shape[i], "dimension %d", i);
        cr_assert_eq(d->strides[i], s->strides[i], "stride %d: %lld", i, (long long) d->strides[i]);
    }
    cr_assert_eq(d->data == NULL, jit_size(v) == 0);
    dlpack_delete(&t);
}

static void check_shapes(size_t size, const shape *shapes, size_t n) {
    jit_var v = dlpack_ramp(size, 1);
    for (size_t i = 0; i < n; ++i)
        for (int legacy = 0; legacy < 2; ++legacy)
            check_shape(v, &shapes[i], legacy);
    jit_unref(v);
}

Test(dlpack_export, shapes_of_the_caller_are_row_major) {
    static const shape shapes[] = {
        {1, {24}, {1}},
        {2, {4, 6}, {6, 1}},
        {3, {2, 3, 4}, {12, 4, 1}},
    };
    check_shapes(SIZE, shapes, sizeof shapes / sizeof *shapes);
}

/* pytorch#99803, #83069, tvm#14797: who looks at the strides of such dimensions finds good ones. */
Test(dlpack_export, dimensions_of_size_1_have_the_usual_strides) {
    static const shape shapes[] = {
        {2, {1, 24}, {24, 1}},
        {2, {24, 1}, {1, 1}},
        {5, {1, 4, 1, 6, 1}, {24, 6, 6, 1, 1}},
    };
    check_shapes(SIZE, shapes, sizeof shapes / sizeof *shapes);
}

Test(dlpack_export, no_dimension_is_one_element) {
    static const shape shapes[] = {{0, {0}, {0}}, {1, {1}, {1}}, {3, {1, 1, 1}, {1, 1, 1}}};
    check_shapes(1, shapes, sizeof shapes / sizeof *shapes);
    jit_var v = dlpack_ramp(SIZE, 0);
    int64_t none = 0;
    dlpack_refuse(v, false, EXPORT_WITH(.shape = &none), JIT_SIZE_MISMATCH, "another size");
    jit_unref(v);
}

/* onnxruntime#27450, nanobind#1259: strides of empty arrays are those of any other; pytorch#117273:
 * no data, and a deleter all the same. */
Test(dlpack_export, empty_arrays_have_no_data_and_usual_strides) {
    static const shape shapes[] = {
        {1, {0}, {1}},
        {4, {1, 8, 0, 128}, {1024, 128, 128, 1}},
        {2, {0, INT64_MAX}, {INT64_MAX, 1}},
        {3, {0, INT64_MAX, INT64_MAX}, {INT64_MAX, INT64_MAX, 1}},
        {3, {INT64_MAX, INT64_MAX, 0}, {INT64_MAX, 1, 1}},
    };
    check_shapes(0, shapes, sizeof shapes / sizeof *shapes);
}

Test(dlpack_export, an_empty_array_of_any_kind_is_released_once) {
    jit_stats before = dlpack_stats();
    jit_var none = dlpack_ramp(0, 0), one = jit_u32(B, 1);
    jit_var kinds[] = {jit_ref(none), jit_add(none, one), jit_literal(B, JIT_f32, &(float) {1}, 0),
                       jit_counter(B, 0)};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
        for (int copy = 0; copy <= JIT_COPY_ALWAYS; ++copy) {
            tensor t = dlpack_export(kinds[i], false, EXPORT_WITH(.copy = copy));
            cr_assert_null(dlpack_tensor(&t)->data);
            cr_assert_eq(dlpack_tensor(&t)->shape[0], 0);
            dlpack_delete(&t);
        }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
        jit_unref(kinds[i]);
    jit_unref(none), jit_unref(one);
    cr_assert_eq(dlpack_stats().variables, before.variables);
    cr_assert_eq(dlpack_stats().bytes_live, before.bytes_live);
}

Test(dlpack_export, shapes_that_cannot_be_are_refused) {
    static const int64_t wrong[] = {4, 5}, negative[] = {-4, -6}, many[65] = {[0] = 24};
    static const int64_t huge[] = {(int64_t) 1 << 62, 4, 24}, wraps[] = {3, (int64_t) 1 << 62, 8};
    static const int64_t none[] = {0, 24};
    int64_t ones[65];
    for (int i = 0; i < 65; ++i)
        ones[i] = i ? 1 : 24;
    jit_var v = dlpack_ramp(SIZE, 0), empty = dlpack_ramp(0, 0);
    for (int legacy = 0; legacy < 2; ++legacy) {
        dlpack_refuse(v, legacy, EXPORT_WITH(.ndim = 2, .shape = wrong), JIT_SIZE_MISMATCH, "24");
        dlpack_refuse(v, legacy, EXPORT_WITH(.ndim = 2, .shape = none), JIT_SIZE_MISMATCH, "24");
        dlpack_refuse(v, legacy, EXPORT_WITH(.ndim = 3, .shape = huge), JIT_SIZE_MISMATCH, "24");
        dlpack_refuse(v, legacy, EXPORT_WITH(.ndim = 3, .shape = wraps), JIT_SIZE_MISMATCH, "24");
        dlpack_refuse(empty, legacy, EXPORT_WITH(.ndim = 2, .shape = wrong), JIT_SIZE_MISMATCH,
                      "0");
        dlpack_refuse(empty, legacy, EXPORT_WITH(.ndim = 3, .shape = wraps), JIT_SIZE_MISMATCH,
                      "0");
        dlpack_refuse(v, legacy, EXPORT_WITH(.ndim = 2, .shape = negative), JIT_INVALID_ARGUMENT,
                      "shape[0] is -4");
        dlpack_refuse(v, legacy, EXPORT_WITH(.ndim = 65, .shape = many), JIT_INVALID_ARGUMENT,
                      "65 dimensions");
        dlpack_refuse(v, legacy, EXPORT_WITH(.ndim = -1, .shape = many), JIT_INVALID_ARGUMENT,
                      "-1 dimensions");
        dlpack_refuse(v, legacy, EXPORT_WITH(.ndim = 1), JIT_INVALID_ARGUMENT, "shape (nil)");
        tensor t = dlpack_export(v, legacy, EXPORT_WITH(.ndim = 64, .shape = ones));
        cr_assert_eq(dlpack_tensor(&t)->ndim, 64);
        dlpack_delete(&t);
    }
    jit_unref(v), jit_unref(empty);
}

/* ---- Options ---- */

Test(dlpack_export, options_of_older_and_newer_callers) {
    struct newer {
        jit_export_options known;
        uint64_t added;
    } newer = {.known = JIT_EXPORT_OPTIONS};
    jit_export_options older = JIT_EXPORT_OPTIONS;
    jit_var v = dlpack_ramp(SIZE, 0);
    older.read_only = true; /* not an option yet where this caller comes from */
    older.struct_size = offsetof(jit_export_options, read_only);
    tensor t = dlpack_export(v, false, &older);
    cr_assert_eq(dlpack_flags(&t), 0);
    dlpack_delete(&t);
    older.stream = 12345;
    older.struct_size = sizeof(size_t);
    t = dlpack_export(v, false, &older);
    dlpack_delete(&t);
    newer.known.struct_size = sizeof newer;
    newer.known.read_only = true;
    t = dlpack_export(v, false, &newer.known);
    cr_assert_eq(dlpack_flags(&t), DLPACK_FLAG_BITMASK_READ_ONLY);
    dlpack_delete(&t);
    newer.added = (uint64_t) 1 << 63;
    dlpack_refuse(v, false, &newer.known, JIT_INVALID_ARGUMENT, "later version");
    static const size_t absurd[] = {0, 1, sizeof(size_t) - 1, 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; ++i) {
        older.struct_size = absurd[i];
        dlpack_refuse(v, i % 2, &older, JIT_INVALID_ARGUMENT, "struct_size");
    }
    jit_unref(v);
}

static void check_version(jit_var v, uint32_t major, uint32_t minor, uint32_t result) {
    tensor t = dlpack_export(v, false, EXPORT_WITH(.max_major = major, .max_minor = minor));
    cr_assert_eq(t.versioned->version.major, 1);
    cr_assert_eq(t.versioned->version.minor, result, "%u.%u", major, minor);
    dlpack_delete(&t);
}

Test(dlpack_export, the_version_is_one_that_the_consumer_knows) {
    jit_var v = dlpack_ramp(SIZE, 0);
    check_version(v, 0, 0, 3);
    check_version(v, 1, 0, 0);
    check_version(v, 1, 2, 2);
    check_version(v, 1, 3, 3);
    check_version(v, 1, 9, 3);
    check_version(v, 2, 0, 3);
    dlpack_refuse(v, false, EXPORT_WITH(.max_minor = 8), JIT_INVALID_ARGUMENT, "_legacy");
    tensor t = dlpack_export(v, true, EXPORT_WITH(.max_minor = 8));
    dlpack_delete(&t);
    jit_unref(v);
}

Test(dlpack_export, copy_modes_and_streams_that_are_none) {
    jit_var v = dlpack_ramp(SIZE, 0);
    for (int legacy = 0; legacy < 2; ++legacy) {
        dlpack_refuse(v, legacy, EXPORT_WITH(.copy = 2), JIT_INVALID_ARGUMENT, "copy is 2");
        dlpack_refuse(v, legacy, EXPORT_WITH(.copy = -2), JIT_INVALID_ARGUMENT, "copy is -2");
        dlpack_refuse(v, legacy, EXPORT_ON(-2), JIT_INVALID_ARGUMENT, "-2");
        dlpack_refuse(v, legacy, EXPORT_ON(INTPTR_MIN + 1), JIT_INVALID_ARGUMENT,
                      "-9223372036854775807");
        for (int stream = 0; B == JIT_LLVM && stream < 3; ++stream)
            dlpack_refuse(v, legacy, EXPORT_ON(stream), JIT_INVALID_ARGUMENT, "the CPU has none");
        tensor t = dlpack_export(v, legacy, EXPORT_ON(JIT_STREAM_NONE));
        dlpack_delete(&t);
    }
    jit_unref(v);
}

Test(dlpack_export, devices_that_the_array_is_not_on_and_cannot_go_to) {
    static const int wrong[][2] = {{3, 0}, {1, 1}, {2, 1}, {2, 7}, {-1, 0}, {13, 0}, {0, 1}};
    jit_var v = dlpack_ramp(SIZE, 0);
    int own = B == JIT_LLVM ? kDLCPU : kDLCUDA;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i)
        dlpack_refuse(v, i % 2, EXPORT_WITH(.device_type = wrong[i][0], .device_id = wrong[i][1]),
                      JIT_INVALID_ARGUMENT, "is wanted");
    if (B == JIT_LLVM)
        dlpack_refuse(v, false, EXPORT_WITH(.device_type = kDLCUDA), JIT_INVALID_ARGUMENT,
                      "is wanted");
    tensor t = dlpack_export(v, false, EXPORT_WITH(.device_type = own));
    cr_assert_eq(dlpack_flags(&t), 0);
    cr_assert_eq(dlpack_tensor(&t)->device.device_type, (DLDeviceType) own);
    dlpack_delete(&t);
    jit_unref(v);
}

Test(dlpack_export, what_is_no_variable_is_refused) {
    jit_var v = dlpack_ramp(SIZE, 0);
    cr_assert_eq(jit_export_dlpack(v, NULL, NULL), JIT_INVALID_ARGUMENT);
    cr_assert_eq(jit_export_dlpack_legacy(v, NULL, NULL), JIT_INVALID_ARGUMENT);
    jit_unref(v);
    jit_error_clear();
    for (int legacy = 0; legacy < 2; ++legacy) {
        dlpack_refuse(v, legacy, NULL, JIT_INVALID_HANDLE, "names no live variable");
        dlpack_refuse(0, legacy, NULL, JIT_INVALID_HANDLE, "is 0");
    }
}

Test(dlpack_unstarted, nothing_is_exported) {
    DLManagedTensorVersioned *t = (void *) &t;
    cr_assert_eq(jit_export_dlpack(1, NULL, &t), JIT_NOT_INITIALIZED);
    cr_assert_null(t);
}

/* What is wrong is found before anything happens. */
Test(dlpack_export, a_refusal_leaves_nothing_behind) {
    static const int64_t wrong[] = {4, 5};
    jit_var v = dlpack_ramp(SIZE, 0), one = jit_u32(B, 1), w = jit_add(v, one);
    const jit_export_options *bad[] = {
        EXPORT_WITH(.ndim = 2, .shape = wrong),
        EXPORT_ON(-2),
        EXPORT_WITH(.copy = 7),
        EXPORT_WITH(.device_type = 5),
        EXPORT_WITH(.ndim = 70, .shape = wrong),
    };
    jit_stats before = dlpack_stats();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        DLManagedTensorVersioned *t;
        DLManagedTensor *l;
        cr_assert_neq(jit_export_dlpack(w, bad[i], &t), JIT_OK);
        cr_assert_neq(jit_export_dlpack_legacy(one, bad[i], &l), JIT_OK);
    }
    jit_error_clear();
    jit_stats after = dlpack_stats();
    cr_assert_eq(after.evaluations, before.evaluations);
    cr_assert_eq(after.variables, before.variables);
    cr_assert_eq(after.bytes_live, before.bytes_live);
    jit_unref(v), jit_unref(one), jit_unref(w);
}
