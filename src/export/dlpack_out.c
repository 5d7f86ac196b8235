#include "export/dlpack_out.h"
#include "core/mem.h"
#include <stdlib.h>

void jitc_export_destroy(jitc_export *e) {
    if (!e)
        return;
    if (e->lent) {
        jitc_loan_end(&e->loan);
        return;
    }
    free(e->own);
    free(e);
}

static void delete_versioned(DLManagedTensorVersioned *self) {
    jitc_export_destroy(self->manager_ctx);
}

static void delete_legacy(DLManagedTensor *self) {
    jitc_export_destroy(self->manager_ctx);
}

/* As if every dimension had an element at least: then those of an empty array are like those of any
 * other. Such a product can be too large, and what it is does not matter. */
static void compact_strides(int ndim, const int64_t *shape, int64_t *strides) {
    int64_t step = 1;
    for (int i = ndim; i-- > 0;) {
        strides[i] = step;
        if (__builtin_mul_overflow(step, shape[i] > 1 ? shape[i] : 1, &step))
            step = INT64_MAX;
    }
}

/* Member by member: what is put together elsewhere and copied costs more than all the rest. */
static void describe(DLTensor *d, const jitc_tensor *t, int64_t *extents) {
    size_t n = (size_t) t->ndim;
    d->data = t->data;
    d->device = t->device;
    d->ndim = t->ndim;
    d->dtype.code = jitc_dtypes[t->type].dlpack_code;
    d->dtype.bits = jitc_dtypes[t->type].bits;
    d->dtype.lanes = 1;
    d->shape = extents;
    d->strides = extents + n;
    d->byte_offset = 0;
    for (size_t i = 0; i < n; ++i)
        extents[i] = t->shape[i];
    if (!t->strides)
        compact_strides(t->ndim, extents, extents + n);
    for (size_t i = 0; t->strides && i < n; ++i)
        extents[n + i] = t->strides[i];
}

jit_status jitc_export_create(const jitc_tensor *t, jitc_export **out) {
    jitc_export *e = malloc(sizeof *e + 2 * sizeof *e->extents * (size_t) t->ndim);
    if (!e)
        return jitc_fail(JIT_OUT_OF_MEMORY, "host memory: no room for a tensor");
    e->lent = false;
    e->own = NULL;
    if (t->legacy) {
        DLManagedTensor *m = &e->tensor.legacy;
        describe(&m->dl_tensor, t, e->extents);
        m->manager_ctx = e;
        m->deleter = delete_legacy;
    } else {
        DLManagedTensorVersioned *m = &e->tensor.versioned;
        describe(&m->dl_tensor, t, e->extents);
        m->version.major = DLPACK_MAJOR_VERSION;
        m->version.minor = t->minor;
        m->manager_ctx = e;
        m->deleter = delete_versioned;
        m->flags = t->flags;
    }
    *out = e;
    return JIT_OK;
}
