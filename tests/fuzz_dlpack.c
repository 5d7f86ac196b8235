/* fuzz_dlpack.c: random tensors are imported, read and exported again.
 *
 * Bytes become a tensor over memory with pages around it that cannot be touched: numbers that are
 * plausible, or any. An oracle of its own, with 128-bit arithmetic and a plain loop over strides,
 * says whether the import has to succeed, and what the elements are. The deleter is called once
 * whatever happens.
 *
 * usage: fuzz_dlpack [seconds [seed]]     0 seconds: one tensor, which needs a seed
 * With libFuzzer (FUZZ_LIBFUZZER) the bytes are its own, and so are the arguments. */
#include "export/dlpack_in.h"
#include "support.h"
#include <jit/dlpack.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

__extension__ typedef __int128 wide;
enum {
    MEMORY = 1 << 14,
    PAGE = 4096,
    READ_AT_MOST = 1 << 13,
    EVALUATE_ONE_OF = 6,
    COPY_AT_MOST = 1 << 20
};

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_dlpack: line %d: %s: %s\n", __LINE__, #condition, jit_error());  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* ---- Numbers from bytes ---- */

typedef struct source {
    const uint8_t *at, *end;
} source;

/* 0 when there are no more. */
static uint64_t take(source *s, size_t bytes) {
    uint64_t x = 0;
    for (size_t i = 0; i < bytes && s->at < s->end; ++i)
        x |= (uint64_t) *s->at++ << 8 * i;
    return x;
}
static uint64_t below(source *s, uint64_t n) {
    return take(s, n > 256 ? 8 : 1) % n;
}
static bool one_of(source *s, unsigned n) {
    return below(s, n) == 0;
}

/* ---- A tensor ---- */

typedef struct fuzzed {
    int64_t shape[66], strides[66];
    bool legacy, no_strides, no_shape;
    uint32_t major, minor;
    uint64_t flags;
    DLTensor tensor;
    jit_import_options options;
    atomic_int deleted;
    /* What the oracle says. */
    bool good;
    int ndim; /* of the variable */
    uint64_t size, element, raw;
    bool reachable; /* all elements are in the memory */
} fuzzed;

static char *memory; /* MEMORY bytes between two pages that cannot be touched */

static void map_memory(void) {
    char *pages =
        mmap(NULL, MEMORY + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    memory = pages + PAGE;
    for (size_t i = 0; i < MEMORY; ++i)
        memory[i] = (char) (i * 37 + i / 256 * 11);
    CHECK(!mprotect(pages, PAGE, PROT_NONE) && !mprotect(memory + MEMORY, PAGE, PROT_NONE));
}

static int64_t any_number(source *s) {
    static const int64_t edges[] = {0,
                                    1,
                                    -1,
                                    2,
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT32_MAX,
                                    UINT32_MAX,
                                    (int64_t) 1 << 40,
                                    -((int64_t) 1 << 61),
                                    (int64_t) 1 << 61,
                                    999};
    if (one_of(s, 2))
        return edges[below(s, sizeof edges / sizeof *edges)];
    return (int64_t) take(s, 8);
}

/* Few sizes, so that kernels come back. */
static int64_t likely_size(source *s) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 16, 33, 1, 1, 64, 0};
    return sizes[below(s, one_of(s, 8) ? 12 : 11)];
}

