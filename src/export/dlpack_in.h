/* dlpack_in.h: what a tensor of somebody else says, checked.  Layer: export.
 * May include: core, ir, device.
 *
 * Pure: looks at the tensor's numbers only, never at its elements, and asks no driver. */
#ifndef JITC_EXPORT_DLPACK_IN_H
#define JITC_EXPORT_DLPACK_IN_H
#include "export/dlpack_abi.h"
#include "ir/ir.h"

enum { JITC_TENSOR_NDIM = 64 };
#ifndef DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
#    define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2UL)
#endif

/** Elements that can be. Strides count elements; where a dimension has one, and if there are no
 * elements at all, they are those of a row-major array, as they mean nothing. */
typedef struct jitc_tensor_in {
    jit_dtype type;
    int ndim;
    int64_t shape[JITC_TENSOR_NDIM], strides[JITC_TENSOR_NDIM];
    uint64_t size; /* elements */
    bool compact;  /* row-major, one behind the other */
    char *first;   /* element; if there is none whatever the tensor says */
    char *low;     /* byte ... */
    size_t bytes;  /* ... and how many from there to the end of the highest element */
} jitc_tensor_in;

/** Read and check a tensor of the major version 1. `flags` are those of the managed tensor, of
 * which bits that are not known (of later minor versions) change nothing. `raw_bytes`: types that
 * there are not become u8, with one dimension more. JIT_UNSUPPORTED for a type or for too many
 * dimensions, JIT_INVALID_ARGUMENT for what cannot be; messages begin with `function`. */
jit_status jitc_tensor_read(const char *function, const DLTensor *t, uint64_t flags, bool raw_bytes,
                            jitc_tensor_in *out);
/** Copy the elements to `to` in row-major order; they have to be in host memory. */
void jitc_tensor_pack(const jitc_tensor_in *t, void *to);
#endif
