/* dlpack_producer.c: see dlpack_producer.h.  Layer: tests. */
#include "dlpack_producer.h"
#include "cuda/driver.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- memory ---- */

typedef struct driver {
    CUresult (*retain)(CUcontext *, CUdevice), (*push)(CUcontext);
    CUresult (*pop)(CUcontext *), (*alloc)(CUdeviceptr *, size_t), (*free)(CUdeviceptr);
    CUresult (*upload)(CUdeviceptr, const void *, size_t, CUstream);
    CUresult (*wait)(CUstream);
    CUresult (*managed)(CUdeviceptr *, size_t, unsigned);
    CUresult (*host_alloc)(void **, size_t, unsigned), (*host_free)(void *);
} driver;

static driver find_driver(void) {
    driver d;
    *(void **) &d.retain = support_driver("cuDevicePrimaryCtxRetain");
    *(void **) &d.push = support_driver("cuCtxPushCurrent_v2");
    *(void **) &d.pop = support_driver("cuCtxPopCurrent_v2");
    *(void **) &d.alloc = support_driver("cuMemAlloc_v2");
    *(void **) &d.free = support_driver("cuMemFree_v2");
    *(void **) &d.upload = support_driver("cuMemcpyHtoDAsync_v2");
    *(void **) &d.wait = support_driver("cuStreamSynchronize");
    *(void **) &d.managed = support_driver("cuMemAllocManaged");
    *(void **) &d.host_alloc = support_driver("cuMemHostAlloc");
    *(void **) &d.host_free = support_driver("cuMemFreeHost");
    return d;
}

static bool is_host(const producer *p) {
    return p->spec.device == kDLCPU;
}

static void enter(const driver *d, int device, CUcontext *context) {
    cr_assert(!d->retain(context, device) && !d->push(*context));
}
static void leave(const driver *d) {
    CUcontext context;
    cr_assert(!d->pop(&context)); /* and is retained still, as the memory lies in it */
}

/* At a page's end or start. */
static void map_host(producer *p, size_t bytes) {
    size_t page = (size_t) sysconf(_SC_PAGESIZE);
    size_t inner = (bytes + p->spec.off + page - 1) / page * page;
    p->bytes = inner + 2 * page;
    p->block = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(p->block, MAP_FAILED);
    char *start = (char *) p->block + page;
    cr_assert(!mprotect(p->block, page, PROT_NONE) && !mprotect(start + inner, page, PROT_NONE));
    p->memory = p->spec.at_start ? start + p->spec.off : start + inner - bytes - p->spec.off;
}

static void allocate(producer *p, size_t bytes) {
    driver d = find_driver();
    CUcontext context;
    CUdeviceptr block = 0;
    void *pinned = NULL;
    p->bytes = bytes + p->spec.off;
    enter(&d, p->spec.device_id, &context);
    if (p->spec.device == kDLCUDAHost)
        cr_assert_eq(d.host_alloc(&pinned, p->bytes, 0), CUDA_SUCCESS);
    else if (p->spec.device == kDLCUDAManaged)
        cr_assert_eq(d.managed(&block, p->bytes, 1), CUDA_SUCCESS);
    else
        cr_assert_eq(d.alloc(&block, p->bytes), CUDA_SUCCESS);
    leave(&d);
    p->block = pinned ? pinned : (void *) (uintptr_t) block;
    p->memory = (char *) p->block + p->spec.off;
}

static void fill(producer *p, const void *from, size_t bytes) {
    driver d = find_driver();
    CUcontext context;
    if (p->spec.device == kDLCPU || p->spec.device == kDLCUDAHost) {
        memcpy(p->memory, from, bytes);
        return;
    }
    enter(&d, p->spec.device_id, &context);
    cr_assert(!d.upload((uintptr_t) p->memory, from, bytes, NULL) && !d.wait(NULL));
    leave(&d);
}

