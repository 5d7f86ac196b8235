/* view.h: looking into a DLTensor: how many elements it has, where each lies, what it touches.
 * Compiles as C17 and as C++17, behind any dlpack.h since 0.6, which has to be included before it.
 *
 * Everything is static and inline: nothing has to be linked. The functions read the struct, its
 * `ndim` sizes and strides, and never the elements, so the memory may be that of any device; but
 * for jit_view_init() they write nothing of the tensor. They trust no number in it: what cannot be
 * is answered by -1, 0, false or NULL, as each function says. A shape cannot be if there are fewer
 * than 0 or more than JIT_VIEW_DIMS dimensions, a size is negative, there is no shape for the
 * dimensions, or the elements are more than INT64_MAX. Strides may be NULL: then the elements lie
 * row by row without gaps. */
#ifndef JIT_VIEW_H
#define JIT_VIEW_H
#ifndef DLPACK_DLPACK_H_
#    error "jit/view.h needs DLTensor: include dlpack.h before it (https://github.com/dmlc/dlpack)"
#else
#    include <jit/base.h>
#    include <stdio.h>

#    ifdef __cplusplus
extern "C" {
#    endif

#    define JIT_VIEW_DIMS 64 /**< The most dimensions that are looked at. */

/** The jit_dtype that has the same elements; -1 if there is none. */
static inline int jit_view_type(DLDataType type) {
    static const struct {
        uint8_t code, bits;
    } rows[] = {{6, 8},  {0, 8},  {1, 8},  {0, 16}, {1, 16}, {0, 32}, {1, 32},
                {0, 64}, {1, 64}, {2, 16}, {4, 16}, {2, 32}, {2, 64}}; /* as in jit_dtype */
    for (int k = 0; k <= JIT_f64; ++k)
        if (type.lanes == 1 && type.code == rows[k].code && type.bits == rows[k].bits)
            return k;
    return -1;
}

/** The other direction; no bits and no lanes for a value that is no jit_dtype. */
static inline DLDataType jit_view_dltype(jit_dtype type) {
    static const uint8_t codes[] = {6, 0, 1, 0, 1, 0, 1, 0, 1, 2, 4, 2, 2};
    static const uint8_t bits[] = {8, 8, 8, 16, 16, 32, 32, 64, 64, 16, 16, 32, 64};
    DLDataType result = {0, 0, 0};
    int k = (int) type;
    if (k >= 0 && k <= JIT_f64) {
        result.code = codes[k];
        result.bits = bits[k];
        result.lanes = 1;
    }
    return result;
}

/** Print the name of a type into `text`, cut to `size` bytes: "f32", "bool", "c64" (a complex
 * number of two f32), "f8_e4m3fn", "f32x4" (four lanes), "code200_16" (nobody knows). Returns its
 * length, as snprintf() does. */
static inline int jit_view_type_text(DLDataType type, char *text, size_t size) {
    static const struct {
        const char *name, *format;
    } codes[] = {{"i", ""},         {"u", ""},
                 {"f", ""},         {"opaque", ""},
                 {"bf", ""},        {"c", ""},
                 {"bool", ""},      {"f", "_e3m4"},
                 {"f", "_e4m3"},    {"f", "_e4m3b11fnuz"},
                 {"f", "_e4m3fn"},  {"f", "_e4m3fnuz"},
                 {"f", "_e5m2"},    {"f", "_e5m2fnuz"},
                 {"f", "_e8m0fnu"}, {"f", "_e2m3fn"},
                 {"f", "_e3m2fn"},  {"f", "_e2m1fn"}};
    char bits[16] = "", lanes[16] = "", whole[64];
    int length;
    if (type.code != 6 || type.bits != 8) /* "bool" is one byte */
        snprintf(bits, sizeof bits, "%u", (unsigned) type.bits);
    if (type.lanes != 1)
        snprintf(lanes, sizeof lanes, "x%u", (unsigned) type.lanes);
    if (type.code >= sizeof codes / sizeof *codes)
        length = snprintf(whole, sizeof whole, "code%u_%s%s", (unsigned) type.code, bits, lanes);
    else
        length = snprintf(whole, sizeof whole, "%s%s%s%s", codes[type.code].name, bits,
                          codes[type.code].format, lanes);
    for (size_t k = 0; k < size && length >= 0; ++k) {
        text[k] = k + 1 < size ? whole[k] : '\0';
        if (!text[k])
            break;
    }
    return length;
}

/** Bytes of one element; 0 for types that do not fill whole bytes (f4, f6) or have no bits. */
static inline int64_t jit_view_element_bytes(const DLTensor *t) {
    int64_t bits = (int64_t) t->dtype.bits * t->dtype.lanes;
    return bits % 8 == 0 ? bits / 8 : 0;
}

/** Number of elements: 1 without dimensions; -1 for a shape that cannot be. */
static inline int64_t jit_view_count(const DLTensor *t) {
    int64_t count = 1;
    bool empty = false, huge = false;
    if (t->ndim < 0 || t->ndim > JIT_VIEW_DIMS || (t->ndim > 0 && !t->shape))
        return -1;
    for (int k = 0; k < t->ndim; ++k) {
        if (t->shape[k] < 0)
            return -1;
        empty = empty || t->shape[k] == 0;
        huge = huge || __builtin_mul_overflow(count, t->shape[k], &count);
    }
    return empty ? 0 : huge ? -1 : count;
}

/** Bytes that the elements take without gaps; those of f4 and f6 share bytes. -1 for a shape that
 * cannot be, a type without bits, or more than INT64_MAX. */
static inline int64_t jit_view_bytes(const DLTensor *t) {
    int64_t count = jit_view_count(t), bits = (int64_t) t->dtype.bits * t->dtype.lanes, bytes;
    if (count < 0 || bits == 0 || __builtin_mul_overflow(count / 8, bits, &bytes) ||
        __builtin_add_overflow(bytes, (count % 8 * bits + 7) / 8, &bytes))
        return -1;
    return bytes;
}

/** Write the strides, in elements, of an array that lies row by row without gaps; empty dimensions
 * count as 1. False, with some of them written, for a shape that cannot be. */
static inline bool jit_view_compact_strides(int ndim, const int64_t *shape, int64_t *strides) {
    int64_t stride = 1;
    if (ndim < 0 || ndim > JIT_VIEW_DIMS || (ndim > 0 && !shape))
        return false;
    for (int k = ndim - 1; k >= 0; --k) {
        strides[k] = stride;
        if (shape[k] < 0 || __builtin_mul_overflow(stride, shape[k] ? shape[k] : 1, &stride))
            return false;
    }
    return true;
}

/** Do the elements lie row by row without gaps? The stride of a dimension of size 1 does not
 * matter, nor do those of an empty tensor. False for a shape that cannot be. */
static inline bool jit_view_is_contiguous(const DLTensor *t) {
    int64_t count = jit_view_count(t), stride = 1;
    if (count <= 0 || !t->strides)
        return count >= 0;
    for (int k = t->ndim - 1; k >= 0; --k) {
        if (t->shape[k] != 1 && t->strides[k] != stride)
            return false;
        stride *= t->shape[k]; /* divides count */
    }
    return true;
}

/** Sets *address to where the element lies that is `offset` elements behind the first one; false if
 * no address counts so far. Whether there is such an element is not asked. */
static inline bool jit_view_address(const DLTensor *t, int64_t offset, uintptr_t *address) {
    uintptr_t first;
    int64_t bytes;
    return !__builtin_add_overflow((uintptr_t) t->data, t->byte_offset, &first) &&
           !__builtin_mul_overflow(offset, jit_view_element_bytes(t), &bytes) &&
           !__builtin_add_overflow(first, bytes, address);
}

/** The element at index[0 ... ndim - 1]: its address, on the tensor's device. NULL if an index lies
 * outside (negative ones are not counted from the end), if there are no data, or if elements do not
 * fill whole bytes. `index` may be NULL if there are no dimensions. */
static inline void *jit_view_at(const DLTensor *t, const int64_t *index) {
    int64_t offset = 0, compact = 1, part;
    uintptr_t address;
    if (jit_view_count(t) <= 0 || jit_view_element_bytes(t) == 0 || !t->data)
        return NULL;
    for (int k = t->ndim - 1; k >= 0; --k) {
        if (index[k] < 0 || index[k] >= t->shape[k] ||
            __builtin_mul_overflow(index[k], t->strides ? t->strides[k] : compact, &part) ||
            __builtin_add_overflow(offset, part, &offset))
            return NULL;
        compact *= t->shape[k]; /* divides the number of elements */
    }
    return jit_view_address(t, offset, &address) ? (void *) address : NULL;
}

/** Which bytes the elements touch, whatever the signs of the strides: *lowest is the first of them,
 * *end comes behind the last one. Both are the address of `data` and byte_offset if there are no
 * elements. False for a shape or an address that cannot be, more than INT64_MAX bytes, elements
 * without data, a type without bits, and strides over elements that do not fill whole bytes. */
static inline bool jit_view_extent(const DLTensor *t, uintptr_t *lowest, uintptr_t *end) {
    int64_t count = jit_view_count(t), size = jit_view_element_bytes(t), low = 0, high = 0, part;
    if (count < 0 || (count > 0 && !t->data))
        return false;
    if (jit_view_is_contiguous(t)) {
        int64_t bytes = jit_view_bytes(t);
        return bytes >= 0 && jit_view_address(t, 0, lowest) &&
               !__builtin_add_overflow(*lowest, bytes, end);
    }
    for (int k = 0; k < t->ndim; ++k) {
        int64_t *side = t->strides[k] < 0 ? &low : &high;
        if (__builtin_mul_overflow(t->shape[k] - 1, t->strides[k], &part) ||
            __builtin_add_overflow(*side, part, side))
            return false;
    }
    return size > 0 && jit_view_address(t, low, lowest) && jit_view_address(t, high, end) &&
           !__builtin_add_overflow(*end, size, end) && *end - *lowest <= INT64_MAX;
}

/** Make *t describe memory of the caller: elements of `type` row by row from `data` on, on the CPU
 * (set t->device for another one). `shape` has `ndim` sizes; `strides` has as many places, which
 * are written. Both arrays stay the caller's and have to live as long as *t, as the memory has.
 * False, with *t as it was, for a shape or a type that cannot be, and for elements without data. */
static inline bool jit_view_init(DLTensor *t, void *data, jit_dtype type, int ndim, int64_t *shape,
                                 int64_t *strides) {
    DLTensor made;
    uintptr_t lowest, end;
    made.data = data;
    made.device.device_type = kDLCPU;
    made.device.device_id = 0;
    made.ndim = ndim;
    made.dtype = jit_view_dltype(type);
    made.shape = shape;
    made.strides = strides;
    made.byte_offset = 0;
    if (!jit_view_compact_strides(ndim, shape, strides) || !jit_view_extent(&made, &lowest, &end))
        return false;
    *t = made;
    return true;
}

#    ifdef __cplusplus
}
#    endif
#endif
#endif