static void make_dimensions(source *s, fuzzed *f, bool wild) {
    int ndim = (int) below(s, one_of(s, 10) ? 66 : 5);
    int64_t plain = 1;
    f->no_strides = one_of(s, 6);
    for (int k = ndim; k-- > 0;) {
        f->shape[k] = wild && one_of(s, 3) ? any_number(s) : ndim > 5 ? 1 : likely_size(s);
        f->strides[k] = plain;
        if (wild && one_of(s, 3))
            f->strides[k] = any_number(s);
        else if (one_of(s, 3))
            f->strides[k] = (int64_t) below(s, 90) - 30;
        else if (one_of(s, 8))
            f->strides[k] = (int64_t) -(uint64_t) plain;
        if (__builtin_mul_overflow(plain, f->shape[k], &plain))
            plain = 1;
    }
    if (ndim > 1 && one_of(s, 4)) { /* transposed */
        int64_t first = f->strides[0];
        f->strides[0] = f->strides[1];
        f->strides[1] = first;
    }
    f->tensor.ndim = wild && one_of(s, 5) ? (int32_t) any_number(s) : ndim;
    f->no_shape = ndim == 0 || (wild && one_of(s, 9));
}

static void make_type(source *s, fuzzed *f, bool wild) {
    static const DLDataType types[] = {
        {kDLBool, 8, 1},   {kDLInt, 8, 1},      {kDLUInt, 8, 1},    {kDLInt, 16, 1},
        {kDLUInt, 16, 1},  {kDLInt, 32, 1},     {kDLUInt, 32, 1},   {kDLInt, 64, 1},
        {kDLUInt, 64, 1},  {kDLFloat, 16, 1},   {kDLBfloat, 16, 1}, {kDLFloat, 32, 1},
        {kDLFloat, 64, 1}, {kDLComplex, 64, 1}, {kDLFloat, 32, 3},  {kDLFloat4_e2m1fn, 4, 2}};
    f->tensor.dtype = types[below(s, wild ? 16 : 13)];
    if (wild && one_of(s, 4))
        f->tensor.dtype =
            (DLDataType) {(uint8_t) take(s, 1), (uint8_t) take(s, 1), (uint16_t) take(s, 2)};
    f->options.raw_bytes = one_of(s, 3);
}

static bool is_known(DLDataType t) {
    if (t.lanes != 1)
        return false;
    switch (t.code) {
        case kDLInt:
        case kDLUInt: return t.bits == 8 || t.bits == 16 || t.bits == 32 || t.bits == 64;
        case kDLFloat: return t.bits == 16 || t.bits == 32 || t.bits == 64;
        case kDLBfloat: return t.bits == 16;
        case kDLBool: return t.bits == 8;
        default: return false;
    }
}

/* The same in other words than the library has. False: there are no such elements. */
static bool judge_type(fuzzed *f) {
    DLDataType t = f->tensor.dtype;
    f->raw = 0;
    f->element = t.bits / 8u;
    if (is_known(t))
        return true;
    unsigned bits = f->flags & 4 ? (t.bits + 7u) / 8u * 8u : t.bits;
    f->raw = f->element = bits * (uint64_t) t.lanes / 8;
    return f->options.raw_bytes && f->raw && bits * (uint64_t) t.lanes % 8 == 0;
}

static int64_t stride_of(const fuzzed *f, int k) {
    if (!f->no_strides)
        return f->strides[k];
    int64_t stride = 1;
    for (int i = k + 1; i < f->tensor.ndim; ++i)
        stride *= f->shape[i];
    return stride;
}

/* Elements before the first and behind it; false: more than can be. */
static bool judge_shape(fuzzed *f, wide *before, wide *behind) {
    wide n = 1;
    bool none = false;
    *before = *behind = 0;
    for (int k = 0; k < f->tensor.ndim; ++k) {
        if (f->shape[k] < 0)
            return false;
        none = none || !f->shape[k];
        if (n <= (wide) 1 << 50)
            n *= f->shape[k];
    }
    f->size = none ? 0 : n > (wide) 1 << 50 ? (uint64_t) 1 << 50 : (uint64_t) n;
    if (f->size > (uint64_t) 1 << 40)
        return false;
    for (int k = 0; f->size && k < f->tensor.ndim; ++k) {
        wide span = (wide) (f->shape[k] - 1) * stride_of(f, k);
        *(span < 0 ? before : behind) += span < 0 ? -span : span;
        if (*before > (wide) 1 << 62 || *behind > (wide) 1 << 62)
            return false;
    }
    return true;
}

