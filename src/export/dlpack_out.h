/* dlpack_out.h: a tensor of DLPack, and what it holds: a loan of a buffer, or host memory of its
 * own.  Layer: export.  May include: core, ir, device.
 *
 * One block of the heap holds all of it. Consumers write into the public part: MLX puts strides of
 * its own there and takes them away again. So nothing is found through that part but the block,
 * by manager_ctx. */
#ifndef JITC_EXPORT_DLPACK_OUT_H
#define JITC_EXPORT_DLPACK_OUT_H
#include "core/error.h"
#include "device/lend.h"
#include "export/dlpack_abi.h"

/** What a tensor says of itself. */
typedef struct jitc_tensor {
    void *data;
    DLDevice device;
    jit_dtype type;
    int ndim;
    const int64_t *shape;   /* of a product that an int64_t can hold */
    const int64_t *strides; /* NULL: compact, row-major */
    bool legacy;            /* of the struct without version and flags */
    uint32_t minor;         /* version 1.minor */
    uint64_t flags;         /* DLPACK_FLAG_BITMASK_... */
} jitc_tensor;

typedef struct jitc_export {
    jitc_lent loan; /* first: it owns the block, once it has begun */
    bool lent;      /* it has */
    union {
        DLManagedTensorVersioned versioned;
        DLManagedTensor legacy;
    } tensor;          /* what the consumer gets */
    void *own;         /* host memory, or NULL */
    int64_t extents[]; /* shape, then strides */
} jitc_export;

/** Make the tensor, whose deleter ends what `lent` and `own` say. JIT_OUT_OF_MEMORY. */
jit_status jitc_export_create(const jitc_tensor *t, jitc_export **out);
/** What the deleter does. Any thread, under no lock. NULL is ignored. */
void jitc_export_destroy(jitc_export *e);
#endif
