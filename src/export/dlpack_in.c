#include "export/dlpack_in.h"
#include "core/error.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- types ---- */

static const char *const code_names[] = {"int",
                                         "uint",
                                         "float",
                                         "opaque handle",
                                         "bfloat",
                                         "complex",
                                         "bool",
                                         "float8_e3m4",
                                         "float8_e4m3",
                                         "float8_e4m3b11fnuz",
                                         "float8_e4m3fn",
                                         "float8_e4m3fnuz",
                                         "float8_e5m2",
                                         "float8_e5m2fnuz",
                                         "float8_e8m0fnu",
                                         "float6_e2m3fn",
                                         "float6_e3m2fn",
                                         "float4_e2m1fn"};

typedef struct known_type {
    uint8_t code, bits;
    jit_dtype type;
} known_type;

static const known_type known[] = {
    {kDLBool, 8, JIT_bool},    {kDLInt, 8, JIT_i8},     {kDLInt, 16, JIT_i16},
    {kDLInt, 32, JIT_i32},     {kDLInt, 64, JIT_i64},   {kDLUInt, 8, JIT_u8},
    {kDLUInt, 16, JIT_u16},    {kDLUInt, 32, JIT_u32},  {kDLUInt, 64, JIT_u64},
    {kDLFloat, 16, JIT_f16},   {kDLFloat, 32, JIT_f32}, {kDLFloat, 64, JIT_f64},
    {kDLBfloat, 16, JIT_bf16},
};

static jit_status fail_type(const char *function, DLDataType d, const char *why) {
    char name[32];
    if (d.code < sizeof code_names / sizeof *code_names)
        snprintf(name, sizeof name, "%s", code_names[d.code]);
    else
        snprintf(name, sizeof name, "code %u", d.code);
    return jitc_fail(JIT_UNSUPPORTED, "%s: elements of %u x %u bits of type %s: %s", function,
                     d.lanes, d.bits, name, why);
}

/* *raw: bytes of an element that is to be taken as so many bytes; 0: it is of our type *out. */
static jit_status read_type(const char *function, DLDataType d, uint64_t flags, bool raw_bytes,
                            jit_dtype *out, uint64_t *raw) {
    *raw = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (d.code == known[i].code && d.bits == known[i].bits && d.lanes == 1) {
            *out = known[i].type;
            return JIT_OK;
        }
    if (!raw_bytes)
        return fail_type(function, d,
                         "there is no such type here; the option raw_bytes imports "
                         "the bytes");
    bool padded = flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
    uint64_t bits = (padded ? (d.bits + 7u) / 8 * 8 : d.bits) * (uint64_t) d.lanes;
    if (!bits || bits % 8)
        return fail_type(function, d, "these are not whole bytes");
    *out = JIT_u8;
    *raw = bits / 8;
    return JIT_OK;
}

/* ---- dimensions ---- */

static jit_status read_shape(const char *function, const DLTensor *t, jitc_tensor_in *out) {
    bool none = false, many = false;
    uint64_t n = 1;
    for (int k = 0; k < t->ndim; ++k) {
        if (t->shape[k] < 0)
            return jitc_fail(JIT_INVALID_ARGUMENT, "%s: dimension %d has size %" PRId64, function,
                             k, t->shape[k]);
        out->shape[k] = t->shape[k];
        none |= t->shape[k] == 0;
        many |= __builtin_mul_overflow(n, (uint64_t) t->shape[k], &n);
    }
    if (many && !none)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: more elements than 64 bits can count",
                         function);
    out->size = none ? 0 : n;
    return JIT_OK;
}

/* Strides where there are none: of a row-major array. Sizes of 0 count as 1; numbers that are too
 * large can only be those of an array without elements. */
static int64_t row_major(const jitc_tensor_in *t, int k, int64_t behind) {
    int64_t n = k + 1 < t->ndim ? t->shape[k + 1] : 1, product;
    return __builtin_mul_overflow(behind, n ? n : 1, &product) ? behind : product;
}

static void read_strides(const DLTensor *from, jitc_tensor_in *t) {
    int64_t plain = 1;
    t->compact = true;
    for (int k = t->ndim; k-- > 0;) {
        plain = row_major(t, k, plain);
        bool means_nothing = !from->strides || !t->size || t->shape[k] == 1;
        t->strides[k] = means_nothing ? plain : from->strides[k];
        t->compact &= t->strides[k] == plain;
    }
}

static jit_status fail_extent(const char *function) {
    return jitc_fail(JIT_INVALID_ARGUMENT,
                     "%s: shape, strides and byte_offset reach beyond what addresses can name",
                     function);
}