static void judge(fuzzed *f) {
    const DLTensor *t = &f->tensor;
    wide before, behind, first = (wide) (uintptr_t) t->data + t->byte_offset;
    f->good = false;
    if ((!f->legacy && f->major != 1) || t->device.device_type != kDLCPU || t->ndim < 0 ||
        t->ndim > 64 || (t->ndim && f->no_shape) || !judge_type(f) ||
        !judge_shape(f, &before, &behind))
        return;
    wide element = (wide) f->element;
    wide low = first - before * element, high = first + (behind + 1) * element;
    f->ndim = t->ndim + (f->raw != 0);
    f->reachable = !f->size ||
                   (low >= (wide) (uintptr_t) memory && high <= (wide) (uintptr_t) memory + MEMORY);
    uint64_t lanes = f->raw ? f->raw : 1, extent = f->raw ? (uint64_t) (high - low) : 0;
    if (f->ndim > 64)
        return;
    if (f->size && (!t->data || low < 0 || high > UINTPTR_MAX || high - low > INT64_MAX ||
                    (wide) f->size * lanes > (wide) 1 << 40 || extent > (uint64_t) 1 << 40 ||
                    before + behind + 1 > (wide) 1 << 40))
        return;
    f->good = true;
}

static void place(source *s, fuzzed *f, bool wild) {
    wide before = 0, behind = 0;
    uint64_t room = 0, at = 0;
    judge_type(f);
    bool fits = f->tensor.ndim >= 0 && f->tensor.ndim <= 64 && judge_shape(f, &before, &behind);
    wide bytes = (before + behind + 1) * (wide) f->element;
    if (fits && bytes <= MEMORY) {
        room = MEMORY - (uint64_t) bytes;
        at = one_of(s, 3) ? room : one_of(s, 2) ? 0 : below(s, room + 1); /* at an end, or not */
        if (f->element && one_of(s, 2))
            at -= ((uintptr_t) memory + at) % f->element <= at
                      ? ((uintptr_t) memory + at) % f->element
                      : 0;
        at += (uint64_t) before * f->element;
    }
    f->tensor.byte_offset = one_of(s, 3) ? below(s, 300) : 0;
    f->tensor.data = memory + at - f->tensor.byte_offset;
    if (wild && one_of(s, 4))
        f->tensor.byte_offset = (uint64_t) any_number(s);
    if (wild && one_of(s, 6))
        f->tensor.data = (void *) (uintptr_t) (one_of(s, 2) ? 0 : any_number(s));
}

static void make_tensor(source *s, fuzzed *f) {
    bool wild = one_of(s, 4);
    f->options = (jit_import_options) JIT_IMPORT_OPTIONS;
    f->options.backend = support_backend();
    f->options.copy = (int) below(s, 3) - 1;
    f->legacy = one_of(s, 3);
    f->major = wild && one_of(s, 8) ? (uint32_t) take(s, 4) : 1;
    f->minor = (uint32_t) take(s, 1);
    f->flags = take(s, 1) & (one_of(s, 2) ? 7 : 255);
    f->tensor.device = (DLDevice) {kDLCPU, 0};
    if (wild && one_of(s, 8)) {
        int32_t type = (int32_t) take(s, 1);
        if (type != kDLCUDA && type != kDLCUDAHost && type != kDLCUDAManaged)
            memcpy(&f->tensor.device.device_type, &type, sizeof type);
    }
    if (f->legacy)
        f->flags = 0;
    make_type(s, f, wild);
    make_dimensions(s, f, wild);
    place(s, f, wild);
    f->tensor.shape = f->no_shape ? NULL : f->shape;
    f->tensor.strides = f->no_strides ? NULL : f->strides;
    judge(f);
}

/* ---- Elements ---- */

