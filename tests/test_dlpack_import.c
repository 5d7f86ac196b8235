/* Tensors of others as variables: all types in all arrangements of memory, used in all ways. */
#include "dlpack_producer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct arrangement {
    const char *name;
    int ndim;
    int64_t shape[6], strides[6];
    bool null_strides, null_shape;
} arrangement;

#define ROW(...) {__VA_ARGS__}
static const arrangement arrangements[] = {
    {"compact", 2, ROW(7, 19), ROW(19, 1), 0, 0},
    {"one dimension", 1, ROW(131), ROW(1), 0, 0},
    {"without strides", 3, ROW(2, 5, 9), ROW(0), true, 0},
    {"transposed", 2, ROW(9, 14), ROW(1, 9), 0, 0},
    {"transposed, three dimensions", 3, ROW(3, 5, 7), ROW(1, 3, 15), 0, 0},
    {"permuted", 3, ROW(4, 3, 6), ROW(6, 24, 1), 0, 0},
    {"padded rows", 2, ROW(8, 11), ROW(16, 1), 0, 0},
    {"padded rows and planes", 3, ROW(3, 4, 5), ROW(41, 7, 1), 0, 0},
    {"every second", 1, ROW(70), ROW(2), 0, 0},
    {"every third row of every second column", 2, ROW(5, 6), ROW(60, 2), 0, 0},
    {"one row for all", 2, ROW(6, 13), ROW(0, 1), 0, 0},
    {"one column for all", 2, ROW(6, 13), ROW(1, 0), 0, 0},
    {"one element for all", 2, ROW(6, 13), ROW(0, 0), 0, 0},
    {"backwards", 1, ROW(67), ROW(-1), 0, 0},
    {"upside down", 2, ROW(5, 13), ROW(-13, 1), 0, 0},
    {"backwards, with steps", 3, ROW(3, 4, 5), ROW(-100, 20, -3), 0, 0},
    {"overlapping windows", 2, ROW(12, 8), ROW(1, 1), 0, 0},
    {"dimensions of size 1, stride 1", 4, ROW(1, 7, 1, 12), ROW(1, 12, 1, 1), 0, 0},
    {"dimensions of size 1, stride 0", 4, ROW(1, 7, 1, 12), ROW(0, 12, 0, 1), 0, 0},
    {"dimensions of size 1, stride 999", 4, ROW(1, 7, 1, 12), ROW(999, 12, -999, 1), 0, 0},
    {"a view with dimensions of size 1", 4, ROW(7, 1, 12, 1), ROW(20, 999, 1, 0), 0, 0},
    {"one element", 3, ROW(1, 1, 1), ROW(5, 0, -7), 0, 0},
    {"no dimensions", 0, ROW(0), ROW(0), 0, 0},
    {"no dimensions, no shape", 0, ROW(0), ROW(0), true, true},
    {"no elements", 3, ROW(3, 0, 4), ROW(0, 4, 1), 0, 0},
    {"no elements, strides 0", 2, ROW(0, 5), ROW(0, 0), 0, 0},
    {"no elements, no strides", 2, ROW(0, 0), ROW(0), true, 0},
    {"no elements, strange strides", 3, ROW(0, 5, 7), ROW(-3, 999, INT64_MAX), 0, 0},
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static tensor_spec spec_of(const arrangement *a, jit_dtype t) {
    return (tensor_spec) {.type = t,
                          .ndim = a->ndim,
                          .shape = a->null_shape ? NULL : a->shape,
                          .strides = a->null_strides ? NULL : a->strides};
}

/* What is wrong is told with the case. */
static const char *what;

static void assert_equal(const uint64_t *got, const uint64_t *expected, size_t n) {
    for (size_t i = 0; i < n; ++i)
        cr_assert_eq(got[i], expected[i], "%s: element %zu is %#llx, not %#llx", what, i,
                     (unsigned long long) got[i], (unsigned long long) expected[i]);
}

static void assert_reads(jit_var v, const uint64_t *expected, size_t n) {
    uint64_t *got = support_read(v, n);
    assert_equal(got, expected, n);
    free(got);
}

static void check_shape(const producer *p, jit_var v) {
    const int64_t *shape = jit_var_shape(v);
    cr_assert_eq(jit_var_ndim(v), p->spec.ndim, "%s", what);
    cr_assert_not_null(shape, "%s", what);
    for (int k = 0; k < p->spec.ndim; ++k)
        cr_assert_eq(shape[k], p->spec.shape[k], "%s", what);
}

/* v == expected everywhere, computed where v is. */
static void check_expression(jit_var v, jit_dtype t, const uint64_t *expected, size_t n) {
    jit_var e = support_array(t, expected, n), same = jit_eq(v, e);
    ASSERT_VAR(same);
    uint64_t *got = support_read(same, jit_size(same));
    for (size_t i = 0; i < n; ++i)
        cr_assert_eq(got[i], 1, "%s: element %zu differs in a kernel", what, i);
    free(got);
    jit_unref(e);
    jit_unref(same);
}

/* v[n - 1 - i], and one that lies outside. */
static void check_gather(jit_var v, const uint64_t *expected, size_t n) {
    uint64_t *index = calloc(n + 1, sizeof *index), *wanted = calloc(n + 1, sizeof *wanted);
    for (size_t i = 0; i <= n; ++i) {
        index[i] = i < n ? n - 1 - i : n;
        wanted[i] = i < n ? expected[n - 1 - i] : 0;
    }
    jit_var at = support_array(JIT_u32, index, n + 1), r = jit_gather(v, at, 0);
    ASSERT_VAR(r);
    assert_reads(r, wanted, n + 1);
    jit_unref(at);
    jit_unref(r);
    free(index);
    free(wanted);
}

/* v with the first and the last element exchanged; the producer's memory stays. */
static void check_scatter(const producer *p, jit_var v, const uint64_t *expected, size_t n) {
    if (n < 2)
        return;
    uint64_t *before = producer_memory(p);
    uint64_t value[] = {expected[n - 1], expected[0]}, index[] = {0, n - 1};
    jit_var values = support_array(p->spec.type, value, 2), at = support_array(JIT_u32, index, 2);
    jit_var r = jit_scatter(jit_ref(v), values, at, 0);
    ASSERT_VAR(r);
    jit_unref(v);
    uint64_t *wanted = calloc(n, sizeof *wanted);
    memcpy(wanted, expected, n * sizeof *wanted);
    wanted[0] = expected[n - 1];
    wanted[n - 1] = expected[0];
    assert_reads(r, wanted, n);
    uint64_t *after = producer_memory(p);
    assert_equal(after, before, p->elements);
    jit_unref(values);
    jit_unref(at);
    jit_unref(r);
    free(wanted);
    free(before);
    free(after);
}

/* Where it is, with its own strides. */
static void check_export(const producer *p, jit_var v) {
    DLManagedTensorVersioned *out;
    int64_t element = (int64_t) jit_dtype_size(p->spec.type);
    ASSERT_OK(jit_export_dlpack(v, NULL, &out));
    const DLTensor *t = &out->dl_tensor;
    cr_assert_eq(out->flags, p->spec.flags, "%s", what);
    cr_assert_eq(t->ndim, p->spec.ndim, "%s", what);
    for (size_t i = 0; i < p->size; ++i) {
        size_t rest = i;
        int64_t place = 0, plain = 1, wanted = (int64_t) p->before;
        for (int k = t->ndim; k-- > 0; plain *= t->shape[k]) {
            int64_t c = (int64_t) (rest % (size_t) t->shape[k]);
            rest /= (size_t) t->shape[k];
            place += c * t->strides[k];
            wanted += c * (p->spec.strides ? p->spec.strides[k] : plain);
        }
        cr_assert_eq((char *) t->data + place * element, p->memory + wanted * element,
                     "%s: element %zu", what, i);
    }
    out->deleter(out);
}

/* What was evaluated has memory of its own, if it was a view, and is row-major. */
static void check_evaluated_export(const producer *p, jit_var v) {
    DLManagedTensorVersioned *out;
    void *address;
    int64_t plain = 1;
    ASSERT_OK(jit_data(v, &address));
    ASSERT_OK(jit_export_dlpack(v, NULL, &out));
    cr_assert_eq(out->dl_tensor.data, p->size ? address : NULL, "%s", what);
    for (int k = out->dl_tensor.ndim; k-- > 0; plain *= p->spec.shape[k])
        cr_assert(!p->size || out->dl_tensor.strides[k] == plain, "%s", what);
    out->deleter(out);
}

/* Each use of a variable of its own, since the first one that reads a view evaluates it. */
static void check_uses(const tensor_spec *spec) {
    for (int use = 0; use < 6; ++use) {
        tensor_spec one = *spec;
        one.keeps = use == 3; /* is looked at when it has been given back */
        producer *p = producer_create(&one);
        uint64_t *expected = producer_expected(p);
        jit_var v = producer_take(p);
        cr_assert_eq(jit_type(v), spec->type);
        cr_assert_eq(jit_backend_of(v), support_backend());
        cr_assert_eq(jit_size(v), p->size, "%s: %zu elements", what, jit_size(v));
        check_shape(p, v);
        if (use == 0)
            assert_reads(v, expected, p->size);
        else if (use == 1)
            check_expression(v, spec->type, expected, p->size);
        else if (use == 2)
            check_gather(v, expected, p->size);
        else if (use == 3)
            check_scatter(p, v, expected, p->size);
        else if (use == 4)
            check_export(p, v);
        else
            check_evaluated_export(p, v);
        check_shape(p, v);
        jit_unref(v);
        producer_destroy(p);
        free(expected);
    }
}

static void check_type(jit_dtype t) {
    char text[128];
    what = text;
    support_init();
    for (size_t i = 0; i < COUNT(arrangements); ++i) {
        tensor_spec spec = spec_of(&arrangements[i], t);
        spec.at_start = i % 2;
        spec.legacy = i / 2 % 2;
        spec.flags = i % 4 ? 0 : DLPACK_FLAG_BITMASK_READ_ONLY;
        snprintf(text, sizeof text, "%s, %s", jit_dtype_name(t), arrangements[i].name);
        check_uses(&spec);
    }
    support_shutdown();
}

#define TYPE(t)                                                                                    \
    Test(dlpack_import, JOIN(all_arrangements_of_, t)) {                                           \
        check_type(JIT_##t);                                                                       \
    }
#define JOIN(a, b) a##b
TYPE(bool)
TYPE(i8)
TYPE(u8)
TYPE(i16)
TYPE(u16)
TYPE(i32)
TYPE(u32)
TYPE(i64)
TYPE(u64)
TYPE(f16)
TYPE(bf16)
TYPE(f32)
TYPE(f64)
