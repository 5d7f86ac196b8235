/* dlpack_world.c: tensors of ours, looked into as a consumer does.  Layer: tests. */
#include "dlpack_world.h"
#include "cuda/driver.h"
#include <stdlib.h>
#include <string.h>

static jit_status export(jit_var v, bool legacy, const jit_export_options *options, tensor *out) {
    if (legacy)
        return jit_export_dlpack_legacy(v, options, &out->legacy);
    return jit_export_dlpack(v, options, &out->versioned);
}

tensor dlpack_export(jit_var v, bool legacy, const jit_export_options *options) {
    tensor t = {0};
    ASSERT_OK(export(v, legacy, options, &t));
    cr_assert(legacy ? !!t.legacy : !!t.versioned);
    return t;
}

void dlpack_refuse(jit_var v, bool legacy, const jit_export_options *options, jit_status status,
                   const char *words) {
    tensor t = {(void *) &t, (void *) &t};
    jit_status got = export(v, legacy, options, &t);
    cr_assert_eq(got, status, "%s instead of %s: %s", jit_status_name(got), jit_status_name(status),
                 jit_error());
    cr_assert_null(legacy ? (void *) t.legacy : (void *) t.versioned);
    cr_assert_not_null(strstr(jit_error(), words), "not '%s': %s", words, jit_error());
    const char *who = legacy ? "jit_export_dlpack_legacy: " : "jit_export_dlpack: ";
    cr_assert_eq(strncmp(jit_error(), who, strlen(who)), 0, "who? %s", jit_error());
    jit_error_clear();
}

DLTensor *dlpack_tensor(const tensor *t) {
    return t->versioned ? &t->versioned->dl_tensor : &t->legacy->dl_tensor;
}

uint64_t dlpack_flags(const tensor *t) {
    return t->versioned ? t->versioned->flags : 0;
}

void dlpack_delete(tensor *t) {
    if (t->versioned)
        t->versioned->deleter(t->versioned);
    else
        t->legacy->deleter(t->legacy);
    *t = (tensor) {0};
}

uint64_t *dlpack_read(const tensor *t, size_t n) {
    const DLTensor *d = dlpack_tensor(t);
    size_t element = d->dtype.bits / 8u;
    char *bytes = malloc(n * element + 1);
    uint64_t *bits = calloc(n + 1, sizeof *bits);
    cr_assert(bytes && bits);
    const char *from = (const char *) d->data + d->byte_offset;
    if (n && d->device.device_type == kDLCPU)
        memcpy(bytes, from, n * element);
    else if (n)
        support_copy_to_host(bytes, from, n * element);
    for (size_t i = 0; i < n; ++i)
        memcpy(&bits[i], bytes + i * element, element);
    free(bytes);
    return bits;
}

void dlpack_write(const tensor *t, uint64_t bits) {
    const DLTensor *d = dlpack_tensor(t);
    size_t element = d->dtype.bits / 8u;
    if (d->device.device_type == kDLCPU) {
        memcpy(d->data, &bits, element);
        return;
    }
    CUresult (*copy)(CUdeviceptr, const void *, size_t);
    void *function = support_driver("cuMemcpyHtoD_v2"), *context = jit_cuda_context();
    CUresult (*push)(CUcontext), (*pop)(CUcontext *);
    memcpy(&copy, &function, sizeof copy);
    function = support_driver("cuCtxPushCurrent_v2");
    memcpy(&push, &function, sizeof push);
    function = support_driver("cuCtxPopCurrent_v2");
    memcpy(&pop, &function, sizeof pop);
    push(context);
    cr_assert_eq(copy((CUdeviceptr) (uintptr_t) d->data, &bits, element), CUDA_SUCCESS);
    pop(&(CUcontext) {NULL});
}

jit_var dlpack_ramp(size_t n, uint32_t first) {
    uint32_t *values = malloc(n * sizeof *values + 1);
    cr_assert_not_null(values);
    for (size_t i = 0; i < n; ++i)
        values[i] = first + (uint32_t) i;
    jit_var v = jit_from_host(B, JIT_u32, values, n);
    free(values);
    ASSERT_VAR(v);
    return v;
}

void dlpack_expect(jit_var v, size_t n, uint32_t first, const uint32_t *other) {
    uint64_t *bits = support_read(v, n);
    for (size_t i = 0; i < n; ++i) {
        uint64_t wanted = i == 0 && other ? *other : first + i;
        cr_assert_eq(bits[i], wanted, "element %zu is %llu instead of %llu", i,
                     (unsigned long long) bits[i], (unsigned long long) wanted);
    }
    free(bits);
}

jit_stats dlpack_stats(void) {
    jit_stats s;
    ASSERT_OK(jit_get_stats(&s));
    return s;
}