/* Where element i of the variable is, of raw bytes byte i. */
static char *address(const fuzzed *f, uint64_t i) {
    uint64_t byte = f->raw ? i % f->raw : 0, rest = f->raw ? i / f->raw : i;
    int64_t at = 0;
    for (int k = f->tensor.ndim; k-- > 0;) {
        at += (int64_t) (rest % (uint64_t) f->shape[k]) * stride_of(f, k);
        rest /= (uint64_t) f->shape[k];
    }
    return (char *) f->tensor.data + f->tensor.byte_offset + at * (int64_t) f->element + byte;
}

static bool same_element(const fuzzed *f, const char *got, const char *expected) {
    return memcmp(got, expected, f->raw ? 1 : f->element) == 0;
}

/* Bytes other than 0 and 1 are true as well. */
static bool is_bool(const fuzzed *f) {
    return !f->raw && f->tensor.dtype.code == kDLBool;
}

static uint64_t lanes(const fuzzed *f) {
    return f->size * (f->raw ? f->raw : 1);
}

static void check_read(const fuzzed *f, jit_var v) {
    size_t n = lanes(f), element = f->raw ? 1 : f->element;
    char *got = malloc(n * element + 1);
    CHECK(got && jit_read(v, got) == JIT_OK);
    for (size_t i = 0; i < n; ++i)
        CHECK(is_bool(f) ? got[i] == (*address(f, i) != 0)
                         : same_element(f, got + i * element, address(f, i)));
    free(got);
}

/* The library's own loop, without a kernel. */
static void check_pack(const fuzzed *f) {
    jitc_tensor_in in;
    size_t n = lanes(f), element = f->raw ? 1 : f->element;
    char *got = malloc(n * element + 1);
    CHECK(got &&
          jitc_tensor_read("fuzz", &f->tensor, f->flags, f->options.raw_bytes, &in) == JIT_OK);
    jitc_tensor_pack(&in, got);
    for (size_t i = 0; i < n; ++i)
        CHECK(memcmp(got + i * element, address(f, i), element) == 0);
    free(got);
}

static void check_shape(const fuzzed *f, jit_var v) {
    CHECK(jit_size(v) == lanes(f) && jit_var_ndim(v) == f->ndim && jit_var_shape(v));
    for (int k = 0; k < f->tensor.ndim; ++k)
        CHECK(jit_var_shape(v)[k] == f->shape[k]);
    CHECK(!f->raw || jit_var_shape(v)[f->ndim - 1] == (int64_t) f->raw);
}

/* As it was, where it was, unless it had to be copied. */
static void check_export(const fuzzed *f, jit_var v, bool in_place) {
    DLManagedTensorVersioned *out;
    CHECK(jit_export_dlpack(v, NULL, &out) == JIT_OK);
    const DLTensor *t = &out->dl_tensor;
    bool immutable = f->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
    size_t n = lanes(f), element = f->raw ? 1 : f->element;
    CHECK(t->ndim == f->ndim);
    CHECK(!in_place || (out->flags & DLPACK_FLAG_BITMASK_READ_ONLY) == immutable);
    for (size_t i = 0; i < n; ++i) {
        size_t rest = i;
        const char *at = (const char *) t->data + t->byte_offset;
        for (int k = t->ndim; k-- > 0; rest /= (size_t) t->shape[k])
            at += (int64_t) (rest % (size_t) t->shape[k]) * t->strides[k] * (int64_t) element;
        CHECK(!in_place || at == address(f, i));
        CHECK(support_backend() == JIT_CUDA || (is_bool(f) && !*at == !*address(f, i)) ||
              same_element(f, at, address(f, i)));
    }
    out->deleter(out);
}

/* ---- One tensor ---- */

static void delete_versioned(DLManagedTensorVersioned *t) {
    atomic_fetch_add(&((fuzzed *) t->manager_ctx)->deleted, 1);
    memset(t, 0xa5, sizeof *t);
}
static void delete_legacy(DLManagedTensor *t) {
    atomic_fetch_add(&((fuzzed *) t->manager_ctx)->deleted, 1);
    memset(t, 0xa5, sizeof *t);
}

