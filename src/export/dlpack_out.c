#include "export/dlpack_out.h"
#include "core/mem.h"
#include <stdlib.h>
#include <string.h>

void jitc_export_destroy(jitc_export *e) {
    if (!e)
        return;
    if (e->lent)
        jitc_loan_end(&e->loan);
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

static DLTensor describe(const jitc_tensor *t, int64_t *extents) {
    size_t bytes = sizeof *extents * (size_t) t->ndim;
    int64_t *strides = extents + t->ndim;
    if (bytes)
        memcpy(extents, t->shape, bytes);
    if (t->strides && bytes)
        memcpy(strides, t->strides, bytes);
    else
        compact_strides(t->ndim, extents, strides);
    const jitc_dtype_info *type = &jitc_dtypes[t->type];
    return (DLTensor) {.data = t->data,
                       .device = t->device,
                       .ndim = t->ndim,
                       .dtype = {type->dlpack_code, type->bits, 1},
                       .shape = extents,
                       .strides = strides};
}

jit_status jitc_export_create(const jitc_tensor *t, jitc_export **out) {
    jitc_export *e = malloc(sizeof *e + 2 * sizeof *e->extents * (size_t) t->ndim);
    if (!e)
        return jitc_fail(JIT_OUT_OF_MEMORY, "host memory: no room for a tensor");
    DLTensor tensor = describe(t, e->extents);
    e->lent = false;
    e->own = NULL;
    if (t->legacy)
        e->tensor.legacy = (DLManagedTensor) {tensor, e, delete_legacy};
    else
        e->tensor.versioned = (DLManagedTensorVersioned) {
            {DLPACK_MAJOR_VERSION, t->minor}, e, delete_versioned, t->flags, tensor};
    *out = e;
    return JIT_OK;
}