static void release_memory(producer *p) {
    driver d;
    CUcontext context;
    if (!p->block)
        return;
    if (is_host(p)) {
        munmap(p->block, p->bytes);
        return;
    }
    d = find_driver();
    enter(&d, p->spec.device_id, &context);
    if (p->spec.device == kDLCUDAHost)
        d.host_free(p->block);
    else
        d.free((uintptr_t) p->block);
    leave(&d);
}

/* ---- the structs ---- */

static void delete_tensor(producer *p, void *managed, size_t bytes) {
    if (p->hook)
        p->hook(p->context);
    if (atomic_fetch_add(&p->deleted, 1))
        return; /* the test will say so */
    if (!p->spec.keeps)
        release_memory(p);
    free(p->tensor->shape);
    free(p->tensor->strides);
    memset(managed, 0xa5, bytes);
    free(managed);
    atomic_store(&p->ended, 1);
}

static void delete_versioned(DLManagedTensorVersioned *t) {
    delete_tensor(t->manager_ctx, t, sizeof *t);
}
static void delete_legacy(DLManagedTensor *t) {
    delete_tensor(t->manager_ctx, t, sizeof *t);
}

static DLDataType type_of(jit_dtype t) {
    uint8_t code = t == JIT_bool                      ? kDLBool
                   : t == JIT_bf16                    ? kDLBfloat
                   : jitc_dtypes[t].cls == JITC_FLOAT ? kDLFloat
                   : jitc_dtypes[t].cls == JITC_INT   ? kDLInt
                                                      : kDLUInt;
    return (DLDataType) {code, (uint8_t) (8 * jitc_dtypes[t].bytes), 1};
}

static int64_t *copy_numbers(const int64_t *from, int n) {
    if (!from)
        return NULL;
    int64_t *to = malloc((size_t) n * sizeof *to + 1); /* 0 numbers are no NULL */
    cr_assert_not_null(to);
    if (n)
        memcpy(to, from, (size_t) n * sizeof *to);
    return to;
}

/* Sizes in elements. */
static void measure(producer *p) {
    const tensor_spec *s = &p->spec;
    int64_t low = 0, high = 0, plain = 1;
    p->size = 1;
    for (int k = 0; k < s->ndim; ++k)
        p->size *= (size_t) s->shape[k];
    for (int k = p->size ? s->ndim : 0; k-- > 0; plain *= s->shape[k]) {
        int64_t span = (s->shape[k] - 1) * (s->strides ? s->strides[k] : plain);
        *(span < 0 ? &low : &high) += s->shape[k] > 1 ? span : 0;
    }
    p->before = (size_t) -low;
    p->elements = p->size ? (size_t) (high - low + 1) : 0;
}

static void make_struct(producer *p) {
    const tensor_spec *s = &p->spec;
    if (s->legacy) {
        cr_assert_not_null(p->legacy = calloc(1, sizeof *p->legacy));
        *p->legacy = (DLManagedTensor) {.manager_ctx = p, .deleter = delete_legacy};
        p->tensor = &p->legacy->dl_tensor;
    } else {
        cr_assert_not_null(p->versioned = calloc(1, sizeof *p->versioned));
        *p->versioned = (DLManagedTensorVersioned) {
            .version = {1, 3}, .manager_ctx = p, .deleter = delete_versioned, .flags = s->flags};
        p->tensor = &p->versioned->dl_tensor;
    }
    *p->tensor = (DLTensor) {.device = {s->device, s->device == kDLCUDA ? s->device_id : 0},
                             .ndim = s->ndim,
                             .dtype = type_of(s->type),
                             .shape = copy_numbers(s->shape, s->ndim),
                             .strides = copy_numbers(s->strides, s->ndim),
                             .byte_offset = s->byte_offset};
}