static jit_status import(fuzzed *f, DLManagedTensorVersioned *versioned, DLManagedTensor *legacy,
                         jit_var *v) {
    *versioned =
        (DLManagedTensorVersioned) {{f->major, f->minor}, f, delete_versioned, f->flags, f->tensor};
    *legacy = (DLManagedTensor) {f->tensor, f, delete_legacy};
    return f->legacy ? jit_import_dlpack_legacy(legacy, &f->options, v)
                     : jit_import_dlpack(versioned, &f->options, v);
}

static void use(source *s, fuzzed *f, jit_var v, bool in_place) {
    CHECK(v);
    check_shape(f, v);
    if (lanes(f) > READ_AT_MOST || !f->reachable)
        return;
    if (f->size)
        check_pack(f);
    if (one_of(s, 3))
        check_export(f, v, in_place);
    if (one_of(s, EVALUATE_ONE_OF))
        check_read(f, v);
    CHECK(atomic_load(&f->deleted) <= 1);
}

/* Must the elements be copied? */
static bool is_copied(const fuzzed *f) {
    uintptr_t first = (uintptr_t) f->tensor.data + f->tensor.byte_offset;
    bool crooked = !f->raw && first % f->element;
    return f->size && (crooked || support_backend() == JIT_CUDA);
}

static void run(source *s, fuzzed *f) {
    DLManagedTensorVersioned versioned;
    DLManagedTensor legacy;
    jit_var v = 0;
    bool copied = f->good && is_copied(f);
    bool touched = copied || f->options.copy == JIT_COPY_ALWAYS;
    bool large = f->good && lanes(f) > COPY_AT_MOST;
    if (f->good && (!f->reachable || large) && touched) /* it would fail in a way of its own */
        f->options.copy = JIT_COPY_NEVER;
    bool succeeds = f->good && !(copied && f->options.copy == JIT_COPY_NEVER);
    jit_status status = import(f, &versioned, &legacy, &v);
    CHECK((status == JIT_OK) == succeeds);
    CHECK((v != 0) == succeeds && jit_error_status() == status);
    CHECK(succeeds || atomic_load(&f->deleted) == 1);
    if (succeeds)
        use(s, f, v,
            !copied && f->options.copy != JIT_COPY_ALWAYS && f->options.backend == JIT_LLVM);
    jit_unref(v);
    jit_error_clear();
    CHECK(jit_sync_all_devices() == JIT_OK);
    CHECK(atomic_load(&f->deleted) == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    source s = {data, data + size};
    fuzzed f = {0};
    if (!memory) {
        map_memory();
        CHECK(jit_init(support_backend()) == JIT_OK);
    }
    make_tensor(&s, &f);
    run(&s, &f);
    return 0;
}

#ifndef FUZZ_LIBFUZZER
enum { BYTES = 400 };

static void one(uint64_t seed) {
    uint8_t bytes[BYTES];
    for (size_t i = 0; i < BYTES; ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t) (seed >> 56);
    }
    LLVMFuzzerTestOneInput(bytes, BYTES);
}

int main(int count, char **arguments) {
    long seconds = count > 1 ? atol(arguments[1]) : 10;
    uint64_t seed = count > 2 ? strtoull(arguments[2], NULL, 10) : 1, first = seed;
    time_t end = time(NULL) + seconds;
    do {
        if (seed % 1000 == 0 || !seconds)
            fprintf(stderr, "fuzz_dlpack: seed %llu\n", (unsigned long long) seed);
        one(seed++);
    } while (time(NULL) < end);
    jit_shutdown();
    printf("fuzz_dlpack: %llu tensors, from seed %llu on\n", (unsigned long long) (seed - first),
           (unsigned long long) first);
    return 0;
}
#endif