__extension__ typedef __int128 wide;

/* Where the elements lie. `bytes`: of an element. */
static jit_status find_extent(const char *function, const DLTensor *from, uint64_t bytes,
                              jitc_tensor_in *t) {
    wide low = (wide) (uintptr_t) from->data + from->byte_offset;
    wide high = low + (wide) bytes;
    t->first = (char *) (uintptr_t) ((uintptr_t) from->data + from->byte_offset);
    t->low = t->first;
    t->bytes = 0;
    if (!t->size)
        return JIT_OK;
    for (int k = 0; k < t->ndim; ++k) {
        wide span = (wide) (t->shape[k] - 1) * t->strides[k];
        if (span > INT64_MAX || span < -INT64_MAX)
            return fail_extent(function);
        *(span < 0 ? &low : &high) += span * (wide) bytes;
    }
    if (low < 0 || high > UINTPTR_MAX || high - low > INT64_MAX)
        return fail_extent(function);
    t->low = (char *) (uintptr_t) low;
    t->bytes = (size_t) (high - low);
    return JIT_OK;
}

/* The bytes of an element are one more dimension. */
static jit_status split_elements(const char *function, uint64_t bytes, jitc_tensor_in *t) {
    if (t->ndim == JITC_TENSOR_NDIM)
        return jitc_fail(JIT_UNSUPPORTED,
                         "%s: %d dimensions, and one more for the bytes of an element; there can "
                         "be %d",
                         function, t->ndim, JITC_TENSOR_NDIM);
    if (__builtin_mul_overflow(t->size, bytes, &t->size)) /* strides of 0 */
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: more bytes than 64 bits can count", function);
    for (int k = 0; k < t->ndim; ++k)
        if (__builtin_mul_overflow(t->strides[k], (int64_t) bytes, &t->strides[k]))
            t->strides[k] = 0; /* of an array without elements */
    t->shape[t->ndim] = (int64_t) bytes;
    t->strides[t->ndim++] = 1;
    return JIT_OK;
}

jit_status jitc_tensor_read(const char *function, const DLTensor *t, uint64_t flags, bool raw_bytes,
                            jitc_tensor_in *out) {
    uint64_t raw;
    if (t->ndim < 0 || t->ndim > JITC_TENSOR_NDIM)
        return jitc_fail(t->ndim < 0 ? JIT_INVALID_ARGUMENT : JIT_UNSUPPORTED,
                         "%s: %d dimensions; there can be 0 to %d", function, t->ndim,
                         JITC_TENSOR_NDIM);
    if (t->ndim && !t->shape)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: %d dimensions, but shape is NULL", function,
                         t->ndim);
    TRY(read_type(function, t->dtype, flags, raw_bytes, &out->type, &raw));
    out->ndim = t->ndim;
    TRY(read_shape(function, t, out));
    if (out->size && !t->data)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: %" PRIu64 " elements, but data is NULL",
                         function, out->size);
    read_strides(t, out);
    TRY(find_extent(function, t, raw ? raw : jitc_dtypes[out->type].bytes, out));
    return raw ? split_elements(function, raw, out) : JIT_OK;
}

/* ---- elements ---- */

/* How many elements follow each other in memory, at least; *outer: dimensions before these. */
static uint64_t run_of(const jitc_tensor_in *t, int *outer) {
    int64_t run = 1;
    int k = t->ndim;
    while (k > 0 && (t->shape[k - 1] == 1 || t->strides[k - 1] == run))
        run *= t->shape[--k];
    *outer = k;
    return (uint64_t) run;
}

/* The next coordinates in row-major order of the first `ndim` dimensions; *offset follows. */
static void step(const jitc_tensor_in *t, int ndim, int64_t *at, int64_t *offset) {
    for (int k = ndim; k-- > 0;) {
        *offset += t->strides[k];
        if (++at[k] < t->shape[k])
            return;
        *offset -= t->shape[k] * t->strides[k];
        at[k] = 0;
    }
}

void jitc_tensor_pack(const jitc_tensor_in *t, void *to) {
    int64_t at[JITC_TENSOR_NDIM] = {0}, offset = 0, element = jitc_dtypes[t->type].bytes;
    char *out = to;
    int outer;
    if (!t->size)
        return;
    uint64_t run = run_of(t, &outer);
    size_t bytes = run * (size_t) element;
    for (uint64_t done = 0; done < t->size; done += run, out += bytes) {
        memcpy(out, t->first + offset * element, bytes);
        step(t, outer, at, &offset);
    }
}