producer *producer_create(const tensor_spec *spec) {
    producer *p = calloc(1, sizeof *p);
    size_t element = jit_dtype_size(spec->type);
    cr_assert_not_null(p);
    p->spec = *spec;
    if (!p->spec.device)
        p->spec.device = support_backend() == JIT_CUDA ? kDLCUDA : kDLCPU;
    measure(p);
    make_struct(p);
    if (!p->elements)
        return p;
    if (is_host(p))
        map_host(p, p->elements * element);
    else
        allocate(p, p->elements * element);
    char *contents = malloc(p->elements * element);
    cr_assert_not_null(contents);
    for (size_t m = 0; m < p->elements; ++m) {
        uint64_t bits = producer_bits(spec->type, m);
        memcpy(contents + m * element, &bits, element);
    }
    fill(p, contents, p->elements * element);
    free(contents);
    p->tensor->data = p->memory + p->before * element - spec->byte_offset;
    return p;
}

jit_status producer_import(producer *p, const jit_import_options *options, jit_var *out) {
    return p->spec.legacy ? jit_import_dlpack_legacy(p->legacy, options, out)
                          : jit_import_dlpack(p->versioned, options, out);
}

jit_var producer_take(producer *p) {
    jit_var v = 0;
    ASSERT_OK(producer_import(p, NULL, &v));
    ASSERT_VAR(v);
    return v;
}

int producer_deleted(producer *p) {
    jit_sync_all_devices();
    return atomic_load(&p->deleted);
}

void producer_destroy(producer *p) {
    cr_assert_eq(producer_deleted(p), 1, "the deleter was called %d times", p->deleted);
    while (!atomic_load(&p->ended)) /* another thread is in it */
        usleep(100);
    if (p->spec.keeps)
        release_memory(p);
    free(p);
}

/* ---- elements ---- */

uint64_t producer_bits(jit_dtype t, size_t m) {
    switch (t) {
        case JIT_bool: return m % 3 == 0 ? 0 : m % 3 == 1 ? 1 : 0x80 | (m & 0x7e);
        case JIT_f16: return 0x3c00 + m % 0x400;
        case JIT_bf16: return 0x3f80 + m % 0x80;
        case JIT_f32: return 0x3f800000 + m;
        case JIT_f64: return (uint64_t) 0x3ff0 << 48 | m;
        default: return (m * 0x9e3779b97f4a7c15u + 77) & jitc_bits_mask(t);
    }
}

static uint64_t value(const producer *p, size_t m) {
    uint64_t bits = producer_bits(p->spec.type, m);
    return p->spec.type == JIT_bool ? bits != 0 : bits;
}

uint64_t *producer_expected(const producer *p) {
    const tensor_spec *s = &p->spec;
    uint64_t *bits = calloc(p->size + 1, sizeof *bits);
    cr_assert_not_null(bits);
    for (size_t i = 0; i < p->size; ++i) {
        size_t rest = i;
        int64_t m = (int64_t) p->before, plain = 1;
        for (int k = s->ndim; k-- > 0; plain *= s->shape[k]) {
            int64_t c = (int64_t) (rest % (size_t) s->shape[k]);
            rest /= (size_t) s->shape[k];
            m += c * (s->strides ? s->strides[k] : plain);
        }
        bits[i] = value(p, (size_t) m);
    }
    return bits;
}

uint64_t *producer_memory(const producer *p) {
    size_t element = jit_dtype_size(p->spec.type);
    char *contents = malloc(p->elements * element + 1);
    uint64_t *bits = calloc(p->elements + 1, sizeof *bits);
    cr_assert(contents && bits);
    if (p->elements && (p->spec.device == kDLCPU || p->spec.device == kDLCUDAHost))
        memcpy(contents, p->memory, p->elements * element);
    else if (p->elements)
        support_copy_to_host(contents, p->memory, p->elements * element);
    for (size_t m = 0; m < p->elements; ++m)
        memcpy(&bits[m], contents + m * element, element);
    free(contents);
    return bits;
}
