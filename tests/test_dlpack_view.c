/* test_dlpack_view.c: imported memory that is exported again: the same bytes, with the shape and
 * the strides that they came with, and the owner's deleter last. */
#include "dlpack_producer.h"
#include "dlpack_world.h"
#include <stdlib.h>
#include <string.h>

TestSuite(dlpack_view, .init = support_init, .fini = support_shutdown, .timeout = 120);

enum { RO = DLPACK_FLAG_BITMASK_READ_ONLY, COPIED = DLPACK_FLAG_BITMASK_IS_COPIED };

typedef struct layout {
    int ndim;
    int64_t shape[4], strides[4];
    bool compact;
} layout;

static const layout layouts[] = {
    {2, {4, 6}, {6, 1}, true},        {2, {6, 4}, {1, 6}, false},
    {2, {4, 6}, {8, 1}, false},       {1, {5}, {-3}, false},
    {2, {3, 4}, {-4, -1}, false},     {2, {3, 4}, {0, 1}, false},
    {3, {2, 3, 4}, {1, 8, 2}, false},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static producer *produce(const layout *l, uint64_t flags) {
    return producer_create(&(tensor_spec) {.type = JIT_u32,
                                           .ndim = l->ndim,
                                           .shape = l->shape,
                                           .strides = l->strides,
                                           .flags = flags});
}

static void *first_element(const producer *p) {
    return p->memory + p->before * sizeof(uint32_t);
}

static size_t size_of(const layout *l) {
    size_t n = 1;
    for (int i = 0; i < l->ndim; ++i)
        n *= (size_t) l->shape[i];
    return n;
}

static void expect_layout(const tensor *t, const layout *l) {
    const DLTensor *d = dlpack_tensor(t);
    cr_assert_eq(d->ndim, l->ndim);
    cr_assert_eq(d->byte_offset, 0);
    for (int i = 0; i < l->ndim; ++i) {
        cr_assert_eq(d->shape[i], l->shape[i], "dimension %d", i);
        cr_assert_eq(d->strides[i], l->strides[i], "stride %d: %lld", i, (long long) d->strides[i]);
    }
}

/* Row-major, in memory of its own. */
static void expect_compact(const tensor *t, const producer *p, const uint64_t *elements) {
    const DLTensor *d = dlpack_tensor(t);
    int64_t step = 1;
    for (int i = d->ndim; i-- > 0;) {
        cr_assert_eq(d->strides[i], step);
        step *= d->shape[i];
    }
    cr_assert_neq(d->data, first_element(p));
    uint64_t *bits = dlpack_read(t, p->size);
    cr_assert_eq(memcmp(bits, elements, p->size * sizeof *bits), 0);
    free(bits);
}

static void expect_in_place(jit_var v, const producer *p, const layout *l, bool legacy,
                            uint64_t flags, const jit_export_options *o) {
    tensor t = dlpack_export(v, legacy, o);
    cr_assert_eq(dlpack_tensor(&t)->data, first_element(p));
    cr_assert_eq(dlpack_flags(&t), flags);
    expect_layout(&t, l);
    dlpack_delete(&t);
}

static void check_in_place(const layout *l, uint64_t flags) {
    producer *p = produce(l, flags);
    jit_var v = producer_take(p);
    for (int copy = JIT_COPY_NEVER; copy <= JIT_COPY_IF_NEEDED; ++copy) {
        expect_in_place(v, p, l, false, flags, EXPORT_WITH(.copy = copy));
        expect_in_place(v, p, l, false, flags,
                        EXPORT_WITH(.copy = copy, .ndim = l->ndim, .shape = l->shape));
        if (flags)
            dlpack_refuse(v, true, EXPORT_WITH(.copy = copy), JIT_READ_ONLY, "imported");
        else
            expect_in_place(v, p, l, true, 0, EXPORT_WITH(.copy = copy));
    }
    jit_ref(v);
    expect_in_place(v, p, l, false, RO, NULL);
    jit_unref(v), jit_unref(v);
    producer_destroy(p);
}

Test(dlpack_view, is_exported_in_place_with_its_own_strides) {
    for (int i = 0; i < LAYOUTS; ++i) {
        check_in_place(&layouts[i], 0);
        check_in_place(&layouts[i], RO);
    }
}

static void check_copies(const layout *l, uint64_t flags) {
    producer *p = produce(l, flags);
    uint64_t *elements = producer_expected(p);
    jit_var v = producer_take(p);
    for (int legacy = 0; legacy < 2; ++legacy) {
        tensor t = dlpack_export(v, legacy, EXPORT_WITH(.copy = JIT_COPY_ALWAYS));
        expect_compact(&t, p, elements);
        cr_assert_eq(dlpack_flags(&t), legacy ? 0 : COPIED);
        dlpack_write(&t, 1);
        dlpack_delete(&t);
        t = dlpack_export(v, legacy, EXPORT_WITH(.copy = flags ? 1 : 0, .read_only = legacy));
        if (legacy) /* which cannot say that it is read-only */
            expect_compact(&t, p, elements);
        dlpack_delete(&t);
        t = dlpack_export(v, legacy, EXPORT_WITH(.device_type = kDLCPU, .copy = JIT_COPY_ALWAYS));
        cr_assert_eq(dlpack_tensor(&t)->device.device_type, kDLCPU);
        expect_compact(&t, p, elements);
        dlpack_delete(&t);
    }
    expect_in_place(v, p, l, false, flags, NULL); /* it is a view still, and has not been written */
    jit_unref(v);
    free(elements);
    producer_destroy(p);
}

Test(dlpack_view, a_copy_is_compact_and_leaves_the_view_alone) {
    for (int i = 0; i < LAYOUTS; ++i) {
        check_copies(&layouts[i], 0);
        check_copies(&layouts[i], RO);
    }
}

Test(dlpack_view, another_shape_than_its_own_needs_a_copy) {
    for (int i = 0; i < LAYOUTS; ++i) {
        const layout *l = &layouts[i];
        const int64_t shape[] = {1, (int64_t) size_of(l)};
        producer *p = produce(l, 0);
        uint64_t *elements = producer_expected(p);
        jit_var v = producer_take(p);
        if (!l->compact)
            dlpack_refuse(v, false, EXPORT_WITH(.ndim = 2, .shape = shape, .copy = JIT_COPY_NEVER),
                          JIT_UNSUPPORTED, "another shape");
        tensor t = dlpack_export(v, false, EXPORT_WITH(.ndim = 2, .shape = shape));
        cr_assert_eq(dlpack_flags(&t), l->compact ? 0 : COPIED);
        cr_assert_eq(dlpack_tensor(&t)->shape[1], shape[1]);
        if (!l->compact)
            expect_compact(&t, p, elements);
        dlpack_delete(&t);
        expect_in_place(v, p, l, false, 0, NULL);
        jit_unref(v);
        free(elements);
        producer_destroy(p);
    }
}

/* It has memory of its own then, and its shape still. */
Test(dlpack_view, once_evaluated_it_is_an_array_of_its_shape) {
    for (int i = 0; i < LAYOUTS; ++i) {
        producer *p = produce(&layouts[i], RO);
        uint64_t *elements = producer_expected(p);
        jit_var v = producer_take(p);
        ASSERT_OK(jit_var_eval(v));
        tensor t = dlpack_export(v, false, NULL);
        cr_assert_eq(dlpack_tensor(&t)->ndim, layouts[i].ndim);
        cr_assert_eq(dlpack_flags(&t), layouts[i].compact ? RO : 0);
        if (!layouts[i].compact)
            expect_compact(&t, p, elements);
        dlpack_delete(&t);
        jit_unref(v);
        free(elements);
        producer_destroy(p);
    }
}

Test(dlpack_view, the_owner_gets_its_tensor_back_after_the_last_consumer) {
    for (int i = 0; i < LAYOUTS; ++i) {
        producer *p = produce(&layouts[i], 0);
        jit_var v = producer_take(p);
        tensor t = dlpack_export(v, false, NULL), u = dlpack_export(v, true, NULL);
        jit_unref(v);
        cr_assert_eq(producer_deleted(p), 0);
        dlpack_delete(&t);
        cr_assert_eq(producer_deleted(p), 0);
        dlpack_delete(&u);
        if (B ==
            JIT_CUDA) /* the deleter calls no driver: the next who has to do with streams does */
            ASSERT_OK(jit_cuda_wait_stream((uintptr_t) JIT_STREAM_LEGACY));
        producer_destroy(p); /* once */
    }
}

Test(dlpack_view, the_owner_gets_its_tensor_back_after_the_end_too) {
    if (B == JIT_CUDA) /* the producer's own memory needs the driver */
        support_skip("on the CPU");
    for (int i = 0; i < LAYOUTS; ++i) {
        producer *p = produce(&layouts[i], 0);
        uint64_t *elements = producer_expected(p);
        jit_var v = producer_take(p);
        tensor t = dlpack_export(v, false, NULL);
        jit_unref(v);
        support_shutdown();
        cr_assert_eq(atomic_load(&p->deleted), 0);
        cr_assert_eq(*(const uint32_t *) dlpack_tensor(&t)->data, elements[0]);
        dlpack_delete(&t);
        cr_assert_eq(atomic_load(&p->deleted), 1);
        free(elements);
        support_init();
        producer_destroy(p);
    }
}
